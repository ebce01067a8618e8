"""For authors of new structures: brute-force references and checks of the contracts.

:func:`check_structure` compares every verb that a structure registers with an enumeration of all
labellings; :func:`check_structured_estimator` asks of an estimator on sequences what scikit-learn's
``check_estimator`` asks on tables.
"""

from __future__ import annotations

import itertools
import pickle

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from .core import oracles
from .core.weights import Weights, lazy_weights, zero_weights
from .data.ragged import RaggedArray, object_array
from .graphs.base import Graph
from .typing import LossLike, RandomStateLike, SamplesLike


def all_labellings(n_nodes: int, n_labels: int) -> np.ndarray:
    """Every labelling of `n_nodes` nodes, in lexicographic order.

    Parameters
    ----------
    n_nodes, n_labels : int
        The sizes; there are ``n_labels ** n_nodes`` labellings.

    Returns
    -------
    ndarray of shape (n_labels ** n_nodes, n_nodes) of int32
        The labellings.

    Examples
    --------
    >>> from skstruct.testing import all_labellings
    >>> all_labellings(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    labels = list(itertools.product(range(n_labels), repeat=n_nodes))
    return np.array(labels, dtype=np.int32).reshape(n_labels**n_nodes, n_nodes)


def chain_scores(unary: np.ndarray, transitions: np.ndarray, labellings: np.ndarray) -> np.ndarray:
    """Scores of labellings of a chain, added up term by term.

    Parameters
    ----------
    unary : ndarray of shape (n_nodes, n_labels)
        Node potentials.
    transitions : ndarray of shape (1 or n_nodes - 1, n_labels, n_labels)
        Potentials of (label, next label).
    labellings : ndarray of shape (n, n_nodes)
        The labellings.

    Returns
    -------
    ndarray of shape (n,)
        The scores.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.testing import chain_scores
    >>> chain_scores(np.ones((2, 2)), np.zeros((1, 2, 2)), np.array([[0, 1]]))
    array([2.])
    """
    total = np.zeros(len(labellings))
    for t in range(unary.shape[0]):
        total += unary[t, labellings[:, t]]
        if t > 0:
            table = transitions[0 if transitions.shape[0] == 1 else t - 1]
            total += table[labellings[:, t - 1], labellings[:, t]]
    return total


def brute_force_marginals(scores: np.ndarray, indicators: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-partition and part marginals from the scores of all labellings.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores; -inf for a forbidden labelling.
    indicators : ndarray of shape (n, n_parts)
        ``mu(y)`` of each labelling.

    Returns
    -------
    log_partition : float
        ``log sum exp`` of the scores.
    marginals : ndarray of shape (n_parts,)
        Expected indicators.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.testing import brute_force_marginals
    >>> brute_force_marginals(np.zeros(2), np.eye(2))[1]
    array([0.5, 0.5])
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
    """Random sequences with labels that depend on their features.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws them.
    n_samples, n_features, n_labels, max_length : int
        The sizes; lengths run from 1 to `max_length`.
    sparse_X : bool
        Whether samples are CSR matrices.

    Returns
    -------
    X : list of ndarray or csr_matrix of shape (n_nodes, n_features)
        The samples.
    y : list of ndarray of shape (n_nodes,)
        Labels "a", "b", ...; all occur if there is room.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0), n_samples=2)
    >>> len(X) == len(y) == 2
    True
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
    random_state: RandomStateLike = 0,
) -> None:
    """Check every verb of a structure against enumeration on small samples.

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
    random_state : int
        Draws weights and residuals.

    Raises
    ------
    AssertionError
        Names the verb that breaks its contract.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import Chain
    >>> from skstruct.testing import check_structure, random_sequences
    >>> check_structure(Chain(), *random_sequences(np.random.default_rng(0), n_samples=3))
    """
    rng = np.random.default_rng(random_state)
    problem, samples, shapes, n_states = _training_problem(graph, X, y, fit_intercept, loss)
    _check_registered(problem)
    weights = Weights(*(rng.normal(size=shape) for shape in shapes))
    ends = np.stack(graph.edge_ends(samples), axis=1)
    for i, first in enumerate(samples.offsets[:-1]):
        theta = _check_linear_map(problem, i, shapes, weights, rng)
        edges = ends[(ends[:, 0] >= first) & (ends[:, 0] < samples.offsets[i + 1])] - first
        _check_oracles(problem, i, theta, n_states, edges)


