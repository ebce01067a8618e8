"""How structures read weights of classes and of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.node_weights import balanced_weights, given_weights, read_sequence_weights


class NodeWeights:
    """Mixin of structures: weights of nodes and of classes, as most structures take them."""

    has_node_weights = False

    def read_node_weight(self, node_weight: Any, samples: Any) -> np.ndarray:
        """Weights of nodes in training.

        Parameters
        ----------
        node_weight : object
            What the user gave: here one array a sample, a RaggedArray or one flat array.
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
        skstruct.losses.task.node_costs : What the task loss makes of them.

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
            What the user gave.
        classes : ndarray of shape (n_classes,)
            What occurs.
        codes : ndarray of shape (n_nodes,) of int32
            What :meth:`encode` returned.
        counts : ndarray of shape (n_nodes,)
            How often each node counts for "balanced".

        Returns
        -------
        factor : ndarray of shape (n_nodes or 1,)
            Weights that nodes have whatever their classes: here 1.
        odds : ndarray of shape (n_kinds, n_states)
            Weights of the classes of each kind of nodes, kinds following each other in turn: here
            there is one kind.

        Raises
        ------
        ValueError
            If a class is unknown, or a weight is negative or not finite.

        See Also
        --------
        skstruct.graphs.Graph.read_node_weight : Weights of nodes.
        skstruct.losses.task.node_costs : What the task loss makes of them.

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
            odds = np.ones((1, len(classes)))
        elif isinstance(class_weight, str):
            odds = balanced_weights(codes, counts, (1, len(classes)))
        else:
            odds = given_weights(class_weight, np.asarray(classes).tolist())[None]
        return np.ones(1), odds
