"""Tables add up to scores; displays show what they are given."""

import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skstruct import (
    BCFWSSVM,
    SAGCRF,
    AtMostOnce,
    Boxes,
    Candidates,
    Chain,
    Matching,
    MultiLabel,
    ProxLinearSSVM,
    Tree,
)
from skstruct.inspection import (
    ConvergenceDisplay,
    MarginalsDisplay,
    TransitionDisplay,
    coef_frame,
    explain,
    top_features,
    transition_frame,
)
from skstruct.preprocessing import PerNode, SequenceUnion, SequenceVectorizer, TemplateVectorizer
from skstruct.testing import random_sequences

DICTS = [[{"w": "a", "n": 2.0}, {"w": "b"}], [{"w": "b"}, {"w": "a"}, {"w": "b"}]]
TAGS = [["X", "Y"], ["Y", "X", "X"]]


@pytest.fixture
def named():
    return make_pipeline(
        SequenceVectorizer(), SAGCRF(Chain(boundary=True), solver="lbfgs", tol=1e-2)
    ).fit(DICTS, TAGS)


@pytest.mark.parametrize("sparse_X", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("boundary", [False, True])
def test_contributions_add_up_to_the_score_of_a_chain(sparse_X, fit_intercept, boundary):
    X, y = random_sequences(np.random.default_rng(3), n_samples=12, sparse_X=sparse_X)
    model = SAGCRF(Chain(boundary=boundary), fit_intercept=fit_intercept, solver="lbfgs", tol=1e-2)
    model.fit(X, y)
    labellings, scores = model.predict_top_k(X, 2)
    for x, labels, score in zip(X, labellings, scores, strict=True):
        table = explain(model, x)
        assert_allclose(table["contribution"].sum(), score[0])
        assert_allclose(table["contribution"], table["value"] * table["weight"])
        assert set(table["node"]) == set(range(x.shape[0])) or not fit_intercept
        if len(score) > 1:
            assert_allclose(explain(model, x, labels[1])["contribution"].sum(), score[1])


def test_contributions_with_edge_features():
    rng = np.random.default_rng(0)
    X, y = random_sequences(rng, n_samples=12)
    X = [(x, rng.standard_normal((len(x) - 1, 2))) for x in X]
    model = SAGCRF(Chain(edge_features=True), solver="lbfgs", tol=1e-2).fit(X, y)
    _, scores = model.predict_top_k(X, 1)
    for x, score in zip(X, scores, strict=True):
        assert_allclose(explain(model, x)["contribution"].sum(), score[0])
    assert_array_equal(transition_frame(model, 1), model.pairwise_coef_[1])
    with pytest.raises(ValueError, match="edge_feature must choose one of the model's 2"):
        transition_frame(model)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("graph", [Candidates(), Candidates("box"), Matching(), Boxes()])
def test_items_that_are_chosen(graph, fit_intercept):
    X, y = graph.example(np.random.default_rng(0), sparse_X=isinstance(graph, Boxes))
    model = BCFWSSVM(graph, fit_intercept=fit_intercept, tol=0.1, random_state=0).fit(X, y)
    assert_array_equal(coef_frame(model).loc["x0":"x2", "item"], model.coef_[0])
    assert model.intercept_.shape == (1,)
    top = top_features(model, 1)
    assert top["label"].tolist() == ["item"]
    assert top["weight"][0] == model.coef_[0, np.abs(model.coef_[0]).argmax()]
    labellings, scores = model.predict_top_k(X, 2)
    for x, ranked, score in zip(X, labellings, scores, strict=True):
        table = explain(model, x)
        assert_allclose(table["contribution"].sum(), score[0], atol=1e-12)
        if len(score) > 1:
            second = explain(model, x, ranked[1])["contribution"].sum()
            assert_allclose(second, score[1], atol=1e-12)


def test_items_that_cannot_be_chosen():
    X, y = Matching().example(np.random.default_rng(0), sparse_X=False)
    model = BCFWSSVM(Matching(), tol=0.1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"labels must be one labelling of Matching\(\)"):
        explain(model, X[0], [(0, 0), (0, 1)])
    assert len(explain(model, X[0], [])) == 0


def test_scores_of_a_map_have_no_weights_of_features(sequences):
    X, y = sequences
    model = ProxLinearSSVM(score_map="mlp", max_iter=1, tol=1e9, random_state=0).fit(X, y)
    for show in (coef_frame, top_features, lambda model: explain(model, X[0])):
        with pytest.raises(TypeError, match="ProxLinearSSVM has no weights of features"):
            show(model)
    assert np.shape(transition_frame(model)) == (3, 3)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_contributions_of_a_table(convert):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 4)), rng.integers(0, 3, 30)
    model = SAGCRF(tol=1e-3, solver="sag").fit(convert(X), y)
    scores = X @ model.coef_.T + model.intercept_
    for i in range(5):
        table = explain(model, convert(X)[i])
        assert table["label"][0] == model.predict(convert(X)[[i]])[0]
        assert_allclose(table["contribution"].sum(), scores[i].max())
    with pytest.raises(ValueError, match="no transitions"):
        transition_frame(model)


