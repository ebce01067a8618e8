"""Semi-Markov chains against enumeration, chains, and the solvers among each other."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    SemiChain,
    SubgradientSSVM,
)
from skstruct.data.ragged import RaggedArray
from skstruct.datasets import pack_shards
from skstruct.estimators.persistence import TRUSTED
from skstruct.inspection import coef_frame, explain, transition_frame
from skstruct.metrics import chunks
from skstruct.testing import all_labellings, check_structure, random_sequences

TAGS = [
    ["B-X", "I-X", "O", "B-Y", "I-Y"],
    ["O"],
    ["B-X", "B-X"],
    ["B-Y", "O", "O", "B-X", "I-X", "I-X"],
]


def _features(x, start, stop):
    return np.array([x[start:stop, 0].sum(), x[start, 1] * x[stop - 1, 1]])


def _sequences(y, seed=0, width=2):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(len(labels), width)) for labels in y]


RUNS = [[*"aabbb"], [*"c"], [*"ca"], [*"ccabbb"], [*"aab"]]
# In all but one of more than a hundred segments there is one node.
LONG = [[*"aaaaab"], [*"b"], *[[*"aba"] for _ in range(101)]]
LONG_TAGS = [["B-X", "I-X", "I-X", "O"], *[["B-X", "B-Y", "B-X"] for _ in range(101)]]
CASES = {
    "runs": (SemiChain(), RUNS),
    "curve": (SemiChain(max_length=3, lengths="curve"), RUNS),
    "background": (SemiChain(max_length={"c": np.inf}), RUNS),
    "limits": (SemiChain(max_length={"a": 2, "b": 3, "c": 6}), RUNS),
    "forbidden": (SemiChain(3, forbidden=[("a", "c"), (None, "b"), ("c", None)]), RUNS[:1]),
    "segment features": (SemiChain(3, segment_features=_features), RUNS),
    "tails": (SemiChain(), LONG),
    "curve, tails": (SemiChain(lengths="curve", segment_features=_features), LONG),
    "tags": (SemiChain(scheme="bio"), TAGS),
    "tags, features": (SemiChain(4, "bio", "curve", _features), TAGS),
    "tags, tails": (SemiChain(scheme="iob2"), LONG_TAGS),
    "tags, unnamed": (SemiChain(scheme="bio"), [["B", "I", "O"], ["O", "B"], ["B", "B", "I"]]),
    "tags, forbidden": (SemiChain(3, "bio", forbidden=[("O", "O"), (None, "Y")]), TAGS[:3]),
}
long = pytest.mark.filterwarnings("ignore:.*longer than")


@long
@pytest.mark.plain
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_verb_by_enumeration(case, fit_intercept):
    graph, y = CASES[case]
    if case == "forbidden":
        y = [[*"acab"][:1], [*"abb"], [*"cbaa"], [*"cba"]]
    # A long sample is in the middle of `y` for the samples that are enumerated.
    check_structure(clone(graph), _sequences(y), y, fit_intercept=fit_intercept)


@pytest.mark.plain
@settings(max_examples=15)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["runs", "curve", "background", "segment features", "tags", "tags, features"]),
    st.booleans(),
)
def test_drawn_samples_by_enumeration(seed, case, is_sparse):
    rng = np.random.default_rng(seed)
    graph, y = CASES[case]
    y = [y[i] for i in rng.integers(len(y), size=4)] + y  # all labels occur
    X = _sequences(y, seed)
    X = [sparse.csr_matrix(x) for x in X] if is_sparse and "features" not in case else X
    check_structure(clone(graph), X[-len(y) + 2 :], y[-len(y) + 2 :], random_state=seed)


def test_features_in_an_array_are_those_of_a_function():
    X = _sequences(RUNS)
    arrays = []
    for x in X:
        own = np.full((len(x), 4, 2), 7.0)  # those beyond the end are not looked at
        for t in range(len(x)):
            for size in range(1, min(4, len(x) - t) + 1):
                own[t, size - 1] = _features(x, t, t + size)
        arrays.append((x, own))
    of_function = SAGCRF(SemiChain(3, segment_features=_features), random_state=0).fit(X, RUNS)
    of_array = SAGCRF(SemiChain(3, segment_features=True), random_state=0).fit(arrays, RUNS)
    np.testing.assert_array_equal(of_function.node_weights_, of_array.node_weights_)
    assert of_array.coef_.shape == (3, 2)
    assert of_array.boundary_coef_.shape == (2, 3)
    for one, other in zip(of_function.predict(X), of_array.predict(arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    nothing = X[0][:0], np.empty((0, 4, 2))
    assert [len(own) for own in of_array.predict([nothing, arrays[0]])] == [0, 5]
    few = [(x, own[:, :2]) for x, own in arrays]
    with pytest.raises(ValueError, match="segments of at most 2 nodes, but segments may have 3"):
        of_array.predict(few)
    with pytest.raises(
        ValueError, match=r"sample 0 must be of shape \(5, longest, 2\), got \(5, 4, 1\)"
    ):
        of_array.predict([(x, own[:, :, :1]) for x, own in arrays])
    with pytest.warns(UserWarning, match="'b' are longer than 2 nodes, the longest has 3"):
        SAGCRF(SemiChain(segment_features=True)).fit(few, RUNS)


@pytest.mark.parametrize("case", ["runs", "curve", "tags", "segment features"])
def test_solvers_reach_one_optimum(case):
    graph, y = CASES[case]
    X = _sequences(y, 1)
    crfs = [
        SAGCRF(graph, solver=solver, tol=1e-9, max_iter=2000, random_state=0).fit(X, y)
        for solver in ("sag", "lbfgs", "oeg")
    ]
    best = min(crf.objective_ for crf in crfs)
    for crf in crfs:
        assert crf.objective_ - crf.dual_gap_ <= best
        assert_allclose(crf.objective_, best, rtol=1e-7)
    options = {"tol": 1e-4, "max_iter": 20_000}
    bcfw = BCFWSSVM(graph, random_state=0, **options).fit(X, y)
    casimir = CasimirSSVM(graph, random_state=0, **options).fit(X, y)
    extragradient = ExtragradientSSVM(graph, projection="gibbs", **options).fit(X, y)
    svms = [bcfw, casimir, extragradient]
    bound = max(svm.objective_ - svm.dual_gap_ for svm in svms)
    for svm in svms:
        assert bound <= svm.objective_ <= bound * (1 + 3e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_subgradients_come_close():
    X = _sequences(RUNS, 1)
    best = BCFWSSVM(SemiChain(3), tol=1e-4, max_iter=20_000, random_state=0).fit(X, RUNS)
    svm = SubgradientSSVM(SemiChain(3), max_iter=500, random_state=0).fit(X, RUNS)
    assert best.dual_objective_ <= svm.objective_ <= 1.15 * best.objective_


def _labelling_shares(crf, X):
    """All labellings of one sample and their probabilities."""
    labels, scores = crf.predict_top_k(X, 3000)
    return labels[0], softmax(scores[0])


@long
@pytest.mark.parametrize("case", ["tags", "tags, features", "tags, tails", "tags, unnamed"])
def test_probabilities_of_chunks(case):
    graph, y = CASES[case]
    X = _sequences(y)
    crf = SAGCRF(graph, C=3, random_state=0, tol=1e-2).fit(X, y)
    x = _sequences([[0] * 5], 9)
    labels, shares = _labelling_shares(crf, x)
    sets = [chunks(row) for row in labels]
    every = sorted({chunk for own in sets for chunk in own})
    [found] = crf.predict_chunks(x, chunks=[every])
    for chunk in found:
        expected = shares[[tuple(chunk[:3]) in own for own in sets]].sum()
        assert_allclose(chunk.probability, expected, atol=1e-10)
    best = [tuple(chunk[:3]) for chunk in crf.predict_chunks(x)[0]]
    assert best == chunks(crf.predict(x)[0])
    with pytest.raises(ValueError, match="chunks of this SemiChain are its segments"):
        crf.predict_chunks(x, scheme="iob1")


@long
@pytest.mark.parametrize("case", ["runs", "background", "tails"])
def test_probabilities_of_runs(case):
    graph, y = CASES[case]
    crf = SAGCRF(graph, C=3, random_state=0, tol=1e-2).fit(_sequences(y), y)
    x = _sequences([[0] * 5], 9)
    labels, shares = _labelling_shares(crf, x)
    sets = [chunks(row, scheme="runs") for row in labels]
    every = sorted({chunk for own in sets for chunk in own})
    [found] = crf.predict_chunks(x, chunks=[every], scheme="runs")
    for chunk in found:
        expected = shares[[tuple(chunk[:3]) in own for own in sets]].sum()
        assert_allclose(chunk.probability, expected, atol=1e-10)
    best = [tuple(chunk[:3]) for chunk in crf.predict_chunks(x)[0]]
    assert best == chunks(crf.predict(x)[0], scheme="runs")
    with pytest.raises(ValueError, match="scheme='runs'"):
        crf.predict_chunks(x, scheme="iob2")


@long
@pytest.mark.parametrize("case", ["runs", "tags, tails"])
def test_draws_and_entropy(case):
    graph, y = CASES[case]
    crf = SAGCRF(graph, C=3, random_state=0, tol=1e-2).fit(_sequences(y), y)
    x = _sequences([[0] * 3], 9)
    labels, shares = _labelling_shares(crf, x)
    assert_allclose(crf.predict_entropy(x), -(shares * np.log(shares)).sum(), atol=1e-9)
    drawn = [*map(tuple, crf.sample(x, 20_000, random_state=0)[0])]
    counts = [drawn.count(tuple(row)) / len(drawn) for row in labels]
    assert sum(counts) == pytest.approx(1.0)
    assert_allclose(counts, shares, atol=0.02)
    assert_allclose(crf.predict_log_likelihood(x, [labels[0]]), np.log(shares[0]), atol=1e-9)


def test_labellings_without_segments_have_no_probability():
    crf = SAGCRF(SemiChain(3), random_state=0).fit(_sequences(RUNS), RUNS)
    x = _sequences([[0] * 4])
    values = crf.predict_log_likelihood([x[0]] * 2, [[*"aaab"], [*"aaaa"]])
    assert values[0] > -np.inf
    assert values[1] == -np.inf
    tagger = SAGCRF(SemiChain(3, "bio"), random_state=0).fit(_sequences(TAGS), TAGS)
    wrong = ["O", "I-X", "O", "O"]
    assert tagger.predict_log_likelihood(x, [wrong])[0] == -np.inf


def test_durations_that_a_chain_cannot_tell_apart():
    """Two labels take turns that look almost alike, of 3 and of 6 nodes."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(80):
        turns = [["short"] * 3, ["long"] * 6] * 4
        y.append(np.concatenate(turns[rng.integers(2) :][: rng.integers(2, 6)]))
        X.append(np.where(y[-1] == "long", 0.5, -0.5)[:, None] + rng.normal(size=(y[-1].size, 1)))
    train, test = slice(40), slice(40, None)
    semi = SAGCRF(SemiChain(max_length=6), C=10, random_state=0).fit(X[train], y[train])
    chain = SAGCRF(Chain(), C=10, random_state=0).fit(X[train], y[train])
    assert semi.score(X[test], y[test]) > 0.95
    assert chain.score(X[test], y[test]) < 0.85


