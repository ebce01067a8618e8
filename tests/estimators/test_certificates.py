"""What certificates may claim: dual <= optimum <= primal over one set, for every solver."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    AtMostOnce,
    Before,
    CasimirSSVM,
    Chain,
    MultiClass,
    MultiLabel,
    SubgradientSSVM,
    Tree,
)
from skstruct.data.rules import broken_rules
from skstruct.solvers.certificate import certify, certify_pair
from skstruct.testing import all_labellings
from tests.helpers.certificate_cases import bounds

CLASSES = np.array(["a", "b", "c"])
FORBIDDEN = [("a", "c"), ("b", "b")]
ENDS = [(None, "b"), ("c", None)]
RULES = [AtMostOnce("a"), Before("b", "c")]

# Graph, and the graph whose labellings are those of what GDMM solves.
STRUCTURES = {
    "table": (MultiClass(), MultiClass()),
    "chains": (Chain(boundary=True), Chain(boundary=True)),
    "chains, forbidden": (Chain(forbidden=FORBIDDEN), Chain(forbidden=FORBIDDEN)),
    "chains, forbidden ends": (
        Chain(boundary=True, forbidden=FORBIDDEN + ENDS),
        Chain(boundary=True, forbidden=FORBIDDEN + ENDS),
    ),
    "chains, rules": (Chain(rules=RULES), Chain(rules=RULES)),
    "chains, edge features": (Chain(edge_features=True), Chain(edge_features=True)),
    "trees": (Tree(), Tree()),
    "trees, forbidden": (Tree(forbidden=FORBIDDEN), Tree(forbidden=FORBIDDEN)),
    "labels": (MultiLabel(), MultiLabel()),
    "labels, tree": (MultiLabel("tree", tables=True), MultiLabel("tree", tables=True)),
    "labels, full": (MultiLabel("full"), MultiLabel("full", inference="relaxed")),
    "labels, full with tables": (
        MultiLabel("full", tables=True),
        MultiLabel("full", tables=True, inference="relaxed"),
    ),
}
# Forests of labels are one more kind of tree; test_multilabel enumerates their oracles.
FORESTS = "labels", "labels, tree"
# Structures for all solvers, which see others by the same verbs, enumerated for each.
FOR_ALL = [name for name in STRUCTURES if name.startswith(("table", "chains"))]
FOR_ALL.remove("chains, edge features")
FOR_CRFS = [name for name in STRUCTURES if "ends" not in name and name not in FORESTS]
LOSSES = ["hamming", "normalized", "by class", "matrix"]
BCFW = [
    {},
    {"sampling": "gap", "oracle_cache": True, "n_cached": 3},
    {"steps": "frank-wolfe", "n_cached": 1, "sampling": "uniform"},
]
GDMM = [
    {},
    {"algorithm": "gdmm"},
    {"variant": "away", "search": "sampled", "n_partitions": 2},
    {"variant": "bgcd", "search": "exact", "rho": 0.3},
]
SLACK = 1e-9


def _best_labels(rng, scores, edges, name):
    """The best labelling of a sample that `name` allows."""
    labellings = all_labellings(len(scores), 3)
    value = scores[np.arange(len(scores)), labellings].sum(axis=1)
    if "forbidden" in name:
        for (a, b), (s, t) in itertools.product(FORBIDDEN, edges):
            value[(CLASSES[labellings[:, s]] == a) & (CLASSES[labellings[:, t]] == b)] = -np.inf
    if "ends" in name:
        value[(CLASSES[labellings[:, 0]] == "b") | (CLASSES[labellings[:, -1]] == "c")] = -np.inf
    if "rules" in name:
        ends = np.arange(len(labellings) + 1) * len(scores)
        value[broken_rules(RULES, CLASSES, labellings.ravel(), ends).any(axis=1)] = -np.inf
    return CLASSES[labellings[value.argmax()]]


def draw(name, seed, n_samples=12):
    """A small problem."""
    rng = np.random.default_rng(seed)
    if name.startswith(("table", "labels")):
        X = rng.normal(size=(n_samples, 3))
        noisy = X @ rng.normal(size=(3, 5)) + rng.normal(size=(n_samples, 5))
        if name == "table":
            return X, CLASSES[noisy[:, :3].argmax(axis=1)]
        return X, (noisy + 0.8 * rng.normal(size=(n_samples, 1)) > 0).astype(int)
    X, y, weights = [], [], rng.normal(size=(3, 3))
    for n in rng.integers(1, 6, size=n_samples):
        x = rng.normal(size=(n, 3))
        parents = [t - 1 for t in range(n)]
        if name.startswith("trees"):
            parents = [int(rng.integers(t)) if t else -1 for t in range(n)]
        edges = [(parents[t], t) for t in range(1, n)]
        y.append(_best_labels(rng, x @ weights + rng.normal(size=(n, 3)), edges, name))
        if name.startswith("trees"):
            x = (x, parents)
        elif "features" in name:
            x = (x, rng.normal(size=(n - 1, 2)))
        X.append(x)
    return X, y


def loss_of(kind, name):
    """The `loss` argument of a kind of loss."""
    if kind == "matrix":
        table = [[0.0, 1.0, 2.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]]
        return [[0.0, 1.0], [3.0, 0.0]] if name.startswith("labels") else table
    if kind == "by class":
        return {1: 2.0} if name.startswith("labels") else {"a": 2.0, "b": 0.5}
    return {"hamming": "hamming", "normalized": "normalized_hamming"}[kind]


def check(models, best, X, y):
    """Every bound of every model is on the right side of the optimum."""
    low, high = bounds(best, X, y)
    assert low <= high + SLACK * high
    assert high - low <= 1e-5 * high, "the reference is not at its optimum"
    for model in models:
        dual, primal = bounds(model, X, y)
        assert dual <= high + SLACK * high, f"{model}: dual {dual} above the optimum {high}"
        assert primal >= low - SLACK * high, f"{model}: objective {primal} under the optimum {low}"
        assert model.dual_gap_ >= -SLACK * high if hasattr(model, "dual_gap_") else True
    return low, high


@pytest.mark.thinned
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_bounds_of_structural_svms(name, kind):
    graph, agreed = STRUCTURES[name]
    seed = LOSSES.index(kind)
    X, y = draw(name, seed)
    common = {"C": 0.7 if seed % 2 else 0.3, "loss": loss_of(kind, name), "random_state": 0}
    sharp = common | {"tol": 1e-7, "max_iter": 6000, "gap_every": 20}
    early = common | {"tol": 0.0, "max_iter": 25, "gap_every": 1}
    primal = common | {"tol": 0.0, "max_iter": 10}
    models = [BCFWSSVM(graph, **early, **options) for options in BCFW]
    if name in FOR_ALL:
        models += [CasimirSSVM(graph, **primal), SubgradientSSVM(graph, **primal)]
    if name == "chains":
        models.append(BCFWSSVM(graph, averaging=True, **early))
        models.append(CasimirSSVM(graph, smoothing="entropy", **primal))
    low, _ = check(models, BCFWSSVM(graph, **sharp), X, y)
    if "rules" in name:  # GDMM does not know them
        return
    # With cycles GDMM solves the relaxation, as BCFW does when it is told to.
    models = [GDMMSSVM(graph, **early, **options) for options in GDMM]
    models.append(BCFWSSVM(agreed, **early, **BCFW[1]))
    _, high = check(models, GDMMSSVM(graph, algorithm="gdmm", **sharp), X, y)
    assert high >= low - SLACK * high
    relaxed = getattr(agreed, "inference", "auto") == "relaxed"
    assert models[0].training_inference_ == ("relaxed" if relaxed else "exact")
    assert models[0].inference_ == "exact"


@pytest.mark.parametrize("name", FOR_CRFS)
def test_bounds_of_crfs(name):
    graph = STRUCTURES[name][0]
    for seed, C in ((5, 0.3), (6, 3.0)):
        X, y = draw(name, seed)
        common = {"C": C, "random_state": 0, "tol": 1e-12}
        best = SAGCRF(graph, C=C, solver="lbfgs", tol=1e-10, max_iter=2000).fit(X, y)
        high = best.objective_
        low = high * (1.0 - best.suboptimality_)
        for solver, max_iter in (
            ("sag", 1),
            ("sag", 30),
            ("saga", 5),
            ("lbfgs", 5),
            ("casimir", 1),
            ("casimir", 10),
        ):
            if solver != "lbfgs" and name not in FOR_ALL:
                continue
            crf = SAGCRF(graph, solver=solver, max_iter=max_iter, **common)
            dual, primal = bounds(crf, X, y)
            assert dual <= high * (1 + SLACK)
            assert primal >= low * (1 - SLACK)
            assert crf.objective_ * (1.0 - crf.suboptimality_) <= high * (1 + SLACK)


def relative_gap(*numbers, **options):
    return certify_pair(*numbers, **options).relative


def test_relative_gap_claims_only_what_the_numbers_tell():
    assert relative_gap(2.0, 1.0) == pytest.approx(0.5)
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(0.0, -1e-3) == 0.0  # no optimum is negative
    assert relative_gap(0.0, 0.0, 1.0) == np.inf
    assert relative_gap(1.0, -np.inf) == pytest.approx(1.0)
    # Rounding of the scores that were subtracted is no gap, and no proof that there is none.
    assert 0.0 < relative_gap(1.0, 1.0 + 1e-15) < 1e-14
    assert relative_gap(1e-16, 1e-16, magnitude=1.0) > 1.0
    # A dual too high shows how much rounding there is.
    assert relative_gap(1.0, 1.1, 1e12) > 0.1
    for pair in ((np.nan, 0.0), (0.0, np.nan), (np.inf, 0.0), (1.0, np.inf)):
        with pytest.raises(FloatingPointError, match="are the features scaled"):
            relative_gap(*pair)
    with pytest.raises(FloatingPointError, match=r"dual bound 1\.001 exceeds the objective"):
        relative_gap(1.0, 1.001)
    with pytest.raises(FloatingPointError, match=r"the objective -0\.1 is negative"):
        relative_gap(-0.1, -0.2)


@pytest.mark.parametrize("magnitude", [0.0, 1.0, 1e4, 1e9])
@pytest.mark.parametrize(
    "pair",
    [(1.0, 0.9), (1.0, 1.0 + 1e-15), (1e-3, 1e-3), (0.0, 0.0), (10.7, -27.0), (0.1, -np.inf)],
)
def test_bounds_differ_by_the_gap_and_are_in_order(pair, magnitude):
    known = certify_pair(*pair, magnitude)
    assert known.dual_objective == max(known.objective - known.dual_gap, 0.0) <= max(*pair[1:], 0.0)
    assert known.dual_objective <= known.objective
    assert known.dual_gap >= 1e-16 * magnitude
    relative = min(known.relative, 1.0)
    assert known.dual_gap == pytest.approx(relative * pair[0]) or pair[0] == 0.0


def test_a_gradient_certifies_no_objective_that_rounding_made():
    # Scores of 1e9 leave nothing of a loss of 1e-6.
    lost = certify(1e-6, 0.0, 1.0, 0.0, magnitude=1e9)
    assert lost.relative == pytest.approx(relative_gap(1e-6, 1e-6, 1e9), rel=1e-3)
    # Of an ordinary one they leave all: the square of a small gradient is far below its last digit.
    assert certify(0.5, 1e-20, 1.0, 0.4, magnitude=10.0).relative == pytest.approx(1e-20)
    # No optimum is negative.
    assert certify(1e-6, 1.0, 1.0, 0.0, magnitude=1e15).dual_gap == 1e-6
    negative = certify(-1e-9, 1.0, 1.0, -2e-9, 1e4)
    assert negative.objective == 0.0
    assert 0.0 < negative.dual_gap < 1e-8
    assert negative.relative == np.inf


@pytest.mark.parametrize("scale", [1e-150, 1e-15, 1e8, 1e15, 1e18, 1e25])
@pytest.mark.parametrize("estimator", [BCFWSSVM, GDMMSSVM])
@pytest.mark.parametrize("separable", [True, False])
def test_features_of_any_scale(estimator, scale, separable):
    """A certificate that holds, or a warning: never convergence by rounding."""
    X, y = draw("chains", 0)
    if separable:
        X = [np.eye(3)[np.searchsorted(CLASSES, labels)] for labels in y]
    svm = estimator(C=1.0, max_iter=50, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        svm.fit([scale * x for x in X], y)
    assert svm.objective_ >= 0.0
    assert svm.dual_objective_ <= svm.objective_ * (1 + SLACK)
    assert svm.dual_gap_ >= 0.0
    if not any(issubclass(w.category, ConvergenceWarning) for w in caught):
        assert svm.dual_gap_ <= svm.tol * svm.objective_
