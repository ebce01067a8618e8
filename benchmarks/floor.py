"""The floor of a sweep: a loop that only reads and updates the weight rows of each sample."""

from __future__ import annotations

import time

import numba
import numpy as np


@numba.njit(fastmath=True)
def _sweep(table, indices, indptr, offsets, order, total):
    width = table.shape[1]
    acc = np.empty(width)
    for i in order:
        for t in range(offsets[i], offsets[i + 1]):
            acc[:] = 0.0
            for p in range(indptr[t], indptr[t + 1]):
                j = indices[p]
                for q in range(width):
                    acc[q] += table[j, q]
            for q in range(width):
                total[q] += acc[q]
        for t in range(offsets[i], offsets[i + 1]):
            for q in range(width):
                acc[q] = 1e-12 * total[q]
            for p in range(indptr[t], indptr[t + 1]):
                j = indices[p]
                for q in range(width):
                    table[j, q] += acc[q]


def floor_seconds(X, n_labels, repeats=5):
    """Best wall time of one sweep over CSR samples in random order.

    Parameters
    ----------
    X : RaggedArray over CSR
        The samples.
    n_labels : int
        A row holds twice as many floats: the weights and SAG's gradient sum.
    repeats : int
        Sweeps, of which the best counts.

    Returns
    -------
    float
        Seconds.
    """
    table = np.zeros((X.flat.shape[1], 2 * n_labels))
    order = np.random.default_rng(0).permutation(len(X))
    arguments = (table, X.flat.indices, X.flat.indptr, X.offsets, order, np.zeros(2 * n_labels))
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        _sweep(*arguments)
        times.append(time.perf_counter() - start)
    return min(times[1:])
