"""Graphs of small tree width: exact inference along junction trees, planned once per shape."""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import ends_of, longest_item
from ..core.oracles import (
    edge_marginals,
    exp_oracle,
    max_marginals,
    max_oracle,
    sample_oracle,
    top_k_oracle,
)
from ..inference.bucket_elimination import (
    EliminationScratch,
    best_labels,
    draw_labels,
    elimination_scratch,
    max_buckets,
    sum_buckets,
    tell_buckets,
)
from ..inference.elimination_order import best_elimination_order, primal_graph
from ..inference.junction_tree import JunctionTree, Tables, junction_tree
from .n_best import NBestScratch, n_best_scratch, top_k_by_max_marginals
from .pairwise import NetworkSpace, expand_tables, fold_tables, shape_of


class Plans(NamedTuple):
    """Plans of elimination, one after the other: samples with equal edges share one."""

    # All buckets. Variables, factors (nodes, then edges), bytes and messages have indices within
    # each plan, slots over all plans; slot 0 is that of all roots.
    tree: JunctionTree
    # (n_plans + 1,): Where the buckets of each plan begin.
    bucket_ptr: np.ndarray
    # (n_plans,): Entries of the messages of each plan.
    n_messages: np.ndarray
    # (n_samples,): The plan of each sample.
    plan: np.ndarray


class JunctionScratch(NamedTuple):
    """Scratch of graphs decoded along junction trees."""

    # Scores of the nodes and of the label pairs; the scopes are not used.
    factors: Tables
    # (n_factors,): Offsets of factors in the scores and in `beliefs`.
    base: np.ndarray
    target: np.ndarray
    # (1,): Message to the roots.
    one: np.ndarray
    # Messages.
    up: np.ndarray
    down: np.ndarray
    # Best states.
    back: np.ndarray
    # Marginals, or max-marginals.
    beliefs: np.ndarray
    # (n_nodes,): A labelling.
    best: np.ndarray
    # For blocks of tables.
    elimination: EliminationScratch
    # For the n best.
    n_best: NBestScratch


class JunctionSpace(NetworkSpace):
    """Graphs of small tree width; `own.inference` are their :class:`Plans`."""

    method = "junction-tree"

    @classmethod
    def make(cls, graph, samples, fields, network, n_best):
        """The space, or the reason why its tables are too large."""
        n_labels = network.column.shape[0]
        planned = _plan(graph, samples, n_labels)
        if isinstance(planned, str):
            return planned
        plan, where, orders = planned
        graphs = [(*_graph_of(samples, i), n_labels) for i in where]
        if not graphs:
            graphs, orders = [(0, samples.edges, n_labels)], [np.empty(0, np.int32)]
        trees = [junction_tree(_tables(*graph), o) for graph, o in zip(graphs, orders, strict=True)]
        plans = Plans(
            tree=_concatenate(trees),
            bucket_ptr=ends_of([len(tree.variable) for tree in trees]),
            n_messages=np.array([tree.slot_ptr[-1] for tree in trees], dtype=np.int64),
            plan=plan,
        )
        most_bytes = max((int(tree.back_ptr[-1]) for tree in trees), default=0)
        several = n_best_scratch(fields["part_ptr"], fields["label_ptr"], n_labels, n_best)
        try:
            work = _scratch(samples, fields["n_tables"], n_labels, plans, most_bytes, several)
        except MemoryError:
            raise _too_large(samples, plans, graph.max_table) from None
        return cls(**fields, own=network._replace(inference=plans), work=work)


@inner_kernel
def _load(space, i, theta, temperature):
    """Write the factors of sample i to scratch."""
    _, n, n_labels, n_tables = shape_of(space, i)
    own, work = space.own, space.work
    scores, size = work.factors.scores, n * n_labels
    square = n_labels * n_labels
    for q in range(size):
        scores[q] = theta[q]
    expand_tables(space, i, theta, scores[size:])
    if temperature != 1.0:
        for q in range(size + n_tables * square):
            scores[q] /= temperature
    for t in range(n):
        work.factors.n_states[t] = n_labels
        work.base[t] = t * n_labels
    first = own.ptr[i]
    for e in range(own.ptr[i + 1] - first):
        work.base[n + e] = size + own.table[first + e] * square


