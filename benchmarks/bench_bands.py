"""Decoding with bands of transitions: ``skstruct.decode`` and others beside plain loops in numba.

    python benchmarks/bench_bands.py [--quick] [--json OUT] [--seed N]

A label reaches the labels within a half width, all others are forbidden (-inf): pitch, position,
tempo. Scores and transitions are random. The plain loops visit the band alone, as people write
them: Viterbi with predecessors, scaled forward-backward, lists of the five best, and forward
filtering with backward draws. Results are compared first. Then dense tables, which must not lose by
this, and a tagging scheme. CPU milliseconds of one thread, the smallest of several runs, in turn.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numba
import numpy as np

import skstruct

_N_STEPS, _K = 1000, 5


@numba.njit
def plain_viterbi(scores, table, half):
    """The best labelling."""
    n, n_labels = scores.shape
    best, after = scores[0].copy(), np.empty(n_labels)
    back = np.zeros((n, n_labels), dtype=np.int32)
    for t in range(1, n):
        for k in range(n_labels):
            chosen, value = 0, -np.inf
            for j in range(max(k - half, 0), min(k + half + 1, n_labels)):
                candidate = best[j] + table[j, k]
                if candidate > value:
                    chosen, value = j, candidate
            after[k], back[t, k] = value + scores[t, k], chosen
        best, after = after, best
    path = np.empty(n, dtype=np.int64)
    path[n - 1] = np.argmax(best)
    for t in range(n - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


@numba.njit
def _filter(scores, factors, half):
    """Scaled forward messages and the log-partition."""
    n, n_labels = scores.shape
    alpha, log_z = np.empty((n, n_labels)), 0.0
    for t in range(n):
        top = scores[t].max()
        for k in range(n_labels):
            total = 1.0
            if t > 0:
                total = 0.0
                for j in range(max(k - half, 0), min(k + half + 1, n_labels)):
                    total += alpha[t - 1, j] * factors[j, k]
            alpha[t, k] = total * np.exp(scores[t, k] - top)
        total = alpha[t].sum()
        alpha[t] /= total
        log_z += np.log(total) + top
    return alpha, log_z


@numba.njit
def plain_log_partition(scores, table, half):
    """The log-partition."""
    return _filter(scores, np.exp(table), half)[1]


@numba.njit
def plain_marginals(scores, table, half):
    """Marginals."""
    n, n_labels = scores.shape
    factors = np.exp(table)
    alpha, _ = _filter(scores, factors, half)
    out, beta = np.empty((n, n_labels)), np.ones(n_labels)
    message = np.empty(n_labels)
    out[n - 1] = alpha[n - 1]
    for t in range(n - 2, -1, -1):
        top = scores[t + 1].max()
        for k in range(n_labels):
            message[k] = beta[k] * np.exp(scores[t + 1, k] - top)
        for j in range(n_labels):
            total = 0.0
            for k in range(max(j - half, 0), min(j + half + 1, n_labels)):
                total += factors[j, k] * message[k]
            beta[j] = total
        beta /= beta.sum()
        for k in range(n_labels):
            out[t, k] = alpha[t, k] * beta[k]
        out[t] /= out[t].sum()
    return out


@numba.njit
def plain_top_k(scores, table, half, size):
    """The best labellings by lists of the best at each node and label."""
    n, n_labels = scores.shape
    best, after = np.full((n_labels, size), -np.inf), np.empty((n_labels, size))
    back = np.zeros((n, n_labels, size, 2), dtype=np.int32)
    best[:, 0] = scores[0]
    for t in range(1, n):
        for k in range(n_labels):
            row, places = after[k], back[t, k]
            row[:] = -np.inf
            for j in range(max(k - half, 0), min(k + half + 1, n_labels)):
                for q in range(size):
                    value = best[j, q] + table[j, k]
                    if not value > row[size - 1]:
                        break
                    r = size - 1
                    while r > 0 and value > row[r - 1]:
                        row[r], places[r, 0], places[r, 1] = (
                            row[r - 1], places[r - 1, 0], places[r - 1, 1]
                        )  # fmt: skip
                        r -= 1
                    row[r], places[r, 0], places[r, 1] = value, j, q
            row += scores[t, k]
        best, after = after, best
    ends = np.argsort(-best.ravel(), kind="mergesort")[:size]
    paths = np.empty((size, n), dtype=np.int64)
    for r in range(size):
        k, q = ends[r] // size, ends[r] % size
        for t in range(n - 1, -1, -1):
            paths[r, t] = k
            k, q = back[t, k, q]
    return paths, best.ravel()[ends]


@numba.njit
def plain_sample(scores, table, half, uniforms):
    """Forward filtering, and draws from the last node to the first."""
    n, n_labels = scores.shape
    n_draws = uniforms.shape[0]
    factors = np.exp(table)
    alpha, _ = _filter(scores, factors, half)
    out, weights = np.empty((n_draws, n), dtype=np.int64), np.empty(n_labels)
    for d in range(n_draws):
        label = np.searchsorted(np.cumsum(alpha[n - 1]), uniforms[d, n - 1])
        out[d, n - 1] = min(label, n_labels - 1)
        for t in range(n - 2, -1, -1):
            k = out[d, t + 1]
            first, stop = max(k - half, 0), min(k + half + 1, n_labels)
            total = 0.0
            for j in range(first, stop):
                weights[j] = alpha[t, j] * factors[j, k]
                total += weights[j]
            rest, j = uniforms[d, t] * total, first
            while j < stop - 1 and rest >= weights[j]:
                rest -= weights[j]
                j += 1
            out[d, t] = j
    return out


def band(n_labels, half, rng):
    """Random scores of steps within a half width."""
    labels = np.arange(n_labels)
    table = rng.normal(size=(n_labels, n_labels))
    return np.where(np.abs(labels[:, None] - labels) <= half, table, -np.inf)


def tags(n_types):
    """Labels of BIOES."""
    return ["O"] + [f"{tag}-{kind:02}" for tag in "BEIS" for kind in range(n_types)]


def fastest(calls, n_runs):
    """CPU milliseconds of each call, in turn, and what the last of them returned."""
    times, found = dict.fromkeys(calls, np.inf), {}
    for run in range(n_runs + 1):
        for name, call in calls.items():
            began = time.process_time()
            found[name] = call()
            if run:  # the first one compiles
                times[name] = min(times[name], 1e3 * (time.process_time() - began))
    return times, found


def of_bands(n_labels, half, n_runs, rng):
    """A line for each function."""
    scores, table = rng.normal(size=(_N_STEPS, n_labels)), band(n_labels, half, rng)
    uniforms = rng.random((1, _N_STEPS))
    own = {"n_jobs": 1}
    pairs = {
        "decode": (
            lambda: plain_viterbi(scores, table, half),
            lambda: skstruct.decode(scores, table, **own),
        ),
        "log_partition": (
            lambda: plain_log_partition(scores, table, half),
            lambda: skstruct.log_partition(scores, table, **own),
        ),
        "marginals": (
            lambda: plain_marginals(scores, table, half),
            lambda: skstruct.marginals(scores, table, **own),
        ),
        "top_k": (
            lambda: plain_top_k(scores, table, half, _K),
            lambda: skstruct.top_k(scores, _K, table, **own),
        ),
        "sample": (
            lambda: plain_sample(scores, table, half, uniforms),
            lambda: skstruct.sample(scores, 1, table, random_state=0, **own),
        ),
    }
    for name, (plain, ours) in pairs.items():
        times, found = fastest({"plain": plain, "skstruct": ours}, n_runs)
        if name != "sample":
            results = found["plain"], found["skstruct"]
            for a, b in zip(*results, strict=True) if name == "top_k" else [results]:
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
        yield {"labels": n_labels, "half": half, "call": name} | times


def of_tables(n_runs, rng):
    """Dense tables and a tagging scheme, without a plain loop."""
    for n_labels in (9, 45, 360):
        scores, table = rng.normal(size=(_N_STEPS, n_labels)), rng.normal(size=(n_labels, n_labels))
        yield from _of_table("dense", scores, {"transitions": table}, n_runs)
    for n_types in (4, 18, 64):
        labels = tags(n_types)
        scores = rng.normal(size=(_N_STEPS, len(labels)))
        table = rng.normal(size=(len(labels), len(labels)))
        how = {"transitions": table, "scheme": "bioes", "labels": labels}
        yield from _of_table("bioes", scores, how, n_runs)


def _of_table(kind, scores, how, n_runs):
    calls = {
        "decode": lambda: skstruct.decode(scores, **how, n_jobs=1),
        "marginals": lambda: skstruct.marginals(scores, **how, n_jobs=1),
        "top_k": lambda: skstruct.top_k(scores, _K, **how, n_jobs=1),
        "sample": lambda: skstruct.sample(scores, **how, random_state=0, n_jobs=1),
    }
    times, _ = fastest(calls, n_runs)
    for name, own in times.items():
        yield {"labels": scores.shape[1], "half": kind, "call": name, "skstruct": own}


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the narrowest band and tables alone")
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, lines = np.random.default_rng(options.seed), []
    print("labels  half  call                      plain ms  skstruct ms  skstruct / plain")
    bands = [(360, 12), (720, 25), (1440, 60)]
    for n_labels, half in bands[:1] if options.quick else bands:
        for line in of_bands(n_labels, half, 3, rng):
            lines.append(line)
            plain, ours = line["plain"], line["skstruct"]
            print(
                f"{n_labels:>6}  {half:>4}  {line['call']:<24}  {plain:>8.1f}  {ours:>11.1f}",
                f"{ours / plain:>17.2f}",
                flush=True,
            )
    for line in of_tables(5, rng):
        lines.append(line)
        print("{labels:>6} {half:>5}  {call:<24}  {skstruct:>21.1f}".format(**line), flush=True)
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
