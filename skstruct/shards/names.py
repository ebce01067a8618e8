"""Names of features in a file of their own, read when somebody asks for them."""

from __future__ import annotations

import json
from pathlib import Path

from ..data.names import FeatureNames, ListedNames
from .files import Damage, read_bytes, write_bytes


class StoredNames(FeatureNames):
    """Names in a file. A pickle of them has the names themselves."""

    def __init__(self, folder: Path, entry: dict) -> None:
        self._path, self._entry, self._read = folder / entry["file"], entry, None
        self._digest = bytes.fromhex(entry["digest"])

    def __len__(self) -> int:
        return self._entry["count"]

    def strings(self) -> list[str]:
        """All names."""
        if self._read is None:
            try:
                names = json.loads(read_bytes(self._path, self._entry))
            except Damage as error:
                raise Damage(
                    f"{error}; a model trained on these shards does without its names after "
                    "`del model.feature_names_in_`"
                ) from None
            if not isinstance(names, list) or len(names) != len(self):
                raise Damage(f"{self._path} does not have {len(self)} names")
            self._read = names
        return self._read

    def __reduce__(self):
        return ListedNames, (self.strings(),)


def write_names(folder: Path, file: str, names: FeatureNames) -> dict:
    """Write names of features."""
    entry = write_bytes(folder / file, json.dumps(names.strings()).encode("ascii"))
    return entry | {"file": file, "count": len(names), "digest": names._key().hex()}
