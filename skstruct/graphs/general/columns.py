"""Which pairs of labels share a weight."""

from __future__ import annotations

import numpy as np

INTERACTIONS = "full", "symmetric", "potts"


def check_interactions(interactions: str) -> None:
    """Refuse names that are none.

    Parameters
    ----------
    interactions : str
        What the user gave.

    Raises
    ------
    ValueError
        If it is not one of `INTERACTIONS`.
    """
    if interactions not in INTERACTIONS:
        raise ValueError(f"interactions must be one of {INTERACTIONS}, got {interactions!r}")


def attraction(interactions: str) -> np.ndarray:
    """How much a table of two labels favours equal ones, as a linear form of its entries.

    Parameters
    ----------
    interactions : {"full", "symmetric", "potts"}
        Which pairs share a weight.

    Returns
    -------
    ndarray of shape (n_columns,)
        Coefficients of ``w(0, 0) + w(1, 1) - w(0, 1) - w(1, 0)``. Where that is not negative, cuts
        find best labellings (Kolmogorov and Zabih 2004, What energy functions can be minimized via
        graph cuts?, section 4).

    Examples
    --------
    >>> from skstruct.graphs.general.columns import attraction
    >>> attraction("symmetric").tolist(), attraction("potts").tolist()
    ([1.0, -2.0, 1.0], [2.0])
    """
    columns = pair_columns(interactions, 2)
    coefficients = np.zeros(columns.max() + 1)
    for column, sign in zip(columns.flat, (1.0, -1.0, -1.0, 1.0), strict=True):
        if column >= 0:
            coefficients[column] += sign
    return coefficients


def pair_columns(interactions: str, n_classes: int) -> np.ndarray:
    """Column of the pair table for each pair of labels.

    Parameters
    ----------
    interactions : {"full", "symmetric", "potts"}
        Which pairs share a weight.
    n_classes : int
        Number of labels.

    Returns
    -------
    ndarray of shape (n_classes, n_classes) of int32
        The columns; -1 for pairs that score 0.

    Examples
    --------
    >>> from skstruct.graphs.general.columns import pair_columns
    >>> pair_columns("symmetric", 2).tolist()
    [[0, 1], [1, 2]]
    """
    if interactions == "full":
        return np.arange(n_classes**2, dtype=np.int32).reshape(n_classes, n_classes)
    if interactions == "potts":
        return np.eye(n_classes, dtype=np.int32) - 1
    columns = np.empty((n_classes, n_classes), dtype=np.int32)
    upper = np.triu_indices(n_classes)
    columns[upper] = np.arange(len(upper[0]))
    columns.T[upper] = columns[upper]
    return columns
