"""Schmidt et al. 2015, figures 1 to 5 and the table of memory: training of chain CRFs.

    python benchmarks/reproduce/sag.py --data FOLDER [--quick | --full] [--tasks ocr ...]

Objective minus optimum, and test error, against passes (oracle calls and forward passes of line
searches over n) and seconds, with lambda = 1 / n. The optimum is the smallest objective that any
run found, one of them to a certified gap of 1e-8, below which nothing is shown. Rates are powers of
ten, as in the paper, the best by the training objective in the end; "second rate" is the next best.
As in the paper SMD is not run on the last task. Without --full: 1,000 sentences, two folds of OCR
letters.
"""

from __future__ import annotations

import csv

import _paths  # noqa: F401
import frame
import numpy as np
import runs
from baselines import RATED, BaselineCRF
from frame import Claim, Panel, at, first_below, verdict
from scipy import sparse
from sklearn.base import clone
from tasks import conll2000, dutch, ocr, treebank

from skstruct import SAGCRF, RaggedArray

PAPER = "Schmidt, Babanezhad, Ahmed, Defazio, Clifton, Sarkar 2015, figures 1 to 5"
GRID = {"adagrad": (1e-2, 0.1, 1.0, 10.0), "smd": (1e-3, 1e-2, 0.1)}
GRID |= dict.fromkeys(("sgd", "asg", "sgd-nus"), (1e-3, 1e-2, 0.1, 1.0))
STOCHASTIC = "SGD", "ASG", "AdaGrad", "SMD"
PRIMAL = "Pegasos", *STOCHASTIC, "Hybrid", "L-BFGS", "SAG"
NUS = "SAG-NUS", "SAG-NUS*"
OURS = "SAG-NUS*, package", "OEG, package", "SAGCRF()"
SECOND = ", second rate"
LEVEL = 1e-3  # of the optimum, for passes
EARLY, SOME = 2, 10  # passes
CERTIFIED = 1e-8  # the gap to which the optimum is known
FIRST_TWO = "ocr", "conll2000"
# Panels of the two figures, and the places of the claims beside the first.
FIGURES, MORE, MAIN = ("objective", "test"), ("other methods", "runtime"), ("section 6", "abstract")
NOTE = "footnote 10"
BULLETS = [f"section 6, bullet {k}" for k in range(1, 7)]


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
    yield "SAG, small first L", plain("sag-small")
    yield "SAG-NUS*, no skipping", plain("sag-nus*-search")
    yield "SAG-NUS*, package", SAGCRF(solver="sag", **sag)
    yield "SAGA-NUS*, package", SAGCRF(solver="saga", **sag)
    yield "OEG, package", SAGCRF(solver="oeg", **dual)
    yield "SAGCRF()", SAGCRF(**{**dual, "tol": 10 * CERTIFIED})


def tuned(model, task):
    """Rates, that of the smallest objective in the end first, without those that overflow."""
    found = {}
    for rate in GRID[model.method]:
        trial = clone(model).set_params(rate=rate)
        try:
            found[rate] = float(trial.fit(task.train.X, task.train.y).history_["objective"][-1])
        except FloatingPointError:  # too large a rate
            continue
    return sorted(found, key=found.get)


def trials(passes, task, name):
    """Names and models; those that need a rate with the best one and with the second."""
    for method, model in methods(passes, name):
        if getattr(model, "method", None) not in RATED:
            yield method, model
            continue
        for suffix, rate in zip(("", SECOND), tuned(model, task), strict=False):
            yield method + suffix, clone(model).set_params(rate=rate)


