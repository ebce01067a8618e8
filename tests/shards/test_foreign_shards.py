"""Shards whose manifest and files somebody has made up: nothing is read that is not theirs."""

import json
import re
import shutil

import numpy as np
import pytest

from skstruct import Grid, Pairwise, Tree
from skstruct.data.store import write_array
from skstruct.datasets import Shards, pack_shards
from skstruct.shards import manifest
from skstruct.testing import random_sequences


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Shards of two structures, by the names of these."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=5, sparse_X=True)
    linked = [(x, [(i, i + 1) for i in range(x.shape[0] - 1)]) for x in X]
    place, options = tmp_path_factory.mktemp("foreign"), {"shard_size": 3}
    options["sample_weight"] = np.ones(5)
    return {
        "chain": pack_shards(X, y, place / "chain", **options),
        "tree": pack_shards(linked, y, place / "tree", graph=Tree(), **options),
        "pairwise": pack_shards(linked, y, place / "pairwise", graph=Pairwise(), **options),
        "table": pack_shards(np.eye(5), list("abaab"), place / "table", **options),
        "grid": pack_shards(
            [np.ones((2, 2, 1))] * 5,
            [np.eye(2, dtype=int)] * 5,
            place / "grid",
            graph=Grid(),
            **options,
        ),
    }


def _forged(sound, folder, edit):
    """A copy with another manifest, whose checksum is right."""
    shutil.copytree(sound.folder, folder)
    content = json.loads((folder / manifest.NAME).read_text())
    edit(content)
    del content["checksum"]
    (folder / manifest.NAME).write_bytes(manifest.dump(content))
    return folder


def _set(*path):
    *path, last, value = path

    def edit(content):
        for name in path:
            content = content[name]
        if value is ...:
            del content[last]
        else:
            content[last] = value

    return edit


_CODES = ("shards", 0, "files", "codes.npy")


@pytest.mark.parametrize(
    "edit",
    [_set("shards", 0, "folder", name) for name in ("..", "", "a/b", "/etc", "a\\b", "\0")]
    + [_set("shards", 0, "files", name, {}) for name in ("..", "", "../codes.npy")]
    + [
        _set("shards", 0, name, value)
        for name in ("samples", "nodes", "edges", "entries", "columns")
        for value in (..., -1, 10**30, 1.5, "1", None)
    ]
    + [_set("shards", 0, "weight", value) for value in (..., -1, 0, float("nan"), None)]
    + [_set(*_CODES, name, ...) for name in ("bytes", "checksum", "dtype", "shape")]
    + [_set(*_CODES, "shape", value) for value in (None, [-1], 3)]
    + [_set("shards", []), _set("shards", [1]), _set(*_CODES, ...), _set(*_CODES, [1])]
    + [_set("classes", "values", value) for value in (["b", "a"], ["a", "a"], [1], [["a"]], None)]
    + [_set("classes", value) for value in (..., None, {})]
    + [_set("dtype", value) for value in ("O", "<i8", "?!", None)]
    + [_set("structure", {"name": "MultiLabel", "parameters": {}})]
    + [_set("names", {"features": 1}), _set("names", {"features": {"file": ".."}})],
)
def test_manifests_that_nobody_has_written_are_refused(sound, tmp_path, edit):
    folder = _forged(sound["chain"], tmp_path / "forged", edit)
    with pytest.raises(ValueError, match=re.escape(str(folder))):
        Shards(folder)


def test_deep_manifests(tmp_path):
    (tmp_path / manifest.NAME).write_bytes(b"[" * 100_000)
    with pytest.raises(ValueError, match="no manifest of shards"):
        Shards(tmp_path)


def _with_another_array(sound, tmp_path, file, change):
    """Shards with a file that is not what was packed, though the manifest has its checksum."""
    path = sound.folder / "00000" / f"{file}.npy"
    array = change(np.load(path))

    def edit(content):
        entry = write_array(tmp_path / "made.npy", array)
        content["shards"][0]["files"][path.name] = entry

    folder = _forged(sound, tmp_path / "forged", edit)
    shutil.copy(tmp_path / "made.npy", folder / "00000" / path.name)
    return Shards(folder)


@pytest.mark.parametrize(
    ("kind", "file", "change"),
    [
        ("chain", "offsets", lambda a: a[:-1]),
        ("chain", "offsets", lambda a: a.astype(np.float64)),
        ("table", "offsets", lambda a: np.array([0, 0, 2, 3])),
        ("grid", "shapes", lambda a: a.astype(np.int8)),
        ("tree", "edge_ptr", lambda a: a[::-1]),
        ("tree", "edge_ptr", lambda a: a + 1),
        ("tree", "edges", lambda a: a + 100),
        ("pairwise", "edges", lambda a: a + 100),
        ("pairwise", "edges", lambda a: a - 1),
        ("tree", "edges", lambda a: a * 0),
        ("pairwise", "edges", lambda a: a.astype(np.int64)),
        ("pairwise", "types", lambda a: a + 1),
        ("chain", "features.data", lambda a: a.astype(np.int64)),
        ("chain", "features.indptr", lambda a: np.append(a, a[-1])),
        ("chain", "columns", lambda a: a[:-1]),
        ("chain", "columns", lambda a: a[:, None]),
        ("chain", "codes", lambda a: a[:-1]),
        ("chain", "codes", lambda a: a.astype(np.int64)),
        ("chain", "sample_weight", lambda a: -a),
        ("chain", "sample_weight", lambda a: a * np.nan),
        ("chain", "sample_weight", lambda a: a[:-1]),
    ],
)
def test_files_that_fit_the_manifest_but_nothing_else_are_refused(
    sound, tmp_path, kind, file, change
):
    shards = _with_another_array(sound[kind], tmp_path, file, change)
    with pytest.raises(ValueError, match=re.escape(str(shards.folder))):
        shards.open(0)
    shards.open(1)


@pytest.mark.parametrize("file", ["offsets", "codes", "sample_weight"])
def test_labels_are_not_counted_by_files_that_do_not_fit(sound, tmp_path, file):
    shards = _with_another_array(sound["chain"], tmp_path, file, lambda a: a[:-1])
    with pytest.raises(ValueError, match=re.escape(str(shards.folder))):
        shards.label_weights()
