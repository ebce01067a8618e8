"""Passes of every estimator on every structure that it trains until the gap is 1e-2.

    python benchmarks/bench_passes.py [--quick] [--json FILE]
    python benchmarks/bench_passes.py --estimators crf-oeg bcfw --structures "Pairwise*" --C 10

Default parameters except `tol` and `max_iter`, on small random data that it makes itself: 12 grids
of 4 x 5, or 30 to 60 samples. One line per structure and estimator: passes (all oracle calls and
forward passes, divided by the number of samples) for each C; where the fit ends above the
tolerance, the gap at its end in per cent. A minus stands for an estimator that does not train the
structure. Bold are figures above the goal: 300 passes, and 500 at C = 10. ProxLinearSSVM and
SubgradientSSVM have no bound: they keep their own `tol`, and "limit" says that they did not stop.

``--structures`` and ``--estimators`` take names or patterns (``Grid*``); ``--list`` prints them.
``--quick`` has fewer structures and stops at 300 passes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from scipy import sparse

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    Boxes,
    Candidates,
    CasimirSSVM,
    Chain,
    ExtragradientSSVM,
    Grid,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    ProxLinearSSVM,
    SubgradientSSVM,
    Tree,
)
from skstruct.callbacks import TimeLimit

# Of the fits; standard deviation of the noise on grids and sequences.
TOL, NOISE = 1e-2, 0.5


def grids(n_labels=2, n=12, shape=(4, 5), seed=0):
    """Noisy images of smooth regions."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(n_labels, size=shape)
        for _ in range(2):  # most neighbours decide
            votes = []
            for k in range(n_labels):
                own = (labels == k).astype(float)
                moved = sum(np.roll(own, step, axis) for step in (-1, 1) for axis in (0, 1))
                votes.append(moved + own + 0.5 * rng.random(shape))
            labels = np.argmax(votes, axis=0)
        X.append(np.eye(n_labels)[labels] + NOISE * rng.normal(size=(*shape, n_labels)))
        y.append(labels)
    return X, y


