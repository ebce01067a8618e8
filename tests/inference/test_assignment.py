"""Assignments against enumeration and SciPy: values, ties, warm starts, max-marginals, k best."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from skstruct.inference.assignment import assignment, assignment_max_marginals, assignment_work
from skstruct.inference.best_assignments import best_assignments, best_assignments_work
from skstruct.inference.fertility import fertile_links, fertile_max_marginals, fertility_work

NONE = np.empty(0, dtype=np.uint8)

problems = given(
    n=st.integers(0, 4),
    m=st.integers(0, 4),
    null=st.booleans(),
    whole=st.booleans(),
    forbidden=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 10**6),
)


def _scores(rng, n, m, whole, forbidden):
    """Whole numbers, with many ties, or normal ones; some pairs forbidden."""
    drawn = rng.integers(-3, 4, size=(n, m)) if whole else rng.normal(size=(n, m))
    return np.where(rng.random((n, m)) < forbidden, -np.inf, drawn)


def _all_matches(scores, null):
    """Scores and targets of every source of every feasible assignment, lowest targets first."""
    n, m = scores.shape
    found = []
    for match in product(range(-1, m), repeat=n):
        linked = [(i, j) for i, j in enumerate(match) if j >= 0]
        if len({j for _, j in linked}) == len(linked) and (null or len(linked) == min(n, m)):
            value = sum(scores[pair] for pair in linked)
            if value > -np.inf:
                found.append((float(value), match))
    return found


def _solve(scores, null, price=None, match=None):
    n, m = scores.shape
    price = np.zeros(m) if price is None else price
    match = np.full(n, -1, dtype=np.int32) if match is None else match
    work = assignment_work(n, m)
    value = assignment(scores.ravel(), n, m, null, price, match, work)
    return value, match, price, work


def _check_links(scores, value, match, work):
    """The links have the score; the two directions agree."""
    rows = np.flatnonzero(match >= 0)
    assert value == pytest.approx(scores[rows, match[rows]].sum(), abs=1e-12)
    np.testing.assert_array_equal(work.mate[match[rows]], rows)
    assert np.count_nonzero(work.mate[: scores.shape[1]] >= 0) == rows.size


@problems
@example(n=4, m=1, null=False, whole=True, forbidden=0.0, seed=867)
@example(n=2, m=2, null=True, whole=True, forbidden=1.0, seed=0)
def test_any_start_gives_the_lowest_best_assignment(n, m, null, whole, forbidden, seed):
    rng = np.random.default_rng(seed)
    scores = _scores(rng, n, m, whole, forbidden)
    every = _all_matches(scores, null)
    best = max((value for value, _ in every), default=-np.inf)
    starts = np.zeros(m), rng.normal(size=m), rng.integers(-3, 4, size=m), rng.normal(size=m) * 1e9
    for start in (*starts, np.full(m, np.nan), np.full(m, np.inf)):
        hint = rng.integers(-2, m + 1, size=n).astype(np.int32)
        value, match, price, work = _solve(scores, null, start.astype(float), hint)
        assert value == pytest.approx(best, abs=1e-9)
        if not every:
            assert (match == -1).all()
            continue
        assert tuple(match) == next(m for v, m in every if v >= best - 1e-9)
        _check_links(scores, value, match, work)
        slack = work.u[:n, None] + price - scores
        assert slack.min(initial=0.0) > -1e-9
        if null or n != m:
            side = work.u[:n] if n > m else price
            assert side.min(initial=0.0) > -1e-9
        dual = work.u[:n].sum() + price.sum()
        assert dual == pytest.approx(best, abs=1e-6 if np.abs(start).max(initial=0) > 9 else 1e-9)


@given(n=st.integers(1, 40), m=st.integers(1, 40), seed=st.integers(0, 10**6), ties=st.booleans())
def test_equals_scipy_and_warm_equals_cold(n, m, seed, ties):
    rng = np.random.default_rng(seed)
    draw = (lambda: rng.integers(0, 9, size=(n, m)) * 1.0) if ties else lambda: rng.random((n, m))
    base = draw()
    price, hint = np.zeros(m), np.full(n, -1, dtype=np.int32)
    for step in (0.0, 1e-3, 0.0, 0.1, 1.0):
        scores = base + step * draw()
        rows, columns = linear_sum_assignment(scores, maximize=True)
        for null in (False, True):
            value, match, _, work = _solve(scores, null)
            assert value == pytest.approx(scores[rows, columns].sum())
            warm, again, _, _ = _solve(scores, null, price, hint)
            assert warm == value
            np.testing.assert_array_equal(again, match)
            _check_links(scores, value, match, work)


@given(n=st.integers(2, 12), m=st.integers(2, 12), seed=st.integers(0, 10**6), null=st.booleans())
def test_visits_after_single_changes_equal_cold_ones(n, m, seed, null):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, size=(n, m)) * 1.0
    price, hint = np.zeros(m), np.full(n, -1, dtype=np.int32)
    for step in range(25):
        change = (-np.inf, 1.0, -1.0, 1e-4 * rng.normal())[rng.integers(0 if null else 1, 4)]
        at = rng.integers(n), rng.integers(m)
        scores[at] = change + (scores[at] if scores[at] > -np.inf else 2.0)
        value, match, _, _ = _solve(scores, null)
        warm, again, _, work = _solve(scores, null, price, hint)
        np.testing.assert_array_equal(again, match, err_msg=f"step {step}")
        assert warm == value
        slack = work.u[:n, None] + price - scores
        assert slack.min() > -1e-12
        assert work.u[:n].sum() + price.sum() == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("large", [1e300, -1e300])
def test_large_scores_beside_small_and_forbidden_ones(large):
    scores = np.array([[large, 1.0, -np.inf], [2.0, large, 3.0], [-np.inf, 1.0, 2.0]])
    for null in (True, False):
        every = _all_matches(scores, null)
        value, match, price, work = _solve(scores, null)
        assert value == max(v for v, _ in every)
        assert np.isfinite(price).all()
        assert np.isfinite(work.u[:3]).all()
        _check_links(scores, value, match, work)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_no_numbers_show(wrong):
    scores = np.array([[1.0, wrong], [2.0, 3.0]])
    value, match, _, work = _solve(scores, True)
    assert np.isnan(value)
    assert (match == -1).all()
    best = np.zeros(8)
    start = scores.ravel(), 2, 2, True
    assert np.isnan(assignment_max_marginals(*start, np.zeros(2), match, work, best, best))
    assert np.isnan(best).all()
    values, matches = np.zeros(3), np.zeros((3, 2), dtype=np.int32)
    best_assignments(*start, values, matches, best_assignments_work(2, 2, 3))
    assert np.isnan(values).all()
    assert (matches == -1).all()
    links = np.ones(4, dtype=np.int32)
    assert np.isnan(fertile_links(*start, 2, NONE, links, fertility_work(2, 2)))
    assert not links.any()


@problems
def test_max_marginals_equal_solving_with_each_pair_forced(n, m, null, whole, forbidden, seed):
    rng = np.random.default_rng(seed)
    scores = _scores(rng, n, m, whole, forbidden)
    expected = np.full((n, m, 2), -np.inf)
    for value, match in _all_matches(scores, null):
        on = np.asarray(match, dtype=int)[:, None] == np.arange(m)
        for state, mask in enumerate((~on, on)):
            expected[..., state][mask] = np.maximum(expected[..., state][mask], value)
    best, detour = np.empty(2 * n * m), np.empty((n + 1) ** 2)
    match, price = np.full(n, -1, dtype=np.int32), rng.normal(size=m)
    work = assignment_work(n, m)
    value = assignment_max_marginals(scores.ravel(), n, m, null, price, match, work, best, detour)
    assert value == pytest.approx(_solve(scores, null)[0], rel=1e-12)  # other prices, other sums
    np.testing.assert_allclose(best.reshape(n, m, 2), expected, atol=1e-9)


@given(n=st.integers(1, 12), m=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_max_marginals_of_larger_problems(n, m, seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, m))
    best, match = np.empty(2 * n * m), np.full(n, -1, dtype=np.int32)
    work, detour = assignment_work(n, m), np.empty((n + 1) ** 2)
    assignment_max_marginals(scores.ravel(), n, m, True, np.zeros(m), match, work, best, detour)
    best = best.reshape(n, m, 2)
    for i in range(n):
        others = np.delete(scores, i, axis=0)
        for j in range(m):
            without, barred = np.delete(others, j, axis=1), scores.copy()
            barred[i, j] = -np.inf
            assert best[i, j, 1] == pytest.approx(scores[i, j] + _solve(without, True)[0])
            assert best[i, j, 0] == pytest.approx(_solve(barred, True)[0])


@problems
def test_best_assignments_are_all_there_in_order(n, m, null, whole, forbidden, seed):
    rng = np.random.default_rng(seed)
    scores = _scores(rng, n, m, whole, forbidden)
    every = {match: value for value, match in _all_matches(scores, null)}
    for n_best in (1, 2, 7, 240):
        values, matches = np.empty(n_best), np.empty((n_best, n), dtype=np.int32)
        work = best_assignments_work(n, m, n_best)
        best_assignments(scores.ravel(), n, m, null, values, matches, work)
        expected = np.full(n_best, -np.inf)
        found = sorted(every.values(), reverse=True)[:n_best]
        expected[: len(found)] = found
        np.testing.assert_allclose(values, expected, atol=1e-9)
        rows = [tuple(row) for row in matches[: len(found)].tolist()]
        assert len(set(rows)) == len(rows)
        np.testing.assert_allclose([every[row] for row in rows], found, atol=1e-9)
        if rows:
            assert rows[0] == tuple(_solve(scores, null)[1])


@given(
    n=st.integers(0, 3),
    m=st.integers(0, 3),
    null=st.booleans(),
    whole=st.booleans(),
    forbidden=st.sampled_from([0.0, 0.3, 1.0]),
    degree=st.integers(1, 4),
    seed=st.integers(0, 10**6),
)
def test_fertile_links_equal_enumeration(n, m, null, whole, forbidden, degree, seed):
    rng = np.random.default_rng(seed)
    scores = _scores(rng, n, m, whole, forbidden)
    every = np.array(list(product([0, 1], repeat=n * m)), dtype=np.int32)
    every = every.reshape(2 ** (n * m), n, m)
    sources, targets = every.sum(axis=2), every.sum(axis=1)
    feasible = (sources <= degree).all(axis=1) & (targets <= degree).all(axis=1)
    if not null:
        feasible &= ((sources if n <= m else targets) > 0).all(axis=1)
    fixed = (rng.random(n * m) < 0.1).astype(np.uint8)[: n * m * rng.integers(2)]
    if fixed.size:
        feasible &= (every[:, fixed.reshape(n, m) == 1] == 1).all(axis=1)
    every = every[feasible]
    totals = np.where(every == 1, scores, 0.0).sum(axis=(1, 2))
    expected = np.full((n, m, 2), -np.inf)
    for state in (0, 1):
        masked = np.where(every == state, totals[:, None, None], -np.inf)
        expected[..., state] = masked.max(axis=0, initial=-np.inf)
    links, best = np.empty(n * m, dtype=np.int32), np.empty(2 * n * m)
    start = scores.ravel(), n, m, null, degree, fixed, links, fertility_work(n, m)
    value = fertile_max_marginals(*start, best, np.empty((n + m + 1) ** 2))
    assert value == pytest.approx(totals.max(initial=-np.inf), abs=1e-9)
    np.testing.assert_allclose(best.reshape(n, m, 2), expected, atol=1e-9)
    if value > -np.inf:
        assert (every == links.reshape(n, m)).all(axis=(1, 2)).any()
        assert np.where(links.reshape(n, m) == 1, scores, 0.0).sum() == pytest.approx(value)
    else:
        assert not links.any()


@given(n=st.integers(1, 30), m=st.integers(1, 30), seed=st.integers(0, 10**6))
def test_fertility_one_is_an_assignment_and_none_takes_all(n, m, seed):
    scores = np.random.default_rng(seed).normal(size=(n, m))
    links, work = np.empty(n * m, dtype=np.int32), fertility_work(n, m)
    for null in (True, False):
        value = fertile_links(scores.ravel(), n, m, null, 1, NONE, links, work)
        assert value == pytest.approx(_solve(scores, null)[0])
    value = fertile_links(scores.ravel(), n, m, True, max(n, m), NONE, links, work)
    assert value == pytest.approx(scores[scores > 0].sum())
    np.testing.assert_array_equal(links.reshape(n, m) == 1, scores > 0)
