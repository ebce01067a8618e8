"""Hybrid best-first search: short depth-first searches from the open node of the best bound."""

import heapq
from itertools import pairwise

import numpy as np

from ..watch import solving_time
from .diffusion import adopt, diffuse, settle
from .dive import DONE, NO_ROOM, dive, replay, rewind, start
from .flat import BOUND, FAILS, FOUND, GAP, LEVEL, NODES, STAMP, STEP, TRAIL, UPPER, flatten, grown

_MOST_FAILS = 16384  # of one depth-first search
_LEAST_FAILS = 16
_SECONDS = 0.25  # between two returns to Python
_MOST_SWEEPS = 100
_LEAST_GROWTH = 1e-3  # of a sweep, as a share of the gap
_STEP = 0.1  # share of the gap that no event is made for
_LEAST_STEP = 1e-13  # of all costs: less is rounding
_ROUNDING = 1e-4  # of units
_CELLS_A_PIECE = 1 << 25


class Part:
    """Search of one connected component.

    With a `unit` the costs of all labellings are apart by multiples of it.
    The open nodes are a heap of (bound, -depth, number, variables, values, kinds).
    """

    def __init__(self, costs, variables, unit=0.0):
        self.unit = unit
        self.variables = np.array(variables)
        self.domains = [costs.domains[i] for i in variables]
        rank = {i: k for k, i in enumerate(variables)}
        keys = {key for i in variables for key in costs.of[i]}
        keys = sorted(keys, key=lambda key: sorted(rank[i] for i in costs.scopes[key]))
        self.network, self.state = flatten(
            variables,
            {i: costs.unaries[i] for i in variables},
            [costs.scopes[key] for key in keys],
            [costs.tables[key] for key in keys],
        )
        self.width = int(self.state.size.max())
        self.heap, self.number = [], 0
        self.path = tuple(np.zeros(0, dtype=np.int32) for _ in range(3))
        self.floor, self.is_open, self.is_new = 0, True, True
        self.above, self.loosest = 0.0, 0.0  # bound of where we began, largest gap so far
        self.most_fails = self.fails_left = _LEAST_FAILS
        self.replays, self.rate = 0, 32.0  # nodes a second: to begin with, few

    def adopt(self, labels):
        """Begin with a known labelling, if its labels are still there."""
        places = [
            int(np.searchsorted(domain, labels[i]))
            for i, domain in zip(self.variables, self.domains, strict=True)
        ]
        for i, domain, place in zip(self.variables, self.domains, places, strict=True):
            if place >= len(domain) or domain[place] != labels[i]:
                return
        self.state.support[:] = places
        adopt(self.network, self.state)

    def write(self, labels):
        """Write the best labelling so far (or what costs least now) into `labels`."""
        found = self.state.best if self.upper < np.inf else self.state.support
        for i, domain, place in zip(self.variables, self.domains, found, strict=True):
            labels[i] = domain[place]

    def set_gap(self, gap):
        """What the search may leave open; with a unit, all that is below it."""
        real = self.state.real
        real[GAP], real[STEP] = gap, max(_STEP * gap, _LEAST_STEP * real[UPPER])
        if gap < self.unit * (1 - _ROUNDING):
            real[GAP], real[STEP] = self.unit * (1 - _ROUNDING), _ROUNDING * self.unit
        else:
            self.unit = 0.0

    def _pieces(self):
        """Ranges of variables of so many cells that a kernel returns soon."""
        w = self.network
        cells = np.diff(w.table_ptr)[w.owner]
        work = np.cumsum(np.bincount(w.scope, cells, minlength=len(self.variables)))
        ends = np.searchsorted(work, np.arange(_CELLS_A_PIECE, work[-1], _CELLS_A_PIECE))
        ends = [0, *sorted(set(ends.tolist()) - {0}), len(self.variables)]
        return list(pairwise(ends))

    def _forget(self):
        """What was moved at the root is never put back."""
        self.state.count[TRAIL] = 0
        self.state.count[STAMP] += 1

    def diffuse(self, interrupted):
        """Sweep the root until the bound hardly grows."""
        s, n, pieces = self.state, len(self.variables), self._pieces()
        for at in range(_MOST_SWEEPS):
            before = float(s.real[BOUND])
            for forward in (True, False):
                for begin, end in pieces if forward else pieces[::-1]:
                    first, last = (begin, end) if forward else (n - end, n - begin)
                    diffuse(self.network, s, self.width, first, last, forward)
                    if len(pieces) > 1 and interrupted():
                        return
                self._forget()
            growth = float(s.real[BOUND]) - before
            open_gap = min(self.upper - float(s.real[BOUND]), 0.1 * float(s.real[BOUND]))
            if (at > 3 and growth <= _LEAST_GROWTH * open_gap) or interrupted():
                break
        settle(self.network, s, self.width)
        self._forget()

    @property
    def upper(self):
        """Cost of the best labelling so far."""
        return float(self.state.real[UPPER]) if self.state.count[FOUND] else np.inf

    @property
    def bound(self):
        """No labelling costs less."""
        most = self.upper - (0.0 if self.unit else self.loosest)
        if not self.is_open:
            return most
        best = self._here()
        if self.heap:
            best = min(best, self.heap[0][0])
        if self.unit and self.upper < np.inf:
            best = most - self.unit * np.floor((most - best) / self.unit + _ROUNDING)
        return min(best, most)

    def _here(self):
        """Bound of the current depth-first search."""
        s = self.state
        level = int(s.count[LEVEL])
        opened = s.level_open[self.floor : level] == 1
        bounds = s.level_bound[self.floor : level][opened]
        return max(min([float(s.real[BOUND]), *bounds]), self.above)

    def _put_off(self):
        """Keep what the current depth-first search leaves open."""
        s, top = self.state, int(self.state.count[LEVEL])
        variables, values, kinds = self.path
        below = slice(self.floor, top)
        variables = np.concatenate([variables, s.level_variable[below]])
        values = np.concatenate([values, s.level_value[below]])
        taken = s.level_kind[below] ^ (s.level_open[below] == 0)
        kinds = np.concatenate([kinds, taken.astype(np.int32)])
        deep = len(self.path[0])
        self._keep(float(s.real[BOUND]), variables, values, kinds)
        for level in range(self.floor, top):
            if s.level_open[level]:
                end = deep + level - self.floor + 1
                other = kinds[:end].copy()
                other[-1] ^= 1
                bound = float(s.level_bound[level])
                self._keep(bound, variables[:end], values[:end], other)

    def _keep(self, bound, variables, values, kinds):
        self.number += 1
        item = (max(bound, self.above), -len(variables), self.number, variables, values, kinds)
        heapq.heappush(self.heap, item)

    def _next(self):
        """Go to the open node of the best bound; False if there is none."""
        s = self.state
        rewind(s, 0)
        while self.heap:
            bound, _, _, variables, values, kinds = heapq.heappop(self.heap)
            if bound >= s.real[UPPER] - s.real[GAP]:
                self.heap.clear()
                return False
            self.replays += len(variables)
            if replay(self.network, s, variables, values, kinds):
                self.above, self.floor = bound, 1
                self.path = variables, values, kinds
                return True
            rewind(s, 0)
        return False

    def _pace(self):
        """Longer searches when coming back to open nodes takes much of the work."""
        nodes = int(self.state.count[NODES])
        if self.replays > 0.1 * nodes:
            self.most_fails = min(2 * self.most_fails, _MOST_FAILS)
        elif self.replays < 0.05 * nodes:
            self.most_fails = max(self.most_fails // 2, _LEAST_FAILS)
        self.fails_left = self.most_fails

    def run(self, most_nodes, interrupted):
        """Search that many nodes; what is found is in the state."""
        if self.is_new:
            start(self.network, self.state)
            self.is_new = False
        end = int(self.state.count[NODES]) + most_nodes
        while self.is_open and self.state.count[NODES] < end:
            s = self.state
            self.loosest = max(self.loosest, float(s.real[GAP]))
            nodes, fails = int(s.count[NODES]), int(s.count[FAILS])
            piece = min(end - nodes, max(1, int(_SECONDS * self.rate)))
            began = solving_time()
            state = dive(self.network, s, self.width, self.floor, self.fails_left, piece)
            spent = max(solving_time() - began, 1e-6)
            self.rate = 0.5 * self.rate + 0.5 * (int(s.count[NODES]) - nodes) / spent
            self.fails_left -= int(s.count[FAILS]) - fails
            if state == NO_ROOM:
                self.state = grown(s)
            elif state == DONE or self.fails_left <= 0:
                if state != DONE:
                    self._put_off()
                self._pace()
                self.is_open = self._next()
            if interrupted():
                return
