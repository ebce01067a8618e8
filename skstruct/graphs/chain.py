"""Chains: sequences whose neighbouring labels interact (linear-chain models)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.factors import PairwiseFactors
from ..core.features import scores
from ..core.jit.dispatch import inner_kernel, kernel
from ..core.offsets import longest_item
from ..core.oracles import (
    add_indicator,
    best_at,
    chunk_marginals,
    edge_marginals,
    entropy,
    exp_oracle,
    max_marginals,
    max_oracle,
    overflows,
    potentials,
    sample_oracle,
    score,
    top_k_oracle,
)
from ..core.proximal import rest_potentials, rest_scores
from ..core.typing import LossLike, SamplesLike
from ..core.weights import aligned
from ..data.constraints import check_ends, check_steps, transition_mask
from ..data.matrices import normal_csr
from ..data.packing import packed, read_sequences
from ..data.rules import TooManyStates, check_rules, product_of, read_rules, single_rules
from ..inference.bounded_viterbi import BestFound, bounded_viterbi
from ..inference.forward_backward import chain_chunks, forward_backward, workspace_size
from ..inference.viterbi import (
    SparseViterbiScratch,
    ViterbiScratch,
    best_in_ranges,
    chain_max_marginals,
    row_ranges,
    sparse_viterbi,
    sparse_viterbi_scratch,
    viterbi,
    viterbi_scratch,
    viterbi_top_k,
)
from .layout import TableScratch, feature_rows
from .pairwise.verbs import (
    PairwiseGraph,
    PairwiseProblem,
    blocks,
    draw_along_edges,
    edge_above,
    entropy_along_edges,
    forbid_parts,
    shape_of,
)
from .problem import NodeProblem, forbid

# The linear chain for compiled solvers: its problem type and the kernel of each verb.
#
# The verbs that do not depend on the order of nodes are in :mod:`skstruct.graphs.pairwise.verbs`.


class ChainScratch(NamedTuple):
    """Scratch of chains."""

    # For weight tables.
    tables: TableScratch
    # For best labellings.
    best: ViterbiScratch
    # For :func:`~skstruct.inference.forward_backward.forward_backward`.
    sums: np.ndarray


class SequenceProblem(PairwiseProblem):
    """Nodes in a row packed for kernels: each but the last has an edge to the next.

    Chains, and structures that have their parts but other oracles: it has none that they could
    inherit by mistake.

    Parameters
    ----------
    *fields : object
        Those of :class:`~skstruct.graphs.PairwiseProblem`.

    See Also
    --------
    skstruct.graphs.PairwiseProblem : Graphs of any edges.
    skstruct.core.oracles.max_oracle : An operation for which a subclass registers a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.graphs import SequenceProblem
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> isinstance(problem, SequenceProblem), problem.part_ptr
    (True, array([ 0, 10]))
    """


class ChainProblem(SequenceProblem):
    """Chains packed for kernels: every labelling counts."""

    structure = "Chain"


@inner_kernel(inline=True)
def _step(n, n_labels, n_tables, labels, t):
    """Part of the transition to node t."""
    table = 0 if n_tables == 1 else t - 1
    return (n + table * n_labels + labels[t - 1]) * n_labels + labels[t]


@add_indicator.register(SequenceProblem)
@kernel
def _(problem, i, labels, c, mu):
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    for t in range(n):
        mu[t * n_labels + labels[t]] += c
        if t > 0:
            mu[_step(n, n_labels, n_tables, labels, t)] += c


@score.register(SequenceProblem)
@kernel
def _(problem, i, theta, labels):
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    total = theta[labels[0]]
    for t in range(1, n):
        step = theta[_step(n, n_labels, n_tables, labels, t)]
        total += step + theta[t * n_labels + labels[t]]
    return total


@rest_potentials.register(SequenceProblem)
@kernel
def _(problem, i, w, clock, theta):
    first, n, n_labels, e0, n_tables = shape_of(problem, i)
    nodes, edges, width, row = problem.nodes, problem.edges, problem.width, problem.work.tables.row
    stop, size = e0 + n_tables, n * n_labels
    rest_scores(nodes, first, first + n, n_labels, w.node, w, clock.node, clock, row, theta, 0)
    rest_scores(edges, e0, stop, width, w.pair, w, clock.pair, clock, row, theta, size)
    forbid_parts(problem, i, theta)


@max_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    return viterbi(unary, pair, labels, problem.work.best)


@best_at.register(ChainProblem)
@kernel
def _(problem, i, w, scratch, is_first):
    theta, work, size = scratch.theta, problem.work, problem.part_ptr[i + 1] - problem.part_ptr[i]
    first, n, n_labels, _, n_tables = shape_of(problem, i)
    n_all = problem.label_ptr[problem.label_ptr.shape[0] - 1]
    # One table for all samples: that of the first one stays in `mu`.
    is_shared = n_tables == 1 and problem.edge_ptr[problem.edge_ptr.shape[0] - 1] == 0
    if is_first or not is_shared:
        potentials(problem, i, w, theta)
    else:
        size, row = n * n_labels, work.tables.row
        scores(problem.nodes, first, first + n, n_labels, w.node, w, row, theta, 0)
        forbid(problem, i, theta)
    if overflows(theta, size):
        return math.nan
    unary, pair = blocks(problem, i, theta)
    table = scratch.mu[: pair.size].reshape(pair.shape)
    if is_first and is_shared:
        for j in range(n_labels):
            for k in range(n_labels):
                table[0, j, k] = pair[0, j, k]
    pair = table if is_shared else pair
    if is_first or not is_shared:
        row_ranges(pair, n_all if is_shared else n, work.best.lows, work.best.tops)
    return best_in_ranges(unary, pair, scratch.labels, work.best)


@top_k_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = blocks(problem, i, theta)
    viterbi_top_k(unary, pair, values, labels, problem.work.best)


@exp_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    unary, pair = blocks(problem, i, theta)
    node_mu, pair_mu = unary[:0], pair[:0]
    if mu.shape[0] > 0:
        node_mu, pair_mu = blocks(problem, i, mu)
    return forward_backward(unary, pair, temperature, node_mu, pair_mu, problem.work.sums)


@edge_marginals.register(ChainProblem)
@kernel
def _(problem, i, theta, mu, out):
    unary, pair = blocks(problem, i, theta)
    n, n_labels = unary.shape
    tables = out[: (n - 1) * n_labels * n_labels].reshape(n - 1, n_labels, n_labels)
    node_mu = blocks(problem, i, mu)[0]
    return forward_backward(unary, pair, 1.0, node_mu, tables, problem.work.sums)


@edge_above.register(ChainProblem)
@kernel
def _(problem, i, position):
    n_labels = problem.cost.shape[0]
    return position, position - 1, (position - 1) * n_labels * n_labels, n_labels, 1


sample_oracle.register(ChainProblem)(draw_along_edges)
entropy.register(ChainProblem)(entropy_along_edges)


@chunk_marginals.register(ChainProblem)
@kernel
def _(problem, i, theta, rules, chunks, mu, out):
    unary, pair = blocks(problem, i, theta)
    node_mu = blocks(problem, i, mu)[0]
    return chain_chunks(unary, pair, rules, chunks, node_mu, out, problem.work.sums)


@max_marginals.register(ChainProblem)
@kernel
def _(problem, i, theta, out):
    unary, pair = blocks(problem, i, theta)
    best = out[: unary.size].reshape(unary.shape)
    chain_max_marginals(unary, pair, best, problem.work.best)


# Chains with many labels, for decoding at given weights: most transitions score 0.

_MANY_LABELS = 64
_FEW = 0.25


class SparseTransitions(NamedTuple):
    """Transition weights most of which are 0."""

    # (n_labels, n_labels): All of them.
    table: np.ndarray
    # Those that are not 0, see :func:`skstruct.inference.viterbi.sparse_viterbi`.
    ptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    tops: np.ndarray


class SparseChainScratch(NamedTuple):
    """Scratch of chains with sparse transitions."""

    # For weight tables.
    tables: TableScratch
    # For best labellings.
    best: SparseViterbiScratch


class SparseChainProblem(PairwiseProblem):
    """Chains and their transition weights (`own`); parts are those of nodes only."""

    structure = "Chain"


def sparse_chains(problem, pair_weights):
    """The problem with its transitions in sparse form, if that pays."""
    n_labels = problem.cost.shape[0]
    if n_labels < _MANY_LABELS or type(problem) is not ChainProblem:
        return problem
    table = pair_weights.reshape(n_labels, n_labels)
    if not np.isfinite(problem.transition_mask).all():
        table = table + problem.transition_mask
    stored = sparse.csr_matrix(table)
    if stored.nnz > _FEW * table.size:
        return problem
    longest = max(longest_item(problem.label_ptr), 1)
    own = SparseTransitions(
        table=np.ascontiguousarray(table),
        ptr=stored.indptr.astype(np.int64),
        columns=stored.indices.astype(np.int32),
        values=stored.data,
        tops=np.maximum(stored.max(axis=1).toarray().ravel(), 0.0),
    )
    fields = problem._asdict() | {
        "part_ptr": problem.label_ptr * n_labels,
        "n_tables": np.zeros_like(problem.n_tables),
        "own": own,
        "work": SparseChainScratch(problem.work.tables, sparse_viterbi_scratch(longest, n_labels)),
    }
    return SparseChainProblem(**fields)


add_indicator.register(SparseChainProblem)(add_indicator.registry[NodeProblem])


@score.register(SparseChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary = blocks(problem, i, theta)[0]
    total = unary[0, labels[0]]
    for t in range(1, unary.shape[0]):
        total += problem.own.table[labels[t - 1], labels[t]] + unary[t, labels[t]]
    return total


@max_oracle.register(SparseChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary = blocks(problem, i, theta)[0]
    own = problem.own
    best = problem.work.best
    return sparse_viterbi(unary, own.ptr, own.columns, own.values, own.tops, labels, best)


# Chains under rules: the chain whose labels are pairs of a state of the rules' automata and the
# label that led to it. Weights and marginals are those of labels; only the oracles see the pairs.

# The most numbers in all transition tables of a sample.
_MOST_NUMBERS = 2**27


class RuledChainScratch(NamedTuple):
    """Scratch of chains under rules; all but that for weight tables is of pairs."""

    # For weight tables.
    tables: TableScratch
    # For best labellings.
    best: ViterbiScratch
    # For :func:`~skstruct.inference.forward_backward.forward_backward`.
    sums: np.ndarray
    # Potentials and marginals of nodes.
    unary: np.ndarray
    node: np.ndarray
    # Potentials and marginals of transitions.
    pair: np.ndarray
    edge: np.ndarray


class WideChainProblem(SequenceProblem):
    """Chains packed for kernels: labellings that obey rules count, `own` is their product.

    There is no room for the marginals of single edges.
    """

    structure = "Chain under rules so large"


class RuledChainProblem(WideChainProblem):
    """The same, with room for the marginals of single edges."""

    structure = "Chain"


# The most pairs of a state and a label in each of the products that a bounded search has.
_MOST_TOGETHER = 1024


def _ruled(fields, tables, rules, classes, n_best) -> WideChainProblem:
    """The problem of chains under rules."""
    own = product_of(rules, classes)
    longest, size = max(longest_item(fields["label_ptr"]), 1), own.labels.size
    n_tables = max(int(fields["n_tables"].max(initial=1)), 1)
    if n_tables * size * size > _MOST_NUMBERS:
        raise TooManyStates(
            f"rules: {n_tables:,} transition tables of {size:,} labels in the product of the rules "
            f"are more than {_MOST_NUMBERS:,} numbers: give fewer rules"
        )
    # Of the room for marginals of single edges no memory is touched before they are found.
    has_room = longest * size * size <= _MOST_NUMBERS
    kind = RuledChainProblem if has_room else WideChainProblem
    work = RuledChainScratch(
        tables=tables,
        best=viterbi_scratch(longest, size, n_best),
        sums=aligned(workspace_size(longest, size), np.empty),
        unary=np.empty((longest, size)),
        node=np.empty((longest, size)),
        pair=np.empty((n_tables, size, size)),
        edge=np.empty((longest if has_room else n_tables, size, size)),
    )
    return kind(**fields, own=own, work=work)


@inner_kernel
def _expand(problem, i, theta):
    """Write the potentials of pairs: those of their labels, -inf where the rules are broken."""
    unary, pair = blocks(problem, i, theta)
    own, wide, tables = problem.own, problem.work.unary, problem.work.pair
    n, n_labels = unary.shape
    for t in range(n):
        for q in range(own.labels.shape[0]):
            wide[t, q] = unary[t, own.labels[q]] if t > 0 else -math.inf
    for k in range(n_labels):
        if own.first[k] >= 0:
            wide[0, own.first[k]] = unary[0, k]
    for q in range(own.labels.shape[0]):
        if own.ends[q] == 0:
            wide[n - 1, q] = -math.inf
    for e in range(pair.shape[0]):
        for q in range(own.labels.shape[0]):
            for r in range(own.labels.shape[0]):
                tables[e, q, r] = -math.inf
            for k in range(n_labels):
                if own.after[q, k] >= 0:
                    tables[e, q, own.after[q, k]] = pair[e, own.labels[q], k]
    return wide[:n], tables[: pair.shape[0]]


@inner_kernel
def _fold_nodes(own, wide, out):
    """Add up the marginals of each label's pairs."""
    for t in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[t, k] = 0.0
        for q in range(own.labels.shape[0]):
            out[t, own.labels[q]] += wide[t, q]


