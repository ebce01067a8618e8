"""Yen et al. 2016, figures 2 and 3: structural SVMs of large output domains.

    python benchmarks/reproduce/gdmm.py --data FOLDER [--quick | --full] [--tasks pos ...]

pos         part-of-speech tags (treebank, 45 labels): objective and test figure against CPU seconds
            for GDMM, GDMM without multipliers (Soft-BCFW), BCFW, and stochastic subgradients
rcv1        the same for label sets with all pairs (101 labels); bibtex: 159 labels
glyphs      simulated OCR of Chinese, thousands of labels: GDMM beside BCFW with exact Viterbi;
            objective and test accuracy are those of some hundred chains
costs       a pass and the search in it by the number of labels

C = 1. A visit of a sample by GDMM and an exact oracle call are timed beside each other on the first
ten passes. Budgets in CPU seconds a fit are ``SECONDS``; measures are not counted. Without --full:
half of the label sets, 3,000 chains of characters. Neighbours on the machine disturb CPU seconds.
"""

from __future__ import annotations

import time

import _paths  # noqa: F401
import frame
import numpy as np
from bench_large_output import _without_last_certificate
from frame import Claim, Panel, first_below, verdict
from large_bcfw import BCFW, Chains, objective
from runs import fit
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize
from tasks import treebank

from skstruct import BCFWSSVM, GDMMSSVM, MultiLabel, RaggedArray, SubgradientSSVM
from skstruct.datasets import load_glyph_chains, load_multilabel
from skstruct.inference.viterbi import viterbi, viterbi_scratch

PAPER = "Yen, Huang, Zhong, Zhang, Dhillon, Ravikumar 2016, figures 2 and 3"
TITLES = {"pos": "POS", "bibtex": "bibtex", "rcv1": "RCV1 subset", "glyphs": "glyphs"}
FILES = {"bibtex": "bibtex", "rcv1": "rcv1v2_subset1_top944"}
# A fit: those of tasks, of GDMM and of BCFW on characters.
SECONDS = {"tasks": 15.0, "GDMM": 15.0, "BCFW": 90.0}
LEVEL = 0.1  # above the best dual bound
SIZES = 125, 500, 2000, 2934
CHAINS = 3000


def pos(args):
    """Tags: data, what is measured, options."""
    task = treebank(args.data, 60 if args.quick else None)
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
        size = 60 if args.quick else int((0.8 if args.full else 0.5) * len(order))
        train, test = order[:size], order[-400:]

        def measure(model):
            found = model.predict(X[test])
            return 100.0 * f1_score(file.Y[test], found, average="micro", zero_division=0.0)

        return X[train], file.Y[train], measure, {"C": 1.0, "graph": MultiLabel("full")}, 0.1

    return read


TASKS = {"pos": pos, "bibtex": label_sets("bibtex"), "rcv1": label_sets("rcv1")}


def solvers(rho):
    """The curves of figures 2 and 3."""
    common = {"max_iter": 5000, "tol": 1e-4, "random_state": 0}
    gdmm = {"rho": rho, "gap_every": 5, **common}
    yield "GDMM", GDMMSSVM(**gdmm)
    yield "Soft-BCFW", GDMMSSVM(multipliers=False, **gdmm)
    yield "BCFW", BCFWSSVM(gap_every=5, steps="frank-wolfe", n_cached=1, **common)
    yield "BCFW, pairwise", BCFWSSVM(gap_every=5, **common)
    yield "Subgradient", SubgradientSSVM(max_iter=5000, tol=0.0, random_state=0)


def run(name, args):
    """All fits of a task."""
    X, y, measure, options, rho = TASKS[name](args)
    budget = 1.0 if args.quick else SECONDS["tasks"]
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    found, visits = {}, {}
    for label, model in solvers(rho):
        model.set_params(**options)
        if label in ("GDMM", "BCFW"):
            visits[label] = visit(clone(model), X, y)
        own = found[label] = fit(model, X, y, measure, budget)
        end = own.measures()[1][-1]
        print(f"  {label}: {own.least:.6f} {end:.1f} %, {own.seconds[-1]:.1f} s, "
              f"{own.passes[-1]:.0f} passes", flush=True)  # fmt: skip
    bound = max(getattr(v.model, "dual_objective_", -np.inf) for v in found.values())
    best = min(v.least for v in found.values())
    curves = {k: frame.thin(*v.curve("seconds", best=bound)) for k, v in found.items()}
    test = {k: frame.thin(*v.measures("seconds")) for k, v in found.items()}
    reach = {k: first_below(v.curve("passes", best=bound), LEVEL) for k, v in found.items()}
    return {"n": n, "best": best, "bound": bound, "curves": curves, "test": test,
            "passes": reach, "visits": visits, "budget": budget}  # fmt: skip


def visit(model, X, y):
    """Microseconds of a sample in the first ten passes, certificates left out."""
    model.set_params(max_iter=11, gap_every=0 if isinstance(model, GDMMSSVM) else 1000)
    return 1e6 * float(fit(model, X, y).seconds[9]) / 10 / len(y)


