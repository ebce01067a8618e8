"""Data: generated and embedded sets, fetchers, and loaders of real file formats."""

from .conll import load_conll
from .digits import load_digit_strings
from .fetch import fetch_conll2000, fetch_conll2002_dutch, fetch_ocr_letters
from .ocr import load_ocr_letters
from .sentences import make_annotated_sentences

__all__ = [
    "fetch_conll2000",
    "fetch_conll2002_dutch",
    "fetch_ocr_letters",
    "load_conll",
    "load_digit_strings",
    "load_ocr_letters",
    "make_annotated_sentences",
]
