"""Bad input gets an error that names the argument, the sample and what was expected."""

import enum
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    Matching,
    MultiClass,
    MultiLabel,
    ProxLinearSSVM,
    RaggedArray,
    SubgradientSSVM,
    Tree,
)
from skstruct.data.labels import read_sequence_labels
from skstruct.data.packing import is_structured
from skstruct.datasets import load_conll, load_ocr_letters
from skstruct.losses.task import cost_matrix


@pytest.fixture
def fitted(sequences):
    return SAGCRF(tol=1e-2, random_state=0).fit(*sequences)


def _spoil(items, i, item):
    items = list(items)
    items[i] = item
    return items


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["fit", "predict", "predict_marginals"])
def test_nan_and_infinity_in_X(sequences, fitted, value, method):
    X, y = sequences
    bad = X[3].copy()
    bad[0, 1] = value
    args = (_spoil(X, 3, bad), y) if method == "fit" else (_spoil(X, 3, bad),)
    word = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=rf"Input X contains {word}.*sample 3, node 0"):
        getattr(fitted, method)(*args)


def test_nan_in_sparse_X(sparse_sequences):
    X, y = sparse_sequences
    bad = X[4].copy()
    bad.data[0] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*sample 4"):
        SAGCRF().fit(_spoil(X, 4, bad), y)


def test_lengths_of_X_and_y_differ(sequences):
    X, y = sequences
    with pytest.raises(ValueError, match=rf"sample 2: X has {len(X[2])} nodes, but y has 9 labels"):
        SAGCRF().fit(X, _spoil(y, 2, ["a"] * 9))
    with pytest.raises(ValueError, match="X has 24 samples, but y has 23"):
        SAGCRF().fit(X, y[:-1])
    swapped = RaggedArray.from_list(y[::-1])
    with pytest.raises(ValueError, match="sample 0: X has"):
        SAGCRF().fit(X, swapped)


def test_an_empty_sequence(sequences):
    X, y = sequences
    with pytest.raises(ValueError, match="sample 6 is empty"):
        SAGCRF().fit(_spoil(X, 6, X[0][:0]), _spoil(y, 6, y[0][:0]))


def test_empty_sequences_are_predicted_empty(sequences, fitted):
    X, y = sequences
    some = [X[0], X[0][:0], X[1]]
    predicted = fitted.predict(some)
    assert [len(labels) for labels in predicted] == [len(X[0]), 0, len(X[1])]
    assert (predicted[2] == fitted.predict(X[:2])[1]).all()
    nodes, edges = fitted.predict_marginals(some, pairwise=True)
    assert nodes[1].shape == (0, 3)
    assert edges[1].shape == (0, 3, 3)
    assert (edges[2] == fitted.predict_marginals(X[:2], pairwise=True)[1][1]).all()
    labels, _scores = fitted.predict_top_k(some, 2)
    assert labels[1].shape == (1, 0)
    assert (labels[2] == fitted.predict_top_k(X[:2], 2)[0][1]).all()
    likelihoods = fitted.predict_log_likelihood(some, [y[0], y[0][:0], y[1]])
    assert likelihoods[1] == 0.0
    np.testing.assert_array_equal(likelihoods[[0, 2]], fitted.predict_log_likelihood(X[:2], y[:2]))


def test_unknown_label(sequences, fitted):
    X, y = sequences
    with pytest.raises(ValueError, match=r"unknown label 'zz' \(sample 1, node 0\)"):
        fitted.predict_log_likelihood(X, _spoil(y, 1, ["zz"] * len(y[1])))


