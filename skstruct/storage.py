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
    csr_matrix or ndarray
        Without its zeros, or whole.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.storage import pack_table, unpack_table
    >>> table = np.zeros((100, 4))
    >>> table[7, 2] = 0.5
    >>> packed = pack_table(table, np.float32)
    >>> packed.nnz, bool((unpack_table(packed) == table).all())
    (1, True)
    """
    table = table.astype(dtype)
    compact = sparse.csr_matrix(table)
    size = compact.data.nbytes + compact.indices.nbytes + compact.indptr.nbytes
    return compact if size < table.nbytes else table


def unpack_table(stored) -> np.ndarray:
    """The weight table, as estimators hold it.

    Parameters
    ----------
    stored : csr_matrix or ndarray
        What :func:`pack_table` returned.

    Returns
    -------
    ndarray of float64
        The table.
    """
    table = stored.toarray() if sparse.issparse(stored) else stored
    return np.ascontiguousarray(table, dtype=np.float64)
