"""Pillutla et al. 2018 (arXiv:1902.03228), figures 2, 3 and 5: structural SVMs by smoothing.

    python benchmarks/reproduce/casimir.py --data FOLDER [--quick | --full] [--tasks ner ...]

The paper's protocol (section 7). Named entities: CoNLL-2003, hashed features, lambda n in {0.01,
0.1, 1}, K = 5; Casimir with adaptive smoothing (nu = 2, kappa = lambda, learning rate tuned) and
with constant smoothing (nu and L tuned, kappa from L by Proposition 29), SVRG (nu and rate tuned),
SGD with gamma_0 / (1 + floor(t / t_0)), both tuned, and BCFW with the weighted average. Inner
solvers end at the mean of their iterates. They start at the prox-center, with constant smoothing on
entities at the previous iterate, as in the authors' public scripts (krishnap25/casimir); the other
start is dotted, with a rate of its own. Tuning is by factors of two, and grids whose end is chosen
are widened by a step: the smallest training objective among the settings whose validation figure is
within 1 % of the best. Localisation: kangaroos, boxes of selective search, K = 10, nu = 10,
lambda = 10 / n, CorLoc and AP. Curves are means over seeds with bands of one standard deviation.

Passes are counted as in the paper's figures: an iteration of SVRG and Casimir is two, one of BCFW
and SGD is one; objectives and certificates that are for the curve are not counted.

choices: figure 5, by the settings of these scripts, lambda = 0.01 / n.
sizes: all 14,041 sentences, lambda = 0.01 / n, one seed, tuned; with ner --full three lambdas and
ten seeds (hours). oracle: seconds of the top-K oracle by K.
ours: the curves of ``CasimirSSVM()`` as it comes. With --tasks and --out parts are replaced in the
results that lie there, and the others kept: ``--tasks ours --out benchmarks/reproduce/results``.

Without --full: 500 sentences, and the first 300 boxes.
"""

from __future__ import annotations

import json
import time
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import _paths  # noqa: F401
import frame
import numpy as np
from bench_nonlinear import channels
from bench_ssvm import entities
from figures import Panel
from frame import UNTESTED, Claim, at, held, untested
from runs import fit
from selective_search import NEEDS, proposals
from sklearn.base import clone

from skstruct import BCFWSSVM, Candidates, CasimirSSVM, SubgradientSSVM
from skstruct.datasets import load_localisation
from skstruct.inference.viterbi import viterbi, viterbi_scratch, viterbi_top_k
from skstruct.metrics import average_precision, corloc_score, iou

PAPER = "Pillutla, Roulet, Kakade, Harchaoui 2018 (arXiv:1902.03228), figures 2, 3 and 5"
LAMBDAS = 0.01, 0.1, 1.0  # lambda n of entities
OURS = "Casimir, package default (ours)"
ADAPT, CONST = "Casimir-SVRG-adapt", "Casimir-SVRG-const"
SECOND = f"{CONST}, second start"
SMOOTH, OTHERS = (ADAPT, CONST, "SVRG"), ("BCFW", "SGD")
NAMES = ADAPT, CONST, SECOND, "SVRG", *OTHERS
NUS = 1.0, 2.0, 8.0, 32.0  # of figure 5 (a)
RANKS = 2, 5, 10
STARTS = {
    "prox-center": "Prox-center",
    "extrapolation": "Extrapolation",
    "previous": "Prev-iterate",
}
# Learning rates of figure 5 (c), over the tuned one, at which warm starts are compared.
LADDER = 1.0, 2.0, 4.0, 8.0, 16.0
SIZE_RATE, SIZE_TRIALS = 0.005, 5  # of all sentences: the first rate, rates of a setting
# Words as numbers: a tie is no refutation; ours may end a tenth above.
TIE, TENTH = 1.01, 1.1
LEFT = (
    ("Outer iterations converge as stated", "theorem 16, corollaries 17, 18, table 3",
     "inner problems are solved by a pass, as in section 7, not to the accuracy (26)"),
    ("... and for lambda = 0", "corollaries 19, 20, proposition 31",
     "no experiment of the paper; CasimirSSVM has lambda > 0"),
    ("Numbers of oracle calls", "propositions 29, 30, table 4",
     "bounds with constants; of proposition 29 kappa is used"),
    ("Rates and oracles of other methods", "tables 1, 2", "overviews of the literature"),
)  # fmt: skip
SIZES = "Methods based on smoothing converge faster on all sentences, too, lambda = 0.01 / n"


_WIDEST = 4  # settings besides a rate


class Task(NamedTuple):
    """Training data, and what is measured."""

    X: object
    y: object
    options: dict  # of all estimators
    measure: object  # of a model: the test figures
    validate: object  # of a model: what settings are chosen by
    n_best: int
    nu: float  # of adaptive smoothing
    constant: tuple  # strengths of constant smoothing to choose from
    rate: float  # of adaptive smoothing, the first one to try
    periods: tuple  # t_0 / n of SGD to choose from
    passes: int
    start: str = "prox-center"  # of the inner solver, with constant smoothing


