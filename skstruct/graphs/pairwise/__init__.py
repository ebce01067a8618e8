"""Graphs of labelled nodes and pairwise edges, images among them."""

from .base import PairwiseGraph
from .graph import Networks, Pairwise, grid_edges
from .grid import Grid

__all__ = [
    "Grid",
    "Networks",
    "Pairwise",
    "PairwiseGraph",
    "grid_edges",
]
