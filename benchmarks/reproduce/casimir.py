"""Pillutla et al. 2018, figures 2, 3 and 5: structural SVMs by smoothing and acceleration.

    python benchmarks/reproduce/casimir.py --data FOLDER [--quick | --full] [--tasks ner ...]

Named entities (CoNLL-2003, hashed features) and localisation (kangaroos, candidate boxes, IoU),
lambda = 1 / n: objective and test figure against passes (oracle calls over n) for Casimir-SVRG with
adaptive and constant smoothing, SVRG, BCFW with Frank-Wolfe steps, and SGD; then Casimir for other
strengths of smoothing, warm starts and K: the worst distance over the best among the values of
each, by passes. The optimum is the smallest objective of any run, BCFW with pairwise steps among
them, distances from it are shares of that of w = 0. Learning rates are the estimator's own, or
("tuned") the best of a grid after an eighth of the passes. Without --full: 500 sentences, a third
of the images.

sizes: Casimir, BCFW and SGD on 500 to all 14,041 sentences, and with other lambdas on 500 and, as
in the paper 0.01 / n, on all.
"""

from __future__ import annotations

import _paths  # noqa: F401
import frame
import numpy as np
from bench_nonlinear import candidates
from bench_ssvm import entities
from frame import Claim, Panel, at, verdict
from runs import fit
from sklearn.base import clone

from skstruct import BCFWSSVM, Candidates, CasimirSSVM, SubgradientSSVM
from skstruct.datasets import load_localisation
from skstruct.metrics import iou

PAPER = "Pillutla, Roulet, Kakade, Harchaoui 2018, figures 2, 3 and 5"
TITLES = {"ner": "CoNLL-2003", "localisation": "Localisation"}
# The paper's strengths of smoothing: 2 for entities, 10 for boxes, whose scores are larger there.
STRENGTHS = {"ner": (0.2, 2.0, 20.0), "localisation": (0.02, 0.2, 2.0)}
WARM = "prox-center", "extrapolation", "previous"
RANKS = 2, 5, 10, 20
# Sentences and lambda n, to see what they change; the passes of each.
SIZES = (500, 1.0), (2000, 1.0), (8000, 1.0), (None, 1.0)
LAMBDAS = (500, 0.01), (500, 0.1), (500, 10.0), (500, 100.0), (None, 0.01)
SIZE_PASSES = 50
SHARES = 0.25, 0.5, 1.0  # of all passes, where robustness is read
RATES = 1e-3, 4e-3, 1.6e-2, 6.4e-2, 0.256
PASSES = {"ner": 100, "localisation": 50}
GROUPS = {
    "nu, adaptive": "adaptive, nu = ",
    "nu, constant": "constant, nu = ",
    "warm start": "warm start: ",
    "K": "K = ",
}


def ner(args):
    """Entities: training and test parts, what is measured, options of all solvers."""
    (task,) = entities(args.data, args.quick, None if args.full else 500)
    test = task.X_test[:500], task.y_test[:500]

    def measure(model):
        return 100.0 * task.measure(test[1], model.predict(test[0]))

    return task.X, task.y, measure, {"C": 1.0, "fit_intercept": False}


def localisation(args):
    """Boxes: one kangaroo an image, every second image for training."""
    data = load_localisation(args.data / "localisation")
    one = [i for i, boxes in enumerate(data.boxes) if len(boxes) == 1]
    one = one[:20] if args.quick else one if args.full else one[::3]
    X = [candidates(data.images[i]) for i in one]
    y = [data.boxes[i][0] for i in one]
    tables = np.concatenate([table for table, _ in X[::2]])
    mean, scale = tables.mean(axis=0), tables.std()
    X = [((table - mean) / scale, boxes) for table, boxes in X]

    def measure(model):
        return 100.0 * float(iou(y[1::2], model.predict(X[1::2])).mean())

    options = {"graph": Candidates("box"), "loss": "iou", "C": 1.0, "fit_intercept": False}
    return X[::2], y[::2], measure, options


