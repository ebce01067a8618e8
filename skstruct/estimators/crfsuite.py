"""Read and write the model files of CRFsuite."""

from __future__ import annotations

import struct
from itertools import compress
from pathlib import Path

import numpy as np

from ..data.store import written_beside
from ..graphs.chain import Chain
from ..lite import CRFSUITE, RECORD, read_fields
from ..pipeline import Pipeline
from ..preprocessing import SequenceVectorizer
from .exchange import as_bytes, linear_chain, merged

_HEADER = struct.Struct("<4sI4s9I")
_CHUNK_HEADER = struct.Struct("<4s2I")
_NAMES_HEADER = struct.Struct("<4s5I")
_BYTE_ORDER, _N_TABLES = 0x62445371, 256  # of a dictionary of names
_VERSION, _LARGEST_FILE = 100, 2**32
_STATE, _TRANSITION = 0, 1


def read_crfsuite(path, estimator) -> Pipeline:
    """Return a fitted pipeline with the weights of a CRFsuite model."""
    labels, weights, steps, reader, _ = read_fields(path, CRFSUITE, "a CRFsuite model file")
    vectorizer = SequenceVectorizer(separator=":").fit([[[*reader.row]]])
    rows = np.array([reader.row[name] for name in vectorizer.vocabulary_], dtype=np.int64)
    estimator.graph_, estimator.classes_ = Chain(), np.array(labels)
    estimator.n_features_in_ = rows.size
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
