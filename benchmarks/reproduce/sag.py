"""Schmidt et al. 2015, figures 1 and 2, and the memory of section 3: training of chain CRFs.

    python benchmarks/reproduce/sag.py --data FOLDER [--quick | --full] [--tasks ocr ...]

Objective minus optimum, and test error, against passes (oracle calls and forward passes of line
searches over n) with lambda = 1 / n. The optimum is the smallest objective that any run found, one
of them to a certified gap of 1e-7. Constant rates and AdaGrad's are the best of a grid after a few
passes, by the training objective. Without --full: 1,000 sentences, two folds of OCR letters. With
--methods only these are run, the others are those of the results that are there.
"""

from __future__ import annotations

import json
import time

import _paths  # noqa: F401
import frame
import numpy as np
from baselines import BaselineCRF
from frame import Claim, Panel, at, first_below, verdict
from runs import Watch
from scipy import sparse
from tasks import conll2000, dutch, ocr, treebank

from skstruct import SAGCRF, RaggedArray
from skstruct.solvers import hybrid

# "auto" would begin with exponentiated gradients on words: the figure is of SAG.
hybrid._MANY = np.inf

PAPER = "Schmidt, Babanezhad, Ahmed, Defazio, Clifton, Sarkar 2015, figures 1 and 2"
GRID = {"sgd": (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0), "adagrad": (0.03, 0.1, 0.3, 1.0)}
GRID["asg"] = GRID["sgd"]
STOCHASTIC = "SGD", "ASG", "AdaGrad"
LEVEL = 1e-3  # of the optimum, for passes


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
    yield "SAG", SAGCRF(solver="sag", **uniform, **sag)
    yield "SAG-NUS", SAGCRF(solver="sag", line_search="always", **sag)
    yield "SAG-NUS*", SAGCRF(solver="sag", **sag)
    yield "SAGA-NUS*", SAGCRF(solver="saga", **sag)
    yield "Pegasos", BaselineCRF("pegasos", max_iter=passes, random_state=0)
    for name in STOCHASTIC:
        yield name, BaselineCRF(name.lower(), max_iter=passes, random_state=0)
    yield "OEG", BaselineCRF("oeg", max_iter=passes, random_state=0)
    yield "L-BFGS", SAGCRF(solver="lbfgs", max_iter=passes, tol=0.0)
    yield "SAG, then L-BFGS", SAGCRF(max_iter=passes, tol=1e-6, track_objective=True)


def tuned(model, task, passes):
    """The model with the rate of smallest objective after some passes."""
    found = {}
    for rate in GRID[model.method]:
        trial = BaselineCRF(model.method, rate, max_iter=passes, random_state=0)
        try:
            found[rate] = float(trial.fit(task.train.X, task.train.y).history_["objective"][-1])
        except FloatingPointError:  # too large a rate
            found[rate] = np.inf
    return model.set_params(rate=min(found, key=found.get))


def optimum(task):
    """The objective and its lower bound, to a relative gap of 1e-7."""
    model = SAGCRF(solver="lbfgs", max_iter=2000, tol=1e-7).fit(task.train.X, task.train.y)
    return model.objective_, model.dual_objective_


