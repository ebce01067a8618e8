"""Matching: links between the sources and the targets of a sample."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..core.jit.dispatch import inner_kernel, kernel
from ..core.offsets import ends_of
from ..core.oracles import (
    entropic_oracle,
    euclidean_oracle,
    max_marginals,
    max_oracle,
    task_loss,
    top_k_oracle,
)
from ..core.typing import LossLike, SamplesLike
from ..data.matrices import numeric, refuse_masked
from ..data.packing import as_list, pack_nodes, packed
from ..data.ragged import object_array
from ..inference.assignment import assignment, assignment_max_marginals, assignment_work
from ..inference.assignment_polytope import (
    ProjectionWork,
    entropic_assignment,
    euclidean_assignment,
    projection_work,
)
from ..inference.fertility import (
    FertilityWork,
    fertile_links,
    fertile_max_marginals,
    fertility_work,
)
from ..inference.n_best import BestAssignmentsWork, best_assignments, best_assignments_work
from ..losses.task import cost_matrix
from .items import ChoiceProblem, ItemGraph, counts_of
from .layout import TableScratch
from .n_best import Branches, branch_scratch, confine, note_second, split_best

# Links between two sides, for compiled solvers: the problem and what all its kinds share.

# Kinds of pairs in the gold standard.
OTHER, SURE, POSSIBLE = 0, 1, 2


class Links(NamedTuple):
    """Data of matchings in addition to items: the field ``own`` of a problem."""

    # (n_samples, 2): Sources and targets of each sample.
    sizes: np.ndarray
    # The largest number of links at a vertex.
    max_degree: int
    # Whether every vertex may stay without one.
    null: bool
    # (n_items or 0,): What each pair is in the gold standard.
    kind: np.ndarray
    # (n_samples or 0,): Cost of a sure link that is missed, and of a wrong link.
    missed: np.ndarray
    extra: np.ndarray
    # (n_samples or 0,): Cost of the labelling that is trained toward, which counts as 0.
    base: np.ndarray
    # (n_samples + 1,): Where the vertices of each sample begin.
    source_ptr: np.ndarray
    target_ptr: np.ndarray
    # (n_all_sources,): Memory of samples: the target of each source in the last best matching.
    match: np.ndarray
    # (n_all_targets,): Memory of samples: the targets' prices then. It changes the time, never the
    # answer.
    price: np.ndarray


class MatchingProblem(ChoiceProblem):
    """Pairs of sources and targets packed for kernels: a labelling defines which are linked."""

    structure = "Matching"
    remedy = (
        " (sums over matchings are #P-hard); predict_top_k gives the best matchings, the verb "
        "max_marginals the best score with and without every link"
    )


@task_loss.register(MatchingProblem)
@kernel
def _(problem, i, labels):
    own, first = problem.own, problem.item_ptr[i]
    missed, extra = 0, 0
    for q in range(problem.item_ptr[i + 1] - first):
        kind = own.kind[first + q]
        if labels[q] == 1:
            extra += 1 if kind == OTHER else 0
        else:
            missed += 1 if kind == SURE else 0
    # Of the labelling that is trained toward this is exactly 0; rounding may leave others under it.
    return max(0.0, own.missed[i] * missed + own.extra[i] * extra - own.base[i])


# One link at most for each source and each target: assignments.


class OneToOneScratch(NamedTuple):
    """Scratch of one thread."""

    # For weight tables.
    tables: TableScratch
    # Of assignments.
    best: BestAssignmentsWork
    # (n_best, max_sources): The n best of them.
    matches: np.ndarray
    # Lengths of shortest paths, of all pairs of the smaller side.
    detour: np.ndarray
    # Of projections.
    projection: ProjectionWork


def one_to_one_scratch(tables: TableScratch, sizes: np.ndarray, n_best: int) -> OneToOneScratch:
    """Room for the largest sample."""
    n, m = sizes.max(axis=0, initial=0).tolist()
    best, matches = best_assignments_work(n, m, n_best), np.empty((n_best, n), dtype=np.int32)
    detour = np.empty((int(sizes.min(axis=1).max(initial=0)) + 1) ** 2)
    projection = projection_work(sizes)
    return OneToOneScratch(tables, best, matches, detour, projection)


class OneToOneProblem(MatchingProblem):
    """Pairs of which no two that are linked share an end."""


@inner_kernel
def _write_match(n, m, match, labels):
    """Links of an assignment."""
    for q in range(n * m):
        labels[q] = 0
    for s in range(n):
        if match[s] >= 0:
            labels[s * m + match[s]] = 1


@inner_kernel
def _memory(problem, i):
    """Prices and links of the sample's last best matching."""
    own = problem.own
    price = own.price[own.target_ptr[i] : own.target_ptr[i + 1]]
    return price, own.match[own.source_ptr[i] : own.source_ptr[i + 1]]


