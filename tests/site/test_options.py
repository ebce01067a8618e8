"""What one public function takes its neighbours take, or a reason is given here.

Functions and methods of one family are for the same things: an option that half of them have
belongs to all.
"""

import inspect
import pydoc
from collections import Counter
from contextlib import nullcontext
from fnmatch import fnmatch
from functools import partial
from itertools import groupby

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import skstruct
from skstruct import SAGCRF, Chain, SmoothedClassifier, TemperatureScaling, inspection, metrics
from tests.site.test_docstrings import HAS_TORCH, USERS

_MODELS = [
    skstruct.SAGCRF, skstruct.BCFWSSVM, skstruct.CasimirSSVM, skstruct.GDMMSSVM,
    skstruct.ExtragradientSSVM, skstruct.SubgradientSSVM, skstruct.ProxLinearSSVM,
]  # fmt: skip


def _of(module, part):
    names = (name.rpartition(".") for name in USERS)
    found = [own for home, _, own in names if home == module and part in own]
    return {name: getattr(getattr(skstruct, module), name) for name in found}


def _methods(classes, *starts):
    return {
        f"{cls.__name__}.{name}": method
        for cls in classes
        for name, method in inspect.getmembers(cls, callable)
        if name.startswith(starts)
    }


def _constructors(classes):
    return {cls.__name__: cls.__init__ for cls in classes}


FAMILIES = {
    "arrays": {
        name: getattr(skstruct, name) for name in USERS if name in skstruct.decoding.__all__
    },
    "predictions": _methods(
        [*_MODELS, TemperatureScaling, SmoothedClassifier], "predict", "sample", "score", "decision"
    ),
    "fits": _methods([*_MODELS, TemperatureScaling, SmoothedClassifier], "fit", "partial_fit"),
    "models": _constructors(_MODELS),
    "chunks": _of("metrics", "chunk"),
    "plots": _methods(
        [getattr(inspection, name) for name in inspection.__all__ if name.endswith("Display")],
        "plot",
    ),
    "frames": {
        name: getattr(inspection, name)
        for name in ("coef_frame", "top_features", "transition_frame", "explain")
    },
}
# Patterns of members, options, and why they lack them.
REASONS = {
    ("fit_transitions", "start"): "they are what it learns",
    ("fit_transitions", "stop"): "they are what it learns",
    ("fit_transitions", "transitions"): "they are what it learns",
    ("*.score", "rules"): "accuracy of predict(X): metrics take that of predict(X, rules=rules)",
    ("*.decision_function", "rules"): "predict_top_k(X, 2, rules=rules) has score and margin",
    ("*.predict_states", "rules"): "rules are of labels, structures with hidden states take none",
    ("*.partial_fit", "checkpoint"): "each call is a step, which the caller can save",
    ("*.partial_fit", "node_weight"): "a stream has weights of samples",
    ("TemperatureScaling.fit", "*"): "cross-validates: what is for one fit has no folds",
    ("SmoothedClassifier.fit", "*"): "cross-validates: what is for one fit has no folds",
    ("ExtragradientSSVM", "random_state"): "draws nothing",
    ("GDMMSSVM", "warm_start"): "starts at the truth of every factor, which no model keeps",
    ("SAGCRF", "loss"): "trains the likelihood; its `margin` is the weight of a task loss",
    ("chunks", "*"): "reads one sequence and scores nothing",
    ("chunk_offsets", "*"): "places chunks of one sequence and scores nothing",
    ("chunk_tags", "*"): "writes the tags of one sequence and scores nothing",
    ("chunk_classification_report", "average"): "shows all of them",
    ("coef_frame", "edge_feature_names"): "weights of nodes",
    ("top_features", "edge_feature_names"): "weights of nodes",
    ("transition_frame", "feature_names"): "weights of edges",
}
# What a family is known to share: the test would be empty without.
SHARED = {
    "arrays": {"rules", "scheme", "labels", "lengths", "n_jobs"},
    "predictions": {"X", "rules"},
    "fits": {"sample_weight", "y"},
    "models": {"C", "graph", "n_jobs", "tol", "max_iter", "class_weight", "random_state"},
    "chunks": {"scheme", "labels", "sample_weight"},
    "plots": {"ax"},
    "frames": {"model", "feature_names"},
}


def _options(family):
    """Options that at least half of a family take, and those of each member."""
    taken = {}
    for name, function in FAMILIES[family].items():
        parameters = inspect.signature(function).parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):  # else it hands all on
            taken[name] = {p.name for p in parameters} - {"self"}
    counts = Counter(option for options in taken.values() for option in options)
    return {option for option, n in counts.items() if 2 * n >= len(taken)}, taken


@pytest.mark.parametrize("family", FAMILIES)
def test_options_are_taken_by_all_of_a_family(family):
    shared, taken = _options(family)
    assert shared >= SHARED[family]
    lacking = {(name, option) for name, own in taken.items() for option in shared - own}
    for name, option in sorted(lacking):
        why = [1 for pair in REASONS if fnmatch(name, pair[0]) and fnmatch(option, pair[1])]
        assert why, f"{name} does not take {option}: let it, or give a reason"


