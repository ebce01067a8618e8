"""What precision, recall and F of nodes and of chunks share: the scores and their descriptions."""

import inspect
import re

from sklearn.metrics import precision_recall_fscore_support

_MEASURES = ("precision", "recall", "f-score")
_AVERAGES = ("micro", "macro", "weighted", None)

_SHARED = {
    "y_true": "y_true, y_pred : sequences of label sequences\n    Truth and predictions.",
    "beta": "beta : float\n    Weight of recall against precision.",
    "digits": "digits : int, default=2\n    Decimals in the text.",
    "output_dict": "output_dict : bool, default=False\n"
    "    Whether to return a dict of dicts rather than a text.",
}


def documented(parameters, returns, undefined="What an undefined score is"):
    """Write the sections Parameters and Returns of a metric's docstring."""
    zero_division = (
        'zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"\n'
        f'    {undefined}; "warn" is 0 with a warning.'
    )
    known = _SHARED | parameters | {"zero_division": zero_division}

    def decorate(function):
        if function.__doc__ is None:  # python -OO
            return function
        names = inspect.signature(function).parameters
        entries = "\n".join(known[name] for name in names if name != "y_pred")
        text = inspect.cleandoc(function.__doc__)
        summary, *others = re.split(r"\n\n(?=[\w ]+\n-----)", text)
        sections = f"Parameters\n----------\n{entries}", f"Returns\n-------\n{returns}"
        function.__doc__ = "\n\n".join([summary, *sections, *others]) + "\n"
        return function

    return decorate


def check_average(average):
    """Refuse an unknown way to average over labels."""
    if average not in _AVERAGES:
        raise ValueError(f"average must be 'micro', 'macro', 'weighted' or None, got {average!r}")


def one_score(measure, true, predicted, **options):
    """Precision, recall or F of plain classification."""
    scores = precision_recall_fscore_support(true, predicted, warn_for=(measure,), **options)
    score = scores[_MEASURES.index(measure)]
    return score if options["average"] is None else float(score)
