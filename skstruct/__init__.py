"""Structured prediction (CRFs and structural SVMs) as scikit-learn estimators."""

from .crf import SAGCRF
from .graphs.chain import Chain
from .graphs.multiclass import MultiClass
from .graphs.multilabel import MultiLabel
from .graphs.tree import Tree
from .ragged import RaggedArray
from .ssvm import BCFWSSVM, GDMMSSVM, CasimirSSVM, SubgradientSSVM

__version__ = "0.1.0"

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
]
