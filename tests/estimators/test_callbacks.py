"""Time limits and checkpoints."""

import itertools
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, CasimirSSVM, ProxLinearSSVM, SubgradientSSVM
from skstruct.callbacks import Checkpoint, TimeLimit
from skstruct.core.parallel import Pieces
from skstruct.data.store import lock

ESTIMATORS = {
    "sag": SAGCRF(),
    "lbfgs": SAGCRF(solver="lbfgs"),
    "bcfw": BCFWSSVM(),
    "casimir": CasimirSSVM(),
    "gdmm": GDMMSSVM(),
    "sgd": SubgradientSSVM(),
    "prox-linear": ProxLinearSSVM(score_map="mlp"),
}


class Listener:
    """A callback that calls a function after each pass."""

    def __init__(self, function):
        self.function = function

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.task_name == "epoch":
            self.function(fitted_estimator)


class Clock:
    """A clock that goes on by a second at each look, which is after each pass."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("skstruct.estimators.base._LONG_PASS", np.inf)
        # For the callbacks only: a lock of numba looks at the clock, too.
        monkeypatch.setattr("skstruct.callbacks.time", SimpleNamespace(monotonic=self))

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.joblib"


def interrupt_at(n):
    passes = itertools.count(1)

    def interrupt(model):
        if next(passes) == n:
            raise KeyboardInterrupt

    return Listener(interrupt)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_time_limit_ends_a_fit(monkeypatch, sequences, name):
    Clock(monkeypatch)
    model = clone(ESTIMATORS[name]).set_params(tol=0.0, max_iter=50, random_state=0)
    model.set_callbacks(TimeLimit(3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*sequences)
    assert model.n_iter_ == 3
    short = clone(model).set_params(max_iter=3).set_callbacks()
    with pytest.warns(UserWarning, match="did not converge"):
        short.fit(*sequences)
    assert model.objective_ == short.objective_
    for table in model._tables:
        np.testing.assert_array_equal(getattr(model, table), getattr(short, table))


def test_a_time_limit_ends_a_long_pass(monkeypatch, sequences):
    monkeypatch.setattr("skstruct.estimators.base._LONG_PASS", 0.0)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    crf = SAGCRF(tol=0.0, max_iter=5, random_state=0).set_callbacks(TimeLimit(1e-9))
    crf.fit(*sequences)
    assert crf.n_iter_ == 1
    # One call of the pass that was cut, and the closing measurement.
    assert crf.history_["oracle_calls"][0] == len(sequences[0]) + 3


def test_a_limit_that_is_not_reached_changes_nothing(sequences):
    alone = SAGCRF(tol=1e-2, random_state=0).fit(*sequences)
    limited = SAGCRF(tol=1e-2, random_state=0).set_callbacks(TimeLimit(1e9)).fit(*sequences)
    np.testing.assert_array_equal(alone.node_weights_, limited.node_weights_)
    assert alone.n_iter_ == limited.n_iter_


def test_fits_that_share_a_limit_have_the_whole_time_each(monkeypatch, sequences):
    clock, limit = Clock(monkeypatch), TimeLimit(100.0)
    one = SAGCRF(tol=0.0, max_iter=50, random_state=0).set_callbacks(limit)

    def fit_another(model):
        if not another:
            other = clone(one).set_params(tol=1.0).set_callbacks(limit)
            another.append(other.fit(*sequences))
            clock.now = 99.0

    another = []
    one.set_callbacks(Listener(fit_another), limit).fit(*sequences)
    assert one.n_iter_ == 2  # at 100 s the limit, which counts from 1, is not reached yet
    assert limit._since == {}


def test_a_limit_holds_for_each_fit_of_a_cross_validation(sequences):
    crf = SAGCRF(tol=0.0, max_iter=10**6, random_state=0).set_callbacks(TimeLimit(0.05))
    scores = cross_val_score(crf, *sequences, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_checkpoint_is_the_model_of_that_pass(sequences, path, name):
    model = clone(ESTIMATORS[name]).set_params(tol=0.0, max_iter=4, random_state=0)
    seen = []
    watched = clone(model).set_callbacks(
        Checkpoint(path, 0.0), Listener(seen.append), interrupt_at(3)
    )
    with pytest.raises(KeyboardInterrupt):
        watched.fit(*sequences)
    stored = joblib.load(path)
    assert type(stored) is type(model)
    assert stored.n_iter_ == 3
    assert stored.get_params()["tol"] == 0.0
    assert not hasattr(stored, "_skl_callbacks")
    for table in model._tables:
        np.testing.assert_array_equal(getattr(stored, table), getattr(seen[-1], table))
    X = sequences[0]
    for one, other in zip(stored.predict(X), seen[-1].predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not hasattr(watched, "classes_")


def test_at_its_end_the_file_holds_the_fit(sequences, path):
    crf = SAGCRF(tol=0.1, random_state=0).set_callbacks(Checkpoint(path)).fit(*sequences)
    stored = joblib.load(path)
    np.testing.assert_array_equal(stored.node_weights_, crf.node_weights_)
    assert stored.objective_ == crf.objective_
    assert set(stored.history_) == set(crf.history_)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("solver", ["sag", "lbfgs"])
def test_a_checkpoint_is_where_a_warm_start_goes_on(sequences, path, solver):
    crf = SAGCRF(solver=solver, tol=1e-4, random_state=0)
    crf.set_callbacks(Checkpoint(path, 0.0), interrupt_at(5))
    with pytest.raises(KeyboardInterrupt):
        crf.fit(*sequences)
    resumed = joblib.load(path).set_params(warm_start=True, max_iter=1)
    anew = clone(resumed)
    for model in (resumed, anew):
        with pytest.warns(UserWarning, match="did not converge"):
            model.fit(*sequences)
    best = clone(crf).set_callbacks().fit(*sequences).objective_
    assert resumed.objective_ - best < 0.2 * (anew.objective_ - best)


def test_files_are_written_as_often_as_asked(monkeypatch, sequences, path):
    Clock(monkeypatch)
    written = []
    monkeypatch.setattr(Checkpoint, "_write", lambda self, model: written.append(model.n_iter_))
    crf = SAGCRF(tol=0.0, max_iter=20, random_state=0).set_callbacks(Checkpoint(path, 7.0))
    with pytest.warns(UserWarning, match="did not converge"):
        crf.fit(*sequences)
    assert written == [7, 14, 20]


def test_a_checkpoint_of_a_second_fit_knows_nothing_of_the_first(sequences, path):
    crf = SAGCRF(tol=0.1, random_state=0).fit(*sequences)
    crf.set_params(tol=0.0).set_callbacks(Checkpoint(path, 0.0), interrupt_at(2))
    with pytest.raises(KeyboardInterrupt):
        crf.fit(*sequences)
    stored = joblib.load(path)
    assert stored.n_iter_ == 2
    for name in ("objective_", "dual_gap_", "suboptimality_", "history_"):
        assert hasattr(crf, name)
        assert not hasattr(stored, name)


def test_a_file_that_cannot_be_written_leaves_the_last_one(monkeypatch, sequences, path):
    dump, calls = joblib.dump, itertools.count(1)

    def full(model, file):
        if next(calls) == 3:
            file.write(b"half of it")
            raise OSError(28, "No space left on device")
        dump(model, file)

    monkeypatch.setattr("skstruct.callbacks.joblib.dump", full)
    crf = SAGCRF(tol=0.0, max_iter=9, random_state=0)
    crf.set_callbacks(Checkpoint(path, 0.0), interrupt_at(3))
    with (
        pytest.raises(KeyboardInterrupt),
        pytest.warns(UserWarning, match=r"model.joblib was not written: .*No space left"),
    ):
        crf.fit(*sequences)
    assert joblib.load(path).n_iter_ == 2
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("bad", [None, 3, b"model"])
def test_what_is_no_path_is_refused(bad):
    with pytest.raises(TypeError, match=r"path must be a str or a Path, got "):
        Checkpoint(bad)


def test_a_folder_that_cannot_be_written_to_is_refused_before_training(
    monkeypatch, sequences, path
):
    # The tests may run as root, who can write to all folders.
    monkeypatch.setattr("skstruct.callbacks.os.access", lambda folder, mode: False)
    with pytest.raises(PermissionError, match="cannot be written to"):
        SAGCRF().set_callbacks(Checkpoint(path)).fit(*sequences)


def test_paths_are_checked_before_training(sequences, tmp_path):
    crf = SAGCRF()
    with pytest.raises(FileNotFoundError, match="nowhere is no folder"):
        crf.set_callbacks(Checkpoint(tmp_path / "nowhere" / "model")).fit(*sequences)
    with pytest.raises(IsADirectoryError, match="is a folder, expected a file"):
        crf.set_callbacks(Checkpoint(str(tmp_path))).fit(*sequences)
    assert not hasattr(crf, "classes_")


@pytest.mark.parametrize("callback", [TimeLimit(1.0), Checkpoint("model")])
def test_where_no_passes_are_heard_is_refused(sequences, callback):
    pipeline = make_pipeline(FunctionTransformer(), SAGCRF()).set_callbacks(callback)
    with pytest.raises(TypeError, match="which Pipeline does not have"):
        pipeline.fit(*sequences)


@pytest.mark.parametrize("bad", [-1.0, np.nan, "60", None, True])
def test_times_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="seconds must be a positive number"):
        TimeLimit(bad)
    with pytest.raises(ValueError, match="every_seconds must be a nonnegative number"):
        Checkpoint("model", bad)
    with pytest.raises(ValueError, match="positive number of seconds, got 0"):
        TimeLimit(0)


def test_what_a_killed_process_has_left_goes_with_the_next_fit(sequences, path):
    left, other = (path.with_name(f"{path.name}.{pid}-1.part") for pid in (1, 2))
    not_ours = path.with_name(f"other-{path.name}.1-1.part")
    for file in (left, other, not_ours):
        file.touch()
    with other.open("rb") as file:
        locks = lock(file.fileno())
        SAGCRF(tol=1.0, random_state=0).set_callbacks(Checkpoint(path)).fit(*sequences)
        assert other.exists()
        assert left.exists() is not locks
    assert not_ours.exists()
    joblib.load(path)


@pytest.mark.slow
def test_whenever_the_process_is_killed_the_file_holds_a_model(sequences, path):
    code = f"""
import numpy as np
from skstruct import SAGCRF
from skstruct.callbacks import Checkpoint
from skstruct.testing import random_sequences
X, y = random_sequences(np.random.default_rng(0))
crf = SAGCRF(solver="sag", max_iter=10**6, tol=0.0)
crf.set_callbacks(Checkpoint({str(path)!r}, every_seconds=0)).fit(X, y)
"""
    for seconds in (0.0, 0.11):
        path.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", code])
        while not path.exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(seconds)
        process.kill()
        process.wait()
        assert joblib.load(path).predict(sequences[0]).shape == (len(sequences[0]),)
