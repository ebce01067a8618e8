"""Every verb of every kind of region against its table, written out."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from skstruct.core.jit.kernels import kernel
from skstruct.map_inference import AtMostOne, Cardinality, ExactlyOne, FactorGraph, Or, Potts, Table
from skstruct.map_inference.kinds import operations
from skstruct.map_inference.kinds.scratch import region_scratch
from skstruct.map_inference.kinds.table import fill_hat
from skstruct.map_inference.regions import CARDINALITY, OR

NOTHING = np.zeros(0)


@kernel
def region_hat(p, r, delta, hat, scratch):
    fill_hat(p, r, delta, hat, scratch)


@kernel
def region_max(p, r, delta, mu, down, scratch):
    return operations.region_max(p, r, delta, mu, down, scratch)


@kernel
def region_soft_max(p, r, delta, gamma, mu, down, scratch):
    return operations.region_soft_max(p, r, delta, gamma, mu, down, scratch)


@kernel
def region_project(p, r, delta, gamma, mu, down, scratch):
    return operations.region_project(p, r, delta, gamma, mu, down, scratch)


@kernel
def region_max_marginals(p, r, delta, down, scratch):
    return operations.region_max_marginals(p, r, delta, down, scratch)


@kernel
def region_soft_marginals(p, r, delta, gamma, down, scratch):
    return operations.region_soft_marginals(p, r, delta, gamma, down, scratch)


def position(labels, scope, p):
    """Configuration of a region's variables, the last fastest."""
    at = 0
    for v in scope:
        at = at * p.n_states[v] + labels[v]
    return int(at)


class Dense:
    """A region written out: reparametrised scores, and the children's configurations."""

    def __init__(self, graph, r, delta):
        p = graph.regions
        self.p, self.r = p, r
        scope = p.scope[p.scope_ptr[r] : p.scope_ptr[r + 1]]
        rows = list(itertools.product(*(range(p.n_states[v]) for v in scope)))
        self.own = [self.own_score(graph, r, dict(zip(scope, row, strict=True))) for row in rows]
        hat, indices, self.slots = np.array(self.own, dtype=float), [], []
        for q in p.parent[p.parent_ptr[r] : p.parent_ptr[r + 1]]:
            hat += delta[p.message_ptr[q] : p.message_ptr[q + 1]]
        for s in range(p.slot_ptr[r], p.slot_ptr[r + 1]):
            inside = p.scope[p.scope_ptr[p.child[s]] : p.scope_ptr[p.child[s] + 1]]
            index = [position(dict(zip(scope, row, strict=True)), inside, p) for row in rows]
            hat -= delta[p.message_ptr[s] + np.array(index)]
            self.slots.append(slice(p.message_ptr[s], p.message_ptr[s + 1]))
            indices.append(np.array(index))
        self.hat, self.indices = hat, indices
        self.scale = 1.0 + np.abs(delta).sum() + np.abs(hat[np.isfinite(hat)]).max(initial=0.0)

    @staticmethod
    def own_score(graph, r, labels):
        if r < graph.n_variables:
            return graph.unary[graph.state_ptr[r] + labels[r]]
        row = r - graph.n_variables
        for batch in graph.factors:
            if row < len(batch):
                full = np.zeros(graph.n_variables, dtype=np.int64)
                full[list(labels)] = list(labels.values())
                return batch.score(full)[row]
            row -= len(batch)
        raise AssertionError("no such region")

    def down(self, function, empty):
        """An array like the messages, with `function` of each child's configuration's scores."""
        out = np.full(self.p.message_ptr[-1], np.nan)
        for where, index in zip(self.slots, self.indices, strict=True):
            for x in range(where.stop - where.start):
                inside = index == x
                out[where.start + x] = function(inside) if inside.any() else empty
        return out


def soft_max(values, gamma):
    if (values == -np.inf).all():
        return -np.inf
    return gamma * logsumexp(values / gamma)


