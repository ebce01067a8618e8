"""Probabilities of chunks, draws and entropies against enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chisquare

from skstruct import (
    BCFWSSVM,
    SAGCRF,
    Candidates,
    Chain,
    MultiClass,
    MultiLabel,
    Pairwise,
    Tree,
    export,
)
from skstruct.core.oracles import entropy, sample_oracle, score
from skstruct.data.constraints import transition_mask
from skstruct.datasets import pack_shards
from skstruct.estimators.training_data import read_training_data
from skstruct.lite import Tagger
from skstruct.metrics import chunks
from skstruct.testing import all_labellings, chain_scores, training_problem

SCHEMES = {
    None: ["B-X", "E-X", "I-X", "I-Y", "O", "S-Y"],
    "iob1": ["B-X", "B-Y", "I-X", "I-Y", "O"],
    "bio": ["B-X", "B-Y", "I-X", "I-Y", "O"],
    "ioe1": ["E-X", "E-Y", "I-X", "I-Y", "O"],
    "ioe2": ["E-X", "E-Y", "I-X", "I-Y", "O"],
    "IOBES": ["B-X", "E-X", "I-X", "O", "S-Y"],
    "bilou": ["B-X", "I-X", "L-X", "O", "U-Y"],
    "runs": ["O", "city", "street"],
}


def _chain(graph, classes, rng, scale=1.0, cls=SAGCRF):
    """A fitted chain on two features, with weights of which no solver knows."""
    model, n = cls(graph=graph), len(classes)
    model.graph_, model.classes_, model.n_features_in_ = graph, np.array(classes), 2
    model.n_edge_features_in_ = 3 if graph.edge_features else None
    model._has_intercept = True
    model.node_weights_ = scale * rng.normal(size=(3 + graph.n_end_rows, n))
    model.pair_weights_ = scale * rng.normal(size=(3 if graph.edge_features else 1, n * n))
    return model


def _untrained(graph, X, y):
    """A model of any structure with weights of which no solver knows."""
    model, rng = SAGCRF(graph), np.random.default_rng(0)
    samples = read_training_data(model, X, y, None).samples
    shapes = model.graph_.weight_shapes(samples, len(model.classes_), model.fit_intercept)
    model.node_weights_, model.pair_weights_ = (rng.normal(size=shape) for shape in shapes)
    return model


def _enumerated(model, x):
    """All labellings as codes, and their probabilities."""
    graph, n_labels = model.graph_, len(model.classes_)
    features, steps = x if graph.edge_features else (x, np.ones((len(x) - 1, 1)))
    unary = features @ model.coef_.T + model.intercept_
    if graph.boundary:
        unary[0] += model.boundary_coef_[0]
        unary[-1] += model.boundary_coef_[1]
    mask = transition_mask(graph.forbidden, model.classes_)
    unary[0] += mask.start
    unary[-1] += mask.stop
    tables = (steps @ model.pair_weights_).reshape(-1, n_labels, n_labels) + mask.pairs
    labellings = all_labellings(len(features), n_labels)
    scores = chain_scores(unary, tables, labellings)
    return labellings, np.exp(scores - np.logaddexp.reduce(scores))


def _runs(labels):
    found, start = [], 0
    for label, run in itertools.groupby(labels):
        stop = start + len(list(run))
        found += [(start, stop, label)] if label != "O" else []
        start = stop
    return found


def _chunks(labels, scheme):
    return _runs(labels) if scheme == "runs" else chunks(labels, scheme)


@st.composite
def _tagging(draw):
    """A scheme, a model, and a sample."""
    scheme = draw(st.sampled_from([*SCHEMES]))
    edges, obeys = draw(st.booleans()), draw(st.booleans())
    forbidden = scheme if obeys and scheme not in (None, "runs") else None
    graph = Chain(draw(st.booleans()), edges, forbidden)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    model = _chain(graph, SCHEMES[scheme], rng, draw(st.sampled_from([0.0, 1.0, 200.0])))
    n = draw(st.integers(1, 4))
    x = rng.normal(size=(n, 2))
    return scheme, model, (x, rng.normal(size=(n - 1, 3))) if edges else x


@given(_tagging())
def test_chunks_are_as_probable_as_all_labellings_that_have_them(tmp_path_factory, tagging):
    scheme, model, x = tagging
    labellings, shares = _enumerated(model, x)
    n = labellings.shape[1]
    kinds = {"city", "street"} if scheme == "runs" else {"X", "Y"}
    every = [(a, b, k) for b in range(n + 1) for a in range(b) for k in sorted(kinds)]
    mass = dict.fromkeys(every, 0.0)
    for labels, share in zip(model.classes_[labellings].tolist(), shares, strict=True):
        for chunk in _chunks(labels, scheme):
            mass[chunk] += share
    [found] = model.predict_chunks([x], scheme=scheme, chunks=[every])
    assert [chunk[:3] for chunk in found] == every
    assert_allclose([c.probability for c in found], [*mass.values()], rtol=1e-9, atol=1e-100)
    [best] = model.predict_chunks([x], scheme=scheme)
    assert [chunk[:3] for chunk in best] == _chunks(model.predict([x])[0].tolist(), scheme)
    assert set(best) <= set(found)
    [bare] = model.predict_chunks([x], scheme=scheme, confidence=False)
    assert bare == [(*chunk[:3], None) for chunk in best]
    if not model.graph_.edge_features:
        path = tmp_path_factory.mktemp("lite") / "model.npz"
        export(model, path)
        lite = Tagger.load(path).chunks(x, scheme)
        assert [chunk[:3] for chunk in lite] == [chunk[:3] for chunk in best]
        assert_allclose([c[3] for c in lite], [c[3] for c in best], rtol=1e-9, atol=1e-100)


@pytest.fixture
def tagger():
    """A model of chunks, and sequences, one of them empty."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (5, 0, 1, 7)]
    return _chain(Chain(), SCHEMES["bio"], rng), X


