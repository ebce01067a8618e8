"""Small pickles: weight tables without their zeros, in single precision if wanted."""

from __future__ import annotations

import math
import operator
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Self

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils.validation import check_is_fitted

from ..core.memory import check_memory
from ..graphs.base import Graph

TABLES = ("node_weights_", "pair_weights_")

#: Types in skops files of fitted models, besides those that skops trusts anyway: what
#: ``skops.io.load(path, trusted=TRUSTED)`` needs. Structures, scores and transformers of your own
#: are not among them.
TRUSTED = [
    "skstruct.estimators.crf.SAGCRF",
    "skstruct.data.names.JoinedNames",
    "skstruct.data.names.ListedNames",
    "skstruct.data.names.VocabularyNames",
    "skstruct.data.dictionary.Dictionary",
    "skstruct.data.rules.AtLeastOnce",
    "skstruct.data.rules.AtMostOnce",
    "skstruct.data.rules.Before",
    "skstruct.data.rules.Exactly",
    "skstruct.data.rules.Pattern",
    "skstruct.graphs.boxes.Boxes",
    "skstruct.graphs.candidates.Candidates",
    "skstruct.graphs.chain.Chain",
    "skstruct.graphs.lattice.Lattice",
    "skstruct.graphs.pairwise.graph.Pairwise",
    "skstruct.graphs.pairwise.grid.Grid",
    "skstruct.graphs.matching.Matching",
    "skstruct.graphs.multiclass.MultiClass",
    "skstruct.graphs.multilabel.MultiLabel",
    "skstruct.graphs.semichain.SemiChain",
    "skstruct.graphs.tree.Tree",
    "skstruct.graphs.words.WordLattice",
    "skstruct.pipeline.Pipeline",
    "skstruct.preprocessing.union.Learned",
    "skstruct.preprocessing.columns.TokenColumns",
    "skstruct.preprocessing.patterns.Macro",
    "skstruct.preprocessing.patterns.Template",
    "skstruct.preprocessing.pernode.PerNode",
    "skstruct.preprocessing.sequences.SequenceVectorizer",
    "skstruct.preprocessing.template.TemplateVectorizer",
    "skstruct.preprocessing.template._Features",
    "skstruct.preprocessing.template.TemplateNames",
    "skstruct.preprocessing.tokens.TokenFeatures",
    "skstruct.preprocessing.tokens._Settings",
    "skstruct.preprocessing.union.SequenceUnion",
    "skstruct.scores.ConvMap",
    "skstruct.scores.LinearMap",
    "skstruct.scores.MLPMap",
    "skstruct.estimators.calibration.TemperatureScaling",
    "skstruct.estimators.smoothed.SmoothedClassifier",
    "skstruct.estimators.smoothed._Scores",
    "skstruct.estimators.svm_bcfw.BCFWSSVM",
    "skstruct.estimators.svm_casimir.CasimirSSVM",
    "skstruct.estimators.svm_extragradient.ExtragradientSSVM",
    "skstruct.estimators.svm_gdmm.GDMMSSVM",
    "skstruct.estimators.svm_prox_linear.ProxLinearSSVM",
    "skstruct.estimators.svm_subgradient.SubgradientSSVM",
]


def in_layout(table):
    """A table of numbers in the layout of fit, for which kernels are compiled; others stay."""
    if not isinstance(table, np.ndarray) or table.dtype.kind not in "biuf":
        return table
    if isinstance(table, np.ma.MaskedArray):  # NaN is refused: nothing is known of these
        table = table.astype(np.float64).filled(np.nan)
    return np.asarray(np.require(table, np.float64, ["C", "A"]))


def pack_table(table: np.ndarray, dtype):
    """Return the smaller of two forms of a weight table, dense or sparse."""
    table = np.asarray(table).astype(dtype, copy=False)
    kind = np.int32 if table.size <= np.iinfo(np.int32).max else np.int64
    each = table.itemsize + np.dtype(kind).itemsize
    if each * np.count_nonzero(table) >= table.nbytes:
        return table
    positions = np.flatnonzero(table)
    parts = {"data": table.ravel()[positions], "positions": positions.astype(kind)}
    return parts | {"n_rows": table.shape[0], "n_columns": table.shape[1]}


def _read_parts(stored):
    """Return the parts of a packed table: entries, positions and shape."""
    try:
        data, positions = (np.asarray(stored[name]) for name in ("data", "positions"))
        shape = tuple(operator.index(stored[name]) for name in ("n_rows", "n_columns"))
    except (KeyError, TypeError) as error:
        raise ValueError(f"a stored weight table is damaged: {error!r}") from None
    sound = data.dtype.kind == "f" and positions.dtype.kind == "i" and min(shape) >= 0
    sound = sound and data.ndim == positions.ndim == 1 and data.size == positions.size
    if sound and positions.size:
        inside = positions[0] >= 0 and int(positions[-1]) < shape[0] * shape[1]
        sound = inside and bool((positions[1:] > positions[:-1]).all())
    if not sound:
        raise ValueError("a stored weight table is damaged: its positions do not fit its shape")
    return data, positions, shape


