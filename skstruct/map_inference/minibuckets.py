"""Bounds by mini-buckets, tightened by passes forward and back."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import inner_kernel, kernel
from ..core.offsets import ends_of
from ..core.parallel import Pieces
from ..inference.elimination_order import elimination_order, primal_graph
from ..inference.numerics import check_integer
from .arguments import check_duals, check_labels, check_order
from .budget import Stopped
from .factors import Potts, Table, spread, table_of
from .scoring import Incumbent

# Which factors are eliminated together, when tables may not grow beyond a limit.

_PLAN_STEPS, _STEPS = 250, 1000  # between two looks at the clock


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


class _Cluster:
    """A mini-bucket while it is filled: its variables, items (factors >= 0, messages < 0)."""

    def __init__(self, block):
        self.block, self.scope, self.items, self.cells = block, set(), [], 1

    def cells_with(self, scope, n_states):
        return self.cells * prod(n_states[v] for v in scope - self.scope)

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


def partition(n_states, scopes, order, limit, check=None):
    """The clusters of all buckets: (variables, factors, position of the parent) each."""
    work = _Partition(n_states, scopes, order, limit)
    for position in range(len(order)):
        if check is not None and position % _PLAN_STEPS == 0:
            check()
        work.buckets.append(len(work.clusters))
        work.eliminate(position)
    work.buckets.append(len(work.clusters))
    parents = work.parents
    return [(*c, parents.get(k, -1)) for k, c in enumerate(work.clusters)], work.buckets


def choose_order(graph, scopes, limit, check=None):
    """The order of elimination that splits least: as numbered, by min-fill, or along a front."""
    n = graph.n_variables
    ends = ends_of([len(scope) for scope in scopes])
    primal = primal_graph(graph.n_states, ends, np.concatenate(scopes).astype(np.int32))
    orders = [np.arange(n)]
    for rule in ("min-fill", "sweep"):
        found = elimination_order(primal, graph.n_states, rule).order
        orders.append(np.concatenate([np.setdiff1d(np.arange(n), found), found]))
    return min(orders, key=lambda o: len(partition(graph.n_states, scopes, o, limit, check)[0]))


def _runs(scope, parent, n_states):
    """Axes of the parent's table, neighbours joined where the message goes on likewise."""
    inside = [int(n_states[v]) for v in scope[:-1]]
    steps = {v: prod(inside[d + 1 :]) for d, v in enumerate(scope[:-1])}
    sizes, strides = [], []
    for v in parent:
        size, stride = int(n_states[v]), steps.get(v, 0)
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
    steps, cells, n_children = [], [], np.zeros(len(clusters), dtype=np.int64)
    run_counts, run_sizes, run_steps = [], [], []
    for scope, _, parent in clusters:
        shape = [int(n_states[v]) for v in scope]
        steps += [prod(shape[d + 1 :]) for d in range(len(shape))]
        cells.append(prod(shape))
        sizes, strides = [], []
        if parent >= 0:
            n_children[parent] += 1
            sizes, strides = _runs(scope, clusters[parent][0], n_states)
        run_counts.append(len(sizes))
        run_sizes += sizes
        run_steps += strides
    integers = [np.array(a, dtype=np.int64) for a in (dims, steps, run_sizes, run_steps)]
    return Plan(
        order=np.asarray(order, dtype=np.int64),
        bucket_ptr=np.array(buckets, dtype=np.int64),
        dim_ptr=ends_of([len(scope) for scope, _, _ in clusters]),
        dim=integers[0],
        step=integers[1],
        cell_ptr=ends_of(cells),
        n_own=np.array([n_states[scope[-1]] for scope, _, _ in clusters], dtype=np.int64),
        parent=np.array([parent for _, _, parent in clusters], dtype=np.int64),
        n_children=n_children,
        run_ptr=ends_of(run_counts),
        run_size=integers[2],
        run_step=integers[3],
    )


# Passes over mini-buckets: eliminate forward, hand back, agree on what was split.


@inner_kernel
def _add_message(m, q, table, message, weight, digits):
    """Add a message to the table of a cluster's parent."""
    begin, last = m.run_ptr[q], m.run_ptr[q + 1] - 1
    digits[: last - begin + 1] = 0
    n, step = m.run_size[last], m.run_step[last]
    at = 0
    for row in range(0, table.size, n):
        if step == 1:
            for k in range(n):
                table[row + k] += weight * message[at + k]
        else:
            for k in range(n):
                table[row + k] += weight * message[at + k * step]
        d = last - 1
        while d >= begin:
            digits[d - begin] += 1
            at += m.run_step[d]
            if digits[d - begin] < m.run_size[d]:
                break
            at -= m.run_step[d] * m.run_size[d]
            digits[d - begin] = 0
            d -= 1


