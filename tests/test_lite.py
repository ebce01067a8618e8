"""`skstruct.lite` predicts what the estimator predicts, with NumPy alone."""

import enum
import io
import itertools
import json
import math
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.pipeline import make_pipeline

from skstruct import BCFWSSVM, SAGCRF, Chain, MultiClass, export, lite
from skstruct.datasets import load_conll
from skstruct.lite import Tagger
from skstruct.metrics import chunks
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer

# Values of which all sums are exact, so that ties are ties in any order of summation.
_EXACT = st.integers(-8, 8).map(lambda n: n / 4)


def _estimator(graph, classes, node, pair=None, intercept=True, cls=SAGCRF):
    """A fitted estimator with these weights."""
    model, n = cls(graph=graph), len(classes)
    ends = graph.n_end_rows if isinstance(graph, Chain) else 0
    model.graph_, model.classes_ = graph, np.array(classes)
    model.n_features_in_ = len(node) - ends - intercept
    model._has_intercept = intercept
    model.node_weights_ = np.ascontiguousarray(node, dtype=np.float64)
    shape = (1, n * n) if isinstance(graph, Chain) else (0, 0)
    model.pair_weights_ = np.zeros(shape) if pair is None else np.reshape(pair, shape).astype(float)
    return model


def _through_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("lite") / "model.npz"
    export(model, path)
    return Tagger.load(path)


@st.composite
def _drawn(draw):
    """A drawn model of a chain, and samples."""
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    strings = draw(st.booleans())
    classes = [f"L{k}" if strings else 3 * k - 4 for k in range(n)]
    boundary, intercept = draw(st.booleans()), draw(st.booleans())
    pairs = st.tuples(*[st.sampled_from([None, *classes])] * 2).filter(lambda p: p != (None, None))
    forbidden = draw(st.none() | st.lists(pairs, max_size=4))
    n_rows = d + 2 * boundary + intercept
    numbers = draw(st.lists(_EXACT, min_size=n * (n_rows + n), max_size=n * (n_rows + n)))
    node, pair = np.split(np.array(numbers), [n * n_rows])
    graph = Chain(boundary=boundary, forbidden=forbidden)
    model = _estimator(graph, classes, node.reshape(n_rows, n), pair, intercept)
    if draw(st.booleans()):
        model.sparsify(draw(st.sampled_from([0.0, 0.5])), dtype="float32")
    lengths = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    return model, [rng.integers(-2, 3, (length, d)).astype(float) for length in lengths]


@given(_drawn(), st.integers(1, 5))
def test_drawn_models(tmp_path_factory, drawn, k):
    model, X = drawn
    tagger = _through_file(model, tmp_path_factory)
    assert tagger.classes == model.classes_.tolist()
    for x in X:
        try:
            expected = model.predict([x])[0].tolist()
        except ValueError:
            for call in (tagger.tag, tagger.marginals, lambda x: tagger.top_k(x, k)):
                with pytest.raises(ValueError, match="forbidden"):
                    call(x)
            continue
        assert tagger.tag(x) == expected
        assert_allclose(tagger.marginals(x), model.predict_marginals([x])[0], atol=1e-12)
        labels, scores = model.predict_top_k([x], k)
        found = tagger.top_k(x, k)
        assert_array_equal([score for _, score in found], scores[0])
        assert found[0][0] == expected or scores[0][:1] == scores[0][1:2]
        assert len({tuple(own) for own, _ in found}) == len(found)
        assert {len(own) for own, _ in found} == {len(x)}
        assert len(labels[0]) == len(found)


@given(st.integers(1, 5), st.booleans(), st.data())
def test_tables(tmp_path_factory, n, intercept, data):
    node = data.draw(st.lists(st.lists(_EXACT, min_size=n, max_size=n), min_size=3, max_size=3))
    model = _estimator(MultiClass(), range(n), node, intercept=intercept)
    X = np.random.default_rng(n).integers(-2, 3, (6, model.n_features_in_)).astype(float)
    tagger = _through_file(model, tmp_path_factory)
    assert tagger.tag_batch(X) == model.predict(X).tolist()
    assert_allclose([tagger.marginals(x) for x in X], model.predict_marginals(X), atol=1e-12)
    scores = model.predict_top_k(X, 2)[1]
    for x, expected in zip(X, scores, strict=True):
        assert_array_equal([score for _, score in tagger.top_k(x, 2)], expected)
    with pytest.raises(ValueError, match="no chunks"):
        tagger.chunks(X[0])


# Chunks

