"""The n best labellings of any structure with max-marginals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import count_states, max_marginals, max_oracle

# The labellings are partitioned into sets. The best labelling of each set is known, and its
# max-marginals give the score of the second best, and a node where it differs. The best of all
# second ones is the next labelling; its set is split in two: the labellings with its label at that
# node, and the others.
#
# Yanover and Weiss 2003, Finding the M most probable configurations using loopy belief propagation;
# Fromer and Globerson 2009, An LP view of the M-best MAP problem, prove that the sets are enough.


class Branches(NamedTuple):
    """Disjoint sets of labellings, one per labelling found: the best of its set."""

    # (n_best,): The set was split from `parent`, and has this label at this node. Set 0 is the
    # remainder of all labellings.
    parent: np.ndarray
    node: np.ndarray
    label: np.ndarray
    # (n_best,): The score of the second best of the set, -inf if there is none.
    next_value: np.ndarray
    # (n_best,): A node where that differs from the best, and its label there.
    next_node: np.ndarray
    next_label: np.ndarray
    # (n_best,): The set split last from each, and the one split from the same set before it; 0:
    # none.
    child: np.ndarray
    sibling: np.ndarray
    # (n_best,): A heap of the sets by the scores of their second best.
    heap: np.ndarray


def branch_scratch(n_best: int) -> Branches:
    """Room for the sets of `n_best` labellings."""
    ends, rest = np.zeros((3, n_best), dtype=np.int64), np.zeros((5, n_best), dtype=np.int64)
    return Branches(*ends, np.zeros(n_best), *rest)


@kernel
def confine(branches, s, count, unary):
    """Forbid the labels that occur in no labelling of set s, out of `count` sets."""
    stop = count
    while True:
        other = branches.child[s]
        while other > 0:
            if other < stop:
                unary[branches.node[other], branches.label[other]] = -math.inf
            other = branches.sibling[other]
        if s == 0:
            return
        for k in range(unary.shape[1]):
            if k != branches.label[s]:
                unary[branches.node[s], k] = -math.inf
        # Sets split from the parent later do not intersect this one.
        stop, s = s, branches.parent[s]


@kernel
def note_second(branches, s, best, max_marginals):
    """Store the score of the second best labelling of set s, and where it differs."""
    largest = -math.inf
    for t in range(max_marginals.shape[0]):
        for k in range(max_marginals.shape[1]):
            if k != best[t] and max_marginals[t, k] > largest:
                largest = max_marginals[t, k]
                branches.next_node[s], branches.next_label[s] = t, k
    branches.next_value[s] = largest


@inner_kernel(inline=True)
def _precedes(branches, s, other):
    """Return whether the second best of set s is better than the other's, or equal and older."""
    one, two = branches.next_value[s], branches.next_value[other]
    return one > two or (one == two and s < other)


