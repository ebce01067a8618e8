"""What estimators say of typical mistakes, of compiling, and of how a fit ended."""

import os
import pickle
import subprocess
import sys
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skstruct.core.memory
from skstruct import (
    BCFWSSVM,
    SAGCRF,
    Boxes,
    CasimirSSVM,
    Chain,
    Grid,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    ProxLinearSSVM,
    RaggedArray,
    SmoothedClassifier,
    TemperatureScaling,
    Tree,
)
from skstruct.callbacks import EarlyStopping
from skstruct.cli import main
from skstruct.core.jit.kernels import inner_kernel, kernel
from skstruct.data.constraints import transition_mask
from skstruct.datasets import pack_shards
from skstruct.decoding import fit_transitions
from skstruct.estimators.persistence import TRUSTED
from skstruct.graphs.registry import recognise
from skstruct.inspection import (
    TransitionDisplay,
    coef_frame,
    explain,
    top_features,
    transition_frame,
)
from skstruct.metrics import (
    chunk_f1_score,
    confidences,
    flatten,
    sequence_accuracy_score,
)
from skstruct.preprocessing import PerNode, SequenceVectorizer, TemplateVectorizer


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(3, 3, 2))] * 2, [np.eye(3, dtype=int)] * 2


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Chain, r"Got <class .*Chain'> instead: pass an object, Chain\(\), not the class"),
        ("chains", "Got 'chains' instead: did you mean 'chain'"),
        ("MultiClass", "did you mean 'multiclass'"),
        ("grid", r"one of 'auto', 'chain', 'multiclass', 'multilabel' or .* Grid\(\) .* 'grid'"),
        (None, "Got None instead"),
    ],
)
@pytest.mark.parametrize("estimator", [SAGCRF, BCFWSSVM])
def test_graphs_that_are_none(sequences, estimator, graph, message):
    with pytest.raises(ValueError, match=f"'graph' parameter of {estimator.__name__} .*{message}"):
        estimator(graph).fit(*sequences)


def test_choices_are_listed_in_one_order(sequences):
    listed = "'auto', 'casimir', 'lbfgs', 'oeg', 'sag', 'saga', 'svrg'"
    with pytest.raises(ValueError, match=f"must be a str among {{{listed}}}"):
        SAGCRF(solver="adam").fit(*sequences)


@pytest.mark.parametrize("method", ["predict_proba", "predict_marginals", "predict_log_likelihood"])
def test_structural_svms_say_that_they_have_no_probabilities(method):
    svm = BCFWSSVM()
    assert not hasattr(svm, method)
    with pytest.raises(AttributeError, match=f"BCFWSSVM has no {method}: .*SAGCRF"):
        getattr(svm, method)
    with pytest.raises(AttributeError, match="'BCFWSSVM' object has no attribute 'predict_all'"):
        svm.predict_all  # noqa: B018
    assert clone(svm).get_params() == svm.get_params()


def test_marginals_that_a_structure_lacks(images):
    X, y = images
    with pytest.raises(
        TypeError,
        match=r"^Grid \(Pairwise by the LP relaxation\) has no marginals; train .*\(exp_oracle\)$",
    ):
        SAGCRF(Grid(inference="lp")).fit(X, y)


def test_a_gap_that_is_far_from_closed_gets_more_advice(sequences):
    with pytest.warns(ConvergenceWarning, match=r"increase max_iter.*scale the features, or lower"):
        SAGCRF(C=100.0, max_iter=1, random_state=0).fit(*sequences)
    with pytest.warns(ConvergenceWarning) as caught:
        SAGCRF(max_iter=12, tol=1e-9, solver="sag", random_state=0).fit(*sequences)
    assert "scale the features" not in str(caught[0].message)


@pytest.mark.parametrize("estimator", [SAGCRF, BCFWSSVM])
def test_verbose_lines_show_what_tol_bounds_and_how_it_ended(sequences, estimator, capsys):
    model = estimator(tol=0.05, verbose=1, random_state=0).fit(*sequences)
    lines = [line for line in capsys.readouterr().out.splitlines() if "compiling" not in line]
    gap = f"relative duality gap {model.suboptimality_:.1e} (tol 5.0e-02)"
    name = estimator.__name__
    assert lines[-1].startswith(f"[{name}] converged: {model.n_iter_} epoch")
    assert lines[-1].endswith(gap)
    assert lines[-2].startswith(f"[{name}] epoch {model.n_iter_}: ")
    assert lines[-2].endswith(gap)
    with pytest.warns(ConvergenceWarning):
        estimator(tol=0.0, max_iter=1, verbose=1, random_state=0).fit(*sequences)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"[{name}] max_iter reached: 1 epoch, ")
    estimator(tol=0.05, random_state=0).fit(*sequences)
    assert capsys.readouterr().out == ""


