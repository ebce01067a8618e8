"""A dual point of structural SVMs under other true labels."""

import numpy as np

from ...core.dispatch import kernel
from ...core.oracles import add_indicator


@kernel
def _move(problem, samples, before, after, residuals):
    """``m_i - mu(y_i)`` of some samples, for the labels `after` in place of those `before`."""
    for s in range(samples.shape[0]):
        i = samples[s]
        first, stop = problem.label_ptr[i], problem.label_ptr[i + 1]
        residual = residuals[problem.part_ptr[i] : problem.part_ptr[i + 1]]
        add_indicator(problem, i, before[first:stop], 1.0, residual)
        add_indicator(problem, i, after[first:stop], -1.0, residual)


def with_truth(state, problem, labels: np.ndarray):
    """The same mixtures of labellings as a dual point of the problem with other true labels."""
    ptr = problem.label_ptr
    differ = np.append(0, np.cumsum(problem.labels != labels))[ptr]
    samples = np.flatnonzero(np.diff(differ))
    _move(problem, samples, problem.labels, labels, state.residuals)
    return state
