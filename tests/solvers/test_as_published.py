"""Rows of the guide's "exactly as published": weights are those of the pseudo-code, by enumeration.

Algorithms 2 and 3 of GDMM are followed in tests/estimators/test_svm_gdmm.py, cells of Table 1 of
Smooth and Strong in tests/map_inference/test_smooth_and_strong.py.
"""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

from skstruct import BCFWSSVM, SAGCRF, CasimirSSVM, ExtragradientSSVM, ProxLinearSSVM
from skstruct.datasets import pack_shards
from skstruct.scores import ScoreMap
from skstruct.testing import all_labellings

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

K, D, C = 2, 3, 0.7
_RNG = np.random.default_rng(4)
X = [_RNG.normal(size=(t, D)) for t in (3, 2, 3, 1, 2)]
Y = [np.array(labels) for labels in ([0, 1, 1], [1, 0], [0, 0, 1], [1], [0, 1])]
n, LAM = len(X), 1.0 / (C * len(X))


def features(x, labels):
    """Of a labelling: columns of nodes by labels, then transitions."""
    node, pair = np.zeros((D, K)), np.zeros((K, K))
    for row, k in zip(x, labels, strict=True):
        node[:, k] += row
    for a, b in itertools.pairwise(labels):
        pair[a, b] += 1.0
    return np.concatenate([node.ravel(), pair.ravel()])


ALL = [all_labellings(len(x), K) for x in X]
#: Of each sample and labelling: features less those of the truth, and errors.
PSI = [
    np.array([features(x, labels) - features(x, y) for labels in every])
    for x, y, every in zip(X, Y, ALL, strict=True)
]
COST = [(every != y).sum(axis=1).astype(float) for y, every in zip(Y, ALL, strict=True)]
ZERO = np.zeros(D * K + K * K)


def weights(model):
    """All weights of a model, as a vector."""
    return np.concatenate([model.node_weights_.ravel(), model.pair_weights_.ravel()])


def fitted(model, passes, lam=LAM):
    """The weights after some passes."""
    options = {"graph": "chain", "fit_intercept": False, "tol": 0.0, "max_iter": passes}
    model.set_params(C=1.0 / (lam * n) if lam else np.inf, **options)
    return weights(model.fit(X, Y))


def objective(w, lam=LAM):
    """The regularised mean hinge."""
    hinges = [(c + psi @ w).max() for c, psi in zip(COST, PSI, strict=True)]
    return 0.5 * lam * w @ w + np.mean(hinges)


def draws():
    """The generator of a fit whose random_state is 0."""
    return SAGCRF(random_state=0)._generator()


# Schmidt et al. 2015.


def log_loss(i, w):
    return float(logsumexp(PSI[i] @ w))


def search(i, w, g, constant):
    """Algorithm 2."""
    while log_loss(i, w - g / constant) > log_loss(i, w) - g @ g / (2.0 * constant):
        constant *= 2.0
    return constant


def sag(uniform, skips, lam=LAM):
    """Algorithm 1, or SAG-NUS* of section 5: after each pass weights, and the average gradient."""
    rng, w, d, memory, L, one = draws(), ZERO, ZERO, {}, {}, 1.0
    hits, left = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    while True:
        for u, v in rng.random((n, 2)):
            i = int(v * n)
            if not uniform and L and u >= 0.5:
                known = sorted(L)
                shares = np.cumsum([L[k] for k in known])
                i = known[np.searchsorted(shares, v * shares[-1], side="right")]
            g = softmax(PSI[i] @ w) @ PSI[i]
            d, memory[i] = d + g - memory.get(i, ZERO), g
            if uniform:
                one = search(i, w, g, one)
                alpha, one = 1.0 / (one + lam), one * 2.0 ** (-1.0 / n)
            else:
                if left[i]:
                    left[i] -= 1
                else:
                    start = 0.9 * L[i] if i in L else np.mean([*L.values()]) / 2.0 if L else 1.0
                    L[i] = search(i, w, g, start)
                    hits[i] = hits[i] + 1 if L[i] == start else 0
                    left[i] = 2 ** (hits[i] - 1) if hits[i] and skips else 0
                known = [*L.values()]
                alpha = 0.5 * (1.0 / (max(known) + lam) + 1.0 / (np.mean(known) + lam))
            w = (1.0 - alpha * lam) * w - alpha / len(memory) * d
        yield w, np.abs(d / n + lam * w).max() if len(memory) == n else np.inf


