"""Chains whose labellings an automaton reads: Viterbi and sum-product over its states.

A state knows the last label and what counts of the labels before it: the *context* of an n-gram
(:mod:`skstruct.inference.contexts`), and how far rules are kept. For labels a and b, weights of the
n-grams "a a a" and "a a b", and no more than one run of b, they are

=====  =======  ==========  ==============  =======  =======  =====  ======
state  context  b was seen  row of a table  after a  after b  group  family
=====  =======  ==========  ==============  =======  =======  =====  ======
0      a        no          0               1        4        0      0
1      a a      no          2               1        4        0      0
2      a        yes         0               3        none     1      1
3      a a      yes         2               3        none     1      1
4      b        yes         1               2        4        2      2
=====  =======  ==========  ==============  =======  =======  =====  ======

The score of a step is in the row of the state before it, in a table (n_rows, n_labels + 1) whose
last column is the end: the row of the context, so the states 0 and 2 share one. A *group* has the
states with one last label that rules cannot tell apart. They all lead to the same states, but for
*rare* columns: with the n-gram "a a a b", a third context "a a a" would follow "a a" where "a a"
follows "a", so that column a of row 2 would be rare. A *family* has the groups that rules cannot
tell apart but for their label (without rules all groups are one family): these lead to the same
states, with the next label alone as the context (``leads``), but for some labels of their *own*:
by a, group 0 leads to state 1, not to 0.

So the vectors over labels ``score of a state + its row`` are added up (or maximised) over the
states of a group, then over the groups of a family, and only what differs is moved one by one.
Kernels rely on this: states are in the order of groups; the rows of single labels come first, and
have no rare columns; a parent comes before its rows; where each step has a table of its own, there
are no other rows. Rare columns are moved from the table to ``scratch.rare``: what is left there is
-inf, or 0 among exponentials.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.weights import aligned
from .forward_backward import LARGEST_RANGE, SMALLEST_FACTOR, exp_table
from .numerics import TopList, clear_top, fast_exp, offer_top, take_top, top_list


class Automaton(NamedTuple):
    """A deterministic automaton whose states know the last label, in the order of groups."""

    # (n_states,) of int32: The last label of each state, and its row in tables of steps.
    labels: np.ndarray
    rows: np.ndarray
    # (n_labels,) and (n_states, n_labels) of int32: The state after a label, at the first node and
    # after a state; -1 where there is none.
    first: np.ndarray
    after: np.ndarray
    # (n_states,) of uint8: 1 where a labelling may end.
    ends: np.ndarray
    # (n_groups + 1,) of int64: Where the states of each group begin.
    group_ptr: np.ndarray
    # (n_groups + 1,) of int64, and (n_own,) of int32: Labels after which a group leads to a state
    # of its own, and these states.
    own_ptr: np.ndarray
    own: np.ndarray
    targets: np.ndarray
    # (n_groups,) of int32: The family of each group.
    family: np.ndarray
    # (n_families, n_labels) of int32: The state after other labels, -1 for none.
    leads: np.ndarray
    # (n_rows + 1,) of int64, and (n_rare,) of int32: Columns of each row that lead elsewhere.
    rare_ptr: np.ndarray
    rare: np.ndarray


class StepRows(NamedTuple):
    """Rows of tables of steps: each has the scores of its parent's steps, too."""

    # (n_rows,) of int32: The last label of each row, and its parent, which comes before it, or -1:
    # the first rows are those of the labels alone.
    labels: np.ndarray
    parents: np.ndarray
    # (n_rows + 1,) of int64, and (n_ngrams,) of int32: The n-grams that end with a step from each
    # row: their columns, and where their scores are.
    ptr: np.ndarray
    columns: np.ndarray
    positions: np.ndarray


