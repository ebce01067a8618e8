"""The generic verbs: what a solver may ask of a structure, each contract written once.

Conventions shared by all verbs:

* `problem` is a NamedTuple of arrays and scalars. Besides what its own kernels need it has
  ``part_ptr`` (int64, parts of sample i are ``part_ptr[i]:part_ptr[i+1]``), ``label_ptr`` (int64,
  where the labelling of sample i lies in a flat array of labels), ``labels`` (int32, the true ones
  in that layout; empty when unknown) and ``work`` (scratch, a NamedTuple of arrays: every thread
  brings its own, see :func:`skstruct.core.threads.private_copy`). Verbs write to nothing else.
* `theta`, `mu`, `r` are flat float64 arrays over the parts of one sample, from index 0: the node
  block first, then the pairwise block. They may be longer than the sample needs.
* A *labelling* is an int32 array, one entry per node; ``mu(y)`` is its 0/1 indicator over parts.
* ``A_i`` is the feature map of sample i: ``theta = A_i w``.
* A verb writes to the arguments that its contract names and to ``problem.work``, to nothing else:
  not to other fields of the problem, and not to `theta` unless the contract says so.
* Kernels allocate nothing. Ties go to the lowest label. Forbidden parts score -inf.

A structure registers what it can do; asking for more is a ``TypeError`` before any compile.

=========================================================  =========================================
Verbs                                                      Needed by
=========================================================  =========================================
`potentials`                                               everything
`max_oracle`                                               ``predict``, every SSVM
`truth`, `score`, `add_indicator`, `accumulate`            all training
`gram`                                                     SAG and SAGA, BCFW, Casimir
`task_loss`, `augment` (or an own `loss_augmented_max`)    every SSVM
`exp_oracle`                                               CRFs, entropy smoothing, marginals
`top_k_oracle`                                             n-best decoding, L2 smoothing
`loss_augmented_top_k`                                     L2 smoothing where `augment` is not there
`relaxed_oracle`                                           SSVMs of structures with an LP relaxation
`edge_marginals`                                           ``predict_marginals(pairwise=True)``
`max_marginals`                                            searches that force labels one by one
`count_states`                                             n-best labellings by max-marginals
`euclidean_oracle`                                         Euclidean projections (extragradient)
`entropic_oracle`                                          projections where `exp_oracle` is hard
=========================================================  =========================================

The exactness of ``loss_augmented_max`` is what the cutting-plane view of structural SVMs asks for
(Tsochantaridis et al. 2005, Large margin methods for structured and interdependent output
variables); losses that do not add up over parts are those of Blaschko and Lampert 2008, Learning to
localize objects with structured output regression.
"""

from .dispatch import generic, inner_kernel
from .labellings import (
    accumulate,
    add_indicator,
    adds_by_columns,
    augment,
    gram,
    potentials,
    score,
    task_loss,
    truth,
)
from .maxima import (
    loss_augmented_max,
    loss_augmented_top_k,
    max_oracle,
    relaxed_oracle,
    top_k_oracle,
)

__all__ = [
    "accumulate",
    "add_indicator",
    "adds_by_columns",
    "augment",
    "count_states",
    "edge_marginals",
    "entropic_oracle",
    "euclidean_oracle",
    "exp_oracle",
    "gram",
    "has_own_loss",
    "log_partition",
    "loss_augmented_max",
    "loss_augmented_top_k",
    "loss_is_linear",
    "max_marginals",
    "max_oracle",
    "potentials",
    "relaxed_oracle",
    "require_linear_loss",
    "score",
    "task_loss",
    "top_k_oracle",
    "truth",
]


