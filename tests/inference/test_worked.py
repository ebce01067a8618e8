"""Small worked examples of the internals of inference."""

import numpy as np

from skstruct.graphs.n_best import branch_scratch
from skstruct.inference.assignment import assignment, assignment_max_marginals, assignment_work
from skstruct.inference.bucket_elimination import elimination_scratch, sum_buckets, tell_buckets
from skstruct.inference.elimination_order import (
    best_elimination_order,
    elimination_order,
    primal_graph,
)
from skstruct.inference.enumeration import enumeration_scratch
from skstruct.inference.fertility import fertile_links, fertile_max_marginals, fertility_work
from skstruct.inference.forward_backward import forward_backward, workspace_size
from skstruct.inference.junction_tree import Tables, junction_tree
from skstruct.inference.max_flow import continue_flow, empty_forest, empty_network, link, max_flow
from skstruct.inference.n_best import best_assignments, best_assignments_work
from skstruct.inference.numerics import fast_exp, log_sum_exp, row_max, top_list
from skstruct.inference.pairwise_lp import lp_scratch
from skstruct.inference.qpbo import (
    Pairs,
    Switcher,
    component_scratch,
    empty_choices,
    empty_signs,
    roof_scratch,
)
from skstruct.inference.quadratic_cut import level_work, quadratic_cut
from skstruct.inference.simplex import best_mixture, project
from skstruct.inference.tree import root_forests, tree_scratch
from skstruct.inference.viterbi import (
    chain_max_marginals,
    sparse_viterbi,
    sparse_viterbi_scratch,
    viterbi,
    viterbi_scratch,
    viterbi_top_k,
)
from skstruct.solvers.gdmm.active_sets import max_trees, row_best, table_best


def test_assignment_assignment():
    scores = np.array([[5.0, 4.0, -1.0], [4.0, 1.0, -1.0]])
    match, work = np.full(2, -1, dtype=np.int32), assignment_work(2, 3)
    assert (assignment(scores.ravel(), 2, 3, True, np.zeros(3), match, work)) == 8.0
    assert repr(match) == "array([1, 0], dtype=int32)"


def test_assignment_marginals_assignment_max_marginals():
    scores, match = np.array([5.0, 4.0, 4.0, 1.0]), np.full(2, -1, dtype=np.int32)
    best, work = np.empty(8), assignment_work(2, 2)
    assert (
        assignment_max_marginals(scores, 2, 2, True, np.zeros(2), match, work, best, np.empty(9))
    ) == 8.0
    assert repr(best.reshape(2, 2, 2)[..., 1]) == ("array([[6., 8.],\n       [8., 6.]])")


def test_assignment_paths_assignment_work():
    assert (assignment_work(2, 3).u.shape) == (2,)


def test_assignment_polytope_projection_work():
    from skstruct.inference.assignment_polytope import projection_work

    assert (projection_work([(2, 3)]).dual.shape) == (5,)


def test_assignment_projections_euclidean_assignment():
    from skstruct.inference.assignment_polytope import euclidean_assignment, projection_work

    scores, mu = np.array([1.0, 0.5, 0.5, -1.0]), np.empty(4)
    state = np.zeros(2), np.full(2, -1, dtype=np.int32)
    work = assignment_work(2, 2), projection_work([(2, 2)])
    value = euclidean_assignment(scores, 2, 2, True, 1.0, *state, mu, *work)
    assert (
        repr((round(value, 12), mu.round(8)))
        == "(0.666666666667, array([0.66666667, 0.33333333, 0.33333333, 0.        ]))"
    )


def test_assignment_scaling_entropic_assignment():
    from skstruct.inference.assignment_polytope import entropic_assignment, projection_work

    scores, mu = np.array([1.0, 0.0, 0.0, 1.0]), np.empty(4)
    state = np.zeros(2), np.full(2, -1, dtype=np.int32)
    work = assignment_work(2, 2), projection_work([(2, 2)])
    entropic_assignment(scores, 2, 2, False, 2.0, *state, mu, *work)
    assert repr(mu.round(3)) == "array([0.622, 0.378, 0.378, 0.622])"


def test_binary_cut_empty_signs():
    assert (empty_signs(3).node.shape) == (3,)


