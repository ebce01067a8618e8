"""Structures, one file each, and base classes of users' structures."""

from ..core.problem import Problem
from ..rows.blocks import OwnRows
from ..spaces.chain import SequenceSpace
from ..spaces.labels import LabelSpace, NodeSpace
from ..spaces.n_best import max_marginals_by_maxima, n_best_scratch, top_k_by_max_marginals
from ..spaces.pairwise import PairwiseSpace
from ..targets.costs import NodeCosts
from .base import Graph
from .boxes import Boxes
from .candidates import Candidates
from .chain import Chain
from .lattice import Lattice
from .matching import Matching
from .multiclass import MultiClass
from .multilabel import MultiLabel
from .nodes import NodeGraph
from .pairwise import Grid, Pairwise, PairwiseGraph
from .semichain import SemiChain
from .tree import Tree
from .words import WordLattice

__all__ = [
    "Boxes",
    "Candidates",
    "Chain",
    "Graph",
    "Grid",
    "LabelSpace",
    "Lattice",
    "Matching",
    "MultiClass",
    "MultiLabel",
    "NodeCosts",
    "NodeGraph",
    "NodeSpace",
    "OwnRows",
    "Pairwise",
    "PairwiseGraph",
    "PairwiseSpace",
    "Problem",
    "SemiChain",
    "SequenceSpace",
    "Tree",
    "WordLattice",
    "max_marginals_by_maxima",
    "n_best_scratch",
    "top_k_by_max_marginals",
]
