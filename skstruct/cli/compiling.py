"""``compile``: fill the cache of compiled kernels, for images and CI."""

from __future__ import annotations

import argparse
import ast
import time
import warnings
from contextlib import contextmanager
from functools import partial
from importlib import import_module

import numpy as np
from sklearn.base import clone

from .. import __all__ as public
from ..core.jit.dispatch import cache_folder
from ..core.jit.numba_private import announced_compiles
from ..estimators.base import StructuredEstimator
from ..graphs.base import Graph
from ..graphs.registry import NAMES
from ..map_inference import FactorGraph, Potts, Table, solve_map
from ..map_inference.methods import METHODS
from .files import say

_DOC = """\
Compile the kernels of structures and estimators into the cache, so that no first fit and no first
prediction has to wait for them: in a container image, before the tests of a CI job. Each pair is
trained on a few random samples, and predicts. Options that only change numbers need no mention.
Methods of solve_map run on a few small models."""


def _read_call(text):
    """A class, or a class with options, as Python writes them: what to make, and with what."""
    module, colon, _ = text.partition("(")[0].rpartition(":")
    body = ast.parse(text[len(module + colon) :], mode="eval").body
    options = {}
    if isinstance(body, ast.Call) and not body.args:
        options = {word.arg: ast.literal_eval(word.value) for word in body.keywords}
        body = body.func
    if not isinstance(body, ast.Name):
        raise ValueError("a name or Name(option=value, ...) is needed")
    return module, body.id, options


def _make(text, kind):
    """An object of a public class, or of ``module:Class``."""
    try:
        module, name, options = _read_call(text)
        namespace = import_module(module or "skstruct")
        by_name = {known.lower(): known for known in public if not module}
        made = getattr(namespace, by_name.get(name.lower(), name))(**options)
    except (AttributeError, ImportError, SyntaxError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if not isinstance(made, kind):
        raise argparse.ArgumentTypeError(f"{text!r} is no {kind.__name__}")
    return made


_graph = partial(_make, kind=Graph)
_estimator = partial(_make, kind=StructuredEstimator)


def _compile_one(estimator, graph, is_sparse):
    """Everything that a user of the pair may call; what it lacks is said, and left out."""
    X, y = graph.example(np.random.default_rng(0), is_sparse)
    estimator.set_params(graph=graph, max_iter=2)
    estimator.fit(X, y).predict(X)
    if estimator.get_params().get("solver") == "auto":  # so few passes do not come to the other one
        clone(estimator).set_params(solver="lbfgs").fit(X, y)
    calls = (
        ("predict_top_k", 2),
        ("predict_marginals",),
        ("predict_marginals", True),
        ("predict_log_likelihood", y),
    )
    for name, *arguments in calls:
        if hasattr(estimator, name):
            try:
                getattr(estimator, name)(X, *arguments)
            except TypeError as error:
                say(f"  {error}")


@contextmanager
def _counted(title):
    """Say what is compiled, then how many kernels it took, and how long."""
    say(title)
    start, names = time.perf_counter(), []
    with announced_compiles(names.append):
        yield
    say(f"  {len(names)} kernels in {time.perf_counter() - start:.1f} s")


def usual_features(graph):
    """Return the kinds of features that samples of a structure usually have."""
    if graph.usual_features == "dense":
        return ["dense"]
    try:
        graph.example(np.random.default_rng(0), True)
    except (TypeError, ValueError):
        return ["dense"]
    return ["csr"]


def compile_pairs(graphs, estimators, features):
    """Train each estimator on an example of each structure."""
    failed = 0
    for graph in graphs:
        for estimator in estimators:
            for kind in features or usual_features(graph):
                with _counted(f"{type(estimator).__name__} on {graph}, {kind} features"):
                    try:
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            _compile_one(estimator, graph, kind == "csr")
                    except Exception as error:
                        failed += 1
                        say(f"  {type(error).__name__}: {error} (Graph.example makes the samples)")
    return failed


def _models():
    """Small models that, between them, all methods take."""
    rng = np.random.default_rng(0)
    path, ring = [[0, 1], [1, 2]], [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]
    unaries = [rng.normal(size=3) for _ in range(4)]
    tables = [Table(edges, rng.normal(size=(len(edges), 3, 3))) for edges in (path, ring)]
    yield FactorGraph([3] * 3, tables[:1], unaries=unaries[:3])
    yield FactorGraph([3] * 4, tables[1:], unaries=unaries)
    attract = Potts(*np.transpose(ring), rng.uniform(0.1, 1.0, size=len(ring)))
    yield FactorGraph([2] * 4, [attract], unaries=[u[:2] for u in unaries])


def compile_methods(methods):
    """Run methods of MAP inference on small models."""
    failed = 0
    for method in methods:
        with _counted(f"solve_map by {method}"):
            models, refusals = list(_models()), []
            for model in models:
                try:
                    solve_map(model, method, max_iter=3)
                except (TypeError, ValueError) as error:
                    refusals.append(error)
            if len(refusals) == len(models):
                failed += 1
                say(f"  {refusals[0]}")
    return failed


def add_compile(commands):
    """The command and its options."""
    parser = commands.add_parser("compile", help="fill the cache of kernels", description=_DOC)
    parser.add_argument(
        "--graph",
        nargs="+",
        type=_graph,
        default=None,
        help=f"{', '.join(sorted(NAMES - {'auto'}))}, tree, pairwise, grid, matching, candidates, "
        "boxes, Chain(edge_features=True), package.module:Class(option=value); by default chain",
    )
    parser.add_argument(
        "--estimator",
        nargs="+",
        type=_estimator,
        default=None,
        help="SAGCRF (the default), SAGCRF(solver='lbfgs'), BCFWSSVM, ...",
    )
    parser.add_argument(
        "--features",
        nargs="+",
        choices=["csr", "dense"],
        help="by default csr, or dense for grid, matching, candidates and boxes",
    )
    parser.add_argument(
        "--map",
        nargs="+",
        choices=list(METHODS),
        default=[],
        metavar="METHOD",
        help=f"methods of solve_map: {', '.join(METHODS)}; alone, no estimator is compiled",
    )
    parser.set_defaults(run=_compile)


def _compile(given):
    if cache_folder() is None:
        raise ValueError("there is no folder to keep kernels in: set NUMBA_CACHE_DIR")
    failed = compile_methods(given.map)
    if given.graph or given.estimator or not given.map:
        graphs = given.graph or [_graph("chain")]
        estimators = given.estimator or [_estimator("SAGCRF")]
        failed += compile_pairs(graphs, estimators, given.features)
    say(f"kept in {cache_folder()}")
    return int(failed > 0)
