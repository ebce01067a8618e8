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
from figures import Panel
from frame import HELD, UNTESTED, Claim, at, first_below, held
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
ORDER, MARGIN, SIMILAR, SLIGHTLY, FIFTH, TENTH = 10.0, 2.0, 1.5, 2.0, 0.8, 0.9
WEAK = 10.0  # times n: 1 / lambda where lambda is small
PATH = 0.1, 0.3, 1.0  # values of C
AVERAGED, DECREASING, KEPT = "Pegasos, averaged", ("1/t", "1/sqrt t"), "SAG-NUS, L_i never fall"
FIRST_TWO = "ocr", "conll2000"
# What each file of results has: panels, and claims by the beginnings of their places.
FILES = {
    "sag": (("objective", "test"), ("§6", "§1", "abstract")),
    "sag_more": (("test, all methods", "OEG"), ("appendix C", "appendix D")),
    "sag_runtime": (("runtime", "test by runtime"), ("appendix E",)),
    "sag_variants": (("rates", "variants"), ("",)),
}
NOTE = "footnote 10"
BULLETS = [f"§6, bullet {k}" for k in range(1, 7)]
AFTER = "§6, end"
SEVERAL = "about several data sets, here one"


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
SHORT = {"ocr": "OCR", "conll2000": "CoNLL-2000", "dutch": "Dutch", "pos": "POS"}


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
    for name in ("OEG", "SAG-NUS*"):
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


# Verdicts.


def claims(found, passes, bounds=None):
    """What the paper says beside what was measured; `found` by task."""
    places = min(SOME, passes), passes
    text = "SAG-NUS* often outperforms earlier methods by an order of magnitude (except OEG)"
    yield _nearer(text, "§1", found, "SAG-NUS*", PRIMAL, [passes], ORDER, often=True)
    text = "Non-uniform sampling substantially improves SAG (passes to 1e-2, a fifth fewer)"
    reach = _reach("SAG-NUS*", "SAG", 1e-2)
    yield _pairs(text, "abstract", found, reach, lambda a, b: a < FIFTH * b)
    text = "SG outperforms Pegasos, which first moves away from the optimum"
    yield _nearer(text, BULLETS[0], found, "SGD", ["Pegasos"], (EARLY, passes))
    text = "ASG outperforms AdaGrad, SMD and SG"
    yield _nearer(text, BULLETS[1], found, "ASG", ["AdaGrad", "SMD", "SGD"], [passes])
    yield _nearer("Hybrid outperforms L-BFGS", BULLETS[2], found, "Hybrid", ["L-BFGS"], places)
    yield _dominance_claim(found, places)
    yield _oeg_claim(found, passes)
    text = "Both SAG-NUS methods outperform all but OEG substantially (the worse, twice as near)"
    yield _nearer(text, BULLETS[5], found, NUS, PRIMAL, [passes], MARGIN)
    text = "Both are always among the best in test error (within a standard error, %)"
    yield _error_claim(text, BULLETS[5], found, PRIMAL, places, several=True)
    text = "SAG-NUS* always outperforms SAG-NUS"
    yield _nearer(text, BULLETS[5], found, "SAG-NUS*", ["SAG-NUS"], [passes], several=True)
    yield _strength_claim(found)
    yield _speed_claim(found)
    for method in ("ASG", "AdaGrad"):
        if all(method + SECOND in own["errors"] for own in found.values()):
            yield _sensitivity_claim(found, method, places[0])
    text = "SAG is the same where the first L is a thousand times too small (distance, factor 2)"
    ends = _ends("SAG, small first L", "SAG", passes)
    yield _pairs(text, AFTER, found, ends, _is_similar, ".2g")
    rows = {name: own["memory"] for name, own in found.items() if own.get("memory")}
    if rows:
        yield _memory_claim(rows)
    yield from _appendix_claims(found, passes)
    yield from _runtime_claims(found)
    yield from _variant_claims(found, passes)
    yield from _footnote_claims(found, passes)
    yield from _bound_claims(bounds or {})


