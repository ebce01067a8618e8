"""
Snakes: what edges know
=======================

A snake winds through an image, and each of its cells shows by its colour only where the next cell
lies. The task is to number the cells from one end to the other (Nowozin et al. 2011, Decision tree
fields). No pixel knows its number, nor do its neighbours: the whole snake must be followed. Three
models with the same features of pixels, and edges that know nothing, their direction, or what both
ends look like.
"""

# sphinx_gallery_tags = ["image segmentation", "Grid"]
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC

from skstruct import BCFWSSVM, Grid
from skstruct.graphs.pairwise import grid_edges

STEPS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
COLOURS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]])  # last: background
LENGTH = 5


def snake(rng):
    """An image with a snake that does not touch its border, and the numbers of its cells."""
    while True:
        turns = rng.integers(4, size=LENGTH)  # the last cell points anywhere, too
        cells = np.concatenate([[[0, 0]], np.cumsum(STEPS[turns[:-1]], axis=0)])
        if len(np.unique(cells, axis=0)) == LENGTH:
            break
    cells = cells - cells.min(axis=0) + 1
    height, width = cells.max(axis=0) + 2
    kinds, numbers = np.full((height, width), 4), np.zeros((height, width), dtype=int)
    kinds[tuple(cells.T)] = turns
    numbers[tuple(cells.T)] = np.arange(1, LENGTH + 1)
    return kinds, numbers


def neighbourhood(kinds):
    """Which of the five colours the 3 x 3 pixels around each one have: 45 features."""
    around = np.pad(np.eye(5)[kinds], ((1, 1), (1, 1), (0, 0)))
    around[[0, -1], :, 4] = around[:, [0, -1], 4] = 1.0
    h, w = kinds.shape
    return np.concatenate([around[r : r + h, c : c + w] for r in range(3) for c in range(3)], 2)


def both_ends(image):
    """The image, and for every edge the features of its two pixels, in the order of the edges."""
    ends, _ = grid_edges(image.shape[0], image.shape[1], 4)
    pixels = sparse.csr_matrix(image.reshape(-1, image.shape[2]))
    return image, sparse.hstack([pixels[ends[:, 0]], pixels[ends[:, 1]]], format="csr")


rng = np.random.default_rng(0)
snakes = [snake(rng) for _ in range(160)]
images = [neighbourhood(kinds) for kinds, _ in snakes]
y = [numbers for _, numbers in snakes]
train, test = slice(0, 80), slice(80, None)

# %%
# Pixels alone, then three grids. With ``directions=True`` horizontal and vertical edges have tables
# of weights of their own, which is what tells "right of" from "below"; with edge features every one
# of them has, so that a table can say "if the left cell is yellow, the right one has the next
# number". Tables of five rows of six labels are small enough for junction trees: all this is exact.


def right(predicted):
    """Share of the cells of snakes that have their number."""
    pairs = [(p[t > 0], t[t > 0]) for p, t in zip(predicted, y[test], strict=True)]
    return np.mean(np.concatenate([p == t for p, t in pairs]))


def flat(arrays):
    return np.concatenate([array.reshape(-1, *array.shape[2:]) for array in arrays])


pixels = LinearSVC(C=0.1, random_state=0).fit(flat(images[train]), flat(y[train]))
found: dict = {"pixels": [pixels.predict(flat([x])).reshape(x.shape[:2]) for x in images[test]]}
print(f"pixels: {right(found['pixels']):.3f} of the cells")
ended = [both_ends(image) for image in images]
for name, X, graph in (
    ("edges", images, Grid()),
    ("directions", images, Grid(directions=True)),
    ("both ends", ended, Grid(directions=True, edge_features=True)),
):
    svm = BCFWSSVM(graph, C=0.1, tol=5e-2, random_state=0).fit(X[train], y[train])
    found[name] = svm.predict(X[test])
    print(
        f"{name}: {right(found[name]):.3f} of the cells; objective {svm.objective_:.3f}, at least "
        f"{svm.dual_objective_:.3f}; {svm.n_iter_} passes, {svm.method_}"
    )

# %%
# Cells with a wrong number are struck out.

wrong = [
    sum((found[name][i] != t).sum() for name in ("pixels", "edges", "directions"))
    for i, t in enumerate(y[test])
]
shown = np.argsort(wrong)[::-1]
fig, axes = plt.subplots(3, 5, figsize=(11, 7), layout="constrained")
for row, i in zip(axes, shown[:3], strict=True):
    kinds, numbers = snakes[80 + i]
    for ax, (name, labels) in zip(row, {"truth": y[test], **found}.items(), strict=True):
        ax.imshow(0.45 + 0.55 * COLOURS[kinds])
        ax.set_title(name if ax.get_subplotspec().is_first_row() else "")
        ax.set_axis_off()
        for r, c in np.argwhere((numbers > 0) | (labels[i] > 0)):
            ax.text(c, r, labels[i][r, c], ha="center", va="center")
            if labels[i][r, c] != numbers[r, c]:
                ax.plot([c - 0.4, c + 0.4], [r + 0.4, r - 0.4], color="crimson", linewidth=2)
plt.show()

# %%
# **Next:** :doc:`/auto_examples/graphs/plot_photo_segmentation` has a photograph,
# :doc:`/auto_examples/graphs/plot_document_graph` a general graph; :doc:`/graphs` describes the
# features of edges.
