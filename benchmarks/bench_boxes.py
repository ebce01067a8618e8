"""Boxes of objects: how few boxes a search looks at, and which solver learns to find them fastest.

    python benchmarks/bench_boxes.py [--data FOLDER] [--json OUT] [--figure OUT] [--passes N]
                                     [--quick]

Search, on drawn maps and, with FOLDER (it holds ``localisation/kangaroo.npz``), on trained ones:
107 images of up to 128 pixels with one object, points are pixels and their features colour words of
KMeans. Trained on every second image, measured on the others. CPU milliseconds an image, the
smallest of three runs; shares are sets of boxes whose bound was computed, over all boxes.

Learning, with FOLDER: curves by passes of Casimir (top-K, K = 10), BCFW and the averaged
subgradient method, on the candidates of a sliding grid and on all boxes by exact search. All 163
images: the first, third and so on (82) to train, the others (81) to test. A candidate's loss is
what its overlap lacks of the best one's, with any object of the image; search knows the largest
object of an image only. CorLoc is the share of test images whose best box has an overlap of at
least 0.5 with an object, AP the average precision of these boxes for all objects (one box an image,
so it is at most the number of images over that of objects). Features and C were chosen by
cross-validation on the 82 images. Objectives and measures are computed outside the clocks, from the
weights after each pass.

What came out: see the section on boxes of doc/items.rst.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.cluster import KMeans

from skstruct import BCFWSSVM, Boxes, Candidates, CasimirSSVM, SubgradientSSVM
from skstruct.core.weights import Weights, lazy_weights
from skstruct.datasets import load_localisation
from skstruct.inference import subwindow
from skstruct.losses.hinge import hinge_of
from skstruct.metrics import average_precision, corloc_score, iou
from skstruct.preprocessing import BoxProposals, PatchWords
from skstruct.solvers.primal import objective_value
from skstruct.testing import training_problem

_KINDS = {"none": subwindow.NO_LOSS, "iou": subwindow.OVERLAP}


def measure(weights, true, loss="none", n_best=1, stride=1):
    """Milliseconds, and the share of boxes that were looked at."""
    space = subwindow.make_subwindows(*(-(-side // stride) for side in weights.shape))
    frontier, values, times = subwindow.make_frontier(n_best), np.empty(n_best), []
    rows, columns = (np.arange(0, side, stride) for side in weights.shape)
    cells = np.add.reduceat(np.add.reduceat(weights, rows, axis=0), columns, axis=1)
    for _ in range(3):
        subwindow.set_lines(space, *weights.shape, stride, 1)
        space.weights[: cells.size] = cells.ravel()
        space.task[subwindow.LOSS] = _KINDS[loss]
        space.task[subwindow.TRUE_TOP : subwindow.TRUE_RIGHT + 1] = np.asarray(true)[[1, 0, 3, 2]]
        start = time.process_time()
        subwindow.best_boxes(space, frontier, values, -1)
        times.append(1e3 * (time.process_time() - start))
    n_boxes = np.prod([n * (n + 1) / 2 for n in (-(-side // stride) for side in weights.shape)])
    return min(times), frontier.counts[subwindow.BOUNDED] / n_boxes


def report(name, maps, boxes, **options):
    """Print and return means and maxima over images."""
    times, shares = np.array(
        [measure(w, box, **options) for w, box in zip(maps, boxes, strict=True)]
    ).T
    row = {
        "what": name,
        "ms": times.mean(),
        "most ms": times.max(),
        "share": shares.mean(),
        "largest share": shares.max(),
    }
    print(
        f"{name:44s} {row['ms']:7.2f} ms (most {row['most ms']:7.2f})   "
        f"{100 * row['share']:9.5f} % of the boxes (most {100 * row['largest share']:.5f})",
        flush=True,
    )
    return row


def drawn():
    """Maps of 128 x 128 without data."""
    rng = np.random.default_rng(0)
    boxes = [[32, 40, 80, 90]] * 10
    noise = [rng.normal(size=(128, 128)) for _ in boxes]
    smooth = [gaussian_filter(w, 6) for w in noise]
    yield report("drawn: noise", noise, boxes)
    yield report("drawn: smooth noise", smooth, boxes)
    yield report("drawn: nothing, with the loss", [0.0 * w for w in noise], boxes, loss="iou")
    yield report(
        "drawn: a little noise, with the loss", [1e-3 * w for w in noise], boxes, loss="iou"
    )


def images(folder, n_words):
    """Maps of colour words, and boxes in whole pixels."""
    data = load_localisation(Path(folder) / "localisation")
    one = [i for i, boxes in enumerate(data.boxes) if len(boxes) == 1]
    pictures = [data.images[i] for i in one]
    sample = np.concatenate([p.reshape(-1, 3) for p in pictures])[::37]
    words = KMeans(n_words, n_init=1, random_state=0).fit(sample)
    X = [words.predict(p.reshape(-1, 3)).reshape(p.shape[:2]) for p in pictures]
    ends = [data.boxes[i][0] for i in one]
    boxes = np.array([[*np.floor(box[:2]), *np.ceil(box[2:])] for box in ends], dtype=int)
    return X, boxes


def trained(folder, passes):
    """Each solver's weights, on the images that it has not seen."""
    X, y = images(folder, 64)
    C = 1e-6  # features count pixels: there are thousands in a box
    for kind in (BCFWSSVM, CasimirSSVM, SubgradientSSVM):
        options = {"n_best": 10} if kind is CasimirSSVM else {}
        svm = kind(Boxes(), C=C, loss="iou", max_iter=passes, tol=1e-2, random_state=0, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            svm.fit(X[::2], y[::2])
        seconds, calls = svm.history_["seconds"][-1], svm.history_["oracle_calls"][-1]
        gap = getattr(svm, "dual_gap_", np.nan) / svm.objective_
        name = kind.__name__
        print(
            f"{name}: objective {svm.objective_:.4f}, relative gap {gap:.1e}, {seconds:.1f} s, "
            f"{1e3 * seconds / calls:.2f} ms an oracle call; CorLoc {svm.score(X[::2], y[::2]):.3f}"
            f" on its images, {svm.score(X[1::2], y[1::2]):.3f} on others"
        )
        maps = [svm.coef_[0][codes] + svm.intercept_[0] for codes in X]
        yield report(f"{name}: prediction", maps[1::2], y[1::2])
        yield report(f"{name}: the 10 best", maps[1::2], y[1::2], n_best=10)
        yield report(f"{name}: with the loss", maps[::2], y[::2], loss="iou")
        yield report(
            f"{name}: with the loss, the 10 best", maps[::2], y[::2], loss="iou", n_best=10
        )
        yield report(f"{name}: prediction, stride 4", maps[1::2], y[1::2], stride=4)


# Learning

# Passes of the tables, and directions of gradients.
_PASSES, _DIRECTIONS = (1, 2, 5, 10, 20, 50), 8


class Watch:
    """A callback that keeps the weights after each pass."""

    def __init__(self):
        self.weights = []

    def setup(self, estimator, context):
        """Nothing to do."""

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Keep them."""
        if context.task_name == "epoch" and fitted_estimator is not None:
            self.weights.append(
                Weights(
                    fitted_estimator.node_weights_.copy(), fitted_estimator.pair_weights_.copy()
                )
            )


def split(folder, quick):
    """Images and boxes, those to train and those to test."""
    data = load_localisation(Path(folder) / "localisation")
    pairs = list(zip(data.images, [b.astype(float) for b in data.boxes], strict=True))
    pairs = pairs[:24] if quick else pairs
    return pairs[::2], pairs[1::2]


def best_overlap(boxes, true):
    """Of each box with any of the true ones."""
    return np.max([iou(box, boxes) for box in true], axis=0)


class GridTask:
    """Candidates of a sliding grid."""

    name, C, loss = "1,296 candidates of a grid", 10.0, "hamming"
    graph = Candidates("losses")

    def __init__(self, train, test, points):
        tables = BoxProposals(n_directions=_DIRECTIONS).fit_transform(points)
        self.X, self.boxes = [x for x, _ in tables], [boxes for _, boxes in tables[len(train) :]]
        self.y = []
        for (_, boxes), (_, true) in zip(tables, train, strict=False):
            overlap = best_overlap(boxes, true)
            self.y.append(overlap.max() - overlap)
        found = [
            best_overlap(*pair).max()
            for pair in zip(self.boxes, (own for _, own in test), strict=True)
        ]
        self.reach = np.mean(np.array(found) >= 0.5)

    def found(self, model, X):
        """Boxes and their scores."""
        scores = [x @ model.node_weights_[:, 0] for x in X]  # reading X takes longer than that
        chosen = [own[np.argmax(s)] for own, s in zip(self.boxes, scores, strict=True)]
        return np.array(chosen), np.array([s.max() for s in scores])


class SearchTask:
    """All boxes with sides of at least 16 pixels that end at multiples of 4 or at the border."""

    name, C, loss, reach = "all boxes by exact search", 3e-4, "iou", 1.0
    graph = Boxes(min_size=16, stride=4)

    def __init__(self, train, test, points):
        self.X = [(sample[0], with_parts(*sample), sample[2]) for sample in points]
        self.y = [largest(*pair) for pair in train]

    def found(self, model, X):
        """Boxes and their scores."""
        return model.predict(X), model.decision_function(X)[:, 0]


def with_parts(places, words, size):
    """The words, and in which of 6 x 6 parts of the image a point lies."""
    part = places * 6 // size @ [6, 1]
    return sparse.csr_matrix(np.concatenate([words.toarray(), np.eye(36)[part]], axis=1))


def largest(image, boxes):
    """The largest box, in whole pixels."""
    box = boxes[np.argmax(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))]
    return np.array([*np.floor(box[:2]), *np.ceil(box[2:])], dtype=int)


def solvers(task, passes):
    """What is compared, by name."""
    options = {"C": task.C, "loss": task.loss, "fit_intercept": False, "random_state": 0}
    # Losses are at most 1: of the strengths 2 (the default), 0.5, 0.2 and 0.05 the third was best.
    casimir = {"n_best": 10, "smoothing_strength": 0.2, "tol": 1e-9, "max_iter": passes // 2}
    return {
        "Casimir": CasimirSSVM(task.graph, **casimir, **options),
        "BCFW": BCFWSSVM(task.graph, tol=1e-9, max_iter=passes, **options),
        "BCFW, averaged": BCFWSSVM(
            task.graph, tol=1e-9, max_iter=passes, averaging=True, **options
        ),
        "subgradient": SubgradientSSVM(task.graph, tol=0.0, max_iter=passes, **options),
    }


def curve(task, model, problem, test, true):
    """Train; by passes the objective, CorLoc and AP."""
    n, watch, model = len(task.y), Watch(), clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_callbacks(watch).fit(task.X[:n], task.y)
    keys = "passes", "seconds", "objective", "CorLoc", "AP"
    rows = {key: [] for key in keys}
    rows["dual"] = getattr(model, "dual_objective_", -np.inf)
    for k, w in enumerate(watch.weights):
        present = lazy_weights(w), np.ones(n), 1.0 / (task.C * n), None
        objective = objective_value(hinge_of(problem), problem, *present).objective
        model.node_weights_[:] = w.node
        boxes, scores = task.found(model, test)
        ranked = average_precision(true, boxes[:, None], scores[:, None])
        clock = (float(model.history_[key][k]) for key in keys[:2])
        values = *clock, objective, corloc_score(true, boxes), ranked
        for key, value in zip(keys, values, strict=True):
            rows[key].append(value)
    return rows


def at(rows, key, passes):
    """The last value within so many passes."""
    k = np.searchsorted(rows["passes"], passes + 1e-9) - 1
    return rows[key][k] if k >= 0 else np.nan


def learn(task, test, passes):
    """Curves of all solvers, and bounds on the optimum."""
    n, true = len(task.y), [boxes for _, boxes in test]
    named = {"fit_intercept": False, "loss": task.loss}
    problem = training_problem(task.graph, task.X[:n], task.y, **named)[0]
    models = solvers(task, passes)
    curves = {name: curve(task, m, problem, task.X[n:], true) for name, m in models.items()}
    longer = models["BCFW"].set_params(max_iter=3 * passes, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        longer.fit(task.X[:n], task.y)
    best = min(longer.objective_, *(min(rows["objective"]) for rows in curves.values()))
    dual = max(longer.dual_objective_, *(rows["dual"] for rows in curves.values()))
    print(
        f"\n## {task.name}, {n} images, C = {task.C:g}: best objective {best:.4f}, dual bound "
        f"{dual:.4f}; the best box of {task.reach:.3f} of the test images is right\n"
    )
    out = {"task": task.name, "best": best, "dual": dual, "reach": task.reach, "curves": curves}
    return out | {"winners": tabulate(out, passes)}


def tabulate(result, passes):
    """Print values by passes; who is best."""
    shown, curves, winners = [p for p in _PASSES if p <= passes], result["curves"], {}
    for rows in curves.values():
        rows["above"] = [value / result["best"] - 1.0 for value in rows["objective"]]
    heads = (("above", "% above the best objective"), ("CorLoc", "CorLoc"), ("AP", "AP"))
    for key, title in (*heads, ("seconds", "seconds")):
        print(f"| {title}, passes | {' | '.join(map(str, shown))} |\n|---|{'--:|' * len(shown)}")
        factor = 100.0 if key == "above" else 1.0
        for name, rows in curves.items():
            values = [f"{factor * at(rows, key, p):.3f}" for p in shown]
            print(f"| {name} | {' | '.join(values)} |")
        if key != "seconds":
            sign = 1.0 if key == "above" else -1.0
            winners[key] = {}
            for p in shown:
                ranks = {name: sign * at(rows, key, p) for name, rows in curves.items()}
                least = min(value for value in ranks.values() if value == value)
                winners[key][p] = [name for name, value in ranks.items() if value == least]
            won = "; ".join(f"{p}: {', '.join(names)}" for p, names in winners[key].items())
            print(f"\nwins at passes {won}\n", flush=True)
    return winners


def draw(results, constant, path):
    """Curves of all tasks, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2 * len(results)), layout="constrained")
    rows = figure.subplots(len(results), 3, squeeze=False)
    for axes, result in zip(rows, results, strict=True):
        for ax, key in zip(axes, ("above", "CorLoc", "AP"), strict=True):
            for name, curve in result["curves"].items():
                ax.plot(curve["passes"], curve[key], label=name)
            ax.set(xlabel="passes", ylabel=key, title=result["task"])
        axes[0].set(yscale="log", ylabel="objective above the best, share")
        axes[1].axhline(constant["CorLoc"], color="grey", ls=":", label="one box for all")
        axes[1].legend()
    figure.savefig(path)


