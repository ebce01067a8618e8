"""Factors that are never written out: scores of a count, and logical constraints on literals."""

import math

from ...core.jit.kernels import inner_kernel
from ..regions import AT_MOST_ONE
from .scratch import fill_own, log_add, soft_maximum, soft_rest, top_two
from .table import project_hat

# Cardinality factors: a score for the number of binary variables that are on.

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
    """Return the number of variables, the start of their messages, and their score with all off."""
    m, total = p.message_ptr[p.slot_ptr[r]], 0.0
    n = p.scope_ptr[r + 1] - p.scope_ptr[r]
    for j in range(n):
        total -= delta[m + 2 * j]
    return n, m, total


@inner_kernel
def _sorted_gains(r, n, m, delta, scratch):
    """Sort the variables by what switching them on gains, the last first among equals."""
    # From the region's last order, which is nearly right once messages settle.
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
    """Best score with each variable on and off, O(n log n) (Tarlow, Givoni, Zemel 2010)."""
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
    """As above, with the second array in reverse."""
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
    """Soft maximum with each variable on and off: Poisson-binomial sums by halves, O(n^2)."""
    # All sums are of positive numbers, relative to their largest term: nothing cancels or
    # underflows.
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
def normalise_pairs(p, r, value, gamma, down):
    """Turn soft maxima of binary variables, `value` over all, into probabilities."""
    if value == -math.inf:
        fill_own(p, r, down, 0.0)
        return
    for m in range(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]], 2):
        top = max(down[m], down[m + 1])
        off, on = math.exp((down[m] - top) / gamma), math.exp((down[m + 1] - top) / gamma)
        down[m], down[m + 1] = off / (off + on), on / (off + on)


# Logical factors: exactly one, at most one or at least one of some literals holds.


@inner_kernel
def _literals(p, r, delta, hat):
    """Write each literal's gain from holding; return their number, and the score with none."""
    m, total = p.message_ptr[p.slot_ptr[r]], 0.0
    begin = p.scope_ptr[r]
    n = p.scope_ptr[r + 1] - begin
    for j in range(n):
        no = p.negated[begin + j]
        total -= delta[m + 2 * j + no]
        hat[j] = delta[m + 2 * j + no] - delta[m + 2 * j + 1 - no]
    return n, total


@inner_kernel
def _configurations(p, r, delta, hat):
    """Fill in the literals, and a last entry for none if at most one may hold; their number."""
    n, constant = _literals(p, r, delta, hat)
    if p.kind[r] == AT_MOST_ONE:
        hat[n] = 0.0
        n += 1
    return n, constant


@inner_kernel
def _write(p, r, j, true, false, down):
    """Give both states of a variable what belongs to its literal."""
    m, no = p.message_ptr[p.slot_ptr[r]] + 2 * j, p.negated[p.scope_ptr[r] + j]
    down[m + 1 - no] = true
    down[m + no] = false


@inner_kernel
def _lowest_of_ties(p, r, hat, n, top):
    """Return the literal that alone holds in the lowest configuration of score `top`."""
    # A negated one switches its variable off, which is lower than all that follow; others are
    # higher.
    begin, found = p.scope_ptr[r], -1
    for k in range(n):
        if hat[k] == top:
            found = k
            if begin + k < p.scope_ptr[r + 1] and p.negated[begin + k]:
                break
    return found


@inner_kernel
def one_max(p, r, delta, down, scratch):
    """Best literal to hold, or none; O(n)."""
    n, constant = _configurations(p, r, delta, scratch.hat)
    top, _, _, _ = top_two(scratch.hat, 0, n, 1.0)
    found = _lowest_of_ties(p, r, scratch.hat, n, top)
    for j in range(p.scope_ptr[r + 1] - p.scope_ptr[r]):
        _write(p, r, j, 1.0 if j == found else 0.0, 0.0 if j == found else 1.0, down)
    return constant + top


@inner_kernel
def one_max_marginals(p, r, delta, down, scratch):
    """For each literal its own score and the best of the others; O(n)."""
    n, constant = _configurations(p, r, delta, scratch.hat)
    top, at, second, _ = top_two(scratch.hat, 0, n, 1.0)
    for j in range(p.scope_ptr[r + 1] - p.scope_ptr[r]):
        others = second if j == at else top
        _write(p, r, j, constant + scratch.hat[j], constant + others, down)
    return constant + top


