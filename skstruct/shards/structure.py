"""Structures in manifests: by name, with parameters in JSON; no class names are imported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone

from .. import graphs
from ..graphs import Graph

# What matters when a problem is built of packed samples, not when these are packed.
_AFTER_PACKING = {"boundary", "forbidden", "interactions", "inference", "max_table"}
_PLAIN = ("find_classes", "encode", "read_training", "score")


def refuse_unpackable(graph: Graph) -> None:
    """Refuse a structure whose samples cannot be packed a part at a time."""
    kind = type(graph)
    own = [name for name in _PLAIN if getattr(kind, name) is not getattr(Graph, name)]
    if own:
        raise TypeError(
            f"shards are for structures whose labels are those of nodes (Chain, Tree, Pairwise, "
            f"Grid, MultiClass): {kind.__name__} has a {own[0]} of its own, and is trained on "
            "samples in memory: fit(X, y)"
        )


def _encode(value, name):
    """A parameter in JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_encode(item, name) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, name) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": [_encode(item, name) for item in sorted(value, key=repr)]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "buif":
        return {"array": value.tolist(), "dtype": value.dtype.str}
    raise TypeError(
        f"graph: {name} must consist of numbers, strings, lists, tuples and sets to be written "
        f"down with shards, got {value!r}"
    )


def _decode(value):
    """The parameter that :func:`_encode` has written down."""
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], dtype=np.dtype(value["dtype"]))
    (kind, items), *_ = value.items()
    return {"tuple": tuple, "set": set}[kind](map(_decode, items))


def _known(name):
    kind = getattr(graphs, name, None) if name in graphs.__all__ else None
    return kind if isinstance(kind, type) and issubclass(kind, Graph) else None


def describe(graph: Graph) -> dict:
    """What a manifest says of a structure."""
    name = type(graph).__name__
    if _known(name) is not type(graph):
        return {"name": f"{type(graph).__module__}.{type(graph).__qualname__}"}
    parameters = graph.get_params(deep=False)
    return {"name": name, "parameters": {p: _encode(v, p) for p, v in parameters.items()}}


def restore(description: dict, graph: Graph | None, where: Any) -> Graph:
    """The structure of a manifest."""
    name = description.get("name")
    if graph is not None and not isinstance(graph, Graph):
        raise TypeError(f"graph must be a structure such as Chain(), got {graph!r}")
    if "parameters" in description:
        kind = _known(name)
        if kind is None:
            raise ValueError(f"{where} is of the structure {name!r}, which skstruct does not know")
        stored = kind(**{p: _decode(v) for p, v in description["parameters"].items()})
        return stored if graph is None else fitting(stored, graph)
    if graph is None or describe(graph)["name"] != name:
        raise ValueError(
            f"{where} is of the structure {name}, which is none of skstruct's: pass "
            f"graph={str(name).rpartition('.')[2]}(...)"
        )
    return clone(graph)


def fitting(stored: Graph, graph: Graph) -> Graph:
    """A structure that the packed samples of another are good for."""
    names = set(stored.get_params(deep=False)) - _AFTER_PACKING
    same = type(graph) is type(stored) and all(
        _equal(getattr(stored, name), getattr(graph, name)) for name in names
    )
    if not same:
        raise ValueError(
            f"the shards are packed for graph={stored}, not for {graph}: pack them with the graph "
            "that is to be trained"
        )
    return clone(graph)


def _equal(a, b):
    return a is b or bool(np.all(np.asarray(a == b)))


def packed_type(graph: Graph, n_features: int, n_edge_features: int | None) -> Any:
    """Packed samples of the structure, none of them: their types count."""
    counts = SimpleNamespace(n_features_in_=n_features, n_edge_features_in_=n_edge_features)
    return graph.no_samples(counts)
