"""Label sets: files of the usual formats, and a generator of sparse text-like data."""

from __future__ import annotations

import re
import reprlib
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils import Bunch, check_random_state

from ..core.memory import check_memory
from ..core.offsets import ends_of
from ..core.text_files import lines_of
from ..core.typing import PathLike, RandomStateLike
from ..data.matrices import check_sparse
from ..data.store import read_arrays

_LABELS = r"-?\d{1,18}(?:\.0*)?(?:,-?\d{1,18}(?:\.0*)?)*"
_VALUE = r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf|nan)"
_ROW = re.compile(rf"({_LABELS})?((?:[ \t]+\d{{1,10}}:{_VALUE})*)", re.ASCII | re.I)
_HEADER = re.compile(r"(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,18})", re.ASCII)
_MOST_FEATURES = 2**31 - 1  # indices are int32


def load_multilabel(path: PathLike, test: PathLike | None = None) -> Bunch:
    r"""Read a multilabel data set: svmlight text, or arrays in a ``.npz`` file.

    Read more in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    path : str or Path
        A svmlight file, plain or compressed by gzip, bzip2 or xz, with lines ``label,label
        index:value ...``, labels being integers; indices count from 0 if one is 0, else from 1. A
        first line ``n_samples n_features n_labels``, as in the Extreme Classification Repository,
        gives the sizes; indices and labels then count from 0. Or a ``.npz`` file with dense arrays
        ``X`` and ``y`` or CSR parts ``X_indices, X_indptr, X_shape [, X_data]`` and ``Y_...``;
        names may end in ``_train`` and ``_test`` (CSR parts: ``X_train_indices``).
    test : str or Path, default=None
        A second svmlight file, the test part: both parts get the same features and labels.

    Returns
    -------
    Bunch
        ``X``: CSR matrix or ndarray of shape (n_samples, n_features); ``Y``: ndarray of shape
        (n_samples, n_labels) of 0 and 1; ``train``: boolean mask of the training part, all True if
        the file has no parts; ``label_names``: names of the columns of Y in the file.

    Raises
    ------
    MemoryError
        If the array of labels does not fit into memory.

    See Also
    --------
    skstruct.datasets.make_label_sets : Generated documents with label sets.
    skstruct.MultiLabel : The structure of label sets.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skstruct.datasets import load_multilabel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.svm"
    ...     _ = path.write_text("0,2 1:0.5\n1 1:0.1 2:0.9\n")
    ...     data = load_multilabel(path)
    >>> data.Y
    array([[1, 0, 1],
           [0, 1, 0]])
    """
    if Path(path).suffix != ".npz":
        return _of_texts([_read_rows(name) for name in (path, test) if name is not None])
    if test is not None:
        raise ValueError(f"test is for svmlight files; {path} has both parts, or only one")
    arrays = read_arrays(path)
    parts = [part for part in ("_train", "_test", "") if _names(arrays, f"X{part}")]
    if not parts:
        raise ValueError(f"{path} has no array X, X_train or X_indices")
    X = [_matrix(path, arrays, f"X{part}") for part in parts]
    Y = [_matrix(path, arrays, _target(path, arrays, part)) for part in parts]
    Y = [y.toarray() if sparse.issparse(y) else y for y in Y]
    for x, y, part in zip(X, Y, parts, strict=True):
        if x.shape[0] != y.shape[0]:
            raise ValueError(f"{path}: X{part} has {x.shape[0]} rows, its labels {y.shape[0]}")
        if not np.isin(y, (0, 1)).all():
            raise ValueError(f"{path}: the labels of X{part} must be 0 or 1")
        if x.shape[1] != X[0].shape[1] or y.shape[1] != Y[0].shape[1]:
            raise ValueError(
                f"{path}: X{parts[0]} has {X[0].shape[1]} features and {Y[0].shape[1]} labels, "
                f"X{part} {x.shape[1]} and {y.shape[1]}"
            )
    train = np.repeat([part != "_test" for part in parts], [x.shape[0] for x in X])
    is_sparse = any(map(sparse.issparse, X))
    whole = sparse.csr_matrix(sparse.vstack(X)) if is_sparse else np.vstack(X)
    Y = np.vstack(Y).astype(np.int64)
    return Bunch(X=whole, Y=Y, train=train, label_names=np.arange(Y.shape[1]))


