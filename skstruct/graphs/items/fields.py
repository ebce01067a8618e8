"""Samples of items: what structures whose parts are items share in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.gram import gram_of, not_stored
from ..arrays import feature_rows, no_codes, table_scratch
from ..base import Graph


class ItemGraph(Graph):
    """A structure whose parts are items, each scored by its features and one column of weights.

    Packed samples of subclasses have, beside what :class:`skstruct.graphs.Graph` asks for,
    ``item_ptr`` (n_samples + 1, int64): the rows of ``features`` of sample i are its items.
    """

    usual_features = "dense"

    def find_classes(self, labels: np.ndarray, samples: Any) -> np.ndarray:
        """An item is chosen, or it is not."""
        return np.array([0, 1])

    def encode(
        self, labels: np.ndarray, classes: Any, offsets: np.ndarray, unseen: int | None = None
    ) -> np.ndarray:
        """Labels are their own codes."""
        return labels.astype(np.int32)

    def decode(self, codes: np.ndarray, classes: Any) -> np.ndarray:
        """Codes are the labels."""
        return codes.astype(np.int64)

    def wrap(self, flat: np.ndarray, samples: Any) -> np.ndarray:
        """An object array of one array a sample; of single numbers a vector."""
        return super().wrap(flat[:, 0] if flat.shape[1:] == (1,) else flat, samples)

    def chosen_items(self, codes: np.ndarray, samples: Any) -> np.ndarray:
        """Mask of the items that labellings choose.

        Parameters
        ----------
        codes : ndarray of shape (n_nodes,) of int32
            Labellings.
        samples : NamedTuple
            The packed samples.

        Returns
        -------
        ndarray of shape (n_items,) of bool
            Of all samples.

        See Also
        --------
        skstruct.inspection.explain : Says what features of chosen items count.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Candidates
        >>> Candidates().chosen_items(np.array([0, 1, 0]), None)
        array([False,  True, False])
        """
        return codes == 1

    def n_marginals(self, classes: Any) -> int:
        """One number an item: the probability that it is chosen."""
        return 1

    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(Features, then the intercept) x 1, and no pairs."""
        return (samples.features.shape[1] + bool(fit_intercept), 1), (0, 0)

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """The one column stays."""
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)

    def _fields(self, samples, fit_intercept, codes, losses, allowed, n_extra):
        """Fields of a problem but ``own`` and ``work``, and scratch for weights."""
        shapes = self.weight_shapes(samples, 0, fit_intercept)
        items = feature_rows(samples.features, shapes[0][0] - 1 if fit_intercept else -1)
        grams = ()
        if codes is not None:
            grams = gram_of(items, samples.item_ptr, shapes[0][0]), not_stored()
        loss, constant = losses or (np.empty(0), np.empty(0))
        fields = {
            "items": items,
            "item_ptr": samples.item_ptr,
            "part_ptr": samples.item_ptr + n_extra * np.arange(samples.item_ptr.size),
            "label_ptr": samples.offsets,
            "labels": no_codes() if codes is None else codes,
            "allowed": np.empty(0, dtype=np.uint8) if allowed is None else allowed,
            "loss": loss,
            "constant": constant,
            "item_gram": grams[0] if grams else not_stored(),
        }
        return fields, table_scratch(shapes, *grams)
