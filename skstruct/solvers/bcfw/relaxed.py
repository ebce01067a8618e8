"""BCFW for oracles that return points of a relaxation, kept by their entries that are not 0."""

from typing import NamedTuple

import numpy as np

from ...core.cone import project_rows
from ...core.jit.kernels import inner_kernel, kernel
from ...core.jit.solver_kernel import solver_kernel
from ...core.memory import check_memory
from ...core.oracles import accumulate, add_indicator, relaxed_oracle, score
from ...losses.operations import augment_copy, dot, expected_task_loss
from ..sampling import sample_leaf
from .kernels import GAP, N_CACHED, N_STEPS, add_cached, enter, forget_way, line_search, note_gap

# A smaller fraction of a dual point is rounding.
_LEAST_REST = 1e-7
# Room for a point, in multiples of the entries of a labelling.
_ROOM = 6


class Points(NamedTuple):
    """The cache: points of the relaxation, labellings among them."""

    # (n_samples + 1,): Where there is room for the entries of each sample.
    ptr: np.ndarray
    # (n_cached, ptr[-1]): Entries, counted within the sample.
    part: np.ndarray
    # (n_cached, ptr[-1]): Their values.
    much: np.ndarray
    # (n_samples, n_cached): How many entries a point has.
    sizes: np.ndarray
    # (n_samples, n_cached): Weights in ``m_i``, -1 for an empty slot, and task losses.
    shares: np.ndarray
    costs: np.ndarray
    # (n_samples, n_cached): Shares of some passes ago, to extrapolate from.
    past: np.ndarray


@solver_kernel
def _count_entries(problem, trial, out):
    """Entries of the true labellings that are not 0."""
    for i in range(out.shape[0]):
        size = problem.part_ptr[i + 1] - problem.part_ptr[i]
        trial[:size] = 0.0
        true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
        add_indicator(problem, i, true, 1.0, trial)
        for q in range(size):
            out[i] += trial[q] != 0.0


def new_points(problem, n_cached, trial):
    """An empty cache."""
    counts = np.zeros(problem.part_ptr.size - 1, dtype=np.int64)
    _count_entries(problem, trial, counts)
    room = np.minimum(_ROOM * counts, np.diff(problem.part_ptr))
    ptr = np.concatenate([[0], np.cumsum(room)])
    n_bytes = 12 * n_cached * int(ptr[-1])
    check_memory(n_bytes, "the stored points of BCFWSSVM", "take fewer n_cached, or fewer edges")
    shape = counts.size, n_cached
    return Points(
        ptr=ptr,
        part=np.zeros((n_cached, ptr[-1]), dtype=np.int32),
        much=np.zeros((n_cached, ptr[-1])),
        sizes=np.zeros(shape, dtype=np.int32),
        shares=np.full(shape, -1.0),
        costs=np.zeros(shape),
        past=np.zeros(shape),
    )


@inner_kernel
def _is_slot(points, i, c, mu, size):
    """Return whether slot c holds the point `mu`."""
    q, first = 0, points.ptr[i]
    for k in range(first, first + points.sizes[i, c]):
        while q < size and mu[q] == 0.0:
            q += 1
        if q >= size or points.part[c, k] != q or points.much[c, k] != mu[q]:
            return False
        q += 1
    while q < size and mu[q] == 0.0:
        q += 1
    return q >= size


@inner_kernel
def _keep(points, i, mu, size, loss):
    """The slot that holds `mu`, else an empty one, else that of least share; -1 for no room."""
    chosen, count = 0, 0
    for c in range(points.shares.shape[1]):
        if points.shares[i, c] >= 0.0 and _is_slot(points, i, c, mu, size):
            return c
        if points.shares[i, c] < points.shares[i, chosen]:
            chosen = c
    for q in range(size):
        count += mu[q] != 0.0
    k = points.ptr[i]
    if count > points.ptr[i + 1] - k:
        return -1
    forget_way(points.past[i], points.shares[i], chosen)
    # What an evicted point contributes to m_i stays there.
    points.shares[i, chosen] = 0.0
    points.costs[i, chosen], points.sizes[i, chosen] = loss, count
    for q in range(size):
        if mu[q] != 0.0:
            points.part[chosen, k], points.much[chosen, k] = q, mu[q]
            k += 1
    return chosen


