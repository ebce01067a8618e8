"""SAGA with one sample for the step and another one for the memory, against its equations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skstruct import Chain
from skstruct.core.oracles import accumulate, exp_oracle, potentials
from skstruct.core.parallel import Pieces
from skstruct.core.weights import plain_weights, zero_weights
from skstruct.losses.log import LogLoss
from skstruct.solvers.sag import _NO_ORDER, MOVE, SAG
from skstruct.solvers.sampling import sample_leaf
from skstruct.testing import random_sequences, training_problem


def _gradient(problem, i, residual, shapes):
    out = zero_weights(shapes)
    accumulate(problem, i, residual, (1.0, 0.0), out)
    return out.tables


@pytest.mark.parametrize("same", [False, True])
def test_a_step_by_hand(same):
    rng = np.random.default_rng(0)
    problem, _, shapes, _ = training_problem(Chain(), *random_sequences(rng, 12))
    n, lam = 12, 0.1
    method = SAG(problem, shapes, np.ones(n), lam, None, loss=LogLoss(), saga=True, paired=True)
    method._pass(MOVE, np.arange(n), np.zeros((n, 2)), Pieces())
    # No line search changes an L_i: the step is known.
    state, method.state.skip[:] = method.state, 100
    before, stored = plain_weights(method.w, shapes), state.residuals.copy()
    lipschitz = state.lipschitz.copy()
    u = 0.37
    j = sample_leaf(state.tree, u)
    r = j if same else (j + 5) % n
    method._pass(MOVE, _NO_ORDER, np.array([[0.0, u], [0.0, (r + 0.5) / n]]), Pieces())

    def residual(i):
        part = slice(*problem.part_ptr[i : i + 2])
        theta, mu = np.empty((2, part.stop - part.start))
        potentials(problem, i, before, theta)
        exp_oracle(problem, i, theta, 1.0, mu)
        labels = problem.labels[slice(*problem.label_ptr[i : i + 2])]
        truth = np.zeros_like(mu)
        truth[np.arange(labels.size) * 3 + labels] = 1.0
        np.add.at(truth, labels.size * 3 + labels[:-1] * 3 + labels[1:], 1.0)
        return part, mu - truth

    alpha = 1.0 / (4.0 * (lipschitz.mean() + lam))
    probability = lipschitz[j] / lipschitz.sum()
    part, new = residual(j)
    change = _gradient(problem, j, new - stored[part], shapes)
    total = [np.zeros(shape) for shape in shapes]
    for i in range(n):
        own = stored[slice(*problem.part_ptr[i : i + 2])]
        for table, more in zip(total, _gradient(problem, i, own, shapes), strict=True):
            table += more / n
    after = plain_weights(method.w, shapes).tables
    for w, now, d, g in zip(before.tables, after, total, change, strict=True):
        step = g / (n * probability) + d + lam * w
        assert np.abs(step).max() > 1e-3
        assert_allclose(now, w - alpha * step, atol=1e-12)
    # The memory takes the other sample, at the same weights, and only that.
    part, new = residual(r)
    expected = stored.copy()
    expected[part] = new
    assert_allclose(state.residuals, expected, atol=1e-12)
