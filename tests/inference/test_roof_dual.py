"""The roof dual against HiGHS and enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from skstruct import MultiLabel
from skstruct.core import oracles
from skstruct.inference.qpbo import HALF, complete, roof_dual, roof_scratch
from skstruct.spaces.label_sets import neighbours
from skstruct.testing import all_labellings, training_problem
from tests.helpers.rounding import score_error

pytestmark = pytest.mark.plain


def _relaxation(unary, pair, edges):
    """The optimum over the local polytope by linear programming."""
    n, m = unary.size, len(edges)
    rows = np.zeros((3 * m, n + m))
    for e, (j, k) in enumerate(edges):
        rows[3 * e, [n + e, j]] = 1, -1
        rows[3 * e + 1, [n + e, k]] = 1, -1
        rows[3 * e + 2, [n + e, j, k]] = -1, 1, 1
    bound = np.tile([0.0, 0.0, 1.0], m)
    answer = linprog(-np.concatenate([unary, pair]), A_ub=rows, b_ub=bound, bounds=(0, 1))
    return -answer.fun


@given(
    n=st.integers(2, 8),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["mixed", "attractive", "ties", "huge"]),
    forced=st.booleans(),
)
def test_roof_dual_is_the_relaxation(n, seed, kind, forced):
    rng = np.random.default_rng(seed)
    edges = np.array([(j, k) for j in range(n) for k in range(j + 1, n) if rng.random() < 0.7])
    edges = edges.reshape(-1, 2).astype(np.int32)
    unary, pair = rng.normal(size=n), 1.5 * rng.normal(size=len(edges))
    if kind == "attractive":
        pair = np.abs(pair)
        unary -= pair.sum() / n
    elif kind == "ties":
        unary = rng.integers(-2, 3, size=n).astype(float)
        pair = rng.integers(-2, 3, size=len(edges)).astype(float)
    elif kind == "huge":
        unary, pair = 1e4 * unary, 1e4 * pair
    graph = neighbours(edges, n)
    states = np.full(n, HALF, dtype=np.int32)
    score = roof_dual(unary, pair, graph, states, roof_scratch(n, len(edges)))
    scale = 1e4 if kind == "huge" else 1.0
    np.testing.assert_allclose(score, _relaxation(unary, pair, edges), atol=1e-6 * scale)

    labellings = all_labellings(n, 2)
    both = labellings[:, edges[:, 0]] * labellings[:, edges[:, 1]]
    scores = labellings @ unary + both @ pair
    best = labellings[scores >= scores.max() - 1e-9 * scale]
    fixed = states != HALF
    assert (best[:, fixed] == states[fixed]).all(axis=1).any(), "no best labelling has these values"
    if kind == "attractive":
        assert fixed.all()
    complete(unary, pair, graph, states)
    assert set(states.tolist()) <= {0, 1}
    if forced:
        _check_forced(unary, pair, edges, graph, rng)


def _check_forced(unary, pair, edges, graph, rng):
    """Fixing a node beforehand gives the relaxation with its bounds shut."""
    n, j = unary.size, int(rng.integers(unary.size))
    states = np.full(n, HALF, dtype=np.int32)
    states[j] = int(rng.integers(2))
    wanted = states[j]
    score = roof_dual(unary, pair, graph, states, roof_scratch(n, len(edges)))
    assert states[j] == wanted
    scale = np.abs(unary).max() + np.abs(pair).max(initial=0.0) + 1.0
    forcing = unary.copy()
    forcing[j] = 1e3 * scale * n * (1 if wanted else -1)
    shift = (forcing[j] - unary[j]) * wanted
    np.testing.assert_allclose(score + shift, _relaxation(forcing, pair, edges), rtol=1e-9)


def _relaxed_parts(theta, ends, n, full):
    """The optimum over the local polytope in part space."""
    m = len(ends)
    cost, unit = np.zeros(2 * n + 4 * m), np.eye(2 * n + 4 * m)
    cost[: 2 * n] = theta[: 2 * n]
    if full:
        cost[2 * n :] = theta[2 * n :]
    else:
        cost[2 * n + 3 :: 4] = theta[2 * n :]
    rows, right = [unit[j] + unit[n + j] for j in range(n)], [1.0] * n
    for e, (j, k) in enumerate(ends):
        pair = unit[2 * n + 4 * e : 2 * n + 4 * e + 4]
        # Rows (0, 0), (0, 1), (1, 0), (1, 1): both ends have their marginals.
        rows += [pair[2] + pair[3] - unit[j], pair[1] + pair[3] - unit[k], pair.sum(axis=0)]
        right += [0.0, 0.0, 1.0]
    shut = [(0.0, 0.0 if value == -np.inf else 1.0) for value in cost]
    finite = np.where(np.isfinite(cost), cost, 0.0)
    return -linprog(-finite, A_eq=np.array(rows), b_eq=right, bounds=shut).fun


@given(
    seed=st.integers(0, 10**6),
    full=st.booleans(),
    size=st.sampled_from([0.3, 1.0, 30.0]),
    forced=st.booleans(),
)
def test_relaxed_oracle_gives_bound_and_value_and_max_oracle_a_score(seed, full, size, forced):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    edges = [(j, k) for j in range(n) for k in range(j + 1, n) if rng.random() < 0.8] or [(1, 0)]
    Y = np.vstack([np.zeros(n, int), np.ones(n, int)])
    graph = MultiLabel(edges, inference="relaxed", tables=full)
    problem = training_problem(graph, np.ones((2, 1)), Y)[0]
    ends = graph.edges_
    assert oracles.relaxed_oracle.supports(problem)
    theta = rng.normal(size=int(problem.part_ptr[1]))
    theta[2 * n :] *= size
    if forced:
        theta[rng.integers(2 * n)] = -np.inf
    labels, mu = np.zeros(n, dtype=np.int32), np.full(theta.size, np.nan)
    bound, value = oracles.relaxed_oracle(problem, 0, theta.copy(), labels, mu)
    optimum = _relaxed_parts(theta, ends, n, full)
    np.testing.assert_allclose(bound, optimum, atol=1e-6 * size)
    assert value <= bound
    used = mu != 0.0
    np.testing.assert_allclose(mu[used] @ theta[used], value, atol=1e-9 * size)

    best = oracles.max_oracle(problem, 0, theta.copy(), labels)
    assert set(labels.tolist()) <= {0, 1}
    rounding = score_error(problem, 0, theta, labels)
    assert abs(best - oracles.score(problem, 0, theta, labels)) <= rounding
    scores = [oracles.score(problem, 0, theta, y) for y in all_labellings(n, 2)]
    assert best <= max(scores) <= bound + 1e-9 * size
    if (mu == np.round(mu)).all():
        np.testing.assert_allclose(best, max(scores), atol=1e-9 * size)
