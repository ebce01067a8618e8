"""Best score of an assignment with each pair in it, and with each pair left out."""

import math

from ..core.dispatch import inner_kernel, kernel
from .assignment import assignment
from .assignment_paths import Side


@kernel
def assignment_max_marginals(
    scores, n_sources, n_targets, null, price, match, work, best, lone, detour
):
    """Best score with every pair, without every pair, and of every source alone.

    After one best assignment, forcing a pair costs its reduced cost and the shortest chain of
    exchanges that makes room for it. All chains are shortest paths between the vertices of the
    smaller side, here by Floyd and Warshall in O(n^3) where that has n.

    J. Duchi, D. Tarlow, G. Elidan and D. Koller 2006, Using combinatorial optimization within
    max-product belief propagation, NIPS, section 4: max-marginals of matchings by shortest paths.
    """
    n, m = n_sources, n_targets
    value = assignment(scores, n, m, null, price, match, work)
    if not value > -math.inf:
        for q in range(2 * n * m):
            best[q] = value
        for i in range(n):
            lone[i] = value
        return value
    alone, kept = null or n > m, null or n < m
    sources, targets = Side(n, m, 0, work.u[:n], match[:n]), Side(m, 1, 0, price[:m], work.mate[:m])
    if n <= m:
        _marginals(value, scores, sources, targets, alone, kept, best, detour)
    else:
        _marginals(value, scores, targets, sources, kept, alone, best, detour)
    for i in range(n):
        lone[i] = value
        if match[i] >= 0 and not alone:
            lone[i] = -math.inf
        elif match[i] >= 0:
            here = detour[n * (n + 1) + i] if n <= m else detour[match[i] * (m + 1) + m]
            lone[i] = value - (max(work.u[i], 0.0) + here)
    return value


@inner_kernel
def _marginals(value, scores, near, far, alone, kept, best, detour):
    """Best scores with and without every pair; between near vertices shortest paths are found."""
    n, u, price = near.size, near.price, far.price
    _exchanges(scores, near, far, alone, kept, detour)
    shortest_paths(n + 1, detour)
    for i in range(n):
        mine, without = near.mate[i], -math.inf
        if mine >= 0 and alone:
            without = value - (max(u[i], 0.0) + detour[n * (n + 1) + i])
        for j in range(far.size):
            pair = i * near.stride + j * far.stride
            best[2 * pair] = best[2 * pair + 1] = value
            if j != mine:
                other = far.mate[j] if far.mate[j] >= 0 else n
                slack = max(u[i] + price[j] - scores[pair], 0.0)
                best[2 * pair + 1] = value - (slack + detour[other * (n + 1) + i])
                without = max(without, best[2 * pair + 1])
        if mine >= 0:
            best[2 * (i * near.stride + mine * far.stride)] = without


@inner_kernel
def _exchanges(scores, near, far, alone, kept, detour):
    """What it costs that a near vertex takes the place of another; place n is to stay alone."""
    n, u, price = near.size, near.price, far.price
    for k in range(n):
        row = k * (n + 1)
        for other in range(n + 1):
            detour[row + other] = math.inf
        if alone:
            detour[row + n] = max(u[k], 0.0)
        for j in range(far.size):
            other = far.mate[j] if far.mate[j] >= 0 else n
            slack = max(u[k] + price[j] - scores[k * near.stride + j * far.stride], 0.0)
            if slack < detour[row + other]:
                detour[row + other] = slack
        detour[row + k] = 0.0
        free = 0.0 if near.mate[k] < 0 else math.inf
        if kept and near.mate[k] >= 0:
            free = max(price[near.mate[k]], 0.0)
        detour[n * (n + 1) + k] = free
    detour[n * (n + 1) + n] = 0.0


@inner_kernel
def shortest_paths(n, distance):
    """All shortest paths, in place."""
    for k in range(n):
        through = distance[k * n : k * n + n]
        for i in range(n):
            first = distance[i * n + k]
            if first < math.inf and i != k:
                row = distance[i * n : i * n + n]
                for j in range(n):
                    length = first + through[j]
                    row[j] = length if length < row[j] else row[j]
