"""The structural hinge over samples, and its gap to a dual point."""

from ..core.dispatch import generic, inner_kernel, kernel
from ..core.oracles import potentials, score, truth


@generic
def augmented_bound(how, problem, i, theta, labels, augmented):
    """``max_y <theta, mu(y)> + Delta(y_i, y)``, or a bound on it: what meets the truth.

    `theta` stays as it is, `augmented` is scratch of its size, `labels` receives a labelling.
    """


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
def hinge_losses(how, problem, w, memory, start, stop, scratch, out):
    """Losses of samples `start` to `stop`, and how far `memory` is from the oracle's answer.

    Parameters
    ----------
    how : MaxHinge or RelaxedHinge
        The loss.
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
        Receives the losses ``max_y <theta, mu(y)> + Delta(y_i, y) - <theta, mu(y_i)>``, the same
        minus ``<theta, m_i - mu(y_i)>`` (the gaps but for the task losses of ``m_i``, which solvers
        know as numbers), and the size of the two scores of which the loss is the difference.
    """
    theta, labels = scratch.theta, scratch.labels
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        truth(problem, i, labels)
        right = score(problem, i, theta, labels)
        best = augmented_bound(how, problem, i, theta, labels, scratch.mu)
        out[0, i] = best - right
        out[2, i] = abs(best) + abs(right)
        if memory.shape[0] > 0:
            part = problem.part_ptr[i]
            size = problem.part_ptr[i + 1] - part
            out[1, i] = out[0, i] - dot(theta, memory[part : part + size], size)
