"""GDMM on label sets."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.factors import BinaryFactors
from ...core.features import add_to_column, gather_columns
from ...core.intrinsics import cycles
from ...core.jit.kernels import inner_kernel, kernel
from ...core.weights import Weights, squared_norm
from ...inference.qpbo import HALF, OFF, forced, widen
from .active_sets import (
    ALL,
    AWAY,
    BGCD,
    CHANGE,
    EXACT,
    INFEASIBILITY,
    SEARCH,
    ActiveSets,
    append,
    drop_empty,
    empty_sets,
    fits,
)
from .factors import INNER, INNER_AWAY, LEAST_CURVATURE, block_step, part_of
from .solver import Run

# GDMM on label sets: binary nodes that share a sample's features, many possible edges.
#
# Node j of a sample has the probability ``p_j`` that label j is on. An edge is in one of two forms.
# *At rest* its distribution follows from its ends: it is consistent without messages, and never
# stored. It is the product of its ends'; but if no sample has both labels on, "both" has only what
# the ends force on it, ``max(a + b - 1, 0)``: the weight of such a pair is at most 0 whatever the
# dual point, so that nothing is better. *Awake*, an edge has a distribution of its own over the
# four combinations, tied to its ends by messages ``m = u + nu`` (``u``: its marginal of "on" minus
# p). As in Algorithm 3 a visit wakes few edges, those of largest progress: with two fractional
# ends, or between labels that no bound on the others settles (joint search). So the work of a
# sample grows with what is active in it, not with the number of edges. In the first passes, while
# the weights are far from anything, all edges stay at rest: a step on one label is then exact.

# Edges that a visit wakes at most: with two fractional ends, and in the joint search.
_FRACTIONAL, _JOINT = 64, 16
_AWAKE = 1.0  # `price` of an awake edge
_AT_REST, _NO_PRICE = 1e-6, 1e-3
_SAME = 1e-12
_WORTH = 0.9  # open labels left by a round that is worth another one


@inner_kernel(inline=True)
def _interaction(state, e):
    """Return the score that an edge adds with both ends on, rather than each alone."""
    pair = state.pair
    return pair[e, 3] + pair[e, 0] - pair[e, 1] - pair[e, 2]


@inner_kernel
def _change_pair(graph, state, e, d00, d01, d10, d11):
    """Add to the weights of an edge; `base` and `lift` follow."""
    j, k = graph.ends[e, 0], graph.ends[e, 1]
    before = max(_interaction(state, e), 0.0)
    state.pair[e, 3] += d11
    if graph.full == 1:
        state.pair[e, 0] += d00
        state.pair[e, 1] += d01
        state.pair[e, 2] += d10
        state.base[j] += d10 - d00
        state.base[k] += d01 - d00
    lifted = max(_interaction(state, e), 0.0) - before
    state.lift[j] += lifted
    state.lift[k] += lifted


@inner_kernel(inline=True)
def _both(graph, e, a, b):
    """Probability of "both on" on an edge at rest."""
    return max(a + b - 1.0, 0.0) if graph.never[e] == 1 else a * b


@inner_kernel
def _move_node(graph, state, w, i, j, change):
    """Change p_j; edges at rest follow."""
    n_labels = graph.labels.shape[1]
    reach = state.reach[i]
    on = state.on[i]
    for k in range(n_labels):
        if graph.full == 0 and on[k] == 0.0:
            continue
        e = graph.edge_of[j, k]
        if e < 0 or state.spot[j, k] > 0:
            continue
        if graph.full == 0:
            both = _both(graph, e, on[j] + change, on[k]) - _both(graph, e, on[j], on[k])
            if both != 0.0:
                _change_pair(graph, state, e, 0.0, 0.0, 0.0, -reach * both)
            continue
        both, alone = -reach * change * on[k], -reach * change * (1.0 - on[k])
        if graph.ends[e, 0] == j:
            _change_pair(graph, state, e, -alone, -both, alone, both)
        else:
            _change_pair(graph, state, e, -alone, alone, -both, both)
    on[j] += change
    state.message[j] -= change * state.degree[j]
    add_to_column(graph.nodes, i, w.node, j, -reach * change)
    state.totals[CHANGE] += change * change


@inner_kernel(inline=True)
def _loss_gain(graph, i, j):
    """Return the change of the task loss by switching label j on."""
    y = graph.labels[i, j]
    gain = graph.cost[y, 1] - graph.cost[y, 0]
    return gain * graph.factor[i, j] if graph.factor.shape[0] > 0 else gain


@inner_kernel
def _full_slope(graph, state, i, j):
    """The edges' part of :func:`_slopes` with full tables."""
    gain = curvature = 0.0
    for k in range(graph.labels.shape[1]):
        e = graph.edge_of[j, k]
        if e >= 0 and state.spot[j, k] == 0:
            pair = state.pair[e]
            swap = 1 if graph.ends[e, 0] == j else 2
            p = state.on[i, k]
            gain += p * (pair[3] - pair[swap]) + (1.0 - p) * (pair[3 - swap] - pair[0])
            curvature += 2.0 * (p * p + (1.0 - p) * (1.0 - p))
    return gain, curvature


