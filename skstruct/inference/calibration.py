"""Max-marginals and marginals on a planned junction tree: messages up, then down.

Down the tree a bucket's belief is what its inputs say, less what it told its parent, plus what the
parent knows of the separator. Beliefs gather in a stack of blocks as the sums of inputs do, so that
an input that changes seldom is told seldom.
"""

import math

import numpy as np

from ..core.dispatch import inner_kernel, kernel
from .bucket_elimination import map_of, next_digits, open_bucket, send, sum_up
from .numerics import fast_exp
from .tree_planning import CONTIGUOUS, SCALAR

_FAR = 1000.0
_ODD = tuple(1.0 / q for q in range(25, 0, -2))


@inner_kernel
def _log_one_plus(t):
    """``log(1 + t)`` for t in [0, 1], branch-free so that loops over it vectorise."""
    # 2 artanh(u) by its series, u at most 1/3: the first term left out is below 1e-15.
    u = t / (2.0 + t)
    v = u * u
    p = 1.0 / 27.0
    for q in _ODD:
        p = p * v + q
    return 2.0 * u * p


@inner_kernel
def _log_sum_of_two(n, sums, out):
    """The same for two states."""
    for j in range(n):
        x, y = sums[2 * j], sums[2 * j + 1]
        best = y if y > x else x
        apart = (x if y > x else y) - best
        # Both are -inf: any finite difference, -inf stays.
        apart = -_FAR if not apart > -_FAR else apart
        out[j] = best + _log_one_plus(fast_exp(apart))


@inner_kernel
def _log_sum_out(n, states, sums, out):
    """Logarithm of the sum of exponentials over the innermost variable."""
    if states == 2:
        _log_sum_of_two(n, sums, out)
        return
    for j in range(n):
        best = sums[j * states]
        for x in range(1, states):
            best = max(best, sums[j * states + x])
        if best == -np.inf:
            out[j] = -np.inf
            continue
        total = 0.0
        for x in range(states):
            total += fast_exp(sums[j * states + x] - best)
        out[j] = best + math.log(total)


@inner_kernel
def sum_range(tables, plan, base, at, slots, begin, end, w):
    """Logarithms of sums, up the trees of buckets `begin` to `end`."""
    for k in range(begin, end):
        states = tables.n_states[plan.variable[k]]
        n = plan.block[k] // states
        start = at[plan.slot[k]]
        n_blocks = open_bucket(tables, plan, base, at, k, w)
        changed = -1
        for b in range(n_blocks):
            a = sum_up(tables, plan, base, at, slots, k, changed, w)
            _log_sum_out(n, states, w.sums[a], w.row)
            send(w.row, n, slots, start + b * n, plan.is_first[k])
            changed = next_digits(tables.n_states, plan, k, w)


@kernel
def sum_buckets(tables, plan, base, at, slots, w):
    """Send logarithms of sums up the tree."""
    sum_range(tables, plan, base, at, slots, 0, plan.variable.shape[0], w)


@inner_kernel
def _max_beliefs(n, states, sums, known, is_root, belief):
    """Max-marginals of a block, from those of its separator (at a root: one number)."""
    for j in range(n):
        best = sums[j * states]
        for x in range(1, states):
            best = max(best, sums[j * states + x])
        more = known[0 if is_root else j] - best
        if best == -np.inf:
            more = 0.0
        for x in range(states):
            belief[j * states + x] = sums[j * states + x] + more


@inner_kernel
def _sum_beliefs_of_two(n, sums, known, is_root, belief):
    """The same for two states."""
    for j in range(n):
        x, y = sums[2 * j], sums[2 * j + 1]
        best = y if y > x else x
        apart = (x if y > x else y) - best
        apart = -_FAR if not apart > -_FAR else apart
        less = fast_exp(apart)
        share = known[0 if is_root else j] / (1.0 + less)
        less *= share
        belief[2 * j] = less if y > x else share
        belief[2 * j + 1] = share if y > x else less


