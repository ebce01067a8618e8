"""The task loss of boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import kernel
from ..core.oracles import task_loss
from ..inference.subwindow import ALL_OR_NOTHING


class BoxTarget(NamedTuple):
    """The true box of each image."""

    # (4 * n_samples,): True labels; empty when unknown.
    labels: np.ndarray
    # The task loss, in the form of :mod:`skstruct.inference.subwindow`.
    loss: int


@task_loss.register(BoxTarget)
@kernel
def _(target, i, labels):
    true, same = target.labels[4 * i : 4 * i + 4], True
    for q in range(4):
        same = same and labels[q] == true[q]
    if same:
        return 0.0
    if target.loss == ALL_OR_NOTHING:
        return 1.0
    top, left, bottom, right = true[0], true[1], true[2], true[3]
    height = max(min(labels[2], bottom) - max(labels[0], top), 0)
    shared = height * max(min(labels[3], right) - max(labels[1], left), 0)
    areas = (bottom - top) * (right - left)
    areas += (labels[2] - labels[0]) * (labels[3] - labels[1])
    return 1.0 - shared / (areas - shared)
