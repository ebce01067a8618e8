"""Compiled operations: the basis of structures, losses and solvers."""

from . import oracles
from .features import DenseFeatures, SparseFeatures, add_outer, scores
from .jit.dispatch import generic
from .jit.kernels import inner_kernel, kernel
from .jit.solver_kernel import solver_kernel
from .weights import Weights

__all__ = [
    "DenseFeatures",
    "SparseFeatures",
    "Weights",
    "add_outer",
    "generic",
    "inner_kernel",
    "kernel",
    "oracles",
    "scores",
    "solver_kernel",
]
