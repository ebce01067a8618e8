"""The negative log-likelihood of one sample and its residual, for the solvers that train CRFs."""

import math

from ..core.dispatch import inner_kernel
from ..core.oracles import add_indicator, log_partition, score, truth

#: What rounding may add to an entropy ``log Z - <theta, mu>``, as a share of the log-partition and
#: the score of the truth. (fast_exp alone is off by 5e-14.)
ROUNDING = 2e-13


@inner_kernel(inline=True)
def subtract_truth(problem, i, theta, labels, r):
    """``r -= mu(y_i)``; returns ``<theta, mu(y_i)>``.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.
    i : int
        The sample.
    theta : ndarray
        Its potentials.
    labels : ndarray of int32
        Receives the true labelling.
    r : ndarray
        Marginals before, the residual ``E[mu] - mu(y_i)`` after.

    Returns
    -------
    float
        The score of the truth.
    """
    truth(problem, i, labels)
    add_indicator(problem, i, labels, -1.0, r)
    return score(problem, i, theta, labels)


@inner_kernel(inline=True)
def log_loss(log_z, score):
    """``log Z - <theta, mu(y_i)>``, at least 0.

    Only rounding makes the difference negative. What overflowed stays NaN or infinite.

    Parameters
    ----------
    log_z : float
        The log-partition.
    score : float
        The score of the truth.

    Returns
    -------
    float
        The loss.
    """
    loss = log_z - score
    return 0.0 if -math.inf < loss < 0.0 else loss


@inner_kernel(inline=True)
def negative_log_likelihood(problem, i, theta, labels):
    """``log Z - <theta, mu(y_i)>``, by a forward pass.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.
    i : int
        The sample.
    theta : ndarray
        Its potentials.
    labels : ndarray of int32
        Receives the true labelling.

    Returns
    -------
    float
        The loss.
    """
    truth(problem, i, labels)
    return log_loss(log_partition(problem, i, theta, 1.0), score(problem, i, theta, labels))
