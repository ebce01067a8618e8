"""Problems of one's own: four operations are to be written, the rest follows from them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.features import add_outer, scores
from ..core.gram import gram_product, not_stored
from ..core.jit.dispatch import inner_kernel, kernel
from ..core.offsets import ends_of, longest_item
from ..core.oracles import (
    accumulate,
    add_indicator,
    augment,
    count_states,
    exp_oracle,
    gram,
    max_marginals,
    potentials,
    sample_oracle,
    score,
    task_loss,
    top_k_oracle,
)
from ..core.proximal import catch_up, catch_up_rows
from ..core.typing import LossLike, SamplesLike
from ..core.weights import Weights, zero_weights
from ..data.packing import check_n_features, packed, read_sequences
from ..inference.numerics import draw
from ..losses.task import LossWeights, add_label_costs, label_cost
from .base import Graph
from .layout import example_sequences, feature_rows, label_fields, row_scratch
from .n_best import NBestScratch, max_marginals_by_maxima, n_best_scratch, top_k_by_max_marginals


class ProblemScratch(NamedTuple):
    """Scratch of :class:`Problem`."""

    # A row of a weight table, for products with feature rows.
    row: np.ndarray
    # (max_parts,): An indicator.
    parts: np.ndarray
    # Zeros in training: a sample's gradient.
    weights: Weights
    # How products with Gram matrices are found: by the table of weights.
    gram: tuple
    # For max-marginals, and the n best labellings by them.
    n_best: NBestScratch
    # Data of the structure's own oracles: a NamedTuple of arrays, or ``()``.
    own: tuple


class Problem(NamedTuple):
    """Nodes with labels, and parts of any kind: what a structure of one's own is packed into.

    A subclass registers four operations: :func:`~skstruct.core.oracles.potentials` with
    :func:`~skstruct.core.oracles.accumulate`, its adjoint;
    :func:`~skstruct.core.oracles.add_indicator`, the parts of a labelling; and
    :func:`~skstruct.core.oracles.max_oracle`, :func:`~skstruct.core.oracles.exp_oracle` or both.
    All else follows: scores from the indicator, products with the Gram matrix from the first two,
    task losses from the costs of labels, max-marginals by maxima where a label is forced, and the n
    best labellings by max-marginals. Where one of these takes too long, a kernel of one's own takes
    its place.

    The node block comes first: with K labels, the potential of label k at node t is ``theta[t * K +
    k]``. The structure defines the layout of the rest.

    Parameters
    ----------
    nodes : DenseFeatures or SparseFeatures
        Features of the samples, for :func:`skstruct.core.scores` and
        :func:`skstruct.core.add_outer`.
    part_ptr, label_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts and the nodes of each sample begin.
    labels : ndarray of shape (n_nodes,) of int32
        True labels; empty when unknown.
    allowed : ndarray of shape (n_nodes or 0, n_labels) of uint8
        Labels allowed for each node; no rows when all are. ``potentials`` makes others -inf.
    cost : ndarray of shape (n_labels, n_labels)
        Task loss of predicting column k where the label is row j.
    normalize : int
        Whether costs are divided by the number of nodes.
    loss_weights : LossWeights
        Costs of labels for sets of labels, and weights of nodes.
    own : tuple
        Data of the structure, a NamedTuple of arrays and numbers, or ``()``.
    work : ProblemScratch
        Scratch of one thread: ``work.row`` for weight tables, ``work.own`` for one's own oracles.

    See Also
    --------
    skstruct.graphs.PairwiseProblem : Parts that are pairs of labels, and their features.
    skstruct.testing.check_structure : Checks the operations.

    Examples
    --------
    :doc:`/own_structure` has a structure in full.

    >>> from skstruct.core import oracles
    >>> from skstruct.graphs import Problem
    >>> verbs = oracles.truth, oracles.score, oracles.gram, oracles.augment, oracles.top_k_oracle
    >>> [verb.supports(Problem) for verb in verbs]
    [True, True, True, True, True]
    """

    nodes: tuple
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray
    allowed: np.ndarray
    cost: np.ndarray
    normalize: int
    loss_weights: LossWeights
    own: tuple
    work: ProblemScratch

    @classmethod
    def make(
        cls,
        graph: Any,
        samples: Any,
        classes: Any,
        fit_intercept: bool,
        n_parts: np.ndarray,
        *,
        own: tuple = (),
        scratch: tuple = (),
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """The problem of packed samples, for ``make_problem`` of a structure.

        Parameters
        ----------
        graph : Graph
            The structure, for its ``weight_shapes``.
        samples, classes, fit_intercept : object
            What :meth:`skstruct.graphs.Graph.make_problem` was given.
        n_parts : ndarray of shape (n_samples,) of int
            Number of parts of each sample.
        own, scratch : tuple
            NamedTuples of the structure: the data and the scratch of its oracles.
        codes, loss, allowed, n_best : object
            What ``make_problem`` was given, too.

        Returns
        -------
        Problem
            An instance of this class.

        See Also
        --------
        skstruct.graphs.Graph.make_problem : Calls it.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> from skstruct.graphs import Problem
        >>> from skstruct.graphs.chain import Sequences
        >>> samples = Sequences(np.eye(3), np.array([0, 2, 3]))
        >>> classes = np.array(["a", "b"])
        >>> Problem.make(Chain(), samples, classes, True, 2 * samples.lengths).part_ptr
        array([0, 4, 6])
        """
        shapes = graph.weight_shapes(samples, len(classes), fit_intercept)
        part_ptr, label_ptr = ends_of(n_parts), samples.offsets
        n_best = max(n_best, 2)  # max-marginals are found in the same scratch
        intercept = shapes[0][0] - 1 if fit_intercept else -1
        return cls(
            nodes=feature_rows(samples.features, intercept, codes is not None),
            part_ptr=part_ptr,
            label_ptr=label_ptr,
            **label_fields(classes, codes, loss, allowed),
            own=own,
            work=ProblemScratch(
                row=row_scratch(shapes),
                parts=np.zeros(longest_item(part_ptr)),
                weights=zero_weights(((0, 0), (0, 0)) if codes is None else shapes),
                gram=not_stored(),
                n_best=n_best_scratch(part_ptr, label_ptr, len(classes), n_best),
                own=scratch,
            ),
        )


class NodeProblem(Problem):
    """Labelled nodes with a row of features each, and no other parts.

    The feature map is given, so a subclass registers oracles alone; weights are a table of features
    x labels, so ``weight_shapes`` are ``((n_rows, n_classes), (0, 0))``.

    Parameters
    ----------
    *fields : object
        Those of :class:`~skstruct.graphs.Problem`.

    See Also
    --------
    skstruct.graphs.Problem : Other parts, by a feature map of one's own.
    skstruct.graphs.PairwiseProblem : Pairs of labels are parts, too.

    Examples
    --------
    >>> from skstruct import MultiClass
    >>> from skstruct.graphs import NodeProblem
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(MultiClass(), [[1.0], [2.0]], ["a", "b"])[0]
    >>> isinstance(problem, NodeProblem), problem.part_ptr
    (True, array([0, 2, 4]))
    """

    adds_by_columns = True


@packed()
class Nodes(NamedTuple):
    """Packed nodes."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the nodes of each sample begin.
    offsets: np.ndarray


