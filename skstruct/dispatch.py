"""Compile kernels into a cache that is never stale, and dispatch generic verbs on a problem's type.

A solver is compiled once per problem type. It calls *verbs* (:mod:`skstruct.oracles`), plain
functions that state a contract. A graph registers a kernel per verb for its own problem class, as
with :func:`functools.singledispatch`::

    @generic
    def max_oracle(problem, i, theta, mu): "contract"

    @max_oracle.register(ChainProblem)
    @kernel
    def _(problem, i, theta, mu): ...

Numba picks the kernel while it types the solver, so a call costs nothing at run time and the
compiled solver is found again on disk in the next process.
"""

import hashlib
import inspect
import os
import tempfile
from functools import partial
from pathlib import Path

import numba
from numba import types
from numba.extending import overload

# NaN and inf keep their meaning: "nnan" and "ninf" are left out.
JIT = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}

# Kernels allocate nothing: without numba's reference counts they compile faster, and one that does
# allocate does not compile.
_FLAGS = {key: value for key, value in JIT.items() if key != "cache"} | {"_nrt": False}
_PACKAGE = Path(__file__).parent
_KERNEL_ROOMS = ("graphs", "inference", "solvers")
_KERNEL_FILES = ("dispatch.py", "oracles.py", "weights.py", "features.py", "gram.py")

_kernels = []
_foreign_sources = set()


def _kernel_sources():
    own = [_PACKAGE / name for name in _KERNEL_FILES]
    for room in _KERNEL_ROOMS:
        own.extend(sorted((_PACKAGE / room).rglob("*.py")))
    return own + sorted(_foreign_sources)


