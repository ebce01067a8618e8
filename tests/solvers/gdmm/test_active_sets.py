"""Tournament trees against maxima by brute force, under random updates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.solvers.gdmm.active_sets import changed, max_trees, row_best, table_best


def _best(table, banned_rows, banned_columns):
    masked = np.where(banned_rows[:, None] | banned_columns[None, :], -np.inf, table)
    return masked.max()


def _agree(table, trees, rng, share):
    rows = (rng.random(table.shape[0]) < share).astype(np.uint8)
    columns = (rng.random(table.shape[1]) < share).astype(np.uint8)
    value, row, column = table_best(table, trees, rows, columns, -np.inf)
    assert value == _best(table, rows, columns)
    if row >= 0:
        assert table[row, column] == value
        assert not rows[row]
        assert not columns[column]
    row = int(rng.integers(table.shape[0]))
    only = np.ones(table.shape[0], dtype=np.uint8)
    only[row] = 0
    value, column = row_best(table, trees, row, columns, -np.inf)
    assert value == _best(table, only, columns)
    assert column == -1 or table[row, column] == value


@given(
    shape=st.tuples(st.integers(1, 40), st.sampled_from([1, 2, 15, 16, 17, 40, 256, 257, 300])),
    seed=st.integers(0, 10**6),
    ties=st.booleans(),
)
def test_maxima_after_random_updates(shape, seed, ties):
    rng = np.random.default_rng(seed)
    table = rng.integers(-2, 3, size=shape).astype(float) if ties else rng.normal(size=shape)
    table[rng.random(shape) < 0.1] = -np.inf
    trees = max_trees(table)
    for _ in range(30):
        row, column = (int(rng.integers(size)) for size in shape)
        table[row, column] = rng.integers(-2, 3) if ties else 2.0 * rng.normal()
        changed(table, trees, row, column)
        _agree(table, trees, rng, rng.choice([0.0, 0.1, 0.6, 1.0]))


@pytest.mark.parametrize("n", [20, 300, 5000])
def test_many_updates_then_one_rebuild_agree(n):
    rng = np.random.default_rng(n)
    table = np.zeros((3, n))
    trees = max_trees(table)
    for _ in range(2000):
        row, column = int(rng.integers(3)), int(rng.integers(n))
        table[row, column] += rng.normal()
        changed(table, trees, row, column)
    again = max_trees(table)
    for field in ("above", "tops", "over"):
        np.testing.assert_array_equal(getattr(trees, field), getattr(again, field))


def test_nothing_above_the_floor():
    table = np.zeros((2, 3))
    trees = max_trees(table)
    free = np.zeros(3, dtype=np.uint8)
    assert row_best(table, trees, 0, free, 0.0) == (0.0, -1)
    assert table_best(table, trees, free[:2], free, 1.0) == (1.0, -1, -1)
