"""The verbs of the feature map and of one labelling; :mod:`.oracles` has what they share."""

from .dispatch import generic


@generic
def potentials(problem, i, w, theta):
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


@generic
def accumulate(problem, i, r, c, w):
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


@generic
def gram(problem, i, r, out):
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
def truth(problem, i, labels):
    """Write the true labelling ``y_i`` to ``labels``.

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


@generic
def add_indicator(problem, i, labels, c, mu):
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


@generic
def score(problem, i, theta, labels):
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


@generic
def task_loss(problem, i, labels):
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


@generic
def augment(problem, i, theta):
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
    """Whether threads can share what :func:`accumulate` does, each in columns of its own.

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
    skstruct.core.oracles.accumulate : The verb that is asked about.

    Examples
    --------
    >>> from skstruct.core.oracles import adds_by_columns
    >>> adds_by_columns(())
    False
    """
    for cls in type(problem).__mro__:
        if cls in accumulate.registry:
            return bool(vars(cls).get("adds_by_columns", False))
    return False
