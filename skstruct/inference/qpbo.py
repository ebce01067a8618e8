"""Pairwise models of two labels per variable, as switches that are off (first label) or on.

Edges link literals (``2 v``: v on; ``2 v + 1``: off), cost `there` if only the tail is true, `back`
if only the head is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from .max_flow import (
    FLOW,
    FREE,
    LEAST,
    TREE,
    WHICH,
    WIDTH,
    Forest,
    Network,
    advance_flow,
    empty_forest,
    empty_network,
    in_source_side,
    init_search_forest,
    link,
    max_flow,
)

# Strongly connected components of what a maximum flow leaves of a network.


class ComponentScratch(NamedTuple):
    """Scratch of :func:`strong_components`; arrays of shape (n_nodes,) of int32."""

    # When a node was found, and the first node of its component that it is known to reach.
    order: np.ndarray
    low: np.ndarray
    # The next arc to follow.
    arc: np.ndarray
    # The nodes on the way, and those whose component is not complete.
    trail: np.ndarray
    waiting: np.ndarray
    # The number of each node's component, -1 for nodes on a side.
    component: np.ndarray


def component_scratch(n_nodes):
    """Scratch for networks of at most `n_nodes` nodes."""
    return ComponentScratch(*np.empty((6, n_nodes), dtype=np.int32))


@kernel
def strong_components(n, network, forest, scratch):
    """Number strong components of undecided nodes, successors first (Tarjan 1972, section 4)."""
    first, head, cap = network.first, network.head, network.cap
    node, least = forest.node, forest.amount[LEAST]
    order, low, arc = scratch.order, scratch.low, scratch.arc
    trail, waiting, component = scratch.trail, scratch.waiting, scratch.component
    for v in range(n):
        order[v] = component[v] = -1
    time = n_waiting = n_components = 0
    for start in range(n):
        if order[start] >= 0 or node[WIDTH * start + TREE] & WHICH != FREE:
            continue
        depth = 0
        trail[0] = start
        while depth >= 0:
            v = trail[depth]
            if order[v] < 0:
                order[v] = low[v] = time
                arc[v] = first[v]
                waiting[n_waiting] = v
                time += 1
                n_waiting += 1
            a = arc[v]
            if a < first[v + 1]:
                arc[v] = a + 1
                u = head[a]
                if not cap[a] > least or node[WIDTH * u + TREE] & WHICH != FREE:
                    continue
                if order[u] < 0:
                    depth += 1
                    trail[depth] = u
                elif component[u] < 0:
                    low[v] = min(low[v], order[u])
                continue
            if low[v] == order[v]:
                u = -1
                while u != v:
                    n_waiting -= 1
                    u = waiting[n_waiting]
                    component[u] = n_components
                n_components += 1
            depth -= 1
            if depth >= 0:
                low[trail[depth]] = min(low[trail[depth]], low[v])


OFF, ON, HALF = 0, 1, 2

# Bits of `Choices.must`.
_MUST_BE_OFF, _MUST_BE_ON, _CLOSED = 1, 2, 4

# Interactions up to this, relative to the entries, are rounding.
_ROUNDING = 2.0**-49


class Pairs(NamedTuple):
    """A pairwise model, flat."""

    # (n_variables + 1,): Where the unaries of each variable begin.
    state_ptr: np.ndarray
    # Scores of states.
    unary: np.ndarray
    # (2, n_pairs): The two variables of each factor.
    ends: np.ndarray
    # (n_pairs,): Columns of a factor's table; 0 for a Potts factor, which has one weight.
    columns: np.ndarray
    # (n_pairs,): Where the scores of each factor begin.
    score_ptr: np.ndarray
    # Tables, row by row, and weights.
    scores: np.ndarray


class Choices(NamedTuple):
    """A model of switches; the arrays of edges may be longer than it needs."""

    # (2,): Score that does not depend on the switches, -inf if no choice has a finite score; sum of
    # the sizes of all scores, of which rounding errors are a tiny fraction.
    constant: np.ndarray
    # (n_variables,): Score of on minus score of off.
    gain: np.ndarray
    # (n_variables,): Which variables have no choice.
    must: np.ndarray
    # (n_edges,): Literals of each edge.
    tail: np.ndarray
    head: np.ndarray
    # (n_edges,): Costs, at least 0.
    there: np.ndarray
    back: np.ndarray


def empty_choices(n_variables, n_edges):
    """Room for a model of switches."""
    return Choices(
        np.zeros(2),
        np.empty(n_variables),
        np.empty(n_variables, dtype=np.uint8),
        *np.empty((2, n_edges), dtype=np.int32),
        *np.empty((2, n_edges)),
    )


@inner_kernel
def pair_score(pairs, f, x, y):
    """Score of a factor at two states."""
    columns, at = pairs.columns[f], pairs.score_ptr[f]
    if columns == 0:
        return pairs.scores[at] if x == y else 0.0
    return pairs.scores[at + x * columns + y]


@inner_kernel
def _size(score):
    """Return the magnitude of a finite score, 0 for -inf."""
    return abs(score) if score > -math.inf else 0.0


@inner_kernel
def _add_unary(choices, v, off, on):
    """Scores of the two labels of one variable."""
    choices.constant[1] += max(_size(off), _size(on))
    if choices.must[v] & _CLOSED != 0 or on == -math.inf:
        choices.constant[0] += off
        choices.must[v] |= _MUST_BE_OFF if choices.must[v] & _CLOSED == 0 else 0
    elif off == -math.inf:
        choices.constant[0] += on
        choices.must[v] |= _MUST_BE_ON
    else:
        choices.constant[0] += off
        choices.gain[v] += on - off


@inner_kernel
def _add_table(choices, e, i, j, t00, t01, t10, t11):
    """Scores of the four choices of two open variables; e counts the edges, this one or not."""
    lowest = -math.inf
    choices.constant[1] += max(_size(t00), _size(t01), _size(t10), _size(t11))
    # A row or column without a finite score is ruled out; what stands there does not matter then.
    if t00 == lowest and t01 == lowest:
        choices.must[i] |= _MUST_BE_ON
        t00, t01 = t10, t11
    elif t10 == lowest and t11 == lowest:
        choices.must[i] |= _MUST_BE_OFF
        t10, t11 = t00, t01
    if t00 == lowest and t10 == lowest:
        choices.must[j] |= _MUST_BE_ON
        t00, t10 = t01, t11
    elif t01 == lowest and t11 == lowest:
        choices.must[j] |= _MUST_BE_OFF
        t01, t11 = t00, t10
    if max(t00, t01, t10, t11) == lowest:
        choices.constant[0] = lowest
        return e
    return _add_edge(choices, e, i, j, t00, t01, t10, t11)


@inner_kernel
def _add_edge(choices, e, i, j, t00, t01, t10, t11):
    """The case in which no row or column is ruled out."""
    there = back = 0.0
    repels = t00 == -math.inf or t11 == -math.inf
    # A forbidden entry may stand for any score: take one that leaves no interaction but the ban.
    if t00 == -math.inf and t11 == -math.inf:
        there = back = math.inf
        t00 = t11 = 0.5 * (t01 + t10)
    elif t01 == -math.inf and t10 == -math.inf:
        there = back = math.inf
        t01 = t10 = 0.5 * (t00 + t11)
    elif t00 == -math.inf:
        back = math.inf
        t00 = t01 + t10 - t11
    elif t11 == -math.inf:
        there = math.inf
        t11 = t01 + t10 - t00
    elif t01 == -math.inf:
        back = math.inf
        t01 = t00 + t11 - t10
    elif t10 == -math.inf:
        there = math.inf
        t10 = t00 + t11 - t01
    else:
        interaction = (t00 - t01) + (t11 - t10)
        largest = max(abs(t00), abs(t01), abs(t10), abs(t11))
        if abs(interaction) > _ROUNDING * largest:
            repels = interaction < 0.0
            there = back = 0.5 * abs(interaction)
    choices.constant[0] += t00 + (there if repels and there < math.inf else 0.0)
    choices.gain[i] += 0.5 * ((t10 - t00) + (t11 - t01))
    choices.gain[j] += 0.5 * ((t01 - t00) + (t11 - t10))
    if there == 0.0 and back == 0.0:
        return e
    choices.tail[e] = 2 * i
    choices.head[e] = 2 * j + (1 if repels else 0)
    choices.there[e], choices.back[e] = there, back
    return e + 1


@kernel
def choose(pairs, off, on, choices):
    """The model of switches between two labellings (Kolmogorov and Rother 2007, section 2)."""
    must, left, right = choices.must, pairs.ends[0], pairs.ends[1]
    choices.constant[:] = 0.0
    for v in range(off.shape[0]):
        choices.gain[v] = 0.0
        must[v] = _CLOSED if off[v] == on[v] else 0
        at = pairs.state_ptr[v]
        _add_unary(choices, v, pairs.unary[at + off[v]], pairs.unary[at + on[v]])
    e = 0
    for f in range(left.shape[0]):
        i, j = left[f], right[f]
        t00 = pair_score(pairs, f, off[i], off[j])
        if must[i] & _CLOSED != 0:
            _add_unary(choices, j, t00, pair_score(pairs, f, off[i], on[j]))
        elif must[j] & _CLOSED != 0:
            _add_unary(choices, i, t00, pair_score(pairs, f, on[i], off[j]))
        else:
            t01, t10 = pair_score(pairs, f, off[i], on[j]), pair_score(pairs, f, on[i], off[j])
            t11 = pair_score(pairs, f, on[i], on[j])
            e = _add_table(choices, e, i, j, t00, t01, t10, t11)
    for v in range(off.shape[0]):
        if must[v] & _MUST_BE_OFF != 0 and must[v] & _MUST_BE_ON != 0:
            choices.constant[0] = -math.inf
    return e


@kernel
def pairs_score(pairs, labels):
    """Score of a labelling."""
    total = 0.0
    for v in range(labels.shape[0]):
        total += pairs.unary[pairs.state_ptr[v] + labels[v]]
    for f in range(pairs.ends.shape[1]):
        total += pair_score(pairs, f, labels[pairs.ends[0, f]], labels[pairs.ends[1, f]])
    return total


# Switches by max flow: exact where all edges can be made to attract.
#
# Components of the graph without frustration, where flipping some variables makes all edges
# attract, need one node a variable, and the minimum cut is a best choice. Others need one a
# literal: that is the optimum of the relaxation over the local polytope (the *roof dual*), and
# labels of some variables that a best choice has (*persistency*).


class Signs(NamedTuple):
    """Variables to flip, and their nodes in the network."""

    # (n_variables,): Another variable of the component, the variable itself at its root.
    link: np.ndarray
    # (n_variables,): Variables of a component, at its root.
    size: np.ndarray
    # (n_variables,): Whether a variable is flipped, against that in `link` while the components
    # grow.
    flip: np.ndarray
    # (n_variables,): Whether its component is frustrated.
    double: np.ndarray
    # (n_variables,): The (first) node; -1 where there is no choice.
    node: np.ndarray


def empty_signs(n_variables):
    """Room for the signs of so many variables."""
    link, size, node = np.empty((3, n_variables), dtype=np.int32)
    flip, double = np.empty((2, n_variables), dtype=np.uint8)
    return Signs(link, size, flip, double, node)


@inner_kernel
def _root(v, signs):
    """The root of a variable's component; on the way, links come to point at it."""
    link, flip = signs.link, signs.flip
    root, parity = v, 0
    while link[root] != root:
        parity ^= flip[root]
        root = link[root]
    while link[v] != root and v != root:
        after, own = link[v], flip[v]
        link[v], flip[v] = root, parity
        parity ^= own
        v = after
    return root


