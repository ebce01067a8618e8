"""Transformers: from tokens, columns, feature dicts, sentence pairs to what estimators take."""

from .alignment import AlignmentFeatures
from .frames import frame_column
from .pernode import PerNode
from .sequences import SequenceVectorizer
from .template import TemplateVectorizer
from .union import SequenceUnion, make_sequence_union

__all__ = [
    "AlignmentFeatures",
    "PerNode",
    "SequenceUnion",
    "SequenceVectorizer",
    "TemplateVectorizer",
    "frame_column",
    "make_sequence_union",
]
