"""Schmidt et al. 2015, figures 1 and 2, and the memory of its marginals: training of chain CRFs.

    python benchmarks/reproduce/sag.py --data FOLDER [--quick | --full] [--tasks ocr ...]

Objective minus optimum, and test error, against passes (oracle calls and forward passes of line
searches over n) with lambda = 1 / n. The optimum is the smallest objective that any run found, one
of them to a certified gap of 1e-8, below which nothing is shown. Constant rates and AdaGrad's are
the best of a grid, by the training objective in the end. Without --full: 1,000 sentences, two folds
of OCR letters.
"""

from __future__ import annotations

import csv
import time

import _paths  # noqa: F401
import frame
import numpy as np
from baselines import BaselineCRF
from frame import Claim, Panel, at, first_below, verdict
from runs import Watch
from scipy import sparse
from sklearn.base import clone
from tasks import conll2000, dutch, ocr, treebank

from skstruct import SAGCRF, RaggedArray

PAPER = "Schmidt, Babanezhad, Ahmed, Defazio, Clifton, Sarkar 2015, figures 1 and 2"
GRID = {"sgd": (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0), "adagrad": (0.03, 0.1, 0.3, 1.0)}
GRID["asg"] = GRID["sgd"]
STOCHASTIC = "SGD", "ASG", "AdaGrad"
PRIMAL = "Pegasos", *STOCHASTIC, "L-BFGS"
LEVEL = 1e-3  # of the optimum, for passes
CERTIFIED = 1e-8  # the gap to which the optimum is known
# Where the paper says it; its text was not at hand, the abstract was.
ABSTRACT, UNCHECKED = "abstract", "unverified"


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


