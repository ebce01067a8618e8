"""Block-coordinate Frank-Wolfe for structural SVMs: epochs, certificates, warm starts."""

from __future__ import annotations

import hashlib

import numpy as np

from ...core.features import DenseFeatures, SparseFeatures
from ...core.gram import Gram
from ...core.oracles import loss_is_linear, relaxed_oracle
from ...core.weights import lazy_weights, plain_weights, squared_norm, zero_weights
from ...predict import make_scratch
from ..certificate import NOTHING_KNOWN, UNMEASURED, certify_pair
from ..primal import compile_hinge, hinge_value
from ..progress import Pieces, Progress
from ..sampling import set_leaf, sum_tree
from .kernels import (
    GAP,
    N_CACHED,
    N_ORACLE,
    N_STEPS,
    BCFWOptions,
    BCFWState,
    bcfw_epoch,
    expected_losses,
    rebuild,
    relaxed_epoch,
)

_FRESH, _ENOUGH = 0.25, 0.01  # F and nu of Osokin et al. 2016, section 3.3
# Of any problem: features and products of features under whatever name, and what concerns losses
# and scratch, whose names the verbs of problems fix.
_FEATURES = DenseFeatures, SparseFeatures, Gram
_NOT_OF_THE_SET = "cost", "normalize", "squared_norms", "work"


def dual_set(problem) -> str:
    """A fingerprint of the set that dual points of a problem come from.

    Two problems of one fingerprint have the same samples, labellings and true labels: a dual point
    of one is one of the other, whatever their features, losses and regularisers.

    All fields count, but for features (those of :mod:`skstruct.core.features`, under any name),
    losses and scratch. The class of a problem may name those that do not count itself, as a tuple
    ``not_of_the_dual_set``. A field too many costs a warm start, one too few would make it wrong.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.

    Returns
    -------
    str
        The fingerprint.
    """
    kind = type(problem)
    digest = hashlib.sha256(f"{kind.__module__}.{kind.__qualname__}".encode())
    left_out = getattr(kind, "not_of_the_dual_set", _NOT_OF_THE_SET)
    for name, value in problem._asdict().items():
        if name not in left_out:
            _fingerprint(digest, name, value)
    return digest.hexdigest()


def _fingerprint(digest, name, value):
    """Add a field, however deeply its tuples are nested."""
    if isinstance(value, _FEATURES):
        return
    if isinstance(value, tuple):
        digest.update(f"{name} {type(value).__qualname__} {len(value)}".encode())
        for i, item in enumerate(value):
            _fingerprint(digest, f"{name}.{i}", item)
        return
    array = np.ascontiguousarray(value)
    digest.update(f"{name} {array.dtype} {array.shape}".encode())
    digest.update(repr(value).encode() if array.dtype.hasobject else array.tobytes())


def _new_state(problem, n_cached):
    n = problem.part_ptr.size - 1
    shares = np.full((n, n_cached), -1.0)
    shares[:, 0] = 1.0
    labels = np.zeros((n_cached, problem.labels.size), dtype=np.int32)
    labels[0] = problem.labels
    return BCFWState(
        residuals=np.zeros(problem.part_ptr[-1]),
        losses=np.zeros(n),
        gaps=np.full(n, np.inf),
        tree=sum_tree(n),
        labels=labels,
        shares=shares,
        costs=np.zeros((n, n_cached)),
        totals=np.zeros(4),
    )


