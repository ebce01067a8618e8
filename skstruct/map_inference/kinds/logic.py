"""Logical factors: exactly one, at most one or at least one of some literals holds."""

import math

from ...core.jit.dispatch import inner_kernel
from ..regions import AT_MOST_ONE
from .cardinality import normalise_pair
from .scratch import log_add, soft_rest, top_two
from .table import project_hat


@inner_kernel
def _literals(p, r, delta, hat):
    """What each literal gains by holding; literals, and the score of messages if none holds."""
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
    """The same, with a last entry for none where at most one may hold; their number."""
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
    """Which literal alone holds in the lowest configuration of score `top`.

    One that is negated switches its variable off, which is lower than all that follow; any other
    one is higher than these.
    """
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
    """Sums over the variables before and after each one, in all and with a literal that holds.

    All terms are positive: the product of all sums less the configuration without any literal
    would cancel.
    """
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


@inner_kernel
def or_soft_max(p, r, delta, gamma, down, scratch):
    """Soft maximum and the probabilities of the variables' labels; O(n)."""
    value = or_soft_marginals(p, r, delta, gamma, down, scratch)
    first = p.message_ptr[p.slot_ptr[r]]
    for m in range(first, p.message_ptr[p.slot_ptr[r + 1]], 2):
        normalise_pair(down, m, gamma)
    return value
