"""Every solver reaches the optimum, and no bound on the way claims more than that.

Cases are a covering array: each pair of a structure, a loss, features, sample weights, what is
trained and a way to train occurs in one of them.
"""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    Grid,
    MultiLabel,
    Pairwise,
    ProxLinearSSVM,
    SubgradientSSVM,
    Tree,
)
from skstruct.core import oracles
from skstruct.core.parallel import make_scratch
from skstruct.core.weights import Weights
from skstruct.data.labels import encode
from skstruct.datasets import pack_shards
from skstruct.solvers.certificate import certify, certify_pair
from skstruct.testing import all_labellings
from tests.helpers.all_pairs import all_pairs, names_of
from tests.helpers.certificate_cases import (
    CLASSES,
    FEATURES,
    ITEMS,
    LOSSES,
    STRUCTURES,
    bounds,
    draw,
    in_rows,
    loss_of,
)

WAYS = ["one thread", "two threads", "shards"]
WEIGHTS = [None, "drawn"]
INTERCEPTS = [True, False]
_TIGHT = {"tol": 1e-3, "max_iter": 3000, "gap_every": 5}
_CASIMIR = {"tol": 2e-2, "max_iter": 1500}
_SMALL = {"tol": 5e-2, "max_iter": 400, "smoothing_strength": 0.02}
_LOOSE = {"tol": 5e-3, "max_iter": 3000, "gap_every": 20, "eta": 0.5}
SVMS = {
    "pairwise": BCFWSSVM(**_TIGHT),
    "pairwise, small cache": BCFWSSVM(
        n_cached=2, sampling="uniform", **_TIGHT | {"max_iter": 6000}
    ),
    "pairwise, cached oracle": BCFWSSVM(oracle_cache=True, **_TIGHT),
    "pairwise, by gap": BCFWSSVM(sampling="gap", oracle_cache=True, n_cached=3, **_TIGHT),
    "frank-wolfe": BCFWSSVM(steps="frank-wolfe", n_cached=1, sampling="uniform", **_TIGHT),
    "averages": BCFWSSVM(
        steps="frank-wolfe", sampling="gap", averaging=True, **_TIGHT | {"tol": 2e-3}
    ),
    "batch": BCFWSSVM(steps="batch", **_TIGHT | {"tol": 2e-2}),
    "gdmm, auto": GDMMSSVM(**_TIGHT),
    "gdmm": GDMMSSVM(algorithm="gdmm", **_TIGHT),
    "gdmm, away": GDMMSSVM(variant="away", search="sampled", n_partitions=2, **_TIGHT),
    "gdmm, exact": GDMMSSVM(search="exact", **_TIGHT),
    "gdmm, bgcd": GDMMSSVM(variant="bgcd", **_LOOSE),
    "gdmm, afw": GDMMSSVM(variant="afw", **_LOOSE),
    "casimir": CasimirSSVM(warm_start_strategy="prox-center", **_CASIMIR),
    "casimir, entropy": CasimirSSVM(smoothing="entropy", **_CASIMIR),
    "casimir, constant": CasimirSSVM(
        variant="constant", warm_start_strategy="previous", smoothing="entropy", **_SMALL
    ),
    "casimir, extrapolated": CasimirSSVM(
        variant="constant", warm_start_strategy="extrapolation", **_SMALL
    ),
    "casimir, draws": CasimirSSVM(sampling="uniform", **_CASIMIR),
    "casimir, svrg": CasimirSSVM(variant="svrg", warm_start_strategy="previous", **_SMALL),
    "subgradient": SubgradientSSVM(tol=1e-9, max_iter=2000),
    "extragradient": ExtragradientSSVM(tol=1e-3, max_iter=3000),
    "prox-linear": ProxLinearSSVM(tol=5e-3, smoothing_strength=0.02, max_iter=60),
}
CRFS = {
    "auto": SAGCRF(),
    "sag": SAGCRF(solver="sag"),
    "sag, uniform": SAGCRF(solver="sag", sampling="uniform"),
    "sag, line search": SAGCRF(solver="sag", line_search="always"),
    "sag, as published": SAGCRF(solver="sag", schedule="paper"),
    "saga, as published": SAGCRF(solver="saga", schedule="paper", sampling="paired"),
    "sag, by the gradient": SAGCRF(solver="sag", stop="gradient"),
    "sag, single": SAGCRF(solver="sag", precision="single"),
    "saga": SAGCRF(solver="saga"),
    "saga, paired": SAGCRF(solver="saga", sampling="paired"),
    "svrg": SAGCRF(solver="svrg"),
    "oeg": SAGCRF(solver="oeg"),
    "casimir": SAGCRF(solver="casimir"),
    "lbfgs": SAGCRF(solver="lbfgs"),
}
ON_SHARDS = "pairwise", "frank-wolfe", "gdmm, auto", "gdmm", "gdmm, away", "lbfgs", "auto"


