"""Graphs with cycles, and images."""

from .graph import Networks, Pairwise
from .grid import Grid
from .inputs import grid_edges

__all__ = ["Grid", "Networks", "Pairwise", "grid_edges"]
