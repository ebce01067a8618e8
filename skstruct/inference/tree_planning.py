"""The kernels that plan a junction tree: cliques, slots of messages, inputs and their steps."""

from ..core.dispatch import inner_kernel, kernel

SCALAR, CONTIGUOUS, GATHERED = range(3)


@kernel
def first_buckets(scope_ptr, scope, bucket, head, following):
    """Lists of the factors of each bucket, in order; the last list holds those of none."""
    n_buckets = head.shape[0] - 1
    head[:] = -1
    for f in range(scope_ptr.shape[0] - 2, -1, -1):
        k = n_buckets
        for d in range(scope_ptr[f], scope_ptr[f + 1]):
            if bucket[scope[d]] >= 0:
                k = min(k, bucket[scope[d]])
        following[f] = head[k]
        head[k] = f


@kernel
def cliques(start, scope_ptr, scope, bucket, variable, heads, child, mark, parent, dim_ptr, dim):
    """Cliques of the buckets from `start` on, as far as `dim` has room; returns how far."""
    head, following = heads
    child_head, child_next = child
    for k in range(start, variable.shape[0]):
        n, begin = 0, dim_ptr[k]
        if begin + mark.shape[0] > dim.shape[0]:
            return k
        mark[variable[k]] = k
        f = head[k]
        while f >= 0:
            for d in range(scope_ptr[f], scope_ptr[f + 1]):
                v = scope[d]
                if bucket[v] >= 0 and mark[v] != k:
                    mark[v] = k
                    dim[begin + n] = v
                    n += 1
            f = following[f]
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
def inputs(scope_ptr, scope, n_states, plan, heads, slots, position):
    """What goes into the buckets: sources, levels, forms and steps."""
    head, following = heads
    slot_of, slot_head, slot_next = slots
    dim_ptr, dim, step = plan.dim_ptr, plan.dim, plan.step
    at = 0
    for k in range(plan.variable.shape[0]):
        begin, n = dim_ptr[k], dim_ptr[k + 1] - dim_ptr[k]
        for d in range(n):
            position[dim[begin + d]] = d
        i = plan.input_ptr[k]
        f, s = head[k], slot_head[k]
        while f >= 0 or s >= 0:
            for d in range(n):
                step[at + d] = 0
            stride = 1
            if f >= 0:
                for d in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
                    if plan.bucket[scope[d]] >= 0:
                        step[at + position[scope[d]]] = stride
                    stride *= n_states[scope[d]]
                plan.source[i] = f
                f = following[f]
            else:
                c = slot_of[s]
                for d in range(dim_ptr[c + 1] - 2, dim_ptr[c] - 1, -1):
                    step[at + position[dim[d]]] = stride
                    stride *= n_states[dim[d]]
                plan.source[i] = -1 - s
                s = slot_next[s]
            q = plan.outer[k]
            level = 0
            for d in range(q):
                if step[at + d] != 0:
                    level = d + 1
            is_number, is_run, stride = True, True, 1
            for d in range(n - 1, q - 1, -1):
                is_number &= step[at + d] == 0
                is_run &= step[at + d] == stride
                stride *= n_states[dim[begin + d]]
            plan.level[i] = level
            plan.form[i] = SCALAR if is_number else (CONTIGUOUS if is_run else GATHERED)
            plan.step_ptr[i] = at
            at += n
            i += 1


@kernel
def by_level(plan):
    """Sort the inputs of each bucket by level; rows for the maps of those that are used again."""
    level, form, source, step_ptr = plan.level, plan.form, plan.source, plan.step_ptr
    room = plan.room
    for k in range(plan.variable.shape[0]):
        begin, end = plan.input_ptr[k], plan.input_ptr[k + 1]
        for i in range(begin + 1, end):
            a, b, c, d, j = level[i], form[i], source[i], step_ptr[i], i
            while j > begin and level[j - 1] > a:
                level[j], form[j] = level[j - 1], form[j - 1]
                source[j], step_ptr[j] = source[j - 1], step_ptr[j - 1]
                j -= 1
            level[j], form[j], source[j], step_ptr[j] = a, b, c, d
        rows, levels = 1, 1
        for i in range(begin, end):
            plan.map_row[i] = 0
            if form[i] == GATHERED and level[i] > 0:
                plan.map_row[i] = rows
                rows += 1
            levels += i > begin and level[i] != level[i - 1]
        room[1] = max(room[1], plan.block[k])
        room[2] = max(room[2], levels)
        room[3] = max(room[3], rows * plan.block[k])
        room[4] = max(room[4], end - begin)
        room[5] = max(room[5], plan.dim_ptr[k + 1] - plan.dim_ptr[k])


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
