"""How structures read labels, and what they know of them before weights come in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..data import labels as label_codes
from ..data.allowed import read_sample_masks
from ..typing import SamplesLike


class Labels:
    """Mixin of structures: labels of nodes, as most structures have them."""

    def read_y(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Flat labels of all nodes.

        Parameters
        ----------
        y : object
            What the user gave: here a list, object array or RaggedArray of label sequences.
        samples : NamedTuple
            The packed samples that they belong to.

        Returns
        -------
        ndarray of shape (n_nodes,)
            The labels.

        Raises
        ------
        ValueError, TypeError
            If there are more or fewer, or something is no label; the message names the sample.

        See Also
        --------
        skstruct.graphs.Graph.read_X : The samples that they belong to.
        skstruct.graphs.Graph.encode : Their codes.

        Examples
        --------
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]], [[2.0]]], reset=True)
        >>> Chain().read_y([["a", "b"], ["a"]], samples)
        array(['a', 'b', 'a'], dtype='<U1')
        """
        return label_codes.read_sequence_labels(y, samples.offsets)

    def read_labelling(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Flat labels of one labelling a sample, where y may count several as right.

        Parameters
        ----------
        y : object
            What the user gave.
        samples : NamedTuple
            The packed samples that they belong to.

        Returns
        -------
        ndarray of shape (n_nodes,)
            By default what :meth:`read_y` reads, which is what ``score`` counts.

        See Also
        --------
        skstruct.graphs.Graph.read_y : Reads what ``score`` counts.

        Examples
        --------
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]]], reset=True)
        >>> Chain().read_labelling([["a", "b"]], samples)
        array(['a', 'b'], dtype='<U1')
        """
        return self.read_y(y, samples)

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[NamedTuple, np.ndarray]:
        """Pack X and y for fit.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes the numbers of features.
        X, y : object
            What the user gave.

        Returns
        -------
        samples : NamedTuple
            The packed samples.
        labels : ndarray of shape (n_nodes,)
            Their labels.

        See Also
        --------
        skstruct.testing.training_problem : Goes on to the problem.

        Examples
        --------
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples, labels = Chain().read_training(BaseEstimator(), [[[1.0], [0.0]]], [["a", "b"]])
        >>> samples.lengths, labels
        (array([2]), array(['a', 'b'], dtype='<U1'))
        """
        samples = self.read_X(estimator, X, reset=True)
        return samples, self.read_y(y, samples)

    def find_classes(self, labels: np.ndarray, samples: Any) -> Any:
        """The labels that occur; a structure that learns more from them does so here.

        Parameters
        ----------
        labels : ndarray of shape (n_nodes,)
            All labels of the samples that count.
        samples : NamedTuple
            The packed samples.

        Returns
        -------
        ndarray of shape (n_classes,)
            Sorted; the estimator's ``classes_``.

        Raises
        ------
        ValueError
            If there is one only.

        See Also
        --------
        skstruct.graphs.Graph.encode : Codes by these classes.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> Chain().find_classes(np.array(["b", "a", "b"]), None)
        array(['a', 'b'], dtype='<U1')
        """
        classes = np.unique(labels)
        if classes.size < 2:
            raise ValueError(
                f"needs at least two classes, but y has only one class: {classes.tolist()[0]!r}"
            )
        return classes

    def encode(
        self, labels: np.ndarray, classes: Any, offsets: np.ndarray, unseen: int | None = None
    ) -> np.ndarray:
        """Codes of labels, see :func:`skstruct.data.labels.encode`.

        Parameters
        ----------
        labels : ndarray of shape (n_nodes,)
            The labels.
        classes : ndarray of shape (n_classes,)
            What occurs.
        offsets : ndarray of shape (n_samples + 1,)
            Where each sample begins.
        unseen : int, optional
            Code of labels that do not occur; by default they are refused.

        Returns
        -------
        ndarray of shape (n_nodes,) of int32
            The codes.

        See Also
        --------
        skstruct.graphs.Graph.decode : The inverse.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> labels, classes = np.array(["b", "c"]), np.array(["a", "b"])
        >>> Chain().encode(labels, classes, np.array([0, 2]), unseen=-1)
        array([ 1, -1], dtype=int32)
        """
        return label_codes.encode(labels, classes, offsets, unseen=unseen)

    def is_labelling(self, codes: np.ndarray, samples: Any, classes: Any) -> np.ndarray:
        """Which samples have a labelling, where more than forbidden parts decides on that.

        In fit all must; others have the log-likelihood -inf.

        Parameters
        ----------
        codes : ndarray of shape (n_nodes,) of int32
            What :meth:`encode` returned.
        samples : NamedTuple
            The packed samples.
        classes : ndarray of shape (n_classes,)
            What occurs.

        Returns
        -------
        ndarray of shape (n_samples,) of bool
            By default all are.

        See Also
        --------
        skstruct.SAGCRF.predict_log_likelihood : Is -inf where it is not.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]]], reset=True)
        >>> Chain().is_labelling(np.array([0, 1], dtype=np.int32), samples, np.array(["a", "b"]))
        array([ True])
        """
        return np.ones(samples.offsets.size - 1, dtype=bool)

    def n_states(self, classes: Any) -> int:
        """Number of labels that one node can have.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            What occurs.

        Returns
        -------
        int
            All classes.

        See Also
        --------
        skstruct.graphs.Graph.n_marginals : Numbers that make up the marginals of a node.

        Examples
        --------
        >>> from skstruct import Chain
        >>> Chain().n_states(["a", "b", "c"])
        3
        """
        return len(classes)

    def read_allowed(self, allowed: Any, samples: Any, classes: Any) -> np.ndarray:
        """Masks for constrained decoding.

        Parameters
        ----------
        allowed : list of array-like of bool
            What the user gave: here one mask of shape (n_nodes, n_classes) a sample.
        samples : NamedTuple
            The packed samples that they belong to.
        classes : ndarray of shape (n_classes,)
            What occurs.

        Returns
        -------
        ndarray of shape (n_nodes, n_states) of uint8
            The masks of all nodes.

        Raises
        ------
        ValueError
            If a mask has the wrong shape, or is neither boolean nor of zeros and ones.

        See Also
        --------
        skstruct.SAGCRF.predict : Takes such masks by its parameter ``allowed``.

        Examples
        --------
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]]], reset=True)
        >>> Chain().read_allowed([[[True, False], [True, True]]], samples, ["a", "b"])
        array([[1, 0],
               [1, 1]], dtype=uint8)
        """
        return read_sample_masks(allowed, samples.offsets, self.n_states(classes))
