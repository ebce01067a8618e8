"""Bounds by mini-buckets, tightened by passes forward and back."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...inference.arguments import check_integer
from ..arguments import check_duals, check_order, check_start
from ..ask import Asking
from ..decode import Decoder
from ..factors import Potts, Table
from ..result import MAPResult, Records, is_proved
from ..scoring import sum_of_maxima
from ..search.costs import Stopped
from .kernels import backward_pass, forward_pass
from .plan import choose_order, make_plan, partition

_ROUNDING = 1e-12
_STEPS = 1000  # between two looks at the clock


class Work(NamedTuple):
    """Scratch of the passes."""

    # One message.
    message: np.ndarray
    # Those of a variable in all of its clusters, and their mean.
    marginals: np.ndarray
    # (n_clusters,): Children that have not got their share back.
    left: np.ndarray
    # Position in a table.
    digits: np.ndarray
    # (2,): The constant that was taken out, and the magnitudes of its terms.
    sums: np.ndarray
    # What is as good as -inf.
    low: float


def tables_of(graph, delta=None, look=None):
    """Scopes and tables of all factors, unaries included; reparametrised by messages."""
    unary, p, r = graph.unary.copy(), graph.regions, graph.n_variables
    scopes, tables = [], []
    for batch in graph.factors:
        for row, scope in enumerate(batch.scopes.tolist()):
            if look is not None and r % _STEPS == 0:
                look()
            shape = graph.n_states[scope]
            if isinstance(batch, Table):
                table = batch.tables[0 if batch.shared else row]
            elif isinstance(batch, Potts):
                same = np.arange(shape[0])[:, None] == np.arange(shape[1])
                table = np.where(same, batch.weights[row], 0.0)
            else:
                raise TypeError(
                    f"mini-buckets take Table and Potts factors, factor {r - graph.n_variables} is "
                    f"a {type(batch).__name__} of {batch.arity} variables"
                )
            if delta is not None:
                for d, slot in enumerate(range(p.slot_ptr[r], p.slot_ptr[r + 1])):
                    part = delta[p.message_ptr[slot] : p.message_ptr[slot + 1]]
                    table = table - part.reshape([-1 if e == d else 1 for e in range(len(scope))])
                    unary[graph.state_ptr[scope[d]] :][: part.size] += part
            scopes.append(tuple(scope))
            tables.append(table)
            r += 1
    for v in range(graph.n_variables):
        scopes.append((v,))
        tables.append(unary[graph.state_ptr[v] : graph.state_ptr[v + 1]])
    return scopes, tables


class MiniBuckets(Asking):
    """Clusters of a graph, and passes over them."""

    def __init__(self, graph, order, limit, delta=None, most_cells=1 << 24, look=None):
        super().__init__()
        self.graph = graph
        scopes, tables = tables_of(graph, delta, look)
        if order is None:
            order = choose_order(graph, scopes, limit, look)
        self.order = order
        while True:
            clusters, buckets = partition(graph.n_states, scopes, order, limit, look)
            cells = sum(int(np.prod(graph.n_states[scope])) for scope, _, _ in clusters)
            if cells <= most_cells or limit <= 4:
                break
            limit //= 2
        self.limit, self.cells = limit, cells
        self.plan = make_plan(graph.n_states, order, clusters, buckets)
        self.hat = np.zeros(cells)
        finite = [np.abs(t[np.isfinite(t)]).sum() for t in tables]
        for q, (scope, factors, _) in enumerate(clusters):
            if look is not None and q % _STEPS == 0:
                look()
            shape = graph.n_states[scope]
            table = self.hat[self.plan.cell_ptr[q] : self.plan.cell_ptr[q + 1]].reshape(shape)
            place = {v: d for d, v in enumerate(scope)}
            for f in factors:
                axes = [place[v] for v in scopes[f]]
                ordered = tables[f].transpose(np.argsort(axes))
                table += ordered.reshape([n if d in axes else 1 for d, n in enumerate(shape)])
        widest = max(int(n) for n in np.diff(self.plan.bucket_ptr))
        most = int(graph.n_states.max())
        self.work = Work(
            message=np.zeros(int(np.diff(self.plan.cell_ptr).max())),
            marginals=np.zeros((widest + 1) * most),
            left=self.plan.n_children.copy(),
            digits=np.zeros(int(np.diff(self.plan.dim_ptr).max()) + 1, dtype=np.int64),
            sums=np.array([graph.offset, 1.0 + abs(graph.offset)]),
            low=-8.0 * (1.0 + float(np.sum(finite))),
        )
        self.is_exact = bool((np.diff(self.plan.bucket_ptr) == 1).all())
        self.labels = np.zeros(graph.n_variables, dtype=np.int64)

    def forward(self, ask=None):
        """Eliminate all variables: the bound; None if `ask` has stopped it."""
        self._ask = ask
        for start, stop in self._pieces.ranges(0, self.graph.n_variables):
            forward_pass(self.plan, self.hat, self.work, start, stop)
        if self.stopped:
            return None
        total, size = self.work.sums
        return float(total + (_ROUNDING * size if total > -np.inf else 0.0))

    def backward(self, ask=None):
        """Decode, and hand scores back; whether it went through."""
        self._ask = ask
        for start, stop in self._pieces.ranges(0, self.graph.n_variables):
            backward_pass(self.plan, self.hat, self.work, self.labels, start, stop)
        return not self.stopped


def _set_up(graph, order, most_cells, duals, on_pass):
    """The mini-buckets; None if `on_pass` has stopped it."""
    most_cells = check_integer("most_cells", most_cells, 1)
    duals = check_duals(graph, duals)
    order = None if order is None else check_order(graph, order)

    def look():
        if on_pass(0.0):
            raise Stopped

    try:
        return MiniBuckets(graph, order, most_cells, duals, look=look)
    except Stopped:
        return None


def solve_mini_buckets(
    graph,
    *,
    tol,
    max_iter,
    time_limit,
    rng,
    on_pass,
    most_cells=1 << 14,
    order=None,
    duals=None,
    start=None,
    patience=5,
):
    """Elimination in parts that are small enough, tightened by passes forward and back.

    Variables are eliminated one after the other. Where the table would get too large, the factors
    are split into mini-buckets, whose copies of the variable need not agree; messages make them
    agree as far as they can. In grids the parts are strips. With room for whole buckets the method
    is exact.

    R. Dechter, I. Rish: Mini-buckets: a general scheme for bounded inference, JACM 2003.

    A. Ihler, N. Flerova, R. Dechter, L. Otten: Join-graph based cost-shifting schemes, UAI 2012
    (section 3).
    """
    patience = check_integer("patience", patience, 1)
    graph = graph.of_variables()
    start = check_start(graph, start)
    decoder, records = Decoder(graph), Records(on_pass)
    if start is not None:
        decoder.offer(start)
    records.add(0, sum_of_maxima(graph.regions), decoder.score)
    buckets = _set_up(graph, order, most_cells, duals, on_pass)
    bounds, message, done = [], "max_iter is reached", 0
    if buckets is None:
        max_iter, message = 0, "stopped"
    for k in range(1, max_iter + 1):
        ask = partial(on_pass, (k - 1) / max_iter)
        bound = buckets.forward(ask)
        if bound is None or not buckets.backward(ask):
            message = "stopped"
            break
        decoder.offer(buckets.labels)
        if k & (k - 1) == 0:
            decoder.improve(buckets.labels)
        records.add(k, bound, decoder.score)
        done = k
        if is_proved(decoder.score, records.bound, tol):
            message = "proved"
            break
        bounds.append(records.bound)
        small = 1e-4 * (records.bound - decoder.score)
        if k > patience and bounds[-patience - 1] - bounds[-1] <= small:
            message = "stalled"
            break
        if on_pass(k / max_iter, bound=records.bound, score=decoder.score):
            message = "stopped"
            break
    return MAPResult(
        labels=decoder.labels,
        score=decoder.score,
        bound=records.bound,
        optimal=is_proved(decoder.score, records.bound, tol),
        history_=records.history(),
        method="mini-buckets",
        n_iter=done,
        converged=message in ("proved", "stalled"),
        message=message,
    )
