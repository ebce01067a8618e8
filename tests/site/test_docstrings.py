"""Docstrings: full numpydoc for users, the contract for methods and operations, else one line."""

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
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

import skstruct
from skstruct.map_inference import solve_map
from skstruct.map_inference.methods import METHODS, find_method
from skstruct.preprocessing import TemplateVectorizer

# Short summaries may describe the result; not every helper needs the optional sections.
_IGNORED = {
    "GL01", "GL08", "SS05", "SS06", "ES01", "SA01", "EX01", "PR01", "PR02", "PR10", "RT03",
    "YD01", "GL03", "PR09", "RT05", "RT02", "PR06",
}  # fmt: skip
DOC = Path(__file__).parents[2] / "doc"

HAS_TORCH = importlib.util.find_spec("torch") is not None


def _listed(pages):
    """Names in the tables of these pages of the reference."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(pages))
    return re.findall(r"^   (\w+(?:\.\w+)*)$", text, re.M)


# The two sections of the reference: for users, and for authors of structures and solvers.
USERS = _listed((DOC / "api").glob("*.rst"))
AUTHORS = _listed((DOC / "api" / "authors").glob("*.rst"))
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
    "skstruct.decoding",
    "skstruct.graphs",
    "skstruct.estimators",
    "skstruct.scores",
    "skstruct.lite",
    "skstruct.callbacks",
    "skstruct.pipeline",
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


def _shows(name):
    return ">>> " in Path(importlib.util.find_spec(name).origin).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in MODULES if _shows(name)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_examples_run(name):
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(recurse=True), doctest.DocTestRunner()
    for label, item in _public(module):
        for test in finder.find(item, f"{name}.{label}", module=module, globs={}):
            runner.run(test)
    assert runner.failures == 0


def test_example_of_scorers_runs():
    comment = "\n".join(re.findall(r"^#: ?(.*)$", inspect.getsource(skstruct.metrics), re.M))
    test = doctest.DocTestParser().get_doctest(comment, {}, "SCORERS", None, None)
    assert doctest.DocTestRunner().run(test) == (0, 5)


def test_public_names_are_documented():
    bare = []
    for name in MODULES:
        module = importlib.import_module(name)
        found = [(name, module), *((f"{name}.{label}", item) for label, item in _public(module))]
        bare += [label for label, item in found if not item.__doc__]
    assert not bare


def _documents_again(cls, method):
    """Whether a base class of this package documents the method, which `cls` overrides."""
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith("skstruct.")]
    return any(getattr(vars(base).get(method), "__doc__", None) for base in bases)


def _for_users():
    """Exported classes and functions in the users' section."""
    exports = [name for name in _exports() if callable(pydoc.locate(name))]
    return [name for name in exports if name.removeprefix("skstruct.") in USERS]


def test_numpydoc():
    """Overrides say in a line what is their own: the base class has the parameters."""
    names = _for_users()
    for name in tuple(names):
        if inspect.isclass(item := pydoc.locate(name)):
            names += [
                f"{name}.{method}"
                for method, function in vars(item).items()
                if not method.startswith("_")
                and not re.fullmatch(_NOT_SHOWN, method)
                and inspect.isfunction(function)
                and not _documents_again(item, method)
            ]
    errors = {name: validate(name)["errors"] for name in names}
    wrong = {name: [e for e in found if e[0] not in _IGNORED] for name, found in errors.items()}
    assert not {name: found for name, found in wrong.items() if found}


def test_every_public_name_is_in_the_reference():
    listed = USERS + AUTHORS
    assert len(listed) == len(set(listed))
    assert {name.removeprefix("skstruct.") for name in _exports()} <= set(listed)


def _of_users():
    """Classes and functions in the section of users, by name."""
    for name in USERS:
        if HAS_TORCH or not name.startswith("torch."):
            item = pydoc.locate(f"skstruct.{name}")
            yield name, getattr(item, "py_func", item)


