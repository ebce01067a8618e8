"""
A hundred labels, one of them known: completing label sets
==========================================================

Documents carry several of a hundred labels, and labels keep company. That is worth most where
something is known already: an author gives one label, and the model proposes the others. A tree of
interactions between a hundred labels is decoded exactly, in linear time.
"""

# sphinx_gallery_tags = ["label sets", "constraints", "MultiLabel"]
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import f1_score

from skstruct import SAGCRF, MultiLabel
from skstruct.datasets import make_label_sets

data = make_label_sets(2000, 800, 100, n_words=60, mean_labels=3.0, random_state=0)
train, test = slice(0, 1000), slice(1000, None)
X, Y, X_test, Y_test = data.X[train], data.Y[train], data.X[test], data.Y[test]

# %%
# One label of each test document is known. ``allowed`` says which values each label may take:
# columns of the last axis are "not in the set" and "in the set".

rng = np.random.default_rng(0)
rows = np.arange(len(Y_test))
known = np.array([rng.choice(np.flatnonzero(labels)) for labels in Y_test])
allowed = np.ones((*Y_test.shape, 2), dtype=bool)
allowed[rows, known, 0] = False
others = np.ones(Y_test.shape, dtype=bool)
others[rows, known] = False

# %%
# F1 of the other labels. Without interactions the known label tells nothing about them. The tree's
# likeliest set is a cautious one, where nothing is known; a known label brings its companions in.

models, scores = {}, {}
for name, edges in (("no interactions", None), ("tree", "tree")):
    models[name] = SAGCRF(MultiLabel(edges), C=10.0, random_state=0).fit(X, Y)
    answers = models[name].predict(X_test), models[name].predict(X_test, allowed=allowed)
    scores[name] = [f1_score(Y_test[others], answer[others]) for answer in answers]
    print(
        f"{name:15s} F1 from the words {scores[name][0]:.3f}, with a known label "
        f"{scores[name][1]:.3f}; {models[name].history_['seconds'][-1]:.1f} s of training"
    )

# %%
# What was learned: pairs of the tree that occur together more often than by chance attract, the few
# others exclude each other.

tree = models["tree"]
j, k = tree.graph_.edges_.T
together = (Y.T @ Y)[j, k]
chance = Y.sum(axis=0)[j] * Y.sum(axis=0)[k] / len(Y)
_, bars_of = plt.subplots(figsize=(6, 4.2), layout="constrained")
fig, pairs = plt.subplots(figsize=(6, 4.2), layout="constrained")
for place, (name, pair) in enumerate(scores.items()):
    bars = bars_of.bar(np.arange(2) + 0.38 * (place - 0.5), pair, 0.36, label=name)
    bars_of.bar_label(bars, fmt="%.2f")
bars_of.set(ylabel="F1 of the other labels", ylim=(0, 1.25 * max(map(max, scores.values()))))
bars_of.set_xticks([0, 1], ["from the words", "and one label is known"])
bars_of.legend(loc="upper left")
points = pairs.scatter(
    np.log2((together + 1) / (chance + 1)), tree.pairwise_coef_, c=together, cmap="viridis", s=22
)
pairs.axhline(0, color="grey", linewidth=0.8)
pairs.set(
    xlabel="log2 of documents with both labels, seen / by chance", ylabel="learned interaction"
)
fig.colorbar(points, label="documents with both labels")
plt.show()

# %%
# **Next:** :doc:`/auto_examples/label_sets/plot_scene` has few labels and all pairs of them;
# :doc:`/guide/inference` describes ``allowed``.
