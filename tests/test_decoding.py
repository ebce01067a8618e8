"""Scores in plain arrays: against enumeration, against estimators, in every container."""

import itertools
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

import skstruct
from skstruct import (
    SAGCRF,
    AtLeastOnce,
    AtMostOnce,
    Before,
    Chain,
    RaggedArray,
    decode,
    fit_transitions,
    top_k,
)
from skstruct.core.jit import solver_kernel
from skstruct.decoding import Transitions, log_partition, marginals, sample

FUNCTIONS = decode, marginals, log_partition, sample, partial(top_k, k=2)
BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def _all_scores(scores, tables, start, stop):
    """Every labelling of one sequence, in lexicographic order, and its score."""
    n, n_labels = scores.shape
    paths = np.array([*itertools.product(range(n_labels), repeat=n)]).reshape(-1, n)
    values = scores[np.arange(n), paths].sum(axis=1) + start[paths[:, 0]] + stop[paths[:, -1]]
    for t in range(1, n):
        values = values + tables[t - 1, paths[:, t - 1], paths[:, t]]
    return paths, values


def _draw(seed, n, n_labels, per_step, holes):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, n_labels)) * rng.choice([0.3, 3.0, 300.0])
    tables = rng.normal(size=(n - 1 if per_step else 1, n_labels, n_labels))
    ends = rng.normal(size=(2, n_labels))
    if holes:
        for array in (scores, tables, ends):
            array[rng.random(array.shape) < 0.2] = -np.inf
    return scores, tables if per_step else tables[0], *ends


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 4), n_labels=st.integers(1, 4),
    per_step=st.booleans(), holes=st.booleans(),
)  # fmt: skip
def test_against_enumeration(seed, n, n_labels, per_step, holes):
    scores, tables, start, stop = _draw(seed, n, n_labels, per_step, holes)
    every = np.broadcast_to(tables, (n - 1, n_labels, n_labels))
    paths, values = _all_scores(scores, every, start, stop)
    ends = {"start": start, "stop": stop}
    if not (values > -np.inf).any():
        for function in FUNCTIONS:
            with pytest.raises(ValueError, match="sample 0: no labelling is allowed"):
                function(scores, transitions=tables, **ends)
        return
    log_z, ranked = logsumexp(values), np.sort(values)[::-1]
    best = decode(scores, tables, **ends)
    by_path = {tuple(path): value for path, value in zip(paths.tolist(), values, strict=True)}
    np.testing.assert_allclose(by_path[tuple(best.tolist())], ranked[0], rtol=1e-12)
    labellings, found = top_k(scores, 5, tables, **ends)
    expected = ranked[ranked > -np.inf][:5]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert len({tuple(path) for path in labellings.tolist()}) == len(expected)
    np.testing.assert_allclose([by_path[tuple(path)] for path in labellings.tolist()], found)
    assert np.array_equal(labellings[0], best)
    np.testing.assert_allclose(log_partition(scores, tables, **ends), log_z, rtol=1e-12, atol=1e-12)
    chances = np.exp(values - log_z)
    table = np.stack([np.bincount(paths[:, t], chances, n_labels) for t in range(n)])
    np.testing.assert_allclose(marginals(scores, tables, **ends), table, atol=1e-11)
    for path in sample(scores, 3, tables, random_state=seed % 100, **ends).tolist():
        assert by_path[tuple(path)] > -np.inf


LENGTHS = [3, 0, 4, 1]
SCORES = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
TABLE = np.random.default_rng(1).normal(size=(3, 3))
ENDS = np.cumsum([0, *LENGTHS])
PARTS = [SCORES[a:b] for a, b in itertools.pairwise(ENDS)]
PADDED = np.full((4, 4, 3), np.nan, dtype=np.float32)  # what is in the padding does not matter
MASK = np.arange(4) < np.array(LENGTHS)[:, None]
PADDED[MASK] = SCORES


class _Hidden:
    def __init__(self, values):
        self.values = values


class _ByArray(_Hidden):
    def __array__(self, dtype=None, copy=None):
        return self.values


class _ByDLPack(_Hidden):
    def __dlpack__(self, **how):
        return self.values.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def _torch(values):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(np.array(values)).requires_grad_()


def _locked(values):
    values = np.asfortranarray(values)
    values.flags.writeable = False
    return values


