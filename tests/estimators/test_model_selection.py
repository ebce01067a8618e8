"""Marginals of models that have not seen the sample."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstruct import (
    BCFWSSVM,
    SAGCRF,
    Candidates,
    MultiLabel,
    RaggedArray,
    TemperatureScaling,
)
from skstruct.metrics import confidences
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


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="partition"):
        cross_val_marginals(CRF, *sequences, cv=[])


def _forms_of_unsure_labels(X, rng):
    """y in every form that fit takes, the first node without a label or with a set."""
    names = [rng.choice(["a", "b", "c"], len(x)).tolist() for x in X]
    codes = [["abc".index(label) for label in own] for own in names]
    first, rest = codes[0], codes[1:]
    return {
        "None": [[None, *names[0][1:]], *names[1:]],
        "set": [[{"a", "b"}, *names[0][1:]], *names[1:]],
        "NaN": [np.array([np.nan, *first[1:]]), *map(np.array, rest)],
        "masked": [np.ma.array([7, *first[1:]], mask=[True] + [False] * (len(first) - 1)), *rest],
        "NA": [pd.array([pd.NA, *first[1:]], dtype="Int64"), *rest],
    }


@pytest.mark.parametrize("form", ["None", "set", "NaN", "masked", "NA"])
def test_labels_are_read_as_fit_reads_them(form):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in rng.integers(3, 6, 12)]
    y = _forms_of_unsure_labels(X, rng)[form]
    marginals, classes = cross_val_marginals(CRF, X, y, cv=3)
    whole = clone(CRF).fit(X, y)
    np.testing.assert_array_equal(classes, whole.classes_)
    assert [own.shape for own in marginals] == [(len(x), 3) for x in X]
    correct, sure = confidences(whole, X, y)
    assert correct.size == sure.size == sum(map(len, X)) - 1
    assert TemperatureScaling(CRF, cv=3).fit(X, y).temperature_ > 0


def test_label_sets_follow_one_convention():
    """classes_ was a list, as of columns of many classes, but predict_proba one array."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = (X @ rng.normal(size=(3, 4)) > 0).astype(int)
    crf = SAGCRF(MultiLabel("full"), tol=0.1, random_state=0)
    alike = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    np.testing.assert_array_equal(clone(crf).fit(X, Y).classes_, alike.classes_)
    for model in (crf, BCFWSSVM(MultiLabel("tree"), tol=0.1, random_state=0)):
        found = cross_val_predict(model, X, Y, cv=3, method="decision_function")
        assert found.shape == alike.decision_function(X).shape
    found = cross_val_predict(crf, X, Y, cv=3, method="predict_proba")
    unsure = Y.astype(float)
    unsure[0, 0] = np.nan
    for labels in (Y, sparse.csr_array(Y), pd.DataFrame(Y), unsure):
        marginals, classes = cross_val_marginals(crf, X, labels, cv=KFold(3))
        assert marginals.shape == Y.shape
        assert classes.tolist() == [0, 1, 2, 3]
        if labels is not unsure:
            np.testing.assert_allclose(marginals, found)
    with pytest.raises(TypeError, match="label sets and items have one probability each"):
        confidences(clone(crf).fit(X, Y), X, Y)


def test_tables_and_candidates():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), [None, *"ab" * 5, "c"]  # one fold lacks "c"
    marginals, classes = cross_val_marginals(CRF, X, y, cv=3)
    assert marginals.shape == (12, 3)
    assert classes.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(marginals.sum(axis=1), 1)
    assert (marginals[8:, 2] == 0).all()
    sets = [rng.normal(size=(n, 2)) for n in (3, 4, 3, 5, 3, 4)]
    crf = SAGCRF(Candidates(), tol=0.1, random_state=0)
    marginals, _ = cross_val_marginals(crf, sets, [0, 2, 1, 4, 0, 1], cv=3)
    assert [own.shape for own in marginals] == [(len(x),) for x in sets]
    np.testing.assert_allclose([own.sum() for own in marginals], 1)
    with pytest.raises(TypeError, match="label sets and items have one probability each"):
        confidences(crf.fit(sets, [0, 2, 1, 4, 0, 1]), sets, [0, 2, 1, 4, 0, 1])


def test_what_has_no_marginals_or_no_labels_is_refused(sequences):
    X, y = sequences
    with pytest.raises(TypeError, match="BCFWSSVM has no predict_marginals"):
        cross_val_marginals(BCFWSSVM(tol=0.5, random_state=0), X, y, cv=3)
    with pytest.raises(ValueError, match="y must hold the labels"):
        cross_val_marginals(CRF, X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        cross_val_marginals(CRF, X, y[:-1])


class _Foreign(BaseEstimator):
    """A model of another package, whose marginals a function changes."""

    def __init__(self, change):
        self.change = change

    def fit(self, X, y):
        self.classes_ = np.unique(np.concatenate(y))
        return self

    def predict_marginals(self, X):
        return self.change([np.full((len(x), self.classes_.size), 0.3) for x in X])


def test_marginals_of_other_packages(sequences):
    X, y = sequences
    marginals, classes = cross_val_marginals(_Foreign(list), X, y, cv=3)
    assert [own.shape for own in marginals] == [(len(x), classes.size) for x in X]
    for change, message in (
        (lambda shares: shares[1:], r"_Foreign must return those of \d+ samples, got \d+"),
        (lambda shares: None, "got None"),
        (lambda shares: [own[:, :2] for own in shares], "sample 0 has 2 columns, but there are 3"),
    ):
        with pytest.raises(ValueError, match=message):
            cross_val_marginals(_Foreign(change), X, y, cv=3)


def test_confidences_warn_of_labels_that_fit_has_not_seen(sequences):
    X, y = sequences
    crf = clone(CRF).fit(X, y)
    with pytest.warns(UserWarning, match="labels that fit has not seen .* first in sample 1"):
        confidences(crf, X, [y[0], np.full(len(y[1]), "z"), *y[2:]])
    with pytest.raises(ValueError, match="sample 0"):
        confidences(crf, X, [y[0][1:], *y[1:]])
