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

        See Also
        --------
        skstruct.graphs.Graph.answers : Labels, wrapped.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]], [[2.0]]], reset=True)
        >>> Chain().wrap(np.array(["a", "b", "a"]), samples)
        array([array(['a', 'b'], dtype='<U1'), array(['a'], dtype='<U1')],
              dtype=object)
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

        See Also
        --------
        skstruct.graphs.Graph.encode : The inverse.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> Chain().decode(np.array([1, 0]), np.array(["a", "b"]))
        array(['b', 'a'], dtype='<U1')
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

        See Also
        --------
        skstruct.graphs.Graph.n_states : Labels of a node, which may be more.

        Examples
        --------
        >>> from skstruct import Chain
        >>> Chain().n_marginals(["a", "b", "c"])
        3
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

        See Also
        --------
        skstruct.graphs.Graph.decode : Labels of codes.
        skstruct.graphs.Graph.wrap : One array a sample.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]], [[2.0]]], reset=True)
        >>> Chain().answers(np.array([0, 1, 0]), np.array(["a", "b"]), samples)[0]
        array(['a', 'b'], dtype='<U1')
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

        See Also
        --------
        skstruct.graphs.Graph.answers : The best labellings of all samples.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> Chain().ranked(np.array([[0, 1], [1, 1]]), np.array(["a", "b"]), None, 0)
        array([['a', 'b'],
               ['b', 'b']], dtype='<U1')
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

        See Also
        --------
        skstruct.metrics.node_accuracy_score : The same of labels.

        Examples
        --------
        The second sample has weight 0:

        >>> import numpy as np
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]], [[2.0]]], reset=True)
        >>> Chain().score(np.array([0, 1, 0]), np.array([0, 0, 1]), samples, np.array([1.0, 0.0]))
        0.5
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

        See Also
        --------
        skstruct.SAGCRF.decision_function : Calls it.

        Examples
        --------
        With two classes a table has one score a row, that of the second over the first:

        >>> import numpy as np
        >>> from skstruct import MultiClass
        >>> MultiClass().decision(np.array([[1.0, 3.0]]), None, [[0.5]], None)
        array([2.])
        """
        return scores