CONTAINERS = {
    "padded": (lambda: PADDED, {"lengths": LENGTHS}),
    "mask": (lambda: PADDED, {"lengths": MASK}),
    "double": (lambda: PADDED.astype(np.float64), {"lengths": np.array(LENGTHS, dtype=np.int32)}),
    "locked": (lambda: _locked(PADDED), {"lengths": LENGTHS}),
    "torch": (lambda: _torch(PADDED), {"lengths": LENGTHS}),
    "array": (lambda: _ByArray(PADDED), {"lengths": LENGTHS}),
    "dlpack": (lambda: _ByDLPack(PADDED), {"lengths": LENGTHS}),
    "packed": (lambda: SCORES, {"lengths": LENGTHS}),
    "list": (lambda: PARTS, {}),
    "lists": (lambda: tuple(part.tolist() if len(part) else part for part in PARTS), {}),
    "tensors": (lambda: [_torch(part) for part in PARTS], {}),
    "objects": (lambda: np.array([*PARTS, None], dtype=object)[:-1], {}),
    "ragged": (lambda: RaggedArray(SCORES, ENDS), {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers(kind):
    make, how = CONTAINERS[kind]
    scores = make()
    is_padded = how and kind != "packed"
    one_by_one = [decode(part, TABLE) for part in PARTS]
    assert one_by_one[1].shape == (0,)
    found, named = (
        decode(scores, TABLE, **how),
        decode(scores, TABLE, labels=["a", "b", "c"], **how),
    )
    chances, log_z = marginals(scores, TABLE, **how), log_partition(scores, TABLE, **how)
    labellings, values = top_k(scores, 2, TABLE, **how)
    draws = sample(scores, 5, TABLE, random_state=0, **how)
    assert log_z.tolist() == [log_partition(part, TABLE) for part in PARTS]
    assert log_z[1] == 0.0
    if is_padded:
        assert found.shape == (4, 4)
        assert (found[~MASK] == -1).all()
        assert (named[~MASK] == None).all()  # noqa: E711
        assert not chances[~MASK].any()
        assert labellings.shape == (4, 2, 4)
        assert (labellings[~MASK[:, None].repeat(2, 1)] == -1).all()
        assert draws.shape == (4, 5, 4)
        assert values.tolist()[1] == [0.0, -np.inf]
        named, found, chances = named[MASK], found[MASK], chances[MASK]
    elif kind == "packed":
        assert found.shape == (8,)
    else:
        assert type(found) is (RaggedArray if kind == "ragged" else np.ndarray)
        assert draws[1].shape == (5, 0)
        named, found, chances = map(np.concatenate, (list(named), list(found), list(chances)))
    assert found.tolist() == np.concatenate(one_by_one).tolist()
    assert named.tolist() == np.array(["a", "b", "c"])[found].tolist()
    assert np.array_equal(chances, np.concatenate([marginals(part, TABLE) for part in PARTS]))
    for i, (part, length) in enumerate(zip(PARTS, LENGTHS, strict=True)):
        best, best_values = top_k(part, 2, TABLE)
        assert labellings[i][: len(best), :length].tolist() == best.tolist()
        assert values[i][: len(best)].tolist() == best_values.tolist()
        assert ((draws[i][:, :length] >= 0) & (draws[i][:, :length] < 3)).all()


def test_bfloat16():
    torch = pytest.importorskip("torch")
    scores = torch.from_numpy(SCORES).bfloat16()
    assert np.array_equal(decode(scores, TABLE), decode(scores.float(), TABLE))


def test_tables_of_steps():
    """One for each step, in each container."""
    tables = np.random.default_rng(2).normal(size=(4, 3, 3, 3))
    parts = [table[: max(n - 1, 0)] for table, n in zip(tables, LENGTHS, strict=True)]
    right = [decode(*pair).tolist() for pair in zip(PARTS, parts, strict=True)]
    given = {
        "padded": (PADDED, tables, {"lengths": LENGTHS}),
        "packed": (SCORES, np.concatenate(parts), {"lengths": LENGTHS}),
        "list": (PARTS, parts, {}),
        "ragged": (RaggedArray(SCORES, ENDS), RaggedArray.from_list(parts), {}),
    }
    for scores, steps, how in given.values():
        found = decode(scores, steps, **how)
        flat = found[MASK] if found.ndim == 2 else found if how else np.concatenate(list(found))
        assert flat.tolist() == [*itertools.chain(*right)]
    same = decode(PADDED, np.broadcast_to(tables[0], tables.shape), lengths=LENGTHS)
    assert np.array_equal(decode(PADDED, tables[0], lengths=LENGTHS), same)


def test_no_samples():
    none = np.zeros((0, 5, 3))
    assert decode(none).shape == (0, 5)
    assert marginals(none).shape == (0, 5, 3)
    assert log_partition(none).shape == (0,)
    assert top_k(none, 2)[0].shape == (0, 2, 5)
    assert sample(none, 2).shape == (0, 2, 5)
    assert decode(np.zeros((2, 0, 3))).shape == (2, 0)


@pytest.fixture(scope="module", params=["sparse", "dense"])
def crf(request):
    """A model on features of which each node has one, so that its scores are rows of weights."""
    rng = np.random.default_rng(0)
    words = [rng.integers(6, size=n) for n in (5, 1, 7, 3, 4)]
    features = [np.eye(6)[row] for row in words]
    X = [sparse.csr_matrix(x) for x in features] if request.param == "sparse" else features
    y = [["O", "B-X", "I-X", "B-Y", "O", "O", "B-X"][: len(row)] for row in words]
    graph = Chain(boundary=True, forbidden="bio")
    model = SAGCRF(graph, fit_intercept=False, random_state=0).fit(X, y)
    return model, X, [model.node_weights_[row] for row in words]


def test_same_bits_as_estimators(crf):
    model, X, scores = crf
    start, stop = model.boundary_coef_
    given = {"labels": model.classes_, "scheme": "bio", "start": start, "stop": stop}
    table = model.pairwise_coef_
    for mine, other in zip(decode(scores, table, **given), model.predict(X), strict=True):
        assert mine.tolist() == other.tolist()
    for mine, other in zip(
        marginals(scores, table, **given), model.predict_marginals(X), strict=True
    ):
        assert np.array_equal(mine, other)
    mine, other = top_k(scores, 4, table, **given), model.predict_top_k(X, 4)
    for a, b in zip(itertools.chain(*mine), itertools.chain(*other), strict=True):
        assert np.array_equal(a, b)


def test_kernels_of_estimators_serve(crf):
    model, X, scores = crf
    if not sparse.issparse(X[0]):
        return
    model.predict(X), model.predict_marginals(X), model.predict_top_k(X, 2)
    known = solver_kernel._of_parts.values()
    before = sum(map(len, known))
    decode(scores), marginals(scores), top_k(scores, 2)
    assert sum(map(len, known)) == before


def test_empty_samples_do_not_shift_the_numbers():
    y = ["O", "B-X", "I-X"], [], ["O", "O", "O", "I-X"], [], ["I-X"], []
    scores = [np.zeros((len(row), 3)) for row in y]
    for last, message in ((3, "sample 2, node 2"), (6, "sample 4 has the label 'I-X'")):
        given = [*y[:2], ["O"] * 4, *y[3:]] if last > 3 else y
        with pytest.raises(ValueError, match=message):
            fit_transitions(scores, given, labels=BIO[:3], scheme="bio")


RULES = [AtMostOnce(), AtLeastOnce("X"), Before("X", "Y")]


def _obeys(path):
    """Whether codes of O, X and Y obey the rules."""
    runs = [k for k, _ in itertools.groupby(path)]
    is_ordered = 2 not in runs or runs.index(1) < runs.index(2) if 1 in runs else False
    return runs.count(1) == 1 and runs.count(2) <= 1 and is_ordered


@pytest.mark.parametrize("per_step", [True, False])
def test_rules(per_step):
    """Against enumeration, in batches with empty samples; those that clash are named."""
    rng = np.random.default_rng(0)
    lengths = [0, 3, 4, 1, 0, 4, 3]
    scores = [rng.normal(size=(n, 3)) for n in lengths]
    table = rng.normal(size=(3, 3))
    tables = [rng.normal(size=(max(n - 1, 0), 3, 3)) for n in lengths] if per_step else table
    names = np.array(["O", "X", "Y"])
    given = {"transitions": tables, "labels": names, "rules": RULES, "n_jobs": 2}
    found, chances = decode(scores, **given), marginals(scores, **given)
    log_z, draws = log_partition(scores, **given), sample(scores, 4, random_state=0, **given)
    labellings, best = top_k(scores, 5, **given)
    for i, part in enumerate(scores):
        if not len(part):
            assert log_z[i] == 0.0
            continue
        steps = tables[i] if per_step else np.broadcast_to(table, (len(part) - 1, 3, 3))
        paths, values = _all_scores(part, steps, np.zeros(3), np.zeros(3))
        obeys = np.array([*map(_obeys, paths.tolist())])
        paths, values = paths[obeys], values[obeys]
        ranked = np.sort(values)[::-1][:5]
        assert found[i].tolist() == names[paths[np.argmax(values)]].tolist()
        np.testing.assert_allclose(best[i], ranked, rtol=1e-12)
        by_path = dict(zip(map(tuple, names[paths].tolist()), values, strict=True))
        found_values = [by_path[tuple(path)] for path in labellings[i].tolist()]
        np.testing.assert_allclose(found_values, ranked, rtol=1e-12)
        np.testing.assert_allclose(log_z[i], logsumexp(values), rtol=1e-12)
        shares = np.exp(values - logsumexp(values))
        expected = np.stack([np.bincount(column, shares, 3) for column in paths.T])
        np.testing.assert_allclose(chances[i], expected, atol=1e-12)
        assert {*map(tuple, draws[i].tolist())} <= {*by_path}
    clashing = [AtLeastOnce("X"), AtLeastOnce("Y")]
    with pytest.raises(ValueError, match=r"sample 3: .*AtLeastOnce.*AtLeastOnce"):
        decode(scores, tables, labels=names, rules=clashing)
    one = decode([[0.0, -np.inf, 0.0]] * 2, labels=names, rules=[AtLeastOnce("Y")])
    assert sorted(one) == ["O", "Y"]


def test_draws_under_rules_follow_the_distribution():
    rng = np.random.default_rng(0)
    scores, n = rng.normal(size=(3, 3)), 20_000
    paths, values = _all_scores(scores, np.zeros((2, 3, 3)), np.zeros(3), np.zeros(3))
    values = np.where([*map(_obeys, paths.tolist())], values, -np.inf)
    chances = np.exp(values - logsumexp(values))
    draws = sample(scores, n, labels=["O", "X", "Y"], rules=RULES, random_state=0)
    counts = np.bincount(np.searchsorted(["O", "X", "Y"], draws) @ [9, 3, 1], minlength=27)
    deviation = np.sqrt(n * chances * (1 - chances)) + 1e-9
    assert (np.abs(counts - n * chances) <= 5 * deviation).all()


def test_transitions_are_learnt_under_rules():
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(4, 3)) for _ in range(6)]
    y = [["X", "O", "Y", "O"], ["O", "X", "X", "Y"]] * 3
    given = {"labels": ["O", "X", "Y"], "rules": RULES, "C": 10}
    found = fit_transitions(scores, y, **given)
    total = 0.0
    for part, own in zip(scores, y, strict=True):
        tables = np.broadcast_to(found.transitions, (3, 3, 3))
        paths, values = _all_scores(part, tables, found.start, found.stop)
        truth = (paths == np.searchsorted(["O", "X", "Y"], own)).all(axis=1)
        total += logsumexp(values[[*map(_obeys, paths.tolist())]]) - values[truth][0]
    squares = sum(float((table**2).sum()) for table in found[:3])
    np.testing.assert_allclose(found.objective, squares / 120 + total / 6, rtol=1e-12)
    assert found.objective < fit_transitions(scores, y, labels=["O", "X", "Y"], C=10).objective
    with pytest.raises(ValueError, match=r"labels of sample 1 break the rule AtMostOnce"):
        fit_transitions(scores[:2], [y[0], ["X", "O", "X", "O"]], **given)


def test_many_of_the_best():
    """All there are of more than a thousand, in order; ties as with fewer."""
    rng = np.random.default_rng(0)
    scores, table = rng.normal(size=(7, 3)).round(1), rng.normal(size=(3, 3)).round(1)
    paths, values = _all_scores(scores, np.broadcast_to(table, (6, 3, 3)), *np.zeros((2, 3)))
    labellings, found = top_k(scores, 5000, table)
    np.testing.assert_allclose(found, np.sort(values)[::-1], atol=1e-12)
    assert len({*map(tuple, labellings.tolist())}) == len(paths) == len(labellings)
    for k in (1, 2, 3, 10, 700):
        assert np.array_equal(top_k(scores, k, table)[0], labellings[:k])


def test_what_does_not_fit_into_memory_is_refused():
    for k in (10**9, 10**13):
        with pytest.raises(MemoryError, match=r"best labellings of 1 .* lower k"):
            top_k(np.zeros((200, 2)), k)
        with pytest.raises(MemoryError, match=r"labellings of 1 samples .* \(n_samples\)"):
            sample(np.zeros((200, 2)), k)


def test_ties_go_to_the_first_label():
    assert decode(np.zeros((3, 4))).tolist() == [0, 0, 0]
    assert decode(np.zeros((3, 80))).tolist() == [0, 0, 0]  # few transitions of many labels
    assert decode([[0.0, 1.0, 1.0]], labels=["c", "b", "a"]).tolist() == ["b"]


def test_threads_change_no_bit():
    rng = np.random.default_rng(0)
    scores, table = rng.normal(size=(900, 12, 4)), rng.normal(size=(4, 4))
    lengths = rng.integers(13, size=900)
    for function in (decode, marginals, log_partition):
        one, two = (function(scores, table, lengths=lengths, n_jobs=n) for n in (1, 2))
        assert np.array_equal(one, two)
    one, two = (sample(scores, 2, table, lengths=lengths, random_state=0, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one, two)
    one, two = (fit_transitions(scores, one[:, 0], lengths=lengths, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one.transitions, two.transitions)


def test_draws_follow_the_distribution():
    scores, table, start, stop = _draw(3, 3, 3, False, False)
    scores = scores / np.abs(scores).max()
    table[0, 1] = -np.inf
    _, values = _all_scores(scores, np.broadcast_to(table, (2, 3, 3)), start, stop)
    chances, n = np.exp(values - logsumexp(values)), 100_000
    draws = sample(scores, n, table, start=start, stop=stop, random_state=0)
    assert np.array_equal(draws, sample(scores, n, table, start=start, stop=stop, random_state=0))
    counts = np.bincount(draws @ [9, 3, 1], minlength=27)
    assert not counts[chances == 0.0].any()
    deviation = np.sqrt(n * chances * (1 - chances)) + 1e-9
    assert (np.abs(counts - n * chances) <= 5 * deviation).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": np.zeros((2, 3, 4, 1))}, ValueError, "scores must be of shape"),
        ({"scores": np.zeros(3)}, ValueError, "scores must be of shape"),
        ({"scores": np.zeros((3, 0))}, ValueError, "scores must be of shape"),
        ({"scores": "OBI"}, ValueError, "scores is not numeric"),
        ({"scores": []}, ValueError, "scores is an empty list"),
        ({"scores": None}, ValueError, "scores must be of shape"),
        ({"scores": csr_array(np.eye(3))}, TypeError, "scores is a sparse matrix"),
        ({"scores": [csr_array(np.eye(3))]}, TypeError, "scores: sample 0 is a sparse matrix"),
        ({"scores": np.ma.masked_greater(SCORES, 0.0)}, ValueError, "scores has masked entries"),
        ({"transitions": np.zeros(3)}, ValueError, r"transitions must be of shape \(3, 3\)"),
        ({"transitions": []}, ValueError, r"transitions must be of shape \(3, 3\)"),
        ({"scores": [np.zeros((2, 3)), np.zeros((2, 4))]}, ValueError, "sample 1 has"),
        ({"scores": PARTS, "lengths": [1]}, ValueError, "lengths is for arrays"),
        ({"lengths": [3, 0, 5, 1]}, ValueError, "sample 2 has length 5, but scores is padded to 4"),
        ({"lengths": [3, 0, -1, 1]}, ValueError, "sample 2 has length -1"),
        ({"lengths": [3, 1]}, ValueError, "lengths has 2 entries, but scores has 4 samples"),
        ({"scores": np.zeros((4, 4, 3)), "lengths": MASK[:, ::-1],
          "transitions": np.zeros((3, 3, 3))}, ValueError, "is for a mask without holes"),
        ({"transitions": np.zeros((3, 2))}, ValueError, r"transitions must be of shape \(3, 3\)"),
        ({"transitions": np.zeros((2, 2))}, ValueError, "the last axis of scores is labels"),
        ({"transitions": np.zeros((2, 3, 3))}, ValueError, "transitions must be of shape"),
        ({"scores": PARTS, "transitions": [np.zeros((2, 3, 3))] * 4}, ValueError,
         "transitions: sample 1 must have a table for each of 0 steps"),
        ({"scores": PARTS, "transitions": [np.zeros((2, 3, 3))]}, ValueError,
         "transitions: sample 0"),
        ({"scores": SCORES, "transitions": np.zeros((8, 3, 3))}, ValueError, r"shape \(7, 3, 3\)"),
        ({"transitions": [[0, 0, np.nan]] * 3}, ValueError, r"the value nan at \(0, 2\)"),
        ({"transitions": np.full((3, 3), np.inf, dtype=np.float32)}, ValueError, "the value inf"),
        ({"start": np.zeros(2)}, ValueError, "start must be of shape"),
        ({"stop": [0, np.inf, 0]}, ValueError, "stop has the value inf"),
        ({"labels": ["a", "b"]}, ValueError, "labels must be 3 different names"),
        ({"labels": ["a", "b", "a"]}, ValueError, "labels must be 3 different names"),
        ({"scheme": {"bio": []}}, TypeError, "scheme must be a list of pairs and schemes, got"),
        ({"scheme": "bio"}, ValueError, "scheme='iob2': 0 is not a label of this scheme; labels="),
        ({"scheme": "bio", "labels": ["a", "b", "c"]}, ValueError, "scheme='iob2': 'a' is not"),
        ({"scheme": "bi", "labels": BIO[:3]}, ValueError, "scheme must be a scheme"),
        ({"scheme": [(0, 3)]}, ValueError, "scheme: unknown label 3"),
        ({"scheme": [(0, k) for k in range(3)] + [(None, 1), (None, 2)]}, ValueError,
         "sample 0: no labelling is allowed"),
        ({"transitions": Transitions(TABLE, TABLE[0], TABLE[0]), "start": TABLE[0]}, ValueError,
         "among the transitions"),
    ],
)  # fmt: skip
def test_bad_input(change, error, message):
    given = {"scores": PADDED, "lengths": LENGTHS} | change
    if given["scores"] is not PADDED and "lengths" not in change:
        del given["lengths"]
    with pytest.raises(error, match=message):
        decode(**given)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["padded", "list", "packed", "ragged"])