@inner_kernel
def _slopes(graph, state, i, j, n_support):
    """Gains and curvatures per unit of p_j, down and up, and the bends nearest to p_j."""
    p, bend, low, high = state.on[i, j], 0.0, 0.0, 1.0
    gain = state.scores[j] + _loss_gain(graph, i, j)
    if graph.full == 1:
        more, curvature = _full_slope(graph, state, i, j)
        return gain + more, gain + more, curvature, curvature, low, high
    curvature = at_bend = 0.0
    for q in range(n_support):
        k = state.support[q]
        e = graph.edge_of[j, k]
        if e < 0 or state.spot[j, k] > 0:
            continue
        v, other = _interaction(state, e), state.on[i, k]
        if graph.never[e] == 0:
            gain += v * other
            curvature += other * other
        elif p + other > 1.0 + _SAME:
            gain += v
            curvature += 1.0
            low = max(low, 1.0 - other)
        elif p + other >= 1.0 - _SAME:
            bend += v
            at_bend += 1.0
        else:
            high = min(high, 1.0 - other)
    return gain, gain + bend, curvature, curvature + at_bend, low, high


@inner_kernel
def _wake(graph, state, i, j, k):
    """Give the edge between two labels a distribution of its own, the one that it has at rest."""
    e = graph.edge_of[j, k]
    a, b = state.on[i, graph.ends[e, 0]], state.on[i, graph.ends[e, 1]]
    awake = state.awake
    both = _both(graph, e, a, b)
    append(awake, i, e, both, _AWAKE)
    place = awake.start[i] + awake.size[i] - 1
    awake.more[place, 0] = b - both
    awake.more[place, 1] = a - both
    awake.more[place, 2] = 0.0
    awake.more[place, 3] = 0.0
    state.spot[j, k] = state.spot[k, j] = awake.size[i]
    state.degree[j] += 1.0
    state.degree[k] += 1.0


@inner_kernel
def _promise(graph, state, i, e):
    """Return the progress (18) of an edge by a distribution of its own, while its ends stay."""
    a, b = state.on[i, graph.ends[e, 0]], state.on[i, graph.ends[e, 1]]
    v = _interaction(state, e)
    if graph.never[e] == 1:
        return 0.0  # v <= 0, and "both" is as small as the ends allow
    room = min(a, b) - a * b if v > 0.0 else a * b - max(a + b - 1.0, 0.0)
    curvature = state.reach[i] * (4.0 if graph.full == 1 else 1.0)
    step = min(abs(v) / curvature, room)
    return step * (abs(v) - 0.5 * curvature * step)


@inner_kernel
def _open_labels(graph, state, i, n_near):
    """Settle labels by bounds on their neighbours, while that settles some; others are HALF."""
    states, near = state.states, state.near
    for q in range(n_near):
        states[near[q]] = HALF
    n_open, before = n_near, 2 * n_near + 2
    while 0 < n_open < _WORTH * before:
        before = n_open
        for q in range(n_near):
            j = near[q]
            if states[j] != HALF:
                continue
            low = state.scores[j] + state.base[j] + _loss_gain(graph, i, j)
            high = low
            for r in range(n_near):
                k = near[r]
                e = graph.edge_of[j, k]
                if e >= 0 and states[k] != OFF:
                    low, high = widen(low, high, _interaction(state, e), states[k])
            states[j] = forced(low, high)
            n_open -= 0 if states[j] == HALF else 1
    return n_open


