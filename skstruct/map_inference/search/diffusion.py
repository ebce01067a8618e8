"""Sequential reparametrisation (TRW-S, SRMP) of the root: the bound before any decision."""

from ...core.dispatch import inner_kernel, kernel
from .marginals import least_costs, load, lower, set_cost
from .propagation import doubt, improve


@inner_kernel
def _gather(w, s, i, width):
    """Move the least costs of all functions of a variable to it."""
    first = w.state_ptr[i]
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        slot = w.slots[at]
        load(w, s, w.owner[slot], width)
        least_costs(w, s, w.owner[slot], slot, width)
        for k in range(s.size[i]):
            value = s.values[first + k]
            move = max(s.low[k], 0.0)
            shift = w.shift_ptr[slot] + value
            set_cost(s, shift, s.cost[shift] + move)
            set_cost(s, first + value, s.cost[first + value] + move)
    lower(w, s, i)


@inner_kernel
def _hand_on(w, s, i, forward):
    """Share a variable's costs between the functions that lie ahead."""
    ahead, behind = 0, 0
    for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
        slot = w.slots[at]
        f = w.owner[slot]
        ahead += slot < w.scope_ptr[f + 1] - 1
        behind += slot > w.scope_ptr[f]
    share = 1.0 / max(ahead, behind, 1)
    if not forward:
        ahead = behind
    first = w.state_ptr[i]
    for k in range(s.size[i]):
        value = s.values[first + k]
        move = s.cost[first + value] * share
        for at in range(w.slots_ptr[i], w.slots_ptr[i + 1]):
            slot = w.slots[at]
            f = w.owner[slot]
            if (slot < w.scope_ptr[f + 1] - 1) if forward else (slot > w.scope_ptr[f]):
                shift = w.shift_ptr[slot] + value
                set_cost(s, shift, s.cost[shift] - move)
        left = max(s.cost[first + value] - ahead * move, 0.0)
        set_cost(s, first + value, left)


@kernel
def diffuse(w, s, width, begin, end, forward):
    """Part of a sweep over the variables, in their order or against it."""
    for at in range(begin, end):
        i = at if forward else len(s.size) - 1 - at
        _gather(w, s, i, width)
        _hand_on(w, s, i, forward)


@kernel
def settle(w, s, width):
    """Leave every function with least costs of 0 at all variables."""
    for i in range(len(s.size)):
        _gather(w, s, i, width)


@kernel
def adopt(w, s):
    """Keep the supports if they are the best labelling so far."""
    improve(s, doubt(w, s))