def test_explain_reads_a_pipeline(named):
    table = explain(named, DICTS[0])
    assert isinstance(table, pd.DataFrame)
    first = table[table["node"] == 0]
    assert first["feature"].tolist() == ["n", "w=a", "<start>", "<intercept>"]
    assert first["value"].tolist() == [2.0, 1.0, 1.0, 1.0]
    step = table[table["feature"] == "<transition>"].iloc[0]
    labels = named.predict(DICTS[:1])[0]
    assert (step["previous"], step["label"], step["node"]) == (labels[0], labels[1], 1)
    with pytest.raises(ValueError, match="sample 0"):
        explain(named, DICTS[0], ["X"])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Chain(forbidden=[("b", "a"), (None, "c")]), r"node 0 has the forbidden step \('b', 'a'\)"),
        (Chain(rules=[AtMostOnce("b")]), "break the rule AtMostOnce"),
        (Tree(forbidden=[("b", "a")]), r"node 0 has the forbidden step \('b', 'a'\)"),
    ],
)
def test_what_is_forbidden_has_no_finite_score(graph, message):
    X = [np.eye(3), np.eye(3)[[1, 0, 2]]]
    X = X if isinstance(graph, Chain) else [(x, [-1, 0, 1]) for x in X]
    model = SAGCRF(graph, random_state=0).fit(X, [list("abc"), list("acc")])
    bad = ["b", "a", "b"]
    assert model.predict_log_likelihood(X[:1], [bad])[0] == -np.inf
    for argument in ("labels", "against"):
        with pytest.raises(ValueError, match=f"{argument}: .*{message}"):
            explain(model, X[0], **{argument: bad})
    mask = np.ones((3, 3), dtype=bool)
    mask[1] = model.classes_ == "c"
    other = model.predict(X[:1], allowed=[mask])[0]
    assert other[1] == "c"
    sums = [explain(model, X[0], labels)["contribution"].sum() for labels in (None, other)]
    terms = explain(model, X[0], against=other)
    assert_allclose(terms["contribution"].sum(), sums[0] - sums[1])
    is_forbidden = np.zeros((3, 3), dtype=bool)
    is_forbidden[1, 0] = graph.forbidden is not None
    expected = np.where(is_forbidden, -np.inf, model.pairwise_coef_)
    assert_array_equal(transition_frame(model), expected)


def test_tables_of_weights(named):
    model = named[-1]
    frame = coef_frame(named)
    assert frame.index.tolist() == ["n", "w=a", "w=b", "<start>", "<stop>", "<intercept>"]
    assert frame.columns.tolist() == ["X", "Y"]
    assert_array_equal(frame.loc["w=a"], model.coef_[:, 1])
    assert_array_equal(frame.loc["<stop>"], model.boundary_coef_[1])
    assert_array_equal(frame.loc["<intercept>"], model.intercept_)
    assert_array_equal(transition_frame(named).loc["X", "Y"], model.pairwise_coef_[0, 1])
    frame.loc[:, "X"] = 0.0
    assert np.any(model.coef_[0] != 0), "a frame is a copy"

    top = top_features(named, k=2)
    assert top["label"].tolist() == ["X", "X", "Y", "Y"]
    for k, label in enumerate(model.classes_):
        rows = top[top["label"] == label]
        assert rows["weight"].is_monotonic_decreasing
        assert_allclose(np.sort(np.abs(rows["weight"])), np.sort(np.abs(model.coef_[k]))[-2:])
    assert coef_frame(model).index[0] == "n", "a model keeps the names of a vectorizer"
    with pytest.raises(ValueError, match="feature_names has 1 names, the model 3"):
        coef_frame(model, ["only"])
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        top_features(model, 0)


