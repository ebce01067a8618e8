"""tune: choices, scores and errors beside those of GridSearchCV."""

import warnings

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.svm import SVC

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, MultiClass, MultiLabel, SemiChain, SubgradientSSVM
from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import SCORERS, chunk_f1_score
from skstruct.model_selection import TuneResult, tune, tuning
from skstruct.model_selection.tuning import is_clearly_below
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer
from skstruct.testing import random_sequences

# Few values, few samples: the best one is at an end more often than not.
pytestmark = pytest.mark.filterwarnings("ignore:tune. the chosen C")
CS = [0.003, 0.03, 0.3, 3.0, 30.0]


def _chain(seed):
    X, y = random_sequences(np.random.default_rng(seed), n_samples=45, n_labels=4)
    return SAGCRF("chain", random_state=0), X, y


def _table(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 6))
    y = (3.0 * X[:, :3] + rng.gumbel(size=(120, 3))).argmax(axis=1)
    return BCFWSSVM("multiclass", random_state=0), X, y


def _label_sets(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    Y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3)) > 0).astype(int)
    return SAGCRF(MultiLabel("full"), random_state=0), X, Y


def _pipeline(seed, n_samples=45):
    train = make_annotated_sentences(n_train=n_samples, random_state=seed).train
    features = TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,0]")
    return make_pipeline(features, SAGCRF(random_state=0)), train.word, train.entity


def _grid_search(model, X, y, Cs, **options):
    name = "C" if not hasattr(model, "named_steps") else f"{model.steps[-1][0]}__C"
    return GridSearchCV(model, {name: Cs}, **options)


@pytest.fixture
def exact(monkeypatch):
    """Fits of a tolerance at which all ways lead to one model."""
    monkeypatch.setattr(tuning, "_TOL", 0.0)


@pytest.mark.thinned
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [_chain, _table, _label_sets, _pipeline])
def test_choice_is_that_of_grid_search(make, exact):
    for seed in range(2):
        model, X, y = make(seed)
        last = model[-1] if hasattr(model, "named_steps") else model
        last.set_params(tol=1e-9, max_iter=9000)
        scoring = SCORERS["chunk_f1"] if make is _pipeline else None
        Cs = CS[:3] if make is _table else CS  # large ones take too many passes
        search = _grid_search(model, X, y, Cs, cv=3, scoring=scoring).fit(X, y)
        found = tune(model, X, y, cv=3, Cs=Cs)
        assert found.best_params_ == search.best_params_
        assert found.best_score_ == pytest.approx(search.best_score_)
        params = search.cv_results_["params"]
        rows = [params.index(own) for own in found.cv_results_["params"]]
        for k in range(3):
            ours = found.cv_results_[f"split{k}_test_score"]
            theirs = search.cv_results_[f"split{k}_test_score"][rows]
            assert ours[~np.isnan(ours)] == pytest.approx(theirs[~np.isnan(ours)])


@pytest.mark.parametrize("make", [_chain, _table, _label_sets, _pipeline])
def test_choice_at_its_own_tolerance_is_within_a_standard_error(make):
    model, X, y = make(5)
    Cs = CS[:3] if make is _table else CS
    scoring = SCORERS["chunk_f1"] if make is _pipeline else None
    search = _grid_search(model, X, y, Cs, cv=4, scoring=scoring).fit(X, y)
    results, found = search.cv_results_, tune(model, X, y, cv=4, Cs=Cs)
    mean = results["mean_test_score"][results["params"].index(found.best_params_)]
    error = results["std_test_score"][search.best_index_] / np.sqrt(3)
    assert mean >= search.best_score_ - error


