"""What surrounds the code: exports, version, citation, what a bug report shows."""

import importlib
import re
import sys
from pathlib import Path

import pytest

import skstruct
from skstruct.core.jit.kernels import cache_folder

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["skstruct", "skstruct.graphs", "skstruct.preprocessing"])
def test_exports_are_importable(name):
    module = importlib.import_module(name)
    assert all(hasattr(module, export) for export in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)


def test_structures_are_exported_from_both_places():
    from skstruct import graphs

    shared = set(skstruct.__all__) & set(graphs.__all__)
    assert {"Chain", "Grid", "MultiClass", "MultiLabel", "Pairwise", "Tree"} <= shared
    assert all(getattr(skstruct, name) is getattr(graphs, name) for name in shared)
    assert issubclass(graphs.Chain, graphs.PairwiseGraph)
    assert issubclass(graphs.PairwiseGraph, graphs.Graph)


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", text, re.M).group(1) == skstruct.__version__


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", text, re.M).group(1) == skstruct.__version__


def test_the_package_says_that_it_is_typed():
    assert (Path(skstruct.__file__).parent / "py.typed").is_file()


def test_show_versions_names_packages_machine_and_cache(capsys, monkeypatch):
    from skstruct.core import versions

    def shown():
        skstruct.show_versions()
        return capsys.readouterr().out

    for fact in (skstruct.__version__, sys.executable, str(cache_folder()), "scikit-learn: "):
        assert fact in shown()
    assert "read before it" not in shown()
    monkeypatch.setattr(versions, "cache_folders_read", lambda: [Path("prepared"), cache_folder()])
    assert re.search(r"read before it: prepared$", shown(), re.M)
    monkeypatch.setattr(versions, "cache_folder", lambda: None)
    assert re.search(r"cache folder: None$", shown(), re.M)
    monkeypatch.setattr(versions, "_OPTIONAL", ["no-such-package"])
    assert re.search(r"no-such-package: None$", shown(), re.M)


def test_what_needs_torch_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("skstruct.torch"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install torch"):
        importlib.import_module("skstruct.torch")


def test_the_map_of_the_house_is_true():
    """Files that the pages on the source name exist, and the names that they give beside them."""
    pages = [ROOT / "CONTRIBUTING.md", *(ROOT / "doc" / "development").glob("*.rst")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages).replace("``", "`")
    package = Path(skstruct.__file__).parent
    found = re.findall(r"`([\w/]+/[\w/.]+(?:\.py|\.rst|/))`(?:: ((?:`\w+`(?:, )?)+))?", text)
    assert len(found) > 20
    for path, names in found:
        place = next(
            (f / path for f in (package, ROOT, package / "map_inference") if (f / path).exists()),
            None,
        )
        assert place is not None, path
        content = place.read_text(encoding="utf-8") if place.is_file() else ""
        for name in re.findall(r"\w+", names):
            assert re.search(rf"\b{name}\b", content), (path, name)