def test_segments_in_and_out():
    X = _sequences(TAGS, 1)
    listed = [
        [(0, 2, "X"), (3, 5, "Y")],
        [],
        [(0, 1, "X"), (1, 2, "X")],
        [(3, 6, "X"), (0, 1, "Y")],
    ]
    of_tags = SAGCRF(SemiChain(4, "bio"), C=100, random_state=0).fit(X, TAGS)
    of_lists = SAGCRF(SemiChain(4, "bio"), C=100, random_state=0).fit(X, listed)
    np.testing.assert_array_equal(of_tags.pair_weights_, of_lists.pair_weights_)
    expected = [chunks(labels) for labels in of_tags.predict(X)]
    assert of_lists.predict(X).tolist() == expected
    assert of_lists.score(X, listed) == of_tags.score(X, TAGS)
    assert of_lists.score(X[1:2], [[]]) == of_tags.score(X[1:2], TAGS[1:2])
    ranked, _ = of_lists.predict_top_k(X, 2)
    assert [row[0] for row in ranked] == expected
    assert len(of_lists.sample(X, 3, random_state=0)[1]) == 3
    again = pickle.loads(pickle.dumps(of_lists))
    assert again.predict(X).tolist() == expected
    assert of_lists.predict([X[0][:0]]).tolist() == [[]]
    named = of_lists.predict_chunks(X)  # with a probability at the end
    assert SAGCRF(SemiChain(4, "bio")).fit(X, [*named]).graph_.is_listed_
    # As one array of samples of equal length.
    assert of_lists.predict(np.stack([X[0], X[3][:5]]))[0] == expected[0]