@max_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, labels):
    n, m = problem.own.sizes[i, 0], problem.own.sizes[i, 1]
    price, match = _memory(problem, i)
    value = assignment(theta, n, m, problem.own.null, price, match, problem.work.best.solver)
    _write_match(n, m, match, labels)
    return value + theta[counts_of(problem, i)[0]]


@max_marginals.register(OneToOneProblem)
@kernel
def _(problem, i, theta, out):
    n, m, null = problem.own.sizes[i, 0], problem.own.sizes[i, 1], problem.own.null
    price, match = _memory(problem, i)
    work, solver = problem.work, problem.work.best.solver
    assignment_max_marginals(theta, n, m, null, price, match, solver, out, work.detour)
    constant = theta[counts_of(problem, i)[0]]
    for q in range(2 * n * m):
        out[q] += constant


@top_k_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, values, labels):
    n, m = problem.own.sizes[i, 0], problem.own.sizes[i, 1]
    work, constant = problem.work, theta[counts_of(problem, i)[0]]
    best_assignments(theta, n, m, problem.own.null, values, work.matches, work.best)
    for r in range(values.shape[0]):
        values[r] += constant
        _write_match(n, m, work.matches[r], labels[r])


@inner_kernel(inline=True)
def _with_constant(problem, i, theta, value, mu):
    """The last part is always there, and no projection moves it: it is not in the norm."""
    last = counts_of(problem, i)[0]
    mu[last] = 1.0
    return value + theta[last]


@euclidean_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, m, null = problem.own.sizes[i, 0], problem.own.sizes[i, 1], problem.own.null
    price, match = _memory(problem, i)
    solver, work = problem.work.best.solver, problem.work.projection
    value = euclidean_assignment(theta, n, m, null, temperature, price, match, mu, solver, work)
    return _with_constant(problem, i, theta, value, mu)


@entropic_oracle.register(OneToOneProblem)
@kernel
def _(problem, i, theta, temperature, mu):
    n, m, null = problem.own.sizes[i, 0], problem.own.sizes[i, 1], problem.own.null
    price, match = _memory(problem, i)
    solver, work = problem.work.best.solver, problem.work.projection
    value = entropic_assignment(theta, n, m, null, temperature, price, match, mu, solver, work)
    return _with_constant(problem, i, theta, value, mu)


# Several links a source or target: bounded degrees.


class FertileScratch(NamedTuple):
    """Scratch of one thread."""

    # For weight tables.
    tables: TableScratch
    # Of best links.
    flow: FertilityWork
    # Of the n best.
    branches: Branches
    # (2 * max_pairs,): Max-marginals, or scores of both states of every pair.
    states: np.ndarray
    # (max_pairs,): Scores where some links are forbidden.
    confined: np.ndarray
    # (max_pairs,): Links that must be there.
    fixed: np.ndarray
    # (max_pairs,): Scratch for links that are not returned.
    links: np.ndarray
    # Lengths of shortest paths, of all pairs of the smaller side.
    detour: np.ndarray


def fertile_scratch(tables: TableScratch, sizes: np.ndarray, n_best: int) -> FertileScratch:
    """Room for the largest sample."""
    flow = fertility_work(*sizes.max(axis=0, initial=0).tolist())
    n_pairs = int(np.prod(sizes, axis=1).max(initial=0))
    detour = np.empty((int(sizes.min(axis=1).max(initial=0)) + 1) ** 2)
    fixed, links = np.empty(n_pairs, dtype=np.uint8), np.empty(n_pairs, dtype=np.int32)
    floats = np.empty(2 * n_pairs), np.empty(n_pairs)
    branches = branch_scratch(n_best)
    return FertileScratch(tables, flow, branches, *floats, fixed, links, detour)


