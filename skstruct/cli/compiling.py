"""``compile``: fill the cache of compiled kernels, for images and CI."""

from __future__ import annotations

import argparse
import ast
import time
import warnings
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .. import BCFWSSVM, SAGCRF, Chain, MultiClass
from .. import __all__ as public
from ..core.jit.compiling import announced_compiles
from ..core.jit.kernels import cache_folder
from ..estimators.base import StructuredEstimator
from ..estimators.persistence import TRUSTED
from ..graphs.base import Graph
from ..graphs.registry import NAMES
from ..lite import Tagger
from ..map_inference import FactorGraph, Potts, Table, solve_map
from ..map_inference.methods import METHODS
from .files import read_any, say

_DOC = """\
Compile the kernels of structures and estimators into the cache, so that no first fit and no first
prediction has to wait for them: in a container image, before the tests of a CI job. Each pair is
trained on a few random samples, and predicts. Options that only change numbers need no mention.
Methods of solve_map run on a few small models. With --model, what the predictions of a stored model
need is compiled."""


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
    estimator.set_params(graph=graph)
    _fit(estimator, X, y)
    if is_sparse and estimator.get_params().get("solver") == "auto":  # of many features
        with suppress(TypeError, ValueError):  # it is not for every structure
            clone(estimator).set_params(solver="oeg").fit(X, y)
    _predict(estimator, X, y)


def _fit(estimator, X, y):
    estimator.set_params(max_iter=2).fit(X, y)
    if estimator.get_params().get("solver") == "auto":  # so few passes do not come to the other one
        clone(estimator).set_params(solver="lbfgs").fit(X, y)


def _predict(estimator, X, y):
    calls = (
        ("predict",),
        ("predict_top_k", 2),
        ("predict_marginals",),
        ("predict_marginals", True),
        ("predict_log_likelihood", y),
        ("predict_chunks",),
        ("sample",),
        ("predict_entropy",),
    )
    of_chunks = {"scheme": "runs", "confidence": hasattr(estimator, "predict_marginals")}
    for name, *arguments in calls:
        if hasattr(estimator, name):
            try:
                options = of_chunks if name == "predict_chunks" else {}
                getattr(estimator, name)(X, *arguments, **options)
            except (TypeError, ValueError) as error:
                if name != "predict_chunks":  # which only chains have
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


