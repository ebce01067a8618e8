"""Graphs with cycles, and images."""

from .graph import Networks, Pairwise

__all__ = ["Networks", "Pairwise"]
