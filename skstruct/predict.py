"""Passes over samples at fixed weights: likelihoods, decoding, marginals.

Each kernel takes a range of samples, so that several threads can share a pass; each thread brings
a problem with its own ``work`` (:func:`split_samples`, :func:`private_copy`).
"""

import math
from itertools import chain, pairwise
from threading import Event
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from .core.dispatch import inner_kernel, kernel
from .core.oracles import (
    edge_marginals,
    exp_oracle,
    max_oracle,
    potentials,
    top_k_oracle,
)
from .core.pieces import Pieces
from .core.weights import aligned
from .losses.log import negative_log_likelihood

# Below the largest number, so that sums of scores are finite, too.
_LARGEST_SCORE = 1e300
# Starting threads costs more than decoding this many nodes.
_NODES_A_THREAD = 2000


class Scratch(NamedTuple):
    """Buffers of one thread.

    Parameters
    ----------
    theta, mu : ndarray of shape (max_parts,)
        Part-space buffers.
    labels : ndarray of shape (max_nodes,) of int32
        One labelling.
    """

    theta: np.ndarray
    mu: np.ndarray
    labels: np.ndarray


def make_scratch(problem):
    """Buffers that fit the largest sample of `problem`.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.

    Returns
    -------
    Scratch
        The buffers.
    """
    n_parts = int(np.diff(problem.part_ptr).max(initial=0))
    n_nodes = int(np.diff(problem.label_ptr).max(initial=0))
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
    """
    return problem._replace(work=_copy(problem.work))


def _copy(scratch):
    """Arrays of the same shapes, however deeply their NamedTuples are nested; of zeros."""
    if isinstance(scratch, tuple):
        return getattr(scratch, "_make", tuple)(map(_copy, scratch))
    if scratch.dtype != np.float64:
        return np.zeros_like(scratch)
    return aligned(scratch.size).reshape(scratch.shape)


def split_samples(problem, n_pieces):
    """Bounds of `n_pieces` runs of samples with about the same number of nodes.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.
    n_pieces : int
        How many.

    Returns
    -------
    ndarray of shape (n_pieces + 1,) of int64
        The bounds.
    """
    ends = problem.label_ptr
    bounds = np.searchsorted(ends, np.linspace(0, ends[-1], n_pieces + 1))
    bounds[0], bounds[-1] = 0, ends.size - 1
    return bounds.astype(np.int64)


def over_samples(function, problem, n_jobs, cut=True):
    """Call ``function(problem, start, stop)`` on runs of samples, in threads.

    Parameters
    ----------
    function : callable
        Calls a kernel, which releases the GIL.
    problem : NamedTuple
        A structure's problem.
    n_jobs : int or None
        Threads, as in joblib.
    cut : bool
        Whether a thread's run may be cut, so that Ctrl-C comes through within about a second. False
        for a function that does so itself.

    Returns
    -------
    list
        The results in the order of the samples.
    """
    interrupted = Event()

    def run(part, start, stop):
        results = []
        for piece in Pieces().ranges(start, stop) if cut else [(start, stop)]:
            if interrupted.is_set():
                break
            results.append(function(part, *piece))
        return results

    most = max(1, problem.label_ptr[-1] // _NODES_A_THREAD)
    n_threads = int(min(effective_n_jobs(n_jobs), most, problem.label_ptr.size - 1))
    if n_threads <= 1:
        return run(problem, 0, problem.label_ptr.size - 1)
    bounds = split_samples(problem, n_threads)
    tasks = (delayed(run)(private_copy(problem), start, stop) for start, stop in pairwise(bounds))
    try:
        return list(chain.from_iterable(Parallel(n_jobs=n_threads, backend="threading")(tasks)))
    finally:
        interrupted.set()


@kernel
def log_likelihoods(problem, w, start, stop, scratch, out):
    """Write ``log p(y_i | x_i)`` of samples `start` to `stop` to ``out``.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with labels.
    w : Weights
        The weights.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    out : ndarray of shape (n_samples,)
        Receives the values.
    """
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        out[i] = -negative_log_likelihood(problem, i, scratch.theta, scratch.labels)[0]


@inner_kernel
def _overflows(problem, i, theta):
    """Whether a potential is NaN or beyond all scores; -inf is a label that is not allowed.

    Decoders compare: a label whose score is NaN would only drop out of sight.
    """
    bad = 0
    for q in range(problem.part_ptr[i + 1] - problem.part_ptr[i]):
        bad += 0 if theta[q] <= _LARGEST_SCORE else 1
    return bad > 0


@kernel
def decode(problem, w, start, stop, scratch, out):
    """Write the best labellings of samples `start` to `stop` to flat `out`.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.
    w : Weights
        The weights.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    out : ndarray of shape (n_nodes,) of int32
        Receives the labels of all nodes.

    Returns
    -------
    int
        The first sample i without an allowed labelling, -2 - i of one whose scores overflow, or -1.
    """
    for i in range(start, stop):
        first = problem.label_ptr[i]
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
        if not max_oracle(problem, i, scratch.theta, scratch.labels) > -math.inf:
            return i
        for t in range(problem.label_ptr[i + 1] - first):
            out[first + t] = scratch.labels[t]
    return -1


@kernel
def decode_top_k(problem, w, start, stop, scratch, values, labels, out):
    """Write the n best labellings of samples `start` to `stop`.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem, with enough ``work`` for k labellings.
    w : Weights
        The weights.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    values : ndarray of shape (n_samples, k)
        Receives the scores, -inf where there are fewer labellings.
    labels : ndarray of shape (k, max_nodes) of int32
        Scratch.
    out : ndarray of shape (k, n_nodes) of int32
        Receives the labellings.

    Returns
    -------
    int
        As :func:`decode`.
    """
    for i in range(start, stop):
        first = problem.label_ptr[i]
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
        top_k_oracle(problem, i, scratch.theta, values[i], labels)
        if not values[i, 0] > -math.inf:
            return i
        for q in range(values.shape[1]):
            for t in range(problem.label_ptr[i + 1] - first):
                out[q, first + t] = labels[q, t]
    return -1


@kernel
def node_marginals(problem, w, start, stop, scratch, out):
    """Write the node marginals of samples `start` to `stop` to the rows of `out`.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.
    w : Weights
        The weights.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    out : ndarray of shape (n_nodes, n_labels)
        Receives the marginals.

    Returns
    -------
    int
        As :func:`decode`.
    """
    n_labels = out.shape[1]
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
        if not exp_oracle(problem, i, scratch.theta, 1.0, scratch.mu) > -math.inf:
            return i
        first = problem.label_ptr[i]
        for t in range(problem.label_ptr[i + 1] - first):
            for k in range(n_labels):
                out[first + t, k] = scratch.mu[t * n_labels + k]
    return -1


@kernel
def pair_marginals(problem, w, start, stop, scratch, out, out_ptr):
    """Write the edge marginals of samples `start` to `stop` to flat `out`.

    Parameters
    ----------
    problem : NamedTuple
        A structure's problem.
    w : Weights
        The weights.
    start, stop : int
        The range of samples.
    scratch : Scratch
        Buffers.
    out : ndarray
        Receives the marginals, edge by edge.
    out_ptr : ndarray of shape (n_samples + 1,) of int64
        Where each sample begins in `out`.
    """
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        here = out[out_ptr[i] : out_ptr[i + 1]]
        edge_marginals(problem, i, scratch.theta, scratch.mu, here)
