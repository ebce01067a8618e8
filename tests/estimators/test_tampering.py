"""Models from damaged or hostile files, or changed in memory: an error or a model that works."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skstruct import BCFWSSVM, SAGCRF
from skstruct.data.store import sealed
from skstruct.datasets import pack_shards
from skstruct.solvers.rounds import checkpoint
from skstruct.testing import random_sequences


@pytest.mark.slow
def test_no_change_of_a_model_ends_in_a_crash_or_in_garbage():
    pytest.importorskip("skops.io")
    script = Path(__file__).parents[1] / "helpers" / "tamper.py"
    # In a process of its own: a crash is then a failed test, not the end of all of them.
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", script, "25"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert sum(counts.values()) == 3 * 3 * 25
    assert counts["refused"] > 80
    assert counts["worked"] > 8


# Numbers that nothing else follows from, and arrays that have no elements: any of them will do.
_FREE = {
    "BCFWSSVM": {"mean", "past", "dual 2", "dual 3", "dual 8", "dual 9", "dual 10"},
    "GDMMSSVM": {"losses", "measured", *(f"dual {q}" for q in (5, 6, 13, 14, 21, 22))},
    "SAGCRF": set(),
}


@pytest.mark.slow
def test_no_change_of_a_checkpoint_ends_in_a_crash_or_in_a_bound_that_is_none():
    # Without an argument the script tries all changes of all arrays.
    script = Path(__file__).parents[1] / "helpers" / "tamper_checkpoints.py"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", script, "2"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert len(outcomes) > 90
    for what, outcome in outcomes.items():
        kind, name = what.rpartition(" ")[0].split(" ", 1)
        assert outcome == "warned" or name in _FREE[kind], what


@pytest.mark.parametrize("gap_every", [6, 100])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [BCFWSSVM, SAGCRF])
def test_recorded_bounds_of_a_checkpoint_are_bounds(tmp_path, monkeypatch, kind, gap_every):
    monkeypatch.setattr(checkpoint.Keeper, "SHARE", np.inf)
    data = random_sequences(np.random.default_rng(7), n_samples=6)
    shards = pack_shards(*data, tmp_path / "shards", shard_size=3)
    more = {"gap_every": gap_every} if kind is BCFWSSVM else {}
    each = 3 if kind is BCFWSSVM else 1  # passes of a round
    model = kind(tol=1e-12, max_iter=5 * each, random_state=0, **more).fit(shards)
    known = model.history_["dual_objective"].copy()
    model.set_params(max_iter=3 * each).fit(shards, checkpoint=tmp_path / "states")
    for round_ in (0, 1):
        folder = tmp_path / f"copy{round_}"
        shutil.copytree(tmp_path / "states", folder)
        path = max(folder.glob("round-*.json"))
        state = json.loads(path.read_text())
        state["numbers"]["records"]["dual_objective"][round_] += 100.0
        path.write_text(json.dumps(sealed(state)))
        with pytest.warns(UserWarning, match="missing or damaged; round 2 is gone on from"):
            model.set_params(max_iter=5 * each).fit(shards, checkpoint=folder)
        np.testing.assert_array_equal(model.history_["dual_objective"], known)