@pytest.mark.parametrize(
    ("options", "uniform", "skips"),
    [
        ({"sampling": "uniform"}, True, False),
        ({}, False, True),
        ({"line_search": "always"}, False, False),
    ],
)
def test_sag_and_sag_nus(options, uniform, skips):
    for passes, (w, _) in zip(range(1, 9), sag(uniform, skips), strict=False):
        model = SAGCRF(solver="sag", schedule="paper", random_state=0, **options)
        assert_allclose(fitted(model, passes), w, atol=1e-11)
    tuned = model.set_params(schedule="tuned")
    assert np.abs(fitted(tuned, passes) - w).max() > 1e-4


def test_sag_of_strong_regularisation():
    # Steps of nearly 1 / lambda, which are cut by default.
    model = SAGCRF(solver="sag", schedule="paper", random_state=0)
    assert_allclose(fitted(model, 1, 1e3), next(sag(False, True, 1e3))[0], rtol=1e-9)


@pytest.mark.parametrize("tol", [0.1, 1e-3])
def test_the_average_gradient_ends_a_fit(tol):
    model = SAGCRF("chain", C=C, solver="sag", schedule="paper", stop="gradient", tol=tol)
    model.set_params(fit_intercept=False, random_state=0).fit(X, Y)
    passes, by_hand = next((k, w) for k, (w, g) in enumerate(sag(False, True), 1) if g <= tol)
    assert model.n_iter_ == passes
    assert_allclose(weights(model), by_hand, atol=1e-11)
    # The certificate is of the end.
    assert model.suboptimality_ == pytest.approx(model.dual_gap_ / model.objective_, abs=1e-11)


# Pillutla et al. 2019.


def smoothed(i, w, nu, smoothing):
    """The gradient of a smoothed hinge, of the hinge itself where nu is 0."""
    scores = COST[i] + PSI[i] @ w
    if nu == 0.0:
        return PSI[i][scores.argmax()]
    if smoothing == "entropy":
        return softmax(scores / nu) @ PSI[i]
    ordered = np.sort(scores / nu)[::-1]
    level = (np.cumsum(ordered) - 1.0) / np.arange(1, ordered.size + 1)
    share = np.maximum(scores / nu - level[np.flatnonzero(ordered > level)[-1]], 0.0)
    return share @ PSI[i]


def casimir(variant, smoothing, start, rate, kappa, nu, lam):
    """Algorithm 4 with SVRG, settings of Corollaries 17 to 20: the iterates."""
    rng, w, z, before, first = draws(), ZERO, ZERO, ZERO, (kappa, nu)
    alpha = math.sqrt(lam / (lam + kappa)) if lam else 0.5 * (math.sqrt(5.0) - 1.0)
    for k in itertools.count(1):
        point = {"prox-center": z, "previous": w}.get(start)
        if point is None:
            point = z if k == 1 else w + kappa / (kappa + lam) * (z - before)
        stored = np.array([smoothed(i, point, nu, smoothing) for i in range(n)])
        x, trail = point, []
        for i in rng.integers(n, size=n):
            g = smoothed(i, x, nu, smoothing) - stored[i] + stored.mean(axis=0)
            x = x - rate * (g + lam * x + kappa * (x - z))
            trail.append(x)
        last, w, before, strong = w, np.mean(trail, axis=0), z, kappa + lam
        if variant == "adaptive":
            kappa = kappa if lam else first[0] * (k + 1)
            shrinks = math.sqrt(1.0 - 0.5 * math.sqrt(lam / strong))
            nu = nu * shrinks if lam else first[1] / (k + 1)
        then = kappa + lam
        new = max(np.roots([then, alpha**2 * strong - lam, -(alpha**2) * strong]))
        beta = alpha * (1.0 - alpha) * strong / (alpha**2 * strong + new * then)
        alpha, z = new, w + beta * (w - last)
        yield w


