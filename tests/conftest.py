"""Fixtures shared by all tests."""

import gc
import os
import re
import signal
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from skstruct.datasets import pack_shards
from skstruct.testing import random_sequences

# The workers of pytest-xdist share the cores: threads of BLAS on top of these wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
threadpool_limits(1, user_api="blas")

# Tests look at what commands print.
os.environ.setdefault("SKSTRUCT_QUIET", "1")

# In the background of a shell Ctrl-C is ignored, by children as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "skstruct",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# Other draws in every run: --hypothesis-profile=varied.
settings.register_profile("varied", settings.get_profile("skstruct"), derandomize=False)
settings.load_profile("skstruct")

# Most of the time goes to compiling, whose objects live: the collector looks at them less often.
gc.set_threshold(20_000, 20, 20)

# A process compiles what kernels of one structure share only once: files of like structures are
# next to each other, so that mostly one of pytest-xdist's workers runs them. First are long tests
# that share none: at the end one worker would wait for them. The short ones after them have two
# workers begin with graphs and with sequences, since each begins with half of all tests.
_ORDER = [
    r"graphs/test_structures|core/test_scratch",
    r"metrics/|map_inference/readers/test_(intension|re)|site/test_(bench|co|github|layout|repo|site)",
    r"map_inference/|inference/test_(max_flow|roof_dual|junction|n_best)",
    r"graphs/pairwise/|estimators/test_(graph|attractive)",
    r"graphs/test_(matching|boxes|candidates)|inference/test_(assignment|subwindow)|.*alignment|.*localisation",
    r"graphs/test_(multilabel|tree)|estimators/test_certificates",
]
# Processes that find on disk what tests have compiled, after these.
_LAST = r"core/test_kernels|estimators/test_tampering|map_inference/test_clock|site/test_examples"
_TESTS = Path(__file__).parent


def _place(item):
    path = item.path.relative_to(_TESTS).as_posix()
    found = [k for k, files in enumerate(_ORDER) if re.match(files, path)]
    return len(_ORDER) + 1 if re.match(_LAST, path) else min(found, default=len(_ORDER))


# Of the cases of a test that is marked `thinned` all but one in so many are slow.
_ONE_IN = 8


def _thin(items):
    seen = {}
    for item in items:
        if item.get_closest_marker("thinned") is not None:
            seen[item.function] = 1 + (case := seen.get(item.function, 0))
            if case % _ONE_IN:
                item.add_marker(pytest.mark.slow)


# What a contributor runs before each commit: data, messages and one estimator of each family.
_QUICK = (
    r"(cli|data|datasets|metrics|preprocessing|inspection)/|map_inference/readers/(?!test_judge)"
    r"|estimators/test_(messages|bad_input|crf|svm_bcfw|svm_casimir)\.|graphs/test_multilabel"
    r"|site/test_(repository|layout|github|bibliography|options|search|site)|test_(lite|pipeline)\."
)


def _mark_quick(items):
    for item in items:
        path = item.path.relative_to(_TESTS).as_posix()
        if re.match(_QUICK, path) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)


# Before pytest's own looks at markers.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    _thin(items)
    _mark_quick(items)
    items.sort(key=_place)
    if not numba.config.DISABLE_JIT:
        items[:] = [item for item in items if item.get_closest_marker("plain") is None]


def pytest_sessionfinish():
    # Pytest collects garbage five times at the end, nine seconds each with all that numba holds.
    gc.freeze()


_SHARED = Path(os.environ.get("SKSTRUCT_DATA", "/work/shared/data"))


@pytest.fixture(scope="session")
def shared_data():
    """Folder of the real data sets; tests that need it are skipped elsewhere."""
    if not _SHARED.is_dir():
        pytest.skip(f"no real data in {_SHARED} (set SKSTRUCT_DATA)")
    return _SHARED


@pytest.fixture
def sequences():
    """24 random dense sequences with labels "a", "b", "c"."""
    return random_sequences(np.random.default_rng(7), n_samples=24)


@pytest.fixture
def sparse_sequences():
    """The same with CSR features."""
    return random_sequences(np.random.default_rng(7), n_samples=24, sparse_X=True)


@pytest.fixture(scope="module")
def samples():
    """24 random CSR sequences, their labels and weights."""
    X, y = random_sequences(np.random.default_rng(7), n_samples=24, sparse_X=True)
    return X, y, np.random.default_rng(0).uniform(0.5, 2.0, 24)


@pytest.fixture(scope="module")
def shards(samples, tmp_path_factory):
    """The samples in five shards."""
    X, y, weight = samples
    folder = tmp_path_factory.mktemp("shards") / "five"
    return pack_shards(X, y, folder, shard_size=5, sample_weight=weight)


@pytest.fixture(scope="module")
def dask_client():
    """Two workers of Dask, on the loopback interface only."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
    options |= {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, timeout="60s") as client,
    ):
        yield client


@pytest.fixture
def no_window():
    """Pictures that are drawn in memory, and forgotten."""
    pytest.importorskip("matplotlib").use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
