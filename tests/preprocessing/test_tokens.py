"""TokenFeatures: presets, lists, what users bring; the same features everywhere."""

import io
import json
import pickle
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import skstruct
from skstruct import SAGCRF, Chain
from skstruct.datasets import make_annotated_sentences
from skstruct.estimators.persistence import TRUSTED
from skstruct.lite import Tagger
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TokenFeatures, fit_vectorizer

X = [
    [("Anna", "NE"), ("flew", "V"), ("to", "P"), ("New", "NE"), ("York", "NE"), (".", "$")],
    [("IBM-2", "NE")],
    [("İzmir", "NE"), ("in", "P"), ("2024", "NUM"), ("à", "X")],
]
WORDS = [[word for word, _ in x] for x in X]
CLUSTERS = {"Anna": "0010110", "york": "001110111101", "in": "1"}
LISTS = {"city": ["New York", "Izmir", "New", "york new"], "name": [["anna"]]}


def _shape(word):
    return re.sub(
        r"\d", "d", "".join("X" if c.isupper() else "x" if c.isalpha() else c for c in word)
    )


def _marks(words, phrases):
    """Longest phrases from left to right: the reference."""
    marks, t = ["O"] * len(words), 0
    lower = [word.lower() for word in words]
    phrases = [p.lower().split() if isinstance(p, str) else p for p in phrases]
    while t < len(words):
        size = max((len(p) for p in phrases if lower[t : t + len(p)] == p), default=0)
        marks[t : t + size] = ["B"] * min(size, 1) + ["I"] * (size - 1)
        t += max(size, 1)
    return marks


def _plain(feature, x, t):
    """Name and value of a feature at a token, by rules of its own."""
    values = []
    for name, offset in re.findall(r"([^\[\]|]+)\[(-?\d+)\]", feature):
        s = t + int(offset)
        if not 0 <= s < len(x):
            values.append(f"_B{s}" if s < 0 else f"_B+{s - len(x) + 1}")
            continue
        word, kind, size = x[s][0], *re.fullmatch(r"(\D+)(\d*)", name).groups()
        k = int(size or 0)
        cluster = CLUSTERS.get(word) or CLUSTERS.get(word.lower(), "")
        marks = _marks([word for word, _ in x], LISTS["city"])
        own = {"word": word, "lower": word.lower(), "tag": x[s][1], "city": marks[s]}
        own |= {"prefix": word[:k] if len(word) >= k else "", "cluster": cluster[: k or None]}
        own |= {"suffix": word[-k:] if len(word) >= k else "", "shape": _shape(word)}
        own["short"] = re.sub(r"(.)\1+", r"\1", own["shape"])
        values.append(own[kind])
    return f"{feature}={'|'.join(values)}"


LISTED = [
    *TokenFeatures.presets["ner"][:-1],
    *("cluster[0]", "cluster4[-1]", "city[0]|word[1]", "prefix3[1]|tag[0]", "suffix12[-2]"),
]


def test_features_are_what_their_names_say():
    features = TokenFeatures(LISTED, gazetteers={"city": LISTS["city"]}, clusters=CLUSTERS).fit(X)
    bits = [f"cluster{k}[{o}]" for k in ("", 4, 6, 10, 20) for o in range(-2, 3)]
    expected = dict.fromkeys([*LISTED, *bits, *(f"city[{o}]" for o in (-1, 0, 1))])
    assert sorted(features.features_) == sorted(expected)
    for x, found in zip(X, features.attributes(X), strict=True):
        for t, own in enumerate(found):
            assert own == {_plain(feature, x, t): 1.0 for feature in expected}


