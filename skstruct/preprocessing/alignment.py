"""AlignmentFeatures: from sentence pairs to features of all pairs of their words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.arguments import check_integer, check_real
from ..core.jit.kernels import kernel
from ..core.offsets import ends_of
from ..core.text_files import split_line, split_lines
from ..core.typing import SamplesLike
from ..data.packing import as_list, is_empty_list
from ..data.ragged import object_array
from .ragged_transformer import RaggedTransformer, samples_of

# Loops over pairs of words: expected counts of translations, common letters.


@kernel
def expected_counts(first, stop, corpus, made, step_given, step_made, t, null, count, null_count):
    """E-step of IBM model 1, of the log-likelihood too; given words i generate made words j.

    Pair s has cell (i, j) at ``cell_ptr[s] + i * step_given[s] + j * step_made[s]``.
    """
    total = 0.0
    for s in range(first, stop):
        n_made = corpus.made_ptr[s + 1] - corpus.made_ptr[s]
        n_given = corpus.given_ptr[s + 1] - corpus.given_ptr[s]
        across, down = step_given[s], step_made[s]
        for j in range(n_made):
            word = made[corpus.made_ptr[s] + j]
            at = corpus.cell_ptr[s] + j * down
            norm = null[word]
            for i in range(n_given):
                norm += t[corpus.cells[at + i * across]]
            scale = 1.0 / norm
            null_count[word] += null[word] * scale
            for i in range(n_given):
                cell = corpus.cells[at + i * across]
                count[cell] += t[cell] * scale
            total += math.log(norm / (n_given + 1))
    return total


@kernel
def link_posteriors(first, stop, corpus, made, step_given, step_made, t, null, strength, out):
    """Probabilities of the links of pairs of sentences, with a prior for the diagonal."""
    start = corpus.cell_ptr[first]
    for s in range(first, stop):
        n_made = corpus.made_ptr[s + 1] - corpus.made_ptr[s]
        n_given = corpus.given_ptr[s + 1] - corpus.given_ptr[s]
        across, down = step_given[s], step_made[s]
        for j in range(n_made):
            at, total, norm = corpus.cell_ptr[s] + j * down, 0.0, 0.0
            for i in range(n_given):
                prior = math.exp(-strength * abs((i + 0.5) / n_given - (j + 0.5) / n_made))
                value = prior * t[corpus.cells[at + i * across]]
                out[at + i * across - start] = value
                total += prior
                norm += value
            # The null word has the mean prior of the words of the sentence.
            norm += null[made[corpus.made_ptr[s] + j]] * total / n_given
            scale = 1.0 / norm if norm > 0.0 else 0.0
            for i in range(n_given):
                out[at + i * across - start] *= scale


@kernel
def common_letters(first, first_ptr, second, second_ptr, row, prefix, common):
    """Lengths of the common prefix and of the longest common subsequence of all pairs of words."""
    for a in range(first_ptr.shape[0] - 1):
        n = first_ptr[a + 1] - first_ptr[a]
        for b in range(second_ptr.shape[0] - 1):
            m = second_ptr[b + 1] - second_ptr[b]
            length = 0
            while length < min(n, m) and (
                first[first_ptr[a] + length] == second[second_ptr[b] + length]
            ):
                length += 1
            prefix[a, b] = length
            for q in range(m + 1):
                row[q] = 0
            for p in range(n):
                diagonal = 0
                for q in range(m):
                    above = row[q + 1]
                    if first[first_ptr[a] + p] == second[second_ptr[b] + q]:
                        row[q + 1] = diagonal + 1
                    elif row[q] > above:
                        row[q + 1] = row[q]
                    diagonal = above
            common[a, b] = row[m]


# Features of the pairs of words of two sentences, as arrays (n_source, n_target).

# Translation probabilities below this are as good as none.
_LEAST = 1e-6

# Words that occur at most so often are rare, those of at most so many letters short.
_RARE, _SHORT = 5, 3

_PLACES = ("distance", "distance_square", "distance_root")
_SPELLING = (
    "equal", "equal_long", "prefix", "subsequence", "both_punctuation", "one_punctuation", "numbers"
)  # fmt: skip
_FREQUENCY = ("rank", "both_rare", "one_rare", "both_short", "one_short", "unknown")
_WORDS = ("dice", "dice_root", "dice_excess", "forward", "backward")
_LINKS = ("forward_link", "backward_link", "both_link")
_MODELS = tuple(
    f"{model}_{kind}"
    for model in ("plain", "diagonal")
    for kind in ("forward", "backward", "both", "excess")
)
_NEXT = {
    "next": (1, 1), "previous": (-1, -1), "cross_next": (1, -1), "cross_previous": (-1, 1),
    "below": (1, 0), "above": (-1, 0), "right": (0, 1), "left": (0, -1),
}  # fmt: skip
_STEMS = (
    "dice", "forward", "backward", *_MODELS, *(f"diagonal_both_{name}" for name in _NEXT)
)  # fmt: skip
_NEIGHBOURS = ("dice_next", "dice_previous", *(f"diagonal_both_{name}" for name in _NEXT))


def feature_names(stems, frequent):
    """Names of the features."""
    groups = [_WORDS, _LINKS, _MODELS, _NEIGHBOURS, _PLACES, _SPELLING, _FREQUENCY]
    groups += [[f"stem{size}_{name}" for name in _STEMS] for size in stems]
    for side, words in zip(("source", "target"), frequent, strict=True):
        groups.append([f"{side}={word}" for word in words])
    return np.array([name for group in groups for name in group], dtype=object)


def find_pairs(keys, source, target, width):
    """Return the positions of the pairs of two sentences in a table of pairs, -1 if unknown."""
    wanted = source[:, None] * width + target
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    known = (source >= 0)[:, None] & (target >= 0) & (keys[at] == wanted)
    return np.where(known, at, -1)


def best_links(table, codes, at):
    """Links of IBM model 1 in either direction."""
    t, back = _look_up(table.forward, at), _look_up(table.backward, at)
    nulls = _look_up(table.forward_null, codes[1]), _look_up(table.backward_null, codes[0])
    forward, backward = np.zeros(t.shape, dtype=bool), np.zeros(t.shape, dtype=bool)
    columns = np.flatnonzero(t.max(axis=0) > nulls[0])
    forward[t.argmax(axis=0)[columns], columns] = True
    rows = np.flatnonzero(back.max(axis=1) > nulls[1])
    backward[rows, back.argmax(axis=1)[rows]] = True
    return forward, backward


def features_of_pair(table, words, codes, at, diagonal):
    """All features but those of stems and frequent words."""
    dice, logs, models, neighbours = _features_of_table(table, codes, at, diagonal)
    forward, backward = best_links(table, codes, at)
    distance = _distance(*at.shape)
    columns = [
        *(dice, np.sqrt(dice), _excess(dice), *logs),
        *(forward, backward, forward & backward),
        *models,
        *(_shifted(dice, 1, 1), _shifted(dice, -1, -1), *neighbours),
        *(distance, distance**2, np.sqrt(distance)),
        *_spelling(*words),
        *_frequency(table, words, codes),
    ]
    return np.stack(columns, axis=2, dtype=np.float64)


def features_of_stems(table, codes, at, diagonal):
    """Features of a model of stems."""
    dice, logs, models, neighbours = _features_of_table(table, codes, at, diagonal)
    return np.stack([dice, *logs, *models, *neighbours], axis=2, dtype=np.float64)


def indicators(words, frequent):
    """Which frequent words of either side a pair has."""
    shape = len(words[0]), len(words[1])
    source, target = (
        np.array([[word == known for known in names] for word in side], dtype=np.float64)
        for side, names in zip(words, frequent, strict=True)
    )
    of_source = np.broadcast_to(source[:, None], (*shape, source.shape[1]))
    return np.concatenate([of_source, np.broadcast_to(target, (*shape, target.shape[1]))], axis=2)


def _distance(n, m):
    """Distance from the diagonal, relative to the lengths."""
    return np.abs((np.arange(n) + 0.5)[:, None] / n - (np.arange(m) + 0.5) / m)


def _features_of_table(table, codes, at, diagonal):
    """Dice, logarithms of translations, posteriors, and the posteriors of neighbouring pairs."""
    logs = [_log(_look_up(t, at)) for t in (table.forward, table.backward)]
    distance, models = _distance(*at.shape), []
    for strength in (0.0, diagonal):
        one, other = _posteriors(table, codes, at, np.exp(-strength * distance))
        both = np.sqrt(one * other)
        models += [one, other, both, _excess(both)]
    neighbours = [_shifted(both, *step) for step in _NEXT.values()]
    return _look_up(table.dice, at), logs, models, neighbours


def _look_up(values, at):
    """Return values, 0 at negative positions."""
    return np.where(at >= 0, values[at], 0.0)


def _log(t):
    """Logarithms from 0 (as good as none) to 1."""
    return 1.0 - np.log(np.maximum(t, _LEAST)) / np.log(_LEAST)


def _excess(values):
    """Return the excess of each entry over the others in its row and its column."""
    out = values.copy()
    for axis in (0, 1):
        if values.shape[axis] > 1:
            two = np.partition(values, -2, axis=axis)
            largest, second = (np.take(two, [k], axis=axis) for k in (-1, -2))
            out -= 0.5 * np.where(values == largest, second, largest)
    return out


def _posteriors(table, codes, at, prior):
    """Probabilities of links given the sentences, in both directions."""
    out = []
    for t, null, given, axis in (
        (table.forward, table.forward_null, codes[1][None, :], 0),
        (table.backward, table.backward_null, codes[0][:, None], 1),
    ):
        joint = _look_up(t, at) * prior
        # As in training, the null word has the mean prior of the words of the sentence.
        null_joint = _look_up(null, given) * prior.mean(axis=axis, keepdims=True)
        norm = joint.sum(axis=axis, keepdims=True) + null_joint
        out.append(joint / np.where(norm > 0.0, norm, 1.0))
    return out


def _shifted(values, down, right):
    """At (i, j) what is at (i + down, j + right); 0 outside."""
    n, m = values.shape
    padded = np.zeros((n + 2, m + 2))
    padded[1:-1, 1:-1] = values
    return padded[1 + down : n + 1 + down, 1 + right : m + 1 + right]


def _letters(words):
    """Letters of all words in one array, and where each begins."""
    letters = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return letters, ends_of(np.array([len(word) for word in words]))


def _spelling(source, target):
    sides = _letters(source), _letters(target)
    sizes = [np.diff(ends) for _, ends in sides]
    shape = len(source), len(target)
    prefix, common = np.empty(shape), np.empty(shape)
    row = np.empty(int(sizes[1].max()) + 1, dtype=np.int64)
    common_letters(*sides[0], *sides[1], row, prefix, common)
    n, m = sizes[0][:, None], sizes[1][None, :]
    longest = np.maximum(np.maximum(n, m), 1)
    equal = (n == m) & (prefix == n)
    marks = [_are(side, lambda word: not any(map(str.isalnum, word))) for side in (source, target)]
    number = [_are(side, lambda word: any(map(str.isdigit, word))) for side in (source, target)]
    return [
        equal,
        equal & (n > _SHORT),
        prefix / longest,
        2.0 * common / np.maximum(n + m, 1),
        marks[0][:, None] & marks[1],
        marks[0][:, None] ^ marks[1],
        number[0][:, None] & number[1],
    ]


def _are(words, has):
    return np.array([has(word) for word in words])


def _frequency(table, words, codes):
    """Words that translate each other are about as frequent."""
    counts = [_look_up(counts, side) for counts, side in zip(table.counts, codes, strict=True)]
    rare = [c <= _RARE for c in counts]
    short = [_are(side, lambda word: len(word) <= _SHORT) for side in words]
    logs = [
        np.log(np.maximum(c, 1.0)) / max(np.log(t.max()), 1.0)
        for c, t in zip(counts, table.counts, strict=True)
    ]
    return [
        np.abs(logs[0][:, None] - logs[1]),
        rare[0][:, None] & rare[1],
        rare[0][:, None] ^ rare[1],
        short[0][:, None] & short[1],
        short[0][:, None] ^ short[1],
        (codes[0] < 0)[:, None] | (codes[1] < 0),
    ]


# Translations of words: co-occurrence in parallel text, and IBM model 1.

# Sentence pairs between looks at Ctrl-C.
_PIECE = 10_000

# Expected counts below this are none.
_NONE = 1e-100


class Corpus(NamedTuple):
    """Sentence pairs as a kernel reads them."""

    # (n_cells,): For each pair of words of a sentence pair, source-major, its number among `keys`.
    cells: np.ndarray
    # (n_pairs + 1,): Where the cells and the words of either side begin.
    cell_ptr: np.ndarray
    given_ptr: np.ndarray
    made_ptr: np.ndarray


class Translations(NamedTuple):
    """Statistics of pairs of words in parallel text."""

    # (n_pairs,): Pairs that occur together, ``source * n_target_words + target``, in order.
    keys: np.ndarray
    # (n_pairs,): Twice the number of sentence pairs with both words over the sum of those with
    # either.
    dice: np.ndarray
    # (n_pairs,): Probability of the target word given the source word, and the other way round.
    forward: np.ndarray
    backward: np.ndarray
    # Probability of each target (source) word given the null word.
    forward_null: np.ndarray
    backward_null: np.ndarray
    # Counts of each word of either side.
    counts: tuple
    # (n_iter, 2): Of the text before each step, in both directions.
    log_likelihood: np.ndarray


def learn_translations(source, target, n_words, n_iter, agree_at=None):
    """Statistics of parallel text (Brown et al. 1993, IBM model 1, section 4.1).

    With `agree_at`, the strength of a prior for the diagonal, as many steps follow in which both
    directions are trained together (Liang et al. 2006, section 4).
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
    sides = (
        (Corpus(cells, cell_ptr, *ends), words[1], m, one),
        (Corpus(cells, cell_ptr, *ends[::-1]), words[0], one, m),
    )
    forward = _em(*sides[0], owner, n_words, n_iter)
    backward = _em(*sides[1], other, n_words[::-1], n_iter)
    counts = tuple(np.bincount(w, minlength=k) for w, k in zip(words, n_words, strict=True))
    likelihood = np.column_stack([forward[2], backward[2]])
    table = Translations(
        keys, dice, forward[0], backward[0], forward[1], backward[1], counts, likelihood
    )
    if agree_at is None:
        return table
    return _agreement(table, sides, (owner, other), n_words, n_iter, agree_at)


