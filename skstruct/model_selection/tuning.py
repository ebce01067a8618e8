"""tune: choose C, and l1_ratio, by cross-validation along warm paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from numbers import Integral, Real
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils.parallel import Parallel, delayed

from .. import metrics
from ..core.arguments import check_choice, check_real, warn_user
from ..core.sklearn_private import safe_indexing
from ..core.typing import SamplesLike
from ..data.frames import Table, axes_of
from ..data.values import read_keys
from ..graphs.base import Graph
from ..metrics import SCORERS
from ..metrics.terms import RATIOS, has_chunk_tags, ratio_of_sums, ratio_terms

Rule = Literal["best", "one-se"]

# Values of C without `Cs`, in half decades: the first ones, and the limits of those added.
_FIRST, _LIMITS = range(-4, 3), (-10, 8)
# Tolerance of the fits that are compared, if the model's is not larger. At 5e-2 a choice changed on
# one of three samples of letters, at 3e-2 on none.
_TOL = 3e-2
# Confidence with which a value must be worse than the best to be left out. A path ends with so many
# of them in a row, or where so large a factor on C has changed nothing.
_LEVEL = 0.995
_N_WORSE, _UNCHANGED = 2, 3.0
# Nodes or chunks of which none may change for a larger C to count as the same model.
_MANY = 1000


class Measure:
    """A score of fitted models, and its terms per sample if it is a ratio of sums over samples."""

    def __init__(self, model, scoring, y):
        if scoring is None and has_chunk_tags(y):
            scoring = "chunk_f1"
        if isinstance(scoring, str) and scoring in SCORERS:
            scoring = SCORERS[scoring]
        self.name = next((name for name in RATIOS if SCORERS[name] is scoring), None)
        self.is_default = scoring is None
        if not (scoring is None or callable(scoring) or scoring in get_scorer_names()):
            raise ValueError(
                f"scoring must be a scorer or a name: of SCORERS {', '.join(SCORERS)}, or of "
                f"scikit-learn's; got {scoring!r}"
            )
        if getattr(metrics, getattr(scoring, "__name__", ""), None) is scoring is not None:
            raise ValueError(
                f"scoring={scoring.__name__} is a metric, not a scorer: use a name of SCORERS, or "
                "scikit-learn's make_scorer"
            )
        self.scorer = check_scoring(model, scoring)
        self._sklearn_name = scoring if isinstance(scoring, str) else None

    def score(self, model, X, y) -> float:
        """Return the scorer's value; an error in a scorer of scikit-learn names those that work."""
        try:
            return self.scorer(model, X, y)
        except (TypeError, ValueError) as error:
            if self._sklearn_name is None:
                raise
            raise ValueError(
                f"scoring={self._sklearn_name!r} of scikit-learn failed: {error}; for label "
                f"sequences use a name of SCORERS: {', '.join(SCORERS)}"
            ) from error

    def terms(self, model, y, predict: Callable) -> np.ndarray | None:
        """Return numerators and denominators of samples; None if the score is no such ratio."""
        if self.name is not None:
            return ratio_terms(self.name, y, predict())
        kind = type(getattr(model, "graph_", None))
        if not self.is_default or getattr(kind, "score", None) is not Graph.score:
            return None
        try:
            return ratio_terms("node_accuracy", y, predict())
        except (TypeError, ValueError):  # labels of another form, such as segments
            return None

    def __call__(self, model, X, y):
        """Return the score of a fitted model, and its terms or None."""
        terms = self.terms(model, y, lambda: model.predict(X))
        score = self.score(model, X, y) if terms is None else ratio_of_sums(terms)
        if not isinstance(score, Real) or np.isnan(score):
            raise ValueError(f"scoring must return a number, got {score!r}")
        return score, terms


def is_clearly_below(terms: np.ndarray, best: np.ndarray) -> bool:
    """Return whether a score is below another by a paired t test."""
    n, shares = terms.shape[1], []
    for numerator, denominator in (terms, best):
        if n < 2 or not denominator.any():
            return False
        # The influence of each sample on the ratio of the sums.
        score = numerator.sum() / denominator.sum()
        shares.append(score + (numerator - score * denominator) / denominator.mean())
    lead = shares[1] - shares[0]
    error = lead.std(ddof=1) / np.sqrt(n)
    return lead.mean() > max(stdtrit(n - 1, _LEVEL) * error, 1e-12)