@inner_kernel
def _buckets_of(space, i):
    """Return the first bucket of sample i, and the end of its buckets."""
    plans = space.own.inference
    p = plans.plan[i]
    return plans.bucket_ptr[p], plans.bucket_ptr[p + 1]


@inner_kernel
def _tell(space, i, is_sum, size):
    """Send messages down; write the beliefs that `target` requests to the first `size` entries."""
    plans, work = space.own.inference, space.work
    begin, end = _buckets_of(space, i)
    beliefs, down = work.beliefs, work.down[: plans.n_messages[plans.plan[i]]]
    nothing = 0.0 if is_sum else -math.inf
    for q in range(size):
        beliefs[q] = nothing
    tree, factors, scratch = plans.tree, work.factors, work.elimination
    places = (work.base, work.target, tree.slot_ptr)
    work.one[0] = 1.0 if is_sum else work.up[0]
    tell_buckets(
        factors, tree, places, is_sum, work.one, work.up, down, beliefs, begin, end, scratch
    )


@inner_kernel
def _sum_up(space, i, at):
    """Send messages up, to slots `at` these places, and return the log-partition."""
    tree, work = space.own.inference.tree, space.work
    begin, end = _buckets_of(space, i)
    sum_buckets(work.factors, tree, work.base, at, work.up, begin, end, work.elimination)
    return work.up[0]


@inner_kernel
def _marginals(space, i, shares_tables):
    """Marginals of nodes and tables (or of each edge) to the beliefs; returns the log-partition."""
    _, n, n_labels, n_tables = shape_of(space, i)
    work = space.work
    value = _sum_up(space, i, space.own.inference.tree.slot_ptr)
    size, square = n * n_labels, n_labels * n_labels
    n_edges = space.own.ptr[i + 1] - space.own.ptr[i]
    for f in range(n + n_edges):
        apart = f >= n and not shares_tables
        work.target[f] = size + (f - n) * square if apart else work.base[f]
    _tell(space, i, True, size + square * (n_tables if shares_tables else n_edges))
    return value


@max_oracle.register(JunctionSpace)
@kernel
def _(space, i, theta, labels):
    _load(space, i, theta, 1.0)
    tree, work, factors = space.own.inference.tree, space.work, space.work.factors
    begin, end = _buckets_of(space, i)
    at, scratch = tree.live_ptr, work.elimination
    max_buckets(factors, tree, work.base, at, work.up, work.back, begin, end, scratch)
    best_labels(factors, tree, work.back, begin, end, work.best)
    for t in range(end - begin):
        labels[t] = work.best[t]
    return work.up[0]


@exp_oracle.register(JunctionSpace)
@kernel
def _(space, i, theta, temperature, mu):
    _, n, n_labels, _ = shape_of(space, i)
    _load(space, i, theta, temperature)
    if mu.shape[0] == 0:
        return temperature * _sum_up(space, i, space.own.inference.tree.live_ptr)
    value = _marginals(space, i, True)
    size, beliefs = n * n_labels, space.work.beliefs
    for q in range(size):
        mu[q] = beliefs[q]
    fold_tables(space, i, beliefs[size:], mu)
    return temperature * value


@edge_marginals.register(JunctionSpace)
@kernel
def _(space, i, theta, mu, out):
    _, n, n_labels, _ = shape_of(space, i)
    _load(space, i, theta, 1.0)
    value = _marginals(space, i, False)
    size, beliefs = n * n_labels, space.work.beliefs
    for q in range(size):
        mu[q] = beliefs[q]
    n_edges = space.own.ptr[i + 1] - space.own.ptr[i]
    for q in range(n_edges * n_labels * n_labels):
        out[q] = beliefs[size + q]
    return value


@sample_oracle.register(JunctionSpace)
@kernel
def _(space, i, theta, mu, room, uniforms, labels):
    _load(space, i, theta, 1.0)
    tree, work = space.own.inference.tree, space.work
    at, (begin, end) = tree.slot_ptr, _buckets_of(space, i)
    value = _sum_up(space, i, at)
    factors, scratch = work.factors, work.elimination
    for d in range(labels.shape[0] if value > -math.inf else 0):
        own, numbers = labels[d], uniforms[:, d]
        own[:] = 0  # nodes of one label have no bucket
        draw_labels(factors, tree, work.base, at, work.up, begin, end, scratch, numbers, own)
    return value