def projection(hat, gamma):
    z = np.sort((hat[np.isfinite(hat)] - hat.max()) / gamma)[::-1]
    thresholds = (np.cumsum(z) - 1.0) / np.arange(1, z.size + 1)
    threshold = thresholds[np.flatnonzero(z > thresholds)[-1]]
    return np.maximum((hat - hat.max()) / gamma - threshold, 0.0)


def close(ours, theirs, tolerance):
    np.testing.assert_array_equal(np.isneginf(ours), np.isneginf(theirs))
    finite = ~np.isneginf(theirs)
    np.testing.assert_allclose(
        np.asarray(ours)[finite], np.asarray(theirs)[finite], rtol=0, atol=tolerance
    )


def check_marginals(dense, mu, down, expected, value, expected_value, tolerances):
    """Compare a maximiser with that of the table; `mu` and `down` hold what a verb wrote."""
    close(value, expected_value, tolerances[0])
    size = dense.p.size[dense.r]
    if size and mu.size:
        close(mu[:size], expected, tolerances[1])
        assert np.isnan(mu[size:]).all()
    close(down, dense.down(lambda inside: expected[inside].sum(), 0.0), tolerances[1])


def check_region(graph, r, delta, gamma):
    """All verbs of one region."""
    p, dense, scratch = graph.regions, Dense(graph, r, delta), region_scratch(graph.regions)
    hat, feasible = dense.hat, np.isfinite(dense.hat).any()
    best, loose = dense.hat.max(), 1e-12 * dense.scale

    def run(verb, *args, with_mu=None):
        down, mu = np.full_like(delta, np.nan), np.full(p.size[r] + 3, np.nan)
        mus = () if with_mu is None else (mu if with_mu else NOTHING,)
        return verb(p, r, delta, *args, *mus, down, scratch), mu[: mu.size * bool(with_mu)], down

    if p.size[r]:
        ours = np.full(p.size[r], np.nan)
        region_hat(p, r, delta, ours, scratch)
        close(ours, hat, loose)
    first = (np.arange(hat.size) == np.argmax(hat)) * float(feasible)
    soft = softmax(hat / gamma) if feasible else np.zeros_like(hat)
    within = loose * (1.0 + 1.0 / gamma)
    for with_mu in (True, False):
        value, mu, down = run(region_max, with_mu=with_mu)
        check_marginals(dense, mu, down, first, value, best, (loose, 0.0))
        value, mu, down = run(region_soft_max, gamma, with_mu=with_mu)
        tolerances = loose + 1e-12 * gamma, within
        check_marginals(dense, mu, down, soft, value, soft_max(hat, gamma), tolerances)
        if p.kind[r] not in (CARDINALITY, OR):
            u = projection(hat, gamma) if feasible else np.zeros_like(hat)
            linear = (u[u > 0] * hat[u > 0]).sum() if feasible else -np.inf
            value, mu, down = run(region_project, gamma, with_mu=with_mu)
            expected = linear - gamma / 2 * (u**2).sum()
            check_marginals(dense, mu, down, u, value, expected, (loose, within))
    value, _, down = run(region_max_marginals)
    close(value, best, loose)
    close(down, dense.down(lambda inside: hat[inside].max(), -np.inf), loose)
    value, _, down = run(region_soft_marginals, gamma)
    close(value, soft_max(hat, gamma), loose + 1e-12 * gamma)
    expected = dense.down(lambda inside: soft_max(hat[inside], gamma), -np.inf)
    close(down, expected, loose + 1e-12 * gamma)


class Numbers:
    """Random scores: whole numbers, so that there are ties and no rounding, or any."""

    def __init__(self, seed, whole, scale):
        self.rng, self.whole, self.scale = np.random.default_rng(seed), whole, scale

    def __call__(self, *shape, forbidden=0.0):
        values = self.rng.normal(size=shape) * self.scale
        if self.whole:
            values = self.rng.integers(-1, 2, shape).astype(float)
        return np.where(self.rng.random(shape) < forbidden, -np.inf, values)


def make_table(draw, arity, numbers):
    n_states = [draw(st.integers(1, 5 if arity < 3 else 3)) for _ in range(arity + 1)]
    forbidden = draw(st.sampled_from([0.0, 0.3, 0.8, 1.0]))
    scope = numbers.rng.permutation(arity + 1)[:arity]
    scores = numbers(*(n_states[v] for v in scope), forbidden=forbidden)
    return n_states, [Table(scope, scores)]