def _agreement(table, sides, given_of, n_words, n_iter, strength):
    """Continue EM with the products of the posteriors of both directions."""
    cell_ptr = sides[0][0].cell_ptr
    for _ in range(n_iter):
        count = np.zeros(table.keys.size)
        for first in range(0, cell_ptr.size - 1, _PIECE):
            stop = min(first + _PIECE, cell_ptr.size - 1)
            both, one = np.empty((2, cell_ptr[stop] - cell_ptr[first]))
            for side, t, null, out in (
                (sides[0], table.forward, table.forward_null, both),
                (sides[1], table.backward, table.backward_null, one),
            ):
                link_posteriors(first, stop, *side, t, null, strength, out)
            both *= one
            own = sides[0][0].cells[cell_ptr[first] : cell_ptr[stop]]
            count += np.bincount(own, both, minlength=count.size)
        # A word without links has no translations.
        forward, backward = (
            count / np.maximum(np.bincount(of, count, minlength=k), _NONE)[of]
            for of, k in zip(given_of, n_words, strict=True)
        )
        table = table._replace(forward=forward, backward=backward)
    return table


def _present(words, sizes, n_words):
    """In how many sentences each word occurs."""
    n = len(sizes)
    return np.bincount(
        np.unique(words * n + np.repeat(np.arange(n), sizes)) // n, minlength=n_words
    )


