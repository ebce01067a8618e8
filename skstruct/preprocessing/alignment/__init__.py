"""Features of pairs of words, for the alignment of sentences with their translations."""

from .features import AlignmentFeatures

__all__ = ["AlignmentFeatures"]
