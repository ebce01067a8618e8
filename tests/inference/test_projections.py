"""Projections onto hulls of labellings: against solvers of SciPy, and optimality conditions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from skstruct import Matching
from skstruct.core.oracles import euclidean_oracle
from skstruct.inference.assignment import assignment, assignment_work
from skstruct.inference.assignment_polytope import euclidean_assignment, projection_work
from skstruct.inference.max_flow import empty_forest, empty_network, link
from skstruct.inference.quadratic_cut import level_work, quadratic_cut
from skstruct.inference.simplex import best_mixture
from skstruct.testing import training_problem


@given(
    size=st.integers(1, 8),
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([1e-3, 0.5, 30.0]),
    shift=st.sampled_from([0.0, -1e4, 1e9]),
    forbidden=st.booleans(),
)
def test_best_mixtures_satisfy_the_optimality_conditions(size, seed, temperature, shift, forbidden):
    rng = np.random.default_rng(seed)
    scores = shift + rng.integers(-2, 3, size) / 2.0
    if forbidden:
        scores[rng.random(size) < 0.5] = -np.inf
    mu = np.empty(size)
    value = best_mixture(scores, temperature, mu, size)
    allowed = np.isfinite(scores)
    assert not mu[~allowed].any()
    if not allowed.any():
        assert value == -np.inf
        return
    assert mu.min() >= 0.0
    np.testing.assert_allclose(mu.sum(), 1.0, rtol=1e-15 * (1 + size))
    gradient = scores[allowed] - temperature * mu[allowed]
    assert gradient.max() - mu[allowed] @ gradient <= 1e-12 * (1.0 + abs(shift))
    expected = mu[allowed] @ scores[allowed] - 0.5 * temperature * mu @ mu
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


def draw_scores(rng, sizes, scale, ties, forbidden):
    """A matrix of scores, whole numbers where there are ties, -inf where a pair is forbidden."""
    scores = rng.integers(-2, 4, sizes) + 0.0 if ties else rng.normal(size=sizes)
    scores[rng.random(sizes) < forbidden] = -np.inf
    return scale * scores


def project(scores, null, temperature):
    """Value and point, None where there is no assignment."""
    n, m = scores.shape
    mu, memory = np.full(n * m, np.nan), (np.zeros(m), np.full(n, -1, np.int32))
    work = assignment_work(n, m), projection_work([(n, m)])
    start = scores.ravel().copy(), n, m, null, temperature
    value = euclidean_assignment(*start, *memory, mu, *work)
    return value, mu.reshape(n, m)


def check_feasible(scores, null, mu):
    assert mu.min() >= 0.0
    assert not mu[np.isneginf(scores)].any()
    n, m = mu.shape
    for sums, needed in ((mu.sum(axis=1), n <= m), (mu.sum(axis=0), n >= m)):
        assert sums.max() <= 1.0 + 1e-14
        assert null or not needed or sums.min() >= 1.0 - 1e-12


def best_assignment(scores, null):
    n, m = scores.shape
    memory = np.zeros(m), np.full(n, -1, np.int32)
    return assignment(scores.ravel(), n, m, null, *memory, assignment_work(n, m))


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 7),
    m=st.integers(1, 7),
    null=st.booleans(),
    temperature=st.sampled_from([1e-5, 0.01, 0.3, 2.0, 50.0]),
    scale=st.sampled_from([1.0, 1.0, 1e4]),
    ties=st.booleans(),
    forbidden=st.sampled_from([0.0, 0.3, 0.7]),
)
def test_euclidean_assignments_are_optimal_and_feasible(
    seed, n, m, null, temperature, scale, ties, forbidden
):
    scores = draw_scores(np.random.default_rng(seed), (n, m), scale, ties, forbidden)
    value, mu = project(scores, null, temperature)
    if best_assignment(scores, null) == -np.inf:
        assert value == -np.inf
        assert not mu.any()
        return
    check_feasible(scores, null, mu)
    some = np.where(np.isneginf(scores), 0.0, scores)
    size = max(scale, temperature)
    expected = (some * mu).sum() - 0.5 * temperature * (mu**2).sum()
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10 * size)
    # No assignment is better than mu to first order: that is what makes it the projection.
    gradient = scores - temperature * mu
    gap = best_assignment(gradient, null) - (some * mu - temperature * mu**2).sum()
    assert abs(gap) <= 1e-9 * size


def nearest_by_scipy(scores, null, temperature):
    """Maximum and point by sequential quadratic programming."""
    n, m = scores.shape

    def energy(z):
        return 0.5 * temperature * z @ z - z @ scores.ravel()

    def sources(z):
        return 1.0 - z.reshape(n, m).sum(axis=1)

    def targets(z):
        """Without the last, which follows from all others where all sums must be 1."""
        return 1.0 - z.reshape(n, m).sum(axis=0)[: m if null or n != m else -1]

    kinds = ["ineq" if null or n > m else "eq", "ineq" if null or n < m else "eq"]
    constraints = [
        {"type": kind, "fun": sums} for kind, sums in zip(kinds, (sources, targets), strict=True)
    ]
    found = minimize(
        energy,
        np.full(n * m, 0.3),
        bounds=[(0.0, 1.0)] * (n * m),
        constraints=constraints,
        options={"ftol": 1e-14},
    )
    return -found.fun, found.x.reshape(n, m)


@pytest.mark.parametrize("null", [True, False])
def test_projections_onto_assignments_equal_those_of_scipy(null):
    rng = np.random.default_rng(4)
    for sizes in ((2, 2), (2, 3), (3, 2), (3, 3)):
        scores, temperature = rng.normal(size=sizes), 0.7
        value, mu = project(scores, null, temperature)
        expected, nearest = nearest_by_scipy(scores, null, temperature)
        np.testing.assert_allclose(mu, nearest, atol=1e-6)
        np.testing.assert_allclose(value, expected, atol=1e-9)


def test_projections_do_not_depend_on_where_they_start():
    rng, n = np.random.default_rng(3), 40
    memory, work = (np.zeros(n), np.full(n, -1, np.int32)), assignment_work(n, n)
    room, mu = projection_work([(n, n)]), np.empty(n * n)
    for scale in (1.0, 0.1, 3.0):
        scores = scale * rng.normal(size=(n, n))
        start = scores.ravel(), n, n, True, 0.2
        value = euclidean_assignment(*start, *memory, mu, work, room)
        cold = project(scores, True, 0.2)
        np.testing.assert_allclose(value, cold[0], rtol=1e-12)
        np.testing.assert_allclose(mu.reshape(n, n), cold[1], atol=1e-9)


def test_nan_scores_show():
    scores = np.array([[1.0, np.nan], [0.0, 1.0]])
    value, mu = project(scores, True, 1.0)
    assert np.isnan(value)
    assert not mu.any()


def test_norms_of_matchings_leave_the_constant_out():
    X, y = [np.ones((2, 3, 1))], [np.zeros((0, 2), dtype=int)]
    problem, *_ = training_problem(Matching(), X, y)
    theta, mu = np.zeros(7), np.empty(7)
    theta[-1] = 5.0
    assert euclidean_oracle(problem, 0, theta, 1.0, mu) == 5.0
    np.testing.assert_array_equal(mu, [0, 0, 0, 0, 0, 0, 1])


@given(
    seed=st.integers(0, 10**6),
    ties=st.booleans(),
    pinned=st.booleans(),
)
def test_quadratic_cuts_are_optimal(seed, ties, pinned):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    m = int(rng.integers(0, 12)) if n > 1 else 0
    tail = rng.integers(0, n, m)
    ends = np.stack([tail, (tail + rng.integers(1, max(n, 2), m)) % n]).astype(np.int32)
    gains = rng.integers(-4, 7, n) + 0.0 if ties else 3.0 * rng.normal(size=n) + 1.0
    caps = rng.integers(0, 3, (2, m)) + 0.0 if ties else rng.random((2, m))
    bend = rng.integers(1, 4, n) + 0.0 if ties else 10.0 ** rng.uniform(-3, 2, n)
    if pinned:
        gains[rng.random(n) < 0.3] = rng.choice([-np.inf, np.inf])
        caps[rng.random((2, m)) < 0.2] = np.inf
    network, x = empty_network(n, 2 * m), np.empty(n)
    link(n, *ends, *caps, network)
    network.excess[:] = gains
    # One sign of infinity contradicts nothing: all at 0, or all at 1, is allowed.
    assert quadratic_cut(n, bend, network, empty_forest(n), level_work(n), x)
    assert x.min() >= 0.0
    assert x.max() <= 1.0
    np.testing.assert_array_equal(x[np.isinf(gains)], (gains[np.isinf(gains)] > 0.0) + 0.0)
    # The best point of the problem whose nodes are linear with the slopes at x is x itself.
    drop = np.vstack([np.eye(n)[ends[0]] - np.eye(n)[ends[1]]] * 2)
    drop[m:] *= -1.0
    above, caps = np.maximum(drop @ x, 0.0), caps.ravel()
    assert not above[np.isinf(caps)].any()
    slope = np.where(np.isinf(gains), 0.0, gains) - bend * x
    found = linprog(
        -np.append(slope, -np.where(np.isinf(caps), 0.0, caps)),
        A_ub=np.hstack([drop, -np.eye(2 * m)]),
        b_ub=np.zeros(2 * m),
        bounds=[(v, v) if np.isinf(g) else (0, 1) for v, g in zip(x, gains, strict=True)]
        + [(0, 0 if np.isinf(cap) else None) for cap in caps],
    )
    value = slope @ x - caps[above > 0.0] @ above[above > 0.0]
    np.testing.assert_allclose(value, -found.fun, atol=1e-8)


def test_quadratic_cuts_see_contradictions():
    network, ends = empty_network(2, 2), np.array([[0], [1]], dtype=np.int32)
    link(2, *ends, np.array([np.inf]), np.zeros(1), network)
    network.excess[:] = np.inf, -np.inf
    assert not quadratic_cut(2, np.ones(2), network, empty_forest(2), level_work(2), np.empty(2))
