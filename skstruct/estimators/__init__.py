"""Estimators, and the parts of fit and predict."""

from .crf import SAGCRF, crf_path
from .svm_bcfw import BCFWSSVM, bcfw_path
from .svm_casimir import CasimirSSVM
from .svm_extragradient import ExtragradientSSVM
from .svm_gdmm import GDMMSSVM
from .svm_prox_linear import ProxLinearSSVM
from .svm_subgradient import SubgradientSSVM

__all__ = [
    "BCFWSSVM",
    "GDMMSSVM",
    "SAGCRF",
    "CasimirSSVM",
    "ExtragradientSSVM",
    "ProxLinearSSVM",
    "SubgradientSSVM",
    "bcfw_path",
    "crf_path",
]
