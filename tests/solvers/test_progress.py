"""The clock and the cuts of passes."""

import os
import pickle
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, CasimirSSVM, Chain, MultiLabel, SubgradientSSVM
from skstruct.core.parallel import Pieces
from skstruct.solvers.run import Progress, SampleOverflow
from skstruct.testing import random_sequences
from tests.helpers.multilabel_cases import make_labels


def test_pieces_cover_the_range_once_and_shrink_when_calls_are_slow(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    seen, sizes = [], []
    for first, last in Pieces().ranges(10, 1000):
        seen.extend(range(first, last))
        sizes.append(last - first)
        now[0] += 0.1 * (last - first)  # ten visits a second
    assert seen == list(range(10, 1000))
    assert sizes[0] == Pieces.FIRST
    assert set(sizes[2:-1]) <= {4, 5}  # half a second


def test_a_callback_ends_the_pass_it_interrupts_only():
    pieces = Pieces(lambda share: share > 0.2)
    assert list(pieces.ranges(0, 1000))[-1][1] < 1000
    assert pieces.stopped
    assert list(Pieces().ranges(0, 1000))[-1][1] == 1000


def test_the_clock_stands_still_before_the_start_and_in_callbacks(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def wait(*_):
        now[0] += 100.0

    progress = Progress(1, wait)
    now[0] = 5.0
    assert progress.seconds == 0.0
    progress.start()
    now[0] += 2.0
    with progress.paused():
        now[0] += 10.0
    progress.record(1, 0, 0.0, None)
    now[0] += 1.0
    progress.record(2, 0, 0.0, None)
    assert progress.history()["seconds"].tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "estimator",
    [
        SAGCRF(solver="sag"),
        SAGCRF(solver="saga"),
        SAGCRF(solver="casimir"),
        BCFWSSVM(),
        BCFWSSVM(sampling="gap", oracle_cache=True, averaging=True),
        BCFWSSVM(MultiLabel("full", inference="relaxed")),
        CasimirSSVM(),
        CasimirSSVM(smoothing="entropy"),
        SubgradientSSVM(),
        GDMMSSVM(),
        GDMMSSVM(algorithm="gdmm"),
        GDMMSSVM(variant="bgcd", search="sampled", n_partitions=2),
        GDMMSSVM(Chain(forbidden=[("a", "x")]), algorithm="gdmm"),
        GDMMSSVM(MultiLabel("full")),
    ],
    ids=str,
)
def test_where_a_pass_is_cut_changes_no_bit(monkeypatch, estimator):
    X, y = random_sequences(np.random.default_rng(0), n_samples=40)
    if isinstance(estimator.graph, MultiLabel):
        X, y = make_labels(n_samples=40)
    elif isinstance(estimator.graph, Chain):
        y = [np.append(labels[:-1], "x") if i < 3 else labels for i, labels in enumerate(y)]
        y = [np.where(labels == "a", "b", labels) if "x" in labels else labels for labels in y]
    whole = clone(estimator).set_params(max_iter=7, tol=0, random_state=0)
    cut = clone(whole)
    with pytest.warns(UserWarning, match="did not converge"):
        whole.fit(X, y)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    with pytest.warns(UserWarning, match="did not converge"):
        cut.fit(X, y)
    np.testing.assert_array_equal(whole.node_weights_, cut.node_weights_)
    np.testing.assert_array_equal(whole.pair_weights_, cut.pair_weights_)
    assert whole.objective_ == cut.objective_
    assert getattr(whole, "dual_objective_", 0.0) == getattr(cut, "dual_objective_", 0.0)


@pytest.mark.parametrize(
    "estimator",
    [
        BCFWSSVM,
        GDMMSSVM,
        SAGCRF,
        partial(SAGCRF, solver="lbfgs"),
        partial(SAGCRF, solver="casimir"),
    ],
)
def test_a_stop_leaves_history_and_attributes_in_agreement(estimator):
    X, y = random_sequences(np.random.default_rng(0), n_samples=40)

    class Stopped(estimator.func if isinstance(estimator, partial) else estimator):
        def _solve(self, *args, after_epoch, **common):
            return super()._solve(*args, after_epoch=lambda record, weights: True, **common)

    options = estimator.keywords if isinstance(estimator, partial) else {}
    model = Stopped(tol=1e-9, random_state=0, **options).fit(X, y)
    assert model.n_iter_ == 1
    for name in ("objective", "dual_gap", "dual_objective"):
        assert model.history_[name][-1] == getattr(model, f"{name}_")
    if isinstance(model, BCFWSSVM | SAGCRF):  # the measurement after the stop is work, too
        n_calls = getattr(model, "n_oracle_calls_", 80)
        if options.get("solver") == "casimir":  # a snapshot, steps, the next snapshot
            n_calls = 120
        assert model.history_["oracle_calls"][-1] == n_calls <= 120
        assert model.history_["passes"][-1] >= 2.0


def test_amended_records_count_later_work(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    progress = Progress(4, lambda record, weights: False)
    progress.start()
    progress.record(4, 0, 1.0, None)
    now[0] += 3.0
    progress.update_last(8, 2)
    known = {name: values.tolist() for name, values in progress.history().items()}
    assert known == {"passes": [2.5], "oracle_calls": [8], "seconds": [3.0], "objective": [1.0]}


def test_an_overflowing_loss_tells_its_sample():
    error = pickle.loads(pickle.dumps(SampleOverflow(7, np.inf, "are the features scaled?")))
    assert isinstance(error, FloatingPointError)
    assert (error.sample, error.value, error.advice) == (7, np.inf, "are the features scaled?")
    assert str(error) == "the loss of sample 7 is inf: are the features scaled?"


_COLD = """
import time
import numpy as np
from skstruct import SAGCRF
from skstruct.core.jit.compiling import compile_seconds

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 3)), rng.integers(3, size=40)
began = time.perf_counter()
model = SAGCRF("multiclass", max_iter=3, tol=0.0, random_state=0).fit(X, y)
print(model.history_["seconds"][-1], compile_seconds(), time.perf_counter() - began)
"""


@pytest.mark.slow
def test_the_clock_leaves_out_compiling(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _COLD],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    solving, compiling, waiting = map(float, done.stdout.split())
    assert 0.0 < solving < solving + compiling <= waiting
