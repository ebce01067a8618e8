"""``import skstruct`` loads nothing that takes time; every name is there when it is asked for."""

import subprocess
import sys

import pytest

import skstruct


def _run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_import_loads_no_dependency():
    code = "import sys; before = set(sys.modules); import skstruct; "
    code += "print(*(name for name in set(sys.modules) - before if 'skstruct' not in name))"
    found = {name.partition(".")[0] for name in _run(code)}
    assert not found & {"numpy", "numba", "llvmlite", "scipy", "sklearn", "joblib", "typing", "re"}
    code = "import sys, skstruct; print(*(m for m in sys.modules if m.startswith('skstruct')"
    code += " and type(sys.modules[m]).__name__ == 'module'))"
    assert _run(code) == ["skstruct"]


def test_lite_loads_numpy_alone():
    code = "import sys; from skstruct.lite import Tagger; print(*sys.modules)"
    found = {name.partition(".")[0] for name in _run(code)}
    assert "numpy" in found
    assert not found & {"numba", "llvmlite", "scipy", "sklearn", "joblib"}


@pytest.mark.slow
@pytest.mark.parametrize("names", [("export", "Chain"), ("SAGCRF", "show_versions")])
def test_names_come_in_any_order(names):
    first, second = names
    code = f"import skstruct; print(skstruct.{first}.__module__, '{first}' in vars(skstruct)); "
    code += f"print(skstruct.{second}.__module__)"
    where, is_kept, other = _run(code)
    assert where.startswith("skstruct.")
    assert other.startswith("skstruct.")
    assert is_kept == "True"


@pytest.mark.slow
def test_star_import_and_rooms():
    code = (
        "from skstruct import *; import skstruct; print(Tree.__name__, skstruct.metrics.__name__)"
    )
    assert _run(code) == ["Tree", "skstruct.metrics"]


def test_names_are_complete():
    assert set(skstruct.__all__) | {"metrics", "lite", "__version__"} <= set(dir(skstruct))
    assert all(getattr(skstruct, name) is not None for name in dir(skstruct))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SAGCFR'"):
        skstruct.SAGCFR  # noqa: B018
    assert not hasattr(skstruct, "numpy")
