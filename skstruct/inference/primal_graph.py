"""The graph of variables that share factors."""

import numpy as np


def primal_graph(n_states, scope_ptr, scope, keep=None):
    """The graph in which variables are neighbours that share a factor."""
    n = len(n_states)
    keep = n_states > 1 if keep is None else keep & (n_states > 1)
    arity = np.diff(scope_ptr)
    keys = [np.empty(0, dtype=np.int64)]
    for a in np.unique(arity[arity > 1]):
        rows = scope[scope_ptr[:-1][arity == a][:, None] + np.arange(a)].astype(np.int64)
        first, second = np.triu_indices(a, 1)
        u, v = rows[:, first].ravel(), rows[:, second].ravel()
        both = keep[u] & keep[v]
        u, v = u[both], v[both]
        keys.append(np.unique(np.minimum(u, v) * n + np.maximum(u, v)))
    pairs = np.unique(np.concatenate(keys))
    u, v = pairs // max(n, 1), pairs % max(n, 1)
    tails, heads = np.concatenate((u, v)), np.concatenate((v, u))
    by_tail = np.lexsort((heads, tails))
    ptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(tails, minlength=n), out=ptr[1:])
    return ptr, heads[by_tail]
