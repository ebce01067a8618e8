"""
A structure of your own: words of a lexicon
===========================================

Each digit of a string is a node. Here they must be a date: :doc:`/own_structure`.
"""

# sphinx_gallery_tags = ["own structure"]
from functools import partial
from timeit import timeit
from typing import NamedTuple

import numpy as np

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF
from skstruct.core import inner_kernel, kernel, oracles
from skstruct.datasets import load_digit_strings
from skstruct.graphs import NodeGraph, NodeSpace
from skstruct.inspection import MarginalsDisplay
from skstruct.testing import check_structure, training_problem


class LexiconSpace(NodeSpace):
    structure = "Lexicon"


class Words(NamedTuple):
    letters: np.ndarray  # a word a row, by length
    starts: np.ndarray  # where the words of each length begin


class Scratch(NamedTuple):
    scores: np.ndarray


@inner_kernel
def look_up(space, i, theta):
    """The words that are as long as sample i, and their scores."""
    own, n = space.own, space.label_ptr[i + 1] - space.label_ptr[i]
    words = own.letters[own.starts[n] : own.starts[n + 1], :n]
    scores = space.work.own.scores[: words.shape[0] + 1]
    for c in range(words.shape[0]):
        scores[c] = oracles.score(space, i, theta, words[c])
    scores[words.shape[0]] = -np.inf  # of no word
    return words, scores


@oracles.max_oracle.register(LexiconSpace)
@kernel
def _(space, i, theta, labels):
    words, scores = look_up(space, i, theta)
    c = np.argmax(scores)
    if scores[c] > -np.inf:
        for t in range(words.shape[1]):
            labels[t] = words[c, t]
    return scores[c]


@oracles.exp_oracle.register(LexiconSpace)
@kernel
def _(space, i, theta, temperature, mu):
    words, scores = look_up(space, i, theta)
    top, total = scores[np.argmax(scores)], 0.0
    mu[:] = 0.0
    if not top > -np.inf:
        return top
    for c in range(words.shape[0]):
        scores[c] = np.exp((scores[c] - top) / temperature)
        total += scores[c]
    if mu.size > 0:  # else the value alone is needed
        for c in range(words.shape[0]):
            oracles.add_indicator(space, i, words[c], scores[c] / total, mu)
    return top + temperature * np.log(total)


class Lexicon(NodeGraph):
    space = LexiconSpace

    def __init__(self, words=()):
        self.words = words

    def make_problem(self, samples, classes, fit_intercept, **options):
        ids = {label: k for k, label in enumerate(classes.tolist())}
        spelt = [word for word in self.words if all(label in ids for label in word)]
        known = sorted({tuple(ids[label] for label in word) for word in spelt}, key=len)
        n = samples.lengths.max(initial=len(known[-1]))
        letters = np.zeros((len(known), n), dtype=np.int32)
        for row, word in zip(letters, known, strict=True):
            row[: len(word)] = word
        starts = np.searchsorted([len(word) for word in known], np.arange(n + 2))
        options |= {"own": Words(letters, starts), "scratch": Scratch(np.empty(len(known) + 1))}
        n_parts = samples.lengths * len(classes)
        return self.space.make_problem(self, samples, classes, fit_intercept, n_parts, **options)

    def is_labelling(self, codes, samples, classes):
        words = {*map(tuple, self.words)}
        y = np.split(classes[codes], samples.offsets[1:-1])[: len(samples.lengths)]
        return np.array([tuple(word.tolist()) in words for word in y], bool)


# %%
# Check it, then train it on months and years. GDMM alone needs nodes and edges of their own.
dates = [f"{month}{year}" for month in ["", *range(1, 13)] for year in range(1950, 2030)]
lexicon = Lexicon([[int(digit) for digit in date] for date in dates])
data = load_digit_strings(n_train=200, n_test=400)
train, test = np.isin(data.strings_train, dates), np.isin(data.strings_test, dates)
X, y = data.X_train[train], data.y_train[train]
X_test, y_test = data.X_test[test], data.y_test[test]
check_structure(lexicon, X[:20], y[:20], labellings=lexicon.words)
options: dict = {"C": 0.1, "tol": 0.05}
crf = SAGCRF(lexicon, solver="sag", **options)
for model in (crf, BCFWSSVM(lexicon, **options), GDMMSSVM(lexicon, **options)):
    try:
        print(f"{type(model).__name__} {model.fit(X, y).score(X_test, y_test):.3f}")
    except TypeError as error:
        print(error)
print(crf.predict(X_test[:1]), crf.predict_top_k(X_test[:1], k=3))
MarginalsDisplay.from_estimator(crf, X_test[0])

# %%
# A fifth operation. The n best words are found by forcing the digits one by one, which serves every
# structure. Here all words are known: sorting them is faster.


class SortedSpace(LexiconSpace):
    structure = "SortedLexicon"


@oracles.top_k_oracle.register(SortedSpace)
@kernel
def _(space, i, theta, values, labels):
    words, scores = look_up(space, i, theta)
    for q in range(values.shape[0]):
        c = np.argmax(scores)
        values[q], scores[c] = scores[c], -np.inf
        for t in range(words.shape[1] if values[q] > -np.inf else 0):
            labels[q, t] = words[c, t]


class SortedLexicon(Lexicon):
    space = SortedSpace


check_structure(SortedLexicon(lexicon.words), X[:20], y[:20], labellings=lexicon.words)
for kind in (Lexicon, SortedLexicon):
    problem = training_problem(kind(lexicon.words), X[:20], y[:20])[0]
    theta, values, labels = np.zeros(60), np.empty(5), np.zeros((5, 6), dtype=np.int32)
    decode = partial(oracles.top_k_oracle, problem, 0, theta, values, labels)
    decode()  # compiles
    print(f"{kind.__name__}: {1e4 * timeit(decode, number=100):.0f} microseconds")
