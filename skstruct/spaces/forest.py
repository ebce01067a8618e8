"""Graphs without cycles: exact inference from leaves to roots, for any number of labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.jit.kernels import inner_kernel, kernel
from ..core.offsets import longest_item
from ..core.oracles import (
    edge_marginals,
    entropy,
    exp_oracle,
    forbid,
    max_marginals,
    max_oracle,
    sample_oracle,
    score,
    top_k_oracle,
)
from ..inference.tree import (
    Forest,
    TreeScratch,
    root_forests,
    tree_log_partition,
    tree_marginals,
    tree_max,
    tree_max_marginals,
    tree_scratch,
    tree_top_k,
)
from .pairwise import (
    NetworkSpace,
    PairwiseSpace,
    blocks,
    draw_along_edges,
    edge_above,
    entropy_along_edges,
    expand_tables,
    fold_tables,
    shape_of,
)


class Rooted(NamedTuple):
    """The trees of all samples."""

    # The forest of all samples, with indices within each; `link` is the table of the edge.
    forest: Forest
    # (n_nodes,): The edge to the parent, as an index within the sample.
    edge: np.ndarray
    # 1 if the tables in the potentials are the full ones, without forbidden pairs.
    as_given: int


class ForestScratch(NamedTuple):
    """Scratch of forests."""

    # For the oracles.
    tree: TreeScratch
    # The full tables of a sample, if the potentials do not have them.
    pairs: np.ndarray
    # Marginals in the same form, if label pairs share an entry.
    shares: np.ndarray


class ForestSpace(NetworkSpace):
    """Graphs without cycles; `own.inference` is their :class:`Rooted`."""

    method = "tree"
    # Whether forbidden pairs are in the potentials already.
    bans_in_potentials = False

    @classmethod
    def make(cls, graph, samples, fields, network, n_best):
        """The space, or the sample that has a cycle."""
        forest, cyclic = root_forests(samples.edges, samples.edge_ptr, samples.offsets)
        if cyclic >= 0:
            return f"sample {cyclic} has a cycle"
        as_given = fields["width"] == len(network.column) ** 2
        if not cls.bans_in_potentials:
            as_given = as_given and not np.isneginf(fields["transition_mask"]).any()
        table = np.zeros_like(forest.link)
        below = forest.parent >= 0
        start = np.repeat(samples.edge_ptr[:-1], samples.lengths)
        table[below] = network.table[(start + forest.link)[below]]
        n_labels = network.column.shape[0]
        n_pairs = n_labels**2 * int(fields["n_tables"].max(initial=1))
        work = ForestScratch(
            tree=tree_scratch(max(longest_item(samples.offsets), 1), n_labels, n_best),
            pairs=np.empty(0 if as_given else n_pairs),
            shares=np.empty(0 if fields["width"] == n_labels**2 else n_pairs),
        )
        rooted = Rooted(forest._replace(link=table), forest.link, int(as_given))
        return cls(**fields, own=network._replace(inference=rooted), work=work)


@inner_kernel(inline=True)
def forest_of(space, i):
    """The forest of sample i."""
    first, stop = space.label_ptr[i], space.label_ptr[i + 1]
    whole = space.own.inference.forest
    return Forest(
        whole.order[first:stop],
        whole.parent[first:stop],
        whole.link[first:stop],
        whole.flip[first:stop],
    )


@inner_kernel
def _scores(space, i, theta):
    """Scores of the nodes and of the label pairs, shaped."""
    _, n, n_labels, n_tables = shape_of(space, i)
    size = n * n_labels
    pairs = space.work.pairs
    if space.own.inference.as_given == 1:
        pairs = theta[size:]
    else:
        expand_tables(space, i, theta, pairs)
    pairs = pairs[: n_tables * n_labels * n_labels]
    return theta[:size].reshape(n, n_labels), pairs.reshape(n_tables, n_labels, n_labels)


@max_oracle.register(ForestSpace)
@kernel
def _(space, i, theta, labels):
    unary, pairs = _scores(space, i, theta)
    return tree_max(unary, pairs, forest_of(space, i), labels, space.work.tree)


@top_k_oracle.register(ForestSpace)
@kernel
def _(space, i, theta, values, labels):
    unary, pairs = _scores(space, i, theta)
    tree_top_k(unary, pairs, forest_of(space, i), values, labels, space.work.tree)


@max_marginals.register(ForestSpace)
@kernel
def _(space, i, theta, out):
    unary, pairs = _scores(space, i, theta)
    best = out[: unary.size].reshape(unary.shape)
    tree_max_marginals(unary, pairs, forest_of(space, i), best, space.work.tree)


@exp_oracle.register(ForestSpace)
@kernel
def _(space, i, theta, temperature, mu):
    _, n, n_labels, n_tables = shape_of(space, i)
    work, size, square = space.work, n * n_labels, n_labels * n_labels
    unary, pairs = _scores(space, i, theta)
    forest = forest_of(space, i)
    if mu.shape[0] == 0:
        return tree_log_partition(unary, pairs, temperature, forest, work.tree)
    is_full = space.width == square
    shares = mu[size:] if is_full else work.shares
    shares = shares[: n_tables * square].reshape(n_tables, n_labels, n_labels)
    node_mu = mu[:size].reshape(n, n_labels)
    value = tree_marginals(
        unary, pairs, temperature, forest, node_mu, shares, forest.link, work.tree
    )
    if is_full or not value > -np.inf:
        return value
    fold_tables(space, i, work.shares, mu)
    return value


@edge_marginals.register(ForestSpace)
@kernel
def _(space, i, theta, mu, out):
    first, n, n_labels, _ = shape_of(space, i)
    own, square = space.own, n_labels * n_labels
    unary, pairs = _scores(space, i, theta)
    n_edges = own.ptr[i + 1] - own.ptr[i]
    shares = out[: n_edges * square].reshape(n_edges, n_labels, n_labels)
    node_mu = mu[: n * n_labels].reshape(n, n_labels)
    place = own.inference.edge[first : first + n]
    return tree_marginals(
        unary, pairs, 1.0, forest_of(space, i), node_mu, shares, place, space.work.tree
    )


@edge_above.register(ForestSpace)
@kernel
def _(space, i, position):
    forest, n_labels = forest_of(space, i), space.allowed.shape[1]
    c = forest.order[position]
    begin = space.own.inference.edge[space.label_ptr[i] + c] * n_labels * n_labels
    row, step = (1, n_labels) if forest.flip[c] == 1 else (n_labels, 1)
    return c, forest.parent[c], begin, row, step


sample_oracle.register(ForestSpace)(draw_along_edges)
entropy.register(ForestSpace)(entropy_along_edges)


class TreeSpace(ForestSpace):
    """Rooted forests packed for kernels, with potentials of -inf for forbidden transitions."""

    structure, remedy = "Tree", ""
    bans_in_potentials = writes_what_fits = True


forbid.register(TreeSpace)(forbid.registry[PairwiseSpace])


@score.register(TreeSpace)
@kernel
def _(space, i, theta, labels):
    unary, pair = blocks(space, i, theta)
    forest = forest_of(space, i)
    total = 0.0
    for t in range(unary.shape[0]):
        total += unary[t, labels[t]]
        p = forest.parent[t]
        if p >= 0:
            j, k = (labels[t], labels[p]) if forest.flip[t] == 1 else (labels[p], labels[t])
            total += pair[forest.link[t], j, k]
    return total
