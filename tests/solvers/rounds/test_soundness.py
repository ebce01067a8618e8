"""Checks of dual points that another process has written."""

from typing import NamedTuple

import numpy as np
import pytest

from skstruct.core import kernel, oracles
from skstruct.solvers.bcfw.solver import _new_state
from skstruct.solvers.rounds.shard import ShardProblem
from skstruct.solvers.rounds.soundness import require_dual_point


class Costless(NamedTuple):
    """Samples of one node, whose problem says nothing of costs."""

    labels: np.ndarray
    label_ptr: np.ndarray
    part_ptr: np.ndarray


@oracles.add_indicator.register(Costless)
@kernel
def _add(problem, i, labels, c, mu):
    mu[labels[0]] += c


def test_problems_need_no_table_of_costs():
    problem = Costless(np.array([0, 2], dtype=np.int32), np.arange(3), 3 * np.arange(3))
    shard = ShardProblem(problem, None, (), np.ones(2), n_labels=3)
    state = _new_state(problem, 2)
    assert require_dual_point(shard, state, (), (state, ())).all()
    other = state._replace(labels=state.labels + np.int32(3))
    with pytest.raises(ValueError, match="a label is out of range"):
        require_dual_point(shard, other, (), (state, ()))
    other = state._replace(residuals=state.residuals + 0.5)
    with pytest.raises(ValueError, match="a dual point is not what its labellings make"):
        require_dual_point(shard, other, (), (state, ()))
