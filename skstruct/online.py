"""Decoding of streams: labels with a fixed lag, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .core.arguments import check_integer
from .core.jit.kernels import kernel
from .core.memory import check_memory, shown
from .core.wrappers import innermost
from .data.labels import read_label_names
from .data.matrices import numeric
from .data.packing import check_scores
from .decoding import Transitions, any_array, scheme_mask, score_table
from .graphs.chain import Chain
from .inference.allowed_steps import allowed_steps, best_step
from .inference.numerics import best_of

__all__ = ["OnlineDecoder"]


@kernel
def _follow(scores, steps, n_before, lag, best, path, out):
    """Take nodes in, write labels of nodes that are `lag` behind; the number of nodes taken in."""
    # Rings of lag + 1 nodes, two at least: the best scores up to each label, and the best path. The
    # way back ends where it meets the path of the node before.
    size, n_labels = best.shape
    for i in range(scores.shape[0]):
        t = n_before + i
        row = best[t % size]
        if t == 0:
            for k in range(n_labels):
                row[k] = scores[i, k]
        else:
            best_step(best[(t - 1) % size], steps, scores, i, row)
        last = best_of(row, n_labels)
        top = row[last]
        if not top > -math.inf:
            return i
        for k in range(n_labels):
            row[k] -= top
        path[t % size] = last
        for u in range(t, max(t - lag, 0), -1):
            before, table = best[(u - 1) % size], steps.table
            chosen, value = 0, -math.inf
            for j in range(n_labels):
                if before[j] + table[j, last] > value:
                    chosen, value = j, before[j] + table[j, last]
            if path[(u - 1) % size] == chosen:
                break
            path[(u - 1) % size] = last = chosen
        if t >= lag:
            out[t - max(n_before, lag)] = path[(t - lag) % size]
    return scores.shape[0]


class OnlineDecoder:
    """Viterbi decoding of a stream: each label is decided `lag` nodes later, for good.

    The label of node t is that of the best labelling of all nodes up to ``t + lag``. Memory is that
    of ``lag + 1`` nodes, whatever the length of the stream. Read more in the :ref:`User Guide
    <online_decoding>`.

    Parameters
    ----------
    transitions : array-like of shape (K, K), or Transitions, default=None
        Scores of (label, next label), -inf for a forbidden transition, which takes no time. None is
        0 for all, with `labels`.
    lag : int
        Number of later nodes that a label waits for. 0 is filtering.
    scheme, labels : object, default=None
        As for :func:`decode`.
    start, stop : array-like of shape (K,), default=None
        Scores of labels at the first node, and at the last: :meth:`finish` adds the latter.

    Attributes
    ----------
    n_nodes_ : int
        Number of nodes since the beginning or the last :meth:`reset`.

    See Also
    --------
    skstruct.decode : The best labelling of whole sequences.

    Notes
    -----
    The labels are those of :func:`decode` if the best paths to all labels of node ``t + lag`` have
    one label at node t; a lag as long as the sequence suffices. Otherwise labels in a row may be of
    different labellings, so that the step between them may be a forbidden one.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import OnlineDecoder
    >>> scores = np.log([[0.9, 0.1], [0.4, 0.6], [0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])
    >>> online = OnlineDecoder([[0.0, -1.0], [-1.0, 0.0]], lag=1)
    >>> [online.push(row).tolist() for row in scores]
    [[], [0], [0], [0], [1]]
    >>> online.finish()
    array([1])
    """

    def __init__(
        self,
        transitions: ArrayLike | Transitions | None = None,
        *,
        lag: int,
        scheme: str | Iterable | None = None,
        labels: ArrayLike | Mapping | None = None,
        start: ArrayLike | None = None,
        stop: ArrayLike | None = None,
    ) -> None:
        if isinstance(transitions, Transitions):
            if start is not None or stop is not None:
                raise ValueError("start and stop are among the transitions: leave them out")
            transitions, start, stop = transitions[:3]
        if transitions is None:
            if not (hasattr(labels, "__len__") and np.ndim(list(labels)) == 1 and len(labels)):
                raise ValueError("without transitions, labels must be a list of their names")
            transitions = np.zeros((len(labels), len(labels)))
        table = numeric(any_array(transitions, "transitions"), "transitions")
        n = len(table) if table.ndim else 0
        if not n or table.shape != (n, n):
            raise ValueError(f"transitions must be of shape (K, K), got {table.shape}")
        table = score_table(table, "transitions", (n, n))
        self._lag, self._n = check_integer("lag", lag, 0), n
        self._names = None if labels is None else read_label_names(labels, n)
        mask = scheme_mask(scheme, np.arange(n) if labels is None else self._names)
        ends = (("start", start, mask.start), ("stop", stop, mask.stop))
        self._start, self._stop = (
            own if end is None else own + score_table(any_array(end, name), name, (n,))
            for name, end, own in ends
        )
        width = max(n, 8)  # kernels take eight labels or more
        whole = np.full((width, width), -np.inf)
        whole[:n, :n] = table + mask.pairs
        self._steps = allowed_steps(whole)
        size = max(self._lag + 1, 2)
        check_memory(8 * size * (width + 1), f"{shown(size)} nodes of {n} labels", "lower lag")
        self._best, self._path = np.empty((size, width)), np.empty(size, dtype=np.int64)
        self.n_nodes_ = 0

    @classmethod
    def from_model(cls, model: BaseEstimator, *, lag: int) -> Self:
        """Return the decoder of a trained chain of order 1.

        Transitions, scores of the ends, labels and forbidden transitions are those of the model.
        Push ``x @ model.coef_.T + model.intercept_`` for nodes with features x.

        Parameters
        ----------
        model : estimator, Pipeline or SmoothedClassifier
            Fitted, on ``Chain()`` of order 1. Wrappers stand for the estimator inside: the last
            step of a pipeline, the ``smoother_`` of a SmoothedClassifier.
        lag : int
            Number of later nodes that a label waits for.

        Returns
        -------
        OnlineDecoder
            At the beginning of a stream. With a lag as long as the sequence, the labels equal those
            of ``predict``.

        Raises
        ------
        TypeError
            If the model has another structure, a higher order, hidden states, edge features or
            rules; names it.
        """
        model = innermost(model)[1]
        check_is_fitted(model)
        graph = getattr(model, "graph_", model)
        if type(graph) is not Chain:
            raise TypeError(f"model must be fitted on Chain(), got {type(graph).__name__}")
        for name, default in (("order", 1), ("edge_features", False), ("rules", None)):
            if (value := getattr(graph, name) or default) != default:
                raise TypeError(f"Chain({name}={value!r}) cannot be streamed")
        graph.refuse_states("a stream has no hidden states", TypeError)
        start, stop = model.boundary_coef_ if graph.boundary else (None, None)
        return cls(
            model.pairwise_coef_,
            lag=lag,
            scheme=graph.forbidden,
            labels=model.classes_,
            start=start,
            stop=stop,
        )

    def __repr__(self) -> str:
        return f"OnlineDecoder(n_labels={self._n}, lag={self._lag}, n_nodes_={self.n_nodes_})"

    def push(self, scores: Any) -> np.ndarray:
        """Take in the next nodes, and return the labels that are decided now.

        Parameters
        ----------
        scores : array of shape (n_nodes, K) or (K,)
            Scores of labels at the next nodes, or at the next one: logits or log-probabilities.

        Returns
        -------
        ndarray of shape (n_decided,)
            Labels of the nodes that are `lag` behind: none at first, later one per node.

        Raises
        ------
        ValueError
            If a score is NaN or inf; none of these nodes are taken in. If no labelling is allowed
            any more; the decoder is then at the beginning of a stream.
        """
        scores = numeric(any_array(scores, "scores"), "scores")
        if scores.ndim == 1:
            scores = scores.reshape(-1, self._n) if scores.size == 0 else scores[None]
        if scores.ndim != 2 or scores.shape[1] != self._n:
            raise ValueError(f"scores must be of shape (n_nodes, {self._n}), got {scores.shape}")
        rows = np.full((len(scores), self._best.shape[1]), -np.inf)
        rows[:, : self._n] = scores
        check_scores(rows, None, "scores")
        before, after = self.n_nodes_, self.n_nodes_ + len(rows)
        if before == 0 and len(rows):
            rows[0, : self._n] += self._start
        out = np.empty(max(after - max(before, self._lag), 0), dtype=np.int64)
        taken = _follow(rows, self._steps, before, self._lag, self._best, self._path, out)
        if taken < len(rows):
            self.reset()
            raise ValueError(
                f"node {before + taken}: no labelling is allowed by the scores, the transitions "
                "and the scheme"
            )
        self.n_nodes_ = after
        return self._named(out)

    def finish(self) -> np.ndarray:
        """End the stream: return the labels of the last nodes, at most `lag`, and reset.

        Returns
        -------
        ndarray of shape (n_left,)
            Labels of the nodes that are not decided yet, with the scores `stop`.

        Raises
        ------
        ValueError
            If no labelling may end here; the decoder is at the beginning of a stream all the same.
        """
        n, labels = self.n_nodes_, []
        self.reset()
        for t in range(n - 1, max(n - self._lag, 0) - 1, -1):
            scores = self._best[t % len(self._best), : self._n]
            step = self._steps.table[: self._n, labels[-1]] if labels else self._stop
            labels.append(int(np.argmax(scores + step)))
            if not scores[labels[-1]] + step[labels[-1]] > -np.inf:
                raise ValueError("no labelling may end here, by the scores stop and the scheme")
        return self._named(np.array(labels[::-1], dtype=np.int64))

    def reset(self) -> None:
        """Begin another stream."""
        self.n_nodes_ = 0

    def _named(self, codes):
        return codes if self._names is None else self._names[codes]
