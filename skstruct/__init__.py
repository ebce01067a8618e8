"""Structured prediction (CRFs and structural SVMs) as scikit-learn estimators."""

__version__ = "0.1.0"

from .crf import SAGCRF
from .data.ragged import RaggedArray
from .graphs import Chain, MultiClass, MultiLabel, Tree
from .ssvm import BCFWSSVM, GDMMSSVM, CasimirSSVM, SubgradientSSVM
from .versions import show_versions

__all__ = [
    "BCFWSSVM",
    "GDMMSSVM",
    "SAGCRF",
    "CasimirSSVM",
    "Chain",
    "MultiClass",
    "MultiLabel",
    "RaggedArray",
    "SubgradientSSVM",
    "Tree",
    "show_versions",
]
