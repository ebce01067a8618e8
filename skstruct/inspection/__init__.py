"""Look at what a model learned: tables of weights, explanations, pictures."""

from .displays import ConvergenceDisplay, MarginalsDisplay, TransitionDisplay
from .tables import coef_frame, explain, ngram_frame, top_features, transition_frame

__all__ = [
    "ConvergenceDisplay",
    "MarginalsDisplay",
    "TransitionDisplay",
    "coef_frame",
    "explain",
    "ngram_frame",
    "top_features",
    "transition_frame",
]
