"""The names of scikit-learn that are not public, imported here and nowhere else."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = ["Interval", "Options", "StrOptions", "check_sample_weight", "fit_context"]
