"""Decoding against librosa and hmmlearn, where these are installed, as CI does."""

import numpy as np
import pytest
from scipy.stats import norm

from skstruct import OnlineDecoder, decode, log_partition, marginals

SIZES = [(30, 4, None), (60, 25, 3), (40, 90, 9)]  # steps, labels, width of a band


@pytest.fixture
def sequence():
    """The module librosa.sequence, which loads what is deprecated elsewhere."""
    return pytest.importorskip("librosa.sequence")


def _chain(n_labels, width, rng):
    """Probabilities of first labels and of steps."""
    table = rng.random((n_labels, n_labels))
    if width is not None:
        labels = np.arange(n_labels)
        table[np.abs(labels[:, None] - labels) > width] = 0.0
    return rng.dirichlet(np.ones(n_labels)), table / table.sum(axis=1, keepdims=True)


def _log(values):
    with np.errstate(divide="ignore"):
        return np.log(values)


@pytest.mark.parametrize(("n", "n_labels", "width"), SIZES)
def test_viterbi_of_librosa(sequence, n, n_labels, width):
    rng = np.random.default_rng(n)
    first, table = _chain(n_labels, width, rng)
    likelihoods = rng.random((n_labels, n))
    path, value = sequence.viterbi(likelihoods, table, p_init=first, return_logp=True)
    scores, steps = np.log(likelihoods.T), _log(table)
    assert decode(scores, steps, start=np.log(first)).tolist() == path.tolist()
    found = np.log(first)[path[0]] + scores[np.arange(n), path].sum()
    np.testing.assert_allclose(found + steps[path[:-1], path[1:]].sum(), value)
    online = OnlineDecoder(steps, lag=n, start=np.log(first))
    assert [*online.push(scores), *online.finish()] == path.tolist()


@pytest.mark.parametrize(("n", "n_labels", "width"), SIZES)
def test_viterbi_discriminative_of_librosa(sequence, n, n_labels, width):
    rng = np.random.default_rng(n)
    first, table = _chain(n_labels, width, rng)
    posteriors, priors = rng.dirichlet(np.ones(n_labels), n).T, rng.dirichlet(np.ones(n_labels))
    path = sequence.viterbi_discriminative(posteriors, table, p_state=priors, p_init=first)
    scores = np.log(posteriors.T) - np.log(priors)
    assert decode(scores, _log(table), start=np.log(first)).tolist() == path.tolist()


def test_viterbi_binary_of_librosa(sequence):
    rng = np.random.default_rng(0)
    posteriors, tables = rng.random((3, 50)), np.array([[[0.9, 0.1], [0.2, 0.8]]] * 3)
    priors, first = np.array([0.3, 0.5, 0.6]), np.array([0.4, 0.5, 0.7])
    right = sequence.viterbi_binary(posteriors, tables, p_state=priors, p_init=first)
    for p, table, prior, own, path in zip(posteriors, tables, priors, first, right, strict=True):
        scores = np.log(np.column_stack([(1 - p) / (1 - prior), p / prior]))
        assert decode(scores, np.log(table), start=np.log([1 - own, own])).tolist() == path.tolist()


@pytest.mark.parametrize(("n", "n_labels", "width"), SIZES)
def test_models_of_hmmlearn(n, n_labels, width):
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(n)
    model = hmm.GaussianHMM(n_labels, covariance_type="diag")
    model.startprob_, model.transmat_ = _chain(n_labels, width, rng)
    model.means_, model.covars_ = rng.normal(size=(n_labels, 2)), 0.5 + rng.random((n_labels, 2))
    model.n_features, X = 2, rng.normal(size=(n, 2))
    spread = np.sqrt(np.array([np.diag(own) for own in model.covars_]))
    scores = norm.logpdf(X[:, None], model.means_, spread).sum(axis=2)
    chain = {"transitions": _log(model.transmat_), "start": np.log(model.startprob_)}
    value, path = model.decode(X)
    assert decode(scores, **chain).tolist() == path.tolist()
    np.testing.assert_allclose(log_partition(scores, **chain), model.score(X))
    chances = marginals(scores, **chain)
    np.testing.assert_allclose(chances, model.predict_proba(X), atol=1e-10)
    assert chances.argmax(axis=1).tolist() == model.decode(X, algorithm="map")[1].tolist()
    steps = chain["transitions"][path[:-1], path[1:]].sum()
    found = chain["start"][path[0]] + scores[np.arange(n), path].sum() + steps
    np.testing.assert_allclose(found, value)
