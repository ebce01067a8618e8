"""The best of several elimination orders."""

import numpy as np

from .elimination_order import elimination_order

_ENOUGH, _VARIABLES = 1e5, 20_000


def best_elimination_order(graph, n_states, *, max_table=None, keep=None):
    """The cheapest order that several greedy rules and ways to break ties find."""

    def cost(found):
        return found.largest == np.inf, found.total

    ptr, n = graph[0], len(n_states)
    best = elimination_order(graph, n_states, "min-fill", max_table=max_table, keep=keep)
    if best.largest < np.inf and best.total < _ENOUGH * np.log2(n + 2):
        return best
    rng = np.random.default_rng(0)
    # Sweeps start where there is the least around; the corners of a grid.
    by_degree = np.argsort(np.argsort(np.diff(ptr), kind="stable"), kind="stable")
    trials = [("min-weight", None), ("sweep", by_degree)]
    for _ in range(min(8, _VARIABLES // max(n, 1))):
        ranks = rng.permutation(n)
        trials += [("min-fill", ranks), ("min-weight", ranks)]
        trials.append(("sweep", np.lexsort((ranks, by_degree)).argsort()))
    for rule, rank in trials:
        most = best.total if best.largest < np.inf else np.inf
        found = elimination_order(
            graph, n_states, rule, max_table=max_table, rank=rank, most=most, keep=keep
        )
        best = min(best, found, key=cost)
    return best
