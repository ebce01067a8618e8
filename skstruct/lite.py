"""Tag with NumPy alone: copy this file into a program; it runs no code that a model brings."""

from __future__ import annotations

import io
import json
import math
import re
import struct
import tokenize
import unicodedata
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from itertools import pairwise
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

__all__ = ["Tagger"]

FORMAT, VERSION = "skstruct.lite", 1
# A file may ask for so many weights, and so many more per byte that it has.
_WEIGHTS, _PER_BYTE = 2**24, 64
_LARGEST = 1e100  # a weight, so that no score overflows
_LARGEST_PRODUCT = 1e300
_DEEPEST = 50  # dicts in dicts
_NAMES, _NAMES_PER_BYTE = 2**16, 8  # the same of features with names, and of names
_BYTES, _BYTES_PER_BYTE = 2**20, 64  # of the header, and of the text of all names
_TRIALS = 10**8  # of a pattern at a string, about a second


def most_weights(n_bytes: int) -> int:
    """Return the largest number of weights for the size of a file."""
    return _WEIGHTS + _PER_BYTE * n_bytes


def check_size(n_weights: int, n_bytes: int) -> None:
    """Reject a small file of very many weights, which would fill the memory."""
    if n_weights > most_weights(n_bytes):
        raise ValueError(f"{n_weights:,} weights are too many for a file of {n_bytes:,} bytes")


# Files: arrays with a header, or a model of CRFsuite.


class _Arrays:
    """Arrays of an .npz file, which are read one at a time, none above its limit of bytes."""

    def __init__(self, data):
        self.archive = zipfile.ZipFile(io.BytesIO(data))
        self.most_names = _NAMES + _NAMES_PER_BYTE * len(data)
        self.most_bytes = _BYTES + _BYTES_PER_BYTE * len(data)
        self.members = {m.filename.removesuffix(".npy"): m for m in self.archive.infolist()}

    def __contains__(self, name):
        return name in self.members

    def read(self, name, n_bytes):
        """An array, if all of it may have so many bytes."""
        member = self.members[name]
        if member.file_size > n_bytes + 2**12:  # of NumPy's header
            raise ValueError(f"{name} is too large for the file, or for the other arrays")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("an unknown compression")
        return _array(self.archive.read(member))

    def text(self, name):
        """The bytes of a text."""
        return self.read(name, self.most_bytes).tobytes()


