"""pack_shards: samples to files, one shard in memory at a time."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.arguments import check_integer
from ..core.typing import PathLike, SamplesLike
from ..data.labels import warn_of_mark
from ..data.matrices import as_array, csr_from_parts
from ..data.names import ListedNames, names_of
from ..data.packing import read_sample_weight
from ..data.ragged import RaggedArray
from ..data.store import write_array, write_bytes
from ..data.values import join_values
from ..graphs import Graph
from ..graphs.registry import NAMES, choose_graph
from . import manifest
from .reading import Shards, describe, flatten, refuse_unpackable, write_names

# Samples a part at a time, from lists, arrays and streams.


def relocated(error: Exception, first: int) -> Exception:
    """Return the error with sample numbers counted over all shards."""

    def number(found):
        return f"{found[1]} {int(found[2]) + first}"

    def moved(text):
        return re.sub(r"\b(sample|sequence) (\d+)", number, text)

    notes = [moved(note) for note in getattr(error, "__notes__", ())]
    if type(error) in (ValueError, TypeError, FloatingPointError):
        error = type(error)(moved(str(error))).with_traceback(error.__traceback__)
    if notes:
        error.__notes__ = notes
    return error


class Batch(NamedTuple):
    """Some of the samples."""

    # Position of the first one in what the user gave.
    first: int
    # The samples, and their labels or None.
    X: Any
    y: Any
    # (n_samples,): Their weights.
    sample_weight: np.ndarray | None


def _slices(values, size):
    """Parts of what can be sliced, empty ones at the end."""
    for first in count(0, size):
        rows = slice(first, first + size)
        yield values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def _stream(values, size):
    """Parts of what can be gone through once, empty ones at the end."""
    values = iter(values)
    while True:
        yield list(islice(values, size))


def _n_samples(part):
    return part.shape[0] if hasattr(part, "shape") else len(part)


def _source(values, name, shard_size):
    """Parts of X, y or sample_weight, and how many samples these have, where that is known."""
    values = as_array(values)
    if isinstance(values, (str, bytes, Mapping, Set, Shards)) or values is None:
        raise TypeError(f"{name} must be samples, got a {type(values).__name__}")
    sliced = isinstance(values, (list, tuple, np.ndarray, RaggedArray)) or sparse.issparse(values)
    if sliced or any(hasattr(values, name) for name in ("iloc", "to_list", "columns")):
        values = values.tocsr() if sparse.issparse(values) else values
        return _slices(values, shard_size), _n_samples(values)
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be samples or an iterator, got a {type(values).__name__}")
    return _stream(values, shard_size), None


def pieces_of(X: Any, size: int) -> Iterator[tuple[int, Any]]:
    """Go through samples once, some at a time."""
    source, first = _source(X, "X", size)[0], 0
    while n := _n_samples(piece := next(source)):
        yield first, piece
        first += n


def parts_of(X: Any, y: Any, sample_weight: Any, shard_size: int) -> Iterator[Batch]:
    """Go through the samples once."""
    sources = {
        name: _source(values, name, shard_size)
        for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight))
        if name == "X" or values is not None
    }
    known = {name: n for name, (_, n) in sources.items() if n is not None}
    for name, n in known.items():
        if n != known.get("X", n):
            raise ValueError(f"X has {known['X']} samples, but {name} has {n}")
    first = 0
    while True:
        read = {name: next(source) for name, (source, _) in sources.items()}
        n = _n_samples(read["X"])
        for name, part in read.items():
            if _n_samples(part) != n:
                longer, shorter = ("X", name) if _n_samples(part) < n else (name, "X")
                end = first + min(n, _n_samples(part))
                raise ValueError(f"{shorter} ends after {end} samples, {longer} goes on")
        if n == 0:
            break
        weight = read.get("sample_weight")
        yield Batch(first, read["X"], read.get("y"), _weights(weight, n, first))
        first += n
        del read, weight  # before the next ones are made
    if first == 0:
        raise ValueError("X is empty: at least one sample is needed")


def _weights(weight, n, first):
    """Weights of a part, all of them positive."""
    if weight is None:
        return None
    zero = np.flatnonzero(np.asarray(weight) == 0)
    if zero.size:
        raise ValueError(
            f"sample_weight: sample {first + zero[0]} has weight 0: leave such samples out"
        )
    return read_sample_weight(weight, n)


def pack_shards(
    X: SamplesLike | Iterable,
    y: SamplesLike | Iterable | None,
    folder: PathLike,
    *,
    shard_size: int = 10_000,
    graph: Graph | str = "auto",
    sample_weight: ArrayLike | Iterable | None = None,
    vectorizer: Any = None,
) -> Shards:
    """Pack samples into files (shards) that fit and predict read in place.

    X and y are read once, with one shard in memory at a time, and may be generators. `folder`
    appears when all shards are written. Read more in the :ref:`User Guide <scale>`.

    Parameters
    ----------
    X : list, object array, RaggedArray, table, or iterator of samples
        Samples for ``fit``, or raw ones for `vectorizer`.
    y : list, object array, RaggedArray, 1-D array, iterator of labels, or None
        Their labels, one per node, not partial labels; None for samples to predict.
    folder : str or Path
        Output folder; must not exist or be empty.
    shard_size : int, default=10000
        Samples per shard. A shard should fit into memory several times.
    graph : Graph or {"auto", "chain", "multiclass"}, default="auto"
        The structure: Chain, SemiChain, Tree, Pairwise, Grid, MultiClass, or one of your own with
        labels of nodes.
    sample_weight : array-like or iterator of float, default=None
        Weights of the samples, larger than 0.
    vectorizer : transformer, default=None
        Fitted; its ``transform`` turns the elements of X into samples, one shard at a time.

    Returns
    -------
    Shards
        The shards.

    Raises
    ------
    FileExistsError
        If `folder` is not empty.
    OSError
        If writing fails, as on a full disk. Neither `folder` nor temporary files remain.

    See Also
    --------
    Shards : Opens the folder later.

    Notes
    -----
    A shard is a folder of ``.npy`` files, without pickles; CSR features are restricted to the
    columns of the shard. ``manifest.json`` has the structure, classes, counts and checksums of the
    files. A process that is killed leaves a hidden folder next to `folder`, whose name ends with
    ".partial".

    Examples
    --------
    >>> import tempfile
    >>> from skstruct import SAGCRF
    >>> from skstruct.datasets import make_annotated_sentences, pack_shards
    >>> from skstruct.preprocessing import TemplateVectorizer
    >>> train = make_annotated_sentences(40, 1, random_state=0).train
    >>> vectorizer = TemplateVectorizer([(-1, 0), (0, 0)]).fit(train.word)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     shards = pack_shards(
    ...         train.word, train.chunk, f"{place}/shards", shard_size=15, vectorizer=vectorizer
    ...     )
    ...     print(len(shards), shards.n_shards, shards.graph)
    40 3 Chain()
    """
    shard_size = check_integer("shard_size", shard_size)
    if not isinstance(graph, Graph) and not (isinstance(graph, str) and graph in NAMES):
        raise ValueError(f"graph must be a structure or one of {sorted(NAMES)}, got {graph!r}")
    if isinstance(graph, Graph):
        refuse_unpackable(graph)
    if vectorizer is not None:
        check_is_fitted(vectorizer)
    folder = Path(folder).absolute()
    if folder.is_symlink():
        folder = folder.resolve()  # the target of a link has a name that can be given
    if os.path.ismount(folder):
        raise FileExistsError(f"{folder} is a mount point: shards need a folder in it")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FileExistsError(
            f"{folder} exists and is not empty: shards need a folder of their own"
        )
    packer = _Packer(graph, vectorizer, folder)
    try:
        for part in parts_of(X, y, sample_weight, min(shard_size, sys.maxsize)):
            packer.add(part)
            del part  # before the next one is made
        packer.finish()
    except BaseException:
        shutil.rmtree(packer.place, ignore_errors=True)
        raise
    return Shards(folder, packer.graph)


class _Columns(BaseEstimator):
    """Estimator for `read_X`: it has the numbers and names of columns."""


_Columns.__name__ = "pack_shards"


class _Packer:
    """Writer of shards, at first in a folder next to their own."""

    def __init__(self, graph, vectorizer, folder):
        self.graph, self.vectorizer, self.folder = graph, vectorizer, folder
        self.place = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}.partial"
        self.columns = _Columns()
        self.entries, self.found, self.names = [], [], (None, None)
        self.sparse = None
        with self._writing():
            folder.parent.mkdir(parents=True, exist_ok=True)
            self.place.mkdir()

    @contextlib.contextmanager
    def _writing(self):
        """Say what is safe where if the disk is full."""
        try:
            yield
        except OSError as error:
            text = f"{error.strerror or error}; nothing was written at {self.folder}, temporary "
            raise OSError(error.errno, f"{text}files beside it have been removed") from error

    def add(self, part):
        """Write one shard."""
        try:
            samples, labels = self._read(part)
        except Exception as error:
            raise relocated(error, part.first) from None
        samples, columns = _local(samples)
        arrays, widths = flatten(samples)
        if columns is not None:
            arrays["columns"] = columns
        if part.sample_weight is not None:
            arrays["sample_weight"] = part.sample_weight
        if labels is not None:
            found, codes = np.unique(labels, return_inverse=True)
            self.found.append(found)
            arrays["codes"] = codes.ravel().astype(np.int32)
        name = f"{len(self.entries):05d}"
        with self._writing():
            (self.place / name).mkdir()
            files = {f"{a}.npy": self._write(name, a, array) for a, array in arrays.items()}
        features, n = samples.features, samples.offsets.size - 1
        weight = part.sample_weight
        self.entries.append(
            {
                "folder": name,
                "samples": n,
                "nodes": int(samples.offsets[-1]),
                "edges": int(samples.n_edges.sum()),
                "entries": int(features.nnz if sparse.issparse(features) else features.size),
                "columns": int(features.shape[1]),
                "weight": float(n if weight is None else weight.sum()),
                "widths": widths,
                "files": files,
            }
        )

    def _write(self, name, array_name, array):
        return write_array(self.place / name / f"{array_name}.npy", array)

    def _read(self, part):
        """Packed samples and labels of a part."""
        X, first = part.X, not self.entries
        if self.vectorizer is not None:
            X = self.vectorizer.transform(X)
        if first:
            self.graph = choose_graph(self.graph, X, part.y)
            refuse_unpackable(self.graph)
            self.structure = describe(self.graph)
        samples = self.graph.read_X(self.columns, X, reset=first)
        empty = np.flatnonzero(samples.lengths == 0)
        if empty.size:
            raise ValueError(f"X: sample {empty[0]} is empty, a sample needs at least one node")
        labels = None
        if part.y is not None:
            with warnings.catch_warnings():
                # A shard may have few samples for its classes; all of them may have enough.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                labels = self.graph.read_y(part.y, samples)
        if getattr(self.graph, "is_listed_", False):
            raise ValueError("y: shards hold labels of nodes, not segments (start, stop, label)")
        self._check_kind(samples, part.first)
        self._take_names(X, part.first)
        return samples, labels

    def _check_kind(self, samples, first):
        """Reject samples that would be packed in another form than those before."""
        tables = samples.features, getattr(samples, "edge_features", None)
        given = tuple(map(sparse.issparse, tables))
        if self.sparse is None:
            self.sparse = given
        for what, now, before in zip(
            ("features", "edge features"), given, self.sparse, strict=True
        ):
            if now != before:
                kinds = ("dense", "sparse") if now else ("sparse", "dense")
                raise ValueError(
                    f"X: {what} are {kinds[1]} from sample 0 on, but {kinds[0]} in the shards "
                    "before: give all of one kind"
                )

    def _take_names(self, X, first):
        names = names_of(X)
        if self.graph.is_table:
            own = getattr(self.columns, "feature_names_in_", None)
            names = (None if own is None else ListedNames(own), None)
        if not self.entries:
            self.names = names
        elif names != self.names:
            raise ValueError("X: from sample 0 on features have other names than before")

    def finish(self):
        """Codes by all classes, one type of features; then the manifest, and the folder's name."""
        found = self.found
        classes = np.unique(join_values(found, "y", "shard {}".format)) if found else None
        if classes is not None:
            warn_of_mark(classes)
        total = sum(entry["weight"] for entry in self.entries)
        if not np.isfinite(total) or total < sys.float_info.min:
            raise ValueError(f"sample_weight: the sum of all weights is {total}")
        with self._writing():
            if classes is not None:
                self._recode(classes)
            dtype = self._join_types()
            stored = zip(("features", "edge_features"), self.names, strict=True)
            names = {
                what: write_names(self.place, f"{what}.names.json", given)
                for what, given in stored
                if given is not None
            }
            content = {
                "structure": self.structure,
                "n_features": int(self.columns.n_features_in_),
                "n_edge_features": getattr(self.columns, "n_edge_features_in_", None),
                "sparse": self.sparse[0],
                "dtype": dtype,
                "labelled": classes is not None,
                "weighted": "sample_weight.npy" in self.entries[0]["files"],
                "classes": manifest.encode_classes(classes),
                "names": names,
                "shards": self.entries,
            }
            write_bytes(self.place / manifest.NAME, manifest.dump(content))
            if self.folder.exists():
                self.folder.rmdir()
            os.replace(self.place, self.folder)

    def _recode(self, classes):
        """Codes of each shard are positions in what it has: make them positions in all classes."""
        for entry, found in zip(self.entries, self.found, strict=True):
            position = np.searchsorted(classes, found).astype(np.int32)
            if not np.array_equal(position, np.arange(found.size)):
                codes = np.load(self.place / entry["folder"] / "codes.npy", allow_pickle=False)
                entry["files"]["codes.npy"] = self._write(entry["folder"], "codes", position[codes])

    def _join_types(self):
        """Make features float64 in all shards if they are in one, as in memory."""
        for field in ("edge_features", "features"):
            name = f"{field}.data" if self.sparse[field == "edge_features"] else field
            file = f"{name}.npy"
            dtypes = {e["files"][file]["dtype"] for e in self.entries if file in e["files"]}
            wide = np.dtype(np.float64).str
            for entry in self.entries if len(dtypes) > 1 else ():
                if entry["files"][file]["dtype"] != wide:
                    values = np.load(self.place / entry["folder"] / file, allow_pickle=False)
                    values = values.astype(np.float64)
                    entry["files"][file] = self._write(entry["folder"], name, values)
        return wide if len(dtypes) > 1 else next(iter(dtypes))


def _local(samples):
    """Samples with the columns that they use, and which these are; None of dense features."""
    features = samples.features
    if not sparse.issparse(features):
        return samples, None
    n, indices = features.shape[1], features.indices
    if n > 8 * indices.size:
        columns, local = np.unique(indices, return_inverse=True)
    else:
        used = np.zeros(n, dtype=bool)
        used[indices] = True
        columns = np.flatnonzero(used)
        position = np.cumsum(used, dtype=np.int32) - np.int32(1)
        local = position[indices]
    if not columns.size and n:  # kernels want a column
        columns = np.zeros(1, dtype=np.int64)
    shape = (features.shape[0], columns.size)
    local = local.ravel().astype(np.int32, copy=False)
    features = csr_from_parts(shape, features.data, local, features.indptr)
    return samples._replace(features=features), columns.astype(np.int64)
