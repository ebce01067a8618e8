"""Calls with the types that checkers find; test_checkers.py has them checked, nothing runs them."""

from typing import Any, assert_type

import numpy as np

from skstruct import BCFWSSVM, SAGCRF, Chain, Grid, Pairwise, SemiChain, TemperatureScaling
from skstruct.map_inference import FactorGraph, solve_map
from skstruct.metrics import chunk_classification_report, chunk_f1_score, chunk_fbeta_score
from skstruct.model_selection import tune
from skstruct.pipeline import Pipeline, make_pipeline
from skstruct.preprocessing import SequenceVectorizer

X, y = [[["w=he"], ["w=runs"]]], [["D", "V"]]

# Estimators: fit returns them, fitted attributes and predictions have types.
crf = SAGCRF(Chain(boundary=True), solver="lbfgs", class_weight="balanced", random_state=0)
assert_type(crf.fit(X, y), SAGCRF)
assert_type(SAGCRF().classes_, np.ndarray)
assert_type(crf.dual_gap_, float)
assert_type(crf.predict(X), np.ndarray)
assert_type(crf.predict_marginals(X), np.ndarray)
assert_type(crf.predict_marginals(X, pairwise=True), tuple[np.ndarray, np.ndarray])
assert_type(crf.score(X, y), float)
assert_type(BCFWSSVM("chain", loss={"a": 2.0}, steps="batch").fit(X, y), BCFWSSVM)
assert_type(TemperatureScaling(crf).predict_proba(X), np.ndarray)

# Pipelines.
model = make_pipeline(SequenceVectorizer(), SAGCRF())
assert_type(model, Pipeline)
assert_type(model.predict_top_k(X, k=2), tuple[np.ndarray, ...])
assert_type(model.predict_marginals(X), Any)
model.fit(X, y).predict_marginals(X)
tune(model, X, y, rule="one-se")

# Metrics.
assert_type(chunk_f1_score(y, y), float)
assert_type(chunk_f1_score(y, y, average="macro", labels=["NP"]), float)
assert_type(chunk_f1_score(y, y, average=None), np.ndarray)
assert_type(chunk_fbeta_score(y, y, beta=2.0, average=None, scheme="iob2"), np.ndarray)
assert_type(chunk_classification_report(y, y, digits=3), str)
assert_type(chunk_classification_report(y, y, output_dict=True), dict)

# Names that are no choices.
SAGCRF(solver="adam")  # type: ignore[arg-type]
SAGCRF("chains")  # type: ignore[arg-type]
SAGCRF(class_weight="equal")  # type: ignore[arg-type]
BCFWSSVM(sampling="nus")  # type: ignore[arg-type]
SemiChain(lengths="curves")  # type: ignore[arg-type]
Pairwise(interactions="none")  # type: ignore[arg-type]
Grid(inference="exact")  # type: ignore[arg-type]
solve_map(FactorGraph([2]), "mplp")  # type: ignore[arg-type]
tune(model, X, y, rule="first")  # type: ignore[arg-type]
chunk_f1_score(y, y, average="samples")  # type: ignore[call-overload]
