"""Label sets with a hierarchy: implications kept by the model, beside flat models.

    python benchmarks/bench_hierarchy.py --data FOLDER [--sets rcv1v2 ...] [--C 1.0]

The files have no hierarchy of their own. Parents are unions of labels that are made here: clusters
of labels by the means of their training rows (Ward's), a third as many as labels, and for rcv1v2 a
tenth as many above them. Parents are labels as others in all scores, flat models included.
"closed afterwards" is the flat model whose
predictions get the parents of what it predicts. One core; seconds are those of the processor for
one fit, without compilation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from bench_label_sets import Split, load
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, hamming_loss

from skstruct import BCFWSSVM, SAGCRF, MultiLabel


def with_unions(data):
    """The set with unions of labels as further labels, and the pairs (child, parent)."""
    n = data.Y.shape[1]
    means = np.asarray(data.Y.T @ data.X) / data.Y.sum(axis=0)[:, None]
    own, pairs = np.arange(n), []
    unions = []
    for n_clusters in (n // 3, n // 10):
        if n_clusters < 2:
            continue
        cluster = AgglomerativeClustering(n_clusters).fit_predict(means)
        above = np.full(n, -1)
        for c in range(n_clusters):
            inside = np.flatnonzero(cluster == c)
            if np.unique(own[inside]).size > 1:
                above[inside] = n + len(unions)
                unions.append(inside)
        pairs += {(int(a), int(b)) for a, b in zip(own, above, strict=True) if b >= 0}
        own = np.where(above >= 0, above, own)
    more = [
        np.hstack([Y, *(Y[:, inside].max(axis=1, keepdims=True) for inside in unions)])
        for Y in (data.Y, data.Y_test)
    ]
    return Split(data.X, more[0], data.X_test, more[1]), sorted(pairs)


def close(Y, hierarchy):
    """Label sets with the parents of all their labels."""
    Y, before = Y.copy(), None
    while before is None or (before != Y).any():
        before = Y.copy()
        for child, parent in hierarchy:
            Y[:, parent] |= Y[:, child]
    return Y


def broken(Y, hierarchy):
    """The fraction of label sets that break the hierarchy."""
    child, parent = np.array(hierarchy).T
    return (Y[:, child] > Y[:, parent]).any(axis=1).mean()


def row(name, seconds, Y, found, hierarchy):
    """A line of the table."""
    scores = (
        100 * accuracy_score(Y, found),
        100 * hamming_loss(Y, found),
        100 * f1_score(Y, found, average="micro"),
        100 * f1_score(Y, found, average="macro", zero_division=0.0),
        100 * broken(found, hierarchy),
    )
    return f"| {name} | {seconds:.2f} | " + " | ".join(f"{score:.2f}" for score in scores) + " |"


def report(name, data, hierarchy, C):
    """Print the table of one set."""
    print(f"\n{name}: {data.Y.shape[1]} labels, {len(hierarchy)} implications")
    print("| model | s | subset acc. | Hamming loss | micro F1 | macro F1 | sets broken |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    print(row("truth", 0.0, data.Y_test, data.Y_test, hierarchy))
    for estimator in (BCFWSSVM, SAGCRF):
        for edges, pairs in ((None, None), (None, hierarchy), ("tree", None), ("tree", hierarchy)):
            model = estimator(MultiLabel(edges, hierarchy=pairs), C=C, random_state=0)
            clone(model).set_params(max_iter=1).fit(data.X[:200], close(data.Y[:200], hierarchy))
            began = time.process_time()
            model.fit(data.X, data.Y)
            seconds = time.process_time() - began
            found = model.predict(data.X_test)
            kind = f"{estimator.__name__}, {'tree' if edges else 'no edges'}"
            kind += ", hierarchy" if pairs else ", flat"
            print(row(kind, seconds, data.Y_test, found, hierarchy), flush=True)
            if pairs is None:
                found = close(found, hierarchy)
                print(row(f"{kind}, closed afterwards", seconds, data.Y_test, found, hierarchy))


def main():
    """Run the sets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["rcv1v2", "scene"])
    parser.add_argument("--C", type=float, default=1.0)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in args.sets:
        report(name, *with_unions(load(args.data, name)), args.C)


if __name__ == "__main__":
    main()
