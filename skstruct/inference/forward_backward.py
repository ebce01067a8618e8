"""Sum-product on a chain: scaled (Rabiner) where no product can underflow, else on logarithms."""

import math

from ..core.jit.kernels import inner_kernel, kernel
from .numerics import fast_exp

SMALLEST_FACTOR = 1e-100
LARGEST_RANGE = 230.0  # -log(SMALLEST_FACTOR), rounded down


@inner_kernel
def _times(a, row, matrix, out):
    """``out <- a[row] @ matrix``, four rows of the matrix per turn."""
    n_labels, stride = matrix.shape
    for k in range(stride):
        out[k] = 0.0
    j = 0
    while j + 3 < n_labels:
        a0, a1, a2, a3 = a[row, j], a[row, j + 1], a[row, j + 2], a[row, j + 3]
        for k in range(stride):
            out[k] += (a0 * matrix[j, k] + a1 * matrix[j + 1, k]) + (
                a2 * matrix[j + 2, k] + a3 * matrix[j + 3, k]
            )
        j += 4
    while j < n_labels:
        a0 = a[row, j]
        for k in range(stride):
            out[k] += a0 * matrix[j, k]
        j += 1


@inner_kernel
def exp_table(table, inverse, out):
    """``out <- exp((table - max) * inverse)``, 0 in the padding; the maximum, NaN if unsafe."""
    n_rows, n_labels = table.shape
    # Four lanes: in one alone each comparison would wait for the last.
    a, b, c, d = -math.inf, -math.inf, -math.inf, -math.inf
    for j in range(n_rows):
        row = out[j]
        for k in range(n_labels):
            row[k] = table[j, k]
        for k in range(n_labels, row.shape[0]):
            row[k] = -math.inf
        for k in range(0, row.shape[0], 4):
            a = row[k] if row[k] > a else a
            b = row[k + 1] if row[k + 1] > b else b
            c = row[k + 2] if row[k + 2] > c else c
            d = row[k + 3] if row[k + 3] > d else d
    a, c = b if b > a else a, d if d > c else c
    high, unsafe, values = c if c > a else a, 0, out.reshape(out.size)
    for q in range(values.shape[0]):
        shifted = (values[q] - high) * inverse
        unsafe |= (shifted < -LARGEST_RANGE) & (shifted > -math.inf)
        values[q] = fast_exp(shifted)
    return high if unsafe == 0 else math.nan


@inner_kernel
def _forward(unary, transitions, inverse, node_exp, alpha, scale, matrix):
    """Scaled forward pass; returns the log-partition (times `inverse`), NaN where it is unsafe."""
    n = unary.shape[0]
    stride = alpha.shape[1]
    shared = transitions.shape[0] == 1
    log_z, product, high, unsafe = 0.0, 1.0, 0.0, 0
    for t in range(n):
        log_z += exp_table(unary[t : t + 1], inverse, node_exp[t : t + 1]) * inverse
    for t in range(n):
        if t == 0:
            for k in range(stride):
                alpha[0, k] = node_exp[0, k]
        else:
            if t == 1 or not shared:
                high = exp_table(transitions[0 if shared else t - 1], inverse, matrix)
            _times(alpha, t - 1, matrix, alpha[t])
            for k in range(stride):
                alpha[t, k] *= node_exp[t, k]
        total = 0.0
        for k in range(stride):
            total += alpha[t, k]
        share = 1.0 / total
        for k in range(stride):
            alpha[t, k] *= share
            unsafe |= (alpha[t, k] > 0.0) & (alpha[t, k] <= SMALLEST_FACTOR)
        scale[t] = total
        log_z += high * inverse
        product *= total
        if product < 1e-150 or product > 1e150:
            log_z += -math.inf if product == 0.0 else math.log(product)
            product = 1.0
    log_z += -math.inf if product == 0.0 else math.log(product)
    return log_z if unsafe == 0 else math.nan


