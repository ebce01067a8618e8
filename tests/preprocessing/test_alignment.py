"""Features of word pairs: IBM model 1, Dice, spelling, neighbours, and scikit-learn's contract."""

import math
import pickle
from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skstruct.datasets import load_parallel_text, load_word_alignment
from skstruct.metrics import alignment_error_rate
from skstruct.preprocessing import AlignmentFeatures

PAIRS = [
    ("das Haus", "the house"),
    ("das Buch ist das Buch", "the book is the book"),
    ("ein Buch", "a book"),
    ("Ein rotes Haus !", "a red house !"),
]
WORDS = st.text("ab", min_size=1, max_size=3)
SENTENCES = st.lists(WORDS, min_size=1, max_size=4)


def _model_1(pairs, n_iter):
    """IBM model 1 with dictionaries, target words given source words; None is no word."""
    made = {f for _, target in pairs for f in target}
    t = defaultdict(lambda: 1.0 / len(made))
    likelihood = []
    for _ in range(n_iter):
        count, total, value = Counter(), Counter(), 0.0
        for source, target in pairs:
            for f in target:
                norm = sum(t[f, e] for e in (None, *source))
                value += math.log(norm / (len(source) + 1))
                for e in (None, *source):
                    count[f, e] += t[f, e] / norm
                    total[e] += t[f, e] / norm
        t = {(f, e): c / total[e] for (f, e), c in count.items()}
        likelihood.append(value)
    return t, likelihood


@given(pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=4))
def test_translations_are_those_of_plain_em(pairs):
    features = AlignmentFeatures(n_iter=4).fit(pairs)
    table, (left, right) = features.translations_, features.vocabularies_
    forward, likelihood = _model_1(pairs, 4)
    backward, other = _model_1([(f, e) for e, f in pairs], 4)
    assert_allclose(features.log_likelihood_, np.column_stack([likelihood, other]))
    assert (np.diff(features.log_likelihood_, axis=0) > -1e-9).all()
    assert len(table.keys) == len({(e, f) for s, t in pairs for e in s for f in t})
    for e, f in product(left, right):
        at = np.flatnonzero(table.keys == left[e] * len(right) + right[f])
        together = sum(e in s and f in t for s, t in pairs)
        assert at.size == (together > 0)
        if at.size:
            either = sum(e in s for s, _ in pairs) + sum(f in t for _, t in pairs)
            assert table.dice[at[0]] == pytest.approx(2 * together / either)
            assert table.forward[at[0]] == pytest.approx(forward[f, e])
            assert table.backward[at[0]] == pytest.approx(backward[e, f])
    for f in right:
        assert table.forward_null[right[f]] == pytest.approx(forward[f, None])
    for e in left:
        assert table.backward_null[left[e]] == pytest.approx(backward[e, None])


def _posteriors(t, source, target, strength):
    """Probabilities (target word, source word) of links, with a prior for the diagonal."""
    n, m = len(source), len(target)
    out = np.empty((m, n))
    for j, f in enumerate(target):
        prior = [math.exp(-strength * abs((i + 0.5) / n - (j + 0.5) / m)) for i in range(n)]
        joint = [p * t[f, e] for p, e in zip(prior, source, strict=True)]
        norm = sum(joint) + t[f, None] * sum(prior) / n
        out[j] = [value / norm for value in joint]
    return out


