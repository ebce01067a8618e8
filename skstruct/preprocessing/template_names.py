"""Names of the features that templates expand to, made when they are asked for."""

from __future__ import annotations

import numpy as np

from ..data.names import FeatureNames


class TemplateNames(FeatureNames):
    """The templates with their macros replaced."""

    def __init__(self, vocabulary: dict, features: tuple, constant: str | None = None) -> None:
        self._vocabulary, self._features, self._constant = vocabulary, features, constant

    def __len__(self) -> int:
        return self._features[2] + (self._constant is not None)

    def strings(self) -> list[str]:
        """All names."""
        codes = np.array(list(self._vocabulary), dtype=object)
        learned, base, n_features = self._features
        names = np.empty(n_features, dtype=object)
        for own in learned:
            texts = own.texts
            stop = own.first + own.keys.size
            if len(texts) == 1:
                names[own.first : stop] = texts[0]
                continue
            parts = [codes[code] for code in _decode(own.keys, own.tables, base)]
            names[own.first : stop] = [
                "".join(a + b for a, b in zip(texts, row, strict=False)) + texts[-1]
                for row in zip(*parts, strict=True)
            ]
        first = [] if self._constant is None else [self._constant]
        return [*first, *names.tolist()]


def _decode(keys, tables, base):
    """Codes of each macro from combined keys: the inverse of the vectorizer's coder."""
    codes = []
    for table in reversed(tables[1:]):
        keys, last = np.divmod(keys, base)
        codes.append(last)
        if table is not None:
            keys = table[keys]
    return [keys, *reversed(codes)]
