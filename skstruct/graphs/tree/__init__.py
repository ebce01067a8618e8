"""Trees: the public class, and the kernels of its verbs."""

from .graph import Tree

__all__ = ["Tree"]
