"""Data: generated and embedded sets, fetchers, and loaders of real file formats."""

from ..shards.packing import pack_shards
from ..shards.reading import Shard, Shards
from .alignment import load_parallel_text, load_word_alignment
from .fetch import fetch_conll2000, fetch_conll2002_dutch, fetch_ocr_letters
from .handwriting import load_digit_strings, load_glyph_chains, load_ocr_letters, make_glyph_chains
from .images import load_horses, load_localisation, load_snakes, make_grid_images
from .multilabel import load_multilabel, make_label_sets
from .text import iter_conll, load_conll, make_annotated_sentences

__all__ = [
    "Shard",
    "Shards",
    "fetch_conll2000",
    "fetch_conll2002_dutch",
    "fetch_ocr_letters",
    "iter_conll",
    "load_conll",
    "load_digit_strings",
    "load_glyph_chains",
    "load_horses",
    "load_localisation",
    "load_multilabel",
    "load_ocr_letters",
    "load_parallel_text",
    "load_snakes",
    "load_word_alignment",
    "make_annotated_sentences",
    "make_glyph_chains",
    "make_grid_images",
    "make_label_sets",
    "pack_shards",
]
