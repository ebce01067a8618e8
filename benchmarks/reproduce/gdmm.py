"""Yen et al. 2016, figures 2 and 3: structural SVMs of large output domains.

    python benchmarks/reproduce/gdmm.py --data FOLDER [--quick | --full] [--tasks pos ...]

pos         part-of-speech tags (treebank, 45 labels): objective and test figure against CPU seconds
            for GDMM, GDMM without multipliers (Soft-BCFW), BCFW, and stochastic subgradients
rcv1        the same for label sets with all pairs (101 labels); bibtex: 159 labels
rate        500 sentences of pos: certified gaps by passes, GDMM beside BCFW
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
# A fit: those of tasks, of the rate, of GDMM and of BCFW on characters.
SECONDS = {"tasks": 15.0, "rate": 8.0, "GDMM": 15.0, "BCFW": 90.0}
LEVEL = 0.1  # above the best dual bound
RATE_LEVELS = 0.1, 0.01, 1e-3
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


def rate(args):
    """Certified gaps of GDMM and of BCFW on few sentences."""
    task = treebank(args.data, 60 if args.quick else 500)
    common = {"C": 1.0, "max_iter": 100_000, "tol": 1e-5, "random_state": 0, "gap_every": 10}
    out = {}
    for name, model in (
        ("GDMM", GDMMSSVM(**common)),
        ("BCFW", BCFWSSVM(steps="frank-wolfe", n_cached=1, **common)),
        ("BCFW, pairwise", BCFWSSVM(**common)),
    ):
        seconds = 1.0 if args.quick else SECONDS["rate"]
        own = fit(model, task.train.X, task.train.y, seconds=seconds)
        known = np.isfinite(own.objective)
        bounds = np.maximum.accumulate(own.model.history_["dual_objective"][known])
        values = np.minimum.accumulate(own.objective[known])
        out[name] = frame.thin(own.passes[known], np.maximum(values / bounds - 1.0, 1e-9))
        print(f"  {name}: {out[name][1][-1]:.2g} after {own.passes[-1]:.0f} passes", flush=True)
    return out


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


def claims(found, costs, rates, chars):
    """What the paper says beside what was measured; `found` by task."""
    if found or chars:
        text = "GDMM is orders of magnitude faster than BCFW (ten times, CPU seconds)"
        yield _faster(found, "BCFW", text, chars)
    if found:
        yield _faster(found, "Subgradient", "... and than stochastic subgradients")
        yield _rivals(found)
        yield _multipliers(found)
    if rates:
        yield _linear(rates)
    if costs:
        yield from _sublinear(costs)


def _reach(curve, level):
    """Seconds to a level, or those that were not enough, and how to write them."""
    found, spent = first_below(curve, level), float(curve[0][-1])
    if np.isfinite(found):
        return found, f"{found:.2g} s"
    return spent, f"not in {spent:.3g} s"


def _faster(found, rival, text, chars=None):
    """Seconds to a tenth above the bound; on characters to where the rival ends."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        pairs = [_reach(own["curves"][k], LEVEL) for k in ("GDMM", rival)]
        cells.append(f"{TITLES[name]}: {pairs[0][1]} against {pairs[1][1]}")
        reached = np.isfinite(first_below(own["curves"]["GDMM"], LEVEL))
        outcomes.append(bool(reached and 10.0 * pairs[0][0] <= pairs[1][0]))
        if not outcomes[-1] and rival in own["visits"]:
            why.append(f"{TITLES[name]}: " + _visits(own, rival))
    if chars:
        end, spent = chars["curves"][rival][1][-1], chars["curves"][rival][0][-1]
        mine = first_below(chars["curves"]["GDMM"], end)
        cells.append(f"glyphs, to where {rival} ends: {mine:.2g} s against {spent:.3g} s")
        outcomes.append(10.0 * mine <= spent)
    if found:
        text += f", to {LEVEL:g} above the dual bound"
    return Claim(text, "abstract, figures 2 and 3", "; ".join(cells), verdict(outcomes),
                 "; ".join(why))  # fmt: skip


