"""solver="auto": when SAG gives way to L-BFGS, and what goes over."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skstruct import SAGCRF, Chain
from skstruct.core import features
from skstruct.core.features import merge_copies
from skstruct.core.parallel import Pieces
from skstruct.core.weights import Weights, zero_weights
from skstruct.datasets import load_conll
from skstruct.estimators import crf_path
from skstruct.losses.log import LogLoss
from skstruct.preprocessing import SequenceVectorizer
from skstruct.solvers import hybrid
from skstruct.solvers.hybrid import is_slow
from skstruct.solvers.oeg import OEG
from skstruct.solvers.primal import objective_value
from skstruct.solvers.quasi_newton import QuasiNewton
from skstruct.testing import random_sequences, training_problem


@pytest.fixture
def few():
    """Fifteen sequences."""
    return random_sequences(np.random.default_rng(3), n_samples=15)


@pytest.fixture
def changes(monkeypatch):
    """The epochs that came before each change of method."""
    seen, change = [], hybrid.change

    def spied(early):
        seen.append(len(early.gaps))
        return change(early)

    monkeypatch.setattr(hybrid, "change", spied)
    return seen


@pytest.mark.parametrize(("C", "tol", "weak"), [(0.1, 1e-3, False), (3e3, 1e-3, True)])
def test_weak_regularisation_of_few_samples_is_for_lbfgs(few, changes, C, tol, weak):
    auto = SAGCRF("chain", C=C, tol=tol, random_state=0).fit(*few)
    assert bool(changes) == weak
    best = SAGCRF("chain", C=C, tol=1e-9, max_iter=2000, solver="lbfgs").fit(*few)
    assert auto.dual_objective_ <= best.objective_
    assert best.dual_objective_ <= auto.objective_ <= best.objective_ * (1 + 2 * tol)
    sag = SAGCRF("chain", C=C, tol=0.0, max_iter=10, solver="sag", random_state=0)
    with pytest.warns(ConvergenceWarning):
        sag.fit(*few)
    # Before the change it is SAG.
    for name in ("dual_objective", "oracle_calls"):
        n = min(auto.n_iter_, 10) - 1
        np.testing.assert_array_equal(auto.history_[name][:n], sag.history_[name][:n])


def test_what_was_known_and_done_before_the_change_counts(few, changes):
    crf = SAGCRF("chain", C=3e3, tol=1e-8, random_state=0).fit(*few)
    history, at = crf.history_, changes[0]
    # Later ones are less an allowance for rounding, which varies in its last digits.
    assert (np.diff(history["dual_objective"][: at + 1]) >= 0.0).all()
    assert (np.diff(history["dual_objective"]) >= -1e-13).all()
    assert (np.diff(history["oracle_calls"]) >= 15).all()
    assert np.isfinite(history["objective"][at:]).all()
    # L-BFGS begins where SAG ended.
    alone = SAGCRF("chain", C=3e3, tol=1e-8, max_iter=5000, solver="lbfgs").fit(*few)
    assert history["objective"][at] < alone.history_["objective"][3]


def test_the_weights_do_not_depend_on_threads_pieces_or_tracking(few, changes, monkeypatch):
    options = {"C": 300.0, "tol": 1e-6, "random_state": 0}
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    plain = SAGCRF("chain", **options).fit(*few)
    fits = [SAGCRF("chain", **options, n_jobs=2, track_objective=True).fit(*few)]
    monkeypatch.setattr(Pieces, "FIRST", 2)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)
    fits.append(SAGCRF("chain", **options).fit(*few))
    assert len(changes) == 3
    for other in fits:
        np.testing.assert_array_equal(plain.node_weights_, other.node_weights_)
        np.testing.assert_array_equal(plain.history_["passes"], other.history_["passes"])
        assert plain.dual_objective_ == other.dual_objective_


@pytest.mark.parametrize("piece", ["first", "gradient"])
def test_a_stop_in_the_pass_of_the_change(few, changes, monkeypatch, piece):
    monkeypatch.setattr(Pieces, "FIRST", 2)
    monkeypatch.setattr(Pieces, "SECONDS", 0.0)

    class Stop:
        def __call__(self, record, weights):
            return False

        def after_piece(self, share):
            return bool(changes) and share > (0.0 if piece == "first" else 0.5)

    class Stopped(SAGCRF):
        def _solve(self, *args, after_epoch, **common):
            return super()._solve(*args, after_epoch=Stop(), **common)

    crf = Stopped("chain", C=3e3, random_state=0).fit(*few)
    assert len(changes) == 1
    assert crf.n_iter_ == changes[0] + 1
    for name in ("objective", "dual_gap", "dual_objective"):
        assert crf.history_[name][-1] == getattr(crf, f"{name}_")
    assert np.isfinite(crf.objective_)
    assert crf.objective_ >= crf.dual_objective_


def test_the_rule_of_the_change():
    falling = list(np.geomspace(1e3, 1.0, 40))
    assert not is_slow(falling, 1e-3, 1.0)  # an e-fold in six epochs is fast
    assert is_slow(falling, 1e-3, 0.1)  # not where L-BFGS is cheap
    assert is_slow([1.0] * 40, 1e-3, 1.0)
    assert not is_slow([1.0] * (hybrid._FIRST - 1), 1e-3, 1.0)
    assert not is_slow([1.0] * 30 + [0.9e-3] * 10, 1e-3, 1.0)  # nothing is missing
    assert is_slow([np.inf] * 40, 1e-3, 1.0)


def test_auto_is_not_told_to_try_itself(sequences):
    crf = SAGCRF(C=1e6, max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="increase max_iter or tol") as caught:
        crf.fit(*sequences)
    assert "auto" not in str(caught[0].message)
    with pytest.warns(ConvergenceWarning, match="l1_ratio=0.99"):
        crf.set_params(l1_ratio=1.0).fit(*sequences)
    with pytest.warns(ConvergenceWarning, match='try solver="auto"'):
        crf.set_params(l1_ratio=0.0, solver="sag").fit(*sequences)


def _word2features(sentence, i):
    """Those of sklearn-crfsuite's tutorial."""
    word, tag = sentence[i]
    features = {"bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:]}
    features |= {"word[-2:]": word[-2:], "word.isupper()": word.isupper(), "postag": tag}
    features |= {"word.istitle()": word.istitle(), "word.isdigit()": word.isdigit()}
    features["postag[:2]"] = tag[:2]
    for offset, name, inside in ((-1, "-1:", i > 0), (1, "+1:", i < len(sentence) - 1)):
        if not inside:
            features["BOS" if offset < 0 else "EOS"] = True
            continue
        word, tag = sentence[i + offset]
        features |= {name + "word.lower()": word.lower(), name + "word.istitle()": word.istitle()}
        features |= {name + "word.isupper()": word.isupper(), name + "postag": tag}
        features[name + "postag[:2]"] = tag[:2]
    return features


@pytest.mark.parametrize("c2", [0.1, 1e-3])
def test_the_settings_of_tutorials_end_without_a_warning(shared_data, c2):
    rows = load_conll(
        shared_data / "conll2002_dutch/ned.train.gz", ["word", "pos", "ner"], encoding="latin-1"
    )
    pairs = zip(rows.word[:60], rows.pos[:60], strict=True)
    sentences = [list(zip(*pair, strict=True)) for pair in pairs]
    X = [[_word2features(sentence, i) for i in range(len(sentence))] for sentence in sentences]
    X = SequenceVectorizer().fit_transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crf = SAGCRF(C=0.5 / c2, fit_intercept=False, random_state=0).fit(X, rows.ner[:60])
    assert crf.suboptimality_ <= 1e-3


@pytest.mark.parametrize(("last", "n_copies"), [(10**9, 0), (3, 0), (3, 4)])
def test_many_sparse_weights_begin_in_the_dual(
    monkeypatch, sparse_sequences, changes, last, n_copies
):
    methods, (X, y) = [], sparse_sequences
    data = [sparse.hstack([x, x[:, :n_copies]]).tocsr() for x in X], y

    class Seen(OEG):
        def __init__(self, *task, **options):
            super().__init__(*task, **options)
            methods.append(self)

    class Late(QuasiNewton):
        def __init__(self, *task, **options):
            super().__init__(*task, **options)
            methods.append(self)

    monkeypatch.setattr(hybrid, "OEG", Seen)
    monkeypatch.setattr(hybrid, "QuasiNewton", Late)
    monkeypatch.setattr(hybrid, "is_slow", lambda gaps, tol, cost: len(gaps) >= last)
    monkeypatch.setattr(hybrid, "_MANY", 1)
    options = {"C": 5.0, "tol": 1e-8, "max_iter": 2000, "random_state": 0}
    crf = SAGCRF(**options, n_jobs=2).fit(*data)
    best = SAGCRF(**options | {"tol": 1e-11}, solver="lbfgs").fit(*data)
    assert list(map(type, methods)) == ([Seen, Late] if last == 3 else [Seen])
    assert changes == ([3] if last == 3 else [])
    assert crf.dual_objective_ <= best.objective_
    assert best.dual_objective_ <= crf.objective_
    assert crf.suboptimality_ <= 1e-8
    assert (crf.history_["dual_objective"] <= best.objective_).all()
    copies = crf.node_weights_[:n_copies], crf.node_weights_[X[0].shape[1] :][:n_copies]
    np.testing.assert_array_equal(*copies)
    again = SAGCRF(**options).fit(*data)
    np.testing.assert_array_equal(again.node_weights_, crf.node_weights_)


def test_sag_begins_where_the_dual_point_has_no_room(monkeypatch, sparse_sequences):
    def refuses(*task, **options):
        raise MemoryError("no room")

    monkeypatch.setattr(hybrid, "_MANY", 1)
    monkeypatch.setattr(hybrid, "OEG", refuses)
    small = SAGCRF(random_state=0).fit(*sparse_sequences)
    monkeypatch.setattr(hybrid, "_MANY", 1 << 60)
    sag = SAGCRF(random_state=0).fit(*sparse_sequences)
    np.testing.assert_array_equal(small.node_weights_, sag.node_weights_)


@pytest.fixture
def copies(monkeypatch):
    """Sentences of which three features have equal columns, some others, and a few never occur."""
    monkeypatch.setattr(features, "_MANY", 1)
    rng = np.random.default_rng(0)
    words = sparse.random(60, 12, 0.2, random_state=1, format="csr")
    X = sparse.hstack([words, words[:, :5], words[:, :5], 2.0 * words[:, 5:], 0.0 * words]).tocsr()
    X.eliminate_zeros()
    y = rng.integers(3, size=60)
    parts = [slice(first, first + 6) for first in range(0, 60, 6)]
    return [X[part] for part in parts], [y[part].tolist() for part in parts]


def test_copies_of_features_are_merged_without_a_change_of_the_objective(copies, monkeypatch):
    problem, _, shapes, _ = training_problem(Chain(), *copies)
    merged, few_shapes, roots, basis = distinct = merge_copies(problem, shapes)
    used = np.diff(sparse.vstack(copies[0]).tocsc().indptr)[:12]
    assert few_shapes == (((used > 0).sum() + 7 + 1 + 1, 3), shapes[1])
    np.testing.assert_allclose((basis @ basis.T).toarray(), np.eye(roots.size), atol=1e-15)
    few, rng = zero_weights(few_shapes), np.random.default_rng(0)
    few.node[:], few.pair[:] = rng.normal(size=few_shapes[0]), rng.normal(size=shapes[1])
    all_of_them = distinct.spread(few)
    np.testing.assert_allclose(distinct.take(all_of_them).node, few.node)
    sizes = (np.abs(roots[:, None] * few.node).sum(), np.abs(all_of_them.node).sum())
    np.testing.assert_allclose(*sizes, rtol=1e-12)
    values = [
        objective_value(LogLoss(), task, w, np.ones(10), 0.3, 1).objective
        for task, w in ((problem, all_of_them), (merged, few))
    ]
    np.testing.assert_allclose(*values, rtol=1e-12)
    monkeypatch.setattr(features, "_MANY", 1 << 15)
    assert merge_copies(problem, shapes) is None


@pytest.mark.parametrize(
    ("dtype", "sizes"), [(np.float64, [1, 1, 1, 1, 1, 2]), (np.float32, [1, 1, 1, 1, 3])]
)
def test_features_that_differ_little_are_no_copies(dtype, sizes, monkeypatch):
    monkeypatch.setattr(features, "_MANY", 1)
    one = np.nextafter(1.0, 2.0)
    X = [[1e20, 1e20, 1e20, 0, 1, 1e20], [1, 0, 1, 0, -1, one], [-0.0, 0, 0, 0, 1, 0]]
    X = [sparse.csr_matrix(np.array(X, dtype=dtype))]
    problem, _, shapes, _ = training_problem(Chain(), X, [["a", "b", "a"]])
    distinct = merge_copies(problem, shapes)
    # The first and the third column, in single precision the last; all others by themselves.
    assert sorted(distinct.roots**2) == pytest.approx(sizes)


def test_columns_of_ones_are_told_apart_by_all_bits(monkeypatch):
    monkeypatch.setattr(features, "_MANY", 1)
    # Of these nodes the sums of two numbers are equal in the last 41 bits.
    rows, columns = [1055, 3985, 176, 3451, 0, 0], [0, 0, 1, 1, 2, 3]
    X = sparse.csr_matrix((np.ones(6), (rows, columns)), shape=(4000, 4))
    problem, _, shapes, _ = training_problem(Chain(), [X], [["a", "b"] * 2000])
    assert sorted(merge_copies(problem, shapes).roots ** 2) == pytest.approx([1, 1, 1, 2])


@pytest.mark.parametrize(
    ("solver", "last", "ratio"),
    [
        ("oeg", 0, 0.0),
        ("oeg", 0, 0.5),
        ("oeg", 0, 1.0),
        ("sag", 0, 0.0),
        ("auto", 10**9, 0.0),
        ("auto", 5, 0.0),
    ],
)
def test_certificates_of_merged_features_are_those_of_all(copies, monkeypatch, solver, last, ratio):
    monkeypatch.setattr(hybrid, "_MANY", 1)
    monkeypatch.setattr(hybrid, "is_slow", lambda gaps, tol, cost: len(gaps) >= last)
    options = {"C": 2.0, "l1_ratio": ratio, "max_iter": 3000, "random_state": 0}
    tol = 1e-6 if ratio < 1.0 else 1e-4
    crf = SAGCRF(**options, solver=solver, tol=tol).fit(*copies)
    best = SAGCRF(**options, solver="lbfgs", tol=1e-2 * tol).fit(*copies)
    assert crf.suboptimality_ <= tol
    assert best.dual_objective_ <= crf.objective_ <= best.objective_ * (1 + 2 * tol)
    assert (crf.history_["dual_objective"] <= best.objective_).all()
    w = crf.node_weights_
    np.testing.assert_array_equal(w[:5], w[12:17])
    np.testing.assert_array_equal(w[:5], w[17:22])
    problem, *_ = training_problem(Chain(), *copies)
    here, lam = Weights(w, crf.pair_weights_), 1.0 / (2.0 * 10)
    smooth = objective_value(LogLoss(), problem, here, np.ones(10), (1.0 - ratio) * lam, 1)
    size = sum(np.abs(table).sum() for table in here.tables)
    assert crf.objective_ == pytest.approx(smooth.objective + ratio * lam * size, rel=1e-12)


def test_warm_starts_under_an_l1_penalty_go_on_in_the_dual(copies, monkeypatch):
    monkeypatch.setattr(hybrid, "OrthantWise", None)
    options = {"l1_ratio": 0.5, "tol": 1e-6, "max_iter": 3000, "random_state": 0}
    best = SAGCRF(C=2.0, **options, solver="lbfgs").fit(*copies)
    warm, passes = SAGCRF(**options, warm_start=True), []
    for C in (1e-3, 1.8, 2.0, 2.0):  # at first, all weights are 0
        warm.set_params(C=C).fit(*copies)
        passes.append(warm.history_["passes"][-1])
        assert warm.suboptimality_ <= 1e-6
        assert bool(warm.node_weights_.any()) == (C > 1e-3)
    assert best.dual_objective_ <= warm.objective_ <= best.objective_ * (1 + 2e-6)
    assert (warm.history_["dual_objective"] <= best.objective_).all()
    cold = SAGCRF(C=2.0, **options).fit(*copies)
    assert passes[3] < passes[2] < cold.history_["passes"][-1]
    path = crf_path(SAGCRF(**options), *copies, [0.5, 1.0, 2.0])
    assert path[-1].dual_objective_ <= best.objective_
    assert max(crf.suboptimality_ for crf in path) <= 1e-6
