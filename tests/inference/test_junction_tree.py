"""Elimination orders, junction trees and what is computed on them, against enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skstruct.inference.bucket_elimination import (
    best_labels,
    elimination_scratch,
    max_buckets,
    place_factors,
    score_factors,
    sum_buckets,
    tell_buckets,
)
from skstruct.inference.elimination_order import (
    best_elimination_order,
    elimination_order,
    primal_graph,
)
from skstruct.inference.junction_tree import Tables, junction_tree
from tests.helpers.map_cases import grid_edges

RULES = ["min-fill", "min-weight", "sweep"]


def make_tables(n_states, scopes, arrays):
    n_states = np.asarray(n_states, dtype=np.int64)
    sizes = [array.size for array in arrays]
    return Tables(
        n_states,
        np.cumsum([0, *map(len, scopes)]),
        np.array([v for scope in scopes for v in scope], dtype=np.int32),
        np.cumsum([0, *sizes])[:-1].astype(np.int64),
        np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)]),
    )


@st.composite
def models(draw):
    """Factors of arities 0 to 4 over variables of 1 to 4 states, with -inf entries and ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 6))
    n_states = rng.integers(1, 5, n)
    scopes = [
        rng.permutation(n)[: rng.integers(0, min(n, 4) + 1)] for _ in range(draw(st.integers(0, 8)))
    ]
    has_ties = draw(st.booleans())
    arrays = []
    for scope in scopes:
        shape = tuple(n_states[scope])
        array = rng.integers(-2, 3, shape).astype(float) if has_ties else rng.normal(size=shape)
        arrays.append(np.where(rng.random(shape) < draw(st.sampled_from([0, 0.2])), -np.inf, array))
    kept = rng.random(n) < 0.3 if draw(st.booleans()) else np.zeros(n, dtype=bool)
    return make_tables(n_states, scopes, arrays), kept, rng.integers(0, n_states)


def score(tables, labels):
    out = np.empty(len(tables.table_ptr))
    score_factors(tables, np.asarray(labels, dtype=np.int64), out)
    return out.sum()


def labellings(tables, kept, given_labels):
    choices = [[given_labels[v]] if kept[v] else range(k) for v, k in enumerate(tables.n_states)]
    return [np.array(labels) for labels in itertools.product(*choices)]


def planned(tables, kept, rule="min-fill", block=512):
    graph = primal_graph(tables.n_states, tables.scope_ptr, tables.scope, ~kept)
    order = elimination_order(graph, tables.n_states, rule, keep=~kept).order
    plan = junction_tree(tables, order, block)
    return plan, elimination_scratch(plan)


def upward(tables, plan, scratch, labels, at, size):
    base = np.empty(len(tables.table_ptr), dtype=np.int64)
    place_factors(tables, plan, tables.table_ptr, labels, base)
    slots, back = np.zeros(size), np.empty(plan.back_ptr[-1], dtype=np.uint8)
    n = len(plan.variable)
    max_buckets(tables, plan, base, at, slots, back, 0, n, scratch)
    labels = labels.copy()
    best_labels(tables, plan, back, 0, n, labels)
    return base, slots, slots[0] + tables.scores[base[plan.constant]].sum(), labels


