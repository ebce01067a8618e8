"""What GDMM on label sets works on: the samples and the dual point."""

from typing import NamedTuple

import numpy as np

from ..active_sets import ActiveSets


class LabelGraph(NamedTuple):
    """Samples with label sets."""

    # A feature row a sample.
    nodes: tuple
    # (n_samples, n_labels): Ones where a label is on.
    labels: np.ndarray
    # (2, 2): Task loss of (true, predicted), the normalisation worked in.
    cost: np.ndarray
    # (n_samples,): Squared norms of the feature rows.
    squares: np.ndarray
    # (n_edges, 2): The labels of each edge.
    ends: np.ndarray
    # (n_labels, n_labels): The edge between two labels, or -1.
    edge_of: np.ndarray
    # 1 where edges have full 2 x 2 tables.
    full: int
    # (n_samples or 0, n_labels): Factor on the task loss of each label.
    factor: np.ndarray


class LabelState(NamedTuple):
    """The dual point, the messages, what the search keeps, scratch."""

    # (n_samples, n_labels): p.
    on: np.ndarray
    # For each sample its awake edges: the key is the edge, `share` the probability of (1, 1),
    # `price` is 1, `more` holds those of (0, 1) and (1, 0) and the multipliers of both ends.
    awake: ActiveSets
    # (n_samples,): C_i, the factor on the loss of each sample.
    reach: np.ndarray
    # (n_edges, 4): Weights of (0, 0), (0, 1), (1, 0), (1, 1); only the last are used without full
    # tables.
    pair: np.ndarray
    # (n_labels,): What switching a label on adds through its edges when all others are off.
    base: np.ndarray
    # (n_labels,): Sum of the positive interactions of each label.
    lift: np.ndarray
    # (n_labels,): Scratch.
    scores: np.ndarray
    message: np.ndarray
    degree: np.ndarray
    # (n_labels, n_labels): Scratch: place of an awake edge in its list, plus 1.
    spot: np.ndarray
    # (n_labels,): Scratch: labels to look at, labels with p > 0.
    near: np.ndarray
    support: np.ndarray
    # (n_labels,): Scratch of the search.
    states: np.ndarray
    # (2, 4): Scratch for one edge.
    four: np.ndarray
    # (2,): Position of the pass.
    cursor: np.ndarray
    # (4,): As in :class:`skstruct.solvers.gdmm.state.GDMMState`.
    totals: np.ndarray