def one_box(boxes, train, test):
    """How good the best constant box of the grid is: that of most overlap in training."""
    size = [np.tile(image.shape[1::-1], 2) for image, _ in train]
    shares = boxes / boxes.max(axis=0)[[2, 3, 2, 3]]
    pairs = zip(size, (own for _, own in train), strict=True)
    mean = np.mean([best_overlap(shares * scale, own) for scale, own in pairs], axis=0)
    found = [shares[np.argmax(mean)] * np.tile(image.shape[1::-1], 2) for image, _ in test]
    true, scores = [own for _, own in test], np.zeros((len(test), 1))
    out = {"CorLoc": corloc_score(true, found)}
    out["AP"] = average_precision(true, np.array(found)[:, None], scores)
    print(f"\none box for all images: CorLoc {out['CorLoc']:.3f}, AP {out['AP']:.3f}")
    return out


def learning(folder, passes, quick, figure):
    """Curves on the grid and by search."""
    train, test = split(folder, quick)
    sizes = (8, 8) if quick else (32, 64)
    words = PatchWords(*sizes, n_directions=_DIRECTIONS, random_state=0)
    points = [*words.fit_transform([image for image, _ in train])]
    points += [*words.transform([image for image, _ in test])]
    grid = GridTask(train, test, points)
    constant = one_box(grid.boxes[0], train, test)
    results = [learn(task, test, passes) for task in (grid, SearchTask(train, test, points))]
    if figure:
        draw(results, constant, figure)
    return {"one box": constant, "tasks": results}


def main():
    """Run what there are data for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder of the data")
    parser.add_argument("--json", help="write all figures here")
    parser.add_argument("--figure", help="draw the curves of learning here, .svg or .png")
    parser.add_argument("--passes", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="24 images, at most 4 passes")
    parser.add_argument("--only", choices=("search", "learning"))
    options = parser.parse_args()
    passes = min(options.passes, 4) if options.quick else options.passes
    out = {}
    if options.only != "learning":
        out["search"] = list(drawn())
        if options.data:
            out["search"] += trained(options.data, min(passes, 20))
    if options.data and options.only != "search":
        out["learning"] = learning(options.data, passes, options.quick, options.figure)
    if options.json:
        Path(options.json).write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
