"""Fits and predictions on a Dask cluster whose workers are killed."""

import signal

import numpy as np
import pytest

from skstruct import BCFWSSVM, SAGCRF
from skstruct.datasets import pack_shards
from skstruct.solvers.engines.engine import choose_workers
from skstruct.solvers.engines.workers import DaskWorkers
from skstruct.testing import random_sequences
from tests.helpers.mortal import mortal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of Unix"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    # Only on the loopback interface.
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
    options |= {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, timeout="60s") as client,
    ):
        yield client


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    X, y = random_sequences(np.random.default_rng(7), n_samples=24, sparse_X=True)
    return pack_shards(X, y, tmp_path_factory.mktemp("shards") / "five", shard_size=5)


@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize("kind", [SAGCRF, BCFWSSVM])
def test_killed_workers_change_no_bit(client, shards, tmp_path, kind, deaths):
    options = {"C": 0.3, "tol": 1e-3}
    known, fits = kind(**options, random_state=0, n_jobs=1).fit(shards), []
    model = mortal(kind, tmp_path, deaths, fits)
    found = model(**options, random_state=0).fit(shards)
    assert type(choose_workers(None)).__name__ == "DaskWorkers"
    assert type(choose_workers(2)).__name__ == "Threads"
    assert len(list(tmp_path.iterdir())) == deaths
    ((workers, n_losses),) = fits
    assert workers == "DaskWorkers"
    assert n_losses >= 1
    assert np.array_equal(found.node_weights_, known.node_weights_)
    assert np.array_equal(found.pair_weights_, known.pair_weights_)


def test_predictions_are_those_of_this_process(client, shards, monkeypatch):
    crf, addresses, submit = SAGCRF(tol=1e-2, n_jobs=1).fit(shards), set(), DaskWorkers.submit
    known = crf.predict(shards)

    def spy(self, slot, *call):
        addresses.add(slot[0])
        return submit(self, slot, *call)

    monkeypatch.setattr(DaskWorkers, "submit", spy)
    found = crf.set_params(n_jobs=None).predict(shards)
    assert addresses == set(client.nthreads())
    assert all(map(np.array_equal, found, known))


def test_a_client_of_coroutines_is_refused():
    distributed = pytest.importorskip("distributed")

    class Asynchronous:
        asynchronous = True

    assert distributed
    with pytest.raises(ValueError, match="must not be asynchronous"):
        DaskWorkers(Asynchronous())
