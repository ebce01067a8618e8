"""Compile kernels into a cache that is never stale."""

import dis
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import llvmlite
import numba

from .cache import cache_on_disk, open_store
from .cache_key import PACKAGE, is_foreign, note_kernel
from .compiling import JIT_IS_DISABLED, hold_interrupts
from .numba_private import (
    address_of,
    call_inside,
    inner_options,
    known_options,
    outer_options,
    refuse_calls,
)

# NaN and inf keep their meaning: "nnan" and "ninf" are left out. Kernels allocate nothing: without
# numba's reference counts they compile faster, and a kernel that allocates does not compile.
FLAGS = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    **known_options({"_nrt": False, "no_cfunc_wrapper": True, "forceinline": False}),
}
INNER, _OUTER = inner_options(), outer_options()
# What compiled code depends on, in addition to its sources.
_VERSIONS = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__
_STORE = open_store(None if JIT_IS_DISABLED else _VERSIONS, PACKAGE, numba.config.CACHE_DIR)

_Function = TypeVar("_Function", bound=Callable)

_kernels = []


def cache_folders_read():
    """Folders that compiled kernels are looked up in: :func:`cache_folder` and those before it.

    Read more in the :ref:`User Guide <compile_guide>`.

    Returns
    -------
    list of pathlib.Path
        The folders, in order; root may have filled those that this user cannot write.

    See Also
    --------
    skstruct.core.jit.kernels.cache_folder : The one that is written to.

    Examples
    --------
    >>> from skstruct.core.jit.kernels import cache_folder, cache_folders_read
    >>> cache_folder() in [*cache_folders_read(), None]
    True
    """
    return [folder for folder, _ in _STORE.readable]


def cache_folder():
    """Folder of compiled kernels; its name has a hash of the versions that they are compiled with.

    Entries are named by a hash of their sources, so that a kernel never runs stale. The folder is
    the first that this user can write of ``NUMBA_CACHE_DIR``, the package's ``__pycache__``, the
    user's cache folder (``XDG_CACHE_HOME``, ``~/.cache``) and a private one among the temporary
    files. It can be deleted at any time. Read more in the :ref:`User Guide <compile_guide>`.

    Returns
    -------
    pathlib.Path or None
        The folder; None if there is no safe one or ``NUMBA_DISABLE_JIT`` is set: nothing is kept
        then. Set ``NUMBA_CACHE_DIR`` before the import to move it.

    See Also
    --------
    skstruct.core.jit.kernels.cache_folders_read : All that are looked up.
    skstruct.show_versions : Prints it with everything else that a report of a bug needs.

    Examples
    --------
    >>> from skstruct.core.jit.kernels import cache_folder
    >>> cache_folder().name.startswith("skstruct-")
    True
    """
    return _STORE.writable


def _compile(function, **options):
    """A numba dispatcher; with ``NUMBA_DISABLE_JIT`` the function itself."""
    note_kernel(function)
    return numba.njit(**FLAGS | options)(function)


def _outer(function, frozen=(), **options):
    """A numba dispatcher that stores compiled code on disk."""
    dispatcher = _compile(function, **_OUTER, **options)
    hold_interrupts(dispatcher, cache_on_disk(dispatcher, _STORE, frozen), frozen)
    return dispatcher


def refuse_raise(function):
    """Raise TypeError for a kernel that raises: solvers call kernels as C functions."""
    steps = dis.get_instructions(function) if is_foreign(function.__module__) else ()
    if any(step.opname == "RAISE_VARARGS" for step in steps):
        raise TypeError(
            f"{function.__qualname__} raises, which kernels that solvers call cannot: return -inf "
            "where a sample has no labelling, NaN where something overflows"
        )


def kernel(function: _Function) -> _Function:
    """Compile `function` lazily with the package's flags and cache it on disk.

    The function takes arrays, scalars and NamedTuples of these, and must not allocate. Under
    ``NUMBA_DISABLE_JIT`` it is returned itself. The cache key covers the modules of the kernel, of
    its problem classes and of other packages' kernels for these, and their imports; outside this
    package also the values of globals and closures, which Numba freezes. Kernels are compiled in
    every process if their source is not in a file (notebooks), if they take or close over
    functions, or if they read anything but numbers, strings, arrays and tuples of these.
    """
    if JIT_IS_DISABLED:
        return _compile(function)
    dispatcher = _outer(function)
    call_inside(dispatcher, _compile(function, **INNER))
    _kernels.append(dispatcher)
    return dispatcher


def inner_kernel(function: Callable | None = None, *, inline: bool = False) -> Any:
    """Compile a kernel that only other kernels call: part of its callers, without a cache entry.

    With `inline`, LLVM pastes the code, where a call would cost too much. Calls from Python fail.
    """
    if function is None:
        return partial(inner_kernel, inline=inline)
    refuse_raise(function)
    dispatcher = _compile(function, **INNER, **known_options({"forceinline": inline}))
    if not JIT_IS_DISABLED:
        call_inside(dispatcher, dispatcher)
        refuse_calls(dispatcher)
    return dispatcher


def address_for(function, signature, frozen):
    """Compile or load a function of a signature, for calls by its address."""
    options = known_options({"no_cpython_wrapper": True, "no_cfunc_wrapper": False})
    dispatcher = _outer(function, frozen, **options)
    dispatcher.compile(signature)
    return address_of(dispatcher, signature)


def compiled_kernels():
    """All kernels made by :func:`kernel` so far, for tests that count specialisations."""
    return list(_kernels)


def is_kernel(dispatcher):
    """Whether :func:`kernel` has made a dispatcher."""
    return any(dispatcher is known for known in reversed(_kernels))
