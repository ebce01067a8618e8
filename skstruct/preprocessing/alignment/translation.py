"""Which words translate which: co-occurrence in parallel text, and IBM model 1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.offsets import ends_of
from .kernels import expected_counts

# Sentence pairs between looks at Ctrl-C.
_PIECE = 10_000


class Corpus(NamedTuple):
    """Sentence pairs as a kernel reads them."""

    # (n_cells,): For each pair of words of a sentence pair, source-major, its number among `keys`.
    cells: np.ndarray
    # (n_pairs + 1,): Where the cells and the words of either side begin.
    cell_ptr: np.ndarray
    given_ptr: np.ndarray
    made_ptr: np.ndarray


class Translations(NamedTuple):
    """What parallel text tells of pairs of words."""

    # (n_pairs,): Pairs that occur together, ``source * n_target_words + target``, in order.
    keys: np.ndarray
    # (n_pairs,): Twice the number of sentence pairs with both words over the sum of those with
    # either.
    dice: np.ndarray
    # (n_pairs,): Probability of the target word given the source word, and the other way round.
    forward: np.ndarray
    backward: np.ndarray
    # Probability of each target (source) word where no word stands behind it.
    forward_null: np.ndarray
    backward_null: np.ndarray
    # How often each word of either side occurs.
    counts: tuple
    # (n_iter, 2): Of the text before each step, in both directions.
    log_likelihood: np.ndarray


def learn_translations(source, target, n_words, n_iter):
    """Statistics of parallel text.

    P. Brown, S. Della Pietra, V. Della Pietra, R. Mercer: The mathematics of statistical machine
    translation. Computational Linguistics 19(2), 1993, section 4.1.
    """
    width = n_words[1]
    all_keys = [(s[:, None] * width + t).ravel() for s, t in zip(source, target, strict=True)]
    keys, cells = np.unique(np.concatenate(all_keys), return_inverse=True)
    del all_keys
    cells = cells.astype(np.int32)
    n, m = (np.array([len(words) for words in side]) for side in (source, target))
    cell_ptr = ends_of(n * m)
    words = np.concatenate(source), np.concatenate(target)
    sentences = [_present(*side) for side in zip(words, (n, m), n_words, strict=True)]
    pieces = zip(cell_ptr[:-1].tolist(), cell_ptr[1:].tolist(), strict=True)
    both = np.zeros(keys.size)
    for a, b in pieces:
        both[np.unique(cells[a:b])] += 1.0
    owner, other = np.divmod(keys, width)
    dice = 2.0 * both / (sentences[0][owner] + sentences[1][other])
    ends = ends_of(n), ends_of(m)
    one = np.ones_like(n)
    forward = _em(Corpus(cells, cell_ptr, *ends), words[1], (m, one), owner, n_words, n_iter)
    backward = _em(
        Corpus(cells, cell_ptr, *ends[::-1]), words[0], (one, m), other, n_words[::-1], n_iter
    )
    counts = tuple(np.bincount(w, minlength=k) for w, k in zip(words, n_words, strict=True))
    likelihood = np.column_stack([forward[2], backward[2]])
    return Translations(
        keys, dice, forward[0], backward[0], forward[1], backward[1], counts, likelihood
    )


def _present(words, sizes, n_words):
    """In how many sentences each word occurs."""
    n = len(sizes)
    return np.bincount(
        np.unique(words * n + np.repeat(np.arange(n), sizes)) // n, minlength=n_words
    )


def _em(corpus, made, steps, given_of, n_words, n_iter):
    """Probabilities of made words given each word, and given none; the log-likelihoods."""
    t = np.full(given_of.size, 1.0 / n_words[1])
    null = np.full(n_words[1], 1.0 / n_words[1])
    likelihood, n_pairs = np.zeros(n_iter), corpus.cell_ptr.size - 1
    for k in range(n_iter):
        count, null_count = np.zeros(t.size), np.zeros(null.size)
        for first in range(0, n_pairs, _PIECE):
            stop = min(first + _PIECE, n_pairs)
            likelihood[k] += expected_counts(
                first, stop, corpus, made, *steps, t, null, count, null_count
            )
        t = count / np.bincount(given_of, count, minlength=n_words[0])[given_of]
        null = null_count / null_count.sum()
    return t, null, likelihood