class Scale(NamedTuple):
    """How much is run."""

    seeds: int
    most: int  # trials of a rate


def scale(args):
    """By the options."""
    return Scale(2, 1) if args.quick else Scale(10 if args.full else 5, 12)


def ner(args):
    """Entities: half of 1,000 test sentences is for validation."""
    (task,) = entities(args.data, args.quick, None if args.full else 1000)
    X, y = (rows if args.full else rows[:500] for rows in (task.X, task.y))
    parts = [(task.X_test[cut], task.y_test[cut]) for cut in (slice(500), slice(500, 1000))]
    parts = parts[:1] * 2 if args.quick else parts

    def f1(part):
        X, y = part
        return lambda model: 100.0 * task.measure(y, model.predict(X))

    options = {"fit_intercept": False}
    own = {"n_best": 5, "nu": 2.0, "constant": (0.1, 1.0), "rate": 0.02}
    own |= {"periods": (3.0, 10.0, 30.0), "passes": 8 if args.quick else 100}
    return Task(X, y, options, f1(parts[0]), f1(parts[1]), start="previous", **own)


def described(image, boxes, cells):
    """The means of colours and gradients in cells x cells parts of boxes."""
    maps = channels(image)
    total = np.zeros((maps.shape[0] + 1, maps.shape[1] + 1, maps.shape[2]))
    total[1:, 1:] = maps.cumsum(axis=0).cumsum(axis=1)
    steps = np.linspace(0.0, 1.0, cells + 1)
    xs, ys = (
        np.round(boxes[:, [k]] + steps * (boxes[:, [k + 2]] - boxes[:, [k]])).astype(int)
        for k in (0, 1)
    )
    sums = np.diff(np.diff(total[ys[:, :, None], xs[:, None, :]], axis=1), axis=2)
    area = np.maximum(np.diff(ys)[:, :, None] * np.diff(xs)[:, None, :], 1)
    return (sums / area[..., None]).reshape(len(boxes), -1)


def placed(image, boxes):
    """Where boxes lie and how large they are, as shares of the image, and squares."""
    height, width = image.shape[:2]
    shares = boxes / np.array([width, height, width, height])
    sides, middle = shares[:, 2:] - shares[:, :2], 0.5 * (shares[:, :2] + shares[:, 2:])
    plain = np.column_stack([np.sqrt(sides.prod(axis=1)), sides, middle])
    return np.concatenate([plain, plain**2], axis=1)


def boxes_of(folder, most, cells, cut=slice(None)):
    """Images with one kangaroo: features of candidates, their places, boxes; and true boxes.

    Features have mean 0 on the images 0, 2, 4, ... and one scale.
    """
    data = load_localisation(folder / "localisation")
    one = [i for i, boxes in enumerate(data.boxes) if len(boxes) == 1][cut]
    images = [np.asarray(data.images[i]) for i in one]
    boxes = [proposals(image, most) for image in images]
    pairs = list(zip(images, boxes, strict=True))
    looks = [described(image, own, cells) for image, own in pairs]
    places = [placed(image, own) for image, own in pairs]
    seen = np.concatenate(looks[::2])
    mean, spread = seen.mean(axis=0), seen.std()
    looks = [(table - mean) / spread for table in looks]
    seen = np.concatenate(places[::2])
    mean, spread = seen.mean(axis=0), seen.std(axis=0)
    places = [(table - mean) / spread for table in places]
    return looks, places, boxes, [np.asarray(data.boxes[i][0], dtype=float) for i in one]


def localisation(args):
    """Boxes: every second image is for training, the others for the test."""
    most = 50 if args.quick else 1000 if args.full else 300
    cut = slice(8 if args.quick else None)
    looks, places, boxes, y = boxes_of(args.data, most, 6, cut)
    # Without a say for places the best of 300 boxes is right on a seventh of the images.
    weighted = [3.0 * place for place in places]
    tables = [np.concatenate(pair, axis=1) for pair in zip(looks, weighted, strict=True)]
    X = list(zip(tables, boxes, strict=True))
    test, true = X[1::2], np.array(y[1::2])
    ends = np.cumsum([0, *(len(boxes) for _, boxes in test)])
    table = np.concatenate([features for features, _ in test])

    def measure(model):
        scores = table @ model.node_weights_[:, 0]
        own = [scores[a:b] for a, b in pairwise(ends)]
        found = np.array([b[np.argmax(s)] for s, (_, b) in zip(own, test, strict=True)])
        surest = [s[:1] * 0.0 + s.max() for s in own]
        ap = average_precision(true[:, None], found[:, None], surest)
        return [100.0 * corloc_score(true, found), 100.0 * ap]

    options = {"graph": Candidates("box"), "loss": "iou", "fit_intercept": False}
    own = {"n_best": 10, "nu": 10.0, "constant": (0.1, 1.0), "rate": 5e-4}
    own |= {"periods": (3.0, 10.0, 30.0), "passes": 8 if args.quick else 30}
    return Task(X[::2], y[::2], options, measure, None, **own)


