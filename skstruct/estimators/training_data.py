"""Training data from X, y and weights: packed samples, codes of labels, factors on losses."""

from __future__ import annotations

import functools
import math
from collections.abc import Set
from typing import Any, NamedTuple

import numpy as np

from ..core.memory import check_memory
from ..core.offsets import longest_item
from ..core.parallel import make_scratch, over_samples
from ..core.weights import Weights, zero_weights
from ..data.labels import warn_of_mark
from ..data.names import names_of
from ..data.packing import read_sample_weight
from ..data.partial import PartialLabels, all_labels, allowed_labels, read_partial, split_partial
from ..data.ragged import RaggedArray
from ..graphs.registry import choose_graph
from ..losses.partial import LatentHinge, MarginalLogLoss, clamps_of
from ..losses.task import UNWEIGHTED, LossWeights, cost_matrix
from ..solvers.passes import decode
from .class_weight import read_node_weight, weigh


class TrainingData(NamedTuple):
    """Packed input of a solver."""

    # The samples of nonzero weight, as the structure packs them.
    samples: Any
    # Labels of all nodes, as positions in ``classes_``.
    codes: np.ndarray
    # (n_samples,): Weights, scaled to mean 1.
    sample_weight: np.ndarray
    # The regulariser of the lambda form, ``1 / (C sum_i s_i)`` of the given weights.
    lam: float
    # (n_samples,): Positions of the samples in what the user gave.
    sample_indices: np.ndarray
    # Of partial labels: ``codes`` are then any labels that fit.
    completion: ImputedLabels | None = None
    # Effect of class and node weights on the task loss.
    loss_weights: LossWeights = UNWEIGHTED


def read_training_data(
    model, X, y, sample_weight=None, node_weight=None, stream=None
) -> TrainingData:
    """Read the training data; sets ``graph_``, ``classes_`` (given for streams), feature names."""
    graph = choose_graph(model.graph, X, y) if stream is None else stream.graph
    graph = graph.suited(model._takes_relaxations, model._needs_marginals)
    model._refuse_other_kind(graph, X)
    samples, labels, partial = _read_samples_and_labels(model, graph, X, y)
    n = samples.offsets.size - 1
    sample_weight = read_sample_weight(sample_weight, n)
    class_weight = getattr(model, "class_weight", None)
    if class_weight is not None or node_weight is not None:
        node_weight = read_node_weight(graph, class_weight, node_weight, samples, partial)
    # A sample of weight 0 must leave no trace: not in the classes, not in the step sizes.
    keep = sample_weight > 0
    if not keep.all():
        of_nodes = np.repeat(keep, samples.lengths)
        labels = labels[of_nodes]
        partial = None if partial is None else partial.take(of_nodes)
        node_weight = None if node_weight is None else node_weight[of_nodes]
        samples, sample_weight = samples.take(keep), sample_weight[keep]
    try:
        labels, classes = _find_classes(graph, labels, samples, partial, stream)
    except ValueError as error:
        hint = model._when_inferred(graph) if stream is None else stream.hint
        raise ValueError(f"{type(model).__name__} {error}{hint}") from None
    if not graph.hidden_states(classes).are_labels:
        _refuse_with_states(model, graph, node_weight, stream)
        partial = partial or PartialLabels.none(labels.size)
    codes = graph.encode(labels, classes, samples.offsets)
    known = codes if partial is None else np.where(partial.hidden, -1, codes)
    graph.learn(known, samples.offsets, classes)
    _check_size(model, graph, samples, classes)
    indices, completion = np.flatnonzero(keep), None
    if partial is not None:
        allowed = allowed_mask(graph, partial, codes, classes)
        options = bool(model.fit_intercept), allowed, indices, model.n_jobs
        completion = ImputedLabels(graph, samples, classes, *options)
        codes = completion.best()
    check_labellings(graph, codes, samples, classes, indices)
    model.graph_, model.classes_ = graph, classes
    model._has_intercept = bool(model.fit_intercept)
    # scikit-learn reads columns of tables
    model._take_names((None, None) if graph.is_table else names_of(X), y)
    data = TrainingData(samples, codes, sample_weight, np.inf, indices, completion)
    if node_weight is not None:
        data = weigh(data, graph, classes, class_weight, node_weight, model._loss_weights)
    with np.errstate(over="ignore"):
        total = float(data.sample_weight.sum())
    n = data.sample_weight.size
    lam = regulariser(model, n, total)
    return data._replace(sample_weight=data.sample_weight * (n / total), lam=lam)


def _refuse_with_states(model, graph, node_weight, stream):
    """Reject what cannot be trained with hidden states."""
    if not model._takes_partial_labels:
        graph.refuse_states(f"{type(model).__name__} needs to know the state of each node")
    if node_weight is not None:
        graph.refuse_states("class_weight and node_weight need the state of each node")
    if stream is not None:
        graph.refuse_states("partial_fit needs the state of each node")


_TAKERS = "SAGCRF, BCFWSSVM, CasimirSSVM and SubgradientSSVM train on missing and on sets of labels"
_STRUCTURES = "missing labels and sets of labels are for nodes: of chains, trees, graphs and tables"