def run(task, passes, trial, before=None, only=None):
    """Methods on a task: objectives and errors by passes; others than `only` are as before."""
    best, bound = optimum(task) if before is None else (before["optimum"], before["bound"])
    n_test = min(500, len(task.test.X))
    X_test, y_test = task.test.X[:n_test], np.asarray(task.test.y[:n_test].flat)

    def measure(model):
        return 100.0 * float(np.mean(np.concatenate(list(model.predict(X_test))) != y_test))

    objectives, errors, rates = {}, {}, {} if before is None else before["rates"]
    for name, model in methods(passes):
        if only is not None and name not in only:
            x, y = before["curves"][name]
            objectives[name] = np.array(x), (1.0 + np.array(y)) * before["optimum"]
            errors[name] = before["errors"][name]
            continue
        start = time.process_time()
        if name in STOCHASTIC:
            rates[name] = tuned(model, task, trial).rate
        watch = Watch(measure)
        model.set_callbacks(watch).fit(task.train.X, task.train.y)
        own, values = model.history_["passes"], model.history_["objective"]
        known = np.isfinite(values) & (own <= 1.05 * passes)
        best = min(best, values[known].min())
        objectives[name] = own[known], values[known]
        seen = [k for k in watch.epochs if own[k] <= 1.05 * passes]
        errors[name] = [own[seen], np.array(watch.values)[: len(seen)]]
        spent, end = time.process_time() - start, values[known][-1]
        print(f"  {name}: {end:.6f}, error {watch.values[-1]:.2f} %, {spent:.1f} s", flush=True)
    curves = {
        name: frame.thin(x, np.maximum(values / best - 1.0, 1e-9))
        for name, (x, values) in objectives.items()
    }
    errors = {name: frame.thin(*pair) for name, pair in errors.items()}
    found = {"optimum": best, "bound": bound, "rates": rates, "nodes": len(y_test)}
    return found | {"curves": curves, "errors": errors}


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
    yield _objective_claim(curves, passes)
    yield _sampling_claim(curves)
    yield _search_claim(curves)
    yield _early_claim(curves)
    yield _pegasos_claim(curves, passes)
    yield _error_claim(found, passes)
    if rows:
        yield _memory_claim(rows)


def _objective_claim(curves, passes):
    """Objective."""
    cells, outcomes, why = [], [], []
    for name, own in curves.items():
        ends = {k: at(v, passes) for k, v in own.items() if k not in ("SAGA-NUS*", "SAG-NUS")}
        rival = min((k for k in ends if not k.startswith("SAG")), key=ends.get)
        outcomes.append(ends["SAG-NUS*"] < ends[rival])
        cells.append(
            f"{TITLES[name]}: {ends['SAG-NUS*']:.1e}, best rival {rival} {ends[rival]:.1e}"
        )
        if not outcomes[-1]:
            reach = [first_below(own[k], LEVEL) for k in ("SAG-NUS*", rival)]
            why.append(f"{TITLES[name]}: passes to {LEVEL:g} {reach[0]:.0f} against {reach[1]:.0f}")
    return Claim(
        f"SAG-NUS* is nearer to the optimum than all earlier methods (after {passes} passes)",
        "abstract, figure 1", "; ".join(cells), verdict(outcomes), "; ".join(why),
    )  # fmt: skip


def _compare(curves, first, second, level):
    """Passes of two methods to a level: cells, and where the first needs fewer."""
    cells, outcomes = [], []
    for name, own in curves.items():
        a, b = (first_below(own[k], level) for k in (first, second))
        cells.append(f"{TITLES[name]}: {a:.0f} against {b:.0f}".replace("inf", "not reached"))
        outcomes.append(a < b)
    return "; ".join(cells), verdict(outcomes)


def _sampling_claim(curves):
    """Non-uniform sampling."""
    cells, holds = _compare(curves, "SAG-NUS*", "SAG", 1e-2)
    text = "Non-uniform sampling substantially improves on uniform SAG (passes to 1e-2)"
    return Claim(text, "abstract, section 4", cells, holds)


def _search_claim(curves):
    """The line search."""
    cells, holds = _compare(curves, "SAG-NUS*", "SAG-NUS", LEVEL)
    text = f"Skipping line searches after successes saves passes (NUS* against NUS, to {LEVEL:g})"
    return Claim(text, "section 3", cells, holds)


def _early_claim(curves):
    """The first passes."""
    cells, outcomes = [], []
    for name, own in curves.items():
        ends = {k: at(own[k], 5) for k in (*STOCHASTIC, "L-BFGS")}
        best = min(STOCHASTIC, key=ends.get)
        cells.append(f"{TITLES[name]}: {best} {ends[best]:.2g}, L-BFGS {ends['L-BFGS']:.2g}")
        outcomes.append(ends[best] < ends["L-BFGS"])
    text = "Tuned stochastic gradients lead L-BFGS in the first passes (after 5)"
    return Claim(text, "introduction, figure 1", "; ".join(cells), verdict(outcomes))


