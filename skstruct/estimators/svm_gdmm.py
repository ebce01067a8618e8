"""GDMMSSVM: structural SVMs with many labels, by factorwise oracles."""

from __future__ import annotations

import contextlib
from numbers import Integral, Real
from typing import Literal

import numpy as np

from ..core.factors import BinaryFactors, PairwiseFactors
from ..core.oracles import gram, require_linear_loss
from ..core.sklearn_private import Interval, choices
from ..core.typing import ClassWeightLike, LossLike, RandomStateLike
from ..distributed.gdmm import GDMMBlocks, LocalGDMM
from ..graphs.registry import GraphLike
from ..solvers.gdmm.active_sets import GDMMOptions
from ..solvers.gdmm.joint import run_of
from ..solvers.gdmm.labels import LabelRun
from ..solvers.gdmm.solver import SEARCHES, VARIANTS, BlockSteps, n_parts
from ..solvers.run import REMEDY, run
from .svm import CONSTRAINTS, StructuralSVM
from .svm_bcfw import BCFWSSVM

# Run for each description of a structure.

#: The run of each description that :mod:`skstruct.core.factors` knows.
RUNS = {PairwiseFactors: run_of, BinaryFactors: LabelRun}

# Up to so many labels, and for label sets weights of edges, block steps were the faster ones.
_MOST_LABELS = _MOST_PAIRS = 128
# Setting one of these selects GDMM.
_OWN = "variant", "search", "n_partitions", "rho", "eta", "multipliers"
_ADVICE = f"{REMEDY}, or leave algorithm, {', '.join(_OWN)} and gap_every at their defaults"

Algorithm = Literal["auto", "gdmm"]
Variant = Literal["bcfw", "away", "afw", "bgcd"]
Search = Literal["sublinear", "exact", "sampled"]


