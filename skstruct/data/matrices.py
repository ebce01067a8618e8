"""Tables of numbers, dense and CSR: checked, and in the one form that kernels take."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config

_DATES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)
#: Advice about words, for messages.
VECTORISE = (
    "words and feature dicts become numbers first, for instance with "
    "make_pipeline(SequenceVectorizer(), SAGCRF()) or a TemplateVectorizer"
)


def as_array(values):
    """Convert objects with ``__array__`` only (no length, no ``ndim``); return others unchanged."""
    hidden = hasattr(values, "__array__") and not hasattr(values, "__len__")
    return np.asarray(values) if hidden else values


def unwrapped(values):
    """A Series of polars, which has no ``ndim``, as a list: None stays None; the rest as it is."""
    is_series = hasattr(values, "to_list") and not hasattr(values, "ndim")
    return values.to_list() if is_series else values


def writable(array: np.ndarray, dtype=np.float64) -> np.ndarray:
    """`array` as a C-contiguous, aligned, writable array; copied only when it is not."""
    return np.require(array, dtype=dtype, requirements=["C", "A", "W"])


class _Window:
    """Memory of an array that may not be written to, for an array that says it may."""

    def __init__(self, array):
        self.array = array
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = array.__array_interface__ | {"data": (address, False)}


def feature_dtype(dtype) -> np.dtype:
    """Return the dtype in which features are kept: float32 stays, all others become float64."""
    return np.dtype(np.float32 if np.dtype(dtype) == np.float32 else np.float64)


def readable(array: np.ndarray, dtype=None) -> np.ndarray:
    """`array` as kernels read it, copied only if of another type."""
    # A read-only array (a memory map, what joblib sends) would be one more type to numba, hence a
    # compile: kernels get a view that claims to be writable. They must not write to it.
    dtype = feature_dtype(array.dtype) if dtype is None else dtype
    if type(array) is np.ndarray and array.dtype == dtype and array.flags.carray:
        return array
    if type(array) is np.ndarray and array.dtype != dtype:
        return array.astype(dtype, order="C")
    array = np.asarray(np.require(array, dtype=dtype, requirements=["C", "A"]))
    if array.flags.writeable:
        return array
    return np.asarray(_Window(array)) if array.size else array.copy()


def row_squares(table) -> np.ndarray:
    """Squared Euclidean norms of the rows of a table."""
    table = table.astype(np.float64, copy=False)  # sums in single precision lose digits
    if sparse.issparse(table):
        return np.asarray(table.multiply(table).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", table, table)


# Sparse matrices. SciPy's own constructors check no range of indices, and its conversions (like our
# kernels) read and write wherever indices say: nothing may touch a matrix before these checks.


_UNSIGNED = {
    np.dtype(f"{order}{kind}{size}"): np.dtype(f"{order}u{size}")
    for order in "<>"
    for kind in "iu"
    for size in (1, 2, 4, 8)
}


def _frame_fits(shape, data, indices, indptr):
    """Return whether the sizes of the three arrays of a CSR matrix agree; a check in O(1)."""
    integers = indptr.dtype.kind in "iu" and indices.dtype.kind in "iu"
    if not integers or indptr.shape != (shape[0] + 1,) or data.shape != indices.shape:
        return False
    return indices.ndim == 1 and indptr[0] == 0 and 0 <= indptr[-1] <= indices.size


def is_sound_csr(shape, data, indices, indptr) -> bool:
    """Return whether three arrays are a CSR matrix that can be read without bounds checks."""
    if not _frame_fits(shape, data, indices, indptr):
        return False
    if np.count_nonzero(indptr[1:] < indptr[:-1]):
        return False
    used = indices[: indptr[-1]]
    # Negative ones are large where they are read as unsigned.
    # (The ufunc itself: for the entries of one sample the method takes twice as long.)
    largest = np.maximum.reduce(used.view(_UNSIGNED[used.dtype]), initial=0)
    return used.size == 0 or bool(largest < shape[1])


def _is_sound(matrix):
    if matrix.format in ("lil", "dok"):
        return True  # lists and dicts: SciPy finds the arrays itself
    data, (rows, columns) = matrix.data, matrix.shape
    if matrix.format == "coo":
        fits = all(len(axis) == data.size for axis in matrix.coords)
        return fits and all(
            axis.size == 0 or (axis.min() >= 0 and axis.max() < size)
            for axis, size in zip(matrix.coords, matrix.shape, strict=True)
        )
    if matrix.format == "dia":
        return data.ndim == 2 and matrix.offsets.shape == data.shape[:1]
    if matrix.format == "csc":
        rows, columns = columns, rows
    elif matrix.format == "bsr":
        if data.ndim != 3 or not all(data.shape[1:]):
            return False
        rows, columns = rows // data.shape[1], columns // data.shape[2]
        data = data[:, 0, 0]
    return is_sound_csr((rows, columns), data, matrix.indices, matrix.indptr)


def check_sparse(matrix, where: str = "X") -> None:
    """Reject a sparse matrix whose parts do not fit together, or that does not hold numbers."""
    if matrix.ndim != 2:
        raise ValueError(f"{where} must be a 2-D sparse matrix, it has {matrix.ndim} dimensions")
    if matrix.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {where}")
    if matrix.dtype.kind not in "buif":
        raise ValueError(f"{where} is not numeric, its dtype is {matrix.dtype}")
    if not _is_sound(matrix):
        raise ValueError(
            f"{where} is a damaged {matrix.format.upper()} matrix: its indices or row pointers do "
            f"not fit its shape {tuple(matrix.shape)} or its number of stored values"
        )


_MOST = np.iinfo(np.int32).max
# What instances hold besides their arrays.
_EMPTY = vars(sparse.csr_matrix((0, 0)))


def csr_from_parts(shape, data, indices, indptr, kind=sparse.csr_matrix) -> Any:
    """A CSR matrix, or array, of just these arrays: the constructor would cast and check them."""
    out = kind.__new__(kind)
    shape = tuple(map(int, shape))
    vars(out).update(_EMPTY, _shape=shape, data=data, indices=indices, indptr=indptr)
    return out


def as_configured(matrix) -> Any:
    """A CSR matrix as ``sparse_interface`` of scikit-learn asks for it, an array if "sparray"."""
    return for_users(matrix, get_config()["sparse_interface"] == "sparray")


def for_users(matrix, is_array) -> Any:
    """A CSR matrix, or array, with indices and pointers of one type, as SciPy has them."""
    kind = sparse.csr_array if is_array else sparse.csr_matrix
    return kind((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def without_unused(matrix, table) -> tuple[sparse.csr_matrix, np.ndarray]:
    """A CSR matrix on the columns in use (or the first), and a table without the others' rows."""
    n = matrix.shape[1]
    columns = np.unique(np.append(matrix.indices, 0))[: n or None]
    places = np.searchsorted(columns, matrix.indices).astype(matrix.indices.dtype)
    few = (matrix.shape[0], columns.size), matrix.data, places, matrix.indptr
    return csr_from_parts(*few), table[np.concatenate([columns, np.arange(n, len(table))])]


