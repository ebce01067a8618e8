"""A structure from outside the package works everywhere, by what Graph documents alone."""

import importlib
import os
import pickle
import re
import textwrap
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from skstruct import (
    BCFWSSVM,
    GDMMSSVM,
    SAGCRF,
    AtMostOnce,
    Candidates,
    CasimirSSVM,
    Chain,
    Exactly,
    ExtragradientSSVM,
    Grid,
    MultiClass,
    MultiLabel,
    Pairwise,
    ProxLinearSSVM,
    SubgradientSSVM,
    Tree,
)
from skstruct.core import add_outer, inner_kernel, kernel, oracles, scores
from skstruct.core.factors import PairwiseFactors
from skstruct.core.offsets import ends_of
from skstruct.data.packing import pack_nodes, packed
from skstruct.graphs import Graph, LabelSpace, OwnRows, PairwiseSpace, Problem
from skstruct.graphs.chain import Sequences
from skstruct.inspection import coef_frame, explain, top_features
from skstruct.rows.blocks import BlockRows
from skstruct.spaces.choice import MultiClassSpace
from skstruct.spaces.forest import ForestSpace
from skstruct.spaces.pairwise import NetworkSpace
from skstruct.testing import check_structure, random_sequences, training_problem


class Words(NamedTuple):
    """Packed words, with another field than any structure of the package has."""

    features: np.ndarray
    offsets: np.ndarray
    names: np.ndarray

    @property
    def lengths(self):
        return np.diff(self.offsets)

    @property
    def n_edges(self):
        return np.maximum(self.lengths - 1, 0)

    def take(self, keep):
        nodes = np.repeat(keep, self.lengths)
        return Words(self.features[nodes], ends_of(self.lengths[keep]), self.names[keep])

    def without_empty(self):
        keep = self.lengths > 0
        return self._replace(offsets=self.offsets[np.append(True, keep)], names=self.names[keep])


class Named(Graph):
    """Chains that come as dicts of a name and an array of letters."""

    def read_X(self, estimator, X, reset):
        features, offsets = pack_nodes([word["letters"] for word in X], "X")
        if reset:
            estimator.n_features_in_ = features.shape[1]
        return Words(features, offsets, np.array([word["name"] for word in X]))

    def no_samples(self, estimator):
        nothing = np.empty((0, estimator.n_features_in_))
        return Words(nothing, np.zeros(1, dtype=np.int64), np.empty(0, dtype=str))

    def weight_shapes(self, samples, n_classes, fit_intercept):
        return (samples.features.shape[1] + bool(fit_intercept), n_classes), (1, n_classes**2)

    def make_problem(self, samples, classes, fit_intercept, **options):
        sequences = Sequences(samples.features, samples.offsets)
        return Chain().make_problem(sequences, classes, fit_intercept, **options)

    def edge_ends(self, samples):
        first = np.setdiff1d(np.arange(samples.offsets[-1]), samples.offsets[1:] - 1)
        return first, first + 1


class Described(Named):
    """The same, which says what its nodes and edges are."""

    def factors(self, problem, samples):
        return PairwiseFactors(
            nodes=problem.rows.nodes,
            node_ptr=samples.offsets,
            edge_ptr=ends_of(samples.n_edges),
            ends=np.stack(self.edge_ends(samples), axis=1),
            labels=problem.labels,
            allowed=problem.space.allowed,
            cost=problem.target.cost,
            share=np.ones(len(samples.names)),
            mask=problem.space.transition_mask,
        )


@packed()
class Bags(NamedTuple):
    """Nodes of samples, in no order."""

    features: np.ndarray
    offsets: np.ndarray


class VoterRows(OwnRows):
    """A feature map of one's own: two verbs, and no more."""


@oracles.potentials.register(VoterRows)
@kernel
def _(rows, i, w, theta):
    first, stop = rows.row_ptr[i], rows.row_ptr[i + 1]
    scores(rows.nodes, first, stop, rows.width, w.node, w, rows.work.row, theta, 0)


@oracles.accumulate.register(VoterRows)
@kernel
def _(rows, i, r, c, w):
    first, stop = rows.row_ptr[i], rows.row_ptr[i + 1]
    add_outer(rows.nodes, first, stop, rows.width, r, 0, c, w.node, w, rows.work.row)


class VoteSpace(LabelSpace):
    """All nodes of a sample have one label: three verbs, and no more."""

    structure = "Vote"


@oracles.add_indicator.register(VoteSpace)
@kernel
def _(space, i, labels, c, mu):
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        mu[t * space.allowed.shape[1] + labels[t]] += c


@inner_kernel
def _count(space, i, theta):
    """Write the votes for each label to scratch."""
    n_labels, votes = space.allowed.shape[1], space.work.own.votes
    for k in range(n_labels):
        votes[k] = 0.0
        for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
            votes[k] += theta[t * n_labels + k]


@oracles.max_oracle.register(VoteSpace)
@kernel
def _(space, i, theta, labels):
    _count(space, i, theta)
    votes = space.work.own.votes
    best = np.argmax(votes)
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        labels[t] = best
    return votes[best]


@oracles.exp_oracle.register(VoteSpace)
@kernel
def _(space, i, theta, temperature, mu):
    _count(space, i, theta)
    votes, total = space.work.own.votes, 0.0
    top = votes[np.argmax(votes)]
    for k in range(votes.size):
        total += np.exp((votes[k] - top) / temperature)
    for q in range(min(mu.size, space.part_ptr[i + 1] - space.part_ptr[i])):
        mu[q] = np.exp((votes[q % votes.size] - top) / temperature) / total
    return top + temperature * np.log(total)


