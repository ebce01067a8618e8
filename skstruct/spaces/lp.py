"""Graphs of any number of labels by the LP relaxation, warm-started from stored messages."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import ends_of, longest_item
from ..core.oracles import add_indicator, max_oracle, relaxed_oracle, score
from ..inference.pairwise_lp import (
    LPScratch,
    PairwiseLP,
    lp_ascend,
    lp_edge_beliefs,
    lp_scratch,
    lp_smooth,
    lp_soft_sweep,
    lp_sweep,
)
from .pairwise import NetworkSpace, add_pair, expand_tables, pair_score, shape_of

# Entries of ``Messages.counts``.
VISITS, SWEEPS, SOFT_SWEEPS = range(3)
# A gap below this fraction of the scores is rounding.
_ROUNDING = 1e-10
# Tolerance of a visit as a fraction of the training gap, and its minimum in training.
_SHARE, _TRAINING = 0.1, 1e-300
# Maximum number of double sweeps, and of rounds of smoothed sweeps: in a single call, and in a
# training visit, from whose messages the next one starts.
_ALONE, _VISIT = (100, 60), (10, 10)
_ROUND = 10
# Smaller marginals of nodes are set to 0: they are due to the smoothing.
_SMALL = 1e-3


class Messages(NamedTuple):
    """The edges of each node, and what is stored of the last visits to samples."""

    # As in :class:`~skstruct.inference.pairwise_lp.PairwiseLP`, but nodes have indices over all
    # samples; edges within the sample.
    ptr: np.ndarray
    half: np.ndarray
    # (n_edges, 2, n_labels): The messages of all samples.
    delta: np.ndarray
    # (n_samples,): Smoothing of the last visit; 0 for none.
    gamma: np.ndarray
    # (1,): Tolerance: allowed difference of bound and value.
    slack: np.ndarray
    # (n_samples, 3): Visits, sweeps, smoothed sweeps.
    counts: np.ndarray
    # Weights of tree-reweighted marginals, see :func:`tree_weights`; else empty.
    weight: np.ndarray
    rest: np.ndarray

    #: Changes the cost of a visit, not its guarantees.
    is_memory = True

    def forget(self) -> None:
        """Delete what is stored of earlier visits."""
        for array in (self.delta, self.gamma, self.counts):
            array[...] = 0


class LPWork(NamedTuple):
    """Scratch of one thread."""

    # (n_nodes, n_labels): Finite scores of nodes.
    unary: np.ndarray
    # (n_tables, n_labels, n_labels): Finite scores of edges.
    full: np.ndarray
    flipped: np.ndarray
    # (n_edges, 2, n_labels): Stored messages of the sample, and temporary ones.
    delta: np.ndarray
    trial: np.ndarray
    # (n_nodes,): The best labelling.
    best: np.ndarray
    # Of the sweeps.
    lp: LPScratch
    # For tree-reweighted marginals. (n_nodes, n_labels): Those of the previous double sweep.
    before: np.ndarray
    # (n_nodes,): Entropies of nodes.
    entropy: np.ndarray
    # (1,): Slack of the marginals of the last visit.
    slack: np.ndarray


class LPSpace(NetworkSpace):
    """Graphs whose LP relaxation is solved by messages."""

    structure = "Pairwise by the LP relaxation"
    method, inference = "lp", "relaxed"

    @classmethod
    def make(cls, graph, samples, fields, network, n_best):
        """The space."""
        return cls.of(fields, network)

    @classmethod
    def of(cls, fields, network):
        """The space of these fields and edges."""
        offsets = fields["label_ptr"]
        n, m = longest_item(offsets), longest_item(network.ptr)
        n_labels, n_tables = len(network.column), int(fields["n_tables"].max(initial=1))
        work = LPWork(
            unary=np.zeros((n, n_labels)),
            full=np.zeros((n_tables, n_labels, n_labels)),
            flipped=np.zeros((n_tables, n_labels, n_labels)),
            delta=np.zeros((m, 2, n_labels)),
            trial=np.zeros((m, 2, n_labels)),
            best=np.zeros(n, dtype=np.int32),
            lp=lp_scratch(n, m, n_labels),
            before=np.zeros((n, n_labels)),
            entropy=np.zeros(n),
            slack=np.zeros(1),
        )
        return cls(**fields, own=network._replace(inference=_messages(network, offsets)), work=work)

    def set_target_gap(self, gap):
        """Set the oracle's tolerance to a tenth of the duality gap, and cap its sweeps."""
        self.own.inference.slack[0] = max(_SHARE * gap, _TRAINING)


