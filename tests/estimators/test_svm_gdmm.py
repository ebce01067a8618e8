"""GDMMSSVM: the optimum of other solvers, certificates, searches, large label sets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from skstruct import BCFWSSVM, GDMMSSVM, Chain, MultiClass, MultiLabel, RaggedArray, Tree
from skstruct.core.jit.dispatch import kernel
from skstruct.core.weights import Weights
from skstruct.graphs.chain import SparseChainProblem
from skstruct.solvers.gdmm.active_sets import EXACT, SUBLINEAR, GDMMOptions, one_entry_each, packed
from skstruct.solvers.gdmm.factors import _new_state, gdmm_graph, search_pair
from skstruct.testing import all_labellings, random_sequences
from skstruct.testing.structure import FeatureCounts
from tests.helpers.multilabel_cases import make_labels


def _data(structure):
    X, y = random_sequences(np.random.default_rng(11), n_samples=24)
    if structure == "trees":
        rng = np.random.default_rng(2)
        parents = [[int(rng.integers(t)) if t else -1 for t in range(len(x))] for x in X]
        return list(zip(X, parents, strict=True)), y
    if structure == "table":
        return np.vstack(X), np.concatenate(y)
    return (X, y) if structure.startswith("chain") else make_labels(n_samples=40)


STRUCTURES = {
    "chains": Chain(),
    "chains with boundary": Chain(boundary=True),
    "trees": Tree(),
    "table": MultiClass(),
    "labels": MultiLabel(),
    "labels, tree": MultiLabel("tree"),
    "labels, tree with tables": MultiLabel("tree", tables=True),
    "labels, full": MultiLabel("full"),
    "labels, relaxed": MultiLabel("full", inference="relaxed"),
    "labels, relaxed with tables": MultiLabel("full", tables=True, inference="relaxed"),
}
# With cycles nodes and edges that agree are a point of the relaxation, with few labels, too.
SOLVED = {"labels, full": "labels, relaxed"}
TIGHT = {"C": 0.3, "tol": 2e-4, "max_iter": 3000, "random_state": 0}


@pytest.fixture(scope="module")
def optima():
    """Brackets of the optimum by another solver, found when asked for."""
    known = {}

    def find(structure, loss="hamming"):
        if (structure, loss) not in known:
            graph = STRUCTURES[structure]
            best = BCFWSSVM(graph, C=0.3, loss=loss, tol=1e-5, max_iter=20000, random_state=0)
            best.fit(*_data(structure))
            known[structure, loss] = best.dual_objective_, best.objective_
        return known[structure, loss]

    return find


@pytest.mark.parametrize("variant", ["bcfw", "afw", "bgcd"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_same_optimum_as_bcfw_with_a_certificate(structure, variant, optima):
    low, high = optima(SOLVED.get(structure, structure))
    svm = GDMMSSVM(STRUCTURES[structure], variant=variant, **TIGHT).fit(*_data(structure))
    assert svm.dual_objective_ <= high + 1e-9
    assert low - 1e-9 <= svm.objective_ <= high * (1 + 1e-3)
    assert svm.dual_gap_ <= 2e-4 * svm.objective_
    assert_allclose(svm.objective_ - svm.dual_objective_, svm.dual_gap_, atol=1e-12)


@pytest.mark.parametrize("search", ["exact", "sampled"])
@pytest.mark.parametrize("structure", ["chains", "trees", "table", "labels, tree", "labels, full"])
def test_searches_agree(structure, search, optima):
    svm = GDMMSSVM(STRUCTURES[structure], search=search, n_partitions=2, **TIGHT)
    svm.fit(*_data(structure))
    assert svm.objective_ <= optima(SOLVED.get(structure, structure))[1] * (1 + 1e-3)


@pytest.mark.parametrize("loss", ["normalized_hamming", [[0, 1, 2], [0.5, 0, 1.5], [3, 1, 0]]])
@pytest.mark.parametrize("structure", ["chains", "trees"])
def test_other_losses(structure, loss):
    X, y = _data(structure)
    common = {"graph": STRUCTURES[structure], "C": 0.3, "loss": loss, "random_state": 0}
    best = BCFWSSVM(**common, tol=1e-5, max_iter=20000).fit(X, y)
    svm = GDMMSSVM(**common, tol=1e-3, max_iter=3000).fit(X, y)
    assert_allclose(svm.objective_, best.objective_, rtol=2e-3)


def test_sample_weights_and_seeds():
    X, y = _data("chains")
    weight = np.arange(len(X)) % 3
    rows = np.repeat(np.arange(len(X)), weight)
    weighted = GDMMSSVM(**TIGHT).fit(X, y, sample_weight=weight)
    repeated = GDMMSSVM(**TIGHT).fit([X[i] for i in rows], [y[i] for i in rows])
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-3)
    again = GDMMSSVM(**TIGHT).fit(X, y, sample_weight=weight)
    assert_array_equal(again.node_weights_, weighted.node_weights_)
    assert_array_equal(again.pair_weights_, weighted.pair_weights_)


def test_relaxed_certificate_is_that_of_linear_programs():
    X, Y = make_labels(n_samples=25, n_labels=4)
    graph = MultiLabel("full", inference="relaxed")
    svm = GDMMSSVM(graph, C=1.0, tol=1e-3, max_iter=5000, random_state=0).fit(X, Y)
    edges = svm.graph_.edges_
    rows = np.zeros((3 * len(edges), 4 + len(edges)))
    for e, (j, k) in enumerate(edges):
        rows[3 * e, [4 + e, j]] = 1, -1
        rows[3 * e + 1, [4 + e, k]] = 1, -1
        rows[3 * e + 2, [4 + e, j, k]] = -1, 1, 1
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        unary = x @ svm.coef_.T + svm.intercept_
        score = np.concatenate([unary + 1.0 - 2.0 * y, svm.pairwise_coef_])
        bound = np.tile([0.0, 0.0, 1.0], len(edges))
        answer = linprog(-score, A_ub=rows, b_ub=bound, bounds=(0, 1))
        right = y @ unary + (y[edges[:, 0]] * y[edges[:, 1]]) @ svm.pairwise_coef_
        total += -answer.fun + y.sum() - right
    norm = (svm.node_weights_**2).sum() + (svm.pair_weights_**2).sum()
    assert_allclose(svm.objective_, 0.5 * norm / len(X) + total / len(X), rtol=1e-6)
    assert svm.dual_gap_ <= 1e-3 * svm.objective_


def test_with_cycles_predictions_stay_exact():
    X, Y = make_labels(n_samples=25, n_labels=5)
    svm = GDMMSSVM(MultiLabel("full"), C=1.0, tol=1e-2, max_iter=1000, random_state=0).fit(X, Y)
    assert svm.graph_.training_inference_ == "relaxed"
    assert svm.graph_.inference_ == "exact"
    labellings = all_labellings(5, 2)
    both = labellings[:, svm.graph_.edges_[:, 0]] * labellings[:, svm.graph_.edges_[:, 1]]
    for x, labels in zip(X, svm.predict(X), strict=True):
        scores = labellings @ (svm.coef_ @ x + svm.intercept_) + both @ svm.pairwise_coef_
        assert_array_equal(labels, labellings[scores.argmax()])
    forest = GDMMSSVM(MultiLabel("tree"), C=1.0, tol=1e-2, max_iter=1000).fit(X, Y)
    assert forest.graph_.training_inference_ == "exact"
    relaxed = GDMMSSVM(MultiLabel("full", inference="relaxed"), C=1.0, tol=1e-2, max_iter=1000)
    assert relaxed.fit(X, Y).graph_.inference_ == "relaxed"


def test_without_multipliers_a_gap_remains():
    X, y = _data("chains")
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        soft = GDMMSSVM(C=0.3, multipliers=False, max_iter=200, tol=1e-4, random_state=0).fit(X, y)
    full = GDMMSSVM(C=0.3, max_iter=2000, tol=1e-4, random_state=0).fit(X, y)
    assert soft.infeasibility_ > 10 * full.infeasibility_
    assert soft.objective_ >= full.dual_objective_


def test_history_and_certificate_at_the_end():
    X, y = _data("chains")
    svm = GDMMSSVM(C=0.3, tol=1e-3, max_iter=40, gap_every=0, random_state=0)
    with pytest.warns(ConvergenceWarning):
        svm.set_params(tol=1e-12).fit(X, y)
    history = svm.history_
    assert len(history["passes"]) == svm.n_iter_ == 40
    assert np.isnan(history["objective"][:-1]).all()
    assert history["objective"][-1] == svm.objective_
    assert (np.diff(history["seconds"]) >= 0).all()
    assert history["search_seconds"][-1] < history["seconds"][-1]
    assert history["infeasibility"][-1] == svm.infeasibility_ < history["infeasibility"][0]
    assert (history["node_set"] >= 1).all()
    assert (history["edge_set"] >= 1).all()


@pytest.mark.parametrize("structure", ["chains", "table", "labels, full"])
def test_stops_on_infeasibility_without_certificates(structure):
    svm = GDMMSSVM(STRUCTURES[structure], C=0.3, tol=3e-3, max_iter=5000, gap_every=0)
    svm.set_params(random_state=0).fit(*_data(structure))
    assert svm.n_iter_ < 5000
    assert svm.infeasibility_ <= 3e-3
    assert svm.dual_gap_ <= 0.05 * svm.objective_


def test_forbidden_steps():
    X, _ = random_sequences(np.random.default_rng(3), n_samples=20, max_length=5)
    names = np.array(["B-x", "I-x", "O"])
    y = [names[[0, 1, 2, 0, 1][: len(x)]] for x in X]
    graph = Chain(forbidden="iob2", boundary=True)
    svm = GDMMSSVM(graph, C=0.5, tol=1e-3, max_iter=2000, random_state=0).fit(X, y)
    best = BCFWSSVM(graph, C=0.5, tol=1e-5, max_iter=20000, random_state=0).fit(X, y)
    assert_allclose(svm.objective_, best.objective_, rtol=1e-3)
    assert svm.dual_objective_ <= best.objective_ + 1e-9
    assert np.isfinite(svm.pairwise_coef_).all()
    for labels in svm.predict(X):
        steps = set(zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True))
        assert ("O", "I-x") not in steps


def _many_labels(n_labels=150, n_samples=60, seed=0):
    """Chains that walk around a ring of labels; each label has a noisy code of features."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, size=n_samples)
    codes = rng.random((n_labels, 40)) < 0.2
    X, y = [], []
    for n in lengths:
        labels = (int(rng.integers(n_labels)) + np.cumsum(rng.integers(1, 3, size=n))) % n_labels
        flips = rng.random((n, 40)) < 0.05
        X.append(sparse.csr_matrix((codes[labels] ^ flips).astype(float)))
        y.append(labels)
    return X, y


