"""Structural SVMs in rounds over shards: certificates, and bits that depend on nothing but data."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    Pairwise,
    ProxLinearSSVM,
    SubgradientSSVM,
)
from skstruct.core.offsets import places_of
from skstruct.core.weights import Weights, zero_weights
from skstruct.data import store
from skstruct.datasets import pack_shards
from skstruct.distributed import bcfw, blocks, checkpoint
from skstruct.distributed.bcfw import LocalBCFW
from skstruct.distributed.blocks import Turn, ascend, measure
from skstruct.distributed.engine import Engine
from skstruct.distributed.shard import Tables, close_shards, leased
from skstruct.estimators.fit_shards import ShardSource
from skstruct.estimators.training_data import read_training_data
from skstruct.solvers.bcfw.solver import BCFWChoices
from skstruct.solvers.gdmm.factors import _rows
from skstruct.solvers.primal import hinge_value
from skstruct.testing import random_sequences

SVMS = BCFWSSVM, GDMMSSVM
# Sparse features are one more kind of factors that GDMM compiles.
EACH = BCFWSSVM, pytest.param(GDMMSSVM, marks=pytest.mark.slow)


def _quietly(estimator, X, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, **more)


def _same(a, b):
    """Weights, and all of the history but the clock."""
    of_a = {name: values for name, values in a.history_.items() if name != "seconds"}
    return (
        np.array_equal(a.node_weights_, b.node_weights_)
        and np.array_equal(a.pair_weights_, b.pair_weights_)
        and all(np.array_equal(v, b.history_[name], equal_nan=True) for name, v in of_a.items())
    )


def _files(shards):
    return sorted(path.name for path in shards.folder.iterdir())


@pytest.fixture(params=["one group", "groups of one shard"])
def grouped(request, monkeypatch):
    """Shards that fit into a worker together, and shards that do not."""
    if request.param != "one group":
        monkeypatch.setattr(blocks, "OPEN", 1)


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("kind", EACH)
def test_the_optimum_is_that_of_the_fit_in_memory(samples, shards, kind):
    X, y, weight = samples
    options = {"C": 0.1, "tol": 2e-3, "max_iter": 400, "random_state": 0}
    known = kind(**options).fit(X, y, sample_weight=weight)
    before = _files(shards)
    found = kind(**options).fit(shards)
    assert found.suboptimality_ <= 2e-3
    assert found.objective_ <= known.objective_ * (1.0 + 2e-3)
    # Every bound is one on the objective of anybody.
    for svm, other in ((found, known), (known, found)):
        assert np.nanmax(svm.history_["dual_objective"]) <= np.nanmin(other.history_["objective"])
    assert found.predict(X[:3])[0].tolist() == known.predict(X[:3])[0].tolist()
    assert found.n_bytes_ == found.history_["bytes"][-1] > 0
    assert _files(shards) == before


@pytest.mark.slow
@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("kind", EACH)
def test_workers_change_no_bit(shards, kind):
    options = {"C": 0.3, "tol": 1e-9, "max_iter": 7, "random_state": 3}
    one = _quietly(kind(**options), shards)
    with parallel_config("threading"):
        assert _same(one, _quietly(kind(n_jobs=2, **options), shards))
    assert not _same(one, _quietly(kind(**options | {"random_state": 4}), shards))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("max_table", "expected"),
    [(8, ("exact", "exact", "tree")), (4, ("relaxed", "relaxed", "roof-dual"))],
)
def test_shards_say_how_they_are_decoded_wherever_they_are_opened(
    tmp_path, monkeypatch, max_table, expected
):
    """Tasks get copies, as in other processes."""

    def elsewhere(self, function, keys, arguments):
        for k in keys:
            yield function(*pickle.loads(pickle.dumps(arguments(k))))

    monkeypatch.setattr(Engine, "map", elsewhere)
    edges = [np.array([[0, 1], [1, 2]]), np.array([[0, 1], [1, 2], [0, 2]])]
    X = [(np.eye(3), edges[i // 2]) for i in range(4)]
    graph = Pairwise(max_table=max_table)
    shards = pack_shards(X, [list("aba")] * 4, tmp_path / "s", shard_size=2, graph=graph)
    found = BCFWSSVM(graph, max_iter=1, tol=1e3).fit(shards)
    assert (found.inference_, found.training_inference_, found.method_) == expected


@pytest.mark.slow
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_shards_publish_the_weakest_inference_in_any_order(tmp_path, order):
    rng = np.random.default_rng(0)
    small, large = (np.argwhere(np.tri(n, k=-1)) for n in (3, 8))
    X = [(rng.normal(size=(3, 2)), small)] * 2 + [(rng.normal(size=(8, 2)), large)] * 2
    y = [rng.integers(0, 3, len(nodes)) for nodes, _ in X]
    graph = Pairwise(max_table=30)
    shards = pack_shards(X[order], y[order], tmp_path / "s", shard_size=2, graph=graph)
    found = _quietly(GDMMSSVM(graph, random_state=0, max_iter=3), shards)
    assert (found.inference_, found.training_inference_, found.method_) == (
        "relaxed",
        "relaxed",
        "lp",
    )


def _inference(model):
    return {k: v for k, v in vars(model).items() if k.endswith("inference_") or k == "method_"}


@pytest.mark.parametrize("kind", [SAGCRF, *EACH])
def test_shards_publish_the_inference_of_the_fit_in_memory(shards, samples, kind):
    found = _quietly(kind(max_iter=1), shards)
    assert _inference(found) == _inference(kind(Chain(), max_iter=1, tol=1e3).fit(*samples))
    assert found.inference_ == "exact"


class _NotAhead(BCFWSSVM):
    """Without extrapolation."""

    class _blocks(bcfw.BCFWBlocks):
        def _extrapolate(self):
            pass


@pytest.fixture
def source(shards):
    model = BCFWSSVM(C=0.3)
    model.graph_, model.classes_, model._has_intercept = shards.graph, shards.classes, True
    made = ShardSource(shards, model, True)
    yield made
    close_shards(made)


def test_a_repeated_task_gives_the_same_bits_and_leaves_what_it_read(source, tmp_path):
    local = LocalBCFW(BCFWChoices("permutation", 20, 30, False))
    shapes = source.open(0).shapes
    w = Weights(*(np.zeros(shape) for shape in shapes))
    first, second = tmp_path / "first", tmp_path / "second"
    turn = Turn(0, 0, None, first, 1, 3, 7, 0.1, source.n_samples)
    moved, *_ = ascend(local, source, [turn], Tables(*w.tables))
    assert not w.node.any()
    assert moved.node.any()
    known = first.read_bytes()
    answers = []
    for is_here in (True, False):
        turn = Turn(0, 1, first, second, 1, 3, 7, 0.1, source.n_samples, (0.5, 0.25))
        found, *_ = ascend(local, source, [turn], moved)
        answers.append((found.node, found.pair, second.read_bytes()))
        if is_here:
            close_shards(source)  # the second time the dual point is read
    assert first.read_bytes() == known
    for one, other in zip(*answers, strict=True):
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_weights_are_those_of_the_dual_points(source, shards, monkeypatch):
    """What rounds have added up is what the files imply, and the dual objective that of these."""
    kept = {}

    def keep(self, groups):
        before(self, groups)
        total = zero_weights(self.shapes)
        loss = 0.0
        for k in range(source.n_shards):
            part = source.open(k)
            lam = self.lam * self.n / part.sample_weight.size
            method = bcfw._OnShard(part, self.local.choices)
            method.lam = lam
            if self.current[k]:
                path = self.files.path(int(self.current[k]), k)
                method.state, method._points = store.read_tree(path, method.dual)
            method._rebuild(0, part.sample_weight.size)
            # What the next turn begins with counts already.
            way, ahead = zero_weights(self.shapes), tuple(self.ahead[k].tolist())
            method.travel(part, ahead, way)
            loss += float(method.state.losses @ part.sample_weight)
            total.node[...] += method.w.node + ahead[1] * way.node
            total.pair[...] += method.w.pair + ahead[1] * way.pair
        assert total.node == pytest.approx(self.w.node, abs=1e-12)
        assert total.pair == pytest.approx(self.w.pair, abs=1e-12)
        assert loss / self.n == pytest.approx(self.loss, abs=1e-12)
        dual, _ = self.dual_of(self.loss, self.w)
        assert dual >= kept.get("dual", 0.0) - 1e-12
        kept["dual"] = dual

    before = blocks.Blocks._round
    monkeypatch.setattr(blocks.Blocks, "_round", keep)
    monkeypatch.setattr(blocks, "OPEN", 1)
    svm = _quietly(BCFWSSVM(C=3.0, tol=1e-9, max_iter=6, random_state=0), shards)
    assert svm.n_rounds_ > 6
    assert kept["dual"] > 0.0


def test_objective_is_that_of_the_problem_in_memory(samples, shards):
    X, y, weight = samples
    svm = _quietly(BCFWSSVM(C=0.3, tol=1e-9, max_iter=3, random_state=0), shards)
    again = BCFWSSVM(C=0.3)
    data = read_training_data(again, X, y, weight)
    problem = again._make_problem(data)
    w = Weights(svm.node_weights_, svm.pair_weights_)
    value = hinge_value(problem, w, data.sample_weight, data.lam, 1)
    assert svm.objective_ == pytest.approx(value.objective, rel=1e-12)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_files_are_gone_after_errors(shards, monkeypatch, error):
    before = _files(shards)

    def fail(self, *args):
        assert _files(shards) != before
        raise error("now")

    monkeypatch.setattr(bcfw.BCFWBlocks, "accepted", fail)
    with pytest.raises(error, match="now"):
        BCFWSSVM(C=0.3, random_state=0).fit(shards)
    assert _files(shards) == before


def test_where_shards_are_read_only(tmp_path):
    local = checkpoint.make_folder(tmp_path / "absent", True)
    assert local.is_dir()
    checkpoint.remove_folder(local)
    assert not local.exists()
    with pytest.raises(OSError, match="checkpoint=, a folder that all see"):
        checkpoint.make_folder(tmp_path / "absent", False)


@pytest.mark.parametrize("damage", ["short", "long", "other", "flipped"])
def test_damaged_states_are_seen(tmp_path, damage):
    template = (np.zeros(2), (np.zeros((2, 2)),))
    path = tmp_path / "state"
    checkpoint.write_dual(path, (np.ones(3), (np.zeros((1, 2)),)))
    assert store.read_tree(path, template)[0].tolist() == [1.0] * 3
    if damage == "short":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "long":
        path.write_bytes(path.read_bytes() + b"x")
    elif damage == "flipped":
        content = bytearray(path.read_bytes())
        content[-10] ^= 1
        path.write_bytes(content)
    else:
        checkpoint.write_dual(path, (np.ones(3, dtype=np.int32), (np.zeros((1, 2)),)))
    with pytest.raises(ValueError, match=f"{path} is"):
        store.read_tree(path, template)


def test_after_a_restart_the_state_before_keeps_its_files(tmp_path):
    names = [checkpoint.DualFiles(tmp_path).path(number, 0) for number in range(1, 6)]

    def there():
        return [path.exists() for path in names]

    first = checkpoint.DualFiles(tmp_path)
    for number in (1, 2):
        checkpoint.write_dual(names[number - 1], (np.zeros(1),))
        first.keep([number])
    second = checkpoint.DualFiles(tmp_path)
    second.require([2])
    for number in (3, 4):
        checkpoint.write_dual(names[number - 1], (np.zeros(1),))
        second.keep([number])
        # What is being saved may never be there, and the last one may be damaged.
        assert there()[number - 3 : number] == [True] * 3
    assert there() == [False, True, True, True, False]


@pytest.mark.parametrize("kind", EACH)
def test_a_checkpoint_goes_on_bit_for_bit(shards, tmp_path, monkeypatch, kind, grouped):
    monkeypatch.setattr("skstruct.distributed.checkpoint.Keeper.SHARE", np.inf)
    options = {"C": 0.3, "tol": 1e-9, "random_state": 0, "gap_every": 3}
    each = 3 if kind is BCFWSSVM else 1  # passes of a round
    whole = _quietly(kind(max_iter=9 * each, **options), shards)
    for stop in (4 * each, 9 * each):
        parts = _quietly(kind(max_iter=stop, **options), shards, checkpoint=tmp_path / "folder")
    assert np.array_equal(parts.node_weights_, whole.node_weights_)
    assert np.array_equal(parts.pair_weights_, whole.pair_weights_)
    assert parts.dual_objective_ == whole.dual_objective_
    assert parts.n_iter_ == whole.n_iter_
    duals = list((tmp_path / "folder").glob("*.dual"))
    assert shards.n_shards <= len(duals) <= 3 * shards.n_shards


@pytest.mark.parametrize("damage", ["torn", "flipped", "missing", "of both states"])
def test_the_state_before_is_gone_on_from_if_dual_points_are_damaged(
    shards, tmp_path, monkeypatch, damage
):
    monkeypatch.setattr("skstruct.distributed.checkpoint.Keeper.SHARE", np.inf)
    options = {"C": 0.3, "tol": 1e-9, "random_state": 0, "gap_every": 3}
    whole = _quietly(BCFWSSVM(max_iter=15, **options), shards)
    _quietly(BCFWSSVM(max_iter=9, **options), shards, checkpoint=tmp_path / "folder")
    duals = sorted((tmp_path / "folder").glob("*.dual"))
    for path in duals if damage == "of both states" else duals[-1:]:
        content = bytearray(path.read_bytes())
        content[-10] ^= 1
        path.write_bytes(content[: len(content) // 2] if damage == "torn" else content)
        if damage == "missing":
            path.unlink()
    then = "starts from the beginning" if damage == "of both states" else "continues from round 2"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        svm = BCFWSSVM(max_iter=15, **options).fit(shards, checkpoint=tmp_path / "folder")
    assert any(f"missing or damaged; training {then}" in str(warning.message) for warning in seen)
    assert _same(svm, whole)


@pytest.mark.skipif(not Path("/proc/self/ns").exists(), reason="nobody says which processes run")
def test_folders_of_killed_drivers_go_with_the_next_fit(shards):
    program = """
        import os, signal, sys
        from pathlib import Path
        from skstruct.data.store import own

        for name in sys.argv[1:]:
            Path(name).mkdir()
            own(Path(name))
            Path(name, "a-00000001-000000.dual").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    before = _files(shards)
    left, foreign = shards.folder / ".rounds-left", shards.folder / ".rounds-foreign"
    command = [sys.executable, "-c", textwrap.dedent(program), str(left), str(foreign)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    owner = json.loads((foreign / "owner.json").read_text())
    (foreign / "owner.json").write_text(json.dumps(["another boot", *owner[1:]]))
    mine = checkpoint.make_folder(shards.folder, True)
    assert not left.exists()
    assert foreign.is_dir()
    BCFWSSVM(C=0.3, tol=0.5, random_state=0).fit(shards)
    assert mine.is_dir()
    shutil.rmtree(foreign)
    checkpoint.remove_folder(mine)
    assert _files(shards) == before


def test_folders_of_processes_that_proc_hides_stay(tmp_path, monkeypatch):
    """With hidepid=2, /proc has the processes of a user alone; the others can be signalled not."""
    store.own(tmp_path)
    owner = json.loads((tmp_path / "owner.json").read_text())
    if owner is None:
        pytest.skip("no /proc")
    owner[2:] = [2**22 + 1, "1"]  # beyond the largest number
    (tmp_path / "owner.json").write_text(json.dumps(owner))
    assert store.is_left(tmp_path)

    def refused(pid, number):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert not store.is_left(tmp_path)


class _StopInAPass:
    """Ends a fit between two rounds of its third pass."""

    def setup(self, estimator, context):
        self.epochs = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.epochs += context.task_name == "epoch"
        return context.task_name == "piece" and self.epochs == 2


def test_a_pass_that_was_stopped_in_the_middle_is_done_anew(shards, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "OPEN", 1)
    options = {"C": 0.3, "tol": 1e-9, "random_state": 0, "max_iter": 18}
    whole = _quietly(BCFWSSVM(**options), shards)
    with monkeypatch.context() as patch:
        patch.setattr("skstruct.distributed.checkpoint.Keeper.SHARE", np.inf)
        patch.setattr("skstruct.core.parallel.Pieces.SECONDS", 0.0)
        patch.setattr("skstruct.estimators.base._LONG_PASS", 0.0)
        stopped = BCFWSSVM(**options).set_callbacks(_StopInAPass())
        stopped.fit(shards, checkpoint=tmp_path / "folder")
    assert stopped.n_iter_ == 3
    found = _quietly(BCFWSSVM(**options), shards, checkpoint=tmp_path / "folder")
    assert np.array_equal(found.node_weights_, whole.node_weights_)
    assert found.dual_objective_ == whole.dual_objective_


@pytest.mark.parametrize("n_passes", [1, 4])
def test_rounds_of_other_numbers_of_passes(shards, n_passes):
    class Other(BCFWSSVM):
        _passes_of_round = n_passes

    svm = Other(C=0.3, tol=1e-2, random_state=0).fit(shards)
    assert svm.suboptimality_ <= 1e-2


def test_extrapolation_is_that_of_the_fit_in_memory(samples, tmp_path):
    """One shard, in one part, is visited as the samples in memory are: the same dual bounds."""
    X, y, _ = samples
    options = {"C": 1.0, "tol": 1e-12, "max_iter": 30, "random_state": 0, "gap_every": 3}
    shards = pack_shards(X, y, tmp_path / "one", shard_size=24)
    found = _quietly(BCFWSSVM(**options), shards)
    slow = _quietly(_NotAhead(**options), shards)
    optimum = BCFWSSVM(C=1.0, tol=1e-7, random_state=0, max_iter=5000).fit(X, y).objective_
    left, left_slow = optimum - found.dual_objective_, optimum - slow.dual_objective_
    assert 0.0 < left < 0.75 * left_slow


def test_certificates_of_gdmm_are_due_by_passes(shards):
    class Long(GDMMSSVM):
        _passes_of_round = 8

    svm = _quietly(Long(gap_every=10, max_iter=56, tol=0.0, random_state=0), shards)
    # Rounds end after 8, 16, ... passes: in the first and in the sixth no tenth pass ends.
    measured = np.isfinite(svm.history_["objective"]).tolist()
    assert measured == [False, True, True, True, True, False, True]


@pytest.mark.parametrize("kind", [CasimirSSVM, ExtragradientSSVM, ProxLinearSSVM, SubgradientSSVM])
def test_other_svms_name_those_that_train_on_shards(shards, kind):
    with pytest.raises(TypeError, match=f"{kind.__name__} needs all samples.*BCFWSSVM or GDMMSSVM"):
        kind().fit(shards)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warm_start": True}, "warm_start must be False"),
        ({"averaging": True}, "averaging must be False"),
        ({"sampling": "gap"}, "sampling must be"),
    ],
)
def test_what_is_not_for_shards_is_refused(shards, options, message):
    with pytest.raises(ValueError, match=message):
        BCFWSSVM(**options).fit(shards)


