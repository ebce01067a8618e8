"""L-BFGS and OWL-QN: exact batch gradients, and sweeps over the weights in threads."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ..core.jit.dispatch import inner_kernel, kernel
from ..core.parallel import Pieces, effective_threads, over_blocks
from ..core.weights import flatten, view_flat, zero_weights
from ..losses.verbs import ROUNDING, is_convex, least_term, require_smooth
from .certificate import certify, certify_l1, stationarity
from .primal import BatchGradient
from .run import REMEDY, Method

#: Numbers that :func:`measure`, :func:`combine` and :func:`soft_sums` give.
N_MEASURED, N_COMBINED, N_SOFT = 8, 4, 4
#: Elements that stay in the cache while all pairs pass.
BLOCK = 1024


@inner_kernel(inline=True)
def _pseudo(g, w, lam1):
    """Element of the subdifferential of smallest size, where g is the smooth part's derivative."""
    if w > 0.0:
        return g + lam1
    if w < 0.0:
        return g - lam1
    if g > lam1:
        return g - lam1
    return g + lam1 if g < -lam1 else 0.0


@kernel
def measure(w, d, p, mixed, inverse_n, lam, lam1, first, last, out):
    """Turn `d` from a sum over samples into their mean, and measure the point."""
    a, b, c, e, f, h, one, gap = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    # Indices from 0 are known not to be negative, and loops over them take several at a time.
    w, d, p, mixed = w[first:last], d[first:last], p[first:last], mixed[first:last]
    for j in range(last - first):
        d[j] *= inverse_n
        change = d[j] - mixed[j]
        a += w[j] * w[j]
        b += w[j] * d[j]
        f += change * mixed[j]
        h += change * change
    if lam1 > 0.0:
        for j in range(last - first):
            g = _pseudo(lam * w[j] + d[j], w[j], lam1)
            c += g * p[j]
            e += g * g
            one += abs(w[j])
            if lam > 0.0:
                beyond = abs(d[j]) - lam1
                beyond = beyond if beyond > 0.0 else 0.0
                # With z = -sign(d) beyond / lam, where the term is 0: a square, and what is left.
                z = -beyond / lam if d[j] > 0.0 else beyond / lam
                away = w[j] - z
                left = lam1 * abs(w[j]) + w[j] * (d[j] + lam * z)
                gap += 0.5 * lam * away * away + (left if left > 0.0 else 0.0)
    else:
        for j in range(last - first):
            g = lam * w[j] + d[j]
            c += g * p[j]
            e += g * g
    out[0], out[1], out[2], out[3], out[4], out[5] = a, b, c, e, f, h
    out[6], out[7] = one, gap


@kernel
def mix(mixed, d, share, first, last, out):
    """``mixed += share (d - mixed)``; out[0] receives its squared norm."""
    total = 0.0
    mixed, d = mixed[first:last], d[first:last]
    for j in range(last - first):
        mixed[j] += share * (d[j] - mixed[j])
        total += mixed[j] * mixed[j]
    out[0] = total


@kernel
def soft_sums(x, y, origin, share, lam1, first, last, out):
    """Write the sums that make up a dual bound, along a line of dual points."""
    value, slope, curve, largest = 0.0, 0.0, 0.0, 0.0
    x, y = x[first:last], y[first:last]
    for j in range(last - first):
        before = origin * x[j]
        change = y[j] - before
        g = before + share * change
        size = abs(g)
        largest = size if size > largest else largest
        soft = size - lam1
        if soft > 0.0:
            value += soft * soft
            slope += soft * (change if g > 0.0 else -change)
            curve += change * change
    out[0], out[1], out[2], out[3] = value, slope, curve, largest


