"""The structures that have names, and which one data are taken for when none is given."""

from __future__ import annotations

import re
from difflib import get_close_matches
from numbers import Real
from typing import Any, Literal, TypeAlias

from sklearn.base import clone

from ..core.arguments import warn_user
from ..core.typing import SamplesLike
from ..data.labels import is_indicator
from ..data.matrices import unwrapped
from ..data.packing import is_structured
from .base import Graph
from .chain import Chain
from .multiclass import MultiClass
from .multilabel import MultiLabel

_NAMED = {"chain": Chain, "multiclass": MultiClass, "multilabel": MultiLabel}

#: Values of the parameter ``graph`` of an estimator, other than objects.
NAMES = frozenset({"auto", *_NAMED})
GraphLike: TypeAlias = Graph | Literal["auto", "chain", "multiclass", "multilabel"]


def recognise(X: SamplesLike, y: SamplesLike) -> Graph:
    """Return the structure that X and y look like; warn where a table may be meant as sequences."""
    if is_structured(X):
        return Chain()
    graph = MultiLabel() if is_indicator(y) else MultiClass()
    if doubt := _doubt(X, y):
        name = type(graph).__name__.lower()
        warn_user(
            "graph='auto' reads X as a table, each row a sample of its own, without transitions "
            f"between rows, but {doubt}. If X is a table, pass graph={name!r}"
        )
    return graph


def _doubt(X, y):
    """Return why a table may be meant as sequences, and what to pass for these."""
    sequences = "for sequences pass a list of arrays (n_nodes, n_features)"
    if getattr(getattr(X, "index", None), "nlevels", 1) > 1:
        of_one = "[x for _, x in X.groupby(level=0)]"
        return f"X has an index of several levels: {sequences}, {of_one}, and such a list of labels"
    widths = [_widths(rows) for rows in (X, y)]
    if widths[0] and widths[0] == widths[1]:
        return (
            "X and y are lists of rows of the same lengths, as sequences of one number per node "
            "have: for these pass x[:, None] of each row x; for label sets np.asarray(y)"
        )
    if _has_chunk_tags(y):
        of_one = "np.split(X, ends) and np.split(y, ends), ends the numbers of rows before each"
        return f"y has tags of chunks: {sequences} and of labels (with stacked tokens {of_one})"
    return ""


def _widths(rows):
    """Lengths of the rows of a list of rows of numbers, else None."""
    if not isinstance(rows, (list, tuple)):
        return None
    sized = [len(row) for row in rows if hasattr(row, "__len__") and not isinstance(row, str)]
    return sized if len(sized) == len(rows) and max(sized, default=0) > 1 else None


def _has_chunk_tags(y):
    """Return whether flat labels are tags of chunks, some of several nodes."""
    values = unwrapped(y)
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, (list, tuple)) or not values or not isinstance(values[0], str):
        return False
    labels = {label for label in values if isinstance(label, str)}
    tags = {label[0] for label in labels if re.match("[BIESLUM]-.", label)}
    return len(tags) > 1 and all(re.match("[BIESLUM]-.|O$", label) for label in labels)


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
    elif isinstance(graph, Real) and not isinstance(graph, bool):
        hint = f": did you mean C={graph!r}?"
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