@max_marginals.register(JunctionSpace)
@kernel
def _(space, i, theta, out):
    _, n, n_labels, _ = shape_of(space, i)
    tree, work, factors = space.own.inference.tree, space.work, space.work.factors
    _load(space, i, theta, 1.0)
    begin, end = _buckets_of(space, i)
    at, scratch = tree.slot_ptr, work.elimination
    max_buckets(factors, tree, work.base, at, work.up, work.back, begin, end, scratch)
    for f in range(n + space.own.ptr[i + 1] - space.own.ptr[i]):
        work.target[f] = work.base[f] if f < n else -1
    _tell(space, i, False, n * n_labels)
    for q in range(n * n_labels):
        out[q] = work.beliefs[q]


top_k_oracle.register(JunctionSpace)(top_k_by_max_marginals)


# With inference="auto", maximum number of table entries per score of a node or an edge. At that
# size a visit takes 2 to 4 times as long as with "lp" or "roof-dual", which exactness is worth.
# Beyond, it grows by a factor of about n_labels with each row of an image.
_WORTH = 256

# Kernels count the entries of a table in 32 bits.
_LARGEST = 2**32 - 1

# For larger graphs, the message does not compute how large the tables would be.
_SEARCHED_AGAIN = 2_000


def _plan(graph, samples, n_labels):
    """Elimination orders with tables of at most ``graph.max_table`` entries, or the reason."""
    # With inference="auto", a relaxation may take a fraction of the time.
    limit = graph.max_table
    if not isinstance(limit, Real) or isinstance(limit, bool) or not limit >= 1:
        raise ValueError(f"max_table must be a number of at least 1, got {limit!r}")
    limit = min(limit, _LARGEST)
    for i in _too_wide(samples, n_labels, limit):
        side = int(samples.shapes[i].min())
        return _refusal(samples, i, n_labels, limit, f"at least {n_labels}^{side + 1}")
    plan, where = _distinct(samples)
    orders = [None] * len(where)
    weighs = graph.inference == "auto" and not graph._prefers_exact
    for p in np.argsort(-(samples.n_edges - samples.lengths)[where], kind="stable"):
        i = where[p]
        tables = _tables(*_graph_of(samples, i), n_labels)
        primal = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
        found = best_elimination_order(primal, tables.n_states, max_table=limit)
        if not found.largest < np.inf:
            size = "more"
            if graph.inference != "auto" and len(tables.n_states) <= _SEARCHED_AGAIN:
                size = f"{best_elimination_order(primal, tables.n_states).largest:.6g}"
            return _refusal(samples, i, n_labels, limit, size)
        n_scores = tables.n_states.sum() + n_labels**2 * samples.n_edges[i]
        if weighs and found.total > _WORTH * n_scores:
            return f"sample {i} needs {found.total:.6g} entries in all, a relaxation is faster"
        orders[p] = found.order
    return plan, where, orders


def _refusal(samples, i, n_labels, limit, size):
    """The message."""
    remedy = "raise it, or use another way" if limit < _LARGEST else "use another way"
    most = f"max_table={limit:g}" if limit < _LARGEST else f"there can be {_LARGEST} at most"
    return (
        f"sample {i} ({samples.lengths[i]} nodes, {samples.n_edges[i]} edges, {n_labels} labels) "
        f"needs a table of {size} entries, but {most}; {remedy}"
    )


def _too_wide(samples, n_labels, limit):
    """Images whose tree width, the shorter side, is too large."""
    if samples.shapes is None:
        return []
    side = samples.shapes.min(axis=1, initial=2**31)
    return np.flatnonzero((side > 1) & ((side + 1) * np.log(n_labels) > np.log(limit) + 1e-9))[:1]


def _graph_of(samples, i):
    """Number of nodes and edges of sample i."""
    n = samples.offsets[i + 1] - samples.offsets[i]
    return n, samples.edges[samples.edge_ptr[i] : samples.edge_ptr[i + 1]]


