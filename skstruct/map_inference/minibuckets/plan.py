"""Which factors are eliminated together, when tables may not grow beyond a limit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.offsets import ends_of
from ...inference.elimination_order import elimination_order
from ...inference.primal_graph import primal_graph

_STEPS = 250  # between two looks at the clock


class Plan(NamedTuple):
    """Clusters, a bucket of one or more for each variable, in the order of elimination."""

    # (n_variables,): The variables, first eliminated first.
    order: np.ndarray
    # (n_variables + 1,): Where the clusters begin that the variable at a position of the order is
    # eliminated from.
    bucket_ptr: np.ndarray
    # (n_clusters + 1,): Where a cluster's variables begin.
    dim_ptr: np.ndarray
    # Axes of the clusters' tables: later eliminated variables first, its own last.
    dim: np.ndarray
    # Aligned with `dim`: strides of the tables.
    step: np.ndarray
    # (n_clusters + 1,): Where a cluster's table begins.
    cell_ptr: np.ndarray
    # (n_clusters,): States of the variable that is eliminated.
    n_own: np.ndarray
    # (n_clusters,): Cluster that gets the message; -1 for none.
    parent: np.ndarray
    # (n_clusters,): How many it gets.
    n_children: np.ndarray
    # (n_clusters + 1,): Where the runs of the message begin.
    run_ptr: np.ndarray
    # The parent's axes, as few as possible, with their strides in the message (0: not in it).
    run_size: np.ndarray
    run_step: np.ndarray


def _cells(scope, n_states):
    cells = 1
    for v in scope:
        cells *= int(n_states[v])
    return cells


class _Cluster:
    """A mini-bucket while it is filled: its variables, items (factors >= 0, messages < 0)."""

    def __init__(self, block):
        self.block, self.scope, self.items, self.cells = block, set(), [], 1

    def cells_with(self, scope, n_states):
        return self.cells * _cells(scope - self.scope, n_states)

    def add(self, scope, item, n_states):
        self.cells = self.cells_with(scope, n_states)
        self.scope |= scope
        self.items.append(item)


class _Partition:
    """Elimination in blocks: what follows from one another stays together as long as it fits.

    A block is a part of the model that is eliminated exactly; variables in several blocks are
    split. Every variable has a block that it belongs to, by default that of the variable whose
    elimination first met it: in a grid that is eliminated by rows, blocks are strips of columns.
    """

    def __init__(self, n_states, scopes, order, limit):
        self.n_states, self.limit = n_states.tolist(), limit
        self.order = order.tolist()
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        self.rank = rank.tolist()
        self.home = [-1] * len(order)
        self.alive = []  # for each block, the cells of its variables that are not eliminated
        self.waiting = [[] for _ in self.order]
        self.messages = [[] for _ in self.order]
        for f, scope in enumerate(scopes):
            first = min(self.rank[v] for v in scope)
            self.waiting[first].append((frozenset(scope), f))
        self.clusters, self.buckets, self.parents = [], [], {}

    def _new_block(self):
        self.alive.append(1)
        return len(self.alive) - 1

    def _settle(self, u, wanted):
        """Give a variable a block: the wanted one, the youngest, or a new one."""
        n = self.n_states[u]
        for block in (wanted, len(self.alive) - 1):
            if block >= 0 and self.alive[block] * n <= self.limit:
                break
        else:
            block = self._new_block()
        self.home[u] = block
        self.alive[block] *= n

    def _merge_messages(self, position):
        """One cluster for the messages of a block, more if they do not fit."""
        found = []
        for scope, item, block in sorted(self.messages[position], key=lambda m: -len(m[0])):
            for cluster in found:
                same = cluster.block == block
                if same and cluster.cells_with(scope, self.n_states) <= self.limit:
                    cluster.add(scope, item, self.n_states)
                    break
            else:
                if any(cluster.block == block for cluster in found):
                    block = self._new_block()
                found.append(_Cluster(block))
                found[-1].add(scope, item, self.n_states)
        return found

    def _choose_block(self, v, scope, found):
        """The block of a factor: its other variables', else that of the variable itself."""
        homes = [self.home[u] for u in scope if u != v and self.home[u] >= 0]
        wanted = sorted(set(homes), key=lambda b: (-homes.count(b), b != self.home[v]))
        if self.home[v] >= 0 and self.home[v] not in wanted:
            wanted.append(self.home[v])
        for block in wanted:
            for cluster in found:
                if cluster.block == block:
                    if cluster.cells_with(scope, self.n_states) <= self.limit:
                        return cluster
                    break
            else:
                found.append(_Cluster(block))
                return found[-1]
        for cluster in found:
            if cluster.cells_with(scope, self.n_states) <= self.limit:
                return cluster
        found.append(_Cluster(self._new_block()))
        return found[-1]

    def eliminate(self, position):
        """Make the clusters of one variable."""
        v, rank = self.order[position], self.rank
        found = self._merge_messages(position)
        if self.home[v] < 0:
            self._settle(v, found[0].block if found else -1)
        factors = self.waiting[position]
        factors.sort(key=lambda f: (-len(f[0]), min((rank[u] for u in f[0] if u != v), default=0)))
        for scope, f in factors:
            for u in sorted(scope, key=rank.__getitem__):
                if self.home[u] < 0:
                    self._settle(u, self.home[v])
            self._choose_block(v, scope, found).add(scope, f, self.n_states)
        if not found:
            found = [_Cluster(self.home[v])]
            found[0].scope.add(v)
        for cluster in found:
            self._close(cluster)
        self.waiting[position] = self.messages[position] = None
        self.alive[self.home[v]] //= self.n_states[v]

    def _close(self, cluster):
        number = len(self.clusters)
        for item in cluster.items:
            if item < 0:
                self.parents[-item - 1] = number
        scope = sorted(cluster.scope, key=lambda u: -self.rank[u])
        self.clusters.append((scope, [item for item in cluster.items if item >= 0]))
        if len(scope) > 1:
            message = frozenset(scope[:-1]), -number - 1, cluster.block
            self.messages[self.rank[scope[-2]]].append(message)


