"""Cardinality factors: a score for the number of binary variables that are on."""

import math

from ...core.jit.dispatch import inner_kernel
from .scratch import fill_own, log_add, soft_maximum

_RUN = 16


@inner_kernel(inline=True)
def _comes_first(key, item, other_key, other_item):
    """The larger key; of equal ones the later item."""
    return key > other_key or (key == other_key and item > other_item)


@inner_kernel
def _sort_runs(keys, order, n):
    """Sort runs by insertion."""
    for e in range(n):
        key, item, at = keys[e], order[e], e
        while at % _RUN != 0 and _comes_first(key, item, keys[at - 1], order[at - 1]):
            keys[at], order[at] = keys[at - 1], order[at - 1]
            at -= 1
        keys[at], order[at] = key, item


@inner_kernel
def _merge(keys, order, start, middle, stop, spare_keys, spare_order):
    """Merge two runs that follow each other; where they are in order, nothing moves."""
    if middle >= stop or _comes_first(
        keys[middle - 1], order[middle - 1], keys[middle], order[middle]
    ):
        return
    n = middle - start
    for e in range(n):
        spare_keys[e], spare_order[e] = keys[start + e], order[start + e]
    left, right, e = 0, middle, start
    while left < n:
        if right < stop and _comes_first(
            keys[right], order[right], spare_keys[left], spare_order[left]
        ):
            keys[e], order[e] = keys[right], order[right]
            right += 1
        else:
            keys[e], order[e] = spare_keys[left], spare_order[left]
            left += 1
        e += 1


@inner_kernel
def sort_down(keys, order, spare_keys, spare_order, n):
    """Sort keys downwards, and items with them; of equal keys the later item comes first."""
    _sort_runs(keys, order, n)
    width = _RUN
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            _merge(keys, order, start, middle, stop, spare_keys, spare_order)
        width *= 2


@inner_kernel
def _all_off(p, r, delta):
    """How many variables, where their messages begin, what messages score if none is on."""
    m, total = p.message_ptr[p.slot_ptr[r]], 0.0
    n = p.scope_ptr[r + 1] - p.scope_ptr[r]
    for j in range(n):
        total -= delta[m + 2 * j]
    return n, m, total


@inner_kernel
def _sorted_gains(r, n, m, delta, scratch):
    """Sort the variables by what switching them on gains; of equal ones the last comes first.

    From the region's last order, if it was the last one sorted: nearly right once messages settle.
    """
    if scratch.sorted_region[0] != r:
        for j in range(n):
            scratch.order[j] = n - 1 - j
        scratch.sorted_region[0] = r
    for j in range(n):
        at = m + 2 * scratch.order[j]
        scratch.keys[j] = delta[at] - delta[at + 1]
    sort_down(scratch.keys, scratch.order, scratch.spare, scratch.spare_order, n)


@inner_kernel
def cardinality_max(p, r, delta, down, scratch):
    """Best count with the variables that gain most, and the lowest configuration of that score."""
    n, m, constant = _all_off(p, r, delta)
    _sorted_gains(r, n, m, delta, scratch)
    first = p.score_ptr[r]
    best, count, gained = p.scores[first], 0, 0.0
    for s in range(1, n + 1):
        gained += scratch.keys[s - 1]
        value = p.scores[first + s] + gained
        if value > best:
            best, count = value, s
    fill_own(p, r, down, 0.0)
    if best > -math.inf:
        for s in range(n):
            down[m + 2 * scratch.order[s] + (1 if s < count else 0)] = 1.0
    return constant + best


@inner_kernel
def cardinality_max_marginals(p, r, delta, down, scratch):
    """Best score with each variable on and off, in one pass over the counts; O(n log n).

    With the variables sorted, the best s of them are the first s. If variable k of them is to be
    on, they contain it (s > k), or it replaces the last of them; if it is to be off, they do not
    (s <= k), or the next one replaces it. That holds for any scores by count.
    """
    n, m, constant = _all_off(p, r, delta)
    _sorted_gains(r, n, m, delta, scratch)
    gains, first = scratch.keys, p.score_ptr[r]
    gained = scratch.spare
    gained[0] = 0.0
    for s in range(n):
        gained[s + 1] = gained[s] + gains[s]
    # From each s on: the best with the first s on, and with one more of whom one will be off.
    with_all, with_next = scratch.hat, scratch.weight
    with_all[n], with_next[n] = p.scores[first + n] + gained[n], -math.inf
    for s in range(n - 1, -1, -1):
        score = p.scores[first + s]
        with_all[s] = max(with_all[s + 1], score + gained[s])
        with_next[s] = max(with_next[s + 1], score + gained[s + 1])
    few, fewer = p.scores[first], -math.inf
    for k in range(n):
        at = m + 2 * scratch.order[k]
        down[at] = constant + max(few, with_next[k + 1] - gains[k])
        down[at + 1] = constant + max(with_all[k + 1], fewer + gains[k])
        score = p.scores[first + k + 1]
        few = max(few, score + gained[k + 1])
        fewer = max(fewer, score + gained[k])
    return constant + with_all[0]


