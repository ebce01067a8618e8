"""Cost functions in intension: toulbar2's keywords as tables, pairs or counts."""

from __future__ import annotations

import math
import re
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .text import MOST_AXES

# Of a table; of pairs of variables; variables of a count; and what filling one of them may take.
_MOST_CELLS, _MOST_CELLS_OF_PAIRS, _MOST_COUNTED, _MOST_WORK = 2**16, 2**22, 2**10, 2**26

# The parameters in the order of a .wcsp file: one of some words, an integer (i), a cost (c, at
# least 0; C of any sign), lists of rows of these behind their lengths (*), or of as many rows as
# variables (=). A v is a variable of the problem, a set one of values for each variable.
_HARD = "metric:hard|lin|quad cost:c"
_BOUNDS = "bounds:*iii"
_AUTOMATON = "nb_states:i starts:*i ends:*i transitions:*iii"
PARAMETERS = {
    ">=": "least:i delta:c",
    ">": "least:i delta:c",
    "<=": "least:i delta:c",
    "<": "least:i delta:c",
    "=": "least:i delta:c",
    "disj": "x:i y:i cost:c",
    "sdisj": "x:i y:i last_x:i last_y:i cost_x:c cost_y:c",
    "alldiff": "exceptedvalues:*i deltacosts:*ic",
    "gcc": f"{_BOUNDS} deltacosts:*ic",
    "clique": "rhs:i values:set",
    "knapsack": "capacity:i weights:=i",
    "knapsackv": "capacity:i weightedvalues:*vii",
    "salldiff": "metric:var|dec|decbi cost:c",
    "salldiffdp": "metric:var cost:c",
    "walldiff": _HARD,
    "walldifferent": _HARD,
    "sgcc": f"metric:var|dec|wdec cost:c {_BOUNDS}",
    "sgccdp": f"metric:var cost:c {_BOUNDS}",
    "wgcc": f"{_HARD} {_BOUNDS}",
    "ssame": "cost:c vars1,vars2:*v",
    "wsame": _HARD,
    "wsamegcc": f"{_HARD} {_BOUNDS}",
    "samong": "metric:var cost:c min:i max:i values:*i",
    "samongdp": "metric:var cost:c min:i max:i values:*i",
    "wamong": f"{_HARD} values:*i min:i max:i",
    "wvaramong": "metric:hard cost:c values:*i",
    "sregular": f"metric:var cost:c {_AUTOMATON}",
    "sregulardp": f"metric:var cost:c {_AUTOMATON}",
    "wregular": "nb_states:i starts:*iC ends:*iC transitions:*iiiC",
    "max": "defaultcost:c tuples:*vic",
    "smaxdp": "defaultcost:c tuples:*vic",
    "woverlap": f"{_HARD} comparator:==|!=|<=|<|>=|> to:i",
    "wsum": f"{_HARD} comparator:==|!=|<=|<|>=|> to:i",
    "wvarsum": f"{_HARD} comparator:==|!=|<=|<|>=|>",
    "wdiverse": "distance:i values:=i",
    "whdiverse": "distance:i values:=i",
    "wtdiverse": "distance:i values:=i",
}
_ROWS = re.compile("[*=][ivcC]+")
ARITHMETIC = {">=", ">", "<=", "<", "=", "disj", "sdisj"}


class Piece(NamedTuple):
    """Costs of several scopes: a table, or costs by the number of ones of binary variables."""

    scopes: list[list[int]]
    costs: np.ndarray
    counted: bool = False


def fits(values: np.ndarray, kinds: str) -> np.ndarray:
    """Return a mask of the numbers that are of the kinds named by the letters of `kinds`."""
    whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)
    by_kind = {"i": whole, "v": whole, "c": values >= 0, "C": values > -np.inf}
    fitting = np.ones(values.shape, dtype=bool)
    for k, kind in enumerate(kinds):
        fitting[:, k] = by_kind[kind][:, k]
    return fitting


def parameters(keyword: str, arity: int, source: Any) -> dict[str, Any]:
    """The parameters of a function, which `source` reads one after the other."""
    found: dict[str, Any] = {}
    for field in PARAMETERS[keyword].split():
        names, kind = field.split(":")
        if names == "bounds" and found.get("metric") == "wdec":
            kind = "*iiicc"  # with weights of a shortage and an excess
        if kind == "set":
            found[names] = source.sets(names, arity)
        elif _ROWS.fullmatch(kind):
            several, length = names.split(","), None if kind[0] == "*" else arity
            found.update(zip(several, source.rows(several, kind[1:], length), strict=True))
        elif len(kind) == 1:
            found[names] = source.number(names, kind)
        else:
            found[names] = source.word(names, kind.split("|"))
    return found