def is_same(terms: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Return whether a larger C has changed nothing: of a separable problem, nothing will."""
    return terms is not None and np.array_equal(terms, other) and terms[1].sum() >= _MANY


class _Fold:
    """The data of a fold, after the steps before the estimator, and the scores in it."""

    def __init__(self, before, X, y, train, test):
        self.X, self.y = safe_indexing(X, train), safe_indexing(y, train)
        self.X_test, self.y_test = safe_indexing(X, test), safe_indexing(y, test)
        if before is not None:
            before = clone(before)
            self.X = before.fit_transform(self.X, self.y)
            self.X_test = before.transform(self.X_test)

    def path(self, model, ratio, Cs, measure, ends):
        """Return score and terms of each C, in increasing order, each fit from the one before.

        If the path `ends`, it does so where scores fall clearly or no longer change.
        """
        model = model._path_start() if getattr(model, "_starts_warm", False) else clone(model)
        if "tol" in model.get_params():
            model.set_params(tol=max(model.tol, _TOL))
        if ratio is not None:
            model.set_params(l1_ratio=ratio)
        found, best, before, since, n_worse = {}, None, None, None, 0
        for C in sorted(Cs):
            model.set_params(C=C).fit(self.X, self.y)
            found[C] = score, terms = measure(model, self.X_test, self.y_test)
            since = since if is_same(terms, before) else C
            before = terms
            if best is None or score > best[0]:
                best, n_worse = found[C], 0
            elif ends and terms is not None:
                n_worse = n_worse + 1 if is_clearly_below(terms, best[1]) else 0
                # Scores that have not risen yet may be the same because C is too small.
                is_late = _UNCHANGED * since <= C and score > next(iter(found.values()))[0]
                if is_late or n_worse == _N_WORSE:
                    break
        return found


def half_decade(k: int) -> float:
    """Return ten to the power of k / 2, in three digits."""
    return float(f"{10.0 ** (k / 2):.3g}")


def next_value(scores: dict[float, float]) -> float | None:
    """Return the half decade beyond the best C if that is at an end of those tried, or None.

    Equal scores at an end are no reason to go on, except where all are equal.
    """
    Cs = sorted(scores)
    best = max(Cs, key=scores.get)
    last = round(2.0 * np.log10(Cs[-1]))
    if best == Cs[-1] or len(set(scores.values())) == 1:
        return half_decade(last + 1) if last < _LIMITS[1] else None
    first = round(2.0 * np.log10(Cs[0]))
    if best == Cs[0] and scores[best] > scores[Cs[1]] and first > _LIMITS[0]:
        return half_decade(first - 1)
    return None


class _Search:
    """Scores of pairs (C, l1_ratio) in the folds."""

    def __init__(self, final, folds, measure, n_jobs):
        self.final, self.folds, self.measure, self.n_jobs = final, folds, measure, n_jobs
        self.scores = [{} for _ in folds]

    def run(self, folds, pairs, ends=False):
        """Fit and score pairs in some folds."""
        ratios = dict.fromkeys(ratio for _, ratio in pairs)
        tasks = [(k, ratio) for k in folds for ratio in ratios]
        # Threads: what warm starts need does not pass from process to process.
        paths = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(self.folds[k].path)(
                self.final, ratio, [C for C, own in pairs if own == ratio], self.measure, ends
            )
            for k, ratio in tasks
        )
        for (k, ratio), found in zip(tasks, paths, strict=True):
            self.scores[k] |= {(C, ratio): outcome for C, outcome in found.items()}

    def race(self, pairs):
        """Run pairs in all folds, without those that the first two folds show to be worse."""
        self.run([0], pairs, ends=True)
        folds = range(len(self.folds))
        for n, others in ((1, folds[1:2]), (2, folds[2:])):
            self.run(others, self._contenders(n))

    def _contenders(self, n):
        """Return pairs that the first n folds show neither worse nor equal to a smaller C."""
        scores = self.scores[:n]
        pairs = list(scores[-1])
        best = max(pairs, key=lambda pair: sum(own[pair][0] for own in scores))
        terms = {pair: [own[pair][1] for own in scores] for pair in pairs}
        if any(part is None for own in terms.values() for part in own):
            return pairs
        joined = {pair: np.concatenate(own, axis=1) for pair, own in terms.items()}
        kept, smaller = [], {}
        for pair in pairs:  # in each ratio's, C increases
            own, before = joined[pair], smaller.get(pair[1])
            smaller[pair[1]] = own
            if not (is_same(own, before) or is_clearly_below(own, joined[best])):
                kept.append(pair)
        return kept

    def table(self, ratios):
        """Return pairs as a grid search orders them, and their scores (n_pairs, n_folds)."""
        pairs = sorted(
            {pair for own in self.scores for pair in own},
            key=lambda pair: (pair[0], ratios.index(pair[1])),
        )
        missing = (np.nan, None)
        return pairs, np.array(
            [[own.get(pair, missing)[0] for own in self.scores] for pair in pairs]
        )


class TuneResult(Table):
    """Result of :func:`tune`.

    Read more in the :ref:`User Guide <tuning>`.

    Parameters
    ----------
    best_estimator : estimator or Pipeline
        The fitted model.
    best_index : int
        The row of its parameters in `cv_results`.
    cv_results : dict of ndarray
        Parameters and scores, as below.

    Attributes
    ----------
    best_estimator_ : estimator or Pipeline
        The model with the chosen parameters, fitted on all samples.
    best_params_ : dict
        The chosen parameters, by the names that ``set_params`` of the model takes.
    best_score_ : float
        Mean score of these over the folds.
    best_index_ : int
        Their row in `cv_results_`.
    cv_results_ : dict of ndarray
        As in GridSearchCV, one row per value: ``params``, ``param_...``, ``split0_test_score`` and
        so on (NaN in folds in which a value was left out), ``mean_test_score`` and
        ``std_test_score`` over the folds in which it was not, their number ``n_splits``, and
        ``rank_test_score``, in which values of all folds come first.
    table : DataFrame or structured ndarray
        Parameters, means, standard deviations and numbers of folds.
    ax_, figure_ : matplotlib Axes and Figure
        Those of the plot.

    See Also
    --------
    skstruct.model_selection.tune : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.model_selection import tune
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0), n_samples=30)
    >>> result = tune(SAGCRF(random_state=0), X, y, cv=3)
    >>> result.best_estimator_.C == result.best_params_["C"]
    True
    """

    def __init__(self, best_estimator: BaseEstimator, best_index: int, cv_results: dict) -> None:
        self.best_estimator_ = best_estimator
        self.best_index_ = best_index
        self.cv_results_ = cv_results
        self.best_params_ = cv_results["params"][best_index]
        self.best_score_ = float(cv_results["mean_test_score"][best_index])
        names = [name for name in cv_results if name != "params" and not name.startswith("split")]
        self._columns = {name: cv_results[name] for name in names}
        self._title = f"TuneResult: {self.best_params_}, mean score {self.best_score_:.4f}"

    def plot(self, ax: Any = None) -> Self:
        """Draw mean scores against C, with their standard errors, and mark the choice.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        TuneResult
            The result itself.
        """
        ax, results = axes_of(ax), self.cv_results_
        names = [name for name in results if name.startswith("param_")]
        C, means = np.asarray(results[names[0]]), results["mean_test_score"]
        ratios = results[names[1]] if len(names) > 1 else np.zeros(C.size)
        for value in dict.fromkeys(ratios):
            own = ratios == value
            label = f"l1_ratio={value:g}" if len(names) > 1 else None
            errors = results["std_test_score"][own]
            errors = errors / np.sqrt(np.maximum(results["n_splits"][own] - 1, 1))
            ax.errorbar(C[own], means[own], yerr=errors, marker="o", capsize=3, label=label)
        star = {"markersize": 12, "zorder": 5, "label": "choice"}
        ax.plot(C[self.best_index_], self.best_score_, "k*", **star)
        ax.set(xscale="log", xlabel="C", ylabel="mean score")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def tune(
    model: BaseEstimator,
    X: SamplesLike,
    y: SamplesLike,
    *,
    groups: ArrayLike | None = None,
    cv: Any = None,
    scoring: str | Callable | None = None,
    Cs: Iterable[float] | None = None,
    l1_ratios: Iterable[float] | None = None,
    rule: Rule = "best",
    n_jobs: int | None = None,
) -> TuneResult:
    """Choose the regularisation of a model by cross-validation, in less time than a grid search.

    In each fold the steps before the estimator are fitted once, and the fits for increasing C start
    from each other, with a tolerance of 3e-2 (or the model's, if that is larger). Values of C that
    the first fold, or the first two, show to be worse than the best are left out of the other
    folds. A SequenceVectorizer that is the first step reads each sample once. Read more in the
    :ref:`User Guide <tuning>`.

    Parameters
    ----------
    model : estimator or Pipeline
        With a parameter `C`; of a pipeline, the last step. It is left as it is.
    X, y : list, object array, Series, RaggedArray or table
        Samples and their labels, as the model takes them.
    groups : array-like of shape (n_samples,), default=None
        Groups of the samples, such as documents, which are not split.
    cv : int, splitter or iterable, default=None
        As in GridSearchCV; with `groups`, a number (None is 5) of folds is by GroupKFold.
    scoring : str or callable, default=None
        A key of :data:`~skstruct.metrics.SCORERS`, another name of scikit-learn, or a scorer, which
        is called with the last step and the transformed X. None is "chunk_f1" if labels are tags
        such as B-NP, else the model's ``score``.
    Cs : array-like of float, default=None
        Values of C. None begins with seven, 0.01 to 10 by factors of ``sqrt(10)``, and adds further
        ones by the same factor while the best is at an end (or all are equal), from 1e-5 to 1e4.
    l1_ratios : array-like of float, default=None
        Values of `l1_ratio`; None keeps the model's.
    rule : {"best", "one-se"}, default="best"
        "best" takes the highest mean score, of equal ones the smallest C. "one-se" takes the
        smallest C whose mean is within one standard error of it: std over folds divided by the root
        of their number. It tries every value in each fold.
    n_jobs : int, default=None
        Folds and values of `l1_ratio` in parallel, by threads. The choice is the same for any
        number.

    Returns
    -------
    TuneResult
        The fitted model, ``best_estimator_``, equal to ``clone(model).set_params(**best_params_)``
        fitted on all samples; the choice and the scores.

    Raises
    ------
    TypeError
        If the model, or the last step of the pipeline, has no `C`.
    ValueError
        If X and y differ in length, values are not valid (the model may have no `l1_ratio`), or a
        score is NaN.

    Warns
    -----
    UserWarning
        If the best C is at an end of `Cs`, or at an end of what may be added.

    See Also
    --------
    skstruct.model_selection.compare : Scores of several models, with intervals.
    skstruct.estimators.crf_path : Fits for a sequence of C.

    Notes
    -----
    A value is left out if its score, over the samples of the first fold or of the first two, is
    below that of the best value there with a confidence of 99.5 % in a paired t test. So is a
    value with the same counts as the next smaller one in every sample, of 1,000 nodes or chunks at
    least. In the first fold a path ends after two values in a row that are worse, or, once scores
    have risen, where counts have not changed over a factor of 3 in C.
    Scores for which this is possible are the accuracies and chunk scores of ``SCORERS`` and
    ``score`` if it is the accuracy of nodes; with others every value is tried in each fold. There
    are no weights of samples or nodes here: with weights use GridSearchCV.

    Examples
    --------
    >>> from skstruct import SAGCRF
    >>> from skstruct.datasets import make_annotated_sentences
    >>> from skstruct.model_selection import tune
    >>> from skstruct.pipeline import make_pipeline
    >>> from skstruct.preprocessing import TemplateVectorizer
    >>> train = make_annotated_sentences(n_train=60, random_state=0).train
    >>> model = make_pipeline(TemplateVectorizer("U0:%x[0,0]"), SAGCRF(random_state=0))
    >>> result = tune(model, train.word, train.entity, cv=3)
    >>> list(result.best_params_), bool(result.best_score_ > 0.5)
    (['sagcrf__C'], True)
    """
    check_choice("rule", rule, get_args(Rule))
    before, final, prefix = _split(model)
    if y is None:
        raise ValueError("y must hold the labels of the samples in X, got None")
    check_consistent_length(X, y)
    if groups is not None:
        groups = read_keys(groups, "groups", "sample", "give each sample the name of its group")
    ratios = [None] if l1_ratios is None else _read_values(l1_ratios, "l1_ratios")
    values = map(half_decade, _FIRST) if Cs is None else _read_values(Cs, "Cs", positive=True)
    if groups is not None and (cv is None or isinstance(cv, Integral)):
        cv = GroupKFold(5 if cv is None else cv)
    splits = list(check_cv(cv, y, classifier=is_classifier(model)).split(X, y, groups))
    measure = Measure(final, scoring, y)
    before, read = _read_once(before, X)
    folds = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_Fold)(before, read, y, train, test) for train, test in splits
    )
    search = _Search(final, folds, measure, n_jobs)
    pairs = [(C, ratio) for C in values for ratio in ratios]
    if rule == "best":
        search.race(pairs)
    else:
        search.run(range(len(folds)), pairs)
    while Cs is None and (further := _beyond(search, ratios)) is not None:
        search.run(range(len(folds)), [further])
    chosen = _choose(search, ratios, rule)
    results = _results(*search.table(ratios), prefix)
    tried = results[f"param_{prefix}C"]
    C = tried[chosen]
    if tried.size > 1 and C in (tried.min(), tried.max()):
        end = "smallest" if tried.min() == C else "largest"
        hint = "pass Cs with values beyond" if Cs is None else "Cs=None adds values where needed"
        warn_user(f"tune: the chosen C, {C:g}, is the {end} that was tried; {hint}")
    best = clone(model).set_params(**results["params"][chosen]).fit(X, y)
    return TuneResult(best, chosen, results)


def _split(model):
    """Return the steps before the estimator, or None, the estimator, and its prefix in names."""
    if isinstance(model, Pipeline):
        name, final = model.steps[-1]
        before, prefix = (model[:-1] if len(model) > 1 else None), f"{name}__"
    else:
        before, final, prefix = None, model, ""
    if not isinstance(final, BaseEstimator) or "C" not in final.get_params():
        what = "the last step of the pipeline" if prefix else "model"
        raise TypeError(f"{what} must be an estimator with a parameter C, got {final!r}")
    return before, final, prefix


def _read_once(before, X):
    """Return steps and samples; of a first step that reads samples once, what it makes of them."""
    first = before[0] if isinstance(before, Pipeline) else before
    made = first._read_once(X) if hasattr(first, "_read_once") else None
    if made is None or first is before:
        return made or (before, X)
    steps = copy(before)
    steps.steps = [(before.steps[0][0], made[0]), *before.steps[1:]]
    return steps, made[1]


def _read_values(values, name, **limits):
    if isinstance(values, str) or not np.iterable(values):
        raise TypeError(f"{name} must be a sequence of numbers, got {values!r}")
    values = list(dict.fromkeys(check_real(f"each of {name}", value, **limits) for value in values))
    if not values:
        raise ValueError(f"{name} must have one number or more")
    return values


def _choose(search, ratios, rule):
    """Return the row of the table that a rule chooses, among those with scores in all folds."""
    pairs, scores = search.table(ratios)
    means = scores.mean(axis=1)
    best = int(np.nanargmax(means))
    if rule == "best":
        return best
    n = scores.shape[1]
    error = scores[best].std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    close = np.flatnonzero(means >= means[best] - error)
    return int(max(close, key=lambda i: (-pairs[i][0], means[i])))


def _beyond(search, ratios):
    """Return the pair to try next if the best one is at an end of the values of C, or None."""
    pairs, scores = search.table(ratios)
    _, ratio = pairs[_choose(search, ratios, "best")]
    means = np.nan_to_num(scores.mean(axis=1), nan=-np.inf)  # of those in all folds
    further = next_value(
        {C: mean for (C, own), mean in zip(pairs, means, strict=True) if own == ratio}
    )
    return None if further is None else (further, ratio)


def _results(pairs, scores, prefix):
    """Return scores in the form of ``cv_results_``."""
    names = [f"{prefix}C", f"{prefix}l1_ratio"][: 1 if pairs[0][1] is None else 2]
    params = [dict(zip(names, pair, strict=False)) for pair in pairs]
    is_full = ~np.isnan(scores).any(axis=1)
    means = np.nanmean(scores, axis=1)
    return {
        "params": params,
        **{f"param_{name}": np.array([own[name] for own in params]) for name in names},
        **{f"split{k}_test_score": column for k, column in enumerate(scores.T)},
        "mean_test_score": means,
        "std_test_score": np.nanstd(scores, axis=1),
        "n_splits": (~np.isnan(scores)).sum(axis=1),
        "rank_test_score": rankdata(np.where(is_full, -means, np.inf), method="min").astype(int),
    }
