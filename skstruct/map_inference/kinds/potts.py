"""Potts factors: a weight where two labels agree. Maxima without writing the table out.

One contained in a larger table has that table's messages on its pairs and is a table itself.
"""

import math

from ...core.jit.dispatch import inner_kernel
from ..regions import POTTS, TABLE
from .scratch import fill_mu, fill_own, log_add, soft_maximum, soft_rest, top_two

# Up to this many pairs a label.
_MANY = 4


@inner_kernel(inline=True)
def is_table(p, r):
    """Whether a region is to be taken for a table: one, or small, or with messages on its pairs."""
    if p.kind[r] != POTTS:
        return p.kind[r] <= TABLE
    return p.size[r] <= 4 or p.parent_ptr[r + 1] > p.parent_ptr[r]


@inner_kernel(inline=True)
def is_soft_table(p, r):
    """The same where exponentials of pairs may be cheaper than logarithms of sums."""
    n_labels = p.message_ptr[p.slot_ptr[r + 1]] - p.message_ptr[p.slot_ptr[r]]
    return is_table(p, r) or (p.kind[r] == POTTS and p.size[r] <= _MANY * n_labels)


@inner_kernel
def collect_potts(weight, n_own, n_other, other, out, low):
    """For each label the best partner, less its message: itself or the best other one."""
    best = second = -math.inf
    where = -1
    for b in range(n_other):
        s = -other[b]
        if s > best:
            second = best
            best, where = s, b
        elif s > second:
            second = s
    for a in range(n_own):
        s = second if a == where else best
        if a < n_other:
            same = weight - other[a]
            s = same if same > s else s
        out[a] = s if s > low else low


@inner_kernel
def potts_max(p, r, delta, mu, down, scratch):
    """Best pair of equal labels against the best of different ones, O(states)."""
    first, weight = p.slot_ptr[r], p.scores[p.score_ptr[r]]
    a, b, end = p.message_ptr[first], p.message_ptr[first + 1], p.message_ptr[first + 2]
    top, at, second, other = top_two(delta, b, end, -1.0)
    best, best_i, best_j = -math.inf, 0, 0
    for i in range(b - a):
        j, value = (other, second) if i == at else (at, top)
        value -= delta[a + i]
        if i < end - b:
            equal = weight - delta[a + i] - delta[b + i]
            if equal > value or (equal == value and i < j):
                j, value = i, equal
        if value > best:
            best, best_i, best_j = value, i, j
    fill_mu(p, r, mu, 0.0)
    fill_own(p, r, down, 0.0)
    if best > -math.inf:
        down[a + best_i] = 1.0
        down[b + best_j] = 1.0
        if mu.shape[0] > 0:
            mu[best_i * (end - b) + best_j] = 1.0
    return best


@inner_kernel
def potts_max_marginals(p, r, delta, down, scratch):
    """Best partner of each label: the best other one, or the same label; O(states)."""
    first, weight, best = p.slot_ptr[r], p.scores[p.score_ptr[r]], -math.inf
    a, b, end = p.message_ptr[first], p.message_ptr[first + 1], p.message_ptr[first + 2]
    top, at, second, _ = top_two(delta, b, end, -1.0)
    for i in range(b - a):
        down[a + i] = (second if i == at else top) - delta[a + i]
    top, at, second, _ = top_two(delta, a, b, -1.0)
    for j in range(end - b):
        down[b + j] = (second if j == at else top) - delta[b + j]
    for i in range(min(b - a, end - b)):
        equal = weight - delta[a + i] - delta[b + i]
        down[a + i] = max(down[a + i], equal)
        down[b + i] = max(down[b + i], equal)
    for i in range(b - a):
        best = max(best, down[a + i])
    return best


@inner_kernel
def _soft_side(delta, own, n, other, n_other, weight, gamma, down, scratch):
    """Soft maxima over the labels of the other variable, for each label of one."""
    hat, exps = scratch.hat, scratch.weight
    for j in range(n_other):
        hat[j] = -delta[other + j]
    top, at, total, rest = soft_rest(hat, n_other, gamma, exps)
    factor = math.exp(min(weight / gamma, 0.0))
    for i in range(n):
        if i >= n_other:
            value = top + gamma * math.log(total)
        elif i == at or weight > 0.0:
            others = rest if i == at else top + gamma * math.log(total - exps[i])
            value = log_add(others, hat[i] + weight, gamma)
        else:
            value = top + gamma * math.log((total - exps[i]) + exps[i] * factor)
        down[own + i] = value - delta[own + i]


@inner_kernel
def potts_soft_marginals(p, r, delta, gamma, down, scratch):
    """Sums over all other labels, and the same label with its weight; O(states)."""
    first, weight = p.slot_ptr[r], p.scores[p.score_ptr[r]]
    a, b, end = p.message_ptr[first], p.message_ptr[first + 1], p.message_ptr[first + 2]
    _soft_side(delta, a, b - a, b, end - b, weight, gamma, down, scratch)
    _soft_side(delta, b, end - b, a, b - a, weight, gamma, down, scratch)
    return soft_maximum(down[a:b], gamma)


@inner_kernel
def potts_soft_max(p, r, delta, gamma, down, scratch):
    """Probabilities of the labels by sums; those of the pairs are not written."""
    value = potts_soft_marginals(p, r, delta, gamma, down, scratch)
    for m in range(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]]):
        down[m] = math.exp((down[m] - value) / gamma)
    return value