def methods(passes):
    """The curves of the figures: names and models without rates."""
    sag = {"max_iter": passes, "tol": 0.0, "track_objective": True, "random_state": 0}
    uniform = {"sampling": "uniform", "line_search": "always"}
    # Late epochs of OEG leave samples out, and are less than a pass.
    dual = {**sag, "max_iter": 3 * passes // 2}
    yield "SAG", SAGCRF(solver="sag", **uniform, **sag)
    yield "SAG-NUS", SAGCRF(solver="sag", line_search="always", **sag)
    yield "SAG-NUS*", SAGCRF(solver="sag", **sag)
    yield "SAGA-NUS*", SAGCRF(solver="saga", **sag)
    yield "Pegasos", BaselineCRF("pegasos", max_iter=passes, random_state=0)
    for name in STOCHASTIC:
        yield name, BaselineCRF(name.lower(), max_iter=passes, random_state=0)
    yield "OEG", SAGCRF(solver="oeg", **dual)
    yield "L-BFGS", SAGCRF(solver="lbfgs", max_iter=passes, tol=0.0)
    yield "hybrid (default)", SAGCRF(**{**dual, "tol": 10 * CERTIFIED})


def tuned(model, task):
    """The model with the rate of smallest objective in the end."""
    found = {}
    for rate in GRID[model.method]:
        trial = clone(model).set_params(rate=rate)
        try:
            found[rate] = float(trial.fit(task.train.X, task.train.y).history_["objective"][-1])
        except FloatingPointError:  # too large a rate
            found[rate] = np.inf
    return model.set_params(rate=min(found, key=found.get))


def run(task, passes):
    """All methods on a task: distances from the optimum and errors by passes."""
    y_test = np.asarray(task.test.y.flat)

    def measure(model):
        return 100.0 * float(np.mean(np.concatenate(list(model.predict(task.test.X))) != y_test))

    model = SAGCRF(max_iter=2000, tol=CERTIFIED, random_state=0).fit(task.train.X, task.train.y)
    best, known = model.objective_, {"bound": model.dual_objective_, "error": measure(model)}
    objectives, errors, rates = {}, {}, {}
    for name, model in methods(passes):
        start = time.process_time()
        if name in STOCHASTIC:
            rates[name] = tuned(model, task).rate
        watch = Watch(measure)
        model.set_callbacks(watch).fit(task.train.X, task.train.y)
        own, values = model.history_["passes"], model.history_["objective"]
        kept = np.isfinite(values) & (own <= 1.05 * passes)
        objectives[name] = own[kept], values[kept]
        seen = [k for k in watch.epochs if own[k] <= 1.05 * passes]
        errors[name] = own[seen], np.array(watch.values)[: len(seen)]
        best = min(best, values[kept].min())
        spent, end = time.process_time() - start, values[kept][-1]
        print(f"  {name}: {end:.6f}, error {watch.values[-1]:.2f} %, {spent:.1f} s", flush=True)
    curves = {
        name: (x, np.maximum(values / best - 1.0, CERTIFIED))
        for name, (x, values) in objectives.items()
    }
    known |= {"optimum": best, "rates": rates, "samples": len(task.train.X), "nodes": len(y_test)}
    return known | {"curves": curves, "errors": errors}


def memory(data):
    """Megabytes for the gradients of all samples of the full tasks: as what, and how many."""
    rows = {}
    for name, read in TASKS.items():
        part = read(data, None).train
        n_labels, lengths = len(np.unique(part.y.flat)), np.asarray(part.X.lengths)
        X = part.X.flat
        n, weights = len(part.X), (X.shape[1] + 1) * n_labels + n_labels**2
        # Columns that a sample has at all: the rows of its gradient that are not zero.
        chain = np.repeat(np.arange(n), lengths)
        pattern = sparse.csr_matrix(
            (np.ones(X.nnz), (np.repeat(chain, np.diff(X.indptr)), X.indices)), (n, X.shape[1])
        )
        pattern.sum_duplicates()
        rows[TITLES[name]] = {
            "dense gradients": 8e-6 * n * weights,
            "sparse gradients": 8e-6 * ((pattern.nnz + n) * n_labels + n * n_labels**2),
            "marginals": 8e-6 * (lengths.sum() * n_labels + n * n_labels**2),
        }
    return rows


def claims(found, rows, passes):
    """What the paper says beside what was measured; `found` by task."""
    curves = {name: result["curves"] for name, result in found.items()}
    text = "SAG-NUS* is nearer to the optimum than {} (after {} passes)"
    primal = text.format("stochastic gradients and L-BFGS", passes)
    yield _objective_claim(primal, curves, passes, PRIMAL)
    dual = text.format("online exponentiated gradients, here those of the package", passes)
    yield _objective_claim(dual, curves, passes, ["OEG"])
    yield _sampling_claim(curves)
    yield _search_claim(curves)
    yield _early_claim(curves)
    yield _pegasos_claim(curves, passes)
    yield _error_claim(found, passes)
    if rows:
        yield _memory_claim(rows)


def _objective_claim(text, curves, passes, rivals):
    """Objective."""
    cells, outcomes, why = [], [], []
    for name, own in curves.items():
        ends = {k: at(own[k], passes) for k in ("SAG-NUS*", *rivals)}
        rival = min(rivals, key=ends.get)
        # Both may have come to where the optimum is no longer known.
        pair = [(ends[k], first_below(own[k], LEVEL)) for k in ("SAG-NUS*", rival)]
        outcomes.append(pair[0] < pair[1])
        cells.append(f"{TITLES[name]}: {ends['SAG-NUS*']:.1e}, {rival} {ends[rival]:.1e}")
        if not outcomes[-1]:
            reach = [_reached(own[k], LEVEL) for k in ("SAG-NUS*", rival)]
            why.append(f"{TITLES[name]}: passes to {LEVEL:g} {reach[0]} against {reach[1]}")
    return Claim(text, ABSTRACT, "; ".join(cells), verdict(outcomes), "; ".join(why))


def _reached(curve, level):
    """The passes to a level, in words."""
    return f"{first_below(curve, level):.0f}".replace("inf", "not reached")


def _compare(curves, first, second, level, share=1.0):
    """Passes of two methods to a level: cells, and where the first needs less than a share."""
    cells, outcomes = [], {}
    for name, own in curves.items():
        cells.append(" against ".join(_reached(own[k], level) for k in (first, second)))
        passes, rival = (first_below(own[k], level) for k in (first, second))
        outcomes[name] = passes < share * rival
    cells = "; ".join(f"{TITLES[k]}: {cell}" for k, cell in zip(curves, cells, strict=True))
    return cells, verdict(outcomes.values()), [k for k, holds in outcomes.items() if not holds]


def _sampling_claim(curves):
    """Non-uniform sampling."""
    cells, holds, less = _compare(curves, "SAG-NUS", "SAG", 1e-2, 0.8)
    text = "Non-uniform sampling substantially improves on uniform SAG (by a fifth, passes to 1e-2)"
    skipped = {name: _reached(curves[name]["SAG-NUS*"], 1e-2) for name in less}
    why = "; ".join(f"{TITLES[name]}: NUS* needs {skipped[name]}" for name in less)
    return Claim(text, ABSTRACT, cells, holds, why)


def _search_claim(curves):
    """The line search."""
    cells, holds, _ = _compare(curves, "SAG-NUS*", "SAG-NUS", LEVEL)
    text = f"Skipping line searches after successes saves passes (NUS* against NUS, to {LEVEL:g})"
    return Claim(text, UNCHECKED, cells, holds)


def _early_claim(curves):
    """The first passes."""
    cells, outcomes = [], []
    for name, own in curves.items():
        ends = {k: at(own[k], 5) for k in (*STOCHASTIC, "L-BFGS")}
        best = min(STOCHASTIC, key=ends.get)
        cells.append(f"{TITLES[name]}: {best} {ends[best]:.2g}, L-BFGS {ends['L-BFGS']:.2g}")
        outcomes.append(ends[best] < ends["L-BFGS"])
    text = "Tuned stochastic gradients lead L-BFGS in the first passes (after 5)"
    return Claim(text, UNCHECKED, "; ".join(cells), verdict(outcomes))


def _pegasos_claim(curves, passes):
    """The steps of Pegasos."""
    cells, outcomes, why = [], [], []
    for name, own in curves.items():
        ends = {k: at(own[k], passes) for k in (*STOCHASTIC, "Pegasos")}
        worst = max(STOCHASTIC, key=ends.get)
        rest = f"worst other {worst} {ends[worst]:.2g}"
        cells.append(f"{TITLES[name]}: {ends['Pegasos']:.2g}, {rest}")
        outcomes.append(ends["Pegasos"] > ends[worst])
        if not outcomes[-1]:
            half = passes // 2
            early = [f"{at(own[k], 3):.2g}, {at(own[k], half):.2g}" for k in ("Pegasos", worst)]
            why.append(f"{TITLES[name]}: after 3 and {half} passes {early[0]} against {early[1]}")
    text = f"Steps of Pegasos are worse than all tuned ones (after {passes} passes)"
    return Claim(text, UNCHECKED, "; ".join(cells), verdict(outcomes), "; ".join(why))


def _error_claim(found, passes):
    """Test error."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = {k: at(own["errors"][k], passes) for k in ("SAG-NUS*", *STOCHASTIC)}
        best = min(STOCHASTIC, key=ends.get)
        share = ends[best] / 100.0
        room = 100.0 * np.sqrt(share * (1.0 - share) / own["nodes"])
        outcomes.append(ends["SAG-NUS*"] <= ends[best] + room)
        cells.append(f"{TITLES[name]}: {ends['SAG-NUS*']:.2f} %, {best} {ends[best]:.2f} %")
        if not outcomes[-1]:
            rest = 100.0 * at(own["curves"][best], passes)
            why.append(f"{TITLES[name]}: the optimum has {own['error']:.2f} %; the objective of "
                       f"{best} is {rest:.2g} % above it")  # fmt: skip
    text = "Test error is as good as that of tuned stochastic gradients (within a standard error)"
    return Claim(text, ABSTRACT, "; ".join(cells), verdict(outcomes), "; ".join(why))


def _memory_claim(rows):
    """The memory of SAG."""
    cells, outcomes = [], []
    for name, row in rows.items():
        dense, compact, marginals = row.values()
        cells.append(f"{name}: {dense:,.0f} / {compact:,.0f} / {marginals:,.0f} MB")
        outcomes.append(marginals < min(dense, compact))
    text = "Marginals take less memory than gradients (dense / sparse / marginals, all samples)"
    return Claim(text, ABSTRACT, "; ".join(cells), verdict(outcomes))


def known(x, y):
    """A curve as far as the optimum is known."""
    end = np.argmax(y <= CERTIFIED) + 1 if (y <= CERTIFIED).any() else len(y)
    return x[:end], y[:end]


def panels(found):
    """Four panels of objectives, four of errors."""
    for name, result in found.items():
        title, errors = TITLES[name], result["errors"]
        errors = {key: frame.thin(*curve) for key, curve in errors.items()}
        curves = {key: frame.thin(*known(*curve)) for key, curve in result["curves"].items()}
        yield Panel(f"{title}: objective", "passes", "relative distance from optimum", curves)
        least = min(min(y) for _, y in errors.values())
        yield Panel(f"{title}: test", "passes", "error of nodes, %", errors, "x", 1.6 * least)


def write_reach(path, found):
    """A table of passes to `LEVEL`, methods by tasks."""
    names = next(iter(found.values()))["curves"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([f"Passes to {LEVEL:g}", *(TITLES[task] for task in found)])
        for name in names:
            reach = (_reached(own["curves"][name], LEVEL) for own in found.values())
            table.writerow([name, *reach])


def main(argv=None):
    """Both figures and the tables."""
    args = frame.arguments(__doc__, TASKS, argv)
    passes = 6 if args.quick else 60
    limits = {"ocr": None if args.full else 1300}
    rest = None if args.full else 1000
    found = {}
    for name in args.tasks:
        print(TITLES[name], flush=True)
        task = TASKS[name](args.data, 40 if args.quick else limits.get(name, rest))
        found[name] = run(task, passes)
    rows = {} if args.quick else memory(args.data)
    kept = "optimum", "bound", "error", "samples", "nodes", "rates"
    more = {"memory": rows}
    more["tasks"] = {name: {key: result[key] for key in kept} for name, result in found.items()}
    drawn = list(panels(found))
    results = frame.write("sag", args, PAPER, drawn, list(claims(found, rows, passes)), **more)
    write_reach(args.out / "sag_passes.csv", found)
    return results


if __name__ == "__main__":
    main()
