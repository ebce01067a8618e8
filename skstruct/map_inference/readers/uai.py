"""The format of the UAI competitions: Markov and Bayes networks of explicit tables."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.offsets import ends_of, places_of
from ...core.text_files import read_bytes, write_text
from ..factors import Potts, Table, numbered, table_of
from ..graph import FactorGraph
from .text import (
    Numbers,
    by_shape,
    check_cells,
    check_scopes,
    check_states,
    is_no_potential,
    table_sizes,
    tables,
)


def read_uai(
    path: Any,
    *,
    evidence: Any = None,
    logarithms: bool | None = None,
) -> FactorGraph:
    """Read a Markov or Bayes network in the UAI format.

    The tables hold potentials or probabilities; the score of a labelling is the sum of their
    natural logarithms, so a labelling of largest score is a most probable one. A zero forbids what
    it stands for: its score is -inf. Read more in the :ref:`User Guide <map-files>`.

    Parameters
    ----------
    path : path-like or open file
        The file, plain or compressed by gzip, bzip2 or xz.
    evidence : path-like, open file or dict of int to int, default=None
        Observed variables and their states: an evidence file of one sample
        (``n var state ...``, in the newer form, or the same behind the number of samples, 1, in
        the older) or a mapping. The variables stay in the graph, numbered as in the file; their
        other states get the score -inf.
    logarithms : bool, default=None
        Whether the tables hold natural logarithms already. Default: if the name of the file ends
        with ``.LG`` (before ``.gz``, ``.bz2`` or ``.xz``).

    Returns
    -------
    FactorGraph
        The model. Tables of one shape form one batch, so factors are not in the file's order;
        unary tables are the graph's unaries.

    Raises
    ------
    ValueError
        If the file is malformed, or has domains out of proportion to its size; the message names
        the line and the token.

    See Also
    --------
    skstruct.map_inference.write_uai : Writes UAI files.
    skstruct.map_inference.read_wcsp : Reads WCSP files.
    skstruct.map_inference.solve_map : Finds a best labelling and a bound.

    References
    ----------
    UAI 2014 Inference Competition, file formats.
    https://uaicompetition.github.io/uci-2022/file-formats/

    Examples
    --------
    >>> from io import StringIO
    >>> from skstruct.map_inference import read_uai
    >>> graph = read_uai(StringIO("MARKOV 2  2 3  1  2 0 1  6  0.2 1 1  1 4 0"))
    >>> graph.n_states
    array([2, 3])
    >>> graph.score([1, 2])
    -inf
    """
    name, text = read_bytes(path)
    if logarithms is None:
        logarithms = holds_logarithms(name)
    numbers = Numbers(name, text, n_words=1)
    if numbers.words[0].upper() not in ("MARKOV", "BAYES"):
        numbers.fail(-1, "MARKOV or BAYES")
    n_states, arity, scope, starts, at = _preamble(numbers)
    cells = _cells(numbers, n_states, arity, scope, starts, at)
    factors = []
    for members, scopes, shape in by_shape(n_states, arity, scope):
        places = cells[members][:, None] + np.arange(math.prod(shape))
        scores = _scores(numbers, places, logarithms).reshape(members.size, *shape)
        factors.append(tables(scopes, scores, n_states))
    unaries, ends = np.zeros(n_states.sum()), ends_of(n_states)
    observed = {} if evidence is None else _read_evidence(evidence, n_states)
    for v, state in observed.items():
        unaries[ends[v] : ends[v + 1]] = -np.inf
        unaries[ends[v] + state] = 0.0
    return FactorGraph(n_states, factors, unaries=unaries)


def holds_logarithms(name: str) -> bool:
    """Return whether a file of this name has logarithms of potentials in its tables."""
    return re.sub(r"\.(gz|bz2|xz)$", "", name).endswith(".LG")


def _preamble(numbers):
    """The numbers of states, each factor's arity, the scopes, and where the tables begin."""
    n = numbers.integer(0, 1, len(numbers), "the number of variables, at least 1")
    numbers.need(1, n, f"the numbers of states of {n} variables")
    n_states = numbers.integers(slice(1, 1 + n), 1, 2**31 - 1, "a number of states, at least 1")
    check_states(numbers, 1 + np.arange(n), n_states)
    at = 1 + n
    n_factors = numbers.integer(at, 0, np.inf, "the number of factors")
    at += 1
    numbers.need(at, n_factors, f"the scopes of {n_factors} factors")
    starts = np.empty(n_factors, dtype=np.int64)
    for f in range(n_factors):
        starts[f] = at
        at += 1 + numbers.integer(at, 0, n, f"the number of variables of factor {f}, at most {n}")
    arity = np.diff(starts, append=at) - 1
    numbers.need(at, 0, f"the scope of factor {n_factors - 1}")
    places = places_of(starts + 1, arity)[1]
    scope = numbers.integers(places, 0, n - 1, "a variable of a scope, from 0 to {high}")
    check_scopes(numbers, arity, scope, starts + 1)
    return n_states, arity, scope, starts, at


