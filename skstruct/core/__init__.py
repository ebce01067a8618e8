"""Compiled operations: the basis of structures, losses and solvers.

:func:`kernel` compiles, :mod:`~skstruct.core.oracles` defines the operations of structures, and
weights are tables that rows of features are multiplied by.
"""

from . import oracles
from .features import DenseFeatures, SparseFeatures, add_outer, scores
from .jit.dispatch import generic, inner_kernel, kernel
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
