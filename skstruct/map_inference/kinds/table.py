"""Variables, tables of any arity, and Potts factors, written out or not."""

import math

from ...core.jit.kernels import inner_kernel
from ...inference.numerics import fast_exp
from ...inference.simplex import project
from ..regions import POTTS, TABLE
from .scratch import (
    LOWEST,
    exponentials,
    fill_mu,
    fill_own,
    largest,
    log_add,
    soft_maximum,
    soft_rest,
    top_two,
)

# Tables whose children are their variables: one axis at a time, from the last to the first.


@inner_kernel
def has_variables_only(p, r):
    """Return whether a region's children are its variables, in their order."""
    begin, first = p.scope_ptr[r], p.slot_ptr[r]
    arity = p.scope_ptr[r + 1] - begin
    if arity <= 2:
        return True
    if p.slot_ptr[r + 1] - first != arity:
        return False
    n_same = 0
    for d in range(arity):
        n_same += p.child[first + d] == p.scope[begin + d]
    return n_same == arity


@inner_kernel
def fill_pair_row(p, r, i, delta, out):
    """Reparametrised scores of a pairwise factor for label `i` of its first variable."""
    first, n = p.slot_ptr[r], out.shape[0]
    own, b = delta[p.message_ptr[first] + i], p.message_ptr[first + 1]
    others = delta[b : b + n]
    if p.kind[r] == POTTS:
        for j in range(n):
            out[j] = -own - others[j]
        if i < n:
            out[i] += p.scores[p.score_ptr[r]]
    else:
        start = p.score_ptr[r] + i * n
        row = p.scores[start : start + n]
        for j in range(n):
            out[j] = row[j] - own - others[j]
    for q in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
        m = p.message_ptr[p.parent[q]] + i * n
        gained = delta[m : m + n]
        for j in range(n):
            out[j] += gained[j]


@inner_kernel
def fill_outer(p, r, delta, hat):
    """Reparametrised scores of three and more variables: messages axis by axis, then the scores."""
    begin, first = p.scope_ptr[r], p.slot_ptr[r]
    arity = p.scope_ptr[r + 1] - begin
    n_rows = 1
    hat[0] = 0.0
    for d in range(arity):
        n, m = p.n_states[p.scope[begin + d]], p.message_ptr[first + d]
        # From the last row on: what is written lies behind what is still to be read.
        if n == 2:
            low, high = delta[m], delta[m + 1]
            for row in range(n_rows - 1, -1, -1):
                value = hat[row]
                hat[2 * row], hat[2 * row + 1] = value - low, value - high
        else:
            message = delta[m : m + n]
            for row in range(n_rows - 1, -1, -1):
                value, out = hat[row], hat[row * n : row * n + n]
                for x in range(n):
                    out[x] = value - message[x]
        n_rows *= n
    scores = p.scores[p.score_ptr[r] : p.score_ptr[r] + n_rows]
    for e in range(n_rows):
        hat[e] += scores[e]


@inner_kernel
def contract(p, r, values, down, use_max):
    """Maximise or sum a table onto its variables; `values` are lost."""
    begin, first = p.scope_ptr[r], p.slot_ptr[r]
    n_rows = p.size[r]
    for d in range(p.scope_ptr[r + 1] - begin - 1, -1, -1):
        n, m = p.n_states[p.scope[begin + d]], p.message_ptr[first + d]
        n_rows //= n
        out = down[m : m + n]
        for x in range(n):
            out[x] = values[x]
        if d == 0:
            return
        values[0] = largest(out) if use_max else _sum(out)
        for row in range(1, n_rows):
            own = values[row * n : row * n + n]
            if use_max:
                for x in range(n):
                    out[x] = max(out[x], own[x])
                values[row] = largest(own)
            else:
                for x in range(n):
                    out[x] += own[x]
                values[row] = _sum(own)


@inner_kernel
def soft_contract(p, r, values, gamma, down, scratch):
    """Soft maxima of a table onto its variables, each relative to its own maximum; as above."""
    begin, first, inverse = p.scope_ptr[r], p.slot_ptr[r], 1.0 / gamma
    n_rows = p.size[r]
    for d in range(p.scope_ptr[r + 1] - begin - 1, -1, -1):
        n, m = p.n_states[p.scope[begin + d]], p.message_ptr[first + d]
        n_rows //= n
        out, sums = down[m : m + n], scratch.sums[:n]
        for x in range(n):
            out[x], sums[x] = values[x], 0.0
        if d == 0:
            return
        for row in range(1, n_rows):
            own = values[row * n : row * n + n]
            for x in range(n):
                out[x] = max(out[x], own[x])
        for row in range(n_rows):
            own = values[row * n : row * n + n]
            for x in range(n):
                sums[x] += fast_exp((own[x] - max(out[x], LOWEST)) * inverse)
            values[row] = soft_maximum(own, gamma)
        for x in range(n):
            if out[x] > -math.inf:
                out[x] += gamma * math.log(sums[x])


@inner_kernel
def _sum(values):
    total = 0.0
    for e in range(values.shape[0]):
        total += values[e]
    return total


# Pairs without their own message.


@inner_kernel
def collect_rows(table, begin, n_rows, n_columns, other, out, low):
    """For each column the largest entry of a table minus the message of its row."""
    for b in range(n_columns):
        out[b] = low
    for a in range(n_rows):
        d = other[a]
        row = begin + a * n_columns
        for b in range(n_columns):
            s = table[row + b] - d
            out[b] = s if s > out[b] else out[b]


@inner_kernel
def collect_columns(table, begin, n_rows, n_columns, other, out, low):
    """For each row the largest entry of a table minus the message of its column."""
    for a in range(n_rows):
        best = low
        row = begin + a * n_columns
        for b in range(n_columns):
            s = table[row + b] - other[b]
            best = s if s > best else best
        out[a] = best


# Walks through tables row by row: along the last variable, with the children's configurations.


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
    """Return a child's stride along a row of a table of three and more variables."""
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
    """Return whether a region is a pair of binary variables that no other region contains."""
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
    """Projection of ``hat / gamma`` on the simplex and the smoothed maximum; overwrites `hat`."""
    # What is 1 below the top gets nothing: only the rest is searched for the threshold.
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
def _pair_max_marginals(p, r, delta, down, scratch):
    """Write max-marginals row by row, without storing the table."""
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


# Potts factors: a weight where two labels agree. Maxima without writing the table out.
#
# One contained in a larger table has that table's messages on its pairs and is a table itself.

# Up to this many pairs a label.
_MANY = 4


@inner_kernel(inline=True)
def is_table(p, r):
    """Return whether to treat a region as a table: one, small, or with messages on its pairs."""
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
