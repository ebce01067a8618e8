"""partial_fit: batches of a stream, from where the last one ended."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skstruct import BCFWSSVM, SAGCRF, Candidates, Chain, MultiLabel, SubgradientSSVM
from skstruct.data.ragged import RaggedArray
from skstruct.estimators.training_data import read_training_data
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer
from skstruct.solvers.sgd import stream_pass, stream_start

CLASSES = ["a", "b", "c"]


def _objective(model, X, y, C):
    """The objective of any weights, at another C."""
    new = clone(model).set_params(C=C)
    data = read_training_data(new, X, y, None)
    problem = new._make_problem(data)
    weights = model._weights()
    loss, _ = new._mean_loss(problem, weights, data)
    return loss + 0.5 * data.lam * sum((table**2).sum() for table in weights.tables)


def _rounds(model, X, y, n, size=8):
    for _ in range(n):
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            model.partial_fit(X[part], y[part], classes=CLASSES)
    return model


@pytest.mark.parametrize(
    ("model", "solved"),
    [(SAGCRF(), SAGCRF()), (SubgradientSSVM(), BCFWSSVM())],
    ids=["crf", "svm"],
)
def test_a_stream_approaches_the_optimum_of_its_samples(sequences, model, solved):
    X, y = sequences
    n, C = 30, 0.02
    stream = clone(model).set_params(C=C, random_state=0)
    errors = []
    for rounds in (2, n - 2):
        _rounds(stream, X, y, rounds)
        k = stream.n_samples_seen_ // len(X)
        # k rounds are k copies of each sample.
        best = clone(solved).set_params(C=k * C, tol=1e-4, max_iter=3000, random_state=0).fit(X, y)
        zero = clone(stream).partial_fit(X, y, CLASSES)
        for table in zero._weights().tables:
            table[:] = 0.0
        whole = _objective(zero, X, y, k * C) - best.objective_
        reached = _objective(stream, X, y, k * C)
        assert reached >= best.dual_objective_
        errors.append((reached - best.objective_) / whole)
    assert stream.n_samples_seen_ == n * len(X)
    assert errors[1] < min(0.06, 0.5 * errors[0]), errors
    assert not hasattr(stream, "objective_")
    assert not hasattr(stream, "history_")


def test_in_one_batch_or_with_a_pickle_between(sequences):
    X, y = sequences
    one = _rounds(SAGCRF(random_state=0), X, y, 1)
    other = SAGCRF(random_state=0)
    for start in range(0, len(X), 8):
        part = slice(start, start + 8)
        other.partial_fit(X[part], y[part], classes=np.array(CLASSES))
        other = pickle.loads(pickle.dumps(other))
    assert_array_equal(one.node_weights_, other.node_weights_)
    again = clone(one)
    assert not hasattr(again, "classes_")
    assert_array_equal(_rounds(again, X, y, 1).node_weights_, one.node_weights_)


def test_the_mean_is_that_of_all_iterates(sequences):
    """The state after one pass, against the steps one by one in NumPy's arithmetic."""
    X, y = sequences
    crf = SAGCRF(C=0.1)
    data = read_training_data(crf, X, y, None)
    problem = crf._make_problem(data)
    shapes = crf.graph_.weight_shapes(data.samples, 3, True)
    common = {"loss": crf._loss_at(problem, data), "rate": 0.3}

    class InOrder:
        def __init__(self, samples):
            self.samples = np.array(samples)

        def permutation(self, n):
            return self.samples

    state, sums, weights = stream_start(shapes), 0.0, 0.0
    ones = np.ones(len(X))
    for i in (3, 5, 3):
        state = stream_pass(problem, shapes, ones, 0.1, state, rng=InOrder([i]), **common)
        sums = sums + state.n_steps**3 * state.iterate.node
        weights += state.n_steps**3
        assert_allclose(state.mean.node, sums / weights, atol=1e-14)
    at_once = stream_pass(
        problem, shapes, ones, 0.1, stream_start(shapes), rng=InOrder([3, 5, 3]), **common
    )
    assert_allclose(at_once.mean.node, state.mean.node, atol=1e-14)
    assert_allclose(at_once.iterate.pair, state.iterate.pair, atol=1e-14)


