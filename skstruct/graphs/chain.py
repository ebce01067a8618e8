"""Chains: sequences whose neighbouring labels interact (linear-chain models)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.arguments import check_choice, check_integer
from ..core.factors import PairwiseFactors
from ..core.offsets import longest_item
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..core.weights import aligned
from ..data.constraints import allowed_at_ends, check_ends, check_steps, transition_mask
from ..data.matrices import normal_csr
from ..data.packing import packed, read_sequences
from ..data.rules import TooManyStates, check_rules, product_of, read_rules, single_rules
from ..inference.automaton import step_scores
from ..inference.contexts import automaton_of_contexts, contexts_of, ngrams_of
from ..inference.forward_backward import workspace_size
from ..inference.viterbi import BestFound, bounded_viterbi, viterbi_scratch
from ..spaces.automaton import read_chains
from ..spaces.chain import ChainScratch, ChainSpace, fixed_chains
from .base import kept_positions
from .pairwise.base import PairwiseGraph

# Maximum number of (state, label) pairs in each product of a bounded search.
_MOST_TOGETHER = 1024


__all__ = ["Chain", "Sequences"]


@packed(edges=("edge_features",))
class Sequences(NamedTuple):
    """Packed sequences."""

    # (n_nodes, n_features): Float64, C-contiguous and writable; CSR has int32 indices without
    # duplicates.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where each sequence begins.
    offsets: np.ndarray
    # (n_edges, n_edge_features): The same for edges: a sequence has one fewer than nodes.
    edge_features: np.ndarray | sparse.csr_matrix | None = None

    @property
    def n_edges(self) -> np.ndarray:
        """Number of edges of each sequence."""
        return np.maximum(self.lengths - 1, 0)


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
    order : {1, 2, 3}, default=1
        Number of labels before a label that its score depends on. Beyond pairs, n-grams of labels
        have weights if they occur in training; after labels that do not, shorter ones count, so
        that nothing is forbidden. With `boundary`, the start and the end are labels of n-grams.
    states_per_label : int or dict, default=1
        Number of hidden states of each label, or a dict from label to number (1 where it has none):
        see :ref:`hidden_states`.

    Attributes
    ----------
    ngrams_ : ndarray of shape (n_ngrams, order + 1) of int64
        With an order above 1, in ``graph_`` of a fitted estimator: the n-grams of more than two
        labels, as positions in ``classes_``, -1 before shorter ones; ``n_classes`` is the start,
        ``n_classes + 1`` the end. :func:`skstruct.inspection.ngram_frame` has their weights.

    See Also
    --------
    skstruct.AtMostOnce : One of the rules.
    skstruct.Tree : The structure of forests.
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.metrics.chunk_f1_score : F1 of chunks.

    Notes
    -----
    An order above 1 takes time in proportion to the contexts that occur in training, times the
    labels: n-grams as features of a CRF, with back-off to the longest known suffix, are those of
    Ye, Lee, Chieu and Wu 2009, Conditional random fields with high-order features for sequence
    labeling.

    Examples
    --------
    >>> from skstruct import Chain, SAGCRF
    >>> SAGCRF(graph=Chain(forbidden="iob2"))
    SAGCRF(graph=Chain(forbidden='iob2'))
    """

    def __init__(
        self,
        boundary: bool = False,
        edge_features: bool = False,
        forbidden: str | Iterable | None = None,
        rules: list | None = None,
        order: int = 1,
        states_per_label: int | Mapping = 1,
    ) -> None:
        self.boundary = boundary
        self.edge_features = edge_features
        self.forbidden = forbidden
        self.rules = rules
        self.order = order
        self.states_per_label = states_per_label

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

    @property
    def learns(self) -> bool:
        """N-grams, if the order is above 1."""
        return self.order != 1

    def learn(self, codes: np.ndarray, offsets: np.ndarray, classes: Any) -> None:
        """Take up the n-grams that occur."""
        order = check_integer("order", check_choice("order", self.order, (1, 2, 3)))
        if order == 1:
            return
        if self.edge_features:
            raise ValueError(f"order={order} is for chains without edge features")
        self.refuse_states(f"order={order} is for labels of one state")
        found = ngrams_of(codes, offsets, len(classes), order, bool(self.boundary))
        if hasattr(self, "ngrams_"):
            found = np.unique(np.concatenate([self.ngrams_, found]), axis=0)
        self.ngrams_ = found

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of pairs, and a column for each n-gram."""
        if self.order != 1 and not hasattr(self, "ngrams_"):
            raise ValueError(f"{self}: n-grams are those of training labels, and there are none")
        node, (n_rows, width) = super().weight_shapes(samples, n_classes, fit_intercept)
        return node, (n_rows, width + len(self._ngrams()))

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Weights of (label, next label), without those of longer n-grams."""
        return super().pair_tables(pair_weights[:, : n_classes * n_classes], n_classes)

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Labels, pairs of labels and n-grams are matched by value."""
        node, pairs = super().kept_columns(previous, classes, previous_classes)
        n_before = len(previous_classes)
        # Marks of the start, of the end, and of no label (-1, the last) keep their meaning.
        former = np.append(np.where(node < 0, -2, node), [n_before, n_before + 1, -1])
        now, before = (
            [tuple(code for code in gram if code != -1) for gram in ngrams.tolist()]
            for ngrams in (former[self._ngrams()], previous._ngrams())
        )
        kept = kept_positions(before, now)
        return node, np.append(pairs, np.where(kept < 0, -1, n_before * n_before + kept))

    def observed(self, problem: Problem, samples: Any, *args: Any) -> Any:
        """The problem on some of the weights; None with an order above 1."""
        return None if hasattr(self, "ngrams_") else super().observed(problem, samples, *args)

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
    ) -> Problem:
        """Build the problem; true labels are checked against `forbidden` and `rules`."""
        rules = () if self.rules is None else single_rules(self.rules, classes)
        if rules:
            self.with_rules(())  # a subclass with other labellings refuses them
        mask = transition_mask(self.forbidden, classes)
        if codes is not None and self.forbidden is not None:
            steps = (codes, *self.edge_ends(samples), samples.offsets, classes, self.forbidden)
            check_steps(mask, *steps)
            check_ends(mask, *steps)
        if codes is not None and rules:
            check_rules(rules, classes, codes, samples.offsets)
        n_classes = len(classes)
        if mask.bounds_ends:
            allowed = allowed_at_ends(mask, samples.offsets, allowed)
        longest = max(longest_item(samples.offsets), 1)
        make, fields = self._parts(samples, classes, fit_intercept, codes, loss, mask, allowed)
        if rules or self.order != 1:
            return make(space=read_chains(fields, *self._reading(classes), n_best))
        work = ChainScratch(
            best=viterbi_scratch(longest, n_classes, n_best),
            sums=aligned(workspace_size(longest, n_classes), np.empty),
        )
        return make(space=ChainSpace(**fields, own=(), work=work))

    def _ngrams(self):
        """The n-grams that have weights; of a stored model they may be damaged."""
        ngrams = getattr(self, "ngrams_", np.empty((0, 2), dtype=np.int64))
        is_table = isinstance(ngrams, np.ndarray) and ngrams.dtype == np.int64
        if not is_table or ngrams.ndim != 2 or ngrams.shape[1] != self.order + 1:
            raise ValueError(
                "the model is damaged: graph_.ngrams_ must be an int64 array of shape (n_ngrams, "
                f"{self.order + 1})"
            )
        return ngrams

    def _reading(self, classes):
        """Rows of steps for the contexts of n-grams, and the automaton for these and the rules."""
        rules = () if self.rules is None else single_rules(self.rules, classes)
        contexts = contexts_of(self._ngrams(), len(classes))
        product = product_of(rules, classes, None if rules else len(classes))
        return contexts.rows, automaton_of_contexts(contexts, product)

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

    def factors(self, problem: Problem, samples: Sequences) -> PairwiseFactors:
        """Nodes and edges, without rules."""
        if self.rules:
            raise TypeError(
                "Chain(rules=...): rules are of whole labellings, and GDMMSSVM trains on single "
                "nodes and edges; use BCFWSSVM, or rules in predict alone"
            )
        if self.order != 1:
            raise TypeError(
                "Chain(order=...): GDMMSSVM trains on nodes and pairs of labels; use BCFWSSVM"
            )
        return super().factors(problem, samples)

    def with_rules(self, rules: Any) -> Chain:
        """The chain with further rules."""
        self.refuse_states("rules are of labels, not of states", TypeError)
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

    def decoding(self, problem: Problem, weights: Any) -> Problem:
        """With transitions apart, if labels are many."""
        return self._at_weights(problem, weights, "best")

    def _at_weights(self, problem, weights, task):
        """The problem of a task, see :func:`~skstruct.spaces.chain.fixed_chains`."""
        if self.edge_features or self.order != 1:
            return problem
        return fixed_chains(problem, weights.pair, task)

    def edge_ends(self, samples: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """Every node but the last of a sequence, and the next one."""
        is_last = np.zeros(samples.offsets[-1] + 1, dtype=bool)
        is_last[samples.offsets[1:] - 1] = True
        first = np.flatnonzero(~is_last[:-1])
        return first, first + 1


def step_automaton(graph: Chain, classes: Any, pair_weights: np.ndarray) -> tuple | None:
    """The automaton that reads labellings, and the scores of its states' steps and ends.

    None with an order of 1 and without rules. The scores, (n_states, n_classes + 1), are those of
    the next label and of the end, -inf where a labelling must not end.
    """
    if graph.order == 1 and not graph.rules:
        return None
    (step_rows, automaton), n = graph._reading(classes), len(classes)
    pairs = graph.pair_tables(pair_weights, n) + transition_mask(graph.forbidden, classes).pairs
    table = np.empty((step_rows.labels.size, n + 1))
    step_scores(pairs, step_rows, pair_weights[0, n * n :], table)
    scores = table[automaton.rows]
    scores[automaton.ends == 0, n] = -math.inf
    return automaton, scores
