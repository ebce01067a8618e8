"""``solve_map``: one function in front of all MAP solvers."""

from __future__ import annotations

import importlib
import inspect
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..inference.numerics import check_integer
from .arguments import check_positive, check_real
from .graph import FactorGraph
from .result import MAPResult, is_proved
from .watch import Watch

#: Where each method stands; loaded when it is asked for.
METHODS = {
    "auto": "auto:solve_auto",
    "subgradient": "methods.first_order:solve_subgradient",
    "coordinate-descent": "methods.coordinate_descent:solve_coordinate_descent",
    "gradient": "methods.first_order:solve_gradient",
    "accelerated-gradient": "methods.first_order:solve_accelerated_gradient",
    "frank-wolfe": "methods.frank_wolfe:solve_frank_wolfe",
    "sdca": "methods.frank_wolfe:solve_sdca",
    "strong-accelerated": "methods.first_order:solve_strong_accelerated",
    "decreasing-smoothing": "methods.coordinate_descent:solve_decreasing_smoothing",
    "trws": "trws:solve_trws",
    "mini-buckets": "minibuckets:solve_mini_buckets",
    "max-product": "elimination:solve_max_product",
    "junction-tree": "elimination:solve_junction_tree",
    "max-flow": "cuts:solve_max_flow",
    "roof-dual": "cuts:solve_roof_dual",
    "branch-and-bound": "search.branch_and_bound:solve_branch_and_bound",
}
_ROUNDING = 1e-8
_COMMON = ("tol", "max_iter", "time_limit", "rng", "on_pass")


def find_method(name):
    """The function of a method and the names of its own parameters."""
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(repr(m) for m in METHODS)
        raise ValueError(f"method must be one of {known}; got {name!r}")
    module, function = METHODS[name].split(":")
    function = getattr(importlib.import_module(f".{module}", __package__), function)
    kinds = inspect.Parameter.KEYWORD_ONLY
    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind == kinds]
    return function, [n for n in names if n not in _COMMON]


def _check_common(tol, max_iter, time_limit, callbacks, verbose):
    check_real("tol", tol, 0)
    check_integer("max_iter", max_iter, 1)
    if time_limit is not None:
        check_positive("time_limit", time_limit, finite=False)
    if not isinstance(verbose, Integral | np.bool_):
        raise TypeError(f"verbose must be an integer, got {verbose!r}")
    if callbacks is None:
        return ()
    return tuple(callbacks) if isinstance(callbacks, list | tuple) else (callbacks,)


def _check_own(method, own, parameters):
    unknown = sorted(parameters.keys() - set(own))
    if unknown:
        has = ", ".join(own) if own else "none of its own"
        raise TypeError(f"method {method!r} has no parameter {', '.join(unknown)}; it has: {has}")


def solve_map(
    graph: FactorGraph,
    method: str = "auto",
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    time_limit: float | None = None,
    random_state: Any = None,
    callbacks: Any = None,
    verbose: int = 0,
    **parameters: Any,
) -> MAPResult:
    """Find a labelling of highest score, and a bound on the score of all others.

    Parameters
    ----------
    graph : FactorGraph
        The model.
    method : str, default="auto"
        ``"auto"`` simplifies the model, solves it exactly where that is cheap, and else combines a
        relaxation, decoding, moves and branch and bound. The others run one algorithm:
        the relaxations ``"subgradient"``, ``"coordinate-descent"``, ``"gradient"``,
        ``"accelerated-gradient"``, ``"frank-wolfe"``, ``"sdca"``, ``"strong-accelerated"``,
        ``"decreasing-smoothing"``, ``"trws"`` and ``"mini-buckets"``; and, exact ones,
        ``"max-product"`` (forests), ``"junction-tree"``, ``"max-flow"`` (two attracting labels),
        ``"roof-dual"`` (two labels) and ``"branch-and-bound"``.
    tol : float, default=1e-6
        Relative: a labelling is optimal when ``bound - score <= tol * max(1, |score|)``.
    max_iter : int, default=1000
        Largest number of passes of the relaxations, of rounds of mini-buckets, of thousands of
        nodes of branch and bound; of each part of ``"auto"``.
    time_limit : float or None, default=None
        Seconds of solving; looked at between passes. The clock stands still while kernels compile,
        in the first call of a method on a machine; the result's ``compile_seconds`` says how long.
    random_state : int, RandomState instance or None, default=None
        For methods that draw; same seed, same result (without a time limit).
    callbacks : callback or list of callbacks, default=None
        Of scikit-learn, such as ``sklearn.callback.ProgressBar()``. One that returns True ends
        the run.
    verbose : int, default=0
        1: a line a second; 2: one a pass.
    **parameters : object
        The method's own, by name. :doc:`/map_inference` lists them.

    Returns
    -------
    MAPResult
        The best labelling found, its score, and the bound. After Ctrl-C the best so far (the second
        one raises KeyboardInterrupt). If no labelling has a finite score, score and bound are -inf.

    Raises
    ------
    ValueError
        On an unknown method, parameters out of range, and models that the method does not take.
    TypeError
        If `graph` is no FactorGraph, a parameter is of the wrong type or not one of the method's
        (the message tells its own), or the method does not take a kind of factor.

    See Also
    --------
    FactorGraph : The models.
    MAPResult : The results.

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
        raise TypeError(f"graph must be a FactorGraph, got a {type(graph).__name__}")
    function, own = find_method(method)
    _check_own(method, own, parameters)
    callbacks = _check_common(tol, max_iter, time_limit, callbacks, verbose)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    watch = Watch(time_limit, callbacks, verbose, method)
    common = {
        "tol": float(tol),
        "max_iter": int(max_iter),
        "time_limit": time_limit,
        "rng": np.random.default_rng(seed),
        "on_pass": watch,
    }
    result = watch.run(lambda: function(graph, **common, **parameters))
    if verbose:
        own = f" (and {watch.compile_seconds:.2f} s for kernels)" if watch.compile_seconds else ""
        print(f"[{method}] {watch.seconds:.2f} s{own}: {result!r}; {result.message}")
    return _certified(graph, result, method, tol, watch)


def _certified(graph, result, method, tol, watch):
    """The result with its score evaluated on the graph that the user gave."""
    labels = np.ascontiguousarray(result.labels, dtype=np.int64)
    score = float(graph.score(labels))
    if not result.bound >= score - _ROUNDING * max(1.0, abs(score)):
        raise FloatingPointError(
            f"method {method!r}: the bound {float(result.bound)} is below the score {score}"
        )
    # Both sides are rounded sums: an exact method's bound may be a few ulps below the score.
    bound = max(float(result.bound), score)
    history = result.history_ | {"bound": np.maximum(result.history_["bound"], score)}
    return MAPResult(
        labels=labels,
        score=score,
        bound=bound,
        optimal=is_proved(score, bound, tol),
        duals=result.duals,
        beliefs=result.beliefs,
        history_=history,
        method=method,
        n_iter=result.n_iter,
        converged=bool(result.converged),
        message=watch.reason or result.message,
        compile_seconds=watch.compile_seconds,
    )
