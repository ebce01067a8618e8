"""Labellings of chains that obey rules."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import inner_kernel, kernel
from ..core.offsets import longest_item
from ..core.oracles import (
    chunk_marginals,
    edge_marginals,
    exp_oracle,
    max_marginals,
    max_oracle,
    score,
    top_k_oracle,
)
from ..core.weights import aligned
from ..data.rules import TooManyStates, product_of
from ..inference.forward_backward import chain_chunks, forward_backward, workspace_size
from ..inference.viterbi import (
    ViterbiScratch,
    chain_max_marginals,
    viterbi,
    viterbi_scratch,
    viterbi_top_k,
)
from .chain import SequenceSpace
from .pairwise import blocks

# Chains under rules: the chain whose labels are pairs of a state of the rules' automata and the
# label that led to it. Weights and marginals are those of labels; only the oracles see the pairs.

# The most numbers in all transition tables of a sample.
_MOST_NUMBERS = 2**27


class RuledChainScratch(NamedTuple):
    """Scratch of chains under rules, of pairs."""

    # For best labellings.
    best: ViterbiScratch
    # For :func:`~skstruct.inference.forward_backward.forward_backward`.
    sums: np.ndarray
    # Potentials and marginals of nodes.
    unary: np.ndarray
    node: np.ndarray
    # Potentials and marginals of transitions.
    pair: np.ndarray
    edge: np.ndarray


class WideChainSpace(SequenceSpace):
    """Chains of labellings that obey rules, packed for kernels; `own` is the rules' product."""

    structure, has_one_table = "Chain under rules so large", True


class RuledChainSpace(WideChainSpace):
    """The same, with scratch for the marginals of single edges."""

    structure = "Chain"


def _ruled(fields, rules, classes, n_best) -> WideChainSpace:
    """The space of chains under rules."""
    own = product_of(rules, classes)
    longest, size = max(longest_item(fields["label_ptr"]), 1), own.labels.size
    n_tables = max(int(fields["n_tables"].max(initial=1)), 1)
    if n_tables * size * size > _MOST_NUMBERS:
        raise TooManyStates(
            f"rules: {n_tables:,} transition tables of {size:,} labels in the product of the rules "
            f"are more than {_MOST_NUMBERS:,} numbers: give fewer rules"
        )
    # The scratch for marginals of single edges takes no memory until they are computed.
    has_room = longest * size * size <= _MOST_NUMBERS
    kind = RuledChainSpace if has_room else WideChainSpace
    work = RuledChainScratch(
        best=viterbi_scratch(longest, size, n_best),
        sums=aligned(workspace_size(longest, size), np.empty),
        unary=np.empty((longest, size)),
        node=np.empty((longest, size)),
        pair=np.empty((n_tables, size, size)),
        edge=np.empty((longest if has_room else n_tables, size, size)),
    )
    return kind(**fields, own=own, work=work)


@inner_kernel
def _expand(space, i, theta):
    """Write the potentials of pairs: those of their labels, -inf where the rules are broken."""
    unary, pair = blocks(space, i, theta)
    own, wide, tables = space.own, space.work.unary, space.work.pair
    n, n_labels = unary.shape
    for t in range(n):
        for q in range(own.labels.shape[0]):
            wide[t, q] = unary[t, own.labels[q]] if t > 0 else -math.inf
    for k in range(n_labels):
        if own.first[k] >= 0:
            wide[0, own.first[k]] = unary[0, k]
    for q in range(own.labels.shape[0]):
        if own.ends[q] == 0:
            wide[n - 1, q] = -math.inf
    for e in range(pair.shape[0]):
        for q in range(own.labels.shape[0]):
            for r in range(own.labels.shape[0]):
                tables[e, q, r] = -math.inf
            for k in range(n_labels):
                if own.after[q, k] >= 0:
                    tables[e, q, own.after[q, k]] = pair[e, own.labels[q], k]
    return wide[:n], tables[: pair.shape[0]]


