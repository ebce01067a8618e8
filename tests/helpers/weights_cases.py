"""Weighted problems that the tests of weights share."""

import numpy as np

from skstruct.estimators.training_data import read_training_data
from skstruct.testing import random_sequences


def make_data(structure, n_samples=6):
    X, y = random_sequences(np.random.default_rng(1), n_samples=n_samples, max_length=5)
    rng = np.random.default_rng(2)
    if structure == "tree":
        parents = [[int(rng.integers(t)) if t else -1 for t in range(len(x))] for x in X]
        return list(zip(X, parents, strict=True)), y
    if structure == "grid":
        X = [rng.normal(size=(h, w, 2)) for h, w in [(1, 3), (2, 2), (3, 1)]]
        return X, [(x[..., 0] > 0).astype(int) for x in X]
    if structure == "labels":
        X = rng.normal(size=(8, 3))
        return X, (X @ rng.normal(size=(3, 4)) + rng.normal(size=(8, 4)) > 0).astype(int)
    return X, y


def make_node_weight(y, zeros=True):
    rng = np.random.default_rng(3)
    weights = [rng.random(np.shape(labels)) * 2.0 for labels in y]
    if zeros:
        weights = [v * (rng.random(v.shape) < 0.7) for v in weights]
    weights[0].flat[0] = 0.0
    return np.array(weights) if isinstance(y, np.ndarray) else weights


def make_problem(model, X, y, node_weight=None, sample_weight=None):
    data = read_training_data(model, X, y, sample_weight, node_weight)
    return data, model._make_problem(data)
