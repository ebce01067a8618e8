"""OWL-QN: L-BFGS under an L1 penalty, orthant by orthant."""

from __future__ import annotations

import numpy as np

from ...core.features import reduce_problem
from ...core.parallel import Pieces
from ...core.weights import Weights, view_flat
from ..certificate import known_record
from ..run import Method
from ..sag.proximal import rows_to_keep
from .kernels import N_SOFT, mix, soft_sums
from .solver import QuasiNewton

# Sweeps that look for the best point on a line of dual points.
_SWEEPS = 4


class OrthantWise(QuasiNewton):
    """Points, pairs and the best dual point of one run of OWL-QN; ``lam`` is lam2.

    Minimises ``lam2/2 |w|^2 + lam1 |w|_1 + (1/n) sum_i s_i loss_i(w)``.

    Andrew & Gao 2007, Scalable Training of L1-Regularized Log-Linear Models, Algorithm 1.
    """

    name = "OWL-QN"

    def __init__(self, *task, l1, **options):
        super().__init__(*task, **options)
        if not self._is_convex:
            name = type(self.loss).__name__
            raise TypeError(f"OWL-QN needs a convex loss, and {name} is not")
        self.l1 = l1

    def compile(self):
        """Compile outside the clock."""
        super().compile()
        none = np.empty(0)
        soft_sums(none, none, 0.0, 0.0, 0.0, 0, 0, np.zeros(N_SOFT))

    def _along(self, direction, origin, share):
        """See :func:`soft_sums`."""
        line = self._mixed, direction, origin, share, self.l1
        return self._sweeps(soft_sums, N_SOFT, *line, largest=3)

    def _climb(self, direction, origin, terms, share):
        """Newton's steps for the best point of a line of dual points: its share and its bound.

        The bound is concave; terms are at least linear in the share.
        """
        best, low, high = (-np.inf, 0.0), 0.0, 1.0
        for _ in range(_SWEEPS):
            value, slope, curve, _ = self._along(direction, origin, share)
            bound = terms[0] + share * (terms[1] - terms[0]) - value / (2.0 * self.lam)
            best = max(best, (bound, share))
            rise = terms[1] - terms[0] - slope / self.lam
            low, high = (share, high) if rise > 0.0 else (low, share)
            following = share + rise * self.lam / curve if curve > 0.0 else 0.5 * (low + high)
            if not low < following < high:
                following = high if following >= high == 1.0 > share else 0.5 * (low + high)
            if abs(following - share) <= 1e-3 * share:
                break
            share = following
        return best

    def _offer(self, term, direction, product, squared):
        """The bounds of a dual point, of its multiples, and of its mixtures with the best one."""
        largest = self._along(direction, 0.0, 1.0)[3]
        # Inside the box |g| <= lam1 no regulariser is asked for.
        inside = min(1.0, self.l1 / largest) if largest > 0.0 else 1.0
        self.dual = max(self.dual, inside * term)
        if self.lam == 0.0:
            return
        self.dual = max(self.dual, self._climb(direction, 0.0, (0.0, term), 1.0)[0])
        bound, share = self._climb(direction, 1.0, (self._term, term), 0.5)
        self.dual = max(self.dual, bound)
        if share > 0.0:
            self._sweeps(mix, 1, self._mixed, direction, share)
            self._term += share * (term - self._term)

    def weights(self):
        """Copies of the tables; 0 without a sign."""
        found = super().weights()
        for table in found.tables:
            table += 0.0
        return found


# OWL-QN on the feature rows that matter: the others are 0 under an L1 penalty, and stay so.

# Rows of weight 0 come in where their gradients are above this share of the threshold.
_COMES = 0.7
# Iterations after which all rows are looked at, whatever the gap among those that are there.
_LOOK = 40
# Pairs: at least and at most, and in between so many for each part a weight.
_MEMORY, _ROOM = (10, 30), 4.0


