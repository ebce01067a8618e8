"""MAP inference on factor graphs: the best labelling, and a bound on its score."""

from .factors import AtMostOne, Cardinality, ExactlyOne, Or, Potts, Table
from .graph import FactorGraph
from .readers import read_cfn, read_libdai, read_uai, read_wcsp, write_uai
from .scoring import MAPResult
from .solve import solve_map

__all__ = [
    "AtMostOne",
    "Cardinality",
    "ExactlyOne",
    "FactorGraph",
    "MAPResult",
    "Or",
    "Potts",
    "Table",
    "read_cfn",
    "read_libdai",
    "read_uai",
    "read_wcsp",
    "solve_map",
    "write_uai",
]