class AutomatonScratch(NamedTuple):
    """Scratch of the kernels of this file."""

    # (n_tables, n_rows, stride): Scores of steps.
    steps: np.ndarray
    # (n_rows, stride): The same of one step without rare columns, or its exponentials; and sums of
    # marginals.
    table: np.ndarray
    sums: np.ndarray
    # (n_rare,): Rare columns, and sums of their marginals.
    rare: np.ndarray
    rare_sums: np.ndarray
    # (n_families, stride), (stride,): What the states of a family, and of a group have in common.
    families: np.ndarray
    group: np.ndarray
    # (n_nodes, stride): Exponentials of the nodes' potentials.
    node: np.ndarray
    # (n_nodes, n_states): What arrives at a state, and what the nodes after it send back.
    here: np.ndarray
    back: np.ndarray
    # (n_nodes,): Factors that were taken out.
    scale: np.ndarray
    # (3, n_states): States of a node.
    states: np.ndarray
    # (n_nodes,): States of a labelling.
    path: np.ndarray
    # Candidates for the n best.
    top: TopList


def automaton_scratch(automaton, n_rows, n_tables, n_nodes, n_best=1) -> AutomatonScratch:
    """Scratch for chains of at most `n_nodes` nodes and tables of steps."""
    n_states, n_labels = automaton.after.shape
    stride = (n_labels + 8) // 8 * 8

    def rows(n, width):
        return aligned(n * width, np.empty).reshape(n, width)

    return AutomatonScratch(
        steps=rows(n_tables * n_rows, stride).reshape(n_tables, n_rows, stride),
        table=rows(n_rows, stride),
        sums=rows(n_rows, stride),
        rare=np.empty(automaton.rare.size),
        rare_sums=np.empty(automaton.rare.size),
        families=rows(automaton.leads.shape[0], stride),
        group=rows(1, stride)[0],
        node=rows(n_nodes, stride),
        here=rows(n_nodes, n_states),
        back=rows(n_nodes, n_states),
        scale=np.empty(n_nodes),
        states=rows(3, n_states),
        path=np.empty(n_nodes, dtype=np.int64),
        top=top_list(n_best),
    )


@kernel
def step_scores(pairs, step_rows, ngrams, out):
    """Write scores of steps from those of pairs of labels, if any, and of n-grams.

    `out` (<= n_rows, > n_labels) has the first rows; `pairs` is of shape (n_labels or 0, n_labels).
    """
    for r in range(out.shape[0]):
        row, parent = out[r], step_rows.parents[r]
        for k in range(row.shape[0]):
            row[k] = out[parent, k] if parent >= 0 else 0.0
        for k in range(pairs.shape[1] if parent < 0 and pairs.shape[0] > 0 else 0):
            row[k] = pairs[step_rows.labels[r], k]
        for g in range(step_rows.ptr[r], step_rows.ptr[r + 1]):
            row[step_rows.columns[g]] += ngrams[step_rows.positions[g]]


@inner_kernel
def split_rare(automaton, table, rare, nothing):
    """Move the rare columns out of a table of steps."""
    for r in range(table.shape[0]):
        for e in range(automaton.rare_ptr[r], automaton.rare_ptr[r + 1]):
            rare[e] = table[r, automaton.rare[e]]
            table[r, automaton.rare[e]] = nothing


# Best labellings.


