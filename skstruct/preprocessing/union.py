"""SequenceUnion: the features of several transformers of sequences, side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.pipeline import FeatureUnion, make_union
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from ..core.offsets import ends_of
from ..core.typing import SamplesLike
from ..data.matrices import as_configured
from ..data.names import FeatureNames, names_of, with_names
from ..data.packing import as_list, is_empty_list, read_sequences
from ..data.ragged import RaggedArray, object_array
from .ragged_transformer import RaggedTransformer, joined_names, output_names

# Outputs of the members of a union, packed and concatenated.


class Block(NamedTuple):
    """Packed output of one member."""

    name: str
    features: np.ndarray | sparse.csr_matrix
    offsets: np.ndarray
    edge_features: np.ndarray | sparse.csr_matrix | None
    names: tuple[FeatureNames | None, FeatureNames | None]


class Learned(NamedTuple):
    """Shapes and kinds of one member's output as fit found them, without rows."""

    features: np.ndarray | sparse.csr_matrix
    edge_features: np.ndarray | sparse.csr_matrix | None


def read_block(name, output, learned=None):
    """A member's output, packed; an output without samples takes its shapes from `learned`."""
    if learned is not None and is_empty_list(output):
        none = np.zeros(1, dtype=np.int64)
        return Block(name, learned.features, none, learned.edge_features, (None, None))
    names = names_of(output)
    if not isinstance(output, (RaggedArray, np.ndarray)):
        output = as_list(output, f"output of {name!r}")
    pairs = not isinstance(output, RaggedArray) and any(isinstance(row, tuple) for row in output)
    packed = read_sequences(output, f"output of {name!r}", edge_features=pairs)
    block = Block(name, *packed, names)
    if learned is not None:
        for kind in ("features", "edge_features"):
            now, before = (getattr(own, kind) for own in (block, learned))
            width = [None if table is None else table.shape[1] for table in (now, before)]
            if width[0] != width[1]:
                raise ValueError(
                    f"{name!r} has {width[0]} {kind.replace('_', ' ')}, in fit {width[1]}"
                )
    return block


def check_lengths(first, other):
    """Reject members that disagree about samples or their nodes."""
    if first.offsets.size != other.offsets.size:
        raise ValueError(
            f"{first.name!r} has {first.offsets.size - 1} samples, {other.name!r} "
            f"{other.offsets.size - 1}"
        )
    wrong = np.flatnonzero(np.diff(first.offsets) != np.diff(other.offsets))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"sample {i}: {first.name!r} has {np.diff(first.offsets)[i]} nodes, {other.name!r} has "
            f"{np.diff(other.offsets)[i]}"
        )


def check_pairs(members):
    """Reject members that are not pairs (name, transformer)."""
    wanted = "transformer_list must be a list of pairs (name, transformer)"
    if not isinstance(members, (list, tuple)):
        raise TypeError(f"{wanted}, got {members!r}")
    for member in members:
        if not isinstance(member, (list, tuple)) or len(member) != 2:
            raise TypeError(f"{wanted}, got the entry {member!r}")


def check_weights(weights):
    """Reject weights of members that are not numbers by name."""
    if weights is None:
        return
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"transformer_weights must be a dict from names to numbers, got {weights!r}"
        )
    for name, weight in weights.items():
        if not isinstance(weight, Real) or not math.isfinite(weight):
            raise ValueError(
                f"transformer_weights[{name!r}] must be a finite number, got {weight!r}"
            )


def fit_transform(member, X, y, routed):
    """Fit a clone of a member."""
    if member == "passthrough":
        return member, X
    member = clone(member)
    if hasattr(member, "fit_transform"):
        return member, member.fit_transform(X, y, **routed.get("fit_transform", {}))
    member.fit(X, y, **routed.get("fit", {}))
    return member, member.transform(X, **routed.get("transform", {}))


def transform(member, X):
    """Transform by a fitted member."""
    return X if member == "passthrough" else member.transform(X)


def _has_edge_features(union):
    return any(own.edge_features is not None for own in getattr(union, "_learned", ()))


