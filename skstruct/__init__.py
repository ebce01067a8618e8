"""Structured prediction (CRFs and structural SVMs) as scikit-learn estimators."""

__version__ = "0.1.0"

import gc as _gc

# A third of the import would go to collections that find nothing in what numba has loaded.
_collecting = _gc.isenabled()
_gc.disable()
try:
    from .crf import SAGCRF
    from .data.ragged import RaggedArray
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
    from .ssvm import (
        BCFWSSVM,
        GDMMSSVM,
        CasimirSSVM,
        ExtragradientSSVM,
        ProxLinearSSVM,
        SubgradientSSVM,
    )
    from .versions import show_versions
finally:
    if _collecting:
        _gc.enable()

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