def _compile_kinds(title, graph, features, compile_one, hint=""):
    """Compile for each kind of features; return how many failed."""
    failed = 0
    for kind in features or usual_features(graph):
        with _counted(f"{title} on {graph}, {kind} features"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    compile_one(is_sparse=kind == "csr")
            except Exception as error:
                failed += 1
                say(f"  {type(error).__name__}: {error}{hint}")
    return failed


def compile_pair(graph, estimator, features):
    """Train an estimator on an example of a structure."""
    compile_one, hint = (
        partial(_compile_one, estimator, graph),
        " (Graph.example makes the samples)",
    )
    return _compile_kinds(type(estimator).__name__, graph, features, compile_one, hint)


# Models in files: samples that they take, and labels that their structure allows.

# Classes that the labels have, at most: these fits are to be short.
_CLASSES = 16


def _read_model(path):
    """The fitted estimator in a file; of taggers for NumPy one that decodes the same."""
    if Path(path).suffix in (".npz", ".crfsuite"):
        tagger = Tagger.load(path)
        kind = SAGCRF if tagger._is_probable else BCFWSSVM
        estimator = kind(MultiClass() if tagger._is_table else Chain())
        n = len(tagger.classes)
        estimator.graph_, estimator.classes_ = estimator.graph, np.array(tagger.classes)
        estimator.n_features_in_, estimator._has_intercept = 1, True
        estimator.node_weights_ = np.zeros((2, n))
        if tagger._states is None:
            steps = np.nan_to_num(tagger._steps, neginf=-1e10).reshape(1, n * n)
        else:  # of rules or of a higher order, whose kernels are the same
            estimator.graph_ = Chain(order=2)
            estimator.graph_.ngrams_ = np.empty((0, 3), dtype=np.int64)
            steps = np.zeros((1, n * n))
        estimator.pair_weights_ = np.zeros((0, 0)) if tagger._is_table else steps
        return estimator
    model = read_any(path, TRUSTED)
    model = getattr(model, "best_estimator_", model)
    model = model.steps[-1][1] if hasattr(model, "steps") else model
    if not isinstance(model, StructuredEstimator):
        raise TypeError(f"{path} holds an object of type {type(model).__name__}, not an estimator")
    return model


def _widened(item, widths):
    """A sample with so many features, and edge features: the first tables of floats in it."""
    if isinstance(item, tuple):
        left = iter(widths)
        is_table = [getattr(part, "dtype", np.dtype(int)).kind == "f" for part in item]
        return tuple(
            _widened(part, [n]) if own and (n := next(left, None)) else part
            for part, own in zip(item, is_table, strict=True)
        )
    n = widths[0]
    if sparse.issparse(item):
        item = sparse.csr_matrix(item[:, :n])
        item.resize(item.shape[0], n)
        return item
    item = item[..., :n]
    return np.pad(item, [(0, 0)] * (item.ndim - 1) + [(0, n - item.shape[-1])])


def _samples(X, widths, n):
    """So many samples, of as many features as a model takes."""
    if isinstance(X, list):
        return [_widened(X[i % len(X)], widths) for i in range(n)]
    return _widened(X[np.arange(n) % X.shape[0]], widths)


def _labels(estimator, X, lengths):
    """Labels that the structure allows, among them that of each position in `lengths`."""
    n_classes, allowed = len(estimator.classes_), []
    for k, length in enumerate(lengths):
        allowed.append(np.ones((length, n_classes), dtype=bool))
        allowed[-1][length // 2] = np.arange(n_classes) == k
    return estimator.predict(X, np.concatenate(allowed) if estimator.graph_.is_table else allowed)


def _compile_stored(estimator, fit, is_sparse):
    X, y = estimator.graph_.example(np.random.default_rng(0), is_sparse)
    d = getattr(estimator, "n_edge_features_in_", None)
    widths = [estimator.n_features_in_, *([] if d is None else [d])]
    plain = _samples(X, widths, np.shape(X)[0] if estimator.graph_.is_table else len(X))
    _predict(estimator, plain, estimator.predict(plain))
    if not fit:
        return
    if not (estimator.graph_.has_items or estimator.graph_.has_label_sets):
        n_classes = len(estimator.classes_)
        n = min(n_classes, _CLASSES)
        y = _labels(estimator, _samples(X, widths, n), [np.size(y[i % len(y)]) for i in range(n)])
        # What "auto" begins with depends on the number of weights.
        X = _samples(X, [widths[0] * n_classes // n, *widths[1:]], n)
    _fit(clone(estimator), X, y)


def compile_model(path, features, fit):
    """Call what predicts of a stored model, and train one of its kind."""
    estimator = _read_model(path)
    if fit and not hasattr(estimator, "n_iter_"):
        raise ValueError(f"{path} does not say how it was trained: --fit needs .joblib or .skops")
    title, compile_one = (
        f"{path}: {type(estimator).__name__}",
        partial(_compile_stored, estimator, fit),
    )
    return _compile_kinds(title, estimator.graph_, features, compile_one)


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


def compile_method(method):
    """Run a method of MAP inference on small models; return 1 if it takes none of them."""
    with _counted(f"solve_map by {method}"):
        models, refusals = list(_models()), []
        for model in models:
            try:
                solve_map(model, method, max_iter=3)
            except (TypeError, ValueError) as error:
                refusals.append(error)
        if len(refusals) < len(models):
            return 0
        say(f"  {refusals[0]}")
        return 1


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
    parser.add_argument(
        "--model",
        metavar="FILE",
        help="a model, .joblib, .skops, .npz or .crfsuite: compile what its predictions need",
    )
    parser.add_argument("--fit", action="store_true", help="and what its fit needs")
    parser.set_defaults(run=_compile)


def _compile(given):
    if cache_folder() is None:
        raise ValueError("there is no folder to keep kernels in: set NUMBA_CACHE_DIR")
    if given.fit and not given.model:
        raise ValueError("--fit needs --model")
    failed = sum(map(compile_method, given.map))
    if given.model:
        failed += compile_model(given.model, given.features, given.fit)
    if given.graph or given.estimator or not (given.map or given.model):
        for graph in given.graph or [_graph("chain")]:
            for estimator in given.estimator or [_estimator("SAGCRF")]:
                failed += compile_pair(graph, estimator, given.features)
    say(f"kept in {cache_folder()}")
    return int(failed > 0)
