"""Figures of the guide whose curves the package computes, in some seconds."""
# ruff: noqa: D103 (a function is a figure; its caption is in the guide)

import warnings

import numpy as np
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale
from svg import BLUE, GREY, RED, Drawing, Plot, bars

from skstruct import BCFWSSVM, SAGCRF
from skstruct.callbacks import EarlyStopping
from skstruct.datasets import make_annotated_sentences
from skstruct.preprocessing import TemplateVectorizer
from skstruct.testing import random_sequences


def noisy_sequences(rng, n, spread=1.0):
    """Labels that tend to persist, with noise and uninformative features."""
    y = [np.cumsum(rng.random(12) < 0.2) % 3 for _ in range(n)]
    X = [
        np.hstack([np.eye(3)[v] + spread * rng.normal(size=(12, 3)), rng.normal(size=(12, 40))])
        for v in y
    ]
    return X, y


def choosing_c():
    rng = np.random.default_rng(1)
    X, y = noisy_sequences(rng, 525)
    values = np.logspace(-4, 2, 13)
    scores = []
    for C in values:
        crf = SAGCRF(C=C, max_iter=2000, random_state=0).fit(X[:25], y[:25])
        scores.append((crf.score(X[:25], y[:25]), crf.score(X[25:], y[25:])))
    plot = Plot((-4, 2), (0.3, 1.0), "C", "accuracy")
    plot.ticks(
        [(k, f"{10.0**k:g}") for k in range(-4, 3)], [(v, f"{v}") for v in (0.4, 0.6, 0.8, 1.0)]
    )
    for k, name in enumerate(("training", "test")):
        plot.curve(np.log10(values), [pair[k] for pair in scores], name)
    return plot


def solvers():
    X, y = random_sequences(np.random.default_rng(0), n_samples=60)
    models = {
        name: SAGCRF(solver=name, tol=1e-7, track_objective=True, random_state=0).fit(X, y)
        for name in ("sag", "lbfgs", "casimir")
    }
    models["BCFW (SVM)"] = BCFWSSVM(tol=1e-5, max_iter=2000, gap_every=2, random_state=0).fit(X, y)
    plot = Plot((0, 80), (-7, 0.2), "passes", "relative duality gap")
    plot.ticks([(k, str(k)) for k in range(0, 81, 20)], [(k, f"1e{k}") for k in (-6, -4, -2, 0)])
    for name, model in models.items():
        history = model.history_
        gap = np.minimum.accumulate(np.fmin(history["dual_gap"], np.inf) / model.objective_)
        keep = (history["passes"] <= 80) & (gap > 10.0**-7) & (gap < 1.5)
        plot.curve(history["passes"][keep], np.log10(gap[keep]), name)
    return plot


def losses():
    lead = np.linspace(-3, 4, 60)
    plot = Plot((-3, 4), (0, 4), "margin of the right label", "loss")
    plot.ticks([(k, str(k)) for k in range(-3, 5)], [(k, str(k)) for k in range(5)])
    for name, values in (
        ("log loss", np.log1p(np.exp(-lead))),
        ("hinge", np.maximum(0, 1 - lead)),
        ("softmax-margin", np.log1p(np.exp(1 - lead))),
        ("task loss", (lead < 0) * 1.0),
    ):
        keep = values <= 4
        plot.curve(lead[keep], values[keep], name, dashed=name == "task loss")
    return plot


def early_stopping():
    rng = np.random.default_rng(1)
    X, y = noisy_sequences(rng, 325)
    held = X[25:], y[25:]
    curves = {}
    for name, samples in (("training", (X[:25], y[:25])), ("held out", held)):
        crf = SAGCRF(C=1000.0, tol=0.0, solver="lbfgs", max_iter=40, random_state=0)
        stopper = EarlyStopping(samples, patience=10**6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            curves[name] = (
                crf.set_callbacks(stopper).fit(X[:25], y[:25]).history_["validation_score"]
            )
    plot = Plot((1, 40), (0.4, 1.0), "epoch", "accuracy")
    plot.ticks(
        [(k, str(k)) for k in (1, 10, 20, 30, 40)], [(v, str(v)) for v in (0.4, 0.6, 0.8, 1.0)]
    )
    for name, values in curves.items():
        plot.curve(np.arange(1, values.size + 1), values, name)
    best = int(np.argmax(curves["held out"]))
    plot.circle(*plot.at(best + 1, curves["held out"][best]), 6, "none")
    return plot


def transitions():
    train = make_annotated_sentences(n_train=100, random_state=0).train
    templates = 'U0:%x[0,0]\nU1:%x[-1,0]\nU2:%m[0,0,"...$"]'
    model = make_pipeline(TemplateVectorizer(templates), SAGCRF(random_state=0))
    crf = model.fit(train.word, train.entity)[-1]
    table, names = crf.pairwise_coef_, crf.classes_.tolist()
    drawing = Drawing(120 + 64 * len(names), 50 + 36 * len(names))
    for j, row in enumerate(names):
        drawing.text(92, 60 + 36 * j, row, anchor="end")
        drawing.text(132 + 64 * j, 28, row)
        for k, weight in enumerate(table[j]):
            drawing.items.append(
                f'<rect x="{100 + 64 * k}" y="{38 + 36 * j}" width="62" height="34" '
                f'fill="{BLUE if weight > 0 else RED}" fill-opacity="{abs(weight) / 6:.2f}"/>'
            )
            drawing.text(131 + 64 * k, 60 + 36 * j, f"{weight:.1f}", 12)
    drawing.text(46, 28, "from \\ to", 11, GREY)
    return drawing


def l1_path():
    train = make_annotated_sentences(n_train=200, random_state=0)
    templates = 'U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[1,0]\nU3:%m[0,0,"...$"]'
    vectorizer = TemplateVectorizer(templates)
    X = vectorizer.fit_transform(train.train.word)
    X_test = vectorizer.transform(train.test.word)
    crf = SAGCRF(l1_ratio=0.9, warm_start=True, tol=1e-2, max_iter=2000, random_state=0)
    values, shares, scores = np.logspace(-2, 1, 10), [], []
    for C in values:
        crf.set_params(C=C).fit(X, train.train.entity)
        shares.append(np.mean(crf.coef_ != 0))
        scores.append(crf.score(X_test, train.test.entity))
    plot = Plot((-2, 1), (0, 1), "C", "fraction")
    plot.ticks([(k, f"{10.0**k:g}") for k in (-2, -1, 0, 1)], [(v, str(v)) for v in (0, 0.5, 1.0)])
    plot.curve(np.log10(values), scores, "labels right")
    plot.curve(np.log10(values), shares, "weights not 0")
    return plot


def scaling():
    X, y = load_iris(return_X_y=True)
    passes = [
        BCFWSSVM("multiclass", max_iter=5000, random_state=0).fit(features, y).n_iter_
        for features in (X, scale(X))
    ]
    names = ["as they are", "standardised"]
    return bars("Passes of BCFWSSVM on iris", names, passes, [str(n) for n in passes])


FIGURES = [choosing_c, solvers, losses, early_stopping, transitions, l1_path, scaling]
