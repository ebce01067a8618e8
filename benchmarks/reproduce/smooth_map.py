"""Meshi, Mahdavi, Schwing 2015, figures 1 and 2: MAP inference by smooth and strong relaxations.

    python benchmarks/reproduce/smooth_map.py --data FOLDER [--quick | --full] [--tasks ...]

synthetic  figure 1: a model on which coordinate descent stays at its start; the values of gamma and
           lambda are those of the legend; and the rates of Table 1. The bias of the smoothed optima
           beside bounds 5, 9 and 11
protein    figure 2, left: the protein 1aie, 10,000 passes; some methods on 1aho, 2,000
horses     figure 2, right: unaries, pairs and a cardinality factor, lambda 0.01; which method has
           the best score on how many images

Gradient steps have the paper's length (``lipschitz="paper"``) and no restarts, labellings are
decoded by rounding, without the local search of ``solve_map``. --full: 1,000,000 passes on the
synthetic model instead of 100,000, 10,000 on each of 277 horses (17 hours) instead of 2,000 on 4.
Results of the first task are written as ``smooth_map``, those of the others as ``smooth_map_real``.
"""

from __future__ import annotations

import csv
import time
from itertools import pairwise
from unittest import mock

import _paths  # noqa: F401
import frame
import numpy as np
from figures import Panel
from frame import UNTESTED, Claim, first_below, held, untested
from map_peers import lp_value
from map_tasks import HorseModel, horses, read_model

from skstruct.map_inference import FactorGraph, Table, solve_map
from skstruct.map_inference.scoring import Incumbent

PAPER = "Meshi, Mahdavi, Schwing 2015, figures 1 and 2"
TASKS = "synthetic", "protein", "horses"
TOL = 1e-9
GAMMAS, LAMBDAS = (1.0, 0.1, 0.01), (0.01, 0.001, 0.0001)
STEPS = 1.0, 0.1, 0.01, 0.001
CD, SUBGRADIENT = "CD non-smooth", "subgradient"
OURS = "FW, lambda 0.1 (ours)"
_LEVELS = 1.0, 0.1, 0.01, 1e-3, 1e-4
# Words as numbers: "much" and "extremely" of passes, "much" of seconds, "similar", "slightly
# worse", "about the same cost", "linear"; what exponents of rates may exceed theirs by.
MUCH, MUCH_SECONDS, SIMILAR, SLIGHTLY, SAME, LINEAR, SLACK = 10.0, 2.0, 1.5, 3.0, 2.0, 1.5, 0.1
NEAR = 0.01  # of an optimum
BOTH = "gamma 0.1, lambda 0.001"
# Rates of Table 1: methods, exponents of 1 / epsilon, curves. Those of `TABLE` are not in figure 1.
RATES = (
    ("The subgradient method", 2.0, (SUBGRADIENT,)),
    ("The subgradient method with a strongly convex dual", 1.0, ("subgradient, lambda 0.001",)),
    ("Gradient steps", 1.0, ("GD L2, gamma 0.01", "GD soft, gamma 0.01")),
    ("Coordinate descent with soft-max", 1.0,
     tuple(f"CD soft, gamma {gamma:g}" for gamma in GAMMAS)),
    ("Accelerated gradients", 0.5, ("AGD L2, gamma 0.01", "AGD soft, gamma 0.01")),
    ("Frank-Wolfe", 1.0, ("FW, lambda 0.01", "FW, lambda 0.001")),
)  # fmt: skip
TABLE = {
    "subgradient, lambda 0.001": ("subgradient", {"lam": 0.001}),
    f"GD, {BOTH}": ("strong-gradient", {"gamma": 0.1, "lam": 0.001, "lipschitz": "paper"}),
    f"AGD soft, {BOTH}": ("strong-accelerated", {
        "gamma": 0.1, "lam": 0.001, "smoothing": "softmax", "lipschitz": "paper"}),
}  # fmt: skip
LEFT = (
    ("Proximal projections; coordinate descent for L2; an outer loop round the L2 dual",
     "table 1, §4.2", "cited or left open by the paper, no experiment"),
    ("SDCA can be accelerated", "§4.3", "solve_map has it; no experiment of the paper"),
    ("Runtimes", "appendix G", "not known to us; seconds are in the third panel of figure 2"),
)  # fmt: skip


def stuck_at_start(n=6, n_labels=3, density=0.4, seed=6, low=-37.5):
    """A model whose coordinate descent never leaves its start, 50 above the linear program.

    Scores of pairs are 0 or `low` at random, with a 0 in each row and column: all max-marginals are
    equal. The objective falls from 0 to -50, a range like that of the paper's figure, since gamma
    and lambda are in units of scores.
    """
    rng, tables = np.random.default_rng(seed), []
    i, j = np.triu_indices(n, 1)
    while len(tables) < i.size:
        is_free = rng.random((n_labels, n_labels)) < density
        if is_free.any(axis=0).all() and is_free.any(axis=1).all():
            tables.append(np.where(is_free, 0.0, low))
    return FactorGraph([n_labels] * n, [Table(np.stack([i, j], axis=1), np.array(tables))])


