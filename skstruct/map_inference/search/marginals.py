"""Domains, costs that can be put back, and the least costs of a function label by label."""

import math

from ...core.dispatch import inner_kernel
from .flat import BOUND, GAP, LEVEL, SIZES, STAMP, TRAIL, UPPER


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
def least_costs(w, s, f, slot, width):
    """``low[k]``: the least loaded cost of a function for each label of a slot."""
    least_costs_of(w, s, f, slot, width, 0, s.size[w.scope[slot]])


@inner_kernel
def least_costs_of(w, s, f, slot, width, first, last):
    """The same for some of the labels."""
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


@inner_kernel
def blame(s, f):
    """A function that failed counts in the order of variables."""
    s.weight[f] += 1.0
