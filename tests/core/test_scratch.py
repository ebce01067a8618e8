"""Scratch of threads."""

import itertools

import numpy as np
import pytest

from skstruct import Candidates, Chain, Tree
from skstruct.core.parallel import make_scratch, private_copy, scratch_of
from skstruct.core.problem import tree_leaves
from skstruct.testing import training_problem


@pytest.mark.parametrize("graph", [Candidates(), Chain(), Tree()], ids=str)
def test_outputs_are_apart_from_inputs(graph):
    """Else sums are added in another order, by where the memory of a thread happens to be."""
    problem = training_problem(graph, *graph.example(np.random.default_rng(0), sparse_X=False))[0]
    for _ in range(20):
        scratch = make_scratch(problem)
        rows = [*scratch, *tree_leaves(tuple(scratch_of(private_copy(problem))))]
        floats = [row for row in rows if row.dtype == np.float64 and row.size]
        assert len(floats) >= 2
        for one, other in itertools.combinations(floats, 2):
            assert abs(one.ctypes.data - other.ctypes.data) >= 1024
