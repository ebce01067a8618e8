"""Read the model files of CRFsuite."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from sklearn.pipeline import Pipeline

from .graphs.chain import Chain
from .preprocessing import SequenceVectorizer

_HEADER = struct.Struct("<4sI4s9I")
_STATE, _TRANSITION = 0, 1


def _weights(path):
    """Type, source, target and weight of each feature, in full precision.

    The names come from python-crfsuite; its dump prints six decimals only, so the weights are read
    from the file: a header, then at its fourth number a chunk "FEAT" of 20-byte records.
    """
    data = Path(path).read_bytes()
    if len(data) < _HEADER.size or data[:4] != b"lCRF":
        raise ValueError(f"{path} is not a CRFsuite model file")
    start = _HEADER.unpack_from(data)[7]
    if data[start : start + 4] != b"FEAT":
        raise ValueError(f"{path}: a CRFsuite model of an unknown version")
    n_features = struct.unpack_from("<I", data, start + 8)[0]
    record = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
    return np.frombuffer(data, record, n_features, start + 12)


def read_crfsuite(path, estimator) -> Pipeline:
    """A fitted pipeline with the weights of a CRFsuite model.

    Parameters
    ----------
    path : str or Path
        The model file.
    estimator : SAGCRF
        Unfitted; takes the weights.

    Returns
    -------
    Pipeline
        A SequenceVectorizer and the estimator.

    Raises
    ------
    ImportError
        If python-crfsuite is not installed.
    ValueError
        If the file is not a CRFsuite model.
    """
    try:
        import pycrfsuite
    except ImportError:
        raise ImportError(
            "reading CRFsuite models needs python-crfsuite: pip install python-crfsuite"
        ) from None
    records = _weights(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    info = tagger.info()
    tagger.close()
    names = {int(number): name for name, number in info.attributes.items()}
    labels = {int(number): name for name, number in info.labels.items()}

    vectorizer = SequenceVectorizer(separator=":")
    vectorizer.fit([[sorted(names.values())]])
    column = {name: j for j, name in enumerate(vectorizer.get_feature_names_out())}
    classes = np.array(sorted(labels.values()))
    code = {name: k for k, name in enumerate(classes.tolist())}
    label_code = np.array([code[labels[number]] for number in range(len(labels))])
    attribute_column = np.array([column[names[number]] for number in range(len(names))])

    n = classes.size
    node, pair = np.zeros((len(column), n)), np.zeros((n, n))
    state = records[records["type"] == _STATE]
    node[attribute_column[state["source"]], label_code[state["target"]]] = state["weight"]
    step = records[records["type"] == _TRANSITION]
    pair[label_code[step["source"]], label_code[step["target"]]] = step["weight"]

    estimator.graph_ = Chain()
    estimator.classes_ = classes
    estimator.n_features_in_ = len(column)
    estimator._has_intercept = False
    estimator.node_weights_, estimator.pair_weights_ = node, pair.reshape(1, -1)
    return Pipeline([("vectorizer", vectorizer), ("crf", estimator)])
