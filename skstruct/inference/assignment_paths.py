"""Shortest augmenting paths of :mod:`.assignment`: one search that serves both sides.

Prices `u` of sources and `v` of targets keep every *reduced cost* ``u_i + v_j - s_ij`` at least 0,
0 where i and j are linked. A vertex that may stay without a link has a price of at least 0, and
stays without one only at 0: staying so costs the vertex its price.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel


class AssignmentWork(NamedTuple):
    """Scratch of the kernels on assignments, one per thread."""

    # (n_sources,): Prices of the sources.
    u: np.ndarray
    # (n_sources,): By how much the prices of sources may fall, and reduced costs of one of them.
    slack: np.ndarray
    gap: np.ndarray
    # (n_sources + n_targets,): Prices of both sides before links changed.
    before: np.ndarray
    # (n_targets,): The source each target is linked to, or -1.
    mate: np.ndarray
    # (n + 1,): Lengths of paths; n is the larger side.
    distance: np.ndarray
    # (n + 1,): Where paths come from, what has not been scanned, and what has.
    path: np.ndarray
    remaining: np.ndarray
    order: np.ndarray
    # (n_sources + 1,): Where the ties of each source begin, and which search met it last.
    begin: np.ndarray
    stamp: np.ndarray
    # Where each source could be at no cost.
    ties: np.ndarray


def assignment_work(n_sources, n_targets):
    """Room for assignments of at most so many sources and targets."""
    n = max(n_sources, n_targets) + 1
    path, remaining, order = np.empty((3, n), dtype=np.int32)
    begin, stamp = np.empty((2, n_sources + 1), dtype=np.int32)
    ties = np.empty(n_sources * (n_targets + 1), dtype=np.int32)
    mate = np.empty(n_targets, dtype=np.int32)
    u, slack = np.empty((2, n_sources))
    floats = u, slack, np.empty(n_targets), np.empty(n_sources + n_targets)
    return AssignmentWork(*floats, mate, np.empty(n), path, remaining, order, begin, stamp, ties)


class Side(NamedTuple):
    """What :func:`augment` reads of one side of an assignment."""

    # How many vertices, and how far apart their scores are.
    size: int
    stride: int
    # Vertices before it keep their links.
    first: int
    # (size,): Their prices.
    price: np.ndarray
    # (size,): The other ends of their links, or -1.
    mate: np.ndarray


@inner_kernel
def count_above(scores, at, price, size, limit):
    """How many ``scores[at + j] - price[j]`` are above a limit, as a float: such sums vectorise."""
    count = 0.0
    for j in range(size):
        count += 1.0 if scores[at + j] - price[j] > limit else 0.0
    return count


@inner_kernel
def least_of(values, size):
    """Smallest value, inf if there is none; four chains of comparisons run side by side."""
    a, b, c, d = math.inf, math.inf, math.inf, math.inf
    quarters = size // 4 * 4
    for q in range(0, quarters, 4):
        a = min(a, values[q])
        b = min(b, values[q + 1])
        c = min(c, values[q + 2])
        d = min(d, values[q + 3])
    for q in range(quarters, size):
        a = min(a, values[q])
    return min(min(a, b), min(c, d))


@kernel
def augment(vertex, scores, near, far, may_drop, may_stay, work):
    """Link `vertex` along a shortest augmenting path, or leave a vertex of its side without a link.

    The path ends at a vertex of the far side that has no link, or (`may_drop`) at one of the near
    side that loses its own; it is empty where `vertex` itself stays without one (`may_stay`).
    False, with nothing changed, when there is no path.
    """
    price, other, mate, other_mate = near.price, far.price, near.mate, far.mate
    distance, path = work.distance, work.path
    remaining, order = work.remaining, work.order
    left = 0
    for j in range(far.size):
        distance[j] = math.inf
        if j >= far.first and not 0 <= other_mate[j] < near.first:
            remaining[left] = j
            left += 1
    seen, sink, low, i = 0, -1, 0.0, vertex
    least, loser = price[vertex] if may_stay else math.inf, vertex
    while True:
        base, at = low + price[i], i * near.stride
        nearest, where = math.inf, -1
        for q in range(left):
            j = remaining[q]
            d = base + other[j] - scores[at + j * far.stride]
            if d < distance[j]:
                distance[j] = d
                path[j] = i
            else:
                d = distance[j]
            if d < nearest or (d == nearest and other_mate[j] < 0):
                nearest, where = d, q
        if not nearest < least:
            break
        low = max(low, nearest)
        j = remaining[where]
        if other_mate[j] < 0:
            sink, least = j, low
            break
        order[seen] = j
        seen += 1
        left -= 1
        remaining[where] = remaining[left]
        i = other_mate[j]
        if may_drop and low + price[i] < least:
            least, loser = low + price[i], i
    if least == math.inf:
        return False
    price[vertex] -= least
    for q in range(seen):
        j = order[q]
        price[other_mate[j]] -= least - distance[j]
        other[j] += least - distance[j]
    if sink < 0:
        price[loser] = 0.0
        sink = mate[loser]
        mate[loser] = -1
        if loser == vertex:
            return True
    _flip(vertex, sink, path, mate, other_mate)
    return True


@inner_kernel
def _flip(vertex, sink, path, mate, other_mate):
    """Exchange the links along the path from `vertex` to `sink`."""
    j = sink
    while True:
        i = path[j]
        other_mate[j] = i
        before = mate[i]
        mate[i] = j
        if i == vertex:
            return
        j = before
