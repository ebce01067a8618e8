"""Edges between labels: given by users, learnt, or read from a model that nobody vouches for."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csgraph

from ...core.offsets import ends_of
from ...data.matrices import refuse_masked
from ...inference.roof_dual import Neighbours


def check_edges(edges, n_labels, n_classes: int) -> None:
    """Refuse labels and edges that a damaged file or a user has changed since fit."""
    if not isinstance(n_labels, (int, np.integer)) or n_labels != n_classes:
        raise ValueError(f"graph_.n_labels_ is {n_labels!r}, but there are {n_classes} labels")
    ordinary = isinstance(edges, np.ndarray) and edges.dtype == np.int32 and edges.ndim == 2
    if not ordinary or edges.shape[1] != 2 or not edges.flags.c_contiguous:
        raise ValueError("graph_.edges_ must be a C-contiguous array (n_edges, 2) of int32")
    if edges.size and (edges.min() < 0 or edges.max() >= n_labels):
        raise ValueError(f"graph_.edges_ has labels that are not among 0 to {n_labels - 1}")
    keys = np.sort(edges, axis=1) @ np.array([n_labels, 1], dtype=np.int64)
    if (edges[:, 0] == edges[:, 1]).any() or np.unique(keys).size < len(edges):
        raise ValueError("graph_.edges_ joins a label to itself, or two labels twice")


def read_edges(edges, n: int) -> np.ndarray:
    """The pairs of `n` labels that a user gave, checked; of shape (n_edges, 2)."""
    refuse_masked(edges, "edges")
    try:
        array = np.asarray(edges)
    except ValueError:
        raise ValueError("edges must be pairs of labels, but its rows differ in length") from None
    if array.size == 0:
        return np.empty((0, 2), dtype=np.int32)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"edges must be integers of shape (n_edges, 2), got dtype {array.dtype}, shape "
            f"{array.shape}"
        )
    wrong = np.flatnonzero(((array < 0) | (array >= n)).any(axis=1))
    if wrong.size:
        raise ValueError(
            f"edges: row {wrong[0]} is {array[wrong[0]].tolist()}, but labels are 0 to {n - 1}"
        )
    loops = np.flatnonzero(array[:, 0] == array[:, 1])
    if loops.size:
        raise ValueError(f"edges: row {loops[0]} joins label {array[loops[0], 0]} to itself")
    ordered = np.sort(array, axis=1)
    _, first = np.unique(ordered, axis=0, return_index=True)
    if first.size < len(array):
        row = np.setdiff1d(np.arange(len(array)), first)[0]
        raise ValueError(f"edges: row {row}, {array[row].tolist()}, occurs twice")
    return array


def chow_liu(table: np.ndarray) -> np.ndarray:
    """The spanning tree of largest mutual information between labels; -1 is a missing label."""
    information = _information(table) if (table >= 0).all() else _information_where_known(table)
    # The tree of least weight, all weights positive: entries of 0 would count as no edge.
    weight = information.max() + 1.0 - information
    tree = csgraph.minimum_spanning_tree(np.triu(weight, 1)).tocoo()
    return np.sort(np.stack([tree.row, tree.col], axis=1), axis=1)


def _information(table):
    """Mutual information of pairs of labels."""
    n_samples, n = table.shape
    on = table.astype(np.float64)
    p = on.mean(axis=0)
    both = on.T @ on / n_samples
    information = np.zeros((n, n))
    for a in (0, 1):
        for b in (0, 1):
            pa, pb = (p if a else 1.0 - p), (p if b else 1.0 - p)
            joint = (
                both
                if a and b
                else (
                    p[:, None] - both
                    if a
                    else p[None, :] - both
                    if b
                    else 1.0 - p[:, None] - p + both
                )
            )
            outer = pa[:, None] * pb[None, :]
            used = (joint > 1e-15) & (outer > 0)
            information[used] += joint[used] * np.log(joint[used] / outer[used])
    return information


def _information_where_known(table):
    """The same, of each pair over the samples that have both labels."""
    states = [(table == a).astype(np.float64) for a in (0, 1)]
    joint = np.array([[rows.T @ columns for columns in states] for rows in states])
    joint /= np.maximum(joint.sum(axis=(0, 1)), 1.0)
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    used = joint > 1e-15
    terms = np.zeros_like(joint)
    terms[used] = joint[used] * np.log(joint[used] / outer[used])
    return terms.sum(axis=(0, 1))


def neighbours(edges: np.ndarray, n: int) -> Neighbours:
    """Neighbours of each of `n` labels and the edges to them."""
    m = len(edges)
    own = np.concatenate([edges[:, 0], edges[:, 1]])
    other = np.concatenate([edges[:, 1], edges[:, 0]])
    which = np.tile(np.arange(m, dtype=np.int32), 2)
    order = np.lexsort((other, own))
    counts = np.bincount(own, minlength=n)
    return Neighbours(
        ptr=ends_of(counts),
        neighbour=other[order].astype(np.int32),
        edge=which[order],
    )
