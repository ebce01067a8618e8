"""Conditional random fields."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..core.oracles import exp_oracle, gram
from ..core.sklearn_private import N_JOBS, Interval, StrOptions, choices
from ..core.typing import ClassWeightLike, LossLike, PathLike, RandomStateLike, SamplesLike
from ..core.weights import Weights
from ..distributed.quasi import OrthantRounds, QuasiRounds
from ..graphs.base import Graph
from ..graphs.registry import NAMES, GraphLike
from ..losses.log import LogLoss, SoftmaxMargin
from ..losses.task import NamedLoss, WeightedLoss, weighted
from ..solvers.casimir import CasimirOptions, SmoothCasimir
from ..solvers.hybrid import auto
from ..solvers.oeg import OEG
from ..solvers.proximal_oeg import ProximalOEG
from ..solvers.quasi_newton import OrthantWise, QuasiNewton
from ..solvers.run import run
from ..solvers.sag import SAG, takes_single
from .base import StructuredEstimator, fit_path, warm_copy
from .class_weight import likelihood_weights
from .marginals import ProbabilisticPredictor
from .partial_fit import Streaming

if TYPE_CHECKING:
    from ..pipeline import Pipeline  # slow to import
    from ..preprocessing import TemplateVectorizer


# What solvers take beyond labels of all nodes, samples in memory and a penalty that is all L2.
_TAKES = {
    "auto": {"l1", "warm_start", "partial", "shards"},
    "lbfgs": {"l1", "warm_start", "partial", "shards"},
    "sag": {"warm_start", "paper", "gradient"},
    "oeg": {"l1"},
    "saga": {"warm_start", "paired", "paper", "gradient"},
    "casimir": {"warm_start"},
    "svrg": {"warm_start"},
}
_ASKED = {
    "l1": "l1_ratio={0.l1_ratio!r}",
    "warm_start": "warm_start=True, as its steps are in the dual",
    "partial": "missing labels or sets of labels, whose likelihood is not convex",
    "shards": "shards, as it needs all samples in memory",
    "paired": 'sampling="paired"',
    "paper": 'schedule="paper"',
    "gradient": 'stop="gradient"',
}

Solver = Literal["auto", "lbfgs", "sag", "oeg", "saga", "casimir", "svrg"]
Sampling = Literal["nus", "uniform", "paired"]
LineSearch = Literal["skip", "always"]
Schedule = Literal["tuned", "paper"]
Stop = Literal["gap", "gradient"]
Precision = Literal["auto", "double", "single"]


class SAGCRF(Streaming, ProbabilisticPredictor, StructuredEstimator):
    r"""Conditional random field (CRF), trained by exponentiated gradient or SAG, then L-BFGS.

    Minimises

    .. math::

        \tfrac12 \|w\|^2 - C \sum_i s_i \, \log \, p(y_i \mid x_i), \qquad
        p(y \mid x) \propto \exp \langle w, \Phi(x, y) \rangle,

    and stops at a certified duality gap. Reported objectives and tolerances are divided by :math:`C
    \sum_i s_i` (the lambda form): :math:`\frac\lambda2 \|w\|^2` plus the mean negative
    log-likelihood, with :math:`\lambda = 1 / (C \sum_i s_i)`. Read more in the :ref:`User Guide
    <objective_guide>`.

    Parameters
    ----------
    graph : {"auto", "chain", "multiclass", "multilabel"} or Graph, default="auto"
        The structure. "auto" is "chain" for a sequence of 2-D samples, and for a table (2-D X)
        "multilabel" (without interactions) if y is a table, else "multiclass". Objects have
        options, such as ``Chain(forbidden="iob2")``. For a table, name the structure where
        scikit-learn must recognise a classifier before fit: stratified folds, voting, displays.
    C : float, default=1.0
        Inverse of the regularisation strength, as in LogisticRegression; CRFsuite's ``c2`` is ``1 /
        (2 C)``.
    l1_ratio : float, default=0.0
        Fraction r of the L1 penalty, as in LogisticRegression: the regulariser is :math:`\lambda
        (\frac{1 - r}2 \|w\|^2 + r \|w\|_1)`, which makes weights exactly 0. See
        :ref:`small_models`, also for CRFsuite's ``c1``.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes; classes missing from the dict have weight 1, "balanced" uses ``n_nodes /
        (n_classes * n_nodes_of_class)``. On a table they multiply the likelihoods of samples. Where
        samples have several nodes, training shifts the scores of labels by the logarithms of their
        weights [3]_, and prediction does not. For multilabel targets, the keys are column
        numbers, or names if y is a data frame. See :ref:`weights`.
    fit_intercept : bool, default=True
        Whether each label has a constant feature. Its weight is regularised like all others.
    max_iter : int, default=500
        Maximum number of passes over the data (for "lbfgs": iterations, for "casimir" and "svrg":
        iterations of two passes each).
    tol : float, default=1e-3
        Stop when the relative duality gap, `dual_gap_` / `objective_`, is at most this: no other
        weights then lower the objective by more than this fraction.
    solver : {"auto", "sag", "saga", "lbfgs", "casimir", "svrg", "oeg"}, default="auto"
        "auto" begins with online exponentiated gradient ("oeg") if sparse features have 2**15
        weights or more, such as words, and with SAG otherwise or from a warm start; it switches to
        L-BFGS where that takes fewer passes. With `l1_ratio`, "auto" is "oeg" (OWL-QN where memory
        is short), "lbfgs" is OWL-QN, and the others are not available. See :ref:`solvers_guide`.
    warm_start : bool, default=False
        Start from the previous weights of labels and features that still exist: labels are matched
        by value, features by name where they have names (vectorizers, data frames), else by
        position. New weights start at 0. Not available for "oeg", whose steps are in the dual.
    n_jobs : int, default=None
        Threads for steps of SAG and SAGA, gradients, objectives and prediction; the weights are the
        same for any number, bit for bit. Other steps are sequential. On shards: threads, unless
        ``joblib.parallel_config`` selects Dask; by default the workers of an active Dask client.
    verbose : int, default=0
        If 1, print one line per epoch.
    random_state : int, RandomState instance or None, default=None
        Controls the order in which samples are visited. Pass an int for reproducible results.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of node features, a view: writing to it edits the model.
    intercept_ : ndarray of shape (n_classes,)
        Weights of the constant feature.
    pairwise_coef_ : ndarray of shape (n_classes, n_classes)
        Weights of (label, next label). With edge features one table per feature, and with types of
        edges one per type: ([edge_types,] [n_edge_features,] n_classes, n_classes).
    boundary_coef_ : ndarray of shape (2, n_classes)
        Scores at the first and last node, if ``Chain(boundary=True)``.
    node_weights_, pair_weights_ : ndarray
        The tables behind these views.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    states_ : ndarray of shape (n_states,)
        The label of each row of ``coef_``: ``classes_``, or with :ref:`hidden_states` repeated.
    graph_ : Graph
        The structure that was used.
    inference_, training_inference_ : {"exact", "relaxed"}
        Inference for samples like those of training, and for the training objective: over all
        labellings, or of a relaxation. `Grid` and `Pairwise` also set ``method_``, its name.
        Predictions warn where they are relaxed and fit was exact.
    Objective and history
    objective_ : float
        The exact objective (lambda form) at the end.
    dual_objective_ : float
        A lower bound on the optimum (lambda form).
    dual_gap_ : float
        ``objective_ - dual_objective_``, an upper bound on ``objective_ - optimum``.
    suboptimality_ : float
        ``dual_gap_ / objective_``, less at most 1e-12 for the rounding of the objective; `tol`
        bounds it.
    gradient_norm_ : float
        Euclidean norm of the gradient at the end, exact; with `l1_ratio`, of the smallest
        subgradient. ``dual_gap_`` is at most its square divided by ``2 lam (1 - l1_ratio)``, up to
        rounding.
    n_iter_ : int
        Epochs run.
    history_ : dict of ndarray
        One entry per epoch: ``passes`` (oracle calls and line-search passes over n),
        ``oracle_calls``, ``seconds`` (without compilation and optional evaluation), ``objective``
        (NaN where it was not evaluated), ``dual_objective`` (the best lower bound so far; 0 while
        weights are in single precision) and ``dual_gap`` (their difference); with
        ``stop="gradient"`` also ``average_gradient``, its largest entry (inf until all samples were
        visited).
    Data
    n_features_in_ : int
        Number of node features.
    feature_names_in_, edge_feature_names_in_, label_names_in_ : ndarray of object
        Names of features, edge features and label columns, if X or y has them. Vectorizers share
        them: delete the attribute to make pickles of the bare estimator smaller.
    n_samples_seen_ : int
        Samples of nonzero weight, in `fit` or in all calls of `partial_fit`.

    Other Parameters
    ----------------
    margin : {"hamming", "normalized_hamming"}, dict, Series or array-like, default=None
        None trains the log loss. A task loss :math:`\Delta`, in the forms of the parameter `loss`
        of structural SVMs, trains the softmax-margin [2]_: the log loss in which the score of each
        labelling y is raised by :math:`\Delta(y_i, y)`. Predictions and probabilities use the
        scores alone. See :ref:`losses_guide`.
    all_possible_states, all_possible_transitions : bool, default=True
        Whether to have weights for (feature, label) pairs, and (label, next label) pairs, that do
        not occur in the training data. False, CRFsuite's default, keeps such weights at 0, which
        makes models smaller: for chains, trees and graphs, without shards and `partial_fit`. See
        :ref:`observed_weights`.
    sampling : {"nus", "uniform", "paired"}, default="nus"
        For SAG and SAGA. "nus" draws samples with steep losses more often: with probability 1/2 in
        proportion to their Lipschitz estimates, else uniformly. "uniform" uses one estimate for
        all. "paired", for SAGA only, draws two samples per step: one in proportion to the
        estimates, for the step, and one uniformly, for the memory (Proposition 1 (b) of [1]_).
    line_search : {"skip", "always"}, default="skip"
        For SAG and SAGA: whether to test a sample's Lipschitz estimate less and less often while
        tests succeed, or at every visit.
    schedule : {"tuned", "paper"}, default="tuned"
        For ``solver="sag"`` and "saga". "paper" takes the steps of [1]_ as published (SAG-NUS*,
        Algorithms 1 and 2, section 5); :ref:`variants` lists what "tuned" changes.
    stop : {"gap", "gradient"}, default="gap"
        For ``solver="sag"`` and "saga". "gradient" stops after the first pass at whose end all
        samples have been visited and the largest entry of the average gradient, regulariser
        included, is at most `tol` (section 4.1 of [1]_). The certificate is computed once, at the
        end, and takes a pass.
    precision : {"auto", "double", "single"}, default="auto"
        For SAG, SAGA and "oeg" without L1: whether the weights of node features are in single
        precision while the gap is large, which is faster where they do not fit into the cache.
        Double precision follows before the gap is measured or comes near 1e-4, so any `tol` can be
        reached. "auto" does so for 2**18 weights or more if `max_iter` is at least 4.
    track_objective : bool, default=False
        Evaluate the objective after every epoch of SAG, for ``history_``, at the cost of a forward
        pass. "lbfgs" and "casimir" always do.

    See Also
    --------
    skstruct.BCFWSSVM : Structural SVMs with a certified duality gap.
    skstruct.Chain : The structure of sequences.
    skstruct.preprocessing.TemplateVectorizer : Features from CRF++ and Wapiti templates.
    skstruct.model_selection.cross_val_marginals : Marginals of held-out samples.
    skstruct.inspection.explain : Feature contributions to the score of a sample's labelling.

    Notes
    -----
    :ref:`solvers_guide` describes the solvers, with their papers. SAG with non-uniform sampling is
    the method of [1]_; the memory of gradients is kept as marginals of nodes and gradients of pairs
    (section 4.2; "mixed" in section 6), and the line search uses the Gram matrix of the sample's
    features. Structures without Gram matrices use L-BFGS from the beginning.

    The lower bound is the dual objective of marginals :math:`\mu_i` with entropies :math:`H_i`,

    .. math::

        \frac1n \sum_i s_i H_i - \frac1{2 \lambda}
        \left\| \frac1n \sum_i s_i A_i^\top (\mu_i - \mu(y_i)) \right\|^2;

    a `margin` adds the expected task loss to :math:`H_i`. SAG uses the marginals in its memory and
    those of the final weights; L-BFGS mixes those of its iterates, "casimir" those of its
    snapshots.

    With missing labels or sets of labels in y the likelihood is that of all labellings that fit
    (:ref:`partial_labels`). The problem is not convex: "auto" is L-BFGS, other solvers raise an
    error, `tol` bounds ``gradient_norm_**2 / (2 lam objective_)``, and `dual_objective_`,
    `dual_gap_` and `suboptimality_` are NaN.

    "oeg" takes twice the memory of SAG. Above 2**24 parts of all samples (2,000 sentences with 83
    labels) it keeps potentials in single precision; above 2**27 it recomputes marginals at each
    visit: a quarter of the memory plus half a gigabyte, about as many epochs, up to twice the
    oracle calls. Bounds are exact.

    On :class:`~skstruct.datasets.Shards` "auto" is L-BFGS, with `l1_ratio` OWL-QN; the weights are
    the same for any number of workers, bit for bit.

    References
    ----------
    .. [1] Schmidt, Babanezhad, Ahmed, Defazio, Clifton, Sarkar (2015). Non-Uniform Stochastic
       Average Gradient Method for Training Conditional Random Fields. AISTATS. Algorithms 1 and 2.
    .. [2] Gimpel, Smith (2010). Softmax-Margin CRFs: Training Log-Linear Models with Cost
       Functions. NAACL.
    .. [3] Menon, Jayasumana, Rawat, Jain, Veit, Kumar (2021). Long-tail learning via logit
       adjustment. ICLR.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> X = [np.eye(2)[[0, 1, 1]], np.eye(2)[[1, 0]]]
    >>> y = [["a", "b", "b"], ["b", "a"]]
    >>> crf = SAGCRF(C=10.0, random_state=0).fit(X, y)
    >>> crf.predict(X)[0]
    array(['a', 'b', 'b'], dtype='<U1')
    """

    _foreign_parameters: dict = {  # noqa: RUF012
        **dict.fromkeys(
            ("c1", "c2"),
            "in place of c1 and c2 set C = 1 / (c1 + 2 * c2) and l1_ratio = c1 / (c1 + 2 * c2)",
        ),
        "algorithm": "the algorithm is `solver`",
        "max_iterations": "set `max_iter`",
        "min_freq": "set min_count of SequenceVectorizer",
    }
    _parameter_constraints: dict = {  # noqa: RUF012
        "graph": [StrOptions(NAMES), Graph],
        "C": [Interval(Real, 0, np.inf, closed="neither")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "class_weight": [None, StrOptions({"balanced"}), Mapping],
        "margin": [None, StrOptions({"hamming", "normalized_hamming"}), Mapping, "array-like"],
        "sampling": [choices(Sampling)],
        "line_search": [choices(LineSearch)],
        "schedule": [choices(Schedule)],
        "stop": [choices(Stop)],
        "all_possible_states": ["boolean"],
        "all_possible_transitions": ["boolean"],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions(set(_TAKES))],
        "precision": [choices(Precision)],
        "warm_start": ["boolean"],
        "track_objective": ["boolean"],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        graph: GraphLike = "auto",
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        class_weight: ClassWeightLike = None,
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-3,
        solver: Solver = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomStateLike = None,
        margin: LossLike | None = None,
        all_possible_states: bool = True,
        all_possible_transitions: bool = True,
        sampling: Sampling = "nus",
        line_search: LineSearch = "skip",
        schedule: Schedule = "tuned",
        stop: Stop = "gap",
        precision: Precision = "auto",
        track_objective: bool = False,
    ) -> None:
        self.graph = graph
        self.C = C
        self.l1_ratio = l1_ratio
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.margin = margin
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.sampling = sampling
        self.line_search = line_search
        self.schedule = schedule
        self.stop = stop
        self.precision = precision
        self.track_objective = track_objective

    def _check_problem(self, problem):
        super()._check_problem(problem)
        is_own = not type(problem.space).__module__.startswith("skstruct.")
        advice = "train a structural SVM (BCFWSSVM) instead" + ", or write the operation" * is_own
        self._require(exp_oracle, problem, advice)
        if self.solver not in ("auto", "lbfgs"):
            self._require(gram, problem, 'use solver="lbfgs"')

    # Models that were stored before these parameters came lack them.
    all_possible_states = all_possible_transitions = True
    #: The problem of a fit on some of the weights; None on all.
    _observed = None

    def _make_problem(self, data):
        problem = super()._make_problem(data)
        if self.all_possible_states and self.all_possible_transitions:
            return problem
        allowed = None if data.completion is None else data.completion.allowed
        kinds = self.all_possible_states, self.all_possible_transitions
        self._observed = self.graph_.observed(problem, data.samples, allowed, *kinds)
        if self._observed is None:
            raise TypeError(
                f"{self._few_weights} is for chains of order 1, trees and graphs, not for "
                f"{self.graph_}"
            )
        return problem

    @property
    def _few_weights(self):
        """The parameter that leaves out weights, for messages; empty if none does."""
        names = "all_possible_states", "all_possible_transitions"
        return next((f"{name}=False" for name in names if not getattr(self, name)), "")

    def _certified(self, weights, published, problem, shapes, data):
        few = self._observed
        if few is not None:
            weights, problem, shapes = few.take(weights), few.problem, few.shapes
        return super()._certified(weights, published, problem, shapes, data)

    def _refuse_shards(self, shards):
        if self._few_weights:
            raise ValueError(
                f"{self._few_weights} needs all samples in memory: what occurs in other shards is "
                "not known"
            )

    _loss_weights = staticmethod(likelihood_weights)
    _is_weighted = False

    def _task_loss(self, data):
        """Return the parameter `margin`, or weights alone where it is None."""
        loss = None if self.margin is None else NamedLoss(self.margin, "margin")
        loss = weighted(loss, data.loss_weights)
        self._is_weighted = isinstance(loss, WeightedLoss)
        return "hamming" if loss is None else loss

    def _training_loss(self):
        """Return the loss of training; subclasses may take any smooth one of `skstruct.losses`."""
        if self._is_weighted:
            return SoftmaxMargin(least_term=-math.inf)
        return LogLoss() if self.margin is None else SoftmaxMargin()

    def _loss_at(self, problem, data):
        if data.completion is not None:
            return data.completion.marginal_log_loss()
        return self._training_loss()

    _takes_partial_labels = _needs_marginals = True
    #: On a path of `crf_path` what earlier fits have left; None elsewhere.
    _path: _Path | None = None

    @property
    def _starts_warm(self):
        return "warm_start" in _TAKES[self.solver]

    def _path_start(self):
        new = super()._path_start()
        new._path = _Path()
        return new

    def _solve_partial(self, problem, shapes, data, **common):
        task = problem, shapes, data.sample_weight, data.lam
        return self._solve(*task, completion=data.completion, **common)

    def _refuse_what_the_solver_lacks(self, *data):
        """Reject a solver that cannot do something, and name those that can."""
        options = {
            "l1": self.l1_ratio > 0.0,
            "warm_start": self.warm_start,
            "paired": self.sampling == "paired",
            "paper": self.schedule == "paper",
            "gradient": self.stop == "gradient",
        }
        for what in (*data, *itertools.compress(options, options.values())):
            takers = [name for name, own in _TAKES.items() if what in own]
            if self.solver not in takers:
                asked = _ASKED[what].format(self)
                raise ValueError(
                    f"solver={self.solver!r} does not take {asked}: use solver="
                    + " or ".join(f'"{name}"' for name in takers)
                )

    def _partial_method(self, completion, start, problem, *task):
        """Return the method that trains on partial labels."""
        self._refuse_what_the_solver_lacks("partial")
        if not isinstance(self._training_loss(), LogLoss):
            what = "a loss of your own" if self.margin is None else "margin"
            raise ValueError(f"{what} needs a label for each node: with missing labels use None")
        if self.l1_ratio > 0:
            raise ValueError("l1_ratio needs a label for each node: with missing labels use 0")
        if getattr(problem.space, "inference", "exact") == "relaxed":
            raise ValueError(
                f"{problem.space.structure} needs a label for each node: the difference of two "
                'bounds is no bound on a likelihood; use inference="junction-tree" where tables '
                "are small"
            )
        return QuasiNewton(problem, *task, loss=completion.marginal_log_loss(), start=start)

    def _train_rounds(self, source, engine, shapes, *, lam, start, **common):
        self._refuse_what_the_solver_lacks("shards")
        ratio, options = float(self.l1_ratio), {"loss": self._training_loss(), "start": start}
        if ratio > 0.0:
            options["l1"] = ratio * lam
        method = OrthantRounds if ratio > 0.0 else QuasiRounds
        return run(method(source, engine, shapes, (1.0 - ratio) * lam, **options), **common)

    def _solve(
        self, problem, shapes, *task, start, after_epoch, tol, max_iter, completion=None, **common
    ):
        few = self._observed
        if few is not None:  # the weights of what occurs in the training data
            problem, shapes, start = few.problem, few.shapes, few.take(start)
            after_epoch.spread = few.spread
        task = problem, shapes, *task
        if completion is None:
            method = self._method(*task, start=start, tol=tol, max_iter=max_iter)
        else:
            method = self._partial_method(completion, start, *task, self.n_jobs)
        rng = None if isinstance(method, QuasiNewton) else self._generator()
        common |= {"after_epoch": after_epoch, "tol": tol, "max_iter": max_iter}
        result = run(method, rng=rng, **common)
        if self._path is not None:
            # Where L-BFGS has gone on, or with an L1 penalty, there is none that fits the weights.
            left = self.l1_ratio == 0.0 and vars(method).get("state") is not None
            self._path.memory = method.memory() if left else None
        return result if few is None else result._replace(weights=few.spread(result.weights))

    def _method(self, problem, shapes, sample_weight, lam, *, start, tol, max_iter):
        """Return the training algorithm that `solver` names, for labels of all nodes."""
        self._refuse_what_the_solver_lacks()
        solver, ratio = self.solver, float(self.l1_ratio)
        task = problem, shapes, sample_weight, (1.0 - ratio) * lam, self.n_jobs
        if self._path is not None:
            start = self._path.predict(lam, start)
        options = {"loss": self._training_loss(), "start": start}
        if ratio > 0.0:
            options["l1"] = ratio * lam
        if solver == "lbfgs" or not gram.supports(problem):
            return (OrthantWise if ratio > 0.0 else QuasiNewton)(*task, **options)
        if solver in ("casimir", "svrg"):
            choices = CasimirOptions("svrg" if solver == "svrg" else "constant")
            return SmoothCasimir(*task, options=choices, **options)
        options["track_objective"] = self.track_objective or bool(self.verbose)
        single = takes_single(self.precision, shapes, max_iter)
        options["single"] = single and ratio == 0.0
        bounding = None if self._observed is None else self._observed.bounding
        if solver == "oeg":
            del options["start"]
            task = problem if bounding is None else bounding, *task[1:]
            return (OEG if ratio == 0.0 else ProximalOEG)(*task, **options)
        if self._path is not None and ratio == 0.0:
            options["memory"] = self._path.memory
        options["uniform"] = self.sampling == "uniform"
        options["skipping"] = self.line_search == "skip"
        if solver == "auto":
            return auto(*task, tol=tol, bounding=bounding, **options)
        kind = {"saga": solver == "saga", "paired": self.sampling == "paired"}
        kind |= {"published": self.schedule == "paper", "by_gradient": self.stop == "gradient"}
        return SAG(*task, **kind, **options)

    @classmethod
    def from_crfsuite(cls, path: PathLike) -> Pipeline:
        """Fitted pipeline with the weights of a CRFsuite model file.

        Taggings and marginals are those of CRFsuite.

        Parameters
        ----------
        path : str or Path
            A model that CRFsuite, python-crfsuite or sklearn-crfsuite wrote.

        Returns
        -------
        Pipeline
            A SequenceVectorizer that takes what sklearn-crfsuite takes (feature dicts or attribute
            lists), and the CRF.

        Raises
        ------
        ValueError
            If the file is not a CRFsuite model, or damaged.
        """
        from .exchange import read_crfsuite

        return read_crfsuite(path, cls(fit_intercept=False))

    def to_crfsuite(
        self, path: PathLike, *, first: str = "__BOS__", last: str = "__EOS__"
    ) -> dict[str, str]:
        """Write the weights as a model file of CRFsuite.

        CRFsuite, python-crfsuite (``pycrfsuite.Tagger``), sklearn-crfsuite and the ports to Rust,
        Java and other languages read the file without skstruct, and give the same tag sequences and
        marginals. Attributes are the features by name, with their values. Transitions include the
        intercepts of all nodes except the first. The ends of a sequence have two more attributes,
        `first` and `last`, which the tagging program must add to the first and last token if the
        return value has them:

        ==========================================  =======  ======
        model                                       first    last
        ==========================================  =======  ======
        ``SAGCRF(fit_intercept=False)``             no       no
        ``SAGCRF()``                                yes      no
        ``forbidden="iob2"``, or a pair (None, b)   yes      no
        ``forbidden="iobes"``, or a pair (a, None)  yes      yes
        ``Chain(boundary=True)``                    yes      yes
        ==========================================  =======  ======

        Parameters
        ----------
        path : str or Path
            The file, replaced when the new one is complete.
        first, last : str, default="__BOS__", "__EOS__"
            Names of the attributes. If the model has a feature of this name the weights are added
            to it: name a feature that exactly the first tokens have with value 1, such as
            ``first="BOS"`` of CRFsuite's tutorials, or ``first="U00:_B-1"`` of the template
            ``U00:%x[-1,0]``. The tagging program then needs no change.

        Returns
        -------
        dict of str to str
            Tokens that need another attribute, "first" or "last", and its name; empty if none do.

        Raises
        ------
        ValueError
            If CRFsuite cannot represent the model: if its structure is not a chain or has edge
            features, if its features have no names or two have the same one, if labels are not
            strings, if a name has a NUL or a lone surrogate, if a weight is not finite, if the file
            exceeds 4 GiB.

        Notes
        -----
        Features without nonzero weights are omitted. Forbidden transitions have the weight -1e10.
        CRFsuite exponentiates unscaled scores of nodes: its marginals are NaN where a score exceeds
        709.
        """
        from .exchange import write_crfsuite

        return write_crfsuite(path, self, first, last)

    @classmethod
    def from_wapiti(cls, path: PathLike) -> Pipeline:
        r"""Fitted pipeline with the weights of a Wapiti model file.

        Its tag sequences are those of Wapiti.

        Parameters
        ----------
        path : str or Path
            A CRF that ``wapiti train`` wrote, with patterns (Wapiti 1.5 or later).

        Returns
        -------
        Pipeline
            A TemplateVectorizer with the patterns of the model, and the CRF. Tokens have as many
            columns as the patterns use. ``b`` patterns with macros become edge features.

        Raises
        ------
        ValueError
            If the file is damaged or not a CRF, or has no patterns.

        Notes
        -----
        Wapiti identifies observations by strings, a TemplateVectorizer by the results of their
        macros: an ambiguous observation, as ``u:a/b/c`` of ``u:%x[0,0]/%x[1,0]``, becomes one
        feature per reading. In Wapiti, the dot of regular expressions is a byte, and lower case is
        for ASCII only.
        """
        from .exchange import read_wapiti

        return read_wapiti(path, lambda graph: cls(graph, fit_intercept=False))

    def to_wapiti(self, path: PathLike, template: TemplateVectorizer) -> None:
        """Write the weights as a model file of Wapiti.

        ``wapiti label -m path`` and programs built on Wapiti, such as GROBID and anystyle, give the
        same tag sequences, from the columns of tokens. Intercepts, boundary scores and transitions
        become patterns (``u-intercept``, ``u-first:%x[-1,0]``, ``u-last:%x[1,0]``, ``b``); ``B``
        templates with macros are unchanged.

        Parameters
        ----------
        path : str or Path
            The file, replaced when the new one is complete.
        template : TemplateVectorizer
            The fitted vectorizer whose output the model was trained on: ``model[0]`` of a pipeline.

        Raises
        ------
        TypeError
            If `template` is not a TemplateVectorizer.
        ValueError
            If Wapiti cannot represent the model: if its structure is not a chain, if `template` has
            other features, if labels are not strings, are empty or have a space, if names have a
            NUL or a lone surrogate, if two features of different weights have one name (give
            templates identifiers), if a weight is not finite. With ``outside="mark"`` or "drop"
            also if ``%t`` or ``%m`` look at other tokens, and with "mark" if a template looks more
            than four tokens beyond an end.

        Notes
        -----
        Features without nonzero weights are omitted. Forbidden transitions have the weight -1e10.
        Wapiti splits columns at spaces, lower-cases ASCII letters only, matches regular expressions
        on bytes, and identifies observations by their strings, for any template. A token that
        equals a mark (``_B-1``) is a mark in skstruct, not in Wapiti; for ``_x-1`` or ``_x+1`` it
        is the other way round.
        """
        from .exchange import write_wapiti

        write_wapiti(path, self, template)


# Values of log C whose fits predict nothing about others.
_CLOSE = 1e-3


class _Path:
    """State between the fits of a path: last lam and weights, and the memory of SAG or OEG."""

    def __init__(self):
        self.memory, self._lams, self._ends = None, [], []

    def predict(self, lam: float, end: Weights | None) -> Weights | None:
        """Return weights at `lam` on the secant of the last two in log lam, extended to `lam`."""
        self._lams, self._ends = [*self._lams, lam][-3:], [*self._ends, end][-2:]
        first, second, third = np.log(self._lams) if len(self._lams) == 3 else np.zeros(3)
        if abs(second - first) < _CLOSE:  # their secant is that of the tolerance
            return end
        share = np.clip((third - second) / (second - first), -1.0, 1.0)
        tables = zip(*(weights.tables for weights in self._ends), strict=True)
        return Weights(*(here + share * (here - before) for before, here in tables))


def crf_path(
    estimator: SAGCRF,
    X: SamplesLike,
    y: SamplesLike,
    Cs: Iterable[float],
    *,
    sample_weight: ArrayLike | None = None,
    node_weight: SamplesLike | None = None,
) -> list[SAGCRF]:
    """Fits for a sequence of C, each started from the one before.

    The third and later fits start from weights extrapolated from the last two, linearly in log C
    (not with partial labels). SAG continues with its memory of gradients and its L_i (footnote 1 of
    Schmidt et al. 2015), exponentiated gradients with their dual point, moved by the same
    prediction, or with an L1 penalty with the marginals at these weights. Read more in the
    :ref:`User Guide <model_selection_guide>`.

    Parameters
    ----------
    estimator : SAGCRF
        Its parameters other than `C` and `warm_start` are used; it is left as it is. Its solver
        must take weights to start from ("oeg" does not).
    X, y : as in :meth:`SAGCRF.fit`
        The training data.
    Cs : array-like of float
        Values of C, in the order in which to fit; increasing is usually fastest.
    sample_weight, node_weight : as in :meth:`SAGCRF.fit`, default=None
        Weights of samples and of nodes.

    Returns
    -------
    list of SAGCRF
        One fitted estimator per value, each with its own certificate.

    Raises
    ------
    ValueError
        If `Cs` is no sequence, or empty, or the solver is "oeg".
    TypeError
        If the estimator is another one, such as a pipeline.

    See Also
    --------
    skstruct.estimators.bcfw_path : The same for structural SVMs.
    skstruct.inspection.ConvergenceDisplay : Objective and gap against passes.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.estimators import crf_path
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> path = crf_path(SAGCRF(random_state=0), X, y, [0.01, 0.1, 1.0])
    >>> [crf.C for crf in path]
    [0.01, 0.1, 1.0]
    """
    model = warm_copy(estimator, SAGCRF)
    return fit_path(estimator, model, (X, y, sample_weight, node_weight), Cs)