def glyphs(args):
    """Objective and accuracy on a sample of chains: GDMM, and BCFW with exact Viterbi."""
    file = load_glyph_chains(args.data / "chinese_text/ocr_sim.npz")
    limit = 40 if args.quick else None if args.full else CHAINS
    train, test = np.flatnonzero(file.train)[:limit], np.flatnonzero(~file.train)
    rng = np.random.default_rng(0)
    sample, test = (rng.permutation(part)[: 10 if args.quick else 100] for part in (train, test))
    X, y = file.X[train], file.y[train]
    classes, codes = np.unique(y.flat, return_inverse=True)
    chains = Chains(X.flat, codes, X.offsets, classes.size)
    chosen = np.searchsorted(train, sample)
    X_test, y_test = file.X[test], file.y[test].flat

    def accuracy(model):
        return 100.0 * float((np.concatenate(list(model.predict(X_test))) == y_test).mean())

    def measure(model):
        tables = model.node_weights_, np.asarray(model.pair_weights_).reshape(2 * (classes.size,))
        measured.append(objective(chains, *tables, 1.0, chosen))
        return accuracy(model)

    measured = []
    model = GDMMSSVM(C=1.0, max_iter=1000, gap_every=0, random_state=0)
    model = _without_last_certificate(model)
    own = fit(model, X, y, measure, 1.0 if args.quick else SECONDS["GDMM"])
    seconds, scores = own.measures("seconds")
    out = {"GDMM": [seconds, measured[-len(scores) :], scores]}
    passes = {"GDMM": float(own.passes[-1])}
    decoder = own.model

    def of_tables(W, T):
        decoder.node_weights_, decoder.pair_weights_ = W, T.reshape(1, -1)
        return objective(chains, W, T, 1.0, chosen), accuracy(decoder)

    solver = BCFW(chains, 1.0)
    budget = 1.0 if args.quick else SECONDS["BCFW"]
    marks = np.geomspace(0.01, 0.8, 8) * budget
    found = list(solver.run(budget, of_tables, marks, np.random.default_rng(0)))
    at, number, values, scores = zip(*found, strict=True)
    out["BCFW"], passes["BCFW"] = [at, values, scores], number[-1]
    pass_seconds = {k: float(v[0][-1]) / passes[k] for k, v in out.items()}
    for k, v in out.items():
        print(f"  {k}: {v[1][-1]:.4f} {v[2][-1]:.1f} %, {v[0][-1]:.1f} s, {passes[k]:.2f} passes",
              flush=True)  # fmt: skip
    return {
        "n": len(X), "labels": int(classes.size), "passes": passes, "pass_seconds": pass_seconds,
        "curves": {k: frame.thin(v[0], v[1]) for k, v in out.items()},
        "test": {k: frame.thin(v[0], v[2]) for k, v in out.items()},
    }  # fmt: skip


def characters(args):
    """Microseconds a node and pass by the number of labels: GDMM, its search, and Viterbi."""
    file = load_glyph_chains(args.data / "chinese_text/ocr_sim.npz")
    by_frequency = np.argsort(-np.bincount(file.y.flat))
    limit = 40 if args.quick else len(file.X) if args.full else 1500
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


def claims(found, costs, chars):
    """What the paper says beside what was measured; `found` by task."""
    if chars:
        yield from _glyphs(chars)
    if found:
        yield _faster(found, "BCFW", "GDMM is ten times faster than BCFW with dozens of labels")
        yield _faster(found, "Subgradient", "... and than stochastic subgradients")
        yield _rivals(found)
        yield _multipliers(found)
    if costs:
        yield from _sublinear(costs)


def _glyphs(chars):
    """Seconds to what BCFW comes to."""
    times, values = chars["curves"]["BCFW"]
    first, end = chars["pass_seconds"]["BCFW"], times[-1]
    cells, ratios = [], []
    for name, spent, level in (
        ("its first pass", first, frame.at([times, values], first)),
        (f"its {chars['passes']['BCFW']:.2g} passes", end, values[-1]),
    ):
        mine = first_below(chars["curves"]["GDMM"], level)
        cells.append(f"{name}: {mine:.2g} s against {spent:.2g}")
        ratios.append(spent / mine)
    shown = " and ".join(f"{ratio:.2g}" for ratio in ratios)
    text = "GDMM is orders of magnitude faster than BCFW (10 times; "
    text += f"{chars['labels']:,} glyphs; to "
    where = "abstract, figures 2 and 3"
    holds = verdict(ratio >= 10.0 for ratio in ratios)
    yield Claim(f"{text}objectives of BCFW)", where, "; ".join(cells), holds, f"{shown} times")
    times, scores = chars["test"]["BCFW"]
    x, own = chars["test"]["GDMM"]
    mine = first_below([x, -np.asarray(own)], -scores[-1])
    cells = f"{scores[-1]:.1f} %: {mine:.2g} s against {times[-1]:.2g}"
    holds = verdict([10.0 * mine <= times[-1]])
    yield Claim(f"{text}BCFW's test accuracy at its end)", where, cells, holds,
                f"{times[-1] / mine:.2g} times")  # fmt: skip


