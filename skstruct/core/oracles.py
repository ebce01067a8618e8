"""Operations that structures offer to solvers, each contract written once.

Conventions shared by all operations:

* `problem` is a :class:`skstruct.graphs.Problem`: rows, space and target, with ``part_ptr`` (int64,
  parts of sample i are ``part_ptr[i]:part_ptr[i+1]``), ``label_ptr`` (int64, where the labelling of
  sample i lies in a flat array of labels) and ``labels`` (int32, the true ones in that layout;
  empty when unknown). A kernel takes the part that its operation belongs to; those of the whole
  problem take all of it. Rows and spaces have ``work`` (scratch, a NamedTuple of arrays: every
  thread brings its own, see :func:`skstruct.core.parallel.private_copy`).
* `theta`, `mu`, `r` are flat float64 arrays over the parts of one sample, from index 0: the node
  block first, then the pairwise block. They may be longer than the sample needs.
* A *labelling* is an int32 array, one entry per node; ``mu(y)`` is its 0/1 indicator over parts.
* ``A_i`` is the feature map of sample i: ``theta = A_i w``.
* An operation writes to the arguments that its contract names and to ``work``, to nothing else: not
  to other fields of the problem, and not to `theta` unless the contract says so. The one exception
  is memory of samples in ``own`` of a space: where an oracle begins the next time, such as the dual
  point of an LP, or how far its last answer may be off. It never changes what a contract promises.
* Kernels allocate nothing. Ties go to the lowest label. Forbidden parts score -inf.

A structure registers what it can do; missing operations raise a ``TypeError`` before compilation.

=========================================================  =========================================
Operations                                                 Needed by
=========================================================  =========================================
Of rows: `potentials`                                      everything
`accumulate`                                               all training
`gram`, given in subclasses of `OwnRows`                   SAG and SAGA, BCFW, Casimir
Of targets: `task_loss`, and `augment` if it adds up       every SSVM
Of spaces: `forbid`                                        everything
`max_oracle`                                               ``predict``, every SSVM
`add_indicator`, `score`                                   all training
`exp_oracle` (and `exp_slack`, where it is inexact)        CRFs, entropy smoothing, marginals
`top_k_oracle`                                             n-best decoding, L2 smoothing
`relaxed_oracle`                                           SSVMs of structures with an LP relaxation
`edge_marginals`                                           ``predict_marginals(pairwise=True)``
`chunk_marginals`                                          ``predict_chunks``
`sample_oracle`                                            ``sample``
`entropy`                                                  ``predict_entropy``
`max_marginals`                                            searches that force labels one by one
`count_states`                                             n-best labellings by max-marginals
`euclidean_oracle`                                         Euclidean projections (extragradient)
Of all of it: `truth`                                      all training
`loss_augmented_max`, `loss_augmented_top_k`               every SSVM; registered for spaces whose
                                                           targets lack `augment`
=========================================================  =========================================

The exactness of ``loss_augmented_max`` is what the cutting-plane view of structural SVMs requires
(Tsochantaridis et al. 2005, Large margin methods for structured and interdependent output
variables); losses that do not add up over parts are those of Blaschko and Lampert 2008, Learning to
localize objects with structured output regression.
"""

from typing import NamedTuple

import numpy as np

from .jit.dispatch import generic, inner_kernel, kernel
from .jit.signatures import FloatRows, Floats, LabelRows, Labels, Pair, declare
from .offsets import ends_of
from .weights import Weights

__all__ = [
    "accumulate",
    "add_indicator",
    "adds_by_columns",
    "augment",
    "chunk_marginals",
    "count_states",
    "edge_marginals",
    "entropy",
    "euclidean_oracle",
    "exp_oracle",
    "exp_slack",
    "forbid",
    "gram",
    "has_own_loss",
    "log_partition",
    "loss_augmented_max",
    "loss_augmented_top_k",
    "loss_is_linear",
    "max_marginals",
    "max_oracle",
    "n_shared_parts",
    "potentials",
    "relaxed_oracle",
    "require_linear_loss",
    "sample_oracle",
    "score",
    "score_rows",
    "task_loss",
    "top_k_oracle",
    "truth",
]


