"""Efficient subwindow search against enumeration."""

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skstruct.inference.subwindow import (
    BOUNDED,
    LOSS,
    OVERLAP,
    TRUE_RIGHT,
    TRUE_TOP,
    best_boxes,
    make_frontier,
    make_subwindows,
    set_lines,
)


class FoundBoxes(NamedTuple):
    """What a search has found."""

    boxes: np.ndarray
    scores: np.ndarray
    rest: float
    n_bounded: int


def subwindow_search(
    weights, n_best=1, *, min_size=1, stride=1, true_box=None, max_expansions=-1, capacity=1 << 15
):
    """The best boxes (xmin, ymin, xmax, ymax) of an array of weights."""
    weights = np.asarray(weights, dtype=float)
    rows, columns = (np.arange(0, side, stride) for side in weights.shape)
    cells = np.add.reduceat(np.add.reduceat(weights, rows, axis=0), columns, axis=1)
    space = make_subwindows(*cells.shape)
    set_lines(space, *weights.shape, stride, min_size)
    space.weights[:] = cells.ravel()
    if true_box is not None:
        space.task[LOSS] = OVERLAP
        space.task[TRUE_TOP : TRUE_RIGHT + 1] = np.asarray(true_box)[[1, 0, 3, 2]]
    frontier, values = make_frontier(n_best, capacity), np.empty(n_best)
    rest = best_boxes(space, frontier, values, max_expansions)
    found = frontier.found[np.isfinite(values)]
    left, right = space.columns[found[:, 4]], space.columns[found[:, 7]]
    boxes = np.stack([left, space.rows[found[:, 0]], right, space.rows[found[:, 3]]], axis=1)
    return FoundBoxes(boxes, values[np.isfinite(values)], rest, int(frontier.counts[BOUNDED]))


def lines(size, stride):
    return [*range(0, size, stride), size]


def iou(first, second):
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    both = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return both / (sum(areas) - both)


def enumerate_boxes(weights, stride, min_size, true_box):
    """The score of every box."""
    rows, columns = (combinations(lines(size, stride), 2) for size in weights.shape)
    scores = {}
    for (top, bottom), (left, right) in product(rows, columns):
        if min(bottom - top, right - left) >= min_size:
            box = left, top, right, bottom
            loss = 0.0 if true_box is None else 1.0 - iou(box, true_box)
            scores[box] = weights[top:bottom, left:right].sum() + loss
    return scores


@st.composite
def searches(draw):
    height, width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    # Small integers tie; at scale 0 all boxes do, but for the loss.
    scale = draw(st.sampled_from([0.0, 0.1, 1.0]))
    numbers = st.lists(st.integers(-3, 3), min_size=height * width, max_size=height * width)
    weights = scale * np.array(draw(numbers), dtype=float).reshape(height, width)
    options = {
        "stride": draw(st.integers(1, 4)),
        "min_size": draw(st.integers(1, min(height, width))),
        "true_box": None,
    }
    if draw(st.booleans()):
        left, right = sorted(draw(st.sets(st.integers(0, width), min_size=2, max_size=2)))
        top, bottom = sorted(draw(st.sets(st.integers(0, height), min_size=2, max_size=2)))
        options["true_box"] = left, top, right, bottom
    return weights, options


@given(searches(), st.integers(1, 5), st.sampled_from([2, 3, 7, 1000]))
def test_the_best_boxes_are_those_of_enumeration(search, n_best, capacity):
    # With room for two sets nearly all of the search goes depth first.
    weights, options = search
    scores = enumerate_boxes(weights, **options)
    found = subwindow_search(weights, n_best, capacity=capacity, **options)
    assert found.rest == -np.inf
    expected = sorted(scores.values(), reverse=True)[:n_best]
    np.testing.assert_allclose(found.scores, expected, atol=1e-12)
    boxes = [tuple(box) for box in found.boxes.tolist()]
    assert len(set(boxes)) == len(expected)
    np.testing.assert_allclose([scores[box] for box in boxes], expected, atol=1e-12)


@given(searches(), st.integers(1, 3), st.integers(1, 4), st.sampled_from([2, 1000]))
def test_a_search_that_is_cut_says_how_far_off_it_may_be(search, n_best, limit, capacity):
    weights, options = search
    scores = enumerate_boxes(weights, **options)
    best = sorted(scores.values(), reverse=True)
    found = subwindow_search(weights, n_best, max_expansions=limit, capacity=capacity, **options)
    boxes = [tuple(box) for box in found.boxes.tolist()]
    assert 1 <= len(boxes) == len(set(boxes)) <= n_best
    np.testing.assert_allclose(found.scores, [scores[box] for box in boxes], atol=1e-12)
    if found.rest == -np.inf:
        np.testing.assert_allclose(found.scores, best[:n_best], atol=1e-12)
        return
    assert len(boxes) < n_best or found.rest > found.scores[-1]
    unseen = [score for box, score in scores.items() if box not in boxes]
    assert max(unseen, default=-np.inf) <= max(found.rest, found.scores[-1]) + 1e-12


def test_a_limit_cuts_and_a_larger_one_does_not():
    weights = np.random.default_rng(0).normal(size=(24, 24))
    best = subwindow_search(weights)
    cut = subwindow_search(weights, max_expansions=3)
    assert cut.rest >= best.scores[0] >= cut.scores[0]
    assert best.rest == -np.inf < cut.rest
    again = subwindow_search(weights, max_expansions=10**6)
    assert again.rest == -np.inf
    assert again.boxes.tolist() == best.boxes.tolist()


def test_few_boxes_of_a_large_image_are_looked_at():
    rng = np.random.default_rng(1)
    weights = rng.normal(-0.4, 1.0, size=(128, 128))
    weights[30:80, 50:100] += 0.8
    found = subwindow_search(weights, true_box=(50, 30, 100, 80))
    assert found.n_bounded < 0.01 * (128 * 129 / 2) ** 2
    assert iou(found.boxes[0], (50, 30, 100, 80)) > 0.8
    few = subwindow_search(weights, true_box=(50, 30, 100, 80), capacity=50)
    assert few.rest == -np.inf
    np.testing.assert_allclose(few.scores, found.scores)


def test_strides_and_boxes_beyond_the_image():
    weights = np.array([[-1.0, 2.0, 1.0], [0.5, 2.0, -3.0]])
    assert subwindow_search(weights, stride=3).boxes.tolist() == [[0, 0, 3, 2]]
    assert subwindow_search(weights, min_size=4).boxes.shape == (0, 4)
    assert subwindow_search(weights, max_expansions=0).rest >= 4.0
