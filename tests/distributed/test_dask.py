"""Fits and predictions on a Dask cluster whose workers are killed."""

import signal

import numpy as np
import pytest

from skstruct import BCFWSSVM, SAGCRF
from skstruct.distributed.engine import DaskWorkers, choose_workers
from tests.helpers.mortal import mortal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of Unix"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.slow
@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize("kind", [SAGCRF, BCFWSSVM])
def test_killed_workers_change_no_bit(dask_client, shards, tmp_path, kind, deaths):
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


def test_predictions_are_those_of_this_process(dask_client, shards, monkeypatch):
    crf, addresses, submit = SAGCRF(tol=1e-2, n_jobs=1).fit(shards), set(), DaskWorkers.submit
    known = crf.predict(shards)

    def spy(self, slot, *call):
        addresses.add(slot[0])
        return submit(self, slot, *call)

    monkeypatch.setattr(DaskWorkers, "submit", spy)
    found = crf.set_params(n_jobs=None).predict(shards)
    assert addresses == set(dask_client.nthreads())
    assert all(map(np.array_equal, found, known))


def test_a_client_of_coroutines_is_refused():
    distributed = pytest.importorskip("distributed")

    class Asynchronous:
        asynchronous = True

    assert distributed
    with pytest.raises(ValueError, match="must not be asynchronous"):
        DaskWorkers(Asynchronous())
