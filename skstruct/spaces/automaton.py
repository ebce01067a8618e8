"""Labellings of chains that an automaton reads: n-grams of labels, and rules."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..core.jit.kernels import inner_kernel, kernel
from ..core.memory import check_memory
from ..core.offsets import longest_item
from ..core.oracles import (
    add_indicator,
    chunk_marginals,
    edge_marginals,
    exp_oracle,
    max_oracle,
    score,
    top_k_oracle,
)
from ..inference.automaton import (
    Automaton,
    StepRows,
    automaton_scratch,
    best_reading,
    best_readings,
    chunk_readings,
    exp_steps,
    fold_steps,
    step_scores,
    sum_readings,
    sum_readings_in_logs,
)
from ..inference.forward_backward import exp_table
from .chain import SequenceSpace
from .pairwise import blocks


class Reading(NamedTuple):
    """How labellings are read and scored."""

    automaton: Automaton
    step_rows: StepRows


class AutomatonSpace(SequenceSpace):
    """Chains whose labellings an automaton reads, packed for kernels."""

    structure, has_one_table = "Chain", True
    # Oracles take nearly all of a pass: no line search is worth its calls.
    few_passes = True


def read_chains(fields, step_rows: StepRows, automaton: Automaton, n_best) -> AutomatonSpace:
    """The space of chains with n-grams, or under rules, or both."""
    n_rows, n_labels = step_rows.labels.size, automaton.first.size
    n_tables = max(int(fields["n_tables"].max(initial=1)), 1)
    longest, n_states = max(longest_item(fields["label_ptr"]), 1), automaton.labels.size
    check_memory(
        16 * longest * n_states + 8 * (n_tables + 2) * n_rows * (n_labels + 8),
        f"chains of {longest:,} nodes with {n_states:,} states",
        "take fewer rules, or a lower order",
    )
    work = automaton_scratch(automaton, n_rows, n_tables, longest, n_best)
    return AutomatonSpace(**fields, own=Reading(automaton, step_rows), work=work)


@inner_kernel(inline=True)
def _first_ngram(space, i):
    """The first part of n-grams."""
    n_labels = space.allowed.shape[1]
    n = space.label_ptr[i + 1] - space.label_ptr[i]
    return (n + space.n_tables[i] * n_labels) * n_labels


@inner_kernel
def _read(space, i, theta, n_rows):
    """Return the nodes' potentials and, in scratch, the scores of steps of the first rows."""
    unary, pair = blocks(space, i, theta)
    steps, ngrams = space.work.steps, theta[_first_ngram(space, i) :]
    for e in range(max(pair.shape[0], 1)):
        pairs = pair[e] if pair.shape[0] > 0 else unary[:0]
        step_scores(pairs, space.own.step_rows, ngrams, steps[e, :n_rows])
    return unary, steps


@inner_kernel
def _read_all(space, i, theta):
    """The same of all rows."""
    return _read(space, i, theta, space.own.step_rows.labels.shape[0])


@inner_kernel
def _sums(space, i, theta, temperature, node, edges):
    """The log-partition and marginals, see :func:`~skstruct.inference.automaton.sum_readings`."""
    own, work, inverse = space.own, space.work, 1.0 / temperature
    automaton, n_labels = own.automaton, space.allowed.shape[1]
    unary = _read(space, i, theta, n_labels)[0]
    if work.steps.shape[0] == 1:
        ngrams = theta[_first_ngram(space, i) :]
        high = exp_steps(automaton, inverse, own.step_rows, ngrams, work)
    else:
        high = exp_table(work.steps[0, :, : n_labels + 1], inverse, work.table)
    args = work, node, edges, own.step_rows
    value = sum_readings(unary, automaton, temperature, high, *args)
    if math.isnan(value):
        _read_all(space, i, theta)
        value = sum_readings_in_logs(unary, automaton, temperature, *args)
    return value


