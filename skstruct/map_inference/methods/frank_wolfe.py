"""Block-coordinate Frank-Wolfe on the primal with soft consistency."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...core.arguments import check_choice, check_flag, check_real
from ...core.jit.kernels import inner_kernel, kernel
from ...core.offsets import ends_of
from ..budget import Stopped
from ..kinds.operations import region_max, region_project, region_soft_max, require_projection
from ..regions import AT_MOST_ONE, POTTS
from .relaxation import SMOOTHINGS, Method, Report, l2_shift, pieces


class Primal(NamedTuple):
    """Primal variables of a relaxation."""

    # (n_regions + 1,): Where a region's variables begin; regions that are in no other may have
    # none.
    primal_ptr: np.ndarray
    # Marginals of regions.
    primal: np.ndarray
    # Marginals of regions on their children, with the layout of messages.
    projections: np.ndarray
    # (n_regions,): Scores of the regions' marginals.
    own: np.ndarray


@inner_kernel
def place(p, r, state, mu, down, own):
    """Set the primal variables of region `r`."""
    state.own[r] = own
    for k in range(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]]):
        state.projections[k] = down[k]
    if state.primal_ptr[r + 1] > state.primal_ptr[r]:
        for x in range(p.size[r]):
            state.primal[state.primal_ptr[r] + x] = mu[x]


@kernel
def start_pass(p, start, stop, state, delta, mu, down, totals, scratch):
    """Primal variables that maximise the regions' own scores; messages `delta` are 0."""
    for r in range(start, stop):
        value = region_max(p, r, delta, mu, down, scratch)
        totals[0] += value
        place(p, r, state, mu, down, value)


@inner_kernel
def measure(p, r, state, delta, mu, down, sums):
    """Into `sums`: messages' score at region `r` and at a new point, square distances."""
    now, new, apart, own_apart = 0.0, 0.0, 0.0, 0.0
    for k in range(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]]):
        old = state.projections[k]
        now -= delta[k] * old
        new -= delta[k] * down[k]
        apart += (down[k] - old) ** 2
    if state.primal_ptr[r + 1] > state.primal_ptr[r]:
        first = state.primal_ptr[r]
        for x in range(p.size[r]):
            own_apart += (mu[x] - state.primal[first + x]) ** 2
        for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
            m = p.message_ptr[p.parent[at]]
            for x in range(p.size[r]):
                now += delta[m + x] * state.primal[first + x]
                new += delta[m + x] * mu[x]
    sums[0], sums[1], sums[2], sums[3] = now, new, apart, own_apart


@inner_kernel
def move(p, r, state, delta, lam, mu, down, own, step):
    """Go a step from region `r`'s variables to a new point; the messages follow."""
    state.own[r] += step * (own - state.own[r])
    for k in range(p.message_ptr[p.slot_ptr[r]], p.message_ptr[p.slot_ptr[r + 1]]):
        change = step * (down[k] - state.projections[k])
        state.projections[k] += change
        delta[k] += change / lam
    if state.primal_ptr[r + 1] > state.primal_ptr[r]:
        first = state.primal_ptr[r]
        for x in range(p.size[r]):
            change = step * (mu[x] - state.primal[first + x])
            state.primal[first + x] += change
            for at in range(p.parent_ptr[r], p.parent_ptr[r + 1]):
                delta[p.message_ptr[p.parent[at]] + x] -= change / lam


@inner_kernel
def _products(p, r, state, mu, down, sums):
    """Into `sums`: square norm of region `r`'s variables, product with a new point, its norm."""
    old_old, old_new, new_new = 0.0, 0.0, 0.0
    if p.size[r] > 0:
        first = state.primal_ptr[r]
        for x in range(p.size[r]):
            old = state.primal[first + x]
            old_old += old * old
            old_new += old * mu[x]
            new_new += mu[x] * mu[x]
    else:
        old_none, new_none = 1.0, 1.0
        begin, m = p.scope_ptr[r], p.message_ptr[p.slot_ptr[r]]
        for j in range(p.scope_ptr[r + 1] - begin):
            k = m + 2 * j + 1 - p.negated[begin + j]
            old, new = state.projections[k], down[k]
            old_none -= old
            new_none -= new
            old_old += old * old
            old_new += old * new
            new_new += new * new
        if p.kind[r] == AT_MOST_ONE:
            old_old += old_none * old_none
            old_new += old_none * new_none
            new_new += new_none * new_none
    sums[4], sums[5], sums[6] = old_old, old_new, new_new