@inner_kernel
def _best_steps(best, table, automaton, scratch, node, out):
    """``out[q]``: the largest of ``best[p] + table[row of p, k] + node[k]``, k the label of q."""
    rows, rare, leads, columns = automaton.rows, scratch.rare, automaton.leads, automaton.own
    families, group, n_labels = scratch.families, scratch.group, automaton.leads.shape[1]
    for q in range(out.shape[0]):
        out[q] = -math.inf
    for f in range(families.shape[0]):
        for k in range(families.shape[1]):
            families[f, k] = -math.inf
    for g in range(automaton.family.shape[0]):
        for k in range(group.shape[0]):
            group[k] = -math.inf
        for p in range(automaton.group_ptr[g], automaton.group_ptr[g + 1]):
            score, r = best[p], rows[p]
            for k in range(group.shape[0]):
                value = score + table[r, k]
                group[k] = value if value > group[k] else group[k]
            for e in range(automaton.rare_ptr[r], automaton.rare_ptr[r + 1]):
                q = automaton.after[p, automaton.rare[e]]
                if q >= 0:
                    out[q] = max(out[q], score + rare[e] + node[automaton.rare[e]])
        for e in range(automaton.own_ptr[g], automaton.own_ptr[g + 1]):
            q, k = automaton.targets[e], columns[e]
            if q >= 0:
                out[q] = max(out[q], group[k] + node[k])
            group[k] = -math.inf
        family = families[automaton.family[g]]
        for k in range(group.shape[0]):
            family[k] = group[k] if group[k] > family[k] else family[k]
    for f in range(families.shape[0]):
        for k in range(n_labels):
            q = leads[f, k]
            if q >= 0:
                out[q] = max(out[q], families[f, k] + node[k])


@inner_kernel(inline=True)
def _begin(automaton, n_labels, nothing, something, out):
    """Write what states have before the first node: those after a label something."""
    for q in range(out.shape[0]):
        out[q] = nothing
    for k in range(n_labels):
        if automaton.first[k] >= 0:
            out[automaton.first[k]] = something


@inner_kernel
def _forward_best(unary, automaton, scratch):
    """``here[t, q]``: the largest score up to t with state q last."""
    here, labels, steps = scratch.here, automaton.labels, scratch.steps
    n, n_labels = unary.shape
    shared, table = steps.shape[0] == 1, scratch.table
    if shared:
        for r in range(table.shape[0]):
            for k in range(table.shape[1]):
                table[r, k] = steps[0, r, k]
        split_rare(automaton, table, scratch.rare, -math.inf)
    _begin(automaton, n_labels, -math.inf, 0.0, here[0])
    for q in range(labels.shape[0]):
        here[0, q] += unary[0, labels[q]]
    for t in range(1, n):
        own = table if shared else steps[t - 1]  # rows of single labels have no rare columns
        _best_steps(here[t - 1], own, automaton, scratch, unary[t], here[t])


@inner_kernel(inline=True)
def _end(q, t, automaton, steps):
    """Score of the end after state q of the last node t."""
    table = steps[0 if steps.shape[0] == 1 or t == 0 else t - 1]
    end = table[automaton.rows[q], automaton.after.shape[1]]
    return end if automaton.ends[q] == 1 else -math.inf


@inner_kernel(inline=True)
def _best_end(n, automaton, scratch):
    """The best last state and its score."""
    last, value = 0, -math.inf
    for q in range(automaton.labels.shape[0]):
        score = scratch.here[n - 1, q] + _end(q, n - 1, automaton, scratch.steps)
        if score > value:
            last, value = q, score
    return last, value


@inner_kernel
def _way_back(automaton, scratch, t, last, labels):
    """Write the best states up to t, which is `last`, to the path, and their labels."""
    # Only scores are kept: finding predecessors again takes a pass over the states for each node.
    steps, path = scratch.steps, scratch.path
    for u in range(t, -1, -1):
        label = automaton.labels[last]
        path[u], labels[u] = last, label
        if u == 0:
            return
        table, best = steps[0 if steps.shape[0] == 1 else u - 1], scratch.here[u - 1]
        chosen, chosen_score = 0, -math.inf
        for p in range(best.shape[0]):
            if automaton.after[p, label] == last:
                score = best[p] + table[automaton.rows[p], label]
                if score > chosen_score:
                    chosen, chosen_score = p, score
        last = chosen


@kernel
def best_reading(unary, automaton, scratch, labels):
    """Write the best labelling that is accepted, and return its score, or -inf."""
    n = unary.shape[0]
    _forward_best(unary, automaton, scratch)
    last, value = _best_end(n, automaton, scratch)
    _way_back(automaton, scratch, n - 1, last, labels)
    return value