@kernel
def find_signs(choices, n_edges, signs):
    """Find variables to flip so that edges attract (Harary 1953), and the nodes of the network."""
    link, size, flip = signs.link, signs.size, signs.flip
    double, node = signs.double, signs.node
    for v in range(link.shape[0]):
        link[v], size[v] = v, 1
        flip[v] = double[v] = 0
    frustrated = -1
    for e in range(n_edges):
        i, j = choices.tail[e] >> 1, choices.head[e] >> 1
        a, b = _root(i, signs), _root(j, signs)
        parity = (choices.tail[e] ^ choices.head[e]) & 1
        parity ^= flip[i] ^ flip[j]
        if a != b:
            if size[a] < size[b]:
                a, b = b, a
            link[b], flip[b] = a, parity
            size[a] += size[b]
            double[a] |= double[b]
        elif parity != 0:
            double[a] = 1
            frustrated = e if frustrated < 0 else frustrated
    n_nodes = n_doubled = 0
    for v in range(link.shape[0]):
        double[v] = double[_root(v, signs)]
        node[v] = -1
        if choices.must[v] & _CLOSED == 0:
            node[v] = n_nodes
            n_nodes += 1 + double[v]
    for e in range(n_edges):
        n_doubled += double[choices.tail[e] >> 1]
    return n_nodes, n_doubled, frustrated


