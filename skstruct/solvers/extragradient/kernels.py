"""The oracle pass of the dual extragradient."""

from ...core.dispatch import kernel
from ...core.oracles import accumulate, potentials
from ...losses.verbs import expected_loss, loss_oracle

# Rows of ``out``.
VALUE, TASK_LOSS, MAGNITUDE = 0, 1, 2


@kernel
def project_samples(
    loss, problem, w, sample_weight, start, stop, scratch, augmented, gradient, out
):
    """Project a range of samples, and add ``sum_i s_i A_i' (mu_i - mu(y_i))``.

    Parameters
    ----------
    loss : NamedTuple
        A smoothed hinge whose mixtures are the projections.
    problem : NamedTuple
        A structure's problem, with labels.
    w : Weights
        The weights.
    sample_weight : ndarray of shape (n_samples,)
        Weights of mean 1.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    augmented : ndarray of shape (max_parts,)
        Scratch.
    gradient : Weights
        Added to.
    out : ndarray of shape (3, n_samples)
        Receives the losses, the task losses that the projections expect, and the sizes of the terms
        that the losses are differences of.
    """
    theta, r = scratch.theta, scratch.mu
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        out[VALUE, i], out[MAGNITUDE, i] = loss_oracle(
            loss, problem, i, theta, scratch.labels, r, augmented
        )
        out[TASK_LOSS, i] = expected_loss(loss, problem, i, r, augmented)
        accumulate(problem, i, r, (sample_weight[i], 0.0), gradient)
