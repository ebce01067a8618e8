"""What the scripts of this folder share: arguments, curves, claims, and what is written of them.

Every script writes ``NAME.json`` (curves, claims, versions, machine), ``NAME.png`` and ``NAME.csv``
(the table of claims, for the documentation) and prints that table.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _paths import RESULTS
from collect import commit, processor
from figures import draw

_POINTS = 40
HELD = "holds", "holds in part", "does not hold"
UNTESTED = "not tested"
_COLUMNS = "Claim", "Where", "Ours", "Holds", "Why, or what differs"


class Claim(NamedTuple):
    """A sentence of a paper, in our words, and what was measured."""

    text: str
    where: str
    ours: str
    holds: str
    why: str = ""


def arguments(doc, tasks=(), argv=None, needs=()):
    """The options that all scripts have; `needs` are modules and their packages."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--data", type=Path, default=os.environ.get("SKSTRUCT_DATA"))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="tiny data: whether it runs at all")
    size.add_argument("--full", action="store_true", help="all of the data")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the results, by default results/ beside the "
        "scripts; of --quick and of some tasks quick-results/ and part-results/ where you are",
    )
    if tasks:
        parser.add_argument("--tasks", nargs="+", choices=list(tasks), default=list(tasks))
    args = parser.parse_args(argv)
    if args.data is None:
        parser.error("--data FOLDER or the variable SKSTRUCT_DATA is needed")
    args.data = Path(args.data)
    args.out = args.out or _own_folder(args, tasks)
    _refuse_early(args, parser, needs)
    args.start = time.process_time()
    given = list(sys.argv[1:] if argv is None else argv)
    folders = "--data", "--out"
    # Where the data lie is nobody's business.
    args.given = [
        x
        for k, x in enumerate(given)
        if x.partition("=")[0] not in folders and not {*given[k - 1 : k]} & {*folders}
    ]
    warnings.filterwarnings("ignore", message=".*did not converge.*")
    return args


def _own_folder(args, tasks):
    """Where results go: a trial run, or one of some tasks, takes no place of a whole one."""
    if args.quick:
        return Path("quick-results")
    return RESULTS if not tasks or {*args.tasks} == {*tasks} else Path("part-results")


def _refuse_early(args, parser, needs):
    """Say at once what would end a run of hours."""
    if not args.data.is_dir():
        parser.error(f"--data: there is no folder {args.data}")
    if args.out.exists() and not args.out.is_dir():
        parser.error(f"--out: {args.out} is no folder")
    for module, package in (("matplotlib", "matplotlib"), ("PIL", "pillow")):
        if importlib.util.find_spec(module) is None:
            parser.error(f"figures are drawn by {package}: pip install {package}")
    for module, package in needs:
        if importlib.util.find_spec(module) is None:
            parser.error(f"this script needs {package}: pip install {package}")


def thin(*columns, marks=(), points=_POINTS):
    """At most 40 points of curves, closest together at the beginning, and marks; four digits."""
    n = len(columns[0])
    if n > points:
        keep = np.union1d(np.array(marks, int), np.geomspace(1, n, points).astype(int) - 1)
    else:
        keep = np.arange(n)
    return [[_digits(np.asarray(column)[k]) for k in keep] for column in columns]


def _digits(value):
    return float(f"{float(value):.4g}")


def over_seeds(curves, marks=(), points=25):
    """The mean of curves with the same x, and their standard deviation: a curve with a band."""
    x, ys = np.asarray(curves[0][0]), np.array([y for _, y in curves], dtype=float)
    kept = np.searchsorted(x, np.asarray(marks) + 1e-9, side="right") - 1
    return thin(x, ys.mean(axis=0), ys.std(axis=0), marks=kept[kept >= 0], points=points)


def at(curve, x):
    """The value of a curve ``[x, y]`` after so many passes or seconds, NaN before its begin."""
    place = np.searchsorted(np.asarray(curve[0]), 1.02 * x, side="right") - 1
    return float(curve[1][place]) if place >= 0 else np.nan


def first_below(curve, level):
    """Where a curve is first at or below a level; inf if nowhere."""
    found = np.flatnonzero(np.asarray(curve[1]) <= level)
    return float(curve[0][found[0]]) if found.size else np.inf


def held(outcomes):
    """The verdict on a claim of several cases: it holds everywhere, somewhere, nowhere."""
    outcomes = list(outcomes)
    return HELD[0] if all(outcomes) else HELD[1] if any(outcomes) else HELD[2]


def untested(rows):
    """Claims that nothing here tests: texts, places and reasons."""
    return [Claim(text, where, "", UNTESTED, why) for text, where, why in rows]


def machine():
    """Versions and the machine."""
    names = ["skstruct", "numpy", "scipy", "numba", "scikit-learn"]
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = __import__(name).__version__
    return {
        "versions": {"python": platform.python_version(), **found},
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {processor()}",
        "date": time.strftime("%Y-%m-%d"),
    }


def table(claims):
    """The claims as Markdown."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *claims]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def write(name, args, paper, panels, claims, columns=2, script=None, **more):
    """Write the results and print the claims; `script` made them, by default that of the name.

    `more` goes into the results, too.
    """
    args.out.mkdir(parents=True, exist_ok=True)
    results = {
        "paper": paper,
        "command": " ".join(["python", f"benchmarks/reproduce/{script or name}.py", *args.given]),
        **machine(),
        "cpu_seconds": round(time.process_time() - args.start, 1),
        "columns": columns,
        "panels": [panel._asdict() for panel in panels],
        "claims": [claim._asdict() for claim in claims],
        **more,
    }
    text = json.dumps(_finite(results), allow_nan=False)
    (args.out / f"{name}.json").write_text(text + "\n")
    with open(args.out / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *claims])
    draw(args.out / f"{name}.png", panels, columns)
    print(f"\n{table(claims)}\n\n{results['cpu_seconds']} CPU seconds")
    return results


def _finite(value):
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
