"""Sweeps over long vectors in threads, with the same bits for any number of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from ...core.threads import effective_threads

# What a run adds up, and when, does not depend on the threads: runs are as long as this for all.
_RUN = 1 << 16
# Telling a thread what to do costs as much as a few runs.
_RUNS_A_THREAD = 4


class Sweeps:
    """Calls kernels on runs of vectors."""

    def __init__(self, size: int, n_jobs: int | None):
        self._runs = list(pairwise([*range(0, size, _RUN), size])) or [(0, 0)]
        self._n_threads = min(effective_threads(n_jobs), max(len(self._runs) // _RUNS_A_THREAD, 1))
        self._threads = ThreadPoolExecutor(self._n_threads) if self._n_threads > 1 else None

    def __call__(self, kernel, n_sums: int, *arguments, scratch=None, largest=None) -> np.ndarray:
        """Call ``kernel(*arguments, [scratch,] first, last, out)`` on all runs."""
        sums = np.zeros((len(self._runs), n_sums))

        def work(offset):
            own = () if scratch is None else (np.empty(scratch),)
            for k in range(offset, len(self._runs), self._n_threads):
                kernel(*arguments, *own, *self._runs[k], sums[k])

        if self._threads is None:
            work(0)
        else:
            for done in [self._threads.submit(work, k) for k in range(self._n_threads)]:
                done.result()
        return sums.sum(axis=0) if largest is None else self._with_largest(sums, largest)

    def _with_largest(self, sums, column):
        total = sums.sum(axis=0)
        total[column] = sums[:, column].max()
        return total
