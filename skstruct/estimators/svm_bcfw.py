"""BCFWSSVM: structural SVMs by block-coordinate Frank-Wolfe."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import ClassVar, Literal

from numpy.typing import ArrayLike

from ..core.oracles import gram, relaxed_oracle
from ..core.sklearn_private import Interval, choices
from ..core.typing import ClassWeightLike, LossLike, RandomStateLike, SamplesLike
from ..distributed.bcfw import BCFWBlocks, LocalBCFW
from ..graphs.registry import GraphLike
from ..solvers.bcfw.solver import BCFW, BatchFrankWolfe, BCFWChoices, dual_set, with_truth
from ..solvers.run import run
from .base import fit_path, warm_copy
from .svm import CONSTRAINTS, StructuralSVM

# More gain little: the labellings of other samples have to move, too.
_PAIRWISE_STEPS = 20

Sampling = Literal["permutation", "uniform", "gap"]
Steps = Literal["pairwise", "frank-wolfe", "batch", "batch-open-loop"]


class BCFWSSVM(StructuralSVM):
    r"""Structural SVM trained by block-coordinate Frank-Wolfe, with a duality gap certificate.

    Minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_i s_i \max_y \left[ \Delta(y_i, y)
        + \langle w, \Phi(x_i, y) - \Phi(x_i, y_i) \rangle \right]

    with a task loss :math:`\Delta` and sample weights :math:`s_i`. Reported objectives and gaps
    are divided by :math:`C \sum_i s_i`. Read more in the :ref:`User Guide <solvers_guide>`.

    Parameters
    ----------
    graph : {"auto", "chain", "multiclass", "multilabel"} or Graph, default="auto"
        The structure, as in :class:`SAGCRF`.
    C : float, default=1.0
        Inverse of the regularisation strength; the papers' lambda is ``1 / (C n)``.
    loss : {"hamming", "normalized_hamming", "iou"}, dict, Series or array-like, default="hamming"
        Task loss: the number of wrong nodes; the same divided by the number of nodes; 1 - IoU with
        the true box (:class:`Candidates` and :class:`Boxes` only); a dict or Series from class to
        the cost of each wrong node of that class (1 for missing classes); or a matrix of shape
        (n_classes, n_classes) with the cost of predicting column k where row j is true, in the
        order of ``classes_`` (a DataFrame: by its labels).
    class_weight : dict, "balanced" or None, default=None
        Factor on the loss of each node, by the class of its true label; on a table on the hinge of
        each sample, as in LinearSVC. Keys and "balanced" are as in :class:`SAGCRF`. See
        :ref:`weights`.
    fit_intercept : bool, default=True
        Whether each label has a constant feature. Its weight is regularised like all others.
    max_iter : int, default=500
        Maximum number of passes over the data.
    tol : float, default=1e-2
        Stop when the duality gap is below this fraction of the objective.
    warm_start : bool, default=False
        Start from the dual point of the previous fit if it is valid for these data: the same true
        labels in the same samples, the same labellings (edges, forbidden steps) and `n_cached`. C,
        the loss, sample weights other than 0 and the features may differ. Otherwise training starts
        from scratch, since a dual method cannot start from weights. Pickles do not contain the dual
        point.
    n_jobs : int, default=None
        Threads for certificates and prediction. The steps are sequential.
    verbose : int, default=0
        If 1, print one line per epoch.
    random_state : int, RandomState instance or None, default=None
        Controls the order in which samples are visited. Pass an int for reproducible results.

    Attributes
    ----------
    coef_, intercept_, pairwise_coef_, boundary_coef_, node_weights_, pair_weights_ : ndarray
        Weights, as in :class:`SAGCRF`.
    graph_, inference_, training_inference_ : Graph, str, str
        The structure that was used, and its inference ("exact" or "relaxed"), as in SAGCRF.
    classes_, states_ : ndarray
        Labels, sorted; the label of each row of `coef_` (see :ref:`hidden_states`).
    Objective and history
    objective_, dual_objective_ : float
        The objective of the weights, and a lower bound on the optimum.
    dual_gap_ : float
        Their difference: a certificate, up to rounding.
    suboptimality_ : float
        ``dual_gap_ / objective_``, which `tol` bounds.
    n_oracle_calls_, n_cached_steps_ : int
        Oracle calls, certificates included, and visits that a cached labelling served.
    n_rounds_ : int
        With partial labels only: rounds of completing them and training. With shards only: rounds
        of training.
    n_bytes_ : int
        With shards only: bytes of weights sent to tasks and back, before zeros are left out.
    n_iter_ : int
        Passes run.
    history_ : dict of ndarray
        One entry per pass: ``passes`` (oracle calls over n), ``oracle_calls``, ``seconds``,
        ``dual_objective``; ``objective`` and ``dual_gap`` (NaN where there was no certificate).
    Data
    n_features_in_ : int
        Number of node features.
    feature_names_in_, edge_feature_names_in_, label_names_in_ : ndarray
        Names of features and label columns, if X or y has them.

    Other Parameters
    ----------------
    sampling : {"permutation", "uniform", "gap"}, default="permutation"
        Order of the visits: a new permutation per pass, independent draws, or draws in proportion
        to the samples' last gaps (Osokin et al., section 3.1).
    steps : {"pairwise", "frank-wolfe", "batch", "batch-open-loop"}, default="pairwise"
        "pairwise": several pairwise steps over the cached labellings at each visit, and every third
        pass a step along the direction of the last passes; the weights are a mean of the last
        passes where that is better. "frank-wolfe": the single step of the original method. "batch"
        and "batch-open-loop" are baselines: one Frank-Wolfe step for all samples at once, by line
        search or of ``2 / (k + 2)`` (Algorithm 2 of [1]_). These store nothing per sample, need
        very many passes, and ignore `sampling` and the parameters of caches.
    n_cached : int, default=30
        Number of labellings cached per sample. Their inner products take ``4 n_cached (n_cached +
        1)`` bytes.
    oracle_cache : bool, default=False
        Whether a cached labelling replaces an oracle call when it promises enough progress (section
        3.2). Useful where oracle calls cost much more than potentials.
    averaging : bool, default=False
        Whether to maintain the weighted average of the iterates and return it where it is better.
    gap_every : int, default=5
        Passes between certificates, each of which costs one pass of oracle calls.

    See Also
    --------
    skstruct.estimators.bcfw_path : Fits for a sequence of C, each from the one before.
    skstruct.GDMMSSVM : Structural SVMs with very many labels.
    skstruct.CasimirSSVM : Smoothed structural SVMs by an accelerated method.
    skstruct.SAGCRF : Conditional random fields, with probabilities.

    Notes
    -----
    With missing labels or sets of labels in y, the latent hinge is minimised in rounds of
    completing the labels and training (:ref:`partial_labels`): `max_iter` counts the passes of all
    rounds, and the bounds are for the completed labels of the best round. ``history_["round"]`` is
    the round of each entry. A warm start uses the previous weights for the first completion.

    With :class:`~skstruct.datasets.Shards` the weights go to a worker, which visits the samples of
    as many shards as it can hold, and on to the next worker if there are more. If one worker holds
    all, a round is three passes, otherwise part of one. Dual points stay with the workers, and in
    files: in `checkpoint`, or during the fit in the folder of the shards, where all workers must be
    able to write (on one machine with a read-only folder, among temporary files). `averaging`,
    `warm_start`, ``sampling="gap"`` and attractive interactions need all samples in memory.
    ``history_`` has one entry per round, or per pass of several rounds, with ``rounds`` and
    ``bytes``.

    References
    ----------
    .. [1] Lacoste-Julien, Jaggi, Schmidt, Pletscher (2013). Block-Coordinate Frank-Wolfe
       Optimization for Structural SVMs. ICML. Algorithms 2 (batch) and 4.
    .. [2] Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien (2016). Minding the Gaps for Block
       Frank-Wolfe Optimization of Structured SVMs. ICML. Sections 3.1 to 3.3.
    .. [3] Shah, Kolmogorov, Lampert (2015). A Multi-plane Block-coordinate Frank-Wolfe Algorithm
       for Training Structural SVMs with a Costly max-Oracle. CVPR. Section 3.4: inner products.
    .. [4] Bertrand, Massias (2021). Anderson Acceleration of Coordinate Descent. AISTATS.
    .. [5] Jaggi, Smith, Takac, Terhorst, Krishnan, Hofmann, Jordan (2014). Communication-Efficient
       Distributed Dual Coordinate Ascent. NeurIPS. Algorithm 1.
    .. [6] Ma, Smith, Jaggi, Jordan, Richtarik, Takac (2015). Adding vs. Averaging in Distributed
       Primal-Dual Optimization. ICML. Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> svm = BCFWSSVM(C=0.1, random_state=0).fit(X, y)
    >>> bool(svm.dual_gap_ <= 0.01 * svm.objective_)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **CONSTRAINTS,
        "sampling": [choices(Sampling)],
        "steps": [choices(Steps)],
        "n_cached": [Interval(Integral, 1, None, closed="left")],
        "oracle_cache": ["boolean"],
        "averaging": ["boolean"],
        "gap_every": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        graph: GraphLike = "auto",
        *,
        C: float = 1.0,
        loss: LossLike = "hamming",
        class_weight: ClassWeightLike = None,
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-2,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomStateLike = None,
        sampling: Sampling = "permutation",
        steps: Steps = "pairwise",
        n_cached: int = 30,
        oracle_cache: bool = False,
        averaging: bool = False,
        gap_every: int = 5,
    ) -> None:
        self.graph = graph
        self.C = C
        self.loss = loss
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.sampling = sampling
        self.steps = steps
        self.n_cached = n_cached
        self.oracle_cache = oracle_cache
        self.averaging = averaging
        self.gap_every = gap_every

    _keeps_cone = _takes_relaxations = True

    def _check_problem(self, problem):
        super()._check_problem(problem)
        self._require(gram, problem, "use SubgradientSSVM")
        if self._is_batch:
            self._check_batch(problem)

    @property
    def _is_batch(self):
        return self.steps.startswith("batch")

    def _check_batch(self, problem):
        """Raise a ValueError for options that batch steps do not have."""
        refused = {
            "a relaxation": relaxed_oracle.supports(problem),
            "attractive interactions": self.graph_.pair_cone(self.classes_) is not None,
            "missing labels": self._is_latent,
            "averaging": self.averaging,
        }
        for what, is_there in refused.items():
            if is_there:
                raise ValueError(f'steps={self.steps!r} is not for {what}: use "frank-wolfe"')

    _is_latent = False

    def _make_problem(self, data):
        self._is_latent = data.completion is not None
        return super()._make_problem(data)

    _multiplies_rows = True
    _blocks = BCFWBlocks
    _on_shards: ClassVar[dict] = {"warm_start": False, "averaging": False}

    def _refuse_shards(self, shards):
        super()._refuse_shards(shards)
        if self._is_batch:
            raise ValueError(
                f'BCFWSSVM.fit(Shards): steps must be "pairwise" or "frank-wolfe", got '
                f"{self.steps!r}"
            )
        if self.sampling == "gap":
            raise ValueError(
                'BCFWSSVM.fit(Shards): sampling must be "permutation" or "uniform"; gaps are not '
                "compared between shards"
            )

    def _choices(self):
        pairwise = _PAIRWISE_STEPS if self.steps == "pairwise" else 0
        return BCFWChoices(self.sampling, pairwise, self.n_cached, self.oracle_cache)

    def _local(self, n_labels):
        return LocalBCFW(self._choices())

    def _start(self, previous, problem, shapes):
        """Return the dual point of the previous fit, if it is one of this problem."""
        if self._is_latent:
            return super()._start(previous, problem, shapes)
        if previous is None:
            return None
        dual, known = getattr(previous, "_dual", (None, None))
        self._dual = None, dual_set(problem)
        if dual is None or known != self._dual[1]:
            return None
        # A copy: if this fit fails, the previous point is still whole.
        return type(dual)(*(part.copy() for part in dual))

    _takes_partial_labels = True
    # From round to round the mixtures of labellings stay, and more of the work than with weights.
    _carry_over = staticmethod(with_truth)

    def _first_state(self, weights):
        return None

    def _solve_round(self, *task, start, **common):
        if self._is_batch:
            method = BatchFrankWolfe(*task, self.n_jobs, line_search=self.steps == "batch")
            return run(method, **common), None
        method = BCFW(
            *task,
            self.n_jobs,
            choices=self._choices(),
            start=start,
            cone=self.graph_.pair_cone(self.classes_),
            averaging=self.averaging,
            gap_every=self.gap_every,
        )
        return run(method, rng=self._generator(), **common), method.dual_point()

    def _solve(self, *task, **common):
        result, dual = self._solve_round(*task, **common)
        if self.warm_start:
            self._dual = dual, self._dual[1]
        return result

    def __getstate__(self):
        # As large as the data, and of use for training only.
        return {name: value for name, value in super().__getstate__().items() if name != "_dual"}


