"""The best of several elimination orders."""

import numpy as np

from .elimination_order import elimination_order

_ENOUGH, _VARIABLES = 1e5, 20_000


def best_elimination_order(graph, n_states, *, max_table=None, keep=None):
    """The cheapest order that several greedy rules and ways to break ties find.

    Parameters
    ----------
    graph : tuple of ndarray
        What :func:`~skstruct.inference.primal_graph.primal_graph` returns.
    n_states : ndarray of shape (n_variables,) of int64
        States of each variable.
    max_table : float, optional
        Give up on orders that need a larger table.
    keep : ndarray of shape (n_variables,) of bool, optional
        The variables that count, as for the graph.

    Returns
    -------
    Elimination
        That with the fewest entries in all; `largest` is inf if none stays below `max_table`. It is
        the same each time.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.inference.order_search import best_elimination_order
    >>> from skstruct.inference.primal_graph import primal_graph
    >>> n_states = np.array([2, 2, 2])
    >>> chain = primal_graph(n_states, np.array([0, 2, 4]), np.array([0, 1, 1, 2]))
    >>> best_elimination_order(chain, n_states).largest
    4.0
    """

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
