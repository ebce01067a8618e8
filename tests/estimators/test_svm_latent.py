"""Structural SVMs from partial labels: the latent hinge by enumeration, rounds, real letters."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import BCFWSSVM, SAGCRF, CasimirSSVM, Chain, MultiClass, MultiLabel, SubgradientSSVM
from skstruct.datasets import load_conll, load_ocr_letters
from skstruct.preprocessing import SequenceVectorizer
from skstruct.testing import all_labellings, chain_scores, random_sequences

COSTS = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 1.0, 0.0]])


def hide(y, rng, share):
    """The same labels, some missing, some in sets with another one."""
    return [
        [
            None if draw < share / 2 else {label, "b"} if draw < share else label
            for label, draw in zip(map(str, labels), rng.random(len(labels)), strict=True)
        ]
        for labels in y
    ]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    X, y = random_sequences(rng, n_samples=40, max_length=5)
    return X, hide(y, rng, 0.5), y


def latent_objective(svm, X, partial, cost=None, normalize=False, with_loss=True):
    """The lambda form of the latent hinge by enumeration."""
    classes, losses = svm.classes_.tolist(), []
    cost = 1 - np.eye(len(classes)) if cost is None else cost
    for x, given in zip(X, partial, strict=True):
        allowed = [
            range(len(classes))
            if v is None
            else [classes.index(k) for k in (v if isinstance(v, set) else {v})]
            for v in given
        ]
        labellings = all_labellings(len(x), len(classes))
        scores = chain_scores(
            x @ svm.coef_.T + svm.intercept_, svm.pairwise_coef_[None], labellings
        )
        least = np.array([cost[list(ks)].min(axis=0) for ks in allowed])
        delta = least[np.arange(len(x)), labellings].sum(axis=1)
        delta = delta / len(x) if normalize else delta
        fits = [all(k in ks for k, ks in zip(y, allowed, strict=True)) for y in labellings]
        losses.append((scores + with_loss * delta).max() - scores[fits].max())
    norm = (svm.node_weights_**2).sum() + (svm.pair_weights_**2).sum()
    return norm / (2 * svm.C * len(X)) + np.mean(losses)


@pytest.mark.parametrize(
    ("loss", "cost", "normalize"),
    [
        ("hamming", None, False),
        ("normalized_hamming", None, True),
        (COSTS, COSTS, False),
    ],
    ids=["hamming", "normalized", "matrix"],
)
def test_the_objective_is_the_latent_hinge(data, loss, cost, normalize):
    X, partial, _ = data
    svm = BCFWSSVM(C=0.3, loss=loss, tol=1e-4, max_iter=5000, random_state=0).fit(X, partial)
    expected = latent_objective(svm, X, partial, cost, normalize)
    # The last completion may differ by what the tolerance leaves.
    assert expected <= svm.objective_ * (1 + 1e-9)
    np.testing.assert_allclose(svm.objective_, expected, rtol=1e-3)
    assert svm.dual_gap_ <= 1e-4 * svm.objective_
    history = svm.history_
    assert history["passes"].size == svm.n_iter_
    assert (np.diff(history["passes"]) > 0).all()
    assert (np.diff(history["seconds"]) >= 0).all()
    assert (np.diff(history["round"]) >= 0).all()
    ends = [history["objective"][history["round"] == k + 1][-1] for k in range(svm.n_rounds_)]
    assert svm.objective_ == min(ends)
    # Only the last round may fail to gain.
    assert (np.diff(ends)[:-1] < 0).all()
    completed = svm.n_rounds_ == 1 or 1 - ends[-1] / ends[-2] > svm.tol
    assert svm.n_oracle_calls_ == history["oracle_calls"][-1] + len(X) * completed


def test_an_objective_of_zero_has_nothing_to_gain(data):
    X, partial, _ = data
    svm = BCFWSSVM(loss=np.zeros((3, 3)), random_state=0).fit(X, partial)
    assert svm.objective_ == 0.0
    assert not svm.node_weights_.any()


def test_a_round_starts_where_the_one_before_ended(data):
    X, partial, _ = data
    svm = BCFWSSVM(C=0.3, tol=1e-4, max_iter=5000, random_state=0).fit(X, partial)
    history = svm.history_
    assert svm.n_rounds_ > 1
    later = history["round"] > 1
    # Without the dual point the rounds would take as many passes as the first.
    assert later.sum() < (svm.n_rounds_ - 1) * (~later).sum()
    bounds = history["dual_objective"]
    assert (bounds[later] > 0.5 * svm.objective_).all()


def test_labels_that_are_all_known_take_the_ordinary_path(data):
    X, _, y = data
    plain = BCFWSSVM(random_state=0).fit(X, y)
    sets = BCFWSSVM(random_state=0).fit(X, [[{str(label)} for label in row] for row in y])
    np.testing.assert_array_equal(plain.node_weights_, sets.node_weights_)
    assert not hasattr(sets, "n_rounds_")
    again = sets.fit(X, [[None, *row[1:]] for row in y])
    assert again.n_rounds_ >= 1
    assert not hasattr(again.fit(X, y), "n_rounds_")


def test_warm_starts_complete_by_the_weights_before(data):
    X, partial, _ = data
    svm = BCFWSSVM(C=0.3, tol=1e-4, max_iter=5000, warm_start=True, random_state=0).fit(X, partial)
    before = svm.objective_
    svm.fit(X, partial)
    assert svm.objective_ <= before * (1 + 1e-4)
    assert svm.n_rounds_ <= 2


def test_max_iter_counts_the_passes_of_all_rounds(data):
    X, partial, _ = data
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=3"):
        svm = BCFWSSVM(tol=1e-9, max_iter=3, random_state=0).fit(X, partial)
    assert svm.n_iter_ == 3


@pytest.mark.parametrize(
    "estimator",
    [CasimirSSVM(C=0.3, random_state=0, tol=1e-2), SubgradientSSVM(C=0.3, random_state=0)],
    ids=["Casimir", "subgradient"],
)
def test_other_solvers_come_near(data, estimator):
    X, partial, _ = data
    best = BCFWSSVM(C=0.3, tol=1e-4, max_iter=5000, random_state=0).fit(X, partial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = clone(estimator).fit(X, partial)
    assert latent_objective(other, X, partial) <= other.objective_ * (1 + 1e-9)
    assert other.objective_ <= 1.1 * best.objective_


def test_other_structures_learn_from_partial_labels():
    rng = np.random.default_rng(4)
    X, y = random_sequences(rng, n_samples=80, max_length=5)
    partial = hide(y, rng, 0.4)
    rows, one = np.vstack(X), [v for row in partial for v in row]
    flat = np.concatenate(y)
    svm = BCFWSSVM(MultiClass(), random_state=0).fit(rows, one)
    known = np.array([isinstance(v, str) for v in one])
    dropped = BCFWSSVM(MultiClass(), random_state=0).fit(rows[known], flat[known])
    assert svm.score(rows, flat) >= dropped.score(rows, flat) - 0.01
    Y = (rows @ rng.normal(size=(5, 4)) > 0).astype(float)
    gaps = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    assert BCFWSSVM(MultiLabel("tree"), random_state=0).fit(rows, gaps).score(rows, Y) > 0.9
    ordered = [sorted(row) for row in y]
    gaps = [[None if rng.random() < 0.3 else v for v in row] for row in ordered]
    gaps = [
        [None if v == "c" and "b" not in row[:t] else v for t, v in enumerate(row)] for row in gaps
    ]
    svm = BCFWSSVM(Chain(forbidden=[("a", "c")]), random_state=0)
    steps = {pair for row in svm.fit(X, gaps).predict(X) for pair in pairwise(row.tolist())}
    assert ("a", "c") not in steps
    assert ("a", "b") in steps


def _without(y, share, rng):
    return [[None if rng.random() < share else label for label in row] for row in y]


def _complete(X, partial):
    keep = [i for i, row in enumerate(partial) if None not in row]
    return [X[i] for i in keep], [partial[i] for i in keep]


@pytest.mark.filterwarnings("ignore:y. labels that fit has not seen")
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_letters_of_words_with_gaps(shared_data, share):
    words = load_ocr_letters(shared_data / "ocr_letters" / "letters.npz")
    train, test = np.flatnonzero(words.fold == 0)[:200], np.flatnonzero(words.fold == 1)[:200]
    X, y = ([part[i] for i in train] for part in (words.X, words.y))
    partial = _without([row.tolist() for row in y], share, np.random.default_rng(0))
    test = [words.X[i] for i in test], [words.y[i] for i in test]
    svm, crf = BCFWSSVM(C=0.1, random_state=0), SAGCRF(solver="lbfgs", tol=1e-2, max_iter=300)
    for model in (svm, crf):
        full = clone(model).fit(X, y).score(*test)
        some = clone(model).fit(X, partial).score(*test)
        few = clone(model).fit(*_complete(X, partial)).score(*test)
        assert some > few + 0.02
        assert some > full - 0.2 * share


def test_chunks_with_gaps(shared_data):
    rows = load_conll(shared_data / "conll2000/train.txt.gz", ["word", "pos", "chunk"])

    def tokens(first, last):
        return [
            [{"w": w, "p": p, "b": b} for w, p, b in zip(words, tags, ["", *tags], strict=False)]
            for words, tags in zip(rows.word[first:last], rows.pos[first:last], strict=True)
        ]

    vectorizer = SequenceVectorizer()
    X, y = vectorizer.fit_transform(tokens(0, 300)), [row.tolist() for row in rows.chunk[:300]]
    test = vectorizer.transform(tokens(300, 500)), list(rows.chunk[300:500])
    partial = _without(y, 0.3, np.random.default_rng(0))
    outside = [["O" if label is None else label for label in row] for row in partial]
    crf = SAGCRF(Chain(), solver="lbfgs", tol=1e-2, max_iter=300)
    full, some, wrong = (clone(crf).fit(X, labels).score(*test) for labels in (y, partial, outside))
    assert some > wrong + 0.01
    assert some > full - 0.03