@pytest.mark.parametrize("preset", TokenFeatures.presets)
def test_presets(preset):
    samples = ["她在北京大学。", "２０２４年"] if preset == "words" else X
    features = TokenFeatures(preset)
    found = features.fit_transform(samples)
    assert found.flat.shape[1] == features.n_features_out_ == len(features.get_feature_names_out())
    assert features.n_columns_ == (1 if preset == "words" else 2)
    # Each token has each feature of the preset, and besides its n-grams.
    n_others = sum("ngrams" not in feature for feature in features.features_)
    n_grams = found.flat.sum(axis=1).A1 - n_others
    assert (
        (n_grams > 0).all() if "ngrams2-5" in TokenFeatures.presets[preset] else not n_grams.any()
    )


def test_ngrams_of_characters():
    (found,) = TokenFeatures(["ngrams1-3"]).fit([["Aba"]]).attributes([["Aba"]])
    assert set(found[0]) == {f"ngram={g}" for g in "^ a b $ ^a ab ba a$ ^ab aba ba$".split()}


def test_different_features_have_different_names():
    pairs = [["|", "||"], ["||", "|"], ["a|", "b"], ["a", "|b"], ["\\", "|"], ["\\|", ""], ["", ""]]
    features = TokenFeatures(["word[0]", "word[0]|word[1]"]).fit(pairs)
    names = features.get_feature_names_out().tolist()
    assert len({*names}) == len(names) == features.n_features_out_
    assert "word[0]=a|" in names
    assert r"word[0]|word[1]=a\||b" in names
    assert [len(token) for x in features.attributes(pairs) for token in x] == [2] * 14


def test_attributes_have_the_names_of_columns():
    vectors = {"Anna": [1.0, 2.0]}
    features = TokenFeatures("ner", min_count=2, gazetteers=LISTS, vectors=vectors).fit(X)
    names = features.get_feature_names_out()
    flat = [token for x in features.attributes(X) for token in x]
    for row, own in zip(features.transform(X).flat, flat, strict=True):
        assert own == dict(zip(names[row.indices], row.data, strict=True))


def test_a_feature_counts_once_however_it_is_written():
    twice = TokenFeatures(["tag[0]", "word[+0]", "word[0]", "pos[0]"], sequence_id="s")
    frame = pd.DataFrame({"s": [0], "word": ["a"], "pos": ["N"]})
    assert_array_equal(twice.fit_transform(frame).flat.toarray(), [[1.0, 1.0]])


def test_long_paths_of_clusters():
    features = TokenFeatures(["cluster40[0]"], clusters={"a": "01" * 30}).fit([["a"]])
    assert f"cluster40[0]={'01' * 20}" in features.get_feature_names_out()


def test_phrases_with_one_first_word():
    rng = np.random.default_rng(0)
    phrases = ["the " + " ".join(map(str, rng.integers(0, 4, n))) for n in rng.integers(1, 5, 60)]
    words = [[*map(str, rng.choice(["the", "0", "1", "2", "3"], 40))] for _ in range(20)]
    features = TokenFeatures(["city[0]"], gazetteers={"city": [*phrases, "the"]}).fit(words)
    found = [
        [next(name[-1] for name in token if name.startswith("city[0]")) for token in x]
        for x in features.attributes(words)
    ]
    assert found == [_marks(x, [*phrases, "the"]) for x in words]


def test_scripts_have_shapes():
    names = TokenFeatures(["shape[0]"]).fit([["Да-1", "漢字", "ひカ한", "สวย", "é"]])
    assert {name[9:] for name in names.get_feature_names_out()} == {"Xx-d", "cc", "hkg", "ooo", "x"}


class Token:
    def __init__(self, text, pos_):
        self.text, self.pos_ = text, pos_


def test_forms_of_tokens():
    rows = TokenFeatures("ner").fit_transform(X)
    frame = pd.DataFrame(
        [(i, *row) for i, x in enumerate(X) for row in x], columns=["s", "w", "tag"]
    )
    frames = TokenFeatures("ner", sequence_id="s").fit(frame)
    assert_array_equal(frames.transform(frame).flat.toarray(), rows.flat.toarray())
    one = frames.transform(frame[["tag", "w", "s"]][frame.s == 2])
    assert_array_equal(one.flat.toarray(), rows[2].toarray())
    tokens = [[Token(*row) for row in x] for x in X]
    objects = TokenFeatures("ner", columns=["text", "pos_"]).fit_transform(tokens)
    assert_array_equal(objects.flat.toarray(), rows.flat.toarray())
    words = TokenFeatures("ner").fit_transform(tokens)
    assert_array_equal(
        words.flat.toarray(), TokenFeatures("ner").fit_transform(WORDS).flat.toarray()
    )


