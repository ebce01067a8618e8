"""``solve_map``: the entry of all MAP solvers, and the default method."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..core.arguments import check_integer, check_real
from .budget import Budget, Stopped
from .graph import FactorGraph
from .methods import Method, find_method
from .scoring import HISTORY_FIELDS, Incumbent, MAPResult, is_proved
from .trws import solve_trws

_ROUNDING = 1e-8


def solve_map(
    graph: FactorGraph,
    method: Method = "auto",
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    time_limit: float | None = None,
    random_state: Any = None,
    callbacks: Any = None,
    verbose: int = 0,
    **parameters: Any,
) -> MAPResult:
    """Find a MAP labelling, one of highest score, with an upper bound on the score of all others.

    Read more in the :ref:`User Guide <map_inference_guide>`.

    Parameters
    ----------
    graph : FactorGraph
        The model.
    method : str, default="auto"
        ``"auto"`` simplifies the model, solves it exactly where that is cheap, and else combines a
        relaxation, decoding, moves and branch and bound. The others run one algorithm:
        the relaxations ``"subgradient"``, ``"coordinate-descent"``, ``"gradient"``,
        ``"accelerated-gradient"``, ``"frank-wolfe"``, ``"sdca"``, ``"strong-gradient"``,
        ``"strong-accelerated"``, ``"decreasing-smoothing"`` and ``"trws"``; and, exact ones,
        ``"max-product"`` (forests), ``"junction-tree"``, ``"max-flow"`` (two attracting labels),
        ``"roof-dual"`` (two labels) and ``"branch-and-bound"``.
    tol : float, default=1e-6
        Relative: a labelling is optimal when ``bound - score <= tol * max(1, |score|)``.
    max_iter : int, default=1000
        Maximum number of passes of relaxations, or of thousands of nodes of branch and bound; per
        part of ``"auto"``.
    time_limit : float or None, default=None
        Time limit in seconds, checked between passes. Compilation, in the first call of a method on
        a machine, is not counted: ``compile_seconds`` of the result has its time.
    random_state : int, RandomState instance or None, default=None
        Controls methods that draw. Pass an int for reproducible results (without a time limit).
    callbacks : callback or list of callbacks, default=None
        Callbacks of scikit-learn, such as ``sklearn.callback.ProgressBar()``. Returning True stops.
    verbose : int, default=0
        If 1, print one line per second; if 2, one per pass.
    **parameters : object
        Options of the method, by name: see Notes.

    Returns
    -------
    MAPResult
        The best labelling found, its score, and the bound. Ctrl-C returns the best so far (a second
        one raises KeyboardInterrupt). If no labelling has a finite score, score and bound are -inf.

    Raises
    ------
    ValueError
        If the method is unknown, an option is out of range, or the method cannot solve the model.
    TypeError
        If `graph` is not a FactorGraph, an option has the wrong type or belongs to another method
        (the message lists those of the method), or the method does not support a kind of factor.

    See Also
    --------
    FactorGraph : The models.
    MAPResult : The results.

    Notes
    -----
    Options by method; the guide describes them and the methods:

    =====================================  ==================================================
    method                                 options
    =====================================  ==================================================
    subgradient                            step, lam
    coordinate-descent                     smoothing, gamma
    gradient                               smoothing, gamma, lipschitz
    accelerated-gradient                   smoothing, gamma, lipschitz, restarts
    strong-gradient, strong-accelerated    smoothing, gamma, lam, lipschitz
    frank-wolfe                            lam, augmented
    sdca                                   gamma, lam, smoothing, accelerated
    decreasing-smoothing                   gamma
    trws                                   order, duals, patience
    junction-tree                          max_table
    branch-and-bound                       start, duals, growth, most_variables
    =====================================  ==================================================

    References
    ----------
    O. Meshi, M. Mahdavi, A. Schwing: Smooth and strong: MAP inference with linear convergence,
    NIPS 2015, Table 1 and Algorithm 1.

    V. Kolmogorov: Convergent tree-reweighted message passing for energy minimization, PAMI 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.map_inference import FactorGraph, Table, solve_map
    >>> unaries = [np.array([0.0, 0.5]), np.zeros(2), np.zeros(2)]
    >>> agree = Table([[0, 1], [1, 2], [0, 2]], [[1.0, 0.0], [0.0, 1.0]])
    >>> result = solve_map(FactorGraph([2, 2, 2], [agree], unaries=unaries))
    >>> result.labels, result.optimal
    (array([1, 1, 1]), True)
    """
    if not isinstance(graph, FactorGraph):
        hint = "; read_uai, read_wcsp and read_cfn read files" * isinstance(graph, str | PathLike)
        raise TypeError(f"graph must be a FactorGraph, got a {type(graph).__name__}{hint}")
    function, own = find_method(method)
    unknown = ", ".join(sorted(parameters.keys() - set(own)))
    if unknown:
        has = ", ".join(own) if own else "none of its own"
        raise TypeError(
            f"method {method!r} has no parameter {unknown}; it has: {has}; every method has: tol, "
            "max_iter, time_limit, random_state, callbacks, verbose"
        )
    check_real("tol", tol, finite=False)
    check_integer("max_iter", max_iter)
    if time_limit is not None:
        check_real("time_limit", time_limit, positive=True, finite=False)
    if not isinstance(verbose, Integral | np.bool_):
        raise TypeError(f"verbose must be an integer, got {verbose!r}")
    if not isinstance(callbacks, list | tuple):
        callbacks = () if callbacks is None else (callbacks,)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    budget = Budget(time_limit, callbacks, verbose, method)
    common = {"tol": float(tol), "max_iter": int(max_iter), "rng": np.random.default_rng(seed)}
    result = budget.run(lambda: function(graph, **common, budget=budget, **parameters))
    if verbose:
        own = f" (and {budget.compile_seconds:.2f} s for kernels)" if budget.compile_seconds else ""
        print(f"[{method}] {budget.seconds:.2f} s{own}: {result!r}; {result.message}")
    # The score is evaluated on the graph that the user gave.
    labels = np.ascontiguousarray(result.labels, dtype=np.int64)
    score = float(graph.score(labels))
    if not result.bound >= score - _ROUNDING * max(1.0, abs(score)):
        raise FloatingPointError(
            f"method {method!r}: the bound {float(result.bound)} is below the score {score}"
        )
    # Both sides are rounded sums: an exact method's bound may be a few ulps below the score.
    bound = max(float(result.bound), score)
    return replace(
        result,
        labels=labels,
        score=score,
        bound=bound,
        optimal=is_proved(score, bound, tol),
        history_=result.history_ | {"bound": np.maximum(result.history_["bound"], score)},
        method=method,
        converged=bool(result.converged),
        message=budget.reason or result.message,
        compile_seconds=budget.compile_seconds,
    )


_FIRST_SWEEPS = 60  # of the whole model
_SWEEPS, _MORE_SWEEPS = 300, 3000  # of the simplified one
_MOST_FACTORS = 50_000  # that Python looks at one by one
_MOST_ENTRIES = 2.0**28  # of all tables of an elimination, a second or two
_MOST_TABLE = 2.0**25  # of one
_FIRST_NODES, _MORE_NODES = 4, 100  # thousands, of branch and bound
_STRIPS = 200  # passes
_MOVES, _MORE_MOVES = 50, 400  # passes without a time limit
_MUCH_TIGHTER = 0.7


class _Stages:
    """The stages, each with a fraction of the time left, on the user's graph, then simplified."""

    def __init__(self, graph, tol, max_iter, rng, budget):
        self.graph, self.max_iter, self.rng, self.budget = graph, max_iter, rng, budget
        self.best = Incumbent(graph, tol, budget)
        self.best.begin()
        self.lift = self.lower = np.copy
        self.sweeps_duals, self.duals, self.passes, self.how = None, None, 0, "inspection"

    @property
    def is_over(self):
        """True if nothing is left to do, or no time to do it."""
        return self.best.is_proved or bool(self.budget.reason) or self.budget.seconds_left <= 0

    def found(self, how, bound, labels):
        """Take over what a stage has found."""
        self.how = how
        self.best.offer(self.lift(labels))
        self.best.record(self.passes, bound)

    def stage(self, method, max_iter=1, share=1.0, **parameters):
        """Run a method; its result, None if the time is over."""
        if self.is_over:
            return None
        best, passes = self.best, self.passes
        common = {"tol": best.tol, "rng": self.rng, "budget": self.budget}
        with self.budget.part(share * self.budget.seconds_left):
            max_iter = min(max_iter, self.max_iter)
            result = method(self.graph, max_iter=max_iter, **common, **parameters)
        columns = [result.history_[name] for name in HISTORY_FIELDS[:5]]
        for done, seconds, bound, score, infeasibility in np.transpose(columns).tolist():
            best.bound, score = min(best.bound, bound), max(best.score, score)
            best.rows.append((passes + done, seconds, best.bound, score, infeasibility))
        self.passes += result.n_iter
        self.found(result.method, float(result.bound), result.labels)
        return result

    def cut(self):
        """Models of two labels: a minimum cut, or the labels that the roof dual is sure of."""
        graph = self.graph
        if (graph.n_states > 2).any() or any(b.arity != 2 for b in graph.factors):
            return {}
        from .cuts import solve_roof_dual

        result = self.stage(solve_roof_dual) if graph.factors else None
        if result is None or result.beliefs is None:
            return {}
        sure = ((v, b) for v, b in enumerate(result.beliefs) if b.size == 2 and b.max() == 1.0)
        return {v: int(b.argmax()) for v, b in sure}

    def sweep(self, passes):
        """Sweeps in the order of TRW-S, from where the last ones ended."""
        result = self.stage(solve_trws, passes, duals=self.sweeps_duals)
        self.sweeps_duals = None if result is None else result.duals

    def simplify(self, sure):
        """Continue with a smaller graph; return whether anything is left to do."""
        from .simplify import Simplified

        try:
            simple = Simplified(self.graph, sure, check=self.budget.check)
        except Stopped:
            return False
        if not simple.is_feasible:
            self.found("propagation of constraints", -np.inf, self.best.labels)
            return False
        self.graph, self.lift, self.lower = simple.graph, simple.lift, simple.lower
        self.sweeps_duals = None
        if simple.graph.n_variables == 0:
            self.found("simplification", simple.graph.offset, np.zeros(0, dtype=np.int64))
            return False
        return True

    def eliminate(self):
        """Elimination where its tables are small."""
        from .elimination import elimination_cost, solve_junction_tree

        if elimination_cost(self.graph, _MOST_TABLE) <= _MOST_ENTRIES:
            self.stage(solve_junction_tree, max_table=_MOST_TABLE)

    def search(self, thousands, share):
        """Branch and bound; the bound that it reaches."""
        from .search.branch_and_bound import solve_branch_and_bound
        from .search.costs import TooManyVariables

        start = self.lower(self.best.labels)
        start = start if np.isfinite(self.graph.score(start)) else None
        try:
            result = self.stage(
                solve_branch_and_bound, thousands, share, start=start, duals=self.sweeps_duals
            )
        except TooManyVariables:
            return np.inf
        return np.inf if result is None else result.bound

    def tighten(self, share):
        """Strips that are solved exactly, unless they are too wide; their bound."""
        if self.is_over:
            return np.inf
        from .tighten import tighten

        with self.budget.part(share * self.budget.seconds_left):
            bound, labels = tighten(self.graph, self.budget, max_iter=_STRIPS)
        if bound < np.inf:
            self.found("exact strips", bound, labels)
        return bound

    def move(self, share, passes):
        """Moves of many variables at once; so many passes if there is no time limit."""
        if self.is_over:
            return
        from .blocks import reoptimise
        from .cuts import expand

        with self.budget.part(share * self.budget.seconds_left):
            labels = expand(self.graph, self.lower(self.best.labels), self.rng, self.budget)
            labels = reoptimise(self.graph, labels, self.rng, self.budget, passes)
        self.found(self.how, np.inf, labels)

    def run(self):
        """Run stages until the labelling is proved, or the time is over."""
        sure = self.cut()
        self.sweep(_FIRST_SWEEPS)
        self.duals = self.sweeps_duals
        if self.is_over or self.graph.n_factors > _MOST_FACTORS or not self.simplify(sure):
            return
        self.eliminate()
        self.sweep(_SWEEPS)
        searched = self.search(_FIRST_NODES, 0.15)
        tightened = self.tighten(0.25)
        self.move(0.15, _MOVES)
        if searched == tightened == np.inf:
            self.sweep(_MORE_SWEEPS)
        elif tightened - self.best.score < _MUCH_TIGHTER * (searched - self.best.score):
            # The search would have to prove by branching what the strips know at once.
            self.move(1.0, _MORE_MOVES)
        else:
            self.search(_MORE_NODES, 1.0)


def solve_auto(graph, *, tol, max_iter, rng, budget):
    """Cheap methods first, thorough ones while the labelling is not proved to be optimal.

    Minimum cut or roof dual; sweeps of TRW-S; simplification; elimination; then sweeps, strips,
    moves and branch and bound, whichever promises more.
    """
    stages = _Stages(graph.of_variables(), tol, max_iter, rng, budget)
    stages.run()
    best = stages.best
    # Scores of simplified graphs are rounded differently.
    best.rows = [(*row[:3], min(row[3], best.score), row[4]) for row in best.rows]
    best.bound = max(best.bound, best.score)
    message = f"{'proved' if best.is_proved else 'stopped'} by {stages.how}"
    return best.result("auto", message, stages.passes, best.is_proved, duals=stages.duals)
