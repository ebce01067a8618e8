"""The structures that have names, and which one data are taken for when none is given."""

from __future__ import annotations

import re
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core.arguments import warn_user
from ..core.typing import SamplesLike
from ..data.labels import is_indicator
from ..data.packing import is_structured
from .base import Graph
from .chain import Chain
from .multiclass import MultiClass
from .multilabel import MultiLabel

_NAMED = {"chain": Chain, "multiclass": MultiClass, "multilabel": MultiLabel}

#: Values of the parameter ``graph`` of an estimator, other than objects.
NAMES = frozenset({"auto", *_NAMED})


def recognise(X: SamplesLike, y: SamplesLike) -> Graph:
    """Return the structure that X and y look like; warns where they look like sequences, too."""
    if is_structured(X):
        return Chain()
    if is_indicator(y):
        if _shape(X) == _shape(y):
            warn_user(
                "graph='auto': X and y are of one shape, and read as features and label sets; for "
                "sequences with a number and a label for each node make each x of shape "
                "(n_nodes, 1), as x[:, None], and say graph='chain'; 'multilabel' silences this"
            )
        return MultiLabel()
    first = y[:_LOOKED_AT] if isinstance(y, (list, tuple, np.ndarray)) else ()
    tag = next((v for v in first if isinstance(v, str) and _CHUNK_TAG.match(v)), None)
    if tag is not None:
        warn_user(
            f"graph='auto': y has labels of chunks, such as {tag!r}, but each row of X is read as "
            "a sample without neighbours: give sequences as a list of arrays, or as "
            "RaggedArray(X, offsets); graph='multiclass' silences this"
        )
    return MultiClass()


_CHUNK_TAG = re.compile(r"[BI]-\S")
_LOOKED_AT = 1000


def _shape(values):
    return values.shape if hasattr(values, "shape") else np.shape(values)


def choose_graph(graph: Any, X: SamplesLike, y: SamplesLike) -> Graph:
    """Return a new object of the requested structure."""
    if isinstance(graph, Graph):
        return clone(graph)
    return recognise(X, y) if graph == "auto" else _NAMED[graph]()


def wrong_graph(graph: Any) -> str:
    """Return why the parameter ``graph`` of an estimator is invalid, or "" if it is valid."""
    if isinstance(graph, Graph) or (isinstance(graph, str) and graph in NAMES):
        return ""
    hint = "."
    if isinstance(graph, type) and issubclass(graph, Graph):
        hint = f": pass an object, {graph.__name__}(), not the class."
    elif isinstance(graph, Real):
        hint = f": the first parameter is the structure; did you mean C={graph!r}?"
    elif isinstance(graph, str):
        near = get_close_matches(graph.lower(), NAMES, n=1)
        hint = f": did you mean {near[0]!r}?" if near else "."
    names = ", ".join(map(repr, sorted(NAMES)))
    return (
        f"must be one of {names} or an object of a structure, such as Chain(), Tree(), Grid() or "
        f"Pairwise(). Got {graph!r} instead{hint}"
    )


def known_kind(graph: Any) -> Any:
    """Return the structure that `graph` stands for, or its class; None where the data decide."""
    if isinstance(graph, Graph):
        return graph
    return _NAMED.get(graph) if isinstance(graph, str) else None