class NodeGraph(Graph):
    """A structure with labelled nodes, a row of features each, and no edges.

    A sample of X is a matrix (n_nodes, n_features). A subclass defines ``make_problem``, by
    :meth:`NodeProblem.make`, and ``is_labelling`` where not every labelling is one.

    See Also
    --------
    skstruct.graphs.NodeProblem : The problem.
    skstruct.graphs.PairwiseGraph : Pairs of labels have scores, too.
    skstruct.graphs.Graph : All that a structure may define.

    Examples
    --------
    Chains and graphs have what these have:

    >>> from skstruct import Chain
    >>> from skstruct.graphs import NodeGraph
    >>> isinstance(Chain(), NodeGraph), NodeGraph.has_node_weights
    (True, True)
    """

    takes_partial_labels = has_node_weights = True
    edge_features = False

    def no_samples(self, estimator: BaseEstimator) -> Nodes:
        """No samples."""
        return Nodes(np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64))

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Nodes:
        """Pack the nodes."""
        samples = Nodes(*read_sequences(X)[:2])
        self._check_counts(estimator, samples, reset)
        return samples

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, then the intercept) x labels, and no pairs."""
        return (samples.features.shape[1] + bool(fit_intercept), n_classes), (0, 0)

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random sequences."""
        return example_sequences(rng, sparse_X)

    def _check_counts(self, estimator, samples, reset):
        """Set or compare the numbers of features of `estimator`; refuse empty training samples."""
        name = type(estimator).__name__
        if reset:
            empty = np.flatnonzero(samples.lengths == 0)
            if empty.size:
                raise ValueError(f"X: sample {empty[0]} is empty, a sample needs at least one node")
            estimator.n_features_in_ = samples.features.shape[1]
            if self.edge_features:
                estimator.n_edge_features_in_ = samples.edge_features.shape[1]
            return
        check_n_features(samples.features.shape[1], estimator.n_features_in_, name)
        if self.edge_features:
            n_edge_features = samples.edge_features.shape[1]
            check_n_features(n_edge_features, estimator.n_edge_features_in_, name, "edge features")


@inner_kernel(inline=True)
def forbid(problem, i, theta):
    """-inf for labels that are not allowed."""
    if problem.allowed.shape[0] > 0:
        first, n_labels = problem.label_ptr[i], problem.cost.shape[0]
        for t in range(problem.label_ptr[i + 1] - first):
            for k in range(n_labels):
                if problem.allowed[first + t, k] == 0:
                    theta[t * n_labels + k] = -math.inf


