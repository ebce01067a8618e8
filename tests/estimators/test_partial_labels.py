"""Partial labels: reading them, the marginal likelihood by enumeration, bad input."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.metrics import accuracy_score

from skstruct import (
    GDMMSSVM,
    SAGCRF,
    Chain,
    Grid,
    MultiClass,
    MultiLabel,
    RaggedArray,
    Tree,
    metrics,
)
from skstruct.core.parallel import ALONE, make_scratch
from skstruct.core.weights import flatten, view_flat, zero_weights
from skstruct.data.labels import read_sequence_labels, read_table_labels
from skstruct.data.partial import read_partial, split_partial
from skstruct.estimators.training_data import read_training_data
from skstruct.losses.operations import private_loss
from skstruct.metrics import (
    chunk_f1_score,
    chunk_precision_recall_fscore_support,
    sequence_accuracy_score,
)
from skstruct.solvers.primal import loss_gradient, make_block
from skstruct.testing import random_sequences

TIGHT = {"solver": "lbfgs", "tol": 1e-12, "max_iter": 3000}


def hide(y, rng, share, names="abc"):
    """The same labels, some of them missing, some replaced by sets with the true one in them."""
    partial = []
    for labels in y:
        row = []
        for label in labels:
            draw = rng.random()
            if draw < share / 2:
                row.append(None)
            elif draw < share:
                row.append({str(label), str(rng.choice(list(names)))})
            else:
                row.append(str(label))
        partial.append(row)
    return partial


def fits(label, partial):
    """Whether a label is among those that a partial one allows."""
    if partial is None or partial is np.ma.masked or partial != partial:
        return True
    return label in partial if isinstance(partial, (set, frozenset)) else label == partial


def brute_force(crf, X, partial, labels):
    """Log-probability of each sample's partial labels: the sum over all labellings that fit."""
    values = []
    for i, given in enumerate(partial):
        given = given.tolist() if isinstance(given, np.ma.MaskedArray) else given  # None: masked
        flat = list(np.array(given, dtype=object).ravel())
        shape = np.shape(np.array(given, dtype=object))
        all_y = [
            np.array(y).reshape(shape)
            for y in itertools.product(labels, repeat=len(flat))
            if all(map(fits, y, flat))
        ]
        one = X[i : i + 1]
        if crf.graph_.is_table:
            one = np.repeat(one, len(all_y), axis=0)
            ys = np.array(all_y) if crf.graph_.has_label_sets else np.array(all_y).ravel()
        else:
            one, ys = list(one) * len(all_y), all_y
        values.append(logsumexp(crf.predict_log_likelihood(one, ys)))
    return np.array(values)


def objective(crf, X, partial, labels, C):
    """The lambda form by its definition."""
    norm = (crf.node_weights_**2).sum() + (crf.pair_weights_**2).sum()
    return norm / (2 * C * len(partial)) - brute_force(crf, X, partial, labels).mean()


def _chains(rng):
    X, y = random_sequences(rng, n_samples=12, max_length=4)
    return X, hide(y, rng, 0.6), "abc"


def _trees(rng):
    X, y = random_sequences(rng, n_samples=8, max_length=4)
    parents = [[-1, *(rng.integers(t) for t in range(1, len(labels)))] for labels in y]
    return list(zip(X, parents, strict=True)), hide(y, rng, 0.6), "abc"


def _images(rng):
    X = list(rng.normal(size=(6, 2, 2, 2)))
    y = [(x[:, :, 0] > 0).astype(int) for x in X]
    partial = [np.ma.array(labels, mask=rng.random((2, 2)) < 0.4) for labels in y]
    return X, partial, (0, 1)


def _rows(rng):
    X, y = random_sequences(rng, n_samples=20, max_length=1)
    return np.vstack(X), np.concatenate(hide(y, rng, 0.6)), "abc"