def test_weights_are_those_given(sequences):
    """A batch of twice the weight is worth two of them."""
    X, y = sequences
    once, twice = SAGCRF(C=1.0, random_state=0), SAGCRF(C=0.5, random_state=0)
    once.partial_fit(X, y, CLASSES)
    twice.partial_fit(X, y, CLASSES, sample_weight=np.full(len(X), 2.0))
    # s_i doubled, lam too: the same up to the rate, a power of two.
    assert twice._stream["rate"] == once._stream["rate"] / 2
    assert_allclose(once.node_weights_, twice.node_weights_, rtol=1e-9)
    weight = np.ones(len(X))
    weight[5:] = 0.0
    few = SAGCRF(random_state=0).partial_fit(X[:5], y[:5], CLASSES)
    all_but = SAGCRF(random_state=0).partial_fit(X, y, CLASSES, sample_weight=weight)
    assert_array_equal(few.node_weights_, all_but.node_weights_)
    assert all_but.n_samples_seen_ == 5


def test_a_fit_goes_on_as_a_stream(sequences):
    X, y = sequences
    crf = SAGCRF(tol=1e-6, max_iter=1000, random_state=0).fit(X, y)
    assert crf.n_samples_seen_ == len(X)
    best = crf.objective_
    crf.partial_fit(X, y)
    assert crf.n_samples_seen_ == 2 * len(X)
    start = SAGCRF(random_state=0).partial_fit(X, y, CLASSES)
    assert _objective(crf, X, y, 2.0) < _objective(start, X, y, 2.0)
    assert best <= _objective(crf, X, y, 1.0) < 1.2 * best


def _dense(samples):
    """The same, for which there are kernels already."""
    return RaggedArray(samples.flat.toarray(), samples.offsets, samples.feature_names)


def test_features_are_added_by_name():
    words = [["He", "runs"], ["She", "walks"], ["He", "walks"]]
    tags = [["N", "V"]] * 3
    vectorizer = TemplateVectorizer("U0:%x[0,0]")
    crf = SAGCRF(random_state=0)
    crf.partial_fit(_dense(vectorizer.fit_transform(words[:2])), tags[:2], ["N", "V", "A"])
    small = crf.coef_[:, crf.feature_names_in_ == "U0:She"].copy()
    assert small.any()
    more = _dense(vectorizer.fit_transform([*words, ["It", "rains"]]))
    crf.partial_fit(more, [*tags, ["N", "V"]])
    assert_array_equal(crf.feature_names_in_, vectorizer.get_feature_names_out())
    assert [labels.tolist() for labels in crf.predict(more)] == [["N", "V"]] * 4
    weights = crf.node_weights_.copy()
    with pytest.raises(ValueError, match="X lacks 4 features of the stream, for instance"):
        crf.partial_fit(_dense(vectorizer.fit_transform(words[:1])), tags[:1])
    assert_array_equal(crf.node_weights_, weights)


def test_hashed_features():
    vectorizer = SequenceVectorizer(hashing=True, n_features=16)
    crf = SAGCRF(random_state=0)
    for words in (["He", "runs"], ["They", "walk"], ["He", "walks"]):
        X = _dense(vectorizer.fit_transform([[{"w": word} for word in words]]))
        crf.partial_fit(X, [["N", "V"]], classes=["N", "V"])
    assert crf.n_samples_seen_ == 3
    assert crf.predict(X)[0].tolist() == ["N", "V"]


@pytest.fixture
def untrained(monkeypatch):
    """What is read, not what is trained."""
    monkeypatch.setattr(
        "skstruct.estimators.partial_fit.stream_pass", lambda *task, **options: task[4]
    )


@pytest.mark.usefixtures("untrained")
def test_label_sets_need_no_classes():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.integers(2, size=(20, 3))
    crf = SAGCRF(MultiLabel(edges="tree"), random_state=0).partial_fit(X[:10], Y[:10])
    edges = crf.graph_.edges_
    crf.partial_fit(X[10:], Y[10:])
    assert_array_equal(crf.graph_.edges_, edges)
    assert crf.n_iter_ == 1
    with pytest.raises(ValueError, match="label"):
        crf.partial_fit(X[10:], Y[10:, :2])
    assert crf.graph_.n_labels_ == 3