def run(task, passes, name=None):
    """All methods on a task: distances from the optimum by passes and seconds, and errors."""
    y_test = np.asarray(task.test.y.flat)

    def measure(model):
        return 100.0 * float(np.mean(np.concatenate(list(model.predict(task.test.X))) != y_test))

    model = SAGCRF(max_iter=2000, tol=CERTIFIED, random_state=0).fit(task.train.X, task.train.y)
    best, known = model.objective_, {"bound": model.dual_objective_, "error": measure(model)}
    fits, errors, rates = {}, {}, {}
    for method, model in trials(passes, task, name):
        fit = runs.fit(model, task.train.X, task.train.y, measure)
        kept = np.isfinite(fit.objective) & (fit.passes <= 1.05 * passes)
        fits[method] = fit.passes[kept], fit.seconds[kept], fit.objective[kept]
        x, y = fit.measures()
        errors[method] = frame.thin(x[x <= 1.05 * passes], y[x <= 1.05 * passes])
        if getattr(model, "method", None) in RATED:
            rates[method] = model.rate
        best = min(best, fit.objective[kept].min())
        end = f"{fits[method][2][-1]:.6f}, error {errors[method][1][-1]:.2f} %"
        print(f"  {method}: {end}, {fits[method][1][-1]:.1f} s", flush=True)
    curves, clock = {}, {}
    for method, (x, seconds, values) in fits.items():
        curves[method], clock[method] = shortened(x, seconds, values / best - 1.0, passes)
    known |= {"optimum": best, "rates": rates, "samples": len(task.train.X), "nodes": len(y_test)}
    return known | {"curves": curves, "clock": clock, "errors": errors}


def shortened(x, seconds, y, passes):
    """What is drawn of a curve, by passes and by seconds: claims are made of nothing else."""
    stop = np.argmax(y <= CERTIFIED) + 1 if (y <= CERTIFIED).any() else len(y)
    x, seconds, y = x[:stop], seconds[:stop], np.maximum(y[:stop], CERTIFIED)
    marks = [np.argmax(y <= level) for level in (0.1, 1e-2, LEVEL)]
    marks += [np.searchsorted(x, 1.02 * after, side="right") - 1 for after in (EARLY, SOME, passes)]
    x, seconds, y = frame.thin(x, seconds, y, marks=np.maximum(marks, 0), points=16)
    return [x, y], [seconds, y]


def memory(data):
    """Megabytes for the memory of SAG on the full tasks, by what is stored of every sample."""
    return {TITLES[name]: stored(read(data, None).train) for name, read in TASKS.items()}


def stored(part):
    """The memory of section 6: naive, non-zero values, marginals, and nodes' with pair sums."""
    n_labels, lengths = len(np.unique(part.y.flat)), np.asarray(part.X.lengths)
    X, n = part.X.flat, len(part.X)
    # Columns that a sample has at all: the rows of its gradient that are not zero.
    chain = np.repeat(np.arange(n), lengths)
    pattern = sparse.csr_matrix(
        (np.ones(X.nnz), (np.repeat(chain, np.diff(X.indptr)), X.indices)), (n, X.shape[1])
    )
    pattern.sum_duplicates()
    nodes, edges = lengths.sum(), (lengths - 1).sum()
    return {
        "naive": 8e-6 * n * ((X.shape[1] + 1) * n_labels + n_labels**2),
        "sparse": 8e-6 * ((pattern.nnz + n) * n_labels + n * n_labels**2),
        "marginals": 8e-6 * (nodes * n_labels + edges * n_labels**2),
        "mixed": 8e-6 * (nodes * n_labels + n * n_labels**2),
    }


