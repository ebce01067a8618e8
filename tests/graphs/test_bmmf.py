"""The n best labellings by max-marginals: against enumeration, and where there is another way."""

from collections import namedtuple
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skstruct import Chain, Pairwise, Tree
from skstruct.core import oracles
from skstruct.core.weights import Weights
from skstruct.graphs import n_best_scratch, top_k_by_max_marginals
from skstruct.spaces.chain import ChainSpace
from skstruct.spaces.forest import TreeSpace
from skstruct.spaces.n_best import branch_scratch, confine, note_second, split_best
from skstruct.testing import check_structure, random_sequences, training_problem

# Verbs that are compiled for no other test: as plain Python (test_structures.py).
pytestmark = pytest.mark.plain

# The sets alone, on plain arrays


def _table(rng, n, n_states):
    """Scores of all labellings, with ties and with some that do not count."""
    labellings = np.array(list(product(range(n_states), repeat=n)), dtype=np.int32)
    scores = rng.integers(-2, 3, len(labellings)).astype(float)
    scores[rng.random(len(scores)) < rng.choice([0.0, 0.3, 0.9])] = -np.inf
    return labellings, scores


def _best_under(labellings, scores, unary):
    """The best labelling that `unary` leaves, and the max-marginals."""
    left = scores + unary[np.arange(unary.shape[0]), labellings].sum(axis=1)
    forced = labellings[:, :, None] == np.arange(unary.shape[1])
    return left.argmax(), np.where(forced, left[:, None, None], -np.inf).max(axis=0)


@given(st.integers(0, 10**6))
def test_sets_of_any_function_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    n, n_states = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    labellings, scores = _table(rng, n, n_states)
    n_best = int(rng.integers(2, len(labellings) + 3))
    branches = branch_scratch(n_best)
    feasible = np.sort(scores[np.isfinite(scores)])[::-1]

    def look_into(s, count):
        unary = np.zeros((n, n_states))
        confine(branches, s, count, unary)
        _, best_through = _best_under(labellings, scores, unary)
        note_second(branches, s, labellings[found[s]], best_through)

    found = [scores.argmax()]
    if feasible.size == 0:
        return
    look_into(0, 1)
    for s in range(1, n_best):
        parent = split_best(branches, s)
        if parent < 0:
            break
        unary = np.zeros((n, n_states))
        confine(branches, s, s + 1, unary)
        found.append(_best_under(labellings, scores, unary)[0])
        look_into(parent, s + 1)
        look_into(s, s + 1)
    assert_array_equal(scores[found], feasible[:n_best])
    assert len(set(found)) == len(found)


# Chains and trees, which have another way


class ChainByMaxMarginals(ChainSpace):
    """Chains without their own n best."""


class TreeByMaxMarginals(TreeSpace):
    """Trees without theirs."""


for kind in (ChainByMaxMarginals, TreeByMaxMarginals):
    oracles.top_k_oracle.register(kind)(top_k_by_max_marginals)

ChainWork = namedtuple("ChainWork", "best sums n_best")
TreeWork = namedtuple("TreeWork", "tree pairs shares n_best")


def _by_max_marginals(problem, n_best):
    kind, work = {
        ChainSpace: (ChainByMaxMarginals, ChainWork),
        TreeSpace: (TreeByMaxMarginals, TreeWork),
    }[type(problem.space)]
    space = problem.space
    room = n_best_scratch(space.part_ptr, space.label_ptr, space.allowed.shape[1], n_best)
    return problem._replace(space=kind(*space._replace(work=work(*space.work, room))))


def _random_trees(X, rng):
    parents = [np.array([-1, *(rng.integers(0, t) for t in range(1, len(x)))]) for x in X]
    return [(x, parent) for x, parent in zip(X, parents, strict=True)]


def _as_graph(sample):
    x, parent = sample
    edges = np.stack([parent[1:], np.arange(1, len(x))], axis=1)
    return x, edges.reshape(-1, 2)


def _pairs(samples, y):
    """Which steps from a parent to a child occur."""
    return {
        (labels[p], label)
        for (_, parent), labels in zip(samples, y, strict=True)
        for p, label in zip(parent[1:], labels[1:], strict=True)
    }


def _ask(problem, i, theta, n_best):
    n = int(np.diff(problem.label_ptr)[i])
    values, labels = np.zeros(n_best), np.zeros((n_best, n), dtype=np.int32)
    oracles.top_k_oracle(problem, i, theta, values, labels)
    return values, labels


