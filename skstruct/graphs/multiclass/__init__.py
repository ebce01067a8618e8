"""Single nodes: the public class, and the kernels of its verbs."""

from .graph import MultiClass

__all__ = ["MultiClass"]
