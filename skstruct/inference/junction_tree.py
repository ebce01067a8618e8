"""Junction trees: which tables are made in what order, planned once for many evaluations."""

from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import ends_of

# The kernels that plan a junction tree: cliques, slots of messages, inputs and their steps.

SCALAR, CONTIGUOUS, GATHERED = range(3)


@kernel
def cliques(start, scope_ptr, scope, bucket, variable, factors, child, mark, parent, dim_ptr, dim):
    """Cliques of the buckets from `start` on, as far as `dim` has room; returns how far."""
    factor_ptr, factor = factors
    child_head, child_next = child
    for k in range(start, variable.shape[0]):
        n, begin = 0, dim_ptr[k]
        if begin + mark.shape[0] > dim.shape[0]:
            return k
        mark[variable[k]] = k
        for q in range(factor_ptr[k], factor_ptr[k + 1]):
            f = factor[q]
            for d in range(scope_ptr[f], scope_ptr[f + 1]):
                v = scope[d]
                if bucket[v] >= 0 and mark[v] != k:
                    mark[v] = k
                    dim[begin + n] = v
                    n += 1
        c = child_head[k]
        while c >= 0:
            for d in range(dim_ptr[c], dim_ptr[c + 1] - 1):
                v = dim[d]
                if mark[v] != k:
                    mark[v] = k
                    dim[begin + n] = v
                    n += 1
            c = child_next[c]
        for i in range(1, n):
            v, j = dim[begin + i], i
            while j > 0 and bucket[dim[begin + j - 1]] < bucket[v]:
                dim[begin + j] = dim[begin + j - 1]
                j -= 1
            dim[begin + j] = v
        dim[begin + n] = variable[k]
        dim_ptr[k + 1] = begin + n + 1
        parent[k] = bucket[dim[begin + n - 1]] if n > 0 else -1
        if n > 0:
            child_next[k] = child_head[parent[k]]
            child_head[parent[k]] = k
    return variable.shape[0]


@kernel
def highest_peaks(parent, peak):
    """The largest of each bucket and all below it."""
    for k in range(parent.shape[0]):
        if parent[k] >= 0:
            peak[parent[k]] = max(peak[parent[k]], peak[k])


@kernel
def visit(parent, by_peak, child_head, child_next, stack, visited):
    """Buckets after their children, those with the largest tables first."""
    n = parent.shape[0]
    for j in range(n + 1):
        child_head[j] = -1
    for j in range(n):
        k = by_peak[j]
        p = parent[k] if parent[k] >= 0 else n
        child_next[k] = child_head[p]
        child_head[p] = k
    depth, count = 1, 0
    stack[0] = n
    while depth > 0:
        k = stack[depth - 1]
        c = child_head[k]
        if c >= 0:
            child_head[k] = child_next[c]
            stack[depth] = c
            depth += 1
        else:
            depth -= 1
            if k < n:
                visited[count] = k
                count += 1


@kernel
def find_slots(dim_ptr, dim, parent, slot, is_first, slot_of, slot_head, slot_next, n_slots_of):
    """A slot for each separator of each bucket; returns how many."""
    count = 1
    slot_of[0] = -1
    for k in range(parent.shape[0]):
        p = parent[k]
        slot[k], is_first[k] = 0, 0
        if p < 0:
            is_first[k] = slot_of[0] < 0
            slot_of[0] = k
            continue
        n = dim_ptr[k + 1] - dim_ptr[k]
        s = slot_head[p]
        while s >= 0:
            same = slot_of[s]
            if dim_ptr[same + 1] - dim_ptr[same] == n:
                d = 0
                while d < n - 1 and dim[dim_ptr[same] + d] == dim[dim_ptr[k] + d]:
                    d += 1
                if d == n - 1:
                    break
            s = slot_next[s]
        if s < 0:
            s, is_first[k] = count, 1
            slot_of[s] = k
            slot_next[s] = slot_head[p]
            slot_head[p] = s
            n_slots_of[p] += 1
            count += 1
        slot[k] = s
    return count


@kernel
def inputs(scope_ptr, scope, n_states, plan, factors, slots, position):
    """Write the inputs of the buckets: sources, levels, forms and steps."""
    factor_ptr, factor = factors
    slot_of, slot_head, slot_next = slots
    dim_ptr, dim, step = plan.dim_ptr, plan.dim, plan.step
    at = 0
    for k in range(plan.variable.shape[0]):
        begin, n = dim_ptr[k], dim_ptr[k + 1] - dim_ptr[k]
        for d in range(n):
            position[dim[begin + d]] = d
        i = plan.input_ptr[k]
        q, s = factor_ptr[k], slot_head[k]
        while q < factor_ptr[k + 1] or s >= 0:
            for d in range(n):
                step[at + d] = 0
            stride = 1
            if q < factor_ptr[k + 1]:
                f = factor[q]
                q += 1
                for d in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
                    if plan.bucket[scope[d]] >= 0:
                        step[at + position[scope[d]]] = stride
                    stride *= n_states[scope[d]]
                plan.source[i] = f
            else:
                c = slot_of[s]
                for d in range(dim_ptr[c + 1] - 2, dim_ptr[c] - 1, -1):
                    step[at + position[dim[d]]] = stride
                    stride *= n_states[dim[d]]
                plan.source[i] = -1 - s
                s = slot_next[s]
            level = 0
            for d in range(plan.outer[k]):
                if step[at + d] != 0:
                    level = d + 1
            is_number, is_run, stride = True, True, 1
            for d in range(n - 1, plan.outer[k] - 1, -1):
                is_number &= step[at + d] == 0
                is_run &= step[at + d] == stride
                stride *= n_states[dim[begin + d]]
            plan.level[i] = level
            plan.form[i] = SCALAR if is_number else (CONTIGUOUS if is_run else GATHERED)
            plan.step_ptr[i] = at
            at += n
            i += 1