_LABELS = {
    None: ["B-X", "I-X", "I-Y", "O", "E-X", "S"],
    "IOB1": ["B-X", "I-X", "I-Y", "O"],
    "bio": ["B-X", "I-X", "I-Y", "O"],
    "ioe1": ["E-X", "I-X", "I-Y", "O"],
    "ioe2": ["E-X", "I-X", "E-Y", "O"],
    "iobes": ["B-X", "E-X", "I-X", "O", "S-Y"],
    "bilou": ["B-X", "I-X", "L-X", "O", "U-Y"],
}


def _kinds_of(labels, scheme):
    if scheme != "runs":
        return chunks(labels, scheme)
    found, start = [], 0
    for label, run in itertools.groupby(labels):
        stop = start + len(list(run))
        if label != "O":
            found.append((start, stop, label))
        start = stop
    return found


@pytest.mark.parametrize("scheme", [*_LABELS, "runs"])
def test_chunks_and_their_probabilities_are_those_of_all_labellings(tmp_path_factory, scheme):
    labels = sorted(_LABELS.get(scheme, ["O", "city", "street"]))
    rng = np.random.default_rng(len(labels))
    seen = 0
    for n in (1, 2, 3, 4, 4, 4, 4):
        node, pair = rng.normal(size=(n, len(labels))), rng.normal(size=(len(labels),) * 2)
        tagger = _through_file(_estimator(Chain(), labels, node, pair, False), tmp_path_factory)
        x, total, masses = np.eye(n), 0.0, {}
        for codes in itertools.product(range(len(labels)), repeat=n):
            steps = sum(pair[a, b] for a, b in itertools.pairwise(codes))
            mass = math.exp(steps + sum(node[t, k] for t, k in enumerate(codes)))
            total += mass
            for chunk in _kinds_of([labels[k] for k in codes], scheme):
                masses[chunk] = masses.get(chunk, 0.0) + mass
        found = tagger.chunks(x, scheme)
        assert [chunk[:3] for chunk in found] == _kinds_of(tagger.tag(x), scheme)
        assert_allclose([c[3] for c in found], [masses[c[:3]] / total for c in found], rtol=1e-10)
        seen += len(found)
    assert seen > 2


@given(st.sampled_from(sorted(map(str, _LABELS))), st.data())
def test_chunks_of_any_labels(tmp_path_factory, scheme, data):
    scheme = None if scheme == "None" else scheme
    names = sorted(_LABELS[scheme])
    labels = data.draw(st.lists(st.sampled_from(names), max_size=8))
    tagger = _through_file(
        _estimator(Chain(), names, 50 * np.eye(len(names)), intercept=False), tmp_path_factory
    )
    x = np.eye(len(names))[[names.index(label) for label in labels]].reshape(-1, len(names))
    assert tagger.tag(x) == labels
    assert [chunk[:3] for chunk in tagger.chunks(x, scheme)] == chunks(labels, scheme)


def test_chunks_that_are_none(tmp_path):
    for labels, scheme, error, match in (
        (["B-X", "O"], "bio2", ValueError, "scheme must be"),
        (["E-X", "O"], "iob2", ValueError, "'E-X'"),
        (["", "O"], None, ValueError, "'' is empty"),
        (["2-X", "O"], "iob2", ValueError, "'2-X' is not of the scheme"),
        ([1, 2], None, TypeError, "must be str, got 1"),
    ):
        export(_estimator(Chain(), labels, np.eye(2), intercept=False), tmp_path / "m")
        with pytest.raises(error, match=match):
            Tagger.load(tmp_path / "m").chunks(np.eye(2), scheme)


# Vectorizers

_TEXTS = st.sampled_from(["a", "b=a", "", "\t", "\n", "w", "\udcff", "=", "é"])
_VALUES = st.recursive(
    _TEXTS | st.booleans() | _EXACT | st.integers(-3, 3) | st.just(b"\xff"),
    lambda inner: (
        st.dictionaries(_TEXTS, inner, max_size=3)
        | st.lists(_TEXTS, max_size=3)
        | st.sets(_TEXTS, max_size=2)
        | st.lists(_EXACT, min_size=2, max_size=2).map(np.array)
    ),
    max_leaves=5,
)
_TOKENS = st.dictionaries(_TEXTS, _VALUES, max_size=4) | st.lists(_TEXTS, max_size=4)
_SEQUENCES = st.lists(st.lists(_TOKENS, max_size=4), min_size=1, max_size=3)