class Votes(NamedTuple):
    votes: np.ndarray


class Vote(Graph):
    space, rows = VoteSpace, VoterRows

    def read_X(self, estimator, X, reset):
        samples = Bags(*pack_nodes(X, "X"))
        if reset:
            estimator.n_features_in_ = samples.features.shape[1]
        return samples

    def no_samples(self, estimator):
        return Bags(np.empty((0, estimator.n_features_in_)), np.zeros(1, dtype=np.int64))

    def weight_shapes(self, samples, n_classes, fit_intercept):
        return (samples.features.shape[1] + bool(fit_intercept), n_classes), (0, 0)

    def make_problem(self, samples, classes, fit_intercept, **options):
        n_parts, scratch = samples.lengths * len(classes), Votes(np.empty(len(classes)))
        made = self, samples, classes, fit_intercept, n_parts
        return self.space.make_problem(*made, rows=self.rows, scratch=scratch, **options)

    def is_labelling(self, codes, samples, classes):
        bags = np.split(codes, samples.offsets[1:-1])[: len(samples.lengths)]
        return np.array([len(set(bag.tolist())) == 1 for bag in bags], dtype=bool)


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(3)
    y = np.arange(12) % 3
    X = [rng.normal(size=(int(rng.integers(1, 4)), 4)) + np.eye(4)[k] for k in y]
    return X, y, [np.full(len(x), k) for x, k in zip(X, y, strict=True)]


@pytest.mark.parametrize("loss", ["hamming", "normalized_hamming"])
def test_four_verbs_make_a_structure(loss, bags):
    X, _, labels = bags
    known = [(k,) * n for n in range(1, 4) for k in range(3)]
    check_structure(Vote(), X[:4], labels[:4], loss=loss, labellings=known)


class DifferenceSpace(VoteSpace):
    structure = "Differences"


@oracles.max_oracle.register(DifferenceSpace)
@kernel
def _(space, i, theta, labels):
    _count(space, i, theta)
    votes = space.work.own.votes
    first = votes[0]
    for k in range(votes.size):
        votes[k] -= first
    best = np.argmax(votes)
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        labels[t] = best
    return first + votes[best]


class Differences(Vote):
    space = DifferenceSpace


def test_an_oracle_that_subtracts_infinities_is_named(bags):
    X, _, labels = bags
    known = [(k,) * n for n in range(1, 4) for k in range(3)]
    with pytest.raises(AssertionError, match="max_marginals by max_oracle: NaN, such as -inf -"):
        check_structure(Differences(), X[:4], labels[:4], labellings=known)


VOTERS = [
    SAGCRF(tol=1e-9, max_iter=500, random_state=0, solver="sag"),
    SAGCRF(tol=1e-9, solver="lbfgs"),
    BCFWSSVM(tol=1e-6, max_iter=500, random_state=0, loss="normalized_hamming"),
    CasimirSSVM(tol=1e-3, random_state=0, loss="normalized_hamming"),
    CasimirSSVM(tol=1e-3, random_state=0, loss="normalized_hamming", smoothing="entropy"),
    SubgradientSSVM(max_iter=2000, random_state=0, loss="normalized_hamming"),
    ExtragradientSSVM(tol=1e-3, max_iter=1000, loss="normalized_hamming"),
    ProxLinearSSVM(max_iter=50, random_state=0, loss="normalized_hamming"),
]


@pytest.mark.thinned
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", VOTERS, ids=lambda estimator: type(estimator).__name__)
def test_four_verbs_train_every_estimator(estimator, bags):
    """A bag of nodes that share a label is one node whose features are their sum."""
    X, y, labels = bags
    estimator = clone(estimator).set_params(fit_intercept=False)
    table = np.array([x.sum(axis=0) for x in X])
    expected = clone(estimator).set_params(graph="multiclass").fit(table, y)
    voted = estimator.set_params(graph=Vote()).fit(X, labels)
    assert_allclose(voted.objective_, expected.objective_, rtol=2e-3)
    assert_allclose(voted.coef_, expected.coef_, atol=0.05)
    assert [bag[0] for bag in voted.predict(X)] == expected.predict(table).tolist()
    ranked, _ = voted.predict_top_k(X[:2], k=3)
    for bag, row in zip(ranked, expected.predict_top_k(table[:2], k=3)[0], strict=True):
        assert bag[:, 0].tolist() == row[:, 0].tolist()


class MisspeltSpace(VoteSpace):
    structure = "Misspelt"


@oracles.max_oracle.register(MisspeltSpace)
@kernel
def _(space, i, theta, labels):
    return space.work.own.vote[0]


@kernel
def _solve(problem, theta, labels):
    return oracles.max_oracle(problem, 0, theta, labels)


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing compiles")
def test_errors_of_kernels_are_told_in_short(bags):
    X, _, y = bags
    problem = training_problem(Vote(), X, y)[0]
    problem = problem._replace(space=MisspeltSpace(*problem.space))
    theta, labels = np.zeros(9), np.zeros(3, dtype=np.int32)
    place = r"\(test_own_structure\.py, line \d+: return space\.work\.own\.vote\[0\]\)"
    reason = "Unknown attribute 'vote' of type Votes"
    said = f"^max_oracle of Misspelt does not compile: {reason} {place}$"
    with pytest.raises(TypeError, match=said):
        oracles.max_oracle(problem, 0, theta, labels)
    with pytest.raises(TypeError, match=said):
        _solve(problem, theta, labels)


