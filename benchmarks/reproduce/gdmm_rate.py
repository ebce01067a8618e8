"""Yen et al. 2016, theorems 1 and 2 and what sections 3.1 and 3.2 say of GDMM's passes.

    python benchmarks/reproduce/gdmm_rate.py --data FOLDER [--quick | --full] [--tasks theorems ...]

theorems   Algorithms 2 (AFW) and 3 (BGCD) as written, on a few random chains: Delta_p + Delta_d of
           the augmented Lagrangian (12), computed to 1e-12, by passes, for steps eta of the
           multipliers. The theorems' step has a constant that cannot be computed (geometric strong
           convexity); it is put in terms of the rate with fixed multipliers, which is measured:
           eta = rho (1 - r) / 4 for a contraction by r per pass. Beside it 0.5, which no theorem
           covers.
sentences  Certified gaps on 60 sentences of the treebank (45 tags, C = 1): the BCFW version, which
           the paper runs and has no proof for, with exact and sampled search; away steps per
           factor; AFW; and (ours) BCFW on whole samples.
active     Size of A_i, the active factors of Algorithm 3, as a fraction of all factors of a sample;
           on 200 chains of characters, how many pairs the cases of the search of 3.2 look at.

By passes only: no times. A linear rate takes as many passes for each further digit, a rate of
1/eps ten times as many as for the one before. Each task is a figure and a table, ``gdmm_TASK``.
--full has 500 sentences.
"""

from __future__ import annotations

import time
from itertools import chain

import _paths  # noqa: F401
import frame
import numpy as np
from figures import Panel
from frame import Claim, first_below, held
from gdmm import label_sets
from lagrangian import lagrangian, least, point
from runs import fit
from tasks import treebank

from skstruct import BCFWSSVM, GDMMSSVM
from skstruct.core.parallel import Pieces
from skstruct.datasets import load_glyph_chains
from skstruct.estimators import svm_gdmm
from skstruct.testing import random_sequences

PAPER = "Yen, Huang, Zhong, Zhang, Ravikumar, Dhillon 2016, theorems 1 and 2, sections 3.1, 3.2"
SECONDS = 12.0
#: Of Delta_p + Delta_d over that at the start, and of certified gaps.
DIGITS = 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7
LEVELS = 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5
#: Digits of a linear rate take at most so many times the passes of the one before.
MOST = 2.0
#: What words mean: "O(1)", pairs looked at; "constant"; "much smaller", percent; "much more".
FEW, CONSTANT, SMALLER, MUCH, SIMILAR = 10.0, 1.1, 50.0, 10.0, 1.5
ALGORITHMS = {"afw": "Algorithm 2 (AFW)", "bgcd": "Algorithm 3 (BGCD)"}
SAMPLED, AWAY, JOINT = "GDMM, sampled search", "GDMM, away steps", "GDMM, AFW"
N_PARTS = 5


class _Method(Exception):
    """Carries the method that a fit was about to run."""


def method_of(model, X, y):
    """The method of a model, not yet run."""

    def stop(method, **options):
        raise _Method(method)

    run, svm_gdmm.run = svm_gdmm.run, stop
    try:
        model.fit(X, y)
    except _Method as found:
        return found.args[0]
    finally:
        svm_gdmm.run = run
    raise AssertionError("the fit has run nothing")


def passes(method, n, rng):
    """Passes of a method: the number of each after it."""
    for k in range(1, n + 1):
        method.one_pass(rng.permutation(method.n), rng.random(method.n_draws), Pieces())
        yield k


def theorems(args):
    """Delta_p + Delta_d by passes, over that of the start."""
    X, y = random_sequences(np.random.default_rng(0), n_samples=5, max_length=4)
    most = 300 if args.quick else 60_000
    top = _optimum(X, y, 30 if args.quick else 3000)
    out = {"steps": {}, "contraction": {}, "curves": {}}
    for variant, title in ALGORITHMS.items():
        fixed = _distances(variant, X, y, 0.0, most, None)
        r = out["contraction"][variant] = _contraction(fixed)
        for name, eta in (("the theorem's", (1.0 - r) / 4.0), ("0.5", 0.5)):
            curve = _distances(variant, X, y, eta, most, top)
            marks = _around(curve[1], DIGITS)
            out["curves"][f"{title}, {name}"] = frame.thin(*curve, marks=marks)
            out["steps"][f"{title}, {name}"] = eta
            print(f"  {title}, eta = {eta:.2g} ({name}): {curve[1][-1]:.2g} after "
                  f"{curve[0][-1]} passes", flush=True)  # fmt: skip
    return out


