"""The n best labellings by max-marginals: best max-marginal first.

The labellings fall into disjoint sets. Of each the best one is known, and its max-marginals tell
the second best: how good it is, and at which node it differs. The best of all seconds is the next
labelling; its set is split in two, those that have its label at that node and those that do not.

Yanover and Weiss 2003, Finding the M most probable configurations using loopy belief propagation;
Fromer and Globerson 2009, An LP view of the M-best MAP problem, tell why the sets are enough.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import kernel


class Branches(NamedTuple):
    """Disjoint sets of labellings, one a labelling that was found: the best of its set.

    Parameters
    ----------
    parent, node, label : ndarray of shape (n_best,) of int64
        The set was split from that of `parent`, and has this label at this node. Set 0 is what is
        left of all labellings.
    next_value : ndarray of shape (n_best,)
        The score of the second best of the set, -inf if there is none.
    next_node, next_label : ndarray of shape (n_best,) of int64
        Where that differs from the best, and what it has there.
    """

    parent: np.ndarray
    node: np.ndarray
    label: np.ndarray
    next_value: np.ndarray
    next_node: np.ndarray
    next_label: np.ndarray


def branch_scratch(n_best: int) -> Branches:
    """Room for the sets of `n_best` labellings.

    Parameters
    ----------
    n_best : int
        Largest number of labellings.

    Returns
    -------
    Branches
        Arrays of zeros.

    Examples
    --------
    >>> from skstruct.inference.bmmf import branch_scratch
    >>> branch_scratch(5).parent.shape
    (5,)
    """
    ends, seconds = np.zeros((3, n_best), dtype=np.int64), np.zeros((2, n_best), dtype=np.int64)
    return Branches(*ends, np.zeros(n_best), *seconds)


@kernel
def confine(branches, s, count, unary):
    """Forbid the labels that no labelling of set s has, where there are `count` sets.

    Parameters
    ----------
    branches : Branches
        The sets.
    s, count : int
        Which set, and how many there are.
    unary : ndarray of shape (n_nodes, n_states)
        Scores of labels as they were given; those that the set does not have become -inf.
    """
    stop = count
    while True:
        for other in range(s + 1, stop):
            if branches.parent[other] == s:
                unary[branches.node[other], branches.label[other]] = -math.inf
        if s == 0:
            return
        for k in range(unary.shape[1]):
            if k != branches.label[s]:
                unary[branches.node[s], k] = -math.inf
        # What was split from the parent later is no part of this set anyway.
        stop, s = s, branches.parent[s]


@kernel
def note_second(branches, s, best, max_marginals):
    """Remember the score of the second best labelling of set s, and where it differs.

    Parameters
    ----------
    branches : Branches
        Takes them.
    s : int
        Which set.
    best : ndarray of shape (n_nodes or more,) of int32
        Its best labelling.
    max_marginals : ndarray of shape (n_nodes, n_states)
        Of the set: -inf for what it does not have. Ties go to the first node and label.
    """
    largest = -math.inf
    for t in range(max_marginals.shape[0]):
        for k in range(max_marginals.shape[1]):
            if k != best[t] and max_marginals[t, k] > largest:
                largest = max_marginals[t, k]
                branches.next_node[s], branches.next_label[s] = t, k
    branches.next_value[s] = largest


@kernel
def split_best(branches, count):
    """Split the set that has the best second labelling: set `count` is the part around it.

    Parameters
    ----------
    branches : Branches
        `count` sets, all of whose seconds are known; takes one more.
    count : int
        How many sets there are, at least one.

    Returns
    -------
    int
        The set that was split, -1 if there are no more labellings.
    """
    parent = 0
    for other in range(1, count):
        if branches.next_value[other] > branches.next_value[parent]:
            parent = other
    if not branches.next_value[parent] > -math.inf:
        return -1
    branches.parent[count] = parent
    branches.node[count] = branches.next_node[parent]
    branches.label[count] = branches.next_label[parent]
    return parent
