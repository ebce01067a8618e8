"""Word lattices: arcs of strings, training, odd strings, files of MeCab, and MeCab itself."""

import csv
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skstruct import BCFWSSVM, SAGCRF, WordLattice
from skstruct.data.dictionary import Dictionary, Lookup
from skstruct.estimators.persistence import TRUSTED
from skstruct.inspection import coef_frame, explain, transition_frame
from skstruct.testing import check_structure

WORDS = ["a", "cat", "cats", "the", "he", "東京", "京都", "都"]
X = ["thecat", "thecats", "acat", "a東京", "東京都12"]
Y = [["the", "cat"], ["the", "cats"], ["a", "cat"], ["a", "東京"], ["東京", "都", "12"]]

CHAR = """DEFAULT 0 1 0  # others
SPACE 0 1 0
HAN 0 0 2
KANA 1 1 2
LONG 1 1 0
NUM 1 1 0

0x0020 SPACE
0x0030..0x0039 NUM
0x4E00..0x9FFF HAN
0x4E00 NUM HAN   # one
0x3041..0x309F KANA
0x30A1..0x30FF LONG
0x30FC LONG KANA
"""
UNKNOWN = """DEFAULT,0,0,0,symbol,other
SPACE,0,0,0,symbol,space
HAN,0,0,0,noun,proper
HAN,0,0,0,noun,common
KANA,0,0,0,noun,common
LONG,0,0,0,noun,common
NUM,0,0,0,noun,number
"""
SEED = """東京,0,0,0,noun,proper
京都,0,0,0,noun,proper
東,0,0,0,noun,common
都,0,0,0,suffix,place
に,0,0,0,particle,case
は,0,0,0,particle,topic
いる,0,0,0,verb,*
いる,0,0,0,verb,need
",",0,0,0,symbol,comma
"""
SENTENCES = [
    ["東京", "都", "に", ("いる", "verb", "need")],
    ["京都", "は", "東", "に", "いる"],
    ["東", ",", "京都", "に", "カレー"],
    ["東京", "は", "一三", "に", ("いる", "verb")],
    ["ねこ", "は", "東京", "都", "に", "12"],
]


@pytest.fixture(name="files")
def _files(tmp_path):
    """Files of MeCab."""
    for name, text in (("seed.csv", SEED), ("char.def", CHAR), ("unk.def", UNKNOWN)):
        (tmp_path / name).write_text(text, "utf-8")
    return [tmp_path / name for name in ("seed.csv", "char.def", "unk.def")]


def strings_of(sentences):
    return ["".join(w if isinstance(w, str) else w[0] for w in words) for words in sentences]


def test_words_of_a_list_and_unknown_ones():
    lookup = Lookup(Dictionary.of_words(["ab", "b", "abc"], 2), 1)
    found = [(b, e, q) for b, e, q in lookup.words("abc1")]
    known = [(b, e) for b, e, q in found if q < lookup.n_words]
    assert known == [(0, 2), (0, 3), (1, 2)]
    # "abc" is a run and "ab" a beginning, but both are words of the dictionary.
    unknown = [(b, e) for b, e, q in found if q >= lookup.n_words]
    assert unknown == [(0, 1), (1, 3), (2, 3), (2, 4), (3, 4)]
    kinds = [lookup.kinds(c)[0] for c in "東𠀋あアー9٣яa!🙂"]
    han, kana = ["HAN"] * 2, ["HIRAGANA", "KATAKANA", "KATAKANA"]
    assert kinds == [*han, *kana, "DIGIT", "DIGIT", "LETTER", "LETTER", "OTHER", "OTHER"]


@pytest.mark.filterwarnings("ignore:y. ")
def test_every_operation_by_enumeration(files):
    few = WordLattice(["a", "ab", "b"], longest_unknown=1)
    check_structure(few, ["ab", "aba", "b"], [["ab"], ["a", "ba"], ["b"]])
    sentences = [["東京", "に"], ["いる"], ["東", "都"]]
    mecab = WordLattice.from_mecab(*files)
    check_structure(mecab, strings_of(sentences), sentences)


