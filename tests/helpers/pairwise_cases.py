"""Random graphs of three labels, and all oracles of pairwise structures against enumeration."""

from itertools import product

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skstruct import Pairwise
from skstruct.core import oracles
from skstruct.core.weights import Weights
from skstruct.testing import training_problem

LABELS = np.array(["a", "b", "c"])


def random_samples(
    rng, draw_edges, n_samples=4, largest=5, n_types=1, edge_features=False, n_labels=3
):
    """Samples whose edges a function draws; every label occurs if the samples are enough."""
    X, y = [], []
    for _ in range(n_samples):
        n = int(rng.integers(1, largest + 1))
        edges = draw_edges(rng, n)
        if n_types > 1:
            edges = np.column_stack([edges, rng.integers(0, n_types, len(edges))])
        rows = (rng.normal(size=(len(edges), 2)),) if edge_features else ()
        X.append((rng.normal(size=(n, 3)), edges, *rows))
        y.append(LABELS[rng.integers(0, n_labels, n)])
    for label, row in zip(LABELS[:n_labels], y, strict=False):
        row[0] = label
    return X, y


def check_hard_constraints(seed, draw_edges, inference):
    """Scores from the definition, not by the verbs: whole numbers, labels that are not allowed."""
    rng = np.random.default_rng(seed)
    interactions = ["full", "symmetric", "potts"][rng.integers(3)]
    X, y = random_samples(rng, draw_edges, 3, n_types=2)
    pairs = ((edges[:, :2], row) for (_, edges), row in zip(X, y, strict=True))
    used = {pair for ends, row in pairs for pair in map(tuple, row[ends].tolist())}
    forbidden = [p for p in product("abc", "abc") if p not in used and rng.random() < 0.6]
    options = {"edge_types": 2, "interactions": interactions, "forbidden": forbidden}
    graph = Pairwise(inference=inference, **options)
    problem, samples, shapes, _ = training_problem(graph, X, y, fit_intercept=False)
    allowed = (rng.random((len(problem.labels), 3)) < 0.7).astype(np.uint8)
    problem = problem._replace(space=problem.space._replace(allowed=allowed))
    weights = Weights(*(rng.integers(-1, 2, shape).astype(float) for shape in shapes))
    mask = np.array([[-np.inf if (p, q) in forbidden else 0.0 for q in "abc"] for p in "abc"])
    for i, (x, edges) in enumerate(X):
        n, first = len(x), samples.offsets[i]
        theta = np.empty(problem.part_ptr[i + 1] - problem.part_ptr[i])
        oracles.potentials(problem, i, weights, theta)
        theta[: n * 3] = np.round(theta[: n * 3])  # ties; -inf stays
        unary = theta[: n * 3].reshape(n, 3)
        assert_array_equal(np.isneginf(unary), allowed[first : first + n] == 0)
        everyone = np.array(list(product(range(3), repeat=n)))
        scores = unary[np.arange(n), everyone].sum(axis=1)
        for u, v, kind in edges:
            table = graph.pair_tables(weights.pair, 3)[kind] + mask
            scores = scores + table[everyone[:, u], everyone[:, v]]
        _compare(problem, i, theta, everyone, scores, edges)


def _compare(problem, i, theta, everyone, scores, edges):
    """All oracles against the scores of all labellings."""
    n, best = everyone.shape[1], scores.max()
    forced = everyone[:, :, None] == np.arange(3)
    labels, mu, got = np.zeros(n, dtype=np.int32), np.empty(theta.size), np.empty(n * 3)
    assert oracles.max_oracle(problem, i, theta, labels) == best
    oracles.max_marginals(problem, i, theta, got)
    expected = np.where(forced, scores[:, None, None], -np.inf).max(axis=0)
    assert_allclose(got.reshape(n, 3), expected, atol=1e-9)
    values, found = np.empty(7), np.zeros((7, n), dtype=np.int32)
    oracles.top_k_oracle(problem, i, theta, values, found)
    assert_array_equal(values, np.append(np.sort(scores)[::-1], np.full(7, -np.inf))[:7])
    if best == -np.inf:
        assert not oracles.exp_oracle(problem, i, theta, 1.0, mu) > -np.inf
        return
    by_labelling = dict(zip(map(tuple, everyone), scores, strict=True))
    assert by_labelling[tuple(labels)] == best
    if forest := getattr(problem.space.own.inference, "forest", None):
        # Each node in turn has the lowest label that a best labelling has, given those before.
        order = forest.order[problem.label_ptr[i] : problem.label_ptr[i + 1]]
        assert tuple(labels[order]) == min(map(tuple, everyone[scores == best][:, order]))
    finite = np.isfinite(values)
    assert [by_labelling[tuple(row)] for row in found[finite]] == values[finite].tolist()
    assert len({tuple(row) for row in found[finite]}) == finite.sum()
    log_z = logsumexp(scores / 0.5)
    assert_allclose(oracles.exp_oracle(problem, i, theta, 0.5, mu), 0.5 * log_z, atol=1e-12)
    assert_allclose(oracles.exp_oracle(problem, i, theta, 0.5, mu[:0]), 0.5 * log_z, atol=1e-12)
    p = np.exp(scores / 0.5 - log_z)
    assert_allclose(mu[: n * 3].reshape(n, 3), (p[:, None, None] * forced).sum(axis=0), atol=1e-9)
    expected = np.zeros((2, problem.space.width))
    for u, v, kind in edges:
        column = problem.space.own.column[everyone[:, u], everyone[:, v]]
        np.add.at(expected[kind], column[column >= 0], p[column >= 0])
    assert_allclose(mu[n * 3 :].reshape(2, -1), expected, atol=1e-9)
    out, log_z = np.empty(len(edges) * 9), logsumexp(scores)
    assert_allclose(oracles.edge_marginals(problem, i, theta, mu, out), log_z, atol=1e-12)
    for (u, v, _), table in zip(edges, out.reshape(-1, 3, 3), strict=True):
        expected = np.zeros((3, 3))
        np.add.at(expected, (everyone[:, u], everyone[:, v]), np.exp(scores - log_z))
        assert_allclose(table, expected, atol=1e-9)
