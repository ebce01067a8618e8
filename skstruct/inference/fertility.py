"""Links of largest score where a vertex may have several: successive shortest paths."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .assignment import shortest_paths


class FertilityWork(NamedTuple):
    """Scratch of :func:`fertile_links`, one per thread."""

    # (n_sources,): Dual variables.
    source_price: np.ndarray
    target_price: np.ndarray
    # Number of links of every vertex.
    source_degree: np.ndarray
    target_degree: np.ndarray
    # (n_sources + n_targets,): Lengths of paths.
    distance: np.ndarray
    # (n_sources + n_targets,): Where they come from, and whether they are the shortest.
    path: np.ndarray
    done: np.ndarray


def fertility_work(n_sources, n_targets):
    """Room for links of at most so many sources and targets."""
    n = n_sources + n_targets
    degrees = np.empty(n_sources, np.int32), np.empty(n_targets, np.int32)
    path, done = np.empty((2, n), dtype=np.int32)
    return FertilityWork(
        np.empty(n_sources), np.empty(n_targets), *degrees, np.empty(n), path, done
    )


class Side(NamedTuple):
    """One side of a matching, as the search reads it."""

    # Number of vertices, and the stride of their pairs.
    size: int
    stride: int
    # Links that every vertex must have.
    least: int
    # (size,): Their dual variables and their numbers of links.
    price: np.ndarray
    degree: np.ndarray


@inner_kernel
def _sides(n, m, null, work):
    """Sources and targets; the smaller side needs links where vertices may not stay alone."""
    least = 0 if null else 1
    rows = Side(n, m, least if n <= m else 0, work.source_price[:n], work.source_degree[:n])
    columns = Side(m, 1, least if n > m else 0, work.target_price[:m], work.target_degree[:m])
    return rows, columns


@inner_kernel(inline=True)
def is_fixed(fixed, q):
    """Return whether pair q must be linked."""
    return fixed.shape[0] > 0 and fixed[q] == 1


@kernel
def fertile_links(scores, n_sources, n_targets, null, max_degree, fixed, links, work):
    """Best links of bounded degrees, by shortest paths (Ahuja, Magnanti and Orlin 1993, 9.7)."""
    n, m = n_sources, n_targets
    wrong = 0
    for q in range(n * m):
        links[q] = 0
        wrong += 0 if scores[q] < math.inf else 1
    if wrong:
        return math.nan
    rows, columns = _sides(n, m, null, work)
    near = rows if columns.least == 0 else columns
    far = columns if columns.least == 0 else rows
    _start(scores, near, far)
    feasible = _count_fixed(scores, m, fixed, links, work, max_degree)
    for i in range(near.size):
        while near.degree[i] < max_degree and (near.price[i] > 0.0 or near.degree[i] < near.least):
            if not (feasible and _add_link(i, scores, fixed, links, near, far, max_degree, work)):
                feasible = False
                break
    total = 0.0
    for q in range(n * m):
        if not feasible:
            links[q] = 0
        if links[q] == 1:
            total += scores[q]
    return total if feasible else -math.inf


@inner_kernel
def _count_fixed(scores, m, fixed, links, work, max_degree):
    """Make the links that must be there; whether none is forbidden, and no vertex has too many."""
    most, allowed = 0, True
    for q in range(fixed.shape[0]):
        if fixed[q] == 1:
            links[q] = 1
            allowed = allowed and scores[q] > -math.inf
            work.source_degree[q // m] += 1
            work.target_degree[q % m] += 1
            most = max(most, work.source_degree[q // m], work.target_degree[q % m])
    return allowed and most <= max_degree


@inner_kernel
def _start(scores, near, far):
    """No links; the far side's prices are 0."""
    for j in range(far.size):
        far.price[j], far.degree[j] = 0.0, 0
    for i in range(near.size):
        near.degree[i] = 0
        best = -math.inf if near.least > 0 else 0.0
        for j in range(far.size):
            best = max(best, scores[i * near.stride + j * far.stride])
        near.price[i] = best if best > -math.inf else 0.0


@inner_kernel
def _add_link(vertex, scores, fixed, links, near, far, max_degree, work):
    """Give a near vertex one more link, or its price becomes 0; False if it needs one in vain."""
    n, distance, path, done = near.size, work.distance, work.path, work.done
    for x in range(n + far.size):
        distance[x], done[x] = math.inf, 0
    distance[vertex], path[vertex] = 0.0, -1
    least, last = math.inf, -1
    if near.degree[vertex] >= near.least:
        least, last = near.price[vertex], vertex
    while True:
        x, low = -1, least
        for y in range(n + far.size):
            if done[y] == 0 and distance[y] < low:
                x, low = y, distance[y]
        if x < 0:
            break
        done[x] = 1
        if x >= n:
            if far.degree[x - n] < max_degree:
                least, last = low, x
                done[x] = 0
                break
            _relax_far(x, low, scores, fixed, links, near, far, work)
            continue
        if x != vertex and near.degree[x] > near.least and low + near.price[x] < least:
            least, last = low + near.price[x], x
        _relax_near(x, low, scores, links, near, far, work)
    if least == math.inf:
        return False
    for x in range(n + far.size):
        if done[x] == 1 and distance[x] < least:
            if x < n:
                near.price[x] -= least - distance[x]
            else:
                far.price[x - n] += least - distance[x]
    _exchange_links(vertex, last, links, near, far, path)
    return True


