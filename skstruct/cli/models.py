"""Model files of the command line: joblib's, or skops's by the suffix ``.skops``."""

from __future__ import annotations

import zipfile
from pathlib import Path

import joblib
from sklearn.pipeline import Pipeline

from ..base import StructuredEstimator
from ..preprocessing import TemplateVectorizer
from .files import naming, replacing

# What a file of `save_model` contains besides scikit-learn's and numpy's own types.
TRUSTED = [
    "skstruct.crf.SAGCRF",
    "skstruct.graphs.chain.graph.Chain",
    "skstruct.preprocessing.columns.TokenColumns",
    "skstruct.preprocessing.patterns.Macro",
    "skstruct.preprocessing.patterns.Template",
    "skstruct.preprocessing.template.TemplateVectorizer",
    "skstruct.preprocessing.template._Features",
    "skstruct.preprocessing.template_names.TemplateNames",
    "skstruct.ssvm.bcfw.BCFWSSVM",
]

# How pickles and what compresses them begin: zip, gzip, bzip2, xz, lzma, LZ4; zlib at all levels.
_BEGINS = b"\x80", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"]\x00", b"\x04\x22\x4d\x18"
_ZLIB = b"x\x01", b"x^", b"x\x9c", b"x\xda"
_PREFIX = 8

# Attributes that fits set.
_FITTED = ("vocabulary_", "classes_")


def _skops(name):
    try:
        import skops.io
    except ImportError:
        raise ImportError(f"{name} needs skops: pip install skops") from None
    return skops.io


def is_skops(name: str) -> bool:
    """Whether a file is skops's, by its suffix; raises if skops is needed and absent."""
    if Path(name).suffix != ".skops":
        return False
    _skops(name)
    return True


def may_be_model(name: str) -> bool:
    """Whether a file begins as joblib's and skops's do, or is empty."""
    with open(name, "rb") as file:
        begin = file.read(_PREFIX)
    return not begin or begin.startswith(_BEGINS) or begin[:2] in _ZLIB


def save_model(model: Pipeline, name: str) -> None:
    """Write a model to a file, which appears when it is whole."""
    with replacing(name) as new, naming(name):
        if is_skops(name):
            _skops(name).dump(model, new, compression=zipfile.ZIP_DEFLATED)
        else:
            joblib.dump(model, new, compress=3)


def load_model(name: str) -> Pipeline:
    """Read a model."""
    with open(name, "rb"):  # says what the system has against it
        pass
    read = _read_skops if is_skops(name) else joblib.load
    try:
        model = read(name)
    except (OSError, MemoryError, _UntrustedError):
        raise
    except Exception as error:  # a file that is none makes pickle raise anything
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} cannot be read as a model ({said})") from None
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    if not (
        len(steps) == 2
        and isinstance(steps[0], TemplateVectorizer)
        and isinstance(steps[1], StructuredEstimator)
    ):
        raise TypeError(
            f"{name} holds an object of type {type(model).__name__}; a pipeline of a "
            "TemplateVectorizer and an estimator was expected, as train writes it"
        )
    if not all(map(hasattr, steps, _FITTED)):
        raise ValueError(f"{name} holds a pipeline that was not fitted")
    return model


class _UntrustedError(ValueError):
    """A file has types that nobody has vouched for."""


def _read_skops(name):
    io = _skops(name)
    others = sorted(set(io.get_untrusted_types(file=name)) - set(TRUSTED))
    if others:
        raise _UntrustedError(f"{name} has types that train does not write: {', '.join(others)}")
    return io.load(name, trusted=TRUSTED)
