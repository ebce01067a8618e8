"""GDMMSSVM: the optimum of other solvers, certificates, searches, large label sets."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    Chain,
    Grid,
    MultiLabel,
    Pairwise,
    decode,
)
from skstruct.core.factors import BinaryFactors
from skstruct.core.jit.kernels import kernel
from skstruct.core.offsets import places_of
from skstruct.core.weights import Weights
from skstruct.datasets import pack_shards
from skstruct.estimators.svm_gdmm import RUNS
from skstruct.graphs.pairwise.graph import pair_columns
from skstruct.solvers.gdmm.active_sets import EXACT, SUBLINEAR, GDMMOptions, one_entry_each, packed
from skstruct.solvers.gdmm.factors import _new_state, gdmm_graph, search_pair
from skstruct.solvers.gdmm.labels import LabelRun
from skstruct.spaces.chain import RangedChainSpace
from skstruct.testing import all_labellings, random_sequences
from skstruct.testing.structure import FeatureCounts
from tests.helpers.certificate_cases import STRUCTURES, draw
from tests.helpers.image_cases import smooth_images
from tests.helpers.multilabel_cases import make_labels


def _gdmm(graph="auto", **options):
    """GDMM itself, with few labels, too."""
    return GDMMSSVM(graph, algorithm="gdmm", **options)


def _data(structure):
    return draw(structure, 11, 24)


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


def test_relaxed_certificate_is_that_of_linear_programs():
    X, Y = make_labels(n_samples=25, n_labels=4)
    graph = MultiLabel("full", inference="relaxed")
    svm = _gdmm(graph, C=1.0, tol=1e-3, max_iter=5000, random_state=0).fit(X, Y)
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
    svm = _gdmm(MultiLabel("full"), C=1.0, tol=1e-2, max_iter=1000, random_state=0).fit(X, Y)
    assert svm.training_inference_ == "relaxed"
    assert svm.inference_ == "exact"
    labellings = all_labellings(5, 2)
    both = labellings[:, svm.graph_.edges_[:, 0]] * labellings[:, svm.graph_.edges_[:, 1]]
    for x, labels in zip(X, svm.predict(X), strict=True):
        scores = labellings @ (svm.coef_ @ x + svm.intercept_) + both @ svm.pairwise_coef_
        assert_array_equal(labels, labellings[scores.argmax()])
    forest = _gdmm(MultiLabel("tree"), C=1.0, tol=1e-2, max_iter=1000).fit(X, Y)
    assert forest.training_inference_ == "exact"
    relaxed = _gdmm(MultiLabel("full", inference="relaxed"), C=1.0, tol=1e-2, max_iter=1000)
    assert relaxed.fit(X, Y).inference_ == "relaxed"


def test_without_multipliers_a_gap_remains():
    X, y = _data("chains")
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        soft = _gdmm(C=0.3, multipliers=False, max_iter=200, tol=1e-4, random_state=0).fit(X, y)
    full = _gdmm(C=0.3, max_iter=2000, tol=1e-4, random_state=0).fit(X, y)
    assert soft.infeasibility_ > 10 * full.infeasibility_
    assert soft.objective_ >= full.dual_objective_


def test_history_and_certificate_at_the_end():
    X, y = _data("chains")
    svm = _gdmm(C=0.3, tol=1e-3, max_iter=40, gap_every=0, random_state=0)
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
    svm = _gdmm(STRUCTURES[structure], C=0.3, tol=3e-3, max_iter=5000, gap_every=0)
    svm.set_params(random_state=0).fit(*_data(structure))
    assert svm.n_iter_ < 5000
    assert svm.infeasibility_ <= 3e-3
    assert svm.dual_gap_ <= 0.05 * svm.objective_


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


def test_many_labels_are_decoded_with_transitions_apart():
    X, y = _many_labels()
    svm = _gdmm(C=1.0, tol=5e-2, max_iter=400, random_state=0).fit(X, y)
    samples = svm.graph_.read_X(svm, X, reset=False)
    problem = svm.graph_.make_problem(samples, svm.classes_, True)
    weights = Weights(svm.node_weights_, svm.pair_weights_)
    assert isinstance(svm.graph_.decoding(problem, weights).space, RangedChainSpace)
    space = problem.space  # of a class that has perhaps oracles of its own
    own = problem._replace(space=type("OwnSpace", (type(space),), {})(*space))
    assert svm.graph_.decoding(own, weights) is own
    assert np.mean(np.concatenate(list(svm.predict(X))) == np.concatenate(y)) > 0.9
    for x, found in zip(X[:9], svm.predict(X[:9]), strict=True):
        each = np.repeat(svm.pairwise_coef_[None], x.shape[0] - 1, axis=0)
        best = decode(x @ svm.coef_.T + svm.intercept_, each)
        assert svm.classes_[best].tolist() == found.tolist()


def test_sublinear_search_visits_the_same_optimum_with_many_labels():
    X, y = _many_labels(n_labels=80, n_samples=40)
    common = {"C": 0.5, "tol": 2e-3, "max_iter": 3000, "random_state": 0}
    sublinear = _gdmm(n_partitions=4, **common).fit(X, y)
    exact = _gdmm(search="exact", **common).fit(X, y)
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
        ({"algorithm": "bcfw"}, "'algorithm' parameter"),
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
    chains = _gdmm(C=0.1, tol=1e-4, max_iter=2000, random_state=0)
    chains.fit([x[None, :] for x in X], [[label] for label in y])
    table = _gdmm(C=0.1, tol=1e-4, max_iter=2000, random_state=0).fit(X, y)
    assert_allclose(chains.objective_, table.objective_, rtol=2e-4)


def test_strong_regularisation_keeps_distributions_whole():
    """Gradients over C of 1e100 must not cost the projection its unit of mass."""
    X, y = _data("chains")
    for variant in ("bcfw", "away"):
        svm = _gdmm(C=1e-100, variant=variant, tol=1e-2, max_iter=100, random_state=0).fit(X, y)
        assert_allclose(svm.dual_objective_, np.mean([len(labels) for labels in y]), rtol=1e-2)


class DenseLagrangian:
    """The augmented Lagrangian of GDMM on chains of equal weight, with all entries stored.

    `z` has features of edges, and the columns of `fold` are the weights that pairs have.
    """

    def __init__(self, X, y, cost, C, rho, z=None, fold=None):
        self.x, self.cost, self.C, self.rho = np.vstack(X), cost, C, rho
        eye, ends = np.eye(len(cost)), np.cumsum([0, *map(len, y)])
        self.truth = eye[np.concatenate(y)]
        first = [t for i in range(len(y)) for t in range(ends[i], ends[i + 1] - 1)]
        self.ends = np.array([first, np.add(first, 1)]).T
        self.true_pairs = np.einsum("fa,fb->fab", *self.truth[self.ends.T])
        self.nu = np.zeros((2, len(first), len(cost)))
        self.z = np.ones((len(first), 1)) if z is None else z
        self.fold = np.eye(len(cost) ** 2) if fold is None else fold

    def u(self, q, p):
        return np.stack([p.sum(axis=2) - q[self.ends[:, 0]], p.sum(axis=1) - q[self.ends[:, 1]]])

    def weights(self, q, p):
        node = self.C * self.x.T @ (self.truth - q)
        change = (self.true_pairs - p).reshape(len(p), self.fold.shape[0])
        return node, self.C * self.z.T @ (change @ self.fold)

    def value(self, q, p):
        """(12) over C^2."""
        squares = sum((w**2).sum() for w in self.weights(q, p)) / self.C**2
        loss = (q * (self.truth @ self.cost)).sum() / self.C
        return 0.5 * squares - loss + 0.5 * self.rho * ((self.u(q, p) + self.nu) ** 2).sum()

    def ascent(self, q, p):
        """The negative gradients of :meth:`value`."""
        (node, pair), m = self.weights(q, p), self.u(q, p) + self.nu
        table = (self.z @ pair @ self.fold.T).reshape(p.shape)
        to_node = (self.x @ node + self.truth @ self.cost) / self.C
        for side in range(2):
            np.add.at(to_node, self.ends[:, side], self.rho * m[side])
        return to_node, table / self.C - self.rho * (m[0][:, :, None] + m[1][:, None, :])


def _projected(z):
    """Projection of a vector onto the simplex, by sorting."""
    ordered = np.sort(z)[::-1]
    thresholds = (np.cumsum(ordered) - 1.0) / np.arange(1, z.size + 1)
    return np.maximum(z - thresholds[np.flatnonzero(ordered > thresholds)[-1]], 0.0)


def _algorithm_2(dense, n_passes, eta):
    q, p = dense.truth.copy(), dense.true_pairs.copy()
    bases, dropped_ever = [[1.0, q, p]], False
    for _ in range(n_passes):
        dropped = True
        while dropped:
            gq, gp = dense.ascent(q, p)
            best_q = np.eye(gq.shape[1])[gq.argmax(axis=1)]
            flat = gp.reshape(len(gp), -1)
            best_p = np.eye(flat.shape[1])[flat.argmax(axis=1)].reshape(gp.shape)
            values = [(gq * v).sum() + (gp * r).sum() for _, v, r in bases]
            level, away = (gq * q).sum() + (gp * p).sum(), int(np.argmin(values))
            toward = (gq * best_q).sum() + (gp * best_p).sum() - level >= level - values[away]
            share, vq, vp = bases[away]
            dq, dp = (best_q - q, best_p - p) if toward else (q - vq, p - vp)
            # The value is a parabola in the step: three of its points give the minimum.
            f = [dense.value(q + s * dq, p + s * dp) for s in (-1.0, 0.0, 1.0)]
            step, most = 0.0, 1.0 if toward else share / (1.0 - share)
            step = min((f[0] - f[2]) / (2.0 * (f[0] + f[2] - 2.0 * f[1])), most)
            q, p = q + step * dq, p + step * dp
            for base in bases:
                base[0] *= 1.0 - step if toward else 1.0 + step
            if toward:
                same = [b for b in bases if (b[1] == best_q).all() and (b[2] == best_p).all()]
                if same:
                    same[0][0] += step
                else:
                    bases.append([step, best_q, best_p])
            else:
                bases[away][0] -= step
            bases = [base for base in bases if base[0] > 1e-14]
            dropped = not toward and step == most
            dropped_ever |= dropped
        dense.nu += eta * dense.u(q, p)
    return dense.weights(q, p), dropped_ever


def _algorithm_3(dense, n_passes, eta):
    """For one sample."""
    q, p = dense.truth.copy(), dense.true_pairs.copy()
    n, active = len(q), []
    degree = np.bincount(dense.ends.ravel(), minlength=n)
    squares, k = (dense.x**2).sum(axis=1), q.shape[1]
    sharing = (dense.z**2).sum(axis=1).max() * dense.fold.sum(axis=0).max()
    bounds = (squares + dense.rho * degree).max(), sharing + 2.0 * k * dense.rho
    largest = max(*bounds, 4.0 * (max(1.0, squares.max()) + dense.rho))

    def solved(f):
        to_node, to_pair = dense.ascent(q, p)
        g = to_node[f] if f < n else to_pair[f - n].ravel()
        old = (q[f] if f < n else p[f - n]).ravel()
        d = _projected(old + g / largest) - old
        return d, g @ d - 0.5 * largest * d @ d

    for _ in range(n_passes):
        found = int(np.argmax([solved(f)[1] for f in range(n + len(p))]))
        active = sorted({*active, found})
        for f in active:
            d = solved(f)[0]
            if f < n:
                q[f] += d
            else:
                p[f - n] += d.reshape(k, k)
        dense.nu += eta * dense.u(q, p)
    return dense.weights(q, p), len(active) < n + len(p)


_PATHS = [
    (variant, n_passes, edges)
    for variant, n_passes in (("afw", 25), ("bgcd", 1), ("bgcd", 6))
    for edges in ("one table", "features", "symmetric", "potts")
    if (variant, edges) != ("afw", "potts")  # unequal labels tie: any of them is a greedy direction
]


@pytest.mark.thinned
@pytest.mark.parametrize(("variant", "n_passes", "edges"), _PATHS)
def test_paths_of_algorithms_2_and_3(variant, n_passes, edges):
    # With costs of the same best label twice, pairs of one weight tie, and rounding would choose.
    rng, cost = np.random.default_rng(5), np.array([[0, 2.2, 1], [0.5, 0, 1.5], [3, 1, 0]])
    X = [rng.normal(size=(t, 4)) for t in ((3, 2, 4) if variant == "afw" else (3,))]
    y = [np.arange(len(x)) % 3 for x in X]
    z = [rng.normal(size=(len(x) - 1, 2)) for x in X]
    graph, data, fold, reference = Chain(), X, None, z
    if edges == "one table":
        reference = [np.ones((len(rows), 1)) for rows in z]
    elif edges == "features":
        graph, data = Chain(edge_features=True), list(zip(X, z, strict=True))
    else:
        graph = Pairwise(edge_features=True, interactions=edges)
        pairs = [np.array([(t, t + 1) for t in range(len(x) - 1)]) for x in X]
        data = list(zip(X, pairs, z, strict=True))
        columns = pair_columns(edges, 3).ravel()
        fold = np.eye(columns.max() + 2)[columns][:, :-1]
    options = {"eta": 0.3, "rho": 0.7, "C": 0.4}
    svm = _gdmm(graph, variant=variant, search="exact", loss=cost, **options)
    svm.set_params(fit_intercept=False, max_iter=n_passes, tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning):
        svm.fit(data, y)
    dense = DenseLagrangian(X, y, cost, 0.4, 0.7, np.vstack(reference), fold)
    paths = {"afw": _algorithm_2, "bgcd": _algorithm_3}
    (node, pair), special = paths[variant](dense, n_passes, 0.3)
    if edges == "one table":
        assert special  # a basis was dropped; factors are left that were never active
    assert_allclose(svm.node_weights_, node, atol=1e-9)
    assert_allclose(svm.pair_weights_, pair, atol=1e-9)


@pytest.mark.thinned
@pytest.mark.parametrize("variant", ["afw", "bgcd"])
@pytest.mark.parametrize("structure", ["chains", "trees, edge features", "table"])
def test_algorithms_2_and_3_reach_the_optimum(structure, variant, optima, monkeypatch):
    monkeypatch.setattr("skstruct.solvers.gdmm.factors.FEW_LABELS", 0)  # search by trees
    low, high = optima(structure)
    svm = _gdmm(STRUCTURES[structure], variant=variant, eta=0.5, **TIGHT)
    svm.set_params(tol=2e-3).fit(*_data(structure))
    assert svm.dual_objective_ <= high
    assert low <= svm.objective_ <= high * (1 + 2e-3)
    assert svm.dual_gap_ <= 2e-3 * svm.objective_


@pytest.mark.parametrize("n_passes", [3, 12])
def test_pairs_of_label_sets_at_rest_and_awake(n_passes, monkeypatch):
    """Weights follow from the shares; few edges wake per visit; absent pairs keep their bound."""
    rng, runs = np.random.default_rng(0), []
    X = rng.normal(size=(40, 6))
    Y = ((X @ rng.normal(size=(6, 25)) + rng.normal(size=(40, 25))) > 3.2).astype(int)
    first, second = np.triu_indices(25, 1)
    never = (Y[:, first] * Y[:, second]).sum(axis=0) == 0
    assert 0.2 < never.mean() < 0.95

    class Kept(LabelRun):
        def one_pass(self, *args):
            super().one_pass(*args)
            runs.append((self, self.state.awake.size.copy()))

    monkeypatch.setitem(RUNS, BinaryFactors, Kept)
    svm = _gdmm(MultiLabel("full"), C=0.5, max_iter=n_passes, tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning):
        svm.fit(X, Y)
    assert_array_equal(svm.graph_.edges_, np.stack([first, second], axis=1))
    state = runs[-1][0].state
    a, b = state.on[:, first], state.on[:, second]
    both = np.where(never, np.maximum(a + b - 1.0, 0.0), a * b)
    owner, place = places_of(state.awake.start, state.awake.size)
    assert (owner.size > 0) == (n_passes > 5)
    both[owner, state.awake.key[place]] = state.awake.share[place]
    pair = 0.5 * (Y[:, first] * Y[:, second] - both).sum(axis=0)
    assert_allclose(svm.pairwise_coef_, pair, atol=1e-12)
    assert (svm.pairwise_coef_[never] <= 1e-12).all()
    assert_allclose(svm.coef_, 0.5 * (Y - state.on).T @ X, atol=1e-10)
    sizes = np.array([size for _, size in runs])
    assert (np.diff(sizes, axis=0) <= 80).all()


def test_joint_directions_are_refused_on_label_sets():
    with pytest.raises(ValueError, match='variant="afw" is not available for label sets'):
        _gdmm(MultiLabel(), variant="afw").fit(*_data("labels"))


@pytest.mark.slow
def test_block_greedy_steps_do_not_diverge():
    rng = np.random.default_rng(0)
    X, y = random_sequences(rng, n_samples=20, n_labels=25, n_features=8, max_length=40)
    optimum = BCFWSSVM(C=1.0, tol=1e-3, max_iter=3000, random_state=0).fit(X, y)
    options = {"C": 1.0, "tol": 5e-2, "max_iter": 600, "random_state": 0}
    greedy = _gdmm(variant="bgcd", **options).fit(X, y)
    assert greedy.suboptimality_ <= 5e-2
    assert greedy.objective_ >= optimum.dual_objective_
    assert greedy.dual_objective_ <= optimum.objective_


def test_one_visit_of_an_edge_with_features():
    """Two nodes, one pass from the truth: nodes step first, then their edge, three times."""
    rng, C, rho = np.random.default_rng(3), 0.6, 0.8
    x, z, y = rng.normal(size=(2, 3)), rng.normal(size=(1, 2)), np.array([0, 1])
    options = {"C": C, "rho": rho, "fit_intercept": False, "max_iter": 1, "random_state": 0}
    svm = _gdmm(Chain(edge_features=True), **options)
    with pytest.warns(ConvergenceWarning):
        svm.fit([(x, z)], [y])
    dense = DenseLagrangian([x], [y], 1.0 - np.eye(2), C, rho, z)
    q, p = dense.truth.copy(), dense.true_pairs.copy()
    for j in range(2):
        q[j] = _projected(q[j] + dense.ascent(q, p)[0][j] / ((x[j] ** 2).sum() + rho))
    # The active set: the truth, and the best pair.
    best = int(dense.ascent(q, p)[1].argmax())
    active = sorted({1, best}, key=lambda pair: pair != 1)
    crossing = 1.0 + 1.0 + (best in (0, 3)) if len(active) > 1 else 2.0
    for _ in range(3 if len(active) > 1 else 0):
        step = dense.ascent(q, p)[1].ravel()[active]
        p.reshape(-1)[active] = _projected(
            p.ravel()[active] + step / ((z**2).sum() + rho * crossing)
        )
    assert len(active) > 1
    node, pair = dense.weights(q, p)
    assert_allclose(svm.node_weights_, node, atol=1e-12)
    assert_allclose(svm.pair_weights_, pair, atol=1e-12)


def test_soft_constraints_end_nearer_with_a_larger_penalty():
    """Soft-BCFW without multipliers: Meshi, Srebro, Hazan 2015."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=20, n_labels=5, max_length=8)
    options = {"multipliers": False, "C": 0.3, "tol": 0.0, "random_state": 0, "gap_every": 1}
    histories = []
    for rho in (1.0, 10.0):
        with pytest.warns(ConvergenceWarning):
            svm = _gdmm(rho=rho, max_iter=400, **options).fit(X, y)
        histories.append(svm.history_["dual_gap"])
    loose, tight = histories
    assert tight[-1] < loose[-1]
    assert tight[2] > loose[2]


