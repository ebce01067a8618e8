"""Chains of glyphs: text with thousands of characters, each seen through noise."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch, check_random_state

from ..core.offsets import ends_of
from ..data.ragged import RaggedArray
from ..typing import PathLike, RandomStateLike
from .arrays import read_arrays


def load_glyph_chains(path: PathLike) -> Bunch:
    """Read simulated character images: one active bin in each of several groups.

    Parameters
    ----------
    path : str or Path
        A ``.npz`` file with ``bins`` (n_glyphs, n_groups), ``labels``, ``lengths`` of the chains,
        ``train`` (indices of training chains) and ``n_bins``.

    Returns
    -------
    Bunch
        ``X``: RaggedArray of CSR rows, feature ``n_bins * group + bin``; ``y``: RaggedArray of
        integer labels; ``train``: boolean mask of chains.

    Raises
    ------
    ValueError
        If an array is missing or the arrays do not fit together.

    See Also
    --------
    skstruct.datasets.make_glyph_chains : Draws chains with thousands of labels.
    skstruct.GDMMSSVM : Structural SVMs with very many labels.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skstruct.datasets import load_glyph_chains
    >>> arrays = {"bins": [[0, 2], [1, 0], [2, 2]], "labels": [5, 3, 5], "lengths": [2, 1]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "glyphs.npz"
    ...     np.savez(path, train=[0], n_bins=3, **arrays)
    ...     data = load_glyph_chains(path)
    >>> data.X[0].shape, data.y[0].tolist(), data.train.tolist()
    ((2, 6), [5, 3], [True, False])
    """
    wanted = "bins", "labels", "lengths", "train", "n_bins"
    bins, labels, lengths, train, n_bins = read_arrays(path, wanted).values()
    if len(bins) != len(labels) or lengths.sum() != len(labels):
        raise ValueError(
            f"{path}: {len(bins)} glyphs, {len(labels)} labels, chains of {lengths.sum()} in all"
        )
    mask = np.zeros(len(lengths), dtype=bool)
    mask[train] = True
    return _chains(bins, labels, lengths, int(n_bins), mask)


def make_glyph_chains(
    n_chains: int = 500,
    n_labels: int = 300,
    *,
    n_groups: int = 20,
    n_bins: int = 50,
    noise: float = 0.4,
    test_share: float = 0.2,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Simulate reading text in a script of many characters.

    Characters follow each other as in language: some are frequent, and after each of them a few
    others are likely. A character has its own bin in every group of measurements; each measurement
    is replaced by a random bin with probability `noise`.

    Parameters
    ----------
    n_chains, n_labels : int
        The sizes.
    n_groups, n_bins : int
        Measurements a glyph, and the values that each can take.
    noise : float
        From 0 to 1.
    test_share : float
        Share of the chains that is kept for tests.
    random_state : int, RandomState instance or None
        Draws everything.

    Returns
    -------
    Bunch
        As from :func:`load_glyph_chains`.

    See Also
    --------
    skstruct.datasets.load_glyph_chains : Reads chains with thousands of labels.
    skstruct.GDMMSSVM : Structural SVMs with very many labels.

    Examples
    --------
    >>> from skstruct.datasets import make_glyph_chains
    >>> data = make_glyph_chains(10, 30, random_state=0)
    >>> len(data.X), data.X.flat.shape[1]
    (10, 1000)
    """
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    frequency = np.cumsum(1.0 / np.arange(1, n_labels + 1))
    frequency /= frequency[-1]
    successors = np.searchsorted(frequency, rng.random((n_labels, 5)))
    lengths = rng.integers(4, 21, size=n_chains)
    labels = np.searchsorted(frequency, rng.random(lengths.sum()))
    follows = rng.random(labels.size) < 0.6
    follows[np.cumsum(lengths)[:-1]] = False
    choice = rng.integers(5, size=labels.size)
    for t in range(1, labels.size):
        if follows[t]:
            labels[t] = successors[labels[t - 1], choice[t]]
    codes = rng.integers(n_bins, size=(n_labels, n_groups))
    bins = codes[labels]
    wrong = rng.random(bins.shape) < noise
    bins[wrong] = rng.integers(n_bins, size=int(wrong.sum()))
    train = np.arange(n_chains) >= round(test_share * n_chains)
    return _chains(bins, labels, lengths, n_bins, train)


def _chains(bins, labels, lengths, n_bins, train):
    n_glyphs, n_groups = bins.shape
    columns = bins.astype(np.int32) + n_bins * np.arange(n_groups, dtype=np.int32)
    ptr = np.arange(0, columns.size + 1, n_groups)
    flat = sparse.csr_matrix(
        (np.ones(columns.size), columns.ravel(), ptr), shape=(n_glyphs, n_groups * n_bins)
    )
    offsets = ends_of(lengths.astype(np.int64))
    return Bunch(
        X=RaggedArray(flat, offsets), y=RaggedArray(labels.astype(np.int64), offsets), train=train
    )
