"""Viterbi decoding of one chain: best labelling, n best, and a bounded beam under many rules."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.features import largest_sums
from ..core.intrinsics import bits_of, float_of, largest_of_8, lowest_bit, which_of_8
from ..core.jit.kernels import inner_kernel, kernel
from .numerics import TopList, best_of, clear_top, offer_top, take_top, top_list


class ViterbiScratch(NamedTuple):
    """Scratch of the kernels of this file."""

    # (n_nodes, n_labels): Best scores up to each node and label.
    best: np.ndarray
    # (n_nodes, n_labels + 1): Labels that may precede the best labels of the next node; the last
    # column has their number.
    kept: np.ndarray
    # (n_labels,): Smallest and largest transition out of each label.
    lows: np.ndarray
    tops: np.ndarray
    # Candidates for the n best.
    top: TopList


def viterbi_scratch(n_nodes, n_labels, n_best=1):
    """Scratch for chains of at most `n_nodes` nodes."""
    kept = np.empty((n_nodes, n_labels + 1), dtype=np.int32)
    rows = np.empty((2, n_labels))
    return ViterbiScratch(np.empty((n_nodes, n_labels)), kept, *rows, top_list(n_best))


# Chains with more nodes than this repay the search for the extremes of a shared table.
_MANY_STEPS = 6


_LARGEST = 2**63 - 1


@inner_kernel(inline=True)
def _in_order(n):
    """Bits as integers in the order of the floats, NaN beyond infinity; its own inverse."""
    return n ^ ((n >> 63) & _LARGEST)


@inner_kernel(inline=True)
def row_ranges(transitions, n, lows, tops):
    """The smallest and largest transition out of each label; if not worth a search, -inf and 0."""
    is_worth_it = transitions.shape[0] == 1 and n > _MANY_STEPS
    for j in range(lows.shape[0]):
        lows[j], tops[j] = -math.inf, 0.0  # keeps all labels
        if is_worth_it:
            row, low, top = transitions[0, j], _LARGEST, -_LARGEST
            for k in range(row.shape[0]):  # of integers, as floats would not be vectorised
                entry = _in_order(bits_of(row[k]))
                low, top = entry if entry < low else low, entry if entry > top else top
            lows[j], tops[j] = float_of(_in_order(low)), float_of(_in_order(top))


@inner_kernel(inline=True)
def _keep(score, lows, tops, kept):
    """List the labels that may be the best before some label, and their number."""
    # Every label k is reached through j with at least score[j] + lows[j]. A label that stays below
    # the largest of these even with its largest transition is not best for any k, nor is it after
    # rounding, which is monotonic.
    n_labels, least, count = score.shape[0], -math.inf, 0
    if n_labels < 8:
        for j in range(n_labels):
            kept[j] = j
        count = n_labels
    else:
        last = n_labels - 8
        for q in range(0, n_labels, 8):
            largest = largest_of_8(score, lows, q if q < last else last)
            least = largest if largest > least else least
        for first in range(0, n_labels, 64):
            bits = 0
            for q in range(first, first + 64 if first + 64 < n_labels else n_labels, 8):
                begin = (q if q < last else last) - first
                found = which_of_8(score, tops, first + begin, least)
                bits |= found << begin if begin >= 0 else found >> -begin
            while bits != 0:
                kept[count] = first + lowest_bit(bits)
                count += 1
                bits &= bits - 1
    kept[n_labels] = count


@inner_kernel(inline=True)
def _forward(unary, transitions, scratch):
    """``best[t, k]``: largest score up to t with k last; skips labels by :func:`_keep`."""
    n, n_labels = unary.shape
    best, kept = scratch.best, scratch.kept
    shared = transitions.shape[0] == 1
    for k in range(n_labels):
        best[0, k] = unary[0, k]
    for t in range(1, n):
        table, some = transitions[0 if shared else t - 1], kept[t - 1]
        _keep(best[t - 1], scratch.lows, scratch.tops, some)
        largest_sums(best[t - 1], some, some[n_labels], table, unary, t, best[t])


@inner_kernel(inline=True)
def _way_back(transitions, scratch, t, last, labels):
    """The best labels of the nodes before t, given `last` at t."""
    best, kept = scratch.best, scratch.kept
    shared = transitions.shape[0] == 1
    for u in range(t, 0, -1):
        table = transitions[0 if shared else u - 1]
        chosen, chosen_score = 0, -math.inf
        for q in range(kept[u - 1, best.shape[1]]):
            j = np.int64(kept[u - 1, q])  # of one type, so that this is typed once
            candidate = best[u - 1, j] + table[j, last]
            if candidate > chosen_score:
                chosen, chosen_score = j, candidate
        last = chosen
        labels[u - 1] = last


@inner_kernel(inline=True)
def best_back(transitions, n, labels, scratch):
    """Write the best labelling after a forward pass, and return its score."""
    n_labels, best = scratch.lows.shape[0], scratch.best
    last = best_of(best[n - 1], n_labels)
    labels[n - 1] = last
    _way_back(transitions, scratch, n - 1, last, labels)
    return best[n - 1, last]


@inner_kernel
def best_in_ranges(unary, transitions, labels, scratch):
    """Best labelling of a chain whose transitions have the ranges in the scratch."""
    # Only best scores are kept; finding predecessors again costs O(K) a node, while storing them
    # would slow the O(K^2) pass.
    _forward(unary, transitions, scratch)
    return best_back(transitions, unary.shape[0], labels, scratch)


@kernel
def viterbi(unary, transitions, labels, scratch):
    """Best labelling of a chain."""
    row_ranges(transitions, unary.shape[0], scratch.lows, scratch.tops)
    return best_in_ranges(unary, transitions, labels, scratch)


@kernel
def chain_max_marginals(unary, transitions, out, scratch):
    """Best score of a chain through each label of each node, by one pass forth and one back."""
    n, n_labels = unary.shape
    shared = transitions.shape[0] == 1
    best = scratch.best
    row_ranges(transitions, n, scratch.lows, scratch.tops)
    _forward(unary, transitions, scratch)
    for k in range(n_labels):
        out[n - 1, k] = 0.0
    for t in range(n - 2, -1, -1):
        table = transitions[0 if shared else t]
        for j in range(n_labels):
            after = -math.inf
            for k in range(n_labels):
                after = max(after, table[j, k] + (unary[t + 1, k] + out[t + 1, k]))
            out[t, j] = after
    for t in range(n):
        for k in range(n_labels):
            out[t, k] += best[t, k]


@kernel
def viterbi_top_k(unary, transitions, values, labels, scratch):
    """The n best labellings of a chain, in O(n K (K + k log k)) at most, by deviations.

    A deviation keeps the labels after a node, changes that, and has the best beginning (Lawler
    1972; Nilsson 1998), unlike Seroussi and Golmard 1994 and Pillutla et al. 2019, Algorithm 2.
    """
    row_ranges(transitions, unary.shape[0], scratch.lows, scratch.tops)
    n_best_in_ranges(unary, transitions, values, labels, scratch)


@inner_kernel
def n_best_in_ranges(unary, transitions, values, labels, scratch):
    """The same for transitions that have the ranges in the scratch."""
    _forward(unary, transitions, scratch)
    n_best_back(unary, transitions, values, labels, scratch)


@inner_kernel
def n_best_back(unary, transitions, values, labels, scratch):
    """Write the n best labellings and their scores after a forward pass."""
    n, n_labels = unary.shape
    size = values.shape[0]
    shared = transitions.shape[0] == 1
    best = scratch.best
    top = scratch.top
    clear_top(top)
    for q in range(size):
        values[q] = -math.inf
        for t in range(n):
            labels[q, t] = 0
    for k in range(n_labels):
        offer_top(top, size, best[n - 1, k], -1, n - 1, k)
    for q in range(size):
        value, parent, split, label = take_top(top)
        if not value > -math.inf:
            return
        values[q] = value
        for t in range(split + 1, n):
            labels[q, t] = labels[parent, t]
        labels[q, split] = label
        _way_back(transitions, scratch, split, label, labels[q])
        left = size - q - 1
        if left == 0:
            return
        suffix = 0.0
        for t in range(n - 1, 0, -1):
            here = labels[q, t]
            suffix += unary[t, here]
            table = transitions[0 if shared else t - 1]
            before = labels[q, t - 1]
            if t <= split:
                for j in range(n_labels):
                    candidate = best[t - 1, j] + table[j, here] + suffix
                    if candidate > top.least[0] and j != before:
                        offer_top(top, left, candidate, q, t - 1, j)
            suffix += table[before, here]


# The most pairs of a beginning of a labelling and a next label that one beam looks at, a second or
# two: no clock ends it, so that results can be repeated.
_MOST_STEPS = 2**23
# Narrow beams first: what they find prunes the wide ones.
_WIDTHS = 2**6, 2**9
# Sums of the same scores in another order.
_ROUNDING = 1e-12


class BestFound(NamedTuple):
    """The best labelling that was found, None if there is none, its score, and an upper bound."""

    codes: np.ndarray | None
    score: float
    bound: float


def bounded_viterbi(unary, pair, products, most_steps=None) -> BestFound:
    """Best labelling that all automata accept, by beam search, and a bound; `pair` (step, K, K)."""
    n, n_labels = unary.shape
    pair = np.broadcast_to(pair, (max(n - 1, 0), n_labels, n_labels))
    rest = [_rest(unary, pair, product) for product in products]
    widest = max((most_steps or _MOST_STEPS) // (n * n_labels), 1)
    sizes = [np.abs(own[np.isfinite(own)]).max(initial=0.0) for own in (unary, pair)]
    codes, score, bound = None, -np.inf, np.inf
    for width in (*(width for width in _WIDTHS if width < widest), widest):
        found, value, lost = _beam(unary, pair, products, rest, width, score)
        if found is not None:
            codes, score = found, value
        bound = min(bound, max(score, lost))
        if bound == -np.inf or bound - score <= _ROUNDING * n * sum(sizes):
            return BestFound(codes, score, score)
    return BestFound(codes, score, bound)


def _rest(unary, pair, product):
    """The best score of the nodes after each node, from each pair of one automaton."""
    rest = np.where(product.ends > 0, 0.0, -np.inf)
    out = [rest]
    for scores, table in zip(unary[:0:-1], pair[::-1], strict=True):
        after = np.where(product.after >= 0, rest[product.after], -np.inf)
        rest = (table[product.labels] + scores + after).max(axis=1)
        out.append(rest)
    return out[::-1]


def _beam(unary, pair, products, rest, width, least):
    """A labelling that is better than `least`, its score, and the most that was dropped."""
    labels = np.arange(unary.shape[1])
    states = np.column_stack([product.first for product in products])
    scores, parents, steps, lost = unary[0], np.zeros_like(labels), [], -np.inf
    for t in range(len(unary)):
        if t:
            scores = (scores[:, None] + pair[t - 1][labels] + unary[t]).ravel()
            states = np.column_stack(
                [
                    product.after[own].ravel()
                    for product, own in zip(products, states.T, strict=True)
                ]
            )
            parents, labels = np.divmod(np.arange(scores.size), unary.shape[1])
        reach = [own[t][column] for own, column in zip(rest, states.T, strict=True)]
        reach = np.where((states >= 0).all(axis=1), scores + np.min(reach, axis=0), -np.inf)
        kept = np.flatnonzero(reach > least)
        kept = kept[np.argsort(-scores[kept], kind="stable")]
        kept = kept[_first_of_each(states[kept])]
        kept = kept[np.argsort(-reach[kept], kind="stable")]
        if kept.size > width:
            lost, kept = max(lost, float(reach[kept[width]])), kept[:width]
        scores, states, labels = scores[kept], states[kept], labels[kept]
        steps.append((labels, parents[kept]))
        if not kept.size:
            return None, -np.inf, lost
    place, codes = int(scores.argmax()), np.empty(len(unary), dtype=np.int32)
    score = float(scores[place])
    for t in range(len(unary) - 1, -1, -1):
        labels, parents = steps[t]
        codes[t], place = labels[place], parents[place]
    return codes, score, lost


def _first_of_each(states):
    """The first of those rows that are alike."""
    key, n_keys = np.zeros(len(states), dtype=np.int64), 1
    for column in states.T:
        size = int(column.max(initial=0)) + 1
        if n_keys * size >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            n_keys = len(states)
        key, n_keys = key * size + column, n_keys * size
    return np.unique(key, return_index=True)[1]