@potentials.register(NodeProblem)
@kernel
def _(problem, i, w, theta):
    first, stop, n_labels = problem.label_ptr[i], problem.label_ptr[i + 1], problem.cost.shape[0]
    scores(problem.nodes, first, stop, n_labels, w.node, w, problem.work.row, theta, 0)
    forbid(problem, i, theta)


@accumulate.register(NodeProblem)
@kernel
def _(problem, i, r, c, w):
    first, stop, n_labels = problem.label_ptr[i], problem.label_ptr[i + 1], problem.cost.shape[0]
    add_outer(problem.nodes, first, stop, n_labels, r, 0, c, w.node, w, problem.work.row)


@catch_up.register(NodeProblem)
@kernel
def _(problem, i, w, clock):
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    catch_up_rows(problem.nodes, first, stop, w.node, clock.node, clock)


@gram.register(NodeProblem)
@kernel
def _(problem, i, r, out):
    first, stop, n_labels = problem.label_ptr[i], problem.label_ptr[i + 1], problem.cost.shape[0]
    how, table = problem.work.gram, problem.work.weights.node
    gram_product(how, problem.nodes, i, first, stop, n_labels, r, out, 0, table)


@add_indicator.register(NodeProblem)
@kernel
def _(problem, i, labels, c, mu):
    n_labels = problem.cost.shape[0]
    for t in range(problem.label_ptr[i + 1] - problem.label_ptr[i]):
        mu[t * n_labels + labels[t]] += c


@score.register(NodeProblem)
@kernel
def _(problem, i, theta, labels):
    n_labels, total = problem.cost.shape[0], 0.0
    for t in range(problem.label_ptr[i + 1] - problem.label_ptr[i]):
        total += theta[t * n_labels + labels[t]]
    return total


@score.register(Problem)
@kernel
def _(problem, i, theta, labels):
    n_parts = problem.part_ptr[i + 1] - problem.part_ptr[i]
    parts, total = problem.work.parts, 0.0
    for q in range(n_parts):
        parts[q] = 0.0
    add_indicator(problem, i, labels, 1.0, parts)
    for q in range(n_parts):
        if parts[q] != 0.0:
            total += parts[q] * theta[q]
    return total


@gram.register(Problem)
@kernel
def _(problem, i, r, out):
    gradient = problem.work.weights
    for table in (gradient.node, gradient.pair):
        for row in range(table.shape[0]):
            for k in range(table.shape[1]):
                table[row, k] = 0.0
    accumulate(problem, i, r, (1.0, 0.0), gradient)
    potentials(problem, i, gradient, out)
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        if out[q] == -math.inf:  # forbidden
            out[q] = 0.0


@augment.register(Problem)
@kernel
def _(problem, i, theta):
    first = problem.label_ptr[i]
    n, n_labels = problem.label_ptr[i + 1] - first, problem.cost.shape[0]
    share = 1.0 / n if problem.normalize == 1 else 1.0
    cost, weights = problem.cost, problem.loss_weights
    for t in range(n):
        y = problem.labels[first + t]
        add_label_costs(cost, weights, share, first + t, y, theta, t * n_labels)


@task_loss.register(Problem)
@kernel
def _(problem, i, labels):
    first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
    share = 1.0 / (stop - first) if problem.normalize == 1 else 1.0
    cost, weights = problem.cost, problem.loss_weights
    total = 0.0
    for t in range(first, stop):
        total += label_cost(cost, weights, share, t, problem.labels[t], labels[t - first])
    return total


@count_states.register(Problem)
@kernel
def _(problem, i):
    return problem.cost.shape[0]


max_marginals.register(Problem)(max_marginals_by_maxima)
top_k_oracle.register(Problem)(top_k_by_max_marginals)


@inner_kernel
def draw_by_conditioning(problem, i, theta, mu, room, uniforms, labels, layout):
    """Draw labels node by node, each from its marginals given those before.

    As many calls of ``exp_oracle`` as labels are drawn, which must be exact and heed -inf in the
    node block. The `layout` (n_states, first, step, between) has state k of node t at part ``first
    + t * step + k * between``.
    """
    n_states, first, step, between = layout
    value = -math.inf
    for d in range(labels.shape[0]):
        for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
            room[q] = theta[q]
        for t in range(labels.shape[1]):
            at = first + t * step
            of_rest = exp_oracle(problem, i, room, 1.0, mu)
            value = of_rest if t == 0 else value
            if not value > -math.inf:
                return value
            labels[d, t] = draw(mu, at, between, n_states, uniforms[t, d])
            for k in range(n_states):
                if k != labels[d, t]:
                    room[at + k * between] = -math.inf
    return value


@sample_oracle.register(Problem)
@kernel
def _(problem, i, theta, mu, room, uniforms, labels):
    n_states = count_states(problem, i)
    layout = n_states, 0, n_states, 1
    return draw_by_conditioning(problem, i, theta, mu, room, uniforms, labels, layout)