@generic
def potentials(problem, i: int, w: Weights, theta: Floats) -> None:
    """``theta <- A_i w``, with -inf on forbidden parts.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    w : Weights
        Plain or lazy.
    theta : ndarray of shape (>= n_parts,)
        Takes the potentials.

    See Also
    --------
    skstruct.core.oracles.accumulate : The adjoint.
    skstruct.core.scores : What most kernels of it call.

    Examples
    --------
    Three nodes of two labels, and one table of transitions, make ten parts:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import potentials
    >>> from skstruct.core.weights import zero_weights
    >>> from skstruct.testing import training_problem
    >>> problem, _, shapes, _ = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])
    >>> w, theta = zero_weights(shapes), np.empty(10)
    >>> w.node[0] = 1.0, 2.0  # of the first feature, which the first node has
    >>> potentials(problem, 0, w, theta)
    >>> theta
    array([1., 2., 0., 0., 0., 0., 0., 0., 0., 0.])
    """


@generic(part="space")
def forbid(problem, i: int, theta: Floats) -> None:
    """Write or add -inf to the parts that no labelling of sample i may have, and nothing else.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Its potentials.

    See Also
    --------
    skstruct.core.oracles.potentials : Calls it when all potentials are written.

    Examples
    --------
    Steps from b to a are forbidden:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import forbid
    >>> from skstruct.testing import training_problem
    >>> chain = Chain(forbidden=[("b", "a")])
    >>> problem, theta = training_problem(chain, [np.eye(2)], [["a", "b"]])[0], np.zeros(8)
    >>> forbid(problem, 0, theta)
    >>> theta[4:].reshape(2, 2)
    array([[  0.,   0.],
           [-inf,   0.]])
    """


@generic(part="rows")
def accumulate(problem, i: int, r: Floats, c: Pair, w: Weights) -> None:
    """``w <- w + c[0] A_i' r``, and ``d <- d + c[1] A_i' r`` when `w` is lazy; `c` is a pair.

    Where ``w.share`` is not empty only in the columns that are the thread's. A kernel that adds by
    :func:`skstruct.core.features.add_outer` alone does so: the class that it is registered for says
    it by ``adds_by_columns = True`` (:func:`adds_by_columns`), else one thread adds everything.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    r : ndarray of shape (>= n_parts,)
        A residual.
    c : tuple of two floats
        What is added to the weights and to their direction, per unit of `r`.
    w : Weights
        Plain or lazy; added to.

    See Also
    --------
    skstruct.core.oracles.potentials : The feature map itself.
    skstruct.core.add_outer : What most kernels of it call.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import accumulate
    >>> from skstruct.core.weights import zero_weights
    >>> from skstruct.testing import training_problem
    >>> problem, _, shapes, _ = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])
    >>> w, r = zero_weights(shapes), np.eye(10)[0]
    >>> accumulate(problem, 0, r, (2.0, 0.0), w)
    >>> w.node[0], w.node[-1]  # the feature of the first node, and the intercept
    (array([2., 0.]), array([2., 0.]))
    """


@generic(part="rows")
def gram(problem, i: int, r: Floats, out: Floats) -> None:
    """``out <- A_i A_i' r``: how the potentials answer a step along the sample's gradient.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    r : ndarray of shape (>= n_parts,)
        A residual.
    out : ndarray of shape (>= n_parts,)
        Takes the product.

    See Also
    --------
    skstruct.core.oracles.potentials : The feature map.
    skstruct.core.oracles.accumulate : Its adjoint.

    Examples
    --------
    A step on the first node moves the others by the intercept that they share:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import gram
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> out = np.empty(10)
    >>> gram(problem, 0, np.eye(10)[0], out)
    >>> out[:6]
    array([2., 0., 1., 0., 1., 0.])
    """


@generic
def truth(problem, i: int, labels: Labels) -> None:
    """Write the true labelling ``y_i`` to ``labels``: by default what ``problem.labels`` says.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    labels : ndarray of shape (>= n_nodes,) of int32
        Takes the labelling.

    See Also
    --------
    skstruct.core.oracles.score : The score of a labelling.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import truth
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> labels = np.empty(3, dtype=np.int32)
    >>> truth(problem, 0, labels)
    >>> labels
    array([0, 1, 0], dtype=int32)
    """


