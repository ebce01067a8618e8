"""What predictions of a structure look like to users, and how they are scored."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..data.ragged import object_array
from ..typing import SamplesLike


class Answers:
    """From codes of labels to what users get: the part of :class:`Graph` that comes last."""

    def wrap(self, flat: np.ndarray, samples: Any) -> np.ndarray:
        """Per-node results in the shape in which the user gave X.

        Parameters
        ----------
        flat : ndarray of shape (n_nodes, ...)
            Results of all nodes.
        samples : NamedTuple
            The packed samples that they belong to.

        Returns
        -------
        ndarray
            Here an object array of one array a sample; for a table one row a sample.
        """
        ends = samples.offsets.tolist()
        return object_array([flat[start:stop] for start, stop in pairwise(ends)])

    def decode(self, codes: np.ndarray, classes: Any) -> np.ndarray:
        """Labels of codes: the inverse of :meth:`encode`.

        Parameters
        ----------
        codes : ndarray of int32
            The codes.
        classes : ndarray of shape (n_classes,)
            What occurs.

        Returns
        -------
        ndarray
            The labels, in the shape of `codes`.
        """
        return classes[codes]

    def n_marginals(self, classes: Any) -> int:
        """Numbers that make up the marginals of a node: the first of its parts.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            What occurs.

        Returns
        -------
        int
            One a class.
        """
        return len(classes)

    def answers(self, codes: np.ndarray, classes: Any, samples: Any) -> np.ndarray:
        """What ``predict`` returns.

        Parameters
        ----------
        codes : ndarray of shape (n_nodes,) of int32
            The best labellings.
        classes : ndarray of shape (n_classes,)
            What occurs.
        samples : NamedTuple
            The packed samples.

        Returns
        -------
        ndarray
            By default the labels of all nodes, wrapped.
        """
        return self.wrap(self.decode(codes, classes), samples)

    def ranked(self, codes: np.ndarray, classes: Any, samples: Any, i: int) -> np.ndarray:
        """What ``predict_top_k`` returns for one sample.

        Parameters
        ----------
        codes : ndarray of shape (k, ...) of int32
            Its best labellings, each in the shape that :meth:`wrap` gives a sample.
        classes : ndarray of shape (n_classes,)
            What occurs.
        samples : NamedTuple
            The packed samples.
        i : int
            Which of them.

        Returns
        -------
        ndarray of length k
            By default their labels.
        """
        return self.decode(codes, classes)

    def score(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        samples: Any,
        weight: np.ndarray | None,
        counted: np.ndarray | None = None,
    ) -> float:
        """What ``score`` returns.

        Parameters
        ----------
        predicted : ndarray of shape (n_nodes,) of int32
            The best labellings.
        truth : ndarray of shape (n_nodes,) of int32
            The labels that :meth:`read_y` has read, encoded; -1 for unseen ones.
        samples : NamedTuple
            The packed samples.
        weight : ndarray of shape (n_samples,) or None
            Weights of samples, not all 0 on those that have nodes.
        counted : ndarray of shape (n_nodes,) of bool, optional
            Which nodes have a label, where some have none: only given to a structure that
            ``takes_partial_labels``.

        Returns
        -------
        float
            By default the share of nodes that are labelled right.
        """
        of_nodes = None if weight is None else np.repeat(weight, samples.lengths)
        right = predicted == truth
        if counted is not None:
            right, of_nodes = right[counted], None if of_nodes is None else of_nodes[counted]
        return float(np.average(right, weights=of_nodes))

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: Any
    ) -> np.ndarray:
        """What ``decision_function`` returns for a table, or a sample's items.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_classes)
            Node scores: features times node weights, with the intercept.
        estimator : StructuredEstimator
            Fitted.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            What the user gave.
        samples : NamedTuple
            The same, packed.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            The scores.
        """
        return scores