def test_arrays_without_pandas(named, monkeypatch):
    expected = coef_frame(named), top_features(named, 1), explain(named, DICTS[1])
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert_array_equal(coef_frame(named), expected[0].to_numpy())
    top = top_features(named, 1)
    assert top.dtype.names == ("label", "feature", "weight")
    assert top["feature"].tolist() == expected[1]["feature"].tolist()
    assert_array_equal(explain(named, DICTS[1])["contribution"], expected[2]["contribution"])


@pytest.mark.usefixtures("no_window")
class TestDisplays:
    def test_convergence(self, sequences):
        options = {"max_iter": 100, "tol": 1e-2, "track_objective": True, "random_state": 0}
        models = {name: SAGCRF(solver=name, **options).fit(*sequences) for name in ("sag", "lbfgs")}
        display = ConvergenceDisplay.from_estimators(models, y="excess", x="seconds")
        lowest = min(model.history_["objective"].min() for model in models.values())
        for line, (name, model) in zip(display.lines_, models.items(), strict=True):
            assert line.get_label() == name
            assert_array_equal(line.get_xdata(), model.history_["seconds"])
            assert_allclose(line.get_ydata() * abs(lowest) + lowest, model.history_["objective"])
        assert (display.ax_.get_xlabel(), display.ax_.get_yscale()) == ("seconds", "log")
        display = ConvergenceDisplay.from_estimators(list(models.values()), ax=display.ax_)
        assert [line.get_label() for line in display.lines_] == ["SAGCRF 0", "SAGCRF 1"]

    def test_convergence_needs_the_history(self, sequences):
        # Several passes: the last one's objective is known from the certificate.
        options = {"solver": "sag", "max_iter": 100, "tol": 1e-4, "random_state": 0}
        model = SAGCRF(**options).fit(*sequences)
        assert model.n_iter_ > 1
        with pytest.raises(ValueError, match=r"track_objective=True, or draw y='dual_objective'$"):
            ConvergenceDisplay.from_estimators(model, y="objective")
        svm = BCFWSSVM(C=0.1, tol=0.1, random_state=0).fit(*sequences)
        svm.history_["dual_gap"][:-1] = np.nan  # as of GDMMSSVM(gap_every=0)
        with pytest.raises(ValueError, match="'dual_gap' at each pass: fit with gap_every=1, or"):
            ConvergenceDisplay.from_estimators(svm, y="dual_gap")
        with pytest.raises(ValueError, match="no 'infeasibility' in history_"):
            ConvergenceDisplay.from_estimators(model, y="infeasibility")

    def test_heat_maps(self, named, sequences):
        display = TransitionDisplay.from_estimator(named)
        assert_array_equal(display.image_.get_array(), named[-1].pairwise_coef_)
        assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["X", "Y"]
        display = MarginalsDisplay.from_estimator(named, DICTS[1], tokens=["b", "a", "b"])
        expected = named[-1].predict_marginals(named[:-1].transform(DICTS[1:]))[0]
        assert_array_equal(display.image_.get_array(), expected.T)
        assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["b", "a", "b"]
        display = MarginalsDisplay(np.ones((100, 2)), "XY", [str(t) for t in range(100)]).plot()
        shown = [t.get_text() for t in display.ax_.get_xticklabels()]
        assert shown == [str(t) for t in display.ax_.get_xticks()] == [*map(str, range(0, 100, 4))]
        display = TransitionDisplay(np.array([[-np.inf, 2.0], [-3.0, 0.0]]), "XY").plot()
        assert display.image_.get_clim() == (-3.0, 3.0)
        assert display.image_.get_array().mask.tolist() == [[True, False], [False, False]]

    def test_matplotlib_is_optional(self, named, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match="pip install matplotlib"):
            TransitionDisplay.from_estimator(named)


