"""Training and prediction under rules, against enumeration."""

import copy
import itertools
import pickle
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    AtLeastOnce,
    AtMostOnce,
    Before,
    Chain,
    Exactly,
    Pattern,
    ProxLinearSSVM,
    Tree,
    export,
)
from skstruct.data import rules as rules_module
from skstruct.data.constraints import transition_mask
from skstruct.data.rules import broken_rules, single_rules
from skstruct.datasets import pack_shards
from skstruct.estimators.persistence import TRUSTED
from skstruct.graphs import chain as chain_module
from skstruct.inference import viterbi
from skstruct.lite import Tagger
from skstruct.metrics import chunks
from skstruct.testing import all_labellings, chain_scores, check_structure, random_sequences

LABELS = np.array(["B-x", "B-y", "I-x", "I-y", "O"])
RULES = [
    AtMostOnce(),
    AtMostOnce("x"),
    AtLeastOnce("y"),
    Exactly(2, "x"),
    Before("x", "y"),
    Pattern("O* (x+ O)* y* O?"),
    AtMostOnce("O"),
    AtLeastOnce("I-x"),
]
CHAINS = {
    "plain": Chain(),
    "scheme": Chain(forbidden="iob2"),
    "boundary": Chain(boundary=True, forbidden=[("B-x", "O"), (None, "I-y")]),
    "edge features": Chain(edge_features=True),
}


def _sequences(rng, chain, lengths):
    X = [rng.normal(size=(n, 4)) for n in lengths]
    if chain.edge_features:
        return [(x, rng.normal(size=(max(len(x) - 1, 0), 2))) for x in X]
    return X


@pytest.fixture(scope="module")
def models():
    """A model of each kind of chain, with weights that are drawn: scores do not tie."""
    rng, found = np.random.default_rng(0), {}
    for name, chain in CHAINS.items():
        y = [["B-x", "I-x", "B-y", "I-y", "O"], ["O"], ["B-x", "I-x", "O", "B-y"]]
        crf = SAGCRF(chain, max_iter=1, tol=10.0, random_state=0)
        crf.fit(_sequences(rng, chain, map(len, y)), y)
        crf.node_weights_[:] = rng.normal(size=crf.node_weights_.shape)
        crf.pair_weights_[:] = rng.normal(size=crf.pair_weights_.shape)
        found[name] = crf
    return found


def enumerated(crf, x, rules, allowed=None):
    """All labellings that obey, and their scores."""
    graph = crf.graph_
    x, edges = x if graph.edge_features else (x, None)
    labellings = all_labellings(len(x), len(LABELS))
    unary = x @ crf.coef_.T + crf.intercept_
    tables = crf.pairwise_coef_[None]
    if graph.edge_features:
        tables = np.tensordot(edges, crf.pairwise_coef_, axes=1)
    mask = transition_mask(graph.forbidden, LABELS)
    unary[0] += mask.start
    unary[-1] += mask.stop
    if graph.boundary:
        unary[0] += crf.boundary_coef_[0]
        unary[-1] += crf.boundary_coef_[1]
    if allowed is not None:
        unary = np.where(allowed, unary, -np.inf)
    scores = chain_scores(unary, tables + mask.pairs, labellings)
    rules, ends = single_rules(rules, LABELS), np.arange(len(labellings) + 1) * len(x)
    obeys = ~broken_rules(rules, LABELS, labellings.ravel(), ends).any(axis=1)
    obeys &= scores > -np.inf
    return labellings[obeys], scores[obeys]


