"""Structures: a file or a folder each, with the public class and the kernels of its problem."""

from .base import Graph
from .boxes import Boxes
from .candidates import Candidates
from .chain import Chain, SequenceProblem
from .matching import Matching
from .multiclass import MultiClass
from .multilabel import MultiLabel
from .n_best import max_marginals_by_maxima, n_best_scratch, top_k_by_max_marginals
from .pairwise import Grid, Pairwise, PairwiseGraph, PairwiseProblem
from .problem import NodeGraph, NodeProblem, Problem
from .tree import Tree

__all__ = [
    "Boxes",
    "Candidates",
    "Chain",
    "Graph",
    "Grid",
    "Matching",
    "MultiClass",
    "MultiLabel",
    "NodeGraph",
    "NodeProblem",
    "Pairwise",
    "PairwiseGraph",
    "PairwiseProblem",
    "Problem",
    "SequenceProblem",
    "Tree",
    "max_marginals_by_maxima",
    "n_best_scratch",
    "top_k_by_max_marginals",
]
