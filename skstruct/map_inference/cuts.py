"""Models of two labels by max flow: minimum cuts where factors attract, roof duality elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..inference.qpbo import HALF, Switcher, pairs_score
from .factors import numbered
from .graph import pairs_of
from .scoring import Incumbent

# Moves of many variables at once, by one flow each: fusion of labellings, alpha-expansion.

_MOST_ROUNDS = 100


class Fuser:
    """Take the better of two labels at every variable at once, save in factors of three or more."""

    def __init__(self, graph):
        self.graph = graph
        self._pairs = pairs_of(graph)
        self._switcher = Switcher(self._pairs)
        self._held = np.zeros(graph.n_variables, dtype=bool)
        for batch in graph.factors:
            self._held[batch.scopes] |= batch.arity > 2

    def fuse(
        self, labels: np.ndarray, other: np.ndarray, stop: Callable[[], bool] | None = None
    ) -> np.ndarray:
        """The labelling with those labels of another that improve it (Lempitsky et al. 2010)."""
        other = np.where(self._held, labels, other)
        if np.array_equal(labels, other):
            return labels
        found = self._switcher.solve(labels, other, stop)
        if not (found.states == 1).any():
            return labels
        fused = np.where(found.states == 1, other, labels)
        better = pairs_score(self._pairs, fused) > pairs_score(self._pairs, labels)
        return fused if better else labels


def expand(
    graph, labels: np.ndarray, rng, on_pass: Callable[[float], bool] = lambda share: False
) -> np.ndarray:
    """Offer each label to all variables until none is taken (Boykov, Veksler and Zabih 2001)."""
    fuser = Fuser(graph)
    most = int(graph.n_states.max(initial=1))
    refused = set()
    for turn in range(_MOST_ROUNDS):
        for k, label in enumerate(rng.permutation(most)):
            # A label that was refused since the last change is refused again.
            if label in refused:
                continue
            share = (turn + k / most) / _MOST_ROUNDS
            if on_pass(share):
                return labels
            other = np.where(label < graph.n_states, label, labels)
            fused = fuser.fuse(labels, other, lambda share=share: on_pass(share))
            if fused is not labels:
                refused.clear()
                labels = fused
            else:
                refused.add(label)
        if len(refused) == most:
            break
    return labels


# Rounding errors relative to the sum of all sizes: of a flow's value, with much room, and of which
# cut is the best; and the error up to which a cut counts as exact.
_ROUNDING, _CUT_ROUNDING, _NONE = 1e-12, 16 * np.finfo(float).eps, 1e-9


def _check(graph, method):
    """Reject models with more than two labels or variables per factor."""
    many = np.flatnonzero(graph.n_states > 2)
    if many.size:
        v = int(many[0])
        raise ValueError(
            f"method {method!r} is for variables of two states, variable {v} has "
            f"{graph.n_states[v]}"
        )
    for first, batch in numbered(graph.factors):
        if batch.arity != 2:
            raise ValueError(
                f"method {method!r} is for factors of two variables, factor {first} is a "
                f"{type(batch).__name__} of the variables {batch.scopes[0].tolist()}"
            )


def _without_penalties(graph, pairs):
    """The pairs with -inf for penalties that no best labelling uses; None if rounding is small."""
    # A finite penalty that dwarfs all else would leave no digits of it in the flow. A labelling
    # with a score has at most that score plus the largest of all others.
    n_states, is_table = np.diff(pairs.state_ptr), pairs.columns > 0
    best = np.maximum.reduceat(pairs.unary, pairs.state_ptr[:-1]) if n_states.size else np.empty(0)
    sizes = np.where(is_table, n_states[pairs.ends[0]] * pairs.columns, 1)
    at = pairs.score_ptr[:, None] + np.arange(4) % sizes[:, None]
    scores = np.where(is_table[:, None], pairs.scores[at], np.maximum(pairs.scores[at], 0.0))
    most = scores.max(axis=1, initial=-np.inf)
    finite = np.isfinite(pairs.scores), np.isfinite(pairs.unary)
    size = np.abs(pairs.scores[finite[0]]).sum() + np.abs(pairs.unary[finite[1]]).sum()
    total = best.sum() + most.sum()
    if not np.isfinite(total) or _CUT_ROUNDING * size <= _NONE * max(1.0, abs(total)):
        return None
    start = Incumbent(graph, 0.0, None)
    known = start.improve(start.labels) - graph.offset
    least = known - 1e-9 * (abs(best).sum() + abs(most).sum() + abs(known)) - total
    unary, again = pairs.unary.copy(), pairs.scores.copy()
    unary[unary < least + np.repeat(best, n_states)] = -np.inf
    again[at[is_table][scores[is_table] < least + most[is_table, None]]] = -np.inf
    return pairs._replace(unary=unary, scores=again)


def _solve(method, graph, tol, budget, needs_cut=False):
    """Switches from label 0 to label 1 of each variable, by one flow."""
    _check(graph, method)
    pairs = pairs_of(graph)
    switcher, off, on = Switcher(pairs), np.zeros_like(graph.n_states), graph.n_states - 1
    # The first factor that is in the way of a minimum cut, if any.
    refused = switcher.set_up(off, on)
    if needs_cut and refused is not None:
        i, j = refused
        raise ValueError(
            f"method {method!r} needs factors that attract, score(0, 0) + score(1, 1) >= "
            f"score(0, 1) + score(1, 0), if need be with the labels of some variables exchanged: "
            f"the factor of the variables {i} and {j} does not fit the others; take "
            f'"roof-dual" or "auto"'
        )
    without = _without_penalties(graph, pairs)
    if without is not None:
        other = Switcher(without)
        # A pair that is forbidden may repel where its penalty was made up for.
        if (other.set_up(off, on) is None) == (refused is None):
            pairs, switcher = without, other
        else:
            switcher.set_up(off, on)
    looks = itertools.count(1)
    # Nobody knows how long a flow takes.
    found = switcher.run(lambda: budget(1.0 - 0.9 ** next(looks)))
    incumbent = Incumbent(graph, tol, budget)
    halves = found.states == HALF
    labels = np.where(halves, switcher.choices.gain > 0.0, found.states).astype(np.int64)
    if halves.any() or not found.done:
        incumbent.offer(incumbent.labels)
        incumbent.offer(labels)
        incumbent.improve(labels)
    else:
        incumbent.offer(labels, pairs_score(pairs, labels) + graph.offset)
    score, bound = incumbent.score, found.bound + graph.offset
    size = found.size + abs(graph.offset)
    if found.done and not halves.any():
        # The flow and the cut are equal but for the rounding of their sums.
        bound = score if abs(bound - score) <= _ROUNDING * size else max(bound, score)
        error = _CUT_ROUNDING * size
        bound += 0.0 if error <= _NONE * max(1.0, abs(score)) else error
    elif found.bound > -np.inf:
        bound = max(bound + _ROUNDING * size, score)
    incumbent.record(1, bound)
    message = "proved"
    if not incumbent.is_proved:
        message = f"{np.mean(~halves):.1%} of the variables have their best label"
    beliefs = None
    if method == "roof-dual":
        # Marginals of the optimum of the relaxation.
        kinds = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])[found.states]
        beliefs = [row[:k] for row, k in zip(kinds, graph.n_states, strict=True)]
    message = message if found.done else "stopped"
    return incumbent.result(method, message, 1, found.done, beliefs=beliefs)


def solve_max_flow(graph, *, tol, max_iter, rng, budget):
    """The best labelling of two attracting labels, by a cut (Kolmogorov and Zabih 2004)."""
    return _solve("max-flow", graph, tol, budget, needs_cut=True)


def solve_roof_dual(graph, *, tol, max_iter, rng, budget):
    """Labels that the LP of two-label models proves (Boros and Hammer 2002), the rest by ICM."""
    return _solve("roof-dual", graph, tol, budget)
