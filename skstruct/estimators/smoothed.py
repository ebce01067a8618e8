"""SmoothedClassifier: any classifier of single nodes, and a structured model on its scores."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv

from ..core.sklearn_private import safe_indexing
from ..core.typing import SamplesLike
from ..data.labels import read_node_labels
from ..data.partial import split_partial
from ..graphs.base import Graph
from ..preprocessing.pernode import PerNode
from .crf import SAGCRF
from .svm_bcfw import BCFWSSVM
from .wrapper import Wrapper

# Zeros and ones of forests are no certainties (dates of digits: with 1e-6 a forest is
# worse smoothed than alone, with 0.03 as good as here).
_LEAST = 0.01
_ROUNDING = 1e-5


class _Scores(BaseEstimator):
    """A fitted classifier as a transformer of nodes: log-probabilities, or decision values."""

    def __init__(self, classifier):
        self.classifier = classifier

    def get_feature_names_out(self, input_features=None):
        """The classes of the columns; the second one where there is one column for two."""
        classes = self.classifier.classes_
        is_one = classes.size == 2 and _method(self.classifier) == "decision_function"
        return np.array([str(label) for label in (classes[1:] if is_one else classes)], object)

    def transform(self, nodes):
        """Scores of nodes, one column per class (one for two classes of decision values)."""
        name = _method(self.classifier)
        with config_context(transform_output="default"):
            given = getattr(self.classifier, name)(nodes)
        n_nodes = nodes.shape[0] if hasattr(nodes, "shape") else len(nodes)
        values = self._checked(name, given, n_nodes)
        return np.log(np.clip(values, _LEAST, None)) if name == "predict_proba" else values

    def _checked(self, name, given, n_nodes):
        """The scores that a classifier of whatever package returns, as a table."""
        who = f"classifier: {name} of {type(self.classifier).__name__}"
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{who} must return an array of numbers: {error}") from error
        shape = values.shape
        if name == "decision_function" and values.ndim == 1:
            values = values[:, None]
        n_classes, n_columns = len(getattr(self.classifier, "classes_", ())), values.shape[1:]
        widths = {n_classes}
        if name == "decision_function":  # of the second of two classes, or of pairs of classes
            widths = {1} if n_classes == 2 else {n_classes, n_classes * (n_classes - 1) // 2}
        fits = values.ndim == 2 and (not n_classes or n_columns[0] in widths)
        if not fits or len(values) != n_nodes:
            columns = f"{n_classes} classes" if n_classes else "some classes"
            raise ValueError(
                f"{who} returns the shape {shape} for {n_nodes} nodes and {columns}: it must have "
                "a row per node and a column per class"
            )
        wrong = ~np.isfinite(values)
        if name == "predict_proba":  # but for the rounding of float32
            wrong |= (values < -_ROUNDING) | (values > 1.0 + _ROUNDING)
        for row, column in np.argwhere(wrong)[:1]:
            wanted = "numbers from 0 to 1" if name == "predict_proba" else "finite numbers"
            raise ValueError(
                f"{who} returns {values[row, column]} in row {row}: it must return {wanted}"
            )
        return values


def _fitted(classifier, nodes, labels):
    """A clone of a classifier, fitted: of columns without names, as they are when it predicts."""
    with config_context(transform_output="default"):
        return clone(classifier).fit(nodes, labels)


def _check_columns(first, other, *widths):
    """Reject clones of a classifier whose columns are not of the same classes."""
    known = [list(getattr(part, "classes_", ())) for part in (first, other)]
    if known[0] != known[1] or len({*widths}) > 1:
        seen = known if known[0] != known[1] else [f"{width} columns" for width in widths]
        raise ValueError(
            f"classifier: {type(other).__name__} has other columns in another fold: {seen[0]} and "
            f"{seen[1]}; it must have a column for each class of y, in one order"
        )


def _method(classifier):
    """Name of the method that gives a classifier's scores."""
    for name in ("predict_proba", "decision_function"):
        if hasattr(classifier, name):
            return name
    raise TypeError(
        f"classifier: {type(classifier).__name__} has neither predict_proba nor decision_function"
    )


