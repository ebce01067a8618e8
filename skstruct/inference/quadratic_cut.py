"""Cuts with a quadratic cost of nodes: total variation, exact by a few maximum flows."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .max_flow import WHOLE, advance_flow, in_source_side, init_search_forest

# Of the largest number: what rounding may leave at a node whose level is found.
_ROUNDING = 2.0**-50


class LevelWork(NamedTuple):
    """Scratch of :func:`quadratic_cut`, one per thread."""

    # (n_nodes,): Which nodes have one level so far, -1 where it is found; the group of those below.
    group: np.ndarray
    other: np.ndarray
    # (n_nodes,): Of groups: nodes, range of levels, the level that is tried, sums of gains and
    # curvatures.
    size: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: np.ndarray
    gain: np.ndarray
    bend: np.ndarray


def level_work(n_nodes):
    """Room for graphs of at most so many nodes."""
    return LevelWork(*np.empty((2, n_nodes), dtype=np.int32), *np.empty((6, n_nodes)))


@inner_kernel
def _pin(n, network, work, x):
    """Take nodes out that must be at 0 or 1, with all that this forces; False: a contradiction."""
    first, head, sister = network.first, network.head, network.sister
    cap, excess, group, queue = network.cap, network.excess, work.group, work.other
    last = 0
    for v in range(n):
        group[v], x[v] = 0, 0.0
        if abs(excess[v]) == math.inf:
            group[v], queue[last] = -1, v
            last += 1
    done = 0
    while done < last:
        v = queue[done]
        done += 1
        x[v] = 1.0 if excess[v] > 0.0 else 0.0
        for a in range(first[v], first[v + 1]):
            u, pull = head[a], cap[a] if excess[v] > 0.0 else -cap[sister[a]]
            if group[u] == -1:
                if abs(pull) == math.inf and (pull > 0.0) != (excess[u] > 0.0):
                    return False
                continue
            excess[u] += pull
            cap[a] = cap[sister[a]] = 0.0
            if abs(pull) == math.inf:
                group[u], queue[last] = -1, u
                last += 1
    for v in range(n):
        if group[v] == -1:
            excess[v] = 0.0
            for a in range(first[v], first[v + 1]):
                cap[a] = cap[sister[a]] = 0.0
    return True


@inner_kernel
def _largest(n, curvature, network):
    """The largest number of a network."""
    largest = 0.0
    for v in range(n):
        largest = max(largest, abs(network.excess[v]), curvature[v])
        for a in range(network.first[v], network.first[v + 1]):
            if network.cap[a] < math.inf:
                largest = max(largest, network.cap[a])
    return largest


@inner_kernel
def _move(n, n_groups, curvature, network, work, x):
    """Bring each group to the level at which its gains are used up."""
    group, level, gain, bend, excess = work.group, work.level, work.gain, work.bend, network.excess
    for g in range(n_groups):
        gain[g] = bend[g] = work.size[g] = 0.0
    for v in range(n):
        g = group[v]
        if g >= 0:
            gain[g] += excess[v]
            bend[g] += curvature[v]
            level[g] = x[v]
            work.size[g] += 1.0
    for g in range(n_groups):
        if work.size[g] > 0.0:
            level[g] = min(max(level[g] + gain[g] / bend[g], work.low[g]), work.high[g])
    for v in range(n):
        g = group[v]
        if g >= 0:
            excess[v] -= curvature[v] * (level[g] - x[v])
            x[v] = level[g]


@inner_kernel
def _split(n, n_groups, tolerance, network, forest, work):
    """Part the groups of which some nodes would go up and others down; how many there are then."""
    group, other, up, down, excess = work.group, work.other, work.gain, work.bend, network.excess
    for g in range(n_groups):
        up[g] = down[g] = 0.0
    for v in range(n):
        g = group[v]
        if g >= 0:
            if in_source_side(v, forest):
                up[g] += excess[v]
            else:
                down[g] -= excess[v]
    before = n_groups
    for g in range(before):
        other[g] = -1
        at_rest = tolerance * work.size[g]
        if work.size[g] > 0.0 and up[g] > at_rest and down[g] > at_rest:
            other[g] = n_groups
            work.low[n_groups], work.high[n_groups] = work.low[g], work.level[g]
            work.low[g] = work.level[g]
            n_groups += 1
    return n_groups


@inner_kernel
def _part(n, network, forest, work):
    """Write the new groups, and cut the arcs between them; whether any is left."""
    group, other, excess, busy = work.group, work.other, network.excess, False
    for v in range(n):
        g = group[v]
        if g < 0:
            continue
        b = other[g]
        if b >= 0 and not in_source_side(v, forest):
            group[v] = b if work.low[b] < work.high[b] else -1
        elif b < 0 or not work.low[g] < work.high[g]:
            group[v] = -1
        if group[v] < 0:
            excess[v] = 0.0
        busy = busy or group[v] >= 0
    for v in range(n):
        for a in range(network.first[v], network.first[v + 1]):
            if group[v] < 0 or group[v] != group[network.head[a]]:
                network.cap[a] = 0.0
    return busy


@kernel
def quadratic_cut(n, curvature, network, forest, work, x):
    """Maximise concave gains of nodes less capacities times differences, over a cube.

    ``sum_v excess_v x_v - curvature_v x_v^2 / 2 - sum_a cap_a max(0, x_tail - x_head)``, by parting
    nodes at levels with minimum cuts (Hochbaum 2001; Chambolle and Darbon 2009, section 4).
    """
    if not _pin(n, network, work, x):
        return False
    tolerance = _ROUNDING * _largest(n, curvature, network)
    work.low[0], work.high[0] = 0.0, 1.0
    n_groups, busy = 1, n > 0
    while busy:
        _move(n, n_groups, curvature, network, work, x)
        init_search_forest(n, network, forest)
        advance_flow(network, forest, WHOLE)
        n_groups = _split(n, n_groups, tolerance, network, forest, work)
        busy = _part(n, network, forest, work)
    return True
