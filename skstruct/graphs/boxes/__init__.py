"""A box in an image: the public class, and the kernels of its verbs."""

from .graph import Boxes

__all__ = ["Boxes"]
