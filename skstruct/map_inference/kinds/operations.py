"""Operations that relaxations are made of, for regions of every kind.

They take `p` (Regions), a region, finite messages `delta` and scratch, and return a value; `down`
(as `delta`) gets the maximiser on children, or maxima per configuration of a child, and `mu`,
unless empty, the maximiser. Without a finite score values are -inf, `mu` is 0; nothing is NaN.
"""

from ...core.jit.kernels import inner_kernel
from ..factors import numbered
from ..regions import CARDINALITY, KINDS, OR, POTTS
from .implicit import (
    cardinality_max,
    cardinality_max_marginals,
    cardinality_soft_marginals,
    normalise_pairs,
    one_max,
    one_max_marginals,
    one_project,
    one_soft_marginals,
    one_soft_max,
    or_max,
    or_max_marginals,
    or_soft_marginals,
)
from .table import (
    is_soft_table,
    is_table,
    potts_max,
    potts_max_marginals,
    potts_soft_marginals,
    potts_soft_max,
    table_max,
    table_max_marginals,
    table_project,
    table_soft_marginals,
    table_soft_max,
)


def refuse_kinds(graph, kinds, what, advice):
    """Reject what needs something of graphs with a factor of kinds that do not have it."""
    for first, batch in numbered(graph.factors):
        if KINDS[type(batch)] in kinds:
            name = type(batch).__name__
            raise TypeError(f"{what}, which factor {first} ({name}) does not have; try {advice}")


def require_projection(graph, method):
    """Reject a method for graphs with a factor that has no L2-smoothed maximum."""
    advice = (
        '"coordinate-descent" or "frank-wolfe", or "strong-accelerated" with smoothing="softmax"'
    )
    refuse_kinds(graph, (CARDINALITY, OR), f"{method} needs projections", advice)


@inner_kernel
def region_max(p, r, delta, mu, down, scratch):
    """Largest reparametrised score; its first configuration, one-hot in `mu` and `down`."""
    kind = p.kind[r]
    if is_table(p, r):
        return table_max(p, r, delta, mu, down, scratch)
    if kind == POTTS:
        return potts_max(p, r, delta, mu, down, scratch)
    if kind == CARDINALITY:
        return cardinality_max(p, r, delta, down, scratch)
    if kind == OR:
        return or_max(p, r, delta, down, scratch)
    return one_max(p, r, delta, down, scratch)


@inner_kernel
def region_soft_max(p, r, delta, gamma, mu, down, scratch):
    """``gamma * log(sum(exp(hat / gamma)))``; its gradient in `mu` and `down`."""
    kind = p.kind[r]
    if is_soft_table(p, r) or (kind == POTTS and mu.shape[0] > 0):
        return table_soft_max(p, r, delta, gamma, mu, down, scratch)
    if kind == POTTS:
        return potts_soft_max(p, r, delta, gamma, down, scratch)
    if kind in (CARDINALITY, OR):
        value = region_soft_marginals(p, r, delta, gamma, down, scratch)
        normalise_pairs(p, r, value, gamma, down)
        return value
    return one_soft_max(p, r, delta, gamma, down, scratch)


@inner_kernel
def region_project(p, r, delta, gamma, mu, down, scratch):
    """Maximum of ``<u, hat> - gamma / 2 * |u|^2`` over the simplex; u in `mu` and `down`."""
    if p.kind[r] <= POTTS:
        return table_project(p, r, delta, gamma, mu, down, scratch)
    return one_project(p, r, delta, gamma, down, scratch)


@inner_kernel
def region_max_marginals(p, r, delta, down, scratch):
    """Largest reparametrised score, also for each configuration of each child."""
    kind = p.kind[r]
    if is_table(p, r):
        return table_max_marginals(p, r, delta, down, scratch)
    if kind == POTTS:
        return potts_max_marginals(p, r, delta, down, scratch)
    if kind == CARDINALITY:
        return cardinality_max_marginals(p, r, delta, down, scratch)
    if kind == OR:
        return or_max_marginals(p, r, delta, down, scratch)
    return one_max_marginals(p, r, delta, down, scratch)


@inner_kernel
def region_soft_marginals(p, r, delta, gamma, down, scratch):
    """Soft maximum of the reparametrised scores, also for each configuration of each child."""
    kind = p.kind[r]
    if is_soft_table(p, r):
        return table_soft_marginals(p, r, delta, gamma, down, scratch)
    if kind == POTTS:
        return potts_soft_marginals(p, r, delta, gamma, down, scratch)
    if kind == CARDINALITY:
        return cardinality_soft_marginals(p, r, delta, gamma, down, scratch)
    if kind == OR:
        return or_soft_marginals(p, r, delta, gamma, down, scratch)
    return one_soft_marginals(p, r, delta, gamma, down, scratch)
