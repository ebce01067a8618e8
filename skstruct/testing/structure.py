"""Every operation of a structure against an enumeration of all labellings."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse
from scipy.optimize import nnls
from scipy.special import logsumexp
from sklearn.base import BaseEstimator

from ..core import oracles
from ..core.jit.solver_kernel import solver_kernel
from ..core.problem import is_memory, require_problem, require_room, tree_items
from ..core.proximal import elastic_net, rest_potentials, set_at_rest
from ..core.typing import LossLike, RandomStateLike, SamplesLike
from ..core.weights import Weights, flatten, lazy_weights, zero_weights
from ..data.packing import check_pointers
from ..graphs.base import Graph
from ..spaces.n_best import max_marginals_by_maxima, top_k_by_max_marginals

# Brute-force references and random data, readable rather than fast.


def all_labellings(n_nodes: int, n_labels: int) -> np.ndarray:
    """Every labelling of `n_nodes` nodes in lexicographic order, (n_labels ** n_nodes, n_nodes)."""
    labels = list(itertools.product(range(n_labels), repeat=n_nodes))
    return np.array(labels, dtype=np.int32).reshape(n_labels**n_nodes, n_nodes)


def chain_scores(unary: np.ndarray, transitions: np.ndarray, labellings: np.ndarray) -> np.ndarray:
    """Scores (n,) of labellings (n, n_nodes) of a chain, added up term by term.

    `unary` is of shape (n_nodes, n_labels), `transitions` (1 or n_nodes - 1, n_labels, n_labels).
    """
    total = np.zeros(len(labellings))
    for t in range(unary.shape[0]):
        total += unary[t, labellings[:, t]]
        if t > 0:
            table = transitions[0 if transitions.shape[0] == 1 else t - 1]
            total += table[labellings[:, t - 1], labellings[:, t]]
    return total


def brute_force_marginals(scores: np.ndarray, indicators: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-partition and part marginals (n_parts,) from the scores of all labellings.

    `scores` is (n,), -inf for a forbidden labelling; `indicators` (n, n_parts), ``mu(y)`` of each.
    """
    log_z = float(logsumexp(scores))
    return log_z, np.exp(scores - log_z) @ indicators


def random_sequences(
    rng: np.random.Generator,
    n_samples: int = 20,
    n_features: int = 5,
    n_labels: int = 3,
    max_length: int = 6,
    sparse_X: bool = False,
) -> tuple[list, list[np.ndarray]]:
    """Random sequences X, with labels y ("a", "b", ...) that depend on their features.

    Lists of ndarrays (n_nodes, n_features), CSR if `sparse_X`, and (n_nodes,), of lengths 1 to
    `max_length`; all labels occur if there is room. `rng` is a NumPy generator.
    """
    names = np.array([chr(ord("a") + k) for k in range(n_labels)])
    lengths = rng.integers(1, max_length + 1, size=n_samples)
    teacher = rng.normal(size=(n_features, n_labels))
    X, y = [], []
    for length in lengths:
        x = rng.normal(size=(length, n_features)) * (rng.random((length, n_features)) < 0.7)
        codes = (x @ teacher + rng.gumbel(size=(length, n_labels))).argmax(axis=1)
        X.append(sparse.csr_matrix(x) if sparse_X else x)
        y.append(names[codes])
    first = np.concatenate(y)
    for k in range(min(n_labels, first.size)):  # every class occurs
        if names[k] not in first:
            position = int(rng.integers(n_samples))
            y[position][0] = names[k]
            first = np.concatenate(y)
    return X, y


def _dense_map(problem, i, n_parts, weights):
    """The matrix ``A_i`` and its offset (-inf on forbidden parts), column by column."""
    offset = np.empty(n_parts)
    oracles.potentials(problem, i, weights, offset)
    columns = []
    for table in weights.tables:
        flat = table.reshape(-1)
        for q in range(flat.size):
            flat[q] = 1.0
            theta = np.empty(n_parts)
            oracles.potentials(problem, i, weights, theta)
            flat[q] = 0.0
            columns.append(np.where(np.isfinite(offset), theta, 0.0))
    return np.array(columns).T, offset


