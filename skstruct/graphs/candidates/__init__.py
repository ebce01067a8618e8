"""Sets of candidates, one of which is right: the public class, and the kernels of its verbs."""

from .graph import Candidates

__all__ = ["Candidates"]
