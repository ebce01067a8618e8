"""The generic verbs: what a solver may ask of a structure, each contract written once.

Conventions shared by all verbs:

* `problem` is a NamedTuple of arrays and scalars. Besides what its own kernels need it has
  ``part_ptr`` (int64, parts of sample i are ``part_ptr[i]:part_ptr[i+1]``), ``label_ptr`` (int64,
  where the labelling of sample i lies in a flat array of labels), and ``work`` (float64 scratch:
  every thread brings its own, see :func:`skstruct.graphs.base.private_copy`).
* `theta`, `mu`, `r` are flat float64 arrays over the parts of one sample, from index 0: the node
  block first, then the pairwise block. They may be longer than the sample needs.
* A *labelling* is an int32 array, one entry per node; ``mu(y)`` is its 0/1 indicator over parts.
* ``A_i`` is the feature map of sample i: ``theta = A_i w``.
* Kernels allocate nothing. Ties go to the lowest label. Forbidden parts score -inf.
"""

from .dispatch import generic, kernel


@generic
def potentials(problem, i, w, theta):
    """``theta <- A_i w``, with -inf on forbidden parts."""


@generic
def accumulate(problem, i, r, c, w):
    """``w <- w + c[0] A_i' r``, and ``d <- d + c[1] A_i' r`` when `w` is lazy; `c` is a pair."""


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
def augment(problem, i, theta):
    """``theta += l_i``, the task loss against ``y_i``, which is linear in parts."""


@generic
def task_loss(problem, i, labels):
    """``Delta(y_i, labels)``, a float."""


@generic
def max_oracle(problem, i, theta, labels):
    """Write a labelling of largest score to `labels` and return that score.

    -inf when the constraints leave no labelling.
    """


@generic
def relaxed_oracle(problem, i, theta, labels, mu):
    """Write an optimum of the LP relaxation to `mu`, fractional where it is not tight.

    Returns its score, an upper bound on that of every labelling; `labels` is scratch. A structure
    that has this verb is trained on the relaxed hinge, and its :func:`max_oracle` returns the same
    bound with a labelling decoded from the optimum.
    """


@generic
def top_k_oracle(problem, i, theta, values, labels):
    """Write the ``len(values)`` best labellings, best first, to the rows of `labels`.

    `values` takes their scores, -inf where there are fewer labellings.
    """


@generic
def exp_oracle(problem, i, theta, temperature, mu):
    """Write the marginals of ``p(y) ~ exp(<theta, mu(y)> / temperature)`` to `mu`, if it has room.

    Returns ``temperature * log sum_y exp(<theta, mu(y)> / temperature)``, the log-partition, which
    is not finite when the constraints leave no labelling. An empty `mu` asks for nothing else.
    """


@generic
def edge_marginals(problem, i, theta, mu, out):
    """Write the (label, label) marginals of each edge to flat `out`, edge by edge.

    The node block of `mu` takes the node marginals; returns the log-partition.
    """


@kernel
def log_partition(problem, i, theta, temperature):
    """The value of :func:`exp_oracle` without the marginals."""
    return exp_oracle(problem, i, theta, temperature, theta[:0])


# What users get by a verb, for the message where a structure lacks it.
max_oracle.gives = "exact best labellings"
top_k_oracle.gives = "n-best labellings"
exp_oracle.gives = "marginals"
edge_marginals.gives = "marginals of edges"
