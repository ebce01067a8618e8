"""Checks that an estimator follows scikit-learn's conventions, on sequences."""

from __future__ import annotations

import pickle

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from ..core.typing import SamplesLike
from ..data.ragged import RaggedArray, object_array
from .structure import random_sequences


def check_structured_estimator(
    estimator: BaseEstimator,
    X: SamplesLike | None = None,
    y: SamplesLike | None = None,
    *,
    atol: float = 1e-5,
) -> None:
    """Check that an estimator keeps scikit-learn's contract on sequences.

    `estimator` is unfitted, with a tight ``tol`` (1e-12 for a SAGCRF), a ``max_iter`` that reaches
    it, and a ``random_state`` (None is taken for 0); X and y are random sequences by default. Fits
    that should reach one optimum agree up to `atol`. An AssertionError names the rule that is
    broken.

    Examples
    --------
    >>> from skstruct import SAGCRF, Chain
    >>> from skstruct.testing import check_structured_estimator
    >>> crf = SAGCRF(Chain(), tol=1e-12, max_iter=3000)
    >>> check_structured_estimator(crf)  # doctest: +SKIP
    """
    if estimator.get_params().get("random_state", 0) is None:
        estimator = clone(estimator).set_params(random_state=0)
    if X is None:
        X, y = random_sequences(np.random.default_rng(0), n_samples=24)
    first = clone(estimator)
    try:
        first.predict(X)
    except NotFittedError:
        pass
    else:
        raise AssertionError("predict before fit must raise NotFittedError")
    before = pickle.dumps((X, y))
    assert first.fit(X, y) is first, "fit must return the estimator"
    predicted = first.predict(X)
    assert pickle.dumps((X, y)) == before, "fit or predict changed its input"
    assert isinstance(predicted, np.ndarray), "predict must return an object array"
    attributes = sorted(vars(first))
    first.predict(X)
    assert sorted(vars(first)) == attributes, "predict must not add attributes"

    _assert_same_model(first, clone(estimator).fit(X, y), X, 0.0, "a second fit with one seed")
    _assert_same_model(first, pickle.loads(pickle.dumps(first)), X, 0.0, "a pickled copy")
    _check_containers(estimator, first, X, y)
    _check_weights(estimator, X, y, atol)
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = clone(estimator).fit([X[i] for i in order], [y[i] for i in order])
    _assert_same_model(first, shuffled, X, atol, "a fit on permuted samples")
    for i in (0, len(X) - 1):
        assert (first.predict([X[i]])[0] == predicted[i]).all(), "one sample, another prediction"
    assert first.predict([X[0][:0]])[0].shape == (0,), "an empty sequence gets no labels"
    assert 0.0 <= first.score(X, y) <= 1.0, "score must be a share"


def _assert_same_model(a, b, X, atol, what):
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=atol, err_msg=what)
    left, right = (np.concatenate(list(model.predict(X))) for model in (a, b))
    # Near ties may fall either way where the weights differ.
    assert (left != right).mean() <= min(2.0 * atol, 0.1), f"{what} predicts otherwise"


def _check_containers(estimator, first, X, y):
    """Lists, object arrays, packed, Fortran-ordered and read-only samples give one model."""
    packed, packed_y = RaggedArray.from_list(X), RaggedArray.from_list(y)
    frozen = [x.copy() for x in X]
    for x in frozen:
        x.setflags(write=False)
    forms = {
        "object arrays": (object_array(X), object_array(y)),
        "RaggedArray": (packed, packed_y),
        "tuples and lists of labels": (tuple(X), [list(labels) for labels in y]),
        "read-only samples": (frozen, y),
        "Fortran order": ([np.asfortranarray(x) for x in X], y),
    }
    for name, (X_form, y_form) in forms.items():
        _assert_same_model(first, clone(estimator).fit(X_form, y_form), X, 0.0, name)
        for left, right in zip(first.predict(X), first.predict(X_form), strict=True):
            assert (left == right).all(), f"predict on {name} differs"


def _check_weights(estimator, X, y, atol):
    """Integer weights equal repeated samples; samples of weight 0 leave no trace."""
    counts = np.arange(len(X)) % 3
    repeated = np.repeat(np.arange(len(X)), counts)
    weighted = clone(estimator).fit(X, y, sample_weight=counts)
    again = clone(estimator).fit([X[i] for i in repeated], [y[i] for i in repeated])
    _assert_same_model(weighted, again, X, atol, "integer sample weights")