def test_bmmf_branch_scratch():
    assert (branch_scratch(5).parent.shape) == (5,)


def test_bucket_elimination_max_buckets():
    from skstruct.inference.bucket_elimination import (
        best_labels,
        elimination_scratch,
        max_buckets,
        place_factors,
    )

    pair = Tables(
        np.array([2, 3]),
        np.array([0, 2]),
        np.array([0, 1], dtype=np.int32),
        np.array([0]),
        np.array([1.0, 0.0, 2.0, 5.0, 0.0, 0.0]),
    )
    plan = junction_tree(pair, np.array([0, 1], dtype=np.int32))
    labels, base = np.zeros(2, dtype=np.int64), np.empty(1, dtype=np.int64)
    place_factors(pair, plan, pair.table_ptr, labels, base)
    slots, back = np.zeros(plan.room[0]), np.empty(plan.back_ptr[-1], dtype=np.uint8)
    scratch = elimination_scratch(plan)
    max_buckets(pair, plan, base, plan.live_ptr, slots, back, 0, 2, scratch)
    best_labels(pair, plan, back, 0, len(plan.variable), labels)
    assert repr((float(slots[0]), labels)) == "(5.0, array([1, 0]))"


def test_calibration_tell_buckets():
    pair = Tables(
        np.array([2, 2]),
        np.array([0, 2]),
        np.array([0, 1], dtype=np.int32),
        np.array([0]),
        np.log([1.0, 2.0, 3.0, 4.0]),
    )
    plan = junction_tree(pair, np.array([0, 1], dtype=np.int32))
    up, down = np.zeros((2, plan.slot_ptr[-1]))
    scratch, at = elimination_scratch(plan), plan.slot_ptr
    sum_buckets(pair, plan, pair.table_ptr, at, up, 0, len(plan.variable), scratch)
    marginals, places = np.zeros(4), (pair.table_ptr, pair.table_ptr, at)
    tell_buckets(
        pair, plan, places, True, np.ones(1), up, down, marginals, 0, len(plan.variable), scratch
    )
    assert repr(marginals.round(6)) == "array([0.1, 0.2, 0.3, 0.4])"


def test_choices_empty_choices():
    assert (empty_choices(3, 2).there.shape) == (2,)


def test_components_component_scratch():
    assert (component_scratch(2).order.shape) == (2,)


def test_dynamic_flow_continue_flow():
    network, forest = empty_network(2, 2), empty_forest(2)
    ends = np.array([[0], [1]], dtype=np.int32)
    link(2, ends[0], ends[1], np.array([9.0]), np.array([0.0]), network)
    network.excess[:] = 3.0, -5.0
    assert (max_flow(2, network, forest)) == 3.0
    network.excess[0] += 4.0
    assert (continue_flow(2, network, forest, np.array([0], dtype=np.int32))) == 2.0


def test_elimination_order_elimination_order():
    n_states = np.array([2, 2, 2, 2])
    ring = primal_graph(n_states, np.arange(0, 10, 2), np.array([0, 1, 1, 2, 2, 3, 3, 0]))
    assert (elimination_order(ring, n_states).width) == 2


def test_enumeration_enumeration_scratch():
    assert (enumeration_scratch(4).sums.shape) == (5,)


def test_fertility_fertility_work():
    assert (fertility_work(2, 3).path.shape) == (5,)


def test_fertility_fertile_links():
    scores, links = np.array([3.0, 2.0, 1.0, -1.0]), np.empty(4, dtype=np.int32)
    none = np.empty(0, dtype=np.uint8)
    assert (fertile_links(scores, 2, 2, True, 2, none, links, fertility_work(2, 2))) == 6.0
    assert repr(links) == "array([1, 1, 1, 0], dtype=int32)"


def test_fertility_fertile_max_marginals():
    scores, links = np.array([3.0, 2.0, 1.0, -1.0]), np.empty(4, dtype=np.int32)
    none = np.empty(0, dtype=np.uint8)
    best, work, none = np.empty(8), fertility_work(2, 2), np.empty(0, dtype=np.uint8)
    assert (
        fertile_max_marginals(scores, 2, 2, True, 2, none, links, work, best, np.empty(9))
    ) == 6.0
    assert repr(best.reshape(4, 2)) == (
        "array([[3., 6.],\n       [4., 6.],\n       [5., 6.],\n       [6., 5.]])"
    )


