"""The verbs of best labellings; :mod:`.oracles` has what all verbs share."""

from .dispatch import generic, kernel
from .labellings import augment


@generic
def max_oracle(problem, i, theta, labels):
    """Write a labelling of largest score to `labels` and return its score.

    -inf when the constraints leave no labelling. A structure with :func:`relaxed_oracle` may write
    a labelling that is not the best one; the value is the score of what it wrote, never the bound.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    labels : ndarray of shape (>= n_nodes,) of int32
        Takes the labelling.

    Returns
    -------
    float
        Its score.

    See Also
    --------
    skstruct.core.oracles.top_k_oracle : The n best ones.
    skstruct.core.oracles.loss_augmented_max : With the task loss added.
    skstruct.core.oracles.exp_oracle : The soft maximum.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import max_oracle
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> labels = np.empty(3, dtype=np.int32)
    >>> max_oracle(problem, 0, np.arange(10.0), labels), labels
    (27.0, array([1, 1, 1], dtype=int32))
    """


@generic
def loss_augmented_max(problem, i, theta, labels, augmented):
    """Write a labelling that maximises ``<theta, mu(y)> + Delta(y_i, y)`` and return that value.

    `augmented` is scratch of the size of `theta`. The default, for every structure, augments a copy
    of `theta` and calls :func:`max_oracle`. A structure whose loss is not linear in parts registers
    its own. Needed by SSVMs.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    labels : ndarray of shape (>= n_nodes,) of int32
        Takes the labelling.
    augmented : ndarray of shape (>= n_parts,)
        Scratch.

    Returns
    -------
    float
        Its score and its task loss.

    See Also
    --------
    skstruct.core.oracles.max_oracle : Without the loss.
    skstruct.core.oracles.augment : The loss of each part.

    Examples
    --------
    At weights of 0 the worst labelling is the one that is wrong everywhere:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import loss_augmented_max
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> labels, scratch = np.empty(3, dtype=np.int32), np.empty(10)
    >>> loss_augmented_max(problem, 0, np.zeros(10), labels, scratch), labels
    (3.0, array([1, 0, 1], dtype=int32))
    """


@loss_augmented_max.register(object)
@kernel
def _(problem, i, theta, labels, augmented):
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem, i, augmented)
    return max_oracle(problem, i, augmented, labels)


@generic
def relaxed_oracle(problem, i, theta, labels, mu):
    """Write a point of the LP relaxation to `mu`, fractional where it is not tight.

    Returns two numbers, ``(bound, value)``: an upper bound on the score of every point of the
    relaxation (of every labelling is not enough: dual points are such points), and ``<theta, mu>``,
    which lies below the bound where the LP was not solved to its end. `labels`
    takes a labelling whose score is the value where the point is one; else any good one, or -1 as
    its first entry. A structure that has this verb is trained on the relaxed hinge (Finley and
    Joachims 2008, Training structural SVMs when exact inference is intractable); whoever certifies
    takes the bound, whoever steps toward `mu` its value.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    labels : ndarray of shape (>= n_nodes,) of int32
        Takes a labelling, if there is a good one.
    mu : ndarray of shape (>= n_parts,)
        Takes the point.

    Returns
    -------
    bound : float
        No point of the relaxation scores more.
    value : float
        What `mu` scores.

    See Also
    --------
    skstruct.core.oracles.max_oracle : The best labelling.
    skstruct.graphs.Graph.relaxation : The problem that it is asked of.

    Examples
    --------
    Structures without cycles have no need of it, label sets do:

    >>> from skstruct.core.oracles import relaxed_oracle
    >>> from skstruct.graphs.chain.kernels import ChainProblem
    >>> from skstruct.graphs.multilabel.loops import ManyLabelsProblem
    >>> relaxed_oracle.supports(ChainProblem), relaxed_oracle.supports(ManyLabelsProblem)
    (False, True)
    """


@generic
def top_k_oracle(problem, i, theta, values, labels):
    """Write the ``len(values)`` best labellings, best first, to the rows of `labels`.

    `values` takes their scores, -inf where there are fewer labellings.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    values : ndarray of shape (k,)
        Takes the scores.
    labels : ndarray of shape (k, >= n_nodes) of int32
        Takes the labellings.

    See Also
    --------
    skstruct.core.oracles.max_oracle : The best one.
    skstruct.graphs.top_k_by_max_marginals : A kernel for structures that have none of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import top_k_oracle
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> values, labels = np.empty(2), np.empty((2, 3), dtype=np.int32)
    >>> top_k_oracle(problem, 0, np.arange(10.0), values, labels)
    >>> values, labels.tolist()
    (array([27., 25.]), [[1, 1, 1], [1, 1, 0]])
    """


@generic
def loss_augmented_top_k(problem, i, theta, values, labels, augmented):
    """:func:`top_k_oracle` of ``<theta, mu(y)> + Delta(y_i, y)``.

    `augmented` is scratch of the size of `theta`. The default, for every structure, augments a copy
    of `theta`; a structure with a :func:`loss_augmented_max` of its own registers its own, if
    CasimirSSVM is to train it.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    values : ndarray of shape (k,)
        Takes scores and task losses.
    labels : ndarray of shape (k, >= n_nodes) of int32
        Takes the labellings.
    augmented : ndarray of shape (>= n_parts,)
        Scratch.

    See Also
    --------
    skstruct.core.oracles.top_k_oracle : Without the loss.
    skstruct.CasimirSSVM : The solver that asks for it.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import loss_augmented_top_k
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> values, labels = np.empty(2), np.empty((2, 3), dtype=np.int32)
    >>> loss_augmented_top_k(problem, 0, np.zeros(10), values, labels, np.empty(10))
    >>> values
    array([3., 2.])
    """


@loss_augmented_top_k.register(object)
@kernel
def _(problem, i, theta, values, labels, augmented):
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem, i, augmented)
    top_k_oracle(problem, i, augmented, values, labels)