def test_predictions_are_words():
    crf = SAGCRF(WordLattice(WORDS), C=10.0, random_state=0).fit(X, Y)
    assert crf.predict(X).tolist() == Y
    assert crf.score(X, Y) == 1.0
    assert crf.predict(["acats", "thedog"]).tolist() == [["a", "cats"], ["the", "dog"]]
    labellings, scores = crf.predict_top_k(["acats"], 5)
    assert len({tuple(words) for words in labellings[0]}) == 5
    assert np.all(np.diff(scores[0]) <= 0)
    table = explain(crf, "acats", labellings[0][1])
    assert table["contribution"].sum() == pytest.approx(scores[0][1])
    assert "word=cats" in coef_frame(crf).index
    assert transition_frame(crf).loc["LETTER 1", "LETTER 4"] == crf.pairwise_coef_[12, 15]
    drawn = crf.sample(["acats"], 5, random_state=0)[0]
    assert all("".join(words) == "acats" for words in drawn)


def test_the_f1_counts_words_that_no_arc_has():
    crf = SAGCRF(WordLattice(WORDS, longest_unknown=1), random_state=0).fit(X[:3], Y[:3])
    assert crf.predict(["acat"]).tolist() == [["a", "cat"]]
    assert crf.score(["acat"], [["a", "cat"]]) == 1.0
    assert crf.score(["acat"], [["ac", "at"]]) == 0.0
    assert crf.score(["acat", "thecat"], [["ac", "at"], ["the", "cat"]]) == 0.5
    likelihoods = crf.predict_log_likelihood(["acat"] * 2, [["a", "cat"], ["ac", "at"]])
    assert likelihoods[0] > likelihoods[1] == -np.inf


def test_true_words_that_lattices_lack_are_warned_of():
    with pytest.warns(UserWarning, match=r"y: 1 of 3 words .* strings: 'aa' \(sample 0\)\. They"):
        crf = SAGCRF(WordLattice(["a"], longest_unknown=1)).fit(["aac", "a"], [["aa", "c"], ["a"]])
    assert crf.predict(["aac"]).tolist() != [["aa", "c"]]
    words = [["b"], *([word, "a"] for word in ("xx", "yy", "zz", "uu"))]
    with pytest.warns(
        UserWarning, match=r"y: 4 of 9 .*: 'xx' \(sample 1\), .*'zz' \(.*\) and 1 more\. T"
    ):
        SAGCRF(WordLattice(["a"], longest_unknown=1)).fit(["".join(own) for own in words], words)


def test_marginals_belong_to_words(files):
    crf = _fitted()
    words, [p] = crf.graph_.words("thecats"), crf.predict_marginals(["thecats"])
    assert len(words) == len(p)
    assert all("thecats"[begin:end] == word for begin, end, word in words)
    best = max(zip(p, words, strict=True))[1][2]
    assert best in crf.predict(["thecats"])[0]
    by_place = np.zeros(7)  # each character is in one word
    for (begin, end, _), value in zip(words, p, strict=True):
        by_place[begin:end] += value
    assert by_place == pytest.approx(1.0)
    mecab = WordLattice.from_mecab(*files)
    assert mecab.words("いる都")[:2] == [
        (0, 2, "いる", "verb", "*"),
        (0, 2, "いる", "verb", "need"),
    ]
    assert mecab.words("い")[0] == (0, 1, "い", "noun", "common")


@given(texts=st.lists(st.text(max_size=7), max_size=3))
@settings(max_examples=30)
def test_odd_strings(texts):
    crf = _fitted()
    for text, words, p in zip(texts, crf.predict(texts), crf.predict_marginals(texts), strict=True):
        assert "".join(words) == text
        assert all(words)
        assert np.isfinite(p).all()


@cache
def _fitted():
    return SAGCRF(WordLattice(WORDS), random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    "text", ["", "x", "🙂", "𠀋𠀋", "٣٣٣", "\ud800", " ", "東" * 60, "e\u0301"]
)
def test_strings_of_unknown_words(text, files):
    sentences = strings_of(SENTENCES)
    mecab = SAGCRF(WordLattice.from_mecab(*files), random_state=0).fit(sentences, SENTENCES)
    for crf in (_fitted(), mecab):
        assert "".join(crf.predict([text])[0]) == text


