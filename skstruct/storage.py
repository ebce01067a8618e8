"""Small pickles: weight tables without their zeros, in single precision if wanted."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def pack_table(table: np.ndarray, dtype):
    """The smaller of two forms of a weight table.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_columns)
        The weights.
    dtype : dtype
        Of the stored numbers.

    Returns
    -------
    dict or ndarray
        The arrays of a CSR matrix, or the table. (Not the matrix itself: readers of safe formats
        know arrays.)

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.storage import pack_table, unpack_table
    >>> table = np.zeros((100, 4))
    >>> table[7, 2] = 0.5
    >>> packed = pack_table(table, np.float32)
    >>> packed["data"].size, bool((unpack_table(packed) == table).all())
    (1, True)
    """
    table = table.astype(dtype)
    compact = sparse.csr_matrix(table)
    parts = {name: getattr(compact, name) for name in ("data", "indices", "indptr")}
    if sum(part.nbytes for part in parts.values()) >= table.nbytes:
        return table
    return parts | {"n_columns": table.shape[1]}


def unpack_table(stored) -> np.ndarray:
    """The weight table, as estimators hold it.

    Parameters
    ----------
    stored : dict or ndarray
        What :func:`pack_table` returned.

    Returns
    -------
    ndarray of float64
        The table.
    """
    if isinstance(stored, dict):
        shape = (stored["indptr"].size - 1, stored["n_columns"])
        parts = (stored["data"], stored["indices"], stored["indptr"])
        table = sparse.csr_matrix(parts, shape).toarray()
    else:
        table = stored
    return np.ascontiguousarray(table, dtype=np.float64)