def test_runs_in_and_out():
    X = _sequences(RUNS, 1)
    graph = SemiChain({"b": 3, "a": 2, "c": np.inf})
    listed = [
        [(0, 2, "a"), (2, 5, "b")],
        [(0, 1, "c")],
        [(0, 1, "c"), (1, 2, "a")],
        [(0, 1, "c"), (1, 2, "c"), (2, 3, "a"), (3, 6, "b")],
        [(0, 2, "a"), (2, 3, "b")],
    ]
    of_runs = SAGCRF(graph, C=100, random_state=0).fit(X, RUNS)
    of_lists = SAGCRF(graph, C=100, random_state=0).fit(X, listed)
    np.testing.assert_array_equal(of_runs.pair_weights_, of_lists.pair_weights_)
    expected = [chunks(labels, scheme="runs") for labels in of_runs.predict(X)]
    assert of_lists.predict(X).tolist() == expected


@pytest.mark.parametrize(
    ("graph", "segments", "message"),
    [
        (SemiChain(5, "bio"), [[(0, 9, "X")]], r"sample 0: \(0, 9, 'X'\) is not .*stop <= 5"),
        (SemiChain(5, "bio"), [[("a", 1, "X")]], r"sample 0: \('a', 1, 'X'\) is not"),
        (SemiChain(5, "bio"), [[(0, 2, "X"), (1, 3, "X")]], r"\(1, 3, 'X'\) overlaps"),
        (SemiChain(5), [[(0, 2, "X"), (3, 5, "Y")]], "sample 0: node 2 is in no segment"),
        (SemiChain(5), [[(0, 2, "X"), (2, 5, "X")]], "follows a segment of the same label"),
        (SemiChain(5), [[(0, 5, "X")], []], "X has 1 samples, but y has 2"),
        (SemiChain(5), [[(0, 2, "X"), (2, 5, None)]], r"sample 0: \(2, 5, None\) is not"),
        (SemiChain(5), [[(0, 2, "X"), (2, 5, {"X", "Y"})]], r"sample 0: \(2, 5, \{.* is not"),
    ],
)
def test_wrong_segments_are_named(graph, segments, message):
    with pytest.raises(ValueError, match=message):
        SAGCRF(graph).fit(_sequences([[0] * 5]), segments)


