"""Structured prediction (CRFs and structural SVMs) as scikit-learn estimators."""

__version__ = "0.1.0"

import gc as _gc
from importlib import import_module as _import_module

TYPE_CHECKING = False  # type checkers take it for true; the module typing takes a while to import
if TYPE_CHECKING:
    from .core.versions import show_versions
    from .data.ragged import RaggedArray
    from .data.rules import AtLeastOnce, AtMostOnce, Before, Exactly, Pattern
    from .decoding import decode, fit_transitions, log_partition, marginals, sample, top_k
    from .estimators import (
        BCFWSSVM,
        GDMMSSVM,
        SAGCRF,
        CasimirSSVM,
        ExtragradientSSVM,
        ProxLinearSSVM,
        SubgradientSSVM,
    )
    from .estimators.calibration import TemperatureScaling
    from .estimators.exporting import export
    from .estimators.smoothed import SmoothedClassifier
    from .graphs import (
        Boxes,
        Candidates,
        Chain,
        Grid,
        Lattice,
        Matching,
        MultiClass,
        MultiLabel,
        Pairwise,
        SemiChain,
        Tree,
        WordLattice,
    )
    from .online import OnlineDecoder

__all__ = [
    "BCFWSSVM",
    "GDMMSSVM",
    "SAGCRF",
    "AtLeastOnce",
    "AtMostOnce",
    "Before",
    "Boxes",
    "Candidates",
    "CasimirSSVM",
    "Chain",
    "Exactly",
    "ExtragradientSSVM",
    "Grid",
    "Lattice",
    "Matching",
    "MultiClass",
    "MultiLabel",
    "OnlineDecoder",
    "Pairwise",
    "Pattern",
    "ProxLinearSSVM",
    "RaggedArray",
    "SemiChain",
    "SmoothedClassifier",
    "SubgradientSSVM",
    "TemperatureScaling",
    "Tree",
    "WordLattice",
    "decode",
    "export",
    "fit_transitions",
    "log_partition",
    "marginals",
    "sample",
    "show_versions",
    "top_k",
]

_GRAPHS = {
    *("Boxes", "Candidates", "Chain", "Grid", "Lattice", "Matching"),
    *("MultiClass", "MultiLabel", "Pairwise", "SemiChain", "Tree", "WordLattice"),
}
_RULES = {"AtLeastOnce", "AtMostOnce", "Before", "Exactly", "Pattern"}
_OF_ARRAYS = {"decode", "fit_transitions", "log_partition", "marginals", "sample", "top_k"}
_HOME = {
    **dict.fromkeys(__all__, "estimators"),
    **dict.fromkeys(_GRAPHS, "graphs"),
    **dict.fromkeys(_RULES, "data.rules"),
    "OnlineDecoder": "online",
    "RaggedArray": "data.ragged",
    **dict.fromkeys(_OF_ARRAYS, "decoding"),
    "SmoothedClassifier": "estimators.smoothed",
    "TemperatureScaling": "estimators.calibration",
    "export": "estimators.exporting",
    "show_versions": "core.versions",
}
# Subpackages that may be used without an import of their own.
_ROOMS = {
    *("callbacks", "core", "data", "datasets", "decoding", "estimators", "graphs", "inference"),
    *("inspection", "lite", "losses", "map_inference", "metrics", "model_selection"),
    *("online", "pipeline", "preprocessing", "scores", "shards", "solvers", "testing"),
}


def _load(room):
    """Import a module of the package."""
    # A third of the import would go to collections that find nothing in what numba has loaded.
    collecting = _gc.isenabled()
    _gc.disable()
    try:
        return _import_module(f"{__name__}.{room}")
    finally:
        if collecting:
            _gc.enable()


if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _ROOMS:
            return _load(name)
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(_load(_HOME[name]), name)
        return value


def __dir__():
    return sorted({*__all__, *_ROOMS, *(name for name in globals() if name.startswith("__"))})
