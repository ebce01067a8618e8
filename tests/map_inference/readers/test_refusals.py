"""What the readers of MAP models refuse."""

import gzip
import io
import lzma
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct.map_inference import (
    FactorGraph,
    Or,
    Table,
    read_cfn,
    read_libdai,
    read_uai,
    read_wcsp,
    write_uai,
)
from tests.helpers.map_reader_cases import CFN, FG, UAI, WCSP

MALFORMED_UAI = [
    ("", "the file is empty"),
    (UAI.replace("MARKOV", "MRF"), "line 1, token 1: expected MARKOV or BAYES, got 'MRF'"),
    ("MARKOV", "expected the number of variables, at least 1, but the file ends after token 1"),
    (UAI.replace("\n3\n2 2", "\n0\n2 2"), "token 2: expected the number of variables"),
    (UAI.replace("2 2 3", "2 0 3"), "line 3, token 4: expected a number of states, at least 1"),
    (UAI.replace("2 2 3", "2 2.5 3"), "line 3, token 4: expected a number of states"),
    (UAI.replace("2 0 1\n", "2 0 3\n"), r"line 6, token 11: .* from 0 to 2, got '3'"),
    (UAI.replace("2 0 1\n", "2 1 1\n"), "token 11: expected different variables .* factor 1, got"),
    (UAI.replace("2 0 1\n", "-1 0 1\n"), "token 9: expected the number of variables of factor 1"),
    (UAI.replace("\n4\n", "\n5\n"), "line 12, token 18: expected 4, the size of the table of fac"),
    (
        UAI.replace("1 0 0.25", "1 0"),
        "line 15, token 23: expected 6, the size of the table of factor 2, got '1'",
    ),
    (UAI.replace("5 6\n", "5\n"), "the table of factor 2, 6 numbers, but the file ends"),
    (UAI[: UAI.index("6\n 1")], "the table of factor 2, 6 numbers, but the file ends after tok"),
    (UAI + "7", "line 16, token 30: expected the end of the file after the last table, got '7'"),
    (UAI.replace("0.25", "-0.25"), "token 21: expected a potential, finite and >= 0, got '-0.25'"),
    (UAI.replace("0.25", "nan"), "line 13, token 21: expected a potential"),
    (UAI.replace("0.25", "1e999"), "line 13, token 21: expected a potential"),
    (UAI.replace("0.25", "a"), "line 13, token 21: expected a number, got 'a'"),
    (UAI.replace("0.25", "1-3"), "line 13, token 21: expected a number, got '1-3'"),
    (UAI.replace("0.25", "1,3"), "line 13, token 21: expected a number, got '1,3'"),
    (UAI[:20], "but the file ends after token"),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED_UAI)
