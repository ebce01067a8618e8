"""Meshi, Mahdavi, Schwing 2015, figures 1 and 2: MAP inference by smooth and strong relaxations.

    python benchmarks/reproduce/smooth_map.py --data FOLDER [--quick | --full] [--tasks stuck ...]

stuck    figure 1: a model on which coordinate descent without smoothing stops above the LP
protein  figure 2, left: 1aie, bound and decoded score by passes, with the local search that all of
         our methods end with and without it
horses   figure 2, right: unaries, pairs and a cardinality factor; whose score is best on how many,
         Frank-Wolfe with two lambdas
The models and methods are those of ``bench_map.py``. Without --full: 5 horses.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from unittest import mock

import _paths  # noqa: F401
import bench_map as bench
import frame
import numpy as np
from frame import Claim, Panel, first_below, verdict

from skstruct.map_inference.scoring import Incumbent

PAPER = "Meshi, Mahdavi, Schwing 2015, figures 1 and 2"
TASKS = "stuck", "protein", "horses"
LEVEL = 1e-2
LAMBDAS = 0.01, 0.1
STRONG = "SDCA", "AGD, gamma"
# How the names of smoothed methods begin, and what the table calls them.
SMOOTHED = {
    "CD, soft": "CD with soft-max",
    "CD, L2": "CD with L2",
    "gradient, soft": "gradient with soft-max",
    "gradient, L2": "gradient with L2",
    "AGD, soft": "AGD with soft-max",
    "AGD, L2": "AGD with L2",
    "SDCA": "SDCA",
    "AGD, gamma": "AGD, strong",
    "decr": "decreasing smoothing",
}


def options(args):
    """What the benchmark's functions read."""
    images = 1 if args.quick else 277 if args.full else 5
    common = {"data": args.data, "quick": args.quick, "exact": False}
    return SimpleNamespace(**common, images=images, lam=0.01, passes=200)


def distances(found, reference):
    """Curves of bounds above, and of the best scores below a reference."""
    bounds, scores = {}, {}
    for name, row in found["curves"].items():
        passes = np.maximum(row["history"]["passes"], 1)
        bound = np.minimum.accumulate(row["history"]["bound"])
        score = np.maximum.accumulate(row["history"]["score"])
        bounds[name] = [passes, np.maximum(bound - reference, 1e-9)]
        scores[name] = [passes, np.maximum(reference - score, 1e-9)]
    return bounds, scores


def _named(curves, begin):
    """The one method whose name begins so."""
    (name,) = (name for name in curves if name.startswith(begin))
    return curves[name]


def claims(found):
    """What the paper says beside what was measured."""
    all_bounds = {}
    if "stuck" in found:
        yield from _stuck(distances(found["stuck"], found["stuck"]["lp"])[0])
    for name in ("stuck", "protein"):
        if name in found:
            own = found[name]
            bounds = distances(own, own["lp"] if name == "stuck" else own["optimum"])[0]
            all_bounds[name] = bounds
            yield _strong(name, bounds)
            yield _smoothings(name, bounds)
    if all_bounds:
        yield _linear(all_bounds)
    if "protein" in found:
        yield _decoded(found["protein"])
    if "horses" in found:
        yield _horses(found["horses"])


def _stuck(bounds):
    """Figure 1."""
    ends = {name: _named(bounds, begin)[1][-1] for begin, name in SMOOTHED.items()}
    stuck = _named(bounds, "MPLP")[1][-1]
    cells = ", ".join(f"{name} {v:.2g}" for name, v in ends.items())
    text = "Coordinate descent without smoothing stops above the LP's optimum, smoothed methods not"
    # A smoothed optimum has its bias.
    nearer = {name: 10.0 * v < stuck for name, v in ends.items()}
    far = ", ".join(name for name, is_nearer in nearer.items() if not is_nearer)
    yield Claim(f"{text} (come ten times nearer)", "figure 1",
                f"above the LP: MPLP {stuck:.2g}; {cells}", verdict(nearer.values()),
                f"not {far}, by the end of its passes" if far else "")  # fmt: skip


def _strong(name, bounds):
    """Strongly convex methods beside the subgradient."""
    keys = (*STRONG, "Frank-Wolfe", "subgradient")
    ends = {k: _named(bounds, k)[1][-1] for k in keys}
    cells = f"{name}, bound above the reference at the end: "
    cells += ", ".join(f"{_short(k)} {v:.2g}" for k, v in ends.items())
    text = "Smooth and strong relaxations end nearer than subgradients"
    holds = max(ends[k] for k in STRONG) < ends["subgradient"]
    return Claim(text, "figure 2", cells, "yes" if holds else "no")


def _linear(found):
    """Passes for each further digit above what a method itself ends at."""
    cells, outcomes = [], []
    for name, bounds in found.items():
        for key in STRONG:
            passes, bound = _named(bounds, key)
            curve = [passes, bound - bound[-1]]
            at = [first_below(curve, level) for level in (1.0, 0.1, LEVEL)]
            shown = " / ".join(f"{v:.0f}" for v in at)
            cells.append(f"{name}, {key.removesuffix(', gamma')}: {shown}")
            outcomes.append(at[2] - at[1] <= 3.0 * max(at[1] - at[0], 1.0))
    text = "Smooth and strong relaxations converge linearly (at most 3 times the passes a digit)"
    return Claim(text, "theorems 3 and 4", f"to 1 / 0.1 / {LEVEL:g} above their own end: "
                 + "; ".join(cells), frame.verdict(outcomes))  # fmt: skip


