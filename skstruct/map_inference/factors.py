"""The factors of a graph, each class a batch of factors of one kind and one arity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np

from ..core.arguments import integers, numbers
from ..core.docstrings import inherit_sections

_LARGEST_TARGET = 1e150  # whose square is finite


class Factors(ABC):
    """A batch of factors of one kind, whose variables are ``scopes`` (n_factors, arity), int64."""

    scopes: np.ndarray

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        inherit_sections(cls, Factors)

    def __len__(self):
        return len(self.scopes)

    @property
    def arity(self) -> int:
        """Number of variables of each factor."""
        return self.scopes.shape[1]

    def check(self, n_states: np.ndarray, first: int) -> None:
        """Raise a ValueError for missing variables or wrong states; `first` numbers factors."""
        outside = (self.scopes < 0) | (self.scopes >= n_states.size)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"factor {first + row}: variable {self.scopes[row, column]} does not exist, the "
                f"graph has {n_states.size} variables"
            )

    @abstractmethod
    def score(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of each factor, (n_factors,), under a labelling (n_variables,)."""


def check_scores(scores, name):
    """Raise ValueError for scores that are NaN or +inf."""
    bad = ~(scores < np.inf)
    if bad.any():
        at = tuple(int(k) for k in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must be finite or -inf (forbidden), got {scores[at]} at position {at}"
        )