@pytest.mark.parametrize(
    ("texts", "words", "dictionary", "message"),
    [
        (["ab", 3], [["ab"], ["c"]], WORDS, "X: sample 1 must be a string, got 3"),
        (["ab"], [["ab"], ["c"]], WORDS, "X has 1 samples, but y has 2"),
        (["ab"], [["a", "c"]], WORDS, "y: the words of sample 0 make 'ac', but X has 'ab'"),
        (["ab"], ["ab"], WORDS, "y: sample 0 must be a list of words, but it is 'ab'"),
        (["ab"], [["ab", ""]], WORDS, "y: sample 0 must be a list of words, but word 1 is"),
        (["ab"], [["ab", 1]], WORDS, "y: sample 0 must be a list of words, but word 1 is 1"),
        (["ab"], [None], WORDS, "y: sample 0 must be a list of words, but it is None"),
        (["ab", ""], [["ab"], []], WORDS, "X: sample 1 is empty"),
        (["ab"], [["ab"]], ["a", ""], "dictionary: word 1 must be a string of characters"),
        (["ab"], [["ab"]], {"a", 3}, "dictionary: word 0 must be a string of characters: 3"),
        (["ab"], [["ab"]], [("a", "noun")], r"\('a', 'noun'\); words with fields come from WordL"),
        (["ab"], [["ab"]], "words", "dictionary must be a list of words, got a str"),
        ("ab", [["ab"]], WORDS, "X must be a list of samples, got a str"),
    ],
)
def test_bad_input_is_named(texts, words, dictionary, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SAGCRF(WordLattice(dictionary)).fit(texts, words)


def test_copies_and_searches(tmp_path, files):
    sentences = strings_of(SENTENCES)
    skops = pytest.importorskip("skops.io")
    for graph, texts, words in (
        (WordLattice(WORDS), X, Y),
        (WordLattice.from_mecab(*files), sentences, SENTENCES),
    ):
        crf = SAGCRF(graph, random_state=0).fit(texts, words)
        skops.dump(crf, tmp_path / "model.skops")
        stored = skops.load(tmp_path / "model.skops", trusted=TRUSTED)
        assert len(repr(crf)) < 300
        for again in (pickle.loads(pickle.dumps(crf)), stored):
            for one, other in zip(
                crf.predict_marginals(texts), again.predict_marginals(texts), strict=True
            ):
                assert_array_equal(one, other)
    search = GridSearchCV(BCFWSSVM(WordLattice(WORDS), random_state=0), {"C": [0.1, 1.0]}, cv=2)
    assert 0.0 < search.fit(X, Y).best_score_ <= 1.0


def test_parameters_may_change_after_a_fit(files):
    graph = WordLattice(["ab"], longest_unknown=1)
    crf = SAGCRF(graph)
    assert graph.read_training(crf, ["a1b"], [["a", "1", "b"]])[0].lengths.tolist() == [3]
    graph.set_params(longest_unknown=2)
    assert graph.read_X(crf, ["a1b"], reset=False).lengths.tolist() == [5]  # and "a1", "1b"
    graph.set_params(dictionary=["ab", "bc", "b"])
    assert len(graph._lookup.dictionary.words) == 3
    mecab = WordLattice.from_mecab(*files, n_fields=1)
    assert "noun" in mecab.pair_names(None)[0]
    assert "noun,proper" in mecab.set_params(n_fields=2).pair_names(None)[0]


def test_clones_share_a_dictionary(files):
    mecab = WordLattice.from_mecab(*files)
    copied = clone(SAGCRF(mecab)).graph
    assert copied is not mecab
    assert copied.dictionary is mecab.dictionary


def test_streams_learn_further_words():
    stream = SAGCRF(WordLattice(WORDS), random_state=0).partial_fit(X[:2], Y[:2])
    n, before = stream.n_features_in_, list(stream.feature_names_in_)
    stream.partial_fit(X[2:], Y[2:])
    assert stream.n_features_in_ > n
    assert list(stream.feature_names_in_)[:n] == before


def test_mecab_entries_are_told_apart_by_their_fields(files):
    graph = WordLattice.from_mecab(*files, n_fields=2)
    texts = strings_of(SENTENCES)
    samples, labels = graph.read_training(SAGCRF(), texts, SENTENCES)
    first = samples.chosen(labels)[samples.owner[samples.chosen(labels)] == 0]
    chosen = [graph._lookup.dictionary.words[k] for k in samples.arcs[first, 4]]
    assert chosen[-1] == ("いる", "verb", "need")
    assert "verb,need" in graph.pair_names(None)[0]
    with pytest.warns(UserWarning, match=r"y: 1 of 1 words .*\('いる', 'adverb'\) \(sam"):
        graph.read_training(SAGCRF(), ["いる"], [[("いる", "adverb")]])


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("seed.csv", "東京,0,0", r"seed.csv, line 10: expected surface,left,right,cost,field"),
        ("seed.csv", "東京,0,x,0,noun", r"seed.csv, line 10: expected surface"),
        ("seed.csv", ",0,0,0,noun", r"seed.csv, line 10: expected surface"),
        ("char.def", "HAN 1 1", r"char.def, line 15: expected NAME invoke group length"),
        ("char.def", "0x41 LATIN", r"char.def, line 15: the kind LATIN is not defined"),
        ("char.def", "0x50..0x41 NUM", r"char.def, line 15: the codes 0x50..0x41 are in the wrong"),
        ("char.def", "HAN 1 1 1", r"char.def, line 15: the kind HAN is defined twice"),
        ("seed.csv", "x" * 140_000 + ",0,0,0,noun", r"seed.csv, line 10: field larger than"),
        ("seed.csv", 'x,0,0,0,"noun,y', r"seed.csv, line 10: unexpected end of data"),
        ("seed.csv", "x\0,0,0,0,noun", r"seed.csv, line 10: it has a NUL byte"),
        ("char.def", "0x1F600..0x1F64F NUM", r"char.def, line 15: MeCab takes codes below 0xffff"),
        ("char.def", "A 1 1 16", r"char.def, line 15: MeCab takes 17 kinds, of length 15 at most"),
        (
            "char.def",
            "\n".join(f"K{k} 1 1 1" for k in range(12)),
            r"char.def, line 26: MeCab takes 17 kinds",
        ),
        ("char.def", "EMOJI 1 1 1", r"unk.def: no unknown word is of kind EMOJI"),
        ("unk.def", "EMOJI,0,0,0,noun", r"unk.def, line 8: the kind EMOJI is not in"),
    ],
)
def test_broken_lines_are_named(files, name, line, message):
    path = next(path for path in files if path.name == name)
    path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(ValueError, match=message):
        WordLattice.from_mecab(*files)