def test_chunks_of_empty_sequences_in_threads_and_on_shards(tagger, tmp_path, monkeypatch):
    model, X = tagger
    found = model.predict_chunks(X)
    assert found.shape == (4,)
    assert found[1] == []
    assert model.predict_chunks(X, chunks=found).tolist() == found.tolist()
    assert model.predict_chunks([]).shape == (0,)
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    model.n_jobs = 2
    assert model.predict_chunks(X).tolist() == found.tolist()
    full = [x for x in X if len(x)]
    shards = pack_shards(full, [["O"] * len(x) for x in full], tmp_path / "shards", shard_size=2)
    assert model.predict_chunks(shards).tolist() == found[[0, 2, 3]].tolist()
    with pytest.raises(ValueError, match="chunks is for lists of samples"):
        model.predict_chunks(shards, chunks=found)


def test_chunks_of_scores_that_overflow_are_refused(tagger):
    model, X = tagger
    for asked in ([[], []], [[], [(0, 1, "X")]], None):
        with pytest.raises(FloatingPointError, match="sample 0: the scores overflow"):
            model.predict_chunks([X[0] * 1e308, X[3]], chunks=asked)


@pytest.mark.slow
def test_chunks_of_many_labels_are_those_of_the_pruned_decoder(tagger):
    rng = np.random.default_rng(5)
    model = _chain(Chain(), sorted(["O", *(f"{p}-{k}" for p in "BI" for k in range(35))]), rng)
    model.pair_weights_ *= rng.random(model.pair_weights_.shape) < 0.05  # others score 0
    found = model.predict_chunks(tagger[1])
    best = [chunks(labels.tolist()) for labels in model.predict(tagger[1])]
    assert [[chunk[:3] for chunk in own] for own in found] == best
    assert all(0.0 < chunk.probability < 1.0 for own in found for chunk in own)