def claims(found, rows, passes):
    """What the paper says beside what was measured; `found` by task."""
    curves = {name: result["curves"] for name, result in found.items()}
    clock = {name: result["clock"] for name, result in found.items()}
    pegasos = "SG outperformed Pegasos, which moves away exponentially early on (after {} passes)"
    for after in (EARLY, passes):
        yield _nearer(pegasos.format(after), BULLETS[0], curves, after, "SGD", ["Pegasos"])
    text = f"ASG outperformed AdaGrad and SMD (in addition to SG) (after {passes} passes)"
    yield _nearer(text, BULLETS[1], curves, passes, "ASG", ["AdaGrad", "SMD", "SGD"])
    for after in (min(SOME, passes), passes):
        text = f"Hybrid outperformed L-BFGS (after {after} passes)"
        yield _nearer(text, BULLETS[2], curves, after, "Hybrid", ["L-BFGS"])
    yield _dominance_claim(curves, passes)
    yield _oeg_claim(curves, passes)
    last_two = {name: own for name, own in curves.items() if name not in FIRST_TWO}
    if last_two:
        text = f"OEG-10 is better on the two tasks where OEG is poor (after {passes} passes)"
        yield _nearer(text, "appendix D", last_two, passes, "OEG-10", ["OEG"])
    yield _permutation_claim(curves, passes)
    text = f"Both SAG-NUS methods outperform all others except OEG (after {passes} passes)"
    yield _nearer(text, BULLETS[5], curves, passes, NUS, PRIMAL)
    text = f"SAG-NUS* always outperforms SAG-NUS (after {passes} passes)"
    yield _nearer(text, BULLETS[5], curves, passes, "SAG-NUS*", ["SAG-NUS"])
    yield _error_claim(found, passes)
    yield _sensitivity_claim(found, min(SOME, passes))
    text = "SAG is virtually the same from an L a thousand times smaller (within a factor of 2)"
    pair = "SAG, small first L", "SAG"
    yield _similar(text, "section 6", curves, *pair, lambda curve: at(curve, passes))
    text = "SG with the proposed sampling is similar to SG (within 2; its line searches counted)"
    yield _similar(text, NOTE, curves, "SGD-NUS", "SGD", lambda curve: at(curve, passes))
    text = f"SAGA variants are very similar; here with the theory's step (passes to {LEVEL:g}, 1.5)"
    pair = "SAGA-NUS*, package", "SAG-NUS*"
    yield _similar(text, NOTE, curves, *pair, lambda curve: first_below(curve, LEVEL), 1.5)
    text = "AdaGrad is slightly worse in runtime (seconds a pass, against ASG)"
    yield _runtime(text, found, "AdaGrad", "ASG")
    text = "Hybrid is worse in runtime, but still faster than L-BFGS (seconds to 0.1)"
    yield _sooner(text, "appendix E", clock, "Hybrid", "L-BFGS", 0.1, digits=2)
    text = "OEG is much worse in runtime (seconds a pass, twice those of SAG-NUS*)"
    yield _runtime(text, found, "OEG", "SAG-NUS*", 2.0)
    text = "Non-uniform sampling improves on uniform SAG (by a fifth, passes to 1e-2)"
    yield _sooner(text, "abstract", curves, "SAG-NUS*", "SAG", 1e-2, 0.8)
    for text, first, second in (
        ("Skipping line searches saves passes (to {:g})", "SAG-NUS*", "SAG-NUS*, no skipping"),
        ("The package's schedule of steps saves passes (to {:g})", OURS[0], "SAG-NUS*"),
        ("The package's OEG needs fewer passes than the paper's (to {:g})", OURS[1], "OEG"),
    ):
        where = "section 5.2" if "Skip" in text else "(ours)"
        yield _sooner(text.format(LEVEL), where, curves, first, second, LEVEL)
    if rows:
        yield _memory_claim(rows)


def _nearer(text, where, curves, passes, own, rivals):
    """Whether a method, or the last of several, is nearer than the first of its rivals."""
    cells, outcomes, why = [], [], []
    for task, all_curves in curves.items():
        ends = {name: at(curve, passes) for name, curve in all_curves.items()}
        ours = own if isinstance(own, str) else max(own, key=ends.get)
        rival = min((name for name in rivals if name in ends), key=ends.get)
        reach = [first_below(all_curves[name], LEVEL) for name in (ours, rival)]
        # Both may have come to where the optimum is no longer known.
        outcomes.append((ends[ours], reach[0]) < (ends[rival], reach[1]))
        cells.append(f"{TITLES[task]}: {ours} {ends[ours]:.1e}, {rival} {ends[rival]:.1e}")
        if not outcomes[-1]:
            reach = [_reached(all_curves[name], LEVEL) for name in (ours, rival)]
            why.append(f"{TITLES[task]}: passes to {LEVEL:g} {reach[0]} against {reach[1]}")
    return Claim(text, where, "; ".join(cells), verdict(outcomes), "; ".join(why))


def _reached(curve, level, digits=0):
    """The passes, or seconds, to a level, in words."""
    return f"{first_below(curve, level):.{digits}f}".replace("inf", "not reached")


