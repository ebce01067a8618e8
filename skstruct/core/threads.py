"""Passes over samples in threads, and the scratch that each thread has of its own."""

from itertools import chain, pairwise
from threading import Event
from typing import NamedTuple

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from .offsets import longest_item
from .pieces import Pieces
from .weights import aligned

# Starting threads costs more than decoding this many nodes.
_NODES_A_THREAD = 2000


class Scratch(NamedTuple):
    """Buffers of one thread."""

    # (max_parts,): Part-space buffers.
    theta: np.ndarray
    mu: np.ndarray
    # (max_nodes,): One labelling.
    labels: np.ndarray


def make_scratch(problem):
    """Buffers that fit the largest sample of `problem`."""
    n_parts, n_nodes = longest_item(problem.part_ptr), longest_item(problem.label_ptr)
    return Scratch(np.empty(n_parts), np.empty(n_parts), np.empty(n_nodes, dtype=np.int32))


def private_copy(problem):
    """The same problem with ``work`` of its own, for one thread.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.

    Returns
    -------
    NamedTuple
        The copy; all other arrays are shared.

    See Also
    --------
    skstruct.losses.verbs.private_loss : The same of a loss.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.core.threads import private_copy
    >>> from skstruct.testing import training_problem
    >>> problem = training_problem(Chain(), [np.eye(3)], [["a", "b", "a"]])[0]
    >>> copy = private_copy(problem)
    >>> copy.labels is problem.labels, copy.work is problem.work
    (True, False)
    """
    return problem._replace(work=_copy(problem.work))


def _copy(scratch):
    """Arrays of the same shapes, however deeply their NamedTuples are nested; of zeros."""
    if isinstance(scratch, tuple):
        return getattr(scratch, "_make", tuple)(map(_copy, scratch))
    if scratch.dtype != np.float64:
        return np.zeros_like(scratch)
    return aligned(scratch.size).reshape(scratch.shape)


def _node_ends(problem):
    """Where the nodes of samples begin: for structures that choose among items, the items."""
    return getattr(problem, "item_ptr", problem.label_ptr)


def split_samples(problem, n_pieces):
    """Bounds of `n_pieces` runs of samples with about the same number of nodes."""
    ends = _node_ends(problem)
    bounds = np.searchsorted(ends, np.linspace(0, ends[-1], n_pieces + 1))
    bounds[0], bounds[-1] = 0, ends.size - 1
    return bounds.astype(np.int64)


def useful_threads(problem):
    """How many threads a pass over samples can use: by the data alone."""
    n_samples = problem.label_ptr.size - 1
    return max(int(min(_node_ends(problem)[-1] // _NODES_A_THREAD, n_samples)), 1)


def effective_threads(n_jobs):
    """How many threads `n_jobs` stands for here."""
    backend, _ = get_active_backend()
    # Joblib's own; Dask's and Ray's count the processors of a cluster, whatever is asked for.
    if type(backend).__module__ == "joblib._parallel_backends":
        return effective_n_jobs(n_jobs)
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning")
    return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)


def count_threads(problem, n_jobs):
    """How many threads a pass over samples is to have."""
    useful = useful_threads(problem)
    return min(effective_threads(n_jobs), useful) if useful > 1 else 1


def over_samples(function, problem, n_jobs):
    """Call ``function(problem, start, stop)`` on runs of samples, in threads.

    Runs are cut, so that Ctrl-C comes through within about a second.
    """
    n_samples = problem.label_ptr.size - 1
    n_threads = count_threads(problem, n_jobs)
    interrupted = Event() if n_threads > 1 else None

    def run(part, start, stop):
        results = []
        for piece in Pieces().ranges(start, stop):
            if interrupted is not None and interrupted.is_set():
                break
            results.append(function(part, *piece))
        return results

    if n_threads <= 1:
        return run(problem, 0, n_samples)
    bounds = split_samples(problem, n_threads)
    tasks = (delayed(run)(private_copy(problem), start, stop) for start, stop in pairwise(bounds))
    try:
        return list(chain.from_iterable(Parallel(n_jobs=n_threads, backend="threading")(tasks)))
    finally:
        interrupted.set()