def _training_problem(graph, X, y, fit_intercept=True, loss="hamming"):
    """The problem that ``fit`` makes of X and y, the packed samples, the shapes of the weights."""
    holder = _FeatureCounts()
    samples, labels = graph.read_training(holder, X, y)
    classes = graph.find_classes(labels, samples)
    codes = graph.encode(labels, classes, samples.offsets)
    _check_inputs(graph, holder, samples, codes, classes)
    problem = graph.make_problem(
        samples, classes, fit_intercept, codes=codes, loss=loss, n_best=4000
    )
    shapes = graph.weight_shapes(samples, len(classes), fit_intercept)
    return problem, samples, shapes, graph.n_states(classes)


class _FeatureCounts:
    """Stands in for an estimator while X is read."""

    _estimator_type = None

    def __sklearn_tags__(self):
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(None, TargetTags(required=True), input_tags=InputTags(sparse=True))


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

    r = np.where(np.isfinite(offset), rng.normal(size=n_parts), 0.0)
    gradient = zero_weights(shapes)
    oracles.accumulate(problem, i, r, (2.0, 0.0), gradient)
    got = np.concatenate([table.ravel() for table in gradient])
    np.testing.assert_allclose(got, 2.0 * A.T @ r, rtol=1e-9, atol=1e-9, err_msg="accumulate")
    answer = np.empty(n_parts)
    oracles.gram(problem, i, r, answer)
    finite = np.isfinite(offset)
    full = A @ (A.T @ r)
    np.testing.assert_allclose(answer[finite], full[finite], rtol=1e-5, atol=1e-5, err_msg="gram")
    oracles.potentials(problem, i, weights, theta)
    return theta


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
    """The verbs are there that no structure can do without."""
    kind = type(problem)
    missing = [verb.__name__ for verb in _NEEDED if not verb.supports(kind)]
    own_max = oracles.loss_augmented_max.registry.keys() & set(kind.__mro__[:-1])
    if not oracles.augment.supports(kind) and not own_max:
        missing.append("augment, or loss_augmented_max if the loss is not linear in parts")
    assert not missing, f"{kind.__name__} does not register {'; '.join(missing)}"


def _call(verb, problem, i, theta, *rest):
    """The value of a verb, which leaves `theta` as it is."""
    given = theta.copy()
    value = verb(problem, i, given, *rest)
    np.testing.assert_array_equal(given, theta, err_msg=f"{verb.__name__} writes to theta")
    return value


def _close(got, expected, what):
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=what)