@given(
    pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=4),
    stem=st.integers(1, 3),
    strength=st.sampled_from([0.0, 4.0]),
)
def test_directions_of_stems_are_trained_together(pairs, stem, strength):
    features = AlignmentFeatures(n_iter=3, stems=[9, stem], diagonal=strength).fit(pairs)
    table, (left, right) = features.stem_translations_[1], features.stem_vocabularies_[1]
    cut = [tuple([word[:stem] for word in side] for side in pair) for pair in pairs]
    forward, _ = _model_1(cut, 3)
    backward, _ = _model_1([(f, e) for e, f in cut], 3)
    for _ in range(3):
        count = Counter()
        for e, f in cut:
            both = _posteriors(forward, e, f, strength) * _posteriors(backward, f, e, strength).T
            for (j, target), (i, source) in product(enumerate(f), enumerate(e)):
                count[source, target] += both[j, i]
        sums = Counter(), Counter()
        for (e, f), value in count.items():
            sums[0][e] += value
            sums[1][f] += value
        forward |= {(f, e): value / sums[0][e] for (e, f), value in count.items()}
        backward |= {(e, f): value / sums[1][f] for (e, f), value in count.items()}
    for e, f in count:
        at = np.flatnonzero(table.keys == left[e] * len(right) + right[f])[0]
        assert table.forward[at] == pytest.approx(forward[f, e])
        assert table.backward[at] == pytest.approx(backward[e, f])
    assert all(np.isfinite(x).all() for x in features.transform([*pairs, (["c"], ["a", "c"])]))


def test_stems_and_frequent_words_add_columns():
    plain, features = AlignmentFeatures(), AlignmentFeatures(stems=(4,), n_frequent=2)
    X, more = plain.fit_transform(PAIRS), features.fit_transform(PAIRS)
    names = features.get_feature_names_out().tolist()
    n = len(plain.get_feature_names_out())
    assert names[:n] == plain.get_feature_names_out().tolist()
    assert names[-4:] == ["source=das", "source=buch", "target=the", "target=book"]
    for (source, target), a, b in zip(PAIRS, X, more, strict=True):
        assert_array_equal(a, b[:, :, :n])
        assert b.shape[2] == len(names)
        assert np.abs(b).max() <= 1.0
        sides = source.lower().split(), target.lower().split()
        for i, j in product(*map(range, b.shape[:2])):
            found = [sides[0][i] == "das", sides[0][i] == "buch"]
            found += [sides[1][j] == "the", sides[1][j] == "book"]
            assert b[i, j, -4:].tolist() == found
    # Unknown forms of known stems.
    x = features.transform([("Hausboot", "household")])[0][0, 0]
    value = dict(zip(names, x, strict=True))
    assert value["dice"] == value["plain_both"] == 0.0
    assert value["stem4_dice"] == 1.0
    assert value["stem4_plain_both"] > 0.5


@given(pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=4))
def test_the_intersection_links_what_is_best_for_both(pairs):
    found = AlignmentFeatures(n_iter=3).fit(pairs).intersection(pairs)
    forward, _ = _model_1(pairs, 3)
    backward, _ = _model_1([(f, e) for e, f in pairs], 3)

    def lead(t, word, others, k):
        """How much likelier the k-th word is than no word and than all others, relatively."""
        scores = np.array([*(t[word, other] for other in others), t[word, None]])
        return scores[k] / np.delete(scores, k).max() - 1.0

    for (source, target), links in zip(pairs, found, strict=True):
        # Rounding decides between different words of one probability.
        clear, close = set(), set()
        for i, j in product(range(len(source)), range(len(target))):
            least = min(lead(forward, target[j], source, i), lead(backward, source[i], target, j))
            clear |= {(i, j)} if least > 1e-9 else set()
            close |= {(i, j)} if least > -1e-9 else set()
        assert clear <= set(map(tuple, links.tolist())) <= close