def check_structure(
    graph: Graph,
    X: SamplesLike,
    y: SamplesLike,
    *,
    fit_intercept: bool = True,
    loss: LossLike = "hamming",
    labellings: Iterable[Sequence[int]] | None = None,
    random_state: RandomStateLike = 0,
) -> None:
    """Check every operation of a structure against enumeration on small samples.

    An AssertionError names the sample, the operation that breaks its contract, and a labelling.

    Parameters
    ----------
    graph : Graph
        The structure.
    X, y : object
        Samples with few labellings each (at most about 3,000), as ``fit`` takes them.
    fit_intercept : bool
        Whether there is a constant feature.
    loss : object
        Task loss, see :func:`skstruct.losses.task.cost_matrix`.
    labellings : iterable of sequences of int, default=None
        The labellings, as codes of labels; a sample has those with its number of nodes. By default
        every node has any label, except for forbidden parts and what the structure's
        ``is_labelling`` excludes. Required if the structure excludes labellings in another way.
    random_state : int
        Draws weights and residuals.

    Raises
    ------
    AssertionError
        Names the sample, the operation that breaks its contract, and a labelling if it has one.
    ValueError
        If `labellings` has codes of labels that do not occur in y, or samples do not begin where
        they can.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.testing import check_structure, random_sequences
    >>> check_structure(Chain(), *random_sequences(np.random.default_rng(0), n_samples=3))
    """
    rng = np.random.default_rng(random_state)
    problem, samples, shapes, n_states = training_problem(
        graph, X, y, fit_intercept=fit_intercept, loss=loss
    )
    require_problem(problem, graph)
    _check_registered(problem)
    check_pointers(problem, samples.offsets.size - 1, samples.offsets[-1])
    weights = Weights(*(rng.normal(size=shape) for shape in shapes))
    ends = np.stack(graph.edge_ends(samples), axis=1)
    known, hint = None if labellings is None else [tuple(codes) for codes in labellings], ""
    selects = known is None and type(graph).is_labelling is not Graph.is_labelling
    if selects:
        classes = graph.find_classes(graph.read_training(FeatureCounts(), X, y)[1], samples)
    elif known is None:
        hint = "\nIf the structure has only some labellings, pass them as labellings=."
    for i, first in enumerate(samples.offsets[:-1]):
        edges = ends[(ends[:, 0] >= first) & (ends[:, 0] < samples.offsets[i + 1])] - first
        here = _labellings(int(np.diff(problem.label_ptr)[i]), n_states, known)
        if selects:
            one = samples.take(np.arange(samples.lengths.size) == i)
            here = here[[graph.is_labelling(codes, one, classes).all() for codes in here]]
        try:
            theta = _check_linear_map(problem, i, shapes, weights, rng)
            _check_oracles(problem, i, theta, n_states, edges, here)
        except AssertionError as error:
            raise AssertionError(f"sample {i}: {str(error).strip()}{hint}") from error


def training_problem(
    graph: Graph,
    X: SamplesLike,
    y: SamplesLike,
    *,
    fit_intercept: bool = True,
    loss: LossLike = "hamming",
) -> tuple:
    """Return the problem that ``fit`` builds from X and y, with room for the 4,000 best labellings.

    Also the packed samples, the shapes of the weight tables, and the number of values of a node.
    """
    holder = FeatureCounts()
    samples, labels = graph.read_training(holder, X, y)
    classes = graph.find_classes(labels, samples)
    codes = graph.encode(labels, classes, samples.offsets)
    graph.learn(codes, samples.offsets, classes)
    _check_inputs(graph, holder, samples, codes, classes)
    problem = graph.make_problem(
        samples, classes, fit_intercept, codes=codes, loss=loss, n_best=4000
    )
    shapes = graph.weight_shapes(samples, len(classes), fit_intercept)
    return problem, samples, shapes, graph.labels_per_node(classes)


class FeatureCounts(BaseEstimator):
    """Stands in for an estimator while X is read."""


