"""Weights and explanations as data frames (arrays where pandas is not installed)."""

from __future__ import annotations

from collections import Counter
from itertools import chain, product
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from ..core.wrappers import innermost, split_model
from ..data.frames import as_frame, find_pandas
from ..data.ragged import RaggedArray, object_array
from ..preprocessing.columns import is_frame, values_of
from ..preprocessing.ragged_transformer import output_names


def _matrix(values, index, columns):
    pandas = find_pandas()
    return values if pandas is None else pandas.DataFrame(values, index=index, columns=columns)


def _words(x):
    """The words of a raw sample: strings, first columns, texts of objects; None if it has none."""
    if getattr(getattr(x, "dtype", None), "kind", "O") in "biufc":
        return None
    if is_frame(x):
        rows = values_of(x[next(iter(x.columns))])
    elif isinstance(x, (list, tuple)):
        rows = x
    else:
        is_row = hasattr(x, "__iter__") and getattr(x, "ndim", 1) == 1
        rows = x.tolist() if hasattr(x, "tolist") else list(x) if is_row else []
    words = [row[0] if isinstance(row, (list, tuple)) and row else row for row in rows]
    words = [getattr(word, "text", word) for word in words]
    return words if words and all(isinstance(word, str) for word in words) else None


def _parts(model, feature_names):
    """The fitted estimator, the transformers before it, and the names of its features."""
    steps, model = innermost(model)
    before = steps[0] if len(steps) == 1 else make_pipeline(*steps) if steps else None
    check_is_fitted(model)
    if not hasattr(model, "graph_"):
        raise TypeError(f"{type(model).__name__} is not an estimator of skstruct, nor contains one")
    if hasattr(model, "node_weights_"):  # they may have been assigned
        model._check_tables(model.graph_.no_samples(model))
    n = model.n_features_in_
    if feature_names is None and before is not None:
        feature_names = output_names(before)
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        feature_names = [f"x{j}" for j in range(n)]
    names = np.asarray(feature_names, dtype=object)
    if names.ndim != 1:
        raise ValueError(f"feature_names must be {n} names, one per feature, got {feature_names!r}")
    if names.size != n:
        raise ValueError(f"feature_names has {names.size} names, the model {n} features")
    return model, before, names


def _node_weights(model):
    """The table of weights of features, of a model whose scores are linear in them."""
    if not hasattr(model, "node_weights_"):
        raise TypeError(
            f"{type(model).__name__} has no weights of features: its scores come from a map"
        )
    n_columns, n_labels = model.node_weights_.shape[1], len(_label_names(model))
    if n_columns != n_labels:
        raise ValueError(
            f"{type(model.graph_).__name__} has {n_columns} columns of weights and {n_labels} "
            "labels: this needs one column a label"
        )
    return model.node_weights_


def _edge_names(model, before, edge_feature_names):
    """Names of the model's edge features."""
    n = model.n_edge_features_in_
    if edge_feature_names is None and before is not None:
        edge_feature_names = output_names(before, edges=True)
    if edge_feature_names is None:
        edge_feature_names = model.graph_.edge_feature_names()
    if edge_feature_names is None:
        edge_feature_names = [f"x{j}" for j in range(n)]
    if len(edge_feature_names) != n:
        raise ValueError(
            f"edge_feature_names has {len(edge_feature_names)} names, the model {n} edge features"
        )
    return list(edge_feature_names)


def _type_names(model):
    """Names of the types of edges, none where there is one."""
    names = model.graph_.edge_type_names()
    return names if len(names) > 1 else []


def _choose(argument, names, value, what):
    """The position that `value`, a name or a position, chooses among `names`."""
    chosen = names.index(value) if value in names else value
    if isinstance(chosen, bool) or not isinstance(chosen, Integral) or not 0 <= chosen < len(names):
        few = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise ValueError(
            f"{argument} must choose one of the model's {len(names)} {what} ({few}), got {value!r}"
        )
    return int(chosen)