@truth.register(object)
@kernel
def _(problem, i, labels):
    first = problem.label_ptr[i]
    for t in range(problem.label_ptr[i + 1] - first):
        labels[t] = problem.labels[first + t]


@generic(part="space")
def add_indicator(problem, i: int, labels: Labels, c: float, mu: Floats) -> None:
    """``mu += c mu(labels)``.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    labels : ndarray of shape (>= n_nodes,) of int32
        A labelling.
    c : float
        How often.
    mu : ndarray of shape (>= n_parts,)
        Added to.

    See Also
    --------
    skstruct.core.oracles.score : The product of potentials with an indicator.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import add_indicator
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> mu = np.zeros(10)
    >>> add_indicator(problem, 0, np.array([0, 1, 0], dtype=np.int32), 1.0, mu)
    >>> mu[:6], mu[6:]  # nodes; transitions from a to b and from b to a
    (array([1., 0., 0., 1., 1., 0.]), array([0., 1., 1., 0.]))
    """


@generic(part="space")
def score(problem, i: int, theta: Floats, labels: Labels) -> float:
    """``<theta, mu(labels)>``.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    labels : ndarray of shape (>= n_nodes,) of int32
        A labelling.

    Returns
    -------
    float
        Its score.

    See Also
    --------
    skstruct.core.oracles.max_oracle : The labelling of the largest one.
    skstruct.core.oracles.add_indicator : The indicator.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import score
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> score(problem, 0, np.arange(10.0), np.array([0, 1, 0], dtype=np.int32))
    22.0
    """


@generic(part="space")
def score_rows(
    problem, i: int, theta: Floats, labels: Labels, shares: Floats, values: Floats
) -> None:
    """Write the scores of labellings that a solver keeps to `values`.

    Each has a share; those of negative ones are left out. `labels` has one after the other, each
    with the labels of all samples. Short samples would be lost in calls of :func:`score`.
    """


@score_rows.register(object)
@kernel
def _(problem, i, theta, labels, shares, values):
    first, n = problem.label_ptr[i], problem.label_ptr[i + 1] - problem.label_ptr[i]
    stride = labels.shape[0] // shares.shape[0]
    for row in range(shares.shape[0]):
        if shares[row] >= 0.0:
            at = row * stride + first
            values[row] = score(problem, i, theta, labels[at : at + n])


@generic(part="target")
def task_loss(problem, i: int, labels: Labels) -> float:
    """``Delta(y_i, labels)``, a float, at least 0 and 0 for the truth.

    Solvers keep it as a number beside each labelling that they meet. (What weights of classes and
    nodes add in a CRF may be negative; it is never asked for as a number.)

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    labels : ndarray of shape (>= n_nodes,) of int32
        A labelling.

    Returns
    -------
    float
        What it costs.

    See Also
    --------
    skstruct.core.oracles.augment : The same as potentials, where it adds up over parts.
    skstruct.losses.task.cost_matrix : The task losses that users name.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import task_loss
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> task_loss(problem, 0, np.zeros(3, dtype=np.int32))  # one of three nodes is wrong
    1.0
    """


@generic(part="target")
def augment(problem, i: int, theta: Floats) -> None:
    """``theta += l_i``, where ``<l_i, mu(y)> = Delta(y_i, y)`` for every labelling y.

    Only for a task loss that is linear in parts: a structure with another one registers
    :func:`loss_augmented_max` instead. What needs linearity, since it asks for the loss of mixtures
    or of labellings that nobody has seen: the defaults of :func:`loss_augmented_max` and of
    :func:`loss_augmented_top_k`, relaxations, the entropy-smoothed hinge, dual decomposition
    (GDMM). See :func:`loss_is_linear`.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials, added to.

    See Also
    --------
    skstruct.core.oracles.task_loss : The loss of one labelling.
    skstruct.core.oracles.loss_augmented_max : What a structure with another loss registers.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import augment
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> theta = np.zeros(10)
    >>> augment(problem, 0, theta)
    >>> theta[:6]  # 1 for each wrong label
    array([0., 1., 1., 0., 0., 1.])
    """