def test_columns_are_what_their_names_say():
    features = AlignmentFeatures(diagonal=2.0)
    X = features.fit_transform(PAIRS)
    names = features.get_feature_names_out().tolist()
    assert [x.shape for x in X] == [(len(s.split()), len(t.split()), len(names)) for s, t in PAIRS]
    assert all(x.dtype == np.float64 and x.flags.c_contiguous for x in X)
    assert max(np.abs(x).max() for x in X) <= 1.0

    def column(name, i):
        return X[i][:, :, names.index(name)]

    assert column("equal", 3)[3].tolist() == [0, 0, 0, 1]
    assert column("both_punctuation", 3).sum() == 1
    assert column("one_punctuation", 3).sum() == 6
    assert column("prefix", 0)[1].tolist() == [0.0, 1 / 5]  # Haus, house
    assert column("subsequence", 0)[1].tolist() == [2 / 7, 6 / 9]
    assert column("distance", 0).tolist() == [[0.0, 0.5], [0.5, 0.0]]
    assert column("distance_square", 0)[0, 1] == 0.25
    assert column("dice", 0).tolist() == [[1.0, 0.5], [0.5, 1.0]]
    assert column("dice_next", 0).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert column("dice_previous", 0).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    both = column("diagonal_both", 1)
    for name, (down, right) in {"cross_next": (1, -1), "right": (0, 1), "above": (-1, 0)}.items():
        moved = np.roll(both, (-down, -right), axis=(0, 1))
        inside = column(f"diagonal_both_{name}", 1)[1:4, 1:4]
        assert_array_equal(inside, moved[1:4, 1:4])
    # Without a prior for the diagonal both kinds are one.
    X = clone(features).set_params(diagonal=0.0).fit_transform(PAIRS)
    for kind in ("forward", "backward", "both"):
        assert_allclose(column(f"plain_{kind}", 1), column(f"diagonal_{kind}", 1))
    # Of a repeated word, the pair that lies nearer to the diagonal is the likelier one.
    X = features.fit_transform(PAIRS)
    assert column("diagonal_both", 1)[0, 0] > column("diagonal_both", 1)[0, 3]
    assert column("plain_both", 1)[0, 0] == pytest.approx(column("plain_both", 1)[0, 3])


@given(first=st.text("abc", min_size=1, max_size=7), second=st.text("abc", min_size=1, max_size=7))
def test_common_letters(first, second):
    features = AlignmentFeatures()
    x = features.fit_transform([([first, "x"], ["x", second])])[0][0, 1]
    value = dict(zip(features.get_feature_names_out(), x, strict=True))
    n, m = len(first), len(second)
    prefix = next((k for k in range(min(n, m)) if first[k] != second[k]), min(n, m))
    table = np.zeros((n + 1, m + 1))
    for p, q in product(range(n), range(m)):
        same = table[p, q] + 1 if first[p] == second[q] else 0
        table[p + 1, q + 1] = max(same, table[p, q + 1], table[p + 1, q])
    assert value["prefix"] == prefix / max(n, m)
    assert value["subsequence"] == pytest.approx(2 * table[n, m] / (n + m))
    assert value["equal"] == (first == second)


def test_unknown_words_have_spelling_only():
    features = AlignmentFeatures().fit(PAIRS)
    x = features.transform([(["Zeppelin", "Buch"], ["zeppelin", "book"])])[0]
    value = dict(zip(features.get_feature_names_out(), x[0, 0], strict=True))
    assert value["unknown"] == value["equal"] == 1.0
    assert value["dice"] == value["forward"] == value["plain_both"] == 0.0
    assert features.intersection([("Zeppelin", "zeppelin")])[0].shape == (0, 2)
    assert np.isfinite(x).all()


def test_parallel_text_is_learned_from_as_the_pairs_are():
    sources, targets = zip(*PAIRS, strict=True)
    whole = AlignmentFeatures().fit(PAIRS)
    for text in (
        (sources[:3], targets[:3]),
        ([s.split() for s in sources[:3]], [t.split() for t in targets[:3]]),
        # Pairs with an empty side say nothing.
        ([*sources[:3], "", "x"], [*targets[:3], "y", []]),
    ):
        features = AlignmentFeatures(text).fit(PAIRS[3:])
        assert features.vocabularies_ == whole.vocabularies_
        for a, b in zip(features.transform(PAIRS), whole.transform(PAIRS), strict=True):
            assert_array_equal(a, b)
    assert "Ein" in AlignmentFeatures(lowercase=False).fit(PAIRS).vocabularies_[0]


def test_it_is_a_transformer():
    features = AlignmentFeatures((["das"], ["the"]), n_iter=2)
    assert clone(features).get_params() == features.get_params()
    first = features.fit_transform(PAIRS)
    copy = pickle.loads(pickle.dumps(features))
    for other in (features.transform(PAIRS), copy.transform(PAIRS)):
        for a, b in zip(first, other, strict=True):
            assert_array_equal(a, b)
    assert len(features.transform([])) == len(features.intersection([])) == 0


