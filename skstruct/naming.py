"""Names of features in fitted models: taken from X in fit, compared in prediction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .data.names import ListedNames, names_of

_SHOWN = 5
_OWN = ("_feature_names", "_edge_feature_names")
_OF_LABELS = "_label_names"


def _named(attribute, what):
    def read(self) -> np.ndarray:
        names = vars(self).get(attribute)
        if names is None:
            raise AttributeError(f"{type(self).__name__} has seen no names of {what} in fit")
        return np.asarray(names)

    def write(self, names: ArrayLike) -> None:
        setattr(self, attribute, ListedNames(names))

    def forget(self) -> None:
        if vars(self).pop(attribute, None) is None:
            read(self)

    about = f"""Names of {what}, if there were some in fit: an object array of str.

    The names are shared with the transformer that has learned them; the array is made anew at each
    look. Deleting the attribute makes the model forget them: pickles of it alone become smaller.
    """
    return property(read, write, forget, about)


class NamedFeatures:
    """Mixin of estimators that know their features by name."""

    feature_names_in_ = _named(_OWN[0], "features")
    edge_feature_names_in_ = _named(_OWN[1], "edge features")
    label_names_in_ = _named(_OF_LABELS, "labels")

    def _take_names(self, X):
        """Those that samples carry; scikit-learn has read the columns of tables."""
        if self.graph_.is_table:
            return
        for attribute, names in zip(_OWN, names_of(X), strict=True):
            if names is not None:
                setattr(self, attribute, names)

    def _take_label_names(self, y):
        """Columns of label sets, if they are named by strings."""
        columns = list(getattr(y, "columns", ())) if self.graph_.has_label_sets else []
        if columns and all(isinstance(name, str) for name in columns):
            self.label_names_in_ = columns

    def _check_names(self, X):
        """Refuse samples with other names than in fit, where both are known."""
        if not self.graph_.is_table:
            self._compare_names(names_of(X))

    def _compare_names(self, names):
        for attribute, given in zip(_OWN, names, strict=True):
            known = vars(self).get(attribute)
            if known is not None and given is not None and known != given:
                raise ValueError(_difference(known, given, attribute[1:].split("_names")[0]))


def _difference(known, given, what):
    """What is wrong with the names, in the words of scikit-learn."""
    lines = [f"The {what.replace('_', ' ')} names should match those that were passed during fit."]
    before, now = known.strings(), given.strings()
    for text, names, others in (
        ("Feature names unseen at fit time:", now, set(before)),
        ("Feature names seen at fit time, yet now missing:", before, set(now)),
    ):
        found = sorted(set(names) - others)
        if found:
            more = ["- ..."] * (len(found) > _SHOWN)
            lines += [text, *(f"- {name}" for name in found[:_SHOWN]), *more]
    if len(lines) == 1:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"
