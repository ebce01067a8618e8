"""Small problems of all structures, and what the tests of certificates ask of a run."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    AtMostOnce,
    Before,
    Candidates,
    Chain,
    Grid,
    Lattice,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    SemiChain,
    Tree,
)
from skstruct.data.rules import broken_rules
from skstruct.testing import all_labellings

CLASSES = np.array(["a", "b", "c"])
FORBIDDEN = [("a", "c"), ("b", "b")]
ENDS = [(None, "b"), ("c", None)]
RULES = [AtMostOnce("a"), Before("b", "c")]
PARENTS = [(1, 0), (2, 0), (4, 3)]
COSTS = [[0.0, 1.0, 2.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]]
LOSSES = ["hamming", "normalized", "by class", "matrix"]
FEATURES = {"dense": np.asarray, "CSR": sparse.csr_matrix}

# A name says what samples have, too; one with "relaxed" is trained on a relaxation.
STRUCTURES = {
    "table": MultiClass(),
    "chains": Chain(boundary=True),
    "chains, forbidden": Chain(forbidden=FORBIDDEN),
    "chains, forbidden ends": Chain(boundary=True, forbidden=FORBIDDEN + ENDS),
    "chains, rules": Chain(rules=RULES),
    "chains, order 2": Chain(order=2, boundary=True),
    "chains, edge features": Chain(edge_features=True),
    "segments": SemiChain(5),
    "segments, curve": SemiChain(5, lengths="curve"),
    "trees": Tree(),
    "trees, forbidden": Tree(forbidden=FORBIDDEN),
    "trees, edge features": Tree(edge_features=True),
    "labels": MultiLabel(),
    "labels, tree": MultiLabel("tree", tables=True),
    "labels, full": MultiLabel("full"),
    "labels, full with tables": MultiLabel("full", tables=True),
    "labels, hierarchy": MultiLabel(hierarchy=PARENTS),
    "labels, tree, hierarchy": MultiLabel("tree", tables=True, hierarchy=PARENTS),
    "labels, relaxed": MultiLabel("full", inference="relaxed"),
    "labels, relaxed with tables": MultiLabel("full", tables=True, inference="relaxed"),
    "forests": Pairwise(),
    "graphs": Pairwise(inference="junction-tree"),
    "graphs, forbidden": Pairwise(
        inference="junction-tree", interactions="potts", forbidden=FORBIDDEN[:1]
    ),
    "graphs, two kinds": Pairwise(node_types=["p", "w"], inference="junction-tree"),
    "graphs, relaxed": Pairwise(inference="lp"),
    "graphs, relaxed, two kinds": Pairwise(node_types=["p", "w"], inference="lp"),
    "graphs, relaxed, types": Pairwise(inference="lp", interactions="symmetric", edge_types=2),
    "graphs, relaxed, edge features": Pairwise(
        inference="lp", interactions="potts", edge_features=True
    ),
    "graphs, relaxed, types, edge features": Pairwise(
        inference="lp", edge_types=2, edge_features=True
    ),
    "images, relaxed": Grid(inference="lp", edge_features="contrast", directions=True),
    "images, reweighted": Grid(inference="tree-reweighted"),
    "candidates": Candidates(),
    "matchings": Matching(),
    "lattices": Lattice(),
}
ITEMS = "candidates", "matchings", "lattices"


def _best_labels(rng, scores, edges, name):
    """The best labelling of a sample that `name` allows."""
    labellings = all_labellings(len(scores), 3)
    value = scores[np.arange(len(scores)), labellings].sum(axis=1)
    pairs = STRUCTURES[name].forbidden if "forbidden" in name else []
    for (a, b), (s, t) in itertools.product(pairs, edges):
        if a is not None and b is not None:
            value[(CLASSES[labellings[:, s]] == a) & (CLASSES[labellings[:, t]] == b)] = -np.inf
    if "ends" in name:
        value[(CLASSES[labellings[:, 0]] == "b") | (CLASSES[labellings[:, -1]] == "c")] = -np.inf
    if "rules" in name:
        ends = np.arange(len(labellings) + 1) * len(scores)
        value[broken_rules(RULES, CLASSES, labellings.ravel(), ends).any(axis=1)] = -np.inf
    return CLASSES[labellings[value.argmax()]]


def _of_two_kinds(x, labels, edges):
    """A sample whose first node is of another kind than the others, which have less features."""
    y = {"p": [str(labels[0] == "a")], "w": np.where(labels[1:] == "a", "a", "b")}
    nodes = {"p": x[:1], "w": x[1:, :2]}
    edges = np.array(edges, dtype=int).reshape(-1, 2)
    starts = edges[:, 0] == 0
    pairs = {("p", "w"): edges[starts] - [0, 1], ("w", "w"): edges[~starts] - 1}
    return {"nodes": nodes, "edges": pairs}, y


def _draw_items(name, rng, n_samples):
    """Candidates, or pairs and their links: at most one of each row and column."""
    w, X, y = np.array([1.0, -1.0, 0.5]), [], []
    for n, m in rng.integers(1, 5, (n_samples, 2)):
        if name == "candidates":
            X.append(rng.normal(size=(n, 3)))
            y.append(int(np.argmax(X[-1] @ w + rng.normal(size=n))))
            continue
        if name == "lattices":  # from 0 to n, by steps of any length
            ends = np.argwhere(np.tri(n, dtype=bool))[:, ::-1] + [0, 1]
            arcs = np.column_stack([ends, rng.integers(0, 2, (len(ends), 2))])
            X.append((arcs, rng.normal(size=(len(arcs), 3))))
            at, path = 0, []
            while at < n:
                path.append(rng.choice(np.flatnonzero(arcs[:, 0] == at)))
                at = arcs[path[-1], 1]
            y.append(path)
            continue
        X.append(rng.normal(size=(n, m, 3)))
        pairs = np.argwhere(X[-1] @ w + rng.normal(size=(n, m)) > 1.0)
        _, first = np.unique(pairs[:, 0], return_index=True)
        _, alone = np.unique(pairs[first, 1], return_index=True)
        y.append(pairs[first][np.sort(alone)])
    return X, np.array(y) if name == "candidates" else y


def draw(name, seed, n_samples=12):
    """A small problem."""
    rng = np.random.default_rng(seed)
    kind = name.split(",")[0]
    if name in ITEMS:
        return _draw_items(name, rng, n_samples)
    if kind in ("table", "labels"):
        X = rng.normal(size=(n_samples, 3))
        noisy = X @ rng.normal(size=(3, 5)) + rng.normal(size=(n_samples, 5))
        if name == "table":
            return X, CLASSES[noisy[:, :3].argmax(axis=1)]
        sets = (noisy + 0.8 * rng.normal(size=(n_samples, 1)) > 0).astype(int)
        for child, parent in PARENTS if "hierarchy" in name else []:
            sets[:, parent] |= sets[:, child]
        return X, sets
    X, y, weights = [], [], rng.normal(size=(3, 3))
    for n in rng.integers(1, 6, size=n_samples):
        n = 2 * int(n) if kind == "images" else int(n)
        x = rng.normal(size=(n, 3))
        parents = [
            int(rng.integers(t)) if kind in ("trees", "forests") and t else t - 1 for t in range(n)
        ]
        edges = [(parents[t], t) for t in range(1, n)]
        if kind == "graphs" and n > 2:
            edges = [*edges, (0, n - 1)]
        labels = _best_labels(rng, x @ weights + rng.normal(size=(n, 3)), edges, name)
        if kind == "images":
            x, labels = x.reshape(2, -1, 3), labels.reshape(2, -1)
        rows = (rng.normal(size=(len(edges), 2)),) if "edge features" in name else ()
        if "two kinds" in name:
            for rows, part in zip((X, y), _of_two_kinds(x, labels, edges), strict=True):
                rows.append(part)
            continue
        if kind in ("forests", "graphs"):
            edges = np.array(edges, dtype=int).reshape(-1, 2)
            if "types" in name:
                edges = np.column_stack([edges, np.arange(len(edges)) % 2])
        more = {"trees": (parents,), "forests": (edges,), "graphs": (edges,)}.get(kind, ()) + rows
        X.append((x, *more) if more else x)
        y.append(labels)
    return X, y


def in_rows(kind, X):
    """Features of nodes and edges, dense or CSR."""

    def convert(part):
        is_rows = isinstance(part, np.ndarray) and part.dtype.kind == "f"
        return FEATURES[kind](part) if is_rows else part

    if isinstance(X, np.ndarray):
        return convert(X)
    if isinstance(X[0], dict):
        tables = [{kind: convert(part) for kind, part in x["nodes"].items()} for x in X]
        return [x | {"nodes": nodes} for x, nodes in zip(X, tables, strict=True)]
    return [tuple(map(convert, x)) if isinstance(x, tuple) else convert(x) for x in X]


def loss_of(kind, name):
    """The `loss` argument of a kind of loss."""
    if "two kinds" in name:
        return {
            "hamming": "hamming",
            "normalized": "normalized_hamming",
            "by class": {("w", "a"): 2.0, ("p", "True"): 0.5},
            "matrix": np.arange(16.0).reshape(4, 4) % 5 * (1 - np.eye(4)),
        }[kind]
    if kind == "matrix":
        return [[0.0, 1.0], [3.0, 0.0]] if name.startswith("labels") else COSTS
    if kind == "by class":
        return {1: 2.0} if name.startswith("labels") else {"a": 2.0, "b": 0.5}
    return {"hamming": "hamming", "normalized": "normalized_hamming"}[kind]


def bounds(model, X, y, **more):
    """Largest dual and smallest primal bound of a run, at any time of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, **more)
    history = model.history_
    assert np.isfinite(model.objective_)
    primal = np.nanmin(np.append(history["objective"], model.objective_))
    if not hasattr(model, "dual_objective_"):
        return -np.inf, primal
    assert model.dual_objective_ == model.objective_ - model.dual_gap_
    assert model.dual_objective_ <= model.objective_
    # What tol is compared with leaves the last digits of the objective out.
    digits = 2e-12 * model.objective_
    assert model.dual_gap_ == pytest.approx(model.suboptimality_ * model.objective_, abs=digits)
    assert np.nanmin(np.append(history["dual_objective"], model.dual_objective_)) >= 0.0
    return np.nanmax(np.append(history["dual_objective"], model.dual_objective_)), primal