def models(task, lam_n):
    """A function from settings to an estimator, by method; rates are what is searched."""
    n = len(task.y)
    lam = lam_n / n
    common = {"C": 1.0 / lam_n, **task.options}
    smooth = {"max_iter": task.passes // 2, "tol": 1e-9, "inner_iterate": "average", **common}

    def adapt(rate, nu=task.nu, n_best=task.n_best, **more):
        own = {"smoothing_strength": nu, "n_best": n_best, "kappa": lam, "learning_rate": rate}
        return CasimirSSVM(**smooth, **own, **more)

    def const(rate, nu, n_best=task.n_best, start=task.start):
        # L is the inverse of what is searched. Proposition 29.
        kappa = _kappa(1.0 / rate, lam, n)
        own = {"smoothing_strength": nu, "n_best": n_best, "kappa": kappa}
        own |= {"learning_rate": 1.0 / (1.0 / rate + lam + kappa), "warm_start_strategy": start}
        return CasimirSSVM(variant="constant", **smooth, **own)

    def svrg(rate, nu, n_best=task.n_best):
        own = {"smoothing_strength": nu, "n_best": n_best, "learning_rate": rate}
        return CasimirSSVM(variant="svrg", **smooth, **own)

    def sgd(rate, period):
        own = {"schedule": "decay", "learning_rate": rate, "period": period, "averaging": False}
        return SubgradientSSVM(max_iter=task.passes, tol=0.0, **own, **common)

    def bcfw():
        own = {"steps": "frank-wolfe", "n_cached": 1, "averaging": True, "gap_every": 2}
        return BCFWSSVM(max_iter=task.passes, tol=1e-9, **own, **common)

    def ours():
        own = {"max_iter": task.passes // 2, "tol": 1e-9, "n_best": task.n_best}
        return CasimirSSVM(**own, **common)

    other = "previous" if task.start == "prox-center" else "prox-center"
    found = {ADAPT: adapt, CONST: const, SECOND: partial(const, start=other), "SVRG": svrg}
    return found | {"BCFW": bcfw, "SGD": sgd, OURS: ours}


def _kappa(steepness, lam, n):
    """Proposition 29."""
    proposed = steepness / n
    return proposed - lam if proposed > 4.0 * lam else lam


def settings(task):
    """What is searched besides a rate, by method."""
    strengths = [{"nu": nu} for nu in task.constant]
    periods = [{"period": period} for period in task.periods]
    smooth = dict.fromkeys((CONST, SECOND, "SVRG"), strengths)
    return {ADAPT: [{}], **smooth, "BCFW": [], OURS: [], "SGD": periods}


def tuned(task, make, others, rate, most):
    """The settings of the best trial: rates by factors of two, uphill from the best before.

    Of other settings the next one is searched, too, where the first or the last is chosen.
    """
    found, others = [], list(others)
    for more in others:
        values = {}

        def value(trial, more=more, values=values):
            if trial not in values:
                model = make(trial, **more).set_params(random_state=0)
                try:
                    values[trial] = float(model.fit(task.X, task.y).objective_)
                except FloatingPointError:  # too large a rate
                    values[trial] = np.inf
                score = np.nan
                if task.validate is not None and np.isfinite(values[trial]):
                    score = task.validate(model)
                found.append((values[trial], score, {"rate": trial, **more}))
            return values[trial]

        value(rate)
        for factor in (2.0, 0.5):
            while len(values) < most and value(rate * factor) < values[rate]:
                rate *= factor
        if more is others[-1]:
            others += beyond(others, _chosen(found))
    return _chosen(found) | {"trials": len(found)}


def beyond(others, best, most=_WIDEST):
    """Settings beyond the first or the last of grids, where that is the best so far."""
    found = []
    for key in others[0]:
        values = sorted({own[key] for own in others})
        for edge, near in (values[:2], values[:-3:-1]) if 1 < len(values) < most else ():
            if best[key] == edge:
                found.append({key: float(f"{edge * edge / near:.4g}")})
    return found


def _chosen(found):
    """The smallest objective of trials whose score is within 1 % of the best."""
    scores = [score for _, score, _ in found]
    enough = 0.99 * np.nanmax(scores) if np.isfinite(scores).any() else -np.inf
    good = [row for row in found if not row[1] < enough]
    return dict(min(good, key=lambda row: row[0])[2])


def over_seeds(task, model, seeds, measured=False):
    """Objective by passes with its band, and those of the test figures; None if one diverges."""
    found, figures = [], []
    # The last entry of CasimirSSVM's history is that of the best weights, not of the last.
    a_pass, drop = (2, 1) if isinstance(model, CasimirSSVM) else (1, 0)
    for seed in range(1, seeds + 1):
        own = clone(model).set_params(random_state=seed, max_iter=model.max_iter + drop)
        try:
            run = fit(own, task.X, task.y, task.measure if measured else None)
        except FloatingPointError:
            return None
        known = np.flatnonzero(np.isfinite(run.objective[: len(run.objective) - drop]))
        values = run.objective[known]
        if own.get_params().get("learning_rate") == "auto":  # ours: a fit returns the best weights
            values = np.minimum.accumulate(values)
        found.append([a_pass * (known + 1.0), values])
        if measured:
            epochs, values = (np.array(column) for column in run.measured)
            in_time = epochs < len(run.objective) - drop
            figures.append([a_pass * (epochs[in_time] + 1.0), values[in_time]])
    least = min(len(x) for x, _ in found)
    found = [[x[:least], y[:least]] for x, y in found]
    curves = [frame.over_seeds(found, marks(task.passes))]
    if measured:
        x, values = figures[0][0], np.array([own for _, own in figures])
        columns = values[..., None] if values.ndim == 2 else values
        for k in range(columns.shape[2]):
            curves.append(frame.over_seeds([[x, own] for own in columns[..., k]], points=20))
    return curves


# The parts of the results: curves by title and name, and facts.


def _ner_titles(lam_n):
    return [f"CoNLL-2003, lambda = {lam_n:g} / n: {what}" for what in ("objective", "F1")]


LOCATED = [f"Kangaroos, lambda = 10 / n: {what}" for what in ("objective", "CorLoc", "AP")]


def comparison(args, task, lam_n, titles, names, before=None):
    """Tune and run methods; curves and settings. Rates are searched from those of `before`."""
    how_much, own = scale(args), models(task, lam_n)
    curves, chosen = {title: {} for title in titles}, {}
    for name in names:
        make, others, rate = own[name], settings(task)[name], task.rate
        if before is not None:
            rate = before[name].get("rate", rate)
        elif ADAPT in chosen:
            rate = chosen[ADAPT]["rate"]
        best = tuned(task, make, others, rate, how_much.most) if others else {}
        chosen[name] = dict(best)
        best.pop("trials", None)
        found = over_seeds(task, make(**best), how_much.seeds, measured=True)
        if found is None:
            chosen[name]["diverged"] = True
            continue
        for title, curve in zip(titles, found, strict=True):
            curves[title][name] = curve
        print(f"  {titles[0]}: {name} {chosen[name]}: "
              + ", ".join(f"{y[-1]:.5g}" for _, y, _ in found), flush=True)  # fmt: skip
    return curves, chosen


def entities_part(args, names=NAMES):
    """Figure 2."""
    task, curves, chosen, own = ner(args), {}, {}, None
    for lam_n in LAMBDAS[:1] if args.quick else LAMBDAS:
        found, own = comparison(args, task, lam_n, _ner_titles(lam_n), names, own)
        curves |= found
        chosen[f"{lam_n:g}"] = own
    facts = {"n": len(task.y), "seeds": scale(args).seeds, "passes": task.passes}
    return {"curves": curves, "facts": facts | {"chosen": chosen}}


def boxes_part(args, names=NAMES):
    """Figure 3."""
    task = localisation(args)
    curves, chosen = comparison(args, task, 10.0, LOCATED, names)
    sizes = [len(boxes) for _, boxes in task.X]
    right = [iou(box, boxes).max() for box, (_, boxes) in zip(task.y, task.X, strict=True)]
    facts = {"n": len(task.y), "seeds": scale(args).seeds, "passes": task.passes}
    facts |= {"boxes": float(np.mean(sizes)), "best overlap": float(np.mean(right))}
    return {"curves": curves, "facts": facts | {"chosen": chosen}}


def ours_part(args):
    """The package's default in both figures; it has nothing to tune."""
    found = [entities_part(args, [OURS]), boxes_part(args, [OURS])]
    return {"curves": found[0]["curves"] | found[1]["curves"], "facts": {}}


def choices_part(args):
    """Figure 5, lambda = 0.01 / n."""
    task, how_much = ner(args), scale(args)
    own, seeds = models(task, LAMBDAS[0]), how_much.seeds
    adapt, const = own[ADAPT], own[CONST]
    rate = tuned(task, adapt, [{}], task.rate, how_much.most)["rate"]
    other = tuned(task, const, [{"nu": 1.0}], rate, how_much.most)["rate"]
    svrg = tuned(task, own["SVRG"], [{"nu": 1.0}], rate, how_much.most)["rate"]
    titles, curves = CHOICES, {title: {} for title in CHOICES}
    facts = {"seeds": seeds, "passes": task.passes, "n": len(task.y), "rates": [rate, other, svrg]}

    def draw(title, name, model):
        found = over_seeds(task, model, seeds)
        if found is not None:
            curves[title][name] = found[0]
        end = "diverges" if found is None else f"{found[0][1][-1]:.5g}"
        print(f"  {title}: {name}: {end}", flush=True)

    for nu in NUS[:2] if args.quick else NUS:
        draw(titles[0], f"nu = {nu:g}", const(other, nu))
        draw(titles[1], f"nu = {nu:g}", adapt(rate, nu))
    draw(titles[2], f"{CONST}, nu = 0", const(other, 0.0))
    draw(titles[2], "SVRG, nu = 0", own["SVRG"](svrg, 0.0))
    curves[titles[2]][f"{CONST}, nu = 1"] = curves[titles[0]]["nu = 1"]
    # In the authors' scripts L is here four times, and the rate half of that of the other panels.
    for start, name in STARTS.items():
        draw(titles[3], name, const(0.25 * other, 1.0, start=start))
        draw(titles[4], name, adapt(0.5 * rate, warm_start_strategy=start))
    if not args.quick:
        facts["ladder"] = ladder(task, const, other)
        facts["zero"] = float(np.mean([len(row) for row in task.y]))  # the objective of w = 0
    for k in RANKS:
        for name, make, base in (("const", const, "nu = 1"), ("adapt", adapt, "nu = 2")):
            if k == task.n_best:
                curves[titles[5]][f"{name}, K = {k}"] = curves[titles[name == "adapt"]][base]
            else:
                settings = (other, 1.0) if name == "const" else (rate,)
                draw(titles[5], f"{name}, K = {k}", make(*settings, n_best=k))
    return {"curves": curves, "facts": facts}


CHOICES = [
    "Figure 5 (a), const: strength nu", "Figure 5 (a), adapt: strength nu",
    "Figure 5 (b): without smoothing", "Figure 5 (c), const: warm start",
    "Figure 5 (c), adapt: warm start", "Figure 5 (d): labellings K",
]  # fmt: skip


def ladder(task, const, rate):
    """Where const ends at larger and larger rates, by warm start; None where it overflows."""
    found = {}
    for start, name in STARTS.items():
        last = []
        for factor in LADDER:
            model = const(factor * rate, 1.0, start=start).set_params(random_state=0)
            try:
                # The last entry is that of the best weights.
                last.append(float(model.fit(task.X, task.y).history_["objective"][-2]))
            except FloatingPointError:
                last.append(None)
        found[name] = last
        print(f"  const, {name}: {last}", flush=True)
    return found


def sizes_part(args):
    """All sentences, one seed."""
    whole = SimpleNamespace(data=args.data, quick=args.quick, full=True)
    task = ner(whole)._replace(passes=8 if args.quick else 50)
    own, rate = models(task, LAMBDAS[0]), SIZE_RATE
    rows = {"n": len(task.y), "passes": task.passes, "chosen": {}}
    for name in (*SMOOTH, *OTHERS, OURS):
        others, best = settings(task)[name], {}
        if others:
            best = tuned(task, own[name], others, rate, 1 if args.quick else SIZE_TRIALS)
            rows["chosen"][name], rate = dict(best), best["rate"]
            best.pop("trials")
        run = fit(own[name](**best).set_params(random_state=0), task.X, task.y)
        rows[name] = [float(run.least), round(float(run.seconds[-1]), 1)]
        print(f"  {name} {best}: {rows[name]}", flush=True)
    return {"curves": {}, "facts": rows}


def oracle_part(args):
    """Microseconds of the top-K oracle and of the max oracle on a long chain."""
    n, n_labels, calls = 1000, 9, 5 if args.quick else 100
    rng, facts = np.random.default_rng(0), {}
    unary, table = rng.normal(size=(calls, n, n_labels)), rng.normal(size=(1, n_labels, n_labels))
    for k in (1, *RANKS):
        labels, values = np.empty((k, n), dtype=np.int32), np.empty(k)
        work = viterbi_scratch(n, n_labels, k)
        for scores in (unary[:1], unary):  # the first call compiles
            start = time.process_time()
            for row in scores:
                if k == 1:
                    viterbi(row, table, labels[0], work)
                else:
                    viterbi_top_k(row, table, values, labels, work)
        facts[str(k)] = 1e6 * (time.process_time() - start) / calls
    print(f"  {facts}", flush=True)
    return {"curves": {}, "facts": facts}


PARTS = {"ner": entities_part, "localisation": boxes_part, "choices": choices_part,
         "sizes": sizes_part, "oracle": oracle_part, "ours": ours_part}  # fmt: skip


def marks(passes):
    """Where curves are compared: after a tenth, a quarter, a half of the passes, and all."""
    return [share * passes for share in (0.1, 0.25, 0.5, 1.0)]


# Verdicts.


def apart(curves, x):
    """The largest difference of means over the larger standard deviation of the two."""
    found = [(at(c, x), at([c[0], c[2]], x)) for c in curves]
    (low, a), (high, b) = min(found), max(found)
    return (high - low) / max(a, b, 1e-300)


def shown(values):
    return "/".join(f"{value:.3g}" for value in values)


def claims(parts):
    """What the paper says beside what was measured."""
    figures = _figures(parts)
    if figures:
        yield from (_faster(figures, rival) for rival in OTHERS)
        yield _competitive(figures)
        text = "Acceleration helps: Casimir-SVRG-const ends below SVRG, both tuned"
        yield from _beside(figures, text, CONST, "SVRG", TIE)
        text = "The package's default, untuned, ends at most a tenth above a tuned adapt"
        yield from _beside(figures, text, OURS, ADAPT, TENTH)
    if "sizes" in parts:
        yield _sizes(parts["sizes"]["facts"])
    else:
        yield Claim(f"{SIZES} (casimir.py --tasks sizes)", "§7.4, figure 2", "", UNTESTED)
    if "oracle" in parts:
        yield _oracle(parts["oracle"]["facts"])
    yield from untested(LEFT)


def _figures(parts):
    """Of each part of figures 2 and 3: titles of curves, and passes."""
    merged = merge(parts)
    found = {}
    for lam_n in LAMBDAS:
        own = [merged.get(title, {}) for title in _ner_titles(lam_n)]
        found[f"CoNLL-2003 {lam_n:g}/n"] = own
    found["kangaroos"] = [merged.get(title, {}) for title in LOCATED]
    return {k: v for k, v in found.items() if set(SMOOTH + OTHERS) & set(v[0])}


def _last(curves):
    return max(curve[0][-1] for curve in curves.values())


def _best(curves, names, x):
    return min((at(curves[k], x), k) for k in names if k in curves)


def _faster(figures, rival):
    """Figures 2 and 3: the training objective."""
    cells, why, outcomes = [], [], []
    for name, (curves, *_) in figures.items():
        pairs = [(_best(curves, SMOOTH, x), at(curves[rival], x)) for x in marks(_last(curves))]
        outcomes += [a <= TIE * b for (a, _), b in pairs]
        cells.append(
            f"{name}: {shown(a for (a, _), _ in pairs)} against {shown(b for _, b in pairs)}"
        )
        why.append(f"{name}: {pairs[-1][0][1]}")
        if SECOND in curves:
            why[-1] += f" ({SECOND}: {curves[SECOND][1][-1]:.3g})"
    text = (
        f"Methods based on smoothing converge faster in training error than {rival} (the best of "
        "the three, after 1/10, 1/4, 1/2, all passes)"
    )
    why = f"best in the end: {'; '.join(why)}"
    return Claim(text, "§7.4, figures 2 and 3", "; ".join(cells), held(outcomes), why)


def _competitive(figures):
    """Figures 2 and 3: the test figures."""
    cells, outcomes = [], []
    for name, (_, *tests) in figures.items():
        for what, test in zip(("F1",) if len(tests) == 1 else ("CorLoc", "AP"), tests, strict=True):
            ends = {k: (v[1][-1], v[2][-1]) for k, v in test.items() if k in SMOOTH + OTHERS}
            best = max(ends[k] for k in OTHERS if k in ends)
            ours = [ends[k] for k in SMOOTH if k in ends]
            outcomes += [mean >= best[0] - max(band, best[1]) for mean, band in ours]
            figures_ours = "/".join(f"{mean:.1f}" for mean, _ in ours)
            cells.append(f"{name}, {what}: {figures_ours} against {best[0]:.1f}")
    text = (
        f"... and are competitive on held-out data ({', '.join(SMOOTH)}: each at most one standard "
        "deviation below the best of BCFW and SGD, at the end)"
    )
    why = f"holds in {sum(outcomes)} of {len(outcomes)} cases"
    return Claim(text, "§7.4", "; ".join(cells), held(outcomes), why)


def _beside(figures, text, mine, other, most):
    """Ours: where two methods end, by figure."""
    pairs = {}
    for name, (curves, *_) in figures.items():
        if mine in curves and other in curves:
            pairs[name] = [curves[k][1][-1] for k in (mine, other)]
    cells = "; ".join(f"{name}: {a:.3g} against {b:.3g}" for name, (a, b) in pairs.items())
    if pairs:
        holds = held(a <= most * b for a, b in pairs.values())
        yield Claim(f"(Ours) {text}", "figures 2 and 3", cells, holds)


def _sizes(rows):
    """All sentences."""
    ends = {k: v[0] for k, v in rows.items() if isinstance(v, list)}
    least = min(v for k, v in ends.items() if k.startswith(SMOOTH))
    cells = ", ".join(f"{k} {v:.3g}" for k, v in ends.items())
    text = f"{SIZES} ({rows['n']:,}, one seed)"
    holds = held(least <= TIE * ends[rival] for rival in OTHERS)
    why = "the best of the three, tuned, against BCFW and tuned SGD"
    if "chosen" not in rows:
        why = "adapt with two rates, not tuned; SGD has the constants of the authors' scripts"
    return Claim(text, "§7.4, figure 2",
                 f"objective after {rows['passes']} passes: {cells}", holds, why)  # fmt: skip


def _oracle(facts):
    """The cost of the top-K oracle."""
    times = {k: v / facts["1"] for k, v in facts.items() if k != "1"}
    cells = ", ".join(f"K = {k}: {v:.2g}" for k, v in times.items())
    text = "The top-K oracle takes K times the time of the max oracle (here: at most)"
    return Claim(text, "§4.1.1, 7.3, table 2", f"times the max oracle: {cells}",
                 held(v <= TIE * float(k) for k, v in times.items()),
                 "random scores of 1,000 nodes and 9 labels")  # fmt: skip


def choices_claims(part):
    """Figure 5."""
    curves, facts = part["curves"], part["facts"]
    points = marks(facts["passes"])
    robust = "means within a standard deviation, after 1/10, 1/4, 1/2, all passes"
    small = [at(c, points[-1]) for c in curves[CHOICES[0]].values()]
    text = "Small strengths of smoothing are in general better for const (objective at the end)"
    yield Claim(text, "§7.5, figure 5 (a)", ends(curves[CHOICES[0]], points[-1]),
                held(a <= TIE * b for a, b in pairwise(small)))  # fmt: skip
    yield _robust(curves[CHOICES[1]], points, "adapt is robust to the strength of smoothing",
                  "§7.5, figure 5 (a)", robust, curves[CHOICES[0]])  # fmt: skip
    last = {k: at(v, points[-1]) for k, v in curves[CHOICES[2]].items()}
    smooth = last.pop(f"{CONST}, nu = 1")
    text = "(Ours) Without smoothing they end above const with nu = 1; the paper claims nothing"
    yield Claim(text, "figure 5 (b)", ends(curves[CHOICES[2]], points[-1]),
                held(v > smooth for v in last.values()))  # fmt: skip
    yield _warm(curves[CHOICES[4]], curves[CHOICES[3]], points)
    if "ladder" in facts:
        yield _stability(facts["ladder"], facts["zero"])
    yield _starts(curves, points)
    for variant in ("const", "adapt"):
        own = {k: v for k, v in curves[CHOICES[5]].items() if k.startswith(variant)}
        text = f"Results for K = 2, 5, 10 are within a standard deviation of each other ({variant})"
        yield _robust(own, points, text, "§7.5, figure 5 (d)", "after 1/10, 1/4, 1/2, all")


def ends(curves, x):
    return ", ".join(f"{k}: {at(v, x):.3g}" for k, v in curves.items())


def _robust(curves, points, text, where, how, other=None):
    """Whether curves are within one standard deviation."""
    spread = [apart(curves.values(), x) for x in points]
    ours = f"apart by {shown(spread)} deviations"
    if other is not None:
        ours += f" (const: {shown([apart(other.values(), x) for x in points])})"
    why = f"at the end {ends(curves, points[-1])}"
    return Claim(f"{text} ({how})", where, ours, held(v <= 1.0 for v in spread), why)


def _warm(adapt, const, points):
    """Whether runs work with each warm start, and how far they lie apart."""

    def works(curves):
        return [at(c, points[-1]) < 0.5 * at(c, points[-2]) for c in curves.values()]

    text = (
        "adapt is robust to the choice of the warm start while const is not (the last half of the "
        "passes halves the objective; curves of adapt are within a standard deviation)"
    )
    ours = f"adapt: with {sum(works(adapt))} of 3; const: with {sum(works(const))} of 3"
    spread = [[apart(curves.values(), x) for x in points] for curves in (adapt, const)]
    why = (
        f"at the end adapt {ends(adapt, points[-1])}; const {ends(const, points[-1])}; apart by "
        f"{shown(spread[0])} and {shown(spread[1])} deviations"
    )
    near = all(v <= 1.0 for v in spread[0])
    holds = held([all(works(adapt)), not all(works(const)), near])
    return Claim(text, "§7.5, figure 5 (c)", ours, holds, why)


def _stability(found, zero):
    """Which warm start bears which rates."""
    found = {k: [np.inf if v is None else v for v in row] for k, row in found.items()}
    a, b, c = (found[name] for name in ("Extrapolation", "Prox-center", "Prev-iterate"))
    text = (
        "For const, Extrapolation is less stable than Prox-center, and that than Prev-iterate, "
        "which always works (objective at the end, with "
        f"{'/'.join(f'{factor:g}' for factor in LADDER)} times the tuned rate)"
    )
    cells = "; ".join(f"{name}: {shown(row)}" for name, row in found.items())
    n = sum(not value < zero for value in (*a, *b))
    order = [all(x > y for x, y in zip(*pair, strict=True)) for pair in ((a, b), (b, c))]
    outcomes = [*order, all(value < zero for value in c), n > 0]
    why = f"runs of Extrapolation and Prox-center that end above w = 0, which has {zero:.3g}: {n}"
    return Claim(text, "§7.5, figure 5 (c)", cells, held(outcomes), why)


def _starts(curves, points):
    """Acceleration by warm starts, as long as they work: up to the smallest objective."""
    own = curves[CHOICES[3]]
    slow, pairs, cells = own["Prev-iterate"], [], []
    for name, curve in own.items():
        cells.append(f"{name}: {shown(at(curve, x) for x in points)}")
        until = curve[0][int(np.argmin(curve[1]))]
        if name != "Prev-iterate":
            pairs += [(at(curve, x), at(slow, x)) for x in points if x <= until]
    text = (
        "When they work, Extrapolation and Prox-center accelerate const more than Prev-iterate "
        "(after 1/10, 1/4, 1/2, all passes, up to their smallest objective)"
    )
    where = "§7.5, figure 5 (c)"
    return Claim(text, where, "; ".join(cells), held(a < b for a, b in pairs))


# Results: figures, and parts that are kept.


def merge(parts):
    """Curves of all parts, by title and name."""
    found = {}
    for part in parts.values():
        for title, curves in part["curves"].items():
            found.setdefault(title, {}).update(curves)
    return found


def panels(parts):
    """Figures 2 and 3: a row for the objective, one for the measure, one for boxes."""
    merged = merge(parts)
    titles = [[_ner_titles(lam_n)[k] for lam_n in LAMBDAS] for k in (0, 1)]
    for title in (*titles[0], *titles[1]):
        label, log = ("training objective", "y") if title in titles[0] else ("F1, %", "")
        if title in merged:
            yield Panel(title, "passes", label, merged[title], log)
    for title, top in zip(LOCATED, (0.9, None, None), strict=True):
        label = "training objective" if top else f"{title.partition(': ')[2]}, %"
        if title in merged:
            yield Panel(title, "passes", label, merged[title], "", top)


def choices_panels(part):
    """Figure 5."""
    for title in CHOICES:
        yield Panel(title, "passes", "training objective", part["curves"][title], legend=True)


def stored(parts):
    """What results say of parts: facts, where curves are, how they were made."""
    return {
        name: {**part, "curves": {title: list(own) for title, own in part["curves"].items()}}
        for name, part in parts.items()
    }


def restored(folder):
    """The parts of results that are there."""
    parts = {}
    for name in ("casimir", "casimir_choices"):
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text(encoding="utf-8"))
        drawn = {panel["title"]: panel["curves"] for panel in found["panels"]}
        for key, part in found["parts"].items():
            curves = {t: {k: drawn[t][k] for k in names} for t, names in part["curves"].items()}
            parts[key] = part | {"curves": curves}
    return parts


def write(args, parts):
    """Both files of results: those of figures 2 and 3, and those of figure 5."""
    rest = {name: part for name, part in parts.items() if name != "choices"}
    if rest:
        _write("casimir", args, rest, panels(rest), claims(rest))
    if "choices" in parts:
        part = parts["choices"]
        own = choices_panels(part), choices_claims(part)
        _write("casimir_choices", args, {"choices": part}, *own)


def _write(name, args, parts, figure, rows):
    """One file; it names the commands and commits of all of its parts."""
    made = [part["made"] for part in parts.values()]
    script = "python benchmarks/reproduce/casimir.py"
    commands = dict.fromkeys(" ".join([script, *own["options"]]) for own in made)
    more = {"command": "; ".join(commands), "parts": stored(parts)}
    more["commit"] = " ".join(dict.fromkeys(own["commit"] for own in made))
    more["cpu_seconds"] = round(sum(own["cpu_seconds"] for own in made), 1)
    frame.write(name, args, PAPER, list(figure), list(rows), columns=3, **more)


def main(argv=None):
    """The parts that are asked for, and both figures."""
    args = frame.arguments(__doc__, PARTS, argv, NEEDS)
    parts = {} if args.quick or {*args.tasks} == {*PARTS} else restored(args.out)
    for name in args.tasks:
        print(name, flush=True)
        start = time.process_time()
        part = PARTS[name](args)
        seconds = round(time.process_time() - start, 1)
        made = {k: v for k, v in frame.machine().items() if k != "versions"}
        parts[name] = part | {"made": made | {"cpu_seconds": seconds, "options": args.given}}
        write(args, {k: parts[k] for k in PARTS if k in parts})
    return parts


if __name__ == "__main__":
    main()
