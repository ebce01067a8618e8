"""The loop that all training algorithms share, on one of a few lines."""

import time

import numpy as np
import pytest

from skstruct.core.jit.compiling import hold_interrupts
from skstruct.core.parallel import Pieces
from skstruct.core.weights import Weights
from skstruct.solvers.certificate import certify_pair
from skstruct.solvers.run import Method, run

N = 4


class Halving(Method):
    """Halves its one weight a pass; the objective is 1 + weight, the optimum 1."""

    fields = (*Method.fields, "weight")

    def __init__(self, start=1.0, every=1, certify_start=False):
        super().__init__(None, None, np.ones(N), 1.0, None)
        self.weight, self.every, self.certify_start = start, every, certify_start
        self.log, self.calls = [], 0

    def begin(self, progress):
        if self.certify_start:
            self.certify()

    def epoch(self, k, rng, progress):
        assert self.certificate is None
        self.log.append(k)
        for first, last in progress.pieces.ranges(0, N):
            self.calls += last - first
        self.weight *= 0.5

    def due(self, k, tol):
        return self.every > 0 and k % self.every == 0

    def certify(self):
        self.log.append("certify")
        self.calls += N
        self.certificate = certify_pair(1.0 + self.weight, 1.0)

    def work(self):
        return self.calls, 0.0

    def entry(self):
        return super().entry() | {"weight": self.weight}

    def weights(self):
        return Weights(np.full((1, 1), self.weight), np.zeros((1, 0)))

    def published(self):
        return {"log_": self.log}


def go_on(record, weights):
    return False


def fit(method, max_iter=6, tol=0.0, after_epoch=go_on):
    return run(method, max_iter=max_iter, tol=tol, rng=None, after_epoch=after_epoch)


def test_a_run_ends_at_the_tolerance_with_a_certificate():
    result = fit(Halving(every=2), tol=0.1)
    assert result.published["log_"] == [1, 2, "certify", 3, 4, "certify"]
    assert result.converged
    assert not result.stopped
    assert result.weights[0][0, 0] == 1 / 16
    assert result.distance == result.published["suboptimality_"] <= 0.1
    assert result.history["weight"].tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16]
    assert np.isnan(result.history["objective"]).tolist() == [True, False, True, False]


def test_the_last_pass_is_certified_before_it_is_recorded():
    heard = []
    result = fit(Halving(every=0), 3, after_epoch=lambda record, weights: heard.append(record))
    assert result.published["log_"] == [1, 2, 3, "certify"]
    assert not result.converged
    assert heard[-1]["objective"] == 1 + 1 / 8
    assert result.history["oracle_calls"].tolist() == [4, 8, 16]


def test_a_stop_is_certified_afterwards_and_counted():
    result = fit(Halving(every=0), after_epoch=lambda record, weights: record["passes"] == 2)
    assert result.stopped
    assert not result.converged
    assert result.published["log_"] == [1, 2, "certify"]
    assert result.history["oracle_calls"].tolist() == [4, 12]
    assert result.history["objective"][-1] == result.published["objective_"] == 1 + 1 / 4


def test_a_start_that_is_good_enough_is_recorded_but_not_trained():
    result = fit(Halving(start=1e-4, certify_start=True), tol=1e-3)
    assert result.published["log_"] == ["certify"]
    assert result.converged
    assert result.history["weight"].tolist() == [1e-4]


class StopInPiece:
    """Ends the run after a piece."""

    def __call__(self, record, weights):
        return False

    def after_piece(self, share):
        return share > 0.5


def test_a_stop_within_a_pass_ends_the_run_after_its_record(monkeypatch):
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    result = fit(Halving(every=0), after_epoch=StopInPiece())
    assert result.stopped
    assert result.published["log_"] == [1, "certify"]
    assert result.history["oracle_calls"].tolist() == [3 + N]


def test_a_stop_before_the_first_pass_leaves_the_start(monkeypatch):
    class Cut(Halving):
        def begin(self, progress):
            super().begin(progress)
            list(progress.pieces.ranges(0, N))

    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    result = fit(Cut(certify_start=True), after_epoch=StopInPiece())
    assert result.stopped
    assert result.published["log_"] == ["certify"]
    assert result.weights[0][0, 0] == 1.0


def test_the_clock_leaves_out_compiling_entries_and_callbacks(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    class Kernel:
        def compile(self, sig):
            now[0] += 1000.0

    new_kernel = Kernel()
    hold_interrupts(new_kernel)

    class Slow(Halving):
        def begin(self, progress):
            now[0] += 1.0

        def epoch(self, k, rng, progress):
            now[0] += 2.0
            new_kernel.compile(None)

        def certify(self):
            super().certify()
            now[0] += 4.0

        def entry(self):
            now[0] += 1000.0
            return super().entry()

    def wait(record, weights):
        now[0] += 1000.0

    assert fit(Slow(every=2), 3, after_epoch=wait).history["seconds"].tolist() == [3, 9, 15]


def test_a_method_says_what_is_missing():
    with pytest.raises(TypeError, match="abstract"):
        Method(None, None, np.ones(N), 1.0, None)
