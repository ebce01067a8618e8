"""Small images of smooth labels under noise."""

import numpy as np


def smooth_images(n_labels=2, n_samples=12, noise=0.4, seed=0, shape=(4, 5)):
    """Images as lists of features and of labels, which neighbours mostly share."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_samples):
        labels = rng.integers(n_labels, size=shape)
        for _ in range(2):
            votes = [labels == k for k in range(n_labels)]
            near = [sum(np.roll(v, s, a) for s in (-1, 1) for a in (0, 1)) + v for v in votes]
            labels = np.argmax([v + 0.5 * rng.random(shape) for v in near], axis=0)
        X.append(np.eye(n_labels)[labels] + rng.normal(scale=noise, size=(*shape, n_labels)))
        y.append(labels)
    return X, y
