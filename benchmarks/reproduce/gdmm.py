"""Yen et al. 2016, figures 2 and 3: structural SVMs of large output domains.

    python benchmarks/reproduce/gdmm.py --data FOLDER [--quick | --full] [--tasks pos ...]

Objective and test figure against CPU seconds: part-of-speech tags (treebank, 45 labels), characters
(simulated OCR, up to 2,934 labels), label sets with all pairs (bibtex, 159 labels; an RCV1 subset,
101). GDMM with sublinear and exact search of factors, without multipliers (Soft-BCFW), BCFW and
stochastic subgradients with exact oracles. C = 1. On characters the cost of one pass, and that of
the search in it, by the number of labels. Without --full: 500 sentences, 2,000 chains of
characters, 800 label sets. CPU seconds; neighbours on the machine disturb them.
"""

from __future__ import annotations

import time

import _paths  # noqa: F401
import frame
import numpy as np
from bench_large_output import _without_last_certificate
from frame import Claim, Panel, first_below, verdict
from runs import fit
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize
from tasks import treebank

from skstruct import BCFWSSVM, GDMMSSVM, MultiLabel, RaggedArray, SubgradientSSVM
from skstruct.datasets import load_glyph_chains, load_multilabel
from skstruct.inference.viterbi import viterbi, viterbi_scratch

PAPER = "Yen, Huang, Zhong, Zhang, Dhillon, Ravikumar 2016, figures 2 and 3"
TITLES = {"pos": "treebank POS", "bibtex": "bibtex", "rcv1": "RCV1 subset", "characters": "glyphs"}
FILES = {"bibtex": "bibtex", "rcv1": "rcv1v2_subset1_top944"}
LEVEL = 0.1  # above the best dual bound
SIZES = 125, 500, 2000, 2934


def pos(args):
    """Tags: data, what is measured, options."""
    task = treebank(args.data, 60 if args.quick else None if args.full else 500)
    test = task.test.X[:500], np.asarray(task.test.y[:500].flat)

    def measure(model):
        return 100.0 * float(np.mean(np.concatenate(list(model.predict(test[0]))) == test[1]))

    return task.train.X, task.train.y, measure, {"C": 1.0}, 1.0


def label_sets(name):
    """A reader of label sets with all pairs."""

    def read(args):
        file = load_multilabel(args.data / f"multilabel/{FILES[name]}.npz")
        X, rng = normalize(file.X), np.random.default_rng(0)
        order = rng.permutation(X.shape[0])
        size = 60 if args.quick else int(0.8 * len(order)) if args.full else 800
        train, test = order[:size], order[-400:]

        def measure(model):
            found = model.predict(X[test])
            return 100.0 * f1_score(file.Y[test], found, average="micro", zero_division=0.0)

        return X[train], file.Y[train], measure, {"C": 1.0, "graph": MultiLabel("full")}, 0.1

    return read


TASKS = {"pos": pos, "bibtex": label_sets("bibtex"), "rcv1": label_sets("rcv1")}


def solvers(rho):
    """The curves of figures 2 and 3."""
    common = {"max_iter": 1000, "tol": 1e-3, "random_state": 0}
    gdmm = {"rho": rho, "gap_every": 5, **common}
    yield "GDMM", GDMMSSVM(**gdmm)
    yield "GDMM, exact search", GDMMSSVM(search="exact", **gdmm)
    yield "Soft-BCFW", GDMMSSVM(search="exact", multipliers=False, **gdmm)
    yield "BCFW", BCFWSSVM(gap_every=2, steps="frank-wolfe", n_cached=1, **common)
    yield "BCFW, pairwise", BCFWSSVM(gap_every=2, **common)
    yield "Subgradient", SubgradientSSVM(max_iter=1000, tol=0.0, random_state=0)


def run(name, args, budget):
    """All fits of a task."""
    X, y, measure, options, rho = TASKS[name](args)
    found = {}
    for label, model in solvers(rho):
        own = found[label] = fit(model.set_params(**options), X, y, measure, budget)
        end = own.measures()[1][-1]
        print(f"  {label}: {own.least:.6f} {end:.1f} %, {own.seconds[-1]:.1f} s, "
              f"{own.passes[-1]:.0f} passes", flush=True)  # fmt: skip
    bound = max(getattr(v.model, "dual_objective_", -np.inf) for v in found.values())
    best = min(v.least for v in found.values())
    curves = {k: frame.thin(*v.curve("seconds", best=bound)) for k, v in found.items()}
    test = {k: frame.thin(*v.measures("seconds")) for k, v in found.items()}
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    passes = {k: float(v.passes[-1] / v.seconds[-1]) for k, v in found.items()}
    return {"n": n, "best": best, "bound": bound, "curves": curves, "test": test,
            "passes_a_second": passes}  # fmt: skip


