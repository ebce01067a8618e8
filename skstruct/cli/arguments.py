"""Types of arguments; argparse calls them by their names in its messages."""

from __future__ import annotations


def number(text: str) -> float:
    """A finite number that is not negative."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


def positive_number(text: str) -> float:
    """A finite number above 0."""
    value = number(text)
    if value == 0:
        raise ValueError
    return value


def count(text: str) -> int:
    """An integer of at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def seed(text: str) -> int:
    """An integer that numpy takes for a seed."""
    value = int(text)
    if not 0 <= value < 2**32:
        raise ValueError
    return value


def n_threads(text: str) -> int:
    """A number of threads, or below 0 how many cores to leave out, as joblib counts them."""
    value = int(text)
    if value == 0:
        raise ValueError
    return value


n_threads.__name__ = "number of threads"
positive_number.__name__ = "positive number"