@inner_kernel
def _max_message(m, q, table, message, digits):
    """Max-marginals of the parent's table on the variables of a cluster's message."""
    begin, last = m.run_ptr[q], m.run_ptr[q + 1] - 1
    digits[: last - begin + 1] = 0
    n, step = m.run_size[last], m.run_step[last]
    at = 0
    for row in range(0, table.size, n):
        if step == 1:
            for k in range(n):
                s = table[row + k]
                message[at + k] = s if s > message[at + k] else message[at + k]
        else:
            for k in range(n):
                s = table[row + k]
                if s > message[at + k * step]:
                    message[at + k * step] = s
        d = last - 1
        while d >= begin:
            digits[d - begin] += 1
            at += m.run_step[d]
            if digits[d - begin] < m.run_size[d]:
                break
            at -= m.run_step[d] * m.run_size[d]
            digits[d - begin] = 0
            d -= 1


@inner_kernel
def _agree(m, hat, first, last, marginals, low):
    """Max-marginals of one variable in its clusters; the last row gets their mean."""
    n = m.n_own[first]
    mean = marginals[(last - first) * n : (last - first + 1) * n]
    mean[:] = 0.0
    for q in range(first, last):
        own = marginals[(q - first) * n : (q - first + 1) * n]
        own[:] = low
        table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
        for row in range(0, table.size, n):
            for k in range(n):
                s = table[row + k]
                own[k] = s if s > own[k] else own[k]
        for k in range(n):
            mean[k] += own[k] / (last - first)
    for q in range(first, last):
        for k in range(n):
            at = (q - first) * n + k
            marginals[at] = mean[k] - marginals[at]


