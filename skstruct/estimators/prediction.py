"""Predictor: weights and predictions of a fitted model, whichever solver trained it."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from itertools import pairwise
from operator import index
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from ..core.arguments import check_flag, warn_user
from ..core.jit.dispatch import require
from ..core.memory import check_memory, n_best_bytes, shown
from ..core.offsets import ends_of
from ..core.oracles import ChunkRules, chunk_marginals, max_oracle, top_k_oracle
from ..core.parallel import make_scratch, over_samples
from ..core.sklearn_private import CALLBACKS
from ..core.typing import SamplesLike
from ..core.weights import Weights
from ..data.constraints import without_prefix
from ..data.labels import unseen_labels
from ..data.matrices import readable, without_unused
from ..data.names import ListedNames, VocabularyNames, names_of
from ..data.packing import (
    check_n_features,
    is_empty_list,
    is_structured,
    read_sample_weight,
    sample_of,
)
from ..data.partial import read_partial
from ..data.ragged import object_array
from ..distributed.engine import Engine
from ..lite import chunk_rules
from ..shards.packing import relocated
from ..shards.reading import Shard, Shards, fitting
from ..solvers.decoder import Decoder, clash_of
from ..solvers.passes import chunk_probabilities, decode, decodes_exactly, find_chunks, why_relaxed
from .persistence import TABLES, check_parts, check_shapes, in_layout

# Names of features in fitted models: taken from X in fit, compared in prediction.

_SHOWN = 5
_OWN = ("_feature_names", "_edge_feature_names")
_OF_LABELS = "_label_names"


def _named(attribute, what):
    def read(self) -> np.ndarray:
        names = vars(self).get(attribute)
        if names is None:
            raise AttributeError(f"{type(self).__name__} has seen no names of {what} in fit")
        return np.asarray(names)

    def write(self, names: ArrayLike) -> None:
        setattr(self, attribute, ListedNames(names))

    def forget(self) -> None:
        if vars(self).pop(attribute, None) is None:
            read(self)

    about = f"Names of {what}, if there were some in fit: an object array of str."
    return property(read, write, forget, about)


class NamedFeatures:
    """Mixin of estimators with names of features."""

    feature_names_in_ = _named(_OWN[0], "features")
    edge_feature_names_in_ = _named(_OWN[1], "edge features")
    label_names_in_ = _named(_OF_LABELS, "labels")

    def _take_names(self, names, y=None):
        """Keep names of features, and those that labels carry."""
        for attribute, known in zip(_OWN, names, strict=True):
            if known is not None:
                setattr(self, attribute, known)
        columns = list(getattr(y, "columns", ())) if self.graph_.has_label_sets else []
        if columns and all(isinstance(name, str) for name in columns):
            self.label_names_in_ = columns

    def _compare_names(self, names):
        """Reject samples with other names than in fit, where both are known."""
        for attribute, given in zip(_OWN, names, strict=True):
            known = vars(self).get(attribute)
            if known is not None and given is not None and known != given:
                raise ValueError(_difference(known, given, attribute[1:].split("_names")[0]))


def _difference(known, given, what):
    """Return the message about differing names, in scikit-learn's words."""
    lines = [f"The {what.replace('_', ' ')} names should match those that were passed during fit."]
    before, now = known.strings(), given.strings()
    for text, names, others in (
        ("Feature names unseen at fit time:", now, set(before)),
        ("Feature names seen at fit time, yet now missing:", before, set(now)),
    ):
        found = sorted(set(names) - others)
        if found:
            more = ["- ..."] * (len(found) > _SHOWN)
            lines += [text, *(f"- {name}" for name in found[:_SHOWN]), *more]
    if len(lines) == 1:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"


# Answers of a fitted model on shards: one shard at a time, in place, in parallel if asked.

# Of a model, what only the driver needs: it may be large.
_LEFT_OUT = {
    "_feature_names",
    "_edge_feature_names",
    "_dual",
    "_stream",
    CALLBACKS,
    "history_",
}


def _answer(model, shard, name, args, kwargs):
    return getattr(model, name)(shard, *args, **kwargs)


def shard_codes(model: Any, shard: Shard, y: Any) -> np.ndarray:
    """Return labels of a shard as positions in the classes of the model."""
    if y is not None:
        raise ValueError("y is in the shards: it must be None")
    if shard.codes is None:
        raise ValueError("the shards have no labels")
    codes = _known_codes(model)[shard.codes]
    unseen = np.flatnonzero(codes < 0)
    if unseen.size:
        offsets = shard.samples.offsets
        i, label = sample_of(unseen[0], offsets), model._shard_classes[shard.codes[unseen[0]]]
        raise ValueError(
            f"y: unknown label {label.item()!r} (sample {i}, node {unseen[0] - offsets[i]})"
        )
    return codes


def _known_codes(model):
    """Return the model's code of each class of the shards, or -1."""
    classes = model._shard_classes
    one = np.array([0, classes.size])
    return model.graph_.encode(classes, model.classes_, one, unseen=-1)


