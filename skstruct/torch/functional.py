"""Structured losses, marginals and best labellings of batches of scores."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..core.arguments import check_integer
from ..core.jit.dispatch import require
from ..core.oracles import (
    exp_oracle,
    has_own_loss,
    loss_augmented_top_k,
    max_oracle,
    require_linear_loss,
    top_k_oracle,
)
from ..core.typing import LossLike
from ..graphs.base import Graph
from ..graphs.pairwise.base import PairwiseGraph
from ..losses.hinge import hinge_of, smooth_hinge
from ..losses.log import LogLoss, LogPartition
from .autograd import REDUCTIONS, Batch, StructuredLoss, gradient_of, labels_of, result_type
from .batches import check_scores, read_labels, read_layout
from .problems import chain_task, is_plain_chain, resolve, structured_task

Reduction = Literal["sum", "mean", "token_mean", "none"]


def _not_traced(function):
    """Let torch.compile call a function as it is: its NumPy code is not for a graph of tensors."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        # `disable` imports the compiler, which takes seconds: only where it is there already.
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call


class _Request:
    """Arguments that all functions of this file share, checked and packed."""

    def __init__(self, scores, pair, lengths, mask, graph, structure, start, stop, batch_first):
        check_scores(scores, "scores", (2, 3))
        self.graph = resolve(graph)
        if self.graph.is_table and lengths is None and scores.dim() == 2:
            lengths = np.ones(scores.shape[0], dtype=np.int64)
        self.layout = read_layout(scores, lengths, mask, batch_first)
        self.n_labels, self.structure = scores.shape[-1], structure
        self.plain = is_plain_chain(self.graph)
        if self.plain and structure is not None:
            raise ValueError("structure is not for chains without edge features")
        if self.plain and self.n_labels == 0:
            raise ValueError("scores has no columns")
        for name, end in (("start", start), ("stop", stop)):
            if end is None:
                continue
            if not self.plain:
                raise ValueError(f"{name} is for chains; {type(self.graph).__name__} has no ends")
            check_scores(end, name, (1,))
            if end.shape[0] != self.n_labels:
                raise ValueError(
                    f"{name} has {end.shape[0]} scores, but scores {self.n_labels} labels"
                )
        self.tensors = scores, pair, start, stop

    def task(self, labels=None, cost="hamming", n_best=1):
        """Return the problem, after a check of the labels and the table of pairs."""
        offsets = self.layout.offsets
        if labels is not None and isinstance(self.graph, PairwiseGraph):
            labels = read_labels(labels, self.layout, self.n_labels)
        elif isinstance(labels, torch.Tensor):
            labels = labels.detach().cpu().numpy()
        if self.plain:
            graph, shape = self.graph, (1, self.n_labels**2)
            task = chain_task(graph, offsets, self.n_labels, labels, cost, n_best)
        else:
            options = offsets, self.n_labels, labels, cost, n_best
            graph, shape, task = structured_task(self.graph, self.structure, *options)
        self.pair_shape, pair = shape, self.tensors[1]
        if 0 in shape:
            if pair is not None:
                raise ValueError(f"{type(graph).__name__} has no table of pairs: pass pair=None")
            return task
        tables = graph.pair_tables(np.zeros(shape), self.n_labels).shape
        if pair is None:
            raise ValueError(f"pair is missing: a tensor of shape {tables}")
        if not isinstance(pair, torch.Tensor) or not pair.is_floating_point():
            got = pair.dtype if isinstance(pair, torch.Tensor) else type(pair).__name__
            raise TypeError(f"pair must be a tensor of floats, got {got}")
        full = int(np.prod(tables)) == int(np.prod(shape))
        if tuple(pair.shape) not in ({shape, tables} if full else {shape}):
            raise ValueError(
                f"pair must have the shape {tables if full else shape}, got {tuple(pair.shape)}"
            )
        return task

    def reduced(self, task, loss, reduction):
        """The loss of the batch."""
        if reduction not in REDUCTIONS:
            raise ValueError(f"invalid reduction: {reduction}; must be one of {REDUCTIONS}")
        batch = Batch(self.layout, task, loss, self.pair_shape, reduction)
        return StructuredLoss.apply(batch, *self.tensors)

    def tables(self, task):
        """The batch without a loss, and the tables that kernels see."""
        batch = Batch(self.layout, task, LogPartition(), self.pair_shape, "none")
        return batch, batch.weights(*self.tensors)


