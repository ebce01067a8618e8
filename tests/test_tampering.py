"""Models from damaged or hostile files, or changed in memory: an error or a model that works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_no_change_of_a_model_ends_in_a_crash_or_in_garbage():
    pytest.importorskip("skops.io")
    script = Path(__file__).with_name("tamper.py")
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
    "BCFWSSVM": {"mean", "dual 2", "dual 3", "dual 8", "dual 9", "dual 10"},
    "GDMMSSVM": {"losses", "measured", *(f"dual {q}" for q in (5, 6, 13, 14, 21, 22))},
    "SAGCRF": set(),
}


@pytest.mark.parametrize(
    "changes",
    [
        ["value"],
        pytest.param(["shape", "empty", "dtype", "minus", "large"], marks=pytest.mark.slow),
    ],
)
def test_no_change_of_a_checkpoint_ends_in_a_crash_or_in_a_bound_that_is_none(changes):
    script = Path(__file__).with_name("tamper_checkpoints.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", script, *changes], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert len(outcomes) > 45 * len(changes)
    for what, outcome in outcomes.items():
        kind, name = what.rpartition(" ")[0].split(" ", 1)
        assert outcome == "warned" or name in _FREE[kind], what
