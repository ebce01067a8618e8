"""
Segmentation of a noisy image whose object has a known size
===========================================================

Pixels score their labels by their grey, neighbours score by agreeing. What is known about the
whole image is one factor of all pixels: a cardinality factor, which costs nothing while the object
has about the expected size. It is never written out, its table would have 2 ** 3072 entries.
"""

# sphinx_gallery_tags = ["image segmentation", "MAP inference", "FactorGraph"]
import matplotlib.pyplot as plt
import numpy as np

from skstruct.map_inference import Cardinality, FactorGraph, Potts, solve_map

# %%
# A photograph of low contrast: an ellipse with a bite, a second small thing, much noise.

rng = np.random.default_rng(0)
height, width = 48, 64
y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
truth = (x / 0.6) ** 2 + (y / 0.7) ** 2 < 1
truth &= (x - 0.5) ** 2 + (y + 0.4) ** 2 > 0.12
image = truth + 1.6 * rng.standard_normal(truth.shape)

# %%
# The model: log-likelihood ratios of a pixel, with a threshold that is set too high (the object is
# brighter than in this photograph), and one weight for all pairs of neighbours.

pixels = np.arange(image.size).reshape(image.shape)
i = np.concatenate([pixels[:-1].ravel(), pixels[:, :-1].ravel()])
j = np.concatenate([pixels[1:].ravel(), pixels[:, 1:].ravel()])
unaries = np.stack([np.zeros(image.size), (image.ravel() - 0.75) / 1.6**2], axis=1)
pairs = Potts(i, j, 0.75)
# The expected number of pixels, and how far off is as good: the paper takes a fifth.
target = truth.sum()
size = Cardinality.quadratic_hinge(pixels.ravel(), target, slack=target / 5)

graphs = {
    "pixels alone": FactorGraph([2] * image.size, unaries=unaries),
    "neighbours agree": FactorGraph([2] * image.size, [pairs], unaries=unaries),
    "and the size is known": FactorGraph([2] * image.size, [pairs, size], unaries=unaries),
}

# %%
# Without the large factor this is a minimum cut, which is exact. With it, Frank-Wolfe maximises
# every factor as it is; the bound says how good its labelling is at least.

methods: list = [("auto", {}), ("auto", {}), ("frank-wolfe", {"lam": 0.01})]
results = {
    name: solve_map(graph, method, max_iter=300, random_state=0, **parameters)
    for (name, graph), (method, parameters) in zip(graphs.items(), methods, strict=True)
}
fig, axes = plt.subplots(2, 2, figsize=(8, 6.6), layout="constrained")
axes[0, 0].imshow(image, cmap="gray")
axes[0, 0].set_title(f"{target} pixels to find")
for ax, (name, result) in zip(axes.flat[1:], results.items(), strict=True):
    found = result.labels.reshape(image.shape)
    union = (found | truth).sum()
    overlap = (found & truth).sum() / union if union else 0.0
    print(
        f"{name}: {found.sum()} pixels, overlap {overlap:.2f}, score {result.score:.2f}, "
        f"at most {result.bound:.2f}"
    )
    ax.imshow(found, cmap="gray")
    ax.set_title(f"{name}: overlap {overlap:.2f}")
for ax in axes.flat:
    ax.set_axis_off()
plt.show()

# %%
# **Next:** :doc:`/auto_examples/map_inference/plot_map_bounds` compares methods;
# :doc:`/map_inference` has all factors.