@inner_kernel
def _settle(branches, count):
    """Order the heap of `count` sets, of which the first has changed and the last is new."""
    heap, first, p, below = branches.heap, branches.heap[0], 0, 1
    while below < count - 1:
        if below + 2 < count and _precedes(branches, heap[below + 1], heap[below]):
            below += 1
        if not _precedes(branches, heap[below], first):
            break
        heap[p] = heap[below]
        p, below = below, 2 * below + 1
    heap[p] = first
    p = count - 1
    while p > 0 and _precedes(branches, count - 1, heap[(p - 1) // 2]):
        heap[p] = heap[(p - 1) // 2]
        p = (p - 1) // 2
    heap[p] = count - 1


@kernel
def split_best(branches, count):
    """Split the set with the best second labelling: set `count` is the part with that labelling.

    Called for 1, 2, ... when the seconds of all sets are known; returns the set, or -1: none left.
    """
    if count == 1:
        branches.heap[0] = branches.child[0] = 0
    else:
        _settle(branches, count)
    parent = branches.heap[0]
    if not branches.next_value[parent] > -math.inf:
        return -1
    branches.parent[count] = parent
    branches.node[count] = branches.next_node[parent]
    branches.label[count] = branches.next_label[parent]
    branches.child[count], branches.sibling[count] = 0, branches.child[parent]
    branches.child[parent] = count
    return parent


class NBestScratch(NamedTuple):
    """Scratch of :func:`top_k_by_max_marginals`, the field ``n_best`` of a space's ``work``."""

    # (max_parts,): Potentials where only the labellings of a set are allowed.
    theta: np.ndarray
    # (max_nodes * n_states,): Max-marginals of the set.
    max_marginals: np.ndarray
    # The sets.
    branches: Branches
    # (max_parts,), (max_nodes,): Potentials with a forced label, and the best labelling under them.
    forced: np.ndarray
    labels: np.ndarray

    @property
    def room(self):
        """Number of labellings that there is room for."""
        return self.branches.parent.size


def n_best_scratch(
    part_ptr: np.ndarray, label_ptr: np.ndarray, n_states: int | np.ndarray, n_best: int
) -> NBestScratch:
    """Scratch for the `n_best` labellings of the largest sample, as ``work.n_best`` of a space.

    `n_states` is the result of :func:`~skstruct.core.oracles.count_states`, one or (n_samples,).
    """
    if n_best < 2:
        part_ptr = label_ptr = np.zeros(1, dtype=np.int64)
        n_states = 0
    n_parts = int(np.diff(part_ptr).max(initial=0))
    n_marginals = int((np.diff(label_ptr) * n_states).max(initial=0))
    return NBestScratch(
        theta=np.zeros(n_parts),
        max_marginals=np.zeros(n_marginals),
        branches=branch_scratch(max(n_best, 1)),
        forced=np.zeros(n_parts),
        labels=np.zeros(int(np.diff(label_ptr).max(initial=0)), dtype=np.int32),
    )


@kernel
def max_marginals_by_maxima(space, i, theta, out):
    """A kernel for :func:`~skstruct.core.oracles.max_marginals`: the maximum under each label.

    It calls ``max_oracle``, which must respect -inf at node parts; needs ``work.n_best``.
    """
    scratch, n_states = space.work.n_best, count_states(space, i)
    forced = scratch.forced
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
        forced[q] = theta[q]
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        first = t * n_states
        for k in range(n_states):
            for other in range(n_states):
                forced[first + other] = theta[first + other] if other == k else -math.inf
            out[first + k] = max_oracle(space, i, forced, scratch.labels)
        for k in range(n_states):
            forced[first + k] = theta[first + k]


@inner_kernel
def _confine(space, i, theta, s, count):
    """Write the potentials of set s to the scratch, where those of all other parts are."""
    scratch, n_states = space.work.n_best, count_states(space, i)
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    for q in range(n * n_states):
        scratch.theta[q] = theta[q]
    confine(scratch.branches, s, count, scratch.theta[: n * n_states].reshape(n, n_states))


@inner_kernel
def _find_second(space, i, theta, s, count, best):
    """Find the second best labelling of set s, of which `best` is the best, by max-marginals."""
    scratch, n_states = space.work.n_best, count_states(space, i)
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    _confine(space, i, theta, s, count)
    max_marginals(space, i, scratch.theta, scratch.max_marginals)
    found = scratch.max_marginals[: n * n_states].reshape(n, n_states)
    note_second(scratch.branches, s, best, found)


@kernel
def top_k_by_max_marginals(space, i, theta, values, labels):
    """A kernel of `top_k_oracle` for structures that have `max_oracle` and `max_marginals`.

    Both must be exact and respect -inf at node parts: label k of node t at ``theta[t * n_states
    + k]``. It takes 2n - 3 sets of max-marginals and n maxima; the space registers `count_states`,
    and ``work.n_best`` is from :func:`n_best_scratch`. Best Max-Marginal First (Yanover and Weiss
    2003, section 3; Fromer and Globerson 2009; Pillutla et al. 2019, Algorithm 10).
    """
    n_best, scratch = values.shape[0], space.work.n_best
    for s in range(n_best):
        values[s] = -math.inf
    values[0] = max_oracle(space, i, theta, labels[0])
    if n_best == 1 or not values[0] > -math.inf:
        return
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i]):
        scratch.theta[q] = theta[q]
    _find_second(space, i, theta, 0, 1, labels[0])
    for s in range(1, n_best):
        parent = split_best(scratch.branches, s)
        if parent < 0:
            return
        _confine(space, i, theta, s, s + 1)
        # Not above the previous labelling by rounding.
        values[s] = min(max_oracle(space, i, scratch.theta, labels[s]), values[s - 1])
        if s + 1 < n_best:
            _find_second(space, i, theta, parent, s + 1, labels[parent])
            _find_second(space, i, theta, s, s + 1, labels[s])