@kernel
def step(w, d, p, t, lam, lam1, trial, first, last, out):
    """``trial = w + t p``, in the orthant of w; out[2:] takes ``<g, trial - w>`` and its norm."""
    slope, squared = 0.0, 0.0
    w, d, p, trial = w[first:last], d[first:last], p[first:last], trial[first:last]
    if lam1 > 0.0:
        for j in range(last - first):
            g = _pseudo(lam * w[j] + d[j], w[j], lam1)
            x = w[j] + t * p[j]
            side = w[j] if w[j] != 0.0 else -g
            x = x if x * side > 0.0 else 0.0
            trial[j] = x
            change = x - w[j]
            slope += g * change
            squared += change * change
    else:
        for j in range(last - first):
            change = t * p[j]
            trial[j] = w[j] + change
            slope += (lam * w[j] + d[j]) * change
            squared += change * change
    out[2] += slope
    out[3] += squared


@kernel
def combine(pairs, scales, coefficients, own, w, d, p, t, lam, lam1, trial, first, last, out):
    """The direction from its coefficients, and a step along it."""
    slope, squared = 0.0, 0.0
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        here, gradient, way = w[begin:end], d[begin:end], p[begin:end]
        scale = scales[begin:end]
        for j in range(end - begin):
            g = lam * here[j] + gradient[j]
            g = _pseudo(g, here[j], lam1) if lam1 > 0.0 else g
            way[j] = own * scale[j] * g
        for row in range(pairs.shape[0]):
            c = coefficients[row]
            if c != 0.0:
                pair = pairs[row, begin:end]
                for j in range(end - begin):
                    way[j] += c * pair[j]
        for j in range(end - begin):
            g = lam * here[j] + gradient[j]
            way[j] *= scale[j]
            if lam1 > 0.0:
                g = _pseudo(g, here[j], lam1)
                way[j] = way[j] if here[j] != 0.0 or way[j] * g < 0.0 else 0.0
            slope += g * way[j]
            squared += way[j] * way[j]
        step(w, d, p, t, lam, lam1, trial, begin, end, out)
    out[0] += slope
    out[1] += squared


@inner_kernel
def _differences(steps, changes, scales, factor, w, d, before, d_before, lam, lam1, scratch):
    """A block of the new pair; scratch takes the gradient and both differences as they are kept."""
    for j in range(w.shape[0]):
        g = lam * w[j] + d[j]
        s = w[j] - before[j]
        y = lam * s + (d[j] - d_before[j])
        steps[j] = factor * s / scales[j]
        changes[j] = factor * y * scales[j]
        scratch[0, j] = scales[j] * (_pseudo(g, w[j], lam1) if lam1 > 0.0 else g)
    for j in range(w.shape[0]):
        scratch[1, j] = steps[j]
        scratch[2, j] = changes[j]


@kernel
def remember(
    pairs, scales, live, slot, factor, w, d, before, d_before, lam, lam1, scratch, first, last, out
):
    """Store the differences of two points, and multiply all pairs by them and by the gradient."""
    memory = live.shape[0]
    gradient, s, y = scratch[0], scratch[1], scratch[2]
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        _differences(
            pairs[slot, begin:end],
            pairs[memory + slot, begin:end],
            scales[begin:end],
            factor,
            w[begin:end],
            d[begin:end],
            before[begin:end],
            d_before[begin:end],
            lam,
            lam1,
            scratch,
        )
        for row in range(2 * memory):
            if live[row % memory] != 0:
                pair = pairs[row, begin:end]
                a, b, c = 0.0, 0.0, 0.0
                for j in range(end - begin):
                    x = pair[j]
                    a += x * gradient[j]
                    b += x * s[j]
                    c += x * y[j]
                out[3 * row] += a
                out[3 * row + 1] += b
                out[3 * row + 2] += c


# The pairs of L-BFGS, and the direction that they give.

# A pair that curves less than rounding tells nothing.
_LEAST_CURVATURE = 1e-14


