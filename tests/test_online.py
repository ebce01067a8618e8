"""Decoding of streams against the best labellings of all that has come."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skstruct import (
    BCFWSSVM,
    SAGCRF,
    AtMostOnce,
    Chain,
    OnlineDecoder,
    SemiChain,
    SmoothedClassifier,
    decode,
)
from skstruct.decoding import Transitions


def _draw(seed, n, n_labels, holes):
    rng = np.random.default_rng(seed)
    scores, table = rng.normal(size=(n, n_labels)), rng.normal(size=(n_labels, n_labels))
    if holes:
        table[rng.random(table.shape) < 0.3] = -np.inf
        np.fill_diagonal(table, 0.0)
    start, stop = rng.normal(size=(2, n_labels))
    return scores, table, start, stop, rng


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(0, 30), n_labels=st.sampled_from([1, 3, 8, 30]),
    lag=st.sampled_from([0, 1, 2, 5, 40]), holes=st.booleans(),
)  # fmt: skip
def test_labels_are_those_of_the_best_labelling_so_far(seed, n, n_labels, lag, holes):
    scores, table, start, stop, rng = _draw(seed, n, n_labels, holes)
    online = OnlineDecoder(table, lag=lag, start=start, stop=stop)
    for _ in range(2):  # finish begins another stream
        found, at = [], 0
        while at < n:
            size = int(rng.integers(0, 5))
            found += online.push(scores[at : at + size]).tolist()
            at = min(at + size, n)
            assert len(found) == max(at - lag, 0)
            assert online.n_nodes_ == at
        for t, label in enumerate(found):
            assert label == decode(scores[: t + lag + 1], table, start=start)[t]
        rest = online.finish().tolist()
        assert len(found + rest) == n
        if rest:
            assert rest == decode(scores, table, start=start, stop=stop)[-len(rest) :].tolist()


def test_names_schemes_and_tables_that_were_learned():
    labels = ["O", "B-X", "I-X"]
    scores = np.log([[0.5, 0.4, 0.1], [0.3, 0.1, 0.6], [0.1, 0.2, 0.7]])
    online = OnlineDecoder(lag=1, scheme="bio", labels=labels)
    assert online.push(scores).tolist() == ["B-X", "I-X"]
    assert online.finish().tolist() == ["I-X"]
    learned = Transitions(np.zeros((3, 3)), np.array([0.0, -np.inf, 0.0]), np.zeros(3))
    assert OnlineDecoder(learned, lag=0).push([0.0, 9.0, 1.0]).tolist() == [2]
    for labels in (None, 3, [], iter("ab")):
        with pytest.raises(ValueError, match="without transitions, labels must be a list"):
            OnlineDecoder(lag=1, labels=labels)


def test_a_pickle_goes_on():
    scores, table, *_ = _draw(0, 20, 30, True)
    online = OnlineDecoder(table, lag=3)
    first = online.push(scores[:11]).tolist()
    other = pickle.loads(pickle.dumps(online))
    for own in (online, other):
        rest = own.push(scores[11:]).tolist() + own.finish().tolist()
        assert rest == OnlineDecoder(table, lag=3).push(scores).tolist()[8:] + rest[-3:]
    assert len(first + rest) == 20
    online.push(scores[:5])
    online.reset()
    assert online.n_nodes_ == 0
    assert online.push(scores[:11]).tolist() == first


def test_memory_is_that_of_the_window():
    _, table, *_ = _draw(0, 1, 20, False)
    online, rng = OnlineDecoder(table, lag=10), np.random.default_rng(0)
    chunk = 1e3 + rng.normal(size=(500, 20))  # sums would grow without end
    online.push(chunk)
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    for _ in range(40):
        online.push(chunk)
    assert tracemalloc.get_traced_memory()[0] - held < 10_000
    tracemalloc.stop()
    assert np.abs(online._best).max() < 1e3


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"transitions": np.zeros((2, 3)), "lag": 1}, r"of shape \(K, K\), got \(2, 3\)"),
        ({"transitions": [[1.0, 2.0], [3.0]], "lag": 1}, "transitions is not an array of numbers"),
        ({"transitions": [], "lag": 1}, r"of shape \(K, K\), got \(0,\)"),
        ({"transitions": [[np.nan]], "lag": 1}, "transitions has the value nan"),
        ({"transitions": 3.0, "lag": 1}, r"transitions must be of shape \(K, K\)"),
        ({"transitions": np.zeros((2, 2)), "lag": -1}, "lag must be an integer of at least 0"),
        ({"transitions": np.zeros((2, 2)), "lag": 1, "start": [0.0]}, "start must be of shape"),
        ({"transitions": np.zeros((2, 2)), "lag": 1, "labels": ["a"]}, "labels must be 2"),
        ({"transitions": Transitions(np.eye(2), np.ones(2), np.ones(2)), "lag": 1, "stop": [0, 0]},
         "start and stop are among the transitions"),
    ],
)  # fmt: skip
def test_bad_arguments(how, message):
    with pytest.raises(ValueError, match=message):
        OnlineDecoder(how.pop("transitions"), **how)


def test_bad_scores():
    online = OnlineDecoder([[0.0, -np.inf], [0.0, 0.0]], lag=1, stop=[-np.inf, 0.0])
    with pytest.raises(ValueError, match=r"scores must be of shape \(n_nodes, 2\), got \(1, 3\)"):
        online.push([0.0, 0.0, 0.0])
    online.push([0.0, -np.inf])
    with pytest.raises(ValueError, match=r"value nan at \(1, 0\): numbers of 1e\+300"):
        online.push([[0.0, 0.0], [np.nan, 0.0]])
    assert online.push([]).tolist() == []
    assert repr(online) == "OnlineDecoder(n_labels=2, lag=1, n_nodes_=1)"  # none was taken in
    with pytest.raises(ValueError, match="node 2: no labelling is allowed"):
        online.push([[0.0, 0.0], [-np.inf, 0.0]])
    assert online.n_nodes_ == 0
    online.push([0.0, -np.inf])
    with pytest.raises(ValueError, match="no labelling may end here"):
        online.finish()
    assert online.finish().tolist() == []


def test_a_lag_beyond_memory():
    with pytest.raises(MemoryError, match="lower lag"):
        OnlineDecoder(np.zeros((2, 2)), lag=10**15)


_OPTIONS = {"max_iter": 20, "tol": 0.1, "random_state": 0}


def _tags(seed=0):
    """Sequences with the tags of chunks that are hard to tell from the features."""
    rng = np.random.default_rng(seed)
    y = [["O", "B-X", "I-X", "I-X", "O", "B-X"], ["B-X", "B-X", "I-X", "O"]] * 8
    codes = [np.array([["O", "B-X", "I-X"].index(label) for label in own]) for own in y]
    return [np.eye(3)[own] + rng.normal(size=(len(own), 3)) for own in codes], y


@pytest.mark.parametrize("estimator", [SAGCRF, BCFWSSVM])
@pytest.mark.parametrize(
    "options", [{}, {"boundary": True}, {"boundary": True, "forbidden": "bio"}]
)
def test_a_trained_chain_streams_what_it_predicts(estimator, options):
    X, y = _tags()
    model = estimator(Chain(**options), **_OPTIONS).fit(X, y)
    # Without the ends and the scheme other labels would be best somewhere.
    hard = [np.random.default_rng(i).normal(size=(9, 3)) for i in range(20)]
    online = OnlineDecoder.from_model(model, lag=9)
    for x, best in zip(hard, model.predict(hard), strict=True):
        early = online.push(x @ model.coef_.T + model.intercept_).tolist()
        assert early + online.finish().tolist() == best.tolist()


def test_wrappers_stream_what_is_inside():
    X, y = _tags()
    smoothed = SmoothedClassifier(LogisticRegression(), cv=2).fit(X, y)
    online, own = OnlineDecoder.from_model(smoothed, lag=9), smoothed.smoother_
    for x, best in zip(X, smoothed.predict(X), strict=True):
        scores = np.log(np.clip(smoothed.classifier_.predict_proba(x), 0.01, None))
        online.push(scores @ own.coef_.T + own.intercept_)
        assert online.finish().tolist() == best.tolist()
    piped = make_pipeline("passthrough", SAGCRF(**_OPTIONS)).fit(X, y)
    online = OnlineDecoder.from_model(piped, lag=9)
    online.push(X[0] @ piped[-1].coef_.T + piped[-1].intercept_)
    assert online.finish().tolist() == piped.predict(X[:1])[0].tolist()


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Chain(order=2), r"Chain\(order=2\) cannot be streamed"),
        (Chain(rules=[AtMostOnce(0)]), r"Chain\(rules=.*\) cannot be streamed"),
        (Chain(states_per_label=2), "a stream has no hidden states: labels of Chain"),
        (SemiChain(), r"must be fitted on Chain\(\), got SemiChain"),
    ],
)
def test_other_models_are_no_streams(graph, message):
    model = SAGCRF(graph, **_OPTIONS).fit([np.eye(3)] * 2, [[0, 1, 1], [1, 1, 1]])
    with pytest.raises(TypeError, match=message):
        OnlineDecoder.from_model(model, lag=1)


def test_edge_features_and_foreign_models_are_no_streams():
    X, y = [(np.eye(3), np.ones((2, 1)))], [[0, 1, 1]]
    model = SAGCRF(Chain(edge_features=True), **_OPTIONS).fit(X, y)
    with pytest.raises(TypeError, match=r"Chain\(edge_features=True\) cannot be streamed"):
        OnlineDecoder.from_model(model, lag=1)
    with pytest.raises(TypeError, match=r"fitted on Chain\(\), got LogisticRegression"):
        OnlineDecoder.from_model(LogisticRegression().fit(np.eye(2), [0, 1]), lag=1)
