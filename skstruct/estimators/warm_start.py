"""Weights to start from: those of labels and features still present, or random ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import warn_user
from ..core.weights import Weights
from ..data.matrices import row_squares
from ..scores import LinearMap

_ROWS = 1 << 16  # copied at once


class CannotWarmStart(Exception):
    """Error if nothing of an earlier fit can be reused, with the reason."""


def warn_of_restart(text) -> None:
    """Warn the user of a fit that weights start from scratch."""
    warn_user(f"warm_start: {text}")


def match_columns(before, now, n_before: int, n_now: int, what: str = "features"):
    """For each feature where it was: by name, without names by position."""
    if before is not None and now is not None and before != now:
        known = before.positions()
        names = now.strings()
        if len(known) == n_before and len(set(names)) == n_now:
            return np.fromiter((known.get(name, -1) for name in names), np.int64, n_now)
    if n_before != n_now:
        raise CannotWarmStart(
            f"X has {n_now} {what}, in the previous fit it had {n_before}, and without names in "
            "both fits they cannot be matched: training starts from scratch"
        )
    return np.arange(n_now)


class _Blocks(NamedTuple):
    """Layout of the rows of a node table."""

    n_features: int
    n_ends: int
    has_intercept: bool

    @property
    def n_rows(self):
        return self.n_features + self.n_ends + self.has_intercept


def _node_rows(features, before, now):
    """For each row of the node table where it was: features, then ends, then the intercept."""
    ends = before.n_features + np.arange(now.n_ends)
    if before.n_ends != now.n_ends:
        ends[:] = -1
    last = [before.n_rows - 1 if before.has_intercept else -1] * now.has_intercept
    return np.concatenate([features, ends, np.array(last, dtype=np.int64)])


def _is_same(kept, n_before):
    return kept.size == n_before and np.array_equal(kept, np.arange(n_before))


def remap_table(old: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A table with the entries of an old one in other places, zeros elsewhere."""
    if _is_same(rows, old.shape[0]) and _is_same(columns, old.shape[1]):
        return old
    new = np.zeros((rows.size, columns.size))
    here, there = np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0)
    for first in range(0, here.size, _ROWS):
        some = here[first : first + _ROWS]
        new[np.ix_(some, there)] = old[np.ix_(rows[some], columns[there])]
    return new


def matched_weights(model, previous, old: Weights, shapes, intercepts) -> Weights:
    """The weights of an earlier fit in the places that they have in a new one."""
    graph, before = model.graph_, previous.graph_
    if type(graph) is not type(before):
        raise CannotWarmStart(
            f"the structure was {type(before).__name__}, now it is {type(graph).__name__}: "
            "training starts from scratch"
        )
    names = [vars(one).get("_feature_names") for one in (previous, model)]
    features = match_columns(*names, previous.n_features_in_, model.n_features_in_)
    classes, classes_before = model.classes_, previous.classes_
    if model.states_ is not model.classes_ or previous.states_ is not previous.classes_:
        classes, classes_before = (
            one.graph_.hidden_states(one.classes_).names(one.classes_, apart=True)
            for one in (model, previous)
        )
    columns, pair_columns = graph.kept_columns(before, classes, classes_before)
    if not (columns >= 0).any():
        raise CannotWarmStart("no label of the previous fit is left: training starts from scratch")
    blocks = [
        _Blocks(one.n_features_in_, one.graph_.n_end_rows, bool(has))
        for one, has in zip((previous, model), intercepts, strict=True)
    ]
    rows = _node_rows(features, *blocks)
    if columns.size != shapes[0][1]:
        raise CannotWarmStart(
            f"kept_columns of {type(graph).__name__} is of {columns.size} columns, its node table "
            f"has {shapes[0][1]}: training starts from scratch"
        )
    if (blocks[0].n_rows, rows.size, columns.size) != (old.node.shape[0], *shapes[0]):
        raise CannotWarmStart(
            f"the weight tables of {type(graph).__name__} have other shapes: training starts from "
            "scratch"
        )
    node = remap_table(old.node, rows, columns)
    pair = _kept_pairs(model, previous, old.pair, shapes[1], pair_columns)
    return Weights(node, pair)