def _distances(variant, X, y, eta, most, top, marks=120):
    """Delta_p + Delta_d (22) by passes, of the optimum `top`; with eta = 0 Delta_p alone."""
    options = {"eta": eta} if eta else {"multipliers": False}
    method = method_of(GDMMSSVM("chain", variant=variant, search="exact", **options), X, y)
    form = lagrangian(method.graph, float(method.reach[0]), method.options.rho)
    kept = np.unique(np.geomspace(1, most, marks).astype(int))
    inner, nu = point(form, method.state)
    found = []
    for k in chain((0,), passes(method, most, np.random.default_rng(0))):
        if k == 0 or k in kept:
            q, nu = point(form, method.state)
            inner, best = least(form, nu, inner)
            found.append((k, form.value(q, nu), best))
            if found[-1][1] - best + (top - best if eta else 0.0) < 1e-11:
                break
    number, value, dual = np.array(found).T
    distance = (value - dual) + (top - dual if eta else 0.0)
    # Both are known to some 1e-12 of the values.
    return [number[1:].astype(int), np.maximum(distance[1:] / distance[0], 1e-11)]


def _optimum(X, y, rounds):
    """d* by the method of multipliers with exact inner solutions."""
    method = method_of(GDMMSSVM("chain", search="exact"), X, y)
    form = lagrangian(method.graph, float(method.reach[0]), method.options.rho)
    q, nu = point(form, method.state)
    best = -np.inf
    for _ in range(rounds):
        q, dual = least(form, nu, q)
        if dual - best < 1e-13:
            break
        nu, best = nu + form.M @ q, dual
    return max(best, dual)


def _contraction(curve):
    """The slowest mean contraction per pass over a tenfold of the distance, below a hundredth."""
    x, y = (np.asarray(v, float) for v in curve)
    low = [first_below(curve, level) for level in 10.0 ** -np.arange(2.0, 9.0)]
    low = [v for v in low if np.isfinite(v)]
    steps = np.diff(low)
    return (
        float(10.0 ** (-1.0 / steps.max())) if steps.size else float((y[-1] / y[0]) ** (1 / x[-1]))
    )


def sentences(args):
    """Certified gaps by passes."""
    train = treebank(args.data, 20 if args.quick else 500 if args.full else 60).train
    seconds = 0.5 if args.quick else SECONDS
    common = {"C": 1.0, "max_iter": 100_000, "tol": 1e-6, "random_state": 0, "gap_every": 10}
    models = {"GDMM": GDMMSSVM(search="exact", **common)}
    models[SAMPLED] = GDMMSSVM(search="sampled", n_partitions=N_PARTS, **common)
    models[AWAY] = GDMMSSVM(variant="away", search="exact", **common)
    models[JOINT] = GDMMSSVM(variant="afw", search="exact", **common)
    models["BCFW (ours)"] = BCFWSSVM(steps="frank-wolfe", n_cached=1, **common)
    models["BCFW, pairwise (ours)"] = BCFWSSVM(**common)
    out = {}
    for name, model in models.items():
        own = fit(model, train.X, train.y, seconds=seconds)
        known = np.isfinite(own.objective)
        bounds = np.maximum.accumulate(own.model.history_["dual_objective"][known])
        values = np.minimum.accumulate(own.objective[known])
        gaps = np.maximum(values / bounds - 1.0, 1e-9)
        marks = _around(gaps, LEVELS)
        out[name] = frame.thin(own.passes[known], gaps, marks=marks)
        print(f"  {name}: {out[name][1][-1]:.2g} after {own.passes[-1]:.0f} passes", flush=True)
    return out


def active(args):
    """Active factors of Algorithm 3 by passes, in percent of all factors."""
    train = treebank(args.data, 20 if args.quick else 60).train
    most = 10 if args.quick else 300
    method = method_of(GDMMSSVM(variant="bgcd", search="exact"), train.X, train.y)
    n = method.graph.labels.size + len(method.graph.ends)
    own = []
    for _ in passes(method, most, np.random.default_rng(0)):
        state = method.state
        first = (s.price[s.start] for s in (state.nodes, state.edges))
        own.append(100.0 * sum(float((price == 1.0).sum()) for price in first) / n)
    out = {"POS": frame.thin(np.arange(1, most + 1), own)}
    X, Y, _, options, rho = label_sets("rcv1")(args)
    X, Y = X[: 30 if args.quick else 500], Y[: 30 if args.quick else 500]
    method = method_of(GDMMSSVM(variant="bgcd", rho=rho, **options), X, Y)
    found, pairs = [], Y.shape[1] * (Y.shape[1] - 1) / 2
    steps = 10 if args.quick else 100
    for k in passes(method, steps, np.random.default_rng(0)):
        method.n_passes = k
        found.append(100.0 * method.set_sizes()[1] / pairs)
    out["RCV1 subset, pairs"] = frame.thin(np.arange(1, steps + 1), found)
    return out | {"cases": cases(args)}


