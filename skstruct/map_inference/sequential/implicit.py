"""Implicit factors between the sweeps: all of their variables at once."""

from ...core.dispatch import inner_kernel, kernel
from ..kinds.verbs import region_max_marginals
from .kernels import SKIPPED


@inner_kernel
def _hat(p, i, k, delta):
    """A variable's reparametrised score."""
    total = p.scores[p.score_ptr[i] + k]
    for e in range(p.parent_ptr[i], p.parent_ptr[i + 1]):
        total += delta[p.message_ptr[p.parent[e]] + k]
    return total


@kernel
def visit_implicit(p, z, delta, down, scratch):
    """Give each implicit factor its variables' scores, and them equal shares of its max-marginals.

    Its largest reparametrised score is 0 then.
    """
    for r in range(p.n_variables, p.kind.size):
        first, last = p.slot_ptr[r], p.slot_ptr[r + 1]
        if z.role[first] & SKIPPED == 0:
            continue
        for s in range(first, last):
            begin = p.message_ptr[s]
            for k in range(p.message_ptr[s + 1] - begin):
                own = _hat(p, p.child[s], k, delta)
                delta[begin + k] -= own if own > z.low else z.low
        region_max_marginals(p, r, delta, down, scratch)
        for m in range(p.message_ptr[first], p.message_ptr[last]):
            share = down[m] / (last - first)
            delta[m] += share if share > z.low else z.low
