"""The softmax-margin: a log loss whose rivals gain by their task loss (Gimpel and Smith 2010)."""

from typing import NamedTuple

from ..core.dispatch import kernel
from ..core.oracles import add_indicator, exp_oracle
from .verbs import augment_copy, loss_oracle, truth_score


class SoftmaxMargin(NamedTuple):
    """``log sum_y exp(<theta, mu(y)> + Delta(y_i, y)) - <theta, mu(y_i)>``.

    An upper bound on the log loss and on the hinge; where no labelling costs anything, the log
    loss. It is the entropy-smoothed hinge of strength 1.
    """

    # A lower bound on the dual terms: 0, or -inf where Delta may be negative.
    least_term: float = 0.0

    smooth = True


@loss_oracle.register(SoftmaxMargin)
@kernel
def _(loss, problem, i, theta, labels, r, augmented):
    right = truth_score(problem, i, theta, labels)
    augment_copy(problem, i, theta, augmented)
    log_z = exp_oracle(problem, i, augmented, 1.0, r)
    if r.shape[0] > 0:
        add_indicator(problem, i, labels, -1.0, r)
    return log_z - right, abs(log_z) + abs(right)
