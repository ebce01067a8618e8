"""GDMM on label sets."""

from __future__ import annotations

import numpy as np

from ....core.weights import Weights, squared_norm
from ..active_sets import empty_sets
from ..solver import Run
from .kernels import consistent_pairs, label_losses, label_pass
from .state import LabelGraph, LabelState

_PASSES_AT_REST = 5


def label_graph(factors) -> LabelGraph:
    """The samples of label sets, with what the passes look up."""
    edge_of = np.full((factors.n_labels, factors.n_labels), -1, dtype=np.int32)
    first, second = factors.ends.T
    edge_of[first, second] = edge_of[second, first] = np.arange(len(factors.ends))
    return LabelGraph(**factors._asdict(), edge_of=edge_of)


class LabelRun(Run):
    """A run on label sets."""

    arenas = ("awake",)

    def __init__(self, factors, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.graph = graph = label_graph(factors)
        self._n_passes = 0
        n_samples, n_labels = graph.labels.shape
        self.state = LabelState(
            on=graph.labels.astype(np.float64),
            awake=empty_sets(n_samples, 4),
            reach=self.reach,
            pair=np.zeros((len(graph.ends), 4)),
            base=np.zeros(n_labels),
            lift=np.zeros(n_labels),
            scores=np.zeros(n_labels),
            message=np.zeros(n_labels),
            degree=np.zeros(n_labels),
            spot=np.zeros((n_labels, n_labels), dtype=np.int32),
            near=np.zeros(n_labels, dtype=np.int64),
            support=np.zeros(n_labels, dtype=np.int64),
            states=np.zeros(n_labels, dtype=np.int8),
            four=np.zeros((2, 4)),
            cursor=np.zeros(2, dtype=np.int64),
            totals=np.zeros(4),
        )
        #: Random numbers that a pass takes.
        self.n_draws = n_samples

    def one_pass(self, order, uniforms, pieces):
        """Visit all samples."""
        if order.size:
            self._n_passes += 1
        self.options = self.options._replace(wake=int(self._n_passes > _PASSES_AT_REST))
        self.visit(label_pass, order, uniforms, pieces)

    def pair_weights(self):
        """The interactions."""
        return self._as_weights(self.state.pair)

    def _as_weights(self, pair):
        columns = pair if self.graph.full == 1 else pair[:, 3]
        return columns.reshape(self.shapes[1]).copy()

    def dual_point(self):
        """A consistent dual point: edges cut down, or filled up, to what their ends have."""
        pair = self.state.pair.copy()
        consistent_pairs(self.graph, self.state, pair)
        losses = np.empty(self.n)
        label_losses(self.graph, self.state, losses)
        return losses, squared_norm(Weights(self.w.node, self._as_weights(pair)))

    def set_sizes(self):
        """Mean sizes of what is active in a sample."""
        moved = float((self.state.on != self.graph.labels).sum(axis=1).mean())
        return moved, float(self.state.awake.size.mean())
