"""Chains: sequences whose neighbouring labels interact (linear-chain models)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.factors import PairwiseFactors
from ..core.offsets import longest_item
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..core.weights import aligned
from ..data.constraints import check_ends, check_steps, transition_mask
from ..data.matrices import normal_csr
from ..data.packing import packed, read_sequences
from ..data.rules import TooManyStates, check_rules, product_of, read_rules, single_rules
from ..data.states import refuse_states
from ..inference.forward_backward import workspace_size
from ..inference.viterbi import BestFound, bounded_viterbi, viterbi_scratch
from ..spaces.chain import ChainScratch, ChainSpace, sparse_chains
from ..spaces.ruled_chain import _ruled
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


def _bounded(mask, ends, allowed=None):
    """Masks of each node's labels, including forbidden ends."""
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
    states_per_label : int or dict, default=1
        Number of hidden states of each label, or a dict from label to number (1 where it has none):
        see :ref:`hidden_states`.

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

    def __init__(
        self,
        boundary: bool = False,
        edge_features: bool = False,
        forbidden: str | Iterable | None = None,
        rules: list | None = None,
        states_per_label: int | Mapping = 1,
    ) -> None:
        self.boundary = boundary
        self.edge_features = edge_features
        self.forbidden = forbidden
        self.rules = rules
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
            allowed = _bounded(mask, samples.offsets, allowed)
        longest = max(longest_item(samples.offsets), 1)
        make, fields = self._parts(samples, classes, fit_intercept, codes, loss, mask, allowed)
        if rules:
            return make(space=_ruled(fields, rules, classes, n_best))
        work = ChainScratch(
            best=viterbi_scratch(longest, n_classes, n_best),
            sums=aligned(workspace_size(longest, n_classes), np.empty),
        )
        return make(space=ChainSpace(**fields, own=(), work=work))

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
        return super().factors(problem, samples)

    def with_rules(self, rules: Any) -> Chain:
        """The chain with further rules."""
        refuse_states(self, "rules are of labels, not of states", TypeError)
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
        """With sparse transitions, if there are many labels and few such weights."""
        return problem if self.edge_features else sparse_chains(problem, weights.pair)

    def edge_ends(self, samples: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """Every node but the last of a sequence, and the next one."""
        is_last = np.zeros(samples.offsets[-1] + 1, dtype=bool)
        is_last[samples.offsets[1:] - 1] = True
        first = np.flatnonzero(~is_last[:-1])
        return first, first + 1
