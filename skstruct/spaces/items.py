"""Labellings of items, each of which is chosen or not."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import add_indicator, forbid, score


class ItemSpace(NamedTuple):
    """Items, 1 for each that is chosen, else 0. Subclasses inherit the operations of this file."""

    # (n_samples + 1,): Where the items of each sample begin.
    item_ptr: np.ndarray
    # (n_samples + 1,): Where the parts of each sample begin (one per item, then perhaps one that
    # every labelling has, which scores 0 and holds the constant of a task loss; a subclass may have
    # more), and its labelling.
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    # (n_items or 0,): Items that may be chosen; empty when all may.
    allowed: np.ndarray
    # Data of the structure itself: a NamedTuple of arrays and numbers, or ``()``.
    own: tuple
    # Scratch of the structure's oracles for one thread, or ``()``.
    work: tuple


@inner_kernel(inline=True)
def counts_of(space, i):
    """Numbers of items and of parts."""
    n = space.item_ptr[i + 1] - space.item_ptr[i]
    return n, space.part_ptr[i + 1] - space.part_ptr[i]


@forbid.register(ItemSpace)
@kernel
def _(space, i, theta):
    if space.allowed.shape[0] > 0:
        first = space.item_ptr[i]
        for q in range(space.item_ptr[i + 1] - first):
            if space.allowed[first + q] == 0:
                theta[q] = -math.inf


@add_indicator.register(ItemSpace)
@kernel
def _(space, i, labels, c, mu):
    n, n_parts = counts_of(space, i)
    for q in range(n):
        if labels[q] == 1:
            mu[q] += c
    for q in range(n, n_parts):
        mu[q] += c


@score.register(ItemSpace)
@kernel
def _(space, i, theta, labels):
    n, n_parts = counts_of(space, i)
    total = 0.0
    for q in range(n):
        if labels[q] == 1:
            total += theta[q]
    for q in range(n, n_parts):
        total += theta[q]
    return total