def _check_inputs(graph, holder, samples, codes, classes):
    """Packed samples keep the contract of :class:`skstruct.graphs.base.Graph`."""
    n, offsets = samples.offsets.size - 1, samples.offsets
    assert offsets.dtype == np.int64, "offsets of packed samples must be int64"
    np.testing.assert_array_equal(samples.lengths, np.diff(offsets), "lengths and offsets")
    assert samples.n_edges.shape == (n,), "n_edges must have one number a sample"
    first, second = graph.edge_ends(samples)
    owner = np.repeat(np.arange(n), samples.n_edges)
    assert first.size == second.size == owner.size, "edge_ends and n_edges disagree"
    for end in (first, second):
        assert ((end >= offsets[owner]) & (end < offsets[owner + 1])).all(), "edge_ends: its sample"
    allowed = np.asarray(graph.is_labelling(codes, samples, classes))
    assert allowed.shape == (n,), "is_labelling must have one answer a sample"
    assert allowed.all(), "is_labelling: y has samples that are none"
    keep = np.arange(n) % 2 == 0
    kept = samples.take(keep)
    for name in ("lengths", "n_edges"):
        expected = getattr(samples, name)[keep]
        np.testing.assert_array_equal(getattr(kept, name), expected, f"take: {name}")
        whole = getattr(samples.without_empty(), name)
        np.testing.assert_array_equal(whole, getattr(samples, name), f"without_empty: {name}")
    codes_kept = codes[np.repeat(keep, samples.lengths)]
    for one, other in zip(
        graph.wrap(codes, samples)[keep], graph.wrap(codes_kept, kept), strict=True
    ):
        np.testing.assert_array_equal(one, other, "wrap and take disagree")
    nothing = graph.no_samples(holder)
    assert nothing.offsets.tolist() == [0], "no_samples has samples"
    assert len(graph.wrap(codes[:0], nothing)) == 0, "wrap makes samples of nothing"
    shapes = [graph.weight_shapes(some, len(classes), True) for some in (nothing, samples)]
    assert shapes[0] == shapes[1], "no_samples: other weights than those of samples"
    again = graph.encode(graph.decode(codes, classes), classes, offsets)
    np.testing.assert_array_equal(again, codes, "decode is not the inverse of encode")


def _check_linear_map(problem, i, shapes, weights, rng):
    """Potentials, accumulate and gram belong to one matrix A_i, for plain and lazy weights."""
    n_parts = int(problem.part_ptr[i + 1] - problem.part_ptr[i])
    room = np.full(9 * n_parts + 99, 0.5)
    oracles.potentials(problem, i, weights, room)
    assert (room[n_parts:] == 0.5).all(), "potentials, or forbid, writes beyond the sample's parts"
    A, offset = _dense_map(problem, i, n_parts, zero_weights(shapes))
    flat = np.concatenate([table.ravel() for table in weights.tables])
    expected = np.where(np.isfinite(offset), A @ flat, -np.inf)
    lazy = lazy_weights(weights)
    lazy.scale[:] = 0.5, -0.25
    for table, plain in zip(lazy.tables, weights.tables, strict=True):
        half = table.shape[1] // 2
        table[:, half : half + plain.shape[1]] = rng.normal(size=plain.shape)
        value = (plain + 0.25 * table[:, half : half + plain.shape[1]]) / 0.5
        table[:, : plain.shape[1]] = value
    theta = np.empty(n_parts)
    for w in (weights, lazy):
        oracles.potentials(problem, i, w, theta)
        np.testing.assert_allclose(theta, expected, rtol=1e-9, atol=1e-9, err_msg="potentials")

    _check_rest(problem, i, lazy, theta)
    r = np.where(np.isfinite(offset), rng.normal(size=n_parts), 0.0)
    gradient = zero_weights(shapes)
    oracles.accumulate(problem, i, r, (2.0, 0.0), gradient)
    got = flatten(gradient)
    np.testing.assert_allclose(got, 2.0 * A.T @ r, rtol=1e-9, atol=1e-9, err_msg="accumulate")
    if oracles.adds_by_columns(problem):
        shared = zero_weights(shapes)
        for k in range(3):
            share = np.array([k, 3], dtype=np.int64)
            oracles.accumulate(problem, i, r, (2.0, 0.0), shared._replace(share=share))
        message = "accumulate: not by add_outer alone, as adds_by_columns says"
        np.testing.assert_array_equal(flatten(shared), got, message)
    answer = np.empty(n_parts)
    oracles.gram(problem, i, r, answer)
    finite = np.isfinite(offset)
    full = A @ (A.T @ r)
    np.testing.assert_allclose(answer[finite], full[finite], rtol=1e-5, atol=1e-5, err_msg="gram")
    oracles.potentials(problem, i, weights, theta)
    return theta