def _sooner(text, where, curves, first, second, level, share=1.0, digits=0):
    """Whether a method needs less than a share of what another needs to a level."""
    cells, outcomes = [], []
    for name, own in curves.items():
        reach = [_reached(own[k], level, digits) for k in (first, second)]
        cells.append(f"{TITLES[name]}: {reach[0]} against {reach[1]}")
        outcomes.append(first_below(own[first], level) < share * first_below(own[second], level))
    return Claim(text, where, "; ".join(cells), verdict(outcomes))


def _similar(text, where, curves, first, second, number, factor=2.0):
    """Whether the numbers of two methods are within a factor of each other."""
    cells, outcomes = [], []
    for name, own in curves.items():
        one, two = number(own[first]), number(own[second])
        cell = f"{one:.2g} against {two:.2g}".replace("inf", "not reached")
        cells.append(f"{TITLES[name]}: {cell}")
        outcomes.append(max(one, two) <= factor * min(one, two) < np.inf)
    return Claim(text, where, "; ".join(cells), verdict(outcomes))


def _dominance_claim(curves, passes):
    """The ranks of three methods."""
    cells, winners = [], set()
    for name, own in curves.items():
        found = []
        for asg in ("ASG", f"ASG{SECOND}"):
            names = [k for k in (asg, "Hybrid", "SAG") if k in own]
            found.append(min(names, key=lambda k, own=own: at(own[k], passes)))
        winners |= {k.removesuffix(SECOND) for k in found}
        cells.append(f"{TITLES[name]}: {found[0]}, with the second rate {found[1]}")
    text = f"None of ASG, Hybrid and SAG dominated the others (the best after {passes} passes)"
    return Claim(text, BULLETS[3], "; ".join(cells), verdict([len(winners) > 1]))


def _oeg_claim(curves, passes):
    """OEG by task."""
    cells, outcomes = [], []
    for name, own in curves.items():
        ends = {k: at(own[k], passes) for k in ("OEG", *PRIMAL) if k in own}
        rival = min(ends.keys() - {"OEG"}, key=ends.get)
        outcomes.append((ends["OEG"] < ends[rival]) == (name in FIRST_TWO))
        cells.append(f"{TITLES[name]}: {ends['OEG']:.1e}, {rival} {ends[rival]:.1e}")
    text = f"OEG was very good on the first two tasks, less so on the others (after {passes} passes"
    text += ", the best method but SAG-NUS)"
    return Claim(text, BULLETS[4], "; ".join(cells), verdict(outcomes))


def _permutation_claim(curves, passes):
    """OEG without a permutation."""
    ends = {k: [at(own[m], passes) for m in ("OEG-noRP", "OEG")] for k, own in curves.items()}
    cells = [f"{TITLES[k]}: {one:.1e} against {two:.1e}" for k, (one, two) in ends.items()]
    text = f"Without the permutation OEG is much worse (twice) on one task (after {passes} passes)"
    holds = verdict([any(one > 2.0 * two for one, two in ends.values())])
    return Claim(text, "appendix D", "; ".join(cells), holds)


def _standard_error(error, nodes):
    """Of a share of nodes in percent."""
    share = error / 100.0
    return 100.0 * np.sqrt(share * (1.0 - share) / nodes)


