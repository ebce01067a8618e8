"""The structural hinge: one sample's value, passes over samples, subgradients."""

from ..dispatch import inner_kernel, kernel
from ..oracles import (
    accumulate,
    add_indicator,
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
    w : Weights or LazyWeights
        The weights.
    memory : ndarray of shape (n_parts or 0,)
        A dual point ``m_i - mu(y_i)`` of every sample; empty for losses only.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    out : ndarray of shape (2, n_samples)
        Receives the losses ``max_y <theta + l, mu(y)> - <theta, mu(y_i)>`` and the gaps
        ``max_y <theta + l, mu(y)> - <theta + l, m_i>``.
    """
    theta, labels = scratch.theta, scratch.labels
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        truth(problem, i, labels)
        right = score(problem, i, theta, labels)
        augment(problem, i, theta)
        out[0, i] = max_oracle(problem, i, theta, labels) - right
        if memory.shape[0] > 0:
            part = problem.part_ptr[i]
            size = problem.part_ptr[i + 1] - part
            out[1, i] = out[0, i] - dot(theta, memory[part : part + size], size)


@kernel
def hinge_subgradient(problem, w, sample_weight, start, stop, scratch, gradient):
    """Add a subgradient of ``sum_i s_i hinge_i`` over a range of samples; returns the sum.

    Parameters
    ----------
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
    gradient : Weights
        Added to.

    Returns
    -------
    float
        The loss.
    """
    theta, r, labels = scratch.theta, scratch.mu, scratch.labels
    loss = 0.0
    for i in range(start, stop):
        potentials(problem, i, w, theta)
        loss += sample_weight[i] * worst_violation(problem, i, theta, labels, r)
        accumulate(problem, i, r, (sample_weight[i], 0.0), gradient)
    return loss


@inner_kernel(inline=True)
def worst_violation(problem, i, theta, labels, r):
    """The hinge of sample i, and its residual ``mu(y^) - mu(y_i)``.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    i : int
        The sample.
    theta : ndarray
        Its potentials before, loss-augmented ones after.
    labels : ndarray of int32
        Receives the loss-augmented best labelling.
    r : ndarray
        Receives the residual.

    Returns
    -------
    float
        The loss.
    """
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        r[q] = 0.0
    truth(problem, i, labels)
    right = score(problem, i, theta, labels)
    add_indicator(problem, i, labels, -1.0, r)
    augment(problem, i, theta)
    value = max_oracle(problem, i, theta, labels)
    add_indicator(problem, i, labels, 1.0, r)
    return value - right
