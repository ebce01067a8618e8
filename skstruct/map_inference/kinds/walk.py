"""Walks through tables row by row: along the last variable, with the children's configurations."""

import math

from ...core.dispatch import inner_kernel
from ...inference.numerics import fast_exp
from ..regions import POTTS
from .scratch import fill_own, largest

_LOWEST = -1e300


@inner_kernel
def fill_pair_row(p, r, i, delta, out, at):
    """Reparametrised scores of a pairwise factor for label `i` of its first variable."""
    a, b = p.message_ptr[p.slot_ptr[r]] + i, p.message_ptr[p.slot_ptr[r] + 1]
    n_last = p.message_ptr[p.slot_ptr[r] + 2] - b
    own = delta[a]
    if p.kind[r] == POTTS:
        for j in range(n_last):
            out[at + j] = -own - delta[b + j]
        if i < n_last:
            out[at + i] += p.scores[p.score_ptr[r]]
    else:
        row = p.score_ptr[r] + i * n_last
        for j in range(n_last):
            out[at + j] = p.scores[row + j] - own - delta[b + j]
    for q in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        m = p.message_ptr[p.parent[q]] + i * n_last
        for j in range(n_last):
            out[at + j] += delta[m + j]


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
def spread_sum(p, r, values, down, scratch):
    """Sum a table onto its children."""
    arity, first = p.scope_ptr[r + 1] - p.scope_ptr[r], p.slot_ptr[r]
    fill_own(p, r, down, 0.0)
    if arity < 2:
        return
    if arity == 2:
        a, b = p.message_ptr[first], p.message_ptr[first + 1]
        n_last, at = p.message_ptr[first + 2] - b, 0
        for i in range(b - a):
            total = 0.0
            for j in range(n_last):
                total += values[at + j]
                down[b + j] += values[at + j]
            down[a + i] = total
            at += n_last
        return
    n_rows, n_last = _start(p, r, scratch)
    for row in range(n_rows):
        at, total = row * n_last, 0.0
        for x in range(n_last):
            total += values[at + x]
        for slot in range(first, p.slot_ptr[r + 1]):
            step = _last_step(p, r, slot - first)
            m = p.message_ptr[slot] + scratch.base[slot - first]
            if step == 0:
                down[m] += total
            else:
                for x in range(n_last):
                    down[m + x * step] += values[at + x]
        _advance(p, r, scratch)


@inner_kernel
def spread_max(p, r, values, down, scratch):
    """Maximise a table onto its children."""
    arity, first = p.scope_ptr[r + 1] - p.scope_ptr[r], p.slot_ptr[r]
    fill_own(p, r, down, -math.inf)
    if arity < 2:
        return
    if arity == 2:
        a, b = p.message_ptr[first], p.message_ptr[first + 1]
        n_last, at = p.message_ptr[first + 2] - b, 0
        for i in range(b - a):
            for j in range(n_last):
                down[b + j] = max(down[b + j], values[at + j])
            down[a + i] = largest(values, at, at + n_last)
            at += n_last
        return
    n_rows, n_last = _start(p, r, scratch)
    for row in range(n_rows):
        at = row * n_last
        best = largest(values, at, at + n_last)
        for slot in range(first, p.slot_ptr[r + 1]):
            step = _last_step(p, r, slot - first)
            m = p.message_ptr[slot] + scratch.base[slot - first]
            if step == 0:
                down[m] = max(down[m], best)
            else:
                for x in range(n_last):
                    down[m + x * step] = max(down[m + x * step], values[at + x])
        _advance(p, r, scratch)


@inner_kernel
def _sum_row(values, at, n, step, gamma, down, m, sums, s):
    """Add exponentials of a row, each relative to the maximum of the child's configuration."""
    inverse = 1.0 / gamma
    if step == 0:
        top, total = max(down[m], _LOWEST), 0.0
        for x in range(n):
            total += fast_exp((values[at + x] - top) * inverse)
        sums[s] += total
    else:
        for x in range(n):
            top = max(down[m + x * step], _LOWEST)
            sums[s + x * step] += fast_exp((values[at + x] - top) * inverse)


@inner_kernel
def spread_exactly(p, r, values, gamma, down, scratch):
    """Soft maxima of a table onto its children, each with its own maximum removed."""
    arity, first, stop = p.scope_ptr[r + 1] - p.scope_ptr[r], p.slot_ptr[r], p.slot_ptr[r + 1]
    begin, sums = p.message_ptr[first], scratch.sums
    spread_max(p, r, values, down, scratch)
    for m in range(begin, p.message_ptr[stop]):
        sums[m - begin] = 0.0
    if arity == 2:
        b = p.message_ptr[first + 1]
        n_last = p.message_ptr[stop] - b
        for i in range(b - begin):
            _sum_row(values, i * n_last, n_last, 0, gamma, down, begin + i, sums, i)
            _sum_row(values, i * n_last, n_last, 1, gamma, down, b, sums, b - begin)
    else:
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
