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
