"""Structured prediction (CRFs and structural SVMs) as scikit-learn estimators."""

__version__ = "0.1.0"

import gc as _gc

# A third of the import would go to collections that find nothing in what numba has loaded.
_collecting = _gc.isenabled()
_gc.disable()
try:
    from .core.versions import show_versions
    from .data.ragged import RaggedArray
    from .estimators import (
        BCFWSSVM,
        GDMMSSVM,
        CasimirSSVM,
        ExtragradientSSVM,
        ProxLinearSSVM,
        SubgradientSSVM,
    )
    from .estimators.crf import SAGCRF
    from .estimators.persistence import answer_to_old_names as _answer_to_old_names
    from .graphs import (
        Boxes,
        Candidates,
        Chain,
        Grid,
        Matching,
        MultiClass,
        MultiLabel,
        Pairwise,
        Tree,
    )
finally:
    if _collecting:
        _gc.enable()

_answer_to_old_names()

__all__ = [
    "BCFWSSVM",
    "GDMMSSVM",
    "SAGCRF",
    "Boxes",
    "Candidates",
    "CasimirSSVM",
    "Chain",
    "ExtragradientSSVM",
    "Grid",
    "Matching",
    "MultiClass",
    "MultiLabel",
    "Pairwise",
    "ProxLinearSSVM",
    "RaggedArray",
    "SubgradientSSVM",
    "Tree",
    "show_versions",
]
