"""What graphs of labelled nodes and pairwise edges share."""

from .fields import PairwiseGraph
from .verbs import PairwiseProblem, blocks

__all__ = ["PairwiseGraph", "PairwiseProblem", "blocks"]
