"""Labellings that are made of segments: semi-Markov chains."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.memory import check_memory
from ..core.oracles import add_indicator, chunk_marginals, exp_oracle, forbid, score
from ..inference.arcs import Arcs, log_given_next
from ..inference.numerics import fast_exp
from .labels import LabelScratch, LabelSpace, forbid_labels
from .n_best import n_best_scratch
from .paths import (
    PathScratch,
    path_scratch,
    read_arcs,
    register_paths,
    write_marginals,
    write_path,
)


class SegmentTable(NamedTuple):
    """What segments there may be: the field ``own`` of the space.

    Arcs are pieces: a segment of a kind, or one more node of a kind whose longest piece has been
    used up (a tail). Their left class is the kind, or that of the tail; the right class tells which
    tail may follow.
    """

    # The pieces of the longest sample: those of a sample of n nodes come first.
    arcs: Arcs
    # (n_kinds + n_tails,): Labels of the first and of the other nodes of a piece, and its kind.
    first: np.ndarray
    further: np.ndarray
    base: np.ndarray
    # (n_labels,): Kind of each label, and whether it always begins a segment.
    kind: np.ndarray
    opens: np.ndarray
    # (n_kinds,): Longest piece, 0 for single nodes in any number; class of the tail, or -1.
    limit: np.ndarray
    tail: np.ndarray
    # (n_kinds, n_kinds): 0, or -inf for kinds that may not be neighbours.
    mask: np.ndarray
    # (longest, n_basis): Functions of the length; without columns each length has its weight.
    basis: np.ndarray


class SegmentScratch(NamedTuple):
    """Scratch of one thread."""

    paths: PathScratch
    # (n_classes, n_classes): Scores of connections, and how often each is used.
    table: np.ndarray
    used: np.ndarray
    # (n_classes,): Sums of one vertex.
    more: np.ndarray
    # (n_kinds, longest): Of each length.
    lengths: np.ndarray


@register_paths
class SegmentSpace(LabelSpace):
    """Sequences of labels that fall into segments, one way only.

    Parts of a sample of n nodes: those of the nodes; perhaps a row for each segment, sorted by
    where it ends, then by length, in which the first label of a kind stands for it; and those of
    neighbouring kinds, of lengths and of tails, added up over the sample.
    """

    structure = "SemiChain"

    @property
    def n_tables(self) -> np.ndarray:
        """Rows of added parts: one in each sample."""
        return np.ones(self.part_ptr.size - 1, dtype=np.int64)

    @property
    def width(self) -> int:
        """Parts of such a row."""
        n_kinds, (longest, n_basis) = self.own.limit.size, self.own.basis.shape
        return n_shared(n_basis or longest, n_kinds, self.own.base.size - n_kinds)


def n_shared(n_lengths: int, n_kinds: int, n_tails: int) -> int:
    """Number of parts that are added up over a sample: the width of the pair table."""
    return n_kinds * (n_kinds + n_lengths) + n_tails


def n_segments(lengths: np.ndarray, longest: int) -> np.ndarray:
    """Number of segments of at most `longest` nodes of samples of such lengths."""
    short = np.minimum(lengths, longest)
    return short * (short + 1) // 2 + (lengths - short) * longest


def segment_table(kinds, limits, tails, mask, basis, n: int) -> SegmentTable:
    """The table for samples of at most n nodes; `tails` are the kinds with a tail."""
    base = np.append(np.arange(limits.size), tails)
    after = np.arange(base.size)
    after[tails] = after[limits.size :]
    most = np.append(np.maximum(limits, 1), np.ones(len(tails), dtype=np.int64))
    n_arcs = int(sum(n_segments(np.array([n]), own)[0] for own in most))
    check_memory(
        64 * n_arcs + n * len(basis) * base.size,
        f"the {n_arcs:,} segments of a sample of {n:,} nodes",
        "lower max_length, or cut long samples",
    )
    size = np.arange(1, len(basis) + 1)[:, None]
    vertex, length, left = np.nonzero((size <= np.arange(n + 1)[:, None, None]) & (size <= most))
    begin, right = vertex - length - 1, np.where(length + 1 == most[left], after[left], left)
    ptr = np.searchsorted(vertex, np.arange(n + 2))
    left, right, begin = (own.astype(np.int32) for own in (left, right, begin))
    return SegmentTable(
        arcs=Arcs(ptr, begin, left, right),
        first=np.append(kinds.first, kinds.further[tails]),
        further=np.append(kinds.further, kinds.further[tails]),
        base=base,
        kind=kinds.of_label,
        opens=kinds.opens.astype(np.uint8),
        limit=limits,
        tail=np.where(after > base, after, -1)[: limits.size],
        mask=mask,
        basis=basis,
    )


def segment_scratch(
    own: SegmentTable, part_ptr: np.ndarray, label_ptr: np.ndarray, n_best: int
) -> LabelScratch:
    """Scratch for the samples of a table."""
    n_vertices, n_arcs, n = own.arcs.ptr.size - 1, own.arcs.begin.size, own.base.size
    scratch = SegmentScratch(
        path_scratch(n_vertices, n_arcs, n, n, n_best),
        *map(np.empty, ((n, n), (n, n), n, (own.limit.size, len(own.basis)))),
    )
    # Max-marginals are found by maxima under forced labels.
    forced = n_best_scratch(part_ptr, label_ptr, own.kind.size, max(n_best, 2))
    return LabelScratch(np.empty(0), forced, scratch)


@inner_kernel(inline=True)
def _shape(space, i):
    """Numbers of nodes and labels, and where the parts of steps, lengths and tails begin."""
    own, n = space.own, space.label_ptr[i + 1] - space.label_ptr[i]
    n_kinds, n_tails = own.limit.shape[0], own.base.shape[0] - own.limit.shape[0]
    n_lengths = own.basis.shape[1] if own.basis.shape[1] > 0 else own.basis.shape[0]
    tails = space.part_ptr[i + 1] - space.part_ptr[i] - n_tails
    lengths = tails - n_kinds * n_lengths
    return n, space.allowed.shape[1], lengths - n_kinds * n_kinds, lengths, tails


@inner_kernel(inline=True)
def _row(n, stop, length, longest):
    """Row of a segment among all rows of a sample of n nodes."""
    before = stop - 1 if stop - 1 < longest else longest
    return n + before * (before + 1) // 2 + (stop - 1 - before) * longest + length - 1


@forbid.register(SegmentSpace)
@kernel
def _(space, i, theta):
    _, _, steps, _, _ = _shape(space, i)
    mask = space.own.mask
    for a in range(mask.shape[0]):
        for b in range(mask.shape[0]):
            theta[steps + a * mask.shape[0] + b] += mask[a, b]
    forbid_labels(space, i, theta)


# From labels to parts.


@inner_kernel(inline=True)
def _visit(mu, theta, q, c):
    """Add c to part q of `mu`; where that is empty, return c times its score."""
    if mu.shape[0] > 0:
        mu[q] += c
        return 0.0
    return c * theta[q]


@inner_kernel(inline=True)
def _visit_length(own, at, kind, length, mu, theta, c):
    """The same for the parts of a length of a kind; those of lengths begin at `at`."""
    n_basis, total = own.basis.shape[1], 0.0
    if n_basis == 0:
        total = _visit(mu, theta, at + kind * own.basis.shape[0] + length - 1, c)
    for f in range(n_basis):
        total += _visit(mu, theta, at + kind * n_basis + f, c * own.basis[length - 1, f])
    return total


@inner_kernel
def _visit_all(space, i, labels, mu, theta, c):
    """The same for all parts of a labelling."""
    own, total = space.own, 0.0
    n, n_labels, steps, lengths, tails = _shape(space, i)
    t, before, n_kinds, longest = 0, -1, own.limit.shape[0], own.basis.shape[0]
    while t < n:
        kind, stop = own.kind[labels[t]], t + 1
        limit = own.limit[kind]
        while stop < n and limit > 0:
            if own.kind[labels[stop]] != kind or own.opens[labels[stop]] != 0:
                break
            stop += 1
        size = limit if 0 < limit < stop - t else stop - t
        for u in range(t, stop):
            total += _visit(mu, theta, u * n_labels + labels[u], c)
        if before >= 0:
            total += _visit(mu, theta, steps + before * n_kinds + kind, c)
        if limit > 0:
            total += _visit_length(own, lengths, kind, size, mu, theta, c)
        if steps > n * n_labels:
            row = _row(n, t + size, size, longest)
            total += _visit(mu, theta, row * n_labels + own.first[kind], c)
        if own.tail[kind] >= 0:
            more = c * (stop - t - size)
            total += _visit(mu, theta, tails + own.tail[kind] - n_kinds, more)
        t, before = stop, kind
    return total


@add_indicator.register(SegmentSpace)
@kernel
def _(space, i, labels, c, mu):
    _visit_all(space, i, labels, mu, mu[:0], c)


@score.register(SegmentSpace)
@kernel
def _(space, i, theta, labels):
    return _visit_all(space, i, labels, theta[:0], theta, 1.0)


# Between parts and arcs.


@read_arcs.register(SegmentSpace)
@kernel
def _(space, i, theta, mu):
    own, work, arcs = space.own, space.work.own, space.own.arcs
    scores = work.paths.scores
    n, n_labels, steps, lengths, tails = _shape(space, i)
    n_kinds, n_classes, longest = own.limit.shape[0], own.base.shape[0], own.basis.shape[0]
    for j in range(n_classes):
        for k in range(n_kinds):
            work.table[j, k] = theta[steps + own.base[j] * n_kinds + k]
        for k in range(n_kinds, n_classes):
            work.table[j, k] = 0.0 if j == k else -math.inf
    for kind in range(n_kinds):
        for m in range(own.limit[kind]):
            work.lengths[kind, m] = _visit_length(own, lengths, kind, m + 1, theta[:0], theta, 1.0)
    has_rows = steps > n * n_labels
    for v in range(1, n + 1):
        for k in range(n_classes):
            work.more[k] = 0.0
        for q in range(arcs.ptr[v], arcs.ptr[v + 1]):
            k, t = arcs.left[q], arcs.begin[q]
            value = work.more[k] + theta[t * n_labels + own.first[k]]
            work.more[k] += theta[t * n_labels + own.further[k]]
            if k >= n_kinds:  # not at the first node
                value += theta[tails + k - n_kinds] if t > 0 else -math.inf
            elif has_rows:
                value += theta[_row(n, v, v - t, longest) * n_labels + own.first[k]]
            if k < n_kinds and own.limit[k] > 0:
                value += work.lengths[k, v - t - 1]
            scores[q] = value
    used = work.used if mu.shape[0] > 0 else work.used[:0]
    return (arcs, n, scores, work.table), 0.0, used, work.paths


@write_path.register(SegmentSpace)
@kernel
def _(space, i, last, path, labels):
    own = space.own
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i] if last == 0 else 0):
        labels[t] = 0
    while last > 0:
        q = path[last]
        t, k = own.arcs.begin[q], own.arcs.left[q]
        labels[t] = own.first[k]
        for u in range(t + 1, last):
            labels[u] = own.further[k]
        last = t


@write_marginals.register(SegmentSpace)
@kernel
def _(space, i, mu):
    own, work, arcs = space.own, space.work.own, space.own.arcs
    n, n_labels, steps, lengths, tails = _shape(space, i)
    n_kinds, n_classes, longest = own.limit.shape[0], own.base.shape[0], own.basis.shape[0]
    for j in range(n_classes):
        for k in range(n_kinds):
            mu[steps + own.base[j] * n_kinds + k] += work.used[j, k]
    has_rows = steps > n * n_labels
    for kind in range(n_kinds):
        for m in range(longest):
            work.lengths[kind, m] = 0.0
    for v in range(1, n + 1):
        for k in range(n_classes):
            work.more[k] = 0.0
        for q in range(arcs.ptr[v + 1] - 1, arcs.ptr[v] - 1, -1):
            k, t, p = arcs.left[q], arcs.begin[q], work.paths.marginals[q]
            mu[t * n_labels + own.first[k]] += p
            mu[t * n_labels + own.further[k]] += work.more[k]
            work.more[k] += p
            if k >= n_kinds:
                mu[tails + k - n_kinds] += p
            elif has_rows:
                mu[_row(n, v, v - t, longest) * n_labels + own.first[k]] += p
            if k < n_kinds and own.limit[k] > 0:
                work.lengths[k, v - t - 1] += p
    for kind in range(n_kinds):
        for m in range(own.limit[kind]):
            _visit_length(own, lengths, kind, m + 1, mu, mu[:0], work.lengths[kind, m])


# Probabilities of chunks.


@inner_kernel
def _piece(space, start, v, kind):
    """The last arc of the segment of a kind from `start` to v, or the run of nodes; -1: none."""
    own, arcs = space.own, space.own.arcs
    k, begin = kind, start
    if v - start > max(own.limit[kind], 1):
        k, begin = own.tail[kind] if own.limit[kind] > 0 else kind, v - 1
    for q in range(arcs.ptr[v], arcs.ptr[v + 1]):
        if arcs.begin[q] == begin and arcs.left[q] == k:
            return q
    return -1


@inner_kernel
def _given_next(space, log_z, q, v, k):
    """Probability of an arc given what follows."""
    own, work = space.own, space.work.own
    rest = work.paths.scores, work.table, 1.0, log_z, work.paths.arcs
    value = log_given_next(own.arcs, *rest, q, v, k)
    return fast_exp(value) if value > -math.inf else 0.0


@inner_kernel
def _chunk_probability(space, n, log_z, start, stop, kind):
    """Probability of a segment, or of a run of single nodes, that no neighbour continues."""
    own, work, arcs = space.own, space.work.own.paths.arcs, space.own.arcs
    q, single, share = _piece(space, start, stop, kind), own.limit[kind] == 0, 0.0
    if q < 0:
        return 0.0
    if stop == n:
        share = _given_next(space, log_z, q, n, -1)
    for k in range(own.base.shape[0] if stop < n else 0):
        goes_on = k == own.tail[kind] or (single and k == kind)
        if not goes_on and work.rest[stop, k] > 0.0:
            share += work.rest[stop, k] * _given_next(space, log_z, q, stop, k)
    while arcs.begin[q] > start:
        v, k = arcs.begin[q], arcs.left[q]
        q = _piece(space, start, v, kind)
        share *= _given_next(space, log_z, q, v, k)
    if single and start > 0:
        q = _piece(space, start - 1, start, kind)
        share *= max(1.0 - _given_next(space, log_z, q, start, kind), 0.0)
    return share


@chunk_marginals.register(SegmentSpace)
@kernel
def _(space, i, theta, rules, chunks, mu, out):
    value = exp_oracle(space, i, theta, 1.0, mu)
    own, n, n_labels = space.own, space.label_ptr[i + 1] - space.label_ptr[i], rules.kind.shape[0]
    for c in range(chunks.shape[0] if value > -math.inf else 0):
        out[c] = 0.0
        for kind in range(own.limit.shape[0]):
            first = own.first[kind]
            # "O" begins none, though its kind is that of "B" alone.
            if rules.kind[first] == chunks[c, 2] and rules.misses[n_labels, first] == 0.0:
                start, stop = chunks[c, 0], chunks[c, 1]
                out[c] += _chunk_probability(space, n, value, start, stop, kind)
    return value