@_not_traced
def crf_loss(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    labels: Any,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: str | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    reduction: Reduction = "mean",
) -> torch.Tensor:
    """Negative log-likelihood of the labels: the loss of conditional random fields.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores : Tensor of shape (n_rows, K) or (B, T, K)
        Scores of the labels of each node, in log space: packed samples one after another, or padded
        ones. -inf forbids a label. Sums are made in float64 whatever the type.
    pair : Tensor or None
        Scores of (label, next label), shape (K, K): for other structures what ``pairwise_coef_`` of
        an estimator would be. None where a structure has no pairs.
    labels : Tensor of int
        Labels 0 to K - 1, packed (n_rows,) or padded; what lies in the padding does not matter. For
        structures other than graphs of nodes and edges: what ``fit`` takes as y.
    lengths : sequence of int, optional
        Nodes of each sample; packed scores need it.
    mask : Tensor of bool or uint8, optional
        Instead of lengths, of padded scores: True at nodes, False in the padding after them.
    start, stop : Tensor of shape (K,), optional
        Scores of labels at the first and at the last node of a chain.
    graph : "chain" or Graph, default="chain"
        The structure.
    structure : sequence, optional
        What follows the features in each sample of X: parents or edges of :class:`Tree`, edges of
        :class:`Pairwise` (with edge features a tuple of both), (height, width) of :class:`Grid`,
        (n_sources, n_targets) of :class:`Matching`.
    batch_first : bool, default=True
        False for padded tensors of shape (T, B, ...).
    reduction : {"mean", "sum", "token_mean", "none"}, default="mean"
        Mean over samples, sum, sum over the number of nodes, or one loss per sample.

    Returns
    -------
    Tensor
        The loss, on the device of the scores; it can be differentiated once. It is float64 if a
        tensor of scores is, else float32, also for scores in float16 or bfloat16; the gradient of
        each tensor has that tensor's type.

    Raises
    ------
    ValueError, TypeError
        If arguments do not fit together, a score is NaN or inf, or the labels of a sample are not
        allowed; the message names the sample.

    See Also
    --------
    skstruct.torch.CRF : The same as a layer, with the scores of pairs.
    skstruct.torch.smoothed_hinge_loss : A loss that counts errors.
    skstruct.torch.decode : Best labels.

    References
    ----------
    .. [1] Lafferty, McCallum, Pereira (2001). Conditional Random Fields: Probabilistic Models for
       Segmenting and Labeling Sequence Data. ICML.

    Examples
    --------
    >>> import torch
    >>> from skstruct.torch import crf_loss
    >>> scores, pair = torch.zeros(3, 2, requires_grad=True), torch.zeros(2, 2)
    >>> loss = crf_loss(scores, pair, torch.tensor([0, 1, 1]), lengths=[2, 1], reduction="sum")
    >>> loss.backward()  # 3 nodes with 2 labels each: 3 log 2
    >>> round(loss.item(), 3), scores.grad.tolist()
    (2.079, [[-0.5, 0.5], [0.5, -0.5], [0.5, -0.5]])
    """
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first)
    task = ask.task(_given(labels))
    require(exp_oracle, task.problem, "use smoothed_hinge_loss with smoothing=None")
    return ask.reduced(task, LogLoss(), reduction)


def _given(labels):
    if labels is None:
        raise TypeError("labels is None")
    return labels


@_not_traced
def smoothed_hinge_loss(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    labels: Any,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    smoothing: Literal["entropy", "l2"] | None = "entropy",
    strength: float = 1.0,
    n_best: int = 5,
    cost: LossLike = "hamming",
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: str | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    reduction: Reduction = "mean",
) -> torch.Tensor:
    """The structural hinge of SSVMs, smoothed or as it is.

    The best score of a labelling and its task loss, less the score of the labels. Read more in the
    :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair, labels, lengths, mask : Tensor
        As for :func:`crf_loss`.
    smoothing : {"entropy", "l2", None}, default="entropy"
        By the entropy of labellings, by half the squared norm of a mixture of the `n_best` best
        ones, or not at all: then the gradient is that of the one best labelling.
    strength : float, default=1.0
        How smooth: nu in [1]_, a temperature for "entropy".
    n_best : int, default=5
        Labellings that "l2" mixes.
    cost : {"hamming", "normalized_hamming"}, dict or array-like, default="hamming"
        Task loss: wrong nodes, their fraction, a dict from label to the cost of a wrong node of
        that label, or a matrix of (label, wrong label).
    start, stop, graph, structure, batch_first, reduction : object
        As for :func:`crf_loss`.

    Returns
    -------
    Tensor
        The loss, as for :func:`crf_loss`.

    Raises
    ------
    ValueError, TypeError
        As for :func:`crf_loss`.

    See Also
    --------
    skstruct.torch.crf_loss : The loss of a distribution.
    skstruct.CasimirSSVM : The same loss of linear scores.

    References
    ----------
    .. [1] Pillutla, Roulet, Kakade, Harchaoui (2019). A Smoother Way to Train Structured Prediction
       Models. arXiv:1902.03228, sections 2.2 and 2.3.

    Examples
    --------
    >>> import torch
    >>> from skstruct.torch import smoothed_hinge_loss
    >>> scores, pair = torch.zeros(3, 2), torch.zeros(2, 2)
    >>> y = torch.tensor([0, 1, 1])
    >>> smoothed_hinge_loss(scores, pair, y, [2, 1], smoothing=None, reduction="none")
    tensor([2., 1.])
    """
    if smoothing not in ("entropy", "l2", None):
        raise ValueError(f'smoothing must be "entropy", "l2" or None, got {smoothing!r}')
    if not float(strength) > 0.0 or not np.isfinite(strength):
        raise ValueError(f"strength must be a positive number, got {strength!r}")
    n_best = check_integer("n_best", n_best)
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first)
    task = ask.task(_given(labels), cost, n_best + 1 if smoothing == "l2" else 1)
    if smoothing is None:
        return ask.reduced(task, hinge_of(task.problem), reduction)
    advice = "use smoothing=None"
    require(exp_oracle if smoothing == "entropy" else top_k_oracle, task.problem, advice)
    if smoothing == "entropy" or not has_own_loss(task.problem, loss_augmented_top_k):
        require_linear_loss(task.problem, advice)
    loss = smooth_hinge(smoothing, strength, n_best, task.problem)
    return ask.reduced(task, loss, reduction)