# Few labels: the steps of BCFWSSVM.

FEW = {"C": 0.3, "tol": 1e-3, "max_iter": 2000, "random_state": 0}


def _takes_block_steps(svm):
    return bool(np.isnan(svm.history_["node_set"]).all())


@pytest.mark.parametrize("structure", ["chains", "table", "labels, full", "graphs, relaxed"])
def test_block_steps_where_labels_are_few(structure):
    X, y = _data(structure)
    svm = GDMMSSVM(STRUCTURES[structure], **FEW).fit(X, y)
    assert _takes_block_steps(svm)
    own = _gdmm(STRUCTURES[structure], **FEW).fit(X, y)
    assert not _takes_block_steps(own)
    assert own.history_.keys() == svm.history_.keys()
    assert svm.dual_objective_ <= own.objective_
    assert own.dual_objective_ <= svm.objective_


def test_block_steps_are_those_of_bcfw_with_any_number_of_threads():
    X, y = _data("chains")
    bcfw = BCFWSSVM(gap_every=10, **FEW).fit(X, y)
    for n_jobs in (1, 2):
        svm = GDMMSSVM(n_jobs=n_jobs, **FEW).fit(X, y)
        assert_array_equal(svm.node_weights_, bcfw.node_weights_)
        assert_array_equal(svm.pair_weights_, bcfw.pair_weights_)
        assert svm.n_iter_ == bcfw.n_iter_
        assert svm.suboptimality_ == bcfw.suboptimality_ <= 1e-3
        assert svm.infeasibility_ == 0.0 == svm.history_["infeasibility"].max()


