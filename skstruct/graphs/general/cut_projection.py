"""Euclidean projections of graphs of two labels whose edges attract.

The norm. With x_u the share of label 1 at node u, and m(j, k) those of an edge's pairs of labels,
an edge of its own in every sample (also where edges share a table, whose parts are sums),

    |mu|^2 = sum over nodes of m(0)^2 + m(1)^2
             + sum over edges of (m(1, 1) - m(0, 0))^2 + m(0, 1)^2 + m(1, 0)^2.

Of an edge that is ``(x_u + x_v - 1)^2 + (x_u - x_v)^2 + 2 m(0, 1) m(1, 0)``. Where edges attract,
the best point of the local polytope (distributions of nodes and of edges that agree) has
m(1, 1) = min(x_u, x_v), so that the norm falls apart into nodes: what is left is total variation,
which :func:`skstruct.inference.quadratic_cut.quadratic_cut` solves exactly. That point is the
mixture of the labellings ``x > t`` for t from 0 to 1: it lies in the hull of labellings, too, and
certificates may be built on it.
"""

import math

from ...core.dispatch import inner_kernel, kernel
from ...inference.quadratic_cut import quadratic_cut
from .cut_kernels import lay_arcs, lay_nodes
from .kernels import add_pair

# Of the largest score: what rounding may make of no interaction. Else an edge repels.
_SLACK = 1e-12


@inner_kernel
def _write_point(problem, i, n, x, mu):
    """Write the parts of shares of label 1; the squared norm."""
    own, square = problem.own, 0.0
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        mu[q] = 0.0
    for t in range(n):
        mu[2 * t], mu[2 * t + 1] = 1.0 - x[t], x[t]
        square += mu[2 * t] * mu[2 * t] + x[t] * x[t]
    for e in range(own.ptr[i], own.ptr[i + 1]):
        begin = 2 * n + own.table[e] * problem.width
        u, v = x[own.ends[e, 0]], x[own.ends[e, 1]]
        both, either = min(u, v), max(u, v)
        add_pair(problem, mu, begin, 0, 0, 1.0 - either)
        add_pair(problem, mu, begin, 0, 1, v - both)
        add_pair(problem, mu, begin, 1, 0, u - both)
        add_pair(problem, mu, begin, 1, 1, both)
        square += (u + v - 1.0) * (u + v - 1.0) + (u - v) * (u - v)
    return square


@kernel
def project_cut(problem, i, theta, temperature, mu):
    """See the module; NaN, and `mu` of zeros, where an edge repels."""
    work, network, n_parts = problem.work, problem.work.network, problem.part_ptr[i + 1]
    n, n_parts = problem.label_ptr[i + 1] - problem.label_ptr[i], n_parts - problem.part_ptr[i]
    value = scale = 0.0
    for q in range(n_parts):
        scale = max(scale, abs(theta[q]) if theta[q] > -math.inf else 0.0)
    if lay_nodes(problem, theta, n, network.excess) == math.inf:
        value = -math.inf
    elif lay_arcs(problem, i, theta, n, _SLACK * scale, network) < 0.0:
        value = math.nan
    else:
        for t in range(n):
            weight = temperature * (1.0 + (network.first[t + 1] - network.first[t]))
            work.curvature[t] = 2.0 * weight
            network.excess[t] += weight
        if not quadratic_cut(n, work.curvature, network, work.forest, work.levels, work.point):
            value = -math.inf
    if value != 0.0:
        for q in range(n_parts):
            mu[q] = 0.0
        return value
    square = _write_point(problem, i, n, work.point, mu)
    for q in range(n_parts):
        if mu[q] != 0.0:
            value += theta[q] * mu[q]
    return value - 0.5 * temperature * square
