"""The plan of the house (CONTRIBUTING.md): imports run one way, files and functions stay short."""

import ast
from pathlib import Path

import pytest

import skstruct

PACKAGE = Path(skstruct.__file__).parent
MOST_LINES, MOST_LINES_OF_CODE = 500, 60

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


def _lines_of_code(function):
    """Lines of a function; its docstring counts as one."""
    docstring = ast.get_docstring(function) or ""
    return function.end_lineno - function.lineno + 1 - docstring.count("\n")


def _too_long(file, tree):
    n_lines = len((PACKAGE / file).read_text(encoding="utf-8").splitlines())
    if n_lines > MOST_LINES:
        yield f"{file} has {n_lines} lines, {MOST_LINES} at most"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            n_lines = _lines_of_code(node)
            if n_lines > MOST_LINES_OF_CODE:
                yield f"{file}: {node.name} has {n_lines} lines of code"


@pytest.mark.parametrize("rule", [_against_the_plan, _too_long])
def test_the_house_is_as_planned(rule):
    broken = [line for file in _files() for line in rule(file, _tree(file))]
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


def test_lines_of_code_leave_out_the_docstring():
    (function,) = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n').body
    assert _lines_of_code(function) == 4


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "doc", "examples"])
def test_other_files_are_short_too(folder):
    place = Path(__file__).parent.parent / folder
    if not place.is_dir():  # an installed package
        pytest.skip(f"there is no {folder}")
    built = "auto_examples", "_build", "generated"
    files = [path for path in place.rglob("*.py") if not {*built} & {*path.parts}]
    long = {f.name: n for f in files if (n := len(f.read_text("utf-8").splitlines())) > MOST_LINES}
    assert files
    assert not long
