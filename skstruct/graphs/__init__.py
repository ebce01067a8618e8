"""Structures: one file each for the public class and for its kernels."""

from .base import Graph
from .chain import Chain
from .multiclass import MultiClass
from .multilabel import MultiLabel
from .pairwise import PairwiseGraph
from .tree import Tree

__all__ = ["Chain", "Graph", "MultiClass", "MultiLabel", "PairwiseGraph", "Tree"]
