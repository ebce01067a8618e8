"""Models of Wapiti give Wapiti's taggings, and Wapiti those of the models that are written."""

import gzip
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skstruct import SAGCRF, Chain, Tree
from skstruct.datasets import load_conll
from skstruct.lite import Tagger
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer

wapiti = pytest.importorskip("wapiti")

WORDS = ["a", "b", "Ab", "1/2", "x/y/z", "/", "#", "übrig", "25:u,"]


def _sentences(rng, n_samples, words=WORDS):
    return [
        [(words[rng.integers(len(words))], f"P{rng.integers(3)}") for _ in range(n)]
        for n in rng.integers(1, 9, n_samples)
    ]


def _fitted(templates, X, graph=None, seed=0, fit_intercept=True, **options):
    """A pipeline with drawn weights: no two labellings score the same."""
    rng = np.random.default_rng(seed)
    labels = ["B-x", "I-x", "O"]
    y = [["B-x", *rng.choice(labels[::2], len(x) - 1).tolist()] for x in X]
    y[0] = ["B-x", "I-x", "O"][: len(X[0])] * (len(X[0]) // 3 + 1)
    y[0] = y[0][: len(X[0])]
    plain = Chain(edge_features=bool(graph is not None and graph.edge_features))
    crf = SAGCRF(plain, max_iter=1, tol=1.0, solver="lbfgs", fit_intercept=fit_intercept)
    model = make_pipeline(TemplateVectorizer(templates, **options), crf).fit(X, y)
    crf.graph_ = graph or plain
    crf.classes_ = np.array(labels)
    n_rows = crf.n_features_in_ + crf.graph_.n_end_rows + fit_intercept
    crf.node_weights_ = rng.normal(0, 1, (n_rows, 3))
    crf.pair_weights_ = rng.normal(0, 1, (len(crf.pair_weights_), 9))
    return model


def _tag(path, X):
    """Labels that Wapiti gives."""
    model = wapiti.Model(model=str(path), nthread=1)
    out = []
    for x in X:
        lines = model.label_sequence("".join(f"{' '.join(token)}\n" for token in x))
        out.append([line.split("\t")[-1] for line in lines.decode().splitlines() if line])
    return out


def _lists(labels):
    return [row.tolist() for row in labels]


NODES = 'U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]/%x[1,1]\nU3:%t[0,0,"^.$"]%m[0,1,"\\d"]\nU4\nU5:%x[@1,0]'
EDGES = f"{NODES}\n*6:%x[0,1]\nB7:%x[-1,1]\n*\nB"


@pytest.mark.parametrize("outside", ["mark", "wapiti", "drop"])
@pytest.mark.parametrize(
    "graph",
    [
        Chain(),
        Chain(boundary=True),
        Chain(forbidden=["iob2", ("O", "O"), ("B-x", None)]),
        Chain(boundary=True, edge_features=True),
        Chain(edge_features=True, forbidden="iob2"),
    ],
)
def test_wapiti_gives_the_same_labels(tmp_path, graph, outside):
    rng = np.random.default_rng(1)
    X, new = _sentences(rng, 40), _sentences(rng, 80)
    model = _fitted(EDGES if graph.edge_features else NODES, X, graph, outside=outside)
    path = tmp_path / "model"
    model[-1].to_wapiti(path, model[0])
    labels = _lists(model.predict(new))
    assert _tag(path, new) == labels
    # A feature more for each split of "x/y/z": the taggings are Wapiti's, which are these.
    again = SAGCRF.from_wapiti(path)
    assert _lists(again.predict(new)) == labels
    again[-1].to_wapiti(tmp_path / "again", again[0])
    assert _tag(tmp_path / "again", new) == labels


def test_wapiti_tells_observations_by_their_strings(tmp_path):
    train, new = [["a/b", "c"], ["d", "e"]], [["a", "b/c"], ["a/b", "c"], ["d", "c"]]
    model = _fitted("U:%x[0,0]/%x[1,0]", train, outside="wapiti", fit_intercept=False)
    model[-1].to_wapiti(tmp_path / "model", model[0])
    again = SAGCRF.from_wapiti(tmp_path / "model")
    pairs = [[(word,) for word in x] for x in new]
    assert _lists(again.predict(new)) == _tag(tmp_path / "model", pairs)
    first, second = (again[:-1].transform(new)[i].toarray()[0] for i in (0, 1))
    assert (first != second).any()
    assert_array_equal(first @ again[-1].coef_.T, second @ again[-1].coef_.T)


@pytest.mark.parametrize("seed", range(3))
def test_models_that_wapiti_has_trained(tmp_path, seed):
    rng = np.random.default_rng(seed)
    trained = wapiti.Model(patterns=EDGES.replace("U4", "u4"), nthread=1, maxiter=15)
    for x in _sentences(rng, 40):
        labels = [f"L{(len(w) + int(rng.integers(2))) % 3}" for w, _ in x]
        rows = zip(x, labels, strict=True)
        trained.add_training_sequence("\n".join(" ".join([*t, k]) for t, k in rows))
    trained.train()
    trained.save(str(tmp_path / "model"))
    model = SAGCRF.from_wapiti(tmp_path / "model")
    assert set(model.classes_) == {"L0", "L1", "L2"}
    X = _sentences(rng, 60, [*WORDS, "new"])
    assert _lists(model.predict(X)) == _tag(tmp_path / "model", X)


TOKENS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=4
)


