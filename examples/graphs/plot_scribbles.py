"""
Interactive segmentation: a flower cut out by four strokes
==========================================================

A user marks the flower in yellow and the background in blue; the computer does the rest. Colours of
the strokes give each pixel a score (a *unary*), neighbouring pixels prefer the same label, most of
all where they look alike, and a graph cut finds the best of all 2\\ :sup:`68160` segmentations.
Nothing is trained.
"""

# sphinx_gallery_tags = ["image segmentation", "MAP inference", "FactorGraph"]
# sphinx_gallery_thumbnail_number = 2
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.mixture import GaussianMixture

from skstruct.map_inference import FactorGraph, Potts, solve_map

photo = load_sample_image("flower.jpg")[:426].reshape(213, 2, 320, 2, 3).mean(axis=(1, 3)) / 255
pixels = np.arange(213 * 320).reshape(213, 320)

# %%
# Strokes are drawn between points (row, column). One of the blue strokes crosses a second flower,
# which has the colours of the first: the user does not want it.


def stroke(*points):
    r, c = np.indices(pixels.shape)
    drawn = np.zeros(pixels.shape, dtype=bool)
    for start, end in pairwise(points):
        for row, column in np.linspace(start, end, 100):
            drawn |= np.hypot(r - row, c - column) < 3
    return drawn


flower = stroke((130, 100), (75, 150), (105, 195), (150, 175))
background = stroke((30, 15), (25, 290), (150, 265)) | stroke((100, 30), (175, 110))
background |= stroke((202, 155), (202, 215))

# %%
# A mixture of Gaussians of the colours under each kind of stroke. The log-odds of the two are the
# unaries; they are clipped, so that no pixel can outvote its neighbours by its colour alone. Marked
# pixels have one possible label: the other one scores minus infinity.

colours = photo.reshape(-1, 3)
flowers, others = (
    GaussianMixture(5, random_state=0).fit(photo[marked]).score_samples(colours)
    for marked in (flower, background)
)
log_odds = np.clip(flowers - others, -1, 1)
unaries = np.column_stack([np.zeros(len(colours)), log_odds])
unaries[flower.ravel(), 0] = unaries[background.ravel(), 1] = -np.inf

# %%
# Two neighbours with the same label score 1 to 21, by how alike their colours are. These numbers,
# and the bound of the log-odds, were chosen by looking at results for this photograph. All pairs
# attract, so the minimum cut is the MAP labelling; ``optimal`` says that this is proved.

i = np.concatenate([pixels[:-1].ravel(), pixels[:, :-1].ravel()])
j = np.concatenate([pixels[1:].ravel(), pixels[:, 1:].ravel()])
distance = np.sum((colours[i] - colours[j]) ** 2, axis=1)
pairs = Potts(i, j, 1 + 20 * np.exp(-distance / (2 * distance.mean())))
result = solve_map(FactorGraph([2] * len(colours), [pairs], unaries=unaries))
found = result.labels.reshape(pixels.shape) == 1
print(f"{len(i):,} pairs of neighbours, {found.sum():,} pixels of flower, proved: {result.optimal}")

# %%
# By its colours, the rim of the flower could be background, and the second flower could be both.
# The cut follows the contours instead.

marked = photo.copy()
marked[flower], marked[background] = (1.0, 0.85, 0.0), (0.1, 0.6, 1.0)
dimmed = np.where(found[..., None], photo, 0.3 * photo.mean(axis=2, keepdims=True))
fig, axes = plt.subplots(2, 2, figsize=(9, 6.6), layout="constrained")
axes[0, 0].imshow(photo)
axes[0, 1].imshow(marked)
axes[1, 0].imshow(log_odds.reshape(pixels.shape), cmap="PuOr_r", vmin=-2, vmax=2)
axes[1, 1].imshow(dimmed)
titles = ("photograph", "strokes of the user", "unaries: log-odds of the colour", "graph cut")
for ax, title in zip(axes.flat, titles, strict=True):
    ax.set_title(title)
    ax.set_axis_off()

# %%
# The flower on another background:

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.imshow(np.where(found[..., None], photo, load_sample_image("china.jpg")[:426:2, ::2] / 255))
ax.set_axis_off()
plt.show()

# %%
# **Next:** :doc:`/auto_examples/graphs/plot_photo_segmentation` learns the weights from labelled
# images; :doc:`/auto_examples/map_inference/plot_map_segmentation` adds the size of the object;
# :doc:`/map_inference` has all factors and methods.