def _read_samples_and_labels(model, graph, X, y) -> tuple:
    """Read X and y; the third is what is known of partial labels, or None."""
    read = functools.partial(graph.read_training, model, X)
    is_auto = isinstance(model.graph, str) and model.graph == "auto"
    if graph.has_label_sets or (graph.is_table and is_auto):
        _refuse_sets(y)
    if model._takes_partial_labels and graph.takes_partial_labels:
        both, partial = read_partial(read, y, graph.is_table)
        return *both, partial
    try:
        return *read(y), None
    except (TypeError, ValueError) as error:
        try:
            is_partial = split_partial(y, graph.is_table)[1] is not None
        except (TypeError, ValueError):
            is_partial = False
        if not is_partial:
            raise
        advice = _TAKERS if graph.takes_partial_labels else _STRUCTURES
        raise type(error)(f"{error}; {advice}") from None


def _refuse_sets(y):
    """Reject sets that may be label sets where the structure is inferred."""
    rows = y if isinstance(y, (list, tuple)) else ()
    if hasattr(y, "__array__") and not isinstance(y, RaggedArray):
        table = np.asarray(y)
        rows = table.ravel() if table.dtype.kind == "O" else ()
    if len(rows) and all(isinstance(row, Set) for row in rows):
        raise ValueError(
            "y has a set for each sample: if all labels in a set are right, make an indicator "
            "table of it (sklearn's MultiLabelBinarizer); if one is, say graph='multiclass'"
        )


def _find_classes(graph, labels, samples, partial, stream):
    """Return labels and their classes; a stream may have given the classes."""
    known = None if stream is None else stream.classes
    found = labels
    if partial is not None and graph.has_label_sets:
        labels = found = np.where(partial.hidden, -1, labels)
    elif partial is not None:
        found = all_labels(labels, partial) if known is None else known
        labels = np.where(partial.hidden, found[:1], labels)
    if known is not None:
        return labels, known
    classes = graph.find_classes(found, samples)
    if not (graph.has_label_sets or graph.has_items):
        warn_of_mark(classes)
    return labels, classes


def check_labellings(graph, codes, samples, classes, indices) -> None:
    """Reject true labels that are no labelling; `indices` number the samples in the message."""
    wrong = np.flatnonzero(~graph.is_labelling(codes, samples, classes))
    if wrong.size:
        why = graph.why_no_labelling(codes, samples, classes, wrong[0])
        raise ValueError(f"y: sample {indices[wrong[0]]} {why}")


def _check_size(model, graph, samples, classes):
    """Reject more weights than fit into memory, before anything is allocated."""
    n_states = len(graph.states(classes))
    node, pair = graph.weight_shapes(samples, n_states, model.fit_intercept)
    n_costs = 0 if graph.has_label_sets else n_states**2
    n_labellings = getattr(model, "n_best", 0) * int(samples.lengths.max(initial=0))
    check_memory(
        # The weights and their gradient, the costs of pairs of labels, scratch of one sample.
        8 * (2 * (math.prod(node) + math.prod(pair)) + n_costs + n_labellings),
        f"training with {node[0]:,} x {node[1]:,} weights of features and {pair[0]:,} x "
        f"{pair[1]:,} of pairs",
        "merge rare labels, drop rare features (min_count) or number codes without gaps"
        + (", take fewer edges" if pair[1] else "")
        + (", lower n_best" if n_labellings else ""),
    )


def regulariser(model, n_samples, total) -> float:
    """Return lambda, ``1 / (C sum_i s_i)``, for samples whose weights have this sum."""
    if hasattr(model, "partial_fit"):
        model.n_samples_seen_ = n_samples
    try:
        # A float32 would make the regulariser one, and everything that is computed with it.
        scale = float(model.C) * total
    except OverflowError:
        size = model.C.bit_length()
        raise ValueError(
            f"C must be a number that a float can hold, got an integer of {size} bits"
        ) from None
    lam = 1.0 / scale if scale > 0 else np.inf
    # C=np.inf, no regularisation, is a choice that some estimators offer.
    if not np.isfinite([total, lam]).all() or (lam == 0 and np.isfinite(float(model.C))):
        raise ValueError(
            f"C times the sum of sample_weight must be a usable number, got C={model.C!r} and a "
            f"sum of {total!r}"
        )
    return lam


# Partial labels, and what stands for them where one labelling must.


class ImputedLabels:
    """Labellings that fit partial labels: the best ones at given weights."""

    def __init__(self, graph, samples, classes, fit_intercept, allowed, sample_indices, n_jobs):
        self.graph, self.allowed = graph, allowed
        self.classes = classes = graph.states(classes)
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
                    f"y: no labelling that {type(self.graph).__name__} allows agrees with the "
                    f"labels of sample {self.sample_indices[end]}"
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

    masks = allowed_labels(partial, codes, graph.labels_per_node(classes), encode)
    return graph.hidden_states(classes).widened(masks)