def test_verbose_lines_name_the_gradient_where_it_ends_a_fit(sequences, capsys):
    model = SAGCRF(solver="sag", stop="gradient", tol=0.05, verbose=1, random_state=0)
    history = model.fit(*sequences).history_["average_gradient"]
    lines = [line for line in capsys.readouterr().out.splitlines() if " epoch " in line]
    for line, value in zip(lines, history, strict=True):
        assert line.endswith(f"largest entry of the average gradient {value:.1e} (tol 5.0e-02)")
    assert (history > 0.05).tolist() == [True] * (model.n_iter_ - 1) + [False]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("c1", r"set C = 1 / \(c1 \+ 2 \* c2\) and l1_ratio"),
        ("max_iterations", "set `max_iter`"),
    ],
)
def test_parameters_of_crfsuite_are_translated(name, message):
    with pytest.raises(TypeError, match=f"SAGCRF has no parameter '{name}': .*{message}.*crfsuite"):
        SAGCRF(C=1.0, **{name: 0.1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'c0'"):
        SAGCRF(c0=0.1)

    class Own(SAGCRF):
        def __init__(self, *, c1=0.0, C=1.0):
            super().__init__(C=C)
            self.c1 = c1

    assert clone(Own(c1=0.5)).c1 == 0.5
    with pytest.raises(TypeError, match="Own has no parameter 'c2'"):
        Own(c2=0.5)


_COMPILE = """
import sys
from skstruct.core.jit import compiling
from skstruct.core.jit.kernels import kernel

compiling._PATIENCE = 0.0

@kernel
def triple(x):
    return 3 * x

@kernel
def double(x):
    return 2 * x

assert (triple(1), double(1)) == (3, 2)
"""


def _stderr(path, folder, **more):
    env = {name: value for name, value in os.environ.items() if name != "SKSTRUCT_QUIET"}
    env |= {"NUMBA_CACHE_DIR": str(folder), **more}
    done = subprocess.run(
        [sys.executable, str(path)], env=env, capture_output=True, text=True, check=True
    )
    assert not done.stdout
    return done.stderr


@pytest.mark.slow
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing compiles")
def test_the_first_compile_of_a_process_is_announced_once(tmp_path):
    path = tmp_path / "compiles.py"
    path.write_text(_COMPILE, encoding="utf-8")
    said = _stderr(path, tmp_path / "cold")
    assert said.count("\n") == 1
    assert said.startswith("skstruct: compiling kernels")
    assert "python -m skstruct compile" in said
    assert "SKSTRUCT_QUIET=1" in said
    assert _stderr(path, tmp_path / "cold") == "", "loaded from the cache"
    assert _stderr(path, tmp_path / "other", SKSTRUCT_QUIET="1") == ""


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing compiles")
def test_a_kernel_that_returns_its_scratch():
    @inner_kernel
    def part(work):
        return work[1:]

    @kernel
    def total(work):
        return part(work)[0]

    place = r"\(test_messages\.py, line \d+: return part\(work\)\[0\]\)"
    with pytest.raises(TypeError, match=f"^total does not compile: .*{place}; .*return a tuple$"):
        total(np.zeros(3))


def test_sparse_labels(images, sequences):
    table = sparse.csr_matrix(np.eye(3))
    X, y = images
    with pytest.raises(TypeError, match="y must be a list of label sequences, got a csr_matrix"):
        BCFWSSVM(Grid()).fit(X, table)
    with pytest.raises(TypeError, match=r"y: sample 0 is a sparse matrix, .* toarray\(\)"):
        BCFWSSVM(Grid()).fit(X, [table, table])
    X, y = sequences
    with pytest.raises(TypeError, match=r"y: sample 1 is a sparse matrix"):
        SAGCRF().fit(X, [y[0], table, *y[2:]])


def test_words_where_weights_and_boxes_belong_get_no_advice_for_X(sequences):
    X, y = sequences
    for weights in ([["a"] * len(labels) for labels in y], [[{"a": 1}] for _ in y]):
        with pytest.raises((ValueError, TypeError), match="node_weight: sample 0") as caught:
            SAGCRF().fit(X, y, node_weight=weights)
        assert "numbers are expected" in str(caught.value)
    image, box = np.zeros((4, 4), dtype=int), (0, 0, 2, "b")
    with pytest.raises(ValueError, match=r"y: sample 0 is not numeric: it holds .*; numbers"):
        BCFWSSVM(Boxes()).fit([image], [box])
    with pytest.raises(ValueError, match="y: sample 0 is not an array of numbers"):
        BCFWSSVM(Boxes()).fit([image], [(0, [1, 2], 2, 3)])


def test_missing_values_in_a_table():
    X = np.eye(4)
    X[2, 1] = np.nan
    for table in (X, sparse.csr_matrix(X), pd.DataFrame(X)):
        with pytest.raises(ValueError, match=r"Input X contains NaN \(sample 2\): fill") as caught:
            SAGCRF().fit(table, [0, 1, 0, 1])
        assert "HistGradientBoosting" not in str(caught.value)
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match=r"Input X contains infinity \(sample 2\)$"):
        SAGCRF().fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize("marker", [-1, -100])
def test_marks_of_missing_labels_are_warned_of(sequences, marker):
    X, y = sequences
    numbers = [np.array([{"a": 0, "b": 1, "c": 2}[label] for label in labels]) for labels in y]
    marked = [np.where(np.arange(len(labels)) == 0, marker, labels) for labels in numbers]
    with pytest.warns(UserWarning, match=f"y: {marker} is a class like any other: .* None"):
        SAGCRF(tol=0.5, random_state=0).fit(X, marked)
    signs = [np.clip(labels, -1, 1) for labels in marked]  # -1, 0, 1: as good classes as any
    SAGCRF(tol=0.5, random_state=0).fit(X, signs)


@pytest.mark.parametrize("marker", [-1, -100])
def test_marks_of_missing_labels_are_warned_of_wherever_labels_are_read(
    sequences, marker, tmp_path
):
    X, y = sequences
    numbers = [np.array([{"a": 0, "b": 1, "c": 2}[label] for label in labels]) for labels in y]
    marked = [np.where(np.arange(len(labels)) == 0, marker, labels) for labels in numbers]
    model = SAGCRF(tol=0.5, random_state=0).fit(X, numbers)
    metrics = [flatten, sequence_accuracy_score]
    for metric in metrics:
        with pytest.warns(UserWarning, match=f"y_true: {marker} is a class .* None") as caught:
            metric(marked, numbers)
        assert caught[0].filename == __file__
        metric(numbers, numbers)
    with pytest.warns(UserWarning, match=f"y_true: {marker} is a class"):
        chunk_f1_score(marked, numbers, scheme="runs")
    for read in (model.score, partial(confidences, model)):
        with (
            pytest.warns(UserWarning, match="labels that fit has not seen count as wrong"),
            pytest.warns(UserWarning, match=f"if {marker} marks missing labels"),
        ):
            read(X, marked)
    with pytest.raises(ValueError, match=f"unknown label {marker} .*: if {marker} marks missing"):
        model.predict_log_likelihood(X, marked)
    with pytest.raises(ValueError, match=f"unknown label {marker} .*: if {marker} marks missing"):
        model.partial_fit(X, marked)
    with pytest.raises(ValueError, match=f"unknown label {marker} .*: if {marker} marks missing"):
        fit_transitions([np.zeros((len(labels), 3)) for labels in y], marked)
    with pytest.warns(UserWarning, match=f"classes: {marker} is a class like any other"):
        SAGCRF(random_state=0).partial_fit(X, marked, classes=[marker, 0, 1, 2])
    with pytest.warns(UserWarning, match=f"y: {marker} is a class like any other"):
        pack_shards(X, marked, tmp_path / "shards")
    sets = [[marker if i == 0 else 1, 0] for i in range(3)]
    with pytest.raises(ValueError, match=f"if {marker} marks missing labels, put None"):
        SAGCRF().fit(np.eye(3), sets)


def test_an_empty_string_among_the_labels_is_warned_of(sequences):
    X, y = sequences
    marked = [np.where(labels == "c", "", labels).tolist() for labels in y]
    with pytest.warns(UserWarning, match="y: '' is a class like any other: if '' .* None"):
        model = SAGCRF(tol=0.5, random_state=0).fit(X, marked)
    with pytest.warns(UserWarning, match="y_true: '' is a class like any other"):
        flatten(marked, marked)
    missing = [[label or None for label in labels] for labels in marked]
    assert "" in model.classes_
    assert SAGCRF(tol=0.5, random_state=0).fit(X, missing).classes_.tolist() == ["a", "b"]


def test_a_class_of_minus_100_is_warned_of_next_to_two_others(sequences):
    X, y = sequences
    marked = [np.where(labels == "a", -100, np.where(labels == "b", 0, 1)) for labels in y]
    with pytest.warns(UserWarning, match="y: -100 is a class like any other"):
        SAGCRF(tol=0.5, random_state=0).fit(X, marked)


def test_explain_takes_one_sample(sequences):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    for given in ([X[0]], X, RaggedArray.from_list(X), RaggedArray.from_list(X[:1])):
        with pytest.raises(ValueError, match=r"explain takes one sample x, not a list .* \[x\]"):
            explain(model, given)
    on_table = SAGCRF(tol=0.5, random_state=0).fit(np.vstack(X), np.concatenate(y))
    with pytest.raises(ValueError, match="explain takes one sample, got 2"):
        explain(on_table, X[0][:2])
    with pytest.raises(ValueError, match=r"X has 1 features, .* expecting \d+ features as input.$"):
        explain(on_table, pd.DataFrame(X[0][:1, :1]))


def test_explaining_one_labelling_against_another(sequences):
    X, y = sequences
    model = SAGCRF(Chain(boundary=True), tol=0.5, random_state=0).fit(X, y)
    labels, scores = model.predict_top_k(X[:1], 2)
    best, other = labels[0]
    table = explain(model, X[0], best, against=other)
    assert_allclose(table["contribution"].sum(), scores[0][0] - scores[0][1])
    assert len(table) < len(explain(model, X[0], best)) + len(explain(model, X[0], other))
    changed = np.flatnonzero(best != other)
    assert set(table["node"]) <= {*changed, *(changed + 1)}
    assert len(explain(model, X[0], best, against=best)) == 0


def test_terms_that_occur_twice_are_all_counted():
    # Two edges from nodes of one label end at the same node.
    edges = np.array([[0, 2], [1, 2]])
    X, y = [(np.eye(3), edges)] * 2, [list("aab"), list("bba")]
    model = BCFWSSVM(Pairwise(), tol=0.5, random_state=0).fit(X, y)
    score = {}
    for labels in ("aab", "aaa"):
        score[labels] = explain(model, X[0], list(labels))["contribution"].sum()
    node = model.coef_ @ np.eye(3) + model.intercept_[:, None]
    assert_allclose(score["aab"], node[0, :2].sum() + node[1, 2] + 2 * model.pairwise_coef_[0, 1])
    difference = explain(model, X[0], list("aab"), against=list("aaa"))
    assert_allclose(difference["contribution"].sum(), score["aab"] - score["aaa"])


def test_shards_in_a_pipeline(sequences, tmp_path):
    shards = pack_shards(*sequences, tmp_path / "shards")
    for first in (SequenceVectorizer(), TemplateVectorizer(["U:%x[0,0]"]), PerNode(None)):
        with pytest.raises(TypeError, match=r"X is Shards, .*vectorized: fit the last step"):
            make_pipeline(first, SAGCRF()).fit(shards)


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [("--seed", "-1", "seed"), ("--seed", "5000000000", "seed"), ("--n-jobs", "0", "threads")],
)
def test_the_command_line_names_its_own_options(option, value, word, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["train", "data", "model.joblib", option, value])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {option}: invalid" in said
    assert word in said


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_too_many_labels_are_refused_before_anything_is_allocated(monkeypatch, method):
    monkeypatch.setattr(skstruct.core.memory, "available_bytes", lambda: 1 << 30)
    X, y = [np.zeros((40_000, 1))], [np.arange(40_000)]
    more = {"classes": y[0]} if method == "partial_fit" else {}
    with pytest.raises(MemoryError, match=r"2 x 40,000 weights .* 1 x 1,600,000,000 of pairs"):
        getattr(SAGCRF(), method)(X, y, **more)


