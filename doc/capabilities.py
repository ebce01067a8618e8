"""Write capabilities.rst: what each estimator does on each structure, found by trying it.

``python doc/capabilities.py`` writes the page beside this file, ``--check`` only compares. Kernels
run as plain Python on a few small samples: nothing is compiled.
"""

import os
import re
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"

import tempfile
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.base import clone

import skstruct
from skstruct import (
    Boxes,
    Candidates,
    Chain,
    Grid,
    Lattice,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    SemiChain,
    Tree,
    WordLattice,
)
from skstruct.core.sklearn_private import StrOptions
from skstruct.datasets import pack_shards
from skstruct.estimators.base import StructuredEstimator

PAGE = Path(__file__).with_suffix(".rst")
NO = "\N{EN DASH}"

# ValueErrors that mean never, rather than not with these values.
REFUSALS = "has no (constrained decoding|nodes with classes)"

# Structures by the inference that they choose. Two labels where a method knows no more.
STRUCTURES = [
    MultiClass(),
    MultiLabel(),
    MultiLabel("tree"),
    MultiLabel("full"),
    MultiLabel("full", inference="relaxed"),
    Chain(),
    Chain(edge_features=True),
    Chain(order=2),
    SemiChain(),
    Tree(),
    Pairwise(inference="tree"),
    Pairwise(inference="junction-tree"),
    Pairwise(inference="max-flow", attractive=True),
    Pairwise(inference="roof-dual"),
    Pairwise(inference="lp"),
    Pairwise(inference="tree-reweighted"),
    Grid(inference="junction-tree"),
    Grid(inference="max-flow", attractive=True),
    Grid(inference="lp"),
    Grid(inference="tree-reweighted"),
    Matching(),
    Matching(max_degree=2),
    Candidates(),
    Lattice(),
    WordLattice(["a", "aa"]),
    Boxes(),
]

# Parameters whose choices are algorithms of their own.
VARIANTS = ("solver", "smoothing")


def choices(kind, parameter):
    """Algorithms that a parameter of an estimator names."""
    for rule in kind._parameter_constraints.get(parameter, []):
        if isinstance(rule, StrOptions):
            return sorted(rule.options - {"auto"})
    return []


def estimators():
    """Estimators of the package with every algorithm that they have, by their names."""
    for name in skstruct.__all__:
        kind = getattr(skstruct, name)
        if not (isinstance(kind, type) and issubclass(kind, StructuredEstimator)):
            continue
        several = {p: choices(kind, p) for p in VARIANTS if len(choices(kind, p)) > 1}
        for given in product(*several.values()):
            options = dict(zip(several, given, strict=True))
            yield (name, ", ".join(given)), kind(**options, max_iter=1)


def samples(graph, sparse_X=False):
    """A few samples of the structure, without cycles or of two labels where it asks for that."""
    X, y = graph.example(np.random.default_rng(0), sparse_X)
    X, y = X[:3], y[:3]
    method = getattr(graph, "inference", None)
    if method == "tree":
        X = [(x[0], x[1][: x[0].shape[0] - 1], *x[2:]) for x in X]
    if method in ("max-flow", "roof-dual"):
        classes = np.unique(np.concatenate([np.ravel(labels) for labels in y]))
        y = [np.searchsorted(classes, labels) % 2 for labels in y]
    return X, y


def works(call):
    """Whether a call works. What is refused for good raises a TypeError, or says so."""
    try:
        call()
    except TypeError:
        return False
    except ValueError as error:
        if not re.search(REFUSALS, str(error)):
            raise
        return False
    return True


def fitted(estimator, graph, X, y):
    """The fitted estimator; None if it refuses the structure."""
    model = clone(estimator).set_params(graph=clone(graph))
    return model if works(lambda: model.fit(X, y)) else None


def masks(model, X, y):
    """What allows every label at every node."""
    packed = model.graph_.read_X(model, X, reset=False)
    n = model.graph_.labels_per_node(model.classes_)
    if model.graph_.is_table:
        return np.ones((*np.shape(y), n), dtype=bool)
    if model.graph_.has_items:  # a mask of what is scored
        shapes = [np.shape(scores) for scores in model.decision_function(X)]
    elif np.ndim(y[0]) > 1:
        shapes = [(*np.shape(labels), n) for labels in y]
    else:
        shapes = [(length, n) for length in packed.lengths]
    return [np.broadcast_to(True, shape) for shape in shapes]  # n may be billions


def answers(model, X, y):
    """Methods of prediction that a model answers, and how."""
    calls = {
        "predict": ("predict", model.inference_),
        "allowed labels": ("predict", model.inference_, masks(model, X, y)),
        "n best": ("predict_top_k", "exact", 2),
        "scores": ("decision_function", "exact"),
        "marginals": ("predict_marginals", model.inference_),
        "of pairs": ("predict_marginals", model.inference_, True),
        "likelihoods": ("predict_log_likelihood", model.inference_, y),
    }
    how = {}
    for name, (method, kind, *arguments) in calls.items():
        ask = getattr(model, method, None)
        can = ask is not None and works(lambda ask=ask, given=arguments: ask(X, *given))
        how[name] = kind if can else NO
    return how


