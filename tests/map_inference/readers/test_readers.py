"""Files of factor graphs: what was written is read, what is malformed is named."""

import csv
import gzip
import io
import lzma
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skstruct.map_inference import (
    AtMostOne,
    Cardinality,
    ExactlyOne,
    FactorGraph,
    Or,
    Potts,
    Table,
    read_cfn,
    read_libdai,
    read_uai,
    read_wcsp,
    write_uai,
)
from tests.helpers.map_cases import labellings
from tests.helpers.map_reader_cases import CFN, FG, UAI, WCSP


def scores(graph):
    return graph.score(labellings(graph))


def test_a_small_markov_network():
    graph = read_uai(io.StringIO(UAI))
    assert_array_equal(graph.n_states, [2, 2, 3])
    pair = {(0, 0): 1, (0, 1): 0, (1, 0): 0.25, (1, 1): 10}
    for x, y, z in labellings(graph):
        potential = [0.5, 2.0][x] * pair[x, y] * [1, 2, 3, 4, 5, 6][2 * z + y]
        expected = math.log(potential) if potential else -math.inf
        assert_allclose(graph.score([x, y, z]), expected)
    bayes = read_uai(io.BytesIO(UAI.replace("MARKOV", "BAYES").encode()))
    assert_array_equal(scores(bayes), scores(graph))


def test_a_small_weighted_problem_in_two_formats():
    graph = read_wcsp(io.StringIO(WCSP))
    for x, y, z in labellings(graph):
        cost = [7, 3][x] + [[5, 100], [0, 5]][x][y] + {(0, 1): 9, (2, 0): 101.5}.get((z, y), 0) + 4
        hard = (x, y) == (0, 1) or (z, y) == (2, 0)
        assert graph.score([x, y, z]) == (-math.inf if hard else -cost)
    assert_array_equal(scores(read_cfn(io.StringIO(CFN))), scores(graph))


def test_a_small_libdai_graph():
    graph = read_libdai(io.StringIO(FG))
    assert_array_equal(graph.n_states, [2, 1, 3])
    table = np.log([[0.5, 1e-300, 1e-300], [1e-300, 2, 4]])
    for x, _, z in labellings(graph):
        allowed = x == 1 and z > 0
        assert_allclose(graph.score([x, 0, z]), table[x, z] + math.log(3) if allowed else -math.inf)


def test_names_of_a_cost_function_network():
    graph, names = read_cfn(io.StringIO(CFN), return_names=True)
    assert list(names.items()) == [("x", ["off", "on"]), ("y", ["0", "1"]), ("z", ["a", "b", "c"])]
    assert_array_equal(graph.n_states, [len(of) for of in names.values()])


def test_the_freedom_of_cost_function_networks():
    loose = """# quotes, commas, colons and tags may be missing
{ {three <100.00}
  { x [off on] y 2 z {a b c} }
  functions [
    { scope [x] costs [7 3] }
    fxy { scope: [x 1] defaultcost 5 costs: ["off" 1 100 on 0 "0"] }
    {scope [2, y] costs shared_later}
# the table of another function
    shared_later {scope [z y] costs [0 9 0 0 101.5 0]}
    {scope [] costs [4]} {scope {} costs [3e0]}
  ]
}"""
    strict = read_cfn(io.StringIO(CFN))
    before = scores(strict)
    zy = np.array([{(0, 1): 9, (2, 0): math.inf}.get((z, y), 0) for _, y, z in labellings(strict)])
    assert_array_equal(scores(read_cfn(io.StringIO(loose))), before - zy - 3)
    sizes = read_cfn(io.StringIO('{{p "<5"} [3 2] {}}'))
    assert_array_equal(sizes.n_states, [3, 2])


