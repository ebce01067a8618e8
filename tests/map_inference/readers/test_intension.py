"""Drawn .wcsp and .cfn texts against costs that are added up in plain Python."""

import io
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skstruct.map_inference import read_cfn, read_wcsp
from skstruct.map_inference.readers import intension


def labellings(n_states):
    return list(itertools.product(*map(range, n_states)))


def test_a_reference_has_the_default_cost_of_the_shared_function():
    graph = read_wcsp(io.StringIO("mini 2 2 2 100\n2 2\n-1 0 9 1\n0 0\n1 1 1 -1\n"))
    assert_array_equal(graph.score([(0, 0), (0, 1), (1, 0), (1, 1)]), [0, -9, -9, -18])


@given(st.integers(0, 2**32 - 1))
def test_drawn_weighted_problems(seed):
    """Tables with defaults, shared ones, and costs at and above the upper bound."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    n_states, top = rng.integers(1, 4, n), 20
    functions, shared, lines = [], [], []
    for _ in range(rng.integers(1, 7)):
        scope = rng.permutation(n)[: rng.integers(0, min(n, 4) + 1)].tolist()
        shape = tuple(n_states[scope].tolist())
        same = [k for k, of in enumerate(shared) if of[1] == shape]
        if same and rng.random() < 0.6:
            k = int(rng.choice(same))
            table, _, default = shared[k]
            # any default where toulbar2 takes no notice of it
            written = default if len(scope) > 3 else int(rng.integers(0, 30))
            lines.append(f"{len(scope)} {' '.join(map(str, scope))} {written} {-k - 1}")
        else:
            default = int(rng.integers(0, 25))
            table = dict.fromkeys(labellings(shape), default)
            given = {labels: int(rng.integers(0, 25)) for labels in table if rng.random() < 0.5}
            table.update(given)
            is_shared = rng.random() < 0.5 and bool(scope)
            arity = -len(scope) if is_shared else len(scope)
            lines.append(f"{arity} {' '.join(map(str, scope))} {default} {len(given)}")
            lines += [f"{' '.join(map(str, labels))} {cost}" for labels, cost in given.items()]
            if is_shared:
                shared.append((table, shape, default))
        functions.append((scope, table))
    sizes = " ".join(map(str, n_states))
    text = f"drawn {n} {n_states.max()} {len(functions)} {top}\n{sizes}\n" + "\n".join(lines)
    graph = read_wcsp(io.StringIO(text))
    for labels in labellings(n_states):
        costs = [table[tuple(labels[v] for v in scope)] for scope, table in functions]
        expected = math.inf if any(cost >= top for cost in costs) else sum(costs)
        assert graph.score(labels) == -expected


@given(st.integers(0, 2**32 - 1))
def test_drawn_networks(seed):
    """Tables, sparse or not, by the names of others, one name several times, inf and comments."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    sizes = rng.integers(1, 4, n).tolist()
    sign = int(rng.choice([1, -1]))
    functions, named, lines = [], [], []
    for k in range(rng.integers(1, 6)):
        scope = rng.permutation(n)[: rng.integers(0, n + 1)].tolist()
        shape = tuple(sizes[v] for v in scope)
        head = f"{{scope: [{' '.join(f'v{v}' for v in scope)}]"
        same = [(name, table) for name, table, of in named if of == shape]
        if same and rng.random() < 0.5:
            name, table = same[rng.integers(len(same))]
            lines.append(f"again: {head} costs: {name}}} // a comment")
        else:
            costs = rng.integers(0, 90, len(labellings(shape))) / 10
            table = dict(zip(labellings(shape), costs.tolist(), strict=True))
            first = next(iter(table))
            if scope and rng.random() < 0.3:
                table[first] = math.inf
            if rng.random() < 0.5:
                default = float(table[first])
                own = [
                    f"{' '.join(map(str, labels))} {cost}"
                    for labels, cost in table.items()
                    if cost != default
                ]
                lines.append(f"f{k}: {head} defaultcost: {default} costs: [{', '.join(own)}]}}")
            else:
                lines.append(f"f{k}: {head} costs: [{' '.join(map(str, table.values()))}]}}")
            named.append((f"f{k}", table, shape))
        functions.append((scope, table))
    domains = " ".join(f"v{v}: {size}" for v, size in enumerate(sizes))
    bound = "<1000.0" if sign > 0 else ">-1000.0"
    text = f"{{problem: {{name: drawn mustbe: {bound}}} variables: {{{domains}}}\n functions: {{"
    graph = read_cfn(io.StringIO(text + "\n".join(lines) + "\n}}"))
    for labels in labellings(sizes):
        total = sum(table[tuple(labels[v] for v in scope)] for scope, table in functions)
        expected = -math.inf if math.isinf(total) else -sign * total
        assert_allclose(graph.score(labels), expected, atol=1e-9)


