"""Viterbi on a product of automata that is too large for tables: a bounded beam, with a bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
