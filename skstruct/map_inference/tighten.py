"""Bounds from large exact parts: a graph cut into overlapping strips that agree on what they share.

Neighbouring strips share a breadth-first layer, whose copies exchange scores by quasi-Newton steps.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from ..core.offsets import ends_of, places_of
from ..inference.bucket_elimination import (
    best_labels,
    elimination_scratch,
    max_buckets,
    place_factors,
    sum_buckets,
    tell_buckets,
)
from ..inference.elimination_order import elimination_order, primal_graph
from ..inference.junction_tree import Tables, junction_tree
from .budget import Budget, Stopped
from .elimination import write_out

_MOST_COUNTERS = 1e6
_FIRST_TEMPERATURE, _COOLING, _PASSES = 0.5, 0.4, 8
_STAGES, _FEW_STAGES = 8, 2
# Larger and larger tables: what they gain is more than messages between smaller ones do.
_LEVELS = 2.0**10, 2.0**14, 2.0**17
_MEMORY = 1e9
_SECONDS_AN_ENTRY, _SOFT_PASS = 2.5e-9, 30.0


def bfs_layers(graph, n_states):
    """Breadth-first layers of each component, from an end of it."""
    ptr, neighbours = graph
    edges = csr_array((np.ones(len(neighbours)), neighbours, ptr), shape=2 * (len(n_states),))
    _, component = connected_components(edges, directed=False)
    _, start = np.unique(component, return_index=True)
    layer = np.zeros(len(n_states))
    for turn in range(3 if len(start) else 0):
        if turn:
            # Of the last layer the variable with fewest neighbours.
            far = np.lexsort((np.diff(ptr), -layer, component))
            start = far[np.unique(component[far], return_index=True)[1]]
        layer = dijkstra(edges, indices=start, unweighted=True, min_only=True)
    return layer.astype(np.int64)


class _Strips(NamedTuple):
    """A model with two copies of shared layers: the first gain the scores from `message` on."""

    tables: Tables
    first: np.ndarray
    second: np.ndarray
    order: np.ndarray
    message: int
    share: int


def _cut(tables, layer, max_table):
    """Layers at which strips end, and an order for each strip; None if two layers are too many."""
    last = int(layer.max(initial=0))
    cuts, orders = [0], []

    def order_of(begin, end):
        keep = (layer >= begin) & (layer <= end)
        graph = primal_graph(tables.n_states, tables.scope_ptr, tables.scope, keep)
        for rule in ("min-fill", "sweep"):
            found = elimination_order(graph, tables.n_states, rule, max_table=max_table, keep=keep)
            if found.largest < np.inf:
                return found.order
        return None

    while not orders or cuts[-1] < last:
        low = begin = cuts[-1]
        high, order = min(begin + 1, last), None
        while True:
            found = order_of(begin, high)
            if found is not None:
                low, order = high, found
            if found is None or low == last:
                break
            high = min(begin + 2 * (high - begin), last)
        while high - low > 1 and order is not None:
            middle = (low + high) // 2
            found = order_of(begin, middle)
            if found is None:
                high = middle
            else:
                low, order = middle, found
        if order is None:
            return None
        cuts.append(low)
        orders.append(order)
    return np.array(cuts), orders


def make_strips(tables, layer, cuts, orders):
    """The model of the strips."""
    n, n_factors = len(tables.n_states), len(tables.table_ptr)
    is_shared = np.isin(layer, cuts[1:-1])
    strip = np.maximum(np.searchsorted(cuts, layer) - 1, 0)
    first = np.flatnonzero(is_shared)
    second = n + np.arange(len(first))
    copy = np.full(n, -1)
    copy[first] = second
    origin = np.concatenate((np.arange(n), first))
    arity = np.diff(tables.scope_ptr)
    factor = np.repeat(np.arange(n_factors), arity)
    lowest, highest = np.full(n_factors, np.iinfo(np.int64).max), np.full(n_factors, -1)
    # A variable of a shared layer is the last of its strip and the first of the next.
    np.maximum.at(highest, factor, strip[tables.scope] + is_shared[tables.scope])
    np.minimum.at(lowest, factor, strip[tables.scope])
    # In no strip but the next: some variable stands behind the shared layer.
    behind = np.zeros(n_factors, dtype=bool)
    np.logical_or.at(behind, factor, ~is_shared[tables.scope] | (arity[factor] == 0))
    both = ~behind & (arity > 0) & (lowest == highest - 1)
    top = np.zeros(n_factors, dtype=np.int64)
    np.maximum.at(top, factor, strip[tables.scope])
    scope = tables.scope.astype(np.int64).copy()
    # In the strip of its deepest variable; those of the shared layer before it are the copies.
    scope = np.where(is_shared[scope] & (strip[scope] < top[factor]), copy[scope], scope)
    sizes = np.ones(n_factors, dtype=np.int64)
    np.multiply.at(sizes, factor, tables.n_states[tables.scope])
    start = ends_of(sizes)
    scores = tables.scores[places_of(tables.table_ptr, sizes)[1]]
    halved = np.repeat(both, sizes)
    scores[halved] *= 0.5
    twins = np.flatnonzero(both)
    twin_scope = copy[tables.scope[np.repeat(both, arity)]]
    twin_start = start[-1] + ends_of(sizes[twins])[:-1]
    states = tables.n_states[first]
    message, share = len(scores) + int(halved.sum()), int(states.sum())
    places = message + ends_of(states)[:-1]
    one = np.ones(2 * len(first), dtype=np.int64)
    whole = Tables(
        tables.n_states[origin],
        ends_of(np.concatenate((arity, arity[twins], one))),
        np.concatenate((scope, twin_scope, first, second)).astype(np.int32),
        np.concatenate((start[:-1], twin_start, places, places + share)),
        np.concatenate((scores, scores[halved], np.zeros(2 * share))),
    )
    # The first layer of a strip are the second copies.
    named = [
        np.where(is_shared[order] & (layer[order] == begin), copy[order], order)
        for order, begin in zip(orders, cuts[:-1], strict=True)
    ]
    order = np.concatenate(named).astype(np.int32)
    return _Strips(whole, first, second, order, message, share)


class Tightener:
    """The bound of strips, and what makes it smaller."""

    def __init__(self, tables, layer, max_table):
        self.bound, self.labels = np.inf, np.zeros(len(tables.n_states), dtype=np.int64)
        cuts = _cut(tables, layer, max_table)
        self.strips = None if cuts is None else make_strips(tables, layer, *cuts)
        if self.strips is not None:
            self._plan = plan = junction_tree(self.strips.tables, self.strips.order)
            self.entries = float(plan.size.astype(float).sum())
            self.memory = 16.0 * plan.slot_ptr[-1] + plan.back_ptr[-1]

    def prepare(self):
        """Memory for the passes."""
        whole, plan, message = self.strips.tables, self._plan, self.strips.message
        self._scratch = elimination_scratch(plan)
        self._slots, self._down = np.zeros((2, plan.slot_ptr[-1]))
        self._back = np.empty(plan.back_ptr[-1], dtype=np.uint8)
        self._labels = np.zeros(len(whole.n_states), dtype=np.int64)
        self._base, self._target = np.empty((2, len(whole.table_ptr)), dtype=np.int64)
        place_factors(whole, plan, whole.table_ptr, self._labels, self._base)
        wanted = np.where(whole.table_ptr >= message, whole.table_ptr - message, -1)
        place_factors(whole, plan, wanted, self._labels, self._target)
        finite = whole.scores[:message][np.isfinite(whole.scores[:message])]
        self.scale = float(np.abs(finite - finite.mean()).mean()) if finite.size else 0.0

    def _with(self, messages, scale=1.0):
        """The strips' tables with messages between the copies, divided by `scale`."""
        scores = self.strips.tables.scores.copy()
        begin, share = self.strips.message, self.strips.share
        scores[begin : begin + share] = messages
        scores[begin + share :] = -messages
        return self.strips.tables._replace(scores=scores / scale)

    def evaluate(self, messages):
        """The bound of these messages; keeps the best, and its labels."""
        tables, plan = self._with(messages), self._plan
        n = len(plan.variable)
        max_buckets(
            tables, plan, self._base, plan.slot_ptr, self._slots, self._back, 0, n, self._scratch
        )
        constant = tables.scores[self._base[plan.constant]]
        bound = float(self._slots[0] * (n > 0) + constant.sum())
        # Sums of so many terms may be rounded downwards.
        if np.isfinite(bound):
            bound += 1e-14 * len(self._base) ** 0.5 * (abs(bound) + self.scale)
        if bound < self.bound:
            best_labels(tables, plan, self._back, 0, n, self._labels)
            self.bound = bound
            self.labels = self._labels[: len(self.labels)].copy()
        return bound

    def soft_bound(self, messages, temperature):
        """The softened bound, and its gradient."""
        tables, plan = self._with(messages, temperature), self._plan
        n = len(plan.variable)
        sum_buckets(tables, plan, self._base, plan.slot_ptr, self._slots, 0, n, self._scratch)
        value = temperature * float(self._slots[0])
        share = self.strips.share
        out = np.zeros(2 * share)
        places = self._base, self._target, plan.slot_ptr
        known = np.ones(1), self._slots, self._down
        tell_buckets(tables, plan, places, True, *known, out, 0, n, self._scratch)
        return value, out[:share] - out[share:]


