"""Names of the features that transformers put out."""

from __future__ import annotations

from sklearn.pipeline import Pipeline


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
