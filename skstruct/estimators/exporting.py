"""Write a fitted model as a file that :mod:`skstruct.lite` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..core.typing import PathLike
from ..data.constraints import transition_mask
from ..data.store import written_beside
from ..graphs.chain import Chain, step_automaton
from ..graphs.multiclass import MultiClass
from ..lite import FORMAT, VERSION, check_size
from ..preprocessing import SequenceVectorizer, TemplateVectorizer, TokenFeatures
from ..preprocessing.patterns import python_regex
from ..preprocessing.template import decode_keys
from .calibration import TemperatureScaling, at_temperature
from .marginals import ProbabilisticPredictor
from .persistence import TABLES
from .prediction import Predictor


def export(model: Any, path: PathLike) -> None:
    """Write a fitted model for :class:`skstruct.lite.Tagger`, which needs NumPy alone.

    The file is NumPy's ``.npz``, compressed, without pickles. Weights that are 0 are left out, and
    the others are in single precision if that changes none of them: see :meth:`SAGCRF.sparsify
    <skstruct.SAGCRF.sparsify>`. Read more in the :ref:`User Guide <lite_guide>`.

    Parameters
    ----------
    model : estimator, Pipeline or TemperatureScaling
        A fitted estimator whose structure is :class:`~skstruct.Chain`, without edge features, or
        :class:`~skstruct.MultiClass`; or a Pipeline of a fitted
        :class:`~skstruct.preprocessing.SequenceVectorizer`,
        :class:`~skstruct.preprocessing.TemplateVectorizer` or
        :class:`~skstruct.preprocessing.TokenFeatures` (without `vectors`) and such an estimator; or
        a :class:`~skstruct.TemperatureScaling` of one of them, without `isotonic`.
    path : str or Path
        The file. It is replaced at once when it is complete, so that other processes may read it,
        or write it, at the same time.

    Raises
    ------
    ValueError, TypeError
        If the model is not fitted, or has a part that the file cannot hold; names the part.

    See Also
    --------
    skstruct.lite.Tagger : Reads the file.
    skstruct.SAGCRF.sparsify : Makes the file small.

    Notes
    -----
    ``header`` is JSON in UTF-8 bytes: ``format``, ``version``, ``structure`` ("chain", "table"),
    ``labels``, ``n_features``, ``probabilities`` (whether the model is a CRF), and ``reader``: None
    for arrays of features, or the settings of the vectorizer. Tables of weights are ``node``
    (n_features, n_classes), ``ends`` (the intercept, and scores of labels at the first and at the
    last node), and ``steps`` of (label, next label); -inf is forbidden. With rules, or an order
    above 1, there are ``states`` of an automaton, with their labels in ``state_labels``; ``first``
    (n_classes,) and ``after`` (n_states, n_classes) are the states after a label, counted from 1, 0
    where there is none, and ``steps`` those from states to labels and to the end. A table with many
    zeros is stored as ``node_values``, its other entries row by row, and ``node_gaps``, their
    distances, the first from one place before the table. ``names`` are the feature names, or the
    strings of columns, as one text in UTF-8, and ``name_lengths`` their lengths in characters.
    ``codes_0``, ``codes_1`` and so on are the strings in the macros of each feature of a group of
    templates.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import skstruct
    >>> from skstruct.lite import Tagger
    >>> crf = skstruct.SAGCRF(random_state=0).fit([np.eye(2)], [["D", "N"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skstruct.export(crf, f"{folder}/crf.npz")
    ...     Tagger.load(f"{folder}/crf.npz").tag(np.eye(2))
    ['D', 'N']
    """
    vectorizer, estimator = _parts(model)
    labels = _labels(estimator)
    node = estimator.node_weights_[: estimator.n_features_in_]
    reader, names, keep = None, {}, slice(None)
    if vectorizer is not None:
        keep = node.any(axis=1)
        reader, names = _reader(vectorizer, keep)
    node = node[keep]
    is_chain, states = type(estimator.graph_) is Chain, {}
    ends, steps = _chain_tables(estimator) if is_chain else (_no_ends(estimator), None)
    if is_chain:
        read = step_automaton(estimator.graph_, estimator.classes_, estimator.pair_weights_)
        if read is not None:
            automaton, steps = read
            states = {
                "state_labels": _smallest(automaton.labels),
                "first": _smallest(automaton.first + 1),
                "after": _smallest(automaton.after + 1),
            }
    header = {
        **{"format": FORMAT, "version": VERSION, "structure": "chain" if is_chain else "table"},
        **{"labels": labels, "n_features": len(node), "reader": reader},
        "probabilities": isinstance(estimator, ProbabilisticPredictor),
    }
    if states:
        header["states"] = len(steps)
    arrays = {"header": _bytes(json.dumps(header, ensure_ascii=False)), **names, **states}
    arrays |= _packed("node", node) | _packed("ends", ends)
    if is_chain:
        arrays |= _packed("steps", steps)
    with written_beside(Path(path)) as file:
        np.savez_compressed(file, **arrays)
        n_steps = header.get("states", len(labels)) ** 2
        try:
            check_size((len(node) + 3) * len(labels) + n_steps, file.tell())
        except ValueError as error:
            hint = f"; {len(steps):,} states need a lower order, or fewer rules" if states else ""
            raise ValueError(f"{error}{hint}") from None


def _parts(model):
    """The vectorizer, or None, and the estimator of a model, both fitted and of a known kind."""
    if isinstance(model, TemperatureScaling):
        check_is_fitted(model)
        if hasattr(model, "isotonic_"):
            raise ValueError("TemperatureScaling(isotonic=True) cannot be exported")
        vectorizer, estimator = _parts(
            getattr(model.estimator_, "best_estimator_", model.estimator_)
        )
        return vectorizer, at_temperature(estimator, model.temperature_)
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    *before, estimator = [step for _, step in steps if step not in (None, "passthrough")] or [None]
    if not isinstance(estimator, Predictor) or estimator._tables is not TABLES:
        hint = ": export its best_estimator_" if hasattr(estimator, "best_estimator_") else ""
        raise TypeError(
            "model must be an estimator of skstruct with linear scores, or a Pipeline that ends "
            f"with one, got {type(estimator).__name__}{hint}"
        )
    check_is_fitted(estimator)
    graph = estimator.graph_
    if type(graph) not in (Chain, MultiClass) or graph.edge_features:
        raise TypeError(
            f"{graph} cannot be exported: only Chain() without edge features and MultiClass() can"
        )
    estimator._check_tables(graph.no_samples(estimator))
    estimator._refuse_bad_weights()
    for step in before if type(graph) is MultiClass else before[:-1]:
        raise TypeError(f"the step {type(step).__name__} cannot be exported")
    if not before:
        return None, estimator
    vectorizer = before[0]
    if type(vectorizer) not in (SequenceVectorizer, TemplateVectorizer, TokenFeatures):
        raise TypeError(
            f"the step {type(vectorizer).__name__} cannot be exported: only SequenceVectorizer, "
            "TemplateVectorizer and TokenFeatures can"
        )
    check_is_fitted(vectorizer)
    if getattr(vectorizer, "vectors", None) is not None:
        raise TypeError("TokenFeatures(vectors=...) cannot be exported: the file has no vectors")
    if getattr(vectorizer, "features", None) is not None:
        raise TypeError(
            "SequenceVectorizer(features=...) cannot be exported: the file holds no functions. "
            "set_params(features=None) on the vectorizer, and give the tagger what it returned"
        )
    if getattr(vectorizer, "vocabulary_", None) is None:
        raise ValueError("SequenceVectorizer(hashing=True) cannot be exported: it has no names")
    if vectorizer.n_features_out_ != estimator.n_features_in_:
        raise ValueError(
            f"{type(vectorizer).__name__} makes {vectorizer.n_features_out_} features, but the "
            f"estimator was fitted on {estimator.n_features_in_}"
        )
    names = getattr(vectorizer, "_all_names", vectorizer._names)
    estimator._compare_names(names if isinstance(names, tuple) else (names, None))
    return vectorizer, estimator


def _labels(estimator):
    """The classes as JSON has them."""
    estimator.graph_.refuse_states("the file has no place for hidden states")
    labels = np.asarray(estimator.classes_).tolist()
    kinds = {type(label) for label in labels}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise TypeError(f"labels of type {labels[0].__class__.__name__} cannot be exported")
    return labels


def _no_ends(estimator):
    """The intercept, and no scores of the ends."""
    ends = np.zeros((3, len(estimator.classes_)))
    ends[0] = estimator.intercept_
    return ends


def _chain_tables(estimator):
    """The intercept and scores of the ends, and of steps; -inf where they are forbidden."""
    graph, ends = estimator.graph_, _no_ends(estimator)
    if graph.boundary:
        ends[1:] = estimator.boundary_coef_
    mask = transition_mask(graph.forbidden, estimator.classes_)
    ends[1] += mask.start
    ends[2] += mask.stop
    return ends, estimator.pairwise_coef_ + mask.pairs


def _reader(vectorizer, keep):
    """The settings of a vectorizer, and arrays with the names of the features that are kept."""
    if isinstance(vectorizer, SequenceVectorizer):
        names = [name for name, own in zip(vectorizer.vocabulary_, keep, strict=True) if own]
        vectors = vectorizer._vector_lengths
        reader = {"kind": "dicts", "separator": vectorizer.separator, "vectors": vectors}
        return reader, _texts(names)
    learned, base, _ = vectorizer._node_features
    arrays, used = {}, np.zeros(len(vectorizer.vocabulary_), dtype=bool)
    for g, own in enumerate(learned):
        n_macros = len(own.texts) - 1
        kept = own.keys[keep[own.first : own.first + own.keys.size]]
        codes = np.empty((kept.size, n_macros), dtype=np.int64)
        if n_macros:
            codes.T[:] = decode_keys(kept, own.tables, base)
        used[codes] = True
        arrays[f"codes_{g}"] = codes
    position = np.cumsum(used) - 1
    for name, codes in arrays.items():
        arrays[name] = _smallest(position[codes])
    group = {own.texts: g for g, own in enumerate(learned)}
    reader = {
        **{"kind": "templates", "outside": vectorizer._outside},
        "n_columns": vectorizer.n_columns_,
        "groups": [len(own.texts) - 1 for own in learned],
        "templates": [
            [group[template.texts], [_macro(macro) for macro in template.macros]]
            for template in vectorizer._node
        ],
    }
    names = [name for name, own in zip(vectorizer.vocabulary_, used, strict=True) if own]
    arrays |= _texts(names)
    if isinstance(vectorizer, TokenFeatures):
        settings, grams = vectorizer._for_export(keep)
        reader, arrays = reader | settings, arrays | _texts(grams, "gram")
    return reader, arrays


def _macro(macro):
    pattern = python_regex(macro.regex)
    return [macro.command, macro.lower, macro.offset, macro.column, pattern, macro.absolute]


def _bytes(text):
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _smallest(numbers):
    """The same whole numbers in the smallest type."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _texts(names, what="name"):
    lengths = np.array([len(name) for name in names], dtype=np.int64)
    return {f"{what}s": _bytes("".join(names)), f"{what}_lengths": _smallest(lengths)}


def _packed(name, table):
    """The smaller of two forms of a table: all of it, or what is not 0."""
    table = np.asarray(table, dtype=np.float64)
    with np.errstate(over="ignore"):
        single = table.astype(np.float32)
    table = single if np.array_equal(single, table) else table
    places = np.flatnonzero(table)
    gaps = _smallest(np.diff(places, prepend=-1))
    if gaps.itemsize > 4 or places.size * (table.itemsize + gaps.itemsize) >= table.nbytes:
        return {name: table}
    return {f"{name}_values": table.ravel()[places], f"{name}_gaps": gaps}
