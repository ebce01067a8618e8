"""From messages to labellings: the best one of several ways, kept."""

from __future__ import annotations

import numpy as np

from .regions import score_extent
from .scoring import improve_labels, score_labels


class Decoder:
    """Keep the best labelling that is offered; improve labellings label by label."""

    def __init__(self, graph):
        self._p = p = graph.regions
        self.labels = np.zeros(graph.n_variables, dtype=np.int64)
        self.score = score_labels(p, self.labels)
        self._work = self.labels.copy()
        self._order = np.arange(graph.n_variables)
        self._counts = np.zeros(p.kind.size, dtype=np.int64)
        self._scratch = np.zeros(int(graph.n_states.max(initial=1)))
        self._low = -2.0 * (1.0 + score_extent(p))

    def offer(self, labels):
        """Keep a copy of a labelling if it is the best; its score."""
        score = score_labels(self._p, labels)
        if score > self.score:
            self.score = score
            self.labels[:] = labels
        return score

    def improve(self, labels, passes=20):
        """Offer what iterated conditional modes make of a labelling; its score."""
        self._work[:] = labels
        for _ in range(passes):
            changed = improve_labels(
                self._p, self._order, self._work, self._counts, self._low, self._scratch
            )
            if not changed:
                break
        return self.offer(self._work)
