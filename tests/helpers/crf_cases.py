"""Options and enumerations that the tests of CRFs share."""

from skstruct.testing import all_labellings, chain_scores

TIGHT = {"tol": 1e-13, "max_iter": 5000, "random_state": 0}


def enumerated(crf, x):
    labellings = all_labellings(len(x), crf.classes_.size)
    unary = x @ crf.coef_.T + crf.intercept_
    return labellings, chain_scores(unary, crf.pairwise_coef_[None], labellings)
