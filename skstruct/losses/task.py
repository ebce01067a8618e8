"""Task losses that add up over nodes: Hamming, per-class weights, a full cost matrix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel
from ..data.matrices import refuse_masked


class LossWeights(NamedTuple):
    """Weights of nodes and classes in costs; an empty array has no effect.

    Label k at node t of label y costs ``factor[t] cost[y, k] + shift[y] - shift[k]``, plus
    ``offset[t]`` if ``k != y``; at nodes without a single label, ``costs[choice[t], k]``.
    """

    # (n_nodes or 0,): Factors on the task loss, at least 0.
    factor: np.ndarray
    # (n_nodes or 0,): Additional cost of an error; may be negative. -inf: the node has its true
    # label.
    offset: np.ndarray
    # (n_labels or 0,): A number for each label, of any sign: see above.
    shift: np.ndarray
    # (n_nodes or 0,): A row of `costs`, or -1 for a node that has a label.
    choice: np.ndarray = np.empty(0, dtype=np.int32)
    # (n_choices, n_labels): Costs of labels where several are right: 0 for these.
    costs: np.ndarray = np.empty((0, 0))


_NONE = np.empty(0)
#: Weights without effect.
UNWEIGHTED = LossWeights(_NONE, _NONE, _NONE)


class WeightedLoss(NamedTuple):
    """A task loss and its weights."""

    # An argument of :func:`cost_matrix`, or None for costs of 0.
    loss: object
    # The weights.
    weights: LossWeights


def weighted(loss, weights: LossWeights):
    """A task loss for ``make_problem``, with weights if any."""
    return WeightedLoss(loss, weights) if any(part.size for part in weights) else loss


def node_costs(loss, classes: np.ndarray) -> tuple[np.ndarray, bool, LossWeights]:
    """Return ``cost, normalize`` of :func:`cost_matrix` of `loss`, and the ``LossWeights``."""
    loss, weights = loss if isinstance(loss, WeightedLoss) else (loss, UNWEIGHTED)
    if loss is None:
        return np.zeros((len(classes), len(classes))), False, weights
    return *cost_matrix(loss, classes), weights


@inner_kernel(inline=True)
def label_cost(cost, weights, share, t, y, k):
    """Return ``cost[y, k]`` weighted, of label k at node t of label y; 0 where k is y.

    `share` is the factor of the sample.
    """
    if weights.choice.shape[0] > 0 and weights.choice[t] >= 0:
        return share * weights.costs[weights.choice[t], k]
    total = share * cost[y, k]
    if weights.factor.shape[0] > 0:
        total *= weights.factor[t]
    if weights.shift.shape[0] > 0:
        total += weights.shift[y] - weights.shift[k]
    if weights.offset.shape[0] > 0 and k != y:
        total += weights.offset[t]
    return total


@inner_kernel(inline=True)
def add_label_costs(cost, weights, share, t, y, theta, begin):
    """Add :func:`label_cost` of all labels of node t to ``theta[begin:]``."""
    if weights.choice.shape[0] > 0 and weights.choice[t] >= 0:
        for k in range(cost.shape[0]):
            theta[begin + k] += share * weights.costs[weights.choice[t], k]
        return
    factor = share * weights.factor[t] if weights.factor.shape[0] > 0 else share
    for k in range(cost.shape[0]):
        theta[begin + k] += factor * cost[y, k]
    if weights.shift.shape[0] > 0:
        for k in range(cost.shape[0]):
            theta[begin + k] += weights.shift[y] - weights.shift[k]
    if weights.offset.shape[0] > 0:
        for k in range(cost.shape[0]):
            if k != y:
                theta[begin + k] += weights.offset[t]


class NamedLoss(NamedTuple):
    """A task loss and the name of its parameter, for error messages."""

    # An argument of :func:`cost_matrix`.
    loss: object
    # The parameter.
    name: str


def cost_matrix(loss, classes: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the matrix form of a task loss, and whether to divide by the number of nodes.

    The matrix (n_classes, n_classes) has the cost of (true class, predicted class). `loss` is
    "hamming", the number of wrong nodes; "normalized_hamming"; a mapping (or Series) from class to
    the cost of each wrong node of that class; or a matrix in the order of `classes` (a DataFrame:
    by its labels). Error messages call a :class:`NamedLoss` of one of these by its name. A
    ValueError if it is none of these, or an entry is negative, not finite, or not 0 on the
    diagonal.
    """
    loss, name = loss if isinstance(loss, NamedLoss) else (loss, "loss")
    n_classes = len(classes)
    hamming = _hamming(n_classes).copy()
    if isinstance(loss, str):
        if loss not in ("hamming", "normalized_hamming"):
            raise ValueError(
                f"{name} must be 'hamming', 'normalized_hamming', a mapping from class to cost or "
                f"a cost matrix, got {loss!r}"
            )
        return hamming, loss == "normalized_hamming"
    if hasattr(loss, "index") and hasattr(loss, "items") and getattr(loss, "ndim", 2) == 1:
        loss = dict(loss.items())
    if isinstance(loss, Mapping):
        unknown = [label for label in loss if label not in set(classes.tolist())]
        if unknown:
            raise ValueError(
                f"{name} has a cost for the unknown class {unknown[0]!r}; the classes are "
                f"{classes.tolist()[:30]}"
            )
        weights = _numbers([loss.get(label, 1.0) for label in classes.tolist()], name)
        return _checked(hamming * weights[:, None], n_classes, name), False
    if hasattr(loss, "columns"):
        loss = _in_order(loss, [*dict.fromkeys(classes.tolist())], name)
    labels = classes.tolist()
    known = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    cost = _checked(_numbers(loss, name), len(known), name)
    if len(known) < n_classes:  # labels of several states
        code = [known[label] for label in labels]
        cost = np.ascontiguousarray(cost[np.ix_(code, code)])
    return cost, False


@lru_cache(maxsize=16)
def _hamming(n_classes):
    """1 for all labels but the true one; cached for calls of predict."""
    return 1.0 - np.eye(n_classes)


def _in_order(frame, classes, name):
    """The costs of a DataFrame, rows and columns in the order of the classes."""
    if not hasattr(frame, "loc"):
        raise ValueError(
            f"{name}: this kind of frame has no labels of rows; pass {name}.to_numpy()"
        )
    for axis, labels in (("rows", frame.index.tolist()), ("columns", frame.columns.tolist())):
        if len(labels) != len(set(labels)) or set(labels) != set(classes):
            raise ValueError(
                f"{name}: the {axis} of the frame must be labelled with the classes {classes}, got "
                f"{labels}; for a cost matrix in their order pass {name}.to_numpy()"
            )
    return frame.loc[classes, classes].to_numpy()


def _numbers(costs, name):
    refuse_masked(costs, name)
    try:
        array = np.asarray(costs)
    except ValueError:
        raise ValueError(f"the rows of the cost matrix of {name} have different lengths") from None
    if array.dtype.kind not in "buifO":
        raise ValueError(f"the costs of {name} must be real numbers, their dtype is {array.dtype}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the costs of {name} must be real numbers: {error}") from None


def _checked(cost, n_classes, name):
    if cost.shape != (n_classes, n_classes):
        raise ValueError(
            f"the cost matrix of {name} has shape {cost.shape}, but there are {n_classes} classes"
        )
    if not np.isfinite(cost).all() or (cost < 0).any():
        raise ValueError(f"the cost matrix of {name} has a negative or non-finite entry")
    if np.diagonal(cost).any():
        raise ValueError(f"the cost matrix of {name} must be 0 on its diagonal")
    return np.ascontiguousarray(cost)
