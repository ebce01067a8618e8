"""Checks of what users pass to the methods."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

_LARGEST_INTEGER = 2.0**53


def integers(values, name):
    """An array of integers, of any kind of numbers that are whole."""
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
    if np.iscomplexobj(values):
        raise TypeError(f"{name} must be real numbers, got complex ones")
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be numbers in an array: {error}") from None
    return np.ascontiguousarray(array)


def check_real(name, value, low):
    """A number of at least `low`, perhaps inf."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number of at least {low:g}, got {value!r}")
    if not value >= low:
        raise ValueError(f"{name} must be a number of at least {low:g}, got {value!r}")
    return float(value) if value < 2**1000 else math.inf


def check_positive(name, value, zero=False, finite=True):
    """A parameter that must be a positive number, or also 0."""
    expected = "a number of at least 0" if zero else "a positive number"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {expected}, got {value!r}")
    if (finite and not math.isfinite(value)) or not (value >= 0 if zero else value > 0):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return float(value)


def check_choice(name, value, choices):
    """A parameter that must be one of some names."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}; got {value!r}")
    return value


def check_labels(labels, n_states, name):
    """A labelling."""
    labels = integers(labels, name)
    if labels.shape != n_states.shape:
        raise ValueError(
            f"{name} must have one label for each of {n_states.size} variables, got the shape "
            f"{labels.shape}"
        )
    wrong = (labels < 0) | (labels >= n_states)
    if wrong.any():
        v = int(np.argmax(wrong))
        raise ValueError(f"{name}: variable {v} has {n_states[v]} states, got label {labels[v]}")
    return labels


def check_duals(graph, duals):
    """Messages to start from."""
    if duals is None:
        return None
    duals = numbers(duals, "duals")
    size = int(graph.regions.message_ptr[-1])
    if duals.shape != (size,):
        raise ValueError(f"duals must have the shape ({size},), got {duals.shape}")
    if not np.isfinite(duals).all():
        place = int(np.argmin(np.isfinite(duals)))
        raise ValueError(f"duals must be finite, got {duals[place]} at position {place}")
    return duals


def check_flag(name, value):
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return bool(value)
