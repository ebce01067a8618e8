"""Exact inference on rooted forests: best labelling, n best, marginals.

A forest of n nodes is given by ``order`` (every parent before its children), ``parent`` (-1 for a
root), ``link`` (the table of the edge to the parent) and ``flip`` (1 where that table has the child
in its rows). No recursion: deep trees are as good as bushy ones.
"""

import math

from ..dispatch import inner_kernel, kernel
from .numerics import fast_exp


def tree_work(n, n_labels, n_best):
    """Scratch that the kernels of this file need.

    Parameters
    ----------
    n : int
        Nodes of the largest forest.
    n_labels : int
        Labels.
    n_best : int
        Largest number of labellings asked for at once.

    Returns
    -------
    int
        Number of floats.

    Examples
    --------
    >>> from skstruct.inference.tree import tree_work
    >>> tree_work(10, 3, 1) > 0
    True
    """
    return max(3 * n * n_labels + 4 * n_labels, 3 * n * n_labels * n_best + n + 6 * n_best)


@inner_kernel(inline=True)
def _table_entry(transitions, link, flip, j, k):
    """Potential of label j at the parent and k at the child."""
    e = 0 if transitions.shape[0] == 1 else link
    return transitions[e, k, j] if flip == 1 else transitions[e, j, k]


@kernel
def tree_max(unary, transitions, order, parent, link, flip, labels, work):
    """Best labelling of a forest, by max-product from the leaves to the roots.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Node potentials; -inf forbids.
    transitions : ndarray of shape (n_tables, n_labels, n_labels)
        Edge potentials, rows for the parent (for the child where `flip` is 1).
    order, parent, link : ndarray of shape (n_nodes,) of int32
        The forest, see the head of this file.
    flip : ndarray of shape (n_nodes,) of uint8
        Orientation of the tables.
    labels : ndarray of shape (>= n_nodes,) of int32
        Receives the labelling.
    work : ndarray
        Scratch, see :func:`tree_work`.

    Returns
    -------
    float
        Its score; -inf when every labelling is forbidden.
    """
    n, n_labels = unary.shape
    best = work[: n * n_labels].reshape(n, n_labels)
    for t in range(n):
        for k in range(n_labels):
            best[t, k] = unary[t, k]
    total = 0.0
    for position in range(n - 1, -1, -1):
        c = order[position]
        p = parent[c]
        if p >= 0:
            for j in range(n_labels):
                message = -math.inf
                for k in range(n_labels):
                    step = _table_entry(transitions, link[c], flip[c], j, k)
                    message = max(message, best[c, k] + step)
                best[p, j] += message
    for position in range(n):
        c = order[position]
        p = parent[c]
        chosen, top = 0, -math.inf
        for k in range(n_labels):
            value = best[c, k]
            if p >= 0:
                value += _table_entry(transitions, link[c], flip[c], labels[p], k)
            if value > top:
                chosen, top = k, value
        labels[c] = chosen
        if p < 0:
            total += top
    return total


@inner_kernel
def _log_sum(values, size):
    top = -math.inf
    for k in range(size):
        top = max(top, values[k])
    if not top > -math.inf:
        return top
    total = 0.0
    for k in range(size):
        total += fast_exp(values[k] - top)
    return top + math.log(total)


@inner_kernel
def _upward(unary, transitions, temperature, order, parent, link, flip, work):
    """Log-messages from the leaves to the roots; returns the log-partition over the temperature."""
    n, n_labels = unary.shape
    size = n * n_labels
    belief = work[:size].reshape(n, n_labels)
    message = work[size : 2 * size].reshape(n, n_labels)
    row = work[3 * size : 3 * size + n_labels]
    for t in range(n):
        for k in range(n_labels):
            belief[t, k] = unary[t, k] / temperature
    total = 0.0
    for position in range(n - 1, -1, -1):
        c = order[position]
        p = parent[c]
        if p < 0:
            total += _log_sum(belief[c], n_labels)
            continue
        for j in range(n_labels):
            for k in range(n_labels):
                step = _table_entry(transitions, link[c], flip[c], j, k)
                row[k] = belief[c, k] + step / temperature
            message[c, j] = _log_sum(row, n_labels)
            belief[p, j] += message[c, j]
    return total


@kernel
def tree_log_partition(unary, transitions, temperature, order, parent, link, flip, work):
    """``temperature * log sum_y exp(score(y) / temperature)`` of a forest.

    Parameters
    ----------
    unary, transitions, order, parent, link, flip, work : ndarray
        As for :func:`tree_max`.
    temperature : float
        Positive.

    Returns
    -------
    float
        The log-partition; -inf when every labelling is forbidden.
    """
    total = _upward(unary, transitions, temperature, order, parent, link, flip, work)
    return temperature * total