def test_names_come_through_pernode(sequences):
    X, y = sequences
    model = make_pipeline(PerNode(StandardScaler()), SAGCRF(tol=1e-1, solver="sag")).fit(X, y)
    assert coef_frame(model).index[:5].tolist() == [f"x{j}" for j in range(5)]


def test_label_sets():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), (rng.random((40, 4)) < 0.5).astype(int)
    crf = SAGCRF(MultiLabel([[0, 2], [3, 1]]), tol=1e-2, solver="lbfgs").fit(X, Y)
    frame = coef_frame(crf, ["a", "b", "c"])
    assert frame.columns.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(frame.loc["b"], crf.coef_[:, 1])
    assert len(top_features(crf, 2)) == 8
    pairs = transition_frame(crf).to_numpy()
    assert pairs[0, 2] == pairs[2, 0] == crf.pairwise_coef_[0]
    assert pairs[3, 1] == pairs[1, 3] == crf.pairwise_coef_[1]
    assert np.count_nonzero(pairs) == 4
    with pytest.raises(ValueError, match="explain is for single labels"):
        explain(crf, X[0])
    full = SAGCRF(MultiLabel("tree", tables=True), tol=1e-2, solver="lbfgs").fit(X, Y)
    with pytest.raises(ValueError, match="no one weight a pair"):
        transition_frame(full)
    plain = SAGCRF(MultiLabel(), tol=1e-2, solver="lbfgs").fit(X, Y)
    with pytest.raises(ValueError, match=r"no transitions; take MultiLabel\('full'\)"):
        transition_frame(plain)


def test_names_of_edge_features_come_from_templates():
    templates = "U0:%x[0,0]\nB1:%x[0,0]"
    words = [["a", "b"], ["b", "a", "b"]]
    crf = SAGCRF(Chain(edge_features=True), solver="lbfgs", tol=1e-2)
    for transformer, prefix in (
        (TemplateVectorizer(templates), ""),
        (SequenceUnion([("t", TemplateVectorizer(templates))]), "t__"),
    ):
        model = make_pipeline(transformer, crf).fit(words, TAGS)
        table = explain(model, words[1])
        found = set(table["feature"][table["previous"] != ""])
        assert found == {f"<transition> {prefix}{name}" for name in ("B", "B1:a", "B1:b")}
        weights = model[-1].pairwise_coef_
        assert_array_equal(transition_frame(model, f"{prefix}B1:b"), weights[2])
        assert_array_equal(transition_frame(model, 2), weights[2])
        assert_array_equal(transition_frame(model[-1], "q", ["p", "q", "r"]), weights[1])
        with pytest.raises(ValueError, match=r"edge features .*B1:a.*got 'B1:z'"):
            transition_frame(model, "B1:z")
        with pytest.raises(ValueError, match="edge_feature_names has 1 names, the model 3"):
            explain(model, words[1], edge_feature_names=["p"])
    display = TransitionDisplay.from_estimator(model, edge_feature="t__B")
    assert_array_equal(display.weights, weights[0])


def test_names_come_from_the_step_that_knows_them():
    as_dicts = FunctionTransformer(lambda X: [[{"w": word} for word in words] for words in X])
    words = [["a", "b"], ["b", "a", "b"]]
    crf = SAGCRF(tol=1e-1, solver="sag")
    model = make_pipeline(as_dicts, SequenceVectorizer(), crf).fit(words, TAGS)
    assert coef_frame(model).index[:2].tolist() == ["w=a", "w=b"]
    hashed = make_pipeline(SequenceVectorizer(hashing=True, n_features=4), crf).fit(DICTS, TAGS)
    assert coef_frame(hashed).index[:4].tolist() == ["x0", "x1", "x2", "x3"]


def test_a_row_of_a_sparse_array_is_explained():
    model = SAGCRF("multiclass", random_state=0).fit(sparse.csr_array(np.eye(3)), [0, 1, 0])
    row = sparse.csr_array(np.eye(3))[0]
    assert row.ndim == 1
    assert str(explain(model, row)) == str(explain(model, np.eye(3)[0]))