class WordRows(NamedTuple):
    """Rows of words whose fields no solver knows."""

    words: tuple
    begin: np.ndarray
    width: int
    work: tuple


@oracles.potentials.register(WordRows)
@kernel
def _(rows, i, w, theta):
    first, stop = rows.begin[i], rows.begin[i + 1]
    scores(rows.words, first, stop, rows.width, w.node, w, rows.work.row, theta, 0)


@oracles.accumulate.register(WordRows)
@kernel
def _(rows, i, r, c, w):
    first, stop = rows.begin[i], rows.begin[i + 1]
    add_outer(rows.words, first, stop, rows.width, r, 0, c, w.node, w, rows.work.row)


oracles.gram.register(WordRows)(oracles.gram.registry[OwnRows])


class WordVote(Vote):
    """Votes by rows that are a NamedTuple of one's own."""

    def make_problem(self, *args, **options):
        problem = super().make_problem(*args, **options)
        return problem._replace(rows=WordRows(*problem.rows))


@pytest.mark.thinned
@pytest.mark.parametrize(
    "estimator",
    [
        SAGCRF(max_iter=3, random_state=0),
        SAGCRF(max_iter=3, random_state=0, solver="sag"),
        SAGCRF(max_iter=3, random_state=0, solver="oeg", l1_ratio=0.5),
        SAGCRF(max_iter=3, random_state=0, solver="oeg"),
        SAGCRF(max_iter=3, random_state=0, l1_ratio=0.5),
        SAGCRF(max_iter=3, solver="lbfgs", l1_ratio=0.5),
        BCFWSSVM(max_iter=3, random_state=0),
        CasimirSSVM(max_iter=3, random_state=0),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_may_be_any_record(estimator, bags):
    X, _, labels = bags
    X = list(map(sparse.csr_matrix, X)) if estimator.get_params().get("solver") == "oeg" else X
    own = clone(estimator).set_params(graph=WordVote()).fit(X, labels)
    expected = clone(estimator).set_params(graph=Vote()).fit(X, labels)
    assert_allclose(own.coef_, expected.coef_, atol=1e-9)


class RowsWithoutGram(NamedTuple):
    words: tuple
    begin: np.ndarray
    width: int
    work: tuple


class TargetWithoutLoss(NamedTuple):
    label_ptr: np.ndarray


for _verb in (oracles.potentials, oracles.accumulate):
    _verb.register(RowsWithoutGram)(_verb.registry[WordRows])


class VoteWithoutGram(Vote):
    def make_problem(self, *args, **options):
        problem = super().make_problem(*args, **options)
        target = TargetWithoutLoss(problem.label_ptr)
        return problem._replace(rows=RowsWithoutGram(*problem.rows), target=target)


def test_the_part_that_lacks_an_operation_is_named(bags):
    X, _, labels = bags
    lacks = "(?s)^RowsWithoutGram does not register gram\nTargetWithoutLoss does not .*task_loss"
    with pytest.raises(AssertionError, match=lacks):
        check_structure(VoteWithoutGram(), X, labels)
    with pytest.raises(
        TypeError, match=r"^gram is not available for VoteWithoutGram \(RowsWithoutGram\); use"
    ):
        SAGCRF(VoteWithoutGram(), solver="sag").fit(X, labels)
    with pytest.raises(TypeError, match=r"^task_loss is not .* \(TargetWithoutLoss\); "):
        BCFWSSVM(VoteWithoutGram()).fit(X, labels)


class SoftSpace(LabelSpace):
    """Marginals alone."""

    structure = "Soft votes"


class FreeSpace(LabelSpace):
    """Best labellings alone."""

    structure = "Hard votes"


oracles.add_indicator.register(SoftSpace)(oracles.add_indicator.registry[VoteSpace])
oracles.exp_oracle.register(SoftSpace)(oracles.exp_oracle.registry[VoteSpace])
oracles.add_indicator.register(FreeSpace)(oracles.add_indicator.registry[VoteSpace])
oracles.max_oracle.register(FreeSpace)(oracles.max_oracle.registry[VoteSpace])


class SoftVote(Vote):
    space = SoftSpace


class HardVote(Vote):
    space = FreeSpace


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_defaults_do_not_hide_what_they_need(bags):
    X, _, labels = bags
    crf = SAGCRF(SoftVote(), max_iter=3, random_state=0).fit(X, labels)
    assert len(crf.sample(X, 2, random_state=0)) == len(X)
    for method in (crf.predict, partial(crf.predict_top_k, k=2)):
        with pytest.raises(TypeError, match=r"\(Soft votes\) has no exact best labellings; call"):
            method(X)
    svm = BCFWSSVM(HardVote(), max_iter=3, random_state=0).fit(X, labels)
    assert [len(values) for values in svm.predict_top_k(X, k=2)[1]] == [2] * len(X)
    crf.graph_ = HardVote()
    with pytest.raises(TypeError, match=r"\(Hard votes\) has no marginals; call predict "):
        crf.sample(X, 2, random_state=0)


class AllOrNothing(NamedTuple):
    """Another label of the sample costs 1, however many nodes have it."""

    labels: np.ndarray
    begin: np.ndarray


class StrictSpace(VoteSpace):
    structure = "Strict votes"


@oracles.task_loss.register(AllOrNothing)
@kernel
def _(target, i, labels):
    return 0.0 if labels[0] == target.labels[target.begin[i]] else 1.0


@oracles.loss_augmented_max.register(StrictSpace)
@kernel
def _(problem, i, theta, labels, augmented):
    space, target = problem.space, problem.target
    _count(space, i, theta)
    votes = space.work.own.votes
    for k in range(votes.size):
        votes[k] += 0.0 if k == target.labels[target.begin[i]] else 1.0
    best = np.argmax(votes)
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        labels[t] = best
    return votes[best]


class StrictVote(Vote):
    space = StrictSpace

    def make_problem(self, samples, *args, codes=None, **options):
        target = AllOrNothing(np.empty(0, np.int32) if codes is None else codes, samples.offsets)
        return super().make_problem(samples, *args, codes=codes, target=target, **options)


@pytest.mark.slow
def test_a_target_of_ones_own_takes_the_place_of_costs_of_nodes(bags):
    X, y, labels = bags
    check_structure(StrictVote(), X[:4], labels[:4])
    svm = BCFWSSVM(StrictVote(), tol=1e-6, max_iter=500, random_state=0, fit_intercept=False)
    table = np.array([x.sum(axis=0) for x in X])
    expected = clone(svm).set_params(graph="multiclass").fit(table, y)
    assert_allclose(svm.fit(X, labels).objective_, expected.objective_, rtol=1e-4)
    with pytest.raises(TypeError, match="task loss of Strict votes does not add up over parts"):
        CasimirSSVM(StrictVote(), smoothing="entropy").fit(X, labels)


class DescribedRows(BlockRows):
    """Rows of nodes that only have a name of their own."""


class DescribedVote(Vote):
    rows = DescribedRows


@pytest.mark.slow
def test_rows_of_nodes_may_have_a_class_of_ones_own(bags):
    X, _, labels = bags
    check_structure(DescribedVote(), X[:4], labels[:4])
    assert type(training_problem(DescribedVote(), X, labels)[0].rows) is DescribedRows


@pytest.fixture(scope="module")
def sequences():
    return random_sequences(np.random.default_rng(0), n_samples=12)


def _words(X):
    return [{"name": f"word {i}", "letters": x} for i, x in enumerate(X)]


ESTIMATORS = [
    SAGCRF(tol=1e-2, random_state=0, solver="sag"),
    BCFWSSVM(tol=1e-2, random_state=0),
    CasimirSSVM(tol=0.1, random_state=0),
    SubgradientSSVM(max_iter=3, random_state=0),
    GDMMSSVM(tol=0.1, random_state=0),
]


@pytest.mark.thinned
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_every_estimator_trains_a_structure_of_ones_own(estimator, sequences):
    X, y = sequences
    weight = np.arange(len(X)) % 3
    expected = estimator.set_params(graph="chain").fit(X, y, weight)
    tables, answers = (expected.node_weights_, expected.pair_weights_), expected.predict(X)
    own = estimator.set_params(graph=Described()).fit(_words(X), y, weight)
    for table, other in zip(tables, (own.node_weights_, own.pair_weights_), strict=True):
        assert_array_equal(table, other)
    for labels, other in zip(answers, own.predict(_words(X)), strict=True):
        assert_array_equal(labels, other)
    assert own.predict([]).shape == (0,)
    allowed = [np.eye(len(own.classes_), dtype=bool)[[0] * len(x)] for x in X]
    assert {*np.concatenate(list(own.predict(_words(X), allowed)))} == {own.classes_[0]}
    loaded = pickle.loads(pickle.dumps(own.sparsify(1e-3)))
    assert_array_equal(loaded.node_weights_, own.node_weights_)
    assert loaded.score(_words(X), y) == own.score(_words(X), y)
    assert own.__sklearn_tags__().estimator_type is None


def test_the_contract_holds(sequences):
    # It is looked at for every structure of the package in test_structures.py and plain_verbs.py.
    X, y = sequences
    check_structure(Named(), _words(X[:4]), y[:4])


@pytest.mark.parametrize(
    ("method", "broken", "message"),
    [
        ("take", lambda words, keep: words, "take: lengths"),
        ("n_edges", property(lambda words: words.lengths), "edge_ends and n_edges"),
        ("lengths", property(lambda words: np.diff(words.offsets) + 1), "lengths and offsets"),
    ],
)
def test_a_broken_contract_is_named(method, broken, message, sequences, monkeypatch):
    X, y = sequences
    monkeypatch.setattr(Words, method, broken)
    with pytest.raises(AssertionError, match=message):
        check_structure(Named(), _words(X), y)


def test_what_a_structure_lacks_is_said_before_any_compile(sequences):
    X, y = sequences
    with pytest.raises(TypeError, match=r"GDMMSSVM is not available for Named: .*use BCFWSSVM"):
        GDMMSSVM(Named()).fit(_words(X), y)


class _OtherLabellings:
    """A make_problem that may return a space of one's own."""

    def make_problem(self, *args, **options):
        return super().make_problem(*args, **options)


@pytest.mark.parametrize("base", [Chain, Tree, Pairwise, Grid, MultiLabel])
def test_what_repeats_make_problem_is_not_inherited_past_it(base):
    ring = type("Ring", (_OtherLabellings, base), {})
    X, y = base().example(np.random.default_rng(0), False)
    with pytest.raises(TypeError, match="GDMMSSVM is not available for Ring: it does not descr"):
        GDMMSSVM(ring()).fit(X, y)
    assert ring.relaxation is Graph.relaxation
    described = type("Described", (ring,), {"factors": base.factors})()
    problem, samples, _, _ = training_problem(described, X, y)
    assert described.factors(problem, samples) is not None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rules_are_refused_where_labellings_do_not_heed_them(sequences):
    X, y = sequences
    ring, rules = type("Ring", (_OtherLabellings, Chain), {}), [AtMostOnce("a")]
    refused = pytest.raises(TypeError, match="rules are for Chain: Ring heeds none")
    with refused:
        check_structure(ring(rules=rules), X, y)
    with refused:
        BCFWSSVM(ring(rules=rules)).fit(X, y)
    crf = SAGCRF(max_iter=2).fit(X, y)
    crf.graph_ = ring()
    for method in (crf.predict, crf.predict_marginals, partial(crf.predict_top_k, k=2)):
        with refused:
            method(X, rules=rules)
    with refused:
        crf.sample(X, 2, rules=rules)


class Careless(Chain):
    """Takes rules, and does not heed them."""

    def make_problem(self, *args, **options):
        return Chain().make_problem(*args, **options)

    with_rules = Chain.with_rules


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_decoding_ends_where_labellings_do_not_heed_rules(sequences):
    X, y = sequences
    crf = SAGCRF(max_iter=2).fit(X, y)
    crf.graph_ = Careless()
    with pytest.raises(TypeError, match="make_problem of Careless ignores the rules"):
        crf.predict(X, rules=[Exactly(9, label) for label in "abc"])


class Data(NamedTuple):
    weights: object


class WithData(Vote):
    def __init__(self, data):
        self.data = data

    def make_problem(self, *args, **options):
        problem = super().make_problem(*args, **options)
        return problem._replace(space=problem.space._replace(own=Data(self.data)))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([1, 2], "list"),
        ({"a": 1}, "dict"),
        ("abc", "str"),
        (None, "NoneType"),
        (np.array([None]), "ndarray of object"),
        (np.array(["a"]), "ndarray of <U1"),
    ],
)
def test_data_that_kernels_do_not_take_are_named(data, kind, bags):
    X, _, labels = bags
    message = f"^own.weights of VoteSpace is of the type {kind}, but kernels take arrays"
    for fit in (partial(check_structure, WithData(data)), BCFWSSVM(WithData(data)).fit):
        with pytest.raises(TypeError, match=message):
            fit(X, labels)