@inner_kernel
def _lay_nodes(choices, signs, excess):
    """Write the excess of nodes; score of the best choice if nothing had to flow."""
    total = choices.constant[0]
    for v in range(signs.node.shape[0]):
        k = signs.node[v]
        if k < 0:
            continue
        gain, must = choices.gain[v], choices.must[v]
        if must != 0:
            is_on = must & _MUST_BE_OFF == 0
            total += gain if is_on else 0.0
            sign = 1.0 if is_on != (signs.flip[v] == 1 and signs.double[v] == 0) else -1.0
            excess[k] = sign * math.inf
            if signs.double[v] == 1:
                excess[k + 1] = -excess[k]
        elif signs.double[v] == 1:
            total += max(gain, 0.0)
            excess[k], excess[k + 1] = 0.5 * gain, -0.5 * gain
        else:
            total += max(gain, 0.0)
            excess[k] = -gain if signs.flip[v] == 1 else gain
    return total


@inner_kernel
def _lay_edges(choices, n_edges, signs):
    """Turn edges between literals into edges between nodes; how many they are."""
    tail, head, there, back = choices.tail, choices.head, choices.there, choices.back
    node, extra = signs.node, n_edges
    for e in range(n_edges):
        x, y = tail[e], head[e]
        i, j = x >> 1, y >> 1
        if signs.double[i] == 1:
            there[e] *= 0.5
            back[e] *= 0.5
            tail[e], head[e] = node[i] + (x & 1), node[j] + (y & 1)
            tail[extra], head[extra] = node[j] + 1 - (y & 1), node[i] + 1 - (x & 1)
            there[extra], back[extra] = there[e], back[e]
            extra += 1
        else:
            tail[e], head[e] = node[i], node[j]
            if (x & 1) != signs.flip[i]:
                # Both literals are false where their nodes are on the source's side.
                there[e], back[e] = back[e], there[e]
    return extra


