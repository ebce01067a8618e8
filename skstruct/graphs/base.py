"""Interface of structures to estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..core.docstrings import inherit_sections
from ..core.problem import Problem
from ..core.typing import LossLike, SamplesLike
from ..data import labels as label_codes
from ..data.node_weights import balanced_weights, given_weights, read_sequence_weights
from ..data.partial import read_sample_masks
from ..data.ragged import object_array

# Which weights of an earlier fit mean the same in a new one.


def kept_positions(before: Any, now: Any) -> np.ndarray:
    """Return the former position of each element, -1 for those that are new."""
    known = {value: k for k, value in enumerate(before)}
    return np.array([known.get(value, -1) for value in now], dtype=np.int64)


def kept_pairs(kept: np.ndarray, n_before: int) -> np.ndarray:
    """Return the former position of each pair of labels in a table of all pairs, or -1."""
    first, second = kept[:, None], kept[None, :]
    return np.where((first >= 0) & (second >= 0), n_before * first + second, -1)


# What says the same as make_problem in another way.
_OF_PROBLEM = "factors", "relaxation", "with_rules"


class Graph(ABC, BaseEstimator):
    """A structure: which labellings a sample has, and how its parts share weights.

    A subclass reads X and y, builds the problem (a NamedTuple of arrays) for its kernels, and
    defines the layout of weights. Solvers train and decode through the operations of
    :mod:`skstruct.core.oracles`. Its parameters are estimator-style (``__init__`` stores them
    unchanged), so that ``graph__name`` can be searched over.

    Attributes
    ----------
    is_table : bool
        Whether X is a table with one row per sample; predictions are then plain arrays.
    has_label_sets : bool
        Whether y is a table, too, with one binary column per label.
    has_items : bool
        Whether feature rows belong to items, by ``samples.item_ptr``, some of which labellings
        choose: ``decision_function`` returns their scores.
    has_node_weights : bool
        Whether training takes weights of classes and of nodes: the task loss of the structure's
        problem is then that of :func:`skstruct.losses.task.node_costs`.
    usual_features : {"csr", "dense"}
        Kind of features for ``python -m skstruct compile``, if the structure accepts it.
    takes_partial_labels : bool
        Whether y may have missing labels and sets of labels: labels are those of nodes, and masks
        of :meth:`read_allowed` clamp them.
    n_end_rows : int
        Rows of the node table between the features' and the intercept's: ``boundary_coef_``.
    inference_, training_inference_ : {"exact", "relaxed"}
        Inference for samples like those of training, and for the training objective: over all
        labellings, or the LP relaxation. Set by fit on the estimator's ``graph_``, from attributes
        ``inference`` of spaces; predictions do not change them.
    prefers_exact : bool
        Whether to prefer exact inference at any cost that memory allows, where the structure
        chooses: fit sets it on ``graph_`` of estimators that cannot train on relaxations.
    prefers_marginals : bool
        Whether to choose inference for its marginals: fit sets it on ``graph_`` of CRFs.
    hint_of_scale : str
        Addition to the warning that training is far from the optimum: which C to try.
    when_inferred : str
        Addition to the error message for too few classes in y, if ``graph="auto"`` chose the
        structure.

    See Also
    --------
    skstruct.graphs.PairwiseGraph : Structures with scores of nodes and label pairs.
    skstruct.testing.check_structure : Checks the operations of a structure.

    Notes
    -----
    :doc:`/own_structure` is the chapter on the following.

    A structure **must** define :meth:`read_X`, :meth:`no_samples`, :meth:`weight_shapes` and
    :meth:`make_problem`, and register kernels of operations for the class of its space, which
    should have an attribute ``structure``, its name in messages, and ``inference = "relaxed"`` if
    its max oracle is that of a relaxation. Two operations are enough for a
    :class:`skstruct.graphs.NodeSpace`. The structure holds its configuration and what fit has
    learned from the labels; :meth:`make_problem` does not change it. Everything else is
    **optional**. A subclass with a ``make_problem`` of its own inherits no :meth:`factors`,
    :meth:`relaxation` or :meth:`with_rules`, which may be wrong for its labellings: where they are
    right, say so (``factors = Chain.factors``).
    :mod:`skstruct.core.oracles` lists which operation is needed for what; a missing one raises a
    TypeError before compilation.

    *Packed samples*, the result of :meth:`read_X` and argument of other methods, are a NamedTuple
    with

    * ``offsets`` (n_samples + 1, int64): the nodes of sample i are ``offsets[i]:offsets[i + 1]``;
      ``lengths`` and ``n_edges`` (n_samples), the numbers of nodes and edges of each sample;
    * ``features``, an ndarray or CSR matrix as from :func:`skstruct.data.packing.pack_nodes`,
      with one row per node (for a table: per sample), and perhaps ``edge_features``, one row per
      edge, or None;
    * ``take(keep)``, the samples where a mask is True, and ``without_empty()``, those with nodes.

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
    takes_partial_labels = has_node_weights = False
    usual_features = "csr"
    n_end_rows = 0
    inference_ = training_inference_ = "exact"
    prefers_exact = prefers_marginals = False
    when_inferred = hint_of_scale = ""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        depth = {name: k for k, base in enumerate(cls.__mro__[::-1]) for name in vars(base)}
        for name in _OF_PROBLEM:
            if depth[name] < depth["make_problem"]:
                setattr(cls, name, vars(Graph)[name])
        inherit_sections(cls, Graph)

    # What a structure must define

    @abstractmethod
    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> NamedTuple:
        """Pack X; set or compare the number of features of `estimator`.

        Parameters
        ----------
        estimator : BaseEstimator
            Receives ``n_features_in_``, and other attributes for :meth:`no_samples`.
        X : list, object array, 3-D array, RaggedArray, or table
            The user's argument.
        reset : bool
            True in fit.

        Returns
        -------
        NamedTuple
            The packed samples, see :class:`Graph`.

        Raises
        ------
        ValueError, TypeError
            If the structure does not accept X; the message names the sample.

        See Also
        --------
        skstruct.graphs.Graph.read_y : The labels of the same samples.
        skstruct.graphs.Graph.no_samples : Zero packed samples.

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
        """Return zero packed samples of the right widths.

        Parameters
        ----------
        estimator : BaseEstimator
            A fitted estimator.

        Returns
        -------
        NamedTuple
            As from :meth:`read_X`.

        See Also
        --------
        skstruct.graphs.Graph.read_X : Packs samples.

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
        """Return the shapes of the node and the pair table.

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
            Rows (node features first) x columns; (0, 0) without pairs.

        See Also
        --------
        skstruct.core.Weights : The tables.
        skstruct.graphs.Graph.pair_tables : The second one as ``pairwise_coef_``.

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
    ) -> Problem:
        """Build the problem for kernels; no sample is empty.

        Parameters
        ----------
        samples : NamedTuple
            Packed samples.
        classes : ndarray of shape (n_classes,), or list
            The result of :meth:`find_classes`.
        fit_intercept : bool
            Whether there is a constant feature.
        codes : ndarray of shape (n_nodes,) of int32, optional
            True labels, for training; forbidden ones raise an error.
        loss : object
            Task loss, see :func:`skstruct.losses.task.cost_matrix`.
        allowed : ndarray of shape (n_nodes, n_states) of uint8, optional
            The result of :meth:`read_allowed`.
        n_best : int
            Maximum number of labellings to decode at once.

        Returns
        -------
        Problem
            Rows, space and target, whose classes the operations of :mod:`skstruct.core.oracles`
            dispatch on.

        Raises
        ------
        ValueError
            If the true labels break the structure's constraints, or its parameters are wrong.

        See Also
        --------
        skstruct.testing.training_problem : Calls it as fit does.
        skstruct.graphs.Problem : What it consists of.

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
        """Return a structure that decodes exactly the samples where this one may find nothing.

        Returns
        -------
        Graph or None
            A copy, whose :meth:`make_problem` raises a ValueError for samples that are too large
            for it; None by default. Called only where a relaxation found nothing.

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
        """Return the pair weights as ``pairwise_coef_``: a view.

        Parameters
        ----------
        pair_weights : ndarray
            The table of pair weights.
        n_classes : int
            Number of classes.

        Returns
        -------
        ndarray of shape (n_classes, n_classes) or (n_rows, n_classes, n_classes)
            Weights of (label, next label), one table per row if there are several.

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
        skstruct.graphs.Graph.read_X : Makes packed samples, with ``n_edges``.

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
            The result of :meth:`find_classes`.

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

    def with_rules(self, rules: Any) -> Graph:
        """Return a copy of the structure whose labellings obey further rules.

        Parameters
        ----------
        rules : list of rules
            The user's argument, such as ``[AtMostOnce("a")]``.

        Returns
        -------
        Graph
            The copy; all rules are its attribute ``rules``.

        Raises
        ------
        TypeError
            By default: rules are for sequences.

        See Also
        --------
        skstruct.AtMostOnce : A rule.

        Examples
        --------
        >>> from skstruct import AtMostOnce, Chain
        >>> Chain().with_rules([AtMostOnce("a")])
        Chain(rules=[AtMostOnce(label='a')])
        """
        raise TypeError(f"rules are for Chain: {type(self).__name__} heeds none")

    # What it may define: other forms of the problem

    def decoding(self, problem: Problem, weights: Any) -> Problem:
        """The problem in the form in which these weights are decoded fastest.

        Parameters
        ----------
        problem : Problem
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

    def relaxation(self, problem: Problem) -> Problem:
        """The problem over distributions of nodes and edges that agree: the local polytope.

        Parameters
        ----------
        problem : Problem
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

    def observed(
        self,
        problem: Problem,
        samples: Any,
        allowed: np.ndarray | None,
        all_states: bool,
        all_transitions: bool,
    ) -> Any:
        """The problem on the weights of what occurs in the training data; the others are 0.

        Parameters
        ----------
        problem : Problem
            What :meth:`make_problem` returned, for training.
        samples : NamedTuple
            Packed samples.
        allowed : ndarray of shape (n_nodes, n_classes) of uint8, or None
            Labels that each node may have; None where each has one.
        all_states, all_transitions : bool
            Whether pairs of a feature and a label, and of two labels, have weights if they do not
            occur.

        Returns
        -------
        NamedTuple or None
            It has the ``problem`` and the ``shapes`` of its weights, ``places`` of these among all
            weights (-1 for what fills up), the same problem with upper bounds for Gram matrices
            (``bounding``), and methods ``take`` and ``spread`` from and to all weights. None, as
            here, if the structure lacks it.

        See Also
        --------
        skstruct.SAGCRF : Asks for it with ``all_possible_states=False``.

        Examples
        --------
        Three of six pairs of a feature and a label occur, and two of four steps:

        >>> import numpy as np
        >>> from skstruct import Chain
        >>> from skstruct.testing import training_problem
        >>> X, y = [np.eye(3)], [["a", "b", "b"]]
        >>> problem, samples, *_ = training_problem(Chain(), X, y, fit_intercept=False)
        >>> few = Chain().observed(problem, samples, None, False, False)
        >>> [int((where >= 0).sum()) for where in few.places]
        [3, 2]
        """

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, Any]:
        """A few samples of random data, for ``python -m skstruct compile``.

        Parameters
        ----------
        rng : numpy.random.Generator
            Seed of the generator.
        sparse_X : bool
            Whether features are CSR matrices.

        Returns
        -------
        X, y : object
            The arguments of fit.

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

    def factors(self, problem: Problem, samples: Any) -> Any:
        """The nodes and edges of the problem, for solvers that never look at a whole sample.

        Parameters
        ----------
        problem : Problem
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

    # What it may define: labels

    def read_y(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Flat labels of all nodes.

        Parameters
        ----------
        y : object
            The user's argument: here a list, object array or RaggedArray of label sequences.
        samples : NamedTuple
            The packed samples that they belong to.

        Returns
        -------
        ndarray of shape (n_nodes,)
            The labels.

        Raises
        ------
        ValueError, TypeError
            If the lengths differ or an element is not a label; the message names the sample.

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
            The user's argument.
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
            The user's argument.

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
            The classes.
        offsets : ndarray of shape (n_samples + 1,)
            Where each sample begins.
        unseen : int, optional
            Code of unknown labels; by default they raise an error.

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
        """Return a mask of samples whose codes are a labelling, beyond what forbidden parts decide.

        In fit all must; others have the log-likelihood -inf.

        Parameters
        ----------
        codes : ndarray of shape (n_nodes,) of int32
            What :meth:`encode` returned.
        samples : NamedTuple
            The packed samples.
        classes : ndarray of shape (n_classes,)
            The classes.

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
            The classes.

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
            What the user gave: here one mask of shape (n_nodes, n_classes) per sample.
        samples : NamedTuple
            The packed samples that they belong to.
        classes : ndarray of shape (n_classes,)
            The classes.

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

    # What it may define: weights of nodes and of classes

    def read_node_weight(self, node_weight: Any, samples: Any) -> np.ndarray:
        """Weights of nodes in training.

        Parameters
        ----------
        node_weight : object
            What the user gave: here one array per sample, a RaggedArray or one flat array.
        samples : NamedTuple
            The packed samples that they belong to.

        Returns
        -------
        ndarray of shape (n_nodes,)
            The weights.

        Raises
        ------
        ValueError, TypeError
            If there are more or fewer, or one is negative or not finite.

        See Also
        --------
        skstruct.graphs.Graph.read_class_weight : Weights of classes.
        skstruct.losses.task.node_costs : Their use in the task loss.

        Examples
        --------
        >>> from sklearn.base import BaseEstimator
        >>> from skstruct import Chain
        >>> samples = Chain().read_X(BaseEstimator(), [[[1.0], [0.0]], [[2.0]]], reset=True)
        >>> Chain().read_node_weight([[1, 2], [3]], samples)
        array([1., 2., 3.])
        """
        return read_sequence_weights(node_weight, samples.offsets)

    def read_class_weight(
        self, class_weight: Any, classes: Any, codes: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights of classes in training.

        Parameters
        ----------
        class_weight : mapping, "balanced" or None
            The user's argument.
        classes : ndarray of shape (n_classes,)
            The classes.
        codes : ndarray of shape (n_nodes,) of int32
            What :meth:`encode` returned.
        counts : ndarray of shape (n_nodes,)
            How often each node counts for "balanced".

        Returns
        -------
        factor : ndarray of shape (n_nodes or 1,)
            Weights that nodes have whatever their classes: here 1.
        class_factors : ndarray of shape (n_kinds, n_states)
            Weights of the classes of each kind of nodes, kinds following each other in turn: here
            there is one kind.

        Raises
        ------
        ValueError
            If a class is unknown, or a weight is negative or not finite.

        See Also
        --------
        skstruct.graphs.Graph.read_node_weight : Weights of nodes.
        skstruct.losses.task.node_costs : Their use in the task loss.

        Examples
        --------
        A class that is seen a quarter of the time weighs twice as much as on average:

        >>> import numpy as np
        >>> from skstruct import Chain
        >>> codes = np.array([0, 0, 0, 1], dtype=np.int32)
        >>> Chain().read_class_weight("balanced", np.array(["a", "b"]), codes, np.ones(4))[1]
        array([[0.66666667, 2.        ]])
        """
        if class_weight is None:
            class_factors = np.ones((1, len(classes)))
        elif isinstance(class_weight, str):
            class_factors = balanced_weights(codes, counts, (1, len(classes)))
        else:
            class_factors = given_weights(class_weight, np.asarray(classes).tolist())[None]
        return np.ones(1), class_factors

    # What it may define: answers, and how they are scored

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
            Here an object array of one array per sample; for a table one row per sample.

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
            The classes.

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
        return classes.take(codes)  # faster than by an index

    def n_marginals(self, classes: Any) -> int:
        """Numbers that make up the marginals of a node: the first of its parts.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            The classes.

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
        """Return the output of ``predict``.

        Parameters
        ----------
        codes : ndarray of shape (n_nodes,) of int32
            The best labellings.
        classes : ndarray of shape (n_classes,)
            The classes.
        samples : NamedTuple
            The packed samples.

        Returns
        -------
        ndarray
            By default the labels of all nodes, wrapped.

        See Also
        --------
        skstruct.graphs.Graph.decode : Labels of codes.
        skstruct.graphs.Graph.wrap : One array per sample.

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
        """Return the output of ``predict_top_k`` for one sample.

        Parameters
        ----------
        codes : ndarray of shape (k, ...) of int32
            Its best labellings, each in the shape that :meth:`wrap` gives a sample.
        classes : ndarray of shape (n_classes,)
            The classes.
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
        """Return the output of ``score``.

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
            By default the fraction of correctly labelled nodes.

        See Also
        --------
        skstruct.metrics.flatten : Labels of nodes, for metrics of single labels.

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
        """Return the output of ``decision_function`` for a table, or a sample's items.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_classes)
            Node scores: features times node weights, with the intercept.
        estimator : StructuredEstimator
            Fitted.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The user's argument.
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

    # What it may define: which weights of an earlier fit mean the same in a new one

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """For each column of the weight tables the one that meant the same in an earlier fit.

        Parameters
        ----------
        previous : Graph
            The structure of the earlier fit, of the same class.
        classes, previous_classes : ndarray or list
            What :meth:`find_classes` returned now and then.

        Returns
        -------
        node : ndarray of shape (n_columns,) of int
            For each column of the node table, -1 for new ones. By default columns are labels, which
            are matched by value.
        pair : ndarray of shape (n_pair_columns,) of int, or None
            The same for the pair table; None if nothing is known. By default columns are all pairs
            of labels.

        See Also
        --------
        skstruct.graphs.Graph.kept_pair_rows : The same of rows.
        skstruct.SAGCRF.partial_fit : Continues with other labels.

        Examples
        --------
        A label is new, one stays, one has gone:

        >>> from skstruct import Chain
        >>> node, pair = Chain().kept_columns(Chain(), ["b", "c"], ["a", "b"])
        >>> node, pair
        (array([ 1, -1]), array([ 3, -1, -1, -1]))
        """
        node = kept_positions(np.asarray(previous_classes).tolist(), np.asarray(classes).tolist())
        return node, kept_pairs(node, len(previous_classes)).ravel()

    def kept_pair_rows(self, previous: Any, kept: np.ndarray, n_before: int) -> np.ndarray:
        """For each row of the pair table the one that meant the same in an earlier fit.

        Parameters
        ----------
        previous : Graph
            The structure of the earlier fit, of the same class.
        kept : ndarray of shape (n_edge_features,) of int
            For each edge feature its place then, or -1; of edges without features ``[0]``.
        n_before : int
            Number of edge features then, 1 without any.

        Returns
        -------
        ndarray of int
            By default the table has one row per edge feature.

        See Also
        --------
        skstruct.graphs.Graph.kept_columns : The same of columns.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import Chain
        >>> Chain().kept_pair_rows(Chain(), np.array([1, -1]), 2)
        array([ 1, -1])
        """
        return kept
