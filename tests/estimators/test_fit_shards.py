"""fit on shards: the optimum and the certificate of the fit in memory, whatever happens."""

import json
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import BCFWSSVM, SAGCRF, SubgradientSSVM
from skstruct.callbacks import EarlyStopping
from skstruct.core.jit import cache_key
from skstruct.data.store import Damage, open_array, write_array
from skstruct.datasets import Shards, pack_shards
from skstruct.distributed import checkpoint, quasi
from skstruct.distributed import shard as leases
from skstruct.distributed.checkpoint import Keeper
from skstruct.distributed.engine import Engine, EngineGone
from skstruct.distributed.quasi import shard_gradient


def _same(a, b):
    return np.array_equal(a.node_weights_, b.node_weights_) and np.array_equal(
        a.pair_weights_, b.pair_weights_
    )


@pytest.mark.parametrize("options", [{"C": 5.0}, {"l1_ratio": 0.5, "solver": "lbfgs"}])
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


@pytest.mark.parametrize("kind", ["balanced", dict])
def test_weights_of_classes_are_those_of_the_fit_in_memory(samples, shards, kind):
    X, y, weight = samples
    label = shards.classes[0].item()
    options = {"class_weight": kind if kind == "balanced" else {label: 3.0}}
    known = SAGCRF(solver="lbfgs", tol=1e-9, **options).fit(X, y, sample_weight=weight)
    found = SAGCRF(tol=1e-7, **options).fit(shards)
    assert found.objective_ == pytest.approx(known.objective_, rel=1e-6)
    assert found.objective_ != pytest.approx(SAGCRF(tol=1e-7).fit(shards).objective_, rel=1e-5)
    options |= {"C": 0.3, "tol": 2e-3, "random_state": 0}
    known = BCFWSSVM(**options).fit(X, y, sample_weight=weight)
    found = BCFWSSVM(**options).fit(shards)
    assert found.dual_objective_ <= known.objective_
    assert known.dual_objective_ <= found.objective_
    assert found.objective_ == pytest.approx(known.objective_, rel=4e-3)


def test_dense_features_and_shards_of_one_sample(sequences, tmp_path):
    X, y = sequences
    shards = pack_shards(X[:4], y[:4], tmp_path / "four", shard_size=1)
    known = SAGCRF(solver="lbfgs", tol=1e-7, margin="hamming").fit(X[:4], y[:4])
    found = SAGCRF(tol=1e-7, margin="hamming").fit(shards)
    assert found.objective_ == pytest.approx(known.objective_, 1e-6)


@pytest.mark.slow
def test_threads_change_no_bit(shards):
    alone = SAGCRF(tol=1e-5).fit(shards)
    assert _same(alone, SAGCRF(tol=1e-5, n_jobs=2).fit(shards))


def test_processes_of_joblib_are_refused(shards):
    with parallel_config("loky"), pytest.raises(ValueError, match=r"distributed.Client\(\)"):
        SAGCRF(n_jobs=2).fit(shards)


def test_parts_stay_open_while_there_is_room(shards, monkeypatch):
    opened = []
    real = Shards.open

    def count(self, k, **options):
        opened.append(k)
        return real(self, k, **options)

    monkeypatch.setattr(Shards, "open", count)
    known = SAGCRF(tol=1e-5).fit(shards)
    assert len(opened) == shards.n_shards
    assert not leases._OPENED
    opened.clear()
    monkeypatch.setattr(leases, "LIMIT", 1)
    assert _same(known, SAGCRF(tol=1e-5).fit(shards))
    assert len(opened) > 20
    assert len(leases._OPENED) <= 1


