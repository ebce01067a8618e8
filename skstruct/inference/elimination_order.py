"""Orders in which to eliminate the variables of a graph: min-fill, min-weight, sweeps."""

from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import ends_of

# The graph of variables that share factors.


def primal_graph(n_states, scope_ptr, scope, keep=None):
    """The graph in which variables are neighbours that share a factor."""
    keep = n_states > 1 if keep is None else keep & (n_states > 1)
    n, arity, pairs = len(n_states), np.diff(scope_ptr), [np.empty(0, dtype=np.int64)]
    for a in np.unique(arity[arity > 1]):  # SciPy's products take ten times as long for few nodes
        rows = scope[scope_ptr[:-1][arity == a][:, None] + np.arange(a)].astype(np.int64)
        u, v = (rows[:, of].ravel() for of in np.nonzero(~np.eye(a, dtype=bool)))
        pairs.append((u * n + v)[keep[u] & keep[v] & (u != v)])
    found = np.sort(np.concatenate(pairs))  # np.unique hashes, which takes longer
    u, v = np.divmod(found[np.diff(found, prepend=-1) > 0], max(n, 1))
    return ends_of(np.bincount(u, minlength=n)), v


# Weights of variables are whole numbers, so that sums and ties are exact.
UNIT = 64
_OVER = 1 << 60
_UNTOUCHED = 1 << 52
_MIN_FILL, _MIN_WEIGHT, _SWEEP = range(3)
_RULES = {"min-fill": _MIN_FILL, "min-weight": _MIN_WEIGHT, "sweep": _SWEEP}


class Elimination(NamedTuple):
    """An order, and what it costs."""

    # The variables in the order in which they are eliminated.
    order: np.ndarray
    # Those that had to be left out to keep tables below the limit.
    fixed: np.ndarray
    # Entries of the largest table, inf if `order` could not be completed.
    largest: float
    # Entries of all tables.
    total: float


class _Work(NamedTuple):
    """The graph during elimination: lists of neighbours, keys of vertices, a heap of them."""

    weight: np.ndarray
    states: np.ndarray
    rank: np.ndarray
    first: np.ndarray
    link: np.ndarray
    to: np.ndarray
    fill: np.ndarray
    cost: np.ndarray
    touched: np.ndarray
    held_fill: np.ndarray
    held_cost: np.ndarray
    held_touched: np.ndarray
    heap: np.ndarray
    place: np.ndarray
    mark: np.ndarray
    other: np.ndarray
    near: np.ndarray
    changed: np.ndarray
    order: np.ndarray
    fixed: np.ndarray
    count: np.ndarray
    sums: np.ndarray


@inner_kernel
def _is_before(w, rule, limit, a, b):
    """Return whether vertex a precedes b, by the keys that the heap holds."""
    over_a, over_b = w.held_cost[a] > limit, w.held_cost[b] > limit
    if over_a != over_b:
        return over_b
    a1, a2, b1, b2 = w.held_fill[a], w.held_cost[a], w.held_fill[b], w.held_cost[b]
    if rule == _MIN_WEIGHT:
        a1, a2, b1, b2 = a2, a1, b2, b1
    elif rule == _SWEEP:
        a1, a2, b1, b2 = a2, w.held_touched[a], b2, w.held_touched[b]
        if a2 == 0:
            a1 = _UNTOUCHED
        if b2 == 0:
            b1 = _UNTOUCHED
    if a1 != b1:
        return a1 < b1
    if a2 != b2:
        return a2 < b2
    return w.rank[a] < w.rank[b]


