"""RaggedTransformer: what the transformers of sequences share."""

from __future__ import annotations

from sklearn.base import TransformerMixin

from ..packing import as_list


class RaggedTransformer(TransformerMixin):
    """Mixin of transformers whose output is ragged.

    scikit-learn's ``set_output`` and its global ``transform_output`` ask for data frames with a row
    a sample. Ragged output cannot be one, so both leave it as it is.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)

    def set_output(self, *, transform=None):
        """Accepted for pipelines; the output is always ragged.

        Parameters
        ----------
        transform : str, default=None
            Ignored.

        Returns
        -------
        RaggedTransformer
            The transformer itself.
        """
        return self

    def fit(self, X, y=None):
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
    """`X` as a list of sequences, which may be empty unless a transformer is being fitted.

    Parameters
    ----------
    X : list, tuple, object array, Series or RaggedArray
        What the user gave.
    fitting : bool
        Whether this is fit.

    Returns
    -------
    list
        The sequences.

    Raises
    ------
    TypeError
        If X has no length.
    ValueError
        If X is empty in fit.
    """
    if not fitting and hasattr(X, "__len__") and len(X) == 0:
        return []
    return as_list(X, "X")