def test_scores_that_are_not_finite(value, kind):
    how = CONTAINERS[kind][1]
    bad = SCORES.copy()
    bad[5, 1] = value
    scores = {
        "padded": np.where(SCORES[5, 1] == PADDED, value, PADDED), "packed": bad,
        "list": [bad[a:b] for a, b in itertools.pairwise(ENDS)], "ragged": RaggedArray(bad, ENDS),
    }[kind]  # fmt: skip
    for function in FUNCTIONS:
        with pytest.raises(ValueError, match=f"sample 2 has the value {value} at node 2, label 1"):
            function(scores, **how)


def test_infeasible_samples_are_counted_with_empty_ones():
    scores = PADDED.copy()
    scores[2, 1] = -np.inf
    for function in FUNCTIONS:
        with pytest.raises(ValueError, match="sample 2: no labelling is allowed"):
            function(scores, lengths=LENGTHS)


def _objective(x, parts, y, lam):
    """``lam/2 |x|^2 + mean NLL`` of a table and two ends, by enumeration."""
    n_labels = parts[0].shape[1]
    table, start, stop = np.split(x, [n_labels**2, n_labels * (n_labels + 1)])
    total = 0.0
    for scores, labels in zip(parts, y, strict=True):
        tables = np.broadcast_to(table.reshape(n_labels, -1), (len(scores) - 1, n_labels, n_labels))
        paths, values = _all_scores(scores, tables, start, stop)
        total += logsumexp(values) - values[(paths == labels).all(axis=1)][0]
    return 0.5 * lam * x @ x + total / len(parts)