@pytest.mark.parametrize("kind", ["DEFAULT", "SPACE"])
def test_kinds_that_mecab_needs(files, kind):
    for path in files[1:]:
        lines = path.read_text("utf-8").splitlines(keepends=True)
        path.write_text("".join(line for line in lines if kind not in line), "utf-8")
    with pytest.raises(ValueError, match=f"char.def: the kind {kind} is not defined"):
        WordLattice.from_mecab(*files)


def test_files_in_euc_jp(files):
    one = WordLattice.from_mecab(*files).dictionary
    for path in files:
        path.write_bytes(path.read_text("utf-8").encode("euc-jp"))
    assert tuple(WordLattice.from_mecab([files[0]], *files[1:]).dictionary) == tuple(one)
    files[0].write_bytes(b"\xff\xff,0,0,0,noun\n")
    with pytest.raises(ValueError, match=r"seed.csv, line 1: not text in utf-8"):
        WordLattice.from_mecab(*files)
    for encoding in ("utf-8", "euc-jp"):
        files[0].write_bytes(SEED.encode(encoding) + b"caf\xe9,0,0,0,noun\n")
        with pytest.raises(ValueError, match=f"seed.csv, line 10: not text in {encoding}"):
            WordLattice.from_mecab(*files)
    with pytest.raises(TypeError, match="not NoneType"):
        WordLattice.from_mecab(None, *files[1:])
    with files[1].open("rb") as file, pytest.raises(TypeError, match="not BufferedReader"):
        WordLattice.from_mecab(files[0], file, files[2])


