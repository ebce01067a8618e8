"""Viterbi and sum-product over the states of an automaton, against enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skstruct import AtLeastOnce, AtMostOnce, Pattern
from skstruct.core.jit.kernels import kernel
from skstruct.core.oracles import ChunkRules
from skstruct.data.rules import product_of
from skstruct.inference.automaton import (
    automaton_scratch,
    best_reading,
    best_readings,
    chunk_readings,
    exp_steps,
    fold_steps,
    sum_readings,
    sum_readings_in_logs,
)
from skstruct.inference.contexts import automaton_of_contexts, contexts_of, ngrams_of
from skstruct.inference.forward_backward import exp_table
from skstruct.lite import chunk_rules

pytestmark = pytest.mark.plain

RULES = [(), (AtMostOnce("a"),), (AtLeastOnce("b"), AtMostOnce("c")), (Pattern("a? (b c?)* a?"),)]


class Drawn:
    """A random chain that an automaton reads, and the scores of all that it accepts."""

    def __init__(self, seed, order, boundary, rules, n, kind, shared):
        rng = np.random.default_rng(seed)
        self.n_labels, self.n = 3, n
        codes = rng.integers(0, 3, size=9)
        ngrams = ngrams_of(codes, np.array([0, 4, 5, 9]), 3, order, boundary)
        self.contexts = contexts_of(ngrams, 3)
        product = product_of(rules, np.array(["a", "b", "c"]))
        self.automaton = automaton_of_contexts(self.contexts, product)
        n_rows, n_tables = self.contexts.rows.labels.size, 1 if shared else max(n - 1, 1)
        self.scratch = automaton_scratch(self.automaton, n_rows, n_tables, n + 1, 400)
        self.unary, steps = rng.normal(size=(n, 3)), rng.normal(size=(n_tables, n_rows, 4))
        if not shared:
            steps[:, 3:] = 0.0
        if kind == "large":
            self.unary, steps = self.unary * 1e4, steps * 1e4
        elif kind == "ties":
            self.unary, steps = np.round(self.unary), np.round(steps)
        elif kind == "forbidden":
            self.unary[rng.random(self.unary.shape) < 0.2] = -math.inf
            steps[:, :3][rng.random((n_tables, 3, 4)) < 0.2] = -math.inf
        self.rows = self.contexts.rows
        self.ngrams = steps[0, 3:].ravel().copy()
        for r in range(3, n_rows):
            steps[:, r] += steps[:, self.contexts.rows.parents[r]]
        self.scratch.steps[:] = 0.0
        self.scratch.steps[:, :, :4] = self.steps = steps
        self.scores = self._all_scores()

    def states(self, labels):
        q = self.automaton.first[labels[0]]
        found = [q]
        for label in labels[1:]:
            q = self.automaton.after[q, label] if q >= 0 else q
            found.append(q)
        return found

    def _all_scores(self):
        found = {}
        for labels in itertools.product(range(3), repeat=self.n):
            states = self.states(labels)
            if min(states) < 0 or not self.automaton.ends[states[-1]]:
                continue
            e = [0 if len(self.steps) == 1 else t for t in range(max(self.n - 1, 1))]
            rows = self.automaton.rows[states]
            score = sum(self.unary[t, k] for t, k in enumerate(labels))
            score += sum(self.steps[e[t], rows[t], labels[t + 1]] for t in range(self.n - 1))
            found[labels] = score + self.steps[e[max(self.n - 2, 0)], rows[-1], 3]
        return found

    def sums(self, temperature, node, edges, in_logs):
        args = self.scratch, node, edges
        if in_logs:
            return sum_readings_in_logs(self.unary, self.automaton, temperature, *args, self.rows)
        n_more = len(self.contexts.rows.labels) - 3
        ptr = np.append([0, 0, 0], 4 * np.arange(n_more + 1))
        columns, positions = np.tile(np.arange(4), n_more), np.arange(4 * n_more)
        every = {"columns": columns.astype(np.int32), "positions": positions.astype(np.int32)}
        rows = self.rows._replace(ptr=ptr, **every)
        return _sums(self.unary, self.automaton, temperature, self.ngrams, *args, rows)

    def probabilities(self, temperature=1.0):
        scores = np.array(list(self.scores.values())) / temperature
        top = scores.max(initial=-math.inf)
        if top == -math.inf:
            return None, -math.inf
        shares = np.exp(scores - top)
        log_z = temperature * (top + math.log(shares.sum()))
        return dict(zip(self.scores, shares / shares.sum(), strict=True)), log_z


@kernel
def _sums(unary, automaton, temperature, ngrams, scratch, node, edges, step_rows):
    inverse = 1.0 / temperature
    if scratch.steps.shape[0] == 1:
        high = exp_steps(automaton, inverse, step_rows, ngrams, scratch)
    else:
        high = exp_table(scratch.steps[0, :, :4], inverse, scratch.table)
    return sum_readings(unary, automaton, temperature, high, scratch, node, edges, step_rows)


chains = st.builds(
    Drawn,
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 3]),
    st.booleans(),
    st.sampled_from(RULES),
    st.integers(1, 5),
    st.sampled_from(["plain", "large", "ties", "forbidden"]),
    st.booleans(),
)


def close(a, b):
    return a == b or abs(a - b) <= 1e-9 * (1.0 + abs(b))


@given(chains)
def test_the_best_labellings(drawn):
    finite = sorted((s for s in drawn.scores.values() if s > -math.inf), reverse=True)
    labels = np.zeros(drawn.n, dtype=np.int32)
    value = best_reading(drawn.unary, drawn.automaton, drawn.scratch, labels)
    assert close(value, finite[0] if finite else -math.inf)
    if finite:
        assert close(drawn.scores[tuple(labels.tolist())], value)
    values, several = np.empty(300), np.zeros((300, drawn.n), dtype=np.int32)
    best_readings(drawn.unary, drawn.automaton, drawn.scratch, values, several)
    found = values[values > -math.inf]
    assert found.size == len(finite)
    assert all(close(a, b) for a, b in zip(found, finite, strict=True))
    rows = [tuple(row) for row in several[: found.size].tolist()]
    assert len(set(rows)) == len(rows)
    assert all(close(drawn.scores[row], v) for row, v in zip(rows, found, strict=True))


@given(chains, st.sampled_from([0.5, 1.0, 3.0]), st.booleans())
def test_marginals(drawn, temperature, in_logs):
    shares, log_z = drawn.probabilities(temperature)
    node, edges = np.zeros((drawn.n, 3)), np.zeros((drawn.n - 1, 3, 3))
    value = drawn.sums(temperature, node[:0], edges[:0], in_logs)
    if not in_logs and np.isnan(value):
        in_logs = True  # as spaces do
        value = drawn.sums(temperature, node[:0], edges[:0], in_logs)
    assert close(value, log_z)
    assert close(drawn.sums(temperature, node, edges[:0], in_logs), log_z)
    if shares is None:
        assert np.isnan(node).all()
        return
    true, pairs = np.zeros_like(node), np.zeros_like(edges)
    steps = np.zeros((drawn.contexts.rows.labels.size, 4))
    for labels, share in shares.items():
        rows = drawn.automaton.rows[drawn.states(labels)]
        for t, k in enumerate(labels):
            true[t, k] += share
            steps[rows[t], labels[t + 1] if t + 1 < drawn.n else 3] += share
            if t:
                pairs[t - 1, labels[t - 1], k] += share
    np.testing.assert_allclose(node, true, atol=1e-9)
    if len(drawn.steps) == 1:
        np.testing.assert_allclose(drawn.scratch.sums[:, :4], steps, atol=1e-9)
        summed = np.zeros((3, 3))
        getattr(fold_steps, "py_func", fold_steps)(drawn.scratch.sums, drawn.rows, summed)
        np.testing.assert_allclose(summed, pairs.sum(axis=0), atol=1e-9)
    assert close(drawn.sums(temperature, node, edges, in_logs), log_z)
    np.testing.assert_allclose(node, true, atol=1e-9)
    np.testing.assert_allclose(edges, pairs, atol=1e-9)


@settings(max_examples=60)
@given(chains, st.sampled_from(["iob1", "iob2", None]))
def test_probabilities_of_chunks(drawn, scheme):
    kinds, masks = chunk_rules(["B-x", "I-x", "O"], scheme)
    names = sorted(set(kinds))
    rules = ChunkRules.of(masks, np.array([names.index(kind) for kind in kinds]))
    shares, log_z = drawn.probabilities()
    spans = [(a, b, names.index("x")) for a in range(drawn.n) for b in range(a + 1, drawn.n + 1)]
    chunks, out = np.array(spans, dtype=np.int32), np.zeros(len(spans))
    node = np.zeros((drawn.n, 3))
    args = drawn.automaton, drawn.scratch, rules, chunks, node, drawn.rows, out
    assert close(chunk_readings(drawn.unary, *args), log_z)
    if shares is None:
        return
    true = dict.fromkeys(spans, 0.0)
    begins, stays, ends = masks
    for labels, share in shares.items():
        padded = [-1, *labels, -1]
        start = None
        for t in range(drawn.n + 1):
            a, b = padded[t], padded[t + 1]
            if start is not None and stays[a, b]:
                continue
            if start is not None and ends[a, b]:
                true[start, t, names.index(kinds[a])] += share
            start = t if begins[a, b] else None
    np.testing.assert_allclose(out, [min(true[span], 1.0) for span in spans], atol=1e-9)


def test_contexts_are_suffixes_that_occur():
    ngrams = ngrams_of(np.array([0, 1, 2, 0, 1]), np.array([0, 3, 5]), 3, 2, True)
    # 3 is the start, 4 the end
    assert ngrams.tolist() == [[0, 1, 2], [0, 1, 4], [1, 2, 4], [3, 0, 1]]
    contexts = contexts_of(ngrams, 3)
    assert contexts.rows.labels.tolist() == [0, 1, 2, 0, 1, 2]  # a b c, then ^a, ab, bc
    assert contexts.first.tolist() == [3, 1, 2]
    assert contexts.after[:3].tolist() == [[0, 4, 2], [0, 1, 5], [0, 1, 2]]
    assert contexts.rows.parents.tolist() == [-1, -1, -1, 0, 1, 2]


def test_unknown_labels_are_in_no_ngram():
    codes, offsets = np.array([0, -1, 1, 0, 1]), np.array([0, 5])
    assert ngrams_of(codes, offsets, 2, 2, False).tolist() == [[1, 0, 1]]
    assert ngrams_of(codes, offsets, 2, 1, False).shape == (0, 2)


def test_the_scaled_pass_is_used_where_it_is_safe():
    drawn = Drawn(0, 3, True, (), 5, "plain", True)
    assert not np.isnan(drawn.sums(1.0, np.zeros((5, 3)), np.zeros((0, 3, 3)), False))
    drawn = Drawn(0, 3, True, (), 5, "large", True)
    assert np.isnan(drawn.sums(1.0, np.zeros((5, 3)), np.zeros((0, 3, 3)), False))


def test_few_columns_are_rare():
    codes = np.random.default_rng(0).integers(0, 5, size=30)
    contexts = contexts_of(ngrams_of(codes, np.array([0, 30]), 5, 3, False), 5)
    automaton = automaton_of_contexts(contexts, product_of((), np.arange(5)))
    n_states = automaton.labels.size
    assert (len(automaton.family), n_states) == (5, len(contexts.rows.labels))
    assert automaton.rows[automaton.leads].tolist() == [[*range(5)]]  # single labels
    assert 0 < automaton.rare.size < 2 * n_states
