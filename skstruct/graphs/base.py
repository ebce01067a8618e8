"""Interface of structures to estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..core.docstrings import inherit_sections
from ..core.problem import Problem
from ..core.sklearn_private import Documented
from ..core.typing import LossLike, SamplesLike
from ..data import labels as label_codes
from ..data.constraints import transition_mask
from ..data.node_weights import balanced_weights, given_weights, read_sequence_weights
from ..data.partial import read_sample_masks
from ..data.ragged import object_array
from ..data.states import HiddenStates, hidden_states

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


class Graph(ABC, Documented, BaseEstimator):
    """A structure: which labellings a sample has, and how its parts share weights.

    A subclass reads X and y, builds the problem (a NamedTuple of arrays) for its kernels, and
    defines the layout of weights. Solvers call the operations of :mod:`skstruct.core.oracles`. Its
    parameters are estimator-style (``__init__`` stores them unchanged), so that ``graph__name`` can
    be searched over.

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
    states_per_label : int or mapping
        Number of hidden states of each label, a parameter of structures that have some: problems
        are then made with :meth:`states` as `classes`.
    chunk_schemes : tuple
        Schemes under which chunks are what labellings are made of, the usual one first; empty for
        structures whose chunks may follow any scheme.
    learns : bool
        Whether :meth:`learn` takes anything from the labels.
    n_end_rows, end_names : int, sequence of str
        Rows of the node table between the features' and the intercept's: ``boundary_coef_``.
    forbidden : list, str or None
        Pairs of labels that are not neighbours, a parameter of structures that have some.
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
    states_per_label = 1
    usual_features = "csr"
    learns = False
    chunk_schemes = ()
    n_end_rows = 0
    end_names = "<start>", "<stop>"
    forbidden = None
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
        """Return shapes of the node table (rows: features, ends, intercept) and the pair table."""

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
        """Return the structure, or a copy with the inference that suits an estimator.

        `takes_relaxations`: it trains on relaxations, too; `needs_marginals`: as CRFs do.
        """
        return self

    def exactly(self) -> Graph | None:
        """Return a copy that decodes exactly, for when a relaxation finds no labelling; or None.

        Its :meth:`make_problem` raises a ValueError for samples that are too large.
        """
        return None

    # What it may define: weights

    def pair_tables(self, pair_weights: np.ndarray, n_classes: int) -> np.ndarray:
        """Return a view of pair weights, ([n_rows,] n_classes, n_classes): (label, next label)."""
        if pair_weights.size and pair_weights.shape[1] != n_classes**2:
            kind = type(self).__name__
            raise AttributeError(
                f"pair_weights_ of {kind} has rows of {pair_weights.shape[1]} weights, which are "
                f"not pairs of {n_classes} labels: {kind} must define pair_tables"
            )
        tables = pair_weights.reshape(len(pair_weights), n_classes, n_classes)
        return tables[0] if len(tables) == 1 else tables

    def edge_ends(self, samples: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the flat nodes at both ends of every edge, two int arrays; by default empty."""
        none = np.empty(0, dtype=np.int64)
        return none, none

    def pair_cone(self, classes: Any) -> np.ndarray | None:
        """Return (n_columns,) coefficients whose products with pair rows stay >= 0, or None.

        Training then keeps interactions attractive; a ValueError if these classes rule it out.
        """
        return None

    def with_rules(self, rules: Any) -> Graph:
        """Return a copy whose attribute ``rules`` has further `rules`; by default a TypeError."""
        raise TypeError(f"rules are for Chain: {type(self).__name__} heeds none")

    # What it may define: other forms of the problem

    def decoding(self, problem: Problem, weights: Any) -> Problem:
        """Return the argument of :func:`skstruct.core.oracles.max_oracle` that is decoded fastest.

        It may depend on the weights; by default it is the problem.
        """
        return problem

    def relaxation(self, problem: Problem) -> Problem:
        """Return the problem over the local polytope; by default the same, as without cycles."""
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

        `problem` is the result of :meth:`make_problem` for training, `allowed`, (n_nodes,
        n_classes) of uint8, the labels that each node may have (None: each has one). `all_states`
        and `all_transitions`: whether pairs of a feature and a label, and of two labels, that do
        not occur have weights. The result, a NamedTuple, has the ``problem``, the ``shapes`` of its
        weights, their ``places`` among all weights (-1 for padding), and the problem with upper
        bounds for Gram matrices (``bounding``); ``take`` and ``spread`` convert from and to all
        weights. None, the default, if the structure does not support it.
        """

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[Any, Any]:
        """Return random X (CSR if `sparse_X`) and y, for ``python -m skstruct compile``."""
        raise TypeError(f"{type(self).__name__} has no example(): its kernels compile in a fit")

    def factors(self, problem: Problem, samples: Any) -> Any:
        """Return nodes and edges, of :mod:`skstruct.core.factors`, for GDMMSSVM, or None."""
        return None

    # What it may define: labels

    def read_y(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Return the flat labels of all nodes, (n_nodes,); by default from label sequences."""
        return label_codes.read_sequence_labels(y, samples.offsets)

    def read_labelling(self, y: SamplesLike, samples: Any) -> np.ndarray:
        """Return flat labels of one labelling per sample; by default those of :meth:`read_y`."""
        return self.read_y(y, samples)

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[NamedTuple, np.ndarray]:
        """Pack X and y for fit: return samples and labels, and set the numbers of features."""
        samples = self.read_X(estimator, X, reset=True)
        return samples, self.read_y(y, samples)

    def find_classes(self, labels: np.ndarray, samples: Any) -> Any:
        """Return the sorted labels that occur in samples that count: ``classes_`` of the estimator.

        Structures that learn from labels do so here. A ValueError if there is only one class.
        """
        classes = np.unique(labels)
        if classes.size < 2:
            raise ValueError(
                f"needs at least two classes, but y has only one class: {classes.tolist()[0]!r}"
            )
        return classes

    def learn(self, codes: np.ndarray, offsets: np.ndarray, classes: Any) -> None:
        """Take from codes of training labels, -1 where unknown, what the structure depends on.

        Nothing by default. For shards it is called with each of them, if ``learns``, and adds up.
        """

    def encode(
        self, labels: np.ndarray, classes: Any, offsets: np.ndarray, unseen: int | None = None
    ) -> np.ndarray:
        """Return codes (n_nodes,) of int32; unknown labels get `unseen`, else raise an error."""
        return label_codes.encode(labels, classes, offsets, unseen=unseen)

    def is_labelling(self, codes: np.ndarray, samples: Any, classes: Any) -> np.ndarray:
        """Return a mask of the samples whose codes are a labelling, (n_samples,); default: all.

        For constraints that forbidden parts do not express. Fit raises an error for other samples;
        elsewhere their log-likelihood is -inf.
        """
        return np.ones(samples.offsets.size - 1, dtype=bool)

    def why_no_labelling(self, codes: np.ndarray, samples: Any, classes: Any, i: int) -> str:
        """Return what is wrong with sample i, which :meth:`is_labelling` excludes, for a message.

        It follows the words "sample i", as "has labels that ... does not have" does.
        """
        return f"has labels that {type(self).__name__} does not have"

    def hidden_states(self, classes: Any) -> HiddenStates:
        """Return the states of labels."""
        return hidden_states(self.states_per_label, classes)

    def refuse_states(self, what: str, kind: type = ValueError) -> None:
        """Raise an error, for whoever cannot take them, if labels may have several states."""
        given = self.states_per_label
        if any(n != 1 for n in given.values()) if isinstance(given, Mapping) else given != 1:
            raise kind(f"{what}: labels of {self} have several states")

    def states(self, classes: Any) -> Any:
        """Return the label of each state, (n_states,): the `classes` of problems."""
        return self.hidden_states(classes).widened(classes)

    def labels_per_node(self, classes: Any) -> int:
        """Return the number of labels that one node can have: by default all classes."""
        return len(classes)

    def read_allowed(self, allowed: Any, samples: Any, classes: Any) -> np.ndarray:
        """Return masks (n_nodes, n_states) of uint8; by default from one mask per sample."""
        return read_sample_masks(allowed, samples.offsets, self.labels_per_node(classes))

    # What it may define: names and terms, for tables of weights and explanations

    def pair_names(self, classes: Any) -> tuple[Any, Any]:
        """Return the names of rows and of columns of a table of ``pairwise_coef_``."""
        names = self.hidden_states(classes).names(classes)
        return names, names

    def pair_mask(self, classes: Any) -> np.ndarray | float:
        """Return -inf where two of these are never neighbours, else 0: by default `forbidden`."""
        if self.forbidden is None:
            return 0.0
        return transition_mask(self.forbidden, self.states(classes)).pairs

    def edge_type_names(self) -> list[str]:
        """Return the names of the types of edges, by default of none."""
        return []

    def edge_feature_names(self) -> list[str] | None:
        """Return the names of edge features that the structure has made; None if users give them.

        By default None.
        """
        return None

    def other_terms(self, estimator: BaseEstimator, codes: np.ndarray, samples: Any) -> Iterable:
        """Return terms of scores that are not of features of nodes, intercepts or edges.

        `codes` (n_nodes,) is a labelling of one packed sample; of items, a mask. Each term is a
        node, what it is next to or "", a name, value and weight. By default those of ``end_names``.
        """
        ends = zip((0, codes.size - 1), self.end_names, estimator.boundary_coef_, strict=False)
        return [(t, "", name, 1.0, row[codes[t]]) for t, name, row in ends if codes.size]

    # What it may define: weights of nodes and of classes

    def read_node_weight(self, node_weight: Any, samples: Any) -> np.ndarray:
        """Return weights (n_nodes,); by default from one array per sample, or one flat array."""
        return read_sequence_weights(node_weight, samples.offsets)

    def read_class_weight(
        self, class_weight: Any, classes: Any, codes: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights of nodes, (n_nodes or 1,), and those of classes, (n_kinds, n_states).

        `class_weight` is a mapping, "balanced" or None; `counts` (n_nodes,) are the weights of
        nodes for "balanced". Weights of nodes do not depend on their classes: by default 1. Those
        of classes are per kind of nodes, where kinds alternate: by default one kind.
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
        """Return results of nodes, (n_nodes, ...), as X is: by default one array per sample."""
        ends = samples.offsets.tolist()
        return object_array([flat[start:stop] for start, stop in pairwise(ends)])

    def wrap_marginals(self, table: np.ndarray, classes: Any, samples: Any) -> np.ndarray:
        """Return marginals of nodes, (n_nodes, n_classes), for each sample; as :meth:`wrap`."""
        return self.wrap(table, samples)

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
        """Return ``predict_top_k`` of sample i, from codes (k, ...), as :meth:`wrap` does."""
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

        `predicted` and `truth`, (n_nodes,) of int32, are codes, -1 for unseen labels; `weight`
        (n_samples,), or None, the weights of samples, not all 0 on those that have nodes; `counted`
        (n_nodes,) the mask of nodes that have a label, only given to a structure that
        ``takes_partial_labels`` where some have none.
        """
        of_nodes = None if weight is None else np.repeat(weight, samples.lengths)
        right = predicted == truth
        if counted is not None:
            right, of_nodes = right[counted], None if of_nodes is None else of_nodes[counted]
        return float(np.average(right, weights=of_nodes))

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: Any
    ) -> np.ndarray:
        """Return ``decision_function`` of tables or items from `scores` (n_samples, n_classes)."""
        return scores

    # What it may define: weights of an earlier fit that have the same meaning in a new one

    def kept_columns(
        self, previous: Any, classes: Any, previous_classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the earlier column of the same meaning for each column of the weight tables.

        `previous` is the structure of the earlier fit, of the same class; `classes` and
        `previous_classes` are the results of :meth:`find_classes`. Two integer arrays, (n_columns,)
        for the node table, -1 for new ones, and (n_pair_columns,), or None if unknown. By default
        columns are labels, matched by value, and pairs of labels.
        """
        node = kept_positions(np.asarray(previous_classes).tolist(), np.asarray(classes).tolist())
        return node, kept_pairs(node, len(previous_classes)).ravel()

    def kept_pair_rows(self, previous: Any, kept: np.ndarray, n_before: int) -> np.ndarray:
        """Return the earlier row of the same meaning for each row of the pair table.

        `kept` (n_edge_features,): the earlier place of each edge feature, or -1 (``[0]`` without
        edge features); `n_before`: their number then, 1 without any.
        """
        return kept
