"""One door for text files: marks, line ends, compression, and what is no text."""

import ast
import bz2
import codecs
import gzip
import io
import lzma
import warnings
from pathlib import Path

import numpy as np
import pytest

from skstruct.core.text_files import lines_of, read_bytes, read_text, split_lines
from skstruct.datasets import (
    iter_conll,
    load_conll,
    load_ocr_letters,
    load_parallel_text,
    load_word_alignment,
)
from skstruct.map_inference import read_cfn, read_libdai, read_uai, read_wcsp
from skstruct.preprocessing import AlignmentFeatures, TemplateVectorizer

PACKERS = [bytes, gzip.compress, bz2.compress, lzma.compress]
CODED = [
    str.encode,
    lambda text: text.encode("utf-8-sig"),
    lambda text: text.encode("utf-16"),
    lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    lambda text: text.encode("utf-32"),
]
ENDS = ["\n", "\r\n", "\r", "\r\r\n"]


def _variants(text):
    """Bytes of the same text, as programs write it."""
    for code in CODED:
        for end in ENDS:
            for last in ("", end):
                yield code(text.replace("\n", end) + last)


@pytest.mark.parametrize("pack", PACKERS)
def test_lines_are_the_same_however_a_text_was_written(pack, tmp_path):
    text = "a\u2028b\u0085c\x0cd\x1ce\u00a0é\n\n x \nlast"
    for content in _variants(text):
        path = tmp_path / "file"
        path.write_bytes(pack(content))
        assert [*lines_of(path)] == text.split("\n")
        assert [*lines_of(io.BytesIO(pack(content)))] == text.split("\n")
        assert read_text(path) == text + "\n"
        name, found = read_bytes(path)
        assert (name, found.decode().removesuffix("\n")) == (str(path), text)
        with open(path, "rb") as file:
            assert read_bytes(file)[1] == found


