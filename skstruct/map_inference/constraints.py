"""Hard constraints on literals, each class a batch of factors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from .factors import BinaryFactors, read_scopes


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
        """True literals of each factor under a labelling.

        Parameters
        ----------
        labels : ndarray of shape (n_variables,)
            A labelling.

        Returns
        -------
        ndarray of shape (n_factors,) of int
            How many.

        See Also
        --------
        skstruct.map_inference.FactorGraph.score : The score of a labelling.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct.map_inference import Or
        >>> Or([0, 1], negated=[False, True]).n_true(np.array([1, 0]))
        array([2])
        """
        return (labels[self.scopes].astype(bool) != self.negated).sum(axis=1)

    @staticmethod
    @abstractmethod
    def holds(n_true: np.ndarray) -> np.ndarray:
        """Whether the constraint holds with so many true literals.

        Parameters
        ----------
        n_true : ndarray of shape (n_factors,) of int
            What :meth:`n_true` counts.

        Returns
        -------
        ndarray of shape (n_factors,) of bool
            Of each factor.

        See Also
        --------
        skstruct.map_inference.FactorGraph.score : -inf where a constraint does not hold.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct.map_inference import AtMostOne
        >>> AtMostOne.holds(np.arange(3))
        array([ True,  True, False])
        """

    def score(self, labels: np.ndarray) -> np.ndarray:
        """0 where it holds, else -inf."""
        return np.where(self.holds(self.n_true(labels)), 0.0, -np.inf)


class ExactlyOne(LogicFactors):
    """Constraints that exactly one of the literals holds.

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
        """Whether it is one."""
        return n_true == 1


class AtMostOne(LogicFactors):
    """Constraints that at most one of the literals holds.

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
        """Whether it is one or none."""
        return n_true <= 1


class Or(LogicFactors):
    """Constraints that at least one of the literals holds.

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
    skstruct.map_inference.ExactlyOne : Constraints that exactly one literal holds.

    Examples
    --------
    >>> from skstruct.map_inference import FactorGraph, Or
    >>> FactorGraph([2, 2], [Or([0, 1], negated=[False, True])]).score([0, 1])
    -inf
    """

    @staticmethod
    def holds(n_true: np.ndarray) -> np.ndarray:
        """Whether there are some."""
        return n_true >= 1