def _with_weights(vectorizer, seed):
    """A pipeline of a fitted vectorizer and drawn weights, some of them 0."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-8, 9, (vectorizer.n_features_out_ + 1, 3)) / 4
    weights[rng.random(len(weights)) < 0.3] = 0.0
    crf = _estimator(Chain(), ["a\tb", "c\nd", "\udcff"], weights, rng.integers(-8, 9, 9) / 4)
    return make_pipeline(vectorizer, crf)


def _same(model, X, tmp_path_factory):
    tagger = _through_file(model, tmp_path_factory)
    assert tagger.tag_batch(X) == [labels.tolist() for labels in model.predict(X)]
    expected = model[-1].predict_marginals(model[0].transform(X))
    for x, marginals in zip(X, expected, strict=True):
        assert_allclose(tagger.marginals(x), marginals, atol=1e-12)


@given(_SEQUENCES, _SEQUENCES, st.integers(0, 99), st.sampled_from(["=", ":", ""]))
def test_feature_dicts(tmp_path_factory, train, X, seed, separator):
    vectorizer = SequenceVectorizer(separator=separator)
    try:
        vectorizer.fit([*train, [["a"]]])
    except ValueError:  # lists of other lengths under one name
        return
    try:
        vectorizer.transform(X)
    except ValueError:
        with pytest.raises(ValueError, match="sample 0: token 0"):
            _through_file(_with_weights(vectorizer, seed), tmp_path_factory).tag_batch(
                [[token] for x in X for token in x if _is_refused(vectorizer, token)]
            )
        return
    _same(_with_weights(vectorizer, seed), [*train, *X], tmp_path_factory)


def _is_refused(vectorizer, token):
    try:
        vectorizer.transform([[token]])
    except ValueError:
        return True
    return False


_WORDS = st.sampled_from(["He", "runs", "", "a/b", "b", "/", "\n", "\udcff", "U2", "_B-1"])
_PATTERNS = st.sampled_from(["^\\u", "..?$", "\\d*", "a/b", "\\[\\(", "b*."])
_MACROS = st.one_of(
    st.builds("%x[{},{}]".format, st.integers(-3, 3), st.integers(0, 1)),
    st.builds("%X[@{},{}]".format, st.integers(-2, 2), st.integers(0, 1)),
    st.builds('%t[{},0,"{}"]'.format, st.integers(-6, 6), _PATTERNS),
    st.builds('%M[{},1,"{}"]'.format, st.integers(-1, 1), _PATTERNS),
)
_LINES = st.builds(
    lambda name, macros: f"U{name}:{'/'.join(macros)}",
    st.sampled_from(["", "1", "2"]),
    st.lists(_MACROS, max_size=3),
)


@given(
    st.lists(_LINES, min_size=1, max_size=4),
    st.sampled_from(["mark", "wapiti", "drop"]),
    st.lists(st.lists(st.tuples(_WORDS, _WORDS), min_size=1, max_size=6), min_size=1, max_size=3),
    st.lists(st.lists(st.tuples(_WORDS, _WORDS), max_size=6), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_templates(tmp_path_factory, lines, outside, train, X, seed):
    vectorizer = TemplateVectorizer("\n".join([*lines, "U", "B"]), outside=outside).fit(train)
    _same(_with_weights(vectorizer, seed), [*train, *X], tmp_path_factory)


def test_words_and_numbers_are_columns(tmp_path_factory):
    X = [["a", "b", "a"], ["b"]]
    model = _with_weights(TemplateVectorizer("U:%x[0,0]\nU2:%x[1,0]").fit(X), 0)
    _same(model, X, tmp_path_factory)
    model = _with_weights(TemplateVectorizer("U:%x[0,0]").fit([[(1, "a"), ("2", "b")]]), 0)
    _same(model, [[("1", "x"), (2, "y")]], tmp_path_factory)


# Real data

_CRFSUITE = "".join(
    [*(f"U{t}:%x[{t},0]\n" for t in range(-2, 3)), "U5:%x[-1,0]/%x[0,0]\nU6:%x[0,0]/%x[1,0]\n"]
    + [f"U1{t}:%x[{t},1]\n" for t in range(-2, 3)]
    + [f"U2{t}:%x[{t},1]/%x[{t + 1},1]\n" for t in range(-2, 2)]
    + [f"U3{t}:%x[{t},1]/%x[{t + 1},1]/%x[{t + 2},1]\n" for t in range(-2, 1)]
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("forbidden", [None, "iob2"])
def test_all_of_conll2000(shared_data, tmp_path_factory, forbidden):
    X, y = [], []
    for name in ("train", "test"):
        data = load_conll(shared_data / f"conll2000/{name}.txt.gz", ["word", "pos", "chunk"])
        X.append([list(zip(*own, strict=True)) for own in zip(data.word, data.pos, strict=True)])
        y.append(list(data.chunk))
    crf = SAGCRF(Chain(forbidden=forbidden), max_iter=10, random_state=0)
    model = make_pipeline(TemplateVectorizer(_CRFSUITE, outside="drop"), crf)
    _same(model.fit(X[0][:1500], y[0][:1500]), X[1], tmp_path_factory)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_of_the_ocr_letters(shared_data, tmp_path_factory):
    data = np.load(shared_data / "ocr_letters/letters.npz")
    ends = np.cumsum(data["lengths"])[:-1]
    X = np.split(np.unpackbits(data["pixels"], axis=1).astype(float), ends)
    y = np.split(np.array([*"abcdefghijklmnopqrstuvwxyz"])[data["labels"]], ends)
    crf = SAGCRF(Chain(boundary=True), max_iter=8, random_state=0).fit(X[:600], y[:600])
    tagger = _through_file(crf, tmp_path_factory)
    assert tagger.tag_batch(X) == [labels.tolist() for labels in crf.predict(X)]
    found = np.concatenate([tagger.marginals(x) for x in X])
    assert_allclose(found, np.concatenate(crf.predict_marginals(X)), atol=1e-12)


# Without anything but NumPy

_ALONE = """
import sys
for name in ("numba", "llvmlite", "scipy", "sklearn", "joblib", *{hidden}):
    sys.modules[name] = None
