"""Graphs of any number of labels by the LP relaxation, with messages that samples keep."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.offsets import ends_of, longest_item
from ...inference.pairwise_lp import lp_scratch
from .lp_kernels import LPProblem, LPWork, Messages


def applies(graph: Any, samples: Any, fields: dict, network: NamedTuple) -> str | None:
    """Always."""
    return None


def make(
    graph: Any, samples: Any, fields: dict, network: NamedTuple, tables: Any, n_best: int
) -> LPProblem:
    """The problem."""
    n, m = longest_item(samples.offsets), longest_item(samples.edge_ptr)
    n_labels, n_tables = len(network.column), int(fields["n_tables"].max(initial=1))
    work = LPWork(
        tables=tables,
        unary=np.zeros((n, n_labels)),
        full=np.zeros((n_tables, n_labels, n_labels)),
        flipped=np.zeros((n_tables, n_labels, n_labels)),
        delta=np.zeros((m, 2, n_labels)),
        trial=np.zeros((m, 2, n_labels)),
        best=np.zeros(n, dtype=np.int32),
        lp=lp_scratch(n, m, n_labels),
    )
    return LPProblem(
        **fields, own=network._replace(inference=_messages(samples, n_labels)), work=work
    )


def _messages(samples, n_labels):
    """Edges of nodes, and messages that say nothing yet."""
    ends = np.stack(samples.global_ends(), axis=1).reshape(-1)
    counts = np.bincount(ends, minlength=int(samples.offsets[-1]))
    half = np.argsort(ends, kind="stable")
    half -= 2 * np.repeat(samples.edge_ptr[:-1], samples.n_edges)[half // 2]
    return Messages(
        ptr=ends_of(counts),
        half=half.astype(np.int32),
        delta=np.zeros((len(samples.edges), 2, n_labels)),
        gamma=np.zeros(len(samples.lengths)),
        slack=np.zeros(1),
        counts=np.zeros((len(samples.lengths), 3)),
    )