@inner_kernel
def _fold_edges(own, wide, out):
    """Add up the marginals of each transition's pairs."""
    for e in range(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(out.shape[2]):
                out[e, j, k] = 0.0
        for q in range(own.labels.shape[0]):
            for k in range(out.shape[2]):
                if own.after[q, k] >= 0:
                    out[e, own.labels[q], k] += wide[e, q, own.after[q, k]]


_plain_score = score.registry[SequenceProblem]


@score.register(WideChainProblem)
@kernel
def _(problem, i, theta, labels):
    own = problem.own
    q = own.first[labels[0]]
    for t in range(1, problem.label_ptr[i + 1] - problem.label_ptr[i]):
        q = own.after[q, labels[t]] if q >= 0 else q
    return _plain_score(problem, i, theta, labels) if q >= 0 and own.ends[q] else -math.inf


@max_oracle.register(WideChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = _expand(problem, i, theta)
    value = viterbi(unary, pair, labels, problem.work.best)
    for t in range(unary.shape[0]):
        labels[t] = problem.own.labels[labels[t]]
    return value


@top_k_oracle.register(WideChainProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = _expand(problem, i, theta)
    viterbi_top_k(unary, pair, values, labels, problem.work.best)
    for q in range(values.shape[0]):
        for t in range(unary.shape[0]):
            labels[q, t] = problem.own.labels[labels[q, t]]


@exp_oracle.register(WideChainProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    unary, pair = _expand(problem, i, theta)
    work, n = problem.work, unary.shape[0]
    if mu.shape[0] == 0:
        return forward_backward(unary, pair, temperature, work.node[:0], work.edge[:0], work.sums)
    node, edge = work.node[:n], work.edge[: pair.shape[0]]
    value = forward_backward(unary, pair, temperature, node, edge, work.sums)
    node_mu, pair_mu = blocks(problem, i, mu)
    _fold_nodes(problem.own, node, node_mu)
    _fold_edges(problem.own, edge, pair_mu)
    return value


@edge_marginals.register(RuledChainProblem)
@kernel
def _(problem, i, theta, mu, out):
    unary, pair = _expand(problem, i, theta)
    work, (n, n_labels) = problem.work, blocks(problem, i, theta)[0].shape
    node, edge = work.node[:n], work.edge[: n - 1]
    value = forward_backward(unary, pair, 1.0, node, edge, work.sums)
    _fold_nodes(problem.own, node, blocks(problem, i, mu)[0])
    tables = out[: (n - 1) * n_labels * n_labels].reshape(n - 1, n_labels, n_labels)
    _fold_edges(problem.own, edge, tables)
    return value


@chunk_marginals.register(WideChainProblem)
@kernel
def _(problem, i, theta, rules, chunks, mu, out):
    unary, pair = _expand(problem, i, theta)
    node = problem.work.node[: unary.shape[0]]
    value = chain_chunks(unary, pair, rules, chunks, node, out, problem.work.sums)
    _fold_nodes(problem.own, node, blocks(problem, i, mu)[0])
    return value


@max_marginals.register(WideChainProblem)
@kernel
def _(problem, i, theta, out):
    unary, pair = _expand(problem, i, theta)
    node, n_labels = problem.work.node[: unary.shape[0]], problem.own.first.shape[0]
    chain_max_marginals(unary, pair, node, problem.work.best)
    for t in range(unary.shape[0]):
        for k in range(n_labels):
            out[t * n_labels + k] = -math.inf
        for q in range(node.shape[1]):
            place = t * n_labels + problem.own.labels[q]
            out[place] = max(out[place], node[t, q])


__all__ = ["Chain", "ChainProblem", "Sequences"]


@packed(edges=("edge_features",))
class Sequences(NamedTuple):
    """Packed sequences."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where each sequence begins.
    offsets: np.ndarray
    # (n_edges, n_edge_features): The same for edges, of which a sequence has one less than nodes.
    edge_features: np.ndarray | sparse.csr_matrix | None = None

    @property
    def n_edges(self) -> np.ndarray:
        """Number of edges of each sequence."""
        return np.maximum(self.lengths - 1, 0)


def _bounded(mask, ends, allowed=None):
    """Each node's labels with the forbidden ends worked in."""
    size = ends[-1], mask.start.size
    allowed = np.ones(size, dtype=np.uint8) if allowed is None else allowed.copy()
    allowed[ends[:-1]] &= mask.start > -math.inf
    allowed[ends[1:] - 1] &= mask.stop > -math.inf
    return allowed


class Chain(PairwiseGraph):
    """A sequence of nodes; each label interacts with the next.

    Read more in the :ref:`User Guide <structures_guide>`.

    Parameters
    ----------
    boundary : bool, default=False
        Whether labels have additional scores at the first and at the last node.
    edge_features : bool, default=False
        Whether transitions depend on features. A sample of X is then a pair (features, edge
        features of shape (n_nodes - 1, n_edge_features)), with a (n_classes, n_classes) table of
        weights per edge feature. Otherwise all edges share one table.
    forbidden : str, or list of pairs and str, default=None
        Transitions that are forbidden, in training and in prediction: a tagging scheme ("iob1",
        "iob2", "ioe1", "ioe2", "iobes", "bilou", in any case, also "bio", "bioes", "bioul"), or
        pairs (label, next label) with None for an end of the sequence, or a list of both.
    rules : list of rules, default=None
        Rules that all labellings obey, in training and in prediction, such as
        ``AtMostOnce("ZIP")``. The product of their automata must be small: a few rules on few
        labels. ``predict`` accepts more of them, for prediction only.

    See Also
    --------
    skstruct.AtMostOnce : One of the rules.
    skstruct.Tree : The structure of forests.
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.metrics.chunk_f1_score : F1 of chunks.

    Examples
    --------
    >>> from skstruct import Chain, SAGCRF
    >>> SAGCRF(graph=Chain(forbidden="iob2"))
    SAGCRF(graph=Chain(forbidden='iob2'))
    """

    # Chains in files of older versions do not have the parameter.
    rules = None

    def __init__(
        self,
        boundary: bool = False,
        edge_features: bool = False,
        forbidden: str | Iterable | None = None,
        rules: list | None = None,
    ) -> None:
        self.boundary = boundary
        self.edge_features = edge_features
        self.forbidden = forbidden
        self.rules = rules

    @property
    def n_end_rows(self) -> int:
        """Two with `boundary`: the scores of labels at the first and at the last node."""
        return 2 * bool(self.boundary)

    def no_samples(self, estimator: BaseEstimator) -> Sequences:
        """No sequences."""
        return Sequences(*self._no_features(estimator))

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Sequences:
        """Pack the sequences."""
        samples = Sequences(*read_sequences(X, edge_features=self.edge_features))
        self._check_counts(estimator, samples, reset)
        return samples

    def make_problem(
        self,
        samples: Sequences,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem; true labels are checked against `forbidden` and `rules`."""
        rules = () if self.rules is None else single_rules(self.rules, classes)
        mask = transition_mask(self.forbidden, classes)
        if codes is not None and self.forbidden is not None:
            steps = (codes, *self.edge_ends(samples), samples.offsets, classes, self.forbidden)
            check_steps(mask, *steps)
            check_ends(mask, *steps)
        if codes is not None and rules:
            check_rules(rules, classes, codes, samples.offsets)
        n_classes = len(classes)
        if mask.bounds_ends:
            allowed = _bounded(mask, samples.offsets, allowed)
        longest = max(longest_item(samples.offsets), 1)
        fields, tables = self._fields(samples, classes, fit_intercept, codes, loss, mask, allowed)
        if rules:
            return _ruled(fields, tables, rules, classes, n_best)
        work = ChainScratch(
            tables=tables,
            best=viterbi_scratch(longest, n_classes, n_best),
            sums=aligned(workspace_size(longest, n_classes), np.empty),
        )
        return ChainProblem(**fields, own=(), work=work)

    def _constant(self, classes):
        """The mask, one object for equal rules and classes; subclasses may pack more than that."""
        if type(self) is not Chain or self.edge_features or self.rules:
            return None
        return transition_mask(self.forbidden, classes)

    def _best_under_rules(self, classes, unary, pair) -> BestFound:
        """The best labelling that obeys rules whose product may be too large."""
        groups = [[]]
        for rule in single_rules(self.rules, classes):
            try:
                product_of([*groups[-1], rule], classes, _MOST_TOGETHER)
                groups[-1].append(rule)
            except TooManyStates:
                groups.append([rule])
        products = [product_of(group, classes) for group in groups if group]
        return bounded_viterbi(unary, pair, products)

    def _refill(self, problem, mask, samples, fit_intercept, weights):
        """Return a problem of one sample as that of another; None if it has another mask."""
        if problem.transition_mask is not mask.pairs:
            return None
        n_labels = mask.start.size
        problem.part_ptr[1] = (int(samples.offsets[1]) + n_labels) * n_labels
        intercept = weights.node.shape[0] - 1 if fit_intercept else -1
        return problem._replace(
            nodes=feature_rows(self._node_rows(samples), intercept),
            label_ptr=samples.offsets,
            allowed=_bounded(mask, samples.offsets) if problem.allowed.size else problem.allowed,
        )

    def factors(self, problem: NamedTuple, samples: Sequences) -> PairwiseFactors:
        """Nodes and edges, which do not know of rules."""
        if self.rules:
            raise TypeError(
                "Chain(rules=...): rules are of whole labellings, and GDMMSSVM trains on single "
                "nodes and edges; use BCFWSSVM, or rules in predict alone"
            )
        return super().factors(problem, samples)

    def with_rules(self, rules: Any) -> Chain:
        """The chain with further rules."""
        other = copy.copy(self)
        other.rules = [*read_rules(self.rules), *read_rules(rules)]
        return other

    def _node_rows(self, samples):
        """With `boundary` two more columns, 1 at the first and at the last node of each sample."""
        features = samples.features
        if not self.boundary:
            return features
        ends = np.zeros((features.shape[0], 2), features.dtype)
        ends[samples.offsets[:-1], 0] = 1.0
        ends[samples.offsets[1:] - 1, 1] = 1.0
        if sparse.issparse(features):
            return normal_csr(sparse.hstack([features, sparse.csr_matrix(ends)], format="csr"))
        return np.hstack([features, ends])

    def decoding(self, problem: NamedTuple, weights: Any) -> NamedTuple:
        """With sparse transitions, if there are many labels and few such weights."""
        return problem if self.edge_features else sparse_chains(problem, weights.pair)

    def edge_ends(self, samples: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """Every node but the last of a sequence, and the next one."""
        is_last = np.zeros(samples.offsets[-1] + 1, dtype=bool)
        is_last[samples.offsets[1:] - 1] = True
        first = np.flatnonzero(~is_last[:-1])
        return first, first + 1
