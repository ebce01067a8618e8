"""Which pairs of labels share a weight."""

from __future__ import annotations

import numpy as np

INTERACTIONS = "full", "symmetric", "potts"


def check_interactions(interactions: str) -> None:
    """Refuse names that are none."""
    if interactions not in INTERACTIONS:
        raise ValueError(f"interactions must be one of {INTERACTIONS}, got {interactions!r}")


def attraction(interactions: str) -> np.ndarray:
    """How much a table of two labels favours equal ones, as a linear form of its entries."""
    columns = pair_columns(interactions, 2)
    coefficients = np.zeros(columns.max() + 1)
    for column, sign in zip(columns.flat, (1.0, -1.0, -1.0, 1.0), strict=True):
        if column >= 0:
            coefficients[column] += sign
    return coefficients


def pair_columns(interactions: str, n_classes: int) -> np.ndarray:
    """Column of the pair table for each pair of labels."""
    if interactions == "full":
        return np.arange(n_classes**2, dtype=np.int32).reshape(n_classes, n_classes)
    if interactions == "potts":
        return np.eye(n_classes, dtype=np.int32) - 1
    columns = np.empty((n_classes, n_classes), dtype=np.int32)
    upper = np.triu_indices(n_classes)
    columns[upper] = np.arange(len(upper[0]))
    columns.T[upper] = columns[upper]
    return columns
