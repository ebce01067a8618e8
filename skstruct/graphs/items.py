"""Samples of items: what structures whose parts are items share in Python."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.features import add_outer, scores
from ..core.gram import gram_of, gram_product, not_stored
from ..core.jit.dispatch import inner_kernel, kernel
from ..core.oracles import accumulate, add_indicator, augment, gram, potentials, score, task_loss
from ..core.proximal import catch_up, catch_up_rows
from ..data.matrices import numeric, refuse_masked
from ..data.packing import as_list, check_n_features
from .base import Graph
from .layout import NO_CODES, feature_rows, table_scratch


class ItemGraph(Graph):
    """A structure whose parts are items, each scored by its features and one column of weights.

    Packed samples of subclasses have, beside what :class:`skstruct.graphs.Graph` asks for,
    ``item_ptr`` (n_samples + 1, int64): the rows of ``features`` of sample i are its items.
    """

    usual_features = "dense"

    def find_classes(self, labels: np.ndarray, samples: Any) -> np.ndarray:
        """An item is chosen, or it is not."""
        return np.array([0, 1])

    def encode(
        self, labels: np.ndarray, classes: Any, offsets: np.ndarray, unseen: int | None = None
    ) -> np.ndarray:
        """Labels are their own codes."""
        return labels.astype(np.int32)

    def decode(self, codes: np.ndarray, classes: Any) -> np.ndarray:
        """Codes are the labels."""
        return codes.astype(np.int64)

    def wrap(self, flat: np.ndarray, samples: Any) -> np.ndarray:
        """An object array of one array per sample; of single numbers a vector."""
        return super().wrap(flat[:, 0] if flat.shape[1:] == (1,) else flat, samples)

    def chosen_items(self, codes: np.ndarray, samples: Any) -> np.ndarray:
        """Mask of the items that labellings choose.

        Parameters
        ----------
        codes : ndarray of shape (n_nodes,) of int32
            Labellings.
        samples : NamedTuple
            The packed samples.

        Returns
        -------
        ndarray of shape (n_items,) of bool
            Codes of all samples.

        See Also
        --------
        skstruct.inspection.explain : Says what features of chosen items count.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Candidates
        >>> Candidates().chosen_items(np.array([0, 1, 0]), None)
        array([False,  True, False])
        """
        return codes == 1

    @staticmethod
    def _counted(samples, estimator, reset):
        """The samples; sets or compares the number of features of `estimator`."""
        width = samples.features.shape[1]
        if reset:
            estimator.n_features_in_ = width
        check_n_features(width, estimator.n_features_in_, type(estimator).__name__)
        return samples

    @staticmethod
    def _read_masks(allowed, shapes):
        """Flat masks of items, one of each shape."""
        masks = as_list(allowed, "allowed")
        if len(masks) != len(shapes):
            raise ValueError(f"X has {len(shapes)} samples, but allowed has {len(masks)}")
        for i, (mask, shape) in enumerate(zip(masks, shapes, strict=True)):
            if np.shape(mask) != shape or not np.isin(mask, (0, 1)).all():
                raise ValueError(f"allowed: sample {i} must be a boolean mask of shape {shape}")
        return np.concatenate([np.asarray(mask, dtype=np.uint8).ravel() for mask in masks])

    def n_marginals(self, classes: Any) -> int:
        """One number per item: the probability that it is chosen."""
        return 1

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, then the intercept) x 1, and no pairs."""
        return (samples.features.shape[1] + bool(fit_intercept), 1), (0, 0)

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """The one column stays."""
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)

    def _fields(self, samples, fit_intercept, codes, losses, allowed, n_extra):
        """Fields of a problem but ``own`` and ``work``, and scratch for weights."""
        shapes = self.weight_shapes(samples, 0, fit_intercept)
        items = feature_rows(samples.features, shapes[0][0] - 1 if fit_intercept else -1)
        grams = ()
        if codes is not None:
            grams = gram_of(items, samples.item_ptr, shapes[0][0]), not_stored()
        loss, constant = losses or (np.empty(0), np.empty(0))
        fields = {
            "items": items,
            "item_ptr": samples.item_ptr,
            "part_ptr": samples.item_ptr + n_extra * np.arange(samples.item_ptr.size),
            "label_ptr": samples.offsets,
            "labels": NO_CODES if codes is None else codes,
            "allowed": np.empty(0, dtype=np.uint8) if allowed is None else allowed,
            "loss": loss,
            "constant": constant,
            "item_gram": grams[0] if grams else not_stored(),
        }
        return fields, table_scratch(shapes, *grams)