def test_several_columns_of_tags_and_named_ones():
    three = [[(*row, "c") for row in x] for x in X]
    found = TokenFeatures(["tag[0]|word[0]", "tag2[1]"]).fit(three).get_feature_names_out()
    assert {"tag[0]|word[0]=V|flew", "tag2[0]|word[0]=c|flew", "tag2[1]=c"} <= {*found}
    frame = pd.DataFrame(
        [(i, *row) for i, x in enumerate(X) for row in x], columns=["s", "w", "my pos"]
    )
    named = TokenFeatures(["my pos[0]"], sequence_id="s").fit(frame)
    assert named.get_feature_names_out()[0] == "my pos[0]=NE"


def test_clusters_from_files(tmp_path):
    brown, clark = tmp_path / "paths", tmp_path / "clark.txt"
    brown.write_text("".join(f"{path}\t{word}\t3\n" for word, path in CLUSTERS.items()))
    clark.write_text("".join(f"{word} k{path} .5\n" for word, path in CLUSTERS.items()))
    known = TokenFeatures(["word[0]"], clusters=CLUSTERS).fit(X).get_feature_names_out()
    own = TokenFeatures(["word[0]"], clusters=brown).fit(X).get_feature_names_out()
    assert_array_equal(own, known)
    names = TokenFeatures(["word[0]"], clusters=str(clark)).fit(X).get_feature_names_out()
    assert "cluster[0]=k0010110" in names
    assert not any(name.startswith("cluster4") for name in names)


class KeyedVectors:
    """As gensim has them: no mapping, and no default."""

    def __init__(self, own):
        self.key_to_index = {word: j for j, word in enumerate(own)}
        self.vectors = np.array([*own.values()])

    def __contains__(self, word):
        return word in self.key_to_index

    def __len__(self):
        return len(self.key_to_index)

    def __getitem__(self, word):
        return self.vectors[self.key_to_index[word]]


def test_vectors(tmp_path):
    own = {"Anna": [1.0, -2.0], "new": [0.5, 0.0], "2024": [3.0, 4.0]}
    text = "".join(f"{word} {a} {b}\n" for word, (a, b) in own.items())
    (tmp_path / "glove").write_text(text)
    (tmp_path / "word2vec").write_text(f"3 2\n{text}. . . 5 6 \n\n")
    expected = np.zeros((11, 2))
    expected[[0, 3, 9]] = [*own.values()]
    for vectors in (own, KeyedVectors(own), tmp_path / "glove", str(tmp_path / "word2vec")):
        features = TokenFeatures(["word[0]"], vectors=vectors)
        found = features.fit_transform(X).flat.toarray()
        assert_array_equal(found[:, -2:], expected)
        assert features.get_feature_names_out()[-2:].tolist() == ["vector[0]", "vector[1]"]
        assert features.attributes([[("Anna", "NE")]])[0][0]["vector[1]"] == -2.0
    dots = features.attributes([[(". . .", "$")]])[0][0]
    assert (dots["vector[0]"], dots["vector[1]"]) == (5.0, 6.0)


def test_parts_and_cut_offs():
    whole = TokenFeatures("ner", min_count=2, gazetteers=LISTS).fit(X)
    whole.set_params(vectors={"Anna": [1.0]}, clusters=CLUSTERS).fit(X)
    for n_jobs in (1, 2):
        parts = fit_vectorizer(clone(whole), iter(X), part_size=1, n_jobs=n_jobs)
        assert_array_equal(whole.get_feature_names_out(), parts.get_feature_names_out())
        assert_array_equal(whole.transform(X).flat.toarray(), parts.transform(X).flat.toarray())
    whole = TokenFeatures("ner", min_count=2, gazetteers=LISTS).fit(X)
    counts = TokenFeatures("ner", gazetteers=LISTS).fit_transform(X).flat.sum(axis=0).A1
    assert whole.n_features_out_ == (counts >= 2).sum()


