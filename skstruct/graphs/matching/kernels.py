"""Links between two sides, for compiled solvers: the problem and what all its kinds share."""

from typing import NamedTuple

import numpy as np

from ...core.dispatch import kernel
from ...core.oracles import task_loss
from ..items.verbs import ChoiceProblem

# What a pair is in the gold standard.
OTHER, SURE, POSSIBLE = 0, 1, 2


class Links(NamedTuple):
    """What matchings need beside items: the field ``own`` of a problem."""

    # (n_samples, 2): Sources and targets of each sample.
    sizes: np.ndarray
    # The largest number of links at a vertex.
    max_degree: int
    # Whether every vertex may stay without one.
    null: bool
    # (n_items or 0,): What each pair is in the gold standard.
    kind: np.ndarray
    # (n_samples or 0,): Cost of a sure link that is missed, and of a link that is none.
    missed: np.ndarray
    extra: np.ndarray
    # (n_samples or 0,): Cost of the labelling that is trained toward, which counts as 0.
    base: np.ndarray
    # (n_samples + 1,): Where the vertices of each sample begin.
    source_ptr: np.ndarray
    target_ptr: np.ndarray
    # (n_all_sources,): Memory of samples: the target of each source in the last best matching.
    match: np.ndarray
    # (n_all_targets,): Memory of samples: the targets' prices then. It changes the time, never the
    # answer.
    price: np.ndarray


class MatchingProblem(ChoiceProblem):
    """Pairs of sources and targets packed for kernels: a labelling says which are linked."""

    structure = "Matching"
    remedy = (
        " (sums over matchings are #P-hard); predict_top_k gives the best matchings, the verb "
        "max_marginals the best score with and without every link"
    )


@task_loss.register(MatchingProblem)
@kernel
def _(problem, i, labels):
    own, first = problem.own, problem.item_ptr[i]
    missed, extra = 0, 0
    for q in range(problem.item_ptr[i + 1] - first):
        kind = own.kind[first + q]
        if labels[q] == 1:
            extra += 1 if kind == OTHER else 0
        else:
            missed += 1 if kind == SURE else 0
    # Of the labelling that is trained toward this is exactly 0; rounding may leave others under it.
    return max(0.0, own.missed[i] * missed + own.extra[i] * extra - own.base[i])
