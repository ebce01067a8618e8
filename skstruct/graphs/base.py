"""What every structure offers to estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..docstrings import inherit_sections
from ..typing import LossLike, SamplesLike
from .answers import Answers
from .kept import KeptWeights
from .labels import Labels
from .node_weights import NodeWeights


class Graph(Labels, NodeWeights, Answers, KeptWeights, ABC, BaseEstimator):
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
        What samples like those of training are decoded by, and which set the training objective
        ranges over: all labellings, or the LP relaxation. Set by fit on the estimator's ``graph_``,
        from attributes ``inference`` of problems; no prediction changes them.
    prefers_exact : bool
        Whether exact inference is taken at any cost that memory allows, where the structure
        chooses: fit sets it on ``graph_`` of estimators that relaxations cannot train.
    when_inferred : str
        What more to say where ``graph="auto"`` has led here and y has too few classes.

    See Also
    --------
    skstruct.graphs.PairwiseGraph : Structures with scores of nodes and label pairs.
    skstruct.testing.check_structure : Checks the verbs of a structure.

    Notes
    -----
    :doc:`/own_structure` tells at length what follows in short.

    A structure **must** define :meth:`read_X`, :meth:`no_samples`, :meth:`weight_shapes` and
    :meth:`make_problem`, and register kernels of verbs for the class of its problem, which should
    have an attribute ``structure``, its name in messages, and ``inference = "relaxed"`` if its max
    oracle is that of a relaxation. The structure holds its configuration and what fit has learned
    from the labels; :meth:`make_problem` writes nothing to it. It **may** define all the rest. A
    table in :mod:`skstruct.core.oracles` says which verb is needed by whom; what a structure lacks
    raises a TypeError before anything is compiled.

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
    prefers_exact = False
    when_inferred = ""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        inherit_sections(cls, Graph)

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
            The packed samples, see :class:`Graph`.

        Raises
        ------
        ValueError, TypeError
            If X is not what the structure takes; the message names the sample.

        See Also
        --------
        skstruct.graphs.Graph.read_y : The labels of the same samples.
        skstruct.graphs.Graph.no_samples : Packed samples without a sample.

        Examples
        --------
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]], [[2.0]]], reset=True)
        >>> samples.offsets, samples.features.shape
        (array([0, 2, 3]), (3, 1))
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

        See Also
        --------
        skstruct.graphs.Graph.read_X : Packs what there is.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> from skstruct import Chain
        >>> Chain().no_samples(SimpleNamespace(n_features_in_=5)).features.shape
        (0, 5)
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

        See Also
        --------
        skstruct.core.Weights : The tables.
        skstruct.graphs.Graph.pair_tables : The second one as users know it.

        Examples
        --------
        Two features and the intercept by three labels; one row of all pairs of labels:

        >>> from types import SimpleNamespace
        >>> from skstruct import Chain
        >>> samples = Chain().no_samples(SimpleNamespace(n_features_in_=2))
        >>> Chain().weight_shapes(samples, 3, fit_intercept=True)
        ((3, 3), (1, 9))
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

        See Also
        --------
        skstruct.testing.training_problem : Calls this with all that comes before it.
        skstruct.graphs.PairwiseProblem : The problem of most structures.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]], [[2.0]]], reset=True)
        >>> Chain().make_problem(samples, np.array(["a", "b"]), True).part_ptr
        array([ 0,  8, 14])
        """

    def exactly(self) -> Graph | None:
        """What decodes samples exactly where the structure's own way may find nothing.

        Returns
        -------
        Graph or None
            A copy, whose :meth:`make_problem` raises a ValueError for samples that are too large
            for it; by default there is none. Asked only where a relaxation found nothing.

        See Also
        --------
        skstruct.Pairwise : Has one.

        Examples
        --------
        >>> from skstruct import Chain
        >>> Chain().exactly() is None  # it is exact
        True
        """
        return None

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

        See Also
        --------
        skstruct.graphs.Graph.weight_shapes : The shape of the table.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> Chain().pair_tables(np.arange(4.0)[None], 2)
        array([[0., 1.],
               [2., 3.]])
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

        See Also
        --------
        skstruct.graphs.Graph.read_X : Makes packed samples, which know how many edges they have.

        Examples
        --------
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> X = [[[1.0], [0.0], [1.0]], [[2.0], [1.0]]]
        >>> first, second = Chain().edge_ends(Chain().read_X(BaseEstimator(), X, reset=True))
        >>> first, second
        (array([0, 1, 3]), array([1, 2, 4]))
        """
        none = np.empty(0, dtype=np.int64)
        return none, none

    def pair_cone(self, classes: Any) -> np.ndarray | None:
        """Coefficients by which training keeps interactions attractive.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,), or list
            What :meth:`find_classes` returned.

        Returns
        -------
        ndarray of shape (n_columns,) or None
            Training keeps the product of this with each row of the pair table at 0 or more; None
            where nothing is to be kept.

        Raises
        ------
        ValueError
            If that is impossible with these classes.

        See Also
        --------
        skstruct.Pairwise : Has one with ``attractive=True``.

        Examples
        --------
        >>> from skstruct import Chain, Pairwise
        >>> Chain().pair_cone(["a", "b"]) is None
        True
        >>> Pairwise(attractive=True).pair_cone(["a", "b"])
        array([ 1., -1., -1.,  1.])
        """
        return None

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

        See Also
        --------
        skstruct.core.oracles.max_oracle : Decodes.
        skstruct.graphs.Graph.relaxation : Another form.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Matching
        >>> from skstruct.graphs import Graph
        >>> Matching.decoding is Graph.decoding  # one form
        True
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

        See Also
        --------
        skstruct.core.oracles.relaxed_oracle : Solves it.

        Examples
        --------
        >>> from skstruct import Chain
        >>> from skstruct.testing import training_problem
        >>> problem = training_problem(Chain(), [[[1.0], [0.0]]], [["a", "b"]])[0]
        >>> Chain().relaxation(problem) is problem
        True
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

        See Also
        --------
        skstruct.testing.random_sequences : Random sequences with more to choose.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> X, y = Chain().example(np.random.default_rng(0), sparse_X=True)
        >>> X[0].shape[0] == len(y[0])
        True
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

        See Also
        --------
        skstruct.GDMMSSVM : Trains on them.

        Examples
        --------
        >>> from skstruct import Matching
        >>> from skstruct.graphs import Graph
        >>> Matching.factors is Graph.factors  # None
        True
        """
        return None
