"""SmoothedClassifier: ahead of the classifier alone where neighbours agree, on all structures."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import ShuffleSplit, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skstruct import BCFWSSVM, SAGCRF, Chain, Grid, RaggedArray, SmoothedClassifier, Tree
from skstruct.datasets import make_grid_images
from skstruct.testing import random_sequences


def _signals(n, rng, runs=(0, 1, 2)):
    y = [np.repeat(rng.permutation(runs), 40) for _ in range(n)]
    return [np.eye(3)[own] + rng.normal(size=(own.size, 3)) for own in y], y


X, Y = _signals(16, np.random.default_rng(0))


@pytest.mark.parametrize("classifier", [LogisticRegression(), LinearSVC(), GaussianNB()])
def test_neighbours_correct_the_classifier(classifier):
    model = SmoothedClassifier(classifier).fit(X[:10], Y[:10])
    alone = model.classifier_.score(np.concatenate(X[10:]), np.concatenate(Y[10:]))
    assert model.score(X[10:], Y[10:]) > alone + 0.05
    whole = clone(classifier).fit(np.concatenate(X[:10]), np.concatenate(Y[:10]))
    np.testing.assert_array_equal(model.classifier_.predict(X[11]), whole.predict(X[11]))
    shares = model.predict_proba(X[10:])
    assert shares[0].shape == (120, 3)
    np.testing.assert_allclose(shares[0].sum(axis=1), 1.0)


def test_scores_are_of_samples_that_the_classifier_has_not_seen():
    """A tree that knows every training sample by heart would be trusted blindly otherwise."""
    rng = np.random.default_rng(1)
    noise = [rng.normal(size=(30, 2)) for _ in range(12)]
    labels = [rng.integers(2, size=30) for _ in range(12)]
    model = SmoothedClassifier(DecisionTreeClassifier(random_state=0)).fit(noise, labels)
    assert model.classifier_.score(np.concatenate(noise), np.concatenate(labels)) == 1.0
    assert np.abs(model.smoother_.coef_).max() < 0.1


def test_containers_have_the_same_answers():
    model = SmoothedClassifier(LogisticRegression()).fit(X[:6], Y[:6])
    packed = SmoothedClassifier(LogisticRegression()).fit(
        RaggedArray.from_list(X[:6]), RaggedArray.from_list(Y[:6])
    )
    for own, other in zip(model.predict(X), packed.predict(X), strict=True):
        assert own.tolist() == other.tolist()
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(X[:1])[0].tolist() == model.predict(X[:1])[0].tolist()
    assert [own.size for own in model.predict([X[0], X[0][:0]])] == [120, 0]


def test_nodes_without_labels_and_one_long_sample():
    labels = [own.astype(object) for own in Y[:8]]
    for own in labels:
        own[::2] = None
    model = SmoothedClassifier(GaussianNB(), cv=4).fit(X[:8], labels)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X[8:], Y[8:]) > 0.9
    x, y = np.concatenate(X), np.concatenate(Y)
    one = SmoothedClassifier(GaussianNB()).fit([x], [y])
    assert one.score([x], [y]) > 0.9


def test_an_array_of_samples_gives_arrays():
    x, y = np.stack([own[:20] for own in X]), np.stack([own[:20] for own in Y])
    model = SmoothedClassifier(GaussianNB(), cv=2).fit(x, y)
    assert model.predict(x).shape == y.shape
    assert model.predict_marginals(x).shape == model.predict_proba(x).shape == (*y.shape, 3)
    assert model.predict([*x]).shape == (len(x),)
    assert model.score(x, y) == np.mean(model.predict(x) == y)


def test_groups_are_kept_together():
    groups = np.repeat(np.arange(4), 4)
    folds = SmoothedClassifier(GaussianNB(), cv=2)._folds(np.arange(17), groups)
    for train, test in folds:
        assert set(groups[test]).isdisjoint(groups[train])
    assert SmoothedClassifier(GaussianNB(), cv=2).fit(X, Y, groups=groups).score(X, Y) > 0.9


def test_images_and_trees():
    data = make_grid_images(8, noise=1.5, random_state=0)
    model = SmoothedClassifier(GaussianNB(), Grid(attractive=True)).fit(data.X[:6], data.y[:6])
    pixels = np.concatenate([x.reshape(-1, x.shape[2]) for x in data.X[6:]])
    alone = model.classifier_.score(pixels, np.concatenate([own.ravel() for own in data.y[6:]]))
    assert model.score(data.X[6:], data.y[6:]) > alone
    assert model.predict(data.X[:1])[0].shape == data.y[0].shape
    assert not hasattr(model, "predict_marginals")
    trees, labels = Tree().example(np.random.default_rng(0), sparse_X=False)
    assert SmoothedClassifier(GaussianNB(), Tree(), cv=2).fit(trees, labels).predict(trees).size


def test_a_smoother_of_ones_own():
    svm = BCFWSSVM(C=0.01, tol=0.2, random_state=0)
    model = SmoothedClassifier(GaussianNB(), Chain(boundary=True), smoother=svm).fit(X, Y)
    assert isinstance(model.smoother_, BCFWSSVM)
    assert model.smoother_.graph.boundary
    assert svm.get_params()["graph"] == "auto"
    assert model.set_params(smoother__C=0.02).fit(X, Y).smoother_.C == 0.02


def test_bad_input_is_refused():
    with pytest.raises(TypeError, match="classifier must be a classifier"):
        SmoothedClassifier(LinearRegression()).fit(X, Y)
    with pytest.raises(ValueError, match="X has 16 samples, but y has 1;"):
        SmoothedClassifier(GaussianNB()).fit(X, Y[:1])
    x, y = random_sequences(np.random.default_rng(0), 10)
    y[0] = np.full(len(x[0]), "rare")
    with pytest.raises(ValueError, match="only one fold has the label 'rare'"):
        SmoothedClassifier(GaussianNB()).fit(x, y)
    assert isinstance(SmoothedClassifier(GaussianNB())._new_smoother(), SAGCRF)


def test_each_sample_is_held_out_once():
    for cv in ([], ShuffleSplit(2, random_state=0), TimeSeriesSplit(2)):
        with pytest.raises(ValueError, match="cv must hold out each sample once"):
            SmoothedClassifier(GaussianNB(), cv=cv).fit(X, Y)
    gap = [(np.arange(8, 15), np.arange(8)), (np.arange(7), np.arange(8, 16))]
    folds = SmoothedClassifier(GaussianNB(), cv=gap)._folds(np.arange(17), None)
    assert [train.nonzero()[0].tolist() for train, _ in folds] == [[*own] for own, _ in gap]
    groups = np.arange(16) % 2  # fewer than folds: their samples stay together
    folds = SmoothedClassifier(GaussianNB(), cv=5)._folds(np.arange(17), groups)
    assert [set(groups[test]) for _, test in folds] in ([{0}, {1}], [{1}, {0}])
    with pytest.raises(ValueError, match="groups must be at least two"):
        SmoothedClassifier(GaussianNB()).fit(X, Y, groups=[0] * 16)


def test_classifiers_with_other_columns():
    """Pairs of classes, and classes that only a frozen classifier knows, are scores, too."""
    labels = [(own + np.arange(own.size)) % 4 for own in Y[:4]]
    pairs = SmoothedClassifier(SVC(decision_function_shape="ovo"), cv=2).fit(X[:4], labels)
    assert pairs.smoother_.n_features_in_ == 6
    nodes, truth = np.concatenate(X[10:]), np.concatenate(Y[10:])
    for known in (np.where(np.arange(truth.size) < 30, 7, truth), np.minimum(truth, 1)):
        frozen = FrozenEstimator(GaussianNB().fit(nodes, known))
        model = SmoothedClassifier(frozen, cv=2).fit(X[:6], Y[:6])
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.predict(X[:1])[0].shape == (120,)


class _Odd(GaussianNB):
    """A classifier that is changed by a function of its probabilities or decision values."""

    def __init__(self, change=None):
        super().__init__()
        self.change = change

    def predict_proba(self, X):
        return self.change(super().predict_proba(X))


class _OddValues(LinearSVC):
    def __init__(self, change=None):
        super().__init__()
        self.change = change

    def decision_function(self, X):
        return self.change(super().decision_function(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: np.column_stack([p, p[:, 0]]), r"shape \(\d+, 4\) for \d+ nodes and 3 classes"),
        (lambda p: p[:, :2], r"shape \(\d+, 2\) for \d+ nodes and 3 classes"),
        (lambda p: p[1:], "a row per node and a column per class"),
        (lambda p: p[:, 0], r"shape \(\d+,\)"),
        (lambda p: p[None], r"shape \(1, \d+, 3\)"),
        (lambda p: None, "predict_proba of _Odd returns the shape"),
        (lambda p: -np.ones_like(p), "returns -1.0 in row 0: it must return numbers from 0 to 1"),
        (lambda p: np.where(np.arange(len(p))[:, None] == 5, 1.5, p), "returns 1.5 in row 5"),
        (lambda p: p * np.nan, "returns nan in row 0"),
        (lambda p: p + np.inf, "returns inf in row 0"),
    ],
)
def test_probabilities_that_are_none_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SmoothedClassifier(_Odd(change), cv=2).fit(X, Y)
    model = SmoothedClassifier(_Odd(np.asarray), cv=2).fit(X, Y)
    model.classifier_.change = change  # scores of later samples are looked at, too
    with pytest.raises(ValueError, match=message):
        model.predict(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: np.column_stack([v, v[:, 0]]), "a row per node and a column per class"),
        (lambda v: v[:, 0], "a row per node and a column per class"),
        (lambda v: v[:-1], "a row per node and a column per class"),
        (lambda v: v - np.inf, "returns -inf in row 0: it must return finite numbers"),
    ],
)
def test_decision_values_that_are_none_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SmoothedClassifier(_OddValues(change), cv=2).fit(X, Y)


def test_outputs_that_are_no_numbers_are_refused():
    for change in (sparse.csr_matrix, lambda p: [[1.0], [0.5, 0.5]], lambda p: p.astype(str) + "x"):
        with pytest.raises(TypeError, match="predict_proba of _Odd must return an array of num"):
            SmoothedClassifier(_Odd(change), cv=2).fit(X, Y)


class _WithoutClasses(ClassifierMixin, BaseEstimator):
    """As some packages have it."""

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


class _WithoutRare(_Odd):
    """Leaves out a class that is rare in its rows."""

    def fit(self, X, y):
        labels, counts = np.unique(y, return_counts=True)
        common = np.isin(y, labels[counts > 1])
        return super().fit(X[common], np.asarray(y)[common])


@pytest.mark.parametrize("classifier", [GaussianNB(), LogisticRegression(), _WithoutClasses()])
def test_a_label_in_one_fold_only_is_named_for_all_classifiers(classifier):
    x, y = random_sequences(np.random.default_rng(0), 10)
    y[0] = np.full(len(x[0]), "rare")
    with pytest.raises(ValueError, match="only one fold has the label 'rare'"):
        SmoothedClassifier(classifier).fit(x, y)
    two = [np.full(len(x[0]), "rare"), *(np.full(len(own), "often") for own in x[1:])]
    with pytest.raises(ValueError, match="only one fold has the label 'rare'"):
        SmoothedClassifier(classifier).fit(x, two)


def test_classes_that_differ_between_folds_are_refused():
    x, y = random_sequences(np.random.default_rng(0), 12)
    y = [np.where(own == "c", "a", own) for own in y]
    for i, label in ((0, "r"), (6, "r"), (1, "r")):  # twice in one fold, once in the other
        y[i][0] = label
    with pytest.raises(ValueError, match="has other columns in another fold"):
        SmoothedClassifier(_WithoutRare(np.asarray), cv=2).fit(x, y)


def test_pandas_output_and_the_smoothers_own_graph():
    with config_context(transform_output="pandas"), warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = make_pipeline(StandardScaler(), GaussianNB())
        assert SmoothedClassifier(scaled, cv=2).fit(X, Y).score(X, Y) > 0.9
    own = SAGCRF(Chain(boundary=True), random_state=0)
    assert SmoothedClassifier(GaussianNB(), smoother=own, cv=2).fit(X, Y).smoother_.graph.boundary
    for smoother in ("crf", make_pipeline(own), LogisticRegression()):
        with pytest.raises(TypeError, match="smoother must be"):
            SmoothedClassifier(GaussianNB(), smoother=smoother, cv=2).fit(X, Y)
    for classifier in ("nb", GaussianNB):
        with pytest.raises(TypeError, match="classifier must be a classifier"):
            SmoothedClassifier(classifier).fit(X, Y)
    with pytest.raises(ValueError, match="y must hold a label"):
        SmoothedClassifier(GaussianNB()).fit(X, None)


def test_frames_are_samples():
    frames = [pd.DataFrame(x, columns=["a", "b", "c"]) for x in X]
    model = SmoothedClassifier(GaussianNB(), cv=2).fit(frames, [pd.Series(own) for own in Y])
    plain = SmoothedClassifier(GaussianNB(), cv=2).fit(X, Y)
    assert model.classifier_.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.predict(frames)[3].tolist() == plain.predict(X)[3].tolist()
    turned = model.predict([own[["c", "b", "a"]] for own in frames])  # columns go by their names
    for labels, other in zip(turned, model.predict(frames), strict=True):
        assert labels.tolist() == other.tolist()
    with pytest.raises(ValueError, match="'c'"):
        model.predict([own[["a", "b"]] for own in frames])


def test_methods_are_those_of_the_smoother():
    model = SmoothedClassifier(GaussianNB(), cv=2).fit(X, Y)
    scores = model._scores.transform(X)
    calls = {
        "predict_log_likelihood": ([*Y],),
        "predict_entropy": (),
        "predict_top_k": (2,),
        "sample": (2, 0),
    }
    for name, given in calls.items():
        found, expected = (
            getattr(model, name)(X, *given),
            getattr(model.smoother_, name)(scores, *given),
        )
        for own, his in zip(np.ravel(found), np.ravel(expected), strict=True):
            np.testing.assert_array_equal(own, his)
    chunks = model.predict_chunks(X, scheme="runs")
    assert chunks.tolist() == model.smoother_.predict_chunks(scores, scheme="runs").tolist()
    tags = SmoothedClassifier(GaussianNB(), smoother=BCFWSSVM(), cv=2)
    assert hasattr(tags, "predict_chunks")
    for name in ("predict_log_likelihood", "predict_entropy", "sample"):
        assert not hasattr(tags, name)
