"""Metrics of confidences, against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.metrics import (
    error_recall_at_review,
    expected_calibration_error,
    precision_at_coverage,
)

_PREDICTIONS = st.lists(st.tuples(st.booleans(), st.floats(0.0, 1.0)), min_size=1, max_size=30)


@given(_PREDICTIONS, st.integers(1, 12))
def test_calibration_error_is_the_mean_over_bins(predictions, n_bins):
    correct, confidence = map(np.array, zip(*predictions, strict=True))
    expected = 0.0
    for b in range(n_bins):
        last = b == n_bins - 1
        inside = (confidence * n_bins >= b) & ((confidence * n_bins < b + 1) | last)
        if inside.any():
            gap = correct[inside].mean() - confidence[inside].mean()
            expected += inside.mean() * abs(gap)
    assert expected_calibration_error(correct, confidence, n_bins=n_bins) == pytest.approx(expected)


@given(_PREDICTIONS, st.floats(0.01, 1.0))
def test_what_is_kept_and_what_is_reviewed(predictions, share):
    correct, confidence = map(np.array, zip(*predictions, strict=True))
    n = max(round(share * correct.size), 1)
    order = sorted(range(correct.size), key=lambda i: confidence[i])
    found = error_recall_at_review(correct, confidence, share)
    n_errors = (~correct).sum()
    assert found == (0 if n_errors else n_errors + 1) or found == pytest.approx(
        (~correct[order[:n]]).sum() / max(n_errors, 1)
    )
    kept = sorted(range(correct.size), key=lambda i: -confidence[i])[:n]
    assert precision_at_coverage(correct, confidence, share) == pytest.approx(correct[kept].mean())


@pytest.mark.parametrize(
    ("correct", "confidence", "message"),
    [
        ([], [], "empty"),
        ([True], [1.5], "probabilities"),
        ([True], [np.nan], "probabilities"),
        ([2], [0.5], "booleans"),
        ([[True]], [[0.5]], "1-D"),
        ([True, False], [0.5], "inconsistent"),
    ],
)
def test_bad_input_is_refused(correct, confidence, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(correct, confidence)


@pytest.mark.parametrize("share", [0.0, 1.5, np.nan, True])
def test_shares_are_above_0_and_at_most_1(share):
    with pytest.raises(ValueError, match="coverage"):
        precision_at_coverage([True], [0.5], share)
    with pytest.raises(ValueError, match="review"):
        error_recall_at_review([True], [0.5], share)
