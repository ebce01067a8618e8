"""Chains: sequences whose neighbouring labels interact (linear-chain models)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ...core.weights import aligned
from ...data.constraints import check_ends, check_steps, transition_mask
from ...data.matrices import normal_csr
from ...data.packing import Samples, read_sequences
from ...inference.forward_backward import workspace_size
from ...inference.viterbi import viterbi_scratch
from ...typing import LossLike, SamplesLike
from ..base import row_scratch
from ..pairwise.fields import PairwiseGraph
from .kernels import ChainProblem, ChainScratch
from .sparse import sparse_chains

__all__ = ["Chain", "ChainProblem"]


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
    forbidden : str or list of pairs, default=None
        Steps that may not occur, in training and in prediction: a tagging scheme ("iob1", "iob2",
        "ioe1", "ioe2", "iobes", "bilou", in any case, also "bio", "bioes", "bioul"), or pairs
        (label, next label) with None for an end of the sequence.

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

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> Samples:
        """Pack X; set or compare the number of features of `estimator`.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes or has ``n_features_in_``.
        X : list, object array, 3-D array or RaggedArray
            The sequences.
        reset : bool
            True in fit.

        Returns
        -------
        Samples
            The packed sequences.
        """
        samples = read_sequences(X, edge_features=self.edge_features)
        self._check_counts(estimator, samples, reset)
        return samples

    def make_problem(
        self,
        samples: Samples,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem for kernels; samples must not be empty.

        Parameters
        ----------
        samples : Samples
            Packed sequences.
        classes : ndarray of shape (n_classes,)
            The labels.
        fit_intercept : bool
            Whether there is a constant feature.
        codes : ndarray of shape (n_nodes,) of int32, optional
            True labels, for training: checked against `forbidden`.
        loss : object
            Task loss, see :func:`skstruct.losses.task.cost_matrix`.
        allowed : ndarray of shape (n_nodes, n_classes) of uint8, optional
            Labels allowed at each node.
        n_best : int
            Largest number of labellings that will be asked for at once.

        Returns
        -------
        ChainProblem
            The problem.
        """
        mask = transition_mask(self.forbidden, classes)
        if codes is not None and self.forbidden is not None:
            steps = (codes, *self.edge_ends(samples), samples.offsets, classes, self.forbidden)
            check_steps(mask, *steps)
            check_ends(mask, *steps)
        features = _with_boundary(samples) if self.boundary else samples.features
        n_classes = len(classes)
        allowed = _allowed(allowed, mask, samples.offsets, n_classes)
        longest = int(np.diff(samples.offsets).max(initial=1))
        work = ChainScratch(
            row=row_scratch(self.weight_shapes(samples, n_classes, fit_intercept)),
            best=viterbi_scratch(longest, n_classes, n_best),
            sums=aligned(workspace_size(longest, n_classes), np.empty),
        )
        fields = self._fields(samples, features, classes, fit_intercept, codes, loss)
        return ChainProblem(
            **fields,
            transition_mask=mask.pairs,
            allowed=allowed,
            own=(),
            work=work,
        )

    def decoding(self, problem: NamedTuple, weights: Any) -> NamedTuple:
        """The problem with sparse transitions, if there are many labels and few such weights.

        Parameters
        ----------
        problem : ChainProblem
            What :meth:`make_problem` returned.
        weights : Weights
            The weights.

        Returns
        -------
        ChainProblem or SparseChainProblem
            The problem to decode.
        """
        return problem if self.edge_features else sparse_chains(problem, weights.pair)

    def edge_ends(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Flat nodes at the first and at the second end of every edge, samples in order.

        Parameters
        ----------
        samples : Samples
            Packed sequences.

        Returns
        -------
        first, second : ndarray of shape (n_edges,) of int
            Every node but the last of a sequence, and the next one.
        """
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


def _with_boundary(samples: Samples):
    """Features with two more columns, 1 at the first and at the last node of each sample."""
    n_nodes = samples.features.shape[0]
    first, last = samples.offsets[:-1], samples.offsets[1:] - 1
    ends = np.zeros((n_nodes, 2))
    ends[first, 0] = 1.0
    ends[last, 1] = 1.0
    if sparse.issparse(samples.features):
        return normal_csr(sparse.hstack([samples.features, sparse.csr_matrix(ends)], format="csr"))
    return np.hstack([samples.features, ends])
