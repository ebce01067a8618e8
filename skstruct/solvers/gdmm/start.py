"""Which run goes with which description of a structure."""

from ...core.factors import BinaryFactors, PairwiseFactors
from .factors import FactorRun
from .labels.setup import LabelRun
from .solver import Run

#: The run of each description that :mod:`skstruct.core.factors` knows.
RUNS = {PairwiseFactors: FactorRun, BinaryFactors: LabelRun}


def start_run(factors, *args, **options) -> Run:
    """The run for a structure."""
    return RUNS[type(factors)](factors, *args, **options)
