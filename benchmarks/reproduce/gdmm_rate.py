"""Yen et al. 2016, theorem 1: whether GDMM converges linearly.

    python benchmarks/reproduce/gdmm_rate.py --data FOLDER [--quick | --full]

Certified relative gaps by passes of GDMM, BCFW with Frank-Wolfe and with pairwise steps on 500
sentences of the treebank (45 tags), C = 1. A linear rate takes as many passes for each further
digit, a rate of 1/eps ten times as many as for the one before.
"""

from __future__ import annotations

import _paths  # noqa: F401
import frame
import numpy as np
from frame import Claim, Panel, first_below, verdict
from runs import fit
from tasks import treebank

from skstruct import BCFWSSVM, GDMMSSVM

PAPER = "Yen, Huang, Zhong, Zhang, Dhillon, Ravikumar 2016, theorem 1"
SECONDS = {"GDMM": 40.0, "BCFW": 8.0, "BCFW, pairwise": 8.0}
LEVELS = 1.0, 0.1, 0.01, 1e-3
_MOST = 3.0  # times the passes of the digit before


def solvers():
    """The curves."""
    common = {"C": 1.0, "max_iter": 100_000, "tol": 1e-5, "random_state": 0, "gap_every": 10}
    yield "GDMM", GDMMSSVM(**common)
    yield "BCFW", BCFWSSVM(steps="frank-wolfe", n_cached=1, **common)
    yield "BCFW, pairwise", BCFWSSVM(**common)


def run(args):
    """Gaps by passes."""
    train = treebank(args.data, 60 if args.quick else None if args.full else 500).train
    out = {}
    for name, model in solvers():
        seconds = 1.0 if args.quick else SECONDS[name]
        own = fit(model, train.X, train.y, seconds=seconds)
        known = np.isfinite(own.objective)
        bounds = np.maximum.accumulate(own.model.history_["dual_objective"][known])
        values = np.minimum.accumulate(own.objective[known])
        out[name] = frame.thin(own.passes[known], np.maximum(values / bounds - 1.0, 1e-9))
        print(f"  {name}: {out[name][1][-1]:.2g} after {own.passes[-1]:.0f} passes", flush=True)
    return out


def claims(curves):
    """Passes for each further digit."""
    for name in ("GDMM", *(name for name in curves if name != "GDMM")):
        reach = np.array([first_below(curves[name], level) for level in LEVELS])
        known = reach[np.isfinite(reach)]
        shown = " / ".join(f"{v:.0f}" if np.isfinite(v) else "-" for v in reach)
        end = f"{curves[name][1][-1]:.1g} after {curves[name][0][-1]:.0f}"
        ratios = np.diff(known)[1:] / np.maximum(np.diff(known)[:-1], 1.0)
        times = ", ".join(f"{ratio:.2g}" for ratio in ratios)
        levels = " / ".join(f"{level:g}" for level in LEVELS)
        if name == "GDMM":
            text = f"Linear rate of GDMM (passes to a gap of {levels})"
        else:
            text = f"(Beside it) passes of {name}"
        why = f"digits take {times} times the passes of the one before; 1/eps means 10"
        why = why if times else ""
        holds = verdict([bool(ratios.size) and bool(ratios.max() <= _MOST)])
        yield Claim(text, "abstract, theorem 1", f"{shown}; ends at {end}", holds, why)


def main(argv=None):
    """The figure and the table."""
    args = frame.arguments(__doc__, argv=argv)
    curves = run(args)
    title = "POS: certified gap"
    drawn = [Panel(title, "passes", "relative gap", curves, log=log) for log in ("xy", "y")]
    return frame.write("gdmm_rate", args, PAPER, drawn, list(claims(curves)))


if __name__ == "__main__":
    main()
