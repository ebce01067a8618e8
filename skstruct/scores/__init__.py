"""Score maps: differentiable functions from feature rows to the scores of labels."""

from .base import Linearisation, ScoreMap
from .maps import ConvMap, LinearMap, MLPMap

__all__ = ["ConvMap", "LinearMap", "Linearisation", "MLPMap", "ScoreMap"]
