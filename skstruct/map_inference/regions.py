"""The flat form of a factor graph: regions, what they contain, and messages between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.arguments import integers, numbers
from ..core.offsets import ends_of
from .factors import AtMostOne, Cardinality, ExactlyOne, Or, Potts, Table, numbered

if TYPE_CHECKING:
    from .graph import FactorGraph

VARIABLE, TABLE, POTTS, CARDINALITY, EXACTLY_ONE, AT_MOST_ONE, OR = range(7)

#: Code of the kind of each class of factors.
KINDS = {
    Table: TABLE,
    Potts: POTTS,
    Cardinality: CARDINALITY,
    ExactlyOne: EXACTLY_ONE,
    AtMostOne: AT_MOST_ONE,
    Or: OR,
}


class Regions(NamedTuple):
    """Variables, then larger factors, as regions of a relaxation.

    A *slot* is a child of a region, with messages ``delta``, which the child gains, the parent
    loses.
    """

    # The first regions are the variables.
    n_variables: int
    # Constant of all scores.
    offset: float
    # (n_variables,): States of each variable.
    n_states: np.ndarray
    # (n_regions,): ``VARIABLE``, ``TABLE``, ...
    kind: np.ndarray
    # (n_regions,): Configurations of variables, tables and Potts factors; 0 for kinds that are
    # never written out.
    size: np.ndarray
    # (n_regions,): Where a region's scores begin; shared tables begin at one place.
    score_ptr: np.ndarray
    # Unaries; tables, the last variable fastest; weights of Potts factors; scores by count.
    scores: np.ndarray
    # (n_regions + 1,): Where a region's variables begin.
    scope_ptr: np.ndarray
    # The variables; of a variable itself.
    scope: np.ndarray
    # (n_regions + 1,): Where a region's slots begin.
    slot_ptr: np.ndarray
    # (n_slots,): The region in each slot.
    child: np.ndarray
    # (n_slots,): The region that has the slot.
    owner: np.ndarray
    # (n_slots + 1,): Where a slot's message begins.
    message_ptr: np.ndarray
    # (n_regions + 1,): Where the slots that a region is in begin in `parent`.
    parent_ptr: np.ndarray
    # (n_slots,): Those slots.
    parent: np.ndarray
    # (n_regions + 1,): Where the steps of a table of three and more variables begin.
    step_ptr: np.ndarray
    # For each of its slots one number a variable: the child's configuration is the sum of labels
    # times steps.
    steps: np.ndarray
    # Mask of the negated literals of logical factors, aligned with `scope`.
    negated: np.ndarray


def _scores_of(batch):
    """Scores of a batch, a row for each factor or one for all."""
    if isinstance(batch, Table):
        return batch.tables.reshape(len(batch.tables), -1)
    if isinstance(batch, Potts):
        return batch.weights[:, None]
    return batch.scores_by_count if isinstance(batch, Cardinality) else np.zeros((1, 0))


def _pair_positions(graph):
    """Region of each pairwise factor by its two variables, sorted; several may share a pair."""
    positions = {}
    for first, batch in numbered(graph.factors):
        if batch.arity == 2 and isinstance(batch, (Table, Potts)):
            for region, (i, j) in enumerate(batch.scopes.tolist(), graph.n_variables + first):
                positions.setdefault(frozenset((i, j)), []).append((region, i, j))
    return positions


def _children(scope, pairs, n_states):
    """Children of a larger table that contains pairwise factors, and their steps."""
    children, steps, covered = [], [], set()
    place = {v: d for d, v in enumerate(scope)}
    for b in range(len(scope)):
        for a in range(b):
            for region, i, j in pairs.get(frozenset((scope[a], scope[b])), ()):
                row = [0] * len(scope)
                row[place[i]], row[place[j]] = int(n_states[j]), 1
                children.append(region)
                steps.append(row)
                covered |= {i, j}
    for d, v in enumerate(scope):
        if v not in covered:
            children.append(v)
            steps.append([int(k == d) for k in range(len(scope))])
    return children, steps


def _nested_slots(graph):
    """Children and steps of all factors, where larger tables contain pairwise factors."""
    pairs = _pair_positions(graph)
    counts, children, step_counts, steps = [], [], [], []
    for batch in graph.factors:
        for scope in batch.scopes.tolist():
            inside, rows = scope, []
            if isinstance(batch, Table) and batch.arity > 2:
                inside, rows = _children(scope, pairs, graph.n_states)
            counts.append(len(inside))
            children.extend(inside)
            step_counts.append(sum(map(len, rows)))
            steps.extend(entry for row in rows for entry in row)
    return (
        np.array(counts, dtype=np.int64),
        np.array(children, dtype=np.int32),
        np.array(step_counts, dtype=np.int64),
        np.array(steps, dtype=np.int64),
    )


def _plain_slots(graph, scope):
    """The same where factors contain variables only; the children are the scopes."""
    counts, step_counts, steps = [], [], []
    for batch in graph.factors:
        with_steps = isinstance(batch, Table) and batch.arity > 2
        counts.append(np.full(len(batch), batch.arity, dtype=np.int64))
        step_counts.append(np.full(len(batch), with_steps * batch.arity**2, dtype=np.int64))
        if with_steps:
            steps.append(np.tile(np.eye(batch.arity, dtype=np.int64).reshape(-1), len(batch)))
    empty = np.zeros(0, dtype=np.int64)
    return (
        np.concatenate([empty, *counts]),
        scope[graph.n_variables :],
        np.concatenate([empty, *step_counts]),
        np.concatenate([empty, *steps]),
    )


def _concatenated(graph):
    """Fields that are batches one after another: kind, size, score_ptr, scores, scope, negated."""
    n, n_states = graph.n_variables, graph.n_states
    kinds, sizes = [np.full(n, VARIABLE, dtype=np.uint8)], [n_states]
    starts, scores, n_scores = [graph.state_ptr[:-1]], [graph.unary], graph.unary.size
    scopes, negated = [np.arange(n, dtype=np.int32)], [np.zeros(n, dtype=np.uint8)]
    for batch in graph.factors:
        m, rows = len(batch), _scores_of(batch)
        is_written = isinstance(batch, (Table, Potts))
        kinds.append(np.full(m, KINDS[type(batch)], dtype=np.uint8))
        sizes.append(is_written * n_states[batch.scopes].prod(axis=1))
        starts.append(n_scores + np.arange(m) * rows.shape[1] * (len(rows) == m))
        scores.append(rows.reshape(-1))
        n_scores += rows.size
        scopes.append(batch.scopes.reshape(-1).astype(np.int32))
        flags = getattr(batch, "negated", np.zeros(1))
        negated.append(np.broadcast_to(flags, batch.scopes.shape).reshape(-1).astype(np.uint8))
    return map(np.concatenate, (kinds, sizes, starts, scores, scopes, negated))


def make_regions(graph: FactorGraph) -> Regions:
    """The regions of a graph."""
    n = graph.n_variables
    kind, size, score_ptr, scores, scope, negated = _concatenated(graph)
    arities = (np.full(len(batch), batch.arity) for batch in graph.factors)
    scope_ptr = ends_of(np.concatenate([np.ones(n, dtype=np.int64), *arities]))
    slots = _nested_slots(graph) if graph.nested else _plain_slots(graph, scope)
    n_slots, child, n_steps, steps = slots
    no_slots = np.zeros(n, dtype=np.int64)
    slot_ptr = ends_of(np.concatenate([no_slots, n_slots]))
    n_parents = np.bincount(child, minlength=kind.size)
    return Regions(
        n_variables=n,
        offset=graph.offset,
        n_states=graph.n_states,
        kind=kind,
        size=size,
        score_ptr=score_ptr,
        scores=scores,
        scope_ptr=scope_ptr,
        scope=scope,
        slot_ptr=slot_ptr,
        child=child,
        owner=np.repeat(np.arange(kind.size, dtype=np.int32), np.diff(slot_ptr)),
        message_ptr=ends_of(size[child]),
        parent_ptr=ends_of(n_parents),
        parent=np.argsort(child, kind="stable").astype(np.int32),
        step_ptr=ends_of(np.concatenate([no_slots, n_steps])),
        steps=steps,
        negated=negated,
    )


def score_bounds(p: Regions) -> tuple[np.ndarray, np.ndarray]:
    """The least finite and the largest score of each region that has scores, in their order."""
    has_scores = p.kind <= CARDINALITY
    ptr = p.score_ptr[has_scores]
    is_new = np.diff(ptr, prepend=-1) > 0  # shared tables begin at one place
    starts, place = ptr[is_new], np.cumsum(is_new) - 1
    low = np.minimum.reduceat(np.where(p.scores > -np.inf, p.scores, np.inf), starts)[place]
    high = np.maximum.reduceat(p.scores, starts)[place]
    # Different labels score 0.
    differ = (p.kind[has_scores] == POTTS) & (p.size[has_scores] > 1)
    low[differ], high[differ] = np.minimum(low[differ], 0.0), np.maximum(high[differ], 0.0)
    return low, high


def sum_in_order(values, start=0.0) -> float:
    """Sum one number after the other."""
    return float(np.cumsum(np.append(start, values))[-1])


def sum_of_maxima(p: Regions) -> float:
    """Bound without any messages: every region takes its largest score."""
    return sum_in_order(score_bounds(p)[1], p.offset)


def score_extent(p: Regions) -> float:
    """A bound on the size of sums of finite scores, one per region."""
    sizes = np.where(np.isfinite(p.scores), np.abs(p.scores), 0.0)
    starts, counts = np.unique(p.score_ptr[p.kind <= CARDINALITY], return_counts=True)
    return float(np.maximum.reduceat(sizes, starts) @ counts)


# What users pass with a graph.


def check_labels(labels, n_states, name):
    """A labelling."""
    labels = integers(labels, name)
    if labels.shape != n_states.shape:
        raise ValueError(
            f"{name} must have one label for each of {n_states.size} variables, got the shape "
            f"{labels.shape}"
        )
    wrong = (labels < 0) | (labels >= n_states)
    if wrong.any():
        v = int(np.argmax(wrong))
        raise ValueError(f"{name}: variable {v} has {n_states[v]} states, got label {labels[v]}")
    return labels


def check_duals(graph, duals):
    """Messages to start from."""
    if duals is None:
        return None
    duals = numbers(duals, "duals")
    size = int(graph.regions.message_ptr[-1])
    if duals.shape != (size,):
        raise ValueError(f"duals must have the shape ({size},), got {duals.shape}")
    if not np.isfinite(duals).all():
        place = int(np.argmin(np.isfinite(duals)))
        raise ValueError(f"duals must be finite, got {duals[place]} at position {place}")
    return duals