def read_scopes(values, name):
    """Scopes as rows, without repeated variables."""
    scopes = integers(values, name)
    if scopes.ndim == 1:
        scopes = scopes[None, :]
    if scopes.ndim != 2:
        raise ValueError(f"{name} must have one or two dimensions, got {scopes.ndim}")
    ordered = np.sort(scopes, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if repeated.any():
        row = int(np.argmax(repeated))
        raise ValueError(
            f"{name}: factor {row} of the batch names a variable twice: {scopes[row].tolist()}"
        )
    return scopes


class Table(Factors):
    """Factors with a score for each configuration of their variables.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    scope : array-like of shape (arity,) or (n_factors, arity) of int
        The variables.
    scores : array-like of shape (n_states...) or (n_factors, n_states...)
        The scores, one axis per variable, in the order of the scope; -inf forbids a configuration.
        Without the first axis all factors of the batch share one table.

    Raises
    ------
    TypeError
        If the scope is not of integers, or scores are not numbers.
    ValueError
        If a variable occurs twice in a scope, a score is NaN or +inf, or the shapes do not fit.

    See Also
    --------
    skstruct.map_inference.FactorGraph : A model of factors over variables.
    skstruct.map_inference.Potts : A score for equal states.

    Examples
    --------
    >>> from skstruct.map_inference import FactorGraph, Table
    >>> agree = Table([(0, 1), (1, 2)], [[1.0, 0.0], [0.0, 1.0]])
    >>> FactorGraph([2, 2, 2], [agree]).score([0, 0, 1])
    1.0
    """

    def __init__(self, scope: Any, scores: Any) -> None:
        self.scopes = read_scopes(scope, "scope")
        self.tables = numbers(scores, "scores")
        n, arity = self.scopes.shape
        if self.tables.ndim == arity:
            self.tables = self.tables[None]
        elif self.tables.ndim != arity + 1 or len(self.tables) != n:
            raise ValueError(
                f"scores must have {arity} axes, one a variable of the scope, or {arity + 1} with "
                f"the {n} factors first, got the shape {self.tables.shape}"
            )
        check_scores(self.tables, "scores")

    @property
    def shared(self) -> bool:
        """True if one table serves all factors."""
        return len(self.tables) == 1

    def check(self, n_states: np.ndarray, first: int) -> None:
        """Also the shape of the tables."""
        super().check(n_states, first)
        wrong = n_states[self.scopes] != np.array(self.tables.shape[1:], dtype=np.int64)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            variable = self.scopes[row, column]
            raise ValueError(
                f"factor {first + row}: its table has {self.tables.shape[1 + column]} states for "
                f"variable {variable}, which has {n_states[variable]}"
            )

    def score(self, labels: np.ndarray) -> np.ndarray:
        """Entries of the tables."""
        rows = np.zeros(len(self), dtype=np.int64) if self.shared else np.arange(len(self))
        return self.tables[(rows, *labels[self.scopes].T)]


class Potts(Factors):
    """Pairs of variables that score a weight where their labels are equal.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    i, j : int or array-like of shape (n_factors,) of int
        The variables.
    weight : float or array-like of shape (n_factors,)
        The scores of equal labels; unequal ones score 0.

    Raises
    ------
    TypeError
        If the variables are not integers, or the weight is not a number.
    ValueError
        If the two variables are equal, or a weight is not finite.

    See Also
    --------
    skstruct.map_inference.FactorGraph : A model of factors over variables.
    skstruct.map_inference.Table : A factor with a score for each joint state.

    Examples
    --------
    >>> from skstruct.map_inference import FactorGraph, Potts
    >>> FactorGraph([3, 3], [Potts(0, 1, 2.0)]).score([2, 2])
    2.0
    """

    def __init__(self, i: Any, j: Any, weight: Any) -> None:
        try:
            ends = np.broadcast_arrays(*(np.atleast_1d(integers(v, "i and j")) for v in (i, j)))
            self.scopes = read_scopes(np.stack(ends, axis=1), "i and j")
            weight = np.broadcast_to(numbers(weight, "weight"), len(self.scopes))
        except ValueError as error:
            if not any(word in str(error) for word in ("broadcast", "shape", "axis remapping")):
                raise
            raise ValueError(
                f"i, j and weight must be numbers or arrays of one length, got shapes "
                f"{np.shape(i)}, {np.shape(j)} and {np.shape(weight)}"
            ) from None
        self.weights = np.ascontiguousarray(weight)
        if not np.isfinite(self.weights).all():
            row = int(np.argmin(np.isfinite(self.weights)))
            raise ValueError(f"weight must be finite, got {self.weights[row]} at position {row}")

    def score(self, labels: np.ndarray) -> np.ndarray:
        """The weights of pairs with equal labels."""
        first, second = labels[self.scopes].T
        return np.where(first == second, self.weights, 0.0)


class BinaryFactors(Factors):
    """Factors of variables with two states each."""

    def check(self, n_states: np.ndarray, first: int) -> None:
        """Also that all variables have two states."""
        super().check(n_states, first)
        wrong = n_states[self.scopes] != 2
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            variable = self.scopes[row, column]
            raise ValueError(
                f"factor {first + row}: {type(self).__name__} is for variables of two states, "
                f"variable {variable} has {n_states[variable]}"
            )


class Cardinality(BinaryFactors):
    """A score of how many of some binary variables have label 1.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    variables : array-like of shape (n,) or (n_factors, n) of int
        The variables.
    scores_by_count : array-like of shape (n + 1,) or (n_factors, n + 1)
        Scores of 0, 1, ..., n ones; -inf forbids a count.

    Raises
    ------
    TypeError
        If the variables are not integers, or scores are not numbers.
    ValueError
        If a variable occurs twice, a score is NaN or +inf, or the shapes do not fit.

    See Also
    --------
    skstruct.map_inference.FactorGraph : A model of factors over variables.
    skstruct.map_inference.ExactlyOne : Constraints that exactly one literal holds.
    skstruct.map_inference.AtMostOne : Constraints that at most one literal holds.

    Examples
    --------
    >>> from skstruct.map_inference import Cardinality, FactorGraph
    >>> FactorGraph([2, 2, 2], [Cardinality([0, 1, 2], [0, 0, 5, 0])]).score([1, 0, 1])
    5.0
    """

    def __init__(self, variables: Any, scores_by_count: Any) -> None:
        self.scopes = read_scopes(variables, "variables")
        scores = np.atleast_2d(numbers(scores_by_count, "scores_by_count"))
        n, arity = self.scopes.shape
        if scores.ndim != 2 or scores.shape[1] != arity + 1 or len(scores) not in (1, n):
            raise ValueError(
                f"scores_by_count must have {arity + 1} entries (counts 0 to {arity}), or {n} "
                f"such rows, got the shape {np.shape(scores_by_count)}"
            )
        check_scores(scores, "scores_by_count")
        self.scores_by_count = scores

    @classmethod
    def quadratic_hinge(cls, variables: Any, target: float, slack: float) -> Cardinality:
        """``-max(0, |count - target| - slack)^2``: a segment of about a known size.

        As in Li, Zemel 2014, High order regularization for semi-supervised learning of structured
        output problems, and Meshi, Mahdavi, Schwing 2015, section 5 (without the minus sign).

        Parameters
        ----------
        variables : array-like of shape (n,) of int
            The variables.
        target : float
            The expected count.
        slack : float
            Tolerance around the target, at least 0.

        Returns
        -------
        Cardinality
            The factor.

        Raises
        ------
        ValueError
            If `target` or `slack` is not finite, or `slack` is negative.
        """
        if not (isinstance(target, Real) and isinstance(slack, Real)):
            raise TypeError(f"target and slack must be numbers, got {target!r} and {slack!r}")
        if not (abs(target) < _LARGEST_TARGET and 0 <= slack < np.inf):
            raise ValueError(
                f"target must be finite (below 1e150) and slack at least 0, got {target!r} and "
                f"{slack!r}"
            )
        counts = np.arange(read_scopes(variables, "variables").shape[1] + 1)
        return cls(variables, -(np.maximum(0.0, np.abs(counts - target) - slack) ** 2))

    def score(self, labels: np.ndarray) -> np.ndarray:
        """The scores of the counts."""
        rows = np.arange(len(self)) % len(self.scores_by_count)
        return self.scores_by_count[rows, labels[self.scopes].sum(axis=1)]


def numbered(factors):
    """Batches of factors, each behind the number of its first one."""
    first = 0
    for batch in factors:
        yield first, batch
        first += len(batch)


# Hard constraints on literals, each class a batch of factors.


class LogicFactors(BinaryFactors):
    """Hard constraints on literals: a binary variable, or one minus it where it is negated."""

    def __init__(self, variables: Any, negated: Any = None) -> None:
        self.scopes = read_scopes(variables, "variables")
        if self.arity == 0:
            raise ValueError(f"variables: {type(self).__name__} needs at least one variable")
        flags = np.zeros(1, dtype=bool) if negated is None else np.asarray(negated)
        if flags.dtype.kind not in "b" and not np.isin(flags, (0, 1)).all():
            raise ValueError("negated must be of booleans")
        try:
            flags = np.broadcast_to(flags.astype(bool), self.scopes.shape)
        except ValueError:
            raise ValueError(
                f"negated must have the shape of variables, {self.scopes.shape}, got {flags.shape}"
            ) from None
        self.negated = np.ascontiguousarray(flags)

    def n_true(self, labels: np.ndarray) -> np.ndarray:
        """Number of true literals of each factor, (n_factors,), under labels (n_variables,).

        Parameters
        ----------
        labels : ndarray of shape (n_variables,)
            A labelling.

        Returns
        -------
        ndarray of shape (n_factors,) of int
            The numbers.
        """
        return (labels[self.scopes].astype(bool) != self.negated).sum(axis=1)

    @staticmethod
    @abstractmethod
    def holds(n_true: np.ndarray) -> np.ndarray:
        """Return whether the constraint holds for given numbers of true literals.

        Parameters
        ----------
        n_true : ndarray of shape (n_factors,) of int
            The numbers, as from :meth:`n_true`.

        Returns
        -------
        ndarray of shape (n_factors,) of bool
            One per factor.
        """

    def score(self, labels: np.ndarray) -> np.ndarray:
        """0 where it holds, else -inf."""
        return np.where(self.holds(self.n_true(labels)), 0.0, -np.inf)


class ExactlyOne(LogicFactors):
    """Constraints that exactly one of the literals holds.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    variables : array-like of shape (n,) or (n_factors, n) of int
        Binary variables.
    negated : array-like of bool, default=None
        Which literals are negated.

    Raises
    ------
    TypeError
        If the variables are not integers.
    ValueError
        If a variable occurs twice, or the shapes do not fit.

    See Also
    --------
    skstruct.map_inference.FactorGraph : A model of factors over variables.
    skstruct.map_inference.AtMostOne : Constraints that at most one literal holds.
    skstruct.map_inference.Or : Constraints that at least one literal holds.

    Examples
    --------
    >>> from skstruct.map_inference import ExactlyOne, FactorGraph
    >>> graph = FactorGraph([2, 2], [ExactlyOne([0, 1])])
    >>> graph.score([1, 0]), graph.score([1, 1])
    (0.0, -inf)
    """

    @staticmethod
    def holds(n_true: np.ndarray) -> np.ndarray:
        """Return whether exactly one literal is true."""
        return n_true == 1


class AtMostOne(LogicFactors):
    """Constraints that at most one of the literals holds.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    variables, negated : array-like
        As for :class:`ExactlyOne`.

    Raises
    ------
    TypeError
        If the variables are not integers.
    ValueError
        If a variable occurs twice, or the shapes do not fit.

    See Also
    --------
    skstruct.map_inference.FactorGraph : A model of factors over variables.
    skstruct.map_inference.ExactlyOne : Constraints that exactly one literal holds.
    skstruct.map_inference.Cardinality : A score by the number of variables that are on.

    Examples
    --------
    >>> from skstruct.map_inference import AtMostOne, FactorGraph
    >>> FactorGraph([2, 2], [AtMostOne([0, 1])]).score([1, 1])
    -inf
    """

    @staticmethod
    def holds(n_true: np.ndarray) -> np.ndarray:
        """Return whether at most one literal is true."""
        return n_true <= 1


class Or(LogicFactors):
    """Constraints that at least one of the literals holds.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    variables, negated : array-like
        As for :class:`ExactlyOne`.

    Raises
    ------
    TypeError
        If the variables are not integers.
    ValueError
        If a variable occurs twice, or the shapes do not fit.

    See Also
    --------
    skstruct.map_inference.FactorGraph : A model of factors over variables.
    skstruct.map_inference.ExactlyOne : Constraints that exactly one literal holds.

    Examples
    --------
    >>> from skstruct.map_inference import FactorGraph, Or
    >>> FactorGraph([2, 2], [Or([0, 1], negated=[False, True])]).score([0, 1])
    -inf
    """

    @staticmethod
    def holds(n_true: np.ndarray) -> np.ndarray:
        """Return whether at least one literal is true."""
        return n_true >= 1


# Tables of single factors, and of the implicit ones among them.


def binary_tables(batch, rows=slice(None)):
    """Tables of factors of binary variables: one for each, or one for all."""
    literals = np.indices((2,) * batch.arity)
    if isinstance(batch, Cardinality):
        scores = batch.scores_by_count
        return scores[slice(None) if len(scores) == 1 else rows][:, literals.sum(axis=0)]
    negated = batch.negated[rows].reshape(-1, batch.arity, *[1] * batch.arity)
    return np.where(batch.holds((literals != negated).sum(axis=1)), 0.0, -np.inf)


def table_of(batch, row, n_states):
    """The table of one factor."""
    if isinstance(batch, Table):
        return batch.tables[row % len(batch.tables)]
    if isinstance(batch, Potts):
        equal = np.eye(*n_states[batch.scopes[row]], dtype=bool)
        return np.where(equal, batch.weights[row], 0.0)
    return binary_tables(batch, [row])[0]


def spread(table, scope, full):
    """A view of a table with one axis for each variable of `full` (1 where it is not in scope)."""
    table = table.transpose(sorted(range(len(scope)), key=lambda d: full.index(scope[d])))
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if variable in scope else 1 for variable in full])