@inner_kernel
def _fold_nodes(own, wide, out):
    """Add up the marginals of each label's pairs."""
    for t in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[t, k] = 0.0
        for q in range(own.labels.shape[0]):
            out[t, own.labels[q]] += wide[t, q]


@inner_kernel
def _fold_edges(own, wide, out):
    """Add up the marginals of each transition's pairs."""
    for e in range(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(out.shape[2]):
                out[e, j, k] = 0.0
        for q in range(own.labels.shape[0]):
            for k in range(out.shape[2]):
                if own.after[q, k] >= 0:
                    out[e, own.labels[q], k] += wide[e, q, own.after[q, k]]


_plain_score = score.registry[SequenceSpace]


@score.register(WideChainSpace)
@kernel
def _(space, i, theta, labels):
    own = space.own
    q = own.first[labels[0]]
    for t in range(1, space.label_ptr[i + 1] - space.label_ptr[i]):
        q = own.after[q, labels[t]] if q >= 0 else q
    return _plain_score(space, i, theta, labels) if q >= 0 and own.ends[q] else -math.inf


@max_oracle.register(WideChainSpace)
@kernel
def _(space, i, theta, labels):
    unary, pair = _expand(space, i, theta)
    value = viterbi(unary, pair, labels, space.work.best)
    for t in range(unary.shape[0]):
        labels[t] = space.own.labels[labels[t]]
    return value


@top_k_oracle.register(WideChainSpace)
@kernel
def _(space, i, theta, values, labels):
    unary, pair = _expand(space, i, theta)
    viterbi_top_k(unary, pair, values, labels, space.work.best)
    for q in range(values.shape[0]):
        for t in range(unary.shape[0]):
            labels[q, t] = space.own.labels[labels[q, t]]


@exp_oracle.register(WideChainSpace)
@kernel
def _(space, i, theta, temperature, mu):
    unary, pair = _expand(space, i, theta)
    work, n = space.work, unary.shape[0]
    if mu.shape[0] == 0:
        return forward_backward(unary, pair, temperature, work.node[:0], work.edge[:0], work.sums)
    node, edge = work.node[:n], work.edge[: pair.shape[0]]
    value = forward_backward(unary, pair, temperature, node, edge, work.sums)
    node_mu, pair_mu = blocks(space, i, mu)
    _fold_nodes(space.own, node, node_mu)
    _fold_edges(space.own, edge, pair_mu)
    return value


@edge_marginals.register(RuledChainSpace)
@kernel
def _(space, i, theta, mu, out):
    unary, pair = _expand(space, i, theta)
    work, (n, n_labels) = space.work, blocks(space, i, theta)[0].shape
    node, edge = work.node[:n], work.edge[: n - 1]
    value = forward_backward(unary, pair, 1.0, node, edge, work.sums)
    _fold_nodes(space.own, node, blocks(space, i, mu)[0])
    tables = out[: (n - 1) * n_labels * n_labels].reshape(n - 1, n_labels, n_labels)
    _fold_edges(space.own, edge, tables)
    return value


@chunk_marginals.register(WideChainSpace)
@kernel
def _(space, i, theta, rules, chunks, mu, out):
    unary, pair = _expand(space, i, theta)
    node = space.work.node[: unary.shape[0]]
    value = chain_chunks(unary, pair, rules, chunks, node, out, space.work.sums)
    _fold_nodes(space.own, node, blocks(space, i, mu)[0])
    return value


@max_marginals.register(WideChainSpace)
@kernel
def _(space, i, theta, out):
    unary, pair = _expand(space, i, theta)
    node, n_labels = space.work.node[: unary.shape[0]], space.own.first.shape[0]
    chain_max_marginals(unary, pair, node, space.work.best)
    for t in range(unary.shape[0]):
        for k in range(n_labels):
            out[t * n_labels + k] = -math.inf
        for q in range(node.shape[1]):
            place = t * n_labels + space.own.labels[q]
            out[place] = max(out[place], node[t, q])
