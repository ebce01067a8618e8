"""Graphs of any number of labels by tree-reweighted marginals, for training CRFs."""

from __future__ import annotations

import math

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import edge_marginals, exp_oracle, exp_slack
from ..inference.pairwise_lp import (
    lp_edge_beliefs,
    lp_smooth,
    lp_soft_sweep,
    reweighted_bound,
    reweighted_value,
)
from .lp import LPSpace, add_square, finite_model

# Relative tolerance of marginals, and maximum number of double sweeps.
_ACCURACY, _MOST = 1e-9, 400
# Change of marginals in a double sweep at which they are first compared with the bound, its factor
# after each failed comparison, and maximum number of sweeps with the same factors of messages.
_FIRST, _FALL, _ROUND = 1e-4, 0.2, 40
# A score this far below all others counts as -inf.
_LEAST = 100.0
# Rounds of raising the edge appearance probabilities.
_RAISES = 50


def tree_weights(first, second, n_nodes):
    """Fraction of forests that each edge is in, and in which a node has no later neighbour."""
    # The forests are chains along which node numbers grow.
    earlier, later = np.minimum(first, second), np.maximum(first, second)
    n_before = np.bincount(later, minlength=n_nodes)
    n_after = np.bincount(earlier, minlength=n_nodes)
    weight = np.zeros(earlier.size)
    for _ in range(_RAISES):
        # Distribute the remaining probability evenly: each edge gets the smaller amount of its two
        # ends.
        before = 1.0 - np.bincount(later, weight, n_nodes)
        after = 1.0 - np.bincount(earlier, weight, n_nodes)
        for_each = (
            (before / np.maximum(n_before, 1))[later],
            (after / np.maximum(n_after, 1))[earlier],
        )
        weight += np.maximum(np.minimum(*for_each), 0.0)
    rest = 1.0 - np.bincount(earlier, weight, n_nodes)
    return weight, np.maximum(rest, 0.0)


class ReweightedSpace(LPSpace):
    """Graphs with a tree-reweighted bound on the log-partition; labellings are from the LP."""

    structure = "Pairwise by tree-reweighted marginals"
    method = "tree-reweighted"

    @classmethod
    def make(cls, graph, samples, fields, network, n_best):
        """The space, or the reason why not."""
        if np.isneginf(fields["transition_mask"]).any():
            return "tree-reweighted marginals cannot rule out forbidden pairs of labels"
        made = super().make(graph, samples, fields, network, n_best)
        weight, rest = tree_weights(*samples.global_ends(), int(samples.offsets[-1]))
        trees = made.own.inference._replace(weight=weight, rest=rest)
        return made._replace(own=made.own._replace(inference=trees))


@inner_kernel
def _change(beliefs, before):
    """Return the largest change of a marginal, and store the new ones."""
    largest = 0.0
    for t in range(beliefs.shape[0]):
        for k in range(beliefs.shape[1]):
            change = abs(beliefs[t, k] - before[t, k])
            largest = change if change > largest else largest
            before[t, k] = beliefs[t, k]
    return largest


@inner_kernel
def _rule_out(beliefs, unary, low):
    """Set the probability of labels that score ``low`` to exactly 0."""
    for t in range(unary.shape[0]):
        total = 0.0
        for k in range(unary.shape[1]):
            beliefs[t, k] = 0.0 if unary[t, k] <= low else beliefs[t, k]
            total += beliefs[t, k]
        for k in range(unary.shape[1]):
            beliefs[t, k] = beliefs[t, k] / total if total > 0.0 else 0.0


@inner_kernel
def _solve(space, i, theta, temperature):
    """Sweep over the graph of sample i, from messages of 0; return it, and its bound."""
    work, s = space.work, space.work.lp
    first, e0 = space.label_ptr[i], space.own.ptr[i]
    p, low = finite_model(space, i, theta, work.trial, _LEAST)
    n = p.unary.shape[0]
    rest = space.own.inference.rest[first : first + n]
    for scores in (p.unary.reshape(-1), p.tables.reshape(-1), p.flipped.reshape(-1)):
        for q in range(scores.shape[0]):
            scores[q] /= temperature
    p.delta[:] = 0.0
    work.before[:n] = 0.0
    n_edges = p.ends.shape[0]
    for e in range(n_edges):
        s.temper[e] = space.own.inference.weight[e0 + e]
    bound, value, target = math.inf, -math.inf, _FIRST
    sweeps = 0
    lp_smooth(p, 0.0, s)
    while sweeps < _MOST:
        lp_soft_sweep(p, 0.0, False, s)
        lp_soft_sweep(p, 0.0, True, s)
        sweeps += 1
        if _change(s.beliefs[:n], work.before) < target or sweeps == _MOST or n_edges == 0:
            _rule_out(s.beliefs, p.unary, low / temperature)
            bound, value = reweighted_bound(p, rest, s), reweighted_value(p, work.entropy, s)
            if bound - value <= _ACCURACY * (1.0 + abs(bound)):
                break
            target *= _FALL
        if sweeps % _ROUND == 0:
            lp_smooth(p, 0.0, s)
    work.slack[0] = temperature * max(bound - value, 0.0)
    return p, temperature * bound, low


@inner_kernel
def _write(space, i, theta, p, mu):
    """The marginals of the last visit."""
    n, n_labels = p.unary.shape
    s = space.work.lp
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
        mu[q] = 0.0
    for t in range(n):
        for k in range(n_labels):
            mu[t * n_labels + k] = s.beliefs[t, k]
    for e in range(p.ends.shape[0]):
        lp_edge_beliefs(p, e, s)
        add_square(space, theta, n * n_labels + p.table[e] * space.width, s.square, mu)


@exp_oracle.register(ReweightedSpace)
@kernel
def _(space, i, theta, temperature, mu):
    p, bound, low = _solve(space, i, theta, temperature)
    if bound < 0.5 * low:
        return -math.inf
    if mu.shape[0] > 0:
        _write(space, i, theta, p, mu)
    return bound


@edge_marginals.register(ReweightedSpace)
@kernel
def _(space, i, theta, mu, out):
    p, bound, low = _solve(space, i, theta, 1.0)
    if bound < 0.5 * low:
        return -math.inf
    _write(space, i, theta, p, mu)
    s, square = space.work.lp, space.allowed.shape[1] ** 2
    for e in range(p.ends.shape[0]):
        lp_edge_beliefs(p, e, s)
        flat = s.square.reshape(-1)
        for q in range(square):
            out[e * square + q] = flat[q]
    return bound


@exp_slack.register(ReweightedSpace)
@kernel
def _(space):
    return space.work.slack[0]