class WrongSpace(VoteSpace):
    structure = "Wrong"


@oracles.max_oracle.register(WrongSpace)
@kernel
def _(space, i, theta, labels):
    for t in range(space.label_ptr[i + 1] - space.label_ptr[i]):
        labels[t] = 0
    return np.nan


class Wrong(Vote):
    space = WrongSpace


def test_errors_of_solvers_point_to_operations_of_ones_own(bags):
    X, _, labels = bags
    with pytest.raises(FloatingPointError, match=r"check_structure says whether .* of Wrong are"):
        BCFWSSVM(Wrong()).fit(X, labels)


class Forgetful(Vote):
    """Has scratch for the two best labellings at most."""

    def make_problem(self, *args, **options):
        return super().make_problem(*args, **options | {"n_best": 1})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scratch_for_fewer_labellings_is_refused(bags):
    X, _, labels = bags
    svm = BCFWSSVM(Forgetful(), max_iter=3, random_state=0).fit(X, labels)
    svm.predict_top_k(X, k=2)
    message = "work.n_best of VoteSpace has room for 2 labellings, not for 3: make_problem must"
    with pytest.raises(ValueError, match=message):
        svm.predict_top_k(X, k=3)
    with pytest.raises(ValueError, match=r"has room for 2 labellings, not for 5: make"):
        check_structure(Forgetful(), X[:4], labels[:4])