def test_unknown_share():
    features = TokenFeatures(["word[0]", "tag[0]"]).fit(X)
    assert features.unknown_share(X) == 0.0
    assert features.unknown_share([[("Anna", "V"), ("Bert", "V")]]) == 0.25
    assert np.isnan(features.unknown_share([]))
    dicts = skstruct.preprocessing.SequenceVectorizer().fit([[{"a": "x", "n": 2}]])
    assert dicts.unknown_share([[{"a": "x", "b": True, "c": 0}, {"n": 1, "a": "y"}]]) == 0.5


def test_unknown_ngrams_count():
    features = TokenFeatures(["ngrams1-1"]).fit([["ab"]])  # ^ a b $
    assert features.unknown_share([["ab"], []]) == 0.0
    assert features.unknown_share([["ac", "a"]]) == pytest.approx(1 / 7)
    both = TokenFeatures(["word[0]", "ngrams1-1"]).fit([["ab"]])
    assert both.unknown_share([["ac"]]) == pytest.approx(2 / 5)


def test_later_parameters_change_no_fitted_transformer():
    texts, words = ["Anna", "flew"], [list("Anna"), list("flew")]
    features = TokenFeatures("words").fit(texts)
    expected = features.transform(texts).flat.toarray()
    for new in ({"preset": "ner"}, {"columns": ["text", "tag_"]}, {"gazetteers": LISTS}):
        assert_array_equal(features.set_params(**new).transform(texts).flat.toarray(), expected)
    with pytest.raises(ValueError, match="was expected"):
        features.set_params(preset=["lower[0]"], gazetteers=None).fit([["a", None]])
    assert_array_equal(features.transform(words).flat.toarray(), expected)
    frame = pd.DataFrame({"s": [0], "w": ["a"], "t": ["N"]})
    features = TokenFeatures(["word[0]"], sequence_id="s", columns=["w"]).fit(frame)
    for columns in (["t"], None):
        found = features.set_params(columns=columns).transform(frame).flat.toarray()
        assert_array_equal(found, [[1.0]])


def test_columns_of_a_row_are_sorted():
    flat = TokenFeatures(["word[0]", "ngrams1-3"]).fit(WORDS).transform([["York", "Anna"]]).flat
    assert all((np.diff(row.indices) > 0).all() for row in flat)


@pytest.fixture(scope="module")
def tagger():
    """A model of names, with all that can be exported, and sentences that it has not seen."""
    data = make_annotated_sentences(60, 1, random_state=0).train
    samples, tags = [x.tolist() for x in data.word], [y.tolist() for y in data.entity]
    features = TokenFeatures("ner", clusters=CLUSTERS, gazetteers=LISTS)
    model = make_pipeline(features, SAGCRF(Chain(boundary=True), random_state=0))
    return model.fit(samples[:40], tags[:40]), [*samples[40:], ["Anna", "in", "New", "York"]]


