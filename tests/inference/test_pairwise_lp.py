"""The sweeps of the LP relaxation, on plain arrays."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skstruct.inference.pairwise_lp import (
    PairwiseLP,
    lp_ascend,
    lp_edge_beliefs,
    lp_scratch,
    lp_smooth,
    lp_soft_sweep,
    lp_sweep,
)

ENDS = np.array([[0, 1], [1, 2], [2, 0], [3, 2], [1, 3]], dtype=np.int32)


def _model(rng, n=4, n_labels=3):
    tables = rng.normal(size=(len(ENDS), n_labels, n_labels))
    half = np.argsort(ENDS.reshape(-1), kind="stable").astype(np.int32)
    ptr = np.append(0, np.cumsum(np.bincount(ENDS.reshape(-1), minlength=n)))
    flipped = np.ascontiguousarray(tables.transpose(0, 2, 1))
    which = np.arange(len(ENDS), dtype=np.int32)
    delta = rng.normal(size=(len(ENDS), 2, n_labels))
    return PairwiseLP(
        rng.normal(size=(n, n_labels)), tables, flipped, which, ENDS, ptr, half, delta
    )


def _dual(p):
    """The sum of the maxima, from the definition."""
    hat = p.unary.copy()
    for side in range(2):
        np.add.at(hat, p.ends[:, side], p.delta[:, side])
    edges = p.tables - p.delta[:, 0, :, None] - p.delta[:, 1, None, :]
    return hat.max(axis=1).sum() + edges.max(axis=(1, 2)).sum()


def _scores(p):
    y = np.array(list(product(range(3), repeat=4)))
    total = p.unary[np.arange(4), y].sum(axis=1)
    for e, (u, v) in enumerate(p.ends):
        total += p.tables[e, y[:, u], y[:, v]]
    return total


@pytest.mark.parametrize("seed", range(5))
def test_sweeps_return_the_dual_and_climbing_ends_at_a_labelling_no_change_improves(seed):
    p, s = _model(np.random.default_rng(seed)), lp_scratch(4, 5, 3)
    labels, best = np.zeros(4, dtype=np.int32), _scores(p).max()
    for sweep in range(12):
        bound = lp_sweep(p, sweep % 2 == 0, labels, s)
        assert bound == pytest.approx(_dual(p))
        assert bound >= best - 1e-9
        value = lp_ascend(p, 50, labels, s)
        scores = _scores(p).reshape(3, 3, 3, 3)
        assert value == pytest.approx(scores[tuple(labels)])
        for t in range(4):
            row = list(labels)
            row[t] = slice(None)
            assert scores[tuple(row)].max() <= value + 1e-9


@pytest.mark.parametrize("gamma", [1.0, 0.1, 1e-3])
def test_marginals_of_edges_agree_with_those_of_nodes_after_any_number_of_sweeps(gamma):
    p, s = _model(np.random.default_rng(0)), lp_scratch(4, 5, 3)
    for n_sweeps in (1, 2, 9):
        lp_smooth(p, gamma, s)
        for sweep in range(n_sweeps):
            lp_soft_sweep(p, gamma, sweep % 2 == 0, s)
        assert_allclose(s.beliefs.sum(axis=1), 1.0, atol=1e-12)
        for e, (u, v) in enumerate(p.ends):
            lp_edge_beliefs(p, e, s)
            assert (s.square >= 0.0).all()
            assert_allclose(s.square.sum(axis=1), s.beliefs[u], atol=1e-12)
            assert_allclose(s.square.sum(axis=0), s.beliefs[v], atol=1e-12)
        assert _dual(p) >= _scores(p).max() - 1e-9