@generic
def exp_oracle(problem, i, theta, temperature, mu):
    """Write the marginals of ``p(y) ~ exp(<theta, mu(y)> / temperature)`` to `mu`, if it has room.

    Returns ``temperature * log sum_y exp(<theta, mu(y)> / temperature)``, the log-partition, which
    is not finite when the constraints leave no labelling. An empty `mu` asks for nothing else.

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


@generic
def euclidean_oracle(problem, i, theta, temperature, mu):
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
    skstruct.core.oracles.entropic_oracle : The same under an entropy.
    skstruct.ExtragradientSSVM : The solver that asks for it.

    Examples
    --------
    >>> from skstruct import Chain, Matching
    >>> from skstruct.core.oracles import euclidean_oracle
    >>> from skstruct.testing import training_problem
    >>> X = [[[[1.0], [0.0]], [[0.0], [1.0]]]]
    >>> matching = training_problem(Matching(), X, [[0, 1]])[0]
    >>> chain = training_problem(Chain(), [[[1.0], [0.0]]], [["a", "b"]])[0]
    >>> [euclidean_oracle.supports(type(problem)) for problem in (matching, chain)]
    [True, False]
    """


@generic
def entropic_oracle(problem, i, theta, temperature, mu):
    """Like :func:`euclidean_oracle` under the entropy of the parts, each for itself.

    It maximises ``<theta, mu> - temperature sum_q mu_q log mu_q``: where :func:`exp_oracle`, whose
    entropy is that of whole labellings, is out of reach. A choice that is no part (in a matching:
    no link) may have a term, too. `mu` lies in the hull as there.

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
    skstruct.core.oracles.euclidean_oracle : The same under a norm.
    skstruct.core.oracles.exp_oracle : The entropy of whole labellings.

    Examples
    --------
    >>> from skstruct import Chain, Matching
    >>> from skstruct.core.oracles import entropic_oracle
    >>> from skstruct.testing import training_problem
    >>> X = [[[[1.0], [0.0]], [[0.0], [1.0]]]]
    >>> matching = training_problem(Matching(), X, [[0, 1]])[0]
    >>> chain = training_problem(Chain(), [[[1.0], [0.0]]], [["a", "b"]])[0]
    >>> [entropic_oracle.supports(type(problem)) for problem in (matching, chain)]
    [True, False]
    """


@generic
def edge_marginals(problem, i, theta, mu, out):
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


@inner_kernel(inline=True)
def log_partition(problem, i, theta, temperature):
    """The value of :func:`exp_oracle` without the marginals."""
    return exp_oracle(problem, i, theta, temperature, theta[:0])


@generic
def max_marginals(problem, i, theta, out):
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


@generic
def count_states(problem, i):
    """How many labels a node of sample i can have: the ``n_labels`` of :func:`max_marginals`.

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


def has_own_loss(kind: type, verb=loss_augmented_max) -> bool:
    """Whether a class of problems has a `loss_augmented_max` of its own, not the default."""
    return not verb.registry.keys().isdisjoint(kind.__mro__[:-1])


def loss_is_linear(problem) -> bool:
    """Whether the task loss of a problem is ``<l_i, mu(y)>``, as :func:`augment` says it.

    An `augment` that is inherited does not speak for a class with a `loss_augmented_max` of its
    own: the class must then register both.
    """
    for cls in type(problem).__mro__:
        if cls in augment.registry:
            return True
        if cls in loss_augmented_max.registry:
            return False
    return False


def require_linear_loss(problem, advice) -> None:
    """Raise in Python, before any compile, unless the task loss is linear in parts."""
    if not loss_is_linear(problem):
        structure = getattr(type(problem), "structure", type(problem).__name__)
        raise TypeError(f"the task loss of {structure} does not add up over parts; {advice}")


# What users get by a verb, for the message where a structure lacks it.
max_oracle.gives = "exact best labellings"
top_k_oracle.gives = "n-best labellings"
exp_oracle.gives = "marginals"
euclidean_oracle.gives = "Euclidean projections"
entropic_oracle.gives = "entropic projections"
edge_marginals.gives = "marginals of edges"
max_marginals.gives = "best scores of forced labels"
count_states.gives = "labels of nodes"