def _descent(kind, smoothing, gamma):
    """A gradient method with steps of the paper's length."""
    own = {"smoothing": smoothing, "gamma": gamma, "lipschitz": "paper"}
    if kind == "accelerated-gradient":
        own["restarts"] = False
    return kind, own


def _named(kind, **parameters):
    """The name of a curve."""
    return ", ".join([kind, *(f"{key} {value:g}" for key, value in parameters.items())])


def plain_methods(step):
    """Methods without parameters of the paper's."""
    return {
        CD: ("coordinate-descent", {"smoothing": 0.0}),
        SUBGRADIENT: ("subgradient", {"step": step}),
    }


def smooth_methods(soft, l2, others):
    """Methods of both smoothings for some gamma each, by the paper's names."""
    agd, gd = "accelerated-gradient", "gradient"
    own = {_named("CD soft", gamma=g): ("coordinate-descent", _soft(g)) for g in soft}
    own |= {_named("GD soft", gamma=g): _descent(gd, "softmax", g) for g in others["GD"]}
    own |= {_named("AGD soft", gamma=g): _descent(agd, "softmax", g) for g in others["AGD soft"]}
    own |= {_named("GD L2", gamma=g): _descent(gd, "l2", g) for g in others["GD"]}
    return own | {_named("AGD L2", gamma=g): _descent(agd, "l2", g) for g in l2}


def _soft(gamma):
    return {"smoothing": "softmax", "gamma": gamma}


def strong_methods(lambdas, gamma, lam):
    """Frank-Wolfe for some lambda, and the smooth and strongly convex methods."""
    own = {_named("FW", **{"lambda": v}): ("frank-wolfe", {"lam": v}) for v in lambdas}
    both, parameters = {"gamma": gamma, "lam": lam}, {"gamma": gamma, "lambda": lam}
    own[_named("AGD", **parameters)] = "strong-accelerated", {**both, "lipschitz": "paper"}
    return own | {_named("SDCA", **parameters): ("sdca", both)}


def run(graph, method, parameters, passes):
    """Curves of one method: the optimised objective in the dual, bound, decoded score."""
    with mock.patch.object(Incumbent, "improve", return_value=-np.inf):
        solve_map(graph, method, max_iter=2, tol=0.0, **parameters)
        start = time.process_time()
        result = solve_map(graph, method, max_iter=passes, tol=TOL, random_state=0, **parameters)
        seconds = time.process_time() - start
    history = result.history_
    objective, gap = history["shifted_objective"], history["dual_gap"]
    if method in ("frank-wolfe", "sdca"):  # theirs is the primal one
        objective = objective + gap
    if method == "subgradient":
        objective = np.fmin.accumulate(objective)
    # The history has the wall clock, the neighbours' work included.
    clock = history["seconds"] * (seconds / max(history["seconds"][-1], 1e-9))
    known = np.isfinite(objective) & (history["passes"] > 0)
    values = history["passes"], objective, history["bound"], history["score"], gap, clock
    keys = "passes", "objective", "bound", "score", "gap", "seconds"
    return {key: value[known] for key, value in zip(keys, values, strict=True)}


def run_all(graph, chosen, passes):
    """Curves of all methods."""
    found = {}
    for name, (method, parameters) in chosen.items():
        found[name] = run(graph, method, parameters, passes)
        own = found[name]
        ends = ", ".join(f"{key} {own[key][-1]:.6g}" for key in own)
        print(f"{name}: {ends}", flush=True)
    return found


def tuned_step(graph, passes=300):
    """The subgradient's step, of powers of ten: that with the lowest bound after some passes."""
    ends, left = {}, list(STEPS)
    while left:
        step = left.pop()
        ends[step] = run(graph, "subgradient", {"step": step}, passes)["bound"][-1]
        if not left and (best := min(ends, key=ends.get)) == min(ends):
            left = [0.1 * best]  # the largest is that of the theory
    return min(ends, key=ends.get)


def optimum(graph, smoothing, gamma):
    """The optimum of a smoothed dual, by line searches and restarts, without the shift."""
    own = {"smoothing": smoothing, "gamma": gamma, "max_iter": 100_000, "tol": 1e-11}
    return solve_map(graph, "accelerated-gradient", **own).history_["objective"][-1]


