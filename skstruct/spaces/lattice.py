"""Items that are arcs of a lattice: a labelling chooses those of a path."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import inner_kernel, kernel
from ..core.offsets import ends_of, longest_item
from ..core.oracles import (
    add_indicator,
    exp_oracle,
    max_oracle,
    sample_oracle,
    score,
    top_k_oracle,
)
from ..inference.arcs import (
    Arcs,
    ArcScratch,
    arc_scratch,
    best_path,
    best_paths,
    draw_path,
    sum_paths,
)
from .items import ItemSpace, counts_of


class LatticeTable(NamedTuple):
    """The arcs that lie on paths, sample by sample: the field ``own`` of the space."""

    # As in Arcs, for all samples; ptr counts from the first arc of each.
    ptr: np.ndarray
    begin: np.ndarray
    left: np.ndarray
    right: np.ndarray
    # (n_arcs,): Item of each, counted from the first of its sample.
    item: np.ndarray
    # (n_samples + 1,): Where the arcs of each sample begin, and its part of ptr.
    arc_ptr: np.ndarray
    vertex_ptr: np.ndarray
    # Numbers of classes.
    n_right: int
    n_left: int


class LatticeScratch(NamedTuple):
    """Scratch of one thread."""

    # Of the algorithms on arcs.
    arcs: ArcScratch
    # (n_arcs,): Scores, and marginals.
    scores: np.ndarray
    marginals: np.ndarray
    # (n_best, n_vertices): Paths.
    paths: np.ndarray


class LatticeSpace(ItemSpace):
    """Arcs; after the part that every labelling has come those of pairs of classes."""

    structure = "Lattice"
    # Steps that need few passes elsewhere need more here: 75 s of words in strings instead of 10.
    few_passes = False


def lattice_table(steps: np.ndarray, sides: np.ndarray, item_ptr: np.ndarray, n_sides: tuple):
    """The table of arcs with the vertices `steps`, -1 where no path leads, and classes `sides`."""
    n = item_ptr.size - 1
    owner = np.repeat(np.arange(n), np.diff(item_ptr))
    arcs = np.flatnonzero(steps[:, 0] >= 0)
    arcs = arcs[np.lexsort((steps[arcs, 1], owner[arcs]))]
    of_sample, end = owner[arcs], steps[arcs, 1]
    arc_ptr = ends_of(np.bincount(of_sample, minlength=n))
    size = end[arc_ptr[1:] - 1] + 2  # the last vertex of each, and the end of ptr
    vertex_ptr = ends_of(size)
    counts = np.bincount(vertex_ptr[of_sample] + end + 1, minlength=vertex_ptr[-1])
    columns = (steps[arcs, 0], sides[arcs, 0], sides[arcs, 1], arcs - item_ptr[of_sample])
    return LatticeTable(
        np.cumsum(counts) - np.repeat(arc_ptr[:-1], size),
        *(column.astype(np.int32) for column in columns),
        arc_ptr,
        vertex_ptr,
        *n_sides,
    )


def lattice_scratch(own: LatticeTable, n_best: int) -> LatticeScratch:
    """Scratch for the samples of a table."""
    n_vertices, n_arcs = longest_item(own.vertex_ptr), longest_item(own.arc_ptr)
    return LatticeScratch(
        arc_scratch(n_vertices, own.n_right, own.n_left, n_best),
        *np.empty((2, n_arcs)),
        np.empty((n_best, n_vertices), dtype=np.int32),
    )


@inner_kernel
def _walk(space, i, labels, c, mu, theta):
    """Add the parts of a path to `mu`, if that is not empty; returns the score, if `theta` is."""
    own, total, before = space.own, 0.0, -1
    n, _ = counts_of(space, i)
    for q in range(own.arc_ptr[i], own.arc_ptr[i + 1]):
        item = own.item[q]
        if labels[item] != 1:
            continue
        part = n
        if before >= 0:
            part = n + 1 + own.right[before] * own.n_left + own.left[q]
        if mu.shape[0] > 0:
            mu[item] += c
            mu[part] += c
        if theta.shape[0] > 0:
            total += theta[item] + theta[part]
        before = q
    return total


@add_indicator.register(LatticeSpace)
@kernel
def _(space, i, labels, c, mu):
    _walk(space, i, labels, c, mu, mu[:0])


@score.register(LatticeSpace)
@kernel
def _(space, i, theta, labels):
    return _walk(space, i, labels, 0.0, theta[:0], theta)


@inner_kernel
def _lattice(space, i, theta):
    """Arcs, last vertex, scores and table of a sample."""
    own, scores, (n, n_parts) = space.own, space.work.scores, counts_of(space, i)
    first, stop, at = own.arc_ptr[i], own.arc_ptr[i + 1], own.vertex_ptr[i]
    ptr = own.ptr[at : own.vertex_ptr[i + 1]]
    arcs = Arcs(ptr, own.begin[first:stop], own.left[first:stop], own.right[first:stop])
    for q in range(stop - first):
        scores[q] = theta[own.item[first + q]]
    table = theta[n + 1 : n_parts].reshape(own.n_right, own.n_left)
    return arcs, ptr.shape[0] - 2, scores, table


@inner_kernel
def _choose(space, i, n, path, labels):
    """Write the labelling of a path to vertex n."""
    own, first = space.own, space.own.arc_ptr[i]
    for q in range(counts_of(space, i)[0]):
        labels[q] = 0
    while n > 0:
        labels[own.item[first + path[n]]] = 1
        n = own.begin[first + path[n]]


@max_oracle.register(LatticeSpace)
@kernel
def _(space, i, theta, labels):
    (arcs, n, scores, table), work = _lattice(space, i, theta), space.work
    value = best_path(arcs, n, scores, table, work.paths[0], work.arcs)
    if value > -math.inf:
        _choose(space, i, n, work.paths[0], labels)
    return value + theta[counts_of(space, i)[0]]


@top_k_oracle.register(LatticeSpace)
@kernel
def _(space, i, theta, values, labels):
    (arcs, n, scores, table), work = _lattice(space, i, theta), space.work
    best_paths(arcs, n, scores, table, values, work.paths, work.arcs)
    for r in range(values.shape[0]):
        _choose(space, i, n if values[r] > -math.inf else 0, work.paths[r], labels[r])
        values[r] += theta[counts_of(space, i)[0]]


@exp_oracle.register(LatticeSpace)
@kernel
def _(space, i, theta, temperature, mu):
    (arcs, n, scores, table), work = _lattice(space, i, theta), space.work
    (n_items, n_parts), used = counts_of(space, i), table[:0]
    if mu.shape[0] > 0:
        used = mu[n_items + 1 : n_parts].reshape(space.own.n_right, space.own.n_left)
    value = sum_paths(arcs, n, scores, table, temperature, work.marginals, used, work.arcs)
    is_possible, first = value > -math.inf, space.own.arc_ptr[i]
    if mu.shape[0] > 0:
        for q in range(n_items):
            mu[q] = 0.0
        mu[n_items] = 1.0 if is_possible else 0.0
        for q in range(space.own.arc_ptr[i + 1] - first if is_possible else 0):
            mu[space.own.item[first + q]] = work.marginals[q]
    return value + theta[n_items]


@sample_oracle.register(LatticeSpace)
@kernel
def _(space, i, theta, mu, room, uniforms, labels):
    (arcs, n, scores, table), work = _lattice(space, i, theta), space.work
    value = sum_paths(arcs, n, scores, table, 1.0, work.marginals, table[:0], work.arcs)
    for d in range(labels.shape[0] if value > -math.inf else 0):
        draw_path(arcs, n, scores, table, value, uniforms, d, work.paths[0], work.arcs)
        _choose(space, i, n, work.paths[0], labels[d])
    return value + theta[counts_of(space, i)[0]]
