"""What is inside of pipelines, searches and other wrappers of a structured estimator."""

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def split_model(model, X):
    """What predicts in pipelines, frozen models and searches, and what it sees of X."""
    before, model = innermost(model, own=False)
    for step in before:
        X = step.transform(X)
    return model, X


def innermost(model, own=True):
    """The first transformers within wrappers (all, if not `own`), and the structured estimator."""
    before = []
    while True:
        if isinstance(model, Pipeline):
            before += [model[:-1]] if len(model) > 1 else []
            model = model[-1]
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif own and hasattr(model, "_wrapped"):
            check_is_fitted(model)
            steps, model = model._wrapped()
            before += steps
        else:
            return before, model
