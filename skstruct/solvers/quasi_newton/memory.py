"""The pairs of L-BFGS, and the direction that they give."""

from __future__ import annotations

import numpy as np

from .kernels import BLOCK, remember

# A pair that curves less than rounding tells nothing.
_LEAST_CURVATURE = 1e-14
# Columns of the pairs that are multiplied at once.
_PIECE = 1 << 16


def _is_gram(rows, gram, live):
    """Whether products of rows are those of a matrix, but for rounding, and all curve upwards."""
    if not len(rows):
        return True
    again = np.zeros((len(rows), len(rows)))
    for first in range(0, rows.shape[1], _PIECE):
        piece = rows[:, first : first + _PIECE].astype(np.float64)
        again += piece @ piece.T
    sizes = np.sqrt(np.diag(again))
    with np.errstate(invalid="ignore"):
        near = np.abs(gram[np.ix_(live, live)] - again) <= 1e-9 * np.outer(sizes, sizes)
    n = len(rows) // 2
    return bool(near.all()) and bool((again[np.arange(n), n + np.arange(n)] > 0.0).all())


class Pairs:
    """Differences of the last iterates and of their gradients.

    The two loops of L-BFGS run on coefficients: all they need is products of pairs and gradient,
    which one sweep gives. A second makes the direction.

    Nocedal & Wright 2006, Numerical Optimization, Algorithm 7.4; on coefficients: Chen, Wang, Zhou
    2014, Large-scale L-BFGS using MapReduce, Algorithm 3.
    """

    def __init__(self, size: int, memory: int):
        self.memory = memory
        self.rows = np.zeros((2 * memory, size), dtype=np.float32)
        self._gram = np.zeros((2 * memory, 2 * memory))
        self._products = np.zeros(2 * memory)
        self._slots: list[int] = []  # from old to new
        self._next = 0
        # How many pairs each slot has had, by which stored ones are known.
        self._count = [0] * memory

    def __len__(self) -> int:
        return len(self._slots)

    def take(self, other: Pairs, places: np.ndarray) -> None:
        """Take over the pairs of shorter vectors; elements that they lack are 0."""
        if other.memory != self.memory:
            return
        self.rows[:, places] = other.rows
        self._gram, self._slots, self._next = other._gram, other._slots, other._next
        self._products = other._products
        self._count = list(other._count)

    def forget(self) -> None:
        """Start anew."""
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
        sums = sweeps(
            remember, 6 * memory, self.rows, live, slot, factor, *vectors, scratch=(3, BLOCK)
        ).reshape(-1, 3)
        self._products = sums[:, 0]
        for row, column in ((slot, 1), (memory + slot, 2)):
            self._gram[row] = self._gram[:, row] = sums[:, column]
        squares = self._gram[slot, slot] * self._gram[memory + slot, memory + slot]
        curvature = self._gram[slot, memory + slot]
        if np.isfinite(sums).all() and curvature > _LEAST_CURVATURE * np.sqrt(squares):
            self._slots.append(slot)
            self._next = (slot + 1) % memory

    def state(self) -> tuple[dict, dict]:
        """What :meth:`take_state` takes."""
        numbers = {"slots": self._slots, "next": self._next, "count": self._count}
        numbers |= {"gram": self._gram.tolist(), "products": self._products.tolist()}
        return numbers, {self._name(k): self.rows[[k, self.memory + k]] for k in self._slots}

    def _name(self, slot):
        return f"pair-{slot}-{self._count[slot]}"

    def take_state(self, numbers: dict, arrays: dict) -> None:
        """Become what another one was."""
        slots, following, count = numbers["slots"], numbers["next"], numbers["count"]
        gram = np.array(numbers["gram"], dtype=np.float64)
        products = np.array(numbers["products"], dtype=np.float64)
        kinds = {type(number) for number in (*slots, following, *count)} == {int}
        places = kinds and set(slots) | {following} <= set(range(self.memory))
        if not places or len(set(slots)) < len(slots) or len(count) != self.memory:
            raise ValueError("slots, next or count are not those of pairs")
        if gram.shape != self._gram.shape or products.shape != self._products.shape:
            raise ValueError("gram or products are of another number of pairs")
        shape = 2, self.rows.shape[1]
        pairs = [arrays[f"pair-{k}-{count[k]}"] for k in slots]
        live = [*slots, *(self.memory + k for k in slots)]
        if any(pair.shape != shape or pair.dtype != self.rows.dtype for pair in pairs):
            raise ValueError("a pair has another size")
        if not _is_gram(np.array([*(p[0] for p in pairs), *(p[1] for p in pairs)]), gram, live):
            raise ValueError("gram is not that of the pairs")
        if not np.isfinite(products[live]).all():
            raise ValueError("products are infinite")
        self._slots, self._next, self._count = list(slots), following, list(count)
        self._gram, self._products = gram, products
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