@inner_kernel
def _soft_sum(values, others, gamma, joined):
    """Soft maximum of the sums of two arrays."""
    n = values.shape[0]
    if n == 2:
        return log_add(values[0] + others[0], values[1] + others[1], gamma)
    for s in range(n):
        joined[s] = values[s] + others[s]
    return soft_maximum(joined[:n], gamma)


@inner_kernel
def _soft_sum_backwards(values, others, gamma, joined):
    """The same with the second array from its end."""
    n = values.shape[0]
    for s in range(n):
        joined[s] = values[s] + others[n - 1 - s]
    return soft_maximum(joined[:n], gamma)


@inner_kernel
def _count_upwards(n, m, delta, gamma, levels, joined):
    """Soft maxima of the gains by count, of single variables, then of twice as many each time."""
    for j in range(n):
        levels[2 * j], levels[2 * j + 1] = 0.0, delta[m + 2 * j] - delta[m + 2 * j + 1]
    width, below = 1, 0
    while 2 * width < n:
        here = below + n + (n + width - 1) // width
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            left = below + start // width * (width + 1)
            right, out = left + width + 1, here + start // (2 * width) * (2 * width + 1)
            for t in range(stop - start + 1):
                if middle == stop:
                    levels[out + t] = levels[left + t]
                else:
                    low, high = max(0, t - (stop - middle)), min(t, middle - start)
                    levels[out + t] = _soft_sum_backwards(
                        levels[left + low : left + high + 1],
                        levels[right + t - high : right + t - low + 1],
                        gamma,
                        joined,
                    )
        width, below = 2 * width, here
    return width, below


@inner_kernel
def _one_level_down(n, width, sums, levels, outside, inside, gamma, joined):
    """From soft maxima over all that is outside of a block to those of its halves of `width`."""
    for start in range(0, n, 2 * width):
        middle, stop = min(start + width, n), min(start + 2 * width, n)
        left = start // width * (width + 1)
        right, own = left + width + 1, start // (2 * width) * (2 * width + 1)
        n_left, n_right = middle - start, stop - middle
        if n_right == 0:
            for t in range(n_left + 1):
                inside[left + t] = outside[own + t]
            continue
        lefts = levels[sums + left : sums + left + n_left + 1]
        rights = levels[sums + right : sums + right + n_right + 1]
        for t in range(n_left + 1):
            at = own + t
            inside[left + t] = _soft_sum(outside[at : at + n_right + 1], rights, gamma, joined)
        for t in range(n_right + 1):
            at = own + t
            inside[right + t] = _soft_sum(outside[at : at + n_left + 1], lefts, gamma, joined)


@inner_kernel
def cardinality_soft_marginals(p, r, delta, gamma, down, scratch):
    """Soft maximum with each variable on and off: Poisson-binomial sums by halves, O(n^2).

    All sums are of positive numbers and relative to their largest term: nothing cancels, and
    nothing underflows however small gamma is.
    """
    n, m, constant = _all_off(p, r, delta)
    width, sums = _count_upwards(n, m, delta, gamma, scratch.levels, scratch.hat)
    outside, inside = scratch.keys, scratch.spare
    for s in range(n + 1):
        outside[s] = p.scores[p.score_ptr[r] + s]
    while width > 0:
        _one_level_down(n, width, sums, scratch.levels, outside, inside, gamma, scratch.hat)
        outside, inside = inside, outside
        width //= 2
        if width > 0:
            sums -= n + (n + width - 1) // width
    for j in range(n):
        down[m + 2 * j] = constant + outside[2 * j]
        down[m + 2 * j + 1] = constant + (scratch.levels[2 * j + 1] + outside[2 * j + 1])
    return log_add(down[m], down[m + 1], gamma)


@inner_kernel
def cardinality_soft_max(p, r, delta, gamma, down, scratch):
    """Soft maximum and the probabilities of the variables' labels."""
    value = cardinality_soft_marginals(p, r, delta, gamma, down, scratch)
    if value == -math.inf:
        fill_own(p, r, down, 0.0)
        return value
    first = p.message_ptr[p.slot_ptr[r]]
    for m in range(first, p.message_ptr[p.slot_ptr[r + 1]], 2):
        normalise_pair(down, m, gamma)
    return value


@inner_kernel
def normalise_pair(down, m, gamma):
    """Turn two soft maxima, at least one of them finite, into probabilities."""
    top = max(down[m], down[m + 1])
    off, on = math.exp((down[m] - top) / gamma), math.exp((down[m + 1] - top) / gamma)
    down[m], down[m + 1] = off / (off + on), on / (off + on)
