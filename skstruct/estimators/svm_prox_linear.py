"""ProxLinearSSVM: structural SVMs on scores that are not linear in the features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..core.sklearn_private import Interval, StrOptions, choices
from ..core.typing import ClassWeightLike, LossLike, RandomStateLike
from ..core.weights import Weights
from ..data.matrices import readable
from ..data.packing import rows_as_scores, sample_of
from ..graphs.registry import GraphLike
from ..losses.hinge import hinge_of, smooth_hinge
from ..scores import ConvMap, LinearMap, MLPMap, ScoreMap, check_products, guarded
from ..solvers.prox_linear import MappedProblem, MappedSubgradient, MapWeights, ProxLinear
from ..solvers.run import run
from .persistence import check_shapes
from .svm import CONSTRAINTS, Smoothing, StructuralSVM, WarmStart
from .warm_start import first_map_weights

_NAMED = {"linear": LinearMap, "mlp": MLPMap, "conv": ConvMap}


def _as_score_map(given: Any) -> ScoreMap:
    """Return a new map of the requested kind."""
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]()
    if isinstance(given, ScoreMap):
        return clone(given)
    if any(kind.__module__.startswith("torch.nn") for kind in type(given).__mro__):
        from ..torch import ModuleMap

        return ModuleMap(given)
    raise TypeError(
        f"score_map must be one of {sorted(_NAMED)}, a ScoreMap or a torch Module, got {given!r}"
    )


Solver = Literal["prox-linear", "subgradient"]
SmoothingSchedule = Literal["constant", "inverse"]
Schedule = Literal["constant", "inverse", "sqrt"]


class ProxLinearSSVM(StructuralSVM):
    r"""Structural SVM with non-linear scores: a hidden layer, a convolution, a network.

    Minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_i s_i \max_y \left[ \Delta(y_i, y)
        + \langle f(x_i; w), \mu(y) - \mu(y_i) \rangle \right],

    where the map f gives the scores of all labels at all nodes, and w has the parameters of the map
    and the weights of pairs. Reported objectives are divided by :math:`C \sum_i s_i`. It
    is not convex: the solution depends on where training starts, and has no certificate. With
    linear scores :class:`BCFWSSVM` needs far fewer passes (:ref:`passes`). Read more in the
    :ref:`User Guide <nonlinear_guide>`.

    Parameters
    ----------
    graph : {"auto", "chain", "multiclass", "multilabel"} or Graph, default="auto"
        The structure, as in :class:`SAGCRF`.
    score_map : {"linear", "mlp", "conv"}, ScoreMap or torch Module, default="linear"
        Map from features to scores: :class:`~skstruct.scores.LinearMap`,
        :class:`~skstruct.scores.MLPMap`, :class:`~skstruct.scores.ConvMap`, an instance of one of
        these for its options, or any :class:`~skstruct.scores.ScoreMap`.
    C : float, default=1.0
        Inverse of the regularisation; the papers' lambda is ``1 / (C n)``.
    loss : {"hamming", "normalized_hamming", "iou"}, dict, Series or array-like, default="hamming"
        Task loss, as in :class:`BCFWSSVM`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, as in :class:`BCFWSSVM`.
    solver : {"prox-linear", "subgradient"}, default="prox-linear"
        Prox-linear steps, or stochastic subgradients, the baseline.
    fit_intercept : bool, default=True
        Whether the map has constant terms. They are regularised like all others.
    max_iter : int, default=100
        Maximum number of outer steps, or of passes of the solver "subgradient".
    tol : float, default=1e-1
        Stop when the stationarity, ``|w_k - w_{k+1}| / eta``, and the norm of the gradient of the
        smoothed objective are below this fraction of ``lambda |w|``: on a linear map the smoothed
        objective is then within this fraction squared, of ``lambda/2 |w|^2``, of its optimum. The
        solver "subgradient" stops when five passes have not improved the best objective by this
        fraction.
    warm_start : bool, default=False
        Start from the previous weights, as in :class:`SAGCRF`; maps that are not linear start from
        scratch if anything has changed.
    n_jobs : int, default=None
        Threads for passes over all samples, and for prediction. The steps are sequential.
    verbose : int, default=0
        If 1, print one line per outer step.
    random_state : int, RandomState instance or None, default=None
        Controls initial parameters and batches. Pass an int for reproducible results.

    Attributes
    ----------
    score_map_ : ScoreMap
        The map that was used.
    score_params_ : ndarray of shape (n_params,)
        Its parameters.
    coef_, intercept_ : ndarray
        Weights of a :class:`~skstruct.scores.LinearMap`, views as in other estimators.
    pairwise_coef_, boundary_coef_, end_weights_, pair_weights_ : ndarray
        Weights of pairs of labels, scores at the ends, and the tables behind them.
    graph_, inference_, training_inference_ : Graph, str, str
        The structure that was used, and its inference ("exact" or "relaxed"), as in SAGCRF.
    classes_, states_ : ndarray
        Labels, sorted; the label of each row of `coef_` (see :ref:`hidden_states`).
    Objective and history
    objective_ : float
        The objective of the weights, the best one seen: of the hinge itself, not of a smoothed one.
    stationarity_, gradient_norm_ : float
        Final values of ``|w_k - w_{k+1}| / eta``, and of the norm of the smoothed objective's
        gradient.
    step_size_, smoothing_strength_ : float
        Final values of eta and nu.
    n_oracle_calls_ : int
        Oracle calls.
    n_iter_ : int
        Outer steps, or passes.
    history_ : dict of ndarray
        One entry per outer step: ``passes`` (oracle calls over n), ``oracle_calls``, ``seconds``,
        ``objective``, ``stationarity``, ``gradient_norm``, ``eta`` and ``smoothing_strength``; for
        the solver "subgradient" one per pass, with ``learning_rate`` instead of the last four.
    Data
    n_features_in_ : int
        Number of node features.
    feature_names_in_, edge_feature_names_in_, label_names_in_ : ndarray
        Names of features and label columns, if X or y has them.

    Other Parameters
    ----------------
    smoothing : {"l2", "entropy"}, default="l2"
        L2 smoothing over the `n_best` best labellings, or entropy smoothing, which needs an exp
        oracle.
    n_best : int, default=5
        Labellings of the top-K oracle.
    smoothing_strength : float, default=1.0
        The strength nu of the smoothing; from 1e-100 to 1e100.
    smoothing_schedule : {"constant", "inverse"}, default="constant"
        The same nu in all outer steps, or ``nu / k`` in step k.
    step_size : float or "auto", default="auto"
        The eta of the proximal term ``|w - w_k|^2 / (2 eta)``. "auto" takes a step only if the
        smoothed objective falls enough, else halves eta and tries again; where the
        linearisation was good, eta becomes four times larger, up to ``1 / lambda``.
    inner_passes : int, default=5
        Maximum number of iterations of Casimir-SVRG for a linearised problem, each of a snapshot
        and a pass of steps (two effective passes). It stops earlier when one adds little.
    inner_tol : float, default=None
        The accuracy to which a linearised problem is solved in Algorithm 5 of [1]_: its objective
        is within ``inner_tol / k`` of its minimum in step k (section 6.1.1), as the norm of the
        smoothed gradient shows if that is within half of it and nu at most `inner_tol` (for "l2").
        `inner_passes` is still the most. None stops where a pass adds little.
    warm_start_strategy : {"prox-center", "extrapolation", "previous"}, default="prox-center"
        Where each of these passes starts (section 7.3.1 of [1]_).
    batch_size : int, default=16
        Number of samples per step.
    learning_rate : float or "auto", default="auto"
        Learning rate of the inner solver; "auto" is the inverse of the curvature that batches show.
        For the solver "subgradient" the initial rate; "auto" is a tenth of the step that would
        bring a linear loss to 0.
    schedule : {"constant", "inverse", "sqrt"}, default="sqrt"
        The learning rate of the solver "subgradient" after t passes: the first one, divided by
        ``1 + t``, or by the square root of that.

    See Also
    --------
    CasimirSSVM : The same inner method on linear scores, with a certificate.

    Notes
    -----
    The prox-linear method is that of [2]_ and [3]_, with the smoothing and the inner solver of
    [1]_. Each outer step replaces the map by its linearisation at the present weights and solves,
    to the accuracy of a fixed budget, a convex problem: the smoothed hinge of the linearised
    scores, with the regulariser and a proximal term. It needs only products with the Jacobian and
    its transpose; the oracles are those of all other estimators. Steps use batches of samples,
    since a map is evaluated fastest on many rows.

    Where `n_best` labellings are too few for the smoothing, a step that fails for every eta halves
    nu (``history_["smoothing_strength"]``). The paper's experiments (section 7.3) have
    ``smoothing_schedule="inverse"`` and the best power of ten as `step_size`, with five inner
    passes and ten labellings.

    References
    ----------
    .. [1] Pillutla, Roulet, Kakade, Harchaoui (2019). A Smoother Way to Train Structured Prediction
       Models. arXiv:1902.03228, section 6, Algorithm 5.
    .. [2] Burke (1985). Descent Methods for Composite Nondifferentiable Optimization Problems.
       Mathematical Programming 33.
    .. [3] Drusvyatskiy, Paquette (2019). Efficiency of Minimizing Compositions of Convex Functions
       and Smooth Maps. Mathematical Programming 178.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import ProxLinearSSVM
    >>> from skstruct.scores import MLPMap
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 5
    >>> y = [0, 1, 1, 0] * 5
    >>> svm = ProxLinearSSVM("multiclass", MLPMap(n_hidden=8), C=10.0, random_state=0)
    >>> svm.fit(X, y).score(X, y)
    1.0
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        **CONSTRAINTS,
        "score_map": "no_validation",
        "solver": [choices(Solver)],
        "smoothing": [choices(Smoothing)],
        "n_best": [Interval(Integral, 1, None, closed="left")],
        "smoothing_strength": [Interval(Real, 1e-100, 1e100, closed="both")],
        "smoothing_schedule": [choices(SmoothingSchedule)],
        "step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "inner_passes": [Interval(Integral, 1, None, closed="left")],
        "inner_tol": [None, Interval(Real, 0, None, closed="neither")],
        "warm_start_strategy": [choices(WarmStart)],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "schedule": [choices(Schedule)],
    }

    _tables = ("score_params_", "end_weights_", "pair_weights_")
    _keeps_cone = True

    def __init__(
        self,
        graph: GraphLike = "auto",
        score_map: Any = "linear",
        *,
        C: float = 1.0,
        loss: LossLike = "hamming",
        class_weight: ClassWeightLike = None,
        solver: Solver = "prox-linear",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-1,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomStateLike = None,
        smoothing: Smoothing = "l2",
        n_best: int = 5,
        smoothing_strength: float = 1.0,
        smoothing_schedule: SmoothingSchedule = "constant",
        step_size: float | Literal["auto"] = "auto",
        inner_passes: int = 5,
        inner_tol: float | None = None,
        warm_start_strategy: WarmStart = "prox-center",
        batch_size: int = 16,
        learning_rate: float | Literal["auto"] = "auto",
        schedule: Schedule = "sqrt",
    ) -> None:
        self.graph = graph
        self.score_map = score_map
        self.C = C
        self.loss = loss
        self.class_weight = class_weight
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.smoothing = smoothing
        self.n_best = n_best
        self.smoothing_strength = smoothing_strength
        self.smoothing_schedule = smoothing_schedule
        self.step_size = step_size
        self.inner_passes = inner_passes
        self.inner_tol = inner_tol
        self.warm_start_strategy = warm_start_strategy
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule

    # Training

    @property
    def _takes_relaxations(self):
        return self.solver == "subgradient"

    def _check_problem(self, problem):
        super()._check_problem(problem)
        if self.solver != "subgradient":
            self._check_smoothing(problem, 'solver="subgradient"')

    def _make_problem(self, data):
        score_map = _as_score_map(self.score_map)
        rows = guarded(data.samples.features)
        self._refuse_sparse(score_map, rows)
        # Scores take the place of node weights.
        scored, self._has_intercept = rows_as_scores(data.samples), False
        problem = super()._make_problem(data._replace(samples=scored))
        shapes = self.graph_.weight_shapes(scored, len(self.classes_), False)
        self._random = self._generator()
        params = score_map.initialise(
            rows.shape[1], shapes[0][1], self._random, bool(self.fit_intercept)
        )
        ptr = self._row_ptr(data.samples)
        self.score_map_ = score_map
        self._first = MapWeights(
            params, np.zeros((shapes[0][0] - rows.shape[0], shapes[0][1])), np.zeros(shapes[1])
        )
        _check_scores(score_map, params, rows, ptr, shapes[0][1], data.sample_indices)
        with np.errstate(over="ignore", invalid="ignore"):
            few = rows[: max(ptr[1], 2) if score_map.rowwise else ptr[1]]
            check_products(score_map, params, few, forward=self.solver != "subgradient")
        return MappedProblem(problem, shapes, score_map, rows, ptr)

    def _row_ptr(self, samples):
        """Return the offsets of the rows of each sample."""
        if self.graph_.is_table:
            return np.arange(samples.features.shape[0] + 1)
        return getattr(samples, "item_ptr", samples.offsets)

    def _refuse_sparse(self, score_map, rows):
        if sparse.issparse(rows) and not score_map.takes_sparse:
            raise TypeError(
                f"X is sparse, but {type(score_map).__name__} takes dense rows: call .toarray() or "
                'use score_map="mlp"'
            )

    def _start(self, previous, problem, shapes):
        """The previous weights, if they mean the same, else the map's first ones."""
        return first_map_weights(self, previous, self._first)

    def _mean_loss(self, mapped, weights, data):
        params, ends, pair = weights
        scores = _scores(mapped.score_map, params, mapped.rows, mapped.row_ptr, ends.shape[1])
        tables = Weights(
            *(readable(own, np.float64) for own in (np.concatenate([scores, ends]), pair))
        )
        return super()._mean_loss(mapped.problem, tables, data)

    def _solve(self, mapped, shapes, sample_weight, lam, *, start, **common):
        options = {
            "target": hinge_of(mapped.problem),
            "start": start,
            "cone": self.graph_.pair_cone(self.classes_),
            "batch_size": self.batch_size,
            "rate": None if self.learning_rate == "auto" else float(self.learning_rate),
        }
        task = mapped, sample_weight, lam, self.n_jobs
        # Products of a batch are small: threads of BLAS would wait for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            if self.solver == "subgradient":
                method = MappedSubgradient(*task, schedule=self.schedule, **options)
            else:
                smoothing = self.smoothing, self.smoothing_strength, self.n_best
                method = ProxLinear(
                    *task,
                    loss=smooth_hinge(*smoothing, mapped.problem),
                    strength=self.smoothing_strength,
                    shrinking=self.smoothing_schedule == "inverse",
                    eta=None if self.step_size == "auto" else float(self.step_size),
                    n_passes=self.inner_passes,
                    tol=self.inner_tol,
                    warm_start=self.warm_start_strategy,
                    **options,
                )
            return run(method, rng=self._random, **common)

    # Prediction: maps X to scores, which take the place of node weights

    def _check_tables(self, samples):
        shapes = self.graph_.weight_shapes(rows_as_scores(samples), len(self.classes_), False)
        n_ends = shapes[0][0] - samples.features.shape[0]
        ends = n_ends, shapes[0][1]
        expected = self.score_params_.shape[:1], ends, shapes[1]
        check_shapes(self, dict(zip(self._tables, expected, strict=True)))

    def _decoding_problem(self, samples, **options):
        # Called on a copy of the model, see on_one_state: the scores are those of this call.
        self._scores = self._item_scores(samples)
        return self.graph_.make_problem(rows_as_scores(samples), self.classes_, False, **options)

    def _item_scores(self, samples):
        rows = guarded(samples.features)
        self._refuse_sparse(self.score_map_, rows)
        ptr = self._row_ptr(samples)
        n_columns = self.end_weights_.shape[1]
        if rows.shape[0] == 0:
            return np.empty((0, n_columns))
        return _scores(self.score_map_, self.score_params_, rows, ptr, n_columns)

    def _weights(self):
        tables = np.concatenate([self._scores, self.end_weights_]), self.pair_weights_
        return Weights(*(readable(table, np.float64) for table in tables))

    # Views

    def _linear_tables(self, name):
        check_is_fitted(self)
        if not isinstance(self.score_map_, LinearMap):
            raise AttributeError(
                f"{name} is of a linear score map; {type(self.score_map_).__name__} has "
                "score_params_"
            )
        return self.score_map_.tables(self.score_params_)

    @property
    def coef_(self) -> np.ndarray:
        """Weights of node features, of shape (n_classes, n_features), of a linear map: a view."""
        return self._linear_tables("coef_")[0].T

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, of shape (n_classes,), of a linear map: a view, or zeros without any."""
        return self._linear_tables("intercept_")[1]

    @property
    def boundary_coef_(self) -> np.ndarray:
        """Scores of labels at the first and at the last node, of shape (2, n_classes): a view."""
        check_is_fitted(self)
        return self.end_weights_

    @property
    def sparsify(self) -> ArrayLike:
        """Not of this estimator: parameters of maps have few zeros."""
        raise AttributeError("ProxLinearSSVM has no sparsify: parameters of maps have few zeros")

    densify = sparsify

    def __setstate__(self, state):
        # Tables are stored as they are, and compared with the data at every prediction.
        self.__dict__.update(state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        kind = _NAMED.get(self.score_map) if isinstance(self.score_map, str) else self.score_map
        tags.input_tags.sparse = bool(getattr(kind, "takes_sparse", False))
        return tags


@np.errstate(over="ignore", invalid="ignore")  # refused by what takes them
def _scores(score_map, params, rows, ptr, n_columns):
    """Scores of all rows, sample by sample where the map needs that."""
    params = guarded(params)
    if score_map.rowwise:
        scores = score_map.scores(params, rows)
    else:
        bounds = zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)
        found = [score_map.scores(params, rows[a:b]) for a, b in bounds if b > a]
        scores = np.concatenate(found)
    # Of scores of other shapes kernels would read what is not theirs.
    expected = rows.shape[0], n_columns
    given = getattr(scores, "shape", None), getattr(scores, "dtype", None)
    if given != (expected, np.float64):
        raise ValueError(
            f"score_map: {type(score_map).__name__} must give scores of shape {expected} and "
            f"float64, a column a label, got {given[0]} and {given[1]}"
        )
    return scores


def _check_scores(score_map, params, rows, ptr, n_columns, given):
    """Reject a map whose scores are not what the structure takes; names the sample."""
    name = type(score_map).__name__
    params_fine = isinstance(params, np.ndarray) and params.dtype == np.float64
    if not params_fine or params.ndim != 1:
        raise TypeError(f"score_map: {name}.initialise must return a 1-D array of float64")
    scores = _scores(score_map, params, rows, ptr, n_columns)
    bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if bad.size:
        sample = given[sample_of(bad[0], ptr)]
        raise ValueError(
            f"score_map: {name} gives scores that are not finite for sample {sample}: are the "
            "features scaled?"
        )
