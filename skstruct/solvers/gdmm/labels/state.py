"""What GDMM on label sets works on: the samples and the dual point."""

from typing import NamedTuple

import numpy as np

from ..active_sets import ActiveSets


class LabelGraph(NamedTuple):
    """Samples with label sets.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        A feature row a sample.
    labels : ndarray of shape (n_samples, n_labels) of int32
        Ones where a label is on.
    cost : ndarray of shape (2, 2)
        Task loss of (true, predicted), the normalisation worked in.
    squares : ndarray of shape (n_samples,)
        Squared norms of the feature rows.
    ends : ndarray of shape (n_edges, 2) of int32
        The labels of each edge.
    edge_of : ndarray of shape (n_labels, n_labels) of int32
        The edge between two labels, or -1.
    full : int
        1 where edges have full 2 x 2 tables.
    factor : ndarray of shape (n_samples or 0, n_labels)
        Factor on the task loss of each label.
    """

    nodes: tuple
    labels: np.ndarray
    cost: np.ndarray
    squares: np.ndarray
    ends: np.ndarray
    edge_of: np.ndarray
    full: int
    factor: np.ndarray


class LabelState(NamedTuple):
    """The dual point, the messages, what the search keeps, scratch.

    Parameters
    ----------
    on : ndarray of shape (n_samples, n_labels)
        p.
    awake : ActiveSets
        For each sample its awake edges: the key is the edge, `share` the probability of (1, 1),
        `price` is 1, `more` holds those of (0, 1) and (1, 0) and the multipliers of both ends.
    reach : ndarray of shape (n_samples,)
        C_i, the factor on the loss of each sample.
    pair : ndarray of shape (n_edges, 4)
        Weights of (0, 0), (0, 1), (1, 0), (1, 1); only the last are used without full tables.
    base : ndarray of shape (n_labels,)
        What switching a label on adds through its edges when all others are off.
    lift : ndarray of shape (n_labels,)
        Sum of the positive interactions of each label.
    scores, message, degree : ndarray of shape (n_labels,)
        Scratch.
    spot : ndarray of shape (n_labels, n_labels) of int32
        Scratch: place of an awake edge in its list, plus 1.
    near, support : ndarray of shape (n_labels,) of int64
        Scratch: labels to look at, labels with p > 0.
    states : ndarray of shape (n_labels,) of int8
        Scratch of the search.
    four : ndarray of shape (2, 4)
        Scratch for one edge.
    cursor : ndarray of shape (2,) of int64
        Position of the pass.
    totals : ndarray of shape (4,)
        As in :class:`skstruct.solvers.gdmm.state.GDMMState`.
    """

    on: np.ndarray
    awake: ActiveSets
    reach: np.ndarray
    pair: np.ndarray
    base: np.ndarray
    lift: np.ndarray
    scores: np.ndarray
    message: np.ndarray
    degree: np.ndarray
    spot: np.ndarray
    near: np.ndarray
    support: np.ndarray
    states: np.ndarray
    four: np.ndarray
    cursor: np.ndarray
    totals: np.ndarray
