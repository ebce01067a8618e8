"""Candidates: a choice among the candidates of a sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data.boxes import overlaps, read_boxes
from ..data.matrices import refuse_masked
from ..data.packing import as_list, pack_nodes, packed
from ..losses.task import NamedLoss
from ..spaces.choice import CandidatesSpace
from ..targets.costs import ItemCosts
from .items import ItemGraph, targets_of

__all__ = ["Candidates"]

_TARGETS = "index", "losses", "box"

# Of the overlap with the true box: less is no detection (Everingham et al. 2010, The PASCAL visual
# object classes challenge, section 4.2).
_DETECTED = 0.5


@packed(nodes=("features", "boxes", "losses", "overlap"))
class CandidateSets(NamedTuple):
    """Packed candidates."""

    # (n_candidates, n_features): One row per candidate.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the candidates of each sample begin.
    item_ptr: np.ndarray
    # (n_candidates, 4): Their boxes.
    boxes: np.ndarray | None = None
    # (n_candidates,): Cost of choosing each, if y has costs.
    losses: np.ndarray | None = None
    # (n_candidates,): Overlaps of their boxes with the true one.
    overlap: np.ndarray | None = None

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the labels of each sample: one per candidate."""
        return self.item_ptr


class Candidates(ItemGraph):
    """One right candidate among several: reranking, entity linking, proposals of boxes.

    A sample of X is a table (n_candidates, n_features), dense or CSR, or a tuple (table, boxes of
    shape (n_candidates, 4)); samples may have different numbers of candidates. The score of a
    candidate is linear in its features. Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    target : {"index", "losses", "box"}, default="index"
        Kind of a sample of y: the position of the right candidate; an array (n_candidates,) of the
        cost of choosing each, 0 for the right one (training uses the first of several zeros, all
        count as right); or the true box (xmin, ymin, xmax, ymax), where the candidate of largest
        overlap is the right one.

    See Also
    --------
    MultiClass : The same labels for every sample.

    Notes
    -----
    With ``loss="iou"`` the task loss of structural SVMs is ``IoU(right candidate) -
    IoU(candidate)``, overlaps with the true box (Blaschko and Lampert 2008, Learning to localize
    objects with structured output regression, section 3.1). ``predict`` returns positions, or the
    boxes of the chosen candidates for the target "box"; ``score`` is the accuracy, for boxes the
    fraction with an overlap of at least 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Candidates, SAGCRF
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(n, 2)) for n in (3, 5, 4, 6)]
    >>> y = [int(np.argmax(x[:, 0])) for x in X]
    >>> crf = SAGCRF(Candidates(), C=10.0, random_state=0).fit(X, y)
    >>> crf.predict(X).tolist() == y
    True
    """

    has_items = True
    takes = "lists of candidates: expected a list of 2-D arrays, or of tuples (features, boxes)"

    def __init__(self, target: str = "index") -> None:
        self.target = target

    # Reading

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> CandidateSets:
        """Pack the candidates."""
        if self.target not in _TARGETS:
            raise ValueError(f"target must be one of {_TARGETS}, got {self.target!r}")
        tables, boxes = as_list(X, "X"), None
        if any(isinstance(item, tuple) for item in tables):
            for i, item in enumerate(tables):
                if not isinstance(item, tuple) or len(item) != 2:
                    raise ValueError(f"X: sample {i} must be a tuple (features, boxes), too")
            tables, boxes = zip(*tables, strict=True)
        features, item_ptr = pack_nodes(list(tables), "X")
        empty = np.flatnonzero(np.diff(item_ptr) == 0)
        if empty.size:
            raise ValueError(f"X: sample {empty[0]} has no candidates")
        if boxes is not None:
            n = np.diff(item_ptr)
            boxes = np.concatenate(
                [read_boxes(b, f"X: the boxes of sample {i}", n[i]) for i, b in enumerate(boxes)]
            )
        elif self.target == "box":
            raise ValueError("X: with target='box' samples must be tuples (features, boxes)")
        return self._counted(CandidateSets(features, item_ptr, boxes), estimator, reset)

    def no_samples(self, estimator: BaseEstimator) -> CandidateSets:
        """No samples."""
        rows, boxes = np.empty((0, estimator.n_features_in_)), np.empty((0, 4))
        return CandidateSets(rows, np.zeros(1, dtype=np.int64), boxes)

    def read_y(self, y: SamplesLike, samples: CandidateSets) -> np.ndarray:
        """1 for every right candidate, else 0."""
        if self.target == "index":
            return self._one_hot(_read_indices(y, samples), samples)
        if self.target == "losses":
            return (_read_losses(y, samples) == 0).astype(np.int64)
        return (_read_overlaps(y, samples) >= _DETECTED).astype(np.int64)

    def read_labelling(self, y: SamplesLike, samples: CandidateSets) -> np.ndarray:
        """1 for the candidate that is the training target."""
        return self._read_right(y, samples)[1]

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[CandidateSets, np.ndarray]:
        """Pack X and y; losses and overlaps go with the samples."""
        return self._read_right(y, self.read_X(estimator, X, reset=True))

    def _read_right(self, y, samples):
        """Samples with the labels of their candidates from y: 1 for the right one of each."""
        if self.target == "index":
            right = _read_indices(y, samples)
            if samples.boxes is not None:
                true = samples.boxes[samples.item_ptr[:-1] + right]
                overlap = overlaps(samples.boxes, np.repeat(true, samples.lengths, axis=0))
                samples = samples._replace(overlap=overlap)
        elif self.target == "losses":
            losses = _read_losses(y, samples)
            samples = samples._replace(losses=losses)
            right = _first_best(-losses, samples)
        else:
            overlap = _read_overlaps(y, samples)
            _refuse_missed(overlap, samples)
            samples = samples._replace(overlap=overlap)
            right = _first_best(overlap, samples)
        return samples, self._one_hot(right, samples)

    @staticmethod
    def _one_hot(right, samples):
        labels = np.zeros(samples.item_ptr[-1], dtype=np.int64)
        labels[samples.item_ptr[:-1] + right] = 1
        return labels

    def is_labelling(self, codes: np.ndarray, samples: CandidateSets, classes: Any) -> np.ndarray:
        """Exactly one is chosen."""
        return np.add.reduceat(codes, samples.item_ptr[:-1]) == 1

    def read_allowed(self, allowed: Any, samples: CandidateSets, classes: Any) -> np.ndarray:
        """Masks of shape (n_candidates,), one per sample."""
        return self._read_masks(allowed, [(n,) for n in samples.lengths.tolist()])

    # Problems

    def make_problem(
        self,
        samples: CandidateSets,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> Problem:
        """Build the problem."""
        losses = None
        if codes is not None:
            losses = self._losses(samples, codes, loss), np.zeros(samples.lengths.size)
        make, fields = self._parts(samples, fit_intercept, codes, allowed, 0)
        loss, constant = losses or (np.empty(0),) * 2
        target = ItemCosts(fields["item_ptr"], fields["part_ptr"], loss, constant)
        return make(space=CandidatesSpace(**fields, own=(), work=()), target=target)

    def _losses(self, samples, codes, loss):
        """Return the task loss of choosing each candidate."""
        loss, name = loss if isinstance(loss, NamedLoss) else (loss, "loss")
        if not isinstance(loss, str) or loss not in ("hamming", "iou"):
            raise ValueError(
                f"{name} of candidates must be 'hamming' (0 or 1, or the losses in y) or 'iou'; "
                "for others give the losses as y, with target='losses'"
            )
        if loss == "hamming":
            return 1.0 - codes if samples.losses is None else samples.losses
        if samples.overlap is None:
            raise ValueError(
                f"{name}='iou' needs boxes: samples of X must be tuples (features, boxes), and "
                "target 'index' or 'box'"
            )
        best = samples.overlap[np.flatnonzero(codes)]
        return np.repeat(best, samples.lengths) - samples.overlap

    # Answers

    def answers(self, codes: np.ndarray, classes: Any, samples: CandidateSets) -> np.ndarray:
        """Positions of the chosen candidates, or their boxes."""
        chosen = np.flatnonzero(codes)
        return samples.boxes[chosen] if self.target == "box" else chosen - samples.item_ptr[:-1]

    def ranked(self, codes: np.ndarray, classes: Any, samples: CandidateSets, i: int) -> np.ndarray:
        """Return the n best candidates of one sample, best first."""
        chosen = np.argmax(codes, axis=1)
        return samples.boxes[samples.item_ptr[i] + chosen] if self.target == "box" else chosen

    def score(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        samples: CandidateSets,
        weight: np.ndarray | None,
    ) -> float:
        """Fraction of samples whose choice is correct."""
        return float(np.average(truth[np.flatnonzero(predicted)], weights=weight))

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: CandidateSets
    ) -> np.ndarray:
        """Scores of the candidates, an array per sample."""
        return self.wrap(scores, samples)

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random candidates."""
        X = [rng.normal(size=(n, 3)) for n in (3, 2, 4)]
        losses = [np.arange(len(x), dtype=float) for x in X]
        boxes = [np.column_stack([x[:, :2], x[:, :2] + 2.0]) for x in X]
        y = {"index": [0, 1, 0], "losses": losses, "box": [b[0] for b in boxes]}[self.target]
        X = [sparse.csr_matrix(x) for x in X] if sparse_X else X
        return list(zip(X, boxes, strict=True)) if self.target == "box" else X, y


def _read_indices(y, samples):
    """Positions of right candidates."""
    items = targets_of(y, samples.lengths.size)
    for i, (item, n) in enumerate(zip(items, samples.lengths, strict=True)):
        kind = np.asarray(item)
        if kind.ndim != 0 or kind.dtype.kind not in "iu" or not 0 <= item < n:
            raise ValueError(
                f"y: sample {i} must be the position of its right candidate, 0 to {n - 1}, got "
                f"{item!r}"
            )
    return np.array(items, dtype=np.int64).reshape(-1)


def _read_losses(y, samples):
    """Read the task loss of choosing each candidate."""
    read = []
    items = targets_of(y, samples.lengths.size)
    for i, (item, n) in enumerate(zip(items, samples.lengths, strict=True)):
        refuse_masked(item, f"y: sample {i}")
        losses = np.asarray(item)
        if losses.shape != (n,) or losses.dtype.kind not in "buif":
            raise ValueError(f"y: sample {i} must be an array of {n} losses, got {item!r}")
        losses = losses.astype(np.float64)
        if not np.isfinite(losses).all() or (losses < 0).any():
            raise ValueError(f"y: sample {i} has a loss that is negative or not finite")
        if losses.min() != 0.0:
            raise ValueError(
                f"y: sample {i} has no right candidate: the least of its losses is "
                f"{losses.min()}, not 0"
            )
        read.append(losses)
    return np.concatenate(read) if read else np.empty(0)


def _read_overlaps(y, samples):
    """Read the overlaps of every candidate's box with the true one."""
    items = targets_of(y, samples.lengths.size)
    for i, item in enumerate(items):
        read_boxes([item], f"y: sample {i}: its box", 1)
    true = read_boxes(np.array(items, dtype=np.float64).reshape(-1, 4), "y")
    return overlaps(samples.boxes, np.repeat(true, samples.lengths, axis=0))


def _refuse_missed(overlap, samples):
    """Raise ValueError for boxes that no candidate overlaps with: none is right."""
    missed = np.flatnonzero(np.maximum.reduceat(overlap, samples.item_ptr[:-1]) == 0.0)
    if missed.size:
        raise ValueError(
            f"y: sample {missed[0]} has no right candidate: none overlaps with its box"
        )


def _first_best(values, samples):
    """Position of the largest value among each sample's candidates."""
    ends = samples.item_ptr
    starts = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    return np.array([int(np.argmax(values[a:b])) for a, b in starts], dtype=np.int64)