def _em(corpus, made, step_given, step_made, given_of, n_words, n_iter):
    """Probabilities of made words given each word and the null word; the log-likelihoods."""
    t = np.full(given_of.size, 1.0 / n_words[1])
    null = np.full(n_words[1], 1.0 / n_words[1])
    likelihood, n_pairs = np.zeros(n_iter), corpus.cell_ptr.size - 1
    for k in range(n_iter):
        count, null_count = np.zeros(t.size), np.zeros(null.size)
        for first in range(0, n_pairs, _PIECE):
            stop = min(first + _PIECE, n_pairs)
            likelihood[k] += expected_counts(
                first, stop, corpus, made, step_given, step_made, t, null, count, null_count
            )
        t = count / np.bincount(given_of, count, minlength=n_words[0])[given_of]
        null = null_count / null_count.sum()
    return t, null, likelihood


def _read_text(sides, n_iter, agree_at=None):
    """Numbers of the words of either side, and their translations."""
    vocabularies = {}, {}
    codes = [
        [np.array([known.setdefault(word, len(known)) for word in words]) for words in side]
        for known, side in zip(vocabularies, sides, strict=True)
    ]
    n_words = tuple(map(len, vocabularies))
    return vocabularies, learn_translations(*codes, n_words, n_iter, agree_at)


