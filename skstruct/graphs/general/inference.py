"""Which way of inference a graph is decoded by."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

METHODS = "tree", "max-flow", "junction-tree", "roof-dual", "lp"

# Each module has `applies(graph, samples, fields, network)`, which says why not or returns None,
# and `make(graph, samples, fields, network, tables, n_best)`, which builds the problem.
_MODULES = {
    "tree": "forest",
    "max-flow": "cuts",
    "junction-tree": "junction",
    "roof-dual": "roof",
    "lp": "lp",
}


def _module(method):
    return import_module(f"{__package__}.{_MODULES[method]}")


def choose_problem(
    graph: Any, samples: Any, fields: dict, network: NamedTuple, tables: Any, n_best: int
) -> NamedTuple:
    """The problem of the way that the graph asks for, or of the first that applies."""
    asked = graph.inference
    if asked != "auto" and asked not in METHODS:
        raise ValueError(f'inference must be "auto" or one of {METHODS}, got {asked!r}')
    refusals = []
    for method in METHODS if asked == "auto" else (asked,):
        module = _module(method)
        refusal = module.applies(graph, samples, fields, network)
        if refusal is None:
            return module.make(graph, samples, fields, network, tables, n_best)
        refusals.append(refusal)
    raise ValueError(f'inference="{asked}": {"; ".join(refusals)}')
