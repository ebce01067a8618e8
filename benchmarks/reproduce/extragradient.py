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
from frame import Claim, Panel, verdict

from skstruct import BCFWSSVM, ExtragradientSSVM

PAPER = "Boileau, Lamouchi, St-Arnaud 2019, figures of alignment and of scene"
TASKS = {name: bench.TASKS[name] for name in ("alignment", "scene", "pairs", "letters", "words")}
LEVEL = 0.01  # to which passes and seconds are counted
GAPS = 0.1, 0.01, 0.001


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


def claims(found):
    """What the study says beside what was measured; `found` by problem."""
    both = {k: v for k, v in found.items() if any("Extra" in name for name in v)}
    if both:
        yield _behind(both, "passes", "The extragradient needs more passes than BCFW")
        yield _behind(both, "seconds", "... and more CPU seconds")
        yield _same(both)
    yield _gap(found)


def reach(row, what, level):
    """Passes or CPU seconds to a gap; inf if it was not reached."""
    found = row[f"to {level:g}"]
    return np.inf if found is None else float(found[what == "seconds"])


def _least(rows, begin, what):
    """The fewest passes or seconds of solvers whose names begin so."""
    own = [row for name, row in rows.items() if name.startswith(begin)]
    return min(reach(row, what, LEVEL) for row in own)


def _short(name):
    """A problem as a table has room for it."""
    return name.replace(", lambda 0.01", "").replace("lambda ", "")


def _shown(value, what):
    """A number that fits a table."""
    if not np.isfinite(value):
        return "not reached"
    return f"{value:.0f}" if what == "passes" else f"{value:.2g}"


def _behind(found, what, text):
    """Both to a level."""
    cells, outcomes, ratios = [], [], []
    for name, rows in found.items():
        a, b = (_least(rows, begin, what) for begin in ("Extragradient", "BCFW"))
        cells.append(f"{_short(name)}: {_shown(a, what)} against {_shown(b, what)}")
        outcomes.append(a > b)
        ratios.append(a / b)
    unit = "passes" if what == "passes" else "s"
    why = f"{min(ratios):.2g} to {max(ratios):.2g} times as many as BCFW by its better steps"
    return Claim(f"{text} ({unit} to a gap of {LEVEL:g})", "conclusions", "; ".join(cells),
                 verdict(outcomes), why)  # fmt: skip


def _same(found):
    """One optimum."""
    ends = {"Extragradient": [], "BCFW": []}
    for rows in found.values():
        low = max(row["dual_objective"] for row in rows.values())
        for begin, own in ends.items():
            values = [row["objective"] for k, row in rows.items() if k.startswith(begin)]
            own.append(min(values) / low - 1.0)
    cells = [f"{k} at most {max(own):.1g} above" for k, own in ends.items()]
    pairs = zip(*ends.values(), strict=True)
    text = f"Both reach the same optimum (within {LEVEL:g} of the best dual bound)"
    return Claim(text, "figures", ", ".join(cells), verdict(max(pair) <= LEVEL for pair in pairs))


def _gap(found):
    """The scene figure: BCFW's gap falls steadily."""
    cells, outcomes = [], []
    for name, rows in found.items():
        passes = [reach(rows["BCFW, pairwise"], "passes", level) for level in GAPS]
        cells.append(f"{_short(name)}: " + " / ".join(_shown(v, "passes") for v in passes))
        outcomes.append(bool(np.isfinite(passes[-1])))
    levels = " / ".join(map(str, GAPS))
    text = f"The duality gap of BCFW falls steadily (passes to {levels}, pairwise steps)"
    return Claim(text, "figure of scene", "; ".join(cells), verdict(outcomes))


def by_seconds(row):
    """The curve of a fit against CPU seconds."""
    curve = np.array(row["curve"])
    return [curve[:, 1], curve[:, 2]]


def panels(found):
    """A panel a problem."""
    for name, rows in found.items():
        curves = {k: frame.thin(*by_seconds(row)) for k, row in rows.items()}
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
        {"problem": problem, "name": name, **{k: v for k, v in row.items() if k != "curve"}}
        for problem, own in found.items()
        for name, row in own.items()
    ]
    drawn = list(panels(found))
    return frame.write("extragradient", args, PAPER, drawn, list(claims(found)), rows=rows)


if __name__ == "__main__":
    main()
