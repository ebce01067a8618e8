"""Wrappers of a structured model, with its methods on transformed X."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core.sklearn_private import Documented
from ..core.typing import PassedOn, SamplesLike

# Of each method: what it is, what its example passes after X, and what it returns.
_MARGINALS = "Probability of each label at each node.", "", "As the model's `predict_marginals`."
_METHODS = {
    "predict": ("Best (MAP) labelling of each sample.", "", "Labels, one array per sample."),
    "predict_marginals": _MARGINALS,
    "predict_proba": _MARGINALS,
    "predict_log_likelihood": ("Log-probability of whole labellings.", ", y", "One per sample."),
    "predict_entropy": ("Entropy of the distribution over labellings.", "", "One per sample."),
    "predict_top_k": (
        "The best labellings of each sample; differences of their scores are log-odds.",
        ", k=3",
        "Of each sample the labellings, best first, and their scores.",
    ),
    "predict_chunks": (
        "Chunks with their probabilities.",
        ', scheme="runs"',
        "A list of (start, stop, kind, probability) for each sample.",
    ),
    "sample": ("Labellings drawn from the distribution.", "", "Of each sample the draws."),
}


class Wrapper(PassedOn, Documented, MetaEstimatorMixin, BaseEstimator):
    """Base of estimators around a model: ``_inside(name, X)`` is the one with method `name`."""

    #: Lines of the examples that make a fitted ``model``.
    _example = ""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name, texts in _METHODS.items():
            if name not in vars(cls):
                setattr(cls, name, _passed_on(cls, name, *texts))

    def _read_truth(self, X, y):
        model, X = self._inside("predict", X)
        return model._read_truth(X, y)

    def score(
        self, X: SamplesLike, y: SamplesLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy: the fraction of nodes that are labelled correctly.

        Parameters
        ----------
        X, y, sample_weight : object
            As for the score of the model.

        Returns
        -------
        float
            From 0 to 1.
        """
        check_is_fitted(self)
        model, X = self._inside("score", X)
        return model.score(X, y, sample_weight)


def _passed_on(cls, name, what, arguments, returned):
    """A method of the model."""

    def method(self, X: SamplesLike, *args: Any, **options: Any) -> Any:
        check_is_fitted(self)
        model, X = self._inside(name, X)
        return getattr(model, name)(X, *args, **options)

    method.__name__, method.__qualname__ = name, f"{cls.__name__}.{name}"
    method.__module__ = cls.__module__
    method.__doc__ = f"""{what}

        Parameters
        ----------
        X : list, object array or RaggedArray
            Samples, as in fit.
        *args, **options : object
            Those of the method of the model.

        Returns
        -------
        object
            {returned}

        See Also
        --------
        skstruct.SAGCRF.{name} : The method of the model.

        Examples
        --------
        >>> import numpy as np
        {cls._example}
        >>> len(model.{name}(X{arguments}))
        2
        """
    if name == "predict" or not hasattr(cls, "_offers"):
        return method
    return available_if(lambda self: self._offers(name))(method)
