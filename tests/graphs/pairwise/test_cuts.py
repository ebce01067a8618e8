"""Graphs of two labels that attract, by minimum cuts: against enumeration and junction trees."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from skstruct import BCFWSSVM, Grid, Pairwise
from skstruct.core import oracles
from tests.helpers.rounding import score_error


def _attractive(graph):
    """Promises what the parameter promises, at weights that the test chooses."""
    graph.attractive = True
    return graph


def _draw(seed, interactions, n_types, forbidden, repels):
    """A drawn graph, its problem, and potentials whose edges attract unless they may repel."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    pairs = [(a, b) if rng.random() < 0.5 else (b, a) for a in range(n) for b in range(a)]
    edges = np.array([p for p in pairs if rng.random() < 0.6], dtype=int).reshape(-1, 2)
    if n_types > 1:
        edges = np.column_stack([edges, rng.integers(0, n_types, len(edges))])
    graph = _attractive(
        Pairwise(
            edge_types=n_types, interactions=interactions, forbidden=forbidden, inference="max-flow"
        )
    )
    samples = graph.read_X(SimpleNamespace(), [(np.zeros((n, 1)), edges)], True)
    truth = rng.integers(0, 2, n).astype(np.int32)
    if forbidden:
        truth[:] = 0
    problem = graph.make_problem(samples, np.array([0, 1]), True, codes=truth)
    theta = rng.normal(size=problem.part_ptr[-1])
    theta = np.round(2 * theta, int(rng.integers(0, 3)))
    tables = theta[2 * n :].reshape(n_types, -1)
    if not repels:
        full = np.append(tables, np.zeros((n_types, 1)), axis=1)[:, problem.space.own.column]
        pull = full[:, 0, 0] + full[:, 1, 1] - full[:, 0, 1] - full[:, 1, 0]
        tables[pull < 0] *= -1
    for t in range(n):
        if rng.random() < 0.2:
            theta[2 * t + rng.integers(0, 2)] = -np.inf
    return n, problem, theta


def _everyone(problem, theta, n):
    """All labellings and their scores."""
    labellings = np.array(list(product(range(2), repeat=n)), dtype=np.int32)
    return labellings, np.array([oracles.score(problem, 0, theta, y) for y in labellings])


def _best_through(labellings, scores):
    """The best score through each label of each node."""
    best = np.full((labellings.shape[1], 2), -np.inf)
    for y, value in zip(labellings, scores, strict=True):
        at = np.arange(y.size), y
        best[at] = np.maximum(best[at], value)
    return best


_DRAWS = {
    "seed": st.integers(0, 2**32 - 1),
    "interactions": st.sampled_from(["full", "symmetric", "potts"]),
    "n_types": st.integers(1, 2),
    "forbidden": st.sampled_from([None, [(0, 1)], [(1, 0)], [(0, 1), (1, 0)]]),
}


def _own_parts(problem, shares):
    """The coordinates of the norm of projections, at shares of label 1, a row a point."""
    u, v = (shares[..., problem.space.own.ends[:, end]] for end in (0, 1))
    both = np.minimum(u, v)
    pairs = [u + v - 1.0, u - both, v - both]
    return np.concatenate([shares, 1.0 - shares, *pairs], axis=-1)


@settings(max_examples=60, deadline=None)
@given(temperature=st.sampled_from([1e-3, 0.3, 2.0, 100.0]), **_DRAWS)
def test_projections_are_optimal_and_lie_in_the_hull(
    seed, interactions, n_types, forbidden, temperature
):
    n, problem, theta = _draw(seed, interactions, n_types, forbidden, repels=False)
    labellings, scores = _everyone(problem, theta, n)
    mu = np.full(theta.size, np.nan)
    value = oracles.euclidean_oracle(problem, 0, theta, temperature, mu)
    if scores.max() == -np.inf:
        assert value == -np.inf
        assert not mu.any()
        return
    assert not mu[np.isneginf(theta)].any()
    allowed = np.isfinite(scores)
    parts = np.zeros((allowed.sum(), theta.size))
    for labels, row in zip(labellings[allowed], parts, strict=True):
        oracles.add_indicator(problem, 0, labels, 1.0, row)
    rows = np.column_stack([parts, np.ones(len(parts))])
    assert nnls(rows.T, np.append(mu, 1.0))[1] <= 1e-12 * mu.sum()
    # No labelling is better to first order.
    linear = np.where(np.isneginf(theta), 0.0, theta) @ mu
    here = _own_parts(problem, mu[1 : 2 * n : 2])
    assert value == pytest.approx(linear - 0.5 * temperature * here @ here, abs=1e-9)
    gains = scores[allowed] - temperature * _own_parts(problem, labellings[allowed] + 0.0) @ here
    assert gains.max() <= linear - temperature * here @ here + 1e-9 * max(1.0, temperature)


