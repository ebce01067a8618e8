"""One walk over nested tuples: problems, states, scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


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
