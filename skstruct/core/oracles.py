"""Operations that structures offer to solvers, each contract written once.

Conventions shared by all operations:

* `problem` is a :class:`skstruct.graphs.Problem`: rows, space and target, with ``part_ptr`` (int64,
  parts of sample i are ``part_ptr[i]:part_ptr[i+1]``), ``label_ptr`` (int64, where the labelling of
  sample i lies in a flat array of labels) and ``labels`` (int32, the true ones in that layout;
  empty when unknown). A kernel receives the part of the problem that its operation belongs to;
  operations of the whole problem receive all of it. Rows and spaces have ``work`` (scratch, a
  NamedTuple of arrays, one copy per thread: see :func:`skstruct.core.parallel.private_copy`).
* Arrays are contiguous, aligned and writable, of the types that the contract declares.
* `i` is the index of a sample; `temperature` is positive.
* `theta` (potentials), `mu` (a point), `r` (a residual) and scratch of their size are flat float64
  arrays of shape (>= n_parts,) over the parts of one sample: node parts first, then those of
  pairs.
* A *labelling* is an int32 array of shape (>= n_nodes,); ``mu(y)`` is its 0/1 indicator over parts.
* ``A_i`` is the feature map of sample i: ``theta = A_i w``.
* An operation writes only to the arguments that its contract names and to ``work``: not to other
  fields of the problem, and not to `theta` unless the contract says so. The one exception is
  ``own`` of a space, memory per sample: the warm start of an oracle, such as the dual point of an
  LP, or the error bound of its last result. It never changes what a contract promises.
* Kernels allocate nothing. Ties go to the lowest label. Forbidden parts score -inf.

A structure registers the operations it supports; a missing one raises a ``TypeError`` before
compilation.

=========================================================  =========================================
Operations                                                 Needed by
=========================================================  =========================================
`potentials` of rows                                       everything
`accumulate`                                               all training
`gram`, given in subclasses of `OwnRows`                   SAG and SAGA, BCFW, Casimir
`task_loss` of targets, and `augment` if it is linear      every SSVM
`forbid` of spaces                                         everything
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
`truth` of the problem                                     all training
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

from .jit.dispatch import generic
from .jit.kernels import inner_kernel, kernel
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
    "row_potentials",
    "sample_oracle",
    "score",
    "score_rows",
    "task_loss",
    "top_k_oracle",
    "truth",
]


@generic
def potentials(problem, i: int, w: Weights, theta: Floats) -> None:
    """``theta <- A_i w``, with -inf on forbidden parts; `w` is plain or lazy."""


@generic(part="rows")
def row_potentials(problem, i: int, w: Weights, theta: Floats) -> None:
    """:func:`potentials` of rows, before parts are forbidden: one table entry for all spaces."""


@row_potentials.register(object)
@kernel
def _(rows, i, w, theta):
    potentials(rows, i, w, theta)


@generic(part="space")
def forbid(problem, i: int, theta: Floats) -> None:
    """Write or add -inf to the parts that no labelling of sample i may have, and nothing else."""


@generic(part="rows")
def accumulate(problem, i: int, r: Floats, c: Pair, w: Weights) -> None:
    """``w <- w + c[0] A_i' r``, and ``d <- d + c[1] A_i' r`` when `w` is lazy; `c` is a pair.

    If ``w.share`` is not empty, only in the columns of this thread. A kernel that adds only by
    :func:`skstruct.core.features.add_outer` does so: the class that it is registered for declares
    it by ``adds_by_columns = True`` (:func:`adds_by_columns`), else one thread adds everything.
    """


@generic(part="rows")
def gram(problem, i: int, r: Floats, out: Floats) -> None:
    """``out <- A_i A_i' r``: the change of the potentials by a step along the sample's gradient."""


@generic
def truth(problem, i: int, labels: Labels) -> None:
    """Write the true labelling ``y_i`` to ``labels``: by default that of ``problem.labels``."""


@truth.register(object)
@kernel
def _(problem, i, labels):
    first = problem.label_ptr[i]
    for t in range(problem.label_ptr[i + 1] - first):
        labels[t] = problem.labels[first + t]


@generic(part="space")
def add_indicator(problem, i: int, labels: Labels, c: float, mu: Floats) -> None:
    """``mu += c mu(labels)``."""


@generic(part="space")
def score(problem, i: int, theta: Floats, labels: Labels) -> float:
    """Return ``<theta, mu(labels)>``."""


@generic(part="space")
def score_rows(
    problem, i: int, theta: Floats, labels: Labels, shares: Floats, values: Floats
) -> None:
    """Write the scores of labellings in a working set: each row has the labels of all samples."""
    # Those of negative weight in `shares` are skipped. One call for all: on short samples, calls of
    # `score` would take longer than the sum.


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
    """Return ``Delta(y_i, labels)``: at least 0, and 0 for the truth.

    Solvers store it with each labelling of their working sets. (In a CRF, class and node weights
    may make it negative; it is then never used as a number.)
    """


@generic(part="target")
def augment(problem, i: int, theta: Floats) -> None:
    """``theta += l_i``, where ``<l_i, mu(y)> = Delta(y_i, y)`` for every labelling y.

    Only for a task loss that is linear in parts: a structure with another one registers
    :func:`loss_augmented_max` instead. Linearity is needed wherever the loss of a mixture, or of a
    labelling that no oracle has returned, is computed: in the defaults of
    :func:`loss_augmented_max` and :func:`loss_augmented_top_k`, relaxations, the entropy-smoothed
    hinge, and dual decomposition (GDMM). See :func:`loss_is_linear`.
    """


def adds_by_columns(problem) -> bool:
    """Return whether threads can divide the columns of :func:`accumulate` among them.

    The class that registers :func:`accumulate` declares it; a subclass with a kernel of its own
    must declare it again.
    """
    return _says("adds_by_columns", accumulate, getattr(problem, "rows", None))


def _says(name, verb, part):
    """Return the flag of the class that registered the kernel of a part."""
    owners = [cls for cls in type(part).__mro__ if cls in verb.registry and cls is not object]
    return bool(owners) and bool(vars(owners[0]).get(name, False))


def n_shared_parts(problem) -> int:
    """Number of potentials at the end that all samples share: kernels write them once."""
    # 0 unless the kernels of rows and space declare `writes_what_fits`: they skip the parts beyond
    # the end of `theta`.
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
    a suboptimal labelling; the value is the score of the labelling written, never the bound.
    """