def test_lines_of_a_text():
    assert split_lines("a\r\rb\r\n\nc\u2028d\n") == ["a", "", "b", "", "c\u2028d"]
    assert [split_lines(text) for text in ("", "\n")] == [[], [""]]


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (b"a\nb\xff\n", "utf-8", "file, line 2: not text in utf-8"),
        (b"a\rb\xff", "utf-8", "file, line 2: not text in utf-8"),
        ("é".encode(), "ascii", "file, line 1: not text in ascii"),
        ("a\nb".encode("utf-16-le"), "utf-8", "file, line 1: it has a NUL byte"),
        (b"a\nb\0c", "latin-1", "file, line 2: it has a NUL byte"),
        (b"a", "klingon", "encoding must be a name such as 'utf-8', got 'klingon'"),
        (b"a", "base64", "encoding must be a name"),
        (b"a", None, "encoding must be a name"),
        (gzip.compress(b"abc" * 99, mtime=0)[:-9], "utf-8", "file: the compressed file is damaged"),
        (bz2.compress(b"abc" * 99)[:-9], "utf-8", "file: the compressed file is damaged"),
        (lzma.compress(b"abc" * 99)[:-9], "utf-8", "file: the compressed file is damaged"),
        ("a".encode("utf-16-le"), "utf-16", "file, line 1: not text in utf-16"),
        (bytes(30), "utf-8", "it has a NUL byte"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(content, encoding, message, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_conll(tmp_path / "file", encoding=encoding)


def test_a_mark_decides_the_encoding(tmp_path):
    path = tmp_path / "file"
    for mark in ("utf-8-sig", "utf-16"):
        path.write_bytes("é X\n".encode(mark))
        for encoding in ("utf-8", "latin-1", "utf-8-sig"):
            assert load_conll(path, encoding=encoding).column_0[0].tolist() == ["é"]
    path.write_bytes("é X\n\n\né Y".encode("utf-16-be"))
    assert len(load_conll(path, encoding="utf-16-be").column_0) == 2


@pytest.mark.parametrize("pack", PACKERS)
def test_column_files(pack, tmp_path):
    text = "-DOCSTART- -X-\n\nHe A\n1\u00a0000 B \t\n\t\n \nShe A"
    for content in _variants(text):
        path = tmp_path / "file"
        path.write_bytes(pack(content))
        assert [x.tolist() for x in load_conll(path).column_0] == [["He", "1\u00a0000"], ["She"]]
        assert [*iter_conll(path, ["a", "b"], "b")] == [["A", "B"], ["A"]]


def test_separators(tmp_path):
    path = tmp_path / "file"
    path.write_text("New York\tB X\n\t\nhe\t\n,\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 4: 1 columns, but 2 were expected: ','"):
        load_conll(path, separator="\t")
    for text, mark in (("New York\tB\nhe\tO\n", "\t"), ("a;B\n;;O\nc d;O\n", ";")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=f"; if {mark!r} separates".replace("\\", "\\\\")):
            load_conll(path)
    path.write_text("New York,B X\n,\nhe,\n", encoding="utf-8")
    found = load_conll(path, ["word", "tag"], separator=",")
    assert [x.tolist() for x in found.word] == [["New York"], ["he"]]
    assert [x.tolist() for x in found.tag] == [["B X"], [""]]
    for separator in ("", 3, b","):
        with pytest.raises(ValueError, match="separator must be"):
            load_conll(path, separator=separator)


def test_a_space_at_the_end_of_a_label_warns(tmp_path):
    path = tmp_path / "file"
    path.write_text("He A\nruns B\u00a0\n\nShe A\u00a0\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"line 2: 'B\\xa0' ends with a space") as caught:
        load_conll(path)
    assert len(caught) == 1
    path.write_text("He A\n\n\ufeffShe A\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"line 3: '\\ufeffShe' begins with a byte order mark"):
        load_conll(path)
    path.write_text("He\u00a0 A\n\u3000 É\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_conll(path).column_0[0].tolist() == ["He\u00a0", "\u3000"]


@pytest.mark.parametrize("pack", PACKERS)
def test_parallel_text_and_links(pack, tmp_path):
    text, gold = tmp_path / "text", tmp_path / "gold"
    for content, links in zip(
        _variants("das Haus ||| the house\nja ||| yes"), _variants("1-1 2p2\n1-1"), strict=True
    ):
        text.write_bytes(pack(content))
        gold.write_bytes(pack(links))
        assert load_parallel_text(text).source == [["das", "Haus"], ["ja"]]
        data = load_word_alignment(text, gold)
        assert [x.tolist() for x in data.sure] == [[[0, 0]], [[0, 0]]]


@pytest.mark.parametrize("pack", PACKERS)
def test_templates(pack, tmp_path):
    text, X = "# é\nU0:%x[0,0] # words\n\nU1:%x[0,0]/\u2028", [["He"]]
    for content in _variants(text):
        path = tmp_path / "file"
        path.write_bytes(pack(content))
        names = TemplateVectorizer(path).fit(X).get_feature_names_out().tolist()
        assert names == ["U0:He", "U1:He/\u2028"]
    for end in ENDS:
        names = TemplateVectorizer(text.replace("\n", end)).fit(X).get_feature_names_out().tolist()
        assert names == ["U0:He", "U1:He/\u2028"]
    (tmp_path / "file").write_text("U0:%x[0,0]\nX1\n")
    with pytest.raises(ValueError, match="file, line 2: a template begins with"):
        TemplateVectorizer(tmp_path / "file").fit(X)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match="file, there is no template"):
        TemplateVectorizer(tmp_path / "file").fit(X)


@pytest.mark.parametrize("pack", PACKERS)
def test_factor_graphs(pack, tmp_path):
    texts = {
        read_uai: "MARKOV\n1\n2\n1\n1 0\n2\n1.0 3.0",
        read_libdai: "1\n# one\n1\n0\n2\n2\n0 1.0\n1 3.0",
        read_wcsp: "name 1 2 1 10\n2\n1 0 0 1\n1 3",
        read_cfn: '{"problem": {"name": "p", "mustbe": "<10"},\n"variables": {"x": 2},\n'
        '"functions": {"f": {"scope": ["x"],\n"costs": [0, 3]}}}',
    }
    path = tmp_path / "file"
    for read, text in texts.items():
        path.write_text(text)
        expected = read(path).score([[0], [1]])
        assert not np.isnan(expected).any()
        for content in _variants(text):
            path.write_bytes(pack(content))
            np.testing.assert_array_equal(read(path).score([[0], [1]]), expected)
            np.testing.assert_array_equal(
                read(io.BytesIO(pack(content))).score([[0], [1]]), expected
            )


def test_no_reader_splits_texts_by_itself():
    import skstruct

    package = Path(skstruct.__file__).parent
    # The second reads /proc, the third knows errors of archives.
    allowed = {"core/text_files.py", "core/memory.py", "data/store.py"}
    found = set()
    for file in package.rglob("*.py"):
        names = {
            node.attr if isinstance(node, ast.Attribute) else getattr(node, "name", "")
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        }
        if names & {"splitlines", "gzip", "bz2", "lzma"}:
            found.add(file.relative_to(package).as_posix())
    assert found <= allowed


@pytest.mark.parametrize("pack", PACKERS)
def test_letters_of_words(pack, tmp_path):
    pixels = "\t".join("01" * 64)
    text = f"1\ta\t2\t1\t1\t0\t{pixels}\n2\tb\t-1\t1\t2\t0\t{pixels}\n"
    for content in _variants(text):
        (tmp_path / "letter.data").write_bytes(pack(content))
        assert load_ocr_letters(tmp_path / "letter.data").y[0].tolist() == ["a", "b"]
    for old, new in (("b", "bc"), ("b", "é"), ("-1", "x"), ("1\n", "2\n"), ("1\n", "300\n")):
        (tmp_path / "letter.data").write_text(text[::-1].replace(old[::-1], new[::-1], 1)[::-1])
        with pytest.raises(ValueError, match=r"letter.data, line 2: (expected 134|not text)"):
            load_ocr_letters(tmp_path / "letter.data")


def test_names_of_columns(tmp_path):
    (tmp_path / "file").write_text("a b\n")
    for read in (load_conll, lambda path, columns: [*iter_conll(path, columns, "w")]):
        with pytest.raises(TypeError, match="columns must be a list of names, got 'wt'"):
            read(tmp_path / "file", "wt")
        with pytest.raises(ValueError, match="columns has the name 'w' twice"):
            read(tmp_path / "file", ["w", "w"])


def test_spaces_within_words_of_parallel_text():
    pairs = [("1\u00a0000 x\r\n", "1\u00a0000 y ")]
    split = [(["1\u00a0000", "x"], ["1\u00a0000", "y"])]
    features, expected = (AlignmentFeatures().fit_transform(X)[0] for X in (pairs, split))
    np.testing.assert_array_equal(features, expected)