def _check_rest(problem, i, w, theta):
    """Potentials with weights at rest are those of such weights."""
    w.scale[:] = 1.0, 0.0
    for table in w.tables:
        table[:, table.shape[1] // 2 :] += 0.3  # all rows move
    there = w._replace(node=w.node.copy(), pair=w.pair.copy())
    penalty = elastic_net(w, 0.1, 0.5)
    penalty.node[:] = np.linspace(1.0, 2.0, w.node.shape[0])
    set_at_rest(there, penalty)
    oracles.potentials(problem, i, there, theta)
    expected = theta.copy()
    rest_potentials(problem, i, w, penalty, theta)
    oracles.forbid(problem, i, theta)
    np.testing.assert_allclose(theta, expected, rtol=1e-9, atol=1e-9, err_msg="rest_potentials")


_NEEDED = [
    oracles.potentials,
    oracles.accumulate,
    oracles.gram,
    oracles.truth,
    oracles.add_indicator,
    oracles.score,
    oracles.task_loss,
    oracles.max_oracle,
]


def _check_registered(problem):
    """The operations are there that no structure can do without."""
    missing = {part: [] for part in problem.parts}
    for verb in _NEEDED:
        if not verb.supports(problem):
            missing[verb.part or "space"].append(verb.__name__)
    if not oracles.potentials.supports(problem.rows):
        missing["rows"].append("potentials")
    if not oracles.augment.supports(problem) and not oracles.has_own_loss(problem):
        missing["target"].append("augment, or its space loss_augmented_max if not linear in parts")
    missing["space"] += _lacks_for_top_k(problem)
    lacks = [
        f"{type(getattr(problem, part)).__name__} does not register {'; '.join(names)}"
        for part, names in missing.items()
        if names
    ]
    assert not lacks, "\n".join(lacks)


def _lacks_for_top_k(problem):
    """Yield what :func:`top_k_by_max_marginals` requires and the problem lacks, if registered."""
    kind, registry = type(problem.space), oracles.top_k_oracle.registry
    if next((registry[c] for c in kind.__mro__ if c in registry), None) is top_k_by_max_marginals:
        for verb in (oracles.max_marginals, oracles.count_states):
            if not verb.supports(problem):
                yield verb.__name__
        if not hasattr(problem.space.work, "n_best"):
            yield "n_best_scratch as work.n_best"


def _call(verb, problem, i, theta, *rest, name=None):
    """The value of an operation, which leaves `theta` and all but scratch as they are."""
    given, before, name = theta.copy(), _data(problem), name or verb.__name__
    kept = [array.copy() for array in before.values()]
    value = verb(problem, i, given, *rest)
    np.testing.assert_array_equal(given, theta, err_msg=f"{name} writes to theta")
    for (field, array), copy in zip(before.items(), kept, strict=True):
        np.testing.assert_array_equal(array, copy, f"{name} writes to {field}: scratch is in work")
    return value


def _data(problem):
    """Arrays of the space by name, but for scratch and memory."""
    leaves = tree_items(problem.space._replace(work=()), "space", is_memory)
    return {name: leaf for name, leaf in leaves if isinstance(leaf, np.ndarray)}


def _slope(verb, problem, i, theta, ahead, step, *rest):
    """Change of an operation's value in a direction, by differences."""
    high, low = (_call(verb, problem, i, theta + s * ahead, *rest) for s in (step, -step))
    return (high - low) / (2 * step)


def _row_of(labels, labellings, name):
    """Return the index of the labelling that the operation `name` wrote."""
    rows = np.flatnonzero((labellings == labels).all(axis=1))
    assert rows.size == 1, f"{name} writes the labels {labels.tolist()}, which are none"
    return rows[0]


def _agree(value, score, name):
    """An operation returns the score of the labels that it writes."""
    said = f"{name} returns {value:.6g}, but the labels that it writes score {score:.6g}"
    _close(value, score, said)


def _close(got, expected, what):
    if np.isnan(got).any():
        what += ": NaN, such as -inf - -inf; a potential of -inf forbids a label of a node"
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=what)