def targets_of(y, n: int) -> list:
    """One target for each of `n` samples."""
    refuse_masked(y, "y")
    if hasattr(y, "columns"):
        y = numeric(y, "y")
    items = list(y) if isinstance(y, np.ndarray) and y.ndim > 0 else as_list(y, "y")
    if len(items) != n:
        raise ValueError(f"X has {n} samples, but y has {len(items)}")
    return items


# Items that score by their features: the problem and the verbs that its structures share.


class ItemProblem(NamedTuple):
    """Samples of items packed for kernels.

    Structures define subclasses, which inherit the operations of this file.
    """

    # Feature rows of the items of all samples.
    items: tuple
    # (n_samples + 1,): Where the items of each sample begin.
    item_ptr: np.ndarray
    # (n_samples + 1,): Where the parts of each sample begin (an item each, then perhaps one that
    # every labelling has, which scores 0 and takes the constant of a task loss), and its labelling.
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    # True labellings; empty when unknown.
    labels: np.ndarray
    # (n_items or 0,): Items that may be chosen; empty when all may.
    allowed: np.ndarray
    # (n_items or 0,): What choosing an item adds to the task loss.
    loss: np.ndarray
    # (n_samples or 0,): Task loss of choosing nothing.
    constant: np.ndarray
    # Products of the feature rows of a sample, for line searches.
    item_gram: tuple
    # Data of the structure itself: a NamedTuple of arrays and numbers, or ``()``.
    own: tuple
    # Scratch of one thread: ``tables`` for weights, and what the structure's oracles need.
    work: tuple

    adds_by_columns = True


class ChoiceProblem(ItemProblem):
    """Samples whose labelling marks each item as chosen, 1, or not, 0."""


@inner_kernel(inline=True)
def counts_of(problem, i):
    """Numbers of items and of parts."""
    n = problem.item_ptr[i + 1] - problem.item_ptr[i]
    return n, problem.part_ptr[i + 1] - problem.part_ptr[i]


@potentials.register(ItemProblem)
@kernel
def _(problem, i, w, theta):
    n, n_parts = counts_of(problem, i)
    first = problem.item_ptr[i]
    scores(problem.items, first, first + n, 1, w.node, w, problem.work.tables.row, theta, 0)
    if problem.allowed.shape[0] > 0:
        for q in range(n):
            if problem.allowed[first + q] == 0:
                theta[q] = -math.inf
    for q in range(n, n_parts):
        theta[q] = 0.0


@accumulate.register(ItemProblem)
@kernel
def _(problem, i, r, c, w):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    add_outer(problem.items, first, stop, 1, r, 0, c, w.node, w, problem.work.tables.row)


@catch_up.register(ItemProblem)
@kernel
def _(problem, i, w, clock):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    catch_up_rows(problem.items, first, stop, w.node, clock.node, clock)


@gram.register(ItemProblem)
@kernel
def _(problem, i, r, out):
    first, stop = problem.item_ptr[i], problem.item_ptr[i + 1]
    items, table = problem.items, problem.work.tables.node
    gram_product(problem.item_gram, items, i, first, stop, 1, r, out, 0, table)
    n, n_parts = counts_of(problem, i)
    for q in range(n, n_parts):
        out[q] = 0.0


@add_indicator.register(ChoiceProblem)
@kernel
def _(problem, i, labels, c, mu):
    n, n_parts = counts_of(problem, i)
    for q in range(n):
        if labels[q] == 1:
            mu[q] += c
    for q in range(n, n_parts):
        mu[q] += c


@score.register(ChoiceProblem)
@kernel
def _(problem, i, theta, labels):
    n, n_parts = counts_of(problem, i)
    total = 0.0
    for q in range(n):
        if labels[q] == 1:
            total += theta[q]
    for q in range(n, n_parts):
        total += theta[q]
    return total


@augment.register(ChoiceProblem)
@kernel
def _(problem, i, theta):
    n, n_parts = counts_of(problem, i)
    first = problem.item_ptr[i]
    for q in range(n):
        theta[q] += problem.loss[first + q]
    for q in range(n, n_parts):
        theta[q] += problem.constant[i]


@task_loss.register(ChoiceProblem)
@kernel
def _(problem, i, labels):
    first = problem.item_ptr[i]
    total = problem.constant[i]
    for q in range(problem.item_ptr[i + 1] - first):
        if labels[q] == 1:
            total += problem.loss[first + q]
    return total
