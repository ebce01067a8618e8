"""Metrics against seqeval, against a conlleval of its own rules, and by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_validate

from skstruct import SAGCRF, RaggedArray
from skstruct.metrics import (
    SCORERS,
    chunk_f1,
    chunk_report,
    chunk_scores,
    chunks,
    node_accuracy,
    node_f1,
    sequence_accuracy,
)

seqeval_metrics = pytest.importorskip("seqeval.metrics")
seqeval_scheme = pytest.importorskip("seqeval.scheme")

TAGS = {"iob1": "IB", "iob2": "IB", "ioe1": "IE", "ioe2": "IE", "iobes": "IBES"}


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
        ours = chunk_scores(y, predicted, average=average)
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
    np.testing.assert_allclose(chunk_f1(y, predicted, scheme=scheme), theirs, rtol=1e-12)


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
    table = chunk_report(y, predicted, output_dict=True)
    assert table["NP"] == {"precision": 1.0, "recall": 1.0, "f1-score": 1.0, "support": 2.0}
    assert table["VP"]["f1-score"] == 0.0
    np.testing.assert_allclose(table["micro avg"]["precision"], 2 / 3)
    text = chunk_report(y, predicted)
    assert "weighted avg" in text
    assert text.splitlines()[2].split() == ["NP", "1.00", "1.00", "1.00", "2"]


def test_node_and_sequence_metrics_by_hand():
    y, predicted = [["a", "b", "a"], ["b"]], [["a", "a", "a"], ["b"]]
    assert node_accuracy(y, predicted) == 0.75
    assert sequence_accuracy(y, predicted) == 0.5
    np.testing.assert_allclose(node_accuracy(y, predicted, sample_weight=[0, 2]), 1.0)
    np.testing.assert_allclose(sequence_accuracy(y, predicted, sample_weight=[3, 1]), 0.25)
    np.testing.assert_allclose(node_f1(y, predicted, average="macro"), (0.8 + 2 / 3) / 2)
    weighted = chunk_f1([["B-x"], ["B-x"]], [["B-x"], ["O"]], sample_weight=[3.0, 1.0])
    np.testing.assert_allclose(weighted, 6 / 7)


def test_every_ragged_form():
    y = [np.array(["B-x", "O"]), np.array(["O"])]
    forms = [y, RaggedArray.from_list(y), pd.Series(y, index=[5, 9]), [list(row) for row in y]]
    assert {chunk_f1(a, b) for a in forms for b in forms} == {1.0}
    square = np.array([["B-x", "O"], ["O", "O"]])
    assert chunk_f1(square, list(square)) == 1.0


def test_errors_name_the_sample():
    with pytest.raises(ValueError, match="sample 1: y_true has 2 labels, y_pred has 1"):
        node_accuracy([["a"], ["a", "b"]], [["a"], ["a"]])
    with pytest.raises(ValueError, match="y_true has 2 samples, y_pred has 1"):
        chunk_f1([["a"], ["b"]], [["a"]])
    with pytest.raises(ValueError, match="unknown scheme 'iob3'"):
        chunks(["O"], scheme="iob3")
    with pytest.raises(ValueError, match="label 'E-x' at node 1 is not of the scheme 'iob2'"):
        chunks(["O", "E-x"], scheme="iob2")
    with pytest.raises(ValueError, match="average must be"):
        chunk_f1([["O"]], [["O"]], average="samples")
    with pytest.raises(ValueError, match="sample_weight must be of shape"):
        node_accuracy([["a"]], [["a"]], sample_weight=[1, 2])
    with pytest.raises(ValueError, match="1-D"):
        node_accuracy([[["a"]]], [[["a"]]])


def test_scorers_work_in_cross_validation(sequences):
    X, y = sequences
    y = [np.char.add("B-", labels) for labels in y]
    found = cross_validate(
        SAGCRF(tol=1e-2, random_state=0), X, y, scoring=SCORERS, cv=3, error_score="raise"
    )
    np.testing.assert_allclose(found["test_chunk_f1"], found["test_node_accuracy"])
