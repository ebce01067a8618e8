"""The names of scikit-learn that are not public, imported only here."""

from collections.abc import Callable
from numbers import Integral
from typing import Protocol, TypeVar

from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, InvalidParameterError, Options
from sklearn.utils._param_validation import StrOptions as _StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

_Method = TypeVar("_Method")


class _Decorator(Protocol):
    def __call__(self, method: _Method, /) -> _Method: ...


# scikit-learn has no annotations: without this, type checkers do not know the result of `fit`.
fit_context: Callable[..., _Decorator] = _fit_context


class StrOptions(_StrOptions):
    """Strings that messages list in alphabetical order: the order of a set varies by process."""

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


#: Values of ``n_jobs``.
N_JOBS = [
    None,
    Interval(Integral, 1, None, closed="left"),
    Interval(Integral, None, -1, closed="right"),
]


__all__ = [
    "N_JOBS",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "safe_indexing",
]