def _reach(curve, level):
    """Seconds to a level, or those that were not enough, and how to write them."""
    found, spent = first_below(curve, level), float(curve[0][-1])
    if np.isfinite(found):
        return found, f"{found:.2g} s"
    return spent, f"not in {spent:.3g} s"


def _faster(found, rival, text):
    """Seconds to a tenth above the bound."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        pairs = [_reach(own["curves"][k], LEVEL) for k in ("GDMM", rival)]
        cells.append(f"{TITLES[name]}: {pairs[0][1]} against {pairs[1][1]}")
        reached = np.isfinite(first_below(own["curves"]["GDMM"], LEVEL))
        outcomes.append(bool(reached and 10.0 * pairs[0][0] <= pairs[1][0]))
        if not outcomes[-1] and rival in own["visits"]:
            why.append(f"{TITLES[name]}: " + _visits(own, rival))
    text += f" (to {LEVEL:g} above the dual bound)"
    if why:
        why = [f"in brackets {rival}, GDMM without its certificates: " + "; ".join(why)]
    return Claim(text, "abstract, figures 2 and 3", "; ".join(cells), verdict(outcomes),
                 "; ".join(why))  # fmt: skip


def _visits(own, rival):
    """What a sample costs, how many passes are needed, and what both make."""
    cost, passes = ([own[key][k] for k in ("GDMM", rival)] for key in ("visits", "passes"))
    if not all(p is not None and np.isfinite(p) for p in passes):
        return f"{cost[0]:.0f} us a sample ({cost[1]:.0f}), too many passes"
    both = [1e-6 * c * p * own["n"] for c, p in zip(cost, passes, strict=True)]
    return (f"{cost[0]:.0f} us a sample ({cost[1]:.0f}), {passes[0]:.0f} passes "
            f"({passes[1]:.0f}), {both[0]:.2g} s in all ({both[1]:.2g})")  # fmt: skip


def _ends(found, names, text, where):
    """Distances of two solvers from the bound at the end."""
    cells, outcomes = [], []
    for name, own in found.items():
        a, b = (own["curves"][k][1][-1] for k in names)
        cells.append(f"{TITLES[name]}: {100 * a:.2g} % against {100 * b:.2g} %")
        outcomes.append(a < b)
    return Claim(text, where, "; ".join(cells), verdict(outcomes))


def _rivals(found):
    """Beside what the paper did not have."""
    text = "(Not in the paper) GDMM ends nearer to the bound than BCFW with pairwise steps"
    return _ends(found, ("GDMM", "BCFW, pairwise"), text, "ours")


def _multipliers(found):
    """Soft-BCFW stays off the optimum."""
    text = "Without multipliers (Soft-BCFW) the end is farther from the optimum"
    return _ends(found, ("GDMM", "Soft-BCFW"), text, "section 5, figure 2")


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
    cells = (f"{K} labels: pass {costs['GDMM'][-1]:.0f}, Viterbi {costs['Viterbi'][-1]:.0f} us a "
             f"node, {ratio:.0f} times")  # fmt: skip
    text = "With thousands of labels a pass is orders of magnitude cheaper than exact oracles (10x)"
    yield Claim(text, "figure 2", cells, "yes" if ratio >= 10.0 else "no")


def panels(found, costs, chars):
    """Two panels a task, one of costs."""
    if chars:
        title = f"{chars['labels']:,} glyphs: "
        yield Panel(f"{title}objective", "CPU s", "objective of 100 chains", chars["curves"], "xy")
        yield Panel(f"{title}test", "CPU s", "accuracy, %", chars["test"], log="x")
    for name, own in found.items():
        title, y = TITLES[name], "distance above dual bound"
        yield Panel(f"{title}: objective", "CPU s", y, own["curves"], log="xy")
        measure = "accuracy, %" if name == "pos" else "micro F1, %"
        yield Panel(f"{title}: test", "CPU s", measure, own["test"], log="x")
    if costs:
        names = {"GDMM": "GDMM", "GDMM, search alone": "its search"}
        names |= {"GDMM, exact search": "exact search", "Viterbi": "Viterbi"}
        curves = {k: [costs["labels"], costs[v]] for k, v in names.items()}
        yield Panel("glyphs: cost of a pass", "labels", "microseconds a node", curves, log="y")


def main(argv=None):
    """Both figures and the table."""
    args = frame.arguments(__doc__, [*TASKS, "glyphs", "costs"], argv)
    found, costs, chars = {}, None, None
    for name in args.tasks:
        print(TITLES.get(name, name), flush=True)
        if name in TASKS:
            found[name] = run(name, args)
        elif name == "glyphs":
            chars = glyphs(args)
        else:
            costs = characters(args)
    measured = found, costs, chars
    more = {"costs": costs, "tasks": {}}
    for name, own in (found | ({"glyphs": chars} if chars else {})).items():
        more["tasks"][name] = {k: v for k, v in own.items() if k not in ("curves", "test")}
    drawn, told = list(panels(*measured)), list(claims(*measured))
    return frame.write("gdmm", args, PAPER, drawn, told, **more)


if __name__ == "__main__":
    main()
