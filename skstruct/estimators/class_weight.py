"""Weights of classes and of nodes, as weights of samples or in task losses."""

from __future__ import annotations

import numpy as np

from ..losses.task import UNWEIGHTED, LossWeights

_NONE = np.empty(0)


def read_node_weight(graph, class_weight, node_weight, samples, partial):
    """Return the weights of all nodes where these or class weights are given."""
    given = "class_weight" if node_weight is None else "node_weight"
    if partial is not None:
        raise ValueError(
            f"{given} needs a label for each node, but in y some are missing, or sets of labels"
        )
    if not graph.has_node_weights:
        raise ValueError(
            f"{given}: {type(graph).__name__} has no nodes with classes that could be weighted; "
            "sample_weight weighs samples, and `loss` says what errors cost"
        )
    if node_weight is None:
        return np.ones(int(samples.offsets[-1]))
    return graph.read_node_weight(node_weight, samples)


def weigh(data, graph, classes, class_weight, node_weight, loss_weights):
    """Return the training data weighted: as samples on tables with one node each, else as costs."""
    if not node_weight.any():
        raise ValueError("node_weight is 0 at all nodes of samples of nonzero sample_weight")
    counts = node_weight * np.repeat(data.sample_weight, data.samples.lengths)
    factor, class_factors = graph.read_class_weight(class_weight, classes, data.codes, counts)
    with np.errstate(over="ignore"):
        node_weight = node_weight * factor
        true = class_factors[np.arange(data.codes.size) % len(class_factors), data.codes]
        factor = node_weight * true
        if not np.isfinite(factor).all():
            raise ValueError("the product of class_weight and node_weight overflows")
        if graph.is_table and not graph.has_label_sets:
            data = data._replace(sample_weight=data.sample_weight * factor)
            return _kept(data, factor > 0)
    weights = loss_weights(node_weight, class_factors, true, data.codes)
    if all(part.size == 0 for part in weights):
        return data
    if loss_weights is hinge_weights:
        if not factor.any():
            raise ValueError("class_weight and node_weight leave no node of nonzero weight")
        return data._replace(loss_weights=weights)
    # A sample whose nodes have weight 0 has likelihood 1.
    keep = np.maximum.reduceat(node_weight, data.samples.offsets[:-1]) > 0
    if weights.offset.size:
        weights = weights._replace(offset=weights.offset[np.repeat(keep, data.samples.lengths)])
    return _kept(data, keep)._replace(loss_weights=weights)


def _kept(data, keep):
    """Return the samples where `keep` is True."""
    if keep.all():
        return data
    if not keep.any():
        raise ValueError("class_weight and node_weight leave no sample of nonzero weight")
    return data._replace(
        samples=data.samples.take(keep),
        codes=data.codes[np.repeat(keep, data.samples.lengths)],
        sample_weight=data.sample_weight[keep],
        sample_indices=data.sample_indices[keep],
    )


def hinge_weights(node_weight, class_factors, true, codes) -> LossWeights:
    """Return the weights of a structural SVM: each node's loss is multiplied."""
    factor = node_weight * true
    return UNWEIGHTED if (factor == 1.0).all() else UNWEIGHTED._replace(factor=factor)


def likelihood_weights(node_weight, class_factors, true, codes) -> LossWeights:
    """For CRFs: log-odds of classes (Menon et al. 2021, logit adjustment), logs of node weights."""
    if not (class_factors > 0).all():
        raise ValueError(
            "class_weight of a CRF must be positive where samples have several nodes; nodes of "
            "node_weight 0 do not count"
        )
    with np.errstate(divide="ignore"):
        offset, shift = np.log(node_weight), np.log(class_factors)
    if len(shift) > 1:
        other = class_factors[np.arange(codes.size) % len(class_factors), 1 - codes]
        offset = offset + (np.log(true) - np.log(other))
        shift = np.zeros((1, 1))
    return LossWeights(
        _NONE,
        offset if offset.any() else _NONE,
        _NONE if (shift == shift[0, 0]).all() else shift[0].copy(),
    )