def gap_of(total, comparator, to):
    """How far a comparison of integers is from holding."""
    distance = {
        "==": abs(total - to),
        "!=": int(total == to),
        "<=": total - to,
        "<": total - to + 1,
        ">=": to - total,
        ">": to - total + 1,
    }
    return max(0, distance[comparator])


def priced(gap, metric, cost):
    return {"hard": cost if gap else 0, "lin": cost * gap, "quad": cost * gap * gap}[metric]


def excess(x, bounds):
    counts = Counter(x)
    return [(max(0, low - counts[v]), max(0, counts[v] - high)) for v, low, high in bounds]


def n_moved(x, y):
    return [abs(Counter(x)[v] - Counter(y)[v]) for v in set(x) | set(y)]


def walk(x, starts, ends, steps, other):
    """A cheapest walk by trying all."""
    best = math.inf
    for route in itertools.product([*steps, None], repeat=len(x)):
        if None in route:
            continue
        for start, first in starts:
            state, total = start, first
            for label, (origin, value, end, cost) in zip(x, route, strict=True):
                total += cost if value == label else other
                total += 0 if origin == state else math.inf
                state = end
            total += min([cost for end, cost in ends if end == state], default=math.inf)
            best = min(best, total)
    return best


BOUNDS = [(0, 0, 1), (2, 1, 2)]
WRITTEN = "2 0 0 1 2 1 2"
STEPS = [(0, 0, 0, 0), (0, 1, 1, 2), (1, 1, 1, 0), (1, 0, 1, 5)]
PAIRS = list(itertools.combinations(range(4), 2))
DISTANCE = (1, 2, 0, 1)
# The keyword with its parameters, and the cost of four variables of three values.
CASES = {
    "salldiff var 3": lambda x: 3 * (4 - len(set(x))),
    "salldiffdp var 3": lambda x: 3 * (4 - len(set(x))),
    "salldiff dec 3": lambda x: 3 * sum(x[i] == x[j] for i, j in PAIRS),
    "salldiff decbi 3": lambda x: 3 * sum(x[i] == x[j] for i, j in PAIRS),
    "alldiff 1 0 0": lambda x: (
        math.inf if any(x[i] == x[j] != 0 for i, j in PAIRS) else 0
    ),
    "clique 1 1 2 2 0 1 0 1 1": lambda x: (
        0 if (x[0] == 2) + (x[1] < 2) + (x[3] == 1) <= 1 else math.inf
    ),
    f"gcc {WRITTEN} 0": lambda x: math.inf if sum(map(sum, excess(x, BOUNDS))) else 0,
    f"sgcc dec 2 {WRITTEN}": lambda x: 2 * sum(map(sum, excess(x, BOUNDS))),
    f"sgccdp var 2 {WRITTEN}": lambda x: 2 * sum(map(sum, excess(x, BOUNDS))),
    f"sgcc var 2 {WRITTEN}": lambda x: 2 * max(map(sum, zip(*excess(x, BOUNDS), strict=True))),
    "sgcc wdec 9 2 0 0 1 3 5 2 1 2 7 1": lambda x: (
        5 * excess(x, BOUNDS)[0][1] + 7 * excess(x, BOUNDS)[1][0] + excess(x, BOUNDS)[1][1]
    ),
    "ssame 5 2 2 2 0 1 3": lambda x: 5 * sum(n_moved((x[2], x[0]), (x[1], x[3]))) / 2,
    "samong var 3 1 2 2 0 1": lambda x: 3 * max(0, x.count(2) - 3, 2 - x.count(2)),
    "samongdp var 3 2 2 1 0": lambda x: 3 * abs(x.count(0) - 2),
    "wvaramong hard 4 1 1": lambda x: 4 * (x[:3].count(1) != x[3]),
    "knapsackv 3 3 0 1 2 2 1 2 1 2 -1": lambda x: (
        0 if 2 * (x[0] == 1) + 2 * (x[2] == 1) - (x[1] == 2) >= 3 else math.inf
    ),
    "max 3 2 0 0 4 1 1 7": lambda x: max(3, 4 * (x[0] == 0), 7 * (x[1] == 1)),
    "smaxdp 1 2 0 0 4 1 1 7": lambda x: max(1, 4 * (x[0] == 0), 7 * (x[1] == 1)),
    "wdiverse 2 1 2 0 1": lambda x: (
        math.inf if sum(a != b for a, b in zip(x, DISTANCE, strict=True)) < 2 else 0
    ),
    "sregular var 3 2 1 0 1 1 4 0 0 0 0 1 1 1 1 1 1 0 1": lambda x: walk(
        x, [(0, 0)], [(1, 0)], [(a, b, c, 0) for a, b, c, _ in STEPS], 3
    ),
    "wregular 2 2 0 0 1 3 2 0 1 1 2 4 0 0 0 0 0 1 1 2 1 1 1 0 1 0 1 5": lambda x: walk(
        x, [(0, 0), (1, 3)], [(0, 1), (1, 2)], STEPS, math.inf
    ),
}  # fmt: skip
for metric in ("hard", "lin", "quad"):
    for comparator in ("==", "!=", "<=", "<", ">=", ">"):
        CASES[f"wsum {metric} 2 {comparator} 4"] = lambda x, m=metric, c=comparator: priced(
            gap_of(sum(x), c, 4), m, 2
        )
        CASES[f"wvarsum {metric} 2 {comparator}"] = lambda x, m=metric, c=comparator: priced(
            gap_of(sum(x[:3]), c, x[3]), m, 2
        )
        CASES[f"woverlap {metric} 2 {comparator} 1"] = lambda x, m=metric, c=comparator: priced(
            gap_of(sum(a == b > 0 for a, b in zip(x[:2], x[2:], strict=True)), c, 1), m, 2
        )
    CASES[f"walldiff {metric} 2"] = lambda x, m=metric: sum(
        priced(count - 1, m, 2) for count in Counter(x).values()
    )
    CASES[f"wamong {metric} 2 1 1 3 4"] = lambda x, m=metric: priced(max(0, 3 - x.count(1)), m, 2)
    CASES[f"wgcc {metric} 2 {WRITTEN}"] = lambda x, m=metric: sum(
        priced(sum(gaps), m, 2) for gaps in excess(x, BOUNDS)
    )
    CASES[f"wsame {metric} 2"] = lambda x, m=metric: sum(
        priced(gap, m, 2) for gap in n_moved(x[:2], x[2:])
    )
    CASES[f"wsamegcc {metric} 2 {WRITTEN}"] = lambda x, m=metric: sum(
        priced(gap, m, 2)
        for gap in [
            *n_moved(x[:2], x[2:]),
            *map(sum, excess(x[:2], BOUNDS)),
            *map(sum, excess(x[2:], BOUNDS)),
        ]
    )


