"""The method "trws": sequential coordinate descent along an order of the variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..core.arguments import check_integer, integers
from ..core.jit.kernels import inner_kernel, kernel
from ..core.parallel import Pieces
from .budget import Stopped
from .kinds.operations import region_max_marginals
from .kinds.scratch import region_scratch
from .kinds.table import collect_columns, collect_potts, collect_rows
from .methods.relaxation import hat_scores
from .regions import CARDINALITY, POTTS, TABLE, VARIABLE, check_duals, score_extent
from .scoring import Incumbent

# Messages of tables of three and more variables to one of them.


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


# Sweeps over the variables: collect from factors, decode, hand shares on.
#
# A message ``delta`` of a factor to one of its variables is the factor's max-marginal without it
# after the variable has collected it; handing on gives shares of the variable's score back. Factors
# of two variables are the fast path; tables of any arity go through :mod:`.tables`.

FIRST, LAST, SKIPPED = 1, 2, 4
_SMALL_TABLE = 4


class Sweep(NamedTuple):
    """Data of the sweeps in addition to the regions."""

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
def _collect_pair(p, z, r, q, n_own, other, out):
    """Message of a factor of two variables to the one in its slot `q`."""
    begin = p.score_ptr[r]
    n_other = p.n_states[p.child[p.slot_ptr[r] + 1 - q]]
    if p.kind[r] == POTTS:
        collect_potts(p.scores[begin], n_own, n_other, other, out, z.low)
    elif q == 1:
        collect_rows(p.scores, begin, n_other, n_own, other, out, z.low)
    elif z.flipped.size == 0 or n_other <= _SMALL_TABLE:
        collect_columns(p.scores, begin, n_own, n_other, other, out, z.low)
    else:
        collect_rows(z.flipped, begin, n_other, n_own, other, out, z.low)


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
    """Set the first and last variables of factors, and the share of each variable."""
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


# Implicit factors between the sweeps: all of their variables at once.


@kernel
def visit_implicit(p, z, delta, down, scratch):
    """Share each implicit factor's max-marginals out to its variables, so that its maximum is 0."""
    for r in range(p.n_variables, p.kind.size):
        first, last = p.slot_ptr[r], p.slot_ptr[r + 1]
        if z.role[first] & SKIPPED == 0:
            continue
        for s in range(first, last):
            begin = p.message_ptr[s]
            hat_scores(p, p.child[s], delta, z.hat)
            for k in range(p.message_ptr[s + 1] - begin):
                delta[begin + k] -= z.hat[k] if z.hat[k] > z.low else z.low
        region_max_marginals(p, r, delta, down, scratch)
        for m in range(p.message_ptr[first], p.message_ptr[last]):
            share = down[m] / (last - first)
            delta[m] += share if share > z.low else z.low


_PATIENCE = 20
_ROUNDING, _MESSAGE_ROUNDING = 1e-13, 16 * np.finfo(float).eps
_SMALL = 4


def make_order(graph, p, order):
    """The variables in an order, by name or as given."""
    n = graph.n_variables
    if isinstance(order, str):
        if order == "given":
            return np.arange(n)
        if order == "cuthill-mckee":
            slots = np.arange(p.child.size)
            incidence = coo_array(
                (np.ones(slots.size), (p.owner, p.child)), shape=(p.kind.size, p.kind.size)
            ).tocsr()
            adjacency = (incidence.T @ incidence)[:n, :n].tocsr()
            return reverse_cuthill_mckee(adjacency, symmetric_mode=True).astype(np.int64)
        raise ValueError(f'order must be "given", "cuthill-mckee" or the variables, got {order!r}')
    order = integers(order, "order")
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(f"order must have each of the {n} variables once")
    return order