def takes(graph, model, X, y):
    """What a structure takes beside dense features and whole labels."""
    sparse = not isinstance(X[0], str) and works(lambda: clone(model).fit(*samples(graph, True)))
    weights = [np.ones(np.shape(labels)) for labels in y]
    if graph.is_table:
        weights = np.ones(np.shape(y))
    weighted = works(lambda: clone(model).fit(X, y, node_weight=weights))
    with tempfile.TemporaryDirectory() as folder:
        packed = works(lambda: pack_shards(X, y, Path(folder, "shards"), graph=clone(graph)))
    bounded = getattr(graph, "inference", None) == "tree-reweighted"
    found = {
        "CSR features": sparse,
        "weights of nodes": weighted,
        "missing labels": graph.takes_partial_labels and not bounded,
        "shards": packed,
    }
    return {name: "yes" if is_so else NO for name, is_so in found.items()}


def trial(graph):
    """For one structure what each estimator trains on, what the models answer, what it takes."""
    X, y = samples(graph)
    trained = {name: fitted(one, graph, X, y) for name, one in estimators()}
    models = {name: model for name, model in trained.items() if model is not None}
    found = {}
    for model in models.values():
        for name, how in answers(model, X, y).items():
            if found.get(name, NO) == NO:
                found[name] = how
    training = {
        name: models[name].training_inference_ if name in models else NO for name in trained
    }
    # Marginals that bound a likelihood are for CRFs alone.
    any_model = models.get(("BCFWSSVM", "")) or next(iter(models.values()))
    return training, found, takes(graph, any_model, X, y)


def merged(table):
    """Columns of algorithms of an estimator that agree everywhere become one."""
    columns = {name: tuple(row[name] for row in table.values()) for name in first(table)}
    heads = {}
    for name, column in columns.items():
        heads.setdefault((name[0], column), []).append(name)
    names = {}
    for (estimator, _), group in heads.items():
        whole = sum(name[0] == estimator for name in columns) == len(group)
        chosen = "" if whole else f" ({'; '.join(name[1] for name in group)})"
        names[group[0]] = f":class:`~skstruct.{estimator}`{chosen}"
    return {
        graph: {head: row[name] for name, head in names.items()} for graph, row in table.items()
    }


def first(table):
    """Any row."""
    return next(iter(table.values()))


def list_table(table):
    """Lines of a table, a row a structure."""
    yield from (".. list-table::", "   :header-rows: 1", "   :stub-columns: 1", "")
    rows = [["structure", *first(table)]]
    rows += [[f"``{graph}``", *row.values()] for graph, row in table.items()]
    for row in rows:
        yield from (f"   {' ' if k else '*'} - {cell}" for k, cell in enumerate(row))
    yield ""


_HEAD = """\
.. This page is written by doc/capabilities.py.

Compatibility matrix: estimators, structures, predictions
=========================================================

A script generates these tables by running each estimator, and every kind of prediction, on a few samples of each
structure. "exact" means over all labellings, "relaxed" over a linear relaxation, with a bound (see the certificates in
:doc:`graphs`), "{no}" that the call raises an error that suggests an alternative. Structures are listed once per inference
method that ``inference="auto"`` may choose.

Training
--------

The set over which the training objective, and thus the certificate, is defined. Brackets name the algorithms of an
estimator where they differ.
"""

_ANSWERS = """\
Prediction
----------

"allowed labels" is ``predict(X, allowed=masks)``, "n best" ``predict_top_k``, "scores" ``decision_function``,
"marginals" ``predict_marginals``, "of pairs" the same with ``pairwise=True``, "likelihoods" ``predict_log_likelihood``.
The last three are methods of :class:`~skstruct.SAGCRF`, the others of all estimators.
"""

_DATA = """\
Data
----

"weights of nodes": ``fit(X, y, node_weight=...)``; "missing labels" includes sets of labels (:doc:`imperfect_labels`);
"shards": output of ``pack_shards`` (:doc:`scale`). Dense features and sample weights are supported everywhere.
"""


def page():
    """The text of the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {graph: trial(graph) for graph in STRUCTURES}
    names = {graph: str(graph).replace("\n", " ") for graph in found}
    training, answered, data = (
        {names[graph]: parts[k] for graph, parts in found.items()} for k in range(3)
    )
    parts = [_HEAD.format(no=NO), *list_table(merged(training)), _ANSWERS, *list_table(answered)]
    return "\n".join([*parts, _DATA, *list_table(data)]).rstrip() + "\n"


def main(arguments):
    """Write the page, or compare it."""
    text = page()
    if "--check" in arguments:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
