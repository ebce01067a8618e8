"""RaggedTransformer: what the transformers of sequences share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Self

from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.pipeline import Pipeline

from ..core.arguments import check_integer
from ..core.sklearn_private import Documented
from ..core.typing import SamplesLike
from ..data.names import FeatureNames, JoinedNames
from ..data.packing import as_list, is_empty_list

# Names of the features that transformers put out.


def output_names(transformer, edges: bool = False):
    """Names of a fitted transformer's output columns, if it has them."""
    method = "get_edge_feature_names_out" if edges else "get_feature_names_out"
    try:
        return getattr(transformer, method)()
    except (AttributeError, ValueError):
        # A step has no names, as hashing has not, or needs those of its input.
        if isinstance(transformer, Pipeline) and len(transformer):
            return output_names(transformer[-1], edges)
        return None


def joined_names(blocks, verbose: bool) -> tuple:
    """Names of what a union puts out, from those that come with what its members put out."""
    joined = []
    for own, kind in enumerate(("features", "edge_features")):
        parts = [
            (f"{b.name}__" if verbose else "", b.names[own] or getattr(b, kind).shape[1])
            for b in blocks
            if getattr(b, kind) is not None
        ]
        known = any(isinstance(part, FeatureNames) for _, part in parts)
        joined.append(JoinedNames(parts) if known else None)
    return tuple(joined)


class RaggedTransformer(Documented, TransformerMixin):
    """Mixin of transformers with ragged output, on which ``transform_output`` has no effect."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Accepted for pipelines; the output is always ragged."""
        return self

    def fit(self, X: SamplesLike, y: SamplesLike | None = None) -> Self:
        """Learn from sequences.

        Parameters
        ----------
        X : list of sequences, RaggedArray or data frame
            As for :meth:`fit_transform`.
        y : list of label sequences, default=None
            As for :meth:`fit_transform`.

        Returns
        -------
        RaggedTransformer
            The transformer itself.
        """
        self.fit_transform(X, y)
        return self


def samples_of(X, fitting: bool) -> list:
    """`X` as a list of samples, which may be empty unless a transformer is being fitted."""
    return [] if not fitting and is_empty_list(X) else as_list(X, "X")


def sequences_of(X, fitting: bool) -> list:
    """`X` as a list of sequences: most likely a str or a token in it stands for a sequence."""
    if isinstance(X, (str, bytes, Mapping)):
        raise TypeError(
            f"X must be a list of sequences of tokens, not {type(X).__name__}: for one sequence "
            "pass [x]"
        )
    if getattr(getattr(X, "dtype", None), "names", None) is not None:
        raise TypeError(
            "X is a structured array: pass a list of sequences, or pandas.DataFrame(X) and its "
            "column of sequence ids as sequence_id"
        )
    if fitting and isinstance(X, Iterator):
        raise TypeError(
            "X must be a list of sequences; for a generator pass list(X), or where that does not "
            "fit into memory use fit_vectorizer(vectorizer, X)"
        )
    return samples_of(X, fitting)


def check_sequence(sample, i: int) -> None:
    """Reject what cannot be a sequence: most likely X is one sequence, not a list."""
    if type(sample) is list:  # before an abstract class is asked
        return
    sized = hasattr(sample, "__len__") or sparse.issparse(sample)
    if isinstance(sample, Mapping) and any(isinstance(v, (list, tuple)) for v in sample.values()):
        raise TypeError(
            f"X: sequence {i} is a dict of columns; a list of tokens was expected: pass "
            "pandas.DataFrame(x), or tuples [*zip(*x.values())]"
        )
    if isinstance(sample, Mapping) and "nodes" in sample:
        raise TypeError(
            f"X: sample {i} is a dict of graphs with node_types: transform the tables of one type, "
            '[x["nodes"][name] for x in X], then put them back'
        )
    if isinstance(sample, (str, bytes, Mapping, Set)) or not sized:
        is_text = isinstance(sample, str) and len(sample.split()) > 1
        hint = "X is a list of sequences: for one sequence pass [x]"
        raise TypeError(
            f"X: sequence {i} must be a list of tokens, not {type(sample).__name__}; "
            + ("split texts into tokens" if is_text else hint)
        )


def check_integers(transformer, **least: int) -> None:
    """Reject parameters that are not integers, or below the least that they may be."""
    for name, smallest in least.items():
        check_integer(name, getattr(transformer, name), smallest)