def _array(content):
    stream = io.BytesIO(content)
    first = npy.read_magic(stream) == (1, 0)
    read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    if dtype.kind not in "uf":
        raise ValueError(f"an array of {dtype}")
    flat = np.frombuffer(content, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _table(arrays, name, shape, out=None):
    """A table of weights: as it is, or its non-zero entries and the gaps between them."""
    out = np.zeros(shape) if out is None else out
    if name in arrays:
        table = arrays.read(name, 8 * out.size)
        if table.shape != shape:
            raise ValueError(f"{name} is of shape {table.shape}, expected {shape}")
        out[...] = table
    else:
        values, gaps = (arrays.read(f"{name}_{part}", 8 * out.size) for part in ("values", "gaps"))
        if gaps.dtype.kind != "u" or gaps.dtype.itemsize > 4 or values.shape != gaps.shape:
            raise ValueError(f"{name} has {values.shape} entries, and gaps of {gaps.dtype}")
        places = gaps.astype(np.int64).cumsum() - 1
        if gaps.size and (gaps.ndim != 1 or gaps.min() < 1 or places[-1] >= out.size):
            raise ValueError(f"{name} has entries outside of the table")
        out.reshape(-1)[places] = values
    if not (out <= _LARGEST).all() or (out[np.isfinite(out)] < -_LARGEST).any():
        raise ValueError(f"{name} has weights that are not finite, or too large")
    return out


def _strings(arrays, most, what="name"):
    """At most so many strings, which are stored as one text, with their lengths in characters."""
    text = arrays.text(f"{what}s").decode("utf-8", "surrogatepass")
    ends = [0, *arrays.read(f"{what}_lengths", 8 * most).astype(np.int64).cumsum().tolist()]
    if ends[-1] != len(text) or any(b < a for a, b in pairwise(ends)):
        raise ValueError(f"the {what}s have other lengths")
    names = [text[a:b] for a, b in pairwise(ends)]
    if len(set(names)) < len(names):
        raise ValueError(f"a {what} occurs twice")
    return names


def _read_export(data):
    """The fields of a tagger, from what :func:`skstruct.export` has written."""
    arrays = _Arrays(data)
    header = json.loads(arrays.text("header"))
    if header["format"] != FORMAT:
        raise ValueError("skstruct.export has not written it")
    if header["version"] != VERSION:
        raise ValueError(f"its version is {header['version']!r}; this file reads {VERSION}")
    labels, reader = header["labels"], header["reader"]
    n_rows = header["n_features"]
    n, kinds = len(labels), set(map(type, labels))
    is_list = type(labels) is list and len(kinds) == 1 and kinds <= {str, int, float, bool}
    if not is_list or not all(a < b for a, b in pairwise(labels)):
        raise ValueError("its labels must be sorted, and of one type")
    if type(n_rows) is not int or n_rows < 0 or header["structure"] not in ("chain", "table"):
        raise ValueError("its header is of no model")
    n_states = header.get("states")
    if n_states is not None and (type(n_states) is not int or n_states < 1):
        raise ValueError("its header is of no model")
    check_size((n_rows + 3) * n + (n_states or n) ** 2, len(data))
    if reader is not None:
        if n_rows > arrays.most_names:
            raise ValueError(f"{n_rows:,} names are too many for a file of {len(data):,} bytes")
        reader = {"dicts": _Dicts, "templates": _Templates}[reader["kind"]](reader, arrays, n_rows)
    weights = np.zeros((n_rows + 3, n))
    _table(arrays, "node", (n_rows, n), weights[:n_rows])
    _table(arrays, "ends", (3, n), weights[n_rows:])
    if not np.isfinite(weights[: n_rows + 1]).all():
        raise ValueError("node has weights that are not finite")
    is_chain = header["structure"] == "chain"
    if n_states is not None and not is_chain:
        raise ValueError("a table has no states")
    steps = states = None
    if n_states is not None:
        steps, *states = _states(arrays, n, n_states)
    elif is_chain:
        steps = _table(arrays, "steps", (n, n))
    return labels, weights, steps, reader, bool(header["probabilities"]), states


def _states(arrays, n, n_states):
    """Steps between the states of a chain, their labels, and scores at the first and last node."""
    shapes = {"state_labels": (n_states,), "first": (n,), "after": (n_states, n)}
    labels, first, after = (
        arrays.read(name, 8 * math.prod(shape)).astype(np.int64) for name, shape in shapes.items()
    )
    for place, (name, shape) in zip((labels, first, after), shapes.items(), strict=True):
        most = n - 1 if name == "state_labels" else n_states  # 0 is no state, 1 the first
        if place.shape != shape or (place.size and not 0 <= place.min() <= place.max() <= most):
            raise ValueError(f"{name} has no states of the model")
    for place in (first, after):
        if ((place > 0) & (labels[place - 1] != np.arange(n))).any():
            raise ValueError("a label leads to a state of another one")
    scores = _table(arrays, "steps", (n_states, n + 1))
    steps = np.full((n_states, n_states + 1), -math.inf)
    np.put_along_axis(steps, after - 1, scores[:, :n], axis=1)  # no state: the last column
    begin = np.full(n_states + 1, -math.inf)
    begin[first - 1] = 0.0
    return np.ascontiguousarray(steps[:, :-1]), labels, begin[:-1], scores[:, n]


_HEADER = struct.Struct("<4sI4s9I")
RECORD = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


def _read_crfsuite(data):
    """The fields of a tagger, from a model file of CRFsuite: records and two dictionaries."""
    if len(data) < _HEADER.size:
        raise ValueError("it ends within its header")
    header = _HEADER.unpack_from(data)
    size, (n, n_names, start, labels, names) = header[1], header[5:10]
    if data[start : start + 4] != b"FEAT":
        raise ValueError("a model of an unknown version")
    if not n:
        raise ValueError("it was trained on nothing, and has no labels")
    if len(data) < size:
        raise ValueError(f"it has {len(data)} of {size} bytes")
    check_size((n_names + 3 + n) * n, len(data))
    n_records = struct.unpack_from("<I", data, start + 8)[0]
    records = np.frombuffer(data, RECORD, n_records, start + 12)
    labels, names = _quarks(data, labels, n), _quarks(data, names, n_names)
    if not (np.abs(records["weight"]) <= _LARGEST).all() or (records["type"] > 1).any():
        raise ValueError("a record of no feature, or with no finite weight")
    place = np.argsort(np.array(labels, dtype=object), kind="stable").argsort()
    weights, steps = np.zeros((n_names + 3, n)), np.zeros((n, n))
    for kind, table, n_sources in ((0, weights, n_names), (1, steps, n)):
        own = records[records["type"] == kind]
        if (own["source"] >= n_sources).any() or (own["target"] >= n).any():
            raise ValueError("a record of an unknown name")
        source = place[own["source"]] if kind else own["source"]
        table[source, place[own["target"]]] = own["weight"]
    reader = _Dicts({"separator": ":", "vectors": {}}, names, n_names)
    return sorted(labels), weights, steps, reader, True, None


def _quarks(data, start, n):
    """The names of a constant quark database, by number."""
    if not n:
        return []
    magic, size, _, _, n_known, table = struct.unpack_from("<4s5I", data, start)
    if magic != b"CQDB" or n_known < n:
        raise ValueError("a dictionary of names was expected")
    data, names, left = data[start : start + size], [], size
    for at in np.frombuffer(data, "<u4", n, table).tolist():
        length = struct.unpack_from("<I", data, at + 4)[0]
        name, left = data[at + 8 : at + 8 + length], left - length
        if left < 0:
            raise ValueError("names overlap")
        if at == 0 or name.find(b"\0") != length - 1:
            raise ValueError("a name is missing")
        names.append(name[:-1].decode("utf-8", errors="surrogateescape"))
    if len(set(names)) < n:
        raise ValueError("a name occurs twice")
    return names


# Readers: from tokens to rows of the weight table. A token's rows begin with that of the intercept.


class _Dicts:
    """Feature dicts and lists of attributes, as SequenceVectorizer reads them."""

    def __init__(self, header, source, n_rows):
        names = source if isinstance(source, list) else _strings(source, n_rows)
        self.row = {name: j for j, name in enumerate(names)}
        self.separator, self.vectors = header["separator"], header["vectors"]
        is_sound = type(self.separator) is str and type(self.vectors) is dict
        if not is_sound or len(names) != n_rows:
            raise ValueError(f"{len(names)} names for {n_rows} features")

    def rows(self, tokens, intercept):
        """Rows of all tokens, where each token begins, and values other than 1 by position."""
        rows, starts, values, get = [], [], {}, self.row.get
        for t, token in enumerate(tokens):
            starts.append(len(rows))
            rows.append(intercept)
            try:
                if type(token) is list and {*map(type, token)} == {str}:  # the usual case, fast
                    rows += [row for row in map(get, token) if row is not None]
                elif type(token) is dict or isinstance(token, Mapping):
                    self._read("", token, rows, values, 0)
                elif isinstance(token, (list, tuple, Set, np.ndarray)):
                    rows += [row for row in map(get, map(_text, token)) if row is not None]
                else:
                    raise TypeError(
                        f"a {type(token).__name__}; a dict of features or a list of attributes was "
                        "expected, as in training"
                    )
            except (TypeError, ValueError) as error:
                raise type(error)(f"token {t}: {error}") from None
        return rows, starts, values

    def _read(self, prefix, mapping, rows, values, depth):
        if depth > _DEEPEST:
            raise ValueError(f"dicts are nested more than {_DEEPEST} deep")
        get, separator, add = self.row.get, self.separator, rows.append
        for key, value in mapping.items():
            kind = type(value)
            if type(key) is not str:
                key = _text(key)
            if kind is str:
                row = get(f"{prefix}{key}{separator}{value}")
            elif kind is bool:
                row = get(prefix + key) if value else None
            elif kind is dict:
                self._read(f"{prefix}{key}{separator}", value, rows, values, depth + 1)
                continue
            else:
                self._other(prefix + key, value, rows, values, depth)
                continue
            if row is not None:
                add(row)

    def _other(self, name, value, rows, values, depth):
        """Features of all other values."""
        if _is_number(value):
            self._number(name, value, rows, values)
        elif isinstance(value, (str, bytes)):
            self._number(name + self.separator + _text(value), 1.0, rows, values)
        elif isinstance(value, Mapping):
            self._read(name + self.separator, value, rows, values, depth + 1)
        elif isinstance(value, (list, tuple, Set)) or getattr(value, "ndim", 0) == 1:
            items = value.tolist() if isinstance(value, np.ndarray) else value
            if len(items) and not isinstance(items, Set) and all(map(_is_number, items)):
                expected = self.vectors.get(name, len(items))
                if expected != len(items):
                    raise ValueError(f"{name!r} has {len(items)} numbers, not {expected}")
                for q, item in enumerate(items):
                    self._number(f"{name}[{q}]", item, rows, values)
                return
            for item in items:
                if not isinstance(item, (str, bytes, Mapping)):
                    raise TypeError(f"an item of {name!r} is of type {type(item).__name__}")
                self._other(name, item, rows, values, depth)
        else:
            raise TypeError(f"the value of {name!r} is of type {type(value).__name__}")

    def _number(self, name, value, rows, values):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"the value of {name!r} is not finite: leave out what is missing")
        row = self.row.get(name)
        if row is not None and number != 0.0:
            if number != 1.0:
                values[len(rows)] = number
            rows.append(row)