class OneColumn(Chain):
    """Its node table has one column, which all labels share."""

    def weight_shapes(self, samples, n_classes, fit_intercept):
        (n_rows, _), pairs = super().weight_shapes(samples, n_classes, fit_intercept)
        return (n_rows, 1), pairs


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_needs_a_column_of_weights_a_label_says_so(sequences):
    X, y = sequences
    crf = SAGCRF(max_iter=2).fit(X, y)
    crf.graph_ = OneColumn()
    crf.node_weights_ = crf.node_weights_[:, :1].copy()
    for method in (coef_frame, top_features, partial(explain, x=X[0])):
        with pytest.raises(
            ValueError, match="OneColumn has 1 columns of weights and 3 labels: this"
        ):
            method(crf)


class FewKept(Chain):
    def kept_columns(self, *arguments):
        node, pair = super().kept_columns(*arguments)
        return node[:-1], pair


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_that_are_not_those_of_the_weights_are_named(sequences):
    crf = SAGCRF(FewKept(), max_iter=2, warm_start=True, random_state=0).fit(*sequences)
    with pytest.warns(UserWarning, match="kept_columns of FewKept is of 2 columns, its node .* 3:"):
        crf.fit(*sequences)


class Unchecked(Chain):
    """Forbids pairs, and does not look at y."""

    def make_problem(self, samples, classes, fit_intercept, *, codes=None, **options):
        made = Chain.make_problem(self, samples, classes, fit_intercept, **options)
        problem = Chain().make_problem(samples, classes, fit_intercept, codes=codes, **options)
        return problem._replace(space=made.space)


@pytest.mark.parametrize("estimator", [SAGCRF(), BCFWSSVM()], ids=str)
def test_true_labels_with_a_forbidden_part_are_named(estimator):
    X, y = [np.eye(3)] * 3, [["a", "b", "a"], ["a", "b", "b"], ["b", "b", "b"]]
    graph = Unchecked(forbidden=[("b", "b")])
    with pytest.raises(ValueError, match="y: sample 1 has labels with a part that is forbidden"):
        estimator.set_params(graph=graph).fit(X, y)
    with pytest.raises(AssertionError, match="sample 1: y: the true labels have a part that is"):
        check_structure(graph, X, y)


