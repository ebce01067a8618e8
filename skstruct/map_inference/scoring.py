"""Scores of labellings, improvement of one label at a time, and the best labelling of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .regions import AT_MOST_ONE, CARDINALITY, OR, POTTS, TABLE, score_extent, sum_of_maxima

# Result of a solver of MAP problems.

#: Fields of `history_`, one entry per record; the last three for methods that have them only.
HISTORY_FIELDS = (
    *("passes", "seconds", "bound", "score", "infeasibility"),
    *("objective", "dual_gap", "shifted_objective"),
)


@dataclass(frozen=True, repr=False, eq=False)
class MAPResult:
    """Result of MAP inference: a labelling and an upper bound on the score of all others.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    labels, score, bound, optimal : object
        Attributes that must be given.
    duals, beliefs, history_, method, n_iter, converged, message, compile_seconds : object, optional
        The others.

    Attributes
    ----------
    labels : ndarray of shape (n_variables,) of int64
        The best labelling.
    score : float
        Its score on the given graph; -inf if it violates a hard constraint.
    bound : float
        Upper bound on the score of any labelling.
    gap : float
        ``bound - score``.
    optimal : bool
        Whether the labelling is proved optimal, up to the tolerance.
    duals : ndarray or None
        Messages with the layout of ``graph.regions``, for methods that have them; ``"auto"`` and
        ``"trws"``, which see variables only, have that of ``graph.of_variables().regions``.
    beliefs : list of ndarray or None
        One array of ``n_states[i]`` values per variable, for methods that have them: marginals of
        the relaxed solution, or reparametrised scores.
    history_ : dict of ndarray
        Arrays of equal length: ``passes``, ``seconds``, ``bound`` and ``score`` (the best so far)
        and ``infeasibility`` (NaN if unknown). Relaxations other than "trws" add ``objective``,
        ``dual_gap``, a bound on its distance from the optimum (NaN if unknown), and
        ``shifted_objective``: with L2 smoothing the objective plus ``gamma / 2`` per region.
    method : str
        Method that solved the problem.
    n_iter : int
        Passes.
    converged : bool
        False if the method was stopped or reached `max_iter`; True if it ended by a proof, at its
        tolerance, or stalled.
    message : str
        Reason for the end.
    compile_seconds : float
        Time of compiling kernels or loading them from the cache, not counted in the time limit and
        in ``history_``.

    See Also
    --------
    skstruct.map_inference.solve_map : Finds a best labelling and a bound.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.map_inference import MAPResult
    >>> MAPResult(np.array([0, 1]), 1.5, 1.5, True, method="trws")
    MAPResult(score=1.5, bound=1.5, optimal=True, method='trws')
    """

    labels: np.ndarray
    score: float
    bound: float
    optimal: bool
    duals: np.ndarray | None = None
    beliefs: list | None = None
    history_: dict = field(default_factory=lambda: dict.fromkeys(HISTORY_FIELDS[:5], np.zeros(0)))
    method: str = ""
    n_iter: int = 0
    converged: bool = False
    message: str = ""
    compile_seconds: float = 0.0

    @property
    def gap(self) -> float:
        """Difference between `bound` and `score`: the most that the best labelling can gain."""
        return 0.0 if self.bound == self.score else self.bound - self.score

    def __repr__(self):
        values = f"score={self.score:.10g}, bound={self.bound:.10g}, optimal={self.optimal}"
        return f"MAPResult({values}, method={self.method!r})"

    def _repr_html_(self) -> str:
        names = "method score bound gap optimal converged n_iter message".split()
        cells = ((name, escape(str(getattr(self, name)))) for name in names)
        rows = (f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in cells)
        return f"<table>{''.join(rows)}</table>"


def is_proved(score, bound, tol):
    """Return whether `bound` proves that a labelling of this score is optimal."""
    finite = np.isfinite(score) and np.isfinite(bound)
    return bound == score or bool(finite and bound - score <= tol * max(1.0, abs(score)))


@inner_kernel
def count_true(p, r, labels):
    """Literals of an implicit factor that are true."""
    n = 0
    for d in range(p.scope_ptr[r], p.scope_ptr[r + 1]):
        n += labels[p.scope[d]] != p.negated[d]
    return n


@inner_kernel
def score_of_count(p, r, n_true):
    """Score of an implicit factor."""
    if p.kind[r] == CARDINALITY:
        return p.scores[p.score_ptr[r] + n_true]
    holds = (n_true >= 1 or p.kind[r] == AT_MOST_ONE) and (n_true <= 1 or p.kind[r] == OR)
    return 0.0 if holds else -np.inf


@inner_kernel
def region_score(p, r, labels):
    """Score of a region at a labelling."""
    first = p.scope_ptr[r]
    if p.kind[r] == POTTS:
        same = labels[p.scope[first]] == labels[p.scope[first + 1]]
        return p.scores[p.score_ptr[r]] if same else 0.0
    if p.kind[r] > POTTS:
        return score_of_count(p, r, count_true(p, r, labels))
    index = 0
    for d in range(first, p.scope_ptr[r + 1]):
        index = index * p.n_states[p.scope[d]] + labels[p.scope[d]]
    return p.scores[p.score_ptr[r] + index]


@kernel
def score_labels(p, labels):
    """Score of a labelling."""
    total = p.offset
    for r in range(p.kind.size):
        total += region_score(p, r, labels)
    return total


@inner_kernel
def _add_table(p, r, i, labels, low, scores):
    """Add a table's scores for all labels of a variable, the others' labels fixed."""
    index = 0
    step = 0
    for d in range(p.scope_ptr[r], p.scope_ptr[r + 1]):
        j = p.scope[d]
        step *= p.n_states[j]
        index *= p.n_states[j]
        if j == i:
            step = 1
        else:
            index += labels[j]
    index += p.score_ptr[r]
    for k in range(scores.size):
        s = p.scores[index + k * step]
        scores[k] += s if s > low else low


@inner_kernel
def _negated(p, r, slot):
    """Return whether the literal of a slot of an implicit factor is negated."""
    # Their slots are the variables of the scope, in order: no search through large factors.
    return p.negated[p.scope_ptr[r] + slot - p.slot_ptr[r]]


@inner_kernel
def _add_implicit(p, r, negated, label, count, low, scores):
    """Score an implicit factor whose count of true literals is known."""
    others = count - (label != negated)
    for k in range(2):
        s = score_of_count(p, r, others + (k != negated))
        scores[k] += s if s > low else low


@inner_kernel
def conditional_scores(p, i, labels, counts, low, scores):
    """Scores of all labels of a variable, the others' labels fixed; -inf counts as `low`."""
    for k in range(scores.size):
        s = p.scores[p.score_ptr[i] + k]
        scores[k] = s if s > low else low
    for e in range(p.parent_ptr[i], p.parent_ptr[i + 1]):
        r = p.owner[p.parent[e]]
        if p.kind[r] == TABLE:
            _add_table(p, r, i, labels, low, scores)
        elif p.kind[r] == POTTS:
            first = p.scope_ptr[r]
            o = p.scope[first] + p.scope[first + 1] - i
            if labels[o] < scores.size:
                scores[labels[o]] += p.scores[p.score_ptr[r]]
        else:
            negated = _negated(p, r, p.parent[e])
            _add_implicit(p, r, negated, labels[i], counts[r], low, scores)


