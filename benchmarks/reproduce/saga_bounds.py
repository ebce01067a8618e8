"""Proposition 1 of Schmidt et al. 2015 on a small problem: SAGA's distances beside their bounds.

A CRF of single nodes with two labels, so that the L_i and the optimum are known. Step sizes, rates
and constants are those of the published paper.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


def proposition(passes=100, runs=40, n=50, d=4, seed=0):
    """Mean squared distances from the optimum after each pass, and the bounds of (a) and (b)."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * rng.uniform(0.2, 2.0, size=(n, 1))
    rows *= np.sign(rows @ rng.normal(size=d) + rng.normal(size=n))[:, None]
    lam = 1.0 / n

    def gradient(w, i):
        margins = np.einsum("...d,...d->...", rows[i], w)
        return lam * w - expit(-margins)[..., None] * rows[i]

    def objective(w):
        return np.logaddexp(0.0, -rows @ w).mean() + 0.5 * lam * w @ w

    best = minimize(objective, np.zeros(d), jac=lambda w: gradient(w, slice(None)).mean(axis=0),
                    options={"gtol": 1e-12}).x  # fmt: skip
    L = 0.25 * (rows * rows).sum(axis=1) + lam
    start = np.zeros(d)
    squares = ((gradient(start, slice(None)) - gradient(best, slice(None))) ** 2).sum(axis=1)
    mixed = 0.5 / n + 0.5 * L / L.sum()  # as SAG-NUS* samples
    steep = 4.0 * L.max() + n * lam
    alpha = n * mixed.min() / steep
    constant = 2.0 * mixed.min() / steep**2 * (squares / mixed).sum()
    cases = {"a": (mixed, alpha, lam * alpha, constant, False)}
    mean = L.mean()
    constant = n / (2.0 * mean) * (objective(start) - objective(best))
    cases["b"] = L / L.sum(), 0.25 / mean, min(1 / (3 * n), lam / (8 * mean)), constant, True
    found, all_runs = {}, np.arange(runs)
    for name, (p, step, rate, constant, paired) in cases.items():
        w = np.zeros((runs, d))
        memory = np.tile(gradient(start, slice(None)), (runs, 1, 1))
        own = [(best**2).sum()]
        for _ in range(passes):
            for j in rng.choice(n, size=(n, runs), p=p):
                change = gradient(w, j) - memory[all_runs, j]
                r = rng.integers(n, size=runs) if paired else j
                new = gradient(w, r)
                w = w - step * (change / (n * p[j])[:, None] + memory.mean(axis=1))
                memory[all_runs, r] = new
            own.append(((w - best) ** 2).sum(axis=1).mean())
        bound = (1.0 - rate) ** (n * np.arange(passes + 1)) * (own[0] + constant)
        found[name] = {"distance": list(map(float, own)), "bound": bound.tolist()}
    return found
