"""Checks of dual points that another process has written."""

from typing import NamedTuple

import numpy as np
import pytest

from skstruct.core import kernel, oracles
from skstruct.core.problem import Problem
from skstruct.solvers.bcfw.solver import _new_state
from skstruct.solvers.rounds.shard import ShardProblem
from skstruct.solvers.rounds.soundness import require_dual_point


class OneNode(NamedTuple):
    """Samples of one node."""

    part_ptr: np.ndarray
    label_ptr: np.ndarray


class Costless(NamedTuple):
    """A target that says nothing of costs."""


@oracles.add_indicator.register(OneNode)
@kernel
def _add(space, i, labels, c, mu):
    mu[labels[0]] += c


def test_problems_need_no_table_of_costs():
    space, labels = OneNode(3 * np.arange(3), np.arange(3)), np.array([0, 2], dtype=np.int32)
    problem = Problem.of((), space, Costless(), labels)
    shard = ShardProblem(problem, None, (), np.ones(2), n_labels=3)
    state = _new_state(problem, 2)
    assert require_dual_point(shard, state, (), (state, ())).all()
    other = state._replace(labels=state.labels + np.int32(3))
    with pytest.raises(ValueError, match="a label is out of range"):
        require_dual_point(shard, other, (), (state, ()))
    other = state._replace(residuals=state.residuals + 0.5)
    with pytest.raises(ValueError, match="a dual point is not what its labellings make"):
        require_dual_point(shard, other, (), (state, ()))
