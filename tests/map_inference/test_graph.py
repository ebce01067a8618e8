"""Factor graphs: what they accept, what they score, and their flat form."""

import pickle
from itertools import product

import numpy as np
import pytest

from skstruct.map_inference import AtMostOne, Cardinality, ExactlyOne, FactorGraph, Or, Potts, Table
from skstruct.map_inference.regions import score_extent


def _mixed(regions="variables"):
    rng = np.random.default_rng(0)
    factors = [
        Table([(0, 1), (1, 4)], rng.normal(size=(2, 2, 3))[:, :, [0, 1, 2]]),
        Table((3, 1, 0), rng.normal(size=(2, 3, 2))),
        Potts([0, 2], [2, 3], [1.0, -2.0]),
        Cardinality([0, 2, 3], [0.0, 1.0, -np.inf, 2.0]),
        ExactlyOne([0, 2], negated=[True, False]),
        AtMostOne([2, 3]),
        Or([0, 3], negated=[False, True]),
        Table([2], [0.25, 0.5]),
        Table([], 1.5),
    ]
    factors[0] = Table([(0, 1), (2, 4)], rng.normal(size=(2, 2, 3)))
    unaries = [rng.normal(size=k) for k in (2, 3, 2, 2, 3)]
    return FactorGraph([2, 3, 2, 2, 3], factors, unaries=unaries, regions=regions), unaries, factors


def test_scores_are_the_sum_of_all_factors():
    graph, unaries, factors = _mixed()
    for labels in product(range(2), range(3), range(2), range(2), range(3)):
        x = np.array(labels)
        by_hand = 1.5 + sum(u[k] for u, k in zip(unaries, labels, strict=True)) + [0.25, 0.5][x[2]]
        by_hand += factors[0].tables[0][x[0], x[1]] + factors[0].tables[1][x[2], x[4]]
        by_hand += factors[1].tables[0][x[3], x[1], x[0]]
        by_hand += (x[0] == x[2]) * 1.0 - (x[2] == x[3]) * 2.0
        by_hand += [0.0, 1.0, -np.inf, 2.0][x[0] + x[2] + x[3]]
        holds = ((1 - x[0]) + x[2] == 1) and x[2] + x[3] <= 1 and (x[0] or not x[3])
        by_hand = by_hand if holds else -np.inf
        assert graph.score(x) == pytest.approx(by_hand)
    assert graph.score(np.zeros((2, 5), dtype=int)).shape == (2,)


@pytest.mark.parametrize("regions", ["variables", "pairs"])
def test_regions_hold_the_same_scores(regions):
    graph, _, _ = _mixed(regions)
    p = graph.regions
    x = np.array([1, 2, 0, 0, 1])
    configuration = dict.fromkeys(range(p.kind.size), 0)
    for r in range(p.kind.size):
        for v in p.scope[p.scope_ptr[r] : p.scope_ptr[r + 1]]:
            configuration[r] = configuration[r] * p.n_states[v] + x[v]
    tables = [r for r in range(p.kind.size) if p.kind[r] <= 1]
    total = p.offset + sum(p.scores[p.score_ptr[r] + configuration[r]] for r in tables)
    others = sum(b.score(x).sum() for b in graph.factors if not isinstance(b, Table))
    assert total + others == pytest.approx(graph.score(x))
    for s, child in enumerate(p.child):
        r = p.owner[s]
        assert p.slot_ptr[r] <= s < p.slot_ptr[r + 1]
        assert s in p.parent[p.parent_ptr[child] : p.parent_ptr[child + 1]]
        assert p.message_ptr[s + 1] - p.message_ptr[s] == p.size[child]
        q, arity = s - p.slot_ptr[r], p.scope_ptr[r + 1] - p.scope_ptr[r]
        if p.kind[r] == 1 and arity > 2:
            steps = p.steps[p.step_ptr[r] + q * arity :][:arity]
            at = steps @ x[p.scope[p.scope_ptr[r] : p.scope_ptr[r + 1]]]
            assert at == configuration[child]


def test_larger_tables_contain_pairs():
    graph, _, _ = _mixed("pairs")
    p = graph.regions
    triple = next(r for r in range(p.kind.size) if p.scope_ptr[r + 1] - p.scope_ptr[r] == 3)
    # The pair (0, 1), and variable 3, which is in no pair within the table.
    assert set(p.child[p.slot_ptr[triple] : p.slot_ptr[triple + 1]]) == {5, 3}