@inner_kernel
def _offer(found, first, stop, value, j, k):
    """Keep a pair if its value is among the largest so far; the least is in row `first`."""
    if value <= found[first, 0]:
        return
    least = first + 1
    for r in range(first + 2, stop):
        if found[r, 0] < found[least, 0]:
            least = r
    if value > found[least, 0]:
        for c in range(3):
            found[first, c] = found[least, c]
    else:
        least = first
    found[least, 0] = value
    found[least, 1] = j
    found[least, 2] = k


@inner_kernel
def _joint_search(graph, options, state, i, n_near):
    """Wake edges at rest that promise most, or of largest interaction on labels not settled."""
    found, on = state.found, state.on[i]
    found[:, 0] = 0.0
    n_open = _open_labels(graph, state, i, n_near)
    for q in range(n_near):
        j = state.near[q]
        fractional = 0.0 < on[j] < 1.0
        if not fractional and (n_open < 2 or state.states[j] != HALF):
            continue
        for r in range(q):
            k = state.near[r]
            e = graph.edge_of[j, k]
            if e < 0 or state.spot[j, k] > 0:
                continue
            first, stop = 0, _FRACTIONAL
            if fractional and 0.0 < on[k] < 1.0:
                value = _promise(graph, state, i, e)
            elif state.states[j] == HALF and state.states[k] == HALF:
                value = 0.0
            else:
                continue
            bends = abs(on[j] + on[k] - 1.0) <= _SAME
            if value == 0.0 and (graph.never[e] == 0 or bends):
                # Away from the bend a pair that never occurs adds a linear term: ends move alone.
                value, first, stop = abs(_interaction(state, e)), _FRACTIONAL, found.shape[0]
            if options.search == EXACT and value > 0.0:
                _wake(graph, state, i, j, k)
            elif options.search != EXACT:
                _offer(found, first, stop, value, j, k)
    for r in range(found.shape[0]):
        if found[r, 0] > 0.0:
            _wake(graph, state, i, int(found[r, 1]), int(found[r, 2]))


@inner_kernel(inline=True)
def _excess(graph, state, i, place):
    """Marginals of "on" of an awake edge minus p at its ends."""
    awake, e = state.awake, state.awake.key[place]
    both, on = awake.share[place], state.on[i]
    first, second = awake.more[place, 1] + both, awake.more[place, 0] + both
    return first - on[graph.ends[e, 0]], second - on[graph.ends[e, 1]]


@inner_kernel(inline=True)
def _beyond(awake, place, a, b, both):
    """The four shares of an awake edge minus those with the marginals a, b, and `both`."""
    share, only_second, only_first = awake.share[place], awake.more[place, 0], awake.more[place, 1]
    rest = max(1.0 - share - only_second - only_first, 0.0)
    own = rest - (1.0 - a - b + both), only_second - (b - both), only_first - (a - both)
    return *own, share - both


@inner_kernel
def _edge_values(graph, state, penalty, e, place, first, second):
    """Gradients of the four combinations of an awake edge, to ``four[0]``."""
    four = state.four[0]
    for a in range(2):
        for b in range(2):
            used = graph.full == 1 or a + b == 2
            own = state.pair[e, 2 * a + b] if used else 0.0
            four[2 * a + b] = own - penalty * ((2.0 * a - 1.0) * first + (2.0 * b - 1.0) * second)