class Bare(NamedTuple):
    """A part of a problem, without verbs."""

    part_ptr: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray
    work: tuple

    structure = "Bare words"


class WithoutVerbs(Named):
    part = Bare

    def make_problem(self, samples, classes, fit_intercept, *, codes=None, **options):
        part = self.part(samples.offsets, samples.offsets, codes, ())
        return Problem.of(part, part, part, codes)


class Abler(Bare):
    """A part with the verbs that a test asks for."""


def _register(monkeypatch, names):
    for name in names.split():
        monkeypatch.setitem(getattr(oracles, name).registry, Abler, lambda *arguments: None)


class WithSomeVerbs(WithoutVerbs):
    part = Abler


def test_verbs_that_all_training_needs_are_asked_for(sequences):
    X, y = sequences
    for estimator in ESTIMATORS:
        with pytest.raises(
            TypeError, match=r"potentials is not available for .*\(Bare words\).*Graph"
        ):
            estimator.set_params(graph=WithoutVerbs()).fit(_words(X), y)


TRAINS = "potentials accumulate truth add_indicator score "
DECODES = TRAINS + "task_loss max_oracle augment "


@pytest.mark.parametrize(
    ("estimator", "verbs", "message"),
    [
        (
            SAGCRF(),
            DECODES,
            r"\(Bare words\) has no .*; train .* or write the operation \(exp_oracle\)",
        ),
        (
            SAGCRF(solver="sag"),
            TRAINS + "exp_oracle",
            r'gram is not .*Bare words\); use solver="lbfgs"',
        ),
        (BCFWSSVM(), TRAINS, r"\(Bare words\) has no exact best labellings; train SAGCRF"),
        (BCFWSSVM(), TRAINS + "max_oracle", r"task_loss is not .*\(Bare words\); train SAGCRF"),
        (GDMMSSVM(), TRAINS + "max_oracle task_loss", "augment is not .*; train SAGCRF"),
        (BCFWSSVM(), DECODES, r"gram is not .*\(Bare words\); use SubgradientSSVM"),
        (CasimirSSVM(), DECODES, r"gram is not .*\(Bare words\); use SubgradientSSVM"),
        (CasimirSSVM(), DECODES + "gram", "no n-best labellings; use BCFWSSVM"),
        (
            CasimirSSVM(smoothing="entropy"),
            DECODES + "gram",
            r"no marginals; use BCFWSSVM.*\(exp_oracle\)",
        ),
        (
            CasimirSSVM(smoothing="entropy"),
            DECODES + "gram top_k_oracle",
            'no marginals; use smoothing="l2" or BCFWSSVM',
        ),
        (
            CasimirSSVM(),
            DECODES + "gram exp_oracle",
            'no n-best labellings; use smoothing="entropy" or BCFWSSVM',
        ),
    ],
)
def test_what_an_estimator_needs_is_asked_for(estimator, verbs, message, sequences, monkeypatch):
    X, y = sequences
    _register(monkeypatch, verbs)
    with pytest.raises(TypeError, match=message):
        estimator.set_params(graph=WithSomeVerbs()).fit(_words(X), y)


def test_an_own_loss_augmented_maximum_takes_the_place_of_augment(sequences, monkeypatch):
    X, y = sequences
    _register(monkeypatch, TRAINS + "max_oracle task_loss gram loss_augmented_max")
    with pytest.raises(TypeError, match=r"does not add up over parts; use BCFWSSVM"):
        CasimirSSVM(WithSomeVerbs()).fit(_words(X), y)


class FullSpace(PairwiseSpace):
    """Takes it that tables are full."""


for _verb in (oracles.add_indicator, oracles.score, oracles.max_oracle):
    _verb.register(FullSpace)(_verb.registry.get(NetworkSpace) or _verb.registry[ForestSpace])


class NarrowPairwise(Pairwise):
    def make_problem(self, *args, **options):
        problem = super().make_problem(*args, **options)
        return problem._replace(space=FullSpace(*problem.space))


def test_writing_beyond_the_parts_of_a_sample_is_told():
    X, y = Pairwise().example(np.random.default_rng(0), False)
    graph = NarrowPairwise(interactions="potts", forbidden=[("b", "a")])
    with pytest.raises(AssertionError, match="sample 0: potentials, or forbid, writes beyond"):
        check_structure(graph, X[:2], y[:2])


def test_all_operations_are_exported():
    verbs = {name for name, verb in vars(oracles).items() if hasattr(verb, "registry")}
    assert verbs <= set(oracles.__all__)