@kernel
def blocks(n_states, usual, plan):
    """Sizes of tables and of their blocks, which are far from `usual` only if they must."""
    for k in range(plan.variable.shape[0]):
        size, block = 1, 1
        outer = -1
        for d in range(plan.dim_ptr[k + 1] - 1, plan.dim_ptr[k] - 1, -1):
            states = n_states[plan.dim[d]]
            most = 16 * usual if 8 * block < usual else usual
            fits = outer < 0 and (block == 1 or block * states <= most)
            if fits:
                block *= states
            elif outer < 0:
                outer = d - plan.dim_ptr[k] + 1
            size *= states
        plan.size[k], plan.block[k], plan.outer[k] = size, block, max(outer, 0)


@inner_kernel
def _give_up(at, size, n_holes, hole_at, hole_size):
    """Enter a piece of memory among the holes, joined with its neighbours."""
    h = n_holes
    while h > 0 and hole_at[h - 1] > at:
        h -= 1
    joins_before = h > 0 and hole_at[h - 1] + hole_size[h - 1] == at
    joins_after = h < n_holes and at + size == hole_at[h]
    if joins_before:
        hole_size[h - 1] += size
        if joins_after:
            hole_size[h - 1] += hole_size[h]
            n_holes -= 1
            for j in range(h, n_holes):
                hole_at[j], hole_size[j] = hole_at[j + 1], hole_size[j + 1]
    elif joins_after:
        hole_at[h] = at
        hole_size[h] += size
    else:
        for j in range(n_holes, h, -1):
            hole_at[j], hole_size[j] = hole_at[j - 1], hole_size[j - 1]
        hole_at[h], hole_size[h] = at, size
        n_holes += 1
    return n_holes


@kernel
def allocate(plan, hole_at, hole_size):
    """Places for slots such that those that live at one time do not overlap; returns the extent."""
    live_ptr, slot_ptr = plan.live_ptr, plan.slot_ptr
    live_ptr[0] = 0
    n_holes, extent = 0, 1
    for k in range(plan.variable.shape[0]):
        s = plan.slot[k]
        if plan.is_first[k] and s > 0:
            size = slot_ptr[s + 1] - slot_ptr[s]
            h = 0
            while h < n_holes and hole_size[h] < size:
                h += 1
            if h < n_holes:
                live_ptr[s] = hole_at[h]
                hole_at[h] += size
                hole_size[h] -= size
                if hole_size[h] == 0:
                    n_holes -= 1
                    for j in range(h, n_holes):
                        hole_at[j], hole_size[j] = hole_at[j + 1], hole_size[j + 1]
            else:
                live_ptr[s] = extent
                extent += size
        for i in range(plan.input_ptr[k], plan.input_ptr[k + 1]):
            if plan.source[i] < 0:
                c = -1 - plan.source[i]
                size = slot_ptr[c + 1] - slot_ptr[c]
                n_holes = _give_up(live_ptr[c], size, n_holes, hole_at, hole_size)
    return extent


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


def _by_bucket(first, n):
    """The factors of each of n buckets, in order: where they begin, and which they are."""
    return ends_of(np.bincount(first, minlength=n + 1)), np.argsort(first, kind="stable")


def _find_cliques(tables, variable, bucket, factors):
    """Find the cliques of an order: the parents of the buckets, and the variables' positions."""
    n, n_variables = len(variable), len(bucket)
    child = tuple(np.full((2, n + 1), -1))
    mark, parent, dim_ptr = np.full(n_variables, -1), np.empty(n, np.int64), np.zeros(n + 1, int)
    dim = np.empty(8 * n + n_variables, dtype=np.int32)
    graph, k = (tables.scope_ptr, tables.scope, bucket, variable, factors), 0
    while (k := cliques(k, *graph, child, mark, parent, dim_ptr, dim)) < n:
        dim = np.concatenate((dim, np.empty_like(dim)))
    return parent, dim_ptr, dim[: dim_ptr[n]]