@inner_kernel
def _visit_edge(graph, options, state, i, place):
    """Block steps on the distribution of an awake edge, then its multipliers."""
    awake, reach = state.awake, state.reach[i]
    e = awake.key[place]
    j, k = graph.ends[e, 0], graph.ends[e, 1]
    penalty = options.rho * reach
    four, before = state.four[0], state.four[1]
    curvature = 1.0 + 2.0 * options.rho
    for _ in range(INNER_AWAY if options.variant == AWAY else INNER):
        both = awake.share[place]
        only_second, only_first = awake.more[place, 0], awake.more[place, 1]
        rest = 1.0 - both - only_second - only_first
        # A residue of rounding is no mass to step away from.
        before[0] = rest if rest > 1e-12 else 0.0
        before[1], before[2], before[3] = only_second, only_first, both
        u_first = only_first + both - state.on[i, j]
        u_second = only_second + both - state.on[i, k]
        first, second = u_first + awake.more[place, 2], u_second + awake.more[place, 3]
        _edge_values(graph, state, penalty, e, place, first, second)
        for s in range(4):
            four[s] /= reach
        block_step(four, before, 4, curvature, options.variant)
        moved = 0.0
        for s in range(4):
            moved += abs(four[s] - before[s])
        if moved < 1e-12:
            break
        awake.share[place] = four[3]
        awake.more[place, 0] = four[1]
        awake.more[place, 1] = four[2]
        _change_pair(
            graph,
            state,
            e,
            -reach * (four[0] - before[0]),
            -reach * (four[1] - before[1]),
            -reach * (four[2] - before[2]),
            -reach * (four[3] - before[3]),
        )
        state.totals[CHANGE] += moved * moved
    u_first = awake.more[place, 1] + awake.share[place] - state.on[i, j]
    u_second = awake.more[place, 0] + awake.share[place] - state.on[i, k]
    awake.more[place, 2] += options.eta * u_first
    awake.more[place, 3] += options.eta * u_second
    worst = max(abs(u_first), abs(u_second))
    state.totals[INFEASIBILITY] = max(state.totals[INFEASIBILITY], worst)


@inner_kernel
def _begin(graph, options, state, i):
    """Messages and places of the awake edges of a sample."""
    awake = state.awake
    start = awake.start[i]
    for q in range(awake.size[i]):
        e = awake.key[start + q]
        j, k = graph.ends[e, 0], graph.ends[e, 1]
        u_first, u_second = _excess(graph, state, i, start + q)
        state.spot[j, k] = state.spot[k, j] = q + 1
        state.degree[j] += 1.0
        state.degree[k] += 1.0
        state.message[j] += u_first
        state.message[j] += awake.more[start + q, 2]
        state.message[k] += u_second
        state.message[k] += awake.more[start + q, 3]


@inner_kernel
def _end(graph, state, i):
    awake = state.awake
    for q in range(awake.start[i], awake.start[i] + awake.size[i]):
        e = awake.key[q]
        j, k = graph.ends[e, 0], graph.ends[e, 1]
        state.spot[j, k] = state.spot[k, j] = 0
        state.degree[j] = state.degree[k] = 0.0
        state.message[j] = state.message[k] = 0.0


@inner_kernel
def _put_to_rest(graph, state, i, n_near):
    """Forget awake edges without a price that agree with their ends, one of which is settled."""
    awake = state.awake
    for q in range(awake.start[i], awake.start[i] + awake.size[i]):
        e = awake.key[q]
        j, k = graph.ends[e, 0], graph.ends[e, 1]
        a, b = state.on[i, j], state.on[i, k]
        settled = (state.states[j] != HALF and (a == 0.0 or a == 1.0)) or (
            state.states[k] != HALF and (b == 0.0 or b == 1.0)
        )
        own, (u_first, u_second) = _both(graph, e, a, b), _excess(graph, state, i, q)
        off = abs(awake.share[q] - own) + abs(u_second) + abs(u_first)
        # A price that took many passes to find would be missed if the edge wakes again.
        priced = abs(awake.more[q, 2]) + abs(awake.more[q, 3])
        if settled and off < _AT_REST and priced < _NO_PRICE:
            reach = state.reach[i]
            d = _beyond(awake, q, a, b, own)
            _change_pair(graph, state, e, reach * d[0], reach * d[1], reach * d[2], reach * d[3])
            awake.share[q] = awake.price[q] = 0.0
    drop_empty(awake, i, 0)
    for q in range(n_near):
        state.states[state.near[q]] = OFF


@inner_kernel
def _near_labels(graph, options, state, i, uniform):
    """Labels that may gain by a change: those on or fractional, and those no bound keeps off."""
    n_labels = graph.labels.shape[1]
    lo, hi = part_of(options, n_labels, uniform)
    n_near = 0
    for j in range(n_labels):
        high = state.scores[j] + state.base[j] + _loss_gain(graph, i, j) + state.lift[j]
        searched = options.search == EXACT or lo <= j < hi
        if state.on[i, j] > 0.0 or state.degree[j] > 0.0 or (searched and high > 0.0):
            state.near[n_near] = j
            n_near += 1
    return n_near


