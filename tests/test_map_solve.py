"""``solve_map``: its front, and "auto"."""

import itertools
import os
import signal
import time

import numpy as np
import pytest
from sklearn.callback import ProgressBar

from skstruct.map_inference import FactorGraph, MAPResult, Potts, solve, solve_map
from skstruct.map_inference.result import Records


def enumerate_all(graph, *, tol, max_iter, time_limit, rng, on_pass, pause=0.0, interrupt_at=None):
    """A method as others: looks at all labellings, one a pass."""
    records = Records(on_pass)
    best, labels, count = -np.inf, np.zeros(graph.n_variables, dtype=np.int64), 0
    every = list(itertools.product(*map(range, graph.n_states)))
    for row in every:
        count += 1
        if graph.score(row) > best:
            best, labels = graph.score(row), np.array(row)
        records.add(count, np.inf, best)
        if interrupt_at == count:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(pause)
        if on_pass(count / len(every), bound=np.inf, score=best):
            break
    bound = best if count == len(every) else 1e3
    return MAPResult(
        labels, best, bound, True, history_=records.history(), n_iter=count, message="all seen"
    )


@pytest.fixture
def graph():
    """Seven variables in a ring; the best labelling is unique."""
    rng = np.random.default_rng(0)
    i = np.arange(7)
    return FactorGraph(
        np.full(7, 2), [Potts(i, (i + 1) % 7, rng.normal(size=7))], unaries=rng.normal(size=14)
    )


@pytest.fixture
def with_enumeration(monkeypatch):
    """A method of this file among the known ones."""
    find = solve.find_method
    own = ["pause", "interrupt_at"]
    monkeypatch.setattr(
        solve, "find_method", lambda m: (enumerate_all, own) if m == "all" else find(m)
    )


@pytest.mark.usefixtures("with_enumeration")
class TestFront:
    def test_a_whole_run(self, graph):
        result = solve_map(graph, "all")
        assert result.optimal
        assert result.gap == 0
        assert result.n_iter == 128
        assert result.score == graph.score(result.labels)
        assert result.method == "all"
        assert result.message == "all seen"
        assert {c.size for c in result.history_.values()} == {128}
        assert "optimal" in repr(result)

    def test_time_limit(self, graph):
        result = solve_map(graph, "all", time_limit=0.1, pause=0.01)
        assert 1 <= result.n_iter < 20
        assert not result.optimal
        assert result.message == "the time limit is reached"
        assert "gap" in repr(result)

    def test_interrupt_returns_the_best_so_far(self, graph):
        result = solve_map(graph, "all", interrupt_at=5)
        assert result.n_iter == 5
        assert result.message == "interrupted"
        assert not result.optimal
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_callbacks(self, graph):
        class Stop:
            begun = ended = 0

            def setup(self, estimator, context):
                self.names = [context.task_name]

            def on_fit_task_begin(self, estimator, context):
                self.begun += 1

            def on_fit_task_end(self, estimator, context):
                self.names.append(context.task_name)
                self.ended += 1
                return self.ended == 30

            def teardown(self, estimator, context):
                self.names.append("end")

        stop = Stop()
        result = solve_map(graph, "all", callbacks=stop)
        assert 30 <= result.n_iter <= 42
        assert result.message == "a callback has stopped it"
        assert stop.begun == stop.ended == 31
        assert stop.names[-1] == "end"

    def test_pieces_of_long_steps(self, graph, monkeypatch):
        monkeypatch.setattr("skstruct.map_inference.watch._LONG_STEP", 0.0)
        monkeypatch.setattr("skstruct.map_inference.watch._SECONDS_A_PIECE", 0.0)
        names = []

        class Listen:
            def setup(self, estimator, context): ...
            def on_fit_task_begin(self, estimator, context): ...
            def teardown(self, estimator, context): ...

            def on_fit_task_end(self, estimator, context):
                names.append(context.task_name)

        solve_map(graph, "all", callbacks=[Listen()])
        assert names.count("step") == 100
        assert names.count("piece") > 1
        assert names[-1] == "solve_map"

    def test_progress_bar(self, graph, capsys):
        pytest.importorskip("rich")
        solve_map(graph, "all", callbacks=ProgressBar(), verbose=2)
        assert "solve_map" in capsys.readouterr().out

    def test_verbose(self, graph, capsys):
        solve_map(graph, "all", verbose=2)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 129
        assert "100%, bound inf, score" in lines[-2]

    def test_a_bound_below_the_score_is_an_error(self, graph, monkeypatch):
        wrong = MAPResult(np.zeros(7, dtype=int), 0.0, -1e6, True)
        monkeypatch.setattr(solve, "find_method", lambda m: (lambda *a, **k: wrong, []))
        with pytest.raises(FloatingPointError, match="below the score"):
            solve_map(graph, "any")


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"method": "guess"}, ValueError, "method must be one of 'auto', .*got 'guess'"),
        ({"tol": -1.0}, ValueError, "tol must be"),
        ({"tol": "a"}, TypeError, "tol must be"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"max_iter": 1.5}, TypeError, "max_iter must be"),
        ({"time_limit": 0}, ValueError, "time_limit must be"),
        ({"verbose": "a"}, TypeError, "verbose must be"),
        ({"random_state": "a"}, ValueError, "cannot be used to seed"),
        ({"callbacks": 3}, TypeError, "FitCallback protocol"),
        ({"gamma": 3}, TypeError, "'all' has no parameter gamma; it has: pause, interrupt_at"),
    ],
)
@pytest.mark.usefixtures("with_enumeration")
def test_bad_parameters(graph, parameters, error, match):
    with pytest.raises(error, match=match):
        solve_map(graph, **({"method": "all"} | parameters))