cases = st.tuples(
    st.sampled_from([*CHAINS]),
    st.lists(st.sampled_from(RULES), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(0, 2**20),
)


def _codes(labels):
    return [LABELS.tolist().index(label) for label in labels]


@given(cases, st.booleans())
def test_predictions_are_the_best_that_obey(models, case, has_allowed):
    name, rules, lengths, seed = case
    crf, rng = models[name], np.random.default_rng(seed)
    X = _sequences(rng, CHAINS[name], lengths)
    allowed = [rng.random((n, len(LABELS))) < 0.8 for n in lengths] if has_allowed else None
    known = [enumerated(crf, x, rules, allowed and allowed[i]) for i, x in enumerate(X)]
    infeasible = [i for i, (labellings, _) in enumerate(known) if not len(labellings)]
    if infeasible:
        with pytest.raises(ValueError, match=r"sample \d+: no labelling satisfies") as error:
            crf.predict(X, allowed=allowed, rules=rules)
        assert int(str(error.value).split(":")[0].split()[1]) in infeasible
        return
    for found, (labellings, scores) in zip(crf.predict(X, allowed, rules), known, strict=True):
        assert _codes(found) == labellings[scores.argmax()].tolist()


@given(cases)
def test_probabilities_and_n_best_under_rules(models, case):
    name, rules, lengths, seed = case
    crf = models[name]
    X = _sequences(np.random.default_rng(seed), CHAINS[name], lengths)
    known = [enumerated(crf, x, rules) for x in X]
    if not all(len(labellings) for labellings, _ in known):
        for method in (crf.predict_marginals, lambda X, rules: crf.predict_top_k(X, 2, rules)):
            with pytest.raises(ValueError, match=r"sample \d+: no labelling satisfies"):
                method(X, rules=rules)
        return
    nodes, edges = crf.predict_marginals(X, pairwise=True, rules=rules)
    tops, values = crf.predict_top_k(X, 5, rules=rules)
    best = crf.predict(X, rules=rules)
    likelihoods = crf.predict_log_likelihood(X, best, rules=rules)
    free = crf.predict_log_likelihood(X, best)
    for i, (labellings, scores) in enumerate(known):
        log_z = np.logaddexp.reduce(scores)
        p, one_hot = np.exp(scores - log_z), np.eye(len(LABELS))[labellings]
        np.testing.assert_allclose(nodes[i], np.einsum("q,qtk->tk", p, one_hot), atol=1e-9)
        pairs = np.einsum("q,qtj,qtk->tjk", p, one_hot[:, :-1], one_hot[:, 1:])
        np.testing.assert_allclose(edges[i], pairs, atol=1e-9)
        np.testing.assert_allclose(likelihoods[i], scores.max() - log_z, atol=1e-9)
        assert likelihoods[i] >= free[i] - 1e-9
        order = np.argsort(-scores)[:5]
        np.testing.assert_allclose(values[i], scores[order], rtol=1e-9, atol=1e-9)
        assert [_codes(row) for row in tops[i]] == labellings[order].tolist()


@pytest.mark.slow
@given(cases)
def test_chunks_draws_and_entropies_under_rules(models, case):
    """Of every chunk that there could be; draws and entropies are those of ``Chain(rules=...)``."""
    name, rules, lengths, seed = case
    crf, rng = models[name], np.random.default_rng(seed)
    X = _sequences(rng, CHAINS[name], lengths)
    known = [enumerated(crf, x, rules) for x in X]
    if not all(len(labellings) for labellings, _ in known):
        return
    spans = [[*itertools.combinations(range(n + 1), 2)] for n in lengths]
    asked = [[(a, b, kind) for a, b in own for kind in "xy"] for own in spans]
    found = crf.predict_chunks(X, chunks=asked, rules=rules)
    best = crf.predict_chunks(X, rules=rules)
    ruled = copy.copy(crf)
    ruled.graph_ = crf.graph_.with_rules(rules)
    drawn, entropies = ruled.sample(X, 3, random_state=seed), ruled.predict_entropy(X)
    for i, (labellings, scores) in enumerate(known):
        p = np.exp(scores - np.logaddexp.reduce(scores))
        of_labelling = [{*chunks(LABELS[row].tolist())} for row in labellings]
        for chunk in found[i]:
            share = sum(q for q, own in zip(p, of_labelling, strict=True) if chunk[:3] in own)
            assert chunk.probability == pytest.approx(share, abs=1e-9)
        assert {chunk[:3] for chunk in best[i]} == of_labelling[scores.argmax()]
        codes = {tuple(row) for row in labellings.tolist()}
        assert all(tuple(_codes(row)) in codes for row in drawn[i])
        assert entropies[i] == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), abs=1e-8)


def test_a_labelling_that_breaks_a_rule_has_probability_zero(models):
    x = np.ones((3, 4))
    y = [["B-x", "O", "B-x"], ["B-x", "O", "O"]]
    found = models["plain"].predict_log_likelihood([x, x], y, rules=[AtMostOnce("x")])
    assert found[0] == -np.inf < found[1] < 0
    with pytest.raises(ValueError, match=r"sample 0: .* rules \[AtLeastOnce\(label='x'\), Exactly"):
        models["plain"].predict_log_likelihood([x], y[:1], rules=[*CLASH, AtMostOnce("y")])


# AtMostOnce() is many rules, of which some do not matter.
CLASH = [AtLeastOnce("x"), Exactly(0, "x")]