@kernel
def best_readings(unary, automaton, scratch, values, labels):
    """The n best labellings by deviations, as in :func:`~skstruct.inference.viterbi_top_k`."""
    n, size, top = unary.shape[0], values.shape[0], scratch.top
    steps, path, here = scratch.steps, scratch.path, scratch.here
    shared = steps.shape[0] == 1
    _forward_best(unary, automaton, scratch)
    clear_top(top)
    for q in range(size):
        values[q] = -math.inf
        for t in range(n):
            labels[q, t] = 0
    for q in range(automaton.labels.shape[0]):
        offer_top(top, size, here[n - 1, q] + _end(q, n - 1, automaton, steps), -1, n - 1, q)
    for rank in range(size):
        value, parent, split, state = take_top(top)
        if not value > -math.inf:
            return
        values[rank] = value
        for t in range(split + 1, n):
            labels[rank, t] = labels[parent, t]
        _way_back(automaton, scratch, split, state, labels[rank])
        for t in range(split + 1, n):
            path[t] = automaton.after[path[t - 1], labels[rank, t]]
        left = size - rank - 1
        if left == 0:
            return
        suffix = _end(path[n - 1], n - 1, automaton, steps)
        for t in range(n - 1, 0, -1):
            label, before = labels[rank, t], path[t - 1]
            suffix += unary[t, label]
            table = steps[0 if shared else t - 1]
            for p in range(here.shape[1] if t <= split else 0):
                if automaton.after[p, label] == path[t] and p != before:
                    score = here[t - 1, p] + table[automaton.rows[p], label] + suffix
                    if score > top.least[0]:
                        offer_top(top, left, score, rank, t - 1, p)
            suffix += table[automaton.rows[before], label]


# Sums over labellings, in the probability domain.


@inner_kernel
def _sum_steps(mass, automaton, scratch, node, out):
    """``out[q]``: the sum of ``mass[p] * table[row of p, k] * node[k]``, k the label of q."""
    rows, rare, table, columns = automaton.rows, scratch.rare, scratch.table, automaton.own
    families, group, n_labels = scratch.families, scratch.group, automaton.leads.shape[1]
    for q in range(out.shape[0]):
        out[q] = 0.0
    for f in range(families.shape[0]):
        for k in range(families.shape[1]):
            families[f, k] = 0.0
    for g in range(automaton.family.shape[0]):
        p, stop = automaton.group_ptr[g], automaton.group_ptr[g + 1]
        for k in range(group.shape[0]):
            group[k] = 0.0
        while p + 3 < stop:
            a, b, c, d = mass[p], mass[p + 1], mass[p + 2], mass[p + 3]
            i, j, m, n = rows[p], rows[p + 1], rows[p + 2], rows[p + 3]
            for k in range(group.shape[0]):
                first, second = a * table[i, k] + b * table[j, k], c * table[m, k] + d * table[n, k]
                group[k] += first + second
            p += 4
        while p < stop:
            a, i = mass[p], rows[p]
            for k in range(group.shape[0]):
                group[k] += a * table[i, k]
            p += 1
        for p in range(automaton.group_ptr[g], stop):
            r = rows[p]
            for e in range(automaton.rare_ptr[r], automaton.rare_ptr[r + 1]):
                q = automaton.after[p, automaton.rare[e]]
                if q >= 0:
                    out[q] += mass[p] * rare[e] * node[automaton.rare[e]]
        for e in range(automaton.own_ptr[g], automaton.own_ptr[g + 1]):
            q, k = automaton.targets[e], columns[e]
            if q >= 0:
                out[q] += group[k] * node[k]
            group[k] = 0.0
        family = families[automaton.family[g]]
        for k in range(group.shape[0]):
            family[k] += group[k]
    for f in range(families.shape[0]):
        for k in range(n_labels):
            q = automaton.leads[f, k]
            if q >= 0:
                out[q] += families[f, k] * node[k]


