"""Every verb of every kind of region against its table, written out."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from skstruct.core.dispatch import kernel
from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Or,
    Potts,
    Table,
)
from skstruct.map_inference.kinds import verbs
from skstruct.map_inference.kinds.scratch import region_scratch

NOTHING = np.zeros(0)


@kernel
def region_hat(p, r, delta, hat, scratch):
    verbs.region_hat(p, r, delta, hat, scratch)


@kernel
def region_max(p, r, delta, mu, down, scratch):
    return verbs.region_max(p, r, delta, mu, down, scratch)


@kernel
def region_soft_max(p, r, delta, gamma, mu, down, scratch):
    return verbs.region_soft_max(p, r, delta, gamma, mu, down, scratch)


@kernel
def region_project(p, r, delta, gamma, mu, down, scratch):
    return verbs.region_project(p, r, delta, gamma, mu, down, scratch)


@kernel
def region_max_marginals(p, r, delta, down, scratch):
    return verbs.region_max_marginals(p, r, delta, down, scratch)


@kernel
def region_soft_marginals(p, r, delta, gamma, down, scratch):
    return verbs.region_soft_marginals(p, r, delta, gamma, down, scratch)


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
        if verbs.has_verb(p.kind[r], "region_project"):
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
    nested = "pairs" if structure == "nested" else "variables"
    graph = FactorGraph(n_states, factors, unaries=unaries, regions=nested)
    return graph, numbers(graph.regions.message_ptr[-1])


def structure_class(name):
    return {"exactly": ExactlyOne, "at-most": AtMostOne, "or": Or}[name]


STRUCTURES = "table2 table3 table4 nested potts cardinality exactly at-most or".split()


@pytest.mark.parametrize("structure", STRUCTURES)
@given(data=st.data(), gamma=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_verbs_equal_those_of_the_table(structure, data, gamma):
    graph, delta = data.draw(graphs(structure))
    for r in range(graph.regions.kind.size):
        check_region(graph, r, delta, gamma)
