"""Which weights of an earlier fit mean the same in a new one."""

from __future__ import annotations

from typing import Any

import numpy as np


def kept_positions(before: Any, now: Any) -> np.ndarray:
    """Where each element was."""
    known = {value: k for k, value in enumerate(before)}
    return np.array([known.get(value, -1) for value in now], dtype=np.int64)


def kept_pairs(kept: np.ndarray, n_before: int) -> np.ndarray:
    """Where each pair of labels was, in a table of all pairs."""
    first, second = kept[:, None], kept[None, :]
    return np.where((first >= 0) & (second >= 0), n_before * first + second, -1)


class KeptWeights:
    """Mixin of structures: what a warm start takes over when labels have come or gone."""

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """For each column of the weight tables the one that meant the same in an earlier fit.

        Parameters
        ----------
        previous : Graph
            The structure of the earlier fit, of the same class.
        classes, previous_classes : ndarray or list
            What :meth:`find_classes` returned now and then.

        Returns
        -------
        node : ndarray of shape (n_columns,) of int
            For each column of the node table, -1 where there was none. By default columns are
            labels, which are matched by value.
        pair : ndarray of shape (n_pair_columns,) of int, or None
            The same for the pair table; None if nothing is known. By default columns are all pairs
            of labels.

        See Also
        --------
        skstruct.graphs.Graph.kept_pair_rows : The same of rows.
        skstruct.SAGCRF.partial_fit : One that goes on with other labels.

        Examples
        --------
        A label is new, one stays, one has gone:

        >>> from skstruct import Chain
        >>> node, pair = Chain().kept_columns(Chain(), ["b", "c"], ["a", "b"])
        >>> node, pair
        (array([ 1, -1]), array([ 3, -1, -1, -1]))
        """
        node = kept_positions(np.asarray(previous_classes).tolist(), np.asarray(classes).tolist())
        return node, kept_pairs(node, len(previous_classes)).ravel()

    def kept_pair_rows(self, previous: Any, kept: np.ndarray, n_before: int) -> np.ndarray:
        """For each row of the pair table the one that meant the same in an earlier fit.

        Parameters
        ----------
        previous : Graph
            The structure of the earlier fit, of the same class.
        kept : ndarray of shape (n_edge_features,) of int
            For each edge feature its place then, or -1; of edges without features ``[0]``.
        n_before : int
            Number of edge features then, 1 without any.

        Returns
        -------
        ndarray of int
            By default the table has a row an edge feature.

        See Also
        --------
        skstruct.graphs.Graph.kept_columns : The same of columns.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> Chain().kept_pair_rows(Chain(), np.array([1, -1]), 2)
        array([ 1, -1])
        """
        return kept