class Pairs:
    """Last differences of iterates and gradients in ``w / scales`` (Nocedal & Wright 2006, 7.4).

    The two loops run on coefficients, from products of one sweep (Chen, Wang, Zhou 2014).
    """

    def __init__(self, size: int, memory: int, scales=None):
        self.memory = memory
        #: Roots of a diagonal that is near the inverse Hessian, up to a factor.
        self.scales = np.ones(size, dtype=np.float32) if scales is None else scales
        self.rows = np.zeros((2 * memory, size), dtype=np.float32)
        self._gram = np.zeros((2 * memory, 2 * memory))
        self._products = np.zeros(2 * memory)
        self._slots: list[int] = []  # from old to new
        self._next = 0
        # Number of pairs that each slot has held, which identifies stored ones.
        self._count = [0] * memory

    def __len__(self) -> int:
        return len(self._slots)

    def forget(self) -> None:
        """Discard all pairs."""
        self._slots = []

    def add(self, sweeps, here, before, lam: float, lam1: float, lengths: float) -> None:
        """Take over the step between two points."""
        slot, memory = self._next, self.memory
        self._slots = [k for k in self._slots if k != slot]
        self._count[slot] += 1
        live = np.zeros(memory, dtype=np.int64)
        live[[*self._slots, slot]] = 1
        factor = 1.0 / np.sqrt(lengths) if 0.0 < lengths < np.inf else 1.0
        vectors = here.w, here.d, before.w, before.d, lam, lam1
        pairs = self.rows, self.scales, live, slot, factor
        sums = sweeps(remember, 6 * memory, *pairs, *vectors, scratch=(3, BLOCK)).reshape(-1, 3)
        self._products = sums[:, 0]
        for row, column in ((slot, 1), (memory + slot, 2)):
            self._gram[row] = self._gram[:, row] = sums[:, column]
        squares = self._gram[slot, slot] * self._gram[memory + slot, memory + slot]
        curvature = self._gram[slot, memory + slot]
        if np.isfinite(sums).all() and curvature > _LEAST_CURVATURE * np.sqrt(squares):
            self._slots.append(slot)
            self._next = (slot + 1) % memory

    def state(self) -> tuple[dict, dict]:
        """Return the state for :meth:`take_state`."""
        numbers = {"slots": self._slots, "next": self._next, "count": self._count}
        numbers |= {"gram": self._gram.tolist(), "products": self._products.tolist()}
        return numbers, {self._name(k): self.rows[[k, self.memory + k]] for k in self._slots}

    def _name(self, slot):
        return f"pair-{slot}-{self._count[slot]}"

    def take_state(self, numbers: dict, arrays: dict) -> None:
        """Restore a saved state; ValueError if its vectors have other shapes."""
        slots, count = numbers["slots"], numbers["count"]
        pairs = [arrays[f"pair-{k}-{count[k]}"] for k in slots]
        for pair in pairs:
            fits = pair.shape == (2, self.rows.shape[1]) and pair.dtype == self.rows.dtype
            if not (fits and np.isfinite(pair).all()):
                raise ValueError("a pair is not what the training has")
        self._slots, self._next, self._count = slots, numbers["next"], count
        self._gram, self._products = np.array(numbers["gram"]), np.array(numbers["products"])
        for k, pair in zip(slots, pairs, strict=True):
            self.rows[[k, self.memory + k]] = pair

    def direction(self) -> tuple[np.ndarray, float]:
        """The quasi-Newton direction at the last point."""
        memory, gram = self.memory, self._gram
        coefficients, own = np.zeros(2 * memory), -1.0
        if not self._slots:
            return coefficients, own
        alpha = np.zeros(memory)
        products = -self._products  # of all rows with what is being made
        for k in reversed(self._slots):
            alpha[k] = products[k] / gram[k, memory + k]
            coefficients[memory + k] -= alpha[k]
            products -= alpha[k] * gram[:, memory + k]
        newest = self._slots[-1]
        scale = gram[newest, memory + newest] / gram[memory + newest, memory + newest]
        coefficients, own, products = scale * coefficients, scale * own, scale * products
        for k in self._slots:
            change = alpha[k] - products[memory + k] / gram[k, memory + k]
            coefficients[k] += change
            products += change * gram[:, k]
        return coefficients, own


