"""Partial labels: what fit does with them, and what stands for them where one labelling must."""

from __future__ import annotations

import warnings
from collections.abc import Set

import numpy as np

from ..core.offsets import longest_item
from ..core.parallel import make_scratch, over_samples
from ..core.weights import Weights, zero_weights
from ..data.partial import KNOWN, all_labels, allowed_labels, split_partial
from ..losses.partial import LatentHinge, MarginalLogLoss, clamps_of
from ..losses.task import UNWEIGHTED, LossWeights, cost_matrix
from ..solvers.passes import decode

_TAKERS = "SAGCRF, BCFWSSVM, CasimirSSVM and SubgradientSSVM train on missing and on sets of labels"
# scikit-learn's mark of samples without a label, and that of PyTorch's losses.
_MARKERS = (-1, -100)
_STRUCTURES = "missing labels and sets of labels are for nodes: of chains, trees, graphs and tables"


def read_training(estimator, graph, X, y) -> tuple:
    """Read samples and labels; the third is what is known of partial labels, or None."""
    if estimator._takes_partial_labels and graph.takes_partial_labels:
        if graph.is_table and isinstance(estimator.graph, str) and estimator.graph == "auto":
            _refuse_sets(y)
        y, partial = split_partial(y, graph.is_table)
        return (*graph.read_training(estimator, X, y), partial)
    try:
        return (*graph.read_training(estimator, X, y), None)
    except (TypeError, ValueError) as error:
        if not _is_partial(y, graph):
            raise
        advice = _TAKERS if graph.takes_partial_labels else _STRUCTURES
        raise type(error)(f"{error}; {advice}") from None


def _refuse_sets(y):
    """Refuse sets that may be label sets where the structure is to be inferred."""
    if isinstance(y, (list, tuple)) and len(y) and all(isinstance(row, Set) for row in y):
        raise ValueError(
            "y is a list of sets: if all labels in a set are right, make an indicator table of it "
            "(sklearn's MultiLabelBinarizer); if one is, say graph='multiclass'"
        )


def _is_partial(y, graph):
    try:
        return split_partial(y, graph.is_table)[1] is not None
    except (TypeError, ValueError):
        return False


def find_classes(graph, labels, samples, partial, stream=None):
    """Return labels and their classes; a stream may know the classes."""
    if stream is not None and stream.classes is not None:
        if partial is not None and not graph.has_label_sets:
            labels = np.where(partial.hidden, stream.classes[:1], labels)
        return labels, stream.classes
    if partial is None:
        classes = graph.find_classes(labels, samples)
        _warn_of_marker(classes)
        return labels, classes
    found = all_labels(labels, partial)
    if graph.has_label_sets:
        return labels, graph.find_classes(np.where(partial.hidden, -1, labels), samples)
    labels = np.where(partial.hidden, found[:1], labels)
    return labels, graph.find_classes(found, samples)


def _warn_of_marker(classes):
    """Warn of -1 or -100 beside classes 0, 1, 2, ...: other packages mark missing labels so."""
    if getattr(getattr(classes, "dtype", None), "kind", "") != "i" or len(classes) < 4:
        return
    first, rest = int(classes[0]), classes[1:]
    if first in _MARKERS and (rest == np.arange(rest.size)).all():
        warnings.warn(
            f"y: {first} is a class like any other, with 0 to {rest.size - 1}: if it marks missing "
            "labels, put None in its place",
            UserWarning,
            stacklevel=6,
        )


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


def without(partial, keep) -> object:
    """Return partial labels of the nodes that are kept."""
    if partial is None:
        return None
    which = partial.which[keep]
    return None if (which == KNOWN).all() else partial._replace(which=which)
