"""Checks of arguments, for functions that are called from Python."""

from __future__ import annotations

from numbers import Integral


def check_integer(name, value, low):
    """An integer of at least `low`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer of at least {low}, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    return int(value)
