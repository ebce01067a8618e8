"""Walks through tables row by row: along the last variable, with the children's configurations."""

import math

from ...core.dispatch import inner_kernel
from ...inference.numerics import fast_exp
from .scratch import LOWEST, fill_own


@inner_kernel
def children_of(p, r, configuration, base):
    """Configurations of the children in one configuration of a variable or table."""
    begin, first = p.scope_ptr[r], p.slot_ptr[r]
    arity, n_slots = p.scope_ptr[r + 1] - begin, p.slot_ptr[r + 1] - first
    if arity == 2:
        n_last = p.n_states[p.scope[begin + 1]]
        base[0] = configuration // n_last
        base[1] = configuration - base[0] * n_last
        return
    for q in range(n_slots):
        base[q] = 0
    if n_slots == 0:
        return
    for d in range(arity - 1, -1, -1):
        n = p.n_states[p.scope[begin + d]]
        label = configuration % n
        configuration //= n
        for q in range(n_slots):
            base[q] += label * p.steps[p.step_ptr[r] + q * arity + d]


@inner_kernel
def _start(p, r, scratch):
    """Stand at the first row of a table; rows, their length."""
    arity = p.scope_ptr[r + 1] - p.scope_ptr[r]
    for d in range(arity):
        scratch.digits[d] = 0
    for q in range(p.slot_ptr[r + 1] - p.slot_ptr[r]):
        scratch.base[q] = 0
    n_last = p.n_states[p.scope[p.scope_ptr[r + 1] - 1]]
    return p.size[r] // n_last, n_last


@inner_kernel
def _advance(p, r, scratch):
    """Go to the next row."""
    begin = p.scope_ptr[r]
    arity, n_slots = p.scope_ptr[r + 1] - begin, p.slot_ptr[r + 1] - p.slot_ptr[r]
    for d in range(arity - 2, -1, -1):
        n, step = p.n_states[p.scope[begin + d]], p.step_ptr[r] + d
        if scratch.digits[d] + 1 < n:
            scratch.digits[d] += 1
            for q in range(n_slots):
                scratch.base[q] += p.steps[step + q * arity]
            return
        scratch.digits[d] = 0
        for q in range(n_slots):
            scratch.base[q] -= (n - 1) * p.steps[step + q * arity]


@inner_kernel
def _last_step(p, r, q):
    """How a child's configuration moves along a row of a table of three and more variables."""
    arity = p.scope_ptr[r + 1] - p.scope_ptr[r]
    return p.steps[p.step_ptr[r] + (q + 1) * arity - 1]


@inner_kernel
def subtract_messages(p, r, delta, hat, scratch):
    """Take the messages of the own slots from the scores of three and more variables."""
    n_rows, n_last = _start(p, r, scratch)
    first = p.slot_ptr[r]
    for row in range(n_rows):
        at, constant = row * n_last, 0.0
        for slot in range(first, p.slot_ptr[r + 1]):
            step = _last_step(p, r, slot - first)
            m = p.message_ptr[slot] + scratch.base[slot - first]
            if step == 0:
                constant += delta[m]
            elif step == 1:
                for x in range(n_last):
                    hat[at + x] -= delta[m + x]
            else:
                for x in range(n_last):
                    hat[at + x] -= delta[m + x * step]
        for x in range(n_last):
            hat[at + x] -= constant
        _advance(p, r, scratch)


@inner_kernel
def spread(p, r, values, down, use_max, scratch):
    """Maximise or sum a table of three and more variables onto its children."""
    fill_own(p, r, down, -math.inf if use_max else 0.0)
    n_rows, n_last = _start(p, r, scratch)
    first = p.slot_ptr[r]
    for row in range(n_rows):
        at, total = row * n_last, values[row * n_last]
        for x in range(1, n_last):
            total = max(total, values[at + x]) if use_max else total + values[at + x]
        for slot in range(first, p.slot_ptr[r + 1]):
            step = _last_step(p, r, slot - first)
            m = p.message_ptr[slot] + scratch.base[slot - first]
            if step == 0:
                down[m] = max(down[m], total) if use_max else down[m] + total
            elif use_max:
                for x in range(n_last):
                    down[m + x * step] = max(down[m + x * step], values[at + x])
            else:
                for x in range(n_last):
                    down[m + x * step] += values[at + x]
        _advance(p, r, scratch)


@inner_kernel
def _sum_row(values, at, n, step, gamma, down, m, sums, s):
    """Add exponentials of a row, each relative to the maximum of the child's configuration."""
    inverse = 1.0 / gamma
    if step == 0:
        top, total = max(down[m], LOWEST), 0.0
        for x in range(n):
            total += fast_exp((values[at + x] - top) * inverse)
        sums[s] += total
    else:
        for x in range(n):
            top = max(down[m + x * step], LOWEST)
            sums[s + x * step] += fast_exp((values[at + x] - top) * inverse)


@inner_kernel
def soft_spread(p, r, values, gamma, down, scratch):
    """Soft maxima of a table onto its children, each relative to its own maximum."""
    spread(p, r, values, down, True, scratch)
    first, stop = p.slot_ptr[r], p.slot_ptr[r + 1]
    begin, sums = p.message_ptr[first], scratch.sums
    for m in range(begin, p.message_ptr[stop]):
        sums[m - begin] = 0.0
    n_rows, n_last = _start(p, r, scratch)
    for row in range(n_rows):
        for slot in range(first, stop):
            m = p.message_ptr[slot] + scratch.base[slot - first]
            step = _last_step(p, r, slot - first)
            _sum_row(values, row * n_last, n_last, step, gamma, down, m, sums, m - begin)
        _advance(p, r, scratch)
    for m in range(begin, p.message_ptr[stop]):
        if down[m] > -math.inf:
            down[m] += gamma * math.log(sums[m - begin])
