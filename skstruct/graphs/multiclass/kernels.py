"""One node a sample, for compiled solvers: its problem type and the kernel of each verb."""

import math
from typing import NamedTuple

import numpy as np

from ...core.dispatch import kernel
from ...core.features import add_outer, scores
from ...core.oracles import (
    accumulate,
    add_indicator,
    augment,
    euclidean_oracle,
    exp_oracle,
    gram,
    max_marginals,
    max_oracle,
    potentials,
    score,
    task_loss,
    top_k_oracle,
    truth,
)
from ...core.proximal import catch_up, catch_up_rows
from ...inference.numerics import fast_exp, row_max
from ...inference.simplex import best_mixture
from ...losses.task import UNWEIGHTED, LossWeights, add_label_costs, label_cost


class RowScratch(NamedTuple):
    """Scratch of single nodes."""

    # A row of the weight table.
    row: np.ndarray


class MultiClassProblem(NamedTuple):
    """Single nodes packed for kernels."""

    # A feature row a sample.
    nodes: tuple
    # (n_samples + 1,): Multiples of the number of labels, and of 1.
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    # (n_samples,): True labels; empty when unknown.
    labels: np.ndarray
    # (n_samples or 0, n_labels): Labels allowed for each sample; no rows when all are.
    allowed: np.ndarray
    # (n_labels, n_labels): Task loss of predicting column k where the label is row j.
    cost: np.ndarray
    # (n_samples,): Squared norms of the feature rows, the constant feature included.
    squared_norms: np.ndarray
    # Scratch of one thread.
    work: RowScratch
    # What labels cost where there is a set of them.
    loss_weights: LossWeights = UNWEIGHTED

    structure = "MultiClass"
    adds_by_columns = True


@potentials.register(MultiClassProblem)
@kernel
def _(problem, i, w, theta):
    n_labels = problem.cost.shape[0]
    scores(problem.nodes, i, i + 1, n_labels, w.node, w, problem.work.row, theta, 0)
    if problem.allowed.shape[0] > 0:
        for k in range(n_labels):
            if problem.allowed[i, k] == 0:
                theta[k] = -math.inf


@accumulate.register(MultiClassProblem)
@kernel
def _(problem, i, r, c, w):
    n_labels = problem.cost.shape[0]
    add_outer(problem.nodes, i, i + 1, n_labels, r, 0, c, w.node, w, problem.work.row)


@catch_up.register(MultiClassProblem)
@kernel
def _(problem, i, w, clock):
    catch_up_rows(problem.nodes, i, i + 1, w.node, clock.node, clock)


@gram.register(MultiClassProblem)
@kernel
def _(problem, i, r, out):
    for k in range(problem.cost.shape[0]):
        out[k] = problem.squared_norms[i] * r[k]


@truth.register(MultiClassProblem)
@kernel
def _(problem, i, labels):
    labels[0] = problem.labels[i]


@add_indicator.register(MultiClassProblem)
@kernel
def _(problem, i, labels, c, mu):
    mu[labels[0]] += c


@score.register(MultiClassProblem)
@kernel
def _(problem, i, theta, labels):
    return theta[labels[0]]


@augment.register(MultiClassProblem)
@kernel
def _(problem, i, theta):
    add_label_costs(problem.cost, problem.loss_weights, 1.0, i, problem.labels[i], theta, 0)


@task_loss.register(MultiClassProblem)
@kernel
def _(problem, i, labels):
    return label_cost(problem.cost, problem.loss_weights, 1.0, i, problem.labels[i], labels[0])


@max_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, labels):
    best = 0
    for k in range(1, problem.cost.shape[0]):
        if theta[k] > theta[best]:
            best = k
    labels[0] = best
    return theta[best]


@top_k_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, values, labels):
    n_labels = problem.cost.shape[0]
    for q in range(values.shape[0]):
        values[q] = -math.inf
        labels[q, 0] = 0
        for k in range(n_labels):
            # After (values[q - 1], labels[q - 1]) in the order of score, then of label.
            after = q == 0 or theta[k] < values[q - 1]
            after = after or (theta[k] == values[q - 1] and k > labels[q - 1, 0])
            if after and theta[k] > values[q]:
                values[q] = theta[k]
                labels[q, 0] = k


@exp_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n_labels = problem.cost.shape[0]
    top = row_max(theta, 0, n_labels)
    total = 0.0
    for k in range(n_labels):
        share = fast_exp((theta[k] - top) / temperature)
        total += share
        if mu.shape[0] > 0:
            mu[k] = share
    for k in range(min(n_labels, mu.shape[0])):
        mu[k] /= total
    return top + temperature * math.log(total)


@euclidean_oracle.register(MultiClassProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    return best_mixture(theta, temperature, mu, problem.cost.shape[0])


@max_marginals.register(MultiClassProblem)
@kernel
def _(problem, i, theta, out):
    for k in range(problem.cost.shape[0]):
        out[k] = theta[k]
