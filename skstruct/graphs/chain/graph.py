"""Chains: sequences whose neighbouring labels interact (linear-chain models)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ...core.offsets import ends_of, longest_item
from ...core.weights import aligned
from ...data.constraints import check_ends, check_steps, transition_mask
from ...data.matrices import normal_csr
from ...data.packing import take_rows
from ...data.sequences import read_sequences
from ...inference.forward_backward import workspace_size
from ...inference.viterbi import viterbi_scratch
from ...typing import LossLike, SamplesLike
from ..pairwise.fields import PairwiseGraph
from .kernels import ChainProblem, ChainScratch
from .sparse import sparse_chains

__all__ = ["Chain", "ChainProblem", "Sequences"]


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
    def lengths(self) -> np.ndarray:
        """Number of nodes of each sequence."""
        return np.diff(self.offsets)

    @property
    def n_edges(self) -> np.ndarray:
        """Number of edges of each sequence."""
        return np.maximum(self.lengths - 1, 0)

    def take(self, keep: np.ndarray) -> Sequences:
        """The sequences where the mask `keep` is True."""
        edges = self.edge_features
        return Sequences(
            take_rows(self.features, keep, self.lengths),
            ends_of(self.lengths[keep]),
            None if edges is None else take_rows(edges, keep, self.n_edges),
        )

    def without_empty(self) -> Sequences:
        """The sequences that have nodes; nothing is copied."""
        return self._replace(offsets=self.offsets[np.append(True, self.lengths > 0)])


class Chain(PairwiseGraph):
    """A sequence of nodes; each label interacts with the next.

    Parameters
    ----------
    boundary : bool, default=False
        Whether a label has scores of its own at the first and at the last node.
    edge_features : bool, default=False
        Whether transitions depend on features. A sample of X is then a pair (features, edge
        features of shape (n_nodes - 1, n_edge_features)), and every edge feature has a (n_classes,
        n_classes) table of weights. Without them all edges share one table.
    forbidden : str, or list of pairs and str, default=None
        Steps that may not occur, in training and in prediction: a tagging scheme ("iob1", "iob2",
        "ioe1", "ioe2", "iobes", "bilou", in any case, also "bio", "bioes", "bioul"), or pairs
        (label, next label) with None for an end of the sequence, or a list of both.

    See Also
    --------
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
    ) -> None:
        self.boundary = boundary
        self.edge_features = edge_features
        self.forbidden = forbidden

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
        """Build the problem; true labels are checked against `forbidden`."""
        mask = transition_mask(self.forbidden, classes)
        if codes is not None and self.forbidden is not None:
            steps = (codes, *self.edge_ends(samples), samples.offsets, classes, self.forbidden)
            check_steps(mask, *steps)
            check_ends(mask, *steps)
        features = _with_boundary(samples) if self.boundary else samples.features
        n_classes = len(classes)
        allowed = _allowed(allowed, mask, samples.offsets, n_classes)
        longest = max(longest_item(samples.offsets), 1)
        fields, tables = self._fields(samples, features, classes, fit_intercept, codes, loss)
        work = ChainScratch(
            tables=tables,
            best=viterbi_scratch(longest, n_classes, n_best),
            sums=aligned(workspace_size(longest, n_classes), np.empty),
        )
        return ChainProblem(
            **fields,
            transition_mask=mask.pairs,
            allowed=allowed,
            own=(),
            work=work,
        )

    def decoding(self, problem: NamedTuple, weights: Any) -> NamedTuple:
        """With sparse transitions, if there are many labels and few such weights."""
        return problem if self.edge_features else sparse_chains(problem, weights.pair)

    def edge_ends(self, samples: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """Every node but the last of a sequence, and the next one."""
        is_last = np.zeros(samples.offsets[-1] + 1, dtype=bool)
        is_last[samples.offsets[1:] - 1] = True
        first = np.flatnonzero(~is_last[:-1])
        return first, first + 1


def _allowed(allowed, mask, offsets, n_classes):
    """Label mask of each node with the forbidden ends worked in; no rows if all is allowed."""
    if not mask.bounds_ends:
        return np.empty((0, n_classes), dtype=np.uint8) if allowed is None else allowed
    if allowed is None:
        allowed = np.ones((offsets[-1], n_classes), dtype=np.uint8)
    else:
        allowed = allowed.copy()
    allowed[offsets[:-1]] &= mask.start > -math.inf
    allowed[offsets[1:] - 1] &= mask.stop > -math.inf
    return allowed


def _with_boundary(samples: Sequences):
    """Features with two more columns, 1 at the first and at the last node of each sample."""
    n_nodes = samples.features.shape[0]
    first, last = samples.offsets[:-1], samples.offsets[1:] - 1
    ends = np.zeros((n_nodes, 2), samples.features.dtype)
    ends[first, 0] = 1.0
    ends[last, 1] = 1.0
    if sparse.issparse(samples.features):
        return normal_csr(sparse.hstack([samples.features, sparse.csr_matrix(ends)], format="csr"))
    return np.hstack([samples.features, ends])
