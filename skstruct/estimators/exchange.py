"""Weights of linear chains as other programs hold them: checked, and by names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.constraints import transition_mask
from ..graphs.chain import Chain

#: Score of a step that may not occur: its exponential is 0, and no labelling makes up for it.
FORBIDDEN = -1e10


class LinearChain(NamedTuple):
    """Weights of a chain, those of its ends apart."""

    # Names of the features and of the labels.
    features: list
    labels: list
    # (n_features, n_labels)
    node: np.ndarray
    # (n_labels,): Of each node, of the first one, of the last one.
    intercept: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    # (edge features or 1, n_labels, n_labels)
    pair: np.ndarray


def linear_chain(model, program: str, *, edge_features: bool = False) -> LinearChain:
    """Return the weights of a fitted chain, or say why `program` cannot have them."""
    check_is_fitted(model)
    graph = model.graph_
    if type(graph) is not Chain:
        raise ValueError(
            f"{program} has linear chains alone, the structure of the model is {graph}"
        )
    if graph.edge_features and not edge_features:
        raise ValueError(f"{program} has no edge features: the model is one of {graph}")
    if graph.rules:
        raise ValueError(f"{program} has no rules: the model is one of {graph}")
    labels = model.classes_.tolist()
    other = next((label for label in labels if not isinstance(label, str)), None)
    if other is not None:
        raise ValueError(f"labels in a file of {program} are strings, the model has {other!r}")
    names = vars(model).get("_feature_names")
    if names is None:
        raise ValueError(
            f"a file of {program} has the names of features, this model does not: fit it on what a "
            "SequenceVectorizer (without hashing) or TemplateVectorizer puts out, or set "
            "feature_names_in_"
        )
    n, n_labels = model.n_features_in_, len(labels)
    if len(names) != n:
        raise ValueError(f"feature_names_in_ has {len(names)} names for {n} features")
    node, pair = model.node_weights_, model.pair_weights_.reshape(-1, n_labels, n_labels)
    if not (np.isfinite(node).all() and np.isfinite(pair).all()):
        raise ValueError("the model has weights that are not finite")
    mask = transition_mask(graph.forbidden, model.classes_)
    nothing, rest = np.zeros(n_labels), node[n:]
    intercept = rest[-1] if model._has_intercept else nothing
    ends = rest[:2] if graph.boundary else (nothing, nothing)
    start, stop = (
        np.where(np.isinf(never), FORBIDDEN, scores)
        for never, scores in zip((mask.start, mask.stop), ends, strict=True)
    )
    # The first row is that of the constant edge feature, if there are others.
    pair = np.concatenate([np.where(np.isinf(mask.pairs), FORBIDDEN, pair[:1]), pair[1:]])
    return LinearChain(names.strings(), labels, node[:n], intercept, start, stop, pair)


def as_bytes(strings: list, what: str, program: str) -> list[bytes]:
    """Names as different C strings of UTF-8; bytes that were no UTF-8 are what they were."""
    out, seen = [], set()
    for string in strings:
        try:
            name = string.encode("utf-8", errors="surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"{what} {string!r} has a surrogate, UTF-8 has none") from None
        if b"\0" in name:
            raise ValueError(f"{what} {string!r} has a NUL, where {program} ends a name")
        if name in seen:
            raise ValueError(f"{what} {string!r} is there twice in UTF-8")
        seen.add(name)
        out.append(name)
    return out


def merged(names: list, table: np.ndarray, program: str) -> tuple[list, np.ndarray]:
    """Each name once: features of one name, as "a/b" and "c" or "a" and "b/c", weigh the same."""
    first = {}
    for j, name in enumerate(names):
        k = first.setdefault(name, j)
        if k != j and not np.array_equal(table[j], table[k]):
            raise ValueError(
                f"two features of different weights are called {name!r}, and {program} tells them "
                "by names"
            )
    return [*first], table[[*first.values()]]
