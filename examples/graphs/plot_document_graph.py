"""
Documents with links: two kinds of edges
========================================

Short abstracts say little about their field, but papers cite, and people stay in their field. Each
sample is a graph: words at the nodes (sparse), and edges of two types, "cites" and "by the same
author", each with a table of weights of its own. Which field cites which is learned: a citation has
a direction, so its table need not be symmetric.
"""

# sphinx_gallery_tags = ["linked documents", "Pairwise"]
# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from skstruct import BCFWSSVM, Pairwise

FIELDS = np.array(["biology", "methods", "physics"])
rng = np.random.default_rng(0)
# Row cites column: biology and physics cite methods, which cite themselves only.
cites = np.array([[2.0, 4.0, 0.1], [0.1, 2.0, 0.1], [0.1, 4.0, 2.0]])
topics = rng.dirichlet(np.full(400, 0.1), size=3)
background = rng.dirichlet(np.full(400, 1.0))


def library(n):
    """A graph of n papers: counts of words, edges with a third column for the type, fields."""
    field = rng.integers(3, size=n)
    words = [rng.multinomial(12, 0.25 * topics[k] + 0.75 * background) for k in field]
    links = set()
    for paper in range(1, n):
        weight = cites[field[paper], field[:paper]]
        links.add((paper, int(rng.choice(paper, p=weight / weight.sum())), 0))
        others = np.flatnonzero(field[:paper] == field[paper])
        if others.size and rng.random() < 0.4:
            links.add((paper, int(rng.choice(others)), 1))
    return sparse.csr_matrix(words), np.array(sorted(links)), FIELDS[field]


libraries = [library(int(n)) for n in rng.integers(10, 30, size=160)]
tfidf = TfidfTransformer().fit(sparse.vstack([words for words, _, _ in libraries[:100]]))
X = [(tfidf.transform(words), edges) for words, edges, _ in libraries]
y = [fields for _, _, fields in libraries]
train, test = slice(0, 100), slice(100, None)
print(
    f"{sum(map(len, y))} papers in {len(y)} libraries, {sum(len(edges) for _, edges in X)} links, "
    f"words as CSR of {X[0][0].shape[1]} columns"
)

# %%
# The same structure without links, with one type of them, and with both. ``"auto"`` looks at the
# graphs: links of one type make forests here, which linear passes decode; both together have
# cycles.


def linked_by(samples, types):
    """Samples with the edges of some types only."""
    return [(words, edges[np.isin(edges[:, 2], types)]) for words, edges in samples]


models = {}
for name, types in (("no links", []), ("authors", [1]), ("citations", [0]), ("both", [0, 1])):
    svm = BCFWSSVM(Pairwise(edge_types=2), C=0.1, tol=3e-2, random_state=0)
    models[name] = svm.fit(linked_by(X[train], types), y[train])
    print(
        f"{name:10s} {svm.score(linked_by(X[test], types), y[test]):.3f} of the papers right; "
        f"objective {svm.objective_:.2f}, at least {svm.dual_objective_:.2f}; inference by "
        f"{svm.method_} ({svm.inference_})"
    )

# %%
# What was learned. Read citations row by row, since the level of a row trades with the intercepts:
# biology and physics cite methods, then themselves, and least each other; methods cites itself.
# Authors stay in their field. Below, one library: papers by their true fields, and crosses where a
# model is wrong.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
tables = models["both"].pairwise_coef_
for ax, table, title in zip(axes, tables, ("row cites column", "by one author"), strict=True):
    shown = ax.imshow(table, cmap="coolwarm", vmin=-np.abs(tables).max(), vmax=np.abs(tables).max())
    ax.set(title=title, xticks=range(3), yticks=range(3), xticklabels=FIELDS, yticklabels=FIELDS)
fig.colorbar(shown, ax=axes, label="learned score")
found = {
    name: models[name].predict(linked_by(X[test], types))
    for name, types in (("no links", []), ("both", [0, 1]))
}
wrong = {
    name: [p != t for p, t in zip(predicted, y[test], strict=True)]
    for name, predicted in found.items()
}
i = int(np.argmax([a.sum() - b.sum() for a, b in zip(*wrong.values(), strict=True)]))
edges, fields = X[test][i][1], np.searchsorted(FIELDS, y[test][i])
angle = 2 * np.pi * fields / 3 + rng.uniform(-0.9, 0.9, size=len(fields))
radius = rng.uniform(0.6, 1.0, size=len(fields))
place = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
fig, axes = plt.subplots(1, 2, figsize=(8, 4.4), layout="constrained")
for ax, (name, bad) in zip(axes, wrong.items(), strict=True):
    for u, v, kind in edges if name == "both" else []:
        ax.plot(*place[[u, v]].T, color=("silver", "gold")[kind], zorder=1)
    for k, field in enumerate(FIELDS):
        ax.scatter(*place[fields == k].T, s=70, label=field, zorder=2)
    ax.scatter(*place[bad[i]].T, s=30, marker="x", color="black", zorder=3)
    ax.set_title(f"{name}: {bad[i].sum()} of {len(fields)} papers wrong")
    ax.set_axis_off()
axes[0].legend(loc="center")
plt.show()

# %%
# **Next:** :doc:`/auto_examples/text/plot_dependency_trees` has graphs without cycles, which have
# probabilities, too; :doc:`/graphs` describes edges and their types.
