"""Best choices between two labellings of a pairwise model, in room that is used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .binary_cut import begin_cut, empty_signs, find_signs, read_states
from .choices import Choices, Pairs, choose, empty_choices
from .components import component_scratch, strong_components
from .max_flow import advance_flow, empty_forest, empty_network
from .search_trees import FLOW

_NO_COMPONENTS = np.empty(0, dtype=np.int32)

# Nodes to visit between two looks at the clock: about half a second on images.
_WORK = 1_000_000


class Switching(NamedTuple):
    """The relaxation of a choice between two labellings."""

    # (n_variables,): 0 for the first labelling, 1 for the second, 2 where neither is known to be
    # best.
    states: np.ndarray
    # How many states are 2.
    n_half: int
    # The optimum of the relaxation, up to rounding; of the problem itself if no state is 2; -inf if
    # no choice has a finite score.
    bound: float
    # Sum of the sizes of all scores, of which the bound's rounding error is a tiny share.
    size: float
    # Factors in components with frustration; 0 where the problem is a minimum cut.
    n_doubled: int
    # False if it was stopped; the bound is valid, but the states are any.
    done: bool


class Switcher:
    """Solver of choices between labellings of one model."""

    def __init__(self, pairs: Pairs):
        n, m = pairs.state_ptr.size - 1, pairs.columns.size
        self.pairs = pairs
        self.choices, self.signs = empty_choices(n, m), empty_signs(n)
        self.network = self.forest = self.scratch = None
        self.component = _NO_COMPONENTS
        self._size = 0, 0, 0

    def _make_room(self, n_nodes, n_edges, n_doubled):
        """Enlarge what is too small, by half at least."""
        total = n_edges + n_doubled
        if total > self.choices.tail.size:
            more = (np.resize(edges[:n_edges], total) for edges in self.choices[3:])
            self.choices = Choices(*self.choices[:3], *more)
        nodes, arcs = 0, 0
        if self.network is not None:
            nodes, arcs = self.network.excess.size, self.network.cap.size
        if self.network is None or n_nodes > nodes or 2 * total > arcs:
            nodes = max(nodes, n_nodes, min(2 * self.signs.node.size, nodes + nodes // 2))
            self.network = empty_network(nodes, max(arcs, 2 * total))
            self.forest = empty_forest(nodes)
        if n_doubled and n_nodes > self.component.size:
            self.scratch, self.component = component_scratch(nodes), np.empty(nodes, np.int32)

    def set_up(self, off: np.ndarray, on: np.ndarray) -> tuple[int, int] | None:
        """Take a problem, for :meth:`run` to solve."""
        n_edges = choose(self.pairs, off, on, self.choices)
        n_nodes, n_doubled, frustrated = find_signs(self.choices, n_edges, self.signs)
        self._size = n_nodes, n_edges, n_doubled
        if frustrated < 0:
            return None
        ends = self.choices.tail[frustrated] >> 1, self.choices.head[frustrated] >> 1
        return int(ends[0]), int(ends[1])

    def run(self, stop: Callable[[], bool] | None = None) -> Switching:
        """Solve the problem of :meth:`set_up`, once."""
        n_nodes, n_edges, n_doubled = self._size
        self._make_room(n_nodes, n_edges, n_doubled)
        network, forest = self.network, self.forest
        states = np.zeros(self.signs.node.size, dtype=np.int8)
        total = begin_cut(self.choices, n_edges, self.signs, n_nodes, network, forest)
        if not total > -np.inf:
            return Switching(states, 0, -np.inf, 0.0, n_doubled, True)
        done = advance_flow(network, forest, _WORK)
        while not done and not (stop is not None and stop()):
            done = advance_flow(network, forest, _WORK)
        if n_doubled:
            strong_components(n_nodes, network, forest, self.scratch, self.component)
        n_half = read_states(self.signs, forest, self.component, states)
        flow = float(forest.amount[FLOW])
        size = float(self.choices.constant[1])
        return Switching(states, n_half, total - flow, size, n_doubled, done)

    def solve(
        self, off: np.ndarray, on: np.ndarray, stop: Callable[[], bool] | None = None
    ) -> Switching:
        """The best choice for each variable, as far as the relaxation tells.

        Kolmogorov and Rother 2007, Minimizing nonsubmodular functions with graph cuts: a review.
        """
        self.set_up(off, on)
        return self.run(stop)
