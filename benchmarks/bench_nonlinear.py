"""Scores that are not linear: accuracy, and objectives against oracle calls beside subgradients.

    python benchmarks/bench_nonlinear.py [--data FOLDER] [--json OUT] [--quick] [--only TASK]

FOLDER holds ``ocr_letters/letters.npz`` and ``localisation/kangaroo.npz``. Task "ocr": words of
fold 0; C and the width of one hidden layer are chosen on a fifth of them, all words of the other
folds are the test. Task "localisation": one kangaroo an image, boxes of a sliding grid as
candidates, each a grid of 8 x 8 cells with colours and strengths of gradients, scored by one
strided convolution with ELU; every second image is for training. Both: prox-linear steps beside
stochastic subgradients with three schedules, whose first rate is the best of a grid, as in Pillutla
et al. 2019, section 7.2. All have the same map, the same first parameters and the same number of
oracle calls. Stationarity is ``|w - prox(w)| / eta`` of the best weights of each, for one eta and a
long inner run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.base import clone

from skstruct import BCFWSSVM, Candidates, Chain, ProxLinearSSVM
from skstruct.datasets import load_localisation, load_ocr_letters
from skstruct.metrics import iou
from skstruct.scores import ConvMap, LinearMap, MLPMap

SCHEDULES = "constant", "inverse", "sqrt"
COLUMNS = "passes", "oracle_calls", "seconds", "objective"


def fit(model, X, y):
    """Fit without warnings of convergence; returns CPU seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return time.process_time() - start


def stationarity(model, X, y, eta):
    """How far a long prox step moves from the best weights, over eta."""
    step = clone(model).set_params(
        solver="prox-linear", step_size=eta, inner_passes=20, max_iter=1, warm_start=True
    )
    for name in model._tables:
        setattr(step, name, getattr(model, name))
    for name in ("graph_", "classes_", "score_map_", "n_features_in_"):
        setattr(step, name, getattr(model, name))
    step._has_intercept = False
    fit(step, X, y)
    return float(step.history_["stationarity"][0])


def compare(name, model, X, y, rates, eta):
    """Prox-linear and the three baselines: curves, and where they end."""
    rows = []
    methods = [("prox-linear, l2", {})]
    methods += [("prox-linear, entropy", {"smoothing": "entropy", "smoothing_strength": 0.1})]
    methods += [(f"subgradient, {s}", {"solver": "subgradient", "schedule": s}) for s in SCHEDULES]
    budget = None
    for method, options in methods:
        best = None
        is_baseline = "solver" in options
        for rate in rates if is_baseline else [None]:
            trial = clone(model).set_params(**options)
            if is_baseline:
                trial.set_params(max_iter=budget, tol=0.0, learning_rate=rate)
            seconds = fit(trial, X, y)
            if best is None or trial.objective_ < best[0].objective_:
                best = trial, seconds, rate
        trial, seconds, rate = best
        history = trial.history_
        if budget is None:
            budget = max(1, round(history["passes"][-1]))
        curve = {key: history[key].tolist() for key in COLUMNS}
        curve["stationarity"] = history.get("stationarity", np.empty(0)).tolist()
        rows.append(
            {
                "task": name,
                "method": method,
                "rate": rate,
                "objective": trial.objective_,
                "stationarity": stationarity(trial, X, y, eta),
                "passes": history["passes"][-1],
                "cpu_seconds": seconds,
                "curve": curve,
            }
        )
        report(rows[-1])
    return rows


def report(row):
    """One line, and the smallest objective after shares of the oracle calls."""
    curve = row["curve"]
    calls, best = np.array(curve["passes"]), np.minimum.accumulate(curve["objective"])
    marks = row["passes"] * np.array([0.1, 0.25, 0.5, 1.0])
    at = [best[max(0, np.searchsorted(calls, m * 1.001, side="right") - 1)] for m in marks]
    rate = "" if row["rate"] is None else f" (rate {row['rate']:g})"
    print(
        f"{row['task']:13s} {row['method'] + rate:36s} {row['passes']:6.0f} passes "
        f"{row['cpu_seconds']:6.1f} s  objective "
        + " ".join(f"{value:8.4f}" for value in at)
        + f"  stationarity {row['stationarity']:.2e}",
        flush=True,
    )