def _appendix_claims(found, passes):
    """Of appendices C and D."""
    places = min(SOME, passes), passes
    text = "SAG-NUS methods have test errors similar to the best tuned SG (a standard error, %)"
    yield _error_claim(text, "appendix C", found, STOCHASTIC, places)
    yield _pegasos_claim(found, (EARLY, places[0]))
    last_two = {name: own for name, own in found.items() if name not in FIRST_TWO}
    if last_two:
        text = "OEG-10 outperforms OEG much on the last two tasks (twice as near)"
        yield _nearer(text, "appendix D", last_two, "OEG-10", ["OEG"], places[:1], MARGIN)
        text = "OEG-10 is nearly as good there as SAG-NUS* (passes to 1e-2, factor 1.5)"
        reach = _reach("OEG-10", "SAG-NUS*", 1e-2)
        yield _pairs(text, "appendix D", last_two, reach, _is_as_soon)
    text = "Without the permutation OEG is much worse on one task (twice as far, from 1e-7 of "
    text += "the optimum on)"
    ends = _ends("OEG-noRP", "OEG", passes)
    row = _pairs(text, "appendix D", found, ends, lambda a, b: a > MARGIN * b, ".1e", several=True)
    floors = {name: 10.0 * CERTIFIED * own["optimum"] for name, own in found.items()}
    clipped = {name: np.maximum(ends(own), floors[name]) for name, own in found.items()}
    worse = [name for name, own in clipped.items() if np.divide(*own) > MARGIN]
    if row.holds != UNTESTED:
        why = f"much worse on {', '.join(SHORT[name] for name in worse)}" if worse else ""
        row = row._replace(holds=held([len(worse) > 0, len(worse) == 1]), why=why)
    yield row


