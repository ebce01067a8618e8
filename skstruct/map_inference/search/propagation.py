"""Soft local consistency (FDAC and existential supports): a bound that grows with each decision."""

import math
from typing import NamedTuple

import numpy as np

from ...core.jit.kernels import inner_kernel, kernel
from ...core.offsets import ends_of

# The flat arrays that the kernels of the search work on.

# Places in State.real: the bound so far, the cost of the best labelling, what a proof may leave
# open, the least move of costs that is worth an event.
BOUND, UPPER, GAP, STEP = range(4)
# Places in State.count.
TRAIL, SIZES, LEVEL, STAMP, NODES, FAILS, LAST, FOUND, VISITS = range(9)

# Decisions: a variable has a label, or not; its label is at most this one, or above it. The other
# branch of a decision has the code with the last bit flipped.
UNEQUAL, EQUAL, AT_MOST, ABOVE = range(4)


class Network(NamedTuple):
    """Cost functions of a search; variables in their order, scopes ascending."""

    # (n_variables + 1,): Where the unary costs of each variable begin.
    state_ptr: np.ndarray
    # Variables of each function; a place in `scope` is a slot.
    scope_ptr: np.ndarray
    scope: np.ndarray
    # (n_slots,): Step of a slot's variable in the table, where its shifts begin in ``State.cost``,
    # function.
    stride: np.ndarray
    shift_ptr: np.ndarray
    owner: np.ndarray
    # Costs of the functions, row-major, inf where forbidden.
    table_ptr: np.ndarray
    table: np.ndarray
    # Slots of each variable.
    slots_ptr: np.ndarray
    slots: np.ndarray


class State(NamedTuple):
    """State of a search."""

    # Unary costs, then the shifts: a function costs its table minus its slots' shifts.
    cost: np.ndarray
    # The last level that noted each entry of `cost`.
    stamp: np.ndarray
    # Labels left: the first ``size[i]`` of variable i's `values`, as a sparse set.
    values: np.ndarray
    position: np.ndarray
    size: np.ndarray
    size_stamp: np.ndarray
    # Values to restore.
    trail_at: np.ndarray
    trail_cost: np.ndarray
    trail_variable: np.ndarray
    trail_size: np.ndarray
    # Decisions.
    level_trail: np.ndarray
    level_sizes: np.ndarray
    level_bound: np.ndarray
    level_variable: np.ndarray
    level_value: np.ndarray
    # Levels whose other branch is still to be taken.
    level_open: np.ndarray
    # Decisions.
    level_kind: np.ndarray
    # (n_variables,): Labels that cost least now; the best labelling.
    support: np.ndarray
    best: np.ndarray
    # Functions to visit, variables with new unary costs, variables without a free support.
    dirty: np.ndarray
    raised: np.ndarray
    doubtful: np.ndarray
    # (n_functions,): 1 + failures, for the order of variables.
    weight: np.ndarray
    # Scalars (see the constants of this file).
    real: np.ndarray
    count: np.ndarray
    # Scratch of :mod:`.marginals`.
    mass: np.ndarray
    offset: np.ndarray
    low: np.ndarray
    total: np.ndarray
    digit: np.ndarray