def test_too_many_of_other_things(monkeypatch, sequences):
    monkeypatch.setattr(skstruct.core.memory, "available_bytes", lambda: 1 << 30)
    with pytest.raises(MemoryError, match="merge rare labels, drop rare features"):
        SAGCRF().fit(sparse.csr_matrix((4, 10**8)), [0, 1, 0, 1])
    with pytest.raises(MemoryError, match="lower n_best"):
        CasimirSSVM(n_best=10**9).fit(*sequences)
    with pytest.raises(MemoryError, match="number codes without gaps"):
        BCFWSSVM(Boxes()).fit([np.full((4, 4), 10**9)], [(0, 0, 2, 2)])
    X, Y = np.ones((40, 1)), np.resize([0, 1, 1], (40, 400))
    with pytest.raises(MemoryError, match=r"stored points of BCFWSSVM.*fewer edges"):
        BCFWSSVM(MultiLabel("full"), max_iter=1).fit(X, Y)


def test_the_limit_of_a_process_counts():
    resource = pytest.importorskip("resource")
    code = (
        "import resource; from skstruct.core.memory import available_bytes; "
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33)); print(available_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 1 << 33
    assert resource.RLIM_INFINITY


def test_a_scheme_and_pairs_together():
    labels = np.array(["B-A", "B-B", "I-A", "I-B", "O"])
    scheme, pair = transition_mask("iob2", labels), transition_mask([("B-A", "B-B")], labels)
    both = transition_mask(["iob2", ("B-A", "B-B")], labels)
    for together, a, b in zip(both, scheme, pair, strict=True):
        assert (together == np.minimum(a, b)).all()
    assert both.pairs[0, 1] == -np.inf
    X, y = [np.eye(3)], [["B-A", "B-B", "O"]]
    with pytest.raises(ValueError, match=r"forbidden step \('B-A', 'B-B'\) \(forbidden=\["):
        SAGCRF(Chain(forbidden=["bio", ("B-A", "B-B")])).fit(X, y)
    crf = SAGCRF(Chain(forbidden=["bio", ("B-A", "B-B")]), random_state=0)
    crf.fit(X, [["B-A", "O", "B-B"]])
    for labels in crf.predict(np.random.default_rng(0).normal(scale=9, size=(20, 5, 3))):
        assert ("B-A", "B-B") not in pairwise(labels.tolist())


@pytest.mark.parametrize(
    ("graph", "x", "kind"),
    [(Tree, np.array([-1, 0]), "trees"), (Pairwise, np.array([[0, 1]]), "graphs")],
)
@pytest.mark.parametrize("forbidden", ["iob2", ["iob2", ("a", "b")]])
def test_schemes_are_for_chains(graph, x, kind, forbidden):
    with pytest.raises(ValueError, match=f"forbidden='iob2': .*for chains, not for {kind}"):
        BCFWSSVM(graph(forbidden=forbidden)).fit([(np.eye(2), x)], [["a", "b"]])


def test_a_fit_far_from_the_optimum_names_the_scale_of_features_and_c():
    X, y = np.random.default_rng(0).normal(scale=100.0, size=(4, 3, 3, 1)), np.eye(3, dtype=int)
    advice = "or scale the features, or lower C: for images search C from 1 / pixels upwards"
    with pytest.warns(ConvergenceWarning, match=advice):
        BCFWSSVM(Grid(attractive=True), C=100.0, max_iter=1, random_state=0).fit(X, [y] * 4)
    with pytest.warns(ConvergenceWarning, match="or scale the features, or lower C$"):
        BCFWSSVM("chain", C=1e6, max_iter=1, random_state=0).fit([*X[0]] * 9, [[0, 1, 0]] * 27)


def test_class_weights_by_the_names_of_label_sets():
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(30, 2)), ["sport", "politics", "arts"]
    Y = pd.DataFrame(rng.integers(0, 2, (30, 3)), columns=names)
    crf = SAGCRF(MultiLabel(), class_weight={"politics": 3.0}, random_state=0).fit(X, Y)
    by_number = SAGCRF(MultiLabel(), class_weight={1: 3.0}, random_state=0).fit(X, Y)
    assert_array_equal(crf.coef_, by_number.coef_)
    assert np.abs(crf.coef_ - SAGCRF(MultiLabel(), random_state=0).fit(X, Y).coef_).max() > 0.01
    with pytest.raises(ValueError, match=r"unknown class 'art'; the classes are \['sport', 'poli"):
        SAGCRF(MultiLabel(), class_weight={"art": 2.0}).fit(X, Y)
    with pytest.raises(ValueError, match=r"unknown class 'arts'; the classes are \[0, 1, 2\]"):
        SAGCRF(MultiLabel(), class_weight={"arts": 2.0}).fit(X, Y.to_numpy())


