"""Models of CRFsuite and Wapiti: read and written, weights checked and by names."""

from __future__ import annotations

import math
import re
import struct
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.arguments import warn_user
from ..core.text_files import unpacked
from ..data.constraints import transition_mask
from ..data.names import ListedNames
from ..data.store import written_beside
from ..graphs.chain import Chain
from ..lite import CRFSUITE, RECORD, most_weights, read_fields, what_else
from ..pipeline import Pipeline
from ..preprocessing import SequenceVectorizer
from ..preprocessing.columns import TokenColumns
from ..preprocessing.patterns import parse_line
from ..preprocessing.template import (
    TemplateCounts,
    TemplateNames,
    TemplateVectorizer,
    by_text,
    own_token,
)

#: Score of a step that may not occur: its exponential is 0, and no labelling makes up for it.
FORBIDDEN = -1e10


class LinearChain(NamedTuple):
    """Weights of a chain, those of its ends apart."""

    # Names of the features and of the labels.
    features: list
    labels: list
    # (n_features, n_labels)
    node: np.ndarray
    # (n_labels,): Of each node, of the first one, of the last one.
    intercept: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    # (edge features or 1, n_labels, n_labels)
    pair: np.ndarray


def linear_chain(model, program: str, *, edge_features: bool = False) -> LinearChain:
    """Return the weights of a fitted chain, or say why `program` cannot have them."""
    check_is_fitted(model)
    graph = model.graph_
    if type(graph) is not Chain:
        raise ValueError(
            f"{program} has linear chains alone, the structure of the model is {graph}"
        )
    if graph.edge_features and not edge_features:
        raise ValueError(f"{program} has no edge features: the model is one of {graph}")
    if graph.rules or graph.order != 1:
        raise ValueError(f"{program} has no rules and no order above 1: the model is of {graph}")
    graph.refuse_states(f"{program} has no hidden states")
    labels = model.classes_.tolist()
    other = next((label for label in labels if not isinstance(label, str)), None)
    if other is not None:
        raise ValueError(f"labels in a file of {program} are strings, the model has {other!r}")
    names = vars(model).get("_feature_names")
    if names is None:
        raise ValueError(
            f"a file of {program} has the names of features, this model does not: fit it on what a "
            "SequenceVectorizer (without hashing) or TemplateVectorizer puts out, or set "
            "feature_names_in_"
        )
    n, n_labels = model.n_features_in_, len(labels)
    if len(names) != n:
        raise ValueError(f"feature_names_in_ has {len(names)} names for {n} features")
    node, pair = model.node_weights_, model.pair_weights_.reshape(-1, n_labels, n_labels)
    if not (np.isfinite(node).all() and np.isfinite(pair).all()):
        raise ValueError("the model has weights that are not finite")
    mask = transition_mask(graph.forbidden, model.classes_)
    nothing, rest = np.zeros(n_labels), node[n:]
    intercept = rest[-1] if model._has_intercept else nothing
    ends = rest[:2] if graph.boundary else (nothing, nothing)
    start, stop = (
        np.where(np.isinf(never), FORBIDDEN, scores)
        for never, scores in zip((mask.start, mask.stop), ends, strict=True)
    )
    # The first row is that of the constant edge feature, if there are others.
    pair = np.concatenate([np.where(np.isinf(mask.pairs), FORBIDDEN, pair[:1]), pair[1:]])
    return LinearChain(names.strings(), labels, node[:n], intercept, start, stop, pair)