def _text(value):
    if isinstance(value, str):
        return str.__str__(value)  # members of an Enum have another str()
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="surrogateescape")
    raise TypeError(f"{value!r} is of type {type(value).__name__}, not str")


def _is_number(value):
    return isinstance(value, (Number, np.bool_)) and not isinstance(
        value, (complex, np.complexfloating, np.timedelta64)
    )


# All that patterns of templates are made of: escapes, character classes, repetitions, options, and
# what is no group.
_PLAIN = r"(?s)\\.|\[[^\]]*\]|\*\??|[^\\\[(){}|+]"


@lru_cache(maxsize=2**10)
def _compiled(pattern):
    """A pattern of templates, and how many repetitions and options it has."""
    if re.sub(_PLAIN, "", pattern):  # groups, with which patterns can take forever
        raise ValueError(f"a pattern of no template: {pattern!r}")
    parts = re.findall(_PLAIN, pattern)
    options = 0 if re.fullmatch(r"\^(\.\?)*", pattern) else parts.count("?")  # it always matches
    counts = sum(part in ("*", "*?") for part in parts), options
    return re.compile(pattern, re.DOTALL), *counts


def search(pattern: str, string: str) -> re.Match | None:
    """Search a string for a pattern of templates, unless that could take over about a second."""
    compiled, repeats, options = _compiled(pattern)
    n = len(string)
    is_small = max(min(n, repeats), min(n, options)) < 40  # of larger ones no number is needed
    if not is_small or (
        math.comb(n + repeats + 1, n) * min(2**options, math.comb(n + options, n)) > _TRIALS
    ):
        raise ValueError(
            f"a string of {n} characters, {string[:20]!r}, could keep the pattern {pattern!r} busy "
            "for very long: use fewer repetitions in it, or shorter strings"
        )
    return compiled.search(string)