def strong_optimum(graph, lam, gamma=1e-3):
    """Bounds on the optimum of the strongly convex dual, by a little smoothing."""
    own = {"smoothing": "l2", "gamma": gamma, "lam": lam, "max_iter": 300_000, "tol": 1e-6}
    history = solve_map(graph, "strong-accelerated", **own).history_
    low = history["objective"][-1] - history["dual_gap"][-1]
    return low, history["shifted_objective"][-1]


def run_synthetic(args):
    """Figure 1."""
    graph = stuck_at_start()
    passes = 300 if args.quick else 1_000_000 if args.full else 100_000
    others = {"GD": [0.01], "AGD soft": [0.01]}
    step = tuned_step(graph)
    chosen = plain_methods(step) | smooth_methods(GAMMAS, GAMMAS, others)
    chosen |= strong_methods(LAMBDAS, 0.1, 0.001) | TABLE
    found = {"lp": lp_value(graph), "passes": passes, "step": step}
    found["optimum"] = {
        f"{kind}, {gamma:g}": optimum(graph, kind, gamma)
        for kind in ("softmax", "l2")
        for gamma in GAMMAS
    }
    found["strong"] = {f"{lam:g}": strong_optimum(graph, lam) for lam in LAMBDAS}
    found["sizes"] = sizes(graph)
    return found | {"curves": run_all(graph, chosen, passes)}


def sizes(graph):
    """What the bounds are made of."""
    p = graph.regions
    return {
        "q": p.kind.size,
        "log V": float(np.log(np.diff(p.scope_ptr)).sum()),
        "log W": float(np.log(p.size).sum()),
        "M": int(p.size.max()),
        "theta": float(np.abs(p.scores[np.isfinite(p.scores)]).max()),
    }


def bias_rows(found):
    """How far smoothed optima are above the linear program, and the paper's bounds on that."""
    lp, own, q = found["lp"], found["sizes"], found["sizes"]["q"]
    for gamma in GAMMAS:
        value = found["optimum"][f"softmax, {gamma:g}"] - lp
        printed, right = gamma * own["log V"], gamma * own["log W"]
        yield ("soft-max", f"gamma {gamma:g}", value, value, "(5), variables", printed)
        yield ("soft-max", f"gamma {gamma:g}", value, value, "(5), configurations", right)
    for gamma in GAMMAS:
        value = found["optimum"][f"l2, {gamma:g}"] - lp + 0.5 * gamma * q
        yield ("L2, shifted", f"gamma {gamma:g}", value, value, "after (11)", 0.5 * gamma * q)
    h = (4.0 * own["M"] * q * own["theta"]) ** 2
    for lam in LAMBDAS:
        low, high = (value - lp for value in found["strong"][f"{lam:g}"])
        yield ("strongly convex", f"lambda {lam:g}", low, high, "(9)", 0.5 * lam * h)


def write_bias(path, found):
    """The table of bias."""
    head = "Dual", "Parameter", "Optimum above the LP", "Bound", "Its value", "Within"
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head)
        for dual, parameter, low, high, place, bound in bias_rows(found):
            value = " to ".join(dict.fromkeys(f"{max(v, 0.0):.3g}" for v in (low, high)))
            holds = "yes" if high <= bound else "no" if low > bound else "not known"
            table.writerow([dual, parameter, value, place, f"{bound:.3g}", holds])


def run_protein(args):
    """Figure 2, left."""
    graph = read_model(args.data / "map_models/protein/1aie.uai.xz")
    best = solve_map(graph, time_limit=20)
    if not best.optimal:
        raise RuntimeError("the optimum of the protein was not proved in 20 s")
    passes = 100 if args.quick else 10_000
    both = 0.01, 0.001
    step = tuned_step(graph)
    chosen = plain_methods(step) | smooth_methods(both, both, {"GD": [], "AGD soft": both})
    chosen |= strong_methods([0.01], 0.01, 0.01)
    found = {"optimum": best.score, "passes": passes, "step": step}
    found["curves"] = run_all(graph, chosen, passes)
    if args.quick:
        return found
    graph, few = read_model(args.data / "map_models/1aho.cfn.gz"), passes // 5
    best = solve_map(graph, time_limit=200)
    step = tuned_step(graph)
    chosen = plain_methods(step) | smooth_methods([], [0.01], {"GD": [], "AGD soft": []})
    chosen |= strong_methods([0.01], 0.01, 0.01)
    other = {"optimum": best.score, "optimal": bool(best.optimal), "passes": few}
    return found | {"other": other | {"curves": run_all(graph, chosen, few)}}


