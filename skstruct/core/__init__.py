"""The compiled calculus: what authors of structures, losses and solvers build on.

:func:`kernel` compiles, the verbs in :mod:`~skstruct.core.oracles` say what a structure can do, and
weights are tables that rows of features are multiplied with.
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
