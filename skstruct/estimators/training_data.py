"""What a fit makes of X, y and weights: packed samples, codes of labels, factors on losses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses.task import UNWEIGHTED, LossWeights
from .partial_labels import Completion


class TrainingData(NamedTuple):
    """What a solver needs, packed."""

    # The samples of nonzero weight, as the structure packs them.
    samples: Any
    # Labels of all nodes, as positions in ``classes_``.
    codes: np.ndarray
    # (n_samples,): Weights, scaled to mean 1.
    sample_weight: np.ndarray
    # The regulariser of the lambda form, ``1 / (C sum_i s_i)`` of the given weights.
    lam: float
    # (n_samples,): Positions of the samples in what the user gave.
    given: np.ndarray
    # Of partial labels: ``codes`` are then any labels that fit.
    completion: Completion | None = None
    # What weights of classes and of nodes make of the task loss.
    loss_weights: LossWeights = UNWEIGHTED