@given(models(), st.sampled_from(RULES), st.sampled_from([1, 4, 512]), st.booleans())
def test_best_labelling_is_that_of_enumeration(model, rule, block, keeps_all):
    tables, kept, labels = model
    plan, scratch = planned(tables, kept, rule, block)
    at, size = (plan.slot_ptr, plan.slot_ptr[-1]) if keeps_all else (plan.live_ptr, plan.room[0])
    _, _, value, found = upward(tables, plan, scratch, labels, at, size)
    best = max(score(tables, one) for one in labellings(tables, kept, labels))
    np.testing.assert_allclose(value, best, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(score(tables, found), best, rtol=1e-12, atol=1e-12)
    assert (found[kept] == labels[kept]).all()


@given(models(), st.sampled_from([1, 4, 512]))
def test_marginals_and_max_marginals_are_those_of_enumeration(model, block):
    tables, kept, labels = model
    plan, scratch = planned(tables, kept, block=block)
    at, n_factors, n = plan.slot_ptr, len(tables.table_ptr), len(plan.variable)
    base, slots, value, _ = upward(tables, plan, scratch, labels, at, at[-1])
    constant = tables.scores[base[plan.constant]].sum()
    if value == -np.inf:
        return
    asked = tables.table_ptr.copy()
    asked[::3] = -1
    target = np.empty(n_factors, dtype=np.int64)
    place_factors(tables, plan, asked, labels, target)
    places, down = (base, target, at), np.empty_like(slots)
    best, shares = np.full(tables.scores.size, -np.inf), np.zeros(tables.scores.size)
    everything = labellings(tables, kept, labels)
    scores = np.array([score(tables, one) for one in everything])
    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    for one, its_score, weight in zip(everything, scores, weights, strict=True):
        for f in np.setdiff1d(np.flatnonzero(asked >= 0), plan.constant):
            scope = tables.scope[tables.scope_ptr[f] : tables.scope_ptr[f + 1]]
            entry = asked[f] + np.ravel_multi_index(one[scope], tables.n_states[scope])
            best[entry] = max(best[entry], its_score)
            shares[entry] += weight
    out = np.full(tables.scores.size, -np.inf)
    tell_buckets(tables, plan, places, False, slots[:1].copy(), slots, down, out, 0, n, scratch)
    np.testing.assert_allclose(out + constant, best, rtol=1e-10, atol=1e-10)
    slots[0] = 0.0
    sum_buckets(tables, plan, base, at, slots, 0, n, scratch)
    log_partition = scores.max() + np.log(np.exp(scores - scores.max()).sum())
    np.testing.assert_allclose(slots[0] + constant, log_partition, rtol=1e-10, atol=1e-10)
    out[:] = 0.0
    tell_buckets(tables, plan, places, True, np.ones(1), slots, down, out, 0, n, scratch)
    np.testing.assert_allclose(out, shares, atol=1e-10)


def test_sums_of_forbidden_and_huge_scores_have_no_nan():
    chain = make_tables(
        [2, 2, 2],
        [[0, 1], [1, 2]],
        [np.array([[-np.inf, 1e4], [-np.inf, -1e4]]), np.array([[0.0, -np.inf], [-1e4, 1e4]])],
    )
    plan, scratch = planned(chain, np.zeros(3, dtype=bool))
    base, slots, value, _ = upward(
        chain, plan, scratch, np.zeros(3, dtype=np.int64), plan.slot_ptr, plan.slot_ptr[-1]
    )
    assert value == 2e4
    n = len(plan.variable)
    sum_buckets(chain, plan, base, plan.slot_ptr, slots, 0, n, scratch)
    assert slots[0] == pytest.approx(2e4)
    out = np.zeros(8)
    places = base, chain.table_ptr, plan.slot_ptr
    tell_buckets(
        chain, plan, places, True, np.ones(1), slots, np.empty_like(slots), out, 0, n, scratch
    )
    np.testing.assert_allclose(out, [0, 1, 0, 0, 0, 0, 0, 1], atol=1e-12)


def test_states_beyond_one_byte_are_pointed_back_to():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(600, 300)), rng.normal(size=(600, 3))
    tables = make_tables([600, 300, 3], [[0, 1], [0, 2]], [first, second])
    order = np.array([0, 1, 2], dtype=np.int32)
    plan = junction_tree(tables, order)
    found = upward(
        tables, plan, elimination_scratch(plan), np.zeros(3, dtype=int), plan.live_ptr, plan.room[0]
    )
    total = first[:, :, None] + second[:, None, :]
    assert tuple(found[3]) == np.unravel_index(total.argmax(), total.shape)