class SequenceUnion(RaggedTransformer, FeatureUnion):
    """Features of several transformers of sequences side by side: a ragged FeatureUnion.

    Each member receives X and returns features of every node: templates, dicts and dense word
    vectors, for instance. Where members need different forms of the tokens, use pipelines that
    begin with a FunctionTransformer; members that read a data frame choose their `columns`. If any
    member is sparse the union is CSR. The global ``transform_output`` has no effect on members.
    Read more in the :ref:`User Guide <text_features>`.

    Parameters
    ----------
    transformer_list : list of (str, transformer)
        Names and transformers whose output is ragged; "passthrough" for X itself (sequences of
        numbers), "drop" for nothing. Parameters are set as ``name__parameter``, members replaced by
        ``set_params(name=...)``.
    n_jobs : int, default=None
        Members in parallel.
    transformer_weights : dict of str to float, default=None
        Factors on the features of members, by name. In a regularised model, larger features are
        penalised less: features of twice the size need half the weight.
    verbose_feature_names_out : bool, default=True
        Whether to prefix names with those of the members: ``words__U0:He``; without, they
        must be unique.

    Attributes
    ----------
    transformers_ : list of (str, transformer)
        The fitted members, without dropped ones; `transformer_list` is unchanged.
    named_transformers_ : Bunch
        The same by name.
    n_features_out_ : int
        Number of columns.

    See Also
    --------
    skstruct.preprocessing.make_sequence_union : Makes a union with names from the types.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from skstruct.pipeline import make_pipeline
    >>> from skstruct.preprocessing import SequenceUnion, TemplateVectorizer
    >>> vectors = {"He": [0.1, 0.9], "runs": [0.8, 0.3]}
    >>> def look_up(X):
    ...     return [np.array([vectors[word] for word in words]) for words in X]
    >>> union = SequenceUnion(
    ...     [("words", TemplateVectorizer("U0:%x[0,0]")), ("vec", FunctionTransformer(look_up))]
    ... )
    >>> union.fit_transform([["He", "runs"]])[0].toarray()
    array([[1. , 0. , 0.1, 0.9],
           [0. , 1. , 0.8, 0.3]])
    >>> union.get_feature_names_out().tolist()
    ['words__U0:He', 'words__U0:runs', 'vec__x0', 'vec__x1']
    """

    def __init__(
        self,
        transformer_list: list,
        *,
        n_jobs: int | None = None,
        transformer_weights: Mapping[str, float] | None = None,
        verbose_feature_names_out: bool = True,
    ) -> None:
        self.transformer_list = transformer_list
        self.n_jobs = n_jobs
        self.transformer_weights = transformer_weights
        self.verbose_feature_names_out = verbose_feature_names_out

    def __sklearn_is_fitted__(self):
        return hasattr(self, "transformers_")

    def fit(self, X: SamplesLike, y: SamplesLike | None = None, **params: Any) -> Self:
        """Fit all members.

        Parameters
        ----------
        X : list of sequences, RaggedArray or data frame
            Input of the members.
        y : list of label sequences, default=None
            Passed on.
        **params : dict
            Metadata for the members that request it; needs
            ``sklearn.set_config(enable_metadata_routing=True)``.

        Returns
        -------
        SequenceUnion
            The union itself.
        """
        self.fit_transform(X, y, **params)
        return self

    def fit_transform(
        self, X: SamplesLike, y: SamplesLike | None = None, **params: Any
    ) -> RaggedArray | np.ndarray:
        """Fit all members and transform.

        Parameters
        ----------
        X : list of sequences, RaggedArray or data frame
            Input of the members.
        y : list of label sequences, default=None
            Passed on.
        **params : dict
            As for :meth:`fit`.

        Returns
        -------
        RaggedArray or ndarray of object
            As :meth:`transform`.

        Raises
        ------
        ValueError
            If there is no member, members disagree about the number of nodes (names the sample), or
            `transformer_weights` names an unknown one.
        """
        members = self._members()
        if params and not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"{sorted(params)} can be routed to members only with "
                "sklearn.set_config(enable_metadata_routing=True)"
            )
        routed = process_routing(self, "fit_transform", **params)
        with config_context(transform_output="default"):
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(fit_transform)(member, X, y, routed[name]) for name, member in members
            )
        found = [(name, *result) for (name, _), result in zip(members, results, strict=True)]
        fitted = [(name, member) for name, member, _ in found]
        blocks = [read_block(name, output) for name, _, output in found]
        tables = [(block.features, block.edge_features) for block in blocks]
        learned = [
            Learned(*(None if table is None else table[:0].copy() for table in own))
            for own in tables
        ]
        names = joined_names(blocks, self.verbose_feature_names_out)
        out = self._join(blocks, names)
        self.transformers_, self._learned, self._names_out = fitted, learned, names
        self.n_features_out_ = sum(b.features.shape[1] for b in blocks)
        return out

    def transform(self, X: SamplesLike) -> RaggedArray | np.ndarray:
        """Transform by all members.

        Parameters
        ----------
        X : list of sequences, RaggedArray or data frame
            Input of the members.

        Returns
        -------
        RaggedArray or ndarray of object
            Features of all nodes; if a member has edge features, one pair (features, edge features)
            per sequence.

        Raises
        ------
        ValueError
            If members disagree about the number of nodes (names the sample).
        """
        check_is_fitted(self)
        with config_context(transform_output="default"):
            outputs = Parallel(n_jobs=self.n_jobs)(
                delayed(transform)(member, X) for _, member in self.transformers_
            )
        blocks = [
            read_block(name, output, learned)
            for (name, _), output, learned in zip(
                self.transformers_, outputs, self._learned, strict=True
            )
        ]
        return self._join(blocks, self._names_out)

    @property
    def named_transformers_(self) -> Bunch:
        """The fitted members by name."""
        return Bunch(**dict(self.transformers_))

    def _members(self):
        check_pairs(self.transformer_list)
        names = [name for name, _ in self.transformer_list]
        self._validate_names(names)
        check_weights(self.transformer_weights)
        unknown = set(self.transformer_weights or ()) - set(names)
        if unknown:
            raise ValueError(f"transformer_weights names {sorted(unknown)}, members are {names}")
        members = [(name, member) for name, member in self.transformer_list if member != "drop"]
        if not members:
            raise ValueError("transformer_list has no transformer")
        for name, member in members:
            if member != "passthrough" and not hasattr(member, "transform"):
                raise TypeError(
                    f'{name!r} must be a transformer, "passthrough" or "drop", got {member!r}'
                )
        return members

    def _join(self, blocks, names):
        first = blocks[0]
        for other in blocks[1:]:
            check_lengths(first, other)
        check_weights(self.transformer_weights)
        weights = self.transformer_weights or {}

        def joined(tables):
            tables = [
                table * weights.get(block.name, 1.0)
                for block, table in zip(blocks, tables, strict=True)
                if table is not None
            ]
            if any(sparse.issparse(table) for table in tables):
                return as_configured(sparse.hstack(tables, format="csr"))
            return np.hstack(tables) if tables else None

        features, offsets = joined([block.features for block in blocks]), first.offsets
        edges = joined([block.edge_features for block in blocks])
        if edges is None:
            return RaggedArray(features, offsets, names[0])
        ends = ends_of(np.maximum(np.diff(offsets) - 1, 0))
        pairs = [
            (features[offsets[i] : offsets[i + 1]], edges[ends[i] : ends[i + 1]])
            for i in range(len(offsets) - 1)
        ]
        return with_names(object_array(pairs), *names)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the columns; those of a member without names are x0, x1, and so on.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            The names.

        Raises
        ------
        ValueError
            If `verbose_feature_names_out` is False and names are not unique.
        """
        check_is_fitted(self)
        return self._names(False)

    @available_if(_has_edge_features)
    def get_edge_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the edge features, if a member has any.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_edge_features,)
            The names.
        """
        return self._names(True)

    def _names(self, edges):
        out = []
        for (name, member), own in zip(self.transformers_, self._learned, strict=True):
            table = own.edge_features if edges else own.features
            if table is None:
                continue
            names = output_names(member, edges)
            if names is None or len(names) != table.shape[1]:
                names = [f"x{j}" for j in range(table.shape[1])]
            prefix = f"{name}__" if self.verbose_feature_names_out else ""
            out += [f"{prefix}{feature}" for feature in names]
        twice = next((feature for feature, n in Counter(out).items() if n > 1), None)
        if twice is not None:
            remedy = (
                "give members other names"
                if self.verbose_feature_names_out
                else "set verbose_feature_names_out=True"
            )
            raise ValueError(f"several columns are named {twice!r}: {remedy}")
        return np.array(out, dtype=object)


def make_sequence_union(*transformers: Any, n_jobs: int | None = None) -> SequenceUnion:
    """Make a SequenceUnion with members named by their types.

    Read more in the :ref:`User Guide <text_features>`.

    Parameters
    ----------
    *transformers : transformers
        The members.
    n_jobs : int, default=None
        Members in parallel.

    Returns
    -------
    SequenceUnion
        The union.

    See Also
    --------
    skstruct.preprocessing.SequenceUnion : Several vectorizers side by side.

    Examples
    --------
    >>> from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer
    >>> from skstruct.preprocessing import make_sequence_union
    >>> union = make_sequence_union(TemplateVectorizer("U:%x[0,0]"), SequenceVectorizer())
    >>> [name for name, _ in union.transformer_list]
    ['templatevectorizer', 'sequencevectorizer']
    """
    return SequenceUnion(make_union(*transformers).transformer_list, n_jobs=n_jobs)
