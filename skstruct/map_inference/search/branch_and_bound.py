"""Branch and bound, hybrid best-first: depth-first searches from the open node of best bound."""

from __future__ import annotations

import heapq
import math

import numpy as np

from ...core.arguments import check_integer, check_real
from ...core.jit.compiling import solving_time
from ...core.jit.kernels import inner_kernel, kernel
from ...core.parallel import Pieces
from ..budget import Budget, Stopped
from ..regions import check_duals, check_labels
from ..scoring import Incumbent
from .costs import Costs, Expanded, Infeasible, unit_of
from .propagation import (
    ABOVE,
    AT_MOST,
    BOUND,
    EQUAL,
    FAILS,
    FOUND,
    GAP,
    LAST,
    LEVEL,
    NODES,
    SIZES,
    STAMP,
    STEP,
    TRAIL,
    UNEQUAL,
    UPPER,
    adopt,
    assign,
    diffuse,
    flatten,
    grown,
    lower,
    propagate,
    prune,
    push,
    remove,
    settle,
    undo,
)

# Depth-first search from a node, a bounded piece at a time.

_MOST_LABELS = 10  # that are tried one by one; more are halved
# Results of `dive`.
DONE, PAUSED, NO_ROOM = range(3)


@inner_kernel
def _weight(w, s, i):
    """Failures of the functions of variable i that have another free variable."""
    weight = 0.0
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        f = w.owner[w.slots[at]]
        for q in range(w.scope_ptr[f], w.scope_ptr[f + 1]):
            if q != w.slots[at] and s.size[w.scope[q]] > 1:
                weight += s.weight[f]
                break
    return weight


@inner_kernel
def _choose(w, s):
    """The variable to branch on: of the last failure, else few labels for many failures."""
    last = s.count[LAST]
    if last >= 0 and s.size[last] > 1:
        return last
    chosen, best, most = -1, math.inf, 0.0
    for doubtful in range(1, -1, -1):
        for i in range(len(s.size)):
            if s.size[i] > 1 and s.doubtful[i] == doubtful:
                rank = s.size[i] / (1e-3 + _weight(w, s, i))
                first = w.state_ptr[i]
                unary = 0.0
                for k in range(s.size[i]):
                    unary += s.cost[first + s.values[first + k]]
                if rank < best * 0.999 or (rank < best * 1.001 and unary > most):
                    chosen, best, most = i, rank, unary
        if chosen >= 0:
            break
    return chosen


@inner_kernel
def _decide(w, s, i, value, kind):
    """Take a decision; False if no label is left."""
    first = w.state_ptr[i]
    if kind == EQUAL:
        if s.position[first + value] >= s.size[i]:
            return False
        assign(w, s, i, value)
        return True
    for k in range(s.size[i] - 1, -1, -1):  # what is swapped in from behind was seen before
        label = s.values[first + k]
        if kind == UNEQUAL:
            goes = label == value
        else:
            goes = (label > value) == (kind == AT_MOST)
        if goes:
            if s.size[i] == 1:
                return False
            remove(w, s, i, label)
            s.raised[i] = 1
    return True


@inner_kernel
def _branch(w, s, i):
    """Decide on a variable: its support, or the half of a long range that has the support."""
    value = s.support[i]
    if s.size[i] <= _MOST_LABELS:
        push(s, i, value, EQUAL)
        assign(w, s, i, value)
        return
    first = w.state_ptr[i]
    lowest, highest = s.values[first], s.values[first]
    for k in range(s.size[i]):
        lowest = min(lowest, s.values[first + k])
        highest = max(highest, s.values[first + k])
    middle = (lowest + highest) // 2
    kind = AT_MOST if value <= middle else ABOVE
    push(s, i, middle, kind)
    _decide(w, s, i, middle, kind)


@inner_kernel
def _backtrack(w, s, floor):
    """Take the deepest open branch above a floor; False if there is none."""
    while s.count[LEVEL] > floor:
        level = s.count[LEVEL] - 1
        undo(s, level)
        if s.level_open[level] == 1 and s.real[BOUND] < s.real[UPPER] - s.real[GAP]:
            s.level_open[level] = 0
            i = s.level_variable[level]
            if _decide(w, s, i, s.level_value[level], s.level_kind[level] ^ 1):
                return True
        s.count[LEVEL] = level
    return False


