"""Schmidt et al. 2015, figures 1 to 6 and the table of memory: training of chain CRFs.

    python benchmarks/reproduce/sag.py --data FOLDER [--quick | --full] [--tasks ocr ...]

Objective minus optimum, and test error, against passes (oracle calls and forward passes of line
searches over n) and CPU seconds of the solver, with lambda = 1 / n. The optimum is the smallest
objective that any run found, one of them to a certified gap of 1e-8, below which nothing is shown.
Rates are powers of ten, as in the paper, the best by the training objective in the end; "second
rate" is the next best. As in the paper SMD is not run on the last task. Without --full: 1,000
sentences, two folds of the OCR letters; with it results are ``sag_full`` and so on.
"""

from __future__ import annotations

import csv
import json
import time
from types import SimpleNamespace
from unittest import mock

import _paths  # noqa: F401
import frame
import numpy as np
import runs
from baselines import RATED, BaselineCRF
from frame import HELD, UNTESTED, Claim, Panel, at, first_below, held, untested
from saga_bounds import proposition
from scipy import sparse
from sklearn.base import clone
from tasks import conll2000, dutch, ocr, treebank

from skstruct import SAGCRF, RaggedArray
from skstruct.estimators import crf_path

PAPER = "Schmidt, Babanezhad, Ahmed, Defazio, Clifton, Sarkar 2015"
GRID = {"adagrad": (1e-2, 0.1, 1.0, 10.0), "smd": (1e-2, 0.1, 1.0)}
GRID |= dict.fromkeys(("sgd", "asg", "sgd-nus"), (1e-3, 1e-2, 0.1, 1.0))
GRID |= dict.fromkeys(("sgd-1/t", "sgd-sqrt", "asg-1/t", "asg-sqrt"), (0.1, 1.0))
STOCHASTIC = "SGD", "ASG", "AdaGrad", "SMD"
PRIMAL = "Pegasos", *STOCHASTIC, "Hybrid", "L-BFGS", "SAG"
NUS = "SAG-NUS", "SAG-NUS*"
FIGURE = *NUS, *PRIMAL, "OEG"
SECOND = ", second rate"
LEVEL = 1e-3  # of the optimum, for passes
EARLY, SOME = 1, 10  # passes
LATE = 5  # last epochs, in which line searches are counted
CERTIFIED = 1e-8  # the gap to which the optimum is known, relative
# What we take words of the paper to mean: "much" and "substantially", "similar", "slightly".
MARGIN, SIMILAR, SLIGHTLY, FIFTH, TENTH = 2.0, 1.5, 2.0, 0.8, 0.9
WEAK = 10.0  # times n: 1 / lambda where lambda is small
PATH = 0.1, 0.3, 1.0  # values of C
AVERAGED, DECREASING, KEPT = "Pegasos, averaged", ("1/t", "1/sqrt t"), "SAG-NUS, L_i never fall"
FIRST_TWO = "ocr", "conll2000"
# What each file of results has: panels, and claims by the beginnings of their places.
FILES = {
    "sag": (("objective", "test"), ("section 6", "section 1", "abstract")),
    "sag_more": (("test, all methods", "OEG"), ("appendix C", "appendix D")),
    "sag_runtime": (("runtime", "test by runtime"), ("appendix E",)),
    "sag_variants": (("rates", "variants"), ("",)),
}
NOTE = "footnote 10"
BULLETS = [f"section 6, bullet {k}" for k in range(1, 7)]
AFTER = "section 6, after the bullets"
# Claims that nothing here tests, with places and reasons.
LEFT = (
    ("Mini-batches reduce the memory", "section 7", "SAGCRF has none: svrg needs no memory"),
    ("L1 penalties, other graphs and threads are possible", "section 7",
     "SAGCRF has them, no experiment of the paper"),
)  # fmt: skip
SEVERAL = "a claim about several data sets, here one"


def letters(data, limit):
    """OCR letters as CSR: AdaGrad reads columns."""
    task = ocr(data, limit)
    parts = [
        part._replace(X=RaggedArray(sparse.csr_matrix(np.asarray(part.X.flat)), part.X.offsets))
        for part in (task.train, task.test)
    ]
    return task._replace(train=parts[0], test=parts[1])


TASKS = {"ocr": letters, "conll2000": conll2000, "dutch": dutch, "pos": treebank}
TITLES = {"ocr": "OCR letters", "conll2000": "CoNLL-2000", "dutch": "CoNLL-2002 Dutch"}
TITLES["pos"] = "treebank POS"


