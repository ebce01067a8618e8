"""What every structure offers to estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..data import labels as label_codes
from ..data.allowed import read_sample_masks
from ..typing import LossLike, SamplesLike
from .answers import Answers
from .kept import KeptWeights
from .node_weights import NodeWeights


class Graph(NodeWeights, Answers, KeptWeights, ABC, BaseEstimator):
    """A structure: which labellings a sample has, and how its parts share weights.

    A subclass says how to read X and y, builds the problem (a NamedTuple of arrays) that its
    kernels work on, and lays out the weights. It never trains and never decodes by itself: solvers
    do that through the verbs of :mod:`skstruct.core.oracles`. Its parameters are estimator-style
    (``__init__`` stores them as they are), so that ``graph__name`` can be searched over.

    Attributes
    ----------
    is_table : bool
        Whether X is a table with a row a sample; predictions are plain arrays then.
    has_label_sets : bool
        Whether y is a table, too, with a column a label that is on or off.
    has_items : bool
        Whether feature rows belong to items, ``samples.item_ptr`` says which, and labellings choose
        some of them: ``decision_function`` has their scores.
    has_node_weights : bool
        Whether training takes weights of classes and of nodes: the task loss of the structure's
        problem is then that of :func:`skstruct.losses.task.node_costs`.
    usual_features : {"csr", "dense"}
        What ``python -m skstruct compile`` compiles for, if the structure takes it.
    takes_partial_labels : bool
        Whether y may have missing labels and sets of labels: labels are those of nodes, and masks
        of :meth:`read_allowed` clamp them.
    n_end_rows : int
        Rows of the node table between the features' and the intercept's: ``boundary_coef_``.
    inference_, training_inference_ : {"exact", "relaxed"}
        What predictions are decoded by, and which set the training objective ranges over: all
        labellings, or the LP relaxation. Of a structure inside a fitted estimator.
    pair_cone_ : ndarray of shape (n_columns,) or None
        Training keeps the product of this with each row of the pair table at 0 or more.
    when_inferred : str
        What more to say where ``graph="auto"`` has led here and y has too few classes.

    See Also
    --------
    skstruct.graphs.PairwiseGraph : Structures with scores of nodes and label pairs.
    skstruct.testing.check_structure : Checks the verbs of a structure.

    Notes
    -----
    A structure **must** define :meth:`read_X`, :meth:`no_samples`, :meth:`weight_shapes` and
    :meth:`make_problem`, and register kernels of verbs for the class of its problem, which should
    have an attribute ``structure``, its name in messages. It **may** define all the rest. A table
    in :mod:`skstruct.core.oracles` says which verb is needed by whom; what a structure lacks raises
    a TypeError before anything is compiled.

    *Packed samples*, which :meth:`read_X` returns and which go back into the other methods, are a
    NamedTuple of the structure's own with

    * ``offsets`` (n_samples + 1, int64): the nodes of sample i are ``offsets[i]:offsets[i + 1]``;
      ``lengths`` and ``n_edges`` (n_samples), the numbers of nodes and edges of each sample;
    * ``features``, an ndarray or CSR matrix as of :func:`skstruct.data.packing.pack_nodes`, a row a
      node (of a table: a sample), and perhaps ``edge_features``, a row an edge, or None;
    * ``take(keep)``, those where a mask is True, and ``without_empty()``, those that have nodes.

    :func:`skstruct.testing.check_structure` checks all of this on small samples.

    Examples
    --------
    >>> from skstruct import Chain, Grid
    >>> from skstruct.graphs import Graph
    >>> isinstance(Chain(), Graph), Chain().is_table, Grid().get_params()["attractive"]
    (True, False, False)
    """

    is_table = False
    has_label_sets = False
    has_items = False
    takes_partial_labels = False
    usual_features = "csr"
    n_end_rows = 0
    inference_ = training_inference_ = "exact"
    pair_cone_ = None
    when_inferred = ""

    # What a structure must define

    @abstractmethod
    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> NamedTuple:
        """Pack X; set or compare the number of features of `estimator`.

        Parameters
        ----------
        estimator : BaseEstimator
            Takes or has ``n_features_in_``, and other ``names_`` that :meth:`no_samples` asks for.
        X : list, object array, 3-D array, RaggedArray, or table
            What the user gave.
        reset : bool
            True in fit.

        Returns
        -------
        NamedTuple
            The packed samples, see above.

        Raises
        ------
        ValueError, TypeError
            If X is not what the structure takes; the message names the sample.
        """

    @abstractmethod
    def no_samples(self, estimator: BaseEstimator) -> NamedTuple:
        """Packed samples without a sample, but of the right widths.

        Parameters
        ----------
        estimator : BaseEstimator
            Has what :meth:`read_X` has set in fit.

        Returns
        -------
        NamedTuple
            What :meth:`read_X` would return.
        """

    @abstractmethod
    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the node and the pair table.

        Parameters
        ----------
        samples : NamedTuple
            Packed samples, for the numbers of features.
        n_classes : int
            Number of classes.
        fit_intercept : bool
            Whether there is a constant feature: it is the last row of the node table.

        Returns
        -------
        tuple of two tuples of two ints
            Rows (the node features first) x columns; (0, 0) where there are no pairs.
        """

    @abstractmethod
    def make_problem(
        self,
        samples: Any,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem for kernels; no sample is empty.

        Parameters
        ----------
        samples : NamedTuple
            Packed samples.
        classes : ndarray of shape (n_classes,), or list
            What :meth:`find_classes` returned.
        fit_intercept : bool
            Whether there is a constant feature.
        codes : ndarray of shape (n_nodes,) of int32, optional
            True labels, for training: refused where the structure forbids them.
        loss : object
            Task loss, see :func:`skstruct.losses.task.cost_matrix`.
        allowed : ndarray of shape (n_nodes, n_states) of uint8, optional
            What :meth:`read_allowed` returned.
        n_best : int
            Largest number of labellings that will be asked for at once.

        Returns
        -------
        NamedTuple
            What the verbs of :mod:`skstruct.core.oracles` dispatch on, of a class of its own.

        Raises
        ------
        ValueError
            If the true labels break the structure's constraints, or its parameters are wrong.
        """

    def exactly(self) -> Graph | None:
        """What decodes samples exactly where the structure's own way may find nothing.

        Returns
        -------
        Graph or None
            A copy, whose :meth:`make_problem` raises a ValueError for samples that are too large
            for it; by default there is none.
        """
        return None

    # What it may define: reading, labels

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
        """
        return read_sample_masks(allowed, samples.offsets, self.n_states(classes))

    # What it may define: weights

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """The pair weights as users know them: a view.

        Parameters
        ----------
        pair_weights : ndarray
            The table of pair weights.
        n_classes : int
            Number of classes.

        Returns
        -------
        ndarray of shape (n_classes, n_classes) or (n_rows, n_classes, n_classes)
            Weights of (label, next label), where the table has one row, or one table a row.
        """
        tables = pair_weights.reshape(len(pair_weights), n_classes, n_classes)
        return tables[0] if len(tables) == 1 else tables

    def edge_ends(self, samples: Any) -> tuple[np.ndarray, np.ndarray]:
        """Flat nodes at the first and at the second end of every edge, samples in order.

        Parameters
        ----------
        samples : NamedTuple
            Packed samples.

        Returns
        -------
        first, second : ndarray of shape (n_edges,) of int
            The nodes; as many edges as ``samples.n_edges`` says, here none.
        """
        none = np.empty(0, dtype=np.int64)
        return none, none

    # What it may define: other forms of the problem

    def decoding(self, problem: NamedTuple, weights: Any) -> NamedTuple:
        """The problem in the form in which these weights are decoded fastest.

        Parameters
        ----------
        problem : NamedTuple
            What :meth:`make_problem` returned.
        weights : Weights
            The weights.

        Returns
        -------
        NamedTuple
            A problem for :func:`skstruct.core.oracles.max_oracle`; most structures have one form.
        """
        return problem

    def relaxation(self, problem: NamedTuple) -> NamedTuple:
        """The problem over distributions of nodes and edges that agree: the local polytope.

        Parameters
        ----------
        problem : NamedTuple
            What :meth:`make_problem` returned.

        Returns
        -------
        NamedTuple
            The same problem, since nothing is lost without cycles.
        """
        return problem

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, Any]:
        """A few samples of random data, for ``python -m skstruct compile``.

        Parameters
        ----------
        rng : numpy.random.Generator
            Draws them.
        sparse_X : bool
            Whether features are CSR matrices.

        Returns
        -------
        X, y : object
            What fit takes.
        """
        raise TypeError(f"{type(self).__name__} has no example(): its kernels compile in a fit")

    def factors(self, problem: NamedTuple, samples: Any) -> Any:
        """The nodes and edges of the problem, for solvers that never look at a whole sample.

        Parameters
        ----------
        problem : NamedTuple
            What :meth:`make_problem` returned, with labels.
        samples : NamedTuple
            The packed samples.

        Returns
        -------
        PairwiseFactors or BinaryFactors or None
            One of :mod:`skstruct.core.factors`, or None: GDMMSSVM cannot be trained then.
        """
        return None