def _runtime_claims(found):
    """Of appendix E."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        names = [k for k in (*NUS, *PRIMAL) if k in own["clock"]]
        reach = {k: _reach(k, k, 1e-2, "clock")(own)[0] for k in names}
        rival = min((k for k in reach if k != "SAG-NUS*"), key=reach.get)
        cells[name] = f"{_told(reach['SAG-NUS*'], '.2f')}/{_told(reach[rival], '.2f')} {rival}"
        outcomes[name] = reach["SAG-NUS*"] < reach[rival]
    text = "Trends by runtime are those by passes: SAG-NUS* first, except OEG (seconds to 1e-2)"
    yield _row(text, "appendix E", cells, outcomes)
    text = "AdaGrad is slightly worse in runtime than ASG (ms per pass, up to twice)"
    worse = lambda a, b: [a > b, a <= SLIGHTLY * b]  # noqa: E731
    yield _pairs(text, "appendix E", found, _costs("AdaGrad", "ASG"), worse, ".3g")
    text = "Hybrid loses by the change from passes to runtime (ms per pass, over L-BFGS's)"
    costs = _costs("Hybrid", "L-BFGS")
    yield _pairs(text, "appendix E", found, costs, lambda a, b: a > b, ".3g")
    text = "... but is still faster than L-BFGS (seconds to 1e-2)"
    reach = _reach("Hybrid", "L-BFGS", 1e-2, "clock")
    yield _pairs(text, "appendix E", found, reach, lambda a, b: a < b, ".2f")
    for method in ("OEG", "OEG-10"):
        text = f"{method} is much worse in runtime than SAG-NUS* (seconds to 1e-2, twice)"
        reach = _reach(method, "SAG-NUS*", 1e-2, "clock")
        yield _pairs(text, "appendix E", found, reach, lambda a, b: a > MARGIN * b, ".2f")


def _variant_claims(found, passes):
    """Of footnote 10 and sections 5 and 7, and ours."""
    text = "SG with non-uniform sampling is similar to SG (distance, factor 2)"
    yield _pairs(text, NOTE, found, _ends("SGD-NUS", "SGD", passes), _is_similar, ".2g")
    for method in ("SAG", "SAG-NUS*"):
        saga = method.replace("SAG", "SAGA", 1) + ", SAG's step"
        text = f"SAGA is very similar to {method} (passes to 1e-2, factor 1.5)"
        yield _pairs(text, NOTE, found, _reach(saga, method, 1e-2), _is_as_soon)
        text = "... and in the end (distance, factor 2)"
        yield _pairs(text, NOTE, found, _ends(saga, method, passes), _is_similar, ".2g")
    reach = _reach("SVRG", "SAG", 0.1)
    half = [2.0 / SIMILAR, 2.0 * SIMILAR]
    faster = [SHORT[k] for k, own in found.items() if np.divide(*reach(own)) < half[0]]
    text = "SVRG is similar to SAG at half speed, or slightly worse (passes to 0.1, factor 1.5)"
    why = f"faster on {', '.join(faster)}" if faster else ""
    near = lambda a, b: half[0] * b <= a <= half[1] * b  # noqa: E731
    yield _pairs(text, "§7", found, reach, near, why=why)
    for text, where, other in (
        ("Halving L_i as SAG-NUS does costs many line searches (a step, twice SAG-NUS*'s)", "§5",
         "SAG-NUS"),
        ("Skipping drastically reduces later line searches (a step, half)", "§5.2",
         "SAG-NUS*, no skipping"),
    ):  # fmt: skip
        late = lambda own, other=other: [own["searches"][k] for k in (other, "SAG-NUS*")]  # noqa: E731
        yield _pairs(text, where, found, late, lambda a, b: a > MARGIN * b, ".2g")
    for text, first, second in (
        ("The package's schedule saves", "SAG-NUS*, package", "SAG-NUS*"),
        ("The package's OEG saves", "OEG, package", "OEG"),
    ):
        text = f"(Ours) {text} a tenth of the passes to {LEVEL:g}"
        yield _pairs(text, "", found, _reach(first, second, LEVEL), lambda a, b: a < TENTH * b)


def _footnote_claims(found, passes):
    """Of footnotes 1, 6 and 7 and sections 3 and 5, where they were run."""
    curves = [own["curves"] for own in found.values()]
    if all(AVERAGED in own for own in curves):
        text = "Pegasos without averaging is always better than with"
        yield _nearer(text, "footnote 6", found, "Pegasos", [AVERAGED], [passes])
    for method in ("SGD", "ASG"):
        rivals = [f"{method}, {name}" for name in DECREASING]
        if all(rivals[0] in own for own in curves):
            text = f"{method} with constant steps is better than with decreasing ones"
            yield _nearer(text, "footnote 7", found, method, rivals, [passes])
    if all(KEPT in own for own in curves):
        text = "That the L_i may fall seems crucial (SAG-NUS of 2013, passes to 1e-2, a fifth)"
        reach = _reach("SAG-NUS", KEPT, 1e-2)
        is_crucial = lambda a, b: a < FIFTH * b  # noqa: E731
        row = _pairs(text, "§5", found, reach, is_crucial)
        helped = [SHORT[name] for name, own in found.items() if is_crucial(*reach(own))]
        why = "of SAG-NUS*; here the SAG-NUS of 2013, where it helps on "
        why += f"{', '.join(helped)} only" if helped else "no task"
        yield row._replace(holds=UNTESTED, why=why)
    if not all("weak" in own for own in found.values()):
        return

    def growth(own):
        for name in ("OEG", "SAG-NUS*"):
            weak, reach = own["weak"][name], _reach(name, name, 1e-2)(own)[0]
            yield (np.inf if weak is None else weak) / (reach if np.isfinite(reach) else np.nan)

    text = f"OEG degrades more than SAG-NUS* where lambda is small ({1 / WEAK:g} / n: times the "
    yield _pairs(f"{text}passes to 1e-2)", "§3", found, growth, lambda a, b: a > b, ".2g")
    text = f"A path of lambda gains by warm starts (passes of the last fit to {LEVEL:g}, crf_path)"
    path = lambda own: own["path"]  # noqa: E731
    yield _pairs(text, "footnote 1", found, path, lambda a, b: a < b)


def _bound_claims(bounds):
    """Proposition 1."""
    samplings = {"a": "any p_i > 0", "b": "p_i by L_i and a second, uniform sample"}
    for part, own in bounds.items():
        ratio = np.divide(own["distance"], own["bound"])
        text = f"SAGA with {samplings[part]} has a linear rate (the bound holds after each pass)"
        half = ratio.size // 2
        cells = f"distance over bound at most {ratio.max():.2g}, {ratio[half]:.1e} in pass {half}"
        yield Claim(text, f"proposition 1 ({part})", cells, held([ratio.max() <= 1.0]))


def _row(text, where, cells, outcomes, why="", often=False, several=False, places=()):
    """A claim, and where it does not hold; "often" is on half of the tasks, which are several.

    Outcomes that are None are not known: neither method came so far.
    """
    ours = "; ".join(f"{SHORT[k]} {v}" for k, v in cells.items())
    if (often or several) and len(cells) < 2:
        return Claim(text, where, ours, UNTESTED, SEVERAL)
    known = {SHORT[k]: np.ravel(v).tolist() for k, v in outcomes.items() if v is not None}
    missed = [title for title, own in known.items() if not all(own)]
    for k, title in enumerate(missed if len(places) > 1 else ()):
        when = [str(p) for p, holds in zip(places, known[title], strict=True) if not holds]
        missed[k] = f"{title} ({'/'.join(when)})"
    flat = [outcome for own in known.values() for outcome in own]
    holds = held(flat) if flat else UNTESTED
    if often and len(missed) <= len(known) // 2:
        holds = HELD[0]
    partly = holds == HELD[1] or (often and len(missed) > 0)
    return Claim(text, where, ours, holds, _both(f"not on {', '.join(missed)}" * partly, why))


def _both(*reasons):
    return "; ".join(reason for reason in reasons if reason)


def _told(value, shown=".0f"):
    """Passes, or seconds, in words."""
    return format(value, shown) if np.isfinite(value) else "never"


def _reach(first, second, level, by="curves"):
    """Passes or seconds of two methods to a level."""
    return lambda own: [first_below(own[by][k], level * own["optimum"]) for k in (first, second)]


def _ends(first, second, passes):
    """Distances of two methods after so many passes."""
    return lambda own: [at(own["curves"][k], passes) for k in (first, second)]


def _costs(first, second):
    """Milliseconds a pass."""
    return lambda own: [
        1e3 * own["clock"][k][0][-1] / own["curves"][k][0][-1] for k in (first, second)
    ]


def _is_similar(a, b):
    return max(a, b) <= MARGIN * min(a, b)


def _is_as_soon(a, b):
    return a <= SIMILAR * b


def _pairs(text, where, found, values, is_so, shown=".0f", **more):
    """A claim on two numbers of each task; where neither is finite nothing is known."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        a, b = values(own)
        cells[name] = f"{_told(a, shown)}/{_told(b, shown)}"
        known = np.isfinite([a, b]).any() and not np.isnan([a, b]).any()
        outcomes[name] = is_so(a, b) if known else None
    return _row(text, where, cells, outcomes, **more)


