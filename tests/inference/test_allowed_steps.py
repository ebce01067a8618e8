"""Chains whose forbidden steps are not visited: against sums and maxima over whole tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from skstruct import SAGCRF, Chain, decode, fit_transitions, log_partition, marginals, sample, top_k
from skstruct.core.jit.kernels import kernel
from skstruct.inference.allowed_steps import (
    allowed_steps,
    best_allowed,
    draw_allowed,
    n_best_allowed,
    step_scratch,
    sum_allowed,
)
from skstruct.inference.numerics import fast_log
from skstruct.inference.viterbi import viterbi, viterbi_scratch, viterbi_top_k
from skstruct.spaces.chain import AllowedChainSpace


def _band(n_labels, half, rng, scale=1.0):
    labels = np.arange(n_labels)
    table = scale * rng.normal(size=(n_labels, n_labels))
    table[np.abs(labels[:, None] - labels) > half] = -np.inf
    return table


def _draw(seed, n, n_labels, kind, scale):
    rng = np.random.default_rng(seed)
    unary = scale * rng.normal(size=(n, n_labels))
    if kind == "band":
        table = _band(n_labels, 2, rng, scale)
    else:
        table = scale * rng.normal(size=(n_labels, n_labels))
        table[rng.random(table.shape) > float(kind)] = -np.inf
        unary[rng.random(unary.shape) < 0.2] = -np.inf
    return unary, table, rng


def _all_sums(unary, table):
    """The log-partition, marginals, and logarithms of sums over the rest of the nodes."""
    with np.errstate(all="ignore"):
        forth, back = [unary[0]], [unary[-1]]
        for row in unary[1:]:
            forth.append(row + logsumexp(forth[-1][:, None] + table, axis=0))
        for row in unary[-2::-1]:
            back.append(row + logsumexp(table + back[-1], axis=1))
        back = np.array(back[::-1])
        both = np.array(forth) + back - np.where(np.isfinite(unary), unary, 0.0)
        log_z = logsumexp(forth[-1])
        return log_z, np.exp(both - logsumexp(both, axis=1, keepdims=True)), back


@pytest.mark.slow
@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    n_labels=st.sampled_from([8, 9, 23, 24, 25, 32, 50]),
    kind=st.sampled_from(["band", "0.0", "0.03", "0.3", "1.0"]),
    scale=st.sampled_from([0.1, 1.0, 100.0, 1e4]),
    temperature=st.sampled_from([1.0, 0.5]),
)
def test_equal_to_whole_tables(seed, n, n_labels, kind, scale, temperature):
    unary, table, rng = _draw(seed, n, n_labels, kind, scale)
    into, out = allowed_steps(table), allowed_steps(table.T)
    work, labels = viterbi_scratch(n, n_labels, 4), np.zeros((2, n), dtype=np.int32)
    value = best_allowed(unary, into, labels[0], work)
    assert value == viterbi(unary, table[None], labels[1], work)
    values, several = np.empty((2, 4)), np.empty((2, 4, n), dtype=np.int32)
    n_best_allowed(unary, into, values[0], several[0], work)
    viterbi_top_k(unary, table[None], values[1], several[1], work)
    np.testing.assert_array_equal(*values)
    np.testing.assert_array_equal(*several)

    forth, back = step_scratch(into, n), step_scratch(out, n)
    node, uniforms = np.empty((n, n_labels)), rng.random((n, 3))
    log_z, right, rest = _all_sums(unary / temperature, table / temperature)
    # Twice: what the first call left in the scratch must not matter.
    for _ in range(2):
        found = sum_allowed(unary, into, out, temperature, node, forth, back)
    draws = np.empty((3, n), dtype=np.int32)
    drawn = draw_allowed(unary, into, out, uniforms, draws, back)
    if value == -np.inf:
        assert found == drawn == -np.inf
        assert np.isnan(node).all()
        return
    np.testing.assert_array_equal(labels[0], labels[1])
    np.testing.assert_allclose(found, temperature * log_z, rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(node, right, atol=1e-12 * max(scale, 10.0))
    log_z, _, rest = _all_sums(unary, table)
    np.testing.assert_allclose(drawn, log_z, rtol=1e-12, atol=1e-12 * scale)
    for draw, own in zip(draws, uniforms.T, strict=True):
        for t, label in enumerate(draw):
            weights = rest[t] + (table[draw[t - 1]] if t else 0.0)
            ends = np.cumsum(np.exp(weights - logsumexp(weights)))
            slack = 1e-12 * max(scale, 10.0)
            assert ends[label] >= own[t] - slack
            assert label == 0 or ends[label - 1] <= own[t] + slack


def test_far_labels_differ_by_more_than_a_float_holds():
    """Bands keep labels apart: sums of thousands of nodes differ by thousands between them."""
    rng = np.random.default_rng(0)
    n, n_labels = 400, 120
    unary = -np.abs(np.arange(n_labels) - 20.0) * np.linspace(0.0, 2.0, n)[:, None]
    unary[-1] = -100.0 * np.abs(np.arange(n_labels) - 110.0)  # far from where all nodes were
    table = _band(n_labels, 2, rng)
    log_z, right, _ = _all_sums(unary, table)
    np.testing.assert_allclose(log_partition(unary, table), log_z, rtol=1e-13)
    np.testing.assert_allclose(marginals(unary, table), right, atol=1e-10)


@pytest.mark.parametrize("huge", [-1e30, 1e12, 1e298])
def test_huge_scores_cost_no_digits(huge):
    """A node, or all steps, may be shifted: float32's minimum is a usual filling."""
    rng = np.random.default_rng(1)
    scores, table = rng.normal(size=(6, 100)), _band(100, 2, rng)
    scores[3] = 0.0
    right, log_z = marginals(scores, table), log_partition(scores, table)
    shifted = scores + np.where(np.arange(6) == 3, huge, 0.0)[:, None]
    np.testing.assert_allclose(marginals(shifted, table), right, rtol=1e-12)
    np.testing.assert_allclose(log_partition(shifted, table), log_z + huge, rtol=1e-12)
    # Of huge steps the best ones are left: those that stay at one label.
    steps = np.where(np.isfinite(table), -abs(huge), -np.inf)
    steps[np.arange(100), np.arange(100)] = table[np.arange(100), np.arange(100)] = 0.0
    table[~np.eye(100, dtype=bool)] = -np.inf
    right = marginals(scores, table)
    np.testing.assert_allclose(marginals(scores, steps), right, rtol=1e-12)
    draws = sample(scores, 5, steps, random_state=0)
    assert (draws == draws[:, :1]).all()
    # Scores of steps alone, each in another place of a float.
    steps = abs(huge) * _band(100, 2, rng)
    found = marginals(scores, steps)
    assert found.argmax(axis=1).tolist() == decode(scores, steps).tolist()
    np.testing.assert_allclose(found.max(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_labels", [16, 40])
def test_functions_of_plain_arrays(n_labels):
    """The same with a table for each step, which is read whole."""
    rng = np.random.default_rng(n_labels)
    scores, table = rng.normal(size=(5, n_labels)), _band(n_labels, 1, rng)
    ends = {"start": rng.normal(size=n_labels), "stop": rng.normal(size=n_labels)}
    each = np.repeat(table[None], 4, axis=0)
    assert decode(scores, table, **ends).tolist() == decode(scores, each, **ends).tolist()
    for function in (log_partition, marginals):
        np.testing.assert_allclose(function(scores, table, **ends), function(scores, each, **ends))
    for a, b in zip(top_k(scores, 3, table, **ends), top_k(scores, 3, each, **ends), strict=True):
        np.testing.assert_allclose(a, b)
    draws = [sample(scores, 9, steps, random_state=0, **ends).tolist() for steps in (table, each)]
    assert draws[0] == draws[1]
    # Labels far apart at neighbouring nodes: no labelling is allowed.
    scores[1, :-1], scores[2, 1:] = -np.inf, -np.inf
    for function in (
        decode,
        log_partition,
        marginals,
        sample,
        lambda *task: top_k(task[0], 2, table),
    ):
        with pytest.raises(ValueError, match="sample 0: no labelling is allowed"):
            function(scores, *([1] if function is sample else []), table)


@pytest.mark.parametrize("n_labels", [16, 40, 70])
@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_whole_tables_that_all_samples_share(n_labels, shift):
    """The ranges of a table are found once, with zeros in it or not; ties as in one per step."""
    rng = np.random.default_rng(n_labels)
    scores = rng.integers(-2, 3, size=(5, 7, n_labels)).astype(float)
    table = shift + rng.integers(-1, 2, (n_labels,) * 2) * (rng.random((n_labels,) * 2) < 0.1)
    table[3], table[5, 5] = -np.inf, -np.inf
    each = np.repeat(table[None], 6, axis=0)
    assert decode(scores, table).tolist() == decode(scores, each).tolist()
    for a, b in zip(top_k(scores, 5, table), top_k(scores, 5, each), strict=True):
        np.testing.assert_array_equal(a, b)


def test_padded_samples_and_threads():
    rng = np.random.default_rng(3)
    scores, table, lengths = rng.normal(size=(6, 9, 30)), _band(30, 2, rng), [9, 1, 0, 4, 9, 2]
    for function in (decode, marginals, log_partition):
        found = [function(scores, table, lengths=lengths, n_jobs=n_jobs) for n_jobs in (1, 2)]
        np.testing.assert_array_equal(*found)
        one = function(scores[3, :4], table)
        np.testing.assert_allclose(found[0][3, :4] if np.ndim(one) else found[0][3], one)


def test_trained_models_skip_forbidden_steps():
    """Positions that move by one at most; scores of these steps are learned."""
    rng, n_labels = np.random.default_rng(0), 40
    y = [np.clip(np.cumsum(rng.integers(-1, 2, 30)) + 20, 0, 39) for _ in range(9)]
    y.append(np.arange(n_labels))
    X = [own[:, None] / 10.0 + rng.normal(size=(len(own), 3)) for own in y]
    jumps = [(a, b) for a in range(n_labels) for b in range(n_labels) if abs(a - b) > 1]
    model = SAGCRF(Chain(forbidden=jumps), max_iter=3, tol=1e-9)
    with pytest.warns(match="did not converge"):
        model.fit(X, y)
    problem = model._problem_of(model._read_samples(X), None)[2]
    problem = model.graph_.decoding(problem, model._weights())
    assert isinstance(problem.space, AllowedChainSpace)
    for x, found in zip(X, model.predict(X), strict=True):
        table = model.pairwise_coef_ + problem.space.transition_mask
        each = np.repeat(table[None], len(x) - 1, axis=0)
        assert decode(x @ model.coef_.T + model.intercept_, each).tolist() == list(found)


def test_fit_transitions_of_many_labels_keeps_pairs():
    labels = ["O"] + [f"{tag}-{k:02}" for tag in "BI" for k in range(12)]
    y = [["B-03", "I-03", "O", "B-11"]]
    found = fit_transitions(np.zeros((1, 4, 25)), y, scheme="bio", labels=labels)
    assert decode(np.zeros((2, 25)), found, labels=labels).tolist() == ["B-03", "I-03"]


@kernel
def _logs(values, out):
    for k in range(values.shape[0]):
        out[k] = fast_log(values[k])
    return 0.0


def test_fast_log():
    rng = np.random.default_rng(0)
    near = np.linspace(0.3, 3.0, 10_001)
    values = np.concatenate([np.exp(rng.uniform(-700, 700, 10_000)), near, 2.0 ** np.arange(-9, 9)])
    out = np.empty_like(values)
    _logs(values, out)
    np.testing.assert_allclose(out, np.log(values), rtol=5e-16, atol=1e-16)
