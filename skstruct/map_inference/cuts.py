"""Models of two labels by max flow: minimum cuts where factors attract, roof duality elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..inference.qpbo import HALF, Switcher, pairs_score
from .graph import in_larger_factors, is_pairwise, pairs_of
from .result import MAPResult, Records, is_proved
from .scoring import Decoder

# Moves of many variables at once, by one flow each: fusion of labellings, alpha-expansion.

_MOST_ROUNDS = 100


class Fuser:
    """Take the better of two labels at every variable, all at once.

    Variables of factors of three and more variables keep their labels.
    """

    def __init__(self, graph):
        self.graph = graph
        self._pairs = pairs_of(graph)
        self._switcher = Switcher(self._pairs)
        held = in_larger_factors(graph)
        self._held = held if held.any() else None

    def fuse(
        self, labels: np.ndarray, other: np.ndarray, stop: Callable[[], bool] | None = None
    ) -> np.ndarray:
        """The labelling with labels of another where that is known to be better.

        Lempitsky, Rother, Roth and Blake 2010, Fusion moves for Markov random field optimization.
        """
        if self._held is not None:
            other = np.where(self._held, labels, other)
        if np.array_equal(labels, other):
            return labels
        found = self._switcher.solve(labels, other, stop)
        if not (found.states == 1).any():
            return labels
        fused = np.where(found.states == 1, other, labels)
        better = pairs_score(self._pairs, fused) > pairs_score(self._pairs, labels)
        return fused if better else labels

    def expand(self, labels: np.ndarray, rng, on_pass: Callable[[float], bool]) -> np.ndarray:
        """Offer each label to all variables, in random orders, until none is taken.

        Boykov, Veksler and Zabih 2001, Fast approximate energy minimization via graph cuts,
        section 3.
        """
        n_states = self.graph.n_states
        most = int(n_states.max(initial=1))
        refused = set()
        for turn in range(_MOST_ROUNDS):
            for k, label in enumerate(rng.permutation(most)):
                # A label that was refused since the last change is refused again.
                if label in refused:
                    continue
                share = (turn + k / most) / _MOST_ROUNDS
                if on_pass(share):
                    return labels
                other = np.where(label < n_states, label, labels)
                fused = self.fuse(labels, other, lambda share=share: on_pass(share))
                if fused is not labels:
                    refused.clear()
                    labels = fused
                else:
                    refused.add(label)
            if len(refused) == most:
                break
        return labels


def fuse(graph, labels: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The labelling with labels of another where that is known to be better, by one flow."""
    return Fuser(graph).fuse(labels, other)


def expand(
    graph, labels: np.ndarray, rng, on_pass: Callable[[float], bool] = lambda share: False
) -> np.ndarray:
    """Improve a labelling by moves that offer one label to all variables at once."""
    return Fuser(graph).expand(labels, rng, on_pass)


# Rounding errors relative to the sum of all sizes: of a flow's value, with much room, and of which
# cut is the best; and the error up to which a cut counts as exact.
_ROUNDING, _CUT_ROUNDING, _NONE = 1e-12, 16 * np.finfo(float).eps, 1e-9


def _check(graph, method):
    """Refuse models with more than two labels or variables a factor."""
    many = np.flatnonzero(graph.n_states > 2)
    if many.size:
        v = int(many[0])
        raise ValueError(
            f"method {method!r} is for variables of two states, variable {v} has "
            f"{graph.n_states[v]}"
        )
    first = 0
    for batch in graph.factors:
        if not is_pairwise(batch):
            raise ValueError(
                f"method {method!r} is for factors of two variables, factor {first} is a "
                f"{type(batch).__name__} of the variables {batch.scopes[0].tolist()}"
            )
        first += len(batch)


def _refuse(ends, method):
    """Say which factor does not attract."""
    i, j = ends
    raise ValueError(
        f"method {method!r} needs factors that attract, score(0, 0) + score(1, 1) >= score(0, 1) + "
        f"score(1, 0), if need be with the labels of some variables exchanged: the factor of the "
        f'variables {i} and {j} does not fit the others; take "roof-dual" or "auto"'
    )


def is_cut(graph):
    """Whether a graph is of the form that :func:`solve_max_flow` takes."""
    if (graph.n_states > 2).any() or not all(map(is_pairwise, graph.factors)):
        return False
    off = np.zeros(graph.n_variables, dtype=np.int64)
    return Switcher(pairs_of(graph)).set_up(off, graph.n_states - 1) is None


