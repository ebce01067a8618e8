"""One pass of online exponentiated gradient (Collins et al. 2008, figure 4 and section 7).

Sample i stores potentials phi_i, the residual ``m_i - mu(y_i)`` of the mixture that is best at them
and its dual term, and ``w = -(1 / (lam n)) sum_i s_i A_i' (m_i - mu(y_i))`` all along. A step
takes phi_i to ``(1 - eta) phi_i + eta A_i w``: with ``eta = 1`` the mixture of the present weights.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import accumulate, add_indicator, gram, potentials, truth
from ...losses.verbs import ROUNDING, loss_oracle, loss_value

# Positions in OEGState.totals.
N_ORACLE, N_KNOWN, RATES, SCORE, N_TOTALS = range(5)

# Tests of a visit; rates stay above the least, from which they come back.
_MOST_TESTS = 20
_LEAST_RATE = 1e-4
_GROWTH = 1.5
# How much surer of the truth a first visit begins after one that lowered the dual.
_SURER = 1.0
# By how much of it one test lowers a rate, at least and at most.
_LEAST_CUT, _MOST_CUT = 0.5, 0.1


class OEGState(NamedTuple):
    """What OEG remembers between epochs."""

    # (n_parts,): Potentials of every sample.
    phi: np.ndarray
    # (n_parts,): ``m_i - mu(y_i)`` of the best mixtures at them, 0 at first.
    residuals: np.ndarray
    # (n_samples,): ``c_i(m_i)``, a lower bound where rounding matters.
    terms: np.ndarray
    # (n_samples,): Step sizes, 0 before the first visit.
    rates: np.ndarray
    # (n_samples,): How far, at its last visit, the mixture was from that of the weights; an
    # estimate.
    divergences: np.ndarray
    # (4,): Oracle calls, samples visited, the sum of their rates; what each part of the truth
    # scores before the next first visit.
    totals: np.ndarray


class OEGOptions(NamedTuple):
    """Choices of one run."""

    # ``1 / (lam n)``.
    inverse: float
    # The rate of the first visit.
    first_rate: float
    # Divergences whose estimates are below this are measured.
    little: float
    # Lower bound on the dual terms of the loss.
    least_term: float


@inner_kernel(inline=True)
def _begin_at_truth(problem, i, score, labels, phi):
    """Potentials that favour the truth."""
    truth(problem, i, labels)
    for q in range(phi.shape[0]):
        phi[q] = 0.0
    add_indicator(problem, i, labels, 1.0, phi)
    for q in range(phi.shape[0]):  # a transition that occurs ten times is no surer for that
        phi[q] = score if phi[q] > 0.0 else 0.0


@inner_kernel(inline=True)
def _mix(phi, theta, rate, trial):
    """``(1 - rate) phi + rate theta``; what is forbidden stays so."""
    for q in range(phi.shape[0]):
        allowed = theta[q] > -math.inf
        trial[q] = (1.0 - rate) * phi[q] + rate * theta[q] if allowed else -math.inf


@inner_kernel(inline=True)
def _compare(phi, theta, trial, r, memory, change):
    """Write ``r - memory`` to `change`; products: with theta, with theta - phi, of trial and r."""
    along, linear, product = 0.0, 0.0, 0.0
    for q in range(phi.shape[0]):
        moved = r[q] - memory[q]
        change[q] = moved
        if theta[q] > -math.inf:  # no mass on what is forbidden
            along += theta[q] * moved
            linear += (theta[q] - phi[q]) * moved
            product += trial[q] * r[q]
    return along, linear, product


@inner_kernel
def _try(loss, problem, i, weight, rate, options, state, buffers, labels):
    """A step of sample i: its dual term, gain in the dual, gain by the slope, their rounding."""
    theta, trial, r, change, answer = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    first, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
    phi, memory, size = state.phi[first:stop], state.residuals[first:stop], stop - first
    _mix(phi, theta, rate, trial)
    value, magnitude = loss_oracle(loss, problem, i, trial, labels, r[:size], change)
    along, linear, product = _compare(phi, theta, trial, r, memory, change)
    # Too small a term is a valid bound, one too large is not.
    term = value - product - ROUNDING * magnitude
    term = options.least_term if term < options.least_term else term
    gram(problem, i, change, answer)
    curvature = 0.0
    for q in range(size):
        curvature += change[q] * answer[q]
    gain = term - state.terms[i] + along - 0.5 * weight * options.inverse * curvature
    return term, gain, linear, 2.0 * ROUNDING * magnitude


@inner_kernel
def _take(problem, i, term, rate, weight, options, state, buffers, w):
    """Make the step of the last try."""
    trial, r, change = buffers[1], buffers[2], buffers[3]
    first, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
    phi, memory = state.phi[first:stop], state.residuals[first:stop]
    for q in range(stop - first):
        phi[q] = trial[q]
        memory[q] = r[q]
    state.terms[i] = term
    state.totals[RATES] += rate - state.rates[i]
    state.rates[i] = rate
    accumulate(problem, i, change, (-weight * options.inverse, 0.0), w)


@inner_kernel(inline=True)
def _divergence(loss, problem, i, weight, linear, rate, options, state, buffers, labels):
    """How far the stored mixture is from that of the weights, before the step of the last try.

    Where the mixture is close to one labelling its slope tells too little.
    """
    estimate = 0.5 * max(linear, 0.0) / rate
    if weight * estimate >= options.little:
        return estimate
    first, stop = problem.part_ptr[i], problem.part_ptr[i + 1]
    theta, memory = buffers[0], state.residuals[first:stop]
    # The scratch of tries, which is free again.
    value, _ = loss_value(loss, problem, i, theta, labels, buffers[4])
    state.totals[N_ORACLE] += 1.0
    exact = value - state.terms[i]
    for q in range(stop - first):
        exact -= theta[q] * memory[q] if theta[q] > -math.inf else 0.0
    return max(exact, 0.0)


@inner_kernel(inline=True)
def _visit(loss, problem, i, weight, w, options, state, buffers, labels):
    """A step of a sample that has been visited before."""
    rate = state.rates[i]
    for _ in range(_MOST_TESTS):
        found = _try(loss, problem, i, weight, rate, options, state, buffers, labels)
        term, gain, linear, noise = found
        state.totals[N_ORACLE] += 1.0
        # A rate that follows rounding errors would keep them alive.
        is_clear = linear > 8.0 * noise
        # Of the rate that would have been best.
        share = 0.5 * linear / max(linear - gain, 0.125 * linear) if is_clear else 1.0
        if gain >= -noise or not is_clear:
            state.divergences[i] = _divergence(
                loss, problem, i, weight, linear, rate, options, state, buffers, labels
            )
            rate *= min(share, _GROWTH)
            rate = min(max(rate, _LEAST_RATE), 1.0)
            _take(problem, i, term, rate, weight, options, state, buffers, w)
            break
        rate *= min(max(share, _MOST_CUT), _LEAST_CUT)
        if rate < _LEAST_RATE:
            state.totals[RATES] += _LEAST_RATE - state.rates[i]
            state.rates[i] = _LEAST_RATE
            break


@inner_kernel(inline=True)
def _visit_first(loss, problem, i, weight, w, options, state, buffers, labels):
    """The first step of a sample: surer of the truth until the dual does not fall."""
    totals = state.totals
    rate = totals[RATES] / totals[N_KNOWN] if totals[N_KNOWN] > 0 else options.first_rate
    phi = state.phi[problem.part_ptr[i] : problem.part_ptr[i + 1]]
    for _ in range(_MOST_TESTS):
        _begin_at_truth(problem, i, totals[SCORE], labels, phi)
        found = _try(loss, problem, i, weight, rate, options, state, buffers, labels)
        term, gain, _, noise = found
        totals[N_ORACLE] += 1.0
        if gain >= -noise:
            totals[N_KNOWN] += 1.0
            state.divergences[i] = math.inf
            _take(problem, i, term, rate, weight, options, state, buffers, w)
            break
        totals[SCORE] += _SURER
        rate *= _LEAST_CUT


@kernel
def oeg_pass(loss, problem, w, sample_weight, options, state, order, buffers, labels):
    """Steps at the samples of an order.

    Each step is tested: the gain in the dual objective is exact, and its ratio to that of the slope
    says which rate would have been best. A step that lowers the dual is made again with it.
    """
    for step in range(order.shape[0]):
        i = order[step]
        weight = sample_weight[i]
        potentials(problem, i, w, buffers[0])
        if state.rates[i] == 0.0:
            _visit_first(loss, problem, i, weight, w, options, state, buffers, labels)
        else:
            _visit(loss, problem, i, weight, w, options, state, buffers, labels)


@kernel
def sum_residuals(problem, sample_weight, inverse, residuals, first, stop, w):
    """Add the weights of stored residuals, ``-inverse sum_i s_i A_i' r_i``, to zeros."""
    for i in range(first, stop):
        own = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        accumulate(problem, i, own, (-sample_weight[i] * inverse, 0.0), w)