@inner_kernel
def one_soft_marginals(p, r, delta, gamma, down, scratch):
    """For each literal its own score and the soft maximum of the others; O(n)."""
    hat, weight = scratch.hat, scratch.weight
    n, constant = _configurations(p, r, delta, hat)
    top, at, total, rest = soft_rest(hat, n, gamma, weight)
    for j in range(p.scope_ptr[r + 1] - p.scope_ptr[r]):
        others = rest if j == at else top + gamma * math.log(total - weight[j])
        _write(p, r, j, constant + hat[j], constant + others, down)
    return constant + (top + gamma * math.log(total))


@inner_kernel
def one_soft_max(p, r, delta, gamma, down, scratch):
    """Softmax over the literals; O(n)."""
    hat, weight = scratch.hat, scratch.weight
    n, constant = _configurations(p, r, delta, hat)
    top, at, total, rest = soft_rest(hat, n, gamma, weight)
    for j in range(p.scope_ptr[r + 1] - p.scope_ptr[r]):
        others = math.exp((rest - top) / gamma) if j == at else total - weight[j]
        _write(p, r, j, weight[j] / total, others / total, down)
    return constant + (top + gamma * math.log(total))


@inner_kernel
def one_project(p, r, delta, gamma, down, scratch):
    """Projection on the simplex of the literals, and none; O(n)."""
    hat, weight = scratch.hat, scratch.weight
    n, constant = _configurations(p, r, delta, hat)
    top, _, _, _ = top_two(hat, 0, n, 1.0)
    value = project_hat(hat, n, top, gamma, weight)
    for j in range(p.scope_ptr[r + 1] - p.scope_ptr[r]):
        _write(p, r, j, weight[j], max(1.0 - weight[j], 0.0), down)
    return constant + value


@inner_kernel
def or_max(p, r, delta, down, scratch):
    """Each variable's best label; if no literal holds then, the one that loses least; O(n)."""
    hat, begin = scratch.hat, p.scope_ptr[r]
    n, value = _literals(p, r, delta, hat)
    holds = False
    for j in range(n):
        # Of equal labels the lower one: then negated literals hold.
        chosen = hat[j] > 0.0 or (hat[j] == 0.0 and p.negated[begin + j] == 1)
        holds = holds or chosen
        if chosen:
            value += hat[j]
        _write(p, r, j, 1.0 if chosen else 0.0, 0.0 if chosen else 1.0, down)
    if not holds:
        top, _, _, _ = top_two(hat, 0, n, 1.0)
        _write(p, r, _lowest_of_ties(p, r, hat, n, top), 1.0, 0.0, down)
        value += top
    return value


@inner_kernel
def or_max_marginals(p, r, delta, down, scratch):
    """A literal that holds leaves the others free; else one of them must hold; O(n)."""
    hat = scratch.hat
    n, constant = _literals(p, r, delta, hat)
    # Gains of the free best, and least losses of making a literal hold.
    gain, loss, next_loss, at = 0.0, math.inf, math.inf, 0
    for j in range(n):
        gain += max(hat[j], 0.0)
        lost = max(-hat[j], 0.0)
        if lost < loss:
            loss, next_loss, at = lost, loss, j
        elif lost < next_loss:
            next_loss = lost
    for j in range(n):
        free = constant + (gain - max(hat[j], 0.0))
        _write(p, r, j, free + hat[j], free - (next_loss if j == at else loss), down)
    return constant + (gain - loss)


@inner_kernel
def or_soft_marginals(p, r, delta, gamma, down, scratch):
    """Sums over variables before and after each one, all of them and those with a true literal."""
    # The product of all sums less the configuration without any true literal would cancel.
    hat, some, free = scratch.hat, scratch.weight, scratch.sums
    n, constant = _literals(p, r, delta, hat)
    some[0], free[0] = -math.inf, 0.0
    for j in range(n):
        either = log_add(hat[j], 0.0, gamma)
        some[j + 1] = log_add(some[j] + either, hat[j], gamma)
        free[j + 1] = free[j] + either
    value = some[n]
    some_after, free_after = -math.inf, 0.0
    for j in range(n - 1, -1, -1):
        either = log_add(hat[j], 0.0, gamma)
        true = hat[j] + (free[j] + free_after)
        false = log_add(some[j] + free_after, some_after, gamma)
        _write(p, r, j, constant + true, constant + false, down)
        some_after = log_add(some_after + either, hat[j], gamma)
        free_after += either
    return constant + value
