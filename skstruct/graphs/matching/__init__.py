"""Links between two sides of a sample: the public class, and the kernels of its verbs."""

from .graph import Matching

__all__ = ["Matching"]
