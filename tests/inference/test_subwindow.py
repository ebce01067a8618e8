"""Branch and bound, and efficient subwindow search, against enumeration."""

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.core.jit.dispatch import kernel
from skstruct.inference.branch_and_bound import best_members, bound, is_single, split
from skstruct.inference.subwindow import (
    load_weights,
    make_subwindows,
    subwindow_search,
    whole_image,
)


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


@pytest.mark.parametrize(
    "weights",
    [[[0.0, np.nan]], [[np.inf]], [1.0, 2.0], [[]], [["a"]], [[1j]], [[1.0], [2.0, 3.0]], None],
)
def test_weights_that_are_none(weights):
    with pytest.raises(ValueError, match="weights must be finite"):
        subwindow_search(weights)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        *((name, 0, ValueError) for name in ("n_best", "stride", "min_size", "capacity")),
        *((name, 1.0, TypeError) for name in ("n_best", "stride", "min_size", "capacity")),
        ("stride", True, TypeError),
        ("max_expansions", -1, ValueError),
        ("max_expansions", "a", TypeError),
        ("true_box", (0, 0, 1), TypeError),
        ("true_box", (0.5, 0, 1, 1), TypeError),
        ("true_box", 3, TypeError),
        ("true_box", [(0, 0), 1, 1], TypeError),
        ("true_box", (0, 0, 0, 1), ValueError),
        ("true_box", (0, 0, 4, 1), ValueError),
        ("true_box", (-1, 0, 1, 1), ValueError),
    ],
)
def test_options_that_are_none(name, value, error):
    with pytest.raises(error, match=f"^{name} must be"):
        subwindow_search(np.ones((2, 3)), **{name: value})
    if name in ("n_best", "max_expansions", "capacity"):
        space = make_subwindows(2, 3)
        with pytest.raises(error, match=f"^{name} must be"):
            best_members(space, whole_image(space), **{name: value})


def test_strides_and_boxes_beyond_the_image():
    weights = np.array([[-1.0, 2.0, 1.0], [0.5, 2.0, -3.0]])
    assert subwindow_search(weights, stride=10**20).boxes.tolist() == [[0, 0, 3, 2]]
    assert subwindow_search(weights, min_size=10**20).boxes.shape == (0, 4)
    assert subwindow_search(weights, max_expansions=0).rest >= 4.0


# Another space: sets of things that fit into a bag. A subset is (how many things are decided on,
# bits of those taken); the members are the complete ones.


class Bag(NamedTuple):
    """Things to pack."""

    value: np.ndarray
    weight: np.ndarray
    room: np.ndarray


@bound.register(Bag)
@kernel
def _(space, subset):
    value, weight = 0.0, 0.0
    for j in range(space.value.shape[0]):
        if j < subset[0] and subset[1] >> j & 1:
            value += space.value[j]
            weight += space.weight[j]
        elif j >= subset[0]:
            value += max(space.value[j], 0.0)
    return value if weight <= space.room[0] else -np.inf


@split.register(Bag)
@kernel
def _(space, subset, other):
    other[0], other[1] = subset[0] + 1, subset[1] | 1 << subset[0]
    subset[0] += 1


@is_single.register(Bag)
@kernel
def _(space, subset):
    return subset[0] == space.value.shape[0]


@given(
    st.lists(st.tuples(st.integers(-2, 5), st.integers(0, 4)), min_size=1, max_size=7),
    st.integers(0, 10),
    st.integers(1, 4),
    st.sampled_from([2, 100]),
)
def test_any_space_with_bounds_is_searched(things, room, n_best, capacity):
    value, weight = np.array(things, dtype=float).T.copy()
    space = Bag(value, weight, np.array([float(room)]))
    choices = list(product([0, 1], repeat=len(things)))
    packed = sorted((value @ c for c in choices if weight @ c <= room), reverse=True)
    members, scores, rest = best_members(space, [0, 0], n_best, capacity=capacity)
    assert rest == -np.inf
    np.testing.assert_allclose(scores, packed[:n_best])
    assert len({tuple(row) for row in members.tolist()}) == len(scores)
    for (n, bits), score in zip(members.tolist(), scores, strict=True):
        taken = [bits >> j & 1 for j in range(n)]
        assert n == len(things)
        assert weight @ taken <= room
        assert value @ taken == score
    # This space has no members at hand: a search that is cut at once has found nothing.
    _, none, rest = best_members(space, [0, 0], max_expansions=0)
    assert none.size == 0
    assert rest >= packed[0]


def test_a_set_may_be_searched_in_part():
    space = make_subwindows(3, 3)
    load_weights(space, np.arange(9.0).reshape(3, 3) - 3.5)
    root = whole_image(space)
    root[:2] = 0  # boxes that begin above
    members, scores, _ = best_members(space, root)
    assert scores.tolist() == [6.0]
    assert members[0, [0, 3, 4, 7]].tolist() == [0, 3, 1, 3]