def test_attractive_interactions_are_refused(tmp_path):
    X = [(np.eye(2), np.array([[0, 1]]))] * 2
    graph = Pairwise(attractive=True)
    shards = pack_shards(X, [[0, 1], [1, 0]], tmp_path / "s", graph=graph)
    for kind in SVMS:
        with pytest.raises(ValueError, match="cannot be kept attractive"):
            kind(graph=graph).fit(shards)


def test_forbidden_pairs(samples, tmp_path):
    X, y, _ = samples
    graph, y = Chain(forbidden=[("a", "b")]), [labels.copy() for labels in y]
    for labels in y:
        labels[1:][(labels[:-1] == "a") & (labels[1:] == "b")] = "c"
    shards = pack_shards(X, y, tmp_path / "s", shard_size=5, graph=graph)
    options = {"C": 0.1, "tol": 1e-2, "max_iter": 400, "random_state": 0}
    bounds = []
    for kind in SVMS:
        svm = kind(graph=graph, **options).fit(shards)
        bounds.append((svm.dual_objective_, svm.objective_))
    assert max(dual for dual, _ in bounds) <= min(objective for _, objective in bounds)


def test_overflow_names_the_shard(tmp_path):
    X = [sparse.csr_matrix(np.full((2, 1), size)) for size in (1.0, 1e200)]
    shards = pack_shards(X, [["a", "b"], ["b", "a"]], tmp_path / "s", shard_size=1, graph=Chain())
    before = _files(shards)
    with (
        np.errstate(all="ignore"),
        pytest.raises(FloatingPointError, match=r"shard [01]: the (loss|objective)"),
    ):
        BCFWSSVM(C=1e150, random_state=0).fit(shards)
    assert _files(shards) == before