def adds_by_columns(problem) -> bool:
    """Return whether threads can share :func:`accumulate`, each in columns of its own.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.

    Returns
    -------
    bool
        Whether the class that registers :func:`accumulate` says so; a subclass with a kernel of its
        own speaks for itself.

    See Also
    --------
    skstruct.core.oracles.accumulate : The operation that is asked about.

    Examples
    --------
    >>> from skstruct.core.oracles import adds_by_columns
    >>> adds_by_columns(())
    False
    """
    return _says("adds_by_columns", accumulate, getattr(problem, "rows", None))


def _says(name, verb, part):
    """Whether the class that has registered the kernel of a part has a flag."""
    owners = [cls for cls in type(part).__mro__ if cls in verb.registry and cls is not object]
    return bool(owners) and bool(vars(owners[0]).get(name, False))


def n_shared_parts(problem) -> int:
    """How many potentials at the end of every sample are those of all samples.

    Kernels need to write them once. 0 where rows or space have kernels that do not say that they
    leave out what `theta` has no room for, ``writes_what_fits = True``.
    """
    rows, space = problem.rows, problem.space
    # Potentials of a space, or of another class of problems, are not those of the rows.
    kinds = *type(space).__mro__[:-1], *type(problem).__mro__[:-1]
    if any(cls in potentials.registry and "parts" not in vars(cls) for cls in kinds):
        return 0
    writes = _says("writes_what_fits", potentials, rows), _says("writes_what_fits", forbid, space)
    return rows.n_shared if all(writes) else 0


@generic(part="space")
def max_oracle(problem, i: int, theta: Floats, labels: Labels) -> float:
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
def loss_augmented_max(problem, i: int, theta: Floats, labels: Labels, augmented: Floats) -> float:
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


@generic(part="space")
def relaxed_oracle(problem, i: int, theta: Floats, labels: Labels, mu: Floats) -> Pair:
    """Write a point of the LP relaxation to `mu`, fractional where it is not tight.

    Returns two numbers, ``(bound, value)``: an upper bound on the score of every point of the
    relaxation (of every labelling is not enough: dual points are such points), and ``<theta, mu>``,
    which lies below the bound where the LP was not solved to its end. `labels` takes a labelling
    whose score is the value where the point is one; else any good one, or -1 as its first entry. A
    structure that has this operation is trained on the relaxed hinge (Finley and Joachims 2008,
    Training structural SVMs when exact inference is intractable); whoever certifies takes the
    bound, whoever steps toward `mu` its value.

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
    >>> from skstruct.spaces.chain import ChainSpace
    >>> from skstruct.spaces.label_sets import ManyLabelsSpace
    >>> relaxed_oracle.supports(ChainSpace), relaxed_oracle.supports(ManyLabelsSpace)
    (False, True)
    """


@generic(part="space")
def top_k_oracle(problem, i: int, theta: Floats, values: Floats, labels: LabelRows) -> None:
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
def loss_augmented_top_k(
    problem, i: int, theta: Floats, values: Floats, labels: LabelRows, augmented: Floats
) -> None:
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


@generic(part="space")
def exp_oracle(problem, i: int, theta: Floats, temperature: float, mu: Floats) -> float:
    """Write the marginals of ``p(y) ~ exp(<theta, mu(y)> / temperature)`` to `mu`, if it has room.

    Returns ``temperature * log sum_y exp(<theta, mu(y)> / temperature)``, the log-partition, which
    is not finite when the constraints leave no labelling. An empty `mu` asks for nothing else. A
    problem whose ``inference`` is "relaxed" may give a bound above it that is convex in the
    potentials, and pseudo-marginals, its gradient but for :func:`exp_slack`.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    temperature : float
        Positive: near 0 it is the maximum.
    mu : ndarray of shape (>= n_parts,) or (0,)
        Takes the marginals.

    Returns
    -------
    float
        The log-partition.

    See Also
    --------
    skstruct.core.oracles.max_oracle : The hard maximum.
    skstruct.core.oracles.edge_marginals : Marginals of each edge, where edges share parts.

    Examples
    --------
    Eight labellings of equal scores:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import exp_oracle
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> mu = np.empty(10)
    >>> round(float(np.exp(exp_oracle(problem, 0, np.zeros(10), 1.0, mu))), 6)
    8.0
    >>> mu.round(6)
    array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """


