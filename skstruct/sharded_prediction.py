"""Answers of a fitted model on shards: one shard at a time, in place, in parallel if asked."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .data.labels import unseen_labels
from .data.packing import check_n_features, sample_of
from .shards.parts import relocated
from .shards.reading import Shard, Shards
from .shards.structure import fitting
from .solvers.rounds.engine import Engine
from .storage import TABLES

# Of a fitted model, what no prediction needs: it may be large.
_LEFT_OUT = {
    "_feature_names",
    "_edge_feature_names",
    "_dual",
    "_stream",
    "_skl_callbacks",
    "history_",
}


def by_shards(method):
    """Let a method whose answer has an entry a sample take Shards for X."""

    @functools.wraps(method)
    def call(self, X, *args, **kwargs):
        if not isinstance(X, Shards):
            return method(self, X, *args, **kwargs)
        given = inspect.signature(method).bind(self, X, *args, **kwargs).arguments
        if given.get("allowed") is not None:
            raise ValueError("allowed is for lists of samples: X must be one, not Shards")
        answers = _over_shards(self, X, _answer, method.__name__, args, kwargs)
        if isinstance(answers[0], tuple):
            return tuple(map(np.concatenate, zip(*answers, strict=True)))
        return np.concatenate(answers)

    return call


def _answer(model, shard, name, args, kwargs):
    return getattr(model, name)(shard, *args, **kwargs)


def read_shard(model: Any, X: Shard | Shards) -> Any:
    """The samples of a shard, for the part of a model that is for this shard."""
    if isinstance(X, Shards):
        raise TypeError("this method takes lists of samples, not Shards")
    if "_shard_classes" not in vars(model):
        raise TypeError("X must be Shards, not one of them: the model needs all features")
    return X.samples


def shard_codes(model: Any, shard: Shard, y: Any) -> np.ndarray:
    """Labels of a shard, as positions in the classes of the model."""
    if y is not None:
        raise ValueError("y is in the shards: it must be None")
    if shard.codes is None:
        raise ValueError("the shards have no labels")
    codes = _known_codes(model)[shard.codes]
    unseen = np.flatnonzero(codes < 0)
    if unseen.size:
        offsets = shard.samples.offsets
        i, label = sample_of(unseen[0], offsets), model._shard_classes[shard.codes[unseen[0]]]
        raise ValueError(
            f"y: unknown label {label.item()!r} (sample {i}, node {unseen[0] - offsets[i]})"
        )
    return codes


def _known_codes(model):
    """For each class of the shards that of the model, or -1."""
    classes = model._shard_classes
    one = np.array([0, classes.size])
    return model.graph_.encode(classes, model.classes_, one, unseen=-1)


def _over_shards(model, shards, function, *args):
    """Results of ``function(part of the model, shard, ...)`` on all shards."""
    check_is_fitted(model)
    _check_fit(model, shards)
    tables = model._weights()
    is_one = shards.n_shards == 1
    first = np.cumsum(shards.n_samples) - shards.n_samples

    with Engine(1 if is_one else model.n_jobs) as engine:
        # With one worker, threads share each shard, as they share the samples of a list.
        inner = model.n_jobs if engine.n_workers == 1 else 1

        def arguments(k):
            part = _part(model, tables, shards.columns(k))
            part.n_jobs, part._shard_classes = inner, shards.classes
            return part, shards, k, int(first[k]), function, *args

        return list(engine.map(_run, shards.n_shards, arguments))


def _run(part, shards, k, first, function, *args):
    """One shard, in whatever process this is."""
    try:
        return function(part, shards.open(k), *args)
    except (ValueError, FloatingPointError) as error:
        raise relocated(error, first) from None


def _check_fit(model, shards):
    """Refuse shards that are not of the kind that the model was trained on."""
    name = type(model).__name__
    if model._tables is not TABLES:
        raise TypeError(f"{name} does not take Shards: its scores are not linear in the features")
    fitting(shards.graph, model.graph_)
    check_n_features(shards.n_features_in_, model.n_features_in_, name)
    if shards.n_edge_features_in_ is not None:
        counts = shards.n_edge_features_in_, model.n_edge_features_in_
        check_n_features(*counts, name, "edge features")
    model._compare_names((shards.feature_names, shards.edge_feature_names))
    model._check_tables(model.graph_.no_samples(model))


def _part(model, tables, columns):
    """The model with the rows of the features that a shard uses."""
    part = type(model).__new__(type(model))
    vars(part).update({k: v for k, v in vars(model).items() if k not in _LEFT_OUT})
    part.node_weights_, part.pair_weights_ = tables.tables
    if columns is not None:
        rest = np.arange(model.n_features_in_, tables.node.shape[0])
        part.node_weights_ = tables.node[np.concatenate([columns, rest])]
        part.n_features_in_ = columns.size
    return part


def score_shards(model: Any, shards: Shards, y: Any, sample_weight: Any) -> float:
    """Share of the nodes of shards that are labelled right."""
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} is in the shards: it must be None")
    if shards.classes is None:
        raise ValueError(f"{shards} has no labels: there is no score")
    right, total, unseen = map(sum, zip(*_over_shards(model, shards, _count_right), strict=True))
    if unseen.any():
        labels, n_nodes = shards.classes[unseen > 0], shards.n_nodes.sum()
        warnings.warn(unseen_labels(labels, unseen.sum(), n_nodes), UserWarning, stacklevel=4)
    return float(right / total)


def _count_right(model, shard):
    """Weight of the nodes that are labelled right, that of all, and nodes of unseen labels."""
    samples, predicted = model._decode(shard)
    truth, weight = (
        _known_codes(model)[shard.codes],
        np.repeat(shard.sample_weight, samples.lengths),
    )
    unseen = np.bincount(shard.codes[truth < 0], minlength=model._shard_classes.size)
    return weight[predicted == truth].sum(), weight.sum(), unseen
