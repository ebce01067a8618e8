"""The manifest of shards: what is in the folder, in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..data.store import sealed

FORMAT, VERSION = "skstruct shards", 1
NAME = "manifest.json"

_COUNT, _TEXT, _FLAG = "a number of things", "a string", "true or false"
# No array has as many elements, and sums of counts stay in 64 bits.
_MOST = 1 << 48
_FIELDS = {
    "structure": dict,
    "n_features": _COUNT,
    "sparse": _FLAG,
    "dtype": _TEXT,
    "labelled": _FLAG,
    "weighted": _FLAG,
    "names": dict,
    "shards": list,
}
_OF_SHARD = dict.fromkeys(("samples", "nodes", "edges", "entries", "columns"), _COUNT)
_OF_SHARD |= {"folder": _TEXT, "files": dict, "widths": dict}
_OF_FILE = {"bytes": _COUNT, "checksum": _TEXT}
_OF_ARRAY = _OF_FILE | {"dtype": _TEXT, "shape": list}
_OF_NAMES = _OF_FILE | {"file": _TEXT, "count": _COUNT, "digest": _TEXT}


def encode_classes(classes: np.ndarray | None) -> dict | None:
    """Classes for JSON."""
    if classes is None:
        return None
    values = classes.tolist()
    is_bytes = bool(values) and isinstance(values[0], bytes)
    values = [value.decode("latin-1") for value in values] if is_bytes else values
    return {"dtype": classes.dtype.str, "bytes": is_bytes, "values": values}


def decode_classes(stored: dict | None) -> np.ndarray | None:
    """The classes that :func:`encode_classes` has written down."""
    if stored is None:
        return None
    values = stored["values"]
    values = [value.encode("latin-1") for value in values] if stored["bytes"] else values
    classes = np.array(values, dtype=np.dtype(stored["dtype"]))
    if classes.ndim != 1 or not classes.size or classes.tolist() != values:
        raise ValueError("these are no classes")
    if (classes[1:] <= classes[:-1]).any():
        raise ValueError("classes must increase")
    return classes


def dump(content: dict) -> bytes:
    """The text of a manifest, with its own checksum."""
    whole = sealed({"format": FORMAT, "version": VERSION} | content)
    return json.dumps(whole, indent=1).encode("ascii")


def load(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder."""
    path = folder / NAME
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read: {error.strerror}; {folder} must be a folder that pack_shards "
            "has written"
        ) from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no manifest of shards, or truncated: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is no manifest of shards: its format must be {FORMAT!r}")
    if content.get("version") != VERSION:
        raise ValueError(
            f"{path} is of version {content.get('version')!r}, this skstruct reads version "
            f"{VERSION}: pack the shards again"
        )
    if content != sealed(content):
        raise ValueError(f"{path} has another checksum than when it was written: it is damaged")
    _check_content(content, path)
    return content


def _check_content(content, path):
    """Reject a manifest that :func:`dump` would not have written."""
    _check_fields(content, _FIELDS, path)
    if content.get("n_edge_features") is not None:
        _check_fields(content, {"n_edge_features": _COUNT}, path)
    classes = content.get("classes")
    if not content["shards"] or content["labelled"] != (classes is not None):
        raise ValueError(f"{path} is damaged: it needs shards, and classes if they are labelled")
    for entry in content["shards"]:
        _check_shard(content, entry, path)
    for entry in content["names"].values():
        _check_fields(entry, _OF_NAMES, path)
    _check_paths([entry["file"] for entry in content["names"].values()], path)


def _check_shard(content, entry, path):
    """Reject what is said of a shard if it cannot be."""
    _check_fields(entry, _OF_SHARD, path)
    _check_fields(entry["widths"], dict.fromkeys(entry["widths"], _COUNT), path)
    _check_paths([entry["folder"], *entry["files"]], path)
    for file in entry["files"].values():
        _check_fields(file, _OF_ARRAY, path)
        shape = file["shape"]
        _check_fields(dict(enumerate(shape)), dict.fromkeys(range(len(shape)), _COUNT), path)
    weight = entry.get("weight")
    if type(weight) not in (int, float) or not 0 < weight < float("inf"):
        raise ValueError(f"{path} is damaged: weight must be a positive number, got {weight!r}")
    if not 0 < entry["samples"] <= entry["nodes"]:
        raise ValueError(f"{path} is damaged: a shard has samples, and these have nodes")
    given = {name: content[of] for name, of in _OPTIONAL.items()} | {"offsets.npy": True}
    wrong = [name for name, there in given.items() if (name in entry["files"]) != there]
    if wrong:
        raise ValueError(
            f"{path} is damaged: {wrong[0]} is among the files of a shard, or is not, against what "
            "it says of all"
        )


# Files of shards, and what of the manifest says that they are there.
_OPTIONAL = {"codes.npy": "labelled", "sample_weight.npy": "weighted", "columns.npy": "sparse"}


def _check_paths(names, path):
    for name in names:
        parts = isinstance(name, str) and name not in ("", ".", "..")
        if not parts or any(sign in name for sign in "/\\:\0"):
            raise ValueError(f"{path} is damaged: {name!r} is no name of a file in its folder")


def _check_fields(content, fields, path):
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: {content!r:.60} has no fields")
    for name, kind in fields.items():
        value = content.get(name)
        if kind is _COUNT:
            good = type(value) is int and 0 <= value < _MOST
        else:
            good = type(value) is {_TEXT: str, _FLAG: bool}.get(kind, kind)
        if not good:
            wanted = kind if isinstance(kind, str) else f"a {kind.__name__}"
            raise ValueError(f"{path} is damaged: {name} must be {wanted}, got {value!r:.60}")
