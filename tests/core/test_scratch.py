"""What kernels may write to: the scratch of a problem, of which every thread has its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skstruct import Chain, MultiClass, MultiLabel, Tree
from skstruct.core.parallel import private_copy
from skstruct.testing import random_sequences
from skstruct.testing.structure import FeatureCounts


def test_no_pass_writes_to_a_problem_but_for_its_scratch():
    script = Path(__file__).parents[1] / "helpers" / "read_only.py"
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    made = json.loads(done.stdout)
    assert made.pop("caught") == 1, "a kernel that writes elsewhere was not found"
    assert made.keys() == {
        "ChainProblem",
        "SparseChainProblem",
        "TreeProblem",
        "MultiClassProblem",
        "LabelForestProblem",
        "FewLabelsProblem",
        "ManyLabelsProblem",
        "CheatingProblem",
    }


def _problem(name):
    rng = np.random.default_rng(0)
    X, y = random_sequences(rng, n_samples=4)
    table, sets = rng.normal(size=(5, 3)), rng.integers(0, 2, (5, 4))
    graph, X, y = {
        "chains": (Chain(), X, y),
        "trees": (Tree(), [(x, np.arange(len(x)) - 1) for x in X], y),
        "table": (MultiClass(), table, np.array(list("abcab"))),
        "label sets": (MultiLabel("tree"), table, sets),
        "label sets with cycles": (MultiLabel("full"), table, sets),
    }[name]
    samples, labels = graph.read_training(FeatureCounts(), X, y)
    classes = graph.find_classes(labels, samples)
    codes = graph.encode(labels, classes, samples.offsets)
    return graph.make_problem(samples, classes, True, codes=codes, n_best=3)


def _arrays(value):
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays(part)]
    return [value] if isinstance(value, np.ndarray) else []


@pytest.mark.parametrize(
    "name", ["chains", "trees", "table", "label sets", "label sets with cycles"]
)
def test_a_private_copy_shares_all_but_scratch(name):
    problem = _problem(name)
    other = private_copy(problem)
    assert type(other) is type(problem)
    assert type(other.work) is type(problem.work)
    ours, theirs = _arrays(problem.work), _arrays(other.work)
    assert len(ours) > 0
    for a, b in zip(ours, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert b.flags.c_contiguous
        assert not any(np.shares_memory(a, array) for array in theirs)
    assert all(a is b for a, b in zip(problem, other, strict=True) if a is not problem.work)


def test_a_problem_without_scratch_has_private_copies():
    problem = _problem("table")._replace(work=())
    assert private_copy(problem).work == ()
