"""The augmented Lagrangian (12) of GDMM on a small problem, and its minimum for given multipliers.

Dense arrays: a point is a row of probabilities for each node, then one for each edge. With
``alpha = C (e_true - q)`` and the multipliers `nu` over C, as in the package, the Lagrangian is
``1/2 |w(q)|^2 - C sum_j <delta_j, q_j> + rho/2 C^2 sum_ports (|u + nu|^2 - |nu|^2)``, where u is
the marginal of an edge minus the node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Lagrangian(NamedTuple):
    """Its quadratic form: ``1/2 q'Hq - b'q + constant``, and how `b` depends on multipliers."""

    H: np.ndarray
    b: np.ndarray
    constant: float
    # (n_ports * n_labels, n): Disagreement of a point.
    M: np.ndarray
    penalty: float  # rho C^2
    shapes: tuple  # (nodes, labels), (edges, pairs)

    def value(self, q, nu):
        """L(q, nu)."""
        linear = self.b - self.penalty * (nu @ self.M)
        return 0.5 * q @ self.H @ q - linear @ q + self.constant


def lagrangian(graph, reach, rho):
    """Of the factors of a run of GDMM whose samples weigh the same; `graph` has dense features."""
    n_labels, n_nodes, n_edges = graph.cost.shape[0], graph.labels.size, len(graph.ends)
    rows = graph.nodes.values
    if graph.nodes.intercept >= 0:
        rows = np.hstack([rows, np.ones((n_nodes, 1))])
    n, K2 = n_nodes * n_labels, n_labels**2
    true = np.zeros(n + n_edges * K2)
    true[np.arange(n_nodes) * n_labels + graph.labels] = 1.0
    pairs = graph.labels[graph.ends].astype(int) @ (n_labels, 1)
    true[n + np.arange(n_edges) * K2 + pairs] = 1.0
    # w is linear in alpha: a block of the Gram matrix for nodes, one for edges.
    gram = np.zeros((true.size, true.size))
    gram[:n, :n] = np.kron(rows @ rows.T, np.eye(n_labels))
    gram[n:, n:] = np.kron(np.ones((n_edges, n_edges)), np.eye(K2))
    gram *= reach * reach
    M = np.zeros((2 * n_edges * n_labels, true.size))
    first, second = np.divmod(np.arange(K2), n_labels)
    for f in range(n_edges):
        for side, own in enumerate((first, second)):
            base = (2 * f + side) * n_labels
            M[base + own, n + f * K2 + np.arange(K2)] = 1.0
            node = graph.ends[f, side]
            M[base + np.arange(n_labels), node * n_labels + np.arange(n_labels)] = -1.0
    loss = np.zeros(true.size)
    loss[:n] = (graph.share[:, None] * graph.cost[graph.labels]).ravel()
    penalty = rho * reach * reach
    return Lagrangian(
        H=gram + penalty * M.T @ M,
        b=gram @ true + reach * loss,
        constant=0.5 * true @ gram @ true,
        M=M,
        penalty=penalty,
        shapes=((n_nodes, n_labels), (n_edges, K2)),
    )


def point(form, state):
    """The probabilities and the multipliers of a state of the package."""
    (n_nodes, n_labels), (n_edges, K2) = form.shapes
    q = []
    for sets, shape in ((state.nodes, (n_nodes, n_labels)), (state.edges, (n_edges, K2))):
        table = np.zeros(shape)
        for k, row in enumerate(table):
            kept = slice(sets.start[k], sets.start[k] + sets.size[k])
            np.add.at(row, sets.key[kept], sets.share[kept])
        q.append(table.ravel())
    nu = np.zeros((2 * n_edges, n_labels))
    for p, row in enumerate(nu):
        kept = slice(state.ports.start[p], state.ports.start[p] + state.ports.size[p])
        np.add.at(row, state.ports.key[kept], state.ports.price[kept])
    return np.concatenate(q), nu.ravel()


def _project(rows):
    """Rows onto the simplex."""
    ordered = -np.sort(-rows, axis=1)
    sums = np.cumsum(ordered, axis=1) - 1.0
    kept = np.count_nonzero(ordered * np.arange(1, rows.shape[1] + 1) > sums, axis=1) - 1
    level = sums[np.arange(len(rows)), kept] / (kept + 1)
    return np.maximum(rows - level[:, None], 0.0)


def least(form, nu, q, tol=1e-12, most=20_000):
    """Minimise L(., nu) from `q` by accelerated gradients: the point, and a bound from below."""
    n = form.shapes[0][0] * form.shapes[0][1]
    linear = form.b - form.penalty * (nu @ form.M)
    step = 1.0 / np.linalg.eigvalsh(form.H)[-1]
    x, y, t = q, q, 1.0
    scale = abs(form.value(q, nu)) + 1.0
    for k in range(most):
        new = y - step * (form.H @ y - linear)
        new = np.concatenate(
            [_project(part.reshape(shape)).ravel()
             for part, shape in zip((new[:n], new[n:]), form.shapes, strict=True)]
        )  # fmt: skip
        if (y - new) @ (new - x) > 0.0:  # uphill
            t = 1.0
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        y = new + (t - 1.0) / after * (new - x)
        x, t = new, after
        if k % 20 == 0:
            gradient = form.H @ x - linear
            blocks = (gradient[:n].reshape(form.shapes[0]), gradient[n:].reshape(form.shapes[1]))
            gap = gradient @ x - sum(block.min(axis=1).sum() for block in blocks)
            if gap <= tol * scale:
                break
    return x, form.value(x, nu) - gap
