"""Feature templates of CRF++ and Wapiti."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from skstruct import SAGCRF, Chain
from skstruct.preprocessing import TemplateVectorizer
from skstruct.preprocessing.patterns import parse, python_regex
from tests.helpers.token_cases import TOKENS


def _mark(outside, sign, step):
    if outside == "mark":
        return f"_B{sign}{step}"
    return f"_x{sign}{step}" if step <= 4 else f"_x{sign}#"


def _expand(line, sentence, t, outside="mark"):
    """One template at one token, by string replacement: the reference."""
    n, beyond = len(sentence), []

    def replace(found):
        command, at, offset, column, regex = found.groups()
        target = t + int(offset)
        if at:
            target = int(offset) + (n if int(offset) < 0 else -1)
        if 0 <= target < n:
            string = sentence[target][int(column)]
        else:
            beyond.append(target)
            sign, step = ("-", -target) if target < 0 else ("+", target - n + 1)
            string = _mark(outside, sign, step)
            if outside == "mark":
                return string
        if command.lower() != "x":
            match = re.search(python_regex(regex), string, re.DOTALL)
            if command.lower() == "t":
                string = "false" if match is None else "true"
            else:
                string = "" if match is None else match.group()
        return string.lower() if command.isupper() else string

    pattern = r'%([xtmXTM])\[(@?)([+-]?\d+),(\d+)(?:,"((?:[^"\\]|\\.)*)")?\]'
    expanded = re.sub(pattern, replace, line)
    return None if beyond and outside == "drop" else expanded


def _features(vectorizer, X):
    """Feature names of every token of every sequence."""
    names = vectorizer.get_feature_names_out()
    return [[set(names[row.indices]) for row in sample] for sample in vectorizer.transform(X)]


LINES = [
    "U00:%x[0,0]",
    "U01:%x[-1,0]/%x[0,1]",
    "U02:%x[-2,1]|%x[0,0]|%x[1,1]",
    'U03:%t[0,0,"^\\u"]',
    'U04:%m[0,0,".?.?$"]%X[0,0]',
    'U05:%T[1,0,"\\d"]x%M[0,0,"^\\a"]',
    "U:%x[0,1]",
    "U:%x[1,1]",
    "U06:%x[+1,0]/%x[+5,0]/%x[-5,0]",
    "U07:%x[@1,0]/%x[@-1,1]",
    "U08:%X[@2,0]/%x[@-2,0]/%x[@0,0]",
    'U09:%t[-1,0,"\\p"]/%m[+1,0,".$"]',
    "U10",
]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "B", "b2", "Cc", "x-y"]), st.sampled_from("NVP")),
            min_size=1,
            max_size=5,
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.sampled_from(LINES), min_size=1, max_size=5, unique=True),
    st.sampled_from(["mark", "wapiti", "drop"]),
)
def test_templates_expand_as_strings_do(X, lines, outside):
    vectorizer = TemplateVectorizer("\n".join(lines), outside=outside)
    vectorizer.fit(X)
    expected = [
        [{_expand(line, s, t, outside) for line in lines} - {None} for t in range(len(s))]
        for s in X
    ]
    assert _features(vectorizer, X) == expected
    everything = set().union(*(token for sequence in expected for token in sequence))
    assert set(vectorizer.get_feature_names_out()) == everything


def test_five_macros_over_a_large_vocabulary_do_not_overflow():
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(30_000)]
    X = [[(w,) for w in rng.permutation(words)[:15_000]], [(w,) for w in words]]
    line = "U0:" + "/".join(f"%x[{o},0]" for o in (-2, -1, 0, 1, 2))
    vectorizer = TemplateVectorizer(line)
    R = vectorizer.fit_transform(X)
    assert R.flat.shape == (45_000, 45_000)
    assert (R.flat.sum(axis=1) == 1).all()
    assert (vectorizer.transform(X).flat != R.flat).nnz == 0
    names = vectorizer.get_feature_names_out()
    assert names[R[1].indices[7]] == "U0:w5/w6/w7/w8/w9"


def test_unseen_strings_and_combinations_are_ignored():
    vectorizer = TemplateVectorizer(["U0:%x[0,0]", "U1:%x[0,0]/%x[0,1]"]).fit(TOKENS)
    got = _features(vectorizer, [[("He", "VBZ"), ("zebra", "PRP")]])
    assert got == [[{"U0:He"}, set()]]


def test_template_files_round_trip(tmp_path):
    text = "# words\nU00:%x[0,0]\n\nU01:%x[-1,0]/%x[0,0]\nB\n"
    (tmp_path / "template").write_text(text)
    vectorizer = TemplateVectorizer(tmp_path / "template").fit(TOKENS)
    vectorizer.write_templates(tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\nB\n"
    again = TemplateVectorizer(Path(tmp_path / "copy")).fit(TOKENS)
    assert (again.get_feature_names_out() == vectorizer.get_feature_names_out()).all()


def test_bigram_templates_give_edge_features():
    vectorizer = TemplateVectorizer("U0:%x[0,0]\nB1:%x[0,1]")
    pairs = vectorizer.fit_transform(TOKENS)
    assert [edges.shape for _, edges in pairs] == [(2, 5), (0, 5), (1, 5)]
    assert pairs[0][1].toarray()[:, 0].tolist() == [1.0, 1.0]
    y = [[p for _, p in s] for s in TOKENS]
    crf = SAGCRF(Chain(edge_features=True), tol=1e-2).fit(pairs, y)
    assert crf.predict(vectorizer.transform(TOKENS))[0].shape == (3,)


def test_min_count_drops_rare_features():
    vectorizer = TemplateVectorizer("U0:%x[0,0]", min_count=2).fit(TOKENS)
    assert vectorizer.get_feature_names_out().tolist() == ["U0:runs"]


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ("U0:%x[0,0]\nX1:%x[0,0]", "line 2: a template begins with U, B or"),
        ("U0:%x[0,0]\n\nU1:%x[0]", "line 3: malformed macro"),
        ("U0:%q[0,0]", "line 1: malformed macro"),
        ("U0:%t[0,0]", "line 1: %t needs a regular expression"),
        ('U0:%x[0,0,"a"]', "line 1: %x takes no regular expression"),
        ('U0:%m[0,0,"**"]', "line 1: bad regular expression"),
        ('U0:%m[0,0,"a*?"]', "line 1: bad regular expression"),
        ("# nothing", "there is no template"),
        ("U0:%x[0,7]", "column 7 is out of range, tokens have 2"),
        ("template.txt", "to read a file pass Path('template.txt')"),
        ("Utemplate.txt", "to read a file pass Path('Utemplate.txt')"),
        ("/some/where/template", "to read a file pass Path('/some/where/template')"),
        ([(0, 0), (0,)], "template 1: a pair"),
    ],
)
def test_bad_templates(templates, message):
    with pytest.raises(ValueError, match=re.escape(message).replace(r"\ ", " ")):
        TemplateVectorizer(templates).fit(TOKENS)


def test_bad_tokens():
    vectorizer = TemplateVectorizer("U0:%x[0,0]").fit(TOKENS)
    with pytest.raises(ValueError, match="sequence 1, token 0 has 1 columns"):
        vectorizer.fit([TOKENS[0], [("He",)]])
    with pytest.raises(ValueError, match="sequence 0, token 1 is 'ab'"):
        vectorizer.fit([[("a", "b"), "ab"]])
    with pytest.raises(ValueError, match="X has 1 columns per token, but fit saw 2"):
        vectorizer.transform([[("He",)]])
    frame = pd.DataFrame({"s": [1, 2, 1], "w": list("abc")})
    with pytest.raises(ValueError, match="set sequence_id"):
        vectorizer.fit(frame)
    with pytest.raises(ValueError, match="not consecutive"):
        TemplateVectorizer("U0:%x[0,0]", sequence_id="s").fit(frame)
    with pytest.raises(ValueError, match="no column 'sentence'"):
        TemplateVectorizer("U0:%x[0,0]", sequence_id="sentence").fit(frame)
    for name, value in (("outside", "wrap"), ("min_count", 0)):
        with pytest.raises(ValueError, match=name):
            TemplateVectorizer("U0:%x[0,0]", **{name: value}).fit(TOKENS)


def test_template_files_of_wapiti():
    text = (
        "\ufeff# words\nU1:%x[+1,0] # the next\n  # only a comment, 100 %\n"
        'U2:%t[0,0,"^ #"]\t#end\nU3:a#%x[0,0]\nb  #edges\n'
    )
    assert [t.line for t in parse(text)] == [
        "U1:%x[+1,0]",
        'U2:%t[0,0,"^ #"]',
        "U3:a#%x[0,0]",
        "b",
    ]


def test_files_with_a_byte_order_mark(tmp_path):
    (tmp_path / "template").write_text("U0:%x[0,0]\n", encoding="utf-8-sig")
    assert TemplateVectorizer.read_templates(tmp_path / "template") == "U0:%x[0,0]\n"
    assert TemplateVectorizer(tmp_path / "template").fit(TOKENS).n_features_out_ == 5


def test_marks_of_wapiti():
    X = [[("a",), ("b",)]]
    lines = ['U1:%t[-1,0,"\\p"]', "U2:%x[-5,0]", 'U3:%m[2,0,"..$"]', "U4:%x[4,0]", "U5:%x[5,0]"]
    names = TemplateVectorizer("\n".join(lines), outside="wapiti")
    assert _features(names.fit(X), X)[0][0] == {"U1:true", "U2:_x-#", "U3:+1", "U4:_x+3", "U5:_x+4"}
    assert "U5:_x+#" in _features(names, X)[0][1]
    plain = TemplateVectorizer("\n".join(lines)).fit(X)
    assert _features(plain, X)[0][0] == {"U1:_B-1", "U2:_B-5", "U3:_B+1", "U4:_B+3", "U5:_B+4"}


@pytest.mark.parametrize("regex", ["[A-Z]+", "(a|b)", "x|y", "a{2}", "a+", "^a+$"])
def test_regular_expressions_that_wapiti_reads_literally_warn(regex):
    with pytest.warns(UserWarning, match="line 1: in .* stands for these very characters"):
        parse(f'U0:%m[0,0,"{regex}"]')


@pytest.mark.parametrize(
    "regex", [r"\[A-Z\]", r"^\u\l*$", r"\+", "+", "^+", "-", r"\(a\)", "[", "|", ".?.?$"]
)
def test_other_regular_expressions_do_not_warn(regex):
    assert parse(f'U0:%m[0,0,"{regex}"]')[0].macros[0].regex == regex


def test_templates_without_macros():
    vectorizer = TemplateVectorizer("U00\nU01:%x[0,0]\nB")
    R = vectorizer.fit_transform(TOKENS)
    names = vectorizer.get_feature_names_out().tolist()
    assert names[0] == "U00"
    assert (R.flat[:, [0]].toarray() == 1).all()
    bias = TemplateVectorizer("U00").fit_transform(TOKENS)
    assert bias.flat.toarray().tolist() == [[1.0]] * 6
    edges = TemplateVectorizer("B:%x[0,1]")
    pairs = edges.fit_transform(TOKENS)
    assert [node.shape for node, _ in pairs] == [(3, 0), (1, 0), (2, 0)]
    y = [[p for _, p in s] for s in TOKENS]
    crf = make_pipeline(edges, SAGCRF(Chain(edge_features=True), tol=1e-2)).fit(TOKENS, y)
    assert len(crf.predict(TOKENS)[0]) == 3


def test_later_parameters_change_no_fitted_transformer():
    vectorizer = TemplateVectorizer("U:%x[1,0]").fit([["a"]])
    vectorizer.set_params(templates="U:%x[0,0]", outside="drop")
    assert vectorizer.transform([["a"]]).flat.toarray().tolist() == [[1.0]]
    assert vectorizer.unknown_share([["a"]]) == 0.0


def test_names_of_edge_features():
    vectorizer = TemplateVectorizer("U0:%x[0,0]\nB1:%x[-1,1]/%x[0,1]\nB2")
    assert not hasattr(vectorizer, "get_edge_feature_names_out")
    pairs = vectorizer.fit_transform(TOKENS)
    names = vectorizer.get_edge_feature_names_out()
    assert names[0] == "B"
    first = pairs[0][1].toarray()
    assert set(names[first[0] > 0]) == {"B", "B1:PRP/VBZ"}
    assert set(names[first[1] > 0]) == {"B", "B1:VBZ/NN"}
    assert not hasattr(
        TemplateVectorizer("U0:%x[0,0]\nB").fit(TOKENS), "get_edge_feature_names_out"
    )


@pytest.mark.parametrize(
    ("templates", "match"),
    [
        ("U0:%x[99999999999999999999,0]", "line 1: the offset or column of .* is out of range"),
        ("U0:%x[0,99999999999999999999]", "line 1: the offset or column of .* is out of range"),
        (b"U0:%x[0,0]", "templates must be a str, a Path or a list, got b'U0"),
    ],
)
def test_templates_that_cannot_be(templates, match):
    with pytest.raises((ValueError, TypeError), match=match):
        TemplateVectorizer(templates).fit([["a"]])


@pytest.mark.parametrize(
    ("token", "match"),
    [
        (b"b", "sequence 0, token 1 is b'b'; a str, or a tuple"),
        (2, "sequence 0, token 1 is 2; a str, or a tuple"),
        (None, "sequence 0, token 1 is None; a str, or a tuple"),
    ],
)
def test_tokens_that_are_no_words(token, match):
    with pytest.raises(ValueError, match=match):
        TemplateVectorizer("U0:%x[0,0]").fit([["a", token]])
    masked = np.ma.masked_array(["a", "b"], [0, 1])
    with pytest.raises(ValueError, match="sequence 1 has masked entries"):
        TemplateVectorizer("U0:%x[0,0]").fit([["a"], masked])


@pytest.mark.parametrize(
    ("token", "match"),
    [
        ((["a"], "b"), "token 0: column 0 is of type list, not str"),
        ((b"a", "b"), "token 0: column 0 is of type bytes, not str"),
        ({"a", "b"}, "token 0 is {.*a str, or a tuple of columns, was expected"),
    ],
)
def test_tokens_that_are_none(token, match):
    with pytest.raises(ValueError, match=match):
        TemplateVectorizer("U:%x[0,0]").fit([[token]])


def _refused(text, string):
    vectorizer = TemplateVectorizer(text).fit([["a", "b"]])
    with pytest.raises(ValueError, match=r"could keep the pattern .* busy"):
        vectorizer.transform([[string]])
    with pytest.raises(ValueError, match=r"could keep the pattern .* busy"):
        TemplateVectorizer(text).fit([[string]])
    return vectorizer


@pytest.mark.parametrize(
    ("regex", "string"),
    [("a*a*a*a*b", "a" * 200), ("a*" * 15 + "b", "a" * 30), ("a?" * 60 + "b" * 61, "a" * 60)],
)
def test_patterns_that_would_run_forever_are_refused(regex, string):
    vectorizer = _refused(f'U:%m[0,0,"{regex}"]', string)
    assert vectorizer.transform([["aab"]]).flat.shape[0] == 1


def test_patterns_that_end_in_time_take_long_strings():
    """Prefixes, suffixes and shapes, as templates of Wapiti have them, and addresses of pages."""
    url = "http://" + 40 * "long-and-" + "."
    for regex in ("^.?.?.?.?", ".?.?.?.?$", r"\\u\\l*", "-.*-", r"^\\d*$", r"\\p"):
        TemplateVectorizer(f'U:%m[0,0,"{regex}"]').fit([[url, "word"]])


def test_regular_expressions_have_a_limit():
    with pytest.raises(ValueError, match="line 1: a regular expression of 1001 characters"):
        TemplateVectorizer('U:%m[0,0,"' + "[" * 1001 + '"]').fit([["a"]])
