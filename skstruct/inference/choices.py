"""Pairwise models where each variable chooses between two labels, as scores of switches.

Each variable is *off* (its first label) or *on* (its second). All tables become a constant, a gain
for each variable that is on, and costs of edges between *literals*: ``2 v`` is true where v is on,
``2 v + 1`` where it is off. An edge costs `there` where its tail is true and its head is not, and
`back` in the opposite case; infinite costs are hard constraints.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.dispatch import inner_kernel, kernel

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
    # the sizes of all scores, of which rounding errors are a tiny share.
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


@inner_kernel(inline=True)
def is_open(must):
    """Whether a variable has two labels to choose from."""
    return must & _CLOSED == 0


@inner_kernel(inline=True)
def force_of(must):
    """What hard constraints say of an open variable: OFF, ON, or HALF for nothing."""
    if must & _MUST_BE_OFF != 0:
        return OFF
    return ON if must & _MUST_BE_ON != 0 else HALF


@inner_kernel
def _size(score):
    """How large a finite score is."""
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
    """The same where no row or column is ruled out."""
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
    """The model of switches between two labellings.

    Kolmogorov and Rother 2007, Minimizing nonsubmodular functions with graph cuts: a review,
    section 2.
    """
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
        if not is_open(must[i]):
            _add_unary(choices, j, t00, pair_score(pairs, f, off[i], on[j]))
        elif not is_open(must[j]):
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