@kernel
def begin_cut(choices, n_edges, signs, n_nodes, network, forest):
    """Make the network of some switches, whose edges are used up, and begin a flow."""
    total = _lay_nodes(choices, signs, network.excess)
    if total > -math.inf:
        n_all = _lay_edges(choices, n_edges, signs)
        tail, head, there, back = choices.tail, choices.head, choices.there, choices.back
        link(n_nodes, tail[:n_all], head[:n_all], there[:n_all], back[:n_all], network)
        init_search_forest(n_nodes, network, forest)
    return total


@kernel
def read_states(signs, forest, component, states):
    """Read states off the flow (Kolmogorov and Rother 2007, section 2.3, weak persistency)."""
    n_half = 0
    for v in range(states.shape[0]):
        k = signs.node[v]
        states[v] = OFF
        if k < 0:
            continue
        if signs.double[v] == 0:
            states[v] = ON if in_source_side(k, forest) != (signs.flip[v] == 1) else OFF
        elif in_source_side(k, forest):
            states[v] = ON
        elif not in_source_side(k + 1, forest):
            # A literal that implies others comes after them: the earlier one of the two is true.
            states[v] = HALF
            if component[k] != component[k + 1]:
                states[v] = ON if component[k] < component[k + 1] else OFF
            n_half += states[v] == HALF
    return n_half


# Best choices between two labellings of a pairwise model, in scratch that is used again.

# Nodes to visit between two looks at the clock: about half a second on images.
_WORK = 1_000_000


class Switching(NamedTuple):
    """The relaxation of a choice between two labellings."""

    # (n_variables,): 0 for the first labelling, 1 for the second, 2 where neither is known to be
    # best.
    states: np.ndarray
    # The optimum of the relaxation, up to rounding; of the problem itself if no state is 2; -inf if
    # no choice has a finite score.
    bound: float
    # Sum of the sizes of all scores, of which the bound's rounding error is a tiny fraction.
    size: float
    # False if it was stopped; the bound is valid, but the states are any.
    done: bool


