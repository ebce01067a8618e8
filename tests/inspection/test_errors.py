"""Errors of predictions against definitions, enumeration and the metrics; predictions as tables."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix

from skstruct import (
    BCFWSSVM,
    SAGCRF,
    Candidates,
    Grid,
    MultiClass,
    MultiLabel,
    Pairwise,
    RaggedArray,
    SemiChain,
)
from skstruct.inspection import ErrorAnalysis, prediction_frame, tables
from skstruct.inspection.errors import match_chunks
from skstruct.metrics import (
    chunk_precision_recall_fscore_support,
    chunks,
    confidences,
    flatten,
)
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer

WORDS = [["Ann", "Lee", "left", "Rome", "<b>", "Oslo"], ["He", "saw", "Bo"]]
TRUTH = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-LOC"], ["O", "O", "B-PER"]]
GUESS = [["B-PER", "O", "O", "B-ORG", "B-ORG", "B-LOC"], ["B-PER", "O", "O"]]
KINDS = ["correct", "wrong boundary", "wrong type", "missed", "made up"]


def _rows(frame, *names):
    rows = frame[[*names]].astype(object)
    return [tuple(row) for row in rows.where(rows.notna(), None).itertuples(index=False)]


def _tags(rng, n):
    return rng.choice(["O", "B-A", "I-A", "B-B", "I-B"], n).tolist()


def _pairs(rng, n_samples=30):
    sizes = rng.integers(1, 9, n_samples)
    return [_tags(rng, n) for n in sizes], [_tags(rng, n) for n in sizes]


# Kinds of errors


def test_every_kind_of_error_by_hand():
    analysis = ErrorAnalysis(TRUTH, GUESS, WORDS)
    assert (analysis.unit, analysis.n_errors) == ("chunks", 5)
    names = "sample", "kind", "true", "text", "predicted", "predicted_text"
    assert _rows(analysis.errors, *names) == [
        (0, "wrong boundary", "PER", "Ann Lee", "PER", "Ann"),
        (0, "wrong type", "LOC", "Rome", "ORG", "Rome"),
        (0, "made up", None, "", "ORG", "<b>"),
        (1, "made up", None, "", "PER", "He"),
        (1, "missed", "PER", "Bo", None, ""),
    ]
    spans = "start", "stop", "predicted_start", "predicted_stop"
    assert _rows(analysis.errors, *spans) == [
        (0, 2, 0, 1),
        (3, 4, 3, 4),
        (-1, -1, 4, 5),
        (-1, -1, 0, 1),
        (2, 3, -1, -1),
    ]
    assert analysis.errors["confidence"].isna().all()
    assert _rows(analysis.summary, "type", *KINDS, "error_rate") == [
        ("PER", 0, 1, 0, 1, 1, 1.0),
        ("LOC", 1, 0, 1, 0, 0, 0.5),
        ("ORG", 0, 0, 0, 0, 1, 1.0),
    ]
    assert _rows(analysis.by_length, "length", *KINDS) == [(1, 1, 0, 1, 1, 2), (2, 0, 1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("true", "predicted", "pairs"),
    [
        # One of two halves has most nodes, and the other is left.
        ({(0, 3, "A")}, {(0, 1, "A"), (1, 3, "A")}, {((0, 3), (1, 3)), (None, (0, 1))}),
        # The same type counts more than common nodes.
        ({(0, 3, "A")}, {(0, 1, "A"), (1, 3, "B")}, {((0, 3), (0, 1)), (None, (1, 3))}),
        # The same span counts more than the same type.
        ({(0, 2, "A")}, {(0, 2, "B"), (0, 1, "A")}, {((0, 2), (0, 2)), (None, (0, 1))}),
        # Neighbours do not overlap.
        ({(0, 2, "A")}, {(2, 3, "A")}, {((0, 2), None), (None, (2, 3))}),
        # What is right takes part in no other pair.
        (
            {(0, 2, "A"), (0, 3, "A")},
            {(0, 2, "A"), (1, 2, "A")},
            {((0, 2), (0, 2)), ((0, 3), (1, 2))},
        ),
    ],
)
def test_pairs_of_chunks_by_hand(true, predicted, pairs):
    found = match_chunks(true, predicted)
    assert {tuple(one and one[:2] for one in pair) for pair in found} == pairs
    assert len(found) == len(pairs)


def _by_search(true, predicted):
    """The best pair of all that are left, as often as there is one."""
    true, predicted, pairs = {*true}, {*predicted}, []
    while True:
        best = min(
            (
                (a != b, a[:2] != b[:2], a[2] != b[2], max(a[0], b[0]) - min(a[1], b[1]), a, b)
                for a in true
                for b in predicted
                if max(a[0], b[0]) < min(a[1], b[1])
            ),
            default=None,
        )
        if best is None:
            return {*pairs, *((a, None) for a in true), *((None, b) for b in predicted)}
        pairs.append(best[4:])
        true.remove(best[4])
        predicted.remove(best[5])


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_those_of_a_search_also_of_nested_chunks(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        sides = []
        for n in rng.integers(0, 7, 2):
            starts, sizes = rng.integers(0, 10, n), rng.integers(1, 5, n)
            kinds = rng.choice(["A", "B"], n)
            spans = starts.tolist(), (starts + sizes).tolist(), kinds.tolist()
            sides.append({*zip(*spans, strict=True)})
        found = match_chunks(*sides)
        assert {*found} == _by_search(*sides)
        assert len(found) == len({*found})


@pytest.mark.parametrize("scheme", [None, "iob2", "runs"])
@pytest.mark.parametrize("seed", range(3))
def test_each_chunk_counts_once_as_in_the_metrics(seed, scheme):
    truth, guess = _pairs(np.random.default_rng(seed))
    analysis = ErrorAnalysis(truth, guess, scheme=scheme)
    n = analysis.summary[KINDS].sum()
    assert min(n) > 0
    true, predicted = ([chunks(one, scheme) for one in y] for y in (truth, guess))
    assert n.sum() - n["made up"] == sum(map(len, true))
    assert n.sum() - n["missed"] == sum(map(len, predicted))
    precision, recall, *_ = chunk_precision_recall_fscore_support(
        truth, guess, average="micro", scheme=scheme
    )
    assert n["correct"] / (n.sum() - n["made up"]) == pytest.approx(recall)
    assert n["correct"] / (n.sum() - n["missed"]) == pytest.approx(precision)
    # Of each type all true chunks but those made up.
    kinds = sorted({one[2] for own in true + predicted for one in own})
    support = chunk_precision_recall_fscore_support(
        truth, guess, scheme=scheme, labels=kinds, zero_division=0
    )[3]
    by_type = analysis.summary.set_index("type").loc[kinds, KINDS[:-1]].sum(axis=1)
    assert by_type.tolist() == support.tolist()
    # Each chunk that is not right is in one row of the errors.
    errors = analysis.errors
    for side, before, own, others in (
        ("true", "", true, predicted),
        ("predicted", "predicted_", predicted, true),
    ):
        shown = _rows(errors, "sample", f"{before}start", f"{before}stop", side)
        shown = [row for row in shown if row[3] is not None]
        wrong = {(i, *one) for i, chunk in enumerate(own) for one in {*chunk} - {*others[i]}}
        assert sorted(shown, key=str) == sorted(wrong, key=str)
    # Sums by length are those by type.
    assert analysis.by_length[KINDS].sum().equals(n)


def test_segments_and_chunks_of_models_are_compared_as_their_labels_are():
    rng = np.random.default_rng(0)
    truth, guess = _pairs(rng)
    expected = ErrorAnalysis(truth, guess)
    true, predicted = ([chunks(one) for one in y] for y in (truth, guess))
    for pair in [(true, predicted), (truth, predicted), (true, guess)]:
        analysis = ErrorAnalysis(*pair)
        assert analysis.errors.drop(columns=["text", "predicted_text"]).equals(
            expected.errors.drop(columns=["text", "predicted_text"])
        )
        assert analysis.summary.equals(expected.summary)
    # A model that finds nothing returns empty lists.
    none = np.empty(2, dtype=object)
    none[:] = [[], []]
    listed = [chunks(one) for one in TRUTH]
    assert ErrorAnalysis(listed, [[], []], WORDS).summary["missed"].sum() == 4
    assert ErrorAnalysis([[], []], listed, WORDS).summary["made up"].sum() == 4
    assert ErrorAnalysis(TRUTH, none, WORDS).summary["missed"].sum() == 4
    assert chunk_precision_recall_fscore_support(TRUTH, none, average="micro", zero_division=0.0)[
        :3
    ] == (0.0, 0.0, 0.0)


def test_chunks_next_to_missing_labels_do_not_count():
    truth = [["B-A", None, "B-A", "O"], ["B-A", "O", "O", "O"]]
    guess = [["O", "B-A", "B-A", "B-B"], ["O"] * 4]
    analysis = ErrorAnalysis(truth, guess)
    assert _rows(analysis.errors, "sample", "kind", "predicted", "predicted_start") == [
        (0, "made up", "B", 3),
        (1, "missed", None, -1),
    ]


# Labels that are not those of chunks


@pytest.mark.parametrize("classes", [["D", "N", "V"], [1, 2, 3]])
def test_confusions_of_labels_are_those_of_the_matrix(classes):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 20)
    truth, guess = ([rng.choice(classes, n) for n in sizes] for _ in range(2))
    analysis = ErrorAnalysis(truth, guess)
    assert analysis.unit == "labels"
    matrix = confusion_matrix(*flatten(truth, guess), labels=classes)
    for a, b, n in _rows(analysis.summary, "true", "predicted", "count"):
        assert matrix[classes.index(a), classes.index(b)] == n > 0
    assert analysis.summary["count"].is_monotonic_decreasing
    assert analysis.n_errors == matrix.sum() - np.trace(matrix) == analysis.summary["count"].sum()
    by_length = analysis.by_length.set_index("length")
    for n in {*sizes.tolist()}:
        same = [np.sum(a == b) for a, b in zip(truth, guess, strict=True) if len(a) == n]
        assert by_length.loc[n, "correct"] == sum(same)
        assert by_length.loc[n, "confused"] == n * len(same) - sum(same)


def test_errors_of_labels_by_hand():
    words = [["the", "dog", "barks"], ["a", "cat"]]
    truth, guess = [["D", "N", "V"], ["D", None]], [["D", "V", "N"], ["D", "V"]]
    analysis = ErrorAnalysis(truth, guess, words, known=["the", "barks", "a"])
    assert _rows(analysis.errors, "sample", "kind", "true", "start", "text", "predicted") == [
        (0, "confused", "N", 1, "dog", "V"),
        (0, "confused", "V", 2, "barks", "N"),
    ]
    assert _rows(analysis.worst(), "sample", "errors", "true", "predicted") == [
        (0, 2, "the dog/N barks/V", "the dog/V barks/N")
    ]
    assert _rows(analysis.by_known, "known", "correct", "confused") == [(False, 0, 1), (True, 2, 1)]
    images = ErrorAnalysis([np.array([[0, 1], [1, 1]])], [np.array([[0, 1], [0, 1]])])
    assert _rows(images.errors, "true", "predicted", "text") == [(1, 0, "2")]


# Words, known words, confidences


class _Token:
    def __init__(self, text):
        self.text = text


@pytest.mark.parametrize(
    "convert",
    [
        lambda words: words,
        lambda words: [[(word, "tag") for word in own] for own in words],
        lambda words: [[_Token(word) for word in own] for own in words],
        lambda words: [tuple(map(_Token, own)) for own in words],
        lambda words: [pd.DataFrame({"word": own, "tag": "x"}) for own in words],
        lambda words: RaggedArray.from_list([np.array(own) for own in words]),
    ],
    ids=["words", "rows", "objects", "tuples", "frames", "ragged"],
)
def test_words_of_every_form_of_X(convert):
    X = convert(WORDS)
    analysis = ErrorAnalysis(TRUTH, GUESS, X, known=convert([["Ann", "Rome", "saw"]]))
    assert analysis.errors.equals(ErrorAnalysis(TRUTH, GUESS, WORDS).errors)
    assert _rows(analysis.by_known, "known", *KINDS) == [
        (False, 1, 1, 0, 1, 2),
        (True, 0, 0, 1, 0, 0),
    ]


def test_words_of_a_spacy_like_document():
    class Doc:
        def __iter__(self):
            return iter([_Token("Bo"), _Token("ran")])

    analysis = ErrorAnalysis([["B-PER", "O"]], [["O", "O"]], [Doc()])
    assert analysis.errors["text"].tolist() == ["Bo"]


def test_without_words_tokens_are_numbers():
    for X in (None, [np.ones((6, 2)), np.ones((3, 2))], [[{"w": 1}] * 6, [{"w": 1}] * 3]):
        analysis = ErrorAnalysis(TRUTH, GUESS, X)
        assert analysis.errors["text"].tolist() == ["0 1", "3", "", "", "2"]
    assert analysis.worst(1)["true"].tolist() == ["[PER 0 1] 2 [LOC 3] 4 [LOC 5]"]


def test_worst_samples_come_first_with_their_chunks():
    analysis = ErrorAnalysis(TRUTH, GUESS, WORDS)
    assert _rows(analysis.worst(), "sample", "errors", "true", "predicted") == [
        (
            0,
            3,
            "[PER Ann Lee] left [LOC Rome] <b> [LOC Oslo]",
            "[PER Ann] Lee left [ORG Rome] [ORG <b>] [LOC Oslo]",
        ),
        (1, 2, "He saw [PER Bo]", "[PER He] saw Bo"),
    ]
    assert len(analysis.worst(1)) == 1
    assert len(ErrorAnalysis(TRUTH, TRUTH, WORDS).worst()) == 0


def test_confidences_are_those_of_the_predicted_chunks():
    flat = [0.95, 0.31, 0.32, 0.4, 1.0]
    predicted = [chunks(one) for one in GUESS]
    nested = [flat[:4], flat[4:]]
    with_chances = [
        [(*one, p) for one, p in zip(own, ps, strict=True)]
        for own, ps in zip(predicted, nested, strict=True)
    ]
    for analysis in (
        ErrorAnalysis(TRUTH, GUESS, WORDS, confidences=flat),
        ErrorAnalysis(TRUTH, GUESS, WORDS, confidences=nested),
        ErrorAnalysis(TRUTH, GUESS, WORDS, confidences=(np.zeros(5, dtype=bool), np.array(flat))),
        ErrorAnalysis(TRUTH, with_chances, WORDS),
    ):
        found = _rows(analysis.errors, "kind", "predicted_text", "confidence")
        assert found == [
            ("wrong boundary", "Ann", 0.95),
            ("wrong type", "Rome", 0.31),
            ("made up", "<b>", 0.32),
            ("made up", "He", 1.0),
            ("missed", "", None),
        ]
        assert _rows(analysis.by_confidence, "confidence", *KINDS) == [
            ("0.3-0.4", 0, 0, 1, 0, 1),
            ("0.4-0.5", 1, 0, 0, 0, 0),
            ("0.9-1.0", 0, 1, 0, 0, 1),
        ]
    without = [[(*one, None) for one in own] for own in predicted]
    assert not hasattr(ErrorAnalysis(TRUTH, without), "by_confidence")


def _tagger(kind=SAGCRF, **options):
    templates = "U0:%x[0,0]\nB"
    return make_pipeline(TemplateVectorizer(templates), kind(random_state=0, **options))


def test_confidences_of_models():
    X, y = WORDS * 4, TRUTH * 3 + GUESS
    model = _tagger().fit(X, y)
    found = model.predict_chunks(X)
    analysis = ErrorAnalysis(y, found, X)
    correct, sure = confidences(model, X, y, of="chunks")
    n = analysis.by_confidence[KINDS].sum()
    assert n.sum() == correct.size
    assert n["correct"] == correct.sum() > 0
    other = ErrorAnalysis(y, model.predict(X), X, confidences=(correct, sure))
    assert other.errors.equals(analysis.errors)
    labels = [[tag[-1] for tag in tags] for tags in y]
    model = _tagger().fit(X, labels)
    right, sure = confidences(model, X, labels)
    by_node = ErrorAnalysis(labels, model.predict(X), X, confidences=sure).by_confidence
    assert by_node[["correct", "confused"]].to_numpy().sum() == right.size


# How it is shown


def test_html_is_escaped_and_text_aligned():
    truth, guess = [["B-<i>", "O"]], [["O", "B-&"]]
    analysis = ErrorAnalysis(truth, guess, [["<script>", 'a"b']])
    html = analysis._repr_html_()
    for text in ("&lt;i&gt;", "&lt;script&gt;", "&amp;", "a&quot;b"):
        assert f"<td>{text}</td>" in html
    assert "<script" not in html
    assert "<i>" not in html
    lines = repr(ErrorAnalysis(TRUTH, GUESS, WORDS)).splitlines()
    assert lines[0] == (
        "ErrorAnalysis of chunks: correct 1, wrong boundary 1, wrong type 1, missed 1, made up 2; "
        "samples 2"
    )
    assert lines[1].split("  ")[:2] == ["type", "correct"]
    assert len({*map(len, lines[1:])}) == 1
    assert len(lines) == 5
    assert "nan" not in ErrorAnalysis(TRUTH, GUESS)._repr_html_().lower()
    assert repr(ErrorAnalysis([["O"]], [["O"]])).startswith("ErrorAnalysis of chunks: correct 0;")


def test_bars_are_the_numbers_of_the_summary():
    analysis = ErrorAnalysis(TRUTH, GUESS, WORDS)
    ax = Figure().subplots()
    assert analysis.plot(ax) is analysis
    assert analysis.ax_ is ax
    assert analysis.figure_ is ax.figure
    drawn = {bars.get_label(): [bar.get_width() for bar in bars] for bars in ax.containers}
    assert drawn == {kind: analysis.summary[kind].tolist() for kind in KINDS[1:]}
    lefts = [[bar.get_x() for bar in bars] for bars in ax.containers]
    assert lefts == np.cumsum([[0, 0, 0], *drawn.values()], axis=0)[:-1].tolist()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["PER", "LOC", "ORG"]
    ax = ErrorAnalysis([["D", "N"]], [["D", "V"]]).plot(Figure().subplots()).ax_
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["N → V"]
    ErrorAnalysis(TRUTH, TRUTH).plot(Figure().subplots())
    ax = ErrorAnalysis([["B-PER"]], [["O"]]).plot(Figure().subplots()).ax_
    assert ax.get_xlim()[1] > 1  # beyond the bar's end


def test_tables_are_arrays_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    analysis = ErrorAnalysis(TRUTH, GUESS, WORDS, known=["Ann"], confidences=np.full(5, 0.5))
    assert analysis.errors["kind"].tolist()[:2] == ["wrong boundary", "wrong type"]
    assert analysis.errors["true"].tolist() == ["PER", "LOC", None, None, "PER"]
    assert analysis.summary["missed"].sum() == 1
    assert analysis.by_known["known"].tolist() == [False]
    assert analysis.by_confidence["confidence"].tolist() == ["0.5-0.6"]
    assert analysis.worst(1)["errors"].tolist() == [3]
    assert ErrorAnalysis(TRUTH, TRUTH).errors.size == 0


# Bad input


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"y_pred": GUESS[:1]}, ValueError, "y_true has 2 samples, y_pred has 1"),
        ({"y_pred": [GUESS[0], ["O"]]}, ValueError, "sample 1: y_true has 3 labels, y_pred has 1"),
        ({"X": WORDS[:1]}, ValueError, "X has 1 samples, y_true has 2"),
        ({"X": [WORDS[0], ["a"]]}, ValueError, "X: sample 1 has 1 words, y has 3 nodes"),
        ({"X": [WORDS[0], ["a"] * 4]}, ValueError, "X: sample 1 has 4 words, y has 3 nodes"),
        (
            {"y_true": [[(0, 2, "A")]], "y_pred": [[(1, 4, "A")]], "X": [["a"] * 3]},
            ValueError,
            "X: sample 0 has 3 words, y has 4 nodes",
        ),
        ({"X": pd.DataFrame({"w": ["a"]})}, TypeError, "X must be a list of samples, got a DataF"),
        ({"scheme": "iob3"}, ValueError, "scheme must be .*got 'iob3'"),
        ({"scheme": "bio", "y_true": [["a"]], "y_pred": [["a"]]}, ValueError, "'a'"),
        ({"known": ["a"], "X": None}, ValueError, "known: X has no words"),
        ({"known": "a b"}, TypeError, "known must hold words, or sequences"),
        ({"known": [1, 2]}, TypeError, "known must hold words, or sequences"),
        ({"known": 5}, TypeError, "known must hold words, or sequences"),
        ({"confidences": 0.5}, TypeError, "confidences must hold probabilities, got 0.5"),
        ({"confidences": ["a"]}, TypeError, "confidences must hold probabilities, got"),
        ({"confidences": ()}, ValueError, "has 0 numbers, but there are 5 predicted chunks"),
        ({"confidences": [0.5]}, ValueError, "has 1 numbers, but there are 5 predicted chunks"),
        ({"confidences": [0.5] * 4 + [2.0]}, ValueError, "probabilities from 0 to 1"),
        ({"confidences": [0.5] * 4 + [np.nan]}, ValueError, "probabilities from 0 to 1"),
    ],
)
def test_bad_input_is_named(options, error, match):
    given = {"y_true": TRUTH, "y_pred": GUESS, "X": WORDS} | options
    with pytest.raises(error, match=match):
        ErrorAnalysis(**given)


def test_known_samples_may_be_empty():
    known = ErrorAnalysis(TRUTH, GUESS, WORDS, known=[[], WORDS[1]]).by_known
    assert known["known"].tolist() == [False, True]


def test_tables_that_lack_their_input_say_so():
    analysis = ErrorAnalysis(TRUTH, GUESS, WORDS)
    with pytest.raises(AttributeError, match="by_known needs words"):
        analysis.by_known  # noqa: B018
    with pytest.raises(AttributeError, match="by_confidence needs"):
        analysis.by_confidence  # noqa: B018
    for k in (0, True, 1.0):
        with pytest.raises(ValueError, match="k must be an integer of at least 1"):
            analysis.worst(k)


# Predictions as tables


def test_predictions_have_tokens_labels_and_their_marginals():
    X = [WORDS[0], [], WORDS[1]]
    model = _tagger().fit(WORDS * 3, TRUTH * 3)
    frame = prediction_frame(model, X)
    assert frame.columns.tolist() == ["sample", "node", "token", "label", "probability"]
    assert frame["sample"].tolist() == [0] * 6 + [2] * 3
    assert frame["node"].tolist() == [*range(6), *range(3)]
    assert frame["token"].tolist() == WORDS[0] + WORDS[1]
    assert frame["label"].tolist() == [tag for own in model.predict(X) for tag in own]
    marginals = np.vstack([*model.predict_marginals(X)])
    codes = np.searchsorted(model[-1].classes_, frame["label"].to_numpy(dtype=str))
    np.testing.assert_array_equal(frame["probability"], marginals[np.arange(9), codes])
    assert len(prediction_frame(model, [])) == 0
    svm = _tagger(BCFWSSVM).fit(WORDS * 3, TRUTH * 3)
    assert prediction_frame(svm, X).columns.tolist() == ["sample", "node", "token", "label"]
    rows = model[0].transform(WORDS)
    same = prediction_frame(model, WORDS).drop(columns="token")
    assert prediction_frame(model[-1], rows).equals(same)


@pytest.mark.parametrize("estimator", [SAGCRF, BCFWSSVM])
def test_predictions_of_nodes_of_types_are_named(estimator):
    graph = Pairwise(node_types=["word", "page"])
    words, edges = np.eye(3)[[0, 1, 2, 2]], {("word", "page"): np.array([[0, 0], [3, 0]])}
    X = [{"nodes": {"word": words, "page": np.eye(2)[[k % 2]]}, "edges": edges} for k in range(6)]
    y = [{"word": list("abcc"), "page": [k % 2]} for k in range(6)]
    model = estimator(graph, random_state=0, tol=0.1).fit(X, y)
    frame = prediction_frame(model, X)
    predicted = model.predict(X)
    for k in range(6):
        for kind in ("word", "page"):
            here = frame[(frame["sample"] == k) & (frame["type"] == kind)]
            assert here["node"].tolist() == [*range(len(y[k][kind]))]
            assert here["label"].tolist() == predicted[k][kind].tolist()
    if estimator is SAGCRF:
        marginals = model.predict_marginals(X)
        most = [own[kind].max(axis=1) for own in marginals for kind in ("word", "page")]
        np.testing.assert_array_equal(frame["probability"], np.concatenate(most))
    assert len(prediction_frame(model, [])) == 0


def test_predictions_of_images_go_row_by_row():
    X = [np.eye(2)[[[0, 1, 1], [1, 0, 0]]], np.eye(2)[[[0], [1]]]]
    y = [np.array([[5, 7, 7], [7, 5, 5]]), np.array([[5], [7]])]
    model = SAGCRF(Grid(inference="junction-tree"), random_state=0, C=10).fit(X, y)
    frame = prediction_frame(model, X)
    assert frame["node"].tolist() == [*range(6), 0, 1]
    assert frame["label"].tolist() == [5, 7, 7, 7, 5, 5, 5, 7]
    marginals = np.vstack([one.reshape(-1, 2) for one in model.predict_marginals(X)])
    np.testing.assert_array_equal(frame["probability"], marginals.max(axis=1))


@pytest.mark.parametrize("graph", [MultiClass(), MultiLabel(), Candidates()], ids=str)
def test_predictions_that_are_not_labels_of_nodes_are_refused(graph):
    X, y = graph.example(np.random.default_rng(0), False)
    model = SAGCRF(graph, solver="lbfgs").fit(X, y)
    with pytest.raises(TypeError, match="not labels of nodes"):
        prediction_frame(model, X)


def test_segments_are_refused_as_rows_of_nodes():
    X, y = [np.eye(3)] * 2, [[(0, 2, "A"), (2, 3, "B")]] * 2
    model = SAGCRF(SemiChain(), max_iter=5, solver="lbfgs").fit(X, y)
    with pytest.raises(TypeError, match="not labels of nodes"):
        prediction_frame(model, X)


def test_words_of_samples():
    token = SimpleNamespace(text="x")
    assert tables._words([token, token]) == ["x", "x"]
    assert tables._words(np.ones((3, 2))) is None
    assert tables._words([{"a": 1}]) is None
    assert tables._words([]) is None
    assert tables._words(3) is None