def test_stored_models_tag_equally(tagger, tmp_path):
    model, samples = tagger
    expected = [labels.tolist() for labels in model.predict(samples)]
    again = pickle.loads(pickle.dumps(model))
    assert [labels.tolist() for labels in again.predict(samples)] == expected
    assert again[0].vocabulary_ == model[0].vocabulary_
    skstruct.export(model, tmp_path / "tagger.npz")
    lite = Tagger.load(tmp_path / "tagger.npz")
    assert lite.tag_batch(samples) == expected
    np.testing.assert_allclose(lite.marginals(samples[0]), model.predict_marginals(samples[:1])[0])
    skops = pytest.importorskip("skops.io")
    own = skops.loads(skops.dumps(model), trusted=TRUSTED)
    assert [labels.tolist() for labels in own.predict(samples)] == expected


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, ["shape", 1]),
        (0, ["size", None]),
        (0, "shape"),
        (2, ["clusters", {"a": 1}]),
        (3, ["phrases", [["new"]]]),
        (3, ["phrases", {"new": [[]]}]),
        (3, ["phrases", {"new": [["york"]]}]),
        (3, ["phrases", {"new": [[["york", 1]]]}]),
        (3, ["phrases", {"new": [{"york": 1}]}]),
    ],
)
def test_damaged_columns_are_named(place, value, tagger, tmp_path):
    path = tmp_path / "tagger.npz"
    skstruct.export(tagger[0], path)
    with np.load(path) as arrays:
        arrays = {**arrays}
    header = json.loads(arrays["header"].tobytes())
    header["reader"]["derived"][place] = value
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="is damaged"):
        Tagger.load(path)


