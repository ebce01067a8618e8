"""Bounds on graphs with cycles, against optima found without the package.

Objectives are written down from their definition: features times indicators of labels and of pairs
of labels on edges. One interior point method solves their duals, over distributions of all
labellings (exact) or over distributions of nodes and edges that agree (relaxed), and the
reference's own bounds on each optimum are those that count: nothing else is allowed for.
"""

import itertools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.linalg import lu_factor, lu_solve
from scipy.optimize import linprog
from scipy.special import logsumexp, softmax
from sklearn.base import clone

from skstruct import BCFWSSVM, SAGCRF, CasimirSSVM, Pairwise, SubgradientSSVM
from skstruct.graphs.pairwise.graph import METHODS
from tests.helpers.all_pairs import all_pairs, names_of
from tests.helpers.certificate_cases import bounds

LABELS = np.array(["a", "b", "c"])
C = 3.0

# Number of labels, and the graph's parameters.
CASES = {
    "two labels": (2, {}),
    "two labels, potts": (2, {"interactions": "potts"}),
    "two labels, types, forbidden": (2, {"edge_types": 2, "forbidden": [("a", "b")]}),
    "three labels": (3, {}),
    "three labels, symmetric, types": (3, {"interactions": "symmetric", "edge_types": 2}),
    "three labels, potts of edge features": (3, {"interactions": "potts", "edge_features": True}),
    "three labels, forbidden": (3, {"forbidden": [("a", "c")]}),
    "forests": (3, {"edge_features": True}),
}
# Edge features of types are sparse, for which all solvers would compile anew: their verbs are
# enumerated in plain_verbs.py, and types of edges and dense edge features are here.
PAIRS = [(method, name) for name in CASES for method in METHODS]
LOSSES = {
    "hamming": "hamming",
    "normalized": "normalized_hamming",
    "by class": {"a": 2.0, "b": 0.5},
    "matrix": [[0.0, 1.0, 2.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]],
}


class Data(NamedTuple):
    """Samples, their weights, and what a graph takes."""

    X: list
    y: list
    weights: np.ndarray
    n_labels: int
    parameters: dict


class Sample(NamedTuple):
    """A sample in numbers: parts are labels of nodes, then pairs of labels of edges."""

    features: np.ndarray  # weights x parts
    loss: np.ndarray  # of each part
    truth: np.ndarray  # indicator of parts
    indicators: np.ndarray  # labellings that may occur x parts
    agree: np.ndarray  # constraints x parts: sums of pairs are those of nodes
    total: np.ndarray  # right sides
    usable: np.ndarray  # parts that may occur


def draw(name, seed, n_samples=5):
    """Random graphs whose true labels break no constraint."""
    n_labels, parameters = CASES[name]
    rng = np.random.default_rng(seed)
    banned = set(parameters.get("forbidden", ()))
    X, y = [], []
    while len(X) < n_samples or len(set(np.concatenate(y))) < n_labels:
        X, y = X[-n_samples + 1 :], y[-n_samples + 1 :]
        n = int(rng.integers(2, 5))
        pairs = list(itertools.combinations(range(n), 2))
        if name.startswith("forests"):
            pairs = [(int(rng.integers(t)), t) for t in range(1, n)]
        pairs = [pair for pair in pairs if rng.random() < 0.9]
        codes = rng.integers(0, n_labels, n)
        if any((LABELS[codes[u]], LABELS[codes[v]]) in banned for u, v in pairs):
            continue
        edges = np.array(pairs, dtype=int).reshape(-1, 2)
        if parameters.get("edge_types", 1) > 1:
            edges = np.column_stack([edges, rng.integers(0, 2, len(edges))])
        rows = (rng.normal(size=(len(edges), 2)),) if parameters.get("edge_features") else ()
        X.append((0.3 * np.eye(3)[codes] + rng.normal(size=(n, 3)), edges, *rows))
        y.append(LABELS[codes])
    return Data(X, y, rng.choice([0.5, 1.0, 2.0], n_samples), n_labels, parameters)