class _Rows(NamedTuple):
    """Samples of a svmlight file."""

    name: str
    # (n_samples, n_features, n_labels), or None.
    header: tuple | None
    # The line of each sample, its labels, and where its features end.
    lines: list
    labels: list
    ends: np.ndarray
    # Of all samples.
    indices: np.ndarray
    values: np.ndarray

    def fail(self, row: int, what: str) -> NoReturn:
        """Raise the error that names file and line."""
        raise ValueError(f"{self.name}, line {self.lines[row]}: {what}")


def _read_rows(path):
    header, lines, labels, items = None, [], [], []
    for number, line in enumerate(lines_of(path), start=1):
        text = line.partition("#")[0].rstrip(" \t")
        if number == 1 and (found := _HEADER.fullmatch(text)):
            header = tuple(map(int, found.groups()))
            continue
        is_row = text or (header is not None and "#" not in line and len(lines) < header[0])
        if not is_row:  # with a header, an empty line is a sample without labels and features
            continue
        first = text.split(None, 1)[:1]
        found = _ROW.fullmatch(f" {text.lstrip()}" if first and ":" in first[0] else text)
        if found is None:
            raise ValueError(
                f"{path}, line {number}: expected 'label,label index:value ...', where labels and "
                f"indices are integers, got {reprlib.repr(line)}"
            )
        lines.append(number)
        labels.append(
            [int(label.partition(".")[0]) for label in (found[1] or "").split(",") if label]
        )
        items.append(found[2])
    if not lines:
        raise ValueError(f"{path} has no samples")
    if header is not None and len(lines) != header[0]:
        raise ValueError(f"{path} has {len(lines)} samples, but its header says {header[0]}")
    ends = ends_of([item.count(":") for item in items])
    numbers = np.fromstring("".join(items).replace(":", " "), sep=" ")
    indices, values = numbers[::2].astype(np.int64), numbers[1::2]
    rows = _Rows(str(path), header, lines, labels, ends, indices, values)
    sample = np.repeat(np.arange(len(lines)), np.diff(ends))
    wrong = np.flatnonzero((np.diff(indices) <= 0) & (np.diff(sample) == 0))
    if wrong.size:
        rows.fail(sample[wrong[0]], f"index {indices[wrong[0] + 1]} is not above the one before it")
    most = _MOST_FEATURES if header is None else header[1]
    wrong = np.flatnonzero(indices >= most)
    if wrong.size:
        rows.fail(sample[wrong[0]], f"index {indices[wrong[0]]} must be below {most}")
    for i, own in enumerate(labels):
        if header is not None and not all(0 <= label < header[2] for label in own):
            rows.fail(i, f"the header says labels from 0 to {header[2] - 1}, got {own}")
    return rows


def _of_texts(parts):
    """The samples of one or two files, with the same features and labels."""
    headers = [part.header and part.header[1:] for part in parts]
    if headers[0] != headers[-1]:
        raise ValueError(
            f"{parts[0].name} and {parts[-1].name} must both have a header with the same numbers "
            "of features and labels, or none"
        )
    indices = np.concatenate([part.indices for part in parts])
    labels = [own for part in parts for own in part.labels]
    names = np.array(sorted(set().union(*labels)), dtype=np.int64)
    if headers[0] is None:
        is_from_one = indices.size > 0 and indices.min() > 0
        indices = indices - is_from_one
        n_features, n_labels = int(indices.max(initial=-1)) + 1, names.size
    else:
        n_features, n_labels = headers[0]
    check_memory(
        8 * len(labels) * n_labels,
        f"an array of {len(labels)} x {n_labels} labels",
        "is n_labels right?",
    )
    names = names if headers[0] is None else np.arange(n_labels)
    Y = np.zeros((len(labels), n_labels), dtype=np.int64)
    where = np.repeat(np.arange(len(labels)), [len(own) for own in labels])
    Y[where, np.searchsorted(names, np.concatenate(labels).astype(np.int64))] = 1
    ends = ends_of(np.concatenate([np.diff(part.ends) for part in parts]))
    values = np.concatenate([part.values for part in parts])
    X = sparse.csr_matrix((values, indices, ends), shape=(len(labels), n_features))
    is_train = np.arange(len(labels)) < len(parts[0].lines)
    return Bunch(X=X, Y=Y, train=is_train, label_names=names)


