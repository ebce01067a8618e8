"""Look at what a model learned: tables of weights, explanations, pictures."""

from .displays import (
    CalibrationDisplay,
    ConvergenceDisplay,
    GridDisplay,
    MAPConvergenceDisplay,
    MarginalsDisplay,
    TransitionDisplay,
)
from .tables import coef_frame, explain, top_features, transition_frame

__all__ = [
    "CalibrationDisplay",
    "ConvergenceDisplay",
    "GridDisplay",
    "MAPConvergenceDisplay",
    "MarginalsDisplay",
    "TransitionDisplay",
    "coef_frame",
    "explain",
    "top_features",
    "transition_frame",
]
