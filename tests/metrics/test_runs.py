"""Chunks of labels without prefixes: runs of one label."""

import pytest

from skstruct.metrics import chunk_f1_score, chunks


def test_runs_are_chunks_of_labels_without_prefixes():
    assert chunks(["a", "a", "O", "b", "a"], "runs") == [(0, 2, "a"), (3, 4, "b"), (4, 5, "a")]
    assert chunks([1, 1, 2], "RUNS") == [(0, 2, 1), (2, 3, 2)]
    assert chunks([], "runs") == []
    y_true, y_pred = [["a", "a", "b"], ["b", "O"]], [["a", "b", "b"], ["b", "b"]]
    assert chunk_f1_score(y_true, y_pred, scheme="runs") == 0.0
    assert chunk_f1_score(y_true, y_true, scheme="runs") == 1.0
    # Of three true runs and two predicted ones, one agrees.
    assert chunk_f1_score([[1, 1, 2], [1]], [[1, 1, 1], [1]], scheme="runs") == pytest.approx(0.4)


def test_runs_next_to_missing_labels_do_not_count():
    y_true, y_pred = [["a", None, "b", "b", "O", "c"]], [["a", "a", "b", "b", "O", "c"]]
    assert chunk_f1_score(y_true, y_pred, scheme="runs") == 1.0
    assert chunk_f1_score(y_true, [["a", "a", "b", "b", "O", "O"]], scheme="runs") == 0.0
