"""``solver="auto"``: SAG or OEG, then L-BFGS; with L1 proximal OEG, or OWL-QN."""

from __future__ import annotations

import contextlib
import math
from functools import partial

import numpy as np

from ..core.features import ObservedFeatures, SparseFeatures
from .oeg import OEG, OEGMemory
from .proximal_oeg import ProximalOEG
from .quasi_newton import OrthantWise, QuasiNewton
from .run import Method
from .sag import SAG, StoredMixtures

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
# Node weights from which on OEG begins without L1. Of words (measured down to 39,000 weights) it
# needs less than half of SAG's passes with C up to 50, and not more at 500; of few dense features
# with weak regularisation it needs more, but no line search, which counts where oracles are costly.
_MANY = 1 << 15


def auto(*task, tol: float, l1: float = 0.0, bounding=None, **options) -> Method:
    """Return the method to begin with: OEG, SAG, or with L1 proximal OEG or OWL-QN.

    `bounding`: the problem with upper bounds on squared norms that OEG takes, if it is another.
    """
    problem, shapes, *_ = task
    for_oeg = problem if bounding is None else bounding, *task[1:]
    nodes = getattr(problem.rows, "nodes", None)
    is_sparse = isinstance(nodes, SparseFeatures | ObservedFeatures)
    # Without L1, options of SAG's sampling or line search choose SAG.
    is_plain = options["skipping"] and not options["uniform"]
    has_many, begins_anew = is_sparse and math.prod(shapes[0]) >= _MANY, options["start"] is None
    few_passes = getattr(problem.space, "few_passes", has_many)
    method, names = None, ("loss", "single", "track_objective", "memory", "start")
    if l1 > 0.0:
        # OWL-QN does not follow: from the start it needs more passes than OEG, up to eleven times
        # as many on text (c1 from 0.01 to 1, c2 from 0 to 0.1), and more after it.
        with contextlib.suppress(MemoryError):
            known = {name: options[name] for name in (*names[:3], "start")}
            return ProximalOEG(*for_oeg, l1=l1, **known)
        return OrthantWise(*task, l1=l1, loss=options["loss"], start=options["start"])
    if isinstance(options.get("memory"), OEGMemory):
        method = OEG(*for_oeg, **{name: options[name] for name in names})
    elif is_plain and begins_anew and few_passes:
        with contextlib.suppress(MemoryError):  # SAG may take half as much
            method = OEG(*for_oeg, **{name: options[name] for name in names[:3]})
    if method is None:
        method = SAG(*task, **options)
    method.successor = partial(late, max(tol, _LEAST_TOL))
    return method


def late(tol: float, early: StoredMixtures) -> Method | None:
    """L-BFGS after a method that needs more passes, by passes and gaps, never by clocks."""
    tables = zip(early.w.tables, early.shapes, strict=True)
    n_weights = sum(table.shape[0] * width for table, (_, width) in tables)
    share = n_weights / max(int(early.problem.part_ptr[-1]), 1)
    cost = 1.0 + _VECTORS * share
    if type(early) is SAG:
        cost *= _FEW_WEIGHTS
    return change(early) if is_slow(early.gaps, tol, cost) else None


def is_slow(gaps, tol: float, cost: float) -> bool:
    """Return whether an early method, as its gap falls, is slower than L-BFGS of `cost` passes."""
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
    """L-BFGS, from the weights so far and with their bound."""
    task = early.problem, early.shapes, early.sample_weight, early.lam, early.n_jobs
    known = {"point": early.leave(), "start": early.own_weights()}
    if early.copies is not None:
        known["spread"] = early.copies.spread
    if isinstance(early, SAG):  # OEG knows no curvature
        known["first_step"] = 1.0 / (early.state.lipschitz.mean() + early.lam)
    known |= {"loss": early.loss, "dual": early.dual}
    if type(early) is OEG:
        known["scales"] = early.scales()
    later = QuasiNewton(*task, **known)
    early.release()
    return later
