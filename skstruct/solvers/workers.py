"""What each thread of a solver has of its own."""

from __future__ import annotations

import numpy as np

from ..core.oracles import adds_by_columns
from ..core.threads import make_scratch, private_copy
from ..losses.verbs import private_loss

# Samples of a block have so many parts together, and are enough for two threads to end at about the
# same time. With more of them the weights' rows leave the cache before they are added to.
_PARTS_A_BLOCK = 1 << 12
_LEAST, _MOST = 8, 256


def block_size(problem) -> int:
    """How many samples threads work on together: by the data alone."""
    mean = max(int(problem.part_ptr[-1]) // max(problem.part_ptr.size - 1, 1), 1)
    return min(max(_PARTS_A_BLOCK // mean, _LEAST), _MOST)


class Worker:
    """Scratch of one thread, and its share of the weights."""

    def __init__(self, loss, problem, k: int, n: int):
        self._number, self._alone = k, not adds_by_columns(problem)
        self.loss = loss if k == 0 else private_loss(loss)
        self.problem = problem if n == 1 else private_copy(problem)
        scratch = make_scratch(problem)
        self.scratch = np.empty((5, scratch.theta.size)), scratch.labels

    def share_of(self, w, n: int):
        """The weights with what this one of n threads adds to."""
        k = self._number
        share = (int(k > 0), 1) if self._alone else (k, n)
        return w._replace(share=np.array(share, dtype=np.int64))