@inner_kernel
def exp_steps(automaton, inverse, step_rows, ngrams, scratch):
    """Exponentials of :func:`step_scores`, whose first rows are in ``scratch.steps[0]``.

    Only those of labels and of n-grams are computed: rows multiply. Returns the maximum that was
    taken out, NaN where an exponential is unsafe.
    """
    table, n_labels = scratch.table, automaton.after.shape[1]
    high = exp_table(scratch.steps[0, :n_labels, : n_labels + 1], inverse, table[:n_labels])
    ptr, columns, positions = step_rows.ptr, step_rows.columns, step_rows.positions
    unsafe = 0
    for r in range(n_labels, table.shape[0]):
        row, parent = table[r], table[step_rows.parents[r]]
        for k in range(row.shape[0]):
            row[k] = parent[k]
        for g in range(ptr[r], ptr[r + 1]):
            exponent = ngrams[positions[g]] * inverse
            product = row[columns[g]] * fast_exp(min(exponent, LARGEST_RANGE))
            unsafe |= not abs(exponent) < LARGEST_RANGE
            unsafe |= (product > 0.0) & (product <= SMALLEST_FACTOR)
            unsafe |= product >= 1.0 / SMALLEST_FACTOR
            row[columns[g]] = product
    split_rare(automaton, table, scratch.rare, 0.0)
    return high if unsafe == 0 else math.nan


@inner_kernel
def _forward(unary, automaton, inverse, high, scratch):
    """Scaled forward pass; returns the log-partition (times `inverse`), NaN where it is unsafe."""
    n, n_labels = unary.shape
    here, node, labels, steps = scratch.here, scratch.node, automaton.labels, scratch.steps
    log_z, unsafe = 0.0, 0
    for t in range(n):
        log_z += exp_table(unary[t : t + 1], inverse, node[t : t + 1]) * inverse
    for t in range(n):
        if t == 0:
            _begin(automaton, n_labels, 0.0, 1.0, here[0])
            for q in range(labels.shape[0]):
                here[0, q] *= node[0, labels[q]]
        else:
            if t > 1 and steps.shape[0] > 1:
                high = exp_table(steps[t - 1, :, : n_labels + 1], inverse, scratch.table)
            _sum_steps(here[t - 1], automaton, scratch, node[t], here[t])
            log_z += high * inverse
        total = 0.0
        for q in range(labels.shape[0]):
            total += here[t, q]
        share = 1.0 / total
        for q in range(labels.shape[0]):
            here[t, q] *= share
            unsafe |= (here[t, q] > 0.0) & (here[t, q] <= SMALLEST_FACTOR)
        scratch.scale[t] = total
        log_z += -math.inf if total == 0.0 else math.log(total)
    total = 0.0
    for q in range(labels.shape[0]):
        end = scratch.table[automaton.rows[q], n_labels] if automaton.ends[q] == 1 else 0.0
        scratch.back[n - 1, q] = end
        total += here[n - 1, q] * end
    for q in range(labels.shape[0]):
        scratch.back[n - 1, q] /= total
    if unsafe != 0 or not total > SMALLEST_FACTOR:
        return math.nan
    return log_z + (high * inverse + math.log(total))


@inner_kernel
def _backward(automaton, inverse, scratch, node, edges, step_rows):
    """Marginals of nodes from a forward pass, those of edges, or sums of those of steps."""
    n, n_labels = node.shape
    labels, steps, shared = automaton.labels, scratch.steps, scratch.steps.shape[0] == 1
    here, back, table, sums = scratch.here, scratch.back, scratch.table, scratch.sums
    values = scratch.states[0]
    for t in range(n - 1, -1, -1):
        if t < n - 1:
            if not shared and t < n - 2:
                exp_table(steps[t, :, : n_labels + 1], inverse, table)
            share = 1.0 / scratch.scale[t + 1]
            for q in range(labels.shape[0]):
                # What a state that is not reached sends back may overflow, and counts for nothing.
                values[q] = back[t + 1, q] * share if here[t + 1, q] > 0.0 else 0.0
            if edges.shape[0] > 0:
                _clear_sums(scratch)
            _send_back(values, here[t], automaton, scratch, scratch.node[t + 1], back[t])
            if edges.shape[0] > 0:
                _multiply_sums(automaton, scratch)
                fold_steps(sums, step_rows, edges[t])
        for k in range(n_labels):
            node[t, k] = 0.0
        for q in range(labels.shape[0]):
            node[t, labels[q]] += here[t, q] * back[t, q]
    if edges.shape[0] == 0:
        _multiply_sums(automaton, scratch)
        for q in range(labels.shape[0]):
            sums[automaton.rows[q], n_labels] += here[n - 1, q] * back[n - 1, q]