def _over_shards(model, shards, function, *args):
    """Return results of ``function(part of the model, shard, ...)`` on all shards."""
    check_is_fitted(model)
    _check_fit(model, shards)
    tables = model._weights()
    is_one = shards.n_shards == 1
    first = np.cumsum(shards.n_samples) - shards.n_samples

    with Engine(1 if is_one else model.n_jobs, shards.n_shards) as engine:
        # With one worker, threads share each shard, as they share the samples of a list.
        inner = model.n_jobs if engine.is_alone else 1

        def arguments(k):
            part = _part(model, tables, shards.columns(k))
            part.n_jobs, part._shard_classes = inner, shards.classes
            part._nodes_before = int(shards.n_nodes[:k].sum())
            return part, shards, k, int(first[k]), function, *args

        return list(engine.map(_run, range(shards.n_shards), arguments))


def _run(part, shards, k, first, function, *args):
    """Call `function` on one shard, in a worker or in this process."""
    try:
        return function(part, shards.open(k), *args)
    except (ValueError, FloatingPointError) as error:
        raise relocated(error, first) from None


def _check_fit(model, shards):
    """Reject shards that are not of the kind that the model was trained on."""
    name = type(model).__name__
    if model._tables is not TABLES:
        raise TypeError(f"{name} does not take Shards: its scores are not linear in the features")
    fitting(shards.graph, model.graph_)
    check_n_features(shards.n_features_in_, model.n_features_in_, name)
    if shards.n_edge_features_in_ is not None:
        counts = shards.n_edge_features_in_, model.n_edge_features_in_
        check_n_features(*counts, name, "edge features")
    model._compare_names((shards.feature_names, shards.edge_feature_names))
    model._check_tables(model.graph_.no_samples(model))


def for_workers(model: Any) -> Any:
    """Return a copy of a model without what only the driver needs."""
    part = object.__new__(type(model))
    vars(part).update({k: v for k, v in vars(model).items() if k not in _LEFT_OUT})
    return part


def _part(model, tables, columns):
    """Return the model with the weight rows of the features that a shard has."""
    part = for_workers(model)
    part.node_weights_, part.pair_weights_ = tables.tables
    if columns is not None:
        rest = np.arange(model.n_features_in_, tables.node.shape[0])
        part.node_weights_ = tables.node[np.concatenate([columns, rest])]
        part.n_features_in_ = columns.size
    return part


def _score_shards(self, X, y=None, sample_weight=None):
    """Return the fraction of nodes of shards that are labelled correctly."""
    model, shards = self, X
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} is in the shards: it must be None")
    if shards.classes is None:
        raise ValueError(f"{shards} has no labels: there is no score")
    right, total, unseen = map(sum, zip(*_over_shards(model, shards, _count_right), strict=True))
    if unseen.any():
        labels, n_nodes = shards.classes[unseen > 0], shards.n_nodes.sum()
        warn_user(unseen_labels(labels, unseen.sum(), n_nodes))
    return float(right / total)


def _count_right(model, shard):
    """Return weights of correct and of all nodes, and counts of unseen labels."""
    samples, predicted = model._decode(shard)
    truth, weight = (
        _known_codes(model)[shard.codes],
        np.repeat(shard.sample_weight, samples.lengths),
    )
    unseen = np.bincount(shard.codes[truth < 0], minlength=model._shard_classes.size)
    return weight[predicted == truth].sum(), weight.sum(), unseen


# The largest whose products with features stay finite.
_LARGEST_WEIGHT = 1e100


_Method = TypeVar("_Method")


def on_one_state(method: _Method) -> _Method:
    """Run a method on a snapshot of the model, safe from refits; on each shard of Shards."""

    @functools.wraps(method)
    def call(self, X, *args, **kwargs):
        now = copy.copy(self)
        check_parts(now)
        if not isinstance(X, Shards):
            return method(now, X, *args, **kwargs)
        given = inspect.signature(method).bind(now, X, *args, **kwargs).arguments
        if method.__name__ == "score":
            return _score_shards(**given)
        for name in ("allowed", "chunks"):
            if given.get(name) is not None:
                raise ValueError(f"{name} is for lists of samples: X must be one, not Shards")
        answers = _over_shards(now, X, _answer, method.__name__, args, kwargs)
        if isinstance(answers[0], tuple):
            return tuple(map(np.concatenate, zip(*answers, strict=True)))
        return np.concatenate(answers)

    return call


def as_given(results, X, graph, none=None):
    """Results of nodes, `none` of no node, as one array where X is one, of images or sequences."""
    is_one = isinstance(X, np.ndarray) and X.dtype != object and X.ndim > 2
    if not is_one or graph.has_items or (len(results) and results.dtype != object):
        return results
    if len(results) and isinstance(results[0], list):  # of segments
        return results
    if len(results):
        return np.stack([*results])
    return results if none is None else np.empty((*X.shape[:-1], *none.shape[1:]), none.dtype)