def bcfw_path(
    estimator: BCFWSSVM,
    X: SamplesLike,
    y: SamplesLike,
    Cs: Iterable[float],
    *,
    sample_weight: ArrayLike | None = None,
    node_weight: SamplesLike | None = None,
) -> list[BCFWSSVM]:
    """Fits for a sequence of C, each started from the dual point of the one before.

    Read more in the :ref:`User Guide <model_selection_guide>`.

    Parameters
    ----------
    estimator : BCFWSSVM
        Its parameters other than `C` and `warm_start` are used; it is left as it is.
    X, y, Cs, sample_weight, node_weight : object
        As in :func:`skstruct.estimators.crf_path`.

    Returns
    -------
    list of BCFWSSVM
        One fitted estimator per value, each with its own certificate.

    Raises
    ------
    ValueError
        If `Cs` is no sequence, or empty.
    TypeError
        If the estimator is another one, such as a pipeline.

    See Also
    --------
    skstruct.BCFWSSVM : Structural SVMs with a certified duality gap.
    skstruct.inspection.ConvergenceDisplay : Objective and gap against passes.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import BCFWSSVM
    >>> from skstruct.estimators import bcfw_path
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> path = bcfw_path(BCFWSSVM(random_state=0), X, y, [0.01, 0.1, 1.0])
    >>> [svm.C for svm in path]
    [0.01, 0.1, 1.0]
    """
    model = warm_copy(estimator, BCFWSSVM)
    # The dual point stays with the model that the next fit starts from.
    return fit_path(estimator, model, (X, y, sample_weight, node_weight), Cs, left_out={"_dual"})
