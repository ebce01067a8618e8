"""
Bounds and scores: several methods on one model
===============================================

Each method of MAP inference says what it found, and a bound that no labelling passes. Where the two
meet, the labelling is proved to be optimal. Here they work on a picture of eight labels whose
neighbours attract each other by the contrast between them, as in scene decomposition.
"""

# sphinx_gallery_tags = ["MAP inference", "FactorGraph"]
# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

from skstruct.map_inference import FactorGraph, Table, solve_map

# %%
# Bands of eight labels with noise; a pair of neighbours pays for the distance of its labels, less
# where the picture has an edge.

rng = np.random.default_rng(0)
height, width, n_labels = 14, 18, 8
y, x = np.mgrid[: 1 : height * 1j, : 1 : width * 1j]
truth = np.floor(n_labels * (0.5 + 0.49 * np.sin(3 * x + 2 * np.cos(4 * y)))).astype(int)
image = truth + 1.5 * rng.standard_normal(truth.shape)
labels = np.arange(n_labels)
unaries = -np.abs(image.ravel()[:, None] - labels)
pixels = np.arange(image.size).reshape(image.shape)
scopes = np.concatenate(
    [
        np.column_stack([pixels[:-1].ravel(), pixels[1:].ravel()]),
        np.column_stack([pixels[:, :-1].ravel(), pixels[:, 1:].ravel()]),
    ]
)
contrast = np.abs(image.ravel()[scopes[:, 0]] - image.ravel()[scopes[:, 1]])
weights = np.where(contrast > 2, 0.5, 1.0)
distance = np.minimum(np.abs(labels[:, None] - labels), 3)
graph = FactorGraph(
    [n_labels] * image.size, [Table(scopes, -weights[:, None, None] * distance)], unaries=unaries
)
print(graph)

# %%
# Sequential sweeps (TRW-S) prove the optimum first, coordinate descent by stars (MPLP) after more
# passes; the smoothed dual is minimised by accelerated gradients, and Frank-Wolfe softens the
# constraints: their bounds are those of the plain relaxation, at their dual variables. A first pass
# of each compiles it, so that the clock shows the work alone.

methods: dict = {
    "TRW-S": ("trws", {}),
    "MPLP": ("coordinate-descent", {"smoothing": 0.0}),
    "accelerated gradient, L2": ("accelerated-gradient", {"smoothing": "l2", "gamma": 0.1}),
    "Frank-Wolfe": ("frank-wolfe", {"lam": 0.1}),
    "subgradient": ("subgradient", {}),
}
results = {}
for name, (method, parameters) in methods.items():
    solve_map(graph, method, max_iter=1, random_state=0, **parameters)
    results[name] = solve_map(graph, method, max_iter=150, random_state=0, **parameters)
    result = results[name]
    print(f"{name}: {result.n_iter} passes, {result.score:.3f} to {result.bound:.3f}")

fig, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
for x, ax in zip(("passes", "seconds"), axes, strict=True):
    for name, result in results.items():
        history = result.history_
        (line,) = ax.plot(history[x], history["bound"], ".-", label=f"{name}, bound")
        style = {"color": line.get_color(), "label": f"{name}, score"}
        ax.plot(history[x], history["score"], ".--", **style)
    ax.set(xlabel=x, ylabel="score and bound")
best = max(result.score for result in results.values())
lowest = min(result.bound for result in results.values())
for ax in axes:
    ax.set(xscale="log", ylim=(best - 40, lowest + 40))
axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")

# %%
# The labelling of the best score.

winner = max(results.values(), key=lambda result: result.score)
fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].imshow(image)
axes[0].set_title("picture")
axes[1].imshow(winner.labels.reshape(image.shape))
axes[1].set_title("best labelling" + (", proved" if winner.optimal else ""))
for ax in axes:
    ax.set_axis_off()
plt.show()

# %%
# **Next:** :doc:`/auto_examples/graphs/plot_scribbles` solves a large model exactly;
# :doc:`/map_inference` says which method suits which model.