def characters(args):
    """Microseconds a node and pass by the number of labels: GDMM, its search, and Viterbi."""
    file = load_glyph_chains(args.data / "chinese_text/ocr_sim.npz")
    by_frequency = np.argsort(-np.bincount(file.y.flat))
    limit = 40 if args.quick else len(file.X) if args.full else 2000
    names = "labels", "nodes", "GDMM", "its search", "exact search", "Viterbi"
    out = {name: [] for name in names}
    for size in SIZES[:2] if args.quick else SIZES:
        keep = np.isin(file.y.flat, by_frequency[:size])
        chain = np.repeat(np.arange(len(file.y)), file.y.lengths)
        chosen = np.flatnonzero(keep & np.isin(chain, np.flatnonzero(file.train)[:limit]))
        lengths = np.bincount(chain[chosen], minlength=len(file.y))
        offsets = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
        X, y = (RaggedArray(part.flat[chosen], offsets) for part in (file.X, file.y))
        n_labels, n = len(np.unique(y.flat)), offsets[-1]
        out["labels"].append(n_labels)
        out["nodes"].append(int(n))
        for key, search in (("GDMM", "sublinear"), ("exact search", "exact")):
            # The exact search is quadratic in the labels: fewer chains show its cost.
            part = len(X) if search == "sublinear" else min(len(X), max(5, 40_000 // n_labels))
            model = GDMMSSVM(C=1.0, search=search, max_iter=3, gap_every=0, random_state=0)
            model = _without_last_certificate(model)
            model.fit(X[:5], y[:5])
            start = time.process_time()
            model.fit(X[:part], y[:part])
            spent = time.process_time() - start
            history, nodes = model.history_, int(offsets[part])
            cpu = min(1.0, spent / history["seconds"][-1])  # of its wall clock
            own = 1e6 * cpu / (3 * nodes)
            # A few chains have fewer labels: the cost of a pair is what counts.
            factor = 1.0 if part == len(X) else (n_labels / model.classes_.size) ** 2
            out[key].append(own * history["seconds"][-1] * factor)
            if search == "sublinear":
                out["its search"].append(own * history["search_seconds"][-1])
        out["Viterbi"].append(_viterbi(n_labels))
        print("  " + ", ".join(f"{k} {v[-1]:.3g}" for k, v in out.items()), flush=True)
    return out


def _viterbi(n_labels):
    """Microseconds a node of the exact oracle."""
    rng, n = np.random.default_rng(0), 13
    unary, table = rng.normal(size=(n, n_labels)), rng.normal(size=(1, n_labels, n_labels))
    labels, work = np.empty(n, dtype=np.int32), viterbi_scratch(n, n_labels)
    times = []
    for _ in range(4):
        start = time.process_time()
        viterbi(unary, table, labels, work)
        times.append(time.process_time() - start)
    return 1e6 * min(times[1:]) / n


def claims(found, costs):
    """What the paper says beside what was measured; `found` by task."""
    if found:
        yield _faster(found, "BCFW", "GDMM is orders of magnitude faster than BCFW")
        yield _faster(found, "Subgradient", "... and than stochastic subgradients")
        yield _rivals(found)
        yield _multipliers(found)
        yield _linear(found)
    if costs:
        yield from _sublinear(costs)


def _seconds(value):
    return "not reached" if not np.isfinite(value) else f"{value:.2g} s"


def _reach(curve, level):
    """Seconds to a level, or those that were not enough, and how to write them."""
    found, spent = first_below(curve, level), float(curve[0][-1])
    return (found, _seconds(found)) if np.isfinite(found) else (spent, f"not in {spent:.2g} s")


def _faster(found, rival, text):
    """Seconds to a tenth above the bound."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ours = first_below(own["curves"]["GDMM"], LEVEL)
        pairs = [_reach(own["curves"][k], LEVEL) for k in ("GDMM", rival)]
        cells.append(f"{TITLES[name]}: {pairs[0][1]} against {pairs[1][1]}")
        outcomes.append(10.0 * ours <= pairs[1][0])
        if not outcomes[-1]:
            rates = (own["passes_a_second"][k] for k in ("GDMM", rival))
            pair = " against ".join(f"{rate:.1f}" for rate in rates)
            why.append(f"{TITLES[name]}: {pair} passes a second; exact oracles are cheap here")
    return Claim(f"{text} (10 times, CPU seconds to {LEVEL:g} above the bound)", "abstract",
                 "; ".join(cells), verdict(outcomes), "; ".join(why))  # fmt: skip


def _rivals(found):
    """Beside what the paper did not have."""
    cells, outcomes = [], []
    for name, own in found.items():
        a, b = (own["curves"][k][1][-1] for k in ("GDMM", "BCFW, pairwise"))
        cells.append(f"{TITLES[name]}: {100 * a:.2g} % against {100 * b:.2g} %")
        outcomes.append(a < b)
    text = "(Not in the paper) GDMM ends nearer to the bound than BCFW with pairwise steps"
    return Claim(text, "-", "; ".join(cells), verdict(outcomes))


def _multipliers(found):
    """Soft-BCFW stays off the optimum."""
    cells, outcomes = [], []
    for name, own in found.items():
        a, b = (own["curves"][k][1][-1] for k in ("GDMM, exact search", "Soft-BCFW"))
        cells.append(f"{TITLES[name]}: {100 * a:.2g} % against {100 * b:.2g} %")
        outcomes.append(a < b)
    text = "Without multipliers (Soft-BCFW) the end is farther from the optimum"
    return Claim(text, "section 5, figure 2", "; ".join(cells), verdict(outcomes))


def _linear(found):
    """The rate: the time for a further factor of 10 does not grow much."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        curve = own["curves"]["GDMM"]
        reach = [first_below(curve, level) for level in (1.0, 0.1, 0.01)]
        cells.append(f"{TITLES[name]}: " + " / ".join(map(_seconds, reach)))
        steps = reach[1] - reach[0], reach[2] - reach[1]
        outcomes.append(bool(np.isfinite(steps[1]) and steps[1] <= 10.0 * max(steps[0], 1e-3)))
        if not outcomes[-1]:
            why.append(f"{TITLES[name]}: {100 * curve[1][-1]:.2g} % after {curve[0][-1]:.2g} s; "
                       "the bound, the best of all solvers, is not tight")  # fmt: skip
    text = "Linear rate: seconds to 1 / 0.1 / 0.01 above the bound do not grow tenfold (O(1/eps))"
    return Claim(text, "abstract, theorem 1", "; ".join(cells), verdict(outcomes), "; ".join(why))


def _exponent(costs, key):
    """How costs grow with the number of labels."""
    return float(np.polyfit(np.log(costs["labels"]), np.log(costs[key]), 1)[0])


def _sublinear(costs):
    """Costs by labels."""
    own = {k: _exponent(costs, k) for k in ("GDMM", "its search", "exact search", "Viterbi")}
    cells = ", ".join(f"{k} K^{v:.2f}" for k, v in own.items())
    holds = max(own["its search"], own["GDMM"]) < 1.9
    text = "The search of pair factors is sublinear in their K^2 configurations"
    yield Claim(text, "abstract, section 3.1", cells, "yes" if holds else "no")
    ratio, K = costs["Viterbi"][-1] / costs["GDMM"][-1], costs["labels"][-1]
    cells = (
        f"{K} labels: pass {costs['GDMM'][-1]:.0f}, Viterbi {costs['Viterbi'][-1]:.0f} us a node"
    )
    text = "With thousands of labels a pass is orders of magnitude cheaper than exact oracles (10x)"
    yield Claim(text, "figure 2", cells, "yes" if ratio >= 10.0 else "no", f"{ratio:.1f} times")


def panels(found, costs):
    """Two panels a task, one of costs."""
    for name, own in found.items():
        title, y = TITLES[name], "distance above dual bound"
        yield Panel(f"{title}: objective", "CPU s", y, own["curves"], log="xy")
        measure = "accuracy, %" if name == "pos" else "micro F1, %"
        yield Panel(f"{title}: test", "CPU s", measure, own["test"], log="x")
    if costs:
        curves = {k: [costs["labels"], costs[k]] for k in ("GDMM", "its search", "exact search")}
        curves["Viterbi"] = [costs["labels"], costs["Viterbi"]]
        yield Panel("glyphs: cost of a pass", "labels", "microseconds a node", curves, log="xy")


def main(argv=None):
    """Both figures and the table."""
    args = frame.arguments(__doc__, [*TASKS, "characters"], argv)
    found, costs = {}, None
    for name in args.tasks:
        print(TITLES[name], flush=True)
        if name == "characters":
            costs = characters(args)
        else:
            found[name] = run(name, args, 1.0 if args.quick else 90.0 if args.full else 3.0)
    more = {"costs": costs, "tasks": {}}
    for name, own in found.items():
        kept = ("n", "best", "bound", "passes_a_second")
        more["tasks"][name] = {key: own[key] for key in kept}
    drawn = list(panels(found, costs))
    return frame.write("gdmm", args, PAPER, drawn, list(claims(found, costs)), 3, **more)


if __name__ == "__main__":
    main()
