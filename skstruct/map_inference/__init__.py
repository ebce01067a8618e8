"""MAP inference on factor graphs: the best labelling, and a bound on its score."""

from .factors import AtMostOne, Cardinality, ExactlyOne, Or, Potts, Table
from .graph import FactorGraph

__all__ = [
    "AtMostOne",
    "Cardinality",
    "ExactlyOne",
    "FactorGraph",
    "Or",
    "Potts",
    "Table",
]