class Chunk(NamedTuple):
    """A chunk: nodes ``start:stop``, kind (as :func:`skstruct.metrics.chunks`), and probability."""

    start: int
    stop: int
    kind: Any
    probability: float | None


@functools.lru_cache(maxsize=16, typed=True)
def _rules_of(scheme, *labels):
    """Kinds of chunks, and which steps between labels make up chunks."""
    of_labels, steps = chunk_rules([*labels], scheme)
    kinds = [*dict.fromkeys(of_labels[: len(labels)])]
    kind = np.array([kinds.index(own) for own in of_labels[: len(labels)]], dtype=np.int64)
    return kinds, ChunkRules.of(steps, kind)


def _read_chunks(chunks, lengths, kinds):
    """Chunks that the user gave: their number per sample, and rows (start, stop, kind)."""
    if not hasattr(chunks, "__len__") or len(chunks) != lengths.size:
        raise ValueError(f"chunks must have a list for each of the {lengths.size} samples of X")
    code, rows = {kind: c for c, kind in enumerate(kinds)}, []
    for i, (own, n) in enumerate(zip(chunks, lengths.tolist(), strict=True)):
        for chunk in own if hasattr(own, "__len__") else [own]:
            try:
                start, stop, kind = chunk[:3]
                rows.append((index(start), index(stop), code[kind]))
                is_inside = 0 <= start < stop <= n
            except (TypeError, ValueError, KeyError):
                is_inside = False
            if not is_inside:
                raise ValueError(
                    f"chunks: {chunk!r} of sample {i} is not (start, stop, kind), where 0 <= start "
                    f"< stop <= {n} and kind is one of {kinds}"
                )
    counts = np.array([len(own) for own in chunks], dtype=np.int64)
    return counts, np.array(rows, dtype=np.int32).reshape(-1, 3)


_INFEASIBLE = "sample {}: no labelling {} the structure, `allowed` and the forbidden steps"