def test_number_of_features(sequences, fitted):
    X, y = sequences
    with pytest.raises(ValueError, match="X has 4 features, but SAGCRF is expecting 5 features"):
        fitted.predict([x[:, :4] for x in X])
    with pytest.raises(ValueError, match="sample 3 has 4 features, sample 0 has 5"):
        SAGCRF().fit(_spoil(X, 3, X[3][:, :4]), y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0),
        ("C", -1.0),
        ("C", np.nan),
        ("C", np.inf),
        ("max_iter", 0),
        ("tol", -1e-3),
        ("solver", "newton"),
        ("margin", "zero-one"),
        ("margin", 1.0),
        ("sampling", "random"),
        ("line_search", "never"),
        ("schedule", "published"),
        ("stop", "loss"),
        ("graph", "grid"),
        ("graph", 3),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
        ("random_state", "zero"),
    ],
)
def test_parameters(sequences, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of SAGCRF"):
        SAGCRF(**{name: value}).fit(*sequences)


def test_sample_weight(sequences):
    X, y = sequences
    with pytest.raises(ValueError, match="sample_weight"):
        SAGCRF().fit(X, y, sample_weight=np.ones(3))
    negative = np.ones(len(X))
    negative[2] = -1
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        SAGCRF().fit(X, y, sample_weight=negative)
    with pytest.raises(ValueError, match="zero"):
        SAGCRF().fit(X, y, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="NaN"):
        SAGCRF().fit(X, y, sample_weight=np.full(len(X), np.nan))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_weights_that_overflow_are_named_as_the_cause(sequences, size):
    X, y = sequences
    weight = np.full(len(X), size)
    kinds = CasimirSSVM, GDMMSSVM, SubgradientSSVM, ProxLinearSSVM
    messages = []
    for kind in kinds:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                kind(max_iter=3, random_state=0).fit(X, y, sample_weight=weight)
        except (ValueError, FloatingPointError) as error:
            messages.append(str(error))
    assert messages
    assert all("sample_weight" in message for message in messages)
    if size > 1.0:
        with pytest.raises(FloatingPointError, match=r"sample_weight has a mean of 1e\+300"):
            SubgradientSSVM(random_state=0).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    "kind",
    [
        SAGCRF,
        BCFWSSVM,
        CasimirSSVM,
        ExtragradientSSVM,
        GDMMSSVM,
        ProxLinearSSVM,
        SubgradientSSVM,
    ],
)
def test_an_integer_C_that_no_float_can_hold(sequences, kind):
    with pytest.raises(ValueError, match="C must be a number that a float can hold"):
        kind(C=10**400).fit(*sequences)


def test_shapes_and_types_of_X(sequences):
    X, y = sequences
    with pytest.raises(TypeError, match=r"pass list\(X\)"):
        SAGCRF("chain").fit((x for x in X), y)
    with pytest.raises(ValueError, match="sample 1 must be of shape"):
        SAGCRF().fit(_spoil(X, 1, X[1].ravel()), y)
    with pytest.raises(ValueError, match="sample 1 is not numeric"):
        SAGCRF().fit(_spoil(X, 1, np.full(X[1].shape, "word")), y)
    with pytest.raises(ValueError, match="Complex data"):
        SAGCRF().fit(_spoil(X, 1, X[1] * 1j), y)
    with pytest.raises(TypeError, match="sample 0 is a list of dicts"):
        SAGCRF().fit([[{"word": "a"}]] * 2, [["a"], ["b"]])
    with pytest.raises(ValueError, match=r"Chain\(edge_features=True\)"):
        SAGCRF("chain").fit([(x, x[1:]) for x in X], y)
    with pytest.raises(ValueError, match="sample 0 must be a pair"):
        SAGCRF(Chain(edge_features=True)).fit(X, y)
    short = [(x, np.zeros((len(x), 1))) for x in X]
    with pytest.raises(ValueError, match="rows of edge features"):
        SAGCRF(Chain(edge_features=True)).fit(short, y)


def test_types_of_y(sequences):
    X, y = sequences
    with pytest.raises(ValueError, match="None"):
        SAGCRF().fit(X, None)
    with pytest.raises(ValueError, match="Unknown label type"):
        SAGCRF().fit(X, [np.full(len(labels), 0.5) for labels in y])
    with pytest.raises(TypeError, match="mixes strings"):
        SAGCRF().fit(X, _spoil(y, 0, np.arange(len(y[0]))))
    with pytest.raises(ValueError, match="None"):
        GDMMSSVM().fit(X, _spoil(y, 0, [None] * len(y[0])))
    with pytest.raises(ValueError, match="sample 0 must be a 1-D"):
        SAGCRF().fit(X, _spoil(y, 0, np.zeros((len(y[0]), 2))))


def test_tables_and_sequences_are_not_confused(sequences, fitted):
    X, y = sequences
    table, labels = np.vstack(X), np.concatenate(y)
    with pytest.raises(ValueError, match="X is a table, but SAGCRF with graph Chain"):
        fitted.predict(table)
    on_table = SAGCRF(tol=1e-2).fit(table, labels)
    with pytest.raises(ValueError, match="X is sequences, but SAGCRF with graph MultiClass"):
        on_table.predict(X)
    with pytest.raises(ValueError, match="X is a table"):
        SAGCRF("chain").fit(table, labels)
    with pytest.raises(ValueError, match="X is sequences"):
        SAGCRF(MultiClass()).fit(X, y)
    with pytest.raises(TypeError, match=r"MultiClass has no marginals of edges; call"):
        on_table.predict_marginals(table, pairwise=True)