import json
from {module} import Tagger
tagger = Tagger.load({path!r})
x = [{{"w": "Ada"}}, {{"w": "left"}}]
found = tagger.tag(x), tagger.marginals(x).tolist(), tagger.chunks(x), tagger.top_k(x, 2)
print(json.dumps(found))
"""


def _small_model():
    X, y = [[{"w": "Ada"}, {"w": "left"}, {"w": "x", "size": 2.0}]], [["B-PER", "O", "B-PER"]]
    return make_pipeline(SequenceVectorizer(), SAGCRF(random_state=0)).fit(X, y)


def test_without_numba_scipy_and_scikit_learn(tmp_path):
    export(_small_model(), tmp_path / "model.npz")
    tagger, x = Tagger.load(tmp_path / "model.npz"), [{"w": "Ada"}, {"w": "left"}]
    shutil.copy(lite.__file__, tmp_path / "copied.py")
    expected = [tagger.tag(x), tagger.marginals(x).tolist(), tagger.chunks(x), tagger.top_k(x, 2)]
    for module, hidden in (("skstruct.lite", []), ("copied", ["skstruct"])):
        code = _ALONE.format(module=module, hidden=hidden, path=str(tmp_path / "model.npz"))
        code = f"import sys; sys.path.append({str(tmp_path)!r})\n{code}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == json.loads(json.dumps(expected))


@pytest.mark.slow
def test_threads_share_a_tagger(tmp_path_factory):
    model = _small_model()
    tagger = _through_file(model, tmp_path_factory)
    X = [[{"w": "Ada"}] * n for n in range(1, 200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: (tagger.tag(x), tagger.chunks(x)), X))
    assert found == [(tagger.tag(x), tagger.chunks(x)) for x in X]


# Files of CRFsuite


@pytest.fixture(scope="module")
def crfsuite(tmp_path_factory):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(0)
    names = ["a", "b:c", "", "é", "d\n", b"\xff".decode("utf-8", "surrogateescape")]
    X = [[[names[k], f"w{k}"] for k in rng.integers(0, 5, 5)] for _ in range(40)]
    y = [[f"L {'abc'[len(token[0]) % 3]}\n" for token in x] for x in X]
    trainer = pycrfsuite.Trainer(verbose=False, params={"c2": 0.1, "max_iterations": 15})
    for x, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), labels)
    path = tmp_path_factory.mktemp("crfsuite") / "model"
    trainer.train(str(path))
    return path, [*X, [["never seen", "a", "a"]], [{"b": "c", "w": ["0"], "a": 2.5, "d\n": True}]]


def test_crfsuite_models(crfsuite):
    import pycrfsuite

    path, X = crfsuite
    tagger, theirs, ours = Tagger.load(path), pycrfsuite.Tagger(), SAGCRF.from_crfsuite(path)
    theirs.open(str(path))
    expected = ours[-1].predict_marginals(ours[0].transform(X))
    for x, marginals in zip(X, expected, strict=True):
        theirs.set(pycrfsuite.ItemSequence(x))
        assert tagger.tag(x) == theirs.tag()
        assert_allclose(tagger.marginals(x), marginals, atol=1e-12)
        assert_allclose(
            tagger.marginals(x),
            [[theirs.marginal(label, t) for label in tagger.classes] for t in range(len(x))],
            atol=1e-10,
        )
    assert tagger.classes == ours.classes_.tolist()


def test_what_crfsuite_reads_can_be_exported(crfsuite, tmp_path_factory):
    path, X = crfsuite
    _same(SAGCRF.from_crfsuite(path), X, tmp_path_factory)


# Damaged files


def _predictions(path, X):
    tagger = Tagger.load(path)
    return tagger.classes, tagger.tag_batch(X), [tagger.marginals(x).tolist() for x in X]


def _damaged(data, rng, n):
    for size in rng.integers(0, len(data), n // 4).tolist():
        yield data[:size]
    for _ in range(n):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), int(rng.integers(1, 4))).tolist():
            broken[at] = int(rng.integers(0, 256))
        yield bytes(broken)


def _exported(kind, path):
    if kind == "dicts":
        X = [[{"w": "Ada"}, {"size": 1.5}], []]
        export(_small_model(), path)
    elif kind == "templates":
        X = [[("He", "PRP"), ("runs", "VBZ")], [("She", "PRP")]]
        lines = 'U1:%x[0,0]\nU2:%x[-1,1]/%x[0,1]\nU3:%m[0,0,".$"]'
        export(_with_weights(TemplateVectorizer(lines).fit(X), 1), path)
    else:
        X = [np.eye(3), np.zeros((0, 3))]
        graph = Chain(boundary=True, forbidden=[("a", "b"), (None, "a")])
        weights = np.random.default_rng(0).normal(size=(6, 2))
        export(_estimator(graph, ["a", "b"], weights, np.eye(2)), path)
    return X


@pytest.mark.parametrize("kind", ["dicts", "templates", "arrays"])
def test_a_damaged_file_is_refused_or_predicts_the_same(tmp_path, kind):
    path = tmp_path / "model.npz"
    X, refused = _exported(kind, path), 0
    expected, data = _predictions(path, X), path.read_bytes()
    tracemalloc.start()
    for broken in _damaged(data, np.random.default_rng(5), 400):
        path.write_bytes(broken)
        try:
            found = _predictions(path, X)
        except ValueError:
            refused += 1
        else:
            assert found == expected
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > 300
    assert peak < 2**24


def test_headers_that_numpy_tokenizes(tmp_path):
    path = tmp_path / "model.npz"
    _exported("arrays", path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, content in members.items():
        with zipfile.ZipFile(path, "w") as archive:
            for other, own in members.items():
                archive.writestr(other, content.replace(b"}", b"(", 1) if other == name else own)
        with pytest.raises(ValueError, match="is damaged, or not a model"):
            Tagger.load(path)


def test_a_damaged_crfsuite_file_is_refused_or_read(crfsuite, tmp_path):
    data, path, refused = crfsuite[0].read_bytes(), tmp_path / "model", 0
    tracemalloc.start()
    for broken in _damaged(data, np.random.default_rng(6), 400):
        path.write_bytes(broken)
        try:
            tagger = Tagger.load(path)
        except ValueError:
            refused += 1
        else:  # a flipped bit of a weight or a name: the format has no checksum
            assert np.isfinite(tagger.marginals(crfsuite[1][0])).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > 100
    assert peak < 8 * (2**24 + 64 * len(data)) + 2**24


def test_names_that_overlap_do_not_fill_the_memory(tmp_path):
    name, n = struct.pack("<2I", 0, 2**20 + 1) + b"a" * 2**20 + b"\0", 100
    label = struct.pack("<2I", 0, 2) + b"A\0"
    content = struct.pack("<4s2I", b"FEAT", 12, 0)
    starts = []
    for record, offsets in ((label, [24]), (name, [24] * n)):
        starts.append(48 + len(content))
        back = 24 + len(record)
        header = struct.pack("<4s5I", b"CQDB", back + 4 * len(offsets), 0, 0, len(offsets), back)
        content += header + record + struct.pack(f"<{len(offsets)}I", *offsets)
    size = 48 + len(content)
    header = struct.pack("<4sI4s9I", b"lCRF", size, b"FOMC", 100, 0, 1, n, 48, *starts, 0, 0)
    (tmp_path / "model").write_bytes(header + content)
    for load in (Tagger.load, SAGCRF.from_crfsuite):
        tracemalloc.start()
        with pytest.raises(ValueError, match="names overlap"):
            load(tmp_path / "model")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * size


def _changed(path, **changes):
    """The arrays of a file with some of them replaced, and fields of its header."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    for name, value in changes.items():
        if name in header:
            header[name] = value
        elif value is None:
            arrays.pop(name)
        else:
            arrays[name] = value
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"version": 2}, "version is 2"),
        ({"format": "other"}, "skstruct.export has not written it"),
        ({"structure": "tree"}, "no model"),
        ({"n_features": 2**40}, "too many for a file"),
        ({"n_features": 4}, "shape"),
        ({"n_features": -1}, "no model"),
        ({"n_features": True}, "no model"),
        ({"labels": ["a"] * 10_000}, "sorted"),
        ({"labels": [str(k) for k in range(10**4, 3 * 10**4)]}, "too many"),
        ({"labels": ["b", "a"]}, "sorted"),
        ({"labels": [1, "a"]}, "sorted"),
        ({"labels": [float("nan"), 1.0]}, "sorted"),
        ({"labels": []}, "sorted"),
        ({"labels": [["a"], ["b"]]}, "sorted"),
        ({"labels": "ab"}, "sorted"),
        ({"reader": {"kind": "dicts"}}, "names"),
        ({"reader": {"kind": "pickle"}}, "pickle"),
        ({"node": np.full((3, 2), np.nan)}, "finite"),
        ({"node": np.full((3, 2), -np.inf)}, "finite"),
        ({"node": np.full((3, 2), 1e200)}, "too large"),
        ({"steps": np.full((2, 2), np.inf)}, "finite"),
        ({"node": np.zeros((2, 3))}, "shape"),
        ({"node": np.zeros((3, 2), dtype=complex)}, "complex"),
        ({"node": np.zeros((3, 2), dtype="U3")}, "U3"),
        ({"node": None}, "node"),
        ({"header": np.zeros((2, 2))}, "damaged"),
        ({"node": None, "node_values": np.ones(2), "node_gaps": np.uint8([0, 1])}, "outside"),
        ({"node": None, "node_values": np.ones(2), "node_gaps": np.uint8([6, 1])}, "outside"),
        ({"node": None, "node_values": np.ones(2), "node_gaps": np.uint8([1])}, "entries"),
        ({"node": None, "node_values": np.ones(1), "node_gaps": np.int8([1])}, "int8"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(tmp_path, changes, match):
    path = tmp_path / "model.npz"
    weights = np.random.default_rng(0).normal(size=(3, 2))
    export(_estimator(Chain(), ["a", "b"], weights, np.ones((2, 2)), intercept=False), path)
    assert Tagger.load(path).classes == ["a", "b"]
    if "header" in changes:
        np.savez(path, **changes)
    else:
        _changed(path, **changes)
    with pytest.raises(ValueError, match=match):
        Tagger.load(path)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"names": np.frombuffer(b"aa", np.uint8), "name_lengths": np.uint8([1, 1])}, "twice"),
        ({"name_lengths": np.uint8([9] * 4)}, "lengths"),
        ({"names": np.frombuffer(b"\xff" * 3, np.uint8)}, "utf-8"),
        ({"reader": {"kind": "dicts", "separator": 3, "vectors": {}}}, "names for"),
    ],
)
def test_wrong_names_are_refused(tmp_path, changes, match):
    path = tmp_path / "model.npz"
    export(_small_model(), path)
    _changed(path, **changes)
    with pytest.raises(ValueError, match=match):
        Tagger.load(path)


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("outside", "nothing", "outside"),
        ("groups", [2, 1], "macros"),
        ("templates", [[0, [["x", False, 0, 7, "", False]]]], "no template"),
        ("templates", [[0, [["m", False, 0, 0, "(a*)*b", False]]]], "pattern"),
        ("templates", [[0, [["m", False, 0, 0, "a**", False]]]], "repeat"),
        ("templates", [[0, []]], "macros"),
        ("templates", [[5, []]], "range"),
    ],
)
def test_wrong_templates_are_refused(tmp_path, field, value, match):
    path = tmp_path / "model.npz"
    export(_with_weights(TemplateVectorizer("U1:%x[0,0]").fit([["a", "b"]]), 1), path)
    with np.load(path) as file:
        reader = json.loads(file["header"].tobytes())["reader"]
    _changed(path, reader=reader | {field: value})
    with pytest.raises(ValueError, match=match):
        Tagger.load(path)


