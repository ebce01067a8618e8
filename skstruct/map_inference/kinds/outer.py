"""Tables whose children are their variables: one axis at a time, from the last to the first."""

import math

from ...core.dispatch import inner_kernel
from ...inference.numerics import fast_exp
from ..regions import POTTS
from .scratch import LOWEST, largest, soft_maximum


@inner_kernel
def has_variables_only(p, r):
    """Whether a region's children are its variables, in their order."""
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
