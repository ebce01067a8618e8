"""Small worked examples of the internals of preprocessing."""

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skstruct.preprocessing import TemplateVectorizer
from skstruct.preprocessing.columns import read_columns, sequence_offsets
from skstruct.preprocessing.patterns import compile_regex, from_tuples, parse, parse_line
from skstruct.preprocessing.ragged_transformer import output_names
from skstruct.preprocessing.sequences import TokenReader
from skstruct.preprocessing.template import combine


def test_columns_read_columns():
    (values,) = read_columns([["He", "runs"], ["He"]], None, None).values
    assert (values[0], values[1].tolist()) == (["He", "runs"], [0, 1, 0])


def test_frames_sequence_offsets():
    assert repr(sequence_offsets(["a", "a", "b"])) == "array([0, 2, 3])"


def test_names_output_names():
    vectorizer = make_pipeline(FunctionTransformer(), TemplateVectorizer("U:%x[0,0]"))
    assert (output_names(vectorizer.fit([["He", "runs"]])).tolist()) == ["U:He", "U:runs"]


def test_patterns_compile_regex():
    assert (compile_regex(r"^\u\l*$").search("Paris").group()) == "Paris"


def test_patterns_parse_line():
    assert (parse_line("U05:%x[-1,0]/%x[0,0]", "line 1").texts) == ("U05:", "/", "")


def test_patterns_parse():
    assert ([template.kinds for template in parse("# words\nU00:%x[0,0]\n\nB\n")]) == ["U", "B"]


def test_patterns_from_tuples():
    assert ([template.line for template in from_tuples([(0, 0), ((-1, 0), (0, 0)), "B"])]) == [
        "U0:%x[0,0]",
        "U1:%x[-1,0]/%x[0,0]",
        "B",
    ]


def test_template_codes_combine():
    assert (
        repr(combine([np.array([1, 2]), np.array([0, -1])], 2, 10, [None, None], True))
        == "array([10, -1])"
    )


def test_tokens_tokenreader():
    lengths = []
    reader = TokenReader("=", {}, False)
    assert (
        [list(token) for token in reader.read([[{"w": "He", "v": [0.5, 2]}, ["t"]]], lengths)]
    ) == [[("w=He", 1.0), ("v[0]", 0.5), ("v[1]", 2.0)], [("t", 1.0)]]
