"""Facts for a bug report: versions of the dependencies, the machine, the compile cache."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import numba
from llvmlite import binding
from threadpoolctl import threadpool_info

from .. import __version__
from .jit.kernels import cache_folder, cache_folders_read

_DEPENDENCIES = "scikit-learn numpy scipy numba llvmlite joblib threadpoolctl pip".split()
_OPTIONAL = "pandas polars matplotlib skops rich torch".split()


def _installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _sections():
    yield (
        "System",
        {
            "python": sys.version.replace("\n", " "),
            "executable": sys.executable,
            "machine": platform.platform(),
            "cpu": binding.get_host_cpu_name(),
            "cores": os.cpu_count(),
        },
    )
    yield (
        "Packages",
        {"skstruct": __version__} | {name: _installed(name) for name in _DEPENDENCIES + _OPTIONAL},
    )
    prepared = [folder for folder in cache_folders_read() if folder != cache_folder()]
    yield (
        "Kernels",
        {
            "cache folder": cache_folder(),
            **({"read before it": ", ".join(map(str, prepared))} if prepared else {}),
            "jit": "disabled" if numba.config.DISABLE_JIT else "enabled",
            "numba threads": numba.config.NUMBA_NUM_THREADS,
            "threading layer": numba.config.THREADING_LAYER,
        },
    )
    pools = {
        f"{pool['user_api']} {i}": f"{pool['internal_api']} {pool['version']}, "
        f"{pool['num_threads']} threads"
        for i, pool in enumerate(threadpool_info())
    }
    if pools:
        yield "Thread pools", pools


def show_versions() -> None:
    """Print versions, machine and compile cache, for a bug report.

    Packages that are not installed are listed as None. Read more in the :ref:`User Guide
    <reproducibility_guide>`.

    See Also
    --------
    skstruct.core.jit.kernels.cache_folder : Where compiled kernels lie.

    Examples
    --------
    >>> import skstruct
    >>> skstruct.show_versions()  # doctest: +ELLIPSIS
    <BLANKLINE>
    System:
    ...
    """
    for title, facts in _sections():
        print(f"\n{title}:")
        width = max(map(len, facts))
        for name, fact in facts.items():
            print(f"{name:>{width}}: {fact}")