def cases(args):
    """Means over edges of glyph chains: pairs that case (i) looks at in their order, and (iv)."""
    file = load_glyph_chains(args.data / "chinese_text/ocr_sim.npz")
    train = np.flatnonzero(file.train)[: 20 if args.quick else 200]
    model = GDMMSSVM(algorithm="gdmm", gap_every=0)
    method = method_of(model, file.X[train], file.y[train])
    for _ in passes(method, 5 if args.quick else 40, np.random.default_rng(0)):
        pass
    state, rng = method.state, np.random.default_rng(0)
    size, found = state.table.shape[0], []

    def keys(sets, k):
        return sets.key[sets.start[k] : sets.start[k] + sets.size[k]]

    order = np.argsort(-state.table, axis=None)
    for f in rng.permutation(len(method.graph.ends))[:300]:
        pairs, touched = keys(state.edges, f), []
        for side, own in enumerate(np.divmod(pairs, size)):
            node, port = method.graph.ends[f, side], keys(state.ports, 2 * f + side)
            touched.append(np.unique(np.concatenate([own, keys(state.nodes, node), port])))
        rows, columns = np.divmod(order, size)
        free = ~(np.isin(rows, touched[0]) | np.isin(columns, touched[1]))
        found.append([np.argmax(free) + 1.0, touched[0].size * touched[1].size])
    return {"labels": size, "pairs": np.mean(found, axis=0).tolist()}


def _around(values, levels):
    """Where levels are reached first, and the points before: between the two passes are read."""
    at = np.array([np.argmax(values <= level) for level in levels])
    return np.union1d(at, np.maximum(at - 1, 0))


def _reach(curve, level):
    """Passes to a level, on a line between two measures on a logarithmic scale."""
    x, y = (np.asarray(part, dtype=float) for part in curve[:2])
    k = int(np.argmax(y <= level))
    if not y[k] <= level:
        return np.inf
    if k == 0:
        return x[0]
    share = np.log(y[k - 1] / level) / np.log(y[k - 1] / y[k])
    return x[k - 1] + share * (x[k] - x[k - 1])


def digits(curve, levels):
    """Passes to levels, and those of each digit over those of the digit before."""
    reach = np.array([_reach(curve, level) for level in levels])
    each = np.diff(reach[np.isfinite(reach)])
    return reach, each[1:] / np.maximum(each[:-1], 1.0)


def _shown(reach):
    return "/".join(f"{v:.0f}" if np.isfinite(v) else "-" for v in reach)


# Verdicts.


def _linear(curve, levels):
    """Whether the last digits take at most twice the passes of the one before; one may lack."""
    reach, ratios = digits(curve, levels)
    return bool(np.isfinite(reach[-2]) and ratios[-2:].max() <= MOST)


def _theorems(own):
    """Linear rates with the theorems' steps."""
    for (variant, title), number in zip(ALGORITHMS.items(), (1, 2), strict=True):
        name = f"{title}, the theorem's"
        reach, ratios = digits(own["curves"][name], DIGITS)
        times = "/".join(f"{ratio:.2g}" for ratio in ratios)
        rate = own["contraction"][variant]
        why = (
            f"eta = {own['steps'][name]:.2g}, from a contraction by {rate:.4f} per pass with fixed "
        )
        why += f"multipliers; digits take {times} times the passes of the one before, 10 were "
        why += "1/eps. With other steps: " + "; ".join(
            f"{own['steps'][k]:.2g}: {_shown(digits(v, DIGITS)[0])}"
            for k, v in own["curves"].items()
            if k.startswith(title) and k != name
        )
        if not np.isfinite(reach[-1]):
            why += "; the run ends before 1e-7"
        text = f"GDMM with {title} converges linearly (passes to 0.1 ... 1e-7 of Delta_p + "
        text += "Delta_d, relative to the start)"
        mine = [v for k, v in own["curves"].items() if k.startswith(title)]
        holds = held(_linear(v, DIGITS) for v in mine)
        yield Claim(text, f"theorem {number}", _shown(reach), holds, why)


