"""The guide: its lines fit, the index lists all chapters, and every public class is in one."""

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from skstruct import SAGCRF
from skstruct.callbacks import TimeLimit
from skstruct.estimators import base
from skstruct.testing import random_sequences

DOC = Path(__file__).parents[2] / "doc"
GUIDE = DOC / "guide"
CHAPTERS = sorted(path for path in GUIDE.glob("*.rst") if path.stem != "index")
# Chapters beside the folder.
_NAMES = "getting_started imperfect_labels scale small_models text text_accuracy".split()
PAGES = [DOC / f"{name}.rst" for name in _NAMES]
_MODULES = (
    *("", ".callbacks", ".datasets", ".graphs", ".inspection", ".map_inference"),
    *(".preprocessing", ".scores", ".estimators"),
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Its kernels are in no file, so that every process would compile them and the solvers around them.
PLAIN = GUIDE / "own_solver.rst"
# Lists to look things up in: no idea that could be drawn; a diagram in text, with links.
WITHOUT_FIGURE = {"choosing", "integrations", "recipes", "variants", "workflow"}


@pytest.mark.slow
def test_code_of_own_losses_and_solvers_runs_as_plain_python():
    run = f"import doctest; print(doctest.testfile({str(PLAIN)!r}, False, optionflags={FLAGS}))"
    options = {"capture_output": True, "text": True, "timeout": 300, "cwd": DOC.parent}
    done = subprocess.run(
        [sys.executable, "-c", run], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, **options
    )
    assert re.search(r"failed=0, attempted=[1-9]", done.stdout), done.stdout + done.stderr


def test_the_solver_of_the_guide_measures_anew_what_a_callback_cut(monkeypatch):
    """A part of the sum over samples is no objective, and must not be certified as one."""
    examples = doctest.DocTestParser().get_examples(PLAIN.read_text(encoding="utf-8"))
    classes = [e.source for e in examples if "GradientDescent" in e.source]
    names = {"np": np, "SAGCRF": SAGCRF}
    imports = [e.source for e in examples if e.source.startswith("from skstruct.")]
    exec("".join(imports + classes), names)
    monkeypatch.setattr(base, "_LONG_PASS", 0.0)  # callbacks hear of the pieces of any pass
    X, y = random_sequences(np.random.default_rng(0), n_samples=400)
    cut = names["GradientCRF"](max_iter=5).set_callbacks(TimeLimit(1e-9)).fit(X, y)
    assert not cut.node_weights_.any()
    n_nodes = sum(map(len, y))
    at_zero = n_nodes * np.log(len(cut.classes_)) / len(X)
    assert cut.objective_ == pytest.approx(at_zero, rel=1e-9)
    assert cut.dual_objective_ <= SAGCRF(tol=1e-6).fit(X, y).objective_ <= cut.objective_


@pytest.mark.slow
def test_the_template_of_a_structure_runs_and_its_error_is_the_one_shown(tmp_path):
    page = (DOC / "own_structure.rst").read_text(encoding="utf-8")
    (block,) = re.findall(r"^   :caption: one_event\.py\n\n((?:   .*\n|\n)+)", page, re.M)
    (shown,) = re.findall(r"^   (TypeError: max_oracle of OneEvent .*(?:\n   .*)+)$", page, re.M)
    path, code = tmp_path / "one_event.py", textwrap.dedent(block)

    def run():
        command = [sys.executable, str(path)]
        env = os.environ | {"PYTHONPATH": str(DOC.parent)}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)

    path.write_text(code, encoding="utf-8")
    assert f"It prints ``{run().stdout.strip()}``." in page
    path.write_text(code.replace("label_ptr[i]\n", "label_prt[i]\n"), encoding="utf-8")
    assert run().stderr.splitlines()[-1] == " ".join(shown.split())


def test_code_fits_the_page():
    """At 1280 pixels a block of code has room for 94 characters."""
    lines = []
    for chapter in [*CHAPTERS, *PAGES]:
        text = chapter.read_text(encoding="utf-8")
        blocks = re.findall(r"\.\. code-block:: \w+\n((?:    .*\n|\n)+)", text)
        lines += [(chapter.stem, line[4:]) for block in blocks for line in block.splitlines()]
        shown = [line for line in text.splitlines() if line.startswith((">>>", "..."))]
        lines += [(chapter.stem, line) for line in shown]
    assert [found for found in lines if len(found[1]) > 94] == []


def test_chapters_end_with_where_to_go():
    """A reader is never left without a next page; lists to look things up in have no end."""
    looked_up = {"glossary", "pitfalls", "recipes"}
    without = {
        chapter.stem
        for chapter in [*CHAPTERS, *PAGES]
        if not re.search(r"^Next", "\n".join(chapter.read_text("utf-8").split("\n")[-15:]), re.M)
    }
    assert without <= looked_up


def _listed():
    """Pages that the tables of contents of the guide name."""
    text = (GUIDE / "index.rst").read_text(encoding="utf-8")
    return [
        DOC / f"{name[1:]}.rst" if name.startswith("/") else GUIDE / f"{name}.rst"
        for table in re.findall(r"\.\. toctree::\n((?:   .*\n|\n)+)", text)
        for name in re.findall(r"^   (/?[a-z_]+)$", table, re.M)
    ]


def test_every_chapter_is_in_the_index_once():
    listed = _listed()
    assert len(listed) == len(set(listed))
    assert set(CHAPTERS) <= set(listed)
    assert all(path.is_file() for path in listed)


def test_every_chapter_has_a_figure():
    for path in CHAPTERS:
        if path.stem in WITHOUT_FIGURE:
            continue
        figures = re.findall(r"\.\. figure:: (\S+)", path.read_text(encoding="utf-8"))
        assert figures, path.name
        for figure in figures:
            drawn = DOC / figure[1:] if figure.startswith("/") else path.parent / figure
            assert drawn.is_file(), f"{path.name}: {figure}"
            assert drawn.stat().st_size < 30_000, f"{figure} is larger than a few kilobytes"


def _public_classes():
    for path in _MODULES:
        module = importlib.import_module(f"skstruct{path}")
        for name in getattr(module, "__all__", None) or dir(module):
            item = getattr(module, name)
            if inspect.isclass(item) and item.__module__.startswith("skstruct."):
                yield name


def test_every_public_class_is_mentioned():
    text = " ".join(path.read_text(encoding="utf-8") for path in _listed())
    words = set(re.findall(r"\w+", text))
    missing = sorted(set(_public_classes()) - words)
    assert not missing
