"""GDMM in rounds over shards: only ``lam/2 |w|^2`` couples them, with the regulariser of all."""

from __future__ import annotations

import numpy as np

from ..core.parallel import Pieces
from ..core.weights import Weights, zero_weights
from ..data.store import read_tree
from ..solvers.gdmm.active_sets import CHANGE, INFEASIBILITY, GDMMOptions
from ..solvers.gdmm.greedy import run_of
from ..solvers.gdmm.solver import Certifying
from .blocks import Blocks, Local
from .checkpoint import write_dual


class LocalGDMM(Local):
    """Passes of GDMM over the samples of a shard."""

    def __init__(self, options: GDMMOptions, decoding):
        self.options, self._decoding = options, decoding

    def _run(self, shard, lam):
        problem, factors = shard.problem
        weight = shard.sample_weight
        arguments = problem, self._decoding, shard.shapes, weight, lam / weight.size
        return run_of(factors, *arguments, self.options, 1)

    def decoding(self, task, w):
        """The problem in the form in which these weights are decoded fastest."""
        return self._decoding(task[0], w)

    def visit(self, shard, w, turn, part):
        """Some passes; no losses, samples visited, infeasibility, changes, sizes of active sets."""
        method = self._run(shard, turn.lam * turn.n_samples)
        sets = None if turn.before is None else read_tree(turn.before, method.sets)
        method.resume(w, sets)
        rng = np.random.default_rng([turn.seed, turn.k, turn.number])
        totals = method.state.totals
        for _ in range(turn.n_passes):
            totals[:] = 0.0
            order, uniforms = rng.permutation(method.n), rng.random(method.n_draws)
            method.one_pass(order, uniforms, Pieces())
            totals = method.state.totals
        write_dual(turn.after, method.sets)
        w.pair[...] = method.pair_weights()
        nodes, edges = method.state.nodes.size, method.state.edges.size
        sizes = nodes.sum(), nodes.size, edges.sum(), edges.size
        counts = method.n * turn.n_passes, totals[INFEASIBILITY], totals[CHANGE]
        return 0.0, *map(float, (*counts, *sizes))

    def point(self, shard, turn):
        """A consistent dual point near the present one."""
        method = self._run(shard, turn.lam * turn.n_samples)
        own = read_tree(turn.before, method.sets)
        method.resume(zero_weights(shard.shapes), own)
        losses, w = method.consistent_point()
        total = float(np.einsum("i,i->", losses, shard.sample_weight))
        # Without constraints the node weights are those that it has already.
        node = w.node if method.constrained else w.node[:0]
        return total, Weights(node, w.pair.reshape(shard.shapes[1]))


class GDMMBlocks(Certifying, Blocks):
    """Rounds of GDMM (Yen et al. 2016): the bound is that of a consistent dual point."""

    fields = (*Blocks.fields, *Certifying.measured_fields)
    # `gap_every` counts passes, of which a round has several.
    _is_time = Blocks._is_time
    numbers = (*Blocks.numbers, "dual", "infeasibility", "change", "node_set", "edge_set")
    arrays = (*Blocks.arrays, "measured")

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.node_set = self.edge_set = 1.0
        self.measured = np.zeros((self.source.n_shards, 8))

    def note(self, members, measured):
        """Count the work, and measure the disagreement of nodes and edges."""
        self.n_oracle += float(measured[:, 1].sum())
        self.measured[members] = measured
        _, _, _, change, labels, n_nodes, pairs, n_edges = self.measured.sum(axis=0)
        self.infeasibility = float(self.measured[:, 2].max())
        self.change = float(np.sqrt(change / (n_nodes + n_edges)))
        self.node_set, self.edge_set = float(labels / n_nodes), float(pairs / max(n_edges, 1.0))

    def certify(self):
        """Objective of the weights by one oracle call per sample, and the best dual bound."""
        before = self.n_oracle  # certificates are not counted, as in memory
        objective, magnitude, points = self.value(self.w, has_point=True)
        self.n_oracle = before
        loss, w = points[0]
        for more, point in points[1:]:
            loss += more
            w = Weights(w.node + point.node, w.pair + point.pair)
        w = w if w.node.size else Weights(self.w.node, w.pair)
        bound, _ = self.dual_of(loss / self.n, w)
        self.certificate = self.certified(objective, bound, magnitude)

    def set_sizes(self):
        """Mean sizes of the active sets, when each shard was visited last."""
        return self.node_set, self.edge_set