def test_names_of_label_sets_are_kept():
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(30, 2)), ["sport", "politics", "arts"]
    Y = pd.DataFrame(rng.integers(0, 2, (30, 3)), columns=names)
    svm = BCFWSSVM(MultiLabel("full"), tol=0.5, random_state=0).fit(X, Y)
    assert svm.label_names_in_.tolist() == names
    assert coef_frame(svm).columns.tolist() == names
    assert transition_frame(svm).index.tolist() == names
    assert top_features(svm, 1)["label"].tolist() == names
    drawn = TransitionDisplay.from_estimator(svm, ax=Figure().subplots())
    assert [text.get_text() for text in drawn.ax_.get_xticklabels()] == names
    assert_array_equal(clone(svm).fit(X, Y.to_numpy()).predict(X), svm.predict(X))
    frame = pl.DataFrame(Y.to_dict("list"))
    named = make_pipeline(StandardScaler(), clone(svm)).fit(X, frame)
    assert coef_frame(pickle.loads(pickle.dumps(named))).columns.tolist() == names
    svm.fit(X, Y.to_numpy())
    assert not hasattr(svm, "label_names_in_")
    assert coef_frame(svm).columns.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.sparsify("a"), "threshold must be a number of at least 0, got 'a'"),
        (lambda m: coef_frame(m, 3), "feature_names must be 2 names, one per feature, got 3"),
        (lambda m: m.predict([np.eye(2)], allowed=np.float64(3)), "allowed must be a list of sa"),
        (lambda m: m.score([np.eye(2)], np.float64(3)), "y must be a list of label sequences, got"),
    ],
)
def test_scalars_in_place_of_arrays(call, message):
    model = SAGCRF(tol=0.5, random_state=0).fit([np.eye(2)], [["a", "b"]])
    with pytest.raises((ValueError, TypeError), match=message):
        call(model)