@inner_kernel
def _largest(values, stop):
    """Largest finite magnitude."""
    top = 0.0
    for q in range(stop):
        size = abs(values[q])
        top = size if size > top and size < math.inf else top
    return top


@inner_kernel
def finite_model(space, i, theta, delta, least):
    """Sample i with finite scores, and the number that stands for -inf: below -8 times `least`."""
    own, work = space.own, space.work
    first, n, n_labels, n_tables = shape_of(space, i)
    e0, e1 = own.ptr[i], own.ptr[i + 1]
    square = n_labels * n_labels
    flat = work.full.reshape(-1)
    expand_tables(space, i, theta, flat)
    scale = n * _largest(theta, n * n_labels) + (e1 - e0) * _largest(flat, n_tables * square)
    low = -8.0 * (least + scale)
    for t in range(n):
        for k in range(n_labels):
            s = theta[t * n_labels + k]
            work.unary[t, k] = s if s > low else low
    for e in range(n_tables):
        for j in range(n_labels):
            for k in range(n_labels):
                s = work.full[e, j, k]
                work.full[e, j, k] = s if s > low else low
                work.flipped[e, k, j] = work.full[e, j, k]
    messages = own.inference
    p = PairwiseLP(
        work.unary[:n],
        work.full,
        work.flipped,
        own.table[e0:e1],
        own.ends[e0:e1],
        messages.ptr[first : first + n + 1],
        messages.half,
        delta[: e1 - e0],
    )
    return p, low


@inner_kernel
def _copy(source, target, stop):
    for e in range(stop):
        for side in range(2):
            for k in range(target.shape[2]):
                target[e, side, k] = source[e, side, k]


@inner_kernel
def _hard(space, i, p, bound, best, labels, most, slack):
    """Sweep forth and back until the bound meets a labelling, or stalls."""
    work = space.work
    found = work.best
    for r in range(most):
        before = bound
        for way in range(2):
            value = lp_sweep(p, way == 0, labels, work.lp)
            bound = value if value < bound else bound
            if way == 1 or r == 0:
                value = lp_ascend(p, 3, labels, work.lp)
                if value > best:
                    best = value
                    for t in range(p.unary.shape[0]):
                        found[t] = labels[t]
        space.own.inference.counts[i, SWEEPS] += 2.0
        if bound - best <= slack or before - bound < 0.1 * (bound - best):
            break
    return bound, best


@inner_kernel
def _soft(space, i, p, gamma):
    """Smoothed sweeps at one smoothing."""
    lp_smooth(p, gamma, space.work.lp)
    for r in range(_ROUND):
        lp_soft_sweep(p, gamma, r % 2 == 0, space.work.lp)
    space.own.inference.counts[i, SOFT_SWEEPS] += _ROUND


@inner_kernel
def add_square(space, theta, begin, square, mu):
    """Add marginals of an edge to its table, and return their score."""
    value = 0.0
    for j in range(square.shape[0]):
        for k in range(square.shape[0]):
            if square[j, k] > 0.0:
                value += square[j, k] * pair_score(space, theta, begin, j, k)
                add_pair(space, mu, begin, j, k, square[j, k])
    return value


@inner_kernel
def _sharpen(beliefs):
    """Set small marginals of a node to 0, and normalise."""
    total = 0.0
    for k in range(beliefs.shape[0]):
        beliefs[k] = beliefs[k] if beliefs[k] > _SMALL else 0.0
        total += beliefs[k]
    for k in range(beliefs.shape[0]):
        beliefs[k] /= total