@inner_kernel
def _support(state, i, n_near):
    n = 0
    for q in range(n_near):
        if state.on[i, state.near[q]] > 0.0:
            state.support[n] = state.near[q]
            n += 1
    return n


@inner_kernel
def _visit_nodes(graph, options, state, w, i, n_near):
    """Exact steps on the labels of a sample that gain by one."""
    reach = state.reach[i]
    on = state.on[i]
    chosen, most = -1, 0.0
    for turn in range(2 if options.variant == BGCD else 1):
        for q in range(n_near):
            j = state.near[q]
            n_support = _support(state, i, n_near)
            down, up, less, more, low, high = _slopes(graph, state, i, j, n_support)
            message = 2.0 * options.rho * reach * state.message[j]
            curvature = graph.squares[i] + 2.0 * options.rho * state.degree[j]
            gain = up + message
            if gain > 0.0:
                step = gain / (reach * max(curvature + more, LEAST_CURVATURE))
            else:
                gain = min(down + message, 0.0)
                step = gain / (reach * max(curvature + less, LEAST_CURVATURE))
            goal = min(max(on[j] + step, low), high)
            if options.variant == BGCD:
                # Labels at their true value move only if they promise most.
                resting = on[j] == graph.labels[i, j]
                if turn == 0 and resting and abs(gain * (goal - on[j])) > most:
                    chosen, most = j, abs(gain * (goal - on[j]))
                if turn == 0 or (resting and j != chosen):
                    continue
            if goal != on[j]:
                _move_node(graph, state, w, i, j, goal - on[j])
                on[j] = goal


@kernel
def label_pass(graph, options, state, w, order, uniforms):
    """Visit the samples in `order`, from the cursor on."""
    begin = cycles()
    n_labels = graph.labels.shape[1]
    done = True
    while state.cursor[0] < order.shape[0]:
        i = order[state.cursor[0]]
        clock = cycles()
        gather_columns(graph.nodes, i, w.node, 0, n_labels, state.scores)
        _begin(graph, options, state, i)
        n_near = _near_labels(graph, options, state, i, uniforms[i])
        if graph.ends.shape[0] > 0 and options.wake == 1:
            n_new = state.found.shape[0]
            if options.search == EXACT:
                n_new = min(n_near * n_near, graph.ends.shape[0])
            if not fits(state.awake, i, n_new):
                _end(graph, state, i)
                done = False
                break
            _joint_search(graph, options, state, i, n_near)
        state.totals[SEARCH] += cycles() - clock
        _visit_nodes(graph, options, state, w, i, n_near)
        start = state.awake.start[i]
        for q in range(start, start + state.awake.size[i]):
            _visit_edge(graph, options, state, i, q)
        _end(graph, state, i)
        _put_to_rest(graph, state, i, n_near)
        state.cursor[0] += 1
    state.totals[ALL] += cycles() - begin
    return done


@kernel
def consistent_pairs(graph, state, pair):
    """Edge weights of a consistent dual point near the present one."""
    awake = state.awake
    for i in range(graph.labels.shape[0]):
        reach = state.reach[i]
        for q in range(awake.start[i], awake.start[i] + awake.size[i]):
            e = awake.key[q]
            a, b = state.on[i, graph.ends[e, 0]], state.on[i, graph.ends[e, 1]]
            both = min(max(awake.share[q], max(a + b - 1.0, 0.0)), min(a, b))
            beyond = _beyond(awake, q, a, b, both)
            for c in range(0 if graph.full == 1 else 3, 4):
                pair[e, c] += reach * beyond[c]


@kernel
def label_losses(graph, state, out):
    """Task loss of the dual point of every sample."""
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(graph.labels.shape[1]):
            # The truth costs nothing.
            total += _loss_gain(graph, i, j) * (state.on[i, j] - graph.labels[i, j])
        out[i] = total


# Data of GDMM on label sets: the samples and the dual point.


#: Samples with label sets, with (n_labels, n_labels), the edge between two labels, or -1; and
#: (n_edges,), 1 where no sample has both labels on, of edges without full tables.
LabelGraph = namedtuple("LabelGraph", (*BinaryFactors._fields, "edge_of", "never"))


