"""Junction trees: which tables are made in what order, planned once for many evaluations.

A bucket stands for each variable that is eliminated: its clique is the variable and its separator,
the variables that its message goes on about. Tables have the variables that go first innermost,
so that a message and what it is made of run along memory together.
"""

from typing import NamedTuple

import numpy as np

from .tree_planning import (
    allocate,
    blocks,
    by_level,
    cliques,
    find_slots,
    first_buckets,
    highest_peaks,
    inputs,
    visit,
)


class Tables(NamedTuple):
    """Scores of factors over variables with states."""

    # (n_variables,): States of each variable.
    n_states: np.ndarray
    # (n_factors + 1,): Where the variables of each factor begin.
    scope_ptr: np.ndarray
    # Variables of the factors.
    scope: np.ndarray
    # (n_factors,): Where their tables begin: row-major, the last variable of the scope fastest.
    # Factors may share a table.
    table_ptr: np.ndarray
    # The tables; -inf forbids, NaN and +inf are not allowed.
    scores: np.ndarray


class JunctionTree(NamedTuple):
    """The plan of an elimination; buckets come after those whose messages they take."""

    # (n_buckets,): What each bucket eliminates.
    variable: np.ndarray
    # (n_variables,): The bucket of each variable, -1 for those that keep a given label.
    bucket: np.ndarray
    # (n_buckets + 1,): Where the variables of each clique begin.
    dim_ptr: np.ndarray
    # Variables of the cliques, those that go last first.
    dim: np.ndarray
    # (n_buckets,): Entries of the cliques' tables.
    size: np.ndarray
    # (n_buckets,): How many variables of the clique stand outside of a block of its table.
    outer: np.ndarray
    # (n_buckets,): Entries of a block.
    block: np.ndarray
    # (n_buckets + 1,): Where the inputs of each bucket begin.
    input_ptr: np.ndarray
    # (n_inputs,): What goes in: factor f as f, the messages of slot s as -1 - s. By level in each
    # bucket.
    source: np.ndarray
    # (n_inputs,): How many outer variables decide which part of the input a block takes.
    level: np.ndarray
    # (n_inputs,): Whether that part is a number, runs along the block, or must be gathered.
    form: np.ndarray
    # (n_inputs,): Row of the scratch that says where the entries of a block come from.
    map_row: np.ndarray
    # (n_inputs,): Where the steps of each input begin, one for each variable of the clique.
    step_ptr: np.ndarray
    # Steps in the input's table.
    step: np.ndarray
    # (n_buckets,): Where the message goes; several messages of one separator go to one slot, as a
    # sum. Slot 0 takes those of roots.
    slot: np.ndarray
    # (n_buckets,): Whether the message is the first of its slot.
    is_first: np.ndarray
    # (n_slots + 1,): Where slots stand when all are kept.
    slot_ptr: np.ndarray
    # (n_slots,): Where they stand when a slot is given up after its use.
    live_ptr: np.ndarray
    # (n_buckets + 1,): Where the bytes that point back to the best states begin.
    back_ptr: np.ndarray
    # Factors of which all variables keep a given label.
    constant: np.ndarray
    # (6,): Entries of live slots; longest block, most levels, rows of maps, most inputs, most
    # variables of a clique.
    room: np.ndarray


def _find_cliques(tables, variable, bucket):
    """Cliques for an order: the parents of the buckets, and where the variables stand."""
    n, n_variables = len(variable), len(bucket)
    head, following = np.empty(n + 1, dtype=np.int64), np.empty(len(tables.table_ptr), np.int64)
    first_buckets(tables.scope_ptr, tables.scope, bucket, head, following)
    child = np.full((2, n + 1), -1)
    mark, parent, dim_ptr = np.full(n_variables, -1), np.empty(n, np.int64), np.zeros(n + 1, int)
    dim = np.empty(8 * n + n_variables, dtype=np.int32)
    lists, children = (head, following), (child[0], child[1])
    k = 0
    while True:
        k = cliques(
            k,
            tables.scope_ptr,
            tables.scope,
            bucket,
            variable,
            lists,
            children,
            mark,
            parent,
            dim_ptr,
            dim,
        )
        if k == n:
            return lists, parent, dim_ptr, dim[: dim_ptr[n]].copy()
        dim = np.concatenate((dim, np.empty_like(dim)))