def test_shared_tables_are_kept_once():
    graph = FactorGraph([2] * 4, [Table([(0, 1), (1, 2), (2, 3)], np.eye(2))])
    assert graph.regions.scores.size == 8 + 4
    assert graph.score([0, 0, 0, 1]) == 2.0


def test_graphs_are_pickled_without_their_regions():
    graph, _, _ = _mixed()
    graph.regions  # noqa: B018
    again = pickle.loads(pickle.dumps(graph))
    assert "regions" not in vars(again)
    assert again.score([0, 1, 1, 0, 2]) == graph.score([0, 1, 1, 0, 2])


def test_the_quadratic_hinge():
    factor = Cardinality.quadratic_hinge(range(4), target=2.5, slack=0.5)
    np.testing.assert_allclose(factor.scores_by_count, [[-4, -1, 0, 0, -1]])


def test_small_logical_factors_become_unaries():
    graph = FactorGraph([2, 2], [Or([0]), ExactlyOne([1], [True]), Cardinality([0], [1.0, 2.0])])
    assert graph.n_factors == 0
    np.testing.assert_array_equal(graph.unary, [-np.inf, 2.0, 0.0, -np.inf])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FactorGraph([2, 0]), ValueError, "n_states"),
        (lambda: FactorGraph([2.5]), TypeError, "n_states must be integers"),
        (lambda: FactorGraph([2], [Table((0, 1), np.eye(2))]), ValueError, "factor 0: variable 1"),
        (lambda: FactorGraph([2, 3], [Table((0, 1), np.eye(2))]), ValueError, "variable 1, which"),
        (lambda: FactorGraph([2, 3], [Or([0, 1])]), ValueError, "variable 1 has 3"),
        (lambda: FactorGraph([2], [np.eye(2)]), TypeError, "at factor 0, got a ndarray"),
        (lambda: FactorGraph([2], Or([0])), TypeError, "put it in a list"),
        (lambda: FactorGraph([2], unaries=[[1.0]]), ValueError, r"unaries\[0\]"),
        (lambda: FactorGraph([2], unaries=[[1.0, np.nan]]), ValueError, "nan"),
        (lambda: FactorGraph([2], unaries=np.zeros(3)), ValueError, "each of 2 states"),
        (lambda: FactorGraph([2], offset=np.inf), ValueError, "offset"),
        (lambda: FactorGraph([2], regions="all"), ValueError, "regions"),
        (lambda: Table((0, 0), np.eye(2)), ValueError, "twice"),
        (lambda: Table((0, 1), [[0, np.inf], [0, 0]]), ValueError, r"position \(0, 0, 1\)"),
        (lambda: Table((0, 1), np.zeros(4)), ValueError, "2 axes"),
        (lambda: Table((0, 1), [["a", "b"]]), TypeError, "scores must be numbers"),
        (lambda: Table((0, 1), [[1], [1, 2]]), TypeError, "scores must be numbers"),
        (lambda: Table((0, 1), np.ma.masked_array(np.eye(2), True)), ValueError, "masked"),
        (lambda: Potts([0, 1], [1, 2], [1.0, np.nan]), ValueError, "weight must be finite"),
        (lambda: Potts([0, 1], [1, 2], [1.0, 2.0, 3.0]), ValueError, "one length"),
        (lambda: Potts(0, 0, 1.0), ValueError, "twice"),
        (lambda: Cardinality([0, 1], [0, 1]), ValueError, "3 entries"),
        (lambda: Cardinality.quadratic_hinge([0], 1, -1), ValueError, "slack"),
        (lambda: Or([0, 1], negated=[True, False, True]), ValueError, "shape of variables"),
        (lambda: FactorGraph([2, 2]).score([0, 2]), ValueError, "variable 1 has 2 states"),
        (lambda: FactorGraph([2, 2]).score([0]), ValueError, "each of 2 variables"),
        (lambda: FactorGraph([2]).score([0.5]), TypeError, "labels must be integers"),
    ],
)
def test_bad_graphs_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_arrays_of_the_user_are_copied():
    scores, unary = np.zeros((2, 2)), np.zeros(4)
    graph = FactorGraph([2, 2], [Table([0, 1], scores)], unaries=unary)
    scores[1, 1] = unary[3] = 5.0
    assert graph.score([1, 1]) == 0.0


def test_the_extent_of_shared_tables_counts_each_factor():
    scores = np.array([[1.0, -np.inf], [-3.0, 2.0]])
    graph = FactorGraph([2] * 5, [Table([(k, k + 1) for k in range(4)], scores), Potts(0, 2, -1.0)])
    assert score_extent(graph.regions) == 13.0