@inner_kernel
def _send_back(values, mass, automaton, scratch, node, out):
    """``out[p]``: the sum of ``table[row of p, k] * node[k] * values[q]``, q after p and k.

    The sums of marginals grow by ``mass[p] * node[k] * values[q]``.
    """
    table, sums, rare, families = scratch.table, scratch.sums, automaton.rare, scratch.families
    n_labels, group = automaton.leads.shape[1], scratch.group
    for f in range(families.shape[0]):
        for k in range(families.shape[1]):
            families[f, k] = 0.0
        for k in range(n_labels):
            q = automaton.leads[f, k]
            families[f, k] = values[q] * node[k] if q >= 0 else 0.0
    for g in range(automaton.family.shape[0]):
        family = families[automaton.family[g]]
        for k in range(group.shape[0]):
            group[k] = family[k]
        for e in range(automaton.own_ptr[g], automaton.own_ptr[g + 1]):
            q, k = automaton.targets[e], automaton.own[e]
            group[k] = values[q] * node[k] if q >= 0 else 0.0
        for p in range(automaton.group_ptr[g], automaton.group_ptr[g + 1]):
            total, share, r = 0.0, mass[p], automaton.rows[p]
            if share > 0.0:
                row, own = table[r], sums[r]
                for k in range(group.shape[0]):
                    total += row[k] * group[k]
                    own[k] += share * group[k]
                for e in range(automaton.rare_ptr[r], automaton.rare_ptr[r + 1]):
                    q, k = automaton.after[p, rare[e]], rare[e]
                    if q >= 0:
                        total += scratch.rare[e] * values[q] * node[k]
                        scratch.rare_sums[e] += share * values[q] * node[k]
            out[p] = total


@inner_kernel
def _clear_sums(scratch):
    for r in range(scratch.sums.shape[0]):
        for k in range(scratch.sums.shape[1]):
            scratch.sums[r, k] = 0.0
    for e in range(scratch.rare_sums.shape[0]):
        scratch.rare_sums[e] = 0.0


@inner_kernel
def _multiply_sums(automaton, scratch):
    """Make marginals of sums; rare columns are 0 in the table."""
    sums, table = scratch.sums, scratch.table
    for r in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            sums[r, k] *= table[r, k]
        for e in range(automaton.rare_ptr[r], automaton.rare_ptr[r + 1]):
            sums[r, automaton.rare[e]] = scratch.rare_sums[e] * scratch.rare[e]


@inner_kernel
def fold_steps(sums, step_rows, out):
    """Add up the marginals of steps, those of each row to its parent's, and of pairs of labels."""
    for j in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[j, k] = 0.0
    for r in range(step_rows.labels.shape[0] - 1, -1, -1):
        parent = step_rows.parents[r]
        target = out[step_rows.labels[r]] if parent < 0 else sums[parent]
        for k in range(target.shape[0]):
            target[k] += sums[r, k]


# The same on logarithms, for any potentials: backward, then forward by probabilities of the next
# label, so that no large numbers are subtracted.


@inner_kernel
def _next_label(t, p, unary, automaton, inverse, scratch, shares):
    """Write the shares of the labels after state p of node t; returns the log of their sum."""
    steps, n_labels = scratch.steps, unary.shape[1]
    row, top = steps[0 if steps.shape[0] == 1 else t, automaton.rows[p]], -math.inf
    for k in range(n_labels):
        q = automaton.after[p, k]
        rest = scratch.back[t + 1, q] if q >= 0 else -math.inf
        shares[k] = (row[k] + unary[t + 1, k]) * inverse + rest
        top = max(top, shares[k])
    return _normalise(shares, n_labels, top)


