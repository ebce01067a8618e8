"""Structural support vector machines."""

from .bcfw import BCFWSSVM, bcfw_path
from .casimir import CasimirSSVM
from .extragradient import ExtragradientSSVM
from .gdmm import GDMMSSVM
from .prox_linear import ProxLinearSSVM
from .subgradient import SubgradientSSVM

__all__ = [
    "BCFWSSVM",
    "GDMMSSVM",
    "CasimirSSVM",
    "ExtragradientSSVM",
    "ProxLinearSSVM",
    "SubgradientSSVM",
    "bcfw_path",
]