class LabelState(NamedTuple):
    """The dual point, the messages, what the search keeps, scratch."""

    # (n_samples, n_labels): p.
    on: np.ndarray
    # For each sample its awake edges: the key is the edge, `share` the probability of (1, 1),
    # `price` is 1, `more` holds those of (0, 1) and (1, 0) and the multipliers of both ends.
    awake: ActiveSets
    # (n_samples,): C_i, the factor on the loss of each sample.
    reach: np.ndarray
    # (n_edges, 4): Weights of (0, 0), (0, 1), (1, 0), (1, 1); only the last are used without full
    # tables.
    pair: np.ndarray
    # (n_labels,): What switching a label on adds through its edges when all others are off.
    base: np.ndarray
    # (n_labels,): Sum of the positive interactions of each label.
    lift: np.ndarray
    # (n_labels,): Scratch.
    scores: np.ndarray
    message: np.ndarray
    degree: np.ndarray
    # (n_labels, n_labels): Scratch: place of an awake edge in its list, plus 1.
    spot: np.ndarray
    # (n_labels,): Scratch: labels to look at.
    near: np.ndarray
    support: np.ndarray
    # (n_labels,): Scratch of the search.
    states: np.ndarray
    # (_FRACTIONAL + _JOINT, 3): Scratch of the search: value and labels of edges to wake.
    found: np.ndarray
    # (2, 4): Scratch for one edge.
    four: np.ndarray
    # (2,): Position of the pass.
    cursor: np.ndarray
    # (4,): As in :class:`skstruct.solvers.gdmm.factors.GDMMState`.
    totals: np.ndarray


_PASSES_AT_REST = 5


class LabelRun(Run):
    """A run on label sets."""

    arenas = ("awake",)

    def __init__(self, factors, *args, **kwargs):
        super().__init__(*args, **kwargs)
        edge_of = np.full((factors.n_labels, factors.n_labels), -1, dtype=np.int32)
        first, second = factors.ends.T
        edge_of[first, second] = edge_of[second, first] = np.arange(len(factors.ends))
        together = np.zeros(len(factors.ends))
        on = sparse.csr_matrix(factors.labels, dtype=np.float64)
        if factors.full == 0:
            together = (on.T @ on).toarray()[first, second]
        never = ((together == 0) & (factors.full == 0)).astype(np.uint8)
        self.graph = graph = LabelGraph(**factors._asdict(), edge_of=edge_of, never=never)
        n_samples, n_labels = graph.labels.shape
        vectors = "base", "lift", "scores", "message", "degree"
        self.state = LabelState(
            on=graph.labels.astype(np.float64),
            awake=empty_sets(n_samples, 4),
            reach=self.reach,
            pair=np.zeros((len(graph.ends), 4)),
            **dict(zip(vectors, np.zeros((5, n_labels)), strict=True)),
            spot=np.zeros((n_labels, n_labels), dtype=np.int32),
            near=np.zeros(n_labels, dtype=np.int64),
            support=np.zeros(n_labels, dtype=np.int64),
            states=np.zeros(n_labels, dtype=np.int8),
            found=np.zeros((_FRACTIONAL + _JOINT, 3)),
            four=np.zeros((2, 4)),
            cursor=np.zeros(2, dtype=np.int64),
            totals=np.zeros(4),
        )
        #: Random numbers that a pass takes.
        self.n_draws = n_samples

    def one_pass(self, order, uniforms, pieces):
        """Visit all samples."""
        self.options = self.options._replace(wake=int(self.n_passes >= _PASSES_AT_REST))
        self.visit(label_pass, order, uniforms, pieces)

    def pair_weights(self):
        """The interactions."""
        return self._as_weights(self.state.pair)

    def _as_weights(self, pair):
        columns = pair if self.graph.full == 1 else pair[:, 3]
        return columns.reshape(self.shapes[1]).copy()

    def dual_point(self):
        """A consistent dual point: edges cut down, or filled up, to what their ends have."""
        pair = self.state.pair.copy()
        consistent_pairs(self.graph, self.state, pair)
        losses = np.empty(self.n)
        label_losses(self.graph, self.state, losses)
        return losses, squared_norm(Weights(self.w.node, self._as_weights(pair)))

    def set_sizes(self):
        """Mean sizes of what is active in a sample."""
        moved = float((self.state.on != self.graph.labels).sum(axis=1).mean())
        return moved, float(self.state.awake.size.mean())
