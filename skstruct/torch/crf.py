"""CRF: a layer that holds the scores of pairs of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..core.arguments import check_integer
from ..data.constraints import transition_mask
from ..data.labels import read_label_names
from ..graphs import Chain
from ..graphs.base import Graph
from . import functional
from .batches import check_scores, read_layout
from .chains import is_traced
from .functional import Backend, Reduction
from .problems import resolve


class CRF(torch.nn.Module):
    """A conditional random field as a layer on top of a network.

    For chains it takes the place of ``torchcrf.CRF`` of pytorch-crf: the same parameters, under the
    same names, and the same calls. TorchScript (``torch.jit.script``) is not supported. Read more
    in the :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    num_tags : int
        Number K of labels.
    batch_first : bool, default=False
        Whether padded tensors are (B, T, ...) rather than (T, B, ...).
    graph : "chain" or Graph, default="chain"
        The structure: graphs of nodes and edges that share one table of pairs, such as
        :class:`~skstruct.Tree` or :class:`~skstruct.Pairwise`.
    ends : bool, default=None
        Whether labels have scores of their own at the first and at the last node; by default on
        chains.
    forbidden : str or list of pairs, default=None
        Forbidden transitions (label, next label) of a chain, None for an end: ``(None, 3)`` forbids
        label 3 at the first node. With `labels` also a tagging scheme, such as "iob2". For other
        structures it is a parameter of the graph.
    labels : sequence or dict, default=None
        Names of the labels in `forbidden`, in order or by their numbers (``id2label``); by default
        0 to num_tags - 1.
    backend : {"numba", "torch"} or None, default=None
        As for :func:`crf_loss`.

    Attributes
    ----------
    transitions : Parameter of shape (num_tags, num_tags)
        Scores of (label, next label).
    start_transitions, end_transitions : Parameter of shape (num_tags,)
        Scores of labels at the first and at the last node, or None.

    See Also
    --------
    skstruct.torch.crf_loss : The loss as a function.

    References
    ----------
    .. [1] Lample, Ballesteros, Subramanian, Kawakami, Dyer (2016). Neural Architectures for Named
       Entity Recognition. NAACL.

    Examples
    --------
    >>> import torch
    >>> from skstruct.torch import CRF
    >>> crf = CRF(3, batch_first=True)
    >>> emissions = torch.zeros(2, 4, 3, requires_grad=True)
    >>> tags = torch.zeros(2, 4, dtype=torch.long)
    >>> loss = -crf(emissions, tags)
    >>> loss.backward()
    >>> [len(path) for path in crf.decode(emissions)]
    [4, 4]
    """

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        graph: Literal["chain"] | Graph = "chain",
        ends: bool | None = None,
        forbidden: str | Iterable | None = None,
        labels: Sequence | Mapping | None = None,
        backend: Backend | None = None,
    ) -> None:
        super().__init__()
        if isinstance(num_tags, Integral) and num_tags < 1:
            raise ValueError(f"invalid number of tags: {num_tags}")
        num_tags = check_integer("num_tags", num_tags)
        self.num_tags, self.batch_first, self.backend = num_tags, batch_first, backend
        self.graph = resolve(graph)
        functional.check_backend(backend, self.graph)
        is_chain = type(self.graph) is Chain
        if forbidden is not None:
            if not is_chain or self.graph.forbidden is not None:
                raise ValueError("forbidden is for chains: pass it to the graph")
            self.graph = Chain(forbidden=_numbered(forbidden, labels, num_tags))
        if ends and not is_chain:
            raise ValueError(f"ends=True is for chains; {type(self.graph).__name__} has no ends")
        if getattr(self.graph, "edge_features", False):
            raise ValueError("CRF shares one table of pairs: for edge features take crf_loss")
        self.transitions = torch.nn.Parameter(torch.empty(num_tags, num_tags))
        wanted = is_chain if ends is None else ends
        for name in ("start_transitions", "end_transitions"):
            end = torch.nn.Parameter(torch.empty(num_tags)) if wanted else None
            self.register_parameter(name, end)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from -0.1 to 0.1."""
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        """Return the text that ``repr`` shows between the brackets.

        Returns
        -------
        str
            The arguments that are not defaults.
        """
        shown = [f"num_tags={self.num_tags}"]
        if self.batch_first:
            shown.append("batch_first=True")
        if repr(self.graph) != "Chain()":
            shown.append(f"graph={self.graph!r}")
        if type(self.graph) is Chain and self.start_transitions is None:
            shown.append("ends=False")
        if self.backend is not None:
            shown.append(f"backend={self.backend!r}")
        return ", ".join(shown)

    def forward(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor,
        mask: torch.Tensor | None = None,
        reduction: Reduction = "sum",
        lengths: ArrayLike | None = None,
        structure: Sequence | None = None,
        ignore_index: int | None = -100,
    ) -> torch.Tensor:
        """Log-likelihood of the tags: its negative is the loss.

        Parameters
        ----------
        emissions : Tensor of shape (T, B, num_tags), (B, T, num_tags) or (n_rows, num_tags)
            Scores of labels; packed ones need `lengths`.
        tags : Tensor of int
            The labels.
        mask : Tensor of bool or int, optional
            True or 1 at nodes; it may have holes, as for :func:`crf_loss`.
        reduction : {"sum", "mean", "token_mean", "none"}, default="sum"
            As for :func:`crf_loss`.
        lengths : sequence of int, optional
            Instead of a mask.
        structure, ignore_index : object
            As for :func:`crf_loss`.

        Returns
        -------
        Tensor
            The log-likelihood, in the type of the loss of :func:`crf_loss`: float32 at least, so
            that nothing is rounded under ``torch.autocast``.
        """
        options = self._options(emissions, lengths, mask, structure, tags)
        options |= {"reduction": reduction, "ignore_index": ignore_index}
        return -functional.crf_loss(emissions, self.transitions, tags, **options)

    def decode(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None = None,
        lengths: ArrayLike | None = None,
        structure: Sequence | None = None,
        padding: int | None = None,
    ) -> list[list[int]] | torch.Tensor:
        """Best labels of each sample.

        Parameters
        ----------
        emissions, mask, lengths, structure : object
            As for :meth:`forward`.
        padding : int, optional
            If given, a tensor is returned, with this value where no node is.

        Returns
        -------
        list of list of int, or Tensor of the shape of tags
            The labels.
        """
        options = self._options(emissions, lengths, mask, structure)
        fill = -1 if padding is None else padding
        best = functional.decode(emissions, self.transitions, padding=fill, **options)
        if padding is not None:
            return best
        if not torch.compiler.is_dynamo_compiling() and is_traced(best):
            raise RuntimeError("a trace has no lists: pass padding, for a tensor of labels")
        layout = read_layout(emissions, lengths, mask, self.batch_first)
        labels, ends = layout.pack(best.cpu().numpy()).tolist(), layout.offsets.tolist()
        return [labels[a:b] for a, b in pairwise(ends)]

    def marginals(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None = None,
        lengths: ArrayLike | None = None,
        structure: Sequence | None = None,
    ) -> torch.Tensor:
        """Probability of each label at each node.

        Parameters
        ----------
        emissions, mask, lengths, structure : object
            As for :meth:`forward`.

        Returns
        -------
        Tensor of the shape of `emissions`
            The probabilities, as those of :func:`skstruct.torch.marginals`.
        """
        options = self._options(emissions, lengths, mask, structure)
        return functional.marginals(emissions, self.transitions, **options)

    def _options(self, emissions, lengths, mask, structure, tags=None) -> dict[str, Any]:
        """Arguments that all calls share."""
        check_scores(emissions, "emissions", (2, 3))
        if emissions.dim() == 2 and lengths is None:
            raise ValueError(
                "emissions must have dimension of 3, got 2 (packed ones of shape (n_rows, "
                "num_tags) need lengths)"
            )
        if emissions.shape[-1] != self.num_tags:
            raise ValueError(
                f"expected last dimension of emissions is {self.num_tags}, got "
                f"{emissions.shape[-1]}"
            )
        for name, other in (("mask", mask), ("tags", tags)):
            if not isinstance(other, torch.Tensor) or emissions.dim() == 2:
                continue
            axes = tuple(emissions.shape[:2]), tuple(other.shape)
            if axes[0] != axes[1] and (other is mask or len(axes[1]) == 2):
                raise ValueError(
                    f"the first two dimensions of emissions and {name} must match, got {axes[0]} "
                    f"and {axes[1]}"
                )
        return {
            "lengths": lengths,
            "mask": mask,
            "start": self.start_transitions,
            "stop": self.end_transitions,
            "graph": self.graph,
            "structure": structure,
            "batch_first": self.batch_first,
            "backend": self.backend,
        }


def _numbered(forbidden, labels, n_labels):
    """Forbidden steps as pairs of numbers."""
    names = np.arange(n_labels) if labels is None else read_label_names(labels, n_labels)
    mask = transition_mask(forbidden, names)
    pairs = [(int(a), int(b)) for a, b in np.argwhere(np.isneginf(mask.pairs))]
    pairs += [(None, int(k)) for k in np.flatnonzero(np.isneginf(mask.start))]
    return (*pairs, *((int(k), None) for k in np.flatnonzero(np.isneginf(mask.stop))))
