"""Depth-first search from a node, a bounded piece at a time."""

import math

from ...core.dispatch import inner_kernel, kernel
from .flat import (
    ABOVE,
    AT_MOST,
    BOUND,
    EQUAL,
    FAILS,
    GAP,
    LAST,
    LEVEL,
    NODES,
    SIZES,
    TRAIL,
    UNEQUAL,
    UPPER,
)
from .marginals import assign, lower, mark, prune, push, remove, undo
from .propagation import propagate

_MOST_LABELS = 10  # that are tried one by one; more are halved
# What `dive` returns.
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


@kernel
def start(w, s):
    """Have everything visited at the root."""
    for i in range(len(s.size)):
        s.raised[i] = 1
        mark(w, s, i)
