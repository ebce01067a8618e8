"""Fitted models on shards answer what they answer on lists, bit for bit."""

import threading
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV

from skstruct import SAGCRF, Chain, MultiClass, ProxLinearSSVM, Tree
from skstruct.data.names import ListedNames
from skstruct.data.ragged import RaggedArray
from skstruct.datasets import pack_shards
from skstruct.estimators.training_data import read_training_data

RNG = np.random.default_rng(5)


def _model(graph, X, y, **parameters):
    """A model with weights of which nobody has asked where they come from."""
    model = SAGCRF(graph, **parameters)
    data = read_training_data(model, X, y, None)
    shapes = model.graph_.weight_shapes(data.samples, len(model.classes_), model.fit_intercept)
    model.node_weights_, model.pair_weights_ = (RNG.normal(size=shape) for shape in shapes)
    return model


def _same(got, expected):
    assert type(got) is type(expected)
    if isinstance(got, tuple):
        assert len(got) == len(expected)
        return all(_same(a, b) for a, b in zip(got, expected, strict=True))
    assert got.dtype == expected.dtype
    if got.dtype == object:
        return len(got) == len(expected) and all(map(np.array_equal, got, expected))
    return np.array_equal(got, expected)


def _cases(sparse_sequences):
    X, y = sparse_sequences
    pairs = [(x.toarray(), RNG.normal(size=(x.shape[0] - 1, 2))) for x in X]
    trees = [(x, np.arange(x.shape[0]) - 1) for x in X]
    table = sparse.vstack(X, format="csr")
    return {
        "chain": (Chain(), X, y),
        "ends": (Chain(boundary=True, forbidden=[("a", "b")]), X, None),
        "edges": (Chain(edge_features=True), pairs, y),
        "tree": (Tree(), trees, y),
        "table": (MultiClass(), table, np.concatenate(y)),
    }


@pytest.mark.parametrize("case", ["chain", "ends", "edges", "tree", "table"])
def test_answers_are_those_on_lists(case, sparse_sequences, tmp_path):
    graph, X, y = _cases(sparse_sequences)[case]
    labelled = sparse_sequences[1] if y is None else y
    packed = Chain() if case == "ends" else graph
    if y is None:  # no labelling of these may have the forbidden step
        labelled = [np.where(np.arange(len(v)) % 2, "c", "a") for v in labelled]
        labelled[0] = np.array(["b"] * len(labelled[0]))
    model = _model(graph, X, labelled)
    shards = pack_shards(X, labelled, tmp_path / "shards", shard_size=9, graph=packed)
    assert _same(model.predict(shards), model.predict(X))
    assert _same(model.predict_marginals(shards), model.predict_marginals(X))
    assert model.score(shards) == model.score(X, labelled)
    if case == "chain":
        assert _same(model.predict_top_k(shards, 2), model.predict_top_k(X, k=2))
        both = model.predict_marginals(shards, pairwise=True)
        assert _same(both, model.predict_marginals(X, pairwise=True))
        found = model.predict_log_likelihood(shards)
        assert _same(found, model.predict_log_likelihood(X, labelled))
    if case in ("chain", "table"):
        assert _same(model.decision_function(shards), model.decision_function(X))
        assert _same(model.predict_proba(shards), model.predict_proba(X))


@pytest.fixture
def chain(sparse_sequences, tmp_path):
    """A model, samples, labels, and their shards."""
    X, y = sparse_sequences
    weight = RNG.uniform(0.5, 2.0, size=len(X))
    shards = pack_shards(X, y, tmp_path / "shards", shard_size=7, sample_weight=weight)
    return _model(Chain(), X, y), X, y, shards, weight


@pytest.mark.slow
def test_shards_in_parallel(chain):
    model, X, _, shards, _ = chain
    expected, score = model.predict(X), model.score(shards)
    model.n_jobs = 2
    # Callbacks stay here: they need not be such as can be sent.
    model._skl_callbacks = [threading.Lock()]
    assert _same(model.predict(shards), expected)
    assert model.score(shards) == score


def test_a_shard_needs_the_rows_of_its_columns_only(chain):
    model, _, _, shards, _ = chain
    expected = model.predict(shards)
    used = np.unique(np.concatenate([shards.columns(k) for k in range(shards.n_shards)]))
    assert used.size  # the others, if any, and names may go
    tables = []
    original = type(model)._check_tables

    def watch(self, samples):
        tables.append(self.node_weights_.shape[0])
        return original(self, samples)

    type(model)._check_tables = watch
    try:
        assert _same(model.predict(shards), expected)
    finally:
        type(model)._check_tables = original
    assert tables[1:] == [n + 1 for n in shards.n_columns]


