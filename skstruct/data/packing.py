"""Read users' X into packed, checked arrays, whatever the structure; messages name the sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..core.offsets import ends_of
from ..core.sklearn_private import check_sample_weight
from .matrices import (
    VECTORISE,
    as_array,
    feature_dtype,
    normal_csr,
    numeric,
    readable,
    refuse_masked,
    stack_csr,
    unwrapped,
)
from .ragged import RaggedArray, rows_of


def take_rows(table, keep: np.ndarray, counts=1):
    """The packed rows of the samples that are kept, in the form that kernels take."""
    table = table[np.flatnonzero(np.repeat(keep, counts))]
    return normal_csr(table) if sparse.issparse(table) else readable(table)


def is_structured(X) -> bool:
    """Return whether the elements of `X` are samples of several nodes, not rows of a table."""
    if isinstance(X, RaggedArray):
        return True
    if sparse.issparse(X) or hasattr(X, "columns"):
        return False
    if X is None:
        raise ValueError("X is None: a table or a list of samples is needed")
    X = as_array(X)
    ndim = getattr(X, "ndim", 1)
    if isinstance(X, np.ndarray) and X.dtype.kind in "US":
        raise ValueError(f"X holds strings, for instance {X.flat[:1].tolist()}: {VECTORISE}")
    if ndim > 3:
        raise ValueError(
            f"X has {ndim} dimensions; expected a 2-D table, or sequences: a list of 2-D arrays or "
            "a 3-D array of shape (n_samples, n_nodes, n_features); for images graph=Grid()"
        )
    if ndim != 1 or (isinstance(X, np.ndarray) and X.dtype != object):
        return ndim == 3
    # The first sample with anything in it, without edges and edge features.
    samples = as_list(X, "X")
    sample = next((item for item in samples if not isinstance(item, list) or item), samples[0])
    sample = unwrapped(sample[0] if isinstance(sample, tuple) and sample else sample)
    if isinstance(sample, (str, bytes)):
        raise TypeError(f"X: sample 0 is the string {sample!r}: {VECTORISE}")
    if isinstance(sample, Mapping) and not sparse.issparse(sample):  # a DOK matrix is a dict, too
        raise TypeError(
            "X: sample 0 is a dict, but a sequence is a list of feature dicts, one a node; "
            f"{VECTORISE} (for a table sklearn's DictVectorizer)"
        )
    if isinstance(sample, np.ndarray) and sample.dtype.kind in "US":
        raise TypeError(f"X: sample 0 is an array of strings: {VECTORISE}")
    if isinstance(sample, list):
        if sample and isinstance(sample[0], (str, bytes)):
            raise TypeError(f"X: sample 0 is a list of strings: {VECTORISE}")
        return bool(sample) and isinstance(sample[0], (Mapping, list, np.ndarray))
    if getattr(sample, "ndim", 0) == 3:
        raise ValueError(
            "X: sample 0 has 3 dimensions: for images (height, width, n_features) use graph=Grid()"
        )
    return getattr(sample, "ndim", 0) == 2 or hasattr(sample, "columns")  # polars has no ndim


def sample_of(row: int, offsets: np.ndarray) -> int:
    """The sample to which a packed row belongs."""
    return int(np.searchsorted(offsets, row, side="right")) - 1


_FEW = 1 << 16  # numbers of one sample: a sum takes longer than it saves


def check_finite(features, offsets, name: str, row_name: str | None = "node") -> None:
    """Reject packed rows with NaN or infinity; the message names the sample and the row in it."""
    values = features.data if sparse.issparse(features) else features
    if values.size < _FEW and np.count_nonzero(np.isfinite(values)) == values.size:
        return
    # A finite sum proves that all entries are finite; the search is for the error only.
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if math.isfinite(total) or np.isfinite(values).all():
        return
    if sparse.issparse(features):
        entry = np.flatnonzero(~np.isfinite(values))[0]
        row, bad = np.searchsorted(features.indptr, entry, side="right") - 1, values[entry]
    else:
        row = np.flatnonzero(~np.isfinite(values).all(axis=1))[0]
        bad = values[row][~np.isfinite(values[row])][0]
    what = "NaN" if np.isnan(bad) else "infinity"
    i = sample_of(row, offsets)
    subject = f"Input {name}" if name.startswith("X") else name
    where = f"sample {i}" if row_name is None else f"sample {i}, {row_name} {row - offsets[i]}"
    hint = ""
    if np.isnan(bad):
        filler = "SimpleImputer()" if row_name is None else "PerNode(SimpleImputer())"
        hint = f": fill missing values first, for instance with {filler} in a pipeline"
    raise ValueError(f"{subject} contains {what} ({where}){hint}")


def pack_nodes(items, name: str, rows: str = "node"):
    """Stack the rows of samples: the features of their nodes, or of their edges."""
    first = items[0] if len(items) == 1 else None
    if type(first) is np.ndarray and first.ndim == 2 and first.dtype.kind in "buif":
        features, offsets = readable(first), np.array([0, len(first)], dtype=np.int64)
        check_finite(features, offsets, name, rows)
        return features, offsets
    frames = [(i, list(item.columns)) for i, item in enumerate(items) if hasattr(item, "columns")]
    for i, columns in frames[1:]:  # they are read by position
        first, known = frames[0]
        if columns != known:
            raise ValueError(
                f"{name}: sample {i} has the columns {columns!r}, but sample {first} has "
                f"{known!r}: all need the same, in one order"
            )
    items = [
        item if sparse.issparse(item) else numeric(item, f"{name}: sample {i}")
        for i, item in enumerate(items)
    ]
    width = None
    for i, item in enumerate(items):
        if item.ndim != 2:
            empty = item.ndim == 1 and item.shape[0] == 0
            hint = "it is empty" if empty else f"it has {item.ndim} dimensions"
            raise ValueError(f"{name}: sample {i} must be of shape (n_{rows}s, n_features), {hint}")
        width = item.shape[1] if width is None else width
        if item.shape[1] != width:
            raise ValueError(
                f"{name}: sample {i} has {item.shape[1]} features, sample 0 has {width}"
            )
    offsets = ends_of(np.array([item.shape[0] for item in items], dtype=np.int64))
    if len(items) == 1:
        features = (
            normal_csr(items[0], f"{name}: sample 0")
            if sparse.issparse(items[0])
            else readable(items[0])
        )
    elif any(sparse.issparse(item) for item in items):
        features = stack_csr(items, name)
    else:
        dtype = feature_dtype(np.result_type(*{item.dtype for item in items}))
        features = np.empty((offsets[-1], width), dtype)
        np.concatenate(items, out=features, casting="unsafe")
    check_finite(features, offsets, name, rows)
    return features, offsets


def read_flat(flat, name: str):
    """The rows of many samples, packed by the user, in the form that kernels take."""
    if sparse.issparse(flat):
        return normal_csr(flat, name)
    if flat.ndim != 2:
        hint = f": {VECTORISE}" if flat.dtype.kind in "OUS" else ""
        raise ValueError(
            f"{name} must be 2-D (nodes, features), it has {flat.ndim} dimension"
            f"{'s' * (flat.ndim != 1)}{hint}"
        )
    return readable(numeric(flat, name))


def is_no_sequence(values) -> bool:
    """Return whether a value has a length, but no samples in order."""
    if type(values) in (list, tuple, np.ndarray, RaggedArray):  # before abstract classes are asked
        return False
    return isinstance(values, (str, bytes, Mapping, Set)) or sparse.issparse(values)


def as_list(X, name: str) -> list:
    """`X` as a list of samples."""
    if X is None:
        raise ValueError(f"{name} is None: a list of samples is needed")
    X = as_array(X)
    if not hasattr(X, "__len__"):
        raise TypeError(f"{name} must be a list of samples; for a generator pass list({name})")
    if getattr(X, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a list of samples, got {X!r}")
    if is_no_sequence(X) or hasattr(X, "columns"):
        raise TypeError(f"{name} must be a list of samples, got a {type(X).__name__}")
    if len(X) == 0:
        raise ValueError(f"{name} is empty: at least one sample is needed")
    return list(X)


def has_types(y) -> bool:
    """Return whether the first sample is a dict by type of nodes."""
    is_list = isinstance(y, (list, tuple)) or getattr(y, "ndim", 0) == 1
    return is_list and isinstance(next(iter(y), None), Mapping)


def refuse_types(y, name: str) -> None:
    """Raise TypeError for dicts by type of nodes (`node_types`), where one type is needed."""
    if has_types(y):
        example = f"[own[{next(iter(next(iter(y))), 'type')!r}] for own in {name}]"
        raise TypeError(f"{name} has dicts by type of nodes: pass one type at a time, {example}")


def is_empty_list(X) -> bool:
    """Return whether `X` is a list without samples."""
    is_list = hasattr(X, "__len__") and not is_no_sequence(X) and not hasattr(X, "columns")
    return is_list and len(X) == 0


def read_edge_features(items, lengths, n_edges, name):
    """Pack the edge features of samples."""
    edges, offsets = pack_nodes(items, f"{name} (edge features)", "edge")
    wrong = np.flatnonzero(np.diff(offsets) != n_edges)
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"{name}: sample {i} has {lengths[i]} nodes and {n_edges[i]} edges, but "
            f"{offsets[i + 1] - offsets[i]} rows of edge features"
        )
    return edges


def read_sample_weight(sample_weight, n_samples: int) -> np.ndarray:
    """Weights of samples."""
    if sample_weight is None:
        return np.ones(n_samples)
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = numeric(sample_weight, "sample_weight")
    except (TypeError, ValueError):
        weights = None
    if weights is None or weights.shape != (n_samples,):
        got = "" if weights is None else f", got shape {weights.shape}"
        raise ValueError(
            f"sample_weight must be {n_samples} numbers, one a sample{got}; weights of nodes are "
            "node_weight"
        )
    return check_sample_weight(
        weights.astype(np.float64),
        np.empty((n_samples, 1)),
        dtype=np.float64,
        ensure_non_negative=True,
    )


def rows_as_scores(samples):
    """The same samples with one feature per row: its weights are the scores of the row."""
    identity = sparse.identity(samples.features.shape[0], format="csr")
    return samples._replace(features=normal_csr(identity))


def check_n_features(n_features: int, expected: int, name: str, what: str = "features") -> None:
    """Reject samples with another number of features than in fit."""
    if n_features != expected:
        raise ValueError(
            f"X has {n_features} {what}, but {name} is expecting {expected} {what} as input"
        )


def check_pointers(problem, n_samples: int, n_labels: int) -> None:
    """Reject a problem whose samples do not begin where they can: kernels would read beyond."""
    kind = "Problem"
    for name in ("part_ptr", "label_ptr"):
        ptr = getattr(problem, name)
        is_int64 = isinstance(ptr, np.ndarray) and ptr.dtype == np.int64
        if not is_int64 or ptr.shape != (n_samples + 1,):
            raise ValueError(
                f"{kind}.{name} must be an int64 array of {n_samples + 1} numbers: where each of "
                f"{n_samples} samples begins, and where the last one ends"
            )
        if ptr[0] != 0 or (np.diff(ptr) < 0).any():
            raise ValueError(f"{kind}.{name} must begin with 0 and never decrease")
        for part in ("space", "target"):
            if not np.array_equal(ptr, getattr(getattr(problem, part), name, ptr)):
                raise ValueError(f"{kind}.{name} must be that of its {part}")
    n_parts = np.diff(problem.part_ptr)
    written = getattr(problem.rows, "n_parts", n_parts)
    if (n_parts != written).any():
        i = np.flatnonzero(n_parts != written)[0]
        raise ValueError(
            f"{kind}.part_ptr says that sample {i} has {n_parts[i]} parts, but its rows write "
            f"{written[i]}: for others give rows= of your own, a subclass of OwnRows"
        )
    if getattr(problem.space, "has_one_table", False) and problem.space.shares_tables:
        n_tables = problem.space.n_tables.max(initial=0)
        if n_tables > 1:
            raise ValueError(
                f"weight_shapes says that edges share {n_tables} tables, but the oracles of "
                f"{type(problem.space).__name__} know one: replace the space in make_problem"
            )
    labels = problem.labels
    if labels.dtype != np.int32 or not labels.size == problem.label_ptr[-1] == n_labels:
        raise ValueError(
            f"{kind}.labels must be the {n_labels} codes of y, int32: they are {labels.size} of "
            f"{labels.dtype}, and label_ptr ends with {problem.label_ptr[-1]}"
        )
    if not np.array_equal(labels, getattr(problem.target, "labels", labels)):
        raise ValueError(f"{kind}.labels must be those of its target: see {kind}.with_labels")


# Packed samples: what the records of all structures can do.

_POINTERS = ("offsets", "item_ptr", "edge_ptr")


def _lengths(self) -> np.ndarray:
    """Number of labels of each sample."""
    return self.offsets[1:] - self.offsets[:-1]


def _n_edges(self) -> np.ndarray:
    """Number of edges of each sample."""
    if "edge_ptr" in self._fields:
        return np.diff(self.edge_ptr)
    return np.zeros(self.offsets.size - 1, dtype=np.int64)


def packed(
    nodes: tuple[str, ...] = ("features",),
    edges: tuple[str, ...] = (),
    samples: tuple[str, ...] = (),
) -> Callable[[type], type]:
    """Give a NamedTuple of samples its methods, by its fields with a row per node or edge."""

    def take(self, keep: np.ndarray):
        """The samples where the mask `keep` is True."""
        items = np.diff(self.item_ptr) if "item_ptr" in self._fields else self.lengths
        kept = {}
        for names, counts in ((nodes, items), (edges, self.n_edges), (samples, 1)):
            for name in names:
                table = getattr(self, name)
                if table is None:
                    continue
                if sparse.issparse(table) or table.dtype.kind == "f":
                    kept[name] = take_rows(table, keep, counts)
                else:
                    kept[name] = table[np.repeat(keep, counts)]
        for name in _POINTERS:
            if name in self._fields:
                kept[name] = ends_of(np.diff(getattr(self, name))[keep])
        return self._replace(**kept)

    def without_empty(self):
        """The samples that have nodes; nothing is copied but pointers."""
        keep = self.lengths > 0
        if np.count_nonzero(keep) == keep.size:
            return self
        ends = np.append(True, keep)
        kept = {name: getattr(self, name)[ends] for name in _POINTERS if name in self._fields}
        for name in samples:
            rows = getattr(self, name)
            kept[name] = None if rows is None else rows[keep]
        return self._replace(**kept)

    def add(cls):
        for name, member in {
            "lengths": property(_lengths),
            "n_edges": property(_n_edges),
            "take": take,
            "without_empty": without_empty,
        }.items():
            if name not in vars(cls):
                setattr(cls, name, member)
        return cls

    return add


# Read sequences, in any of the forms that users have them in.


def read_sequences(X, name: str = "X", edge_features: bool = False):
    """Pack sequences."""
    if not isinstance(edge_features, (bool, np.bool_)):
        raise ValueError(f"edge_features must be a bool, got {edge_features!r}")
    edges = None
    if edge_features:
        pairs = as_list(X, name)
        for i, pair in enumerate(pairs):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"{name}: sample {i} must be a pair (features, edge_features)")
        features, offsets = pack_nodes([pair[0] for pair in pairs], name)
        lengths = np.diff(offsets)
        n_edges = np.maximum(lengths - 1, 0)
        edges = read_edge_features([pair[1] for pair in pairs], lengths, n_edges, name)
    elif isinstance(X, RaggedArray):
        if len(X) == 0:
            raise ValueError(f"{name} is empty: at least one sample is needed")
        # Offsets of a RaggedArray are read-only: to numba another type, and another compile.
        features, offsets = read_flat(rows_of(X), f"{name}.flat"), np.array(X.offsets)
        check_finite(features, offsets, name)
    elif isinstance(X, np.ndarray) and X.ndim == 3 and len(X):
        refuse_masked(X, name)
        n, length, width = X.shape
        features = read_flat(X.reshape(n * length, width), name)
        offsets = np.arange(n + 1, dtype=np.int64) * length
        check_finite(features, offsets, name)
    else:
        samples = as_list(X, name)
        if any(isinstance(sample, tuple) for sample in samples):
            raise ValueError(
                f"{name} has tuples: use Chain(edge_features=True), Tree() or Pairwise() as the "
                "graph, for images Grid(edge_features=True)"
            )
        features, offsets = pack_nodes(samples, name)
    return features, offsets, edges


# Batches of scores, packed or padded.

_LARGEST_SCORE = 1e300  # as in skstruct.core.oracles


class Layout(NamedTuple):
    """Layout of the samples of a batch."""

    # (n_samples + 1,): Where the rows of each sample begin when they are packed.
    offsets: np.ndarray
    # (n_rows,) of a packed batch, the first two axes of a padded one.
    shape: tuple
    # (n_rows,): Of a padded batch: position of each packed row, when its first two axes are one;
    # None where packed and padded rows are the same.
    rows: np.ndarray | None
    # Whether the first axis of a padded batch is that of samples.
    batch_first: bool

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.offsets.size - 1

    def place(self, row: int) -> tuple[int, int]:
        """Sample of a packed row, and its position there in the batch as it came."""
        i = sample_of(row, self.offsets)
        if self.rows is None or len(self.shape) == 1:
            return i, int(row - self.offsets[i])
        where = divmod(int(self.rows[row]), self.shape[1])
        return i, where[1 if self.batch_first else 0]

    def keep(self, kept: np.ndarray) -> Layout:
        """The layout without some of the packed rows."""
        rows = np.flatnonzero(kept) if self.rows is None else self.rows[kept]
        counts = np.add.reduceat(kept, self.offsets[:-1], dtype=np.int64)
        return self._replace(offsets=ends_of(counts), rows=rows)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """Packed rows of an array that has this layout; a view where possible."""
        flat = array.reshape(-1, *array.shape[len(self.shape) :])
        return flat if self.rows is None else flat.take(self.rows, axis=0)

    def unpack(self, packed: np.ndarray, fill: float = 0) -> np.ndarray:
        """The inverse of :meth:`pack`, with `fill` in the padding."""
        shape = (*self.shape, *packed.shape[1:])
        if self.rows is None:
            return packed.reshape(shape)
        out = np.full((int(np.prod(self.shape)), *packed.shape[1:]), fill, dtype=packed.dtype)
        out[self.rows] = packed
        return out.reshape(shape)


def read_layout(shape: tuple, lengths, mask=None, batch_first: bool = True) -> Layout:
    """The layout of scores of a shape, packed (n_rows, K) or padded (B, T, K)."""
    if len(shape) == 2:
        counts = _read_lengths(lengths)
        if counts.sum() != shape[0]:
            raise ValueError(f"lengths add up to {counts.sum()}, but scores has {shape[0]} rows")
        return Layout(ends_of(counts), shape[:1], None, True)
    n_samples, longest = shape[:2] if batch_first else shape[1::-1]
    if lengths is not None and mask is not None:
        raise ValueError("give lengths or mask, not both")
    if mask is not None:
        if mask.shape != shape[:2]:
            raise ValueError(f"mask has the shape {mask.shape}, but scores {shape[:2]}")
        return masked_layout(mask if batch_first else mask.T, batch_first)
    if lengths is not None:
        counts = _read_lengths(lengths)
    else:
        counts = np.full(n_samples, longest, dtype=np.int64)
    if counts.size != n_samples:
        raise ValueError(f"lengths has {counts.size} entries, but scores has {n_samples} samples")
    long = np.flatnonzero(counts > longest)
    if long.size:
        raise ValueError(
            f"lengths: sample {long[0]} has length {counts[long[0]]}, but scores is padded to "
            f"{longest}"
        )
    return padded_layout(counts, shape[:2], batch_first)


def padded_layout(counts: np.ndarray, shape: tuple, batch_first: bool) -> Layout:
    """The layout of padded rows of samples of so many nodes."""
    return masked_layout(np.arange(shape[1 if batch_first else 0]) < counts[:, None], batch_first)


def masked_layout(table: np.ndarray, batch_first: bool) -> Layout:
    """The layout of padded rows of which those in a mask (n_samples, longest) are nodes."""
    n_samples, longest = table.shape
    counts = np.count_nonzero(table, axis=1)
    shape = table.shape if batch_first else table.shape[::-1]
    if batch_first and (counts == longest).all():
        return Layout(ends_of(counts), shape, None, True)
    sample, t = np.nonzero(table)
    rows = sample * longest + t if batch_first else t * n_samples + sample
    return Layout(ends_of(counts), shape, rows, batch_first)


def _read_lengths(lengths):
    """Lengths of samples."""
    counts = np.asarray(lengths)
    if counts.ndim != 1 or (counts.dtype.kind not in "iu" and counts.size):
        raise ValueError(
            f"lengths must be integers, one a sample, got dtype {counts.dtype}, shape "
            f"{counts.shape}"
        )
    negative = np.flatnonzero(counts < 0)
    if negative.size:
        raise ValueError(f"lengths: sample {negative[0]} has length {counts[negative[0]]}")
    return counts.astype(np.int64)


def check_scores(scores: np.ndarray, layout: Layout | None, name: str) -> None:
    """Reject NaN and infinite scores; -inf is a label that is not allowed."""
    # One comparison of a maximum: NaN fails it, too.
    if scores.size == 0 or scores.max() <= _LARGEST_SCORE:
        return
    at = np.argwhere(~(scores <= _LARGEST_SCORE))[0]
    value, place = scores[tuple(at)], f"{tuple(map(int, at))}"
    if layout is not None:
        i, t = layout.place(at[0])
        name, place = f"{name}: sample {i}", f"node {t}, label {at[1]}"
    most = f"{_LARGEST_SCORE:.0e} at most, or -inf"
    raise ValueError(f"{name} has the value {value} at {place}: numbers of {most} are expected")
