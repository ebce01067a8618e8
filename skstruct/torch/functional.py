"""Structured losses, marginals and best labellings of batches of scores."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..core.arguments import check_choice, check_integer, check_real
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
from .autograd import Batch, StructuredLoss, best_of, gradient_of
from .batches import Padded, check_scores, read_labels, read_layout
from .chains import Chains, is_traced, result_type
from .problems import chain_task, forbidden_mask, is_plain_chain, resolve, structured_task

Reduction = Literal["sum", "mean", "token_mean", "none"]
Backend = Literal["numba", "torch"]

# Later than 2.3.
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)


def _not_traced(function):
    """Let torch.compile call a function as it is: its NumPy code is not for a graph of tensors."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        # `disable` imports the compiler, which takes seconds: only where it is there already.
        if torch.compiler.is_compiling() and not _is_exporting():
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def check_backend(backend: Any, graph: Graph) -> None:
    """Reject a backend that is not known, or does not know the structure."""
    check_choice("backend", backend, ("numba", "torch", None))
    if backend == "torch" and not is_plain_chain(graph):
        raise ValueError(f'backend="torch" is for chains; {graph} is compiled code')


class _Request:
    """Arguments that all functions of this file share, checked and packed."""

    def __init__(
        self, scores, pair, lengths, mask, graph, structure, start, stop, batch_first,
        backend="numba", labels=None, ignored=None,
    ):  # fmt: skip
        check_scores(scores, "scores", (2, 3))
        self.graph = resolve(graph)
        if self.graph.is_table and lengths is None and scores.dim() == 2:
            lengths = np.ones(scores.shape[0], dtype=np.int64)
        self.n_labels, self.structure = int(scores.shape[-1]), structure
        self.plain = is_plain_chain(self.graph)
        if self.plain and structure is not None:
            raise ValueError("structure is not for chains without edge features")
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
        self.tensors, self.chains = (scores, pair, start, stop), None
        if ignored is not None:
            ignored = check_integer("ignore_index", ignored, None)
        self.ignored = ignored if self.plain else None
        check_backend(backend, self.graph)
        traced = is_traced(*self.tensors, labels, mask, lengths)
        if backend is None and self.plain and (traced or scores.device.type != "cpu"):
            backend = "torch"
        if backend == "torch":
            self.padded = Padded(scores, lengths, mask, labels, self.ignored, batch_first)
            self.chains = self._chains()
        elif traced:
            raise RuntimeError(
                "tensors in a trace or under torch.func have no values for compiled code: "
                'backend="torch" of crf_loss, log_partition, marginals, decode and top_k on chains '
                "takes them"
            )
        else:
            self.layout = read_layout(scores, lengths, mask, batch_first)

    def task(self, labels=None, cost="hamming", n_best=1):
        """Return the problem, after a check of the labels and the table of pairs."""
        if labels is not None and isinstance(self.graph, PairwiseGraph):
            options = self.layout, self.n_labels, self.ignored
            labels, self.layout = read_labels(labels, *options)
        elif isinstance(labels, torch.Tensor):
            labels = labels.detach().cpu().numpy()
        offsets = self.layout.offsets
        if self.plain:
            graph, shape = self.graph, (1, self.n_labels**2)
            task = chain_task(graph, offsets, self.n_labels, labels, cost, n_best)
        else:
            options = offsets, self.n_labels, labels, cost, n_best
            graph, shape, task = structured_task(self.graph, self.structure, *options)
        self.pair_shape = shape
        if 0 in shape:
            if self.tensors[1] is not None:
                raise ValueError(f"{type(graph).__name__} has no table of pairs: pass pair=None")
            return task
        tables = graph.pair_tables(np.zeros(shape), self.n_labels).shape
        full = int(np.prod(tables)) == int(np.prod(shape))
        self._check_pair(tables if full else shape, {shape, tables} if full else {shape})
        return task

    def _check_pair(self, wanted, shapes):
        """Reject a table of pairs of another shape than that which is wanted, or its like."""
        pair = self.tensors[1]
        if pair is None:
            raise ValueError(f"pair is missing: a tensor of shape {wanted}")
        check_scores(pair, "pair", ())
        if tuple(map(int, pair.shape)) not in shapes:  # numbers in a trace, too
            raise ValueError(f"pair must have the shape {wanted}, got {tuple(pair.shape)}")

    def _chains(self):
        """The batch in plain operations of torch, of the type of the loss."""
        n_labels, dtype = self.n_labels, result_type(*self.tensors)
        self._check_pair((n_labels, n_labels), {(n_labels, n_labels), (1, n_labels**2)})
        scores = self.padded.scores.to(dtype)
        none = scores.new_zeros(n_labels)
        tables = [none if t is None else t.to(dtype) for t in self.tensors[1:]]
        tables[0] = tables[0].reshape(n_labels, n_labels)
        if self.graph.forbidden is not None:
            steps = forbidden_mask(self.graph.forbidden, n_labels)
            tables = [t + torch.as_tensor(own).to(t) for t, own in zip(tables, steps, strict=True)]
        return Chains(scores, self.padded.inside, self.padded.is_prefix, *tables)

    def reduced(self, loss, reduction, task=None):
        """The loss of the batch; without a task, of the losses of samples."""
        if reduction not in get_args(Reduction):
            known = get_args(Reduction)
            raise ValueError(f"invalid reduction: {reduction}; must be one of {known}")
        if task is not None:
            batch = Batch(self.layout, task, loss, self.pair_shape, reduction)
            return StructuredLoss.apply(batch, *self.tensors)
        n = {"mean": loss.shape[0], "token_mean": self.chains.n.sum()}.get(reduction, 1)
        return loss if reduction == "none" else loss.sum() / n

    def best_in_torch(self, k, padding):
        """The k best labellings, in the form of the scores after an axis of k, and their scores."""
        labels, values = self.chains.best(k)
        labels = torch.where(values[..., None] > -torch.inf, labels, padding).transpose(1, 2)
        labels = self.padded.as_given(self.chains.to_places(labels, padding))
        return labels.movedim(-1, 0), values.T

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
    graph: Literal["chain"] | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    reduction: Reduction = "mean",
    ignore_index: int | None = -100,
    backend: Backend | None = None,
) -> torch.Tensor:
    """Negative log-likelihood of the labels: the loss of conditional random fields.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores : Tensor of shape (n_rows, K) or (B, T, K)
        Scores of the labels of each node, in log space: packed samples one after another, or padded
        ones. -inf forbids a label.
    pair : Tensor or None
        Scores of (label, next label), shape (K, K): for other structures what ``pairwise_coef_`` of
        an estimator would be. None where a structure has no pairs.
    labels : Tensor of int
        Labels 0 to K - 1, packed (n_rows,) or padded; what lies in the padding does not matter. For
        structures other than graphs of nodes and edges: what ``fit`` takes as y.
    lengths : sequence of int, optional
        Nodes of each sample; packed scores need it.
    mask : Tensor of bool or int, optional
        Instead of lengths, of padded scores: True or 1 at nodes. It may have holes, such as the
        later parts of a word: what lies between two nodes is left out, and they are neighbours.
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
    ignore_index : int or None, default=-100
        A label whose nodes are left out of a chain, like holes of a mask.
    backend : {"numba", "torch"} or None, default=None
        "numba" is compiled code on the CPU, in float64, for all structures. "torch" is plain
        operations of PyTorch for chains, on any device and in the type of the loss; it can be
        differentiated any number of times. It checks shapes, not values: what the other refuses
        gives inf or NaN. By default it is taken for chains on another device than the CPU, under
        ``torch.func`` and while ``torch.export`` or ``torch.jit.trace`` record.

    Returns
    -------
    Tensor
        The loss, on the device of the scores; with "numba" it can be differentiated once. It is
        float64 if a tensor of scores is, else float32, also for scores in float16 or bfloat16; the
        gradient of each tensor has that tensor's type.

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
    ask = _Request(
        scores, pair, lengths, mask, graph, structure, start, stop, batch_first, backend,
        _given(labels), ignore_index,
    )  # fmt: skip
    if ask.chains is not None:
        return ask.reduced(ask.chains.log_loss(ask.padded.labels), reduction)
    task = ask.task(labels)
    require(exp_oracle, task.problem, "use smoothed_hinge_loss with smoothing=None")
    return ask.reduced(LogLoss(), reduction, task)


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
    graph: Literal["chain"] | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    reduction: Reduction = "mean",
    ignore_index: int | None = -100,
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
    start, stop, graph, structure, batch_first, reduction, ignore_index : object
        As for :func:`crf_loss`.

    Returns
    -------
    Tensor
        The loss, as for :func:`crf_loss` with ``backend="numba"``.

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
    check_choice("smoothing", smoothing, ("entropy", "l2", None))
    strength = check_real("strength", strength, positive=True)
    n_best = check_integer("n_best", n_best)
    ask = _Request(
        scores, pair, lengths, mask, graph, structure, start, stop, batch_first,
        ignored=ignore_index,
    )  # fmt: skip
    task = ask.task(_given(labels), cost, n_best + 1 if smoothing == "l2" else 1)
    if smoothing is None:
        return ask.reduced(hinge_of(task.problem), reduction, task)
    advice = "use smoothing=None"
    require(exp_oracle if smoothing == "entropy" else top_k_oracle, task.problem, advice)
    if smoothing == "entropy" or not has_own_loss(task.problem, loss_augmented_top_k):
        require_linear_loss(task.problem, advice)
    loss = smooth_hinge(smoothing, strength, n_best, task.problem)
    return ask.reduced(loss, reduction, task)


@_not_traced
def log_partition(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: Literal["chain"] | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    backend: Backend | None = None,
    reduction: Reduction = "none",
) -> torch.Tensor:
    """Log of the sum of ``exp(score)`` over all labellings; its gradient are the marginals.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair, lengths, mask, start, stop, graph, structure, batch_first, backend : object
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
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first, backend)
    if ask.chains is not None:
        return ask.reduced(ask.chains.log_partition(), reduction)
    task = ask.task()
    require(exp_oracle, task.problem, "use decode")
    return ask.reduced(LogPartition(), reduction, task)