def make_nested(draw, numbers):
    """A larger table that contains pairs, in either order, twice or overlapping."""
    n_states = [draw(st.integers(1, 3)) for _ in range(4)]
    factors = []
    for _ in range(draw(st.integers(1, 3))):
        i, j = numbers.rng.permutation(4)[:2]
        if draw(st.booleans()):
            factors.append(Potts(i, j, numbers()))
        else:
            factors.append(Table([i, j], numbers(n_states[i], n_states[j], forbidden=0.2)))
    scope = numbers.rng.permutation(4)[: draw(st.integers(3, 4))]
    factors.append(Table(scope, numbers(*(n_states[v] for v in scope), forbidden=0.2)))
    return n_states, factors


@st.composite
def graphs(draw, structure):
    numbers = Numbers(
        draw(st.integers(0, 10**6)), draw(st.booleans()), draw(st.sampled_from((1, 50)))
    )
    n = draw(st.integers(2, 7))
    n_states = [2] * n
    scope, negated = numbers.rng.permutation(n), numbers.rng.random(n) < 0.4
    if structure == "nested":
        n_states, factors = make_nested(draw, numbers)
    elif structure == "nested-wide":
        n_states = [9, 10, 2]
        factors = [Potts(1, 0, numbers()), Table([0, 2, 1], numbers(9, 2, 10, forbidden=0.2))]
    elif structure.startswith("table"):
        n_states, factors = make_table(draw, int(structure[5:]), numbers)
    elif structure == "potts":
        n_states = [draw(st.integers(1, 14)), draw(st.integers(1, 14))]
        factors = [Potts(*numbers.rng.permutation(2), numbers() * draw(st.sampled_from((1, 30))))]
    elif structure == "cardinality":
        forbidden = draw(st.sampled_from([0.0, 0.5, 1.0]))
        factors = [Cardinality(scope, numbers(n + 1, forbidden=forbidden))]
    else:
        factors = [structure_class(structure)(scope, negated if draw(st.booleans()) else None)]
    unaries = [numbers(k, forbidden=draw(st.sampled_from([0.0, 0.5]))) for k in n_states]
    nested = "pairs" if structure.startswith("nested") else "variables"
    graph = FactorGraph(n_states, factors, unaries=unaries, regions=nested)
    return graph, numbers(graph.regions.message_ptr[-1])


def structure_class(name):
    return {"exactly": ExactlyOne, "at-most": AtMostOne, "or": Or}[name]


STRUCTURES = "table2 table3 table4 nested potts cardinality exactly at-most or".split()
PROJECTED = [s for s in STRUCTURES if s not in ("cardinality", "or")]