def test_scores_by_weights_and_of_unseen_labels(chain, tmp_path):
    model, X, y, shards, weight = chain
    np.testing.assert_allclose(model.score(shards), model.score(X, y, weight), rtol=1e-12)
    other = [np.where(np.arange(len(v)) == 0, "new", v) for v in y]
    renamed = pack_shards(X, other, tmp_path / "other", shard_size=10)
    with pytest.warns(UserWarning, match=f"wrong, on {len(X)} of .* nodes: .'new'"):
        got = model.score(renamed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert got == model.score(X, other)
    numbers = pack_shards(X, [np.arange(len(v)) for v in y], tmp_path / "numbers")
    with pytest.raises(ValueError, match=r"unknown label 'new' \(sample 0, node 0\)"):
        model.predict_log_likelihood(renamed)
    with pytest.warns(UserWarning, match="nodes: .0, 1, "):
        assert model.score(numbers) == 0.0
    bare = pack_shards(X, None, tmp_path / "bare", shard_size=10)
    assert _same(model.predict(bare), model.predict(X))
    with pytest.raises(ValueError, match="has no labels: there is no score"):
        model.score(bare)
    with pytest.raises(ValueError, match="the shards have no labels"):
        model.predict_log_likelihood(bare)


def test_models_of_other_data_are_refused(chain, tmp_path):
    model, X, y, shards, _ = chain
    n = X[0].shape[1]
    wide = [sparse.hstack([x, x], format="csr") for x in X]
    with pytest.raises(ValueError, match=f"X has {2 * n} features, but SAGCRF is expecting {n}"):
        model.predict(pack_shards(wide, y, tmp_path / "wide"))
    trees = [(x, np.arange(x.shape[0]) - 1) for x in X]
    with pytest.raises(ValueError, match=r"packed for graph=Tree\(\), not for Chain\(\)"):
        model.predict(pack_shards(trees, y, tmp_path / "trees", graph=Tree()))
    ragged = RaggedArray.from_list(X)
    names = [f"f{j}" for j in range(X[0].shape[1])]
    given = [RaggedArray(ragged.flat, ragged.offsets, n) for n in (names, names[::-1])]
    packed = [pack_shards(x, y, tmp_path / f"n{i}", shard_size=9) for i, x in enumerate(given)]
    named = _model(Chain(), given[0], y)
    assert named._feature_names == ListedNames(names)
    assert _same(named.predict(packed[0]), named.predict(given[0]))
    for other in (given[1], packed[1]):
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            named.predict(other)
    assert _same(named.predict(shards), named.predict(X))


def test_what_shards_are_not_for(chain):
    model, X, y, shards, weight = chain
    with pytest.raises(TypeError, match="X must be Shards, not one of them"):
        model.predict(shards.open(0))
    with pytest.raises(ValueError, match="y is in the shards"):
        model.predict_log_likelihood(shards, y)
    with pytest.raises(ValueError, match="allowed is for lists"):
        model.predict(shards, [np.ones((x.shape[0], 3)) for x in X])
    with pytest.raises(ValueError, match="y is in the shards"):
        model.score(shards, y)
    with pytest.raises(ValueError, match="sample_weight is in the shards"):
        model.score(shards, sample_weight=weight)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.score(X)
    with pytest.raises(ValueError, match="not fitted yet"):
        SAGCRF().predict(shards)
    with pytest.raises(TypeError, match="no single samples to choose from"):
        GridSearchCV(SAGCRF(), {"C": [1.0]}, cv=2).fit(shards)
    with pytest.raises(TypeError, match="y is Shards"):
        SAGCRF().fit(X, shards)
    with pytest.raises(TypeError, match="not iterable"):
        list(shards)
    with pytest.raises(TypeError, match="integer"):
        shards.open(1.5)
    other = ProxLinearSSVM()
    vars(other).update({k: v for k, v in vars(model).items() if k.endswith("_")})
    with pytest.raises(TypeError, match="ProxLinearSSVM does not take Shards"):
        other.predict(shards)


def test_errors_name_the_sample_among_all(chain):
    model, _X, y, shards, _ = chain
    weights = model.node_weights_.copy()
    model.graph_.forbidden = [(a, b) for a in "abc" for b in "abc"]
    model.graph_.forbidden += [(None, a) for a in "abc"]
    with pytest.raises(ValueError, match="sample 0: no labelling satisfies"):
        model.predict(shards)
    model.graph_.forbidden = [(a, b) for a in "abc" for b in "abc"]
    long = next(i for i, v in enumerate(y) if len(v) > 1)
    with pytest.raises(ValueError, match=f"sample {long}: no labelling satisfies"):
        model.predict(shards)
    assert np.array_equal(weights, model.node_weights_)


def test_a_damaged_file_is_named(chain):
    model, _, _, shards, _ = chain
    path = shards.folder / "00002" / "features.data.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"features.data.npy has .* bytes, .* were expected"):
        model.predict(shards)
