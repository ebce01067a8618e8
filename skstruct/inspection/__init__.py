"""Look at what a model learned: tables of weights, explanations, errors, pictures."""

from .displays import ConvergenceDisplay, MarginalsDisplay, TransitionDisplay
from .errors import ErrorAnalysis
from .tables import (
    coef_frame,
    explain,
    ngram_frame,
    prediction_frame,
    top_features,
    transition_frame,
)

__all__ = [
    "ConvergenceDisplay",
    "ErrorAnalysis",
    "MarginalsDisplay",
    "TransitionDisplay",
    "coef_frame",
    "explain",
    "ngram_frame",
    "prediction_frame",
    "top_features",
    "transition_frame",
]