def _kept_pairs(model, previous, old, shape, columns):
    """The pair table, of zeros where nothing is known of it."""
    if 0 in shape:
        return np.zeros(shape)
    try:
        rows = _pair_rows(model, previous)
    except CannotWarmStart as reason:
        warn_of_restart(f"{reason} for the weights of edges")
        return np.zeros(shape)
    fits = columns is not None and (rows.size, columns.size) == shape
    if not fits or max(rows.max(), -1) >= old.shape[0] or columns.max() >= old.shape[1]:
        same = old.shape == shape and np.array_equal(model.classes_, previous.classes_)
        if columns is not None and same:  # of a structure that says nothing of its tables
            return old
        warn_of_restart("the pairs that share weights have changed: those weights start from 0")
        return np.zeros(shape)
    return remap_table(old, rows, columns)


def _pair_rows(model, previous):
    numbers = [getattr(one, "n_edge_features_in_", None) for one in (previous, model)]
    if None not in numbers:
        names = [vars(one).get("_edge_feature_names") for one in (previous, model)]
        kept = match_columns(*names, *numbers, "edge features")
    elif numbers == [None, None]:
        kept, numbers = np.zeros(1, dtype=np.int64), [1, 1]
    else:
        raise CannotWarmStart(
            "edges have features in one of the two fits only: training starts from scratch"
        )
    return model.graph_.kept_pair_rows(previous.graph_, kept, numbers[0])


def first_weights(model, previous, shapes) -> Weights | None:
    """Return the weights from which a primal solver starts warm; None for a cold start."""
    if not hasattr(previous, "node_weights_"):
        return None
    previous._refuse_bad_weights()
    intercepts = previous._has_intercept, model._has_intercept
    try:
        return matched_weights(model, previous, previous._weights(), shapes, intercepts)
    except CannotWarmStart as reason:
        warn_of_restart(reason)
        return None


def first_map_weights(model, previous, first: NamedTuple) -> NamedTuple:
    """Return the parameters of a score map from which a fit starts, warm if they match."""
    if not hasattr(previous, "score_params_"):
        return first
    names = [vars(one).get("_feature_names") for one in (previous, model)]
    old = type(first)(*(getattr(previous, name) for name in model._tables))
    previous._refuse_bad_weights()
    same = (
        type(model.graph_) is type(previous.graph_)
        and np.array_equal(model.classes_, previous.classes_)
        and repr(model.score_map_) == repr(previous.score_map_)
        and (None in names or names[0] == names[1])
        and [table.shape for table in first] == [table.shape for table in old]
    )
    if same:
        return old
    maps = previous.score_map_, model.score_map_
    try:
        if not all(isinstance(one, LinearMap) for one in maps):
            raise CannotWarmStart(
                "the score map, features or labels have changed: training starts from scratch"
            )
        return _kept_linear(model, previous, old, first)
    except CannotWarmStart as reason:
        warn_of_restart(reason)
        return first


def _kept_linear(model, previous, old, first):
    """Match parameters of linear maps: a node table without its end rows."""
    before, now = previous.score_map_, model.score_map_
    features, constants = before.tables(old[0])
    has = [one.shape_[0] > one.n_features_in_ for one in (before, now)]
    node = np.concatenate([features, old[1], constants[None][: has[0]]])
    n, ends = now.n_features_in_, len(first[1])
    shape = n + ends + has[1], now.shape_[1]
    kept = matched_weights(model, previous, Weights(node, old[2]), (shape, first[2].shape), has)
    params = np.concatenate([kept.node[:n], kept.node[n + ends :]])
    return type(first)(params.ravel(), kept.node[n : n + ends].copy(), kept.pair)


__all__ = [
    "CannotWarmStart",
    "first_map_weights",
    "first_weights",
    "match_columns",
    "matched_weights",
    "remap_table",
    "warn_of_restart",
]


def drawn_weights(samples: Any, shapes: tuple, rng: np.random.Generator) -> Weights:
    """Random weights under which scores are of size 1: at 0 the states of a label are alike."""
    node, pair = (rng.normal(size=shape) for shape in shapes)
    size = np.sqrt(row_squares(samples.features).mean())
    return Weights(node / (size if size > 0.0 else 1.0), pair)