def test_learnt_table_is_optimal():
    parts = [PARTS[i].astype(np.float64) for i in (0, 2, 3)]
    y = [[0, 1, 2], [2, 0, 1, 0], [1]]
    found = fit_transitions([*parts, PARTS[1]], [*y, []], C=2.0)
    x = np.concatenate([found.transitions.ravel(), found.start, found.stop])
    other = minimize(_objective, np.zeros(15), args=(parts, y, 1 / 6), tol=1e-10)
    np.testing.assert_allclose(found.objective, _objective(x, parts, y, 1 / 6), rtol=1e-12)
    assert found.objective - found.gap <= other.fun
    assert found.gap <= 1e-6 * found.objective
    as_tuple = decode(parts, found.transitions, start=found.start, stop=found.stop)
    assert [a.tolist() for a in decode(parts, found)] == [a.tolist() for a in as_tuple]


def test_labels_come_in_any_form():
    names = np.array(["c", "a", "b"])
    y = [[0, 1, 2], [], [2, 0, 1, 0], [1]]
    padded = np.full((4, 4), -1)
    padded[MASK] = [*itertools.chain(*y)]
    right = fit_transitions(PARTS, y)
    named = [names[row].tolist() for row in y]
    for scores, labels, how in (
        (PADDED, padded, {"lengths": LENGTHS}),
        (PADDED, y, {"lengths": LENGTHS}),
        (SCORES, padded[MASK], {"lengths": LENGTHS}),
        (PARTS, named, {"labels": names}),
        (RaggedArray(SCORES, ENDS), RaggedArray(padded[MASK], ENDS), {}),
    ):
        assert np.array_equal(fit_transitions(scores, labels, **how).transitions, right.transitions)
    one = fit_transitions(PARTS[0], y[0])
    assert np.array_equal(one.start, fit_transitions(PARTS[:1], y[:1]).start)


