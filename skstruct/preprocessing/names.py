"""Names of the features that transformers put out."""

from __future__ import annotations

from sklearn.pipeline import Pipeline

from ..data.names import FeatureNames, JoinedNames


def output_names(transformer, edges: bool = False):
    """Names of a fitted transformer's output columns, if it knows them."""
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