def choose(models, X, y, rng):
    """The model that labels a fifth of the samples best after training on the others."""
    held_out = np.zeros(len(X), dtype=bool)
    held_out[rng.permutation(len(X))[: len(X) // 5]] = True
    scores = []
    for model in models:
        fit(
            model,
            [X[i] for i in np.flatnonzero(~held_out)],
            [y[i] for i in np.flatnonzero(~held_out)],
        )
        own = np.flatnonzero(held_out)
        scores.append(model.score([X[i] for i in own], [y[i] for i in own]))
    best = int(np.argmax(scores))
    print(f"chosen on held-out words: {models[best]} {scores[best]:.4f}", flush=True)
    return models[best]


def ocr(folder, quick):
    """Linear chain and one hidden layer on fold 0; then curves."""
    data = load_ocr_letters(folder / "ocr_letters" / "letters.npz")
    train = data.fold == 0
    X, y = list(data.X[train]), list(data.y[train])
    X_test, y_test = data.X[~train], data.y[~train]
    steps = 4 if quick else 25
    grid = (0.03, 0.1, 0.3) if not quick else (0.1,)
    widths = (100, 200) if not quick else (30,)
    linear = [BCFWSSVM(Chain(), C=C, max_iter=200, random_state=0) for C in (*grid, 1.0)]
    common = {"max_iter": steps, "random_state": 0}
    kinds = {"linear": linear}
    for smoothing, nu in (("l2", 1.0), ("entropy", 0.3)):
        options = common | {"smoothing": smoothing, "smoothing_strength": nu}
        kinds[f"hidden layer, {smoothing}"] = [
            ProxLinearSSVM(Chain(), MLPMap(h), C=C, **options) for h, C in product(widths, grid)
        ]
    rows = []
    for kind, models in kinds.items():
        model = choose(models, X, y, np.random.default_rng(0))
        seconds = fit(model, X, y)
        row = {"task": "ocr", "kind": kind, "model": str(model), "cpu_seconds": seconds}
        row |= {"train": model.score(X, y), "test": model.score(X_test, y_test)}
        rows.append(row)
        print(
            f"ocr           {kind:24s} train {row['train']:.4f} test {row['test']:.4f} "
            f"{seconds:6.1f} s",
            flush=True,
        )
    model = ProxLinearSSVM(Chain(), MLPMap(widths[0]), C=0.1, **common)
    rates = (3e-3, 1e-2, 3e-2, 1e-1) if not quick else (1e-2,)
    return rows + compare("ocr", model, X, y, rates, eta=1.0)


def channels(image, n_directions=4):
    """Colours, and strengths of gradients by direction."""
    grey = image.mean(axis=2)
    dy, dx = np.gradient(grey)
    bins = (np.arctan2(dy, dx) % np.pi * (n_directions / np.pi)).astype(int) % n_directions
    strength = np.hypot(dy, dx)[..., np.newaxis] * (
        bins[..., np.newaxis] == np.arange(n_directions)
    )
    return np.concatenate([image, 4.0 * strength], axis=2)


def candidates(image, cells=8, sizes=(0.25, 0.4, 0.63, 1.0)):
    """Boxes of a sliding grid, and the means of the channels in their cells."""
    maps = channels(image)
    total = np.zeros((maps.shape[0] + 1, maps.shape[1] + 1, maps.shape[2]))
    total[1:, 1:] = maps.cumsum(axis=0).cumsum(axis=1)
    spans = []
    for side in image.shape[:2]:
        own = []
        for size in sizes:
            n = 1 if size == 1.0 else int(np.ceil((1.0 - size) / (0.4 * size))) + 1
            own += [(start, start + size * side) for start in np.linspace(0, (1 - size) * side, n)]
        spans.append(own)
    boxes = np.array([(x0, y0, x1, y1) for (y0, y1), (x0, x1) in product(*spans)])
    rows = []
    for x0, y0, x1, y1 in boxes:
        ys = np.round(np.linspace(y0, y1, cells + 1)).astype(int)
        xs = np.round(np.linspace(x0, x1, cells + 1)).astype(int)
        corners = total[np.ix_(ys, xs)]
        sums = np.diff(np.diff(corners, axis=0), axis=1)
        area = np.maximum(np.diff(ys)[:, None] * np.diff(xs), 1)[..., None]
        rows.append((sums / area).ravel())
    return np.array(rows), boxes


def localisation(folder, quick):
    """A convolution over candidate boxes."""
    data = load_localisation(folder / "localisation")
    one = [i for i, boxes in enumerate(data.boxes) if len(boxes) == 1]
    one = one[:20] if quick else one
    X = [candidates(data.images[i]) for i in one]
    y = [data.boxes[i][0] for i in one]
    mean = np.concatenate([table for table, _ in X[::2]]).mean(axis=0)
    scale = np.concatenate([table for table, _ in X[::2]]).std()
    X = [((table - mean) / scale, boxes) for table, boxes in X]
    print(f"localisation: {len(X)} images, {len(X[0][1])} boxes each, {X[0][0].shape[1]} features")
    common = {"loss": "iou", "smoothing_strength": 0.1, "max_iter": 4 if quick else 15}
    common |= {"n_best": 10, "batch_size": 4, "random_state": 0}
    conv = ConvMap(shape=(8, 8, 7), n_filters=16, size=3, stride=2)
    rows = []
    for name, score_map, C in (("linear", LinearMap(), 1.0), ("conv", conv, 1.0)):
        model = ProxLinearSSVM(Candidates("box"), score_map, C=C, **common)
        seconds = fit(model, X[::2], y[::2])
        row = {"task": "localisation", "kind": name, "cpu_seconds": seconds}
        for part, own in (("train", slice(0, None, 2)), ("test", slice(1, None, 2))):
            row[part] = model.score(X[own], y[own])
            row[f"{part}_overlap"] = float(iou(y[own], model.predict(X[own])).mean())
        rows.append(row)
        print(
            f"localisation  {name:8s} objective {model.objective_:.4f} overlap of at least half: "
            f"train {row['train']:.3f} test {row['test']:.3f}; mean overlap "
            f"{row['train_overlap']:.3f} {row['test_overlap']:.3f}; {seconds:.1f} s",
            flush=True,
        )
    rates = (3e-3, 1e-2, 3e-2, 1e-1) if not quick else (1e-2,)
    model = ProxLinearSSVM(Candidates("box"), conv, C=1.0, **common)
    return rows + compare("localisation", model, X[::2], y[::2], rates, eta=1.0)


def main():
    """Both tasks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("SKSTRUCT_DATA", "data"))
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["ocr", "localisation"])
    args = parser.parse_args()
    rows = []
    for task in (ocr, localisation):
        if args.only in (None, task.__name__):
            rows += task(Path(args.data), args.quick)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
