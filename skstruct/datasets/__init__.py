"""Data: digit strings that need no download, and loaders of real file formats."""

from .conll import load_conll
from .digits import load_digit_strings
from .ocr import load_ocr_letters

__all__ = ["load_conll", "load_digit_strings", "load_ocr_letters"]
