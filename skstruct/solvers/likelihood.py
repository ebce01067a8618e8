"""The negative log-likelihood of one sample and its residual, for the solvers that train CRFs."""

from ..dispatch import inner_kernel
from ..oracles import add_indicator, log_partition, score, truth


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
    return log_partition(problem, i, theta, 1.0) - score(problem, i, theta, labels)
