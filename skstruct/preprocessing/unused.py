"""Models without the features that they do not use."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .sequences import SequenceVectorizer


def drop_unused_features(model: Pipeline) -> Pipeline:
    """A copy of a fitted pipeline without the features whose weights are all 0.

    It predicts the same, and its file has neither their names nor their weights. After training
    with an L1 penalty (`l1_ratio`) these are most of the features.

    Parameters
    ----------
    model : Pipeline
        A :class:`SequenceVectorizer` and an estimator on sequences, both fitted.

    Returns
    -------
    Pipeline
        The copy; the model stays.

    Raises
    ------
    TypeError
        If the steps are others.
    ValueError
        If the vectorizer hashes.

    See Also
    --------
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.SAGCRF : Conditional random fields, with probabilities.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skstruct import SAGCRF
    >>> from skstruct.preprocessing import SequenceVectorizer, drop_unused_features
    >>> X, y = [[["w=a", "rare"], ["w=b"]], [["w=b"], ["w=a"]]], [["A", "B"], ["B", "A"]]
    >>> model = make_pipeline(SequenceVectorizer(), SAGCRF(l1_ratio=1.0, C=2.0)).fit(X, y)
    >>> small = drop_unused_features(model)
    >>> small[0].get_feature_names_out().tolist()
    ['w=a', 'w=b']
    >>> all((a == b).all() for a, b in zip(small.predict(X), model.predict(X), strict=True))
    True
    """
    if not isinstance(model, Pipeline) or len(model) != 2:
        raise TypeError("model must be a Pipeline of a SequenceVectorizer and an estimator")
    vectorizer, estimator = model[0], model[-1]
    if not isinstance(vectorizer, SequenceVectorizer) or not hasattr(estimator, "sparsify"):
        raise TypeError(
            "model must be a Pipeline of a SequenceVectorizer and an estimator with weights, got "
            f"{type(vectorizer).__name__} and {type(estimator).__name__}"
        )
    check_is_fitted(estimator)
    table: Any = estimator.node_weights_
    n = estimator.n_features_in_
    used = table[:n].any(axis=1)
    if not used.any():
        used[:1] = True  # a matrix has a column
    small, weights = copy(model), copy(estimator)
    weights.node_weights_ = np.ascontiguousarray(table[np.r_[used, np.full(len(table) - n, True)]])
    weights.n_features_in_ = int(used.sum())
    vectorizer = deepcopy(vectorizer).restrict(used)
    for name in ("_dual", "_stream"):  # of the weights that were
        vars(weights).pop(name, None)
    if "_feature_names" in vars(weights):
        weights._feature_names = vectorizer._names
    small.steps = [(model.steps[0][0], vectorizer), (model.steps[1][0], weights)]
    return small
