"""Metrics against seqeval, against a conlleval of its own rules, and by hand."""

import enum
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import cross_validate

from skstruct import SAGCRF, RaggedArray
from skstruct.metrics import (
    SCORERS,
    chunk_classification_report,
    chunk_f1_score,
    chunk_fbeta_score,
    chunk_offsets,
    chunk_precision_recall_fscore_support,
    chunk_precision_score,
    chunk_recall_score,
    chunk_tags,
    chunks,
    flatten,
    sequence_accuracy_score,
)

seqeval_metrics = pytest.importorskip("seqeval.metrics")
seqeval_scheme = pytest.importorskip("seqeval.scheme")

TAGS = {
    "iob1": "IB",
    "iob2": "IB",
    "ioe1": "IE",
    "ioe2": "IE",
    "iobes": "IBES",
    "bilou": "IBLU",
}


def _random_labels(rng, tags, n=40):
    """Adversarial sequences: any tag after any other, two kinds."""
    names = ["O", *(f"{tag}-{kind}" for tag in tags for kind in ("x", "y"))]
    return [rng.choice(names, size=rng.integers(1, 9)).tolist() for _ in range(n)]


def _noisy(rng, y, tags):
    other = _random_labels(rng, tags, len(y))
    return [
        [
            b if rng.random() < 0.3 and t < len(o) else a
            for t, (a, b) in enumerate(zip(row, [*o, *row], strict=False))
        ]
        for row, o in zip(y, other, strict=True)
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("tags", ["IB", "IE", "IBES"])
@pytest.mark.filterwarnings("ignore")
def test_default_mode_equals_seqeval(seed, tags):
    rng = np.random.default_rng(seed)
    y = _random_labels(rng, tags)
    predicted = _noisy(rng, y, tags)
    for average in ("micro", "macro", "weighted"):
        ours = chunk_precision_recall_fscore_support(y, predicted, average=average)[:3]
        theirs = [
            getattr(seqeval_metrics, f"{name}_score")(y, predicted, average=average)
            for name in ("precision", "recall", "f1")
        ]
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("scheme", TAGS)
@pytest.mark.filterwarnings("ignore")
def test_strict_mode_equals_seqeval(seed, scheme):
    rng = np.random.default_rng(seed)
    y = _random_labels(rng, TAGS[scheme])
    predicted = _noisy(rng, y, TAGS[scheme])
    theirs = seqeval_metrics.f1_score(
        y, predicted, mode="strict", scheme=getattr(seqeval_scheme, scheme.upper())
    )
    for name in (scheme, scheme.upper()):
        np.testing.assert_allclose(chunk_f1_score(y, predicted, scheme=name), theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O I-x I-x O", [(1, 3, "x")]),
        ("I-x B-x I-y", [(0, 1, "x"), (1, 2, "x"), (2, 3, "y")]),
        ("B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
        ("S-x E-x B-x E-x", [(0, 1, "x"), (1, 2, "x"), (2, 4, "x")]),
        ("B-a-b I-a-b", [(0, 2, "a-b")]),
        ("O O", []),
        ("", []),
    ],
)
def test_conlleval_rules_by_hand(labels, expected):
    assert chunks(labels.split()) == expected


def test_report_adds_up():
    y = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP", "O"]]
    predicted = [["B-NP", "I-NP", "O", "O"], ["B-NP", "B-VP"]]
    table = chunk_classification_report(y, predicted, output_dict=True)
    assert table["NP"] == {"precision": 1.0, "recall": 1.0, "f1-score": 1.0, "support": 2.0}
    assert table["VP"]["f1-score"] == 0.0
    np.testing.assert_allclose(table["micro avg"]["precision"], 2 / 3)
    text = chunk_classification_report(y, predicted)
    assert "weighted avg" in text
    assert text.splitlines()[2].split() == ["NP", "1.00", "1.00", "1.00", "2"]


def test_node_and_sequence_metrics_by_hand():
    y, predicted = [["a", "b", "a"], ["b"]], [["a", "a", "a"], ["b"]]
    assert accuracy_score(*flatten(y, predicted)) == 0.75
    assert sequence_accuracy_score(y, predicted) == 0.5
    true, found, weights = flatten(y, predicted, sample_weight=[1, 2])
    assert (true.tolist(), found.tolist()) == ([*"abab"], [*"aaab"])
    assert weights.tolist() == [1, 1, 1, 2]
    np.testing.assert_allclose(sequence_accuracy_score(y, predicted, sample_weight=[3, 1]), 0.25)
    weighted = chunk_f1_score([["B-x"], ["B-x"]], [["B-x"], ["O"]], sample_weight=[3.0, 1.0])
    np.testing.assert_allclose(weighted, 6 / 7)


def test_every_ragged_form():
    y = [np.array(["B-x", "O"]), np.array(["O"])]
    forms = [y, RaggedArray.from_list(y), pd.Series(y, index=[5, 9]), [list(row) for row in y]]
    assert {chunk_f1_score(a, b) for a in forms for b in forms} == {1.0}
    square = np.array([["B-x", "O"], ["O", "O"]])
    assert chunk_f1_score(square, list(square)) == 1.0


def test_errors_name_the_sample():
    with pytest.raises(ValueError, match="sample 1: y_true has 2 labels, y_pred has 1"):
        flatten([["a"], ["a", "b"]], [["a"], ["a"]])
    with pytest.raises(ValueError, match="y_true has 2 samples, y_pred has 1"):
        chunk_f1_score([["a"], ["b"]], [["a"]])
    with pytest.raises(ValueError, match=r"scheme must be a scheme \(.*bilou.*got 'iob3'"):
        chunks(["O"], scheme="iob3")
    with pytest.raises(ValueError, match="label 'E-x' at node 1 is not of the scheme 'iob2'"):
        chunks(["O", "E-x"], scheme="iob2")
    with pytest.raises(ValueError, match="average must be"):
        chunk_f1_score([["O"]], [["O"]], average="samples")
    with pytest.raises(ValueError, match="sample_weight must be 1 numbers"):
        flatten([["a"]], [["a"]], sample_weight=[1, 2])
    with pytest.raises(ValueError, match="1-D"):
        flatten([[[["a"]]]], [[[["a"]]]])


def test_scorers_work_in_cross_validation(sequences):
    X, y = sequences
    y = [np.char.add("B-", labels) for labels in y]
    found = cross_validate(
        SAGCRF(tol=1e-2, random_state=0), X, y, scoring=SCORERS, cv=3, error_score="raise"
    )
    np.testing.assert_allclose(found["test_chunk_f1"], found["test_node_accuracy"])


def test_names_of_scorers_are_those_of_the_functions():
    y, predicted = [["B-x", "O"], ["B-y", "B-x"]], [["B-x", "B-y"], ["B-x", "O"]]

    class Model(BaseEstimator):
        def predict(self, X):
            return predicted

        def fit(self, X, y):
            return self

    expected = {
        "node_accuracy": accuracy_score(*flatten(y, predicted)),
        "node_f1": f1_score(*flatten(y, predicted), average="weighted"),
        "node_f1_macro": f1_score(*flatten(y, predicted), average="macro"),
        "sequence_accuracy": sequence_accuracy_score(y, predicted),
        "chunk_precision": chunk_precision_score(y, predicted),
        "chunk_recall": chunk_recall_score(y, predicted),
        "chunk_f1": chunk_f1_score(y, predicted),
    }
    assert {name: scorer(Model(), y, y) for name, scorer in SCORERS.items()} == expected


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.filterwarnings("ignore:label .* has no chunk prefix")
def test_bilou_is_iobes_by_other_names(seed):
    rng = np.random.default_rng(seed)
    iobes = _random_labels(rng, "IBES")
    bilou = [[a.replace("E-", "L-").replace("S-", "U-") for a in row] for row in iobes]
    for a, b in zip(iobes, bilou, strict=True):
        assert chunks(a) == chunks(b)
        for name in ("bilou", "BILOU", "BIOUL", "biluo"):
            assert chunks(b, name) == chunks(a, "BIOES") == chunks(a, "iobes")
    # Labels that merely begin with these letters are left alone, as in seqeval.
    assert chunks(["LOC", "LOC", "O", "URL"]) == [(0, 2, "OC"), (3, 4, "RL")]
    with pytest.raises(ValueError, match="label 'S-x' at node 1 is not of the scheme 'bilou'"):
        chunks(["O", "S-x"], "BILOU")


def test_aliases_of_schemes():
    labels = ["I-x", "B-x", "I-x"]
    assert (
        chunks(labels, "BIO") == chunks(labels, "IOB2") == chunks(labels, "iob2") == [(1, 3, "x")]
    )
    assert chunks(labels, "IOB1") != chunks(labels, "BIO")
    with pytest.raises(ValueError, match="label '' at node 1 is empty"):
        chunks(["O", ""])


def _by_kind(y, predicted, kinds, beta):
    """Precision, recall, F-beta and support from sets of chunks: the reference."""
    out = []
    true = {(i, *c) for i, row in enumerate(y) for c in chunks(row)}
    found = {(i, *c) for i, row in enumerate(predicted) for c in chunks(row)}
    for kind in kinds:
        t, f = ({c for c in group if c[3] == kind} for group in (true, found))
        p, r = len(t & f) / len(f), len(t & f) / len(t)
        out.append((p, r, (1 + beta**2) * p * r / (beta**2 * p + r), len(t)))
    return np.transpose(out)


def test_labels_beta_and_support():
    rng = np.random.default_rng(5)
    y = _random_labels(rng, "IB", 60)
    predicted = _noisy(rng, y, "IB")
    for kinds in (["x", "y"], ["y", "x"], ["y"]):
        expected = _by_kind(y, predicted, kinds, 2.0)
        got = chunk_precision_recall_fscore_support(y, predicted, beta=2.0, labels=kinds)
        np.testing.assert_allclose(got, expected)
        np.testing.assert_allclose(
            chunk_fbeta_score(y, predicted, beta=2.0, labels=kinds, average="macro"),
            expected[2].mean(),
        )
    assert chunk_precision_score(y, predicted, labels=["y"]) == expected[0, 0]
    assert chunk_recall_score(y, predicted, labels=["y"]) == expected[1, 0]
    table = chunk_classification_report(y, predicted, labels=["y", "x"], output_dict=True)
    assert list(table) == ["y", "x", "micro avg", "macro avg", "weighted avg"]
    np.testing.assert_allclose(table["micro avg"]["f1-score"], chunk_f1_score(y, predicted))
    weights = rng.integers(1, 4, len(y))
    repeated = [[row for row, w in zip(rows, weights, strict=True) for _ in range(w)]
                for rows in (y, predicted)]  # fmt: skip
    assert chunk_classification_report(
        y, predicted, sample_weight=weights, output_dict=True
    ) == chunk_classification_report(*repeated, output_dict=True)


def test_scorers_of_nodes_take_weights_of_samples():
    rng = np.random.default_rng(6)
    y, predicted = ([rng.choice(list("abc"), n) for n in (3, 5, 2, 7)] for _ in range(2))
    flat, weights = (np.concatenate(y), np.concatenate(predicted)), np.array([1.0, 2.0, 0.0, 3.0])

    class Model(BaseEstimator):
        def predict(self, X):
            return predicted

    repeated = np.repeat(weights, [3, 5, 2, 7])
    for name, expected in (
        ("node_accuracy", accuracy_score(*flat, sample_weight=repeated)),
        ("node_f1", f1_score(*flat, sample_weight=repeated, average="weighted")),
        ("node_f1_macro", f1_score(*flat, sample_weight=repeated, average="macro")),
    ):
        scorer = pickle.loads(pickle.dumps(SCORERS[name]))
        np.testing.assert_allclose(scorer(Model(), y, y, sample_weight=weights), expected)


_SCORES = [
    chunk_f1_score,
    chunk_precision_score,
    chunk_recall_score,
    chunk_precision_recall_fscore_support,
    chunk_classification_report,
    flatten,
    sequence_accuracy_score,
]


@pytest.mark.parametrize("metric", _SCORES)
@pytest.mark.parametrize("y", [[], [[]], [[], []], np.empty((0, 3))])
def test_empty_input_is_refused_by_all(metric, y):
    with pytest.raises(ValueError, match="y_true and y_pred are empty"):
        metric(y, y)


@pytest.mark.parametrize("metric", _SCORES)
def test_bad_input_is_refused_by_all(metric):
    with pytest.raises(ValueError, match=r"y_true: sample 0 must be a 1-D sequence of labels"):
        metric(["B-x", "O"], ["B-x", "O"])
    with pytest.raises(TypeError, match=r"y mixes strings .* see sample 1 of y_pred"):
        metric([["O"], ["a"]], [["O"], [1]])
    for weights in ([0.0, 0.0], [-1.0, 2.0]):
        with pytest.raises(ValueError, match=r"[Ss]ample.weight"):
            metric([["O"], ["O"]], [["O"], ["O"]], sample_weight=weights)
    # An empty sample beside others changes nothing.
    if metric is not sequence_accuracy_score:
        full = [["B-x", "O", "B-x"]], [["B-x", "O", "O"]]
        np.testing.assert_equal(metric([*full[0], []], [*full[1], []]), metric(*full))


def test_zero_division():
    y, none = [["B-x", "O"]], [["O", "O"]]
    with pytest.warns(UndefinedMetricWarning, match="Precision is ill-defined"):
        assert chunk_precision_score(y, none) == 0.0
    assert chunk_precision_score(y, none, zero_division=1.0) == 1.0
    assert np.isnan(chunk_recall_score(none, y, zero_division=np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chunk_f1_score(y, none) == 0.0
        assert chunk_recall_score(y, none) == 0.0
    for average in ("micro", "macro", "weighted"):
        with pytest.warns(UndefinedMetricWarning, match="F-score is ill-defined"):
            assert chunk_f1_score(none, none, average=average) == 0.0
        assert chunk_f1_score(none, none, average=average, zero_division=1.0) == 1.0
    assert chunk_f1_score(none, none, average=None).shape == (0,)
    assert chunk_f1_score(y, none, labels=["q"], average=None, zero_division=0.0).tolist() == [0.0]
    with pytest.raises(ValueError, match="neither y_true nor y_pred has a chunk"):
        chunk_classification_report(none, none)


@pytest.mark.parametrize(
    ("y", "predicted", "match"),
    [
        ([["a", 1]], [["a", "1"]], "y_true: sample 0 mixes strings .*'a'.*node 0.*1 .node 1"),
        ([["1"], [1]], [["1"], [2]], "see sample 1 of y_true"),
        ([["a", "None"]], [["a", None]], "y_pred: sample 0 contains None .node 1"),
        ([["a", "nan"]], [["a", np.nan]], "y_pred: sample 0 contains NaN"),
        ([[b"a"]], [["a"]], "see sample 0 of y_pred"),
        ([[1, 3]], [np.ma.masked_array([1, 2], [0, 1])], "y_pred: sample 0 has masked entries"),
        ([[2**63 + 1, -1]], [[2**63, -1]], "beyond the range of np.int64 .node 0"),
        ([[2**53 + 1]], [[float(2**53)]], "integers too large"),
        ([["a\0"]], [["a"]], "ends with NUL"),
        ([["a"]], None, "y_pred is None"),
        (([c] for c in "ab"), [["a"], ["b"]], r"pass list\(y_true\)"),
        ([(c for c in "ab")], [["a", "b"]], "y_true: sample 0 must be a 1-D sequence"),
    ],
)
@pytest.mark.parametrize("metric", [flatten, sequence_accuracy_score])
def test_metrics_merge_no_labels(metric, y, predicted, match):
    with pytest.raises((ValueError, TypeError), match=match):
        metric(y, predicted)


def test_objects_are_read_as_lists_are():
    """scikit-learn cuts NULs, and takes str() of members of an Enum, once they are strings."""
    tag = enum.Enum("tag", {"PER": "per", "LOC": "loc"}, type=str)
    members = np.array([tag.PER, tag.LOC, tag.PER], dtype=object)
    for y in ([members], [pd.Series(members)], RaggedArray.from_list([members])):
        scores = f1_score(*flatten(y, [["per", "per", "loc"]]), average=None)
        assert scores.tolist() == [0.0, 0.5]
    with pytest.raises(ValueError, match=r"y_true: sample 0: .*node 1\) ends with NUL"):
        flatten([np.array(["a", "a\0"], dtype=object)], [["a", "a"]])


def test_metrics_tell_large_integers_apart():
    y = [np.array([2**60], np.uint64), np.array([2**60 + 1])]
    other = [np.array([2**60 + 1]), np.array([2**60], np.uint64)]
    assert accuracy_score(*flatten(y, other)) == 0.0
    assert accuracy_score(*flatten(y, RaggedArray.from_list(y))) == 1.0


def test_weights_that_overflow_are_refused():
    for metric in (flatten, sequence_accuracy_score):
        with pytest.raises(ValueError, match="the sum of the weights overflows"):
            metric([["a"], ["b"]], [["a"], ["a"]], sample_weight=[1e308, 1e308])


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([b"B-NP", b"O"], "labels of chunks must be str, got b'B-NP'"),
        ([1, 2], "labels of chunks must be str, got 1"),
        ([None, "B-X"], "contains None .node 0"),
        ([["B-NP"]], "1-D sequence of labels"),
        ("BIO", "1-D sequence of labels"),
    ],
)
def test_what_are_no_labels_of_chunks(labels, match):
    with pytest.raises((ValueError, TypeError), match=match):
        chunks(labels)


def test_labels_of_tags_are_warned_of_once():
    y = [["NN", "O", "VB"], ["O", "DT"]]
    with pytest.warns(UserWarning, match="label 'NN' has no chunk prefix .*flatten") as seen:
        chunks(y[0])
    assert [w.filename for w in seen] == [__file__]
    for metric in _SCORES[:5]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            metric(y, y)
        assert sum("no chunk prefix" in str(w.message) for w in seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chunks(["B", "I", "O", "B-x"]) == [(0, 2, ""), (3, 4, "x")]


def test_kinds_are_asked_for_without_prefix():
    y = [["B-PER", "O", "B-LOC"]]
    assert chunk_f1_score(y, y, labels=["PER"]) == 1.0
    with pytest.raises(ValueError, match="'PER', not 'B-PER'; kinds are LOC, PER"):
        chunk_f1_score(y, y, labels=["B-PER"])
    with pytest.raises(TypeError, match=r"write \['PER'\]"):
        chunk_f1_score(y, y, labels="PER")


@pytest.mark.parametrize("weights", [None, "drawn"])
def test_lists_of_segments_are_chunks(weights):
    rng = np.random.default_rng(0)
    true = [rng.choice(["a", "b", "O"], size=n).tolist() for n in rng.integers(1, 9, size=30)]
    predicted = [[c if rng.random() < 0.7 else "a" for c in own] for own in true]
    listed = [[chunks(own, scheme="runs") for own in y] for y in (true, predicted)]
    listed[0][0] = [*listed[0][0], (20, 21, "O")]
    options = {"sample_weight": rng.random(30)} if weights else {}
    expected = chunk_classification_report(true, predicted, scheme="runs", digits=9, **options)
    assert chunk_classification_report(*listed, digits=9, **options) == expected
    as_json = [[[*map(list, own)] for own in y] for y in listed]
    assert chunk_classification_report(*as_json, digits=9, **options) == expected
    mixed = chunk_f1_score(listed[0], predicted, scheme="runs", **options)
    assert mixed == chunk_f1_score(true, predicted, scheme="runs", **options)
    with_more = [[(*one, 0.5) for one in own] for own in listed[1]]
    assert chunk_f1_score(listed[0], with_more, **options) == mixed


def test_bad_lists_of_segments():
    one = [[(0, 1, "a")], []]
    assert chunk_recall_score(one, [[], []], zero_division=0.0) == 0.0
    with pytest.raises(ValueError, match=r"y_pred: sample 1: \(3, 2, 'a'\) is not \(start, stop"):
        chunk_f1_score(one, [[], [(3, 2, "a")]])
    with pytest.raises(ValueError, match="y_true has 2 samples, y_pred has 1"):
        chunk_f1_score(one, one[:1])
    with pytest.raises(TypeError, match="y_true has segments, not labels of nodes: use chunk_f1"):
        flatten(one, one)


# Offsets of chunks in the text


def test_offsets_of_chunks_are_those_of_their_words():
    text = "In New  York, New York-based Acme said: New!"
    tokens = ["In", "New", "York", ",", "New", "York-based", "Acme", "said", ":", "New", "!"]
    found = chunk_offsets(
        [(1, 3, "LOC"), (6, 7, "ORG", 0.5), (9, 11, "X"), (4, 5, "X")], tokens, text
    )
    assert [text[a:b] for a, b, *_ in found] == ["New  York", "Acme", "New!", "New"]
    assert [rest for _, _, *rest in found] == [["LOC"], ["ORG", 0.5], ["X"], ["X"]]
    assert found[3][0] == text.index("New York-based")
    rows = [(token, "tag") for token in tokens]
    assert chunk_offsets([(1, 3, "LOC")], rows, text) == found[:1]
    assert chunk_offsets([], tokens, text) == []


def test_offsets_of_tokens_that_know_theirs():
    words = {3: "New", 8: "York"}
    tokens = [SimpleNamespace(idx=start, text=word) for start, word in words.items()]
    assert chunk_offsets([(0, 2, "LOC")], tokens) == [(3, 12, "LOC")]
    assert chunk_offsets([(1, 2, "LOC")], tokens, "New York") == [(4, 8, "LOC")]


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (([(0, 1, "A")], ["b", "a"], "ab"), ValueError, "no 'a' .token 1. after its character 2"),
        (
            ([(0, 3, "A")], ["a", "b"], "ab"),
            ValueError,
            r"\(0, 3, 'A'\) is not .*stop <= 2",
        ),
        (([(1, 1, "A")], ["a", "b"], "ab"), ValueError, "is not .start, stop, label."),
        (
            ([(0, 1, "A")], ["a"], ["a"]),
            TypeError,
            "text must be the text of one sequence, got a l",
        ),
        (([(0, 1, "A")], ["a"]), TypeError, "token 0, 'a', has no attribute idx: text is needed"),
    ],
)
def test_offsets_that_cannot_be_found_are_refused(given, error, match):
    with pytest.raises(error, match=match):
        chunk_offsets(*given)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from("ab"))))
def test_tags_of_chunks_are_read_as_these(drawn):
    own, n = [], 0
    for gap, size, kind in drawn:
        own.append((n + gap, n + gap + size, kind))
        n += gap + size
    for scheme in ("iob1", "iob2", "IOE2", "bioes", "bilou"):
        tags = chunk_tags(own[::-1], n + 1, scheme)
        assert len(tags) == n + 1
        assert chunks(tags, scheme) == own
    assert chunks(chunk_tags(own, n), None) == own


@pytest.mark.parametrize(
    ("own", "message"),
    [([(0, 2, "a"), (1, 3, "a")], "overlap"), ([(2, 5, "a")], "chunks"), ([(1, 1, "a")], "chunks")],
)
def test_chunks_that_have_no_tags(own, message):
    with pytest.raises(ValueError, match=message):
        chunk_tags(own, 4)
    with pytest.raises(ValueError, match="one run"):
        chunk_tags([(0, 1, "a"), (1, 2, "a")], 4, "runs")
    assert chunk_tags([(0, 1, "a"), (1, 2, "b")], 3, "runs") == ["a", "b", "O"]
    with pytest.raises(ValueError, match="ioe1"):
        chunk_tags([], 4, "ioe1")
