"""Passes over samples at fixed weights: likelihoods, decoding, marginals.

Kernels return -1; i at sample i without a labelling, -2 - i where its potentials overflow.
"""

import math

from ..core.jit.kernels import inner_kernel, kernel
from ..core.jit.solver_kernel import solver_kernel
from ..core.oracles import (
    chunk_marginals,
    edge_marginals,
    entropy,
    exp_oracle,
    max_oracle,
    n_shared_parts,
    overflows,
    potentials,
    sample_oracle,
    top_k_oracle,
)
from ..losses.log import negative_log_likelihood


def decodes_exactly(problem, w):
    """Return whether the max oracle of a problem finds a best labelling at these weights."""
    exact_at = getattr(problem.space, "exact_at", None)
    is_exact = getattr(problem.space, "inference", "exact") == "exact"
    return is_exact and (exact_at is None or exact_at(problem.rows, w))


def why_relaxed(problem, so="predictions are good labellings, not always the best"):
    """The warning where inference on a problem is not exact, though on those of fit it was."""
    why = "fit was exact, but X has graphs for which that takes too long"
    if getattr(problem.space, "inference", "exact") == "exact":
        why = "at the model's weights interactions do not attract (edited, or rounded?)"
    return f"{problem.space.structure}: {why}; {so}"


@solver_kernel
def log_likelihoods(problem, w, start, stop, scratch, out):
    """Write ``log p(y_i | x_i)`` of samples `start` to `stop` to ``out``."""
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
        out[i] = -negative_log_likelihood(problem, i, scratch.theta, scratch.labels)[0]
    return -1


@inner_kernel(inline=True)
def _overflows(problem, i, theta):
    """Return whether a potential of sample i is NaN or too large."""
    return overflows(theta, problem.part_ptr[i + 1] - problem.part_ptr[i])


@solver_kernel
def overflowing(problem, w, start, stop, scratch):
    """Look for a sample among `start` to `stop` whose potentials overflow."""
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
    return -1


def decode(problem, w, start, stop, scratch, out):
    """Write the best labellings of samples `start` to `stop` to flat `out`."""
    n_shared = n_shared_parts(problem) if stop - start > 1 else 0
    return _decode(problem, w, start, stop, n_shared, scratch, out)


@solver_kernel
def _decode(problem, w, start, stop, n_shared, scratch, out):
    most = scratch.theta.shape[0]
    for i in range(start, stop):
        first, size = problem.label_ptr[i], problem.part_ptr[i + 1] - problem.part_ptr[i]
        # What samples share lies at the end, where the next one finds it.
        theta = scratch.theta[most - size :]
        own = size if i == start else size - n_shared
        potentials(problem, i, w, theta[:own])
        if overflows(theta, own):
            return -2 - i
        if not max_oracle(problem, i, theta, scratch.labels) > -math.inf:
            return i
        for t in range(problem.label_ptr[i + 1] - first):
            out[first + t] = scratch.labels[t]
    return -1


@solver_kernel
def decode_top_k(problem, w, start, stop, scratch, values, labels, out):
    """Write the n best labellings of samples `start` to `stop`."""
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


@solver_kernel
def node_marginals(problem, w, start, stop, scratch, out):
    """Write the node marginals of samples `start` to `stop` to the rows of `out`."""
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


@solver_kernel
def pair_marginals(problem, w, start, stop, scratch, out, out_ptr):
    """Write the edge marginals of samples `start` to `stop` to flat `out`."""
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
        here = out[out_ptr[i] : out_ptr[i + 1]]
        if not edge_marginals(problem, i, scratch.theta, scratch.mu, here) > -math.inf:
            return i
    return -1


@inner_kernel
def _find_chunks(rules, labels, out):
    """Write the chunks of a labelling to `out`; returns their number."""
    end, count, begin = rules.kind.shape[0], 0, -1
    for t in range(out.shape[0] + 1):
        a = labels[t - 1] if t > 0 else end
        b = labels[t] if t < out.shape[0] else end
        if begin >= 0 and rules.stays[a, b] > 0.0:
            continue
        if begin >= 0 and rules.ends[a, b] > 0.0:
            out[count, 0], out[count, 1], out[count, 2] = begin, t, rules.kind[a]
            count += 1
        begin = t if rules.misses[a, b] == 0.0 else -1
    return count


@kernel
def find_chunks(rules, label_ptr, labels, chunks, count):
    """Write the chunks of labellings to the rows of `chunks`, and how many each has to `count`."""
    for i in range(count.shape[0]):
        own = slice(label_ptr[i], label_ptr[i + 1])
        count[i] = _find_chunks(rules, labels[own], chunks[own])


@solver_kernel
def chunk_probabilities(problem, w, start, stop, scratch, rules, ptr, chunks, count, out):
    """Write the probabilities of the first ``count[i]`` of ``chunks[ptr[i]:ptr[i + 1]]``."""
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
        if count[i] == 0:
            continue
        theta, mu, own = scratch.theta, scratch.mu, chunks[ptr[i] : ptr[i] + count[i]]
        if not chunk_marginals(problem, i, theta, rules, own, mu, out[ptr[i] :]) > -math.inf:
            return i
    return -1


@solver_kernel
def draws(problem, w, start, stop, scratch, room, labels, uniforms, out):
    """Write labellings drawn for samples `start` to `stop` to the columns of `out`."""
    theta, mu, n_draws = scratch.theta, scratch.mu, out.shape[0]
    for i in range(start, stop):
        first, last = problem.label_ptr[i], problem.label_ptr[i + 1]
        potentials(problem, i, w, theta)
        if _overflows(problem, i, theta):
            return -2 - i
        own = labels[: n_draws * (last - first)].reshape((n_draws, last - first))
        if not sample_oracle(problem, i, theta, mu, room, uniforms[first:last], own) > -math.inf:
            return i
        for d in range(n_draws):
            for t in range(last - first):
                out[d, first + t] = own[d, t]
    return -1


@solver_kernel
def entropies(problem, w, start, stop, scratch, room, out):
    """Write the entropies of samples `start` to `stop` to `out`."""
    for i in range(start, stop):
        potentials(problem, i, w, scratch.theta)
        if _overflows(problem, i, scratch.theta):
            return -2 - i
        out[i] = entropy(problem, i, scratch.theta, scratch.mu, room)
        if not out[i] >= 0.0:
            return i
    return -1