def _can_be(case):
    """Whether the structure, the way and what is trained go together."""
    name, model = case["name"], (SVMS | CRFS)[case["trained"]]
    if name in ITEMS and (case["loss"] != "hamming" or isinstance(model, GDMMSSVM)):
        return False
    if case["features"] == "CSR" and name.startswith(("images", "matchings")):
        return False
    if case["way"] == "shards" and (
        name.startswith(("labels", *ITEMS)) or "kinds" in name or case["trained"] not in ON_SHARDS
    ):
        return False
    if isinstance(model, GDMMSSVM):
        afw_on_sets = model.variant == "afw" and name.startswith("labels")
        lacks_factors = name.startswith("segments") or any(
            word in name for word in ("rules", "order", "hierarchy")
        )
        return not (lacks_factors or name == "graphs, forbidden" or afw_on_sets)
    if name == "matchings" and getattr(model, "smoothing", "l2") == "entropy":
        return False
    if isinstance(model, SAGCRF):
        return "relaxed" not in name and name != "matchings"
    is_batch = case["trained"] == "batch"
    return "relaxed" not in name or (
        isinstance(model, (BCFWSSVM, SubgradientSSVM)) and not is_batch
    )


def _sample_weight(case_or_none, n):
    return None if case_or_none is None else np.random.default_rng(n).choice([0.5, 1.0, 2.0], n)


def _trained(model, case, X, y, folder, monkeypatch):
    """The bounds of a run in memory or on shards; two threads give the bits of one."""
    weight, X = _sample_weight(case["weights"], len(y)), in_rows(case["features"], X)
    if case["way"] == "shards":
        options = {"graph": model.graph, "shard_size": 5, "sample_weight": weight}
        return bounds(model, pack_shards(X, y, folder / "shards", **options), None)
    if case["way"] == "two threads":
        monkeypatch.setattr("skstruct.core.parallel._NODES_A_THREAD", 1)
    found = bounds(model.set_params(n_jobs=1), X, y, sample_weight=weight)
    if case["way"] == "two threads":
        two = clone(model).set_params(n_jobs=2)
        assert bounds(two, X, y, sample_weight=weight) == found
        assert np.array_equal(two.coef_, model.coef_)
        assert np.array_equal(two.pair_weights_, model.pair_weights_)
    return found


def _hinge(model, X, y, sample_weight):
    """The objective by enumeration of all labellings."""
    graph = model.graph_
    samples = graph.read_X(model, X, reset=False)
    flat, classes = graph.read_y(y, samples), model.classes_
    codes = encode(flat, classes, samples.offsets)
    problem = graph.make_problem(
        samples, classes, model.fit_intercept, codes=codes, loss=model.loss
    )
    w, theta = Weights(model.node_weights_, model.pair_weights_), make_scratch(problem).theta
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    losses = []
    for i in range(len(y)):
        oracles.potentials(problem, i, w, theta)
        true = codes[problem.label_ptr[i] : problem.label_ptr[i + 1]]
        scores = [
            oracles.score(problem, i, theta, labels) + oracles.task_loss(problem, i, labels)
            for labels in all_labellings(
                true.size, 2 if isinstance(graph, MultiLabel) else classes.size
            )
        ]
        losses.append(max(scores) - oracles.score(problem, i, theta, true))
    return sum((part**2).sum() for part in w) / (2 * model.C * s.sum()) + s @ losses / s.sum()