@add_cached.register(Points)
@kernel
def _(cache, problem, i, c, share, out):
    first = cache.ptr[i]
    for k in range(first, first + cache.sizes[i, c]):
        out[cache.part[c, k]] += share * cache.much[c, k]


@inner_kernel
def _best_point(i, theta, points, values):
    """Scores of the cached points, task losses included, to `values`; the best slot, or -1."""
    best, first = -1, points.ptr[i]
    for c in range(values.shape[0]):
        if points.shares[i, c] >= 0.0:
            total = points.costs[i, c]
            for k in range(first, first + points.sizes[i, c]):
                total += points.much[c, k] * theta[points.part[c, k]]
            values[c] = total
            if best < 0 or total > values[best]:
                best = c
    return best


@inner_kernel
def _unexplained(problem, i, theta, losses, points, residual, values):
    """Weight of ``m_i`` outside the cached points, and score and task loss of that part."""
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    rest, loss = 1.0, losses[i]
    total = dot(theta, residual, residual.shape[0]) + score(problem, i, theta, true) + loss
    for c in range(values.shape[0]):
        if points.shares[i, c] > 0.0:
            rest -= points.shares[i, c]
            total -= points.shares[i, c] * values[c]
            loss -= points.shares[i, c] * points.costs[i, c]
    if rest < _LEAST_REST:
        return 0.0, np.inf, 0.0
    return rest, total / rest, loss / rest


@inner_kernel
def _take_unexplained(problem, i, points, residual, rest, direction):
    """``direction -=`` the part of ``m_i`` outside the cached points."""
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    for q in range(residual.shape[0]):
        direction[q] -= residual[q] / rest
    add_indicator(problem, i, true, -1.0 / rest, direction)
    for c in range(points.shares.shape[1]):
        if points.shares[i, c] > 0.0:
            add_cached(points, problem, i, c, points.shares[i, c] / rest, direction)


@inner_kernel
def _relaxed_block(
    problem, i, theta, losses, points, residual, options, point, scale, values, buffers
):
    """Steps on cached points, the rest of ``m_i`` and, first, the one in the third buffer."""
    direction, size = buffers[2], residual.shape[0]
    goal = 0.0
    for step in range(options.pairwise):
        best = _best_point(i, theta, points, values)
        rest, lowest, loss = _unexplained(problem, i, theta, losses, points, residual, values)
        away, most = -1, rest
        for c in range(values.shape[0]):
            if points.shares[i, c] > 0.0 and values[c] < lowest:
                away, lowest = c, values[c]
        if away >= 0:
            most, loss = points.shares[i, away], points.costs[i, away]
        is_point = step == 0 and point[0] > -np.inf
        slope = (point[0] if is_point else values[best]) - lowest
        gain = (point[1] if is_point else points.costs[i, best]) - loss
        if step == 0:
            goal = 0.1 * slope
        elif slope <= goal:
            break
        if not is_point:
            direction[:size] = 0.0
            add_cached(points, problem, i, best, 1.0, direction)
        if away >= 0:
            add_cached(points, problem, i, away, -1.0, direction)
        else:
            _take_unexplained(problem, i, points, residual, rest, direction)
        moved = line_search(problem, i, theta, residual, slope, scale, most, buffers)
        losses[i] += moved * gain
        if away >= 0:
            points.shares[i, away] -= moved
        if not is_point:
            points.shares[i, best] += moved


