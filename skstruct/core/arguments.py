"""Checks of arguments."""

from __future__ import annotations

import inspect
import math
import sys
import warnings
from numbers import Integral, Real

import numpy as np

from .sklearn_private import InvalidParameterError

_LARGEST = sys.float_info.max  # integers may be larger
_LARGEST_INTEGER = 2.0**53


def check_integer(name, value, low=1):
    """An integer, of at least `low` unless that is None."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or (low is not None and value < low):
        least = "" if low is None else f" of at least {low}"
        raise InvalidParameterError(f"{name} must be an integer{least}, got {value!r}")
    return int(value)


def check_real(name, value, low=0, *, positive=False, finite=True):
    """A number of at least `low`, or above 0."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    is_large = is_real and (value > 0 if positive else value >= low)
    if not is_large or (finite and value > _LARGEST):
        number = "a finite number" if finite else "a number"
        expected = "a positive number" if positive else f"{number} of at least {low:g}"
        raise InvalidParameterError(f"{name} must be {expected}, got {value!r}")
    return float(value) if value <= _LARGEST else math.inf


def integers(values, name):
    """An array of integers, from numbers of any kind that are integral."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise TypeError(f"{name} must be integers in an array: {error}") from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "f" and (array == np.trunc(array)).all():
        if not (np.abs(array) < _LARGEST_INTEGER).all():
            raise ValueError(f"{name} must be integers below 2**53, got {np.abs(array).max()}")
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got an array of {array.dtype}")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be integers below 2**63, got {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int64)


def numbers(values, name):
    """An array of real numbers."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries: fill them or leave them out")
    try:
        is_complex = np.iscomplexobj(values)
        array = None if is_complex else np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be numbers in an array: {error}") from None
    if is_complex:
        raise TypeError(f"{name} must be real numbers, got complex ones")
    return np.ascontiguousarray(array)


def check_choice(name, value, choices):
    """A parameter that must be one of some names."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}; got {value!r}")
    return value


# Frames between a user's line and the package's, including decorators and pipelines.
_BETWEEN = ("skstruct", "sklearn", "contextlib", "functools", "joblib")


def warn_user(text, category=UserWarning):
    """Warn with the location of the user's line, not of the cause inside the package."""
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def check_flag(name, value):
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return bool(value)
