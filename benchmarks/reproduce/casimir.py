"""Pillutla et al. 2018, figures 2, 3 and 5: structural SVMs by smoothing and acceleration.

    python benchmarks/reproduce/casimir.py --data FOLDER [--quick | --full] [--tasks ner ...]

Named entities (CoNLL-2003, hashed features) and localisation (kangaroos, candidate boxes, IoU),
lambda = 1 / n: objective and test figure against passes (oracle calls over n) for Casimir-SVRG with
adaptive and constant smoothing, SVRG, BCFW with Frank-Wolfe steps, and SGD; then Casimir for other
strengths of smoothing, warm starts and K. The optimum is the smallest objective of any run, BCFW
with pairwise steps among them. Learning rates are the
estimator's own, or ("tuned") the best of a grid after an eighth of the passes. Without --full:
500 sentences, a third of the images.
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
TITLES = {"ner": "CoNLL-2003, hashed", "localisation": "Localisation"}
# The paper's strengths of smoothing: 2 for entities, 10 for boxes, whose scores are larger there.
STRENGTHS = {"ner": (0.2, 2.0, 20.0), "localisation": (0.02, 0.2, 2.0)}
WARM = "prox-center", "extrapolation", "previous"
RANKS = 2, 5, 10, 20
STRONG = 10.0  # lambda n, to see what it changes
RATES = 1e-3, 4e-3, 1.6e-2, 6.4e-2, 0.256
PASSES = {"ner": 100, "localisation": 50}


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
    result["strong"] = strong(name, X, y, options, passes)
    for part, own in found.items():
        result[part] = {k: frame.thin(*v.curve(best=best)) for k, v in own.items()}
    result["test"] = {k: frame.thin(*v.measures()) for k, v in found["solvers"].items()}
    result["solvers"]["BCFW, pairwise"] = _until(result["solvers"]["BCFW, pairwise"], passes)
    result["test"]["BCFW, pairwise"] = _until(result["test"]["BCFW, pairwise"], passes)
    result["exact_share"] = {
        k: float(v.model.exact_share_) for k, v in found["variants"].items() if "nu" in k
    }
    return result


def strong(name, X, y, options, passes):
    """Distances from the optimum after all passes with a larger lambda."""
    kept = "Casimir, adaptive", "BCFW", "BCFW, pairwise", "SGD, averaged"
    options = options | {"C": 1.0 / STRONG}
    models = dict(solvers(name, passes))
    least = {k: fit(models[k].set_params(**options), X, y).least for k in kept}
    best = min(least.values())
    return {k: value / best - 1.0 for k, value in least.items() if k != "BCFW, pairwise"}


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


def claims(found):
    """What the paper says beside what was measured; `found` by task."""
    yield _competitive(found)
    yield _early(found)
    yield _acceleration(found)
    yield _robust(found, "adaptive")
    yield _sensitive(found)
    yield _spread(found, "Where the inner solver starts matters little", "warm start: ")
    yield _spread(found, "K matters little", "K = ")


def _percent(value):
    """A distance from the optimum."""
    return f"{float(f'{100 * value:.2g}'):,g} %"


def _list(name, ends):
    """Distances of a task."""
    return f"{TITLES[name]}: {_ends_text(ends)}"


def _ends_text(ends):
    """Distances."""
    return ", ".join(f"{k} {_percent(v)}" for k, v in ends.items())


def _begin(name, own):
    """What the distances are to be compared with."""
    first = own["variants"][_default(name)][1][0]
    return f"{TITLES[name]}: all come from {_percent(first)} in {own['passes']} passes"


def _competitive(found):
    """Against BCFW and SGD at the end."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = {k: at(v, own["passes"]) for k, v in own["solvers"].items() if k != "SVRG"}
        cells.append(f"{_list(name, ends)} after {own['passes']} passes")
        ours = min(v for k, v in ends.items() if k.startswith("Casimir"))
        outcomes.append(ours <= 1.1 * min(ends["BCFW"], ends["SGD, averaged"]))
        if not outcomes[-1]:
            share = own["exact_share"][_default(name)]
            why.append(f"{TITLES[name]}: {own['n']} samples make short passes for so small a "
                       f"lambda; with {STRONG:g} / n: {_ends_text(own['strong'])}; K = 5 gives "
                       f"the exact smoothing in {100 * share:.0f} % of the calls")  # fmt: skip
    text = "Casimir-SVRG is as near to the optimum as BCFW and SGD, or nearer"
    return Claim(text, "abstract, figures 2 and 3", "; ".join(cells), verdict(outcomes),
                 "; ".join(why))  # fmt: skip