class GDMMSSVM(StructuralSVM):
    r"""Structural SVM for many labels, trained by the greedy direction method of multipliers.

    Minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_i s_i \max_y \left[ \Delta(y_i, y)
        + \langle w, \Phi(x_i, y) - \Phi(x_i, y_i) \rangle \right].

    The algorithm never decodes a whole sample: every node and every edge has a small active set of
    labels of its own, found by a search that is sublinear in the number of labels, and messages
    make them agree. Certificates do decode; their lower bound is that of a consistent dual point.
    With up to 128 labels the steps are those of :class:`BCFWSSVM` instead, which decode (see
    `algorithm`): the paper's need many more passes there (:ref:`passes`). Reported objectives and
    gaps are divided by :math:`C \sum_i s_i`. Without cycles, nodes and edges that agree
    are labellings. For label sets and graphs with cycles the maximum is that of the LP relaxation
    (``training_inference_`` is "relaxed"), an upper bound on the above; predictions are
    exact where the structure decodes exactly (``inference_``). Read more in the :ref:`User
    Guide <large_label_sets>`.

    Parameters
    ----------
    graph : {"auto", "chain", "multiclass", "multilabel"} or Graph, default="auto"
        The structure, as in :class:`SAGCRF`: chains, trees, graphs and images (without forbidden
        pairs where they have cycles), single nodes, label sets. Edges may have features, several
        types, or symmetric or Potts interactions.
    C : float, default=1.0
        Inverse of the regularisation strength; the papers' lambda is ``1 / (C n)``.
    loss : {"hamming", "normalized_hamming"}, dict, Series or array-like, default="hamming"
        Task loss, as in :class:`BCFWSSVM`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, as in :class:`BCFWSSVM`.
    fit_intercept : bool, default=True
        Whether each label has a constant feature. Its weight is regularised like all others.
    max_iter : int, default=300
        Maximum number of passes over the data.
    tol : float, default=1e-2
        Stop when the duality gap is below this fraction of the objective. With ``gap_every=0`` it
        also bounds the disagreement of nodes and edges.
    n_jobs : int, default=None
        Threads for certificates and prediction. The steps are sequential.
    verbose : int, default=0
        If 1, print one line per epoch.
    random_state : int, RandomState instance or None, default=None
        Controls the order of samples and parts of labels. Pass an int for reproducible results.

    Attributes
    ----------
    coef_, intercept_, pairwise_coef_, boundary_coef_, node_weights_, pair_weights_ : ndarray
        Weights, as in :class:`SAGCRF`; pairs of label sets are the edges.
    graph_, inference_, training_inference_ : Graph, str, str
        The structure that was used, and its inference ("exact" or "relaxed"), as in SAGCRF.
    classes_, states_ : ndarray
        Labels, sorted; the label of each row of `coef_` (see :ref:`hidden_states`).
    Objective and history
    objective_, dual_objective_ : float
        The objective of the weights, and a lower bound on the optimum; for label sets with cycles
        those of the LP relaxation.
    dual_gap_ : float
        Their difference: a certificate, up to rounding.
    suboptimality_ : float
        ``dual_gap_ / objective_``, which `tol` bounds.
    infeasibility_ : float
        Largest difference between the marginals of a node and of one of its edges, at the end.
    n_rounds_, n_bytes_ : int
        With shards only: rounds, and bytes of weights sent to tasks and back, before zeros are left
        out.
    n_iter_ : int
        Passes run.
    history_ : dict of ndarray
        One entry per pass: ``passes``, ``oracle_calls``, ``seconds``, ``objective``,
        ``dual_objective``, ``dual_gap`` (NaN where there was no certificate), ``infeasibility``,
        ``node_set`` and ``edge_set`` (mean sizes of the active sets; for label sets the labels off
        their true value and the edges awake per sample), ``search_seconds``. The last three are NaN
        with the steps of :class:`BCFWSSVM`.
    Data
    n_features_in_ : int
        Number of node features.
    feature_names_in_, edge_feature_names_in_, label_names_in_ : ndarray
        Names of features and label columns, if X or y has them.

    Other Parameters
    ----------------
    algorithm : {"auto", "gdmm"}, default="auto"
        "gdmm" is the algorithm of [1]_. With up to 128 labels, and for label sets up to 128 weights
        of edges, "auto" takes the steps of :class:`BCFWSSVM` on the same problem: fewer passes, and
        more memory. It stays with GDMM if memory does not suffice, on shards, with ``gap_every=0``,
        and if a parameter from `variant` to `multipliers` is not at its default.
    variant : {"bcfw", "away", "afw", "bgcd"}, default="bcfw"
        Step on each factor: to the optimum over its active set ("bcfw", as in appendix A of [1]_
        but solving the block), or an away-step Frank-Wolfe step ("away"). "afw" and "bgcd" are the
        algorithms of the theorems of [1]_, and need far more passes: "afw" steps on all factors of
        all samples at once, with away steps over joint bases (Algorithm 2; not for label sets and
        shards); "bgcd" adds the factor of largest progress of each sample to its active ones and
        visits only these (Algorithm 3; for label sets the most violating factor gets new entries).
    search : {"sublinear", "exact", "sampled"}, default="sublinear"
        How new entries are found: "sublinear" uses ordered structures for pairs (with up to 64
        labels it is faster to look at all of them) and one part of the labels per visit; "exact"
        all labels and pairs; "sampled" one part of the labels and of the pairs. Edges that do not
        share one table have no common order, so that "sublinear" is "sampled" for them. For label
        sets one part of the labels is searched unless it is "exact".
    n_partitions : int, default=None
        Parts of the labels; None for a number that grows with their square root.
    rho : float, default=1.0
        Strength of the penalty on disagreement. Larger values make nodes and edges agree sooner
        and progress on the objective slower. Scale edge features to a norm of about 1: with larger
        ones the penalty is too weak, and fits take far more passes.
    eta : float, default=None
        Step of the multipliers; must be below 2. By default 1.5, on graphs with cycles 0.3, and 0.1
        with the variants "afw" and "bgcd": there factors follow the multipliers more slowly, and
        with 1.5 fits may end far from the optimum, which the gap shows. The
        theorems of [1]_ hold for far smaller steps only; the certificate holds for any.
    multipliers : bool, default=True
        False leaves the penalty only: Soft-BCFW [3]_, the baseline of the paper, which uses `rho`
        of 1 and 10.
    gap_every : int, default=10
        Passes between certificates, each of which costs one pass of decoding. With 0 there is none
        before nodes and edges agree up to `tol` and distributions change by less than a tenth of
        it; if it fails, training goes on, and the next one waits for up to a quarter of the passes
        done. Choose it where decoding all samples costs more than many passes.

    See Also
    --------
    skstruct.BCFWSSVM : Structural SVMs with a certified duality gap.
    skstruct.MultiLabel : The structure of label sets.
    skstruct.datasets.make_glyph_chains : Draws chains with thousands of labels.

    Notes
    -----
    With :class:`~skstruct.datasets.Shards` the weights go from worker to worker, as in
    :class:`BCFWSSVM`; penalty and multipliers are a sample's own. ``history_`` then has ``rounds``
    and ``bytes`` in place of ``search_seconds``.

    References
    ----------
    .. [1] Yen, Huang, Zhong, Zhang, Ravikumar, Dhillon (2016). Dual Decomposed Learning with
       Factorwise Oracle for Structural SVM of Large Output Domain. NIPS. Algorithms 1 to 3.
    .. [2] Ma, Smith, Jaggi, Jordan, Richtarik, Takac (2015). Adding vs. Averaging in Distributed
       Primal-Dual Optimization. ICML. Algorithm 1.
    .. [3] Meshi, Srebro, Hazan (2015). Efficient Training of Structured SVMs via Soft Constraints.
       AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import GDMMSSVM
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> svm = GDMMSSVM(C=0.1, random_state=0).fit(X, y)
    >>> bool(svm.dual_gap_ <= 0.01 * svm.objective_)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **{name: kind for name, kind in CONSTRAINTS.items() if name != "warm_start"},
        "algorithm": [choices(Algorithm)],
        "variant": [choices(Variant)],
        "search": [choices(Search)],
        "n_partitions": [None, Interval(Integral, 1, None, closed="left")],
        "rho": [Interval(Real, 0, None, closed="neither")],
        "eta": [None, Interval(Real, 0, 2, closed="neither")],
        "multipliers": ["boolean"],
        "gap_every": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        graph: GraphLike = "auto",
        *,
        C: float = 1.0,
        loss: LossLike = "hamming",
        class_weight: ClassWeightLike = None,
        fit_intercept: bool = True,
        max_iter: int = 300,
        tol: float = 1e-2,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomStateLike = None,
        algorithm: Algorithm = "auto",
        variant: Variant = "bcfw",
        search: Search = "sublinear",
        n_partitions: int | None = None,
        rho: float = 1.0,
        eta: float | None = None,
        multipliers: bool = True,
        gap_every: int = 10,
    ) -> None:
        self.graph = graph
        self.C = C
        self.loss = loss
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.algorithm = algorithm
        self.variant = variant
        self.search = search
        self.n_partitions = n_partitions
        self.rho = rho
        self.eta = eta
        self.multipliers = multipliers
        self.gap_every = gap_every

    # Models that were stored before this parameter came lack it.
    algorithm = "auto"

    def _make_problem(self, data):
        problem = super()._make_problem(data)
        require_linear_loss(problem, "use BCFWSSVM")
        graph = self.graph_
        factors = graph.factors(problem, data.samples)
        if type(factors) not in RUNS:
            raise TypeError(
                f"GDMMSSVM is not available for {type(graph).__name__}: it does not describe its "
                "nodes and edges (factors); use BCFWSSVM"
            )
        if isinstance(factors, BinaryFactors) and self.variant == "afw":
            raise ValueError(
                'variant="afw" is not available for label sets: use variant="away", away steps on '
                "each factor"
            )
        relaxed = graph.relaxation(problem)
        self.training_inference_ = getattr(relaxed.space, "inference", "exact")
        return relaxed, factors

    _takes_relaxations = True
    _blocks = GDMMBlocks

    def _local(self, n_labels):
        if self.variant == "afw":
            raise ValueError(
                'variant="afw" is not available with shards, since its steps are on all samples at '
                'once: use variant="away"'
            )
        return LocalGDMM(self._options(n_labels), self.graph_.decoding)

    def _options(self, n_labels):
        eta = np.nan if self.eta is None else float(self.eta)
        return GDMMOptions(
            VARIANTS[self.variant],
            SEARCHES[self.search],
            float(self.rho),
            eta if self.multipliers else 0.0,
            self.n_partitions or n_parts(n_labels, self.search),
            1,
        )

    def _mean_loss(self, task, weights, data):
        problem = self.graph_.decoding(task[0], weights)
        return super()._mean_loss(problem, weights, data)

    def _suit_blocks(self, problem, factors):
        """Return whether the steps of BCFWSSVM are the faster ones, for defaults."""
        n_pairs = 0
        if isinstance(factors, BinaryFactors):
            n_pairs = len(factors.ends) * (4 if factors.full else 1)
        few = factors.n_labels <= _MOST_LABELS and n_pairs <= _MOST_PAIRS
        return few and gram.supports(problem)

    def _block_steps(self, problem, *task):
        """Return the method of BCFWSSVM unless GDMM is requested, or memory does not suffice."""
        default = GDMMSSVM()
        is_plain = all(getattr(self, name) == getattr(default, name) for name in _OWN)
        if is_plain and self.algorithm == "auto" and self.gap_every > 0:
            with contextlib.suppress(MemoryError):
                choices = BCFWSSVM()._choices()
                return BlockSteps(problem, *task, choices=choices, gap_every=self.gap_every)
        return None

    def _solve(self, task, shapes, sample_weight, lam, start, **common):
        problem, factors = task
        task = shapes, sample_weight, lam
        suited = self._suit_blocks(problem, factors)
        method = self._block_steps(problem, *task, self.n_jobs) if suited else None
        if method is None:
            options = self._options(factors.n_labels)
            kind, decoding = RUNS[type(factors)], self.graph_.decoding
            method = kind(factors, problem, decoding, *task, options, self.n_jobs)
            method.gap_every = self.gap_every
            if suited:
                method.advice = _ADVICE
        return run(method, rng=self._generator(), **common)
