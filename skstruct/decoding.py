"""Decoding of plain arrays, scores of a network or a classifier, by the kernels of estimators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .core.arguments import check_integer, check_real, warn_user
from .core.memory import check_memory, n_best_bytes, shown
from .core.offsets import ends_of, longest_item
from .core.parallel import Pieces, make_scratch, over_samples
from .core.typing import RandomStateLike, SamplesLike
from .core.weights import Weights, zero_weights
from .data.constraints import check_ends, check_steps, transition_mask
from .data.labels import encode, read_label_names, read_sequence_labels
from .data.matrices import numeric, readable, refuse_masked
from .data.packing import Layout, check_scores, read_layout, rows_as_scores, sample_of
from .data.partial import is_partial
from .data.ragged import RaggedArray, object_array, rows_of
from .data.rules import check_rules, single_rules
from .data.values import as_labels
from .graphs.chain import Chain, Sequences
from .lite import chunk_step, scheme_name, tag_and_kind
from .losses.log import LogLoss, LogPartition
from .solvers.decoder import Decoder, clash_of
from .solvers.passes import decode as decode_samples
from .solvers.passes import node_marginals
from .solvers.primal import BatchGradient, loss_values

__all__ = [
    "Transitions",
    "decode",
    "fit_transitions",
    "log_partition",
    "marginals",
    "sample",
    "top_k",
]

_NO_MEMORY = np.empty(0)
# The square of a smaller one is not a number.
_SMALLEST_C = 1e-100


class Transitions(NamedTuple):
    """Scores of steps: what :func:`fit_transitions` returns and other functions accept.

    Read more in the :ref:`User Guide <plain_arrays>`.

    Parameters
    ----------
    transitions : ndarray of shape (K, K)
        Scores of (label, next label), -inf for forbidden ones.
    start, stop : ndarray of shape (K,)
        Scores of labels at the first and at the last node, -inf for forbidden ones.
    biases : dict from str to float, or None
        The score of each kind of step, with ``kind="biases"``.
    objective : float
        ``lam/2 |x|^2 + mean negative log-likelihood``, with x the learned scores.
    gap : float
        Upper bound on how much larger that is than its minimum: ``|gradient|^2 / (2 lam)``.

    See Also
    --------
    skstruct.fit_transitions : Learns them.
    skstruct.decode : Decodes with them.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import decode, fit_transitions
    >>> scores, y = np.zeros((1, 4, 2)), [[0, 1, 0, 1]]
    >>> found = fit_transitions(scores, y, C=10)
    >>> found.transitions.round(1)
    array([[-1. ,  1.6],
           [ 0.3, -1. ]])
    >>> decode(np.zeros((6, 2)), found)
    array([0, 1, 0, 1, 0, 1])
    """

    transitions: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    biases: Any = None
    objective: float = math.nan
    gap: float = math.nan


def any_array(values, name):
    """An array of what NumPy, torch, JAX and other libraries hold, on whatever device."""
    refuse_masked(values, name)
    if sparse.issparse(values):
        raise TypeError(f"{name} is a sparse matrix: give an array (its toarray())")
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # bfloat16, too
    elif hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
        values = np.from_dlpack(values)
    return values if isinstance(values, (list, tuple, RaggedArray)) else np.asarray(values)


def _is_list(values):
    is_array = isinstance(values, np.ndarray)
    return isinstance(values, (list, tuple)) or (is_array and values.ndim and values.dtype == "O")


def _as_ragged(items, name):
    """A list of arrays, packed."""
    names = [f"{name}: sample {i}" for i in range(len(items))]
    if not names:
        raise ValueError(f"{name} is an empty list")
    pairs = zip(items, names, strict=True)
    return RaggedArray.from_list([numeric(any_array(x, own), own) for x, own in pairs])


def score_table(values, name, shape):
    """Scores of a shape, for kernels."""
    table = readable(numeric(values, name), np.float64)
    if table.shape != shape:
        raise ValueError(
            f"{name} must be of shape {shape}, got {table.shape}; the last axis of scores is labels"
        )
    check_scores(table, None, name)
    return table


def scheme_mask(scheme, classes):
    """The mask of a `scheme` argument."""
    try:
        mask = transition_mask(scheme, classes)
    except (TypeError, ValueError) as error:
        why = str(error).replace("forbidden", "scheme", 1)
        raise type(error)(f"{why}; labels= has the names of the columns of scores") from None
    if isinstance(scheme, str):
        lost = _excluded(scheme, tuple(classes.tolist()))
        if 0 < len(lost) < len(classes):
            names = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
            warn_user(
                f"scheme={scheme!r} allows no sequence with the labels {names}: do the labels "
                "follow another scheme?"
            )
    return mask


@lru_cache(maxsize=16)
def _excluded(scheme, labels):
    """Labels that no sequence can have under a tagging scheme, found again by every call."""
    mask = transition_mask(scheme, np.array(labels, dtype=object))
    steps, possible = mask.pairs == 0.0, np.ones(len(labels), dtype=bool)
    for pairs, ends in ((steps, mask.start), (steps.T, mask.stop)):
        reached = new = ends == 0.0
        while new.any():
            new = pairs[new].any(axis=0) & ~reached
            reached = reached | new
        possible &= reached
    return [label for label, is_possible in zip(labels, possible, strict=True) if not is_possible]


class _Batch:
    """Samples in packed rows, and the container that they came in."""

    def __init__(self, scores, lengths):
        scores, self.kind = any_array(scores, "scores"), "ragged"
        if _is_list(scores):
            self.kind, scores = "list", _as_ragged(scores, "scores")
            if scores.flat.ndim == 1:  # the rows of one sequence
                scores = numeric([*scores], "scores")
        if isinstance(scores, RaggedArray):
            if lengths is not None:
                raise ValueError("lengths is for arrays: samples in a list have their own")
            rows = numeric(rows_of(scores), "scores")
            self.layout = Layout(scores.offsets, (len(rows),), None, True)
        else:
            rows = numeric(scores, "scores")
            self.kind = "padded" if rows.ndim == 3 else "one" if lengths is None else "packed"
            if rows.ndim in (2, 3) and rows.shape[-1]:
                lengths = [len(rows)] if self.kind == "one" else lengths
                given = None if lengths is None else np.asarray(any_array(lengths, "lengths"))
                is_mask = given is not None and given.dtype == bool
                if (
                    given is not None
                    and not is_mask
                    and given.shape == rows.shape[:-1] != (len(rows),)
                ):
                    raise TypeError(
                        f"lengths has the shape of a mask, {given.shape}, and the type "
                        f"{given.dtype}: a mask is of type bool, pass mask.astype(bool)"
                    )
                given = (None, given) if is_mask else (given, None)
                self.layout = read_layout(rows.shape, *given)
                rows = self.layout.pack(rows)
        if rows.ndim != 2 or not rows.shape[1]:
            raise ValueError(
                "scores must be of shape (n_samples, length, n_labels), (length, n_labels) for one "
                f"sequence, or a list of such, got {rows.shape}"
            )
        self.offsets, self.rows = self.layout.offsets, readable(rows, np.float64)
        check_scores(self.rows, self.layout, "scores")
        self.lengths = np.diff(self.offsets)
        self.keep = self.lengths > 0

    def wrap(self, rows, fill=0):
        """Packed rows in the container of the scores."""
        if self.kind == "ragged":
            return RaggedArray(rows, self.offsets)
        if self.kind == "list":
            return object_array([rows[a:b] for a, b in pairwise(self.offsets.tolist())])
        return self.layout.unpack(rows, fill)

    def wrap_several(self, table, counts, fill):
        """The first `counts` labellings of each sample, packed in the rows of a table."""
        if self.kind == "one":
            return table[: counts[0]]
        if self.kind == "padded":
            table[np.arange(len(table))[:, None] >= np.repeat(counts, self.lengths)] = fill
            return np.moveaxis(self.layout.unpack(table.T, fill), -1, 1)
        ends = zip(counts.tolist(), pairwise(self.offsets.tolist()), strict=True)
        return object_array([table[:count, a:b] for count, (a, b) in ends])

    def per_sample(self, values, fill):
        """Results of the samples that have nodes, `fill` for others."""
        out = np.full((self.keep.size, *values.shape[1:]), fill, dtype=values.dtype)
        out[self.keep] = values
        return out


class _Chains(Decoder):
    """Samples with their scores, packed for kernels: a model whose weights are the scores."""

    _has_intercept = False

    def __init__(
        self, scores, transitions, scheme, labels, lengths, start, stop, n_jobs, rules=None,
        n_best=1, boundary=False,
    ):  # fmt: skip
        batch = self.batch = _Batch(scores, lengths)
        self.n_jobs, n_labels = n_jobs, batch.rows.shape[1]
        if isinstance(transitions, Transitions):
            if start is not None or stop is not None:
                raise ValueError("start and stop are among the transitions: leave them out")
            transitions, start, stop = transitions[:3]
        self.labels, self.classes_ = labels, np.arange(n_labels)
        if labels is not None:
            self.classes_ = read_label_names(labels, n_labels)
        self.mask = scheme_mask(scheme, self.classes_)
        self.ends, rows, edges = ends_of(batch.lengths[batch.keep]), batch.rows, None
        table, per_step = self._steps(transitions, n_labels)
        boundary |= start is not None or stop is not None
        if boundary:
            for name, end in (("start", start), ("stop", stop)):
                end = np.zeros(n_labels) if end is None else any_array(end, name)
                rows = np.vstack([rows, score_table(end, name, (n_labels,))])
        if per_step:
            edges = rows_as_scores(Sequences(table, self.ends)).features
        self.samples = rows_as_scores(Sequences(batch.rows, self.ends, edges))
        if n_best > 1:
            what = f"{shown(n_best)} best labellings of {batch.keep.size:,} samples"
            # Those of padded scores are copied into their places.
            each = n_best_bytes(batch.lengths, (1 + (batch.kind == "padded")) * self.name_bytes())
            check_memory(n_best * each, what, "lower k")
        self.graph_ = Chain(boundary, edge_features=per_step, forbidden=scheme)
        if rules is not None:
            self.graph_ = self.graph_.with_rules(rules)
        self.problem = self._decoding_problem(self.samples, n_best=n_best)
        self.w = Weights(rows, table)

    def _steps(self, transitions, n_labels):
        """The tables of steps, and whether there is one for each."""
        batch, square = self.batch, (n_labels, n_labels)
        given = np.zeros(square) if transitions is None else any_array(transitions, "transitions")
        counts = np.maximum(batch.lengths - 1, 0)
        is_list = _is_list(given) and len(given) > 0
        n_axes = 1 + np.ndim(given[0]) if is_list else np.ndim(given)
        if n_axes <= 2 and not isinstance(given, RaggedArray):
            return score_table(given, "transitions", square).reshape(1, -1), False
        if batch.kind in ("list", "ragged"):
            given = given if isinstance(given, RaggedArray) else _as_ragged(given, "transitions")
            wrong = [0] if len(given) != counts.size else np.flatnonzero(given.lengths != counts)
            if len(wrong):
                raise ValueError(
                    f"transitions: sample {wrong[0]} must have a table for each of "
                    f"{counts[wrong[0]]} steps"
                )
            given = rows_of(given)
        elif batch.kind == "padded":
            n, longest = batch.layout.shape
            shape = (n, max(longest - 1, 0), *square)
            given = numeric(given, "transitions")
            given = np.broadcast_to(given, shape) if given.shape == shape[1:] else given
            inside = batch.layout.unpack(np.ones(len(batch.rows), dtype=bool), False)
            if (inside[:, 1:] > inside[:, :-1]).any():
                raise ValueError("transitions: one table a step is for a mask without holes")
            given = score_table(given, "transitions", shape)[np.arange(shape[1]) < counts[:, None]]
        table = score_table(given, "transitions", (int(counts.sum()), *square))
        return table.reshape(len(table), n_labels * n_labels), True

    def at_scores(self, task):
        """The problem of a task at these scores: "best", "sums" or "draws"."""
        return self.graph_._at_weights(self.problem, self.w, task)

    def run(self, kernel, problem, *arrays, room=None):
        """Call a kernel on all samples; raise for what fails."""
        self._refuse_unsolved(self._pass(kernel, problem, *arrays, room=room), self.batch.keep)

    def obey(self, rules, codes, values=None):
        """Decode what breaks rules again."""
        if rules is not None:
            graph = self.graph_.with_rules(rules)
            self._obey(graph, self.problem, self.samples, self.batch.keep, codes, values)

    def _weights(self):
        return self.w

    def _refuse_unsolved(self, ends, keep, problem=None):
        """Raise for the first sample without a labelling."""
        for end in ends:
            if end == -1:
                continue
            why = "the sums of scores overflow"
            if end >= 0:
                why = "no labelling is allowed by the scores, the transitions and the scheme"
                clash = clash_of(self.graph_, self.classes_, problem or self.problem, end)
                rules = clash or self.graph_.rules
                why += f" together with the rules {rules}" if rules else ""
            raise ValueError(f"sample {np.flatnonzero(keep)[max(end, -2 - end)]}: {why}")

    def name_bytes(self):
        """Bytes of a label in results."""
        return 8 if self.labels is None else self.classes_.itemsize

    def names(self, codes):
        """Labels of codes, and what stands in the padding."""
        if self.labels is None:
            return codes.astype(np.int64), -1
        names = self.classes_[codes]
        return (names.astype(object), None) if self.batch.kind == "padded" else (names, None)


def decode(
    scores: Any,
    transitions: ArrayLike | Transitions | None = None,
    *,
    scheme: str | Iterable | None = None,
    labels: ArrayLike | Mapping | None = None,
    lengths: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: ArrayLike | None = None,
    rules: list | None = None,
    n_jobs: int | None = None,
) -> Any:
    """Best labelling of each sequence of scores (Viterbi decoding).

    Read more in the :ref:`User Guide <plain_arrays>`.

    Parameters
    ----------
    scores : array of shape (n_samples, length, K) or (length, K), list of arrays, or RaggedArray
        Scores of the K labels at each node: logits or log-probabilities, of any float type; sums
        use float64. Padded samples, one sequence, or a list of samples of shape (length_i, K), as
        NumPy arrays, torch tensors on any device (with a gradient, too), JAX arrays, or objects
        with ``__array__`` or ``__dlpack__``. -inf forbids a label at a node.
    transitions : array-like of shape (K, K), or Transitions, default=None
        Scores of (label, next label), -inf for a forbidden transition; zeros by default. Or the
        result of :func:`fit_transitions`. Or one table per transition: of shape (length - 1, K, K)
        for one sequence or for all padded samples, (n_samples, length - 1, K, K), or a list of such
        arrays for a list of scores.
    scheme : str, or list of pairs and str, default=None
        Forbidden transitions, as the parameter `forbidden` of :class:`Chain`: a tagging scheme such
        as "bio" or "bioes", which needs `labels`; or pairs (label, next label), None for an end of
        the sequence; or a list of both.
    labels : array-like of shape (K,) or dict, default=None
        Names of the labels, in the order of the columns, or by their numbers (``id2label`` of
        transformers). Without them labels are 0 to K - 1.
    lengths : array-like of shape (n_samples,) of int, or (n_samples, length) of bool, default=None
        Nodes of each padded sample, or a mask of the nodes, which may have holes: what lies between
        two nodes is left out, and they are neighbours. By default there is no padding. Scores of
        shape (n_nodes, K) hold the samples one after another.
    start, stop : array-like of shape (K,), default=None
        Scores of labels at the first and at the last node.
    rules : list of rules, default=None
        Constraints on whole label sequences, such as ``[AtMostOnce("ZIP")]``. See :ref:`rules`.
    n_jobs : int, default=None
        Threads.

    Returns
    -------
    ndarray or RaggedArray
        Labels in the container of the scores: of shape (n_samples, length) for padded ones, with -1
        in the padding, or None if there are `labels`; (length,) for one sequence; an object array
        of arrays for a list; a RaggedArray for one. Ties go to the first label, as in the
        predictions of estimators.

    Raises
    ------
    ValueError, TypeError
        If a score is NaN or inf, no labelling of a sample is allowed, or arguments do not fit
        together; the message names the sample.

    See Also
    --------
    skstruct.fit_transitions : Learns transition scores from labelled scores.
    skstruct.top_k : The best labellings, with their scores.
    skstruct.marginals : Probabilities of labels.
    skstruct.torch.decode : The same for other structures, as tensors.

    Examples
    --------
    A classifier's best labels, one by one, are O and I-PER, which no tagging scheme allows:

    >>> import numpy as np
    >>> from skstruct import decode
    >>> scores = np.log([[0.5, 0.4, 0.1], [0.3, 0.1, 0.6]])
    >>> decode(scores, labels=["O", "B-PER", "I-PER"]).tolist()
    ['O', 'I-PER']
    >>> decode(scores, labels=["O", "B-PER", "I-PER"], scheme="bio").tolist()
    ['B-PER', 'I-PER']

    Two sequences, padded:

    >>> decode(np.stack([scores, scores]), lengths=[2, 1])
    array([[ 0,  2],
           [ 0, -1]])
    """
    chains = _Chains(scores, transitions, scheme, labels, lengths, start, stop, n_jobs)
    codes = np.empty(len(chains.batch.rows), dtype=np.int32)
    chains.run(decode_samples, chains.graph_.decoding(chains.problem, chains.w), codes)
    chains.obey(rules, codes[None])
    return chains.batch.wrap(*chains.names(codes))


def top_k(
    scores: Any,
    k: int,
    transitions: ArrayLike | Transitions | None = None,
    *,
    scheme: str | Iterable | None = None,
    labels: ArrayLike | Mapping | None = None,
    lengths: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: ArrayLike | None = None,
    rules: list | None = None,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The `k` best labellings of each sequence of scores, and what they score (n-best decoding).

    Time grows as ``k log k`` at most, memory with `k` times the number of nodes. Read more in the
    :ref:`User Guide <plain_arrays>`.

    Parameters
    ----------
    scores : array, list of arrays, or RaggedArray
        As for :func:`decode`.
    k : int
        Number of labellings, at least 1.
    transitions, scheme, labels, lengths, start, stop, rules, n_jobs : object
        As for :func:`decode`.

    Returns
    -------
    labellings : ndarray
        Best first. For one sequence of shape (k', length), where k' < k if it has fewer labellings.
        For padded scores (n_samples, k, length), with -1 (None if there are `labels`) in the
        padding and where there are fewer. Otherwise an object array of arrays (k', length_i).
    values : ndarray
        Their scores: of shape (k',), (n_samples, k) with -inf where there are fewer, or an object
        array of arrays (k',).

    Raises
    ------
    MemoryError
        If the result does not fit into memory.

    See Also
    --------
    skstruct.decode : The best one.
    skstruct.sample : Labellings by chance.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import top_k
    >>> top_k(np.array([[1.0, 0.0], [0.0, 3.0]]), 2)
    (array([[0, 1],
           [1, 1]]), array([4., 3.]))
    """
    k = check_integer("k", k)
    task = scores, transitions, scheme, labels, lengths, start, stop, n_jobs
    chains = _Chains(*task, n_best=k)
    batch, n_nodes = chains.batch, len(chains.batch.rows)
    values, codes = np.empty((int(batch.keep.sum()), k)), np.empty((k, n_nodes), dtype=np.int32)

    ends = chains._n_best(chains.at_scores("best"), chains.w, values, codes)
    chains._refuse_unsolved(ends, batch.keep)
    chains.obey(rules, codes, values)
    values = batch.per_sample(values, -np.inf)
    values[~batch.keep, 0] = 0.0  # the empty labelling
    counts = np.count_nonzero(values > -np.inf, axis=1)
    names, fill = chains.names(codes)
    labellings = batch.wrap_several(names, counts, fill)
    if batch.kind == "padded":
        return labellings, values
    found = [row[:count] for row, count in zip(values, counts, strict=True)]
    return labellings, found[0] if batch.kind == "one" else object_array(found)