def test_a_small_file_cannot_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, header=np.zeros(2**28, dtype=np.uint8))
    tracemalloc.start()
    with pytest.raises(ValueError, match="too large for the file"):
        Tagger.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("header.npy", bytes(2**20))
    with pytest.raises(ValueError, match="compression"):
        Tagger.load(path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", head.getvalue())
    with pytest.raises(ValueError, match="damaged"):
        Tagger.load(path)


def _peak_of_loading(path, match):
    tracemalloc.start()
    with pytest.raises(ValueError, match=match):
        Tagger.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ({}, {"codes_0": np.zeros((10**7, 1), np.uint8)}),
        ({}, {"name_lengths": np.zeros(10**7, np.uint8)}),
        ({}, {"names": np.full(2**25, 97, np.uint8)}),
        ({}, {"node": np.zeros((10**7, 1))}),
        ({}, {"ends": np.zeros((3, 10**7))}),
        ({"groups": [0]}, {"codes_0": np.zeros((10**7, 0), np.uint8)}),
        ({"groups": [10**7]}, {"codes_0": np.zeros((1, 10**7), np.uint8)}),
        ({"groups": [0, 10**9]}, {"codes_1": np.zeros((1, 10**7), np.uint8)}),
        ({"outside": [0] * 10**7}, {}),
    ],
)
def test_sizes_are_compared_before_arrays_are_read(tmp_path, field, changes):
    """Arrays that are zipped to a thousandth, of which lists and dicts would be made."""
    path = tmp_path / "model.npz"
    export(_with_weights(TemplateVectorizer("U1:%x[0,0]").fit([["a", "b"]]), 1), path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    header["reader"] |= field
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez_compressed(path, **(arrays | changes))
    assert _peak_of_loading(path, "damaged, or not a model") < 2**23


@pytest.mark.parametrize("n", [10**6, 10**7])
def test_features_with_names_are_in_proportion_to_the_file(tmp_path, n):
    path = tmp_path / "model.npz"
    export(_small_model(), path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes()) | {"n_features": n}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays["name_lengths"] = np.zeros(n, np.uint8)
    np.savez_compressed(path, **arrays)
    assert _peak_of_loading(path, "too many for a file") < 2**20


def test_pickles_are_not_read(tmp_path):
    np.savez(tmp_path / "model.npz", header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="object"):
        Tagger.load(tmp_path / "model.npz")
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a file of"):
        Tagger.load(tmp_path / "other")


# Samples that are none


@pytest.mark.parametrize(
    ("x", "error", "match"),
    [
        ([{"w": "a"}, "word"], TypeError, "token 1: a str"),
        ([{"w": "a"}, {1: "a"}], TypeError, "token 1: 1 is of type int"),
        ([{"w": object()}], TypeError, "'w' is of type object"),
        ([{"w": [1, "a"]}], TypeError, "item of 'w'"),
        ([{"w": float("nan")}], ValueError, "token 0: .*not finite"),
        ([{"w": 10**400}], ValueError, "not finite"),
        ([{"size": 1e308}], FloatingPointError, "overflow"),
        ([[1]], TypeError, "token 0: 1 is of type int"),
        ("words", TypeError, "got a str"),
        (iter([]), TypeError, "sequence of tokens"),
    ],
)
def test_samples_that_are_none(tmp_path_factory, x, error, match):
    tagger = _through_file(_small_model(), tmp_path_factory)
    tagger._weights[tagger._reader.row["size"]] = 5.0
    for call in (tagger.tag, tagger.marginals):
        with pytest.raises(error, match=match):
            call(x)
    with pytest.raises(error, match=f"sample 1: .*{match}"):
        tagger.tag_batch([[], x])


def test_a_dict_in_itself(tmp_path_factory):
    token = {"w": "a"}
    token["again"] = token
    with pytest.raises(ValueError, match="nested"):
        _through_file(_small_model(), tmp_path_factory).tag([token])


def test_arrays_that_are_none(tmp_path_factory):
    model = _estimator(Chain(), ["a", "b"], np.eye(2), intercept=False)
    tagger = _through_file(model, tmp_path_factory)
    for x, error, match in (
        (np.eye(3), ValueError, r"\(nodes, 2\)"),
        ([[np.nan, 1.0]], ValueError, "finite"),
        ([[1e308, 1.0]], FloatingPointError, "overflow"),
        (np.ones(2), ValueError, "shape"),
        (np.ma.array(np.eye(2), mask=np.eye(2)), ValueError, "masked"),
        (np.eye(2) + 1j, TypeError, "complex128"),
        (np.zeros((1, 2), "M8[s]"), TypeError, "datetime64"),
    ):
        with pytest.raises(error, match=match):
            tagger.tag(x)
    assert tagger.tag([]) == []
    for form in ("csr", "lil", "dok"):
        assert tagger.tag(sparse.csr_matrix(np.eye(2)).asformat(form)) == ["a", "b"]
    assert tagger.tag(np.eye(2, dtype=np.float32)) == ["a", "b"]
    for k in (0, 1.5, True):
        with pytest.raises(ValueError, match="k must be"):
            tagger.top_k(np.eye(2), k)


def test_a_table_takes_one_row(tmp_path_factory):
    model = _estimator(MultiClass(), ["a", "b"], np.eye(2), intercept=False)
    tagger = _through_file(model, tmp_path_factory)
    assert tagger.tag_batch(sparse.csr_array(np.eye(2))) == ["a", "b"]
    for n in (0, 2):
        with pytest.raises(ValueError, match=rf"shape \(1, 2\) were expected, got \({n}, 2\)"):
            tagger.tag(sparse.csr_matrix((n, 2)))


class _Tag(str, enum.Enum):  # noqa: UP042
    ADA = "a"

    def __str__(self):
        return "other"


def test_members_of_an_enum_are_their_values(tmp_path_factory):
    X = [[{"w": _Tag.ADA, "in": {"v": [_Tag.ADA]}}, [_Tag.ADA], {_Tag.ADA: "b"}]]
    plain = [[{"w": "a", "in": {"v": ["a"]}}, ["a"], {"a": "b"}]]
    for x, same, vectorizer in (
        (X, plain, SequenceVectorizer()),
        ([[_Tag.ADA, "b"]], [["a", "b"]], TemplateVectorizer("U:%x[0,0]")),
    ):
        for fitted in (vectorizer.fit(x), vectorizer.fit(same)):
            model = _with_weights(fitted, 0)
            assert {*map(type, fitted.vocabulary_)} == {str}
            _same(model, [*x, *same], tmp_path_factory)
            assert model.predict(x)[0].tolist() == model.predict(same)[0].tolist()


def test_token_rows_that_are_none(tmp_path_factory):
    model = _with_weights(TemplateVectorizer("U1:%x[0,1]").fit([[("a", "b")]]), 1)
    tagger = _through_file(model, tmp_path_factory)
    for x, match in (
        ([("a", "b"), ("a",)], "token 1 has 1 columns; 2"),
        (["a"], "token 0 has 1 columns"),
        ([{"a": "b"}], "token 0 is"),
        ([b"ab"], "token 0 is"),
        ([("a", None)], "None"),
        ([("a", b"b")], "b'b'"),
        ([("a", ["b"])], r"\['b'\] is no str"),
        ([{"a", "b"}], "token 0 is"),
    ):
        with pytest.raises(ValueError, match=match):
            tagger.tag(x)
    with pytest.raises(TypeError, match="got a DataFrame"):
        tagger.tag(pd.DataFrame({"a": ["a"], "b": ["b"]}))


def test_structural_svms_have_no_probabilities(tmp_path_factory):
    X, y = [np.eye(2)], [["a", "b"]]
    svm = BCFWSSVM(random_state=0).fit(X, y)
    tagger = _through_file(svm, tmp_path_factory)
    assert tagger.tag_batch(X) == [["a", "b"]]
    for call in (tagger.marginals, tagger.chunks):
        with pytest.raises(ValueError, match="structural SVM"):
            call(X[0])


@pytest.mark.parametrize("suffix", [".skops", ".joblib", ".pickle"])
def test_files_of_estimators_are_named(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"PK\3\4")
    with pytest.raises(ValueError, match=f"{suffix} files hold estimators"):
        Tagger.load(path)


def test_a_list_of_sequences_is_for_tag_batch(tmp_path):
    for model, x in (
        (_small_model(), [{"w": "a"}]),
        (_small_model(), [["w=a"]]),
        (_with_weights(TemplateVectorizer("U1:%x[0,1]").fit([[("a", "b")]]), 1), [("a", "b")]),
    ):
        export(model, tmp_path / "model.npz")
        tagger = Tagger.load(tmp_path / "model.npz")
        assert len(tagger.tag(x)) == 1
        with pytest.raises(TypeError, match="tag_batch"):
            tagger.tag([x])


def test_a_slow_pattern_is_refused_before_it_runs(tmp_path):
    path = tmp_path / ("long name" * 27 + ".npz")  # 247 bytes
    export(_with_weights(TemplateVectorizer("U1:%x[0,0]").fit([["a", "b"]]), 1), path)
    with np.load(path) as file:
        reader = json.loads(file["header"].tobytes())["reader"]
    slow = "a*?" * 20 + "b"
    _changed(path, reader=reader | {"templates": [[0, [["m", False, 0, 0, slow, False]]]]})
    tagger = Tagger.load(path)
    assert len(tagger.tag(["ab", "b"])) == 2
    with pytest.raises(ValueError, match="busy"):
        tagger.tag(["a" * 100])


def test_a_tagger_is_not_made_by_its_name():
    with pytest.raises(TypeError, match=r"read from a file: Tagger.load\('x.npz'\)"):
        Tagger("x.npz")
    with pytest.raises(TypeError, match=r"Tagger.load\(path\)"):
        Tagger()
