"""What certificates may claim: dual <= optimum <= primal over one set, for every solver."""

import itertools
import warnings
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    AtMostOnce,
    Before,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    MultiClass,
    MultiLabel,
    SubgradientSSVM,
    Tree,
)
from skstruct.data.rules import broken_rules
from skstruct.datasets import pack_shards
from skstruct.solvers.certificate import certify, certify_pair
from skstruct.testing import all_labellings
from tests.helpers.all_pairs import all_pairs, names_of
from tests.helpers.certificate_cases import bounds

CLASSES = np.array(["a", "b", "c"])
FORBIDDEN = [("a", "c"), ("b", "b")]
ENDS = [(None, "b"), ("c", None)]
RULES = [AtMostOnce("a"), Before("b", "c")]

STRUCTURES = {
    "table": MultiClass(),
    "chains": Chain(boundary=True),
    "chains, forbidden": Chain(forbidden=FORBIDDEN),
    "chains, forbidden ends": Chain(boundary=True, forbidden=FORBIDDEN + ENDS),
    "chains, rules": Chain(rules=RULES),
    "chains, edge features": Chain(edge_features=True),
    "trees": Tree(),
    "trees, forbidden": Tree(forbidden=FORBIDDEN),
    "labels": MultiLabel(),
    "labels, tree": MultiLabel("tree", tables=True),
    "labels, full": MultiLabel("full"),
    "labels, full with tables": MultiLabel("full", tables=True),
    "labels, relaxed": MultiLabel("full", inference="relaxed"),
    "labels, relaxed with tables": MultiLabel("full", tables=True, inference="relaxed"),
}
LOSSES = ["hamming", "normalized", "by class", "matrix"]
FEATURES = {"dense": np.asarray, "CSR": sparse.csr_matrix}
WAYS = ["one thread", "two threads", "shards"]
_EARLY = {"max_iter": 25, "gap_every": 1}
SVMS = {
    "bcfw": BCFWSSVM(**_EARLY),
    "bcfw, gap": BCFWSSVM(sampling="gap", oracle_cache=True, n_cached=3, **_EARLY),
    "frank-wolfe": BCFWSSVM(steps="frank-wolfe", n_cached=1, sampling="uniform", **_EARLY),
    "averages": BCFWSSVM(averaging=True, **_EARLY),
    "gdmm, auto": GDMMSSVM(**_EARLY),
    "gdmm": GDMMSSVM(algorithm="gdmm", **_EARLY),
    "gdmm, away": GDMMSSVM(variant="away", search="sampled", n_partitions=2, **_EARLY),
    "gdmm, greedy": GDMMSSVM(variant="bgcd", search="exact", rho=0.3, **_EARLY),
    "casimir": CasimirSSVM(max_iter=10),
    "casimir, entropy": CasimirSSVM(smoothing="entropy", max_iter=10),
    "subgradient": SubgradientSSVM(max_iter=10),
    "extragradient": ExtragradientSSVM(max_iter=20),
}
CRFS = {
    "sag, once": SAGCRF(solver="sag", max_iter=1),
    "sag": SAGCRF(solver="sag", max_iter=30),
    "saga": SAGCRF(solver="saga", max_iter=5),
    "svrg": SAGCRF(solver="svrg", max_iter=3),
    "oeg": SAGCRF(solver="oeg", max_iter=3),
    "lbfgs": SAGCRF(solver="lbfgs", max_iter=5),
    "auto": SAGCRF(max_iter=10),
    "casimir, once": SAGCRF(solver="casimir", max_iter=1),
    "casimir": SAGCRF(solver="casimir", max_iter=10),
}
SLACK = 1e-9


ON_SHARDS = "bcfw", "frank-wolfe", "gdmm, auto", "gdmm", "gdmm, away", "lbfgs", "auto"


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


def _in_rows(kind, X):
    """Node features, dense or CSR."""
    if isinstance(X, np.ndarray):
        return FEATURES[kind](X)
    return [
        (FEATURES[kind](x[0]), *x[1:]) if isinstance(x, tuple) else FEATURES[kind](x) for x in X
    ]


def _trained(model, way, X, y, graph, folder):
    """The bounds of a run in memory or on shards."""
    if way == "shards":
        return bounds(model, pack_shards(X, y, folder, graph=graph, shard_size=5), None)
    return bounds(model.set_params(n_jobs=1 + WAYS.index(way)), X, y)


@cache
def _optimum(name, loss):
    """The bounds of a reference at its optimum."""
    seed = LOSSES.index(loss)
    options = {"C": 0.7 if seed % 2 else 0.3, "loss": loss_of(loss, name)}
    best = BCFWSSVM(STRUCTURES[name], tol=1e-7, max_iter=6000, gap_every=20, random_state=0)
    best.set_params(**options)
    low, high = bounds(best, *draw(name, seed))
    assert low <= high + SLACK * high
    assert high - low <= 1e-5 * high, "the reference is not at its optimum"
    return low, high, options


def _can_be(case):
    """Whether the structure, the way and what is trained go together."""
    name, model = case["name"], (SVMS | CRFS)[case["trained"]]
    if case["way"] == "shards" and (name.startswith("labels") or case["trained"] not in ON_SHARDS):
        return False
    if "rules" in name:
        return not isinstance(model, GDMMSSVM)
    return "relaxed" not in name or isinstance(model, (BCFWSSVM, GDMMSSVM, SubgradientSSVM))


@pytest.mark.parametrize(
    "case",
    all_pairs(_can_be, name=STRUCTURES, loss=LOSSES, trained=SVMS, features=FEATURES, way=WAYS),
    ids=names_of,
)
def test_bounds_of_structural_svms(case, tmp_path):
    name, graph = case["name"], STRUCTURES[case["name"]]
    X, y = draw(name, LOSSES.index(case["loss"]))
    model = clone(SVMS[case["trained"]])
    # With cycles GDMM solves the relaxation, as BCFW does when it is told to.
    cycles = isinstance(model, GDMMSSVM) and name.startswith("labels, full")
    relaxed = name.replace("full", "relaxed") if cycles else name
    low, high, options = _optimum(relaxed, case["loss"])
    model.set_params(graph=graph, tol=0.0, **options)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    dual, primal = _trained(
        model, case["way"], _in_rows(case["features"], X), y, graph, tmp_path / "a"
    )
    assert dual <= high + SLACK * high, f"dual {dual} above the optimum {high}"
    assert primal >= low - SLACK * high, f"objective {primal} under the optimum {low}"
    if hasattr(model, "dual_gap_"):
        assert model.dual_gap_ >= -SLACK * high


@cache
def _crf_optimum(name, C):
    best = SAGCRF(STRUCTURES[name], C=C, solver="lbfgs", tol=1e-10, max_iter=2000)
    best.fit(*draw(name, 5))
    return best.objective_ * (1.0 - best.suboptimality_), best.objective_


@pytest.mark.parametrize(
    "case",
    all_pairs(_can_be, name=STRUCTURES, trained=CRFS, C=[0.3, 3.0], features=FEATURES, way=WAYS),
    ids=names_of,
)
def test_bounds_of_crfs(case, tmp_path):
    name, graph = case["name"], STRUCTURES[case["name"]]
    X, y = draw(name, 5)
    low, high = _crf_optimum(name, case["C"])
    crf = clone(CRFS[case["trained"]]).set_params(graph=graph, C=case["C"], tol=0.0, random_state=0)
    dual, primal = _trained(
        crf, case["way"], _in_rows(case["features"], X), y, graph, tmp_path / "a"
    )
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