def test_a_round_sends_only_what_a_part_uses(samples, tmp_path):
    X, y, _ = samples
    wide = [x.copy() for x in X]
    for x in wide:
        x.resize((x.shape[0], 1000))
    shards = pack_shards(wide, y, tmp_path / "wide", shard_size=5)
    sizes = []

    class Watched(Engine):
        def map(self, function, keys, arguments):
            def watched(k):
                sent = arguments(k)
                if function is shard_gradient:
                    sizes.append(sent[2].node.shape[0])
                return sent

            return super().map(function, keys, watched)

    class CRF(SAGCRF):
        def _train_rounds(self, source, engine, shapes, **common):
            return super()._train_rounds(source, Watched(None), shapes, **common)

    crf = CRF(max_iter=1, tol=1e9).fit(shards)
    assert crf.node_weights_.shape[0] == 1001
    assert max(sizes) == X[0].shape[1] + 1


@pytest.mark.parametrize("options", [{}, {"l1_ratio": 0.3}])
def test_a_checkpoint_goes_on_bit_for_bit(shards, tmp_path, options):
    known = SAGCRF(tol=1e-6, **options).fit(shards)
    for most in (3, 5):
        with pytest.warns(ConvergenceWarning):
            SAGCRF(tol=1e-6, max_iter=most, **options).fit(shards, checkpoint=tmp_path / "c")
    (tmp_path / "c" / "round-00000006.json.1-1.part").touch()  # of a driver that was killed
    found = SAGCRF(tol=1e-6, **options).fit(shards, checkpoint=tmp_path / "c")
    assert not list((tmp_path / "c").glob("*.part"))
    again = SAGCRF(tol=1e-6, **options).fit(shards, checkpoint=tmp_path / "c")
    for crf in (found, again):
        assert _same(known, crf)
        assert crf.n_iter_ == known.n_iter_
        assert crf.dual_gap_ == known.dual_gap_
        assert np.array_equal(crf.history_["objective"], known.history_["objective"])
    with pytest.raises(ValueError, match="another training: C differ"):
        SAGCRF(C=3.0, **options).fit(shards, checkpoint=tmp_path / "c")