def _check_oracles(problem, i, theta, n_states, edges):
    n_nodes = int(problem.label_ptr[i + 1] - problem.label_ptr[i])
    labellings = all_labellings(n_nodes, n_states)
    indicators = np.zeros((len(labellings), theta.size))
    scores, losses = np.empty(len(labellings)), np.empty(len(labellings))
    finite_theta = np.where(np.isfinite(theta), theta, -1e300)
    for q, labels in enumerate(labellings):
        oracles.add_indicator(problem, i, labels, 1.0, indicators[q])
        scores[q] = oracles.score(problem, i, theta, labels)
        losses[q] = oracles.task_loss(problem, i, labels)
    by_parts = indicators @ finite_theta
    by_parts[by_parts < -1e200] = -np.inf
    _close(scores, by_parts, "score")
    true = np.zeros(n_nodes, dtype=np.int32)
    oracles.truth(problem, i, true)
    assert oracles.task_loss(problem, i, true) == 0.0, "task_loss of the truth is not 0"
    assert (losses >= 0.0).all(), "task_loss: negative"
    if oracles.loss_is_linear(problem):
        _check_augment(problem, i, theta, indicators, scores, losses)

    best = np.zeros(n_nodes, dtype=np.int32)
    value = _call(oracles.max_oracle, problem, i, theta, best)
    _close(oracles.score(problem, i, theta, best), value, "max_oracle: labels")
    scratch = np.empty(theta.size)
    worst = _call(oracles.loss_augmented_max, problem, i, theta, best, scratch)
    attained = oracles.score(problem, i, theta, best) + oracles.task_loss(problem, i, best)
    _close(attained, worst, "loss_augmented_max: labels")
    if oracles.relaxed_oracle.supports(type(problem)):
        assert value <= scores.max() + 1e-9, "max_oracle: more than the best score"
        assert worst <= (scores + losses).max() + 1e-9, "loss_augmented_max: more than the best"
        _check_relaxed(problem, i, theta, scores, indicators)
        return
    _close(value, scores.max(), "max_oracle: value")
    _close(worst, (scores + losses).max(), "loss_augmented_max: value")
    _check_top_k(problem, i, theta, scores, n_nodes)
    _check_exp(problem, i, theta, scores, indicators)
    _check_max_marginals(problem, i, theta, scores, labellings, n_states)
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


def _check_top_k(problem, i, theta, scores, n_nodes):
    if not oracles.top_k_oracle.supports(type(problem)):
        return
    for k in (1, 3, len(scores) + 2):
        values = np.empty(k)
        found = np.zeros((k, n_nodes), dtype=np.int32)
        _call(oracles.top_k_oracle, problem, i, theta, values, found)
        expected = np.full(k, -np.inf)
        feasible = np.sort(scores[np.isfinite(scores)])[::-1][:k]
        expected[: feasible.size] = feasible
        _close(values, expected, "top_k_oracle: values")
        distinct = {tuple(labels) for labels in found[: feasible.size]}
        assert len(distinct) == feasible.size, "top_k_oracle: a labelling occurs twice"
        for value, labels in zip(values[: feasible.size], found, strict=False):
            attained = oracles.score(problem, i, theta, labels)
            _close(attained, value, "top_k_oracle: labels")


def _check_exp(problem, i, theta, scores, indicators):
    if not oracles.exp_oracle.supports(type(problem)):
        return
    for temperature in (1.0, 0.3):
        mu = np.empty(theta.size)
        value = _call(oracles.exp_oracle, problem, i, theta, temperature, mu)
        log_z, expected = brute_force_marginals(scores / temperature, indicators)
        np.testing.assert_allclose(value, temperature * log_z, rtol=1e-9, err_msg="exp_oracle")
        np.testing.assert_allclose(mu, expected, atol=1e-9, err_msg="exp_oracle: marginals")
        forward = _call(oracles.log_partition, problem, i, theta, temperature)
        np.testing.assert_allclose(forward, value, rtol=1e-9, err_msg="log_partition")


def _check_max_marginals(problem, i, theta, scores, labellings, n_classes):
    if not oracles.max_marginals.supports(type(problem)):
        return
    got = np.empty(labellings.shape[1] * n_classes)
    _call(oracles.max_marginals, problem, i, theta, got)
    forced = labellings[:, :, None] == np.arange(n_classes)
    expected = np.where(forced, scores[:, None, None], -np.inf).max(axis=0)
    _close(got.reshape(expected.shape), expected, "max_marginals")


def _check_edge_marginals(problem, i, theta, scores, labellings, n_classes, edges):
    if not oracles.edge_marginals.supports(type(problem)):
        return
    pairs = labellings[:, edges[:, 0]] * n_classes + labellings[:, edges[:, 1]]
    indicators = pairs[:, :, None] == np.arange(n_classes**2)
    log_z, expected = brute_force_marginals(scores, indicators.reshape(len(scores), -1) + 0.0)
    mu, got = np.empty(theta.size), np.empty(expected.size)
    value = _call(oracles.edge_marginals, problem, i, theta, mu, got)
    np.testing.assert_allclose(value, log_z, rtol=1e-9, err_msg="edge_marginals: log-partition")
    np.testing.assert_allclose(got, expected, atol=1e-9, err_msg="edge_marginals")


