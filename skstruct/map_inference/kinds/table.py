"""Variables and tables of any arity, and Potts factors that are to be written out."""

import math

from ...core.dispatch import inner_kernel
from ...inference.numerics import fast_exp
from ...inference.simplex import project
from ..regions import POTTS
from .outer import contract, fill_outer, fill_pair_row, has_variables_only, soft_contract
from .scratch import LOWEST, exponentials, fill_mu, fill_own, largest, log_add
from .walk import children_of, soft_spread, spread, subtract_messages

# Sums of exponentials above this have lost nothing to underflow.
_SAFE = 1e-280


@inner_kernel
def fill_hat(p, r, delta, hat, scratch):
    """Reparametrised scores of a variable, table or Potts factor."""
    arity, size, first = p.scope_ptr[r + 1] - p.scope_ptr[r], p.size[r], p.score_ptr[r]
    if arity == 2:
        n = p.n_states[p.scope[p.scope_ptr[r] + 1]]
        for i in range(p.n_states[p.scope[p.scope_ptr[r]]]):
            fill_pair_row(p, r, i, delta, hat[i * n : i * n + n])
    elif arity > 2 and has_variables_only(p, r):
        fill_outer(p, r, delta, hat)
    else:
        _copy(p.scores[first : first + size], hat)
        if arity == 1:
            _add_parents(p, r, delta, hat[:size])
        else:
            subtract_messages(p, r, delta, hat, scratch)


@inner_kernel
def _copy(values, out):
    for e in range(values.shape[0]):
        out[e] = values[e]


@inner_kernel
def _add_parents(p, r, delta, hat):
    """Add the messages of what contains a variable."""
    n = hat.shape[0]
    if n == 2:
        low, high = hat[0], hat[1]
        for q in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
            m = p.message_ptr[p.parent[q]]
            low, high = low + delta[m], high + delta[m + 1]
        hat[0], hat[1] = low, high
        return
    for q in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        m = p.message_ptr[p.parent[q]]
        message = delta[m : m + n]
        for x in range(n):
            hat[x] += message[x]


@inner_kernel
def onto_children(p, r, values, down, use_max, scratch):
    """Maximise or sum a table onto its children; `values` are lost."""
    if p.slot_ptr[r + 1] > p.slot_ptr[r]:
        if has_variables_only(p, r):
            contract(p, r, values, down, use_max)
        else:
            spread(p, r, values, down, use_max, scratch)


@inner_kernel(inline=True)
def _is_two_by_two(p, r):
    """Whether a region is a pair of binary variables that nothing contains."""
    return (
        p.size[r] == 4
        and p.scope_ptr[r + 1] - p.scope_ptr[r] == 2
        and p.parent_ptr[r + 1] == p.parent_ptr[r]
        and p.message_ptr[p.slot_ptr[r] + 1] - p.message_ptr[p.slot_ptr[r]] == 2
    )


@inner_kernel(inline=True)
def _four(p, r, delta):
    """Reparametrised scores of a pair of binary variables, and where its messages begin."""
    a, b, s = p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r] + 1], p.score_ptr[r]
    h00, h01, h10, h11 = p.scores[s], 0.0, 0.0, p.scores[s]
    if p.kind[r] != POTTS:
        h01, h10, h11 = p.scores[s + 1], p.scores[s + 2], p.scores[s + 3]
    a0, a1, b0, b1 = delta[a], delta[a + 1], delta[b], delta[b + 1]
    return a, b, h00 - a0 - b0, h01 - a0 - b1, h10 - a1 - b0, h11 - a1 - b1


@inner_kernel
def _two_by_two_max(p, r, delta, mu, down):
    a, b, h00, h01, h10, h11 = _four(p, r, delta)
    best = max(max(h00, h01), max(h10, h11))
    fill_mu(p, r, mu, 0.0)
    if best == -math.inf:
        fill_own(p, r, down, 0.0)
        return best
    i = 0 if h00 == best or h01 == best else 1
    first = h00 if i == 0 else h10
    j = 0 if first == best else 1
    down[a + i], down[a + 1 - i] = 1.0, 0.0
    down[b + j], down[b + 1 - j] = 1.0, 0.0
    if mu.shape[0] > 0:
        mu[2 * i + j] = 1.0
    return best


