"""Sum-product on one chain: log-partition, node marginals, edge marginals.

The fast path works on probabilities with one scale per position (Rabiner scaling): a single
``exp(T - max T)`` serves all positions. Every factor is checked to be 0 (forbidden) or above
1e-100, so that no product of three underflows; where one is not, the same quantities are computed
on logarithms.
"""

import math

from ..core.dispatch import inner_kernel, kernel
from .numerics import fast_exp, log_sum_exp, row_max

_SMALLEST_FACTOR = 1e-100
_LARGEST_RANGE = 230.0  # -log(_SMALLEST_FACTOR), rounded down


@inner_kernel
def _times(a, row, matrix, out):
    """``out <- a[row] @ matrix``, four rows of the matrix a turn."""
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
def _shift_row(row, inverse, high, out):
    """``out <- (row - high) * inverse``, -inf in the padding."""
    for k in range(row.shape[0]):
        out[k] = (row[k] - high) * inverse
    for k in range(row.shape[0], out.shape[0]):
        out[k] = -math.inf


@inner_kernel
def _exp_all(values):
    for q in range(values.shape[0]):
        values[q] = fast_exp(values[q])


@inner_kernel
def _exp_table(table, inverse, matrix):
    """``matrix <- exp((table - max) * inverse)``; returns the maximum, NaN if unsafe."""
    n_labels = table.shape[0]
    high, low = -math.inf, math.inf
    for j in range(n_labels):
        for k in range(n_labels):
            value = table[j, k]
            high = max(high, value)
            low = min(low, value if value > -math.inf else math.inf)
    if not (high - low) * inverse <= _LARGEST_RANGE:
        return math.nan
    for j in range(n_labels):
        _shift_row(table[j], inverse, high, matrix[j])
    _exp_all(matrix.reshape(matrix.size))
    return high


@inner_kernel
def _all_safe(unary, node_exp, alpha):
    """Whether every factor is above the bound, or 0 because it is forbidden."""
    low = 1.0
    for t in range(unary.shape[0]):
        for k in range(unary.shape[1]):
            factor, share = node_exp[t, k], alpha[t, k]
            low = min(low, factor if unary[t, k] > -math.inf else 1.0)
            low = min(low, share if share > 0.0 else 1.0)
    return low > _SMALLEST_FACTOR


@inner_kernel
def _forward(unary, transitions, inverse, node_exp, alpha, scale, matrix):
    """Scaled forward pass; returns the log-partition (times `inverse`), NaN where it is unsafe."""
    n, n_labels = unary.shape
    stride = alpha.shape[1]
    shared = transitions.shape[0] == 1
    log_z = 0.0
    for t in range(n):
        top = row_max(unary[t], 0, n_labels)
        _shift_row(unary[t], inverse, top, node_exp[t])
        log_z += top * inverse
    _exp_all(node_exp.reshape(node_exp.size))
    product = 1.0
    high = 0.0
    for t in range(n):
        if t == 0:
            for k in range(stride):
                alpha[0, k] = node_exp[0, k]
        else:
            if t == 1 or not shared:
                high = _exp_table(transitions[0 if shared else t - 1], inverse, matrix)
            _times(alpha, t - 1, matrix, alpha[t])
            for k in range(stride):
                alpha[t, k] *= node_exp[t, k]
        total = 0.0
        for k in range(stride):
            total += alpha[t, k]
        share = 1.0 / total
        for k in range(stride):
            alpha[t, k] *= share
        scale[t] = total
        log_z += high * inverse
        product *= total
        if product < 1e-150 or product > 1e150:
            log_z += math.log(product)
            product = 1.0
    log_z += math.log(product)
    return log_z if _all_safe(unary, node_exp, alpha) else math.nan


@inner_kernel
def _forward_log(unary, transitions, inverse, alpha, buffer):
    """Forward pass on logarithms; returns the log-partition (times `inverse`)."""
    n, n_labels = unary.shape
    shared = transitions.shape[0] == 1
    for k in range(n_labels):
        alpha[0, k] = unary[0, k] * inverse
    for t in range(1, n):
        table = transitions[0 if shared else t - 1]
        for k in range(n_labels):
            for j in range(n_labels):
                buffer[j] = alpha[t - 1, j] + table[j, k] * inverse
            alpha[t, k] = log_sum_exp(buffer, 0, n_labels) + unary[t, k] * inverse
    return log_sum_exp(alpha[n - 1], 0, n_labels)


