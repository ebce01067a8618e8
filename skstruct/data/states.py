"""Hidden states: a label is a set of states, of which training and inference know one per node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import check_integer
from ..core.weights import Weights
from .matrices import row_squares


class HiddenStates(NamedTuple):
    """The states of labels; those of a label follow one another."""

    # (n_states,) of int32: The label of each state, as a position in ``classes_``.
    label: np.ndarray
    # (n_classes,) of int32: The first state of each label.
    first: np.ndarray

    def sums(self, marginals: np.ndarray, n_axes: int = 1) -> np.ndarray:
        """Marginals of labels from those of states, in the last axes."""
        for axis in range(-n_axes, 0):
            marginals = np.add.reduceat(marginals, self.first, axis=axis)
        return marginals

    def widened(self, masks: np.ndarray) -> np.ndarray:
        """Masks of the states of labels."""
        return np.ascontiguousarray(masks[:, self.label])


def hidden_states(states_per_label: Any, classes: Any) -> HiddenStates | None:
    """The states of labels, None if each label is one."""
    if not isinstance(states_per_label, Mapping):
        check_integer("states_per_label", states_per_label)
        counts = np.full(len(classes), int(states_per_label))
    else:
        labels = np.asarray(classes).tolist()
        unknown = [label for label in states_per_label if label not in labels]
        if unknown:
            raise ValueError(
                f"states_per_label has the unknown label {unknown[0]!r}; the classes are {labels}"
            )
        for label, count in states_per_label.items():
            check_integer(f"states_per_label[{label!r}]", count)
        counts = np.array([int(states_per_label.get(label, 1)) for label in labels])
    if (counts == 1).all():
        return None
    label, first = np.repeat(np.arange(counts.size), counts), np.cumsum(counts) - counts
    return HiddenStates(label.astype(np.int32), first.astype(np.int32))


def refuse_states(graph: Any, what: str, kind: type = ValueError) -> None:
    """Raise an error for structures whose labels may have several states."""
    given = graph.states_per_label
    if any(n != 1 for n in given.values()) if isinstance(given, Mapping) else given != 1:
        raise kind(f"{what}: labels of {graph} have several states")


def state_names(graph: Any, classes: Any, apart: bool = False) -> Any:
    """Names of states where labels have some; to tell all `apart`, pairs (label, number)."""
    hidden = graph.hidden_states(classes)
    if hidden is None and not apart:
        return classes
    label = np.arange(len(classes)) if hidden is None else hidden.label
    number = np.arange(label.size) - (label if hidden is None else hidden.first[label])
    pairs = [(value, k) for value, k in zip(classes[label].tolist(), number.tolist(), strict=True)]
    names = np.empty(len(pairs), dtype=object)
    names[:] = pairs if apart else [f"{value} ({k + 1})" for value, k in pairs]
    return names


def drawn_weights(samples: Any, shapes: tuple, rng: np.random.Generator) -> Weights:
    """Random weights under which scores are of size 1: at 0 the states of a label are alike."""
    node, pair = (rng.normal(size=shape) for shape in shapes)
    size = np.sqrt(row_squares(samples.features).mean())
    return Weights(node / (size if size > 0.0 else 1.0), pair)