@inner_kernel
def _point(space, i, theta, p, mu):
    """Write the point of the last smoothed sweep to `mu`, and return its score."""
    n, n_labels = p.unary.shape
    s = space.work.lp
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
        mu[q] = 0.0
    value = 0.0
    for t in range(n):
        _sharpen(s.beliefs[t])
        for k in range(n_labels):
            if s.beliefs[t, k] > 0.0:
                mu[t * n_labels + k] = s.beliefs[t, k]
                value += s.beliefs[t, k] * theta[t * n_labels + k]
    for e in range(p.ends.shape[0]):
        lp_edge_beliefs(p, e, s)
        begin = n * n_labels + p.table[e] * space.width
        value += add_square(space, theta, begin, s.square, mu)
    return value


@relaxed_oracle.register(LPSpace)
@kernel
def _(space, i, theta, labels, mu):
    work, messages = space.work, space.own.inference
    e0, e1 = space.own.ptr[i], space.own.ptr[i + 1]
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    kept = messages.delta[e0:e1]
    p, low = finite_model(space, i, theta, kept, 1.0)
    trial = PairwiseLP(
        p.unary, p.tables, p.flipped, p.table, p.ends, p.ptr, p.half, work.trial[: e1 - e0]
    )
    _copy(kept, work.trial, e1 - e0)
    slack = max(messages.slack[0], -_ROUNDING * low / 8.0)
    exact = messages.slack[0] == 0.0
    messages.counts[i, VISITS] += 1.0
    gamma = messages.gamma[i]
    budget = _ALONE if exact else _VISIT
    most = 2 if gamma > 0.0 else budget[0]
    bound, best = _hard(space, i, trial, math.inf, -math.inf, labels, most, slack)
    if gamma == 0.0:
        _copy(work.trial, kept, e1 - e0)
    if bound < 0.5 * low:
        return -math.inf, -math.inf
    value = -math.inf
    rounds = 0
    if bound - best > slack:
        top = 2.0 * (bound - best) / n
        gamma = top if gamma == 0.0 else min(gamma, top)
    while bound - max(best, value) > slack and rounds < budget[1]:
        last = value
        _soft(space, i, p, gamma)
        value = _point(space, i, theta, p, mu)
        _copy(kept, work.trial, e1 - e0)
        bound, best = _hard(space, i, trial, bound, best, labels, 1, slack)
        messages.gamma[i] = gamma
        if value - last < 0.1 * (bound - value):
            gamma = max(0.5 * gamma, 0.3 * (bound - max(best, value)) / n)
        rounds += 1
    for t in range(n):
        labels[t] = work.best[t] if best > 0.5 * low else -1
    if not value > best:
        if not best > 0.5 * low:
            return bound, -math.inf
        for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
            mu[q] = 0.0
        add_indicator(space, i, labels, 1.0, mu)
        value = score(space, i, theta, labels)
    return bound, min(value, bound)


@max_oracle.register(LPSpace)
@kernel
def _(space, i, theta, labels):
    work, messages = space.work, space.own.inference
    e0, e1 = space.own.ptr[i], space.own.ptr[i + 1]
    p, low = finite_model(space, i, theta, work.trial, 1.0)
    _copy(messages.delta[e0:e1], work.trial, e1 - e0)
    slack = -_ROUNDING * low / 8.0
    _, best = _hard(space, i, p, math.inf, -math.inf, labels, _ALONE[0], slack)
    if not best > 0.5 * low:
        return -math.inf
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        labels[t] = work.best[t]
    return score(space, i, theta, labels)


def _messages(network, offsets):
    """Return the edges of nodes, and messages initialised to 0."""
    n_edges, n_labels = np.diff(network.ptr), len(network.column)
    ends = (network.ends + np.repeat(offsets[:-1], n_edges)[:, None]).reshape(-1)
    counts = np.bincount(ends, minlength=int(offsets[-1]))
    half = np.argsort(ends, kind="stable")
    half -= 2 * np.repeat(network.ptr[:-1], n_edges)[half // 2]
    return Messages(
        ptr=ends_of(counts),
        half=half.astype(np.int32),
        delta=np.zeros((len(network.ends), 2, n_labels)),
        gamma=np.zeros(len(n_edges)),
        slack=np.zeros(1),
        counts=np.zeros((len(n_edges), 3)),
        weight=np.empty(0),
        rest=np.empty(0),
    )