def test_a_label_of_a_chunk_must_be_a_string():
    with pytest.raises(TypeError, match=r"sample 0: the label of .* must be a str"):
        SAGCRF(SemiChain(5, "bio")).fit(_sequences([[0] * 5]), [[(0, 2, 3)]])
    with pytest.raises(TypeError, match=r"sample 1 must be a list of \(start, .*, got None"):
        SAGCRF(SemiChain(5, "bio")).fit(_sequences(TAGS[:2]), [[(0, 2, "X")], None])


@pytest.mark.parametrize(
    ("graph", "y", "message"),
    [
        (
            SemiChain(2),
            RUNS,
            "y: sample 0 has 'b' at node 2, where no segment of at most 2 nodes",
        ),
        (
            SemiChain({"b": 2}),
            RUNS[1:],
            "sample 2 has 'b' at node 3, where no segment of at most 2 nodes",
        ),
        (
            SemiChain(9, "bio"),
            [["B-X", "O"], ["O", "I-X"]],
            "y: sample 1 has 'I-X' at node 1, but no segment that it goes on with",
        ),
        (SemiChain(9, "bio"), [["I-X", "O"]], "y has 'I-X' but never 'B-X'"),
        (SemiChain(9, "bio"), [["S-X", "O"]], "the label 'S-X' is not O, B-... or I-..."),
        (SemiChain(9, "bilou"), TAGS, "scheme must be one of None, 'bio', 'iob2'"),
        (SemiChain(9, lengths="line"), RUNS, "lengths must be one of 'table', 'curve'"),
        (SemiChain({"z": 2}), RUNS, r"max_length: unknown kind 'z'; the kinds are \['a', 'b', 'c'"),
        (SemiChain(0), RUNS, "max_length must be an integer of at least 1, got 0"),
        (SemiChain({"O": 2}, "bio"), TAGS, "the length of 'O' has no limit"),
        (SemiChain({"X": np.inf}, "bio"), TAGS, "max_length: 'X' must have a limit, or None"),
        (SemiChain({"a": np.ones(2)}), RUNS, "max_length must be an integer of at least 1, got a"),
        (SemiChain(9, forbidden="bio"), RUNS, "'a' is not a label of this scheme"),
        (SemiChain(9, forbidden=[("a", "b")]), RUNS, r"sample 0, node 1 has the forbidden step"),
        (SemiChain(9, forbidden=[(None, "c")]), RUNS, "sample 1 has the label 'c', forbidden at"),
        (SemiChain(9), [[None, *"abbb"], *RUNS[1:]], None),
    ],
)
def test_wrong_labels_and_parameters_are_named(graph, y, message):
    X = _sequences(y)
    if message is None:
        SAGCRF(graph).fit(X, y)
        return
    with pytest.raises(ValueError, match=message):
        SAGCRF(graph).fit(X, y)


