"""Chains: the public class, and the kernels of its verbs."""

from .graph import Chain
from .kernels import SequenceProblem

__all__ = ["Chain", "SequenceProblem"]
