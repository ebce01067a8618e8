"""Small worked examples of the internals of going_on."""

import numpy as np

from skstruct.estimators.warm_start import remap_table


def test_going_on_take_over():
    assert (remap_table(np.array([[1.0, 2.0]]), np.array([-1, 0]), np.array([1])).tolist()) == [
        [0.0],
        [2.0],
    ]