def test_projections_say_where_edges_repel():
    graph = _attractive(Pairwise(interactions="potts", inference="max-flow"))
    samples = graph.read_X(SimpleNamespace(), [(np.zeros((2, 1)), [(0, 1)])], True)
    problem = graph.make_problem(samples, np.array([0, 1]), True, codes=np.zeros(2, np.int32))
    mu = np.ones(5)
    assert np.isnan(oracles.euclidean_oracle(problem, 0, np.array([0.0, 1, 2, 0, -1]), 1.0, mu))
    assert not mu.any()
    # Less than rounding is no interaction.
    value = oracles.euclidean_oracle(problem, 0, np.array([0.0, 1, 2, 0, -1e-17]), 1.0, mu)
    assert value == oracles.euclidean_oracle(problem, 0, np.array([0.0, 1, 2, 0, 0]), 1.0, mu)


@settings(max_examples=150, deadline=None)
@given(**_DRAWS)
def test_cuts_and_max_marginals_are_exact_where_edges_attract(
    seed, interactions, n_types, forbidden
):
    n, problem, theta = _draw(seed, interactions, n_types, forbidden, repels=False)
    labellings, scores = _everyone(problem, theta, n)
    labels = np.zeros(n, dtype=np.int32)
    value, best = oracles.max_oracle(problem, 0, theta, labels), scores.max()
    assert value == pytest.approx(best, abs=1e-11)
    if best > -np.inf:
        rounding = score_error(problem, 0, theta, labels)
        assert abs(value - oracles.score(problem, 0, theta, labels)) <= rounding
    before, out = theta.copy(), np.empty(2 * n)
    oracles.max_marginals(problem, 0, theta, out)
    np.testing.assert_array_equal(theta, before)
    np.testing.assert_allclose(out.reshape(n, 2), _best_through(labellings, scores), atol=1e-10)
    if best > -np.inf:
        assert (np.abs(out.reshape(n, 2).max(axis=1) - value) <= rounding).all()


@settings(max_examples=150, deadline=None)
@given(**_DRAWS)
def test_labellings_and_bounds_are_honest_where_edges_repel(seed, interactions, n_types, forbidden):
    n, problem, theta = _draw(seed, interactions, n_types, forbidden, repels=True)
    labellings, scores = _everyone(problem, theta, n)
    labels, augmented = np.zeros(n, dtype=np.int32), np.empty(theta.size)
    value = oracles.max_oracle(problem, 0, theta, labels)
    assert value <= scores.max() + 1e-11
    if value > -np.inf:
        rounding = score_error(problem, 0, theta, labels)
        assert abs(value - oracles.score(problem, 0, theta, labels)) <= rounding
    losses = np.array([oracles.task_loss(problem, 0, y) for y in labellings])
    bound = oracles.loss_augmented_max(problem, 0, theta, labels, augmented)
    assert bound >= (scores + losses).max() - 1e-11
    out = np.empty(2 * n)
    oracles.max_marginals(problem, 0, theta, out)
    assert (out.reshape(n, 2) >= _best_through(labellings, scores) - 1e-10).all()


def _images(rng, n):
    """Noisy images of two labels, narrow enough for junction trees."""
    y = [(rng.random((3, 4)) < 0.4).astype(int) for _ in range(n)]
    y[0].flat[:2] = 0, 1
    return [a[..., None] + rng.normal(scale=0.7, size=(3, 4, 2)) for a in y], y


