"""Pillutla et al. 2018, figures 4, 6 and 7: scores that are not linear in the weights.

    python benchmarks/reproduce/prox_linear.py --data FOLDER [--quick | --full] [--tasks ocr ...]

Prox-linear steps with Casimir-SVRG inside, beside stochastic subgradients with three schedules
whose first rate is the best of a grid: objective against oracle calls, and how stationary the end
is. One hidden layer under a chain (words of OCR), and a convolution over candidate boxes
(localisation). The fits are those of ``bench_nonlinear.py``. Without --full: 100 words, 14
images.
"""

from __future__ import annotations

import _paths  # noqa: F401
import bench_nonlinear as bench
import frame
import numpy as np
from frame import Claim, Panel, first_below, verdict

from skstruct import Candidates, Chain, ProxLinearSSVM
from skstruct.datasets import load_localisation, load_ocr_letters
from skstruct.scores import ConvMap, MLPMap

PAPER = "Pillutla, Roulet, Kakade, Harchaoui 2018, figures 4, 6 and 7"
RATES = 1e-2, 3e-2, 1e-1


def ocr(args):
    """Words of fold 0 and a hidden layer."""
    data = load_ocr_letters(args.data / "ocr_letters" / "letters.npz")
    rows = np.flatnonzero(data.fold == 0)[: 20 if args.quick else None if args.full else 100]
    X, y = list(data.X[rows]), list(data.y[rows])
    steps = 2 if args.quick else 8
    model = ProxLinearSSVM(Chain(), MLPMap(50), C=0.1, max_iter=steps, random_state=0)
    return model, X, y


def localisation(args):
    """Boxes and a convolution."""
    data = load_localisation(args.data / "localisation")
    one = [i for i, boxes in enumerate(data.boxes) if len(boxes) == 1]
    one = one[:8] if args.quick else one[::2] if args.full else one[::8]
    X = [bench.candidates(data.images[i]) for i in one]
    y = [data.boxes[i][0] for i in one]
    tables = np.concatenate([table for table, _ in X])
    X = [((table - tables.mean(axis=0)) / tables.std(), boxes) for table, boxes in X]
    conv = ConvMap(shape=(8, 8, 7), n_filters=16, size=3, stride=2)
    common = {"loss": "iou", "smoothing_strength": 0.1, "max_iter": 2 if args.quick else 6}
    common |= {"n_best": 10, "batch_size": 4, "random_state": 0}
    return ProxLinearSSVM(Candidates("box"), conv, C=1.0, **common), X, y


TASKS = {"ocr": ocr, "localisation": localisation}


def curve(row):
    """The smallest objective so far by passes."""
    return [row["curve"]["passes"], np.minimum.accumulate(row["curve"]["objective"])]


def claims(found):
    """What the paper says beside what was measured; `found` by task."""
    cells, outcomes, why, still = [], [], [], []
    for name, rows in found.items():
        ends = {row["method"]: row["objective"] for row in rows}
        inner = min((m for m in ends if m.startswith("prox")), key=ends.get)
        rival = min((m for m in ends if m.startswith("sub")), key=ends.get)
        cells.append(f"{name}: {inner} {ends[inner]:.4g}, {rival} {ends[rival]:.4g}")
        outcomes.append(ends[inner] <= ends[rival])
        own = {row["method"]: row for row in rows}
        if not outcomes[-1]:
            passes = first_below(curve(own[rival]), ends[inner]), own[rival]["passes"]
            why.append(f"{name}: the subgradient, its rate the best of {len(RATES)}, "
                       f"is there after {passes[0]:.0f} of {passes[1]:.0f} passes")  # fmt: skip
        still.append((own[inner]["stationarity"], own[rival]["stationarity"]))
    text = "Prox-linear steps end at a lower objective than tuned subgradients"
    yield Claim(text, "figure 4", "; ".join(cells), verdict(outcomes), "; ".join(why))
    cells = [f"{k}: {a:.2g} against {b:.2g}" for k, (a, b) in zip(found, still, strict=True)]
    text = "... and nearer to a stationary point (norm of the prox-gradient)"
    yield Claim(text, "figures 6 and 7", "; ".join(cells), verdict(a <= b for a, b in still))


def panels(found):
    """A panel a task."""
    for name, rows in found.items():
        curves = {row["method"]: frame.thin(*curve(row)) for row in rows}
        yield Panel(name, "passes", "objective", curves)


def main(argv=None):
    """The figure and the table."""
    args = frame.arguments(__doc__, TASKS, argv)
    found = {}
    for name in args.tasks:
        found[name] = bench.compare(
            name, *TASKS[name](args), RATES[:1] if args.quick else RATES, 1.0
        )
    kept = "task", "method", "rate", "objective", "stationarity", "passes", "cpu_seconds"
    rows = [{key: row[key] for key in kept} for own in found.values() for row in own]
    return frame.write(
        "prox_linear", args, PAPER, list(panels(found)), list(claims(found)), rows=rows
    )


if __name__ == "__main__":
    main()
