"""One pass of SAG with non-uniform sampling under an L1 penalty: proximal steps, taken lazily.

The memory, the sampling and the line search are those of :mod:`skstruct.solvers.sag.kernels`; the
weights are those of :mod:`skstruct.core.proximal`.
"""

from ...core.dispatch import kernel
from ...core.oracles import accumulate
from ...core.proximal import catch_up
from .kernels import (
    IMPORTANCE,
    LOSS,
    MAGNITUDE,
    MOVE,
    N_STORED,
    TERMS,
    VALUE,
    _choose,
    _remember_visit,
    _step_size,
    _visit,
)


@kernel
def proximal_epoch(
    loss, problem, w, clock, sample_weight, options, state, order, uniforms, block, buffers, labels
):
    """Steps of proximal SAG, one a row of `uniforms`."""
    totals, visit = state.totals, block.visits[0]
    for step in range(uniforms.shape[0]):
        i, visit[IMPORTANCE] = _choose(state, options, order, uniforms, step)
        weight = sample_weight[i]
        r = block.changes[: problem.part_ptr[i + 1] - problem.part_ptr[i]]
        catch_up(problem, i, w, clock)
        _visit(loss, problem, w, weight, options, state, i, visit, r, buffers, labels)
        totals[LOSS] += weight * visit[VALUE]
        totals[MAGNITUDE] += weight * visit[TERMS]
        _remember_visit(sample_weight, options, state, i, visit)
        accumulate(problem, i, r, (0.0, 1.0), w)
        if options.task == MOVE:
            alpha = _step_size(state, options)
            clock.now[0] += alpha
            clock.now[1] += alpha / totals[N_STORED]
