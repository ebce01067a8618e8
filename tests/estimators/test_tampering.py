"""Models from damaged or hostile files, or changed in memory: an error or a model that works."""

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF
from skstruct.datasets import pack_shards
from skstruct.distributed import checkpoint
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [BCFWSSVM, GDMMSSVM, SAGCRF])
def test_damage_of_any_file_of_a_checkpoint_changes_no_bit(tmp_path, monkeypatch, kind):
    """A flipped bit, or an end that is missing: warned of, and never in a bound."""
    monkeypatch.setattr(checkpoint.Keeper, "SHARE", np.inf)
    data = random_sequences(np.random.default_rng(7), n_samples=6)
    shards = pack_shards(*data, tmp_path / "shards", shard_size=3)
    each = 3 if kind is BCFWSSVM else 1  # passes of a round
    model = kind(C=3.0, tol=1e-12, max_iter=5 * each, random_state=0).fit(shards)
    known = vars(model)["node_weights_"].copy(), model.dual_objective_, model.objective_
    model.set_params(max_iter=3 * each).fit(shards, checkpoint=tmp_path / "states")
    rng, copy = np.random.default_rng(0), tmp_path / "copy"
    for path in sorted((tmp_path / "states").iterdir()):
        for is_torn in (False, True):
            shutil.copytree(tmp_path / "states", copy)
            content = bytearray(path.read_bytes())
            at = int(rng.integers(len(content)))
            content[at] ^= 1 << int(rng.integers(8))
            (copy / path.name).write_bytes(content[:at] if is_torn else content)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                model.set_params(max_iter=5 * each).fit(shards, checkpoint=copy)
            is_of_last = path.name in _of_last(tmp_path / "states")
            assert any("missing or damaged" in str(w.message) for w in seen) == is_of_last, path
            np.testing.assert_array_equal(model.node_weights_, known[0])
            assert (model.dual_objective_, model.objective_) == known[1:]
            shutil.rmtree(copy)


def _of_last(folder):
    """Names of the last state, and of all files that it needs."""
    path = max(folder.glob("round-*.json"))
    state = json.loads(path.read_text())
    names = {entry["file"] for part in ("arrays", "constant") for entry in state[part].values()}
    if duals := sorted(folder.glob("a-*.dual")):
        names |= {dual.name for dual in duals if dual.name[:10] == duals[-1].name[:10]}
    return names | {path.name}