def _sentences(curves):
    """Rates of what the paper runs."""
    levels = "/".join(f"{level:g}" for level in LEVELS)
    for name in ("GDMM", AWAY):
        what = "the BCFW version" if name == "GDMM" else "away steps per factor"
        reach, ratios = digits(curves[name], LEVELS)
        times = "/".join(f"{ratio:.2g}" for ratio in ratios)
        yield Claim(f"(Ours) GDMM is linear with {what}, too (passes to a gap of {levels})",
                    "ours; §3.1 has no proof", _shown(reach),
                    held([_linear(curves[name], LEVELS)]),
                    f"digits take {times} times the passes of the one before")  # fmt: skip
    reach = {k: _reach(curves[k], 1.0) for k in ("GDMM", JOINT)}
    ends = ", ".join(f"{k}: {_shown([v])} (ends at {curves[k][1][-1]:.2g} after "
                     f"{curves[k][0][-1]:.0f})" for k, v in reach.items())  # fmt: skip
    yield Claim("The BCFW version is much more efficient than AFW (passes to a gap of 1)",
                "§3.1", ends, held([MUCH * reach["GDMM"] <= reach[JOINT]]),
                "ten times counts as much")  # fmt: skip
    pair = [digits(curves[k], LEVELS)[0] for k in ("GDMM", SAMPLED)]
    slower = pair[1] / pair[0]
    slower = slower[np.isfinite(slower)]
    yield Claim("Sampled search converges about as fast as exact search", "§3.2",
                f"{_shown(pair[1])} against {_shown(pair[0])}",
                held([slower.size and slower[-1] <= SIMILAR]),
                f"passes to {levels}; {N_PARTS} parts of 45 labels: {slower[0]:.2g} times the "
                f"passes to the first, {slower[-1]:.2g} times to the last; the theorem has "
                f"{N_PARTS} times")  # fmt: skip


def _active(curves):
    """What section 3.1 says of the size of A_i, and 3.2 of the search."""
    curves = dict(curves)
    looked = curves.pop("cases", None)
    text = "comes to a constant much smaller than the number of factors"
    for name, (x, y) in sorted(curves.items(), key=lambda item: item[0] == "POS"):
        half = y[int(np.searchsorted(x, 0.5 * x[-1]))]
        cell = f"{name}: {half:.3g} % after {x[-1] // 2:.0f} passes, "
        cell += f"{y[-1]:.3g} % after {x[-1]:.0f}"
        why = "constant: within a tenth over the second half; much smaller: half"
        binary = name != "POS"
        if not binary:
            why += ". The paper says it of many factors with binary variables, which tags are not"
        ours = f"(Ours) On chains of tags that of A_i {text}, too"
        yield Claim(f"The size of A_i {text}" if binary else ours,
                    "§3.1, large number of factors" if binary else "ours", cell,
                    held([y[-1] <= CONSTANT * half, y[-1] < SMALLER]), why)  # fmt: skip
    if looked:
        first, last = looked["pairs"]
        why = f"mean of 300 edges of characters, {looked['labels']:,} labels, after 40 passes"
        cells = f"{first:.3g} pairs in case (i), {last:.3g} in case (iv)"
        yield Claim(
            "In practice case (i) of the search, without messages, costs O(1)",
            "§3.2",
            cells,
            held([first <= FEW]),
            f"{why}; {FEW:g} count as O(1)",
        )
        yield Claim("... and the bottleneck is case (iv), of labels with two messages",
                    "§3.2", cells, held([last > first]), why)  # fmt: skip


# Results.


def panels(name, found):
    """A panel a question."""
    if name == "theorems":
        for eta in ("the theorem's", "0.5"):
            for title in ALGORITHMS.values():
                own = {
                    "Delta_p + Delta_d over that at the start": found["curves"][f"{title}, {eta}"]
                }
                yield Panel(f"{title}, eta: {eta}", "passes", "relative distance", own)
    elif name == "sentences":
        for log in ("xy", "y"):
            yield Panel("Sentences: certified gap", "passes", "relative gap", found, log)
    else:
        curves = {k: v for k, v in found.items() if k != "cases"}
        yield Panel("Algorithm 3: active factors", "passes", "percent of all", curves, "x")


TASKS = {"theorems": theorems, "sentences": sentences, "active": active}
CLAIMS = {"theorems": _theorems, "sentences": _sentences, "active": _active}


def main(argv=None):
    """Figures and tables."""
    args = frame.arguments(__doc__, TASKS, argv)
    flags = [x for x in args.given if x in ("--quick", "--full")]
    for name in args.tasks:
        print(name, flush=True)
        args.start, args.given = time.process_time(), [*flags, "--tasks", name]
        found = TASKS[name](args)
        facts = {"theorems": ("steps", "contraction"), "active": ("cases",)}.get(name, ())
        more = {k: found[k] for k in facts}
        told = list(CLAIMS[name](found))
        drawn = list(panels(name, found))
        frame.write(f"gdmm_{name}", args, PAPER, drawn, told, 2, "gdmm_rate", **more)


if __name__ == "__main__":
    main()