def _nearer(text, where, found, own, rivals, places, margin=1.0, **more):
    """Whether a method, or the last of several, is nearer than the first of its rivals."""
    cells, outcomes = {}, {}
    for task, result in found.items():
        curves, told, outcomes[task] = result["curves"], [], []
        for passes in places:
            ends = {name: at(curve, passes) for name, curve in curves.items()}
            ours = own if isinstance(own, str) else max(own, key=ends.get)
            rival = min((name for name in rivals if name in ends), key=ends.get)
            reach = [first_below(curves[name], LEVEL * result["optimum"]) for name in (ours, rival)]
            # Both may have come to where the optimum is no longer known.
            outcomes[task].append((margin * ends[ours], reach[0]) < (ends[rival], reach[1]))
            told.append(f"{ends[ours]:.1e}/{ends[rival]:.1e}")
            told[-1] += f" {rival}" * (len(rivals) > 1)
        cells[task] = ", ".join(told)
    text = f"{text} (after {'/'.join(map(str, places))} passes)"
    return _row(text, where, cells, outcomes, places=places, **more)


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
        cells[name] = "/".join(told)
    text = "None of ASG, Hybrid and SAG dominates: ranks depend on the task and the rate (the best "
    text += f"after {places[0]} and {places[1]} passes, with ASG's best or second rate)"
    return _row(text, BULLETS[3], cells, dict.fromkeys(cells, len(winners) > 1), several=True)


def _oeg_claim(found, passes):
    """OEG by task."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        ends = {k: at(own["curves"][k], passes) for k in ("OEG", *PRIMAL) if k in own["curves"]}
        rival = min((k for k in ends if k != "OEG"), key=ends.get)
        cells[name] = f"{ends['OEG']:.1e}/{ends[rival]:.1e} {rival}"
        outcomes[name] = (ends["OEG"] < ends[rival]) == (name in FIRST_TWO)
    text = "OEG is very good on the first two tasks, less so on the last two (nearer than all but "
    return _row(f"{text}SAG-NUS)", BULLETS[4], cells, outcomes, several=True)


def _standard_error(error, nodes):
    """Of a share of nodes in percent."""
    share = error / 100.0
    return 100.0 * np.sqrt(share * (1.0 - share) / nodes)


def _error_claim(text, where, found, rivals, places, **more):
    """Test error: whether the worse SAG-NUS method is as good as the best of the others."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        told, outcomes[name] = [], []
        for passes in places:
            ends = {k: at(own["errors"][k], passes) for k in (*NUS, *rivals) if k in own["errors"]}
            best = min((k for k in ends if k not in NUS), key=ends.get)
            enough = ends[best] + _standard_error(ends[best], own["nodes"])
            outcomes[name].append(max(ends[k] for k in NUS) <= enough)
            told.append("/".join(f"{ends[k]:.2f}" for k in (*NUS, best)) + f" {best}")
        cells[name] = ", ".join(told)
    text += f" (after {'/'.join(map(str, places))} passes)"
    return _row(text, where, cells, outcomes, places=places, **more)