@pytest.mark.parametrize(
    "own",
    [
        {"algorithm": "gdmm"},
        {"variant": "away"},
        {"search": "exact"},
        {"n_partitions": 1},
        {"rho": 0.5},
        {"eta": 1.0},
        {"multipliers": False},
        {"gap_every": 0},
    ],
    ids=str,
)
def test_parameters_of_gdmm_choose_it(own):
    X, y = _data("chains")
    svm = GDMMSSVM(C=0.3, max_iter=5, tol=0.5, random_state=0).set_params(**own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert not _takes_block_steps(svm.fit(X, y))


def test_models_stored_without_the_algorithm():
    svm = GDMMSSVM(C=0.3, tol=0.5, random_state=0).fit(*_data("chains"))
    del svm.__dict__["algorithm"]
    again = pickle.loads(pickle.dumps(svm))
    assert clone(again).get_params()["algorithm"] == "auto"
    assert _takes_block_steps(again.fit(*_data("chains")))


def test_many_labels_and_little_memory_choose_gdmm(monkeypatch):
    fits = []
    for n_labels in (128, 129):
        X, y = _many_labels(n_labels=n_labels, n_samples=200)
        assert np.unique(np.concatenate(y)).size == n_labels
        fits.append(GDMMSSVM(tol=0.5, random_state=0).fit(X, y))
    assert list(map(_takes_block_steps, fits)) == [True, False]

    def too_much(n_bytes, what, advice):
        raise MemoryError(what)

    monkeypatch.setattr("skstruct.solvers.bcfw.solver.check_memory", too_much)
    assert not _takes_block_steps(GDMMSSVM(tol=0.5, random_state=0).fit(*_data("chains")))


@pytest.mark.parametrize("tables", [False, True])
def test_label_sets_with_many_pairs_choose_gdmm(tables):
    n_labels = (16, 17) if not tables else (8, 9)  # 120 and 136, 112 and 144 weights
    fits = []
    for n in n_labels:
        X, Y = make_labels(n_samples=30, n_labels=n)
        svm = GDMMSSVM(MultiLabel("full", tables=tables), C=0.01, tol=0.5, random_state=0)
        fits.append(_takes_block_steps(svm.fit(X, Y)))
    assert fits == [True, False]


# Passes: nothing stalls, and no bound is negative.

IMAGES = {
    "images": Grid(),
    "images, lp": Grid(inference="lp"),
    "images, contrast": Grid(edge_features="contrast"),
    "images, diagonals": Grid(neighborhood=8),
    "images, Potts": Grid(interactions="potts"),
}


def _in_order(a, b):
    """The two brackets of one optimum overlap, without slack, and no bound is negative."""
    assert a.dual_objective_ <= b.objective_
    assert b.dual_objective_ <= a.objective_
    for svm in (a, b):
        assert np.nanmin(svm.history_["dual_objective"]) >= 0.0 <= svm.dual_objective_


@pytest.mark.thinned
@pytest.mark.parametrize(("C", "most"), [(0.1, 300), (1.0, 300), (10.0, 500)])
@pytest.mark.parametrize("name", IMAGES)
def test_images_take_few_passes(name, C, most):
    X, y = smooth_images()
    svm = GDMMSSVM(IMAGES[name], C=C, max_iter=most, random_state=0).fit(X, y)
    assert svm.suboptimality_ <= 1e-2
    graph = clone(IMAGES[name]).set_params(inference="lp")
    _in_order(svm, BCFWSSVM(graph, C=C, steps="frank-wolfe", tol=0.3, random_state=1).fit(X, y))


@pytest.mark.parametrize("variant", ["bcfw", "away"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_gdmm_itself_does_not_stall_on_images(variant, n_labels):
    X, y = smooth_images(n_labels)
    for C in (0.1, 1.0):
        svm = _gdmm(Grid(), C=C, variant=variant, random_state=0).fit(X, y)
        assert svm.suboptimality_ <= 1e-2
        best = BCFWSSVM(Grid(inference="lp"), C=C, random_state=0).fit(X, y)
        _in_order(svm, best)


@pytest.mark.thinned
@pytest.mark.parametrize("variant", ["bcfw", "away", "bgcd", "afw"])
@pytest.mark.parametrize("structure", ["chains", "trees", "table", "images, contrast"])
def test_bounds_of_all_variants_after_few_passes(structure, variant):
    data = smooth_images(n_samples=6) if structure in IMAGES else _data(structure)
    graph = (STRUCTURES | IMAGES)[structure]
    relaxed = clone(graph).set_params(inference="lp") if structure in IMAGES else graph
    for C in (0.1, 100.0):
        best = BCFWSSVM(relaxed, C=C, tol=1e-3, random_state=0, max_iter=3000)
        svm = _gdmm(graph, C=C, variant=variant, max_iter=12, gap_every=1, eta=1.9, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            _in_order(svm.fit(*data), best.fit(*data))


@pytest.mark.parametrize("structure", ["chains", "table", "images"])
def test_settled_iterates_are_certified(structure):
    """At a large C the first passes move almost nothing."""
    data = smooth_images(n_samples=6) if structure in IMAGES else _data(structure)
    graph = (STRUCTURES | IMAGES)[structure]
    svm = GDMMSSVM(graph, C=1e4, gap_every=0, max_iter=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="leave algorithm") as caught:
        svm.set_params(algorithm="gdmm").fit(*data)
    assert len(caught) == 1
    assert svm.suboptimality_ > 1e-2


def test_shards_are_trained_by_gdmm(tmp_path):
    X, y = _data("chains")
    shards = pack_shards(X, y, tmp_path / "three", shard_size=8)
    assert not _takes_block_steps(GDMMSSVM(**FEW).fit(shards))
