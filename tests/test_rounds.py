"""fit on shards: the optimum and the certificate of the fit in memory, whatever happens."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.exceptions import ConvergenceWarning

from skstruct import BCFWSSVM, SAGCRF, EarlyStopping
from skstruct.datasets import Shards, pack_shards
from skstruct.solvers.rounds import part as parts
from skstruct.solvers.rounds.checkpoint import Checkpoint, Keeper
from skstruct.solvers.rounds.engine import Engine, EngineGone
from skstruct.solvers.rounds.part import gather, scatter_add
from skstruct.solvers.rounds.quasi import part_gradient
from skstruct.core.weights import Weights
from skstruct.testing import random_sequences


@pytest.fixture(scope="module")
def samples():
    X, y = random_sequences(np.random.default_rng(7), n_samples=24, sparse_X=True)
    return X, y, np.random.default_rng(0).uniform(0.5, 2.0, 24)


@pytest.fixture(scope="module")
def shards(samples, tmp_path_factory):
    X, y, weight = samples
    folder = tmp_path_factory.mktemp("shards") / "five"
    return pack_shards(X, y, folder, shard_size=5, sample_weight=weight)


def _same(a, b):
    return np.array_equal(a.node_weights_, b.node_weights_) and np.array_equal(
        a.pair_weights_, b.pair_weights_
    )


@pytest.mark.parametrize(
    "options", [{}, {"l1_ratio": 0.5, "solver": "lbfgs"}, {"margin": "hamming", "C": 5.0}]
)
def test_the_optimum_is_that_of_the_fit_in_memory(samples, shards, options):
    X, y, weight = samples
    known = SAGCRF(tol=1e-9, **(options | {"solver": "lbfgs"})).fit(X, y, sample_weight=weight)
    found = SAGCRF(tol=1e-7, **options).fit(shards)
    assert found.objective_ == pytest.approx(known.objective_, rel=1e-6)
    assert found.dual_objective_ <= known.objective_
    assert known.dual_objective_ <= found.objective_
    assert found.suboptimality_ <= 1e-7
    assert found.n_samples_seen_ == len(X)
    assert [list(row) for row in found.predict(X)] == [list(row) for row in known.predict(X)]