def _error_claim(found, passes):
    """Test error."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = {k: at(own["errors"][k], passes) for k in (*NUS, *PRIMAL) if k in own["errors"]}
        ours = max(NUS, key=ends.get)
        best = min(ends.keys() - {*NUS}, key=ends.get)
        outcomes.append(ends[ours] <= ends[best] + _standard_error(ends[best], own["nodes"]))
        cells.append(f"{TITLES[name]}: {ours} {ends[ours]:.2f} %, {best} {ends[best]:.2f} %")
        if not outcomes[-1]:
            rest = 100.0 * at(own["curves"][best], passes)
            why.append(f"{TITLES[name]}: the optimum has {own['error']:.2f} %; the objective of "
                       f"{best} is {rest:.2g} % above it")  # fmt: skip
    text = "Both SAG-NUS methods are among the best in test error (within a standard error)"
    return Claim(text, BULLETS[5], "; ".join(cells), verdict(outcomes), "; ".join(why))


def _sensitivity_claim(found, passes):
    """The second-best rates."""
    cells, outcomes = [], []
    for name, own in found.items():
        for method in ("ASG", "AdaGrad"):
            if method + SECOND not in own["errors"]:
                continue
            best, second = (at(own["errors"][method + k], passes) for k in ("", SECOND))
            outcomes.append(second > best + _standard_error(best, own["nodes"]))
            cells.append(f"{TITLES[name]}, {method}: {second:.2f} % against {best:.2f} %")
    text = f"ASG and AdaGrad predict worse with the second-best rate (after {passes} passes)"
    return Claim(text, "section 6, figure 2", "; ".join(cells), verdict(outcomes))


def _runtime(text, found, first, second, factor=1.0):
    """Seconds a pass."""
    cells, outcomes = [], []
    for name, own in found.items():
        each = [own["clock"][k][0][-1] / own["curves"][k][0][-1] for k in (first, second)]
        cells.append(f"{TITLES[name]}: {each[0]:.2g} against {each[1]:.2g}")
        outcomes.append(each[0] > factor * each[1])
    return Claim(text, "appendix E", "; ".join(cells), verdict(outcomes))


def _memory_claim(rows):
    """The memory of SAG."""
    cells, outcomes = [], []
    for name, row in rows.items():
        naive, *others = row.values()
        shares = [value / naive for value in others]
        cells.append(f"{name}: " + " / ".join(f"{share:.1e}" for share in shares))
        outcomes.append(shares[2] == min(shares))
    text = "Memory over that of naive SAG: sparse / marginals / mixed, which is least and ours"
    return Claim(text, "section 6, table", "; ".join(cells), verdict(outcomes))


def panels(found):
    """Objectives by passes and by seconds, errors, and what the paper leaves out of its figures."""
    for name, result in found.items():
        title, errors, curves = TITLES[name], result["errors"], result["curves"]
        figure = [k for k in (*NUS, *PRIMAL, "OEG") if k in curves]
        more = [k for k in curves if k not in figure]
        for what, x, chosen, table in (
            ("objective", "passes", figure, curves),
            ("other methods", "passes", [*NUS, "OEG", *more], curves),
            ("runtime", "CPU seconds", figure, result["clock"]),
        ):
            drawn = {key: table[key] for key in chosen}
            yield Panel(f"{title}: {what}", x, "relative distance from optimum", drawn)
        least = min(min(y) for _, y in errors.values())
        errors = {k: v for k, v in errors.items() if k in figure or k.endswith(SECOND)}
        yield Panel(f"{title}: test", "passes", "error of nodes, %", errors, "x", 1.6 * least)


def write_reach(path, found):
    """A table of passes to `LEVEL`, methods by tasks."""
    names = next(iter(found.values()))["curves"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([f"Passes to {LEVEL:g}", *(TITLES[task] for task in found)])
        for name in names:
            own = (result["curves"].get(name) for result in found.values())
            reach = ("not run" if curve is None else _reached(curve, LEVEL) for curve in own)
            table.writerow([name, *reach])


def main(argv=None):
    """The figures and the tables."""
    args = frame.arguments(__doc__, TASKS, argv)
    passes = 6 if args.quick else 60
    limits = {"ocr": None if args.full else 1300}
    rest = None if args.full else 1000
    found = {}
    for name in args.tasks:
        print(TITLES[name], flush=True)
        task = TASKS[name](args.data, 40 if args.quick else limits.get(name, rest))
        found[name] = run(task, passes, name)
    rows = {} if args.quick else memory(args.data)
    kept = "optimum", "bound", "error", "samples", "nodes", "rates"
    more = {"memory": rows}
    more["tasks"] = {name: {key: result[key] for key in kept} for name, result in found.items()}
    drawn, rows = list(panels(found)), list(claims(found, rows, passes))
    for name, what, own in (("sag", FIGURES, more), ("sag_more", MORE, {})):
        chosen = [panel for panel in drawn if panel.title.partition(": ")[2] in what]
        about = [row for row in rows if row.where.startswith(MAIN) == (name == "sag")]
        frame.write(name, args, PAPER, chosen, about, **own)
    write_reach(args.out / "sag_passes.csv", found)


if __name__ == "__main__":
    main()
