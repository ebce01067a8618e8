"""Structural support vector machines."""

from .bcfw import BCFWSSVM, bcfw_path
from .casimir import CasimirSSVM
from .subgradient import SubgradientSSVM

__all__ = ["BCFWSSVM", "CasimirSSVM", "SubgradientSSVM", "bcfw_path"]