def test_predict_before_fit(sequences):
    for method in ("predict", "predict_marginals", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(SAGCRF(), method)(sequences[0])


@pytest.mark.parametrize(
    ("forbidden", "message"),
    [
        ("iob3", "forbidden must be a scheme"),
        ("iob2", "'a' is not a label of this scheme"),
        ([("a", "zz")], "unknown label 'zz'"),
        ([("a",)], "is not a pair"),
        (["ab"], "forbidden must be a scheme"),
        ([(None, None)], "empty sequence"),
        (("a", "b"), r"a list of pairs: \[\('a', 'b'\)\]$"),
    ],
)
def test_forbidden(sequences, forbidden, message):
    with pytest.raises(ValueError, match=message):
        SAGCRF(Chain(forbidden=forbidden)).fit(*sequences)


def test_forbidden_is_no_dict(sequences):
    with pytest.raises(TypeError, match=r"forbidden must be a list of pairs .*got the dict"):
        SAGCRF(Chain(forbidden={"iob2": [("a", "b")]})).fit(*sequences)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["O", -1], ["O"]], "mixes strings .*; for an unknown label fit takes None"),
        ([["O", "B-x"], [-1]], "mixes strings .*; for an unknown label fit takes None"),
        ([["O", "?"], ["O"]], r"'\?' is not a label .*; for an unknown label fit takes None"),
        ([["O", ("O", "B-x")], ["O"]], "for one of these labels fit takes a set"),
        ([["O", "B-x"], [("O", "B-x", "I-x")]], "for one of these labels fit takes a set"),
    ],
)
def test_other_spellings_of_partial_labels(y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SAGCRF(Chain(forbidden="iob2")).fit([np.ones((2, 1)), np.ones((1, 1))], y)


def test_training_labels_that_are_forbidden():
    X = [np.ones((2, 1)), np.ones((3, 1))]
    y = [["O", "O"], ["O", "I-x", "B-x"]]
    with pytest.raises(ValueError, match=r"sample 1, node 0 has the forbidden step \('O', 'I-x'\)"):
        SAGCRF(Chain(forbidden="iob2")).fit(X, y)
    y = [["O", "O"], ["I-x", "I-x", "B-x"]]
    with pytest.raises(ValueError, match="sample 1 has the label 'I-x', forbidden at its first"):
        SAGCRF(Chain(forbidden="iob2")).fit(X, y)
    y = [["O", "S-x"], ["O", "B-x", "I-x"]]
    with pytest.raises(ValueError, match="sample 1 has the label 'I-x', forbidden at its last"):
        SAGCRF(Chain(forbidden="iobes")).fit(X, y)


def test_shapes_of_allowed(sequences, fitted):
    X, _ = sequences
    masks = [np.ones((len(x), 3), dtype=bool) for x in X]
    with pytest.raises(ValueError, match="X has 24 samples, but allowed has 23"):
        fitted.predict(X, allowed=masks[:-1])
    with pytest.raises(ValueError, match="allowed: sample 1 must be of shape"):
        fitted.predict(X, allowed=_spoil(masks, 1, masks[1][:, :2]))


@pytest.mark.parametrize(
    ("flat", "offsets", "message"),
    [
        (np.zeros(3), [1, 3], "begins with 0"),
        (np.zeros(3), [0, 2], "offsets end at 2, but flat has 3 rows"),
        (np.zeros(3), [0, 3, 2, 3], "decrease after sample 1"),
    ],
)
def test_ragged_offsets(flat, offsets, message):
    with pytest.raises(ValueError, match=message):
        RaggedArray(flat, offsets)


def test_losses():
    classes = np.array(["a", "b"])
    for loss, message in [
        ("huber", "loss must be"),
        ({"zz": 1.0}, "unknown class 'zz'"),
        (np.zeros((3, 3)), r"shape \(3, 3\), but there are 2 classes"),
        ([[0, -1], [1, 0]], "negative"),
        ([[1, 1], [1, 0]], "0 on its diagonal"),
        ({"a": np.nan}, "non-finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            cost_matrix(loss, classes)


def test_conll_files(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("a N B\nb N I\n\nc N\n")
    with pytest.raises(ValueError, match=r"line 4: 2 columns, but 3 were expected"):
        load_conll(path)
    path.write_text("\n\n")
    with pytest.raises(ValueError, match="has no sentence"):
        load_conll(path)


def test_ocr_files(tmp_path):
    np.savez(tmp_path / "letters.npz", pixels=np.zeros((2, 16), dtype=np.uint8))
    with pytest.raises(ValueError, match="has no array"):
        load_ocr_letters(tmp_path / "letters.npz")


def test_sparse_matrix_as_sequences_is_a_table(sparse_sequences):
    X, y = sparse_sequences
    with pytest.raises(ValueError, match="X is a table"):
        SAGCRF("chain").fit(sparse.vstack(X), np.concatenate(y))


@pytest.mark.parametrize(
    ("X", "match"),
    [
        ([[{"word": "a"}], [{"word": "b"}]], "sample 0 is a list of dicts.*SequenceVectorizer"),
        ([{"word": "a"}, {"word": "b"}], "a sequence is a list of feature dicts, one a node"),
        ([["the", "cat"], ["a"]], "sample 0 is a list of strings.*TemplateVectorizer"),
        (["the", "cat"], "sample 0 is the string 'the'.*SequenceVectorizer"),
        ("the cat", "X must be a list of samples, got a str"),
        ([np.ones(2), np.ones(3)], r"rows have different lengths.*x\[:, None\]"),
        (pd.DataFrame({"word": ["the", "cat"]}), "X is not numeric: it holds 'the'; words"),
        ([], "X is empty"),
        (None, "X is None"),
        ({"a": 1}, "got a dict"),
        (np.zeros((2, 2, 2, 2)), "X has 4 dimensions; expected a 2-D table, or sequences"),
        ([np.full((1, 1), "2020", dtype="M8[D]")] * 2, "holds dates"),
    ],
    ids=str,
)
def test_what_beginners_pass_for_X(X, match):
    with pytest.raises((ValueError, TypeError), match=match):
        SAGCRF().fit(X, ["a", "b"])


def test_what_beginners_pass_for_y(sequences, fitted):
    X, y = sequences
    with pytest.raises(ValueError, match="y has 60; for sequences, y must be a list with one"):
        SAGCRF().fit(X, ["a"] * 60)
    with pytest.raises(ValueError, match="y has a sequence of labels for each sample, but X was"):
        SAGCRF().fit(np.eye(2), [["a", "b"], ["a"]])
    with pytest.raises(ValueError, match="label 0 is 2, expected 0 or 1: with a table X a 2-D y"):
        SAGCRF().fit(np.eye(2), [[2, 0], [1, 1]])
    with pytest.raises(ValueError, match=r"for one sample x that is \[x\]"):
        fitted.predict(X[0])
    with pytest.raises(ValueError, match="24 numbers, one a sample; weights of nodes"):
        SAGCRF().fit(X, y, sample_weight=[np.ones(len(labels)) for labels in y])


def test_integers_stay_apart():
    far = 2**62
    X = [np.eye(2), np.eye(2)]
    y = [np.array([far, far + 1], dtype=np.uint64), np.array([far + 1, -1])]
    labels = read_sequence_labels(y, np.array([0, 2, 4]))
    assert labels.tolist() == [far, far + 1, far + 1, -1]
    assert labels.dtype == np.int64
    for other in (np.array([2**63 + 1, 1], dtype=np.uint64), np.array([2**53 + 1, 0])):
        with pytest.raises(ValueError, match="too large"):
            SAGCRF().fit(X, [other, np.array([-1.0, 1.0]) if other[0] < 2**62 else [-1, 1]])
    with pytest.raises(ValueError, match=r"integer beyond the range of np.int64 \(node 0\)"):
        SAGCRF().fit(X, [[2**63, -1], [1, 2]])


def test_nan_among_integers_is_no_large_integer():
    with pytest.raises(ValueError, match=r"continuous or contains NaN \(node 1\)"):
        read_sequence_labels([[1, np.nan]], np.array([0, 2]))


def test_an_iterator_as_forbidden_steps(sequences):
    X, y = sequences
    with pytest.raises(ValueError, match="forbidden is an iterator"):
        SAGCRF(Chain(forbidden=zip("a", "b", strict=True))).fit(X, y)


def test_frames_as_losses_are_read_by_their_labels():
    classes = np.array(["a", "b"])
    frame = pd.DataFrame([[0, 2], [1, 0]], index=["b", "a"], columns=["b", "a"])
    np.testing.assert_array_equal(cost_matrix(frame, classes)[0], [[0, 1], [2, 0]])
    np.testing.assert_array_equal(cost_matrix(pd.Series({"b": 3.0}), classes)[0], [[0, 1], [3, 0]])
    for wrong in (frame.reset_index(drop=True), frame[["a", "a"]]):
        with pytest.raises(ValueError, match="must be labelled with the classes"):
            cost_matrix(wrong, classes)


def test_trees_without_edges():
    X = [(np.eye(2)[:1], []), (np.eye(2), []), (np.eye(2), [[0, 1]])]
    estimator = SAGCRF(Tree())
    samples = estimator.graph.read_X(estimator, X, reset=True)
    assert samples.n_edges.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="sample 1 has 2 roots"):
        Tree(forest=False).read_X(estimator, X, reset=True)
    with pytest.raises(ValueError, match="its rows differ in length"):
        Tree().read_X(estimator, [(np.eye(2), [[0, 1], [1]])], reset=True)
    with pytest.raises(ValueError, match="edges must be pairs of labels"):
        SAGCRF(MultiLabel([[0, 1], [1]])).fit(np.eye(4), np.eye(4, dtype=int))


def test_polars_nested_lists():
    pl = pytest.importorskip("polars")
    X = pl.Series([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]])
    estimator = SAGCRF()
    assert is_structured(X)
    samples = Chain().read_X(estimator, X, reset=True)
    assert samples.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    labels = Chain().read_y(pl.Series([["a"], ["b", "a"]]), samples)
    assert labels.tolist() == ["a", "b", "a"]
    with pytest.raises(ValueError, match=r"sample 1 contains None \(node 0\)"):
        Chain().read_y(pl.Series([["a"], [None, "a"]]), samples)


def test_a_forbidden_step_names_the_scheme_that_fits():
    X = [np.ones((3, 1))]
    for y, fits in (
        (["O", "I-x", "B-x"], r" \(forbidden='iob2'; all labels follow 'iob1'\)$"),
        (["O", "I-x", "E-x"], "'E-x' is not a label of this scheme"),
        (["I-x", "I-y", "B-x"], r"step .* \(forbidden='iob2'\)$"),
    ):
        with pytest.raises(ValueError, match=fits):
            SAGCRF(Chain(forbidden="iob2")).fit(X, [y])


def test_pairs_as_labels():
    X = [np.ones((2, 1))]
    y = [[("Pierre", "NNP"), ("Vinken", "NNP")]]
    with pytest.raises(ValueError, match=r"sample 0 .*got \('Pierre', 'NNP'\) .*keep the la"):
        SAGCRF().fit(X, y)


def test_a_column_as_label_sequences():
    frame = pd.DataFrame({"sentence": [1, 1, 2], "tag": ["A", "B", "A"]})
    with pytest.raises(ValueError, match=r"X has 2 samples, but y has 3.*frame_column makes them"):
        SAGCRF().fit([np.ones((2, 1)), np.ones((1, 1))], frame["tag"])


def test_labels_that_numpy_would_cut():
    with pytest.raises(
        ValueError, match=r"y: sample 0: the label 'a\\x00' \(node 1\) ends with NUL"
    ):
        SAGCRF().fit([np.ones((2, 1))], [["a", "a\0"]])
    with pytest.raises(ValueError, match="ends with NUL"):
        read_sequence_labels([[b"a\0"]], np.array([0, 1]))
    kind = enum.Enum("kind", {"PER": "per", "LOC": "loc"}, type=str)
    labels = read_sequence_labels([list(kind)], np.array([0, 2]))
    assert labels.tolist() == ["per", "loc"]  # not str(kind.PER), cut to three characters


@pytest.mark.parametrize("nothing", [{}, "", set()])
def test_what_is_empty_but_no_list(fitted, nothing):
    with pytest.raises(TypeError, match="X must be a list of samples, got a"):
        fitted.predict(nothing)


@pytest.mark.parametrize("graph", [Matching(), MultiLabel()])
def test_lists_that_contain_themselves(graph):
    X, y = graph.example(np.random.default_rng(0), False)
    endless = []
    endless.append(endless)
    model = BCFWSSVM(graph, max_iter=2, tol=1e9).fit(X, y)
    for call in (model.fit, model.score):
        for labels in (endless, [endless] * len(X)):
            with pytest.raises(ValueError, match=r"\by\b"):
                call(X, labels)