def _codes(pair, vocabularies, table):
    """Words of a pair of sentences as numbers, and where their pairs are in a table."""
    codes = [
        np.array([known.get(word, -1) for word in words])
        for known, words in zip(vocabularies, pair, strict=True)
    ]
    return codes, find_pairs(table.keys, *codes, len(vocabularies[1]))


def _stems(words, size):
    """First letters of words."""
    return [word[:size] for word in words]


def _read_pairs(X, lowercase, fitting):
    """Pairs of lists of words."""
    pairs, names = [], ("source", "target")
    for i, sample in enumerate(samples_of(X, fitting)):
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            raise TypeError(
                f"X: sample {i} must be a tuple (source, target) of lists of words, got "
                f"{type(sample).__name__}"
            )
        pair = tuple(
            _read_words(side, lowercase, f"X: sample {i}: its {name}")
            for side, name in zip(sample, names, strict=True)
        )
        for words, name in zip(pair, names, strict=True):
            if not words:
                raise ValueError(f"X: sample {i}: its {name} is empty")
        pairs.append(pair)
    return pairs


def _read_words(sentence, lowercase, where):
    """The words of a sentence."""
    if isinstance(sentence, str):
        words = [word for word in split_line(" ".join(split_lines(sentence))) if word]
    elif hasattr(sentence, "columns"):
        raise TypeError(f"{where} is a data frame: pass the list of its words")
    elif hasattr(sentence, "__len__") and not isinstance(sentence, (bytes, Mapping, Set)):
        words = list(sentence)
    else:
        raise TypeError(f"{where} must be a list of words, got {type(sentence).__name__}")
    wrong = next((word for word in words if not isinstance(word, str)), None)
    if wrong is not None:
        raise TypeError(f"{where} has the word {wrong!r}, which is no str")
    return [word.lower() for word in words] if lowercase else [str(w) for w in words]


