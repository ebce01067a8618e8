"""Hidden states: a label is a set of states, of which training and inference know one per node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import check_integer


class HiddenStates(NamedTuple):
    """The states of labels, often one each; those of a label follow one another."""

    # (n_states,) of int32: The label of each state, as a position in ``classes_``.
    label: np.ndarray
    # (n_classes,) of int32: The first state of each label.
    first: np.ndarray

    @property
    def are_labels(self) -> bool:
        """Whether each label is one state."""
        return self.label.size == self.first.size

    def reduced(self, combine: np.ufunc, values: np.ndarray, n_axes: int = 1) -> np.ndarray:
        """Values of labels from those of states, in the last axes."""
        for axis in () if self.are_labels else range(-n_axes, 0):
            values = combine.reduceat(values, self.first, axis=axis)
        return values

    def widened(self, values: Any) -> Any:
        """Values of states, in the last axis, from those of their labels."""
        return values if self.are_labels else values.take(self.label, axis=-1)

    def labels_of(self, codes: np.ndarray) -> np.ndarray:
        """Codes of labels from those of states."""
        return codes if self.are_labels else self.label[codes]

    def names(self, classes: Any, apart: bool = False) -> Any:
        """Names of states where labels have some; to tell all `apart`, pairs (label, number)."""
        if self.are_labels and not apart:
            return classes
        number = np.arange(self.label.size) - self.first[self.label]
        labels = classes[self.label].tolist()
        names = np.empty(len(labels), dtype=object)
        names[:] = [
            (value, k) if apart else f"{value} ({k + 1})"
            for value, k in zip(labels, number.tolist(), strict=True)
        ]
        return names


def hidden_states(states_per_label: Any, classes: Any) -> HiddenStates:
    """The states of labels."""
    if not isinstance(states_per_label, Mapping):
        check_integer("states_per_label", states_per_label)
        counts = int(states_per_label)
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
    every = np.arange(len(classes), dtype=np.int32)
    label = np.repeat(every, counts)
    return HiddenStates(label, np.searchsorted(label, every).astype(np.int32))
