"""Boileau, Lamouchi, St-Arnaud 2019: the dual extragradient beside BCFW.

    python benchmarks/reproduce/extragradient.py --data FOLDER [--quick | --full] [--tasks ...]

Certified gaps, relative to the best objective so far, against CPU seconds (oracle calls are in the
results, too): word alignment as matchings, scene as label sets on a tree and with all pairs,
letters and words of OCR. The problems and fits are those of ``bench_extragradient.py``; without
--full one regulariser a task. Neighbours on the machine disturb CPU seconds.
"""

from __future__ import annotations

import _paths  # noqa: F401
import bench_extragradient as bench
import frame
import numpy as np
from frame import Claim, Panel, first_below, verdict

from skstruct import BCFWSSVM, ExtragradientSSVM

PAPER = "Boileau, Lamouchi, St-Arnaud 2019, figures of alignment and of scene"
TASKS = {name: bench.TASKS[name] for name in ("alignment", "scene", "pairs", "letters", "words")}
LEVELS = 0.1, 0.01


def chosen(name, args):
    """The problems of a task."""
    problems = list(TASKS[name](args.data))
    if not args.full:
        problems = [p for p in problems if p.lam in (0.01, 0.022)]
        entropic = {"projection": "entropic"}
        problems = [
            p._replace(
                variants=tuple(v for v in p.variants if v != entropic or "span" not in p.name)
            )
            for p in problems
        ]
    if args.quick:
        return [p._replace(X=p.X[:20], y=p.y[:20], max_iter=30) for p in problems[:1]]
    return problems


def run(problem, args):
    """All solvers on a problem: rows of the benchmark."""
    limits = {"graph": problem.graph, "tol": problem.tol}
    models = [
        ExtragradientSSVM(**limits, **options, max_iter=problem.max_iter)
        for options in problem.variants
    ]
    most = 30 if args.quick else 1000
    models.append(BCFWSSVM(**limits, max_iter=most, gap_every=2, random_state=0))
    plain = {"steps": "frank-wolfe", "n_cached": 1, "gap_every": 5, "random_state": 0}
    # Plain Frank-Wolfe steps are the study's; they crawl, so passes are limited.
    models.append(BCFWSSVM(**limits, **plain, max_iter=most // 4))
    found = {}
    for model in models:
        row = bench.fit(problem, model)
        bench.show(row)
        name = f"Extragradient, {row['options']}"
        if isinstance(model, BCFWSSVM):
            name = "BCFW" if model.steps == "frank-wolfe" else "BCFW, pairwise"
        found[name] = row
    return found


def by(row, what):
    """The curve of a fit against "passes" or "seconds"."""
    curve = np.array(row["curve"])
    return [curve[:, 0 if what == "passes" else 1], curve[:, 2]]


def claims(found):
    """What the study says beside what was measured; `found` by problem."""
    both = {k: v for k, v in found.items() if any("Extra" in name for name in v)}
    if both:
        yield _behind(both, "passes", "The extragradient needs more passes than BCFW")
        yield _behind(both, "seconds", "... and more time")
        yield _same(both)
    yield _gap(found)


def _best(rows, begin, what, level):
    """The fewest passes or seconds of solvers whose names begin so."""
    own = [first_below(by(row, what), level) for name, row in rows.items() if begin in name]
    return min(own)


def _behind(found, what, text):
    """Both to a level."""
    unit = " s" if what == "seconds" else ""
    cells, outcomes, why = [], [], []
    for name, rows in found.items():
        names = "Extragradient", "BCFW, pairwise", "BCFW"
        a, b = (_best(rows, begin, what, LEVELS[1]) for begin in names[:2])
        c = first_below(by(rows["BCFW"], what), LEVELS[1])
        shown = [f"{v:.3g}{unit}" if np.isfinite(v) else "not reached" for v in (a, b, c)]
        cells.append(f"{name}: {shown[0]}, BCFW {shown[1]}, with Frank-Wolfe steps {shown[2]}")
        outcomes.append(a > min(b, c))
        if not outcomes[-1]:
            passes = [_best(rows, begin, "passes", LEVELS[1]) for begin in names[:2]]
            why.append(f"{name}: {passes[0]:.0f} passes against {passes[1]:.0f}, but cheaper ones")
    return Claim(f"{text} (to a gap of {LEVELS[1]:g})", "conclusions", "; ".join(cells),
                 verdict(outcomes), "; ".join(why))  # fmt: skip


def _same(found):
    """One optimum."""
    cells, outcomes = [], []
    for name, rows in found.items():
        low = max(row["dual_objective"] for row in rows.values())
        ends = [row["objective"] for k, row in rows.items() if k != "BCFW"]
        cells.append(f"{name}: " + ", ".join(f"{end / low - 1:.1e}" for end in ends))
        outcomes.append(max(ends) <= 1.01 * low)
    text = "Both reach the same optimum (objectives above the best dual bound, at most 1e-2)"
    return Claim(text, "figures", "; ".join(cells), verdict(outcomes))


def _gap(found):
    """The scene figure: BCFW's gap falls steadily."""
    cells, outcomes = [], []
    for name, rows in found.items():
        curve = by(rows["BCFW, pairwise"], "passes")
        reach = [first_below(curve, level) for level in (*LEVELS, 1e-3)]
        cells.append(f"{name}: " + " / ".join(f"{v:.0f}" for v in reach))
        outcomes.append(np.isfinite(reach[-1]))
    text = "The duality gap of BCFW falls to 0 (passes to 0.1 / 0.01 / 0.001, pairwise steps)"
    return Claim(text, "figure of scene", "; ".join(cells), verdict(outcomes))


def panels(found):
    """A panel a problem."""
    for name, rows in found.items():
        curves = {k: frame.thin(*by(row, "seconds")) for k, row in rows.items()}
        curves = {k: [np.maximum(x, 1e-3).tolist(), y] for k, (x, y) in curves.items()}
        yield Panel(name, "CPU s", "relative duality gap", curves, log="xy")


def main(argv=None):
    """All figures and the table."""
    args = frame.arguments(__doc__, TASKS, argv)
    found = {}
    for name in args.tasks:
        for problem in chosen(name, args):
            label = f"{problem.name}, lambda {problem.lam:.2g}"
            rows = run(problem, args)
            found[label] = found.get(label, {}) | rows
    rows = [
        {k: v for k, v in row.items() if k != "curve"}
        for rows in found.values()
        for row in rows.values()
    ]
    drawn = list(panels(found))
    return frame.write("extragradient", args, PAPER, drawn, list(claims(found)), 3, rows=rows)


if __name__ == "__main__":
    main()
