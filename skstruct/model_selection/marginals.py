"""Marginals of models that were trained on other samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length
from sklearn.utils.parallel import Parallel, delayed

from ..core.sklearn_private import num_samples, safe_indexing
from ..core.typing import SamplesLike
from ..core.wrappers import split_model
from ..data.ragged import object_array
from ..data.values import join_values, read_keys
from ..metrics.calibration import require


def _one_fold(estimator, X, y, train, test):
    fitted = clone(estimator).fit(safe_indexing(X, train), safe_indexing(y, train))
    model, X = split_model(fitted, safe_indexing(X, test))
    require(model, "predict_marginals", "classes_")
    marginals, who = model.predict_marginals(X), f"predict_marginals of {type(model).__name__}"
    if not hasattr(marginals, "__len__") or len(marginals) != len(test):
        got = f"{len(marginals)}" if hasattr(marginals, "__len__") else repr(marginals)
        raise ValueError(f"{who} must return those of {len(test)} samples, got {got}")
    if not isinstance(marginals, np.ndarray):
        marginals = object_array(marginals)
    for i, part in zip(test, marginals, strict=True):
        if np.ndim(part) > 1 and part.shape[-1] != len(model.classes_):
            raise ValueError(
                f"{who}: sample {i} has {part.shape[-1]} columns, but there are "
                f"{len(model.classes_)} classes"
            )
    return model.classes_, marginals


def cross_val_marginals(
    estimator: BaseEstimator,
    X: SamplesLike,
    y: SamplesLike,
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Marginals of every sample, from models trained on other samples.

    scikit-learn's ``cross_val_predict`` cannot return them, because it encodes y as one label per
    sample. Read more in the :ref:`User Guide <calibration>`.

    Parameters
    ----------
    estimator : estimator
        With ``predict_marginals`` and ``classes_``; a Pipeline that ends in one works.
    X, y : list, object array, Series, RaggedArray or table
        Samples and their labels, as the estimator takes them: missing ones, too.
    cv : int, splitter or iterable, default=None
        As in scikit-learn; each sample must be in one test fold.
    groups : array-like of shape (n_samples,), default=None
        For splitters by group.
    n_jobs : int, default=None
        Folds in parallel.

    Returns
    -------
    marginals : ndarray
        As ``predict_marginals`` gives them: an object array of one (n_nodes, n_classes) array per
        sample, (height, width, n_classes) for images, of one number per candidate; for a table an
        array of shape (n_samples, n_classes), for label sets (n_samples, n_labels). A class missing
        from a training fold has probability 0.
    classes : ndarray of shape (n_classes,)
        ``classes_`` of the fitted estimators, all together.

    Raises
    ------
    ValueError
        If the test folds are not a partition of the samples, X and y differ in length, groups are
        missing or of several types, or the estimator's marginals are not those of its samples and
        classes.
    TypeError
        If the estimator has no marginals.

    See Also
    --------
    skstruct.SAGCRF : Conditional random fields, with probabilities.
    skstruct.inspection.MarginalsDisplay : Heat map of a sample's marginals.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.model_selection import cross_val_marginals
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> marginals, classes = cross_val_marginals(SAGCRF(tol=0.1), X, y, cv=3)
    >>> marginals[0].shape == (len(X[0]), len(classes))
    True
    """
    if y is None:
        raise ValueError("y must hold the labels of the samples in X, got None")
    check_consistent_length(X, y)
    if groups is not None:
        groups = read_keys(groups, "groups", "sample", "give each sample the name of its group")
    n = num_samples(y)
    splits = list(check_cv(cv).split(np.zeros(n), None, groups))
    order = np.concatenate([[], *(test for _, test in splits)])
    if not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError("cross_val_marginals needs test folds that are a partition of the samples")
    results = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(estimator, X, y, train, test) for train, test in splits
    )
    fitted = [known for known, _ in results]
    classes = np.unique(join_values(fitted, "y", "the classes of fold {}".format))
    out = [None] * n
    for (_, test), (known, marginals) in zip(splits, results, strict=True):
        same = np.array_equal(known, classes)  # always for label sets and items
        for i, part in zip(np.arange(n)[test], marginals, strict=True):
            out[i] = part
            if not same:
                out[i] = np.zeros((*part.shape[:-1], classes.size))
                out[i][..., np.searchsorted(classes, known)] = part
    is_one = all(marginals.dtype != object for _, marginals in results)
    return (np.stack(out) if is_one else object_array(out)), classes
