"""Make the models of this folder: run at commit 671a9dc, ``NUMBA_DISABLE_JIT=1 make.py FOLDER``."""

import pathlib
import pickle
import sys
import warnings

import numpy as np
import skops.io
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skstruct
from skstruct.preprocessing import SequenceVectorizer, TemplateVectorizer

warnings.simplefilter("ignore")
folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(0)
X = [rng.normal(size=(n, 3)) for n in (2, 3, 4, 2)]
y = [np.array(["a", "b"])[(x[:, 0] > 0).astype(int)] for x in X]
table = rng.normal(size=(12, 3))
labels = (table[:, 0] > 0).astype(int)
sets = np.c_[labels, 1 - labels, table[:, 1] > 0].astype(int)
words = [["the", "cat"], ["a", "dog", "runs"], ["cats", "run"]]
tags = [["D", "N"], ["D", "N", "V"], ["N", "V"]]
dicts = [[{"w": word} for word in sentence] for sentence in words]
tokens = [[(word,) for word in sentence] for sentence in words]
parents = [np.array([-1, 0, 0, 1][: len(x)]) for x in X]
edges = [np.array([[i, i + 1] for i in range(len(x) - 1)]) for x in X]
images = [rng.normal(size=(2, 3, 2)) for _ in range(3)]
segments = [(image[..., 0] > 0).astype(int) for image in images]
pairs = [rng.normal(size=(2, 3, 2)) for _ in range(3)]
links = [np.array([0, 2]), np.array([1, 0]), np.array([2, 1])]
choices = [rng.normal(size=(n, 2)) for n in (2, 3, 4)]

s, few, drawn = skstruct, {"max_iter": 3}, {"max_iter": 3, "random_state": 0}
template = TemplateVectorizer(["U00:%x[0,0]", "U01:%x[-1,0]"])
models = {
    "crf_chain": (s.SAGCRF(**drawn), X, y),
    "crf_lbfgs": (s.SAGCRF(s.Chain(), solver="lbfgs", **few), X, y),
    "bcfw_chain": (s.BCFWSSVM(**drawn), X, y),
    "casimir_table": (s.CasimirSSVM(s.MultiClass(), **drawn), table, labels),
    "gdmm_chain": (s.GDMMSSVM(s.Chain(), **drawn), X, y),
    "extragradient_chain": (s.ExtragradientSSVM(s.Chain(), **few), X, y),
    "subgradient": (s.SubgradientSSVM(s.Chain(), **drawn), X, y),
    "multilabel": (s.BCFWSSVM(s.MultiLabel("full"), **drawn), table, sets),
    "tree": (s.SAGCRF(s.Tree(), **drawn), list(zip(X, parents, strict=True)), y),
    "grid": (s.BCFWSSVM(s.Grid(attractive=True), **drawn), images, segments),
    "pairwise": (s.BCFWSSVM(s.Pairwise(), **drawn), list(zip(X, edges, strict=True)), y),
    "matching": (s.BCFWSSVM(s.Matching(), **drawn), pairs, links),
    "candidates": (s.BCFWSSVM(s.Candidates(), **drawn), choices, [0, 1, 2]),
    "tagger": (make_pipeline(SequenceVectorizer(), s.SAGCRF(**drawn)), dicts, tags),
    "search": (GridSearchCV(s.SAGCRF(s.Chain(), **drawn), {"C": [0.1, 1]}, cv=2), X, y),
    "template": (make_pipeline(template, s.SAGCRF(**drawn)), tokens, tags),
}
expected = {}
for name, (model, samples, targets) in models.items():
    model.fit(samples, targets)
    expected[name] = samples, model.predict(samples)
    (folder / f"{name}.pkl").write_bytes(pickle.dumps(model))
    if name in ("crf_chain", "tree"):
        skops.io.dump(model, folder / f"{name}.skops")
(folder / "expected.pkl").write_bytes(pickle.dumps(expected))
