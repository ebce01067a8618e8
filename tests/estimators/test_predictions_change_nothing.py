"""A prediction leaves a fitted model as it was, in every bit, however samples are decoded."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    Grid,
    MultiLabel,
    Pairwise,
    ProxLinearSSVM,
    SubgradientSSVM,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*predictions are good labellings:UserWarning"),
]

_PATH = np.array([[0, 1], [1, 2]])
_TRIANGLE = np.array([[0, 1], [1, 2], [0, 2]])
_CLIQUE = np.stack(np.triu_indices(7, 1), axis=1)


def _graphs(rng, edges, n=6):
    return [(rng.normal(size=(edges.max() + 1, 2)), edges) for _ in range(n)]


def _images(rng, height, width, n=4):
    return [rng.normal(size=(height, width, 2)) for _ in range(n)]


def _labels(X, n_labels):
    """Labels of nodes, by which feature is larger and by where they stand."""
    y = []
    for x in X:
        x = x[0] if isinstance(x, tuple) else x
        codes = (x[..., 0] > x[..., 1]).astype(int)
        codes.flat[:n_labels] = np.arange(n_labels)
        y.append(codes)
    return y


def _label_sets(rng, n_labels):
    X = rng.normal(size=(12, 3))
    return X, (X @ rng.normal(size=(3, n_labels)) > 0).astype(int)


def _cases():
    """Names, models, training data, and other samples that are decoded in other ways."""
    rng = np.random.default_rng(0)
    common = {"max_iter": 3, "tol": 0.0}
    paths, triangles, cliques = (_graphs(rng, edges) for edges in (_PATH, _TRIANGLE, _CLIQUE))
    graphs = [paths, triangles, cliques]
    for k, kind in ((2, BCFWSSVM), (3, BCFWSSVM), (3, SubgradientSSVM)):
        graph = Pairwise(max_table=k**2)
        yield f"{kind.__name__} {k} labels", kind(graph, **common), paths, _labels(paths, k), graphs
    mapped = ProxLinearSSVM(Pairwise(max_table=9), solver="subgradient", **common)
    yield "ProxLinearSSVM", mapped, paths, _labels(paths, 3), graphs
    # On triangles other tests train by these: nothing is compiled for this one alone.
    for kind in (SAGCRF, CasimirSSVM):
        yield kind.__name__, kind(Pairwise(), **common), triangles, _labels(triangles, 2), graphs
    constrained = ExtragradientSSVM(Pairwise(attractive=True), **common)
    yield "ExtragradientSSVM", constrained, paths, _labels(paths, 2), graphs
    small = _images(rng, 3, 3)
    images = [small, _images(rng, 1, 5), _images(rng, 12, 14)]
    for k, options in ((2, {}), (3, {}), (2, {"attractive": True})):
        model = BCFWSSVM(Grid(**options), **common)
        yield f"Grid {k} labels {options}", model, small, _labels(small, k), images
    for kind in (BCFWSSVM, GDMMSSVM):
        for n_labels in (4, 17):
            X, Y = _label_sets(rng, n_labels)
            model = kind(MultiLabel("full"), **common)
            yield f"{kind.__name__} {n_labels} label sets", model, X, Y, [X, X[:3]]
    X = [rng.normal(size=(4, 2)) for _ in range(5)]
    yield "Chain", SAGCRF(Chain(), **common), X, _labels(X, 3), [X, X[:2]]


_ALL = {name: case for name, *case in _cases()}


def _bits(model):
    return pickle.dumps((vars(model), vars(model.graph_)))


def _ask(model, X):
    found = [list(model.predict(X))]
    if hasattr(model, "predict_marginals"):
        found.append(list(model.predict_marginals(X)))
    return found


@pytest.mark.parametrize("name", _ALL)
def test_predictions_in_threads_change_no_bit_of_a_model(name):
    model, X, y, others = deepcopy(_ALL[name])
    model.fit(X, y)
    published = model.graph_.inference_, model.graph_.training_inference_
    before = _bits(model)
    alone = [_ask(deepcopy(model), X) for X in others]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda k: _ask(model, others[k % len(others)]), range(12)))
    assert _bits(model) == before
    assert (model.graph_.inference_, model.graph_.training_inference_) == published
    for k, found in enumerate(together):
        for ours, theirs in zip(found, alone[k % len(others)], strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert_array_equal(a, b)


def test_a_prediction_that_is_relaxed_where_fit_was_exact_says_so():
    rng = np.random.default_rng(1)
    X = _graphs(rng, _PATH)
    model = BCFWSSVM(Pairwise(max_table=4), random_state=0).fit(X, _labels(X, 2))
    assert (model.graph_.method_, model.graph_.inference_) == ("tree", "exact")
    with pytest.warns(UserWarning, match="fit was exact, but X has graphs .* good labellings"):
        model.predict(_graphs(rng, _TRIANGLE))
    assert (model.graph_.method_, model.graph_.inference_) == ("tree", "exact")
    model.predict(X)  # no warning
