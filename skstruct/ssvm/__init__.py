"""Structural support vector machines."""

from .bcfw import BCFWSSVM, bcfw_path
from .casimir import CasimirSSVM
from .gdmm import GDMMSSVM
from .subgradient import SubgradientSSVM

__all__ = ["BCFWSSVM", "GDMMSSVM", "CasimirSSVM", "SubgradientSSVM", "bcfw_path"]