def test_forward_backward_workspace_size():
    assert (workspace_size(2, 3)) == 130


def test_forward_backward_forward_backward():
    node, pair = np.empty((2, 2)), np.empty((1, 2, 2))
    work = np.empty(workspace_size(2, 2))
    forward_backward(np.zeros((2, 2)), np.zeros((1, 2, 2)), 1.0, node, pair, work)
    assert repr((node[0], pair[0, 0])) == "(array([0.5, 0.5]), array([0.25, 0.25]))"


def test_junction_tree_junction_tree():
    chain = Tables(
        np.array([2, 2, 2]),
        np.array([0, 2, 4]),
        np.array([0, 1, 1, 2], dtype=np.int32),
        np.array([0, 4]),
        np.zeros(8),
    )
    assert (
        repr(junction_tree(chain, np.array([0, 1, 2], dtype=np.int32)).size) == "array([4, 4, 2])"
    )


def test_max_flow_empty_network():
    assert (empty_network(2, 4).head.shape) == (4,)


def test_max_flow_empty_forest():
    assert (empty_forest(2).active.shape) == (2,)


def test_max_flow_link():
    network, ends = empty_network(2, 2), np.array([[0], [1]], dtype=np.int32)
    link(2, ends[0], ends[1], np.array([3.0]), np.array([0.0]), network)
    assert (network.cap.tolist(), network.sister.tolist()) == ([3.0, 0.0], [1, 0])


def test_max_flow_max_flow():
    network, ends = empty_network(2, 2), np.array([[0], [1]], dtype=np.int32)
    link(2, ends[0], ends[1], np.array([2.0]), np.array([0.0]), network)
    network.excess[:] = 3.0, -5.0
    assert (max_flow(2, network, empty_forest(2))) == 2.0


def test_murty_best_assignments_work():
    assert (best_assignments_work(2, 3, 4).u.shape) == (4, 2)


def test_murty_best_assignments():
    scores, work = np.array([5.0, 4.0, 4.0, 1.0]), best_assignments_work(2, 2, 3)
    values, matches = np.empty(3), np.empty((3, 2), dtype=np.int32)
    best_assignments(scores, 2, 2, False, values, matches, work)
    assert repr(values) == "array([  8.,   6., -inf])"


def test_numerics_fast_exp():
    assert (round(fast_exp(-1.0), 12)) == 0.367879441171


def test_numerics_row_max():
    assert (row_max(np.array([1.0, 3.0, 2.0]), 0, 3)) == 3.0


def test_numerics_log_sum_exp():
    assert (round(log_sum_exp(np.zeros(4), 0, 4), 6)) == 1.386294


def test_numerics_top_list():
    assert (top_list(5).codes.shape) == (5, 3)


def test_order_search_best_elimination_order():
    n_states = np.array([2, 2, 2])
    chain = primal_graph(n_states, np.array([0, 2, 4]), np.array([0, 1, 1, 2]))
    assert (best_elimination_order(chain, n_states).largest) == 4.0


def test_ordered_max_trees():
    assert repr(max_trees(np.array([[1.0, 3.0], [2.0, 0.0]])).tops) == "array([[3., 2.]])"


def test_ordered_row_best():
    table = np.array([[1.0, 3.0, 2.0]])
    banned = np.array([0, 1, 0], dtype=np.uint8)
    assert (row_best(table, max_trees(table), 0, banned, -np.inf)) == (2.0, 2)


def test_ordered_table_best():
    table = np.array([[1.0, 3.0], [2.0, 0.0]])
    banned = np.array([1, 0], dtype=np.uint8)
    assert (table_best(table, max_trees(table), banned, np.zeros(2, dtype=np.uint8), -np.inf)) == (
        2.0,
        1,
        0,
    )


def test_pairwise_lp_lp_scratch():
    assert (lp_scratch(3, 2, 2).beliefs.shape) == (3, 2)


def test_primal_graph_primal_graph():
    ptr, neighbours = primal_graph(np.array([2, 2, 2]), np.array([0, 2, 4]), np.array([0, 1, 2, 1]))
    assert repr((ptr, neighbours)) == "(array([0, 1, 3, 4]), array([1, 0, 2, 1]))"