def _label_sets(rng):
    X = rng.normal(size=(16, 3))
    Y = (X @ rng.normal(size=(3, 4)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    return X, Y, (0, 1)


STRUCTURES = {
    "chains": (Chain(), _chains),
    "forbidden steps": (Chain(forbidden=[("c", "a")]), _chains),
    "trees": (Tree(), _trees),
    "images": (Grid(inference="junction-tree"), _images),
    "rows": (MultiClass(), _rows),
    "label sets": (MultiLabel(edges="tree"), _label_sets),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_objective_is_the_marginal_likelihood(name):
    graph, make = STRUCTURES[name]
    X, partial, labels = make(np.random.default_rng(3))
    if name == "forbidden steps":
        partial = [
            [None if isinstance(v, str) and v == "a" and t else v for t, v in enumerate(row)]
            for row in partial
        ]
    crf = SAGCRF(graph, C=2.0, **TIGHT).fit(X, partial)
    np.testing.assert_allclose(
        crf.predict_log_likelihood(X, partial), brute_force(crf, X, partial, labels), atol=1e-10
    )
    np.testing.assert_allclose(objective(crf, X, partial, labels, 2.0), crf.objective_, rtol=1e-10)
    assert (np.diff(crf.history_["objective"]) <= 1e-12).all()
    assert crf.gradient_norm_**2 <= 2 * 1e-12 * crf.objective_ / (2.0 * len(partial)) * 1.01
    assert np.isnan([crf.dual_gap_, crf.dual_objective_, crf.suboptimality_]).all()


@pytest.mark.parametrize("name", ["chains", "trees"])
def test_the_gradient_is_that_of_the_objective(name):
    graph, make = STRUCTURES[name]
    rng = np.random.default_rng(5)
    X, partial, labels = make(rng)
    crf = SAGCRF(graph, **TIGHT).fit(X, partial)
    data = read_training_data(crf, X, partial, None)
    problem, loss = crf._make_problem(data), data.completion.marginal_log_loss()
    shapes = crf.node_weights_.shape, crf.pair_weights_.shape
    flat = rng.normal(size=crf.node_weights_.size + crf.pair_weights_.size)
    w, gradient = view_flat(flat, shapes), zero_weights(shapes)
    scratch, out = make_scratch(problem), np.zeros((2, len(X)))
    arguments = np.ones(len(X)), 0, len(X), scratch, np.empty_like(scratch.theta), gradient, out
    loss_gradient(private_loss(loss), problem, w, *arguments, make_block(problem), ALONE)

    def total(at):
        crf.node_weights_, crf.pair_weights_ = view_flat(at, shapes).tables
        return -brute_force(crf, X, partial, labels).sum()

    np.testing.assert_allclose(out[0].sum(), total(flat), rtol=1e-11)
    for direction in rng.normal(size=(4, flat.size)):
        step = 1e-5 * direction
        slope = (total(flat + step) - total(flat - step)) / 2e-5
        np.testing.assert_allclose(flatten(gradient) @ direction, slope, rtol=1e-6, atol=1e-6)


def test_labels_that_are_all_known_take_the_ordinary_path():
    X, y = random_sequences(np.random.default_rng(7), n_samples=20)
    plain = SAGCRF(random_state=0).fit(X, y)
    sets = SAGCRF(random_state=0).fit(X, [[{str(label)} for label in row] for row in y])
    np.testing.assert_array_equal(plain.node_weights_, sets.node_weights_)
    assert plain.dual_gap_ == sets.dual_gap_
    masked = SAGCRF(random_state=0).fit(X, [np.ma.array(row, mask=False) for row in y])
    np.testing.assert_array_equal(plain.node_weights_, masked.node_weights_)


def test_samples_without_any_label_change_nothing_but_their_number():
    X, y = random_sequences(np.random.default_rng(7), n_samples=20)
    partial = [row if i % 2 else [None] * len(row) for i, row in enumerate(y)]
    some = SAGCRF(C=1.0, **TIGHT).fit(X, partial)
    known = SAGCRF(C=1.0, **TIGHT).fit(X[1::2], y[1::2])
    np.testing.assert_allclose(some.objective_, known.objective_ / 2, rtol=1e-9)
    np.testing.assert_allclose(some.coef_, known.coef_, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_threads_give_the_same_bits():
    rng = np.random.default_rng(2)
    X, y = random_sequences(rng, n_samples=2500, max_length=6)
    partial = hide(y, rng, 0.5)
    one, two = (SAGCRF(solver="lbfgs", n_jobs=n, max_iter=3, tol=1.0) for n in (1, 2))
    np.testing.assert_array_equal(
        one.fit(X, partial).node_weights_, two.fit(X, partial).node_weights_
    )


FORMS = {
    "None": [[1, None], [2]],
    "NaN": [[1.0, np.nan], [2.0]],
    "pandas": [pd.Series([1, None], dtype="Int64"), pd.Series([2])],
    "masked": [np.ma.array([1, 7], mask=[False, True]), np.array([2])],
    "object array": [np.array([1, None], dtype=object), np.array([2])],
    "NaT": [[1, pd.NaT], [2]],
    "masked constant": [[1, np.ma.masked], [2]],
    "tuples": ((1, None), (2,)),
    "ragged": RaggedArray(np.array([1, None, 2], dtype=object), [0, 2, 3]),
    "ragged NaN": RaggedArray(np.array([1, np.nan, 2]), [0, 2, 3]),
}


@pytest.mark.parametrize("form", FORMS)
def test_missing_labels_of_any_form(form):
    y, partial = split_partial(FORMS[form], False)
    assert [list(row) for row in y] == [[1, 1], [2]]
    assert partial.which.tolist() == [-1, 0, -1]

    def read(y):
        return read_sequence_labels(y, np.array([0, 2, 3]))

    with pytest.raises((TypeError, ValueError)):  # else nobody would look for them
        read(FORMS[form])
    labels, partial = read_partial(read, FORMS[form], False)
    assert labels.tolist() == [1, 1, 2]
    assert partial.which.tolist() == [-1, 0, -1]


def test_weights_that_leave_missing_labels_only_are_named():
    X, y = [np.eye(2), np.eye(2)], [["a", "b"], [None, None]]
    with pytest.raises(ValueError, match="SAGCRF needs labels, but in y all nodes of samples of"):
        SAGCRF().fit(X, y, sample_weight=[0, 1])


@pytest.mark.parametrize("wrong", [{0, 2}, {0, -1}, {"on", "off"}])
def test_sets_in_a_table_of_label_sets_hold_0_and_1(wrong):
    y = [[wrong, 0], [0, 1], [1, 0]]
    with pytest.raises((ValueError, TypeError), match=r"expected 0 or 1|are 0 or 1|hold zeros"):
        SAGCRF("multilabel").fit(np.eye(3), y)


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]", "boolean"])
def test_nullable_labels_keep_their_type(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    whole = pd.Series([1, 0, 1]).astype(dtype)
    kind = type(whole.tolist()[0])
    for y, is_table in (
        (whole.mask([False, True, False]), True),
        ([whole.mask([False, True, False])], False),
    ):
        filled, partial = split_partial(y, is_table)
        labels = filled if is_table else filled[0]
        assert partial.which.tolist() == [-1, 0, -1]
        assert {type(label) for label in labels} == {kind}
    with pytest.raises((TypeError, ValueError)):
        read_table_labels(whole.mask([False, True, False]), 3)


def test_what_has_all_labels_is_left_alone():
    for y in (
        [["a"], ["b"]],
        np.array([[1, 2]]),
        [np.array([1.0])],
        RaggedArray(np.array([1, 2]), [0, 2]),
        [("word", "label")],
        "ab",
        None,
        {"a"},
    ):
        filled, partial = split_partial(y, False)
        assert filled is y
        assert partial is None


def test_classes_that_are_in_sets_only():
    X = [np.eye(3), np.eye(3)]
    y = [["a", "b", {"c", "d"}], ["a", {"c", "d"}, None]]
    crf = SAGCRF().fit(X, y)
    assert crf.classes_.tolist() == ["a", "b", "c", "d"]
    assert crf.predict(X)[0][2] in ("c", "d")


def test_weight_zero_leaves_no_trace_of_partial_labels():
    X, y = random_sequences(np.random.default_rng(7), n_samples=10)
    partial = [[{"y", "z"}, *([None] * (len(y[0]) - 1))], *y[1:]]
    weight = np.ones(10)
    weight[0] = 0
    crf = SAGCRF(random_state=0).fit(X, partial, weight)
    assert crf.dual_gap_ <= 1e-3 * crf.objective_  # the ordinary path
    assert crf.classes_.tolist() == ["a", "b", "c"]
    partial[1] = [None] * len(y[1])
    crf = SAGCRF(solver="lbfgs").fit(X, partial, weight)
    assert crf.classes_.tolist() == ["a", "b", "c"]


def test_score_counts_nodes_with_a_label_only():
    X, y = random_sequences(np.random.default_rng(7), n_samples=20)
    crf = SAGCRF(random_state=0).fit(X, y)
    right = [predicted == row for predicted, row in zip(crf.predict(X), y, strict=True)]
    partial = [[None, {"a", "b"}, *row[2:]][: len(row)] for row in y]
    counted = np.concatenate([flags[2:] for flags in right])
    assert crf.score(X, partial) == pytest.approx(counted.mean())
    weight = np.random.default_rng(0).random(20)
    lengths = [len(flags[2:]) for flags in right]
    expected = np.average(counted, weights=np.repeat(weight, lengths))
    assert crf.score(X, partial, weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match="no node with a label has a weight"):
        crf.score(X[:1], [[{"a", "b"}] * len(y[0])])
    with pytest.raises(ValueError, match="y has no labels: all nodes are missing"):
        crf.score(X[:1], [[None] * len(y[0])])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[None, None], [None]], "y has no labels: all nodes are missing"),
        ([["a", set()], ["b"]], "y: sample 0, node 1: the set of labels is empty"),
        ([["a", "b"], [{"a", None}]], "y: sample 1, node 0: the set of labels .* has a missing"),
        ([["a", "b"], [{("a",), "b"}]], "y: sample 1, node 0"),
        ([["a", None], ["a"]], "SAGCRF needs at least two classes, but y has only one"),
        ([["a", None], [{1, 2}]], "y mixes strings with labels of other types"),
        ([["a", None, "b"], ["b"]], "sample 0: X has 2 nodes, but y has 3 labels"),
        ([["a", None], {"b"}], "y: sample 1 must be a 1-D sequence of labels"),
        ([["a", np.inf], ["b"]], "mixes strings with labels of other types"),
    ],
)
def test_bad_partial_labels(y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SAGCRF(solver="lbfgs").fit([np.eye(2), np.eye(2)[:1]], y)


def test_solvers_and_losses_that_need_all_labels():
    X, y = [np.eye(2), np.eye(2)], [["a", None], ["b", "a"]]
    for solver in ("sag", "saga", "casimir"):
        with pytest.raises(ValueError, match=f"solver='{solver}' does not take missing labels"):
            SAGCRF(solver=solver).fit(X, y)
    with pytest.raises(ValueError, match="margin needs a label for each node"):
        SAGCRF(solver="lbfgs", margin="hamming").fit(X, y)
    with pytest.raises(ValueError, match="l1_ratio needs a label for each node"):
        SAGCRF(solver="lbfgs", l1_ratio=0.5).fit(X, y)
    with pytest.raises(ValueError, match="class_weight needs a label for each node"):
        SAGCRF(solver="lbfgs", class_weight="balanced").fit(X, y)
    for bad in (None, {"a", "b"}):
        with pytest.raises((TypeError, ValueError), match="SubgradientSSVM train on missing"):
            GDMMSSVM().fit(X, [["a", bad], ["b", "a"]])
    with pytest.raises(ValueError, match=r"is nan, expected 0 or 1.*; SAGCRF, BCFW"):
        GDMMSSVM(MultiLabel()).fit(np.eye(2), [[0.0, 1.0], [np.nan, 1.0]])


def test_sets_in_a_table_may_be_label_sets():
    X, y = np.eye(3), [{"a", "b"}, {"b"}, {"a"}]
    column = pd.Series(y)
    for sets in (y, tuple(y), column, column.to_frame(), column.to_numpy()):
        for graph in ("auto", MultiLabel("full")):
            with pytest.raises(ValueError, match="y has a set for each sample: if all labels in a"):
                SAGCRF(graph, solver="lbfgs").fit(X, sets)
    assert SAGCRF("multiclass", solver="lbfgs").fit(X, y).classes_.tolist() == ["a", "b"]


def test_labels_that_no_labelling_fits():
    graph = Chain(forbidden=[("a", "b")])
    y = [["b", "a", "a"], ["a", {"b"}, None]]
    with pytest.raises(ValueError, match="Chain allows agrees with the labels of sample 1"):
        SAGCRF(graph, solver="lbfgs").fit([np.eye(3), np.eye(3)], y)
    crf = SAGCRF(graph, solver="lbfgs").fit([np.eye(3)] * 2, [["b", "a", None], [None] * 3])
    assert crf.predict_log_likelihood([np.eye(3)], [["a", "b", None]]).tolist() == [-np.inf]


def test_metrics_of_nodes_leave_out_what_has_no_label():
    y = [["a", None, "b"], [None], [{"a", "b"}, "b"], ["a"]]
    predicted = [["a", "c", "a"], ["a"], ["a", "b"], ["a"]]
    assert accuracy_score(*metrics.flatten(y, predicted)) == 0.75
    assert sequence_accuracy_score(y, predicted) == pytest.approx(2 / 3)
    assert [own.tolist() for own in metrics.flatten(y, predicted)] == [[*"abba"], [*"aaba"]]
    weight = [2, 5, 1, 1]
    assert metrics.flatten(y, predicted, sample_weight=weight)[2].tolist() == [2, 2, 1, 1]
    images = [np.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])]
    found = metrics.flatten(images, [np.array([[1, 1], [3, 3]])])
    assert [own.tolist() for own in found] == [[1, 3, 4], [1, 3, 3]]


def test_chunks_at_a_node_without_a_label_do_not_count():
    y = [["B-X", "I-X", "O", "B-X", None, "O", "B-X", "O", "O"]]
    predicted = [["B-X", "I-X", "O", "B-X", "I-X", "O", "O", "O", "B-X"]]
    # True: the first and the one at node 6; predicted: the first and the last.
    assert chunk_precision_recall_fscore_support(y, predicted, average=None)[3].tolist() == [2]
    assert chunk_f1_score(y, predicted) == 0.5
    assert chunk_f1_score(y, [["O"] * 9], zero_division=0.0) == 0.0
    bordering = [["O", "O", "O", "O", "O", "B-X", "B-X", "O", "O"]]
    assert chunk_precision_recall_fscore_support(y, bordering, average="micro")[:2] == (1.0, 0.5)