def test_malformed_uai(text, message):
    with pytest.raises(ValueError, match=f"^<file>.*{message}"):
        read_uai(io.StringIO(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("n 3 3 4", "expected the upper bound, but the file ends after token 4"),
        (WCSP.replace("4 100", "4 0"), "line 1, token 5: expected an upper bound > 0"),
        (WCSP.replace("\n2 2 3\n", "\n2 -2 3\n"), "line 2, token 7: .*interval.* got '-2'"),
        (WCSP.replace("\n2 2 3\n", "\n2 2 4\n"), "token 8: .* from 1 to 3, got '4'"),
        (WCSP.replace("1 0 7 1\n", "1 3 7 1\n"), "line 3, token 10: .*scope, from 0 to 2, got '3'"),
        (WCSP.replace("2 0 1 5", "2 0 0 5"), "line 5, token 17: expected different variables"),
        (WCSP.replace("0 1 100", "2 1 100"), "line 6, token 20: .*state from 0 to 1, got '2'"),
        (WCSP.replace("1 0 0\n", "0 1 0\n"), "line 7, token 23: expected a tuple that was not"),
        (WCSP.replace("0 1 9", "0 1 -9"), "line 9, token 33: expected a cost >= 0, got '-9'"),
        (WCSP.replace("0 1 9", "0 1 nan"), "line 9, token 33: expected a cost >= 0, got 'nan'"),
        (WCSP.replace("2 0 1 5", "2 0 1 -5"), "line 5, token 18: expected a default cost >= 0"),
        (WCSP.replace("0 4 0\n", ""), "expected the number of variables of function 3"),
        (WCSP.replace("0 4 0\n", "0 4\n"), "number of tuples of function 3, but the file ends"),
        (WCSP + "1", "line 12, token 40: expected the end of the file after the last cost func"),
        (
            WCSP.replace("5 2\n0 1 100\n1 0 0", "-1 sgrammar var 10"),
            "line 5, token 19: expected the keyword of a cost function .* got 'sgrammar'",
        ),
        (WCSP.replace("1 0 7 1\n1 3", "1 0 7 -1"), "token 12: .*or one of 0 shared functions"),
        (WCSP.replace("0 4 0\n", "1 0 4 -1\n"), "line 11, token 40: .*shared function of 1 var"),
        (
            "n 30 9 1 9\n" + "9 " * 30 + "\n9 0 1 2 3 4 5 6 7 8 0 0",
            "token 36: expected tables of at most",
        ),
    ],
)
def test_malformed_wcsp(text, message):
    with pytest.raises(ValueError, match=f"^<file>.*{message}"):
        read_wcsp(io.StringIO(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the number of factors, but the file ends after token 0"),
        (FG.replace("\n0 2\n", "\n0 0\n"), "line 5, token 4: expected different variables"),
        (FG.replace("\n2 3 ", "\n2 0 "), "line 6, token 6: expected a number of states, at least"),
        (FG.replace("1\n0\n2\n1\n", "1\n0\n3\n1\n"), "line 14, token 16: .* of an earlier factor"),
        (FG.replace("5 4.0", "6 4.0"), "line 10, token 12: .* from 0 to 5, got '6'"),
        (FG.replace("5 4.0", "3 4.0"), "line 10, token 12: expected an entry that was not given"),
        (FG.replace("5 4.0", "5 -4.0"), "line 10, token 13: expected a potential.* got '-4.0'"),
        (FG.replace("\n3\n0 0.5", "\n7\n0 0.5"), "expected "),
        (FG.replace("\n1 3\n", "\n1\n"), "1 entries of factor 1, an index and a value each, but"),
        (FG + "9", "line 17, token 20: expected the end of the file after the last factor"),
        (FG.replace("0 0.5", "0 half"), "line 8, token 9: expected a number, got 'half'"),
        ("1 9 0 1 2 3 4 5 6 7 8" + " 9" * 9 + " 0", "token 2: expected tables of at most"),
    ],
)
def test_malformed_libdai(text, message):
    with pytest.raises(ValueError, match=f"^<file>.*{message}"):
        read_libdai(io.StringIO(text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (CFN, "", "line 1: expected one group with a problem, variables and functions"),
        (CFN, CFN + "{}", "line 11: expected one group"),
        (
            "4]}\n  }\n}",
            "4]}\n  }\n",
            "line 11: expected what closes '{' of line 1, but the file e",
        ),
        (
            "4]}\n  }\n}",
            "4]}\n  }\n}}",
            "line 10: expected no bracket or brace that closes nothing",
        ),
        ('costs": [7, 3]', 'costs": [7, 3}', "line 5: expected what closes '\\['"),
        ('["off", "on"]', '["off", "on"}', "line 3: expected what closes '\\['"),
        ('"<100.00"', '"100"', 'line 2: expected mustbe, "<" or ">" and a number, got \'"100"'),
        ('"mustbe"', '"must"', "line 2: expected a problem with a name and mustbe"),
        ('"variables"', '"vars"', "line 3: expected the variables, a group, got"),
        ('"y": 2', '"y": 0', r"line 3: expected at least 1 value of y \(interval variables are"),
        ('"y": 2', '"y": -5', "line 3: expected at least 1 value of y"),
        ('"y": 2', '"y": [7, 1]', "line 3: .* do not begin as numbers do, not 7"),
        ('"y": 2', '"x": 2', "line 3: expected a variable's name that was not given before"),
        ('["off", "on"]', '["on", "on"]', "line 3: expected different names of the values of x"),
        (
            '"scope": ["x"]',
            '"scope": ["w"]',
            r"line 5: .* or from 0 to 2 \(function fx\), got '\"w",
        ),
        (
            '["x", 1]',
            '["x", 3]',
            r"line 6: expected a variable of the scope.*\(function fxy\), got",
        ),
        ('["x", 1]', '["x", 0]', r"line 6: expected different variables in the scope \(fu"),
        ("[7, 3]", "[7, 3, 4]", r"line 5: expected 2 costs, one a tuple, not 3 \(function fx\)"),
        ("[7, 3]", "[7, nan]", "line 5: expected 2 costs, one a tuple, got 'nan"),
        ("[7, 3]", "[7, 1e999]", "line 5: expected finite costs"),
        ("[7, 3]", "[7, 1-3]", "line 5: expected a number, got '1-3"),
        ("[7, 3]", '"fw"', "line 5: expected costs, or the name of another function"),
        ("[7, 3]", '"fx"', "line 5: expected costs, or the name of another function"),
        ("[7, 3]", '"fxy"', "line 5: expected a function with the same numbers of values"),
        ('"off", 1, 100, 1', '"no", 1, 100, 1', "line 6: expected a cost"),
        ('"off", 1, 100, 1', '"off", 2, 100, 1', "line 6: expected positions of values below"),
        ('"off", 1, 100, 1, 0', '"off", 1, 100, 0, 1', "line 6: expected each tuple once"),
        ('"off", 1, 100, 1', '"off", 1, 100', "line 6: expected tuples of 2 values and a cost"),
        ('"costs": [4]', '"type": "mst"', r"line 8: .* type .* that is read \(.*, got '\"mst"),
        ('"costs": [4]', '"type": "alldiff"', "line 8: expected params of alldiff, a group"),
        ('"costs": [4]', '"cost": [4]', "line 8: expected one of the fields scope, defaultcost"),
        (', "costs": [4]', "", r"line 8: expected the field costs \(function constant\), got"),
        ('"constant": {"scope": []', '"fx": {"scope": [0, 1]', "line 8: expected 4 costs"),
        (
            "[4]",
            '"fw"}, "fw": {"scope": [], "costs": [1]}, "fw": {"scope": [], "costs": [2]',
            "line 8: expected costs, or the name of another function that has them, the only",
        ),
    ],
)
def test_malformed_cfn(old, new, message):
    assert old in CFN
    with pytest.raises(ValueError, match=f"^<file>, {message}"):
        read_cfn(io.StringIO(CFN.replace(old, new)))