def test_what_users_call_links_to_its_chapter():
    pages = [*DOC.glob("*.rst"), *(DOC / "guide").glob("*.rst")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    there = set(re.findall(r"^\.\. _([\w-]+):$", text, re.M))
    link = r"Read\s+more\s+in\s+the\s+:ref:`User\s+Guide\s+<([\w-]+)>`\."
    found = {name: re.findall(link, item.__doc__) for name, item in _of_users() if callable(item)}
    assert found
    assert not {k: labels for k, labels in found.items() if len(labels) != 1 or {*labels} - there}


def test_methods_of_structures_are_documented_once_for_authors():
    """Estimators call them: pages of structures show only what `Graph` lacks."""
    assert {"graphs.Graph", "graphs.PairwiseGraph"} <= set(AUTHORS)
    shown = {name for name, _ in _methods(skstruct.graphs.Graph)}
    own = {
        name: {method for method, _ in _methods(item)} - shown
        for name, item in _of_users()
        if inspect.isclass(item) and issubclass(item, skstruct.graphs.Graph)
    }
    assert len(own) == 12
    of_items, of_segments = {"chosen_items"}, {"length_weights"}
    of_lattices = {"from_mecab", "export_mecab", "words"}
    assert set().union(*own.values()) == of_items | of_segments | of_lattices
    assert own["Chain"] == own["Tree"] == own["MultiLabel"] == set()


def test_properties_of_estimators_are_among_the_attributes():
    """Pages show them there, with their shapes, and not again as members."""
    for name in USERS:
        item = pydoc.locate(f"skstruct.{name}") if "." not in name else None
        if not (inspect.isclass(item) and issubclass(item, BaseEstimator)):
            continue
        entries = NumpyDocString(inspect.getdoc(item))["Attributes"]
        shown = {part.strip() for entry in entries for part in entry.name.split(",")}
        properties = {
            name
            for name, member in inspect.getmembers(item, lambda m: isinstance(m, property))
            if re.fullmatch(r"[a-z]\w+_", name)
        }
        assert properties <= shown, (item, properties - shown)


# Classes and functions of users that need not have a section, and why.
_MAY_LACK = {
    # a dictionary, shown with the comment above it
    "metrics.SCORERS": {"Parameters", "See Also", "Examples"},
    # made by its method `load`
    "lite.Tagger": {"Parameters"},
    # a list, with its use in the chapter on deployment
    "estimators.persistence.TRUSTED": {"Parameters", "See Also", "Examples"},
}
# As in doc/check_build.py: what scikit-learn calls, and what is not ours.
_OTHERS = "sklearn.", "torch."
_NOT_SHOWN = r"set_\w+_request|get_metadata_routing|set_output|setup|teardown|on_fit_\w+"


def _methods(cls):
    """Public methods of a class, those of its bases in this package included."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        member = getattr(member, "fn", member)  # what `available_if` wraps
        function = inspect.unwrap(getattr(member, "__func__", member))
        if name.startswith("_") or re.fullmatch(_NOT_SHOWN, name):
            continue
        if inspect.isfunction(function) and not function.__module__.startswith(_OTHERS):
            yield name, function


def _lacking(item):
    """Sections that the docstring of a class or a function lacks."""
    doc = NumpyDocString(inspect.getdoc(item) or "")
    described = doc["Parameters"] + doc["Other Parameters"]
    named = ",".join(parameter.name for parameter in described).replace("*", "")
    taken = {*inspect.signature(item).parameters} - {"self", "cls"}
    if {name.strip() for name in named.split(",") if name.strip()} != taken:
        yield "Parameters"
    if not doc["See Also"]:
        yield "See Also"
    if not doc["Examples"]:
        yield "Examples"


def test_what_users_call_has_parameters_relations_and_examples():
    lacking = {}
    for name in USERS:
        if HAS_TORCH or not name.startswith("torch."):
            item = pydoc.locate(f"skstruct.{name}")
            item = getattr(item, "py_func", item)
            found = _lacking(item) if callable(item) else ("Parameters", "See Also", "Examples")
            lacking[name] = set(found)
    assert {name: found for name, found in lacking.items() if found} == _MAY_LACK


def test_methods_of_users_classes_have_their_parameters():
    """Not those of structures: only authors call them."""
    shown = {name: item for name, item in _of_users() if inspect.isclass(item)}
    for name, item in shown.items():
        methods = {} if issubclass(item, skstruct.graphs.Graph) else dict(_methods(item))
        for method, function in methods.items():
            if not _documents_again(item, method):
                assert "Parameters" not in _lacking(function), f"{name}.{method}"


def test_what_authors_call_has_its_contract_only():
    """Its text has the relations; tests and the chapters for authors have the examples."""
    shown = {"testing.check_structure", "testing.check_structured_estimator", "core.generic"}
    for name in AUTHORS:
        item = pydoc.locate(f"skstruct.{name}")
        own = [getattr(item, "py_func", item)]
        if inspect.isclass(item):  # overrides get a link to the method of their base
            methods = _methods(item)
            own += [function for m, function in methods if not _documents_again(item, m)]
        for function in own:
            doc = inspect.getdoc(function) or ""
            assert "See Also\n---" not in doc, (name, function)
            assert "Examples\n---" not in doc or name in shown, (name, function)


def test_what_the_reference_does_not_list_has_no_sections():
    """A line, the equation, or why: nothing that repeats a signature."""
    listed = {name.rpartition(".")[2] for name in USERS + AUTHORS}
    for name in MODULES:
        for label, item in _public(importlib.import_module(name)):
            if label not in listed and inspect.isfunction(item):
                assert not re.search(r"^\s*-{3,}$", item.__doc__, re.M), f"{name}.{label}"


def test_overriding_methods_inherit_sections():
    doc = NumpyDocString(inspect.getdoc(skstruct.Boxes.read_X))
    assert [parameter.name for parameter in doc["Parameters"]] == ["estimator", "X", "reset"]
    assert doc["Returns"]
    assert doc["See Also"][0][0][0][0] == "Graph.read_X"
    assert doc["Summary"] != NumpyDocString(inspect.getdoc(skstruct.graphs.Graph.read_X))["Summary"]


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


def test_public_signatures_are_annotated():
    late = {"Pipeline": Pipeline, "TemplateVectorizer": TemplateVectorizer}
    lacking = {}
    for function in {f: None for name in _exports() for f in _functions(pydoc.locate(name))}:
        hints = typing.get_type_hints(function, localns=late)  # fails on names that do not exist
        expected = {*inspect.signature(function).parameters, "return"} - {"self", "cls"}
        if left := expected - set(hints):
            lacking[f"{function.__module__}.{function.__qualname__}"] = left
    assert not lacking


def test_options_of_solve_map_are_those_of_its_methods():
    rows = re.findall(r"^    ([a-z, -]+?)  +([a-z_, ]+)$", solve_map.__doc__, re.M)[1:]
    shown = {method: own.split(", ") for methods, own in rows for method in methods.split(", ")}
    assert shown == {name: [*own] for name in METHODS if (own := find_method(name)[1])}


def test_parameters_of_the_estimator_are_documented_in_order():
    doc = skstruct.SAGCRF.__doc__
    positions = [
        re.search(rf"\n    (\w+, )*{name}(, \w+)* : ", doc).start()
        for name in inspect.signature(skstruct.SAGCRF).parameters
    ]
    assert positions == sorted(positions)


def test_titles_of_groups_are_those_of_the_template():
    """Attributes without a type are titles, which the template turns into fields."""
    template = (DOC / "_templates" / "numpydoc_docstring.rst").read_text(encoding="utf-8")
    titles = re.findall(r'"    \*\*([\w ]+)\*\*', template)
    assert len(titles) == 2
    for _, item in _of_users():
        if inspect.isclass(item):
            entries = NumpyDocString(inspect.getdoc(item))["Attributes"]
            bare = [entry.name for entry in entries if not (entry.type or entry.desc)]
            assert bare in ([], titles), item