def test_trusted_types_are_those_of_skops_files(sequences):
    io = pytest.importorskip("skops.io")
    X, y = sequences
    words = [[{"w": "a"}, {"w": "b"}]] * 2, [["N", "V"]] * 2
    tokens = [[["a"], ["b"]]] * 2, [["N", "V"]] * 2
    named = [pd.DataFrame(x, columns=list("abcdefgh")[: x.shape[1]]) for x in X]
    sets = pd.DataFrame(np.resize([0, 1, 1], (24, 4)), columns=list("pqrs"))
    chunks = [[f"B-{label}" for label in labels] for labels in y]
    trained = {"tol": 0.5, "max_iter": 50, "random_state": 0}
    for model, data in (
        (SAGCRF(**trained), (RaggedArray.from_list(X), y)),
        (SAGCRF(**trained), (named, y)),
        (BCFWSSVM(MultiLabel(), **trained), (np.eye(24), sets)),
        (make_pipeline(SequenceVectorizer(), SAGCRF(**trained)), words),
        (make_pipeline(TemplateVectorizer(["U:%x[0,0]"]), SAGCRF(**trained)), tokens),
        (TemperatureScaling(SAGCRF(**trained), cv=2), (X, y)),
        (TemperatureScaling(SAGCRF(**trained), cv=2, isotonic=True), (X, chunks)),
        (SmoothedClassifier(LogisticRegression(), cv=2), (X, y)),
        *(
            (ProxLinearSSVM("chain", score_map=name, **trained | {"tol": 1e3}), (X, y))
            for name in ("linear", "mlp")
        ),
    ):
        content = io.dumps(model.fit(*data))
        assert set(io.get_untrusted_types(data=content)) <= set(TRUSTED)
        again = io.loads(content, trusted=TRUSTED)
        for a, b in zip(again.predict(data[0]), model.predict(data[0]), strict=True):
            assert_array_equal(a, b)


