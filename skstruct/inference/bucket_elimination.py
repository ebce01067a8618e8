"""Bucket elimination on a planned junction tree: best labelling, (max-)marginals."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .junction_tree import CONTIGUOUS, SCALAR
from .numerics import draw, fast_exp


class EliminationScratch(NamedTuple):
    """Scratch of the kernels of this file."""

    # (n_levels, n_block): What the inputs of each level and those before add up to; what is known
    # at each level.
    sums: np.ndarray
    beliefs: np.ndarray
    # (n_block,): Beliefs and messages of a block.
    block: np.ndarray
    row: np.ndarray
    # Positions of the entries of a block in the inputs.
    maps: np.ndarray
    # (n_inputs,): Where each input begins at present.
    at: np.ndarray
    # (n_dims,): States of the outer variables.
    digit: np.ndarray
    # (n_levels,): Whether nothing is known at a level.
    is_empty: np.ndarray


def elimination_scratch(plan):
    """Scratch for a plan."""
    _, block, levels, maps, inputs, dims = plan.room
    return EliminationScratch(
        *np.empty((2, levels, block)),
        *np.empty((2, block)),
        np.empty(maps, dtype=np.uint32),
        *(np.empty(size, dtype=np.int64) for size in (inputs, dims)),
        np.empty(levels, dtype=np.uint8),
    )


@kernel
def place_factors(tables, plan, start, labels, base):
    """Locate each factor, given the labels of the variables that no bucket eliminates."""
    for f in range(start.shape[0]):
        stride, offset = 1, start[f]
        for d in range(tables.scope_ptr[f + 1] - 1, tables.scope_ptr[f] - 1, -1):
            v = tables.scope[d]
            if plan.bucket[v] < 0:
                offset += stride * labels[v]
            stride *= tables.n_states[v]
        base[f] = offset if start[f] >= 0 else -1


@inner_kernel
def _fill_map(n_states, plan, k, i, row):
    """Write the positions of the entries of a block in input i."""
    row[0] = 0
    size = 1
    for d in range(plan.dim_ptr[k + 1] - plan.dim_ptr[k] - 1, plan.outer[k] - 1, -1):
        step = plan.step[plan.step_ptr[i] + d]
        for x in range(1, n_states[plan.dim[plan.dim_ptr[k] + d]]):
            for j in range(size):
                row[x * size + j] = np.uint32(row[j] + x * step)
        size *= n_states[plan.dim[plan.dim_ptr[k] + d]]


@inner_kernel
def map_of(n_states, plan, k, i, w):
    """Return the start of the map of input i; fill row 0, which inputs share, each time."""
    if plan.map_row[i] == 0:
        _fill_map(n_states, plan, k, i, w.maps)
    return plan.map_row[i] * plan.block[k]


@inner_kernel
def open_bucket(tables, plan, base, at, k, w):
    """Make ready for the first block of bucket k; returns the number of blocks."""
    for d in range(plan.outer[k]):
        w.digit[d] = 0
    begin = plan.input_ptr[k]
    for i in range(begin, plan.input_ptr[k + 1]):
        if plan.map_row[i] > 0:
            block = plan.block[k]
            row = w.maps[plan.map_row[i] * block : (plan.map_row[i] + 1) * block]
            _fill_map(tables.n_states, plan, k, i, row)
        f = plan.source[i]
        w.at[i - begin] = base[f] if f >= 0 else at[-1 - f]
    return plan.size[k] // plan.block[k]


@inner_kernel
def next_digits(n_states, plan, k, w):
    """Go on to the next block; returns the outermost variable that changes, -1 after the last."""
    d = plan.outer[k] - 1
    while d >= 0:
        w.digit[d] += 1
        if w.digit[d] < n_states[plan.dim[plan.dim_ptr[k] + d]]:
            break
        w.digit[d] = 0
        d -= 1
    return d


@inner_kernel
def _add(tables, plan, k, i, start, slots, before, has_before, sums, w):
    """``sums = before + input`` (without `before` if there is none)."""
    n = plan.block[k]
    data = tables.scores if plan.source[i] >= 0 else slots
    if plan.form[i] == SCALAR:
        value = data[start]
        if has_before:
            for j in range(n):
                sums[j] = before[j] + value
        else:
            for j in range(n):
                sums[j] = value
        return
    if plan.form[i] == CONTIGUOUS:
        part = data[start : start + n]
        if has_before:
            for j in range(n):
                sums[j] = before[j] + part[j]
        else:
            for j in range(n):
                sums[j] = part[j]
        return
    row = w.maps[map_of(tables.n_states, plan, k, i, w) :]
    part = data[start:]
    if has_before:
        for j in range(n):
            sums[j] = before[j] + part[row[j]]
    else:
        for j in range(n):
            sums[j] = part[row[j]]


@inner_kernel
def sum_up(tables, plan, base, at, slots, k, changed, w):
    """Sum the levels that variable `changed` decides (-1: all); returns the last level."""
    begin, end = plan.input_ptr[k], plan.input_ptr[k + 1]
    n = plan.block[k]
    a = -1
    for i in range(begin, end):
        is_new = i == begin or plan.level[i] != plan.level[i - 1]
        a += is_new
        if plan.level[i] <= changed:
            continue
        start = 0
        for d in range(plan.level[i]):
            start += w.digit[d] * plan.step[plan.step_ptr[i] + d]
        f = plan.source[i]
        start += base[f] if f >= 0 else at[-1 - f]
        w.at[i - begin] = start
        before = w.sums[a - 1] if is_new and a > 0 else w.sums[a]
        _add(tables, plan, k, i, start, slots, before, a > 0 or not is_new, w.sums[a], w)
    if a < 0:
        a = 0
        for j in range(n):
            w.sums[0, j] = 0.0
    return a


@inner_kernel
def _max_out(n, states, sums, out, back, far):
    """Maximum over the innermost variable, and where it is; the lowest of equals."""
    if states == 2:
        for j in range(n):
            x, y = sums[2 * j], sums[2 * j + 1]
            out[j] = y if y > x else x
            back[j] = y > x
        return
    for j in range(n):
        best, where = sums[j * states], 0
        for x in range(1, states):
            value = sums[j * states + x]
            if value > best:
                best, where = value, x
        out[j] = best
        back[j] = where & 255
        if states > 256:
            back[far + j] = where >> 8


@inner_kernel
def send(row, n, slots, start, is_first):
    """Put a block of messages into its slot."""
    out = slots[start : start + n]
    if is_first:
        for j in range(n):
            out[j] = row[j]
    else:
        for j in range(n):
            out[j] += row[j]


@kernel
def max_buckets(tables, plan, base, at, slots, back, begin, end, w):
    """Send the maxima of buckets `begin` to `end` up the tree (Dechter 1999, elim-opt)."""
    n_states = tables.n_states
    for k in range(begin, end):
        states = n_states[plan.variable[k]]
        n = plan.block[k] // states
        far = plan.size[k] // states
        start = at[plan.slot[k]]
        arrow = plan.back_ptr[k]
        n_blocks = open_bucket(tables, plan, base, at, k, w)
        changed = -1
        for b in range(n_blocks):
            a = sum_up(tables, plan, base, at, slots, k, changed, w)
            _max_out(n, states, w.sums[a], w.row, back[arrow + b * n :], far)
            send(w.row, n, slots, start + b * n, plan.is_first[k])
            changed = next_digits(n_states, plan, k, w)


@kernel
def best_labels(tables, plan, back, begin, end, labels):
    """The best labels of buckets `begin` to `end`, which are whole trees."""
    for k in range(end - 1, begin - 1, -1):
        stride, entry = 1, 0
        for d in range(plan.dim_ptr[k + 1] - 2, plan.dim_ptr[k] - 1, -1):
            v = plan.dim[d]
            entry += stride * labels[v]
            stride *= tables.n_states[v]
        label = np.int64(back[plan.back_ptr[k] + entry])
        if tables.n_states[plan.variable[k]] > 256:
            label += 256 * np.int64(back[plan.back_ptr[k] + stride + entry])
        labels[plan.variable[k]] = label


@kernel
def score_factors(tables, labels, out):
    """Score of each factor."""
    for f in range(out.shape[0]):
        stride, entry = 1, tables.table_ptr[f]
        for d in range(tables.scope_ptr[f + 1] - 1, tables.scope_ptr[f] - 1, -1):
            v = tables.scope[d]
            entry += stride * labels[v]
            stride *= tables.n_states[v]
        out[f] = tables.scores[entry]


# Max-marginals and marginals on a planned junction tree: messages up, then down.
#
# Down the tree a bucket's belief is what its inputs say, less what it told its parent, plus what
# the parent knows of the separator. Beliefs gather in a stack of blocks as the sums of inputs do,
# so that an input that changes seldom is told seldom.

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
    """Specialise to two states."""
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


@kernel
def sum_buckets(tables, plan, base, at, slots, begin, end, w):
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
def draw_labels(tables, plan, base, at, slots, begin, end, w, uniforms, labels):
    """Draw the labels of buckets `begin` to `end`, which are whole trees, given their sums."""
    for k in range(end - 1, begin - 1, -1):
        first, last = plan.dim_ptr[k], plan.dim_ptr[k + 1] - 1
        v = plan.variable[k]
        states, best = tables.n_states[v], -math.inf
        for x in range(states):
            w.block[x] = 0.0
        for i in range(plan.input_ptr[k], plan.input_ptr[k + 1]):
            f, step = plan.source[i], plan.step[plan.step_ptr[i] :]
            data, start = (tables.scores, base[f]) if f >= 0 else (slots, at[-1 - f])
            for d in range(last - first):
                start += labels[plan.dim[first + d]] * step[d]
            for x in range(states):
                w.block[x] += data[start + x * step[last - first]]
        for x in range(states):
            best = max(best, w.block[x])
        for x in range(states):
            w.block[x] = fast_exp(w.block[x] - best)
        labels[v] = draw(w.block, 0, 1, states, uniforms[v])


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
    """Specialise to two states."""
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
    """Add the beliefs of a level to those of the level before: sums, or maxima."""
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
    """Add the beliefs of a block to those of input i."""
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
    """Update the inputs of the levels that variable `changed` decides (-1: all)."""
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


@kernel
def tell_buckets(tables, plan, places, is_sum, value, up, down, out, begin, end, w):
    """Send max-marginals or marginals down the trees (Lauritzen and Spiegelhalter 1988)."""
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
