"""Greedy direction method of multipliers: passes, certificates, history."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ...core.weights import Weights, zero_weights
from ..certificate import NOTHING_KNOWN, UNMEASURED, certify_pair
from ..primal import compile_hinge, hinge_value
from ..progress import Pieces, Progress, Result
from .active_sets import packed
from .state import ALL, CHANGE, INFEASIBILITY, SEARCH, GDMMOptions

_VARIANTS = {"bcfw": 0, "afw": 1, "bgcd": 2}
_STILL = 0.1
_FIELDS = ("dual_gap", "dual_objective", "infeasibility", "node_set", "edge_set", "search_seconds")
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
    >>> from skstruct.solvers.gdmm.solver import n_parts
    >>> n_parts(45, "sublinear"), n_parts(2934, "sublinear"), n_parts(2934, "exact")
    (1, 13, 1)
    """
    return 1 if search == "exact" else max(1, int(np.sqrt(n_labels) / 4.0))


class Run(ABC):
    """Weights, dual point and certificates of one run.

    Parameters
    ----------
    problem : NamedTuple
        The structure's problem, for certificates: with cycles its max oracle is that of the LP
        relaxation, since a dual point whose nodes and edges agree says nothing about less.
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

    #: Fields of the state that are :class:`skstruct.solvers.gdmm.active_sets.ActiveSets`.
    arenas = ()

    def __init__(self, problem, decoding, shapes, sample_weight, lam, options, n_jobs):
        self.problem, self.decoding, self.shapes = problem, decoding, shapes
        self.sample_weight, self.lam, self.options = sample_weight, lam, options
        self.n_jobs, self.n = n_jobs, sample_weight.size
        self.reach = sample_weight / (lam * self.n)
        self.w = zero_weights((shapes[0], (0, 0)))
        self.certificate = NOTHING_KNOWN
        self.dual, self.infeasibility, self.search_seconds = -np.inf, 0.0, 0.0
        self.change = np.inf
        self._headroom = 1024

    @abstractmethod
    def one_pass(self, order, uniforms, pieces):
        """Visit all factors of the samples in `order`, then move the multipliers."""

    @abstractmethod
    def pair_weights(self):
        """A copy of the edge weights, in the shape of the weight table."""

    @abstractmethod
    def dual_point(self):
        """A consistent dual point near the present one: its task losses, its weights' squared norm.

        It must lie in the set that the objective ranges over: all nodes agree with their edges, and
        nothing is on pairs that may not occur.
        """

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

    def visit(self, function, order, uniforms, pieces):
        """Call a kernel on the samples in `order`, in pieces.

        Parameters
        ----------
        function : callable
            As for :meth:`over_arena`.
        order : ndarray of int64
            The samples.
        uniforms : ndarray
            Random numbers of all factors.
        pieces : Pieces
            How to cut.
        """
        for first, last in pieces.visits(order.size):
            self.over_arena(function, self.w, order[first:last], uniforms)

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

    def compile(self):
        """Compile outside the clock."""
        self.one_pass(np.empty(0, dtype=np.int64), np.empty(0), Pieces())
        self.dual_point()
        w = self.weights()
        compile_hinge(self.decoding(self.problem, w), w)
        self.read_totals(0.0)
        self.search_seconds = 0.0

    def certify(self):
        """Objective of the weights by one oracle call a sample, and the best dual bound."""
        w, weight, lam = self.weights(), self.sample_weight, self.lam
        losses, norm = self.dual_point()
        bound = float(losses @ weight) / self.n - 0.5 * lam * norm
        value = hinge_value(self.decoding(self.problem, w), w, weight, lam, self.n_jobs)
        # A bound that is wrong must not hide behind a better one of before.
        certify_pair(value.objective, bound, value.magnitude)
        self.dual = max(self.dual, bound)
        self.certificate = certify_pair(value.objective, self.dual, value.magnitude)


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

    Raises
    ------
    FloatingPointError
        If a loss is not finite, or the objectives are not those of a primal and a dual.

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
    progress = Progress(sample_weight.size, after_epoch, *_FIELDS)
    run.compile()
    progress.start()
    stopped = fresh = settled = False
    for iteration in range(1, max_iter + 1):
        order, uniforms = rng.permutation(run.n), rng.random(run.n_draws)
        before = progress.seconds
        run.one_pass(order, uniforms, progress.pieces)
        run.read_totals(progress.seconds - before)
        fresh = gap_every > 0 and (iteration % gap_every == 0 or iteration == max_iter)
        if fresh:
            run.certify()
        stopped = _record(progress, run, iteration, fresh)
        # Without certificates: nodes and edges agree, and nothing moves.
        settled = gap_every == 0 and run.infeasibility <= tol and run.change <= _STILL * tol
        if stopped or settled or (fresh and run.certificate.relative <= tol):
            break
    if not fresh:
        run.certify()
        progress.amend(float(run.n * iteration), 0.0)
    more = {"settled": settled, "infeasibility_": run.infeasibility}
    return run.certificate.result(run.weights(), tol, stopped, progress, **more)


def _record(progress, run, iteration, fresh):
    """Add a pass to the history; whether a callback stops the run."""
    node_set, edge_set = run.set_sizes()
    return progress.record(
        float(run.n * iteration),
        0.0,
        weights=run.weights,
        infeasibility=run.infeasibility,
        node_set=node_set,
        edge_set=edge_set,
        search_seconds=run.search_seconds,
        **(run.certificate if fresh else UNMEASURED).record,
    )