@pytest.mark.parametrize("call", CASES)
def test_functions_in_intension(call):
    graph = read_wcsp(io.StringIO(f"f 4 3 1 1e9\n3 3 3 3\n4 0 1 2 3 -1 {call}\n"))
    rows = labellings([3] * 4)
    assert_array_equal(graph.score(rows), [-float(CASES[call](x)) for x in rows])
    with pytest.raises(ValueError, match=r"<file>.*expected"):
        read_wcsp(io.StringIO(f"f 4 3 1 1e9\n3 3 3 3\n4 0 1 2 3 -1 {call.rsplit(maxsplit=1)[0]}"))


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        (">= 1 2", lambda x, y: y + 1 - x),
        ("> 1 2", lambda x, y: y + 2 - x),
        ("<= 1 2", lambda x, y: x - y - 1),
        ("< 1 2", lambda x, y: x - y),
        ("= 1 2", lambda x, y: abs(x - y - 1)),
        ("disj 1 2 2", lambda x, y: 0 if x >= y + 2 or y >= x + 1 else 2),
    ],
)
def test_comparisons_of_two_variables(call, cost):
    graph = read_wcsp(io.StringIO(f"f 2 5 1 100\n5 4\n2 0 1 -1 {call}"))
    for x, y in labellings([5, 4]):
        expected = max(0, cost(x, y))
        assert graph.score([x, y]) == (-expected if expected <= 2 else -math.inf)