def test_chunks_of_a_structural_svm_have_no_probabilities(tagger):
    model, X = tagger
    svm = _chain(Chain(), SCHEMES["bio"], np.random.default_rng(0), cls=BCFWSSVM)
    svm.node_weights_, svm.pair_weights_ = model.node_weights_, model.pair_weights_
    bare = model.predict_chunks(X, confidence=False)
    assert svm.predict_chunks(X, confidence=False).tolist() == bare.tolist()
    with pytest.raises(TypeError, match=r"BCFWSSVM has no probabilities: .*confidence=False"):
        svm.predict_chunks(X)
    with pytest.raises(ValueError, match="confidence must be True"):
        svm.predict_chunks(X, confidence=False, chunks=[[]] * 4)


@pytest.mark.parametrize(
    "chunk", [(1, 1, "X"), (-1, 1, "X"), (0, 6, "X"), (0, 1, "Z"), (0, 1), (0.0, 1, "X"), 3]
)
def test_chunks_that_do_not_fit_are_named(tagger, chunk):
    model, X = tagger
    with pytest.raises(ValueError, match=r"chunks: .* of sample 0 is not \(start, stop, kind\)"):
        model.predict_chunks(X, chunks=[[chunk], [], [], []])


def test_what_has_no_chunks_says_so(tagger):
    model, X = tagger
    for chunks_of_others in ([[]], 3, iter([[]])):
        with pytest.raises(ValueError, match="chunks must have a list for each of the 4 samples"):
            model.predict_chunks(X, chunks=chunks_of_others)
    with pytest.raises(ValueError, match="3 of sample 2 is not"):
        model.predict_chunks(X, chunks=[[], [], 3, []])
    with pytest.raises(ValueError, match="scheme must be"):
        model.predict_chunks(X, scheme=[])
    with pytest.raises(ValueError, match="'B-X' is not of the scheme 'ioe2'"):
        model.predict_chunks(X, scheme="ioe2")
    model.classes_ = np.array(["DT", "NN", "O", "V", "X"])
    with pytest.warns(UserWarning, match="'DT' has no chunk prefix .*scheme='runs'"):
        model.predict_chunks(X)
    model.classes_ = np.arange(5)
    with pytest.raises(TypeError, match="labels of chunks must be str"):
        model.predict_chunks(X)
    assert {type(chunk.kind) for chunk in model.predict_chunks(X, scheme="runs")[0]} == {int}
    for graph, x, y in (
        (MultiClass(), np.eye(3), ["B-X", "I-X", "O"]),
        (Tree(), [(np.eye(2), [-1, 0])], [["B-X", "O"]]),
    ):
        with pytest.raises(TypeError, match=r"chunks.*graph=Chain\(\)"):
            _untrained(graph, x, y).predict_chunks(x)


# Draws and entropies

_CYCLE = np.array([[0, 1], [2, 1], [2, 3], [3, 0]])
_SEQUENCE = [np.eye(3)], [["a", "b", "c"]]
_GRAPH, _PATH = ([(np.eye(4), edges)] for edges in (_CYCLE, _CYCLE[:3]))
_LABELS = [["a", "b", "c", "a"]]
_TABLE, _SETS = np.eye(3), np.array([[0, 1, 1], [1, 0, 0], [1, 1, 0]])
STRUCTURES = {
    "chain": (Chain(forbidden=[("a", "a")]), *_SEQUENCE),
    "tree": (Tree(), _PATH, _LABELS),
    "forest": (Tree(), [(np.eye(4), [1, -1, 1, -1])], _LABELS),
    "graph without a cycle": (Pairwise(interactions="symmetric"), _PATH, _LABELS),
    "cycle": (Pairwise(interactions="potts", inference="junction-tree"), _GRAPH, _LABELS),
    "table": (MultiClass(), _TABLE, ["a", "b", "c"]),
    "labels": (MultiLabel(None), _TABLE, _SETS),
    "label tree": (MultiLabel("tree"), _TABLE, _SETS),
    "label cycle": (MultiLabel("full"), _TABLE, _SETS),
    "candidates": (Candidates(), [np.eye(3)], [1]),
}


