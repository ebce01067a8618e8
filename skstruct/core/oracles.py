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

from .dispatch import generic, inner_kernel, kernel


@generic
def potentials(problem, i, w, theta):
    """``theta <- A_i w``, with -inf on forbidden parts."""


@generic
def accumulate(problem, i, r, c, w):
    """``w <- w + c[0] A_i' r``, and ``d <- d + c[1] A_i' r`` when `w` is lazy; `c` is a pair.

    Where ``w.share`` is not empty only in the columns that are the thread's. A kernel that adds by
    :func:`skstruct.core.features.add_outer` alone does so: the class that it is registered for says
    it by ``adds_by_columns = True`` (:func:`adds_by_columns`), else one thread adds everything.
    """


@generic
def gram(problem, i, r, out):
    """``out <- A_i A_i' r``: how the potentials answer a step along the sample's gradient."""


@generic
def truth(problem, i, labels):
    """Write the true labelling ``y_i`` to ``labels``."""


@generic
def add_indicator(problem, i, labels, c, mu):
    """``mu += c mu(labels)``."""


@generic
def score(problem, i, theta, labels):
    """``<theta, mu(labels)>``."""


@generic
def task_loss(problem, i, labels):
    """``Delta(y_i, labels)``, a float, at least 0 and 0 for the truth.

    Solvers keep it as a number beside each labelling that they meet. (What weights of classes and
    nodes add in a CRF may be negative; it is never asked for as a number.)
    """


@generic
def augment(problem, i, theta):
    """``theta += l_i``, where ``<l_i, mu(y)> = Delta(y_i, y)`` for every labelling y.

    Only for a task loss that is linear in parts: a structure with another one registers
    :func:`loss_augmented_max` instead. What needs linearity, since it asks for the loss of mixtures
    or of labellings that nobody has seen: the defaults of :func:`loss_augmented_max` and of
    :func:`loss_augmented_top_k`, relaxations, the entropy-smoothed hinge, dual decomposition
    (GDMM). See :func:`loss_is_linear`.
    """


@generic
def max_oracle(problem, i, theta, labels):
    """Write a labelling of largest score to `labels` and return its score.

    -inf when the constraints leave no labelling. A structure with :func:`relaxed_oracle` may write
    a labelling that is not the best one; the value is the score of what it wrote, never the bound.
    """


@generic
def loss_augmented_max(problem, i, theta, labels, augmented):
    """Write a labelling that maximises ``<theta, mu(y)> + Delta(y_i, y)`` and return that value.

    `augmented` is scratch of the size of `theta`. The default, for every structure, augments a copy
    of `theta` and calls :func:`max_oracle`. A structure whose loss is not linear in parts registers
    its own. Needed by SSVMs.
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
    """


@generic
def top_k_oracle(problem, i, theta, values, labels):
    """Write the ``len(values)`` best labellings, best first, to the rows of `labels`.

    `values` takes their scores, -inf where there are fewer labellings.
    """


@generic
def loss_augmented_top_k(problem, i, theta, values, labels, augmented):
    """:func:`top_k_oracle` of ``<theta, mu(y)> + Delta(y_i, y)``.

    `augmented` is scratch of the size of `theta`. The default, for every structure, augments a copy
    of `theta`; a structure with a :func:`loss_augmented_max` of its own registers its own, if
    CasimirSSVM is to train it.
    """


@loss_augmented_top_k.register(object)
@kernel
def _(problem, i, theta, values, labels, augmented):
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        augmented[q] = theta[q]
    augment(problem, i, augmented)
    top_k_oracle(problem, i, augmented, values, labels)


@generic
def exp_oracle(problem, i, theta, temperature, mu):
    """Write the marginals of ``p(y) ~ exp(<theta, mu(y)> / temperature)`` to `mu`, if it has room.

    Returns ``temperature * log sum_y exp(<theta, mu(y)> / temperature)``, the log-partition, which
    is not finite when the constraints leave no labelling. An empty `mu` asks for nothing else.
    """


@generic
def euclidean_oracle(problem, i, theta, temperature, mu):
    """Write the projection of ``theta / temperature`` onto the hull of labellings to `mu`.

    It maximises ``<theta, mu> - temperature / 2 |mu|^2``, |.| the norm that the structure names;
    returns that maximum. `mu` lies in the hull to the last digits, also where the projection was
    stopped early: whoever certifies takes it for a dual point. Where it returns -inf (there is no
    labelling) or NaN (the structure cannot project these potentials: edges that repel where it
    cuts), `mu` is 0. The structured extragradient of
    Taskar, Lacoste-Julien and Jordan 2006, Structured prediction, dual extragradient and Bregman
    projections, section 4.
    """


@generic
def entropic_oracle(problem, i, theta, temperature, mu):
    """Like :func:`euclidean_oracle` under the entropy of the parts, each for itself.

    It maximises ``<theta, mu> - temperature sum_q mu_q log mu_q``: where :func:`exp_oracle`, whose
    entropy is that of whole labellings, is out of reach. A choice that is no part (in a matching:
    no link) may have a term, too. `mu` lies in the hull as there.
    """


@generic
def edge_marginals(problem, i, theta, mu, out):
    """Write the (label, label) marginals of each edge to flat `out`, edge by edge.

    The node block of `mu` takes the node marginals; returns the log-partition.
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
    """


@generic
def count_states(problem, i):
    """How many labels a node of sample i can have: the ``n_labels`` of :func:`max_marginals`.

    ``theta[t * count_states(problem, i) + k]`` is the potential of label k at node t; -inf forbids
    that label.
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


def has_own_loss(kind: type, verb=loss_augmented_max) -> bool:
    """Whether a class of problems has a `loss_augmented_max` of its own, not the default.

    Parameters
    ----------
    kind : type
        The class.
    verb : callable
        Or :func:`loss_augmented_top_k`.

    Returns
    -------
    bool
        Whether SSVMs can do without its `augment`.

    Examples
    --------
    >>> from skstruct.core.oracles import has_own_loss
    >>> has_own_loss(tuple)
    False
    """
    return not verb.registry.keys().isdisjoint(kind.__mro__[:-1])


def loss_is_linear(problem) -> bool:
    """Whether the task loss of a problem is ``<l_i, mu(y)>``, as :func:`augment` says it.

    An `augment` that is inherited does not speak for a class with a `loss_augmented_max` of its
    own: the class must then register both.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.

    Returns
    -------
    bool
        Whether solvers may use :func:`augment`.

    Examples
    --------
    >>> from skstruct.core.oracles import loss_is_linear
    >>> loss_is_linear(())
    False
    """
    for cls in type(problem).__mro__:
        if cls in augment.registry:
            return True
        if cls in loss_augmented_max.registry:
            return False
    return False


def require_linear_loss(problem, advice) -> None:
    """Raise in Python, before any compile, unless the task loss is linear in parts.

    Parameters
    ----------
    problem : NamedTuple
        The problem of a structure.
    advice : str
        What to use instead, for the error message.

    Raises
    ------
    TypeError
        If it is not, see :func:`loss_is_linear`.
    """
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