class Switcher:
    """Solver of choices between labellings of one model."""

    def __init__(self, pairs: Pairs):
        n, m = pairs.state_ptr.size - 1, pairs.columns.size
        self.pairs = pairs
        # Room for the largest network; pages that no problem writes to cost nothing.
        self.choices, self.signs = empty_choices(n, 2 * m), empty_signs(n)
        self.network, self.forest = empty_network(2 * n, 4 * m), empty_forest(2 * n)
        self.scratch = component_scratch(2 * n)
        self._size = 0, 0, 0

    def set_up(self, off: np.ndarray, on: np.ndarray) -> tuple[int, int] | None:
        """Take a problem, for :meth:`run` to solve."""
        n_edges = choose(self.pairs, off, on, self.choices)
        n_nodes, n_doubled, frustrated = find_signs(self.choices, n_edges, self.signs)
        self._size = n_nodes, n_edges, n_doubled
        if frustrated < 0:
            return None
        ends = self.choices.tail[frustrated] >> 1, self.choices.head[frustrated] >> 1
        return int(ends[0]), int(ends[1])

    def run(self, stop: Callable[[], bool] | None = None) -> Switching:
        """Solve the problem of :meth:`set_up`, once."""
        n_nodes, n_edges, n_doubled = self._size
        network, forest = self.network, self.forest
        states = np.zeros(self.signs.node.size, dtype=np.int8)
        total = begin_cut(self.choices, n_edges, self.signs, n_nodes, network, forest)
        if not total > -np.inf:
            return Switching(states, -np.inf, 0.0, True)
        done = advance_flow(network, forest, _WORK)
        while not done and not (stop is not None and stop()):
            done = advance_flow(network, forest, _WORK)
        if n_doubled:
            strong_components(n_nodes, network, forest, self.scratch)
        read_states(self.signs, forest, self.scratch.component, states)
        bound = total - float(forest.amount[FLOW])
        return Switching(states, bound, float(self.choices.constant[1]), done)

    def solve(
        self, off: np.ndarray, on: np.ndarray, stop: Callable[[], bool] | None = None
    ) -> Switching:
        """Return the choices that roof duality determines (Kolmogorov and Rother 2007)."""
        self.set_up(off, on)
        return self.run(stop)


# Models of gains and interactions, given by neighbours: the roof dual alone, mostly without a flow.
#
# Most nodes are settled by bounds on their neighbours. The network has two nodes for each other
# one, and no components are told apart: as the graphs are dense, hardly any is without frustration.


class Neighbours(NamedTuple):
    """A graph, by nodes (CSR)."""

    # (n_nodes + 1,): Where the neighbours of each node begin.
    ptr: np.ndarray
    # (2 * n_edges,): The neighbours, and the edges to them.
    neighbour: np.ndarray
    edge: np.ndarray


class RoofScratch(NamedTuple):
    """Scratch of :func:`roof_dual`: two nodes for each node, two edges for each edge."""

    # (n_nodes,): Numbers of the open nodes.
    index: np.ndarray
    # (2, 2 * n_edges): Ends of edges, and costs of both directions.
    ends: np.ndarray
    costs: np.ndarray
    # The flow.
    network: Network
    forest: Forest


def roof_scratch(n_nodes, n_edges):
    """Scratch for graphs of at most this size."""
    index, ends = np.empty(n_nodes, np.int64), np.empty((2, 2 * n_edges), np.int32)
    flow = empty_network(2 * n_nodes, 4 * n_edges), empty_forest(2 * n_nodes)
    return RoofScratch(index, ends, np.empty((2, 2 * n_edges)), *flow)


@inner_kernel(inline=True)
def widen(low, high, interaction, state):
    """Bounds on what a node gains by being 1, with one more neighbour that is in `state`."""
    if state == ON:
        return low + interaction, high + interaction
    if state == HALF:
        return low + min(interaction, 0.0), high + max(interaction, 0.0)
    return low, high


@inner_kernel(inline=True)
def forced(low, high):
    """The value that these bounds leave a node, HALF for either."""
    if high <= 0.0:
        return OFF
    return ON if low > 0.0 else HALF


