"""A sample without any labelling, or whose scores overflow, is an error everywhere."""

import itertools

import numpy as np
import pytest
from scipy.stats import entropy

from skstruct import SAGCRF, Chain, Exactly, decode, log_partition, marginals, top_k
from skstruct import sample as draw

NO = -np.inf
EYE = np.eye(2)
ARRAYS = {
    "decode": decode,
    "top_k": lambda *given, **how: top_k(given[0], 3, *given[1:], **how),
    "marginals": marginals,
    "log_partition": log_partition,
    "sample": lambda *given, **how: draw(given[0], 2, *given[1:], random_state=0, **how),
}
IMPOSSIBLE = {
    "steps": ((np.zeros((3, 2)), [[NO, 0], [NO, NO]]), {"labels": ["ok", "bad"]}),
    "all steps": ((np.zeros((3, 2)), [[NO, NO], [NO, NO]]), {}),
    "scores": (([[0.0, 0.0], [NO, NO], [0.0, 0.0]],), {}),
    "start": ((np.zeros((1, 2)),), {"start": [0, NO], "stop": [NO, 0]}),
    "scheme": (([[NO, 0.0]],), {"labels": ["O", "I-X"], "scheme": "iob2"}),
    "rules": ((np.zeros((3, 2)),), {"rules": [Exactly(1, 0), Exactly(3, 1)]}),
    "per step": ((np.zeros((3, 2)), [[[0, NO], [NO, NO]], [[NO, NO], [0, 0]]]), {}),
    "second": (([np.zeros((1, 2)), np.zeros((3, 2))], [[NO, 0], [NO, NO]]), {}),
}


@pytest.mark.filterwarnings("ignore:scheme='iob2' allows no sequence")
@pytest.mark.parametrize("what", IMPOSSIBLE)
@pytest.mark.parametrize("name", ARRAYS)
def test_functions_on_arrays_refuse_samples_without_a_labelling(name, what):
    given, how = IMPOSSIBLE[what]
    with pytest.raises(ValueError, match=f"sample {int(what == 'second')}: no labelling"):
        ARRAYS[name](*given, **how)


@pytest.fixture(scope="module")
def crf():
    return SAGCRF(random_state=0).fit([EYE, EYE[::-1]] * 3, [["D", "N"], ["N", "D"]] * 3)


PREDICTIONS = {
    "predict": {},
    "predict_top_k": {"k": 2},
    "predict_marginals": {},
    "predict_log_likelihood": {"y": [["D", "N"]]},
    "predict_entropy": {},
    "predict_chunks": {"scheme": "runs"},
    "sample": {},
}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_predictions_refuse_samples_without_a_labelling(crf, name):
    rules = [Exactly(2, "D"), Exactly(1, "N")]
    with pytest.raises(ValueError, match="sample 0: no labelling satisfies"):
        getattr(crf, name)([EYE], rules=rules, **PREDICTIONS[name])


@pytest.mark.parametrize("name", PREDICTIONS)
def test_predictions_refuse_samples_that_are_too_short(name):
    chain = Chain(forbidden=[(None, "N"), ("D", None)])
    crf = SAGCRF(chain, random_state=0).fit([EYE] * 3, [["D", "N"]] * 3)
    how = PREDICTIONS[name] | ({"y": [["D", "N"], ["D"]]} if "y" in PREDICTIONS[name] else {})
    with pytest.raises(ValueError, match="sample 1: no labelling satisfies"):
        getattr(crf, name)([EYE, EYE[:1]], **how)


@pytest.mark.parametrize("name", [*PREDICTIONS, "decision_function", "predict_proba"])
@pytest.mark.parametrize("scale", [1e303, 1e308])
def test_predictions_refuse_scores_that_overflow(crf, name, scale):
    with pytest.raises(FloatingPointError, match="sample 0: the scores overflow"):
        getattr(crf, name)([EYE * scale], **PREDICTIONS.get(name, {}))


@pytest.mark.parametrize("scale", [1e303, 1e308])
def test_likelihoods_of_partial_labels_refuse_scores_that_overflow(crf, scale):
    with pytest.raises(FloatingPointError, match="sample 1: the scores overflow"):
        crf.predict_log_likelihood([EYE, EYE * scale], [["D", None]] * 2)


def test_entropies_and_draws_under_rules_are_conditional(crf):
    """Those of the labellings that obey, by their likelihoods."""
    rules = [Exactly(1, "D")]
    X = [np.array([[0.3, -1.0], [2.0, 0.5], [-0.7, 0.1]]), EYE, EYE[:0]]
    entropies = crf.predict_entropy(X, rules=rules)
    draws = crf.sample(X, 20_000, random_state=0, rules=rules)
    assert entropies[2] == 0.0
    assert draws[2].shape == (20_000, 0)
    for x, found, drawn in zip(X[:2], entropies, draws, strict=False):
        every = [*itertools.product(["D", "N"], repeat=len(x))]
        chances = np.exp(crf.predict_log_likelihood([x] * len(every), every, rules=rules))
        np.testing.assert_allclose(chances.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(found, entropy(chances), rtol=1e-9)
        places = (drawn == "N") @ (2 ** np.arange(len(x))[::-1])
        counts, n = np.bincount(places, minlength=len(every)), len(drawn)
        deviation = np.sqrt(n * chances * (1 - chances)) + 1e-9
        assert (np.abs(counts - n * chances) <= 5 * deviation).all()
    np.testing.assert_array_equal(
        crf.predict_proba(X[:1], rules=rules)[0], crf.predict_marginals(X[:1], rules=rules)[0]
    )
