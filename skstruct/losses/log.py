"""The log loss of CRFs: the negative log-likelihood of a sample."""

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import add_indicator, exp_oracle, exp_slack, log_partition
from .operations import augment_copy, loss_oracle, truth_score

# Certificates add this fraction of the terms of a difference to the gap, as rounding error.
_UNIT = 4.0 * float(np.finfo(np.float64).eps)


@inner_kernel(inline=True)
def _hidden(problem, r):
    """The slack of an inexact oracle, as the terms with a rounding error of that size."""
    return exp_slack(problem) / _UNIT if r.shape[0] > 0 else 0.0


# The softmax-margin: a log loss whose scores have the task loss added (Gimpel and Smith 2010).


class SoftmaxMargin(NamedTuple):
    """``log sum_y exp(<theta, mu(y)> + Delta(y_i, y)) - <theta, mu(y_i)>``, above the hinge."""

    # A lower bound on the dual terms: 0, or -inf where Delta may be negative.
    least_term: float = 0.0

    smooth = True


@loss_oracle.register(SoftmaxMargin)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    augment_copy(problem, i, theta, augmented)
    log_z = exp_oracle(problem, i, augmented, 1.0, r)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, -1.0, r)
    return log_z - right, abs(log_z) + abs(right) + _hidden(problem, r)


class LogLoss(NamedTuple):
    """``log sum_y exp(<theta, mu(y)>) - <theta, mu(y_i)>``, that is ``-log p(y_i | x_i)``."""

    smooth = True


class LogPartition(NamedTuple):
    """``log sum_y exp(<theta, mu(y)>)`` as a loss without labels; its residual is the marginals."""

    smooth = True


@inner_kernel(inline=True)
def difference(log_z, right):
    """``log_z - right``, at least 0 (below is rounding), and the magnitude; NaN and inf stay."""
    value = log_z - right
    value = 0.0 if -math.inf < value < 0.0 else value
    return value, abs(log_z) + abs(right)


@inner_kernel(inline=True)
def negative_log_likelihood(problem, i, theta, labels):
    """Value and magnitude of the log loss, without marginals."""
    right = truth_score(problem, i, theta, labels)
    return difference(log_partition(problem, i, theta, 1.0), right)


@loss_oracle.register(LogLoss)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    log_z = exp_oracle(problem, i, theta, 1.0, r)
    right = truth_score(problem, i, theta, labels)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, -1.0, r)
    value, magnitude = difference(log_z, right)
    return value, magnitude + _hidden(problem, r)


@loss_oracle.register(LogPartition)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    log_z = exp_oracle(problem, i, theta, 1.0, r)
    return log_z, abs(log_z)