def _names(arrays, name):
    return name in arrays or f"{name}_indices" in arrays


def _target(path, arrays, part):
    for name in (f"Y{part}", f"y{part}"):
        if _names(arrays, name):
            return name
    raise ValueError(f"{path} has X{part}, but neither Y{part} nor y{part}")


def _matrix(path, arrays, name):
    if name in arrays:
        array = arrays[name]
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise ValueError(
                f"{path}: {name} must be a 2-D array of numbers, got dtype {array.dtype} and shape "
                f"{array.shape}"
            )
        return np.asarray(array, dtype=np.float64)
    for part in ("indptr", "shape"):
        if f"{name}_{part}" not in arrays:
            raise ValueError(f"{path} has no array {name}_{part}")
    indices, indptr, shape = (arrays[f"{name}_{part}"] for part in ("indices", "indptr", "shape"))
    values = arrays[f"{name}_data"] if f"{name}_data" in arrays else np.ones(indices.size)
    try:
        parts = values.astype(np.float64), indices.astype(np.int64), indptr.astype(np.int64)
        matrix = sparse.csr_matrix(parts, shape=tuple(shape.tolist()))
        check_sparse(matrix, name)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {name} is not a CSR matrix: {error}") from None
    return matrix


def make_label_sets(
    n_samples: int = 1000,
    n_features: int = 2000,
    n_labels: int = 50,
    *,
    mean_labels: float = 2.0,
    n_words: int = 60,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Generate documents with correlated labels: sparse tf-idf rows, as in RCV1.

    Labels differ in frequency; after its first label a document draws the others mostly from
    companions of that label. Words are drawn from the topics of the labels and from a common
    background. Read more in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    n_samples, n_features, n_labels : int
        The sizes.
    mean_labels : float
        Mean number of labels per document.
    n_words : int
        Mean number of words per document.
    random_state : int, RandomState instance or None
        Seed of the generator.

    Returns
    -------
    Bunch
        ``X``: CSR matrix of shape (n_samples, n_features), rows of length 1; ``Y``: ndarray of
        shape (n_samples, n_labels) of 0 and 1.

    See Also
    --------
    skstruct.datasets.load_multilabel : Reads label sets from a file.
    skstruct.MultiLabel : The structure of label sets.

    Examples
    --------
    >>> from skstruct.datasets import make_label_sets
    >>> make_label_sets(10, random_state=0).Y.shape
    (10, 50)
    """
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    popular = 1.0 / np.arange(1, n_labels + 1) ** 0.7
    popular = rng.permutation(popular / popular.sum())
    companions = rng.integers(n_labels, size=(n_labels, 4))
    topic_size = min(200, n_features)
    topics = np.array([rng.choice(n_features, topic_size, replace=False) for _ in range(n_labels)])
    rank = 1.0 / np.arange(1, topic_size + 1) ** 0.8
    topic_word = np.cumsum(rank / rank.sum())
    background = np.cumsum(1.0 / np.arange(1, n_features + 1))
    background /= background[-1]
    order = rng.permutation(n_features)
    Y = np.zeros((n_samples, n_labels), dtype=np.int64)
    rows, columns = [], []
    first = rng.choice(n_labels, size=n_samples, p=popular)
    for i in range(n_samples):
        labels = [first[i]]
        for _ in range(rng.poisson(mean_labels - 1.0)):
            own = rng.random() < 0.8
            labels.append(rng.choice(companions[first[i]]) if own else rng.choice(n_labels))
        Y[i, labels] = 1
        length = max(1, rng.poisson(n_words))
        from_topic = rng.random(length) < 0.5
        n_topic = int(from_topic.sum())
        chosen = rng.choice(labels, size=n_topic)
        words = topics[chosen, np.searchsorted(topic_word, rng.random(n_topic))]
        other = order[np.searchsorted(background, rng.random(length - n_topic))]
        columns.append(np.concatenate([words, other]))
        rows.append(np.full(length, i))
    entries = np.concatenate(rows), np.concatenate(columns)
    counts = sparse.csr_matrix((np.ones(entries[0].size), entries), shape=(n_samples, n_features))
    seen = np.bincount(counts.indices, minlength=n_features)
    counts.data = (1.0 + np.log(counts.data)) * np.log(n_samples / seen[counts.indices] + 1.0)
    return Bunch(X=normalize(counts), Y=Y)
