"""Viterbi decoding of one chain, best labelling and n best."""

import math

from ..dispatch import inner_kernel, kernel


@kernel(inline=True)
def viterbi(unary, transitions, labels, work):
    """Best labelling of a chain.

    The forward pass keeps best scores only; the way back finds each predecessor again, which costs
    O(K) a node where storing it would slow the O(K^2) pass.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Node potentials; -inf forbids.
    transitions : ndarray of shape (1 or n_nodes - 1, n_labels, n_labels)
        Potentials of (label, next label), shared by all edges or one table each.
    labels : ndarray of shape (>= n_nodes,) of int32
        Receives the labelling.
    work : ndarray of shape (>= n_nodes * n_labels,)
        Scratch.

    Returns
    -------
    float
        Its score; -inf when every labelling is forbidden.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.viterbi import viterbi
    >>> labels = np.empty(2, dtype=np.int32)
    >>> viterbi(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[[0.0, 0.0], [3.0, 0.0]]]),
    ...         labels, np.empty(4))
    4.0
    >>> labels
    array([1, 0], dtype=int32)
    """
    n, n_labels = unary.shape
    shared = transitions.shape[0] == 1
    best = work[: n * n_labels].reshape(n, n_labels)
    for k in range(n_labels):
        best[0, k] = unary[0, k]
    for t in range(1, n):
        table = transitions[0 if shared else t - 1]
        for k in range(n_labels):
            best[t, k] = -math.inf
        j = 0
        while j + 3 < n_labels:
            b0, b1, b2, b3 = (
                best[t - 1, j],
                best[t - 1, j + 1],
                best[t - 1, j + 2],
                best[t - 1, j + 3],
            )
            for k in range(n_labels):
                first = max(b0 + table[j, k], b1 + table[j + 1, k])
                second = max(b2 + table[j + 2, k], b3 + table[j + 3, k])
                best[t, k] = max(best[t, k], max(first, second))
            j += 4
        while j < n_labels:
            b0 = best[t - 1, j]
            for k in range(n_labels):
                best[t, k] = max(best[t, k], b0 + table[j, k])
            j += 1
        for k in range(n_labels):
            best[t, k] += unary[t, k]
    last = 0
    for k in range(1, n_labels):
        if best[n - 1, k] > best[n - 1, last]:
            last = k
    value = best[n - 1, last]
    labels[n - 1] = last
    for t in range(n - 1, 0, -1):
        table = transitions[0 if shared else t - 1]
        chosen, chosen_score = 0, -math.inf
        for j in range(n_labels):
            candidate = best[t - 1, j] + table[j, last]
            if candidate > chosen_score:
                chosen, chosen_score = j, candidate
        last = chosen
        labels[t - 1] = last
    return value


@inner_kernel
def _insert(candidate, code, scores, codes, size):
    """Insert into a list of `size` best, descending; equal scores keep their order."""
    position = size - 1
    while position > 0 and scores[position - 1] < candidate:
        scores[position] = scores[position - 1]
        codes[position] = codes[position - 1]
        position -= 1
    scores[position] = candidate
    codes[position] = code


@kernel
def viterbi_top_k(unary, transitions, values, labels, work):
    """The n best labellings of a chain.

    Each cell keeps its best (score, previous label, previous rank) triples; O(n K^2 k) in the worst
    case, less because the previous lists are sorted.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Node potentials; -inf forbids.
    transitions : ndarray of shape (1 or n_nodes - 1, n_labels, n_labels)
        Potentials of (label, next label).
    values : ndarray of shape (k,)
        Receives the scores, best first; -inf where there are fewer labellings.
    labels : ndarray of shape (k, >= n_nodes) of int32
        Receives the labellings.
    work : ndarray of shape (>= 2 * k * (n_nodes * n_labels + 1),)
        Scratch.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.viterbi import viterbi_top_k
    >>> values, labels = np.empty(2), np.empty((2, 1), dtype=np.int32)
    >>> work = np.empty(16)
    >>> viterbi_top_k(np.array([[1.0, 3.0, 2.0]]), np.zeros((1, 3, 3)), values, labels, work)
    >>> values, labels.ravel()
    (array([3., 2.]), array([1, 2], dtype=int32))
    """
    n, n_labels = unary.shape
    size = values.shape[0]
    shared = transitions.shape[0] == 1
    cells = n * n_labels * size
    # A code is ``previous label * k + previous rank``; floats hold it exactly.
    scores = work[:cells].reshape(n, n_labels, size)
    codes = work[cells : 2 * cells].reshape(n, n_labels, size)
    for q in range(cells):
        work[q] = -math.inf
        work[cells + q] = 0.0
    for k in range(n_labels):
        scores[0, k, 0] = unary[0, k]
    for t in range(1, n):
        table = transitions[0 if shared else t - 1]
        for k in range(n_labels):
            here, code = scores[t, k], codes[t, k]
            for j in range(n_labels):
                step = table[j, k]
                for rank in range(size):
                    candidate = scores[t - 1, j, rank] + step
                    if not candidate > here[size - 1]:
                        break
                    _insert(candidate, j * size + rank, here, code, size)
            for rank in range(size):
                here[rank] += unary[t, k]
    ends = work[2 * cells : 2 * cells + size]
    end_codes = work[2 * cells + size : 2 * cells + 2 * size]
    for rank in range(size):
        ends[rank] = -math.inf
        end_codes[rank] = 0.0
    for k in range(n_labels):
        for rank in range(size):
            candidate = scores[n - 1, k, rank]
            if not candidate > ends[size - 1]:
                break
            _insert(candidate, k * size + rank, ends, end_codes, size)
    for q in range(size):
        values[q] = ends[q]
        code = int(end_codes[q])
        for t in range(n - 1, -1, -1):
            labels[q, t] = code // size
            code = int(codes[t, code // size, code % size])
