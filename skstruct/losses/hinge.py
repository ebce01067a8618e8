"""The structural hinge over samples, and its gap to a dual point."""

from ..core.dispatch import inner_kernel, kernel
from ..core.oracles import (
    augment,
    max_oracle,
    potentials,
    score,
    truth,
)


@inner_kernel(inline=True)
def dot(theta, mu, size):
    """``<theta, mu>``, where parts of -inf that `mu` does not use count as 0.

    Parameters
    ----------
    theta, mu : ndarray
        Part-space arrays.
    size : int
        Number of parts.

    Returns
    -------
    float
        The product.
    """
    total = 0.0
    for q in range(size):
        total += theta[q] * mu[q] if mu[q] != 0.0 else 0.0
    return total


@kernel
def hinge_losses(problem, w, memory, start, stop, scratch, out):
    """Losses of samples `start` to `stop`, and how far `memory` is from the oracle's answer.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    w : Weights
        The weights.
    memory : ndarray of shape (n_parts or 0,)
        A dual point ``m_i - mu(y_i)`` of every sample; empty for losses only.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    out : ndarray of shape (3, n_samples)
        Receives the losses ``max_y <theta + l, mu(y)> - <theta, mu(y_i)>``, the gaps
        ``max_y <theta + l, mu(y)> - <theta + l, m_i>``, and the size of the two scores of which the
        loss is the difference.
    """
    theta, labels = scratch.theta, scratch.labels
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        truth(problem, i, labels)
        right = score(problem, i, theta, labels)
        augment(problem, i, theta)
        best = max_oracle(problem, i, theta, labels)
        out[0, i] = best - right
        out[2, i] = abs(best) + abs(right)
        if memory.shape[0] > 0:
            part = problem.part_ptr[i]
            size = problem.part_ptr[i + 1] - part
            out[1, i] = out[0, i] - dot(theta, memory[part : part + size], size)