class FertileProblem(MatchingProblem):
    """Pairs of which an end may have several links."""


@max_oracle.register(FertileProblem)
@kernel
def _(problem, i, theta, labels):
    value = _best_links(problem, i, theta, problem.work.fixed[:0], labels)
    return value + theta[counts_of(problem, i)[0]]


@max_marginals.register(FertileProblem)
@kernel
def _(problem, i, theta, out):
    n_pairs, _ = counts_of(problem, i)
    _max_marginals(problem, i, theta, problem.work.fixed[:0], out)
    for q in range(2 * n_pairs):
        out[q] += theta[n_pairs]


@inner_kernel
def _max_marginals(problem, i, theta, fixed, out):
    """Return max-marginals of all pairs, given that some must be linked."""
    own, work = problem.own, problem.work
    n, m, null, degree = own.sizes[i, 0], own.sizes[i, 1], own.null, own.max_degree
    fertile_max_marginals(theta, n, m, null, degree, fixed, work.links, work.flow, out, work.detour)


@inner_kernel
def _best_links(problem, i, theta, fixed, links):
    """The best links, given that some must be there; their score."""
    own = problem.own
    n, m, null, degree = own.sizes[i, 0], own.sizes[i, 1], own.null, own.max_degree
    return fertile_links(theta, n, m, null, degree, fixed, links, problem.work.flow)


@top_k_oracle.register(FertileProblem)
@kernel
def _(problem, i, theta, values, labels):
    n_pairs, _ = counts_of(problem, i)
    n_best, work = values.shape[0], problem.work
    for r in range(n_best):
        values[r] = -math.inf
    values[0] = _best_links(problem, i, theta, work.fixed[:0], labels[0])
    if n_best > 1 and values[0] > -math.inf:
        _find_second(problem, i, theta, 0, 1, labels)
    for r in range(1, n_best if values[0] > -math.inf else 1):
        parent = split_best(work.branches, r)
        if parent < 0:
            break
        _confine(n_pairs, theta, r, r + 1, work)
        value = _best_links(problem, i, work.confined, work.fixed[:n_pairs], labels[r])
        # Rounding must not put one above the one before it.
        values[r] = min(value, values[r - 1])
        if r + 1 < n_best:
            _find_second(problem, i, theta, parent, r + 1, labels)
            _find_second(problem, i, theta, r, r + 1, labels)
    for r in range(n_best):
        values[r] += theta[n_pairs]


@inner_kernel
def _confine(n_pairs, theta, s, count, work):
    """Scores and links that must be there of set s, of which there are `count`."""
    states = work.states[: 2 * n_pairs].reshape(n_pairs, 2)
    for q in range(n_pairs):
        states[q, 0], states[q, 1] = 0.0, theta[q]
    confine(work.branches, s, count, states)
    for q in range(n_pairs):
        work.confined[q] = states[q, 1]
        work.fixed[q] = 1 if states[q, 0] == -math.inf else 0


@inner_kernel
def _find_second(problem, i, theta, s, count, labels):
    """The second best of set s by its max-marginals."""
    n_pairs, _ = counts_of(problem, i)
    work = problem.work
    _confine(n_pairs, theta, s, count, work)
    _max_marginals(problem, i, work.confined, work.fixed[:n_pairs], work.states)
    note_second(work.branches, s, labels[s], work.states[: 2 * n_pairs].reshape(n_pairs, 2))


# Reading pairs and links as users give them.