def test_labels_that_are_none_beside_labels():
    with pytest.raises(ValueError, match=r"label range\(0, 3\) \(sample 2\) is neither a string"):
        CasimirSSVM(MultiClass()).fit(np.eye(4), ["a", "b", range(3), "a"])


def test_options_that_are_no_numbers_to_work_with():
    with pytest.raises(ValueError, match="edge_features must be a bool, got <NA>"):
        SAGCRF(Chain(edge_features=pd.NA)).fit([np.eye(2)], [[0, 1]])
    with pytest.raises(ValueError, match="'smoothing_strength' parameter"):
        CasimirSSVM(Boxes(), smoothing_strength=1e-320).fit([np.eye(3)], [(0, 0, 1, 1)])


def test_huge_counts_are_not_printed():
    X, y = [np.eye(3)[:, :, None]] * 2, [[0, 1, 2]] * 2
    model = BCFWSSVM(Matching(), max_iter=1, tol=1e9).fit(X, y)
    with pytest.raises(MemoryError, match=r"over 10\*\*18 best labellings") as raised:
        model.predict_top_k(X, 10**400)
    assert len(str(raised.value)) < 300


# What looks like something else, and is said to.


def test_a_batch_of_unknown_features_only(tmp_path):
    X, y = [[["w=He"], ["w=runs"]], [["w=she"], ["w=runs"]]], [["D", "V"], ["D", "V"]]
    words = [[token[0][2:] for token in x] for x in X]
    dicts = [[{"w": word} for word in x] for x in words]
    vectorizers = {
        SequenceVectorizer(): (dicts, [[{"word": "He"}]], [[["He"]]]),
        TemplateVectorizer("U:%x[0,0]"): (words, [["it"]], [["It", "was"]]),
        TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]"): (words, [["it"]], [["It", "was"]]),
    }
    for vectorizer, (known, *batches) in vectorizers.items():
        graph = Chain(edge_features="B" in str(getattr(vectorizer, "templates", "")))
        model = make_pipeline(vectorizer, SAGCRF(graph, tol=0.5, random_state=0)).fit(known, y)
        for batch in batches:
            with pytest.warns(UserWarning, match=r"X: no feature .* as in training") as caught:
                model.predict(batch)
            assert len(caught) == 1
            assert caught[0].filename == __file__
        model.predict([known[0], *batches[0]])
        model.predict([[]])
    SAGCRF(tol=0.5, random_state=0).fit([sparse.csr_matrix(np.eye(2))] * 2, y).predict(
        [sparse.csr_matrix((1, 2))]
    )  # without names: as good as any numbers