def naive_min_fill(n, edges):
    """Leaves first, then the vertex that joins the fewest pairs, the lowest of equals."""
    around = {v: set() for v in range(n)}
    for u, v in edges:
        around[u].add(v)
        around[v].add(u)
    order, width = [], 0

    def eliminate(v):
        nonlocal width
        width = max(width, len(around[v]))
        for u in around[v]:
            around[u] |= around[v] - {u}
            around[u].discard(v)
        order.append(v)
        del around[v]

    while leaves := [v for v in around if len(around[v]) <= 1]:
        eliminate(leaves[0])
    n_leaves = len(order)
    while around:
        fills = {
            v: (
                sum(b not in around[a] for a, b in itertools.combinations(sorted(near), 2)),
                len(near),
                v,
            )
            for v, near in around.items()
        }
        eliminate(min(fills, key=fills.get))
    return order, n_leaves, width


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.floats(0.05, 0.5))
@settings(max_examples=40)
def test_min_fill_is_exact_after_every_step(seed, n, density):
    edges = np.argwhere(np.triu(np.random.default_rng(seed).random((n, n)) < density, 1))
    n_states = np.full(n, 2)
    graph = primal_graph(n_states, np.arange(0, 2 * len(edges) + 1, 2), edges.ravel())
    found = elimination_order(graph, n_states)
    order, n_leaves, width = naive_min_fill(n, edges.tolist())
    assert sorted(found.order) == list(range(n))
    assert found.order[n_leaves:].tolist() == order[n_leaves:]
    assert found.largest == 2.0 ** (width + 1)


@given(models(), st.sampled_from(RULES))
def test_the_largest_table_is_known_before_any_is_made(model, rule):
    tables = model[0]
    graph = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    found = elimination_order(graph, tables.n_states, rule)
    sizes = junction_tree(tables, found.order).size
    assert found.largest == sizes.max(initial=0)
    assert found.total == sizes.sum()


@given(models(), st.sampled_from(RULES), st.sampled_from([4, 8, 16]))
def test_variables_are_left_out_to_keep_tables_small(model, rule, most):
    tables = model[0]
    graph = primal_graph(tables.n_states, tables.scope_ptr, tables.scope)
    found = elimination_order(graph, tables.n_states, rule, max_table=most, leave_out=True)
    both = np.concatenate((found.order, found.fixed))
    assert sorted(both) == np.flatnonzero(tables.n_states > 1).tolist()
    plan = junction_tree(tables, found.order)
    # Leaves go first whatever their tables are.
    arity_two = np.diff(plan.dim_ptr) > 2
    assert (plan.size[arity_two] <= most).all()
    stopped = elimination_order(graph, tables.n_states, rule, max_table=most)
    assert (stopped.largest == np.inf) == (len(found.fixed) > 0)


def grid(height, width):
    edges, n_states = grid_edges(height, width), np.full(height * width, 2)
    return primal_graph(n_states, np.arange(0, 2 * len(edges) + 1, 2), edges.ravel()), n_states


def test_orders_of_grids_are_narrow_and_the_same_each_time():
    graph, n_states = grid(20, 20)
    found = best_elimination_order(graph, n_states)
    assert found.largest == 2.0**21
    assert found.total < 2e8
    assert (found.order == best_elimination_order(graph, n_states).order).all()
    assert best_elimination_order(graph, n_states, max_table=2**15).largest == np.inf


def test_stars_and_long_chains_take_linear_time():
    n = 200_000
    star = np.stack((np.zeros(n - 1, dtype=int), np.arange(1, n)), axis=1)
    chain = np.stack((np.arange(n - 1), np.arange(1, n)), axis=1)
    for edges in (star, chain):
        arrays = [np.array([[0.0, 1.0], [1.0, 0.0]])] * 1
        tables = make_tables(np.full(n, 2), [], arrays)._replace(
            scope_ptr=np.arange(0, 2 * n - 1, 2),
            scope=edges.ravel().astype(np.int32),
            table_ptr=np.zeros(n - 1, dtype=np.int64),
        )
        plan, scratch = planned(tables, np.zeros(n, dtype=bool))
        assert plan.room[0] < 100
        found = upward(
            tables, plan, scratch, np.zeros(n, dtype=np.int64), plan.live_ptr, plan.room[0]
        )
        assert found[2] == n - 1