def _visits(own, rival):
    """What a sample costs, and how many passes are needed."""
    cost = [f"{own['visits'][k]:.0f}" for k in ("GDMM", rival)]
    passes = [own["passes"][k] for k in ("GDMM", rival)]
    passes = [f"{p:.0f}" if np.isfinite(p) else "too many" for p in passes]
    return (f"a sample takes {cost[0]} us against {cost[1]} with its exact oracle call, and "
            f"{LEVEL:g} takes {passes[0]} passes against {passes[1]}")  # fmt: skip


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
    return _ends(found, ("GDMM", "BCFW, pairwise"), text, "-")


def _multipliers(found):
    """Soft-BCFW stays off the optimum."""
    text = "Without multipliers (Soft-BCFW) the end is farther from the optimum"
    return _ends(found, ("GDMM", "Soft-BCFW"), text, "section 5, figure 2")


def _linear(rates):
    """Passes for each further digit: equal for a linear rate, ten times more for O(1/eps)."""
    cells, ratios = [], {}
    for name, curve in rates.items():
        reach = [first_below(curve, level) for level in RATE_LEVELS]
        steps = reach[1] - reach[0], reach[2] - reach[1]
        ratios[name] = steps[1] / steps[0] if np.isfinite(reach[1]) and steps[0] > 0 else np.nan
        shown = " / ".join(f"{v:.0f}" if np.isfinite(v) else "not reached" for v in reach)
        last = "" if np.isfinite(reach[-1]) else f" ({curve[1][-1]:.1g} after {curve[0][-1]:.0f})"
        cells.append(f"{name} {shown}{last}")
    levels = " / ".join(f"{level:g}" for level in RATE_LEVELS)
    text = f"Linear rate: a further digit takes about as many passes (gaps of {levels})"
    ratio = ratios["GDMM"]
    shown = f"{ratio:.1f} times" if np.isfinite(ratio) else "too many"
    why = f"the last digit takes GDMM {shown} the passes of the one before; O(1/eps) means 10 times"
    return Claim(text, "abstract, theorem 1", "passes: " + ", ".join(cells),
                 "yes" if ratio <= 3.0 else "no", why)  # fmt: skip


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


def panels(found, costs, rates, chars):
    """Two panels a task, one of costs, one of rates."""
    for name, own in found.items():
        title, y = TITLES[name], "distance above dual bound"
        yield Panel(f"{title}: objective", "CPU s", y, own["curves"], log="xy")
        measure = "accuracy, %" if name == "pos" else "micro F1, %"
        yield Panel(f"{title}: test", "CPU s", measure, own["test"], log="x")
    if chars:
        title = f"{chars['labels']} glyphs: "
        yield Panel(f"{title}objective", "CPU s", "objective of 100 chains", chars["curves"], "xy")
        yield Panel(f"{title}test", "CPU s", "accuracy, %", chars["test"], log="x")
    if costs:
        curves = {k: [costs["labels"], costs[k]] for k in ("GDMM", "its search", "exact search")}
        curves["GDMM, exact search"] = curves.pop("exact search")
        curves["GDMM, search alone"] = curves.pop("its search")
        curves["Viterbi"] = [costs["labels"], costs["Viterbi"]]
        yield Panel("glyphs: cost of a pass", "labels", "microseconds a node", curves, log="xy")
    if rates:
        yield Panel("POS, 500 sentences", "passes", "certified relative gap", rates, log="xy")


def main(argv=None):
    """Both figures and the table."""
    args = frame.arguments(__doc__, [*TASKS, "rate", "glyphs", "costs"], argv)
    found, others = {}, dict.fromkeys(("costs", "rate", "glyphs"))
    for name in args.tasks:
        print(TITLES.get(name, name), flush=True)
        if name in TASKS:
            found[name] = run(name, args)
        else:
            others[name] = {"costs": characters, "rate": rate, "glyphs": glyphs}[name](args)
    measured = found, others["costs"], others["rate"], others["glyphs"]
    drawn = list(panels(*measured))
    more = {"costs": others["costs"], "tasks": {}}
    for name, own in (found | {"glyphs": others["glyphs"] or {}}).items():
        more["tasks"][name] = {k: v for k, v in own.items() if k not in ("curves", "test")}
    return frame.write("gdmm", args, PAPER, drawn, list(claims(*measured)), **more)


if __name__ == "__main__":
    main()
