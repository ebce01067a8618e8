"""Base class of structures whose parts are items."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.gram import gram_of, gram_of_constant, not_stored
from ..core.problem import Problem
from ..data.matrices import numeric, refuse_masked
from ..data.packing import as_list, check_n_features
from ..rows.blocks import BlockRows, feature_rows
from ..targets.costs import NO_CODES
from .base import Graph


class ItemGraph(Graph):
    """A structure whose parts are items, rows ``item_ptr[i]:item_ptr[i + 1]`` of ``features``."""

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
        """An object array of one array per sample; for single numbers a vector."""
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
            Codes of all samples.
        """
        return codes == 1

    @staticmethod
    def _counted(samples, estimator, reset):
        """Return the samples; set or compare the number of features of `estimator`."""
        width = samples.features.shape[1]
        if reset:
            estimator.n_features_in_ = width
        check_n_features(width, estimator.n_features_in_, type(estimator).__name__)
        return samples

    @staticmethod
    def _read_masks(allowed, shapes):
        """Flat masks of items, one of each shape."""
        masks = as_list(allowed, "allowed")
        if len(masks) != len(shapes):
            raise ValueError(f"X has {len(shapes)} samples, but allowed has {len(masks)}")
        for i, (mask, shape) in enumerate(zip(masks, shapes, strict=True)):
            if np.shape(mask) != shape or not np.isin(mask, (0, 1)).all():
                raise ValueError(f"allowed: sample {i} must be a boolean mask of shape {shape}")
        return np.concatenate([np.asarray(mask, dtype=np.uint8).ravel() for mask in masks])

    def n_marginals(self, classes: Any) -> int:
        """One number per item: the probability that it is chosen."""
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

    def _parts(self, samples, fit_intercept, codes, allowed, n_extra):
        """The remaining arguments of a problem, and fields of the space."""
        shapes = self.weight_shapes(samples, 0, fit_intercept)
        items = feature_rows(samples.features, shapes[0][0], fit_intercept)
        n, (n_tables, width) = samples.lengths.size, shapes[1]
        grams = ()
        if codes is not None:
            of_pairs = gram_of_constant(n, 1) if n_tables else not_stored()
            grams = gram_of(items, samples.item_ptr, shapes[0][0]), of_pairs
        shared = {"n_tables": np.full(n, n_tables, dtype=np.int64)}
        rows = BlockRows.of(items, samples.item_ptr, shapes, n_free=n_extra, grams=grams, **shared)
        labels = NO_CODES if codes is None else codes
        return partial(Problem.of, rows=rows, labels=labels), {
            "item_ptr": samples.item_ptr,
            "part_ptr": samples.item_ptr + (n_extra + n_tables * width) * np.arange(n + 1),
            "label_ptr": samples.offsets,
            "allowed": np.empty(0, dtype=np.uint8) if allowed is None else allowed,
        }


def targets_of(y, n: int) -> list:
    """One target for each of `n` samples."""
    refuse_masked(y, "y")
    if hasattr(y, "columns"):
        y = numeric(y, "y")
    items = list(y) if isinstance(y, np.ndarray) and y.ndim > 0 else as_list(y, "y")
    if len(items) != n:
        raise ValueError(f"X has {n} samples, but y has {len(items)}")
    return items
