"""Sampling proportional to weights that change at every step."""

import numpy as np

from ..core.dispatch import kernel


def sum_tree(n):
    """Storage of a sum tree over `n` leaves, all zero.

    Parameters
    ----------
    n : int
        Number of leaves.

    Returns
    -------
    ndarray of shape (2 * capacity,)
        The tree as an implicit binary heap, root at 1, leaves from ``capacity``, a power of two.

    Examples
    --------
    >>> from skstruct.solvers.sampling import sum_tree
    >>> sum_tree(3).shape
    (8,)
    """
    capacity = 1
    while capacity < n:
        capacity *= 2
    return np.zeros(2 * capacity)


@kernel
def set_leaf(tree, i, value):
    """Set the weight of leaf `i`, in O(log n).

    Parameters
    ----------
    tree : ndarray
        A sum tree.
    i : int
        The leaf.
    value : float
        Its new weight, >= 0.

    Examples
    --------
    >>> from skstruct.solvers.sampling import set_leaf, sum_tree
    >>> tree = sum_tree(2)
    >>> set_leaf(tree, 1, 3.0)
    >>> float(tree[1])
    3.0
    """
    position = tree.shape[0] // 2 + i
    tree[position] = value
    position //= 2
    while position >= 1:
        # Sums are taken afresh from the children, so rounding never accumulates.
        tree[position] = tree[2 * position] + tree[2 * position + 1]
        position //= 2


@kernel
def sample_leaf(tree, u):
    """The leaf that `u` in [0, 1) selects, with probability proportional to its weight.

    Parameters
    ----------
    tree : ndarray
        A sum tree of positive total weight.
    u : float
        A uniform number.

    Returns
    -------
    int
        The leaf.

    Examples
    --------
    >>> from skstruct.solvers.sampling import sample_leaf, set_leaf, sum_tree
    >>> tree = sum_tree(2)
    >>> set_leaf(tree, 1, 3.0)
    >>> sample_leaf(tree, 0.0)
    1
    """
    capacity = tree.shape[0] // 2
    target = u * tree[1]
    position = 1
    while position < capacity:
        position *= 2
        if target >= tree[position] and tree[position + 1] > 0.0:
            target -= tree[position]
            position += 1
    return position - capacity