def tighten(graph, budget=None, max_table=2**20, max_iter=200):
    """An upper bound by strips that are solved exactly (Komodakis, Paragios, Tziritas 2011)."""
    budget = Budget() if budget is None else budget
    passes, bound, labels = 0, np.inf, np.zeros(graph.n_variables, dtype=np.int64)
    try:
        tables = write_out(graph, _MOST_COUNTERS)
    except ValueError:
        return bound, labels

    def check():
        nonlocal passes
        passes += 1
        if passes >= max_iter:
            raise Stopped
        budget.check(passes / max_iter)

    primal = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    layer, done = bfs_layers(primal, tables.n_states), None
    for level in [*[table for table in _LEVELS if table < max_table], max_table]:
        model = Tightener(tables, layer, level)
        if model.strips is None or model.entries == done or model.memory > _MEMORY:
            continue
        done = model.entries
        seconds = _SECONDS_AN_ENTRY * model.entries
        if bound < np.inf and seconds > budget.seconds_left:
            break
        goes_on = len(model.strips.first) > 0
        try:
            model.prepare()
            messages = np.zeros(model.strips.share)
            model.evaluate(messages)
            check()
            if _SOFT_PASS * seconds < budget.seconds_left:
                _descend(model, messages, _FEW_STAGES if level < max_table else _STAGES, check)
        except Stopped:
            goes_on = False
        if model.bound + graph.offset < bound:
            bound, labels = model.bound + graph.offset, model.labels[: graph.n_variables]
        if not goes_on or bound == -np.inf:
            break
    return bound, labels


def _descend(model, messages, n_stages, check):
    """Quasi-Newton steps on softened bounds."""
    temperature = _FIRST_TEMPERATURE * model.scale
    if not (np.isfinite(model.bound) and temperature > 0 and len(messages)):
        return

    def objective(x, temperature):
        found = model.soft_bound(x, temperature)
        model.evaluate(x)
        check()
        return found

    for _ in range(n_stages):
        messages = fmin_l_bfgs_b(objective, messages, args=(temperature,), maxfun=_PASSES)[0]
        temperature *= _COOLING