def sequences(n=40, n_labels=3, n_features=5, seed=0, is_sparse=False):
    """Noisy rows about the centre of their label, which often stays the same."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_labels, n_features))
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(n_labels, size=rng.integers(3, 9))
        for t in range(1, labels.size):
            labels[t] = labels[t - 1] if rng.random() < 0.6 else labels[t]
        X.append(centres[labels] + NOISE * rng.normal(size=(labels.size, n_features)))
        y.append(labels)
    if is_sparse:
        X = [sparse.csr_matrix((x > 0.5).astype(float)) for x in X]
    return X, y


def edge_sequences():
    """Sequences with features of edges."""
    X, y = sequences()
    rng = np.random.default_rng(1)
    return [(x, rng.normal(size=(len(x) - 1, 2))) for x in X], y


def trees():
    """Sequences whose nodes hang on an earlier one."""
    X, y = sequences()
    rng = np.random.default_rng(2)
    return [(x, [-1] + [int(rng.integers(t)) for t in range(1, len(x))]) for x in X], y


def graphs(n_edge_features=0, is_sparse=False):
    """Sequences that are closed to a cycle, with a chord."""
    X, y = sequences(is_sparse=is_sparse)
    rng = np.random.default_rng(3)
    out = []
    for x in X:
        n = x.shape[0]
        pairs = {(t, t + 1) for t in range(n - 1)} | {(0, n - 1)}
        if n > 4:
            pairs.add((1, n - 2))
        edges = np.array(sorted(pairs))
        more = (rng.normal(size=(len(edges), n_edge_features)),) if n_edge_features else ()
        out.append((x, edges, *more))
    return out, y


def table():
    """One row per sample."""
    X, y = sequences(n=10)
    return np.vstack(X), np.concatenate(y)


def label_sets(n=60, n_labels=5, n_features=6):
    """Label sets; the first label brings the second."""
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(n, n_features)), rng.normal(size=(n_features, n_labels))
    Y = (X @ w + rng.normal(size=(n, n_labels)) > 0.5).astype(int)
    Y[:, 1] |= Y[:, 0]
    return X, Y


def candidates(n=40):
    """The candidate whose first features are large is often the right one."""
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(int(rng.integers(3, 9)), 4)) for _ in range(n)]
    return X, [int(np.argmax(x[:, 0] + x[:, 1] + 0.7 * rng.normal(size=len(x)))) for x in X]


def matchings(n=40):
    """Permutations whose pairs have larger features."""
    rng = np.random.default_rng(6)
    X, y = [], []
    for _ in range(n):
        size = int(rng.integers(3, 6))
        pairs = rng.permutation(size)
        x = rng.normal(size=(size, size, 3))
        x[np.arange(size), pairs] += 1.0
        X.append(x)
        y.append(pairs)
    return X, y


def images(n=30, shape=(5, 6)):
    """Images with a brighter box."""
    rng = np.random.default_rng(7)
    X, y = [], []
    for _ in range(n):
        top, left = int(rng.integers(3)), int(rng.integers(3))
        box = top, left, top + 2, left + 3
        x = rng.normal(size=(*shape, 2))
        x[top : top + 2, left : left + 3, 0] += 1.5
        X.append(x)
        y.append(box)
    return X, y


STRUCTURES = {
    "MultiClass": (MultiClass(), table),
    "Chain": (Chain(), sequences),
    "Chain(sparse)": (Chain(), lambda: sequences(is_sparse=True)),
    "Chain(boundary)": (Chain(boundary=True), sequences),
    "Chain(edge_features)": (Chain(edge_features=True), edge_sequences),
    "Tree": (Tree(), trees),
    "MultiLabel": (MultiLabel(), label_sets),
    "MultiLabel(tree)": (MultiLabel("tree"), label_sets),
    "MultiLabel(full)": (MultiLabel("full"), label_sets),
    "MultiLabel(full, tables)": (MultiLabel("full", tables=True), label_sets),
    "MultiLabel(full, relaxed)": (MultiLabel("full", inference="relaxed"), label_sets),
    "Pairwise": (Pairwise(), graphs),
    "Pairwise(sparse)": (Pairwise(), lambda: graphs(is_sparse=True)),
    "Pairwise(lp)": (Pairwise(inference="lp"), graphs),
    "Pairwise(potts)": (Pairwise(interactions="potts"), graphs),
    "Pairwise(potts, sparse)": (Pairwise(interactions="potts"), lambda: graphs(is_sparse=True)),
    "Pairwise(symmetric)": (Pairwise(interactions="symmetric"), graphs),
    "Pairwise(edge_features)": (Pairwise(edge_features=True), lambda: graphs(2)),
    "Grid": (Grid(), grids),
    "Grid(lp)": (Grid(inference="lp"), grids),
    "Grid(roof-dual)": (Grid(inference="roof-dual"), grids),
    "Grid(attractive)": (Grid(attractive=True), grids),
    "Grid(contrast)": (Grid(edge_features="contrast"), grids),
    "Grid(8)": (Grid(neighborhood=8), grids),
    "Grid(symmetric)": (Grid(interactions="symmetric"), grids),
    "Grid(K=3)": (Grid(), lambda: grids(3)),
    "Grid(K=3, lp)": (Grid(inference="lp"), lambda: grids(3)),
    "Grid(K=3, potts, lp)": (Grid(interactions="potts", inference="lp"), lambda: grids(3)),
    "Candidates": (Candidates(), candidates),
    "Matching": (Matching(), matchings),
    "Boxes": (Boxes(), images),
}
ESTIMATORS = {
    **{
        f"crf-{solver}": (SAGCRF, {"solver": solver})
        for solver in ("auto", "oeg", "sag", "saga", "svrg", "casimir", "lbfgs")
    },
    "bcfw": (BCFWSSVM, {}),
    "bcfw-cache": (BCFWSSVM, {"oracle_cache": True}),
    "gdmm": (GDMMSSVM, {}),
    "gdmm-afw": (GDMMSSVM, {"variant": "afw"}),
    "gdmm-away": (GDMMSSVM, {"variant": "away"}),
    "gdmm-bgcd": (GDMMSSVM, {"variant": "bgcd"}),
    "casimir": (CasimirSSVM, {}),
    "extragradient": (ExtragradientSSVM, {}),
    "prox-linear": (ProxLinearSSVM, {}),
    "subgradient": (SubgradientSSVM, {}),
}
UNBOUNDED = ProxLinearSSVM, SubgradientSSVM
QUICK = "MultiClass", "Chain", "Pairwise(potts)", "Grid"


def goal(C):
    """Passes that a fit may take."""
    return 300 if C <= 1.0 else 500


def measure(estimator, structure, C, max_iter, seconds):
    """Passes, gap at the end and CPU seconds of a fit, or why there is none."""
    kind, options = ESTIMATORS[estimator]
    graph, make = STRUCTURES[structure]
    X, y = make()
    model = kind(graph, C=C, max_iter=max_iter, **options).set_callbacks(TimeLimit(seconds))
    if kind not in UNBOUNDED:
        model.set_params(tol=TOL)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    start = time.process_time()
    try:
        model.fit(X, y)
    except (TypeError, ValueError) as error:
        return {"refused": str(error)}
    passes, gap = float(model.history_["passes"][-1]), getattr(model, "suboptimality_", None)
    ended = model.n_iter_ < max_iter if gap is None else gap <= TOL
    return {
        "passes": passes,
        "iterations": int(model.n_iter_),
        "gap": gap,
        "objective": float(model.objective_),
        "dual": getattr(model, "dual_objective_", None),
        "ended": bool(ended),
        "missed": not (ended and passes <= goal(C)),
        "seconds": time.process_time() - start,
    }


def shown(found):
    """One cell of the table."""
    if "refused" in found:
        return "-"
    text = f"{found['passes']:.0f}"
    if not found["ended"]:
        text += ", limit" if found["gap"] is None else f", {100 * found['gap']:.2g} %"
    return f"**{text}**" if found["missed"] else text


def chosen(names, patterns):
    """The names that a pattern matches, all without patterns."""
    return [name for name in names if not patterns or any(fnmatch(name, p) for p in patterns)]


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--estimators", nargs="+", metavar="NAME")
    parser.add_argument("--structures", nargs="+", metavar="NAME")
    parser.add_argument("--C", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--max-iter", type=int, help="of each fit; 1000, with --quick 300")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each fit")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    structures = chosen(STRUCTURES, arguments.structures or (QUICK if arguments.quick else ()))
    estimators = chosen(ESTIMATORS, arguments.estimators)
    if arguments.list:
        print(*estimators, "", *structures, sep="\n")
        return
    max_iter = arguments.max_iter or (300 if arguments.quick else 1000)
    warnings.simplefilter("ignore")
    results = {}
    print("| structure | estimator |", " | ".join(f"C = {C:g}" for C in arguments.C), "|")
    print("|---|---|" + "--:|" * len(arguments.C))
    for structure in structures:
        for estimator in estimators:
            task = estimator, structure
            measure(*task, 1.0, 1, np.inf)  # compiles, which is not to count for the limit
            own = {f"{C:g}": measure(*task, C, max_iter, arguments.seconds) for C in arguments.C}
            results.setdefault(structure, {})[estimator] = own
            cells = " | ".join(map(shown, own.values()))
            print(f"| {structure} | {estimator} | {cells} |", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
