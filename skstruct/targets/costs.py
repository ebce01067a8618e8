"""Costs of labellings: of nodes label by label, of items, of links, and of boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import augment, task_loss
from ..losses.task import LossWeights, add_label_costs, label_cost, node_costs

#: Labels of a problem without true labels.
NO_CODES = np.empty(0, dtype=np.int32)


class NodeCosts(NamedTuple):
    """The label of each node, and the cost of another one there.

    The default target of structures with labels of nodes.

    Parameters
    ----------
    label_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the nodes of each sample begin.
    labels : ndarray of shape (n_nodes,) of int32
        True labels; empty when unknown.
    cost : ndarray of shape (n_labels, n_labels)
        Task loss of predicting column k where the label is row j.
    normalize : int
        1 to divide the task loss by the number of nodes.
    weights : LossWeights
        Effect of weights of nodes, classes and sets of labels.
    """

    label_ptr: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    normalize: int
    weights: LossWeights


class LabelSetCosts(NodeCosts):
    """The same for label sets, whose nodes are labels: first the parts "on", then those "off"."""


class ItemCosts(NamedTuple):
    """Cost of choosing each item, and task loss of choosing nothing."""

    # (n_samples + 1,): Where the items and the parts of each sample begin: one part per item, then
    # perhaps one that every labelling has, then those of pairs.
    item_ptr: np.ndarray
    part_ptr: np.ndarray
    # (n_items or 0,), (n_samples or 0,): The costs.
    loss: np.ndarray
    constant: np.ndarray


@inner_kernel(inline=True)
def _nodes(target, i):
    """First node, number of nodes, and the factor of each in the task loss."""
    first = target.label_ptr[i]
    n = target.label_ptr[i + 1] - first
    return first, n, 1.0 / n if target.normalize == 1 else 1.0


@augment.register(NodeCosts)
@kernel
def _(target, i, theta):
    first, n, share = _nodes(target, i)
    cost, weights, n_labels = target.cost, target.weights, target.cost.shape[0]
    for t in range(n):
        y = target.labels[first + t]
        add_label_costs(cost, weights, share, first + t, y, theta, t * n_labels)


@task_loss.register(NodeCosts)
@kernel
def _(target, i, labels):
    first, n, share = _nodes(target, i)
    total = 0.0
    cost, weights = target.cost, target.weights
    for t in range(first, first + n):
        total += label_cost(cost, weights, share, t, target.labels[t], labels[t - first])
    return total


@augment.register(LabelSetCosts)
@kernel
def _(target, i, theta):
    first, n, share = _nodes(target, i)
    cost, weights = target.cost, target.weights
    for j in range(n):
        y = target.labels[first + j]
        theta[j] += label_cost(cost, weights, share, first + j, y, 1)
        theta[n + j] += label_cost(cost, weights, share, first + j, y, 0)


@augment.register(ItemCosts)
@kernel
def _(target, i, theta):
    first = target.item_ptr[i]
    n = target.item_ptr[i + 1] - first
    for q in range(n):
        theta[q] += target.loss[first + q]
    if target.part_ptr[i + 1] - target.part_ptr[i] > n:
        theta[n] += target.constant[i]


@task_loss.register(ItemCosts)
@kernel
def _(target, i, labels):
    first = target.item_ptr[i]
    total = target.constant[i]
    for q in range(target.item_ptr[i + 1] - first):
        if labels[q] == 1:
            total += target.loss[first + q]
    return total


def node_target(classes, codes, loss, label_ptr, kind=NodeCosts):
    """The true labels of nodes, if known, and the costs of errors."""
    cost, normalize, weights = node_costs(loss, classes)
    labels = NO_CODES if codes is None else codes
    return kind(label_ptr, labels, cost, int(normalize), weights)


# Kinds of pairs in the gold standard.
OTHER, SURE, POSSIBLE = 0, 1, 2


class LinkCosts(NamedTuple):
    """Costs of errors against the gold standard: exactly 0 for labellings that agree with it."""

    # As in ItemCosts: costs of linking each pair, and of no links.
    item_ptr: np.ndarray
    part_ptr: np.ndarray
    loss: np.ndarray
    constant: np.ndarray
    # (n_items or 0,): Kind of each pair in the gold standard.
    kind: np.ndarray
    # (n_samples or 0,): Costs of a missed sure link, and of a wrong link.
    missed: np.ndarray
    extra: np.ndarray
    # (n_samples or 0,): Cost of the training target, which counts as 0.
    base: np.ndarray


augment.register(LinkCosts)(augment.registry[ItemCosts])


@task_loss.register(LinkCosts)
@kernel
def _(target, i, labels):
    first, missed, extra = target.item_ptr[i], 0, 0
    for q in range(target.item_ptr[i + 1] - first):
        kind = target.kind[first + q]
        if labels[q] == 1:
            extra += 1 if kind == OTHER else 0
        else:
            missed += 1 if kind == SURE else 0
    # For the training target this is exactly 0; by rounding, others may be below.
    return max(0.0, target.missed[i] * missed + target.extra[i] * extra - target.base[i])
