"""CasimirSSVM: structural SVMs by accelerated SVRG on a smoothed hinge."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal

from ..core.oracles import gram, top_k_oracle
from ..core.sklearn_private import Interval, Options, StrOptions, choices
from ..core.typing import ClassWeightLike, LossLike, RandomStateLike
from ..graphs.registry import GraphLike
from ..losses.hinge import hinge_of, smooth_hinge
from ..solvers.casimir import CasimirOptions, HingeCasimir
from ..solvers.run import run
from .svm import CONSTRAINTS, Smoothing, StructuralSVM, WarmStart

Variant = Literal["adaptive", "constant", "svrg"]
Sampling = Literal["permutation", "uniform"]
InnerIterate = Literal["last", "average"]


class CasimirSSVM(StructuralSVM):
    r"""Structural SVM trained by Casimir-SVRG: smoothing, acceleration, variance reduction.

    Minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_i s_i \max_y \left[ \Delta(y_i, y)
        + \langle w, \Phi(x_i, y) - \Phi(x_i, y_i) \rangle \right].

    Reported objectives and gaps are divided by :math:`C \sum_i s_i`. The residuals of each
    snapshot are a dual point, which certifies this primal method. With a large `C`
    :class:`BCFWSSVM` needs fewer passes (:ref:`passes`). Read more in the :ref:`User Guide
    <solvers_guide>`.

    Parameters
    ----------
    graph : {"auto", "chain", "multiclass", "multilabel"} or Graph, default="auto"
        The structure, as in :class:`SAGCRF`.
    C : float, default=1.0
        Inverse of the regularisation strength; the papers' lambda is ``1 / (C n)``. ``np.inf``
        trains without regularisation (lambda = 0).
    loss : {"hamming", "normalized_hamming", "iou"}, dict, Series or array-like, default="hamming"
        Task loss, as in :class:`BCFWSSVM`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, as in :class:`BCFWSSVM`.
    fit_intercept : bool, default=True
        Whether each label has a constant feature. Its weight is regularised like all others.
    max_iter : int, default=200
        Maximum number of outer iterations, each of a snapshot and a pass of steps (two effective
        passes).
    tol : float, default=1e-2
        Stop when the duality gap is below this fraction of the objective.
    warm_start : bool, default=False
        Start from the previous weights, as in :class:`SAGCRF`.
    n_jobs : int, default=None
        Threads for snapshots, objectives and prediction: the same weights for any number. The steps
        are sequential.
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
        The objective of the weights, the best seen, and a lower bound on the optimum.
    dual_gap_ : float
        Their difference: a certificate, up to rounding.
    suboptimality_ : float
        ``dual_gap_ / objective_``, which `tol` bounds.
    kappa_, smoothing_strength_ : float
        The weight of the proximal term and nu in the last iteration.
    exact_share_ : float
        Fraction of oracle calls for which `n_best` labellings gave the exact smoothing.
    n_oracle_calls_ : int
        Oracle calls.
    n_rounds_ : int
        With partial labels only: rounds of completing them and training.
    n_iter_ : int
        Passes run.
    history_ : dict of ndarray
        One entry per outer iteration: ``passes`` (oracle calls over n), ``oracle_calls``,
        ``seconds``, ``objective`` (of the iterate; the last entry is that of the final weights),
        ``dual_objective`` and ``dual_gap`` (of the best so far), ``smoothed_objective`` (at the
        snapshot, NaN if that was cut short) and ``exact_share``.
    Data
    n_features_in_ : int
        Number of node features.
    feature_names_in_, edge_feature_names_in_, label_names_in_ : ndarray
        Names of features and label columns, if X or y has them.

    Other Parameters
    ----------------
    variant : {"adaptive", "constant", "svrg"}, default="adaptive"
        Smoothing that shrinks by iteration, constant smoothing, or SVRG on the smoothed objective
        without acceleration.
    smoothing : {"l2", "entropy"}, default="l2"
        L2 smoothing over the `n_best` best labellings, or entropy smoothing, which needs an exp
        oracle.
    n_best : int, default=5
        Labellings of the top-K oracle.
    smoothing_strength : float, default=2.0
        The initial strength nu of the smoothing, from 1e-100 to 1e100. 0 runs the same algorithm on
        the non-smooth hinge itself (figure 5 (b) of [1]_): this requires a `learning_rate`, and a
        `kappa` unless `variant` is "svrg", and has no convergence guarantee.
    kappa : float, default=None
        Weight of the proximal term, the same in all iterations. By default it comes from the
        measured smoothness (Proposition 29). If the smoothing is adaptive and C finite, it falls
        from 10 lambda to lambda, the paper's, and with ``learning_rate="auto"`` it grows late in a
        run, see Notes.
    warm_start_strategy : {"prox-center", "extrapolation", "previous"}, default="prox-center"
        Where the inner solver starts.
    learning_rate : float or "auto", default="auto"
        Learning rate of the inner solver. "auto" is ``1 / (L + lambda + kappa)``, where L is twice
        the mean smoothness constant of the losses: for top-K measured by the diameters of the sets
        of labellings found, for entropy by backtracking. With adaptive smoothing and finite C,
        "auto" begins with a fraction of that rate, which grows while the objective falls slowly,
        and is halved when it rises; see Notes.
    sampling : {"permutation", "uniform"}, default="permutation"
        Order of a pass of steps: a new permutation, or draws with replacement as in [1]_ (SVRG,
        section 5.3). Draws may take more passes (:ref:`variants`).
    inner_iterate : {"last", "average"}, default="last"
        Where a pass of steps ends, and the next snapshot is taken: at its last iterate, or at the
        mean of all, as in section 7.2 of [1]_. A mean costs a second visit to the rows of weights,
        and is not available for attractive interactions.
    inner_passes : int or "accuracy", default=1
        Passes of steps on each subproblem, each with a snapshot before it. "accuracy" makes passes
        until the relative accuracy (26) of [1]_ is reached, by the norm of the gradient, and 20 at
        most; the paper's experiments make one.

    See Also
    --------
    skstruct.BCFWSSVM : Structural SVMs with a certified duality gap.
    skstruct.SAGCRF : Conditional random fields, with probabilities.
    skstruct.ProxLinearSSVM : Structural SVMs with non-linear scores.

    Notes
    -----
    The method is Catalyst acceleration [2]_ of SVRG [3]_ on smoothed hinges. The defaults follow
    [1]_ except for adaptive smoothing, whose learning rate is tuned there (section 7.3): a rate
    proportional to nu stalls where lambda n is small, and the best constant rate depends on the
    task. Here the rate follows the objective, which is measured after each iteration (not counted
    as passes). Until its third rise nu is at least 0.3 of its first value times the fraction, and
    kappa falls by a tenth per iteration from 10 lambda to lambda, its value in [1]_; later kappa is
    at least ``L / (10 n)``, so that the condition number of a subproblem is of the order of n, as
    in Proposition 29. Where the regulariser is more than half of the objective, weights scaled by a
    common factor replace the weights if they are better: for small lambda, decay alone takes
    thousands of passes.

    References
    ----------
    .. [1] Pillutla, Roulet, Kakade, Harchaoui (2019). A Smoother Way to Train Structured Prediction
       Models. arXiv:1902.03228, Algorithm 4 and Corollaries 17 to 20; a short version is in NeurIPS
       2018.
    .. [2] Lin, Mairal, Harchaoui (2018). Catalyst Acceleration for First-order Convex Optimization:
       from Theory to Practice. JMLR.
    .. [3] Johnson, Zhang (2013). Accelerating Stochastic Gradient Descent using Predictive Variance
       Reduction. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import CasimirSSVM
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> svm = CasimirSSVM(C=0.1, tol=0.05, random_state=0).fit(X, y)
    >>> bool(svm.dual_gap_ <= 0.05 * svm.objective_)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **CONSTRAINTS,
        "C": [Interval(Real, 0, None, closed="right")],
        "variant": [choices(Variant)],
        "smoothing": [choices(Smoothing)],
        "n_best": [Interval(Integral, 1, None, closed="left")],
        "smoothing_strength": [Interval(Real, 1e-100, 1e100, closed="both"), Options(Real, {0})],
        "kappa": [None, Interval(Real, 0, None, closed="neither")],
        "warm_start_strategy": [choices(WarmStart)],
        "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "sampling": [choices(Sampling)],
        "inner_iterate": [choices(InnerIterate)],
        "inner_passes": [StrOptions({"accuracy"}), Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        graph: GraphLike = "auto",
        *,
        C: float = 1.0,
        loss: LossLike = "hamming",
        class_weight: ClassWeightLike = None,
        fit_intercept: bool = True,
        max_iter: int = 200,
        tol: float = 1e-2,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomStateLike = None,
        variant: Variant = "adaptive",
        smoothing: Smoothing = "l2",
        n_best: int = 5,
        smoothing_strength: float = 2.0,
        kappa: float | None = None,
        warm_start_strategy: WarmStart = "prox-center",
        learning_rate: float | Literal["auto"] = "auto",
        sampling: Sampling = "permutation",
        inner_iterate: InnerIterate = "last",
        inner_passes: int | Literal["accuracy"] = 1,
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
        self.variant = variant
        self.smoothing = smoothing
        self.n_best = n_best
        self.smoothing_strength = smoothing_strength
        self.kappa = kappa
        self.warm_start_strategy = warm_start_strategy
        self.learning_rate = learning_rate
        self.sampling = sampling
        self.inner_iterate = inner_iterate
        self.inner_passes = inner_passes

    _keeps_cone = _takes_partial_labels = True

    def _check_problem(self, problem):
        super()._check_problem(problem)
        self._require(gram, problem, "use SubgradientSSVM")
        if self.smoothing_strength > 0:
            self._check_smoothing(problem, "BCFWSSVM")
        else:
            self._require(top_k_oracle, problem, "use BCFWSSVM")
        cone = self.graph_.pair_cone(self.classes_)
        if self.inner_iterate == "average" and cone is not None:
            raise ValueError(
                'inner_iterate="average" cannot keep interactions attractive: use "last"'
            )
        self._check_strength()

    def _check_strength(self):
        """Reject choices that only smoothing allows."""
        if self.smoothing_strength == 0:
            if self.learning_rate == "auto":
                raise ValueError("smoothing_strength=0 needs a learning_rate: nothing is smooth")
            if self.kappa is None and self.variant != "svrg":
                raise ValueError('smoothing_strength=0 needs a kappa, or variant="svrg"')

    def _solve(self, problem, shapes, sample_weight, lam, *, start, **common):
        smooth = self.smoothing_strength > 0
        choices = self.smoothing, self.smoothing_strength, self.n_best
        method = HingeCasimir(
            *(problem, shapes, sample_weight, lam, self.n_jobs),
            # The best labelling alone is not smoothed, whatever the strength.
            loss=smooth_hinge(*(choices if smooth else ("l2", 1.0, 1)), problem),
            target=hinge_of(problem),
            options=CasimirOptions(
                self.variant,
                self.smoothing_strength,
                self.kappa,
                self.warm_start_strategy,
                None if self.learning_rate == "auto" else float(self.learning_rate),
                self.inner_iterate == "average",
                None if self.inner_passes == "accuracy" else self.inner_passes,
                self.sampling == "uniform",
            ),
            start=start,
            cone=self.graph_.pair_cone(self.classes_),
            tol=common["tol"],
        )
        return run(method, rng=self._generator(), **common)