class _Templates:
    """Columns of tokens, as TemplateVectorizer and TokenFeatures read them."""

    def __init__(self, header, arrays, n_rows):
        self.derived, self.grams, sizes = header.get("derived", []), {}, header.get("grams")
        if type(self.derived) is not list or not all(map(_is_derived, self.derived)):
            raise ValueError("a column that TokenFeatures does not make")
        if sizes is not None:
            grams = _strings(arrays, arrays.most_names, "gram")
            n_rows -= len(grams)
            self.grams = {gram: n_rows + q for q, gram in enumerate(grams)}
            if len(sizes) != 2 or not all(type(k) is int and 0 < k < 100 for k in sizes):
                raise ValueError(f"n-grams of {sizes} characters")
        self.gram_sizes = sizes
        strings, first = _strings(arrays, arrays.most_names), 0
        self.n_columns, self.outside = header["n_columns"], header["outside"]
        if self.outside not in ("mark", "wapiti", "drop"):
            raise ValueError(f"outside is {self.outside!r}")
        templates = header["templates"]
        if any(len(macros) != header["groups"][g] for g, macros in templates):
            raise ValueError("a template of another number of macros")
        known = []  # rows by the strings of the macros
        for g, n_macros in enumerate(header["groups"]):
            most = min(8 * (n_rows - first) * n_macros, arrays.most_bytes)
            codes = arrays.read(f"codes_{g}", most)
            if codes.ndim != 2 or codes.shape[1] != n_macros or len(codes) > n_rows - first:
                raise ValueError(f"codes of {n_macros} macros have the shape {codes.shape}")
            codes = codes.astype(np.int64)
            if codes.size and (codes.min() < 0 or codes.max() >= len(strings)):
                raise ValueError("a code of no string")
            keys = [tuple(strings[code] for code in own) for own in codes.tolist()]
            known.append({key: first + q for q, key in enumerate(keys)})
            first += len(keys)
        if first != n_rows or sum(map(len, known)) != n_rows:
            raise ValueError(f"{first} names for {n_rows} features")
        self.templates = [
            (known[g], header["groups"][g], [self._macro(*macro) for macro in macros])
            for g, macros in templates
        ]

    def _macro(self, command, lower, offset, column, pattern, absolute):
        n_columns = self.n_columns + len(self.derived)
        numbers = type(offset) is type(column) is int and 0 <= column < n_columns
        if command not in ("x", "t", "m") or not numbers:
            raise ValueError("a macro of no template")
        _compiled(pattern)
        return command, lower, offset, column, pattern, absolute

    def rows(self, tokens, intercept):
        """Rows of all tokens, where each token begins, and no values other than 1."""
        columns, n = self._columns(tokens), len(tokens)
        if columns:
            words = list(columns[0])
            columns += [derived_column(kind, data, words) for kind, data in self.derived]
        found = []
        for known, n_macros, macros in self.templates:
            strings = [self._results(macro, columns, n) for macro in macros]
            keys = zip(*strings, strict=True) if n_macros else [()] * n
            found.append(map(known.get, keys))
        rows, starts = [], []
        for t, own in enumerate(zip(*found, strict=True) if found else [()] * n):
            starts.append(len(rows))
            rows.append(intercept)
            rows += [row for row in own if row is not None]
            if self.grams:
                grams = map(self.grams.get, grams_of(words[t], *self.gram_sizes))
                rows += [row for row in grams if row is not None]
        return rows, starts, {}

    def _columns(self, tokens):
        rows = []
        for t, token in enumerate(tokens):
            row = (token,) if isinstance(token, str) else token
            no_row = isinstance(row, (bytes, Mapping, Set)) or hasattr(row, "to_numpy")
            if no_row or not hasattr(row, "__len__"):
                raise ValueError(f"token {t} is {token!r}; a str or a tuple was expected")
            if len(row) != self.n_columns:
                raise ValueError(
                    f"token {t} has {len(row)} columns; {self.n_columns} were expected"
                )
            for value in row:
                if isinstance(value, str):
                    continue
                if hasattr(value, "__len__") or str(value) in _MISSING:
                    raise ValueError(f"token {t}: the column {value!r} is no str")
            rows.append([_text(v) if isinstance(v, str) else str(v) for v in row])
        return list(zip(*rows, strict=True))

    def _results(self, macro, columns, n):
        """What a macro gives at each token, None where the feature is dropped."""
        _, _, offset, column, _, absolute = macro
        own = [_result(macro, string) for string in columns[column]]
        if not absolute:
            places = range(offset, offset + n)
        else:
            places = [n + offset if offset < 0 else offset - 1] * n
        return [own[t] if 0 <= t < n else self._mark(macro, t, n) for t in places]

    def _mark(self, macro, t, n):
        if self.outside == "drop":
            return None
        sign, step = ("-", -t) if t < 0 else ("+", t - n + 1)
        if self.outside == "mark":
            return f"_B{sign}{step}"
        return _result(macro, f"_x{sign}{step if step <= 4 else '#'}")


# Columns that TokenFeatures makes of words.


def _letter(char):
    kind = unicodedata.category(char)
    if kind == "Nd":
        return "d"
    if kind[0] not in "LM":
        return char
    if kind in ("Lu", "Lt"):
        return "X"
    return "x" if kind == "Ll" else _SCRIPTS.get(unicodedata.name(char, "")[:3], "o")


_SCRIPTS = {"CJK": "c", "HIR": "h", "KAT": "k", "HAN": "g"}


def _shape(word):
    return "".join(map(_letter, word))


def _phrases(index, words):
    """Marks of the longest phrases: "B", "I", and "O" for all else."""
    lower, marks, t = [word.lower() for word in words], ["O"] * len(words), 0
    while t < len(words):
        size = 0
        for rests in index.get(lower[t], ()):  # sorted, of one size; the longest first
            own = lower[t + 1 : t + 1 + len(rests[0])]
            place = bisect_left(rests, own)
            if rests[place : place + 1] == [own]:
                size = 1 + len(own)
                break
        marks[t : t + size] = ["B", *["I"] * (size - 1)][:size]
        t += size or 1
    return marks


