"""For authors of new structures: brute-force references and checks of the contracts."""

from .estimator import check_structured_estimator
from .structure import (
    all_labellings,
    brute_force_marginals,
    chain_scores,
    check_structure,
    random_sequences,
    training_problem,
)

__all__ = [
    "all_labellings",
    "brute_force_marginals",
    "chain_scores",
    "check_structure",
    "check_structured_estimator",
    "random_sequences",
    "training_problem",
]
