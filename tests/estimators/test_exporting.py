"""`export` writes what `skstruct.lite` reads, or names what it cannot write."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skstruct import SAGCRF, Chain, MultiClass, MultiLabel, ProxLinearSSVM, Tree, export
from skstruct.datasets import Shards, pack_shards
from skstruct.lite import Tagger
from skstruct.preprocessing import PerNode, SequenceVectorizer, TemplateVectorizer

# An empty label is one of them.
pytestmark = pytest.mark.filterwarnings("ignore:y. '' is a class:UserWarning")

X = [[["w=a", "rare\t\n"], ["w=b"]], [["w=b", ""], ["w=a"]]]
Y = [["A\tB", ""], ["\ud83d\ude00", "A\tB"]]  # two surrogates, which are not one character


def _same(model, X, path):
    export(model, path)
    found = Tagger.load(path).tag_batch(X)
    assert found == [labels.tolist() for labels in model.predict(X)]


@pytest.mark.parametrize("options", [{}, {"l1_ratio": 1.0, "C": 2.0}, {"fit_intercept": False}])
def test_odd_labels_and_names(tmp_path, options):
    model = make_pipeline(SequenceVectorizer(), SAGCRF(random_state=0, **options)).fit(X, Y)
    _same(model, X, tmp_path / "model")


def test_arrays_in_single_precision(tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 90)).astype(np.float32) for _ in range(6)]
    y = [rng.integers(0, 3, 4) for _ in X]
    model = SAGCRF(random_state=0).fit(X, y)
    _same(model, X, tmp_path / "model")
    size = (tmp_path / "model").stat().st_size
    _same(model.sparsify(0.05, dtype="float32"), X, tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < size


def test_models_trained_on_shards(tmp_path):
    vectorizer = SequenceVectorizer().fit(X)
    pack_shards(X, Y, tmp_path / "shards", vectorizer=vectorizer, graph="chain")
    crf = SAGCRF(graph="chain", random_state=0).fit(Shards(tmp_path / "shards"))
    _same(make_pipeline(vectorizer, crf), X, tmp_path / "model")


def test_tables(tmp_path):
    rng = np.random.default_rng(0)
    table, labels = rng.normal(size=(20, 3)), rng.integers(0, 3, 20) > 1
    model = SAGCRF(MultiClass(), random_state=0).fit(table, labels)
    export(model, tmp_path / "model")
    tagger, expected = Tagger.load(tmp_path / "model"), model.predict(table).tolist()
    assert tagger.tag_batch(table) == tagger.tag_batch(sparse.csr_matrix(table)) == expected


def _fitted(*steps):
    return make_pipeline(*steps, SAGCRF(random_state=0)).fit(X, Y)


def _features(sequences):
    return SequenceVectorizer().fit(X).transform(sequences)


_ARRAYS, _LABELS = [np.eye(2)], [["a", "b"]]


def _refused():
    hashed = SequenceVectorizer(hashing=True, n_features=8)
    yield "hashing", lambda: _fitted(hashed), "hashing=True"
    yield "function", lambda: _fitted(FunctionTransformer(_features)), "step FunctionTransformer"
    first = FunctionTransformer()
    yield "before", lambda: _fitted(first, SequenceVectorizer()), "step FunctionTransformer"
    scaled = make_pipeline(PerNode(StandardScaler()), SAGCRF(random_state=0))
    yield "scaler", lambda: scaled.fit(_ARRAYS, _LABELS), "step PerNode"
    rows, table = np.eye(2)[[0, 1, 0, 1]], make_pipeline(StandardScaler(), SAGCRF(MultiClass()))
    yield "table", lambda: table.fit(rows, [0, 1, 0, 1]), "step StandardScaler"
    edges = SAGCRF(Chain(edge_features=True), random_state=0)
    pairs = [(np.eye(2), np.ones((1, 1)))]
    yield "edges", lambda: edges.fit(pairs, _LABELS), r"Chain\(edge_features=True\)"
    templates = make_pipeline(TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]"), edges)
    words = [["a", "b"]]
    yield "templates", lambda: templates.fit(words, _LABELS), "edge_features"
    sets = SAGCRF(MultiLabel(), random_state=0)
    yield "sets", lambda: sets.fit(np.eye(2), np.eye(2, dtype=int)), "MultiLabel"
    tree = SAGCRF(Tree(), random_state=0)
    yield "tree", lambda: tree.fit([(np.eye(2), [-1, 0])], _LABELS), "Tree"
    prox = ProxLinearSSVM(score_map="mlp", max_iter=1, random_state=0)
    yield "mlp", lambda: prox.fit(_ARRAYS, _LABELS), "linear scores, .* ProxLinearSSVM"
    yield "search", lambda: _Search(SAGCRF(), {}), "export its best_estimator_"
    yield "vectorizer", lambda: SequenceVectorizer().fit(X), "got SequenceVectorizer"
    yield "nothing", lambda: None, "got NoneType"
    bytes_ = SAGCRF(random_state=0)
    yield "bytes", lambda: bytes_.fit(_ARRAYS, [[b"a", b"b"]]), "labels of type bytes"
    other = SAGCRF(random_state=0).fit(_ARRAYS, _LABELS)
    mixed = make_pipeline(SequenceVectorizer().fit(X), other)
    yield "mixed", lambda: mixed, "makes 4 features, .* fitted on 2"
    two = make_pipeline(SequenceVectorizer(), SAGCRF(random_state=0)).fit([[["a"], ["b"]]], _LABELS)
    swapped = make_pipeline(SequenceVectorizer().fit([[["a"], ["c"]]]), two[-1])
    yield "swapped", lambda: swapped, "feature names should match"
    yield "broken", lambda: _with(other, node_weights_=np.full((3, 2), np.nan)), "not finite"
    yield "shape", lambda: _with(other, pair_weights_=np.zeros((1, 3))), "damaged"


class _Search(GridSearchCV):
    best_estimator_ = None


def _with(model, **attributes):
    other = SAGCRF()
    vars(other).update(vars(model) | attributes)
    return other


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("make", "match"), [pytest.param(m, w, id=n) for n, m, w in _refused()])
def test_what_cannot_be_exported_is_named(tmp_path, make, match):
    with pytest.raises((TypeError, ValueError), match=match):
        export(make(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_models_that_are_not_fitted(tmp_path):
    for model in (SAGCRF(), make_pipeline(SequenceVectorizer(), SAGCRF())):
        with pytest.raises(NotFittedError):
            export(model, tmp_path / "model")
    crf = SAGCRF(random_state=0).fit(_ARRAYS, _LABELS)
    with pytest.raises(NotFittedError):
        export(make_pipeline(SequenceVectorizer(), crf), tmp_path / "model")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        export(SAGCRF(random_state=0).fit(_ARRAYS, _LABELS), tmp_path / "none" / "model")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_not_a_file_is_not_replaced(tmp_path):
    model, pipe = SAGCRF(random_state=0).fit(_ARRAYS, _LABELS), tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(FileExistsError, match="is not a regular file"):
            export(model, path)
    assert pipe.is_fifo()


_WRITER = """
import numpy as np, sys
from skstruct import SAGCRF, export
rng = np.random.default_rng(0)
model = SAGCRF(random_state=0).fit([np.eye(2)], [["a{k}", "b{k}"]])
print(flush=True)
for _ in range(50):
    export(model, {path!r})
"""


@pytest.mark.slow
def test_two_processes_that_export_at_once(tmp_path):
    path = str(tmp_path / "model.npz")
    codes = [_WRITER.format(k=k, path=path) for k in range(2)]
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for code in codes
    ]
    for process in processes:
        process.stdout.readline()
    found = set()
    while any(process.poll() is None for process in processes):
        try:
            found.add(tuple(Tagger.load(path).classes))
        except FileNotFoundError:
            continue
    assert [process.wait() for process in processes] == [0, 0]
    found.add(tuple(Tagger.load(path).classes))
    for process in processes:
        process.stdout.close()
    assert found <= {("a0", "b0"), ("a1", "b1")}
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]
