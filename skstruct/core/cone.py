"""Weights in a cone: one linear form that is nonnegative on each row of the pair table.

With multipliers ``nu_r >= 0`` any dual points m_i give the lower bound::

    (1/n) sum_i s_i c_i(m_i) - lam/2 |q + nu a|^2,   q = -1/(lam n) sum_i s_i A_i' (m_i - mu(y_i))

whose best ``nu`` makes ``w = q + nu a`` the projection of q.
"""

from typing import NamedTuple

import numpy as np

from .jit.kernels import kernel

# Rounding error of a sum of a few products, plus one for each edge feature.
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
_ROUNDING_OF_ROW = 4.0 * float(np.finfo(np.float64).eps)


class Cone(NamedTuple):
    """One half-space per row of the pair table; no constraint without coefficients."""

    # (n_columns or 0,): The vector a.
    coefficients: np.ndarray
    # (n_rows or 0,): nu, for methods that store them.
    multipliers: np.ndarray
    # ``|a|^2``.
    square: float
    # Least value required of a row, relative to the terms of ``<a, w_r>``: sums of rows that are
    # nonnegative in exact arithmetic then are so in floating point, too.
    margin: float


#: No constraint.
NO_CONE = Cone(np.zeros(0), np.zeros(0), 1.0, 0.0)


def make_cone(coefficients, n_rows: int) -> Cone:
    """The cone of a pair table."""
    if coefficients is None:
        return NO_CONE
    a = np.array(coefficients, dtype=np.float64)
    # With one coefficient there is no rounding.
    margin = _ROUNDING + n_rows * _ROUNDING_OF_ROW if a.size > 1 else 0.0
    return Cone(a, np.zeros(n_rows), float(a @ a), margin)


@kernel
def project_rows(cone, w, ratio, keep):
    """Project the pair rows of `w`; with multipliers, those of `w` without them."""
    a, lazy = cone.coefficients, w.scale.shape[0] > 0
    half = w.pair.shape[1] // 2
    s, b = 1.0, 0.0
    if lazy:
        s, b = w.scale[0], w.scale[1]
    for row in range(w.pair.shape[0] if a.shape[0] > 0 else 0):
        total, size = 0.0, 0.0
        for k in range(a.shape[0]):
            term = a[k] * s * w.pair[row, k]
            if lazy:
                term += a[k] * b * w.pair[row, half + k]
            total += term
            size += abs(term)
        change = (cone.margin * size - total) / cone.square
        least = -cone.multipliers[row] if keep == 1 else 0.0
        if change <= least:
            change = least
        if keep == 1:
            cone.multipliers[row] += change
        if change != 0.0:
            for k in range(a.shape[0]):
                if lazy:
                    w.pair[row, k] += (1.0 - b * ratio) / s * change * a[k]
                    w.pair[row, half + k] += ratio * change * a[k]
                else:
                    w.pair[row, k] += change * a[k]


def settle(cone: Cone, w) -> None:
    """Project weights, without multipliers."""
    if cone.coefficients.size:
        project_rows(cone, w, 0.0, 0)