def test_gathered_weights_are_not_written_to(source):
    """Threads get the driver's own tables."""
    w = zero_weights(source.open(0).shapes)
    for table in w.tables:
        table.flags.writeable = False
    local = LocalBCFW(BCFWChoices("permutation", 20, 30, False))
    turn = Turn(0, 0, None, None, 1, 1, 7, 0.1, source.n_samples)
    assert measure(local, source, [turn], Tables(*w.tables))[0][0][0] > 0.0
    assert Engine(None).is_local


@pytest.mark.slow
def test_messages_of_relaxations_are_forgotten(tmp_path, monkeypatch):
    """A worker that opens a shard anew does what one that had it does."""
    rng = np.random.default_rng(0)
    edges = np.array([(a, b) for a in range(4) for b in range(a)])
    X = [(rng.normal(size=(4, 3)), edges) for _ in range(6)]
    y = [rng.integers(3, size=4) for _ in range(6)]
    graph = Pairwise(inference="lp")
    shards = pack_shards(X, y, tmp_path / "s", shard_size=3, graph=graph)
    options = {"C": 0.3, "tol": 1e-9, "max_iter": 9, "random_state": 0}
    known = _quietly(BCFWSSVM(graph, **options), shards)
    monkeypatch.setattr("skstruct.distributed.shard.LIMIT", 1)
    found = _quietly(BCFWSSVM(graph, **options), shards)
    assert _same(known, found)


