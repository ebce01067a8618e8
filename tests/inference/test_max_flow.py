"""Max flow against SciPy and enumeration; flows that go on after changes against new ones."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow

from skstruct.core.jit.kernels import kernel
from skstruct.inference.max_flow import (
    SOURCE,
    TREE,
    WHICH,
    WIDTH,
    advance_flow,
    continue_flow,
    empty_forest,
    empty_network,
    init_search_forest,
    link,
    max_flow,
)
from skstruct.testing import all_labellings


@kernel
def start_flow(n, network, forest):
    """Begin a flow, for :func:`advance_flow` to go on with."""
    init_search_forest(n, network, forest)


def _edges(rng, n, share=0.4):
    """Random ends, with edges that occur twice."""
    count = rng.binomial(n * (n - 1), share) if n > 1 else 0
    tail = rng.integers(n, size=count)
    head = (tail + rng.integers(1, max(n, 2), size=count)) % n
    return tail.astype(np.int32), head.astype(np.int32)


def _linked(n, tail, head, there, back, excess):
    network = empty_network(n, 2 * tail.size)
    network.excess[:] = excess
    link(n, tail, head, np.asarray(there, float), np.asarray(back, float), network)
    return network


def _side(n, forest):
    return forest.node[TREE : WIDTH * n : WIDTH] & WHICH == SOURCE


def _cut(side, tail, head, there, back, excess):
    """What a cut costs."""
    out, into = side[tail] & ~side[head], side[head] & ~side[tail]
    ends = np.maximum(excess, 0.0)[~side].sum() + np.maximum(-excess, 0.0)[side].sum()
    return ends + there[out].sum() + back[into].sum()


def _least_cut(n, *problem):
    sides = all_labellings(n, 2).astype(bool)
    return min(_cut(side, *problem) for side in sides)


def _check(n, network, forest, problem, flow=None):
    """The surplus that is left is what the best set of nodes gains; the cut attains it."""
    _, _, there, back, excess = problem
    side = _side(n, forest)
    scale = 1.0 + np.abs(excess).sum() + there.sum() + back.sum()
    gain = np.maximum(excess, 0.0).sum() - _cut(side, *problem)
    np.testing.assert_allclose(np.maximum(network.excess, 0.0).sum(), gain, atol=1e-12 * scale)
    if flow is not None:
        np.testing.assert_allclose(flow, _cut(side, *problem), atol=1e-12 * scale)
    np.testing.assert_allclose(_cut(side, *problem), _least_cut(n, *problem), atol=1e-12 * scale)
    assert network.cap.min(initial=0.0) >= 0.0


@given(n=st.integers(1, 40), seed=st.integers(0, 10**6), largest=st.sampled_from([1, 9, 10**6]))
def test_max_flow_equals_scipy_and_a_cut(n, seed, largest):
    rng = np.random.default_rng(seed)
    tail, head = _edges(rng, n, min(0.4, 4.0 / n))
    there, back = rng.integers(0, largest + 1, size=(2, tail.size)).astype(float)
    excess = rng.integers(-largest, largest + 1, size=n).astype(float)
    network, forest = _linked(n, tail, head, there, back, excess), empty_forest(n + 3)
    flow = max_flow(n, network, forest)
    whole = np.zeros((n + 2, n + 2), dtype=np.int64)
    np.add.at(whole, (tail, head), there.astype(np.int64))
    np.add.at(whole, (head, tail), back.astype(np.int64))
    whole[n, :n] = np.maximum(excess, 0)
    whole[:n, n + 1] = np.maximum(-excess, 0)
    graph = sparse.csr_matrix(whole.astype(np.int32))
    assert flow == maximum_flow(graph, n, n + 1).flow_value
    assert flow == _cut(_side(n, forest), tail, head, there, back, excess)


@given(n=st.integers(1, 8), seed=st.integers(0, 10**6), size=st.sampled_from([1e-9, 1.0, 1e12]))
@example(n=8, seed=1, size=1e300)
def test_real_capacities_give_a_least_cut(n, seed, size):
    rng = np.random.default_rng(seed)
    tail, head = _edges(rng, n)
    # Sizes that differ by far leave crumbs of rounding on full arcs.
    there, back = size * rng.random((2, tail.size)) ** rng.integers(1, 9)
    excess = size * rng.normal(size=n) * (rng.random(n) < 0.8)
    problem = tail, head, there, back, excess
    network, forest = _linked(n, *problem), empty_forest(n)
    flow = max_flow(n, network, forest)
    scaled = tail, head, there / size, back / size, excess / size
    network.excess[:] /= size
    _check(n, network, forest, scaled, flow / size)


def test_huge_capacities_hide_no_small_ones():
    ends = np.array([[0, 1], [1, 2]], dtype=np.int32)
    there = np.array([1e18, 1e-3])
    network = _linked(3, ends[0], ends[1], there, np.zeros(2), [1e18, 0.0, -2e-3])
    forest = empty_forest(3)
    np.testing.assert_allclose(max_flow(3, network, forest), 1e-3)
    assert _side(3, forest).tolist() == [True, True, False]


@given(n=st.integers(2, 8), seed=st.integers(0, 10**6))
def test_infinite_capacities_are_never_cut(n, seed):
    rng = np.random.default_rng(seed)
    tail, head = _edges(rng, n)
    there, back = rng.integers(0, 5, size=(2, tail.size)).astype(float)
    excess = rng.integers(-5, 6, size=n).astype(float)
    there[rng.random(tail.size) < 0.2] = np.inf
    excess[rng.random(n) < 0.2] = np.inf
    excess[rng.random(n) < 0.2] = -np.inf
    problem = tail, head, there, back, excess
    network, forest = _linked(n, *problem), empty_forest(n)
    flow, least = max_flow(n, network, forest), _least_cut(n, *problem)
    assert flow == least
    if least < np.inf:
        assert _cut(_side(n, forest), *problem) == least


@given(n=st.integers(1, 8), seed=st.integers(0, 10**6), whole=st.booleans())
def test_a_flow_goes_on_after_changes_as_if_it_began_anew(n, seed, whole):
    rng = np.random.default_rng(seed)
    tail, head = _edges(rng, n)
    there, back = rng.integers(0, 9, size=(2, tail.size)).astype(float)
    excess = rng.integers(-9, 10, size=n).astype(float)
    if not whole:
        there, back, excess = there * rng.random(), back * rng.random(), excess * rng.random()
    network, forest = _linked(n, tail, head, there, back, excess), empty_forest(n)
    max_flow(n, network, forest)
    for visit in range(4):
        changed = rng.permutation(n)[: rng.integers(n + 1)].astype(np.int32)
        step = rng.integers(-12, 13, size=changed.size) * rng.random(changed.size)
        step = np.round(step) if whole else step
        excess[changed] += step
        network.excess[changed] += step
        if tail.size and visit % 2:
            changed = _change_an_arc(rng, tail, head, there, back, network, changed)
        continue_flow(n, network, forest, changed)
        _check(n, network, forest, (tail, head, there, back, excess))
        anew = _linked(n, tail, head, there, back, excess)
        again = empty_forest(n)
        max_flow(n, anew, again)
        if whole:
            np.testing.assert_array_equal(_side(n, forest), _side(n, again))


def _change_an_arc(rng, tail, head, there, back, network, changed):
    """Another capacity for one edge, in the model and in the solved network; the nodes changed."""
    e = int(rng.integers(tail.size))
    amount = float(rng.integers(-int(there[e]), 5))
    ends = np.stack([tail, head], axis=1).ravel()
    place = np.empty(ends.size, dtype=np.int64)
    place[np.argsort(ends, kind="stable")] = np.arange(ends.size)
    there[e] += amount
    a = int(place[2 * e])
    left = network.cap[a] + amount
    network.cap[a] = max(left, 0.0)
    if left < 0.0:
        # The flow that has no room any more goes back, at both ends.
        network.cap[network.sister[a]] += left
        network.excess[tail[e]] -= left
        network.excess[head[e]] += left
    return np.union1d(changed, [tail[e], head[e]]).astype(np.int32)


@given(n=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_a_flow_in_pieces_is_the_flow(n, seed):
    rng = np.random.default_rng(seed)
    tail, head = _edges(rng, n)
    there, back = rng.random((2, tail.size))
    excess = rng.normal(size=n)
    problem = tail, head, there, back, excess
    network, forest = _linked(n, *problem), empty_forest(n)
    start_flow(n, network, forest)
    while not advance_flow(network, forest, 1):
        pass
    _check(n, network, forest, problem)
    one, other = _linked(n, *problem), empty_forest(n)
    max_flow(n, one, other)
    np.testing.assert_array_equal(one.cap, network.cap)
    network.excess[0] += 2.0
    excess[0] += 2.0
    continue_flow(n, network, forest, np.array([0], dtype=np.int32))
    _check(n, network, forest, problem)


def test_time_stamps_begin_again_before_they_overflow():
    ends = np.array([[0], [1]], dtype=np.int32)
    network, forest = _linked(2, *ends, np.ones(1), np.ones(1), [5.0, -1.0]), empty_forest(2)
    max_flow(2, network, forest)
    forest.count[0] = 2**30 + 1
    network.excess[1] -= 3.0
    assert continue_flow(2, network, forest, np.array([1], dtype=np.int32)) == 0.0
    assert forest.count[0] < 100
    assert network.excess.tolist() == [4.0, -3.0]


def test_networks_that_int32_cannot_number_are_refused():
    with pytest.raises(ValueError, match="more than int32 can number"):
        empty_network(3, 2**31)
