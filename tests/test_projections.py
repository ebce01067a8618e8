"""Projections onto hulls of labellings: against solvers of SciPy, and optimality conditions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skstruct.inference.simplex import best_mixture


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