def test_quadratic_cut_level_work():
    assert (level_work(3).low.shape) == (3,)


def test_quadratic_cut_quadratic_cut():
    network, ends = empty_network(2, 2), np.array([[0], [1]], dtype=np.int32)
    link(2, ends[0], ends[1], np.array([0.25]), np.array([0.25]), network)
    network.excess[:] = 1.0, 0.0
    x = np.empty(2)
    assert (
        repr((quadratic_cut(2, np.ones(2), network, empty_forest(2), level_work(2), x), x))
        == "(True, array([0.75, 0.25]))"
    )


def test_roof_dual_roof_scratch():
    assert (roof_scratch(2, 1).network.cap.shape) == (4,)


def test_rooting_root_forests():
    ends = np.array([[2, 1], [1, 0]], dtype=np.int32)
    forest, cyclic = root_forests(ends, np.array([0, 2]), np.array([0, 3]))
    assert (forest.order.tolist(), forest.parent.tolist(), cyclic) == ([2, 1, 0], [1, 2, -1], -1)


def test_simplex_project():
    values = np.array([1.0, 0.5, -3.0])
    project(values, 3)
    assert repr(values) == "array([0.75, 0.25, 0.  ])"


def test_simplex_best_mixture():
    mu = np.empty(3)
    assert (
        repr((best_mixture(np.array([2.0, 1.0, -np.inf]), 2.0, mu, 3), mu))
        == "(1.125, array([0.75, 0.25, 0.  ]))"
    )


def test_sparse_viterbi_sparse_viterbi_scratch():
    assert (sparse_viterbi_scratch(10, 3).heap.shape) == (3,)


def test_sparse_viterbi_sparse_viterbi():
    labels = np.empty(2, dtype=np.int32)
    assert (
        sparse_viterbi(
            np.array([[0.0, 1.0], [0.0, 0.0]]),
            np.array([0, 0, 1]),
            np.array([0]),
            np.array([3.0]),
            np.array([0.0, 3.0]),
            labels,
            sparse_viterbi_scratch(2, 2),
        )
    ) == 4.0
    assert repr(labels) == "array([1, 0], dtype=int32)"


def test_switching_switcher():
    pairs = Pairs(
        np.array([0, 2, 4]),
        np.array([0.0, 1.0, 2.0, 0.0]),
        np.array([[0], [1]], dtype=np.int32),
        np.array([0]),
        np.array([0]),
        np.array([5.0]),
    )
    assert (
        repr(Switcher(pairs).solve(np.array([0, 0]), np.array([1, 1])).states)
        == "array([0, 0], dtype=int8)"
    )


def test_tree_tree_scratch():
    assert (tree_scratch(10, 3).belief.shape) == (10, 3)


def test_viterbi_viterbi_scratch():
    assert (viterbi_scratch(10, 3).best.shape) == (10, 3)


def test_viterbi_viterbi():
    labels = np.empty(2, dtype=np.int32)
    assert (
        viterbi(
            np.array([[0.0, 1.0], [0.0, 0.0]]),
            np.array([[[0.0, 0.0], [3.0, 0.0]]]),
            labels,
            viterbi_scratch(2, 2),
        )
    ) == 4.0
    assert repr(labels) == "array([1, 0], dtype=int32)"


def test_viterbi_chain_max_marginals():
    out = np.empty((2, 2))
    transitions = np.array([[[0.0, 0.0], [3.0, 0.0]]])
    unary, scratch = np.array([[0.0, 1.0], [0.0, 0.0]]), viterbi_scratch(2, 2)
    chain_max_marginals(unary, transitions, out, scratch)
    assert repr(out) == ("array([[0., 4.],\n       [4., 1.]])")


def test_viterbi_viterbi_top_k():
    values, labels = np.empty(2), np.empty((2, 1), dtype=np.int32)
    viterbi_top_k(
        np.array([[1.0, 3.0, 2.0]]),
        np.zeros((1, 3, 3)),
        values,
        labels,
        viterbi_scratch(1, 3, n_best=2),
    )
    assert repr((values, labels.ravel())) == "(array([3., 2.]), array([1, 2], dtype=int32))"
