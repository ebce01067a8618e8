"""Early stopping: which samples are held out, when a fit ends, and what is left of it."""

import gc
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    ExtragradientSSVM,
    ProxLinearSSVM,
    SubgradientSSVM,
)
from skstruct.callbacks import EarlyStopping
from skstruct.data.ragged import RaggedArray

ESTIMATORS = {
    "sag": SAGCRF(track_objective=True),
    "elastic net": SAGCRF(track_objective=True, l1_ratio=0.5),
    "lbfgs": SAGCRF(solver="lbfgs"),
    "bcfw": BCFWSSVM(gap_every=1),
    "casimir": CasimirSSVM(),
    "gdmm": GDMMSSVM(gap_every=1),
    "sgd": SubgradientSSVM(),
    "extragradient": ExtragradientSSVM(),
    "ball": ExtragradientSSVM(radius=2.0),
    "prox-linear": ProxLinearSSVM(score_map="mlp"),
}
# Best in the third epoch, over in the sixth.
SCORES = [0.2, 0.1, 0.5, 0.4, 0.5, 0.3, 0.9]


class Script:
    """A metric that says what it is told to, and keeps the models that it has seen."""

    def __init__(self, scores=SCORES):
        self._left, self.models = list(scores), []

    def __call__(self, model, X, y):
        self.models.append(model)
        return self._left.pop(0)


def _tables(model):
    return [getattr(model, name) for name in model._tables]


