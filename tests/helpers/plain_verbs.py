"""Check structures against enumeration as plain Python: run by test_structures.py.

Nothing is compiled (``NUMBA_DISABLE_JIT``), which would take minutes. All structures on CSR rows
are here: kernels meet rows in few functions, and chains and tables of either kind are compiled
elsewhere. So are all verbs of matchings, boxes and candidates, which solvers and predictions
compile in the tests of these. Prints the problems that were checked.
"""

import json
import warnings
from itertools import product

import numba
import numpy as np

import skstruct.testing.structure as testing
from skstruct import Boxes, Candidates, Chain, Matching, MultiLabel, Pairwise, Tree
from skstruct.testing import random_sequences

warnings.simplefilter("error")
checked, own = [], testing._check_registered


def _note(problem):
    is_sparse = "SparseFeatures" in str(numba.typeof(problem))
    checked.append(("sparse " if is_sparse else "") + type(problem.space).__name__)
    own(problem)


testing._check_registered = _note


SIZES = (2, 3), (1, 4), (3, 3)


def _matchings(degree=1, null=True):
    for n, m in SIZES:
        for codes in product([0, 1], repeat=n * m):
            pairs = np.reshape(codes, (n, m))
            rows, columns = pairs.sum(axis=1), pairs.sum(axis=0)
            needed = rows if n <= m else columns
            if max(rows.max(), columns.max()) <= degree and (null or needed.min() > 0):
                yield codes


def _boxes(height, width):
    for top, left in product(range(height), range(width)):
        for bottom, right in product(range(top + 1, height + 1), range(left + 1, width + 1)):
            yield top, left, bottom, right


def _check(graph, labellings=None, is_sparse=True, **options):
    X, y = graph.example(np.random.default_rng(0), is_sparse)
    testing.check_structure(graph, X, y, labellings=labellings, **options)


one_hot = [np.eye(n, dtype=int)[k] for n in range(1, 5) for k in range(n)]
for graph in (Chain(edge_features=True), Tree(), Tree(edge_features=True)):
    _check(graph)
_check(Chain(edge_features=True), is_sparse=False)
costs = [[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [0.5, 4.0, 0.0]]
for fit_intercept in (False, True):
    X, y = random_sequences(np.random.default_rng(1), 6, max_length=4, sparse_X=True)
    for loss in ("hamming", "normalized_hamming", {"a": 2.0, "c": 0.5}, costs):
        graph = Chain(boundary=fit_intercept)
        testing.check_structure(graph, X, y, loss=loss, fit_intercept=fit_intercept)
for edges in ("tree", "full"):
    _check(MultiLabel(edges))
# Rows of edges with types are sparse, too.
rng = np.random.default_rng(4)
edges = np.array([[0, 1, 0], [2, 1, 1], [3, 2, 0]])
X = [(rng.normal(size=(n, 3)), edges[: n - 1], rng.normal(size=(n - 1, 2))) for n in (1, 4, 3)]
y = [np.array(list("abca"))[:n] for n in (1, 4, 3)]
for interactions in ("full", "symmetric", "potts"):
    for inference in ("tree", "junction-tree"):
        graph = Pairwise(True, 2, interactions, inference=inference)
        testing.check_structure(graph, X, y, fit_intercept=False)
for target, is_sparse in product(("index", "losses", "box"), (False, True)):
    _check(Candidates(target), one_hot, is_sparse)
_check(Candidates("box"), one_hot, loss="iou")
_check(Matching(), _matchings())
for degree, null in product([1, 2], [True, False]):
    graph = Matching(max_degree=degree, null=null)
    _check(graph, _matchings(degree, null), is_sparse=False)
for loss in ({1: 0.3, 0: 0.7}, "normalized_hamming", [[0, 3], [0.1, 0]]):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(*size, 2)) for size in SIZES]
    y = [rng.integers(0, 3, size=size) for size in SIZES]
    y = [(pairs == 1, pairs == 2) for pairs in y]
    for degree, null in product([1, 2], [True, False]):
        graph, known = Matching(degree, null=null, repair=True), _matchings(degree, null)
        testing.check_structure(graph, X, y, loss=loss, labellings=known)
for is_sparse, loss in product([False, True], ["iou", "hamming"]):
    for x, box in zip(*Boxes().example(np.random.default_rng(0), is_sparse), strict=True):
        known = [*_boxes(*(x[2] if isinstance(x, tuple) else x.shape[:2]))]
        testing.check_structure(Boxes(), [x], [box], loss=loss, labellings=known)
print(json.dumps(sorted(set(checked))))
