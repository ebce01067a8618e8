"""Pairwise(node_types=...): dicts of tables, labels of each type, bad input."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from skstruct import BCFWSSVM, GDMMSSVM, SAGCRF, Pairwise, SubgradientSSVM
from skstruct.datasets import pack_shards
from skstruct.estimators.persistence import TRUSTED
from skstruct.metrics import SCORERS, chunk_f1_score, confidences, flatten, sequence_accuracy_score
from skstruct.preprocessing import PerNode
from skstruct.testing import check_structure

TYPES = ["word", "page"]
OPTIONS = {"tol": 1e-3, "max_iter": 500, "random_state": 0}


def draw(n_samples, edge_features=False, most=3, seed=0):
    """Words "hi" and "lo" in a row, linked with their page, which counts the "hi" ones."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n_samples):
        n = int(rng.integers(1, most + 1))
        word, page = rng.normal(size=(n, 2)), rng.normal(size=(1, 3))
        edges = {("word", "page"): np.array([[k, 0] for k in range(n)])}
        if n > 1:
            edges["word", "word"] = np.array([[k, k + 1] for k in range(n - 1)])
        x = {"nodes": {"word": word, "page": page}, "edges": edges}
        if edge_features:
            x["edge_features"] = {
                pair: rng.normal(size=(len(ends), 1 + (pair[1] == "word")))
                for pair, ends in edges.items()
            }
        labels = np.where(word[:, 0] + 0.5 * rng.normal(size=n) > 0, "hi", "lo")
        X.append(x)
        y.append({"word": labels, "page": [int((labels == "hi").sum() > 1)]})
    return X, y


@pytest.mark.parametrize("options", [{}, {"interactions": "symmetric"}, {"inference": "lp"}])
@pytest.mark.parametrize("edge_features", [False, True])
def test_operations(edge_features, options):
    X, y = draw(3, edge_features)
    check_structure(Pairwise(edge_features, node_types=TYPES, **options), X, y)


def _labellings(model, x):
    """All labellings of a sample, as rows (words, page), and their scores, from public weights."""
    classes = {pair: k for k, pair in enumerate(model.classes_.tolist())}
    nodes, rows = x["nodes"], []
    width = model.n_features_in_
    for labels in itertools.product(["hi", "lo"], repeat=len(nodes["word"])):
        for page in (0, 1):
            codes = {
                "word": [classes["word", label] for label in labels],
                "page": [classes["page", page]],
            }
            total = 0.0
            for name, table in nodes.items():
                table = np.pad(table, ((0, 0), (0, width - table.shape[1])))
                for row, code in zip(table, codes[name], strict=True):
                    total += row @ model.coef_[code] + model.intercept_[code]
            for pair, ends in x["edges"].items():
                for e, (a, b) in enumerate(ends):
                    tables = model.pairwise_coef_
                    if "edge_features" in x:
                        given = x["edge_features"][pair][e]
                        tables = np.tensordot(given, tables[: len(given)], 1)
                    total += tables[codes[pair[0]][a], codes[pair[1]][b]]
            rows.append(((*labels, page), total))
    return [row for row, _ in rows], np.array([total for _, total in rows])


