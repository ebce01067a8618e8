"""Read the model files of CRFsuite."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from ..graphs.chain import Chain
from ..preprocessing import SequenceVectorizer

_HEADER = struct.Struct("<4sI4s9I")
_NAMES_HEADER = struct.Struct("<4s5I")
_STATE, _TRANSITION = 0, 1
_WEIGHTS, _WEIGHTS_PER_BYTE = 2**24, 64  # limits on the size that a file may request
_RECORD = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


class _Model(NamedTuple):
    """The content of a model file."""

    records: np.ndarray  # type, source, target and weight of each feature
    labels: list
    attributes: list


def _read(path):
    """Features and names of a model file.

    A header gives the offsets of a chunk "FEAT" of 20-byte records and of two dictionaries, of
    labels and of attributes.
    """
    data = Path(path).read_bytes()
    if len(data) < _HEADER.size or data[:4] != b"lCRF":
        raise ValueError(f"{path} is not a CRFsuite model file")
    header = _HEADER.unpack_from(data)
    size, n_labels, n_attributes, start, labels, attributes = header[1], *header[5:10]
    if data[start : start + 4] != b"FEAT":
        raise ValueError(f"{path}: a CRFsuite model of an unknown version")
    if len(data) < size:
        raise ValueError(f"{path}: the model file is damaged ({len(data)} of {size} bytes)")
    if n_labels * (n_labels + n_attributes) > _WEIGHTS + _WEIGHTS_PER_BYTE * len(data):
        raise ValueError(
            f"{path}: the model file is damaged ({n_labels} labels and {n_attributes} attributes "
            f"are too many for {len(data)} bytes)"
        )
    try:
        n_features = struct.unpack_from("<I", data, start + 8)[0]
        model = _Model(
            np.frombuffer(data, _RECORD, n_features, start + 12),
            _names(data, labels, n_labels),
            _names(data, attributes, n_attributes),
        )
    except (struct.error, ValueError) as error:
        raise ValueError(f"{path}: the model file is damaged ({error})") from None
    if not np.isfinite(model.records["weight"]).all():
        raise ValueError(f"{path}: the model file is damaged (a weight is not finite)")
    for kind, n_sources in ((_STATE, n_attributes), (_TRANSITION, n_labels)):
        own = model.records[model.records["type"] == kind]
        if (own["source"] >= n_sources).any() or (own["target"] >= n_labels).any():
            raise ValueError(f"{path}: the model file is damaged (a feature of an unknown name)")
    return model


def _names(data, start, n):
    """Names by number: a constant quark database (CQDB) has them behind an array of offsets."""
    if n == 0:
        return []
    magic, size, _, _, n_known, table = _NAMES_HEADER.unpack_from(data, start)
    if magic != b"CQDB" or n_known < n:
        raise ValueError("a dictionary of names was expected")
    data = data[start : start + size]
    names = []
    for at in np.frombuffer(data, "<u4", n, table).tolist():
        length = struct.unpack_from("<I", data, at + 4)[0]
        name = data[at + 8 : at + 8 + length]
        if at == 0 or name.find(b"\0") != length - 1:
            raise ValueError("a name is missing")
        # Bytes that are no UTF-8 stay distinct, as SequenceVectorizer reads them.
        names.append(name[:-1].decode("utf-8", errors="surrogateescape"))
    if len(set(names)) < n:
        raise ValueError("a name occurs twice")
    return names


def read_crfsuite(path, estimator) -> Pipeline:
    """Return a fitted pipeline with the weights of a CRFsuite model."""
    model = _read(path)
    records = model.records
    vectorizer = SequenceVectorizer(separator=":").fit([[model.attributes]])
    column = vectorizer.vocabulary_
    classes = np.array(sorted(model.labels))
    code = {name: k for k, name in enumerate(classes.tolist())}
    label_code = np.array([code[name] for name in model.labels], dtype=np.int64)
    attribute_column = np.array([column[name] for name in model.attributes], dtype=np.int64)

    n = classes.size
    node, pair = np.zeros((len(column), n)), np.zeros((n, n))
    state = records[records["type"] == _STATE]
    node[attribute_column[state["source"]], label_code[state["target"]]] = state["weight"]
    step = records[records["type"] == _TRANSITION]
    pair[label_code[step["source"]], label_code[step["target"]]] = step["weight"]

    estimator.graph_ = Chain()
    estimator.classes_ = classes
    estimator.n_features_in_ = len(column)
    estimator._feature_names = vectorizer._names
    estimator._has_intercept = False
    estimator.node_weights_, estimator.pair_weights_ = node, pair.reshape(1, -1)
    return Pipeline([("vectorizer", vectorizer), ("crf", estimator)])
