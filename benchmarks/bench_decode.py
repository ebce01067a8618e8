"""Decoding plain arrays of scores: ``skstruct.decode`` beside the loops that people write.

    python benchmarks/bench_decode.py [--quick] [--json OUT] [--threads N]

Scores and transitions are random, the sentences as long as those of the test set of CoNLL-2003
(3,453 of 13 tokens on average), padded to the longest. The first loop decodes a sentence at a time
with NumPy, a step at a time; the second all sentences at once; pytorch-crf, where it is installed,
does as the second does. All have float32 scores and one thread; all find labellings of the same
score. CPU milliseconds, the smallest of several runs, in turn.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import skstruct

try:
    import torch
    import torchcrf
except ImportError:
    torch = None


def one_by_one(scores, table, lengths):
    """Viterbi decoding of one sentence after another."""
    found = []
    for sentence, length in zip(scores, lengths, strict=True):
        best, back = sentence[0], []
        for t in range(1, length):
            candidates = best[:, None] + table
            back.append(candidates.argmax(axis=0))
            best = candidates.max(axis=0) + sentence[t]
        path = [int(best.argmax())]
        for step in reversed(back):
            path.append(int(step[path[-1]]))
        found.append(path[::-1])
    return found


def all_at_once(scores, table, lengths):
    """Viterbi decoding of all sentences, a step of all at a time."""
    longest = scores.shape[1]
    best, back = scores[:, 0], []
    for t in range(1, longest):
        candidates = best[:, :, None] + table
        back.append(candidates.argmax(axis=1))
        best = np.where((t < lengths)[:, None], candidates.max(axis=1) + scores[:, t], best)
    label = best.argmax(axis=1)
    paths = np.empty(scores.shape[:2], dtype=np.int64)
    for t in range(longest - 1, -1, -1):
        paths[:, t] = label
        if t > 0:
            label = np.where(t < lengths, back[t - 1][np.arange(len(label)), label], label)
    return paths


def values(paths, scores, table, lengths):
    """Scores of labellings."""
    rows = [np.asarray(path[:n]) for path, n in zip(paths, lengths, strict=True)]
    return [
        scores[i, np.arange(row.size), row].sum(dtype=float) + table[row[:-1], row[1:]].sum()
        for i, row in enumerate(rows)
    ]


def ways(scores, table, lengths, n_jobs):
    """Each way to decode."""
    calls = {
        "skstruct.decode": lambda: skstruct.decode(scores, table, lengths=lengths, n_jobs=n_jobs),
        "NumPy, one by one": lambda: one_by_one(scores, table, lengths),
        "NumPy, all at once": lambda: all_at_once(scores, table, lengths),
    }
    if torch is not None:
        torch.set_num_threads(1)
        crf = torchcrf.CRF(len(table), batch_first=True)
        with torch.no_grad():
            crf.transitions.copy_(torch.from_numpy(table))
            crf.start_transitions.zero_(), crf.end_transitions.zero_()
        given = (
            torch.from_numpy(scores),
            torch.from_numpy(np.arange(scores.shape[1]) < lengths[:, None]),
        )
        calls["pytorch-crf"] = lambda: crf.decode(given[0], mask=given[1])
    return calls


def measure(n_sentences, n_labels, n_runs, n_jobs):
    """A line for each way."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.gamma(1.6, 8.4, n_sentences).astype(int) + 1, 1, 124)
    scores = rng.normal(size=(n_sentences, lengths.max(), n_labels)).astype(np.float32)
    table = rng.normal(size=(n_labels, n_labels)).astype(np.float32)
    calls = ways(scores, table, lengths, n_jobs)
    times, right = {name: [] for name in calls}, None
    for _ in range(n_runs):
        for name, call in calls.items():
            began = time.process_time()
            paths = call()
            times[name].append(1e3 * (time.process_time() - began))
            if len(times[name]) == 1:
                found = values(paths, scores, table, lengths)
                right = found if right is None else right
                np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-4)
    ours = min(times["skstruct.decode"])
    for name, own in times.items():
        yield {
            "labels": n_labels, "tokens": int(lengths.sum()), "way": name, "ms": min(own),
            "ratio": min(own) / ours,
        }  # fmt: skip


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sentences")
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    parser.add_argument("--threads", type=int, default=1, help="of skstruct")
    options = parser.parse_args()
    skstruct.decode(np.zeros((2, 2, 2)))  # loads the kernels
    lines = []
    print(f"{'way':<20}labels  tokens       ms   ns/token   times skstruct's")
    for n_labels in (9, 33):
        for line in measure(345 if options.quick else 3453, n_labels, 5, options.threads):
            lines.append(line)
            per_token = 1e6 * line["ms"] / line["tokens"]
            print(
                "{way:<20}{labels:>6}  {tokens:>6}  {ms:>7.1f}".format(**line),
                f"{per_token:>9.0f}   {line['ratio']:>6.1f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
