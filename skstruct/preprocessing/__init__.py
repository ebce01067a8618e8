"""Transformers of sequences: from tokens, columns and feature dicts to what estimators take."""

from .frames import frame_column
from .pernode import PerNode
from .sequences import SequenceVectorizer
from .template import TemplateVectorizer

__all__ = ["PerNode", "SequenceVectorizer", "TemplateVectorizer", "frame_column"]