@inner_kernel
def _recount(p, i, counts, label):
    """Adjust the counts of implicit factors to a new label of a variable of two labels."""
    for e in range(p.parent_ptr[i], p.parent_ptr[i + 1]):
        r = p.owner[p.parent[e]]
        if p.kind[r] >= CARDINALITY:
            counts[r] += 1 if label != _negated(p, r, p.parent[e]) else -1


@kernel
def improve_labels(p, order, labels, counts, low, scratch):
    """Iterated conditional modes: give each variable in turn its best label, the others fixed."""
    for r in range(p.n_variables, p.kind.size):
        if p.kind[r] >= CARDINALITY:
            counts[r] = count_true(p, r, labels)
    changed = 0
    for k in range(order.size):
        i = order[k]
        scores = scratch[: p.n_states[i]]
        conditional_scores(p, i, labels, counts, low, scores)
        best = labels[i]
        for x in range(scores.size):
            best = x if scores[x] > scores[best] else best
        if best != labels[i]:
            changed += 1
            labels[i] = best
            _recount(p, i, counts, best)
    return changed


class Incumbent:
    """The best labelling and bound of a run, its records, and the result that is made of them."""

    def __init__(self, graph, tol, budget):
        self.graph, self.tol, self.budget = graph, tol, budget
        self.labels = np.zeros(graph.n_variables, dtype=np.int64)
        self.score, self.bound = -np.inf, np.inf
        self.rows, self.share = [], 0.0
        self._scratch = None

    @property
    def is_proved(self):
        """True if the labelling is proved to be optimal."""
        return is_proved(self.score, self.bound, self.tol)

    def begin(self):
        """Start with label 0 everywhere, and the bound without any messages."""
        self.offer(self.labels)
        self.record(0, sum_of_maxima(self.graph.regions))

    def offer(self, labels, score=None):
        """Keep a copy of a labelling if it is the best; its score."""
        score = score_labels(self.graph.regions, labels) if score is None else score
        if score > self.score:
            self.score = score
            self.labels[:] = labels
        return score

    def improve(self, labels, passes=20):
        """Offer what iterated conditional modes make of a labelling; its score."""
        p = self.graph.regions
        if self._scratch is None:
            low = -2.0 * (1.0 + score_extent(p))
            row = np.zeros(int(self.graph.n_states.max(initial=1)))
            self._scratch = np.zeros(p.kind.size, dtype=np.int64), low, row
        labels, order = labels.copy(), np.arange(p.n_variables)
        for _ in range(passes):
            if not improve_labels(p, order, labels, *self._scratch):
                break
        return self.offer(labels)

    def record(self, passes, bound, infeasibility=np.nan, *own):
        """Note the state after some passes; `own`: the method's objective, and its dual gap."""
        self.bound = min(self.bound, bound)
        seconds = self.budget.seconds
        self.rows.append((passes, seconds, self.bound, self.score, infeasibility, *own))

    def check(self, *_):
        """Raise `Stopped` if it is time to stop, in the middle of a pass."""
        self.budget.check(self.share, self.bound, self.score)

    def result(self, method, message, n_iter, converged, **more):
        """Return the :class:`MAPResult` of the run."""
        history = np.array(self.rows, dtype=float).T
        return MAPResult(
            labels=self.labels,
            score=self.score,
            bound=self.bound,
            optimal=self.is_proved,
            history_={n: c.copy() for n, c in zip(HISTORY_FIELDS, history, strict=False)},
            method=method,
            n_iter=n_iter,
            converged=converged,
            message=message,
            **more,
        )