@inner_kernel(inline=True)
def _four_exponentials(h00, h01, h10, h11, gamma):
    """The largest of four scores, and exponentials relative to it; 0 if all are -inf."""
    top, inverse = max(max(h00, h01), max(h10, h11)), 1.0 / gamma
    least = max(top, LOWEST)
    e00, e01 = fast_exp((h00 - least) * inverse), fast_exp((h01 - least) * inverse)
    e10, e11 = fast_exp((h10 - least) * inverse), fast_exp((h11 - least) * inverse)
    return top, e00, e01, e10, e11


@inner_kernel
def _two_by_two_soft_max(p, r, delta, gamma, mu, down):
    a, b, h00, h01, h10, h11 = _four(p, r, delta)
    top, e00, e01, e10, e11 = _four_exponentials(h00, h01, h10, h11, gamma)
    if top == -math.inf:
        fill_mu(p, r, mu, 0.0)
        fill_own(p, r, down, 0.0)
        return top
    total = (e00 + e01) + (e10 + e11)
    scale = 1.0 / total
    down[a], down[a + 1] = (e00 + e01) * scale, (e10 + e11) * scale
    down[b], down[b + 1] = (e00 + e10) * scale, (e01 + e11) * scale
    if mu.shape[0] > 0:
        mu[0], mu[1], mu[2], mu[3] = e00 * scale, e01 * scale, e10 * scale, e11 * scale
    return top + gamma * math.log(total)


@inner_kernel
def _two_by_two_soft_marginals(p, r, delta, gamma, down):
    a, b, h00, h01, h10, h11 = _four(p, r, delta)
    top, e00, e01, e10, e11 = _four_exponentials(h00, h01, h10, h11, gamma)
    if min(min(e00 + e01, e10 + e11), min(e00 + e10, e01 + e11)) < _SAFE:
        down[a], down[a + 1] = log_add(h00, h01, gamma), log_add(h10, h11, gamma)
        down[b], down[b + 1] = log_add(h00, h10, gamma), log_add(h01, h11, gamma)
        return log_add(down[a], down[a + 1], gamma)
    down[a] = top + gamma * math.log(e00 + e01)
    down[a + 1] = top + gamma * math.log(e10 + e11)
    down[b] = top + gamma * math.log(e00 + e10)
    down[b + 1] = top + gamma * math.log(e01 + e11)
    return top + gamma * math.log((e00 + e01) + (e10 + e11))


@inner_kernel
def table_max(p, r, delta, mu, down, scratch):
    """Largest reparametrised score and the first configuration that has it."""
    if _is_two_by_two(p, r):
        return _two_by_two_max(p, r, delta, mu, down)
    hat = scratch.hat
    fill_hat(p, r, delta, hat, scratch)
    best = largest(hat[: p.size[r]])
    fill_mu(p, r, mu, 0.0)
    fill_own(p, r, down, 0.0)
    if best == -math.inf:
        return best
    at = 0
    while hat[at] != best:
        at += 1
    if mu.shape[0] > 0:
        mu[at] = 1.0
    children_of(p, r, at, scratch.base)
    first = p.slot_ptr[r]
    for slot in range(first, p.slot_ptr[r + 1]):
        down[p.message_ptr[slot] + scratch.base[slot - first]] = 1.0
    return best


@inner_kernel
def table_soft_max(p, r, delta, gamma, mu, down, scratch):
    """Soft maximum of the reparametrised scores and its gradient, a softmax."""
    if _is_two_by_two(p, r):
        return _two_by_two_soft_max(p, r, delta, gamma, mu, down)
    hat, weight, size = scratch.hat, scratch.weight, p.size[r]
    fill_hat(p, r, delta, hat, scratch)
    top = largest(hat[:size])
    if top == -math.inf:
        fill_mu(p, r, mu, 0.0)
        fill_own(p, r, down, 0.0)
        return top
    total = exponentials(hat[:size], top, gamma, weight)
    scale = 1.0 / total
    for e in range(size):
        weight[e] *= scale
    _hand_out(p, r, mu, down, scratch)
    return top + gamma * math.log(total)


