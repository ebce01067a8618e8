"""Features of images for the localisation of objects."""

from .patches import PatchWords
from .proposals import BoxProposals

__all__ = ["BoxProposals", "PatchWords"]
