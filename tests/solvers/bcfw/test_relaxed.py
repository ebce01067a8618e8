"""Relaxed BCFW: its cache of points and what it says of shares; passes of fits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct import BCFWSSVM, Grid
from skstruct.core.jit.kernels import kernel
from skstruct.solvers.bcfw.relaxed import Points, _best_point, _keep
from tests.helpers.image_cases import smooth_images

SIZE = 5


@kernel
def keep(points, i, mu, loss):
    """Slot of a point."""
    return _keep(points, i, mu, mu.shape[0], loss)


@kernel
def best_point(i, theta, points, values):
    """Slot of the point of highest score."""
    return _best_point(i, theta, points, values)


def _cache(rooms, n_cached):
    ptr = np.concatenate([[0], np.cumsum(rooms)])
    shape = len(rooms), n_cached
    return Points(
        ptr=ptr,
        part=np.zeros((n_cached, ptr[-1]), dtype=np.int32),
        much=np.zeros((n_cached, ptr[-1])),
        sizes=np.zeros(shape, dtype=np.int32),
        shares=np.full(shape, -1.0),
        costs=np.zeros(shape),
        past=np.zeros(shape),
    )


def _held(points, i, c):
    """The point in a slot; None if it is empty."""
    if points.shares[i, c] < 0.0:
        return None
    mu, at = np.zeros(SIZE), slice(points.ptr[i], points.ptr[i] + points.sizes[i, c])
    mu[points.part[c, at]] = points.much[c, at]
    return tuple(mu)


def test_a_point_is_kept_once_and_the_one_of_least_share_makes_room():
    points = _cache([2, 3], 2)
    first, second = np.array([1.0, 0, 0, 0.5, 0]), np.array([0, 0.5, 0.5, 0, 0])
    assert keep(points, 0, first, 0.25) == 0
    assert keep(points, 0, first, 0.75) == 0  # a duplicate, with the loss it came with
    assert points.costs[0, 0] == 0.25
    # The start of a point is another point.
    assert keep(points, 0, np.array([1.0, 0, 0, 0, 0]), 1.0) == 1
    assert keep(points, 0, first, 0.0) == 0
    points.shares[0] = 0.6, 0.2
    before = [array.copy() for array in points]
    assert keep(points, 0, np.array([1.0, 1, 0, 1, 0]), 1.0) == -1  # no room
    for array, old in zip(points, before, strict=True):
        np.testing.assert_array_equal(array, old)
    assert keep(points, 0, second, 0.5) == 1
    assert points.shares[0].tolist() == [0.6, 0.0]
    assert _held(points, 0, 0) == tuple(first)
    assert _held(points, 0, 1) == tuple(second)
    # The other sample has a room of its own.
    assert points.shares[1].tolist() == [-1.0, -1.0]
    assert keep(points, 1, np.array([1.0, 1, 0, 1, 0]), 1.0) == 0
    assert _held(points, 0, 0) == tuple(first)


@given(seed=st.integers(0, 10**6), n_cached=st.integers(1, 4))
def test_the_cache_is_one_of_points_by_value(seed, n_cached):
    rng = np.random.default_rng(seed)
    room, held, values = 3, {}, np.empty(n_cached)
    points = _cache([room, room], n_cached)
    for _ in range(30):
        mu = rng.integers(0, 3, size=SIZE) / 2.0 * (rng.random(SIZE) < 0.5)
        cost, least = float(rng.random()), int(points.shares[1].argmin())
        slot = keep(points, 1, mu, cost)
        if tuple(mu) in held:
            assert slot == held[tuple(mu)][0]
        elif np.count_nonzero(mu) > room:
            assert slot == -1
        else:
            assert slot == least
            assert points.shares[1, slot] == 0.0
            held = {point: kept for point, kept in held.items() if kept[0] != slot}
            held[tuple(mu)] = slot, cost
            points.shares[1, slot] = rng.random()
        assert {_held(points, 1, c): (c, points.costs[1, c]) for c, _ in held.values()} == held
        assert (points.shares[0] == -1.0).all()
        theta = rng.normal(size=SIZE)
        scores = {c: cost + np.dot(point, theta) for point, (c, cost) in held.items()}
        assert best_point(1, theta, points, values) == max(scores, key=scores.get, default=-1)
        for c, score in scores.items():
            np.testing.assert_allclose(values[c], score, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"inference": "lp"}, {"inference": "roof-dual"}, {"attractive": True}], ids=str
)
def test_extrapolation_halves_the_passes(options):
    X, y = smooth_images()
    svm = BCFWSSVM(Grid(**options), C=10.0, random_state=0).fit(X, y)
    # Without extrapolation it takes 515 to 521 passes.
    assert svm.n_iter_ <= 350
    assert svm.suboptimality_ <= 1e-2
    best = BCFWSSVM(Grid(**options), C=10.0, steps="frank-wolfe", tol=0.2, max_iter=9999)
    best.set_params(random_state=1).fit(X, y)
    assert best.dual_objective_ <= svm.objective_
    assert svm.dual_objective_ <= best.objective_