def _pegasos_claim(curves, passes):
    """The steps of Pegasos."""
    cells, outcomes, why = [], [], []
    for name, own in curves.items():
        ends = {k: at(own[k], passes) for k in (*STOCHASTIC, "Pegasos")}
        worst = max(STOCHASTIC, key=ends.get)
        cells.append(f"{TITLES[name]}: {ends['Pegasos']:.2g}, worst other {ends[worst]:.2g}")
        outcomes.append(ends["Pegasos"] > ends[worst])
        if not outcomes[-1]:
            early = [at(own[k], 3) for k in ("Pegasos", worst)]
            why.append(f"{TITLES[name]}: after 3 passes {early[0]:.2g} against {early[1]:.2g}; "
                       f"{worst} stays near its noise")  # fmt: skip
    text = f"Steps of Pegasos are worse than all tuned ones (after {passes} passes)"
    return Claim(text, "figure 1", "; ".join(cells), verdict(outcomes), "; ".join(why))


def _error_claim(found, passes):
    """Test error."""
    cells, outcomes, why = [], [], []
    for name, own in found.items():
        ends = {k: at(v, passes) for k, v in own["errors"].items()}
        best = min(STOCHASTIC, key=ends.get)
        share = ends[best] / 100.0
        room = 100.0 * np.sqrt(share * (1.0 - share) / own["nodes"])
        outcomes.append(ends["SAG-NUS*"] <= ends[best] + room)
        cells.append(f"{TITLES[name]}: {ends['SAG-NUS*']:.2f} %, {best} {ends[best]:.2f} %")
        if not outcomes[-1]:
            rest = at(own["curves"][best], passes)
            why.append(f"{TITLES[name]}: so does the optimum, {ends['SAG, then L-BFGS']:.2f} %; "
                       f"{best} is {100 * rest:.2g} % above it, which regularises")  # fmt: skip
    text = "Test error is as good as that of tuned stochastic gradients (within a standard error)"
    return Claim(text, "abstract, figure 2", "; ".join(cells), verdict(outcomes), "; ".join(why))


def _memory_claim(rows):
    """The memory of SAG."""
    cells, outcomes = [], []
    for name, row in rows.items():
        dense, compact, marginals = row.values()
        cells.append(f"{name}: {dense:,.0f} / {compact:,.0f} / {marginals:,.0f} MB")
        outcomes.append(marginals < min(dense, compact))
    text = "Marginals take less memory than gradients (dense / sparse / marginals, all samples)"
    return Claim(text, "section 3", "; ".join(cells), verdict(outcomes))


def panels(found):
    """Four panels of objectives, four of errors."""
    for name, result in found.items():
        title, curves = TITLES[name], result["curves"]
        yield Panel(f"{title}: objective", "passes", "relative distance from optimum", curves)
        least = min(min(y) for _, y in result["errors"].values())
        own = result["errors"], "", 1.6 * least
        yield Panel(f"{title}: test", "passes", "error of nodes, %", *own)


def _earlier(args):
    """By task what the results that are there have."""
    found = json.loads((args.out / "sag.json").read_text())
    panels = {panel["title"]: panel["curves"] for panel in found["panels"]}
    for name, result in found["tasks"].items():
        own = {"rates": found["rates"][name], **result}
        title = TITLES[name]
        yield (
            name,
            own | {"curves": panels[f"{title}: objective"], "errors": panels[f"{title}: test"]},
        )


def main(argv=None):
    """Both figures and the table."""
    args = frame.arguments(__doc__, TASKS, argv, methods=[name for name, _ in methods(1)])
    passes, trial = (6, 2) if args.quick else (60, 8)
    limits = {"ocr": None if args.full else 1300}
    rest = None if args.full else 1000
    found, before = {}, dict(_earlier(args)) if args.methods else {}
    for name in args.tasks:
        print(TITLES[name], flush=True)
        task = TASKS[name](args.data, 40 if args.quick else limits.get(name, rest))
        found[name] = run(task, passes, trial, before.get(name), args.methods)
    rows = {} if args.quick else memory(args.data)
    more = {"memory": rows, "rates": {name: result["rates"] for name, result in found.items()}}
    kept = "optimum", "bound", "nodes"
    more["tasks"] = {name: {key: result[key] for key in kept} for name, result in found.items()}
    drawn = list(panels(found))
    return frame.write("sag", args, PAPER, drawn, list(claims(found, rows, passes)), **more)


if __name__ == "__main__":
    main()
