"""Operations that training losses offer to solvers, each contract written once.

A loss is a NamedTuple, so that each solver is compiled for those it uses, and one kernel, its
:func:`loss_oracle`: solvers call it for the value and the residual, and for the value alone. With
the potentials ``theta = A_i w`` of sample i every loss of this package has the form::

    loss_i(w) = max over m of  <theta, m - mu(y_i)> + c_i(m)

where m is a mixture of labellings and c_i is concave, 0 at the truth: the task loss for a hinge,
the entropy for the log loss, both for a smoothed hinge. (It is at least :func:`least_term`, in
general 0.) At the best m the loss has the gradient ``A_i' r`` with the *residual* ``r = m -
mu(y_i)``, and any m is a point of the dual problem, which needs no more than r and ``c_i(m) =
loss - <theta, r>``::

    (1/n) sum_i s_i c_i(m_i) - |(1/n) sum_i s_i A_i' r_i|^2 / (2 lam)  <=  min P

A smooth loss has the class attribute ``smooth = True``, one that is not convex ``convex = False``:
it has no such form, and no dual problem. A loss may hold scratch: threads take
:func:`private_loss`.
"""

import numpy as np

from ..core.jit.dispatch import generic, inner_kernel, kernel
from ..core.oracles import add_indicator, augment, gram, score, truth

#: What rounding may add to a term ``c_i(m)``, as a share of the terms that the loss is a difference
#: of. (fast_exp alone is off by 5e-14.)
ROUNDING = 2e-13

# From a first guess of 1 to the end of float64. Where a test overflows, it fails.
_MOST_TESTS = 1100


@generic
def loss_oracle(loss, problem, i, theta, labels, r, augmented):
    """Value of the loss at potentials `theta`, and the size of the terms it is a difference of.

    `r` takes the residual ``m - mu(y_i)``, unless it is empty: then only the value is computed.
    `theta` stays. `labels` and `augmented`, which has room for potentials, are scratch.

    Parameters
    ----------
    loss : NamedTuple
        A loss.
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    labels : ndarray of shape (>= n_nodes,) of int32
        Scratch.
    r : ndarray of shape (>= n_parts,) or (0,)
        Takes the residual.
    augmented : ndarray of shape (>= n_parts,)
        Scratch.

    Returns
    -------
    tuple of two floats
        The value, and the size of its terms, to which rounding is relative.

    See Also
    --------
    skstruct.losses.verbs.truth_score : First step of its kernels.
    skstruct.losses.verbs.augment_copy : Loss-augmented potentials of hinges.

    Examples
    --------
    At weights of 0 the log loss of three nodes with two labels each is 3 log 2:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.losses.log import LogLoss
    >>> from skstruct.losses.verbs import loss_oracle
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> labels, r, augmented = np.empty(3, dtype=np.int32), np.empty(10), np.empty(10)
    >>> value, _ = loss_oracle(LogLoss(), problem, 0, np.zeros(10), labels, r, augmented)
    >>> round(value, 6), r[:2]  # of the first node
    (2.079442, array([-0.5,  0.5]))
    """


@inner_kernel(inline=True)
def loss_value(loss, problem, i, theta, labels, augmented):
    """:func:`loss_oracle` without the residual."""
    return loss_oracle(loss, problem, i, theta, labels, theta[:0], augmented)


@generic
def loss_curvature(loss, problem, i, theta, value, labels, r, start, answer, trial, augmented):
    """An estimate of the smoothness constant of the loss of sample i, no less than `start`.

    To be called right after :func:`loss_oracle`, with its `r` and value; 0 as `start` stands for
    no estimate. By default that of :func:`backtrack`.
    """


@generic
def expected_loss(loss, problem, i, r, trial):
    """The task loss that the mixture behind the residual `r` expects: the dual term of a hinge.

    To be called after :func:`loss_oracle`, with its `r`, before the next one. `trial`, which has
    room for potentials, is scratch. By default that of a loss that is linear in parts.
    """


@inner_kernel(inline=True)
def dot(theta, mu, size):
    """``<theta, mu>``, where parts of -inf that `mu` does not use count as 0."""
    total = 0.0
    for q in range(size):
        total += theta[q] * mu[q] if mu[q] != 0.0 else 0.0
    return total


@kernel
def expected_task_loss(problem, i, r, trial):
    """``<l_i, m_i>`` for the residual ``r = m_i - mu(y_i)``: the dual term of the hinge."""
    size = problem.part_ptr[i + 1] - problem.part_ptr[i]
    for q in range(size):
        trial[q] = 0.0
    augment(problem, i, trial)
    return dot(trial, r, size)


@expected_loss.register(object)
@kernel
def _(loss, problem, i, r, trial):
    return expected_task_loss(problem, i, r, trial)


