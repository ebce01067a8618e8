"""scikit-learn's private and experimental names: all in one file, callbacks optional."""

import ast
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import skstruct
from skstruct import SAGCRF
from skstruct.core import sklearn_private
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import SequenceVectorizer
from tests.site.test_docstrings import USERS

PACKAGE = Path(skstruct.__file__).parent


def _private(path):
    """Private and experimental names of scikit-learn in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            text = getattr(node, "attr", getattr(node, "value", None))
            if isinstance(text, str) and text.startswith(("_skl_", "_doc_link")):
                yield text
            continue
        for name in names:
            if name.startswith("sklearn.") and ("._" in name or ".callback" in name):
                yield name


def test_private_names_are_in_one_file():
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in _private(path)
    }
    own = {name for file, name in found if file == "core/sklearn_private.py"}
    assert {"sklearn.base._fit_context", "sklearn.callback.with_callbacks", "_skl_callbacks"} <= own
    assert {file for file, _ in found} == {"core/sklearn_private.py"}


_WITHOUT_CALLBACKS = """
import builtins
plain = builtins.__import__
def without(asked, namespace=None, local=None, names=(), level=0):
    if asked == "sklearn.callback" and namespace["__name__"].startswith("skstruct"):
        raise ImportError(asked)
    return plain(asked, namespace, local, names, level)
builtins.__import__ = without

import numpy as np
from skstruct import SAGCRF
from skstruct.callbacks import TimeLimit
from skstruct.map_inference import FactorGraph, solve_map
X, y = [np.eye(2), np.eye(2)[::-1]], [["a", "b"], ["b", "a"]]
crf = SAGCRF(random_state=0).fit(X, y)
print(crf.score(X, y), *solve_map(FactorGraph([2], unaries=[[0.0, 1.0]])).labels)
try:
    crf.set_callbacks(TimeLimit(1.0))
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_training_and_map_inference_without_callbacks():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CALLBACKS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1.0 1\ncallbacks need sklearn.callback of scikit-learn 1.9\n"


@pytest.fixture
def site(monkeypatch):
    """An address of the documentation."""
    monkeypatch.setattr(sklearn_private, "_documentation", lambda: "https://site")


DOCUMENTED = [
    name
    for name in USERS
    if not name.startswith("torch.")
    and isinstance(kind := pydoc.locate(f"skstruct.{name}"), type)
    and issubclass(kind, BaseEstimator)
]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_link_of_an_estimator_is_its_page(name, site):
    kind = pydoc.locate(f"skstruct.{name}")
    link = kind._get_doc_link(object.__new__(kind))
    assert link == f"https://site/generated/skstruct.{name}.html"


def test_html_has_the_links(site):
    shown = make_pipeline(SequenceVectorizer(), SAGCRF())._repr_html_()
    for name in ("SAGCRF", "pipeline.Pipeline", "preprocessing.SequenceVectorizer"):
        assert f'href="https://site/generated/skstruct.{name}.html"' in shown


def test_no_link_without_a_page_or_an_address(site, monkeypatch):
    class Own(SAGCRF):
        pass

    assert Own()._get_doc_link() == ""
    monkeypatch.undo()
    if not sklearn_private._documentation():
        assert "href=" not in SAGCRF()._repr_html_()