@inner_kernel
def _follow(row, inverse, message, shares):
    """Write ``exp(row * inverse + message - top)`` to `shares`; returns top and the sum."""
    top = -math.inf
    for k in range(row.shape[0]):
        shares[k] = row[k] * inverse + message[k]
        top = shares[k] if shares[k] > top else top
    total = 0.0
    for k in range(row.shape[0] if top > -math.inf else 0):
        shares[k] = fast_exp(shares[k] - top)
        total += shares[k]
    return top, total


@inner_kernel
def _in_logs(unary, transitions, inverse, alpha, node, pair, beta, message, shares):
    """Marginals and log-partition (times `inverse`) for any potentials, on logarithms."""
    # Backward on logarithms, each row less its maximum; what these give forward are probabilities
    # of the next label for each label, so that no large numbers are subtracted.
    n, n_labels = unary.shape
    shared = transitions.shape[0] == 1
    log_z = 0.0
    for t in range(n - 1, -1, -1):  # alpha[t] holds the node's score and its backward message
        e = 0 if shared else t
        top = -math.inf
        for k in range(n_labels):
            alpha[t, k] = unary[t, k] * inverse
            if t < n - 1:
                most, total = _follow(transitions[e, k], inverse, alpha[t + 1], shares[0])
                alpha[t, k] += most + math.log(total) if most > -math.inf else most
            top = alpha[t, k] if alpha[t, k] > top else top
        for k in range(n_labels if top > -math.inf else 0):
            alpha[t, k] -= top
        log_z += top
    total = 0.0
    for k in range(n_labels):
        beta[k] = fast_exp(alpha[0, k])
        total += beta[k]
    if node.shape[0] == 0 or not log_z > -math.inf:
        for q in range(node.size):
            node[q // n_labels, q % n_labels] = math.nan
        return -math.inf if total == 0.0 else log_z + math.log(total)
    for t in range(n):
        e, out = 0 if shared else t, 0 if pair.shape[0] == 1 else t
        sum_here = 0.0
        for k in range(n_labels):
            sum_here += beta[k]
        for k in range(n_labels):
            node[t, k] = beta[k] / sum_here
            beta[k] = 0.0
        for j in range(n_labels if t < n - 1 else 0):
            if node[t, j] > 0.0:
                _, of_next = _follow(transitions[e, j], inverse, alpha[t + 1], message)
                share = node[t, j] / of_next
                for k in range(n_labels):
                    message[k] *= share
                    beta[k] += message[k]
                for k in range(n_labels if pair.shape[0] > 0 else 0):
                    pair[out, j, k] += message[k]
    return log_z + math.log(total)


@inner_kernel(inline=True)
def _sum_edges(alpha, message, matrix, sums, out):
    """``out <- matrix * sum_t outer(alpha[t], message[t])``, two rows and four edges per turn."""
    last, n_edges = out.shape[0] - 1, alpha.shape[0] - 1
    for j in range(0, last + 1, 2):
        i = j + 1 if j < last else last
        for k in range(sums.shape[1]):
            sums[0, k] = sums[1, k] = 0.0
        t = 0
        while t + 3 < n_edges:
            a0, a1, a2, a3 = alpha[t, j], alpha[t + 1, j], alpha[t + 2, j], alpha[t + 3, j]
            b0, b1, b2, b3 = alpha[t, i], alpha[t + 1, i], alpha[t + 2, i], alpha[t + 3, i]
            for k in range(sums.shape[1]):
                m0, m1 = message[t, k], message[t + 1, k]
                m2, m3 = message[t + 2, k], message[t + 3, k]
                sums[0, k] += (a0 * m0 + a1 * m1) + (a2 * m2 + a3 * m3)
                sums[1, k] += (b0 * m0 + b1 * m1) + (b2 * m2 + b3 * m3)
            t += 4
        while t < n_edges:
            for k in range(sums.shape[1]):
                sums[0, k] += alpha[t, j] * message[t, k]
                sums[1, k] += alpha[t, i] * message[t, k]
            t += 1
        for k in range(out.shape[1]):
            out[j, k] = sums[0, k] * matrix[j, k]
            out[i, k] = sums[1, k] * matrix[i, k]


@inner_kernel
def _backward(shared, inverse, transitions, node_exp, alpha, message, scale, tables, node, pair):
    """Marginals from a forward pass; `tables` has the scratch for transitions and rows."""
    n, n_labels = node.shape
    stride = alpha.shape[1]
    summed = pair.shape[0] == 1
    matrix, transposed = tables[:n_labels], tables[n_labels : 2 * n_labels]
    beta = tables[2 * n_labels]
    for k in range(stride):
        beta[k] = 1.0
    for k in range(n_labels):
        node[n - 1, k] = alpha[n - 1, k]
    for t in range(n - 2, -1, -1):
        if t == n - 2 or not shared:
            if not shared:
                exp_table(transitions[t], inverse, matrix)
            # Eight rows at a time fill whole cache lines.
            for first in range(0, stride, 8):
                for k in range(n_labels):
                    for j in range(first, first + 8):
                        transposed[k, j] = matrix[j, k] if j < n_labels else 0.0
        share = 1.0 / scale[t + 1]
        for k in range(stride):
            # What a label that cannot be reached sends back may overflow, and counts for nothing.
            reached = alpha[t + 1, k] > 0.0
            message[t, k] = node_exp[t + 1, k] * beta[k] * share if reached else 0.0
        _times(message, t, transposed, beta)
        for k in range(n_labels):
            node[t, k] = alpha[t, k] * beta[k]
        if pair.shape[0] > 0 and not (summed and shared):
            out = pair[0 if summed else t]
            for j in range(n_labels):
                a = alpha[t, j]
                for k in range(n_labels):
                    out[j, k] += a * matrix[j, k] * message[t, k]
    if summed and shared and n > 1:
        _sum_edges(alpha, message, matrix, tables[2 * n_labels + 1 :], pair[0])


def workspace_size(n_nodes, n_labels):
    """Floats of scratch that :func:`forward_backward` needs."""
    # Rows of scratch are whole cache lines: a loop over them is all vectors and no rest.
    stride = (n_labels + 7) // 8 * 8
    return (3 * n_nodes + 2 * n_labels + 4) * stride + n_nodes


@inner_kernel(inline=True)
def _views(work, n, n_labels):
    """Scratch in the form in which the passes take it."""
    stride = (n_labels + 7) // 8 * 8
    n_rows = 3 * n + 2 * n_labels + 4
    rows = work[: n_rows * stride].reshape(n_rows, stride)
    tables, buffer = rows[3 * n : n_rows - 1], rows[n_rows - 1]
    scale = work[rows.size : rows.size + n]
    return rows[:n], rows[n : 2 * n], rows[2 * n : 3 * n], tables, buffer, scale


@kernel
def forward_backward(unary, transitions, temperature, node, pair, work):
    """Marginals and log-partition of a chain."""
    n, n_labels = unary.shape
    node_exp, alpha, message, tables, buffer, scale = _views(work, n, n_labels)
    inverse = 1.0 / temperature
    for e in range(pair.shape[0]):
        for j in range(n_labels):
            for k in range(n_labels):
                pair[e, j, k] = 0.0

    matrix = tables[:n_labels]
    log_z = _forward(unary, transitions, inverse, node_exp, alpha, scale, matrix)
    if math.isnan(log_z):
        beta = tables[2 * n_labels]
        log_z = _in_logs(unary, transitions, inverse, alpha, node, pair, beta, buffer, matrix)
    elif node.shape[0] > 0:
        shared = transitions.shape[0] == 1
        _backward(shared, inverse, transitions, node_exp, alpha, message, scale, tables, node, pair)
    return log_z * temperature


# Probabilities of chunks: forward passes over the nodes of each, by the steps that make it up.


@inner_kernel
def _load_edge(t, sums):
    """Weights of the steps to node t, unless all nodes share them; on logarithms probabilities."""
    transitions, is_safe, left, alpha, matrix, _ = sums
    if is_safe:
        if transitions.shape[0] > 1:
            exp_table(transitions[t - 1], 1.0, matrix)
        return
    e = 0 if transitions.shape[0] == 1 else t - 1
    for j in range(transitions.shape[1]):
        _, total = _follow(transitions[e, j], 1.0, alpha[t], matrix[j])
        for k in range(transitions.shape[1]):
            matrix[j, k] = matrix[j, k] / total if left[t - 1, j] > 0.0 else 0.0


@inner_kernel
def _arrive(t, before, sources, allowed, targets, sums, out):
    """Add what labels `targets` of node t get from labels `sources` before by allowed steps."""
    _, _, left, _, matrix, factor = sums
    if t > 0:
        _load_edge(t, sums)
    for k in targets:
        if t == 0:
            out[k] += left[0, k] * allowed[allowed.shape[0] - 1, k]
            continue
        total = 0.0
        for j in sources:
            total += before[j] * matrix[j, k] * allowed[j, k]
        out[k] += total * factor[t, k]


@inner_kernel
def _leave(stop, here, own, allowed, sums, message):
    """What leaves labels `own` before node `stop` by allowed steps."""
    _, _, left, _, matrix, _ = sums
    n, total = left.shape[0], 0.0
    if stop < n:
        _load_edge(stop, sums)
    for j in own:
        share = allowed[j, allowed.shape[0] - 1] if stop == n else 0.0
        for k in range(allowed.shape[0] - 1 if stop < n else 0):
            share += matrix[j, k] * allowed[j, k] * message[stop - 1, k]
        total += here[j] * share
    return total


@kernel
def chain_chunks(unary, transitions, rules, chunks, node, out, work):
    """Probabilities of chunks (start, stop, kind), both ends included; returns log-partition."""
    # Some steps begin a chunk only where none is that they go on with: the labels that they leave
    # are reached by no step that goes on with a chunk, so that the step before tells.
    n, n_labels = unary.shape
    node_exp, alpha, message, tables, outside, scale = _views(work, n, n_labels)
    matrix, here, after = tables[:n_labels], tables[n_labels], tables[2 * n_labels]
    log_z = _forward(unary, transitions, 1.0, node_exp, alpha, scale, matrix)
    is_safe, left, none = not math.isnan(log_z), node, transitions[:0]
    if is_safe:
        shared = transitions.shape[0] == 1
        _backward(shared, 1.0, transitions, node_exp, alpha, message, scale, tables, node, none)
        left = alpha
    else:
        log_z = _in_logs(unary, transitions, 1.0, alpha, node, none, here, after, matrix)
    for t in range(n):
        for k in range(n_labels):
            node_exp[t, k] = node_exp[t, k] / scale[t] if is_safe else 1.0
            message[t, k] = message[t, k] if is_safe else 1.0
    sums = transitions, is_safe, left, alpha, matrix, node_exp
    for q in range(chunks.shape[0] if log_z > -math.inf else 0):
        start, stop = chunks[q, 0], chunks[q, 1]
        own = rules.labels[rules.ptr[chunks[q, 2]] : rules.ptr[chunks[q, 2] + 1]]
        for k in own:
            here[k] = outside[k] = 0.0
        if start > 0 and rules.is_ambiguous:
            before = left[max(start - 2, 0)]
            _arrive(start - 1, before, rules.labels, rules.misses, own, sums, outside)
            _arrive(start, outside, own, rules.begins_outside, own, sums, here)
        before = left[max(start - 1, 0)]
        _arrive(start, before, rules.labels, rules.begins, own, sums, here)
        for t in range(start + 1, stop):
            for k in own:
                after[k] = 0.0
            _arrive(t, here, own, rules.stays, own, sums, after)
            for k in own:
                here[k] = after[k]
        out[q] = min(_leave(stop, here, own, rules.ends, sums, message), 1.0)
    return log_z
