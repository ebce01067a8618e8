"""SubgradientSSVM: structural SVMs by stochastic subgradients, the common baseline."""

from __future__ import annotations

from numbers import Real
from typing import Literal

from ..core.sklearn_private import Interval, choices
from ..core.typing import ClassWeightLike, LossLike, RandomStateLike
from ..graphs.registry import GraphLike
from ..losses.hinge import hinge_of
from ..solvers.run import run
from ..solvers.sgd import SGD
from .partial_fit import Streaming
from .svm import CONSTRAINTS, StructuralSVM

Schedule = Literal["pegasos", "decay"]


class SubgradientSSVM(Streaming, StructuralSVM):
    r"""Structural SVM trained by stochastic subgradient descent (Pegasos, averaged SGD).

    Minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_i s_i \max_y \left[ \Delta(y_i, y)
        + \langle w, \Phi(x_i, y) - \Phi(x_i, y_i) \rangle \right].

    Reported objectives are divided by :math:`C \sum_i s_i`. There is no certificate: use
    BCFWSSVM or CasimirSSVM for one. Read more in the :ref:`User Guide <solvers_guide>`.

    Parameters
    ----------
    graph : {"auto", "chain", "multiclass", "multilabel"} or Graph, default="auto"
        The structure, as in :class:`SAGCRF`.
    C : float, default=1.0
        Inverse of the regularisation strength; the papers' lambda is ``1 / (C n)``.
    loss : {"hamming", "normalized_hamming", "iou"}, dict, Series or array-like, default="hamming"
        Task loss, as in :class:`BCFWSSVM`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, as in :class:`BCFWSSVM`.
    fit_intercept : bool, default=True
        Whether each label has a constant feature. Its weight is regularised like all others.
    max_iter : int, default=100
        Maximum number of passes over the data.
    tol : float, default=1e-3
        Stop when five passes have not improved the best objective by this fraction; with 0 all
        passes are run.
    warm_start : bool, default=False
        Start from the previous weights, as in :class:`SAGCRF`.
    n_jobs : int, default=None
        Threads for objectives and prediction. The steps are sequential.
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
    objective_ : float
        The objective of the weights, the best one seen.
    n_oracle_calls_ : int
        Oracle calls.
    n_iter_ : int
        Passes run.
    history_ : dict of ndarray
        One entry per pass: ``passes``, ``oracle_calls``, ``seconds``, ``objective``.
    Data
    n_features_in_ : int
        Number of node features.
    feature_names_in_, edge_feature_names_in_, label_names_in_ : ndarray
        Names of features and label columns, if X or y has them.
    n_samples_seen_ : int
        Samples of nonzero weight, in `fit` or in all calls of `partial_fit`.

    Other Parameters
    ----------------
    schedule : {"pegasos", "decay"}, default="pegasos"
        Learning rate ``1 / (lambda (t + 1))`` at step t, or ``learning_rate / (1 + floor(t / (n
        period)))``.
    learning_rate : float, default=0.1
        Initial rate of the schedule "decay"; `partial_fit` begins with it, too.
    period : float, default=1.0
        Passes after which the schedule "decay" lowers the rate.
    averaging : bool, default=True
        Whether the average of the iterates, weighted by t, is returned.

    See Also
    --------
    skstruct.BCFWSSVM : Structural SVMs with a certified duality gap.
    skstruct.CasimirSSVM : Smoothed structural SVMs by an accelerated method.

    References
    ----------
    .. [1] Shalev-Shwartz, Singer, Srebro, Cotter (2011). Pegasos: primal estimated sub-gradient
       solver for SVM. Mathematical Programming. Figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SubgradientSSVM
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> svm = SubgradientSSVM(C=0.1, random_state=0).fit(X, y)
    >>> bool(svm.objective_ > 0)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **CONSTRAINTS,
        "schedule": [choices(Schedule)],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "period": [Interval(Real, 0, None, closed="neither")],
        "averaging": ["boolean"],
    }

    def __init__(
        self,
        graph: GraphLike = "auto",
        *,
        C: float = 1.0,
        loss: LossLike = "hamming",
        class_weight: ClassWeightLike = None,
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-3,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomStateLike = None,
        schedule: Schedule = "pegasos",
        learning_rate: float = 0.1,
        period: float = 1.0,
        averaging: bool = True,
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
        self.schedule = schedule
        self.learning_rate = learning_rate
        self.period = period
        self.averaging = averaging

    _keeps_cone = _takes_partial_labels = _takes_relaxations = True

    def _stream_rate(self):
        return float(self.learning_rate) if self.schedule == "decay" else None

    def _solve_partial(self, problem, shapes, data, **common):
        task = problem, shapes, data.sample_weight, data.lam
        return self._solve(*task, loss=data.completion.latent_hinge(), **common)

    def _solve(self, *task, start, loss=None, **common):
        method = SGD(
            *task,
            self.n_jobs,
            loss=hinge_of(task[0]) if loss is None else loss,
            start=start,
            cone=self.graph_.pair_cone(self.classes_),
            rate=self.learning_rate,
            period=self.period if self.schedule == "decay" else 0.0,
            averaging=self.averaging,
        )
        return run(method, rng=self._generator(), **common)