@generic(part="space")
def exp_slack(problem) -> float:
    """Bound on what score and entropy of the marginals of the last :func:`exp_oracle` lack.

    0 where it is exact. The entropy of the marginals as a dual point is at least
    ``value - <theta, mu>`` less this slack.
    """


@exp_slack.register(object)
@kernel
def _(problem):
    return 0.0


@generic(part="space")
def euclidean_oracle(problem, i: int, theta: Floats, temperature: float, mu: Floats) -> float:
    """Write the projection of ``theta / temperature`` onto the hull of labellings to `mu`.

    It maximises ``<theta, mu> - temperature / 2 |mu|^2``, with the norm that the structure names;
    returns that maximum. `mu` lies in the hull to the last digits, also where the projection was
    stopped early: whoever certifies takes it for a dual point. Where it returns -inf (there is no
    labelling) or NaN (the structure cannot project these potentials: edges that repel where it
    cuts), `mu` is 0. The structured extragradient of
    Taskar, Lacoste-Julien and Jordan 2006, Structured prediction, dual extragradient and Bregman
    projections, section 4.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    temperature : float
        Positive.
    mu : ndarray of shape (>= n_parts,)
        Takes the point.

    Returns
    -------
    float
        The maximum.

    See Also
    --------
    skstruct.core.oracles.exp_oracle : The same under the entropy of labellings.
    skstruct.ExtragradientSSVM : The solver that asks for it.

    Examples
    --------
    >>> from skstruct import Chain, Matching
    >>> from skstruct.core.oracles import euclidean_oracle
    >>> from skstruct.testing import training_problem
    >>> X = [[[[1.0], [0.0]], [[0.0], [1.0]]]]
    >>> matching = training_problem(Matching(), X, [[0, 1]])[0]
    >>> chain = training_problem(Chain(), [[[1.0], [0.0]]], [["a", "b"]])[0]
    >>> [euclidean_oracle.supports(problem) for problem in (matching, chain)]
    [True, False]
    """


@generic(part="space")
def edge_marginals(problem, i: int, theta: Floats, mu: Floats, out: Floats) -> float:
    """Write the (label, label) marginals of each edge to flat `out`, edge by edge.

    The node block of `mu` takes the node marginals; returns the log-partition.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    mu : ndarray of shape (>= n_parts,)
        Takes the node marginals.
    out : ndarray of shape (n_edges * n_labels ** 2,)
        Takes the marginals of edges.

    Returns
    -------
    float
        The log-partition.

    See Also
    --------
    skstruct.core.oracles.exp_oracle : Marginals of parts.
    skstruct.SAGCRF.predict_marginals : Asks for it, with ``pairwise=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import edge_marginals
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> mu, out = np.empty(10), np.empty(8)
    >>> round(float(np.exp(edge_marginals(problem, 0, np.zeros(10), mu, out))), 6)
    8.0
    >>> out.round(6)
    array([0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25])
    """


@generic(part="space")
def sample_oracle(
    problem, i: int, theta: Floats, mu: Floats, room: Floats, uniforms: FloatRows, labels: LabelRows
) -> float:
    """Write draws from ``p(y) ~ exp(<theta, mu(y)>)`` to the rows of `labels`.

    Each node takes one number of `uniforms`. Structures of nodes that have no kernel of their own
    draw node by node from :func:`exp_oracle`, given the labels before.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    mu, room : ndarray of shape (>= n_parts,)
        Scratch; `room` has n_edges * n_labels ** 2 numbers at least.
    uniforms : ndarray of shape (n_nodes, n_draws)
        Independent numbers from [0, 1).
    labels : ndarray of shape (n_draws, n_nodes) of int32
        Takes the labellings.

    Returns
    -------
    float
        The log-partition; if it is not finite there is nothing to draw.

    See Also
    --------
    skstruct.core.oracles.exp_oracle : The marginals that it draws from where it has no own kernel.
    skstruct.SAGCRF.sample : Asks for it.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import sample_oracle
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> mu, room, labels = np.empty(10), np.empty(10), np.empty((2, 3), dtype=np.int32)
    >>> uniforms = np.array([[0.1, 0.9], [0.4, 0.6], [0.6, 0.4]])
    >>> log_z = sample_oracle(problem, 0, np.zeros(10), mu, room, uniforms, labels)
    >>> labels.tolist()
    [[0, 0, 1], [1, 1, 0]]
    """