@given(st.integers(0, 10**6))
def test_chains_trees_and_junction_trees_agree_with_their_own_n_best(seed):
    rng = np.random.default_rng(seed)
    X, y = random_sequences(rng, n_samples=2, max_length=5)
    chains, trees = [(x, np.arange(len(x)) - 1) for x in X], _random_trees(X, rng)
    y[0][0], y[1][0] = "a", "b"
    is_used = [("a", "b") in _pairs(samples, y) for samples in (chains, trees)]
    steps, graphs = list(map(_as_graph, chains)), list(map(_as_graph, trees))
    both = [
        (Chain(), is_used[0], X, steps),
        (Tree(), is_used[1], trees, graphs),
    ]
    for structure, keep, samples, as_graphs in both:
        forbidden = None if keep else [("a", "b")]
        structure.set_params(forbidden=forbidden)
        native, _, shapes, K = training_problem(structure, samples, y)
        other = training_problem(Pairwise(forbidden=forbidden), as_graphs, y)[0]
        assert other.space.own.inference is not None
        weights = Weights(*(rng.normal(size=shape) for shape in shapes))
        ties = rng.random() < 0.5
        if ties:
            weights = Weights(*(np.round(table) for table in weights.tables))
        for i, labels in enumerate(y):
            theta = np.empty(native.part_ptr[i + 1])
            oracles.potentials(native, i, weights, theta)
            size = len(labels) * K
            if ties:
                theta[:size] = np.round(theta[:size])
            theta[:size][rng.random(size) < 0.2] = -np.inf
            n_best = int(rng.choice([1, 2, 7, K ** len(labels) + 1]))
            expected, _ = _ask(native, i, theta, n_best)
            own = _by_max_marginals(native, n_best)
            plain = theta.copy()
            plain[size:][np.isneginf(plain[size:])] = 0.0  # graphs know forbidden pairs beside
            for problem, given_theta in ((own, theta), (other, plain)):
                values, found = _ask(problem, i, given_theta, n_best)
                assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
                assert (np.diff(values[np.isfinite(values)]) <= 0).all()
                rows = found[np.isfinite(values)]
                assert len({tuple(row) for row in rows}) == len(rows)
                scores = [oracles.score(problem, i, given_theta, row) for row in rows]
                assert_allclose(scores, values[np.isfinite(values)], rtol=1e-12, atol=1e-12)


# Cuts and junction trees: graphs with cycles, of two labels that attract


def _attractive(rng, problem, i):
    """Potentials with ties, hard constraints, and tables that favour equal labels."""
    n = int(np.diff(problem.label_ptr)[i])
    theta = np.round(rng.normal(size=np.diff(problem.part_ptr)[i]), int(rng.integers(0, 9)))
    theta[: 2 * n][rng.random(2 * n) < 0.15] = -np.inf
    tables = theta[2 * n :].reshape(-1, problem.space.width)
    pull = np.append(tables, np.zeros((len(tables), 1)), axis=1)[:, problem.space.own.column]
    tables[pull[:, 0, 0] + pull[:, 1, 1] < pull[:, 0, 1] + pull[:, 1, 0]] *= -1.0
    return theta


# numpy tells of -inf less -inf where compiled kernels do not.
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["full", "symmetric", "potts"]),
    st.sampled_from([None, [("a", "b")], [("a", "b"), ("b", "a")]]),
)
def test_cuts_by_enumeration(seed, interactions, forbidden):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for label in "ab":
        n = int(rng.integers(1, 7))
        edges = [pair for pair in combinations(range(n), 2) if rng.random() < 0.5]
        X.append((np.zeros((n, 1)), np.array(edges, dtype=int).reshape(-1, 2)))
        y.append([label] * n)
    options = {"interactions": interactions, "forbidden": forbidden}
    cut = training_problem(Pairwise(inference="max-flow", attractive=True, **options), X, y)[0]
    tree = training_problem(Pairwise(inference="junction-tree", **options), X, y)[0]
    for i, labels in enumerate(y):
        theta = _attractive(rng, cut, i)
        every = np.array(list(product(range(2), repeat=len(labels))), dtype=np.int32)
        scores = np.array([oracles.score(cut, i, theta, row) for row in every])
        n_best = int(rng.choice([2, 9, len(every) + 1]))
        expected = np.append(np.sort(scores)[::-1], np.full(n_best, -np.inf))[:n_best]
        for problem in (cut, tree):
            values, found = _ask(problem, i, theta, n_best)
            assert_allclose(values, expected, rtol=1e-12, atol=1e-11)
            rows = found[np.isfinite(values)]
            assert len({tuple(row) for row in rows}) == len(rows)
            honest = [oracles.score(cut, i, theta, row) for row in rows]
            assert_allclose(honest, expected[np.isfinite(values)], rtol=1e-12, atol=1e-11)


class WithoutMarginals(ChainSpace.__base__):
    """A space that lacks what it would need."""


for verb in (oracles.max_oracle, oracles.top_k_oracle):
    function = top_k_by_max_marginals if verb is oracles.top_k_oracle else None
    verb.register(WithoutMarginals)(function or verb.registry[ChainSpace])


class Lacking(Chain):
    def make_problem(self, *arguments, **options):
        problem = super().make_problem(*arguments, **options)
        return problem._replace(space=WithoutMarginals(*problem.space))


def test_what_it_lacks_is_said():
    X, y = random_sequences(np.random.default_rng(0), n_samples=3)
    message = "WithoutMarginals does not register max_marginals; n_best_scratch as work.n_best"
    with pytest.raises(AssertionError, match=message):
        check_structure(Lacking(), X, y)
