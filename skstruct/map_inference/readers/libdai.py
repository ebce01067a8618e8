"""The factor graphs of libDAI: tables of which only the non-zero entries are written."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ...core.offsets import places_of
from ...core.text_files import read_bytes
from ..graph import FactorGraph
from .text import (
    Numbers,
    by_shape,
    check_cells,
    check_scopes,
    check_states,
    fill_cells,
    is_no_potential,
    most_states,
    table_sizes,
    tables,
)

_COMMENT = re.compile(rb"#[^\n]*")


def read_libdai(path: Any) -> FactorGraph:
    """Read a factor graph in libDAI's format (``.fg``).

    The tables hold potentials; the score of a labelling is the sum of their natural logarithms.
    Entries that are not written are 0: they forbid, with the score -inf. Read more in the
    :ref:`User Guide <map-files>`.

    Parameters
    ----------
    path : path-like or open file
        The file, plain or compressed by gzip, bzip2 or xz.

    Returns
    -------
    FactorGraph
        The model. The variables keep the file's numbers; those below the largest that stand in no
        factor have one state. Tables of one shape form one batch, so factors are not in the
        file's order.

    Raises
    ------
    ValueError
        If the file is malformed, or has domains or tables out of proportion to its size; the
        message names the line and the token (comments are not counted).

    See Also
    --------
    skstruct.map_inference.read_uai : Reads UAI files.
    skstruct.map_inference.solve_map : Finds a best labelling and a bound.

    References
    ----------
    Mooij 2010, libDAI: A Free and Open Source C++ Library for Discrete Approximate Inference in
    Graphical Models. Journal of Machine Learning Research 11.

    Examples
    --------
    >>> from io import StringIO
    >>> from skstruct.map_inference import read_libdai
    >>> text = "1   2  0 1  2 3   2  1 0.5  4 1   # x0 = 1, x1 = 0 and x0 = 0, x1 = 2"
    >>> graph = read_libdai(StringIO(text))
    >>> graph.score([[0, 2], [0, 0]])
    array([  0., -inf])
    """
    name, text = read_bytes(path)
    numbers = Numbers(name, _COMMENT.sub(b"", text))
    starts, arity, entries_at, n_entries = _walk(numbers)
    places = places_of(starts + 1, arity)[1]
    last = most_states(len(text)) - 1
    scope = numbers.integers(places, 0, last, "a variable, from 0 to {high}")
    check_scopes(numbers, arity, scope, starts + 1)
    places = places_of(starts + 1 + arity, arity)[1]
    sizes = numbers.integers(places, 1, 2**31 - 1, "a number of states, at least 1")
    n_states = np.ones(int(scope.max(initial=0)) + 1, dtype=np.int64)
    n_states[scope[::-1]] = sizes[::-1]
    numbers.check(places, n_states[scope] != sizes, "the number of states of an earlier factor")
    variables, first = np.unique(scope, return_index=True)
    new = np.zeros(scope.size, dtype=np.int64)
    new[first] = n_states[variables]
    check_states(numbers, places, new)
    cells = table_sizes(n_states, arity, scope)
    check_cells(numbers, starts, arity, cells)
    numbers.check(entries_at - 1, n_entries > cells, "a number of entries, at most the table's")
    factors = []
    for members, scopes, shape in by_shape(n_states, arity, scope):
        values = _potentials(numbers, entries_at[members], n_entries[members], math.prod(shape))
        with np.errstate(divide="ignore"):
            # The first variable of a factor is its fastest.
            scores = np.log(values).reshape(members.size, *shape[::-1])
        axes = (0, *range(len(shape), 0, -1))
        factors.append(tables(scopes, scores.transpose(axes), n_states))
    return FactorGraph(n_states, factors)


def _walk(numbers):
    """Return the start of each factor, its arity, the start of its entries and their number."""
    n_factors = numbers.integer(0, 0, np.inf, "the number of factors")
    numbers.need(1, 2 * n_factors, f"{n_factors} factors")
    starts, arity, entries_at, n_entries = np.empty((4, n_factors), dtype=np.int64)
    at = 1
    for f in range(n_factors):
        starts[f] = at
        arity[f] = numbers.integer(at, 0, len(numbers), f"the number of variables of factor {f}")
        at += 1 + 2 * int(arity[f])
        n_entries[f] = numbers.integer(at, 0, len(numbers), f"the number of entries of factor {f}")
        entries_at[f] = at + 1
        at += 1 + 2 * int(n_entries[f])
        numbers.need(at, 0, f"{n_entries[f]} entries of factor {f}, an index and a value each")
    numbers.end(at, "the last factor")
    return starts, arity, entries_at, n_entries


def _potentials(numbers, start, count, size):
    """The tables of factors of one size, with 0 where nothing is written."""
    at = places_of(start, 2 * count)[1][::2]
    cells = numbers.integers(at, 0, size - 1, "an entry of the table, from 0 to {high}")
    cells += np.repeat(np.arange(start.size), count) * size
    values = np.zeros(start.size * size)
    expected = "a potential, finite and >= 0"
    fill_cells(numbers, values, at, cells, at + 1, is_no_potential, "an entry", expected)
    return values