@cache
def _optimum(name, loss, weights, intercept):
    """The bounds of a reference at its optimum, and its options."""
    seed = LOSSES.index(loss)
    options = {"C": 0.7 if seed % 2 else 0.3, "loss": loss_of(loss, name)}
    options |= {"fit_intercept": intercept}
    best = BCFWSSVM(STRUCTURES[name], tol=1e-7, max_iter=6000, gap_every=20, random_state=0)
    X, y = draw(name, seed)
    weight = _sample_weight(weights, len(y))
    low, high = bounds(best.set_params(**options), X, y, sample_weight=weight)
    if "relaxed" not in name and "rules" not in name and "order" not in name and name not in ITEMS:
        assert best.objective_ == pytest.approx(_hinge(best, X, y, weight), rel=1e-9)
    assert low <= high
    assert high - low <= 1e-5 * high, "the reference is not at its optimum"
    return low, high, options


_FACTORS = {"loss": LOSSES, "weights": WEIGHTS, "intercept": INTERCEPTS}
_FACTORS |= {"features": FEATURES, "way": WAYS}


@pytest.mark.thinned
@pytest.mark.parametrize(
    "case",
    all_pairs(
        _can_be,
        name=[name for name in STRUCTURES if "reweighted" not in name],
        trained=SVMS,
        **_FACTORS,
    ),
    ids=names_of,
)
def test_structural_svms(case, tmp_path, monkeypatch):
    name, model = case["name"], clone(SVMS[case["trained"]])
    X, y = draw(name, LOSSES.index(case["loss"]))
    # With cycles GDMM solves the relaxation, as BCFW does when it is told to.
    is_gdmm, other = isinstance(model, GDMMSSVM), name
    if is_gdmm:
        cyclic = name in ("graphs", "graphs, two kinds")
        other = name.replace(*("graphs", "graphs, relaxed") if cyclic else ("full", "relaxed"))
    low, high, options = _optimum(
        other, *(case[factor] for factor in ("loss", "weights", "intercept"))
    )
    model.set_params(graph=STRUCTURES[name], **options)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    dual, primal = _trained(model, case, X, y, tmp_path, monkeypatch)
    assert dual <= high, f"dual {dual} above the optimum {high}"
    assert primal >= low, f"objective {primal} under the optimum {low}"
    if case["way"] != "shards":
        assert model.training_inference_ == ("relaxed" if "relaxed" in other else "exact")
    if not hasattr(model, "dual_gap_"):
        assert model.objective_ <= 1.08 * high
        return
    assert 0.0 <= model.dual_gap_ <= model.tol * model.objective_
    if is_gdmm and "relaxed" in other and "relaxed" not in name:
        assert model.inference_ == "exact"


@cache
def _crf_optimum(name, margin, weights, intercept):
    X, y = draw(name, 5)
    weight = _sample_weight(weights, len(y))
    options = {"C": 0.3 if LOSSES.index(margin) % 2 else 3.0, "fit_intercept": intercept}
    options |= {"margin": None if margin == "normalized" else loss_of(margin, name)}
    best = SAGCRF(STRUCTURES[name], solver="lbfgs", tol=1e-10, max_iter=2000, **options)
    best.fit(X, y, sample_weight=weight)
    if options["margin"] is None:
        s = np.ones(len(y)) if weight is None else weight
        norm = (best.node_weights_**2).sum() + (best.pair_weights_**2).sum()
        value = norm / (2 * best.C * s.sum()) - s @ best.predict_log_likelihood(X, y) / s.sum()
        assert best.objective_ == pytest.approx(value, rel=1e-10)
    return best.objective_ * (1.0 - best.suboptimality_), best.objective_, options


