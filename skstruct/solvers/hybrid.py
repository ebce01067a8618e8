"""``solver="auto"``: SAG or OEG, then L-BFGS; a file of its own, since neither knows the others."""

from __future__ import annotations

import contextlib
import math
from functools import partial

import numpy as np

from ..core.features import ObservedFeatures, SparseFeatures
from .oeg import OEG, OEGMemory, ProximalOEG
from .quasi_newton.orthant import OrthantWise, SparseOrthantWise
from .quasi_newton.solver import QuasiNewton
from .run import Method
from .sag.proximal import FewRows, ProximalSAG, reduce_problem, reducible
from .sag.solver import SAG, StoredMixtures

# Before, SAG's steps grow and its memory fills: its rate cannot be learnt yet.
_FIRST = 15
# Iterations that L-BFGS may need from a point that SAG left: so many, and more for each factor
# of e that is missing. On text with C from 1 to 500 it needs half to twice as many.
_ITERATIONS, _MORE = 15.0, 5.0
# Where SAG began, samples share few weights, and L-BFGS needs more: on OCR letters twice as many
# with C = 1, over three times with 10.
_FEW_WEIGHTS = 2.0
# Work on its vectors in addition to a gradient: passes for each weight a part.
_VECTORS = 0.4
# Without a tolerance: where float64 ends.
_LEAST_TOL = 1e-12
# Node weights from which on OEG begins. Of words (measured down to 39,000 weights) it needs less
# than half of SAG's passes with C up to 50, and not more at 500; of few dense features with weak
# regularisation it needs more.
_MANY = 1 << 15


def auto(*task, tol: float, l1: float = 0.0, bounding=None, **options) -> Method:
    """Return the method to begin with: SAG or OEG, with an L1 penalty the proximal ones.

    OEG, if sparse features have many weights, there are no weights to start from, and memory has
    room for its dual point; else SAG. `bounding` is the problem that OEG takes, where it is another
    one: with upper bounds on squared norms.
    """
    problem, shapes, *_ = task
    oeg = partial(OEG, problem if bounding is None else bounding, *task[1:])
    is_sparse = isinstance(getattr(problem, "nodes", None), SparseFeatures | ObservedFeatures)
    # Options of SAG's sampling or line search choose SAG.
    is_plain = options["start"] is None and options["skipping"] and not options["uniform"]
    method, names = None, ("loss", "single", "track_objective", "memory", "start")
    is_for_oeg = is_sparse and is_plain and math.prod(shapes[0]) >= _MANY
    if l1 > 0.0:
        if is_for_oeg:
            with contextlib.suppress(MemoryError):
                method = ProximalOEG(*task, l1=l1, **{name: options[name] for name in names[:3]})
        method = method or ProximalSAG(*task, l1=l1, **options)
    elif isinstance(options.get("memory"), OEGMemory):
        method = oeg(**{name: options[name] for name in names})
    elif is_for_oeg:
        with contextlib.suppress(MemoryError):  # SAG may take half as much
            method = oeg(**{name: options[name] for name in names[:3]})
    if method is None:
        method = SAG(*task, **options)
    method.successor = partial(late, max(tol, _LEAST_TOL))
    return method


def late(tol: float, early: StoredMixtures) -> Method | None:
    """L-BFGS, from where an early method is, if that needs more passes than L-BFGS may.

    That depends on passes and gaps, never on clocks: a seed gives the same weights.
    """
    tables = zip(early.w.tables, early.shapes, strict=True)
    n_weights = sum(table.shape[0] * width for table, (_, width) in tables)
    share = n_weights / max(int(early.problem.part_ptr[-1]), 1)
    cost = 1.0 + _VECTORS * share
    if type(early) is SAG:
        cost *= _FEW_WEIGHTS
    return change(early) if is_slow(early.gaps, tol, cost) else None


def is_slow(gaps, tol: float, cost: float) -> bool:
    """Return whether an early method, as its gap falls, is slower than L-BFGS.

    `cost` is that of an iteration of L-BFGS, in passes.
    """
    k = len(gaps)
    if k < _FIRST:
        return False
    span = max(5, k // 3)
    gap, before = gaps[-1], gaps[-1 - span]
    if not gap > tol:
        return False
    missing, rate = np.log(gap / tol), np.log(before / gap) / span
    return not rate * cost * (_ITERATIONS + _MORE * missing) > missing


def change(early: StoredMixtures) -> Method:
    """L-BFGS, or OWL-QN on the rows that matter, from the weights so far and with their bound."""
    kind, problem = QuasiNewton, early.problem
    if isinstance(early, FewRows):
        problem, known = early.whole, {"l1": early.l1}
        kind = SparseOrthantWise if reducible(problem) else OrthantWise
    else:
        known = {"point": early.leave()}
    if isinstance(early, SAG):  # OEG knows no curvature
        known["first_step"] = 1.0 / (early.state.lipschitz.mean() + early.lam)
    known |= {"loss": early.loss, "dual": early.dual, "start": early.weights()}
    merged = merge_copies(problem, early.shapes) if kind is QuasiNewton else None
    if merged is not None:
        early.problem, take, spread = merged
        problem, start, directions = early.problem, known["start"], known["point"][1]
        directions[0] = take(directions[0].reshape(early.shapes[0])).ravel()
        known |= {"start": start._replace(node=take(start.node)), "spread": spread}
        early.shapes = tuple(table.shape for table in known["start"].tables)
    if type(early) is OEG:
        known["scales"] = early.scales()
    return kind(problem, early.shapes, early.sample_weight, early.lam, early.n_jobs, **known)


# Features are merged if at least this share goes.
_WORTHWHILE = 0.05


def merge_copies(problem, shapes):
    """The problem with one feature in place of all with equal columns; None if there are few.

    And functions that take the rows of a table to it, and back. Under a squared norm the optimal
    weights of m copies are equal, and one feature, root m times the copies, has root m times their
    weight. Of words, most occur once, with others that do.
    """
    name, n_rows = reducible(problem), shapes[0][0]
    if name is None:
        return None
    features, rng = getattr(problem, name), np.random.default_rng(0)
    lengths = np.diff(features.indptr)
    # Equal columns have equal products with any vector, summed in the same order, and others by
    # chance have not.
    keys, again = (
        np.bincount(features.indices, features.data * np.repeat(numbers, lengths), n_rows)
        for numbers in rng.random((2, lengths.size))
    )
    if features.intercept >= 0:
        keys[features.intercept] = np.inf
    _, first, group, sizes = np.unique(keys, True, True, True)
    order = np.argsort(first)  # neighbours in the table occur together
    first, sizes, group = first[order], sizes[order], np.argsort(order)[group]
    if first.size > (1.0 - _WORTHWHILE) * n_rows or (again != again[first][group]).any():
        return None
    roots = np.sqrt(sizes)
    reduced = reduce_problem(problem, first, n_rows)
    merged = getattr(reduced, name)
    merged = merged._replace(data=merged.data * roots[merged.indices])
    reduced = reduced._replace(**{name: merged})

    def take(table):
        return table[first] * roots[:, None]

    def spread(weights):
        return weights._replace(node=(weights.node / roots[:, None])[group])

    return reduced, take, spread