@pytest.mark.parametrize("read", [read_uai, read_wcsp, read_cfn, read_libdai])
def test_what_is_no_file(read, tmp_path):
    with pytest.raises(TypeError, match="path must be a path or an open file, got list"):
        read([1, 2])
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="noise"):
        read(tmp_path / "noise")


def test_what_cannot_be_written():
    far = FactorGraph([2, 2], [Table([0, 1], [[800.0, 0.0], [0.0, 0.0]])])
    with pytest.raises(ValueError, match=r"a score of 800 in the factor of the variables \[0, 1\]"):
        write_uai(far, io.StringIO())
    file = io.StringIO()
    write_uai(far, file, logarithms=True)
    assert read_uai(io.StringIO(file.getvalue()), logarithms=True).score([0, 0]) == 800
    with pytest.raises(ValueError, match="factor 0: a Or of 21 variables is too large for a table"):
        write_uai(FactorGraph([2] * 21, [Or(range(21))]), io.StringIO())


@given(st.sampled_from(["uai", "wcsp", "cfn", "fg"]), st.integers(0, 2**32 - 1))
def test_no_damage_goes_by_another_error(kind, seed):
    """Cut, doubled and changed tokens: a model, or an error that names the file."""
    text, read = {
        "uai": (UAI, read_uai),
        "wcsp": (WCSP, read_wcsp),
        "cfn": (CFN, read_cfn),
        "fg": (FG, read_libdai),
    }[kind]
    rng = np.random.default_rng(seed)
    tokens = re.split(r"(\s|[][{},:\"])", text)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(tokens)))
        change = rng.integers(4)
        if change == 0:
            tokens = tokens[:at]
        elif change == 1:
            del tokens[at]
        elif change == 2:
            tokens.insert(at, tokens[at])
        else:
            tokens[at] = str(rng.choice(["-1", "2", "99999", "1e30", "nan", "-inf", "x", "[", "}"]))
        tokens = tokens or [""]
    try:
        graph = read(io.StringIO("".join(tokens)))
    except ValueError as error:
        message = str(error)
    else:
        assert not np.isnan(graph.unary).any()
        message = "<file> is a model"
    assert message.startswith("<file>")


