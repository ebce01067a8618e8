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

# Weights of an earlier fit that have the same meaning in a new one.


def kept_positions(before: Any, now: Any) -> np.ndarray:
    """Return the former position of each element, -1 for new ones."""
    known = {value: k for k, value in enumerate(before)}
    return np.array([known.get(value, -1) for value in now], dtype=np.int64)


def kept_pairs(kept: np.ndarray, n_before: int) -> np.ndarray:
    """Return the former position of each pair of labels in a table of all pairs, or -1."""
    first, second = kept[:, None], kept[None, :]
    return np.where((first >= 0) & (second >= 0), n_before * first + second, -1)


# Methods that must agree with make_problem.
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
    hint_of_scale : str
        Addition to the warning that training is far from the optimum: which C to try.
    when_inferred : str
        Addition to the error message for too few classes in y, if ``graph="auto"`` chose the
        structure.

    Notes
    -----
    :doc:`/own_structure` is the chapter on the following.

    A structure **must** define :meth:`read_X`, :meth:`no_samples`, :meth:`weight_shapes` and
    :meth:`make_problem`, and register kernels of operations for the class of its space, which
    should have an attribute ``structure``, its name in messages, and ``inference = "relaxed"`` if
    its max oracle is that of a relaxation. Two operations are enough for a
    :class:`skstruct.graphs.NodeSpace`. The structure holds its configuration and what fit has
    learned from the labels; :meth:`make_problem` does not change it. Everything else is
    **optional**. A subclass with its own ``make_problem`` does not inherit :meth:`factors`,
    :meth:`relaxation` and :meth:`with_rules`, which may be wrong for its labellings: where they are
    right, assign them (``factors = Chain.factors``).
    :mod:`skstruct.core.oracles` lists the operations and what needs them; a missing one raises a
    TypeError before compilation.

    *Packed samples*, the result of :meth:`read_X` and argument of other methods, are a NamedTuple
    with

    * ``offsets`` (n_samples + 1, int64): the nodes of sample i are ``offsets[i]:offsets[i + 1]``;
      ``lengths`` and ``n_edges`` (n_samples), the numbers of nodes and edges of each sample;
    * ``features``, an ndarray or CSR matrix as from :func:`skstruct.data.packing.pack_nodes`,
      with one row per node (for a table: per sample), and perhaps ``edge_features``, one row per
      edge, or None;
    * ``take(keep)``, the samples where a mask is True, and ``without_empty()``, those with nodes.

    *Arguments* of the same name mean the same in all methods: `samples` are packed samples,
    `classes` (n_classes,) the result of :meth:`find_classes`, `labels` (n_nodes,) that of
    :meth:`read_y`, `codes` (n_nodes,) of int32 that of :meth:`encode`, and `problem` that of
    :meth:`make_problem`. `X`, `y`, `rules`, `allowed`, `node_weight` and `class_weight` are as the
    user gave them; where they are invalid, methods raise a ValueError or TypeError that names the
    sample.

    :func:`skstruct.testing.check_structure` checks all of this on small samples.
    """

    is_table = False
    has_label_sets = False
    has_items = False
    takes_partial_labels = has_node_weights = False
    usual_features = "csr"
    n_end_rows = 0
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
        """

    @abstractmethod
    def no_samples(self, estimator: BaseEstimator) -> NamedTuple:
        """Return zero packed samples of the widths of a fitted estimator."""

    @abstractmethod
    def weight_shapes(
        self, samples: Any, n_classes: int, fit_intercept: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of the node and the pair table: (rows, columns), (0, 0) without pairs.

        The node table has the rows of the node features first, and that of the intercept last if
        `fit_intercept`.
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
        """

    def suited(self, takes_relaxations: bool, needs_marginals: bool) -> Graph:
        """Return the structure for an estimator, where it chooses inference by itself.

        Parameters
        ----------
        takes_relaxations : bool
            Whether the estimator trains on relaxations, too.
        needs_marginals : bool
            Whether it needs marginals, as CRFs do.

        Returns
        -------
        Graph
            A copy that chooses so, or by default the structure itself.
        """
        return self

    def exactly(self) -> Graph | None:
        """Return a structure that decodes exactly the samples where this one may find nothing.

        Called only if a relaxation has found no labelling. :meth:`make_problem` of the copy raises
        a ValueError for samples that are too large for it. None by default.
        """
        return None

    # What it may define: weights

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Return the table of pair weights as ``pairwise_coef_``: a view.

        It is of shape (n_classes, n_classes), or (n_rows, n_classes, n_classes) if there are
        several rows, with the weights of (label, next label).
        """
        tables = pair_weights.reshape(len(pair_weights), n_classes, n_classes)
        return tables[0] if len(tables) == 1 else tables

    def edge_ends(self, samples: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the flat nodes at the first and at the second end of every edge, samples in order.

        Two integer arrays, of as many edges as ``samples.n_edges`` has; by default none.
        """
        none = np.empty(0, dtype=np.int64)
        return none, none

    def pair_cone(self, classes: Any) -> np.ndarray | None:
        """Return the coefficients by which training keeps interactions attractive, (n_columns,).

        Training keeps their product with each row of the pair table nonnegative; None, the default,
        is no constraint. A ValueError if that is impossible with these classes.
        """
        return None

    def with_rules(self, rules: Any) -> Graph:
        """Return a copy of the structure whose labellings obey further rules.

        `rules` is a list such as ``[AtMostOnce("a")]``; the copy has all of them in its attribute
        ``rules``. By default a TypeError: rules are for sequences.
        """
        raise TypeError(f"rules are for Chain: {type(self).__name__} heeds none")

    # What it may define: other forms of the problem

    def decoding(self, problem: Problem, weights: Any) -> Problem:
        """Return the problem in the form that is decoded fastest.

        It is an argument of :func:`skstruct.core.oracles.max_oracle`. The form may depend on the
        weights; most structures have only one.
        """
        return problem

    def relaxation(self, problem: Problem) -> Problem:
        """Return the problem over the local polytope: consistent distributions of nodes and edges.

        By default the same problem, since the polytope is tight for graphs without cycles.
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
        """Return the problem on the weights that occur in the training data; the others are 0.

        Parameters
        ----------
        problem : Problem
            The result of :meth:`make_problem`, for training.
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
            Its fields are the ``problem``, the ``shapes`` of its weights, the ``places`` of these
            among all weights (-1 for padding), and the problem with upper bounds for Gram matrices
            (``bounding``); methods ``take`` and ``spread`` convert from and to all weights. None,
            the default, if the structure does not support it.
        """

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, Any]:
        """Return X and y of a few random samples, for ``python -m skstruct compile``.

        `rng` is a NumPy generator; features are CSR matrices if `sparse_X`.
        """
        raise TypeError(f"{type(self).__name__} has no example(): its kernels compile in a fit")

    def factors(self, problem: Problem, samples: Any) -> Any:
        """Return the nodes and edges of the problem, for solvers that do not decode whole samples.

        A class of :mod:`skstruct.core.factors`, or None, the default: GDMMSSVM cannot be trained
        then.
        """
        return None

    # What it may define: labels

    def read_y(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Return the flat labels of all nodes, (n_nodes,).

        By default y is a list, object array or RaggedArray of label sequences.
        """
        return label_codes.read_sequence_labels(y, samples.offsets)

    def read_labelling(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Return the flat labels of one labelling per sample, if y may accept several as right.

        By default those of :meth:`read_y`, which ``score`` uses.
        """
        return self.read_y(y, samples)

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[NamedTuple, np.ndarray]:
        """Pack X and y for fit: return samples and labels, and set the numbers of features."""
        samples = self.read_X(estimator, X, reset=True)
        return samples, self.read_y(y, samples)

    def find_classes(self, labels: np.ndarray, samples: Any) -> Any:
        """Return the sorted labels that occur: ``classes_`` of the estimator.

        `labels` are those of all samples that count. A structure that learns more from the labels
        does so here. A ValueError if there is only one class.
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
        """Return the codes of labels, (n_nodes,) of int32: see :func:`skstruct.data.labels.encode`.

        `offsets` (n_samples + 1,) are those of the samples; `unseen` is the code of unknown labels,
        which otherwise raise an error.
        """
        return label_codes.encode(labels, classes, offsets, unseen=unseen)

    def is_labelling(self, codes: np.ndarray, samples: Any, classes: Any) -> np.ndarray:
        """Return a mask of the samples whose codes are a labelling, (n_samples,) of bool.

        For constraints that forbidden parts do not express. In fit all samples must be labellings;
        others have log-likelihood -inf. By default all are.
        """
        return np.ones(samples.offsets.size - 1, dtype=bool)

    def n_states(self, classes: Any) -> int:
        """Return the number of labels that one node can have: by default all classes."""
        return len(classes)

    def read_allowed(self, allowed: Any, samples: Any, classes: Any) -> np.ndarray:
        """Return the masks for constrained decoding, (n_nodes, n_states) of uint8.

        By default `allowed` has one mask of shape (n_nodes, n_classes) per sample.
        """
        return read_sample_masks(allowed, samples.offsets, self.n_states(classes))

    # What it may define: weights of nodes and of classes

    def read_node_weight(self, node_weight: Any, samples: Any) -> np.ndarray:
        """Return weights of nodes in training, (n_nodes,).

        By default `node_weight` is one array per sample, a RaggedArray or one flat array.
        """
        return read_sequence_weights(node_weight, samples.offsets)

    def read_class_weight(
        self, class_weight: Any, classes: Any, codes: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights of classes in training.

        Parameters
        ----------
        class_weight : mapping, "balanced" or None
            The user's argument.
        classes : ndarray of shape (n_classes,)
            The classes.
        codes : ndarray of shape (n_nodes,) of int32
            The result of :meth:`encode`.
        counts : ndarray of shape (n_nodes,)
            Weight of each node for "balanced".

        Returns
        -------
        factor : ndarray of shape (n_nodes or 1,)
            Weights of nodes independent of their classes: by default 1.
        class_factors : ndarray of shape (n_kinds, n_states)
            Weights of the classes for each kind of nodes, where the kinds alternate: by default one
            kind.
        """
        if class_weight is None:
            class_factors = np.ones((1, len(classes)))
        elif isinstance(class_weight, str):
            class_factors = balanced_weights(codes, counts, (1, len(classes)))
        else:
            class_factors = given_weights(class_weight, np.asarray(classes).tolist())[None]
        return np.ones(1), class_factors

    # What it may define: outputs and scores

    def wrap(self, flat: np.ndarray, samples: Any) -> np.ndarray:
        """Return results of nodes, (n_nodes, ...), in the shape in which the user gave X.

        By default an object array of one array per sample; for a table one row per sample.
        """
        ends = samples.offsets.tolist()
        return object_array([flat[start:stop] for start, stop in pairwise(ends)])

    def decode(self, codes: np.ndarray, classes: Any) -> np.ndarray:
        """Return the labels of codes, in their shape: the inverse of :meth:`encode`."""
        return classes.take(codes)  # faster than by an index

    def n_marginals(self, classes: Any) -> int:
        """Return the number of marginals per node, its first parts: by default one per class."""
        return len(classes)

    def answers(self, codes: np.ndarray, classes: Any, samples: Any) -> np.ndarray:
        """Return the output of ``predict`` for the best labellings: by default wrapped labels."""
        return self.wrap(self.decode(codes, classes), samples)

    def ranked(self, codes: np.ndarray, classes: Any, samples: Any, i: int) -> np.ndarray:
        """Return the output of ``predict_top_k`` for sample i, of length k: by default the labels.

        `codes` (k, ...) are its best labellings, each in the shape that :meth:`wrap` gives a
        sample.
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
        """Return the output of ``score``: by default the fraction of correctly labelled nodes.

        Parameters
        ----------
        predicted : ndarray of shape (n_nodes,) of int32
            The best labellings.
        truth : ndarray of shape (n_nodes,) of int32
            The encoded labels of :meth:`read_y`; -1 for unseen ones.
        samples : NamedTuple
            The packed samples.
        weight : ndarray of shape (n_samples,) or None
            Weights of samples, not all 0 on those that have nodes.
        counted : ndarray of shape (n_nodes,) of bool, optional
            Mask of the nodes that have a label, where some have none: only given to a structure
            that ``takes_partial_labels``.

        Returns
        -------
        float
            The score.
        """
        of_nodes = None if weight is None else np.repeat(weight, samples.lengths)
        right = predicted == truth
        if counted is not None:
            right, of_nodes = right[counted], None if of_nodes is None else of_nodes[counted]
        return float(np.average(right, weights=of_nodes))

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: Any
    ) -> np.ndarray:
        """Return the output of ``decision_function`` for a table, or for the items of samples.

        `scores` (n_samples, n_classes) are features times node weights, with the intercept; by
        default they are returned.
        """
        return scores

    # What it may define: weights of an earlier fit that have the same meaning in a new one

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the earlier column of the same meaning for each column of the weight tables.

        Parameters
        ----------
        previous : Graph
            The structure of the earlier fit, of the same class.
        classes, previous_classes : ndarray or list
            The results of :meth:`find_classes` in this and in the earlier fit.

        Returns
        -------
        node : ndarray of shape (n_columns,) of int
            For each column of the node table, -1 for new ones. By default columns are labels, which
            are matched by value.
        pair : ndarray of shape (n_pair_columns,) of int, or None
            The same for the pair table; None if unknown. By default columns are all pairs of
            labels.
        """
        node = kept_positions(np.asarray(previous_classes).tolist(), np.asarray(classes).tolist())
        return node, kept_pairs(node, len(previous_classes)).ravel()

    def kept_pair_rows(self, previous: Any, kept: np.ndarray, n_before: int) -> np.ndarray:
        """Return the earlier row of the same meaning for each row of the pair table.

        `kept` (n_edge_features,) has the earlier place of each edge feature, or -1 (``[0]`` for
        edges without features), and `n_before` the number of edge features then, 1 without any. By
        default the table has one row per edge feature.
        """
        return kept
