"""Pillutla et al. 2018, figures 2, 3 and 5: structural SVMs by smoothing and acceleration.

    python benchmarks/reproduce/casimir.py --data FOLDER [--quick | --full] [--tasks ner ...]

Named entities (CoNLL-2003, hashed features) and localisation (kangaroos, candidate boxes, IoU),
lambda = 1 / n: objective and test figure against passes (oracle calls over n) for Casimir-SVRG with
adaptive and constant smoothing, SVRG, BCFW with Frank-Wolfe steps, and SGD; then Casimir for other
strengths of smoothing, warm starts and K. The optimum is the smallest objective of any run, BCFW
with pairwise steps among them. Without --full: 600 sentences.
"""

from __future__ import annotations

import _paths  # noqa: F401
import frame
import numpy as np
from bench_nonlinear import candidates
from bench_ssvm import entities
from frame import Claim, Panel, at, first_below, verdict
from runs import fit

from skstruct import BCFWSSVM, Candidates, CasimirSSVM, SubgradientSSVM
from skstruct.datasets import load_localisation
from skstruct.metrics import iou

PAPER = "Pillutla, Roulet, Kakade, Harchaoui 2018, figures 2, 3 and 5"
TITLES = {"ner": "CoNLL-2003, hashed", "localisation": "Localisation"}
# The paper's strengths of smoothing: 2 for entities, 10 for boxes, whose scores are larger there.
STRENGTHS = {"ner": (0.2, 2.0, 20.0), "localisation": (0.02, 0.2, 2.0)}
WARM = "prox-center", "extrapolation", "previous"
RANKS = 2, 5, 10, 20
LEVEL = 1e-1  # above the optimum


def ner(args):
    """Entities: training and test parts, what is measured, options of all solvers."""
    (task,) = entities(args.data, args.quick, None if args.full else 600)
    test = task.X_test[:500], task.y_test[:500]

    def measure(model):
        return 100.0 * task.measure(test[1], model.predict(test[0]))

    return task.X, task.y, measure, {"C": 1.0, "fit_intercept": False}


def localisation(args):
    """Boxes: one kangaroo an image, every second image for training."""
    data = load_localisation(args.data / "localisation")
    one = [i for i, boxes in enumerate(data.boxes) if len(boxes) == 1]
    one = one[:20] if args.quick else one
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
    found = {}
    for part, models in (("solvers", solvers), ("variants", variants)):
        found[part] = {}
        for label, model in models(name, passes):
            of_all = measure if part == "solvers" else None
            own = fit(model.set_params(**options), X, y, of_all)
            found[part][label] = own
            end = f"{own.measures()[1][-1]:.1f}" if of_all else ""
            print(f"  {label}: {own.least:.6f} {end}, {own.seconds[-1]:.1f} s", flush=True)
    runs = [own for part in found.values() for own in part.values()]
    best = min(own.least for own in runs)
    bound = max(getattr(own.model, "dual_objective_", -np.inf) for own in runs)
    result = {"best": best, "bound": bound, "n": len(y)}
    for part, own in found.items():
        result[part] = {k: frame.thin(*v.curve(best=best)) for k, v in own.items()}
    result["test"] = {k: frame.thin(*v.measures()) for k, v in found["solvers"].items()}
    result["solvers"]["BCFW, pairwise"] = _until(result["solvers"]["BCFW, pairwise"], passes)
    result["test"]["BCFW, pairwise"] = _until(result["test"]["BCFW, pairwise"], passes)
    result["exact_share"] = {
        k: float(v.model.exact_share_) for k, v in found["variants"].items() if "nu" in k
    }
    return result


def _until(curve, passes):
    """The part of a curve that the figure has room for."""
    n = int(np.searchsorted(curve[0], 1.05 * passes))
    return [column[:n] for column in curve]


def claims(found, passes):
    """What the paper says beside what was measured; `found` by task."""
    yield _competitive(found, passes)
    yield _early(found)
    yield _acceleration(found, passes)
    yield _robust(found, passes, "adaptive")
    yield _sensitive(found, passes)
    yield _spread(found, passes, "Where the inner solver starts matters little", "warm start: ")
    yield _spread(found, passes, "K matters little", "K = ")


