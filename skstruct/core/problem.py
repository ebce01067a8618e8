"""A problem: rows of features, a space of labellings, and a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .jit.kernels import kernel
from .oracles import forbid, potentials, row_potentials


class Problem(NamedTuple):
    """Samples packed for kernels; its operations are those of its parts, or follow from several.

    Parameters
    ----------
    rows : NamedTuple
        Features, and how they make potentials: :class:`~skstruct.rows.blocks.BlockRows`, or another
        class with :func:`~skstruct.core.oracles.potentials`,
        :func:`~skstruct.core.oracles.accumulate`, and for most solvers ``gram``.
    space : NamedTuple
        The labellings that exist, independent of features and true labels: a class with ``forbid``,
        ``add_indicator``, and ``max_oracle``, ``exp_oracle`` or both.
    target : NamedTuple
        True labels and the costs of errors: a class with ``task_loss``, and ``augment`` where costs
        add up over parts.
    part_ptr, label_ptr : ndarray of shape (n_samples + 1,) of int64
        Where the parts and the labelling of each sample begin.
    labels : ndarray of shape (n_nodes,) of int32
        True labels; empty when unknown.
    """

    rows: tuple
    space: tuple
    target: tuple
    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray

    parts = "rows", "space", "target"

    @classmethod
    def of(cls, rows: tuple, space: tuple, target: tuple, labels: np.ndarray) -> Problem:
        """The problem of parts that fit together; the samples begin where those of the space do."""
        return cls(rows, space, target, space.part_ptr, space.label_ptr, labels)

    def with_labels(self, labels: np.ndarray) -> Problem:
        """The problem with other true labels; costs of items stay those of the old ones."""
        target = self.target
        if hasattr(target, "labels"):
            target = target._replace(labels=labels)
        return self._replace(target=target, labels=labels)


def require_problem(made, graph) -> None:
    """Raise TypeError unless a structure has made a problem of arrays and numbers."""
    if not isinstance(made, Problem):
        kind = type(made).__name__
        raise TypeError(
            f"make_problem of {type(graph).__name__} returned a {kind}, not a Problem of rows, "
            "space and target: see skstruct.graphs.Problem"
        )
    for part in made.parts:
        kind = type(getattr(made, part)).__name__
        for name, value in tree_items(getattr(made, part)):
            is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
            if not is_array and not isinstance(value, (int, float, complex, np.number, np.bool_)):
                dtype = getattr(value, "dtype", None)
                what = f"{type(value).__name__}{'' if dtype is None else f' of {dtype}'}"
                raise TypeError(
                    f"{name} of {kind} is of the type {what}, but kernels take arrays of numbers, "
                    "and numbers: convert it by np.array"
                )


def require_room(problem, n_best: int) -> None:
    """Raise ValueError for scratch of fewer labellings: kernels would write beyond it."""
    room = getattr(getattr(problem.space.work, "n_best", None), "room", n_best)
    if room < n_best:
        raise ValueError(
            f"work.n_best of {type(problem.space).__name__} has room for {room} labellings, not "
            f"for {n_best}: make_problem must pass its option n_best to n_best_scratch"
        )


@potentials.register(Problem)
@kernel
def _(problem, i, w, theta):
    row_potentials(problem, i, w, theta)
    forbid(problem, i, theta)


def tree_items(
    tree: Any, name: str = "", is_leaf: Callable | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested tuples with their names: fields or positions, joined by dots."""
    if not isinstance(tree, tuple) or (is_leaf is not None and is_leaf(tree)):
        yield name, tree
        return
    fields = getattr(tree, "_fields", range(len(tree)))
    for field, item in zip(fields, tree, strict=True):
        yield from tree_items(item, f"{name}.{field}" if name else str(field), is_leaf)


def is_memory(tree: Any) -> bool:
    """Whether a part of a space is memory per sample, which oracles may change."""
    return getattr(tree, "is_memory", False)


def tree_leaves(tree: Any) -> Iterator[Any]:
    """Return the leaves of nested tuples, in order."""
    return (leaf for _, leaf in tree_items(tree))


def tree_like(tree: Any, leaves: Iterator[Any]) -> Any:
    """Rebuild nested tuples around other leaves."""
    if not isinstance(tree, tuple):
        return next(leaves)
    return getattr(tree, "_make", tuple)([tree_like(item, leaves) for item in tree])