@kernel
def settle(unary, pair, graph, states):
    """Fix nodes whose best value no choice of their neighbours can change, until none is left."""
    n = unary.shape[0]
    n_open = 0
    for j in range(n):
        n_open += 1 if states[j] == HALF else 0
    before = n_open + 1
    while 0 < n_open < before:
        before = n_open
        for j in range(n):
            if states[j] != HALF:
                continue
            low = high = unary[j]
            for q in range(graph.ptr[j], graph.ptr[j + 1]):
                state = states[graph.neighbour[q]]
                low, high = widen(low, high, pair[graph.edge[q]], state)
            states[j] = forced(low, high)
            n_open -= 0 if states[j] == HALF else 1
    return n_open


@inner_kernel
def _build(unary, pair, graph, states, scratch):
    """The flow network of the c open nodes: j is literal x_j, c + j its negation; returns c."""
    index, network = scratch.index, scratch.network
    tail, head, there, back = scratch.ends[0], scratch.ends[1], scratch.costs[0], scratch.costs[1]
    n, c, m = unary.shape[0], 0, 0
    for j in range(n):
        if states[j] == HALF:
            index[j] = c
            c += 1
    for j in range(n):
        if states[j] != HALF:
            continue
        a = -unary[j]
        for q in range(graph.ptr[j], graph.ptr[j + 1]):
            k, v = graph.neighbour[q], pair[graph.edge[q]]
            if states[k] == ON:
                a -= v
            elif states[k] == HALF and v != 0.0 and j < k:
                x, y = index[j], index[k]
                a -= max(v, 0.0)
                tail[m], head[m] = x, y if v > 0.0 else c + y
                tail[m + 1], head[m + 1] = c + y if v > 0.0 else y, c + x
                there[m] = there[m + 1] = 0.5 * abs(v)
                back[m] = back[m + 1] = 0.0
                m += 2
        network.excess[index[j]] = -0.5 * a
        network.excess[c + index[j]] = 0.5 * a
    link(2 * c, tail[:m], head[:m], there[:m], back[:m], network)
    return c


@kernel
def roof_dual(unary, pair, graph, states, scratch):
    """Half-integral optimum of a binary pairwise model's LP relaxation (Boros and Hammer 2002)."""
    n = unary.shape[0]
    n_open = settle(unary, pair, graph, states)
    if n_open > 0:
        index, forest = scratch.index, scratch.forest
        c = _build(unary, pair, graph, states, scratch)
        max_flow(2 * c, scratch.network, forest)
        for j in range(n):
            if states[j] == HALF:
                if in_source_side(index[j], forest):
                    states[j] = ON
                elif in_source_side(c + index[j], forest):
                    states[j] = OFF
    return relaxed_score(unary, pair, graph, states)


@kernel
def relaxed_score(unary, pair, graph, states):
    """Score of half-integral states."""
    total = 0.0
    for j in range(unary.shape[0]):
        if states[j] == OFF:
            continue
        share = 1.0 if states[j] == ON else 0.5
        total += share * unary[j]
        for q in range(graph.ptr[j], graph.ptr[j + 1]):
            k = graph.neighbour[q]
            if k < j and states[k] != OFF:
                v = pair[graph.edge[q]]
                if states[j] == ON and states[k] == ON:
                    total += v
                elif states[j] == ON or states[k] == ON:
                    total += 0.5 * v
                else:
                    total += 0.5 * max(v, 0.0)
    return total


@kernel
def complete(unary, pair, graph, states):
    """Turn halves into a labelling, one by one, then improve single nodes while that helps."""
    n = unary.shape[0]
    for sweep in range(n + 2):
        moved = False
        for j in range(n):
            gain = unary[j]
            if abs(gain) < math.inf:
                for q in range(graph.ptr[j], graph.ptr[j + 1]):
                    state = states[graph.neighbour[q]]
                    if state != OFF:
                        gain += pair[graph.edge[q]] * (1.0 if state == ON else 0.5)
            wanted = ON if gain > 0.0 else OFF
            if sweep > 0 and states[j] != HALF and abs(gain) < 1e-12:
                continue
            if states[j] == HALF or (sweep > 0 and states[j] != wanted):
                states[j] = wanted
                moved = True
        if sweep > 0 and not moved:
            break
