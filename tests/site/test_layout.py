"""The plan of the house (doc/development/architecture.rst): imports run one way."""

import ast
import runpy
from pathlib import Path

import skstruct

PACKAGE = Path(skstruct.__file__).parent
DRAWING = Path(__file__).parents[2] / "doc" / "development" / "draw.py"

# What each room may import beside itself. `core.versions` names the package's version.
MAY_IMPORT = {
    "core": {"__version__"},
    "data": {"core", "lite"},
    "inference": {"core"},
    "rows": {"core"},
    "targets": {"core", "inference", "losses.task"},
    "spaces": {"core", "inference", "rows", "targets"},
    "scores": {"core"},
    "losses": {"core", "data", "inference"},
    "graphs": {"core", "data", "inference", "losses.task", "rows", "spaces", "targets"},
    "solvers": {"core", "data", "inference", "losses", "scores"},
    "distributed": {"core", "data", "solvers"},
    "shards": {"core", "data", "graphs"},
    "preprocessing": {"core", "data", "lite", "shards"},
    "datasets": {"core", "data", "inference", "shards"},
    "metrics": {"core", "data", "lite"},
    "inspection": {"core", "data", "metrics", "preprocessing"},
    "testing": {"core", "data", "graphs", "spaces"},
    "map_inference": {"core", "inference"},
    "torch": {
        "core", "data", "graphs", "inference", "losses", "rows", "scores", "solvers", "spaces",
        "targets",
    },
    "estimators": {
        "core", "data", "distributed", "graphs", "lite", "losses", "map_inference", "metrics",
        "pipeline", "preprocessing", "scores", "shards", "solvers", "targets", "torch",
    },
    "decoding": {
        "core", "data", "graphs", "inference", "lite", "losses", "solvers",
        "targets",
    },
    "online": {"core", "data", "decoding", "graphs", "inference"},
    "lite": set(),
    "callbacks": {"core", "data", "estimators"},
    "model_selection": {"core", "data", "graphs", "metrics"},
    "pipeline": {"core"},
}  # fmt: skip
# These stand above all others.
TOP = {"__init__", "__main__", "cli"}

# Estimators know a structure by what every `Graph` has; files of models are of certain ones.
OF_ALL_GRAPHS = {"graphs.Graph", "graphs.base", "graphs.registry"}
FILES_OF_MODELS = {"crfsuite", "exchange", "exporting", "wapiti"}

# Circles of imports that are known: regions name the kinds of factors for a type checker only.
CIRCLES = [{"map_inference.graph", "map_inference.regions"}]


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
    if room not in MAY_IMPORT.keys() | TOP:
        yield f"{file}: the plan has no room {room}"
    for name in _imports(file, tree):
        if room in MAY_IMPORT and not _is_in(name, MAY_IMPORT[room] | {room}):
            yield f"{file} imports {name}: {room} may import {sorted(MAY_IMPORT[room])} only"
        is_of_one = name.startswith("graphs.") and not _is_in(name, OF_ALL_GRAPHS)
        if room == "estimators" and file.stem not in FILES_OF_MODELS and is_of_one:
            yield f"{file} imports {name}: estimators name no structure"


def test_the_house_is_as_planned():
    broken = [line for file in _files() for line in _against_the_plan(file, _tree(file))]
    assert not broken, "\n".join(broken)


def _circles(imports):
    """Sets of modules that import one another, inside of functions or not."""

    def reach(module):
        found, left = set(), [module]
        while left:
            new = imports.get(left.pop(), set()) - found
            found |= new
            left += new
        return found

    reached = {module: reach(module) for module in imports}
    circles = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in imports
        if module in reached[module]
    }
    return sorted(map(set, circles), key=sorted)


def test_no_modules_import_one_another():
    names = {
        ".".join(file.with_suffix("").parts).removesuffix(".__init__"): file for file in _files()
    }
    imports = {}
    for module, file in names.items():
        found = _imports(file, _tree(file))
        inner = {name if name in names else name.rpartition(".")[0] for name in found}
        imports[module] = (inner & names.keys()) - {module}
    assert _circles(imports) == CIRCLES


def test_circles_are_seen():
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]


def test_imports_against_the_plan_are_seen():
    for file, text, n_broken in [
        ("solvers/bcfw/solver.py", "from ...core.weights import split", 0),
        ("solvers/bcfw/solver.py", "from ...graphs.chain import Chain", 1),
        ("solvers/bcfw/solver.py", "from ... import Chain", 1),
        ("solvers/sgd.py", "import skstruct.estimators.base", 1),
        ("solvers/run.py", "from ..distributed.checkpoint import Keeper", 1),
        ("graphs/base.py", "def f():\n    from ..solvers import sampling", 1),
        ("graphs/base.py", "from ..losses.task import cost_matrix", 0),
        ("graphs/base.py", "from ..losses.log import log_loss", 1),
        ("inference/tree.py", "from ..graphs import Tree", 1),
        ("core/weights.py", "from ..data import packing\nfrom .jit.kernels import kernel", 1),
        ("estimators/crf.py", "from ..graphs.base import Graph\nfrom ..graphs import Graph", 0),
        ("estimators/crf.py", "from ..graphs.chain import Chain", 1),
        ("estimators/svm_gdmm.py", "from ..graphs import MultiLabel", 1),
        ("cli/tagging.py", "from ..graphs import MultiLabel", 0),
        ("inspection/tables.py", "from ..graphs import MultiLabel", 1),
        ("lite.py", "from .core import oracles", 1),
        ("cellar/wine.py", "", 1),
    ]:
        assert len(list(_against_the_plan(Path(file), ast.parse(text)))) == n_broken, (file, text)


def test_the_picture_of_the_house_is_drawn_from_the_imports():
    drawing = runpy.run_path(str(DRAWING))
    assert drawing["FILE"].read_text(encoding="utf-8") == drawing["picture"](), "run draw.py"
    found = drawing["imports"]()
    for room, others in found.items():
        files = [file for file in _files() if _room(file) == room]
        names = {name.partition(".")[0] for file in files for name in _imports(file, _tree(file))}
        assert others == (names & found.keys()) - {room}
    for room, other in drawing["arrows"](found):  # straight down, from side to side of both
        (above, *ours, _), (below, *theirs, _) = drawing["ROOMS"][room], drawing["ROOMS"][other]
        assert above < below
        assert max(ours[0], theirs[0]) < min(ours[1], theirs[1])
