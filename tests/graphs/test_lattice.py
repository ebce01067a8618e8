"""Lattices against an enumeration of their paths, and the solvers among each other."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    ExtragradientSSVM,
    Lattice,
    ProxLinearSSVM,
    SubgradientSSVM,
)
from skstruct.datasets import pack_shards
from skstruct.estimators.persistence import TRUSTED
from skstruct.inspection import explain, transition_frame
from skstruct.testing import check_structure


def paths_of(arcs):
    """All paths, as tuples of positions."""
    last, found, open_paths = arcs[:, 1].max(initial=0), [], [(0, ())]
    while open_paths:
        at, path = open_paths.pop()
        if at == last:
            found.append(path)
        open_paths += [(arcs[q, 1], (*path, int(q))) for q in np.flatnonzero(arcs[:, 0] == at)]
    return sorted(found)


def draw(rng, n_samples=8, most=8, sparse_X=False):
    """Lattices with gaps between numbers, arcs on no path and parallel arcs; and a path of each."""
    X, y = [], []
    while len(X) < n_samples:
        n = rng.integers(1, most + 1)
        ends = np.sort(rng.integers(0, 9, (n, 2)), axis=1)
        arcs = np.column_stack([ends, rng.integers(0, 2, n), rng.integers(0, 3, n)])
        arcs = arcs[arcs[:, 0] < arcs[:, 1]]
        if len(arcs) and rng.random() < 0.8:
            arcs[rng.integers(len(arcs)), 0] = 0
        paths = paths_of(arcs) if len(arcs) else []
        if paths:
            x = rng.normal(size=(len(arcs), 3))
            X.append((arcs, sparse.csr_matrix(x) if sparse_X else x))
            y.append(list(paths[rng.integers(len(paths))]))
    X[0][0][0, 2:] = 1, 2  # all classes occur
    return X, y


@given(seed=st.integers(0, 10**6), is_sparse=st.booleans())
@settings(max_examples=12)
def test_every_operation_by_enumeration(seed, is_sparse):
    X, y = draw(np.random.default_rng(seed), 4, sparse_X=is_sparse)
    loss = [{1: 2.0, 0: 0.3}, "hamming", "normalized_hamming"][seed % 3]
    check_structure(Lattice(), X, y, fit_intercept=seed % 2 == 0, loss=loss)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=200)
def test_a_path_is_found_if_there_is_one(seed):
    rng = np.random.default_rng(seed)
    arcs = np.sort(rng.integers(0, 7, (rng.integers(1, 7), 2)), axis=1)
    arcs[:, 1] += 1
    X = [(arcs, np.ones((len(arcs), 1)))]
    holder = SAGCRF()
    if not paths_of(arcs):
        with pytest.raises(ValueError, match=r"X: sample 0 has no path from vertex 0 to"):
            Lattice().read_X(holder, X, True)
        return
    steps = Lattice().read_X(holder, X, True).steps
    on_paths = {q for path in paths_of(arcs) for q in path}
    assert_array_equal(np.flatnonzero(steps[:, 0] >= 0), sorted(on_paths))


def test_solvers_reach_one_optimum():
    X, y = draw(np.random.default_rng(1), 20)
    crfs = [
        SAGCRF(Lattice(), solver=solver, tol=1e-5, max_iter=3000, random_state=0).fit(X, y)
        for solver in ("sag", "saga", "svrg", "lbfgs", "oeg")
    ]
    svms = [
        BCFWSSVM(Lattice(), tol=1e-4, max_iter=3000, random_state=0).fit(X, y),
        CasimirSSVM(Lattice(), tol=2e-4, max_iter=2000, random_state=0).fit(X, y),
        ExtragradientSSVM(Lattice(), tol=2e-3, max_iter=3000).fit(X, y),
    ]
    for models in (crfs, svms):
        highest = max(model.dual_objective_ for model in models)
        for model in models:
            assert highest <= model.objective_ * (1 + 1e-12) <= highest * 1.002
    lowest = max(model.dual_objective_ for model in svms)
    for rough in (
        SubgradientSSVM(Lattice(), max_iter=2000, random_state=0),
        ProxLinearSSVM(Lattice(), max_iter=400, tol=1e-5, random_state=0),
    ):
        assert lowest <= rough.fit(X, y).objective_ <= 1.15 * lowest


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_predictions_by_enumeration():
    X, y = draw(np.random.default_rng(2), 12)
    crf = SAGCRF(Lattice(), C=10.0, random_state=0).fit(X, y)
    assert crf.pairwise_coef_.shape == (3, 2)
    labellings, values = crf.predict_top_k(X, 3)
    results = zip(
        X,
        y,
        crf.predict(X),
        labellings,
        values,
        crf.predict_marginals(X),
        crf.decision_function(X),
        crf.predict_entropy(X),
        crf.predict_log_likelihood(X, y),
        crf.sample(X, 400, random_state=0),
        strict=True,
    )
    for (arcs, _), true, best, ranked, scores, marginals, each, entropy, log_p, drawn in results:
        paths = paths_of(arcs)
        pairs = [
            crf.pairwise_coef_[arcs[list(path[:-1]), 3], arcs[list(path[1:]), 2]].sum()
            for path in paths
        ]
        total = np.array([each[list(path)].sum() for path in paths]) + pairs
        order = np.argsort(-total, kind="stable")[:3]
        assert best.tolist() == list(paths[order[0]]) == ranked[0].tolist()
        assert_allclose(scores, total[order])
        p = np.exp(total - total.max())
        p /= p.sum()
        expected = [p[[q in path for path in paths]].sum() for q in range(len(arcs))]
        assert_allclose(marginals, expected, atol=1e-12)
        assert_allclose(entropy, -p @ np.log(p), atol=1e-9)
        assert_allclose(log_p, np.log(p[paths.index(tuple(true))]), atol=1e-9)
        counts = [sum(tuple(path) == own for path in drawn.tolist()) for own in paths]
        assert sum(counts) == 400
        assert np.abs(np.array(counts) / 400 - p).max() < 0.1
    right = sum(len({*a} & {*b}) for a, b in zip(y, crf.predict(X), strict=True))
    n = sum(map(len, y)) + sum(map(len, crf.predict(X)))
    assert crf.score(X, y) == pytest.approx(2 * right / n)


def test_masks_and_empty_lattices():
    arcs = np.array([[0, 1], [1, 2], [0, 2]])
    X = [(arcs, np.eye(3)), (arcs, np.eye(3)[::-1])]
    svm = BCFWSSVM(Lattice(), random_state=0).fit(X, [[2], [0, 1]])
    masks = [np.array([True, True, False]), np.array([False, True, True])]
    assert [path.tolist() for path in svm.predict(X, allowed=masks)] == [[0, 1], [2]]
    with pytest.raises(ValueError, match="sample 0"):
        svm.predict(X[:1], allowed=[np.array([True, False, False])])
    nothing = np.empty((0, 2), dtype=int), np.empty((0, 3))
    assert [p.tolist() for p in svm.predict([nothing, X[0], nothing])] == [[], [2], []]
    assert [p.tolist() for p in svm.predict_top_k([nothing], 2)[0][0]] == [[]]
    assert len(svm.predict([])) == 0


def test_numbers_of_vertices_and_the_order_of_arcs_do_not_matter():
    X, y = draw(np.random.default_rng(3))
    rng, moved, paths = np.random.default_rng(4), [], []
    for (arcs, x), path in zip(X, y, strict=True):
        order = rng.permutation(len(arcs))
        far = arcs * [10**15, 10**15, 1, 1]
        moved.append((far[order], x[order]))
        paths.append(np.argsort(order)[path])
    fits = [
        SAGCRF(Lattice(), solver="lbfgs", tol=1e-8).fit(*data) for data in ((X, y), (moved, paths))
    ]
    assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-6)


ARCS = np.array([[0, 1], [1, 3], [0, 2], [4, 5], [2, 5]])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([ARCS], [[2, 4]], "X: sample 0 must be a pair"),
        ([(ARCS, np.ones((4, 1)))], [[2, 4]], "X: sample 0 has 5 arcs, but 4 rows"),
        (
            [(ARCS[:, ::-1], np.ones((5, 1)))],
            [[2, 4]],
            r"X: sample 0: arc 0, \[1, 0\], would close",
        ),
        ([(ARCS - 1, np.ones((5, 1)))], [[2, 4]], "X: sample 0: arc 0, .* has a negative number"),
        ([(ARCS[:, :1], np.ones((5, 1)))], [[2, 4]], "X: the arcs of sample 0 must be integers"),
        ([(ARCS[:4], np.ones((4, 1)))], [[0]], "no path from vertex 0 to 5, the last: .* at 3"),
        ([(ARCS[3:4], np.ones((1, 1)))], [[0]], "no path from vertex 0 to 5, the last: .* at 0"),
        ([(ARCS[:0], np.ones((0, 1)))], [[]], "X: sample 0 is empty"),
        (
            [(ARCS, np.ones((5, 1)))],
            [[2, 1]],
            "y: sample 0 is not a path: arc 1 begins at vertex 1",
        ),
        (
            [(ARCS, np.ones((5, 1)))],
            [[4, 2]],
            "y: sample 0 is not a path: arc 4 begins at vertex 2",
        ),
        ([(ARCS, np.ones((5, 1)))], [[0, 1]], "y: sample 0 is not a path: it ends at vertex 3"),
        ([(ARCS, np.ones((5, 1)))], [[]], "y: sample 0 is not a path: it ends at vertex 0"),
        ([(ARCS, np.ones((5, 1)))], [[2, 5]], "y: sample 0 has positions outside 0 to 4"),
        ([(ARCS, np.ones((5, 1)))], [["a"]], "y: sample 0 must be the positions of its arcs"),
        ([(ARCS, np.ones((5, 1)))], [[2, 4], [0]], "X has 1 samples, but y has 2"),
        (
            [(np.ma.masked_equal(ARCS, 4), np.ones((5, 1)))],
            [[2, 4]],
            "X: the array of arcs of sample 0 has masked",
        ),
        ([(ARCS, np.ones((5, 1)))], [np.ma.masked_equal([2, 4], 4)], "y: sample 0 has masked"),
        ([(ARCS, np.full((5, 1), np.nan))], [[2, 4]], r"NaN \(sample 0, arc 0\)"),
    ],
)
def test_bad_input_is_named(X, y, message):
    with pytest.raises(ValueError, match=message):
        SAGCRF(Lattice()).fit(X, y)


def test_what_lattices_do_not_have():
    X, y = draw(np.random.default_rng(5))
    crf = SAGCRF(Lattice(), random_state=0).fit(X, y)
    with pytest.raises(
        ValueError, match=r"X: sample 1 has an arc of right class 3, but in fit .* 3"
    ):
        crf.predict([X[0], (np.array([[0, 1, 0, 3]]), np.ones((1, 3)))])
    with pytest.raises(TypeError, match="GDMMSSVM is not available for Lattice"):
        GDMMSSVM(Lattice()).fit(X, y)
    with pytest.raises(
        ValueError, match=r"missing labels and sets of labels are for nodes|positions"
    ):
        SAGCRF(Lattice()).fit(X, [None, *y[1:]])


def test_shards_are_refused(tmp_path):
    X, y = draw(np.random.default_rng(6))
    with pytest.raises(TypeError, match="Lattice has a find_classes of its own"):
        pack_shards(tmp_path / "s", X, y, graph=Lattice())


def test_copies(tmp_path):
    X, y = draw(np.random.default_rng(7))
    crf = SAGCRF(Lattice(), random_state=0).fit(X, y)
    again = [pickle.loads(pickle.dumps(crf))]
    skops = pytest.importorskip("skops.io")
    skops.dump(crf, tmp_path / "model.skops")
    again.append(skops.load(tmp_path / "model.skops", trusted=TRUSTED))
    for copy in again:
        for one, other in zip(crf.predict_marginals(X), copy.predict_marginals(X), strict=True):
            assert_array_equal(one, other)


def test_streams_and_warm_starts_keep_weights_of_the_same_classes():
    X, y = draw(np.random.default_rng(8))
    few = [(np.column_stack([arcs[:, :2], arcs[:, 2:] * 0]), x) for arcs, x in X]
    crf = SAGCRF(Lattice(), warm_start=True, solver="lbfgs", max_iter=1000).fit(few, y)
    weight = crf.pairwise_coef_[0, 0]
    crf.set_params(max_iter=1, tol=1e9).fit(X, y)
    assert_allclose(crf.pairwise_coef_[0, 0], weight, atol=0.2)
    stream = SAGCRF(Lattice(), random_state=0).partial_fit(few, y)
    assert stream.pairwise_coef_.shape == (1, 1)
    assert stream.partial_fit(X, y).pairwise_coef_.shape == (3, 2)
    assert stream.partial_fit(few, y).pairwise_coef_.shape == (3, 2)


def test_threads_give_the_same_bits():
    X, y = draw(np.random.default_rng(9), 40)
    fits = [SAGCRF(Lattice(), n_jobs=n, random_state=0).fit(X, y) for n in (1, 2)]
    assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_explanations_add_up():
    X, y = draw(np.random.default_rng(10))
    crf = SAGCRF(Lattice(), random_state=0).fit(X, y)
    labellings, scores = crf.predict_top_k(X, 2)
    for x, ranked, values in zip(X, labellings, scores, strict=True):
        for path, value in zip(ranked, values, strict=True):
            assert_allclose(explain(crf, x, path)["contribution"].sum(), value, atol=1e-12)
    assert transition_frame(crf).shape == (3, 2)
