"""``python -m skstruct``: train and tag column files, compile kernels, show versions."""

from .main import main

__all__ = ["main"]