def _fingerprint():
    digest = hashlib.sha256(numba.__version__.encode())
    for path in _kernel_sources():
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _writable(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _cache_root():
    """First writable of: ``NUMBA_CACHE_DIR``, the package's ``__pycache__``, the user's cache."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    user = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    for folder in (_PACKAGE / "__pycache__", user / "skstruct"):
        if _writable(folder):
            return folder
    return Path(tempfile.gettempdir()) / "skstruct-cache"


def _enable_cache(dispatcher):
    # numba reads CACHE_DIR when a function's cache is set up, and only then; other packages keep
    # their own setting.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_CACHE_FOLDER)
    try:
        dispatcher.enable_caching()
    finally:
        numba.config.CACHE_DIR = before


_CACHE_ROOT = _cache_root()
_CACHE_FOLDER = _CACHE_ROOT / f"skstruct-{_fingerprint()}"


def cache_folder():
    """Folder of the compiled kernels; its name holds a hash of every kernel's source.

    Numba looks only at the file of the function that it loads, not at the files of the kernels
    inlined into it. With the hash in the folder's name, an edited or upgraded kernel can never run
    stale.

    Returns
    -------
    pathlib.Path
        The folder. Set ``NUMBA_CACHE_DIR`` before the import to move it.

    Examples
    --------
    >>> from skstruct.dispatch import cache_folder
    >>> cache_folder().name.startswith("skstruct-")
    True
    """
    return _CACHE_FOLDER


def kernel(function=None, *, inline=False):
    """Compile `function` lazily with the house's flags and cache it on disk.

    Parameters
    ----------
    function : callable
        A function of arrays, scalars and NamedTuples of these. It must not allocate.
    inline : bool
        Paste the body into the kernels that call it. For thin layers over heavy ones: LLVM
        optimises a heavy kernel again in every layer above it, which costs a second of compile
        time each.

    Returns
    -------
    numba.core.registry.CPUDispatcher
        The compiled function.

    Examples
    --------
    >>> from skstruct.dispatch import kernel
    >>> from skstruct.inference.viterbi import viterbi
    >>> type(viterbi).__name__
    'CPUDispatcher'
    """
    if function is None:
        return partial(kernel, inline=inline)
    how = "always" if inline else "never"
    dispatcher = numba.njit(inline=how, no_cfunc_wrapper=True, **_FLAGS)(function)
    _enable_cache(dispatcher)
    _kernels.append(dispatcher)
    return dispatcher


def inner_kernel(function=None, *, inline=False):
    """A kernel that only other kernels call.

    It has no wrapper for Python and no cache of its own (its callers hold its code), which saves a
    third of its compile time.

    Parameters
    ----------
    function : callable
        As for :func:`kernel`.
    inline : bool
        As for :func:`kernel`.

    Returns
    -------
    numba.core.registry.CPUDispatcher
        The compiled function; calling it from Python is an error.

    Examples
    --------
    >>> from skstruct.dispatch import inner_kernel
    >>> add_one = inner_kernel(lambda x: x + 1)
    """
    if function is None:
        return partial(inner_kernel, inline=inline)
    how = "always" if inline else "never"
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_FLAGS}
    return numba.njit(inline=how, **options)(function)


def compiled_kernels():
    """All kernels made by :func:`kernel` so far, for tests that count specialisations.

    Returns
    -------
    list of numba.core.registry.CPUDispatcher
        The kernels, in order of definition.

    Examples
    --------
    >>> from skstruct.dispatch import compiled_kernels
    >>> len(compiled_kernels()) > 0
    True
    """
    return list(_kernels)


def _note_foreign_source(dispatcher):
    """Key the cache on the file of a kernel that lives outside this package, too."""
    global _CACHE_FOLDER
    source = inspect.getsourcefile(dispatcher.py_func)
    if source is None or not Path(source).is_file():
        return
    source = Path(source).resolve()
    if source.is_relative_to(_PACKAGE.resolve()) or source in _foreign_sources:
        return
    _foreign_sources.add(source)
    _CACHE_FOLDER = _CACHE_ROOT / f"skstruct-{_fingerprint()}"
    for known in _kernels:
        _enable_cache(known)


def _instance_class(numba_type):
    return getattr(numba_type, "instance_class", None)


def generic(contract):
    """Make a verb that dispatches on the class of its first argument, a NamedTuple.

    Parameters
    ----------
    contract : callable
        A function whose signature and docstring state what every kernel of this verb does. Its
        body is never run.

    Returns
    -------
    callable
        The verb. ``verb.register(ProblemClass)`` decorates a kernel, ``verb.supports(cls)`` tells
        whether one is registered, ``verb.registry`` maps classes to kernels. Calling the verb
        works both from Python and inside a :func:`kernel`.

    Examples
    --------
    >>> from skstruct.oracles import max_oracle
    >>> from skstruct.graphs.chain import ChainProblem
    >>> max_oracle.supports(ChainProblem)
    True
    """
    name = contract.__name__
    names = tuple(inspect.signature(contract).parameters)
    registry = {}

    def find(cls):
        if cls in registry:
            return registry[cls]
        known = ", ".join(sorted(c.__name__ for c in registry)) or "none"
        raise TypeError(f"{name} is not available for {cls.__name__}; it is for: {known}")

    namespace = {"find": find}
    arguments = ", ".join(names)
    exec(
        f"def {name}({arguments}):\n    return find(type({names[0]}))({arguments})\n",
        namespace,
    )
    verb = namespace[name]
    verb.__doc__ = contract.__doc__
    verb.__module__ = contract.__module__
    verb.registry = registry
    verb.supports = lambda cls: cls in registry

    def register(cls):
        def add(dispatcher):
            own = tuple(inspect.signature(dispatcher.py_func).parameters)
            if own != names:
                raise TypeError(f"a kernel of {name} takes the arguments {names}, not {own}")
            registry[cls] = dispatcher
            _note_foreign_source(dispatcher)
            return dispatcher

        return add

    verb.register = register

    def choose(*args):
        cls = _instance_class(args[0])
        if cls is None or not isinstance(args[0], types.BaseNamedTuple):
            return None
        return find(cls).py_func

    namespace = {"choose": choose}
    exec(f"def typer({arguments}):\n    return choose({arguments})\n", namespace)
    # Python calls the registered kernel itself; what solvers call needs no wrapper for Python.
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_FLAGS}
    overload(verb, jit_options=options, inline="never")(namespace["typer"])
    return verb


def require(verb, problem, advice):
    """Raise in Python, before any compile, when `problem` has no kernel for `verb`.

    The message names the structure and what the verb gives in users' words, where the problem class
    has an attribute ``structure`` (and perhaps ``remedy``) and the verb an attribute ``gives``.

    Parameters
    ----------
    verb : callable
        A verb made by :func:`generic`.
    problem : NamedTuple
        The problem of a structure.
    advice : str
        What to use instead, for the error message.

    Raises
    ------
    TypeError
        If the structure does not register the verb.

    Examples
    --------
    >>> from skstruct.dispatch import require
    >>> from skstruct.oracles import exp_oracle
    >>> require(exp_oracle, (), "use an SSVM")
    Traceback (most recent call last):
        ...
    TypeError: exp_oracle is not available for tuple: it has no marginals; use an SSVM
    """
    if verb.supports(type(problem)):
        return
    structure = getattr(type(problem), "structure", type(problem).__name__)
    remedy = getattr(type(problem), "remedy", "")
    lack = f": it has no {verb.gives}" if hasattr(verb, "gives") else ""
    raise TypeError(f"{verb.__name__} is not available for {structure}{lack}; {advice}{remedy}")