class Changed(Chain):
    """Chains whose problem has one field changed, and its parts, if they have it, too."""

    def __init__(self, name="part_ptr", change=None):
        super().__init__()
        self.name, self.change = name, change

    def make_problem(self, *args, **options):
        problem = super().make_problem(*args, **options)
        changed = {self.name: self.change(getattr(problem, self.name))}
        for part in ("space", "target"):
            known = getattr(problem, part)
            if self.name in known._fields:
                problem = problem._replace(**{part: known._replace(**changed)})
        return problem._replace(**changed)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("part_ptr", lambda ptr: ptr[:2], r"part_ptr must be an int64 array of \d+ numbers"),
        ("part_ptr", lambda ptr: ptr * 1.0, r"part_ptr must be an int64 array"),
        ("part_ptr", lambda ptr: ptr[::-1].copy(), "part_ptr must begin with 0"),
        ("part_ptr", np.negative, "part_ptr must begin with 0 and never decrease"),
        ("label_ptr", lambda ptr: 2 * ptr, r"labels must be the \d+ codes of y, int32: they are"),
        ("labels", lambda codes: codes[:0], r"labels must be the .*: they are 0 of int32"),
        ("labels", lambda codes: codes.astype(float), r"labels must be the .* of float64"),
    ],
)
def test_samples_that_begin_nowhere_are_refused_before_a_kernel_reads_them(
    name, change, message, sequences
):
    graph = Changed(name, change)
    with pytest.raises(ValueError, match=f"Problem.{message}"):
        check_structure(graph, *sequences)
    for estimator in (SAGCRF(graph), BCFWSSVM(graph)):
        with pytest.raises(ValueError, match=f"Problem.{message}"):
            estimator.fit(*sequences)


class Swapped(Chain):
    """Chains of which parts say something else than the problem."""

    def __init__(self, part="target", name="labels"):
        super().__init__()
        self.part, self.name = part, name

    def make_problem(self, *args, **options):
        problem = super().make_problem(*args, **options)
        part = getattr(problem, self.part)
        other = getattr(part, self.name)[::-1].copy()
        return problem._replace(**{self.part: part._replace(**{self.name: other})})


@pytest.mark.parametrize(
    ("part", "name", "message"),
    [
        ("target", "labels", r"labels must be those of its target: see Problem\.with_labels"),
        ("target", "label_ptr", "label_ptr must be that of its target"),
        ("space", "label_ptr", "label_ptr must be that of its space"),
        ("space", "part_ptr", "part_ptr must be that of its space"),
    ],
)
def test_parts_that_contradict_the_problem_are_refused(part, name, message, sequences):
    with pytest.raises(ValueError, match=f"Problem.{message}"):
        check_structure(Swapped(part, name), *sequences)
    with pytest.raises(ValueError, match=f"Problem.{message}"):
        BCFWSSVM(Swapped(part, name)).fit(*sequences)


class FirstSpace(LabelSpace):
    """Any labelling; the label of the first node has a part of its own, as the page's rows say."""


@oracles.add_indicator.register(FirstSpace)
@kernel
def _(space, i, labels, c, mu):
    n, n_labels = space.label_ptr[i + 1] - space.label_ptr[i], space.allowed.shape[1]
    for t in range(n):
        mu[t * n_labels + labels[t]] += c
    mu[n * n_labels + labels[0]] += c


@oracles.max_oracle.register(FirstSpace)
@kernel
def _(space, i, theta, labels):
    n, n_labels, total = space.label_ptr[i + 1] - space.label_ptr[i], space.allowed.shape[1], 0.0
    for t in range(n):
        top = -np.inf
        for k in range(n_labels):
            value = theta[t * n_labels + k] + (theta[n * n_labels + k] if t == 0 else 0.0)
            if value > top:
                top, labels[t] = value, k
        total += top
    return total


class First(Vote):
    is_labelling = Graph.is_labelling

    def __init__(self, rows=None):
        self.rows = rows

    def weight_shapes(self, samples, n_classes, fit_intercept):
        shape = samples.features.shape[1] + bool(fit_intercept), n_classes
        return shape, shape

    def make_problem(self, samples, classes, fit_intercept, **options):
        n_parts = (samples.lengths + 1) * len(classes)
        made = self, samples, classes, fit_intercept, n_parts
        return FirstSpace.make_problem(*made, rows=self.rows, **options)