@kernel
def dive(w, s, width, floor, most_fails, most_nodes):
    """Search below the current node, whose state is not yet consistent, until it is done."""
    fails, nodes = 0, 0
    while True:
        if s.count[TRAIL] + len(s.cost) > len(s.trail_at) or s.count[SIZES] + len(s.size) > len(
            s.trail_size
        ):
            return NO_ROOM
        if fails >= most_fails or nodes >= most_nodes:
            return PAUSED
        nodes += 1
        s.count[NODES] += 1
        state = propagate(w, s, width)
        chosen = -1
        if state == 0:
            chosen = _choose(w, s)
        if chosen < 0:
            if s.count[LEVEL] > floor and state < 0:
                s.count[LAST] = s.level_variable[s.count[LEVEL] - 1]
            fails += 1
            s.count[FAILS] += 1
            if not _backtrack(w, s, floor):
                return DONE
        else:
            _branch(w, s, chosen)


@kernel
def rewind(s, level):
    """Undo all levels from one on."""
    if s.count[LEVEL] > level:
        undo(s, level)
        s.count[LEVEL] = level


@kernel
def replay(w, s, variables, values, kinds):
    """Take the decisions of a node at once, in one level; False if they contradict."""
    push(s, -1, -1, EQUAL)
    s.level_open[s.count[LEVEL] - 1] = 0
    for d in range(len(variables)):
        if not _decide(w, s, variables[d], values[d], kinds[d]):
            return False
    for i in range(len(s.size)):
        lower(w, s, i)
        s.raised[i] = 1
        if not prune(w, s, i):
            return False
    return True


_MOST_FAILS = 16384  # of one depth-first search
_LEAST_FAILS = 16
_SECONDS = 0.25  # between two returns to Python
_MOST_SWEEPS = 100
_LEAST_GROWTH = 1e-3  # of a sweep, as a fraction of the gap
_STEP = 0.1  # fraction of the gap that no event is made for
_LEAST_STEP = 1e-13  # of all costs: less is rounding
_ROUNDING = 1e-4  # of units


