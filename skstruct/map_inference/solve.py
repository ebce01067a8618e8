"""``solve_map``: one function in front of all MAP solvers."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..core.arguments import check_integer, check_real
from . import auto  # noqa: F401 (what runs by default is imported before it runs)
from .budget import Budget
from .graph import FactorGraph
from .methods import find_method
from .scoring import MAPResult, is_proved

_ROUNDING = 1e-8


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
