"""GDMM on nodes and edges with one table: chains, trees, single nodes."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ...core.features import DenseFeatures
from ...core.jit.dispatch import inner_kernel, kernel
from ...core.offsets import ends_of, places_of
from ...core.parallel import Pieces
from ...core.weights import Weights, squared_norm, zero_weights
from ...data.matrices import row_squares
from .active_sets import (
    BGCD,
    EXACT,
    INFEASIBILITY,
    SUBLINEAR,
    GDMMGraph,
    GDMMState,
    Pad,
    append,
    drop_empty,
    fits,
    max_trees,
    one_entry_each,
    packed,
)
from .kernels import gdmm_pass, greedy_pass
from .solver import Run
from .trees import TreeScratch, tree_points

# GDMM between passes: multipliers, and a consistent dual point for certificates.


@kernel
def multiplier_step(graph, options, state):
    """``nu <- nu + eta u`` at the ports from the cursor on; measures the infeasibility."""
    nodes, ports, cursor = state.nodes, state.ports, state.cursor
    while cursor[0] < ports.size.shape[0]:
        port = cursor[0]
        j = graph.ends[port // 2, port % 2]
        if not fits(ports, port, nodes.size[j]):
            return False
        start = nodes.start[j]
        for e in range(start, start + nodes.size[j]):
            state.pad.message[0, nodes.key[e]] -= nodes.share[e]
        begin = ports.start[port]
        for p in range(begin, begin + ports.size[port]):
            k = ports.key[p]
            u = state.pad.message[0, k] + ports.share[p]
            state.pad.message[0, k] = 0.0
            ports.price[p] += options.eta * u
            state.totals[INFEASIBILITY] = max(state.totals[INFEASIBILITY], abs(u))
        for e in range(start, start + nodes.size[j]):
            k = nodes.key[e]
            u = state.pad.message[0, k]
            state.pad.message[0, k] = 0.0
            if u != 0.0:
                state.totals[INFEASIBILITY] = max(state.totals[INFEASIBILITY], abs(u))
                if options.eta != 0.0:
                    append(ports, port, k, 0.0, options.eta * u)
        drop_empty(ports, port, 0)
        cursor[0] += 1
    return True


@inner_kernel
def _cut_down(nodes, edges, f, j0, j1, pads, value, n_labels):
    """Shares of edge f, cut down until no marginal exceeds the node's, to `value`."""
    first, second, have_first, have_second = pads[0], pads[1], pads[2], pads[3]
    start, size = edges.start[f], edges.size[f]
    for e in range(start, start + size):
        a, b = edges.key[e] // n_labels, edges.key[e] % n_labels
        first[a] = second[b] = have_first[a] = have_second[b] = 0.0
    for e in range(nodes.start[j0], nodes.start[j0] + nodes.size[j0]):
        first[nodes.key[e]] = nodes.share[e]
    for e in range(nodes.start[j1], nodes.start[j1] + nodes.size[j1]):
        second[nodes.key[e]] = nodes.share[e]
    for e in range(start, start + size):
        have_first[edges.key[e] // n_labels] += edges.share[e]
    for e in range(size):
        a, b = edges.key[start + e] // n_labels, edges.key[start + e] % n_labels
        value[e] = edges.share[start + e]
        if have_first[a] > first[a]:
            value[e] *= first[a] / have_first[a]
        have_second[b] += value[e]
    for e in range(size):
        b = edges.key[start + e] % n_labels
        if have_second[b] > second[b]:
            value[e] *= second[b] / have_second[b]


@kernel
def consistent_table(nodes, edges, ends, labels, reach, pads, value, table):
    """The edge weights of a consistent dual point near the present one.

    The shares of an edge are cut down until no marginal exceeds the node's, and what is missing is
    filled up with the product of the missing marginals.
    """
    n_labels = table.shape[0]
    first, second = pads[0], pads[1]
    for f in range(ends.shape[0]):
        j0, j1 = ends[f, 0], ends[f, 1]
        _cut_down(nodes, edges, f, j0, j1, pads, value, n_labels)
        total = 1.0
        for e in range(edges.size[f]):
            key = edges.key[edges.start[f] + e]
            first[key // n_labels] -= value[e]
            second[key % n_labels] -= value[e]
            total -= value[e]
            table[key // n_labels, key % n_labels] -= reach[f] * value[e]
        table[labels[j0], labels[j1]] += reach[f]
        if not total > 1e-300:
            continue
        for e in range(nodes.start[j0], nodes.start[j0] + nodes.size[j0]):
            left = max(first[nodes.key[e]], 0.0) / total
            for d in range(nodes.start[j1], nodes.start[j1] + nodes.size[j1]):
                missing = left * max(second[nodes.key[d]], 0.0)
                table[nodes.key[e], nodes.key[d]] -= reach[f] * missing


_FEW_LABELS = 64


def _rows(features, width):
    """Feature rows without the constant feature, as NumPy or SciPy has them."""
    if isinstance(features, DenseFeatures):
        return features.values
    parts = features.data, features.indices, features.indptr
    return sparse.csr_matrix(parts, shape=(features.indptr.size - 1, width))


def _transposed_product(features, table, shape):
    """``X' T`` for the feature rows X, the constant feature included."""
    out = np.zeros(shape)
    product = _rows(features, shape[0]).T @ table
    out[: len(product)] = product
    if features.intercept >= 0:
        out[features.intercept] += table.sum(axis=0)
    return out


def gdmm_graph(factors) -> GDMMGraph:
    """The nodes and edges of all samples, with what the passes look up."""
    flat = factors.ends.ravel()
    counts = np.bincount(flat, minlength=factors.labels.size)
    share, lengths = factors.share, np.diff(factors.node_ptr)
    same = "nodes", "node_ptr", "edge_ptr", "ends", "labels", "allowed", "cost"
    sparse_width = 0
    if not isinstance(factors.nodes, DenseFeatures):
        sparse_width = int(factors.nodes.indices.max(initial=-1)) + 1
    return GDMMGraph(
        **{name: getattr(factors, name) for name in same},
        port_ptr=ends_of(counts),
        ports=np.argsort(flat, kind="stable"),
        every_port=np.arange(flat.size),
        share=np.repeat(share, lengths) if share.size == lengths.size else share,
        squares=row_squares(_rows(factors.nodes, sparse_width))
        + float(factors.nodes.intercept >= 0),
    )


def _new_state(graph, reach, forbidden, search):
    n_labels = graph.cost.shape[0]
    labels = graph.labels.astype(np.int64)
    pairs = labels[graph.ends[:, 0]] * n_labels + labels[graph.ends[:, 1]]
    size = n_labels if len(graph.ends) else 1
    table = np.zeros((size, size)) if forbidden is None else forbidden.copy()
    indexed = table if search == SUBLINEAR else np.zeros((1, 1))
    turned = np.ascontiguousarray(indexed.T)
    return GDMMState(
        nodes=one_entry_each(labels, 1.0),
        edges=one_entry_each(pairs, 1.0),
        ports=one_entry_each(labels[graph.ends].ravel(), 1.0),
        reach=reach,
        table=table,
        turned=turned,
        rows=max_trees(indexed),
        columns=max_trees(turned),
        pad=Pad(
            message=np.zeros((2, n_labels)),
            mark=np.zeros((2, n_labels), dtype=np.uint8),
            touched=np.zeros((2, n_labels + 1), dtype=np.int64),
        ),
        scores=np.zeros((2, n_labels)),
        value=np.zeros(n_labels + 64),
        before=np.zeros(n_labels + 64),
        cursor=np.zeros(2, dtype=np.int64),
        totals=np.zeros(4),
    )


class FactorRun(Run):
    """A run on nodes and edges that share one table."""

    arenas = ("nodes", "edges", "ports")

    def __init__(self, factors, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.graph = graph = gdmm_graph(factors)
        if self.options.search == SUBLINEAR and graph.cost.shape[0] <= _FEW_LABELS:
            # Looking at all pairs is then faster than asking trees.
            self.options = self.options._replace(search=EXACT)
        mask = factors.mask
        self.constrained = mask is not None and not np.isfinite(mask).all()
        self.state = _new_state(graph, self.reach, mask, self.options.search)
        #: Random numbers that a pass takes.
        self.n_draws = graph.labels.size + len(graph.ends)

    @property
    def sets(self):
        """The dual point, without what follows from it and the weights."""
        return tuple(packed(getattr(self.state, name)) for name in self.arenas)

    def go_on(self, w, sets=None):
        """Take other weights, and the dual point of another run."""
        table = self.state.table
        if len(self.graph.ends):
            table = np.where(np.isfinite(table), w.pair.reshape(table.shape), table)
        self.w = self.w._replace(node=w.node)
        self.state = _new_state(self.graph, self.reach, table, self.options.search)
        if sets is not None:
            self.state = self.state._replace(**dict(zip(self.arenas, sets, strict=True)))

    def implied_weights(self, sets):
        """The weights of the active sets of a dual point: ``sum_f C_f A_f' (mu(y_f) - q_f)``."""
        graph, (nodes, edges, _), n_labels = self.graph, sets, self.graph.cost.shape[0]

        def of_truth(lists, true, lengths, width):
            owner, place = places_of(lists.start, lists.size)
            table = np.zeros((lists.size.size, width))
            table[np.arange(true.size), true] = 1.0
            np.subtract.at(table, (owner, lists.key[place]), lists.share[place])
            return table * np.repeat(self.reach, lengths)[:, None]

        table = of_truth(nodes, graph.labels, np.diff(graph.node_ptr), n_labels)
        w = zero_weights(self.shapes)
        w.node[...] = _transposed_product(graph.nodes, table, self.shapes[0])
        if len(graph.ends):
            pairs = graph.labels[graph.ends].astype(np.int64) @ (n_labels, 1)
            lengths = np.diff(graph.edge_ptr)
            table = of_truth(edges, pairs, lengths, n_labels * n_labels)
            w.pair[...] = table.sum(axis=0).reshape(self.shapes[1])
        return w

    def one_pass(self, order, uniforms, pieces):
        """Visit all factors, then move the multipliers."""
        kind = greedy_pass if self.options.variant == BGCD else gdmm_pass
        self.visit(kind, order, uniforms, pieces)
        self.state.totals[INFEASIBILITY] = 0.0
        self.over_arena(multiplier_step)

    def enlarged(self, headroom):
        """Arenas, and scratch for the largest active set."""
        longest = int(self.state.edges.size.max(initial=0))
        size = max(self.state.value.size, 2 * longest + 64)
        scratch = {"value": np.zeros(size), "before": np.zeros(size)}
        return super().enlarged(headroom) | scratch

    def pair_weights(self):
        """The transition table."""
        if not len(self.graph.ends):
            return np.zeros(self.shapes[1])
        table = self.state.table.reshape(self.shapes[1]).copy()
        table[~np.isfinite(table)] = 0.0
        return table

    def dual_point(self):
        """A consistent dual point near the present one.

        Where pairs are forbidden, it is made of the conditional distributions of the edges, which
        have nothing on such pairs. Else it is that of the nodes, which is near the present one in
        early passes, too, and needs no weights of its own.
        """
        losses, w = self.consistent_point()
        return losses, squared_norm(w)

    def consistent_point(self):
        """Return the consistent dual point with its weights."""
        if self.constrained:
            return self._tree_point()
        table = np.zeros(self.shapes[1])
        if len(self.graph.ends):
            self._fill_consistent(table.reshape(self.state.table.shape))
        return self._node_losses(), Weights(self.w.node, table)

    def _fill_consistent(self, table):
        state, graph = self.state, self.graph
        consistent_table(
            state.nodes,
            state.edges,
            graph.ends,
            graph.labels,
            np.repeat(self.reach, np.diff(graph.edge_ptr)),
            np.zeros((4, len(table))),
            np.zeros(int(state.edges.size.max())),
            table,
        )

    def _tree_point(self):
        graph, n_labels = self.graph, len(self.state.table)
        longest = int(np.diff(graph.node_ptr).max())
        scratch = TreeScratch(
            order=np.empty(longest, dtype=np.int64),
            link=np.empty(longest, dtype=np.int64),
            survival=np.empty((longest, n_labels)),
            shares=np.empty((longest, n_labels)),
            mass=np.empty((2, n_labels)),
        )
        w, losses = zero_weights((self.shapes[0], self.state.table.shape)), np.zeros(self.n)
        for first, last in Pieces().ranges(0, self.n):
            tree_points(graph, self.state, w, losses, first, last, scratch)
        return losses, w

    def _node_losses(self):
        """Task loss of the distributions of the nodes of every sample."""
        nodes, graph = self.state.nodes, self.graph
        owner, place = places_of(nodes.start, nodes.size)
        cost = graph.cost[graph.labels[owner], nodes.key[place]] * nodes.share[place]
        sample = np.repeat(np.arange(self.n), np.diff(graph.node_ptr))[owner]
        return np.bincount(sample, graph.share[owner] * cost, minlength=self.n)

    def set_sizes(self):
        """Mean sizes of the active sets."""
        edges = self.state.edges.size
        return float(self.state.nodes.size.mean()), float(edges.mean()) if edges.size else 0.0
