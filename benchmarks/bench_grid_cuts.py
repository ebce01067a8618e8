"""Training and prediction of two-label images beside the cuts alone by PyMaxflow, in one run.

    python benchmarks/bench_grid_cuts.py [--data FOLDER] [--json OUT]

Horses (``FOLDER/horses/horses.npz``): CPU seconds of passes of BCFWSSVM over the 277 training
images, and of PyMaxflow for one cut of each, with the same loss-augmented scores at the weights
that the passes end with. Prediction: an image of 1024 x 1024, from the array to labels; PyMaxflow
begins with the scores of its nodes and edges. Ratios are ours over theirs.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from skstruct import BCFWSSVM, Grid
from skstruct.graphs.pairwise.grid import _contrast
from skstruct.solvers.bcfw import solver

try:
    import maxflow
except ImportError:
    maxflow = None


def read_horses(folder):
    """Training images with colour and position, and their masks."""
    data = np.load(folder / "horses" / "horses.npz")
    ends = np.concatenate([[0], np.cumsum(data["shape"].prod(axis=1))])
    mask = np.unpackbits(data["mask"])[: ends[-1]]
    X, y = [], []
    for i in np.flatnonzero(data["train"]):
        h, w = data["shape"][i]
        colour = data["pixels"][ends[i] : ends[i + 1]].reshape(h, w, 3) / 255.0
        row, column = np.mgrid[:h, :w]
        at = np.stack([row / h - 0.5, column / w - 0.5], axis=-1)
        X.append(np.concatenate([colour, at, at**2], axis=-1))
        y.append(mask[ends[i] : ends[i + 1]].reshape(h, w).astype(int))
    return X, y


def cpu_seconds(function, n_runs=3):
    """The last result, and the smallest CPU seconds of some runs after a first one."""
    function()
    times = []
    for _ in range(n_runs):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return result, min(times)


def scores_of(svm, image):
    """Gains of nodes, and interactions to the right and downward, of a fitted model."""
    h, w = image.shape[:2]
    node = svm.node_weights_[:, 1] - svm.node_weights_[:, 0]
    gain = image @ node[:-1] + node[-1]
    rows = np.ones((h * (w - 1) + (h - 1) * w, 1))
    if svm.graph_.edge_features:
        rows = _contrast(image, 4)
    tables = np.asarray(svm.pairwise_coef_).reshape(-1, 4)
    t00, t01, t10, t11 = (rows @ tables).T
    across, down = np.zeros((2, h, w))
    pull = 0.5 * np.maximum(t00 + t11 - t01 - t10, 0.0)
    across[:, :-1], down[:-1] = (
        pull[: h * (w - 1)].reshape(h, -1),
        pull[h * (w - 1) :].reshape(-1, w),
    )
    first, second = 0.5 * (t10 - t00 + t11 - t01), 0.5 * (t01 - t00 + t11 - t10)
    of_across, of_down = first[: h * (w - 1)].reshape(h, -1), first[h * (w - 1) :].reshape(-1, w)
    gain[:, :-1] += of_across
    gain[:-1] += of_down
    gain[:, 1:] += second[: h * (w - 1)].reshape(h, -1)
    gain[1:] += second[h * (w - 1) :].reshape(-1, w)
    return gain, across, down


def their_cut(gain, across, down):
    """Labels by PyMaxflow."""
    graph = maxflow.Graph[float](gain.size, 2 * gain.size)
    nodes = graph.add_grid_nodes(gain.shape)
    for weights, neighbour in ((across, (1, 2)), (down, (2, 1))):
        structure = np.zeros((3, 3))
        structure[neighbour] = 1
        graph.add_grid_edges(nodes, weights=weights, structure=structure, symmetric=True)
    graph.add_grid_tedges(nodes, np.maximum(gain, 0), np.maximum(-gain, 0))
    graph.maxflow()
    return ~graph.get_grid_segments(nodes)


def passes(X, y, graph, n_passes, **options):
    """A fitted model, and the CPU seconds of each pass."""
    spent, inner = [], solver.BCFW._pass

    def timed(self, order, uniforms, pieces):
        start = time.process_time()
        inner(self, order, uniforms, pieces)
        if order.size:
            spent.append(time.process_time() - start)

    solver.BCFW._pass = timed
    try:
        options = {"tol": 1e-12, "gap_every": n_passes, "random_state": 0} | options
        svm = BCFWSSVM(graph, max_iter=n_passes, **options).fit(X, y)
    finally:
        solver.BCFW._pass = inner
    return svm, spent


def horses(folder):
    """Passes over the horses, for several kinds of edges and of steps."""
    X, y = read_horses(folder)
    for kind in (
        {"interactions": "potts"},
        {"interactions": "potts", "edge_features": "contrast"},
        {"edge_features": "contrast"},
    ):
        for steps, n_cached in (("frank-wolfe", 1), ("pairwise", 5)):
            graph = Grid(inference="max-flow", attractive=True, **kind)
            svm, spent = passes(X, y, graph, 6, C=1e-3, steps=steps, n_cached=n_cached)
            problems = []
            for image, mask in zip(X, y, strict=True):
                gain, across, down = scores_of(svm, image)
                problems.append((gain + np.where(mask == 0, 1.0, -1.0), across, down))
            _, theirs = cpu_seconds(lambda p=problems: [their_cut(*q) for q in p])
            yield kind | {
                "steps": steps,
                "mean_pass": float(np.mean(spent)),
                "last_pass": spent[-1],
                "pymaxflow": theirs,
                "ratio": float(np.mean(spent)) / theirs,
                "gap": svm.suboptimality_,
            }


def large():
    """Prediction of images of two sizes: time beside PyMaxflow, and memory."""
    rng = np.random.default_rng(0)

    def draw(h, w):
        field = gaussian_filter(rng.normal(size=(h, w)), 6)
        field /= field.std()
        seen = np.stack([field, *np.zeros((2, h, w))], axis=-1)
        return seen + 0.8 * rng.normal(size=(h, w, 3)), (field > 0).astype(int)

    X, y = zip(*(draw(64, 96) for _ in range(6)), strict=True)
    for feature in (False, "contrast"):
        graph = Grid(
            interactions="potts", edge_features=feature, inference="max-flow", attractive=True
        )
        svm = BCFWSSVM(graph, C=0.01, max_iter=20, random_state=0).fit(list(X), list(y))
        for side in (512, 1024):
            image = draw(side, side)[0]
            found, ours = cpu_seconds(lambda s=svm, i=image: s.predict([i])[0], 2)
            problem = scores_of(svm, image)
            labels, theirs = cpu_seconds(lambda p=problem: their_cut(*p), 2)
            tracemalloc.start()
            svm.predict([image])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            yield {
                "side": side,
                "edge_features": feature,
                "ours": ours,
                "pymaxflow": theirs,
                "ratio": ours / theirs,
                "bytes_a_pixel": peak / side**2,
                "differences": int((found != labels).sum()),
            }


def main():
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if maxflow is None:
        parser.error("the peer is needed: pip install PyMaxflow")
    warnings.simplefilter("ignore")  # passes that do not converge
    rows = []
    for name, part in (("large", large()), ("horses", horses(given.data) if given.data else ())):
        for row in part:
            rows.append({"part": name} | row)
            cells = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print(f"{name}: " + ", ".join(cells), flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
