"""The bounded beam: exact when it is wide enough, and a bound when it is not."""

import numpy as np
import pytest

from skstruct import AtLeastOnce, AtMostOnce, Before, Exactly
from skstruct.data.rules import broken_rules, product_of
from skstruct.inference.viterbi import bounded_viterbi
from skstruct.testing import all_labellings

CLASSES = np.array(["a", "b", "c", "d"])
RULES = [AtMostOnce("a"), AtMostOnce("b"), AtLeastOnce("c"), Before("d", "a"), Exactly(2, "c")]


def _best(unary, pair, rules):
    """The optimum over all labellings that obey."""
    every = np.array(all_labellings(len(unary), 4))
    n = len(unary)
    ends = np.arange(len(every) + 1) * n
    good = every[~broken_rules(rules, CLASSES, every.ravel(), ends).any(axis=1)]
    tables = np.broadcast_to(pair, (n - 1, 4, 4))
    scores = unary[np.arange(n), good].sum(axis=1)
    scores = scores + tables[np.arange(n - 1), good[:, :-1], good[:, 1:]].sum(axis=1)
    return good, scores


@pytest.mark.parametrize("n_tables", [1, 5])
@pytest.mark.parametrize("most_steps", [1, 48, 96, 200, None])
def test_the_bound_holds_and_is_reached(n_tables, most_steps):
    rng, n_proved = np.random.default_rng(n_tables), 0
    for _ in range(25):
        unary, pair = rng.normal(size=(6, 4)), rng.normal(size=(n_tables, 4, 4))
        unary[rng.random(unary.shape) < 0.1] = -np.inf
        pair[rng.random(pair.shape) < 0.1] = -np.inf
        rules = [RULES[r] for r in np.sort(rng.permutation(5)[: rng.integers(2, 6)])]
        groups = [rules[:1], rules[1:]] if rng.random() < 0.5 else [[rule] for rule in rules]
        products = [product_of(group, CLASSES) for group in groups]
        good, scores = _best(unary, pair, rules)
        best = scores.max(initial=-np.inf)
        found = bounded_viterbi(unary, pair, products, most_steps)
        assert found.score - 1e-12 <= best <= found.bound + 1e-12
        assert found.bound >= found.score
        n_proved += found.bound == found.score
        if found.codes is not None:
            own = scores[(good == found.codes).all(axis=1)]
            np.testing.assert_allclose(found.score, own[0], rtol=1e-12)
        if most_steps is None:
            assert found.bound == found.score
    assert n_proved < 25 or most_steps != 1


def test_one_node():
    products = [product_of([rule], CLASSES) for rule in (AtMostOnce("a"), AtLeastOnce("c"))]
    found = bounded_viterbi(np.zeros((1, 4)), np.zeros((1, 4, 4)), products)
    assert (found.codes.tolist(), found.score, found.bound) == ([2], 0.0, 0.0)


def test_many_automata():
    """The states of so many have no number that fits into 64 bits."""
    classes = np.array([f"{i:02}" for i in range(70)])
    products = [product_of([AtMostOnce(label)], classes) for label in classes.tolist()]
    unary = np.zeros((70, 70))
    unary[:, ::-1] -= np.arange(70)  # the last label is the best everywhere
    found = bounded_viterbi(unary, np.zeros((1, 70, 70)), products, 70 * 70 * 20)
    assert np.unique(found.codes[np.append(True, np.diff(found.codes) != 0)]).size == 1
    assert found.score == found.bound == 0.0