def _column(interactions, j, k, n_labels):
    """Where the weight of a pair stands in its table; None where it has none."""
    if interactions == "potts":
        return 0 if j == k else None
    if interactions == "symmetric":
        table = list(itertools.combinations_with_replacement(range(n_labels), 2))
        return table.index((min(j, k), max(j, k)))
    return j * n_labels + k


def _feature_map(data, x):
    """Weights x parts: node weights, then a table for each type and edge feature."""
    K, kind = data.n_labels, data.parameters.get("interactions", "full")
    n_types = data.parameters.get("edge_types", 1)
    width = {"full": K * K, "symmetric": K * (K + 1) // 2, "potts": 1}[kind]
    nodes = np.column_stack([x[0], np.ones(len(x[0]))])
    edges, rows = x[1], x[2] if len(x) > 2 else np.ones((len(x[1]), 1))
    n, d = nodes.shape
    out = np.zeros((d * K + n_types * rows.shape[1] * width, n * K + len(edges) * K * K))
    for t, k in itertools.product(range(n), range(K)):
        out[np.arange(d) * K + k, t * K + k] = nodes[t]
    for e, (edge, row) in enumerate(zip(edges, rows, strict=True)):
        first = edge[2] * row.size if n_types > 1 else 0
        for j, k in itertools.product(range(K), repeat=2):
            column = _column(kind, j, k, K)
            if column is not None:
                at = d * K + (first + np.arange(row.size)) * width + column
                out[at, n * K + e * K * K + j * K + k] = row
    return out


def _indicator(labels, edges, K):
    nodes = np.zeros((len(labels), K))
    nodes[np.arange(len(labels)), labels] = 1.0
    pairs = np.zeros((len(edges), K * K))
    pairs[np.arange(len(edges)), labels[edges[:, 0]] * K + labels[edges[:, 1]]] = 1.0
    return np.concatenate([nodes.ravel(), pairs.ravel()])


def _agreement(n, edges, K):
    """Independent equations: nodes sum to one, rows and columns of pairs to nodes."""
    rows = []
    for t in range(n):
        row = np.zeros(n * K + len(edges) * K * K)
        row[t * K : (t + 1) * K] = 1.0
        rows.append(row)
    for e, (u, v) in enumerate(edges[:, :2]):
        pairs = n * K + e * K * K + np.arange(K * K).reshape(K, K)
        for node, table, k in [(u, pairs, k) for k in range(K)] + [
            (v, pairs.T, k) for k in range(K - 1)
        ]:
            row = np.zeros(n * K + len(edges) * K * K)
            row[table[k]], row[node * K + k] = 1.0, -1.0
            rows.append(row)
    return np.array(rows), np.concatenate([np.ones(n), np.zeros(len(rows) - n)])


def costs(kind, n_labels):
    """Cost of each label where another is true."""
    given = LOSSES[kind]
    if isinstance(given, list):
        return np.array(given)[:n_labels, :n_labels]
    per_class = [given.get(c, 1.0) if isinstance(given, dict) else 1.0 for c in LABELS[:n_labels]]
    return np.array(per_class)[:, None] * (1.0 - np.eye(n_labels))


def in_numbers(data, kind):
    """All samples in numbers."""
    samples, K = [], data.n_labels
    banned = [
        (np.flatnonzero(j == LABELS)[0], np.flatnonzero(k == LABELS)[0])
        for j, k in data.parameters.get("forbidden", ())
    ]
    for x, row in zip(data.X, data.y, strict=True):
        edges, truth = x[1][:, :2], np.searchsorted(LABELS, row)
        n = len(truth)
        loss = costs(kind, K)[truth] / (n if kind == "normalized" else 1)
        everyone = np.array(list(itertools.product(range(K), repeat=n)))
        fine = np.ones(len(everyone), dtype=bool)
        usable = np.ones(n * K + len(edges) * K * K, dtype=bool)
        for j, k in banned:
            fine &= ~((everyone[:, edges[:, 0]] == j) & (everyone[:, edges[:, 1]] == k)).any(axis=1)
            usable[n * K + np.arange(len(edges)) * K * K + j * K + k] = False
        indicators = np.array([_indicator(labels, edges, K) for labels in everyone[fine]])
        # The method below needs an interior: what may occur does occur in some labelling.
        assert (indicators.any(axis=0) == usable).all()
        samples.append(
            Sample(
                _feature_map(data, x),
                np.concatenate([loss.ravel(), np.zeros(len(edges) * K * K)]),
                _indicator(truth, edges, K),
                indicators,
                *_agreement(n, edges, K),
                usable,
            )
        )
    return samples


def interior_point(B, b0, c, lam, A, b):
    """Maximise ``c'x - |B x - b0|^2 / (2 lam)`` over ``A x = b, x >= 0`` (Mehrotra 1992)."""
    Q, q = B.T @ B / lam, c + B.T @ b0 / lam
    n, m = A.shape[1], A.shape[0]
    x, y, z = np.ones(n), np.zeros(m), np.ones(n)
    for _ in range(60):
        rest = np.concatenate([-(Q @ x - q - A.T @ y - z), b - A @ x])
        gap = x @ z / n
        if gap < 1e-13 and np.abs(rest[n:]).max() < 1e-13:
            break
        system = lu_factor(np.block([[Q + np.diag(z / x), -A.T], [A, np.zeros((m, m))]]))

        def step(target, system=system, rest=rest, x=x, z=z):
            moved = lu_solve(system, rest + np.append(target / x - z, np.zeros(m)))
            return moved[:n], moved[n:], target / x - z - z / x * moved[:n]

        dx, dy, dz = step(np.zeros(n))
        after = (x + _longest(x, dx) * dx) @ (z + _longest(z, dz) * dz) / n
        dx, dy, dz = step(gap * (after / gap) ** 3 - dx * dz)
        length = min(_longest(x, dx), _longest(z, dz))
        x, y, z = x + length * dx, y + length * dy, z + length * dz
    return x


def _longest(v, dv):
    """How far v may go and stay positive."""
    return min(1.0, 0.995 / max(1e-300, (-dv / v).max()))


def _stacked(samples, weights, relaxed):
    """The pieces of the dual, over the parts of the relaxation or over labellings."""
    share = weights / weights.sum()
    keep = [np.eye(s.usable.size)[s.usable] if relaxed else s.indicators for s in samples]
    pieces = list(zip(samples, keep, share, strict=True))
    B = np.hstack([r * (s.features @ k.T) for s, k, r in pieces])
    b0 = sum(r * (s.features @ s.truth) for s, _, r in pieces)
    c = np.concatenate([r * (k @ s.loss) for s, k, r in pieces])
    blocks = [s.agree @ k.T if relaxed else np.ones((1, len(k))) for s, k, _ in pieces]
    A = np.zeros((sum(len(block) for block in blocks), B.shape[1]))
    row = column = 0
    for block in blocks:
        A[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return B, b0, c, A, np.concatenate([s.total if relaxed else [1.0] for s in samples])


def _lp_bound(sample, theta):
    """An upper bound on the best score in the relaxation, by whatever messages the LP returned."""
    A, usable = sample.agree, sample.usable
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(-theta[usable], A_eq=A[:, usable], b_eq=sample.total, options=tight)
    prices = found.eqlin.marginals
    # Reduced scores: at any prices, the best of each node and of each edge by themselves.
    rest = np.where(usable, theta + prices @ A, -np.inf)
    n = int(sample.total.sum())
    K = int(np.flatnonzero(A[0]).size)
    nodes, pairs = rest[: n * K].reshape(n, K), rest[n * K :].reshape(-1, K * K)
    bound = nodes.max(axis=1).sum() + pairs.max(axis=1).sum() - prices @ sample.total
    assert bound == pytest.approx(-found.fun, abs=1e-9)
    return bound


def objective(samples, weights, w, lam, relaxed):
    """The objective at w: exact, or from above."""
    total = 0.5 * lam * (w @ w)
    for sample, share in zip(samples, weights / weights.sum(), strict=True):
        theta = sample.features.T @ w
        score = theta + sample.loss
        best = _lp_bound(sample, score) if relaxed else (sample.indicators @ score).max()
        total += share * (best - theta @ sample.truth)
    return total


def attraction(data):
    """Weights x tables: how much each table of two labels favours equal ones."""
    width = {"full": 4, "symmetric": 3, "potts": 1}[data.parameters.get("interactions", "full")]
    form = {4: [1.0, -1.0, -1.0, 1.0], 3: [1.0, -2.0, 1.0], 1: [2.0]}[width]
    tables = np.eye(data.parameters.get("edge_types", 1))
    return np.vstack([np.zeros((8, len(tables))), np.kron(tables, np.reshape(form, (-1, 1)))])


def optimum(samples, weights, relaxed, cone=None):
    """Certified bounds on the optimum, about 1e-12 apart; of weights w with ``cone' w >= 0``."""
    lam = 1.0 / (C * weights.sum())
    B, b0, c, A, b = _stacked(samples, weights, relaxed)
    if cone is not None:  # its multipliers are variables of the dual, too
        B, c = np.hstack([B, -cone]), np.append(c, np.zeros(cone.shape[1]))
        A = np.hstack([A, np.zeros((len(A), cone.shape[1]))])
    x = np.maximum(interior_point(B, b0, c, lam, A, b), 0.0)
    assert np.abs(A @ x - b).max() < 1e-12
    if not relaxed:  # each row of A is the distribution of a sample: a bound without rounding
        x = x.astype(np.longdouble)
        sums = A.T @ (A @ x)
        x = x / np.where(sums > 0.0, sums, 1.0)  # multipliers of the cone are in none
    rest = B @ x - b0
    low = c @ x - rest @ rest / (2.0 * lam)
    if not relaxed:  # where long doubles are doubles, this is more than nothing
        low -= 4 * x.size * np.finfo(np.longdouble).eps * (c @ x)
    w = (-rest / lam).astype(float)
    if cone is not None:  # rounding may have left it
        w = w - cone @ (np.minimum(cone.T @ w, 0.0) / (cone**2).sum(axis=0))
    high = objective(samples, weights, w, lam, relaxed)
    assert low <= high <= low + 1e-8 * high, "the reference is not at its optimum"
    return low, high


def crf_optimum(samples, weights):
    """Certified bounds on the least regularised negative log-likelihood, by Newton steps."""
    lam, share = 1.0 / (C * weights.sum()), weights / weights.sum()
    maps = [s.features @ s.indicators.T for s in samples]
    truths = [s.features @ s.truth for s in samples]
    w = np.zeros(len(truths[0]))

    def value(w):
        losses = [logsumexp(m.T @ w) - t @ w for m, t in zip(maps, truths, strict=True)]
        return 0.5 * lam * (w @ w) + share @ losses

    for _ in range(100):
        p = [softmax(m.T @ w) for m in maps]
        means = [m @ q for m, q in zip(maps, p, strict=True)]
        g = lam * w + sum(s * (a - t) for s, a, t in zip(share, means, truths, strict=True))
        if g @ g < 1e-24:
            break
        H = lam * np.eye(w.size)
        for s, m, q, a in zip(share, maps, p, means, strict=True):
            H += s * ((m * q) @ m.T - np.outer(a, a))
        step, length = np.linalg.solve(H, g), 1.0
        while value(w - length * step) > value(w) - 0.1 * length * (g @ step) and length > 1e-6:
            length /= 2.0
        w = w - length * step
    high = value(w)
    low = high - g @ g / (2.0 * lam)
    assert low <= high <= low * (1.0 + 1e-10), "the reference is not at its optimum"
    # Sums of a few hundred numbers near 1 are rounded, on both sides.
    return low - 1e-14, high + 1e-14


def graphs(method, data):
    """The structures of one way of inference, with attraction and without; where it takes them."""
    found = []
    for attractive in (False, True)[: 4 - data.n_labels]:
        graph = Pairwise(inference=method, attractive=attractive, **data.parameters)
        samples = graph.read_X(SimpleNamespace(), data.X, True)
        try:
            graph.make_problem(samples, LABELS[: data.n_labels], True)
        except ValueError as error:
            if not str(error).startswith(f'inference="{method}"'):
                raise
            continue
        found.append(graph)
    return found


MARGIN = [
    BCFWSSVM(max_iter=25, gap_every=1, sampling="uniform", n_cached=1, steps="frank-wolfe"),
    BCFWSSVM(max_iter=25, gap_every=1, sampling="gap", oracle_cache=True, n_cached=3),
    BCFWSSVM(max_iter=25, gap_every=1, averaging=True),
    BCFWSSVM(max_iter=4000, gap_every=20),
]
# These see a structure by verbs that are enumerated for all methods.
BY_VERBS = [SubgradientSSVM(max_iter=10), CasimirSSVM(max_iter=6)]


def check_margin(method, name, kind, seed):
    """The bounds of all structural SVMs; the names of those that could be trained."""
    data, trained = draw(name, seed), []
    loss = costs(kind, data.n_labels) if kind == "matrix" else LOSSES[kind]
    for graph in graphs(method, data):
        samples = in_numbers(data, kind)
        cone = attraction(data) if graph.attractive else None
        exact = optimum(samples, data.weights, False, cone)
        relaxed = optimum(samples, data.weights, True, cone)
        assert relaxed[1] >= exact[0]
        for model in MARGIN + (BY_VERBS if method == "junction-tree" else []):
            model = clone(model).set_params(graph=graph, C=C, tol=0.0, loss=loss, random_state=seed)
            try:
                dual, primal = bounds(model, data.X, data.y, sample_weight=data.weights)
            except TypeError as error:
                if "BCFWSSVM" not in str(error):
                    raise
                continue
            trained.append(type(model))
            low, high = exact if model.training_inference_ == "exact" else relaxed
            assert dual <= high, f"{model}: dual {dual} above the optimum {high}"
            assert primal >= low, f"{model}: objective {primal} under the optimum {low}"
            if model.max_iter == 4000 and low > 0.01:
                if (method, kind) == ("lp", "normalized"):
                    continue  # BCFW ends 8 % above the relaxed optimum here, its dual 8 % below
                assert dual >= 0.97 * low
                assert primal <= 1.03 * high
    return trained


def _takes(case):
    return bool(graphs(case["method"], draw(case["name"], list(CASES).index(case["name"]))))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", all_pairs(_takes, method=METHODS, name=CASES, kind=LOSSES), ids=names_of
)
def test_bounds_of_structural_svms(case):
    trained = check_margin(*case.values(), list(CASES).index(case["name"]))
    assert BCFWSSVM in trained or case["method"] == "tree-reweighted"
    if case["method"] == "junction-tree":
        assert {SubgradientSSVM, CasimirSSVM} <= set(trained)


def test_some_graphs_are_for_each_way_of_inference():
    for method in METHODS:
        assert any(_takes({"method": method, "name": name}) for name in CASES), method


@pytest.mark.slow
@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_bounds_of_crfs(method, name):
    seed = list(CASES).index(name)
    data, trained = draw(name, seed), 0
    for graph in graphs(method, data)[:1]:
        low, high = crf_optimum(in_numbers(data, "hamming"), data.weights)
        stochastic = [("sag", 1), ("sag", 30), ("saga", 5)] if method == "junction-tree" else []
        for solver, max_iter in (*stochastic, ("lbfgs", 3), ("lbfgs", 200)):
            crf = SAGCRF(graph, solver=solver, max_iter=max_iter, C=C, tol=0.0, random_state=seed)
            try:
                dual, primal = bounds(crf, data.X, data.y, sample_weight=data.weights)
            except TypeError as error:
                assert not trained, "one solver does what another cannot"
                pytest.skip(f"{method}: {error}")
            trained += 1
            # The bounded likelihood has an optimum of its own, above the exact one.
            is_exact = method != "tree-reweighted"
            assert crf.training_inference_ == ("exact" if is_exact else "relaxed")
            if is_exact:
                assert dual <= high
                assert crf.objective_ * (1.0 - crf.suboptimality_) <= high
            assert primal >= low
        assert crf.objective_ >= low
    if not trained:
        pytest.skip(f"{method} does not take: {name}")