@pytest.mark.parametrize(
    ("must_be", "unary", "expected"),
    [
        ("<10", [[9, 10], [-3, 0]], [[-6, -9], [-7, -10]]),
        ("<10", [[9, 13], [-3, 0]], [[-6, -9], [-math.inf, -math.inf]]),
        (">0", [[0, 4], [-3, 0]], [[-math.inf, -math.inf], [1, 4]]),
        (">-5", [[1, 0.5], [-6, 2]], [[-math.inf, 3], [-math.inf, 2.5]]),
        ("<", [[1e30, 1], [0, 0]], [[-1e30, -1e30], [-1, -1]]),
        (">", [[1e30, 1], [0, 0]], [[1e30, 1e30], [1, 1]]),
    ],
)
def test_what_mustbe_forbids_is_out_of_reach(must_be, unary, expected):
    """Entries with which every labelling passes the bound, whatever the other functions say."""
    text = (
        f'{{"problem": {{"name": "p", "mustbe": "{must_be}"}}, "variables": {{"x": 2, "y": 2}},'
        f'"functions": {{"f": {{"scope": ["x"], "costs": {unary[0]}}},'
        f'"g": {{"scope": ["y"], "costs": {unary[1]}}}}}}}'
    )
    graph = read_cfn(io.StringIO(text))
    found = scores(graph).reshape(2, 2)
    assert_array_equal(found, expected)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("as_text", [False, True])
def test_compressed_files(tmp_path, suffix, as_text):
    graph = read_uai(io.StringIO(UAI))
    path = tmp_path / f"model.uai{suffix}"
    write_uai(graph, str(path) if as_text else path)
    opened = {"": open, ".gz": gzip.open, ".xz": lzma.open}[suffix]
    with opened(path, "rt") as file:
        assert file.readline() == "MARKOV\n"
    assert_allclose(scores(read_uai(path)), scores(graph))
    with path.open("rb") as file:
        assert_allclose(scores(read_uai(file)), scores(graph))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        read_uai(damaged)


@st.composite
def graphs(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 5))
    n_states = rng.integers(1, 4, n)
    if draw(st.booleans()):
        n_states[:] = 2
    factors = []
    for _ in range(draw(st.integers(0, 5))):
        scope = rng.permutation(n)[: rng.integers(0, min(n, 4) + 1)]
        table = rng.choice([-3.0, 0.5, 0.0, 1e-3], tuple(n_states[scope])) + rng.random()
        if scope.size and draw(st.booleans()):
            table[rng.random(table.shape) < 0.3] = -np.inf
        factors.append(Table(scope, table))
    if n > 1:
        i, j = rng.permutation(n)[:2]
        factors.append(Potts(i, j, rng.normal()))
    if (n_states == 2).all():
        some = np.stack([rng.permutation(n)[: max(1, n - 1)] for _ in range(2)])
        counts = rng.normal(size=(rng.integers(1, 3), some.shape[1] + 1))
        kind = draw(st.sampled_from([ExactlyOne, AtMostOne, Or]))
        factors += [Cardinality(some, counts), kind(some, rng.random(some.shape) < 0.5)]
    return FactorGraph(n_states, factors, offset=float(rng.normal()))


@given(graphs(), st.booleans())
def test_what_is_written_is_read(graph, logarithms):
    file = io.StringIO()
    write_uai(graph, file, logarithms=logarithms)
    again = read_uai(io.StringIO(file.getvalue()), logarithms=logarithms)
    assert_array_equal(again.n_states, graph.n_states)
    assert_allclose(scores(again), scores(graph), atol=1e-12)


