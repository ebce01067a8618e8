"""Marginals of models that have not seen the sample."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import SAGCRF, RaggedArray
from skstruct.model_selection import cross_val_marginals
from skstruct.preprocessing import PerNode

CRF = SAGCRF(tol=1e-2, random_state=0)


def test_marginals_are_those_of_the_other_folds(sequences):
    X, y = sequences
    groups = np.arange(len(X)) % 3
    marginals, classes = cross_val_marginals(CRF, X, y, cv=GroupKFold(3), groups=groups)
    for group in range(3):
        train, test = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        fitted = SAGCRF(tol=1e-2, random_state=0).fit([X[i] for i in train], [y[i] for i in train])
        np.testing.assert_array_equal(classes, fitted.classes_)
        for i, expected in zip(test, fitted.predict_marginals([X[i] for i in test]), strict=True):
            np.testing.assert_array_equal(marginals[i], expected)


def test_containers_and_pipelines_agree(sequences):
    X, y = sequences
    expected, _ = cross_val_marginals(CRF, X, y, cv=3)
    packed, _ = cross_val_marginals(
        CRF, RaggedArray.from_list(X), RaggedArray.from_list(y), cv=3, n_jobs=2
    )
    scaled, _ = cross_val_marginals(
        make_pipeline(PerNode(StandardScaler(with_mean=False, with_std=False)), CRF), X, y, cv=3
    )
    for a, b, c in zip(expected, packed, scaled, strict=True):
        # Not to the bit: workers run BLAS with another number of threads.
        np.testing.assert_allclose(a, b, rtol=1e-9)
        np.testing.assert_allclose(a, c, rtol=1e-9)


def test_unseen_class_has_probability_zero():
    X = [np.ones((2, 1)) * i for i in range(4)]
    y = [["a", "b"], ["b", "a"], ["a", "c"], ["a", "b"]]
    marginals, classes = cross_val_marginals(CRF, X, y, cv=4)
    assert classes.tolist() == ["a", "b", "c"]
    assert np.all(marginals[2][:, 2] == 0)
    np.testing.assert_allclose([m.sum(axis=1) for m in marginals], 1)


def test_folds_must_be_a_partition(sequences):
    with pytest.raises(ValueError, match="partition"):
        cross_val_marginals(CRF, *sequences, cv=ShuffleSplit(2, random_state=0))
