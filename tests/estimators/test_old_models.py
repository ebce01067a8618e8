"""Models of commit 671a9dc load, and predict what they did; modules that they name have moved."""

import importlib
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import InconsistentVersionWarning

import skstruct
from skstruct.data.moved import MOVED
from skstruct.estimators.persistence import TRUSTED

FOLDER = Path(__file__).parent / "models_671a9dc"
EXPECTED = pickle.loads((FOLDER / "expected.pkl").read_bytes())


def _same(name, model):
    X, expected = EXPECTED[name]
    for found, known in zip(model.predict(X), expected, strict=True):
        np.testing.assert_array_equal(found, known)


@pytest.mark.filterwarnings(
    f"ignore::{InconsistentVersionWarning.__module__}.InconsistentVersionWarning"
)
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_pickles_load_and_predict(name):
    model = pickle.loads((FOLDER / f"{name}.pkl").read_bytes())
    _same(name, model)
    again = pickle.dumps(model)
    names = "|".join(map(re.escape, MOVED))
    assert not re.findall(rb"skstruct\.(?:%s)(?![.\w])" % names.encode(), again)
    _same(name, pickle.loads(again))


@pytest.mark.filterwarnings(
    f"ignore::{InconsistentVersionWarning.__module__}.InconsistentVersionWarning"
)
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.skops")), ids=lambda path: path.stem)
def test_skops_files_load_and_predict(path):
    io = pytest.importorskip("skops.io")
    _same(path.stem, io.load(path, trusted=TRUSTED))


@pytest.mark.parametrize("old", sorted(MOVED))
def test_old_names_answer(old):
    new = importlib.import_module(f"skstruct.{MOVED[old]}")
    names = getattr(new, "__all__", None) or [n for n in vars(new) if not n.startswith("_")]
    assert getattr(importlib.import_module(f"skstruct.{old}"), names[0]) is getattr(new, names[0])


def test_old_imports_of_users_still_work():
    from skstruct.data.samples import packed
    from skstruct.graphs.general import grid_edges
    from skstruct.ssvm import BCFWSSVM

    assert BCFWSSVM is skstruct.BCFWSSVM
    assert packed is skstruct.data.packing.packed
    assert grid_edges is skstruct.graphs.pairwise.grid_edges
    assert packed is skstruct.data.packing.packed
    with pytest.raises(ImportError):
        from skstruct.ssvm import NoSuchSSVM  # noqa: F401
