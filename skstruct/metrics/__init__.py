"""Metrics of structured predictions: nodes, whole sequences, chunks, links of words, boxes."""

from sklearn.metrics import accuracy_score, f1_score, make_scorer

from .calibration import (
    confidences,
    error_recall_at_review,
    expected_calibration_error,
    precision_at_coverage,
)
from .chunks import (
    chunk_classification_report,
    chunk_f1_score,
    chunk_fbeta_score,
    chunk_offsets,
    chunk_precision_recall_fscore_support,
    chunk_precision_score,
    chunk_recall_score,
    chunk_tags,
    chunks,
)
from .items import alignment_error_rate, average_precision, corloc_score, iou
from .nodes import flatten, score_of_nodes, sequence_accuracy_score

__all__ = [
    "SCORERS",
    "alignment_error_rate",
    "average_precision",
    "chunk_classification_report",
    "chunk_f1_score",
    "chunk_fbeta_score",
    "chunk_offsets",
    "chunk_precision_recall_fscore_support",
    "chunk_precision_score",
    "chunk_recall_score",
    "chunk_tags",
    "chunks",
    "confidences",
    "corloc_score",
    "error_recall_at_review",
    "expected_calibration_error",
    "flatten",
    "iou",
    "precision_at_coverage",
    "sequence_accuracy_score",
]

#: Scorers for ``scoring=``: ``GridSearchCV(..., scoring=SCORERS["chunk_f1"])``, or the whole dict
#: in ``cross_validate``. "node_f1" weighs labels by their number, "node_f1_macro" does not; chunks
#: are those of conlleval, all kinds together.
#:
#: See Also
#: --------
#: skstruct.metrics.chunk_f1_score : F1 of chunks.
#: skstruct.metrics.flatten : Labels of nodes, for other metrics of single labels.
#: skstruct.metrics.sequence_accuracy_score : Fraction of samples without an error.
#:
#: Examples
#: --------
#: >>> from sklearn.model_selection import GridSearchCV
#: >>> from skstruct import SAGCRF
#: >>> from skstruct.metrics import SCORERS
#: >>> search = GridSearchCV(SAGCRF(), {"C": [0.1, 1.0]}, scoring=SCORERS["chunk_f1"])
#: >>> sorted(SCORERS)[:3]
#: ['chunk_f1', 'chunk_precision', 'chunk_recall']
SCORERS = {
    "node_accuracy": make_scorer(score_of_nodes, score=accuracy_score),
    "node_f1": make_scorer(score_of_nodes, score=f1_score, average="weighted"),
    "node_f1_macro": make_scorer(score_of_nodes, score=f1_score, average="macro"),
    "sequence_accuracy": make_scorer(sequence_accuracy_score),
    "chunk_precision": make_scorer(chunk_precision_score),
    "chunk_recall": make_scorer(chunk_recall_score),
    "chunk_f1": make_scorer(chunk_f1_score),
}