def _cells(numbers, n_states, arity, scope, starts, at):
    """Return the start of the cells of each factor's table."""
    sizes = table_sizes(n_states, arity, scope)
    check_cells(numbers, starts, arity, sizes)
    # A table's size stands before it; the last that begins within the file tells what is wrong.
    ends = at + np.cumsum(sizes + 1)
    heads = np.concatenate([[at], ends[:-1]]) if sizes.size else np.empty(0)
    inside = np.flatnonzero(heads < len(numbers))
    places = heads[inside].astype(np.int64)
    wrong = numbers.values[places] != sizes[inside]
    if wrong.any():
        f = int(inside[np.argmax(wrong)])
        numbers.fail(int(heads[f]), f"{sizes[f]:.0f}, the size of the table of factor {f}")
    if sizes.size and ends[-1] > len(numbers):
        f = int(inside[-1]) if inside.size else 0
        f += int(f + 1 < sizes.size and ends[f] == len(numbers))
        numbers.fail(len(numbers), f"the table of factor {f}, {sizes[f]:.0f} numbers")
    numbers.end(int(ends[-1]) if sizes.size else at, "the last table")
    return places + 1


def _scores(numbers, places, logarithms):
    """The natural logarithms of tables."""
    values = numbers.values[places]
    if logarithms:
        numbers.check(places.ravel(), ~(values < np.inf).ravel(), "a logarithm, not NaN or +inf")
        return values
    numbers.check(places.ravel(), is_no_potential(values).ravel(), "a potential, finite and >= 0")
    with np.errstate(divide="ignore"):
        return np.log(values)


def _read_evidence(evidence, n_states):
    """Observed states by variable."""
    if isinstance(evidence, Mapping):
        return _of_mapping(evidence, n_states)
    name, text = read_bytes(evidence)
    numbers = Numbers(name, text)
    at = 0
    if len(numbers) == 0:
        return {}
    n = numbers.integer(0, 0, np.inf, "the number of observed variables")
    if len(numbers) != 1 + 2 * n and n == 1:
        at = 1
        n = numbers.integer(1, 0, np.inf, "the number of observed variables of the only sample")
    numbers.need(at + 1, 2 * n, f"{n} pairs of a variable and its state")
    numbers.end(at + 1 + 2 * n, f"{n} pairs of a variable and its state")
    places = at + 1 + 2 * np.arange(n)
    variables = numbers.integers(
        places, 0, n_states.size - 1, "an observed variable, from 0 to {high}"
    )
    states = numbers.integers(
        places + 1, 0, n_states[variables] - 1, "a state of the variable, from 0 to {high}"
    )
    observed = {}
    for place, v, state in zip(places.tolist(), variables.tolist(), states.tolist(), strict=True):
        if observed.setdefault(v, state) != state:
            numbers.fail(place, f"variable {v} once, not with two states")
    return observed


def _of_mapping(evidence, n_states):
    """Read a mapping, and check it."""
    for v, state in evidence.items():
        _check_below(v, n_states.size, "variable")
        _check_below(state, int(n_states[v]), f"state of variable {v}:")
    return {int(v): int(state) for v, state in evidence.items()}


def _check_below(value, n, what):
    if not isinstance(value, int | np.integer) or not 0 <= value < n:
        raise ValueError(f"evidence: {what} {value!r} must be an integer from 0 to {n - 1}")


# Writing a factor graph as explicit tables in the UAI format.

_MOST_VARIABLES = 20
# Potentials beyond are infinite, or too small to keep their digits.
_LARGEST_LOGARITHM = 700.0


def write_uai(graph: FactorGraph, path: Any, *, logarithms: bool | None = None) -> None:
    """Write a factor graph as a Markov network in the UAI format.

    Factors without tables are written as tables; the graph's constant is added to the first
    variable's unaries, which are the first tables of the file. Read more in the :ref:`User Guide
    <map-files>`.

    Parameters
    ----------
    graph : FactorGraph
        The model.
    path : path-like or open text file
        Where to write; a path that ends with ``.gz``, ``.bz2`` or ``.xz`` is compressed.
    logarithms : bool, default=None
        Whether to write the scores themselves, not the potentials, their exponentials. Default:
        if the name of the file ends with ``.LG`` (before ``.gz``, ``.bz2`` or ``.xz``).

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
    for first, batch in numbered(graph.factors):
        rows += zip(batch.scopes.tolist(), _dense(batch, graph.n_states, first), strict=True)
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


def _dense(batch, n_states, first):
    """The table of each factor of a batch."""
    if not isinstance(batch, Table | Potts) and batch.arity > _MOST_VARIABLES:
        raise ValueError(
            f"factor {first}: a {type(batch).__name__} of {batch.arity} variables is too large "
            f"for a table, {_MOST_VARIABLES} at most"
        )
    return (table_of(batch, row, n_states) for row in range(len(batch)))