class Component:
    """Search of one component; open nodes: (bound, -depth, number, variables, values, kinds)."""

    def __init__(self, costs, variables, unit=0.0):
        self.unit = unit
        self.variables = np.array(variables)
        self.domains = [costs.domains[i] for i in variables]
        rank = {i: k for k, i in enumerate(variables)}
        keys = {key for i in variables for key in costs.of[i]}
        keys = sorted(keys, key=lambda key: sorted(rank[i] for i in costs.scopes[key]))
        self.network, self.state = flatten(
            [costs.unaries[i] for i in variables],
            [[rank[i] for i in costs.scopes[key]] for key in keys],
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
        labels = labels[self.variables]
        if all(map(np.isin, labels, self.domains)):
            self.state.support[:] = [*map(np.searchsorted, self.domains, labels)]
            adopt(self.network, self.state)

    def write(self, labels):
        """Write the best labelling so far (or what costs least now) into `labels`."""
        found = self.state.best if self.upper < np.inf else self.state.support
        for i, domain, place in zip(self.variables, self.domains, found, strict=True):
            labels[i] = domain[place]

    def set_gap(self, gap):
        """Set the gap that the search may leave open; with a unit, all that is below it."""
        real = self.state.real
        real[GAP], real[STEP] = gap, max(_STEP * gap, _LEAST_STEP * real[UPPER])
        if gap < self.unit * (1 - _ROUNDING):
            real[GAP], real[STEP] = self.unit * (1 - _ROUNDING), _ROUNDING * self.unit
        else:
            self.unit = 0.0

    def _forget(self):
        """Clear the trail: what was moved at the root is never restored."""
        self.state.count[TRAIL] = 0
        self.state.count[STAMP] += 1

    def diffuse(self, check):
        """Sweep the root until the bound hardly grows."""
        s, pieces = self.state, Pieces(check)
        for at in range(_MOST_SWEEPS):
            before = float(s.real[BOUND])
            for forward in (True, False):
                for begin, end in pieces.ranges(0, len(self.variables)):
                    diffuse(self.network, s, self.width, begin, end, forward)
                self._forget()
            growth = float(s.real[BOUND]) - before
            open_gap = min(self.upper - float(s.real[BOUND]), 0.1 * float(s.real[BOUND]))
            if at > 3 and growth <= _LEAST_GROWTH * open_gap:
                break
            check()
        settle(self.network, s, self.width)
        self._forget()

    @property
    def upper(self):
        """Cost of the best labelling so far."""
        return float(self.state.real[UPPER]) if self.state.count[FOUND] else np.inf

    @property
    def bound(self):
        """No labelling costs less."""
        s = self.state
        most = self.upper - (0.0 if self.unit else self.loosest)
        if not self.is_open:
            return most
        # The current depth-first search, then the other open nodes.
        depth = slice(self.floor, int(s.count[LEVEL]))
        bounds = s.level_bound[depth][s.level_open[depth] == 1]
        best = max(min([float(s.real[BOUND]), *bounds]), self.above)
        if self.heap:
            best = min(best, self.heap[0][0])
        if self.unit and self.upper < np.inf:
            best = most - self.unit * np.floor((most - best) / self.unit + _ROUNDING)
        return min(best, most)

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

    def run(self, most_nodes, check):
        """Search that many nodes; what is found is in the state."""
        if self.is_new:
            self.state.raised[:] = self.state.dirty[:] = 1
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
            check()


_NODES_A_PASS = 1000
_SECONDS_A_LOOK = 0.02  # between two looks at the clock
_GAP = 0.1  # fraction of the tolerance that the search may leave open


class _Search:
    """All components of a graph, their bounds and labellings together."""

    def __init__(self, graph, tol, max_iter, budget, duals):
        self.graph, self.max_iter = graph, max_iter
        self.best = Incumbent(graph, tol, budget)
        self.passes, self.components, self.is_split, self.asked = 0, [], False, -np.inf
        self.expanded, self.unit = Expanded(graph, duals), unit_of(graph)
        tables = [table for _, table in self.expanded.tables]
        scores = [np.abs(s[np.isfinite(s)]).max(initial=0) for s in self.expanded.unaries + tables]
        self.rounding = 1e-15 * (abs(graph.offset) + float(np.sum(scores)))
        self.costs = Costs(self.expanded.unaries, self.expanded.tables, graph.offset, self.check)
        self.first_bound = -self.costs.least()

    @property
    def bound(self):
        """Upper bound on the score of any labelling."""
        score = self.best.score
        if not self.is_split:
            return max(self.first_bound + self.rounding, score)
        total = -self.costs.constant - sum(part.bound for part in self.components)
        if self.unit and np.isfinite(total - score):  # better ones are whole units better
            return score + self.unit * max(0.0, (total - score + 1e-4 * self.unit) // self.unit)
        return max(total + self.rounding, score)

    def take(self, labels):
        """Keep a labelling of the graph if it is the best."""
        self.best.offer(labels, float(self.graph.score(labels)))

    def prepare(self, growth, most_variables):
        """Simplify, split, and bound the root of each component."""
        self.costs.simplify(growth, most_variables)
        known = self.expanded.with_hidden(self.best.labels)
        for variables in self.costs.components():
            self.components.append(Component(self.costs, variables, self.unit))
            if self.best.score > -np.inf:
                self.components[-1].adopt(known)
        self.is_split = True
        self.set_gaps()
        for part in self.components:
            part.diffuse(self.check)
        self.gather()

    def set_gaps(self):
        """Set the gap that each component may leave open."""
        score = self.best.score
        gap = _GAP * self.best.tol * max(1.0, abs(score) if score > -np.inf else 0.0)
        for part in self.components:
            part.set_gap(gap / len(self.components))

    def gather(self):
        """Put the labellings of the components together."""
        labels = self.expanded.with_hidden(self.best.labels)
        for part in self.components:
            part.write(labels)
        self.take(self.costs.expand(labels)[: self.graph.n_variables])

    def check(self, *_):
        """Raise `Stopped` if it is time to stop; called after each piece of work."""
        now = self.best.budget.seconds
        if now - self.asked >= _SECONDS_A_LOOK:
            self.asked = now
            self.best.budget.check(self.passes / self.max_iter, self.bound, self.best.score)

    def search(self):
        """Passes over the open components."""
        while self.passes < self.max_iter and any(part.is_open for part in self.components):
            self.passes += 1
            for part in self.components:
                if part.is_open:
                    part.run(_NODES_A_PASS, self.check)
                    if part.upper == np.inf and not part.is_open:
                        raise Infeasible
            self.gather()
            self.set_gaps()
            self.best.record(self.passes, self.bound)


def solve_branch_and_bound(
    graph,
    *,
    tol=1e-6,
    max_iter=1000,
    rng=None,
    budget=None,
    start=None,
    duals=None,
    growth=16.0,
    most_variables=7,
):
    """Branch and bound with soft local consistency (Cooper et al. 2010), hybrid best-first.

    Search: Allouche et al. 2015, section 3. The root's bound: Kolmogorov 2015.
    """
    growth = check_real("growth", growth, finite=False)
    most_variables = check_integer("most_variables", most_variables, 0)
    duals = check_duals(graph, duals)
    search = _Search(graph, tol, max_iter, Budget() if budget is None else budget, duals)
    best, message = search.best, "stopped with open nodes"
    if start is not None:
        search.take(check_labels(start, graph.n_states, "start"))
    try:
        search.prepare(growth, most_variables)
        search.search()
    except Infeasible:
        best.score = -np.inf
        best.record(search.passes, -np.inf)
        message = "no labelling has a finite score"
        return best.result("branch-and-bound", message, search.passes, True)
    except Stopped:
        if search.is_split:
            search.gather()
    best.record(search.passes, search.bound)
    if best.is_proved:
        message = "the search is complete"
    return best.result("branch-and-bound", message, search.passes, best.is_proved)
