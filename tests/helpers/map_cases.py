"""Random factor graphs, and their optimum by enumeration."""

import numpy as np

from skstruct.map_inference import AtMostOne, Cardinality, ExactlyOne, FactorGraph, Or, Potts, Table
from skstruct.map_inference.budget import Budget


def labellings(graph):
    """All labellings."""
    return np.array(list(np.ndindex(*graph.n_states)), dtype=np.int64)


def enumerate_best(graph):
    """The highest score of all labellings."""
    return graph.score(labellings(graph)).max()


def grid_edges(height, width):
    """Pairs of neighbours, row by row: first those beside one another, then those below."""
    at = np.arange(height * width).reshape(height, width)
    right = np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()])
    return np.concatenate([right, np.column_stack([at[:-1].ravel(), at[1:].ravel()])])


def random_graph(seed, forbidden=0.0, is_tree=False):
    """Some variables of one to four states, tables of two and three, and Potts factors; ties."""
    rng = np.random.default_rng(seed)
    n_states = rng.integers(1, 5, rng.integers(2, 6))
    scopes = [(int(rng.integers(v)), v) for v in range(1, n_states.size)]
    if not is_tree:
        arities = rng.integers(2, min(4, n_states.size + 1), rng.integers(1, 5))
        scopes += [tuple(rng.permutation(n_states.size)[:a]) for a in arities]
    factors = []
    for scope in scopes:
        if len(scope) == 2 and rng.random() < 0.4:
            factors.append(Potts(*scope, float(rng.integers(-2, 3))))
        else:
            scores = rng.integers(-3, 4, n_states[list(scope)]).astype(float)
            scores[rng.random(scores.shape) < forbidden] = -np.inf
            factors.append(Table(scope, scores))
    unaries = [rng.integers(-3, 4, k).astype(float) for k in n_states]
    return FactorGraph(n_states, factors, unaries=unaries, offset=1.5)


def graph_with_implicit(seed):
    """Seven binary variables with larger implicit factors beside tables."""
    rng = np.random.default_rng(seed)
    n = 7
    factors = []
    for kind in rng.choice([AtMostOne, ExactlyOne, Or], rng.integers(1, 3)):
        arity = int(rng.integers(2, n + 1))
        factors.append(kind(rng.permutation(n)[:arity], rng.random(arity) < 0.3))
    scores = rng.integers(-2, 3, n).astype(float)
    scores[rng.random(n) < 0.2] = -np.inf
    factors.append(Cardinality(rng.permutation(n)[: n - 1], scores))
    tables = rng.integers(-2, 3, (3, 2, 2)).astype(float)
    tables[rng.random(tables.shape) < 0.2] = -np.inf
    factors.append(Table([rng.permutation(n)[:2] for _ in range(3)], tables))
    unaries = rng.integers(-2, 3, 2 * n).astype(float)
    unaries[rng.random(2 * n) < 0.15] = -np.inf
    return FactorGraph(np.full(n, 2), factors, unaries=unaries, offset=0.5)


class Asked(Budget):
    """A budget that asks a function whether it is spent."""

    def __init__(self, is_spent):
        super().__init__()
        self.is_spent = is_spent

    def __call__(self, share, bound=None, score=None):
        return bool(self.is_spent(share, bound, score))
