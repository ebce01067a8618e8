"""Brute-force references and random data, readable rather than fast."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse
from scipy.special import logsumexp


def all_labellings(n_nodes: int, n_labels: int) -> np.ndarray:
    """Every labelling of `n_nodes` nodes, in lexicographic order.

    Parameters
    ----------
    n_nodes, n_labels : int
        The sizes; there are ``n_labels ** n_nodes`` labellings.

    Returns
    -------
    ndarray of shape (n_labels ** n_nodes, n_nodes) of int32
        The labellings.

    See Also
    --------
    skstruct.testing.brute_force_marginals : Marginals by enumeration.
    skstruct.testing.chain_scores : Scores of labellings of a chain.

    Examples
    --------
    >>> from skstruct.testing import all_labellings
    >>> all_labellings(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    labels = list(itertools.product(range(n_labels), repeat=n_nodes))
    return np.array(labels, dtype=np.int32).reshape(n_labels**n_nodes, n_nodes)


def chain_scores(unary: np.ndarray, transitions: np.ndarray, labellings: np.ndarray) -> np.ndarray:
    """Scores of labellings of a chain, added up term by term.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Node potentials.
    transitions : ndarray of shape (1 or n_nodes - 1, n_labels, n_labels)
        Potentials of (label, next label).
    labellings : ndarray of shape (n, n_nodes)
        The labellings.

    Returns
    -------
    ndarray of shape (n,)
        The scores.

    See Also
    --------
    skstruct.testing.all_labellings : All labellings, for brute force.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.testing import chain_scores
    >>> chain_scores(np.ones((2, 2)), np.zeros((1, 2, 2)), np.array([[0, 1]]))
    array([2.])
    """
    total = np.zeros(len(labellings))
    for t in range(unary.shape[0]):
        total += unary[t, labellings[:, t]]
        if t > 0:
            table = transitions[0 if transitions.shape[0] == 1 else t - 1]
            total += table[labellings[:, t - 1], labellings[:, t]]
    return total


def brute_force_marginals(scores: np.ndarray, indicators: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-partition and part marginals from the scores of all labellings.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores; -inf for a forbidden labelling.
    indicators : ndarray of shape (n, n_parts)
        ``mu(y)`` of each labelling.

    Returns
    -------
    log_partition : float
        ``log sum exp`` of the scores.
    marginals : ndarray of shape (n_parts,)
        Expected indicators.

    See Also
    --------
    skstruct.testing.all_labellings : All labellings, for brute force.
    skstruct.model_selection.cross_val_marginals : Marginals of samples that a fold has held out.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.testing import brute_force_marginals
    >>> brute_force_marginals(np.zeros(2), np.eye(2))[1]
    array([0.5, 0.5])
    """
    log_z = float(logsumexp(scores))
    return log_z, np.exp(scores - log_z) @ indicators


def random_sequences(
    rng: np.random.Generator,
    n_samples: int = 20,
    n_features: int = 5,
    n_labels: int = 3,
    max_length: int = 6,
    sparse_X: bool = False,
) -> tuple[list, list[np.ndarray]]:
    """Random sequences with labels that depend on their features.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws them.
    n_samples, n_features, n_labels, max_length : int
        The sizes; lengths run from 1 to `max_length`.
    sparse_X : bool
        Whether samples are CSR matrices.

    Returns
    -------
    X : list of ndarray or csr_matrix of shape (n_nodes, n_features)
        The samples.
    y : list of ndarray of shape (n_nodes,)
        Labels "a", "b", ...; all occur if there is room.

    See Also
    --------
    skstruct.testing.all_labellings : All labellings, for brute force.
    skstruct.datasets.load_digit_strings : Handwritten dates, composed offline.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0), n_samples=2)
    >>> len(X) == len(y) == 2
    True
    """
    names = np.array([chr(ord("a") + k) for k in range(n_labels)])
    lengths = rng.integers(1, max_length + 1, size=n_samples)
    teacher = rng.normal(size=(n_features, n_labels))
    X, y = [], []
    for length in lengths:
        x = rng.normal(size=(length, n_features)) * (rng.random((length, n_features)) < 0.7)
        codes = (x @ teacher + rng.gumbel(size=(length, n_labels))).argmax(axis=1)
        X.append(sparse.csr_matrix(x) if sparse_X else x)
        y.append(names[codes])
    first = np.concatenate(y)
    for k in range(min(n_labels, first.size)):  # every class occurs
        if names[k] not in first:
            position = int(rng.integers(n_samples))
            y[position][0] = names[k]
            first = np.concatenate(y)
    return X, y
