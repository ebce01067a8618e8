"""Branch and bound over labellings, with soft local consistency as the bound."""

from .branch_and_bound import solve_branch_and_bound

__all__ = ["solve_branch_and_bound"]