# Sweeps over long vectors in threads, with the same bits for any number of them.

# What a run adds up, and when, does not depend on the threads: runs are as long as this for all.
_RUN = 1 << 16
# Starting a thread costs as much as a few runs.
_RUNS_A_THREAD = 8


class Sweeps:
    """Calls kernels on runs of vectors."""

    def __init__(self, size: int, n_jobs: int | None):
        self._runs = list(pairwise([*range(0, size, _RUN), size])) or [(0, 0)]
        self._n_threads = min(effective_threads(n_jobs), max(len(self._runs) // _RUNS_A_THREAD, 1))

    def __call__(self, kernel, n_sums: int, *arguments, scratch=None, largest=None) -> np.ndarray:
        """Call ``kernel(*arguments, [scratch,] first, last, out)`` on all runs."""

        def work(k):
            own, out = () if scratch is None else (np.empty(scratch),), np.zeros(n_sums)
            kernel(*arguments, *own, *self._runs[k], out)
            return out

        sums = np.array(over_blocks(work, len(self._runs), self._n_threads))
        total = sums.sum(axis=0)
        if largest is not None:
            total[largest] = sums[:, largest].max()
        return total


# Line searches: along a smooth function, and down to sufficient decrease.

_DECREASE, _FLATTER = 1e-4, 0.9
_MOST_TESTS = 40


def wolfe(function, value: float, slope: float, step: float, rounding: float) -> bool:
    """Search for a step with the strong Wolfe conditions, approximate where rounding hides values.

    Nocedal & Wright 2006, Algorithms 3.5 and 3.6; Hager & Zhang 2005, section 4.
    """
    low, high = (0.0, value, slope), None
    for test in range(_MOST_TESTS):
        now, rising = function(step)
        if not (math.isfinite(now) and math.isfinite(rising)):
            high = step, math.inf, math.nan
        else:
            decreases = now <= value + _DECREASE * step * slope or (
                now <= value + rounding and rising <= (2.0 * _DECREASE - 1.0) * slope
            )
            if decreases and abs(rising) <= -_FLATTER * slope:
                return True
            if not decreases or rising >= 0.0:
                high = step, now, rising
            else:
                low = step, now, rising
        if high is None:  # beyond the longest step, which is still steep
            following = (4.0 if low[0] < 1.0 else 10.0) * low[0]
        else:
            following = _between(low, high, test)
        if following == step or not 0.0 < following < math.inf:
            break
        step = following
    # A step that decreases enough, if not one that is flat enough.
    if low[0] > 0.0:
        function(low[0])
        return True
    return False


def _between(low, high, test):
    """A step inside the bracket, where the cubic through its ends is lowest."""
    a, value, slope = low
    b, other, rising = high
    width = b - a
    if not math.isfinite(other):
        return a + 0.1 * width
    fraction = 0.5
    if test % 3 != 2:  # now and then in the middle: the bracket shrinks
        z = 3.0 * (value - other) / width + slope + rising
        square = z * z - slope * rising
        if square >= 0.0:
            root = math.sqrt(square)
            bottom = rising - slope + 2.0 * root
            if bottom != 0.0:
                fraction = 1.0 - (rising + root - z) / bottom
    if not math.isfinite(fraction):
        fraction = 0.5
    return a + min(max(fraction, 0.1), 0.9) * width


def backtrack(function, value: float, step: float, rounding: float) -> bool:
    """Halve a step until the function decreases enough (Andrew & Gao 2007, section 3.2)."""
    for _ in range(_MOST_TESTS):
        now, promised = function(step)
        if promised < 0.0 and now <= value + _DECREASE * promised:
            return True
        # Rounding hides what is left to gain.
        if abs(promised) <= rounding and now <= value + rounding:
            return False
        step *= 0.5 if math.isfinite(now) else 0.1
    return False


_RESOLVED = "floating point resolves no more: increase tol, or scale the features"
_UNIT = 4.0 * float(np.finfo(np.float64).eps)
# Pairs; fewer where they would take gigabytes.
_MEMORY, _LARGE = 10, 1 << 25


class _Point:
    """Weights, the gradient of the mean loss there, and their numbers."""

    def __init__(self, w):
        self.w, self.d = w, np.zeros_like(w)
        self.value = self.slope = self.squared = self.magnitude = self.gap = np.nan
        #: Whether the numbers are those of `w`.
        self.known = False


class QuasiNewton(Method):
    """Points, pairs and best dual point of one run of L-BFGS, perhaps begun by another method."""

    name = "L-BFGS"
    #: Factor of an L1 term, which :mod:`skstruct.solvers.quasi_newton` sets.
    l1 = 0.0
    # Where the samples are here: what sums their gradients, and their losses and magnitudes.
    _gradients = _out = None

    def __init__(
        self,
        *task,
        loss,
        start=None,
        memory=_MEMORY,
        point=None,
        dual=0.0,
        first_step=None,
        scales=None,
        spread=None,
    ):
        super().__init__(*task)
        require_smooth(loss, self.name)
        self.loss, self.n_calls, self._is_convex = loss, 0, is_convex(loss)
        #: Takes the weights of merged features to those of all.
        self._spread = spread
        self._here = _Point(flatten(zero_weights(self.shapes) if start is None else start))
        size = self._here.w.size
        self._trial, self._p = _Point(np.zeros(size)), np.zeros(size)
        self._sweeps = Sweeps(size, self.n_jobs)
        self._pairs = Pairs(size, memory if size <= _LARGE else _MEMORY // 2, scales)
        #: Length of the first step along -g, where something is known of it.
        self.first_step: float | None = first_step
        # The best lower bound among mixtures of the dual points met: its term, its direction.
        self._term, self._mixed, self.dual = 0.0, np.zeros(size), dual
        if point is not None:
            self._term, direction = point
            np.concatenate(direction, out=self._mixed)

    def _add_gradient(self, w, gradient, pieces):
        """Add the gradient of the losses; their mean and magnitude's, or None at an early end."""
        if self._gradients is None:
            task = self.loss, self.problem, self.sample_weight, self.n_jobs
            self._gradients, self._out = BatchGradient(*task), np.zeros((2, self.n))
        self._gradients.add(w, gradient, self._out, pieces)
        if pieces.stopped:
            return None
        return np.einsum("ki,i->k", self._out, self.sample_weight) / self.n

    def _evaluate(self, point, pieces):
        """Evaluate a point; False if a callback ended the pass."""
        point.known = False
        point.d.fill(0.0)
        w, gradient = view_flat(point.w, self.shapes), view_flat(point.d, self.shapes)
        means = self._add_gradient(w, gradient, pieces)
        if means is None:
            return False
        self.n_calls += 1
        loss, point.magnitude = means
        vectors = point.w, point.d, self._p, self._mixed
        sums = self._sweeps(measure, N_MEASURED, *vectors, 1.0 / self.n, self.lam, self.l1)
        point.value = 0.5 * self.lam * sums[0] + self.l1 * sums[6] + loss
        point.slope, point.squared, point.gap, point.known = sums[2], sums[3], sums[7], True
        if self._is_convex and np.isfinite(point.value) and np.isfinite(point.squared):
            term = max(loss - sums[1] - ROUNDING * point.magnitude, least_term(self.loss))
            self._offer(term, point.d, sums[4], sums[5])
        return True

    def _offer(self, term, direction, product, squared):
        """Mix one more dual point into the best one, by the share that is best."""
        gain = term - self._term
        slope, curvature = gain - product / self.lam, squared / self.lam
        share = float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0 else float(gain > 0)
        if share > 0.0:
            self._term += share * gain
            half = self._sweeps(mix, 1, self._mixed, direction, share)[0] / (2.0 * self.lam)
            self.dual = max(self.dual, self._term - half)

    def begin(self, progress):
        """Measure the start; one iteration is made even from where the tolerance is reached."""
        self._evaluate(self._here, progress.pieces)

    def epoch(self, k, rng, progress):
        """One iteration: a direction and a search along it."""
        here, trial = self._here, self._trial
        if not (here.known or self._evaluate(here, progress.pieces)):
            return
        while not self._search(progress.pieces):
            if progress.pieces.stopped:
                return
            if not len(self._pairs):
                self.stalled = True
                return
            self._pairs.forget()
        self._here, self._trial = trial, here
        lengths = np.sqrt(self._moved * 2.0 * (here.squared + trial.squared))
        self._pairs.add(self._sweeps, trial, here, self.lam, self.l1, lengths)

    def _search(self, pieces):
        """Find the next point; False if there is none along this direction."""
        here, trial = self._here, self._trial
        coefficients, own = self._pairs.direction()
        # Nowhere is the objective flatter than its regulariser: no step along -g is longer.
        first = 1.0
        if not len(self._pairs):
            first = self.first_step or 1.0 / max(np.sqrt(here.squared), self.lam)
            self.first_step = None
        start, end = (here.w, here.d, self._p), (self.lam, self.l1, trial.w)
        pairs = self._pairs.rows, self._pairs.scales
        slope, squared, self._promised, self._moved = self._sweeps(
            combine, N_COMBINED, *pairs, coefficients, own, *start, first, *end
        )
        if not (slope < 0.0 and np.isfinite(squared)):
            return False
        made = first

        def function(t):
            nonlocal made
            if t != made:
                _, _, self._promised, self._moved = self._sweeps(step, N_COMBINED, *start, t, *end)
                made = t
            if not self._evaluate(trial, pieces):
                raise _StoppedInPass
            return trial.value, self._promised if self.l1 > 0.0 else trial.slope

        rounding = _UNIT * (abs(here.value) + here.magnitude)
        try:
            if self.l1 > 0.0:  # the projected path has kinks
                return backtrack(function, here.value, first, rounding)
            return wolfe(function, here.value, slope, first, rounding)
        except _StoppedInPass:
            return False

    def certify(self):
        """Return the certificate of the last iterate, which is nearly always known."""
        here = self._here
        if not here.known:
            self._evaluate(here, Pieces())
        numbers = here.value, here.squared
        if not self._is_convex:
            self.certificate = stationarity(*numbers, self.lam)
        elif self.l1 > 0.0:
            own_gap = here.gap + ROUNDING * here.magnitude if self.lam > 0.0 else np.inf
            self.certificate = certify_l1(*numbers, own_gap, self.dual, here.magnitude)
        else:
            self.certificate = certify(*numbers, self.lam, self.dual, here.magnitude)

    def work(self):
        """Oracle calls."""
        return self.n_calls * self.n, 0

    def weights(self):
        """Copies of the tables."""
        found = view_flat(self._here.w, self.shapes).copy()
        return found if self._spread is None else self._spread(found)

    def remedy(self):
        """Return the advice for a run that has not reached the tolerance."""
        return _RESOLVED if self.stalled else REMEDY


class _StoppedInPass(Exception):
    """A callback ended the run in the middle of a gradient."""


# Sweeps that look for the best point on a line of dual points.
_SWEEPS = 4


class OrthantWise(QuasiNewton):
    """Points, pairs and best dual point of a run of OWL-QN (Andrew & Gao 2007); ``lam`` is lam2."""

    name = "OWL-QN"

    def __init__(self, *task, l1, **options):
        super().__init__(*task, **options)
        if not self._is_convex:
            name = type(self.loss).__name__
            raise TypeError(f"OWL-QN needs a convex loss, and {name} is not")
        self.l1 = l1

    def _along(self, direction, origin, share):
        """See :func:`soft_sums`."""
        line = self._mixed, direction, origin, share, self.l1
        return self._sweeps(soft_sums, N_SOFT, *line, largest=3)

    def _climb(self, direction, origin, terms, share):
        """Newton's steps for the best point of a line of dual points: its share and its bound."""
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