def derived_column(kind: str, data: Any, words: list) -> list:
    """What TokenFeatures makes of each word: its shape, its cluster, or marks of phrases."""
    if kind == "phrases":
        return _phrases(data, words)
    if kind == "clusters":
        return [data.get(word) or data.get(word.lower(), "") for word in words]
    shapes = map(_shape, words)
    return [re.sub(r"(.)\1+", r"\1", own) for own in shapes] if kind == "short" else [*shapes]


def _is_derived(column):
    kind, data = column
    if kind in ("shape", "short"):
        return data is None
    if kind not in ("clusters", "phrases") or type(data) is not dict:
        return False
    if kind == "clusters":
        return set(map(type, data.values())) <= {str}
    groups = [rests for own in data.values() for rests in own]
    rests = [rest for own in groups for rest in own]
    words = {type(word) for rest in rests for word in rest}
    return all(groups) and {*map(type, groups + rests)} <= {list} and words <= {str}


def grams_of(word: str, shortest: int, longest: int) -> list:
    """The character n-grams of a word in lower case, each once; "^" and "$" are its ends."""
    text = f"^{word.lower()}$"
    sizes = range(shortest, min(longest, len(text)) + 1)
    return [*dict.fromkeys(text[q : q + k] for k in sizes for q in range(len(text) - k + 1))]


_MISSING = {"nan", "None", "<NA>", "NaT"}


def _result(macro, string):
    command, lower, _, _, pattern, _ = macro
    if command != "x":
        found = search(pattern, string)
        if command == "t":
            string = "false" if found is None else "true"
        else:
            string = "" if found is None else found.group()
    return string.lower() if lower else string


# Chunks. A rule is a pair of tags and what their kinds must be: "=" the same, "!" different, "*"
# any; "." stands for any tag. A chunk begins with a step of the first rules, goes on with those of
# the second, which come before the first, and is given if the step that leaves it is among the
# third.

_SCHEMES = {
    "iob1": ("OI* II! BI* IB= BB=", "BI= II=", "II! IO* IB* BO* BI! BB="),
    "iob2": (".B*", "BI= II=", "IO* II! IB* BO* BI! BB*"),
    "ioe1": ("OI* II! EI* EE=", "II= IE=", "II! IO* IE! EI= EE="),
    "ioe2": ("OI* OE* EI* EE* II! IE!", "IE= II=", "E.*"),
    "iobes": (".B* .S*", "BI= BE= II= IE=", "S.* E.*"),
}
_SCHEMES["bilou"] = _SCHEMES["iobes"]
# Those under which other tools know them, too.
SCHEME_NAMES = {name: name for name in _SCHEMES} | {
    "bio": "iob2", "bioes": "iobes", "biluo": "bilou", "bioul": "bilou",
}  # fmt: skip


OUTSIDE = "O", ""


def scheme_name(scheme: Any, argument: str = "scheme", runs: bool = False) -> str:
    """The name that this package uses for a tagging scheme, of any case; may be "runs"."""
    names, name = SCHEME_NAMES | ({"runs": "runs"} if runs else {}), str(scheme).lower()
    if name in names:
        return names[name]
    if name == "runs":
        raise ValueError(f"{argument}: 'runs' forbids no transition; leave it out")
    raise ValueError(f"{argument} must be a scheme ({', '.join(sorted(names))}), got {scheme!r}")


def tag_and_kind(label: Any, scheme: str | None, where: str = "") -> tuple[str, Any]:
    """Return the tag of a label and its kind; last and unit are called end and single."""
    if scheme == "runs":
        return OUTSIDE if label == "O" else ("", label)
    tag, dash, kind = label.partition("-")
    tag, kind = (tag[:1], kind) if dash else (label[:1], label[1:])
    if not tag:
        raise ValueError(f"label {label!r}{where} is empty")
    if scheme is not None and tag not in scheme.rstrip("12").upper():
        raise ValueError(f"label {label!r}{where} is not of the scheme {scheme!r}")
    renamed = label == tag or label[1:2] == "-"
    return {"L": "E", "U": "S"}.get(tag, tag) if renamed else tag, kind


def _agrees(rules, before, after):
    for rule in rules.split():
        is_of_tags = rule[0] in (before[0], ".") and rule[1] in (after[0], ".")
        if is_of_tags and (rule[2] == "*" or (rule[2] == "=") == (before[1] == after[1])):
            return True
    return False


@lru_cache(maxsize=2**12)
def chunk_step(before: tuple, after: tuple, scheme: str | None) -> tuple:
    """Return whether a step begins a chunk, continues one, ends one."""
    if scheme == "runs":  # labels without prefixes: neighbours of the same one are a chunk
        return after not in (before, OUTSIDE), before == after, before != after
    if scheme is not None:
        return tuple(_agrees(rules, before, after) for rules in _SCHEMES[scheme])
    (tag, kind), (after_tag, after_kind) = before, after  # by conlleval's rules
    ends = tag in "ES" or (tag in "BI" and after_tag in "BSO")
    ends = ends or (tag not in "O." and kind != after_kind)
    begins = after_tag in "BS" or (tag in "ESO" and after_tag in "EI")
    begins = begins or (after_tag not in "O." and kind != after_kind)
    return begins, not (begins or ends), ends


def find_chunks(steps: Iterable) -> list[tuple[int, int]]:
    """Return where chunks start and stop, from the steps of a path and its ends."""
    found, start = [], None
    for t, (begins, stays, ends) in enumerate(steps):
        if start is not None and stays:
            continue
        if start is not None and ends:
            found.append((start, t))
        start = t if begins else None
    return found


