"""Small worked examples of the internals of metrics."""

from skstruct.metrics.chunks import read_chunk_labels
from skstruct.metrics.validation import one_score


def test_chunking_read_chunk_labels():
    assert (read_chunk_labels(("B-NP", "O"))) == ["B-NP", "O"]


def test_scores_one_score():
    assert (one_score("recall", ["a", "b"], ["a", "a"], average="macro")) == 0.5