def test_a_long_word_takes_no_memory_for_others(tagger, tmp_path):
    skstruct.export(tagger[0], tmp_path / "tagger.npz")
    lite, words = Tagger.load(tmp_path / "tagger.npz"), ["a" * 10_000, *["b"] * 500]
    tracemalloc.start()
    lite.tag(words)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_crfsuite_tags_equally(tagger, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    model, samples = tagger
    ends = {"first": "word[-1]=_B-1", "last": "word[1]=_B+1"}
    model[-1].to_crfsuite(tmp_path / "model.crfsuite", **ends)
    other = pycrfsuite.Tagger()
    other.open(str(tmp_path / "model.crfsuite"))
    found = [other.tag(pycrfsuite.ItemSequence(x)) for x in model[0].attributes(samples)]
    assert found == [labels.tolist() for labels in model.predict(samples)]


BAD = {
    "unknown preset": ({"preset": "nre"}, X, "one of"),
    "no list": ({"preset": 3}, X, "a name or a list"),
    "no feature": ({"preset": ["word"]}, X, "'word' is no feature"),
    "n-grams in pairs": ({"preset": ["ngrams2-5|word[0]"]}, X, "is no feature"),
    "no n-grams": ({"preset": ["word[0]", "ngrams5-2"]}, X, "is no feature"),
    "n-grams of nothing": ({"preset": ["ngrams0-2"]}, X, "is no feature"),
    "no suffix": ({"preset": ["suffix0[0]"]}, X, "needs 'suffix0'"),
    "unknown kind": ({"preset": ["wrod[0]"]}, X, "needs 'wrod'"),
    "no cluster": ({"preset": ["cluster4[0]"]}, X, "needs 'cluster'|cluster"),
    "no tags": ({"preset": ["tag[0]"]}, WORDS, "no column of tags"),
    "gazetteers": ({"gazetteers": ["a"]}, X, "dict of lists"),
    "one phrase": ({"gazetteers": {"city": "Rome"}}, X, r"gazetteers\['city'\] must be a list"),
    "empty phrase": ({"gazetteers": {"city": [" "]}}, X, "empty phrase"),
    "number in list": ({"gazetteers": {"city": [1]}}, X, "1 is no phrase"),
    "name": ({"gazetteers": {"a[0]": ["x"]}}, X, "cannot be named"),
    "no name": ({"gazetteers": {"": ["x"]}}, X, "cannot be named ''"),
    "tags": ({"gazetteers": {"tag": ["x"]}}, WORDS, "cannot be named 'tag'"),
    "same name": ({"gazetteers": {"word": ["x"]}}, X, "named 'word'"),
    "clusters": ({"clusters": 3}, X, "mapping or a path"),
    "cluster": ({"clusters": {"a": 1}}, X, "that of 'a' is 1"),
    "number of cluster": ({"clusters": {1: "a"}}, X, "that of 1 is 'a'"),
    "vectors": ({"vectors": 3}, X, "mapping or a path"),
    "table of vectors": ({"vectors": np.ones((2, 2))}, X, "mapping or a path"),
    "frame of vectors": ({"vectors": pd.DataFrame({"a": [1.0]})}, X, "mapping or a path"),
    "no numbers": ({"vectors": {"a": []}}, X, "its first vector"),
    "long vector": ({"vectors": {"a": [1.0], "Anna": [1.0, 2.0]}}, X, "'Anna' must be 1 finite"),
    "nan": ({"vectors": {"Anna": [np.nan]}}, X, "finite"),
    "objects": ({"columns": ["text", "lemma_"]}, [[Token("a", "b")]], "sequence 0 lack one"),
    "one column": ({"columns": "text"}, [[Token("a", "b")]], "must be a list"),
    "nothing": ({"columns": ["text", "pos_"]}, [[Token("a", None)]], "is missing"),
    "no list of columns": ({"columns": 5}, [[Token("a", "b")]], "columns must be a list"),
    "empty columns": ({"columns": []}, [[Token("a", "b")]], "columns must be a list"),
    "number of column": ({"columns": [1]}, [[Token("a", "b")]], "sequence 0 lack one: .* '1'"),
    "str for object": ({}, [[Token("a", "b")], ["c"]], "tokens of sequence 1 lack one"),
    "no sequence": ({}, [[Token("a", "b")], None], "sequence 1 must be a list of tokens"),
    "set": ({}, [{"a", "b"}], "must be a list of tokens, not set"),
    "text as vector": ({"vectors": {"a": "xyz"}}, X, "first vector is not of numbers"),
    "ragged vector": ({"vectors": {"a": [[1], [2, 3]]}}, X, "first vector is not of numbers"),
    "words as numbers": ({"vectors": {"a": [1], "Anna": "b"}}, X, "'Anna' must be 1 finite"),
    "iterator": ({}, [iter(["a"])], "must be a list of tokens"),
    "text": ({}, ["Anna flew"], "must be a list of tokens, not str; split texts into tokens"),
    "one sequence": ({}, ["Anna", "flew"], r"not str; .*: for one sequence pass \[x\]"),
    "no tokens": ({}, [[]], "no tokens"),
}


def test_columns_that_are_named_like_a_feature_are_refused():
    frame = pd.DataFrame({"s": [0], "w": ["a"], "shape": ["x"]})
    with pytest.raises(ValueError, match="named 'shape': rename the column"):
        TokenFeatures(sequence_id="s").fit(frame)
    names = TokenFeatures(["word[0]"], sequence_id="s", columns=["w"]).fit(frame)
    assert names.get_feature_names_out().tolist() == ["word[0]=a"]


def test_a_tuple_after_words_is_named():
    with pytest.raises(ValueError, match=r"token 1 has 2 columns; a str, or a tuple"):
        TokenFeatures("pos").fit(WORDS).transform([["a", ("b", "c")]])


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    options, samples, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        TokenFeatures(**options).fit_transform(samples)


@pytest.mark.parametrize(
    ("argument", "text", "message"),
    [
        ("clusters", "a 0\nb\n", "line 2: a word and its cluster"),
        ("clusters", "\n", "no clusters"),
        ("vectors", "a\t1\t2\n", "line 1: a word and numbers"),
        ("vectors", "a 1 2\nb 1 x\n", "line 2: a word and numbers"),
        ("vectors", "a 1 2\nb 1\n", "line 2: 1 numbers, before 2"),
        ("vectors", "a 1 2\nb 1 2 3\n", "line 2: a word and numbers"),
    ],
)
def test_broken_files_are_named(argument, text, message, tmp_path):
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=message):
        TokenFeatures(**{argument: tmp_path / "file"}).fit(X)


def test_an_export_without_vectors(tmp_path):
    model = make_pipeline(TokenFeatures(["word[0]"], vectors={"a": [1.0]}), SAGCRF())
    model.fit([["a", "b"]] * 3, [["A", "B"]] * 3)
    with pytest.raises(TypeError, match="has no vectors"):
        skstruct.export(model, io.BytesIO())
