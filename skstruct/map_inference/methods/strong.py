"""Accelerated gradient descent on the smooth and strongly convex dual."""

from __future__ import annotations

from ..arguments import check_positive
from .driver import drive
from .gradient import GradientDescent, check_smoothing


def solve_strong_accelerated(
    graph,
    *,
    tol,
    max_iter,
    time_limit,
    rng,
    on_pass,
    smoothing="l2",
    gamma=0.1,
    lam=0.1,
    lipschitz="search",
):
    """Accelerated gradient descent on a smoothed dual plus ``lam / 2 * |delta|^2``: a linear rate.

    Parameters
    ----------
    graph : FactorGraph
        The model.
    tol : float
        Relative gap that proves a labelling optimal; also the end for the relative gap of the
        method's own objective, ``|gradient|^2 / (2 lam)``.
    max_iter : int
        Largest number of evaluations of all regions.
    time_limit : float or None
        Seconds; `on_pass` looks after it.
    rng : numpy.random.Generator
        Not used.
    on_pass : callable or None
        Called between pieces of passes; returns True to stop.
    smoothing : {"l2", "softmax"}, default="l2"
        The smoothing of each region's maximum.
    gamma : float, default=0.1
        How much.
    lam : float, default=0.1
        Weight of the messages' square norm; 1 / lam is that of the primal's soft constraints.
    lipschitz : {"search", "bound"}, default="search"
        Steps by backtracking, or by a constant that is proved.

    Returns
    -------
    MAPResult
        With the duals of the best bound.

    Raises
    ------
    TypeError
        If a factor has no projection and `smoothing` is ``"l2"``, or a parameter is no number.
    ValueError
        If a parameter is out of range.

    References
    ----------
    Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, section
    4 and Table 1.

    Examples
    --------
    >>> from skstruct.map_inference import FactorGraph, Potts, solve_map
    >>> graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)], unaries=[[0, 1], [0.5, 0]])
    >>> solve_map(graph, "strong-accelerated", gamma=0.01, lam=0.01).labels
    array([1, 1])
    """
    gamma = check_smoothing(graph, "strong-accelerated", smoothing, gamma, lipschitz)
    lam = check_positive("lam", lam)
    method = GradientDescent(graph, tol, rng, smoothing, gamma, lam, True, lipschitz)
    return drive("strong-accelerated", method, tol=tol, max_iter=max_iter, on_pass=on_pass)
