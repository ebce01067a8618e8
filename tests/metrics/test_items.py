"""Metrics of links and of boxes: against plain counting, scikit-learn, and bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from skstruct.metrics import alignment_error_rate, average_precision, corloc_score, iou

BOX = [0.0, 0.0, 4.0, 4.0]


@given(seed=st.integers(0, 10_000), n=st.integers(1, 4))
def test_alignment_error_rate_counts_links(seed, n):
    rng = np.random.default_rng(seed)
    sure, possible, found = rng.integers(0, 2, size=(3, n, 3, 4)).astype(bool)
    sure[0, 0, 0] = True
    either = sure | possible
    a, s = found.sum(), sure.sum()
    expected = 1 - ((found & sure).sum() + (found & either).sum()) / (a + s)
    forms = list, lambda m: [np.argwhere(x) for x in m], lambda m: [np.argwhere(x)[::-1] for x in m]
    for form in forms:
        for may in (possible, either):
            args = form(sure), form(may), form(found)
            assert alignment_error_rate(*args) == pytest.approx(expected)
    doubled = [np.tile(np.argwhere(x), (2, 1)) for x in found]
    assert alignment_error_rate(sure, possible, doubled) == pytest.approx(expected)


def test_alignment_error_rate_at_its_ends():
    links = [[(0, 1), (2, 2)], []]
    assert alignment_error_rate(links, None, links) == 0.0
    assert alignment_error_rate(links, None, [[], [(0, 0)]]) == 1.0
    # Possible links are no error, and not missed either.
    assert alignment_error_rate(links, [[(1, 1)], []], [[(0, 1), (1, 1), (2, 2)], []]) == 0.0
    assert alignment_error_rate(links, [[(1, 1)], []], links) == 0.0


@pytest.mark.parametrize(
    ("sure", "possible", "predicted", "match"),
    [
        ([[(0, 0)]], None, [[(0, 0)], []], "sure has 1 samples, but predicted has 2"),
        ([[(0, 0)]], [[], []], [[(0, 0)]], "sure has 1 samples, but possible has 2"),
        ([[(0, 0, 1)]], None, [[(0, 0)]], "sure: sample 0 must be integers of shape"),
        ([[(0, 0)]], None, [[(0, 0.5)]], "predicted: sample 0 must be integers .* float64"),
        ([[(0, 0)]], [[(0, -1)]], [[(0, 0)]], "possible: sample 0 has a negative number"),
        ([[(0, 0)]], None, [[(0, 0), (1,)]], "predicted: sample 0: its links are not all of two"),
        ([[], []], None, [[], []], "neither sure nor predicted links"),
        ([], None, [], "sure is empty"),
    ],
)
def test_bad_links(sure, possible, predicted, match):
    with pytest.raises(ValueError, match=match):
        alignment_error_rate(sure, possible, predicted)


def _draw_boxes(rng, n):
    corner = rng.integers(0, 6, size=(n, 2))
    return np.concatenate([corner, corner + rng.integers(1, 6, size=(n, 2))], axis=1)


@given(seed=st.integers(0, 10_000))
def test_iou_counts_cells(seed):
    boxes = _draw_boxes(np.random.default_rng(seed), 2)
    cells = [
        {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])} for box in boxes
    ]
    expected = len(cells[0] & cells[1]) / len(cells[0] | cells[1])
    assert iou(boxes[0], boxes[1]) == pytest.approx(expected)
    assert iou(boxes, boxes[:1]) == pytest.approx([1.0, expected])


@pytest.mark.parametrize("scale", [2.0**900, 2.0**-900])
def test_iou_of_any_scale(scale):
    first, second = (
        np.array([[0, 0, 2, 3.0]]),
        np.array([[1, 0, 3, 3.0], [0, 1, 2, 3], [5, 5, 6, 6]]),
    )
    np.testing.assert_array_equal(iou(first * scale, second * scale), iou(first, second))
    # Thin boxes that cross: the areas of both are lost beside that of a square.
    assert iou([0, 0, 1e300, 1e-300], [0, 0, 1e-300, 1e300])[0] == 0.0


def test_corloc_takes_any_true_box():
    truth = [[BOX, [10, 10, 20, 20]], [BOX]]
    assert corloc_score(truth, [[10, 10, 20, 19], BOX]) == 1.0
    assert corloc_score(truth, [[10, 10, 20, 14], BOX]) == 0.5
    assert corloc_score(truth, [[10, 10, 20, 14], BOX], threshold=0.4) == 1.0
    assert corloc_score(np.array([BOX, BOX]), np.array([BOX, BOX])) == 1.0


@given(seed=st.integers(0, 10_000), n=st.integers(1, 8), ties=st.booleans())
def test_average_precision_is_that_of_sklearn_where_all_boxes_are_found(seed, n, ties):
    rng = np.random.default_rng(seed)
    # Far apart, so that each detection is of one box; those without a box are wrong.
    corner = np.column_stack([20.0 * np.arange(n), np.zeros(n)])
    boxes = np.hstack([corner, corner + rng.integers(3, 9, size=(n, 1))])
    right = rng.random(n) < 0.6
    right[rng.integers(n)] = True
    scores = rng.integers(0, 3, size=n).astype(float) if ties else rng.normal(size=n)
    image = rng.integers(0, 3, size=n)
    truth = [boxes[right & (image == i)] for i in range(3)]
    found = [boxes[image == i] + [0, 0, 1, 1] for i in range(3)]
    ranked = [scores[image == i] for i in range(3)]
    expected = average_precision_score(right, scores)
    assert average_precision(truth, found, ranked, threshold=0.3) == pytest.approx(expected)
    # A box that is never found takes its share of the recall away.
    truth[0] = np.concatenate([truth[0], [[-9, -9, -5, -5]]])
    share = right.sum() / (right.sum() + 1)
    assert average_precision(truth, found, ranked, threshold=0.3) == pytest.approx(share * expected)


def test_a_true_box_is_found_once():
    found = [[BOX, [0, 0, 4, 3]]]
    assert average_precision([[BOX]], found, [[1.0, 2.0]]) == 1.0
    assert average_precision([[BOX]], found, [[1.0, 1.0]]) == 0.5
    # The better overlap counts, taken or not.
    truth = [[BOX, [0, 0, 4, 2.2]]]
    assert average_precision(truth, [[BOX, BOX]], [[2.0, 1.0]]) == 0.5
    assert average_precision([[BOX]], [[]], [[]]) == 0.0
    assert average_precision([BOX, BOX], [BOX, [5, 5, 6, 6]], [2.0, 1.0]) == 0.5


@pytest.mark.parametrize(
    ("measure", "args", "match"),
    [
        (iou, ([BOX] * 2, [BOX] * 3), "first has 2 boxes, but second has 3"),
        (iou, (BOX, [0, 0, 0, 1]), "second: box 0 is empty"),
        (iou, (BOX, [-1e301, 0, 1e301, 1]), "second have a value that is not finite or beyond"),
        (iou, ([0, 0, 1], BOX), r"first must have the shape \(n_boxes, 4\)"),
        (corloc_score, ([BOX], [BOX, BOX]), r"y_pred must have the shape \(1, 4\), got \(2, 4\)"),
        (corloc_score, ([[BOX], []], [BOX, BOX]), "y_true: image 1 has no box"),
        (corloc_score, ([[BOX], [[0, 0, 1]]], [BOX, BOX]), "y_true: image 1: its boxes must have"),
        (average_precision, ([[BOX]], [[BOX], []], [[1.0], []]), "1 images, but y_pred has 2"),
        (average_precision, ([[BOX]], [[BOX]], [[1.0], []]), "1 images, but y_score has 2"),
        (average_precision, ([[BOX]], [[BOX]], [[1.0, 2.0]]), "y_score: image 0 must have 1 score"),
        (average_precision, ([[BOX]], [[BOX]], [[np.nan]]), "y_score: image 0 has a score that is"),
        (average_precision, ([[BOX]], [[BOX]], [["a"]]), "y_score: image 0 has a score that is no"),
        (average_precision, ([[]], [[BOX]], [[1.0]]), "y_true has no box"),
        (average_precision, ([[BOX]], [[BOX, [1, 1]]], [[1.0, 2]]), "y_pred: image 0: its boxes"),
    ],
)
def test_bad_boxes(measure, args, match):
    with pytest.raises(ValueError, match=match):
        measure(*args)


@pytest.mark.parametrize("threshold", [0.0, 1.5, np.nan, "half"])
def test_bad_thresholds(threshold):
    with pytest.raises(ValueError, match="threshold must be above 0 and at most 1"):
        corloc_score([BOX], [BOX], threshold=threshold)
    with pytest.raises(ValueError, match="threshold must be above 0 and at most 1"):
        average_precision([BOX], [BOX], [1.0], threshold=threshold)