class SmoothedClassifier(Wrapper):
    """Classifier of individual nodes, smoothed by a structured model on its scores.

    The classifier is cross-fitted: a structured model (by default a CRF) is trained on its scores
    of held-out samples, and learns their reliability and the transitions between labels. Then the
    classifier is fitted to all samples. Read more in the :ref:`User Guide <smoothing>`.

    Parameters
    ----------
    classifier : classifier
        A classifier of nodes as rows of a table, with ``predict_proba`` or ``decision_function``.
    structure : {"auto", "chain"} or Graph, default="auto"
        The structure of a sample, as the parameter `graph` of estimators: "auto" is a chain.
    smoother : estimator, default=None
        The structured model; its `graph` is set to `structure`, unless this is "auto". By default
        ``SAGCRF()``, and ``BCFWSSVM(C=1e-3)`` on ``Grid(attractive=True)`` and other graphs of
        attractive interactions: with few or small ones choose a larger C on held-out samples.
    cv : int, splitter or iterable, default=5
        Folds of samples in which the classifier is cross-fitted: each sample is held out once. If
        there are fewer samples than folds, samples are cut into runs of nodes; with fewer groups,
        each group is a fold.

    Attributes
    ----------
    classifier_ : classifier
        Fitted to all nodes with labels.
    smoother_ : estimator
        The fitted structured model.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    skstruct.SAGCRF : Trains on the features.
    skstruct.decode : Decodes scores without training.
    sklearn.ensemble.StackingClassifier : The same idea without structure.

    Notes
    -----
    The classifier omits nodes without a label (None or NaN in y); a CRF sums over their labels.

    Examples
    --------
    A noisy signal with two states, each of which lasts for a while:

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skstruct import SmoothedClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat(rng.permutation([0, 1, 0, 1]), 40) for _ in range(20)]
    >>> X = [labels[:, None] + rng.normal(size=(160, 1)) for labels in y]
    >>> model = SmoothedClassifier(LogisticRegression()).fit(X[:10], y[:10])
    >>> alone = model.classifier_.score(np.concatenate(X[10:]), np.concatenate(y[10:]))
    >>> round(alone, 2), round(model.score(X[10:], y[10:]), 2)
    (0.67, 0.96)
    """

    _example = """>>> from sklearn.tree import DecisionTreeClassifier
        >>> from skstruct import SmoothedClassifier
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> model = SmoothedClassifier(DecisionTreeClassifier(), cv=2).fit(X, y)"""

    def __init__(
        self,
        classifier: Any,
        structure: Literal["auto", "chain"] | Graph = "auto",
        *,
        smoother: Any = None,
        cv: Any = 5,
    ) -> None:
        self.classifier = classifier
        self.structure = structure
        self.smoother = smoother
        self.cv = cv

    def _new_smoother(self):
        if self.smoother is not None:
            if not hasattr(self.smoother, "graph"):
                raise TypeError(f"smoother must be one such as SAGCRF(), got {self.smoother!r}")
            is_auto = isinstance(self.structure, str) and self.structure == "auto"
            graph = {} if is_auto else {"graph": self.structure}
            return clone(self.smoother).set_params(**graph)
        if getattr(self.structure, "attractive", False):  # images, by minimum cuts
            return BCFWSSVM(self.structure, C=1e-3, random_state=0)
        return SAGCRF(self.structure, random_state=0)

    def fit(self, X: SamplesLike, y: SamplesLike, groups: ArrayLike | None = None) -> Self:
        """Fit the classifier, cross-fitted and whole, and the structured model.

        Parameters
        ----------
        X : list of samples or RaggedArray
            Sequences of shape (n_nodes, n_features), images, or tuples (features, edges, ...).
        y : list of label arrays or RaggedArray
            One label per node; None or NaN where it is missing.
        groups : array-like of shape (n_samples,), default=None
            Samples of a group, such as one person, stay in one fold.

        Returns
        -------
        SmoothedClassifier
            The estimator itself.

        Raises
        ------
        TypeError
            If the classifier has no scores.
        ValueError
            If y does not have a label for each node, a label is in one fold only, `cv` does not
            hold out each sample once, or the classifier's scores are not one row per node and one
            column per class, of finite numbers (probabilities: from 0 to 1).
        """
        known = hasattr(self.classifier, "fit") and not isinstance(self.classifier, type)
        if not known or not is_classifier(self.classifier):
            raise TypeError(f"classifier must be a classifier, got {self.classifier!r}")
        if y is None:
            raise ValueError("y must hold a label for each node of X, got None")
        _method(self.classifier)
        wrapper = PerNode(_Scores(None))
        nodes, offsets, forms = wrapper._training_nodes(X)
        filled, partial = split_partial(y, is_table=False)
        labels = read_node_labels(filled, offsets)
        known = np.ones(len(labels), dtype=bool) if partial is None else ~partial.hidden
        labels, rows = labels[known], np.flatnonzero(known)
        scores, is_frozen = None, clone(self.classifier) is self.classifier
        for train, test in self._folds(offsets, groups):
            own = train[rows]
            lacking = np.setdiff1d(labels, labels[own]).tolist()
            if lacking and not is_frozen:  # a frozen one may know others
                raise ValueError(
                    f"y: only one fold has the label {lacking[0]!r}: choose another cv"
                )
            part = _fitted(self.classifier, safe_indexing(nodes, rows[own]), labels[own])
            found = _Scores(part).transform(safe_indexing(nodes, np.flatnonzero(test)))
            if scores is None:
                scores, first = np.zeros((known.size, found.shape[1])), part
            _check_columns(first, part, scores.shape[1], found.shape[1])
            scores[test] = found
        smoother = self._new_smoother().fit(wrapper._wrap(scores, offsets, forms), y)
        self.classifier_ = _fitted(self.classifier, safe_indexing(nodes, rows), labels)
        _check_columns(first, self.classifier_)
        wrapper._keep(_Scores(self.classifier_), nodes, X)
        self._scores, self.smoother_, self.classes_ = wrapper, smoother, smoother.classes_
        return self

    def _folds(self, offsets, groups):
        """Masks of the nodes outside and inside each fold."""
        n, cv = offsets.size - 1, 5 if self.cv is None else self.cv
        of_node, is_number = np.repeat(np.arange(n), np.diff(offsets)), isinstance(cv, Integral)
        if is_number and groups is not None:
            n_groups = np.unique(groups).size
            if n_groups < 2:
                raise ValueError("groups must be at least two, to hold one out: there is one")
            cv = GroupKFold(min(cv, n_groups))
        elif is_number and n < cv:  # runs of nodes
            n, of_node = offsets[-1], np.arange(offsets[-1])
        folds = [
            (np.isin(of_node, np.arange(n)[train]), np.isin(of_node, np.arange(n)[test]))
            for train, test in check_cv(cv).split(np.zeros(n), None, groups)
        ]
        often = sum((test.astype(int) for _, test in folds), np.zeros(offsets[-1], dtype=int))
        for node in np.flatnonzero(often != 1)[:1]:
            raise ValueError(
                f"cv must hold out each sample once, as KFold does: sample {of_node[node]} is held "
                f"out {often[node]} times (a generator can be used once only)"
            )
        return folds

    def _wrapped(self):
        return [self._scores], self.smoother_

    def _inside(self, name, X):
        return self.smoother_, self._scores.transform(X)

    def _offers(self, name):
        fitted = getattr(self, "smoother_", None)
        return hasattr(fitted or self._new_smoother(), name)