@inner_kernel
def _backward_log(unary, transitions, inverse, alpha, node, pair, beta, message, shares):
    """Marginals from a forward pass on logarithms, each node and edge normalised by its own sum.

    The log-partition of a long chain is so large that subtracting it would cost digits.
    """
    n, n_labels = unary.shape
    shared = transitions.shape[0] == 1
    summed = pair.shape[0] == 1
    for k in range(n_labels):
        node[n - 1, k] = 0.0
    for t in range(n - 1, -1, -1):  # node[t] holds the backward messages for a while
        if t < n - 1:
            table = transitions[0 if shared else t]
            for k in range(n_labels):
                message[k] = unary[t + 1, k] * inverse + beta[k]
            for j in range(n_labels):
                for k in range(n_labels):
                    beta[k] = table[j, k] * inverse + message[k]
                node[t, j] = log_sum_exp(beta, 0, n_labels)
        for k in range(n_labels):
            beta[k] = alpha[t, k] + node[t, k]
        log_z = log_sum_exp(beta, 0, n_labels)
        if t < n - 1:
            top, total = -math.inf, 0.0
            for j in range(n_labels):
                for k in range(n_labels):
                    shares[j, k] = alpha[t, j] + table[j, k] * inverse + message[k]
                    top = max(top, shares[j, k])
            for j in range(n_labels):
                for k in range(n_labels):
                    shares[j, k] = fast_exp(shares[j, k] - top)
                    total += shares[j, k]
            out = pair[0 if summed else t]
            for j in range(n_labels):
                for k in range(n_labels):
                    out[j, k] += shares[j, k] / total
        for k in range(n_labels):
            message[k] = fast_exp(beta[k] - log_z)
            beta[k] = node[t, k]
            node[t, k] = message[k]


@inner_kernel
def _sum_edges(alpha, message, n, out):
    """``out <- sum_t outer(alpha[t], message[t])`` over edges t, four edges a turn."""
    n_labels, stride = out.shape
    for j in range(n_labels):
        for k in range(stride):
            out[j, k] = 0.0
    t = 0
    while t + 4 < n:
        for j in range(n_labels):
            a0, a1, a2, a3 = alpha[t, j], alpha[t + 1, j], alpha[t + 2, j], alpha[t + 3, j]
            for k in range(stride):
                out[j, k] += (a0 * message[t, k] + a1 * message[t + 1, k]) + (
                    a2 * message[t + 2, k] + a3 * message[t + 3, k]
                )
        t += 4
    while t < n - 1:
        for j in range(n_labels):
            a0 = alpha[t, j]
            for k in range(stride):
                out[j, k] += a0 * message[t, k]
        t += 1


@inner_kernel(inline=True)
def _padded(n_labels):
    """Rows of scratch are whole cache lines: a loop over them is all vectors and no rest."""
    return (n_labels + 7) // 8 * 8


@kernel
def workspace_size(n_nodes, n_labels):
    """Floats of scratch that the functions of this module need.

    Parameters
    ----------
    n_nodes, n_labels : int
        Size of the longest chain.

    Returns
    -------
    int
        Length of `work`.

    Examples
    --------
    >>> from skstruct.inference.forward_backward import workspace_size
    >>> workspace_size(2, 3)
    138
    """
    return (3 * n_nodes + 3 * n_labels + 2) * _padded(n_labels) + n_nodes


@kernel(inline=True)
def chain_log_partition(unary, transitions, temperature, work):
    """Log-partition of a chain, ``temperature * log sum_y exp(score(y) / temperature)``.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Node potentials; -inf forbids.
    transitions : ndarray of shape (1 or n_nodes - 1, n_labels, n_labels)
        Potentials of (label, next label).
    temperature : float
        Positive.
    work : ndarray of shape (>= workspace_size(n_nodes, n_labels),)
        Scratch.

    Returns
    -------
    float
        The log-partition; -inf when every labelling is forbidden.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.forward_backward import chain_log_partition, workspace_size
    >>> work = np.empty(workspace_size(2, 2))
    >>> round(chain_log_partition(np.zeros((2, 2)), np.zeros((1, 2, 2)), 1.0, work), 6)
    1.386294
    """
    n, n_labels = unary.shape
    stride = _padded(n_labels)
    rows = work[: (2 * n + n_labels + 1) * stride].reshape(2 * n + n_labels + 1, stride)
    node_exp, alpha, matrix = rows[:n], rows[n : 2 * n], rows[2 * n : 2 * n + n_labels]
    scale = work[rows.size : rows.size + n]
    inverse = 1.0 / temperature
    log_z = _forward(unary, transitions, inverse, node_exp, alpha, scale, matrix)
    if math.isnan(log_z):
        log_z = _forward_log(unary, transitions, inverse, alpha, rows[2 * n + n_labels])
    return log_z * temperature


