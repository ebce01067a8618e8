"""compare: scores of several models on the same samples, by the paired bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state

from ..core.arguments import check_integer, check_real, warn_user
from ..core.sklearn_private import num_samples, safe_indexing
from ..core.typing import RandomStateLike, SamplesLike
from ..core.wrappers import innermost
from ..data.frames import Table
from ..metrics import SCORERS
from ..metrics.terms import ratio_of_sums
from .tuning import Measure

# Counts drawn at once.
_BLOCK = 1 << 22
# Samples with which 95 % intervals cover about 93 %; with 5 it is 84 %.
_FEW = 10


class Comparison(Table):
    """Result of :func:`compare`.

    Read more in the :ref:`User Guide <comparing>`.

    Parameters
    ----------
    scores : dict of str to float
        Score of each model on all samples.
    resampled : ndarray of shape (n_resamples, n_models)
        Scores of the models on the resampled sets.
    confidence : float
        Coverage of the intervals.

    Attributes
    ----------
    scores_ : dict of str to float
        Score of each model on all samples.
    table : DataFrame or structured ndarray
        A row per model, then a row per pair of models, ``"a - b"``: ``score`` (of a pair the
        difference), ends of the interval ``low`` and ``high``, and for pairs ``p_value``.
    bootstrap_scores_ : ndarray of shape (n_resamples, n_models)
        Scores of the models on the resampled sets.

    See Also
    --------
    skstruct.model_selection.compare : Makes it.

    Examples
    --------
    >>> from skstruct.model_selection import compare
    >>> y = [["a", "b"], ["b"], ["a"]] * 20
    >>> predictions = {"right": y, "constant": [["a"] * len(labels) for labels in y]}
    >>> comparison = compare(predictions, None, y, random_state=0)
    >>> comparison.scores_
    {'right': 1.0, 'constant': 0.5}
    """

    def __init__(self, scores: Mapping, resampled: np.ndarray, confidence: float) -> None:
        self.scores_ = dict(scores)
        self.bootstrap_scores_ = resampled
        names, point = list(scores), list(scores.values())
        pairs = list(combinations(range(len(names)), 2))
        self._columns = {
            "model": [*map(str, names)] + [f"{names[a]} - {names[b]}" for a, b in pairs],
            "score": point + [point[a] - point[b] for a, b in pairs],
        }
        drawn = [resampled, *(resampled[:, [a]] - resampled[:, [b]] for a, b in pairs)]
        drawn = np.concatenate(drawn, axis=1)
        tail = (1.0 - confidence) / 2.0
        self._columns["low"], self._columns["high"] = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
        differences, n = drawn[:, len(names) :], len(drawn)
        # Zeros, and the NaN of scores that a resample leaves undefined, count on both sides.
        sides = [(~(differences > 0.0)).sum(axis=0), (~(differences < 0.0)).sum(axis=0)]
        p = np.minimum(2.0 * (np.minimum(*sides) + 1) / (n + 1), 1.0)
        self._columns["p_value"] = [np.nan] * len(names) + p.tolist()
        self._title = f"Comparison: {confidence:.0%} intervals, {n} paired bootstrap resamples"


def compare(
    models: Mapping[str, Any],
    X: SamplesLike | None,
    y: SamplesLike,
    *,
    scoring: str | Callable | None = None,
    n_resamples: int = 2000,
    confidence: float = 0.95,
    random_state: RandomStateLike = None,
) -> Comparison:
    """Compare models on test samples: scores and differences, with intervals and p-values.

    The paired bootstrap draws whole samples with replacement, the same for all models. It measures
    the chance in the choice of test samples, not that of training. Read more in the :ref:`User
    Guide <comparing>`.

    Parameters
    ----------
    models : dict of str to fitted model or predictions
        Predictions are what ``predict`` returns for X: label sequences, or labels of a table. Pass
        them for models that take different X, such as words with and without parts of speech.
    X, y : list, object array, RaggedArray or table
        Test samples and their labels. X may be None if there are predictions only.
    scoring : str or callable, default=None
        A key of :data:`~skstruct.metrics.SCORERS`, another name of scikit-learn, or a scorer. None
        is "chunk_f1" if labels are tags such as B-NP, else the models' ``score`` (for predictions
        the accuracy of nodes).
    n_resamples : int, default=2000
        Number of resampled test sets.
    confidence : float, default=0.95
        Coverage of the intervals, between quantiles of the resampled scores.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible results.

    Returns
    -------
    Comparison
        With the attribute ``table``.

    Raises
    ------
    ValueError
        If there is no model, or predictions do not fit to y.
    TypeError
        If `models` is not a dict of models and predictions.

    Warns
    -----
    UserWarning
        If there are fewer than 10 samples: intervals and p-values are too small.

    See Also
    --------
    skstruct.model_selection.tune : Choose C of a model.
    skstruct.metrics.chunk_classification_report : Scores of chunks by type, as text.

    Notes
    -----
    The p-value is two-sided: twice the fraction of resampled differences on the less frequent side
    of 0 (zeros and NaN count on both sides, as does one resample added). Accuracies and chunk
    scores of ``SCORERS`` are resampled as sums of counts; other scorers are called on each
    resampled set, which takes the time of `n_resamples` predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.model_selection import compare
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0), n_samples=40)
    >>> models = {f"C={C}": SAGCRF(C=C).fit(X[:20], y[:20]) for C in (0.01, 1.0)}
    >>> comparison = compare(models, X[20:], y[20:], random_state=0)
    >>> list(comparison.table["model"])
    ['C=0.01', 'C=1.0', 'C=0.01 - C=1.0']
    """
    if not isinstance(models, Mapping):
        raise TypeError(f"models must be a dict of models by name, got a {type(models).__name__}")
    if not models:
        raise ValueError("models must have one model or more")
    check_integer("n_resamples", n_resamples)
    if not 0.0 < check_real("confidence", confidence, positive=True) < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    if y is None:
        raise ValueError("y must hold the labels of the samples in X, got None")
    n, rng = num_samples(y), check_random_state(random_state)
    counts = _Counts(n, n_resamples, rng.randint(2**31 - 1))
    scores, drawn = {}, []
    for name, model in models.items():
        score, resampled = _scores(name, model, X, y, scoring, counts)
        scores[name] = score
        drawn.append(resampled)
    if n < _FEW:
        warn_user(
            f"compare: p-values and intervals of {n} samples, fewer than {_FEW}, are too small"
        )
    return Comparison(scores, np.stack(drawn, axis=1), float(confidence))


class _Counts:
    """How often each sample is drawn in each resample: the same for all models."""

    def __init__(self, n, n_resamples, seed):
        self.n, self.n_resamples, self.seed = n, n_resamples, seed

    def blocks(self):
        """Arrays of counts, (resamples of a block, n)."""
        rng, size = np.random.default_rng(self.seed), max(_BLOCK // max(self.n, 1), 1)
        for first in range(0, self.n_resamples, size):
            size = min(size, self.n_resamples - first)
            drawn = rng.integers(self.n, size=(size, self.n))
            drawn += self.n * np.arange(size)[:, None]
            yield np.bincount(drawn.ravel(), minlength=size * self.n).reshape(size, self.n)

    def of_terms(self, terms):
        """Ratios of the sums of terms over the samples of each resample."""
        above, below = np.concatenate([block @ terms.T for block in self.blocks()]).T
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)

    def of_scorer(self, score):
        """Values of a function of the positions of the samples of each resample."""
        rows = (row for block in self.blocks() for row in block)
        return np.array([score(np.repeat(np.arange(self.n), row)) for row in rows])


class _Given(BaseEstimator):
    """Stands for a model where its predictions are given: X is their positions."""

    def __init__(self, predictions=None):
        self.predictions = predictions

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return safe_indexing(self.predictions, X)

    def score(self, X, y):
        return SCORERS["node_accuracy"](self, X, y)


def _scores(name, model, X, y, scoring, counts):
    """The score of a model, and those of the resampled sets."""
    if X is not None and hasattr(model, "predict") and not hasattr(model, "fit"):
        model = model.predict(X)  # such as a tagger of skstruct.lite
    is_given = isinstance(model, type) or not hasattr(model, "predict")
    if is_given:
        if isinstance(model, (str, type, BaseEstimator)) or not hasattr(model, "__len__"):
            raise TypeError(f"models: {name!r} must be a model or predictions, got {model!r:.80}")
        if len(model) != counts.n:
            raise ValueError(f"models: {name!r} has {len(model)} predictions, y {counts.n} samples")
        model, X = _Given(model), np.arange(counts.n)
    elif X is None:
        raise ValueError(f"X must hold the samples that {name!r} predicts, got None")
    check_consistent_length(X, y)
    measure = Measure(model, scoring, y)
    if is_given and measure.is_default:
        measure.name = "node_accuracy"
    terms = measure.terms(innermost(model, own=False)[1], y, lambda: model.predict(X))
    if terms is not None:
        return ratio_of_sums(terms), counts.of_terms(terms)
    if not is_given and any(measure.scorer is scorer for scorer in SCORERS.values()):
        model, X = _Given(model.predict(X)), np.arange(counts.n)

    def score(rows):
        return measure.score(model, safe_indexing(X, rows), safe_indexing(y, rows))

    return float(measure.score(model, X, y)), counts.of_scorer(score)