def marginals(
    scores: Any,
    transitions: ArrayLike | Transitions | None = None,
    *,
    scheme: str | Iterable | None = None,
    labels: ArrayLike | Mapping | None = None,
    lengths: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: ArrayLike | None = None,
    n_jobs: int | None = None,
    rules: list | None = None,
) -> Any:
    """Probability of each label at each node, over all labellings (forward-backward).

    Read more in the :ref:`User Guide <plain_arrays>`.

    Parameters
    ----------
    scores : array, list of arrays, or RaggedArray
        As for :func:`decode`.
    transitions, scheme, labels, lengths, start, stop, n_jobs : object
        As for :func:`decode`.
    rules : list of rules, default=None
        As for :func:`decode`, but the product of their automata must be small.

    Returns
    -------
    ndarray or RaggedArray
        Probabilities in the container and of the shape of the scores, zeros in the padding.

    Raises
    ------
    ValueError, TypeError
        As for :func:`decode`.

    See Also
    --------
    skstruct.log_partition : The function whose gradient they are.
    skstruct.sample : Whole labellings by chance.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import marginals
    >>> marginals(np.zeros((2, 2)), [[0.0, 0.0], [-np.inf, 0.0]]).round(3)
    array([[0.667, 0.333],
           [0.333, 0.667]])
    """
    chains = _Chains(scores, transitions, scheme, labels, lengths, start, stop, n_jobs, rules)
    out = np.empty_like(chains.batch.rows)
    chains.run(node_marginals, chains.at_scores("sums"), out)
    return chains.batch.wrap(np.clip(out, 0.0, 1.0, out=out))


