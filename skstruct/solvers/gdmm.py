"""Greedy direction method of multipliers: passes, certificates, history."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..weights import Weights, zero_weights
from .active_sets import packed
from .batch import make_scratch, over_samples
from .gdmm_state import ALL, CHANGE, INFEASIBILITY, SEARCH, GDMMOptions
from .hinge import hinge_losses
from .progress import Progress, Result

_VARIANTS = {"bcfw": 0, "afw": 1, "bgcd": 2}
_STILL = 0.1
_CERTIFICATE = ("objective", "dual_gap", "dual_objective")
_SIZES = ("infeasibility", "node_set", "edge_set", "search_seconds")
_SEARCHES = {"sublinear": 0, "exact": 1, "sampled": 2}


def n_parts(n_labels: int, search: str) -> int:
    """How many parts the labels are split into when the user leaves it open.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    search : str
        The kind of search.

    Returns
    -------
    int
        1 for an exact search; otherwise parts grow with the square root of the number of labels.

    Examples
    --------
    >>> from skstruct.solvers.gdmm import n_parts
    >>> n_parts(45, "sublinear"), n_parts(2934, "sublinear"), n_parts(2934, "exact")
    (1, 13, 1)
    """
    return 1 if search == "exact" else max(1, int(np.sqrt(n_labels) / 4.0))


class Run(ABC):
    """Weights, dual point and certificates of one run.

    Parameters
    ----------
    problem : NamedTuple
        The structure's problem, for certificates.
    decoding : callable
        ``decoding(problem, weights)``: the problem in the form in which these weights are decoded
        fastest.
    shapes : tuple of two tuples of int
        Shapes of the weight tables.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    lam : float
        The regulariser.
    options : GDMMOptions
        The choices.
    n_jobs : int or None
        Threads for certificates.
    """

    #: Fields of the state that are :class:`skstruct.solvers.active_sets.ActiveSets`.
    arenas = ()

    def __init__(self, problem, decoding, shapes, sample_weight, lam, options, n_jobs):
        self.problem, self.decoding, self.shapes = problem, decoding, shapes
        self.sample_weight, self.lam, self.options = sample_weight, lam, options
        self.n_jobs, self.n = n_jobs, sample_weight.size
        self.reach = sample_weight / (lam * self.n)
        self.w = zero_weights((shapes[0], (0, 0)))
        self.objective = self.gap = self.relative_gap = np.inf
        self.dual, self.infeasibility, self.search_seconds = -np.inf, 0.0, 0.0
        self.change = np.inf
        self._headroom = 1024

    @abstractmethod
    def one_pass(self, order, uniforms):
        """Visit all factors of the samples in `order`, then move the multipliers."""

    @abstractmethod
    def pair_weights(self):
        """A copy of the edge weights, in the shape of the weight table."""

    @abstractmethod
    def consistent_norm(self):
        """Squared norm of the edge weights of a consistent dual point near the present one."""

    @abstractmethod
    def dual_losses(self):
        """Task loss of the dual point of every sample."""

    @abstractmethod
    def set_sizes(self):
        """Mean sizes of the active sets of nodes and of edges."""

    def over_arena(self, function, *args):
        """Call a kernel until it is done, with larger arenas whenever it stops.

        Parameters
        ----------
        function : callable
            Returns False when an arena is full; goes on from the state's cursor.
        *args : object
            What it takes after the graph, the options and the state.
        """
        self.state.cursor[:] = 0
        while not function(self.graph, self.options, self.state, *args):
            self._headroom *= 2
            self.state = self.state._replace(**self.enlarged(self._headroom))

    def enlarged(self, headroom):
        """Fields of the state with more room.

        Parameters
        ----------
        headroom : int
            Free entries asked for.

        Returns
        -------
        dict
            The arenas.
        """
        return {name: packed(getattr(self.state, name), headroom) for name in self.arenas}

    def read_totals(self, seconds):
        """Infeasibility and change of the last pass, and how much of its time went into the search.

        Parameters
        ----------
        seconds : float
            Its time.
        """
        totals = self.state.totals
        share = totals[SEARCH] / totals[ALL] if totals[ALL] > 0 else np.nan
        self.search_seconds += share * seconds
        self.infeasibility = float(totals[INFEASIBILITY])
        self.change = float(np.sqrt(totals[CHANGE] / self.n_draws))
        totals[:] = 0.0

    def weights(self):
        """A copy of the weights.

        Returns
        -------
        Weights
            Of nodes and edges.
        """
        return Weights(self.w.node.copy(), self.pair_weights())

    def losses(self, w, stop=None):
        """Hinge losses of the samples.

        Parameters
        ----------
        w : Weights
            The weights.
        stop : int
            Only of the samples before it; 0 compiles.

        Returns
        -------
        ndarray of shape (2, n_samples)
            The losses, in the first row.
        """
        out, nothing = np.zeros((2, self.n)), np.empty(0)
        decoding = self.decoding(self.problem, w)

        def piece(part, first, last):
            hinge_losses(part, w, nothing, first, last, make_scratch(part), out)

        if stop is None:
            over_samples(piece, decoding, self.n_jobs)
        else:
            piece(decoding, 0, stop)
        return out

    def certify(self):
        """Objective of the weights by one exact oracle call a sample, and the best dual bound."""
        w = self.weights()
        node_norm = float(np.vdot(w.node, w.node))
        loss = float(self.dual_losses() @ self.sample_weight) / self.n
        self.dual = max(self.dual, loss - 0.5 * self.lam * (node_norm + self.consistent_norm()))
        out = self.losses(w)
        if not np.isfinite(out[0]).all():
            i = int(np.flatnonzero(~np.isfinite(out[0]))[0])
            raise FloatingPointError(
                f"the loss of sample {i} is {out[0, i]}: are X's values scaled?"
            )
        norm = node_norm + float(np.vdot(w.pair, w.pair))
        self.objective = 0.5 * self.lam * norm + float(out[0] @ self.sample_weight) / self.n
        self.gap = self.objective - self.dual
        self.relative_gap = self.gap / self.objective if self.objective > 0 else 0.0


def gdmm(
    start_run,
    n_labels: int,
    sample_weight: np.ndarray,
    *,
    variant: str = "bcfw",
    search: str = "sublinear",
    rho: float = 1.0,
    eta: float = 1.0,
    multipliers: bool = True,
    n_partitions: int | None = None,
    gap_every: int = 10,
    max_iter: int = 100,
    tol: float = 1e-2,
    rng: np.random.Generator,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i hinge_i(w)`` by factorwise oracles.

    Parameters
    ----------
    start_run : callable
        ``start_run(options)`` returns the :class:`Run` of a structure.
    n_labels : int
        Number of labels that are searched.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    variant : {"bcfw", "afw", "bgcd"}
        The step.
    search : {"sublinear", "exact", "sampled"}
        How new entries of active sets are found.
    rho, eta : float
        Strength of the penalty, step of the multipliers.
    multipliers : bool
        False leaves only the penalty (Soft-BCFW).
    n_partitions : int or None
        Parts of the labels, one of which a visit searches.
    gap_every : int
        Passes between certificates; 0 for one at the end only.
    max_iter : int
        Largest number of passes.
    tol : float
        Relative duality gap to reach; without certificates, the infeasibility to reach while the
        distributions change by a tenth of it (root mean square) in a pass.
    rng : numpy.random.Generator
        Draws the samples.
    after_epoch : callable
        See :class:`skstruct.solvers.progress.Progress`.

    Returns
    -------
    Result
        The weights and the history.

    References
    ----------
    Yen, Huang, Zhong, Zhang, Dhillon, Ravikumar 2016, Dual Decomposed Learning with Factorwise
    Oracles for Structural SVMs of Large Output Domain, NeurIPS.
    """
    options = GDMMOptions(
        _VARIANTS[variant],
        _SEARCHES[search],
        float(rho),
        float(eta) if multipliers else 0.0,
        n_partitions or n_parts(n_labels, search),
        1,
    )
    run = start_run(options)
    progress = Progress(sample_weight.size, after_epoch, *_CERTIFICATE[1:], *_SIZES)
    # Compile outside the clock.
    run.one_pass(np.empty(0, dtype=np.int64), np.empty(0))
    run.losses(run.weights(), stop=0)
    run.read_totals(0.0)
    run.search_seconds = 0.0
    progress.start()
    stopped = fresh = settled = False
    for iteration in range(1, max_iter + 1):
        order, uniforms = rng.permutation(run.n), rng.random(run.n_draws)
        before = progress.seconds
        run.one_pass(order, uniforms)
        run.read_totals(progress.seconds - before)
        fresh = gap_every > 0 and (iteration % gap_every == 0 or iteration == max_iter)
        if fresh:
            run.certify()
        stopped = _record(progress, run, iteration, fresh)
        # Without certificates: nodes and edges agree, and nothing moves.
        settled = gap_every == 0 and run.infeasibility <= tol and run.change <= _STILL * tol
        if stopped or settled or (fresh and run.relative_gap <= tol):
            break
    history = progress.history()
    if not fresh:
        run.certify()
    last = run.objective, run.gap, run.dual
    for name, value in zip(_CERTIFICATE, last, strict=True):
        history[name][-1] = value
    published = {
        "objective_": run.objective,
        "dual_objective_": run.dual,
        "dual_gap_": run.gap,
        "infeasibility_": run.infeasibility,
    }
    gap = run.relative_gap
    converged = settled or gap <= tol
    measure = "relative duality gap"
    return Result(run.weights(), converged, stopped, published, measure, gap, history)


def _record(progress, run, iteration, fresh):
    """Add a pass to the history; whether a callback stops the run."""
    node_set, edge_set = run.set_sizes()
    return progress.record(
        float(run.n * iteration),
        0.0,
        run.objective if fresh else np.nan,
        run.weights,
        dual_gap=run.gap if fresh else np.nan,
        dual_objective=run.dual if fresh else np.nan,
        infeasibility=run.infeasibility,
        node_set=node_set,
        edge_set=edge_set,
        search_seconds=run.search_seconds,
    )