def _postorder(parent, peak):
    """Every bucket right after those whose messages it takes, those of large tables first."""
    n = len(parent)
    highest_peaks(parent, peak)
    child = np.empty((2, n + 1), dtype=np.int64)
    stack, visited = np.empty((2, n + 1), dtype=np.int64)
    visit(parent, np.argsort(peak, kind="stable"), child[0], child[1], stack, visited)
    return visited[:n]


def junction_tree(tables, order, block=512):
    """Plan the elimination of variables in an order (Dechter 1999, bucket elimination)."""
    n_states, n_factors = tables.n_states, len(tables.table_ptr)
    variable = np.asarray(order, dtype=np.int32)
    variable = variable[n_states[variable] > 1]
    n = len(variable)
    bucket = np.full(len(n_states), -1, dtype=np.int32)
    bucket[variable] = np.arange(n)
    # The first bucket of each factor; n of those whose variables all keep their labels.
    first, of_scope = np.full(n_factors, n), bucket[tables.scope]
    factor = np.repeat(np.arange(n_factors), np.diff(tables.scope_ptr))
    np.minimum.at(first, factor, np.where(of_scope < 0, n, of_scope))
    parent, dim_ptr, dim = _find_cliques(tables, variable, bucket, _by_bucket(first, n))
    visited = np.empty(0, dtype=np.int64)
    if n > 0:
        peak = np.add.reduceat(np.log2(n_states[dim]), dim_ptr[:-1])
        visited = _postorder(parent, peak)
    # The cliques stay what they are, and so does the order of their variables.
    place = np.argsort(visited)
    first, variable = np.append(place, n)[first], variable[visited]
    parent = np.append(place, -1)[parent[visited]]
    bucket[variable] = np.arange(n)
    begin, arity = dim_ptr[:-1][visited], np.diff(dim_ptr)[visited]
    dim_ptr = ends_of(arity)
    dim = dim[np.repeat(begin - dim_ptr[:-1], arity) + np.arange(dim_ptr[-1])]

    slot, slot_of, slot_next = np.full((3, n + 1), -1)
    slot_head, n_inputs = np.full(n, -1), np.bincount(first, minlength=n + 1)[:n]
    is_first = np.zeros(n, dtype=np.uint8)
    n_slots = find_slots(
        dim_ptr, dim, parent, slot, is_first, slot_of, slot_head, slot_next, n_inputs
    )
    n_all = int(n_inputs.sum())
    plan = JunctionTree(
        variable=variable,
        bucket=bucket,
        dim_ptr=dim_ptr,
        dim=dim,
        size=np.empty(n, int),
        outer=np.empty(n, "i4"),
        block=np.empty(n, int),
        input_ptr=ends_of(n_inputs),
        source=np.empty(n_all, int),
        level=np.empty(n_all, "i4"),
        form=np.empty(n_all, np.uint8),
        map_row=np.empty(n_all, "i4"),
        step_ptr=np.empty(n_all, int),
        step=np.empty(int((n_inputs * arity).sum()), int),
        slot=slot[:n].copy(),
        is_first=is_first,
        slot_ptr=np.zeros(n_slots + 1, int),
        live_ptr=np.empty(n_slots, int),
        back_ptr=np.zeros(n + 1, int),
        constant=np.flatnonzero(first == n),
        room=np.ones(6, int),
    )
    blocks(n_states, block, plan)
    slots, position = (slot_of, slot_head, slot_next), np.empty(len(n_states), dtype=np.int64)
    inputs(tables.scope_ptr, tables.scope, n_states, plan, _by_bucket(first, n), slots, position)
    # The inputs of each bucket by level; rows for the maps of those that are used again.
    owner = np.repeat(np.arange(n), n_inputs)
    by_level = np.lexsort((plan.level, owner))
    for part in (plan.source, plan.level, plan.form, plan.step_ptr):
        part[:] = part[by_level]
    is_mapped = (plan.form == GATHERED) & (plan.level > 0)
    n_mapped = np.bincount(owner[is_mapped], minlength=n)
    row = np.cumsum(is_mapped) - ends_of(n_mapped)[owner]
    plan.map_row[:] = np.where(is_mapped, row, 0)
    is_new = (np.diff(owner) == 0) & (np.diff(plan.level) != 0)
    n_levels = np.bincount(owner[1:][is_new], minlength=n) + 1
    most = plan.block, n_levels, (n_mapped + 1) * plan.block, n_inputs, arity
    plan.room[1:] = [sizes.max(initial=1) for sizes in most]
    messages = plan.size // n_states[variable]
    plan.slot_ptr[1:2] = 1
    plan.slot_ptr[plan.slot + 1] = messages
    np.cumsum(plan.slot_ptr, out=plan.slot_ptr)
    wide = np.where(n_states[variable] > 256, 2, 1)
    np.cumsum(messages * wide, out=plan.back_ptr[1:])
    hole_at, hole_size = np.empty((2, n_slots + 1), dtype=np.int64)
    plan.room[0] = allocate(plan, hole_at, hole_size)
    return plan