def test_all_reasons_are_needed():
    lacking = [
        (name, option)
        for family in FAMILIES
        for shared, taken in [_options(family)]
        for name, own in taken.items()
        for option in shared - own
    ]
    for pair in REASONS:
        assert any(fnmatch(n, pair[0]) and fnmatch(o, pair[1]) for n, o in lacking), pair


_TAGS = [["B-X", "I-X", "O"]]
_CRF = SAGCRF(Chain(), random_state=0)


def _fitted():
    return clone(_CRF).fit([np.eye(3)] * 4, _TAGS * 4)


def _measure(function, scheme):
    more = {"beta": 1.0} if "fbeta" in function.__name__ else {}
    return function(_TAGS, _TAGS, scheme=scheme, **more)


# Of each public function with a parameter `scheme`, a call.
SCHEMES = {
    "decode": lambda scheme: skstruct.decode(np.zeros((3, 2)), labels=["O", "B-X"], scheme=scheme),
    "top_k": lambda scheme: skstruct.top_k(np.zeros((3, 2)), 2, labels=["O", "B-X"], scheme=scheme),
    "marginals": lambda scheme: skstruct.marginals(
        np.zeros((3, 2)), labels=["O", "B-X"], scheme=scheme
    ),
    "log_partition": lambda scheme: skstruct.log_partition(
        np.zeros((3, 2)), labels=["O", "B-X"], scheme=scheme
    ),
    "sample": lambda scheme: skstruct.sample(np.zeros((3, 2)), labels=["O", "B-X"], scheme=scheme),
    "fit_transitions": lambda scheme: skstruct.fit_transitions(
        np.zeros((3, 3)), ["B-X", "I-X", "O"], labels=["O", "B-X", "I-X"], scheme=scheme
    ),
    "OnlineDecoder": lambda scheme: skstruct.OnlineDecoder(
        np.zeros((2, 2)), lag=1, labels=["O", "B-X"], scheme=scheme
    ),
    "metrics.chunks": lambda scheme: metrics.chunks(_TAGS[0], scheme),
    "metrics.chunk_tags": lambda scheme: metrics.chunk_tags([], 2, scheme),
    **{
        f"metrics.{name}": partial(_measure, function)
        for name, function in FAMILIES["chunks"].items()
        if name not in ("chunks", "chunk_tags", "chunk_offsets")
    },
    "SAGCRF.predict_chunks": lambda scheme: _fitted().predict_chunks([np.eye(3)], scheme=scheme),
    "TemperatureScaling": lambda scheme: TemperatureScaling(
        _CRF, cv=2, isotonic=True, scheme=scheme
    ).fit([np.eye(3)] * 4, _TAGS * 4),
    "inspection.ErrorAnalysis": lambda scheme: inspection.ErrorAnalysis(
        _TAGS, _TAGS, scheme=scheme
    ),
    "metrics.confidences": lambda scheme: metrics.confidences(
        _fitted(), [np.eye(3)], _TAGS, of="chunks", scheme=scheme
    ),
}


def _have_scheme():
    """Public functions, classes and methods with a parameter `scheme`."""
    for name in USERS:
        if name.startswith("torch.") and not HAS_TORCH:
            continue
        item = pydoc.locate(f"skstruct.{name}")
        members = {} if not inspect.isclass(item) else dict(inspect.getmembers(item, callable))
        for member, function in {"": item, **members}.items():
            if member.startswith("_") or not callable(function):
                continue
            try:
                parameters = inspect.signature(function).parameters
            except (TypeError, ValueError):
                continue
            if "scheme" in parameters:
                yield f"{name}.{member}".rstrip(".")


# Methods of other models are those of SAGCRF; segments have few schemes of their own.
_SAME = ("*SSVM.predict_chunks", "lite.Tagger.chunks", "SemiChain")


def test_all_that_take_a_scheme_are_tried():
    found = [name for name in _have_scheme() if not any(fnmatch(name, one) for one in _SAME)]
    assert {*found} - {"torch.CRF"} == {*SCHEMES}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_are_taken_or_refused_by_name(name):
    SCHEMES[name]("BIO")
    with pytest.raises(ValueError, match=r"scheme must be .*got 'iob3'"):
        SCHEMES[name]("iob3")
    # Functions on arrays forbid transitions; all others find chunks.
    refused = pytest.raises(ValueError, match="scheme: 'runs' forbids no transition")
    with refused if name in [*FAMILIES["arrays"], "OnlineDecoder"] else nullcontext():
        SCHEMES[name]("runs")


def test_options_reach_the_model_inside_a_wrapper():
    X, y = [np.eye(3)] * 6, [["a", "b", "c"], ["b", "a", "c"]] * 3
    rules = [skstruct.Exactly(2, "a")]
    scaled = TemperatureScaling(FrozenEstimator(clone(_CRF).fit(X, y))).fit(X, y)
    smoothed = SmoothedClassifier(LogisticRegression(), cv=2).fit(X, y)
    for model in (scaled, smoothed):
        for found in (model.predict(X, rules=rules), model.predict_top_k(X, 1, rules=rules)[0]):
            for labels in found:
                assert [k for k, _ in groupby(np.ravel(labels).tolist())].count("a") == 2
        for name in ("predict_marginals", "predict_proba"):
            for chances in getattr(model, name)(X, rules=rules):
                np.testing.assert_allclose(chances[:, 0], [1.0, 0.0, 1.0], atol=1e-12)
