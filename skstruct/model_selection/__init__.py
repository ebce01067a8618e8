"""Model selection for structured outputs: tuning, comparison, cross-validated marginals."""

from .comparing import Comparison, compare
from .marginals import cross_val_marginals
from .tuning import TuneResult, tune

__all__ = ["Comparison", "TuneResult", "compare", "cross_val_marginals", "tune"]