# Of each scheme the kinds of some steps, in the order of the six names.
KINDS = {
    "bio": ("O->O O->B B->I I->I I->O I->B", "O O, O B-X, B-X I-X, I-X I-X, I-X O, I-X B-X"),
    "iob1": ("O->O O->B B->I I->I I->O I->B", "O O, O I-X, B-X I-X, I-X I-X, I-X O, I-X B-X"),
    "bioes": ("O->O O->B I->I I->E E->O E->B", "O O, O S-X, B-X I-X, I-X E-X, S-X O, E-X B-X"),
    "bilou": ("O->O O->B I->I I->E E->O E->B", "O O, O U-X, B-X I-X, B-X L-X, L-X O, U-X U-X"),
    "ioe2": ("O->O O->B I->I I->E E->O E->B", "O O, O E-X, I-X I-X, I-X E-X, E-X O, E-X I-X"),
    "ioe1": ("O->O O->B I->I I->E E->O E->B", "O O, O I-X, I-X I-X, I-X E-X, I-X O, E-X I-X"),
}


def test_labels_that_a_scheme_excludes_are_named():
    labels, scores = ["O", "B-X", "I-X"], np.eye(3)
    said = "scheme='iobes' allows no sequence with the labels B-X, I-X: do the labels follow"
    with pytest.warns(UserWarning, match=said):
        assert decode(scores, labels=labels, scheme="iobes").tolist() == ["O"] * 3
    with pytest.warns(UserWarning, match=said):
        skstruct.OnlineDecoder(labels=labels, scheme="iobes", lag=2)
    assert decode(scores, labels=labels, scheme="bio").tolist() == labels


