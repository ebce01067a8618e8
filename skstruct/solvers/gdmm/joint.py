"""Algorithm 2 of GDMM: away-step Frank-Wolfe over joint bases, an entry of each node and edge."""

from __future__ import annotations

import numpy as np

from ...core.features import add_to_column
from ...core.intrinsics import cycles
from ...core.jit.kernels import kernel
from ...core.weights import Weights, squared_norm
from .active_sets import AFW, ALL, SEARCH
from .factors import (
    LEAST_CURVATURE,
    FactorRun,
    add_pair,
    begin_edge,
    begin_messages,
    clear_side,
    commit,
    edge_gradients,
    end_edge,
    factor_of,
    lists_of,
    load_edge,
    n_factors_of,
    node_gradients,
    place_of,
    touch,
)


@kernel
def joint_direction(graph, options, state, w, bases, uniforms, best, products):
    """The greedy direction (15); products of the gradient with the dual point, it, and bases."""
    begin, searched = cycles(), state.totals[SEARCH]
    block, n_nodes = state.block, graph.labels.shape[0]
    for i in range(graph.node_ptr.shape[0] - 1):
        squared_reach = state.reach[i] * state.reach[i]
        for q in range(n_factors_of(graph, i)):
            factor = factor_of(graph, i, q)
            if factor < n_nodes:
                n = node_gradients(graph, options, state, w, i, factor, uniforms[factor])
                top = n - 1
            else:
                f, draw = factor - n_nodes, uniforms[factor]
                n, top, n_first, n_second = begin_edge(graph, options, state, i, f, draw)
                edge_gradients(graph, options, state, i, f, n)
                end_edge(graph, state, n, n_first, n_second)
            level = 0.0
            for e in range(n):
                level += block.before[e] * block.value[e]
                top = e if block.value[e] > block.value[top] else top
            best[factor] = block.key[top]
            products[0] += squared_reach * level
            products[1] += squared_reach * block.value[top]
            for v in range(bases.shape[0]):
                place = place_of(block.key, 0, n, bases[v, factor])
                products[2 + v] += squared_reach * block.value[place]
    passed = cycles() - begin
    state.totals[SEARCH] = searched + passed
    state.totals[ALL] += passed


@kernel
def add_basis(graph, options, state, key, node, pair):
    """Add the weights of a basis; the curvature of the penalty from the dual point towards it."""
    n_nodes, n_labels, total = graph.labels.shape[0], graph.cost.shape[0], 0.0
    nodes, ports, pad = state.nodes, state.ports, state.pad
    for i in range(graph.node_ptr.shape[0] - 1):
        reach = state.reach[i]
        for j in range(graph.node_ptr[i], graph.node_ptr[i + 1]):
            if key[j] != graph.labels[j]:
                add_to_column(graph.nodes, j, node, graph.labels[j], reach)
                add_to_column(graph.nodes, j, node, key[j], -reach)
        for f in range(graph.edge_ptr[i], graph.edge_ptr[i + 1]):
            own = key[n_nodes + f] // n_labels, key[n_nodes + f] % n_labels
            true = graph.labels[graph.ends[f, 0]], graph.labels[graph.ends[f, 1]]
            add_pair(graph, pair, f, true[0], true[1], reach)
            add_pair(graph, pair, f, own[0], own[1], -reach)
            for side in range(2):
                j, port, u = graph.ends[f, side], 2 * f + side, pad.message[side]
                n = begin_messages(nodes, pad, side, j, 1.0)
                for p in range(ports.start[port], ports.start[port] + ports.size[port]):
                    n = touch(pad, side, n, ports.key[p])
                    u[ports.key[p]] += ports.share[p]
                n = touch(pad, side, touch(pad, side, n, own[side]), key[j])
                u[own[side]] -= 1.0
                u[key[j]] += 1.0
                for q in range(n):
                    total += options.rho * reach * reach * u[pad.touched[side, q]] ** 2
                clear_side(pad, side, n)
    return total