class AlignmentFeatures(RaggedTransformer, BaseEstimator):
    """Transform sentences and their translations into samples for matching words.

    A sample of X is a tuple (source, target) of lists of words, or of strings that are split at
    white space; it becomes an array (n_source, n_target, n_features). Word translations are learned
    without alignments, from pairs of sentences: those of `parallel_text` and those passed to `fit`.
    All features lie between -1 and 1. Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    parallel_text : (sources, targets), default=None
        Sentences and their translations, as in X. They are copied when the transformer is cloned,
        fastest as strings.
    n_iter : int, default=5
        Steps of EM for IBM model 1.
    lowercase : bool, default=True
        Whether to ignore case.
    diagonal : float, default=4.0
        Strength of the diagonal in the ``diagonal_`` features: the prior probability of a link
        falls with ``exp(-diagonal * |i / n_source - j / n_target|)``.
    stems : sequence of int, default=()
        Numbers of first letters of a word that serve as its stem, such as ``(4, 6)``. Each adds
        features of a model of stems. Its statistics are less sparse, and after `n_iter` steps of
        IBM model 1 both directions are trained jointly for as many more, with the prior for the
        diagonal.
    n_frequent : int, default=0
        Number of words per side that have indicators, those that are most frequent in the parallel
        text. They learn which words are often left without a link.

    Attributes
    ----------
    vocabularies_ : (dict, dict)
        Number of each word of the sources and of the targets.
    translations_ : NamedTuple
        For all pairs of words that occur together: their Dice coefficient and their translation
        probabilities in both directions.
    stem_translations_ : list of NamedTuple
        The same for each size of stems.
    frequent_words_ : (list, list)
        Words with indicators.
    log_likelihood_ : ndarray of shape (n_iter, 2)
        Log-likelihood of the text under IBM model 1 before each step, in both directions.

    See Also
    --------
    skstruct.datasets.load_word_alignment : Reads sentence pairs and their links.

    Notes
    -----
    The features are Dice coefficients and probabilities of IBM model 1 in both directions, with and
    without a prior for the diagonal; the same of the neighbouring pairs of words; distance from the
    diagonal; similarity of spelling; and rarity and length of words. Unknown words have spelling
    and position only. `stems` and `n_frequent` add to this. `intersection` needs no training at
    all.

    References
    ----------
    B. Taskar, S. Lacoste-Julien, D. Klein: A discriminative matching approach to word alignment.
    EMNLP 2005, section 3.2.

    P. Brown, S. Della Pietra, V. Della Pietra, R. Mercer: The mathematics of statistical machine
    translation. Computational Linguistics 19(2), 1993, section 4.1.

    C. Dyer, V. Chahuneau, N. Smith: A simple, fast, and effective reparameterization of IBM model
    2. NAACL 2013, section 2: the prior of the ``diagonal_`` features.

    P. Liang, B. Taskar, D. Klein: Alignment by agreement. NAACL 2006, section 4: the joint training
    of the features of stems.

    Examples
    --------
    >>> from skstruct.preprocessing import AlignmentFeatures
    >>> pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
    >>> features = AlignmentFeatures().fit(pairs)
    >>> features.transform(pairs)[0].shape == (2, 2, len(features.get_feature_names_out()))
    True
    >>> features.intersection([("ein Haus", "a house")])[0].tolist()
    [[0, 0], [1, 1]]
    """

    def __init__(
        self,
        parallel_text: Sequence[Any] | None = None,
        *,
        n_iter: int = 5,
        lowercase: bool = True,
        diagonal: float = 4.0,
        stems: Sequence[int] = (),
        n_frequent: int = 0,
    ) -> None:
        self.parallel_text = parallel_text
        self.n_iter = n_iter
        self.lowercase = lowercase
        self.diagonal = diagonal
        self.stems = stems
        self.n_frequent = n_frequent

    def fit_transform(self, X: SamplesLike, y: Any = None) -> np.ndarray:
        """Learn from the text, then transform.

        Parameters
        ----------
        X : list of tuples (source, target)
            Sentence pairs.
        y : object, default=None
            Ignored: alignments are not needed.

        Returns
        -------
        object array of shape (n_samples,)
            An array (n_source, n_target, n_features) per sample.

        Raises
        ------
        ValueError, TypeError
            If a sample is not a pair of sentences, a sentence is empty, `parallel_text` has sides
            of different lengths, or a parameter is out of range.
        """
        n_iter = check_integer("n_iter", self.n_iter)
        check_real("diagonal", self.diagonal)
        if not isinstance(self.lowercase, (bool, np.bool_)):
            raise TypeError(f"lowercase must be True or False, got {self.lowercase!r}")
        n_frequent = check_integer("n_frequent", self.n_frequent, 0)
        if isinstance(self.stems, str) or not isinstance(self.stems, Iterable):
            raise TypeError(f"stems must be a sequence of integers, got {self.stems!r}")
        sizes = [check_integer("stems", size) for size in self.stems]
        if len({*sizes}) < len(sizes):
            raise ValueError(f"stems must be different integers, got {self.stems!r}")
        pairs = _read_pairs(X, self.lowercase, True)
        text = self._text()
        sides = [[*a, *b] for a, b in zip(text, zip(*pairs, strict=True), strict=True)]
        # Later values of parameters do not change what is learned.
        self._sizes, self._diagonal, self._lowercase = sizes, self.diagonal, self.lowercase
        self.vocabularies_, self.translations_ = _read_text(sides, n_iter)
        self.stem_vocabularies_, self.stem_translations_ = [], []
        for size in sizes:
            own = [[_stems(words, size) for words in side] for side in sides]
            vocabularies, table = _read_text(own, n_iter, float(self.diagonal))
            self.stem_vocabularies_.append(vocabularies)
            self.stem_translations_.append(table)
        self.frequent_words_ = tuple(
            [names[k] for k in np.argsort(-counts, kind="stable")[:n_frequent]]
            for names, counts in zip(
                map(list, self.vocabularies_), self.translations_.counts, strict=True
            )
        )
        self.log_likelihood_ = self.translations_.log_likelihood
        return self._transform(pairs)

    def transform(self, X: SamplesLike) -> np.ndarray:
        """Features of all pairs of words.

        Parameters
        ----------
        X : list of tuples (source, target)
            Sentence pairs.

        Returns
        -------
        object array of shape (n_samples,)
            An array (n_source, n_target, n_features) per sample.

        Raises
        ------
        ValueError, TypeError
            If a sample is not a pair of sentences, or a sentence is empty.
        """
        check_is_fitted(self)
        return self._transform(_read_pairs(X, self._lowercase, False))

    def intersection(self, X: SamplesLike) -> list[np.ndarray]:
        """Links on which IBM model 1 agrees in both directions.

        Each word is linked to the word of the other side that most probably generated it, the first
        of several, or to no word if the null word is more probable. Links of both directions are
        kept (F. J. Och, H. Ney: A systematic comparison of various statistical alignment models,
        2003).

        Parameters
        ----------
        X : list of tuples (source, target)
            Sentence pairs.

        Returns
        -------
        list of ndarray of shape (n_links, 2) of int
            Word of the source and of the target, counted from 0.
        """
        check_is_fitted(self)
        return [
            np.argwhere(np.logical_and(*best_links(self.translations_, *self._codes(pair))))
            for pair in _read_pairs(X, self._lowercase, False)
        ]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the features.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_features,)
            The names.
        """
        check_is_fitted(self)
        return feature_names(self._sizes, self.frequent_words_)

    def _transform(self, pairs):
        return object_array([self._features(pair) for pair in pairs])

    def _features(self, pair):
        """Features of the pairs of words of two sentences."""
        groups = [features_of_pair(self.translations_, pair, *self._codes(pair), self._diagonal)]
        for size, vocabularies, table in zip(
            self._sizes, self.stem_vocabularies_, self.stem_translations_, strict=True
        ):
            codes = _codes([_stems(words, size) for words in pair], vocabularies, table)
            groups.append(features_of_stems(table, *codes, self._diagonal))
        if any(self.frequent_words_):
            groups.append(indicators(pair, self.frequent_words_))
        return np.concatenate(groups, axis=2) if len(groups) > 1 else groups[0]

    def _codes(self, pair):
        """Words of a pair of sentences as numbers, and where their pairs are in the tables."""
        return _codes(pair, self.vocabularies_, self.translations_)

    def _text(self):
        """Both sides of the parallel text, without pairs that have an empty side."""
        text = self.parallel_text
        if text is None:
            return [], []
        if not isinstance(text, (tuple, list)) or len(text) != 2:
            raise TypeError("parallel_text must be a tuple (sources, targets)")
        sides = []
        for side, name in zip(text, ("sources", "targets"), strict=True):
            where = f"parallel_text: {name}"
            items = [] if is_empty_list(side) else as_list(side, where)
            read = (
                _read_words(s, self.lowercase, f"{where}: sentence {i}")
                for i, s in enumerate(items)
            )
            sides.append([*read])
        if len(sides[0]) != len(sides[1]):
            raise ValueError(
                f"parallel_text has {len(sides[0])} sources, but {len(sides[1])} targets"
            )
        full = [pair for pair in zip(*sides, strict=True) if pair[0] and pair[1]]
        return tuple(zip(*full, strict=True)) if full else ([], [])
