"""One pass of SAG with non-uniform sampling (Schmidt et al. 2015, Algorithms 1 to 3), and of SAGA.

The memory of past gradients is kept in part space (their "marginal storage" trick): sample i stores
its residual ``s_i (m_i - mu(y_i))``, not a gradient of the weights' size.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import accumulate, potentials
from ...core.weights import decay_and_step
from ...losses.verbs import ROUNDING, backtrack, loss_oracle
from ..sampling import sample_leaf, set_leaf

# Positions in SAGState.totals.
N_STORED, N_KNOWN, MAX_L, N_FORWARD, N_ORACLE, LOSS, STALENESS, MAGNITUDE = range(8)

MOVE, FILL, MEASURE = range(3)


class SAGState(NamedTuple):
    """What SAG remembers between epochs.

    Parameters
    ----------
    residuals : ndarray of shape (n_parts,)
        Stored residual of every sample, 0 at first.
    terms : ndarray of shape (n_samples,)
        ``s_i c_i(m_i)`` of the mixture that it was made of (for a CRF the entropy of marginals), a
        lower bound where rounding matters. The two are a point of the dual problem.
    lipschitz : ndarray of shape (n_samples,)
        L_i where known, else 0.
    streak : ndarray of shape (n_samples,) of int64
        Consecutive visits whose first line-search test succeeded.
    skip : ndarray of shape (n_samples,) of int64
        Visits for which the line search is still to be skipped.
    tree : ndarray
        Sum tree over `lipschitz`.
    totals : ndarray of shape (8,)
        Residuals stored (m), L_i known, their maximum, forward passes, oracle calls; then sums over
        the visits of a pass (whoever begins it sets them to 0): losses, divergences of the stored
        mixtures from the present ones, and the sizes of the terms that losses are differences of.
    """

    residuals: np.ndarray
    terms: np.ndarray
    lipschitz: np.ndarray
    streak: np.ndarray
    skip: np.ndarray
    tree: np.ndarray
    totals: np.ndarray


class SAGOptions(NamedTuple):
    """Choices of one SAG run.

    Parameters
    ----------
    lam : float
        Regulariser of the lambda form.
    step_scale : float
        Factor on the step size.
    skipping : int
        1 to skip the line search after successes, 0 to search at every visit.
    uniform : int
        1 for uniform sampling with one constant L, 0 for non-uniform with one L_i a sample.
    saga : int
        1 for SAGA's unbiased step.
    task : int
        ``MOVE``: the method. ``FILL``: store the residuals at the present weights, which stay.
        ``MEASURE``: the same, but only ``d`` takes them, the memory stays, too.
    least_term : float
        Lower bound on the dual terms of the loss.
    """

    lam: float
    step_scale: float
    skipping: int
    uniform: int
    saga: int
    task: int
    least_term: float


@inner_kernel(inline=True)
def _choose(state, options, order, uniforms, step):
    """The sample of this step, and 1 / (n p_i)."""
    n = state.lipschitz.shape[0]
    if order.shape[0] > 0:
        return order[step], 1.0
    u = uniforms[step, 1]
    i = np.int64(u * n)
    i = i if i < n else n - 1
    if options.uniform == 1:
        return i, 1.0
    if uniforms[step, 0] >= 0.5:
        i = sample_leaf(state.tree, u)
    share = state.lipschitz[i] / state.tree[1]
    return i, 1.0 / (0.5 + 0.5 * n * share)


@inner_kernel(inline=True)
def _first_guess(state, options, i):
    """L_i to start the line search from (section 4.2 of the paper), or to keep if it is skipped."""
    totals = state.totals
    if options.uniform == 1:
        return totals[MAX_L] * 2.0 ** (-1.0 / state.lipschitz.shape[0])
    if state.lipschitz[i] == 0.0:
        return 0.5 * state.tree[1] / totals[N_KNOWN] if totals[N_KNOWN] > 0 else 1.0
    return state.lipschitz[i] if state.skip[i] > 0 else 0.9 * state.lipschitz[i]


@inner_kernel(inline=True)
def _remember(state, options, i, start, lipschitz, tests):
    """Store L_i, and after xi successes in a row skip the next 2^(xi - 1) searches."""
    totals = state.totals
    if state.skip[i] > 0:
        state.skip[i] -= 1
    elif lipschitz > start or options.skipping == 0:
        state.streak[i] = 0
    else:
        state.streak[i] += 1
        state.skip[i] = 1 << (state.streak[i] - 1 if state.streak[i] < 41 else 40)
    totals[N_FORWARD] += tests
    if options.uniform == 1:
        totals[MAX_L] = lipschitz
    else:
        totals[MAX_L] = lipschitz if lipschitz > totals[MAX_L] else totals[MAX_L]
        set_leaf(state.tree, i, lipschitz)
    if state.lipschitz[i] == 0.0:
        totals[N_KNOWN] += 1.0
    state.lipschitz[i] = lipschitz


@inner_kernel(inline=True)
def _step_size(state, options):
    """Step of SAG: section 4.2 for non-uniform sampling; of SAGA: 1 / 3 of the inverse constant."""
    totals, lam = state.totals, options.lam
    if options.uniform == 1:
        alpha = 1.0 / (totals[MAX_L] + lam)
        return alpha / 3.0 if options.saga == 1 else alpha
    mean = state.tree[1] / totals[N_KNOWN]
    if options.saga == 1:
        # L_i / (n p_i) <= 2 L_mean under this sampling
        return 1.0 / (3.0 * (2.0 * mean + lam))
    return 0.5 * (1.0 / (totals[MAX_L] + lam) + 1.0 / (mean + lam))


@inner_kernel(inline=True)
def _remember_mixture(
    state, options, i, part, size, weight, importance, value, magnitude, theta, r
):
    """Store the residual and its dual term; `r` becomes the change of the residual.

    Adds up how far the stored mixtures are from the present ones, ``loss - <theta, r_i> - c_i``
    (for a CRF ``KL(mu_i | p(theta_i))``). Weighed by importance, the visits of a pass tell its mean
    over all samples: a sample is as old at a visit as at any other time.
    """
    keep = 0.0 if options.task == MEASURE else 1.0
    now, before = 0.0, 0.0  # <theta, residual>
    for q in range(size):
        potential = theta[q] if theta[q] > -math.inf else 0.0  # no mass on what is forbidden
        stored = state.residuals[part + q]
        change = weight * r[q] - stored
        now += potential * (stored + change)
        before += potential * stored
        state.residuals[part + q] = stored + keep * change
        r[q] = change
    totals = state.totals
    magnitude = weight * magnitude
    slack = ROUNDING * magnitude
    divergence = weight * value - before - state.terms[i] - 2.0 * slack
    totals[STALENESS] += 0.0 if divergence < 0.0 else importance * divergence
    totals[MAGNITUDE] += magnitude
    # Too small a term is a valid bound, one too large is not.
    term = weight * value - now - slack
    if options.task != MEASURE:
        state.terms[i] = options.least_term if term < options.least_term else term


@kernel
def sag_epoch(loss, problem, w, sample_weight, options, state, order, uniforms, buffers, labels):
    """Steps of SAG or SAGA, one a row of `uniforms`.

    Parameters
    ----------
    loss : NamedTuple
        A smooth loss, see :mod:`skstruct.losses.verbs`.
    problem : NamedTuple
        A structure's problem.
    w : Weights
        The weights; ``d`` is the sum of stored gradients.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    options : SAGOptions
        The choices.
    state : SAGState
        The memory.
    order : ndarray of int64
        Samples to visit; empty to sample.
    uniforms : ndarray of shape (n_steps, 2)
        Uniform random numbers.
    buffers : ndarray of shape (5, max_parts)
        Scratch.
    labels : ndarray of int32
        Scratch for one labelling.
    """
    totals = state.totals
    moving = options.task == MOVE
    theta, r, augmented = buffers[0], buffers[1], buffers[2]
    answer, trial = buffers[3], buffers[4]
    for step in range(uniforms.shape[0]):
        i, importance = _choose(state, options, order, uniforms, step)
        part = problem.part_ptr[i]
        size = problem.part_ptr[i + 1] - part
        weight = sample_weight[i]

        potentials(problem, i, w, theta)
        value, magnitude = loss_oracle(loss, problem, i, theta, labels, r, augmented)
        totals[LOSS] += weight * value
        totals[N_ORACLE] += 1.0

        if moving:
            start = _first_guess(state, options, i)
            lipschitz, tests = start, 0
            if state.skip[i] == 0:
                lipschitz, tests = backtrack(
                    loss,
                    problem,
                    i,
                    weight,
                    theta,
                    value,
                    labels,
                    r,
                    start,
                    answer,
                    trial,
                    augmented,
                )
            if state.lipschitz[i] == 0.0 and totals[N_STORED] < sample_weight.shape[0]:
                totals[N_STORED] += 1.0
            _remember(state, options, i, start, lipschitz, tests)

        _remember_mixture(
            state, options, i, part, size, weight, importance, value, magnitude, theta, r
        )
        alpha = 0.0
        if moving:  # A longer step than 1 / lam would turn the weights around.
            alpha = options.step_scale * _step_size(state, options)
            alpha = alpha if alpha * options.lam < 0.9 else 0.9 / options.lam
        rho, eta = 1.0 - alpha * options.lam, alpha / totals[N_STORED]
        if options.saga == 1:
            decay_and_step(w, rho, eta)
            accumulate(problem, i, r, (-alpha * importance, 1.0), w)
        else:
            accumulate(problem, i, r, (0.0, 1.0), w)
            decay_and_step(w, rho, eta)
