"""Subwindow search: how few boxes it looks at and how long an image takes, drawn and trained maps.

    python benchmarks/bench_boxes.py [--data FOLDER] [--json OUT] [--passes N]

FOLDER holds ``localisation/kangaroo.npz``: 107 images of up to 128 pixels with one object, points
are pixels and their features colour words of KMeans. Trained on every second image, measured on
the others. CPU milliseconds an image, the smallest of three runs; shares are sets of boxes whose
bound was computed, over all boxes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.cluster import KMeans

from skstruct import BCFWSSVM, Boxes, CasimirSSVM, SubgradientSSVM
from skstruct.datasets import load_localisation
from skstruct.inference import subwindow
from skstruct.inference.branch_and_bound import BOUNDED, make_frontier

_KINDS = {"none": subwindow.NO_LOSS, "iou": subwindow.OVERLAP}


def measure(weights, true, loss="none", n_best=1, stride=1):
    """Milliseconds, and the share of boxes that were looked at."""
    space = subwindow.make_subwindows(*(-(-side // stride) for side in weights.shape))
    frontier, values, times = make_frontier(8, n_best), np.empty(n_best), []
    for _ in range(3):
        subwindow.load_weights(space, weights, stride)
        space.task[subwindow.LOSS] = _KINDS[loss]
        space.task[subwindow.TRUE_TOP : subwindow.TRUE_RIGHT + 1] = np.asarray(true)[[1, 0, 3, 2]]
        start = time.process_time()
        subwindow.best_boxes(space, frontier, values, -1)
        times.append(1e3 * (time.process_time() - start))
    n_boxes = np.prod([n * (n + 1) / 2 for n in (-(-side // stride) for side in weights.shape)])
    return min(times), frontier.counts[BOUNDED] / n_boxes


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


def main():
    """Run what there are data for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--json")
    parser.add_argument("--passes", type=int, default=20)
    options = parser.parse_args()
    rows = list(drawn())
    if options.data:
        rows += trained(options.data, options.passes)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
