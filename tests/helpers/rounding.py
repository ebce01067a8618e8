"""Bounds on how far two computed sums of the same terms may be apart."""

import numpy as np

from skstruct.core import oracles


def sum_error(terms, n_more=0):
    """Most that two computed sums of the terms can differ by, in any order and with fused products.

    Each is within gamma_m sum |t| of the exact sum (Higham, Accuracy and Stability of Numerical
    Algorithms, section 4.2), where m counts the operations on a term: additions, and `n_more`.
    """
    terms = np.abs(np.asarray(terms, dtype=float))
    operations = (terms.size + n_more) * np.finfo(float).eps / 2
    return 2.0 * operations / (1.0 - operations) * terms.sum()


def score_error(problem, i, theta, labels):
    """Most that two computed scores of one labelling can differ by."""
    mu = np.zeros(theta.size)
    oracles.add_indicator(problem, i, labels, 1.0, mu)
    used = mu != 0.0
    n_terms = int(np.abs(mu[used]).sum())
    return sum_error(mu[used] * theta[used], n_terms)
