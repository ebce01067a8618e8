"""Structures: one file each for the public class and for its kernels."""

from .base import Graph
from .chain.graph import Chain
from .multiclass.graph import MultiClass
from .multilabel.graph import MultiLabel
from .pairwise.fields import PairwiseGraph
from .tree.graph import Tree

__all__ = ["Chain", "Graph", "MultiClass", "MultiLabel", "PairwiseGraph", "Tree"]