def test_tokens_in_a_pipeline_of_crfsuite(tmp_path):
    X, y = [[["w=He"], ["w=runs"]], [["w=she"], ["w=runs"]]], [["D", "V"], ["D", "V"]]
    model = make_pipeline(SequenceVectorizer(), SAGCRF(tol=0.5, random_state=0)).fit(X, y)
    model[-1].to_crfsuite(tmp_path / "model")
    read = SAGCRF.from_crfsuite(tmp_path / "model")
    with pytest.raises(TypeError, match=r"type str; .* as in fit: .*features=function.*Template"):
        read.predict([["He", "runs"]])
    for tokens in ([[["He"], ["runs"]]], [[("He", "PRP"), ("runs", "VBZ")]], [[{"word": "He"}]]):
        with pytest.warns(UserWarning, match="no feature of its . nodes occurred in training"):
            read.predict(tokens)
    with pytest.raises(TypeError, match=r"type str; .* expected: .*features=function.*Template"):
        SequenceVectorizer().fit([["He", "runs"]])
    for tokens in ([[{"word": "He"}]], [[["w=He", "t"], ["w=runs"]]]):
        with pytest.raises(ValueError, match="SequenceVectorizer takes dicts of features and list"):
            TemplateVectorizer("U:%x[0,0]").fit(tokens)
    for empty in ("", " \n"):
        with pytest.raises(ValueError, match=r"templates is empty: .* U:%x\[0,0\]"):
            TemplateVectorizer(empty).fit([["a"]])