@generic
def loss_augmented_max(problem, i: int, theta: Floats, labels: Labels, augmented: Floats) -> float:
    """Write a labelling that maximises ``<theta, mu(y)> + Delta(y_i, y)`` and return that value.

    `augmented` is scratch of the size of `theta`. The default augments a copy of `theta` and calls
    :func:`max_oracle`. A structure whose loss is not linear in parts registers its own.
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
    """Write a point of the LP relaxation to `mu`, fractional where the relaxation is not tight.

    Returns ``(bound, value)``: an upper bound on the score of every point of the relaxation (a
    bound on the score of labellings is not enough, since dual points are points of the relaxation),
    and ``<theta, mu>``, which is below the bound if the LP was not solved to the end. `labels`
    receives a labelling whose score is the value if the point is integral; otherwise any good one,
    or -1 as its first entry. A structure with this operation is trained on the relaxed hinge
    (Finley and Joachims 2008, Training structural SVMs when exact inference is intractable):
    certificates use the bound, steps toward `mu` its value.
    """


@generic(part="space")
def top_k_oracle(problem, i: int, theta: Floats, values: Floats, labels: LabelRows) -> None:
    """Write the ``len(values)`` best labellings, best first, to the rows of `labels`.

    `values`, of shape (k,), receives their scores, -inf where there are fewer labellings; `labels`
    is of shape (k, >= n_nodes).
    """


@generic
def loss_augmented_top_k(
    problem, i: int, theta: Floats, values: Floats, labels: LabelRows, augmented: Floats
) -> None:
    """:func:`top_k_oracle` of ``<theta, mu(y)> + Delta(y_i, y)``.

    `augmented` is scratch of the size of `theta`. The default augments a copy of `theta`; a
    structure with its own :func:`loss_augmented_max` registers its own, if CasimirSSVM is to train
    it.
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
    """Write the marginals of ``p(y) ~ exp(<theta, mu(y)> / temperature)`` to `mu`.

    Returns ``temperature * log sum_y exp(<theta, mu(y)> / temperature)``, the log-partition, which
    is not finite when the constraints leave no labelling. With an empty `mu`, only the value is
    computed. A space whose ``inference`` is "relaxed" may return an upper bound that is convex in
    the potentials, and write pseudo-marginals: its gradient up to :func:`exp_slack`.
    """


@generic(part="space")
def exp_slack(problem) -> float:
    """Upper bound on the suboptimality of the last :func:`exp_oracle`; 0 where it is exact.

    The entropy of its marginals, as a dual point, is at least ``value - <theta, mu>`` minus this.
    """


@exp_slack.register(object)
@kernel
def _(problem):
    return 0.0


@generic(part="space")
def euclidean_oracle(problem, i: int, theta: Floats, temperature: float, mu: Floats) -> float:
    """Write the projection of ``theta / temperature`` onto the hull of labellings to `mu`.

    Returns the maximum of ``<theta, mu> - temperature / 2 |mu|^2``, in the norm of the structure.
    `mu` lies in the hull up to rounding, also if the projection was stopped early: certificates use
    it as a dual point. -inf without a labelling, NaN if the structure cannot project these
    potentials (repulsive edges of a graph cut); `mu` is then 0. For the structured extragradient
    method of Taskar, Lacoste-Julien and Jordan 2006, Structured prediction, dual extragradient and
    Bregman projections, section 4.
    """