def normal_csr(matrix, where: str = "X") -> sparse.csr_matrix:
    """A CSR matrix in the one form that kernels take."""
    check_sparse(matrix, where)
    if matrix.shape[1] > _MOST:
        raise ValueError(f"{where} has {matrix.shape[1]} features; at most {_MOST} are possible")
    if type(matrix) is not sparse.csr_matrix:
        matrix = sparse.csr_matrix(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    n_stored = matrix.indptr[-1]
    return csr_from_parts(
        matrix.shape,
        readable(matrix.data[:n_stored]),
        readable(matrix.indices[:n_stored], np.int32),
        readable(matrix.indptr, np.int64),
    )


def stack_csr(items, name: str) -> sparse.csr_matrix:
    """The rows of many matrices in one, in the form that kernels take."""
    rows = []
    for i, item in enumerate(items):
        if not sparse.issparse(item) or item.format != "csr" or item.dtype.kind not in "buif":
            matrix = item if sparse.issparse(item) else sparse.csr_matrix(item)
            rows.append(normal_csr(matrix, f"{name}: sample {i}"))
        elif (
            _frame_fits(item.shape, item.data, item.indices, item.indptr)
            and item.indptr[-1] == item.indices.size
        ):
            rows.append(item)
        else:  # with spare room, or damaged
            rows.append(normal_csr(item, f"{name}: sample {i}"))
    sizes = np.array([item.indices.size for item in rows])
    shift = np.repeat(np.cumsum(sizes) - sizes, [item.shape[0] for item in rows])
    # The ends of rows within their sample; the first pointer of each sample is 0.
    ends = np.concatenate([item.indptr[1:] for item in rows]).astype(np.int64) + shift
    shape = (ends.size, rows[0].shape[1])
    data = np.concatenate([item.data for item in rows])
    indices = np.concatenate([item.indices for item in rows])
    indptr = np.concatenate([[0], ends])
    if not is_sound_csr(shape, data, indices, indptr):
        for i, item in enumerate(items):
            if sparse.issparse(item):
                check_sparse(item, f"{name}: sample {i}")
    return normal_csr(csr_from_parts(shape, data, indices, indptr), name)


# Dense arrays


def refuse_masked(values, where: str) -> None:
    """Reject a masked array with masked entries: what they hold is not data."""
    if np.ma.is_masked(values):
        raise ValueError(f"{where} has masked entries: fill them or leave them out")


def numeric(values, where: str) -> np.ndarray:
    """An array of numbers from what a user gave."""
    if type(values) is np.ndarray and values.dtype.kind in "buif":
        return values
    refuse_masked(values, where)
    values = unwrapped(values)
    if isinstance(values, (list, tuple)) and len(values) and isinstance(values[0], Mapping):
        raise TypeError(f"{where} is a list of dicts: {_instead(where)}")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(_uneven(where)) from None
    kind = array.dtype.kind
    if kind in "buif":
        return array
    objects = array.ravel().tolist() if kind in "OUS" else []
    kinds = set(map(type, objects))
    if kind == "c":
        raise ValueError(f"Complex data not supported: {where}")
    if kind in "mM" or any(issubclass(own, _DATES) for own in kinds):  # in an arbitrary unit
        raise ValueError(
            f"{where} is not numeric: it holds dates or durations; make numbers of them first, for "
            "instance days since a day of your choice"
        )
    word = next((item for item in objects if isinstance(item, (str, bytes))), None)
    if word is not None:
        raise ValueError(f"{where} is not numeric: it holds {word!r}; {_instead(where)}")
    if kind != "O":
        raise ValueError(f"{where} is not numeric, its dtype is {array.dtype}")
    if any(hasattr(own, "__len__") and not issubclass(own, Mapping) for own in kinds):
        raise ValueError(_uneven(where))
    try:
        return array.astype(np.float64)
    except TypeError as error:
        raise TypeError(f"{where} is not numeric: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{where} is not numeric: {error}") from None


def _instead(where):  # only features are made of words
    return VECTORISE if where.startswith("X") else "numbers are expected"


def _uneven(where):
    if not where.startswith("X"):
        return f"{where} is not an array of numbers: its rows have different lengths"
    return (
        f"{where} is neither a table nor a sample: its rows have different lengths. A table has "
        "rows of one length; of sequences each sample is a 2-D array of shape (n_nodes, "
        "n_features), with one feature a node x[:, None]"
    )
