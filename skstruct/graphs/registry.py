"""The structures that have names, and which one data are taken for when none is given."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from sklearn.base import clone

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
    """Return the structure that X and y look like."""
    if is_structured(X):
        return Chain()
    return MultiLabel() if is_indicator(y) else MultiClass()


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