@pytest.mark.plain
@pytest.mark.parametrize("structure", [*STRUCTURES, "nested-wide"])
@given(data=st.data(), gamma=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
@settings(max_examples=15)
def test_verbs_equal_those_of_the_table(structure, data, gamma):
    graph, delta = data.draw(graphs(structure))
    for r in range(graph.regions.kind.size):
        check_region(graph, r, delta, gamma)


def gains_of(n, whole):
    """A cardinality factor of many variables and messages of its slots."""
    numbers = Numbers(n, whole, 3.0)
    graph = FactorGraph([2] * n, [Cardinality(np.arange(n), numbers(n + 1, forbidden=0.3))])
    return graph, numbers(2 * n)


@pytest.mark.plain
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("n", [2, 15, 16, 17, 31, 33, 70])
def test_many_counted_variables(n, whole):
    graph, delta = gains_of(n, whole)
    p, scratch, counts = graph.regions, region_scratch(graph.regions), graph.regions.scores
    counts = counts[2 * n :]
    off, on = -delta[::2], -delta[1::2]

    def best(join, forced, label):
        """Joined scores of the other variables by count, then with that of the forced one."""
        sums = np.full(n + 1, -np.inf)
        sums[0] = 0.0
        for j in range(n):
            allowed = [k for k in (0, 1) if j != forced or k == label]
            stay = sums + (off[j] if 0 in allowed else -np.inf)
            move = np.r_[-np.inf, sums[:-1]] + (on[j] if 1 in allowed else -np.inf)
            sums = join(stay, move)
        return sums + counts

    tolerance = 1e-12 * (np.abs(delta).sum() + np.abs(counts[np.isfinite(counts)]).max())
    down = np.full_like(delta, np.nan)
    value = region_max_marginals(p, n, delta, down, scratch)
    expected = [best(np.maximum, j, k).max() for j in range(n) for k in (0, 1)]
    close(down, np.array(expected), tolerance)
    close(value, max(expected), tolerance)

    labels = np.full_like(delta, np.nan)
    assert region_max(p, n, delta, NOTHING, labels, scratch) == pytest.approx(value, abs=tolerance)
    labels = labels[1::2].astype(int)
    reached = counts[labels.sum()] + np.where(labels == 1, on, off).sum()
    assert reached == pytest.approx(value, abs=tolerance)
    for gamma in (1e-4, 0.3, 5.0):

        def soft(a, b, gamma=gamma):
            return gamma * np.logaddexp(a / gamma, b / gamma)

        expected = [soft_max(best(soft, j, k), gamma) for j in range(n) for k in (0, 1)]
        value = region_soft_marginals(p, n, delta, gamma, down, scratch)
        close(down, np.array(expected), 10 * tolerance)
        region_soft_max(p, n, delta, gamma, NOTHING, down, scratch)
        pairs = softmax(np.reshape(expected, (n, 2)) / gamma, axis=1)
        close(down, pairs.reshape(-1), 10 * tolerance / gamma)


def test_an_order_kept_from_the_last_messages_changes_nothing():
    """Two factors take turns, messages change a little or altogether; whole numbers, with ties."""
    n, numbers = 50, Numbers(1, True, 1.0)
    scopes = np.stack([np.arange(n), np.arange(n)[::-1]])
    graph = FactorGraph([2] * n, [Cardinality(scopes, numbers(2, n + 1))])
    p, kept = graph.regions, region_scratch(graph.regions)
    delta = numbers(p.message_ptr[-1])
    for turn in range(12):
        delta[numbers.rng.integers(0, delta.size, 1 if turn < 6 else 100)] += 1.0
        r = n + (turn // 3) % 2
        own = slice(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]])
        down, fresh = np.full((2, delta.size), np.nan)
        value = region_max(p, r, delta, NOTHING, down, kept)
        assert value == region_max(p, r, delta, NOTHING, fresh, region_scratch(p))
        np.testing.assert_array_equal(down, fresh)
        assert np.isfinite(down[own]).all()


def test_of_equal_maximisers_the_lowest_wins():
    """Ties within a count, between counts, and between literals that are negated or not."""
    cases = [
        (Cardinality([0, 1, 2], [0, 1, 1, 1]), [0, 0, 1]),
        (Cardinality([0, 1, 2], [0, 0, 3, 1]), [0, 1, 1]),
        (ExactlyOne([0, 1, 2]), [0, 0, 1]),
        (ExactlyOne([0, 1, 2], [False, True, False]), [0, 0, 0]),
        (AtMostOne([0, 1, 2]), [0, 0, 0]),
        (AtMostOne([0, 1, 2], [True, True, False]), [0, 1, 0]),
        (Or([0, 1, 2]), [0, 0, 1]),
        (Potts(0, 1, -1.0), [0, 1]),
        (Table([0, 1], [[0, 2], [2, 2]]), [0, 1]),
    ]
    for factor, labels in cases:
        p = FactorGraph([2, 2, 2], [factor]).regions
        down = np.zeros(p.message_ptr[-1])
        region_max(p, 3, np.zeros_like(down), NOTHING, down, region_scratch(p))
        assert down[1::2].tolist() == labels, factor


