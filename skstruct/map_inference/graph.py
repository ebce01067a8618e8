"""Factor graphs: discrete variables, and factors that score their joint labels."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np

from ..core.arguments import integers, numbers
from ..core.offsets import ends_of
from ..inference.qpbo import Pairs
from .factors import Factors, Potts, Table, binary_tables, check_scores
from .regions import Regions, check_labels, make_regions

# The pairwise part of a factor graph, flat, for algorithms that choose between two labellings.


def pairs_of(graph):
    """The unaries and all factors of two variables."""
    ends, columns, starts, scores = [np.empty((2, 0), dtype=np.int32)], [], [], []
    n_scores = 0
    for batch in graph.factors:
        if batch.arity != 2:
            continue
        ends.append(batch.scopes.T.astype(np.int32))
        if isinstance(batch, Potts):
            rows, n_columns = batch.weights[:, None], 0
        else:
            tables = batch.tables if isinstance(batch, Table) else binary_tables(batch)
            rows, n_columns = tables.reshape(len(tables), -1), tables.shape[2]
        step = rows.shape[1] if len(rows) == len(batch) else 0
        starts.append(n_scores + step * np.arange(len(batch), dtype=np.int64))
        columns.append(np.full(len(batch), n_columns, dtype=np.int64))
        scores.append(rows.reshape(-1))
        n_scores += rows.size
    none = np.empty(0, dtype=np.int64)
    return Pairs(
        state_ptr=graph.state_ptr,
        unary=graph.unary,
        ends=np.ascontiguousarray(np.concatenate(ends, axis=1)),
        columns=np.concatenate([none, *columns]),
        score_ptr=np.concatenate([none, *starts]),
        scores=np.concatenate([np.empty(0), *scores]),
    )


class FactorGraph:
    """A function of discrete variables that is a sum of factors, to be maximised.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    n_states : array-like of shape (n_variables,) of int
        Number of states of each variable, at least 1; its labels are 0 to ``n_states - 1``.
    factors : iterable of Factors
        :class:`Table`, :class:`Potts`, :class:`Cardinality`, :class:`ExactlyOne`,
        :class:`AtMostOne`, :class:`Or`; each may stand for many factors.
    unaries : list of array-like of shape (n_states[v],), or flat array, default=None
        Scores of each variable's states; -inf forbids a state. 0 by default.
    offset : float, default=0.0
        A constant that is added to every score.
    regions : {"variables", "pairs"}, default="variables"
        Marginals that relaxations make consistent: those of factors with their variables, or of
        larger tables also with the pairwise factors within their scope, which is tighter. It has no
        effect on ``"auto"``, ``"trws"`` and exact methods, which use variables only.

    Attributes
    ----------
    n_states : ndarray of shape (n_variables,) of int64
        States of each variable.
    unary : ndarray of shape (sum of n_states,)
        Scores of all states, with those of factors of one variable.
    state_ptr : ndarray of shape (n_variables + 1,) of int64
        Where a variable's states begin in `unary`.
    offset : float
        The constant, with that of factors without variables.
    factors : tuple of Factors
        The factors of two and more variables.

    Raises
    ------
    TypeError
        If a factor is of an unknown class, or a number is not a number.
    ValueError
        If a variable has no states, a factor does not fit the variables, or a score is NaN or
        +inf. Messages count factors from 0 in the order given.

    See Also
    --------
    skstruct.map_inference.solve_map : The best labelling, and a bound on its score.

    Examples
    --------
    >>> from skstruct.map_inference import FactorGraph, Potts
    >>> graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    >>> graph.score([1, 1])
    2.0
    """

    def __init__(
        self,
        n_states: Any,
        factors: Iterable[Factors] = (),
        *,
        unaries: Any = None,
        offset: float = 0.0,
        regions: Literal["variables", "pairs"] = "variables",
    ) -> None:
        self.n_states = integers(n_states, "n_states")
        if self.n_states.ndim != 1 or (self.n_states < 1).any():
            raise ValueError("n_states must be a list of numbers of at least 1")
        if regions not in ("variables", "pairs"):
            raise ValueError(f'regions must be "variables" or "pairs", got {regions!r}')
        if not isinstance(offset, Real):
            raise TypeError(f"offset must be a number, got {offset!r}")
        if not abs(offset) < np.inf:
            raise ValueError(f"offset must be finite, got {offset!r}")
        self.nested = regions == "pairs"
        self.state_ptr = ends_of(self.n_states)
        self.unary = _flat_unaries(unaries, self.n_states, self.state_ptr)
        self.offset = float(offset)
        self.factors = tuple(self._take(factors))

    def _take(self, factors):
        """The factors of two and more variables; smaller ones become unaries and the offset."""
        first, forbidden = 0, self.unary == -np.inf
        if isinstance(factors, Factors):
            raise TypeError("factors must be a list of factors, got a single one: put it in a list")
        if not isinstance(factors, Iterable):
            raise TypeError(f"factors must be a list of factors, got {factors!r}")
        for batch in factors:
            if not isinstance(batch, Factors):
                raise TypeError(
                    f"factors: expected Table, Potts, Cardinality, ... at factor {first}, got a "
                    f"{type(batch).__name__}"
                )
            batch.check(self.n_states, first)
            first += len(batch)
            small = _as_table(batch)
            if small.arity == 0:
                self.offset += float(small.tables.reshape(-1).sum()) * (
                    len(batch) if small.shared else 1
                )
                if not np.isfinite(self.offset):
                    raise ValueError(f"factor {first - 1}: a factor of no variables must be finite")
            elif small.arity == 1 and isinstance(small, Table):
                self._add_unary(small, forbidden, first)
            elif len(batch):
                yield batch

    def _add_unary(self, batch, forbidden, stop):
        """Add tables of one variable to `unary`; `forbidden`: where it is -inf by the scores."""
        places = self.state_ptr[batch.scopes] + np.arange(batch.tables.shape[1])
        tables = np.broadcast_to(batch.tables, places.shape)
        forbidden[places[tables == -np.inf]] = True
        with np.errstate(over="ignore"):
            np.add.at(self.unary, places, tables)
        wrong = ~np.isfinite(self.unary[places]) & ~forbidden[places]
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            raise ValueError(
                f"factor {stop - len(batch) + row}: the scores of variable "
                f"{batch.scopes[row, 0]} add up to more than the largest number"
            )

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.n_states.size

    @property
    def n_factors(self) -> int:
        """Factors of two and more variables."""
        return sum(map(len, self.factors))

    def score(self, labels: Any) -> float | np.ndarray:
        """Score of a labelling.

        Parameters
        ----------
        labels : array-like of shape (n_variables,) or (n_labellings, n_variables) of int
            One labelling, or several.

        Returns
        -------
        float or ndarray of shape (n_labellings,)
            The sum over all factors; -inf where a hard constraint is broken.

        Raises
        ------
        TypeError
            If labels are not integers.
        ValueError
            If there is not one label per variable, or a label is not one of its states.
        """
        labels = integers(labels, "labels")
        if labels.ndim == 2:
            return np.array([self.score(row) for row in labels])
        check_labels(labels, self.n_states, "labels")
        total = self.offset + float(self.unary[self.state_ptr[:-1] + labels].sum())
        return total + float(sum(batch.score(labels).sum() for batch in self.factors))

    @cached_property
    def regions(self) -> Regions:
        """The graph in flat arrays, as the kernels of relaxations take it."""
        return make_regions(self)

    def of_variables(self) -> FactorGraph:
        """The graph with regions that contain variables only.

        Returns
        -------
        FactorGraph
            Itself, unless it was made with ``regions="pairs"``.
        """
        if not self.nested:
            return self
        plain = copy.copy(self)
        plain.nested = False
        return plain

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "regions"}

    def __repr__(self):
        most = int(self.n_states.max(initial=0))
        arity = max((batch.arity for batch in self.factors), default=0)
        return (
            f"FactorGraph({self.n_variables} variables of at most {most} states, {self.n_factors} "
            f"factors of at most {arity} variables)"
        )


def _flat_unaries(unaries, n_states, state_ptr):
    """The scores of all states in one new array."""
    if unaries is None:
        return np.zeros(state_ptr[-1])
    if isinstance(unaries, np.ndarray) and unaries.ndim == 1 and unaries.dtype != object:
        flat = numbers(unaries, "unaries").copy()
        if flat.size != state_ptr[-1]:
            raise ValueError(
                f"unaries must have a score for each of {state_ptr[-1]} states, got {flat.size}"
            )
    else:
        if not isinstance(unaries, Iterable):
            raise TypeError(f"unaries must be a list of scores a variable, got {unaries!r}")
        rows = [numbers(row, f"unaries[{v}]") for v, row in enumerate(unaries)]
        if len(rows) != n_states.size:
            raise ValueError(f"unaries must have {n_states.size} rows, got {len(rows)}")
        for v, row in enumerate(rows):
            if row.shape != (n_states[v],):
                raise ValueError(
                    f"unaries[{v}] must have the shape ({n_states[v]},), got {row.shape}"
                )
        flat = np.concatenate([*rows, np.zeros(0)])
    check_scores(flat, "unaries")
    return flat


def _as_table(batch):
    """Factors of fewer than two variables as tables; others as they are."""
    if batch.arity > 1 or isinstance(batch, (Table, Potts)):
        return batch
    tables = binary_tables(batch)
    return Table(batch.scopes, tables if len(tables) == len(batch) else tables[0])