def _transposed_product(features, table, shape):
    """``X' T`` for the feature rows X, the constant feature included."""
    out = np.zeros(shape)
    product = _rows(features, shape[0]).T @ table
    out[: len(product)] = product
    if features.intercept >= 0:
        out[features.intercept] += table.sum(axis=0)
    return out


def _implied_weights(run, sets):
    """The weights of the active sets of a dual point: ``sum_f C_f A_f' (mu(y_f) - q_f)``."""
    graph, (nodes, edges, _), n_labels = run.graph, sets, run.graph.cost.shape[0]

    def of_truth(lists, true, lengths, width):
        owner, place = places_of(lists.start, lists.size)
        table = np.zeros((lists.size.size, width))
        table[np.arange(true.size), true] = 1.0
        np.subtract.at(table, (owner, lists.key[place]), lists.share[place])
        return table * np.repeat(run.reach, lengths)[:, None]

    table = of_truth(nodes, graph.labels, np.diff(graph.node_ptr), n_labels)
    node = _transposed_product(graph.nodes, table, run.shapes[0])
    pairs = graph.labels[graph.ends].astype(np.int64) @ (n_labels, 1)
    table = of_truth(edges, pairs, np.diff(graph.edge_ptr), n_labels * n_labels)
    if not run.own:
        return node, table.sum(axis=0).reshape(run.shapes[1])
    of_columns = np.zeros((len(table), run.shapes[1][1] + 1))
    np.add.at(of_columns.T, graph.column.ravel(), table.T)
    shape = run.shapes[1][0], of_columns.shape[1]
    return node, _transposed_product(graph.edges, of_columns, shape)[:, :-1]