@pytest.mark.parametrize("method", ["predict", "predict_marginals", "predict_top_k"])
def test_rules_that_clash_are_named(models, method):
    X = [np.ones((6, 4)), np.zeros((0, 4)), np.ones((4, 4))]
    options = {"k": 2} if method == "predict_top_k" else {}
    rules = [AtMostOnce(), AtLeastOnce("y"), Exactly(2, "x"), Exactly(1, "O")]
    message = r"sample 0: no labelling satisfies the structure, `allowed` and the forbidden steps"
    message += r" together with the rules \[Exactly\(n=2, label='x'\), AtMostOnce\(label='x'\)\]"
    with pytest.raises(ValueError, match=message) as error:
        getattr(models["plain"], method)(X, rules=rules[::-1], **options)
    assert "AtLeastOnce" not in str(error.value)


def test_samples_without_nodes_and_no_rules(models):
    crf, X = models["plain"], [np.zeros((0, 4)), np.ones((2, 4))]
    empty, found = crf.predict(X, rules=[AtLeastOnce("x")])
    assert empty.size == 0
    assert any(label.endswith("x") for label in found)
    assert [len(rows) for rows in crf.predict_top_k(X, 2, rules=[AtLeastOnce("x")])[0]] == [1, 2]
    assert crf.predict_marginals(X, rules=[AtLeastOnce("x")])[0].shape == (0, 5)
    assert crf.predict([], rules=[AtMostOnce()]).size == 0
    for rules in ([], None, ()):
        assert (crf.predict(X, rules=rules)[1] == crf.predict(X)[1]).all()


def test_threads_and_shards_give_the_same(models, monkeypatch, tmp_path):
    crf, rng = models["plain"], np.random.default_rng(1)
    X = _sequences(rng, CHAINS["plain"], rng.integers(1, 9, size=60))
    rules = [AtMostOnce(), Before("x", "y")]
    alone = crf.predict(X, rules=rules)
    assert any((a != b).any() for a, b in zip(alone, crf.predict(X), strict=True))
    shards = pack_shards(X, alone, tmp_path / "shards", graph=Chain(), shard_size=25)
    monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    two = clone(crf).set_params(n_jobs=2)
    vars(two).update({k: v for k, v in vars(crf).items() if k != "n_jobs"})
    for found in (two.predict(X, rules=rules), crf.predict(shards, rules=rules)):
        assert all((a == b).all() for a, b in zip(alone, found, strict=True))


def test_bad_rules_in_prediction(models):
    crf, X = models["plain"], [np.ones((2, 4))]
    with pytest.raises(ValueError, match=r"rules: AtMostOnce.*unknown label 'zip'"):
        crf.predict(X, rules=[AtMostOnce("zip")])
    for method in (crf.predict, crf.predict_marginals):
        with pytest.raises(TypeError, match="rules must be a list of rules"):
            method(X, rules=AtMostOnce("x"))
    table = SAGCRF(max_iter=1, tol=10.0).fit([[1.0], [2.0]], ["a", "b"])
    tree = SAGCRF(Tree(), max_iter=1, tol=10.0).fit([(np.eye(2), [-1, 0])], [["a", "b"]])
    for model, kind, x in ((table, "MultiClass", [[1.0]]), (tree, "Tree", [(np.eye(2), [-1, 0])])):
        for method in (model.predict, model.predict_marginals):
            with pytest.raises(TypeError, match=f"rules are for Chain: {kind}"):
                method(x, rules=[AtMostOnce("a")])


