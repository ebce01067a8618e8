"""``solve_map``: its front, and "auto"."""

import signal
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.callback import ProgressBar

from skstruct.map_inference import FactorGraph, MAPResult, Potts, read_uai, solve, solve_map
from skstruct.map_inference.methods import METHODS
from skstruct.map_inference.scoring import Incumbent
from tests.helpers.map_cases import enumerate_best, graph_with_implicit, labellings, random_graph


def enumerate_all(graph, *, tol, max_iter, rng, budget, pause=0.0, interrupt_at=None):
    """A method as others: looks at all labellings, one a pass."""
    best, count = Incumbent(graph, tol, budget), 0
    every = labellings(graph)
    for row in every:
        count += 1
        best.offer(row, graph.score(row))
        best.record(count, np.inf)
        if interrupt_at == count:
            signal.raise_signal(signal.SIGINT)
        time.sleep(pause)
        if budget(count / len(every), bound=np.inf, score=best.score):
            break
    best.bound = best.score if count == len(every) else 1e3
    return best.result("all", "all seen", count, True)


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
        assert f"bound={result.bound:.10g}" in repr(result)

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
        monkeypatch.setattr("skstruct.map_inference.budget._LONG_STEP", 0.0)
        monkeypatch.setattr("skstruct.map_inference.budget._SECONDS_A_PIECE", 0.0)
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
        (
            {"gamma": 3},
            TypeError,
            "'all' has no parameter gamma; it has: pause, .* time_limit",
        ),
    ],
)
@pytest.mark.usefixtures("with_enumeration")
def test_bad_parameters(graph, parameters, error, match):
    with pytest.raises(error, match=match):
        solve_map(graph, **({"method": "all"} | parameters))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_found(method):
    function, own = solve.find_method(method)
    assert callable(function)
    assert not {"tol", "max_iter", "rng", "budget"} & set(own)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.6]))
@example(4420, 0.0)  # simplified to nothing after sweeps that do not prove it
def test_auto_is_exact(seed, forbidden):
    graph = random_graph(seed, forbidden)
    result = solve_map(graph, random_state=0)
    assert result.optimal
    assert result.score == pytest.approx(enumerate_best(graph), abs=1e-5)
    sizes = {column.size for column in result.history_.values()}
    assert len(sizes) == 1
    bounds, scores = result.history_["bound"], result.history_["score"]
    assert (bounds[1:] <= bounds[:-1]).all()
    assert scores[-1] == result.score


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_auto_with_implicit_factors(seed):
    graph = graph_with_implicit(seed)
    result = solve_map(graph, random_state=0)
    assert result.optimal
    assert result.score == pytest.approx(enumerate_best(graph), abs=1e-5)


def test_auto_of_nothing():
    result = solve_map(FactorGraph([], offset=2.0))
    assert result.score == result.bound == 2.0
    result = solve_map(FactorGraph([3], unaries=[[0.0, 2.0, 1.0]]))
    assert (result.labels.tolist(), result.optimal) == ([1], True)


def test_nested_regions():
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(6, 1)
    pairs = Potts(i, j, rng.normal(size=15))
    plain, nested = (
        FactorGraph(np.full(6, 3), [pairs], unaries=rng.normal(size=18) * 0, regions=r)
        for r in ("variables", "pairs")
    )
    assert solve_map(plain).score == pytest.approx(solve_map(nested).score)


@pytest.mark.parametrize(
    ("name", "best", "how"),
    [
        ("segmentation/2_28_s.binary", -24.233552419, "roof-dual"),
        ("object_detection/ObjectDetection_35", -180.391993429, "trws"),
        ("dbn/DBN_11", 133.464194807, "junction-tree"),
        ("pedigree/pedigree20", -123.855143636, "branch-and-bound"),
        ("csp/CSP_11", -3.694312814, ""),
        ("promedus/Promedus_11", -0.292435581, ""),
    ],
)
def test_auto_proves_real_models(shared_data, name, best, how):
    result = solve_map(read_uai(shared_data / f"map_models/{name}.uai.xz"), random_state=0)
    assert result.optimal
    assert result.score == pytest.approx(best, rel=1e-6)
    assert how in result.message


@pytest.mark.slow
def test_auto_on_a_mixed_torus(shared_data):
    graph = read_uai(shared_data / "map_models/grids/grid20x20.f5.wrap.uai.xz")
    result = solve_map(graph, random_state=0)
    best, linear = 1542.664664202, 1915.1544809
    assert 0.98 * best <= result.score <= best * (1 + 1e-9)
    assert best <= result.bound < 0.5 * (best + linear)


def test_html_of_a_result():
    result = MAPResult(np.array([0, 1]), 1.5, 2.0, False, method="trws", message="a < b")
    html = result._repr_html_()
    for row in ("method</th><td>trws", "gap</th><td>0.5", "message</th><td>a &lt; b"):
        assert f"<tr><th>{row}</td></tr>" in html
