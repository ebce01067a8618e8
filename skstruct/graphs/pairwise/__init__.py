"""Graphs of labelled nodes and pairwise edges, images among them, and how each is decoded."""

from .graph import Networks, Pairwise, grid_edges
from .grid import Grid
from .verbs import PairwiseGraph, PairwiseProblem, blocks

__all__ = [
    "Grid",
    "Networks",
    "Pairwise",
    "PairwiseGraph",
    "PairwiseProblem",
    "blocks",
    "grid_edges",
]
