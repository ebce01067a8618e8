"""
A structure of your own: words of a lexicon
===========================================

A chain knows which digits stand side by side. Here they must be a date: :doc:`/own_structure`.
"""

from typing import NamedTuple

import numpy as np

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, Chain
from skstruct.core import inner_kernel, kernel, oracles
from skstruct.datasets import load_digit_strings
from skstruct.graphs import SequenceProblem
from skstruct.inspection import MarginalsDisplay
from skstruct.testing import check_structure


class LexiconProblem(SequenceProblem):
    structure = "Lexicon"


class Scratch(NamedTuple):
    tables: tuple  # for what is inherited
    scores: np.ndarray


@inner_kernel
def look_up(problem, i, theta):
    """The words that are as long as sample i, and their scores."""
    letters, starts = problem.own
    n = problem.label_ptr[i + 1] - problem.label_ptr[i]
    words = letters[starts[n] : starts[n + 1], :n]
    scores = problem.work.scores[: words.shape[0]]
    for c in range(words.shape[0]):
        scores[c] = oracles.score(problem, i, theta, words[c])
    return words, scores


@oracles.top_k_oracle.register(LexiconProblem)
@kernel
def _(problem, i, theta, values, labels):
    words, scores = look_up(problem, i, theta)
    values[:] = -np.inf
    for q in range(min(values.shape[0], words.shape[0])):
        c = np.argmax(scores)
        values[q], scores[c] = scores[c], -np.inf
        for t in range(words.shape[1]):
            labels[q, t] = words[c, t]


@oracles.max_oracle.register(LexiconProblem)
@kernel
def _(problem, i, theta, labels):
    best = problem.work.tables.row[:1]
    oracles.top_k_oracle(problem, i, theta, best, labels.reshape(1, labels.shape[0]))
    return best[0]


@oracles.exp_oracle.register(LexiconProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    words, scores = look_up(problem, i, theta)
    top, total = (scores[np.argmax(scores)] if scores.size > 0 else -np.inf), 0.0
    mu[:] = 0.0
    if not top > -np.inf:
        return top
    for c in range(scores.shape[0]):
        scores[c] = np.exp((scores[c] - top) / temperature)
        total += scores[c]
    for c in range(scores.size if mu.size > 0 else 0):  # no mu: the value alone is asked for
        oracles.add_indicator(problem, i, words[c], scores[c] / total, mu)
    return top + temperature * np.log(total)


class Lexicon(Chain):
    def __init__(self, words=()):
        super().__init__()
        self.words = words

    def make_problem(self, samples, classes, fit_intercept, **options):
        chain = super().make_problem(samples, classes, fit_intercept, **options)
        ids = {label: k for k, label in enumerate(classes.tolist())}
        known = (tuple(map(ids.get, w)) for w in self.words if ids.keys() >= {*w})
        known = sorted({*known}, key=len)
        n = samples.lengths.max(initial=len(known[-1]))
        letters = np.array([w + (0,) * (n - len(w)) for w in known], dtype=np.int32)
        starts = np.searchsorted([*map(len, known)], np.arange(n + 2))
        work = Scratch(chain.work.tables, np.empty(len(known)))
        return LexiconProblem(*chain._replace(own=(letters, starts), work=work))

    def is_labelling(self, codes, samples, classes):
        words = {*map(tuple, self.words)}
        y = np.split(classes[codes], samples.offsets[1:-1])[: len(samples.lengths)]
        return np.array([tuple(word.tolist()) in words for word in y], bool)

    def factors(self, problem, samples):
        return None  # no node or edge alone knows which words there are


# %%
# Check it, then train it: months and years of ``load_digit_strings``. The other solvers and
# estimators take it, too, but for GDMM, which would need its factors.
dates = [f"{month}{year}" for month in ["", *range(1, 13)] for year in range(1950, 2030)]
lexicon = Lexicon([[int(digit) for digit in date] for date in dates])
data = load_digit_strings(n_train=200, n_test=400)
train, test = np.isin(data.strings_train, dates), np.isin(data.strings_test, dates)
X, y = data.X_train[train], data.y_train[train]
X_test, y_test = data.X_test[test], data.y_test[test]
check_structure(lexicon, X[:20], y[:20], labellings=lexicon.words)
options = {"C": 0.1, "tol": 0.05}
crf = SAGCRF(lexicon, solver="sag", **options)
for model in (crf, BCFWSSVM(lexicon, **options), GDMMSSVM(lexicon, **options)):
    try:
        print(f"{type(model).__name__} {model.fit(X, y).score(X_test, y_test):.3f}")
    except TypeError as error:
        print(error)
print(crf.predict(X_test[:1]), crf.predict_top_k(X_test[:1], k=3))
MarginalsDisplay.from_estimator(crf, X_test[0])
