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
    """Project a range of samples, and add ``sum_i s_i A_i' (mu_i - mu(y_i))``."""
    theta, r = scratch.theta, scratch.mu
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        out[VALUE, i], out[MAGNITUDE, i] = loss_oracle(
            loss, problem, i, theta, scratch.labels, r, augmented
        )
        out[TASK_LOSS, i] = expected_loss(loss, problem, i, r, augmented)
        accumulate(problem, i, r, (sample_weight[i], 0.0), gradient)
