"""Records of outputs other than text: label sets, word alignment, images; rivals of the tagger.

Each function returns what a row of ``records.py`` shows. What is tuned is tuned on a part of the
training data; the test part is read once.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from graph_tasks import snake_images
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from skstruct import BCFWSSVM, SAGCRF, Grid, Matching, MultiLabel
from skstruct.datasets import (
    load_multilabel,
    load_parallel_text,
    load_snakes,
    load_word_alignment,
)
from skstruct.metrics import alignment_error_rate
from skstruct.preprocessing import AlignmentFeatures

# Label sets: chains of classifiers and structured models, on the same features.


class Part(NamedTuple):
    """Rows of features and of label sets."""

    X: object
    Y: np.ndarray

    def rows(self, chosen):
        """Some of them."""
        return Part(self.X[chosen], self.Y[chosen])


def label_set_parts(folder, name, limit):
    """Training and test part; bibtex has no split and is cut where Mulan cuts it."""
    path = "scene/scene.npz" if name == "scene" else f"multilabel/{name}.npz"
    data = load_multilabel(folder / path)
    train = np.arange(len(data.Y)) < 4880 if data.train.all() else data.train
    X = data.X if name == "scene" else normalize(data.X)
    parts = [Part(X[rows], data.Y[rows]) for rows in (train, ~train)]
    if limit:
        used = parts[0].Y[:limit].sum(axis=0) >= 5
        parts = [Part(part.X[:limit], part.Y[:limit, used][:, :40]) for part in parts]
    return parts


def _subset_accuracy(Y, found):
    return float((found == Y).all(axis=1).mean())


def _example_f1(Y, found):
    return f1_score(Y, found, average="samples", zero_division=1.0)


LABEL_SET_SCORES = {"subset accuracy": _subset_accuracy, "example F1": _example_f1}
# Decoding among the label sets of the training part: with how much of their log frequency.
_SEEN = {f"seen sets + {weight:g} log n": weight for weight in (0.0, 0.5, 1.0)}
_THRESHOLDS = ["labelling", *_SEEN, *np.arange(0.02, 0.81, 0.02).round(2).tolist()]


def label_sets_at(predicted, threshold):
    """A labelling found as it is; or labels at least so probable, and the most probable one."""
    if threshold in predicted:
        return predicted[threshold]
    probabilities = predicted["probabilities"]
    found = probabilities >= threshold
    found[np.arange(len(found)), probabilities.argmax(axis=1)] = True
    return found.astype(int)


def _predicted(model, part, X):
    """What a fitted model predicts; of a CRF also the best label sets of its training part."""
    found = {
        "labelling": np.asarray(model.predict(X)).astype(int),
        "probabilities": np.asarray(model.predict_proba(X)),
    }
    if isinstance(model, SAGCRF):
        seen, counts = np.unique(part.Y, axis=0, return_counts=True)
        # The likelihoods of one row tell what each set scores beside the scores of its labels.
        one = part.X[:1]
        rows = one[np.zeros(len(seen), dtype=int)]
        pairs = model.predict_log_likelihood(rows, seen) - seen @ model.decision_function(one)[0]
        scores = model.decision_function(X) @ seen.T + pairs
        for name, weight in _SEEN.items():
            found[name] = seen[(scores + weight * np.log(counts)).argmax(axis=1)]
    return found


def _smooth(gamma):
    """Random features of a Gaussian kernel, for dense rows."""
    return StandardScaler(), Nystroem(gamma=gamma, n_components=800, random_state=0)


def chains_of_classifiers(name):
    """ClassifierChain of logistic regressions, by name."""
    for C in (0.1, 1.0) if name == "delicious" else (1.0, 10.0, 100.0):
        if name != "scene":
            one = LogisticRegression(C=C, solver="liblinear", tol=0.01, random_state=0)
            yield f"C={C:g}", ClassifierChain(one, order="random")
            continue
        one = ClassifierChain(LogisticRegression(C=C, max_iter=300), order="random")
        yield f"C={C:g}", one
        for gamma in (1e-3, 3e-3):
            yield f"Nystroem gamma={gamma:g}, C={C:g}", make_pipeline(*_smooth(gamma), one)


def structured_models(name):
    """CRFs on label sets, by name."""
    for C in (0.1, 1.0) if name == "delicious" else (1.0, 10.0, 100.0):
        if name == "scene":
            crf = SAGCRF(MultiLabel("full"), C=C)
            yield f"all pairs, C={C:g}", crf
            for gamma in (1e-3, 3e-3):
                called = f"all pairs, Nystroem gamma={gamma:g}, C={C:g}"
                yield called, make_pipeline(*_smooth(gamma), crf)
            continue
        for edges, tables in ((None, False), ("tree", False), ("tree", True)):
            if name == "delicious" and edges:
                continue  # a tree takes five times as long and has the same scores
            called = f"{edges or 'no pairs'}{', tables' * tables}, C={C:g}"
            yield called, SAGCRF(MultiLabel(edges, tables=tables), C=C)


def seeded(model, seed):
    """A copy whose random states, at any depth, are the seed."""
    names = [name for name in model.get_params() if name.endswith("random_state")]
    return clone(model).set_params(**dict.fromkeys(names, seed))


def folds_of(n, name):
    """Parts of the training rows that choose: five folds, of delicious one."""
    fold = np.random.default_rng(0).integers(5, size=n)
    return [fold == f for f in range(1 if name == "delicious" else 5)]


@cache
def label_sets(folder, name, limit):
    """For each measure and rival: the test score of three seeds with what held-out rows chose.

    Of delicious, whose chains take a minute, one seed and example F1: sets of 19 labels are never
    found whole.
    """
    train, test = label_set_parts(folder, name, limit)
    results = {}
    is_slow, measures = name == "delicious", dict(LABEL_SET_SCORES)
    if is_slow:
        del measures["subset accuracy"]
    rivals = {"ClassifierChain": chains_of_classifiers, "SAGCRF": structured_models}
    for rival, models in rivals.items():
        models, held_out = dict(models(name)), defaultdict(list)
        for held in folds_of(len(train.Y), name):
            for called, model in models.items():
                own, other = train.rows(~held), train.rows(held)
                predicted = _predicted(_fitted(seeded(model, 0), own), own, other.X)
                for measure, score in measures.items():
                    for threshold in _THRESHOLDS:
                        if threshold in _SEEN and threshold not in predicted:
                            continue
                        found = label_sets_at(predicted, threshold)
                        held_out[measure, called, threshold].append(score(other.Y, found))
        fits = {}
        for measure, score in measures.items():
            means = {key: np.mean(own) for key, own in held_out.items() if key[0] == measure}
            _, called, threshold = max(means, key=means.get)
            if called not in fits:
                began = time.process_time()
                seeds = range(1 if is_slow else 3)
                fitted = [_fitted(seeded(models[called], seed), train) for seed in seeds]
                seconds = (time.process_time() - began) / len(seeds)
                fits[called] = [_predicted(model, train, test.X) for model in fitted], seconds
            scores = [score(test.Y, label_sets_at(both, threshold)) for both in fits[called][0]]
            how = threshold if isinstance(threshold, str) else f"threshold {threshold:g}"
            results[measure, rival] = {
                "score": np.mean(scores),
                "seeds": scores,
                "chosen": f"{called}, {how}",
                "seconds": fits[called][1],
                "development": max(means.values()),
            }
    return results


def _fitted(model, part):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="n_components > n_samples")
        return model.fit(*part)


def label_set_row(name, measure):
    """The row of a data set and a measure."""

    def run(folder, limit):
        results = label_sets(folder, name, limit)
        rival = results[measure, "ClassifierChain"]
        return results[measure, "SAGCRF"] | {
            "published": f"ClassifierChain {100 * rival['score']:.2f} ({rival['chosen']})",
            "rival": rival,
        }

    return run


# Word alignment: features of stems and frequent words, then what neighbouring links are.


def _shifted(values, down, right):
    """At (i, j) what is at (i + down, j + right); 0 outside."""
    n, m = values.shape
    padded = np.pad(values, 2)
    return padded[2 + down : n + 2 + down, 2 + right : m + 2 + right]


_NEAR = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
_FAR = [(2, 2), (-2, -2), (2, 0), (-2, 0), (0, 2), (0, -2)]


def neighbour_features(scores, links):
    """Of each pair of words: its score, and the scores and links of the pairs around it."""
    linked = np.zeros(scores.shape)
    linked[tuple(np.reshape(links, (-1, 2)).T)] = 1.0
    likely = 1.0 / (1.0 + np.exp(-scores))
    best = [np.sort(likely, axis=axis) for axis in (0, 1)]
    columns = [np.clip(scores, -4.0, 4.0) / 4.0, likely, linked]
    columns += [likely - np.take(own, [-1], axis=axis) for axis, own in enumerate(best)]
    for step in _NEAR:
        columns += [_shifted(likely, *step), _shifted(linked, *step)]
    columns += [_shifted(linked, *step) for step in _FAR]
    columns += [(linked.sum(axis=axis, keepdims=True) - linked) / 2.0 for axis in (0, 1)]
    before, after = _shifted(linked, -1, -1), _shifted(linked, 1, 1)
    columns += [before * after, likely * before, likely * after]
    return np.stack(columns, axis=2)


# Stems of 99 letters are whole words, whose directions are then trained together, too.
_STEMS = {"stems": (4, 6, 99), "n_frequent": 40, "diagonal": 9.0}


class TwoStages(BaseEstimator):
    """Matchings, then matchings that know the links around each pair (stacked by folds)."""

    def __init__(self, matching, n_folds=5):
        self.matching = matching
        self.n_folds = n_folds

    def fit(self, X, y):
        """Train the second stage on what folds of the first predict."""
        fold = np.arange(len(X)) % self.n_folds
        more = [None] * len(X)
        for f in range(self.n_folds):
            inside, outside = (np.flatnonzero(where) for where in (fold != f, fold == f))
            model = clone(self.matching).fit([X[i] for i in inside], [y[i] for i in inside])
            own = [X[i] for i in outside]
            for i, x in zip(outside, self._with_neighbours(model, own), strict=True):
                more[i] = x
        self.first_ = clone(self.matching).fit(X, y)
        self.second_ = clone(self.matching).fit(more, y)
        return self

    def predict(self, X):
        """Links of the second stage."""
        return self.second_.predict(self._with_neighbours(self.first_, X))

    @staticmethod
    def _with_neighbours(model, X):
        more, n = [], _STEMS["n_frequent"]
        for x, scores, links in zip(X, model.decision_function(X), model.predict(X), strict=True):
            near = neighbour_features(scores, links)
            # Most wrong links join articles, prepositions and commas that occur several times.
            source, target = x[:, :, -2 * n : -n], x[:, :, -n:]
            frequent = source.any(axis=2, keepdims=True) & target.any(axis=2, keepdims=True)
            more.append(np.concatenate([x, near, near * frequent], axis=2))
        return more


def _matching(C=1.0, degree=2):
    costs = {1: 3.0, 0: 1.0}
    return BCFWSSVM(Matching(degree, repair=True), loss=costs, C=C, tol=1e-2)


def _error(model, X, links):
    sure, possible = zip(*links, strict=True)
    return alignment_error_rate(sure, possible, list(model.predict(X)))


def held_out_error(model, X, links, n_folds=5):
    """Alignment error rate of all pairs, each predicted by a model that has not seen it."""
    fold, found = np.arange(len(X)) % n_folds, [None] * len(X)
    for f in range(n_folds):
        inside, outside = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        fitted = clone(model).fit([X[i] for i in inside], [links[i] for i in inside])
        for i, own in zip(outside, fitted.predict([X[i] for i in outside]), strict=True):
            found[i] = own
    return alignment_error_rate(*zip(*links, strict=True), found)


def hansards(folder, limit):
    """English and French: 200 aligned pairs train, 247 test.

    Statistics of words are those of 25,000 pairs without links and of the text of all 447, as the
    published ones are; links are read of the 200 alone.
    """
    folder = folder / "word_alignment"
    gold = load_word_alignment(*(folder / f"enfr_hansards.{end}.gz" for end in ("src-tgt", "gold")))
    text = load_parallel_text(*(folder / f"enfr_hansards.train.{side}.gz" for side in ("en", "fr")))
    sides = [side[: limit and 10 * limit] for side in (text.source, text.target)]
    pairs = list(zip(gold.source, gold.target, strict=True))
    links = list(zip(gold.sure, gold.possible, strict=True))
    n = 40 if limit else 200
    end = 2 * n if limit else None
    rows = {}
    for name, options in (("basic", {}), ("stems", _STEMS)):
        features = AlignmentFeatures(tuple(sides), **options).fit(pairs[:end])
        rows[name] = list(features.transform(pairs[:end]))
    results = {}
    for name, X in rows.items():
        degree = 1 if name == "basic" else 2
        models = {f"C={C:g}": _matching(C, degree) for C in (0.1, 0.3, 1.0)}
        errors = {
            called: held_out_error(seeded(model, 0), X[:n], links[:n])
            for called, model in models.items()
        }
        called = min(errors, key=errors.get)
        model = models[called] if name == "basic" else TwoStages(models[called])
        began = time.process_time()
        fits = [seeded(model, seed).fit(X[:n], links[:n]) for seed in range(3)]
        seconds = (time.process_time() - began) / 3.0
        scores = [_error(model, X[n:], links[n:end]) for model in fits]
        results[name] = {
            "score": np.mean(scores),
            "seeds": scores,
            "chosen": called,
            "seconds": seconds,
            "development": errors,
        }
    basic = results["basic"]
    published = f"basic matching {100 * basic['score']:.2f} ({basic['chosen']})"
    return results["stems"] | {"published": published, "basic": basic}


# Snakes: the model of bench_graphs.py.


def snakes(folder, limit):
    """Directed edges with the features of both ends; junction trees are too wide, hence the LP."""
    data = load_snakes(folder / "snakes")
    n = 40 if limit else None
    X, X_test = (snake_images(part, True) for part in (data.X_train[:n], data.X_test[:n]))
    graph = Grid(directions=True, edge_features=True, inference="lp")
    scores, began = [], time.process_time()
    for seed in range(1 if limit else 3):
        svm = BCFWSSVM(graph, C=0.05, fit_intercept=False, tol=1e-2, random_state=seed)
        scores.append(svm.fit(X, data.y_train[:n]).score(X_test, data.y_test[:n]))
    seconds = (time.process_time() - began) / len(scores)
    return {"score": np.mean(scores), "seeds": scores, "chosen": "C=0.05", "seconds": seconds}


# Taggers on the same attributes.


class CRFsuiteTagger(BaseEstimator):
    """CRFsuite on dicts of attributes: L-BFGS, or an averaged perceptron."""

    def __init__(self, algorithm="lbfgs", c2=1.0):
        self.algorithm = algorithm
        self.c2 = c2

    def fit(self, X, y):
        """Train on a file in a folder of its own."""
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm=self.algorithm, verbose=False)
        if self.algorithm == "lbfgs":
            trainer.set("c2", self.c2)
        for own, labels in zip(X, y, strict=True):
            trainer.append(own, labels)
        self.folder_ = tempfile.TemporaryDirectory()
        path = str(Path(self.folder_.name) / "model")
        trainer.train(path)
        self.tagger_ = pycrfsuite.Tagger()
        self.tagger_.open(path)
        return self

    def predict(self, X):
        """Tags."""
        return [self.tagger_.tag(own) for own in X]


def taggers():
    """Rivals on attributes, by name, each with what is tuned.

    Wapiti is left out: with a column per feature an iteration takes 3 s, a fit five minutes.
    """
    return {
        "CRFsuite": {f"c2={c2:g}": CRFsuiteTagger(c2=c2) for c2 in (0.03, 0.1)},
        "averaged perceptron": {"100 passes": CRFsuiteTagger("ap")},
    }
