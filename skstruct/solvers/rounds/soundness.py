"""Checks of checkpoints: types and sizes, and dual points against the samples.

Kernels do not check indices, and a point outside of its set gives an invalid bound. So what another
process has written is compared with the samples once, before a training continues from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.jit.solver_kernel import solver_kernel
from ...core.offsets import places_of
from ...core.oracles import add_indicator, loss_is_linear
from ..bcfw.kernels import expected_losses
from ..gdmm.active_sets import layout

# Effect that rounding may have had on shares, marginals and losses, over any number of steps.
TOLERANCE = 1e-9


def require(is_sound: Any, what: str) -> None:
    """Raise ValueError unless something holds."""
    if not is_sound:
        raise ValueError(what)


def require_below(bound: float, objective: float) -> None:
    """Refuse a lower bound above an objective, by more than rounding."""
    sound = bound <= objective + TOLERANCE * abs(objective)
    require(sound, f"the bound {bound} is above the objective {objective}")


def close(found: Any, known: Any, size: float = 1.0, tolerance: float = TOLERANCE) -> bool:
    """Return whether numbers are finite, and equal up to the rounding of terms of a size."""
    found, known = np.asarray(found, dtype=float), np.asarray(known, dtype=float)
    size = max(size, float(np.abs(known).max(initial=0.0)))
    with np.errstate(invalid="ignore", over="ignore"):
        return bool((np.abs(found - known) <= tolerance * size).all()) and bool(
            np.isfinite(found).all()
        )


def like(found: Any, known: Any, what: str) -> np.ndarray:
    """An array of the shape and dtype of another, finite, in C order; ValueError if it is not."""
    same = found.dtype == known.dtype and found.shape == known.shape
    require(same and np.isfinite(found).all(), f"{what} is not what the training has")
    return np.ascontiguousarray(found)


def numbers_like(found: dict, known: dict) -> None:
    """Refuse numbers of other types than those that a method starts with, and negative counts.

    What is infinite at the start may be so later; nothing is NaN.
    """
    for name, value in known.items():
        number, kind = found[name], float if isinstance(value, float) else type(value)
        require(type(number) is kind and number == number, f"{name} is not what the training has")
        require(kind is not int or 0 <= number < 2**63, f"{name} is not a count")
        require(kind is not float or np.isfinite(number) or np.isinf(value), f"{name} is infinite")


@solver_kernel
def _add_labellings(problem, labels, share, out):
    """Add so much of a labelling of each sample to points in part space."""
    for i in range(share.shape[0]):
        if share[i] != 0.0:
            first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
            point = out[problem.part_ptr[i] : problem.part_ptr[i + 1]]
            add_indicator(problem, i, labels[first:stop], share[i], point)


def outside(problem: Any, ends: tuple, points: np.ndarray, mass: np.ndarray) -> float:
    """Return how far points are from multiples of the local polytope, which has all dual points.

    Marginals of nodes and of edges are not negative, add up, and agree. Where several edges share a
    table, their sum is compared; where pairs of labels share an entry, edges are not. On trees with
    a table for each edge there is nothing else to know; dual points that labellings explain are
    compared with these anyway.

    `mass` says what the marginals of each sample add up to, `ends` is that of
    :class:`skstruct.solvers.rounds.shard.ShardProblem`.
    """
    worst = float(-points.min(initial=0.0))
    cost, n_nodes = getattr(problem.target, "cost", None), np.diff(problem.label_ptr)
    space = problem.space
    own_layout = hasattr(space, "n_tables") or bool((n_nodes == 1).all())
    if cost is None or not own_layout or not n_nodes.size:
        return worst
    size, samples = cost.shape[0], np.arange(n_nodes.size)
    owner, within = places_of(np.zeros_like(n_nodes), n_nodes)
    begin = problem.part_ptr[owner] + size * within
    nodes = points[begin[:, None] + np.arange(size)]
    off = np.abs(nodes.sum(axis=1) - np.repeat(mass, n_nodes))
    worst = max(worst, float(off.max(initial=0.0)))
    if space.allowed.size:
        worst = max(worst, float(nodes[space.allowed == 0].max(initial=0.0)))
    n_tables = getattr(space, "n_tables", None)
    if n_tables is None or space.width != size * size or not len(ends):
        return worst
    column = getattr(space.own, "column", None)
    if column is not None and not np.array_equal(column.ravel(), np.arange(size * size)):
        return worst
    owner, within = places_of(np.zeros_like(n_tables), n_tables)
    begin = problem.part_ptr[owner] + n_nodes[owner] * size + within * size * size
    tables = points[begin[:, None] + np.arange(size * size)].reshape(-1, size, size)
    worst = max(worst, float(tables[:, np.isinf(space.transition_mask)].max(initial=0.0)))
    first, second, edge_ptr = ends
    if not space.shares_tables:
        group_edges, group_tables, n = np.arange(first.size), np.arange(owner.size), first.size
    else:
        group_edges, group_tables, n = np.repeat(samples, np.diff(edge_ptr)), owner, samples.size
    for axis, end in ((2, first), (1, second)):
        agree = np.zeros((n, size))
        np.add.at(agree, group_tables, tables.sum(axis=axis))
        np.subtract.at(agree, group_edges, nodes[end])
        worst = max(worst, float(np.abs(agree).max(initial=0.0)))
    return worst


def _require_inside(problem, ends, points, mass, what):
    """Refuse points that are not in the set, NaN included."""
    far = TOLERANCE * max(1, int(np.diff(problem.label_ptr).max(initial=1)))
    require(outside(problem, ends, points, mass) <= far, f"{what} is not one of these samples")


def _shares(shares):
    """The shares of slots that are in use, and what they leave."""
    slots = (shares == -1.0) | (shares >= 0.0)
    require(slots.all() and (shares <= 1.0 + TOLERANCE).all(), "a share is not in [0, 1]")
    kept = np.maximum(shares, 0.0)
    rest = 1.0 - kept.sum(axis=1)
    require((rest >= -TOLERANCE).all(), "shares add up to more than 1")
    return kept, np.maximum(rest, 0.0)


def _cached_labellings(problem, ends, n_labels, state):
    """Return the part of a dual point that cached labellings explain, and the remaining share."""
    shares, rest = _shares(state.shares)
    require(((state.labels >= 0) & (state.labels < n_labels)).all(), "a label is out of range")
    explained = np.zeros_like(state.residuals)
    for c, labels in enumerate(state.labels):
        is_used, point = (state.shares[:, c] >= 0.0).astype(float), np.zeros_like(explained)
        _add_labellings(problem, labels, is_used, point)
        _require_inside(problem, ends, point, is_used, "a cached labelling")
        _add_labellings(problem, labels, shares[:, c], explained)
    return explained, rest


def _cached_points(problem, ends, state, points, known):
    """Check points of a relaxation; their task losses are compared, too."""
    require(np.array_equal(points.ptr, known.ptr), "the room for points is another one")
    room, size = np.diff(known.ptr)[:, None], np.diff(problem.part_ptr)
    require(((points.sizes >= 0) & (points.sizes <= room)).all(), "a point has too many entries")
    shares, rest = _shares(points.shares)
    explained, truth = np.zeros_like(state.residuals), np.zeros_like(state.residuals)
    ones = np.ones(size.size)
    _add_labellings(problem, problem.labels, ones, truth)
    trial, losses = np.zeros(int(size.max(initial=1))), np.zeros(size.size)
    for c in range(shares.shape[1]):
        is_used = points.shares[:, c] >= 0.0
        counts = np.where(is_used, points.sizes[:, c], 0)
        owner, place = places_of(known.ptr, counts)
        part = points.part[c, place]
        require(((part >= 0) & (part < size[owner])).all(), "a point has entries out of range")
        point = np.zeros_like(explained)
        np.add.at(point, problem.part_ptr[owner] + part, points.much[c, place])
        _require_inside(problem, ends, point, is_used.astype(float), "a cached point")
        explained += np.repeat(shares[:, c], size) * point
        own = np.where(np.repeat(is_used, size), point - truth, 0.0)
        expected_losses(problem, state._replace(residuals=own, losses=losses), 0, size.size, trial)
        require(close(points.costs[is_used, c], losses[is_used]), "a task loss is wrong")
    return explained, rest


def require_dual_point(shard, state, points, known: tuple) -> np.ndarray:
    """Refuse a state of BCFW that is not a dual point of a shard; `known` is that of the truth.

    Returns the mask of the samples whose task losses follow from the state: that of an evicted
    labelling is lost where it does not add up over parts.
    """
    problem, ends, start = shard.problem, shard.ends, known[0]
    for name, found in state._asdict().items():
        if name == "gaps":
            same = found.shape == start.gaps.shape and found.dtype == start.gaps.dtype
            require(same and (found >= 0.0).all(), "gaps are not what the training has")
        else:
            like(found, getattr(start, name), name)
    # Samples are drawn by gaps in memory only.
    require(np.array_equal(state.tree, start.tree), "the tree is not what the training has")
    if len(known[1]):
        for name in ("labels", "shares", "costs", "inner"):
            same = np.array_equal(getattr(state, name), getattr(start, name))
            require(same, f"{name} are not what the training has")
        for found, other, name in zip(points, known[1], points._fields, strict=True):
            like(found, other, name)
        explained, rest = _cached_points(problem, ends, state, points, known[1])
    else:
        explained, rest = _cached_labellings(problem, ends, shard.n_labels, state)
    left = state.residuals - explained
    _add_labellings(problem, problem.labels, np.ones(rest.size), left)
    is_whole = rest <= TOLERANCE
    whole = np.repeat(is_whole, np.diff(problem.part_ptr))
    require(close(left[whole], 0.0), "a dual point is not what its labellings make")
    _require_inside(problem, ends, left, rest, "a dual point")
    return is_whole | loss_is_linear(problem)


def _keys(sets, n_keys, what):
    """Return the places of the entries of active sets, their owners, and their keys."""
    require((sets.size >= 0).all() and (sets.size <= n_keys).all(), f"{what} have other sizes")
    *places, length = layout(sets.size)
    for found, known in zip((sets.start, sets.room, sets.used), places, strict=True):
        require(np.array_equal(found, known), f"{what} lie elsewhere")
    for found in (sets.key, sets.share, sets.price, sets.more):
        known = np.empty((length, *found.shape[1:]), found.dtype)
        require(like(found, known, what).shape[1:] in ((), (0,)), f"{what} have more numbers")
    owner, place = places_of(sets.start, sets.size)
    keys = sets.key[place]
    require(((keys >= 0) & (keys < n_keys)).all(), f"{what} have keys out of range")
    require(np.unique(owner * n_keys + keys).size == keys.size, f"{what} have a key twice")
    return place, owner, keys


def _distributions(sets, true, n_keys, what):
    """Check active sets whose shares are distributions, the true labelling first."""
    place, owner, keys = _keys(sets, n_keys, what)
    require((sets.size >= 1).all() and (sets.key[sets.start] == true).all(), f"{what} lack truth")
    shares, size = sets.share[place], sets.size.size
    total = np.bincount(owner, shares, minlength=size)
    require((shares >= 0.0).all() and close(total, np.ones(size)), f"{what} are not distributions")
    # Algorithm 3 of GDMM marks active factors at the first entry.
    first = np.isin(place, sets.start) & (sets.price[place] == 1.0)
    require(not sets.price[place[~first]].any(), f"{what} have prices")
    return owner, keys, shares


def require_active_sets(run, sets: tuple) -> None:
    """Refuse active sets of GDMM that are not distributions of the nodes and edges of a run."""
    nodes, edges, ports = sets
    graph, n_labels = run.graph, run.graph.cost.shape[0]
    for name, found in zip(run.arenas, sets, strict=True):
        n = getattr(run.state, name).size.size
        require(found.start.size == found.size.size == found.room.size == n, f"{name} are others")
    true = graph.labels.astype(np.int64)
    owner, keys, _ = _distributions(nodes, true, n_labels, "nodes")
    if graph.allowed.size:
        require(graph.allowed[owner, keys].all(), "a node has a label that it may not have")
    pairs = true[graph.ends[:, 0]] * n_labels + true[graph.ends[:, 1]]
    owner, keys, shares = _distributions(edges, pairs, n_labels * n_labels, "edges")
    if keys.size:
        table = graph.mask if run.own else run.state.table
        require(np.isfinite(table.ravel()[keys]).all(), "an edge has a forbidden pair")
    place, port, label = _keys(ports, n_labels, "ports")
    marginals = np.zeros(ports.size.size * n_labels)
    for side, end in enumerate((keys // n_labels, keys % n_labels)):
        np.add.at(marginals, (2 * owner + side) * n_labels + end, shares)
    np.subtract.at(marginals, port * n_labels + label, ports.share[place])
    require(close(marginals, 0.0), "marginals at ports are not those of their edges")