@_not_traced
def marginals(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: Literal["chain"] | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    backend: Backend | None = None,
) -> torch.Tensor:
    """Probability of each label at each node, over all labellings.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair, lengths, mask, start, stop, graph, structure, batch_first, backend : object
        As for :func:`crf_loss`.

    Returns
    -------
    Tensor of the shape of `scores`
        The marginals, zeros where no node is, in the type of the loss of :func:`crf_loss`. They are
        the gradient of :func:`log_partition`; with the backend "numba" they have none themselves.

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
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first, backend)
    if ask.chains is not None:
        return ask.padded.as_given(ask.chains.marginals())
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
    graph: Literal["chain"] | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    backend: Backend | None = None,
    padding: int = -1,
) -> torch.Tensor:
    """Labels of the best labelling of each sample.

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair, lengths, mask, start, stop, graph, structure, batch_first, backend : object
        As for :func:`crf_loss`.
    padding : int, default=-1
        Value where no node is, such as -100.

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
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first, backend)
    padding = check_integer("padding", padding, None)
    if ask.chains is not None:
        return ask.best_in_torch(1, padding)[0][0]
    task = ask.task()
    require(max_oracle, task.problem, "it cannot be decoded")
    _, w = ask.tables(task)
    best = best_of(task, w)[0].astype(np.int64)
    if best.size == ask.layout.offsets[-1]:
        best = ask.layout.unpack(best, padding)
    return torch.from_numpy(best).to(scores.device)


