"""
Photographs with several labels: what interactions are worth
============================================================

A photograph shows a beach, or a town in front of mountains, but never nothing. Classifiers of
single labels do not know that: where each of them is a little unsure, the set stays empty. A CRF
over the whole set learns which labels go together and which exclude each other.

The features are simulated; the label sets are like those of the Scene data (Boutell et al. 2004),
which :func:`~skstruct.datasets.load_multilabel` reads if you have the file.
"""

# sphinx_gallery_tags = ["label sets", "MultiLabel"]
# sphinx_gallery_thumbnail_path = "_static/guide/card_scene.svg"
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from skstruct import SAGCRF, MultiLabel

LABELS = np.array(["beach", "sunset", "autumn", "field", "mountain", "town"])
SETS = dict.fromkeys(LABELS.tolist(), 36) | {
    "field mountain": 8,
    "beach mountain": 4,
    "autumn field": 3,
    "beach town": 2,
    "autumn mountain": 2,
    "mountain town": 2,
    "beach field": 1,
    "sunset mountain": 1,
    "field town": 1,
}
rng = np.random.default_rng(0)
looks = rng.standard_normal((len(LABELS), 20))


def photographs(n):
    """Features and label sets; a photograph of two things looks half like each."""
    share = np.array([*SETS.values()]) / sum(SETS.values())
    drawn = rng.choice([*SETS], size=n, p=share)
    Y = np.array([np.isin(LABELS, labels.split()) for labels in drawn]).astype(int)
    X = Y @ looks / Y.sum(axis=1, keepdims=True) + 1.6 * rng.standard_normal((n, 20))
    return X, Y


X, Y = photographs(600)
X_test, Y_test = photographs(600)

# %%
# A classifier for each label; a CRF of the same labels without interactions, which is the same
# model; and with all pairs of labels. Up to 16 labels everything is exact.

models = {
    "one against rest": OneVsRestClassifier(LogisticRegression()),
    "CRF, no pairs": SAGCRF(MultiLabel(), random_state=0),
    "CRF, all pairs": SAGCRF(MultiLabel("full"), random_state=0),
}
whole, empty = {}, {}
for name, model in models.items():
    found = model.fit(X, Y).predict(X_test)
    whole[name] = np.mean((found == Y_test).all(axis=1))
    empty[name] = np.mean(found.sum(axis=1) == 0)
    print(f"{name:18s} whole sets right {whole[name]:.3f}, empty sets {empty[name]:.3f}")

# %%
# The learned interactions, and how often the pair occurs in training. All pairs exclude each other,
# the less the more often they are seen together: a field hardly speaks against mountains.

crf = models["CRF, all pairs"]
j, k = crf.graph_.edges_.T
table = np.full((len(LABELS), len(LABELS)), np.nan)
table[k, j] = crf.pairwise_coef_
together = Y.T @ Y

_, bars_of = plt.subplots(figsize=(6, 4.2), layout="constrained")
fig, pairs = plt.subplots(figsize=(6, 4.2), layout="constrained")
for values, colour, label in (
    (whole, "tab:blue", "whole set right"),
    (empty, "tab:orange", "empty set"),
):
    shift = 0.19 if values is whole else -0.19
    bars = bars_of.barh(np.arange(3) - shift, [*values.values()], 0.36, color=colour, label=label)
    bars_of.bar_label(bars, fmt="%.2f", padding=3)
bars_of.set(yticks=range(3), yticklabels=models, xlim=(0, 1), xlabel="fraction of photographs")
bars_of.invert_yaxis()
bars_of.legend()
bound = np.nanmax(np.abs(table))
shown = pairs.imshow(table[1:, :-1], cmap="RdBu", vmin=-bound, vmax=bound)
for a, b, value in zip(k, j, crf.pairwise_coef_, strict=True):
    colour = "white" if abs(value) > 0.6 * bound else "black"
    text = f"{value:+.1f}\n{together[a, b]} seen"
    pairs.text(b, a - 1, text, ha="center", va="center", color=colour, fontsize=9)
pairs.set(xticks=range(5), yticks=range(5), xticklabels=LABELS[:-1], yticklabels=LABELS[1:])
pairs.spines[:].set_visible(False)
pairs.set_title("interactions")
fig.colorbar(shown, ax=pairs, label="score of both together")
plt.show()

# %%
# A hierarchy: fields and mountains are "land", land and all but towns are "nature". The model with
# `hierarchy` never finds a field without land, neither in training nor here; the flat one does.

names = [*LABELS, "land", "nature"]
land, nature = LABELS[3:5], [*LABELS[:3], "land"]
above = [(names.index(label), 6) for label in land] + [(names.index(label), 7) for label in nature]


def with_parents(Y):
    land = Y[:, 3:5].max(axis=1, keepdims=True)
    return np.hstack([Y, land, np.maximum(Y[:, :3].max(axis=1, keepdims=True), land)])


truth = with_parents(Y_test)
for hierarchy in (None, above):
    crf = SAGCRF(MultiLabel("tree", hierarchy=hierarchy), random_state=0)
    found = crf.fit(X, with_parents(Y)).predict(X_test)
    right, broken = (found == truth).all(axis=1), [found[:, a] > found[:, b] for a, b in above]
    name = "flat" if hierarchy is None else "hierarchy"
    print(f"{name:9s} whole sets right {right.mean():.3f},", end="")
    print(f" sets without a parent {np.any(broken, axis=0).mean():.3f}")

# %%
# **Next:** :doc:`/auto_examples/label_sets/plot_label_sets` has a hundred labels;
# :doc:`/guide/structures` describes label sets.
