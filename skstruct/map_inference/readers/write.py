"""Writing a factor graph as explicit tables in the UAI format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..factors import Cardinality, Potts, Table
from ..graph import FactorGraph
from .text import write_text
from .uai import holds_logarithms

_MOST_VARIABLES = 20
# Potentials beyond are infinite, or too small to keep their digits.
_LARGEST_LOGARITHM = 700.0


def write_uai(graph: FactorGraph, path: Any, *, logarithms: bool | None = None) -> None:
    """Write a factor graph as a Markov network in the UAI format.

    Factors without tables are written as tables; the graph's constant is added to the first
    variable's unaries, which are the first tables of the file.

    Parameters
    ----------
    graph : FactorGraph
        The model.
    path : path-like or open text file
        Where to write; a path that ends with ``.gz`` or ``.xz`` is compressed.
    logarithms : bool, default=None
        Whether to write the scores themselves, not the potentials, their exponentials. Default:
        if the name of the file ends with ``.LG`` (before ``.gz`` or ``.xz``).

    Raises
    ------
    ValueError
        If a potential would be too large or too small for a number (write logarithms), or a factor
        without a table has more than 20 variables.

    See Also
    --------
    skstruct.map_inference.read_uai : Reads UAI files.
    skstruct.map_inference.FactorGraph : A model of factors over variables.

    References
    ----------
    UAI 2014 Inference Competition, file formats.
    https://uaicompetition.github.io/uci-2022/file-formats/

    Examples
    --------
    >>> from io import StringIO
    >>> from skstruct.map_inference import FactorGraph, Potts, read_uai, write_uai
    >>> file = StringIO()
    >>> write_uai(FactorGraph([2, 2], [Potts(0, 1, 1.5)]), file, logarithms=True)
    >>> read_uai(StringIO(file.getvalue()), logarithms=True).score([1, 1])
    1.5
    """
    if logarithms is None:
        name = getattr(path, "name", "") if hasattr(path, "write") else os.fspath(path)
        logarithms = holds_logarithms(str(name))
    unary = graph.unary.copy()
    unary[: graph.state_ptr[1]] += graph.offset
    rows = [([v], row) for v, row in enumerate(np.split(unary, graph.state_ptr[1:-1]))]
    first = 0
    for batch in graph.factors:
        rows += zip(batch.scopes.tolist(), _dense(batch, graph.n_states, first), strict=True)
        first += len(batch)
    lines = ["MARKOV", str(graph.n_variables), _joined(graph.n_states), str(len(rows))]
    lines += [f"{len(scope)} {_joined(scope)}" for scope, _ in rows]
    for scope, scores in rows:
        scores = np.ravel(scores)
        lines += [
            "",
            str(scores.size),
            _joined(scores if logarithms else _potentials(scope, scores)),
        ]
    write_text(path, "\n".join([*lines, ""]))


def _joined(values):
    return " ".join(map(repr, np.asarray(values).tolist()))


def _potentials(scope, scores):
    far = np.isfinite(scores) & (np.abs(scores) > _LARGEST_LOGARITHM)
    if far.any():
        raise ValueError(
            f"a score of {scores[far][0]:g} in the factor of the variables {scope} has no "
            "potential in double precision: write logarithms (logarithms=True, or a .LG file)"
        )
    return np.exp(scores)


def _dense(batch, n_states, first) -> Iterator[np.ndarray]:
    """The table of each factor of a batch."""
    if isinstance(batch, Table):
        yield from np.broadcast_to(batch.tables, (len(batch), *batch.tables.shape[1:]))
    elif isinstance(batch, Potts):
        for scope, weight in zip(batch.scopes, batch.weights, strict=True):
            yield weight * np.eye(*n_states[scope])
    else:
        if batch.arity > _MOST_VARIABLES:
            raise ValueError(
                f"factor {first}: a {type(batch).__name__} of {batch.arity} variables is too large "
                f"for a table, {_MOST_VARIABLES} at most"
            )
        states = np.indices((2,) * batch.arity).reshape(batch.arity, -1).T
        for row in range(len(batch)):
            yield _binary(batch, row, states)


def _binary(batch, row, states):
    """The table of a factor of binary variables, whose configurations are `states`."""
    if isinstance(batch, Cardinality):
        return batch.scores_by_count[row % len(batch.scores_by_count)][states.sum(axis=1)]
    n_true = (states.astype(bool) != batch.negated[row]).sum(axis=1)
    return np.where(batch.holds(n_true), 0.0, -np.inf)