def test_later_parameters_change_no_fitted_transformer():
    features, pairs = AlignmentFeatures(stems=(2,)).fit(PAIRS), [("DAS Haus", "THE house")]
    expected, links = features.transform(pairs)[0], features.intersection(pairs)[0]
    features.set_params(diagonal=0.5, lowercase=False, stems=(), n_frequent=3)
    assert_array_equal(features.transform(pairs)[0], expected)
    assert_array_equal(features.intersection(pairs)[0], links)


def test_a_diagonal_that_leaves_no_other_prior():
    pairs = [("a b c", "d e f g h"), ("a", "d e")]
    for x in AlignmentFeatures(diagonal=1e6, stems=(1,)).fit_transform(pairs):
        assert np.isfinite(x).all()


@pytest.mark.parametrize(
    ("parameters", "X", "error", "match"),
    [
        ({}, ["das Haus"], TypeError, "sample 0 must be a tuple .* got str"),
        ({}, [("a", "b"), ("a", "b", "c")], TypeError, "sample 1 must be a tuple"),
        ({}, [("a", "b"), ("", "b")], ValueError, "X: sample 1: its source is empty"),
        ({}, [("a", [])], ValueError, "X: sample 0: its target is empty"),
        ({}, [(["a"], ["b", 3])], TypeError, "sample 0: its target has the word 3, which is no"),
        ({}, [("a", 3)], TypeError, "sample 0: its target must be a list of words, got int"),
        ({}, [], ValueError, "X is empty"),
        ({"n_iter": 0}, [("a", "b")], ValueError, "n_iter must be an integer of at least 1, got 0"),
        ({"n_iter": 1.5}, [("a", "b")], TypeError, "n_iter must be an integer of at least 1"),
        ({"stems": [0]}, [("a", "b")], ValueError, "stems must be an integer of at least 1, got"),
        ({"stems": (4, 4)}, [("a", "b")], ValueError, r"stems must be different integers, got"),
        ({}, [("a", frozenset("b"))], TypeError, "its target must be a list of words, got"),
        ({"stems": 4}, [("a", "b")], TypeError, "stems must be a sequence of integers, got 4"),
        ({"n_frequent": -1}, [("a", "b")], ValueError, "n_frequent must be an integer of at least"),
        ({"diagonal": "a"}, [("a", "b")], TypeError, "diagonal must be a finite number"),
        ({"diagonal": 10**400}, [("a", "b")], ValueError, "diagonal must be a finite number"),
        ({"lowercase": "no"}, [("a", "b")], TypeError, "lowercase must be True or False"),
        ({"parallel_text": (3, 4)}, [("a", "b")], TypeError, "sources must be a list"),
        ({"diagonal": -1.0}, [("a", "b")], ValueError, "must be a finite number of at least 0"),
        ({"parallel_text": ["a"]}, [("a", "b")], TypeError, "parallel_text must be a tuple"),
        ({"parallel_text": (["a"], [])}, [("a", "b")], ValueError, "has 1 sources, but 0 targets"),
        ({"parallel_text": (["a"], [4])}, [("a", "b")], TypeError, "targets: sentence 0 must be"),
    ],
)
def test_bad_input(parameters, X, error, match):
    with pytest.raises(error, match=match):
        AlignmentFeatures(**parameters).fit(X)


@pytest.mark.slow
def test_on_real_sentences(shared_data):
    folder = shared_data / "word_alignment"
    text = load_parallel_text(*(folder / f"enfr_hansards.train.{k}.gz" for k in ("en", "fr")))
    gold = load_word_alignment(*(folder / f"enfr_hansards.{k}.gz" for k in ("src-tgt", "gold")))
    pairs = list(zip(gold.source, gold.target, strict=True))
    features = AlignmentFeatures((text.source[:3000], text.target[:3000])).fit(pairs)
    error = alignment_error_rate(gold.sure, gold.possible, features.intersection(pairs))
    assert 0.15 < error < 0.30
    X = features.transform(pairs)
    assert all(np.isfinite(x).all() and np.abs(x).max() <= 1.0 for x in X)
