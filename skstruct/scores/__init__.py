"""Score maps: differentiable functions from feature rows to the scores of labels."""

from .base import Linearisation, ScoreMap
from .conv import ConvMap
from .linear import LinearMap
from .mlp import MLPMap

__all__ = ["ConvMap", "LinearMap", "Linearisation", "MLPMap", "ScoreMap"]
