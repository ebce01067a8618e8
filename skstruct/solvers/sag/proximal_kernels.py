"""One pass of SAG with non-uniform sampling under an L1 penalty: proximal steps, taken lazily.

The memory, the sampling and the line search are those of :mod:`skstruct.solvers.sag.kernels`; the
weights are those of :mod:`skstruct.core.proximal`.
"""

from ...core.dispatch import kernel
from ...core.oracles import accumulate, potentials
from ...core.proximal import catch_up
from ...losses.verbs import backtrack, loss_oracle
from .kernels import (
    LOSS,
    MOVE,
    N_ORACLE,
    N_STORED,
    _choose,
    _first_guess,
    _remember,
    _remember_mixture,
    _step_size,
)


@kernel
def proximal_epoch(
    loss, problem, w, clock, sample_weight, options, state, order, uniforms, buffers, labels
):
    """Steps of proximal SAG, one a row of `uniforms`.

    Parameters
    ----------
    loss, problem : NamedTuple
        As for :func:`skstruct.solvers.sag.kernels.sag_epoch`.
    w : Weights
        Lazy weights with ``s = 1`` and ``b = 0``: ``v`` are the weights, where they are up to date.
    clock : Clock
        The time, and when each row was brought up to date.
    sample_weight, options, state, order, uniforms, buffers, labels : object
        As there. ``lam`` of the options is lam2.
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

        catch_up(problem, i, w, clock)
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
        accumulate(problem, i, r, (0.0, 1.0), w)
        if moving:
            alpha = options.step_scale * _step_size(state, options)
            alpha = alpha if alpha * options.lam < 0.9 else 0.9 / options.lam
            clock.now[0] += alpha
            clock.now[1] += alpha / totals[N_STORED]