@kernel
def frank_wolfe_pass(p, order, start, stop, lam, state, delta, mu, down, sums, scratch):
    """Frank-Wolfe steps on some regions, each to the best point towards its maximiser."""
    for k in range(start, stop):
        r = order[k]
        value = region_max(p, r, delta, mu, down, scratch)
        measure(p, r, state, delta, mu, down, sums)
        gap = value - (state.own[r] + sums[0])
        if gap > 0.0:
            n_parents = p.parent_ptr[r + 1] - p.parent_ptr[r]
            curvature = (n_parents * sums[3] + sums[2]) / lam
            step = min(1.0, gap / curvature)
            move(p, r, state, delta, lam, mu, down, value - sums[1], step)


@kernel
def sdca_pass(p, order, start, stop, gamma, lam, state, delta, mu, down, sums, scratch):
    """Steps on some regions, each to the best point towards its smoothed maximiser."""
    for k in range(start, stop):
        r = order[k]
        value = region_project(p, r, delta, gamma, mu, down, scratch)
        measure(p, r, state, delta, mu, down, sums)
        _products(p, r, state, mu, down, sums)
        linear = value + 0.5 * gamma * sums[6]
        slope = linear - (state.own[r] + sums[0]) - gamma * (sums[5] - sums[4])
        if slope > 0.0:
            n_parents = p.parent_ptr[r + 1] - p.parent_ptr[r]
            apart = sums[4] - 2.0 * sums[5] + sums[6]
            curvature = gamma * max(apart, 0.0) + (n_parents * sums[3] + sums[2]) / lam
            step = min(1.0, slope / curvature)
            move(p, r, state, delta, lam, mu, down, linear - sums[1], step)


@inner_kernel
def _entropies(p, r, state, mu, down, sums):
    """Into `sums`: entropy of region `r`'s variables, L1 distance of a new point."""
    entropy, apart = 0.0, 0.0
    if p.size[r] > 0:
        first = state.primal_ptr[r]
        for x in range(p.size[r]):
            old = state.primal[first + x]
            entropy -= old * math.log(old) if old > 0.0 else 0.0
            apart += abs(mu[x] - old)
    else:
        old_none, new_none = 1.0, 1.0
        begin, m = p.scope_ptr[r], p.message_ptr[p.slot_ptr[r]]
        for j in range(p.scope_ptr[r + 1] - begin):
            k = m + 2 * j + 1 - p.negated[begin + j]
            old = state.projections[k]
            old_none -= old
            new_none -= down[k]
            entropy -= old * math.log(old) if old > 0.0 else 0.0
            apart += abs(down[k] - old)
        if p.kind[r] == AT_MOST_ONE:
            entropy -= old_none * math.log(old_none) if old_none > 0.0 else 0.0
            apart += abs(new_none - old_none)
    sums[4], sums[5] = entropy, apart


@kernel
def entropy_pass(p, order, start, stop, gamma, lam, state, delta, mu, down, sums, scratch):
    """Steps on some regions towards soft maximisers: entropy is strongly concave in L1."""
    for k in range(start, stop):
        r = order[k]
        value = region_soft_max(p, r, delta, gamma, mu, down, scratch)
        own = _own_score(p, r, mu)
        measure(p, r, state, delta, mu, down, sums)
        _entropies(p, r, state, mu, down, sums)
        gap = value - (state.own[r] + sums[0] + gamma * sums[4])
        if gap > 0.0:
            n_parents = p.parent_ptr[r + 1] - p.parent_ptr[r]
            strong = gamma * sums[5] * sums[5]
            curvature = strong + (n_parents * sums[3] + sums[2]) / lam
            step = min(1.0, (gap + 0.5 * strong) / curvature)
            move(p, r, state, delta, lam, mu, down, own, step)


@inner_kernel
def _own_score(p, r, mu):
    """Score of a region's new point without messages."""
    total = 0.0
    for x in range(p.size[r]):
        if mu[x] > 0.0:
            if p.kind[r] != POTTS:
                total += mu[x] * p.scores[p.score_ptr[r] + x]
            else:
                n = p.n_states[p.scope[p.scope_ptr[r] + 1]]
                total += mu[x] * p.scores[p.score_ptr[r]] if x // n == x % n else 0.0
    return total


@kernel
def renew_messages(p, lam, state, center, delta):
    """The messages that belong to the primal variables, without what roundings added up to."""
    for s in range(p.child.shape[0]):
        first = state.primal_ptr[p.child[s]] - p.message_ptr[s]
        for k in range(p.message_ptr[s], p.message_ptr[s + 1]):
            lack = state.projections[k] - state.primal[first + k]
            delta[k] = (center[k] if center.shape[0] > 0 else 0.0) + lack / lam


@kernel
def total_entropy(p, state, down, sums):
    """Entropy of all primal variables."""
    total = 0.0
    for r in range(p.kind.shape[0]):
        _entropies(p, r, state, state.primal[state.primal_ptr[r] :], down, sums)
        total += sums[4]
    return total