@pytest.mark.parametrize(
    ("variant", "smoothing", "start", "nu", "lam"),
    [
        ("adaptive", "l2", "prox-center", 2.0, LAM),
        ("adaptive", "l2", "extrapolation", 2.0, LAM),
        ("adaptive", "l2", "previous", 2.0, LAM),
        ("adaptive", "entropy", "prox-center", 1.0, LAM),
        ("adaptive", "l2", "prox-center", 2.0, 0.0),
        ("constant", "l2", "prox-center", 1.0, LAM),
        ("constant", "l2", "prox-center", 1.0, 0.0),
        ("constant", "l2", "prox-center", 0.0, LAM),
        ("svrg", "l2", "previous", 1.0, LAM),
    ],
)
def test_casimir(variant, smoothing, start, nu, lam):
    rate, kappa, found = 0.1, 0.0 if variant == "svrg" else LAM, []
    by_hand = casimir(variant, smoothing, start, rate, kappa, nu, lam)
    for passes, w in zip(range(1, 6), by_hand, strict=False):
        model = CasimirSSVM(variant=variant, smoothing=smoothing, smoothing_strength=nu)
        model.set_params(n_best=8, kappa=kappa or None, warm_start_strategy=start)
        model.set_params(learning_rate=rate, sampling="uniform", inner_iterate="average")
        found.append(w)
        best = min(found, key=lambda at: objective(at, lam))
        assert_allclose(fitted(model.set_params(random_state=0), passes, lam), best, atol=1e-10)
    assert best is not found[0]


class Squares(ScoreMap):
    """Scores ``rows @ (w * w)``, of one matrix w."""

    def initialise(self, n_features, n_columns, rng, fit_intercept=True):
        return np.linspace(0.3, 0.9, n_features * n_columns)

    def _table(self, params, rows):
        return params.reshape(rows.shape[1], -1)

    def scores(self, params, rows):
        return rows @ self._table(params * params, rows)

    def jvp(self, params, rows, tangent):
        return rows @ self._table(2.0 * params * tangent, rows)

    def vjp(self, params, rows, cotangent):
        return 2.0 * params * (rows.T @ cotangent).ravel()


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_prox_linear_to_a_tolerance(tol):
    eta, at = 0.5, np.concatenate([np.linspace(0.3, 0.9, D * K), np.zeros(K * K)])
    for steps in range(1, 4):
        model = ProxLinearSSVM("chain", Squares(), C=C, fit_intercept=False, max_iter=steps)
        model.set_params(step_size=eta, smoothing_schedule="inverse", smoothing_strength=tol)
        model.set_params(inner_tol=tol, inner_passes=5000, n_best=8, tol=0.0, random_state=0)
        model.fit(X, Y)
        w = np.concatenate([model.score_params_, model.pair_weights_.ravel()])
        # The model of the paper around the last weights, linear in the scores.
        slope = np.concatenate([2.0 * at[: D * K], np.ones(K * K)])
        there = np.concatenate([at[: D * K] ** 2, at[D * K :]]) + slope * (w - at)
        g = slope * np.mean([smoothed(i, there, tol / steps, "l2") for i in range(n)], axis=0)
        g += LAM * w + (w - at) / eta
        # Strong convexity: the smoothed model is within half of the tolerance, the other is of nu.
        assert g @ g / (2.0 * (LAM + 1.0 / eta)) <= 0.5 * tol / steps * (1.0 + 1e-6)
        assert model.n_iter_ == steps
        assert np.abs(w - at).max() > 1e-3
        at = w


# Lacoste-Julien et al. 2013.