@pytest.mark.parametrize("schedule", ["pegasos", "decay"])
def test_the_choices_of_subgradients(sequences, schedule):
    X, y = sequences
    options = {"schedule": schedule, "learning_rate": 0.3, "averaging": False, "random_state": 0}
    svm = SubgradientSSVM(Chain(boundary=True), **options).partial_fit(X, y, CLASSES)
    assert (svm._stream["rate"] == 0.3) == (schedule == "decay")
    assert_array_equal(svm.node_weights_, svm._stream["node"])
    assert svm.boundary_coef_.any()


def test_what_cannot_go_on_is_refused(sequences):
    X, y = sequences
    crf = SAGCRF(random_state=0)
    with pytest.raises(ValueError, match=r"only one class: 'a'; name all labels that will occur"):
        crf.partial_fit(X[:1], [np.full(len(X[0]), "a")])
    with pytest.raises(ValueError, match="classes has one only: \\['a'\\]"):
        crf.partial_fit(X, y, ["a"])
    with pytest.raises(ValueError, match="y: unknown label 'c'"):
        crf.partial_fit(X, y, ["a", "b"])
    for classes, message in (
        (["a", "b", None], "classes contains None"),
        ([0.0, 1.0, np.nan], "classes is continuous or contains NaN"),
        (["a", "b", 1], "classes mixes strings with labels of other types"),
        (iter(CLASSES), "classes must be a list or an array of labels, got a list_iterator"),
        (set(CLASSES), "got a set"),
        ("abc", "got a str"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            crf.partial_fit(X, y, classes)
    assert not hasattr(crf, "classes_")
    crf.partial_fit(X, y, CLASSES)
    with pytest.raises(ValueError, match="is not the same as on the last call to partial_fit"):
        crf.partial_fit(X, y, ["a", "b"])
    with pytest.raises(ValueError, match="X has 2 features, but SAGCRF is expecting 5 features"):
        crf.partial_fit([x[:, :2] for x in X], y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        crf.partial_fit([np.full((2, 5), np.nan)], [["a", "b"]])
    for options, message in (
        ({"l1_ratio": 0.5}, "l1_ratio must be 0"),
        ({"class_weight": "balanced"}, "depends on all labels"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(crf).set_params(**options).partial_fit(X, y, CLASSES)
    assert crf.n_samples_seen_ == len(X)


def test_the_first_batch_may_say_which_labels_there_are(sequences):
    X, y = sequences
    few = [np.where(labels == "c", "b", labels) for labels in y]
    crf = SAGCRF(random_state=0)
    with pytest.warns(UserWarning, match=r"\['a', 'b'\]: others will be refused.*classes=") as said:
        crf.partial_fit(X, few)
    assert said[0].filename == __file__
    assert crf.classes_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="y: unknown label 'c'"):
        crf.partial_fit(X, y)
    crf.partial_fit(X, few)  # no warning
    named = SAGCRF(random_state=0).partial_fit(X, few, ["a", "b"]).partial_fit(X, few)
    assert_array_equal(crf.node_weights_, named.node_weights_)
    table = np.vstack(X), np.concatenate(y)
    with pytest.warns(UserWarning, match="others will be refused"):
        assert SAGCRF().partial_fit(*table).classes_.tolist() == CLASSES


@pytest.mark.parametrize("classes", [["zz"], "abc", 5, ["0", "1"], [0, 1, 2, 3], [[0, 1]], {0, 1}])
@pytest.mark.usefixtures("untrained")
def test_names_for_labels_without_names_are_refused(classes):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.integers(2, size=(20, 3))
    lists = [X[:4], X[4:9]], [1, 2]
    for graph, data in ((MultiLabel(), (X, Y)), ("auto", (X, Y)), (Candidates(), lists)):
        model = SAGCRF(graph, random_state=0)
        with pytest.raises(ValueError, match=r"no names.*leave out classes"):
            model.partial_fit(*data, classes=classes)
        assert not hasattr(model, "classes_")
        model.partial_fit(*data, classes=[0, 1]).partial_fit(*data, classes=model.classes_)
        with pytest.raises(ValueError, match="no names"):
            model.partial_fit(*data, classes=classes)


def test_names_and_positions_may_alternate(sequences):
    X, y = sequences
    named = RaggedArray(np.vstack(X), np.cumsum([0, *map(len, X)]), list("abcde"))
    crf = SAGCRF(random_state=0).partial_fit(named, y, CLASSES).partial_fit(X, y)
    assert crf.feature_names_in_.tolist() == list("abcde")