@pytest.mark.parametrize("scheme", KINDS)
def test_six_biases(scheme):
    names, steps = KINDS[scheme]
    steps = [step.split() for step in steps.split(", ")]
    labels = sorted({*itertools.chain(*steps)})
    place = {label: k for k, label in enumerate(labels)}
    rng = np.random.default_rng(0)
    table = np.zeros((len(labels), len(labels)))
    scores = rng.normal(size=(20, 6, len(labels)))
    y = decode(scores, table, scheme=scheme, labels=labels)
    found = fit_transitions(scores, y, scheme=scheme, labels=labels, kind="biases")
    assert [*found.biases] == names.split()
    for (a, b), value in zip(steps, found.biases.values(), strict=True):
        assert found.transitions[place[a], place[b]] == value
    assert set(found.transitions.ravel()) <= {-np.inf, *found.biases.values()}
    assert set(found.start) | set(found.stop) <= {0.0, -np.inf}
    named = {"labels": labels}
    assert np.array_equal(
        decode(scores, found, **named), decode(scores, found, scheme=scheme, **named)
    )
    assert found.gap <= 1e-6 * found.objective


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "six"}, 'kind must be "table" or "biases"'),
        ({"kind": "biases"}, "needs a tagging scheme"),
        ({"C": 0.0}, "C must be a finite number of at least 1e-100, got 0.0"),
        ({"C": 5e-324}, "C must be a finite number"),
        ({"C": "1"}, "C must be a finite number"),
        ({"C": 10**400}, "C must be a finite number"),
        ({"tol": True}, "tol must be a finite number"),
        ({"tol": np.nan}, "tol must be a finite number of at least 0, got nan"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
        ({"y": np.ma.array(np.zeros((4, 4)), mask=True)}, "y has masked entries"),
        ({"y": [[0, 1, 2], [], [2, 0, 3, 0], [1]]}, r"unknown label 3 \(sample 2, node 2\)"),
        ({"y": [[0, 1, 2], [], [2, 0, 1], [1]]}, "sample 2: scores has 4 nodes, but y has 3"),
        ({"scheme": [(0, 1)]}, r"y: sample 0, node 0 has the forbidden step \(0, 1\)"),
        ({"scores": np.where(SCORES[4, 0] == SCORES, -np.inf, SCORES), "lengths": LENGTHS,
          "y": [0, 1, 2, 2, 0, 1, 0, 1]}, "sample 2: its labels score -inf"),
        ({"scores": PARTS[1:2], "y": [[]]}, "nothing to learn from"),
    ],
)  # fmt: skip
def test_bad_input_to_fit(change, message):
    given = {"scores": PARTS, "y": [[0, 1, 2], [], [2, 0, 1, 0], [1]]} | change
    with pytest.raises(ValueError, match=message):
        fit_transitions(**given)


