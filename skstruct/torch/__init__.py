"""Structured losses and layers for PyTorch, over the compiled oracles of this package."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("skstruct.torch needs PyTorch: pip install torch", name="torch") from error

from .crf import CRF
from .functional import crf_loss, decode, log_partition, marginals, smoothed_hinge_loss, top_k
from .score_map import ModuleMap

__all__ = [
    "CRF",
    "ModuleMap",
    "crf_loss",
    "decode",
    "log_partition",
    "marginals",
    "smoothed_hinge_loss",
    "top_k",
]