def _labellings(n_nodes, n_states, known):
    if known is None:
        return all_labellings(n_nodes, n_states)
    here = [codes for codes in dict.fromkeys(known) if len(codes) == n_nodes]
    labellings = np.array(here, dtype=np.int32).reshape(-1, n_nodes)
    if labellings.min(initial=0) < 0 or labellings.max(initial=0) >= n_states:
        raise ValueError(f"labellings must be codes of the {n_states} labels in y, from 0 on")
    return labellings


@solver_kernel
def _ask(problem, i, theta, labellings, indicators, scores, losses, best, values, scratch):
    """Call operations that every structure has from one compiled kernel, as solvers do."""
    for q in range(labellings.shape[0]):
        oracles.add_indicator(problem, i, labellings[q], 2.0, indicators[q])
        scores[q] = oracles.score(problem, i, theta, labellings[q])
        losses[q] = oracles.task_loss(problem, i, labellings[q])
    oracles.truth(problem, i, best[0])
    values[0] = oracles.task_loss(problem, i, best[0])
    values[1] = oracles.max_oracle(problem, i, theta, best[1])
    values[2] = oracles.loss_augmented_max(problem, i, theta, best[2], scratch)


def _check_oracles(problem, i, theta, n_states, edges, labellings):
    n_nodes = labellings.shape[1]
    indicators = np.ones((len(labellings), theta.size))
    scores, losses = np.empty(len(labellings)), np.empty(len(labellings))
    best, values, scratch = np.zeros((3, n_nodes), np.int32), np.empty(3), np.empty(theta.size)
    arguments = labellings, indicators, scores, losses, best, values, scratch
    _call(_ask, problem, i, theta, *arguments, name="score, max_oracle or loss_augmented_max")
    indicators = (indicators - 1.0) / 2.0  # what was there must still be there
    finite_theta = np.where(np.isfinite(theta), theta, -1e300)
    by_parts = indicators @ finite_theta
    by_parts[by_parts < -1e200] = -np.inf
    by_parts[np.isneginf(scores)] = -np.inf  # a forbidden pair may share its part with others
    _close(scores, by_parts, "score and add_indicator disagree")
    assert values[0] == 0.0, "task_loss of the truth is not 0"
    assert (losses >= 0.0).all(), "task_loss: negative"
    if oracles.loss_is_linear(problem):
        _check_augment(problem, i, theta, indicators, scores, losses)

    names = "truth", "max_oracle", "loss_augmented_max"
    rows = [_row_of(*pair) for pair in zip(best, [labellings] * 3, names, strict=True)]
    assert scores[rows[0]] > -np.inf, "y: the true labels have a part that is forbidden"
    _agree(values[1], scores[rows[1]], names[1])
    _agree(values[2], (scores + losses)[rows[2]], names[2])
    if oracles.relaxed_oracle.supports(problem):
        _check_relaxed(problem, i, theta, scores, indicators)
        return
    for value, score, name in zip(values[1:], (scores, scores + losses), names[1:], strict=True):
        best = f"labelling {labellings[score.argmax()].tolist()} scores {score.max():.6g}"
        _close(value, score.max(), f"{name} returns {value:.6g}, but {best}")
    _check_max_marginals(problem, i, theta, scores, labellings, n_states)
    _check_top_k(problem, i, theta, scores, labellings)
    _check_exp(problem, i, theta, scores, indicators)
    _check_projections(problem, i, theta, scores, indicators)
    _check_edge_marginals(problem, i, theta, scores, labellings, n_states, edges)