def _strength_claim(found):
    """Whether the optimum has about the least error that any curve has."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        drawn = [*FIGURE, *(k + SECOND for k in STOCHASTIC)]  # others are not in the results
        least = {k: min(y) for k, (_, y) in own["errors"].items() if k in drawn}
        best = min(least, key=least.get)
        passes = first_below(own["errors"][best], least[best])
        cells[name] = f"{own['error']:.2f}/{least[best]:.2f} {best} {passes:.0f}"
        outcomes[name] = least[best] >= TENTH * own["error"]
    text = "lambda = 1 / n is close to optimal for test errors on all sets (no curve of figures "
    text += "2 and 3 has a tenth fewer than the optimum, %)"
    return _row(text, "§6", cells, outcomes, "other lambdas are not run", several=True)


def _speed_claim(found):
    """Passes to the test error of the optimum, within a standard error."""
    cells, outcomes, sooner = {}, {}, []
    for name, own in found.items():
        level = own["error"] + _standard_error(own["error"], own["nodes"])
        reach = {k: first_below(own["errors"][k], level) for k in ("SAG-NUS*", "ASG", "AdaGrad")}
        rival = min(("ASG", "AdaGrad"), key=reach.get)
        cells[name] = f"{_told(reach[rival])} {rival}/{_told(reach['SAG-NUS*'])}"
        late = not reach[rival] <= MARGIN * reach["SAG-NUS*"]
        early = reach[rival] < reach["SAG-NUS*"] / MARGIN
        outcomes[name] = late if name == "ocr" else not late and not early
        if early:
            sooner.append(SHORT[name])
    text = "The better of AdaGrad and ASG takes about the passes of SAG-NUS* to the optimum's test "
    text += "error, much more on OCR (factor 2)"
    why = f"less than half on {', '.join(sooner)}" if sooner else ""
    return _row(text, AFTER, cells, outcomes, why, several=True)


def _sensitivity_claim(found, method, passes):
    """The second-best rate."""

    def errors(own):
        return [at(own["errors"][method + k], passes) for k in (SECOND, "")]

    outcomes = {}
    for name, own in found.items():
        two, one = errors(own)
        outcomes[name] = two > one + _standard_error(one, own["nodes"])
    text = f"{method} has a much higher test error with its second-best rate (%, by a standard "
    text += f"error, after {passes} passes)"
    cells = {k: "/".join(f"{v:.2f}" for v in errors(own)) for k, own in found.items()}
    return _row(text, f"{AFTER}, figure 2", cells, outcomes)


def _pegasos_claim(found, places):
    """Pegasos in figure 3."""
    cells, outcomes = {}, {}
    for name, own in found.items():
        told, outcomes[name] = [], []
        for passes in places:
            ends = {k: at(own["errors"][k], passes) for k in FIGURE if k in own["errors"]}
            ends = {k: error for k, error in ends.items() if np.isfinite(error)}
            rival = max((k for k in ends if k != "Pegasos"), key=ends.get)
            outcomes[name].append(ends["Pegasos"] > ends[rival])
            told.append(f"{ends['Pegasos']:.1f}/{ends[rival]:.1f} {rival}")
        cells[name] = ", ".join(told)
    text = "Pegasos performs very poorly in test error, beyond the plot (the worst, %, after "
    text += f"{'/'.join(map(str, places))} passes)"
    return _row(text, "appendix C, §6", cells, outcomes, places=places)


def _memory_claim(rows):
    """The memory of SAG."""
    cells, outcomes = {}, {}
    for name, row in rows.items():
        shares = {key: value / row["naive"] for key, value in row.items() if key != "naive"}
        cells[name] = "/".join(f"{share:.1e}" for share in shares.values())
        outcomes[name] = shares["mixed"] == min(shares.values())
    text = "Memory over naive SAG's: sparse/marginals/mixed (mixed is the smallest)"
    return _row(text, "§6, table", cells, outcomes)


# Results.


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
        table.writerow([f"Passes to {LEVEL:g}", *(SHORT[task] for task in found)])
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
