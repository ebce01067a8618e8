"""Partial labels: what fit does with them, and what stands for them where one labelling must."""

from __future__ import annotations

import numpy as np

from ..core.offsets import longest_item
from ..core.parallel import make_scratch, over_samples
from ..core.weights import Weights, zero_weights
from ..data.partial import allowed_labels
from ..losses.partial import LatentHinge, MarginalLogLoss, clamps_of
from ..losses.task import UNWEIGHTED, LossWeights, cost_matrix
from ..solvers.passes import decode


class ImputedLabels:
    """Labellings that fit partial labels: the best ones at given weights."""

    def __init__(self, graph, samples, classes, fit_intercept, allowed, sample_indices, n_jobs):
        self.graph, self.classes, self.allowed = graph, classes, allowed
        self.sample_indices, self.n_jobs = sample_indices, n_jobs
        #: The structure's problem that allows only what the labels allow.
        self.clamped = graph.make_problem(samples, classes, fit_intercept, allowed=allowed)
        shapes = graph.weight_shapes(samples, len(classes), fit_intercept)
        self.zeros = zero_weights(shapes)

    @property
    def is_partial(self) -> np.ndarray:
        """Mask of the samples with a node that several labels are allowed at."""
        several = self.allowed.sum(axis=1, dtype=np.int64) > 1
        counts = np.append(0, np.cumsum(several))[self.clamped.label_ptr]
        return np.diff(counts) > 0

    def best(self, w: Weights | None = None) -> np.ndarray:
        """Return codes of the best labelling of each sample; without weights, of any one."""
        w = self.zeros if w is None else w
        codes = np.empty(self.clamped.label_ptr[-1], dtype=np.int32)

        def run(part, start, stop):
            return decode(part, w, start, stop, make_scratch(part), codes)

        problem = self.graph.decoding(self.clamped, w)
        for end in over_samples(run, problem, self.n_jobs):
            if end >= 0:
                raise ValueError(
                    f"y: sample {self.sample_indices[end]} has labels that no labelling fits which "
                    f"{type(self.graph).__name__} allows"
                )
            if end < -1:
                raise FloatingPointError(
                    f"sample {self.sample_indices[-2 - end]}: the scores overflow: are the "
                    "features scaled?"
                )
        return codes

    def _clamps(self):
        return clamps_of(self.clamped, self.zeros, self.is_partial)

    def marginal_log_loss(self) -> MarginalLogLoss:
        """Return the negative log-likelihood of the known labels."""
        return MarginalLogLoss(self._clamps(), np.zeros(longest_item(self.clamped.part_ptr)))

    def loss_weights(self, loss) -> LossWeights:
        """Return a task loss in which a node with several labels costs what the cheapest does."""
        classes = np.array([0, 1]) if self.graph.has_label_sets else self.classes
        cost, _ = cost_matrix(loss, classes)
        hidden = np.flatnonzero(self.allowed.sum(axis=1, dtype=np.int64) > 1)
        sets, of_nodes = np.unique(self.allowed[hidden], axis=0, return_inverse=True)
        choice = np.full(len(self.allowed), -1, dtype=np.int32)
        choice[hidden] = of_nodes.ravel()
        costs = np.array([cost[allowed > 0].min(axis=0) for allowed in sets])
        return UNWEIGHTED._replace(choice=choice, costs=np.ascontiguousarray(costs))

    def latent_hinge(self) -> LatentHinge:
        """Return the latent hinge: the best labelling that fits counts as the true one."""
        return LatentHinge(self._clamps())


def allowed_mask(graph, partial, codes, classes) -> np.ndarray:
    """Return masks of the labels allowed at each node."""

    def encode(labels):
        if graph.has_label_sets and not np.isin(labels, (0, 1)).all():
            raise ValueError(f"y: a set holds {labels.tolist()}: labels of a table are 0 or 1")
        return graph.encode(labels, classes, np.array([0, labels.size]))

    return allowed_labels(partial, codes, graph.n_states(classes), encode)