def _check_augment(problem, i, theta, indicators, scores, losses):
    """The loss of every labelling that is allowed is that of its parts."""
    augmented = np.where(np.isfinite(theta), 0.0, theta)
    oracles.augment(problem, i, augmented)
    by_parts = indicators @ np.where(np.isfinite(augmented), augmented, 0.0)
    allowed = np.isfinite(scores)
    _close(by_parts[allowed], losses[allowed], "augment and task_loss disagree")


def _check_relaxed(problem, i, theta, scores, indicators):
    """The bound holds, the value is that of mu, no part of which leaves the range of labellings."""
    mu = np.empty(theta.size)
    scratch = np.zeros(int(problem.label_ptr[i + 1] - problem.label_ptr[i]), dtype=np.int32)
    bound, value = _call(oracles.relaxed_oracle, problem, i, theta, scratch, mu)
    assert scores.max() <= bound + 1e-9, "relaxed_oracle: not an upper bound"
    assert value <= bound + 1e-9, "relaxed_oracle: the value exceeds the bound"
    finite = np.isfinite(theta)
    assert not mu[~finite].any(), "relaxed_oracle uses a forbidden part"
    _close(mu[finite] @ theta[finite], value, "relaxed_oracle: mu")
    low, high = indicators.min(axis=0), indicators.max(axis=0)
    assert (mu >= low - 1e-12).all(), "relaxed_oracle: a part under its range"
    assert (mu <= high + 1e-12).all(), "relaxed_oracle: a part over its range"


def _check_top_k(problem, i, theta, scores, labellings):
    if not oracles.top_k_oracle.supports(problem):
        return
    require_room(problem, len(scores) + 2)
    for k in (1, 3, len(scores) + 2):
        values = np.empty(k)
        found = np.zeros((k, labellings.shape[1]), dtype=np.int32)
        _call(oracles.top_k_oracle, problem, i, theta, values, found)
        expected = np.full(k, -np.inf)
        feasible = np.sort(scores[np.isfinite(scores)])[::-1][:k]
        expected[: feasible.size] = feasible
        _close(values, expected, "top_k_oracle: values")
        distinct = {tuple(labels) for labels in found[: feasible.size]}
        assert len(distinct) == feasible.size, "top_k_oracle: a labelling occurs twice"
        for value, labels in zip(values[: feasible.size], found, strict=False):
            _agree(value, scores[_row_of(labels, labellings, "top_k_oracle")], "top_k_oracle")


def _check_exp(problem, i, theta, scores, indicators):
    if not oracles.exp_oracle.supports(problem):
        return
    for temperature in (1.0, 0.3):
        mu = np.empty(theta.size)
        value = _call(oracles.exp_oracle, problem, i, theta, temperature, mu)
        log_z, expected = brute_force_marginals(scores / temperature, indicators)
        if getattr(problem.space, "inference", "exact") == "relaxed":
            slack = oracles.exp_slack(problem)
            assert value + 1e-9 >= temperature * log_z, "exp_oracle: not an upper bound"
            assert 0.0 <= slack <= 1e-6 * (1.0 + abs(value)), "exp_oracle: far from its bound"
            _check_gradient(problem, i, theta, temperature, mu)
            continue
        np.testing.assert_allclose(value, temperature * log_z, rtol=1e-9, err_msg="exp_oracle")
        np.testing.assert_allclose(mu, expected, atol=1e-9, err_msg="exp_oracle: marginals")
        mu[:] = given = np.full(mu.size, 0.5)
        forward = _call(oracles.exp_oracle, problem, i, theta, temperature, mu[:0])
        message = "exp_oracle writes to mu where it is empty: the value alone is needed then"
        np.testing.assert_array_equal(mu, given, message)
        np.testing.assert_allclose(forward, value, rtol=1e-9, err_msg="exp_oracle: value alone")