TASKS = {"ner": ner, "localisation": localisation}


def solvers(name, passes):
    """The curves of figures 2 and 3."""
    half, strength = passes // 2, STRENGTHS[name][1]
    common = {"tol": 1e-9, "random_state": 0}
    casimir = {"max_iter": half, "smoothing_strength": strength, **common}
    yield "Casimir, adaptive", CasimirSSVM(**casimir)
    yield "Casimir, constant", CasimirSSVM(variant="constant", **casimir)
    yield "SVRG", CasimirSSVM(variant="svrg", **casimir)
    for variant in ("adaptive", "constant"):
        yield f"Casimir, {variant}, tuned", CasimirSSVM(variant=variant, **casimir)
    plain = {"steps": "frank-wolfe", "n_cached": 1, "gap_every": 2, **common}
    yield "BCFW", BCFWSSVM(max_iter=passes, averaging=True, **plain)
    yield "BCFW, pairwise", BCFWSSVM(max_iter=3 * passes, gap_every=2, **common)
    sgd = {"max_iter": passes, "tol": 0.0, "random_state": 0}
    yield "SGD, averaged", SubgradientSSVM(**sgd)


def variants(name, passes):
    """The curves of figure 5."""
    strengths = STRENGTHS[name]
    common = {"max_iter": passes // 2, "tol": 1e-9, "random_state": 0}
    for variant in ("adaptive", "constant"):
        for strength in strengths:
            own = {"variant": variant, "smoothing_strength": strength, **common}
            yield f"{variant}, nu = {strength:g}", CasimirSSVM(**own)
    common["smoothing_strength"] = strengths[1]
    for start in WARM[1:]:
        yield f"warm start: {start}", CasimirSSVM(warm_start_strategy=start, **common)
    for k in RANKS:
        if k != 5:
            yield f"K = {k}", CasimirSSVM(n_best=k, **common)


def run(name, args, passes):
    """All fits of a task."""
    X, y, measure, options = TASKS[name](args)
    found, rates = {}, {}
    for part, models in (("solvers", solvers), ("variants", variants)):
        found[part] = {}
        for label, model in models(name, passes):
            of_all = measure if part == "solvers" else None
            model.set_params(**options)
            if "tuned" in label:
                rates[label] = tuned(model, X, y, max(passes // 8, 2)).learning_rate
            own = fit(model, X, y, of_all)
            found[part][label] = own
            end = f"{own.measures()[1][-1]:.1f}" if of_all else ""
            print(f"  {label}: {own.least:.6f} {end}, {own.seconds[-1]:.1f} s", flush=True)
    runs = [own for part in found.values() for own in part.values()]
    best = min(own.least for own in runs)
    bound = max(getattr(own.model, "dual_objective_", -np.inf) for own in runs)
    result = {"best": best, "bound": bound, "n": len(y), "rates": rates, "passes": passes}
    for part, own in found.items():
        # Of the distance at w = 0, where the hinge is the largest loss.
        start = best / (np.mean([len(row) for row in y]) - best if name == "ner" else 1.0 - best)
        result[part] = {
            k: frame.thin(x, start * distance)
            for k, (x, distance) in ((k, v.curve(best=best)) for k, v in own.items())
        }
    result["test"] = {k: frame.thin(*v.measures()) for k, v in found["solvers"].items()}
    result["solvers"]["BCFW, pairwise"] = _until(result["solvers"]["BCFW, pairwise"], passes)
    result["test"]["BCFW, pairwise"] = _until(result["test"]["BCFW, pairwise"], passes)
    result["spread"] = {group: spread(result, name, group) for group in GROUPS}
    result["exact_share"] = {
        k: float(v.model.exact_share_) for k, v in found["variants"].items() if "nu" in k
    }
    return result


def spread(own, name, group):
    """The worst distance over the best among the values of an option, by passes."""
    curves = _group(own, name, group).values()
    marks = np.arange(4, own["passes"] + 1, 2)
    table = np.array([[at(curve, x) for x in marks] for curve in curves])
    return [marks.tolist(), (table.max(axis=0) / table.min(axis=0)).tolist()]


def _group(own, name, group):
    """Curves of the values of an option, the default's among them."""
    begin, curves = GROUPS[group], own["variants"]
    found = {k.removeprefix(begin): v for k, v in curves.items() if k.startswith(begin)}
    return found if group.startswith("nu") else {"default": curves[_default(name)], **found}


def sizes(args):
    """Objectives over that of BCFW by the number of sentences and by lambda."""
    models = {
        "Casimir": CasimirSSVM(max_iter=SIZE_PASSES // 2, smoothing_strength=STRENGTHS["ner"][1]),
        "BCFW": BCFWSSVM(
            max_iter=SIZE_PASSES, steps="frank-wolfe", n_cached=1, averaging=True, gap_every=10
        ),
        "SGD": SubgradientSSVM(max_iter=SIZE_PASSES),
    }
    rows = []
    tasks = {}
    for limit, strength in (*SIZES, *LAMBDAS):
        if limit not in tasks:
            (tasks[limit],) = entities(args.data, args.quick, limit)
        task = tasks[limit]
        options = {"C": 1.0 / strength, "fit_intercept": False, "random_state": 0}
        row = {"n": len(task.y), "lambda n": strength, "limit": limit}
        for label, model in models.items():
            model.set_params(tol=0.0 if label == "SGD" else 1e-9, **options)
            own = fit(model, task.X, task.y)
            row[label] = at(own.curve(), SIZE_PASSES)
            if label == "Casimir":
                row["kappa n"] = float(model.kappa_ * len(task.y))
                row["nu"] = float(model.smoothing_strength_)
            row[f"{label}, s"] = round(float(own.seconds[-1]), 2)
        rows.append(row)
        print("  " + ", ".join(f"{k} {v}" for k, v in row.items()), flush=True)
        if args.quick and len(rows) == 2:
            break
    return rows


def tuned(model, X, y, max_iter):
    """The model with the learning rate of smallest objective after some iterations, as in 7.1."""
    found = {}
    for rate in RATES:
        trial = clone(model).set_params(learning_rate=rate, max_iter=max_iter)
        try:
            found[rate] = float(trial.fit(X, y).objective_)
        except FloatingPointError:  # too large a rate
            found[rate] = np.inf
    return model.set_params(learning_rate=min(found, key=found.get))


def _until(curve, passes):
    """The part of a curve that the figure has room for."""
    n = int(np.searchsorted(curve[0], 1.05 * passes))
    return [column[:n] for column in curve]


def claims(found, rows=()):
    """What the paper says beside what was measured; `found` by task, `rows` of sizes."""
    if found:
        yield _competitive(found)
        yield _early(found)
        yield _acceleration(found)
        text = "Adaptive smoothing hardly depends on its first strength nu"
        yield _spread(found, text, "nu, adaptive", 2.0)
        yield _sensitive(found)
        yield _spread(found, "Where the inner solver starts matters little", "warm start", 1.5)
        yield _spread(found, "K matters little", "K", 1.5)
    if rows:
        yield from _sizes(rows)


def _percent(value):
    """A distance from the optimum."""
    return f"{_round(100 * value):,g} %"


def _round(value):
    """Two digits."""
    return float(f"{value:.2g}")


def _competitive(found):
    """Against BCFW and SGD at the end."""
    cells, outcomes = [], []
    for name, own in found.items():
        ends = {k: at(v, own["passes"]) for k, v in own["solvers"].items() if k != "SVRG"}
        ours = {k: v for k, v in ends.items() if k.startswith("Casimir")}
        plain, best = ours["Casimir, adaptive"], min(ours.values())
        cells.append(f"{TITLES[name]}: Casimir {_percent(plain)} (best variant {_percent(best)}), "
                     f"BCFW {_percent(ends['BCFW'])}, SGD {_percent(ends['SGD, averaged'])}"
                     )  # fmt: skip
        outcomes.append(best <= 1.1 * min(ends["BCFW"], ends["SGD, averaged"]))
    passes = " and ".join(f"{own['passes']}" for own in found.values())
    text = "Casimir-SVRG is as near to the optimum as BCFW and SGD, or nearer (distances after "
    text += f"{passes} passes, of that of w = 0)"
    why = "" if all(outcomes) else "see the rows on samples and on lambda"
    return Claim(text, "abstract, figures 2 and 3", "; ".join(cells), verdict(outcomes), why)


def _sizes(rows):
    """What samples and lambda change."""
    if all(row["limit"] is None or row["lambda n"] == 1.0 for row in rows):
        return
    own = [row for row in rows if row["lambda n"] == 1.0]
    cells = ", ".join(f"{row['n']:,}: {row['Casimir'] / row['BCFW']:.2g}" for row in own)
    text = "(Ours) BCFW's lead does not come from few samples (objective over BCFW's, by sentences"
    ratios = [row["Casimir"] / row["BCFW"] for row in own]
    yield Claim(f"{text}, {SIZE_PASSES} passes)", "ours", cells,
                "yes" if ratios[-1] >= 0.8 * ratios[0] else "no")  # fmt: skip
    own = sorted((row for row in rows if row["limit"] == 500), key=lambda row: row["lambda n"])
    cells = ", ".join(f"{row['lambda n']:g} / n: {row['Casimir'] / row['BCFW']:.2g}" for row in own)
    ratios = [row["Casimir"] / row["BCFW"] for row in own]
    text = "(Ours) It comes from a small lambda (objective over BCFW's, by lambda, 500 sentences)"
    holds = "yes" if ratios[-1] < 0.5 * max(ratios) else "no"
    yield Claim(text, "ours", cells, holds, _schedule(own))
    (row,) = (row for row in rows if row["limit"] is None and row["lambda n"] != 1.0)
    cells = ", ".join(f"{k} {row[k]:.3g}" for k in ("Casimir", "BCFW", "SGD"))
    text = f"All {row['n']:,} sentences, lambda = {row['lambda n']:g} / n: Casimir is ahead of both"
    holds = row["Casimir"] <= min(row["BCFW"], row["SGD"])
    why = "" if holds else f"{_schedule([row])}; learning rates are the estimator's own, not tuned"
    yield Claim(text, "figure 2", f"objectives after {SIZE_PASSES} passes: {cells}",
                "yes" if holds else "no", why)  # fmt: skip


def _schedule(rows):
    """What the accelerated method came to."""
    kappa = ", ".join(f"{_round(row['kappa n'] / row['lambda n']):,g}" for row in rows)
    nu = ", ".join(f"{row['nu']:.2g}" for row in rows)
    return f"kappa ends at {kappa} lambda; nu, which adds at most nu / 2 to the objective, at {nu}"


def _early(found):
    """After ten passes."""
    cells, outcomes = [], []
    for name, own in found.items():
        a, b = (at(own["solvers"][k], 10) for k in ("Casimir, adaptive", "SGD, averaged"))
        cells.append(f"{TITLES[name]}: {_percent(a)} against {_percent(b)}")
        outcomes.append(a <= b)
    text = "Smooth methods lead SGD from the first passes on (after 10)"
    return Claim(text, "figures 2 and 3", "; ".join(cells), verdict(outcomes))


def _acceleration(found):
    """Catalyst beside plain SVRG on the same constant smoothing."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        a, b = (at(own["solvers"][k], own["passes"]) for k in ("Casimir, constant", "SVRG"))
        cells.append(f"{TITLES[name]}: {_percent(a)} against {_percent(b)}")
        outcomes.append(a <= b)
        if not outcomes[-1]:
            tuned = at(own["solvers"]["Casimir, constant, tuned"], own["passes"])
            why.append(f"{TITLES[name]}: {_percent(tuned)} with a tuned rate")
    text = "Acceleration helps: Casimir with constant smoothing is ahead of SVRG with the same"
    return Claim(text, "section 7, figures 2 and 3", "; ".join(cells), verdict(outcomes),
                 "; ".join(why))  # fmt: skip


def _marks(own, group):
    """Worst over best at shares of the passes."""
    return [at(own["spread"][group], share * own["passes"]) for share in SHARES]


def _shown(values):
    return " / ".join(f"{value:.2g}" for value in values)


def _spread(found, text, group, factor):
    """How far the values of an option lie apart."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        values = _marks(own, group)
        cells.append(f"{TITLES[name]}: {_shown(values)}")
        outcomes.append(max(values) <= factor)
        if not outcomes[-1]:
            ends = {k: at(v, own["passes"]) for k, v in _group(own, name, group).items()}
            ends = sorted(ends.items(), key=lambda pair: pair[1])
            (good, a), (bad, b) = ends[0], ends[-1]
            why.append(f"{TITLES[name]}: best {good} ({_percent(a)}), worst {bad} ({_percent(b)})")
    text += f" (worst distance over best at most {factor:g}, after 1/4, 1/2, all passes)"
    return Claim(text, "figure 5", "; ".join(cells), verdict(outcomes), "; ".join(why))


def _sensitive(found):
    """Constant smoothing."""
    cells, outcomes = [], []
    for name, own in found.items():
        constant, adaptive = (_marks(own, f"nu, {v}") for v in ("constant", "adaptive"))
        cells.append(f"{TITLES[name]}: {_shown(constant)} against {_shown(adaptive)}")
        outcomes.append(constant[-1] > 1.1 * adaptive[-1])
    text = "Constant smoothing depends on nu more than adaptive smoothing (the last ratios)"
    return Claim(text, "figure 5", "; ".join(cells), verdict(outcomes))


def _default(name):
    """The variant with prox-center and K = 5."""
    return f"adaptive, nu = {STRENGTHS[name][1]:g}"


def panels(found, rows=()):
    """Three panels a task, one of sizes."""
    for name, own in found.items():
        title, y = TITLES[name], "distance, w = 0 has 1"
        yield Panel(f"{title}: objective", "passes", y, own["solvers"])
        measure = "F1 of chunks, %" if name == "ner" else "mean overlap, %"
        yield Panel(f"{title}: test", "passes", measure, own["test"], log="")
        y = "worst distance over best"
        yield Panel(f"{title}: robustness", "passes", y, own["spread"])
    if rows:
        own = [row for row in rows if row["limit"] == 500]
        own.sort(key=lambda row: row["lambda n"])
        x = [row["lambda n"] for row in own]
        names = {"Casimir": "Casimir, adaptive", "SGD": "SGD, averaged", "BCFW": "BCFW"}
        curves = {v: [x, [row[k] for row in own]] for k, v in names.items()}
        yield Panel(f"500 sentences, {SIZE_PASSES} passes", "lambda n", "objective", curves, "xy")


def main(argv=None):
    """All figures and the table."""
    args = frame.arguments(__doc__, [*TASKS, "sizes"], argv)
    found, rows = {}, []
    for name in args.tasks:
        print(TITLES.get(name, name), flush=True)
        if name == "sizes":
            rows = sizes(args)
        else:
            found[name] = run(name, args, 12 if args.quick else PASSES[name])
    kept = "best", "bound", "n", "exact_share", "rates", "passes", "variants"
    more = {"tasks": {name: {key: own[key] for key in kept} for name, own in found.items()}}
    drawn, told = list(panels(found, rows)), list(claims(found, rows))
    return frame.write("casimir", args, PAPER, drawn, told, sizes=rows, **more)


if __name__ == "__main__":
    main()
