"""Check all structures on CSR rows against enumeration: run by test_structures.py.

Nothing is compiled (``NUMBA_DISABLE_JIT``): kernels meet rows in few functions, and chains and
tables of either kind are compiled elsewhere. Prints the problems that were checked.
"""

import json
import warnings
from itertools import product

import numba
import numpy as np

import skstruct.testing.structure as testing
from skstruct import Boxes, Candidates, Chain, Matching, MultiLabel, Tree

warnings.simplefilter("error")
checked, own = [], testing._check_registered


def _note(problem):
    assert "SparseFeatures" in str(numba.typeof(problem))
    checked.append(type(problem).__name__)
    own(problem)


testing._check_registered = _note


def _matchings(sizes):
    for n, m in sizes:
        for codes in product([0, 1], repeat=n * m):
            pairs = np.reshape(codes, (n, m))
            if max(pairs.sum(axis=0).max(), pairs.sum(axis=1).max()) <= 1:
                yield codes


def _boxes(height, width):
    for top, left in product(range(height), range(width)):
        for bottom, right in product(range(top + 1, height + 1), range(left + 1, width + 1)):
            yield top, left, bottom, right


def _check(graph, labellings=None, **options):
    X, y = graph.example(np.random.default_rng(0), True)
    testing.check_structure(graph, X, y, labellings=labellings, **options)


one_hot = [np.eye(n, dtype=int)[k] for n in range(1, 5) for k in range(n)]
for graph in (Chain(edge_features=True), Tree(), Tree(edge_features=True)):
    _check(graph)
for edges in ("tree", "full"):
    _check(MultiLabel(edges))
for target in ("index", "losses", "box"):
    _check(Candidates(target), one_hot)
_check(Matching(), _matchings([(2, 3), (1, 4), (3, 3)]))
for x, box in zip(*Boxes().example(np.random.default_rng(0), True), strict=True):
    testing.check_structure(Boxes(), [x], [box], labellings=[*_boxes(*x[2])])
print(json.dumps(sorted(set(checked))))