@generic(part="space")
def edge_marginals(problem, i: int, theta: Floats, mu: Floats, out: Floats) -> float:
    """Write the (label, label) marginals of each edge to flat `out`, edge by edge.

    `out` is of shape (n_edges * n_labels ** 2,). The node parts of `mu` receive the node
    marginals; returns the log-partition.
    """


@generic(part="space")
def sample_oracle(
    problem, i: int, theta: Floats, mu: Floats, room: Floats, uniforms: FloatRows, labels: LabelRows
) -> float:
    """Write draws from ``p(y) ~ exp(<theta, mu(y)>)`` to `labels`, and return the log-partition.

    If that is not finite, nothing can be drawn. `uniforms`, of shape (n_nodes, n_draws), holds
    independent numbers from [0, 1), one per node and draw; `labels` is of shape (n_draws, n_nodes).
    `mu` and `room` are scratch, `room` of at least n_edges * n_labels ** 2 numbers. The default,
    for structures of nodes, draws node by node from :func:`exp_oracle`, given the labels before.
    """


@generic(part="space")
def entropy(problem, i: int, theta: Floats, mu: Floats, room: Floats) -> float:
    """Return the entropy of ``p(y) ~ exp(<theta, mu(y)>)`` in nats, NaN if there is no labelling.

    `room` is scratch, as for :func:`sample_oracle`. The default subtracts the expected score from
    the log-partition, so its absolute error is that of the scores; a sum over nodes is accurate
    where the entropy is small, too.
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
    """Transitions that make up chunks; label `n_labels` stands for the ends of a sequence."""

    # (n_labels + 1, n_labels + 1), 1 for transitions that begin a chunk, that begin one unless they
    # continue one, that do not begin one, that continue one, that end one.
    begins: np.ndarray
    begins_outside: np.ndarray
    misses: np.ndarray
    stays: np.ndarray
    ends: np.ndarray
    # (n_labels,): The kind of each label.
    kind: np.ndarray
    # (n_labels,), (n_kinds + 1,): The labels sorted by kind, and the offsets of the kinds.
    labels: np.ndarray
    ptr: np.ndarray
    # Whether some transitions begin a chunk unless they continue one.
    is_ambiguous: bool

    @classmethod
    def of(cls, steps, kind):
        """From masks of the transitions that begin, continue and end chunks; and kinds."""
        begins, stays, ends = steps
        masks = begins & ~stays, begins & stays, ~begins, stays, ends
        tables = (np.ascontiguousarray(mask, dtype=np.float64) for mask in masks)
        order, ptr = np.argsort(kind, kind="stable"), ends_of(np.bincount(kind))
        return cls(*tables, kind, order, ptr, bool((begins & stays).any()))

    def repeated(self, labels):
        """The rules for other labels, of which `labels` has the counterpart here."""
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
    """Write the probability of each chunk of `chunks` to `out`, and return the log-partition.

    `chunks`, of shape (n_chunks, 3), has the first node, the node after the last, and the kind of
    each. `rules` define chunks. The node parts of `mu` receive the node marginals.
    """


# Below the largest number, so that sums of scores are finite, too.
_LARGEST_SCORE = 1e300


@inner_kernel
def overflows(theta, size):
    """Return whether a potential is NaN or too large; -inf is a label that is not allowed."""
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

    -inf where no labelling has it. The maximum over the labels of each node is the value of
    :func:`max_oracle`; the difference is the price of forcing a label (Yanover and Weiss 2003,
    Finding the M most probable configurations using loopy belief propagation).
    """


@generic(part="space")
def count_states(problem, i: int) -> int:
    """Return the number of labels of a node of sample i, ``n_labels`` of :func:`max_marginals`.

    ``theta[t * count_states(problem, i) + k]`` is the potential of label k at node t; -inf forbids
    that label.
    """


def has_own_loss(problem, verb=loss_augmented_max) -> bool:
    """Return whether the space of a problem has its own `loss_augmented_max`, not the default."""
    return not verb.registry.keys().isdisjoint(type(problem.space).__mro__[:-1])


def loss_is_linear(problem) -> bool:
    """Return whether the task loss is linear in parts, as :func:`augment` defines it."""
    return augment.supports(problem)


def require_linear_loss(problem, advice) -> None:
    """Raise in Python, before any compile, unless the task loss is linear in parts."""
    if not loss_is_linear(problem):
        kind = type(problem.space)
        structure = getattr(kind, "structure", kind.__name__)
        raise TypeError(f"the task loss of {structure} does not add up over parts; {advice}")


# Feature that each operation provides, for the message where a structure lacks it.
max_oracle.gives = "exact best labellings"
top_k_oracle.gives = "n-best labellings"
exp_oracle.gives = "marginals"
euclidean_oracle.gives = "Euclidean projections"
edge_marginals.gives = "marginals of edges"
chunk_marginals.gives = "chunks"
sample_oracle.gives = "draws"
max_marginals.gives = "best scores of forced labels"
count_states.gives = "labels of nodes"
