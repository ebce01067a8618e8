"""The queue of the n best candidates, against a sorted list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skstruct.core import kernel
from skstruct.inference.numerics import clear_top, offer_top, take_top, top_list


@kernel
def _play(top, n_best, scores, n_offers, taken):
    """Offer some candidates, take one, until `n_best` are taken."""
    clear_top(top)
    c = 0
    for q in range(n_best):
        for _ in range(n_offers[q]):
            offer_top(top, n_best - q, scores[c], c, 0, 0)
            c += 1
        taken[q] = take_top(top)[1]


@given(
    n_offers=st.lists(st.integers(0, 12), min_size=1, max_size=12),
    seed=st.integers(0, 10**6),
    n_scores=st.sampled_from([1, 2, 5, 10**6]),
)
def test_the_best_come_first_and_of_equal_ones_the_earliest(n_offers, seed, n_scores):
    n_best = len(n_offers)
    rng = np.random.default_rng(seed)
    scores = rng.integers(n_scores, size=sum(n_offers)).astype(float)
    taken = np.full(n_best, -2)
    _play(top_list(n_best), n_best, scores, np.array(n_offers), taken)
    left, c, expected = [], 0, []
    for n in n_offers:
        left += [(-scores[k], k) for k in range(c, c + n)]
        left.sort()
        expected.append(left.pop(0)[1] if left else -1)
        c += n
    assert taken.tolist() == expected