def _early(found):
    """After ten passes."""
    cells, outcomes = [], []
    for name, own in found.items():
        ends = {k: at(own["solvers"][k], 10) for k in ("Casimir, adaptive", "SGD, averaged")}
        cells.append(_list(name, ends))
        outcomes.append(ends["Casimir, adaptive"] <= ends["SGD, averaged"])
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
            why.append(f"{TITLES[name]}: with a tuned rate {_percent(tuned)}")
    text = "Acceleration helps: Casimir with constant smoothing is ahead of SVRG with the same"
    return Claim(text, "section 7, figures 2 and 3", "; ".join(cells), verdict(outcomes),
                 "; ".join(why))  # fmt: skip


def _ends(own, begin):
    """Distances of variants, by what is behind their prefix."""
    curves = own["variants"].items()
    return {k.removeprefix(begin): at(v, own["passes"]) for k, v in curves if k.startswith(begin)}


def _robust(found, variant):
    """Adaptive smoothing."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = _ends(own, f"{variant}, nu = ")
        cells.append(_list(name, {f"{k}:": v for k, v in ends.items()}))
        outcomes.append(max(ends.values()) <= 2.0 * min(ends.values()))
        if not outcomes[-1]:
            why.append(_begin(name, own))
    text = "Adaptive smoothing hardly depends on its first strength nu (within a factor of 2)"
    return Claim(text, "figure 5", "; ".join(cells), verdict(outcomes), "; ".join(why))


def _sensitive(found):
    """Constant smoothing."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = [_ends(own, f"{v}, nu = ").values() for v in ("adaptive", "constant")]
        ratios = [max(v) / min(v) for v in ends]
        cells.append(f"{TITLES[name]}: worst over best {ratios[1]:.1f}, adaptive {ratios[0]:.1f}")
        outcomes.append(ratios[1] > 1.1 * ratios[0])
        if not outcomes[-1]:
            why.append(_begin(name, own))
    text = "Constant smoothing depends on its strength more than adaptive smoothing"
    return Claim(text, "figure 5", "; ".join(cells), verdict(outcomes), "; ".join(why))


def _spread(found, text, begin):
    """Variants of something else, beside the default."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = {"default": at(own["variants"][_default(name)], own["passes"])}
        ends |= _ends(own, begin)
        cells.append(_list(name, {f"{k}:": v for k, v in ends.items()}))
        outcomes.append(max(ends.values()) <= 1.5 * min(ends.values()))
        if not outcomes[-1]:
            why.append(_begin(name, own))
    text += " (within a factor of 1.5)"
    return Claim(text, "figure 5", "; ".join(cells), verdict(outcomes), "; ".join(why))


def _default(name):
    """The variant with prox-center and K = 5."""
    return f"adaptive, nu = {STRENGTHS[name][1]:g}"


def panels(found):
    """Three panels a task."""
    for name, own in found.items():
        title, y = TITLES[name], "relative distance from optimum"
        yield Panel(f"{title}: objective", "passes", y, own["solvers"])
        measure = "F1 of chunks, %" if name == "ner" else "mean overlap, %"
        yield Panel(f"{title}: test", "passes", measure, own["test"], log="")
        yield Panel(f"{title}: robustness", "passes", y, own["variants"])


def main(argv=None):
    """All figures and the table."""
    args = frame.arguments(__doc__, TASKS, argv)
    found = {}
    for name in args.tasks:
        print(TITLES[name], flush=True)
        found[name] = run(name, args, 12 if args.quick else PASSES[name])
    kept = "best", "bound", "n", "exact_share", "rates", "passes", "strong"
    more = {"tasks": {name: {key: own[key] for key in kept} for name, own in found.items()}}
    drawn = list(panels(found))
    return frame.write("casimir", args, PAPER, drawn, list(claims(found)), 3, **more)


if __name__ == "__main__":
    main()