@kernel(inline=True)
def forward_backward(unary, transitions, temperature, node, pair, work):
    """Marginals and log-partition of a chain.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Node potentials; -inf forbids.
    transitions : ndarray of shape (1 or n_nodes - 1, n_labels, n_labels)
        Potentials of (label, next label), shared by all edges or one table each.
    temperature : float
        Positive; potentials are divided by it.
    node : ndarray of shape (n_nodes, n_labels)
        Receives the node marginals.
    pair : ndarray of shape (1 or n_nodes - 1, n_labels, n_labels)
        Receives the edge marginals, summed over edges when the first axis has length 1.
    work : ndarray of shape (>= workspace_size(n_nodes, n_labels),)
        Scratch.

    Returns
    -------
    float
        ``temperature * log sum_y exp(score(y) / temperature)``; -inf when every labelling is
        forbidden, and then the marginals are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.forward_backward import forward_backward, workspace_size
    >>> node, pair = np.empty((2, 2)), np.empty((1, 2, 2))
    >>> work = np.empty(workspace_size(2, 2))
    >>> log_z = forward_backward(np.zeros((2, 2)), np.zeros((1, 2, 2)), 1.0, node, pair, work)
    >>> node[0], pair[0, 0]
    (array([0.5, 0.5]), array([0.25, 0.25]))
    """
    n, n_labels = unary.shape
    stride = _padded(n_labels)
    n_rows = 3 * n + 3 * n_labels + 2
    rows = work[: n_rows * stride].reshape(n_rows, stride)
    node_exp, alpha, message = rows[:n], rows[n : 2 * n], rows[2 * n : 3 * n]
    matrix, rest = rows[3 * n : 3 * n + n_labels], rows[3 * n + n_labels :]
    transposed, summed_edges = rest[:n_labels], rest[n_labels : 2 * n_labels]
    beta, buffer = rest[2 * n_labels], rest[2 * n_labels + 1]
    scale = work[rows.size : rows.size + n]
    inverse = 1.0 / temperature
    for e in range(pair.shape[0]):
        for j in range(n_labels):
            for k in range(n_labels):
                pair[e, j, k] = 0.0

    log_z = _forward(unary, transitions, inverse, node_exp, alpha, scale, matrix)
    if math.isnan(log_z):
        log_z = _forward_log(unary, transitions, inverse, alpha, buffer)
        _backward_log(unary, transitions, inverse, alpha, node, pair, beta, buffer, matrix)
        return log_z * temperature

    shared = transitions.shape[0] == 1
    summed = pair.shape[0] == 1
    for k in range(stride):
        beta[k] = 1.0
    for k in range(n_labels):
        node[n - 1, k] = alpha[n - 1, k]
    for t in range(n - 2, -1, -1):
        if t == n - 2 or not shared:
            if not shared:
                _exp_table(transitions[t], inverse, matrix)
            for j in range(n_labels):
                for k in range(n_labels):
                    transposed[k, j] = matrix[j, k]
                for k in range(n_labels, stride):
                    transposed[j, k] = 0.0
        share = 1.0 / scale[t + 1]
        for k in range(stride):
            # What a label that cannot be reached sends back may overflow, and counts for nothing.
            reached = alpha[t + 1, k] > 0.0
            message[t, k] = node_exp[t + 1, k] * beta[k] * share if reached else 0.0
        _times(message, t, transposed, beta)
        for k in range(n_labels):
            node[t, k] = alpha[t, k] * beta[k]
        if not (summed and shared):
            out = pair[0 if summed else t]
            for j in range(n_labels):
                a = alpha[t, j]
                for k in range(n_labels):
                    out[j, k] += a * matrix[j, k] * message[t, k]
    if summed and shared and n > 1:
        _sum_edges(alpha, message, n, summed_edges)
        for j in range(n_labels):
            for k in range(n_labels):
                pair[0, j, k] = summed_edges[j, k] * matrix[j, k]
    return log_z * temperature