@pytest.mark.thinned
@pytest.mark.parametrize(
    "case", all_pairs(_can_be, name=STRUCTURES, trained=CRFS, **_FACTORS), ids=names_of
)
def test_crfs(case, tmp_path, monkeypatch):
    """Of margins, the one named "normalized" is none."""
    name = case["name"]
    low, high, options = _crf_optimum(
        name, *(case[factor] for factor in ("loss", "weights", "intercept"))
    )
    crf = clone(CRFS[case["trained"]])
    crf.set_params(graph=STRUCTURES[name], tol=1e-6, max_iter=3000, random_state=0, **options)
    dual, primal = _trained(crf, case, *draw(name, 5), tmp_path, monkeypatch)
    assert dual <= high
    assert primal >= low
    assert crf.suboptimality_ <= 1e-6
    assert crf.objective_ <= high * (1 + 1e-5)


@pytest.mark.parametrize(
    ("relaxed", "exact"),
    [
        ("labels, relaxed", "labels, full"),
        ("labels, relaxed with tables", "labels, full with tables"),
        ("graphs, relaxed", "graphs"),
    ],
)
def test_the_optimum_of_a_relaxation_is_above_the_exact_one(relaxed, exact):
    low, high = (_optimum(name, "hamming", None, True)[:2] for name in (exact, relaxed))
    assert low[0] <= high[1]


def _paths(X):
    return [(x, np.stack([np.arange(len(x) - 1), np.arange(1, len(x))], axis=1)) for x in X]


OF_CHAINS = {
    "trees": (Tree(), lambda X: [(x, np.arange(len(x)) - 1) for x in X]),
    "forests": (Pairwise(), lambda X: [(x, edges[::-1]) for x, edges in _paths(X)]),
    "junction trees": (Pairwise(inference="junction-tree"), _paths),
    "relaxation": (Pairwise(inference="lp"), _paths),
    "reweighted": (Pairwise(inference="tree-reweighted"), _paths),
    "images of one row": (Grid(), lambda X: [x[None] for x in X]),
}


@pytest.mark.parametrize("name", OF_CHAINS)
@pytest.mark.parametrize(
    "model", [SAGCRF(solver="lbfgs", tol=1e-9), BCFWSSVM(tol=1e-5)], ids=["crf", "ssvm"]
)
def test_a_chain_is_the_same_problem_for_every_structure(model, name):
    graph, as_samples = OF_CHAINS[name]
    if name == ("relaxation" if isinstance(model, SAGCRF) else "reweighted"):
        pytest.skip("has no such oracle")
    X, y = draw("chains, edge features", 0)
    X, options = [x for x, _ in X], {"max_iter": 20000, "random_state": 0}
    samples, labels = as_samples(X), [row[None] for row in y] if "row" in name else y
    chain = clone(model).set_params(graph=Chain(), **options).fit(X, y)
    other = clone(model).set_params(graph=graph, **options).fit(samples, labels)
    assert chain.dual_objective_ <= other.objective_
    assert other.dual_objective_ <= chain.objective_
    assert np.allclose(other.coef_, chain.coef_, atol=5e-3)
    for a, b in zip(other.predict(samples), chain.predict(X), strict=True):
        assert np.array_equal(np.ravel(a), b)


def test_all_pairs_of_choices_occur():
    cases = all_pairs(lambda case: case["a"] != case["b"], a="xyz", b="xyz", c="12")
    assert len(cases) <= 8
    assert {(case["a"], case["b"]) for case in cases} == set(zip("xxyyzz", "yzxzxy", strict=True))
    assert {(case["b"], case["c"]) for case in cases} == {(b, c) for b in "xyz" for c in "12"}


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
    assert svm.dual_objective_ <= svm.objective_
    assert svm.dual_gap_ >= 0.0
    if not any(issubclass(w.category, ConvergenceWarning) for w in caught):
        assert svm.dual_gap_ <= svm.tol * svm.objective_