def pieces(
    keyword: str, scope: list[int], n_states: np.ndarray, found: dict[str, Any], top: float
) -> list[Piece]:
    """Tables or counts that add up to a function; inf forbids."""
    shape = n_states[scope].tolist()
    _check(keyword, scope, shape, found)
    if _has_small_table(keyword, shape, found):
        return [Piece([scope], _table(keyword, scope, shape, found))]
    n = len(scope)
    work = n * (n + 1) * (_n_rows(found) + 2)
    is_small = n <= _MOST_COUNTED and work <= _MOST_WORK
    if set(shape) == {2} and is_small and _is_symmetric(keyword, found):
        x = np.tri(n + 1, n, -1, dtype=np.int64)
        return [Piece([scope], _costs(keyword, x, found, scope), counted=True)]
    n_cells = n * (n - 1) // 2 * max(shape) ** 2
    if n_cells <= _MOST_CELLS_OF_PAIRS and _is_sum_of_pairs(keyword, found, top):
        return _pairs(keyword, scope, shape, found)
    raise ValueError(f"a smaller {keyword}: {_too_many(keyword, shape, found)}")


def _has_small_table(keyword, shape, found):
    """Return whether the table, and the work of filling it, is small."""
    size, n = math.prod(shape), len(shape)
    if keyword in ARITHMETIC:
        return size <= _MOST_CELLS_OF_PAIRS
    work = size * n * (_n_rows(found) + max(shape) + found.get("nb_states", 0))
    return size <= _MOST_CELLS and n <= MOST_AXES and work <= _MOST_WORK


def _too_many(keyword, shape, found):
    """Why a function has no small table."""
    size, n, most = math.prod(shape), len(shape), _MOST_CELLS
    if keyword in ARITHMETIC:
        return (
            f"its table of {n} variables would have {size} cells, more than {_MOST_CELLS_OF_PAIRS}"
        )
    if size <= most and n <= MOST_AXES:
        counts = {
            "states": found.get("nb_states", 0),
            "values of a variable": max(shape),
            "rows of parameters": _n_rows(found),
        }
        what = max(counts, key=counts.get)
        return f"{counts[what]:.0f} {what} are too many to fill its table of {size} cells"
    cells = size if size < 1e18 else "at least 1e18"  # a long integer cannot be printed
    cause = f"a table has at most {MOST_AXES} variables, not {n}"
    if size > most:
        cause = f"its table of {n} variables would have {cells} cells, more than {most}"
    return f"{cause}, and it is neither a small sum over pairs nor a small function of a count"


def _n_rows(found):
    """Return the number of rows of numbers that the parameters have."""
    return sum(len(values) for values in found.values() if isinstance(values, np.ndarray))


def _table(keyword, scope, shape, found):
    x = np.indices(shape).reshape(len(shape), -1).T
    return _costs(keyword, x, found, scope).reshape(shape)


def _pairs(keyword, scope, shape, found):
    """The function of each pair of variables."""
    by_costs: dict[tuple, Piece] = {}
    for i, j in combinations(range(len(scope)), 2):
        sizes, own, sets = (shape[i], shape[j]), found, ()
        if keyword == "clique":
            own = {"values": [found["values"][k] for k in (i, j)]}
            sets = tuple(tuple(values) for values in own["values"])
        pair = [scope[i], scope[j]]
        if (sizes, sets) not in by_costs:
            by_costs[sizes, sets] = Piece([], _table(keyword, pair, sizes, own))
        by_costs[sizes, sets].scopes.append(pair)
    return list(by_costs.values())


def _check(keyword, scope, shape, found):
    """Reject parameters that do not fit."""
    arity = len(scope)
    if arity == 0:
        raise ValueError(f"at least one variable of {keyword}")
    if keyword in ARITHMETIC and arity != 2:
        raise ValueError(f"two variables of {keyword}")
    if keyword in ("wsame", "wsamegcc", "woverlap") and arity % 2:
        raise ValueError(f"an even number of variables of {keyword}")
    if keyword in ("wvaramong", "wvarsum") and arity < 2:
        raise ValueError(f"at least two variables of {keyword}")
    bounds = found.get("bounds", np.zeros((0, 3)))
    if (bounds[:, 1] > bounds[:, 2]).any() or len(np.unique(bounds[:, 0])) < len(bounds):
        raise ValueError(f"bounds of different values, each at least the lower one, of {keyword}")
    if keyword == "clique" and found["rhs"] != 1:
        raise ValueError("rhs 1 of clique")
    if len(found.get("deltacosts", ())):
        raise ValueError(f"no deltacosts of {keyword}")
    if keyword == "knapsack" and set(shape) - {1, 2}:
        raise ValueError("variables of two values of knapsack")
    if keyword == "sgcc" and found["metric"] == "var":
        _check_sum(bounds, shape)
    named = [found[name][:, 0] for name in ("tuples", "weightedvalues") if name in found]
    if keyword == "ssame":
        lists = [found["vars1"][:, 0].tolist(), found["vars2"][:, 0].tolist()]
        if len(lists[0]) != len(lists[1]) or sorted(lists[0] + lists[1]) != sorted(scope):
            raise ValueError("the variables of ssame in two lists of one length")
    for variables in named:
        if not np.isin(variables, scope).all():
            raise ValueError(f"variables of the scope in {keyword}")
    for name in ("starts", "ends", "transitions"):
        if name in found:
            states = found[name][:, [0, 2]] if name == "transitions" else found[name][:, :1]
            if ((states < 0) | (states >= found["nb_states"])).any():
                raise ValueError(f"{name} with states below nb_states of {keyword}")


