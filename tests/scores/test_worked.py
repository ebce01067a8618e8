"""Small worked examples of the internals of scores."""

import re

import numpy as np
import pytest

from skstruct.scores import LinearMap
from skstruct.scores.base import check_products, guarded
from skstruct.scores.maps import elu


def test_check_guarded():
    assert (guarded(np.ones(2)).flags.writeable) is False


def test_check_check_products():
    class Forgetful(LinearMap):
        def vjp(self, params, rows, cotangent):
            return 0.0 * params

    score_map = Forgetful()
    params = score_map.initialise(2, 3, np.random.default_rng(0))
    with pytest.raises(
        ValueError,
        match=re.escape("score_map: jvp and vjp of Forgetful are not products with one Jacobian"),
    ):
        check_products(score_map, params, np.ones((4, 2)), forward=True)


def test_hidden_elu():
    assert (elu(np.array([2.0, 0.0])).tolist()) == [2.0, 0.0]