@given(graphs())
def test_formats_agree(graph):
    """One model written by hand in each format has one score."""
    expected = scores(graph)
    tables = [
        (list(range(graph.n_variables)), graph.score(labellings(graph)).reshape(graph.n_states))
    ]
    for v, row in enumerate(np.split(graph.unary, graph.state_ptr[1:-1])):
        tables += [([v], np.where(np.isfinite(row), row, 0)), ([v], -np.where(row > -9, row, 0))]
    potentials = [
        (scope, np.exp(table).ravel(order="F"), np.shape(table)) for scope, table in tables
    ]
    lines = [str(len(tables))]
    for scope, values, shape in potentials:
        given = [(k, value) for k, value in enumerate(values.tolist()) if value]
        lines += ["", str(len(scope)), " ".join(map(str, scope)), " ".join(map(str, shape))]
        lines += [str(len(given)), *(f"{k} {value!r}" for k, value in given)]
    assert_allclose(scores(read_libdai(io.StringIO("\n".join(lines)))), expected, atol=1e-12)

    low, top = 64.0, 1e6
    costs = [(scope, np.where(np.isneginf(t), top, low - t)) for scope, t in tables]
    sizes = " ".join(map(str, graph.n_states))
    lines = [f"n {graph.n_variables} {graph.n_states.max()} {len(costs)} {top!r}", sizes]
    for scope, table in costs:
        lines.append(f"{len(scope)} {' '.join(map(str, scope))} {top} {table.size}")
        for cell, cost in np.ndenumerate(table):
            lines.append(f"{' '.join(map(str, cell))} {cost!r}".replace("np.float64", ""))
    text = "\n".join(lines).replace("(", "").replace(")", "")
    shift = low * len(costs)
    assert_allclose(scores(read_wcsp(io.StringIO(text))) + shift, expected, atol=1e-9)

    functions = ", ".join(
        f'"f{k}": {{"scope": {scope}, "costs": {table.ravel().tolist()}}}'
        for k, (scope, table) in enumerate(costs)
    )
    text = (
        f'{{"problem": {{"name": "n", "mustbe": "<{top:.1f}"}}, "variables": '
        f"{graph.n_states.tolist()}, "
        f'"functions": {{{functions}}}}}'
    )
    assert_allclose(scores(read_cfn(io.StringIO(text))) + shift, expected, atol=1e-9)


@pytest.mark.parametrize(
    "evidence",
    ["2 0 1 2 0", "1\n2 0 1 2 0\n", {0: 1, 2: 0}, {np.int64(0): np.int32(1), 2: 0}],
)
def test_evidence_forces_states(evidence):
    graph = read_uai(io.StringIO(UAI))
    opened = io.StringIO(evidence) if isinstance(evidence, str) else evidence
    observed = read_uai(io.StringIO(UAI), evidence=opened)
    rows = labellings(graph)
    agree = (rows[:, 0] == 1) & (rows[:, 2] == 0)
    assert_array_equal(observed.score(rows), np.where(agree, graph.score(rows), -np.inf))


def test_no_evidence():
    for nothing in ("0", "", "1 0", {}):
        opened = io.StringIO(nothing) if isinstance(nothing, str) else nothing
        observed = read_uai(io.StringIO(UAI), evidence=opened)
        assert_array_equal(scores(observed), scores(read_uai(io.StringIO(UAI))))


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ("1 0", None),
        ("2 0 1 2", "pairs of a variable and its state, but the file ends after token 4"),
        ("2 0 1 2 0 7", "token 6: expected the end of the file"),
        ("1 3 0", r"token 2: expected an observed variable, from 0 to 2, got '3'"),
        ("1 2 3", "token 3: expected a state of the variable, from 0 to 2, got '3'"),
        ("2 0 1 0 0", "token 4: expected variable 0 once"),
        ("1 x 3", "token 2: expected a number, got 'x'"),
        ({5: 0}, "evidence: variable 5 must be an integer from 0 to 2"),
        ({0: 2}, "evidence: state of variable 0: 2 must be an integer from 0 to 1"),
        ({0: 0.5}, "evidence: state of variable 0"),
    ],
)
def test_wrong_evidence(evidence, message):
    opened = io.StringIO(evidence) if isinstance(evidence, str) else evidence
    if message is None:
        read_uai(io.StringIO(UAI), evidence=opened)
        return
    with pytest.raises(ValueError, match=message):
        read_uai(io.StringIO(UAI), evidence=opened)


def test_tables_of_logarithms(tmp_path):
    text = UAI.replace("0.5 2.0", "-inf -1000")
    for name in ("model.LG", "model.uai.LG.gz"):
        opened = gzip.open if name.endswith("gz") else open
        with opened(tmp_path / name, "wt") as file:
            file.write(text)
        graph = read_uai(tmp_path / name)
        assert_array_equal(graph.unary[:2], [-np.inf, -1000])
        assert graph.score([1, 1, 2]) == -1000 + 10 + 6
    with pytest.raises(ValueError, match="line 10, token 17: expected a logarithm, not NaN or"):
        read_uai(io.StringIO(text.replace("-1000", "inf")), logarithms=True)