def run_horses(args):
    """Figure 2, right."""
    learn, infer = horses(args.data)
    model = HorseModel().fit(learn)
    passes, images = (20, 1) if args.quick else (10_000, None) if args.full else (2000, 4)
    found = {"passes": passes, "step": [], "pixels": [], "images": []}
    for image in infer[:images]:
        graph = model.graph(image)
        step = tuned_step(graph, 20 if args.quick else 300)
        chosen = plain_methods(step) | {"FW, lambda 0.01": ("frank-wolfe", {"lam": 0.01})}
        own = run_all(graph, chosen, passes)
        found["step"].append(step)
        # Another lambda, which has a tenth of the passes.
        own |= run_all(graph, {OURS: ("frank-wolfe", {"lam": 0.1})}, max(passes // 10, 10))
        found["images"].append(own)
        found["pixels"].append(image.mask.size)
    return found


# Verdicts.


def above(curve, reference, key="objective"):
    """A curve above a reference."""
    return [curve["passes"], np.maximum(curve[key] - reference, 0.0)]


def passes_to(curve, reference, level, key="objective"):
    """Passes until a curve is at most that far above a reference."""
    return first_below(above(curve, reference, key), level)


def takes(slow, fast, times=1.0):
    """Whether one takes that many times the passes of the other, which is there in the end."""
    return np.isfinite(fast) and slow >= times * fast and slow > fast


def _shown(passes):
    return f"{passes:,.0f}" if np.isfinite(passes) else "not reached"


def claims_synthetic(found):
    """Section 5, the paragraph on figure 1, in its order."""
    curves, lp, own = found["curves"], found["lp"], found["optimum"]
    shift = 0.5 * found["sizes"]["q"]
    ends = {name: curve["objective"][-1] for name, curve in curves.items()}
    at = "§5, figure 1"
    first = curves[CD]["bound"][0]
    yield Claim("Coordinate descent without smoothing stays where it starts", at,
                f"starts at {first:.4g}, ends at {ends[CD]:.4g}; the optimum is {lp:.4g}",
                held([first == ends[CD] > lp]))  # fmt: skip
    yield _slow_subgradient(curves, lp, at)
    yield _smooth_descent(curves, own, ends, at)
    soft, fast = curves["GD soft, gamma 0.01"], curves["AGD soft, gamma 0.01"]
    aim = own["softmax, 0.01"]
    yield Claim("Gradient methods for soft-max end at the same optimum", at,
                f"above it: GD {soft['objective'][-1] - aim:.2g}, AGD "
                f"{fast['objective'][-1] - aim:.2g}",
                held(c["objective"][-1] - aim <= NEAR for c in (soft, fast)),
                f"after {found['passes']:,} passes; nearer than 0.01 counts")  # fmt: skip
    yield _accelerated(curves, own, shift, at)
    yield from _l2_and_soft(found, at)
    lams = {lam: ends[_named("FW", **{"lambda": lam})] - lp for lam in LAMBDAS}
    cells = ", ".join(f"{v:.3g} with lambda {k:g}" for k, v in lams.items())
    yield Claim("Frank-Wolfe needs a small lambda for high accuracy", at,
                f"dual objective above the LP: {cells}",
                held([lams[0.01] > lams[0.001] > lams[0.0001]]))  # fmt: skip
    yield _linear_bias(found, at)
    yield _similar_or_worse(ends, lp, at)
    yield _rates(curves)
    yield from _sublinear(found)
    own = found["sizes"]
    yield Claim("The bound on the bias of L2 is better than that of soft-max", "§4.2, (5)",
                f"{0.5 * own['q']:.3g} against {own['log W']:.3g}, times gamma",
                held([0.5 * own["q"] < own["log W"]]), "(5) with configurations")  # fmt: skip
    yield from untested(LEFT)


def _slow_subgradient(curves, lp, at):
    names = SUBGRADIENT, "AGD L2, gamma 0.01", "AGD soft, gamma 0.01"
    reached = {k: [passes_to(curves[k], lp, level) for level in (1.0, 0.5)] for k in names}
    cells = "; ".join(f"{k} {'/'.join(map(_shown, v))}" for k, v in reached.items())
    slow = [takes(reached[SUBGRADIENT][k], min(reached[v][k] for v in names[1:]), MUCH)
            for k in (0, 1)]  # fmt: skip
    return Claim("The subgradient method is extremely slow (ten times the passes)", at,
                 f"passes to 1 / 0.5 above the LP: {cells}", held(slow),
                 "its step is the best power of ten")  # fmt: skip


def _smooth_descent(curves, own, ends, at):
    rest = {g: ends[f"CD soft, gamma {g:g}"] - own[f"softmax, {g:g}"] for g in GAMMAS}
    cells = ", ".join(f"{v:.2g} with gamma {g:g}" for g, v in rest.items())
    return Claim("Coordinate descent with soft-max converges to the smooth optimum", at,
                 f"above it: {cells}", held(v <= NEAR for v in rest.values()),
                 f"nearer than {NEAR:g} counts")  # fmt: skip


def _accelerated(curves, own, shift, at):
    cells, outcomes = [], []
    for kind, key, more in (("soft", "softmax", 0.0), ("L2", "l2", 0.01 * shift)):
        aim = own[f"{key}, 0.01"] + more
        slow, fast = (passes_to(curves[f"{k} {kind}, gamma 0.01"], aim, 1.0) for k in ("GD", "AGD"))
        cells.append(f"{kind}: {_shown(fast)} against {_shown(slow)}")
        outcomes.append(takes(slow, fast, MUCH))
    cells = "passes to 1 above the own optimum: " + "; ".join(cells)
    return Claim("AGD is much faster than GD (ten times)", at, cells, held(outcomes))


def _l2_and_soft(found, at):
    curves, own, shift = found["curves"], found["optimum"], 0.5 * found["sizes"]["q"]
    cells, outcomes = [], []
    for kind in ("GD", "AGD"):
        for passes in (found["passes"] // 100, found["passes"]):
            both = [f"{kind} {s}, gamma 0.01" for s in ("L2", "soft")]
            pair = [frame.at([curves[k]["passes"], curves[k]["objective"]], passes) for k in both]
            cells.append(f"{kind}, {passes:,}: {pair[0]:.4g} against {pair[1]:.4g}")
            outcomes.append(pair[0] < pair[1])
    text = "Gradient methods are slightly better with L2 than with soft-max: they converge faster"
    cells = "objective with gamma 0.01, after passes: " + "; ".join(cells)
    yield Claim(text, at, cells, held(outcomes))
    pairs = {g: (own[f"l2, {g:g}"] + g * shift, own[f"softmax, {g:g}"]) for g in GAMMAS}
    cells = ", ".join(f"{a:.4g} against {b:.4g} with gamma {g:g}" for g, (a, b) in pairs.items())
    yield Claim("The optimum with L2, shifted, is tighter than that with soft-max", at, cells,
                held(a < b for a, b in pairs.values()))  # fmt: skip


def _linear_bias(found, at):
    """Whether a tenth of a parameter leaves a tenth of the bias: 5 to 20."""
    rows = [r for r in bias_rows(found) if r[4] != "(5), variables"]
    ratios = {}
    for dual, _, _, high, _, _ in rows:
        ratios.setdefault(dual, []).append(high)
    ratios = {dual: [a / b for a, b in pairwise(v)] for dual, v in ratios.items()}
    cells = "; ".join(f"{k} {' and '.join(f'{r:.3g}' for r in v)}" for k, v in ratios.items())
    return Claim("The dependence on gamma and lambda is about linear", at,
                 f"bias over that with a tenth of the parameter: {cells}",
                 held(5 <= r <= 20 for v in ratios.values() for r in v),
                 "between 5 and 20 counts")  # fmt: skip


def _similar_or_worse(ends, lp, at):
    """Methods with gamma and lambda beside those with one of them."""
    strong = ["AGD, gamma 0.1, lambda 0.001", "SDCA, gamma 0.1, lambda 0.001"]
    other = ["AGD L2, gamma 0.1", "FW, lambda 0.001"]
    cells, outcomes = [], []
    for name, beside in zip(strong, other, strict=True):
        cells.append(f"{name} {ends[name] - lp:.3g}, {beside} {ends[beside] - lp:.3g}")
        outcomes.append(1.0 / SIMILAR <= (ends[name] - lp) / (ends[beside] - lp) <= SLIGHTLY)
    text = "Smooth and strong methods are similar to or slightly worse than those with one of both"
    why = f"up to {SLIGHTLY:g} times as far above the LP counts"
    cells = "objective above the LP at the end: " + "; ".join(cells)
    return Claim(text, at, cells, held(outcomes), f"{why}; the biases add")


def digits(curve):
    """Passes at which the gap of the own objective is at most each level."""
    return [first_below([curve["passes"], curve["gap"]], level) for level in _LEVELS]


def _rates(curves):
    """Passes for each digit of the own gap."""
    cells, outcomes = [], []
    names = f"SDCA, {BOTH}", f"AGD, {BOTH}", f"GD, {BOTH}", f"AGD soft, {BOTH}", "FW, lambda 0.001"
    for name in names:
        if name not in curves:
            continue
        reached = digits(curves[name])
        cells.append(f"{name}: {'/'.join(map(_shown, reached))}")
        if not name.startswith("FW") and np.isfinite(reached[-1]):
            outcomes.append(_is_linear(*reached))
    levels = "/".join(f"{v:g}" for v in _LEVELS)
    text = "Smooth and strong methods converge linearly (the last two of four digits take at most "
    return Claim(f"{text}1.5 times the passes of the first two)", "Table 1, §4.3",
                 f"passes to an own gap of {levels}: {'; '.join(cells)}", held(outcomes),
                 "those that came so far; Frank-Wolfe has a rate of 1 / epsilon, in the paper too"
                 )  # fmt: skip


def _sublinear(found):
    """Exponents of 1 / epsilon: how passes grow over the last decades of the own distance."""
    curves, own, shift = found["curves"], found["optimum"], 0.5 * found["sizes"]["q"]
    for method, rate, names in RATES:
        told = {}
        for name in (name for name in names if name in curves):
            kind, _, gamma = name.partition(", gamma ")
            curve, aim = curves[name], found["lp"]
            if gamma:
                smooth = "l2" if kind.endswith("L2") else "softmax"
                aim = own[f"{smooth}, {gamma}"] + (float(gamma) * shift if smooth == "l2" else 0.0)
            if ", lambda" in name:
                aim = found["strong"][name.rpartition(" ")[2]][1]
            distance = np.abs(curve["objective"] - aim)
            if ", lambda" in name and np.isfinite(curve["gap"]).any():
                distance = curve["gap"]
            reach = [first_below([curve["passes"], distance], level) for level in (10.0, *_LEVELS)]
            reach = [passes for passes in reach if np.isfinite(passes)][-3:]
            if len(reach) > 1:
                told[name] = np.log10(reach[-1] / reach[0]) / (len(reach) - 1)
        if not any(name in curves for name in names):
            continue
        cells = ", ".join(f"{name}: {value:.2g}" for name, value in told.items())
        holds = held(value <= rate + SLACK for value in told.values()) if told else UNTESTED
        rest = [name for name in names if name in curves and name not in told]
        why = f"too slow to see: {', '.join(rest)}" if rest else ""
        yield Claim(f"{method}: O(1 / epsilon^{rate:g})", "table 1", cells, holds, why)


def _is_linear(first, _, middle, __, last):
    """Whether later digits take about as many passes; with 1 / epsilon they take 100 times."""
    return last - middle <= LINEAR * (middle - first)


def claims_protein(found):
    """Section 5, the paragraph on figure 2, left."""
    curves, best = found["curves"], found["optimum"]
    at = "§5, figure 2, left"
    reached = {k: passes_to(curve, best, 0.01, "bound") for k, curve in curves.items()}
    descent = [k for k in curves if k.startswith("CD")]
    others = [k for k in curves if k not in descent and k != SUBGRADIENT]
    fastest = min(others, key=reached.get)
    cells = ", ".join(f"{k} {_shown(reached[k])}" for k in [*descent, *others])
    yield Claim("Coordinate descent is better than gradient methods and Frank-Wolfe", at,
                f"passes until the plain dual is 0.01 above the optimum: {cells}",
                held(takes(reached[fastest], reached[k]) for k in descent))  # fmt: skip
    fast = "AGD L2, gamma 0.01", "AGD soft, gamma 0.01"
    cells = ", ".join(f"{k} {_shown(reached[k])}" for k in (SUBGRADIENT, *fast))
    slow = takes(reached[SUBGRADIENT], min(reached[k] for k in fast), MUCH)
    text = "The subgradient method is extremely slow on the protein, too (ten times the passes)"
    cells = f"passes until the plain dual is 0.01 above the optimum: {cells}"
    yield Claim(text, at, cells, held([slow]), "its step is the best power of ten")
    decoded = {k: best - curve["score"][-1] for k, curve in curves.items()}
    named = ["CD soft, gamma 0.001", "AGD L2, gamma 0.01", "AGD, gamma 0.01, lambda 0.01",
             "SDCA, gamma 0.01, lambda 0.01"]  # fmt: skip
    cells = ", ".join(f"{k} {decoded[k]:.2g}" for k in named)
    yield Claim("Four methods decode the optimum", at,
                f"best score below the optimum: {cells}",
                held(decoded[k] <= 1e-6 for k in named))  # fmt: skip
    text = "That is slightly better than coordinate descent without smoothing"
    why = "the linear program is tight here; the paper does not name its protein"
    cells = f"{CD}: {decoded[CD]:.2g} below the optimum"
    is_tie = abs(decoded[CD] - min(decoded[k] for k in named)) <= 1e-6
    yield Claim(text, at, cells, UNTESTED if is_tie else held([decoded[CD] > 1e-6]),
                f"a tie: {why}" if is_tie else why)  # fmt: skip
    worst, name = decoded["FW, lambda 0.01"], "FW, lambda 0.01"
    rest = curves[name]["bound"][-1] - best
    yield Claim("Frank-Wolfe without smoothing is near the optimum", at,
                f"score {worst:.2g} below, bound {rest:.2g} above", held([worst <= 5.0 * NEAR]),
                f"within {5.0 * NEAR:g} counts")  # fmt: skip
    yield _other_protein(found.get("other"), at)
    # Methods that end within few passes are mostly evaluations.
    each = {
        k: 1e3 * c["seconds"][-1] / c["passes"][-1]
        for k, c in curves.items()
        if c["passes"][-1] >= 50
    }
    kinds = {k.partition(",")[0]: each[k] for k in reversed(each)}
    cells = ", ".join(f"{kind} {kinds[kind]:.2g}" for kind in reversed(kinds))
    # The cheapest is left out: it would always hold.
    _, *dearer = sorted(kinds.values())
    why = "up to twice the cheapest counts; those with fewer than 50 passes are left out"
    yield Claim("The cost of an iteration is about the same for all methods", "§5",
                f"CPU milliseconds a pass: {cells}",
                held(v <= SAME * min(kinds.values()) for v in dearer), why)  # fmt: skip
    pair = [each[f"AGD {kind}, gamma 0.01"] for kind in ("soft", "L2")]
    is_tie = max(pair) < 1.1 * min(pair)
    why = "of a whole pass, not of single operations"
    why = f"a tie, {why}" if is_tie else f"{why}; twice counts as much"
    text = "The exponentials and logarithms of soft-max gradients are much slower than the "
    yield Claim(f"{text}operations of L2's", "§5",
                f"CPU milliseconds a pass: {pair[0]:.2g} against {pair[1]:.2g}",
                UNTESTED if is_tie else
                held([pair[0] > pair[1], pair[0] >= MUCH_SECONDS * pair[1]]), why)  # fmt: skip


def _other_protein(other, at):
    """A second protein."""
    text = "Other proteins behave alike (here: coordinate descent has the lowest bound, "
    text += "and methods with L2 smoothing decode the optimum)"
    if other is None:
        return Claim(text, at, "", UNTESTED, "of a trial run")
    rest = {k: curve["bound"][-1] - other["optimum"] for k, curve in other["curves"].items()}
    cells = ", ".join(f"{k} {v:.2g}" for k, v in rest.items())
    why = f"1aho, at most {other['passes']:,} passes"
    why += "" if other["optimal"] else "; the optimum is not proved"
    below = {k: other["optimum"] - curve["score"][-1] for k, curve in other["curves"].items()}
    decoded = [k for k, v in below.items() if v <= 1e-6]
    why += "; coordinate descent alone decodes the optimum there" if decoded == [CD] else ""
    outcomes = [rest[CD] <= min(rest.values()) + 1e-3 * NEAR]
    outcomes.append(all(k in decoded for k in below if k.startswith(("AGD L2", "AGD,", "SDCA"))))
    return Claim(text, at, f"plain dual above the optimum: {cells}", held(outcomes), why)


def claims_horses(found):
    """Section 5, the paragraph on figure 2, right."""
    images, passes = found["images"], found["passes"]
    at, n = "§5, figure 2, right", len(images)
    names = [SUBGRADIENT, CD, "FW, lambda 0.01"]
    scores = np.array([[own[k]["score"][-1] for k in names] for own in images])
    best = scores.max(axis=1)
    wins = (scores == best[:, None]).sum(axis=0)
    below = 100.0 * ((best[:, None] - scores) / np.abs(best)[:, None]).mean(axis=0)
    cells = ", ".join(f"{k} {w} ({b:.2g} % below the best)"
                      for k, w, b in zip(names, wins, below, strict=True))  # fmt: skip
    ours = np.array([own[OURS]["score"][-1] for own in images])
    rest = f"{(100.0 * (best - ours) / np.abs(best)).mean():.2g} % below the best"
    yield Claim("Frank-Wolfe has the best score on most images (237 of 278, CD 41, subgradient 0)",
                at, f"after {passes:,} passes, of {n}: {cells}",
                held([wins[2] > n / 2, wins[0] == 0]),
                f"(ours) lambda 0.1, with a tenth of the passes, is above all three on "
                f"{(ours > best).sum()} of {n} ({rest})")  # fmt: skip
    rivals = names[:2]
    cells, outcomes = [], []
    for key, word in (("score", "score"), ("bound", "bound")):
        for rival in rivals:
            share = np.median([_share(own[names[2]], own[rival], key) for own in images])
            cells.append(f"{word} of {rival}: {share:.2g}")
            outcomes += [share <= 1.0 / MUCH, share <= 1.0 / MUCH**2]
    yield Claim("Frank-Wolfe converges orders of magnitude faster", at,
                f"passes to what the others end at, over theirs (median): {', '.join(cells)}",
                held(outcomes), "a hundredth are orders, a tenth is one")  # fmt: skip
    lowest = [min(curve["bound"][-1] for curve in own.values()) for own in images]
    ends = {
        k: [own[k]["bound"][-1] - low for own, low in zip(images, lowest, strict=True)]
        for k in rivals
    }
    rest = {k: 100.0 * np.mean(np.divide(v, np.abs(lowest))) for k, v in ends.items()}
    cells = ", ".join(f"{k} {v:.2g} %" for k, v in rest.items())
    yield Claim("The subgradient is very slow, coordinate descent rather slow", at,
                f"bound above the lowest one after {passes:,} passes, mean: {cells}",
                held(v > 0.1 for v in rest.values()), "0.1 % counts")  # fmt: skip
    sides = f"{min(found['pixels']):,} to {max(found['pixels']):,}"
    yield Claim("All that on images of 150 x 150 pixels", at, "", UNTESTED,
                f"ours have {sides} pixels")  # fmt: skip


def _share(curve, rival, key):
    """Passes until a curve is as good as a rival is at its end, relative to the rival's."""
    good = curve[key] >= rival[key][-1] if key == "score" else curve[key] <= rival[key][-1]
    passes = curve["passes"][np.argmax(good)] if good.any() else np.inf
    return passes / rival["passes"][-1]


# Results.


def _drawn(curves, key, reference=None, lowest=None, x="passes"):
    """Curves of a panel; below `lowest` nothing is drawn on a logarithmic axis."""
    found = {}
    for name, own in curves.items():
        values = own[key] if reference is None else own[key] - reference
        if lowest is not None:
            values = np.maximum(values, lowest)
        found[name] = frame.thin(own[x], values)
    return found


def panels_synthetic(found):
    """Figure 1, and the bounds that the paper does not draw."""
    curves, lp = {k: v for k, v in found["curves"].items() if k not in TABLE}, found["lp"]
    passes = found["passes"]
    drawn = _drawn(curves, "objective")
    for x, y in drawn.values():  # what has ended stays
        if x[-1] < passes:
            x.append(float(passes))
            y.append(y[-1])
    drawn["LP"] = [[1.0, float(passes)], [lp, lp]]
    yield Panel("Figure 1: optimised objective", "passes", "objective", drawn, "x", 20.0)
    bounds = _drawn(curves, "bound", lp, 1e-3)
    yield Panel("(Ours) bound of the plain dual", "passes", "above the LP", bounds, "xy")


def panels_real(found):
    """Figure 2, and seconds as in appendix G."""
    if "protein" in found:
        curves, best = found["protein"]["curves"], found["protein"]["optimum"]
        shown = _drawn(curves, "objective", best, 1e-3)
        yield Panel("1aie: optimised objective", "passes", "above the optimum", shown, "xy")
        yield Panel("1aie: decoded score", "passes", "score", _drawn(curves, "score"), "x", 5.0)
    if "horses" in found:
        own = found["horses"]["images"][0]
        top = max(own[SUBGRADIENT]["objective"][0], own[CD]["objective"][0])
        shown = _drawn(own, "objective")
        yield Panel("a horse: optimised objective", "passes", "objective", shown, "x", float(top))
        best = max(curve["score"][-1] for curve in own.values())
        floor = min(curve["score"][-1] for curve in own.values()) - 0.1 * abs(best)
        for x, label in (("passes", "passes"), ("seconds", "CPU seconds")):
            shown = _drawn(own, "score", lowest=floor, x=x)
            yield Panel(f"a horse: decoded score by {label}", label, "score", shown, "x")


def main(argv=None):
    """Both figures and their tables."""
    args = frame.arguments(__doc__, TASKS, argv)
    runs = {"synthetic": run_synthetic, "protein": run_protein, "horses": run_horses}
    found = {}
    for name in args.tasks:
        print(f"\n{name}", flush=True)
        found[name] = runs[name](args)
    if "synthetic" in found:
        own = found.pop("synthetic")
        more = {key: own[key] for key in ("lp", "passes", "step", "optimum", "strong", "sizes")}
        rows = list(claims_synthetic(own))
        frame.write("smooth_map", args, PAPER, list(panels_synthetic(own)), rows, **more)
        write_bias(args.out / "smooth_map_bias.csv", own)
    if found:
        rows = list(claims_protein(found["protein"])) if "protein" in found else []
        rows += list(claims_horses(found["horses"])) if "horses" in found else []
        more = {name: {k: own[k] for k in ("passes", "step")} for name, own in found.items()}
        drawn = list(panels_real(found))
        frame.write("smooth_map_real", args, PAPER, drawn, rows, script="smooth_map", **more)


if __name__ == "__main__":
    main()
