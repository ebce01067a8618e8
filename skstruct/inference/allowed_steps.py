"""Chains most of whose steps are forbidden: Viterbi and sum-product over the others.

The next labels are in groups of 24 neighbours, three vectors of eight. Each group lists the labels
from which an allowed step leads to any of its own, and no other step is looked at: a band of
transitions has the labels of the band, a tagging scheme those of whole tags.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.features import begins_of, largest_by_8, sum_near_by_8
from ..core.intrinsics import largest_of_8
from ..core.jit.kernels import inner_kernel, kernel
from .numerics import draw, fast_exp, fast_log
from .viterbi import best_back, n_best_back

_WIDTH = 24
# Sums above it have lost nothing to underflow.
_SMALLEST_SUM = 1e-100


class AllowedSteps(NamedTuple):
    """Scores of steps from labels (rows) to labels (columns), at least 8, and the allowed ones."""

    # (n_labels, n_labels): Scores, -inf for forbidden steps.
    table: np.ndarray
    # (n_groups + 1,) of int64, and (n_listed,) of int32: The labels that lead to each group.
    ptr: np.ndarray
    before: np.ndarray
    # The same: The groups that these labels are in.
    near_ptr: np.ndarray
    near: np.ndarray

    @property
    def share(self) -> float:
        """The fraction of all steps that are looked at."""
        return self.before.size / (self.table.shape[1] * (self.ptr.size - 1))


def allowed_steps(table) -> AllowedSteps:
    """The steps of a table that are not -inf."""
    n_labels = len(table)
    # The last group may be narrow: its vectors begin within the group before.
    first = np.arange(0, n_labels, _WIDTH)
    is_allowed = (table > -np.inf).T
    leads = np.array([is_allowed[min(q, n_labels - 8) : q + _WIDTH].any(axis=0) for q in first])
    near = np.logical_or.reduceat(leads, first, axis=1)
    lists = []
    for rows in (leads, near):
        lists += [np.append(0, np.cumsum(rows.sum(axis=1))), np.nonzero(rows)[1].astype(np.int32)]
    return AllowedSteps(np.ascontiguousarray(table), *lists)


class StepScratch(NamedTuple):
    """Scratch of the sums over steps in one direction; rows are padded to whole groups."""

    # (n_labels, width): Exponentials of the scores less their maximum.
    factors: np.ndarray
    # (2,): What scores were multiplied by before, 0 for nothing yet, and that maximum.
    known: np.ndarray
    # (n_groups,): Largest message of each group.
    tops: np.ndarray
    # (width,): Exponentials of messages less the largest of their group, or of those that lead to
    # one group; zeros.
    powers: np.ndarray
    weights: np.ndarray
    zeros: np.ndarray
    # (n_nodes, width): Logarithms of the sums over the labels of all nodes on one side, up to a
    # constant for each node.
    sums: np.ndarray


def step_scratch(steps, n_nodes) -> StepScratch:
    """Scratch for chains of at most `n_nodes` nodes."""
    n_groups = steps.ptr.size - 1
    width = n_groups * _WIDTH
    factors, known, tops = np.zeros((steps.table.shape[1], width)), np.zeros(2), np.zeros(n_groups)
    return StepScratch(factors, known, tops, *np.zeros((3, width)), np.empty((n_nodes, width)))


@inner_kernel(inline=True)
def best_step(score, steps, unary, t, out):
    """``out[k] = max_j score[j] + table[j, k]``, plus the potential of label k at node t."""
    table, n_labels = steps.table, steps.table.shape[1]
    for g in range(steps.ptr.shape[0] - 1):
        begins, first, stop = begins_of(_WIDTH * g, n_labels - 8), steps.ptr[g], steps.ptr[g + 1]
        largest_by_8(score, steps.before, first, stop, 0, table, unary, t, out, begins)


@inner_kernel(inline=True)
def _forward_best(unary, steps, scratch):
    """``best[t, k]``: the largest score up to t with k last; the way back skips no label."""
    n, n_labels = unary.shape
    best, kept = scratch.best, scratch.kept
    for t in range(n):
        kept[t, n_labels] = n_labels
        for k in range(n_labels):
            kept[t, k] = k
        if t > 0:
            best_step(best[t - 1], steps, unary, t, best[t])
        else:
            for k in range(n_labels):
                best[0, k] = unary[0, k]


@kernel
def best_allowed(unary, steps, labels, scratch):
    """Best labelling of a chain; `scratch` is that of Viterbi decoding."""
    n, n_labels = unary.shape
    _forward_best(unary, steps, scratch)
    return best_back(steps.table.reshape(1, n_labels, n_labels), n, labels, scratch)


@kernel
def n_best_allowed(unary, steps, values, labels, scratch):
    """The n best labellings, as :func:`~skstruct.inference.viterbi.viterbi_top_k`."""
    n_labels = unary.shape[1]
    _forward_best(unary, steps, scratch)
    tables = steps.table.reshape(1, n_labels, n_labels)
    n_best_back(unary, tables, values, labels, scratch)


@inner_kernel
def _fill_factors(steps, inverse, work):
    """Exponentials of the steps that are looked at, unless they are known."""
    if work.known[0] == inverse:
        return
    table, high, n_labels = steps.table, -math.inf, steps.table.shape[1]
    for fills in range(2):
        for g in range(work.tops.shape[0]):
            first, stop = _WIDTH * g, min(_WIDTH * g + _WIDTH, n_labels)
            for p in range(steps.ptr[g], steps.ptr[g + 1]):
                row, out = table[steps.before[p]], work.factors[steps.before[p]]
                for k in range(first, stop if fills else first):
                    out[k] = fast_exp(row[k] * inverse - high)
                for k in range(first, first if fills else stop):
                    high = max(high, row[k] * inverse)
    work.known[0], work.known[1] = inverse, high


@inner_kernel
def _log_column(steps, first, stop, message, inverse, k):
    """``log sum_j exp(message[j] + table[j, k] * inverse)``, whatever the scores."""
    table, top, total = steps.table, -math.inf, 0.0
    for p in range(first, stop):
        j = steps.before[p]
        top = max(top, message[j] + table[j, k] * inverse)
    for p in range(first, stop if top > -math.inf else first):
        j = steps.before[p]
        total += fast_exp(min(message[j] + table[j, k] * inverse - top, 0.0))
    return top + math.log(max(total, 1.0))  # rounding of huge scores may lose the largest


@inner_kernel(inline=True)
def _advance(steps, message, level, inverse, work, out):
    """``out[k] = log sum_j exp(message[j] - level + table[j, k] * inverse - high)``, tops given."""
    # Messages of far labels may differ by more than a float holds: exponentials are those less the
    # largest message of a group of labels, then of the groups that lead to one. A sum that is too
    # small all the same is added up on logarithms.
    powers, weights, factors = work.powers, work.weights, work.factors
    n_labels = factors.shape[0]
    for b in range(work.tops.shape[0]):
        shift, first = work.tops[b] if work.tops[b] > -math.inf else 0.0, _WIDTH * b
        for k in range(_WIDTH):
            powers[first + k] = fast_exp(message[first + k] - shift)
    for g in range(work.tops.shape[0]):
        first, top, is_small = _WIDTH * g, -math.inf, False
        for q in range(steps.near_ptr[g], steps.near_ptr[g + 1]):
            top = max(top, work.tops[steps.near[q]])
        for q in range(steps.near_ptr[g], steps.near_ptr[g + 1] if top > -math.inf else 0):
            begin, scale = _WIDTH * steps.near[q], fast_exp(work.tops[steps.near[q]] - top)
            for k in range(_WIDTH):
                weights[begin + k] = scale * powers[begin + k]
        listed = steps.before, steps.ptr[g], steps.ptr[g + 1] if top > -math.inf else steps.ptr[g]
        begins, back = (first, first + 8, first + 16), top - level
        sum_near_by_8(weights, *listed, 0, factors, factors, -1, out, begins)
        for k in range(_WIDTH):
            total = out[first + k]
            is_small |= not total > _SMALLEST_SUM
            out[first + k] = fast_log(total) + back
        for k in range(first, first + _WIDTH if is_small else first):
            if not out[k] > math.log(_SMALLEST_SUM) + back:
                out[k] = -math.inf
                if k < n_labels:
                    found = _log_column(steps, *listed[1:], message, inverse, k)
                    out[k] = found - (level + work.known[1])


@inner_kernel(inline=True)
def _own(potentials, inverse, work):
    """Write potentials of a node, less their largest, to `weights`; returns that."""
    # Without it sums keep their digits where all labels of a node have a huge score.
    n_labels, high = potentials.shape[0], -math.inf
    for q in range(0, n_labels, 8):
        high = max(high, largest_of_8(potentials, work.zeros, min(q, n_labels - 8)))
    high = high if high > -math.inf else 0.0
    for k in range(n_labels):
        work.weights[k] = (potentials[k] - high) * inverse
    return high * inverse


@inner_kernel(inline=True)
def _find_tops(row, work):
    """Write the largest entry of each group, and return that of all."""
    level = -math.inf
    for b in range(work.tops.shape[0]):
        top = -math.inf
        for q in range(_WIDTH * b, _WIDTH * b + _WIDTH, 8):
            top = max(top, largest_of_8(row, work.zeros, q))
        work.tops[b] = top
        level = max(level, top)
    return level


@inner_kernel
def _sweep(unary, steps, inverse, work, step):
    """Sums up to each node from the first (step 1) or the last (-1); returns the log-partition."""
    n, n_labels = unary.shape
    sums, begin, log_z, level, total = work.sums, 0 if step > 0 else n - 1, 0.0, 0.0, 0.0
    _fill_factors(steps, inverse, work)
    for q in range(n):
        t = begin + step * q
        if q == 0:
            for k in range(sums.shape[1]):
                sums[t, k] = 0.0 if k < n_labels else -math.inf
        else:
            _advance(steps, sums[t - step], level, inverse, work, sums[t])
            log_z += work.known[1]
        log_z += _own(unary[t], inverse, work)
        for k in range(n_labels):
            sums[t, k] += work.weights[k]
        level = _find_tops(sums[t], work)
        if not level > -math.inf:
            return level
        log_z += level
    last = sums[begin + step * (n - 1)]
    for k in range(n_labels):
        total += fast_exp(last[k] - level)
    return log_z + math.log(total)


@kernel
def sum_allowed(unary, into, out, temperature, node, forth, back):
    """Log-partition of a chain, and marginals if `node` is not empty; NaN without a labelling.

    `into` are the steps, `out` the same of the transposed table; `forth` and `back` their scratch.
    """
    n_labels, inverse = unary.shape[1], 1.0 / temperature
    log_z = _sweep(unary, into, inverse, forth, 1)
    is_possible = node.shape[0] > 0 and log_z > -math.inf
    if is_possible:
        _sweep(unary, out, inverse, back, -1)
    for t in range(node.shape[0]):
        row, before, after, total = node[t], forth.sums[t], back.sums[t], 0.0
        _own(unary[t], inverse, forth)
        for k in range(n_labels):
            # Both have the node's own potential.
            own = forth.weights[k] if forth.weights[k] > -math.inf else 0.0
            before[k] = before[k] + (after[k] - own) if is_possible else math.nan
        top = _find_tops(before, forth)
        for k in range(n_labels):
            row[k] = fast_exp(before[k] - top)
            total += row[k]
        for k in range(n_labels):
            row[k] /= total
    return log_z * temperature


@kernel
def draw_allowed(unary, into, out, uniforms, labels, back):
    """Draw labellings, each label given the one before; returns the log-partition."""
    n, n_labels = unary.shape
    log_z, weights = _sweep(unary, out, 1.0, back, -1), back.weights
    for d in range(labels.shape[0] if log_z > -math.inf else 0):
        for t in range(n):
            before, message = labels[d, t - 1 if t > 0 else 0], back.sums[t]
            first, stop, top = 0, n_labels, -math.inf
            if t > 0:
                first, stop = out.ptr[before // _WIDTH], out.ptr[before // _WIDTH + 1]
            for p in range(first, stop):
                value = message[p]
                if t > 0:
                    value = message[out.before[p]] + into.table[before, out.before[p]]
                weights[p - first] = value
                top = max(top, value)
            for p in range(stop - first):
                weights[p] = fast_exp(weights[p] - top)
            chosen = draw(weights, 0, 1, stop - first, uniforms[t, d])
            labels[d, t] = out.before[first + chosen] if t > 0 else chosen
    return log_z