def flatten(unaries, scopes, tables):
    """Network and state of one component; its variables are numbered from 0, scopes ascend."""
    n = len(unaries)
    sizes = np.array([len(costs) for costs in unaries], dtype=np.int64)
    scope, stride, flat = [], [], []
    for places, table in zip(scopes, tables, strict=True):
        table = np.ascontiguousarray(table)
        scope.extend(places)
        stride.extend(step // table.itemsize for step in table.strides)
        flat.append(table.ravel())
    arities = [len(places) for places in scopes]
    state_ptr = ends_of(sizes)
    scope = np.array(scope, dtype=np.int32)
    by_variable = np.argsort(scope, kind="stable").astype(np.int32)
    network = Network(
        state_ptr=state_ptr,
        scope_ptr=ends_of(arities),
        scope=scope,
        stride=np.array(stride, dtype=np.int64),
        shift_ptr=state_ptr[-1] + ends_of(sizes[scope]),
        owner=np.repeat(np.arange(len(scopes), dtype=np.int32), arities),
        table_ptr=ends_of([len(t) for t in flat]),
        table=np.concatenate(flat) if flat else np.zeros(0),
        slots_ptr=ends_of(np.bincount(scope, minlength=n)),
        slots=by_variable,
    )
    return network, _state(network, sizes, np.concatenate(unaries), max(arities, default=1))


def _state(network, sizes, unary, arity):
    n, width = len(sizes), int(sizes.max())
    n_costs, n_states = int(network.shift_ptr[-1]), int(network.state_ptr[-1])
    n_functions, deepest = len(network.scope_ptr) - 1, n_states + 2
    values = np.concatenate([np.arange(k) for k in sizes]).astype(np.int32)
    # Beyond what any labelling costs: without it the bound of an infeasible node grows for ever.
    finite = np.where(network.table < np.inf, network.table, 0.0)
    most = np.maximum.reduceat(finite, network.table_ptr[:-1]).sum() if n_functions else 0.0
    most += np.maximum.reduceat(unary, network.state_ptr[:-1]).sum()
    real, count = np.zeros(4), np.zeros(9, dtype=np.int64)
    real[UPPER] = 1.0 + 1.001 * most
    count[STAMP], count[LAST] = 1, -1
    return State(
        cost=np.concatenate([unary, np.zeros(n_costs - n_states)]),
        stamp=np.zeros(n_costs, dtype=np.int64),
        values=values,
        position=values.copy(),
        size=sizes.astype(np.int32),
        size_stamp=np.zeros(n, dtype=np.int64),
        trail_at=np.zeros(4 * n_costs, dtype=np.int64),
        trail_cost=np.zeros(4 * n_costs),
        trail_variable=np.zeros(deepest + 4 * n, dtype=np.int32),
        trail_size=np.zeros(deepest + 4 * n, dtype=np.int32),
        level_trail=np.zeros(deepest, dtype=np.int64),
        level_sizes=np.zeros(deepest, dtype=np.int64),
        level_bound=np.zeros(deepest),
        level_variable=np.zeros(deepest, dtype=np.int32),
        level_value=np.zeros(deepest, dtype=np.int32),
        level_open=np.zeros(deepest, dtype=np.uint8),
        level_kind=np.zeros(deepest, dtype=np.uint8),
        support=np.zeros(n, dtype=np.int32),
        best=np.full(n, -1, dtype=np.int32),
        dirty=np.ones(n_functions, dtype=np.uint8),
        raised=np.zeros(n, dtype=np.uint8),
        doubtful=np.zeros(n, dtype=np.uint8),
        weight=np.ones(n_functions),
        real=real,
        count=count,
        mass=np.zeros(arity * width),
        offset=np.zeros(arity * width, dtype=np.int64),
        low=np.zeros(width),
        total=np.zeros(width),
        digit=np.zeros(arity, dtype=np.int64),
    )


def grown(state):
    """The state with twice the room for what to put back."""
    return state._replace(
        **{
            name: np.concatenate([getattr(state, name)] * 2)
            for name in ("trail_at", "trail_cost", "trail_variable", "trail_size")
        }
    )


# Domains, costs that can be put back, and the least costs of a function label by label.


@inner_kernel
def set_cost(s, at, value):
    """Write an entry of ``cost``; the first time in a level its old value is noted."""
    if s.stamp[at] != s.count[STAMP]:
        s.stamp[at] = s.count[STAMP]
        top = s.count[TRAIL]
        s.trail_at[top] = at
        s.trail_cost[top] = s.cost[at]
        s.count[TRAIL] = top + 1
    s.cost[at] = value


@inner_kernel
def mark(w, s, i):
    """Have all functions of variable i visited."""
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        s.dirty[w.owner[w.slots[at]]] = 1


@inner_kernel
def _note_size(s, i):
    if s.size_stamp[i] != s.count[STAMP]:
        s.size_stamp[i] = s.count[STAMP]
        top = s.count[SIZES]
        s.trail_variable[top] = i
        s.trail_size[top] = s.size[i]
        s.count[SIZES] = top + 1


@inner_kernel
def _to_place(s, first, value, place):
    """Swap a label of a domain to a place in it."""
    at = s.position[first + value]
    other = s.values[first + place]
    s.values[first + at] = other
    s.position[first + other] = at
    s.values[first + place] = value
    s.position[first + value] = place


@inner_kernel
def remove(w, s, i, value):
    """Take a label from variable i."""
    _note_size(s, i)
    last = s.size[i] - 1
    _to_place(s, w.state_ptr[i], value, last)
    s.size[i] = last
    mark(w, s, i)


@inner_kernel
def assign(w, s, i, value):
    """Leave variable i one label."""
    if s.size[i] > 1:
        _note_size(s, i)
        _to_place(s, w.state_ptr[i], value, 0)
        s.size[i] = 1
        mark(w, s, i)
        s.raised[i] = 1


@inner_kernel
def undo(s, level):
    """Go back to the state before the decision of a level."""
    for top in range(s.count[TRAIL] - 1, s.level_trail[level] - 1, -1):
        s.cost[s.trail_at[top]] = s.trail_cost[top]
    for top in range(s.count[SIZES] - 1, s.level_sizes[level] - 1, -1):
        s.size[s.trail_variable[top]] = s.trail_size[top]
    s.count[TRAIL] = s.level_trail[level]
    s.count[SIZES] = s.level_sizes[level]
    s.real[BOUND] = s.level_bound[level]
    s.count[STAMP] += 1
    for f in range(len(s.dirty)):
        s.dirty[f] = 0
    for i in range(len(s.raised)):
        s.raised[i] = 0


@inner_kernel
def push(s, i, value, kind):
    """Open a level whose decision is a label of a variable."""
    level = s.count[LEVEL]
    s.level_trail[level] = s.count[TRAIL]
    s.level_sizes[level] = s.count[SIZES]
    s.level_bound[level] = s.real[BOUND]
    s.level_variable[level] = i
    s.level_value[level] = value
    s.level_kind[level] = kind
    s.level_open[level] = 1
    s.count[LEVEL] = level + 1
    s.count[STAMP] += 1


@inner_kernel
def prune(w, s, i):
    """Take the labels that are too dear; False if none is left."""
    first = w.state_ptr[i]
    most = s.real[UPPER] - s.real[GAP] - s.real[BOUND]
    k = 0
    while k < s.size[i]:
        value = s.values[first + k]
        if s.cost[first + value] >= most:
            if s.size[i] == 1:
                return False
            remove(w, s, i, value)
        else:
            k += 1
    return True


@inner_kernel
def lower(w, s, i):
    """Move the least unary cost of variable i to the bound."""
    first = w.state_ptr[i]
    least = math.inf
    for k in range(s.size[i]):
        least = min(least, s.cost[first + s.values[first + k]])
    if least > 0.0:
        for k in range(s.size[i]):
            at = first + s.values[first + k]
            set_cost(s, at, s.cost[at] - least)
        s.real[BOUND] += least


@inner_kernel
def load(w, s, f, width):
    """Lay out a function's labels: offsets in its table, minus its shifts."""
    begin = w.scope_ptr[f]
    for q in range(begin, w.scope_ptr[f + 1]):
        i = w.scope[q]
        first, row = w.state_ptr[i], (q - begin) * width
        for k in range(s.size[i]):
            value = s.values[first + k]
            s.offset[row + k] = value * w.stride[q]
            s.mass[row + k] = -s.cost[w.shift_ptr[q] + value]


@inner_kernel
def add_unary(w, s, f, slot, width, sign):
    """Add (or take off) the unary costs of a slot's variable."""
    i = w.scope[slot]
    first, row = w.state_ptr[i], (slot - w.scope_ptr[f]) * width
    for k in range(s.size[i]):
        s.mass[row + k] += sign * s.cost[first + s.values[first + k]]


@inner_kernel
def _fold(w, s, base, mass, row, begin, end, inner, n_inner):
    """Lower ``low`` by the cells of one combination of the other slots."""
    for k in range(begin, end):
        at = base + s.offset[row + k]
        least = math.inf
        for j in range(n_inner):
            least = min(least, w.table[at + s.offset[inner + j]] + s.mass[inner + j])
        s.low[k] = min(s.low[k], least + mass + s.mass[row + k])


@inner_kernel
def least_costs(w, s, f, slot, width, first, last):
    """``low[k]``: the least loaded cost of a function for some labels of a slot."""
    begin, end = w.scope_ptr[f], w.scope_ptr[f + 1]
    arity, d = end - begin, slot - begin
    row = d * width
    e = arity - 1 if d < arity - 1 else arity - 2
    n_inner = s.size[w.scope[begin + e]]
    for k in range(first, last):
        s.low[k] = math.inf
    if arity == 2:
        _fold(w, s, w.table_ptr[f], 0.0, row, first, last, e * width, n_inner)
        return
    for c in range(arity):
        s.digit[c] = 0
    while True:
        base, mass = w.table_ptr[f], 0.0
        for c in range(arity):
            if c != d and c != e:
                base += s.offset[c * width + s.digit[c]]
                mass += s.mass[c * width + s.digit[c]]
        _fold(w, s, base, mass, row, first, last, e * width, n_inner)
        c = arity - 1
        while c >= 0:
            if c != d and c != e:
                s.digit[c] += 1
                if s.digit[c] < s.size[w.scope[begin + c]]:
                    break
                s.digit[c] = 0
            c -= 1
        if c < 0:
            return


_MOST_VISITS = 20  # of each function in one sweep, for the sake of costs alone
_MOST_ROUNDS = 30  # of existential supports in one node


@inner_kernel
def _sweep_labels(w, s, slot):
    """Remove the labels of a slot that ``low`` forbids: -1 none left, 1 some, 0 all allowed."""
    i = w.scope[slot]
    first = w.state_ptr[i]
    some = False
    for k in range(s.size[i]):
        some = some or s.low[k] < math.inf
    if not some:
        return -1
    found = 0
    for k in range(s.size[i] - 1, -1, -1):  # what is swapped in from behind was seen before
        if s.low[k] == math.inf:
            remove(w, s, i, s.values[first + k])
            s.raised[i] = 1
            found = 1
    return found


@inner_kernel
def _take(w, s, f, slot, width):
    """Move ``low`` from a function to its slot's variable; whether there was something to move."""
    i = w.scope[slot]
    first, row = w.state_ptr[i], (slot - w.scope_ptr[f]) * width
    taken = False
    for k in range(s.size[i]):
        move = s.low[k]
        if move > 0.0:
            taken = True
            value = s.values[first + k]
            at = w.shift_ptr[slot] + value
            set_cost(s, at, s.cost[at] + move)
            set_cost(s, first + value, s.cost[first + value] + move)
            s.mass[row + k] -= move
            if move > s.real[STEP]:
                s.raised[i] = 1
    return taken


@inner_kernel
def _project(w, s, f, slot, width):
    """Arc consistency of one slot; False if it has no label left."""
    least_costs(w, s, f, slot, width, 0, s.size[w.scope[slot]])
    state = _sweep_labels(w, s, slot)
    if state < 0:
        return False
    if state > 0:
        load(w, s, f, width)
        least_costs(w, s, f, slot, width, 0, s.size[w.scope[slot]])
    _take(w, s, f, slot, width)
    return True


@inner_kernel
def _extend(w, s, f, slot, width):
    """Give a function what it needs of a slot's unary costs for what its target took."""
    i = w.scope[slot]
    first, row = w.state_ptr[i], (slot - w.scope_ptr[f]) * width
    most = 0.0
    for k in range(s.size[i]):
        most = max(most, s.cost[first + s.values[first + k]])
    if most == 0.0:
        return
    add_unary(w, s, f, slot, width, -1.0)
    least_costs(
        w, s, f, slot, width, 0, s.size[w.scope[slot]]
    )  # the target's mass is already lowered by what it took
    for k in range(s.size[i]):
        value = s.values[first + k]
        need = min(-s.low[k], s.cost[first + value])
        if need > 0.0:
            at = w.shift_ptr[slot] + value
            set_cost(s, at, s.cost[at] - need)
            set_cost(s, first + value, s.cost[first + value] - need)
            s.mass[row + k] += need


@inner_kernel
def _collect(w, s, f, target, width):
    """Full arc consistency of a target slot, with the unary costs of the others; False: fails."""
    begin, end = w.scope_ptr[f], w.scope_ptr[f + 1]
    for turn in range(2):
        for q in range(begin, end):
            if q != target:
                add_unary(w, s, f, q, width, 1.0)
        least_costs(w, s, f, target, width, 0, s.size[w.scope[target]])
        state = _sweep_labels(w, s, target)
        if state < 0:
            return False
        if state == 0 or turn == 1:
            break
        load(w, s, f, width)
    taken = _take(w, s, f, target, width)
    for q in range(begin, end):
        if q != target and taken:
            _extend(w, s, f, q, width)
        elif q != target:
            add_unary(w, s, f, q, width, -1.0)
    return True


@inner_kernel
def _visit(w, s, f, width):
    """Make one function consistent; False if that shows a failure."""
    begin, end = w.scope_ptr[f], w.scope_ptr[f + 1]
    target = begin
    while target < end and s.size[w.scope[target]] == 1:
        target += 1
    load(w, s, f, width)
    if target == end:
        return _project(w, s, f, begin, width)
    if not _collect(w, s, f, target, width):
        return False
    for q in range(end - 1, begin - 1, -1):
        if q != target and s.size[w.scope[q]] > 1 and not _project(w, s, f, q, width):
            return False
    return True


@inner_kernel
def _settle(w, s):
    """Bring raised unary costs to the bound and prune; False if a variable has no label left."""
    before = s.real[BOUND]
    for i in range(len(s.raised)):
        if s.raised[i] == 1:
            lower(w, s, i)
    if not s.real[BOUND] < s.real[UPPER] - s.real[GAP]:
        return False
    everywhere = s.real[BOUND] > before
    for i in range(len(s.raised)):
        if s.raised[i] == 1 or everywhere:
            if not prune(w, s, i):
                return False
            if s.raised[i] == 1:
                s.raised[i] = 0
                _wake(w, s, i)
    return True


@inner_kernel
def _wake(w, s, i):
    """Functions that can carry the unary costs of variable i to an earlier one."""
    if s.count[VISITS] > _MOST_VISITS * len(s.dirty):  # costs can go round in circles
        return
    first = w.state_ptr[i]
    most = 0.0
    for k in range(s.size[i]):
        most = max(most, s.cost[first + s.values[first + k]])
    if most <= s.real[STEP]:
        return
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        f = w.owner[w.slots[at]]
        for q in range(w.scope_ptr[f], w.slots[at]):
            if s.size[w.scope[q]] > 1:
                s.dirty[f] = 1
                break


@inner_kernel
def sweep(w, s, width):
    """Visit the dirty functions, backwards, until none is; False if this shows a failure."""
    s.count[VISITS] = 0
    while True:
        if not _settle(w, s):
            return False
        any_dirty = False
        for f in range(len(s.dirty) - 1, -1, -1):
            if s.dirty[f] == 1:
                s.dirty[f] = 0
                s.count[VISITS] += 1
                any_dirty = True
                if not (_visit(w, s, f, width) and _settle(w, s)):
                    s.weight[f] += 1.0
                    return False
        if not any_dirty:
            return True


@inner_kernel
def choose_supports(w, s):
    """Keep supports of least unary cost; else take one, that of the best labelling among equals."""
    for i in range(len(s.size)):
        first = w.state_ptr[i]
        chosen, least = s.values[first], math.inf
        for k in range(s.size[i]):
            value = s.values[first + k]
            if s.cost[first + value] < least:
                chosen, least = value, s.cost[first + value]
        for turn in range(2):
            known = s.support[i] if turn == 0 else s.best[i]
            there = known >= 0 and s.position[first + known] < s.size[i]
            if there and s.cost[first + known] <= least:
                chosen = known
                break
        s.support[i] = chosen


@inner_kernel
def doubt(w, s):
    """Mark the variables of functions that cost something at the supports; what all cost."""
    for i in range(len(s.doubtful)):
        s.doubtful[i] = 0
    total = 0.0
    for i in range(len(s.size)):
        total += s.cost[w.state_ptr[i] + s.support[i]]
    for f in range(len(s.dirty)):
        at, moved = w.table_ptr[f], 0.0
        for q in range(w.scope_ptr[f], w.scope_ptr[f + 1]):
            value = s.support[w.scope[q]]
            at += value * w.stride[q]
            moved += s.cost[w.shift_ptr[q] + value]
        cost = w.table[at] - moved
        total += cost
        if cost > s.real[STEP]:
            for q in range(w.scope_ptr[f], w.scope_ptr[f + 1]):
                s.doubtful[w.scope[q]] = 1
    return total


@inner_kernel
def improve(s, excess):
    """Keep the supports if they are the best labelling so far."""
    cost = s.real[BOUND] + excess
    if cost < s.real[UPPER]:
        s.real[UPPER] = cost
        s.count[FOUND] += 1
        for i in range(len(s.best)):
            s.best[i] = s.support[i]


@inner_kernel
def _star_totals(w, s, i, width, begin, end):
    """``total[k]``: unary cost and the least costs of all functions with their other variables."""
    first = w.state_ptr[i]
    for k in range(begin, end):
        s.total[k] = s.cost[first + s.values[first + k]]
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        slot = w.slots[at]
        f = w.owner[slot]
        load(w, s, f, width)
        for q in range(w.scope_ptr[f], w.scope_ptr[f + 1]):
            if q != slot:
                add_unary(w, s, f, q, width, 1.0)
        least_costs(w, s, f, slot, width, begin, end)
        for k in range(begin, end):
            s.total[k] += s.low[k]


@inner_kernel
def _is_free(w, s, i, value, width):
    """Return whether a label of variable i costs nothing, all functions around it included."""
    first = w.state_ptr[i]
    if value < 0 or s.position[first + value] >= s.size[i]:
        return False
    if s.cost[first + value] > s.real[STEP]:
        return False
    k = s.position[first + value]
    _star_totals(w, s, i, width, k, k + 1)
    return s.total[k] <= s.real[STEP]


@inner_kernel
def exist(w, s, i, width):
    """Existential support of variable i: -1 fails, 1 the bound can grow and did, 0 supported."""
    if s.best[i] != s.support[i] and _is_free(w, s, i, s.best[i], width):
        s.support[i] = s.best[i]
        return 0
    if _is_free(w, s, i, s.support[i], width):
        return 0
    _star_totals(w, s, i, width, 0, s.size[i])
    first = w.state_ptr[i]
    chosen, least = s.support[i], math.inf
    for k in range(s.size[i]):
        if s.total[k] < least:
            chosen, least = s.values[first + k], s.total[k]
    if least <= s.real[STEP]:
        s.support[i] = chosen
        return 0
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        f = w.owner[w.slots[at]]
        load(w, s, f, width)
        if not _collect(w, s, f, w.slots[at], width):
            s.weight[f] += 1.0
            return -1
        s.dirty[f] = 1
    s.raised[i] = 1
    mark(w, s, i)
    return 1


@inner_kernel
def propagate(w, s, width):
    """All consistency of a node. -1: fails; 0: open; 1: the supports are as good as the bound."""
    before = -math.inf
    rounds = 0
    while True:
        if not sweep(w, s, width):
            return -1
        rounds += 1
        grew = s.real[BOUND] > before + s.real[STEP] and rounds < _MOST_ROUNDS
        before = s.real[BOUND]
        choose_supports(w, s)
        excess = doubt(w, s)
        improve(s, excess)
        if excess <= s.real[GAP]:
            return 1
        again = False
        for i in range(len(s.size)):
            if grew and s.doubtful[i] == 1 and s.size[i] > 1:
                state = exist(w, s, i, width)
                if state < 0:
                    return -1
                again = again or state > 0
        if not again:
            improve(s, doubt(w, s))
            if not s.real[BOUND] < s.real[UPPER] - s.real[GAP]:
                return -1
            return 0


# Sequential reparametrisation (TRW-S, SRMP) of the root: the bound before any decision.


@inner_kernel
def _gather(w, s, i, width):
    """Move the least costs of all functions of a variable to it."""
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        slot = w.slots[at]
        load(w, s, w.owner[slot], width)
        least_costs(w, s, w.owner[slot], slot, width, 0, s.size[i])
        _take(w, s, w.owner[slot], slot, width)
    lower(w, s, i)


@inner_kernel
def _hand_on(w, s, i, forward):
    """Distribute a variable's costs over the functions ahead."""
    ahead, behind = 0, 0
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        slot = w.slots[at]
        f = w.owner[slot]
        ahead += slot < w.scope_ptr[f + 1] - 1
        behind += slot > w.scope_ptr[f]
    share = 1.0 / max(ahead, behind, 1)
    if not forward:
        ahead = behind
    first = w.state_ptr[i]
    for k in range(s.size[i]):
        value = s.values[first + k]
        move = s.cost[first + value] * share
        for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
            slot = w.slots[at]
            f = w.owner[slot]
            if (slot < w.scope_ptr[f + 1] - 1) if forward else (slot > w.scope_ptr[f]):
                shift = w.shift_ptr[slot] + value
                set_cost(s, shift, s.cost[shift] - move)
        left = max(s.cost[first + value] - ahead * move, 0.0)
        set_cost(s, first + value, left)


@kernel
def diffuse(w, s, width, begin, end, forward):
    """Part of a sweep over the variables, in their order or against it."""
    for at in range(begin, end):
        i = at if forward else len(s.size) - 1 - at
        _gather(w, s, i, width)
        _hand_on(w, s, i, forward)


@kernel
def settle(w, s, width):
    """Leave every function with least costs of 0 at all variables."""
    for i in range(len(s.size)):
        _gather(w, s, i, width)


@kernel
def adopt(w, s):
    """Keep the supports if they are the best labelling so far."""
    improve(s, doubt(w, s))