def test_a_warning_if_not_converged():
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        fit_transitions(PARTS, [[0, 1, 2], [], [2, 0, 1, 0], [1]], max_iter=1, C=100)


@pytest.mark.parametrize("function", [top_k, sample])
def test_counts_are_positive(function):
    for count, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="must be an integer of at least 1"):
            function(PARTS[0], count)
    with pytest.raises(MemoryError, match="labellings of 1 samples would take"):
        function(PARTS[0], 10**12)


def test_nodes_beside_a_hole_of_a_mask_are_neighbours():
    rng = np.random.default_rng(0)
    mask = rng.random((4, 9)) < 0.5
    mask[0], mask[1, 0], mask[1, 4] = False, False, True
    scores, y = rng.normal(size=(4, 9, 3)), rng.integers(3, size=(4, 9))
    scores[~mask] = np.nan
    parts = [row[on] for row, on in zip(scores, mask, strict=True)]
    for function, fill in ((decode, -1), (marginals, 0)):
        found = function(scores, TABLE, lengths=mask)
        np.testing.assert_allclose(found[mask], np.concatenate(list(function(parts, TABLE))))
        assert (found[~mask] == fill).all()
    labellings, values = top_k(scores, 2, TABLE, lengths=mask)
    others, right = top_k(parts, 2, TABLE)
    for i in range(1, 4):
        np.testing.assert_allclose(values[i, : len(right[i])], right[i])
        np.testing.assert_array_equal(labellings[i][: len(right[i]), mask[i]], others[i])
    found = fit_transitions(scores, np.where(mask, y, -100), lengths=mask)
    right = fit_transitions(parts, [row[on] for row, on in zip(y, mask, strict=True)])
    np.testing.assert_allclose(found.transitions, right.transitions)
    last = int(mask[3].nonzero()[0][-1])
    scores[3, last, 1] = np.nan
    with pytest.raises(ValueError, match=f"sample 3 has the value nan at node {last}"):
        decode(scores, lengths=mask)