def test_the_rows_of_the_page_are_a_feature_map(bags, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "doc" / "own_structure.rst").read_text("utf-8")
    (listing,) = re.findall(r"^   :caption: first_rows\.py\n\n((?:   .*\n|\n)+)", page, re.M)
    (tmp_path / "first_rows.py").write_text(textwrap.dedent(listing), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    X, _, labels = bags
    graph = First(importlib.import_module("first_rows").FirstRows)
    check_structure(graph, X[:4], labels[:4])
    model = BCFWSSVM(graph, tol=0.5).fit(X, labels)
    assert model.pair_weights_.shape == (X[0].shape[1] + 1, 3)
    with pytest.raises(AttributeError, match=r"rows of 3 weights.*First must define pair_tables"):
        _ = model.pairwise_coef_


class Wide(Vote):
    """A part more than the rows of nodes write."""

    def make_problem(self, samples, classes, fit_intercept, **options):
        n_parts = samples.lengths * len(classes) + (np.arange(len(samples.lengths)) == 1)
        made = self, samples, classes, fit_intercept, n_parts
        return self.space.make_problem(*made, scratch=Votes(np.empty(len(classes))), **options)


def test_parts_that_no_rows_write_are_refused(bags):
    X, _, labels = bags
    n = 3 * len(X[1])
    message = rf"sample 1 has {n + 1} parts, but its rows write {n}: .* OwnRows"
    with pytest.raises(ValueError, match=message):
        check_structure(Wide(), X, labels)
    for estimator in (SAGCRF(Wide()), BCFWSSVM(Wide())):
        with pytest.raises(ValueError, match=message):
            estimator.fit(X, labels)


def _set_instead_of_add(problem, i, labels, c, mu):
    mu[labels[0]] = c


def _label_that_is_none(problem, i, theta, labels):
    labels[0] = 77
    return theta[0]


def _write_to_theta(problem, i, theta, labels):
    labels[0] = np.argmax(theta)
    theta[0] += 1.0
    return theta[labels[0]]


def _write_to_own(problem, i, theta, labels):
    labels[0] = np.argmax(theta)
    problem.own[0][0] += 1.0
    return theta[labels[0]]


def _other_value(problem, i, theta, labels):
    labels[0] = np.argmax(theta)
    return theta[labels[0]] + 1.0


def _worst(problem, i, theta, labels):
    labels[0] = np.argmin(theta)
    return theta[labels[0]]


class SpillingSpace(MultiClassSpace):
    structure = "Spilling"


@oracles.exp_oracle.register(SpillingSpace)
@kernel
def _(space, i, theta, temperature, mu):
    total = 0.0
    for k in range(theta.size):
        mu[k] = np.exp(theta[k] / temperature)
        total += mu[k]
    for k in range(theta.size):
        mu[k] /= total
    return temperature * np.log(total)


def test_marginals_that_nobody_asks_for_are_not_written():
    class Rows(MultiClass):
        def make_problem(self, *args, **options):
            problem = super().make_problem(*args, **options)
            return problem._replace(space=SpillingSpace(*problem.space))

    with pytest.raises(AssertionError, match="exp_oracle writes to mu where it is empty"):
        check_structure(Rows(), np.eye(3), [0, 1, 2])


def test_labellings_that_the_structure_has_are_asked_for():
    candidates, (X, y) = Candidates(), Candidates().example(np.random.default_rng(0), False)
    check_structure(candidates, X, y)  # has is_labelling

    class Choice(Candidates):
        is_labelling = Graph.is_labelling

    wrong = r"(?s)sample 0: .*max_oracle returns .*, but labelling .* pass them as labellings="
    with pytest.raises(AssertionError, match=wrong):
        check_structure(Choice(), X, y)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("verb", "function", "message"),
    [
        ("add_indicator", _set_instead_of_add, "add_indicator"),
        ("max_oracle", _label_that_is_none, r"max_oracle writes the labels \[77\]"),
        ("max_oracle", _write_to_theta, "max_oracle.* writes to theta"),
        ("max_oracle", _write_to_own, r"max_oracle.* writes to space\.own\.0: scratch is in work"),
        ("max_oracle", _other_value, "max_oracle returns .*, but the labels that it writes score"),
        ("max_oracle", _worst, r"max_oracle returns .*, but labelling \[.\] scores"),
    ],
)
def test_a_broken_verb_is_named(verb, function, message):
    broken = type(f"Broken{function.__name__}", (MultiClassSpace,), {})
    getattr(oracles, verb).register(broken)(kernel(function))

    class Rows(MultiClass):
        def make_problem(self, *args, **options):
            problem = super().make_problem(*args, **options)
            space = problem.space._replace(own=(np.zeros(1),))
            return problem._replace(space=broken(*space))

    with pytest.raises(AssertionError, match=message):
        check_structure(Rows(), np.eye(3), [0, 1, 2])


class Distinct(Chain):
    """A chain that says which labellings it has: those without a label that occurs twice."""

    def is_labelling(self, codes, samples, classes):
        words = np.split(codes, samples.offsets[1:-1])
        return np.array([len(set(word.tolist())) == len(word) for word in words])


def test_what_is_no_labelling_is_refused_in_fit_and_has_no_likelihood():
    X, y = [np.eye(3), np.eye(3)[:2]], [np.array(["a", "b", "c"]), np.array(["c", "a"])]
    crf = SAGCRF(Distinct(), random_state=0, solver="sag").fit(X, y)
    values = crf.predict_log_likelihood([*X, X[0]], [*y, np.array(["a", "b", "a"])])
    assert np.isfinite(values[:2]).all()
    assert values[2] == -np.inf
    with pytest.raises(ValueError, match="y: sample 1 has labels that Distinct does not have"):
        SAGCRF(Distinct()).fit(X, [y[0], np.array(["a", "a"])])
    with pytest.raises(ValueError, match="y: sample 2 has labels"):
        SAGCRF(Distinct()).fit(X + X[:1], [*y, y[0][[0, 0, 1]]], sample_weight=[1, 0, 1])


class _TwoKinds(Chain):
    """Edges between neighbours, and between nodes two apart, with weights of their own."""

    def weight_shapes(self, samples, n_classes, fit_intercept):
        node, (_, width) = super().weight_shapes(samples, n_classes, fit_intercept)
        return node, (2, width)


def test_weights_of_several_kinds_of_edges_are_shown():
    tables = np.arange(8.0).reshape(2, 4)
    assert_array_equal(_TwoKinds().pair_tables(tables, 2), tables.reshape(2, 2, 2))
    problem, _, shapes, _ = training_problem(_TwoKinds(), [np.eye(3)], [["a", "b", "a"]])
    assert shapes[1] == (2, 4)
    assert_array_equal(problem.part_ptr, [0, 3 * 2 + 2 * 4])
    assert_array_equal(problem.space.n_tables, [2])


@pytest.mark.parametrize("rules", [None, [AtMostOnce("a")]])
def test_oracles_of_chains_do_not_read_several_shared_tables(rules):
    """They would take the second one for that of the second edge."""
    X, y, graph = [np.eye(3)], [["a", "b", "c"]], _TwoKinds(rules=rules)
    message = r"share 2 tables, but the oracles of .*(Chain|Automaton)Space know one"
    for fit in (partial(check_structure, graph), SAGCRF(graph).fit):
        with pytest.raises(ValueError, match=message):
            fit(X, y)
