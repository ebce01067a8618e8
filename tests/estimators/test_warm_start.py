"""Warm starts keep the weights of labels and features that are still there."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from skstruct import SAGCRF, Chain, Grid, Matching, MultiLabel, Pairwise, ProxLinearSSVM
from skstruct.core.weights import Weights
from skstruct.data.names import ListedNames, names_of
from skstruct.data.ragged import RaggedArray
from skstruct.estimators.training_data import read_training_data
from skstruct.estimators.warm_start import first_weights
from skstruct.preprocessing import (
    PerNode,
    SequenceVectorizer,
    TemplateVectorizer,
    make_sequence_union,
)
from skstruct.solvers.run import Result

TIGHT = {"tol": 1e-10, "max_iter": 2000, "random_state": 0}
WORDS = [["He", "runs", "far"], ["Runs", "he"], ["far", "He", "went"]]
TAGS = [["N", "V", "A"], ["V", "N"], ["A", "N", "V"]]


class Untrained(SAGCRF):
    """Random weights, and where training would have begun: compiles nothing."""

    def _check_problem(self, problem):
        pass

    def _solve(self, problem, shapes, sample_weight, lam, start, **common):
        self.start_ = start
        rng = np.random.default_rng(shapes[0])
        weights = Weights(*(rng.normal(size=shape) for shape in shapes))
        return Result(weights, True, False, {}, "", 0.0, {"passes": np.ones(1)})


def _model(graph="auto"):
    return Untrained(graph, warm_start=True)


def _start(model):
    """A model with the weights from which training began."""
    started = copy.deepcopy(model)
    started.node_weights_, started.pair_weights_ = model.start_.tables
    return started


# Names


def _vectorizers():
    dicts = [[{"w": word, "n": len(word)} for word in words] for words in WORDS]
    frame = pd.DataFrame({"s": [0, 0, 1], "u": [1.0, 2.0, 3.0], "v": [0.0, 1.0, 1.0]})
    edges = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB0:%x[0,0]"
    return {
        "dicts": (SequenceVectorizer(), dicts),
        "templates": (TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]"), WORDS),
        "edges": (TemplateVectorizer(edges), WORDS),
        "union": (
            make_sequence_union(TemplateVectorizer("U0:%x[0,0]"), TemplateVectorizer(edges)),
            WORDS,
        ),
        "scaled": (make_pipeline(SequenceVectorizer(), PerNode(MaxAbsScaler())), dicts),
        "records": (PerNode(DictVectorizer()), dicts),
        "frame": (PerNode(StandardScaler(), sequence_id="s"), frame),
    }


@pytest.mark.parametrize("case", _vectorizers())
def test_names_come_with_the_samples(case):
    vectorizer, X = _vectorizers()[case]
    samples = vectorizer.fit_transform(X)
    names, edge_names = names_of(samples)
    if case == "frame":
        assert list(names) == ["u", "v"]
    else:
        assert_array_equal(np.asarray(names), vectorizer.get_feature_names_out())
    if edge_names is not None:
        assert_array_equal(np.asarray(edge_names), vectorizer.get_edge_feature_names_out())
    assert (case in ("edges", "union")) == (edge_names is not None)
    # By reference: nothing is made anew, whatever happens to the samples.
    for other in (vectorizer.transform(X), samples[:2], samples[np.array([1, 0])]):
        assert names_of(other)[0] is names
        assert names_of(other)[1] is edge_names
    again = names_of(pickle.loads(pickle.dumps(samples)))
    assert again == (names, edge_names)
    assert copy.deepcopy(names) is names


def test_columns_of_data_frames_are_compared():
    rng = np.random.default_rng(0)
    X = [pd.DataFrame(rng.normal(size=(3, 2)), columns=["a", "b"]) for _ in range(4)]
    y = [[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]]
    model = SAGCRF(random_state=0).fit(X, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    turned = [x[["b", "a"]] for x in X]
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict(turned)
    with pytest.raises(ValueError, match=r"X: sample 1 has the columns \['b', 'a'\], but sample 0"):
        model.fit([X[0], turned[1], *X[2:]], y)
    assert_array_equal(model.predict([x.to_numpy() for x in X])[0], model.predict(X)[0])
    assert names_of([x.set_axis([0, 1], axis=1) for x in X]) == (None, None)


def test_positions_are_no_names():
    X = [np.eye(2), np.eye(2)]
    assert names_of(PerNode(StandardScaler()).fit_transform(X)) == (None, None)
    hashed = SequenceVectorizer(hashing=True, n_features=8).fit_transform([[{"a": "b"}]])
    assert names_of(hashed) == (None, None)
    crf = _model().fit(X, [["a", "b"], ["b", "a"]])
    assert not hasattr(crf, "feature_names_in_")
    with pytest.raises(AttributeError, match="has seen no names of edge features"):
        crf.edge_feature_names_in_  # noqa: B018


def test_a_model_in_a_pipeline_knows_its_features_by_name():
    pipeline = make_pipeline(TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,0]"), _model())
    vectorizer, crf = pipeline.fit(WORDS, TAGS)
    assert_array_equal(crf.feature_names_in_, vectorizer.get_feature_names_out())
    assert crf.feature_names_in_.dtype == object
    loaded = pickle.loads(pickle.dumps(pipeline))
    assert_array_equal(loaded[-1].feature_names_in_, crf.feature_names_in_)
    for one, other in zip(loaded.predict(WORDS), pipeline.predict(WORDS), strict=True):
        assert_array_equal(one, other)
    # Two files: names are compared by what they are.
    apart = pickle.loads(pickle.dumps(crf))
    assert apart._feature_names is not vectorizer._names[0]
    apart.predict(vectorizer.transform(WORDS))
    del apart.feature_names_in_
    assert not hasattr(apart, "feature_names_in_")
    apart.predict(vectorizer.transform(WORDS))


def test_names_cost_a_pipeline_next_to_nothing():
    words = [[f"word{i:05d}" for i in range(2000)]]
    tags = [["A", "B"] * 1000]
    pipeline = make_pipeline(TemplateVectorizer("U0:%x[0,0]"), _model())
    with_names = len(pickle.dumps(pipeline.fit(words, tags)))
    del pipeline[-1].feature_names_in_
    assert with_names < len(pickle.dumps(pipeline)) + 500


def test_a_table_has_the_names_of_its_columns():
    frame = pd.DataFrame(np.eye(4), columns=list("abcd"))
    crf = _model().fit(frame, ["x", "y", "x", "y"])
    assert_array_equal(crf.feature_names_in_, list("abcd"))
    with pytest.raises(ValueError, match="must be in the same order"):
        crf.predict(frame[list("bacd")])
    crf.fit(np.eye(4), ["x", "y", "x", "y"])
    assert not hasattr(crf, "feature_names_in_")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["u", "w"], "unseen at fit time:\n- w\nFeature names seen at fit time, yet now missing"),
        (["v", "u"], "must be in the same order as they were in fit"),
    ],
)
def test_other_names_than_in_fit_are_refused(names, message):
    X, y = [np.eye(2), np.eye(2)], [["a", "b"], ["b", "a"]]
    crf = _model().fit(RaggedArray(np.vstack(X), [0, 2, 4], ["u", "v"]), y)
    with pytest.raises(ValueError, match=message):
        crf.predict(RaggedArray(np.eye(2), [0, 2], names))
    crf.predict(X)  # names are not asked for


def test_names_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="feature_names has 3 names for 2 columns"):
        RaggedArray(np.eye(2), [0, 2], ["a", "b", "c"])
    with pytest.raises(TypeError, match="must be of type str, got 1"):
        RaggedArray(np.eye(2), [0, 2], ["a", 1])


# What a warm start takes over


def _samples(names, labels, rng, width=1):
    """Three sequences with features of these names and labels from a list."""
    y = [rng.permutation(np.resize(labels, len(labels) + 2)) for _ in range(3)]
    rows = rng.normal(size=(sum(map(len, y)), len(names)))
    ends = np.cumsum([0, *map(len, y)])
    return RaggedArray(rows, ends, names), y


def _same_blocks(started, before, old_names, old_labels):
    """The weights of old labels and features are as they were, all others 0."""
    new_names, new_labels = list(started.feature_names_in_), started.classes_.tolist()
    names = [name for name in old_names if name in new_names]
    labels = [label for label in old_labels if label in new_labels]

    def at(model, names, labels):
        columns = [list(model.feature_names_in_).index(name) for name in names]
        rows = [model.classes_.tolist().index(label) for label in labels]
        return np.ix_(rows, columns), rows

    (own, rows), (old, old_rows) = at(started, names, labels), at(before, names, labels)
    assert_array_equal(started.coef_[own], before.coef_[old])
    assert_array_equal(started.intercept_[rows], before.intercept_[old_rows])
    pairs = started.pairwise_coef_[..., rows, :][..., rows]
    assert_array_equal(pairs, before.pairwise_coef_[..., old_rows, :][..., old_rows])
    assert_array_equal(started.boundary_coef_[:, rows], before.boundary_coef_[:, old_rows])
    n = len(labels)
    kept = n * len(names) + n + pairs.size + started.boundary_coef_[:, rows].size
    assert sum(np.count_nonzero(table) for table in started.start_.tables) == kept


@pytest.mark.parametrize("graph", [Chain(), Chain(boundary=True)], ids=str)
def test_by_name_and_by_label(graph):
    rng = np.random.default_rng(0)
    X, y = _samples(["u", "v", "w"], ["a", "b", "d"], rng)
    model = _model(graph).fit(X, y)
    before = copy.deepcopy(model)
    X, y = _samples(["new", "w", "u", "other"], ["d", "c", "b", "a"], rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    _same_blocks(_start(model), before, ["u", "v", "w"], ["a", "b", "d"])


def test_edge_features_by_name():
    vectorizer = TemplateVectorizer("U0:%x[0,0]\nB0:%x[0,0]")
    model = _model(Chain(edge_features=True)).fit(vectorizer.fit_transform(WORDS), TAGS)
    before = copy.deepcopy(model)
    more = [["went", "he", "slow"], *WORDS[1:]]
    model.fit(vectorizer.fit_transform(more), [["V", "N", "X"], *TAGS[1:]])
    started, old = _start(model), before.edge_feature_names_in_.tolist()
    for name, table in zip(model.edge_feature_names_in_, started.pairwise_coef_, strict=True):
        known = before.pairwise_coef_[old.index(name)] if name in old else np.zeros((3, 3))
        assert_array_equal(table[:3, :3], known)  # "X" is the last label
        assert not table[3].any()
        assert not table[:, 3].any()


def _loops(rng, n_labels, graph):
    X, y = _samples(list("uvw"), list("abcd")[:n_labels], rng)
    if isinstance(graph, Grid):
        return [np.stack([x, x]) for x in X], [np.stack([v, v[::-1]]) for v in y]
    kinds = [np.arange(len(x) - 1) % graph.edge_types for x in X]
    steps = [np.stack([np.arange(len(x) - 1), np.arange(1, len(x))], 1) for x in X]
    edges = [np.column_stack([s, k]) for s, k in zip(steps, kinds, strict=True)]
    return [(x, e[:, : 1 + graph.edge_types]) for x, e in zip(X, edges, strict=True)], y


@pytest.mark.parametrize("interactions", ["full", "symmetric", "potts"])
@pytest.mark.parametrize("kind", ["pairwise", "grid"])
def test_pairs_of_labels_that_share_weights(kind, interactions):
    rng = np.random.default_rng(0)
    graph = Pairwise(interactions=interactions, edge_types=2)
    if kind == "grid":
        graph = Grid(interactions=interactions, directions=True)
    model = _model(graph).fit(*_loops(rng, 3, graph))
    old = model.pairwise_coef_.copy()
    model.fit(*_loops(rng, 4, graph))
    assert model.pairwise_coef_.shape == (2, 4, 4)
    pairs = _start(model).pairwise_coef_
    assert_array_equal(pairs[:, :3, :3], old)
    # Under Potts all labels share the one weight of being equal.
    expected = pairs[:, :1, 0] if interactions == "potts" else np.zeros((2, 1))
    assert_array_equal(pairs[:, 3, 3:], expected)
    assert not pairs[:, 3, :3].any()


def test_interactions_that_become_more_general_keep_their_scores():
    rng = np.random.default_rng(0)
    data = _loops(rng, 3, Pairwise())
    model = _model(Pairwise(interactions="symmetric")).fit(*data)
    old = model.pairwise_coef_.copy()
    model.set_params(graph__interactions="full").fit(*data)
    assert_array_equal(_start(model).pairwise_coef_, old)
    with pytest.warns(UserWarning, match="the pairs that share weights have changed"):
        model.set_params(graph__interactions="potts").fit(*data)
    assert not model.start_.pair.any()
    assert model.start_.node.any()


@pytest.mark.parametrize("tables", [False, True])
def test_label_sets_by_the_ends_of_edges(tables):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 2)), rng.integers(2, size=(9, 4))
    model = _model(MultiLabel([[0, 1], [1, 2]], tables=tables)).fit(X, Y)
    node, old = model.node_weights_, model.pairwise_coef_.copy()
    model.set_params(graph__edges=[[2, 1], [0, 3]]).fit(X, Y)
    pairs = _start(model).pairwise_coef_
    assert_array_equal(model.start_.node, node)
    assert_array_equal(pairs[0], old[1].T)
    assert not pairs[1].any()


def test_a_matching_keeps_its_column():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(2, 2, 3))], [np.eye(2, dtype=int)]
    model = _model(Matching()).fit(X, y)
    old = model.node_weights_
    model.fit(X, y)
    assert_array_equal(model.start_.node, old)


def test_the_intercept_may_come_and_go():
    rng = np.random.default_rng(0)
    data = _samples(["u", "v"], ["a", "b"], rng)
    model = _model().fit(*data)
    old = model.node_weights_
    model.set_params(fit_intercept=False).fit(*data)
    assert_array_equal(model.start_.node, old[:2])
    old = model.node_weights_
    model.set_params(fit_intercept=True).fit(*data)
    assert_array_equal(model.start_.node, [*old, [0.0, 0.0]])


def _changes():
    X, y = [np.eye(3), np.eye(3)], [["a", "b", "c"], ["c", "b", "a"]]
    twice = RaggedArray(np.eye(3)[:, [0, 1, 2, 2]], [0, 3], ["u", "v", "w", "w"])
    return {
        "structure": (Pairwise(), [(x, np.array([[0, 1], [1, 2]])) for x in X], y),
        "features": ("auto", [x[:, :2] for x in X], y),
        "named twice": ("auto", twice, y[:1]),
        "labels": ("auto", X, [["x", "y", "x"], ["y", "y", "x"]]),
    }


@pytest.mark.parametrize("case", _changes())
def test_it_says_so_where_nothing_can_be_taken_over(case):
    graph, X, y = _changes()[case]
    names = ["u", "v", "w"]
    model = _model().fit(RaggedArray(np.eye(3), [0, 3], names), [["a", "b", "c"]])
    with pytest.warns(UserWarning, match="warm_start: .*: training starts from scratch") as caught:
        model.set_params(graph=graph).fit(X, y)
    assert model.start_ is None
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_edge_features_that_come_begin_anew():
    X, y = [np.eye(3), np.eye(3)], [["a", "b", "c"], ["c", "b", "a"]]
    model = _model().fit(X, y)
    node = model.node_weights_
    with pytest.warns(UserWarning, match="edges have features in one of the two fits only"):
        model.set_params(graph=Chain(edge_features=True)).fit([(x, x[:2]) for x in X], y)
    assert_array_equal(model.start_.node, node)
    assert not model.start_.pair.any()


def test_without_names_by_position():
    rng = np.random.default_rng(0)
    X, y = _samples(["u", "v"], ["a", "b"], rng)
    model = _model().fit(X, y)
    old = model.node_weights_
    model.fit(list(X), y)
    assert model.start_.node is old


def test_a_linear_score_map_by_name(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = _samples(["u", "v"], ["a", "b"], rng)
    svm = ProxLinearSSVM(Chain(boundary=True), warm_start=True, max_iter=1, tol=1e9)
    svm.fit(X, y)
    old, seen = copy.deepcopy(svm), []
    solve = ProxLinearSSVM._solve

    def spy(self, *task, start, **common):
        seen.append(start)
        return solve(self, *task, start=start, **common)

    monkeypatch.setattr(ProxLinearSSVM, "_solve", spy)
    X, y = _samples(["v", "new", "u"], ["c", "b", "a"], rng)
    svm.fit(X, y)
    weights, constants = svm.score_map_.tables(seen[0].params)
    assert_array_equal(weights[[2, 0], :2].T, old.coef_)
    assert_array_equal(constants, [*old.intercept_, 0.0])
    assert_array_equal(seen[0].ends[:, :2], old.boundary_coef_)
    assert_array_equal(seen[0].pair.reshape(3, 3)[:2, :2], old.pairwise_coef_)
    assert not weights[1].any()


# With training


def _grown(X, y, rng):
    """The same samples with shuffled columns, a feature more, and two samples with a new label."""
    order = [4, 2, 5, 0, 1, 3]
    names = ["e", "c", "new", "a", "b", "d"]
    wider = [np.column_stack([x, np.zeros(len(x))])[:, order] for x in X]
    more = [rng.normal(size=(4, 6)) for _ in range(2)]
    y = [*y, np.array(list("abnn")), np.array(list("ncna"))]
    rows = wider + more
    return RaggedArray(np.vstack(rows), np.cumsum([0, *map(len, rows)]), names), y, len(X)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_from_what_was_known_to_the_same_optimum(sequences, is_sparse):
    X, y = sequences
    pack = sparse.csr_matrix if is_sparse else np.asarray
    named = RaggedArray(pack(np.vstack(X)), np.cumsum([0, *map(len, X)]), list("abcde"))
    crf = SAGCRF(warm_start=True, **TIGHT | {"tol": 1e-12}).fit(named, y)
    predicted, old = crf.predict(named), crf.objective_
    grown, labels, n = _grown(X, y, np.random.default_rng(0))
    again = SAGCRF(warm_start=True, **TIGHT)
    vars(again).update(copy.deepcopy(vars(crf)))
    # Shuffled columns alone: the start is the optimum.
    order = [4, 2, 0, 1, 3]
    shuffled = RaggedArray(pack(np.vstack(X)[:, order]), named.offsets, list("ecabd"))
    again.fit(shuffled, y)
    assert again.n_iter_ == 1
    np.testing.assert_allclose(again.objective_, old, rtol=1e-9)
    # More of both: before any step the model predicts what it did.
    new = crf._unfitted()
    data = read_training_data(new, grown, labels, None)
    shapes = new.graph_.weight_shapes(data.samples, 4, True)
    new.node_weights_, new.pair_weights_ = first_weights(new, crf, shapes).tables
    for one, other in zip(new.predict(grown[np.arange(n)]), predicted, strict=True):
        assert_array_equal(one, other)
    cold = SAGCRF(**TIGHT).fit(grown, labels)
    crf.fit(grown, labels)
    np.testing.assert_allclose(crf.objective_, cold.objective_, rtol=1e-9)
    assert crf.dual_objective_ <= cold.objective_
    np.testing.assert_allclose(crf.node_weights_, cold.node_weights_, atol=1e-4)


def test_a_pipeline_goes_on_with_more_text():
    pipeline = make_pipeline(TemplateVectorizer("U0:%x[0,0]"), SAGCRF(warm_start=True, **TIGHT))
    pipeline.fit(WORDS, TAGS)
    words, tags = [*WORDS, ["She", "sings"]], [*TAGS, ["N", "V"]]
    cold = make_pipeline(TemplateVectorizer("U0:%x[0,0]"), SAGCRF(**TIGHT)).fit(words, tags)
    pipeline.fit(words, tags)
    np.testing.assert_allclose(pipeline[-1].objective_, cold[-1].objective_, rtol=1e-9)


def test_names_of_listed_and_of_templates_are_compared_alike():
    names = TemplateVectorizer("U0:%x[0,0]").fit_transform(WORDS).feature_names
    listed = ListedNames(list(names))
    assert names == listed
    assert names != ListedNames(["other", *list(names)[1:]])
    assert names != 3
