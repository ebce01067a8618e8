"""Run all figures of the papers that are older than the code, in a stated time.

    python benchmarks/reproduce/all.py --data FOLDER [--hours 6] [--only NAME ...] [--list]

A result is fresh if its commit has the same solvers, structures and scripts as this one, comments
and docstrings apart, and apart from what a script has between the lines ``# Verdicts.`` and
``# Results``: it judges what was measured, and measures nothing. Others are run anew, the cheapest
first, each in a process and a thread of its own; what does not fit into the hours left is named.
New results wait in ``--out`` and take their places when all is done, so that no commit is called
dirty for them: a run that was stopped goes on where it was. The expected time of a run is that of
its last one, or more if the script has grown since.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from _paths import HERE, RESULTS
from collect import ROOT, commit

#: What results depend on, apart from their scripts.
CODE = "core estimators graphs inference losses map_inference rows scores solvers spaces targets"
SHARED = "frame.py", "runs.py", "baselines.py", "rivals.py", "saga_bounds.py"


class Run(NamedTuple):
    """A script with its options, the result by which its age is known, and seconds of its own."""

    script: str
    options: str
    result: str
    seconds: float


RUNS = [
    Run("gdmm_rate", "--tasks active", "gdmm_active", 50),
    Run("extragradient", "", "extragradient", 82),
    Run("gdmm_rate", "--tasks sentences", "gdmm_sentences", 96),
    Run("gdmm_rate", "--tasks theorems", "gdmm_theorems", 111),
    Run("smooth_map", "--tasks synthetic", "smooth_map", 160),
    Run("gdmm", "--tasks pos", "gdmm_pos", 124),
    Run("gdmm", "--tasks rcv1", "gdmm_rcv1", 128),
    Run("gdmm", "--tasks delicious", "gdmm_delicious", 300),
    Run("prox_linear", "", "prox_linear", 240),
    Run("smooth_map", "--tasks protein horses", "smooth_map_real", 520),
    Run("gdmm", "--tasks glyphs", "gdmm_glyphs", 1150),
    Run("gdmm", "--tasks costs", "gdmm_costs", 400),
    Run("gdmm", "--tasks iterations", "gdmm_iterations", 346),
    Run("gdmm", "--tasks corel5k", "gdmm_corel5k", 369),
    Run("sag", "--full --tasks ocr", "sag_full", 1070),
    Run("sag", "", "sag", 1490),
    Run("casimir", "", "casimir", 2300),
]


def found(folder, run):
    """A result as it lies in a folder, or None."""
    path = folder / f"{run.result}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def is_fresh(result, script):
    """Whether nothing that the result depends on has changed since, words and verdicts apart."""
    made = (result or {}).get("commit", "").split()
    if len(made) != 1 or made[0].endswith("-dirty"):
        return False
    paths = [f"skstruct/{name}" for name in CODE.split()]
    paths += [str((HERE / name).relative_to(ROOT)) for name in (*SHARED, f"{script}.py")]
    changed = _git("diff", "--name-only", "--no-renames", *made, "HEAD", "--", *paths)
    if changed is None:
        return False
    for path in changed.split():
        old, new = (_git("show", f"{at}:{path}") for at in (made[0], "HEAD"))
        if _code(old, judges(new)) != _code(new, judges(new)):
            return False
    return True


def judges(source):
    """Names that a script defines between the lines ``# Verdicts.`` and ``# Results``."""
    region = re.search(r"^# Verdicts\.$(.*)^# Results\b", source or "", re.S | re.M)
    body = ast.parse(region[1]).body if region else []
    return {name for node in body for name in _names(node)}


def _names(node):
    """What a function or an assignment of a module defines."""
    targets = node.targets if isinstance(node, ast.Assign) else [node]
    return {name for t in targets if (name := getattr(t, "id", getattr(t, "name", None)))}


def _git(*command):
    """What a command of git prints, None if it fails."""
    done = subprocess.run(["git", *command], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def _code(source, without=()):
    """A module without comments, docstrings and some names, None of a file that is not there."""
    if source is None:
        return None
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not _names(node) & {*without}]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                del body[0]
    return ast.dump(tree)


def execute(run, args):
    """Run it, one thread; whether it went well."""
    begun = args.out / "begun"  # what a run that is stopped leaves is not whole
    command = [sys.executable, str(HERE / f"{run.script}.py"), "--data", str(args.data)]
    command += ["--out", str(begun), *run.options.split()]
    threads = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with open(args.out / f"{run.result}.log", "w", encoding="utf-8") as log:
        done = subprocess.run(
            command, cwd=ROOT, check=False, stdout=log, stderr=log, env=os.environ | threads
        )
    if done.returncode == 0:
        place(begun, args.out)
    return done.returncode == 0


def place(source, target):
    """Move the results of a folder to another, into ours those that a page shows."""
    for path in source.iterdir():
        is_shown = target != RESULTS or (target / path.name).exists()
        if path.suffix in (".json", ".csv", ".png") and is_shown:
            path.replace(target / path.name)


def main():
    """Run what is stale, then put the results into their places."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--data", type=Path, default=os.environ.get("SKSTRUCT_DATA"))
    parser.add_argument("--hours", type=float, default=6.0, help="after which no run begins")
    parser.add_argument("--only", nargs="+", choices=[run.result for run in RUNS])
    parser.add_argument("--list", action="store_true", help="say what is stale, and run nothing")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "reproduce")
    args = parser.parse_args()
    if args.data is None and not args.list:
        parser.error("--data FOLDER or the variable SKSTRUCT_DATA is needed")
    if commit().endswith("-dirty") and not args.list:
        parser.error("files differ from the commit: a result would not say what made it")
    args.out.mkdir(parents=True, exist_ok=True)
    chosen = [run for run in RUNS if args.only is None or run.result in args.only]
    left, told, todo = 3600.0 * args.hours, [], []
    for run in sorted(chosen, key=lambda run: run.seconds):
        if any(is_fresh(found(folder, run), run.script) for folder in (RESULTS, args.out)):
            told.append((run.result, "fresh"))
        else:
            todo.append(run)
    for run in todo:
        seconds = max((found(RESULTS, run) or {}).get("cpu_seconds", 0.0), run.seconds)
        if args.list:
            told.append((run.result, f"stale, {seconds:.0f} CPU s"))
        elif seconds > left:
            told.append((run.result, f"skipped: takes {seconds:.0f} s, {left:.0f} s are left"))
        else:
            start = time.perf_counter()
            went_well = execute(run, args)
            left -= time.perf_counter() - start
            end = "done" if went_well else f"failed: read {args.out / run.result}.log"
            told.append((run.result, f"{end}, {time.perf_counter() - start:.0f} s"))
            print(*told[-1], flush=True)
    if not args.list:
        place(args.out, RESULTS)
    print("\n".join(f"| {name} | {state} |" for name, state in told))


if __name__ == "__main__":
    main()