@inner_kernel(inline=True)
def truth_score(problem, i, theta, labels):
    """Write the true labelling to `labels`; returns ``<theta, mu(y_i)>``.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    labels : ndarray of shape (>= n_nodes,) of int32
        Takes the true labelling.

    Returns
    -------
    float
        Its score.

    See Also
    --------
    skstruct.core.oracles.truth : Writes the true labelling.
    skstruct.core.oracles.score : Scores a labelling.

    Examples
    --------
    By how much the best labelling is better, in a kernel of a loss:

    >>> from skstruct.core import inner_kernel
    >>> from skstruct.core.oracles import max_oracle
    >>> from skstruct.losses.verbs import truth_score
    >>> @inner_kernel
    ... def structured_perceptron_loss(problem, i, theta, labels):
    ...     true = truth_score(problem, i, theta, labels)
    ...     return max_oracle(problem, i, theta, labels) - true
    """
    truth(problem, i, labels)
    return score(problem, i, theta, labels)


@inner_kernel(inline=True)
def minus_truth(problem, i, labels, r):
    """``r = -mu(y_i)`` for the true labelling `labels`, if `r` has room."""
    if r.shape[0] == 0:
        return
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        r[q] = 0.0
    add_indicator(problem, i, labels, -1.0, r)


@inner_kernel(inline=True)
def augment_copy(problem, i, theta, augmented):
    """``augmented = theta + l_i``.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials; they stay.
    augmented : ndarray of shape (>= n_parts,)
        Takes them with the task loss of each part.

    See Also
    --------
    skstruct.core.oracles.augment : The same in place.
    skstruct.core.oracles.loss_augmented_max : For losses that are not linear in parts, too.

    Examples
    --------
    >>> from skstruct.core import inner_kernel
    >>> from skstruct.core.oracles import exp_oracle
    >>> from skstruct.losses.verbs import augment_copy
    >>> @inner_kernel
    ... def softmax_margin(problem, i, theta, mu, augmented):
    ...     augment_copy(problem, i, theta, augmented)
    ...     return exp_oracle(problem, i, augmented, 1.0, mu)
    """
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem, i, augmented)


@inner_kernel(inline=True)
def backtrack(loss, problem, i, weight, theta, value, labels, r, start, answer, trial, augmented):
    """Double L from `start` until the weighted loss decreases enough along its gradient.

    The trial potentials come from the Gram trick, ``A_i (w - g / L) = theta - (A_i A_i' r) / L``:
    the weights are not touched. Returns L and the number of tests.
    """
    size = problem.part_ptr[i + 1] - problem.part_ptr[i]
    gram(problem, i, r, answer)
    squared = 0.0
    for q in range(size):
        squared += r[q] * answer[q]
    lipschitz, tests = start, 0
    if not start > 0.0 and squared > 0.0:
        # Far below the largest eigenvalue of the Gram matrix, of which this is an estimate.
        for q in range(size):
            lipschitz += answer[q] * answer[q]
        lipschitz *= 0.01 * weight / squared
    squared *= weight * weight
    # The paper's bound on |g|^2; under it a test would compare rounding errors.
    while squared > 1e-8 and tests < _MOST_TESTS:
        step = weight / lipschitz
        for q in range(size):
            trial[q] = theta[q] - step * answer[q]
        after, _ = loss_value(loss, problem, i, trial, labels, augmented)
        tests += 1
        if not weight * (after - value) > -0.5 * squared / lipschitz:
            break
        lipschitz *= 2.0
    return lipschitz, tests


@loss_curvature.register(object)
@kernel
def _(loss, problem, i, theta, value, labels, r, start, answer, trial, augmented):
    return backtrack(
        loss, problem, i, 1.0, theta, value, labels, r, start, answer, trial, augmented
    )[0]


def least_term(loss) -> float:
    """A lower bound on the dual terms ``c_i(m)`` of a loss, which takes off what rounding does.

    Parameters
    ----------
    loss : NamedTuple
        A loss.

    Returns
    -------
    float
        0, or -inf for losses whose task loss may be negative.

    See Also
    --------
    skstruct.losses.verbs.loss_oracle : The loss of these terms.

    Examples
    --------
    >>> from skstruct.losses.log import LogLoss
    >>> from skstruct.losses.verbs import least_term
    >>> least_term(LogLoss())
    0.0
    """
    return float(getattr(loss, "least_term", 0.0))


def private_loss(loss):
    """The same loss with scratch of its own, for one thread.

    Parameters
    ----------
    loss : NamedTuple
        A loss.

    Returns
    -------
    NamedTuple
        The copy.

    See Also
    --------
    skstruct.core.parallel.private_copy : The same of a problem.

    Examples
    --------
    >>> from skstruct.losses.log import LogLoss
    >>> from skstruct.losses.verbs import private_loss
    >>> private_loss(LogLoss())
    LogLoss()
    """
    copies = (field.copy() if isinstance(field, np.ndarray) else field for field in loss)
    return type(loss)(*copies)


def is_convex(loss) -> bool:
    """Return whether a loss is convex in the potentials, so that it has dual bounds."""
    return getattr(loss, "convex", True)


def require_smooth(loss, solver):
    """Refuse a loss that has kinks, before any compile."""
    if not getattr(loss, "smooth", False):
        name = type(loss).__name__
        raise TypeError(f"{solver} needs a smooth loss, and {name} is not: take a smoothed hinge")
