"""Pillutla et al. 2018, figures 4, 6 and 7: scores that are not linear in the weights.

    python benchmarks/reproduce/prox_linear.py --data FOLDER [--quick | --full] [--tasks ocr ...]

Prox-linear steps with Casimir-SVRG inside beside stochastic subgradients: objective against oracle
calls, and how stationary the end is. Both have the same map, first parameters, C and number of
oracle calls, and the same number of trials: prox-linear with two smoothings, three strengths of
each, and two numbers of inner iterations; subgradients with three schedules and four first rates;
both with the same sizes of batches. Curves are those of the best trial of each kind. One hidden
layer under a chain (words of OCR), and a convolution over candidate boxes (localisation). Without
--full: 100 words, 14 images.
"""

from __future__ import annotations

from itertools import product

import _paths  # noqa: F401
import bench_nonlinear as bench
import frame
import numpy as np
from frame import Claim, Panel, at, first_below, verdict
from sklearn.base import clone

from skstruct import Candidates, Chain, ProxLinearSSVM
from skstruct.datasets import load_localisation, load_ocr_letters
from skstruct.scores import ConvMap, MLPMap

PAPER = "Pillutla, Roulet, Kakade, Harchaoui 2018, figures 4, 6 and 7"
PROX, SUBGRADIENT = "prox-linear", "subgradient"
# A first grid (1 to 5 inner iterations, batches of 2 to 16, nu from 0.03 to 1) had its best there.
INNER = {"ocr": (5, 10), "localisation": (2, 5)}
BATCHES = {"ocr": (1, 4), "localisation": (2,)}
STRENGTHS = {"l2": (0.3, 1.0, 3.0), "entropy": (0.1, 0.3, 1.0)}
RATES = 1e-2, 3e-2, 0.1, 0.3
PASSES = {"ocr": 82, "localisation": 42}
ETA = 1.0  # of the step that measures stationarity


def ocr(args):
    """Words of fold 0 and a hidden layer."""
    data = load_ocr_letters(args.data / "ocr_letters" / "letters.npz")
    rows = np.flatnonzero(data.fold == 0)[: 20 if args.quick else None if args.full else 100]
    X, y = list(data.X[rows]), list(data.y[rows])
    return ProxLinearSSVM(Chain(), MLPMap(50), C=0.1, random_state=0), X, y


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
    options = {"loss": "iou", "n_best": 10, "C": 1.0, "random_state": 0}
    return ProxLinearSSVM(Candidates("box"), conv, **options), X, y


TASKS = {"ocr": ocr, "localisation": localisation}


