"""The linear chain for compiled solvers: its problem type and the kernel of each verb.

The verbs that do not depend on the order of nodes are in :mod:`skstruct.graphs.pairwise.verbs`.
"""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import inner_kernel, kernel
from ...core.oracles import (
    add_indicator,
    edge_marginals,
    exp_oracle,
    max_marginals,
    max_oracle,
    score,
    top_k_oracle,
)
from ...inference.forward_backward import forward_backward
from ...inference.viterbi import ViterbiScratch, chain_max_marginals, viterbi, viterbi_top_k
from ..arrays import TableScratch
from ..pairwise.verbs import PairwiseProblem, blocks, shape_of


class ChainScratch(NamedTuple):
    """Scratch of chains."""

    # For weight tables.
    tables: TableScratch
    # For best labellings.
    best: ViterbiScratch
    # For :func:`~skstruct.inference.forward_backward.forward_backward`.
    sums: np.ndarray


class SequenceProblem(PairwiseProblem):
    """Nodes in a row packed for kernels: each but the last has an edge to the next.

    Chains, and structures that have their parts but other oracles: it has none that they could
    inherit by mistake.

    Parameters
    ----------
    *fields : object
        Those of :class:`~skstruct.graphs.PairwiseProblem`.

    See Also
    --------
    skstruct.graphs.PairwiseProblem : Graphs of any edges.
    skstruct.core.oracles.max_oracle : A verb that a subclass registers a kernel for.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.graphs import SequenceProblem
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> isinstance(problem, SequenceProblem), problem.part_ptr
    (True, array([ 0, 10]))
    """


class ChainProblem(SequenceProblem):
    """Chains packed for kernels: every labelling counts."""

    structure = "Chain"


@inner_kernel(inline=True)
def _step(n, n_labels, n_tables, labels, t):
    """Part of the transition to node t."""
    table = 0 if n_tables == 1 else t - 1
    return (n + table * n_labels + labels[t - 1]) * n_labels + labels[t]


@add_indicator.register(SequenceProblem)
@kernel
def _(problem, i, labels, c, mu):
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    for t in range(n):
        mu[t * n_labels + labels[t]] += c
        if t > 0:
            mu[_step(n, n_labels, n_tables, labels, t)] += c


@score.register(SequenceProblem)
@kernel
def _(problem, i, theta, labels):
    _, n, n_labels, _, n_tables = shape_of(problem, i)
    total = theta[labels[0]]
    for t in range(1, n):
        step = theta[_step(n, n_labels, n_tables, labels, t)]
        total += step + theta[t * n_labels + labels[t]]
    return total


@max_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, labels):
    unary, pair = blocks(problem, i, theta)
    return viterbi(unary, pair, labels, problem.work.best)


@top_k_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, values, labels):
    unary, pair = blocks(problem, i, theta)
    viterbi_top_k(unary, pair, values, labels, problem.work.best)


@exp_oracle.register(ChainProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    unary, pair = blocks(problem, i, theta)
    node_mu, pair_mu = unary[:0], pair[:0]
    if mu.shape[0] > 0:
        node_mu, pair_mu = blocks(problem, i, mu)
    return forward_backward(unary, pair, temperature, node_mu, pair_mu, problem.work.sums)


@edge_marginals.register(ChainProblem)
@kernel
def _(problem, i, theta, mu, out):
    unary, pair = blocks(problem, i, theta)
    n, n_labels = unary.shape
    tables = out[: (n - 1) * n_labels * n_labels].reshape(n - 1, n_labels, n_labels)
    node_mu = blocks(problem, i, mu)[0]
    return forward_backward(unary, pair, 1.0, node_mu, tables, problem.work.sums)


@max_marginals.register(ChainProblem)
@kernel
def _(problem, i, theta, out):
    unary, pair = blocks(problem, i, theta)
    best = out[: unary.size].reshape(unary.shape)
    chain_max_marginals(unary, pair, best, problem.work.best)
