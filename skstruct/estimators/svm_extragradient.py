"""ExtragradientSSVM: structural SVMs as saddle points."""

from __future__ import annotations

from numbers import Real
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from ..core.sklearn_private import Interval, StrOptions
from ..core.typing import ClassWeightLike, LossLike
from ..graphs.registry import GraphLike
from ..losses.hinge import PROJECTIONS, choose_projection
from ..solvers.extragradient import Extragradient
from ..solvers.run import run
from .svm import CONSTRAINTS, StructuralSVM

Projection = Literal["auto", "gibbs", "euclidean"]


class ExtragradientSSVM(StructuralSVM):
    r"""Structural SVM trained by the dual extragradient method, with projections as oracles.

    Minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_i s_i \max_y \left[ \Delta(y_i, y)
        + \langle w, \Phi(x_i, y) - \Phi(x_i, y_i) \rangle \right],

    or with a `radius` the mean of the maxima over the ball :math:`\|w\| \le r`, as the saddle point
    of w and one mixture of labellings per sample. Reported objectives and gaps are divided
    by :math:`C \sum_i s_i`. It takes more passes than :class:`BCFWSSVM`, with a large `C` several
    times as many (:ref:`passes`). Read more in the :ref:`User Guide <solvers_guide>`.

    Parameters
    ----------
    graph : {"auto", "chain", "multiclass", "multilabel"} or Graph, default="auto"
        The structure, as in :class:`SAGCRF`.
    C : float, default=1.0
        Inverse of the regularisation strength; the papers' lambda is ``1 / (C n)``. Not used
        with a `radius`.
    radius : float, default=None
        Largest norm of the weights, in place of C. A model trained with C whose weights have the
        norm R is the one with ``radius=R``.
    loss : {"hamming", "normalized_hamming", "iou"}, dict, Series or array-like, default="hamming"
        Task loss, as in :class:`BCFWSSVM`; it must be a sum over nodes and edges (parts).
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, as in :class:`BCFWSSVM`.
    fit_intercept : bool, default=True
        Whether each label has a constant feature. Its weight is regularised like all others.
    max_iter : int, default=1000
        Maximum number of iterations, of two passes each.
    tol : float, default=1e-2
        Stop when the duality gap is below this fraction of the objective.
    warm_start : bool, default=False
        Start from the previous weights, as in :class:`SAGCRF`.
    n_jobs : int, default=None
        Threads that share each pass. The weights are the same for any number, bit for bit.
    verbose : int, default=0
        If 1, print one line per epoch.

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
    projection_ : str
        The projection that was used.
    step_size_ : float
        The step size of the next iteration.
    n_restarts_ : int
        Number of restarts from averages.
    n_oracle_calls_ : int
        Oracle calls, including those of certificates and of rejected steps.
    n_iter_ : int
        Iterations run.
    history_ : dict of ndarray
        One entry per iteration: ``passes`` (oracle calls over n), ``oracle_calls``, ``seconds``,
        ``objective`` (of the averaged weights, NaN where it was not measured; the last entry is
        that of the final weights), ``dual_objective`` and ``dual_gap`` (of the best so far) and
        ``step_size``.
    Data
    n_features_in_ : int
        Number of node features.
    feature_names_in_, edge_feature_names_in_, label_names_in_ : ndarray
        Names of features and label columns, if X or y has them.

    Other Parameters
    ----------------
    projection : {"auto", "gibbs", "euclidean"}, default="auto"
        Bregman projection of the mixtures onto the hull of labellings: that of the entropy of
        labellings (marginals of a Gibbs distribution), or the Euclidean one, which matchings and
        attractive graphs have. "auto" uses the first that the structure has.
    step_size : float or "auto", default="auto"
        Increase of the weight of the task loss in the potentials per iteration. "auto" halves it
        when the extragradient test fails and lets it grow slowly otherwise. A number is used
        without a test.
    restarts : bool, default=True
        Whether averages become the start where the gap has fallen far enough, and in a ball are of
        the last half of the steps. Without restarts, with a `radius` and a `step_size`, this is
        Algorithm 1 of [2]_: one centre, and the plain average of all iterates.

    See Also
    --------
    skstruct.BCFWSSVM : Structural SVMs with a certified duality gap.
    skstruct.Matching : The structure of links between two sides.

    Notes
    -----
    With mixtures m_i of labellings, their parts mu_i and task losses l_i the saddle point is

    .. math::

        \min_w \max_m \; \tfrac\lambda2 \|w\|^2 + \tfrac1n \sum_i s_i
        \left[ \langle A_i w, \mu_i - \mu(y_i) \rangle + \langle l_i, \mu_i \rangle \right]

    Each iteration moves to intermediate points, and from its start again along the gradients there.
    The mixtures are projections of the potentials ``A_i z + c l_i``, where z sums the weights of
    all steps, so that memory holds only vectors of the size of w in addition to the data. The
    regulariser is not linearised, so that steps can grow; their test is that of mirror-prox [3]_,
    with the divergence of the projection. The certificate compares the weights averaged by step
    size with the best mixture of the averaged dual points. Where the gap has fallen far enough, the
    averages are a new start.

    References
    ----------
    .. [1] Taskar, Lacoste-Julien, Jordan (2006). Structured Prediction, Dual Extragradient and
       Bregman Projections. JMLR. Figure 2, sections 4 and 5.
    .. [2] Boileau, Lamouchi, St-Arnaud (2019). Scalability of Struct SVM Approaches. Course report,
       not reviewed. Algorithm 1.
    .. [3] Nemirovski (2004). Prox-Method with Rate of Convergence O(1/t) for Variational
       Inequalities with Lipschitz Continuous Monotone Operators and Smooth Convex-Concave Saddle
       Point Problems. SIAM Journal on Optimization.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import ExtragradientSSVM
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> svm = ExtragradientSSVM(C=0.1).fit(X, y)
    >>> bool(svm.dual_gap_ <= 0.01 * svm.objective_)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **{name: kind for name, kind in CONSTRAINTS.items() if name != "random_state"},
        # Its square is a float, too.
        "radius": [None, Interval(Real, 1e-100, 1e100, closed="both")],
        "projection": [StrOptions({"auto", *PROJECTIONS})],
        "step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "restarts": ["boolean"],
    }

    def __init__(
        self,
        graph: GraphLike = "auto",
        *,
        C: float = 1.0,
        radius: float | None = None,
        loss: LossLike = "hamming",
        class_weight: ClassWeightLike = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-2,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        projection: Projection = "auto",
        step_size: float | Literal["auto"] = "auto",
        restarts: bool = True,
    ) -> None:
        self.graph = graph
        self.C = C
        self.radius = radius
        self.loss = loss
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.projection = projection
        self.step_size = step_size
        self.restarts = restarts

    _keeps_cone = True

    def _check_problem(self, problem):
        super()._check_problem(problem)
        self.projection_ = choose_projection(self.projection, problem, type(self.graph_))

    def _penalty(self, lam):
        return super()._penalty(lam if self.radius is None else 0.0)

    def _solve(self, *task, start, **common):
        method = Extragradient(
            *task,
            self.n_jobs,
            start=start,
            cone=self.graph_.pair_cone(self.classes_),
            projection=self.projection_,
            radius=None if self.radius is None else float(self.radius),
            step_size=None if self.step_size == "auto" else float(self.step_size),
            restarts=bool(self.restarts),
        )
        # BLAS threads wait for each other in short vector operations, most of all where another
        # process has the cores.
        with np.errstate(over="ignore", invalid="ignore"), threadpool_limits(1, user_api="blas"):
            return run(method, **common)