def _check_implied(rounds):
    """Compare the weights of rounds of GDMM with those of the dual points in files."""
    known = [np.zeros(shape) for shape in rounds.shapes]
    for k in np.flatnonzero(rounds.current).tolist():
        with leased(rounds.source, k) as shard:
            run = rounds.local._run(shard, rounds.lam * rounds.n)
            sets = store.read_tree(rounds.files.path(int(rounds.current[k]), k), run.sets)
            for table, more in zip(known, _implied_weights(run, sets), strict=True):
                table += more
    for found, table in zip(rounds.w.tables, known, strict=True):
        assert found == pytest.approx(table, abs=1e-9)


def test_weights_of_long_rounds_of_gdmm_are_those_of_its_dual_points(shards, monkeypatch):
    class Long(GDMMSSVM):
        _passes_of_round = 2

    seen = []
    accepted = blocks.Blocks.accepted

    def check(self, share, mean):
        accepted(self, share, mean)
        _check_implied(self)
        seen.append(share)

    monkeypatch.setattr(blocks.Blocks, "accepted", check)
    _quietly(Long(max_iter=6, random_state=0), shards)
    assert len(seen) == 3


@pytest.mark.slow
@pytest.mark.parametrize("interactions", ["full", "potts"])
def test_gdmm_on_shards_with_edge_features(interactions, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    X, y = random_sequences(np.random.default_rng(7), n_samples=12)
    links = [np.array([(t, t + 1) for t in range(len(x) - 1)]).reshape(-1, 2) for x in X]
    X = [(x, ends, rng.normal(size=(len(ends), 2))) for x, ends in zip(X, links, strict=True)]
    graph = Pairwise(edge_features=True, interactions=interactions)
    checked = []
    accepted = blocks.Blocks.accepted

    def check(self, share, mean):
        accepted(self, share, mean)
        _check_implied(self)
        checked.append(share)

    monkeypatch.setattr(blocks.Blocks, "accepted", check)
    options = {"C": 0.3, "max_iter": 600, "tol": 1e-2, "random_state": 0}
    memory = GDMMSSVM(graph, algorithm="gdmm", **options).fit(X, y)
    files = pack_shards(X, y, tmp_path / "three", graph=graph, shard_size=4)
    svm = GDMMSSVM(graph, **options).fit(files)
    assert checked
    assert svm.dual_objective_ <= memory.objective_
    assert memory.dual_objective_ <= svm.objective_
    assert svm.suboptimality_ <= 1e-2