def test_names_at_the_top():
    names = [name for name in skstruct.decoding.__all__ if not re.match("[A-Z]", name)]
    assert all(getattr(skstruct, name) is getattr(skstruct.decoding, name) for name in names)


def test_integer_masks_and_names_of_labels_by_number():
    scores, mask = np.zeros((2, 3, 2)), np.array([[1, 1, 0], [1, 1, 1]])
    scores[..., 1] = 1.0
    with pytest.raises(TypeError, match=r"a mask is of type bool, pass mask.astype\(bool\)"):
        decode(scores, lengths=mask)
    names = {0: "O", 1: "B-X"}
    by_text = {"1": "B-X", "0": "O"}  # as JSON has it
    for labels in (names, by_text, names.values(), ["O", "B-X"]):
        assert (decode(scores, labels=labels) == "B-X").all()
    for labels, message in (
        ({"O": 0, "B-X": 1}, "keys must be the numbers 0 to 1 .*id2label, not label2id"),
        ({0: "O", 2: "B-X"}, "keys must be the numbers 0 to 1"),
        ({0: "O"}, "labels must be 2 different names, got"),
    ):
        with pytest.raises(ValueError, match=message):
            decode(scores, labels=labels)


@pytest.mark.parametrize("y", [[[0, None], [1, 0]], [[0, {0, 1}], [1, 0]], [[0, np.nan], [1, 0]]])
def test_learning_transitions_needs_all_labels(y):
    with pytest.raises(ValueError, match=r"y: sample 0.*SAGCRF\(\).fit\(scores, y\)"):
        fit_transitions([np.zeros((2, 2))] * 2, y)