@pytest.mark.parametrize("edge_features", [False, True])
def test_predictions_by_enumeration(edge_features):
    X, y = draw(20, edge_features)
    crf = SAGCRF(Pairwise(edge_features, node_types=TYPES), **OPTIONS).fit(X, y)
    assert crf.classes_.tolist() == [("page", 0), ("page", 1), ("word", "hi"), ("word", "lo")]
    assert crf.n_features_in_ == 3
    predicted, marginals = crf.predict(X), crf.predict_marginals(X)
    best, values = crf.predict_top_k(X, 2)
    for i in range(5):
        rows, scores = _labellings(crf, X[i])
        share = np.exp(scores - logsumexp(scores))
        first, second = np.argsort(-scores)[:2]
        assert (*predicted[i]["word"].tolist(), *predicted[i]["page"].tolist()) == rows[first]
        assert predicted[i]["page"].dtype.kind == "i"
        assert_allclose(values[i], scores[[first, second]], atol=1e-9)
        assert (*best[i]["word"][1].tolist(), *best[i]["page"][1].tolist()) == rows[second]
        for k, label in enumerate(["hi", "lo"]):
            found = [
                share[[row[t] == label for row in rows]].sum() for t in range(len(rows[0]) - 1)
            ]
            assert_allclose(marginals[i]["word"][:, k], found, atol=1e-9)
        assert_allclose(marginals[i]["page"][0, 1], share[[row[-1] == 1 for row in rows]].sum())
        true = (*y[i]["word"].tolist(), *y[i]["page"])
        found = crf.predict_log_likelihood(X[i : i + 1], y[i : i + 1])[0]
        assert_allclose(found, np.log(share[rows.index(true)]), atol=1e-9)
    right = [
        found == true
        for own, truth in zip(predicted, y, strict=True)
        for name in TYPES
        for found, true in zip(own[name], truth[name], strict=True)
    ]
    assert_allclose(crf.score(X, y), np.mean(right))
    drawn = crf.sample(X[:1], 3, random_state=0)[0]
    assert drawn["word"].shape == (3, len(X[0]["nodes"]["word"]))
    assert len(crf.predict([])) == 0


def test_bounds_of_exact_and_relaxed_training_meet():
    X, y = draw(20)
    graph = Pairwise(node_types=TYPES)
    exact = BCFWSSVM(graph, **OPTIONS).fit(X, y)
    lower, upper = exact.dual_objective_, exact.objective_
    other = SubgradientSSVM(graph, random_state=0, tol=1e-2, max_iter=500).fit(X, y)
    assert lower <= other.objective_
    relaxed = GDMMSSVM(graph, tol=1e-3, max_iter=2000).fit(X, y)
    # A relaxation of the hinge is above it.
    assert lower <= relaxed.objective_
    assert relaxed.dual_objective_ <= relaxed.objective_
    assert upper <= relaxed.objective_ * 1.01


def test_one_type_is_the_plain_graph():
    X, y = draw(20)
    words = [
        {
            "nodes": {"word": x["nodes"]["word"]},
            "edges": {("word", "word"): x["edges"].get(("word", "word"), [])},
        }
        for x in X
    ]
    plain = [(x["nodes"]["word"], x["edges"]["word", "word"]) for x in words]
    typed = SAGCRF(Pairwise(node_types=["word"]), **OPTIONS)
    typed.fit(words, [{"word": labels["word"]} for labels in y])
    other = SAGCRF(Pairwise(), **OPTIONS).fit(plain, [labels["word"] for labels in y])
    assert_allclose(typed.coef_, other.coef_, rtol=1e-12)
    for found, expected in zip(typed.predict(words), other.predict(plain), strict=True):
        assert_array_equal(found["word"], expected)


def test_skops_files(tmp_path):
    skops_io = pytest.importorskip("skops.io")
    X, y = draw(6)
    crf = SAGCRF(Pairwise(node_types=TYPES), tol=0.5, random_state=0).fit(X, y)
    skops_io.dump(crf, tmp_path / "crf.skops")
    again = skops_io.load(tmp_path / "crf.skops", trusted=TRUSTED)
    for one, other in zip(again.predict(X), crf.predict(X), strict=True):
        assert {kind: own.tolist() for kind, own in one.items()} == {
            kind: own.tolist() for kind, own in other.items()
        }