@kernel
def joint_step(graph, options, state, w, bases, shares):
    """Move all factors, from the cursor on, to a mixture of bases; False when an arena is full."""
    begin = cycles()
    n_labels, cursor, block = graph.cost.shape[0], state.cursor, state.block
    done = True
    while done and cursor[0] < graph.node_ptr.shape[0] - 1:
        i = cursor[0]
        while done and cursor[1] < n_factors_of(graph, i):
            factor = factor_of(graph, i, cursor[1])
            sets, which = lists_of(graph, state, factor)
            done = sets.size[which] + 1 < block.key.shape[0]
            if done:
                n = load_edge(sets, which, block, n_labels)
                for e in range(n):
                    block.value[e] = 0.0
                for v in range(shares.shape[0]):
                    k = bases[v, factor]
                    place = place_of(block.key, 0, n, k)
                    if place == n:
                        block.key[n] = k
                        block.first[n], block.second[n] = k // n_labels, k % n_labels
                        block.before[n] = block.value[n] = 0.0
                        n += 1
                    block.value[place] += shares[v]
                done = commit(graph, options, state, w, i, factor, n)
            cursor[1] += 1 if done else 0
        if done:
            cursor[0] += 1
            cursor[1] = 0
    state.totals[ALL] += cycles() - begin
    return done


class JointRun(FactorRun):
    """A run of Algorithm 2."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        labels, n_labels = self.graph.labels.astype(np.int64), self.graph.cost.shape[0]
        pairs = labels[self.graph.ends] @ np.array([n_labels, 1])
        #: Bases of (14), and their coefficients.
        self.bases, self.shares = np.concatenate([labels, pairs])[None], np.ones(1)

    def one_pass(self, order, uniforms, pieces):
        """Iterate until a step drops no basis, then move the multipliers."""
        dropped = True
        while dropped:
            dropped = self._iterate(uniforms)
        self.move_multipliers()

    def _curvature(self, pivot):
        """The second derivative of (12) from the dual point towards a basis."""
        state, w = self.state, self.weights()
        node, pair = np.zeros_like(w.node), np.zeros(self.pair_table(state).shape)
        penalty = add_basis(self.graph, self.options, state, pivot, node, pair)
        own = pair.reshape(w.pair.shape) if len(self.graph.ends) else w.pair
        return penalty + squared_norm(Weights(node - w.node, own - w.pair))

    def _iterate(self, uniforms):
        """One iteration; whether it has dropped a basis."""
        data, shares = (self.graph, self.options, self.state, self.w, self.bases), self.shares
        best, products = np.empty_like(self.bases[0]), np.zeros(2 + shares.size)
        joint_direction(*data, uniforms, best, products)
        present, greedy, values = products[0], products[1], products[2:]
        away = int(values.argmin())
        toward = greedy - present >= present - values[away]
        pivot = best if toward else self.bases[away]
        slope = greedy - present if toward else present - values[away]
        curvature = self._curvature(pivot)
        # With one basis left there is nothing to step away from. The paper's bound c on the step is
        # that of c / (1 - c) for the direction alpha - v.
        most = 1.0 if toward else shares[away] / max(1.0 - shares[away], 1e-300)
        step = min(slope / max(curvature, LEAST_CURVATURE * slope, 1e-300), most)
        step = step if slope > 0.0 else 0.0
        self._mix(pivot, step if toward else -step)
        self.over_arena(joint_step, self.w, self.bases, self.shares)
        return not toward and 0.0 < step == most

    def _mix(self, pivot, step):
        """Move the coefficients towards a basis, or away from it."""
        same = (self.bases == pivot).all(axis=1)
        if not same.any():
            self.bases, same = np.vstack([self.bases, pivot]), np.append(same, True)
        shares = np.append(self.shares, np.zeros(same.size - self.shares.size)) * (1.0 - step)
        shares[same.argmax()] += step
        kept = shares > 1e-15  # rounding leaves a dropped basis this much
        self.bases, self.shares = self.bases[kept], shares[kept] / shares[kept].sum()


def run_of(factors, problem, decoding, shapes, sample_weight, lam, options, n_jobs):
    """The run of a variant."""
    kind = JointRun if options.variant == AFW else FactorRun
    return kind(factors, problem, decoding, shapes, sample_weight, lam, options, n_jobs)
