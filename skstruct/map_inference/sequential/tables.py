"""Messages of tables of three and more variables to one of them."""

import numpy as np

from ...core.dispatch import inner_kernel


@inner_kernel
def _advance(p, r, digits):
    """The next configuration of a table, the last variable fastest."""
    first = p.scope_ptr[r]
    d = p.scope_ptr[r + 1] - first - 1
    digits[d] += 1
    while d > 0 and digits[d] == p.n_states[p.scope[first + d]]:
        digits[d] = 0
        d -= 1
        digits[d] += 1


@inner_kernel
def _others(p, r, q, delta, digits, stop):
    """Messages at a configuration's labels, of all slots before `stop` but `q`."""
    total = 0.0
    begin = p.slot_ptr[r]
    for o in range(stop):
        if o != q:
            total += delta[p.message_ptr[begin + o] + digits[o]]
    return total


@inner_kernel
def collect_table(p, r, q, delta, out, low, digits):
    """Message of a table to the variable in its slot `q`: max-marginals without that message."""
    last = p.slot_ptr[r + 1] - p.slot_ptr[r] - 1
    n_last = p.n_states[p.child[p.slot_ptr[r] + last]]
    begin = p.message_ptr[p.slot_ptr[r] + last]
    out[:] = low
    digits[: last + 1] = 0
    row = p.score_ptr[r]
    for _ in range(p.size[r] // n_last):
        known = _others(p, r, q, delta, digits, last)
        if q == last:
            for k in range(n_last):
                s = p.scores[row + k] - known
                out[k] = s if s > out[k] else out[k]
        else:
            best = -np.inf
            for k in range(n_last):
                s = p.scores[row + k] - delta[begin + k]
                best = s if s > best else best
            best -= known
            if best > out[digits[q]]:
                out[digits[q]] = best
        row += n_last
        digits[last] = n_last - 1
        _advance(p, r, digits)


@inner_kernel
def conditional_table(p, z, r, q, delta, given, early):
    """Add max-marginals given the labels of earlier variables, the messages of later ones."""
    begin = p.slot_ptr[r]
    arity = p.slot_ptr[r + 1] - begin
    rank = z.rank
    here = rank[p.child[begin + q]]
    sign = 1 if early == 1 else -1
    n = p.n_states[p.child[begin + q]]
    best = z.row[:n]
    best[:] = -np.inf
    for d in range(arity):
        known = (rank[p.child[begin + d]] - here) * sign < 0
        z.digits[d] = z.labels[p.child[begin + d]] if known else 0
    while True:
        index, total = 0, 0.0
        for d in range(arity):
            j = p.child[begin + d]
            index = index * p.n_states[j] + z.digits[d]
            if (rank[j] - here) * sign > 0:
                total -= delta[p.message_ptr[begin + d] + z.digits[d]]
        total += p.scores[p.score_ptr[r] + index]
        if total > best[z.digits[q]]:
            best[z.digits[q]] = total
        d = arity - 1
        while d >= 0:
            j = p.child[begin + d]
            if (rank[j] - here) * sign >= 0:
                z.digits[d] += 1
                if z.digits[d] < p.n_states[j]:
                    break
                z.digits[d] = 0
            d -= 1
        if d < 0:
            break
    for k in range(n):
        given[k] += best[k]