@inner_kernel
def _sift(w, rule, limit, n_heap, v):
    """Update the key of vertex v in the heap, and move it to its place: one vertex at a time."""
    heap, place = w.heap, w.place
    w.held_fill[v], w.held_cost[v], w.held_touched[v] = w.fill[v], w.cost[v], w.touched[v]
    i = place[v]
    while i > 0 and _is_before(w, rule, limit, v, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        place[heap[i]] = i
        i = (i - 1) // 2
    while 2 * i + 1 < n_heap:
        child = 2 * i + 1
        if child + 1 < n_heap and _is_before(w, rule, limit, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(w, rule, limit, heap[child], v):
            break
        heap[i] = heap[child]
        place[heap[i]] = i
        i = child
    heap[i] = v
    place[v] = i


@inner_kernel
def _note(w, v):
    """Note that the key of vertex v has changed."""
    if w.other[v] == 0:
        w.other[v] = 1
        w.changed[w.count[1]] = v
        w.count[1] += 1


@inner_kernel
def _remove(w, v):
    """Take vertex v out of the graph; its neighbours are in `near`, their number is returned."""
    first, link, to, mark, near = w.first, w.link, w.to, w.mark, w.near
    stamp = w.count[2] + 1
    w.count[2] = stamp
    mark[v] = stamp
    n = 0
    e = first[v]
    while e >= 0:
        near[n] = to[e]
        mark[to[e]] = stamp
        n += 1
        e = link[e]
    for j in range(n):
        a = near[j]
        apart = 0
        e, before = first[a], -1
        while e >= 0:
            after = link[e]
            if to[e] == v:
                if before < 0:
                    first[a] = after
                else:
                    link[before] = after
                link[e] = w.count[3]
                w.count[3] = e
                w.count[4] += 1
            else:
                if mark[to[e]] != stamp:
                    apart += w.weight[to[e]]
                before = e
            e = after
        w.fill[a] -= w.weight[v] * apart
        w.cost[a] -= w.weight[v]
        _note(w, a)
    e = first[v]
    while e >= 0:
        after = link[e]
        link[e] = w.count[3]
        w.count[3] = e
        w.count[4] += 1
        e = after
    first[v] = -1
    return n


@inner_kernel
def _link(w, a, b):
    """Enter b among a's neighbours."""
    e = w.count[3]
    w.count[3] = w.link[e]
    w.count[4] -= 1
    w.to[e] = b
    w.link[e] = w.first[a]
    w.first[a] = e


@inner_kernel
def _connect(w, n):
    """Make the n vertices of `near` a clique."""
    first, link, to, mark, near, weight = w.first, w.link, w.to, w.mark, w.near, w.weight
    for j in range(n):
        a = near[j]
        stamp = w.count[2] + 1
        w.count[2] = stamp
        e = first[a]
        while e >= 0:
            mark[to[e]] = stamp
            e = link[e]
        for i in range(j + 1, n):
            b = near[i]
            if mark[b] == stamp:
                continue
            common, apart = 0, 0
            e = first[b]
            while e >= 0:
                x = to[e]
                if mark[x] == stamp:
                    common += weight[x]
                    w.fill[x] -= weight[a] * weight[b]
                    _note(w, x)
                else:
                    apart += weight[x]
                e = link[e]
            w.fill[a] += weight[b] * (w.cost[a] - weight[a] - common)
            w.fill[b] += weight[a] * apart
            _link(w, a, b)
            _link(w, b, a)
            mark[b] = stamp
            w.cost[a] += weight[b]
            w.cost[b] += weight[a]


@inner_kernel
def _heaviest(w, v):
    """Return the neighbour of v with the largest degree (or v), and the highest rank."""
    best = v
    e = w.first[v]
    while e >= 0:
        u = w.to[e]
        if w.cost[u] > w.cost[best] or (w.cost[u] == w.cost[best] and w.rank[u] > w.rank[best]):
            best = u
        e = w.link[e]
    return best


@inner_kernel
def _step(w, rule, limit):
    """Eliminate, or leave out, one vertex."""
    v = w.heap[0]
    is_kept = w.cost[v] <= limit
    if not is_kept:
        v = _heaviest(w, v)
    entries = w.states[v]
    n = _remove(w, v)
    w.count[0] -= 1
    last, hole = w.heap[w.count[0]], w.place[v]
    w.place[v] = -1
    if last != v:
        w.heap[hole], w.place[last] = last, hole
        _sift(w, rule, limit, w.count[0], last)
    if is_kept:
        for j in range(n):
            a = w.near[j]
            entries *= w.states[a]
            if w.touched[a] == 0:
                w.count[7] += 1
                w.touched[a] = w.count[7]
        _connect(w, n)
        w.order[w.count[5]] = v
        w.count[5] += 1
        w.sums[0] = max(w.sums[0], entries)
        w.sums[1] += entries
    else:
        w.fixed[w.count[6]] = v
        w.count[6] += 1
    for j in range(w.count[1]):
        u = w.changed[j]
        w.other[u] = 0
        _sift(w, rule, limit, w.count[0], u)
    w.count[1] = 0


@kernel
def _start(w, rule, limit):
    """Fill and weight of all vertices, and the heap."""
    first, link, to, mark = w.first, w.link, w.to, w.mark
    n = w.weight.shape[0]
    for v in range(n):
        stamp = w.count[2] + 1
        w.count[2] = stamp
        around = 0
        e = first[v]
        while e >= 0:
            mark[to[e]] = stamp
            around += w.weight[to[e]]
            e = link[e]
        apart = 0
        e = first[v]
        while e >= 0:
            u = to[e]
            missing = around - w.weight[u]
            d = first[u]
            while d >= 0:
                if mark[to[d]] == stamp:
                    missing -= w.weight[to[d]]
                d = link[d]
            apart += w.weight[u] * missing
            e = link[e]
        w.fill[v] = apart // 2
        w.cost[v] = around + w.weight[v]
    for v in range(n):
        w.heap[v] = v
        w.place[v] = v
        _sift(w, rule, limit, v + 1, v)
    w.count[0] = n


@kernel
def _run(w, rule, limit, stops, most):
    """Eliminate until done (0), out of room (1), above the limit (2) or too costly (3)."""
    while w.count[0] > 0:
        v = w.heap[0]
        if w.cost[v] > limit and stops:
            return 2
        if w.sums[1] > most:
            return 3
        degree = 0
        e = w.first[v]
        while e >= 0:
            degree += 1
            e = w.link[e]
        if w.count[4] < degree * (degree - 1):
            return 1
        _step(w, rule, limit)
    return 0


@kernel
def _peel(ptr, neighbours, states, degree, order, sums):
    """Leaves, and what becomes a leaf without them, in `order`; returns how many."""
    n, count = degree.shape[0], 0
    for v in range(n):
        degree[v] = ptr[v + 1] - ptr[v]
        if degree[v] <= 1:
            order[count] = v
            degree[v] = -1
            count += 1
    done = 0
    while done < count:
        v = order[done]
        done += 1
        degree[v] = -2
        entries = states[v]
        for e in range(ptr[v], ptr[v + 1]):
            u = neighbours[e]
            if degree[u] != -2:
                entries *= states[u]
            if degree[u] >= 0:
                degree[u] -= 1
                if degree[u] <= 1:
                    order[count] = u
                    degree[u] = -1
                    count += 1
        sums[0] = max(sums[0], entries)
        sums[1] += entries
    return count


def _work(ptr, neighbours, states, rank, room, sums):
    """Arrays for a graph, with room for so many more edges."""
    n, n_edges = len(states), len(neighbours)
    link = np.arange(1, n_edges + room + 1)
    ends = ptr[1:][ptr[1:] > ptr[:-1]]
    link[ends - 1] = -1
    link[-1] = -1
    first = np.where(ptr[1:] > ptr[:-1], ptr[:-1], -1)
    to = np.concatenate((neighbours, np.empty(room, dtype=np.int64)))
    weight = np.maximum(np.rint(UNIT * np.log2(states)), 1).astype(np.int64)
    zeros = np.zeros((14, n), dtype=np.int64)
    count = np.zeros(8, dtype=np.int64)
    count[3], count[4] = n_edges, room
    lists = weight, states, rank, first, link, to
    return _Work(*lists, *zeros, count, sums)


def _with_room(w):
    """Return the graph with capacity for twice as many edges."""
    n = len(w.link)
    link = np.concatenate((w.link, np.arange(n + 1, 2 * n + 1)))
    link[-1] = w.count[3]
    w.count[3] = n
    w.count[4] += n
    return w._replace(link=link, to=np.concatenate((w.to, np.empty(n, dtype=np.int64))))


def elimination_order(
    graph,
    n_states,
    rule="min-fill",
    *,
    max_table=None,
    rank=None,
    leave_out=False,
    most=np.inf,
    keep=None,
):
    """An order of elimination by a greedy rule (Kjaerulff 1990, triangulation of graphs)."""
    ptr, neighbours = graph
    n = len(n_states)
    counts = n_states > 1 if keep is None else keep & (n_states > 1)
    states = np.where(counts, n_states, 0).astype(float)
    sums = np.zeros(2)
    rank = np.arange(n) if rank is None else np.asarray(rank, dtype=np.int64)
    limit = np.int64(_OVER)
    if max_table is not None:
        limit = np.int64(np.floor(UNIT * np.log2(max_table) + 1e-6))
    peeled, degree = np.empty((2, n), dtype=np.int64)
    n_peeled = _peel(ptr, neighbours, states, degree, peeled, sums)
    before, left = peeled[:n_peeled], np.ones(n, dtype=bool)
    left[before] = False
    core = np.flatnonzero(left & counts)
    place = np.full(n, -1)
    place[core] = np.arange(len(core))
    u, v = place[np.repeat(np.arange(n), np.diff(ptr))], place[neighbours]
    inside = (u >= 0) & (v >= 0)
    ends = ends_of(np.bincount(u[inside], minlength=len(core))), v[inside]
    w = _work(*ends, states[core], rank[core], 4 * n + 8, sums)
    code = np.int64(_RULES[rule])
    _start(w, code, limit)
    while (status := _run(w, code, limit, not leave_out, float(most))) == 1:
        w = _with_room(w)
    before = before[counts[before]]
    order = np.concatenate((before, core[w.order[: w.count[5]]])).astype(np.int32)
    fixed = core[w.fixed[: w.count[6]]].astype(np.int32)
    largest, total = w.sums.tolist()
    return Elimination(order, fixed, np.inf if status else largest, total)


# The best of several elimination orders.

_ENOUGH, _VARIABLES = 1e5, 20_000


def best_elimination_order(graph, n_states, *, max_table=None):
    """The cheapest order that several greedy rules and ways to break ties find."""

    def cost(found):
        return found.largest == np.inf, found.total

    ptr, n = graph[0], len(n_states)
    best = elimination_order(graph, n_states, "min-fill", max_table=max_table)
    if best.largest < np.inf and best.total < _ENOUGH * np.log2(n + 2):
        return best
    rng = np.random.default_rng(0)
    # Sweeps start where there is the least around; the corners of a grid.
    by_degree = np.argsort(np.argsort(np.diff(ptr), kind="stable"), kind="stable")
    trials = [("min-weight", None), ("sweep", by_degree)]
    for _ in range(min(8, _VARIABLES // max(n, 1))):
        ranks = rng.permutation(n)
        trials += [("min-fill", ranks), ("min-weight", ranks)]
        trials.append(("sweep", np.lexsort((ranks, by_degree)).argsort()))
    for rule, rank in trials:
        most = best.total if best.largest < np.inf else np.inf
        found = elimination_order(graph, n_states, rule, max_table=max_table, rank=rank, most=most)
        best = min(best, found, key=cost)
    return best