@kernel
def square_norm(p, state):
    """Square norm of all primal variables."""
    total = 0.0
    for r in range(p.kind.shape[0]):
        if p.size[r] > 0:
            for x in range(state.primal_ptr[r], state.primal_ptr[r + 1]):
                total += state.primal[x] ** 2
        else:
            none = 1.0
            begin, m = p.scope_ptr[r], p.message_ptr[p.slot_ptr[r]]
            for j in range(p.scope_ptr[r + 1] - begin):
                true = state.projections[m + 2 * j + 1 - p.negated[begin + j]]
                none -= true
                total += true * true
            if p.kind[r] == AT_MOST_ONE:
                total += none * none
    return total


_NO_CENTER = np.zeros(0)
# Passes between two moves of the center.
_PASSES_OF_CENTER = 3
# Without an augmented Lagrangian, and with one, there relative to the inverse of scores.
_LAM, _LAM_OF_MULTIPLIERS = 0.01, 10.0


class FrankWolfe(Method):
    """Steps on one region at a time, in random order: paper's Algorithm 1; SDCA with `gamma`."""

    def __init__(self, graph, tol, rng, budget, lam, gamma=None, smoothing="l2"):
        super().__init__(graph, tol, rng, budget)
        p, self.lam, self.gamma, self.smoothing = self.regions, lam, gamma, smoothing
        self.center = _NO_CENTER
        kept = (np.diff(p.parent_ptr) > 0) | (gamma is not None)
        kept[: p.n_variables] = True
        primal_ptr = ends_of(np.where(kept, p.size, 0))
        self.state = Primal(
            primal_ptr=primal_ptr,
            primal=np.zeros(int(primal_ptr[-1])),
            projections=np.zeros(self.room.n_messages),
            own=np.zeros(self.room.n_regions),
        )
        self.sums = np.zeros(7)
        # Not before the start is complete, and never if a region has no finite score.
        self.possible = False

    def begin(self):
        """Start at the maximisers of the regions' own scores."""
        room, totals = self.room, np.zeros(1)
        try:
            for start, stop in self.ranges():
                start_pass(
                    self.regions, start, stop, self.state, self.delta, room.mu, room.down, totals,
                    room.scratch,
                )  # fmt: skip
        except Stopped:
            return False
        self.possible = bool(np.isfinite(totals[0]))
        if self.possible:
            self._renew()
        self.passes += 1
        return True

    def _renew(self):
        renew_messages(self.regions, self.lam, self.state, self.center, self.delta)

    def one_pass(self):
        """A step on each region."""
        room, order = self.room, self.rng.permutation(self.room.n_regions)
        one_pass, own = frank_wolfe_pass, (self.lam,)
        if self.gamma is not None:
            one_pass = sdca_pass if self.smoothing == "l2" else entropy_pass
            own = self.gamma, self.lam
        for start, stop in self.ranges(pieces(room.work[order])):
            if self.possible:
                one_pass(
                    self.regions, order, start, stop, *own, self.state, self.delta, room.mu,
                    room.down, self.sums, room.scratch,
                )  # fmt: skip
        if self.possible:
            self._renew()
        self.passes += 1

    def report(self, maxima):
        """The primal objective, with the duality gap of Algorithm 1."""
        if not self.possible:
            return Report(math.nan)
        value, gap = self._penalised(maxima)
        disagreement = self.lam * float(np.linalg.norm(self.delta))
        done = ""
        if gap <= self.tol * max(1.0, abs(value)):
            done = "the duality gap of the soft-constrained problem is below tol"
        is_l2 = self.gamma is not None and self.smoothing == "l2"
        shift = l2_shift(self.room, self.gamma) if is_l2 else 0.0
        return Report(value, disagreement, gap, done, shift)

    def _penalised(self, maxima):
        """Objective of the primal variables where the center is 0, and its duality gap."""
        square = self.lam * float(self.delta @ self.delta)
        primal, dual = float(self.state.own.sum()) - 0.5 * square, maxima + 0.5 * square
        if self.gamma is not None:
            primal += self._softness()
            dual = self.smoothed_dual(self.delta, self.gamma, self.smoothing) + 0.5 * square
        return primal + self.regions.offset, max(dual - primal, 0.0)

    def _softness(self):
        """What the smoothing adds to the primal objective."""
        if self.smoothing == "l2":
            return -0.5 * self.gamma * square_norm(self.regions, self.state)
        room = self.room
        return self.gamma * total_entropy(self.regions, self.state, room.down, self.sums)

    def labellings(self):
        """Return the labellings of the messages, and of the primal variables."""
        yield from super().labellings()
        primal, begin = self.state.primal[: self.graph.unary.size], self.graph.state_ptr[:-1]
        if begin.size:
            tops = np.repeat(np.maximum.reduceat(primal, begin), self.graph.n_states)
            best = np.flatnonzero(primal == tops)
            yield best[np.searchsorted(best, begin)] - begin

    def beliefs(self):
        """The primal variables."""
        if not self.possible:
            return None
        return self.state.primal[: self.graph.unary.size].copy()


