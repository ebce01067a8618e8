"""Graphs without cycles: exact inference from the leaves to the roots, for any number of labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.offsets import longest_item
from ...inference.rooting import root_forests
from ...inference.tree import tree_scratch
from .forest_kernels import ForestProblem, ForestScratch, Rooted


def applies(graph: Any, samples: Any, fields: dict, network: NamedTuple) -> str | None:
    """Which sample has a cycle, or None.

    Leaves the rooted forests in `fields`, for :func:`make`.
    """
    forest, cyclic = root_forests(samples.edges, samples.edge_ptr, samples.offsets)
    if cyclic >= 0:
        return f"sample {cyclic} has a cycle"
    fields["rooted"] = forest
    return None


def make(
    graph: Any, samples: Any, fields: dict, network: NamedTuple, tables: Any, n_best: int
) -> ForestProblem:
    """The problem, after :func:`applies` has agreed."""
    forest = fields.pop("rooted")
    table = np.zeros_like(forest.link)
    below = forest.parent >= 0
    start = np.repeat(samples.edge_ptr[:-1], samples.lengths)
    table[below] = network.table[(start + forest.link)[below]]
    n_labels = network.column.shape[0]
    square = n_labels**2
    is_full = fields["width"] == square
    as_given = is_full and not np.isneginf(fields["transition_mask"]).any()
    n_pairs = square * int(fields["n_tables"].max(initial=1))
    work = ForestScratch(
        tables=tables,
        tree=tree_scratch(max(longest_item(samples.offsets), 1), n_labels, n_best),
        pairs=np.empty(0 if as_given else n_pairs),
        shares=np.empty(0 if is_full else n_pairs),
    )
    rooted = Rooted(forest._replace(link=table), forest.link, int(as_given))
    return ForestProblem(**fields, own=network._replace(inference=rooted), work=work)