def _smoothings(name, bounds):
    """L2 against soft-max at equal gamma."""
    cells, outcomes, slow = [], [], []
    for kind in ("gradient", "AGD"):
        a, b = (_named(bounds, f"{kind}, {s}") for s in ("L2", "soft-max"))
        if max(a[1][-1], b[1][-1]) < 1e-6:  # both are there: who was first?
            passes = first_below(a, LEVEL), first_below(b, LEVEL)
            cells.append(f"{kind} {passes[0]:.0f} against {passes[1]:.0f} passes to {LEVEL:g}")
            outcomes.append(passes[0] <= passes[1])
        else:
            cells.append(f"{kind} ends {a[1][-1]:.2g} against {b[1][-1]:.2g} above")
            outcomes.append(a[1][-1] <= b[1][-1])
        slow.append(f"{kind} {first_below(a, 1.0):.0f} against {first_below(b, 1.0):.0f}")
    text = "At equal gamma smoothing by L2 gives better bounds than by soft-max"
    why = f"L2 is slower: passes to 1 above: {', '.join(slow)}"
    found = f"{name}: " + "; ".join(cells), frame.verdict(outcomes)
    return Claim(text, "section 3, figure 1", *found, "" if all(outcomes) else why)


def _decoded(found):
    """Decoded scores on the protein, without and with local search."""
    reach = {}
    for key in ("plain", "curves"):
        scores = distances({"curves": found[key]}, found["optimum"])[1]
        reach[key] = {_short(k): first_below(v, LEVEL) for k, v in scores.items()}
    plain = reach["plain"]
    ours = min(v for k, v in plain.items() if k in ("Frank-Wolfe", "SDCA"))
    rest = min(v for k, v in plain.items() if k in ("subgradient", "MPLP"))
    shown = ("Frank-Wolfe", "SDCA", "subgradient", "MPLP", "TRW-S")
    cells = ", ".join(f"{k} {plain[k]:.0f}" for k in shown if k in plain)
    cells = f"passes to {LEVEL:g} below the optimum: {cells}".replace("inf", "not reached")
    text = "Frank-Wolfe and SDCA decode good labellings earlier than subgradients and MPLP"
    most = max(reach["curves"].values())
    why = f"plain decoding; with the local search of all our methods {most:.0f} at most"
    return Claim(text, "figure 2, left", cells, "yes" if ours < rest else "no", why)


def _horses(found):
    """Whose score is best."""
    scores = np.array(found["score"])
    best = scores.max(axis=1, keepdims=True)
    wins = (scores >= best - 1e-9 * np.abs(best)).sum(axis=0)
    below = 100.0 * (best - scores).mean(axis=0) / np.abs(best).mean()
    cells = ", ".join(
        f"{_short(k, keep=True)} on {w} ({b:.2g} %)"
        for k, w, b in zip(found["methods"], wins, below, strict=True)
    )
    ours = [k for k, m in enumerate(found["methods"]) if m.startswith("Frank")]
    text = "Frank-Wolfe has the best score on most images with a cardinality factor"
    where = f"best on, of {len(scores)} (mean distance below the best): {cells}"
    holds = max(wins[k] for k in ours) > len(scores) / 2
    why = f"the better of {len(ours)} lambdas; the others had one trial each"
    return Claim(text, "figure 2, right", where, "yes" if holds else "no", why)


def _short(name, keep=False):
    """A method without its parameters, or those of Frank-Wolfe only."""
    if keep:
        return name
    name = name.replace("AGD, gamma", "AGD, strong")
    return re.sub(r",? (gamma|lambda)? ?[0-9.]+", "", name).removesuffix(", gamma")


def panels(found):
    """Bounds, and scores."""
    for name, key in (("stuck", "lp"), ("protein", "optimum")):
        if name not in found:
            continue
        bounds, _ = distances(found[name], found[name][key])
        thin = {_short(k): frame.thin(*v) for k, v in bounds.items()}
        yield Panel(f"{name}: bound", "passes", "above the reference", thin, log="xy")
    if "protein" in found:
        own = found["protein"]
        _, scores = distances({"curves": own["plain"]}, own["optimum"])
        thin = {_short(k): frame.thin(*v) for k, v in scores.items()}
        yield Panel("protein: score, plain decoding", "passes", "below optimum", thin, log="xy")


def protein(args):
    """The benchmark's run, with and without local search."""
    found = bench.run_protein(args)
    with mock.patch.object(Incumbent, "improve", return_value=-np.inf):
        return found | {"plain": bench.run_protein(args)["curves"]}


def horses(args):
    """The benchmark's run, with more lambdas of Frank-Wolfe."""
    found = None
    for lam in LAMBDAS[:1] if args.quick else LAMBDAS:
        args.lam = lam
        own = bench.run_horses(args)
        if found is None:
            found = own
            continue
        found["methods"] += own["methods"][2:]
        for key in ("score", "bound", "seconds"):
            rows = zip(found[key], own[key], strict=True)
            found[key] = [[*old, *new[2:]] for old, new in rows]
    return found


def main(argv=None):
    """Both figures and the table."""
    args = frame.arguments(__doc__, TASKS, argv)
    run = {"stuck": bench.run_stuck, "protein": protein, "horses": horses}
    found = {name: run[name](options(args)) for name in args.tasks}
    more = {"horses": found.get("horses")}
    drawn = list(panels(found))
    return frame.write("smooth_map", args, PAPER, drawn, list(claims(found)), **more)


if __name__ == "__main__":
    main()
