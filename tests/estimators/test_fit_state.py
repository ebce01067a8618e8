"""What a model shows before, during and after a fit that succeeds, fails or is interrupted."""

import itertools
import pickle
import signal
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    ProxLinearSSVM,
    SubgradientSSVM,
    Tree,
)
from skstruct.core.parallel import Pieces
from skstruct.testing import random_sequences

ESTIMATORS = [SAGCRF, BCFWSSVM, CasimirSSVM, GDMMSSVM, SubgradientSSVM, ProxLinearSSVM]


@pytest.fixture(scope="module")
def sequences():
    return random_sequences(np.random.default_rng(0))


def fitted_state(model):
    return pickle.dumps({k: v for k, v in vars(model).items() if k.endswith("_")})


class Interrupt:
    """A callback that ends the fit as Ctrl-C does, when the second pass begins."""

    passes = 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.passes += context.task_name == "epoch"
        if self.passes == 2:
            raise KeyboardInterrupt

    def on_fit_task_end(self, estimator, context):
        pass


def bad_data(X, y):
    wide = [np.hstack([x, x]) for x in X]
    labels = [np.char.add(codes, "x") for codes in y]
    yield "other features, short y", wide, labels[:-1]
    yield "other features, one node too few", wide, [*labels[:-1], labels[-1][1:]]
    yield "one class", wide, [np.zeros_like(codes) for codes in labels]
    broken = [x.copy() for x in wide]
    broken[3][0, 0] = np.nan
    yield "NaN", broken, labels


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_failed_fit_leaves_the_model_as_it_was(sequences, Estimator):
    X, y = sequences
    model = Estimator(random_state=0, tol=0.5).fit(X, y)
    before, predicted = fitted_state(model), model.predict(X)
    for what, bad_X, bad_y in bad_data(X, y):
        with pytest.raises(ValueError, match=r"."):
            model.fit(bad_X, bad_y)
        assert fitted_state(model) == before, what
    for one, other in zip(predicted, model.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    fresh = clone(model)
    for what, bad_X, bad_y in bad_data(X, y):
        with pytest.raises(ValueError, match=r"."):
            fresh.fit(bad_X, bad_y)
        with pytest.raises(NotFittedError):
            fresh.predict(X)
        assert not any(name.endswith("_") for name in vars(fresh)), what


def test_a_forbidden_step_met_in_a_refit_leaves_the_old_structure(sequences):
    X, y = sequences
    model = SAGCRF(Chain(), random_state=0, tol=0.5).fit(X, y)
    before = fitted_state(model)
    steps = {step for codes in y for step in itertools.pairwise(codes)}
    with pytest.raises(ValueError, match="forbidden step"):
        model.set_params(graph=Chain(forbidden=list(steps))).fit(X, y)
    assert fitted_state(model) == before


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_an_interrupted_fit_leaves_the_model_as_it_was(sequences, Estimator):
    X, y = sequences
    model = Estimator(random_state=0, tol=0.5).fit(X, y)
    before = fitted_state(model)
    model.set_params(tol=0.0, C=7.0).set_callbacks(Interrupt())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:10], y[:10])
    assert fitted_state(model) == before
    fresh = clone(model).set_callbacks(Interrupt())
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_ctrl_c_comes_through_within_a_pass(monkeypatch):
    X, y = random_sequences(np.random.default_rng(0), n_samples=2000)
    pieces, begun = [], threading.Event()
    ranges = Pieces.ranges

    def counted(self, start, stop):
        for piece in ranges(self, start, stop):
            pieces.append(piece)
            if len(pieces) == 3:
                begun.set()
                signal.raise_signal(signal.SIGINT)
            yield piece

    monkeypatch.setattr(Pieces, "ranges", counted)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    model = SAGCRF(max_iter=1, tol=0.0, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert begun.is_set()
    assert len(pieces) == 3
    assert not hasattr(model, "classes_")


class CountPieces(Interrupt):
    """A callback that stops the fit in the middle of a pass."""

    def __init__(self):
        self.pieces = 0

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.pieces += context.task_name == "piece"
        return self.pieces == 2


def test_callbacks_hear_of_pieces_and_stop_within_a_long_pass(monkeypatch, sequences):
    monkeypatch.setattr("skstruct.estimators.base._LONG_PASS", 0.0)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    X, y = sequences
    callback = CountPieces()
    crf = SAGCRF(max_iter=50, tol=0.0, random_state=0).set_callbacks(callback).fit(X, y)
    assert callback.pieces == 2
    assert crf.n_iter_ == 1
    # Two calls of the pass that was cut, and the closing measurement.
    assert crf.history_["oracle_calls"][0] < 2 * len(X)
    assert np.isfinite(crf.objective_)


@pytest.mark.parametrize(
    "model", [SAGCRF(), BCFWSSVM(), CasimirSSVM(), ProxLinearSSVM(), ExtragradientSSVM()], ids=repr
)
def test_a_stop_in_the_first_piece_leaves_a_model(monkeypatch, sequences, model):
    class Stop(Interrupt):
        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            return True

    monkeypatch.setattr("skstruct.estimators.base._LONG_PASS", 0.0)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    model = clone(model).set_callbacks(Stop()).fit(*sequences)
    assert model.n_iter_ == 1
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("long", [0.0, 1e9])
def test_tasks_that_begin_end(monkeypatch, sequences, long):
    class Count(Interrupt):
        begun, ended = 0, 0

        def on_fit_task_begin(self, estimator, context):
            self.begun += 1

        def on_fit_task_end(self, estimator, context):
            self.ended += 1

    monkeypatch.setattr("skstruct.estimators.base._LONG_PASS", long)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    callback = Count()
    SAGCRF(tol=0.1, random_state=0).set_callbacks(callback).fit(*sequences)
    assert callback.begun == callback.ended > 2


def test_progress_bars_take_pieces(monkeypatch, sequences, capsys):
    from sklearn.callback import ProgressBar

    monkeypatch.setattr("skstruct.estimators.base._LONG_PASS", 0.0)
    monkeypatch.setattr("skstruct.estimators.base._SECONDS_A_LINE", 0.0)
    monkeypatch.setattr(Pieces, "FIRST", 3)
    X, y = sequences
    SAGCRF(tol=0.1, verbose=1, random_state=0).set_callbacks(ProgressBar()).fit(X, y)
    assert "epoch 1: 15%" in capsys.readouterr().out


def test_a_refit_forgets_what_the_first_fit_knew(sequences):
    X, y = sequences
    pairs = [(x, x[1:]) for x in X]
    model = SAGCRF(Chain(edge_features=True), solver="lbfgs", tol=0.5).fit(pairs, y)
    assert model.n_edge_features_in_ == X[0].shape[1]
    model.set_params(graph="chain").fit(X, y)
    assert not hasattr(model, "n_edge_features_in_")


def test_weights_of_another_shape_are_refused(sequences):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    for name in ("node_weights_", "pair_weights_"):
        table = getattr(model, name)
        for bad in (table[:1, :1], table.ravel(), table.tolist(), table.astype(str), None):
            setattr(model, name, bad)
            for method in (model.predict, model.predict_marginals, model.decision_function):
                with pytest.raises(ValueError, match=f"damaged: {name}"):
                    method(X)
        setattr(model, name, table)


def test_weights_that_are_not_finite_are_named(sequences):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    calls = [
        model.predict,
        model.predict_marginals,
        model.decision_function,
        lambda X: model.predict_top_k(X, 2),
        lambda X: model.predict_log_likelihood(X, y),
        lambda X: model.score(X, y),
    ]
    for k in range(3):
        for bad in (np.nan, np.inf):
            before, model.coef_[k, 1] = model.coef_[k, 1], bad
            for call in calls:
                with pytest.raises(ValueError, match="node_weights_ are not finite"):
                    call(X)
            model.coef_[k, 1] = before


def test_scores_that_overflow_are_no_forbidden_labellings(sequences):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    huge = [*X[:2], 1e306 * np.sign(X[2]) * np.sign(model.coef_[0] + 1e-300)]
    model.coef_[:] *= 1e6
    for call in (model.predict, model.predict_marginals, lambda X: model.predict_top_k(X, 2)):
        with pytest.raises(FloatingPointError, match="sample 2: the scores overflow"):
            call(huge)


def test_a_refit_meanwhile_leaves_a_prediction_alone(sequences, monkeypatch):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    expected = model.predict(X)
    wide = [np.hstack([x, x])[:, :7] for x in X]
    other = [np.where(codes == "a", "b", codes) for codes in y]
    make_problem = Chain.make_problem

    def refit_meanwhile(graph, *args, **kwargs):
        problem = make_problem(graph, *args, **kwargs)
        monkeypatch.setattr(Chain, "make_problem", make_problem)
        model.fit(wide, other)
        return problem

    monkeypatch.setattr(Chain, "make_problem", refit_meanwhile)
    for one, another in zip(model.predict(X), expected, strict=True):
        np.testing.assert_array_equal(one, another)
    assert model.n_features_in_ == 7


def test_score_counts_unseen_labels_as_wrong(sequences):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    right = model.predict(X)
    other = [codes.copy() for codes in right]
    other[0][:2], other[1][0] = "z", "u"
    n_nodes = sum(map(len, X))
    said = rf"count as wrong, on 3 of {n_nodes} nodes: \['u', 'z'\]$"
    with pytest.warns(UserWarning, match=said):
        assert model.score(X, other) == pytest.approx(1.0 - 3.0 / n_nodes)
    assert model.score(X, right) == 1.0


def test_a_fold_without_a_rare_label_has_a_score(sequences):
    X, y = sequences
    rare = [codes.copy() for codes in y]
    rare[0][0] = "z"
    with pytest.warns(UserWarning, match="count as wrong, on 1 of .* nodes: .'z'"):
        scores = cross_val_score(SAGCRF(tol=0.5), X, rare, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


def test_scores_without_nodes_or_weights_are_refused(sequences):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    empty = np.empty((0, X[0].shape[1]))
    with pytest.raises(ValueError, match="no nodes"):
        model.score([empty], [np.empty(0, dtype=int)])
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.score(X, y, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="zero"):
        model.score(X, y, sample_weight=np.zeros(len(X)))


@pytest.mark.parametrize("bad", [np.nan, "False", 2.0, None])
def test_masks_of_anything_but_booleans_are_refused(sequences, bad):
    X, y = sequences
    model = SAGCRF(tol=0.5, random_state=0).fit(X, y)
    masks = [np.ones((len(x), 3), dtype=object) for x in X]
    masks[2][0, 0] = bad
    with pytest.raises(ValueError, match="allowed: sample 2 must hold booleans"):
        model.predict(X, allowed=[np.array(mask.tolist()) for mask in masks])


@pytest.mark.parametrize(
    ("C", "weight"), [(1e308, 1.0), (1.0, 1e308), (5e-324, 1.0), (1e-320, 1.0)]
)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_objectives_beyond_floating_point_are_refused(sequences, Estimator, C, weight):
    X, y = sequences
    with pytest.raises(ValueError, match="C times the sum of sample_weight"):
        Estimator(C=C).fit(X, y, sample_weight=np.full(len(X), weight))


def test_a_fold_of_one_class_names_the_remedy():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.repeat([0, 1], 15)
    with pytest.raises(ValueError, match="graph='multiclass'"):
        SAGCRF().fit(X[:15], y[:15])
    scores = cross_val_score(SAGCRF("multiclass", tol=0.5), X, y, cv=2, error_score="raise")
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("kind", ["chain", "edge features", "tree"])
def test_no_samples_have_no_answers(sequences, kind):
    X, y = sequences
    graph = {"chain": Chain(), "edge features": Chain(edge_features=True), "tree": Tree()}[kind]
    if kind == "edge features":
        X = [(x, x[1:]) for x in X]
    elif kind == "tree":
        X = [(x, np.arange(len(x)) - 1) for x in X]
    model = SAGCRF(graph, tol=0.5, random_state=0).fit(X, y)
    for nothing in ([], np.empty(0, dtype=object)):
        assert model.predict(nothing).shape == (0,)
        assert model.predict(nothing, allowed=[]).shape == (0,)
        assert model.predict_marginals(nothing).shape == (0,)
        assert [part.shape for part in model.predict_marginals(nothing, pairwise=True)] == [
            (0,)
        ] * 2
        assert [part.shape for part in model.predict_top_k(nothing, 3)] == [(0,)] * 2
        assert model.decision_function(nothing).shape == (0, 2)
        assert model.predict_log_likelihood(nothing, []).shape == (0,)
    with pytest.raises(ValueError, match="no nodes"):
        model.score([], [])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
@pytest.mark.parametrize("solver", ["sag", "lbfgs", "casimir"])
def test_the_type_of_C_does_not_matter(sequences, kind, solver):
    X, y = sequences
    one = SAGCRF(C=kind(0.3), solver=solver, tol=1e-3, random_state=0).fit(X, y)
    other = SAGCRF(C=float(kind(0.3)), solver=solver, tol=1e-3, random_state=0).fit(X, y)
    assert one.objective_ == other.objective_
    np.testing.assert_array_equal(one.node_weights_, other.node_weights_)


def test_what_a_callback_does_to_its_model_does_not_reach_the_training(sequences):
    class Vandal(Interrupt):
        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            if context.task_name == "epoch":
                fitted_estimator.node_weights_[:] = 1e3
                fitted_estimator.classes_[:] = "z"

    X, y = sequences
    alone = CasimirSSVM(tol=0.2, random_state=0).fit(X, y)
    watched = CasimirSSVM(tol=0.2, random_state=0).set_callbacks(Vandal()).fit(X, y)
    np.testing.assert_array_equal(alone.node_weights_, watched.node_weights_)
    np.testing.assert_array_equal(alone.classes_, watched.classes_)


def test_a_warm_start_from_weights_that_are_no_numbers_is_refused(sequences):
    X, y = sequences
    model = SAGCRF(tol=0.5, warm_start=True, random_state=0).fit(X, y)
    model.coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match="node_weights_ are not finite"):
        model.fit(X, y)


def test_an_overflow_names_the_sample_as_the_user_counts(sequences, monkeypatch):
    def overflowing(loss, part, w, memory, start, stop, scratch, out):
        out[0, 2:3] = np.nan

    X, y = sequences
    weight = np.ones(len(X))
    weight[1] = 0.0
    monkeypatch.setattr("skstruct.solvers.primal.loss_values", overflowing)
    with pytest.raises(FloatingPointError, match="the loss of sample 3 is nan"):
        BCFWSSVM(tol=0.5, random_state=0).fit(X, y, sample_weight=weight)