def test_many_labels_are_decoded_sparsely_and_exactly():
    X, y = _many_labels()
    svm = GDMMSSVM(C=1.0, tol=5e-2, max_iter=400, random_state=0).fit(X, y)
    samples = svm.graph_.read_X(svm, X, reset=False)
    problem = svm.graph_.make_problem(samples, svm.classes_, True)
    weights = Weights(svm.node_weights_, svm.pair_weights_)
    assert isinstance(svm.graph_.decoding(problem, weights), SparseChainProblem)
    own = type("OwnProblem", (type(problem),), {})(*problem)  # perhaps with oracles of its own
    assert svm.graph_.decoding(own, weights) is own
    sparse_answer = svm.predict(X)
    assert np.mean(np.concatenate(list(sparse_answer)) == np.concatenate(y)) > 0.9
    svm.pair_weights_ += 1e-13  # no zeros are left: the dense pass decodes
    assert not isinstance(svm.graph_.decoding(problem, weights), SparseChainProblem)
    for a, b in zip(sparse_answer, svm.predict(X), strict=True):
        assert_array_equal(a, b)


def test_sublinear_search_visits_the_same_optimum_with_many_labels():
    X, y = _many_labels(n_labels=80, n_samples=40)
    common = {"C": 0.5, "tol": 2e-3, "max_iter": 3000, "random_state": 0}
    sublinear = GDMMSSVM(n_partitions=4, **common).fit(X, y)
    exact = GDMMSSVM(search="exact", **common).fit(X, y)
    assert_allclose(sublinear.objective_, exact.objective_, rtol=4e-3)
    assert sublinear.history_["edge_set"][-1] < 80


