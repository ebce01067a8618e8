"""Chains: the public class, and the kernels of its verbs."""

from .graph import Chain

__all__ = ["Chain"]