def test_sparse_features_types_of_edges_and_searches():
    X, y = draw(20, edge_features=True)
    dense = SAGCRF(Pairwise(True, node_types=TYPES), **OPTIONS).fit(X, y)
    rows = [
        {
            "nodes": {name: sparse.csr_array(table) for name, table in x["nodes"].items()},
            "edges": x["edges"],
            "edge_features": {p: sparse.csr_matrix(f) for p, f in x["edge_features"].items()},
        }
        for x in X
    ]
    thin = SAGCRF(Pairwise(True, node_types=TYPES), **OPTIONS).fit(rows, y)
    assert_allclose(thin.objective_, dense.objective_, rtol=2e-3)
    again = pickle.loads(pickle.dumps(thin))
    assert_array_equal(again.predict(X)[0]["word"], thin.predict(X)[0]["word"])
    kinds = [
        x | {"edges": {p: np.c_[ends, ends[:, 0] % 2] for p, ends in x["edges"].items()}} for x in X
    ]
    graph = Pairwise(True, edge_types=2, node_types=TYPES)
    assert SAGCRF(graph, **OPTIONS).fit(kinds, y).pairwise_coef_.shape == (2, 2, 4, 4)
    grid = {"graph__edge_features": [True], "C": [0.1, 1.0]}
    search = GridSearchCV(SAGCRF(Pairwise(node_types=TYPES), tol=0.1), grid, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_hidden_states_forbidden_pairs_and_costs_of_types():
    X, y = draw(20)
    graph = Pairwise(node_types=TYPES, states_per_label={("word", "hi"): 2})
    crf = SAGCRF(graph, **OPTIONS).fit(X, y)
    assert crf.states_.tolist()[2:] == [("word", "hi")] * 2 + [("word", "lo")]
    assert crf.predict_marginals(X)[0]["word"].shape[1] == 2
    never = [(("word", "hi"), ("page", 0))]
    calm = [labels | {"page": [1] if "hi" in labels["word"] else [0]} for labels in y]
    svm = BCFWSSVM(
        Pairwise(node_types=TYPES, forbidden=never),
        loss={("page", 1): 5.0},
        tol=0.05,
        random_state=0,
    ).fit(X, calm)
    assert all(found["page"][0] or "hi" not in found["word"] for found in svm.predict(X))


def _with(part, key, value):
    def change(X, y):
        X[1] = X[1] | {part: X[1][part] | {key: value}}

    return change


def _without(part, key):
    def change(X, y):
        X[1] = X[1] | {part: {k: v for k, v in X[1][part].items() if k != key}}

    return change


def _labels(key, value):
    def change(X, y):
        y[1] = y[1] | {key: value}

    return change


WORDS = ("word", "word")
BAD = {
    "sample 1 must be a dict, got tuple": lambda X, y: X.__setitem__(1, (np.eye(2), [])),
    "sample 1: 'edge_features' is missing": lambda X, y: X[1].pop("edge_features"),
    "sample 1, nodes: unknown 'line'": _with("nodes", "line", np.eye(2)),
    "sample 1, nodes: 'page' is missing": _without("nodes", "page"),
    "sample 1, edges: unknown \\('word', 'line'\\)": _with("edges", ("word", "line"), [[0, 0]]),
    "type 'word': sample 1 has 5 features": _with("nodes", "word", np.ones((2, 5))),
    "the edge \\(0, 3\\) of types \\('word', 'page'\\), but .* 1 of type 'page'": _with(
        "edges", ("word", "page"), [[0, 3]]
    ),
    "edges \\('word', 'word'\\) of sample 1 must be integers of shape \\(n_edges, 2\\)": _with(
        "edges", WORDS, [[0, 1, 2]]
    ),
    "edge from node 1 to itself": _with("edges", WORDS, [[1, 1], [0, 1]][:1]),
    "edges \\('word', 'word'\\), whose edge features .* got none": _without("edge_features", WORDS),
    "the rows of the edges \\('page', 'word'\\) of sample 1 differ": _with(
        "edges", ("page", "word"), [[0, 1], [0]]
    ),
    "sample 1 has 0 edges \\('page', 'word'\\), whose edge features": _with(
        "edge_features", ("page", "word"), np.ones((2, 1))
    ),
    "must be of shape \\(1, n_edge_features\\), got shape \\(7, 2\\)": _with(
        "edge_features", WORDS, np.ones((7, 2))
    ),
    "y: sample 1: unknown 'line'": _labels("line", ["hi"]),
    "y: sample 1: 'page' is missing": lambda X, y: y[1].pop("page"),
    "sample 1: X has 2 nodes, but y\\['word'\\] has 3 labels": _labels("word", ["hi"] * 3),
    "X has 8 samples, but y has 7": lambda X, y: y.pop(),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    X, y = draw(40, edge_features=True)
    two = [i for i, x in enumerate(X) if len(x["nodes"]["word"]) == 2][:8]
    X, y = [dict(X[i]) for i in two], [dict(y[i]) for i in two]
    BAD[message](X, y)
    with pytest.raises(ValueError, match=message):
        SAGCRF(Pairwise(True, node_types=TYPES)).fit(X, y)


def test_types_without_nodes_and_pairs_without_edges():
    X, y = draw(20)
    nothing = {("page", "word"): None, WORDS: []}
    X[0] = {"nodes": {"word": X[0]["nodes"]["word"], "page": np.empty((0, 3))}, "edges": nothing}
    y[0] = y[0] | {"page": []}
    crf = SAGCRF(Pairwise(node_types=TYPES), **OPTIONS).fit(X, y)
    found = crf.predict(X[:1])[0]
    assert found["page"].shape == (0,)
    assert found["word"].shape == (len(X[0]["nodes"]["word"]),)
    assert np.isfinite(crf.predict_log_likelihood(X, y)).all()


def _turned(x, pair):
    """The sample with its edges of a pair of types in the other order."""
    parts = {"edges": lambda ends: ends[:, ::-1], "edge_features": lambda rows: rows}
    for part in parts.keys() & x.keys():
        own = {key: value for key, value in x[part].items() if key != pair}
        x = x | {part: own | {pair[::-1]: parts[part](x[part][pair])}}
    return x


@pytest.mark.parametrize("interactions", ["full", "symmetric"])
def test_pairs_of_types_that_training_had_not(interactions):
    X, y = draw(20)
    pair = ("word", "page")
    graph = Pairwise(node_types=TYPES, interactions=interactions)
    crf, other = SAGCRF(graph, **OPTIONS).fit(X, y), [X[0], _turned(X[1], pair)]
    if interactions == "symmetric":
        assert_array_equal(crf.predict(other)[1]["word"], crf.predict(X)[1]["word"])
    else:
        text = r"sample 1 has edges \('page', 'word'\), .* only edges \('word', 'page'\): the order"
        with pytest.warns(UserWarning, match=text):
            crf.predict(other)
    apart = [x | {"edges": {pair: x["edges"][pair]}} for x in X]
    crf, i = crf.fit(apart, y), next(i for i, x in enumerate(X) if WORDS in x["edges"])
    with pytest.warns(UserWarning, match=rf"sample {i} has edges .* were none; their weights"):
        crf.predict(X)
    crf.predict(apart)


def test_pairs_of_types_with_edge_features_that_training_had_not():
    X, y = draw(20, edge_features=True)
    crf = SAGCRF(Pairwise(True, node_types=TYPES), **OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match=r"sample 0 has edges \('page', 'word'\), .* the order"):
        crf.predict([_turned(X[0], ("word", "page"))])


def test_pairs_of_types_of_all_batches_count():
    X, y = draw(20)
    apart = [x | {"edges": {}} for x in X]
    svm = SubgradientSSVM(Pairwise(node_types=TYPES), random_state=0)
    with pytest.warns(UserWarning, match="the first partial_fit has no classes"):
        svm.partial_fit(X, y)
    svm.partial_fit(apart, y).predict(X)


def test_bad_predictions_and_parameters(tmp_path):
    X, y = draw(12)
    crf = SAGCRF(Pairwise(node_types=TYPES), **OPTIONS).fit(X, y)
    wider = [X[0] | {"nodes": X[0]["nodes"] | {"page": np.ones((1, 2))}}]
    with pytest.raises(ValueError, match="'page' has 2 features, in training 3"):
        crf.predict(wider)
    other = [y[0] | {"page": ["hi"]}]
    with pytest.raises(ValueError, match=r"unknown label \('page', 'hi'\) \(sample 0"):
        crf.predict_log_likelihood(X[:1], other)
    n = len(X[0]["nodes"]["word"])
    with pytest.warns(UserWarning, match="'hi'"):
        assert crf.score(X[:1], other) <= n / (n + 1)
    with pytest.raises(ValueError, match=r"unknown label \('page', 7\)"):
        crf.predict_log_likelihood(X[:1], [y[0] | {"page": [7]}])
    for wrong in ("word", [], ["a", "a"], [1]):
        with pytest.raises(ValueError, match="node_types must be a list of different names"):
            SAGCRF(Pairwise(node_types=wrong)).fit(X, y)
    with pytest.raises(TypeError, match="shards are for graphs of one type of nodes"):
        pack_shards(X, y, tmp_path / "shards", graph=Pairwise(node_types=TYPES))


def test_a_forbidden_pair_of_types_is_named():
    X = [{"nodes": {"a": np.eye(2), "p": np.eye(2)}, "edges": {("a", "p"): [[0, 0], [1, 1]]}}]
    y = [{"a": ["u", "v"], "p": ["m", "n"]}]
    graph = Pairwise(node_types=["a", "p"], forbidden=[(("a", "u"), ("p", "m"))])
    with pytest.raises(ValueError, match=r"sample 0, node 0 has the forbidden step \(\('a', 'u'\)"):
        SAGCRF(graph).fit(X, y)


def test_masks_and_weights_by_type():
    X, y = draw(20)
    crf = SAGCRF(Pairwise(node_types=TYPES), **OPTIONS)
    rng = np.random.default_rng(0)
    weights = [{name: rng.random(len(own[name])) for name in TYPES} for own in y]
    flat = [np.concatenate([own["word"], own["page"]]) for own in weights]
    crf.fit(X, y, node_weight=weights)
    assert_array_equal(crf.coef_, SAGCRF(crf.graph, **OPTIONS).fit(X, y, node_weight=flat).coef_)
    some = [{"page": own["page"]} for own in weights]
    ones = [own | {"word": np.ones(len(own["word"]))} for own in weights]
    both = (SAGCRF(crf.graph, **OPTIONS).fit(X, y, node_weight=w).coef_ for w in (some, ones))
    assert_array_equal(*both)
    masks = [{"word": np.tile([False, True], (len(own["word"]), 1))} for own in y]  # "hi" or "lo"
    found = crf.predict(X, allowed=masks)
    assert {label for own in found for label in own["word"]} == {"lo"}
    both = [np.array([[1, 1, 0, 1]] * len(own["word"]) + [[1, 1, 1, 1]], dtype=bool) for own in y]
    for one, other in zip(found, crf.predict(X, allowed=both), strict=True):
        assert_array_equal(one["page"], other["page"])
    assert {own["page"][0] for own in crf.predict(X, allowed=[{"page": [[0, 1]]}] * 20)} == {1}
    for wrong, message in (
        ({"page": [[True]]}, r"allowed: sample 0, type 'page' must be of shape \(1, 2\), got"),
        ({"line": [[True]]}, "allowed: sample 0: unknown 'line'"),
        ({"page": [[np.nan, 1.0]]}, "allowed: sample 0, type 'page' must hold booleans"),
    ):
        with pytest.raises(ValueError, match=message):
            crf.predict(X[:1], allowed=[wrong])
    for wrong, message in (
        ({"page": ["x"]}, "node_weight: sample 0, type 'page'"),
        ({"line": [1.0]}, "node_weight: sample 0: unknown 'line'"),
        (weights[0] | {"page": [1.0, 2.0]}, r"sample 0, type 'page' must be of shape \(1,\), got"),
    ):
        with pytest.raises(ValueError, match=message):
            crf.fit(X, y, node_weight=[wrong, *weights[1:]])


def test_interactions_that_no_edge_has():
    X, y = draw(20)
    backward = [(("page", 0), ("word", "hi"))]
    with pytest.raises(ValueError, match=r"write \(\('word', 'hi'\), \('page', 0\)\)"):
        SAGCRF(Pairwise(node_types=TYPES, forbidden=backward)).fit(X, y)
    with pytest.raises(ValueError, match=r'interactions="potts" .* edges \(\'word\', \'page\'\)'):
        SAGCRF(Pairwise(node_types=TYPES, interactions="potts")).fit(X, y)
    apart = [x | {"edges": {WORDS: x["edges"].get(WORDS, [])}} for x in X]
    SAGCRF(Pairwise(node_types=TYPES, interactions="potts"), **OPTIONS).fit(apart, y)


def test_many_nodes_of_each_type_have_a_junction_tree():
    n = 30
    ring = np.column_stack([np.arange(n), np.roll(np.arange(n), -1)])
    links = np.column_stack([np.arange(n)] * 2)
    edges = {("word", "word"): ring, ("word", "page"): links}
    x = {"nodes": {name: np.eye(n)[:, :2] for name in TYPES}, "edges": edges}
    y = {"word": np.arange(n) % 2, "page": np.arange(n) % 3 > 0}
    crf = SAGCRF(Pairwise(node_types=TYPES, inference="junction-tree"), **OPTIONS).fit([x], [y])
    assert crf.inference_ == "exact"


def test_chunks_and_transformers_take_one_type():
    X, y = draw(4)
    with pytest.raises(TypeError, match=r"y_true has dicts .* \[own\['word'\] for own in y_true\]"):
        chunk_f1_score(y, y)
    crf = SAGCRF(Pairwise(node_types=TYPES), **OPTIONS).fit(X, y)
    with pytest.raises(TypeError, match="with node_types those of one type"):
        confidences(crf, X, y)
    words = [own["word"] for own in y]
    assert sequence_accuracy_score(words, words) == 1.0
    with pytest.raises(
        TypeError, match=r'sample 0 is a dict .* \[x\["nodes"\]\[name\] for x in X\]'
    ):
        PerNode(StandardScaler()).fit(X)
    with pytest.raises(TypeError, match=r"y has dicts .* \[own\['word'\] for own in y\]"):
        PerNode(StandardScaler()).fit([x["nodes"]["word"] for x in X], y)


def test_metrics_of_nodes_of_all_types():
    y = [{"word": ["hi", None], "page": [1]}, {"word": [], "page": [0]}]
    found = [{"page": np.array([1.0]), "word": ["lo", "hi"]}, {"word": [], "page": [1]}]
    true, predicted = flatten(y, np.array(found))
    assert true.tolist() == ["word/hi", "page/1", "page/0"]
    assert predicted.tolist() == ["word/lo", "page/1", "page/1"]
    assert flatten(y, found, sample_weight=[2, 3])[2].tolist() == [2, 2, 3]
    assert sequence_accuracy_score(y, found) == 0.0
    assert sequence_accuracy_score(y, [found[0], y[1]]) == 0.5
    X, y = draw(12)
    crf = SAGCRF(Pairwise(node_types=TYPES), **OPTIONS).fit(X, y)
    assert SCORERS["node_accuracy"](crf, X, y) == crf.score(X, y)
    assert 0 < SCORERS["node_f1_macro"](crf, X, y) <= 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"word": ["hi"]}, r"sample 1: .* {'word': \(1,\), 'page': \(1,\)} in y_true and {'word'"),
        ({"word": ["hi", "lo"], "page": [1]}, r"sample 1: .* and {'word': \(2,\), .* in y_pred"),
        ({"word": "hi", "page": [1]}, r"sample 1: .* and {'word': \(\), .* in y_pred"),
        (["hi", 1], r"sample 1: .* and {'list': \(\)} in y_pred"),
        (None, "y_true has 2 samples, y_pred has 1"),
    ],
)
def test_metrics_of_types_that_differ(wrong, message):
    own = {"word": ["hi"], "page": [1]}
    with pytest.raises(ValueError, match=message):
        flatten([own, own], [own, wrong] if wrong else [own])