def _in_postorder(tables, variable, bucket):
    """The same order with every bucket right after those whose messages it takes."""
    _, parent, dim_ptr, dim = _find_cliques(tables, variable, bucket)
    n = len(variable)
    if n == 0:
        return variable
    peak = np.add.reduceat(np.log2(tables.n_states[dim]), dim_ptr[:-1])
    highest_peaks(parent, peak)
    child = np.empty((2, n + 1), dtype=np.int64)
    stack, visited = np.empty((2, n + 1), dtype=np.int64)
    visit(parent, np.argsort(peak, kind="stable"), child[0], child[1], stack, visited)
    return variable[visited[:n]]


def _buckets(n_variables, variable):
    """The bucket of each variable, -1 for those without."""
    bucket = np.full(n_variables, -1, dtype=np.int32)
    bucket[variable] = np.arange(len(variable))
    return bucket


def junction_tree(tables, order, block=512):
    """Plan the elimination of variables in an order.

    Dechter 1999, Bucket elimination: a unifying framework for reasoning.
    """
    n_states = tables.n_states
    n_variables, n_factors = len(n_states), len(tables.table_ptr)
    variable = np.asarray(order, dtype=np.int32)
    variable = variable[n_states[variable] > 1]
    variable = _in_postorder(tables, variable, _buckets(n_variables, variable))
    bucket = _buckets(n_variables, variable)
    lists, parent, dim_ptr, dim = _find_cliques(tables, variable, bucket)
    n = len(variable)
    slot, slot_of, slot_next = np.full((3, n + 1), -1)
    slot_head, n_inputs = np.full(n, -1), np.zeros(n, dtype=np.int64)
    is_first = np.zeros(n, dtype=np.uint8)
    n_slots = find_slots(
        dim_ptr, dim, parent, slot, is_first, slot_of, slot_head, slot_next, n_inputs
    )
    arity = np.diff(tables.scope_ptr)
    first = np.full(n_factors, n)
    np.minimum.at(
        first,
        np.repeat(np.arange(n_factors), arity),
        np.where(bucket[tables.scope] < 0, n, bucket[tables.scope]),
    )
    n_inputs += np.bincount(first, minlength=n + 1)[:n]
    plan = _empty_plan(variable, bucket, dim_ptr, dim, n_inputs, n_slots)
    plan = plan._replace(
        slot=slot[:n].copy(), is_first=is_first, constant=np.flatnonzero(first == n)
    )
    blocks(n_states, block, plan)
    slots = slot_of, slot_head, slot_next
    position = np.empty(n_variables, dtype=np.int64)
    inputs(tables.scope_ptr, tables.scope, n_states, plan, lists, slots, position)
    by_level(plan)
    messages = plan.size // n_states[variable]
    plan.slot_ptr[1:2] = 1
    plan.slot_ptr[slot[:n] + 1] = messages
    np.cumsum(plan.slot_ptr, out=plan.slot_ptr)
    wide = np.where(n_states[variable] > 256, 2, 1)
    np.cumsum(messages * wide, out=plan.back_ptr[1:])
    hole_at, hole_size = np.empty((2, n_slots + 1), dtype=np.int64)
    plan.room[0] = allocate(plan, hole_at, hole_size)
    return plan


def _empty_plan(variable, bucket, dim_ptr, dim, n_inputs, n_slots):
    """Arrays for a plan."""
    n, total = len(variable), int(n_inputs.sum())
    input_ptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(n_inputs, out=input_ptr[1:])
    size, block, step_ptr = np.empty(n, int), np.empty(n, int), np.empty(total, int)
    outer, level, map_row = np.empty(n, "i4"), np.empty(total, "i4"), np.empty(total, "i4")
    return JunctionTree(
        variable=variable,
        bucket=bucket,
        dim_ptr=dim_ptr,
        dim=dim,
        size=size,
        outer=outer,
        block=block,
        input_ptr=input_ptr,
        source=np.empty(total, int),
        level=level,
        form=np.empty(total, np.uint8),
        map_row=map_row,
        step_ptr=step_ptr,
        step=np.empty(int((n_inputs * np.diff(dim_ptr)).sum()), int),
        slot=np.empty(n, int),
        is_first=np.empty(n, np.uint8),
        slot_ptr=np.zeros(n_slots + 1, int),
        live_ptr=np.empty(n_slots, int),
        back_ptr=np.zeros(n + 1, int),
        constant=np.empty(0, int),
        room=np.ones(6, int),
    )
