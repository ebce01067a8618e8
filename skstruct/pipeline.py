"""Pipelines with the structured predictions of their last step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn import pipeline
from sklearn.utils.metaestimators import available_if

from .core.sklearn_private import Documented
from .core.typing import PassedOn, SamplesLike

__all__ = ["Pipeline", "make_pipeline"]


class Pipeline(PassedOn, Documented, pipeline.Pipeline):
    """Pipeline of scikit-learn with all predictions of a structured estimator.

    A method exists if the last step has it: ``predict_marginals`` with a :class:`~skstruct.SAGCRF`,
    ``predict_top_k`` and ``predict_chunks`` with structural SVMs, too. Everything else is that of
    scikit-learn's pipelines. Read more in the :ref:`User Guide <recipes>`.

    Parameters
    ----------
    steps : list of tuples of (str, estimator)
        The transformers, and the estimator as the last step.
    transform_input : list of str, default=None
        Metadata that the transformers transform, as in scikit-learn.
    memory : str or object with the interface of joblib.Memory, default=None
        Caches the fitted transformers.
    verbose : bool, default=False
        Whether to print how long each step takes to fit.

    See Also
    --------
    skstruct.pipeline.make_pipeline : Names the steps by their types.
    skstruct.preprocessing.SequenceVectorizer : A first step for sequences of words.

    Examples
    --------
    >>> from skstruct import SAGCRF
    >>> from skstruct.pipeline import Pipeline
    >>> from skstruct.preprocessing import SequenceVectorizer
    >>> X, y = [[["w=he"], ["w=runs"]], [["w=she"], ["w=runs"]]], [["D", "V"], ["D", "V"]]
    >>> model = Pipeline([("words", SequenceVectorizer()), ("crf", SAGCRF())]).fit(X, y)
    >>> model.predict_marginals(X)[0].round(1)
    array([[0.8, 0.2],
           [0.2, 0.8]])
    """

    if TYPE_CHECKING:  # scikit-learn has no annotations

        def __init__(
            self, steps: list, *, transform_input: Any = ..., memory: Any = ..., verbose: bool = ...
        ) -> None: ...
        def __getitem__(self, ind: Any) -> Any: ...


def _passed_on(name, what, example, shown):
    """A method that the last step has, on what the steps before make of X."""

    def method(self, X: SamplesLike, *args: Any, **options: Any) -> Any:
        X = self[:-1].transform(X) if len(self) > 1 else X
        return getattr(self[-1], name)(X, *args, **options)

    def has(self):
        getattr(self.steps[-1][1], name)  # raises in the words of the last step
        return True

    method.__name__, method.__qualname__ = name, f"Pipeline.{name}"
    method.__doc__ = f"""{what}

        Parameters
        ----------
        X : list, object array, RaggedArray or table
            Input of the first step.
        *args, **options : object
            As of the last step's `{name}`.

        Returns
        -------
        object
            What the last step returns.

        See Also
        --------
        skstruct.SAGCRF.{name} : What it calls.

        Examples
        --------
        >>> from skstruct import SAGCRF
        >>> from skstruct.pipeline import make_pipeline
        >>> from skstruct.preprocessing import SequenceVectorizer
        >>> X, y = [[["w=Ada"], ["w=runs"]]], [["B-PER", "O"]]
        >>> model = make_pipeline(SequenceVectorizer(), SAGCRF(C=10)).fit(X, y)
        >>> {example}
        {shown}
        """
    return available_if(has)(method)


for _name, *_documented in (
    (
        "predict_marginals",
        "Probability of each label at each node.",
        "model.predict_marginals(X)[0].round(2).tolist()",
        "[[0.93, 0.07], [0.07, 0.93]]",
    ),
    (
        "predict_chunks",
        "Chunks of the best labelling of each sequence, with their probabilities.",
        "[chunk[:3] for chunk in model.predict_chunks(X)[0]]",
        "[(0, 1, 'PER')]",
    ),
    (
        "predict_states",
        "Hidden states of the best labelling of each sample, as positions in ``states_``.",
        "model.predict_states(X)[0].tolist()",
        "[0, 1]",
    ),
    (
        "predict_top_k",
        "The k best labellings of each sample, and their scores.",
        "model.predict_top_k(X, k=2)[0][0][0].tolist()",  # the second has an equal rival
        "['B-PER', 'O']",
    ),
    (
        "predict_log_likelihood",
        "Log-probability of whole labellings.",
        "model.predict_log_likelihood(X, y).round(2)",
        "array([-0.12])",
    ),
    (
        "predict_entropy",
        "Entropy of the distribution over the labellings of each sample.",
        "model.predict_entropy(X).round(2)",
        "array([0.47])",
    ),
    (
        "sample",
        "Labellings drawn from the distribution.",
        "model.sample(X, n_samples=2, random_state=0)[0].tolist()",
        "[['B-PER', 'O'], ['B-PER', 'O']]",
    ),
):
    setattr(Pipeline, _name, _passed_on(_name, *_documented))


def make_pipeline(*steps: Any, **options: Any) -> Pipeline:
    """Make a Pipeline with steps named by their types, in lower case.

    Read more in the :ref:`User Guide <recipes>`.

    Parameters
    ----------
    *steps : estimators
        The transformers, and the estimator as the last one.
    **options : object
        `memory`, `transform_input` and `verbose` of :class:`Pipeline`.

    Returns
    -------
    Pipeline
        The pipeline, not fitted.

    See Also
    --------
    skstruct.pipeline.Pipeline : Takes names of the steps.

    Examples
    --------
    >>> from skstruct import SAGCRF
    >>> from skstruct.pipeline import make_pipeline
    >>> from skstruct.preprocessing import SequenceVectorizer
    >>> X, y = [[["w=he"], ["w=runs"]], [["w=she"], ["w=runs"]]], [["D", "V"], ["D", "V"]]
    >>> model = make_pipeline(SequenceVectorizer(), SAGCRF()).fit(X, y)
    >>> list(model.named_steps)
    ['sequencevectorizer', 'sagcrf']
    """
    made = pipeline.make_pipeline(*steps, **options)
    return Pipeline(**made.get_params(deep=False))
