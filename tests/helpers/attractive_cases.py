"""Problems with attractive interactions, and their reference solver."""

from itertools import combinations, product

import numpy as np
from scipy.optimize import minimize

from skstruct.graphs.pairwise.graph import attraction, pair_columns


def draw_samples(rng, n_types=1, edge_features=False, n_samples=4, repel=True):
    """Small graphs; neighbours tend to differ, or to agree."""
    X, y = [], []
    for _ in range(n_samples):
        n = int(rng.integers(2, 5))
        edges = np.array([e for e in combinations(range(n), 2) if rng.random() < 0.8], dtype=int)
        edges = edges.reshape(-1, 2)
        if n_types > 1:
            edges = np.column_stack([edges, rng.integers(0, n_types, len(edges))])
        labels = np.arange(n) % 2 if repel else np.full(n, rng.integers(0, 2))
        x = labels[:, None] + rng.normal(scale=2.0, size=(n, 2))
        rows = (rng.exponential(size=(len(edges), 2)),) if edge_features else ()
        X.append((x, edges, *rows))
        y.append(labels)
    y[0][:2] = [0, 1]
    return X, y


def phi(graph, x, labels):
    """Node rows with an intercept by labels, then edge rows by columns of label pairs, flat."""
    columns = pair_columns(graph.interactions, 2)
    nodes, edges = np.column_stack([x[0], np.ones(len(x[0]))]), np.asarray(x[1])
    node = nodes.T @ np.eye(2)[labels]
    types = edges[:, 2] if edges.shape[1] > 2 else np.zeros(len(edges), dtype=int)
    rows = x[2] if graph.edge_features else np.eye(graph.edge_types)[types]
    pair = np.zeros((rows.shape[1], columns.max() + 1))
    for row, (u, v) in zip(rows, edges[:, :2], strict=True):
        column = columns[labels[u], labels[v]]
        if column >= 0:
            pair[:, column] += row
    return np.concatenate([node.ravel(), pair.ravel()])


class Reference:
    """The constrained problem over all labellings, written out."""

    def __init__(self, graph, X, y, C):
        self.lam, self.n = 1.0 / (C * len(X)), len(X)
        self.rows = []
        for x, labels in zip(X, y, strict=True):
            everyone = [np.array(other) for other in product(range(2), repeat=len(labels))]
            true = phi(graph, x, labels)
            self.rows.append(
                (
                    np.array([phi(graph, x, other) - true for other in everyone]),
                    np.array([(other != labels).sum() for other in everyone], dtype=float),
                )
            )
        a = attraction(graph.interactions)
        size = self.rows[0][0].shape[1]
        n_node = 2 * (X[0][0].shape[1] + 1)
        n_rows = (size - n_node) // a.size
        self.cone = np.hstack([np.zeros((n_rows, n_node)), np.kron(np.eye(n_rows), a)])
        self.size = size

    def objective(self, w):
        hinges = [(psi @ w + loss).max() for psi, loss in self.rows]
        return 0.5 * self.lam * w @ w + np.mean(hinges)

    def solve(self):
        """The optimum over w and one slack a sample."""
        n, size = self.n, self.size
        psi = np.vstack([rows for rows, _ in self.rows])
        owner = np.repeat(np.arange(n), [len(loss) for _, loss in self.rows])
        loss = np.concatenate([loss for _, loss in self.rows])
        hinge = np.hstack([-psi, np.eye(n)[owner]])
        cone = np.hstack([self.cone, np.zeros((len(self.cone), n))])
        start = np.concatenate([np.zeros(size), [one.max() for _, one in self.rows]])
        found = minimize(
            lambda z: 0.5 * self.lam * z[:size] @ z[:size] + z[size:].mean(),
            start,
            jac=lambda z: np.concatenate([self.lam * z[:size], np.full(n, 1.0 / n)]),
            method="SLSQP",
            constraints=[
                {"type": "ineq", "fun": lambda z: hinge @ z - loss, "jac": lambda z: hinge},
                {"type": "ineq", "fun": lambda z: cone @ z, "jac": lambda z: cone},
            ],
            options={"maxiter": 500, "ftol": 1e-12},
        )
        w = found.x[:size]
        for row in self.cone:  # any point of the cone bounds the optimum from above
            w += max(0.0, -(row @ w)) * row / (row @ row)
        return w


def flat(svm):
    return np.concatenate([svm.node_weights_.ravel(), svm.pair_weights_.ravel()])
