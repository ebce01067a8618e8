"""Names of the features that transformers put out."""

from __future__ import annotations

from sklearn.pipeline import Pipeline

from ..data.names import FeatureNames, JoinedNames


def output_names(transformer, edges: bool = False):
    """Names of a fitted transformer's output columns, if it knows them.

    Parameters
    ----------
    transformer : transformer
        Fitted. Of a Pipeline whose first steps know no names, the names that its last step knows
        by itself.
    edges : bool, default=False
        Whether names of the edge features are wanted.

    Returns
    -------
    ndarray of str, or None
        The names; None if it does not know them.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from skstruct.preprocessing import TemplateVectorizer
    >>> from skstruct.preprocessing.names import output_names
    >>> vectorizer = make_pipeline(FunctionTransformer(), TemplateVectorizer("U:%x[0,0]"))
    >>> output_names(vectorizer.fit([["He", "runs"]])).tolist()
    ['U:He', 'U:runs']
    """
    method = "get_edge_feature_names_out" if edges else "get_feature_names_out"
    try:
        return getattr(transformer, method)()
    except (AttributeError, ValueError):
        # A step has no names, as hashing has not, or needs those of its input.
        if isinstance(transformer, Pipeline) and len(transformer):
            return output_names(transformer[-1], edges)
        return None


def joined_names(blocks, verbose: bool) -> tuple:
    """Names of what a union puts out, from those that come with what its members put out.

    Parameters
    ----------
    blocks : list of NamedTuple
        What each member put out: its ``name``, ``features``, ``edge_features`` or None, and the
        ``names`` of these or None.
    verbose : bool
        Whether names begin with those of the members.

    Returns
    -------
    tuple of FeatureNames or None
        Those of nodes and of edges; None where no member knows any.
    """
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
