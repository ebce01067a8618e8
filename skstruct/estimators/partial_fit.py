"""partial_fit: training that continues with the next batch of a stream."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Set
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.arguments import warn_user
from ..core.sklearn_private import fit_context
from ..core.typing import SamplesLike
from ..core.weights import Weights
from ..data.labels import warn_of_mark
from ..data.packing import check_n_features
from ..data.values import as_labels
from ..graphs.registry import choose_graph
from ..solvers.sgd import StreamState, stream_pass, stream_start
from .base import fitted_state
from .persistence import TABLES
from .training_data import read_training_data
from .warm_start import CannotWarmStart, matched_weights

_KINDS = (
    ("_feature_names", "n_features_in_", "features"),
    ("_edge_feature_names", "n_edge_features_in_", "edge features"),
)
_ALL_CLASSES = "name all labels that will occur, partial_fit(X, y, classes=[...])"


class _Known(NamedTuple):
    """Facts about a stream that are known before a batch is read."""

    graph: Any
    # None where the labels of the batch tell them.
    classes: np.ndarray | None
    # Advice if there are too few labels.
    hint: str = ""


class Streaming:
    """Mixin of estimators with ``partial_fit``."""

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: SamplesLike,
        y: SamplesLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        r"""Train on one more batch of a stream, by one pass of stochastic subgradients.

        The objective is that of `fit` on all samples so far, :math:`\tfrac12 \|w\|^2 + C \sum_i s_i
        \ell_i(w)`; k rounds over the same samples multiply `C` by k. Each sample is visited once,
        in random order, with a rate that falls with the root of the number of samples seen. The
        weights are an average of the iterates, later ones counting more. There is no certificate:
        ``objective_``, ``history_`` and bounds are absent.

        After `fit` the stream continues from its weights, as if its samples had been the first.
        Callbacks, `max_iter`, `tol` and `solver` have no effect.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, or 2-D array or sparse matrix
            Samples as for `fit`. Without names of features their number is fixed, so hash them
            (``SequenceVectorizer(hashing=True)``); new features by name start with weight 0, as
            new n-grams of labels do.
        y : list, object array, RaggedArray or 1-D array
            Their labels, as for `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels of the stream. Without it, the first call uses the labels of its batch, with
            a warning, and new labels in later batches raise an error. Not needed for label sets,
            candidates and matchings.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor s_i on the loss of each sample.

        Returns
        -------
        Streaming
            The estimator itself.

        Raises
        ------
        ValueError
            If X or y is invalid, or has labels that are not in `classes`; if `classes` differs from
            that of the first call; if earlier features are missing. The model is then unchanged.
        FloatingPointError
            If losses or weights overflow.

        Notes
        -----
        The initial learning rate is the best of several on up to 500 samples of the first batch,
        and of later larger batches: the first one should have several hundred samples.
        """
        with self._announced():
            self._go_on(X, y, classes, sample_weight)
        return self

    def _go_on(self, X, y, classes, sample_weight):
        if getattr(self, "l1_ratio", 0.0):
            raise ValueError("partial_fit has no L1 penalty: l1_ratio must be 0")
        if few := getattr(self, "_few_weights", ""):
            raise ValueError(f"{few} is not for partial_fit: what later batches hold is not known")
        if isinstance(getattr(self, "class_weight", None), str):
            raise ValueError(
                "class_weight='balanced' depends on all labels: partial_fit takes a dict"
            )
        new, before = self._unfitted(), self if hasattr(self, "node_weights_") else None
        stream = _known(self, before, X, y, classes)
        data = read_training_data(new, X, y, sample_weight, stream=stream)
        if classes is not None and not _has_names(new.graph_):
            _check_unnamed(classes, new.classes_)
        elif classes is None and before is None and _has_names(new.graph_):
            warn_user(
                "the first partial_fit has no classes and takes the labels of its batch, "
                f"{new.classes_.tolist()}: others will be refused in later batches; {_ALL_CLASSES}"
            )
        if before is not None:
            _check_features(before, new)
        problem = new._make_problem(data)
        shapes = new.graph_.weight_shapes(data.samples, len(new.classes_), self.fit_intercept)
        state = stream_start(shapes) if before is None else _state(before, new, shapes)
        n = data.sample_weight.size
        new.n_samples_seen_ = state.n_steps + n
        # Of the weights as they were given: those of one batch do not weigh less in a larger one.
        weight = data.sample_weight / (float(self.C) * data.lam * n)
        try:
            state = stream_pass(
                problem,
                shapes,
                weight,
                1.0 / (float(self.C) * new.n_samples_seen_),
                state,
                loss=new._loss_at(problem, data),
                cone=new.graph_.pair_cone(new.classes_),
                rate=self._stream_rate(),
                # Other draws in each call, with the same seed.
                rng=np.random.default_rng([int(new._generator().integers(2**32)), state.n_steps]),
                n_jobs=self.n_jobs,
            )
        except FloatingPointError as error:
            raise new._in_words_of_the_user(error, data) from None
        tables = state.mean if getattr(self, "averaging", True) else state.iterate
        new.node_weights_, new.pair_weights_ = tables.tables
        new.n_iter_ = 1
        new._stream = {
            "node": state.iterate.node,
            "pair": state.iterate.pair,
            "rate": state.rate,
            "n_tried": state.n_tried,
        }
        self.__dict__ = vars(self._unfitted()) | fitted_state(new)

    def _stream_rate(self):
        """Return the first learning rate; None to search for one."""
        return None


def _known(model, before, X, y, classes) -> _Known:
    """Return the structure of the stream, and its classes."""
    name = type(model).__name__
    if before is not None:
        named = classes is not None and _has_names(before.graph_)
        if named and not np.array_equal(_read_classes(classes), before.classes_):
            raise ValueError(
                f"classes={classes!r} is not the same as on the last call to partial_fit, "
                f"{before.classes_!r}"
            )
        return _Known(copy.deepcopy(before.graph_), before.classes_)
    graph = choose_graph(model.graph, X, y)
    if classes is None or not _has_names(graph):
        return _Known(graph, None, f"; {_ALL_CLASSES}" if _has_names(graph) else "")
    classes = _read_classes(classes)
    warn_of_mark(classes, "classes")
    if classes.size < 2:
        raise ValueError(
            f"{name} needs at least two classes, but classes has one only: {classes.tolist()}"
        )
    return _Known(graph, classes)


def _read_classes(classes):
    """Return the classes, sorted."""
    if isinstance(classes, (str, bytes, Mapping, Set)) or not hasattr(classes, "__len__"):
        raise TypeError(
            f"classes must be a list or an array of labels, got a {type(classes).__name__}"
        )
    return np.unique(as_labels(classes, "classes", "position {}".format))


def _has_names(graph):
    """Return whether labels have names: those of label sets and of items are 0 and 1."""
    return not (graph.has_label_sets or graph.has_items)


def _check_unnamed(classes, own):
    """Reject `classes` of a structure whose labels have no names."""
    if not any(np.array_equal(classes, zero_one) for zero_one in ([0, 1], own)):
        raise ValueError(
            f"classes={classes!r}: labels of this structure have no names, but are on (1) or off "
            "(0); leave out classes"
        )


def _check_features(before, new):
    """Raise an error if a batch lacks features of the stream; unnamed ones must be as many."""
    for names, number, what in _KINDS:
        known, given = (vars(one).get(names) for one in (before, new))
        if known is not None and given is not None:
            if known == given:
                continue
            missing = sorted(set(known) - set(given))
            if missing:
                raise ValueError(
                    f"X lacks {len(missing)} {what} of the stream, for instance {missing[0]!r}: "
                    "features may be added to a stream, but none may go"
                )
        elif hasattr(before, number):
            counts = getattr(new, number), getattr(before, number)
            check_n_features(*counts, type(new).__name__, what)
            if known is not None:
                setattr(new, names, known)


def _state(before, new, shapes):
    """Return the state of the stream, with rows for new features."""
    before._refuse_bad_weights()
    intercepts = before._has_intercept, new._has_intercept
    place = functools.partial(matched_weights, new, before, shapes=shapes, intercepts=intercepts)
    stream = vars(before).get("_stream", {})
    mean = Weights(*(getattr(before, name) for name in TABLES))
    iterate = Weights(stream["node"], stream["pair"]) if stream else mean
    try:
        # Copies: if this batch fails, the model is still whole.
        weights = [place(old=tables).copy() for tables in (iterate, mean)]
    except CannotWarmStart as reason:
        raise ValueError(f"partial_fit cannot go on: {reason}") from None
    n_steps = int(getattr(before, "n_samples_seen_", 0))
    return StreamState(*weights, n_steps, stream.get("rate", 0.0), stream.get("n_tried", 0))
