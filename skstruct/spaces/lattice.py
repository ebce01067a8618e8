"""Items that are arcs of a lattice: a labelling chooses those of a path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import ends_of, longest_item
from ..core.oracles import add_indicator, score
from ..inference.arcs import Arcs
from .items import ItemSpace, counts_of
from .paths import (
    PathScratch,
    path_scratch,
    read_arcs,
    register_paths,
    write_marginals,
    write_path,
)


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


@register_paths
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


def lattice_scratch(own: LatticeTable, n_best: int) -> PathScratch:
    """Scratch for the samples of a table."""
    sizes = longest_item(own.vertex_ptr), longest_item(own.arc_ptr)
    return path_scratch(*sizes, own.n_right, own.n_left, n_best)


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


@read_arcs.register(LatticeSpace)
@kernel
def _(space, i, theta, mu):
    own, scores, (n, n_parts) = space.own, space.work.scores, counts_of(space, i)
    first, stop, at = own.arc_ptr[i], own.arc_ptr[i + 1], own.vertex_ptr[i]
    ptr = own.ptr[at : own.vertex_ptr[i + 1]]
    arcs = Arcs(ptr, own.begin[first:stop], own.left[first:stop], own.right[first:stop])
    for q in range(stop - first):
        scores[q] = theta[own.item[first + q]]
    table = theta[n + 1 : n_parts].reshape(own.n_right, own.n_left)
    used = table[:0]
    if mu.shape[0] > 0:
        used = mu[n + 1 : n_parts].reshape(own.n_right, own.n_left)
    return (arcs, ptr.shape[0] - 2, scores, table), theta[n], used, space.work


@write_path.register(LatticeSpace)
@kernel
def _(space, i, last, path, labels):
    own, first = space.own, space.own.arc_ptr[i]
    for q in range(counts_of(space, i)[0]):
        labels[q] = 0
    while last > 0:
        labels[own.item[first + path[last]]] = 1
        last = own.begin[first + path[last]]


@write_marginals.register(LatticeSpace)
@kernel
def _(space, i, mu):
    own, first = space.own, space.own.arc_ptr[i]
    mu[counts_of(space, i)[0]] = 1.0
    for q in range(own.arc_ptr[i + 1] - first):
        mu[own.item[first + q]] = space.work.marginals[q]
