"""Files of arrays: reading them, with errors that name the file."""

from __future__ import annotations

import zipfile
import zlib

import numpy as np


def read_arrays(path, wanted=None) -> dict:
    """Arrays of a ``.npz`` file."""
    try:
        # NumPy leaves a file open that is damaged.
        with open(path, "rb") as raw:
            file = np.load(raw)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            names = file.files if wanted is None else wanted
            lacking = [name for name in names if name not in file.files]
            arrays = {name: file[name] for name in names if not lacking}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is no .npz file of arrays that can be read: {error}") from None
    if lacking:
        raise ValueError(f"{path} has no array {lacking[0]!r}")
    return arrays


def check_names(path, **arrays) -> None:
    """Refuse arrays that are no lists of names."""
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "US":
            raise ValueError(
                f"{path}: {name} must be strings of shape (n,), got dtype {array.dtype}, shape "
                f"{array.shape}"
            )
