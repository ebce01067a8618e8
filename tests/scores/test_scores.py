"""Score maps: their Jacobians against finite differences, and input that they refuse."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from skstruct import ProxLinearSSVM
from skstruct.scores import ConvMap, LinearMap, MLPMap, ScoreMap

MAPS = [
    (LinearMap(), 6),
    (MLPMap(n_hidden=5), 6),
    (ConvMap(shape=(4, 3, 2), n_filters=3, size=2), 24),
    (ConvMap(shape=(5, 5, 1), n_filters=3, size=3, stride=2), 25),
    (ConvMap(n_filters=2, size=2, stride=2), 25),
]
N_ROWS, N_COLUMNS, STEP = 7, 4, 1e-6


def _setting(score_map, n_features, fit_intercept, seed=0):
    rng = np.random.default_rng(seed)
    score_map = clone(score_map)
    params = score_map.initialise(n_features, N_COLUMNS, rng, fit_intercept)
    params += 0.3 * rng.normal(size=params.size)
    rows = rng.normal(size=(N_ROWS, n_features))
    tangent, cotangent = rng.normal(size=params.size), rng.normal(size=(N_ROWS, N_COLUMNS))
    return score_map, params, rows, tangent, cotangent


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("score_map", "n_features"), MAPS, ids=str)
def test_products_are_those_of_finite_differences(score_map, n_features, fit_intercept):
    score_map, params, rows, tangent, cotangent = _setting(score_map, n_features, fit_intercept)
    ahead, behind = (score_map.scores(params + s * tangent, rows) for s in (STEP, -STEP))
    change = score_map.jvp(params, rows, tangent)
    assert_allclose(change, (ahead - behind) / (2 * STEP), atol=1e-7)
    # The transpose is the adjoint.
    gradient = score_map.vjp(params, rows, cotangent)
    assert_allclose(gradient @ tangent, (change * cotangent).sum(), rtol=1e-12)


@pytest.mark.parametrize(("score_map", "n_features"), MAPS, ids=str)
def test_a_linearisation_has_the_same_products(score_map, n_features):
    score_map, params, rows, tangent, cotangent = _setting(score_map, n_features, True)
    there = score_map.linearise(params, rows)
    assert_allclose(there.scores, score_map.scores(params, rows), rtol=1e-12)
    for index in (slice(2, 5), np.array([6, 0, 3])):
        part = there.take(index)
        assert_allclose(part.scores, there.scores[index])
        assert_allclose(part.jvp(tangent), there.jvp(tangent)[index], rtol=1e-9, atol=1e-12)
        some = np.zeros_like(cotangent)
        some[index] = cotangent[index]
        assert_allclose(part.vjp(cotangent[index]), there.vjp(some), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("score_map", "n_features"), MAPS, ids=str)
def test_blocks_of_rows_change_nothing(score_map, n_features, monkeypatch):
    score_map, params, rows, tangent, cotangent = _setting(score_map, n_features, True)
    whole = score_map.linearise(params, rows)
    expected = whole.jvp(tangent), whole.vjp(cotangent), score_map.scores(params, rows)
    monkeypatch.setattr("skstruct.scores._BLOCK", 1)
    there = score_map.linearise(params, rows)
    found = there.jvp(tangent), there.vjp(cotangent), score_map.scores(params, rows)
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("score_map", [LinearMap(), MLPMap(n_hidden=5)], ids=str)
def test_sparse_rows_give_the_same(score_map):
    score_map, params, rows, tangent, cotangent = _setting(score_map, 6, True)
    rows[rows < 0.5] = 0.0
    given = sparse.csr_matrix(rows)
    for method, argument in (("scores", ()), ("jvp", (tangent,)), ("vjp", (cotangent,))):
        found = getattr(score_map, method)(params, given, *argument)
        assert type(found) is np.ndarray
        assert_allclose(found, getattr(score_map, method)(params, rows, *argument), rtol=1e-10)


def test_a_convolution_is_the_sum_over_its_window():
    score_map = ConvMap(shape=(3, 4, 2), n_filters=2, size=2, stride=2)
    rng = np.random.default_rng(0)
    params = score_map.initialise(24, 3, rng)
    image = rng.normal(size=(3, 4, 2))
    filters, below, second, above = score_map.layers(params)
    hidden = []
    for column in (0, 2):
        window = image[0:2, column : column + 2].transpose(2, 0, 1)  # channels, rows, columns
        z = window.ravel() @ filters + below
        hidden.append(np.where(z > 0, z, np.exp(z) - 1.0))
    expected = np.concatenate(hidden) @ second + above
    assert_allclose(score_map.scores(params, image.reshape(1, -1))[0], expected, rtol=1e-12)


def test_the_default_linearisation_asks_the_map():
    class Squares(ScoreMap):
        def initialise(self, n_features, n_columns, rng, fit_intercept=True):
            self.shape_ = n_features, n_columns
            return rng.normal(size=n_features * n_columns)

        def scores(self, params, rows):
            return rows @ params.reshape(self.shape_) ** 2

        def jvp(self, params, rows, tangent):
            return rows @ (2.0 * params * tangent).reshape(self.shape_)

        def vjp(self, params, rows, cotangent):
            return (rows.T @ cotangent).ravel() * 2.0 * params

    score_map, params, rows, tangent, cotangent = _setting(Squares(), 3, True)
    there = score_map.linearise(params, rows).take(slice(1, 4))
    assert_allclose(there.jvp(tangent), score_map.jvp(params, rows, tangent)[1:4])
    assert_allclose(there.vjp(cotangent[1:4]), score_map.vjp(params, rows[1:4], cotangent[1:4]))


@pytest.mark.parametrize(
    ("score_map", "n_features", "message"),
    [
        (MLPMap(n_hidden=0), 4, "n_hidden of MLPMap must be an integer of at least 1, got 0"),
        (MLPMap(n_hidden=2.0), 4, "got 2.0"),
        (ConvMap(), 12, "X has 12 features, but a square of one channel of ConvMap has 9"),
        (ConvMap(shape=(2, 3, 2)), 13, "X has 13 features, but shape=(2, 3, 2) of ConvMap has 12"),
        (ConvMap(shape=(2, 3)), 6, "shape of ConvMap must be (height, width, channels)"),
        (ConvMap(size=3), 4, "size=3 of ConvMap is larger than the image (2, 2, 1)"),
        (ConvMap(stride=0), 9, "stride of ConvMap must be an integer of at least 1, got 0"),
    ],
)
def test_maps_refuse_what_does_not_fit(score_map, n_features, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        score_map.initialise(n_features, 2, np.random.default_rng(0))


class _Scaled(LinearMap):
    def scores(self, params, rows):
        rows *= 2.0
        return super().scores(params, rows)


class _Negative(LinearMap):
    def vjp(self, params, rows, cotangent):
        return -super().vjp(params, rows, cotangent)


class _Short(LinearMap):
    def jvp(self, params, rows, tangent):
        return super().jvp(params, rows, tangent)[:, :1]


class _Infinite(LinearMap):
    def vjp(self, params, rows, cotangent):
        return np.inf * super().vjp(params, rows, cotangent)


class _Whole(LinearMap):
    def scores(self, params, rows):
        return super().scores(params, rows).astype(int)


class _Centred(LinearMap):
    def scores(self, params, rows):
        return super().scores(params, rows - rows.mean(axis=0))


class _Noisy(LinearMap):
    rowwise = False

    def scores(self, params, rows):
        self.calls = getattr(self, "calls", 0) + 1
        return self.calls * super().scores(params, rows)


@pytest.mark.parametrize(
    ("score_map", "message"),
    [
        (_Centred(), "_Centred says rowwise=True, but a row alone has other scores"),
        (_Noisy(), "_Noisy gives other scores when it is asked again"),
        (_Scaled(), "read-only"),
        (_Negative(), "jvp and vjp of _Negative are not products with one Jacobian"),
        (_Short(), r"_Short.jvp must return the shape \(2, 2\), got \(2, 1\)"),
        (_Infinite(), "_Infinite.vjp is not finite"),
        (_Whole(), "_Whole must give scores of shape .* and float64, .* got .* and int64"),
    ],
)
def test_bad_maps_are_refused_before_training(score_map, message):
    X, y = np.random.default_rng(0).normal(size=(6, 2)), [0, 1, 0, 1, 0, 1]
    before = X.copy()
    with pytest.raises((ValueError, TypeError), match=message):
        ProxLinearSSVM("multiclass", score_map).fit(X, y)
    assert_array_equal(X, before)