def test_a_special_disjunction():
    graph = read_wcsp(io.StringIO("f 2 6 1 100\n6 6\n2 0 1 -1 sdisj 1 2 4 3 7 11"))
    for x, y in labellings([6, 6]):
        allowed = x <= 4 and y <= 3 and (x == 4 or y == 3 or x >= y + 2 or y >= x + 1)
        assert graph.score([x, y]) == (-7 * (x == 4) - 11 * (y == 3) if allowed else -math.inf)


@pytest.mark.parametrize(
    ("n_states", "call"),
    [
        (3, "salldiff var 1000"),
        (3, "salldiff dec 3"),
        (3, "salldiffdp var 1000"),
        (3, "walldiff lin 1000"),
        (3, "alldiff 1 2 0"),
        (3, "clique 1 1 2 2 0 1 0 1 1"),
        (2, "clique 1 1 1 1 1 1 1 1 1"),
        (2, "salldiff var 3"),
        (2, "samong var 3 1 2 1 0"),
        (2, "wsum quad 3 == 2"),
        (2, "knapsack -3 -2 -2 -2 -2"),
        (2, f"wgcc quad 2 {WRITTEN}"),
    ],
)
def test_pairs_and_counts_agree_with_tables(n_states, call, monkeypatch):
    text = f"f 4 {n_states} 1 1000\n{f'{n_states} ' * 4}\n4 0 1 2 3 -1 {call}\n"
    rows = labellings([n_states] * 4)
    expected = read_wcsp(io.StringIO(text)).score(rows)
    monkeypatch.setattr(intension, "_MOST_CELLS", 8)
    graph = read_wcsp(io.StringIO(text))
    assert graph.factors[0].arity == 2 or type(graph.factors[0]).__name__ == "Cardinality"
    assert_array_equal(graph.score(rows), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "wdiverse 3 0 0 0 0",
            "a smaller wdiverse: its table of 4 variables would have 81 cells, more than 8, and",
        ),
        ("salldiff var 999", "a smaller salldiff"),
        ("sgcc var 1 3 0 0 1 1 0 1 2 0 1", "bounds of sgcc that a labelling of 4 variables can"),
        ("sgcc var 1 1 0 2 1", "bounds of different values"),
        ("knapsack 1 1 1 1 1", "variables of two values of knapsack"),
        (">= 1 1", "two variables of >="),
        ("clique 2 1 0 1 0 1 0 1 0", "rhs 1 of clique"),
        ("gcc 1 0 0 1 1 0 3", "no deltacosts of gcc"),
        ("ssame 5 1 1 0 1", "the variables of ssame in two lists of one length"),
        ("max 1 1 5 0 1", "variables of the scope in max"),
        ("salldiff quad 1", r"token 17: expected metric of salldiff, one of var, .* got 'quad'"),
        ("salldiff var -1", "token 18: expected an integer or a cost, cost of salldiff, got '-1'"),
        ("samong var 3 0.5 2 1 0", "token 19: .*min of samong, got '0.5'"),
        ("sregular var 1 1 1 1 1 0 0", "starts with states below nb_states of sregular"),
    ],
)
def test_functions_that_are_refused(call, message, monkeypatch):
    monkeypatch.setattr(intension, "_MOST_CELLS", 8)
    with pytest.raises(ValueError, match=f"^<file>, line 3, .*{message}"):
        read_wcsp(io.StringIO(f"f 4 3 1 1000\n3 3 3 3\n4 0 1 2 3 -1 {call}\n"))