@pytest.mark.thinned
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_best_epoch_is_restored(sequences, name):
    model, script = clone(ESTIMATORS[name]), Script()
    model.set_params(tol=0.0, max_iter=50)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    stopper = EarlyStopping(sequences, metric=script, patience=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_callbacks(stopper).fit(*sequences)
    assert (model.n_iter_, model.best_iter_, model.best_validation_score_) == (6, 3, 0.5)
    assert_array_equal(model.history_["validation_score"], SCORES[:6])
    for own, best in zip(_tables(model), _tables(script.models[2]), strict=True):
        assert_array_equal(own, best)
    predicted = [np.concatenate(one.predict(sequences[0])) for one in (model, script.models[2])]
    assert_array_equal(*predicted)
    # The objective of that epoch, as the solver knew it.
    known = model.history_["objective"][2]
    if np.isfinite(known):
        assert_allclose(model.objective_, known, rtol=1e-9)
    if hasattr(model, "dual_objective_"):
        assert_allclose(model.dual_gap_, model.objective_ - model.dual_objective_, rtol=1e-6)
        assert_allclose(model.suboptimality_, model.dual_gap_ / model.objective_)
        bounds = model.history_["dual_objective"]
        # The best bound of the run, less what rounding may have added to the objective.
        assert_allclose(model.dual_objective_, bounds[np.isfinite(bounds)].max(), rtol=1e-12)
        best = clone(model).set_callbacks().set_params(tol=1e-3, max_iter=3000).fit(*sequences)
        assert model.dual_objective_ <= best.objective_
        assert best.dual_objective_ <= model.objective_


@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
def test_the_gradient_is_that_of_the_restored_weights(sequences, l1_ratio):
    def stopped_after(n):
        return SAGCRF(tol=0.0, l1_ratio=l1_ratio, max_iter=n, random_state=0)

    stopper = EarlyStopping(sequences, metric=Script(), patience=3)
    model = stopped_after(50).set_callbacks(stopper).fit(*sequences)
    with pytest.warns(ConvergenceWarning):
        short = stopped_after(3).fit(*sequences)
    assert_allclose(model.gradient_norm_, short.gradient_norm_, rtol=1e-6)
    assert_allclose(model.objective_, short.objective_, rtol=1e-12)
    assert model.dual_gap_ <= short.dual_gap_ * (1 + 1e-9)


def test_what_is_held_out_is_not_trained_on(sequences):
    X, y = sequences
    script = Script()
    seen = []

    def metric(model, held_X, held_y):
        seen.append((held_X, held_y))
        return script(model, held_X, held_y)

    crf = SAGCRF(tol=0.0, max_iter=50, random_state=3)
    crf.set_callbacks(EarlyStopping(0.25, metric=metric, patience=3)).fit(X, y)
    held_X, held_y = seen[0]
    assert len(held_X) == len(held_y) == 6
    places = [next(i for i, x in enumerate(X) if x is own) for own in held_X]
    assert all(y[i] is own for i, own in zip(places, held_y, strict=True))
    weight = np.ones(len(X))
    weight[places] = 0.0
    # The same run, with those samples left out by hand.
    stopper = EarlyStopping((held_X, held_y), metric=Script(), patience=3)
    same = SAGCRF(tol=0.0, max_iter=50, random_state=3).set_callbacks(stopper)
    same.fit(X, y, sample_weight=weight)
    assert_array_equal(crf.node_weights_, same.node_weights_)
    assert crf.objective_ == same.objective_
    other = clone(crf).set_params(random_state=4)
    other.set_callbacks(EarlyStopping(0.25, metric=metric, patience=3))
    script._left[:] = SCORES
    seen.clear()
    other.fit(X, y)
    assert [x is own for x, own in zip(seen[0][0], held_X, strict=True)] != [True] * 6


def test_samples_of_weight_zero_are_not_held_out(sequences):
    X, y = sequences
    weight = np.zeros(len(X))
    weight[:8] = np.arange(1.0, 9.0)
    scored = []

    def metric(model, X, y):
        scored.append(len(X))
        return 0.0

    crf = SAGCRF(tol=0.0, random_state=0)
    crf.set_callbacks(EarlyStopping(0.5, metric=metric, patience=1)).fit(X, y, sample_weight=weight)
    assert scored == [4, 4]


def _packed(X):
    return RaggedArray(np.vstack(X), np.cumsum([0, *map(len, X)]))


@pytest.mark.parametrize("form", [list, _packed, lambda X: [sparse.csr_matrix(x) for x in X]])
def test_every_form_of_samples(sequences, form):
    X, y = sequences
    crf = SAGCRF(tol=0.0, random_state=0).set_callbacks(EarlyStopping(0.3)).fit(form(X), y)
    alike = SAGCRF(tol=0.0, random_state=0).set_callbacks(EarlyStopping(0.3)).fit(X, y)
    assert_array_equal(crf.history_["validation_score"], alike.history_["validation_score"])


@pytest.mark.parametrize("form", [np.asarray, sparse.coo_matrix])
def test_tables(sequences, form):
    X, y = np.vstack(sequences[0]), np.concatenate(sequences[1])
    crf = SAGCRF("multiclass", solver="sag", tol=0.0, random_state=0)
    crf.set_callbacks(EarlyStopping(0.3, patience=2)).fit(form(X), y)
    assert crf.best_iter_ == crf.n_iter_ - 2
    assert 0 < crf.best_validation_score_ <= 1


def test_scores_now_and_then(sequences):
    stopper = EarlyStopping(sequences, metric=Script(), every=2, patience=3)
    crf = SAGCRF(tol=0.0, random_state=0).set_callbacks(stopper).fit(*sequences)
    scores = crf.history_["validation_score"]
    assert_array_equal(np.flatnonzero(np.isfinite(scores)), [0, 2, 4, 6, 8, 10])
    assert (crf.n_iter_, crf.best_iter_) == (11, 5)


def test_least_gains_and_the_last_weights(sequences):
    scores = [0.0, 0.05, 0.09, 0.1, 0.3]
    options = {"metric": Script(scores), "min_delta": 0.1, "patience": 3, "restore_best": False}
    stopper = EarlyStopping(sequences, **options)
    crf = SAGCRF(tol=0.0, random_state=0).set_callbacks(stopper).fit(*sequences)
    assert (crf.n_iter_, crf.best_iter_) == (4, 1)
    with pytest.warns(ConvergenceWarning):
        short = SAGCRF(tol=0.0, max_iter=4, random_state=0).fit(*sequences)
    assert_array_equal(crf.node_weights_, short.node_weights_)
    assert crf.objective_ == short.objective_


def test_a_fit_that_converges_first(sequences):
    script = Script([0.1, 0.3, *[0.2] * 500])
    stopper = EarlyStopping(sequences, metric=script, patience=10**6)
    crf = SAGCRF(tol=1e-3, random_state=0).set_callbacks(stopper).fit(*sequences)
    assert crf.n_iter_ > 3
    assert crf.best_iter_ == 2
    assert crf.suboptimality_ > 1e-3  # of the weights that are left


def test_in_a_search_over_a_pipeline(sequences):
    X, y = sequences
    crf = SAGCRF(tol=0.0, random_state=0).set_callbacks(EarlyStopping(0.25, patience=2))
    pipeline = make_pipeline(FunctionTransformer(), crf)
    grid = {"sagcrf__C": [0.1, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    best = search.best_estimator_[-1]
    assert best.best_iter_ == best.n_iter_ - 2
    assert len(best.history_["validation_score"]) == best.n_iter_
    again = pickle.loads(pickle.dumps(best))
    assert again.best_validation_score_ == best.best_validation_score_
    assert_array_equal(again.fit(X, y).node_weights_, clone(best).fit(X, y).node_weights_)


def test_a_failed_fit_leaves_nothing(sequences):
    gc.freeze()  # else all that numba holds is searched

    def metric(model, X, y):
        return "much"

    stopper = EarlyStopping(metric=metric)
    crf = SAGCRF(random_state=0).set_callbacks(stopper)
    with pytest.raises(ValueError, match="metric must return a number, got 'much'"):
        crf.fit(*sequences)
    assert not hasattr(crf, "classes_")
    with pytest.raises(ValueError, match="y"):
        crf.fit(sequences[0], sequences[1][:-1])
    del crf
    gc.collect()
    gc.unfreeze()
    assert len(stopper._runs) == 0


def test_samples_that_cannot_be_held_out_are_named(sequences):
    X, y = sequences
    crf = SAGCRF(random_state=0).set_callbacks(EarlyStopping())
    for samples, labels, message in (
        (X, y[:5], "X has 24 samples, but y has 5"),
        (iter(X), y, r"for a generator pass list\(X\)"),
        (None, y, "got a NoneType"),
        (X, iter(y), r"for a generator pass list\(y\)"),
        ([], [], "X is empty"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            crf.fit(samples, labels)
    hidden = [np.full(len(labels), None) for labels in y[:4]]
    crf.set_params(solver="lbfgs").set_callbacks(EarlyStopping((X[:4], hidden)))
    with pytest.raises(ValueError, match="cannot score the validation samples: y has no labels"):
        crf.fit(X, y)


def test_errors_name_the_samples_as_given(sequences):
    X, y = list(sequences[0]), sequences[1]
    X[17] = np.full_like(X[17], np.nan)
    with pytest.raises(ValueError, match="sample 17"):
        SAGCRF(random_state=0).set_callbacks(EarlyStopping(0.5)).fit(X, y)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"validation": 1.0}, ValueError, "validation must be between 0 and 1"),
        ({"validation": True}, TypeError, "validation must be a fraction, or a tuple"),
        ({"validation": [1, 2]}, TypeError, r"\(X, y, sample_weight\), got list"),
        ({"metric": "accuracy"}, TypeError, "metric must be"),
        ({"every": 0}, ValueError, "every must be an integer of at least 1, got 0"),
        ({"patience": 1.5}, ValueError, "patience must be an integer"),
        ({"min_delta": -1.0}, ValueError, "min_delta must be a nonnegative number"),
    ],
)
def test_choices_that_are_none_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        EarlyStopping(**arguments)


def test_fits_that_cannot_be_stopped_are_refused(sequences):
    crf = SAGCRF().set_callbacks(EarlyStopping(), EarlyStopping())
    with pytest.raises(ValueError, match="there are two callbacks EarlyStopping"):
        crf.fit(*sequences)
    crf.set_callbacks(EarlyStopping(0.99))
    with pytest.raises(ValueError, match="holds out 24 of 24 samples"):
        crf.fit(*sequences)
    pipeline = make_pipeline(FunctionTransformer(), SAGCRF()).set_callbacks(EarlyStopping())
    with pytest.raises(TypeError, match="which Pipeline does not have"):
        pipeline.fit(*sequences)
