"""SAGCRF on the weights of what occurs in the training data: optima, certificates, files."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skstruct import SAGCRF, Chain, Grid, MultiClass, Pairwise, Tree
from skstruct.callbacks import Checkpoint, EarlyStopping
from skstruct.core.oracles import accumulate, add_indicator, gram, potentials, truth
from skstruct.core.proximal import elastic_net, rest_potentials
from skstruct.core.weights import Weights, flatten, lazy_weights, plain_weights, zero_weights
from skstruct.datasets import load_conll, pack_shards
from skstruct.estimators import crf_path
from skstruct.lite import Tagger
from skstruct.preprocessing import SequenceVectorizer
from skstruct.testing import all_labellings, random_sequences, training_problem

KINDS = {
    "observed": {"all_possible_states": False, "all_possible_transitions": False},
    "observed states": {"all_possible_states": False},
    "observed transitions": {"all_possible_transitions": False},
}
OBSERVED = KINDS["observed"]
TIGHT = {"tol": 1e-11, "max_iter": 5000, "random_state": 0}


def _draw(seed=0, n_samples=9):
    """Short sequences in which some labels are rare, so that many pairs do not occur."""
    X, y = random_sequences(np.random.default_rng(seed), n_samples, 4, 3, 4)
    X = [x * (np.abs(x) > 0.7) for x in X]
    return X, [np.where(np.arange(len(labels)) % 3 == 2, "c", labels) for labels in y]


def _rows(x, boundary, intercept):
    """The feature rows of a sample, with those of its ends and the constant."""
    ends = np.zeros((len(x), 2))
    ends[0, 0] = ends[-1, 1] = 1.0
    blocks = [x, *([ends] if boundary else []), *([np.ones((len(x), 1))] if intercept else [])]
    return np.hstack(blocks)


class _Enumerated:
    """The objective, and the pairs that occur, by their definitions on all labellings."""

    def __init__(self, X, y, *, C=1.0, weight=None, boundary=False, intercept=True, kinds=OBSERVED):
        self.lam, self.weight = 1.0 / (C * len(X)), np.ones(len(X)) if weight is None else weight
        X = [_rows(np.asarray(x), boundary, intercept) for x in X]
        self.features, self.fits = [], []
        names = ["a", "b", "c"]
        node, pair = np.zeros((X[0].shape[1], 3), bool), np.zeros((3, 3), bool)
        for x, given in zip(X, y, strict=True):
            labellings = all_labellings(len(x), 3)
            truth = np.eye(3)[labellings]
            steps = np.einsum("ytj,ytk->yjk", truth[:, :-1], truth[:, 1:])
            nodes = np.einsum("td,ytk->ydk", x, truth)
            size = len(labellings)
            self.features.append(np.hstack([nodes.reshape(size, -1), steps.reshape(size, -1)]))
            sets = [names if g is None else g if isinstance(g, set) else [g] for g in given]
            allowed = np.array([[name in one for name in names] for one in sets])
            self.fits.append(allowed[np.arange(len(x)), labellings].all(axis=1))
            for row, labels in zip(x, allowed, strict=True):
                node |= (row != 0.0)[:, None] & labels
            for before, after in pairwise(allowed):
                pair |= before[:, None] & after
        node |= kinds.get("all_possible_states", True)
        pair |= kinds.get("all_possible_transitions", True)
        self.node, self.pair = node, pair
        self.seen = np.concatenate([node.ravel(), pair.ravel()])

    def __call__(self, w):
        """The objective at the weights of what occurs, and its gradient."""
        full = np.zeros(self.seen.size)
        full[self.seen] = w
        value, gradient = 0.5 * self.lam * w @ w, self.lam * full
        for features, fits, s in zip(self.features, self.fits, self.weight, strict=True):
            scores, share = features @ full, s / self.weight.sum()
            whole, right = logsumexp(scores), logsumexp(scores[fits])
            value += share * (whole - right)
            gradient += share * np.exp(scores - whole) @ features
            gradient -= share * np.exp(scores[fits] - right) @ features[fits]
        return value, gradient[self.seen]

    def minimise(self):
        options = {"maxiter": 10**4, "maxfun": 10**5, "ftol": 1e-15, "gtol": 1e-11}
        start = np.zeros(int(self.seen.sum()))
        return minimize(self, start, jac=True, method="L-BFGS-B", options=options)


def _check(crf, reference):
    found = reference.minimise()
    np.testing.assert_allclose(crf.objective_, found.fun, rtol=1e-9)
    assert crf.dual_objective_ <= found.fun
    flat = np.concatenate([crf.node_weights_.ravel(), crf.pair_weights_.ravel()])
    assert not flat[~reference.seen].any()
    assert (~reference.seen).any()
    # By strong convexity; the gradient of the reference is below 1e-7.
    far = np.linalg.norm(flat[reference.seen] - found.x)
    assert far <= np.sqrt(2 * crf.dual_gap_ / reference.lam) + 1e-7 / reference.lam
    np.testing.assert_allclose(reference(flat[reference.seen])[0], crf.objective_, rtol=1e-10)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("solver", "kinds"),
    [(solver, OBSERVED) for solver in ("sag", "saga", "casimir", "svrg", "oeg")]
    + [("lbfgs", kinds) for kinds in KINDS.values()],
)
def test_every_solver_reaches_the_optimum_of_the_weights_that_occur(solver, kinds):
    X, y = _draw()
    crf = SAGCRF(solver=solver, **kinds, **TIGHT | {"tol": 1e-10}).fit(X, y)
    _check(crf, _Enumerated(X, y, kinds=kinds))


@pytest.mark.parametrize(("seed", "C"), [(0, 0.1), (1, 10.0)])
@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_drawn_chains(seed, C, boundary, intercept):
    X, y = _draw(seed)
    crf = SAGCRF(Chain(boundary=boundary), C=C, fit_intercept=intercept, **OBSERVED, **TIGHT)
    reference = _Enumerated(X, y, C=C, boundary=boundary, intercept=intercept)
    _check(crf.fit(X, y), reference)


def test_exponentiated_gradients_in_single_precision():
    X, y = _draw()
    crf = SAGCRF(solver="oeg", precision="single", **OBSERVED, **TIGHT | {"tol": 1e-10})
    _check(crf.fit(X, y), _Enumerated(X, y))
    crf = SAGCRF(solver="sag", precision="single", **OBSERVED, **TIGHT | {"tol": 1e-10})
    _check(crf.fit(X, y), _Enumerated(X, y))


def test_sample_weights_and_samples_of_weight_zero():
    X, y = _draw()
    weight = np.random.default_rng(0).random(len(X)) + 0.5
    weight *= len(X) / weight.sum()
    crf = SAGCRF(**OBSERVED, **TIGHT).fit(X, y, sample_weight=weight)
    _check(crf, _Enumerated(X, y, weight=weight))
    extra = [*X, np.ones((3, 4))], [*y, np.array(["c", "a", "b"])]
    again = SAGCRF(**OBSERVED, **TIGHT).fit(*extra, sample_weight=[*weight, 0.0])
    np.testing.assert_array_equal(again.node_weights_, crf.node_weights_)
    np.testing.assert_array_equal(again.pair_weights_, crf.pair_weights_)


def test_with_partial_labels_all_that_may_occur_has_weights():
    X, y = _draw()
    y = [list(labels) for labels in y]
    y[0][0], y[1][-1] = None, {"a", "b"}
    crf = SAGCRF(**OBSERVED, **TIGHT).fit(X, y)
    reference = _Enumerated(X, y)
    flat = np.concatenate([crf.node_weights_.ravel(), crf.pair_weights_.ravel()])
    assert not flat[~reference.seen].any()
    value, gradient = reference(flat[reference.seen])
    np.testing.assert_allclose(value, crf.objective_, rtol=1e-10)
    assert np.linalg.norm(gradient) < 1e-5
    np.testing.assert_allclose(np.linalg.norm(gradient), crf.gradient_norm_, rtol=1e-3, atol=1e-10)


@pytest.mark.parametrize(
    ("solver", "C", "ratio"),
    [("auto", 2.0, 0.4), ("auto", 50.0, 0.9), ("lbfgs", 2.0, 0.4)],
)
def test_an_l1_penalty(solver, C, ratio):
    X, y = _draw()
    options = {"l1_ratio": ratio, "C": C, "solver": solver, **OBSERVED}
    crf = SAGCRF(**options, tol=1e-9, max_iter=5000, random_state=0).fit(X, y)
    reference = _Enumerated(X, y, C=C)
    lam, n = reference.lam, int(reference.seen.sum())

    def split(uv):  # w = u - v with u and v not below 0
        w = uv[:n] - uv[n:]
        value, gradient = reference(w)
        value += ratio * (lam * uv.sum() - 0.5 * lam * w @ w)
        gradient = gradient - ratio * lam * w
        return value, np.concatenate([gradient, -gradient]) + ratio * lam

    options = {"maxiter": 10**4, "maxfun": 10**5, "ftol": 1e-15, "gtol": 1e-10}
    bounds = [(0.0, None)] * (2 * n)
    found = minimize(split, np.zeros(2 * n), jac=True, bounds=bounds, options=options)
    np.testing.assert_allclose(crf.objective_, found.fun, rtol=1e-7)
    assert (crf.history_["dual_objective"] <= found.fun).all()
    flat = np.concatenate([crf.node_weights_.ravel(), crf.pair_weights_.ravel()])
    assert not flat[~reference.seen].any()


GRAPHS = [
    Chain(),
    Chain(boundary=True),
    Chain(edge_features=True),
    Tree(),
    Tree(edge_features=True),
    Pairwise(),
    Pairwise(interactions="potts"),
    Pairwise(interactions="symmetric", edge_features=True),
    Pairwise(inference="tree-reweighted"),
    Grid(neighborhood=4, directions=True),
]


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("graph", "sparse_X"),
    [(graph, False) for graph in GRAPHS] + [(Chain(), True), (Tree(edge_features=True), True)],
    ids=str,
)
def test_verbs_are_those_of_all_weights(graph, sparse_X):
    rng = np.random.default_rng(0)
    problem, samples, shapes, _ = training_problem(graph, *graph.example(rng, sparse_X))
    few = graph.observed(problem, samples, None, False, False)
    w = zero_weights(few.shapes)
    for table, places in zip(w.tables, few.places, strict=True):
        table[:, 0] = rng.normal(size=len(table)) * (places >= 0)
    full, lazy = few.spread(w), lazy_weights(w)
    np.testing.assert_array_equal(flatten(few.take(full)), flatten(w))
    for i in range(problem.label_ptr.size - 1):
        size = problem.part_ptr[i + 1] - problem.part_ptr[i]
        theta, own, again, product = (np.zeros(size) for _ in range(4))
        potentials(problem, i, full, theta)
        potentials(few.problem, i, w, own)
        np.testing.assert_allclose(own, theta, rtol=1e-12, atol=1e-12)
        r, gradient, own_gradient = rng.normal(size=size), zero_weights(shapes), w.copy()
        accumulate(problem, i, r, (2.0, 0.0), gradient)
        accumulate(few.problem, i, r, (2.0, 0.0), own_gradient)
        change = flatten(own_gradient) - flatten(w)
        np.testing.assert_allclose(change, flatten(few.take(gradient)), rtol=1e-9, atol=1e-12)
        accumulate(few.problem, i, r, (2.0, 0.5), lazy)
        lazy.scale[:] = 0.5, 0.25
        value = flatten(plain_weights(lazy, few.shapes))
        potentials(few.problem, i, lazy, again)
        own_gradient.node[:, 0], own_gradient.pair[:, 0] = np.split(value, [len(w.node)])
        potentials(few.problem, i, own_gradient, own)
        np.testing.assert_allclose(again, own, rtol=1e-9, atol=1e-12)
        lazy = lazy_weights(w)
        gram(few.problem, i, r, product)
        own_gradient = zero_weights(few.shapes)
        accumulate(few.problem, i, r, (1.0, 0.0), own_gradient)
        potentials(few.problem, i, own_gradient, own)
        finite = np.isfinite(own)
        np.testing.assert_allclose(product[finite], own[finite], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("graph", [Chain(edge_features=True), Pairwise()], ids=str)
def test_weights_under_an_l1_penalty_are_read_at_rest(graph):
    rng = np.random.default_rng(0)
    problem, samples, *_ = training_problem(graph, *graph.example(rng, False))
    few = graph.observed(problem, samples, None, False, False)
    lazy, l1, l2 = lazy_weights(zero_weights(few.shapes)), 0.4, 0.5
    for table, places in zip(lazy.tables, few.places, strict=True):
        table[:, 1] = rng.normal(size=len(table)) * (places >= 0)
    rest = [np.clip(table[:, 1:], -l1, l1) - table[:, 1:] for table in lazy.tables]
    there = Weights(*(own / l2 for own in rest))
    for i in range(problem.label_ptr.size - 1):
        found, expected = np.zeros((2, problem.part_ptr[i + 1] - problem.part_ptr[i]))
        potentials(few.problem, i, there, expected)
        rest_potentials(few.problem, i, lazy, elastic_net(lazy, l1, l2), found)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.thinned
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_what_occurs_is_what_the_truth_touches(graph):
    rng = np.random.default_rng(0)
    X, y = graph.example(rng, False)
    problem, samples, shapes, _ = training_problem(graph, X, y)
    few = graph.observed(problem, samples, None, False, False)
    touched = zero_weights(shapes)
    for i in range(problem.label_ptr.size - 1):
        labels, size = np.zeros(99, dtype=np.int32), problem.part_ptr[i + 1] - problem.part_ptr[i]
        mu = np.zeros(size)
        truth(problem, i, labels)
        add_indicator(problem, i, labels, 1.0, mu)
        for q in np.flatnonzero(mu):  # one by one: features of both signs may cancel
            own = zero_weights(shapes)
            accumulate(problem, i, np.eye(size)[q], (1.0, 0.0), own)
            for table, one in zip(touched.tables, own.tables, strict=True):
                table += np.abs(one)
    for places, table in zip(few.places, touched.tables, strict=True):
        np.testing.assert_array_equal(np.sort(places[places >= 0]), np.flatnonzero(table))


def test_a_warm_start_from_the_optimum_takes_one_epoch():
    X, y = _draw()
    crf = SAGCRF(warm_start=True, **OBSERVED, **TIGHT).fit(X, y)
    weights = crf.node_weights_.copy()
    assert crf.fit(X, y).n_iter_ == 1
    np.testing.assert_allclose(crf.node_weights_, weights)
    # Of a model with all weights it takes those that occur.
    crf = SAGCRF(warm_start=True, **TIGHT).fit(X, y).set_params(**OBSERVED).fit(X, y)
    _check(crf, _Enumerated(X, y))


def test_a_path():
    X, y = _draw()
    for crf in crf_path(SAGCRF(**OBSERVED, **TIGHT), X, y, [0.1, 0.3, 1.0, 3.0]):
        _check(crf, _Enumerated(X, y, C=crf.C))


def test_parameters_clones_pickles():
    X, y = _draw()
    crf = SAGCRF(**OBSERVED, random_state=0).fit(X, y)
    assert clone(crf).get_params()["all_possible_states"] is False
    again = pickle.loads(pickle.dumps(crf))
    np.testing.assert_array_equal(again.node_weights_, crf.node_weights_)
    assert "all_possible_transitions=False" in repr(again)
    state = vars(SAGCRF(random_state=0).fit(X, y)).copy()
    for name in OBSERVED:  # a model of before these parameters
        del state[name]
    old = SAGCRF.__new__(SAGCRF)
    old.__setstate__(state)
    assert old.get_params()["all_possible_states"] is True
    np.testing.assert_array_equal(old.predict(X)[0], SAGCRF(random_state=0).fit(X, y).predict(X)[0])


def test_callbacks_see_all_weights_and_restored_ones_are_certified(tmp_path):
    X, y = _draw(n_samples=30)
    crf = SAGCRF(C=30.0, **OBSERVED, tol=0.0, max_iter=40, random_state=0)
    crf.set_callbacks(
        EarlyStopping((X[:10], y[:10]), patience=3), Checkpoint(tmp_path / "crf", every_seconds=0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.fit(X[10:], y[10:])
    assert crf.node_weights_.shape == (5, 3)
    reference = _Enumerated(X[10:], y[10:], C=30.0)
    flat = np.concatenate([crf.node_weights_.ravel(), crf.pair_weights_.ravel()])
    value, gradient = reference(flat[reference.seen])
    np.testing.assert_allclose(value, crf.objective_, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(gradient), crf.gradient_norm_, rtol=1e-6)
    best = reference.minimise().fun
    assert crf.dual_objective_ <= best <= value


def test_what_is_refused(tmp_path):
    X, y = _draw()
    with pytest.raises(TypeError, match="all_possible_states=False is for chains of order 1"):
        SAGCRF(MultiClass(), **OBSERVED).fit(np.vstack(X), np.concatenate(y))
    with pytest.raises(ValueError, match="all_possible_transitions=False is not for partial_fit"):
        SAGCRF(all_possible_transitions=False).partial_fit(X, y, classes=["a", "b", "c"])
    shards = pack_shards(X, y, tmp_path / "shards")
    with pytest.raises(ValueError, match="all_possible_states=False needs all samples in memory"):
        SAGCRF(**OBSERVED).fit(shards)


def _text(shared_data, n):
    rows = load_conll(shared_data / "conll2000/train.txt.gz", ["word", "pos", "chunk"])
    X = [
        [{"w": w, "p": p, "s": w[-2:]} for w, p in zip(words, tags, strict=True)]
        for words, tags in zip(rows.word[:n], rows.pos[:n], strict=True)
    ]
    return X, [chunk.tolist() for chunk in rows.chunk[:n]]


def _crfsuite(pycrfsuite, X, y, path, **settings):
    trainer = pycrfsuite.Trainer(verbose=False)
    # Its default stop, at a decrease of 1e-5, is made later.
    trainer.set_params({"epsilon": 1e-8, "delta": 1e-10, "max_iterations": 5000, **settings})
    for x, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), labels)
    trainer.train(str(path))
    return trainer.logparser


@pytest.mark.slow
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("transitions", [False, True])
def test_the_optimum_is_crfsuites(states, transitions, shared_data, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = _text(shared_data, 300)
    settings = {"feature.possible_states": states, "feature.possible_transitions": transitions}
    log = _crfsuite(pycrfsuite, X, y, tmp_path / "crfsuite", c1=0.0, c2=0.5, **settings)
    crf = SAGCRF(
        all_possible_states=states, all_possible_transitions=transitions, fit_intercept=False
    )
    crf.set_params(tol=1e-8, max_iter=3000, random_state=0)
    make_pipeline(SequenceVectorizer(separator=":"), crf).fit(X, y)
    theirs = float(log.last_iteration["loss"]) / len(X)
    np.testing.assert_allclose(crf.objective_, theirs, rtol=1e-6)
    if not states and not transitions:
        n_weights = np.count_nonzero(crf.node_weights_) + np.count_nonzero(crf.pair_weights_)
        assert n_weights == int(log.featgen_num_features)


def test_files_hold_what_occurs(shared_data, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    import skops.io

    from skstruct import export

    X, y = _text(shared_data, 100)
    crf = SAGCRF(fit_intercept=False, random_state=0, **OBSERVED)
    model = make_pipeline(SequenceVectorizer(separator=":"), crf).fit(X, y)
    seen = {
        (f"{name}:{value}", label)
        for x, labels in zip(X, y, strict=True)
        for token, label in zip(x, labels, strict=True)
        for name, value in token.items()
    }
    steps = {step for labels in y for step in pairwise(labels)}
    crf.to_crfsuite(tmp_path / "crfsuite")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite"))
    info = tagger.info()
    assert info.state_features.keys() == seen
    assert info.transitions.keys() == steps
    export(model, tmp_path / "lite.npz")
    with np.load(tmp_path / "lite.npz") as stored:
        assert stored["node_values"].size == len(seen)
    lite = Tagger.load(tmp_path / "lite.npz")
    skops.io.dump(crf, tmp_path / "skops")
    again = skops.io.load(tmp_path / "skops", skops.io.get_untrusted_types(file=tmp_path / "skops"))
    np.testing.assert_array_equal(again.node_weights_, crf.node_weights_)
    for x, labels, others in zip(X, model.predict(X), lite.tag_batch(X), strict=True):
        assert labels.tolist() == list(others) == tagger.tag(pycrfsuite.ItemSequence(x))
