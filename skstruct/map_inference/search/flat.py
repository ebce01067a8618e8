"""The flat arrays that the kernels of the search work on."""

from typing import NamedTuple

import numpy as np

from ...core.offsets import ends_of

# Places in State.real: the bound so far, the cost of the best labelling, what a proof may leave
# open, the least move of costs that is worth an event.
BOUND, UPPER, GAP, STEP = range(4)
# Places in State.count.
TRAIL, SIZES, LEVEL, STAMP, NODES, FAILS, LAST, FOUND, VISITS = range(9)

# Decisions: a variable has a label, or not; its label is at most this one, or above it. The other
# branch of a decision has the code with the last bit flipped.
UNEQUAL, EQUAL, AT_MOST, ABOVE = range(4)


class Network(NamedTuple):
    """Cost functions of a search; variables in their order, scopes ascending."""

    # (n_variables + 1,): Where the unary costs of each variable begin.
    state_ptr: np.ndarray
    # Variables of each function; a place in `scope` is a slot.
    scope_ptr: np.ndarray
    scope: np.ndarray
    # (n_slots,): Step of a slot's variable in the table, where its shifts begin in ``State.cost``,
    # function.
    stride: np.ndarray
    shift_ptr: np.ndarray
    owner: np.ndarray
    # Costs of the functions, row-major, inf where forbidden.
    table_ptr: np.ndarray
    table: np.ndarray
    # Slots of each variable.
    slots_ptr: np.ndarray
    slots: np.ndarray


class State(NamedTuple):
    """Where a search stands."""

    # Unary costs, then the shifts: a function costs its table minus its slots' shifts.
    cost: np.ndarray
    # The last level that noted each entry of `cost`.
    stamp: np.ndarray
    # Labels left: the first ``size[i]`` of variable i's `values`, as a sparse set.
    values: np.ndarray
    position: np.ndarray
    size: np.ndarray
    size_stamp: np.ndarray
    # What to put back.
    trail_at: np.ndarray
    trail_cost: np.ndarray
    trail_variable: np.ndarray
    trail_size: np.ndarray
    # Decisions.
    level_trail: np.ndarray
    level_sizes: np.ndarray
    level_bound: np.ndarray
    level_variable: np.ndarray
    level_value: np.ndarray
    # Levels whose other branch is still to be taken.
    level_open: np.ndarray
    # Decisions.
    level_kind: np.ndarray
    # (n_variables,): Labels that cost least now; the best labelling.
    support: np.ndarray
    best: np.ndarray
    # Functions to visit, variables with new unary costs, variables without a free support.
    dirty: np.ndarray
    raised: np.ndarray
    doubtful: np.ndarray
    # (n_functions,): 1 + failures, for the order of variables.
    weight: np.ndarray
    # Scalars (see the constants of this file).
    real: np.ndarray
    count: np.ndarray
    # Scratch of :mod:`.marginals`.
    mass: np.ndarray
    offset: np.ndarray
    low: np.ndarray
    total: np.ndarray
    digit: np.ndarray


def flatten(unaries, scopes, tables):
    """Network and state of one component, whose variables are numbered from 0."""
    n = len(unaries)
    sizes = np.array([len(costs) for costs in unaries], dtype=np.int64)
    scope, stride, flat = [], [], []
    for places, table in zip(scopes, tables, strict=True):
        order = np.argsort(places)
        table = np.ascontiguousarray(table.transpose(order))
        scope.extend(np.take(places, order))
        stride.extend(step // table.itemsize for step in table.strides)
        flat.append(table.ravel())
    arities = [len(places) for places in scopes]
    state_ptr = ends_of(sizes)
    scope = np.array(scope, dtype=np.int32)
    by_variable = np.argsort(scope, kind="stable").astype(np.int32)
    network = Network(
        state_ptr=state_ptr,
        scope_ptr=ends_of(arities),
        scope=scope,
        stride=np.array(stride, dtype=np.int64),
        shift_ptr=state_ptr[-1] + ends_of(sizes[scope]),
        owner=np.repeat(np.arange(len(scopes), dtype=np.int32), arities),
        table_ptr=ends_of([len(t) for t in flat]),
        table=np.concatenate(flat) if flat else np.zeros(0),
        slots_ptr=ends_of(np.bincount(scope, minlength=n)),
        slots=by_variable,
    )
    return network, _state(network, sizes, np.concatenate(unaries), max(arities, default=1))


def _state(network, sizes, unary, arity):
    n, width = len(sizes), int(sizes.max())
    n_costs = int(network.shift_ptr[-1])
    n_states = int(network.state_ptr[-1])
    n_functions = len(network.scope_ptr) - 1
    values = np.concatenate([np.arange(k) for k in sizes]).astype(np.int32)
    deepest = n_states + 2
    cost = np.zeros(n_costs)
    cost[:n_states] = unary
    real = np.zeros(4)
    # Beyond what any labelling costs: without it the bound of an infeasible node grows for ever.
    starts = network.table_ptr[:-1]
    finite = np.where(network.table < np.inf, network.table, 0.0)
    real[UPPER] = np.maximum.reduceat(finite, starts).sum() if len(starts) else 0.0
    real[UPPER] = 1.0 + 1.001 * (
        real[UPPER] + np.maximum.reduceat(unary, network.state_ptr[:-1]).sum()
    )
    count = np.zeros(9, dtype=np.int64)
    count[STAMP] = 1
    count[LAST] = -1
    return State(
        cost=cost,
        stamp=np.zeros(n_costs, dtype=np.int64),
        values=values,
        position=values.copy(),
        size=sizes.astype(np.int32),
        size_stamp=np.zeros(n, dtype=np.int64),
        trail_at=np.zeros(4 * n_costs, dtype=np.int64),
        trail_cost=np.zeros(4 * n_costs),
        trail_variable=np.zeros(deepest + 4 * n, dtype=np.int32),
        trail_size=np.zeros(deepest + 4 * n, dtype=np.int32),
        level_trail=np.zeros(deepest, dtype=np.int64),
        level_sizes=np.zeros(deepest, dtype=np.int64),
        level_bound=np.zeros(deepest),
        level_variable=np.zeros(deepest, dtype=np.int32),
        level_value=np.zeros(deepest, dtype=np.int32),
        level_open=np.zeros(deepest, dtype=np.uint8),
        level_kind=np.zeros(deepest, dtype=np.uint8),
        support=np.zeros(n, dtype=np.int32),
        best=np.full(n, -1, dtype=np.int32),
        dirty=np.ones(n_functions, dtype=np.uint8),
        raised=np.zeros(n, dtype=np.uint8),
        doubtful=np.zeros(n, dtype=np.uint8),
        weight=np.ones(n_functions),
        real=real,
        count=count,
        mass=np.zeros(arity * width),
        offset=np.zeros(arity * width, dtype=np.int64),
        low=np.zeros(width),
        total=np.zeros(width),
        digit=np.zeros(arity, dtype=np.int64),
    )


def grown(state):
    """The state with twice the room for what to put back."""
    return state._replace(
        **{
            name: np.concatenate([getattr(state, name)] * 2)
            for name in ("trail_at", "trail_cost", "trail_variable", "trail_size")
        }
    )
