"""Names of the columns of X, which ride along with samples without being copied."""

from __future__ import annotations

import hashlib
import json
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin

# Names that are positions: scikit-learn's names of unnamed columns.
_POSITIONS = "x{}"


# Strings in files: one array of bytes. skops would write a record of a hundred bytes for each, as
# often as it meets the list that they are in.


def pack_strings(strings: list[str]) -> np.ndarray:
    """Return strings as the bytes of a JSON list."""
    text = json.dumps(strings, ensure_ascii=False, separators=(",", ":"))
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


def unpack_strings(packed: np.ndarray) -> list[str]:
    """Return the strings that :func:`pack_strings` has packed."""
    try:
        strings = json.loads(np.asarray(packed).tobytes().decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"stored names are damaged: {error}") from None
    if not isinstance(strings, list) or not all(isinstance(name, str) for name in strings):
        raise ValueError("stored names are damaged: a list of strings was expected")
    return strings


class FeatureNames(ABC):
    """Names of columns, made on request; one immutable object for transformer, output and model."""

    _digest = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def strings(self) -> list[str]:
        """All names."""

    def positions(self) -> dict[str, int]:
        """The column of each name."""
        return {name: j for j, name in enumerate(self.strings())}

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings())

    def __array__(self, dtype=None, copy=None):
        out = np.empty(len(self), dtype=object)
        out[:] = self.strings()
        return out if dtype is None else out.astype(dtype)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, FeatureNames):
            return NotImplemented
        # Two that were pickled apart are compared once, then by what is kept of that.
        return len(self) == len(other) and self._key() == other._key()

    __hash__ = None

    def _key(self):
        if self._digest is None:
            text = "\0".join(self.strings()).encode("utf-8", "surrogatepass")
            self._digest = hashlib.blake2b(text, digest_size=16).digest()
        return self._digest

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_digest"}

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self) -> str:
        return f"<names of {len(self)} features>"


class StoredNames(FeatureNames):
    """Names that files have as one array."""

    _last = None

    def __getstate__(self):
        # One array in a file, however often it refers to these names; whoever writes it keeps it.
        packed = None if self._last is None else self._last()
        if packed is None:
            packed = pack_strings(self.strings())
            self._last = weakref.ref(packed)
        return {"packed": packed}

    def __setstate__(self, state):
        self.__init__(self._restored(unpack_strings(state["packed"])))

    def _restored(self, strings):
        return strings


class ListedNames(StoredNames):
    """Names that are all there."""

    def __init__(self, names: Any) -> None:
        array = np.array(names, dtype=object).ravel()
        other = next((name for name in array if not isinstance(name, str)), None)
        if other is not None:
            raise TypeError(f"names of features must be of type str, got {other!r}")
        self._names = array

    def __len__(self) -> int:
        return self._names.size

    def strings(self) -> list[str]:
        """All names."""
        return self._names.tolist()


class VocabularyNames(StoredNames):
    """Names that are the keys of a vocabulary, in the order of its columns."""

    def _restored(self, strings):
        vocabulary = {name: j for j, name in enumerate(strings)}
        if len(vocabulary) < len(strings):
            raise ValueError("stored names are damaged: one is there twice")
        return vocabulary

    def __init__(self, vocabulary: dict) -> None:
        self._vocabulary = vocabulary

    def __len__(self) -> int:
        return len(self._vocabulary)

    def strings(self) -> list[str]:
        """The keys."""
        return list(self._vocabulary)

    def positions(self) -> dict[str, int]:
        """The vocabulary itself."""
        return self._vocabulary


class JoinedNames(FeatureNames):
    """Names of several tables side by side."""

    def __init__(self, parts: list) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(part if isinstance(part, int) else len(part) for _, part in self._parts)

    def strings(self) -> list[str]:
        """All names."""
        out = []
        for prefix, part in self._parts:
            names = map(_POSITIONS.format, range(part)) if isinstance(part, int) else part
            out += [prefix + name for name in names]
        return out


def as_names(names: Any, n_columns: int, where: str) -> FeatureNames | None:
    """Return the given names of columns as :class:`FeatureNames`, or None if there are none."""
    if names is None:
        return None
    if not isinstance(names, FeatureNames):
        names = ListedNames(names)
    if len(names) != n_columns:
        raise ValueError(f"{where} has {len(names)} names for {n_columns} columns")
    return names


def names_of_output(transformer: Any, names_in: Any = None) -> FeatureNames | None:
    """Names of a fitted transformer's output columns, if it has any of its own."""
    if isinstance(transformer, OneToOneFeatureMixin):
        return names_in
    try:
        given = None if names_in is None else np.asarray(names_in)
        names = ListedNames(transformer.get_feature_names_out(given))
    except (AttributeError, ValueError, TypeError):
        return None
    if names.strings() == [*map(_POSITIONS.format, range(len(names)))]:
        return None
    return names


class NamedSamples(np.ndarray):
    """An object array of samples whose features have names; made by :func:`with_names`."""

    feature_names = edge_feature_names = None

    def __array_finalize__(self, obj):
        for name in ("feature_names", "edge_feature_names"):
            setattr(self, name, getattr(obj, name, None))

    def __reduce__(self):
        names = self.feature_names, self.edge_feature_names
        return with_names, (self.view(np.ndarray), *names)


def with_names(samples: np.ndarray, names: Any, edge_names: Any = None) -> np.ndarray:
    """An object array of samples together with the names of their features."""
    if names is None and edge_names is None:
        return samples
    view = samples.view(NamedSamples)
    view.feature_names, view.edge_feature_names = names, edge_names
    return view


def names_of(X: Any) -> tuple[FeatureNames | None, FeatureNames | None]:
    """Names of the features of nodes and of edges that samples carry."""
    own, of_edges = getattr(X, "feature_names", None), getattr(X, "edge_feature_names", None)
    own = own if own is not None and isinstance(own, FeatureNames) else None
    of_edges = of_edges if of_edges is not None and isinstance(of_edges, FeatureNames) else None
    if not own and isinstance(X, (list, tuple, np.ndarray)) and len(X):
        columns = list(getattr(X[0], "columns", ()))  # of a data frame
        if columns and all(isinstance(column, str) for column in columns):
            own = ListedNames(columns)
    return own or None, of_edges
