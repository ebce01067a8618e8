"""SAG with non-uniform sampling and SAGA on a smooth loss: epochs, step schedule, stopping."""

from __future__ import annotations

import numpy as np

from ...core.memory import check_memory
from ...core.offsets import longest_item
from ...core.parallel import ALONE, Crew, Pieces, count_threads, run_team
from ...core.weights import fold, halves, lazy_weights, plain_weights, squared_norms, zero_weights
from ...losses.verbs import least_term, require_smooth
from ..batch import Worker, block_size
from ..certificate import certify
from ..primal import compile_losses, objective_value
from ..run import REMEDY, Method, Result, run
from ..sampling import sum_tree
from .kernels import (
    DRAW,
    FILL,
    LOSS,
    MAGNITUDE,
    MAX_L,
    MEASURE,
    MOVE,
    N_FORWARD,
    N_ORACLE,
    N_STORED,
    N_TOTALS,
    N_VISIT_FIELDS,
    SHARE,
    STALENESS,
    Block,
    SAGOptions,
    SAGState,
    sag_epoch,
)
from .precision import SinglePrecision, fold_large, is_close, takes_single

# Norms of lazy weights in threads.

# Floats of a block: what they are summed by does not depend on the threads.
_BLOCK = 1 << 20


def _blocks(w):
    """Rows of the node table in blocks, the first of them with the pair table."""
    table = w.single if w.single.size else w.node
    size = max(_BLOCK // max(table.shape[1], 1), 1)
    for first in range(0, max(len(table), 1), size):
        rows = slice(first, first + size)
        part = w._replace(node=w.node[rows], single=w.single[rows])
        yield part if first == 0 else part._replace(pair=w.pair[:0])


def norms_in_threads(w, inverse_n: float, lam: float, n_threads: int) -> np.ndarray:
    """:func:`skstruct.core.weights.squared_norms`, the same bits for any number of threads."""
    blocks = list(_blocks(w))
    n_threads = min(n_threads, len(blocks))
    sums = np.zeros((len(blocks), 3))

    def work(k, team):
        for b in range(k, len(blocks), n_threads if team.size else 1):
            sums[b] = squared_norms(blocks[b], inverse_n, lam)

    run_team(work, n_threads)
    return sums.sum(axis=0)


_NO_ORDER = np.empty(0, dtype=np.int64)
_UNIT = np.array([1.0, 0.0])
_TINY = float(np.finfo(np.float64).tiny)


def _new_state(problem, uniform):
    n = problem.part_ptr.size - 1
    totals = np.zeros(N_TOTALS)
    if uniform:
        totals[MAX_L] = 1.0
    n_bytes = 8 * int(problem.part_ptr[-1])
    check_memory(n_bytes, "the stored residuals of SAG", 'use solver="lbfgs"')
    return SAGState(
        residuals=np.zeros(problem.part_ptr[-1]),
        terms=np.zeros(n),
        lipschitz=np.zeros(n),
        streak=np.zeros(n, dtype=np.int64),
        skip=np.zeros(n, dtype=np.int64),
        tree=sum_tree(n),
        totals=totals,
    )


def _new_block(problem, most):
    """Room for blocks of at most so many draws."""
    n = problem.part_ptr.size - 1
    mean = int(problem.part_ptr[-1]) // max(n, 1)
    room = max(2 * most * mean, longest_item(problem.part_ptr))
    return Block(
        counters=np.zeros(24, dtype=np.int64),
        samples=np.zeros(most, dtype=np.int64),
        first=np.zeros(most, dtype=np.int64),
        queue=np.zeros(most, dtype=np.int64),
        seen=np.zeros(n, dtype=np.int64),
        start=np.zeros(most + 1, dtype=np.int64),
        visits=np.zeros((most, N_VISIT_FIELDS)),
        coefficients=np.zeros((most, 2)),
        changes=np.zeros(room),
    )


class _StepSchedule:
    """Factor on the paper's step size, for non-uniform SAG.

    Half a step while the memory still holds gradients of the starting point, 1.5 steps once the
    L_i have settled, and from epoch 16 to 40 back to the paper's step, with which SAG converges to
    full precision. On CoNLL-2000 that takes a third off the passes to 1e-3. A stored gradient that
    grows shrinks it for good: the L_i are then too small for directions that all samples share.
    (The loss at the visits is no such sign: it depends on which samples are drawn.)
    """

    #: The largest factor, the epoch at which it begins to fall, and epochs in which it falls by 1.
    top, hold, fall = 1.5, 16, 48

    def __init__(self, constant):
        self._constant = constant
        self._largest = self.top
        self._epoch = 0
        self._smallest = np.inf

    def factor(self):
        if self._constant:
            return 1.0
        rising = 0.5 + self._epoch / 4
        falling = self.top - (self._epoch - self.hold) / self.fall
        return min(rising, max(falling, 1.0), self._largest)

    def epoch_done(self, squared_gradient):
        limit = 4.0 if self._epoch >= 10 else 100.0
        if squared_gradient > limit * self._smallest:
            self._largest = max(0.7 * self.factor(), 0.1)
            self._smallest = squared_gradient
        self._smallest = min(squared_gradient, self._smallest)
        self._epoch += 1


class _Confirmations:
    """When an estimate of the gap is worth the pass that measures it.

    After one that failed, the next estimate has to be better by what the last was too small, and
    some epochs have to pass: at most an eighth of all passes is spent in vain.
    """

    def __init__(self):
        self._optimism, self._epoch, self._next = 1.0, 0, 1
        self._estimate = np.inf

    def due(self, estimate, tol):
        """Once an epoch."""
        self._estimate, self._epoch = estimate, self._epoch + 1
        return self._epoch >= self._next and self._optimism * estimate <= tol

    def measured(self, relative):
        """What the last estimate has turned out to be."""
        if self._estimate > 0.0:
            self._optimism = min(max(relative / self._estimate, 1.0), 10.0)
        self._next = self._epoch + max(2, (self._epoch - 1) // 8)


def sag(
    problem,
    shapes,
    sample_weight: np.ndarray,
    lam: float,
    *,
    loss,
    start=None,
    saga: bool = False,
    uniform: bool = False,
    skipping: bool = True,
    max_iter: int = 100,
    tol: float = 1e-3,
    rng: np.random.Generator,
    precision: str = "auto",
    track_objective: bool = False,
    n_jobs=None,
    after_epoch,
) -> Result:
    """Minimise ``lam/2 |w|^2 + (1/n) sum_i s_i loss_i(w)`` by SAG or SAGA.

    Schmidt et al. 2015, Non-Uniform Stochastic Average Gradient Method for Training CRFs,
    Algorithms 1 to 3.
    """
    require_smooth(loss, "SAGA" if saga else "SAG")
    method = SAG(
        problem,
        shapes,
        sample_weight,
        lam,
        n_jobs,
        loss=loss,
        start=start,
        saga=saga,
        uniform=uniform,
        skipping=skipping,
        single=takes_single(precision, shapes, max_iter),
        track_objective=track_objective,
    )
    return run(method, max_iter=max_iter, tol=tol, rng=rng, after_epoch=after_epoch)


class SAG(Method):
    """Weights, memory and buffers of one run, and what is asked of them."""

    #: Whether threads work on several samples at once.
    in_blocks = True
    steps = _StepSchedule

    def __init__(self, *task, loss, start, saga, uniform, skipping, track_objective, single=False):
        super().__init__(*task)
        self.loss, self.track_objective = loss, track_objective
        self.w = lazy_weights(zero_weights(self.shapes) if start is None else start)
        self.state = _new_state(self.problem, uniform)
        self.schedule = self.steps(constant=saga or uniform)
        self.confirmations = _Confirmations()
        self._warm, self._uniform = start is not None, uniform
        self._flags = int(skipping and not uniform), int(uniform), int(saga)
        #: The best lower bound on the optimum so far.
        self.dual = 0.0
        # The same, where rounding to single precision may have raised it.
        self._likely_dual = 0.0
        self._direction, self._estimated = None, np.inf
        #: Estimate of the relative gap of the memory alone, without better bounds of the past.
        self.stored_gap = np.inf
        # A pass may be cut at multiples of this.
        size = min(block_size(self.problem), self.n // SHARE) if self.in_blocks else 1
        self._grain = max(size, 1)
        self._block = _new_block(self.problem, self._grain)
        n = min(count_threads(self.problem, self.n_jobs), self._grain)
        self._workers = [Worker(self.loss, self.problem, k, n) for k in range(n)]
        self._crew = Crew(n)
        memory = self.problem, self.state.residuals
        self._single = SinglePrecision(*memory, self._workers, self._crew) if single else None

    def compile(self):
        """Compile outside the clock."""
        self._pass(MOVE, _NO_ORDER, np.empty((0, 2)), Pieces())
        self._fold()
        self._norms()
        if self._single is not None:
            self._single.compile(self.w)
        if self.track_objective:
            compile_losses(self.loss, self.problem, self.w)

    def begin(self, progress):
        """Fill the memory at the weights to start from."""
        if self._warm:
            self._fill_memory()
        if self._single is not None:
            self.w = self._single.begin(self.w)

    def _end_single(self):
        if self.w.single.size:
            self.w = self._single.end(self.w)
            self._offer_dual(self._norms()[1])

    def epoch(self, k, rng, progress):
        """As many steps as there are samples; the first visit all of them."""
        self._put_back()
        if not self._uniform:
            self.state.totals[MAX_L] = self.state.lipschitz.max()
        order = rng.permutation(self.n) if k == 1 else _NO_ORDER
        self._pass(MOVE, order, rng.random((self.n, 2)), progress.pieces)
        self._estimated = self._estimate()

    def due(self, k, tol):
        """Where the estimate promises the tolerance."""
        return self.confirmations.due(self._estimated, tol)

    def _pass(self, task, order, uniforms, pieces):
        """Visits of samples; returns the means of losses, divergences and magnitudes."""
        flags = *self._flags, task, least_term(self.loss)
        options = SAGOptions(self.lam, self.schedule.factor(), *flags)
        sums, n_visits, size = [LOSS, STALENESS, MAGNITUDE], 0, self._grain
        self.state.totals[sums] = 0.0
        # Cut between blocks: where a pass is cut changes nothing.
        for first, last in pieces.visits(-(-len(uniforms) // size)):
            cut = slice(first * size, last * size)
            self._steps(options, order[cut], uniforms[cut])
            n_visits = min(last * size, len(uniforms))
        means = self.state.totals[sums] / max(n_visits, 1)
        if not np.isfinite(means).all():
            raise FloatingPointError(
                f"the loss is {means[0]}: scale the features (sklearn.preprocessing), or lower C"
            )
        return means

    def _steps(self, options, order, uniforms):
        self._block.counters[DRAW] = 0
        task = self.sample_weight, options, self.state, order, uniforms, self._block

        def work(k, team):
            own = self._workers[k]
            # Steps are in the coefficients: `w` has moved on by all of the block.
            w = own.share_of(self.w, self._crew.size)._replace(scale=_UNIT)
            sag_epoch(own.loss, own.problem, self.w, w, *task, *own.scratch, team)

        if len(uniforms):
            self._crew.run(work)
        else:
            work(0, ALONE)

    def _fold(self):
        fold(self.w)

    def _norms(self):
        norms = norms_in_threads(self.w, 1.0 / self.n, self.lam, self._crew.size)
        if not np.isfinite(norms).all():
            raise FloatingPointError(
                "the weights overflow: scale the features (sklearn.preprocessing), or lower C"
            )
        return norms

    def _offer_dual(self, squared_direction):
        terms = float(self.state.terms.sum()) / self.n
        dual = terms - squared_direction / (2.0 * self.lam)
        if not self.w.single.size:
            self.dual = max(dual, self.dual)
        self._likely_dual = max(dual, self._likely_dual)
        return dual

    def _estimate(self):
        """Relative gap after an epoch, as its visits let expect.

        ``P(w) - D(m) = |lam w + g|^2 / (2 lam) + (1/n) sum_i s_i divergence_i(m_i)``: the
        memory knows all but the divergences, which are taken from the visits.
        """
        totals = self.state.totals
        if totals[N_STORED] < self.n:
            return np.inf
        squared_norm, squared_direction, squared_gradient = self._norms()
        self.schedule.epoch_done(squared_gradient)
        dual = self._offer_dual(squared_direction)
        gap = squared_gradient / (2.0 * self.lam) + totals[STALENESS] / self.n
        objective = max(dual + gap, _TINY)
        self.stored_gap = float(gap) / float(objective)
        estimate = max(objective - max(self.dual, self._likely_dual), 0.0) / objective
        if self.w.single.size:
            fold_large(self.w, squared_norm, self.n**2 * squared_direction)
            if is_close(estimate):
                self._end_single()
        return estimate

    def _fill_memory(self):
        """Fill the memory at the present weights.

        Never between epochs: the stored gradient averages over past iterates, which oscillate
        around the optimum, and is much smaller than that of the present one. Filled with the
        latter, the memory throws the iterates far off.
        """
        self.state.totals[N_STORED] = self.n
        self._measure(FILL)
        self._offer_memory()

    def _offer_memory(self):
        self._offer_dual(self._norms()[1])

    def certify(self):
        """Certify the present weights, by a pass of its own."""
        self._end_single()
        # With b = 0 the pass changes only d: half a table is all there is to put back.
        self._fold()
        self._direction = []
        if self._single is None:
            self._direction = [table[:, table.shape[1] // 2 :].copy() for table in self.w.tables]
        self._measure(MEASURE)
        self.confirmations.measured(self.certificate.relative)

    def _put_back(self):
        if self._direction is None:
            return
        if self._single is not None:
            self._single.restore(self.w)
        else:
            for table, direction in zip(self.w.tables, self._direction, strict=True):
                table[:, table.shape[1] // 2 :] = direction
        self._direction = None

    def _measure(self, task):
        loss, _, magnitude = self._pass(task, np.arange(self.n), np.zeros((self.n, 2)), Pieces())
        self.certificate = self._certificate(loss, magnitude)
        self.dual = max(self.dual, self.certificate.dual_objective)

    def _certificate(self, loss, magnitude):
        squared_norm, _, squared_gradient = self._norms()
        objective = 0.5 * self.lam * squared_norm + loss
        return certify(objective, squared_gradient, self.lam, self.dual, magnitude)

    def work(self):
        """Oracle calls, and the passes of line searches."""
        return self.state.totals[N_ORACLE], self.state.totals[N_FORWARD]

    def entry(self):
        """The dual bound is known after every epoch."""
        objective = np.nan
        if self.certificate is not None:
            objective = self.certificate.objective
        elif self.track_objective:
            objective = self._objective()
        gap = max(objective - self.dual, 0.0)
        return {"objective": objective, "dual_gap": gap, "dual_objective": self.dual}

    def _objective(self):
        # On the lazy weights, whose kernels exist already.
        present = self.loss, self.problem, self.w, self.sample_weight, self.lam, self.n_jobs
        return objective_value(*present).objective

    def leave(self):
        """End the run: the memory as a dual point, its term and its direction."""
        self._put_back()
        self._end_single()
        directions = [(d / self.n).ravel() for _, d in halves(self.w, self.shapes)]
        return float(self.state.terms.sum()) / self.n, directions

    def weights(self):
        """The value of the weights."""
        return plain_weights(self.w, self.shapes)

    def _is_steep(self, lam):
        """Whether L-BFGS is likely to need fewer passes."""
        # Passes that SAG needs grow with L / (lam n), those of L-BFGS with the root of L / lam.
        return 20.0 * self.state.lipschitz.mean() / lam > self.n**2

    def remedy(self):
        """What to do where the tolerance was not reached."""
        if self._is_steep(self.lam):
            return 'regularisation is weak for so few samples: try solver="auto", or ' + REMEDY
        return REMEDY