@given(
    st.lists(st.lists(TOKENS, min_size=1, max_size=5), min_size=1, max_size=6),
    st.lists(st.sampled_from(["U1:%x[0,0]", "U2:%x[-1,0]", "U3", "U4:%X[1,0]"]), unique=True),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_a_written_model_is_read_with_the_same_weights(
    tmp_path_factory, X, templates, has_edges, seed
):
    path = tmp_path_factory.getbasetemp() / "round_trip"
    rng = np.random.default_rng(seed)
    lines = ["U0:%x[0,0]", *templates, *["B:%x[0,0]"] * has_edges]
    vectorizer = TemplateVectorizer(lines, outside="wapiti").fit(X)
    crf = SAGCRF(Chain(edge_features=has_edges), fit_intercept=False)
    crf.graph_, crf.classes_, crf._has_intercept = crf.graph, np.array(["A", "B"]), False
    crf._feature_names, edge_names = vectorizer._names
    crf.n_features_in_ = vectorizer.n_features_out_
    n_tables = len(edge_names) if has_edges else 1
    crf.node_weights_ = rng.normal(size=(crf.n_features_in_, 2))
    crf.pair_weights_ = rng.normal(size=(n_tables, 4)) * rng.integers(0, 2, (n_tables, 1))
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        crf.to_wapiti(path, vectorizer)
    again = SAGCRF.from_wapiti(path)[-1]
    assert again.inference_ == "exact"
    assert again.classes_.tolist() == ["A", "B"]
    weights = dict(zip(again.feature_names_in_, again.node_weights_, strict=True))
    assert len(weights) == again.n_features_in_ == crf.n_features_in_
    for name, row in zip(crf.feature_names_in_, crf.node_weights_, strict=True):
        assert_array_equal(weights[name[:1].lower() + name[1:]], row)
    assert_array_equal(again.pair_weights_[0], crf.pair_weights_[0])
    if has_edges:
        names = again.edge_feature_names_in_[1:]
        weights = dict(zip(names, again.pair_weights_[1:], strict=True))
        for name, row in zip(edge_names.strings()[1:], crf.pair_weights_[1:], strict=True):
            assert_array_equal(weights.get(name[:1].lower() + name[1:], 0.0), row)


def test_conll2000(shared_data, tmp_path):
    train, test = (
        load_conll(shared_data / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"])
        for name in ("train", "test")
    )
    X, new = (
        [[*zip(w, p, strict=True)] for w, p in zip(part.word, part.pos, strict=True)]
        for part in (train, test)
    )
    templates = "U1:%x[0,0]\nU2:%x[-1,1]/%x[0,1]\nU3:%x[1,1]\nB"
    crf = SAGCRF(Chain(boundary=True), tol=0.05, random_state=0)
    model = make_pipeline(TemplateVectorizer(templates), crf).fit(X[:300], train.chunk[:300])
    crf.to_wapiti(tmp_path / "model", model[0])
    assert _tag(tmp_path / "model", new) == _lists(model.predict(new))


@pytest.mark.parametrize(
    ("templates", "options", "match"),
    [
        ('U:%t[-1,0,"a"]', {}, r"beyond the ends %t and %m match Wapiti's marks"),
        ('U:%m[@2,0,"a"]', {"outside": "drop"}, r"fit with outside=\"wapiti\", not 'drop'"),
        ("U:%x[-5,0]", {}, "Wapiti has no mark '_B-5'"),
        ("U:%x[0,0]/%x[1,0]", {"outside": "wapiti"}, "called 'u:a/b/c'"),
        ("U:%x[0,0]\nu:%x[0,0]", {}, "two features of different weights are called 'u:a'"),
    ],
)
def test_templates_that_wapiti_cannot_have(tmp_path, templates, options, match):
    X = [[(w,) for w in "abcdefg"], [("a/b",), ("c",)], [("a",), ("b/c",)]]
    model = _fitted(templates, X, **options)
    with pytest.raises(ValueError, match=match):
        model[-1].to_wapiti(tmp_path / "model", model[0])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("label", ["", "a b", "a\tb", "a\nb", "a\0b", "\ud800", 3])
def test_labels_that_wapiti_cannot_have(tmp_path, label):
    model = _fitted("U:%x[0,0]", [["a", "b", "c"]])
    model[-1].classes_ = np.array([label, "I-x", "O"], dtype=object)
    with pytest.raises(ValueError, match=r"label|has 3"):
        model[-1].to_wapiti(tmp_path / "model", model[0])


def test_what_is_not_a_template_model_is_refused(tmp_path):
    path = tmp_path / "model"
    X = [["a", "b", "c"]]
    model, other = _fitted("U:%x[0,0]", X), TemplateVectorizer("U:%x[1,0]")
    with pytest.raises(NotFittedError):
        SAGCRF().to_wapiti(path, model[0])
    with pytest.raises(NotFittedError):
        model[-1].to_wapiti(path, other)
    with pytest.raises(ValueError, match="template has other features"):
        model[-1].to_wapiti(path, other.fit(X))
    with pytest.raises(ValueError, match="template has other features"):
        model[-1].to_wapiti(path, TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]").fit(X))
    for template in ("U:%x[0,0]", SequenceVectorizer().fit([[["a"]]]), None):
        with pytest.raises(TypeError, match="template must be the fitted TemplateVectorizer"):
            model[-1].to_wapiti(path, template)
    tree = SAGCRF(Tree(), tol=0.5).fit([(np.eye(2), np.array([-1, 0]))], [["a", "b"]])
    with pytest.raises(ValueError, match="linear chains alone"):
        tree.to_wapiti(path, model[0])
    assert not path.exists()


def test_upper_case_beyond_ascii_warns(tmp_path):
    model = _fitted("U:%X[0,0]", [["É", "a", "B"]])
    with pytest.warns(UserWarning, match="Wapiti lowers ASCII letters alone"):
        model[-1].to_wapiti(tmp_path / "model", model[0])
    again = SAGCRF.from_wapiti(tmp_path / "model")
    assert set(again[0].get_feature_names_out()) == {"u:a", "u:b", "u:é", "u-intercept"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    rng = np.random.default_rng(2)
    graph = Chain(boundary=True, edge_features=True)
    model = _fitted(EDGES, _sentences(rng, 10), graph, outside="wapiti")
    path = tmp_path_factory.mktemp("wapiti") / "model"
    model[-1].to_wapiti(path, model[0])
    return path.read_bytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_files_that_were_copied_as_text_are_read(written, pack, tmp_path):
    (tmp_path / "a").write_bytes(written)
    (tmp_path / "b").write_bytes(pack(written.replace(b"\n", b"\r\n")))
    a, b = (SAGCRF.from_wapiti(tmp_path / name) for name in "ab")
    assert_array_equal(a[-1].node_weights_, b[-1].node_weights_)
    assert_array_equal(a[-1].pair_weights_, b[-1].pair_weights_)
    assert list(a[0].get_feature_names_out()) == list(b[0].get_feature_names_out())


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (rb"(#mdl#\d+#).*", rb"\g<1>1,234"),
        (rb"(#mdl#\d+#).*", rb"\g<1>1.234.567"),
        (rb"(#mdl#\d+#).*", "\\g<1>1\u202f234".encode()),
        (rb"(#qrk#).*", rb"\g<1>1'234"),
        (rb"(\d+)=(-?0x1)\.", rb"\1=\2,"),
        (rb"\n(\d+)=", rb"\n1,234="),
    ],
)
def test_numbers_of_a_locale_are_named(written, pattern, new, tmp_path):
    found = re.sub(pattern, new, written, count=1)
    assert found != written
    (tmp_path / "model").write_bytes(found)
    with pytest.raises(ValueError, match=r"model: .* in the form of a locale; save .* LC_ALL=C"):
        SAGCRF.from_wapiti(tmp_path / "model")


@pytest.mark.parametrize(("content", "why"), [(b"", "empty"), (bytes(99), "holds zeros alone")])
def test_files_of_nothing_are_named(content, why, tmp_path):
    (tmp_path / "model").write_bytes(content)
    for read in (SAGCRF.from_wapiti, SAGCRF.from_crfsuite, Tagger.load):
        with pytest.raises(ValueError, match=f"model is not a .*: it (is )?{why}"):
            read(tmp_path / "model")
        with pytest.raises(OSError, match=re.escape(str(tmp_path))):
            read(tmp_path)


def test_damaged_files_are_refused_or_are_models(written, tmp_path):
    rng, path, refused = np.random.default_rng(3), tmp_path / "model", 0
    X = _sentences(rng, 3)
    broken = [written[:size] for size in rng.integers(0, len(written), 60)]
    n_cut = len(broken)
    for _ in range(300):
        data = bytearray(written)
        at, size = int(rng.integers(len(data))), int(rng.integers(1, 4))
        data[at : at + size] = bytes(rng.integers(256, size=int(rng.integers(4))).tolist())
        broken.append(bytes(data))
    head = written.index(b"#qrk#")
    for _ in range(200):  # the numbers of the header
        data = bytearray(written)
        data[int(rng.integers(head))] = ord(rng.choice(list("0123456789/#")))
        broken.append(bytes(data))
    for i, data in enumerate(broken):
        path.write_bytes(data)
        try:
            model = SAGCRF.from_wapiti(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            refused += 1
            continue
        assert i >= n_cut
        try:
            labels = model.predict(X)
        except ValueError as error:  # a pattern may need another column
            assert "columns" in str(error)  # noqa: PT017
            continue
        assert all(set(row) <= set(model.classes_) for row in labels)
    assert refused > n_cut


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (b"#mdl#2#", b"#mdl#1#", "its type is 1, that of a CRF is 2"),
        (b"#mdl#2#", b"#mdl#", "the type of the model was expected"),
        (b"#mdl#", b"model", "is not a model file of Wapiti"),
        (b"%x[0,0]", b"%x[0,9]", None),
        (b"10:u1:%x[0,0],", b"11:u1:%x[0,0],", "ends where it should not"),
        (b"0=", b"999999=", "is not a weight"),
        (b"p-1\n", b"p+9999\n", "damaged"),
        (b"3:I-x,", b"3:B-x,", "one is there twice"),
    ],
)
def test_files_that_are_something_else(written, tmp_path, old, new, match):
    path = tmp_path / "model"
    assert old in written
    path.write_bytes(written.replace(old, new, 1))
    if match is None:
        assert SAGCRF.from_wapiti(path)[0].n_columns_ == 10
    else:
        with pytest.raises(ValueError, match=match):
            SAGCRF.from_wapiti(path)


def test_a_small_file_does_not_ask_for_much(tmp_path):
    names = b"".join(b"%d:u:%s%d,\n" % (102 + len(str(k)), b"/" * 100, k) for k in range(40))
    head = b"#mdl#2#0\n#rdr#1/0/0\n27:u:%x[0,0]/%x[1,0]/%x[2,0],\n#qrk#1\n1:A,\n#qrk#40\n"
    (tmp_path / "model").write_bytes(head.replace(b"27:", b"25:") + names)
    with pytest.raises(ValueError, match="can be split in too many ways"):
        SAGCRF.from_wapiti(tmp_path / "model")