def partition(n_states, scopes, order, limit, look=None):
    """The clusters of all buckets: (variables, factors, position of the parent) each."""
    work = _Partition(n_states, scopes, order, limit)
    for position in range(len(order)):
        if look is not None and position % _STEPS == 0:
            look()
        work.buckets.append(len(work.clusters))
        work.eliminate(position)
    work.buckets.append(len(work.clusters))
    parents = work.parents
    return [(*c, parents.get(k, -1)) for k, c in enumerate(work.clusters)], work.buckets


def choose_order(graph, scopes, limit, look=None):
    """The order of elimination that splits least: as numbered, by min-fill, or along a front."""
    n = graph.n_variables
    ends = ends_of(np.array([len(scope) for scope in scopes], dtype=np.int64))
    flat = np.array([v for scope in scopes for v in scope], dtype=np.int32)
    primal = primal_graph(graph.n_states, ends, flat)
    best, fewest = np.arange(n), np.inf
    for rule in ("given", "min-fill", "sweep"):
        order = best
        if rule != "given":
            found = elimination_order(primal, graph.n_states, rule).order
            rest = np.setdiff1d(np.arange(n), found)
            order = np.concatenate([rest, found]).astype(np.int64)
        n_clusters = len(partition(graph.n_states, scopes, order, limit, look)[0])
        if n_clusters < fewest:
            best, fewest = order, n_clusters
    return best


def _runs(scope, parent, n_states):
    """Axes of the parent's table, neighbours joined where the message goes on likewise."""
    inside = set(scope[:-1])
    steps, step = {}, 1
    for v in reversed(scope[:-1]):
        steps[v] = step
        step *= int(n_states[v])
    sizes, strides = [], []
    for v in parent:
        size, stride = int(n_states[v]), steps[v] if v in inside else 0
        if size == 1:
            continue
        if sizes and strides[-1] == stride * size:
            sizes[-1] *= size
            strides[-1] = stride
        else:
            sizes.append(size)
            strides.append(stride)
    return (sizes, strides) if sizes else ([1], [0])


def make_plan(n_states, order, clusters, buckets):
    """The clusters in flat arrays."""
    dims = [v for scope, _, _ in clusters for v in scope]
    dim_ptr = ends_of(np.array([len(scope) for scope, _, _ in clusters], dtype=np.int64))
    steps, cells, n_children = [], [], np.zeros(len(clusters), dtype=np.int64)
    run_counts, run_sizes, run_steps = [], [], []
    for scope, _, parent in clusters:
        step, own = 1, []
        for v in reversed(scope):
            own.append(step)
            step *= int(n_states[v])
        steps.extend(reversed(own))
        cells.append(step)
        sizes, strides = [], []
        if parent >= 0:
            n_children[parent] += 1
            sizes, strides = _runs(scope, clusters[parent][0], n_states)
        run_counts.append(len(sizes))
        run_sizes.extend(sizes)
        run_steps.extend(strides)
    integers = [np.array(a, dtype=np.int64) for a in (dims, steps, run_sizes, run_steps)]
    return Plan(
        order=np.asarray(order, dtype=np.int64),
        bucket_ptr=np.array(buckets, dtype=np.int64),
        dim_ptr=dim_ptr,
        dim=integers[0],
        step=integers[1],
        cell_ptr=ends_of(np.array(cells, dtype=np.int64)),
        n_own=np.array([n_states[scope[-1]] for scope, _, _ in clusters], dtype=np.int64),
        parent=np.array([parent for _, _, parent in clusters], dtype=np.int64),
        n_children=n_children,
        run_ptr=ends_of(np.array(run_counts, dtype=np.int64)),
        run_size=integers[2],
        run_step=integers[3],
    )