TOO_LARGE = [
    (read_uai, "MARKOV 1 2000000000 0", "line 1, token 3: expected variables of at most"),
    (read_uai, "MARKOV 3 3 2000000000 2 0", "line 1, token 4: .* states in all, got '2000000000'"),
    (read_wcsp, "n 1 2000000000 0 9\n2000000000", "line 2, token 6: expected variables of at most"),
    (
        read_wcsp,
        f"n 26 2 1 9\n{'2 ' * 26}\n26 {' '.join(map(str, range(26)))} 0 0",
        "line 3, token",
    ),
    (
        read_wcsp,
        f"n 23 2 5 9\n{'2 ' * 23}\n" + f"23 {' '.join(map(str, range(23)))} 0 0\n" * 5,
        "line 5, token 81: expected tables of at most",
    ),
    (read_wcsp, f"n 70 1 1 9\n{'1 ' * 70}\n70 {' '.join(map(str, range(70)))} 0 0", "31 variables"),
    (
        read_wcsp,
        f"n 5000 9 1 9 {'9 ' * 5000} 5000 {' '.join(map(str, range(5000)))} -1 alldiff 0 0",
        "expected a smaller alldiff: its table of 5000 variables",
    ),
    (read_wcsp, "n 1 2 1 9 2 1 0 -1 wregular 999999999 0 0 0", "expected a smaller wregular"),
    (
        read_wcsp,
        f"n 400 2 1 9 {'2 ' * 400} 400 {' '.join(map(str, range(400)))} -1 gcc 2000 "
        + " ".join(f"{k} 0 1" for k in range(2000))
        + " 0",
        "expected a smaller gcc: its table of 400 variables",
    ),
    (read_libdai, "1 1 0 2000000000 0", "token 4: expected variables of at most .* states in all"),
    (read_libdai, "1 1 2000000000 2 0", "token 3: expected a variable, from 0 to"),
    (read_libdai, "1 3 0 1 2 999 999 999 0", "token 2: expected tables of at most"),
    (
        read_cfn,
        '{"problem":{"name":"t","mustbe":"<10"},\n"variables":{"x":2000000000},"functions":{}}',
        "line 2: expected variables of at most .* values in all, got '2000000000}",
    ),
    (
        read_cfn,
        '{"problem":{"name":"t","mustbe":"<10"},"variables":{"x":9999,"y":9999},\n'
        '"functions":{"f":{"scope":["x","y"],"defaultcost":0,"costs":[]}}}',
        r"line 2: expected tables of at most .* tuples in all \(function f\)",
    ),
]


@pytest.mark.parametrize(("read", "text", "message"), TOO_LARGE)
def test_memory_is_in_proportion_to_the_file(read, text, message):
    options = [{}, {"return_names": True}] if read is read_cfn else [{}]
    for given_options in options:
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=f"^<file>.*{message}"):
                read(io.StringIO(text), **given_options)
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()


def test_names_of_numbered_values_are_made_where_they_are_asked_for():
    text = '{{p "<5"} {x 1000000} {}}'
    tracemalloc.start()
    try:
        assert read_cfn(io.StringIO(text)).n_states[0] == 10**6
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    assert read_cfn(io.StringIO(text), return_names=True)[1]["x"][-1] == "999999"


def chain(names, last):
    """Functions that each take the table of the next name, and the last one's costs."""
    words = [*(f'"{name}"' for name in names[1:]), last]
    functions = (
        f"{name}: {{scope: [x] costs: {word}}}" for name, word in zip(names, words, strict=True)
    )
    return io.StringIO("{{p '<9'} {x: 2} {\n".replace("'", '"') + "\n".join(functions) + "}}")


@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_chain_of_shared_functions(backwards):
    """Each function is followed once: 20000 walks to the end would be 2e8 steps."""
    names = [f"f{k}" for k in range(20_000)]
    file = chain(names, "[1 3]")
    if backwards:
        head, *functions = file.read().removesuffix("}}").split("\n")
        file = io.StringIO("\n".join([head, *functions[::-1]]) + "}}")
    graph = read_cfn(file)
    np.testing.assert_array_equal(graph.score([[0], [1]]), [-20_000, -60_000])


@pytest.mark.parametrize("last", ['"f0"', '"f1"', '"f2"'])
def test_a_cycle_of_shared_functions(last):
    with pytest.raises(ValueError, match=r"^<file>, line 4: expected costs, or the name of anoth"):
        read_cfn(chain(["f0", "f1", "f2"], last))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_damaged_compressed_files(pack, tmp_path):
    """A changed or missing byte anywhere behind the magic ones is noticed, with the file's name."""
    content = pack(UAI.encode())
    path = tmp_path / "model"
    header = 10 if pack is gzip.compress else 6  # gzip's header has no checksum
    for k in range(header, len(content)):
        for damaged in (content[:k], content[:k] + bytes([content[k] ^ 255]) + content[k + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .* file is damaged: "):
                read_uai(path)


@pytest.mark.parametrize("escape", ["\\q", "\\u12", "\\ud"])
def test_invalid_escapes(escape):
    with pytest.raises(ValueError, match=r"^<file>, line 3: expected a string with valid JSON es"):
        read_cfn(io.StringIO(f'\n\n{{"a{escape}": 1}}'))


@pytest.mark.parametrize("letter", "[{")
def test_deep_nesting(letter):
    message = "^<file>, line 101: expected at most 100 levels of brackets and braces, got "
    with pytest.raises(ValueError, match=message):
        read_cfn(io.StringIO(f"{letter}\n" * 1_500_000))
    with pytest.raises(ValueError, match=r"line 101: expected what closes .* of line 100, but th"):
        read_cfn(io.StringIO(f"{letter}\n" * 100))
