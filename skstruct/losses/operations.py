"""Operations that training losses offer to solvers, each contract written once.

A loss is a NamedTuple, so that each solver is compiled for the losses it uses, and one kernel, its
:func:`loss_oracle`: solvers call it for the value and the residual, or for the value alone. With
the potentials ``theta = A_i w`` of sample i every loss of this package has the form::

    loss_i(w) = max over m of  <theta, m - mu(y_i)> + c_i(m)

where m is a mixture of labellings and c_i is concave, 0 at the truth: the task loss for a hinge,
the entropy for the log loss, both for a smoothed hinge. (It is at least :func:`least_term`, in
general 0.) At the maximiser m the gradient of the loss is ``A_i' r`` with the *residual* ``r = m -
mu(y_i)``, and every m is a point of the dual problem, which depends on r and ``c_i(m) = loss -
<theta, r>`` only::

    (1/n) sum_i s_i c_i(m_i) - |(1/n) sum_i s_i A_i' r_i|^2 / (2 lam)  <=  min P

A smooth loss has the class attribute ``smooth = True``. A loss that is not convex has ``convex =
False``: it has no such form, and no dual problem. A loss may hold scratch: each thread works on a
:func:`private_loss`. Shapes are those of :mod:`skstruct.core.oracles`.
"""

import numpy as np

from ..core.jit.dispatch import generic
from ..core.jit.kernels import inner_kernel, kernel
from ..core.oracles import add_indicator, augment, gram, score, truth

#: Rounding error of a term ``c_i(m)``, relative to the terms that the loss is the difference of.
#: (The error of fast_exp alone is 5e-14.)
ROUNDING = 2e-13

# Doublings from a first guess of 1 to the end of float64. A test that overflows fails.
_MOST_TESTS = 1100


@generic
def loss_oracle(loss, problem, i, theta, labels, r, augmented):
    """Return the value of the loss at potentials `theta`, and the magnitude of its terms.

    Rounding errors of the value are relative to that magnitude. `r`, of shape (>= n_parts,),
    receives the residual ``m - mu(y_i)``; if it is empty, only the value is computed. `theta` is
    not changed. `labels`, of shape (>= n_nodes,), and `augmented`, of shape (>= n_parts,), are
    scratch.
    """


@inner_kernel(inline=True)
def loss_value(loss, problem, i, theta, labels, augmented):
    """:func:`loss_oracle` without the residual."""
    return loss_oracle(loss, problem, i, theta, labels, theta[:0], augmented)


@generic
def loss_curvature(loss, problem, i, theta, value, labels, r, start, answer, trial, augmented):
    """Estimate the smoothness constant of the loss of sample i, at least `start` (0: none known).

    Called right after :func:`loss_oracle`, with its `r` and value; `answer`, `trial` and
    `augmented`, of shape (>= n_parts,), are scratch. The default is :func:`backtrack`.
    """


@generic
def expected_loss(loss, problem, i, r, trial):
    """Return the expected task loss of the mixture in `r`, the dual term of a hinge.

    Called after :func:`loss_oracle`, with its `r`, before the next one; `trial`, of shape (>=
    n_parts,), is scratch. The default is that of a loss that is linear in parts.
    """


@inner_kernel(inline=True)
def dot(theta, mu, size):
    """``<theta, mu>``, where parts with ``mu = 0`` count as 0 even if `theta` is -inf."""
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
    """Write the true labelling to `labels` and return its score ``<theta, mu(y_i)>``."""
    truth(problem, i, labels)
    return score(problem, i, theta, labels)


@inner_kernel(inline=True)
def minus_truth(problem, i, labels, r):
    """``r = -mu(y_i)`` for the true labelling `labels`, unless `r` is empty."""
    if r.shape[0] == 0:
        return
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        r[q] = 0.0
    add_indicator(problem, i, labels, -1.0, r)


@inner_kernel(inline=True)
def augment_copy(problem, i, theta, augmented):
    """``augmented = theta + l_i``, both of shape (>= n_parts,)."""
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem, i, augmented)


@inner_kernel(inline=True)
def backtrack(loss, problem, i, weight, theta, value, labels, r, start, answer, trial, augmented):
    """Double L from `start` until a gradient step lowers the loss enough; L and number of tests."""
    size = problem.part_ptr[i + 1] - problem.part_ptr[i]
    gram(problem, i, r, answer)
    squared = 0.0
    for q in range(size):
        squared += r[q] * answer[q]
    lipschitz, tests = start, 0
    if not start > 0.0 and squared > 0.0:
        # Start far below an estimate of the largest eigenvalue of the Gram matrix.
        for q in range(size):
            lipschitz += answer[q] * answer[q]
        lipschitz *= 0.01 * weight / squared
    squared *= weight * weight
    # The paper's bound on |g|^2: below it, a test would compare rounding errors.
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
    """Lower bound on the dual terms ``c_i(m)``: 0, or -inf if task losses may be negative."""
    return float(getattr(loss, "least_term", 0.0))


def private_loss(loss):
    """Return the loss with its own copy of the scratch, for one thread."""
    copies = (field.copy() if isinstance(field, np.ndarray) else field for field in loss)
    return type(loss)(*copies)


def is_convex(loss) -> bool:
    """Return whether a loss is convex in the potentials, so that it has dual bounds."""
    return getattr(loss, "convex", True)


def require_smooth(loss, solver):
    """Raise TypeError for a loss that is not smooth, before any compilation."""
    if not getattr(loss, "smooth", False):
        name = type(loss).__name__
        raise TypeError(f"{solver} needs a smooth loss, and {name} is not: take a smoothed hinge")