def _without_penalties(graph, pairs):
    """The pairs with -inf for scores that no best labelling uses; None where rounding is small.

    A finite penalty that dwarfs all else would leave no digits of it in the flow. A labelling that
    uses a score has at most that score and the largest of all others.
    """
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
    decoder = Decoder(graph)
    decoder.improve(decoder.labels)
    known = decoder.score - graph.offset
    least = known - 1e-9 * (abs(best).sum() + abs(most).sum() + abs(known)) - total
    unary, again = pairs.unary.copy(), pairs.scores.copy()
    unary[unary < least + np.repeat(best, n_states)] = -np.inf
    again[at[is_table][scores[is_table] < least + most[is_table, None]]] = -np.inf
    return pairs._replace(unary=unary, scores=again)


class _Run:
    """One run: the switches from label 0 to label 1 of each variable, and the result."""

    def __init__(self, graph, method, tol, on_pass):
        _check(graph, method)
        self.graph, self.method, self.tol, self.on_pass = graph, method, tol, on_pass
        self.pairs = pairs_of(graph)
        self.switcher, self.records = Switcher(self.pairs), Records(on_pass)
        self.looks = 0

    def set_up(self):
        """The first factor that is in the way of a minimum cut, if any."""
        off = np.zeros(self.graph.n_variables, dtype=np.int64)
        refused = self.switcher.set_up(off, self.graph.n_states - 1)
        without = _without_penalties(self.graph, self.pairs)
        if without is not None:
            other = Switcher(without)
            # A pair that is forbidden may repel where its penalty was made up for.
            if (other.set_up(off, self.graph.n_states - 1) is None) == (refused is None):
                self.pairs, self.switcher = without, other
            else:
                self.switcher.set_up(off, self.graph.n_states - 1)
        return refused

    def _stop(self):
        """Nobody knows how long a flow takes."""
        self.looks += 1
        return self.on_pass(1.0 - 0.9**self.looks)

    def solve(self):
        """The result."""
        found = self.switcher.run(self._stop)
        halves = found.states == HALF
        leaning = self.switcher.choices.gain > 0.0
        labels = np.where(halves, leaning, found.states).astype(np.int64)
        score = pairs_score(self.pairs, labels) + self.graph.offset
        if halves.any() or not found.done:
            decoder = Decoder(self.graph)
            decoder.offer(labels)
            decoder.improve(labels)
            labels, score = decoder.labels, decoder.score
        bound = found.bound + self.graph.offset
        size = found.size + abs(self.graph.offset)
        if found.done and not halves.any():
            # The flow and the cut are equal but for the rounding of their sums.
            bound = score if abs(bound - score) <= _ROUNDING * size else max(bound, score)
            error = _CUT_ROUNDING * size
            bound += 0.0 if error <= _NONE * max(1.0, abs(score)) else error
        elif found.bound > -np.inf:
            bound = max(bound + _ROUNDING * size, score)
        self.records.add(1, bound, score)
        proved = is_proved(score, bound, self.tol)
        share = np.count_nonzero(~halves) / max(halves.size, 1)
        message = "proved" if proved else f"{share:.1%} of the variables have their best label"
        return MAPResult(
            labels=labels,
            score=score,
            bound=bound,
            optimal=proved,
            beliefs=self._beliefs(found.states) if self.method == "roof-dual" else None,
            history_=self.records.history(),
            method=self.method,
            n_iter=1,
            converged=found.done,
            message=message if found.done else "stopped",
        )

    def _beliefs(self, states):
        """Marginals of the optimum of the relaxation."""
        kinds = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])[states]
        if (self.graph.n_states == 2).all():
            return list(kinds)
        return [row[:k] for row, k in zip(kinds, self.graph.n_states, strict=True)]


def solve_max_flow(graph, *, tol, max_iter, time_limit, rng, on_pass):
    """The best labelling of a model of two attracting labels, by a minimum cut.

    Factors of two variables attract if ``score(0, 0) + score(1, 1) >= score(0, 1) + score(1, 0)``.
    It is enough if they all do after the labels of some variables are exchanged. Labels may be
    forbidden.

    Kolmogorov and Zabih 2004, What energy functions can be minimized via graph cuts?, section 4.
    """
    run = _Run(graph, "max-flow", tol, on_pass)
    ends = run.set_up()
    if ends is not None:
        _refuse(ends, "max-flow")
    return run.solve()


def solve_roof_dual(graph, *, tol, max_iter, time_limit, rng, on_pass):
    """The LP relaxation of a model of two labels by one max flow, and labels that it proves.

    The relaxation over the local polytope has a half-integral optimum, the *roof dual*. Variables
    that have a label in it (``beliefs`` of 0 and 1) have it in some best labelling, too; the others
    are labelled by iterated conditional modes. Parts of the model that are minimum cuts are solved
    as such, exactly.

    Boros and Hammer 2002, Pseudo-Boolean optimization, section 5; Kolmogorov and Rother 2007,
    Minimizing nonsubmodular functions with graph cuts: a review.
    """
    run = _Run(graph, "roof-dual", tol, on_pass)
    run.set_up()
    return run.solve()