def test_wrong_segment_features_are_named():
    X = _sequences(RUNS)
    with pytest.raises(TypeError, match="segment_features must be a function, True or None"):
        SAGCRF(SemiChain(3, segment_features="sum")).fit(X, RUNS)

    def uneven(x, start, stop):
        return np.ones(stop - start)

    with pytest.raises(
        ValueError, match="sample 0, start 0, stop 2: expected 1 finite numbers, got"
    ):
        SAGCRF(SemiChain(3, segment_features=uneven)).fit(X, RUNS)
    for wrong in (["q"], [1j], [None], [np.inf]):
        graph = SemiChain(3, segment_features=lambda x, start, stop, wrong=wrong: wrong)
        with pytest.raises(ValueError, match="start 0, stop 1: expected 1 finite numbers, got"):
            SAGCRF(graph).fit(X, RUNS)
    with pytest.raises(ValueError, match="X is None"):
        SAGCRF(graph).fit(None, RUNS)
    graph = SemiChain(3, segment_features=True)
    for samples in (X, [(None, np.ones((5, 3, 1)))]):
        with pytest.raises(ValueError, match="X: sample 0 must be a pair"):
            SAGCRF(graph).fit(samples, RUNS[: len(samples)])
    for array in (np.ones((5, 3)), np.ones((4, 3, 1)), np.ones((5, 3, 0))):
        with pytest.raises(ValueError, match=r"sample 0 must be of shape \(5, longest, "):
            SAGCRF(graph).fit([(X[0], array)], RUNS[:1])
    bad = np.ones((5, 3, 1))
    bad[2, 1] = np.nan
    with pytest.raises(ValueError, match="start 2, stop 4: expected 1 finite"):
        SAGCRF(graph).fit([(X[0], bad)], RUNS[:1])


def test_what_chains_alone_do_is_refused():
    X = _sequences(RUNS)
    with pytest.raises(TypeError, match="SemiChain"):
        GDMMSSVM(SemiChain(9)).fit(X, RUNS)
    with pytest.raises(TypeError, match="rules are for Chain"):
        SAGCRF(SemiChain(9)).fit(X, RUNS).predict(X, rules=[])


def test_streams():
    X, classes = _sequences(RUNS), ["a", "b", "c"]
    with pytest.warns(UserWarning, match="takes the labels of its batch"):
        found = SubgradientSSVM(SemiChain(), random_state=0).partial_fit(X, RUNS)
    given = SubgradientSSVM(SemiChain(), random_state=0).partial_fit(X, RUNS, classes=classes)
    np.testing.assert_array_equal(found.pair_weights_, given.pair_weights_)
    given.partial_fit(X, RUNS)
    assert given.predict(X).shape == (5,)
    # The first batch has no "a": its segments are as long as those of others.
    model = SubgradientSSVM(SemiChain(), random_state=0).partial_fit(X[1:2], RUNS[1:2], classes)
    assert model.graph_.limits_.tolist() == [1, 1, 1]
    model = SubgradientSSVM(SemiChain(), random_state=0).partial_fit(X[:1], RUNS[:1], classes)
    assert model.graph_.limits_.tolist() == [2, 3, 3]
    with pytest.raises(
        ValueError, match="sample 0 has 'b' at node 1, where no segment of at most 2 nodes"
    ):
        SubgradientSSVM(SemiChain(2)).partial_fit([np.ones((4, 2))], [[*"abbb"]], classes)
    # Features of segments are those of the first batch, too, and so is their largest length.
    pairs = [(x, np.ones((len(x), 6, 1))) for x in X]
    model = SubgradientSSVM(SemiChain(segment_features=True), random_state=0)
    model.partial_fit(pairs, RUNS, classes).partial_fit([(X[2], np.ones((2, 2, 1)))], RUNS[2:3])
    assert model.graph_.limits_.tolist() == [2, 3, 2]
    model = SubgradientSSVM(SemiChain(5, segment_features=lambda x, *_: x[0]), random_state=0)
    model.partial_fit([x[:, :1] for x in X], RUNS, classes)
    model.graph_.segment_features = lambda *_: np.ones(2)
    with pytest.raises(ValueError, match="start 0, stop 1: expected 1 finite numbers, got"):
        model.partial_fit([x[:, :1] for x in X], RUNS)
    # Predictions keep the form of the first batch.
    listed = [[(0, 2, "a"), (2, 5, "b")]]
    model = SubgradientSSVM(SemiChain(5)).partial_fit(X[:1], listed, classes)
    assert isinstance(model.partial_fit(X[:1], RUNS[:1]).predict(X[:1])[0], list)