@inner_kernel
def _visit(step_rows, row, column, ngrams, c, mu):
    """Sum of the n-grams that end with a step; their parts of `mu`, if it is not empty, get c."""
    total = 0.0
    while row >= 0:
        for g in range(step_rows.ptr[row], step_rows.ptr[row + 1]):
            if step_rows.columns[g] == column:
                part = step_rows.positions[g]
                total += ngrams[part]
                if mu.shape[0] > 0:
                    mu[part] += c
        row = step_rows.parents[row]
    return total


@inner_kernel
def _visit_all(space, i, labels, ngrams, c, mu):
    """The same of a labelling; -inf if it is not accepted."""
    automaton, step_rows, total = space.own.automaton, space.own.step_rows, 0.0
    rows, n = automaton.rows, space.label_ptr[i + 1] - space.label_ptr[i]
    q = automaton.first[labels[0]]
    for t in range(1, n):
        if q < 0:
            return -math.inf
        total += _visit(step_rows, rows[q], labels[t], ngrams, c, mu)
        q = automaton.after[q, labels[t]]
    if q < 0 or automaton.ends[q] == 0:
        return -math.inf
    return total + _visit(step_rows, rows[q], space.allowed.shape[1], ngrams, c, mu)


_plain_indicator = add_indicator.registry[SequenceSpace]
_plain_score = score.registry[SequenceSpace]


@add_indicator.register(AutomatonSpace)
@kernel
def _(space, i, labels, c, mu):
    _plain_indicator(space, i, labels, c, mu)
    ngrams = mu[_first_ngram(space, i) :]
    _visit_all(space, i, labels, ngrams, c, ngrams)


@score.register(AutomatonSpace)
@kernel
def _(space, i, theta, labels):
    ngrams = theta[_first_ngram(space, i) :]
    value = _visit_all(space, i, labels, ngrams, 0.0, theta[:0])
    return _plain_score(space, i, theta, labels) + value if value > -math.inf else value


@max_oracle.register(AutomatonSpace)
@kernel
def _(space, i, theta, labels):
    return best_reading(_read_all(space, i, theta)[0], space.own.automaton, space.work, labels)


@top_k_oracle.register(AutomatonSpace)
@kernel
def _(space, i, theta, values, labels):
    best_readings(_read_all(space, i, theta)[0], space.own.automaton, space.work, values, labels)


@exp_oracle.register(AutomatonSpace)
@kernel
def _(space, i, theta, temperature, mu):
    none, own, sums = space.work.steps[:0], space.own, space.work.sums
    if mu.shape[0] == 0:
        return _sums(space, i, theta, temperature, sums[:0], none)
    node, pair = blocks(space, i, mu)
    value = _sums(space, i, theta, temperature, node, pair if space.shares_tables == 0 else none)
    if space.shares_tables == 1 and value > -math.inf:
        fold_steps(sums, own.step_rows, pair[0])
        ngrams, rows = mu[_first_ngram(space, i) :], own.step_rows
        for r in range(sums.shape[0]):
            for g in range(rows.ptr[r], rows.ptr[r + 1]):
                ngrams[rows.positions[g]] = sums[r, rows.columns[g]]
    return value


@edge_marginals.register(AutomatonSpace)
@kernel
def _(space, i, theta, mu, out):
    n, n_labels = space.label_ptr[i + 1] - space.label_ptr[i], space.allowed.shape[1]
    edges = out[: (n - 1) * n_labels * n_labels].reshape(n - 1, n_labels, n_labels)
    return _sums(space, i, theta, 1.0, blocks(space, i, mu)[0], edges)


@chunk_marginals.register(AutomatonSpace)
@kernel
def _(space, i, theta, rules, chunks, mu, out):
    unary, own, work = _read_all(space, i, theta)[0], space.own, space.work
    node = blocks(space, i, mu)[0]
    args = rules, chunks, node, own.step_rows, out
    return chunk_readings(unary, own.automaton, work, *args)