def _distinct(samples):
    """Return the index of each sample's graph among the distinct ones, and a sample of each."""
    known, where = {}, []
    plan = np.empty(len(samples.lengths), dtype=np.int64)
    for i in range(len(plan)):
        n, edges = _graph_of(samples, i)
        plan[i] = known.setdefault((n, edges.tobytes()), len(known))
        if plan[i] == len(where):
            where.append(i)
    return plan, np.array(where, dtype=np.int64)


def _tables(n, edges, n_labels):
    """The factors of a graph, without scores: one per node, then one per edge."""
    return Tables(
        n_states=np.full(n, n_labels, dtype=np.int64),
        scope_ptr=np.concatenate((np.arange(n), n + 2 * np.arange(len(edges) + 1))),
        scope=np.concatenate((np.arange(n, dtype=np.int32), edges.ravel())),
        table_ptr=np.zeros(n + len(edges), dtype=np.int64),
        scores=np.empty(0),
    )


# Kinds of the indices in a plan, for the concatenation of plans.
_SHIFTS = {
    "dim_ptr": "dim",
    "input_ptr": "source",
    "step_ptr": "step",
}


def _concatenate(trees):
    """Concatenate plans; ends of pointers are kept, except those of slots."""
    fields = {}
    for name in JunctionTree._fields:
        parts = [getattr(tree, name) for tree in trees]
        if name in ("bucket", "constant"):
            parts = [part[:0] for part in parts]
        elif name in _SHIFTS:
            shift = ends_of([len(getattr(tree, _SHIFTS[name])) for tree in trees])
            parts = [part + s for part, s in zip(parts, shift[:-1], strict=True)]
            if name != "step_ptr":
                parts = [np.zeros(1, dtype=np.int64), *(part[1:] for part in parts)]
        elif name in ("live_ptr", "slot_ptr"):
            n_slots = [len(tree.live_ptr) for tree in trees]
            cut = [part[1:n] for part, n in zip(parts, n_slots, strict=True)]
            parts = [np.zeros(1, dtype=np.int64), *cut]
        elif name == "back_ptr":
            parts = [part[:-1] for part in parts]
        fields[name] = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    slots = ends_of([len(tree.live_ptr) - 1 for tree in trees])[:-1]
    buckets = [len(tree.variable) for tree in trees]
    fields["slot"] += np.where(fields["slot"] > 0, np.repeat(slots, buckets), 0)
    source = fields["source"]
    fields["source"] = source - np.where(
        source < 0, np.repeat(slots, [len(tree.source) for tree in trees]), 0
    )
    fields["room"] = np.max([tree.room for tree in trees], axis=0, initial=1)
    return JunctionTree(**fields)


def _too_large(samples, plans, limit):
    """The error for too little memory."""
    entries = plans.n_messages[plans.plan]
    i = int(entries.argmax())
    return MemoryError(
        f"junction trees: sample {i} ({samples.lengths[i]} nodes, {samples.n_edges[i]} edges) "
        f"needs tables of {entries[i]} entries, for which there is not enough memory: choose a "
        f"smaller max_table than {limit:g}, or another way of inference"
    )


def _scratch(samples, n_tables, n_labels, plans, n_bytes, n_best):
    """Scratch for the largest sample."""
    nodes, square = longest_item(samples.offsets), n_labels**2
    n_pairs = np.maximum(n_tables, samples.n_edges)
    n_scores = int((samples.lengths * n_labels + n_pairs * square).max(initial=0))
    n_factors = int((samples.lengths + samples.n_edges).max(initial=0))
    n_messages = int(max(plans.n_messages.max(initial=1), plans.tree.room[0]))
    none = np.empty(0, dtype=np.int64)
    return JunctionScratch(
        factors=Tables(
            np.zeros(nodes, dtype=np.int64), none, none.astype(np.int32), none, np.zeros(n_scores)
        ),
        base=np.zeros(n_factors, dtype=np.int64),
        target=np.zeros(n_factors, dtype=np.int64),
        one=np.zeros(1),
        up=np.zeros(n_messages),
        down=np.zeros(n_messages),
        back=np.zeros(n_bytes, dtype=np.uint8),
        beliefs=np.zeros(n_scores),
        best=np.zeros(nodes, dtype=np.int64),
        elimination=elimination_scratch(plans.tree),
        n_best=n_best,
    )
