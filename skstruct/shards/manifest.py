"""The manifest of shards: what is in the folder, in JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

FORMAT, VERSION = "skstruct shards", 1
NAME = "manifest.json"

_FIELDS = {
    "structure": dict,
    "n_features": int,
    "sparse": bool,
    "dtype": str,
    "labelled": bool,
    "names": dict,
    "shards": list,
}
_OF_SHARD = {"folder": str, "samples": int, "nodes": int, "files": dict, "widths": dict}


def encode_classes(classes: np.ndarray | None) -> dict | None:
    """Classes for JSON.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,) or None
        Numbers, strings or bytes.

    Returns
    -------
    dict or None
        What :func:`decode_classes` takes.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.shards.manifest import decode_classes, encode_classes
    >>> decode_classes(encode_classes(np.array(["a", "b"])))
    array(['a', 'b'], dtype='<U1')
    """
    if classes is None:
        return None
    values = classes.tolist()
    is_bytes = bool(values) and isinstance(values[0], bytes)
    values = [value.decode("latin-1") for value in values] if is_bytes else values
    return {"dtype": classes.dtype.str, "bytes": is_bytes, "values": values}


def decode_classes(stored: dict | None) -> np.ndarray | None:
    """The classes that :func:`encode_classes` has written down.

    Parameters
    ----------
    stored : dict or None
        What it returned.

    Returns
    -------
    ndarray of shape (n_classes,) or None
        The classes.
    """
    if stored is None:
        return None
    values = stored["values"]
    values = [value.encode("latin-1") for value in values] if stored["bytes"] else values
    return np.array(values, dtype=np.dtype(stored["dtype"]))


def dump(content: dict) -> bytes:
    """The text of a manifest, with its own checksum.

    Parameters
    ----------
    content : dict
        What it says.

    Returns
    -------
    bytes
        JSON in ASCII.
    """
    whole = {"format": FORMAT, "version": VERSION} | content
    whole["checksum"] = _checksum(whole)
    return json.dumps(whole, indent=1).encode("ascii")


def _checksum(content):
    text = json.dumps({name: content[name] for name in sorted(content) if name != "checksum"})
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def load(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder.

    Parameters
    ----------
    folder : Path
        Where the shards are.

    Returns
    -------
    dict
        What it says.

    Raises
    ------
    ValueError
        If there is none, or it is damaged, or of another version; names the file.
    """
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
    except ValueError as error:
        raise ValueError(f"{path} is no manifest of shards, or truncated: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is no manifest of shards: its format must be {FORMAT!r}")
    if content.get("version") != VERSION:
        raise ValueError(
            f"{path} is of version {content.get('version')!r}, this skstruct reads version "
            f"{VERSION}: pack the shards again"
        )
    if content.get("checksum") != _checksum(content):
        raise ValueError(f"{path} has another checksum than when it was written: it is damaged")
    _check_fields(content, _FIELDS, path)
    for entry in content["shards"]:
        _check_fields(entry, _OF_SHARD, path)
        _check_paths([entry["folder"], *entry["files"]], path)
    _check_paths([entry.get("file") for entry in content["names"].values()], path)
    return content


def _check_paths(names, path):
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ValueError(f"{path} is damaged: {name!r} is no name of a file in its folder")


def _check_fields(content, fields, path):
    for name, kind in fields.items():
        if not isinstance(content.get(name), kind):
            raise ValueError(f"{path} is damaged: {name} must be a {kind.__name__}")
