"""Relaxations against linear programs, brute force and each other."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.sparse import coo_array
from scipy.special import logsumexp

from skstruct.inference.simplex import project
from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Or,
    Potts,
    Table,
    read_uai,
    solve_map,
)
from skstruct.map_inference.methods.relaxation import Room
from tests.helpers.map_cases import enumerate_best, grid_edges

METHODS = {
    "subgradient": {},
    "coordinate-descent": {},
    "gradient": {"gamma": 0.2},
    "accelerated-gradient": {"gamma": 0.2, "smoothing": "softmax"},
    "strong-accelerated": {"gamma": 0.2, "lam": 0.1, "smoothing": "softmax"},
    "frank-wolfe": {"lam": 0.1},
    "decreasing-smoothing": {},
}
PROJECTING = {
    "sdca": {"gamma": 0.2, "lam": 0.1},
    "strong-accelerated": {"gamma": 0.2, "lam": 0.1},
    "accelerated-gradient": {"gamma": 0.2},
}


def random_graph(seed, forbidden=0.0, implicit=True, logic=(ExactlyOne, AtMostOne, Or), **options):
    """Tables of up to three variables, Potts and implicit factors; ties with even seeds."""
    rng = np.random.default_rng(seed)
    n_states = rng.integers(1, 4, rng.integers(4, 7))
    n_states[:4] = 2 if implicit else n_states[:4]

    def scores(shape, forbidden):
        drawn = rng.integers(-3, 4, shape).astype(float) if seed % 2 else rng.normal(size=shape) * 2
        return np.where(rng.random(shape) < forbidden, -np.inf, drawn)

    factors = []
    for _ in range(rng.integers(3, 12)):
        scope = rng.permutation(n_states.size)[: rng.integers(1, 4)]
        if scope.size == 2 and rng.random() < 0.3:
            factors.append(Potts(*scope, rng.normal()))
        else:
            factors.append(Table(scope, scores(n_states[scope], forbidden)))
    if implicit:
        factors.append(logic[rng.integers(len(logic))]([3, 0, 2, 1], rng.random(4) < 0.5))
        if Or in logic:
            factors.append(Cardinality([0, 1, 2, 3], scores(5, forbidden)))
    unaries = [scores(k, forbidden / 3) for k in n_states]
    return FactorGraph(n_states, factors, unaries=unaries, offset=rng.normal(), **options)


class Dense:
    """The relaxation written out: configurations of all regions, and maps onto children."""

    def __init__(self, graph):
        p, self.graph = graph.regions, graph
        batches = [(b, k) for b in graph.factors for k in range(len(b))]
        self.rows, scopes, scores = [], [], []
        for r in range(p.kind.size):
            scope = p.scope[p.scope_ptr[r] : p.scope_ptr[r + 1]]
            rows = list(itertools.product(*(range(p.n_states[v]) for v in scope)))
            labels = np.zeros((len(rows), graph.n_variables), dtype=int)
            labels[:, scope] = rows
            if r < graph.n_variables:
                scores.append(np.split(graph.unary, graph.state_ptr[1:-1])[r])
            else:
                batch, k = batches[r - graph.n_variables]
                scores.append(np.array([batch.score(x)[k] for x in labels]))
            self.rows.append(rows)
            scopes.append(list(scope))
        self.ptr = np.concatenate([[0], np.cumsum([len(rows) for rows in self.rows])])
        self.theta = np.concatenate(scores)
        entries = []
        for s, (owner, child) in enumerate(zip(p.owner, p.child, strict=True)):
            places = [scopes[owner].index(v) for v in scopes[child]]
            index = {row: k for k, row in enumerate(self.rows[child])}
            first = p.message_ptr[s]
            entries += [(first + k, self.ptr[child] + k, 1) for k in range(len(index))]
            for x, row in enumerate(self.rows[owner]):
                inside = index[tuple(row[d] for d in places)]
                entries.append((first + inside, self.ptr[owner] + x, -1))
        i, j, signs = np.array(entries, dtype=int).reshape(-1, 3).T
        shape = int(p.message_ptr[-1]), self.theta.size
        self.consistency = coo_array((signs.astype(float), (i, j)), shape=shape).tocsr()

    def lp_value(self):
        """Value of the linear program, by HiGHS."""
        n = len(self.rows)
        region = np.repeat(np.arange(n), np.diff(self.ptr))
        sums = coo_array((np.ones(region.size), (region, np.arange(region.size))))
        finite = np.isfinite(self.theta)
        result = linprog(
            -np.where(finite, self.theta, 0.0),
            A_eq=np.concatenate([sums.toarray(), self.consistency.toarray()]),
            b_eq=np.concatenate([np.ones(n), np.zeros(self.consistency.shape[0])]),
            bounds=np.column_stack([np.zeros(region.size), finite.astype(float)]),
            method="highs",
        )
        return -np.inf if result.status == 2 else self.graph.offset - result.fun

    def log_sizes(self):
        """Sum of the logarithms of the numbers of configurations."""
        return float(np.log(np.diff(self.ptr)).sum())

    def smooth_and_strong(self, delta, gamma, lam, smoothing):
        """The smoothed dual with the square of the messages, and its gradient."""
        hat = self.theta + self.consistency.T @ delta
        total, mu = self.graph.offset + lam / 2 * delta @ delta, np.zeros(hat.size)
        for start, stop in itertools.pairwise(self.ptr):
            if smoothing == "softmax":
                value = gamma * logsumexp(hat[start:stop] / gamma)
                mu[start:stop] = np.exp((hat[start:stop] - value) / gamma)
            else:
                u = hat[start:stop] / gamma
                project(u, u.size)
                mu[start:stop] = u
                positive = u > 0
                value = u[positive] @ hat[start:stop][positive] - gamma / 2 * u @ u
            total += value
        return total, self.consistency @ mu + lam * delta

    def optimum(self, gamma, lam, smoothing):
        """The least value, by SciPy."""
        start = np.zeros(self.consistency.shape[0])
        options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
        arguments = gamma, lam, smoothing
        return minimize(
            self.smooth_and_strong, start, arguments, "L-BFGS-B", jac=True, options=options
        ).fun


def check(graph, result, best):
    """What all results must keep."""
    assert result.score <= best
    history = result.history_
    assert len({column.size for column in history.values()}) == 1
    assert result.bound >= best
    assert (history["bound"] >= best).all()
    assert result.bound == history["bound"].min()
    assert (history["score"][1:] >= history["score"][:-1]).all()
    assert result.score == -np.inf or result.score == pytest.approx(graph.score(result.labels))
    assert np.isfinite(result.duals).all()
    if result.bound > -np.inf:
        assert Room(graph.regions).bound(result.duals)[0] == pytest.approx(result.bound, abs=1e-9)
    if result.optimal:
        assert result.score == pytest.approx(best, abs=1e-5)
    if result.beliefs is not None:
        sums = [belief.sum() for belief in result.beliefs]
        assert np.allclose(sums, 1.0) or best == -np.inf


@pytest.mark.parametrize("method", METHODS)
@given(
    seed=st.integers(0, 10**6),
    forbidden=st.sampled_from([0.0, 0.15, 0.4]),
    regions=st.sampled_from(["variables", "pairs"]),
)
@settings(max_examples=12)
def test_bounds_hold(method, seed, forbidden, regions):
    graph = random_graph(seed, forbidden, regions=regions)
    result = solve_map(graph, method, max_iter=30, random_state=0, **METHODS[method])
    check(graph, result, enumerate_best(graph))


@pytest.mark.parametrize("method", PROJECTING)
@given(seed=st.integers(0, 10**6), forbidden=st.sampled_from([0.0, 0.15, 0.4]))
@settings(max_examples=12)
def test_bounds_hold_with_projections(method, seed, forbidden):
    graph = random_graph(seed, forbidden, logic=(ExactlyOne, AtMostOne))
    result = solve_map(graph, method, max_iter=30, random_state=0, **PROJECTING[method])
    check(graph, result, enumerate_best(graph))


@given(seed=st.integers(0, 10**6), regions=st.sampled_from(["variables", "pairs"]))
@settings(max_examples=12)
def test_decreasing_smoothing_reaches_the_linear_program(seed, regions):
    graph = random_graph(seed, 0.1, regions=regions)
    value = Dense(graph).lp_value()
    result = solve_map(graph, "decreasing-smoothing", tol=1e-6, max_iter=10000)
    if value == -np.inf:
        assert result.score == -np.inf
    else:
        assert value - 1e-9 <= result.bound <= value + 2e-6 * max(1.0, abs(value))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_smoothed_optima_are_within_their_own_bounds(seed):
    graph = random_graph(seed, logic=(ExactlyOne, AtMostOne))
    dense, gamma = Dense(graph), 0.3
    value = dense.lp_value()
    common = {"gamma": gamma, "tol": 1e-9, "max_iter": 4000}
    soft = solve_map(graph, "accelerated-gradient", smoothing="softmax", **common)
    descent = solve_map(graph, "coordinate-descent", smoothing=gamma, tol=1e-9, max_iter=2000)
    for result in (soft, descent):
        top = value + gamma * dense.log_sizes()
        assert result.history_["objective"][-1] <= top + 1e-6 or result.optimal
        assert value - 1e-9 <= result.bound <= top + 1e-6
    for method in ("gradient", "accelerated-gradient"):
        l2 = solve_map(graph, method, smoothing="l2", **common)
        assert l2.history_["objective"][-1] <= value + 1e-3 or l2.optimal
        shift = gamma * len(dense.rows) / 2
        assert value - 1e-9 <= l2.bound <= value + shift + 1e-3


@given(seed=st.integers(0, 10**6))
@settings(max_examples=8)
def test_smooth_and_strong_methods_agree(seed):
    graph = random_graph(seed, 0.1, logic=(ExactlyOne, AtMostOne))
    if any(np.isneginf(solve_map(graph, "subgradient", max_iter=1).history_["bound"])):
        return
    dense = Dense(graph)
    common = {"gamma": 0.5, "lam": 0.3, "tol": 1e-9, "max_iter": 3000, "random_state": 0}
    reference = dense.optimum(0.5, 0.3, "l2")
    for method in ("sdca", "strong-accelerated"):
        result = solve_map(graph, method, **common)
        history = result.history_
        if result.message.startswith("the labelling is proved"):
            continue
        value, gap = history["objective"][-1], history["dual_gap"][-1]
        assert value == pytest.approx(reference, abs=1e-6 * max(1.0, abs(reference)) + gap)
        assert gap <= 1e-8 * max(1.0, abs(value))
        assert (history["dual_gap"][1:] >= 0).all()
    soft = solve_map(graph, "strong-accelerated", smoothing="softmax", **common)
    if not soft.message.startswith("the labelling is proved"):
        reference = dense.optimum(0.5, 0.3, "softmax")
        assert soft.history_["objective"][-1] == pytest.approx(reference, abs=1e-6)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=5)
def test_gap_of_frank_wolfe_bounds_its_suboptimality(seed):
    graph, lam = random_graph(seed, 0.1), 0.5
    result = solve_map(graph, "frank-wolfe", lam=lam, tol=0, max_iter=400, random_state=0)
    if result.bound == -np.inf or result.optimal:
        return
    history, value = result.history_, Dense(graph).lp_value()
    objective, gap = history["objective"], history["dual_gap"]
    best = objective.max()
    assert (np.diff(objective) >= -1e-9 * np.abs(objective[1:])).all()
    assert (objective + gap >= best - 1e-9 * abs(best)).all()
    assert (objective + gap >= value - 1e-9).all()
    # The smooth problem with next to no smoothing has the same optimum.
    dense = Dense(graph).optimum(1e-3, lam, "l2")
    n_regions = graph.regions.kind.size
    assert objective[-1] <= dense + 1e-3 * n_regions / 2 + 1e-6
    assert objective[-1] + gap[-1] >= dense - 1e-6


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@given(seed=st.integers(0, 10**6), regions=st.sampled_from(["variables", "pairs"]))
@settings(max_examples=15)
def test_coordinate_descent_never_rises(smoothing, seed, regions):
    graph = random_graph(seed, 0.1, regions=regions)
    result = solve_map(graph, "coordinate-descent", smoothing=smoothing, max_iter=40)
    objective = result.history_["objective"]
    objective = objective[np.isfinite(objective)]
    assert (np.diff(objective) <= 1e-9 * np.maximum(1.0, np.abs(objective[1:]))).all()


def test_large_factors_are_updated_at_once():
    rng = np.random.default_rng(0)
    n = 30
    hinge = Cardinality.quadratic_hinge(range(n), target=9, slack=1)
    chain = Potts(range(n - 1), range(1, n), 0.5)
    graph = FactorGraph([2] * n, [chain, hinge], unaries=rng.normal(size=2 * n) + 0.5)
    for smoothing in (0.0, 0.05):
        result = solve_map(graph, "coordinate-descent", smoothing=smoothing, max_iter=300)
        objective = result.history_["objective"]
        assert (np.diff(objective) <= 1e-9 * np.abs(objective[1:])).all()
        assert objective[-1] < objective[0] - 1.0
    wolfe = solve_map(graph, "frank-wolfe", lam=0.05, max_iter=500, random_state=0)
    assert wolfe.gap < 0.05 * abs(wolfe.score)
    assert abs(wolfe.labels.sum() - 9) <= 2


def frustrated_triangle(regions):
    pairs = Potts([0, 1, 0], [1, 2, 2], -1.0)
    return FactorGraph([2, 2, 2], [pairs, Table([0, 1, 2], np.zeros((2, 2, 2)))], regions=regions)


def test_pairs_within_larger_factors_are_tighter():
    best = enumerate_best(frustrated_triangle("variables"))
    assert best == -1.0
    loose = solve_map(frustrated_triangle("variables"), "decreasing-smoothing")
    assert loose.bound == pytest.approx(0.0, abs=1e-5)
    for method in ("decreasing-smoothing", "coordinate-descent"):
        tight = solve_map(frustrated_triangle("pairs"), method)
        assert tight.optimal
        assert tight.bound == pytest.approx(-1.0, abs=1e-5)
    tight = solve_map(frustrated_triangle("pairs"), "subgradient")
    assert tight.score == -1.0
    assert tight.bound <= -0.95
    wolfe = solve_map(frustrated_triangle("pairs"), "frank-wolfe", lam=0.01, random_state=0)
    assert -1.0 <= wolfe.bound <= -0.9


def stuck_model():
    """As the synthetic model of figure 1 of Meshi, Mahdavi, Schwing 2015: ties everywhere.

    The linear program is at 2, above all labellings.
    """
    unaries = [[0, -1], [0, 0], [-1, 1], [-1, -1]]
    tables = np.array(
        [
            [[[-1, 1], [0, 0]], [[0, 1], [1, 0]]],
            [[[0, 1], [-1, -1]], [[-1, -1], [0, 0]]],
            [[[1, 1], [1, 0]], [[0, 1], [1, 1]]],
            [[[0, 1], [-1, -1]], [[0, 0], [1, 1]]],
        ]
    )
    scopes = list(itertools.combinations(range(4), 3))
    return FactorGraph([2] * 4, [Table(scopes, tables)], unaries=unaries)


def test_coordinate_descent_is_stuck_where_smoothing_is_not():
    graph = stuck_model()
    assert Dense(graph).lp_value() == pytest.approx(2.0)
    stuck = solve_map(graph, "coordinate-descent", tol=1e-12, max_iter=5000)
    assert stuck.message == "the objective no longer falls"
    assert stuck.bound > 2.29
    smooth = solve_map(graph, "coordinate-descent", smoothing=0.02, max_iter=5000)
    assert smooth.bound < 2.1
    assert solve_map(graph, "decreasing-smoothing", max_iter=5000).bound < 2.00001
    assert solve_map(graph, "accelerated-gradient", gamma=0.02, max_iter=5000).bound < 2.1
    assert solve_map(graph, "frank-wolfe", lam=0.02, max_iter=5000, random_state=0).bound < 2.1
    assert solve_map(graph, "subgradient", max_iter=5000).bound < 2.1


@pytest.mark.parametrize("method", [*METHODS, "sdca"])
def test_forests_and_single_variables_are_solved(method):
    own = {"lam": 0.01, "gamma": 0.01}
    own = {k: v for k, v in own.items() if k in {**METHODS, **PROJECTING}[method]}
    chain = [Table([0, 1], [[0.0, 1.0], [2.0, -np.inf]]), Potts(1, 2, 0.7)]
    graph = FactorGraph([2, 2, 2], chain, unaries=[[0, 0.3], [0, 0.4], [0, 0.5]])
    result = solve_map(graph, method, random_state=0, max_iter=3000, **own)
    assert result.score == pytest.approx(enumerate_best(graph))
    assert result.gap <= 0.05
    alone = solve_map(FactorGraph([3], unaries=[[1.0, 3.0, 2.0]]), method, **own)
    assert alone.optimal
    assert alone.labels.tolist() == [1]


@pytest.mark.parametrize("method", [*METHODS, "sdca"])
def test_models_without_labelling_of_finite_score(method):
    table = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    impossible = FactorGraph([2, 2], [Table([0, 1], np.full((2, 2), -np.inf))])
    result = solve_map(impossible, method)
    assert (result.score, result.bound, result.optimal) == (-np.inf, -np.inf, True)
    forced = FactorGraph([2, 2], [Table([0, 1], table)], unaries=[[0, -np.inf], [0, -np.inf]])
    result = solve_map(forced, method, max_iter=50)
    assert result.score == -np.inf
    if method in ("coordinate-descent", "decreasing-smoothing", "gradient", "subgradient"):
        assert result.bound == -np.inf


@pytest.mark.parametrize("method", [*METHODS, "sdca"])
def test_same_seed_same_result(method):
    graph = random_graph(7, 0.1, logic=(ExactlyOne, AtMostOne))
    first, second = (solve_map(graph, method, max_iter=15, random_state=3) for _ in range(2))
    assert np.array_equal(first.duals, second.duals)
    assert np.array_equal(first.history_["bound"], second.history_["bound"])


@pytest.mark.parametrize("method", [*METHODS, "sdca"])
def test_time_limits_end_between_passes(method):
    graph = random_graph(7, logic=(ExactlyOne, AtMostOne))
    result = solve_map(graph, method, max_iter=10**6, time_limit=1e-6, tol=0)
    assert result.n_iter <= 1
    assert result.optimal or result.message == "the time limit is reached"
    assert result.bound >= enumerate_best(graph)


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("coordinate-descent", {"smoothing": -1.0}, "smoothing"),
        ("gradient", {"gamma": 0.0}, "gamma"),
        ("gradient", {"smoothing": "l1"}, "smoothing"),
        ("accelerated-gradient", {"lipschitz": "guess"}, "lipschitz"),
        ("accelerated-gradient", {"gamma": np.nan}, "gamma"),
        ("strong-accelerated", {"lam": 0.0}, "lam"),
        ("frank-wolfe", {"lam": -0.1}, "lam"),
        ("sdca", {"gamma": -0.1}, "gamma"),
        ("sdca", {"lam": np.inf}, "lam"),
        ("decreasing-smoothing", {"gamma": -2.0}, "gamma"),
        ("subgradient", {"step": 0.0}, "step"),
    ],
)
def test_parameters_out_of_range(method, parameters, message):
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)])
    with pytest.raises(ValueError, match=message):
        solve_map(graph, method, **parameters)
    name = next(iter(parameters))
    if name not in ("smoothing", "lipschitz"):
        with pytest.raises(TypeError, match=message):
            solve_map(graph, method, **{name: "much"})


def test_factors_without_projections():
    graph = FactorGraph([2, 2, 2], [Cardinality([0, 1, 2], [0, 1, 0, 0])])
    for method in ("sdca", "strong-accelerated", "accelerated-gradient"):
        with pytest.raises(TypeError, match=r"factor 0 \(Cardinality\)"):
            solve_map(graph, method)
    assert solve_map(graph, "accelerated-gradient", smoothing="softmax", gamma=0.01).optimal


def test_memory_of_large_models():
    scopes, n, rng = grid_edges(150, 200), 150 * 200, np.random.default_rng(0)
    factors = [Table(scopes, rng.normal(size=(len(scopes), 2, 2)))]
    graph = FactorGraph(np.full(n, 2), factors, unaries=rng.normal(size=2 * n))
    model = sum(array.nbytes for array in graph.regions if isinstance(array, np.ndarray))
    solve_map(graph, "coordinate-descent", max_iter=1)
    for method in ("coordinate-descent", "frank-wolfe"):
        tracemalloc.start()
        solve_map(graph, method, max_iter=3, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak + model < 3 * model


REAL = {
    "dbn/DBN_11.uai.xz": 317.2848713,
    "grids/grid20x20.f10.uai.xz": 3736.7257974,
    "grids/grid40x40.f5.uai.xz": 7800.5881525,
    "object_detection/ObjectDetection_11.uai.xz": -241.3590365,
    "protein/1aie.uai.xz": -4.6352734,
    "scene/0000047.uai.xz": 847.7087373,
    "segmentation/1_28_s.21.uai.xz": -364.1844297,
    "segmentation/1_28_s.binary.uai.xz": -41.3764411,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_linear_programs_of_real_models(name, shared_data):
    # Values of HiGHS: map-optima.tsv.
    graph = read_uai(shared_data / "map_models" / name)
    value = REAL[name]
    scale, rounding = max(1.0, abs(value)), 1e-6
    for method in ("coordinate-descent", "decreasing-smoothing"):
        result = solve_map(graph, method, max_iter=600)
        assert value - rounding * scale <= result.bound <= value + 1e-5 * scale
    accelerated = solve_map(graph, "accelerated-gradient", gamma=0.01, max_iter=600)
    assert value - rounding * scale <= accelerated.bound <= value + 1e-3 * scale
    for method in ("subgradient", "frank-wolfe", "sdca", "strong-accelerated"):
        result = solve_map(graph, method, max_iter=50, random_state=0)
        assert result.bound >= value - rounding * scale
        assert result.score <= value + rounding * scale