@generic(part="space")
def entropy(problem, i: int, theta: Floats, mu: Floats, room: Floats) -> float:
    """Return the entropy of ``p(y) ~ exp(<theta, mu(y)>)`` in nats, NaN if there is no labelling.

    By default the log-partition less the expected score, whose digits are those of the scores;
    what adds up over nodes is small where it should be.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    mu, room : ndarray of shape (>= n_parts,)
        Scratch; `room` has n_edges * n_labels ** 2 numbers at least.

    Returns
    -------
    float
        The entropy.

    See Also
    --------
    skstruct.core.oracles.exp_oracle : The log-partition.
    skstruct.SAGCRF.predict_entropy : Asks for it.

    Examples
    --------
    Eight labellings of equal scores:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import entropy
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> round(float(np.exp(entropy(problem, 0, np.zeros(10), np.empty(10), np.empty(10)))), 6)
    8.0
    """


@entropy.register(object)
@kernel
def _(problem, i, theta, mu, room):
    value = exp_oracle(problem, i, theta, 1.0, mu)
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        if mu[q] != 0.0:  # else theta may be -inf
            value -= theta[q] * mu[q]
    return value if value > 0.0 or value != value else 0.0


class ChunkRules(NamedTuple):
    """Which steps from label to label make up chunks; label `n_labels` is beyond an end."""

    # (n_labels + 1, n_labels + 1): 1 for the steps that begin a chunk, that begin one unless they
    # go on with one, that do neither of these, that go on with a chunk, that end one.
    begins: np.ndarray
    begins_outside: np.ndarray
    misses: np.ndarray
    stays: np.ndarray
    ends: np.ndarray
    # (n_labels,): The kind of each label.
    kind: np.ndarray
    # (n_labels,), (n_kinds + 1,): The labels by kind, and where those of each kind begin.
    labels: np.ndarray
    ptr: np.ndarray
    # Whether there are steps that begin a chunk unless they go on with one.
    is_ambiguous: bool

    @classmethod
    def of(cls, steps, kind):
        """From masks of the steps that begin chunks, go on with them, end them; and kinds."""
        begins, stays, ends = steps
        masks = begins & ~stays, begins & stays, ~begins, stays, ends
        tables = (np.ascontiguousarray(mask, dtype=np.float64) for mask in masks)
        order, ptr = np.argsort(kind, kind="stable"), ends_of(np.bincount(kind))
        return cls(*tables, kind, order, ptr, bool((begins & stays).any()))

    def repeated(self, labels):
        """The same for other labels, each of which stands for one of these."""
        at, kind = np.append(labels, self.kind.size), self.kind[labels]
        tables = (np.ascontiguousarray(table[np.ix_(at, at)]) for table in self[:5])
        order = np.argsort(kind, kind="stable")
        ptr = ends_of(np.bincount(kind, minlength=self.ptr.size - 1))
        return ChunkRules(*tables, kind, order, ptr, self.is_ambiguous)


declare(ChunkRules.of(np.zeros((3, 1, 1), dtype=bool), np.zeros(0, dtype=np.int64)))


