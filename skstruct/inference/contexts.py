"""Labels before a label, as far as they matter: contexts of n-grams, with back-off."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.memory import check_memory
from ..core.offsets import ends_of
from .automaton import Automaton, StepRows


class Contexts(NamedTuple):
    """Contexts, shorter ones first, and the n-grams that end in a label after one of them.

    A context is a sequence of labels: all single labels, and all that an n-gram of more than two
    labels begins with. After labels that no context ends in, the longest that is known counts.
    """

    # A row of each: parents are contexts without their first labels, n-grams end after a context.
    rows: StepRows
    # (n_labels,) of int32: The context after each label at the first node.
    first: np.ndarray
    # (n_contexts, n_labels) of int32: The context after a context and a label.
    after: np.ndarray


def ngrams_of(
    codes: np.ndarray, offsets: np.ndarray, n_labels: int, order: int, boundary: bool
) -> np.ndarray:
    """The sequences of 3 to ``order + 1`` labels that occur, (n, order + 1), -1 before short ones.

    Labels of code -1 are unknown. With `boundary`, the start is a label, of code `n_labels`, and so
    is the end, ``n_labels + 1``.
    """
    lengths = np.diff(offsets)
    begins = ends_of(lengths + 3)  # the start, the end, and what no n-gram reaches across
    padded = np.full(begins[-1], -1, dtype=np.int64)
    padded[np.arange(codes.size) + np.repeat(begins[:-1] - offsets[:-1], lengths) + 1] = codes
    if boundary:
        filled = lengths > 0
        padded[begins[:-1][filled]] = n_labels
        padded[begins[1:][filled] - 2] = n_labels + 1
    found = []
    for size in range(3, order + 2):
        windows = np.lib.stride_tricks.sliding_window_view(padded, size)
        windows = np.unique(windows[(windows >= 0).all(axis=1)], axis=0)
        found.append(np.pad(windows, ((0, 0), (order + 1 - size, 0)), constant_values=-1))
    return np.concatenate(found) if found else np.empty((0, order + 1), dtype=np.int64)


def contexts_of(ngrams: np.ndarray, n_labels: int) -> Contexts:
    """The contexts of some n-grams, and of all pairs of labels."""
    grams = [tuple(code for code in row if code >= 0) for row in ngrams.tolist()]
    _check_ngrams(grams, n_labels)
    known = {(k,) for k in range(n_labels)}
    known |= {gram[:size] for gram in grams for size in range(2, len(gram))}
    contexts = sorted(known, key=lambda context: (len(context), context[::-1]))
    check_memory(
        16 * len(contexts) * n_labels,
        f"a table of {len(contexts):,} contexts and {n_labels:,} labels",
        "take a lower order",
    )
    place = {context: s for s, context in enumerate(contexts)}
    after = np.empty((len(contexts), n_labels), dtype=np.int32)
    parents = np.full(len(contexts), -1, dtype=np.int32)
    first, children = np.arange(n_labels, dtype=np.int32), [[] for _ in contexts]
    for context, s in place.items():
        if len(context) > 1 and context[:-1] in place:
            children[place[context[:-1]]].append(s)
        if len(context) == 2 and context[0] == n_labels:
            first[context[1]] = s
    labels = np.array([context[-1] for context in contexts], dtype=np.int32)
    for s, context in enumerate(contexts):
        if len(context) > 1:
            parents[s] = place[context[1:]]
        after[s] = np.arange(n_labels) if len(context) == 1 else after[parents[s]]
        after[s, labels[children[s]]] = children[s]
    columns = np.array([min(gram[-1], n_labels) for gram in grams], dtype=np.int32)
    rows = np.array([place[gram[:-1]] for gram in grams], dtype=np.int64)
    order = np.argsort(rows, kind="stable").astype(np.int32)
    return Contexts(
        rows=StepRows(
            labels=labels,
            parents=parents,
            ptr=ends_of(np.bincount(rows, minlength=len(contexts))),
            columns=columns[order],
            positions=order,
        ),
        first=first,
        after=after,
    )


def _check_ngrams(grams, n_labels):
    """Raise ValueError for n-grams that :func:`ngrams_of` does not find: those of damaged files."""
    known = set(grams)
    for gram in grams:
        is_gram = len(gram) > 2 and gram[0] <= n_labels and max(gram[1:-1]) < n_labels
        is_gram = is_gram and gram[-1] <= n_labels + 1 and gram[-1] != n_labels
        if not is_gram or (len(gram) > 3 and gram[1:] not in known):
            raise ValueError(f"the model is damaged: graph_.ngrams_ has the row {gram}")


def automaton_of_contexts(contexts: Contexts, rules: NamedTuple) -> Automaton:
    """The automaton that remembers contexts, and what a product of rules needs to remember."""
    n_labels = contexts.first.size
    labels, n_contexts = contexts.rows.labels, np.int64(contexts.rows.labels.size)
    states = _reached(contexts, rules)  # in the order of what rules remember: a group each
    of_rules, of_context = np.divmod(states, n_contexts)

    def place(context, pair):
        """The states of contexts and pairs, -1 where there is none."""
        key = pair * n_contexts + context
        at = np.searchsorted(states, key).clip(max=states.size - 1)
        return np.where((pair >= 0) & (states[at] == key), at, -1).astype(np.int32)

    # Where the labels before the last make a difference.
    alike = contexts.after == contexts.after[labels]
    rows, rare = np.nonzero(~alike)
    # A family is of one state of the rules, and leads to single labels as contexts.
    of_family, families = _alike(rules.after)
    leads = place(np.arange(n_labels), rules.after[families])
    own = place(contexts.after[rules.labels], rules.after)
    groups, columns = np.nonzero(own != leads[of_family])
    return Automaton(
        labels=labels[of_context],
        rows=of_context.astype(np.int32),
        first=place(contexts.first, rules.first),
        after=place(contexts.after[of_context], rules.after[of_rules]),
        ends=rules.ends[of_rules],
        group_ptr=np.searchsorted(of_rules, np.arange(rules.labels.size + 1)),
        own_ptr=ends_of(np.bincount(groups, minlength=rules.labels.size)),
        own=columns.astype(np.int32),
        targets=own[groups, columns],
        family=of_family.astype(np.int32),
        leads=leads,
        rare_ptr=ends_of(np.bincount(rows, minlength=n_contexts)),
        rare=rare.astype(np.int32),
    )


def _alike(rows):
    """Classes of equal rows: that of each row, and a row of each."""
    _, first, of_row = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return of_row.ravel(), first


def _reached(contexts, rules):
    """States that labellings reach: pairs of what rules remember and a context, as numbers."""
    n_contexts = np.int64(contexts.rows.labels.size)
    at_first = rules.first >= 0
    keys = rules.first[at_first] * n_contexts + contexts.first[at_first]
    reached = frontier = np.unique(keys)
    while frontier.size:
        pair, context = np.divmod(frontier, n_contexts)
        following = rules.after[pair]
        keys = (following * n_contexts + contexts.after[context])[following >= 0]
        frontier = np.setdiff1d(keys, reached)
        reached = np.union1d(reached, frontier)
    if not reached.size:  # nothing obeys
        reached = np.zeros(1, dtype=np.int64)
    return reached
