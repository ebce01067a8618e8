"""Sweeps over the variables: collect from factors, decode, hand shares on.

A message ``delta`` of a factor to one of its variables is the factor's max-marginal without it
after the variable has collected it; handing on gives shares of the variable's score back. Factors
of two variables are the fast path; tables of any arity go through :mod:`.tables`.
"""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ..regions import POTTS, TABLE, VARIABLE
from .tables import collect_table, conditional_table

FIRST, LAST, SKIPPED = 1, 2, 4
_SMALL = 4


class Sweep(NamedTuple):
    """What the sweeps know beside the regions."""

    # (n_variables,): The variables.
    order: np.ndarray
    # (n_slots,): Whether the slot's variable is the ``FIRST`` or ``LAST`` of its factor in the
    # order; ``SKIPPED``: sweeps leave the factor alone.
    role: np.ndarray
    # (n_variables,): Share of a variable's score that each factor gets.
    share: np.ndarray
    # As the regions' scores, with tables of two variables transposed; empty if all are small.
    flipped: np.ndarray
    # Scores below it are as good as -inf.
    low: float
    # (most states,): Scratch: a variable's reparametrised scores; those given the labels of earlier
    # ones.
    hat: np.ndarray
    given: np.ndarray
    # (n_variables,): What was decoded.
    labels: np.ndarray
    # (n_variables,): Position of each variable in the order.
    rank: np.ndarray
    # (largest arity,): Scratch of tables.
    digits: np.ndarray
    row: np.ndarray


@inner_kernel
def _collect_rows(table, begin, n_rows, n_columns, other, out, low):
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
def _collect_columns(table, begin, n_rows, n_columns, other, out, low):
    """For each row the largest entry of a table minus the message of its column."""
    for a in range(n_rows):
        best = low
        row = begin + a * n_columns
        for b in range(n_columns):
            s = table[row + b] - other[b]
            best = s if s > best else best
        out[a] = best


@inner_kernel
def _collect_potts(weight, n_own, n_other, other, out, low):
    """The same for a Potts factor, in linear time."""
    best = second = -np.inf
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
def _collect_pair(p, z, r, q, n_own, other, out):
    """Message of a factor of two variables to the one in its slot `q`."""
    begin = p.score_ptr[r]
    n_other = p.n_states[p.child[p.slot_ptr[r] + 1 - q]]
    if p.kind[r] == POTTS:
        _collect_potts(p.scores[begin], n_own, n_other, other, out, z.low)
    elif q == 1:
        _collect_rows(p.scores, begin, n_other, n_own, other, out, z.low)
    elif z.flipped.size == 0 or n_other <= _SMALL:
        _collect_columns(p.scores, begin, n_own, n_other, other, out, z.low)
    else:
        _collect_rows(z.flipped, begin, n_other, n_own, other, out, z.low)


@inner_kernel
def _add_conditional_pair(p, r, q, n_own, n_other, label, given):
    """Add the scores of a factor given the label of its other variable."""
    begin = p.score_ptr[r]
    if p.kind[r] == POTTS:
        if label < n_own:
            given[label] += p.scores[begin]
    elif q == 0:
        for a in range(n_own):
            given[a] += p.scores[begin + a * n_other + label]
    else:
        for b in range(n_own):
            given[b] += p.scores[begin + label * n_own + b]


@inner_kernel
def _visit_slot(p, z, s, i, delta, early, hat, given):
    """Bring a slot's message up to date; add it to the variable's scores."""
    n = p.n_states[i]
    r = p.owner[s]
    q = s - p.slot_ptr[r]
    begin = p.message_ptr[s]
    out = delta[begin : begin + n]
    arity = p.slot_ptr[r + 1] - p.slot_ptr[r]
    if z.role[s] & early == 0:
        if arity == 2:
            o = p.slot_ptr[r] + 1 - q
            other = delta[p.message_ptr[o] : p.message_ptr[o + 1]]
            _collect_pair(p, z, r, q, n, other, out)
            j = p.child[o]
            _add_conditional_pair(p, r, q, n, p.n_states[j], z.labels[j], given)
        else:
            collect_table(p, r, q, delta, out, z.low, z.digits)
            conditional_table(p, z, r, q, delta, given, early)
    else:
        for k in range(n):
            given[k] += out[k]
    for k in range(n):
        hat[k] += out[k]


@inner_kernel
def _visit(p, z, i, delta, early, late):
    """One variable; its largest score."""
    n = p.n_states[i]
    begin = p.score_ptr[i]
    hat, given = z.hat[:n], z.given[:n]
    for k in range(n):
        hat[k] = p.scores[begin + k]
        given[k] = hat[k]
    for e in range(p.parent_ptr[i], p.parent_ptr[i + 1]):
        s = p.parent[e]
        if z.role[s] & SKIPPED == 0:
            _visit_slot(p, z, s, i, delta, early, hat, given)
        else:
            for k in range(n):
                hat[k] += delta[p.message_ptr[s] + k]
                given[k] += delta[p.message_ptr[s] + k]
    best = hat[0]
    label = 0
    for k in range(1, n):
        best = hat[k] if hat[k] > best else best
        label = k if given[k] > given[label] else label
    z.labels[i] = label
    for k in range(n):
        s = z.share[i] * (hat[k] - best)
        hat[k] = s if s > z.low else z.low
    for e in range(p.parent_ptr[i], p.parent_ptr[i + 1]):
        s = p.parent[e]
        if z.role[s] & (late | SKIPPED) == 0:
            begin = p.message_ptr[s]
            for k in range(n):
                delta[begin + k] -= hat[k]
    return best


@kernel
def sweep(p, z, delta, start, stop, forward, sums):
    """Visit the variables of a range of the order, forward or backward."""
    n = z.order.size
    early = FIRST if forward else LAST
    late = LAST if forward else FIRST
    for k in range(start, stop):
        i = z.order[k if forward else n - 1 - k]
        best = _visit(p, z, i, delta, early, late)
        sums[0] += best
        sums[1] += abs(best)


@kernel
def set_roles(p, z):
    """Which variables are first and last of their factors, and the shares of all."""
    rank = z.rank
    for r in range(p.n_variables, p.kind.size):
        first, last = p.slot_ptr[r], p.slot_ptr[r]
        pairwise = p.kind[r] == TABLE or p.kind[r] == POTTS
        for s in range(p.slot_ptr[r], p.slot_ptr[r + 1]):
            z.role[s] = 0 if pairwise and p.kind[p.child[s]] == VARIABLE else SKIPPED
            first = s if rank[p.child[s]] < rank[p.child[first]] else first
            last = s if rank[p.child[s]] > rank[p.child[last]] else last
        z.role[first] |= FIRST
        z.role[last] |= LAST
    for i in range(p.n_variables):
        before = after = 0
        for e in range(p.parent_ptr[i], p.parent_ptr[i + 1]):
            role = z.role[p.parent[e]]
            if role & SKIPPED == 0:
                before += role & FIRST == 0
                after += role & LAST == 0
        z.share[i] = 1.0 / max(before, after, 1)


@kernel
def flip_tables(p, flipped):
    """Transpose the tables of two variables."""
    for r in range(p.n_variables, p.kind.size):
        first = p.scope_ptr[r]
        if p.kind[r] != TABLE or p.scope_ptr[r + 1] - first != 2:
            continue
        begin = p.score_ptr[r]
        n_rows, n_columns = p.n_states[p.scope[first]], p.n_states[p.scope[first + 1]]
        for a in range(n_rows):
            for b in range(n_columns):
                flipped[begin + b * n_rows + a] = p.scores[begin + a * n_columns + b]