class Predictor(NamedFeatures, Decoder):
    """Mixin of estimators with weight tables, a structure and classes: views, decoding, scores."""

    #: The fitted attributes that training finds.
    _tables = TABLES
    #: What divides all scores of a model that TemperatureScaling has copied.
    _temperature = None

    def __setattr__(self, name, value):
        """Bring tables into the layout of fit, else each prediction would do so."""
        super().__setattr__(name, in_layout(value) if name in TABLES else value)

    def __copy__(self):
        """A copy with the same arrays; by way of a pickle's state all weights would be packed."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    # Views of the tables, so that writing to them changes the model.

    @property
    def coef_(self) -> np.ndarray:
        """Weights of node features, (n_classes, n_features): a view; CSR after `sparsify`.

        Where labels have hidden states, rows are states: see `states_`.
        """
        check_is_fitted(self)
        dense = self.node_weights_[: self.n_features_in_].T
        return sparse.csr_matrix(dense) if hasattr(self, "_stored_as") else dense

    @property
    def states_(self) -> np.ndarray:
        """The label of each row of ``coef_``: ``classes_``, repeated for hidden states."""
        check_is_fitted(self)
        return self.graph_.states(self.classes_)

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, of shape (n_classes,): a view, or zeros without `fit_intercept`."""
        check_is_fitted(self)
        weights = self.node_weights_
        return weights[-1] if self._has_intercept else np.zeros(weights.shape[1])

    @property
    def pairwise_coef_(self) -> np.ndarray:
        """Weights of label pairs: a view, whose shape the class documents."""
        check_is_fitted(self)
        return self.graph_.pair_tables(self.pair_weights_, len(self.states_))

    @property
    def boundary_coef_(self) -> np.ndarray:
        """Scores of labels at the first and at the last node, of shape (2, n_classes): a view."""
        check_is_fitted(self)
        d = self.n_features_in_
        return self.node_weights_[d : d + self.graph_.n_end_rows]

    # Reading, and what can be wrong with a model

    def _refuse_other_kind(self, graph, X):
        if graph.is_table and is_structured(X):
            given, taken = "sequences", "a table: expected a 2-D array, one node a row"
        elif not graph.is_table and getattr(X, "ndim", 0) == 2:
            given = "a table"
            taken = getattr(graph, "takes", "sequences: expected a list of 2-D arrays")
            taken += " (for one sample x that is [x])"
        else:
            return
        raise ValueError(
            f"X is {given}, but {type(self).__name__} with graph {graph} takes {taken}"
        )

    def _when_inferred(self, graph):
        """Return a hint for label errors if the structure was inferred from the data."""
        return graph.when_inferred if isinstance(self.graph, str) and self.graph == "auto" else ""

    def _require(self, verb, problem, advice):
        """Raise a TypeError if the structure lacks an operation, by its public name."""
        require(verb, problem, advice, type(self.graph_))

    def _read_for_prediction(self, X, allowed=None, n_best=1):
        """Read samples; return them, a mask of those with nodes, and the problem of these."""
        return self._problem_of(self._read_samples(X), allowed, n_best)

    def _read_samples(self, X):
        """Read samples of the kind seen in fit."""
        if "graph_" not in vars(self):
            check_is_fitted(self)
        graph = self.graph_
        if isinstance(X, Shards):
            raise TypeError("this method takes lists of samples, not Shards")
        if isinstance(X, Shard):
            if "_shard_classes" not in vars(self):
                raise TypeError("X must be Shards, not one of them: the model needs all features")
            samples = X.samples
        else:
            self._refuse_other_kind(graph, X)
            names = (None, None) if graph.is_table else names_of(X)
            self._compare_names(names)
            is_empty = not graph.is_table and is_empty_list(X)
            samples = graph.no_samples(self) if is_empty else graph.read_X(self, X, reset=False)
            if names[0] is not None and "_feature_names" in vars(self):
                self._warn_of_unknown(samples)
        return samples

    def _warn_of_unknown(self, samples):
        """Warn where vectorizers have no feature of X: most likely it has another form."""
        features, edges = samples.features, getattr(samples, "edge_features", None)
        if not sparse.issparse(features) or features.nnz or not features.shape[0]:
            return
        # Of edges a constant feature is known in any case.
        if edges is not None and (not sparse.issparse(edges) or edges.nnz > edges.shape[0]):
            return
        known, names = "", self._feature_names
        if isinstance(names, VocabularyNames):  # others would all be made for the first ones
            first = ", ".join(map(repr, itertools.islice(names.positions(), 3)))
            known = f"; those of the model are named {first}, ..."
        warn_user(
            f"X: no feature of its {features.shape[0]} nodes occurred in training, so that "
            "predictions do not depend on X. Make the features as in training, with the same "
            f"columns or by the same function from tokens to features{known}"
        )

    def _read_labels(self, read, y, samples):
        """Return labels as a method of the structure reads them, and what y leaves open."""
        if not self.graph_.takes_partial_labels:
            return read(y, samples), None
        return read_partial(lambda y: read(y, samples), y, self.graph_.is_table)

    def _read_truth(self, X, y):
        """Codes of true labels, -1 if unknown; what y leaves open; samples without unknown ones."""
        samples = self._read_samples(X)
        labels, partial = self._read_labels(self.graph_.read_labelling, y, samples)
        codes = self.graph_.encode(labels, self.classes_, samples.offsets, unseen=-1)
        is_known = codes >= 0
        if partial is not None:
            known = {0, 1} if self.graph_.has_label_sets else {*self.classes_.tolist()}
            sets = [known.issuperset(choice or ()) for choice in partial.choices]
            is_known[partial.hidden] = np.take(sets, partial.which[partial.hidden])
        wrong = np.append(0, np.cumsum(~is_known))[samples.offsets]
        return codes, partial, np.diff(wrong) == 0

    def _problem_of(self, samples, allowed=None, n_best=1):
        """Return samples, a mask of those with nodes, and the problem of these."""
        if allowed is not None:
            allowed = self._read_allowed(allowed, samples)
        self._check_tables(samples)
        if self._temperature is not None:
            samples = self._cooled(samples)
        keep = samples.lengths > 0
        if n_best > 1:
            each = n_best_bytes(samples.lengths, getattr(self.classes_, "itemsize", 8))
            what = f"{shown(n_best)} best labellings of {keep.size:,} samples"
            check_memory(n_best * each, what, "ask for fewer (k), or for some samples at a time")
        problem = self._decoding_problem(samples.without_empty(), allowed=allowed, n_best=n_best)
        return samples, keep, problem

    def _read_allowed(self, allowed, samples):
        masks = self.graph_.read_allowed(allowed, samples, self.classes_)
        return self.graph_.hidden_states(self.classes_).widened(masks)

    def _cooled(self, samples):
        """Divide the weights by the temperature, only those of features that the samples have."""
        node, pair, changed = self.node_weights_, self.pair_weights_, {}
        edges = getattr(samples, "edge_features", None)
        if sparse.issparse(samples.features):
            changed["features"], node = without_unused(samples.features, node)
            self.n_features_in_ = changed["features"].shape[1]
        if sparse.issparse(edges) and edges.shape[1] == len(pair):
            changed["edge_features"], pair = without_unused(edges, pair)
        self.node_weights_, self.pair_weights_ = node / self._temperature, pair / self._temperature
        return samples._replace(**changed)

    def _check_tables(self, samples):
        """Reject a model whose weight tables do not fit samples and classes."""
        shapes = self.graph_.weight_shapes(samples, len(self.states_), self._has_intercept)
        check_shapes(self, dict(zip(TABLES, shapes, strict=True)))

    def _item_scores(self, samples):
        """Return the scores of all rows of features."""
        scores = safe_sparse_dot(samples.features, self.node_weights_[: self.n_features_in_])
        return scores + self.intercept_

    def _weights(self):
        # Kernels have one type for all tables, memory maps included.
        return Weights(*(readable(getattr(self, name), np.float64) for name in TABLES))

    def _refuse_unsolved(self, ends, keep, problem=None, is_exact=True):
        """Raise for the first sample that a pass failed on; see :func:`decode`."""
        for end in ends:
            if end == -1:
                continue
            self._refuse_bad_weights()
            if end >= 0:
                # Rounding a relaxation may miss the only ones.
                found = "satisfies" if is_exact else "was found that satisfies"
                why = _INFEASIBLE.format(np.flatnonzero(keep)[end], found)
                clash = clash_of(self.graph_, self.classes_, problem, end)
                raise ValueError(f"{why} together with the rules {clash}" if clash else why)
            raise FloatingPointError(
                f"sample {np.flatnonzero(keep)[-2 - end]}: the scores overflow: are the features "
                "scaled?"
            )

    def _refuse_bad_weights(self):
        """Raise if weights are not finite, or so large that scores overflow."""
        for name in self._tables:
            table = getattr(self, name)
            if not np.isfinite(table).all():
                raise ValueError(f"the model's {name} are not finite")
            if table.size and np.abs(table).max() > _LARGEST_WEIGHT:
                raise ValueError(f"the model's {name} are too large: scores overflow")

    @on_one_state
    def predict(
        self, X: SamplesLike | Shards, allowed: Any = None, rules: list | None = None
    ) -> np.ndarray:
        """Best (MAP) labelling of each sample.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.
        allowed : list of array-like of shape (n_nodes, n_classes) of bool, default=None
            Constrained decoding: the labels allowed at each node, columns as in ``classes_``. For
            images (height, width, n_classes), for candidates (n_candidates,), for matchings
            (n_sources, n_targets), for lattices (n_arcs,); for segments those of their nodes. For a
            table one array of shape (n_samples, n_classes); for label sets (n_samples, n_labels,
            2): may a label be off, may it be on. With `node_types` a dict by type per sample.
        rules : list of rules, default=None
            Constraints on whole label sequences of a :class:`~skstruct.Chain`, such as
            ``[AtMostOnce("ZIP")]``: predictions are best among the labellings that satisfy them.
            See :ref:`rules`.

        Returns
        -------
        ndarray
            Labels: an object array of one 1-D array per sample, or for a table an array of shape
            (n_samples,), for label sets (n_samples, n_labels) of zeros and ones. If X is one array
            of sequences or images, so are they: (n_samples, n_nodes) or (n_samples, height, width).
            For a sample without nodes an empty array. Ties go to the first class.

        Raises
        ------
        ValueError
            If X or `allowed` has the wrong shape, no labelling is allowed, or rules contradict each
            other: the message names the sample and the rules.
        TypeError
            If there are rules and the structure is not a chain.
        FloatingPointError
            If the scores of a sample overflow.

        Warns
        -----
        UserWarning
            If a sample breaks so many rules that its labelling is not proved to be best; the
            message has the largest gap.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import SAGCRF
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf = SAGCRF(random_state=0).fit(X, y)
        >>> [labels.tolist() for labels in crf.predict([X[0], X[0][:1], X[0][:0]])]
        [['D', 'N'], ['D'], []]

        Without "D" at the first word:

        >>> crf.predict(X[:1], allowed=[[[False, True], [True, True]]])[0].tolist()
        ['N', 'N']
        """
        samples, codes = self._decode(X, allowed, rules)
        answers = self.graph_.answers(codes, self.classes_, samples)
        return as_given(answers, X, self.graph_, self.classes_[:0])

    @on_one_state
    def predict_states(self, X: SamplesLike | Shards) -> np.ndarray:
        """Hidden states of the best labelling of each sample.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.

        Returns
        -------
        ndarray
            As of :meth:`predict`, positions in ``states_`` instead of labels: rows of ``coef_``.

        See Also
        --------
        skstruct.Chain : Its parameter `states_per_label`.

        Examples
        --------
        A label on both sides of another one is two half-lines:

        >>> from skstruct import SAGCRF, MultiClass
        >>> X, y = [[0.0], [1.0], [2.0]], ["outside", "middle", "outside"]
        >>> graph = MultiClass(states_per_label={"outside": 2})
        >>> crf = SAGCRF(graph, C=100, random_state=0).fit(X, y)
        >>> crf.states_.tolist(), crf.predict_states(X).tolist()
        (['middle', 'outside', 'outside'], [2, 0, 1])
        >>> crf.predict(X).tolist()
        ['outside', 'middle', 'outside']
        """
        samples, states = self._best_states(X)
        return as_given(self.graph_.wrap(states, samples), X, self.graph_, states[:0])

    def _decode(self, X, allowed=None, rules=None):
        """Return samples, and the best labels of all nodes as positions in ``classes_``."""
        samples, codes = self._best_states(X, allowed, rules)
        return samples, self.graph_.hidden_states(self.classes_).labels_of(codes)

    def _best_states(self, X, allowed=None, rules=None):
        """Return samples, and the best states of all nodes as positions in ``states_``."""
        samples = self._read_samples(X)
        ruled = None if rules is None else self.graph_.with_rules(rules)
        samples, keep, problem = self._problem_of(samples, allowed)
        self._require(max_oracle, problem, "call predict_marginals")
        codes = np.empty(samples.offsets[-1], dtype=np.int32)
        w, given = self._weights(), problem
        problem = self.graph_.decoding(problem, w)
        is_exact = decodes_exactly(problem, w)
        if not is_exact and self._was_exact:
            warn_user(why_relaxed(problem))

        def run(part, start, stop):
            scratch = make_scratch(part)
            while True:
                end = decode(part, w, start, stop, scratch, codes)
                if end < 0 or is_exact:
                    return end
                if not self._decode_exactly(samples, np.flatnonzero(keep)[end], allowed, w, codes):
                    return end
                start = end + 1

        self._refuse_unsolved(over_samples(run, problem, self.n_jobs), keep, problem, is_exact)
        if ruled is not None:
            self._obey(ruled, given, samples, keep, codes[None])
        return samples, codes

    @property
    def _was_exact(self):
        # Imported models have no training.
        return getattr(self, "inference_", "exact") == "exact"

    def _decode_exactly(self, samples, i, allowed, w, codes):
        """Decode sample i exactly where a relaxation found nothing; False if too expensive."""
        exact = self.graph_.exactly()
        if exact is None:
            return False
        nodes = slice(*samples.offsets[i : i + 2])
        if allowed is not None:
            allowed = self._read_allowed(allowed, samples)[nodes]
        sample = samples.take(np.arange(samples.lengths.size) == i)
        try:
            problem = exact.make_problem(sample, self.states_, self._has_intercept, allowed=allowed)
        except ValueError:  # too wide
            return False
        problem, found = exact.decoding(problem, w), np.empty(sample.offsets[-1], dtype=np.int32)
        if decode(problem, w, 0, 1, make_scratch(problem), found) != -1:
            raise ValueError(_INFEASIBLE.format(i, "satisfies"))
        codes[nodes] = found
        return True

    @on_one_state
    def predict_top_k(
        self,
        X: SamplesLike | Shards,
        k: int,
        rules: list | None = None,
        probabilities: bool = False,
    ) -> tuple[np.ndarray, ...]:
        """The `k` best labellings of each sample and their scores (n-best decoding).

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.
        k : int
            Number of labellings, at least 1.
        rules : list of rules, default=None
            Constraints on labellings, as in :meth:`predict`.
        probabilities : bool, default=False
            Whether to return probabilities, too, which structural SVMs do not have. With `rules`
            they are conditional on these.

        Returns
        -------
        labels : ndarray of shape (n_samples,) of object
            For each sample an array of shape (k', n_nodes), best first; k' < k if the sample has
            fewer labellings. For a table the shapes are (k', 1), for images (k', height, width).
        scores : ndarray of shape (n_samples,) of object
            Their scores ``<w, Phi(x, y)>``, each of shape (k',).
        probabilities : ndarray of shape (n_samples,) of object
            Only if asked for: the exact probabilities of the labellings, each of shape (k',).

        Raises
        ------
        TypeError
            If the structure has no n-best decoding, or `probabilities` is no bool, or there are
            none.
        ValueError
            If `k` is not a positive integer, X is not as in fit, or n-best decoding is not exact at
            the model's weights (:class:`Pairwise` by minimum cuts, with edited weights that are not
            attractive).
        MemoryError
            If the result does not fit into memory.

        Examples
        --------
        Two words have four labellings:

        >>> import numpy as np
        >>> from skstruct import SAGCRF
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf = SAGCRF(random_state=0).fit(X, y)
        >>> labels, scores = crf.predict_top_k(X, k=5)
        >>> labels[0].shape, labels[0][0].tolist()
        ((4, 2), ['D', 'N'])
        >>> _, _, probabilities = crf.predict_top_k(X, k=5, probabilities=True)
        >>> probabilities[0].round(2).tolist()
        [0.63, 0.14, 0.14, 0.1]
        """
        if check_flag("probabilities", probabilities) and not hasattr(self, "predict_marginals"):
            raise TypeError(
                f"{type(self).__name__} has no probabilities: call predict_top_k with "
                "probabilities=False"
            )
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        check_is_fitted(self)
        self.graph_.refuse_states("n best labellings are those of states", TypeError)
        samples, keep, problem = self._read_for_prediction(X, n_best=int(k))
        ruled = None if rules is None else self.graph_.with_rules(rules)
        self._require(max_oracle, problem, "call predict_marginals")  # defaults build on it
        self._require(top_k_oracle, problem, "use predict")
        values = np.empty((int(keep.sum()), k))
        codes = np.empty((k, samples.offsets[-1]), dtype=np.int32)
        w = self._weights()
        exact_at = getattr(problem.space, "exact_at", None)
        if exact_at is not None and not exact_at(problem.rows, w):
            self._refuse_bad_weights()
            raise ValueError(
                f"{problem.space.structure}: at the model's weights interactions do not attract "
                "(edited, or rounded by sparsify?), so that minimum cuts do not find the n best "
                "labellings; "
                f"use predict{problem.space.remedy}"
            )
        self._refuse_unsolved(self._n_best(problem, w, values, codes), keep, problem)
        if ruled is not None:
            self._obey(ruled, problem, samples, keep, codes, values)
        labellings, scores = [], []
        row = iter(values)
        nodes = self.graph_.wrap(np.arange(samples.offsets[-1]), samples)
        for i, has_nodes in enumerate(keep):
            found = next(row) if has_nodes else np.zeros(1)
            found = found[np.isfinite(found)]
            chosen = codes[: found.size, np.atleast_1d(nodes[i])]
            labellings.append(self.graph_.ranked(chosen, self.classes_, samples, i))
            scores.append(found)
        out = object_array(labellings), object_array(scores)
        if not probabilities:
            return out
        best = self._log_likelihood(samples, keep, codes[0], rules)
        of_best = zip(scores, best, strict=True)
        return *out, object_array([np.exp(own - own[0] + log) for own, log in of_best])

    @on_one_state
    def predict_chunks(
        self,
        X: SamplesLike | Shards,
        *,
        confidence: bool = True,
        scheme: str | None = None,
        chunks: Any = None,
        rules: list | None = None,
    ) -> np.ndarray:
        """Chunks of the best labelling of each sequence, with their exact probabilities.

        The probability of a chunk is the total probability of all labellings with exactly this
        chunk: its ends and its kind.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, or Shards
            Sequences of the kind seen in fit.
        confidence : bool, default=True
            Whether to compute probabilities, which structural SVMs do not have.
        scheme : {"iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou", "runs"}, default=None
            Tagging scheme, as for :func:`skstruct.metrics.chunks`.
        chunks : list of lists of (start, stop, kind), default=None
            For each sequence the chunks to compute probabilities for, instead of those of the best
            labelling; further elements of the tuples are ignored.
        rules : list of rules, default=None
            Constraints on labellings, as in :meth:`skstruct.SAGCRF.predict_marginals`.

        Returns
        -------
        ndarray of shape (n_samples,) of object
            For each sequence a list of named tuples (start, stop, kind, probability), in order;
            the probability is None without `confidence`.

        Raises
        ------
        TypeError
            If the structure is not a chain, the model has no probabilities, or labels are not
            strings.
        ValueError
            If `scheme` is unknown or does not fit the labels, or `chunks` do not fit X.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import SAGCRF
        >>> X, y = [np.eye(3), np.eye(3)[1:]], [["B-PER", "I-PER", "O"], ["B-PER", "O"]]
        >>> crf = SAGCRF(C=10, random_state=0).fit(X, y)
        >>> for start, stop, kind, probability in crf.predict_chunks(X)[0]:
        ...     print(start, stop, kind, round(probability, 2))
        0 2 PER 0.74

        A chunk that the best labelling does not have:

        >>> [chunk] = crf.predict_chunks(X[:1], chunks=[[(0, 1, "PER")]])[0]
        >>> round(chunk.probability, 2)
        0.2
        """
        if confidence and not hasattr(self, "predict_marginals"):
            raise TypeError(
                f"{type(self).__name__} has no probabilities: call predict_chunks with "
                "confidence=False"
            )
        if chunks is not None and not confidence:
            raise ValueError("chunks asks for probabilities: confidence must be True")
        if rules is not None:
            check_is_fitted(self)
            self.graph_ = self.graph_.with_rules(rules)
        samples, keep, problem = self._read_for_prediction(X)
        self._require(chunk_marginals, problem, "use graph=Chain()")
        schemes = self.graph_.chunk_schemes or (scheme,)
        scheme = schemes[0] if scheme is None else scheme
        if scheme not in schemes and str(scheme).lower() not in schemes:
            raise ValueError(
                f"scheme={scheme!r}: chunks of this {type(self.graph_).__name__} are its segments, "
                f"scheme={schemes[0]!r}"
            )
        labels = self.classes_.tolist()
        kinds, steps = _rules_of(scheme if scheme is None else str(scheme), *labels)
        steps = steps.repeated(self.graph_.hidden_states(self.classes_).label)
        tag = without_prefix(labels) if scheme is None else None
        if tag is not None:
            warn_user(
                f"label {tag!r} has no chunk prefix (such as B- or I-): scheme='runs' is for such "
                "labels"
            )
        if chunks is None:
            ptr, best = problem.label_ptr, np.empty(problem.label_ptr[-1], dtype=np.int32)
            decoder = self.graph_.decoding(problem, self._weights())
            self._refuse_unsolved(self._pass(decode, decoder, best), keep, problem)
            count, found = np.empty(ptr.size - 1, np.int64), np.empty((best.size, 3), np.int32)
            find_chunks(steps, ptr, best, found, count)
        else:
            count, found = _read_chunks(chunks, samples.lengths, kinds)
            count = count[keep]
            ptr = ends_of(count)
        shares = np.empty(len(found))
        if confidence:
            ends = self._pass(chunk_probabilities, problem, steps, ptr, found, count, shares)
            self._refuse_unsolved(ends, keep, problem)
        ends = ends_of(count)
        rows = np.arange(ends[-1]) + np.repeat(ptr[:-1] - ends[:-1], count)
        starts, stops, codes = found[rows].T.tolist()
        sure = np.minimum(shares[rows], 1.0).tolist() if confidence else [None] * len(rows)
        named = [kinds[code] for code in codes]
        each = [*map(Chunk, starts, stops, named, sure)]
        of_sample = np.zeros(keep.size, dtype=np.int64)
        of_sample[keep] = count
        return object_array([each[a:b] for a, b in pairwise(ends_of(of_sample).tolist())])

    @on_one_state
    def decision_function(self, X: SamplesLike | Shards) -> np.ndarray:
        """Scores behind the predictions.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples of the kind seen in fit.

        Returns
        -------
        ndarray
            For a table, the scores of classes, of shape (n_samples, n_classes), or (n_samples,) for
            two classes: that of the second minus that of the first. For label sets of shape
            (n_samples, n_labels): what each label gains by being on. For candidates, matchings and
            lattices, an object array of the scores of candidates, pairs or arcs (without the
            connections between arcs). Otherwise, for segments, too, of shape (n_samples, 2): the
            score of the best labelling, and its margin over the second best (inf if there is no
            other).
        """
        check_is_fitted(self)
        if self.graph_.is_table or self.graph_.has_items:
            samples, _, _ = self._read_for_prediction(X)
            scores = self._item_scores(samples)
            bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
            if bad.size:
                sample = bad[0]
                if self.graph_.has_items:
                    sample = np.searchsorted(samples.item_ptr[1:], sample, side="right")
                self._refuse_unsolved([-2 - sample], np.ones(sample + 1, dtype=bool))
            scores = self.graph_.hidden_states(self.classes_).reduced(np.maximum, scores)
            return self.graph_.decision(scores, self, X, samples)
        _, scores = self.predict_top_k(X, 2)
        leads = [[best[0], best[0] - best[1] if best.size > 1 else np.inf] for best in scores]
        return np.array(leads, dtype=np.float64).reshape(-1, 2)

    @on_one_state
    def score(
        self,
        X: SamplesLike | Shards,
        y: SamplesLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Accuracy: the fraction of nodes that are labelled correctly.

        For label sets a node is a single label of a sample. The subset accuracy, which
        scikit-learn's multilabel classifiers return here, is ``accuracy_score(Y, predict(X))``. For
        segments it is that of the labels of nodes (:func:`skstruct.metrics.chunk_f1_score` compares
        whole segments), for lattices the F1 of arcs, for strings that of words.

        Parameters
        ----------
        X : list, object array, 3-D array, RaggedArray, 2-D array or sparse matrix, or Shards
            Samples.
        y : list, object array, RaggedArray or 1-D array
            Their true labels. Nodes without a label (None, NaN, masked) or with a set of labels do
            not count; those that did not occur in fit are errors. Shards include labels and
            weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's nodes.

        Returns
        -------
        float
            ``sum_i s_i (right nodes of i) / sum_i s_i (nodes of i)``.

        Raises
        ------
        ValueError
            If the lengths of X and y differ, or no node has a weight.
        """
        samples, predicted = self._decode(X)
        labels, partial = self._read_labels(self.graph_.read_y, y, samples)
        codes = self.graph_.encode(labels, self.classes_, samples.offsets, unseen=-1)
        if partial is not None:
            codes[partial.hidden] = predicted[partial.hidden]
        if (codes < 0).any():
            said = unseen_labels(labels[codes < 0], (codes < 0).sum(), codes.size)
            warn_user(said + self._when_inferred(self.graph_))
        lengths = samples.lengths
        if not lengths.any():
            raise ValueError("X has no nodes: there is no score")
        weight = None
        if sample_weight is not None:
            weight = read_sample_weight(sample_weight, lengths.size)
            if not weight[lengths > 0].any():
                raise ValueError("sample_weight is zero on all nodes: there is no score")
        counted = () if partial is None else (~partial.hidden,)
        among = np.ones(lengths.sum()) if weight is None else np.repeat(weight, lengths)
        largest = among[counted].max(initial=0.0)
        if not largest:
            raise ValueError("no node with a label has a weight: there is no score")
        if weight is not None:  # sums must not overflow; a power of 2 changes no bit of a mean
            weight = np.ldexp(np.minimum(weight, largest), -np.frexp(largest)[1])
        return self.graph_.score(predicted, codes, samples, weight, *counted)