def check_structured_estimator(
    estimator: BaseEstimator,
    X: SamplesLike | None = None,
    y: SamplesLike | None = None,
    *,
    atol: float = 1e-5,
) -> None:
    """Check that an estimator keeps scikit-learn's contract on sequences.

    Parameters
    ----------
    estimator : estimator
        Unfitted, with a tight ``tol`` and a ``random_state``.
    X, y : list, default=None
        Samples of equal numbers of features; random sequences by default.
    atol : float
        Agreement asked of fits that should reach one optimum.

    Raises
    ------
    AssertionError
        Names the rule that is broken.
    """
    if X is None:
        X, y = random_sequences(np.random.default_rng(0), n_samples=24)
    first = clone(estimator)
    try:
        first.predict(X)
    except NotFittedError:
        pass
    else:
        raise AssertionError("predict before fit must raise NotFittedError")
    before = pickle.dumps((X, y))
    assert first.fit(X, y) is first, "fit must return the estimator"
    predicted = first.predict(X)
    assert pickle.dumps((X, y)) == before, "fit or predict changed its input"
    assert isinstance(predicted, np.ndarray), "predict must return an object array"
    attributes = sorted(vars(first))
    first.predict(X)
    assert sorted(vars(first)) == attributes, "predict must not add attributes"

    _assert_same_model(first, clone(estimator).fit(X, y), X, 0.0, "a second fit with one seed")
    _assert_same_model(first, pickle.loads(pickle.dumps(first)), X, 0.0, "a pickled copy")
    _check_containers(estimator, first, X, y)
    _check_weights(estimator, X, y, atol)
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = clone(estimator).fit([X[i] for i in order], [y[i] for i in order])
    _assert_same_model(first, shuffled, X, atol, "a fit on permuted samples")
    for i in (0, len(X) - 1):
        assert (first.predict([X[i]])[0] == predicted[i]).all(), "one sample, another prediction"
    assert first.predict([X[0][:0]])[0].shape == (0,), "an empty sequence gets no labels"
    assert 0.0 <= first.score(X, y) <= 1.0, "score must be a share"


def _assert_same_model(a, b, X, atol, what):
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=atol, err_msg=what)
    left, right = (np.concatenate(list(model.predict(X))) for model in (a, b))
    # Near ties may fall either way where the weights differ.
    assert (left != right).mean() <= min(2.0 * atol, 0.1), f"{what} predicts otherwise"


def _check_containers(estimator, first, X, y):
    """Lists, object arrays, packed, Fortran-ordered and read-only samples give one model."""
    packed, packed_y = RaggedArray.from_list(X), RaggedArray.from_list(y)
    frozen = [x.copy() for x in X]
    for x in frozen:
        x.setflags(write=False)
    forms = {
        "object arrays": (object_array(X), object_array(y)),
        "RaggedArray": (packed, packed_y),
        "tuples and lists of labels": (tuple(X), [list(labels) for labels in y]),
        "read-only samples": (frozen, y),
        "Fortran order": ([np.asfortranarray(x) for x in X], y),
    }
    for name, (X_form, y_form) in forms.items():
        _assert_same_model(first, clone(estimator).fit(X_form, y_form), X, 0.0, name)
        for left, right in zip(first.predict(X), first.predict(X_form), strict=True):
            assert (left == right).all(), f"predict on {name} differs"


def _check_weights(estimator, X, y, atol):
    """Integer weights equal repeated samples; samples of weight 0 leave no trace."""
    counts = np.arange(len(X)) % 3
    repeated = np.repeat(np.arange(len(X)), counts)
    weighted = clone(estimator).fit(X, y, sample_weight=counts)
    again = clone(estimator).fit([X[i] for i in repeated], [y[i] for i in repeated])
    _assert_same_model(weighted, again, X, atol, "integer sample weights")