def test_lengths_of_partial_labels():
    y = [[None, *"aabbb"], [{"a", "c"}, *"cc"], ["a", None, None]]
    crf = SAGCRF(SemiChain(), random_state=0).fit(_sequences(y), y)
    assert crf.graph_.limits_.tolist() == [2, 3, 2]
    y = [["B-X", None, "I-X", "O"], [None, "I-Y", "I-Y"], ["B-Y", "O", {"O", "B-X"}]]
    crf = SAGCRF(SemiChain(scheme="bio"), random_state=0).fit(_sequences(y), y)
    assert crf.graph_.limits_.tolist() == [2, 3, 0]
    assert np.isfinite(crf.predict_log_likelihood(_sequences(y), y)).all()
    y = [[*"aabb"], ["a", "a", None, "b", "b"]]  # one of three nodes is longer than the known ones
    crf = SAGCRF(SemiChain(), random_state=0).fit(_sequences(y), y)
    assert crf.graph_.limits_.tolist() == [2, 2]
    assert crf.graph_.tails_.tolist() == [0, 1]
    y = [[*"aab"], [{"a", "c"}]]  # no node is known to be "c"
    crf = SAGCRF(SemiChain(), random_state=0).fit(_sequences(y), y)
    assert crf.graph_.limits_.tolist() == [2, 1, 2]
    y = [[{"a", "b"}, None]]
    with pytest.raises(ValueError, match="max_length must be given: no label tells that of 'a'"):
        SAGCRF(SemiChain()).fit(_sequences(y), y)


