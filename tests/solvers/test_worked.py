"""Small worked examples of the internals of solvers."""

import re

import pytest

from skstruct.solvers.certificate import certify_l1, certify_pair
from skstruct.solvers.gdmm.solver import n_parts


def test_certificate_certify_pair():
    assert (round(certify_pair(2.0, 1.5).relative, 12), certify_pair(0.0, 0.0).relative) == (
        0.25,
        0.0,
    )
    assert round(certify_pair(1.0, -float("inf")).relative, 12) == 1.0
    with pytest.raises(
        FloatingPointError,
        match=re.escape("the dual bound 1.1 exceeds the objective 1.0: are the features scaled?"),
    ):
        certify_pair(1.0, 1.1)


def test_certificate_certify_l1():
    assert (certify_l1(2.0, 1.0, 0.5, 0.0, 0.0).dual_objective) == 1.5


def test_gdmm_solver_n_parts():
    assert (n_parts(45, "sublinear"), n_parts(2934, "sublinear"), n_parts(2934, "exact")) == (
        1,
        13,
        1,
    )