def log_partition(
    scores: Any,
    transitions: ArrayLike | Transitions | None = None,
    *,
    scheme: str | Iterable | None = None,
    labels: ArrayLike | Mapping | None = None,
    lengths: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: ArrayLike | None = None,
    n_jobs: int | None = None,
    rules: list | None = None,
) -> float | np.ndarray:
    """The log-partition function: logarithm of the sum of exp(score) over all labellings.

    A labelling's score less this is its log-probability. Read more in the :ref:`User Guide
    <plain_arrays>`.

    Parameters
    ----------
    scores : array, list of arrays, or RaggedArray
        As for :func:`decode`.
    transitions, scheme, labels, lengths, start, stop, n_jobs : object
        As for :func:`decode`.
    rules : list of rules, default=None
        As for :func:`marginals`: only labellings that obey them count.

    Returns
    -------
    float or ndarray of shape (n_samples,)
        One number for one sequence; 0 for a sample without nodes.

    Raises
    ------
    ValueError, TypeError
        As for :func:`decode`.

    See Also
    --------
    skstruct.marginals : Its gradient.
    skstruct.top_k : Labellings and their scores.

    Examples
    --------
    Two nodes of two labels have four labellings:

    >>> import numpy as np
    >>> from skstruct import log_partition
    >>> bool(np.isclose(log_partition(np.zeros((2, 2))), np.log(4)))
    True
    """
    chains = _Chains(scores, transitions, scheme, labels, lengths, start, stop, n_jobs, rules)
    out = np.empty((3, chains.ends.size - 1))

    def run(part, first, last):
        scratch = make_scratch(part)
        loss_values(LogPartition(), part, chains.w, _NO_MEMORY, first, last, scratch, out)

    over_samples(run, chains.at_scores("sums"), n_jobs)
    bad = np.flatnonzero(~np.isfinite(out[0]))
    ends = np.where(out[0, bad] == -math.inf, bad, -2 - bad)
    chains._refuse_unsolved(ends, chains.batch.keep)
    values = chains.batch.per_sample(out[0], 0.0)
    return float(values[0]) if chains.batch.kind == "one" else values


