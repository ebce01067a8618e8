"""A prediction leaves a fitted model as it was, in every bit, however samples are decoded."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

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
    RaggedArray,
    SubgradientSSVM,
)
from skstruct.inspection import coef_frame, explain, top_features, transition_frame

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


@pytest.mark.slow
@pytest.mark.parametrize("name", _ALL)
def test_predictions_in_threads_change_no_bit_of_a_model(name):
    model, X, y, others = deepcopy(_ALL[name])
    model.fit(X, y)
    published = model.inference_, model.training_inference_
    before = _bits(model)
    alone = [_ask(deepcopy(model), X) for X in others]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda k: _ask(model, others[k % len(others)]), range(12)))
    assert _bits(model) == before
    assert (model.inference_, model.training_inference_) == published
    for k, found in enumerate(together):
        for ours, theirs in zip(found, alone[k % len(others)], strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert_array_equal(a, b)


def test_a_prediction_that_is_relaxed_where_fit_was_exact_says_so():
    rng = np.random.default_rng(1)
    X = _graphs(rng, _PATH)
    model = BCFWSSVM(Pairwise(max_table=4), random_state=0).fit(X, _labels(X, 2))
    assert (model.method_, model.inference_) == ("tree", "exact")
    with pytest.warns(UserWarning, match="fit was exact, but X has graphs .* good labellings"):
        model.predict(_graphs(rng, _TRIANGLE))
    assert (model.method_, model.inference_) == ("tree", "exact")
    model.predict(X)  # no warning


# Single samples: their problems are used again.


def _one_by_one(model, X):
    """What `predict` says of each sample alone, which must be what it says of all."""
    alone = [model.predict([x])[0] for x in X]
    for labels, expected in zip(alone, model.predict(X), strict=True):
        assert labels.dtype == expected.dtype
        assert_array_equal(labels, expected)
    return alone


def _sequences(rng, lengths=(3, 1, 5, 2, 4, 7, 6)):
    X = [rng.normal(size=(n, 4)) for n in lengths]
    return X, [np.array(["a", "b", "c"])[np.arange(n) % 3] for n in lengths]


_CHAINS = {
    "plain": Chain(),
    "boundary": Chain(boundary=True),
    "forbidden": Chain(forbidden=[(None, "c"), ("c", None), ("b", "a")]),
}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", _CHAINS)
def test_single_samples_of_any_form(name, fit_intercept):
    """Odd lengths, float32, CSR, Fortran order, read-only, and no nodes at all."""
    X, y = _sequences(np.random.default_rng(0), lengths=(4, 1, 5, 2, 7, 8))
    model = SAGCRF(_CHAINS[name], fit_intercept=fit_intercept, max_iter=3, random_state=0)
    model.fit(X, y)
    X = [*X, np.empty((0, 4))]
    expected = _one_by_one(model, X)
    forms = [
        [np.asfortranarray(x) for x in X],
        [x.tolist() if len(x) else x for x in X],
        [sparse.csr_matrix(x) for x in X],
        [np.frombuffer(x.tobytes()).reshape(x.shape) for x in X],
    ]
    for form in forms:
        assert list(map(list, _one_by_one(model, form))) == list(map(list, expected))
    for kind in (np.asarray, sparse.csr_matrix):
        _one_by_one(model, [kind(x.astype(np.float32)) for x in X])
        _one_by_one(model, [kind(x.astype(np.int64)) for x in X])
    packed = RaggedArray.from_list(X)
    assert_array_equal(np.concatenate(model.predict(packed)), np.concatenate(expected))
    for bad in (np.full((2, 4), np.nan), np.ones((2, 3)), np.ones(4), np.full((2, 4), 1e308)):
        messages = []
        for samples in ([bad], [bad, bad]):
            with pytest.raises((ValueError, FloatingPointError)) as error:
                model.predict(samples)
            messages.append((type(error.value), str(error.value)))
        assert messages[0] == messages[1]


def test_single_samples_see_edited_models():
    """Weights, classes, structure: whatever somebody edits, in place or not."""
    rng = np.random.default_rng(0)
    X, y = _sequences(rng)
    model = SAGCRF(max_iter=3, random_state=0).fit(X, y)
    _one_by_one(model, X)
    model.coef_[:] = rng.normal(size=model.coef_.shape)
    first = _one_by_one(model, X)
    model.pairwise_coef_[0, 0] += 100.0
    assert {*np.concatenate(_one_by_one(model, X))} == {"a"}
    model.pairwise_coef_[0, 0] -= 100.0
    assert [*map(list, _one_by_one(model, X))] == [*map(list, first)]
    model.node_weights_ = np.asfortranarray(-model.node_weights_)  # rebound, in another order
    assert [*map(list, _one_by_one(model, X))] != [*map(list, first)]
    model.node_weights_ = -model.node_weights_
    model.graph_.forbidden = [("a", "a"), ("b", "b"), ("c", "c")]
    assert all((labels[1:] != labels[:-1]).all() for labels in _one_by_one(model, X))
    model.graph_.forbidden += [(None, "a"), (None, "b")]
    assert {labels[0] for labels in _one_by_one(model, X)} == {"c"}
    model.classes_[:] = ["c", "b", "a"]
    assert {labels[0] for labels in _one_by_one(model, X)} == {"c"}
    model.graph_.forbidden = None
    _one_by_one(model, X)
    model.pair_weights_ = np.zeros((1, 16))
    with pytest.raises(ValueError, match="pair_weights_ must be a float64 array"):
        model.predict(X[:1])


@pytest.mark.parametrize("name", ["node_weights_", "pair_weights_"])
def test_assigned_tables_that_are_none(name):
    X = [np.eye(3), np.eye(3)[[1, 0]]]
    model = SAGCRF(Chain(), random_state=0, tol=0.5).fit(X, [["a", "b", "a"], ["b", "a"]])
    table = getattr(model, name)
    masked = np.ma.array(table, mask=False)
    setattr(model, name, masked)
    assert (getattr(model, name) == table).all()
    masked[0, 0] = np.ma.masked
    setattr(model, name, masked)
    with pytest.raises(ValueError, match=f"{name} are not finite"):
        model.predict(X)
    for wrong in (table[:-1], table[None], "x", None, table.tolist()):
        setattr(model, name, wrong)
        for ask in (coef_frame, top_features, transition_frame, lambda m: explain(m, X[0])):
            with pytest.raises(ValueError, match=f"{name} must be a float64 array of shape"):
                ask(model)


def test_single_samples_after_other_fits():
    """Another structure, other labels and features; and nothing of it is in copies and files."""
    rng = np.random.default_rng(0)
    X, y = _sequences(rng)
    model = SAGCRF(max_iter=3, random_state=0).fit(X, y)
    size = len(pickle.dumps(model))
    _one_by_one(model, X)
    assert len(pickle.dumps(model)) == size
    copies = pickle.loads(pickle.dumps(model)), deepcopy(model)
    copies[0].coef_[:] *= -1.0
    for one in (model, *copies, clone(model).set_params(fit_intercept=False).fit(X, y)):
        _one_by_one(one, X)
    model.set_params(graph=Chain(boundary=True)).fit(X, y)
    _one_by_one(model, X)
    model.fit([x[:, :2] for x in X], [np.char.add("tag-", labels) for labels in y])
    _one_by_one(model, [x[:, :2] for x in X])
    model.set_params(graph=Chain(edge_features=True))
    pairs = [(x, np.ones((len(x) - 1, 1))) for x in X]
    _one_by_one(model.fit(pairs, y), pairs)


def test_no_labelling_of_a_single_sample():
    """The error is the same at each call, and what comes after it is right."""
    X, y = _sequences(np.random.default_rng(0), lengths=(3, 1, 5))
    model = SAGCRF(max_iter=3, random_state=0).fit(X, y)
    _one_by_one(model, X)
    model.graph_.forbidden = [(a, b) for a in "abc" for b in "abc"]
    for _ in range(3):
        assert model.predict([X[1]])[0].size == 1
        with pytest.raises(ValueError, match="sample 0: no labelling satisfies"):
            model.predict([X[0]])
    model.graph_.forbidden = None
    for weight in (np.nan, 1e200):
        kept = model.coef_[0, 0].copy()
        model.coef_[0, 0] = weight
        with pytest.raises(ValueError, match=r"not finite|too large"):
            model.predict([X[0] + 1e160])
        model.coef_[0, 0] = kept
    _one_by_one(model, X)


def test_single_samples_in_threads():
    """Two models of one size in many threads, all from one problem at first."""
    rng = np.random.default_rng(0)
    X, y = _sequences(rng, lengths=range(1, 40))
    models = [SAGCRF(max_iter=k, random_state=k).fit(X, y) for k in (1, 3)]
    expected = [[labels.tolist() for labels in model.predict(X)] for model in models]

    def work(k):
        model, order = models[k % 2], np.random.default_rng(k).permutation(len(X))
        return all(
            model.predict([X[i]])[0].tolist() == expected[k % 2][i] for _ in range(5) for i in order
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