def coef_frame(model: BaseEstimator, feature_names: ArrayLike | None = None) -> Any:
    """Weights of features by label.

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted model. The steps before the estimator provide the names if they can.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the features.

    Returns
    -------
    DataFrame or ndarray of shape (n_features [+ 2] [+ 1], n_classes)
        One column, "item", where items are scored: candidates, links, points in boxes. One row per
        feature, then "<start>" and "<stop>" for boundary scores and "<intercept>". An array if
        pandas is not installed.

    Raises
    ------
    ValueError
        If the number of names is not the model's number of features.

    See Also
    --------
    skstruct.inspection.transition_frame : Weights of label pairs as a data frame.
    skstruct.inspection.top_features : The largest weights of each label.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.inspection import coef_frame
    >>> model = SAGCRF(fit_intercept=False, solver="lbfgs", tol=1e-9)
    >>> model = model.fit(np.eye(4), ["a", "b", "a", "b"])
    >>> coef_frame(model, ["w", "x", "y", "z"]).round(2).loc["w"].tolist()
    [0.34, -0.34]
    """
    model, _, names = _parts(model, feature_names)
    extra = [*model.graph_.end_names] if len(model.boundary_coef_) else []
    extra += ["<intercept>"] if model._has_intercept else []
    return _matrix(_node_weights(model).copy(), [*names, *extra], _label_names(model))


def _label_names(model):
    """Return the names of the columns of the weights: for label sets their names or numbers."""
    if hasattr(model.graph_, "chosen_items"):
        return np.array(["item"], dtype=object)
    states = model.graph_.hidden_states(model.classes_)
    return getattr(model, "label_names_in_", states.names(model.classes_))


