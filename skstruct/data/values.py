"""Users' values in arrays, none of them changed: NumPy alone would merge or cut some of them."""

from __future__ import annotations

from collections.abc import KeysView, ValuesView

import numpy as np
from scipy import sparse

from .matrices import refuse_masked, unwrapped

_NUMBERS = (bool, np.bool_, int, np.integer, float, np.floating)
# Above this, two integers may be one float.
_EXACT = 2**53
UNKNOWN = "for an unknown label fit takes None"


def family(kind: type) -> str | None:
    """Return the family of labels that a Python type belongs to, or None if there is none."""
    if issubclass(kind, str):
        return "strings"
    if issubclass(kind, bytes):
        return "bytes"
    return "numbers" if issubclass(kind, _NUMBERS) else None


def is_missing(value) -> bool:
    """Return whether a value is a missing one: None, NaN, pandas' NA or NaT, a masked entry."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


# What missing keys become when a column is turned into strings.
_MISSING_TEXTS = {"", "nan", "None", "<NA>", "NaT"}


def _is_missing_key(key):
    if isinstance(key, tuple):
        return any(map(_is_missing_key, key))
    return key.strip() in _MISSING_TEXTS if isinstance(key, str) else is_missing(key)


def read_keys(values, name: str, row: str, fill: str) -> np.ndarray:
    """Keys that name the sequence or the group of each row, all there and of one type."""
    refuse_masked(values, name)
    values = unwrapped(values)
    keys = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if keys.ndim != 1:
        raise ValueError(f"{name} must have one key per {row}, got an array of shape {keys.shape}")
    if keys.dtype.kind in "iub":
        return keys
    items = list(keys) if keys.dtype.kind in "mM" else keys.tolist()
    missing = next((i for i, key in enumerate(items) if _is_missing_key(key)), None)
    if missing is not None:
        raise ValueError(f"{name} is missing in {row} {missing} ({items[missing]!r}): {fill}")
    kinds = {kind: family(kind) or kind.__name__ for kind in set(map(type, items))}
    if len(set(kinds.values())) > 1:
        first = kinds[type(items[0])]
        i = next(i for i, key in enumerate(items) if kinds[type(key)] != first)
        raise ValueError(
            f"{name} mixes types: {items[0]!r} in {row} 0, {items[i]!r} in {row} {i}; make all of "
            "one type, for instance str"
        )
    try:
        set(items)
    except TypeError:
        raise TypeError(f"{name}: keys must be hashable, got {items[0]!r} in {row} 0") from None
    return keys


def _refuse_mixtures(values, kinds, name, place):
    """Reject elements that NumPy would turn into other labels than those given."""
    families = {family(kind) for kind in kinds}
    if len(families) < 2 and None not in families:
        return
    for t, value in enumerate(values):
        own = family(type(value))
        if value is None:
            raise ValueError(f"{name} contains None ({place(t)})")
        if own is None:
            raise ValueError(
                f"{name}: the label {value!r} ({place(t)}) is neither a string nor an integer"
            )
        if own == "numbers" and value != value:
            raise ValueError(f"{name} contains NaN ({place(t)})")
    first = family(type(values[0]))
    t = next(t for t, value in enumerate(values) if family(type(value)) != first)
    raise TypeError(
        f"{name} mixes strings with labels of other types: {values[0]!r} ({place(0)}), "
        f"{values[t]!r} ({place(t)}){_hint_of_unknown(values[0], values[t])}"
    )


def _hint_of_unknown(*values):
    """A hint if one of two labels is -1, which scikit-learn takes for an unknown one."""
    is_unknown = any(family(type(value)) == "numbers" and value == -1 for value in values)
    return f"; {UNKNOWN}" if is_unknown else ""


def _refuse_nested(values, name, place):
    """Reject labels in lists of their own, most likely (word, label) pairs."""
    t = next((t for t, value in enumerate(values) if isinstance(value, (tuple, list))), 0)
    got, hint = values[t], _of_one_hot(values)
    if not hint and (isinstance(got, tuple) or (isinstance(got, list) and len(got) == 2)):
        hint = (
            f"; got {tuple(got)!r} ({place(t)}): of a pair (word, label) keep the label; for one "
            "of these labels fit takes a set"
        )
    raise ValueError(f"{name} must be a 1-D sequence of labels ({place(0)}){hint}")


def _of_one_hot(values):
    """A hint if labels are rows of one 1 among zeros."""
    if isinstance(values, (list, tuple)) and not all(type(row) is np.ndarray for row in values):
        rows = all(isinstance(row, (list, tuple)) for row in values)
        if not rows or not all(issubclass(type(v), _NUMBERS) for row in values for v in row):
            return ""
    try:
        table = np.asarray(values)
    except ValueError:
        return ""
    is_table = table.ndim == 2 and table.shape[1] > 1 and table.dtype.kind in "biuf"
    if not is_table or not (((table == 0) | (table == 1)).all() and (table.sum(axis=1) == 1).all()):
        return ""
    return ": it is one-hot; pass y.argmax(axis=-1), the position of the 1 in each row"


def refuse_sparse(values, name: str) -> None:
    """Reject a sparse matrix, which NumPy takes for one object, where labels are needed."""
    if sparse.issparse(values):
        raise TypeError(f"{name} is a sparse matrix, expected labels: pass its toarray()")


def as_labels(values, name: str, place, any_values: bool = False) -> np.ndarray:
    """Labels in an array, none of them changed; `any_values` may be fractions and NaN, too."""
    kinds = set()
    values = [*values] if isinstance(values, (KeysView, ValuesView)) else values
    if not isinstance(values, (list, tuple)):
        refuse_masked(values, name)
        refuse_sparse(values, name)
        values = unwrapped(values)
        values = np.asarray(values) if hasattr(values, "__array__") else values
    is_objects = isinstance(values, np.ndarray) and values.dtype.kind == "O" and values.ndim == 1
    items = values.tolist() if is_objects else values
    if isinstance(items, (list, tuple)):
        kinds = set(map(type, items))
        if any(issubclass(kind, (list, tuple, np.ndarray)) for kind in kinds):
            _refuse_nested(items, name, place)
        _refuse_mixtures(items, kinds, name, place)
        for text, nul in (("", "\0"), (b"", b"\0")):
            same = any(issubclass(kind, type(text)) for kind in kinds)
            if same and nul in text.join(items):  # at an end of one of them?
                t = next((t for t, value in enumerate(items) if value.endswith(nul)), None)
                if t is not None:
                    raise ValueError(
                        f"{name}: the label {items[t]!r} ({place(t)}) ends with NUL, which NumPy "
                        "drops"
                    )
        if any(issubclass(kind, str) and kind is not str for kind in kinds):
            # Of a member of an Enum, NumPy takes str(), cut to the length of its value.
            items = [str.__str__(value) for value in items]
            values = np.array(items, dtype=object) if is_objects else items
    try:
        array = np.asarray(values)
    except ValueError:
        array = None
    if array is None or array.ndim != 1:
        raise ValueError(
            f"{name} must be a 1-D sequence of labels ({place(0)}){_of_one_hot(array)}"
        )
    if array.dtype.kind == "O":
        values = array.tolist()
        if values and isinstance(values[0], (list, tuple)):
            _refuse_nested(values, name, place)
        kinds = set(map(type, values))
        _refuse_mixtures(values, kinds, name, place)
        if values and family(type(values[0])) == "numbers":
            array = np.array(values)
    if array.dtype.kind not in "biu" and any(issubclass(k, (int, np.integer)) for k in kinds):
        # Python's integers, which NumPy has made floats or left as they were
        large = [t for t, value in enumerate(values) if value < -_EXACT or value > _EXACT]
        if large:
            raise ValueError(
                f"{name} has an integer beyond the range of np.int64 ({place(large[0])})"
            )
    if any_values:
        return array
    if array.dtype.kind not in "buifUSO":
        raise ValueError(f"Unknown label type: {name} has dtype {array.dtype} ({place(0)})")
    if array.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(array) | (array != np.floor(array)))
        if wrong.size:
            raise ValueError(
                f"Unknown label type: {name} is continuous or contains NaN ({place(wrong[0])})"
            )
    return array


def join_values(items: list, name: str, place="sample {}".format) -> np.ndarray:
    """One array of all values; integers stay integers, and different ones stay different."""
    filled = [item for item in items if item.size]
    families = [family(type(item.flat[0])) for item in filled]
    odd = next((i for i, own in enumerate(families) if own != families[0]), None)
    if odd is not None:
        i = [i for i, item in enumerate(items) if item.size][odd]
        hint = _hint_of_unknown(filled[0].flat[0], filled[odd].flat[0])
        raise TypeError(f"{name} mixes strings with labels of other types: see {place(i)}{hint}")
    flat = np.concatenate(filled or items[:1] or [np.empty(0, dtype=np.int64)])
    integers = [item for item in filled if item.dtype.kind in "iu"]
    if flat.dtype.kind != "f" or not integers:
        return flat
    most = _EXACT if len(integers) < len(filled) else np.iinfo(np.int64).max
    if any(int(item.max()) > most or int(item.min()) < -most for item in integers):
        raise ValueError(f"{name} has labels of {flat.dtype} and integers too large for that")
    return (
        flat
        if len(integers) < len(filled)
        else np.concatenate(filled, dtype=np.int64, casting="unsafe")
    )
