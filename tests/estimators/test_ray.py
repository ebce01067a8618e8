"""Fits, searches and lost workers on Ray: skipped where it is not installed."""

import gc

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, SAGCRF, RaggedArray
from skstruct.testing import random_sequences
from tests.helpers.mortal import mortal

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    register_ray()
    # Only on the loopback interface, and without a dashboard.
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    yield ray
    gc.collect()  # Ray's pools warn when they are
    ray.shutdown()


def _same(one, other):
    assert_array_equal(one.node_weights_, other.node_weights_)
    assert_array_equal(one.pair_weights_, other.pair_weights_)


def _search(X, y):
    model = SAGCRF(max_iter=3, tol=1.0, random_state=0)
    return GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2).fit(X, y)


def test_a_search_is_one_at_home(ray):
    X, y = random_sequences(np.random.default_rng(0), n_samples=60)
    X, y = RaggedArray.from_list(X), RaggedArray.from_list(y)
    with parallel_config("ray", n_jobs=2):
        found = _search(X, y)
    known = _search(X, y)
    scores = [search.cv_results_["mean_test_score"] for search in (found, known)]
    assert_array_equal(*scores)
    _same(found.best_estimator_, known.best_estimator_)


def test_neither_ray_nor_a_lost_worker_changes_a_bit(ray, shards, tmp_path):
    fits = []
    CRF = mortal(SAGCRF, tmp_path, 1, fits)
    known = SAGCRF(tol=1e-5, n_jobs=1).fit(shards)
    found = CRF(tol=1e-5).fit(shards)
    predicted = SAGCRF(tol=1e-5).fit(shards).predict(shards)
    assert fits[0][0] == "RayWorkers"
    assert len(list(tmp_path.iterdir())) == 1
    _same(found, known)
    assert_array_equal(np.concatenate(predicted), np.concatenate(known.predict(shards)))


def test_rounds_of_an_svm(ray, shards):
    known = BCFWSSVM(tol=1e-2, random_state=0, n_jobs=1).fit(shards)
    with parallel_config("ray", n_jobs=2):
        _same(BCFWSSVM(tol=1e-2, random_state=0).fit(shards), known)
