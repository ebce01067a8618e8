"""Transformers of sequences: from tokens, columns and feature dicts to what estimators take."""

from .frames import frame_column
from .pernode import PerNode
from .sequences import SequenceVectorizer
from .template import TemplateVectorizer
from .union import SequenceUnion, make_sequence_union

__all__ = [
    "PerNode",
    "SequenceUnion",
    "SequenceVectorizer",
    "TemplateVectorizer",
    "frame_column",
    "make_sequence_union",
]
