"""Assignments beside SciPy and lap, in one run.

    python benchmarks/bench_matching.py [--projections] [--json OUT]

lap is measured where it is installed (``pip install lap``). CPU microseconds a problem, the
smallest of several runs over many drawn ones, scores uniform in [0, 1]; the peers' times hold the
call from Python. A warm visit starts from the prices and links of the visit before, with other
noise; its time is the mean over several problems, since it depends on how near the second-best
assignment is. Ratios are ours over theirs, and cold over warm.

With --projections: Euclidean projections onto the polytope of assignments beside one best
assignment, instead, at several temperatures.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from skstruct.core.jit.kernels import kernel
from skstruct.inference.assignment import assignment, assignment_max_marginals, assignment_work
from skstruct.inference.assignment_polytope import (
    euclidean_assignment,
    projection_work,
)
from skstruct.inference.best_assignments import best_assignments, best_assignments_work

try:
    import lap
except ImportError:
    lap = None

_SIZES = {10: 2000, 30: 2000, 100: 100, 300: 20}
_NOISE = 1e-4, 1e-3, 1e-2
_BASES = 20
_PROJECTED = {30: 50, 300: 2}
_TEMPERATURES = 1e-3, 0.01, 0.1, 1.0, 10.0


@kernel
def solve_all(scores, n, null, warm, price, match, work):
    """Total of all problems, each started from the last one if `warm`."""
    total = 0.0
    for q in range(scores.shape[0]):
        if not warm:
            for i in range(n):
                price[i], match[i] = 0.0, -1
        total += assignment(scores[q], n, n, null, price, match, work)
    return total


def microseconds(function, n_problems, n_runs=5):
    """The result, and the smallest CPU microseconds a problem of some runs after a first one."""
    result, times = function(), []
    for _ in range(n_runs):
        start = time.process_time()
        function()
        times.append(1e6 * (time.process_time() - start) / n_problems)
    return result, min(times)


def assignments(n, n_problems, rng):
    """One size: cold, warm and the peers."""
    tables = rng.random((n_problems, n, n))
    scores, state = tables.reshape(n_problems, -1), (np.zeros(n), np.full(n, -1, np.int32))
    work, times = assignment_work(n, n), {}
    for name, null in (("perfect", False), ("null", True)):
        total, times[name] = microseconds(
            lambda null=null: solve_all(scores, n, null, False, *state, work), n_problems
        )
    n_visits = min(n_problems, 300)
    for noise in _NOISE:
        visits = []
        for base in scores[:_BASES]:
            near = base + noise * rng.normal(size=(n_visits, n * n))
            visits.append(
                microseconds(
                    lambda near=near: solve_all(near, n, True, True, *state, work), n_visits
                )[1]
            )
        times[f"warm {noise:g}"] = float(np.mean(visits))
    pairs, times["scipy"] = microseconds(
        lambda: [linear_sum_assignment(table, maximize=True) for table in tables], n_problems
    )
    theirs = sum(table[pair].sum() for table, pair in zip(tables, pairs, strict=True))
    if abs(total - theirs) > 1e-9 * theirs:
        raise AssertionError(f"{n}: our total {total} is not SciPy's {theirs}")
    if lap is not None:
        times["lap"] = microseconds(lambda: [lap.lapjv(-t) for t in tables], n_problems)[1]
    return times


def marginals(n, rng):
    """Max-marginals of all pairs, and ten best assignments."""
    scores, work = rng.random(n * n), best_assignments_work(n, n, 10)
    price, match = np.zeros(n), np.full(n, -1, np.int32)
    outputs = np.empty(2 * n * n), np.empty(n), np.empty((n + 1) ** 2)
    problem = scores, n, n, True
    values, matches = np.empty(10), np.empty((10, n), np.int32)
    return {
        "max-marginals": microseconds(
            lambda: assignment_max_marginals(*problem, price, match, work.solver, *outputs), 1
        )[1],
        "10 best": microseconds(lambda: best_assignments(*problem, values, matches, work), 1)[1],
    }


def projections(n, n_problems, rng):
    """Projections, each from nothing, and best assignments of the same scores."""
    scores, work = (
        rng.random((n_problems, n * n)),
        (assignment_work(n, n), projection_work([(n, n)])),
    )
    mu, times = np.empty(n * n), {}
    for null in (True, False):

        def call(kernel, row, *rest, null=null):
            memory = np.zeros(n), np.full(n, -1, np.int32)
            if not rest:
                return kernel(row, n, n, null, *memory, work[0])
            return kernel(row, n, n, null, *rest, *memory, mu, *work)

        name = "null" if null else "perfect"
        times[name] = microseconds(
            lambda call=call: [call(assignment, row) for row in scores], n_problems
        )[1]
        for temperature in _TEMPERATURES:
            times[f"{name} projection {temperature:g}"] = microseconds(
                lambda call=call, temperature=temperature: [
                    call(euclidean_assignment, row, temperature) for row in scores
                ],
                n_problems,
                3,
            )[1]
    return times


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--projections", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rng, found = np.random.default_rng(0), {}
    for n, n_problems in (_PROJECTED if arguments.projections else {}).items():
        found[n] = projections(n, n_problems, rng)
        print(f"{n} x {n}: " + ", ".join(f"{name} {t:.0f} us" for name, t in found[n].items()))
    for n, n_problems in ({} if arguments.projections else _SIZES).items():
        times = assignments(n, n_problems, rng) | marginals(n, rng)
        peers = [times[name] for name in ("scipy", "lap") if name in times]
        ratios = {
            "perfect / scipy": times["perfect"] / times["scipy"],
            "perfect / better": times["perfect"] / min(peers),
        } | {f"null / warm {noise:g}": times["null"] / times[f"warm {noise:g}"] for noise in _NOISE}
        found[n] = times | ratios
        print(f"{n} x {n}: " + ", ".join(f"{name} {t:.1f} us" for name, t in times.items()))
        print("    " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
