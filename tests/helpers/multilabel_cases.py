"""Label sets that tests draw."""

import numpy as np


def make_labels(seed=0, n_samples=60, n_labels=5, n_features=4):
    """Labels that depend on the features and on each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    common = 0.8 * rng.normal(size=(n_samples, 1))
    score = X @ rng.normal(size=(n_features, n_labels)) + common
    return X, (score + rng.normal(size=score.shape) > 0).astype(int)
