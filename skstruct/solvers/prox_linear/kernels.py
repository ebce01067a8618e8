"""Losses and residuals of a batch of samples whose rows are their scores."""

from ...core.dispatch import kernel
from ...core.oracles import accumulate, potentials
from ...losses.verbs import loss_oracle


@kernel
def batch_residuals(loss, problem, w, sample_weight, samples, scratch, augmented, gradient, values):
    """Add the gradients of ``s_i loss_i`` of some samples."""
    theta, r = scratch.theta, scratch.mu
    for visit in range(samples.shape[0]):
        i = samples[visit]
        potentials(problem, i, w, theta)
        values[i], _ = loss_oracle(loss, problem, i, theta, scratch.labels, r, augmented)
        accumulate(problem, i, r, (sample_weight[i], 0.0), gradient)