@pytest.mark.parametrize("kind", CHAINS)
def test_products_that_are_too_large(models, monkeypatch, kind):
    """Sums cannot be bounded; the best labelling is searched for by a beam with a bound."""
    crf, rng = models[kind], np.random.default_rng(2)
    rules = [AtMostOnce(), AtLeastOnce("y"), AtMostOnce("I-x")]
    X = _sequences(rng, CHAINS[kind], [5] * 12)
    known = [enumerated(crf, x, rules) for x in X]
    monkeypatch.setattr(rules_module, "_MOST_PAIRS", 9)
    monkeypatch.setattr(chain_module, "_MOST_TOGETHER", 10)
    with pytest.raises(ValueError, match=r"the product of .* states on [45] labels, more than 9"):
        crf.predict_marginals(X, rules=rules)
    chain = Chain(edge_features=crf.graph.edge_features, rules=rules)
    with pytest.raises(ValueError, match=r"the product of .* states on [45] labels, more than 9"):
        SAGCRF(chain).fit(X, [["O", "O", "B-x", "I-x", "B-y"]] * 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = crf.predict(X, rules=rules)
    for labels, (labellings, scores) in zip(found, known, strict=True):
        assert _codes(labels) == labellings[scores.argmax()].tolist()


def test_a_gap_that_is_left_is_told(models, monkeypatch):
    """Once for each sample, and of the labelling that is returned."""
    crf, X = models["plain"], [*np.random.default_rng(3).normal(size=(40, 5, 4))]
    rules = [AtMostOnce(), AtMostOnce("O"), AtMostOnce("I-x"), AtMostOnce("I-y")]
    known = [enumerated(crf, x, rules) for x in X]
    monkeypatch.setattr(chain_module, "_MOST_TOGETHER", 9)
    monkeypatch.setattr(rules_module, "_MOST_PAIRS", 9)
    monkeypatch.setattr(viterbi, "_MOST_STEPS", 1)  # one state a node
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = crf.predict(X, rules=rules)
    assert len({str(warning.message) for warning in caught}) == len(caught)
    assert {warning.filename for warning in caught} == {__file__}
    pattern = re.compile(r"sample (\d+) breaks rules .* its score is within (\S+) of")
    told = dict(pattern.match(str(one.message)).groups() for one in caught)
    assert 0 < len(told) < len(X)
    for i, (labels, (labellings, scores)) in enumerate(zip(found, known, strict=True)):
        lost = scores.max() - scores[(labellings == _codes(labels)).all(axis=1)][0]
        assert lost <= float(told.get(str(i), 1e-9)) * 1.01


def test_rules_that_clash_or_are_not_found_together(models, monkeypatch):
    crf, x = models["plain"], np.ones((5, 4))
    monkeypatch.setattr(rules_module, "_MOST_PAIRS", 9)
    monkeypatch.setattr(chain_module, "_MOST_TOGETHER", 9)
    needed = [AtLeastOnce(label) for label in ("B-x", "B-y", "I-x", "I-y", "O")]
    with pytest.raises(ValueError, match="sample 0: no labelling obeys the rules AtLeastOnce"):
        crf.predict([x[:4]], rules=needed)
    assert set(crf.predict([x], rules=needed)[0]) == {*LABELS}
    monkeypatch.setattr(viterbi, "_MOST_STEPS", 1)
    with pytest.raises(ValueError, match=r"no labelling was found that obeys .* give fewer rules"):
        crf.predict([x], rules=needed)


# Training


def _ruled_data(seed, n_samples=20):
    """Sequences whose labels obey: at most one run of a, and a b."""
    rng = np.random.default_rng(seed)
    X, y = random_sequences(rng, n_samples=4 * n_samples, n_labels=3, max_length=5)
    classes, rules = np.array(["a", "b", "c"]), [AtMostOnce("a"), AtLeastOnce("b")]
    codes = [np.searchsorted(classes, labels) for labels in y]
    ends = np.append(0, np.cumsum([*map(len, y)]))
    obeys = ~broken_rules(rules, classes, np.concatenate(codes), ends).any(axis=1)
    keep = np.flatnonzero(obeys)[:n_samples]
    return [X[i] for i in keep], [y[i] for i in keep], rules


@pytest.mark.parametrize("chain", [{}, {"boundary": True}, {"forbidden": [("a", "c")]}], ids=str)
@pytest.mark.plain
def test_verbs_under_rules(chain):
    X, y, rules = _ruled_data(0, 8)
    if "forbidden" in chain:
        keep = [i for i, row in enumerate(y) if ("a", "c") not in set(itertools.pairwise(row))]
        X, y = [X[i] for i in keep], [y[i] for i in keep]
    _check_verbs(Chain(rules=rules, **chain), X, y)


@pytest.mark.plain
def test_verbs_under_rules_with_edge_features():
    X, y, rules = _ruled_data(1, 8)
    X = [(x, np.random.default_rng(0).normal(size=(len(x) - 1, 2))) for x in X]
    _check_verbs(Chain(edge_features=True, rules=rules), X, y)


def _check_verbs(graph, X, y):
    classes = np.unique(np.concatenate(y))
    every = (codes for n in range(1, 6) for codes in itertools.product(range(3), repeat=n))
    known = [
        codes
        for codes in every
        if not broken_rules(graph.rules, classes, np.array(codes), np.array([0, len(codes)])).any()
    ]
    check_structure(graph, X, y, labellings=known)


def test_training_under_rules_is_maximum_likelihood_given_that_they_hold():
    X, y, rules = _ruled_data(2)
    crf = SAGCRF(Chain(rules=rules), tol=1e-10, max_iter=3000, random_state=0).fit(X, y)
    free = SAGCRF(Chain(), tol=1e-10, max_iter=3000, random_state=0).fit(X, y)
    other = clone(crf).set_params(solver="lbfgs").fit(X, y)
    assert other.objective_ == pytest.approx(crf.objective_, rel=1e-8)
    # Of the free model's weights those of the ruled likelihood are another optimum.
    assert not np.allclose(crf.coef_, free.coef_, atol=1e-3)
    ruled = [model.predict_log_likelihood(X, y, rules=rules).sum() for model in (crf, free)]
    assert ruled[0] == pytest.approx(crf.predict_log_likelihood(X, y).sum())
    norms = [
        sum((table**2).sum() for table in (m.node_weights_, m.pair_weights_)) for m in (crf, free)
    ]
    assert ruled[0] - norms[0] / 2 > ruled[1] - norms[1] / 2
    # In prediction they hold, with further rules as well.
    for x, labels in zip(X, crf.predict(X), strict=True):
        assert "b" in labels
        assert (crf.predict([x], rules=rules)[0] == labels).all()
        further = crf.predict([x], rules=[Exactly(0, "c")])[0]
        assert "b" in further
        assert "c" not in further


@pytest.mark.parametrize("estimator", [SAGCRF, BCFWSSVM])
def test_partial_labels_under_rules(estimator):
    X, y, rules = _ruled_data(3)
    y = [labels.astype(object) for labels in y]
    for labels in y[::2]:
        labels[0] = None
    model = estimator(Chain(rules=rules), max_iter=200, tol=0.1, random_state=0).fit(X, y)
    assert all("b" in labels for labels in model.predict(X))
    X.append(np.ones((1, X[0].shape[1])))
    y.append(np.array([{"a", "c"}], dtype=object))
    with pytest.raises(
        ValueError, match=f"y: no labelling that .* agrees with the labels of sample {len(y) - 1}"
    ):
        estimator(Chain(rules=rules)).fit(X, y)


def test_training_labels_that_break_a_rule():
    X, y, rules = _ruled_data(4)
    y[3] = np.array(["c"] * len(y[3]))
    message = r"y: the labels of sample 3 break the rule AtLeastOnce\(label='b'\)"
    with pytest.raises(ValueError, match=message):
        SAGCRF(Chain(rules=rules)).fit(X, y)
    with pytest.raises(ValueError, match=r"rules: AtMostOnce.*unknown label 'z'"):
        SAGCRF(Chain(rules=[AtMostOnce("z")])).fit(X, y)
    with pytest.raises(TypeError, match="rules must be a list of rules"):
        SAGCRF(Chain(rules=AtMostOnce("a"))).fit(X, y)


def test_models_under_rules_are_stored_and_searched(tmp_path):
    X, y, rules = _ruled_data(5)
    crf = SAGCRF(Chain(rules=rules), max_iter=20, tol=1e-2, random_state=0)
    assert repr(crf.graph) == ("Chain(rules=[AtMostOnce(label='a'), AtLeastOnce(label='b')])")
    search = GridSearchCV(crf, {"C": [0.1, 1.0], "graph__rules": [None, rules]}, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    crf.fit(X, y)
    again = pickle.loads(pickle.dumps(crf))
    assert all((a == b).all() for a, b in zip(again.predict(X), crf.predict(X), strict=True))
    skops = pytest.importorskip("skops.io")
    again = skops.loads(skops.dumps(crf), trusted=TRUSTED)
    assert again.graph_.rules == rules
    assert all((a == b).all() for a, b in zip(again.predict(X), crf.predict(X), strict=True))
    shards = pack_shards(X, y, tmp_path / "shards", graph=Chain(rules=rules), shard_size=7)
    again = clone(crf).set_params(solver="lbfgs").fit(shards)
    whole = clone(crf).set_params(solver="lbfgs").fit(X, y)
    np.testing.assert_allclose(again.coef_, whole.coef_, atol=1e-6)
    export(crf, tmp_path / "model.npz")
    tagger = Tagger.load(tmp_path / "model.npz")
    assert tagger.tag_batch(X) == [labels.tolist() for labels in crf.predict(X)]


def test_what_does_not_know_rules():
    X, y, rules = _ruled_data(6)
    with pytest.raises(TypeError, match="GDMMSSVM trains on single nodes and edges"):
        GDMMSSVM(Chain(rules=rules)).fit(X, y)
    svm = GDMMSSVM(Chain(), max_iter=50, tol=0.9).fit(X, y)
    assert all("b" in labels for labels in svm.predict(X, rules=rules))
    svm = ProxLinearSSVM(graph=Chain(), max_iter=50, tol=10.0, random_state=0).fit(X, y)
    assert all("b" in labels for labels in svm.predict(X, rules=rules))