@_not_traced
def log_partition(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: str | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    reduction: Reduction = "none",
) -> torch.Tensor:
    """Log of the sum of ``exp(score)`` over all labellings; its gradient are the marginals.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair, lengths, mask, start, stop, graph, structure, batch_first : object
        As for :func:`crf_loss`.
    reduction : {"none", "sum", "mean", "token_mean"}, default="none"
        As for :func:`crf_loss`.

    Returns
    -------
    Tensor of shape (n_samples,)
        The log-partitions, or what the reduction makes of them, in the type of the loss of
        :func:`crf_loss`.

    Raises
    ------
    ValueError, TypeError
        As for :func:`crf_loss`.

    See Also
    --------
    skstruct.torch.crf_loss : The negative log-likelihood.
    skstruct.torch.marginals : Its gradient.

    Examples
    --------
    >>> import torch
    >>> from skstruct.torch import log_partition
    >>> log_partition(torch.zeros(3, 2), torch.zeros(2, 2), [2, 1]).exp().round()
    tensor([4., 2.])
    """
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first)
    task = ask.task()
    require(exp_oracle, task.problem, "use decode")
    return ask.reduced(task, LogPartition(), reduction)


@_not_traced
def marginals(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: str | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
) -> torch.Tensor:
    """Probability of each label at each node, over all labellings.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair, lengths, mask, start, stop, graph, structure, batch_first : object
        As for :func:`crf_loss`.

    Returns
    -------
    Tensor of the shape of `scores`
        The marginals, zeros in the padding, in the type of the loss of :func:`crf_loss`. They
        cannot be differentiated; they are the gradient of :func:`log_partition`.

    Raises
    ------
    ValueError, TypeError
        As for :func:`crf_loss`.

    See Also
    --------
    skstruct.torch.decode : Best labels.
    skstruct.torch.log_partition : The function whose gradient they are.

    Examples
    --------
    >>> import torch
    >>> from skstruct.torch import marginals
    >>> marginals(torch.zeros(1, 2), torch.zeros(2, 2), [1])
    tensor([[0.5000, 0.5000]])
    """
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first)
    task = ask.task()
    require(exp_oracle, task.problem, "use decode")
    batch, w = ask.tables(task)
    values, found = gradient_of(batch.loss, task, w, np.ones(ask.layout.n_samples))
    batch.check(values)
    unpacked = ask.layout.unpack(np.clip(found.node, 0.0, 1.0))
    return torch.from_numpy(unpacked).to(scores.device, result_type(*ask.tensors))


@_not_traced
def decode(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: str | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    padding: int = -1,
) -> torch.Tensor:
    """Labels of the best labelling of each sample.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair, lengths, mask, start, stop, graph, structure, batch_first : object
        As for :func:`crf_loss`.
    padding : int, default=-1
        Value in the padding.

    Returns
    -------
    Tensor of shape (n_rows,) or (B, T) of int64
        The labels, packed or padded as the scores are. For structures other than graphs of nodes
        and edges one number per part of a labelling, flat: for items 1 for chosen ones.

    Raises
    ------
    ValueError, TypeError
        As for :func:`crf_loss`.

    See Also
    --------
    skstruct.torch.marginals : Probabilities of labels.
    skstruct.torch.CRF.decode : The same of the layer, as lists.

    Examples
    --------
    >>> import torch
    >>> from skstruct.torch import decode
    >>> decode(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.zeros(2, 2), [2])
    tensor([0, 1])
    """
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first)
    task = ask.task()
    require(max_oracle, task.problem, "it cannot be decoded")
    _, w = ask.tables(task)
    best = labels_of(task, w).astype(np.int64)
    if best.size == ask.layout.offsets[-1]:
        best = ask.layout.unpack(best, padding)
    return torch.from_numpy(best).to(scores.device)
