"""Examples, as users run them: a model that is deployed, a structure of one's own."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import joblib
import pytest

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "examples" / "deploy"
OWN_STRUCTURE = ROOT / "examples" / "training" / "plot_own_structure.py"
API = ROOT / "doc" / "api.rst"
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
def test_train_and_tag(tmp_path, monkeypatch):
    pytest.importorskip("skops.io")
    monkeypatch.syspath_prepend(DEPLOY)
    import tag

    stored, model = tmp_path / "model.skops", tmp_path / "model.joblib"
    assert "entity F1 9" in _run(DEPLOY / "train.py", stored)
    assert stored.stat().st_size < 2e5
    # Either format is read once, in one process more than that of training.
    joblib.dump(tag.load(stored), model)
    answers = [
        json.loads(line)
        for line in _run(DEPLOY / "tag.py", model, input="\n".join(LINES)).splitlines()
    ]
    assert answers[0] == ["B-PER", "I-PER", "O", "O", "O"]
    assert "error" in answers[1]
    assert answers[2] == []
    assert "1 columns" in answers[3]["error"]
    assert "JSON list" in answers[4]["error"]


# The gallery's build runs it, and doc/check_build.py looks that it did.
def test_the_structure_of_the_gallery_is_short_and_made_of_public_names():
    text = OWN_STRUCTURE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    listed = {"core.oracles", *re.findall(r"^   ([\w.]+)$", API.read_text(encoding="utf-8"), re.M)}
    imported = {
        f"{node.module}.{alias.name}".removeprefix("skstruct.")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skstruct")
        for alias in node.names
    }
    assert imported <= listed