@kernel
def tree_marginals(
    unary, transitions, temperature, order, parent, link, flip, node_mu, pair_mu, work
):
    """Marginals of nodes and edges of a forest, by sum-product in the log domain.

    Parameters
    ----------
    unary, transitions, order, parent, link, flip, work : ndarray
        As for :func:`tree_max`.
    temperature : float
        Positive.
    node_mu : ndarray of shape (n_nodes, n_labels)
        Receives the node marginals.
    pair_mu : ndarray of shape (n_tables, n_labels, n_labels)
        Receives the edge marginals; with one table their sum over all edges.

    Returns
    -------
    float
        The log-partition as :func:`tree_log_partition`; when it is -inf nothing is written.
    """
    n, n_labels = unary.shape
    total = _upward(unary, transitions, temperature, order, parent, link, flip, work)
    if not total > -math.inf:
        return total
    size = n * n_labels
    belief = work[:size].reshape(n, n_labels)
    message = work[size : 2 * size].reshape(n, n_labels)
    log_z = work[2 * size : 2 * size + n]
    outside = work[3 * size : 3 * size + n_labels]
    row = work[3 * size + n_labels : 3 * size + 2 * n_labels]
    for e in range(pair_mu.shape[0]):
        for j in range(n_labels):
            for k in range(n_labels):
                pair_mu[e, j, k] = 0.0
    for position in range(n):
        c = order[position]
        p = parent[c]
        if p < 0:
            log_z[c] = _log_sum(belief[c], n_labels)
        else:
            log_z[c] = log_z[p]
            e = 0 if pair_mu.shape[0] == 1 else link[c]
            for j in range(n_labels):
                # Where the message is -inf no labelling is left, and the belief is -inf, too.
                known = belief[p, j] > -math.inf
                outside[j] = belief[p, j] - message[c, j] if known else -math.inf
            for k in range(n_labels):
                inside = belief[c, k]
                for j in range(n_labels):
                    step = _table_entry(transitions, link[c], flip[c], j, k) / temperature
                    row[j] = outside[j] + step
                    share = fast_exp(min(row[j] + inside - log_z[c], 0.0))
                    if flip[c] == 1:
                        pair_mu[e, k, j] += share
                    else:
                        pair_mu[e, j, k] += share
                belief[c, k] = inside + _log_sum(row, n_labels)
        for k in range(n_labels):
            node_mu[c, k] = fast_exp(min(belief[c, k] - log_z[c], 0.0))
    return temperature * total


@inner_kernel
def _insert(candidate, first, second, values, firsts, seconds):
    """Insert into a descending list of best; equal scores keep their order."""
    position = values.shape[0] - 1
    while position > 0 and values[position - 1] < candidate:
        values[position] = values[position - 1]
        firsts[position] = firsts[position - 1]
        seconds[position] = seconds[position - 1]
        position -= 1
    values[position] = candidate
    firsts[position] = first
    seconds[position] = second


@inner_kernel
def _fold(here, incoming, codes, before, chosen, buffers):
    """Best sums of one entry of `here` and one of `incoming`, in place; where they came from.

    ``before`` takes the rank in `here`, ``chosen`` the code of the entry of `incoming`.
    """
    size = here.shape[0]
    values, firsts, seconds = buffers[0], buffers[1], buffers[2]
    for r in range(size):
        values[r] = -math.inf
        firsts[r] = 0.0
        seconds[r] = 0.0
    for a in range(size):
        for b in range(size):
            candidate = here[a] + incoming[b]
            if not candidate > values[size - 1]:
                break
            _insert(candidate, float(a), codes[b], values, firsts, seconds)
    for r in range(size):
        here[r] = values[r]
        before[r] = firsts[r]
        chosen[r] = seconds[r]


@kernel
def tree_top_k(unary, transitions, order, parent, link, flip, values, labels, work):
    """The n best labellings of a forest: top-k max-product, a fold of k-best lists.

    Parameters
    ----------
    unary, transitions, order, parent, link, flip, work : ndarray
        As for :func:`tree_max`.
    values : ndarray of shape (k,)
        Receives the scores, best first; -inf where there are fewer labellings.
    labels : ndarray of shape (k, >= n_nodes) of int32
        Receives the labellings.

    References
    ----------
    Seroussi and Golmard 1994, An algorithm directly finding the K most probable configurations in
    Bayesian networks.
    """
    n, n_labels = unary.shape
    size = values.shape[0]
    cells = n * n_labels * size
    lists = work[:cells].reshape(n, n_labels, size)
    # Of child c under label j of its parent: rank among the parent's entries before the fold, and
    # the child's entry as ``label * size + rank``. Roots use j = 0. Floats hold both exactly.
    before = work[cells : 2 * cells].reshape(n, n_labels, size)
    chosen = work[2 * cells : 3 * cells].reshape(n, n_labels, size)
    rank = work[3 * cells : 3 * cells + n]
    rest = 3 * cells + n
    incoming, codes = work[rest : rest + size], work[rest + size : rest + 2 * size]
    buffers = work[rest + 2 * size : rest + 5 * size].reshape(3, size)
    whole = work[rest + 5 * size : rest + 6 * size]
    for t in range(n):
        for k in range(n_labels):
            lists[t, k, 0] = unary[t, k]
            for r in range(1, size):
                lists[t, k, r] = -math.inf
    whole[0] = 0.0
    for r in range(1, size):
        whole[r] = -math.inf
    for position in range(n - 1, -1, -1):
        c = order[position]
        p = parent[c]
        for j in range(n_labels if p >= 0 else 1):
            for r in range(size):
                incoming[r] = -math.inf
                codes[r] = 0.0
            for k in range(n_labels):
                step = _table_entry(transitions, link[c], flip[c], j, k) if p >= 0 else 0.0
                for r in range(size):
                    candidate = lists[c, k, r] + step
                    if not candidate > incoming[size - 1]:
                        break
                    _insert(candidate, float(k * size + r), 0.0, incoming, codes, buffers[0])
            target = lists[p, j] if p >= 0 else whole
            _fold(target, incoming, codes, before[c, j], chosen[c, j], buffers)
    for q in range(size):
        values[q] = whole[q]
        current = q  # rank among the folds of the roots
        for position in range(n):
            c = order[position]
            p = parent[c]
            j = labels[q, p] if p >= 0 else 0
            r = int(rank[p]) if p >= 0 else current
            code = int(chosen[c, j, r])
            labels[q, c] = code // size
            rank[c] = float(code % size)
            if p >= 0:
                rank[p] = before[c, j, r]
            else:
                current = int(before[c, j, r])