def trials(name, passes, quick):
    """Kinds and options: as many of prox-linear as of subgradients."""
    batches = BATCHES[name]
    found = []
    for smoothing, strengths in STRENGTHS.items():
        for nu, inner, batch in product(strengths, INNER[name], batches):
            # Where an iteration adds little, fewer are done: more steps than the budget has room
            # for, and the curve is cut.
            steps = -(-passes // (inner + 1))
            own = {"smoothing": smoothing, "smoothing_strength": nu, "inner_passes": inner}
            own |= {"batch_size": batch, "max_iter": steps}
            found.append((f"{PROX}, {smoothing}", own))
    for schedule, rate, batch in product(bench.SCHEDULES, RATES, batches):
        own = {"solver": "subgradient", "schedule": schedule, "learning_rate": rate}
        own |= {"batch_size": batch, "max_iter": passes, "tol": 0.0}
        found.append((f"{SUBGRADIENT}, {schedule}", own))
    return found[:: len(found) // 6] if quick else found


def run(name, args):
    """All trials of a task; the model of the best one of each kind."""
    model, X, y = TASKS[name](args)
    passes = 10 if args.quick else PASSES[name]
    rows, models = [], {}
    for kind, options in trials(name, passes, args.quick):
        trial = clone(model).set_params(**options)
        try:
            seconds = bench.fit(trial, X, y)
        except FloatingPointError:  # too large a rate
            row = {"kind": kind, "options": options, "curve": [[1.0], [np.inf]], "passes": 1.0}
            rows.append(row | {"objective": np.inf, "cpu_seconds": None})
            continue
        history = trial.history_
        curve = [history["passes"], np.minimum.accumulate(history["objective"])]
        keep = max(1, int(np.searchsorted(curve[0], 1.02 * passes, side="right")))
        curve = [column[:keep] for column in curve]
        row = {"kind": kind, "options": options, "curve": curve, "objective": float(curve[1][-1])}
        rows.append(row | {"passes": float(curve[0][-1]), "cpu_seconds": round(seconds, 2)})
        if kind not in models or row["objective"] < models[kind][0]:
            models[kind] = row["objective"], trial
        shown = {k: v for k, v in options.items() if k not in ("solver", "max_iter", "tol")}
        print(f"  {kind}: {row['objective']:.4f}, {curve[0][-1]:.0f} passes, {seconds:.1f} s, "
              f"{shown}", flush=True)  # fmt: skip
    for row in rows:
        kept = models.get(row["kind"])
        if kept is not None and kept[0] == row["objective"]:
            # Again, to the end of the curve: the weights that it is about.
            again = clone(kept[1]).set_params(max_iter=len(row["curve"][0]))
            bench.fit(again, X, y)
            row["stationarity"] = bench.stationarity(again, X, y, ETA)
            del models[row["kind"]]
    return {"n": len(y), "passes": passes, "rows": rows}


def best(rows, begin):
    """The trial of smallest objective among those whose kind begins so."""
    return min((row for row in rows if row["kind"].startswith(begin)), key=lambda r: r["objective"])


def claims(found):
    """What the paper says beside what was measured; `found` by task."""
    pairs = {name: [best(own["rows"], k) for k in (PROX, SUBGRADIENT)]
             for name, own in found.items()}  # fmt: skip
    cells = [f"{k}: {a['objective']:.3g} against {b['objective']:.3g}"
             for k, (a, b) in pairs.items()]  # fmt: skip
    outcomes = [a["objective"] <= b["objective"] for a, b in pairs.values()]
    why = [_why(name, own, *pairs[name]) for name, own in found.items()]
    why = [cell for cell, holds in zip(why, outcomes, strict=True) if not holds]
    text = "Prox-linear steps end at a lower objective than tuned subgradients"
    yield Claim(text, "figure 4", "; ".join(cells), verdict(outcomes), "; ".join(why))
    early = {name: [_at(row, 0.25 * own["passes"]) for row in pairs[name]]
             for name, own in found.items()}  # fmt: skip
    cells = [f"{k}: {a:.3g} against {b:.3g}" for k, (a, b) in early.items()]
    text = "... and are ahead after a quarter of the passes, too"
    yield Claim(text, "figure 4", "; ".join(cells), verdict(a <= b for a, b in early.values()))
    still = {k: [row["stationarity"] for row in own] for k, own in pairs.items()}
    cells = [f"{k}: {a:.2g} against {b:.2g}" for k, (a, b) in still.items()]
    text = "... and nearer to a stationary point (norm of the prox-gradient)"
    holds = verdict(a <= b for a, b in still.values())
    yield Claim(text, "figures 6 and 7", "; ".join(cells), holds)
    yield _tuning(found)


def _at(row, passes):
    """The smallest objective after so many passes."""
    return at(row["curve"], passes)


def _why(name, own, ours, rival):
    """Where the oracle calls of the best trial go."""
    passes = first_below(rival["curve"], ours["objective"])
    ends = {}
    for row in own["rows"]:
        if (inner := row["options"].get("inner_passes")) is not None:
            ends[inner] = min(ends.get(inner, np.inf), row["objective"])
    shown = " / ".join(f"{value:.3g}" for value in ends.values())
    steps = len(ours["curve"][0])
    return (
        f"{name}: {steps} linearisations in {ours['passes']:.0f} passes, the subgradient is "
        f"there after {passes:.0f}; with {' / '.join(map(str, ends))} inner iterations {shown}"
    )


def _tuning(found):
    """What trials end at that are not the best."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = [
            [row["objective"] for row in own["rows"] if row["kind"].startswith(begin)]
            for begin in (PROX, SUBGRADIENT)
        ]
        middle = [float(np.median(values)) for values in ends]
        # Among them are infinite ones.
        quartiles = [float(np.quantile(values, 0.75, method="higher")) for values in ends]
        cells.append(f"{name}: {middle[0]:.3g} against {middle[1]:.3g}")
        why.append(f"{name}: {quartiles[0]:.3g} against {quartiles[1]:.3g}")
        outcomes.append(middle[0] <= middle[1])
    text = "(Not in the paper) A trial that is not tuned ends lower (the median one)"
    why = f"of subgradients bad trials are worse: third quartiles {'; '.join(why)}"
    return Claim(text, "ours", "; ".join(cells), verdict(outcomes), why)


def panels(found):
    """A panel a task."""
    for name, own in found.items():
        kinds = dict.fromkeys(row["kind"] for row in own["rows"])
        curves = {kind: frame.thin(*best(own["rows"], kind)["curve"]) for kind in kinds}
        yield Panel(name, "passes", "smallest objective so far", curves)


def main(argv=None):
    """The figure and the table."""
    args = frame.arguments(__doc__, TASKS, argv)
    found = {}
    for name in args.tasks:
        print(name, flush=True)
        found[name] = run(name, args)
    rows = [
        {"task": name, **{k: v for k, v in row.items() if k != "curve"}}
        for name, own in found.items()
        for row in own["rows"]
    ]
    drawn = list(panels(found))
    return frame.write("prox_linear", args, PAPER, drawn, list(claims(found)), rows=rows)


if __name__ == "__main__":
    main()
