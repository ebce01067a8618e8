"""Transformers: from tokens, columns, feature dicts, sentence pairs, images to samples."""

from .alignment import AlignmentFeatures
from .frames import frame_column
from .localisation import BoxProposals, PatchWords
from .pernode import PerNode
from .sequences import SequenceVectorizer
from .template import TemplateVectorizer
from .union import SequenceUnion, make_sequence_union

__all__ = [
    "AlignmentFeatures",
    "BoxProposals",
    "PatchWords",
    "PerNode",
    "SequenceUnion",
    "SequenceVectorizer",
    "TemplateVectorizer",
    "frame_column",
    "make_sequence_union",
]
