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

    Meshi, Mahdavi, Schwing 2015, Smooth and Strong: MAP Inference with Linear Convergence, section
    4 and Table 1.
    """
    gamma = check_smoothing(graph, "strong-accelerated", smoothing, gamma, lipschitz)
    lam = check_positive("lam", lam)
    method = GradientDescent(graph, tol, rng, smoothing, gamma, lam, True, lipschitz)
    return drive("strong-accelerated", method, tol=tol, max_iter=max_iter, on_pass=on_pass)
