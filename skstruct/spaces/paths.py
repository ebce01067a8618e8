"""Labellings that are paths of arcs: all their oracles, by three operations of a space.

A space registers the operations of this file, then calls :func:`register_paths`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import generic
from ..core.jit.kernels import kernel
from ..core.oracles import exp_oracle, max_oracle, sample_oracle, top_k_oracle
from ..inference.arcs import (
    ArcScratch,
    arc_scratch,
    best_path,
    best_paths,
    draw_path,
    sum_paths,
)


class PathScratch(NamedTuple):
    """Scratch of one thread."""

    # Of the algorithms on arcs.
    arcs: ArcScratch
    # (n_arcs,): Scores, and marginals.
    scores: np.ndarray
    marginals: np.ndarray
    # (n_best, n_vertices): Paths.
    paths: np.ndarray


def path_scratch(n_vertices: int, n_arcs: int, n_right: int, n_left: int, n_best) -> PathScratch:
    """Scratch for samples of at most so many vertices and arcs."""
    return PathScratch(
        arc_scratch(n_vertices, n_right, n_left, n_best),
        *np.empty((2, n_arcs)),
        np.empty((max(n_best, 1), n_vertices), dtype=np.int32),
    )


@generic
def read_arcs(space, i, theta, mu):
    """Return (arcs, last vertex, scores, table), a score that all paths share, and scratch.

    The first four are arguments of :func:`~skstruct.inference.arcs.best_path`. Before the scratch
    comes the array for connections of :func:`~skstruct.inference.arcs.sum_paths`, a view of `mu` or
    of scratch; empty where `mu` is.
    """


@generic
def write_path(space, i, last, path, labels):
    """Write the labelling of a path to the vertex `last`; one without any arc if that is 0."""


@generic
def write_marginals(space, i, mu):
    """Write marginals of parts, which are 0, from those of arcs and connections."""


@kernel
def _max_oracle(space, i, theta, labels):
    graph, shared, _, work = read_arcs(space, i, theta, theta[:0])
    value = best_path(*graph, work.paths[0], work.arcs)
    if value > -math.inf:
        write_path(space, i, graph[1], work.paths[0], labels)
    return value + shared


@kernel
def _top_k_oracle(space, i, theta, values, labels):
    graph, shared, _, work = read_arcs(space, i, theta, theta[:0])
    best_paths(*graph, values, work.paths, work.arcs)
    for r in range(values.shape[0]):
        write_path(space, i, graph[1] if values[r] > -math.inf else 0, work.paths[r], labels[r])
        values[r] += shared


@kernel
def _exp_oracle(space, i, theta, temperature, mu):
    graph, shared, used, work = read_arcs(space, i, theta, mu)
    for q in range(space.part_ptr[i + 1] - space.part_ptr[i] if mu.shape[0] > 0 else 0):
        mu[q] = 0.0
    value = sum_paths(*graph, temperature, work.marginals, used, work.arcs)
    if mu.shape[0] > 0 and value > -math.inf:
        write_marginals(space, i, mu)
    return value + shared


@kernel
def _sample_oracle(space, i, theta, mu, room, uniforms, labels):
    graph, shared, used, work = read_arcs(space, i, theta, theta[:0])
    value = sum_paths(*graph, 1.0, work.marginals, used, work.arcs)
    for d in range(labels.shape[0] if value > -math.inf else 0):
        draw_path(*graph, value, uniforms, d, work.paths[0], work.arcs)
        write_path(space, i, graph[1], work.paths[0], labels[d])
    return value + shared


def register_paths(space: type) -> type:
    """Register the oracles for a space; a decorator."""
    max_oracle.register(space)(_max_oracle)
    top_k_oracle.register(space)(_top_k_oracle)
    exp_oracle.register(space)(_exp_oracle)
    sample_oracle.register(space)(_sample_oracle)
    return space
