"""Small worked examples of the internals of losses."""

import re

import pytest

from skstruct.losses.hinge import MaxHinge
from skstruct.losses.log import LogLoss
from skstruct.losses.smooth_hinge import projection_hinge
from skstruct.losses.verbs import is_convex, require_smooth


def test_projections_projection_hinge():
    assert (
        repr(projection_hinge("gibbs", 3))
        == "EntropyHinge(strength=array([1.]), mu=array([], dtype=float64))"
    )


def test_verbs_is_convex():
    assert (is_convex(LogLoss())) is True


def test_verbs_require_smooth():
    with pytest.raises(
        TypeError,
        match=re.escape("SAG needs a smooth loss, and MaxHinge is not: take a smoothed hinge"),
    ):
        require_smooth(MaxHinge(), "SAG")