@pytest.mark.parametrize(
    ("n_states", "call", "message"),
    [
        ([3] * 3, "sregular var 1 1000000 1 0 1 0 0", "1000000 states .* to fill its table of 27 "),
        ([60_000], "salldiff var 1", "60000 values of a variable .* its table of 60000 cells"),
        ([2] * 12, f"max 0 2000 {'0 0 1 ' * 2000}", "2000 rows of parameters .* of 4096 cells"),
        (
            [100_000] * 2,
            ">= 1 1",
            "its table of 2 variables would have 10000000000 cells, more than 4194304",
        ),
        (
            [3] * 12,
            "wsum hard 1 == 5",
            "its table of 12 .* have 531441 cells, more than 65536, and",
        ),
        (
            [3] * 9999,
            "wsum hard 1 == 5",
            "its table of 9999 .* have at least 1e18 cells, more than",
        ),
        ([1] * 40, "wvarsum hard 1 ==", "a table has at most 31 variables, not 40, and it is"),
    ],
)
def test_messages_name_what_was_too_many(n_states, call, message):
    n, keyword = len(n_states), call.split()[0]
    scope = " ".join(map(str, range(n)))
    sizes = " ".join(map(str, n_states))
    text = f"f {n} {max(n_states)} 1 1000\n{sizes}\n{n} {scope} -1 {call}\n"
    expected = f"^<file>, line 3, .*: expected a smaller {keyword}: {message}.*, got '{keyword}'$"
    with pytest.raises(ValueError, match=expected):
        read_wcsp(io.StringIO(text))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ("type: salldiff params: {metric: var cost: 0.5}", lambda x: 0.5 * (3 - len(set(x)))),
        (
            "type: knapsackv params: {capacity: 2 weightedvalues: [[a 1 1][c 1 1][1 0 5]]}",
            lambda x: 0 if (x[0] == 1) + (x[2] == 1) + 5 * (x[1] == 0) >= 2 else math.inf,
        ),
        (
            "type: clique params: {rhs: 1 values: [[0][0 1][]]}",
            lambda x: math.inf if x[0] == 0 else 0,
        ),
        (
            'type: wsum params: {metric: lin cost: inf comparator: "<=" to: 2}',
            lambda x: math.inf if sum(x) > 2 else 0,
        ),
    ],
)
def test_functions_in_intension_of_networks(params, expected):
    text = "{{problem: {{name: p mustbe: {}}} variables: {{a: 2 b: 2 c: 2}} functions: {{{}}}}}"
    graph = read_cfn(io.StringIO(text.format("<9.0", f"f: {{scope: [a b c] {params}}}")))
    for x in labellings([2] * 3):
        assert graph.score(x) == -expected(x)
    if "cost: 0.5" in params:
        with pytest.raises(ValueError, match="line 1: expected no costs of salldiff, since values"):
            read_cfn(io.StringIO(text.format(">-9.0", f"f: {{scope: [a b c] {params}}}")))


def test_functions_of_no_variables_are_refused():
    with pytest.raises(ValueError, match="token 9: expected at least one variable of alldiff"):
        read_wcsp(io.StringIO("n 1 2 1 9 2 0 -1 alldiff 0 0"))


def test_a_shared_function_of_four_variables_has_one_default():
    text = "n 5 2 2 99\n2 2 2 2 2\n-4 0 1 2 3 9 1\n0 0 0 0 1\n4 1 2 3 4 2 -1\n"
    with pytest.raises(
        ValueError, match=r"line 5, token .*expected 9, the default cost of the sha"
    ):
        read_wcsp(io.StringIO(text))
    with pytest.raises(ValueError, match=r"line 5, .*a shared function of \[2\] states, got '-1'"):
        read_wcsp(io.StringIO("n 2 3 2 99\n3 2\n-1 0 9 1\n0 0\n1 1 1 -1\n"))


@given(st.sampled_from(sorted(CASES)), st.integers(0, 2**32 - 1))
def test_no_damage_of_parameters_goes_by_another_error(call, seed):
    """Changed, doubled and lost tokens: a model, or an error that names the file."""
    rng = np.random.default_rng(seed)
    tokens = f"f 4 3 1 1000 3 3 3 3 4 0 1 2 3 -1 {call}".split()
    for _ in range(rng.integers(1, 3)):
        at = int(rng.integers(9, len(tokens)))
        other = str(
            rng.choice(["-1", "2", "99999", "1e30", "nan", "-inf", "inf", "0.5", "var", "<"])
        )
        tokens[at : at + 1] = [[other], [], [tokens[at]] * 2][rng.integers(3)]
    try:
        graph = read_wcsp(io.StringIO(" ".join(tokens)))
    except ValueError as error:
        message = str(error)
    else:
        assert not np.isnan(graph.score([0, 1, 2, 0]))
        message = "<file> is a model"
    assert message.startswith("<file>")
