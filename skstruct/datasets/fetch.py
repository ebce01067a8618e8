"""Fetchers in scikit-learn's style: from a mirror folder, the cache, or the canonical address."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch

from ..core.text_files import unpacked
from ..core.typing import PathLike
from ..data.store import written_beside
from .handwriting import load_ocr_letters
from .text import load_conll

MIRROR_VARIABLE = "SKSTRUCT_DATA_MIRROR"


def _digest_of_text(path) -> str:
    """SHA-256 of the unpacked bytes, so that it does not matter who packed them."""
    with unpacked(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of_letters(path) -> str:
    """SHA-256 of the words read, which may lie in two formats."""
    data = load_ocr_letters(path)
    parts = (data.X.flat.astype(np.uint8), data.y.flat.astype("S1"), data.X.offsets, data.fold)
    digest = hashlib.sha256()
    for part in parts:
        part = part.astype("<i8") if part.dtype.kind == "i" else part
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


class _Remote(NamedTuple):
    """A file, its names in a mirror, and its checksum."""

    url: str
    names: tuple
    checksum: str
    digest: Callable = _digest_of_text


def _conll(folder, name, place, checksum):
    url = f"https://www.clips.uantwerpen.be/{place}"
    return _Remote(url, (f"{folder}/{name}", f"{folder}/{name}.gz"), checksum)


_CONLL2000 = {
    part: _conll("conll2000", f"{part}.txt", f"conll2000/chunking/{part}.txt.gz", checksum)
    for part, checksum in (
        ("train", "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea"),
        ("test", "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628"),
    )
}
_CONLL2002_DUTCH = {
    part: _conll("conll2002_dutch", name, f"conll2002/ner/data/{name}", checksum)
    for part, name, checksum in (
        ("train", "ned.train", "0a419dcb356b62c8cff38515675550b3d5dbea9f45a1c4956328dbd5cc7fcdbc"),
        ("dev", "ned.testa", "51259d4bfe52462f211d3d0b67173a7ecbfa296e199f6c6bd0895f4c78155057"),
        ("test", "ned.testb", "2aa748edb82e6f9c4d82e57a4bed69ded18cfa4803122c75070335d513517488"),
    )
}
_OCR_LETTERS = _Remote(
    "http://ai.stanford.edu/~btaskar/ocr/letter.data.gz",
    ("ocr_letters/letter.data.gz", "ocr_letters/letter.data", "ocr_letters/letters.npz"),
    "3b21d8eecb22e71e7a2c166608ff5a14f2cec92e980c25959cec3ebfdc5f234c",
    _digest_of_letters,
)


def _download(remote, target, n_retries, delay):
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(n_retries + 1):
        try:
            with (
                urllib.request.urlopen(remote.url, timeout=60) as source,
                written_beside(target) as out,
            ):
                shutil.copyfileobj(source, out)
            return
        except OSError as error:
            if attempt == n_retries:
                raise OSError(
                    f"{remote.url} could not be fetched ({error}); put the file at {target} "
                    f"yourself, or name a folder that has it by the argument `mirror` or the "
                    f"environment variable {MIRROR_VARIABLE}"
                ) from error
            time.sleep(delay)


def _locate(remote, data_home, mirror, download_if_missing, n_retries, delay) -> Path:
    """Path of a file whose content is the expected one."""
    mirror = os.environ.get(MIRROR_VARIABLE) if mirror is None else mirror
    if mirror is not None:
        found = [Path(mirror) / name for name in remote.names if (Path(mirror) / name).is_file()]
        if not found:
            raise OSError(f"the mirror {mirror} has none of {', '.join(remote.names)}")
        path = found[0]
    else:
        folder = Path(get_data_home(data_home)) / "skstruct"
        name = next(n for n in remote.names if n.endswith(".gz") == remote.url.endswith(".gz"))
        path = folder / name
        if not path.is_file():
            if not download_if_missing:
                raise OSError(f"{path} does not exist and download_if_missing is False")
            _download(remote, path, n_retries, delay)
    checksum = remote.digest(path)
    if checksum != remote.checksum:
        raise OSError(
            f"{path} is not the expected file: the SHA-256 of its content is {checksum}, "
            f"expected {remote.checksum}; delete it and try again"
        )
    return path


def _fetch_conll(remotes, columns, encoding, options):
    paths = {part: _locate(remote, *options) for part, remote in remotes.items()}
    return Bunch(**{p: load_conll(path, columns, encoding=encoding) for p, path in paths.items()})


def fetch_conll2000(
    *,
    data_home: PathLike | None = None,
    mirror: PathLike | None = None,
    download_if_missing: bool = True,
    n_retries: int = 3,
    delay: float = 1.0,
) -> Bunch:
    """The CoNLL-2000 chunking task: 8,936 and 2,012 sentences of the Wall Street Journal.

    Read more in the :ref:`User Guide <text_features>`.

    Parameters
    ----------
    data_home : str or Path, default=None
        Folder for downloads, by default scikit-learn's data folder.
    mirror : str or Path, default=None
        Folder to read instead of the network, with ``conll2000/train.txt`` (or ``.gz``) and so on;
        by default the environment variable ``SKSTRUCT_DATA_MIRROR``.
    download_if_missing : bool, default=True
        Whether to allow downloads.
    n_retries : int, default=3
        Number of retries.
    delay : float, default=1.0
        Seconds between retries.

    Returns
    -------
    Bunch
        ``train`` and ``test``, each with RaggedArrays of strings ``word``, ``pos``, ``chunk``
        (IOB2).

    Raises
    ------
    OSError
        If the files are missing and cannot be fetched, or have unexpected content.

    See Also
    --------
    skstruct.datasets.load_conll : Reads a file of columns.
    skstruct.datasets.fetch_conll2002_dutch : Downloads Dutch sentences with names.

    References
    ----------
    E. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 shared task, chunking. CoNLL
    2000.

    Examples
    --------
    >>> from skstruct.datasets import fetch_conll2000
    >>> data = fetch_conll2000()  # doctest: +SKIP
    >>> len(data.train.word), len(data.test.word)  # doctest: +SKIP
    (8936, 2012)
    """
    options = data_home, mirror, download_if_missing, n_retries, delay
    return _fetch_conll(_CONLL2000, ("word", "pos", "chunk"), "utf-8", options)


def fetch_conll2002_dutch(
    *,
    data_home: PathLike | None = None,
    mirror: PathLike | None = None,
    download_if_missing: bool = True,
    n_retries: int = 3,
    delay: float = 1.0,
) -> Bunch:
    """The Dutch half of CoNLL-2002, named entities: 15,806, 2,895 and 5,195 sentences.

    Read more in the :ref:`User Guide <text_features>`.

    Parameters
    ----------
    data_home, mirror, download_if_missing, n_retries, delay : optional
        As for :func:`fetch_conll2000`; a `mirror` has ``conll2002_dutch/ned.train`` and so on.

    Returns
    -------
    Bunch
        ``train``, ``dev``, ``test``, each with RaggedArrays of strings ``word``, ``pos``,
        ``entity`` (IOB2).

    Raises
    ------
    OSError
        If the files are missing and cannot be fetched, or have unexpected content.

    See Also
    --------
    skstruct.datasets.load_conll : Reads a file of columns.
    skstruct.datasets.fetch_conll2000 : Downloads sentences with chunks.

    References
    ----------
    E. Tjong Kim Sang: Introduction to the CoNLL-2002 shared task, language-independent named entity
    recognition. CoNLL 2002.

    Examples
    --------
    >>> from skstruct.datasets import fetch_conll2002_dutch
    >>> data = fetch_conll2002_dutch()  # doctest: +SKIP
    >>> len(data.train.word), len(data.dev.word)  # doctest: +SKIP
    (15806, 2895)
    """
    options = data_home, mirror, download_if_missing, n_retries, delay
    return _fetch_conll(_CONLL2002_DUTCH, ("word", "pos", "entity"), "latin-1", options)


def fetch_ocr_letters(
    *,
    data_home: PathLike | None = None,
    mirror: PathLike | None = None,
    download_if_missing: bool = True,
    n_retries: int = 3,
    delay: float = 1.0,
) -> Bunch:
    """The OCR letters of Taskar et al. (2003): 6,877 handwritten words in ten folds.

    Read more in the :ref:`User Guide <data_formats>`.

    Parameters
    ----------
    data_home, mirror, download_if_missing, n_retries, delay : optional
        As for :func:`fetch_conll2000`; a `mirror` has ``ocr_letters/letter.data`` (or ``.gz``)
        or ``ocr_letters/letters.npz``.

    Returns
    -------
    Bunch
        As :func:`load_ocr_letters`.

    Raises
    ------
    OSError
        If the file is missing and cannot be fetched, or has unexpected content.

    See Also
    --------
    skstruct.datasets.load_ocr_letters : Reads the letters of handwritten words.

    References
    ----------
    B. Taskar, C. Guestrin, D. Koller: Max-margin Markov networks. NIPS 2003.

    Examples
    --------
    >>> from skstruct.datasets import fetch_ocr_letters
    >>> data = fetch_ocr_letters()  # doctest: +SKIP
    >>> len(data.y)  # doctest: +SKIP
    6877
    """
    path = _locate(_OCR_LETTERS, data_home, mirror, download_if_missing, n_retries, delay)
    return load_ocr_letters(path)