def _check_sum(bounds, shape):
    """Reject bounds that no labelling keeps: which labels to change is undefined then."""
    is_bounded = np.isin(np.arange(max(shape)), bounds[:, 0]).all()
    if bounds[:, 1].sum() > len(shape) or (is_bounded and bounds[:, 2].sum() < len(shape)):
        raise ValueError(f"bounds of sgcc that a labelling of {len(shape)} variables can keep")


def _is_symmetric(keyword, found):
    """Return whether the costs of binary variables depend on the number of ones only."""
    if keyword in ("knapsack", "clique"):
        same = "weights" if keyword == "knapsack" else "values"
        return all(np.array_equal(row, found[same][0]) for row in found[same])
    return keyword in _OF_COUNTS or keyword == "wsum"


def _is_sum_of_pairs(keyword, found, top):
    """Return whether the function is the sum of itself for each pair of its variables."""
    if keyword in ("alldiff", "clique") or found.get("metric") in ("dec", "decbi"):
        return keyword in ("alldiff", "clique", "salldiff")
    return keyword in _DIFFERENT and found["cost"] >= top


def _costs(keyword, x, found, scope):
    """The cost of each row of `x`."""
    if keyword in ARITHMETIC:
        return _arithmetic(keyword, *x.T, found)
    if keyword in _DIFFERENT or keyword in _OF_COUNTS:
        return _of_counts(keyword, x, found)
    return _COSTS[keyword](x, found, scope)


def _hard(allowed):
    return np.where(allowed, 0.0, np.inf)


def _times(cost, counts):
    """The product, 0 where the count is 0, also of an infinite cost."""
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, cost * counts, 0.0)


def _arithmetic(keyword, x, y, found):
    """Comparisons and disjunctions of two variables."""
    if keyword in ("disj", "sdisj"):
        apart = (x >= y + found["y"]) | (y >= x + found["x"])
        if keyword == "disj":
            return np.where(apart, 0.0, found["cost"])
        at_x, at_y = x == found["last_x"], y == found["last_y"]
        inside = (x <= found["last_x"]) & (y <= found["last_y"])
        costs = _times(found["cost_x"], at_x) + _times(found["cost_y"], at_y)
        return costs + _hard(inside & (apart | at_x | at_y))
    far = y + found["least"] - x
    if keyword[0] == "<":
        far = -far
    far = np.abs(far) if keyword == "=" else far + (keyword in "<>")
    return np.where(far <= found["delta"], np.maximum(far, 0.0), np.inf)


def _priced(gap, found):
    """The cost of a gap by the metric of decomposed functions."""
    power = {"hard": np.sign, "lin": np.positive, "quad": np.square}[found["metric"]]
    return _times(found["cost"], power(gap * 1.0))