search_kernel = kernel(search_pair.py_func)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ties", [False, True])
def test_ordered_search_finds_what_a_scan_finds(seed, ties):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.choice([2, 17, 40]))
    samples = [sparse.csr_matrix(rng.random((2, 3)))]
    graph = Chain()
    packed_X = graph.read_X(FeatureCounts(), samples, reset=True)
    codes = rng.integers(n_labels, size=2).astype(np.int32)
    problem = graph.make_problem(packed_X, np.arange(n_labels), True, codes=codes)
    factors = gdmm_graph(graph.factors(problem, packed_X))
    table = rng.integers(-2, 3, (n_labels,) * 2) if ties else rng.normal(size=(n_labels,) * 2)
    table = np.where(rng.random(table.shape) < 0.1, -np.inf, table.astype(float))
    state = _new_state(factors, np.ones(1), table, SUBLINEAR)
    counts = []
    for side in range(2):
        touched = rng.choice(n_labels, size=rng.integers(n_labels + 1), replace=False)
        state.pad.touched[side, : touched.size] = touched
        state.pad.mark[side, touched] = 1
        state.pad.message[side, touched] = rng.normal(size=touched.size)
        counts.append(touched.size)
    values = table - 0.7 * (state.pad.message[0][:, None] + state.pad.message[1][None, :])
    for search in (SUBLINEAR, EXACT):
        options = GDMMOptions(0, search, 1.0, 1.0, 1, 1)
        value, a, b = search_kernel(options, state, *counts, 0.7, 0.0)
        assert_allclose(value, values.max(), rtol=1e-12)
        assert_allclose(values[a, b], values.max(), rtol=1e-12)