class SparseOrthantWise(Method):
    """OWL-QN on a problem without the rows that are 0, with certificates of the whole one."""

    def __init__(self, *task, start, dual=0.0, **options):
        super().__init__(*task)
        self._options = options
        # Iterates on few rows; all rows are measured now and then.
        self._whole = OrthantWise(*task, start=start, dual=dual, **options)
        self._inner = self._rows = None
        self._calls, self._iterations = 0, 0

    def compile(self):
        """Compile outside the clock."""
        self._whole.compile()

    def begin(self, progress):
        """Measure the start."""
        self._look(progress.pieces)

    def _look(self, pieces):
        """Measure the iterate on all rows, and include further rows."""
        whole = self._whole._here
        if self._inner is not None:
            whole.w[:], whole.known = self._flat(), False
        if not (whole.known or self._whole._evaluate(whole, pieces)):
            return
        self._iterations = 0
        w, d = view_flat(whole.w, self.shapes), view_flat(whole.d, self.shapes)
        kept = rows_to_keep(self.problem, w.node, d.node, _COMES * self._options["l1"])
        if self._rows is not None:
            kept[self._rows] = True
            if kept.sum() == self._rows.size:
                return
        self._take(np.flatnonzero(kept), Weights(w.node[kept], w.pair.copy()))

    def _take(self, rows, start):
        """Continue with more rows: the pairs have no entries for the new ones."""
        before, known = self._inner, self._rows
        reduced = reduce_problem(self.problem, rows, self.shapes[0][0])
        shapes = start.node.shape, self.shapes[1]
        task = reduced, shapes, self.sample_weight, self.lam, self.n_jobs
        if before is None:
            # On short vectors many pairs cost little compared with a pass, and save passes.
            room = _ROOM * int(self.problem.part_ptr[-1]) / (start.node.size + start.pair.size)
            self._options["memory"] = int(np.clip(room, *_MEMORY))
        self._inner, self._rows = OrthantWise(*task, start=start, **self._options), rows
        self.stalled = False  # that was without these rows
        if before is not None:  # rows are never left out again
            self._calls += before.n_calls
            moved = np.searchsorted(rows, known)[:, None] * shapes[0][1] + np.arange(shapes[0][1])
            pair = shapes[0][0] * shapes[0][1] + np.arange(self.shapes[1][0] * self.shapes[1][1])
            self._inner.take_pairs(before, np.r_[moved.ravel(), pair])

    def epoch(self, k, rng, progress):
        """One iteration."""
        if self._iterations >= _LOOK:
            self._look(progress.pieces)
        if self._inner is not None:
            self._iterations += 1
            self._inner.epoch(k, rng, progress)
            self._inner.certify()
            self.stalled = self._inner.stalled

    def due(self, k, tol):
        """Return whether the gap over the rows that are included is small enough."""
        return self.stalled or self._inner is None or self._inner.certificate.relative <= tol

    def certify(self):
        """Measure the present weights on all rows."""
        self._look(Pieces())
        self._whole.certify()
        self.certificate = self._whole.certificate

    def work(self):
        """Oracle calls: there is nothing else."""
        inner = 0 if self._inner is None else self._inner.n_calls
        return (self._calls + inner + self._whole.n_calls) * self.n, 0

    def entry(self):
        """The objective is known after every iteration, the bound from the last look."""
        if self.certificate is not None or self._inner is None:
            return super().entry()
        return known_record(self._inner._here.value, self._whole.dual)

    def _flat(self):
        flat = np.zeros(self._whole._here.w.size)
        tables = view_flat(flat, self.shapes)
        known = view_flat(self._inner._here.w, self._inner.shapes)
        tables.node[self._rows], tables.pair[:] = known.node, known.pair
        return flat

    def weights(self):
        """The present weights; 0 without a sign."""
        if self._inner is None:
            return self._whole.weights()
        found = view_flat(self._flat(), self.shapes)
        for table in found.tables:
            table += 0.0
        return found

    def remedy(self):
        """Return the advice for a run that has not reached the tolerance."""
        return self._inner.remedy()
