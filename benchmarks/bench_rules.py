"""Prediction under rules: which hold in the gold labels, errors before and after, time.

    python benchmarks/bench_rules.py --data FOLDER [--limit N] [--json OUT]

FOLDER holds ``usaddress/`` and ``conll2003/``. Of addresses the rules are "at most one run" of each
label that 99 % of the training addresses do not repeat; CRFs are trained on 50, 200 and all of them
and tested on the others and on those of the test file. Of entities, "at most one chunk of a kind"
and "all of one kind before all of another" are taken where 97 % of the training sentences obey;
none holds in 99 %. CRFs are trained without rules and predict the test samples freely and under the
rules. CPU seconds of ``predict`` on packed features, one thread, smallest of runs in turn, also on
those samples alone whose free labelling obeys. "changed" are the test samples whose labelling the
rules change, with how many of them are right before and after.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_lite import addresses, features
from sklearn.metrics import f1_score

from skstruct import SAGCRF, AtMostOnce, Before, Chain, RaggedArray
from skstruct.data.rules import broken_rules, single_rules
from skstruct.datasets import load_conll
from skstruct.metrics import chunk_f1_score, flatten
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer

_TEMPLATES = "\n".join(
    [f"U{k}:%x[{k - 2},0]" for k in range(5)]
    + [f"U1{k}:%x[{k - 2},1]" for k in range(5)]
    + ['U20:%m[0,0,"...$"]', 'U21:%m[0,0,"^..."]', 'U22:%m[0,0,"^\\u"]', "U23:%x[-1,0]/%x[0,0]"]
)


class Task(NamedTuple):
    """Training and test samples, and rules that may hold."""

    name: str
    crf: SAGCRF
    train: tuple
    test: tuple
    rules: list
    f1: Callable


def _node_f1(y_true, y_pred):
    """F1 of labels, weighted by their numbers."""
    return f1_score(*flatten(y_true, y_pred), average="weighted")


def usaddress(folder, limit):
    """Addresses: 29 labels without tags."""
    files = [folder / "usaddress" / f"{name}.xml" for name in ("train", "test_labeled")]
    train, test = (list(addresses(file))[:limit] for file in files)
    labels = [list(own) for _, own in train]
    classes = np.unique(np.concatenate(labels))
    once = [AtMostOnce(label) for label in classes.tolist()]
    once = list(itertools.compress(once, breaks(once, classes, labels).mean(axis=0) <= 0.01))
    order = np.random.default_rng(0).permutation(len(train))
    for n in (50, 200, len(train)):
        parts = [train[i] for i in order[:n]], [train[i] for i in order[n:]] + test
        (X, y), (X_test, y_test) = (
            ([features(tokens) for tokens, _ in part], [list(own) for _, own in part])
            for part in parts
        )
        reader = SequenceVectorizer()
        X, X_test = reader.fit_transform(X), reader.transform(X_test)
        known = set(itertools.chain(*y))
        rules = [rule for rule in once if rule.label in known]
        crf = SAGCRF(Chain(), tol=1e-2, random_state=0)
        yield Task(f"usaddress, {n:,}", crf, (X, y), (X_test, y_test), rules, _node_f1)


def conll2003(folder, limit):
    """Entities: four kinds, IOB1."""
    columns = ["word", "pos", "chunk", "entity"]
    parts = [load_conll(folder / f"conll2003/eng.{n}.gz", columns) for n in ("train", "testb")]
    rows = [RaggedArray.stack_columns([part.word, part.pos]) for part in parts]
    reader = TemplateVectorizer(_TEMPLATES, min_count=2)
    X, X_test = reader.fit_transform(rows[0]), reader.transform(rows[1])
    y, y_test = (list(part.entity) for part in parts)
    kinds, classes = ["LOC", "MISC", "ORG", "PER"], np.unique(np.concatenate(y))
    rules = [AtMostOnce(kind) for kind in kinds]
    rules += [Before(*pair) for pair in itertools.permutations(kinds, 2)]
    rules = list(itertools.compress(rules, breaks(rules, classes, y).mean(axis=0) <= 0.03))
    crf, some = SAGCRF(Chain(), tol=1e-2, random_state=0), slice(limit)
    test = X_test[some], y_test[some]
    yield Task("CoNLL-2003", crf, (X[some], y[some]), test, rules, chunk_f1_score)


def breaks(rules, classes, y):
    """Whether each labelling breaks each rule."""
    place = {label: k for k, label in enumerate(classes.tolist())}
    codes = np.array([place[label] for label in itertools.chain(*y)])
    ends = np.append(0, np.cumsum([len(labels) for labels in y]))
    return broken_rules(single_rules(rules, classes), classes, codes, ends)


def seconds(*calls, runs=9):
    """CPU seconds of calls, the smallest of some runs in turn."""
    best = [np.inf] * len(calls)
    for _ in range(runs):
        for k, call in enumerate(calls):
            began = time.process_time()
            call()
            best[k] = min(best[k], time.process_time() - began)
    return best


def run(task):
    """One row."""
    crf, (X_test, y_test) = task.crf.fit(*task.train), task.test
    classes, rules = crf.classes_, task.rules
    free, ruled = crf.predict(X_test), crf.predict(X_test, rules=rules)
    obeys = ~breaks(rules, classes, free).any(axis=1)
    changed = [not np.array_equal(a, b) for a, b in zip(free, ruled, strict=True)]
    right = [
        [np.array_equal(labels, own) for labels, own in zip(found, y_test, strict=True)]
        for found in (free, ruled)
    ]
    known = set(classes.tolist())
    gold = breaks(rules, classes, [labels for labels in y_test if set(labels) <= known])
    some = X_test[obeys]
    times = seconds(lambda: crf.predict(X_test), lambda: crf.predict(X_test, rules=rules))
    times += seconds(lambda: crf.predict(some), lambda: crf.predict(some, rules=rules))
    return {
        "data": task.name,
        "rules": [str(rule) for rule in rules],
        "test": len(y_test),
        "gold breaks": int(gold.any(axis=1).sum()),
        "free breaks": int((~obeys).sum()),
        "changed": int(sum(changed)),
        "right among changed": [sum(itertools.compress(own, changed)) for own in right],
        "exact match": [float(np.mean(own)) for own in right],
        "f1": [float(task.f1(y_test, found, average="micro")) for found in (free, ruled)],
        "seconds": times,
    }


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="training and test samples")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(
        "| data | rules | test | gold breaks | free breaks | changed: right before, after | "
        "exact match | F1 | time, ratio | on samples that obey |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    rows = []
    tasks = itertools.chain(usaddress(args.data, args.limit), conll2003(args.data, args.limit))
    for row in map(run, tasks):
        rows.append(row)
        exact, f1 = (
            " → ".join(f"{100 * value:.2f}" for value in row[key]) for key in ("exact match", "f1")
        )
        free, ruled, free_obeys, ruled_obeys = row["seconds"]
        before, after = row["right among changed"]
        print(
            f"| {row['data']} | {len(row['rules'])} | {row['test']:,} | {row['gold breaks']} | "
            f"{row['free breaks']} | {row['changed']}: {before}, {after} | {exact} | {f1} | "
            f"{ruled / free:.2f} | {ruled_obeys / free_obeys:.2f} |",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
