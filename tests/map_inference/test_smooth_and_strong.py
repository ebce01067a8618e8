"""Table 1 of Meshi, Mahdavi, Schwing 2015: its cells against steps by hand and linear programs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Potts,
    Table,
    solve_map,
)
from skstruct.map_inference.budget import Budget
from skstruct.map_inference.methods.coordinate_descent import CoordinateDescent, l2_star_pass
from skstruct.map_inference.methods.first_order import lipschitz_bound
from tests.helpers.map_cases import enumerate_best
from tests.map_inference.test_methods import Dense, check, random_graph, stuck_model

TABLES = {"implicit": False}
ONE = {"logic": (ExactlyOne, AtMostOne)}
ANY = {}
PAPER = {"lipschitz": "paper"}
# Each with the graphs that it takes.
CELLS = {
    "subgradient, strong": ("subgradient", {"lam": 0.1}, ANY),
    "gradient, L2, paper's step": ("gradient", {"smoothing": "l2", "gamma": 0.2, **PAPER}, ONE),
    "gradient, soft, paper's step": ("gradient", {"gamma": 0.2, **PAPER}, ANY),
    "AGD, no restarts": ("accelerated-gradient", {"gamma": 0.2, **PAPER, "restarts": False}, ONE),
    "gradient, L2, strong": ("strong-gradient", {"gamma": 0.2}, ONE),
    "gradient, soft, strong": ("strong-gradient", {"gamma": 0.2, "smoothing": "softmax"}, ANY),
    "SDCA, entropy": ("sdca", {"gamma": 0.2, "smoothing": "softmax"}, ONE),
    "SDCA, accelerated": ("sdca", {"gamma": 0.2, "accelerated": True}, ONE),
    "SDCA, both": ("sdca", {"gamma": 0.2, "smoothing": "softmax", "accelerated": True}, ONE),
    "CD, L2": ("coordinate-descent", {"smoothing": "l2", "gamma": 0.2}, TABLES),
    "FW, augmented": ("frank-wolfe", {"lam": 0.1, "augmented": True}, ANY),
}


@pytest.mark.thinned
@pytest.mark.parametrize("cell", CELLS)
@given(
    seed=st.integers(0, 10**6),
    forbidden=st.sampled_from([0.0, 0.15, 0.4]),
    regions=st.sampled_from(["variables", "pairs"]),
)
@settings(max_examples=10)
def test_bounds_hold(cell, seed, forbidden, regions):
    method, own, kinds = CELLS[cell]
    graph = random_graph(seed, forbidden, regions=regions, **kinds)
    result = solve_map(graph, method, max_iter=25, random_state=0, **own)
    check(graph, result, enumerate_best(graph))
    again = solve_map(graph, method, max_iter=25, random_state=0, **own)
    assert result.duals == pytest.approx(again.duals, abs=1e-6)


def chain(seed=0, n_states=(3, 2, 4)):
    """A chain without ties."""
    rng = np.random.default_rng(seed)
    pairs = [Table([k, k + 1], 2 * rng.normal(size=n_states[k : k + 2])) for k in (0, 1)]
    return FactorGraph(n_states, pairs, unaries=[rng.normal(size=n) for n in n_states])


def frustrated(seed, n_states=3, n=5):
    """A complete graph whose neighbours prefer different labels, so that no bound is tight."""
    rng = np.random.default_rng(seed)
    scopes = list(itertools.combinations(range(n), 2))
    tables = -4.0 * np.eye(n_states) + 0.3 * rng.normal(size=(len(scopes), n_states, n_states))
    unaries = [0.3 * rng.normal(size=n_states) for _ in range(n)]
    return FactorGraph([n_states] * n, [Table(scopes, tables)], unaries=unaries)


# Steps by hand.


@pytest.mark.parametrize("smoothing", ["softmax", "l2"])
@pytest.mark.parametrize("method", ["gradient", "strong-gradient"])
def test_step_of_the_papers_length(method, smoothing):
    graph, gamma, lam = chain(), 0.7, 0.3 if method == "strong-gradient" else 0.0
    # Three variables and two pairs: five regions, of seven variables in all.
    constant = (5 if smoothing == "l2" else 7) / gamma
    own = {"lam": lam} if lam else {}
    own |= {"smoothing": smoothing, "gamma": gamma, "lipschitz": "paper"}
    delta, dense, values = np.zeros(11), Dense(graph), []
    for _ in range(3):
        value, gradient = dense.smooth_and_strong(delta, gamma, lam, smoothing)
        values.append(value)
        delta = delta - gradient / (constant + lam)
    result = solve_map(graph, method, max_iter=3, tol=0.0, **own)
    assert result.history_["objective"][1:4] == pytest.approx(values, abs=1e-12)
    shift = gamma * 5 / 2 if smoothing == "l2" else 0.0
    shifted = result.history_["shifted_objective"]
    assert shifted[1:4] == pytest.approx(np.array(values) + shift, abs=1e-12)


def test_momentum_of_nesterov_without_restarts():
    graph, gamma, uphill = chain(3), 1.0, 0
    dense, constant = Dense(graph), 5 / gamma
    delta, point, momentum, values = np.zeros(11), np.zeros(11), 1.0, []
    for _ in range(60):
        value, gradient = dense.smooth_and_strong(point, gamma, 0.0, "l2")
        values.append(value)
        last, delta = delta, point - gradient / constant
        uphill += gradient @ (delta - last) > 0.0
        before, momentum = momentum, 0.5 + np.sqrt(0.25 + momentum**2)
        point = delta + (before - 1.0) / momentum * (delta - last)
    own = {"gamma": gamma, "lipschitz": "paper", "max_iter": 60, "tol": 0.0}
    assert uphill
    plain = solve_map(graph, "accelerated-gradient", restarts=False, **own).history_
    at = plain["passes"].astype(int)[1:]
    assert plain["objective"][1:] == pytest.approx(np.array(values)[at - 1], abs=1e-9)


def test_step_of_the_strongly_convex_subgradient():
    graph, lam = chain(1), 0.4
    dense, delta, values = Dense(graph), np.zeros(11), []
    for t in range(1, 6):
        hat, mu = dense.theta + dense.consistency.T @ delta, np.zeros(dense.theta.size)
        value = graph.offset + lam / 2 * delta @ delta
        for start, stop in itertools.pairwise(dense.ptr):
            mu[start + np.argmax(hat[start:stop])] = 1.0
            value += hat[start:stop].max()
        values.append(value)
        delta = delta - (dense.consistency @ mu + lam * delta) / (lam * t)
    result = solve_map(graph, "subgradient", lam=lam, max_iter=5, tol=0.0)
    found = result.history_["objective"][: len(values)]
    assert found == pytest.approx(values[: found.size], abs=1e-12)
    assert found.size > 2


def test_constants_of_the_paper():
    tables = [Table([0, 1], np.zeros((2, 2))), Table([1, 2], np.ones((2, 3)))]
    graph = FactorGraph([2, 2, 3], tables)
    # Five regions, of 1 + 1 + 1 + 2 + 2 variables.
    assert lipschitz_bound(graph.regions, 0.5, "l2", paper=True) == 10.0
    assert lipschitz_bound(graph.regions, 0.5, "softmax", paper=True) == 14.0


def test_star_of_two_variables_by_hand():
    # A pair's scores without the message to x are (1, 0) at x = 0 and (0, 0) at x = 1; gamma is 1.
    # Masses (m, 1 - m): thresholds 1 - m at m <= 1, and -(1 - m) / 2 for two equal scores of 0.
    # x has no scores: -m + 1 - m = -(1 - m) - (1 - m) / 2, so m = 5 / 7.
    graph = FactorGraph([2, 2], [Table([0, 1], [[1.0, 0.0], [0.0, 0.0]])])
    method = CoordinateDescent(graph, 0.0, None, Budget(), 1.0, "l2")
    delta, room, order = method.delta, method.room, np.array([0])
    own = room.forbidden, method.total, method.star, room.scratch
    l2_star_pass(graph.regions, order, 0, 1, delta, 1.0, *own)
    assert method.star.masses[:2] == pytest.approx([5 / 7, 2 / 7])
    assert delta == pytest.approx([2 / 7, -1 / 7, 0.0, 0.0])


@pytest.mark.parametrize("seed", range(6))
def test_star_of_the_l2_smoothed_dual_is_at_its_optimum(seed):
    # Two tables hang on variable 0 only: its star is the whole dual but for fixed messages.
    rng = np.random.default_rng(seed)
    factors = [Table([0, 1], 2 * rng.normal(size=(4, 3))), Table([2, 0], rng.normal(size=(2, 4)))]
    graph = FactorGraph([4, 3, 2], factors, unaries=[rng.normal(size=n) for n in (4, 3, 2)])
    gamma, dense, p = 0.3, Dense(graph), graph.regions
    own = {"smoothing": "l2", "gamma": gamma, "tol": 0.0}
    result = solve_map(graph, "coordinate-descent", max_iter=1, **own)
    # After a sweep in the order 0, 1, 2 the gradient is 0 in the messages to 2.
    slot = int(np.flatnonzero(p.child == 2)[0])
    star = np.arange(p.message_ptr[slot], p.message_ptr[slot + 1])
    value, gradient = dense.smooth_and_strong(result.duals, gamma, 0.0, "l2")
    if result.history_["bound"][-1] == result.bound:
        assert np.abs(gradient[star]).max() < 1e-12
        assert value == pytest.approx(result.history_["objective"][-1], abs=1e-12)
    # Sweeps end at the optimum of the smoothed dual, as gradients do.
    result = solve_map(graph, "coordinate-descent", max_iter=2000, **own)
    reference = dense.optimum(gamma, 0.0, "l2")
    assert result.history_["objective"][-1] == pytest.approx(reference, abs=1e-8)


def test_star_in_closed_form():
    # Three labels and one table of one column, gamma = 1: m solves m + m = hat - level.
    unary, column = np.array([1.0, 0.0, -9.0]), np.array([0.5, 0.2, 0.0])
    graph = FactorGraph([3, 1], [Table([0, 1], column[:, None])], unaries=[unary, [0.0]])
    result = solve_map(graph, "coordinate-descent", smoothing="l2", gamma=1.0, max_iter=1, tol=0.0)
    # hat = 1.5, 0.2, -9: masses (hat - level) / 2 of the first two sum to 1 at -0.15.
    masses = np.array([0.825, 0.175, 0.0])
    assert result.beliefs[0] == pytest.approx(masses, abs=1e-12)
    objective = masses @ (unary + column) - masses @ masses - 0.5
    assert result.history_["objective"][-1] == pytest.approx(objective, abs=1e-12)


# Optima.


@given(seed=st.integers(0, 10**6), forbidden=st.sampled_from([0.0, 0.15]))
@settings(max_examples=12)
def test_l2_coordinate_descent_falls_to_the_smoothed_optimum(seed, forbidden):
    gamma = 0.3
    for regions in ("variables", "pairs"):
        graph = random_graph(seed, forbidden, implicit=False, regions=regions)
        if enumerate_best(graph) == -np.inf:
            return
        own = {"smoothing": "l2", "gamma": gamma, "max_iter": 3000, "tol": 1e-10}
        result = solve_map(graph, "coordinate-descent", **own)
        history, size = result.history_, max(1.0, abs(result.bound))
        objective = history["objective"][np.isfinite(history["objective"])]
        assert (np.diff(objective) <= 1e-9 * size).all()
        dense = Dense(graph)
        value = dense.lp_value()
        shifted = history["shifted_objective"]
        assert (shifted[np.isfinite(shifted)] >= value - 1e-9).all()
        if result.message == "the labelling is proved to be optimal" or forbidden:
            continue
        assert objective[-1] == pytest.approx(dense.optimum(gamma, 0.0, "l2"), abs=1e-6 * size)
        agd = solve_map(graph, "accelerated-gradient", gamma=gamma, max_iter=5000, tol=1e-9)
        if agd.message != "the labelling is proved to be optimal":
            assert objective[-1] <= agd.history_["objective"][-1] + 1e-6 * size


@pytest.mark.parametrize("smoothing", ["softmax", "l2"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=8)
def test_smooth_and_strong_cells_agree(smoothing, seed):
    graph = random_graph(seed, logic=(ExactlyOne, AtMostOne))
    if enumerate_best(graph) == -np.inf:
        return
    common = {"gamma": 0.5, "lam": 0.3, "tol": 1e-8, "max_iter": 8000, "random_state": 0}
    reference = Dense(graph).optimum(0.5, 0.3, smoothing)
    for method, own in [
        ("strong-gradient", {}),
        ("strong-accelerated", {}),
        ("sdca", {}),
        ("sdca", {"accelerated": True}),
    ]:
        result = solve_map(graph, method, smoothing=smoothing, **own, **common)
        if result.message == "the labelling is proved to be optimal":
            continue
        history = result.history_
        value, gap = history["objective"], history["dual_gap"]
        size = max(1.0, abs(reference))
        assert gap[-1] <= 1.1e-8 * size, (method, own, result.message)
        assert value[-1] == pytest.approx(reference, abs=gap[-1] + 1e-6 * size)
        known = np.isfinite(value) & np.isfinite(gap)
        if method == "sdca":
            # Primal and dual enclose the optimum all along.
            assert (value[known] <= reference + 1e-6 * size).all()
            assert (value[known] + gap[known] >= reference - 1e-6 * size).all()


def test_acceleration_takes_fewer_passes():
    graph = frustrated(2)
    common = {"gamma": 0.3, "lam": 0.003, "tol": 1e-7, "max_iter": 20000, "random_state": 0}
    passes = {}
    for method, own in [
        ("strong-gradient", {"lipschitz": "bound"}),
        ("strong-accelerated", {"lipschitz": "bound"}),
        ("sdca", {}),
        ("sdca", {"accelerated": True}),
    ]:
        result = solve_map(graph, method, **own, **common)
        assert result.converged
        passes[method, own.get("accelerated", False)] = result.history_["passes"][-1]
    assert 1.5 * passes["strong-accelerated", False] < passes["strong-gradient", False]
    assert 2 * passes["sdca", True] < passes["sdca", False]


@pytest.mark.parametrize("gamma", [1.0, 0.1])
def test_l2_coordinate_descent_where_no_bound_is_tight(gamma):
    graph = frustrated(0)
    dense, own = Dense(graph), {"smoothing": "l2", "gamma": gamma, "tol": 1e-12, "max_iter": 5000}
    result = solve_map(graph, "coordinate-descent", **own)
    objective, shifted = (result.history_[k][-1] for k in ("objective", "shifted_objective"))
    assert not result.optimal
    assert objective == pytest.approx(dense.optimum(gamma, 0.0, "l2"), abs=1e-6)
    assert shifted == pytest.approx(objective + gamma * len(dense.rows) / 2)
    assert enumerate_best(graph) + 0.1 < dense.lp_value() <= min(result.bound, shifted) + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_strongly_convex_subgradient_reaches_frank_wolfe(seed):
    graph, lam = random_graph(2 * seed, implicit=False), 0.5
    wolfe = solve_map(graph, "frank-wolfe", lam=lam, tol=1e-12, max_iter=20000, random_state=0)
    primal, gap = (wolfe.history_[k][-1] for k in ("objective", "dual_gap"))
    result = solve_map(graph, "subgradient", lam=lam, tol=1e-12, max_iter=20000)
    if result.optimal or wolfe.optimal:
        return
    objective = result.history_["objective"]
    assert (objective >= primal - 1e-9).all()
    assert objective.min() <= primal + gap + 2e-2


@given(seed=st.integers(0, 10**6))
@settings(max_examples=8)
def test_augmented_lagrangian_ends_at_the_linear_program(seed):
    graph = random_graph(seed, implicit=False)
    value = Dense(graph).lp_value()
    own = {"lam": 0.5, "tol": 1e-6, "max_iter": 20000, "random_state": 0}
    result = solve_map(graph, "frank-wolfe", augmented=True, **own)
    assert value - 1e-9 <= result.bound <= value + 2e-3 * max(1.0, abs(value))


def test_augmented_lagrangian_has_no_bias():
    graph = stuck_model()
    value = Dense(graph).lp_value()
    own = {"lam": 2.0, "max_iter": 3000, "random_state": 0}
    assert solve_map(graph, "frank-wolfe", **own).bound > value + 0.5
    for lam in (2.0, None):
        own["lam"] = lam
        augmented = solve_map(graph, "frank-wolfe", augmented=True, **own)
        assert augmented.message == "the marginals agree"
        assert value - 1e-9 <= augmented.bound <= value + 1e-5
        assert augmented.history_["objective"][-1] == pytest.approx(value, abs=1e-5)


def test_papers_constant_may_be_too_small():
    # Three regions, but a label stands in ten configurations: q / gamma is below the curvature.
    rng = np.random.default_rng(0)
    graph = FactorGraph([10, 10], [Table([0, 1], rng.normal(size=(10, 10)))])
    own, ends = {"smoothing": "l2", "gamma": 10.0, "max_iter": 200, "tol": 0.0}, {}
    for lipschitz in ("paper", "bound", "search"):
        result = solve_map(graph, "gradient", lipschitz=lipschitz, **own)
        assert result.bound >= enumerate_best(graph)
        ends[lipschitz] = result.history_["objective"][-1]
    assert ends["bound"] == pytest.approx(ends["search"], abs=1e-9)
    assert ends["paper"] > ends["bound"] + 0.1


# Refusals.


@pytest.mark.parametrize(
    ("method", "own", "error", "message"),
    [
        ("subgradient", {"lam": -1.0}, ValueError, "lam"),
        ("subgradient", {"lam": "much"}, TypeError, "lam"),
        ("strong-gradient", {"lam": 0.0}, ValueError, "lam"),
        ("strong-gradient", {"smoothing": "l1"}, ValueError, "smoothing"),
        ("gradient", {"lipschitz": "papers"}, ValueError, "lipschitz"),
        ("accelerated-gradient", {"restarts": 1}, TypeError, "restarts"),
        ("sdca", {"smoothing": "entropy"}, ValueError, "smoothing"),
        ("sdca", {"accelerated": "yes"}, TypeError, "accelerated"),
        ("frank-wolfe", {"augmented": None}, TypeError, "augmented"),
        ("coordinate-descent", {"smoothing": "l1"}, ValueError, "smoothing"),
        ("coordinate-descent", {"smoothing": "l2", "gamma": 0.0}, ValueError, "gamma"),
        ("frank-wolfe", {"lam": 0.0, "augmented": True}, ValueError, "lam"),
    ],
)
def test_parameters_out_of_range(method, own, error, message):
    graph = FactorGraph([2, 2], [Potts(0, 1, 1.0)])
    with pytest.raises(error, match=message):
        solve_map(graph, method, **own)


def test_factors_without_a_table_are_refused():
    counts = FactorGraph([2, 2, 2], [Cardinality([0, 1, 2], [0, 1, 0, 0])])
    one = FactorGraph([2, 2, 2], [ExactlyOne([0, 1, 2])])
    for graph in (counts, one):
        with pytest.raises(TypeError, match="factor 0"):
            solve_map(graph, "coordinate-descent", smoothing="l2")
    with pytest.raises(TypeError, match=r"factor 0 \(Cardinality\)"):
        solve_map(counts, "strong-gradient")


def minimum_over(dense, delta, star, gamma):
    """The least value of the L2-smoothed dual where only some messages may change."""

    def value(part):
        whole = delta.copy()
        whole[star] = part
        total, gradient = dense.smooth_and_strong(whole, gamma, 0.0, "l2")
        return total, gradient[star]

    options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 5000}
    return minimize(value, delta[star], method="L-BFGS-B", jac=True, options=options).fun


def test_first_star_minimises_over_its_messages():
    # Only variable 0 is in two regions; the others have one label, and so nothing to send.
    rng = np.random.default_rng(5)
    factors = [Table([0, k], rng.normal(size=(5, 1))) for k in (1, 2, 3)]
    graph = FactorGraph([5, 1, 1, 1], factors, unaries=[rng.normal(size=5), [0.0], [0.0], [0.0]])
    own = {"smoothing": "l2", "gamma": 0.4, "max_iter": 1, "tol": 0.0}
    result = solve_map(graph, "coordinate-descent", **own)
    dense, p = Dense(graph), graph.regions
    slots = np.flatnonzero(p.child == 0)
    star = np.concatenate([np.arange(p.message_ptr[s], p.message_ptr[s + 1]) for s in slots])
    least = minimum_over(dense, np.zeros(int(p.message_ptr[-1])), star, 0.4)
    assert result.history_["objective"][-1] == pytest.approx(least, abs=1e-9)