@pytest.mark.parametrize("options", [{"interactions": "potts"}, {"edge_features": "contrast"}])
def test_training_by_cuts_is_certified_and_its_predictions_are_the_best(options):
    X, y = _images(np.random.default_rng(1), 8)
    solver = {"C": 0.1, "tol": 1e-3, "max_iter": 2000, "random_state": 0}
    svm = BCFWSSVM(Grid(inference="max-flow", attractive=True, **options), **solver).fit(X, y)
    tree = BCFWSSVM(Grid(inference="junction-tree", attractive=True, **options), **solver).fit(X, y)
    assert svm.training_inference_ == svm.inference_ == "exact"
    assert svm.dual_objective_ <= tree.objective_
    assert tree.dual_objective_ <= svm.objective_
    predicted = svm.predict(X)
    assert svm.inference_ == "exact"
    tree.node_weights_[:], tree.pair_weights_[:] = svm.node_weights_, svm.pair_weights_
    for ours, theirs in zip(predicted, tree.predict(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_prediction_at_weights_that_repel_says_that_it_is_relaxed():
    X, y = _images(np.random.default_rng(2), 4)
    graph = Grid(interactions="potts", inference="max-flow", attractive=True)
    svm = BCFWSSVM(graph, C=0.1, random_state=0).fit(X, y)
    svm.pair_weights_[:] = -1.0
    with pytest.warns(UserWarning, match="interactions do not attract .* not always the best"):
        labellings = svm.predict(X)
    assert svm.inference_ == "exact"  # of fit's weights
    assert all(np.isin(labels, svm.classes_).all() for labels in labellings)
    for method, arguments in (("predict_top_k", (2,)), ("decision_function", ())):
        with pytest.raises(
            ValueError, match=r"interactions do not attract .*; use predict, or inf"
        ):
            getattr(svm, method)(X, *arguments)
    svm.pair_weights_[:] = 1.0
    best = svm.predict(X)  # no warning
    assert all((a[0] == b).all() for a, b in zip(svm.predict_top_k(X, 2)[0], best, strict=True))


@pytest.mark.filterwarnings("ignore:.*do not attract:UserWarning")
@pytest.mark.parametrize("inference", ["max-flow", "roof-dual"])
def test_threads_predict_as_one_does(inference):
    rng = np.random.default_rng(3)
    X, y = _images(rng, 4)
    graph = Grid(interactions="potts", inference=inference, attractive=inference == "max-flow")
    svm = BCFWSSVM(graph, C=0.1, random_state=0).fit(X, y)
    big = [rng.normal(size=(60, 70, 2)) for _ in range(4)]
    # Weights that repel take the general way, too.
    for weight in (0.5, -0.5):
        svm.pair_weights_[:] = weight
        alone = svm.set_params(n_jobs=1).predict(big)
        for a, b in zip(alone, svm.set_params(n_jobs=2).predict(big), strict=True):
            np.testing.assert_array_equal(a, b)


def test_max_marginals_of_an_image_are_those_of_forced_cuts():
    rng = np.random.default_rng(4)
    graph = Grid(directions=True, inference="max-flow", attractive=True)
    samples = graph.read_X(SimpleNamespace(), [rng.normal(size=(15, 20, 1))], True)
    problem = graph.make_problem(samples, np.array([0, 1]), True)
    theta = rng.normal(size=problem.part_ptr[-1])
    theta[600:] = [0.7, -0.1, 0.2, 0.5, 0.4, 0.0, -0.2, 0.9]
    out, labels = np.empty(600), np.zeros(300, dtype=np.int32)
    oracles.max_marginals(problem, 0, theta, out)
    value = oracles.max_oracle(problem, 0, theta, labels)
    rounding = score_error(problem, 0, theta, labels)
    forced = theta.copy()
    for t in rng.permutation(300)[:60]:
        assert abs(out[2 * t + labels[t]] - value) <= rounding
        forced[2 * t + labels[t]] = -np.inf
        other = oracles.max_oracle(problem, 0, forced, np.zeros(300, dtype=np.int32))
        forced[2 * t + labels[t]] = theta[2 * t + labels[t]]
        assert out[2 * t + 1 - labels[t]] == pytest.approx(other, abs=1e-10)


def test_cuts_are_refused_with_the_reason():
    X, y = _images(np.random.default_rng(5), 3)
    with pytest.raises(ValueError, match="attractive=False"):
        BCFWSSVM(Grid(inference="max-flow")).fit(X, y)