def _tables():
    rng = np.random.default_rng(0)
    X, tags = rng.normal(size=(6, 3)), ["B-A", "I-A", "O", "B-B", "O", "O"]
    Y = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1]] * 2)
    lists = {
        "lists": X.tolist(),
        "arrays": [*X],
        "Series": [pd.Series(row) for row in X],
        "polars": [pl.Series(row) for row in X],
    }
    tables = {"array": X, "frame": pd.DataFrame(X), "sparse": sparse.csr_matrix(X)} | lists
    flat = {"numbers": np.arange(6) % 3, "strings": [*"abcabc"], "O-": ["O", "B-A"] * 3}
    sets = {"array": Y, "frame": pd.DataFrame(Y), "wide": np.hstack([Y, Y]).tolist()}
    of_rows = {"lists": Y.tolist(), "arrays": [*Y], "Series": [pd.Series(row) for row in Y]}
    for name, x in tables.items():
        for kind, y in (flat | sets).items():
            yield pytest.param(x, y, None, id=f"{name}-{kind}")
        for kind, y in of_rows.items():
            message = "lists of rows of the same length" if name in lists else None
            yield pytest.param(x, y, message, id=f"{name}-{kind}")
        for y in (tags, np.array(tags), pd.Series(tags), pl.Series(tags)):
            yield pytest.param(x, y, "y has tags of chunks: .*np.split", id=f"{name}-tags")
    index = pd.MultiIndex.from_product([[0, 1], range(3)])
    frame = pd.DataFrame(X, index=index)
    yield pytest.param(frame, flat["numbers"], "index of several levels: .*groupby", id="index")


@pytest.mark.parametrize(("X", "y", "message"), [*_tables()])
def test_tables_that_look_like_sequences(X, y, message):
    if message is None:
        recognise(X, y)
        return
    with pytest.warns(UserWarning, match=f"{message}.* If X is a table, pass graph='multi"):
        recognise(X, y)


def test_that_auto_takes_a_table_is_said_where_the_user_stands():
    X, y = np.eye(4), ["B-A", "I-A", "O", "O"]
    with pytest.warns(UserWarning, match="If X is a table, pass graph='multiclass'") as caught:
        SAGCRF(tol=0.5, random_state=0).fit(X, y)
    assert caught[0].filename == __file__
    SAGCRF("multiclass", tol=0.5, random_state=0).fit(X, y)


def test_words_label_sets_and_one_hot_labels_have_a_remedy(sequences):
    X, y = sequences
    for words in (np.array([["a", "b"]]), [np.array(["a", "b"])]):
        with pytest.raises((TypeError, ValueError), match=r"strings.*SequenceVectorizer"):
            SAGCRF().fit(words, [["a", "b"]])
    for sets in ([{"a"}, {"b", "c"}, {"a"}], [["a"], ["b", "c"], ["a"]]):
        for graph in (MultiLabel("full"), "auto", "multilabel"):
            with pytest.raises(ValueError, match="MultiLabelBinarizer"):
                SAGCRF(graph).fit(np.eye(3), sets)
    hot = [np.eye(3)[np.arange(len(labels)) % 3] for labels in y]
    for one_hot in (hot, [rows.tolist() for rows in hot]):
        with pytest.raises(ValueError, match=r"it is one-hot; pass y.argmax\(axis=-1\)"):
            SAGCRF().fit(X, one_hot)
    with pytest.raises(ValueError, match=r"it is one-hot; pass y.argmax\(axis=-1\)"):
        SAGCRF("multiclass").fit(np.eye(3), np.eye(3))
    with pytest.raises(ValueError, match=r"\(sample 0, node 0\): fill .* PerNode\(SimpleImputer"):
        SAGCRF().fit([np.full((2, 1), np.nan)], [[0, 1]])
    with pytest.raises(ValueError, match=r"Got 1.0 instead: did you mean C=1.0\?"):
        SAGCRF(1.0).fit(X, y)


@pytest.mark.parametrize("metric", ["score", lambda model, X, y: model.score(X, y)])
def test_raw_tokens_for_early_stopping(metric):
    words, y = [["He", "runs"], ["she", "runs"]], [["D", "V"], ["D", "V"]]
    packed = RaggedArray(np.array(["He", "runs"] * 2), [0, 2, 4])
    for X in (words, [[{"w": word} for word in x] for x in words], packed, ["He runs"] * 2):
        model = make_pipeline(TemplateVectorizer("U:%x[0,0]"), SAGCRF(random_state=0))
        model[-1].set_callbacks(EarlyStopping((X, y), metric=metric))
        message = r"EarlyStopping .*pipe\[:-1\].transform\(X_dev\), y_dev\)"
        with pytest.raises((TypeError, ValueError), match=message):
            model.fit(words, y)