@inner_kernel
def _sum_beliefs(n, states, sums, known, is_root, belief):
    """Marginals of a block, from those of its separator."""
    if states == 2:
        _sum_beliefs_of_two(n, sums, known, is_root, belief)
        return
    for j in range(n):
        best = sums[j * states]
        for x in range(1, states):
            best = max(best, sums[j * states + x])
        if best == -np.inf:
            best = 0.0
        total = 0.0
        for x in range(states):
            belief[j * states + x] = fast_exp(sums[j * states + x] - best)
            total += belief[j * states + x]
        share = known[0 if is_root else j] / total if total > 0.0 else 0.0
        for x in range(states):
            belief[j * states + x] *= share


@inner_kernel
def _merge(n, is_sum, is_empty, belief, into):
    """Tell the level before."""
    if is_empty:
        for j in range(n):
            into[j] = belief[j]
    elif is_sum:
        for j in range(n):
            into[j] += belief[j]
    else:
        for j in range(n):
            into[j] = belief[j] if belief[j] > into[j] else into[j]


@inner_kernel
def _tell(tables, plan, k, i, is_sum, belief, out, start, w):
    """Tell input i what is known of it."""
    n = plan.block[k]
    part = out[start:]
    if plan.form[i] == SCALAR:
        known = part[0]
        for j in range(n):
            if is_sum:
                known += belief[j]
            else:
                known = max(known, belief[j])
        part[0] = known
    elif plan.form[i] == CONTIGUOUS:
        _merge(n, is_sum, False, belief, part)
    else:
        row = w.maps[map_of(tables.n_states, plan, k, i, w) :]
        if is_sum:
            for j in range(n):
                part[row[j]] += belief[j]
        else:
            for j in range(n):
                part[row[j]] = max(part[row[j]], belief[j])


@inner_kernel
def _flush(tables, plan, places, k, a, changed, is_sum, down, out, w):
    """Tell the inputs of the levels that variable `changed` decides (-1: all)."""
    base, target, _ = places
    begin, i = plan.input_ptr[k], plan.input_ptr[k + 1] - 1
    n = plan.block[k]
    while i >= begin and plan.level[i] > changed:
        f = plan.source[i]
        start = w.at[i - begin]
        if f < 0:
            _tell(tables, plan, k, i, is_sum, w.beliefs[a], down, start, w)
        elif target[f] >= 0:
            start += target[f] - base[f]
            _tell(tables, plan, k, i, is_sum, w.beliefs[a], out, start, w)
        if i == begin:
            w.is_empty[a] = 1
        elif plan.level[i] != plan.level[i - 1]:
            _merge(n, is_sum, w.is_empty[a - 1], w.beliefs[a], w.beliefs[a - 1])
            w.is_empty[a - 1] = 0
            w.is_empty[a] = 1
            a -= 1
        i -= 1


@inner_kernel
def tell_range(tables, plan, places, is_sum, value, up, down, out, begin, end, w):
    """Send what is known down the trees of buckets `begin` to `end`."""
    base, _, at = places
    nothing = 0.0 if is_sum else -np.inf
    for j in range(down.shape[0]):
        down[j] = nothing
    for k in range(end - 1, begin - 1, -1):
        states = tables.n_states[plan.variable[k]]
        n = plan.block[k] // states
        is_root = plan.slot[k] == 0
        start = at[plan.slot[k]]
        n_blocks = open_bucket(tables, plan, base, at, k, w)
        for a in range(w.is_empty.shape[0]):
            w.is_empty[a] = 1
        changed = -1
        for b in range(n_blocks):
            a = sum_up(tables, plan, base, at, up, k, changed, w)
            known = value if is_root else down[start + b * n :]
            if is_sum:
                _sum_beliefs(n, states, w.sums[a], known, is_root, w.block)
            else:
                _max_beliefs(n, states, w.sums[a], known, is_root, w.block)
            _merge(n * states, is_sum, w.is_empty[a], w.block, w.beliefs[a])
            w.is_empty[a] = 0
            changed = next_digits(tables.n_states, plan, k, w)
            _flush(tables, plan, places, k, a, changed, is_sum, down, out, w)


@kernel
def tell_buckets(tables, plan, places, is_sum, value, up, down, out, w):
    """Send what is known down the tree: max-marginals, or marginals, of factors.

    Lauritzen and Spiegelhalter 1988, Local computations with probabilities on graphical structures.
    """
    n = plan.variable.shape[0]
    tell_range(tables, plan, places, is_sum, value, up, down, out, 0, n, w)
