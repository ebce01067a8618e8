"""Sampling proportional to weights that change at every step."""

import numpy as np

from ..core.jit.kernels import kernel


def sum_tree(n):
    """Storage of a sum tree over `n` leaves, all zero."""
    capacity = 1
    while capacity < n:
        capacity *= 2
    return np.zeros(2 * capacity)


@kernel
def set_leaf(tree, i, value):
    """Set the weight of leaf `i`, in O(log n)."""
    position = tree.shape[0] // 2 + i
    tree[position] = value
    position //= 2
    while position >= 1:
        # Sums are taken afresh from the children, so rounding never accumulates.
        tree[position] = tree[2 * position] + tree[2 * position + 1]
        position //= 2


@kernel
def sample_leaf(tree, u):
    """The leaf that `u` in [0, 1) selects, with probability proportional to its weight."""
    capacity = tree.shape[0] // 2
    target = u * tree[1]
    position = 1
    while position < capacity:
        position *= 2
        if target >= tree[position] and tree[position + 1] > 0.0:
            target -= tree[position]
            position += 1
    return position - capacity