def _problem(name, scale):
    """A problem with drawn potentials, and all of its labellings with their scores."""
    problem = training_problem(*STRUCTURES[name])[0]
    n, n_parts = problem.label_ptr[1], problem.part_ptr[1]
    theta = scale * np.random.default_rng(len(name)).normal(size=n_parts)
    if name == "chain":
        theta[9] = -np.inf  # from a to a
    n_states = 2 if name.startswith(("label", "candidates")) else 3
    labellings = all_labellings(n, n_states)
    if name == "candidates":
        labellings = labellings[labellings.sum(axis=1) == 1]
    scores = np.array([score(problem, 0, theta, labels) for labels in labellings])
    return problem, theta, labellings, scores - np.logaddexp.reduce(scores)


def _room(theta):
    return np.empty_like(theta), np.empty(100)


def _draw(problem, theta, uniforms):
    labels = np.empty(uniforms.T.shape, dtype=np.int32)
    value = sample_oracle(problem, 0, theta, *_room(theta), uniforms, labels)
    return labels, value


def _reach(problem, theta, uniforms, labels, t, end):
    """How far the number of node t can go to an end without another labelling, by bisection."""
    inside, outside = uniforms[t], end
    for _ in range(45):
        middle = uniforms.copy()
        middle[t] = (inside + outside) / 2
        same = (_draw(problem, theta, middle[:, None])[0] == labels).all()
        inside, outside = (middle[t], outside) if same else (inside, middle[t])
    return outside


@pytest.mark.thinned
@pytest.mark.parametrize("name", STRUCTURES)
def test_the_numbers_that_lead_to_a_labelling_measure_its_probability(name):
    """They are a product of intervals, one a node: each is a conditional probability."""
    problem, theta, labellings, log_p = _problem(name, 1.0)
    rng = np.random.default_rng(0)
    n = labellings.shape[1]
    drawn, value = _draw(problem, theta, rng.random((n, 4)))
    scores = [score(problem, 0, theta, labels) for labels in labellings]
    assert_allclose(value, np.logaddexp.reduce(scores), rtol=1e-12)
    uniforms = rng.random((n, 4))
    drawn, _ = _draw(problem, theta, uniforms)
    for labels, own in zip(drawn, uniforms.T, strict=True):
        nodes = range(1 if name == "candidates" else n)
        ends = [[_reach(problem, theta, own, labels, t, e) for e in (0.0, 1.0)] for t in nodes]
        [place] = np.flatnonzero((labellings == labels).all(axis=1))
        assert_allclose(np.prod(np.diff(ends)), np.exp(log_p[place]), rtol=1e-9)


@pytest.mark.parametrize("name", STRUCTURES)
def test_draws_have_the_distribution_of_the_model(name):
    problem, theta, labellings, log_p = _problem(name, 0.5)
    uniforms = np.random.default_rng(1).random((labellings.shape[1], 20_000))
    drawn, _ = _draw(problem, theta, uniforms)
    found = (drawn[:, None] == labellings).all(axis=2).sum(axis=0)
    possible = log_p > -np.inf
    assert found.sum() == found[possible].sum() == len(drawn)
    assert chisquare(found[possible], len(drawn) * np.exp(log_p[possible])).pvalue > 0.01


@pytest.mark.thinned
@pytest.mark.parametrize("name", STRUCTURES)
def test_entropies_are_those_of_all_labellings(name):
    for scale in (0.0, 1.0, 4.0, 30.0):
        problem, theta, _, log_p = _problem(name, scale)
        expected = -(np.exp(log_p) * np.where(log_p > -np.inf, log_p, 0.0)).sum()
        found = entropy(problem, 0, theta, *_room(theta))
        assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * max(scale, 1.0))