@packed(nodes=("features", "kind"), samples=("sizes",))
class PairTables(NamedTuple):
    """Packed pairs."""

    # (n_pairs, n_features): A row a pair, source by source.
    features: np.ndarray | sparse.csr_matrix
    # (n_samples + 1,): Where the pairs of each sample begin.
    item_ptr: np.ndarray
    # (n_samples, 2): Sources and targets of each sample.
    sizes: np.ndarray
    # (n_pairs,): What each pair is in the gold standard, where y says so.
    kind: np.ndarray | None = None

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the labels of each sample: one per pair."""
        return self.item_ptr

    def matrices(self, flat: np.ndarray) -> list:
        """Numbers of all pairs as a view of shape (n_sources, n_targets) per sample."""
        starts = self.item_ptr[:-1].tolist()
        shapes = self.sizes.tolist()
        return [
            flat[at : at + n * m].reshape(n, m) for at, (n, m) in zip(starts, shapes, strict=True)
        ]


def read_pairs(X: SamplesLike) -> PairTables:
    """Pack arrays (n_sources, n_targets, n_features), or tuples (rows of all pairs, sizes)."""
    tables, sizes = zip(*(_read_sample(x, i) for i, x in enumerate(as_list(X, "X"))), strict=True)
    features, item_ptr = pack_nodes(list(tables), "X")
    return PairTables(features, item_ptr, np.array(sizes, dtype=np.int64).reshape(-1, 2))


def _read_sample(x, i):
    """Rows of all pairs of a sample, and how many sources and targets it has."""
    if isinstance(x, tuple):
        size = np.asarray(x[1]) if len(x) == 2 else np.empty(0)
        if size.shape != (2,) or size.dtype.kind not in "iu":
            raise ValueError(
                f"X: sample {i} is a tuple, which must be (rows of features of all pairs, "
                "(n_sources, n_targets))"
            )
        n, m = size.tolist()
        table = x[0] if sparse.issparse(x[0]) else numeric(x[0], f"X: sample {i}")
        _refuse_empty_side(n, m, i)
        if table.ndim != 2 or table.shape[0] != n * m:
            raise ValueError(
                f"X: sample {i} has features of shape {table.shape}, but {n} x {m} pairs need "
                f"({n * m}, n_features)"
            )
        return table, (n, m)
    if sparse.issparse(x):
        raise ValueError(
            f"X: sample {i} is a sparse matrix: give the tuple (matrix, (n_sources, n_targets))"
        )
    table = numeric(x, f"X: sample {i}")
    if table.ndim != 3:
        raise ValueError(
            f"X: sample {i} must be of shape (n_sources, n_targets, n_features), or a tuple (rows "
            f"of features of all pairs, (n_sources, n_targets)); it has {table.ndim} dimensions"
        )
    n, m, width = table.shape
    _refuse_empty_side(n, m, i)
    return table.reshape(n * m, width), (n, m)


def _refuse_empty_side(n, m, i):
    if min(n, m) < 1:
        side = "sources" if n < 1 else "targets"
        raise ValueError(f"X: sample {i} has no {side}")


def read_links(y: SamplesLike, samples: PairTables) -> np.ndarray:
    """Read the kind of each pair in the gold standard."""
    refuse_masked(y, "y")
    items = as_list(y, "y")
    if len(items) != len(samples.sizes):
        raise ValueError(f"X has {len(samples.sizes)} samples, but y has {len(items)}")
    kind = np.full(samples.item_ptr[-1], OTHER, dtype=np.uint8)
    for i, (item, pairs) in enumerate(zip(items, samples.matrices(kind), strict=True)):
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    f"y: sample {i} is a tuple, which must be (sure links, possible links)"
                )
            _mark(pairs, item[1], POSSIBLE, f"y: the possible links of sample {i}", False)
            _mark(pairs, item[0], SURE, f"y: the sure links of sample {i}", False)
        else:
            _mark(pairs, item, SURE, f"y: sample {i}", True)
    return kind


def _mark(pairs, links, kind, name, may_be_targets):
    """Write `kind` at the links, which are rows (source, target), booleans or targets."""
    refuse_masked(links, name)
    n, m = pairs.shape
    try:
        links = np.asarray(links)
    except ValueError:
        raise ValueError(f"{name}: its links are not all of two numbers") from None
    if links.size == 0 and links.dtype != bool:
        return
    if links.dtype == bool:
        if links.shape != (n, m):
            raise ValueError(f"{name} are booleans of shape {links.shape}, but it has {n} x {m}")
        pairs[links] = kind
        return
    if links.dtype.kind not in "iu" or not (
        (links.ndim == 2 and links.shape[1] == 2) or (links.ndim == 1 and may_be_targets)
    ):
        more = f", or {n} targets (-1 for none)" if may_be_targets else ""
        raise ValueError(
            f"{name} must be integers of shape (n_links, 2), booleans of shape ({n}, {m}){more}; "
            f"got {links.dtype} of shape {links.shape}"
        )
    if links.ndim == 1:
        if links.size != n:
            raise ValueError(f"{name} has {links.size} targets for {n} sources")
        if links.min() < -1:
            raise ValueError(f"{name} has the target {links.min()}; a source without one has -1")
        links = np.column_stack([np.arange(n), links])[links >= 0]
    wrong = ((links < 0) | (links >= (n, m))).any(axis=1)
    if wrong.any():
        s, t = links[wrong][0].tolist()
        raise ValueError(f"{name} has the link ({s}, {t}), but {n} sources and {m} targets")
    pairs[links[:, 0], links[:, 1]] = kind


__all__ = ["Matching", "MatchingProblem"]


class Matching(ItemGraph):
    """Links between two sides: word alignment, tracking, assignment of any kind.

    A sample of X is an array (n_sources, n_targets, n_features), or a tuple (rows, (n_sources,
    n_targets)) with one row of features per pair, source by source, dense or CSR. A sample of y is
    its links: an integer array (n_links, 2) of rows (source, target); a boolean matrix (n_sources,
    n_targets); an integer array (n_sources,) of targets, -1 for none; or a tuple (sure links,
    possible links) of arrays or matrices. Possible links cost nothing, predicted or not. The score
    of a link is linear in its features. Read more in the :ref:`User Guide <items_guide>`.

    Parameters
    ----------
    max_degree : int, default=1
        Maximum number of links per source and per target.
    null : bool, default=True
        Whether sources and targets may have no link, at score 0. Otherwise every source, or if
        there are fewer targets every target, has at least one.
    repair : bool, default=False
        Whether to train toward the allowed links of least loss where y has more sure links than
        `max_degree`, or too few for ``null=False``; their cost is subtracted from the loss of all
        others. By default such samples raise an error.

    See Also
    --------
    Candidates : One choice among several.

    Notes
    -----
    The task loss of structural SVMs is the number of sure links missed plus the number of links
    that are neither sure nor possible; with ``loss={1: 2.0, 0: 0.5}`` a missed link costs 2, a
    wrong one 0.5. ``predict`` returns one array (n_links, 2) per sample, ``score`` the F1 of links:
    sure links count for recall, sure and possible ones for precision (Och and Ney 2003, A
    systematic comparison of various statistical alignment models, section 6). Best links are found
    by shortest augmenting paths (:mod:`skstruct.inference.assignment`,
    :mod:`skstruct.inference.fertility`). Among several best matchings the prediction depends on the
    weights and the sample alone; for ``max_degree=1`` it is the lowest, source by source, with no
    link before the first target.

    References
    ----------
    B. Taskar, S. Lacoste-Julien and D. Klein 2005, A discriminative matching approach to word
    alignment, EMNLP, section 2.

    S. Lacoste-Julien, B. Taskar, D. Klein and M. I. Jordan 2006, Word alignment via quadratic
    assignment, NAACL, section 2: several links a word.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM, Matching
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(3, 4, 2)) for _ in range(20)]
    >>> y = [np.argwhere(x[:, :, 0] == x[:, :, 0].max()) for x in X]
    >>> svm = BCFWSSVM(Matching(), C=10.0, random_state=0).fit(X, y)
    >>> [links.tolist() for links in svm.predict(X[:2])] == [links.tolist() for links in y[:2]]
    True
    """

    has_items = True
    takes = "lists of pairs: expected a list of 3-D arrays, or of tuples (rows of pairs, sizes)"

    def __init__(self, max_degree: int = 1, null: bool = True, repair: bool = False) -> None:
        self.max_degree = max_degree
        self.null = null
        self.repair = repair

    # Reading

    def read_X(self, estimator: BaseEstimator, X: SamplesLike, reset: bool) -> PairTables:
        """Pack the pairs."""
        degree = self.max_degree
        if not isinstance(degree, Integral) or isinstance(degree, bool) or degree < 1:
            raise ValueError(f"max_degree must be an integer of at least 1, got {degree!r}")
        for name in ("null", "repair"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        return self._counted(read_pairs(X), estimator, reset)

    def no_samples(self, estimator: BaseEstimator) -> PairTables:
        """No samples."""
        rows = np.empty((0, estimator.n_features_in_))
        return PairTables(rows, np.zeros(1, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))

    def read_y(self, y: SamplesLike, samples: PairTables) -> np.ndarray:
        """0 for no link, 1 for a sure one, 2 for a possible one."""
        return read_links(y, samples).astype(np.int64)

    def read_labelling(self, y: SamplesLike, samples: PairTables) -> np.ndarray:
        """1 for a sure link."""
        return (read_links(y, samples) == SURE).astype(np.int64)

    def read_training(
        self, estimator: BaseEstimator, X: SamplesLike, y: SamplesLike
    ) -> tuple[PairTables, np.ndarray]:
        """Pack X and y; what is possible goes with the samples."""
        samples = self.read_X(estimator, X, reset=True)
        samples = samples._replace(kind=read_links(y, samples))
        labels = (samples.kind == SURE).astype(np.int32)
        if self.repair:
            return samples, self._nearest(samples, np.array([[0.0, 1.0], [1.0, 0.0]]), labels)
        for i, pairs in enumerate(samples.matrices(labels)):
            if wrong := self._infeasible(pairs):
                raise ValueError(
                    f"y: sample {i}: {wrong}; Matching(repair=True) trains toward the nearest "
                    "links that are allowed"
                )
        return samples, labels

    def _infeasible(self, pairs):
        """Describe a vertex with too many sure links, or none; return "" if all are feasible."""
        n, m = pairs.shape
        for axis, side in ((1, "source"), (0, "target")):
            degrees = pairs.sum(axis=axis)
            if degrees.max() > self.max_degree:
                return (
                    f"{side} {degrees.argmax()} has {degrees.max()} sure links, but max_degree is "
                    f"{self.max_degree}"
                )
            needed = n <= m if side == "source" else n > m
            if not self.null and needed and degrees.min() == 0:
                return f"{side} {degrees.argmin()} has no sure link, but null is False"
        return ""

    def _nearest(self, samples, cost, labels):
        """The links of least loss that are allowed, where those of y are not."""
        labels = labels.copy()
        feasible = self.is_labelling(labels, samples, None)
        score = np.array([-cost[0, 1], cost[1, 0], 0.0])[samples.kind]
        for i in np.flatnonzero(~feasible):
            (n, m), first = samples.sizes[i].tolist(), samples.item_ptr[i]
            theta, links = score[first : first + n * m], np.zeros(n * m, dtype=np.int32)
            if self.max_degree == 1:
                match = np.full(n, -1, dtype=np.int32)
                work = assignment_work(n, m)
                assignment(theta, n, m, bool(self.null), np.zeros(m), match, work)
                rows = np.flatnonzero(match >= 0)
                links[rows * m + match[rows]] = 1
            else:
                none, work = np.empty(0, dtype=np.uint8), fertility_work(n, m)
                degree = int(self.max_degree)
                fertile_links(theta, n, m, bool(self.null), degree, none, links, work)
            labels[first : first + n * m] = links
        return labels

    def is_labelling(self, codes: np.ndarray, samples: PairTables, classes: Any) -> np.ndarray:
        """No vertex has too many links, or none where it needs one."""
        return np.array([not self._infeasible(pairs) for pairs in samples.matrices(codes)], bool)

    def read_allowed(self, allowed: Any, samples: PairTables, classes: Any) -> np.ndarray:
        """Masks of shape (n_sources, n_targets), one per sample."""
        return self._read_masks(allowed, [(n, m) for n, m in samples.sizes.tolist()])

    # Problems

    def make_problem(
        self,
        samples: PairTables,
        classes: Any,
        fit_intercept: bool,
        *,
        codes: np.ndarray | None = None,
        loss: LossLike = "hamming",
        allowed: Any = None,
        n_best: int = 1,
    ) -> NamedTuple:
        """Build the problem."""
        kind, costs, losses = np.empty(0, dtype=np.uint8), np.empty((3, 0)), None
        if codes is not None:
            cost, normalize = cost_matrix(loss, np.array([0, 1]))
            kind = samples.kind
            if self.repair:
                codes = self._nearest(samples, cost, (kind == SURE).astype(np.int32))
            costs = self._costs(samples, cost, normalize, codes)
            losses = _linear_loss(samples, costs)
        fields, tables = self._fields(samples, fit_intercept, codes, losses, allowed, 1)
        ends = [ends_of(side) for side in samples.sizes.T]
        memory = np.full(ends[0][-1], -1, dtype=np.int32), np.zeros(ends[1][-1])
        degree = int(self.max_degree)
        own = Links(samples.sizes, degree, bool(self.null), kind, *costs, *ends, *memory)
        if degree == 1:
            work = one_to_one_scratch(tables, samples.sizes, n_best)
            return OneToOneProblem(**fields, own=own, work=work)
        work = fertile_scratch(tables, samples.sizes, n_best)
        return FertileProblem(**fields, own=own, work=work)

    @staticmethod
    def _costs(samples, cost, normalize, codes):
        """Return the costs of a missed and of an extra link, and of the target labelling."""
        share = 1.0 / samples.lengths if normalize else np.ones(samples.lengths.size)
        missed, extra, starts = cost[1, 0] * share, cost[0, 1] * share, samples.item_ptr[:-1]
        n_missed, n_extra = (
            np.add.reduceat((samples.kind == kind) & (codes == code), starts, dtype=np.int64)
            for kind, code in ((SURE, 0), (OTHER, 1))
        )
        return missed, extra, missed * n_missed + extra * n_extra

    # Answers

    def answers(self, codes: np.ndarray, classes: Any, samples: PairTables) -> np.ndarray:
        """Rows (source, target) of the links of each sample."""
        return object_array([np.argwhere(pairs) for pairs in samples.matrices(codes)])

    def ranked(self, codes: np.ndarray, classes: Any, samples: PairTables, i: int) -> np.ndarray:
        """Return the n best matchings of one sample, best first."""
        size = samples.sizes[i].tolist()
        return object_array([np.argwhere(pairs.reshape(size)) for pairs in codes])

    def score(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        samples: PairTables,
        weight: np.ndarray | None,
    ) -> float:
        """F1 of links; 1 if there are none and none are predicted."""
        of_pairs = np.ones(truth.size) if weight is None else np.repeat(weight, samples.lengths)
        linked, sure = predicted == 1, truth == SURE
        n_linked, n_sure = of_pairs[linked].sum(), of_pairs[sure].sum()
        right = of_pairs[linked & (truth != OTHER)].sum(), of_pairs[linked & sure].sum()
        shares = [r / n if n > 0 else 1.0 for r, n in zip(right, (n_linked, n_sure), strict=True)]
        return float(2.0 * math.prod(shares) / sum(shares)) if sum(shares) > 0 else 0.0

    def decision(
        self, scores: np.ndarray, estimator: BaseEstimator, X: SamplesLike, samples: PairTables
    ) -> np.ndarray:
        """Scores of all pairs, a matrix per sample."""
        return object_array(samples.matrices(scores[:, 0]))

    def example(self, rng: np.random.Generator, sparse_X: bool) -> tuple[list, list]:
        """Random pairs."""
        X = [rng.normal(size=(n, m, 3)) for n, m in ((2, 3), (1, 4), (3, 3))]
        y = [np.column_stack([np.arange(len(x))] * 2) for x in X]
        if sparse_X:
            X = [(sparse.csr_matrix(x.reshape(-1, 3)), x.shape[:2]) for x in X]
        return X, y


def _linear_loss(samples, costs):
    """Return the change of the loss by linking each pair, and the loss without links."""
    of_pairs = [np.repeat(cost, samples.lengths) for cost in costs[:2]]
    loss = np.where(samples.kind == SURE, -of_pairs[0], of_pairs[1])
    loss[samples.kind == POSSIBLE] = 0.0
    sure = np.add.reduceat(samples.kind == SURE, samples.item_ptr[:-1], dtype=np.int64)
    return loss, costs[0] * sure - costs[2]