def _of_counts(keyword, x, found):
    """All different, global cardinalities and among: costs of how often values occur."""
    if "among" in keyword:
        count = np.isin(x, found["values"]).sum(axis=1)
        gap = np.maximum(found["min"] - count, count - found["max"])
        gap = np.maximum(gap, 0)
        return _priced(gap, found if keyword == "wamong" else {**found, "metric": "lin"})
    if keyword in _DIFFERENT:
        values = np.setdiff1d(x, found.get("exceptedvalues", ()))
        bounds = np.stack([values, 0 * values, 0 * values + 1], axis=1)
    else:
        bounds = found["bounds"]
    counts = (x[:, :, None] == bounds[:, 0]).sum(axis=1)
    short = np.maximum(bounds[:, 1] - counts, 0)
    over = np.maximum(counts - bounds[:, 2], 0)
    if keyword in ("alldiff", "gcc"):
        return _hard((short + over == 0).all(axis=1))
    if keyword[0] == "w":
        return _priced(short + over, found).sum(axis=1)
    metric = found["metric"]
    if metric == "wdec":
        return (_times(bounds[:, 3], short) + _times(bounds[:, 4], over)).sum(axis=1)
    if keyword == "salldiff" and metric != "var":
        return _times(found["cost"], (counts * (counts - 1) // 2).sum(axis=1))
    if keyword == "sgcc" and metric == "var":
        return _times(found["cost"], np.maximum(short.sum(axis=1), over.sum(axis=1)))
    return _times(found["cost"], (short + over).sum(axis=1))


_DIFFERENT = {"alldiff", "salldiff", "salldiffdp", "walldiff", "walldifferent"}
_OF_COUNTS = {"gcc", "sgcc", "sgccdp", "wgcc", "samong", "samongdp", "wamong"} | _DIFFERENT


def _clique(x, found, scope):
    inside = [np.isin(column, values) for column, values in zip(x.T, found["values"], strict=True)]
    return _hard(np.sum(inside, axis=0) <= 1)


def _knapsack(x, found, scope):
    return _hard(x @ found["weights"][:, 0] >= found["capacity"])


def _knapsackv(x, found, scope):
    total = np.zeros(len(x), dtype=np.int64)
    for variable, value, weight in found["weightedvalues"].astype(np.int64).tolist():
        total += weight * (x[:, scope.index(variable)] == value)
    return _hard(total >= found["capacity"])


def _moved(x, first, second):
    """For each value how many more variables of one list have it than of the other."""
    values = np.unique(x)
    first, second = ((x[:, of][:, :, None] == values).sum(axis=1) for of in (first, second))
    return first - second


def _ssame(x, found, scope):
    lists = [[scope.index(v) for v in found[name][:, 0]] for name in ("vars1", "vars2")]
    return _times(found["cost"], np.maximum(_moved(x, *lists), 0).sum(axis=1))


def _wsame(x, found, scope):
    half = x.shape[1] // 2
    moved = _moved(x, slice(half), slice(half, None))
    costs = _priced(np.abs(moved), found).sum(axis=1)
    if "bounds" not in found:
        return costs
    return costs + sum(_of_counts("wgcc", part, found) for part in np.split(x, 2, axis=1))


def _wvaramong(x, found, scope):
    count = np.isin(x[:, :-1], found["values"]).sum(axis=1)
    return _priced(np.abs(count - x[:, -1]), found)


def _compared(total, to, found):
    """The cost of a total that is compared with a number."""
    over = total - to
    gap = {
        "==": abs(over),
        "!=": over == 0,
        "<=": over,
        "<": over + 1,
        ">=": -over,
        ">": 1 - over,
    }[found["comparator"]]
    return _priced(np.maximum(gap, 0), found)


def _woverlap(x, found, scope):
    first, second = np.split(x, 2, axis=1)
    return _compared(((first == second) & (first > 0)).sum(axis=1), found["to"], found)


def _wsum(x, found, scope):
    return _compared(x.sum(axis=1), found["to"], found)


def _wvarsum(x, found, scope):
    return _compared(x[:, :-1].sum(axis=1), x[:, -1], found)


def _diverse(x, found, scope):
    return _hard((x != found["values"][:, 0]).sum(axis=1) >= found["distance"])


def _maximum(x, found, scope):
    costs = np.full(x.shape, float(found["defaultcost"]))
    for variable, value, cost in found["tuples"].tolist():
        column = scope.index(variable)
        costs[x[:, column] == value, column] = cost
    return costs.max(axis=1)


def _regular(x, found, scope):
    """A cheapest walk through the automaton; in soft ones each other label costs the same."""
    weighted = found["transitions"].shape[1] == 4
    costs = np.full((len(x), int(found["nb_states"])), np.inf)
    for state, *weight in found["starts"].tolist():
        costs[:, int(state)] = np.minimum(costs[:, int(state)], weight[0] if weight else 0.0)
    for labels in x.T:
        after = np.full(costs.shape, np.inf)
        for start, value, end, *weight in found["transitions"].tolist():
            other = weight[0] if weighted else 0.0
            price = np.where(labels == value, other, np.inf if weighted else found["cost"])
            step = costs[:, int(start)] + price
            after[:, int(end)] = np.minimum(after[:, int(end)], step)
        costs = after
    best = np.full(len(x), np.inf)
    for state, *weight in found["ends"].tolist():
        best = np.minimum(best, costs[:, int(state)] + (weight[0] if weight else 0.0))
    return best


_COSTS = {
    "clique": _clique,
    "knapsack": _knapsack,
    "knapsackv": _knapsackv,
    "ssame": _ssame,
    "wsame": _wsame,
    "wsamegcc": _wsame,
    "wvaramong": _wvaramong,
    "sregular": _regular,
    "sregulardp": _regular,
    "wregular": _regular,
    "max": _maximum,
    "smaxdp": _maximum,
    "woverlap": _woverlap,
    "wsum": _wsum,
    "wvarsum": _wvarsum,
    "wdiverse": _diverse,
    "whdiverse": _diverse,
    "wtdiverse": _diverse,
}