def test_small_entropies_of_sequences_have_all_their_digits():
    """Two labels, 40 nats apart at each of 5 nodes: scores have lost such entropies."""
    model = _chain(Chain(), ["a", "b"], np.random.default_rng(0))
    model.node_weights_[:], model.pair_weights_[:] = 0.0, 0.0
    model.node_weights_[0, 0] = 40.0
    p = 1 / (1 + np.exp(40.0))
    expected = 5 * (p * (40.0 + np.log1p(np.exp(-40.0))) + np.log1p(np.exp(-40.0)) * (1 - p))
    assert_allclose(model.predict_entropy([np.eye(2)[[0] * 5]]), [expected], rtol=1e-12)
    tree = SAGCRF(Tree())
    vars(tree).update({k: v for k, v in vars(model).items() if k != "graph"})
    tree.graph_ = Tree()
    found = tree.predict_entropy([(np.eye(2)[[0] * 5], [1, 2, -1, 2, 3])])
    assert_allclose(found, [expected], rtol=1e-12)


@given(_tagging())
def test_draws_and_entropies_of_sequences(tagging):
    _, model, x = tagging
    labellings, shares = _enumerated(model, x)
    expected = -(shares * np.log(np.where(shares > 0.0, shares, 1.0))).sum()
    assert_allclose(model.predict_entropy([x]), [expected], rtol=1e-8, atol=1e-11)
    [drawn] = model.sample([x], 30, random_state=0)
    codes = np.searchsorted(model.classes_, drawn)
    assert set(map(tuple, codes)) <= set(map(tuple, labellings[shares > 0.0].tolist()))


def test_draws_depend_on_the_seed_alone(tagger, tmp_path, monkeypatch):
    model, X = tagger
    drawn = model.sample(X, 7, random_state=3)
    assert [own.shape for own in drawn] == [(7, 5), (7, 0), (7, 1), (7, 7)]
    assert all(own.dtype == model.classes_.dtype for own in drawn)
    assert [own.shape for own in model.sample(X)] == [(1, 5), (1, 0), (1, 1), (1, 7)]
    assert model.predict_entropy(X)[1] == 0.0
    full = [X[i] for i in (0, 2, 3)]
    shards = pack_shards(full, [["O"] * len(x) for x in full], tmp_path / "shards", shard_size=1)
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    for model.n_jobs in (1, 2):
        assert all(map(np.array_equal, drawn, model.sample(X, 7, np.random.RandomState(3))))
        assert all(map(np.array_equal, drawn[[0, 2, 3]], model.sample(shards, 7, 3)))
        np.testing.assert_array_equal(model.predict_entropy(shards), model.predict_entropy(full))
    assert not all(map(np.array_equal, drawn, model.sample(X, 7, 4)))


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["tree", "cycle", "table", "label cycle", "candidates"])
def test_draws_come_as_the_n_best_do(name):
    graph, X, y = STRUCTURES[name]
    crf = _untrained(graph, X, y)
    drawn, best = crf.sample(X, 3, 0), crf.predict_top_k(X, 3)[0]
    assert len(drawn) == len(best) == len(X)
    for own, labels in zip(drawn, best, strict=True):
        assert (own.shape, own.dtype) == (labels.shape, labels.dtype)
    assert (crf.predict_entropy(X) > 0.0).all()


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_a_bad_number_of_draws_is_refused(tagger, n):
    model, X = tagger
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1, got"):
        model.sample(X, n)


def test_what_cannot_be_drawn_says_so(tagger):
    model, X = tagger
    with pytest.raises(MemoryError, match=r"labellings of 4 samples.*n_samples"):
        model.sample(X, 10**15)
    bound = _untrained(Pairwise(inference="tree-reweighted"), _GRAPH, _LABELS)
    for call, what in ((bound.sample, "draws"), (bound.predict_entropy, "entropies")):
        with pytest.raises(ValueError, match=f"{what} need exact inference"):
            call(_GRAPH)
    model.graph_.forbidden = [(None, label) for label in model.classes_]
    for call in (model.sample, model.predict_entropy, model.predict_chunks):
        with pytest.raises(ValueError, match="sample 0: no labelling satisfies"):
            call(X)