def test_pairs_of_c_and_l1_ratio(exact):
    model, X, y = _chain(1)
    model.set_params(tol=1e-9, max_iter=9000)
    grid = {"C": [0.1, 1.0, 10.0], "l1_ratio": [0.0, 0.5]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    found = tune(model, X, y, cv=3, Cs=grid["C"], l1_ratios=grid["l1_ratio"])
    assert found.best_params_ == search.best_params_
    assert list(found.cv_results_["params"]) == list(search.cv_results_["params"])


def test_result_is_the_model_fitted_on_all_samples():
    model, X, y = _pipeline(0)
    found = tune(model, X, y, cv=3)
    again = clone(model).set_params(**found.best_params_).fit(X, y)
    np.testing.assert_array_equal(found.best_estimator_[-1].coef_, again[-1].coef_)
    assert not hasattr(model[-1], "coef_")
    assert not found.best_estimator_[-1].warm_start


def test_groups_make_the_folds(exact):
    model, X, y = _chain(2)
    model.set_params(tol=1e-9, max_iter=9000)
    groups = np.random.default_rng(0).integers(5, size=len(X)).astype(str)
    search = GridSearchCV(model, {"C": [0.1, 1.0, 10.0]}, cv=GroupKFold(3))
    search.fit(X, y, groups=groups)
    for cv in (GroupKFold(3), 3):
        found = tune(model, X, y, cv=cv, groups=groups, Cs=[0.1, 1.0, 10.0])
        assert found.best_params_ == search.best_params_
        assert found.best_score_ == pytest.approx(search.best_score_)


def test_threads_change_nothing():
    model, X, y = _chain(3)
    one, two = (tune(model, X, y, cv=3, l1_ratios=[0.0, 0.5], n_jobs=n) for n in (None, 2))
    for name, values in one.cv_results_.items():
        np.testing.assert_array_equal(values, two.cv_results_[name])


def _distance_from(C):
    """A score that is highest at one C."""
    return lambda model, X, y: -abs(np.log10(model.C / C))


@pytest.mark.parametrize(("C", "lowest", "highest"), [(100, 0.01, 316), (0.001, 0.000316, 10)])
def test_values_are_added_while_the_best_is_at_an_end(C, lowest, highest):
    model, X, y = _chain(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tune(model, X, y, cv=3, scoring=_distance_from(C))
    tried = found.cv_results_["param_C"]
    assert found.best_params_ == {"C": C}
    assert (tried[0], tried[-1]) == (lowest, highest)
    assert found.cv_results_["n_splits"].tolist() == [3] * len(tried)


def test_later_folds_can_add_values():
    """The first fold has its best C inside the range, the mean at its end."""
    model, X, y = _chain(0)
    sizes = [len(test) for _, test in KFold(4).split(X)]

    def score(model, X, y):
        return -abs(np.log10(model.C)) if len(X) == sizes[0] else -2 * abs(np.log10(model.C / 100))

    assert sizes[0] != sizes[1]
    found = tune(model, X, y, cv=4, scoring=score)
    assert found.best_params_ == {"C": 100.0}
    assert found.cv_results_["n_splits"].tolist() == [4] * len(found.cv_results_["params"])


def test_equal_scores_at_an_end_add_nothing():
    assert tuning.next_value({0.1: 0.5, 1.0: 0.9, 10.0: 0.9}) is None
    assert tuning.next_value({0.1: 0.9, 1.0: 0.9, 10.0: 0.5}) is None
    assert tuning.next_value({0.1: 0.5, 1.0: 0.5, 10.0: 0.5}) == 31.6
    assert tuning.next_value({0.1: 0.5, 1.0: 0.8, 10.0: 0.9}) == 31.6
    assert tuning.next_value({0.1: 0.9, 1.0: 0.8, 10.0: 0.5}) == 0.0316
    assert tuning.next_value({1e3: 0.8, 1e4: 0.9}) is None


def test_range_has_limits():
    model, X, y = _table(0)
    with pytest.warns(UserWarning, match="the smallest that was tried; pass Cs with values beyond"):
        found = tune(model, X, y, cv=2, scoring=_distance_from(1e-9))
    assert found.best_params_ == {"C": 1e-5}


def test_choice_at_an_end_of_given_values_is_reported():
    model, X, y = _chain(0)
    with pytest.warns(UserWarning, match="10, is the largest that was tried; Cs=None adds"):
        tune(model, X, y, cv=2, Cs=[1, 10], scoring=_distance_from(100))


def test_one_standard_error_rule():
    model, X, y = _chain(4)
    found = tune(model, X, y, cv=5, Cs=CS, rule="one-se")
    results = found.cv_results_
    assert results["n_splits"].tolist() == [5] * len(CS)
    scores = np.array([results[f"split{k}_test_score"] for k in range(5)])
    best = scores.mean(axis=0).argmax()
    limit = scores.mean(axis=0)[best] - scores[:, best].std(ddof=1) / np.sqrt(5)
    expected = min(C for C, mean in zip(CS, scores.mean(axis=0), strict=True) if mean >= limit)
    assert found.best_params_ == {"C": expected}
    assert expected < CS[best]


def test_clearly_worse_values_are_left_out():
    model, X, y = _pipeline(0, n_samples=200)
    found = tune(model, X, y, cv=4, Cs=[1e-5, 1e-4, 0.3, 1.0, 3.0])
    results = found.cv_results_
    assert results["n_splits"][:2].tolist() == [1, 1]
    assert np.isnan(results["split1_test_score"][0])
    is_full = results["n_splits"] == 4
    assert results["rank_test_score"][~is_full].min() > results["rank_test_score"][is_full].max()
    assert found.best_params_["sagcrf__C"] >= 0.3
    spared = tune(model, X, y, cv=4, Cs=[1e-5, 1e-4, 0.3, 1.0], rule="one-se")
    assert spared.cv_results_["n_splits"].tolist() == [4] * 4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_values_that_change_nothing_are_left_out(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    X = X[np.abs(X[:, 0]) > 0.5]
    y = (X[:, 0] > 0).astype(int)
    svm, Cs = BCFWSSVM("multiclass", random_state=0, max_iter=20), [1e-4, 1.0, 10.0, 100.0, 1e3]
    assert tune(svm, X, y, cv=2, Cs=Cs).cv_results_["n_splits"].tolist()[-1] == 2  # too few
    monkeypatch.setattr(tuning, "_MANY", 100)
    found = tune(svm, X, y, cv=2, Cs=Cs)
    assert found.cv_results_["n_splits"].tolist()[2:] == [1] * (
        len(found.cv_results_["params"]) - 2
    )
    assert found.best_params_ == tune(svm, X, y, cv=2, Cs=Cs[:2]).best_params_


def test_a_path_ends_where_a_larger_factor_changes_nothing(monkeypatch):
    monkeypatch.setattr(tuning, "_MANY", 10)
    X, y = np.zeros((30, 1)), np.tile([0, 1], 15)
    right = {0.1: 10, 1.0: 12, 1.5: 12, 2.0: 12, 3.5: 12, 9.0: 15}

    def measure(model, X, y):
        terms = np.array([np.arange(15) < right[model.C], np.ones(15)], dtype=float)
        return terms[0].mean(), terms

    fold = tuning._Fold(None, X, y, np.arange(15), np.arange(15, 30))
    model = LogisticRegression()
    assert list(fold.path(model, None, right, measure, ends=True)) == [0.1, 1.0, 1.5, 2.0, 3.5]
    assert list(fold.path(model, None, right, measure, ends=False)) == list(right)


def test_values_that_are_too_small_do_not_end_a_path(monkeypatch):
    monkeypatch.setattr(tuning, "_MANY", 10)
    model, X, y = _pipeline(0, n_samples=100)
    found = tune(model, X, y, cv=3, Cs=[1e-7, 1e-6, 1e-5, 1e-4, 1.0])
    assert found.best_params_ == {"sagcrf__C": 1.0}
    assert found.best_score_ > 0.5


def test_left_out_by_a_paired_t_test():
    rng = np.random.default_rng(0)
    for shift in np.linspace(0.0, 0.2, 21):
        worse = rng.random(50) < 0.6
        best = np.where(rng.random(50) < 0.4 + shift, True, worse)
        p = ttest_rel(1.0 * best, 1.0 * worse, alternative="greater").pvalue
        one, other = (np.array([own, np.ones(50)], dtype=float) for own in (worse, best))
        assert is_clearly_below(one, other) == (p < 1.0 - tuning._LEVEL)
        assert not is_clearly_below(other, one)


class _Counted(TransformerMixin, BaseEstimator):
    fits = 0

    def fit(self, X, y=None):
        type(self).fits += 1
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


@pytest.mark.parametrize("rule", ["best", "one-se"])
def test_one_split_may_be_a_development_set(rule, exact):
    model, X, y = _chain(0)
    model.set_params(tol=1e-9, max_iter=9000)
    split = [(np.arange(30), np.arange(30, 45))]
    search = _grid_search(model, X, y, CS, cv=split).fit(X, y)
    assert tune(model, X, y, cv=split, Cs=CS, rule=rule).best_params_ == search.best_params_


def test_steps_before_the_estimator_are_fitted_once_per_fold():
    model, X, y = _chain(0)
    _Counted.fits = 0
    tune(make_pipeline(_Counted(), model), X, y, cv=3)
    assert _Counted.fits == 4


@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("nested", [False, True])
def test_vectorizer_reads_samples_once_and_learns_per_fold(min_count, nested):
    calls = []

    def features(words):
        calls.append(words)
        return [{"word": word, "length": len(word) / 9} for word in words]

    train = make_annotated_sentences(n_train=30, random_state=0).train
    words = [list(sentence) for sentence in train.word]
    vectorizer = SequenceVectorizer(features=features, min_count=min_count)
    before, read = tuning._read_once(make_pipeline(vectorizer) if nested else vectorizer, words)
    assert len(calls) == len(words)
    for rows, others in KFold(3).split(words):
        ours = clone(before).fit(read[rows])
        theirs = clone(vectorizer).fit([words[i] for i in rows])
        for chosen in (rows, others):
            X, expected = ours.transform(read[chosen]), theirs.transform([words[i] for i in chosen])
            np.testing.assert_array_equal(X.flat.toarray(), expected.flat.toarray())
            assert X.feature_names.strings() == expected.feature_names.strings()
    calls.clear()
    model = make_pipeline(vectorizer, SAGCRF(random_state=0))
    tune(model, words, train.entity, cv=3, Cs=[0.1, 1.0])
    assert len(calls) == 2 * len(words)  # the last time for the model of all samples
    assert model[0] is vectorizer


@pytest.mark.parametrize(
    "model",
    [
        GDMMSSVM("multiclass", random_state=0),
        SubgradientSSVM(MultiClass(), random_state=0),
        SAGCRF("multiclass", solver="oeg", random_state=0),
        LogisticRegression(),
        SVC(kernel="linear"),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_estimators_with_c(model):
    _, X, y = _table(0)
    found = tune(model, X, y, cv=3, Cs=[0.01, 0.1, 1.0])
    assert found.best_estimator_.score(X, y) > 0.5


def test_chunk_f1_is_the_default_for_tags(exact):
    model, X, y = _pipeline(1)
    found = tune(model, X, y, cv=KFold(2), Cs=[0.1, 1.0, 10.0, 100.0])
    train, test = next(KFold(2).split(X))
    fitted = clone(model).set_params(sagcrf__C=1.0, sagcrf__tol=1e-4).fit(X[train], y[train])
    row = found.cv_results_["params"].index({"sagcrf__C": 1.0})
    expected = chunk_f1_score(y[test], fitted.predict(X[test]))
    assert found.cv_results_["split0_test_score"][row] == pytest.approx(expected, abs=0.02)


def test_segments():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 2)) for _ in range(20)]
    y = [[(0, 3, "a"), (3, 6, "b")] if x[0, 0] > 0 else [(0, 6, "b")] for x in X]
    found = tune(SAGCRF(SemiChain(max_length=6), random_state=0), X, y, cv=2, Cs=[0.1, 1.0])
    assert found.cv_results_["n_splits"].tolist() == [2, 2]
    assert found.best_score_ > 0.5


@pytest.mark.parametrize("scoring", ["node_f1", make_scorer(chunk_f1_score)])
def test_other_scores_are_of_every_fold(scoring):
    model, X, y = _pipeline(0)
    found = tune(model, X, y, cv=2, Cs=[1e-3, 1.0, 30.0], scoring=scoring)
    assert found.cv_results_["n_splits"].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"model": MultiClass()}, TypeError, "model must be an estimator with a parameter C"),
        ({"model": SAGCRF}, TypeError, "model must be an estimator .*, got <class"),
        ({"model": make_pipeline(SAGCRF(), "passthrough")}, TypeError, "the last step"),
        ({"model": BCFWSSVM(), "l1_ratios": [0.5]}, ValueError, "Invalid parameter 'l1_ratio' for"),
        ({"l1_ratios": [0.5, 1.5]}, ValueError, "'l1_ratio' parameter of SAGCRF must be"),
        ({"Cs": [0.0, 1.0]}, ValueError, "each of Cs must be a positive number, got 0.0"),
        ({"Cs": 1.0}, TypeError, "Cs must be a sequence of numbers, got 1.0"),
        ({"Cs": []}, ValueError, "Cs must have one number or more"),
        ({"rule": "1se"}, ValueError, "rule must be one of 'best', 'one-se'; got '1se'"),
        ({"scoring": "chunkf1"}, ValueError, "SCORERS node_accuracy, .* got 'chunkf1'"),
        ({"scoring": ["node_f1"]}, ValueError, "scoring must be a scorer or a name"),
        ({"scoring": "f1_macro"}, ValueError, "scoring='f1_macro' .* of SCORERS: node_accuracy"),
        ({"scoring": chunk_f1_score}, ValueError, "chunk_f1_score is a metric, not a scorer"),
        ({"y": None}, ValueError, "y must hold the labels"),
        ({"y": [["a"]]}, ValueError, "inconsistent numbers of samples"),
        ({"groups": [None] * 45}, ValueError, "groups is missing in sample 0"),
        ({"cv": GroupKFold(3)}, ValueError, "groups"),
    ],
)
def test_bad_input_is_named(change, error, text):
    model, X, y = _chain(0)
    arguments = {"model": model, "X": X, "y": y} | change
    with pytest.raises(error, match=text):
        tune(**arguments)


@pytest.mark.parametrize("score", [np.nan, "high"])
def test_scores_that_are_not_numbers_are_an_error(score):
    model, X, y = _chain(0)
    with pytest.raises(ValueError, match=f"scoring must return a number, got {score!r}"):
        tune(model, X, y, cv=2, scoring=lambda model, X, y: score if model.C > 1 else 0.5)


def test_result_as_table_and_picture():
    from matplotlib.figure import Figure

    model, X, y = _chain(0)
    found = tune(model, X, y, cv=2, l1_ratios=[0.0, 0.5])
    assert isinstance(found, TuneResult)
    assert list(found.table)[:2] == ["param_C", "param_l1_ratio"]
    assert len(repr(found).splitlines()) == 2 + len(found.table)
    assert found._repr_html_().count("<tr") == 1 + len(found.table)
    figure = Figure()
    assert found.plot(figure.subplots()) is found
    assert found.figure_ is figure
    assert {text.get_text() for text in found.ax_.get_legend().get_texts()} == {
        "l1_ratio=0",
        "l1_ratio=0.5",
        "choice",
    }
    alone = tune(model, X, y, cv=2).plot(Figure().subplots())
    assert [text.get_text() for text in alone.ax_.get_legend().get_texts()] == ["choice"]