def as_bytes(strings: list, what: str, program: str) -> list[bytes]:
    """Names as distinct C strings of UTF-8; bytes that were not UTF-8 stay as they were."""
    out, seen = [], set()
    for string in strings:
        try:
            name = string.encode("utf-8", errors="surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"{what} {string!r} has a surrogate, UTF-8 has none") from None
        if b"\0" in name:
            raise ValueError(f"{what} {string!r} has a NUL, where {program} ends a name")
        if name in seen:
            raise ValueError(f"{what} {string!r} is there twice in UTF-8")
        seen.add(name)
        out.append(name)
    return out


def merged(names: list, table: np.ndarray, program: str) -> tuple[list, np.ndarray]:
    """Each name once: features of one name, as "a/b" and "c" or "a" and "b/c", weigh the same."""
    first = {}
    for j, name in enumerate(names):
        k = first.setdefault(name, j)
        if k != j and not np.array_equal(table[j], table[k]):
            raise ValueError(
                f"two features of different weights are called {name!r}, and {program} tells them "
                "by names"
            )
    return [*first], table[[*first.values()]]


_HEADER = struct.Struct("<4sI4s9I")
_CHUNK_HEADER = struct.Struct("<4s2I")
_NAMES_HEADER = struct.Struct("<4s5I")
_BYTE_ORDER, _N_TABLES = 0x62445371, 256  # of a dictionary of names
_VERSION, _LARGEST_FILE = 100, 2**32
_STATE, _TRANSITION = 0, 1


def read_crfsuite(path, estimator) -> Pipeline:
    """Return a fitted pipeline with the weights of a CRFsuite model."""
    labels, weights, steps, reader, *_ = read_fields(path, CRFSUITE, "a CRFsuite model file")
    vectorizer = SequenceVectorizer(separator=":").fit([[[*reader.row]]])
    rows = np.array([reader.row[name] for name in vectorizer.vocabulary_], dtype=np.int64)
    estimator.graph_, estimator.classes_ = Chain(), np.array(labels)
    estimator.n_features_in_, estimator.inference_ = rows.size, "exact"
    estimator._feature_names, estimator._has_intercept = vectorizer._names, False
    estimator.node_weights_, estimator.pair_weights_ = weights[rows], steps.reshape(1, -1)
    return Pipeline([("vectorizer", vectorizer), ("crf", estimator)])


def _hashes(keys, lengths):
    """Hash of each key: hashlittle of Bob Jenkins's lookup3.c, for all keys of a length at once."""
    out = np.empty(len(keys), dtype=np.uint32)
    blocks = (lengths + 11) // 12
    for n in np.unique(blocks).tolist():
        own = np.flatnonzero(blocks == n)
        text = b"".join(keys[j].ljust(12 * n, b"\0") for j in own.tolist())
        words = np.frombuffer(text, "<u4").reshape(own.size, n, 3).astype(np.uint32)
        a = b = c = np.uint32(0xDEADBEEF) + lengths[own].astype(np.uint32)
        for q in range(n):
            a, b, c = a + words[:, q, 0], b + words[:, q, 1], c + words[:, q, 2]
            a, b, c = _mixed(a, b, c) if q < n - 1 else _finished(a, b, c)
        out[own] = c
    return out


def _rotated(x, k):
    return (x << k) | (x >> (32 - k))


def _mixed(a, b, c):
    for k in (4, 6, 8, 16, 19, 4):
        a, b, c = b, c + b, (a - c) ^ _rotated(c, k)
    return a, b, c


def _finished(a, b, c):
    for k in (14, 11, 25, 16, 4, 14, 24):
        a, b, c = b, (c ^ b) - _rotated(b, k), a
    return c, a, b


def _dictionary(names):
    """A constant quark database: the names, hash tables from names to numbers, the way back."""
    keys = [name + b"\0" for name in names]
    lengths = np.array([*map(len, keys)], dtype=np.int64)
    first = _NAMES_HEADER.size + 8 * _N_TABLES
    ends = first + np.cumsum(lengths + 8)
    end, offsets = int(ends[-1]) if names else first, ends - lengths - 8
    hashes = _hashes(keys, lengths).astype(np.int64)
    table, n_names = hashes % _N_TABLES, len(names)
    sizes = 2 * np.bincount(table, minlength=_N_TABLES)
    begins = np.cumsum(sizes) - sizes
    buckets, slots = (
        np.zeros((2 * n_names, 2), "<u4"),
        (hashes // _N_TABLES % sizes[table]).tolist(),
    )
    taken, places = bytearray(2 * n_names), []
    for slot, begin, size in zip(slots, begins[table].tolist(), sizes[table].tolist(), strict=True):
        while taken[begin + slot]:
            slot = (slot + 1) % size
        taken[begin + slot] = True
        places.append(begin + slot)
    buckets[places] = np.stack([hashes, offsets], axis=1)
    tables = np.stack([np.where(sizes, end + 8 * begins, 0), sizes], axis=1).astype("<u4")
    records = (struct.pack("<2I", k, len(key)) + key for k, key in enumerate(keys))
    back = end + buckets.nbytes
    header = _NAMES_HEADER.pack(
        b"CQDB", back + 4 * n_names, 0, _BYTE_ORDER, n_names, back if names else 0
    )
    return b"".join(
        [header, tables.tobytes(), *records, buckets.tobytes(), offsets.astype("<u4").tobytes()]
    )


def _references(name, begin, first, counts, n_unused=0):
    """Numbers of the features of each label or attribute, which follow each other from `first`."""
    n = counts.size
    start = begin + _CHUNK_HEADER.size + 4 * (n + n_unused)
    entry = np.arange(n) + np.cumsum(counts) - counts
    numbers = np.full(n + counts.sum(), -1)
    numbers[entry] = counts
    numbers[numbers < 0] = first + np.arange(counts.sum())
    body = np.concatenate([start + 4 * entry, np.zeros(n_unused, dtype=int), numbers]).astype("<u4")
    return _CHUNK_HEADER.pack(name, _CHUNK_HEADER.size + body.nbytes, n + n_unused) + body.tobytes()


def write_crfsuite(path, model, first: str, last: str) -> dict:
    """Write the weights of a fitted chain; return the attributes that ends of sequences need."""
    chain = linear_chain(model, "CRFsuite")
    # A label is that of the first node, or a step leads to it.
    pair, names, node = chain.pair[0] + chain.intercept, [*chain.features], chain.node
    ends, needed = {"first": chain.start + chain.intercept, "last": chain.stop}, {}
    for (end, scores), name in zip(ends.items(), (first, last), strict=True):
        if not isinstance(name, str):
            raise TypeError(f"{end} must be a str, the name of an attribute, got {name!r}")
        if scores.any():
            if name not in names:
                names, node = [*names, name], np.vstack([node, np.zeros_like(scores)])
            needed[end], node = name, node.copy()
            node[names.index(name)] += scores
    if len(needed) == 2 and first == last:
        raise ValueError(f"first and last must be two attributes, both are {first!r}")
    content = _content(names, chain.labels, node, pair)
    with written_beside(Path(path)) as file:
        file.write(content)
    return needed


def _content(names, labels, node, pair):
    """A model file: state features by attributes, then transitions by their first labels."""
    names, node = merged(names, node, "CRFsuite")
    used = node.any(axis=1)
    names, node = [*compress(names, used.tolist())], node[used]
    state, step = np.nonzero(node), np.nonzero(pair)
    n_states, n_labels = state[0].size, len(labels)
    records = np.empty(n_states + step[0].size, RECORD)
    for kind, own, (source, target), table in (
        (_STATE, records[:n_states], state, node),
        (_TRANSITION, records[n_states:], step, pair),
    ):
        own["type"], own["source"], own["target"] = kind, source, target
        own["weight"] = table[source, target]
    chunk = _CHUNK_HEADER.pack(b"FEAT", _CHUNK_HEADER.size + records.nbytes, records.size)
    parts = [
        chunk + records.tobytes(),
        _dictionary(as_bytes(labels, "the label", "CRFsuite")),
        _dictionary(as_bytes(names, "the feature", "CRFsuite")),
    ]
    starts = (_HEADER.size + np.cumsum([0, *map(len, parts)])).tolist()
    parts[-1] += b"\0" * (-starts[-1] % 4)
    starts[-1] += -starts[-1] % 4
    size = starts[-1] + 4 * (2 * n_labels + 2 * len(names) + records.size + 8)
    if size >= _LARGEST_FILE:
        raise ValueError(
            f"the file would have {size} bytes, CRFsuite's are smaller than {_LARGEST_FILE}: "
            "sparsify the model, or train it with an L1 penalty"
        )
    # CRFsuite leaves room for the ends of sequences, which have no features.
    counts = np.bincount(step[0], minlength=n_labels)
    parts.append(_references(b"LFRF", starts[-1], n_states, counts, n_unused=2))
    counts = np.bincount(state[0], minlength=len(names))
    starts.append(starts[-1] + len(parts[-1]))
    parts.append(_references(b"AFRF", starts[-1], 0, counts))
    total = starts[-1] + len(parts[-1])
    header = _HEADER.pack(b"lCRF", total, b"FOMC", _VERSION, 0, n_labels, len(names), *starts)
    return header + b"".join(parts)


_CRF = 2  # type of a model
# Patterns of what is not a feature in skstruct; `_x-1` is before the first token, `_x+1` behind the
# last one.
_BIGRAM = "b"
_OWN = {
    "intercept": ("u-intercept", "u-intercept"),
    "start": ("u-first:%x[-1,0]", "u-first:_x-1"),
    "stop": ("u-last:%x[1,0]", "u-last:_x+1"),
}
_MARK = re.compile(r"_B([+-])(\d+)")
_MARKS = 4  # marks beyond an end that have a number
_WEIGHT = re.compile(rb"(\d{1,18})=(-?0x[01]\.?[0-9a-f]*p[+-]\d{1,4})")
_CASED = re.compile(r"[^\W\d_\x00-\x7f]")  # letters, most of which have cases
_COLUMNS, _WAYS = 1000, 1000  # limits on what a file may request
_SPACE = set(" \t\n\v\f\r")  # separates columns


def write_wapiti(path, model, template) -> None:
    """Write the weights of a fitted chain on the features of a fitted TemplateVectorizer."""
    if not isinstance(template, TemplateVectorizer):
        raise TypeError(
            "template must be the fitted TemplateVectorizer that made the features, got "
            f"{type(template).__name__}"
        )
    check_is_fitted(template)
    chain = linear_chain(model, "Wapiti", edge_features=True)
    for label in chain.labels:
        if not label or _SPACE & set(label):
            raise ValueError(
                f"the label {label!r} is empty or has a space: Wapiti splits at spaces"
            )
    known = template.get_feature_names_out().tolist()
    n_tables = 1 + (template._edge_features[2] if template._edge else 0)
    if known != chain.features or len(chain.pair) != n_tables:
        raise ValueError("template has other features than the model was trained on")

    patterns = [*template._node, *(t for t in template._edge if "U" not in t.kinds)]
    patterns, node = [*map(_pattern, patterns), _BIGRAM], [chain.node]
    strings = _marked(template)
    macros = [macro for t in (*template._node, *template._edge) for macro in t.macros]
    if any(macro.lower for macro in macros) and any(map(_CASED.search, strings)):
        warn_user(
            "Wapiti lowers ASCII letters alone: a template in upper case (%X) has seen others, and "
            "will give other features where a token has them in upper case"
        )
    names = _observations(strings, template._node_features)
    for own, (pattern, name) in _OWN.items():
        scores = getattr(chain, own)
        if scores.any():
            patterns, names, node = [*patterns, pattern], [*names, name], [*node, scores[None]]
    edge_names = [_BIGRAM]
    if template._edge:
        edge_names += _observations(strings, template._edge_features)
    n_columns = max((macro.column for macro in macros), default=0)
    content = _wapiti_content(
        patterns, n_columns, chain.labels, (names, np.vstack(node)), (edge_names, chain.pair)
    )
    with written_beside(Path(path)) as file:
        file.write(content)


def _pattern(template):
    """A template as Wapiti writes it."""
    parts = [template.texts[0][:1].lower() + template.texts[0][1:]]
    for macro, text in zip(template.macros, template.texts[1:], strict=True):
        command = macro.command.upper() if macro.lower else macro.command
        regex = "" if command in "xX" else f',"{macro.regex}"'
        at = "@" if macro.absolute else ""
        parts += [f"%{command}[{at}{macro.offset},{macro.column}{regex}]", text]
    return "".join(parts)


def _marked(template):
    """Strings by their codes, with Wapiti's marks beyond the ends of a sequence."""
    strings = [*template.vocabulary_]
    if template._outside == "wapiti":
        return strings
    for own in (*template._node, *template._edge):
        if any(m.command != "x" and (m.absolute or m.offset) for m in own.macros):
            raise ValueError(
                f"template {own.line!r}: beyond the ends %t and %m match Wapiti's marks: fit with "
                f'outside="wapiti", not {template._outside!r}'
            )
    if template._outside == "drop":
        return strings
    for q, string in enumerate(strings):
        if mark := _MARK.fullmatch(string):
            if int(mark[2]) > _MARKS:
                raise ValueError(
                    f"Wapiti has no mark {string!r}, {mark[2]} tokens beyond an end: fit with "
                    'outside="wapiti"'
                )
            strings[q] = f"_x{mark[1]}{mark[2]}"
    return strings


def _observations(strings, features):
    names = TemplateNames(ListedNames(strings), features).strings()
    return [name[:1].lower() + name[1:] for name in names]


def _kinds(names):
    """Bits of each observation: 1 if it has a weight for each label, 2 if for each pair."""
    bits = {"u": 1, "b": 2, "*": 3}
    return np.array([bits[name[:1]] for name in names], dtype=np.int64)


def _wapiti_content(patterns, n_columns, labels, nodes, edges):
    """A model file: netstrings of patterns, labels and observations, then weights by number."""
    n = len(labels)
    (names, node), (edge_names, pair) = nodes, edges
    pair = pair.reshape(len(pair), n * n)
    names, node = merged(names, node, "Wapiti")
    edge_names, pair = merged(edge_names, pair, "Wapiti")
    used = [name for name, row in zip(names, node.any(axis=1), strict=True) if row]
    used += [name for name, row in zip(edge_names, pair.any(axis=1), strict=True) if row]
    number = {name: o for o, name in enumerate(dict.fromkeys([*used, _BIGRAM]))}
    kinds = _kinds(number)
    sizes = n * (kinds & 1) + n * n * (kinds >> 1)
    first, found = np.cumsum(sizes) - sizes, []
    for own, table, shift in ((names, node, 0), (edge_names, pair, n)):
        rows, columns = np.nonzero(table)
        o = np.array([number.get(name, -1) for name in own], dtype=np.int64)[rows]
        places = first[o] + columns + np.where(kinds[o] == 3, shift, 0)
        found.append((places, table[rows, columns]))
    places, weights = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort(places)
    lines = [
        f"{f}={weight.hex()}\n"
        for f, weight in zip(places[order].tolist(), weights[order].tolist(), strict=True)
    ]
    strings = {"label": labels, "feature": [*number]}
    texts = [as_bytes(own, f"the {what}", "Wapiti") for what, own in strings.items()]
    head = [b"#mdl#%d#%d\n#rdr#%d/%d/0\n" % (_CRF, len(lines), len(patterns), n_columns)]
    head += [_netstring(*as_bytes([pattern], "the pattern", "Wapiti")) for pattern in patterns]
    for own in texts:
        head += [b"#qrk#%d\n" % len(own), *map(_netstring, own)]
    return b"".join(head) + "".join(lines).encode()


def _netstring(text):
    return b"%d:%s,\n" % (len(text), text)


# Digits in groups of three, or with a decimal comma, as some locales write them.
_GROUPED = re.compile(rb"\d(?:[,.' ]|\xc2\xa0|\xe2\x80\xaf)\d{3}(?!\d)|0x[01],")


def _hint(line):
    if not _GROUPED.search(line):
        return ""
    return f": {line[:40]!r} has numbers in the form of a locale; save the model with LC_ALL=C"


class _Reader:
    """A model file, read from its beginning on."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def numbers(self, form, what):
        """The numbers of a line."""
        found = re.compile(form).match(self.data, self.at)
        if not found:
            line = self.data[self.at : self.at + 60].split(b"\n")[0]
            raise ValueError(f"{what} was expected at byte {self.at}{_hint(line)}")
        self.at = found.end()
        return [int(digits) for digits in found.groups()]

    def strings(self, n, what):
        """So many netstrings, each another one."""
        out = []
        for _ in range(n):
            size = self.numbers(rb"\s*(\d{1,10}):", what)[0]
            text, self.at = self.data[self.at : self.at + size], self.at + size + 2
            if self.data[self.at - 2 : self.at] != b",\n" or not text or b"\0" in text:
                raise ValueError(f"{what} ends where it should not, at byte {self.at}")
            out.append(text.decode("utf-8", errors="surrogateescape"))
        return out

    def names(self, what):
        """The strings of a dictionary."""
        names = self.strings(*self.numbers(rb"#qrk#(\d{1,10})\n", f"the number of {what}s"), what)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"there is no {what}, or one is there twice")
        return names

    def weights(self, n, size):
        """All weights, of which the file has those that are not 0."""
        out = np.zeros(size)
        lines = self.data[self.at :].split(b"\n")
        if len(lines) != n + 1 or lines.pop():
            raise ValueError(f"{n} weights were expected, there are {len(lines)} lines")
        for line in lines:
            found = _WEIGHT.fullmatch(line)
            number = int(found[1]) if found else size
            if number >= size:
                raise ValueError(f"{line[:40]!r} is not a weight{_hint(line)}")
            out[number] = float.fromhex(found[2].decode())
        if not np.isfinite(out).all():
            raise ValueError("a weight is not finite")
        return out


def read_wapiti(path, new) -> Pipeline:
    """Return a fitted pipeline with the weights of a Wapiti model."""
    with unpacked(path) as file:
        data = file.read()
    if not data.startswith(b"#mdl#"):
        raise ValueError(f"{path} is not a model file of Wapiti{what_else(data)}")
    if data[: data.find(b"\n")].endswith(b"\r"):  # no string of a model has a line end in it
        data = data.replace(b"\r\n", b"\n")
    try:
        return _pipeline(_Reader(data), new)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{path}: not a CRF of Wapiti that can be read, or damaged: {error}"
        ) from None


def _pipeline(file, new):
    kind, n_weights = file.numbers(rb"#mdl#(\d{1,10})#(\d{1,18})\n", "the type of the model")
    if kind != _CRF:
        raise ValueError(f"its type is {kind}, that of a CRF is {_CRF}")
    n_patterns = file.numbers(rb"#rdr#(\d{1,10})/\d{1,10}(?:/0)?\n", "the reader of patterns")[0]
    if not n_patterns:
        raise ValueError("it has no patterns")
    patterns = file.strings(n_patterns, "a pattern")
    labels, names = file.names("a label"), file.names("an observation")
    if not all(name[:1] in "ub*" for name in names):
        raise ValueError("observations begin with u, b or *")
    n, kinds = len(labels), _kinds(names)
    sizes = n * (kinds & 1) + n * n * (kinds >> 1)
    first = np.cumsum(sizes) - sizes
    if sizes.sum() > most_weights(len(file.data)):
        raise ValueError(f"{n} labels and {len(names)} observations are too many for its size")
    theta = file.weights(n_weights, int(sizes.sum()))

    templates = [parse_line(line, f"pattern {q}") for q, line in enumerate(patterns)]
    vectorizer = TemplateVectorizer(patterns, outside="wapiti")
    has_edges = any("B" in t.kinds and t.macros for t in templates)
    splits = _Splits(templates, names, most_weights(len(file.data)) // (n * n if has_edges else n))
    vectorizer._fit_counts(splits)
    number = {name: o for o, name in enumerate(names)}
    classes = np.array(sorted(labels))
    order = np.array([labels.index(label) for label in classes.tolist()])

    def rows(own, shift, *shape):
        o = np.array([number[name] for name in own], dtype=np.int64)
        start = first[o] + np.where(kinds[o] == 3, shift, 0)
        return theta[start[:, None] + np.arange(math.prod(shape))].reshape(-1, *shape)

    constant = [t.texts[0] for t in templates if "B" in t.kinds and not t.macros]
    constant = [name for name in constant if name in number]
    pair = rows(constant, n, n, n).sum(axis=0, keepdims=True)
    model = new(Chain(edge_features=has_edges))
    names_out = vectorizer._names
    if has_edges:
        own = names_out[1].strings()[1:]
        pair = np.concatenate([pair, rows(own, n, n, n)])
        model.n_edge_features_in_, model._edge_feature_names = len(pair), names_out[1]
    model.graph_, model.classes_, model._has_intercept = model.graph, classes, False
    model.n_features_in_, model._feature_names = len(names_out[0]), names_out[0]
    model.inference_ = "exact"
    model.node_weights_ = rows(names_out[0].strings(), 0, n)[:, order]
    model.pair_weights_ = pair[:, order[:, None], order].reshape(len(pair), -1)
    return Pipeline([("vectorizer", vectorizer), ("crf", model)])


class _Splits(TemplateCounts):
    """What macros have given, from observations: as many combinations as give the same one."""

    def __init__(self, templates, names, most):
        nodes = [t for t in templates if "U" in t.kinds]
        edges = [t for t in templates if "B" in t.kinds and t.macros]
        self.templates, self.steps, self.most = (nodes, edges), {}, most
        macros = [macro for t in templates for macro in t.macros]
        n_columns = 1 + max((macro.column for macro in macros), default=0)
        if n_columns > _COLUMNS:
            raise ValueError(f"a pattern has column {n_columns - 1}")
        self.tokens = TokenColumns([[] for _ in range(n_columns)], np.zeros(1, int), n_columns == 1)
        self.results = {own_token(macro): {} for macro in macros}
        self.vocabulary, self.rows = {}, {}
        for kind, own in enumerate(self.templates):
            for texts, members in by_text(own).items():
                known = self.rows.get((0, texts)) or [self._rows(names, members)]
                self.rows[kind, texts] = known

    def _rows(self, names, members):
        """Codes of the macros' results in each combination, and ones."""
        texts, found = members[0].texts, {}
        for name in names:
            if name.startswith(texts[0]) and name.endswith(texts[-1]):
                for template in members:
                    found.update(dict.fromkeys(_values(name, template)))
                if len(found) > self.most:
                    raise ValueError("its observations can be split in too many ways")
        codes = np.empty((len(found), len(members[0].macros)), dtype=np.int64)
        for q, macro in enumerate(members[0].macros):
            column = [values[q] for values in found]
            self.results[own_token(macro)].update(dict.fromkeys(column))
            codes[:, q] = [self.vocabulary.setdefault(v, len(self.vocabulary)) for v in column]
        return codes, np.ones(len(codes), dtype=np.int64)


def _values(name, template):
    """Results of the macros that make an observation: more than one where it can be split so."""
    texts, stop = template.texts, len(name) - len(template.texts[-1])
    if not template.macros:
        return [()] if name == texts[0] else []
    ways = [(len(texts[0]), ())]
    for q, (macro, text) in enumerate(zip(template.macros, texts[1:], strict=True), start=1):
        is_last, found = q == len(template.macros), []
        for at, values in ways:
            least = at + (macro.command == "x")  # a token has a character
            ends = [stop] if is_last else _occurrences(name, text, least, stop)
            for end in ends:
                value = name[at:end]
                if end >= least and (macro.command != "t" or value in ("true", "false")):
                    found.append((end + len(text), (*values, value)))
                if len(found) > _WAYS:
                    raise ValueError(f"the observation {name[:80]!r} can be split in too many ways")
        ways = found
    return [values for _, values in ways]


def _occurrences(name, text, at, stop):
    """Where a text is in the name."""
    while (at := name.find(text, at, stop)) >= 0:
        yield at
        at += 1
