"""One call on one sentence: it costs the same for few known features and for very many.

Times are not asserted (see benchmarks/bench_vocabulary.py); what goes over all names or weights
also allocates an array of that size, and memory is counted exactly.
"""

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from skstruct import SAGCRF, AtMostOnce, Chain, TemperatureScaling, export
from skstruct.lite import Tagger
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer, make_sequence_union
from skstruct.preprocessing.template import _position

N = 50_000
WORDS = [f"w{j}" for j in range(N)]
SENTENCE = ["w7", "unknown", "w40000", "w7"]
LISTS, DICTS = [[word] for word in SENTENCE], [{word: True, "w": 9} for word in SENTENCE]
COLUMNS = [(word, word) for word in SENTENCE]


def _peak(call):
    """Bytes that a call allocates at most; what is done once (compiles, imports) does not count."""
    call()
    peaks = []
    for _ in range(3):
        tracemalloc.start()
        try:
            call()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


def _dicts(**options):
    return SequenceVectorizer(**options).fit([[WORDS]])


def _templates(text):
    return TemplateVectorizer(text).fit([[(word, word) for word in WORDS]])


def _crf(X, graph):
    """A model with weights for all features of a vectorizer, trained on a sentence."""
    return SAGCRF(graph, max_iter=2, tol=10.0, random_state=0).fit(X, [["B-A", "O", "O", "B-A"]])


def _transforms():
    yield "lists", _dicts(), LISTS
    yield "dicts", _dicts(), DICTS
    union = make_sequence_union(SequenceVectorizer(), SequenceVectorizer())
    yield "union", union.fit([[WORDS]]), LISTS
    yield "a macro", _templates("U:%x[0,0]"), COLUMNS
    yield "macros", _templates("U0:%x[0,0]/%x[-1,1]\nU1:%x[0,0]/%x[0,1]/%x[1,1]"), COLUMNS
    yield "edges", _templates("U:%x[0,0]\nB:%x[0,0]/%x[-1,0]"), COLUMNS


@pytest.mark.filterwarnings("ignore:X. no feature of its:UserWarning")
@pytest.mark.parametrize(
    ("vectorizer", "x"), [pytest.param(v, x, id=name) for name, v, x in _transforms()]
)
def test_a_sentence_costs_the_same_for_any_number_of_known_features(tmp_path, vectorizer, x):
    assert _peak(lambda: vectorizer.transform([x])) < N
    X = vectorizer.transform([x])
    has_edges = isinstance(X, np.ndarray)
    model = _crf(X, Chain(edge_features=has_edges))
    scaled = TemperatureScaling(FrozenEstimator(model)).fit(X, [["B-A", "O", "O", "B-A"]])
    for one in (model, pickle.loads(pickle.dumps(model)), scaled):
        for method in ("predict", "predict_marginals", "predict_chunks", "predict_entropy"):
            assert _peak(lambda one=one, method=method: getattr(one, method)(X)) < N, method
        assert _peak(lambda one=one: one.sample(X, 2, random_state=0)) < N
    rules = [AtMostOnce("B-A")]  # which the best labelling breaks
    model.node_weights_ = model.node_weights_ * 0.0
    model.pair_weights_[..., 0] = 1.0
    assert _peak(lambda: model.predict(X, rules=rules)) < 3 * N
    if not has_edges and not hasattr(vectorizer, "transformers_"):
        export(make_pipeline(vectorizer, model), tmp_path / "model.npz")
        tagger = Tagger.load(tmp_path / "model.npz")
        for method in (tagger.tag, tagger.marginals, tagger.chunks):
            assert _peak(lambda method=method: method(x)) < N


@pytest.mark.slow
def test_models_of_other_programs_cost_the_same(tmp_path):
    vectorizer = _dicts(separator=":")
    crf = SAGCRF(fit_intercept=False, max_iter=2, tol=10.0, random_state=0)
    crf.fit(vectorizer.transform([LISTS]), [["A", "B", "B", "A"]])
    crf.node_weights_ = np.ones((N, 2))
    crf.to_crfsuite(tmp_path / "crfsuite")
    read = SAGCRF.from_crfsuite(tmp_path / "crfsuite")
    assert len(read[0].vocabulary_) == N
    assert _peak(lambda: read.predict([LISTS])) < N
    template = TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]", outside="wapiti").fit([WORDS])
    crf = SAGCRF(Chain(edge_features=True), fit_intercept=False, max_iter=2, tol=10.0)
    crf.fit(template.transform([SENTENCE]), [["A", "B", "B", "A"]])
    crf.node_weights_ = np.ones((N, 2))
    crf.pair_weights_ = np.ones(crf.pair_weights_.shape)
    crf.to_wapiti(tmp_path / "wapiti", template)
    read = SAGCRF.from_wapiti(tmp_path / "wapiti")
    assert len(read[1].pair_weights_) > N
    assert _peak(lambda: read.predict([SENTENCE])) < N


@pytest.mark.parametrize("n_keys", [1, 5, 200, 20_000])
@pytest.mark.parametrize("n_known", [0, 1, 40, 1000])
@pytest.mark.parametrize("largest", [2000, 2**61])
def test_places_of_keys(n_keys, n_known, largest):
    """By a search, by a table of all and by hashes."""
    rng = np.random.default_rng(n_keys + n_known)
    table = np.unique(rng.integers(0, largest, n_known))
    keys = np.append(rng.integers(-1, largest, n_keys), table[: n_keys // 2])
    place = {key: j for j, key in enumerate(table.tolist())}
    assert _position(table, keys).tolist() == [place.get(key, -1) for key in keys.tolist()]
