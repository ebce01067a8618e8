"""Label sets: files of the usual formats, and a generator of sparse text-like data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import MultiLabelBinarizer, normalize
from sklearn.utils import Bunch, check_random_state

from ..core.typing import PathLike, RandomStateLike
from ..data.store import read_arrays


def load_multilabel(path: PathLike) -> Bunch:
    r"""Read a multilabel data set: svmlight text, or arrays in a ``.npz`` file.

    Read more in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    path : str or Path
        A svmlight file (also ``.gz``, ``.bz2``) with lines ``label,label index:value ...``; or a
        ``.npz`` file with dense arrays ``X`` and ``y`` or CSR parts ``X_indices, X_indptr, X_shape
        [, X_data]`` and ``Y_...``. Names may end in ``_train`` and ``_test`` (CSR parts:
        ``X_train_indices``).

    Returns
    -------
    Bunch
        ``X``: CSR matrix or ndarray of shape (n_samples, n_features); ``Y``: ndarray of shape
        (n_samples, n_labels) of 0 and 1; ``train``: boolean mask of the training part, all True if
        the file has no parts; ``label_names``: names of the columns of Y in the file.

    Raises
    ------
    ValueError
        If arrays of a ``.npz`` file are missing or do not fit together.

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
        X, labels = load_svmlight_file(str(path), multilabel=True)
        binarizer = MultiLabelBinarizer()
        Y = binarizer.fit_transform([[int(label) for label in row] for row in labels])
        mask = np.ones(X.shape[0], dtype=bool)
        return Bunch(X=X, Y=Y, train=mask, label_names=binarizer.classes_.astype(np.int64))
    arrays = read_arrays(path)
    parts = [part for part in ("_train", "_test", "") if _names(arrays, f"X{part}")]
    if not parts:
        raise ValueError(f"{path} has no array X, X_train or X_indices")
    X = [_matrix(arrays, f"X{part}") for part in parts]
    Y = [_matrix(arrays, _target(arrays, part)) for part in parts]
    for x, y, part in zip(X, Y, parts, strict=True):
        if x.shape[0] != y.shape[0]:
            raise ValueError(f"{path}: X{part} has {x.shape[0]} rows, its labels {y.shape[0]}")
    train = np.repeat([part != "_test" for part in parts], [x.shape[0] for x in X])
    stack = sparse.vstack if sparse.issparse(X[0]) else np.vstack
    whole = sparse.csr_matrix(stack(X)) if sparse.issparse(X[0]) else stack(X)
    Y = np.vstack([y.toarray() if sparse.issparse(y) else y for y in Y]).astype(np.int64)
    return Bunch(X=whole, Y=Y, train=train, label_names=np.arange(Y.shape[1]))


def _names(arrays, name):
    return name in arrays or f"{name}_indices" in arrays


def _target(arrays, part):
    for name in (f"Y{part}", f"y{part}"):
        if _names(arrays, name):
            return name
    raise ValueError(f"the file has X{part}, but neither Y{part} nor y{part}")


def _matrix(arrays, name):
    if name in arrays:
        return np.asarray(arrays[name], dtype=np.float64)
    indices = arrays[f"{name}_indices"].astype(np.int32)
    values = arrays[f"{name}_data"] if f"{name}_data" in arrays else np.ones(indices.size)
    parts = values.astype(np.float64), indices, arrays[f"{name}_indptr"]
    return sparse.csr_matrix(parts, shape=tuple(arrays[f"{name}_shape"]))


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
