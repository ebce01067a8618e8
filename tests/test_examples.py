"""The deployment example, as a user runs it: train, load in a new process, tag JSON lines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parent.parent / "examples" / "deploy"
LINES = [
    '[["Ada", "NNP"], ["Berg", "NNP"], ["signed", "VBD"], ["the", "DT"], ["deal", "NN"]]',
    "nonsense",
    "[]",
    '[["He"]]',
    '{"a": 1}',
]


def _run(*args, **options):
    done = subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, text=True, check=True, **options
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["joblib", "skops"])
def test_train_and_tag(tmp_path, suffix):
    if suffix == "skops":
        pytest.importorskip("skops.io")
    model = tmp_path / f"model.{suffix}"
    assert "entity F1 9" in _run(DEPLOY / "train.py", model)
    assert model.stat().st_size < 2e5
    answers = [
        json.loads(line)
        for line in _run(DEPLOY / "tag.py", model, input="\n".join(LINES)).splitlines()
    ]
    assert answers[0] == ["B-PER", "I-PER", "O", "O", "O"]
    assert "error" in answers[1]
    assert answers[2] == []
    assert "1 columns" in answers[3]["error"]
    assert "JSON list" in answers[4]["error"]