def _rounds_to(folder, crf, shards, k, monkeypatch):
    """Train for k rounds with a state of each."""
    monkeypatch.setattr(Keeper, "SHARE", np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crf.set_params(max_iter=k).fit(shards, checkpoint=folder)
    return crf.set_params(max_iter=500)


@pytest.mark.parametrize("which", ["json", "w.npy", "pair"])
@pytest.mark.parametrize("damage", ["torn", "flipped"])
def test_damaged_states_are_seen(shards, tmp_path, monkeypatch, which, damage):
    known = SAGCRF(tol=1e-6).fit(shards)
    crf = _rounds_to(tmp_path / "c", SAGCRF(tol=1e-6), shards, 6, monkeypatch)
    paths = (tmp_path / "c").iterdir()
    last = max(path for path in paths if "00000006" in path.name and which in path.name)
    content = bytearray(last.read_bytes())
    if damage == "torn":
        content = content[: len(content) // 2]
    else:
        content[-10] ^= 1
    last.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged; training continues from round 5"):
        crf.fit(shards, checkpoint=tmp_path / "c")
    assert _same(known, crf)


def test_a_state_whose_fingerprint_is_damaged_is_of_no_other_training(
    shards, tmp_path, monkeypatch
):
    crf = _rounds_to(tmp_path / "c", SAGCRF(tol=1e-6), shards, 3, monkeypatch)
    last = tmp_path / "c" / "round-00000003.json"
    last.write_text(last.read_text().replace("fit_intercept", "fit_intercepu"))
    with pytest.warns(UserWarning, match="damaged; training continues from round 2"):
        crf.fit(shards, checkpoint=tmp_path / "c")


def test_a_full_disk_is_told_with_what_is_safe(shards, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")  # Windows has no limit of file sizes
    crf = _rounds_to(tmp_path / "c", SAGCRF(tol=1e-6), shards, 3, monkeypatch)
    before = crf.node_weights_.copy()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="the model is as it was before fit, and round 3 is safe"):
            crf.fit(shards, checkpoint=tmp_path / "c")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert np.array_equal(before, crf.node_weights_)
    assert not list((tmp_path / "c").glob("*.part"))
    assert _same(SAGCRF(tol=1e-6).fit(shards), crf.fit(shards, checkpoint=tmp_path / "c"))


def test_workers_that_all_die_are_told_with_what_is_safe(shards, tmp_path, monkeypatch):
    crf = _rounds_to(tmp_path / "c", SAGCRF(tol=1e-6), shards, 3, monkeypatch)

    def none_left(self, function, keys, arguments):
        raise EngineGone("the workers cannot be reached any more")
        yield

    monkeypatch.setattr(Engine, "map", none_left)
    with pytest.raises(RuntimeError, match=r"any more; the model is as .* round 3 is safe in"):
        crf.fit(shards, checkpoint=tmp_path / "c")
    with pytest.raises(RuntimeError, match="without checkpoint nothing of this training"):
        crf.fit(shards)


def test_states_of_another_version_are_refused_and_stay(shards, tmp_path, monkeypatch):
    SAGCRF(tol=1e-2).fit(shards, checkpoint=tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(checkpoint, "_VERSION", checkpoint._VERSION + 1)
    with pytest.raises(
        ValueError, match=r"another version of skstruct.* differ; name another folder"
    ):
        SAGCRF(tol=1e-2).fit(shards, checkpoint=tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_states_of_other_code_are_refused(shards, tmp_path, monkeypatch):
    """As after an edit of the structure, for which the bound that they hold may be none."""
    crf = SAGCRF(tol=1e-2).fit(shards, checkpoint=tmp_path)
    again = clone(crf).fit(shards, checkpoint=tmp_path)
    assert again.dual_objective_ == crf.dual_objective_
    read = cache_key._read

    def edited(module):
        source = read(module)
        return source._replace(digest=b"other") if module == "skstruct.graphs.chain" else source

    monkeypatch.setattr(cache_key, "_read", edited)
    with pytest.raises(ValueError, match=r"another training: code of the model differ"):
        clone(crf).fit(shards, checkpoint=tmp_path)


@pytest.mark.parametrize("kind", [TypeError, KeyError])
def test_errors_of_a_method_are_no_damage_of_its_states(kind, shards, tmp_path, monkeypatch):
    SAGCRF(tol=1e-2).fit(shards, checkpoint=tmp_path)
    before = sorted(tmp_path.iterdir())

    def fail(self, numbers, arrays):
        raise kind("a mistake")

    monkeypatch.setattr(quasi.Mapped, "take_state", fail)
    with pytest.raises(kind, match="a mistake"):
        SAGCRF(tol=1e-2).fit(shards, checkpoint=tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="has files, and none of them is a state"):
        Keeper(tmp_path, {})


def test_a_folder_is_of_one_fit_at_a_time(shards, tmp_path):
    pytest.importorskip("fcntl")
    crf = SAGCRF(tol=1e-2)
    crf.fit(shards, checkpoint=tmp_path)
    (tmp_path / "round-00000001.json.1-1.part").write_text("of a driver that was killed")
    other = Keeper(tmp_path, json.loads(next(tmp_path.glob("round*n")).read_text())["fingerprint"])
    with pytest.raises(ValueError, match="in use by another fit"):
        crf.fit(shards, checkpoint=tmp_path)
    other.close()
    crf.set_params(tol=1e-4).fit(shards, checkpoint=tmp_path)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    "text", ["null", '{"fingerprint": null}', '{"fingerprint": [1]}', "[" * 99_999]
)
def test_states_that_are_none_are_seen(shards, tmp_path, text):
    crf = SAGCRF(tol=1e-2).fit(shards, checkpoint=tmp_path)
    known = crf.node_weights_
    for path in tmp_path.glob("round-*.json"):
        path.write_text(text)
    with pytest.warns(UserWarning, match="training starts from the beginning"):
        crf.fit(shards, checkpoint=tmp_path)
    assert np.array_equal(known, crf.node_weights_)


@pytest.mark.slow
def test_a_driver_that_is_killed_loses_nothing(shards, tmp_path):
    known = SAGCRF(tol=1e-6).fit(shards)
    program = textwrap.dedent("""
        import sys, time
        import numpy as np
        from skstruct import SAGCRF
        from skstruct.datasets import Shards
        from skstruct.distributed import quasi
        from skstruct.distributed.checkpoint import Keeper

        Keeper.SHARE = np.inf
        slow = quasi.shard_gradient

        def shard_gradient(*arguments):
            time.sleep(0.002)
            return slow(*arguments)

        quasi.shard_gradient = shard_gradient
        print("fit", flush=True)
        crf = SAGCRF(tol=1e-6).fit(Shards(sys.argv[1]), checkpoint=sys.argv[2])
        np.savez(sys.argv[3], crf.node_weights_, crf.pair_weights_)
    """)
    rng = np.random.default_rng(0)
    arguments = str(shards.folder), str(tmp_path / "c"), str(tmp_path / "model.npz")
    kills = 0
    for _ in range(20):
        started = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE
        )
        started.stdout.readline()
        try:
            started.wait(float(rng.uniform(0.05, 0.4)) if kills < 3 else 300)
            break
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
            kills += 1
        finally:
            started.stdout.close()
    assert kills
    with np.load(tmp_path / "model.npz") as model:
        assert np.array_equal(model["arr_0"], known.node_weights_)
        assert np.array_equal(model["arr_1"], known.pair_weights_)


def test_what_is_not_for_shards_is_refused(samples, shards, tmp_path):
    X, y, weight = samples
    for solver in ("sag", "saga", "casimir"):
        with pytest.raises(ValueError, match=f"solver='{solver}' does not take shards"):
            SAGCRF(solver=solver).fit(shards)
    with pytest.raises(ValueError, match="y must be None, the shards have labels"):
        SAGCRF().fit(shards, y)
    with pytest.raises(ValueError, match="sample_weight must be None"):
        SAGCRF().fit(shards, sample_weight=weight)
    with pytest.raises(ValueError, match="class_weight"):
        SAGCRF(class_weight={"no such label": 2.0}).fit(shards)
    table = pack_shards(np.eye(4), [0, 1, 0, 1], tmp_path / "table")
    with pytest.raises(ValueError, match="class_weight must be None for MultiClass"):
        SAGCRF(class_weight="balanced").fit(table)
    with pytest.raises(ValueError, match="EarlyStopping holds out samples"):
        SAGCRF().set_callbacks(EarlyStopping()).fit(shards)
    with pytest.raises(ValueError, match="packed for graph=Chain"):
        SAGCRF(graph="multiclass").fit(shards)
    with pytest.raises(TypeError, match="SubgradientSSVM needs all samples in memory"):
        SubgradientSSVM().fit(shards)
    with pytest.raises(ValueError, match="checkpoint is for fit"):
        SAGCRF().fit(X, y, checkpoint=tmp_path)
    bare = pack_shards(X, None, tmp_path / "bare")
    with pytest.raises(ValueError, match="the shards have no labels"):
        SAGCRF().fit(bare)


class _FullDisk:
    """A callback that cannot store the model, after it has been taken over."""

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "fit":
            raise PermissionError(13, "cannot store", "model.pkl")


def test_errors_of_callbacks_are_not_those_of_workers(shards):
    crf = SAGCRF(max_iter=2, tol=1.0).set_callbacks(_FullDisk())
    with pytest.raises(PermissionError) as caught:
        crf.fit(shards)
    assert (caught.value.strerror, caught.value.filename) == ("cannot store", "model.pkl")
    assert hasattr(crf, "coef_")


def test_archives_are_no_arrays(tmp_path):
    path = tmp_path / "table.npy"
    entry = write_array(path, np.arange(3.0))
    with open(path, "wb") as file:
        np.savez(file, table=np.arange(3.0))
    entry |= {"bytes": path.stat().st_size}
    for map_from in (0, np.inf):
        with pytest.raises(Damage, match="no file of an array"):
            open_array(path, entry, map_from)