@generic(part="space")
def chunk_marginals(
    problem, i: int, theta: Floats, rules: ChunkRules, chunks: LabelRows, mu: Floats, out: Floats
) -> float:
    """Write the probability that a labelling has these very chunks, each for itself, to `out`.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    rules : ChunkRules
        What chunks are made of; of chains under rules that of the labels of the wider chain.
    chunks : ndarray of shape (n_chunks, 3) of int32
        First node, the node after the last, and kind of each.
    mu : ndarray of shape (>= n_parts,)
        The node block takes the node marginals.
    out : ndarray of shape (>= n_chunks,)
        Takes the probabilities.

    Returns
    -------
    float
        The log-partition.

    See Also
    --------
    skstruct.core.oracles.edge_marginals : Marginals of each edge.
    skstruct.SAGCRF.predict_chunks : Asks for it.

    Examples
    --------
    Of the eight labellings of three nodes one has the run "aa" at the first two:

    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import ChunkRules, chunk_marginals
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> same, end = np.eye(3, dtype=bool), np.arange(3) == 2
    >>> rules = ChunkRules.of([~same & ~end, same, ~same & ~end[:, None]], np.arange(2))
    >>> out, chunks = np.empty(1), np.array([[0, 2, 0]], dtype=np.int32)
    >>> log_z = chunk_marginals(problem, 0, np.zeros(10), rules, chunks, np.empty(10), out)
    >>> out.round(6)
    array([0.125])
    """


# Below the largest number, so that sums of scores are finite, too.
_LARGEST_SCORE = 1e300


@inner_kernel
def overflows(theta, size):
    """Return whether a potential is NaN or too large; -inf is a label that is not allowed.

    Decoders compare: a label whose score is NaN would only drop out of sight.
    """
    bad = 0
    for q in range(size):
        bad += 0 if theta[q] <= _LARGEST_SCORE else 1
    return bad > 0


@inner_kernel(inline=True)
def log_partition(problem, i, theta, temperature):
    """The value of :func:`exp_oracle` without the marginals."""
    return exp_oracle(problem, i, theta, temperature, theta[:0])


@generic(part="space")
def max_marginals(problem, i: int, theta: Floats, out: Floats) -> None:
    """``out[t * n_labels + k]``: the largest score of a labelling with label k at node t.

    -inf where no labelling has it. Each node's largest is the value of :func:`max_oracle`; what a
    label lacks of it is the price of forcing that label (Yanover and Weiss 2003, Finding the M most
    probable configurations using loopy belief propagation).

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.
    theta : ndarray of shape (>= n_parts,)
        Potentials.
    out : ndarray of shape (>= n_nodes * n_labels,)
        Takes the scores.

    See Also
    --------
    skstruct.core.oracles.count_states : The number of labels.
    skstruct.graphs.top_k_by_max_marginals : Finds the n best labellings by it.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import max_marginals
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> out = np.empty(6)
    >>> max_marginals(problem, 0, np.arange(10.0), out)
    >>> out.reshape(3, 2)
    array([[24., 27.],
           [23., 27.],
           [25., 27.]])
    """


@generic(part="space")
def count_states(problem, i: int) -> int:
    """Return the number of labels of a node of sample i, ``n_labels`` of :func:`max_marginals`.

    ``theta[t * count_states(problem, i) + k]`` is the potential of label k at node t; -inf forbids
    that label.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    i : int
        The sample.

    Returns
    -------
    int
        The number.

    See Also
    --------
    skstruct.core.oracles.max_marginals : Has so many numbers a node.
    skstruct.graphs.Graph.n_states : The same in Python.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.oracles import count_states
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> count_states(problem, 0)
    2
    """


def has_own_loss(problem, verb=loss_augmented_max) -> bool:
    """Return whether the space of a problem has its own `loss_augmented_max`, not the default."""
    return not verb.registry.keys().isdisjoint(type(problem.space).__mro__[:-1])


def loss_is_linear(problem) -> bool:
    """Return whether the task loss is ``<l_i, mu(y)>``, as :func:`augment` defines it."""
    return augment.supports(problem)


def require_linear_loss(problem, advice) -> None:
    """Raise in Python, before any compile, unless the task loss is linear in parts."""
    if not loss_is_linear(problem):
        kind = type(problem.space)
        structure = getattr(kind, "structure", kind.__name__)
        raise TypeError(f"the task loss of {structure} does not add up over parts; {advice}")


# Feature that each verb provides, for the message where a structure lacks it.
max_oracle.gives = "exact best labellings"
top_k_oracle.gives = "n-best labellings"
exp_oracle.gives = "marginals"
euclidean_oracle.gives = "Euclidean projections"
edge_marginals.gives = "marginals of edges"
chunk_marginals.gives = "chunks"
sample_oracle.gives = "draws"
max_marginals.gives = "best scores of forced labels"
count_states.gives = "labels of nodes"