def sample(
    scores: Any,
    n_samples: int = 1,
    transitions: ArrayLike | Transitions | None = None,
    *,
    scheme: str | Iterable | None = None,
    labels: ArrayLike | Mapping | None = None,
    lengths: ArrayLike | None = None,
    start: ArrayLike | None = None,
    stop: ArrayLike | None = None,
    rules: list | None = None,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Labellings drawn from the distribution of the scores, independent and exact.

    Read more in the :ref:`User Guide <plain_arrays>`.

    Parameters
    ----------
    scores : array, list of arrays, or RaggedArray
        As for :func:`decode`.
    n_samples : int, default=1
        How many labellings of each sequence.
    transitions, scheme, labels, lengths, start, stop : object
        As for :func:`decode`.
    rules : list of rules, default=None
        As for :func:`marginals`.
    random_state : int, RandomState instance or None, default=None
        Seed. The draws do not depend on the number of threads.
    n_jobs : int, default=None
        Threads.

    Returns
    -------
    ndarray
        For one sequence of shape (n_samples, length), for padded scores (number of sequences,
        n_samples, length) with -1 or None in the padding, otherwise an object array of arrays
        (n_samples, length_i).

    Raises
    ------
    ValueError, TypeError
        As for :func:`decode`.

    See Also
    --------
    skstruct.marginals : Probabilities of single labels.
    skstruct.top_k : The best labellings.

    Examples
    --------
    Labels that never change:

    >>> import numpy as np
    >>> from skstruct import sample
    >>> sample(np.zeros((4, 2)), 3, [[0, -np.inf], [-np.inf, 0]], random_state=1)
    array([[0, 0, 0, 0],
           [1, 1, 1, 1],
           [0, 0, 0, 0]])
    """
    n_draws = check_integer("n_samples", n_samples)
    chains = _Chains(scores, transitions, scheme, labels, lengths, start, stop, n_jobs, rules)
    batch, n_nodes = chains.batch, len(chains.batch.rows)
    what = f"{shown(n_draws)} labellings of {batch.keep.size:,} samples"
    advice = "ask for fewer (n_samples)"
    check_memory((12 + chains.name_bytes()) * n_draws * n_nodes, what, advice)
    uniforms = check_random_state(random_state).random_sample((n_nodes, n_draws))
    codes = np.empty((n_draws, n_nodes), dtype=np.int32)
    longest = int(batch.lengths.max(initial=1))
    problem, room = chains.at_scores("draws"), 1
    if problem is chains.problem:  # the marginals of edges
        room = max(longest_item(problem.part_ptr), (longest - 1) * batch.rows.shape[1] ** 2)
    ends = chains._draw(problem, room, uniforms, codes)
    chains._refuse_unsolved(ends, batch.keep)
    names, fill = chains.names(codes)
    return batch.wrap_several(names, np.full(batch.keep.size, n_draws), fill)


_SIX = (
    ("O->O", "O->B", "B->I", "I->I", "I->O", "I->B"),
    ("O->O", "O->B", "I->I", "I->E", "E->O", "E->B"),
)


def _kinds_of_steps(scheme, labels):
    """The kind of each step (label, next label), of six, and their names."""
    name = scheme_name(scheme)
    marks_ends = name not in ("iob1", "iob2")

    def kind(before, after):
        if "O" in (before[0], after[0]):
            return (0 if after[0] == "O" else 1) if before[0] == "O" else 4
        if not chunk_step(before, after, name)[1]:
            return 5
        return 3 if (after[0] == "E" if marks_ends else before[0] == "I") else 2

    tags = [tag_and_kind(label, name) for label in labels]
    return np.array([kind(before, after) for before in tags for after in tags]), _SIX[marks_ends]


def fit_transitions(
    scores: Any,
    y: SamplesLike,
    *,
    scheme: str | Iterable | None = None,
    labels: ArrayLike | Mapping | None = None,
    lengths: ArrayLike | None = None,
    rules: list | None = None,
    kind: Literal["table", "biases"] = "table",
    C: float = 1.0,
    max_iter: int = 500,
    tol: float = 1e-6,
    n_jobs: int | None = None,
) -> Transitions:
    r"""Learn transition scores that make the labels most likely under given scores.

    Minimises :math:`\tfrac12 \|x\|^2 - C \sum_i \log p_x(y_i)` over the transition scores x, with
    L-BFGS and exact gradients: a conditional random field whose scores of nodes are fixed. The
    problem is strongly convex, so that the gradient bounds the suboptimality. Use held-out scores:
    those of a classifier's training data are overconfident. Read more in the :ref:`User Guide
    <plain_arrays>`.

    Parameters
    ----------
    scores : array, list of arrays, or RaggedArray
        As for :func:`decode`.
    y : array-like
        True labels (names if there are `labels`): padded like the scores, with any padding value,
        or one sequence per sample.
    scheme, labels, lengths, rules : object
        As for :func:`decode`. Labels of y must follow the scheme and obey the rules; probabilities
        are conditional on these, as in :func:`marginals`.
    kind : {"table", "biases"}, default="table"
        "table" learns one score per (label, next label), and per label at the first and at the last
        node. "biases" learns six numbers, one per kind of transition, and none for the ends; it
        needs a scheme with tags and `labels`. Where the scheme does not mark ends of chunks
        ("iob1", "bio") they are ``"O->O"``, ``"O->B"``, ``"B->I"``, ``"I->I"``, ``"I->O"`` and
        ``"I->B"``, B being the first node of a chunk and I a later one; else ("ioe1", "ioe2",
        "bioes", "bilou") ``"O->O"``, ``"O->B"``, ``"I->I"``, ``"I->E"``, ``"E->O"`` and ``"E->B"``,
        E being the last: the six transition biases of OpenAI's privacy filter.
    C : float, default=1.0
        Inverse of the regularisation, as in LogisticRegression.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float, default=1e-6
        Stop when ``gap / objective`` of the result is at most this.
    n_jobs : int, default=None
        Threads. The result is the same for any number, bit for bit.

    Returns
    -------
    Transitions
        The scores, -inf for forbidden steps: `transitions` of :func:`decode`.

    Raises
    ------
    ValueError, TypeError
        As for :func:`decode`, and if a label of y is unknown or forbidden, or there are more or
        fewer labels than nodes.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations do not reach `tol`.

    See Also
    --------
    skstruct.decode : Decodes with the result.
    skstruct.SAGCRF : Learns scores of nodes, too, from features.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import fit_transitions
    >>> labels = ["O", "B-X", "I-X"]
    >>> y = [["O", "B-X", "I-X", "I-X", "O"], ["O", "O", "O"]]
    >>> scores = [np.zeros((5, 3)), np.zeros((3, 3))]
    >>> found = fit_transitions(scores, y, scheme="bio", labels=labels, kind="biases", C=10)
    >>> {step: round(value, 1) for step, value in found.biases.items()}
    {'O->O': 0.6, 'O->B': 0.0, 'B->I': 0.1, 'I->I': 0.9, 'I->O': 0.0, 'I->B': -1.7}
    """
    if kind not in ("table", "biases"):
        raise ValueError(f'kind must be "table" or "biases", got {kind!r}')
    if kind == "biases" and (labels is None or not isinstance(scheme, str)):
        raise ValueError('kind="biases" needs a tagging scheme, such as "bio", and labels')
    C, tol = check_real("C", C, _SMALLEST_C), check_real("tol", tol)
    max_iter = check_integer("max_iter", max_iter)
    ends = None, None
    chains = _Chains(scores, None, scheme, labels, lengths, *ends, n_jobs, rules, boundary=True)
    batch, w, mask, n = chains.batch, chains.w, chains.mask, chains.ends.size - 1
    n_labels = mask.start.size
    if not n:
        raise ValueError("scores has no nodes: there is nothing to learn from")
    codes = _read_y(y, chains)
    steps = np.delete(np.arange(len(codes)), chains.ends[1:] - 1)
    for check in (check_steps, check_ends):
        check(mask, codes, steps, steps + 1, batch.offsets, chains.classes_, scheme)
    check_rules(single_rules(rules, chains.classes_), chains.classes_, codes, batch.offsets)
    n_pairs, names = n_labels * n_labels, None
    place = np.arange(n_pairs + 2 * n_labels)  # the parameter of each step
    if kind == "biases":
        of_pairs, names = _kinds_of_steps(scheme, chains.classes_.tolist())
        place = np.concatenate([of_pairs, np.full(2 * n_labels, len(names))])
    n_free, lam = place.size if names is None else len(names), 1.0 / (C * n)
    gradient, values, last = zero_weights([w.node.shape, w.pair.shape]), np.empty((2, n)), {}
    problem, shares = chains.problem.with_labels(codes), np.full(n, 1.0 / n)
    batch_gradient = BatchGradient(LogLoss(), problem, shares, n_jobs)

    def objective(x):
        """``lam/2 |x|^2 + mean NLL`` and its gradient."""
        scores_of_steps = np.append(x, 0.0)[place]
        w.pair[0], w.node[-2:] = scores_of_steps[:n_pairs], scores_of_steps[n_pairs:].reshape(2, -1)
        for table in gradient.tables:
            table.fill(0.0)
        batch_gradient.add(w, gradient, values, Pieces())
        bad = np.flatnonzero(~np.isfinite(values[0]))
        if bad.size:
            i = np.flatnonzero(batch.keep)[bad[0]]
            raise ValueError(f"sample {i}: its labels score -inf, or the sums of scores overflow")
        found = np.concatenate([gradient.pair[0], gradient.node[-2:].ravel()])
        slope = np.bincount(place, found, n_free + 1)[:n_free] + lam * x
        last["x"], last["value"] = x.copy(), 0.5 * lam * x @ x + values[0].mean()
        last["gap"] = slope @ slope / (2.0 * lam)
        return last["value"], slope

    def close_enough(x):
        if np.array_equal(x, last["x"]) and last["gap"] <= tol * last["value"]:
            raise StopIteration

    # The certificate ends it, not SciPy's own tests.
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": 0.0}
    how = {"jac": True, "method": "L-BFGS-B", "callback": close_enough, "options": options}
    x = minimize(objective, np.zeros(n_free), **how).x
    value, gap = objective(x)[0], last["gap"]
    if gap > tol * value:
        warn_user(
            f"fit_transitions did not converge in max_iter={max_iter} iterations: the relative gap "
            f"is {gap / value:.1e}, tol is {tol:.1e}",
            ConvergenceWarning,
        )
    pairs, (first, final) = w.pair.reshape(n_labels, n_labels), w.node[-2:]
    biases = None if names is None else dict(zip(names, x.tolist(), strict=True))
    tables = pairs + mask.pairs, first + mask.start, final + mask.stop
    return Transitions(*tables, biases, float(value), float(gap))


def _read_y(y, chains):
    """Codes of true labels, packed."""
    try:
        return _codes_of(y, chains)
    except (TypeError, ValueError) as error:
        if not is_partial(rows_of(y) if isinstance(y, RaggedArray) else y):
            raise
        raise ValueError(
            f"{error}: fit_transitions needs one label per node; SAGCRF().fit(scores, y), with a "
            "list of arrays as scores, takes missing labels and sets of labels"
        ) from None


def _codes_of(y, chains):
    """The same, where each node has one label."""
    batch, y = chains.batch, any_array(y, "y")

    def of_sample(row):
        return f"sample {sample_of(row, batch.offsets)}"

    is_flat = isinstance(y, (list, tuple)) and not any(map(np.ndim, y))
    if is_flat and batch.kind in ("one", "packed"):
        y = as_labels(y, "y", of_sample)
    if isinstance(y, np.ndarray) and y.shape == batch.layout.shape and y.dtype != "O":
        flat = as_labels(batch.layout.pack(y), "y", of_sample)
    else:
        try:
            flat = read_sequence_labels([y] if batch.kind == "one" else y, batch.offsets)
        except ValueError as error:
            raise ValueError(str(error).replace("X has", "scores has")) from None
    order = np.argsort(chains.classes_)
    return order[encode(flat, chains.classes_[order], batch.offsets)].astype(np.int32)