@inner_kernel
def _toward_point(problem, i, theta, losses, points, slot, slope, loss, residual, scale, buffers):
    """A Frank-Wolfe step to the point in the third buffer, which that of a slot replaces."""
    direction = buffers[2]
    true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
    if slot >= 0:
        direction[: residual.shape[0]] = 0.0
        add_cached(points, problem, i, slot, 1.0, direction)
    add_indicator(problem, i, true, -1.0, direction)
    for q in range(residual.shape[0]):
        direction[q] -= residual[q]
    step = line_search(problem, i, theta, residual, slope, scale, 1.0, buffers)
    losses[i] += step * (loss - losses[i])
    for c in range(points.shares.shape[1]):
        if points.shares[i, c] > 0.0:
            points.shares[i, c] *= 1.0 - step
    if slot >= 0:
        points.shares[i, slot] += step


@inner_kernel
def _plant(problem, i, points, residual, mu):
    """Cache the true labelling while it is all of ``m_i``."""
    size = residual.shape[0]
    if points.shares[i, 0] < 0.0 and dot(residual, residual, size) == 0.0:
        mu[:size] = 0.0
        true = problem.labels[problem.label_ptr[i] : problem.label_ptr[i + 1]]
        add_indicator(problem, i, true, 1.0, mu)
        slot = _keep(points, i, mu, size, 0.0)
        points.shares[i, slot] = points.past[i, slot] = 1.0


@inner_kernel
def _ask(problem, i, theta, base, points, buffers, labels):
    """Return bound, value and task loss of the oracle's point, and its slot: -1 for none."""
    augment_copy(problem, i, theta, buffers[3])
    bound, value = relaxed_oracle(problem, i, buffers[3], labels, buffers[2])
    loss, slot = 0.0, -1
    if value > base:
        loss = expected_task_loss(problem, i, buffers[2], buffers[3])
        size = problem.part_ptr[i + 1] - problem.part_ptr[i]
        slot = _keep(points, i, buffers[2], size, loss)
    return bound, value, loss, slot


@solver_kernel
def relaxed_epoch(
    problem, w, cone, sample_weight, options, state, points, order, uniforms, scratch
):
    """The visits of :func:`~skstruct.solvers.bcfw.kernels.bcfw_epoch`, on cached points."""
    buffers, values, labels = scratch
    theta, change = buffers[0], buffers[1]
    totals, n_samples = state.totals, sample_weight.shape[0]
    for visit in range(uniforms.shape[0]):
        i = sample_leaf(state.tree, uniforms[visit]) if options.by_gap == 1 else order[visit]
        part = problem.part_ptr[i]
        size = problem.part_ptr[i + 1] - part
        residual = state.residuals[part : part + size]
        scale = sample_weight[i] / (options.lam * n_samples)
        share = sample_weight[i] / n_samples

        _plant(problem, i, points, residual, buffers[2])
        base = enter(problem, i, w, theta, residual, state)
        slot, gap, value, loss = -1, 0.0, 0.0, 0.0
        if options.fresh < np.inf:
            slot = _best_point(i, theta, points, values)
            gap = share * (values[slot] - base) if slot >= 0 else 0.0
        totals[N_STEPS] += 1.0
        if slot < 0 or gap < options.fresh * state.gaps[i] or gap < options.enough:
            bound, value, loss, slot = _ask(problem, i, theta, base, points, buffers, labels)
            gap = share * max(bound - base, 0.0)
            note_gap(state, options, i, gap)
        else:
            value, loss = values[slot], points.costs[i, slot]
            totals[N_CACHED] += 1.0
        totals[GAP] += gap
        if not value > base:
            continue
        change[:size] = 0.0
        losses, slope = state.losses, value - base
        if options.pairwise > 0:
            point = (value if slot < 0 else -np.inf), loss
            _relaxed_block(
                problem, i, theta, losses, points, residual, options, point, scale, values, buffers
            )
        else:
            _toward_point(
                problem, i, theta, losses, points, slot, slope, loss, residual, scale, buffers
            )
        later = 0.5 * totals[N_STEPS] * (totals[N_STEPS] - 1.0)
        accumulate(problem, i, change, (-scale, -scale * later), w)
        project_rows(cone, w, later, 1)