def chunk_rules(labels: list, scheme: str | None) -> tuple:
    """The kinds of labels, and three masks of (label, next label), whose last is an end."""
    name = None if scheme is None else scheme_name(scheme, runs=True)
    if name != "runs" and not isinstance(labels[0], str):
        raise TypeError(f"labels of chunks must be str, got {labels[0]!r}")
    tags = [*(tag_and_kind(label, name) for label in labels), OUTSIDE]
    rules = [[chunk_step(a, b, name) for b in tags] for a in tags]
    return [kind for _, kind in tags], np.array(rules).transpose(2, 0, 1)


_DAMAGE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError),
    *(SyntaxError, TypeError, ValueError, re.error, struct.error, zipfile.BadZipFile, zlib.error),
    tokenize.TokenError,  # NumPy takes headers that it cannot read for those of Python 2
)


def what_else(data: bytes) -> str:
    """Return the kind of a file that is not the expected model, as far as its bytes show."""
    if data.startswith(b"#mdl#"):
        return ", but a model of Wapiti: SAGCRF.from_wapiti reads it"
    if data.startswith(b"lCRF"):
        return ", but one of CRFsuite: SAGCRF.from_crfsuite reads it"
    if data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        return ": it is compressed, decompress it first"
    if data.strip(b"\0"):
        return ""
    return ": it holds zeros alone" if data else ": it is empty"


def read_fields(path: Any, readers: dict, what: str) -> tuple:
    """The fields of a tagger, from a file of a kind that its first bytes show."""
    data = Path(path).read_bytes()
    suffix = Path(path).suffix
    if suffix in (".skops", ".joblib", ".pickle", ".pkl"):
        raise ValueError(
            f"{path} is not {what}: {suffix} files hold estimators, of which skstruct.export makes "
            "such a file"
        )
    if data[:4] not in readers:
        raise ValueError(f"{path} is not {what}{what_else(data)}")
    try:
        return readers[data[:4]](data)
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged, or not a model: {error}") from None


CRFSUITE = {b"lCRF": _read_crfsuite}


