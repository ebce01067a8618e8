"""Algorithms 2 and 3 of GDMM as the paper has them, on nodes and edges."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...core.features import add_to_column, column_dot, gather_columns
from ...core.intrinsics import cycles
from ...core.jit.dispatch import inner_kernel, kernel
from ...inference.simplex import project
from .active_sets import (
    AFW,
    ALL,
    BGCD,
    CHANGE,
    SEARCH,
    SUBLINEAR,
    append,
    drop_empty,
    fits,
    max_trees,
)
from .factors import (
    LEAST_CURVATURE,
    FactorRun,
    add_pair,
    change_pair,
    clear_side,
    edge_messages,
    make_table,
    messages,
    new_marginals,
    own_table,
    search_label,
    search_pair,
    touch,
)

# Algorithm 2: away-step Frank-Wolfe on all factors at once.
#
# The dual point is a convex combination of joint bases, one label or pair for each factor.


class JointBases(NamedTuple):
    """Bases of (14), and the direction of an iteration."""

    # (capacity, n_factors): Labels of the nodes, then pairs of the edges.
    key: np.ndarray
    # (capacity,): Coefficients, and products with the gradient.
    share: np.ndarray
    value: np.ndarray
    # (1,): Number of bases.
    size: np.ndarray
    # (n_factors,): The greedy direction v+.
    best: np.ndarray
    # Change of the weights by a unit step.
    node: np.ndarray
    table: np.ndarray


def truth_alone(graph, shape, pair_shape, capacity=16):
    """One basis: the true labellings."""
    labels, n_labels = graph.labels.astype(np.int64), graph.cost.shape[0]
    true = np.concatenate([labels, labels[graph.ends] @ np.array([n_labels, 1])])
    key = np.zeros((capacity, true.size), dtype=np.int64)
    key[0] = true
    share = np.zeros(capacity)
    share[0] = 1.0
    return JointBases(
        key=key,
        share=share,
        value=np.zeros(capacity),
        size=np.ones(1, dtype=np.int64),
        best=true.copy(),
        node=np.zeros(shape),
        table=np.zeros(pair_shape),
    )


@inner_kernel
def _node_direction(graph, options, state, w, bases, i, j, uniform):
    """Best label of a node; products of the gradient with v+, and with the dual point."""
    reach, truth = state.reach[i], graph.labels[j]
    p0, p1 = graph.port_ptr[j], graph.port_ptr[j + 1]
    n = messages(state.nodes, state.ports, state.pad, 0, j, graph.ports, p0, p1, float(p1 - p0))
    top, label, lo, hi = search_label(graph, options, state, w, i, j, uniform)
    masked, value = graph.allowed.shape[0] > 0, state.scores[1]
    for e in range(n):
        k = state.pad.touched[0, e]
        score = state.scores[0, k]
        if not lo <= k < hi:
            score = column_dot(graph.nodes, j, w.node, k) + graph.share[j] * graph.cost[truth, k]
        value[k] = score + options.rho * reach * state.pad.message[0, k]
        if value[k] > top and not (masked and graph.allowed[j, k] == 0):
            top, label = value[k], k
    level, start = 0.0, state.nodes.start[j]
    for e in range(start, start + state.nodes.size[j]):
        level += state.nodes.share[e] * value[state.nodes.key[e]]
    for v in range(bases.size[0]):
        bases.value[v] += reach * value[bases.key[v, j]]
    clear_side(state.pad, 0, n)
    bases.best[j] = label
    return reach * top, reach * level


@inner_kernel
def _edge_direction(graph, options, state, bases, i, f, uniform):
    """Best pair of an edge; products of the gradient with v+, and with the dual point."""
    reach, n_labels, edges = state.reach[i], graph.cost.shape[0], state.edges
    penalty, first, second = options.rho * reach, state.pad.message[0], state.pad.message[1]
    n_first, n_second = edge_messages(graph, state, f)
    if own_table(graph):
        make_table(graph, state, f, 0, n_labels)
    top, a, b = search_pair(options, state, n_first, n_second, penalty, uniform)
    pair, level = a * n_labels + b, 0.0
    for e in range(edges.start[f], edges.start[f] + edges.size[f]):
        a, b = edges.key[e] // n_labels, edges.key[e] % n_labels
        own = state.table[a, b] - penalty * (first[a] + second[b])
        level += edges.share[e] * own
        if own > top:
            top, pair = own, edges.key[e]
    factor = graph.labels.shape[0] + f
    for v in range(bases.size[0]):
        a, b = bases.key[v, factor] // n_labels, bases.key[v, factor] % n_labels
        bases.value[v] += reach * (state.table[a, b] - penalty * (first[a] + second[b]))
    clear_side(state.pad, 0, n_first)
    clear_side(state.pad, 1, n_second)
    bases.best[factor] = pair
    return reach * top, reach * level


@kernel
def joint_direction(graph, options, state, w, bases, uniforms):
    """The greedy direction (15): products of the gradient with bases, v+ and the dual point."""
    begin = cycles()
    n_nodes = graph.labels.shape[0]
    greedy, present = 0.0, 0.0
    bases.value[:] = 0.0
    for i in range(graph.node_ptr.shape[0] - 1):
        for j in range(graph.node_ptr[i], graph.node_ptr[i + 1]):
            top, level = _node_direction(graph, options, state, w, bases, i, j, uniforms[j])
            greedy += top
            present += level
        for f in range(graph.edge_ptr[i], graph.edge_ptr[i + 1]):
            draw = uniforms[n_nodes + f]
            top, level = _edge_direction(graph, options, state, bases, i, f, draw)
            greedy += top
            present += level
    passed = cycles() - begin
    state.totals[SEARCH] += passed
    state.totals[ALL] += passed
    return greedy, present


@inner_kernel
def _squares(sets, which, key):
    """Squared distance of a distribution from all mass on one entry."""
    total, on = 1.0, 0.0
    for e in range(sets.start[which], sets.start[which] + sets.size[which]):
        total += sets.share[e] * sets.share[e]
        on += sets.share[e] if sets.key[e] == key else 0.0
    return total - 2.0 * on


@kernel
def joint_change(graph, options, state, bases, pivot):
    """Change of the weights from the dual point to a basis; the curvature of the penalty; |d|^2."""
    begin = cycles()
    n_nodes, n_labels = graph.labels.shape[0], graph.cost.shape[0]
    nodes, edges, ports, pad = state.nodes, state.edges, state.ports, state.pad
    bases.node[:] = 0.0
    bases.table[:] = 0.0
    penalty, squares = 0.0, 0.0
    for i in range(graph.node_ptr.shape[0] - 1):
        reach = state.reach[i]
        for j in range(graph.node_ptr[i], graph.node_ptr[i + 1]):
            add_to_column(graph.nodes, j, bases.node, pivot[j], -reach)
            for e in range(nodes.start[j], nodes.start[j] + nodes.size[j]):
                add_to_column(graph.nodes, j, bases.node, nodes.key[e], reach * nodes.share[e])
            squares += _squares(nodes, j, pivot[j])
        for f in range(graph.edge_ptr[i], graph.edge_ptr[i + 1]):
            key = pivot[n_nodes + f]
            add_pair(graph, bases.table, f, key // n_labels, key % n_labels, -reach)
            for e in range(edges.start[f], edges.start[f] + edges.size[f]):
                a, b = edges.key[e] // n_labels, edges.key[e] % n_labels
                add_pair(graph, bases.table, f, a, b, reach * edges.share[e])
            squares += _squares(edges, f, key)
            for side in range(2):
                j, port, u = graph.ends[f, side], 2 * f + side, pad.message[side]
                own = key // n_labels if side == 0 else key % n_labels
                n = messages(nodes, ports, pad, side, j, graph.every_port, 0, 0, 1.0)
                for p in range(ports.start[port], ports.start[port] + ports.size[port]):
                    u[ports.key[p]] += ports.share[p]
                    n = touch(pad, side, n, ports.key[p])
                total = 0.0
                if own != pivot[j]:
                    for k in (own, pivot[j]):
                        sign = 1.0 if k == own else -1.0
                        total += (sign - u[k]) ** 2 - u[k] * u[k]
                for q in range(n):
                    total += u[pad.touched[side, q]] ** 2
                clear_side(pad, side, n)
                penalty += options.rho * reach * reach * total
    state.totals[ALL] += cycles() - begin
    return penalty, squares


@inner_kernel
def _ports_fit(ports, f, size):
    """Return whether both ports of an edge can take as many labels as it has pairs."""
    more = 8 * (ports.size[2 * f] + size + 2)
    return fits(ports, 2 * f, size) and fits(ports, 2 * f + 1, more)


@inner_kernel
def _gather_shares(bases, sets, which, factor):
    """The distribution of a factor, from the bases."""
    for e in range(sets.start[which], sets.start[which] + sets.size[which]):
        sets.share[e] = 0.0
    for v in range(bases.size[0]):
        key, place = bases.key[v, factor], -1
        for e in range(sets.start[which], sets.start[which] + sets.size[which]):
            if sets.key[e] == key:
                place = e
                break
        if place < 0:
            append(sets, which, key, bases.share[v], 0.0)
        else:
            sets.share[place] += bases.share[v]
    drop_empty(sets, which, 1)


@kernel
def shares_of_bases(graph, options, state, bases):
    """Distributions and marginals of the dual point, from factor ``cursor[0]`` on."""
    n_nodes, cursor = graph.labels.shape[0], state.cursor
    while cursor[0] < bases.best.shape[0]:
        f = cursor[0] - n_nodes
        if f < 0:
            if not fits(state.nodes, cursor[0], 1):
                return False
            _gather_shares(bases, state.nodes, cursor[0], cursor[0])
        else:
            size = state.edges.size[f] + 1
            if not (fits(state.edges, f, 1) and _ports_fit(state.ports, f, size)):
                return False
            _gather_shares(bases, state.edges, f, cursor[0])
            new_marginals(state.edges, state.ports, f, graph.cost.shape[0])
        cursor[0] += 1
    return True


def larger(bases):
    """Copy with twice the room."""
    grown = {}
    for name in ("key", "share", "value"):
        old = getattr(bases, name)
        grown[name] = np.concatenate([old, np.zeros_like(old)])
    return bases._replace(**grown)


def move_bases(bases, pivot, step):
    """Coefficients after a step: towards v+ if `pivot` is -1, else away from that basis."""
    n = int(bases.size[0])
    if pivot >= 0:
        bases.share[:n] *= 1.0 + step
        bases.share[pivot] -= step
    else:
        bases.share[:n] *= 1.0 - step
        same = np.flatnonzero((bases.key[:n] == bases.best).all(axis=1))
        if same.size:
            bases.share[same[0]] += step
        else:
            if n == bases.share.size:
                bases = larger(bases)
            bases.key[n], bases.share[n] = bases.best, step
            n += 1
    kept = np.flatnonzero(bases.share[:n] > 1e-15)  # rounding leaves a dropped basis this much
    bases.key[: kept.size] = bases.key[kept]
    bases.share[: kept.size] = bases.share[kept] / bases.share[kept].sum()
    bases.size[0] = kept.size
    return bases


# Algorithm 3: block-greedy coordinate descent.
#
# A factor is in A_i where the `price` of its first entry, the truth, is 1.


def largest_curvature(graph, rho):
    """Q_max: a bound on the Hessian of each block, at least 4 (max |phi|^2 + 1)."""
    squares, n_labels = graph.squares, graph.cost.shape[0]
    most = float((squares + rho * np.diff(graph.port_ptr)).max(initial=0.0))
    if len(graph.ends):
        sharing = np.unique(graph.column[graph.column >= 0], return_counts=True)[1]
        largest = graph.edge_squares.max(initial=0.0) * sharing.max(initial=0)
        most = max(most, (largest if graph.edge_squares.size else 1.0) + 2.0 * n_labels * rho)
    return max(most, 4.0 * (max(1.0, float(squares.max(initial=0.0))) + rho))


@inner_kernel
def _solve_block(sets, which, state, n, scale):
    """Solve (19) into ``state.chosen``: number of entries, and the progress (18) over Q_max."""
    value, chosen, offset = state.value, state.chosen, state.before
    top, before = -math.inf, 0.0
    for k in range(n):
        value[k] /= scale
    for e in range(sets.start[which], sets.start[which] + sets.size[which]):
        value[sets.key[e]] += sets.share[e]
    for k in range(n):
        top = max(top, value[k])
    for e in range(sets.start[which], sets.start[which] + sets.size[which]):
        if sets.share[e] > 0.0:
            before += sets.share[e] * (value[sets.key[e]] - top - 0.5 * sets.share[e])
    m, after = 0, 0.0
    for k in range(n):
        if value[k] > top - 1.0:  # others end at 0
            offset[m] = value[k] - top
            chosen[m] = k
            m += 1
    for e in range(m):
        value[e] = offset[e]
    project(value, m)
    for e in range(m):
        after += value[e] * (offset[e] - 0.5 * value[e])
    return m, after - before


@inner_kernel
def _solve_node(graph, options, state, w, i, j, scale):
    """Solve (19) for a node."""
    n_labels, reach = graph.cost.shape[0], state.reach[i]
    p0, p1 = graph.port_ptr[j], graph.port_ptr[j + 1]
    n = messages(state.nodes, state.ports, state.pad, 0, j, graph.ports, p0, p1, float(p1 - p0))
    scores, masked = state.scores[0], graph.allowed.shape[0] > 0
    gather_columns(graph.nodes, j, w.node, 0, n_labels, scores)
    for k in range(n_labels):
        score = scores[k] + graph.share[j] * graph.cost[graph.labels[j], k]
        message = options.rho * state.pad.message[0, k]
        barred = masked and graph.allowed[j, k] == 0
        state.value[k] = -math.inf if barred else score / reach + message
    clear_side(state.pad, 0, n)
    return _solve_block(state.nodes, j, state, n_labels, scale)


@inner_kernel
def _solve_edge(graph, options, state, i, f, scale):
    """Solve (19) for an edge."""
    n_labels, reach = graph.cost.shape[0], state.reach[i]
    n_first, n_second = edge_messages(graph, state, f)
    first, second = state.pad.message[0], state.pad.message[1]
    if own_table(graph):
        make_table(graph, state, f, 0, n_labels)
    for a in range(n_labels):
        for b in range(n_labels):
            own = state.table[a, b] / reach - options.rho * (first[a] + second[b])
            state.value[a * n_labels + b] = own
    clear_side(state.pad, 0, n_first)
    clear_side(state.pad, 1, n_second)
    return _solve_block(state.edges, f, state, n_labels * n_labels, scale)


@inner_kernel
def _take(sets, which, state, m):
    """Store the shares of a solution; `before` has those of the entries that there were."""
    start, size = sets.start[which], sets.size[which]
    for e in range(size):
        state.before[e] = sets.share[start + e]
        sets.share[start + e] = 0.0
    for c in range(m):
        if state.value[c] == 0.0:
            continue
        place = -1
        for e in range(size):
            if sets.key[start + e] == state.chosen[c]:
                place = e
                break
        if place >= 0:
            sets.share[start + place] = state.value[c]
        else:
            append(sets, which, state.chosen[c], state.value[c], 0.0)
            start = sets.start[which]
    return size


@inner_kernel
def _move_block(graph, options, state, w, i, factor, m):
    """Update a factor (3.1) and the weights (3.2) by the solution of (19); False without room."""
    n_labels, f, reach = graph.cost.shape[0], factor - graph.labels.shape[0], state.reach[i]
    which, sets = (factor, state.nodes) if f < 0 else (f, state.edges)
    if not fits(sets, which, m):
        return False
    n = sets.size[which] + m
    if f >= 0 and not _ports_fit(state.ports, f, n):
        return False
    size = _take(sets, which, state, m)
    start = sets.start[which]
    for e in range(sets.size[which]):
        key = sets.key[start + e]
        change = sets.share[start + e] - (state.before[e] if e < size else 0.0)
        if change == 0.0:
            continue
        state.totals[CHANGE] += change * change
        if f < 0:
            add_to_column(graph.nodes, factor, w.node, key, -reach * change)
        else:
            a, b = key // n_labels, key % n_labels
            change_pair(graph, options.search, state, f, a, b, -reach * change)
    drop_empty(sets, which, 1)
    if f >= 0:
        new_marginals(state.edges, state.ports, f, n_labels)
    return True


@inner_kernel(inline=True)
def _owner_of(graph, state, i, q):
    """Factor q of a sample, and the first entry of its active set."""
    n_own = graph.node_ptr[i + 1] - graph.node_ptr[i]
    if q < n_own:
        j = graph.node_ptr[i] + q
        return j, state.nodes.start[j]
    f = graph.edge_ptr[i] + q - n_own
    return graph.labels.shape[0] + f, state.edges.start[f]


@inner_kernel
def _solve(graph, options, state, w, i, factor, scale):
    """Solve (19) for a factor."""
    n_nodes = graph.labels.shape[0]
    if factor < n_nodes:
        return _solve_node(graph, options, state, w, i, factor, scale)
    return _solve_edge(graph, options, state, i, factor - n_nodes, scale)


@kernel
def greedy_pass(graph, options, state, w, order, uniforms):
    """A pass of Algorithm 3: the factor of largest progress joins A_i, all of A_i are updated."""
    begin = cycles()
    cursor, n_nodes, scale = state.cursor, graph.labels.shape[0], state.curvature
    done = True
    while done and cursor[0] < order.shape[0]:
        i = order[cursor[0]]
        n_factors = graph.node_ptr[i + 1] - graph.node_ptr[i]
        n_factors += graph.edge_ptr[i + 1] - graph.edge_ptr[i]
        if cursor[1] == 0:
            clock, found, most = cycles(), -1, 0.0
            for q in range(n_factors):
                factor, _ = _owner_of(graph, state, i, q)
                _, progress = _solve(graph, options, state, w, i, factor, scale)
                if progress > most:
                    found, most = q, progress
            if found >= 0:
                factor, first = _owner_of(graph, state, i, found)
                if factor < n_nodes:
                    state.nodes.price[first] = 1.0
                else:
                    state.edges.price[first] = 1.0
            state.totals[SEARCH] += cycles() - clock
            cursor[1] = 1
        while done and cursor[1] <= n_factors:
            factor, first = _owner_of(graph, state, i, cursor[1] - 1)
            sets = state.nodes if factor < n_nodes else state.edges
            if sets.price[first] == 1.0:
                m, _ = _solve(graph, options, state, w, i, factor, scale)
                done = _move_block(graph, options, state, w, i, factor, m)
            cursor[1] += 1 if done else 0
        if done:
            cursor[0] += 1
            cursor[1] = 0
    state.totals[ALL] += cycles() - begin
    return done


class GreedyRun(FactorRun):
    """A run of Algorithm 3."""

    kind = staticmethod(greedy_pass)

    def _curvature(self):
        return largest_curvature(self.graph, self.options.rho)


class JointRun(FactorRun):
    """A run of Algorithm 2."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        shape = self.pair_table(self.state).shape
        self.bases = truth_alone(self.graph, self.w.node.shape, shape)

    def one_pass(self, order, uniforms, pieces):
        """Iterate until a step drops no basis, then move the multipliers."""
        dropped = order.size > 0
        if not dropped:
            self._step(uniforms=np.zeros(self.n_draws), longest=0.0)
        while dropped:
            dropped = self._step(uniforms)
        self.move_multipliers()

    def _step(self, uniforms, longest=math.inf):
        """One iteration; whether it has dropped a basis."""
        graph, options, bases = self.graph, self.options, self.bases
        data = graph, options, self.state
        greedy, present = joint_direction(*data, self.w, bases, uniforms)
        shares = bases.share[: bases.size[0]]
        away = int(bases.value[: shares.size].argmin())
        toward = greedy - present >= present - bases.value[away]
        pivot = bases.best if toward else bases.key[away]
        slope = greedy - present if toward else present - bases.value[away]
        penalty, squares = joint_change(*data, bases, pivot)
        curvature = penalty + (bases.node**2).sum() + (bases.table**2).sum()
        # With one basis left there is nothing to step away from. The paper's bound c on the step is
        # that of c / (1 - c) for the direction alpha - v.
        most = 1.0 if toward else shares[away] / max(1.0 - shares[away], 1e-300)
        most = min(most, longest)
        step = min(slope / max(curvature, LEAST_CURVATURE * slope, 1e-300), most)
        step = step if slope > 0.0 and squares > 0.0 else 0.0
        sign = 1.0 if toward else -1.0
        self.bases = move_bases(bases, -1 if toward else away, step)
        self.w.node[...] += sign * step * bases.node
        if len(graph.ends):
            self.pair_table(self.state)[...] += sign * step * bases.table
            if options.search == SUBLINEAR:
                turned = np.ascontiguousarray(self.state.table.T)
                self.state = self.state._replace(
                    turned=turned, rows=max_trees(self.state.table), columns=max_trees(turned)
                )
        self.state.totals[CHANGE] += step * step * squares
        self.over_arena(shares_of_bases, self.bases)
        return not toward and 0.0 < step == most


def run_of(factors, problem, decoding, shapes, sample_weight, lam, options, n_jobs):
    """The run of a variant."""
    kind = {BGCD: GreedyRun, AFW: JointRun}.get(options.variant, FactorRun)
    return kind(factors, problem, decoding, shapes, sample_weight, lam, options, n_jobs)