def test_arenas_keep_their_entries():
    sets = one_entry_each(np.arange(10), 0.5)
    again = packed(sets, 5000)
    for field in ("key", "share", "price"):
        for which in range(10):
            a = getattr(sets, field)[sets.start[which] : sets.start[which] + 1]
            b = getattr(again, field)[again.start[which] : again.start[which] + 1]
            assert_array_equal(a, b)
    assert again.key.size >= 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.0}, "'rho' parameter"),
        ({"rho": -1.0}, "'rho' parameter"),
        ({"eta": 0.0}, "'eta' parameter"),
        ({"eta": 2.0}, "'eta' parameter"),
        ({"variant": "sgd"}, "'variant' parameter"),
        ({"search": "heap"}, "'search' parameter"),
        ({"n_partitions": 0}, "'n_partitions' parameter"),
    ],
)
def test_bad_parameters(options, message):
    X, y = _data("chains")
    with pytest.raises(ValueError, match=message):
        GDMMSSVM(**options).fit(X, y)


def test_single_nodes_as_chains():
    X, y = _data("table")
    chains = GDMMSSVM(C=0.1, tol=1e-4, max_iter=2000, random_state=0)
    chains.fit([x[None, :] for x in X], [[label] for label in y])
    table = GDMMSSVM(C=0.1, tol=1e-4, max_iter=2000, random_state=0).fit(X, y)
    assert_allclose(chains.objective_, table.objective_, rtol=2e-4)


@pytest.mark.parametrize("C", [5e-324, 1e308])
def test_regularisation_out_of_range(C):
    with pytest.raises(ValueError, match=r"C times the sum of sample_weight must be a usable"):
        GDMMSSVM(C=C).fit(*_data("chains"))


def test_strong_regularisation_keeps_distributions_whole():
    """Gradients over C of 1e100 must not cost the projection its unit of mass."""
    X, y = _data("chains")
    for variant in ("bcfw", "afw"):
        svm = GDMMSSVM(C=1e-100, variant=variant, tol=1e-2, max_iter=100, random_state=0).fit(X, y)
        assert_allclose(svm.dual_objective_, np.mean([len(labels) for labels in y]), rtol=1e-2)


def test_edge_features_are_refused():
    X, y = _data("chains")
    pairs = [(x, np.ones((len(x) - 1, 2))) for x in X]
    with pytest.raises(TypeError, match="does not take edge features: use BCFWSSVM"):
        GDMMSSVM(Chain(edge_features=True)).fit(pairs, y)


def test_packed_input_and_not_finite_features():
    X, y = _data("chains")
    packed_X, packed_y = RaggedArray.from_list(X), RaggedArray.from_list(y)
    one = GDMMSSVM(C=0.1, random_state=0).fit(X, y)
    two = GDMMSSVM(C=0.1, random_state=0).fit(packed_X, packed_y)
    assert_array_equal(one.coef_, two.coef_)
    broken = [x.copy() for x in X]
    broken[3][0, 0] = np.nan
    with pytest.raises(ValueError, match="sample 3"):
        GDMMSSVM().fit(broken, y)


def test_block_greedy_steps_do_not_diverge():
    rng = np.random.default_rng(0)
    X, y = random_sequences(rng, n_samples=20, n_labels=25, n_features=8, max_length=40)
    optimum = BCFWSSVM(C=1.0, tol=1e-3, max_iter=3000, random_state=0).fit(X, y)
    options = {"C": 1.0, "tol": 2e-2, "max_iter": 500, "random_state": 0}
    greedy = GDMMSSVM(variant="bgcd", **options).fit(X, y)
    assert greedy.suboptimality_ <= 2e-2  # 0.78 with the eta of the other variants
    assert greedy.objective_ >= optimum.dual_objective_
    assert greedy.dual_objective_ <= optimum.objective_