class Tagger:
    """A trained model that predicts with NumPy alone; made by :meth:`load`.

    A sample is what the model was exported for. With a fitted vectorizer it is a sequence of
    tokens: feature dicts or lists of attributes for
    :class:`~skstruct.preprocessing.SequenceVectorizer` and for models of CRFsuite, strings or
    tuples of columns for :class:`~skstruct.preprocessing.TemplateVectorizer` and
    :class:`~skstruct.preprocessing.TokenFeatures`. Without one it is an
    array of features of shape (n_nodes, n_features); for :class:`~skstruct.MultiClass` a row. A
    SciPy matrix also works. Unknown features are ignored.

    Predictions are those of the estimator: ties go to the first label. Methods raise `ValueError`
    or `TypeError`, with the token or the sample, if a sample is not what the model needs, if the
    forbidden steps allow no labelling, or if a structural SVM is asked for probabilities, and
    `FloatingPointError` if the scores overflow. They change nothing: threads may share one tagger.
    Read more in the :ref:`User Guide <lite_guide>`.

    Attributes
    ----------
    classes : list
        The labels, sorted: columns of :meth:`marginals`.

    See Also
    --------
    skstruct.export : Writes the file.
    skstruct.SAGCRF.from_crfsuite : Reads models of CRFsuite as an estimator.

    Notes
    -----
    Probabilities come from one backward pass on logarithms, which turns the chain into a Markov
    chain, and one forward pass over its transition probabilities. The likelihood of a given
    labelling is not computed: use ``predict_log_likelihood`` of the estimator.

    Examples
    --------
    >>> import tempfile
    >>> import skstruct
    >>> from skstruct.lite import Tagger
    >>> from skstruct.pipeline import make_pipeline
    >>> from skstruct.preprocessing import SequenceVectorizer
    >>> X, y = [[{"w": "Ada"}, {"w": "left"}]], [["B-PER", "O"]]
    >>> model = make_pipeline(SequenceVectorizer(), skstruct.SAGCRF(random_state=0)).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skstruct.export(model, f"{folder}/tagger.npz")
    ...     tagger = Tagger.load(f"{folder}/tagger.npz")
    >>> tagger.tag_batch([X[0], X[0][:1]])
    [['B-PER', 'O'], ['B-PER']]
    >>> tagger.marginals(X[0]).round(1)
    array([[0.7, 0.3],
           [0.3, 0.7]])
    >>> (labels, score), second, third = tagger.top_k(X[0], 3)
    >>> labels
    ['B-PER', 'O']
    >>> for start, stop, kind, probability in tagger.chunks(X[0]):
    ...     print(start, stop, kind, round(probability, 2))
    0 1 PER 0.72
    """

    def __init__(self, *args: Any) -> None:
        given = repr(args[0]) if args else "path"
        raise TypeError(f"a Tagger is read from a file: Tagger.load({given})")

    def _fill(self, labels, weights, steps, reader, probabilities, states=None):
        self.classes = labels
        # The labels of states, if labellings are read by an automaton, and scores of its ends.
        self._states = states
        self._labels = labels if states is None else [labels[k] for k in states[0]]
        self._weights, self._reader, self._is_probable = weights, reader, probabilities
        self._n, self._is_table = len(weights) - 3, steps is None
        self._steps = np.zeros((len(labels),) * 2) if steps is None else steps
        self._into = np.ascontiguousarray(self._steps.T)  # a row a label: the steps to it
        self._bounded = bool(weights[-2:].any())
        self._rules = {}
        return self

    @staticmethod
    def load(path: Any) -> Tagger:
        """Read a model.

        Parameters
        ----------
        path : str or Path
            What :func:`skstruct.export` has written, or a model file of CRFsuite. Nothing in it is
            run.

        Returns
        -------
        Tagger
            The model.

        Raises
        ------
        ValueError
            If the file is neither, damaged, of another version, or asks for much more memory than
            its size justifies.
        """
        what = "a file of skstruct.export or a CRFsuite model"
        return object.__new__(Tagger)._fill(
            *read_fields(path, {b"PK\3\4": _read_export} | CRFSUITE, what)
        )

    def _scores(self, x):
        """Scores of labels of all nodes, those of the ends included."""
        n, weights = self._n, self._weights
        if self._reader is not None:
            no_list = isinstance(x, (str, bytes, Mapping)) or hasattr(x, "columns")
            if no_list or not hasattr(x, "__len__"):
                raise TypeError(f"a sequence of tokens was expected, got a {type(x).__name__}")
            if not len(x):
                return weights[:0]
            first = next(iter(x))
            if isinstance(first, (list, tuple)) and isinstance(next(iter(first), 0), _NESTED):
                raise TypeError(
                    "token 0 is a sequence of tokens: a list of sequences is for tag_batch; of "
                    "one sequence [x] pass x"
                )
            rows, starts, values = self._reader.rows(x, n)
            table = weights.take(rows, axis=0)
            if values:
                places = list(values)
                with np.errstate(over="ignore"):
                    scaled = table[places] * np.array(list(values.values()))[:, None]
                _check_scores(scaled)
                table[places] = scaled
            scores = np.add.reduceat(table, starts, axis=0)
        else:
            mask = getattr(x, "mask", None)  # numpy.ma would take a while to import
            if isinstance(mask, np.ndarray) and mask.any():
                raise ValueError("features must not be masked")
            x = x.tocsr() if hasattr(x, "tocsr") else np.asarray(x)
            if x.shape == (0,) and not self._is_table:
                return weights[:0]
            x = x.reshape(1, -1) if x.ndim == 1 and self._is_table else x
            if x.ndim != 2 or x.shape[1] != n or (self._is_table and x.shape[0] != 1):
                rows = 1 if self._is_table else "nodes"
                raise ValueError(f"features of shape ({rows}, {n}) were expected, got {x.shape}")
            if x.dtype.kind not in "biuf":
                raise TypeError(f"features must be numbers, got {x.dtype}")
            if not np.isfinite(x.data if hasattr(x, "tocsr") else x).all():
                raise ValueError("features must be finite")
            with np.errstate(over="ignore", invalid="ignore"):
                scores = x @ weights[:n] + weights[n]
            _check_scores(scores)
        if self._bounded and len(scores):
            scores[0] += weights[n + 1]
            scores[-1] += weights[n + 2]
        return scores

    def tag(self, x: Any) -> Any:
        """Return the best labelling of a sample.

        Parameters
        ----------
        x : sequence of tokens, or array-like of shape (n_nodes, n_features)
            The sample: see the class. For a table, one row.

        Returns
        -------
        list
            A label for each token; for a table the label.
        """
        if self._is_table:
            return self.classes[int(self._scores(x)[0].argmax())]
        return [self._labels[k] for k in self._best(self._of_states(self._scores(x)))]

    def _of_states(self, scores):
        """The same of states, if there are any, those of their ends included."""
        if self._states is None or not len(scores):
            return scores
        labels, first, last = self._states
        scores = scores[:, labels]
        scores[0] += first
        scores[-1] += last
        return scores

    def _best(self, scores):
        """The codes of the best labelling: the first ones of those that tie."""
        if not len(scores):
            return []
        best, backs, ways = scores[0], [], np.empty_like(self._into)
        flat, first = ways.reshape(-1), np.arange(0, ways.size, len(ways))
        for own in scores[1:]:
            np.add(self._into, best, ways)
            back = ways.argmax(axis=1)
            backs.append(back)
            best = flat.take(first + back)
            best += own
        last = int(best.argmax())
        if best[last] == -math.inf:
            raise ValueError(_INFEASIBLE)
        codes = [last]
        for back in reversed(backs):
            last = int(back[last])
            codes.append(last)
        return codes[::-1]

    def tag_batch(self, X: Iterable) -> list:
        """Return the best labellings of several samples.

        Parameters
        ----------
        X : iterable of samples
            Each as :meth:`tag` takes it.

        Returns
        -------
        list
            What :meth:`tag` returns for each.
        """
        labels = []
        for i, x in enumerate(X):
            try:
                labels.append(self.tag(x))
            except (ValueError, TypeError, FloatingPointError) as error:
                raise type(error)(f"sample {i}: {error}") from None
        return labels

    def _backward(self, scores):
        """Logarithms of what each label and all that follows it weigh, the largest 0."""
        if not self._is_probable:
            raise ValueError("the model is a structural SVM, which has no probabilities")
        weigh = scores.copy()
        with np.errstate(divide="ignore"):
            for t in range(len(scores) - 1, -1, -1):
                if t < len(scores) - 1:
                    top, shares = self._shares(weigh[t + 1])
                    weigh[t] += top + np.log(shares.sum(axis=1))
                largest = weigh[t].max()
                if largest == -math.inf:
                    raise ValueError(_INFEASIBLE)
                weigh[t] -= largest
        return weigh

    def _shares(self, weigh):
        """Weights of the next labels for each label, up to a factor whose logarithm comes first."""
        shares = self._steps + weigh
        top = shares.max(axis=1)
        top[top == -math.inf] = 0.0
        shares -= top[:, None]
        return top, np.exp(shares, out=shares)

    def _transition(self, weigh):
        """Probabilities of the next label for each label."""
        _, shares = self._shares(weigh)
        total = shares.sum(axis=1, keepdims=True)
        return shares / np.where(total > 0.0, total, 1.0)

    def _forward(self, weigh):
        """Probabilities of the labels of each node."""
        out = np.exp(weigh)
        for t in range(len(out)):
            if t:
                out[t] = out[t - 1] @ self._transition(weigh[t])
            out[t] /= out[t].sum()
        return np.minimum(out, 1.0, out=out)

    def marginals(self, x: Any) -> np.ndarray:
        """Return the probability of each label at each token.

        Parameters
        ----------
        x : sequence of tokens, or array-like of shape (n_nodes, n_features)
            The sample.

        Returns
        -------
        ndarray of shape (n_nodes, n_classes)
            Columns as in ``classes``; for a table of shape (n_classes,).
        """
        found = self._forward(self._backward(self._of_states(self._scores(x))))
        if self._states is not None:
            found, of_states = np.zeros((len(found), len(self.classes))), found
            np.add.at(found.T, self._states[0], of_states.T)
        return found[0] if self._is_table else found

    def top_k(self, x: Any, k: int) -> list:
        """Return the `k` best labellings of a sample with their scores.

        Parameters
        ----------
        x : sequence of tokens, or array-like of shape (n_nodes, n_features)
            The sample.
        k : int
            Number of labellings, at least 1.

        Returns
        -------
        list of (labels, score)
            Best first, fewer than `k` if the sample has fewer labellings. Differences of scores
            are, for a CRF, those of log-probabilities.
        """
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        scores = self._of_states(self._scores(x))
        if not len(scores):
            return [([], 0.0)]
        K, backs = len(self._labels), []
        best = scores[0][:, None]  # of each label the best scores that end in it
        for own in scores[1:]:
            ways = (best[:, :, None] + self._steps[:, None, :]).reshape(-1, K)
            order = np.argsort(-ways, axis=0, kind="stable")[:k]
            backs.append((order, best.shape[1]))
            best = (np.take_along_axis(ways, order, axis=0) + own).T
        flat, found = best.ravel(), []
        for place in np.argsort(-flat, kind="stable")[:k].tolist():
            if flat[place] == -math.inf:
                break
            label, rank = divmod(place, best.shape[1])
            codes = [label]
            for order, width in reversed(backs):
                label, rank = divmod(int(order[rank, label]), width)
                codes.append(label)
            labels = [self._labels[code] for code in reversed(codes)]
            found.append((labels[0] if self._is_table else labels, float(flat[place])))
        if not found:
            raise ValueError(_INFEASIBLE)
        return found

    def chunks(self, x: Any, scheme: str | None = None) -> list:
        """Return the chunks of the best labelling with their probabilities.

        Parameters
        ----------
        x : sequence of tokens, or array-like of shape (n_nodes, n_features)
            The sample.
        scheme : {"iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou", "runs"}, default=None
            Tagging scheme, as for :func:`skstruct.metrics.chunks`.

        Returns
        -------
        list of (start, stop, kind, probability)
            Positions ``start:stop``, the kind, and the exact probability of this chunk (both ends
            and kind).
        """
        if self._is_table:
            raise ValueError("rows of a table have no chunks")
        scheme = scheme if scheme is None else str(scheme).lower()
        if scheme not in self._rules:
            self._rules[scheme] = chunk_rules(self._labels, scheme)
        kinds, rules = self._rules[scheme]
        begins, stays, ends = rules
        scores = self._of_states(self._scores(x))
        weigh = self._backward(scores)
        path = self._best(scores)
        found = find_chunks(rules[:, [-1, *path], [*path, -1]].T.tolist())  # -1: beyond an end
        inner, n = slice(len(self._labels)), len(scores)
        first = self._beginnings(weigh, begins, stays) if found else []
        out = []
        for start, stop in found:
            kind, share = kinds[path[stop - 1]], first[start]
            for t in range(start + 1, stop):
                share = share @ (stays[inner, inner] * self._transition(weigh[t]))
            share = share * [own == kind for own in kinds[: len(share)]]
            if stop < n:
                last = (ends[inner, inner] * self._transition(weigh[stop])).sum(axis=1)
            else:
                last = ends[inner, -1]
            out.append((start, stop, kind, min(float(share @ last), 1.0)))
        return out

    def _beginnings(self, weigh, begins, stays):
        """Probabilities of the labels of each node together with a chunk that begins there."""
        inner = slice(len(self._labels))
        nodes = np.exp(weigh[:1]).ravel()
        nodes /= nodes.sum()
        begin, first = begins[-1, inner], []
        inside, outside = nodes * begin, nodes * ~begin  # by whether a chunk has the node
        begins, stays = begins[inner, inner], stays[inner, inner]
        for t in range(len(weigh)):
            if t:
                step = self._transition(weigh[t])
                new = inside @ (step * (begins & ~stays)) + outside @ (step * begins)
                outside = inside @ (step * ~(begins | stays)) + outside @ (step * ~begins)
                inside = new + inside @ (step * stays)
            first.append(new if t else inside)
        return first


_NESTED = list, tuple, Mapping
_INFEASIBLE = "no labelling satisfies the forbidden steps"


def _check_scores(scores):
    if not (np.abs(scores) < _LARGEST_PRODUCT).all():
        raise FloatingPointError("the scores overflow: are the features scaled?")
