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
    """Disjoint sets of labellings, one a labelling that was found: the best of its set."""

    # (n_best,): The set was split from that of `parent`, and has this label at this node. Set 0 is
    # what is left of all labellings.
    parent: np.ndarray
    node: np.ndarray
    label: np.ndarray
    # (n_best,): The score of the second best of the set, -inf if there is none.
    next_value: np.ndarray
    # (n_best,): Where that differs from the best, and what it has there.
    next_node: np.ndarray
    next_label: np.ndarray


def branch_scratch(n_best: int) -> Branches:
    """Room for the sets of `n_best` labellings."""
    ends, seconds = np.zeros((3, n_best), dtype=np.int64), np.zeros((2, n_best), dtype=np.int64)
    return Branches(*ends, np.zeros(n_best), *seconds)


@kernel
def confine(branches, s, count, unary):
    """Forbid the labels that no labelling of set s has, where there are `count` sets."""
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
    """Remember the score of the second best labelling of set s, and where it differs."""
    largest = -math.inf
    for t in range(max_marginals.shape[0]):
        for k in range(max_marginals.shape[1]):
            if k != best[t] and max_marginals[t, k] > largest:
                largest = max_marginals[t, k]
                branches.next_node[s], branches.next_label[s] = t, k
    branches.next_value[s] = largest


@kernel
def split_best(branches, count):
    """Split the set that has the best second labelling: set `count` is the part around it."""
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
