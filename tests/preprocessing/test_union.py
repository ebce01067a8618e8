"""SequenceUnion against stacking by hand, and scikit-learn's habits."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skstruct import SAGCRF, Chain, RaggedArray
from skstruct.inspection import coef_frame
from skstruct.preprocessing import (
    PerNode,
    SequenceUnion,
    SequenceVectorizer,
    TemplateVectorizer,
    make_sequence_union,
)

WORDS = [["He", "runs", "Home"], ["Yes"], ["She", "runs"]]
TAGS = [["P", "V", "N"], ["U"], ["P", "V"]]
VECTORS = {"He": [1.0, 2.0], "runs": [0.5, -1.0], "Home": [0.0, 3.0]}


def look_up(X):
    return [np.array([VECTORS.get(w, [0.0, 0.0]) for w in s]).reshape(-1, 2) for s in X]


def as_dicts(X):
    return [[{"suffix": w[-1], "title": w.istitle()} for w in s] for s in X]


def _members():
    return [
        ("words", TemplateVectorizer("U0:%x[0,0]")),
        ("dicts", make_pipeline(FunctionTransformer(as_dicts), SequenceVectorizer())),
        ("vec", FunctionTransformer(look_up)),
    ]


def test_features_stand_side_by_side():
    union = SequenceUnion(_members())
    R = union.fit_transform(WORDS)
    parts = [
        TemplateVectorizer("U0:%x[0,0]").fit_transform(WORDS).flat.toarray(),
        SequenceVectorizer().fit_transform(as_dicts(WORDS)).flat.toarray(),
        np.concatenate(look_up(WORDS)),
    ]
    assert isinstance(R, RaggedArray)
    assert sparse.issparse(R.flat)
    assert R.flat.format == "csr"
    assert_array_equal(R.flat.toarray(), np.hstack(parts))
    assert R.lengths.tolist() == [3, 1, 2]
    assert union.n_features_out_ == R.flat.shape[1]
    names = union.get_feature_names_out().tolist()
    assert names[:2] == ["words__U0:He", "words__U0:runs"]
    assert names[-4:] == ["dicts__suffix=s", "dicts__title", "vec__x0", "vec__x1"]
    assert_array_equal(union.transform(WORDS[::-1])[2].toarray(), R[0].toarray())
    assert_array_equal(union.transform([WORDS[0], [], WORDS[1]])[2].toarray(), R[1].toarray())
    assert union.transform([]).flat.shape == (0, R.flat.shape[1])


def test_dense_members_stay_dense():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (2, 4)]
    union = SequenceUnion([("raw", "passthrough"), ("scaled", PerNode(StandardScaler()))])
    for form in (X, RaggedArray.from_list(X)):
        R = union.fit_transform(form)
        assert isinstance(R.flat, np.ndarray)
        assert_allclose(R.flat[:, :3], np.concatenate(X))
        assert_allclose(R.flat[:, 3:], StandardScaler().fit_transform(np.concatenate(X)))
    assert union.get_feature_names_out().tolist() == [
        "raw__x0", "raw__x1", "raw__x2", "scaled__x0", "scaled__x1", "scaled__x2",
    ]  # fmt: skip
    cube = rng.normal(size=(2, 4, 3))
    assert SequenceUnion([("raw", "passthrough")]).fit_transform(cube).lengths.tolist() == [4, 4]


def test_edge_features_of_members():
    members = [
        ("a", TemplateVectorizer("U:%x[0,0]\nB:%x[0,0]")),
        ("v", FunctionTransformer(look_up)),
        ("b", TemplateVectorizer("U:%x[-1,0]\nB:%x[-1,0]")),
    ]
    union = SequenceUnion(members, transformer_weights={"v": 2.0, "b": 0.5})
    pairs = union.fit_transform(WORDS)
    a, b = (dict(members)[name].fit_transform(WORDS) for name in "ab")
    for pair, one, vector, two in zip(pairs, a, look_up(WORDS), b, strict=True):
        node = np.hstack([one[0].toarray(), 2 * vector, 0.5 * two[0].toarray()])
        assert_allclose(pair[0].toarray(), node)
        edge = np.hstack([one[1].toarray(), 0.5 * two[1].toarray()])
        assert_allclose(pair[1].toarray(), edge)
    names = union.get_edge_feature_names_out().tolist()
    assert len(names) == pairs[0][1].shape[1]
    assert (names[0], names[-1]) == ("a__B", "b__B:_B-1")
    model = make_pipeline(union, SAGCRF(Chain(edge_features=True), tol=1e-2)).fit(WORDS, TAGS)
    assert [len(labels) for labels in model.predict([*WORDS, []])] == [3, 1, 2, 0]
    assert not hasattr(SequenceUnion(_members()).fit(WORDS), "get_edge_feature_names_out")


def test_parameters_are_nested_as_in_feature_union():
    union = SequenceUnion(_members())
    assert union.get_params()["words__min_count"] == 1
    assert union.get_params()["dicts__sequencevectorizer__hashing"] is False
    union.set_params(words__min_count=2, vec="drop", n_jobs=2)
    R = union.fit_transform(WORDS)
    assert [name for name, _ in union.transformers_] == ["words", "dicts"]
    assert union.get_feature_names_out()[0] == "words__U0:runs"
    assert not hasattr(union.transformer_list[0][1], "vocabulary_"), "parameters stay as they are"
    assert union.named_transformers_.words.vocabulary_
    copy = clone(union)
    assert copy.get_params()["words__min_count"] == 2
    assert not hasattr(copy, "transformers_")
    loaded = pickle.loads(pickle.dumps(union))
    assert (loaded.transform(WORDS).flat != R.flat).nnz == 0
    assert "SequenceUnion" in union._repr_html_()
    made = make_sequence_union(TemplateVectorizer("U:%x[0,0]"), PerNode(StandardScaler()), n_jobs=2)
    assert [name for name, _ in made.transformer_list] == ["templatevectorizer", "pernode"]
    assert made.n_jobs == 2


def test_unions_are_tuned_in_a_pipeline():
    X, y = WORDS * 3, TAGS * 3
    model = make_pipeline(SequenceUnion(_members()), SAGCRF(tol=1e-1, random_state=0))
    grid = {
        "sequenceunion__words__min_count": [1, 2],
        "sequenceunion__vec": ["drop", FunctionTransformer(look_up)],
    }
    with sklearn.config_context(transform_output="pandas"):
        search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.5
    assert "words__U0:runs" in coef_frame(search.best_estimator_).index


def test_targets_reach_the_members():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (5, 7)]
    y = [x[:, 1] > 0 for x in X]
    union = SequenceUnion([("best", PerNode(SelectKBest(k=1)))])
    assert_array_equal(union.fit_transform(X, y).flat, np.concatenate(X)[:, [1]])


class Weighted(TransformerMixin, BaseEstimator):
    """Remembers the weights it was given."""

    def fit(self, X, y=None, sample_weight=None):
        self.weights_ = sample_weight
        return self

    def transform(self, X):
        return look_up(X)


def test_metadata_is_routed():
    weights = np.array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        SequenceUnion([("a", Weighted())]).fit(WORDS, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        union = SequenceUnion(
            [
                ("a", Weighted().set_fit_request(sample_weight=True)),
                ("b", Weighted().set_fit_request(sample_weight=False)),
                ("c", "drop"),
            ]
        )
        union.fit(WORDS, sample_weight=weights)
    assert union.named_transformers_.a.weights_ is weights
    assert union.named_transformers_.b.weights_ is None


def test_frames():
    rows = [(i, w, *VECTORS.get(w, [0.0, 0.0])) for i, s in enumerate(WORDS) for w in s]
    frame = pd.DataFrame(rows, columns=["s", "w", "v0", "v1"])
    union = SequenceUnion(
        [
            ("words", TemplateVectorizer("U0:%x[0,0]", sequence_id="s", columns=["w"])),
            ("vec", PerNode(StandardScaler(), sequence_id="s", columns=["v0", "v1"])),
        ]
    )
    R = union.fit_transform(frame)
    assert_array_equal(
        R.flat.toarray()[:, :-2],
        TemplateVectorizer("U0:%x[0,0]").fit_transform(WORDS).flat.toarray(),
    )
    flat = np.concatenate(look_up(WORDS))
    assert_allclose(R.flat.toarray()[:, -2:], StandardScaler().fit_transform(flat))


@pytest.mark.parametrize(
    ("members", "options", "error", "message"),
    [
        ([], {}, ValueError, "transformer_list has no transformer"),
        ([("a", "drop")], {}, ValueError, "transformer_list has no transformer"),
        ([("a", "keep")], {}, TypeError, '\'a\' must be a transformer, "passthrough" or "drop"'),
        ([("a", "drop"), ("a", "drop")], {}, ValueError, "Names provided are not unique"),
        ([("a__b", "drop")], {}, ValueError, "must not contain __"),
        (_members(), {"transformer_weights": {"vex": 2.0}}, ValueError, r"names \['vex'\]"),
        ([("raw", "passthrough")], {}, (ValueError, TypeError), "output of 'raw'"),
        (
            [*_members(), ("cut", FunctionTransformer(lambda X: [x[:2] for x in look_up(X)]))],
            {},
            ValueError,
            "sample 0: 'words' has 3 nodes, 'cut' has 2",
        ),
        (
            [*_members(), ("cut", FunctionTransformer(lambda X: look_up(X)[:2]))],
            {},
            ValueError,
            "'words' has 3 samples, 'cut' 2",
        ),
        (
            [("nan", FunctionTransformer(lambda X: [x * np.nan for x in look_up(X)]))],
            {},
            ValueError,
            "output of 'nan' contains NaN .sample 0, node 0",
        ),
    ],
)
def test_bad_members(members, options, error, message):
    with pytest.raises(error, match=message):
        SequenceUnion(members, **options).fit(WORDS)


def test_widths_must_not_change():
    union = SequenceUnion(
        [("v", FunctionTransformer(lambda X: [np.ones((len(s), len(X))) for s in X]))]
    )
    union.fit(WORDS)
    with pytest.raises(ValueError, match="'v' has 2 features, in fit 3"):
        union.transform(WORDS[:2])


def test_names_must_be_unique():
    members = [("a", TemplateVectorizer("U:%x[0,0]")), ("b", TemplateVectorizer("U:%x[0,0]"))]
    union = SequenceUnion(members, verbose_feature_names_out=False).fit(WORDS)
    with pytest.raises(ValueError, match="several columns are named 'U:He'"):
        union.get_feature_names_out()
    union = SequenceUnion(_members()[:2], verbose_feature_names_out=False).fit(WORDS)
    assert "U0:He" in union.get_feature_names_out()


def _ones(X):
    return [np.ones((len(x), 1)) for x in X]


@pytest.mark.parametrize("weight", [np.nan, np.inf, None, "2", np.array([2.0, 3.0]), 1j])
def test_weights_that_are_no_numbers(weight):
    union = SequenceUnion([("n", FunctionTransformer(_ones))], transformer_weights={"n": weight})
    with pytest.raises(ValueError, match=r"transformer_weights\['n'\] must be a finite number"):
        union.fit([["a"]])
    with pytest.raises(TypeError, match="transformer_weights must be a dict"):
        union.set_params(transformer_weights=["n"]).fit([["a"]])


@pytest.mark.parametrize("members", [None, [("n", FunctionTransformer(_ones), 3)], [None], ["ab"]])
def test_members_that_are_no_pairs(members):
    with pytest.raises(TypeError, match=r"transformer_list must be a list of pairs"):
        SequenceUnion(members).fit([["a"]])


@pytest.mark.parametrize(
    ("output", "match"),
    [
        (None, "^output of 'n' is None"),
        ([[[np.nan]]], "^output of 'n' contains NaN .sample 0, node 0"),
        ({}, "^output of 'n' must be a list of samples, got a dict"),
    ],
)
def test_outputs_of_members_that_are_no_samples(output, match):
    union = SequenceUnion([("n", FunctionTransformer(lambda X: output))])
    with pytest.raises((ValueError, TypeError), match=match):
        union.fit([["a"]])
