"""The names of scikit-learn that are not public or may change, imported only here."""

import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from numbers import Integral
from typing import Any, Protocol, TypeVar, get_args

from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, InvalidParameterError, Options
from sklearn.utils._param_validation import StrOptions as _StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples

try:  # experimental: without it, estimators have no callbacks
    from sklearn.callback import CallbackContext, CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackContext:
        """A task that nobody watches."""

        def subcontext(self, **options):
            """Return the context of a part of the task."""
            return self

        def call_on_fit_task_begin(self, **data):
            """Tell nobody."""

        def call_on_fit_task_end(self, **data):
            """Return that nobody wants to stop."""
            return False

    class CallbackSupportMixin:
        """Estimators without callbacks."""

        def set_callbacks(self, *callbacks):
            """Reject callbacks."""
            if callbacks:
                raise ImportError("callbacks need sklearn.callback of scikit-learn 1.9")
            return self

        def _init_callback_context(self, *task, **options):
            return CallbackContext()

    def with_callbacks(method):
        """Return the method."""
        return method


_Method = TypeVar("_Method")


class _Decorator(Protocol):
    def __call__(self, method: _Method, /) -> _Method: ...


# scikit-learn has no annotations: without this, type checkers do not know the result of `fit`.
fit_context: Callable[..., _Decorator] = _fit_context


class StrOptions(_StrOptions):
    """Strings that messages list in alphabetical order: the order of a set varies by process."""

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


@cache
def _documentation():
    """Address of the documentation, once pyproject.toml has one among its urls, else ""."""
    try:
        urls = metadata("skstruct").get_all("Project-URL") or ()
    except PackageNotFoundError:
        return ""
    return dict(url.split(", ") for url in urls).get("Documentation", "").rstrip("/")


class Documented:
    """Mixin of estimators whose HTML representation links to their page of the reference."""

    _doc_link_module = "skstruct"
    _doc_link_template = "{address}"

    def _doc_link_url_param_generator(self):
        name, home = type(self).__name__, ".".join(type(self).__module__.split(".")[:2])
        homes = [at for at in ("skstruct", home) if name in getattr(sys.modules[at], "__all__", ())]
        site = _documentation() if homes else ""
        return {"address": f"{site}/generated/{homes[0]}.{name}.html" if site else ""}


def choices(literal: Any) -> StrOptions:
    """Strings of the ``Literal`` that annotates a parameter, as its constraint."""
    return StrOptions(set(get_args(literal)))


#: The attribute with the callbacks of an estimator.
CALLBACKS = "_skl_callbacks"

#: Values of ``n_jobs``.
N_JOBS = [
    None,
    Interval(Integral, 1, None, closed="left"),
    Interval(Integral, None, -1, closed="right"),
]


__all__ = [
    "CALLBACKS",
    "N_JOBS",
    "CallbackContext",
    "CallbackSupportMixin",
    "Documented",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "check_sample_weight",
    "choices",
    "fit_context",
    "num_samples",
    "safe_indexing",
    "with_callbacks",
]