@inner_kernel
def _backward_logs(unary, automaton, inverse, scratch):
    """``back[t, q]``: log of the sum over what follows, up to what all states of a node share."""
    n, back, log_z = unary.shape[0], scratch.back, 0.0
    for t in range(n - 1, -1, -1):
        top = -math.inf
        for p in range(back.shape[1]):
            if t == n - 1:
                back[t, p] = _end(p, t, automaton, scratch.steps) * inverse
            else:
                args = unary, automaton, inverse, scratch, scratch.node[t]
                back[t, p] = _next_label(t, p, *args)
            top = max(top, back[t, p])
        if top == -math.inf:
            return top
        for p in range(back.shape[1]):
            back[t, p] -= top
        log_z += top
    first = _first_label(unary, automaton, inverse, scratch, scratch.node[0])
    return log_z + first


@inner_kernel
def _first_label(unary, automaton, inverse, scratch, shares):
    """Write the probabilities of labels of the first node; returns the log of their sum."""
    top, n_labels = -math.inf, unary.shape[1]
    for k in range(n_labels):
        q = automaton.first[k]
        shares[k] = unary[0, k] * inverse + scratch.back[0, q] if q >= 0 else -math.inf
        top = max(top, shares[k])
    return _normalise(shares, n_labels, top)


@inner_kernel
def _normalise(shares, size, top):
    """Make probabilities of logarithms whose largest is `top`; returns the log of their sum."""
    if top == -math.inf:
        return top
    total = 0.0
    for k in range(size):
        shares[k] = fast_exp(shares[k] - top)
        total += shares[k]
    for k in range(size):
        shares[k] /= total
    return top + math.log(total)


@inner_kernel
def _forward_logs(unary, automaton, inverse, scratch, node, edges, step_rows):
    """Marginals, after :func:`_backward_logs`."""
    n, n_labels = unary.shape
    here, labels, sums, shares = scratch.here, automaton.labels, scratch.sums, scratch.node
    for t in range(n):
        for q in range(labels.shape[0]):
            here[t, q] = 0.0
        for k in range(n_labels):
            node[t, k] = 0.0
    _first_label(unary, automaton, inverse, scratch, shares[0])
    for k in range(n_labels):
        if automaton.first[k] >= 0:
            here[0, automaton.first[k]] = shares[0, k]
    for t in range(n):
        if edges.shape[0] > 0:
            _clear_sums(scratch)
        for p in range(labels.shape[0]):
            mass = here[t, p]
            node[t, labels[p]] += mass
            if mass > 0.0 and t < n - 1:
                _next_label(t, p, unary, automaton, inverse, scratch, shares[t])
                for k in range(n_labels):
                    if shares[t, k] > 0.0:
                        sums[automaton.rows[p], k] += mass * shares[t, k]
                        here[t + 1, automaton.after[p, k]] += mass * shares[t, k]
        if edges.shape[0] > 0 and t < n - 1:
            fold_steps(sums, step_rows, edges[t])
    for q in range(labels.shape[0] if edges.shape[0] == 0 else 0):
        sums[automaton.rows[q], n_labels] += here[n - 1, q]


@kernel
def sum_readings(unary, automaton, temperature, high, scratch, node, edges, step_rows):
    """Log-partition of the accepted labellings, and marginals if `node` (n, K) is not empty.

    Those of edges go to `edges` (n - 1, K, K), if it is not empty, else sums over the edges to
    ``scratch.sums``. `high` is the result of :func:`exp_steps`, or of ``exp_table`` for the first
    of several tables; NaN if they are unsafe, as the result is then.
    """
    inverse = 1.0 / temperature
    log_z = high if math.isnan(high) else _forward(unary, automaton, inverse, high, scratch)
    if node.shape[0] > 0 and not math.isnan(log_z):
        _clear_sums(scratch)
        _backward(automaton, inverse, scratch, node, edges, step_rows)
    return log_z * temperature