def _percent(value):
    """A distance from the optimum."""
    return f"{100 * value:.2g} %"


def _list(name, ends):
    """Distances of a task."""
    return f"{TITLES[name]}: " + ", ".join(f"{k} {_percent(v)}" for k, v in ends.items())


def _competitive(found, passes):
    """Against BCFW and SGD at the end."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = {k: at(v, passes) for k, v in own["solvers"].items()}
        cells.append(_list(name, ends))
        ours = ends["Casimir, adaptive"]
        outcomes.append(ours <= 1.1 * min(ends["BCFW"], ends["SGD, averaged"]))
        reach = {k: first_below(v, LEVEL) for k, v in own["solvers"].items()}
        text = [f"{k} {v:.0f}" for k, v in reach.items() if np.isfinite(v)]
        why.append(f"{TITLES[name]}, passes to {LEVEL:g}: " + (", ".join(text) or "none"))
    text = f"Casimir-SVRG is as near to the optimum as BCFW and SGD, or nearer ({passes} passes)"
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


def _acceleration(found, passes):
    """Catalyst beside plain SVRG on the same constant smoothing."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        a, b = (at(own["solvers"][k], passes) for k in ("Casimir, constant", "SVRG"))
        cells.append(f"{TITLES[name]}: {_percent(a)} against {_percent(b)}")
        outcomes.append(a <= b)
    text = "Acceleration helps: Casimir with constant smoothing is ahead of SVRG with the same"
    return Claim(text, "section 7, figures 2 and 3", "; ".join(cells), verdict(outcomes),
                 "; ".join(why))  # fmt: skip


def _ends(own, passes, begin):
    """Distances of variants, by what is behind their prefix."""
    curves = own["variants"].items()
    return {k.removeprefix(begin): at(v, passes) for k, v in curves if k.startswith(begin)}


def _robust(found, passes, variant):
    """Adaptive smoothing."""
    cells, outcomes = [], []
    for name, own in found.items():
        ends = _ends(own, passes, f"{variant}, nu = ")
        cells.append(
            f"{TITLES[name]}: " + ", ".join(f"{k}: {_percent(v)}" for k, v in ends.items())
        )
        outcomes.append(max(ends.values()) <= 2.0 * min(ends.values()))
    text = "Adaptive smoothing hardly depends on its first strength (within a factor of 2 for nu)"
    return Claim(text, "figure 5", "; ".join(cells), verdict(outcomes))


def _sensitive(found, passes):
    """Constant smoothing."""
    cells, outcomes = [], []
    for name, own in found.items():
        ends = [_ends(own, passes, f"{v}, nu = ").values() for v in ("adaptive", "constant")]
        ratios = [max(v) / min(v) for v in ends]
        cells.append(f"{TITLES[name]}: worst over best {ratios[1]:.1f}, adaptive {ratios[0]:.1f}")
        outcomes.append(ratios[1] > ratios[0])
    text = "Constant smoothing depends on its strength more than adaptive smoothing"
    return Claim(text, "figure 5", "; ".join(cells), verdict(outcomes))


def _spread(found, passes, text, begin):
    """Variants of something else, beside the default."""
    cells, outcomes = [], []
    for name, own in found.items():
        ends = {"default": at(own["variants"][_default(name)], passes)}
        ends |= _ends(own, passes, begin)
        cells.append(
            f"{TITLES[name]}: " + ", ".join(f"{k}: {_percent(v)}" for k, v in ends.items())
        )
        outcomes.append(max(ends.values()) <= 1.5 * min(ends.values()))
    return Claim(
        f"{text} (within a factor of 1.5)", "figure 5", "; ".join(cells), verdict(outcomes)
    )


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
    passes = 12 if args.quick else 100
    found = {}
    for name in args.tasks:
        print(TITLES[name], flush=True)
        found[name] = run(name, args, passes)
    kept = "best", "bound", "n", "exact_share"
    more = {"tasks": {name: {key: own[key] for key in kept} for name, own in found.items()}}
    drawn = list(panels(found))
    return frame.write("casimir", args, PAPER, drawn, list(claims(found, passes)), 3, **more)


if __name__ == "__main__":
    main()
