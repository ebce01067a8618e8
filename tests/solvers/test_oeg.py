"""solver="oeg": optima, certificates, threads and refusals of online exponentiated gradient."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax, xlogy
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skstruct import SAGCRF, Chain, Grid, MultiLabel, Pairwise, Tree
from skstruct.core import memory
from skstruct.core.parallel import Pieces
from skstruct.core.weights import squared_norm
from skstruct.estimators import crf_path
from skstruct.losses.log import LogLoss
from skstruct.solvers import hybrid, oeg
from skstruct.solvers.oeg import OEG
from skstruct.testing import all_labellings, random_sequences, training_problem


@pytest.fixture
def few():
    """Fifteen sequences."""
    return random_sequences(np.random.default_rng(3), n_samples=15)


@pytest.fixture
def compact(monkeypatch):
    """Fifteen sequences whose states are compact: all but the residuals of the first samples."""
    monkeypatch.setattr(oeg, "_LARGE", 100)
    monkeypatch.setattr(oeg, "_ROOM", 100)
    states, present = [], oeg._new_state

    def spied(problem, single):
        states.append(present(problem, single))
        assert states[-1].phi.dtype == np.float32
        assert states[-1].residuals.dtype == (np.float32 if single else np.float64)
        assert states[-1].residuals.size == (1 + single) * oeg._ROOM < states[-1].phi.size
        return states[-1]

    monkeypatch.setattr(oeg, "_new_state", spied)
    yield random_sequences(np.random.default_rng(3), n_samples=15, n_labels=4, max_length=4)
    assert states


def test_a_table_has_the_optimum_of_logistic_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    weight = rng.uniform(0.2, 3.0, size=40)
    crf = SAGCRF("multiclass", C=2.0, solver="oeg", tol=1e-10, random_state=0, fit_intercept=False)
    crf.fit(X, y, sample_weight=weight)
    peer = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000, fit_intercept=False)
    peer.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(crf.coef_, peer.coef_, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("few", {"C": 0.1}),
        ("few", {"C": 30.0}),
        ("few", {"margin": "hamming"}),
        ("few", {"class_weight": "balanced"}),
        ("compact", {"C": 0.1}),
        ("compact", {"C": 30.0}),
    ],
)
def test_each_epoch_has_a_certificate(request, data, options):
    X, y = request.getfixturevalue(data)
    labels = np.unique(np.concatenate(y)).tolist()
    graph = Chain(forbidden=[(labels[0], labels[1])])
    y = [[labels[2] if a == labels[1] else a for a in row] for row in y]
    y[0] = [labels[1]] + [labels[2]] * (len(y[0]) - 1)
    weight = np.random.default_rng(0).uniform(0.1, 4.0, size=len(y))
    options = {"graph": graph, "random_state": 0, "max_iter": 3000} | options
    best = SAGCRF(solver="lbfgs", tol=1e-11, **options).fit(X, y, sample_weight=weight)
    crf = SAGCRF(solver="oeg", tol=1e-7, track_objective=True, **options)
    crf.fit(X, y, sample_weight=weight)
    assert (crf.history_["dual_objective"] <= best.objective_).all()
    assert (crf.history_["objective"] >= best.dual_objective_).all()
    assert crf.objective_ == pytest.approx(best.objective_, rel=1e-6)
    assert crf.suboptimality_ <= 1e-7
    assert np.isfinite(crf.node_weights_).all()
    np.testing.assert_allclose(crf.gradient_norm_, 0.0, atol=1e-2)


@pytest.mark.parametrize("data", ["few", "compact"])
def test_single_precision_changes_no_bound(request, data):
    few = request.getfixturevalue(data)
    best = SAGCRF(solver="lbfgs", tol=1e-11, max_iter=1000).fit(*few)
    for tol in (1e-2, 1e-8):
        crf = SAGCRF(solver="oeg", precision="single", tol=tol, random_state=0).fit(*few)
        assert crf.suboptimality_ <= tol
        assert crf.dual_objective_ <= best.objective_
        assert crf.objective_ >= best.dual_objective_
        assert crf.node_weights_.dtype == np.float64


def test_no_epoch_lowers_its_dual_and_seeds_and_threads_change_no_bit(few, monkeypatch):
    gains, present = [], OEG._visits

    def dual(self):
        """Dual objective of the proximal problem, up to a constant."""
        half_norm = 0.5 * squared_norm(self.w) / (self._options.inverse * self.n)
        return self.state.terms @ self.sample_weight / self.n - half_norm

    def spied(self, *arguments):
        before = dual(self)
        gap = present(self, *arguments)
        gains.append(dual(self) - before)
        return gap

    monkeypatch.setattr(OEG, "_visits", spied)
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    options = {"solver": "oeg", "tol": 1e-6, "random_state": 0, "precision": "double"}
    first = SAGCRF(**options).fit(*few)
    assert len(gains) == first.n_iter_
    assert min(gains) >= -1e-12
    assert (np.diff(first.history_["dual_objective"]) >= 0.0).all()
    again = SAGCRF(n_jobs=2, **options).fit(*few)
    assert (first.node_weights_ == again.node_weights_).all()
    assert first.dual_gap_ == again.dual_gap_
    other = SAGCRF(**options | {"random_state": 1}).fit(*few)
    assert (first.node_weights_ != other.node_weights_).any()


def _enumerated(x, y, n_labels):
    """Indicators of all labellings of a sequence, that of the true one, and its feature map."""
    n, size = len(y), (len(y) + n_labels) * n_labels

    def indicator(labels):
        mu = np.zeros(size)
        for t, k in enumerate(labels):
            mu[t * n_labels + k] += 1.0
            if t:
                mu[(n + labels[t - 1]) * n_labels + k] += 1.0
        return mu

    rows = np.column_stack([x, np.ones(n)])
    nodes, pairs = np.kron(rows, np.eye(n_labels)), np.eye(n_labels**2)
    A = np.block(
        [
            [nodes, np.zeros((len(nodes), len(pairs)))],
            [np.zeros((len(pairs), nodes.shape[1])), pairs],
        ]
    )
    return np.array([indicator(a) for a in all_labellings(n, n_labels)]), indicator(y), A


def test_compact_steps_are_those_by_hand(compact):
    X, y = compact
    problem, _, shapes, n_labels = training_problem(Chain(), X, y)
    n, lam, codes = len(y), 0.05, np.split(problem.labels, problem.label_ptr[1:-1])
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=n)
    samples = [_enumerated(*pair, n_labels) for pair in zip(X, codes, strict=True)]
    method = OEG(problem, shapes, weight, lam, None, loss=LogLoss())

    def vector():
        return np.concatenate([table.ravel() for table in method.weights().tables])

    def mixture(i):
        """Potentials, residual and entropy."""
        part, (MU, mu, _) = slice(*problem.part_ptr[i : i + 2]), samples[i]
        phi = method.state.phi[part].astype(float)
        p = softmax(MU @ phi)
        return phi, p @ MU - mu, -xlogy(p, p).sum()

    rng = np.random.default_rng(0)
    for k in (1, 2, 3):
        centre, rho = vector(), method._early(k) * method.rho
        method.epoch(k, rng, SimpleNamespace(pieces=Pieces()))
    mixtures = [mixture(i) for i in range(n)]
    sums = [s * (r @ A) for s, (_, r, _), (*_, A) in zip(weight, mixtures, samples, strict=True)]
    g = np.sum(sums, axis=0) / n
    np.testing.assert_allclose(vector(), (rho * centre - g) / (lam + rho), atol=1e-12)
    term, directions = method.leave()
    np.testing.assert_allclose(np.concatenate(directions), g, atol=1e-12)
    entropies = weight @ [mixture(i)[2] for i in range(n)] / n
    assert term == pytest.approx(entropies, abs=1e-10)
    # The best between the truth and this dual point.
    shares = np.linspace(0.0, 1.0, 10001)
    duals = shares * term - shares**2 * (g @ g) / (2.0 * lam)
    assert method._dual_objective() == pytest.approx(duals.max(), rel=1e-6)
    n_whole = 0
    for i in range(n):
        phi, before, _ = mixture(i)
        w, rate, A = vector(), method.state.rates[i], samples[i][2]
        method._steps(np.array([i]))
        now, after, entropy = mixture(i)
        change = -weight[i] / ((lam + rho) * n) * (after - before) @ A
        np.testing.assert_allclose(vector() - w, change, atol=1e-12)
        assert method.state.terms[i] == pytest.approx(entropy, abs=1e-10)
        n_whole += np.allclose(now, (1 - rate) * phi + rate * (A @ w), rtol=3e-7, atol=1e-7)
    assert n_whole > n / 2  # others were made again with lower rates


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [0.5, 50.0])
def test_how_many_residuals_are_stored_changes_rounding_alone(compact, monkeypatch, C):
    X, y = compact
    options = {"solver": "oeg", "C": C, "max_iter": 20, "tol": 0.0, "random_state": 0}
    fits = []
    for room in (0, 100, 200):
        monkeypatch.setattr(oeg, "_ROOM", room)
        fits.append(SAGCRF(**options).fit(X, y))
    again = SAGCRF(n_jobs=2, **options).fit(X, y)
    np.testing.assert_array_equal(again.pairwise_coef_, fits[-1].pairwise_coef_)
    for crf in fits:
        np.testing.assert_allclose(crf.node_weights_, fits[-1].node_weights_, atol=1e-5)
        assert crf.objective_ == pytest.approx(fits[-1].objective_, rel=1e-8)
    calls = [crf.history_["oracle_calls"][-1] for crf in fits]
    assert calls[0] > calls[1] > calls[2]  # what is not stored is found again


@pytest.mark.parametrize("room", [0, 100, 1000])
def test_rounded_residuals_give_exact_bounds(monkeypatch, room):
    X, y = random_sequences(np.random.default_rng(3), n_samples=15, n_labels=4, max_length=4)
    best = SAGCRF(C=5.0, solver="lbfgs", tol=1e-11, max_iter=2000).fit(X, y)
    monkeypatch.setattr(oeg, "_LARGE", 100)
    monkeypatch.setattr(oeg, "_ROOM", room)
    options = {"C": 5.0, "solver": "oeg", "precision": "single", "random_state": 0}
    for tol in (0.1, 1e-2, 1e-3, 1e-9):  # the last one ends in double precision
        crf = SAGCRF(tol=tol, **options).fit(X, y)
        assert crf.suboptimality_ <= tol
        assert crf.history_["dual_objective"].max() <= best.objective_
        assert best.dual_objective_ <= crf.objective_


@pytest.mark.parametrize("precision", ["double", "single"])
def test_a_path_keeps_a_compact_dual_point(compact, monkeypatch, precision):
    monkeypatch.setattr(hybrid, "_MANY", 1)
    X, y = compact
    X = [sparse.csr_matrix(x) for x in X]
    options, Cs = {"tol": 1e-6, "random_state": 0, "max_iter": 2000}, [0.5, 2.0, 1.0]
    options["precision"] = precision
    for crf in crf_path(SAGCRF(**options), X, y, Cs):
        alone = SAGCRF(C=crf.C, solver="lbfgs", tol=1e-10, max_iter=2000).fit(X, y)
        assert crf.suboptimality_ <= 1e-6
        assert crf.dual_objective_ <= alone.objective_
        assert alone.dual_objective_ <= crf.objective_


def test_a_leap_on_a_path_begins_at_the_last_weights(monkeypatch):
    monkeypatch.setattr(hybrid, "_MANY", 1)
    rng = np.random.default_rng(1)
    y = [rng.integers(3, size=6).tolist() for _ in range(15)]
    X = [sparse.csr_matrix(np.eye(60)[rng.integers(20, size=6) + 20 * np.array(t)]) for t in y]
    # From the weights of the dual point with the new C, a million times larger: 0.9999.
    for crf in crf_path(SAGCRF(tol=1e-3, random_state=0, max_iter=150), X, y, [1e-3, 1e3]):
        assert crf.suboptimality_ <= 1e-3


def test_only_large_pair_tables_are_compact(monkeypatch):
    X, y = random_sequences(np.random.default_rng(0), n_labels=4, max_length=4)
    pairs = training_problem(Chain(), X, y)[0]
    assert not oeg.is_compact(pairs)
    assert oeg._new_state(pairs, True).residuals.dtype == np.float64
    monkeypatch.setattr(oeg, "_LARGE", pairs.part_ptr[-1] - 1)
    assert oeg.is_compact(pairs)
    assert oeg._new_state(pairs, True).residuals.size == pairs.part_ptr[-1]
    monkeypatch.setattr(oeg, "_LARGE", 0)
    nodes = training_problem(Chain(), [np.eye(9)] * 2, [np.arange(9) % 2] * 2)[0]
    assert not oeg.is_compact(nodes)
    # An inexact oracle would not find its marginals again.
    triangle = np.ones((3, 1)), np.array([[0, 1], [1, 2], [2, 0]])
    graph, labels = Pairwise(inference="tree-reweighted"), [np.arange(3), np.arange(3, 6)]
    inexact = training_problem(graph, [triangle] * 2, labels)[0]
    assert not oeg.is_compact(inexact)
    graph.set_params(inference="junction-tree")
    assert oeg.is_compact(training_problem(graph, [triangle] * 2, labels)[0])


def test_samples_that_are_certain_do_not_hold_it_up():
    # Gains of the first samples are rounding from the first epochs on: no reason for short steps.
    X = np.array([[1e4, 0.0]] * 5 + [[0.0, 1.0], [0.0, 0.9]] * 5)
    y = [0] * 5 + [0, 1] * 5
    crf = SAGCRF("multiclass", solver="oeg", tol=1e-9, max_iter=100, random_state=0).fit(X, y)
    assert crf.suboptimality_ <= 1e-9


def test_what_it_refuses(few, monkeypatch):
    X, y = few
    with pytest.raises(ValueError, match="does not take warm_start=True"):
        SAGCRF(solver="oeg", warm_start=True).fit(X, y)
    partial = [np.array(row, dtype=object) for row in y]
    partial[0][0] = None
    with pytest.raises(ValueError, match="'oeg' does not take missing labels"):
        SAGCRF(solver="oeg").fit(X, partial)
    monkeypatch.setattr(memory, "available_bytes", lambda: 600)
    monkeypatch.setattr(memory, "_ALWAYS_FREE", 0)
    with pytest.raises(
        MemoryError, match=r"potentials and mixtures of OEG would take [0-9,]+ bytes"
    ):
        SAGCRF(solver="oeg").fit(X, y)


def _draw_graphs(n_edge_types=1):
    """Cycles with a chord, whose labels hardly depend on the features."""
    rng = np.random.default_rng(5)
    X, y = [], []
    for n in (4, 5, 6, 4, 5, 6):
        edges = [(t, t + 1) for t in range(n - 1)] + [(0, n - 1), (1, n - 2)]
        edges = np.array(sorted(set(edges)))
        if n_edge_types > 1:
            edges = np.column_stack([edges, rng.integers(n_edge_types, size=len(edges))])
        X.append((rng.normal(size=(n, 2)), edges))
        y.append(np.arange(n) % 3)
    return X, y


def _draw_grids():
    rng = np.random.default_rng(6)
    return list(rng.normal(size=(6, 3, 3, 2))), list(rng.integers(3, size=(6, 3, 3)))


def _draw_trees():
    X, y = _draw_graphs()
    return [(x, np.maximum(np.arange(len(x)) - 2, -1)) for x, _ in X], y


def _draw_label_sets():
    rng = np.random.default_rng(7)
    return rng.normal(size=(12, 2)), rng.integers(2, size=(12, 4))


def test_one_graph_with_potts_interactions_is_trained():
    """Constant labellings have more edges with equal labels than the truth."""
    X = [(np.ones((4, 1)), [[0, 1], [1, 2], [2, 3], [0, 2]])]
    options = {"C": 10.0, "max_iter": 100, "random_state": 0}
    crf = SAGCRF(Pairwise(interactions="potts"), solver="oeg", **options).fit(X, [[0, 1, 1, 0]])
    assert crf.suboptimality_ <= 1e-3
    assert crf.history_["oracle_calls"][-1] <= 100


@pytest.mark.parametrize(
    ("graph", "draw", "options"),
    [
        (Pairwise(interactions="potts"), _draw_graphs, {"C": 10.0}),
        (Pairwise(interactions="potts"), _draw_graphs, {"C": 2.0, "l1_ratio": 0.3}),
        (
            Pairwise(interactions="potts", edge_types=2, forbidden=[(2, 1)]),
            lambda: _draw_graphs(2),
            {"C": 10.0},
        ),
        (Pairwise(interactions="symmetric"), _draw_graphs, {"C": 10.0}),
        (Grid(edge_features="contrast", interactions="potts"), _draw_grids, {"C": 10.0}),
        (Tree(), _draw_trees, {"C": 10.0}),
        (MultiLabel("full"), _draw_label_sets, {"C": 10.0}),
    ],
    ids=["potts", "potts-l1", "potts-types", "symmetric", "potts-grid", "tree", "label-sets"],
)
def test_every_structure_leaves_the_truth(graph, draw, options):
    """Pairs of labels that share a part, or have none, do not hold up the first visits."""
    X, y = draw()
    best = SAGCRF(graph, solver="lbfgs", tol=1e-9, max_iter=5000, **options).fit(X, y)
    crf = SAGCRF(graph, solver="oeg", random_state=0, **options).fit(X, y)
    assert crf.suboptimality_ <= 1e-3
    assert crf.history_["passes"][-1] <= 300
    assert crf.dual_objective_ <= best.objective_
    assert crf.objective_ >= best.dual_objective_
    assert crf.objective_ <= best.objective_ * (1.0 + 1e-3)


def test_the_default_on_sparse_features_with_potts_interactions(monkeypatch):
    """It begins with exponentiated gradients."""
    monkeypatch.setattr(hybrid, "_MANY", 1)
    X, y = _draw_graphs()
    X = [(sparse.csr_matrix(x), edges) for x, edges in X]
    crf = SAGCRF(Pairwise(interactions="potts"), C=10.0, random_state=0).fit(X, y)
    assert crf.history_["passes"][-1] <= 60


@pytest.mark.slow
@pytest.mark.parametrize(("l1_ratio", "seed"), [(0.0, 3), (0.1, 4)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rounding_of_many_epochs_raises_no_bound(l1_ratio, seed):
    """The gradient of the dual point, known from the change of the weights, drifted from it."""
    rng = np.random.default_rng(seed)
    for _ in range(15):
        n_labels = int(rng.integers(2, 4))
        y = [rng.integers(n_labels, size=n) for n in rng.integers(1, 5, size=rng.integers(2, 7))]
        y[0] = np.arange(n_labels)
        X = [
            np.eye(n_labels)[own] + rng.choice([0.1, 1, 3]) * rng.normal(size=(len(own), n_labels))
            for own in y
        ]
        model = SAGCRF(Chain(), C=rng.choice([10.0, 100.0, 1000.0]), l1_ratio=l1_ratio)
        model.set_params(tol=1e-14, max_iter=500, random_state=0)
        fits = [clone(model).set_params(solver=name).fit(X, y) for name in ("oeg", "lbfgs")]
        least = min(fit.objective_ for fit in fits)
        assert np.nanmax(fits[0].history_["dual_objective"]) <= least
        assert fits[0].dual_objective_ <= least
