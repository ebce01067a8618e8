"""What graphs of labelled nodes and pairwise edges share."""

from .fields import PairwiseGraph

__all__ = ["PairwiseGraph"]
