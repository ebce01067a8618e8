"""Features of one token as (name, value) pairs, from what CRFsuite's wrappers take."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping, Set
from numbers import Number

import numpy as np
from scipy import sparse

from .ragged_transformer import check_sequence

_NUMBERS = (Number, np.bool_)
_NO_NUMBERS = (complex, np.timedelta64)
# Dicts nested deeper than this contain themselves.
_DEEPEST = 50


def _is_number(value):
    return isinstance(value, _NUMBERS) and not isinstance(value, _NO_NUMBERS)


class TokenReader:
    """Reads sequences of tokens; knows where it is, for messages."""

    def __init__(self, separator: str, vector_lengths: dict, fitted: bool):
        self.separator = separator
        self.vector_lengths = vector_lengths
        self.fitted = fitted
        self.sequence, self.token = 0, 0

    def read(self, sequences, lengths: list) -> Iterator:
        """Every token of every sequence."""
        for self.sequence, sequence in enumerate(sequences):
            check_sequence(sequence, self.sequence)
            lengths.append(len(sequence))
            for self.token, token in enumerate(sequence):
                yield self._token(token)

    def _token(self, token):
        if isinstance(token, Mapping):
            return self._mapping("", token, 0)
        if isinstance(token, (list, tuple, Set, np.ndarray)):
            return self._attributes(token)
        hint = "; X is a list of sequences: for one pass [x]" if isinstance(token, str) else ""
        raise TypeError(
            f"{self._where()} is of type {type(token).__name__}; a dict of features or a list of "
            f"attribute strings was expected{hint}"
        )

    def _where(self):
        return f"X: sequence {self.sequence}, token {self.token}"

    def _attributes(self, token):
        for attribute in token:
            yield self._text(attribute, "an attribute"), 1.0

    def _text(self, value, what):
        if isinstance(value, str):
            return value
        if isinstance(value, bytes):
            # Bytes that are no UTF-8 stay distinct, as they are for CRFsuite.
            return value.decode("utf-8", errors="surrogateescape")
        hint = ""
        if isinstance(value, (dict, list, tuple)):
            hint = "; lists are nested one level too deep, or a list of samples stands for one"
        found = type(value).__name__
        raise TypeError(f"{self._where()}: {what} is of type {found}, not str{hint}")

    def _number(self, name, value):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(
                f"{self._where()}: the value of {name!r} is {reprlib.repr(value)}; a finite number "
                "was expected (leave out what is missing)"
            )
        return number

    def _mapping(self, prefix, mapping, depth):
        if depth > _DEEPEST:
            raise ValueError(
                f"{self._where()}: dicts are nested more than {_DEEPEST} deep: does one contain "
                "itself?"
            )
        for key, value in mapping.items():
            name = prefix + self._text(key, "the name of a feature")
            if isinstance(value, str):
                yield f"{name}{self.separator}{value}", 1.0
            elif _is_number(value):
                yield name, self._number(name, value)
            elif isinstance(value, bytes):
                yield f"{name}{self.separator}{self._text(value, name)}", 1.0
            elif isinstance(value, Mapping):
                yield from self._mapping(name + self.separator, value, depth + 1)
            elif not sparse.issparse(value) and (
                isinstance(value, (list, tuple, Set)) or getattr(value, "ndim", 0) == 1
            ):
                yield from self._items(name, value, depth)
            else:
                self._refuse(name, value)

    def _items(self, name, items, depth):
        items = items.tolist() if isinstance(items, np.ndarray) else items
        if len(items) and not isinstance(items, Set) and all(map(_is_number, items)):
            self._check_length(name, len(items))
            for q, value in enumerate(items):
                yield f"{name}[{q}]", self._number(name, value)
            return
        for item in items:
            if isinstance(item, (str, bytes)):
                yield f"{name}{self.separator}{self._text(item, name)}", 1.0
            elif isinstance(item, Mapping):
                yield from self._mapping(name + self.separator, item, depth + 1)
            else:
                self._refuse(name, item, "an item of ")

    def _check_length(self, name, length):
        expected = self.vector_lengths.get(name, length)
        if not self.fitted:
            self.vector_lengths[name] = expected
        if expected != length:
            raise ValueError(
                f"{self._where()}: {name!r} is a list of {length} numbers, before it had {expected}"
            )

    def _refuse(self, name, value, what=""):
        raise TypeError(
            f"{self._where()}: {what}the value of {name!r} is of type {type(value).__name__}; str, "
            "number, bool, a dict of these, a list of str or a list of numbers was expected"
        )
