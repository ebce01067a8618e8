"""Transformers: from tokens, columns, feature dicts, sentence pairs, images to samples."""

from .alignment import AlignmentFeatures
from .columns import frame_column
from .localisation import BoxProposals, PatchWords
from .pernode import PerNode
from .sequences import SequenceVectorizer, drop_unused_features, fit_vectorizer
from .template import TemplateVectorizer
from .tokens import TokenFeatures
from .union import SequenceUnion, make_sequence_union

__all__ = [
    "AlignmentFeatures",
    "BoxProposals",
    "PatchWords",
    "PerNode",
    "SequenceUnion",
    "SequenceVectorizer",
    "TemplateVectorizer",
    "TokenFeatures",
    "drop_unused_features",
    "fit_vectorizer",
    "frame_column",
    "make_sequence_union",
]
