"""Chain inference on plain arrays against enumeration, ties and huge ranges included."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.inference.forward_backward import forward_backward, workspace_size
from skstruct.inference.numerics import fast_exp, log_sum_exp
from skstruct.inference.simplex import project as project_in_place
from skstruct.inference.tree import (
    Forest,
    tree_marginals,
    tree_max,
    tree_max_marginals,
    tree_scratch,
)
from skstruct.inference.viterbi import chain_max_marginals, viterbi, viterbi_scratch, viterbi_top_k
from skstruct.testing import all_labellings, brute_force_marginals, chain_scores


@st.composite
def chains(draw, scales=(0.0, 1.0, 30.0, 1e4), forbid=True):
    """Potentials of a small chain: ties (scale 0 or rounded), huge ranges, forbidden parts."""
    n = draw(st.integers(1, 5))
    n_labels = draw(st.integers(2, 4))
    shared = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    unary = rng.normal(size=(n, n_labels)) * draw(st.sampled_from(scales))
    transitions = rng.normal(size=(1 if shared else n - 1, n_labels, n_labels))
    transitions *= draw(st.sampled_from(scales))
    if draw(st.booleans()):
        unary, transitions = np.round(unary), np.round(transitions)
    if forbid and draw(st.booleans()):
        unary[rng.random(unary.shape) < 0.2] = -math.inf
        transitions[rng.random(transitions.shape) < 0.2] = -math.inf
    return unary, transitions


def _enumerate(unary, transitions):
    labellings = all_labellings(*unary.shape)
    return labellings, chain_scores(unary, transitions, labellings)


@given(chains())
def test_viterbi_finds_a_labelling_of_largest_score(chain):
    unary, transitions = chain
    _labellings, scores = _enumerate(unary, transitions)
    labels = np.zeros(len(unary), dtype=np.int32)
    value = viterbi(unary, transitions, labels, viterbi_scratch(*unary.shape))
    np.testing.assert_allclose(value, scores.max(), rtol=1e-12)
    if np.isfinite(value):
        attained = chain_scores(unary, transitions, labels[None])[0]
        np.testing.assert_allclose(attained, value, rtol=1e-12)


def test_viterbi_breaks_ties_by_the_lowest_label():
    labels = np.full(4, 9, dtype=np.int32)
    viterbi(np.zeros((4, 3)), np.zeros((1, 3, 3)), labels, viterbi_scratch(4, 3))
    assert labels.tolist() == [0, 0, 0, 0]


@given(
    n=st.integers(1, 30),
    n_labels=st.sampled_from([1, 2, 3, 9, 22, 63, 64, 65, 130]),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.0, 1.0, 8.0, 1e300, 5e-324, 1e-310]),
    rounded=st.booleans(),
    forbidden=st.sampled_from([0.0, 0.0, 0.01, 0.5]),
    twins=st.booleans(),
)
def test_viterbi_that_skips_labels_is_the_plain_one_to_the_bit(
    n, n_labels, seed, scale, rounded, forbidden, twins
):
    rng = np.random.default_rng(seed)
    unary, table = rng.normal(size=(n, n_labels)), rng.normal(size=(n_labels, n_labels)) / 4
    unary *= np.where(rng.random((n, 1)) < 0.5, 8, 1)
    if rounded:
        unary, table = np.round(unary), np.round(table)
    if twins:
        unary[:, n_labels // 2 :] = unary[:, : n_labels - n_labels // 2]
        table[n_labels // 2 :] = table[: n_labels - n_labels // 2]
    unary, table = np.clip(unary, -1e3, 1e3) * scale, table * scale
    table[rng.random(table.shape) < forbidden] = -math.inf
    unary[rng.random(unary.shape) < forbidden / 2] = -math.inf
    best, back = [unary[0]], []
    for row in unary[1:]:
        candidates = best[-1][:, None] + table
        back.append(candidates.argmax(axis=0))
        best.append(candidates.max(axis=0) + row)
    expected = [int(best[-1].argmax())]
    for before in reversed(back):
        expected.append(int(before[expected[-1]]))
    labels, scratch = np.full(n, -1, dtype=np.int32), viterbi_scratch(n, n_labels)
    value = viterbi(unary, table[None], labels, scratch)
    np.testing.assert_array_equal(scratch.best[:n], best)
    assert value == best[-1].max()
    if value > -math.inf:
        assert labels.tolist() == expected[::-1]
    if n > 6 and scale >= 1.0 and not forbidden and n_labels > 20:
        unary[:, 0] += 20 * scale
        viterbi(unary, table[None], labels, scratch)
        assert (scratch.kept[: n - 1, n_labels] < n_labels).all()


def _forced(unary, t, k):
    """The same potentials where no other label is left at node t."""
    only = np.where(np.arange(unary.shape[1]) == k, unary[t], -math.inf)
    return np.vstack([unary[:t], only[None], unary[t + 1 :]])


@given(chains())
def test_max_marginals_of_a_chain_are_best_scores_with_one_label_forced(chain):
    unary, transitions = chain
    scratch, labels = viterbi_scratch(*unary.shape), np.zeros(len(unary), dtype=np.int32)
    got = np.full(unary.shape, np.nan)
    chain_max_marginals(unary, transitions, got, scratch)
    for t, k in np.ndindex(unary.shape):
        expected = viterbi(_forced(unary, t, k), transitions, labels, scratch)
        np.testing.assert_allclose(got[t, k], expected, rtol=1e-12, atol=1e-9)


@given(chains(), st.integers(0, 10**6))
def test_max_marginals_of_a_forest_are_best_scores_with_one_label_forced(chain, seed):
    unary, transitions = chain
    n, rng = len(unary), np.random.default_rng(seed)
    order, parent = rng.permutation(n).astype(np.int32), np.full(n, -1, dtype=np.int32)
    for q in range(1, n):
        if rng.random() < 0.8:
            parent[order[q]] = order[rng.integers(q)]
    # One table an edge needs as many tables as nodes have parents.
    link = np.maximum(np.cumsum(parent >= 0) - 1, 0).astype(np.int32)
    forest = Forest(order, parent, link, rng.integers(2, size=n).astype(np.uint8))
    scratch, labels = tree_scratch(*unary.shape), np.zeros(n, dtype=np.int32)
    got = np.full(unary.shape, np.nan)
    tree_max_marginals(unary, transitions, forest, got, scratch)
    for t, k in np.ndindex(unary.shape):
        expected = tree_max(_forced(unary, t, k), transitions, forest, labels, scratch)
        np.testing.assert_allclose(got[t, k], expected, rtol=1e-12, atol=1e-9)


@given(chains(), st.sampled_from([1, 2, 5, 40]))
def test_top_k_gives_the_k_best_distinct_labellings(chain, k):
    unary, transitions = chain
    _labellings, scores = _enumerate(unary, transitions)
    values = np.empty(k)
    labels = np.zeros((k, len(unary)), dtype=np.int32)
    viterbi_top_k(unary, transitions, values, labels, viterbi_scratch(*unary.shape, k))
    expected = np.sort(scores[np.isfinite(scores)])[::-1][:k]
    np.testing.assert_allclose(values[: expected.size], expected, rtol=1e-12)
    assert (values[expected.size :] == -math.inf).all()
    found = labels[: expected.size]
    assert len({tuple(row) for row in found}) == expected.size
    if expected.size:
        np.testing.assert_allclose(chain_scores(unary, transitions, found), expected, rtol=1e-9)


@given(chains(), st.sampled_from([0.1, 1.0, 7.0]))
def test_forward_backward_equals_enumeration(chain, temperature):
    unary, transitions = chain
    n, n_labels = unary.shape
    labellings, scores = _enumerate(unary, transitions)
    work = np.full(workspace_size(n, n_labels), np.nan)
    nothing = np.empty((0, n_labels)), np.empty((0, n_labels, n_labels))
    log_z = forward_backward(unary, transitions, temperature, *nothing, work)
    if not np.isfinite(scores).any():
        assert log_z == -math.inf
        return
    one_hot = np.eye(n_labels)[labellings].reshape(len(labellings), -1)
    expected, marginals = brute_force_marginals(scores / temperature, one_hot)
    np.testing.assert_allclose(log_z, temperature * expected, rtol=1e-10, atol=1e-9)

    node, edges = np.empty((n, n_labels)), np.empty((n - 1, n_labels, n_labels))
    value = forward_backward(unary, transitions, temperature, node, edges, work)
    np.testing.assert_allclose(value, log_z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(node, marginals.reshape(n, n_labels), atol=1e-9)
    for t in range(n - 1):
        pairs = np.eye(n_labels**2)[labellings[:, t] * n_labels + labellings[:, t + 1]]
        expected_edge = brute_force_marginals(scores / temperature, pairs)[1]
        np.testing.assert_allclose(edges[t].ravel(), expected_edge, atol=1e-9)


@given(chains())
def test_summed_edge_marginals_are_the_sum(chain):
    unary, transitions = chain
    n, n_labels = unary.shape
    if not np.isfinite(_enumerate(unary, transitions)[1]).any():
        return
    work = np.full(workspace_size(n, n_labels), np.nan)
    node = np.empty((n, n_labels))
    each, total = np.empty((n - 1, n_labels, n_labels)), np.empty((1, n_labels, n_labels))
    forward_backward(unary, transitions, 1.0, node, each, work)
    forward_backward(unary, transitions, 1.0, node, total, work)
    np.testing.assert_allclose(total[0], each.sum(axis=0), atol=1e-9)


def test_a_path_lost_to_underflow_is_found_again():
    # Label 1 starts 1000 nats behind and gains 200 at each of 10 steps: only logarithms see it.
    unary = np.zeros((11, 2))
    unary[0, 1] = -1000.0
    transitions = np.array([[[-200.0, -math.inf], [-math.inf, 0.0]]])
    work = np.empty(workspace_size(11, 2))
    nothing = np.empty((0, 2)), np.empty((0, 2, 2))
    log_z = forward_backward(unary, transitions, 1.0, *nothing, work)
    np.testing.assert_allclose(log_z, -1000.0, rtol=1e-12)


def test_long_chains_neither_overflow_nor_underflow():
    rng = np.random.default_rng(0)
    unary = 50.0 * rng.normal(size=(20_000, 3))
    node, pair = np.empty_like(unary), np.empty((1, 3, 3))
    transitions = rng.normal(size=(1, 3, 3))
    log_z = forward_backward(
        unary, transitions, 1.0, node, pair, np.empty(workspace_size(20_000, 3))
    )
    assert np.isfinite(log_z)
    np.testing.assert_allclose(node.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(pair.sum(), 19_999, rtol=1e-9)


def test_a_label_out_of_reach_cannot_spoil_the_marginals():
    # Label 1 is forbidden at the start and after label 0, and would gain 20 at each of its steps.
    unary, transitions = np.zeros((80, 2)), np.array([[[0.0, -math.inf], [0.0, 20.0]]])
    unary[0, 1] = -math.inf
    node, edges = np.empty((80, 2)), np.empty((79, 2, 2))
    work = np.empty(workspace_size(80, 2))
    assert forward_backward(unary, transitions, 1.0, node, edges, work) == 0.0
    assert (node == [1.0, 0.0]).all()
    assert (edges == [[1.0, 0.0], [0.0, 0.0]]).all()
    # The same chain as a tree.
    order = np.arange(80, dtype=np.int32)
    forest = Forest(order, order - 1, np.zeros(80, dtype=np.int32), np.zeros(80, dtype=np.uint8))
    total, scratch = np.empty((1, 2, 2)), tree_scratch(80, 2)
    assert tree_marginals(unary, transitions, 1.0, forest, node, total, order, scratch) == 0.0
    assert (node == [1.0, 0.0]).all()
    np.testing.assert_allclose(total[0], [[79.0, 0.0], [0.0, 0.0]], rtol=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e15, 1e150])
def test_edge_marginals_of_huge_scores_are_probabilities(size):
    rng = np.random.default_rng(2)
    unary, transitions = size * rng.normal(size=(6, 4)), size * rng.normal(size=(1, 4, 4))
    node, edges = np.empty((6, 4)), np.empty((5, 4, 4))
    log_z = forward_backward(unary, transitions, 1.0, node, edges, np.empty(workspace_size(6, 4)))
    _labellings, scores = _enumerate(unary, transitions)
    np.testing.assert_allclose(log_z, scores.max(), rtol=1e-2)
    np.testing.assert_allclose(edges.sum(axis=(1, 2)), 1.0, rtol=1e-12)
    np.testing.assert_allclose(edges.sum(axis=2), node[:-1], atol=1e-9)
    np.testing.assert_allclose(edges.sum(axis=1), node[1:], atol=1e-9)


def test_fast_exp_is_exact_to_thirteen_digits():
    x = np.concatenate([np.linspace(-708, 700, 100_001), np.linspace(-1, 1, 10_001)])
    ours = np.array([fast_exp(value) for value in x])
    np.testing.assert_allclose(ours, np.exp(x), rtol=5e-14)


@pytest.mark.parametrize(("x", "expected"), [(-math.inf, 0.0), (-800.0, 0.0), (0.0, 1.0)])
def test_fast_exp_at_its_ends(x, expected):
    assert fast_exp(x) == expected


def test_fast_exp_keeps_nan():
    assert math.isnan(fast_exp(math.nan))


def test_log_sum_exp_of_forbidden_values():
    assert log_sum_exp(np.full(3, -math.inf), 0, 3) == -math.inf
    np.testing.assert_allclose(log_sum_exp(np.array([1e4, 1e4]), 0, 2), 1e4 + math.log(2))


@given(
    size=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 1e-12, 1e-3, 1.0, 1e8]),
    ties=st.booleans(),
)
def test_projection_onto_the_simplex(size, seed, scale, ties):
    rng = np.random.default_rng(seed)
    values = scale * (rng.integers(-2, 3, size) / 3.0 if ties else rng.normal(size=size)) + 1.0
    shares = values.copy()
    project_in_place(shares, size)
    assert shares.min() >= 0.0
    np.testing.assert_allclose(shares.sum(), 1.0, atol=1e-12)
    # Kept entries all give up the same, dropped ones less.
    given_up = values - shares
    kept = shares > 0.0
    tolerance = 1e-12 * max(scale, 1.0)
    assert np.ptp(given_up[kept]) <= tolerance
    assert (values[~kept] <= given_up[kept].max() + tolerance).all()
    # What is impossible gets nothing.
    more = np.insert(values, size // 2, -np.inf)
    project_in_place(more, size + 1)
    assert more[size // 2] == 0.0
    np.testing.assert_allclose(np.delete(more, size // 2), shares, atol=1e-12)