@long
def test_shards(tmp_path):
    y = [*RUNS * 3, *LONG]
    X = _sequences(y)
    options = {"solver": "lbfgs", "tol": 1e-6}
    for k, graph in enumerate([SemiChain(), SemiChain({"c": np.inf}, lengths="curve")]):
        shards = pack_shards(X, y, tmp_path / f"{k}", shard_size=20, graph=graph)
        assert shards.graph.get_params() == graph.get_params()
        on_shards, here = SAGCRF(graph, **options), SAGCRF(graph, **options)
        on_shards.fit(shards)
        here.fit(X, y)
        assert on_shards.graph_.limits_.tolist() == here.graph_.limits_.tolist()
        assert on_shards.graph_.tails_.tolist() == here.graph_.tails_.tolist()
        assert_allclose(on_shards.objective_, here.objective_, rtol=1e-5)
        for one, other in zip(on_shards.predict(shards), on_shards.predict(X), strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(
        ValueError, match="sample 2 has 'b' at node 3, where no segment of at most 2 nodes"
    ):
        SAGCRF(SemiChain(2, lengths="curve"), **options).fit(
            pack_shards(X[1:], y[1:], tmp_path / "long", shard_size=2, graph=graph)
        )
    with pytest.raises(ValueError, match="labels of nodes, not segments"):
        pack_shards(X[:1], [[(0, 2, "a"), (2, 5, "b")]], tmp_path / "listed", graph=graph)
    for how in (True, _features):
        with pytest.raises(TypeError, match="segment_features must be None"):
            pack_shards(X, y, tmp_path / "more", graph=SemiChain(segment_features=how))


def test_long_segments_are_warned_of_and_stay_possible():
    longer = [["a"] * 30, *LONG[1:]]
    with pytest.warns(UserWarning, match="segments: 1 of 203 'a' are longer than 1 nodes.* has 30"):
        SAGCRF(SemiChain(), random_state=0).fit(_sequences(longer), longer)
    X = _sequences(LONG, 1)  # with 4 nodes of 207 beyond the quantile
    crf = SAGCRF(SemiChain(), C=100, random_state=0).fit(X, LONG)
    assert crf.graph_.limits_.tolist() == [1, 1]
    weights = crf.graph_.length_weights(crf)
    assert {name: own.size for name, own in weights.items()} == {"a": 2, "b": 1}
    piped = crf.graph_.length_weights(make_pipeline("passthrough", crf))
    assert piped["a"].tolist() == weights["a"].tolist()
    assert np.isfinite(crf.predict_log_likelihood(X[:1], LONG[:1])[0])
    assert_allclose(crf.pairwise_coef_.diagonal(), 0.0)


@long
def test_a_sample_of_weight_0_leaves_no_trace():
    y = [*RUNS, [*"aaaaaaa"]]
    X = _sequences(y)
    weights = [1, 1, 1, 1, 1, 0]
    some = SAGCRF(SemiChain(), random_state=0).fit(X, y, sample_weight=weights)
    without = SAGCRF(SemiChain(), random_state=0).fit(X[:-1], RUNS)
    np.testing.assert_array_equal(some.pair_weights_, without.pair_weights_)


@pytest.mark.parametrize("graph", [SemiChain(4), SemiChain(4, segment_features=_features)])
def test_missing_labels(graph):
    X, y = _sequences(RUNS, 2), [list(labels) for labels in RUNS]
    y[0][1], y[3][2], y[4][0] = None, {"a", "b"}, {"a", "c"}
    crf = SAGCRF(graph, C=5, random_state=0, tol=1e-6).fit(X, y)
    # The objective is that of all labellings that fit.
    values = [crf.predict_log_likelihood([x], [labels])[0] for x, labels in zip(X, y, strict=True)]
    shares = []
    for x, labels in zip(X, y, strict=True):
        own, scores = crf.predict_top_k([x], 3000)
        fits = [
            all(b is None or a == b or a in b for a, b in zip(row, labels, strict=True))
            for row in own[0]
        ]
        shares.append(np.log(softmax(scores[0])[fits].sum()))
    assert_allclose(values, shares, atol=1e-8)
    svm = BCFWSSVM(graph, random_state=0).fit(X, y)
    assert svm.predict(X).shape == (5,)


def test_constrained_decoding_and_no_labelling():
    crf = SAGCRF(SemiChain(3), random_state=0).fit(_sequences(RUNS), RUNS)
    x = _sequences([[0] * 5])
    mask = np.ones((5, 3), dtype=bool)
    mask[2] = [False, False, True]
    assert crf.predict(x, allowed=[mask])[0][2] == "c"
    mask[:] = [True, False, False]
    with pytest.raises(ValueError, match="sample 0: no labelling satisfies"):
        crf.predict(x, allowed=[mask])
    np.testing.assert_array_equal(crf.predict([x[0][:0], x[0]])[0], [])
    assert [len(own) for own in crf.predict_marginals([x[0][:0], x[0]])] == [0, 5]


@pytest.mark.parametrize("case", ["curve", "tags, features"])
def test_threads_give_the_same_bits(case):
    graph, y = CASES[case]
    y = y * 6
    X = _sequences(y)
    one, two = (SAGCRF(graph, n_jobs=n, random_state=0).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.node_weights_, two.node_weights_)
    np.testing.assert_array_equal(one.pair_weights_, two.pair_weights_)
    for a, b in zip(one.predict_marginals(X), two.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_grid_search_and_a_ragged_array():
    X, y = random_sequences(np.random.default_rng(1), n_samples=12, max_length=5)
    ragged = RaggedArray.from_list(X)
    search = GridSearchCV(
        SAGCRF(SemiChain(), random_state=0),
        {"graph__max_length": [5, 6], "graph__lengths": ["table", "curve"]},
        cv=2,
    )
    search.fit(ragged, RaggedArray.from_list(y))
    assert search.best_estimator_.graph_.limits_.tolist() in ([5] * 3, [6] * 3)
    with_features = SAGCRF(SemiChain(5, segment_features=_features), random_state=0)
    one, other = (with_features.fit(given, y).predict(given) for given in (ragged, X))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_skops(tmp_path):
    skops = pytest.importorskip("skops.io")
    X = _sequences(TAGS)
    crf = SAGCRF(SemiChain(scheme="bio"), random_state=0).fit(X, TAGS)
    skops.dump(crf, tmp_path / "model.skops")
    again = skops.load(tmp_path / "model.skops", trusted=TRUSTED)
    for a, b in zip(again.predict_marginals(X), crf.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_warm_starts_keep_weights_of_the_same_meaning():
    """There is a new kind, and a longer segment."""
    y = [*TAGS, ["B-Y", "I-Y", "I-Y", "I-Y", "B-Z"]]
    before, now = (SAGCRF(SemiChain(scheme="bio"), random_state=0) for _ in range(2))
    before.fit(_sequences(TAGS), TAGS)
    now.fit(_sequences(y), y)
    node, pair = now.graph_.kept_columns(before.graph_, now.classes_, before.classes_)
    assert before.classes_[node[node >= 0]].tolist() == before.classes_.tolist()
    assert now.graph_.limits_.tolist() == [3, 4, 1, 0]
    assert before.graph_.limits_.tolist() == [3, 2, 0]
    assert pair[:8].tolist() == [0, 1, -1, 2, 3, 4, -1, 5]
    assert pair[16:24].tolist() == [9, 10, 11, -1, 12, 13, 14, -1]
    now.set_params(warm_start=True, tol=1e-3)
    again = now.fit(_sequences(y), y)
    assert again.n_iter_ <= 2


@long
@pytest.mark.parametrize("case", CASES)
def test_explanations_add_up(case):
    graph, y = CASES[case]
    y = [[*"a"], [*"abb"], [*"cbaa"]] if case == "forbidden" else y
    X = _sequences(y)
    crf = SAGCRF(graph, C=10, random_state=0).fit(X, y)
    for x, labels in zip(X[:4], y, strict=False):
        terms = explain(crf, x, labels)["contribution"].sum()
        found, scores = crf.predict_top_k([x], 3000)
        place = [*map(list, found[0])].index(list(labels))
        assert_allclose(terms, scores[0][place], atol=1e-9)
    frame, kinds = transition_frame(crf), [*crf.graph_.length_weights(crf)]
    assert frame.index.tolist() == frame.columns.tolist() == kinds
    names = coef_frame(crf).index.tolist()
    assert len(names) == len(crf.node_weights_)
    assert ("<segment 1>" in names) == (graph.segment_features is not None)


def test_all_labellings_that_are_segments_are_found():
    crf = SAGCRF(SemiChain({"a": 2, "b": 3, "c": np.inf}), random_state=0).fit(
        _sequences(RUNS[:3]), RUNS[:3]
    )
    found, _ = crf.predict_top_k(_sequences([[0] * 4]), 100)
    runs = [chunks(row, scheme="runs") for row in crf.classes_[all_labellings(4, 3)]]
    limits = {"a": 2, "b": 3, "c": 9}
    expected = sum(all(stop - start <= limits[k] for start, stop, k in own) for own in runs)
    assert len(found[0]) == expected


def test_transitions_that_runs_cannot_take_are_forbidden():
    X, y = [np.eye(4)] * 2, [["a", "a", "b", "a"], ["b", "a", "a", "b"]]
    crf = SAGCRF(SemiChain(max_length=3), random_state=0).fit(X, y)
    table = np.asarray(transition_frame(crf))
    assert np.isneginf(np.diag(table)).all()
    assert np.isfinite(table[~np.eye(2, dtype=bool)]).all()


def test_segments_may_be_lists_as_from_json():
    y = [[(0, 2, "a"), (2, 4, "b")], [(0, 3, "b")]]
    X = [np.ones((4, 1)), np.ones((3, 1))]
    as_json = [[[*one] for one in own] for own in y]
    one, other = (SAGCRF(SemiChain(3), random_state=0).fit(X, own) for own in (y, as_json))
    np.testing.assert_array_equal(one.pair_weights_, other.pair_weights_)
    assert other.predict(X)[1] == one.predict(X)[1]
    assert isinstance(other.predict(X)[1][0], tuple)


@pytest.mark.parametrize("lengths", ["table", "curve"])
def test_too_large_a_limit_is_named(lengths):
    curve = ' or take lengths="curve"' * (lengths == "table")
    with pytest.raises(MemoryError, match=f"max_length: scores of .* 1,000,000,000,000 .*{curve}"):
        SAGCRF(SemiChain(10**12, lengths=lengths)).fit(_sequences(RUNS), RUNS)