class AugmentedFrankWolfe(FrankWolfe):
    """Frank-Wolfe within an augmented Lagrangian, whose multipliers are the center."""

    def __init__(self, graph, tol, rng, budget, lam):
        super().__init__(graph, tol, rng, budget, lam)
        if lam is None:
            self.lam = _LAM_OF_MULTIPLIERS / (self.room.mean_range or 1.0)
        self.center = np.zeros(self.room.n_messages)

    def one_pass(self):
        """A pass, and now and then a step of the multipliers."""
        super().one_pass()
        if self.possible and int(self.passes) % _PASSES_OF_CENTER == 0:
            np.copyto(self.center, self.delta)
            self._renew()

    def report(self, maxima):
        """Scores of the primal variables, and how far they are from agreeing."""
        if not self.possible:
            return Report(math.nan)
        value = float(self.state.own.sum()) + self.regions.offset
        disagreement = self.lam * float(np.linalg.norm(self.delta - self.center))
        gap = abs(maxima + self.regions.offset - value)
        enough = self.tol * max(1.0, abs(value))
        done = "the marginals agree" if max(gap, disagreement) <= enough else ""
        return Report(value, disagreement, done=done)


class AcceleratedSDCA(FrankWolfe):
    """SDCA on proximal subproblems that a few passes can solve, with extrapolated centers."""

    def __init__(self, graph, tol, rng, budget, lam, gamma, smoothing):
        super().__init__(graph, tol, rng, budget, lam, gamma, smoothing)
        p = self.regions
        contacts = int((np.diff(p.parent_ptr) + np.diff(p.slot_ptr)).max(initial=1))
        self.own_lam, self.lam = lam, max(contacts / gamma, lam)
        self.last, self.center = np.zeros((2, self.room.n_messages))

    def one_pass(self):
        """A pass, and now and then a step of the center beyond the messages."""
        super().one_pass()
        if self.possible and int(self.passes) % _PASSES_OF_CENTER == 0:
            root = math.sqrt(self.own_lam / self.lam)
            ahead = self.delta + (1.0 - root) / (1.0 + root) * (self.delta - self.last)
            np.copyto(self.last, self.delta)
            np.multiply(ahead, 1.0 - self.own_lam / self.lam, out=self.center)
            self._renew()

    def _penalised(self, maxima):
        """The dual objective at the messages, and its gap from the primal one without a center."""
        dual = self.smoothed_dual(self.delta, self.gamma, self.smoothing)
        dual += 0.5 * self.own_lam * float(self.delta @ self.delta)
        lack = self.lam * (self.delta - self.center)
        primal = float(self.state.own.sum()) + self._softness()
        primal -= float(lack @ lack) / (2.0 * self.own_lam)
        return primal + self.regions.offset, max(dual - primal, 0.0)


def solve_frank_wolfe(graph, *, tol, max_iter, rng, budget, lam=None, augmented=False):
    """Block-coordinate Frank-Wolfe on the primal with a penalty, ``1 / (2 lam)``, on consistency.

    Meshi, Mahdavi, Schwing 2015, Algorithm 1; `augmented`: with multipliers (Martins et al. 2011).
    """
    method = AugmentedFrankWolfe if check_flag("augmented", augmented) else FrankWolfe
    if lam is not None or not augmented:
        lam = check_real("lam", _LAM if lam is None else lam, positive=True)
    return method(graph, tol, rng, budget, lam).run("frank-wolfe", max_iter)


def solve_sdca(
    graph,
    *,
    tol,
    max_iter,
    rng,
    budget,
    gamma=0.1,
    lam=0.1,
    smoothing="l2",
    accelerated=False,
):
    """Stochastic dual coordinate ascent on the dual smoothed by `gamma`, plus ``lam/2 |delta|^2``.

    Meshi, Mahdavi, Schwing 2015, section 4.3 and Table 1; Shalev-Shwartz, Zhang 2014.
    """
    check_choice("smoothing", smoothing, SMOOTHINGS)
    require_projection(graph, "sdca")
    gamma, lam = check_real("gamma", gamma, positive=True), check_real("lam", lam, positive=True)
    method = AcceleratedSDCA if check_flag("accelerated", accelerated) else FrankWolfe
    return method(graph, tol, rng, budget, lam, gamma, smoothing).run("sdca", max_iter)