def methods(passes, name=None):
    """The curves of the figures: names and models without rates."""
    sag = {"max_iter": passes, "tol": 0.0, "track_objective": True, "random_state": 0}
    # Late epochs of the package's OEG leave samples out, and are less than a pass.
    dual = {**sag, "max_iter": 3 * passes // 2}

    def plain(method, share=1):
        return BaselineCRF(method, max_iter=-(-passes // share), random_state=0)

    yield "SAG", plain("sag")
    yield "SAG-NUS", plain("sag-nus")
    yield "SAG-NUS*", plain("sag-nus*")
    yield "Pegasos", plain("pegasos")
    for method in ("SGD", "ASG", "AdaGrad"):
        yield method, plain(method.lower())
    if name != "pos":
        yield "SMD", plain("smd", 2)
    yield "Hybrid", plain("hybrid")
    yield "L-BFGS", SAGCRF(solver="lbfgs", max_iter=passes, tol=0.0)
    for method in ("OEG", "OEG-10", "OEG-noRP"):
        yield method, plain(method.lower())
    yield "SGD-NUS", plain("sgd-nus", 2)
    yield AVERAGED, plain("pegasos-average")
    for method in ("SGD", "ASG"):
        for name, kind in zip(DECREASING, ("1/t", "sqrt"), strict=True):
            yield f"{method}, {name}", plain(f"{method.lower()}-{kind}")
    yield KEPT, plain("sag-nus-kept")
    yield "SAG, small first L", plain("sag-small")
    yield "SAG-NUS*, no skipping", plain("sag-nus*-search")
    for method in ("SAGA", "SAGA-NUS*"):
        yield f"{method}, SAG's step", plain(method.lower())
    yield "SVRG", SAGCRF(solver="svrg", **{**sag, "max_iter": -(-passes // 2)})
    yield "SAG-NUS*, package", SAGCRF(solver="sag", **sag)
    yield "SAGA-NUS*, package", SAGCRF(solver="saga", **sag)
    yield "OEG, package", SAGCRF(solver="oeg", **dual)
    yield "SAGCRF()", SAGCRF(**{**dual, "tol": 10 * CERTIFIED})


def tuned(model, task):
    """Rates, that of the smallest objective in the end first, without those that overflow.

    While the best is at an end of the grid, the next power of ten is tried, too.
    """
    found, left = {}, list(GRID[model.method])
    while left:
        rate = left.pop()
        trial = clone(model).set_params(rate=rate)
        try:
            found[rate] = float(trial.fit(task.train.X, task.train.y).history_["objective"][-1])
        except FloatingPointError:  # too large a rate
            found[rate] = np.inf
        if not left:
            best = min(found, key=found.get)
            near = (float(f"{factor * best:.0e}") for factor in (0.1, 10.0))
            left = [rate for rate in near if rate not in found]
    return [rate for rate in sorted(found, key=found.get) if np.isfinite(found[rate])]


def trials(passes, task, name):
    """Names and models; those that need a rate with the best one and with the second."""
    for method, model in methods(passes, name):
        if getattr(model, "method", None) not in RATED:
            yield method, model
            continue
        suffixes = ("",) if method.endswith(DECREASING) else ("", SECOND)
        for suffix, rate in zip(suffixes, tuned(model, task), strict=False):
            yield method + suffix, clone(model).set_params(rate=rate)


def on_cpu():
    """Solvers' clocks show CPU seconds: neighbours do not count, nor what the clock leaves out."""
    return mock.patch(
        "skstruct.core.jit.compiling.time", SimpleNamespace(perf_counter=time.process_time)
    )  # fmt: skip


def run(task, passes, name=None):
    """All methods on a task: distances from the optimum by passes and seconds, and errors."""
    y_test = np.asarray(task.test.y.flat)

    def measure(model):
        return 100.0 * float(np.mean(np.concatenate(list(model.predict(task.test.X))) != y_test))

    model = SAGCRF(max_iter=2000, tol=CERTIFIED, random_state=0).fit(task.train.X, task.train.y)
    best, known = model.objective_, {"bound": model.dual_objective_, "error": measure(model)}
    fits, errors, rates, searches = {}, {}, {}, {}
    for method, model in trials(passes, task, name):
        with on_cpu():
            fit = runs.fit(model, task.train.X, task.train.y, measure)
        fit = fit._replace(seconds=fit.model.history_["seconds"])
        kept = np.isfinite(fit.objective) & (fit.passes <= 1.05 * passes)
        fits[method] = fit.passes[kept], fit.seconds[kept], fit.objective[kept]
        (x, y), (seconds, _) = fit.measures(), fit.measures("seconds")
        shown = x <= 1.05 * passes
        errors[method] = frame.thin(x[shown], seconds[shown], y[shown], points=16)
        if getattr(model, "method", None) in RATED:
            rates[method] = model.rate
        searches[method] = late_searches(fit.model.history_, len(task.train.X))
        best = min(best, fit.objective[kept].min())
        end = f"{fits[method][2][-1]:.6f}, error {errors[method][2][-1]:.2f} %"
        print(f"  {method}: {end}, {fits[method][1][-1]:.1f} s", flush=True)
    curves, clock = {}, {}
    for method, (x, seconds, values) in fits.items():
        floor = CERTIFIED * best
        curves[method], clock[method] = shortened(x, seconds, values - best, passes, best, floor)
    known |= footnotes(task, passes)
    known |= {"optimum": best, "rates": rates, "samples": len(task.train.X), "nodes": len(y_test)}
    known |= {"errors": {key: [x, y] for key, (x, _, y) in errors.items()}}
    known |= {"error clock": {key: [seconds, y] for key, (_, seconds, y) in errors.items()}}
    return known | {"curves": curves, "clock": clock, "searches": searches}


def footnotes(task, passes):
    """Passes where lambda is small, and at the end of a path of lambda with and without starts."""
    data = task.train.X, task.train.y
    best = SAGCRF(C=WEAK, max_iter=2000, tol=1e-6, random_state=0).fit(*data).objective_
    weak, own = {}, {"max_iter": 4 * passes, "random_state": 0}
    for name in ("OEG", "SAG", "SAG-NUS*"):
        history = BaselineCRF(name.lower(), C=WEAK, **own).fit(*data).history_
        weak[name] = first_below([history["passes"], history["objective"] - best], 1e-2 * best)
    model = SAGCRF(solver="sag", tol=LEVEL, **own)
    last = crf_path(model, *data, PATH)[-1], clone(model).set_params(C=PATH[-1]).fit(*data)
    return {"weak": weak, "path": [float(fit.history_["passes"][-1]) for fit in last]}


def late_searches(history, n):
    """Forward passes of line searches for each oracle call, over the last epochs."""
    first = -1 - min(LATE, len(history["passes"]) - 1)
    passes = n * (history["passes"][-1] - history["passes"][first])
    calls = history["oracle_calls"][-1] - history["oracle_calls"][first]
    return max(round(float(passes / calls - 1.0), 4), 0.0) if calls else 0.0


def shortened(x, seconds, y, passes, best=1.0, floor=CERTIFIED):
    """What is drawn of a curve, by passes and by seconds: claims are made of nothing else."""
    stop = np.argmax(y <= floor) + 1 if (y <= floor).any() else len(y)
    x, seconds, y = x[:stop], seconds[:stop], np.maximum(y[:stop], floor)
    marks = [np.argmax(y <= best * level) for level in (0.1, 1e-2, LEVEL)]
    marks += [np.searchsorted(x, 1.02 * after, side="right") - 1 for after in (EARLY, SOME, passes)]
    x, seconds, y = frame.thin(x, seconds, y, marks=np.maximum(marks, 0), points=16)
    return [x, y], [seconds, y]


#: What SAG may store: gradients, their non-zero values, marginals, and nodes' with pair sums.
MEMORY = "naive", "sparse", "marginals", "mixed"


def stored(part):
    """Megabytes of SAG's memory in the ways of section 6."""
    n_labels, lengths = len(np.unique(part.y.flat)), np.asarray(part.X.lengths)
    X, n = part.X.flat, len(part.X)
    # Columns that a sample has at all: the rows of its gradient that are not zero.
    chain = np.repeat(np.arange(n), lengths)
    pattern = sparse.csr_matrix(
        (np.ones(X.nnz), (np.repeat(chain, np.diff(X.indptr)), X.indices)), (n, X.shape[1])
    )
    pattern.sum_duplicates()
    nodes, edges = lengths.sum(), (lengths - 1).sum()
    floats = (
        n * ((X.shape[1] + 1) * n_labels + n_labels**2),
        (pattern.nnz + n) * n_labels + n * n_labels**2,
        nodes * n_labels + edges * n_labels**2,
        nodes * n_labels + n * n_labels**2,
    )
    return {way: 8e-6 * float(count) for way, count in zip(MEMORY, floats, strict=True)}


def claims(found, passes, bounds=None):
    """What the paper says beside what was measured; `found` by task."""
    some = min(SOME, passes)
    end = f"(after {passes} passes)"
    text = "SAG-NUS* often outperforms earlier methods by an order of magnitude in the objective "
    text += f"(section 6: except OEG; after {passes} passes)"
    yield _nearer(text, "section 1", found, passes, "SAG-NUS*", PRIMAL, margin=10.0, often=True)
    text = "Non-uniform sampling substantially improves SAG (here: a fifth fewer passes to 1e-2)"
    yield _sooner(text, "abstract", found, "SAG-NUS*", "SAG", 1e-2, FIFTH)
    text = "SG outperforms Pegasos, which first moves away from the optimum (passes: {})"
    for after in (EARLY, passes):
        yield _nearer(text.format(after), BULLETS[0], found, after, "SGD", ["Pegasos"])
    text = f"ASG outperforms AdaGrad, SMD and SG {end}"
    yield _nearer(text, BULLETS[1], found, passes, "ASG", ["AdaGrad", "SMD", "SGD"])
    for after in (some, passes):
        text = f"Hybrid outperforms L-BFGS (after {after} passes)"
        yield _nearer(text, BULLETS[2], found, after, "Hybrid", ["L-BFGS"])
    yield _dominance_claim(found, (some, passes))
    yield _oeg_claim(found, passes)
    text = "Both SAG-NUS methods outperform all others except OEG by a substantial margin (here: "
    yield _nearer(
        f"{text}twice as near, after {passes} passes)",
        BULLETS[5],
        found,
        passes,
        NUS,
        PRIMAL,
        MARGIN,
    )
    for after in (some, passes):
        text = "Both SAG-NUS methods are always among the best in test error (here: within a "
        text += f"standard error of the best, after {after} passes)"
        yield _error_claim(text, BULLETS[5], found, after, NUS, PRIMAL)
    yield _nearer(
        f"SAG-NUS* always outperforms SAG-NUS {end}", BULLETS[5], found, passes,
        "SAG-NUS*", ["SAG-NUS"],
    )  # fmt: skip
    yield _strength_claim(found)
    yield _speed_claim(found)
    for method in ("ASG", "AdaGrad"):
        yield _sensitivity_claim(found, method, some, passes)
    text = "SAG is virtually the same where the first L is far too small (here: by a thousand; "
    text += f"distance after {passes} passes, factor 2)"
    yield _similar(text, AFTER, found, "SAG, small first L", "SAG", passes)
    rows = {name: own["memory"] for name, own in found.items() if own.get("memory")}
    if rows:
        yield _memory_claim(rows)
    yield from _appendix_claims(found, passes)
    yield from _runtime_claims(found)
    yield from _variant_claims(found, passes)
    yield from _footnote_claims(found, passes)
    yield from _bound_claims(bounds or {})
    yield from untested(LEFT)


def _footnote_claims(found, passes):
    """Of footnotes 1, 6 and 7 and sections 3 and 5, where they were run."""
    curves = [own["curves"] for own in found.values()]
    if all(AVERAGED in own for own in curves):
        text = f"Pegasos with averaging is always worse than without (after {passes} passes)"
        yield _nearer(text, "footnote 6", found, passes, "Pegasos", [AVERAGED])
    for method in ("SGD", "ASG"):
        rivals = [f"{method}, {name}" for name in DECREASING]
        if all(rivals[0] in own for own in curves):
            text = f"{method} with decreasing steps is worse than with constant ones (after "
            yield _nearer(f"{text}{passes} passes)", "footnote 7", found, passes, method, rivals)
    if all(KEPT in own for own in curves):
        text = "That the L_i may fall seems crucial (SAG-NUS of 2013, passes to 1e-2)"
        yield _sooner(text, "section 5", found, "SAG-NUS", KEPT, 1e-2, FIFTH)
    if not all("weak" in own for own in found.values()):
        return
    cells, outcomes = {}, {}
    for name, own in found.items():
        reach = {k: first_below(own["curves"][k], 1e-2 * own["optimum"]) for k in own["weak"]}
        weak = {k: np.inf if v is None else v for k, v in own["weak"].items()}
        cells[name] = ", ".join(f"{k} {_told(reach[k])} to {_told(weak[k])}" for k in weak)
        more = {k: weak[k] / reach[k] for k in weak if np.isfinite(reach[k])}
        pair = [more[k] for k in ("OEG", "SAG-NUS*") if k in more]
        outcomes[name] = pair[0] > pair[1] if len(pair) == 2 and min(pair) < np.inf else None
    text = "OEG degrades more than SAG where lambda is small (passes to 1e-2 with 1 / n and with "
    yield _row(f"{text}{1 / WEAK:g} / n)", "section 3", cells, outcomes, "judged on SAG-NUS*")
    cells = {k: " against ".join(_told(v) for v in own["path"]) for k, own in found.items()}
    outcomes = {k: own["path"][0] < own["path"][1] for k, own in found.items()}
    text = "A path of lambda gains by warm starts of w, d, y_i and L_i (crf_path; passes of its "
    yield _row(f"{text}last fit to {LEVEL:g}, warm and cold)", "footnote 1", cells, outcomes)


def _bound_claims(bounds):
    """Proposition 1."""
    samplings = {"a": "any p_i > 0", "b": "p_i by L_i and a second, uniform sample"}
    for part, own in bounds.items():
        ratio = np.divide(own["distance"], own["bound"])
        text = f"SAGA with {samplings[part]} has the linear rate stated (here: the bound holds "
        cells = f"mean squared distance over its bound, after {ratio.size // 2} passes: "
        cells += f"{ratio[ratio.size // 2]:.1e}, at most {ratio.max():.2g}"
        yield Claim(f"{text}after each pass)", f"proposition 1 ({part})", cells,
                    held([ratio.max() <= 1.0]), "50 samples, mean of 40 runs")  # fmt: skip


def _appendix_claims(found, passes):
    """Of appendices C and D."""
    for after in (min(SOME, passes), passes):
        text = "SAG-NUS methods are similar to the best tuned stochastic gradients in test error "
        text += f"(here: within a standard error, after {after} passes)"
        yield _error_claim(text, "appendix C", found, after, NUS, STOCHASTIC)
    for after in (EARLY, min(SOME, passes)):
        yield _pegasos_claim(found, after)
    last_two = {name: own for name, own in found.items() if name not in FIRST_TWO}
    if last_two:
        text = "OEG-10 outperforms OEG on the last two tasks (section 6: much better; here: twice "
        text += f"as near, after {passes} passes)"
        yield _nearer(text, "appendix D", last_two, passes, "OEG-10", ["OEG"], MARGIN)
        text = "OEG-10 is nearly as good there as SAG-NUS* (here: 1.5 times the passes to 1e-2)"
        yield _as_soon(text, "appendix D", last_two, "OEG-10", "SAG-NUS*")
    ends = {k: [at(own["curves"][m], passes) for m in ("OEG-noRP", "OEG")]
            for k, own in found.items()}  # fmt: skip
    cells = {k: f"{one:.1e} against {two:.1e}" for k, (one, two) in ends.items()}
    text = "Without the permutation OEG is much worse on one task (here: twice as far after "
    text += f"{passes} passes)"
    worse = [TITLES[name] for name, (one, two) in ends.items() if one > MARGIN * two]
    row = _row(text, "appendix D", cells, dict.fromkeys(cells, bool(worse)), several=True)
    many = {"holds": HELD[1], "why": f"much worse on {', '.join(worse)}"}
    yield row._replace(**many) if len(worse) > 1 and len(found) > 1 else row


def _runtime_claims(found):
    """Of appendix E."""
    text = "Trends by runtime are those by passes: SAG-NUS* first, except for OEG (seconds to 1e-2)"
    cells, outcomes = {}, {}
    for name, own in found.items():
        reach = {k: first_below(own["clock"][k], 1e-2 * own["optimum"])
                 for k in (*NUS, *PRIMAL) if k in own["clock"]}  # fmt: skip
        rival = min((k for k in reach if k != "SAG-NUS*"), key=reach.get)
        cells[name] = f"SAG-NUS* {_told(reach['SAG-NUS*'], 2)}, {rival} {_told(reach[rival], 2)}"
        outcomes[name] = reach["SAG-NUS*"] < reach[rival]
    yield _row(text, "appendix E", cells, outcomes)
    text = "AdaGrad is slightly worse in runtime (milliseconds per pass, against ASG; slightly: up "
    yield _cost(f"{text}to twice)", found, "AdaGrad", "ASG", SLIGHTLY)
    text = "Hybrid is worse in runtime (milliseconds per pass, against L-BFGS)"
    yield _cost(text, found, "Hybrid", "L-BFGS")
    text = "Hybrid is still faster than L-BFGS (seconds to 1e-2)"
    yield _sooner(text, "appendix E", found, "Hybrid", "L-BFGS", 1e-2, by="clock", digits=2)
    for method in ("OEG", "OEG-10"):
        text = f"{method} is much worse in runtime (here: twice the seconds to 1e-2 of SAG-NUS*)"
        yield _sooner(
            text, "appendix E", found, "SAG-NUS*", method, 1e-2, 1.0 / MARGIN, "clock", 2
        )  # fmt: skip


def _variant_claims(found, passes):
    """Of footnotes and section 5.2, ours, and what is not tested."""
    text = f"SG with non-uniform sampling is similar to SG (here: factor 2, after {passes} passes)"
    yield _similar(text, NOTE, found, "SGD-NUS", "SGD", passes)
    for method in ("SAG", "SAG-NUS*"):
        saga = method.replace("SAG", "SAGA", 1) + ", SAG's step"
        text = f"SAGA variants are very similar to {method} (here: passes to 1e-2, factor 1.5)"
        yield _as_soon(text, NOTE, found, saga, method)
        text = f"SAGA variants are very similar to {method} (here: factor 2, after {passes} passes)"
        yield _similar(text, NOTE, found, saga, method, passes)
    yield _half_speed_claim(found)
    text = (
        "Halving L_i at each visit, as SAG-NUS does, costs many line searches (here: twice those "
    )
    yield _searches(text + "of SAG-NUS*, forward passes per step)", "section 5", found, "SAG-NUS")
    text = "Skipping drastically reduces later evaluations (here: forward passes per step, halved)"
    yield _searches(text, "section 5.2", found, "SAG-NUS*, no skipping")
    for text, first, second in (
        ("Skipping line searches saves", "SAG-NUS*", "SAG-NUS*, no skipping"),
        ("The package's schedule of steps saves", "SAG-NUS*, package", "SAG-NUS*"),
        ("The package's OEG, against the paper's, saves", "OEG, package", "OEG"),
        ("For SAGA the step of SAG, against the theory's, saves", "SAGA-NUS*, SAG's step",
         "SAGA-NUS*, package"),
    ):  # fmt: skip
        text = f"(Ours) {text} a tenth of the passes to {LEVEL:g}"
        yield _sooner(text, "", found, first, second, LEVEL, TENTH)


def _row(text, where, cells, outcomes, why="", often=False, several=False):
    """A claim, and where it does not hold; "often" is on half of the tasks, which are several.

    Outcomes that are None are not known: neither method came so far.
    """
    ours = "; ".join(f"{TITLES[k]}: {v}" for k, v in cells.items())
    if (often or several) and len(cells) < 2:
        return Claim(text, where, ours, UNTESTED, SEVERAL)
    known = {TITLES[k]: outcome for k, outcome in outcomes.items() if outcome is not None}
    missed = [title for title, outcome in known.items() if not outcome]
    if len(missed) <= (len(known) // 2 if often else 0):
        holds = HELD[0] if known else UNTESTED
    else:
        holds = HELD[2] if len(missed) == len(known) else HELD[1]
    why = _both(f"not on {', '.join(missed)}" if 0 < len(missed) < len(known) else "", why)
    return Claim(text, where, ours, holds, why)


def _both(*reasons):
    return "; ".join(reason for reason in reasons if reason)


def _nearer(text, where, found, passes, own, rivals, margin=1.0, often=False):
    """Whether a method, or the last of several, is nearer than the first of its rivals."""
    cells, outcomes, why = {}, {}, []
    for task, result in found.items():
        curves = result["curves"]
        ends = {name: at(curve, passes) for name, curve in curves.items()}
        ours = own if isinstance(own, str) else max(own, key=ends.get)
        rival = min((name for name in rivals if name in ends), key=ends.get)
        reach = [first_below(curves[name], LEVEL * result["optimum"]) for name in (ours, rival)]
        # Both may have come to where the optimum is no longer known.
        outcomes[task] = (margin * ends[ours], reach[0]) < (ends[rival], reach[1])
        cells[task] = f"{ours} {ends[ours]:.1e}, {rival} {ends[rival]:.1e}"
        told = ends[ours] == ends[rival] or not outcomes[task]
        if told and np.isfinite(reach).any():
            told = [_told(value) for value in reach]
            why.append(f"{TITLES[task]}: passes to {LEVEL:g} {told[0]} against {told[1]}")
    return _row(text, where, cells, outcomes, "; ".join(why), often)


def _told(value, digits=0):
    """Passes, or seconds, in words."""
    return f"{value:.{digits}f}".replace("inf", "not reached")


def _sooner(text, where, found, first, second, level, share=1.0, by="curves", digits=0):
    """Whether a method needs less than a share of what another needs to a level."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        reach = [first_below(own[by][k], level * own["optimum"]) for k in (first, second)]
        cells[name] = " against ".join(_told(value, digits) for value in reach)
        outcomes[name] = reach[0] < share * reach[1] if min(reach) < np.inf else None
    return _row(text, where, cells, outcomes)


def _searches(text, where, found, other):
    """Whether SAG-NUS* has less than half the late line searches of another method."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        one, two = (own["searches"][k] for k in (other, "SAG-NUS*"))
        cells[name], outcomes[name] = f"{one:.2g} against {two:.2g}", two < one / MARGIN
    return _row(text, where, cells, outcomes)


def _half_speed_claim(found):
    """SVRG."""
    cells, outcomes, why = {}, {}, []
    for name, own in found.items():
        reach = [first_below(own["curves"][k], 0.1 * own["optimum"]) for k in ("SVRG", "SAG")]
        cells[name] = " against ".join(_told(value) for value in reach)
        outcomes[name] = 2.0 / SIMILAR * reach[1] <= reach[0] <= 2.0 * SIMILAR * reach[1] < np.inf
        if reach[0] < 2.0 / SIMILAR * reach[1]:
            why.append(TITLES[name])
    text = (
        "SVRG is similar to SAG at half speed, or slightly worse (here: twice the passes to 0.1, "
    )
    text += "within a factor of 1.5)"
    better = f"faster than that on {', '.join(why)}" if why else ""
    return _row(text, "section 7", cells, outcomes, better)


def _as_soon(text, where, found, first, second, level=1e-2):
    """Whether a method needs about as many passes as another, or fewer."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        reach = [first_below(own["curves"][k], level * own["optimum"]) for k in (first, second)]
        cells[name] = " against ".join(_told(value) for value in reach)
        outcomes[name] = reach[0] <= SIMILAR * reach[1] if min(reach) < np.inf else None
    return _row(text, where, cells, outcomes)


def _similar(text, where, found, first, second, passes, factor=2.0):
    """Whether two methods end within a factor of each other."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        one, two = (at(own["curves"][k], passes) for k in (first, second))
        cells[name] = f"{one:.2g} against {two:.2g}"
        outcomes[name] = max(one, two) <= factor * min(one, two)
    return _row(text, where, cells, outcomes)


def _dominance_claim(found, places):
    """The ranks of three methods."""
    cells, winners = {}, set()
    for name, own in found.items():
        told = []
        for passes in places:
            first = []
            for asg in ("ASG", f"ASG{SECOND}"):
                ends = {k: at(own["curves"][k], passes)
                        for k in (asg, "Hybrid", "SAG") if k in own["curves"]}  # fmt: skip
                first.append(min(ends, key=ends.get).removesuffix(SECOND))
            winners |= {*first}
            told.append(" or ".join(dict.fromkeys(first)))
        cells[name] = ", then ".join(told)
    where = " and ".join(map(str, places))
    text = "None of ASG, Hybrid and SAG dominates: ranks depend on the task and the rate (best "
    text += f"after {where} passes, with the best rate of ASG or its second)"
    return _row(text, BULLETS[3], cells, dict.fromkeys(cells, len(winners) > 1), several=True)


def _oeg_claim(found, passes):
    """OEG by task."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        ends = {k: at(own["curves"][k], passes) for k in ("OEG", *PRIMAL) if k in own["curves"]}
        rival = min((k for k in ends if k != "OEG"), key=ends.get)
        nus = at(own["curves"]["SAG-NUS*"], passes)
        cells[name] = f"{ends['OEG']:.1e}, {rival} {ends[rival]:.1e} (SAG-NUS* {nus:.1e})"
        outcomes[name] = (ends["OEG"] < ends[rival]) == (name in FIRST_TWO)
    text = (
        f"OEG is very good on the first two tasks, less so on the last two (after {passes} passes"
    )
    text += ", against the best but SAG-NUS)"
    return _row(text, BULLETS[4], cells, outcomes, several=True)


def _standard_error(error, nodes):
    """Of a share of nodes in percent."""
    share = error / 100.0
    return 100.0 * np.sqrt(share * (1.0 - share) / nodes)


def _error_claim(text, where, found, passes, ours, rivals):
    """Test error: whether the worse of our methods is as good as the best of the others."""
    cells, outcomes, why = {}, {}, []
    for name, own in found.items():
        ends = {k: at(own["errors"][k], passes) for k in (*ours, *rivals) if k in own["errors"]}
        worse = max(ours, key=ends.get)
        best = min((k for k in ends if k not in ours), key=ends.get)
        outcomes[name] = ends[worse] <= ends[best] + _standard_error(ends[best], own["nodes"])
        cells[name] = ", ".join(f"{k} {ends[k]:.2f} %" for k in (*ours, best))
        if not outcomes[name]:
            why.append(f"{TITLES[name]}: the optimum has {own['error']:.2f} %")
    return _row(text, where, cells, outcomes, "; ".join(why))


def _strength_claim(found):
    """Whether the optimum has about the least error that any curve has."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        least = {k: min(y) for k, (_, y) in own["errors"].items()}
        best = min(least, key=least.get)
        passes = first_below(own["errors"][best], least[best])
        cells[name] = f"optimum {own['error']:.2f} %, {best} {least[best]:.2f} %"
        cells[name] += f" in pass {passes:.0f}"
        outcomes[name] = least[best] >= TENTH * own["error"]
    text = "lambda = 1 / n yields a value close to the optimal test error on all data sets (here: "
    text += "no method has a tenth fewer errors in any pass than the optimum)"
    return _row(text, "section 6", cells, outcomes, "other lambdas are not run")


def _speed_claim(found):
    """Passes to the test error of the optimum, within a standard error."""
    cells, outcomes, sooner = {}, {}, []
    for name, own in found.items():
        level = own["error"] + _standard_error(own["error"], own["nodes"])
        reach = {k: first_below(own["errors"][k], level) for k in ("SAG-NUS*", "ASG", "AdaGrad")}
        rival = min(("ASG", "AdaGrad"), key=reach.get)
        cells[name] = f"{rival} {_told(reach[rival])}, SAG-NUS* {_told(reach['SAG-NUS*'])}"
        late = not reach[rival] <= MARGIN * reach["SAG-NUS*"]
        early = reach[rival] < reach["SAG-NUS*"] / MARGIN
        outcomes[name] = late if name == "ocr" else not late and not early
        if early:
            sooner.append(TITLES[name])
    text = "The best of AdaGrad and ASG has the optimal test error at a speed similar to SAG-NUS* "
    text += "on three tasks, on OCR much later (here: passes to a standard error above it, within "
    text += "a factor of 2, and more)"
    why = f"less than half the passes on {', '.join(sooner)}" if sooner else ""
    return _row(text, AFTER, cells, outcomes, why, several=True)


def _sensitivity_claim(found, method, some, passes):
    """The second-best rate."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        if method + SECOND not in own["errors"]:
            continue
        best, second = (own["errors"][method + k] for k in ("", SECOND))
        one, two = at(best, some), at(second, some)
        outcomes[name] = two > one + _standard_error(one, own["nodes"])
        cells[name] = f"{two:.2f} % against {one:.2f} %"
        cells[name] += f" (after {passes}: {at(second, passes):.2f} %, {at(best, passes):.2f} %)"
    text = f"The test error of {method} is much worse with the second-best rate (here: by a "
    text += f"standard error, after {some} passes)"
    return _row(text, f"{AFTER}, figure 2", cells, outcomes)


def _pegasos_claim(found, passes):
    """Pegasos in figure 3."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        ends = {k: at(own["errors"][k], passes) for k in FIGURE if k in own["errors"]}
        ends = {k: error for k, error in ends.items() if np.isfinite(error)}
        rival = max((k for k in ends if k != "Pegasos"), key=ends.get)
        cells[name] = f"{ends['Pegasos']:.2f} %, {rival} {ends[rival]:.2f} %"
        outcomes[name] = ends["Pegasos"] > ends[rival]
    text = "Pegasos performs very poorly in test error, beyond the plot (here: the worst; passes: "
    return _row(f"{text}{passes})", "appendix C, section 6", cells, outcomes)


def _cost(text, found, first, second, most=np.inf):
    """Milliseconds a pass."""
    cells, outcomes, within = {}, {}, []
    for name, own in found.items():
        each = [1e3 * own["clock"][k][0][-1] / own["curves"][k][0][-1] for k in (first, second)]
        cells[name] = f"{each[0]:.3g} against {each[1]:.3g}"
        outcomes[name] = each[0] > each[1]
        within.append(each[0] <= most * each[1])
    row = _row(text, "appendix E", cells, outcomes)
    return row._replace(holds=held([*outcomes.values(), *within])) if most < np.inf else row


def _memory_claim(rows):
    """The memory of SAG."""
    cells, outcomes = {}, {}
    for name, row in rows.items():
        shares = {key: value / row["naive"] for key, value in row.items() if key != "naive"}
        cells[name] = " / ".join(f"{share:.1e}" for share in shares.values())
        outcomes[name] = shares["mixed"] == min(shares.values())
    text = "Memory by that of naive SAG: sparse / marginals / mixed (here: mixed is the smallest)"
    return _row(text, "section 6, table", cells, outcomes)


def panels(found):
    """The figures by task, and what the paper leaves out of them."""
    for name, result in found.items():
        title, errors, curves = TITLES[name], result["errors"], result["curves"]
        figure = [k for k in FIGURE if k in curves]
        second = [k for k in curves if k.endswith(SECOND)]
        rates = [k.removesuffix(SECOND) for k in second]
        rates += [k for k in curves if k == AVERAGED or k.endswith(DECREASING)]
        oeg = ["SAG-NUS*", "OEG", "OEG-noRP", "OEG-10"]
        rest = [k for k in curves if k not in {*figure, *oeg, *rates, *second}]
        timed = [k for k in (*figure, "OEG-10") if k != "SMD"]
        distance, wrong = "objective minus optimum", "error of nodes, %"
        for what, x, chosen, table in (
            ("objective", "passes", figure, curves),
            ("OEG", "passes", oeg, curves),
            ("rates", "passes", [*rates, *second], curves),
            ("variants", "passes", ["SAG", "SAG-NUS*", "OEG", *rest], curves),
            ("runtime", "CPU seconds", timed, result["clock"]),
        ):
            drawn = {key: table[key] for key in chosen}
            yield Panel(f"{title}: {what}", x, distance, drawn)
        least = min(min(y) for _, y in errors.values())
        few = [k for k in figure if k not in ("SAG", "SAG-NUS")]
        few += [k for k in second if k.removesuffix(SECOND) in STOCHASTIC]
        for what, x, chosen, table in (
            ("test", "passes", few, errors),
            ("test, all methods", "passes", figure, errors),
            ("test by runtime", "CPU seconds", timed, result["error clock"]),
        ):
            drawn = {key: table[key] for key in chosen}
            yield Panel(f"{title}: {what}", x, wrong, drawn, "x", 1.6 * least)


def read(folder, suffix=""):
    """Results by task as they were written, and what was written about the run."""
    parts = [json.loads((folder / f"{name}{suffix}.json").read_text()) for name in FILES]
    drawn = {panel["title"]: panel["curves"] for part in parts for panel in part["panels"]}
    found = {}
    for name, own in parts[0]["tasks"].items():

        def table(*names, title=TITLES[name]):
            return {k: v for what in names for k, v in drawn[f"{title}: {what}"].items()}

        found[name] = own | {
            "curves": table("objective", "OEG", "rates", "variants"),
            "clock": table("runtime"),
            "errors": table("test", "test, all methods"),
            "error clock": table("test by runtime"),
        }
    return found, parts[0]


def write_reach(path, found):
    """A table of passes to `LEVEL`, methods by tasks."""
    names = next(iter(found.values()))["curves"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([f"Passes to {LEVEL:g}", *(TITLES[task] for task in found)])
        for name in (name for name in names if not name.endswith(SECOND)):
            cells = []
            for own in found.values():
                curve = own["curves"].get(name)
                level = LEVEL * own["optimum"]
                cells.append("not run" if curve is None else _told(first_below(curve, level)))
            table.writerow([name, *cells])


def write_memory(path, found):
    """The table of section 6: memory of SAG over that of naive SAG, and megabytes of the latter."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["Data set", "Sparse", "Marginals", "Mixed", "Naive, MB"])
        for name, own in found.items():
            naive, *others = own["memory"].values()
            table.writerow([TITLES[name], *(f"{x / naive:.1e}" for x in others), f"{naive:,.0f}"])


def main(argv=None):
    """The figures and the tables."""
    args = frame.arguments(__doc__, TASKS, argv)
    passes, found = 6 if args.quick else 60, {}
    limit = 40 if args.quick else None if args.full else 1000
    letters_limit = 1300 if limit == 1000 else limit
    for name in args.tasks:
        print(TITLES[name], flush=True)
        task = TASKS[name](args.data, letters_limit if name == "ocr" else limit)
        found[name] = run(task, passes, name)
        if not args.quick:  # of all samples
            found[name]["memory"] = stored(TASKS[name](args.data, None).train)
    more = {"command": " ".join(["python benchmarks/reproduce/sag.py", *args.given])}
    more["proposition"] = proposition(20, 4) if args.quick else proposition()
    write(found, passes, args, more, "_full" if args.full else "")


def write(found, passes, args, more, suffix=""):
    """All files of results."""
    kept = "optimum", "bound", "error", "samples", "nodes", "rates", "memory", "searches"
    kept += "weak", "path"
    tasks = {name: {k: own[k] for k in kept if k in own} for name, own in found.items()}
    bounds = more.pop("proposition", None)
    drawn, rows = list(panels(found)), list(claims(found, passes, bounds))
    for name, (figures, places) in FILES.items():
        chosen = [panel for panel in drawn if panel.title.partition(": ")[2] in figures]
        about = [row for row in rows if row.where.startswith(places)]
        rows = [row for row in rows if row not in about]
        told = more
        if name == "sag":
            told = more | {"passes": passes, "tasks": tasks, "proposition": bounds}
        frame.write(f"{name}{suffix}", args, PAPER, chosen, about, **told)
    write_reach(args.out / f"sag_passes{suffix}.csv", found)
    if all("memory" in own for own in found.values()):
        write_memory(args.out / f"sag_memory{suffix}.csv", found)


if __name__ == "__main__":
    main()
