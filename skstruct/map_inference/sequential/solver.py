"""The method "trws": sequential coordinate descent along an order of the variables."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ...inference.arguments import check_integer
from ..arguments import check_duals, check_order
from ..ask import Asking
from ..decode import Decoder
from ..kinds.scratch import region_scratch
from ..regions import CARDINALITY, TABLE, score_extent
from ..result import MAPResult, Records, is_proved
from ..scoring import sum_of_maxima
from .implicit import visit_implicit
from .kernels import Sweep, flip_tables, set_roles, sweep

_PATIENCE = 20
_ROUNDING, _MESSAGE_ROUNDING = 1e-13, 16 * np.finfo(float).eps
_SMALL = 4


def finite_range(p):
    """Something below which a score is as good as -inf: the sum of all regions' ranges."""
    return -8.0 * (1.0 + score_extent(p))


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
    return check_order(graph, order)


def make_sweep(graph, p, order="given"):
    """Order, roles and scratch of the sweeps over a graph."""
    order = make_order(graph, p, order)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    most = int(graph.n_states.max(initial=1))
    pairs = p.kind == TABLE
    flipped = np.zeros(p.scores.size if most > _SMALL and pairs.any() else 0)
    z = Sweep(
        order=order,
        role=np.zeros(p.child.size, dtype=np.uint8),
        share=np.zeros(graph.n_variables),
        flipped=flipped,
        low=finite_range(p),
        hat=np.zeros(most),
        given=np.zeros(most),
        labels=np.zeros(graph.n_variables, dtype=np.int64),
        rank=rank,
        digits=np.zeros(int(np.diff(p.scope_ptr).max(initial=1)), dtype=np.int64),
        row=np.zeros(most),
    )
    set_roles(p, z)
    if flipped.size:
        flip_tables(p, flipped)
    return z


class Sweeper(Asking):
    """Sweeps over a graph, forward and backward in turn."""

    def __init__(self, graph, order="given", delta=None):
        super().__init__()
        self.graph, self.p = graph, graph.regions
        self.z = make_sweep(graph, self.p, order)
        self.delta = np.zeros(self.p.message_ptr[-1]) if delta is None else delta.copy()
        self._sums = np.zeros(2)
        self._down = self._scratch = None
        if (self.p.kind >= CARDINALITY).any():
            self._down, self._scratch = np.zeros_like(self.delta), region_scratch(self.p)

    def sweep(self, forward, ask=None):
        """One sweep: the bound; None if `ask` has stopped it."""
        self._ask, self._sums[:] = ask, 0.0
        n = self.graph.n_variables
        if self._scratch is not None:
            visit_implicit(self.p, self.z, self.delta, self._down, self._scratch)
        for start, stop in self._pieces.ranges(0, n):
            sweep(self.p, self.z, self.delta, start, stop, forward, self._sums)
        if self.stopped:
            return None
        total, size = self._sums
        if total == -np.inf:
            return total
        # Messages are added to scores and taken from others: large ones leave fewer digits.
        moved = _MESSAGE_ROUNDING * float(np.abs(self.delta).sum())
        return self.graph.offset + total + _ROUNDING * (1.0 + size) + moved

    @property
    def labels(self):
        """What the last sweep has decoded."""
        return self.z.labels


def solve_trws(
    graph, *, tol, max_iter, time_limit, rng, on_pass, order="given", duals=None, patience=_PATIENCE
):
    """Sequential coordinate descent on the LP dual, in the order of TRW-S.

    Sweeps go forward and backward over the variables. Each collects the max-marginals of its
    factors and hands shares of its score on to those that go on; labels are decoded on the way.

    V. Kolmogorov: Convergent tree-reweighted message passing for energy minimization, PAMI 2006.

    V. Kolmogorov: A new look at reweighted message passing, PAMI 2015 (larger factors).
    """
    patience = check_integer("patience", patience, 1)
    flat = graph.of_variables()
    sweeper = Sweeper(flat, order, check_duals(flat, duals))
    decoder = Decoder(flat)
    records = Records(on_pass)
    records.add(0, sum_of_maxima(graph.regions), decoder.score)
    bounds, message, done = [], "max_iter is reached", 0
    for k in range(1, max_iter + 1):
        for forward in (True, False):
            bound = sweeper.sweep(forward, partial(on_pass, (k - 1) / max_iter))
            if bound is None:
                break
            decoder.offer(sweeper.labels)
            records.add(k, bound, decoder.score)
            if is_proved(decoder.score, records.bound, tol):
                break
        if sweeper.stopped:
            message = "stopped"
            break
        done = k
        if is_proved(decoder.score, records.bound, tol):
            message = "proved"
            break
        if k & (k - 1) == 0:
            decoder.improve(sweeper.labels)
        bounds.append(records.bound)
        small = 0.1 * tol * max(1.0, abs(records.bound))
        if k > patience and bounds[-patience - 1] - bounds[-1] <= small:
            message = "stalled"
            break
        if on_pass(k / max_iter, bound=records.bound, score=decoder.score):
            message = "stopped"
            break
    decoder.improve(decoder.labels)
    if decoder.score > records.score:
        records.add(done, records.bound, decoder.score)
    return MAPResult(
        labels=decoder.labels,
        score=decoder.score,
        bound=records.bound,
        optimal=is_proved(decoder.score, records.bound, tol),
        duals=sweeper.delta,
        beliefs=None,
        history_=records.history(),
        method="trws",
        n_iter=done,
        converged=message in ("proved", "stalled"),
        message=message,
    )
