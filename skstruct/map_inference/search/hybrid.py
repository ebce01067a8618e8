"""Hybrid best-first search: short depth-first searches from the open node of the best bound."""

import heapq
import time

import numpy as np

from .diffusion import diffuse, settle
from .dive import DONE, NO_ROOM, dive, replay, rewind, start
from .flat import BOUND, FAILS, GAP, LEVEL, NODES, STAMP, STEP, TRAIL, UPPER, flatten, grown

_MOST_FAILS = 16384  # of one depth-first search
_SECONDS = 0.25  # between two returns to Python


class Part:
    """Search of one connected component.

    The open nodes are a heap of (bound, -depth, number, variables, values, equal).
    """

    def __init__(self, costs, variables):
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
        self.floor, self.is_open = 0, True
        self.above, self.loosest = 0.0, 0.0  # bound of where we began, largest gap so far
        self.most_fails, self.replays, self.rate = 16, 0, 2000.0

    def diffuse(self, most_sweeps, out_of_time, gain=1e-4):
        """Sweep the root until the bound no longer grows."""
        s, n = self.state, len(self.variables)
        for at in range(most_sweeps):
            before = s.real[BOUND]
            for forward in (True, False):
                diffuse(self.network, s, self.width, 0, n, forward)
                s.count[TRAIL] = 0
                s.count[STAMP] += 1
            growth = s.real[BOUND] - before
            if out_of_time() or (at > 3 and growth <= gain * max(1e-3, abs(s.real[BOUND]))):
                break
        settle(self.network, s, self.width)
        s.count[TRAIL] = 0
        s.count[STAMP] += 1

    def begin(self):
        """Have the root visited."""
        start(self.network, self.state)

    @property
    def upper(self):
        """Cost of the best labelling so far."""
        return float(self.state.real[UPPER])

    @property
    def bound(self):
        """No labelling costs less."""
        if not self.is_open:
            return self.upper - self.loosest
        best = self._here()
        if self.heap:
            best = min(best, self.heap[0][0])
        return min(best, self.upper - self.loosest)

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
        variables, values, equal = self.path
        below = slice(self.floor, top)
        variables = np.concatenate([variables, s.level_variable[below]])
        values = np.concatenate([values, s.level_value[below]])
        equal = np.concatenate([equal, s.level_open[below].astype(np.int32)])
        deep = len(self.path[0])
        self._keep(float(s.real[BOUND]), variables, values, equal)
        for level in range(self.floor, top):
            if s.level_open[level]:
                end = deep + level - self.floor + 1
                other = equal[:end].copy()
                other[-1] = 0
                bound = float(s.level_bound[level])
                self._keep(bound, variables[:end], values[:end], other)

    def _keep(self, bound, variables, values, equal):
        self.number += 1
        item = (max(bound, self.above), -len(variables), self.number, variables, values, equal)
        heapq.heappush(self.heap, item)

    def _next(self):
        """Go to the open node of the best bound; False if there is none."""
        s = self.state
        rewind(s, 0)
        while self.heap:
            bound, _, _, variables, values, equal = heapq.heappop(self.heap)
            if bound >= s.real[UPPER] - s.real[GAP]:
                self.heap.clear()
                return False
            self.replays += len(variables)
            if replay(self.network, s, variables, values, equal):
                self.above = bound
                self.path = variables, values, equal
                self.floor = 1
                return True
            rewind(s, 0)
        return False

    def _pace(self):
        """Longer searches when coming back to open nodes takes much of the work."""
        nodes = int(self.state.count[NODES])
        if self.replays > 0.1 * nodes:
            self.most_fails = min(2 * self.most_fails, _MOST_FAILS)
        elif self.replays < 0.05 * nodes:
            self.most_fails = max(self.most_fails // 2, 16)

    def run(self, seconds=_SECONDS):
        """Search for about so long; what it finds is in the state."""
        began = time.perf_counter()
        fails_left = self.most_fails
        while self.is_open:
            left = seconds - (time.perf_counter() - began)
            if left <= 0:
                return
            s = self.state
            self.loosest = max(self.loosest, float(s.real[GAP]))
            nodes, fails = int(s.count[NODES]), int(s.count[FAILS])
            most_nodes = int(max(8, min(left, 0.1) * self.rate))
            at = time.perf_counter()
            state = dive(self.network, s, self.width, self.floor, fails_left, most_nodes)
            spent = max(time.perf_counter() - at, 1e-6)
            done = int(s.count[NODES]) - nodes
            self.rate = 0.5 * self.rate + 0.5 * done / spent
            fails_left -= int(s.count[FAILS]) - fails
            if state == NO_ROOM:
                self.state = grown(s)
            elif state == DONE or fails_left <= 0:
                if state != DONE:
                    self._put_off()
                self._pace()
                fails_left = self.most_fails
                self.is_open = self._next()
