"""Paths in acyclic graphs against the enumeration of all paths."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from skstruct.inference.arcs import (
    Arcs,
    arc_scratch,
    best_path,
    best_paths,
    draw_path,
    sum_paths,
)

N_RIGHT, N_LEFT = 3, 2


def _graph(rng, n, n_arcs):
    """A random graph; some of its vertices are on no path."""
    begin = rng.integers(0, n, size=n_arcs)
    end = np.array([rng.integers(b + 1, n + 1) for b in begin])
    order = np.argsort(end, kind="stable")
    ptr = np.searchsorted(end[order], np.arange(n + 2))
    left, right = (rng.integers(k, size=n_arcs).astype(np.int32) for k in (N_LEFT, N_RIGHT))
    return Arcs(ptr.astype(np.int64), begin[order].astype(np.int32), left, right)


def _all_paths(arcs, v):
    """Every path from 0 to v, as lists of arcs."""
    if v == 0:
        return [[]]
    return [
        [*path, q]
        for q in range(arcs.ptr[v], arcs.ptr[v + 1])
        for path in _all_paths(arcs, arcs.begin[q])
    ]


def _score(arcs, scores, table, path):
    steps = itertools.pairwise(path)
    connected = sum(table[arcs.right[a], arcs.left[b]] for a, b in steps)
    return sum(scores[q] for q in path) + connected


def _read(arcs, n, path):
    """A path as a list of arcs."""
    found, v = [], n
    while v > 0:
        found.append(int(path[v]))
        v = arcs.begin[path[v]]
    return found[::-1]


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 14),
    st.sampled_from([0.0, 1.0, 1e4]),
    st.sampled_from([0.0, 0.2, 0.6]),
)
def test_all_algorithms_agree_with_all_paths(seed, n, n_arcs, scale, forbidden):
    rng = np.random.default_rng(seed)
    arcs = _graph(rng, n, n_arcs)
    scores, table = scale * rng.normal(size=n_arcs), scale * rng.normal(size=(N_RIGHT, N_LEFT))
    scores[rng.random(n_arcs) < forbidden] = -np.inf
    table[rng.random(table.shape) < forbidden / 2] = -np.inf
    every = _all_paths(arcs, n)
    values = np.array([_score(arcs, scores, table, path) for path in every])
    possible = [path for path, value in zip(every, values, strict=True) if value > -np.inf]
    best = values.max(initial=-np.inf)
    work, path = arc_scratch(n + 1, N_RIGHT, N_LEFT, 30), np.full(n + 1, -1, dtype=np.int32)
    close = {"rtol": 1e-12, "atol": 1e-12 * max(scale, 1.0)}

    value = best_path(arcs, n, scores, table, path, work)
    np.testing.assert_allclose(value, best, **close)
    if possible:
        np.testing.assert_allclose(_score(arcs, scores, table, _read(arcs, n, path)), best, **close)

    found, paths = np.empty(30), np.full((30, n + 1), -1, dtype=np.int32)
    best_paths(arcs, n, scores, table, found, paths, work)
    expected = np.full(30, -np.inf)
    ordered = np.sort(values[values > -np.inf])[::-1][:30]
    expected[: ordered.size] = ordered
    np.testing.assert_allclose(found, expected, **close)
    read = [tuple(_read(arcs, n, row)) for row in paths[: ordered.size]]
    assert len(set(read)) == ordered.size
    own = [_score(arcs, scores, table, row) for row in read]
    np.testing.assert_allclose(own, ordered, **close)

    uses = np.array([[q in path for q in range(n_arcs)] for path in every]).reshape(-1, n_arcs)
    for temperature in (1.0, 0.2):
        marginals, connections = np.empty(n_arcs + 1), np.empty_like(table)
        rest = arcs, n, scores, table, temperature
        log_z = sum_paths(*rest, marginals, connections, work)
        assert not np.isnan(marginals[:n_arcs]).any()
        assert not np.isnan(connections).any()
        alone = sum_paths(*rest, np.empty_like(marginals), connections[:0], work)
        np.testing.assert_array_equal(alone, log_z)
        if not possible:
            assert log_z == -np.inf
            assert not marginals[:n_arcs].any()
            continue
        of_all = logsumexp(values / temperature)
        np.testing.assert_allclose(log_z, temperature * of_all, **close)
        shares = np.exp(values / temperature - of_all)
        np.testing.assert_allclose(marginals[:n_arcs], shares @ uses, atol=1e-9)
        counts = np.zeros_like(table)
        for own, share in zip(every, shares, strict=True):
            for a, b in itertools.pairwise(own):
                counts[arcs.right[a], arcs.left[b]] += share
        np.testing.assert_allclose(connections, counts, atol=1e-9)

    log_z = sum_paths(arcs, n, scores, table, 1.0, marginals, connections, work)
    uniforms = rng.random((n, 4))
    for d in range(4 if possible else 0):
        draw_path(arcs, n, scores, table, log_z, uniforms, d, path, work)
        assert _read(arcs, n, path) in possible


def test_draws_have_the_probabilities_of_paths():
    rng = np.random.default_rng(3)
    arcs = _graph(rng, 4, 12)
    scores, table = rng.normal(size=12), rng.normal(size=(N_RIGHT, N_LEFT))
    every = _all_paths(arcs, 4)
    values = np.array([_score(arcs, scores, table, path) for path in every])
    work, path, room = arc_scratch(5, N_RIGHT, N_LEFT), np.empty(5, dtype=np.int32), np.empty(12)
    log_z = sum_paths(arcs, 4, scores, table, 1.0, room, table[:0], work)
    uniforms, read = rng.random((4, 20_000)), []
    for d in range(uniforms.shape[1]):
        draw_path(arcs, 4, scores, table, log_z, uniforms, d, path, work)
        read.append(_read(arcs, 4, path))
    shares = [read.count(path) / len(read) for path in every]
    np.testing.assert_allclose(shares, np.exp(values - logsumexp(values)), atol=0.015)


@pytest.mark.parametrize("gap", [300.0, 3e4])
def test_connections_far_apart_lose_nothing(gap):
    """One left class is reached by a connection whose factor underflows."""
    ptr = np.array([0, 0, 1, 2], dtype=np.int64)
    classes = np.array([0, 1], dtype=np.int32)
    arcs = Arcs(ptr, np.array([0, 1], dtype=np.int32), classes, np.zeros(2, dtype=np.int32))
    table, marginals = np.array([[gap, -gap]]), np.empty(2)
    scratch = arc_scratch(3, 1, 2)
    log_z = sum_paths(arcs, 2, np.zeros(2), table, 1.0, marginals, np.empty((1, 2)), scratch)
    assert log_z == -gap
    np.testing.assert_array_equal(marginals, 1.0)


@pytest.mark.parametrize("scale", [1e17, 1e295])
@pytest.mark.parametrize("seed", range(20))
def test_huge_scores_leave_no_nan(scale, seed):
    rng = np.random.default_rng(seed)
    arcs = _graph(rng, 5, 20)
    scores, table = scale * rng.normal(size=20), scale * rng.normal(size=(N_RIGHT, N_LEFT))
    every, work = _all_paths(arcs, 5), arc_scratch(6, N_RIGHT, N_LEFT)
    marginals, connections, path = np.empty(20), table.copy(), np.empty(6, dtype=np.int32)
    log_z = sum_paths(arcs, 5, scores, table, 1.0, marginals, connections, work)
    assert ((marginals >= 0) & (marginals <= 1 + 1e-9)).all()
    assert ((connections >= 0) & (connections <= 5 * N_RIGHT * N_LEFT)).all()
    if every:
        best = max(_score(arcs, scores, table, path) for path in every)
        np.testing.assert_allclose(log_z, best, rtol=1e-12)
        draw_path(arcs, 5, scores, table, log_z, rng.random((5, 1)), 0, path, work)
        assert _read(arcs, 5, path) in every