def unpack_table(stored, shape=None) -> np.ndarray:
    """Return the weight table as estimators hold it."""
    if isinstance(stored, dict):
        data, positions, stored_shape = _read_parts(stored)
    else:
        stored_shape = getattr(stored, "shape", None)
        if not isinstance(stored, np.ndarray) or stored.dtype.kind != "f" or stored.ndim != 2:
            raise ValueError("a stored weight table is damaged: it is no 2-D array of floats")
    if shape is not None and stored_shape != tuple(shape):
        raise ValueError(
            f"a stored weight table is damaged: its shape is {stored_shape}, expected {shape}"
        )
    if isinstance(stored, dict):
        n_bytes = 8 * math.prod(stored_shape)
        check_memory(n_bytes, "the weights of the stored model", "the file may be damaged")
        stored = np.zeros(stored_shape)
        stored.ravel()[positions] = data
    return in_layout(stored)


def _table_shapes(state):
    """Return the shapes of weight tables that follow from the rest of a fitted state."""
    try:
        samples = state["graph_"].no_samples(SimpleNamespace(**state))
        n_states = len(state["graph_"].states(state["classes_"]))
        return state["graph_"].weight_shapes(samples, n_states, state["_has_intercept"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the stored model is damaged: {error!r}") from None


def check_shapes(model, shapes: dict) -> None:
    """Reject a model whose weight tables have the wrong shapes: kernels do not check indices."""
    for name, shape in shapes.items():
        table = getattr(model, name)
        sound = isinstance(table, np.ndarray) and table.dtype == np.float64
        if not sound or table.shape != tuple(shape):
            raise ValueError(
                f"the model is damaged: {name} must be a float64 array of shape {tuple(shape)}, "
                f"got {getattr(table, 'shape', type(table).__name__)}"
            )


_KINDS = (
    ("graph_", Graph, "a structure"),
    ("classes_", (np.ndarray, list, tuple), "an array or list"),
    ("n_features_in_", Integral, "an integer"),
)


def check_parts(model) -> None:
    """Reject a model whose structure, classes or number of features are of a wrong type."""
    for name, kind, expected in _KINDS:
        value = vars(model).get(name, model)
        if value is not model and not isinstance(value, kind):
            raise ValueError(f"the model is damaged: {name} must be {expected}, got {value!r}")


class CompactPickles:
    """Mixin of estimators whose pickles can leave out the zeros of the weight tables."""

    def sparsify(self, threshold: float = 0.0, *, dtype: DTypeLike = "float64") -> Self:
        """Make pickles of the model small by omitting zeros.

        In memory the weights stay dense, rounded as in the pickle. As in SGDClassifier, ``coef_``
        becomes a sparse matrix; :meth:`densify` undoes that.

        Parameters
        ----------
        threshold : float, default=0.0
            Weights of at most this absolute value become 0. A CRF on dense features has few exact
            zeros; 1e-3 usually drops most weights without changing predictions.
        dtype : {"float64", "float32"}, default="float64"
            Precision in the pickle.

        Returns
        -------
        CompactPickles
            The estimator itself.

        Raises
        ------
        ValueError
            If `threshold` is negative, or `dtype` is unknown or too small for the weights.

        See Also
        --------
        skstruct.SAGCRF.densify : Undoes it, except for the rounding.
        skstruct.preprocessing.drop_unused_features : Shrinks the vectorizer, too.

        Examples
        --------
        >>> import numpy as np
        >>> from skstruct import SAGCRF
        >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["D", "N"], ["N", "D"]]
        >>> crf = SAGCRF(random_state=0).fit(X, y)
        >>> type(crf.sparsify(1e-3).coef_).__name__
        'csr_matrix'
        """
        check_is_fitted(self)
        if not isinstance(threshold, Real) or not threshold >= 0:
            raise ValueError(f"threshold must be a number of at least 0, got {threshold!r}")
        if dtype not in ("float64", "float32"):
            raise ValueError(f'dtype must be "float64" or "float32", got {dtype!r}')
        largest = np.finfo(dtype).max
        for name in TABLES:
            if np.abs(getattr(self, name)).max(initial=0.0) > largest:
                raise ValueError(f"{name} has weights too large for {dtype}: above {largest:.2g}")
        for name in TABLES:
            table = getattr(self, name)
            kept = np.where(np.abs(table) <= threshold, 0.0, table)
            setattr(self, name, kept.astype(dtype).astype(np.float64))
        self._stored_as = dtype
        return self

    def densify(self) -> Self:
        """Store all weights in pickles again, and make ``coef_`` a view again.

        Returns
        -------
        CompactPickles
            The estimator itself.
        """
        check_is_fitted(self)
        self.__dict__.pop("_stored_as", None)
        return self

    def __getstate__(self):
        state = super().__getstate__()
        if self._tables is TABLES and TABLES[0] in state:  # an L1 penalty leaves zeros, too
            dtype = state.get("_stored_as", "float64")
            state = state | {name: pack_table(state[name], dtype) for name in TABLES}
        return state

    def __setstate__(self, state):
        if any(name in state for name in TABLES):
            shapes = zip(TABLES, _table_shapes(state), strict=True)
            state = state | {name: unpack_table(state.get(name), shape) for name, shape in shapes}
        super().__setstate__(state)
