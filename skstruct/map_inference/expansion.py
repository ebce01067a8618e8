"""Moves of many variables at once, by one flow each: fusion of labellings, alpha-expansion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..inference.choices import pairs_score
from ..inference.switching import Switcher
from .pairwise import in_larger_factors, pairs_of

_MOST_ROUNDS = 100


class Fuser:
    """Take the better of two labels at every variable, all at once.

    Variables of factors of three and more variables keep their labels.
    """

    def __init__(self, graph):
        self.graph = graph
        self._pairs = pairs_of(graph)
        self._switcher = Switcher(self._pairs)
        held = in_larger_factors(graph)
        self._held = held if held.any() else None

    def fuse(
        self, labels: np.ndarray, other: np.ndarray, stop: Callable[[], bool] | None = None
    ) -> np.ndarray:
        """The labelling with labels of another where that is known to be better.

        Lempitsky, Rother, Roth and Blake 2010, Fusion moves for Markov random field optimization.
        """
        if self._held is not None:
            other = np.where(self._held, labels, other)
        if np.array_equal(labels, other):
            return labels
        found = self._switcher.solve(labels, other, stop)
        if not (found.states == 1).any():
            return labels
        fused = np.where(found.states == 1, other, labels)
        better = pairs_score(self._pairs, fused) > pairs_score(self._pairs, labels)
        return fused if better else labels

    def expand(self, labels: np.ndarray, rng, on_pass: Callable[[float], bool]) -> np.ndarray:
        """Offer each label to all variables, in random orders, until none is taken.

        Boykov, Veksler and Zabih 2001, Fast approximate energy minimization via graph cuts,
        section 3.
        """
        n_states = self.graph.n_states
        most = int(n_states.max(initial=1))
        refused = set()
        for turn in range(_MOST_ROUNDS):
            for k, label in enumerate(rng.permutation(most)):
                # A label that was refused since the last change is refused again.
                if label in refused:
                    continue
                share = (turn + k / most) / _MOST_ROUNDS
                if on_pass(share):
                    return labels
                other = np.where(label < n_states, label, labels)
                fused = self.fuse(labels, other, lambda share=share: on_pass(share))
                if fused is not labels:
                    refused.clear()
                    labels = fused
                else:
                    refused.add(label)
            if len(refused) == most:
                break
        return labels


def fuse(graph, labels: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The labelling with labels of another where that is known to be better, by one flow."""
    return Fuser(graph).fuse(labels, other)


def expand(
    graph, labels: np.ndarray, rng, on_pass: Callable[[float], bool] = lambda share: False
) -> np.ndarray:
    """Improve a labelling by moves that offer one label to all variables at once."""
    return Fuser(graph).expand(labels, rng, on_pass)