def test_shared_cost_functions():
    text = (
        WCSP.replace("100\n2 2 3", "100\n2 2 3")
        .replace(" 4 100", " 5 100")
        .replace("0 4 0\n", "2 2 0 0 -1\n0 4 0\n")
    )
    rows = labellings(read_wcsp(io.StringIO(WCSP)))
    again = [{(0, 1): 9.0, (2, 0): math.inf}.get((z, x), 0.0) for x, _, z in rows]
    before = scores(read_wcsp(io.StringIO(WCSP)))
    assert_array_equal(scores(read_wcsp(io.StringIO(text))), before - again)


def test_a_factor_without_variables_may_forbid_all():
    for text in ("MARKOV 1 2 1 0 1 0", "MARKOV 1 2 2 0 0 1 0 1 1"):
        assert_array_equal(scores(read_uai(io.StringIO(text))), [-np.inf, -np.inf])
    assert_array_equal(scores(read_wcsp(io.StringIO("n 1 2 1 5 2 0 7 0"))), [-np.inf, -np.inf])


def test_tens_of_thousands_of_factors_are_one_batch():
    rng = np.random.default_rng(0)
    n = 30_000
    tables = rng.random((n, 2, 2))
    scopes = np.stack([np.arange(n), np.arange(1, n + 1)], axis=1)
    lines = ["MARKOV", str(n + 1), "2 " * (n + 1), str(n)]
    lines += [f"2 {i} {j}" for i, j in scopes.tolist()]
    lines += ["4 " + " ".join(map(repr, row)) for row in tables.reshape(n, 4).tolist()]
    graph = read_uai(io.StringIO("\n".join(lines)))
    (batch,) = graph.factors
    assert_array_equal(batch.scopes, scopes)
    assert_allclose(batch.tables, np.log(tables))


@pytest.fixture(scope="module")
def models(shared_data):
    return shared_data / "map_models"


def test_every_model_of_the_index_has_its_counts(models):
    with (models / "INDEX.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 40
    for row in rows:
        graph = read_uai(models / row["file"])
        arities = dict(map(int, item.split(":")) for item in row["factors_by_arity"].split())
        found = {}
        for batch in graph.factors:
            found[batch.arity] = found.get(batch.arity, 0) + len(batch)
        expected = {arity: count for arity, count in arities.items() if arity > 1}
        assert found == expected, row["file"]
        assert graph.n_variables == int(row["variables"])
        low, high = map(int, row["labels"].split("-"))
        assert (graph.n_states.min(), graph.n_states.max()) == (low, high)
        zeros = sum(int(np.isneginf(batch.tables).sum()) for batch in graph.factors)
        assert zeros <= int(row["zero_entries"])
        if int(row["zero_entries"]) == 0:
            assert np.isfinite(graph.unary).all()


def test_models_of_other_formats(models):
    expected = {"1aho.cfn.gz": (64, 55, 544), "scen06.wcsp.xz": (100, 44, 1222)}
    for (name, (n, most, n_factors)), read in zip(
        expected.items(), (read_cfn, read_wcsp), strict=True
    ):
        graph = read(models / name)
        assert (graph.n_variables, graph.n_states.max(), graph.n_factors) == (n, most, n_factors)
    alarm = read_libdai(models / "alarm.fg")
    assert (alarm.n_variables, alarm.n_states.max()) == (37, 4)


def test_real_models_survive_a_round_trip(models, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("alarm.fg", "water.uai", "object_detection/ObjectDetection_11.uai.xz"):
        graph = (read_libdai if name.endswith("fg") else read_uai)(models / name)
        write_uai(graph, tmp_path / "model.LG.gz")
        again = read_uai(tmp_path / "model.LG.gz")
        rows = rng.integers(0, graph.n_states, size=(50, graph.n_variables))
        assert_allclose(again.score(rows), graph.score(rows))
