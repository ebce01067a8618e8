"""The methods of ``solve_map`` by their names."""

import inspect
from importlib import import_module
from typing import Literal

#: Module of each method, loaded at the first request.
METHODS = {
    "auto": "solve:solve_auto",
    "subgradient": "methods.first_order:solve_subgradient",
    "coordinate-descent": "methods.coordinate_descent:solve_coordinate_descent",
    "gradient": "methods.first_order:solve_gradient",
    "accelerated-gradient": "methods.first_order:solve_accelerated_gradient",
    "frank-wolfe": "methods.frank_wolfe:solve_frank_wolfe",
    "sdca": "methods.frank_wolfe:solve_sdca",
    "strong-gradient": "methods.first_order:solve_strong_gradient",
    "strong-accelerated": "methods.first_order:solve_strong_accelerated",
    "decreasing-smoothing": "methods.coordinate_descent:solve_decreasing_smoothing",
    "trws": "trws:solve_trws",
    "max-product": "elimination:solve_max_product",
    "junction-tree": "elimination:solve_junction_tree",
    "max-flow": "cuts:solve_max_flow",
    "roof-dual": "cuts:solve_roof_dual",
    "branch-and-bound": "search.branch_and_bound:solve_branch_and_bound",
}
Method = Literal[
    "auto", "subgradient", "coordinate-descent", "gradient", "accelerated-gradient", "frank-wolfe",
    "sdca", "strong-gradient", "strong-accelerated", "decreasing-smoothing", "trws", "max-product",
    "junction-tree", "max-flow", "roof-dual", "branch-and-bound",
]  # fmt: skip
_COMMON = {"tol", "max_iter", "rng", "budget"}


def find_method(name):
    """The function of a method and the names of its own parameters."""
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(repr(m) for m in METHODS)
        gone = ': "auto" has tighter bounds by exact strips' if str(name) == "mini-buckets" else ""
        raise ValueError(f"method must be one of {known}; got {name!r}{gone}")
    module, function = METHODS[name].split(":")
    function = getattr(import_module(f"skstruct.map_inference.{module}"), function)
    parameters = inspect.signature(function).parameters.values()
    return function, [
        p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.name not in _COMMON
    ]
