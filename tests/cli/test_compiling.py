"""``compile`` for stored models: what their predictions need, and what cannot be compiled."""

import os
import shutil
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skstruct
from skstruct import (
    BCFWSSVM,
    SAGCRF,
    AtMostOnce,
    Boxes,
    Candidates,
    Chain,
    Matching,
    MultiClass,
    Pairwise,
    Tree,
)
from skstruct.cli import compiling, main
from tests.helpers.cli_cases import trained_in


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained_in(tmp_path_factory.mktemp("cli"))


_TAG = """
import sys, joblib
from skstruct.core.jit.kernels import compiled_kernels
model = joblib.load(sys.argv[1])
print(*model.predict([[["the", "DT"], ["cat", "NN"]]])[0])
print(sum(sum(k.stats.cache_misses.values()) for k in compiled_kernels()))
"""


@pytest.mark.slow
def test_a_copy_of_the_cache_is_all_that_predictions_of_a_model_need(folder, tmp_path):
    model = folder / "crf.joblib"

    def run(*arguments, cache, **variables):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache), **variables}
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    anywhere = {"NUMBA_CPU_NAME": "generic"}
    title, *rest = run("-m", "skstruct", "compile", "--model", model, cache="filled", **anywhere)
    assert title == f"{model}: SAGCRF on Chain(), csr features"
    assert rest[-1].startswith(f"kept in {tmp_path / 'filled'}")
    names = [path.name for path in (tmp_path / "filled").rglob("*.nbc")]
    for kernel in ("_decode", "decode_top_k", "node_marginals", "log_likelihoods"):
        assert any(f".{kernel}-" in name for name in names)
    assert not any("sag_epoch" in name for name in names)
    shutil.copytree(tmp_path / "filled", tmp_path / "image")
    labels, misses = run("-c", _TAG, model, cache="image", **anywhere)
    assert labels.split() == list(joblib.load(model).predict([[["the", "DT"], ["cat", "NN"]]])[0])
    assert misses == "0"
    # Another processor, by its name: nothing of it is taken.
    assert run("-c", _TAG, model, cache="image", NUMBA_CPU_NAME="core2")[1] != "0"


def _stored_calls(estimator, kind, monkeypatch):
    """What `compile` would predict, and train on."""
    seen = []
    monkeypatch.setattr(compiling, "_predict", lambda model, X, y: seen.append(X))
    monkeypatch.setattr(compiling, "_fit", lambda model, X, y: seen.append((model, X, y)))
    compiling._compile_stored(estimator, True, kind == "csr")
    return seen


def test_samples_of_a_stored_chain(monkeypatch):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 50)) for n in (3, 4, 2)]
    y = [["B-A", "I-A", "O"], ["O", "B-B", "I-B", "I-B"], ["O", "O"]]
    crf = SAGCRF(Chain(forbidden="iob2"), class_weight={"B-A": 2.0}, random_state=0).fit(X, y)
    predicted, (model, X, y) = _stored_calls(crf, "csr", monkeypatch)
    assert {x.shape[1] for x in predicted} == {x.shape[1] for x in X} == {50}
    # Each label, and no step that is forbidden; the new model is one of the same parameters.
    assert set(np.concatenate(y)) == {"B-A", "I-A", "B-B", "I-B", "O"}
    assert len(Chain(forbidden="iob2").read_training(model, X, y)[0].lengths) == 5
    assert (model.class_weight, hasattr(model, "coef_")) == ({"B-A": 2.0}, False)


def test_samples_of_many_labels_have_as_many_weights(monkeypatch):
    X, y = np.tile(np.eye(40), (3, 1)), np.tile(np.arange(40), 3)
    crf = SAGCRF("multiclass", random_state=0, tol=0.5).fit(X, y)
    predicted, (_, X, y) = _stored_calls(crf, "dense", monkeypatch)
    assert predicted.shape[1] == 40
    assert X.shape == (16, 100)
    assert set(y) == set(range(16))


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    "graph",
    [
        Chain(),
        Chain(edge_features=True),
        Tree(edge_features=True),
        MultiClass(),
        Pairwise(edge_features=True),
        Candidates(),
        Matching(),
        Boxes(),
    ],
    ids=str,
)
def test_samples_have_as_many_features_as_the_model(graph, is_sparse):
    X, _ = graph.example(np.random.default_rng(0), is_sparse)
    for widths in ([7, 5], [2, 1]):
        model = BCFWSSVM(graph)
        model.n_features_in_, model.n_edge_features_in_ = widths
        samples = graph.read_X(model, compiling._samples(X, widths, 5), reset=False)
        assert len(samples.lengths) == 5
        assert samples.features.shape[1] == widths[0]


def test_estimators_are_found_in_what_holds_them(tmp_path):
    crf = SAGCRF(random_state=0).fit([np.eye(2), np.eye(2)], [["a", "b"], ["b", "a"]])
    search = GridSearchCV(crf, {"C": [1.0]})
    search.best_estimator_ = make_pipeline("passthrough", crf)
    for model in (crf, search):
        joblib.dump(model, tmp_path / "model.joblib")
        assert isinstance(compiling._read_model(f"{tmp_path}/model.joblib"), SAGCRF)
    joblib.dump(Chain(), tmp_path / "model.joblib")
    with pytest.raises(TypeError, match="holds an object of type Chain, not an estimator"):
        compiling._read_model(f"{tmp_path}/model.joblib")


def test_taggers_for_numpy_stand_for_an_estimator(tmp_path, capsys):
    path = f"{tmp_path}/tagger.npz"
    X, y = np.eye(2), np.array(["a", "b"])
    sequences = [X], [y]
    for graph, samples in (
        (MultiClass(), (X, y)),
        (Chain(forbidden=[("a", "a")]), sequences),
        (Chain(order=2, boundary=True), sequences),
        (Chain(rules=[AtMostOnce("a")]), sequences),
    ):
        skstruct.export(SAGCRF(graph, random_state=0).fit(*samples), path)
        read = compiling._read_model(path)
        assert type(read.graph_) is type(graph)
        assert read.predict(compiling._samples(samples[0], [1], 2)).shape == (2,)
    assert main(["compile", "--model", path, "--fit"]) == 1
    assert "does not say how it was trained" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--fit"], "--fit needs --model"),
        (["--model", "nothing.joblib"], "nothing.joblib: No such file"),
    ],
)
def test_options_that_do_not_go_together(option, message, capsys):
    assert main(["compile", *option]) == 1
    assert message in capsys.readouterr().err