def bcfw(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    start=None,
    sampling: str = "permutation",
    pairwise: int = 10,
    n_cached: int = 10,
    use_cache: bool = True,
    averaging: bool = False,
    gap_every: int = 5,
    max_iter: int = 100,
    tol: float = 1e-3,
    rng: np.random.Generator,
    n_jobs=None,
    after_epoch,
):
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)`` through its dual.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    shapes : tuple of two tuples of int
        Shapes of the weight tables.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    start : BCFWState, optional
        The dual point to start from, of a problem with the same :func:`dual_set`; it is changed.
    sampling : {"permutation", "uniform", "gap"}
        Order of the visits.
    pairwise : int
        Most pairwise steps a visit; 0 for Frank-Wolfe steps.
    n_cached : int
        Labellings kept a sample.
    use_cache : bool
        Whether cached labellings may replace oracle calls.
    averaging : bool
        Whether to consider the weighted average of the iterates, too.
    gap_every : int
        Epochs between certificates.
    max_iter : int
        Largest number of passes.
    tol : float
        Relative duality gap to reach.
    rng : numpy.random.Generator
        Draws the samples.
    n_jobs : int or None
        Threads for certificates.
    after_epoch : callable
        See :class:`skstruct.solvers.progress.Progress`.

    Returns
    -------
    result : Result
        The weights and the history.
    state : BCFWState
        The dual point.

    Raises
    ------
    FloatingPointError
        If a loss is not finite, or the objectives are not those of a primal and a dual.

    References
    ----------
    Lacoste-Julien et al. 2013, Block-Coordinate Frank-Wolfe Optimization for Structural SVMs,
    Algorithms 3 and 4; Osokin et al. 2016, Minding the Gaps for Block Frank-Wolfe Optimization of
    Structured SVMs.
    """
    if relaxed_oracle.supports(type(problem)):
        n_cached = 1  # fractional points are not kept
    if start is not None and not _usable(start, n_cached):
        start = None
    run = _Run(problem, shapes, sample_weight, lam, start, n_cached, sampling, averaging, n_jobs)
    run.pairwise, run.use_cache = pairwise, use_cache
    progress = Progress(run.n, after_epoch, "dual_gap", "dual_objective")
    run.compile(start is not None)
    progress.start()
    if start is not None:
        run.rebuild()
        if not run.dual() >= 0.0:  # worse than no training at all: C or a weight has grown much
            run.begin_anew(n_cached)
    if start is not None or sampling == "gap":
        run.certify()
    stopped = False
    totals = run.state.totals
    for iteration in range(max_iter):
        fresh = run.certificate.relative <= tol
        if not fresh:
            order = run.order(rng)
            run.epoch(rng.random(run.n), order, progress.pieces)
            promising = totals[GAP] <= 2.0 * tol * run.certificate.objective
            fresh = promising or (iteration + 1) % gap_every == 0 or iteration == max_iter - 1
            if fresh:
                run.certify()
        known = (run.certificate if fresh else UNMEASURED).record
        stopped = progress.record(totals[N_ORACLE], 0.0, weights=run.weights, **known)
        if stopped or (fresh and run.certificate.relative <= tol):
            break
    if not fresh:
        run.certify()
        progress.amend(totals[N_ORACLE], 0.0)
    more = {"n_oracle_calls_": int(totals[N_ORACLE]), "n_cached_steps_": int(totals[N_CACHED])}
    return run.certificate.result(run.weights(), tol, stopped, progress, **more), run.state


def _usable(start, n_cached):
    """Whether a dual point has a cache of this size, and was left by a run that went well."""
    return start.labels.shape[0] == n_cached and bool(np.isfinite(start.residuals).all())


class _Run:
    """Weights, dual point and certificates of one run."""

    def __init__(
        self, problem, shapes, sample_weight, lam, start, n_cached, sampling, averaging, n_jobs
    ):
        self.problem, self.shapes, self.lam = problem, shapes, lam
        self.sample_weight, self.n_jobs = sample_weight, n_jobs
        self.n = sample_weight.size
        self.relaxed = relaxed_oracle.supports(type(problem))
        self.sampling, self.averaging = sampling, averaging
        self.state = _new_state(problem, n_cached) if start is None else start
        self.state.totals[:] = 0.0
        self.w = self._zero_weights()
        self.certificate = NOTHING_KNOWN
        self.use_average = False
        scratch = make_scratch(problem)
        self._scratch = np.empty((4, scratch.theta.size)), np.zeros(n_cached), scratch.labels

    def begin_anew(self, n_cached):
        """Start at w = 0, all distributions on the truth."""
        self.state, self.w = _new_state(self.problem, n_cached), self._zero_weights()

    def _zero_weights(self):
        # Only the average needs the second half of lazy rows.
        zero = zero_weights(self.shapes)
        return lazy_weights(zero) if self.averaging else zero

    def dual(self):
        """Dual objective."""
        loss = float(self.state.losses @ self.sample_weight) / self.n
        return loss - 0.5 * self.lam * squared_norm(self.w)

    def order(self, rng):
        """Samples of the next pass."""
        if self.sampling == "permutation":
            return rng.permutation(self.n)
        return rng.integers(self.n, size=self.n)

    def compile(self, has_start):
        """Compile outside the clock."""
        if has_start:
            self._rebuild(0, 0)
        self.epoch(np.empty(0), np.empty(0, dtype=np.int64), Pieces())
        compile_hinge(self.problem, self.w, self.state.residuals)

    def _rebuild(self, first, last):
        problem, state = self.problem, self.state
        rebuild(problem, self.sample_weight, self.lam, state, self.w, first, last)
        if loss_is_linear(problem):
            expected_losses(problem, state, first, last, self._scratch[0][0])

    def rebuild(self):
        """Weights and task losses of the dual point to start from."""
        for first, last in Pieces().ranges(0, self.n):
            self._rebuild(first, last)

    def epoch(self, uniforms, order, pieces):
        """One pass."""
        total = np.minimum(self.state.gaps, 1e300).sum()
        options = BCFWOptions(
            self.lam,
            int(self.sampling == "gap"),
            self.pairwise,
            _FRESH if self.use_cache else np.inf,
            _ENOUGH * total / self.n,
        )
        self.state.totals[GAP] = 0.0
        for first, last in pieces.visits(uniforms.size):
            self._visits(options, order[first:last], uniforms[first:last])

    def _visits(self, options, order, uniforms):
        problem, w, weight = self.problem, self.w, self.sample_weight
        if self.relaxed:
            buffers, _, labels = self._scratch
            relaxed_epoch(problem, w, weight, options, self.state, order, uniforms, buffers, labels)
            return
        bcfw_epoch(problem, w, weight, options, self.state, order, uniforms, *self._scratch)

    def _value(self, *memory):
        """Objective at the present value of the weights, and the block gaps."""
        problem, weight = self.problem, self.sample_weight
        return hinge_value(problem, self.w, weight, self.lam, self.n_jobs, *memory)

    def certify(self):
        """Primal and dual objective, by one oracle call a sample."""
        dual = self.dual()
        value = self._value(self.state.residuals)
        gaps = np.maximum(value.gaps - self.state.losses, 0.0) * self.sample_weight / self.n
        self.state.gaps[:] = gaps
        if self.sampling == "gap":
            for i, gap in enumerate(gaps):
                set_leaf(self.state.tree, i, gap)
        self.use_average = False
        k = self.state.totals[N_STEPS]
        if self.averaging and k > 0:
            self.w.scale[1] = -2.0 / (k * (k + 1.0))
            average = self._value()
            self.w.scale[1] = 0.0
            if average.objective < value.objective:
                value, self.use_average = average, True
        self.certificate = certify_pair(value.objective, dual, value.magnitude)
        self.state.totals[N_ORACLE] += self.n

    def weights(self):
        """The value of the weights: the last iterate or the average, whichever is better."""
        if not self.averaging:
            return self.w.copy()
        k = self.state.totals[N_STEPS]
        self.w.scale[1] = -2.0 / (k * (k + 1.0)) if self.use_average else 0.0
        value = plain_weights(self.w, self.shapes)
        self.w.scale[1] = 0.0
        return value
