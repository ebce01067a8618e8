"""What is asked of a score map before training."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import ScoreMap

# Products in float32 agree by this; a wrong sign or a forgotten term does not.
_AGREES = 1e-3


def guarded(array: Any) -> Any:
    """A view of an array that cannot be written to: maps get these, as rows may be the user's X."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def check_products(score_map: ScoreMap, params: np.ndarray, rows: Any, forward: bool) -> None:
    """Refuse a map that is not what it says: products with one Jacobian, rows for themselves."""
    name, rng = type(score_map).__name__, np.random.default_rng(0)
    there = score_map.linearise(guarded(params), rows)
    _check_scores_again(score_map, params, rows, there.scores)
    tangent, cotangent = rng.normal(size=params.shape), rng.normal(size=there.scores.shape)
    back = _product(there.vjp(guarded(cotangent)), params.shape, f"{name}.vjp")
    if not forward:
        return
    change = _product(there.jvp(guarded(tangent)), cotangent.shape, f"{name}.jvp")
    one, other = np.vdot(cotangent, change), np.vdot(back, tangent)
    size = _length(cotangent) * _length(change) + _length(back) * _length(tangent)
    if abs(one - other) > _AGREES * size:
        raise ValueError(f"score_map: jvp and vjp of {name} are not products with one Jacobian")


def _check_scores_again(score_map, params, rows, scores):
    """Of the last row alone where rows are for themselves, else of all."""
    name, last = type(score_map).__name__, max(rows.shape[0] - 1, 0) if score_map.rowwise else 0
    again = score_map.scores(guarded(params), rows[last:])
    if np.abs(again - scores[last:]).max(initial=0.0) <= _AGREES * np.abs(scores).max(initial=0.0):
        return
    if last:
        raise ValueError(
            f"score_map: {name} says rowwise=True, but a row alone has other scores than beside "
            "others: set rowwise=False"
        )
    raise ValueError(f"score_map: {name} gives other scores when it is asked again")


def _length(array):
    return float(np.linalg.norm(array))


def _product(found, shape, name):
    """The product, if it is one."""
    if np.shape(found) != shape:
        raise ValueError(f"score_map: {name} must return the shape {shape}, got {np.shape(found)}")
    if not np.isfinite(found).all():
        raise ValueError(f"score_map: {name} is not finite: are the features scaled?")
    return found