def top_features(model: BaseEstimator, k: int = 10, feature_names: ArrayLike | None = None) -> Any:
    """The features of largest absolute weight of every label.

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted.
    k : int, default=10
        Number of features per label.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the features.

    Returns
    -------
    DataFrame or structured ndarray
        Columns "label", "feature", "weight"; labels in the order of ``classes_``, the largest
        weight first.

    Raises
    ------
    ValueError
        If `k` is below 1, or the number of names is wrong.

    See Also
    --------
    skstruct.inspection.coef_frame : Weights as a data frame.
    skstruct.inspection.explain : Feature contributions to the score of a sample's labelling.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.inspection import top_features
    >>> model = SAGCRF(solver="lbfgs").fit(np.eye(3), ["a", "b", "c"])
    >>> top_features(model, 1, ["x", "y", "z"])["feature"].tolist()
    ['x', 'y', 'z']
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}")
    model, _, names = _parts(model, feature_names)
    k = min(k, names.size)
    labels, features, weights = [], [], []
    for label, row in zip(_label_names(model), _node_weights(model)[: names.size].T, strict=True):
        top = np.argpartition(-np.abs(row), k - 1)[:k]
        top = top[np.argsort(-row[top], kind="stable")]
        labels += [label] * k
        features += names[top].tolist()
        weights += row[top].tolist()
    return as_frame(
        {"label": object_array(labels), "feature": object_array(features), "weight": weights}
    )


def transition_frame(
    model: BaseEstimator,
    edge_feature: int | str | None = None,
    edge_feature_names: ArrayLike | None = None,
    edge_type: int | str | None = None,
) -> Any:
    """Weights of pairs (label, next label).

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted, of a structure with edges.
    edge_feature : int or str, default=None
        Number or name of the table, for a model with edge features.
    edge_feature_names : array-like of str of shape (n_edge_features,), default=None
        Names of the edge features, by default those of the steps before the estimator.
    edge_type : int or str, default=None
        Number or name of the table, for a model with types of edges: "type 0" and so on
        (:class:`~skstruct.Pairwise`), or "to the right", "down", "down to the right" or "down to
        the left" (:class:`~skstruct.Grid` with ``directions``).

    Returns
    -------
    DataFrame or ndarray of shape (n_classes, n_classes)
        Rows are the labels of the first end of an edge, columns those of the second; -inf for pairs
        that the structure's ``forbidden`` excludes, whatever their weight in ``pairwise_coef_``.
        For label sets the interactions, 0 where there is no edge.

    Raises
    ------
    ValueError
        If the model has no transitions, or `edge_feature` or `edge_type` is missing for several
        tables, unknown, or given for a single table.

    See Also
    --------
    skstruct.inspection.TransitionDisplay : Heat map of the weights of label pairs.
    skstruct.inspection.coef_frame : Weights as a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.inspection import transition_frame
    >>> crf = SAGCRF(random_state=0).fit([np.ones((3, 1))] * 5, [["a", "b", "a"]] * 5)
    >>> frame = transition_frame(crf)
    >>> bool(frame.loc["a", "b"] > frame.loc["a", "a"])
    True
    """
    model, before, _ = _parts(model, None)
    table = model.pairwise_coef_
    if table.size == 0:
        hint = "; take MultiLabel('full') or MultiLabel(edges=...)"
        hint = hint if model.graph_.has_label_sets else ""
        raise ValueError(f"a model on {model.graph_} has no transitions{hint}")
    if model.graph_.has_label_sets:
        return _interactions(model)
    kinds = _type_names(model)
    if kinds:
        table = table[_choose("edge_type", kinds, edge_type, "types of edges")]
    elif edge_type is not None:
        raise ValueError(f"edge_type={edge_type!r}, but the model's edges are of one type")
    if table.ndim == 3:
        names = _edge_names(model, before, edge_feature_names)
        table = table[_choose("edge_feature", names, edge_feature, "edge features")]
    elif edge_feature is not None:
        raise ValueError(f"edge_feature={edge_feature!r}, but the model has no edge features")
    table = table + model.graph_.pair_mask(model.classes_)
    return _matrix(table, *model.graph_.pair_names(model.classes_))


def _ngrams(model):
    """The n-grams of more than two labels as codes and as labels, and their weights."""
    codes = getattr(model.graph_, "ngrams_", np.empty((0, 1), dtype=np.int64)).tolist()
    labels = [*model.classes_.tolist(), "<start>", "<stop>"]
    weights = model.pair_weights_[0, len(model.classes_) ** 2 :] if codes else ()
    for row, weight in zip(codes, weights, strict=True):
        gram = tuple(code for code in row if code >= 0)
        yield gram, tuple(labels[code] for code in gram), float(weight)


def ngram_frame(model: BaseEstimator) -> Any:
    """Weights of the n-grams of more than two labels, of a chain of an order above 1.

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted, with ``Chain(order=2)`` or ``Chain(order=3)``.

    Returns
    -------
    DataFrame or structured ndarray
        Columns "ngram", a tuple of labels, with "<start>" and "<stop>" for the ends, and "weight";
        the largest absolute weight first. The score of a label has the weights of all n-grams that
        end in it.

    Raises
    ------
    ValueError
        If the model has no such n-grams.

    See Also
    --------
    skstruct.inspection.transition_frame : Weights of pairs of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF, Chain
    >>> from skstruct.inspection import ngram_frame
    >>> X, y = [np.ones((3, 1))] * 4, [["a", "b", "b"], ["b", "b", "a"]] * 2
    >>> crf = SAGCRF(Chain(order=2), random_state=0).fit(X, y)
    >>> sorted(ngram_frame(crf)["ngram"])
    [('a', 'b', 'b'), ('b', 'b', 'a')]
    """
    model, _, _ = _parts(model, None)
    known = sorted(_ngrams(model), key=lambda gram: -abs(gram[2]))
    if not known:
        raise ValueError(f"a model on {model.graph_} has no n-grams; take Chain(order=2)")
    _, names, weights = zip(*known, strict=True)
    return as_frame({"ngram": object_array(names), "weight": np.array(weights)})


def _interactions(model):
    graph = model.graph_
    if graph.tables:
        raise ValueError("with full tables there is no one weight a pair: see pairwise_coef_")
    names = _label_names(model)
    table = np.zeros((names.size, names.size))
    first, second = graph.edges_.T
    table[first, second] = table[second, first] = model.pairwise_coef_
    return _matrix(table, names, names)


def prediction_frame(model: BaseEstimator, X: Any) -> Any:
    """Predicted labels of nodes, such as tokens, as a table with one row per node.

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted, of a structure whose nodes have labels, such as a chain or an image.
    X : list, object array or RaggedArray
        Samples; for a Pipeline, raw ones.

    Returns
    -------
    DataFrame or structured ndarray
        Columns "sample"; "type", if nodes have types; "node", pixels row by row; "token", if raw
        samples have words; "label", that of the best labelling; "probability", its marginal
        probability if the model has any.

    Raises
    ------
    TypeError
        If predictions are not labels of nodes.

    See Also
    --------
    skstruct.inspection.ErrorAnalysis : Comparison of predictions with the truth.
    skstruct.SAGCRF.predict_chunks : Chunks with probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.inspection import prediction_frame
    >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
    >>> crf = SAGCRF(random_state=0).fit(X, y)
    >>> prediction_frame(crf, X[:1]).round(2)
       sample  node label  probability
    0       0     0     D         0.77
    1       0     1     N         0.77
    """
    own, samples = split_model(model, X)
    labels = own.predict(samples)
    graph = innermost(own)[1].graph_
    if getattr(graph, "node_types", None) is not None:
        return _frame_by_type(own, samples, labels)
    is_of_nodes = not (graph.is_table or graph.has_items or graph.has_label_sets)
    if not is_of_nodes or not all(isinstance(one, np.ndarray) for one in labels):
        raise TypeError(f"predictions of {graph} are not labels of nodes; see predict")
    classes, sizes = innermost(own)[1].classes_, [one.size for one in labels]
    flat = np.concatenate([classes[:0], *(one.ravel() for one in labels)])
    columns = {
        "sample": np.repeat(np.arange(len(sizes)), sizes),
        "node": np.concatenate([np.arange(0), *map(np.arange, sizes)]),
    }
    words = [None] if is_frame(X) else [_words(x) for x, size in zip(X, sizes, strict=True) if size]
    if None not in words and sum(map(len, words)) == flat.size:
        columns["token"] = object_array([word for own in words for word in own])
    columns["label"] = flat
    if hasattr(own, "predict_marginals"):
        n = len(classes)
        tables = [one.reshape(-1, n) for one in own.predict_marginals(samples)]
        code = dict(zip(classes.tolist(), range(n), strict=True))
        at = np.arange(flat.size), [code[label] for label in flat.tolist()]
        columns["probability"] = np.vstack([np.empty((0, n)), *tables])[at]
    return as_frame(columns)


def _frame_by_type(model, samples, labels):
    """The table where nodes have types."""
    parts = [(i, *part) for i, one in enumerate(labels) for part in one.items()]
    rows = [(i, kind, t, y) for i, kind, own in parts for t, y in enumerate(own.tolist())]
    names = "sample", "type", "node", "label"
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    if hasattr(model, "predict_marginals"):
        of_type = {}
        for kind, label in innermost(model)[1].classes_.tolist():
            of_type.setdefault(kind, []).append(label)
        tables = model.predict_marginals(samples)
        columns["probability"] = [
            tables[i][kind][t, of_type[kind].index(y)] for i, kind, t, y in rows
        ]
    return as_frame(columns)


def explain(
    model: BaseEstimator,
    x: Any,
    labels: ArrayLike | None = None,
    feature_names: ArrayLike | None = None,
    edge_feature_names: ArrayLike | None = None,
    *,
    against: ArrayLike | None = None,
) -> Any:
    """Decompose the score of one sample's labelling into feature contributions.

    Read more in the :ref:`User Guide <inspection_guide>`.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted model; for a Pipeline, x is the raw sample.
    x : sample
        One element of X (for a table one row).
    labels : array-like of shape (n_nodes,), default=None
        The labelling to explain, by default the predicted one.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the features.
    edge_feature_names : array-like of str of shape (n_edge_features,), default=None
        Names of the edge features, by default those of the steps before the estimator.
    against : array-like of shape (n_nodes,), default=None
        Another labelling, whose terms count with negative sign; terms of both labellings cancel.
        The contributions then sum to the difference of the two scores.

    Returns
    -------
    DataFrame or structured ndarray
        One row per term ``value * weight`` of ``<w, Phi(x, y)>``, with columns "node", pixels row
        by row; "label"; "previous", the label at the other end of an edge, else ""; "feature";
        "value"; "weight"; "contribution". Terms of edges are listed at their second end. For
        structures of items (candidates, links, points in boxes) the nodes are the chosen items.

    Raises
    ------
    ValueError
        If x is not a sample as in fit; `labels` or `against` has another length, unknown labels, a
        forbidden pair (the message names its node) or breaks a rule, so that its score is -inf; or
        the labels are label sets.

    See Also
    --------
    skstruct.inspection.top_features : The largest weights of each label.
    skstruct.inspection.MarginalsDisplay : Heat map of a sample's marginals.

    Notes
    -----
    To explain why a node did not get a label, compare with the best labelling in which it has this
    label: ``against=model.predict([x], allowed=[mask])[0]``, where ``mask`` of shape (n_nodes,
    n_classes) is True except for the other labels of this node.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF
    >>> from skstruct.inspection import explain
    >>> from skstruct.testing import random_sequences
    >>> X, y = random_sequences(np.random.default_rng(0))
    >>> model = SAGCRF(tol=0.1).fit(X, y)
    >>> _, scores = model.predict_top_k(X[:1], 1)
    >>> bool(np.isclose(explain(model, X[0])["contribution"].sum(), scores[0][0]))
    True
    """
    model, before, names = _parts(model, feature_names)
    if model.graph_.has_label_sets:
        raise ValueError(
            "explain is for single labels: for label sets see coef_frame and transition_frame"
        )
    model.graph_.refuse_states("explain needs the state of each node; see coef_frame")
    samples, codes = _decoded(model, before, x)
    if labels is not None:
        codes = _labelling(model, labels, samples, "labels")
    edge_names = ["<transition>"]
    if _edge_features(samples) is not None:
        edge_names = [
            f"<transition> {name}" for name in _edge_names(model, before, edge_feature_names)
        ]
    kinds = _type_names(model)
    if kinds:
        edge_names = [name.replace(">", f", {kind}>", 1) for kind in kinds for name in edge_names]
    terms, n_negative = [*_terms(model, samples, codes, names, edge_names)], 0
    if against is not None:
        other = _labelling(model, against, samples, "against")
        own, other = Counter(terms), Counter(_terms(model, samples, other, names, edge_names))
        terms, negative = [*(own - other).elements()], [*(other - own).elements()]
        terms, n_negative = terms + negative, len(negative)
    columns = [*zip(*terms, strict=True)] or [()] * 6
    node, label, previous, feature, value, weight = columns
    order = np.argsort(np.array(node, dtype=np.int64), kind="stable")
    value, weight = np.array(value, dtype=np.float64), np.array(weight, dtype=np.float64)
    sign = np.repeat([1.0, -1.0], [len(terms) - n_negative, n_negative])
    return as_frame(
        {
            "node": np.array(node, dtype=np.int64)[order],
            "label": model.classes_[np.array(label, dtype=np.int64)][order],
            "previous": object_array(previous)[order],
            "feature": object_array(feature)[order],
            "value": value[order],
            "weight": weight[order],
            "contribution": (sign * value * weight)[order],
        }
    )


def _terms(model, samples, codes, names, edge_names):
    """Node, code, label at the other end, feature, value and weight of each term."""
    if hasattr(model.graph_, "chosen_items"):
        codes = model.graph_.chosen_items(codes, samples).astype(np.int64)
        terms = _node_terms(model, samples, codes, np.zeros_like(codes), codes, names)
    else:
        terms = chain(
            _node_terms(model, samples, codes, codes, np.ones_like(codes), names),
            _edge_terms(model, samples, codes, edge_names),
            _ngram_terms(model, codes),
        )
    for node, *rest in terms:
        yield int(node), int(codes[node]), *rest


def _ngram_terms(model, codes):
    """Terms of n-grams of more than two labels, with the labels before the last."""
    known = {gram[0]: gram[1:] for gram in _ngrams(model)}
    n, sizes = model.classes_.size, sorted({len(gram) for gram in known})
    padded = [n, *codes.tolist(), n + 1]
    for stop, size in product(range(len(padded) + 1), sizes):
        found = known.get(tuple(padded[stop - size : stop])) if stop >= size else None
        if found is not None:
            is_end = stop == len(padded)
            name, node = ("<n-gram, stop>", stop - 3) if is_end else ("<n-gram>", stop - 2)
            yield node, found[0][: size - 1], name, 1.0, found[1]


def _labelling(model, labels, samples, argument):
    """Codes of the labels that the user gave."""
    graph, classes = model.graph_, model.classes_
    y = [labels] if not graph.is_table else np.atleast_1d(labels)
    try:
        codes = graph.encode(graph.read_labelling(y, samples), classes, samples.offsets)
        if codes.size and not graph.has_items:  # refuses true labels that are forbidden
            graph.make_problem(samples, classes, model._has_intercept, codes=codes)
    except ValueError as error:
        raise ValueError(str(error).replace("y: ", f"{argument}: ", 1)) from None
    if not graph.is_labelling(codes, samples, classes).all():
        raise ValueError(f"{argument} must be one labelling of {graph}")
    return codes


def _decoded(model, before, x):
    """The one sample, and its best labelling."""
    try:
        if before is not None:
            X = before.transform([x])
        elif model.graph_.is_table:
            X = x if sparse.issparse(x) else np.atleast_2d(x)
            X = X.reshape(1, -1) if X.ndim == 1 else X  # a row of a sparse array
        else:
            X = object_array([x])
        samples, codes = model._decode(X)
    except (TypeError, ValueError) as error:
        kind = getattr(getattr(x, "dtype", None), "kind", "f")  # a frame has several dtypes
        if getattr(x, "ndim", 3) <= 2 and kind != "O" and not isinstance(x, RaggedArray):
            raise
        hint = "explain takes one sample x, not a list of samples such as [x]"
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{error}; {hint}") from None
    if samples.offsets.size != 2:
        raise ValueError(f"explain takes one sample, got {samples.offsets.size - 1}")
    return samples, codes


def _edge_features(samples):
    return getattr(samples, "edge_features", None)


def _entries(matrix):
    """Rows, columns and values of the nonzeros."""
    if sparse.issparse(matrix):
        # Packed matrices mix index types, which scipy's own conversion refuses.
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        columns, values = matrix.indices, matrix.data
    else:
        rows, columns = np.nonzero(matrix)
        values = matrix[rows, columns]
    return zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True)


def _node_terms(model, samples, codes, columns, shown, names):
    """Terms of the nodes that count, each by its column of the weights."""
    table = _node_weights(model)
    for node, j, value in _entries(samples.features):
        if shown[node]:
            yield node, "", names[j], value, table[j, columns[node]]
    yield from model.graph_.other_terms(model, codes, samples)
    if model._has_intercept:
        for node in np.flatnonzero(shown).tolist():
            yield node, "", "<intercept>", 1.0, table[-1, columns[node]]


def _edge_terms(model, samples, codes, names):
    first, second = model.graph_.edge_ends(samples)
    if not first.size:
        return
    n_classes = model.classes_.size
    tables = model.pairwise_coef_.reshape(-1, n_classes, n_classes)
    if _edge_features(samples) is None:
        n_rows, values = 1, ((e, 0, 1.0) for e in range(first.size))
    else:
        n_rows, values = model.n_edge_features_in_, _entries(_edge_features(samples))
    types = getattr(samples, "types", None)
    types = np.zeros(first.size, dtype=int) if types is None else types
    for e, row, value in values:
        at = codes[first[e]], codes[second[e]]
        table = types[e] * n_rows + row
        yield second[e], model.classes_[at[0]], names[table], value, tables[table][at]
