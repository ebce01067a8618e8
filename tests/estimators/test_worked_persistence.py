"""Small worked examples of the internals of storage."""

import numpy as np

from skstruct.estimators.persistence import pack_table, unpack_table


def test_storage_pack_table():
    table = np.zeros((100, 4))
    table[7, 2] = 0.5
    packed = pack_table(table, np.float32)
    assert (packed["data"].size, bool((unpack_table(packed) == table).all())) == (1, True)