@kernel
def sum_readings_in_logs(unary, automaton, temperature, scratch, node, edges, step_rows):
    """The same for any scores of steps, in ``scratch.steps``."""
    log_z = _backward_logs(unary, automaton, 1.0 / temperature, scratch)
    if node.shape[0] > 0 and log_z > -math.inf:
        _clear_sums(scratch)
        _forward_logs(unary, automaton, 1.0 / temperature, scratch, node, edges, step_rows)
    elif node.shape[0] > 0:
        for t in range(unary.shape[0]):
            for k in range(node.shape[1]):
                node[t, k] = math.nan
    return log_z * temperature


# Probabilities of chunks: by forward passes over the nodes of each, as for chains.


@inner_kernel
def _arrive(t, before, allowed, kinds, kind, unary, automaton, scratch, out):
    """Add what states of a kind at node t get from states before it by allowed steps."""
    shares, n_labels = scratch.node[0], unary.shape[1]
    if t == 0:
        _first_label(unary, automaton, 1.0, scratch, shares)
        for k in range(n_labels):
            q = automaton.first[k]
            if q >= 0 and kinds[k] == kind:
                out[q] += shares[k] * allowed[n_labels, k]
        return
    for p in range(before.shape[0]):
        if before[p] > 0.0:
            _next_label(t - 1, p, unary, automaton, 1.0, scratch, shares)
            for k in range(n_labels):
                if shares[k] > 0.0 and kinds[k] == kind:
                    share = before[p] * shares[k]
                    out[automaton.after[p, k]] += share * allowed[automaton.labels[p], k]


@inner_kernel
def _leave(stop, here, allowed, unary, automaton, scratch):
    """What leaves states before node `stop` by allowed steps."""
    n, n_labels = unary.shape
    shares, total = scratch.node[0], 0.0
    for p in range(here.shape[0]):
        label = automaton.labels[p]
        if here[p] > 0.0 and stop == n:
            total += here[p] * allowed[label, n_labels]
        elif here[p] > 0.0:
            _next_label(stop - 1, p, unary, automaton, 1.0, scratch, shares)
            for k in range(n_labels):
                total += here[p] * shares[k] * allowed[label, k]
    return total


@kernel
def chunk_readings(unary, automaton, scratch, rules, chunks, node, step_rows, out):
    """Probabilities of chunks (start, stop, kind), both ends included; returns log-partition."""
    log_z = _backward_logs(unary, automaton, 1.0, scratch)
    if not log_z > -math.inf:
        return log_z
    _forward_logs(unary, automaton, 1.0, scratch, node, scratch.steps[:0], step_rows)
    here, outside, after = scratch.states[0], scratch.states[1], scratch.states[2]
    args = unary, automaton, scratch
    for c in range(chunks.shape[0]):
        start, stop, kind = chunks[c, 0], chunks[c, 1], chunks[c, 2]
        for q in range(here.shape[0]):
            here[q] = outside[q] = 0.0
        before = scratch.here[max(start - 1, 0)]
        if start > 0 and rules.is_ambiguous:
            earlier = scratch.here[max(start - 2, 0)]
            _arrive(start - 1, earlier, rules.misses, rules.kind, kind, *args, outside)
            _arrive(start, outside, rules.begins_outside, rules.kind, kind, *args, here)
        _arrive(start, before, rules.begins, rules.kind, kind, *args, here)
        for t in range(start + 1, stop):
            for q in range(after.shape[0]):
                after[q] = 0.0
            _arrive(t, here, rules.stays, rules.kind, kind, *args, after)
            for q in range(after.shape[0]):
                here[q] = after[q]
        out[c] = min(_leave(stop, here, rules.ends, *args), 1.0)
    return log_z
