"""Label sets: the public class, and the kernels of its verbs."""

from .graph import MultiLabel

__all__ = ["MultiLabel"]