def _check_gradient(problem, i, theta, temperature, mu):
    """Pseudo-marginals are the gradient of their bound."""
    finite = np.isfinite(theta)
    ahead = np.where(finite, np.random.default_rng(i).normal(size=theta.size), 0.0)
    assert not mu[~finite].any(), "exp_oracle uses a forbidden part"
    slope = _slope(oracles.exp_oracle, problem, i, theta, ahead, 1e-3, temperature, mu[:0])
    np.testing.assert_allclose(slope, ahead @ mu, rtol=1e-3, atol=1e-3, err_msg="exp_oracle: mu")


def _check_projections(problem, i, theta, scores, indicators):
    """Points lie in the hull and are gradients of the value, which tends to the best score."""
    verb = oracles.euclidean_oracle
    if verb.supports(problem):
        name, finite = verb.__name__, np.isfinite(theta)
        ahead = np.random.default_rng(i).normal(size=theta.size)
        mu, scratch = np.empty(theta.size), np.empty(theta.size)
        for temperature in (1.0, 0.1):
            if np.isnan(_call(verb, problem, i, theta, temperature, mu)):
                break  # potentials that it does not take
            _, distance = nnls(
                np.vstack([indicators[np.isfinite(scores)].T, np.ones(np.isfinite(scores).sum())]),
                np.append(mu, 1.0),
            )
            assert distance <= 1e-9, f"{name}: not in the hull of labellings"
            assert not mu[~finite].any(), f"{name} uses a forbidden part"
            slope = _slope(verb, problem, i, theta, ahead, 1e-5, temperature, scratch)
            np.testing.assert_allclose(slope, ahead @ mu, atol=1e-4, err_msg=f"{name}: gradient")
        else:
            value = _call(verb, problem, i, theta, 1e-9, mu)
            np.testing.assert_allclose(value, scores.max(), atol=1e-6, err_msg=f"{name}: value")


def _check_max_marginals(problem, i, theta, scores, labellings, n_classes):
    if not oracles.max_marginals.supports(problem):
        return
    got = np.empty(labellings.shape[1] * n_classes)
    _call(oracles.max_marginals, problem, i, theta, got)
    forced = labellings[:, :, None] == np.arange(n_classes)
    expected = np.where(forced, scores[:, None, None], -np.inf).max(axis=0)
    registry = oracles.max_marginals.registry
    own = next(registry[c] for c in type(problem.space).__mro__ if c in registry)
    by_maxima = " by max_oracle" if own is max_marginals_by_maxima else ""
    _close(got.reshape(expected.shape), expected, f"max_marginals{by_maxima}")


def _check_edge_marginals(problem, i, theta, scores, labellings, n_classes, edges):
    if not oracles.edge_marginals.supports(problem):
        return
    pairs = labellings[:, edges[:, 0]] * n_classes + labellings[:, edges[:, 1]]
    indicators = pairs[:, :, None] == np.arange(n_classes**2)
    log_z, expected = brute_force_marginals(scores, indicators.reshape(len(scores), -1) + 0.0)
    mu, got = np.empty(theta.size), np.empty(expected.size)
    value = _call(oracles.edge_marginals, problem, i, theta, mu, got)
    if getattr(problem.space, "inference", "exact") == "relaxed":
        assert value + 1e-9 >= log_z, "edge_marginals: not an upper bound"
        tables = got.reshape(len(edges), n_classes, n_classes)
        for (first, second), table in zip(edges, tables, strict=True):
            nodes = mu[: labellings.shape[1] * n_classes].reshape(-1, n_classes)
            _close(table.sum(axis=1), nodes[first], "edge_marginals: of first ends")
            _close(table.sum(axis=0), nodes[second], "edge_marginals: of second ends")
        return
    np.testing.assert_allclose(value, log_z, rtol=1e-9, err_msg="edge_marginals: log-partition")
    np.testing.assert_allclose(got, expected, atol=1e-9, err_msg="edge_marginals")