def _viterbi(folder, text):
    """The words of least cost by the files of MeCab, as MeCab finds them."""
    with (folder / "lex.csv").open(encoding="utf-8") as lex, (folder / "unk.def").open() as unk:
        rows = [[int(n) for n in row[1:4]] for row in (*csv.reader(lex), *csv.reader(unk))]
    matrix = np.loadtxt(folder / "matrix.def", dtype=int, skiprows=1)
    costs = {(right, left): cost for right, left, cost in matrix.tolist()}
    names = (folder / name for name in ("lex.csv", "char.def", "unk.def"))
    best = {(0, 0): (0, [])}  # by place and right class
    for begin, end, number in WordLattice.from_mecab(*names)._lookup.words(text):
        left, right, cost = rows[number]
        for (at, before), (total, words) in [*best.items()]:
            if at == begin:
                new = total + costs[before, left] + cost, [*words, text[begin:end]]
                best[end, right] = min(best.get((end, right), new), new)
    return min(found for (at, _), found in best.items() if at == len(text))[1]


@pytest.fixture(name="exported")
def _exported(files, tmp_path):
    """A model, its files, and strings of the characters that it knows, and of others."""
    crf = SAGCRF(WordLattice.from_mecab(*files, n_fields=2), C=20.0, tol=1e-5, random_state=0)
    crf.fit(strings_of(SENTENCES), SENTENCES)
    assert crf.graph_.export_mecab(crf, tmp_path / "out") <= 700.0
    rng = np.random.default_rng(0)
    alphabet = np.array([*"東京都にはいるねこカレー一12,🙂xy"])
    texts = ["".join(rng.choice(alphabet, rng.integers(1, 12))) for _ in range(200)]
    return crf, tmp_path / "out", [*strings_of(SENTENCES), *texts, "カ" * 30]


def test_exported_costs_segment_as_the_model_does(exported):
    crf, folder, texts = exported
    predicted = crf.predict(texts).tolist()
    assert [_viterbi(folder, text) for text in texts] == predicted
    with pytest.raises(ValueError, match=r"export_mecab is for WordLattice.from_mecab"):
        _fitted().graph_.export_mecab(_fitted(), folder)


def test_what_cannot_be_exported(exported):
    crf, folder, _ = exported
    for factor in (-1.0, 0, np.nan, "x"):
        with pytest.raises(ValueError, match="factor must be a positive number"):
            crf.graph_.export_mecab(crf, folder, factor)
    for graph, estimator in ((crf.graph_, _fitted()), (crf.graph, crf), (crf.graph, SAGCRF())):
        with pytest.raises(ValueError, match="the fitted estimator whose graph_ this is"):
            graph.export_mecab(estimator, folder)
    crf.coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match="the weights are not finite"):
        crf.graph_.export_mecab(crf, folder)


def test_mecab_segments_as_the_model_does(exported, tmp_path):
    fugashi = pytest.importorskip("fugashi")
    crf, folder, texts = exported
    fugashi.build_dictionary(f"build -f utf8 -t utf8 -d {folder} -o {folder}")
    tagger = fugashi.GenericTagger(f"-r {folder / 'dicrc'} -d {folder}")
    assert [[word.surface for word in tagger(text)] for text in texts] == crf.predict(
        texts
    ).tolist()


def test_costs_fit_sixteen_bits(exported):
    crf, folder, _ = exported
    factor = crf.graph_.export_mecab(crf, folder, factor=1e9)
    assert 700.0 < factor < 1e9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = np.loadtxt(folder / "matrix.def", dtype=int, skiprows=1)
    assert np.abs(matrix).max() <= 32767
