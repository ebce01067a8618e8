"""
Where is the flower? Boxes scored by the words inside
=====================================================

A flower is pasted somewhere into pieces of another photograph, in many sizes. Small patches become
visual words; the score of a box comes from the words inside it. Learning counts how little a box
overlaps with the true one, not just whether it is the same.
"""

# sphinx_gallery_tags = ["object localisation", "Boxes", "Candidates"]
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_sample_image

from skstruct import BCFWSSVM, Boxes, Candidates
from skstruct.metrics import average_precision, corloc_score, iou
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import BoxProposals, PatchWords

# %%
# Images of 80 x 112 pixels, and the boxes (xmin, ymin, xmax, ymax) of the flowers in them.

rng = np.random.default_rng(0)
china = load_sample_image("china.jpg")[::3, ::3] / 255.0
flower = load_sample_image("flower.jpg")[100:380, 140:460] / 255.0


def paste():
    """A piece of one photograph with the other one's flower in it, an ellipse."""
    top, left = rng.integers(0, [china.shape[0] - 80, china.shape[1] - 112])
    image = china[top : top + 80, left : left + 112].copy()
    height, width = rng.integers(24, 56), rng.integers(28, 64)
    small = zoom(flower, (height / 280, width / 320, 1), order=1).clip(0, 1)
    y, x = rng.integers(0, [80 - height, 112 - width])
    row, column = np.mgrid[-1 : 1 : 1j * height, -1 : 1 : 1j * width]
    inside = row**2 + column**2 < 1
    image[y : y + height, x : x + width][inside] = 0.8 * small[inside]
    return image, (x, y, x + width, y + height)


images, truth = map(list, zip(*(paste() for _ in range(60)), strict=True))
y, y_test = truth[:40], truth[40:]

# %%
# Words are the clusters of the colours and of the edges of patches.

words = PatchWords(24, 32, n_patches=4000, random_state=0)
X, X_test = words.fit_transform(images[:40]), words.transform(images[40:])

# %%
# Candidates are the boxes of a sliding grid. ``loss="iou"`` counts 1 for a box beside the flower,
# less for one that covers a part of it. With ``loss="hamming"`` all boxes but one are as wrong.

fits: dict = {}


def report(name, model):
    """Train, and look at the test images."""
    fits[name] = model.fit(X, y)
    found = model.predict(X_test)
    overlap, right = iou(y_test, found).mean(), corloc_score(y_test, found)
    print(f"{name:10} mean overlap {overlap:.3f}, at least half: {right:.2f}")


for loss in ("hamming", "iou"):
    svm = BCFWSSVM(Candidates("box"), C=10.0, loss=loss, tol=0.05, random_state=0)
    report(loss, make_pipeline(BoxProposals(), svm))

# %%
# Or search all boxes: where the score of a box is the sum of the scores of its words, branch and
# bound finds the best of all exactly, in training, too.

svm = BCFWSSVM(Boxes(min_size=16, stride=4), C=0.01, loss="iou", tol=0.05, random_state=0)
report("all boxes", svm)

# %%
# Scores rank detections of several images. Here half of the images are without a flower.

empty = words.transform([china[k : k + 80, k : k + 112] for k in range(20)])
table = fits["iou"][:-1].transform([*X_test, *empty])
svm = fits["iou"][-1]
boxes = svm.predict(table)
scores = [max(row) for row in svm.decision_function(table)]
print(
    f"average precision {average_precision([[b] for b in y_test] + [[]] * 20, boxes, scores):.3f}"
)

colours = {"true": "white", "iou": "tab:orange", "all boxes": "cyan"}
shown = {"true": y_test, "iou": boxes[:20], "all boxes": fits["all boxes"].predict(X_test)}
fig, axes = plt.subplots(2, 2, figsize=(7, 5), layout="constrained")
for i, ax in enumerate(axes.flat):
    ax.imshow(images[40 + i])
    for name, colour in colours.items():
        x0, y0, x1, y1 = shown[name][i]
        frame = plt.Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, color=colour, lw=2)
        frame.set_label(name)
        ax.add_patch(frame)
    ax.set_axis_off()
axes[0, 0].legend(loc="lower left", fontsize=8)
plt.show()

# %%
# **Next:** :doc:`/items` describes boxes, candidates and their losses.
