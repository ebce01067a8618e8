"""The plan of the house (CONTRIBUTING.md): imports run one way."""

import ast
from pathlib import Path

import pytest

import skstruct

PACKAGE = Path(skstruct.__file__).parent

# What each room may import beside itself; rooms that are not listed here stand above all of these.
MAY_IMPORT = {
    "typing": set(),
    "sklearn_private": set(),
    "core": set(),
    "data": {"core", "typing", "sklearn_private"},
    "inference": {"core"},
    "docstrings": set(),
    "scores": {"docstrings"},
    "losses": {"core", "data", "inference"},
    "graphs": {"core", "data", "docstrings", "inference", "losses.task", "typing"},
    "predict": {"core", "data", "inference", "losses"},
    "solvers": {"core", "data", "inference", "losses", "predict", "scores"},
}

# Estimators know a structure by what every `Graph` has.
NAME_NO_STRUCTURE = {"base", "prediction", "crf", "ssvm"}
OF_ALL_GRAPHS = {"graphs.Graph", "graphs.base", "graphs.registry"}


def _files():
    return [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]


def _tree(file):
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def _imports(file, tree):
    """Names that a file imports from the package, such as ``graphs.base.Graph``."""
    here = ["skstruct", *file.parent.parts]
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            module = above + (node.module.split(".") if node.module else [])
            names = [[*module, alias.name] for alias in node.names]
        yield from (".".join(name[1:]) for name in names if name[0] == "skstruct" and name[1:])


def _room(file):
    return file.parts[0].removesuffix(".py")


def _is_in(name, places):
    return any(name == place or name.startswith(f"{place}.") for place in places)


def _against_the_plan(file, tree):
    room = _room(file)
    for name in _imports(file, tree):
        if room in MAY_IMPORT and not _is_in(name, MAY_IMPORT[room] | {room}):
            yield f"{file} imports {name}: {room} may import {sorted(MAY_IMPORT[room])} only"
        is_of_one = name.startswith("graphs.") and not _is_in(name, OF_ALL_GRAPHS)
        if room in NAME_NO_STRUCTURE and is_of_one:
            yield f"{file} imports {name}: estimators name no structure"


def test_the_house_is_as_planned():
    broken = [line for file in _files() for line in _against_the_plan(file, _tree(file))]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("file", "text", "n_broken"),
    [
        ("solvers/sag/solver.py", "from ...core.weights import split", 0),
        ("solvers/sag/solver.py", "from ...graphs.chain.graph import Chain", 1),
        ("solvers/sag/solver.py", "from ... import Chain", 1),
        ("solvers/sgd.py", "import skstruct.base", 1),
        ("graphs/base.py", "def f():\n    from ..solvers import sampling", 1),
        ("graphs/base.py", "from ..losses.task import cost_matrix", 0),
        ("graphs/base.py", "from ..losses.log import log_loss", 1),
        ("inference/tree.py", "from ..graphs import Tree", 1),
        ("core/weights.py", "from ..data import packing\nfrom .dispatch import kernel", 1),
        ("crf.py", "from .graphs.base import Graph\nfrom .graphs import Graph", 0),
        ("crf.py", "from .graphs.chain.graph import Chain", 1),
        ("ssvm/gdmm.py", "from ..graphs import MultiLabel", 1),
        ("inspection/tables.py", "from ..graphs import MultiLabel", 0),
    ],
)
def test_imports_against_the_plan_are_seen(file, text, n_broken):
    assert len(list(_against_the_plan(Path(file), ast.parse(text)))) == n_broken