@pytest.mark.parametrize(
    ("verb", "structure"),
    [(region_soft_max, s) for s in STRUCTURES] + [(region_project, s) for s in PROJECTED],
)
def test_marginals_are_the_gradient(verb, structure):
    """Of the sum over all regions: what a child has less what its parent says it has."""
    factors = {
        "table2": [Table([1, 0], np.arange(4.0).reshape(2, 2) ** 0.5)],
        "table3": [Table([1, 0, 2], np.cos(np.arange(8.0)).reshape(2, 2, 2))],
        "table4": [Table([1, 0, 2, 3], np.cos(np.arange(16.0)).reshape(2, 2, 2, 2))],
        "nested": [
            Table([1, 0], np.arange(4.0).reshape(2, 2) ** 0.5),
            Potts(2, 0, 0.4),
            Table([1, 0, 2, 3], np.cos(np.arange(16.0)).reshape(2, 2, 2, 2)),
        ],
        "potts": [Potts(0, 1, 0.3)],
        "cardinality": [Cardinality([3, 1, 2, 0], [0, 1, 3, 2, -np.inf])],
        "exactly": [ExactlyOne([3, 1, 0], [True, False, False])],
        "at-most": [AtMostOne([3, 1, 0], [True, False, False])],
        "or": [Or([3, 1, 0], [True, False, False])],
    }[structure]
    n_states = [12] * 4 if structure == "potts" else [2] * 4
    regions = "pairs" if structure.startswith("nested") else "variables"
    graph = FactorGraph(n_states, factors, regions=regions)
    p = graph.regions
    rng, scratch, gamma = np.random.default_rng(3), region_scratch(p), 1.3
    delta = rng.normal(size=p.message_ptr[-1]) * 0.3

    def dual(delta, down, mus):
        return sum(verb(p, r, delta, gamma, mus[r], down, scratch) for r in range(p.kind.size))

    mus, down = [np.zeros(k) for k in p.size], np.zeros_like(delta)
    dual(delta, down, mus)
    gradient = np.concatenate([mus[c] for c in p.child]) - down
    nothing, spare = [NOTHING] * p.kind.size, np.zeros_like(delta)
    for m in range(delta.size):
        step = np.zeros_like(delta)
        step[m] = 1e-5
        slope = (dual(delta + step, spare, nothing) - dual(delta - step, spare, nothing)) / 2e-5
        assert slope == pytest.approx(gradient[m], abs=1e-8)


def test_huge_scores_and_tiny_smoothing_stay_finite():
    """Scores of 1e4 and a gamma of 1e-6: soft maxima are maxima to gamma times a logarithm."""
    numbers = Numbers(0, False, 1e4)
    graph = FactorGraph(
        [2] * 40 + [15] * 2,
        [
            Table([0, 1], numbers(2, 2)),
            Table([0, 1, 2, 3], numbers(2, 2, 2, 2)),
            Potts(40, 41, 1e4),
            Potts(40, 41, -1e4),
            Cardinality.quadratic_hinge(np.arange(40), 9, 1),
            ExactlyOne(np.arange(40)),
            AtMostOne(np.arange(40)),
            Or(np.arange(40)),
            Or(np.arange(40), True),
        ],
    )
    p, scratch = graph.regions, region_scratch(graph.regions)
    delta = numbers(p.message_ptr[-1])
    hard, soft = np.full_like(delta, np.nan), np.full_like(delta, np.nan)
    for r in range(p.kind.size):
        value = region_max_marginals(p, r, delta, hard, scratch)
        above = region_soft_marginals(p, r, delta, 1e-6, soft, scratch) - value
        assert -1e-7 <= above <= 1e-3
    assert np.isfinite(hard).all()
    np.testing.assert_allclose(soft, hard, rtol=0, atol=1e-3)


def test_a_method_names_the_factor_that_lacks_its_verb():
    """With its position among the factors, and what to do instead."""
    factors = [Potts([0, 1], [1, 2], 1.0), Or([[0, 1], [1, 2]]), Cardinality([0, 1], [0, 0, 1])]
    graph = FactorGraph([2, 2, 2], factors)
    with pytest.raises(TypeError, match=r'sdca needs projections, .* factor 2 \(Or\).*"softmax"'):
        operations.require_projection(graph, "sdca")