class Sweeper:
    """Sweeps over a graph, forward and backward in turn; `check` may raise between pieces."""

    def __init__(self, graph, order="given", delta=None, check=None):
        self.graph, self.p = graph, graph.regions
        p, n, most = self.p, graph.n_variables, int(graph.n_states.max(initial=1))
        has_tables = most > _SMALL and (p.kind == TABLE).any()
        order = make_order(graph, p, order)
        rank = np.empty_like(order)
        rank[order] = np.arange(n)
        self.z = Sweep(
            order=order,
            role=np.zeros(p.child.size, dtype=np.uint8),
            share=np.zeros(n),
            flipped=np.zeros(p.scores.size if has_tables else 0),
            low=-8.0 * (1.0 + score_extent(p)),  # below the sum of all regions' ranges
            hat=np.zeros(most),
            given=np.zeros(most),
            labels=np.zeros(n, dtype=np.int64),
            rank=rank,
            digits=np.zeros(int(np.diff(p.scope_ptr).max(initial=1)), dtype=np.int64),
            row=np.zeros(most),
        )
        set_roles(p, self.z)
        if has_tables:
            flip_tables(p, self.z.flipped)
        self.delta = np.zeros(self.p.message_ptr[-1]) if delta is None else delta.copy()
        self._pieces, self._sums = Pieces(check), np.zeros(2)
        self._down = self._scratch = None
        if (self.p.kind >= CARDINALITY).any():
            self._down, self._scratch = np.zeros_like(self.delta), region_scratch(self.p)

    def sweep(self, forward):
        """One sweep, which leaves what it has decoded in `z.labels`: the bound."""
        self._sums[:] = 0.0
        if self._scratch is not None:
            visit_implicit(self.p, self.z, self.delta, self._down, self._scratch)
        for start, stop in self._pieces.ranges(0, self.graph.n_variables):
            sweep(self.p, self.z, self.delta, start, stop, forward, self._sums)
        total, size = self._sums
        if total == -np.inf:
            return total
        # Messages are added to scores and taken from others: large ones leave fewer digits.
        moved = _MESSAGE_ROUNDING * float(np.abs(self.delta).sum())
        return self.graph.offset + total + _ROUNDING * (1.0 + size) + moved


def solve_trws(graph, *, tol, max_iter, rng, budget, order="given", duals=None, patience=_PATIENCE):
    """Sequential coordinate descent on the LP dual, with decoding (Kolmogorov 2006 and 2015)."""
    patience = check_integer("patience", patience)
    incumbent = Incumbent(graph.of_variables(), tol, budget)
    incumbent.begin()
    graph = incumbent.graph
    sweeper = Sweeper(graph, order, check_duals(graph, duals), incumbent.check)

    n_passes, message = _sweep_until_done(sweeper, incumbent, max_iter, patience)
    known = incumbent.score
    if incumbent.improve(incumbent.labels) > known:
        incumbent.record(n_passes, incumbent.bound)
    converged = message in ("proved", "stalled")
    return incumbent.result("trws", message, n_passes, converged, duals=sweeper.delta)


def _sweep_until_done(sweeper, incumbent, max_iter, patience):
    """Sweep until the bound proves the labelling, or stalls; how many passes, and why."""
    bounds = []
    for k in range(1, max_iter + 1):
        incumbent.share = (k - 1) / max_iter
        try:
            for forward in (True, False):
                bound = sweeper.sweep(forward)
                incumbent.offer(sweeper.z.labels)
                incumbent.record(k, bound)
                if incumbent.is_proved:
                    return k, "proved"
        except Stopped:
            return k - 1, "stopped"
        if k & (k - 1) == 0:
            incumbent.improve(sweeper.z.labels)
        bounds.append(incumbent.bound)
        least_gain = 0.1 * incumbent.tol * max(1.0, abs(incumbent.bound))
        if k > patience and bounds[-patience - 1] - bounds[-1] <= least_gain:
            return k, "stalled"
        if incumbent.budget(k / max_iter, incumbent.bound, incumbent.score):
            return k, "stopped"
    return max_iter, "max_iter is reached"
