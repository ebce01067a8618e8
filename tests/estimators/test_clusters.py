"""Searches and fits where joblib's backend is a cluster."""

import sys

import numpy as np
import pytest
from joblib import parallel_config, register_parallel_backend
from joblib._parallel_backends import MultiprocessingBackend
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import GridSearchCV

from skstruct import SAGCRF, RaggedArray
from skstruct.core.parallel import effective_threads
from skstruct.testing import random_sequences


class _Cluster(MultiprocessingBackend):
    """Counts processors as the backend of Dask does: all, whatever is asked for."""

    def effective_n_jobs(self, n_jobs):
        return 1000


def test_threads_are_those_of_this_process():
    register_parallel_backend("1000 processors elsewhere", _Cluster)
    with parallel_config("1000 processors elsewhere"):
        assert effective_threads(None) == 1
        assert effective_threads(3) == 3
        assert 1 <= effective_threads(-1) < 1000
        with pytest.raises(ValueError, match="n_jobs == 0 has no meaning"):
            effective_threads(0)
    with parallel_config("threading", n_jobs=5):
        assert effective_threads(None) == 5
    assert effective_threads(None) == 1


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_packed_samples_say_how_large_they_are(make):
    X = RaggedArray(make(np.ones((5000, 3))), [0, 5000])
    assert 5000 * 3 * 8 <= sys.getsizeof(X) <= 5000 * 3 * 16


def _search(X, y):
    grid = {"C": [0.1, 1.0, 10.0]}
    model = SAGCRF(max_iter=3, tol=1.0, random_state=0)
    return GridSearchCV(model, grid, cv=2, n_jobs=2).fit(X, y)


def _same(one, other):
    assert_allclose(other.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"])
    assert_array_equal(one.best_estimator_.node_weights_, other.best_estimator_.node_weights_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_search_on_dask_is_one_at_home(dask_client):
    X, y = random_sequences(np.random.default_rng(0), n_samples=60)
    X, y = RaggedArray.from_list(X), RaggedArray.from_list(y)
    with parallel_config("dask"):
        found = _search(X, y)
    _same(_search(X, y), found)