@inner_kernel
def _eliminate(m, q, hat, shift, message, low):
    """Add to a table by its own variable, then take out the maxima over it."""
    n = m.n_own[q]
    table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
    for at in range(table.size // n):
        row = at * n
        best = low
        for k in range(n):
            s = table[row + k] + shift[k]
            table[row + k] = s
            best = s if s > best else best
        for k in range(n):
            table[row + k] -= best
        message[at] = best


@kernel
def forward_pass(m, hat, w, start, stop):
    """Eliminate the variables of a range of the order; their clusters' maxima become 0."""
    for position in range(start, stop):
        first, last = m.bucket_ptr[position], m.bucket_ptr[position + 1]
        n = m.n_own[first]
        w.marginals[: (last - first + 1) * n] = 0.0
        if last - first > 1:
            _agree(m, hat, first, last, w.marginals, w.low)
        for q in range(first, last):
            message = w.message[: (m.cell_ptr[q + 1] - m.cell_ptr[q]) // n]
            shift = w.marginals[(q - first) * n : (q - first + 1) * n]
            _eliminate(m, q, hat, shift, message, w.low)
            p = m.parent[q]
            if p >= 0:
                table = hat[m.cell_ptr[p] : m.cell_ptr[p + 1]]
                _add_message(m, q, table, message, 1.0, w.digits)
                w.left[p] = m.n_children[p]
            else:
                w.sums[0] += message[0]
                w.sums[1] += abs(message[0])


@inner_kernel
def _decode(m, hat, first, last, labels, scores):
    """Best label of the clusters' variable, those of the others known."""
    n = m.n_own[first]
    scores[:n] = 0.0
    for q in range(first, last):
        at = m.cell_ptr[q]
        for d in range(m.dim_ptr[q], m.dim_ptr[q + 1] - 1):
            at += m.step[d] * labels[m.dim[d]]
        for k in range(n):
            scores[k] += hat[at + k]
    best = 0
    for k in range(1, n):
        best = k if scores[k] > scores[best] else best
    return best


@kernel
def backward_pass(m, hat, w, labels, start, stop):
    """Decode, and hand shares of the clusters' scores back, in the reverse order."""
    for back in range(start, stop):
        position = m.order.size - 1 - back
        first, last = m.bucket_ptr[position], m.bucket_ptr[position + 1]
        labels[m.order[position]] = _decode(m, hat, first, last, labels, w.marginals)
        n = m.n_own[first]
        for q in range(first, last):
            p = m.parent[q]
            if p < 0:
                continue
            message = w.message[: (m.cell_ptr[q + 1] - m.cell_ptr[q]) // n]
            message[:] = w.low
            parent = hat[m.cell_ptr[p] : m.cell_ptr[p + 1]]
            _max_message(m, q, parent, message, w.digits)
            share = 1.0 / (w.left[p] + 1.0)
            w.left[p] -= 1
            _add_message(m, q, parent, message, -share, w.digits)
            table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
            for at in range(message.size):
                for k in range(n):
                    table[at * n + k] += share * message[at]
        if last - first > 1:
            _agree(m, hat, first, last, w.marginals, w.low)
            for q in range(first, last):
                table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
                for row in range(0, table.size, n):
                    for k in range(n):
                        table[row + k] += w.marginals[(q - first) * n + k]


_ROUNDING, _MOST_CELLS = 1e-12, 1 << 24


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


def tables_of(graph, delta=None, check=None):
    """Scopes and tables of all factors, unaries included; reparametrised by messages."""
    unary, p, r = graph.unary.copy(), graph.regions, graph.n_variables
    scopes, tables = [], []
    for batch in graph.factors:
        if not isinstance(batch, Table | Potts):
            raise TypeError(
                f"mini-buckets take Table and Potts factors, factor {r - graph.n_variables} is "
                f"a {type(batch).__name__} of {batch.arity} variables"
            )
        for row, scope in enumerate(batch.scopes.tolist()):
            if check is not None and r % _STEPS == 0:
                check()
            table = table_of(batch, row, graph.n_states)
            if delta is not None:
                for d, slot in enumerate(range(p.slot_ptr[r], p.slot_ptr[r + 1])):
                    part = delta[p.message_ptr[slot] : p.message_ptr[slot + 1]]
                    table = table - part.reshape([-1 if e == d else 1 for e in range(len(scope))])
                    unary[graph.state_ptr[scope[d]] :][: part.size] += part
            scopes.append(tuple(scope))
            tables.append(table)
            r += 1
    scopes += [(v,) for v in range(graph.n_variables)]
    return scopes, tables + np.split(unary, graph.state_ptr[1:-1])


class MiniBuckets:
    """Clusters of a graph, and passes over them; `check` may raise between pieces of work."""

    def __init__(self, graph, order, limit, delta=None, check=None):
        self.graph, self._pieces = graph, Pieces(check)
        scopes, tables = tables_of(graph, delta, check)
        if order is None:
            order = choose_order(graph, scopes, limit, check)
        cells = np.inf
        while cells > _MOST_CELLS:
            clusters, buckets = partition(graph.n_states, scopes, order, limit, check)
            cells = sum(int(np.prod(graph.n_states[scope])) for scope, _, _ in clusters)
            if limit <= 4:
                break
            limit //= 2
        self.plan = plan = make_plan(graph.n_states, order, clusters, buckets)
        self.hat = np.zeros(cells)
        for q, (scope, factors, _) in enumerate(clusters):
            if check is not None and q % _STEPS == 0:
                check()
            shape = graph.n_states[scope]
            table = self.hat[plan.cell_ptr[q] : plan.cell_ptr[q + 1]].reshape(shape)
            for f in factors:
                table += spread(tables[f], scopes[f], scope)
        finite = sum(float(np.abs(t[np.isfinite(t)]).sum()) for t in tables)
        widest = int(np.diff(plan.bucket_ptr).max())
        self.work = Work(
            message=np.zeros(int(np.diff(plan.cell_ptr).max())),
            marginals=np.zeros((widest + 1) * int(graph.n_states.max())),
            left=plan.n_children.copy(),
            digits=np.zeros(int(np.diff(plan.dim_ptr).max()) + 1, dtype=np.int64),
            sums=np.array([graph.offset, 1.0 + abs(graph.offset)]),
            low=-8.0 * (1.0 + finite),
        )
        self.labels = np.zeros(graph.n_variables, dtype=np.int64)

    def forward(self):
        """Eliminate all variables: the bound."""
        for start, stop in self._pieces.ranges(0, self.graph.n_variables):
            forward_pass(self.plan, self.hat, self.work, start, stop)
        total, size = self.work.sums
        return float(total + (_ROUNDING * size if total > -np.inf else 0.0))

    def backward(self):
        """Decode, and hand scores back: the labels."""
        for start, stop in self._pieces.ranges(0, self.graph.n_variables):
            backward_pass(self.plan, self.hat, self.work, self.labels, start, stop)
        return self.labels


def solve_mini_buckets(
    graph,
    *,
    tol,
    max_iter,
    rng,
    budget,
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
    duals = check_duals(graph, duals)
    most_cells = check_integer("most_cells", most_cells, 1)
    order = None if order is None else check_order(graph, order)
    incumbent = Incumbent(graph, tol, budget)
    incumbent.begin()
    if not graph.n_variables:
        return incumbent.result("mini-buckets", "there are no variables", 0, True)
    if start is not None:
        incumbent.offer(check_labels(start, graph.n_states, "start"))

    def there_and_back(k):
        bound = buckets.forward()
        labels = buckets.backward()
        incumbent.offer(labels)
        incumbent.record(k, bound)
        return labels

    def least_gain():
        return 1e-4 * (incumbent.bound - incumbent.score)

    try:
        buckets = MiniBuckets(graph, order, most_cells, duals, check=incumbent.check)
    except Stopped:
        n_passes, message = 0, "stopped"
    else:
        n_passes, message = incumbent.run_passes(there_and_back, max_iter, patience, least_gain)
    converged = message in ("proved", "stalled")
    return incumbent.result("mini-buckets", message, n_passes, converged)