@inner_kernel
def table_project(p, r, delta, gamma, mu, down, scratch):
    """L2-smoothed maximum of the reparametrised scores and its gradient, a projection."""
    hat, weight, size = scratch.hat, scratch.weight, p.size[r]
    fill_hat(p, r, delta, hat, scratch)
    top = largest(hat[:size])
    if top == -math.inf:
        fill_mu(p, r, mu, 0.0)
        fill_own(p, r, down, 0.0)
        return top
    value = project_hat(hat, size, top, gamma, weight)
    _hand_out(p, r, mu, down, scratch)
    return value


@inner_kernel
def project_hat(hat, size, top, gamma, weight):
    """Projection of ``hat / gamma`` on the simplex, and the smoothed maximum; `hat` is lost.

    What is 1 below the top gets nothing: only the rest is searched for the threshold.
    """
    inverse, n_near, at = 1.0 / gamma, 0, 0
    for e in range(size):
        below = (hat[e] - top) * inverse
        weight[e] = below
        if below > -1.0:
            if below == 0.0:
                at = n_near
            hat[n_near] = below
            n_near += 1
    project(hat, n_near)
    threshold, linear, square = -hat[at], 0.0, 0.0
    for e in range(size):
        below = max(weight[e], -1.0)
        weight[e] = max(below - threshold, 0.0)
        linear += weight[e] * below
        square += weight[e] * weight[e]
    return top + gamma * (linear - 0.5 * square)


@inner_kernel
def _hand_out(p, r, mu, down, scratch):
    """Copy marginals to the caller and sum them onto the children."""
    if mu.shape[0] > 0:
        _copy(scratch.weight[: p.size[r]], mu)
    onto_children(p, r, scratch.weight, down, False, scratch)


@inner_kernel
def _two_by_two_max_marginals(p, r, delta, down):
    a, b, h00, h01, h10, h11 = _four(p, r, delta)
    first, second = max(h00, h01), max(h10, h11)
    down[a], down[a + 1] = first, second
    down[b], down[b + 1] = max(h00, h10), max(h01, h11)
    return max(first, second)


@inner_kernel
def _pair_max_marginals(p, r, delta, down, scratch):
    """Row by row: the table itself is written nowhere."""
    a, b = p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r] + 1]
    n = p.n_states[p.scope[p.scope_ptr[r] + 1]]
    row, out, best = scratch.hat[:n], down[b : b + n], -math.inf
    for j in range(n):
        out[j] = -math.inf
    for i in range(p.n_states[p.scope[p.scope_ptr[r]]]):
        fill_pair_row(p, r, i, delta, row)
        for j in range(n):
            out[j] = max(out[j], row[j])
        down[a + i] = largest(row)
        best = max(best, down[a + i])
    return best


@inner_kernel
def table_max_marginals(p, r, delta, down, scratch):
    """Largest reparametrised score for each configuration of each child."""
    if _is_two_by_two(p, r):
        return _two_by_two_max_marginals(p, r, delta, down)
    if p.scope_ptr[r + 1] - p.scope_ptr[r] == 2:
        return _pair_max_marginals(p, r, delta, down, scratch)
    hat = scratch.hat
    fill_hat(p, r, delta, hat, scratch)
    best = largest(hat[: p.size[r]])
    onto_children(p, r, hat, down, True, scratch)
    return best


@inner_kernel
def table_soft_marginals(p, r, delta, gamma, down, scratch):
    """Soft maximum of the reparametrised scores for each configuration of each child."""
    if _is_two_by_two(p, r):
        return _two_by_two_soft_marginals(p, r, delta, gamma, down)
    hat, size = scratch.hat, p.size[r]
    fill_hat(p, r, delta, hat, scratch)
    top = largest(hat[:size])
    if top == -math.inf:
        fill_own(p, r, down, top)
        return top
    total = exponentials(hat[:size], top, gamma, scratch.weight)
    onto_children(p, r, scratch.weight, down, False, scratch)
    first, stop = p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]]
    least = math.inf
    for m in range(first, stop):
        least = min(least, down[m])
    if least < _SAFE:
        if has_variables_only(p, r):
            soft_contract(p, r, hat, gamma, down, scratch)
        else:
            soft_spread(p, r, hat, gamma, down, scratch)
    else:
        for m in range(first, stop):
            down[m] = top + gamma * math.log(down[m])
    return top + gamma * math.log(total)