@inner_kernel
def _relax_near(i, low, scores, links, near, far, work):
    """From a near vertex by links it does not have."""
    for j in range(far.size):
        at, x = i * near.stride + j * far.stride, near.size + j
        if work.done[x] == 0 and links[at] == 0:
            length = low + max(near.price[i] + far.price[j] - scores[at], 0.0)
            if length < work.distance[x]:
                work.distance[x] = length
                work.path[x] = i


@inner_kernel
def _relax_far(x, low, scores, fixed, links, near, far, work):
    """From a far vertex back by its links."""
    j = x - near.size
    for i in range(near.size):
        at = i * near.stride + j * far.stride
        if work.done[i] == 0 and links[at] == 1 and not is_fixed(fixed, at):
            length = low + max(scores[at] - near.price[i] - far.price[j], 0.0)
            if length < work.distance[i]:
                work.distance[i] = length
                work.path[i] = x


@inner_kernel
def _exchange_links(vertex, last, links, near, far, path):
    """Add and take away the links along the path from `vertex` to `last`."""
    n = near.size
    if last < n:
        near.price[last] = 0.0
        if last == vertex:
            return
        near.degree[last] -= 1
    else:
        far.degree[last - n] += 1
    near.degree[vertex] += 1
    x = last
    while x != vertex:
        y = path[x]
        i, j = min(x, y), max(x, y) - n
        links[i * near.stride + j * far.stride] = 1 if y < n else 0
        x = y


@kernel
def fertile_max_marginals(
    scores, n_sources, n_targets, null, max_degree, fixed, links, work, best, detour
):
    """As :func:`.assignment.assignment_max_marginals`, where vertices may have several links."""
    n, m = n_sources, n_targets
    value = fertile_links(scores, n, m, null, max_degree, fixed, links, work)
    for q in range(2 * n * m):
        best[q] = value
    if not value > -math.inf:
        return value
    rows, columns = _sides(n, m, null, work)
    near = rows if n <= m else columns
    far = columns if n <= m else rows
    _exchanges(scores, near, far, max_degree, fixed, links, detour)
    shortest_paths(near.size + 1, detour)
    for j in range(far.size):
        _marginals_of_far(j, value, scores, near, far, max_degree, fixed, links, best, detour, work)
    return value


@inner_kernel
def _less(side, i):
    """Return the cost of one link less at a vertex, which no other vertex gains."""
    return max(side.price[i], 0.0) if side.degree[i] > side.least else math.inf


@inner_kernel
def _more(side, i, max_degree):
    """Return the cost of one link more at a vertex, with no vertex at its other end."""
    return max(-side.price[i], 0.0) if side.degree[i] < max_degree else math.inf


@inner_kernel
def _exchanges(scores, near, far, max_degree, fixed, links, detour):
    """Write the costs of moving a link between near vertices; the last index is not a vertex."""
    size = near.size + 1
    nobody = size - 1
    for x in range(size * size):
        detour[x] = math.inf
    for i in range(nobody):
        detour[i * size + nobody] = _less(near, i)
        detour[nobody * size + i] = _more(near, i, max_degree)
    for j in range(far.size):
        for b in range(size):
            # How far vertex j gives a link up: one with b, or its next one, which nobody has.
            at, there = b * near.stride + j * far.stride, math.inf
            if b == nobody:
                there = _more(far, j, max_degree)
            elif links[at] == 1 and not is_fixed(fixed, at):
                there = max(scores[at] - near.price[b] - far.price[j], 0.0)
            if there == math.inf:
                continue
            for a in range(nobody):
                at = a * near.stride + j * far.stride
                if links[at] == 0:
                    length = there + max(near.price[a] + far.price[j] - scores[at], 0.0)
                    if length < detour[a * size + b]:
                        detour[a * size + b] = length
            length = there + _less(far, j)
            if length < detour[nobody * size + b]:
                detour[nobody * size + b] = length
    for x in range(size):
        detour[x * size + x] = 0.0


@inner_kernel
def _marginals_of_far(j, value, scores, near, far, max_degree, fixed, links, best, detour, work):
    """Best scores with and without every pair of a vertex of the far side."""
    n, nobody, u, v = near.size, near.size, near.price, far.price[j]
    size = n + 1
    # To and from this vertex; the scratch has room for all vertices, and here for the smaller side.
    onward, back = work.distance[:n], work.distance[n : 2 * n]
    for i in range(n):
        onward[i] = detour[i * size + nobody] + _less(far, j)
        back[i] = detour[nobody * size + i] + _more(far, j, max_degree)
    for b in range(n):
        at = b * near.stride + j * far.stride
        slack = u[b] + v - scores[at]
        if links[at] == 0:
            slack = max(slack, 0.0)
            for i in range(n):
                onward[i] = min(onward[i], detour[i * size + b] + slack)
        elif not is_fixed(fixed, at):
            slack = max(-slack, 0.0)
            for i in range(n):
                back[i] = min(back[i], slack + detour[b * size + i])
    for i in range(n):
        at = i * near.stride + j * far.stride
        slack = u[i] + v - scores[at]
        if is_fixed(fixed, at):
            best[2 * at] = -math.inf
        elif links[at] == 1:
            best[2 * at] = value - (max(-slack, 0.0) + onward[i])
        else:
            best[2 * at + 1] = value - (max(slack, 0.0) + back[i])
