"""Examples, as users run them, and the gallery: places, tags, links to what follows."""

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import joblib
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DEPLOY = EXAMPLES / "deploy"
PAGES = {
    path.relative_to(EXAMPLES).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(EXAMPLES.rglob("*.py"))
    if path.stem.startswith("plot_") or path.stem == "network_tagger"
}
OWN_STRUCTURE = EXAMPLES / "training" / "plot_own_structure.py"
API = ROOT / "doc" / "api"
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
    assert len(text.partition("# A fifth operation")[0].splitlines()) <= 120
    assert len(text.splitlines()) <= 150
    pages = "\n".join(page.read_text(encoding="utf-8") for page in API.rglob("*.rst"))
    listed = {"core.oracles", *re.findall(r"^   ([\w.]+)$", pages, re.M)}
    imported = {
        f"{node.module}.{alias.name}".removeprefix("skstruct.")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skstruct")
        for alias in node.names
    }
    assert imported <= listed


@pytest.mark.slow
def test_the_chapter_on_deployment_serves_features_of_ones_own(tmp_path, monkeypatch):
    """Its three files, trained in one process and loaded in another."""
    chapter = (ROOT / "doc" / "guide" / "deployment.rst").read_text(encoding="utf-8")
    files = re.findall(r"^    :caption: (\w+\.py)\n\n((?:    .*\n|\n)+)", chapter, re.M)
    assert [name for name, _ in files] == ["features.py", "train.py", "serve.py"]
    for name, code in files:
        (tmp_path / name).write_text(textwrap.dedent(code), encoding="utf-8")
    (promised,) = re.findall(r"  # (\[.*\])$", files[2][1], re.M)
    package = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
    _run("train.py", **package)
    assert _run("serve.py", **package).strip() == promised
    # What the chapter says of a file of skops.
    skops_io = pytest.importorskip("skops.io")
    monkeypatch.syspath_prepend(tmp_path)
    stored = skops_io.dumps(joblib.load(tmp_path / "model.joblib"))
    assert "features.as_dicts" in skops_io.get_untrusted_types(data=stored)
    monkeypatch.delitem(sys.modules, "features")


def test_every_page_has_its_place_in_the_gallery():
    """Those that the configuration does not name would stand at the end of their section."""
    text = (ROOT / "doc" / "conf.py").read_text(encoding="utf-8")
    (order,) = re.findall(r"^_GALLERY = (\{.*?^\})", text, re.M | re.S)
    order = ast.literal_eval(order)
    listed = [f"{section}/{name}" for section, names in order.items() for name in names.split()]
    assert len(listed) == len(set(listed))
    named = {name.replace("plot_", "") for name in PAGES if "/" in name}
    assert set(listed) == named


def test_tags_are_those_of_the_index():
    """A task or a topic and a structure per page; the index lists all, in an order of its own."""
    header = (EXAMPLES / "GALLERY_HEADER.rst").read_text(encoding="utf-8")
    listed = json.loads(re.search(r"data-sgtags='(.*?)'", header, re.S)[1])
    used = set()
    for name, text in PAGES.items():
        tags = json.loads(re.search(r"^# sphinx_gallery_tags = (\[.*\])$", text, re.M)[1])
        structures = [tag for tag in tags if tag[0].isupper() and tag != "MAP inference"]
        assert structures or "own structure" in tags, name
        assert set(tags) - set(structures), name
        used |= set(tags)
    assert len(listed) == len(set(listed))
    assert used == set(listed)


def test_pages_end_with_where_to_go():
    """But the one whose lines are counted: it begins with a link to its chapter."""
    for name in PAGES.keys() - {"training/plot_own_structure"}:
        last = PAGES[name].rpartition("\n# %%\n")[2]
        assert last.startswith("# **Next:**"), name
        links = re.findall(r":doc:`/([\w/]+)`", last)
        pages = {f"auto_examples/{page}" for page in PAGES} - {f"auto_examples/{name}"}
        there = [k in pages or (ROOT / "doc" / f"{k}.rst").is_file() for k in links]
        assert there, name
        assert all(there), name
