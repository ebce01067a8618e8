"""Mixtures of dual points: their bound is the best one, and never falls."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from skstruct import BCFWSSVM, CasimirSSVM, Grid
from skstruct.core.weights import Weights, flatten, zero_weights
from skstruct.solvers import certificate
from skstruct.solvers.certificate import DualMixture

SHAPES = (4, 3), (1, 9)
LAM = 0.3


def _draw(rng):
    """The term and the mean gradient of a dual point, near those of others."""
    tables = [1.0 + 0.5 * rng.normal(size=shape) for shape in SHAPES]
    return 30.0 + rng.normal(), Weights(*tables)


def _bound(shares, terms, points):
    g = shares @ points
    return shares @ terms - g @ g / (2.0 * LAM)


@pytest.mark.parametrize("n", [1, 3, 12])
def test_the_best_mixture_of_few_points_is_scipys(n):
    rng = np.random.default_rng(n)
    mixture, terms, points = DualMixture(LAM, zero_weights(SHAPES)), [0.0], [np.zeros(21)]
    for _ in range(n):
        term, g = _draw(rng)
        mixture.offer(term, g.tables)
        terms.append(term)
        points.append(flatten(g))
        found = minimize(
            lambda shares, *known: -_bound(shares, *known),
            np.full(len(terms), 1.0 / len(terms)),
            args=(np.array(terms), np.array(points)),
            bounds=[(0.0, 1.0)] * len(terms),
            constraints={"type": "eq", "fun": lambda shares: shares.sum() - 1.0},
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert mixture.value == pytest.approx(-found.fun, rel=1e-6)
        w = flatten(mixture.weights)
        # The bound is what its weights say: none of rounding errors alone.
        assert mixture.magnitude - mixture.value == pytest.approx(LAM * w @ w, rel=1e-12)


@pytest.mark.parametrize("room", [1 << 22, 50, 0])
def test_bounds_do_not_fall_when_points_are_forgotten(room, monkeypatch):
    monkeypatch.setattr(certificate, "_POINT_ROOM", room)
    rng = np.random.default_rng(0)
    mixture, simple = (DualMixture(LAM, zero_weights(SHAPES), keeps=k) for k in (True, False))
    values = [0.0]
    for _ in range(3 * certificate._MOST_POINTS):
        term, g = _draw(rng)
        kept = flatten(g)
        for own in (mixture, simple):
            own.offer(term, g.tables)
        np.testing.assert_array_equal(flatten(g), kept)
        values.append(mixture.value)
    assert (np.diff(values) >= -1e-12 * max(values)).all()
    if room == 0:
        assert mixture.value == simple.value
    else:
        assert mixture.value > simple.value > 0.0


def test_equal_points_and_those_of_the_truth():
    mixture = DualMixture(LAM, zero_weights(SHAPES))
    term, g = _draw(np.random.default_rng(0))
    for _ in range(4):
        mixture.offer(term, g.tables)
        mixture.offer(0.0, zero_weights(SHAPES).tables)
    squared = flatten(g) @ flatten(g) / LAM
    share = min(term / squared, 1.0)
    assert mixture.value == pytest.approx(share * (term - 0.5 * share * squared), rel=1e-12)


@pytest.mark.parametrize("keeps", [True, False])
def test_rounding_of_many_mixtures_raises_no_bound(keeps):
    """Of points on a line, the best bound is that of the one best share, here in fractions."""
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(20):
        shapes, lam = ((1, 1), (0, 1)), 10.0 ** rng.integers(-3, 2)
        terms, points = rng.uniform(size=25) + 1.0, rng.normal(size=25) * np.sqrt(2.0 * lam)
        mixture = DualMixture(lam, zero_weights(shapes), keeps=keeps)
        for i in rng.integers(25, size=1000):
            mixture.offer(float(terms[i]), [np.array([[points[i]]]), np.empty((0, 1))])
        known = [(Fraction(0), Fraction(0))]
        known += [(Fraction(t), Fraction(g)) for t, g in zip(terms, points, strict=True)]
        best = max(_best_of_two(*two, Fraction(lam)) for two in itertools.combinations(known, 2))
        excess.append(Fraction(mixture.value) - best)
    assert max(excess) <= 0


def test_no_bound_is_above_what_rounding_may_have_left_of_the_objective():
    rng, values = np.random.default_rng(0), [1.0]
    values += (10.0 ** rng.uniform(-3, 3, size=200)).tolist()
    for value in values:
        magnitude = value * 10.0 ** rng.uniform(0, 3)
        squared = value * rng.choice([0.0, 10.0 ** rng.uniform(-18, -8)])
        known = certificate.certify(value, squared, LAM, 0.0, magnitude)
        # Rounding may have raised the objective by one unit in the last place of its terms.
        truth = Fraction(value) - Fraction(magnitude) / 2**52
        truth -= Fraction(squared) / (2 * Fraction(LAM))
        assert Fraction(known.dual_objective) <= truth
        assert known.dual_gap >= squared / (2.0 * LAM)


def _best_of_two(one, other, lam):
    """The best bound of a mixture of two points of one weight, without rounding."""
    term, g = one
    gain, change = other[0] - term, other[1] - g
    share = (gain - g * change / lam) * lam / (change * change)
    share = min(max(share, Fraction(0)), Fraction(1))
    return term + share * gain - (g + share * change) ** 2 / (2 * lam)


def test_casimir_on_grids_is_certified_where_its_weights_are_good():
    rng, X, y = np.random.default_rng(0), [], []
    for _ in range(12):
        y.append(rng.integers(2, size=(4, 5)))
        X.append(np.eye(2)[y[-1]] + 0.8 * rng.normal(size=(4, 5, 2)))
    best = BCFWSSVM(Grid(), C=10.0, tol=1e-6, max_iter=5000, random_state=0).fit(X, y)
    svm = CasimirSSVM(Grid(), C=10.0, tol=1e-2, max_iter=1000, random_state=0).fit(X, y)
    assert svm.suboptimality_ <= 1e-2
    assert (svm.history_["dual_objective"] <= best.objective_).all()
    assert best.dual_objective_ <= svm.objective_
    assert svm.history_["passes"][-1] <= 100
