"""Every public object has a numpydoc docstring that matches it, and examples that run."""

import doctest
import importlib.util
import inspect
import pkgutil
import pydoc
import re
import typing
from pathlib import Path

import pytest
from numba.core.registry import CPUDispatcher
from numpydoc.validate import validate
from sklearn.pipeline import Pipeline

import skstruct

# Short summaries may describe the result; not every helper needs the optional sections.
_IGNORED = {
    "GL01", "GL08", "SS05", "SS06", "ES01", "SA01", "EX01", "PR01", "PR02", "PR10", "RT03",
    "YD01", "GL03", "PR09", "RT05", "RT02", "PR06",
}  # fmt: skip
API = Path(__file__).parent.parent / "doc" / "api.rst"
PAGES = "graphs", "imperfect_labels", "items", "map_inference", "nonlinear", "scale", "small_models"

HAS_TORCH = importlib.util.find_spec("torch") is not None
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(skstruct.__path__, prefix="skstruct.")
    if HAS_TORCH or not module.name.startswith("skstruct.torch")
)


def _public(module):
    for name, item in vars(module).items():
        function = item.py_func if isinstance(item, CPUDispatcher) else item
        if name.startswith("_") or getattr(function, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(function) or inspect.isclass(function):
            yield name, function


# The modules that users import from.
PUBLIC_MODULES = [
    "skstruct",
    "skstruct.graphs",
    "skstruct.ssvm",
    "skstruct.scores",
    "skstruct.callbacks",
    "skstruct.preprocessing",
    "skstruct.metrics",
    "skstruct.model_selection",
    "skstruct.map_inference",
    "skstruct.inspection",
    "skstruct.datasets",
    "skstruct.testing",
    *(["skstruct.torch"] if HAS_TORCH else []),
]


def _exports():
    """Every public name once, by the shortest path that it can be imported from."""
    found = {}
    for path in PUBLIC_MODULES:
        module = importlib.import_module(path)
        names = getattr(module, "__all__", None) or [name for name, _ in _public(module)]
        for name in names:
            found.setdefault(id(getattr(module, name)), f"{path}.{name}")
    return sorted(found.values())


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_examples_run(name):
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(recurse=True), doctest.DocTestRunner()
    for label, item in _public(module):
        for test in finder.find(item, f"{name}.{label}", module=module, globs={}):
            runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_the_guide_run(page):
    failed, tried = doctest.testfile(str(API.parent / f"{page}.rst"), module_relative=False)
    assert (failed, tried > 5) == (0, True)


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for label, item in _public(module):
        assert item.__doc__, f"{name}.{label} has no docstring"


def _documents_again(cls, method):
    """Whether a base class of this package documents the method, which `cls` overrides."""
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith("skstruct.")]
    return any(getattr(vars(base).get(method), "__doc__", None) for base in bases)


@pytest.mark.parametrize("name", [name for name in _exports() if callable(pydoc.locate(name))])
def test_numpydoc(name):
    """Overrides say in a line what is their own: the base class has the parameters."""
    item = pydoc.locate(name)
    names = [name]
    if inspect.isclass(item):
        names += [
            f"{name}.{method}"
            for method, function in vars(item).items()
            if not method.startswith("_")
            and inspect.isfunction(function)
            and not _documents_again(item, method)
        ]
    for full in names:
        found = [error for error in validate(full)["errors"] if error[0] not in _IGNORED]
        assert not found, (full, found)


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", API.read_text(), re.M))
    assert {name.removeprefix("skstruct.") for name in _exports()} <= listed


def _functions(item):
    """A public function, or the public methods of a class that this package defines."""
    if inspect.isfunction(item):
        yield item
    for cls in inspect.getmro(item) if inspect.isclass(item) else ():
        for name, member in vars(cls).items():
            # what `available_if` and properties wrap
            member = getattr(member, "fget", getattr(member, "fn", member))
            function = inspect.unwrap(getattr(member, "__func__", member))
            if (
                inspect.isfunction(function)
                and function.__module__.startswith("skstruct.")
                and (name == "__init__" or not name.startswith("_"))
            ):
                yield function


@pytest.mark.parametrize("name", _exports())
def test_public_signatures_are_annotated(name):
    for function in _functions(pydoc.locate(name)):
        hints = typing.get_type_hints(
            function, localns={"Pipeline": Pipeline}
        )  # fails on names that do not exist
        expected = {*inspect.signature(function).parameters, "return"} - {"self", "cls"}
        assert expected <= set(hints), (function.__qualname__, expected - set(hints))


def test_parameters_of_the_estimator_are_documented_in_order():
    doc = skstruct.SAGCRF.__doc__
    positions = [
        doc.index(f"\n    {name} : ") for name in inspect.signature(skstruct.SAGCRF).parameters
    ]
    assert positions == sorted(positions)