@_not_traced
def top_k(
    scores: torch.Tensor,
    pair: torch.Tensor | None,
    k: int,
    lengths: ArrayLike | None = None,
    mask: torch.Tensor | None = None,
    *,
    start: torch.Tensor | None = None,
    stop: torch.Tensor | None = None,
    graph: Literal["chain"] | Graph = "chain",
    structure: Sequence | None = None,
    batch_first: bool = True,
    backend: Backend | None = None,
    padding: int = -1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `k` best labellings of each sample, and what they score (n-best decoding).

    Read more in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    scores, pair : Tensor
        As for :func:`decode`.
    k : int
        Number of labellings.
    lengths, mask, start, stop, graph, structure, batch_first, backend, padding : object
        As for :func:`decode`; the graph is one of nodes and edges that has n best labellings.

    Returns
    -------
    labellings : Tensor of shape (k, n_rows) or (k, B, T) of int64
        Best first, each in the form of :func:`decode`; `padding` also where there are fewer.
    values : Tensor of shape (k, B)
        Their scores, -inf where there are fewer, in the type of the loss of :func:`crf_loss`; with
        the backend "torch" they have a gradient.

    Raises
    ------
    ValueError, TypeError
        As for :func:`crf_loss`.

    See Also
    --------
    skstruct.torch.decode : The best one.
    skstruct.top_k : The same of arrays.

    Examples
    --------
    >>> import torch
    >>> from skstruct.torch import top_k
    >>> top_k(torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.zeros(2, 2), 2, [2])
    (tensor([[0, 1],
            [1, 1]]), tensor([[4.],
            [3.]]))
    """
    k, padding = check_integer("k", k), check_integer("padding", padding, None)
    ask = _Request(scores, pair, lengths, mask, graph, structure, start, stop, batch_first, backend)
    if ask.chains is not None:
        return ask.best_in_torch(k, padding)
    task = ask.task(n_best=k)
    require(top_k_oracle, task.problem, "use decode")
    codes, values = best_of(task, ask.tables(task)[1], k)
    owner = np.repeat(np.arange(len(values)), np.diff(ask.layout.offsets))
    labels = np.where(np.isneginf(values[owner]), padding, codes.T.astype(np.int64))
    labels = torch.from_numpy(ask.layout.unpack(labels, padding)).movedim(-1, 0)
    values = torch.from_numpy(values.T).to(scores.device, result_type(*ask.tensors))
    return labels.to(scores.device), values