@pytest.mark.parametrize("averaging", [False, True])
def test_block_coordinate_frank_wolfe(averaging):
    rng, w, own, losses = draws(), ZERO, np.zeros((n, ZERO.size)), np.zeros(n)
    mean, k = ZERO, 0
    for passes in range(1, 5):
        order, _ = rng.integers(n, size=n), rng.random(n)
        for i in order:
            best = (COST[i] + PSI[i] @ w).argmax()
            corner, loss = -PSI[i][best] / (LAM * n), COST[i][best] / n
            apart = own[i] - corner
            slope = LAM * apart @ w - losses[i] + loss
            step = min(max(slope / (LAM * apart @ apart), 0.0), 1.0) if apart.any() else 0.0
            w = w - step * apart
            own[i], losses[i] = own[i] - step * apart, losses[i] + step * (loss - losses[i])
            mean, k = k / (k + 2.0) * mean + 2.0 / (k + 2.0) * w, k + 1
        model = BCFWSSVM(steps="frank-wolfe", sampling="uniform", averaging=averaging)
        found = fitted(model.set_params(gap_every=1, random_state=0), passes)
        # Gram matrices are in single precision.
        assert_allclose(found, min([w, mean][: 1 + averaging], key=objective), atol=1e-6)


@pytest.mark.parametrize("steps", ["batch", "batch-open-loop"])
def test_batch_frank_wolfe(steps):
    w, loss, seen = ZERO, 0.0, []
    for k in range(6):
        seen.append(w)
        best = [(c + psi @ w).argmax() for c, psi in zip(COST, PSI, strict=True)]
        corner = -np.mean([PSI[i][best[i]] for i in range(n)], axis=0) / LAM
        more = np.mean([COST[i][best[i]] for i in range(n)])
        apart, step = w - corner, 2.0 / (k + 2.0)
        if steps == "batch":
            step = min(max((LAM * apart @ w - loss + more) / (LAM * apart @ apart), 0.0), 1.0)
        w, loss = w - step * apart, loss + step * (more - loss)
        found = fitted(BCFWSSVM(steps=steps), k + 1)
        assert_allclose(found, min(seen, key=objective), atol=1e-11)


# Boileau, Lamouchi, St-Arnaud 2019.


def test_dual_extragradient():
    radius, eta, flat = 1.5, 0.3, 1e-6
    # Distances: of mixtures their divergence, of weights `heavy / 2` times the square.
    heavy = 0.2 * np.mean([logsumexp(flat * c) for c in COST]) / radius**2
    s, z, total, seen = [flat * c for c in COST], ZERO, ZERO, []

    def ball(w):
        return w * min(1.0, radius / np.linalg.norm(w)) if w.any() else w

    def mean(potentials):
        return np.mean([softmax(p) @ psi for p, psi in zip(potentials, PSI, strict=True)], axis=0)

    def ahead(w):
        return [p + eta * (c + psi @ w) for p, c, psi in zip(s, COST, PSI, strict=True)]

    for t in range(6):
        v = ball(-z / heavy)
        u, mixtures = ball(-(z + eta * mean(s)) / heavy), ahead(v)
        z, s, total = z + eta * mean(mixtures), ahead(u), total + eta * u
        seen.append(ball(total / (flat + eta * (t + 1))))
        model = ExtragradientSSVM(radius=radius, step_size=eta, restarts=False)
        w = fitted(model.set_params(projection="gibbs"), t + 1)
        best = min(seen, key=lambda at: objective(at) - 0.5 * LAM * at @ at)
        assert_allclose(w, best, atol=1e-10)
    assert best is not seen[0]


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "oeg"])
def test_solvers_that_are_not_of_that_paper(solver):
    for options in ({"schedule": "paper"}, {"stop": "gradient"}):
        with pytest.raises(ValueError, match=r'use solver="sag" or "saga"'):
            SAGCRF(solver=solver, **options).fit(X, Y)


@pytest.mark.parametrize("options", [{"schedule": "paper"}, {"stop": "gradient"}])
def test_no_option_is_ignored_where_l_bfgs_trains(options, tmp_path):
    message = r'solver=\'auto\' does not take .* use solver="sag" or "saga"'
    for data in ((pack_shards(X, Y, tmp_path / "shards"),), (X, [[None, 1, 1], *Y[1:]])):
        with pytest.raises(ValueError, match=message):
            SAGCRF(**options).fit(*data)
