"""Features of tokens one name at a time: SequenceVectorizer as it once was."""

from array import array
from collections.abc import Mapping, Set
from numbers import Number

import numpy as np
from scipy import sparse

from skstruct.core.offsets import ends_of


def features(token, separator="="):
    """All (name, value) of a token."""
    if isinstance(token, Mapping):
        return _of_mapping("", token, separator)
    return ((_text(attribute), 1.0) for attribute in token)


def _text(value):
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _of_mapping(prefix, mapping, separator):
    for key, value in mapping.items():
        name = prefix + _text(key)
        if isinstance(value, (str, bytes)):
            yield f"{name}{separator}{_text(value)}", 1.0
        elif isinstance(value, (Number, np.bool_)):
            yield name, float(value)
        elif isinstance(value, Mapping):
            yield from _of_mapping(name + separator, value, separator)
        else:
            yield from _of_items(name, value, separator)


def _of_items(name, items, separator):
    if len(items) and not isinstance(items, Set) and isinstance(next(iter(items)), Number):
        yield from ((f"{name}[{q}]", float(value)) for q, value in enumerate(items))
        return
    for item in items:
        if isinstance(item, Mapping):
            yield from _of_mapping(name + separator, item, separator)
        else:
            yield f"{name}{separator}{_text(item)}", 1.0


def matrix(sequences, codes, separator="="):
    """Rows of the tokens, by the code of each name: those without one are left out."""
    indices, values, indptr = array("q"), array("d"), array("q", [0])
    for sequence in sequences:
        for token in sequence:
            for name, value in features(token, separator):
                if value != 0.0 and name in codes:
                    indices.append(codes[name])
                    values.append(value)
            indptr.append(len(indices))
    parts = (np.array(values), np.array(indices, dtype=np.int64), np.array(indptr))
    flat = sparse.csr_matrix(parts, (len(indptr) - 1, len(codes)))
    flat.sum_duplicates()
    flat.eliminate_zeros()
    return flat


def fitted(sequences, separator="=", min_count=1):
    """The vocabulary, the matrix and the offsets of training sequences."""
    tokens = [token for sequence in sequences for token in sequence]
    names = (n for token in tokens for n, value in features(token, separator) if value != 0.0)
    seen = {name: j for j, name in enumerate(dict.fromkeys(names))}
    flat = matrix(sequences, seen, separator)
    counts = np.bincount(flat.indices, minlength=len(seen))
    kept = sorted(name for name, j in seen.items() if counts[j] >= min_count)
    flat = sparse.csr_matrix(flat[:, [seen[name] for name in kept]])
    flat.sort_indices()
    vocabulary = {name: j for j, name in enumerate(kept)}
    return vocabulary, flat, ends_of([len(sequence) for sequence in sequences])
