"""
A flower and what is behind it: cuts, contrast, and a stroke of the brush
=========================================================================

A photograph in grey, with the grain of a dark evening. A classifier of single pixels sees the
brightness only. On a grid, neighbours like to agree, less so across an edge of the picture; the
best labelling is a minimum cut, exact and fast. Training sees the left part of the picture, where
the heart of the flower is not: what that costs, a stroke of the brush repairs.
"""

# sphinx_gallery_tags = ["image segmentation", "constraints", "Grid", "Pairwise"]
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import binary_fill_holes
from sklearn.datasets import load_sample_image
from sklearn.linear_model import LogisticRegression

from skstruct import BCFWSSVM, Grid, Pairwise

# %%
# The truth comes from the colours, which the models do not see: the flower is orange.

photo = load_sample_image("flower.jpg")[:424] / 255.0
small = photo.reshape(106, 4, 160, 4, 3).mean(axis=(1, 3))
truth = binary_fill_holes(small[..., 0] - small[..., 2] > 0.25).astype(int)
grey = small.mean(axis=2, keepdims=True)
grey = grey + 0.1 * np.random.default_rng(0).normal(size=grey.shape)

# %%
# A sample is an image (height, width, features) with labels (height, width); sizes may differ. The
# left 60 columns are cut into tiles to train on, the rest of the picture is the test.

corners = [(r, c) for r in range(0, 106, 27) for c in (0, 20, 40)]
X = [grey[r : r + 27, c : c + 20] for r, c in corners]
y = [truth[r : r + 27, c : c + 20] for r, c in corners]


def overlap(found):
    """Intersection over union, in the part that was not trained on."""
    found, true = found[:, 60:] == 1, truth[:, 60:] == 1
    return (found & true).sum() / (found | true).sum()


single = LogisticRegression()
single.fit(np.concatenate([x.reshape(-1, 1) for x in X]), np.concatenate([t.ravel() for t in y]))
alone = single.predict(grey.reshape(-1, 1)).reshape(truth.shape)
print(f"pixels alone: overlap {overlap(alone):.3f}")

# %%
# ``"contrast"`` gives an edge two features: 1, and how alike its two pixels are. Where equal labels
# score at least as much as different ones, interactions attract and cuts are exact: training keeps
# them so with ``attractive=True``.

grid = Grid(interactions="potts", edge_features="contrast", attractive=True)
svm = BCFWSSVM(grid, C=0.03, tol=2e-2, random_state=0).fit(X, y)
found = svm.predict([grey])[0]
always, alike = svm.pair_weights_[:, 0]
print(
    f"grid: overlap {overlap(found):.3f}; equal labels score {always:.2f}, and {alike:.2f} more "
    f"between pixels that are alike; objective {svm.objective_:.2f}, at least "
    f"{svm.dual_objective_:.2f}; inference by {svm.method_} ({svm.inference_})"
)

# %%
# The heart is as dark as the leaves. A user says so with a ring: ``allowed`` takes labels away from
# pixels, and the cut carries on from there.

r, c = np.mgrid[: truth.shape[0], : truth.shape[1]]
ring = np.abs(np.hypot(r - 56, c - 76) - 6.5) < 3
allowed = np.ones((*truth.shape, 2), dtype=bool)
allowed[ring, 0] = False
mended = svm.predict([grey], allowed=[allowed])[0]
print(f"grid and a ring of {ring.sum()} pixels: overlap {overlap(mended):.3f}")

fig, axes = plt.subplots(2, 2, figsize=(9, 6.6), layout="constrained")
axes[0, 0].imshow(grey, cmap="gray")
axes[0, 0].axvline(59.5, color="gold")
axes[0, 0].set_title("train | test")
for ax, title, labels in zip(
    axes.flat[1:],
    ("pixels alone", "grid with contrast", "and a stroke of the brush"),
    (alone, found, mended),
    strict=True,
):
    ax.imshow(grey, cmap="gray")
    ax.imshow(np.ma.masked_equal(labels, 0), cmap="autumn", alpha=0.6, vmin=0, vmax=1)
    ax.set_title(f"{title}: {overlap(labels):.3f}")
axes[1, 1].contour(ring, levels=[0.5], colors="white", linewidths=1)
for ax in axes.flat:
    ax.set_axis_off()

# %%
# Superpixels make another graph of the same picture: :class:`~skstruct.Pairwise` takes the features
# of the nodes and the edges between them. This part needs scikit-image, the extra "examples".

try:
    from skimage.segmentation import mark_boundaries, slic
except ImportError:
    slic = None
    print("superpixels: pip install scikit-image")


def superpixels(image, labels):
    """Means and deviations of regions, edges with the length of the common border; labels."""
    regions = slic(image[..., 0], 150, compactness=0.1, sigma=1, channel_axis=None, start_label=0)
    size = np.bincount(regions.ravel())
    mean = np.bincount(regions.ravel(), image.ravel()) / size
    square = np.bincount(regions.ravel(), image.ravel() ** 2) / size
    features = np.column_stack([mean, np.sqrt(np.maximum(square - mean**2, 0.0))])
    touching = np.concatenate(
        [
            np.stack([regions[:, :-1].ravel(), regions[:, 1:].ravel()], axis=1),
            np.stack([regions[:-1].ravel(), regions[1:].ravel()], axis=1),
        ]
    )
    touching = np.sort(touching[touching[:, 0] != touching[:, 1]], axis=1)
    edges, border = np.unique(touching, axis=0, return_counts=True)
    majority = (np.bincount(regions.ravel(), labels.ravel()) > size / 2).astype(int)
    return (features, edges, border[:, None] / 10.0), majority, regions


if slic is not None:
    sample, labels, _ = superpixels(grey[:, :60], truth[:, :60])
    whole, _, regions = superpixels(grey, truth)
    graph = Pairwise(interactions="potts", edge_features=True, attractive=True)
    coarse = BCFWSSVM(graph, tol=2e-2, random_state=0).fit([sample], [labels])
    result = coarse.predict([whole])[0][regions]
    print(f"{len(whole[0])} superpixels, {len(whole[1])} edges: overlap {overlap(result):.3f}")
    fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
    ax.imshow(mark_boundaries(grey[..., 0].clip(0, 1), regions, color=(0.2, 0.4, 1.0)))
    ax.imshow(np.ma.masked_equal(result, 0), cmap="autumn", alpha=0.6, vmin=0, vmax=1)
    ax.set_title(f"superpixels: {overlap(result):.3f}")
    ax.set_axis_off()
plt.show()

# %%
# **Next:** :doc:`/auto_examples/graphs/plot_scribbles` cuts out the flower without training;
# :doc:`/graphs` describes grids, superpixels and when inference is exact.
