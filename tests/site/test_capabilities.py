"""The page of what works with what is what its generator finds."""

import subprocess
import sys
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "doc"


@pytest.mark.slow
def test_the_page_is_current():
    command = [sys.executable, str(DOC / "capabilities.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + "run doc/capabilities.py and look at what changed"
